//! The older life cycle of Fuchsia's drivers, DFv1, as an adapter over [`fuchsine_driver`].
//!
//! A driver of that kind has one hook, [`bind`](Dfv1::bind), which adds *devices*. Each device has hooks of its own:
//!
//! 1. [`init`](DeviceOps::init): the device is there but invisible until the hook replies. A reply that is a failure removes
//!    it.
//! 2. [`unbind`](DeviceOps::unbind): it is to go. What it has under way comes to an end, and after the reply no new
//!    requests come.
//! 3. [`release`](DeviceOps::release): the last call; the device is its own again and drops what it has.
//!
//! A device may have child devices. It is removed from the leaves up: a child is unbound and released before its parent is
//! unbound, as for DFv1 drivers inside of a DFv2 host. A device that is visible is a node, so drivers bound to it stop before
//! any of that.
//!
//! All hooks run on the default dispatcher of the driver, one at a time. The release of the last device that stands on the
//! parent itself is the one exception: it comes after all dispatchers of the driver have shut down, on one of the host, as
//! [`Driver::stop`](fuchsine_driver::Driver::stop) does.
//!
//! # What becomes of it
//! - `bind` fails, or adds no device: those that it did add are unbound and released, and the driver has not started.
//! - The last device is removed: the driver has done its work and ends; if it is because its `init` failed, it has failed.
//! - A hook panics: no hook is called any more, and the devices are dropped without their release.
//!
//! # Examples
//! ```
//! use fuchsine_dfv1::{Adapter, DeviceArgs, DeviceOps, Dfv1, InitTxn, ParentDevice};
//! use fuchsine_driver::{DriverEntry, StartError};
//!
//! struct Lamp;
//! impl DeviceOps for Lamp {
//!     fn init(&self, txn: InitTxn) {
//!         txn.reply(Ok(()));
//!     }
//! }
//!
//! struct LampDriver;
//! impl Dfv1 for LampDriver {
//!     const NAME: &'static str = "lamp";
//!     async fn bind(parent: ParentDevice) -> Result<(), StartError> {
//!         parent.add(DeviceArgs::new("lamp").property("protocol", "light"), Lamp)?;
//!         Ok(())
//!     }
//! }
//!
//! pub const DRIVER: DriverEntry = DriverEntry::of::<Adapter<LampDriver>>();
//! assert_eq!(DRIVER.name(), "lamp");
//! ```

mod adapter;
mod device;
mod signal;
mod tree;
mod txn;

pub use adapter::{Adapter, Dfv1};
pub use device::{AddError, Device, DeviceArgs, DeviceOps, ParentDevice};
pub use txn::{InitTxn, UnbindTxn};
