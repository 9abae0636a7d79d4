//! Example driver: an end of the network on a TUN interface.
//!
//! A TUN interface hands IP packets to whoever holds it. This driver holds one and answers as a machine of its own would:
//! it has addresses of IPv4 and IPv6, answers pings, and echoes what comes over TCP. The protocols are those of `smoltcp`,
//! which runs on the driver's dispatcher: no thread, no lock that is waited for, and one wait on one descriptor.
//!
//! | file | what |
//! |---|---|
//! | `driver` | life cycle, and the loop of turns and waits |
//! | `stack` | packets in, packets out: addresses, routes, one bounded turn |
//! | `echo` | the connections |
//! | `wire` | what packets come from and go to, as the stack sees it |
//! | `tun` | the interface of the system |
//! | `config` | the keys of the manifest |
//!
//! # Limits
//! A turn takes a bounded number of packets and then lets others have theirs. A connection holds a fixed amount of memory,
//! and there is a fixed number of them; a peer that falls silent is dropped after a timeout.
//!
//! # Shutdown
//! `prepare_stop` resets the connections, so that their peers need not find out by themselves. The interface goes with the
//! driver, unless it was made to persist.
//!
//! # Panics
//! A panic ends the driver, which its host deals with by its policy.

mod config;
mod driver;
mod echo;
mod stack;
mod tun;
mod wire;

use fuchsine_driver::DriverEntry;

pub use driver::TunNet;

/// What a host needs to know of this driver.
pub const DRIVER: DriverEntry = DriverEntry::of::<TunNet>();
