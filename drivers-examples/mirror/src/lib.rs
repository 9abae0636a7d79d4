//! Example driver: one block device on several others, which survives the loss of all but one of them.
//!
//! It is a composite: each of the block devices below it, its *legs*, is a parent with a name. It publishes a child with the
//! property `protocol = "block"`; what is written there is written to every leg, and read from any.
//!
//! | file | what |
//! |---|---|
//! | `driver` | life cycle; looks for legs that have come back |
//! | `array` | which leg is in which state, and the requests of clients |
//! | `ranges` | who may write where at the same time, as pure code |
//! | `sync` | gives a leg that was away what it has missed |
//! | `label` | what is written on a leg about the mirror, and what follows from several of them |
//! | `gate` | how futures wait for a change |
//! | `config` | the keys of the manifest |
//!
//! # Invariants
//! - A leg that has missed a change is never read from. It is out before the change is answered, and the labels of the others
//!   say so by then, so that a mirror which is started anew knows too.
//! - Two writes that overlap do not run at once: legs may do them in different orders, and would differ for ever.
//! - A leg is copied to piece by piece, and no write touches the piece meanwhile; all others go to that leg too.
//! - As long as the mirror is open its labels say so. After a host was killed, writes under way may be on some legs only, so
//!   all but one are copied to.
//!
//! # Shutdown
//! `prepare_stop` refuses further requests, waits for those under way, flushes, and labels the legs as closed in order. When
//! legs are stopped before the mirror that fails, and the next start copies.
//!
//! # Panics
//! A panic in a request answers it `Canceled`; the host then deals with the driver by its policy.

mod array;
mod config;
mod driver;
mod gate;
mod label;
mod ranges;
mod sync;

use fuchsine_driver::DriverEntry;

pub use driver::Mirror;

/// What a host needs to know of this driver.
pub const DRIVER: DriverEntry = DriverEntry::of::<Mirror>();
