//! Example driver: does what drivers must not, one flag each.
//!
//! It is for seeing what a host does about it, and for the tests that see to it that the others live on. Without any
//! flag it is a driver that does nothing. What it does, it announces through `tracing`, so it shows as well where the
//! events of a loaded driver go.
//!
//! | file | what |
//! |---|---|
//! | `driver` | the hooks, each of which may misbehave |
//! | `deeds` | what it does |
//! | `config` | the keys of the manifest |

mod config;
mod deeds;
mod driver;

use fuchsine_driver::DriverEntry;

pub use driver::Misbehaver;

/// What a host needs to know of this driver.
pub const DRIVER: DriverEntry = DriverEntry::of::<Misbehaver>();
