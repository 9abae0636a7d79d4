//! Example driver: asks of its host what the table of functions offers, and tells what does not hold.
//!
//! A host that keeps its promises starts it; with another one its start fails, and names what was expected. It is the same
//! whether it is linked in, loaded as a module, or run in a test: that is what it is for. Each check is also an example of
//! what it checks.
//!
//! | file | what |
//! |---|---|
//! | `driver` | the hooks, and the list of checks |
//! | `calls` | calls over channels |
//! | `tokens` | tokens |
//! | `irqs` | irqs |
//! | `power` | suspend and resume |
//! | `told` | values on their way from callbacks to the future that checks |

mod calls;
mod driver;
mod irqs;
mod power;
mod tokens;
mod told;

use fuchsine_driver::DriverEntry;

pub use driver::Selftest;

/// What a host needs to know of this driver.
pub const DRIVER: DriverEntry = DriverEntry::of::<Selftest>();
