//! Drivers in processes of their own.
//!
//! A driver with `process = …` in the manifest is, to the rest of the host, a *stand-in*: a linked driver under that driver's
//! name, which has the real one run in a child process. So binding, policies, restarts and the order of stops are those of
//! any driver. In the child a host of its own runs three drivers for it:
//!
//! ```text
//!   host                                   child
//!
//!   parent's node                          above ── has a node like that one
//!      │                                     │
//!   stand-in ════════ a session ════════ the driver itself
//!      │                                     │
//!   its children, with whoever             below ── one on each child of the driver; has the stand-in add
//!   is bound to them                                the same child, and remove it
//! ```
//!
//! - A *session* is one instance in one child: a channel over a bridge, on which one JSON text is one message (`protocol`).
//!   Connections to services cross it as ends of channels, in both directions, and are bridges of their own from then on.
//! - A driver stops whole, from its `prepare_stop` to its destruction, while the stand-in is in its `prepare_stop`: after
//!   the drivers on its children, and before its parent.
//! - A child process that ends takes its sessions with it. Each stand-in then fails with a sentence that names the end; what
//!   follows is its policy's.
//! - What a child logs comes by a socket that whoever logs writes to, so that the last line before a crash is there; what it
//!   writes on its standard error comes by a pipe.
//!
//! # Parts
//! | file | noun | side |
//! |---|---|---|
//! | `plan` | what the manifest says about the process of a driver | host |
//! | `process` | a child process with the drivers in it, and its end | host |
//! | `output` | what a child logs and writes | host |
//! | `stand_in` | the driver that stands for another one | host |
//! | `protocol` | what is said, as messages | both |
//! | `far` | the program of the child | child |
//! | `session` | one driver in the child, with a host of its own | child |
//! | `around` | the drivers above and below it | child |
//! | `far_log` | the log of the child, on its way to the host | child |
//!
//! # What differs from a driver in the host
//! The numbers of `fuchsine ps` are those of its stand-in. What holds for channels over bridges stands at the head of `process`.

mod around;
mod far;
mod far_log;
mod output;
mod plan;
mod process;
mod protocol;
mod session;
mod stand_in;

pub use far::run_driver_process;
pub(crate) use plan::{Apart, ModuleFile, ProcessName};
pub(crate) use process::{Processes, Program};
pub(crate) use protocol::Dumped;
pub(crate) use stand_in::entry_for;

/// The property by which the driver of a session finds its node. Drivers do not see it.
pub(crate) const MARK: &str = "fuchsine/session";
