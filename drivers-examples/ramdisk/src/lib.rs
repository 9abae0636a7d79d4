//! Example driver: a block device held in memory.
//!
//! It binds to no node, publishes a child with the property `protocol = "block"` and serves the block protocol there,
//! to any number of clients at once. Memory is used for what was written, not for the size of the device.
//!
//! | file | what |
//! |---|---|
//! | `driver` | life cycle: load the image, publish the node, save the image |
//! | `device` | what the block protocol asks, done on the store |
//! | `store` | the bytes, in pages that exist once they are written |
//! | `image` | the file behind the device |
//! | `config` | the keys of the manifest |
//!
//! # Shutdown
//! `prepare_stop` runs when all drivers that use the device have stopped. With an image it refuses further requests,
//! waits for those under way and saves; a failure is logged and reported as the failure of the stop, and the old image
//! is untouched. Requests that are still queued on the dispatcher when it is shut down are answered `Canceled`.
//!
//! # Panics
//! A panic in a request answers it `Canceled`; the host then deals with the driver by its policy.

mod config;
mod device;
mod driver;
mod image;
mod store;

use fuchsine_driver::DriverEntry;

pub use driver::Ramdisk;

/// What a host needs to know of this driver.
pub const DRIVER: DriverEntry = DriverEntry::of::<Ramdisk>();
