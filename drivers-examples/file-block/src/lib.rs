//! Example driver: a block device on a file.
//!
//! It binds to no node, publishes a child with the property `protocol = "block"` and serves the block protocol there, to
//! any number of clients at once. What is short and in the page cache is done at once, where it arrives. All else may block, so
//! it is done by a worker thread of the slow lane and answered from there.
//!
//! | file | what |
//! |---|---|
//! | `driver` | life cycle: open and lock the file, publish the node, a last flush |
//! | `device` | from a request to its answer, in place or by a worker thread |
//! | `pace` | whether a short write may be done in place |
//! | `store` | reads, writes, holes and flushes of the file, as calls that block, and reads and writes that do not |
//! | `backing` | the file itself: found or made, locked, of the right size |
//! | `lock` | one device a file |
//! | `config` | the keys of the manifest |
//!
//! # Invariants
//! - A flush that was answered well covers every change that was answered before it was asked for: the change is in the
//!   file, and the file is on its medium. So both a killed host and a loss of power leave it there.
//! - Once the system has said that a flush failed, nothing is promised any more: changes and flushes are refused until the
//!   driver is started anew, since the system forgets what it could not write.
//! - A file that can be changed has one device at a time, in all hosts of a machine.
//!
//! # Shutdown
//! Requests that wait for a worker when the dispatcher shuts down are answered `Canceled`; those under way are finished and
//! answered, where zeroing a long range gives up between two pieces. `prepare_stop` flushes, and a failure is that of the
//! stop; `stop` gives the lock back.
//!
//! # Panics
//! A panic in a request answers it `Canceled`, and the driver tells its host that it cannot go on.

mod backing;
mod config;
mod device;
mod driver;
mod lock;
mod pace;
mod store;

use fuchsine_driver::DriverEntry;

pub use driver::FileBlock;

/// What a host needs to know of this driver.
pub const DRIVER: DriverEntry = DriverEntry::of::<FileBlock>();
