//! Example drivers: a serial port on a pseudo terminal, and one that sends back what comes over it.
//!
//! `pty-serial` holds the device side of a pseudo terminal, and does what the line discipline of a terminal does: lines that
//! can be corrected, echo, `^C` and `^D`. Any terminal program talks to the other side. Below it, on a node with the property
//! `protocol = "serial"`, a driver talks the byte protocol of [`protocol`]. `serial-echo` is the smallest one that does.
//!
//! | file | what |
//! |---|---|
//! | `driver` | life cycle of `pty-serial` |
//! | `port` | what comes in and goes out: queues, the window of the client, who waits for what |
//! | `discipline` | from keys to lines, as pure code |
//! | `protocol` | the messages between a port and the driver that uses it |
//! | `pty` | the pseudo terminal |
//! | `link` | the name by which it is found |
//! | `bell` | how one future wakes another |
//! | `echo` | the driver `serial-echo` |
//! | `config` | the keys of the manifest |
//!
//! # Limits
//! What waits to be written, the line that is being typed, and the messages under way each have a limit; who meets one waits,
//! and nothing is lost but what is typed beyond the longest line.
//!
//! # Shutdown
//! `prepare_stop` gives what was taken from the client a moment to be written. Then the futures are dropped; `stop` removes
//! the link, if it is still this port's.
//!
//! # Panics
//! A panic ends the driver, which its host deals with by its policy.

mod bell;
mod config;
mod discipline;
mod driver;
mod echo;
mod link;
mod port;
pub mod protocol;
mod pty;

use fuchsine_driver::DriverEntry;

pub use driver::PtySerial;
pub use echo::SerialEcho;

/// What a host needs to know of the port.
pub const DRIVER: DriverEntry = DriverEntry::of::<PtySerial>();

/// What a host needs to know of the driver that sends back what comes.
pub const ECHO: DriverEntry = DriverEntry::of::<SerialEcho>();
