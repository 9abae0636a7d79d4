//! Two drivers whose every operation crosses the table of functions between a driver and its host.
//!
//! The same source is linked into the bench and built as a module, so what differs between the two is where its code lies:
//! in the host's own image, or in one that was loaded.
//!
//! | driver | what it does |
//! |---|---|
//! | `echo` | publishes a node with a service that counts each message and sends it back, from an inline call |
//! | `load` | posts or calls so many times as its `work` says, and publishes what that took as its address |
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench reads clocks and keeps what it has seen as any driver may, and no model checker looks at it"
)]

mod echo;
mod load;
mod took;

use fuchsine_driver::DriverEntry;

pub use echo::Echo;
pub use load::Load;

/// The driver that answers.
pub const ECHO: DriverEntry = DriverEntry::of::<Echo>();

/// The driver that asks.
pub const LOAD: DriverEntry = DriverEntry::of::<Load>();
