//! The boundary between a host and its drivers: a table of C functions, and C structs for all that crosses it.
//!
//! A driver crate never uses this module; it uses the safe types at the root of the crate, which are built on it. It is
//! for hosts, and for drivers in other languages. A driver may be linked into the host or loaded as a module with its
//! own copy of every crate; both talk through the same table, so no Rust type, no thread-local and no panic crosses.
//!
//! # How a host implements it
//! 1. Fill one `static` [`Table`], its header with [`Header::of::<Table>()`](Header::of). Objects behind the opaque
//!    pointers are the host's: typically `Arc::into_raw` for what is reference counted, `Box::into_raw` for the rest.
//! 2. Take a [`DriverEntry`], check its header, and for each instance make a context (name, configuration, node, default
//!    dispatcher).
//! 3. *Start*: call [`DriverEntry::start`] with the default dispatcher. The hook spawns its future there and tells its
//!    end through the [`Completion`]; on success the host owns the instance.
//! 4. *Stop*, after the children are gone: call `prepare_stop` with the default dispatcher and wait for its completion
//!    (or for a deadline); shut all dispatchers of the driver down and wait for their end; call `stop` with a dispatcher
//!    of the host's own, because the driver has none left. `stop` consumes the instance. A driver that
//!    has panicked gets `destroy` instead of both hooks. A failed `start` has no instance: only the dispatchers are shut
//!    down.
//! 5. *Configuration*: one JSON object with the keys of the entry. Sizes arrive as bytes, durations as milliseconds,
//!    lists of texts as arrays; keys that were left out have their default, or are absent if that is empty.
//! 6. Whatever driver code runs (callbacks, polls, drops) may return a [`Panic`]. The module [`host`] has owners for
//!    the structs that a host receives; they call each exactly once and turn a report into a panic on the host's own
//!    side, where its runtime catches it and applies its policy.
//!
//! # Invariants that the unsafe code in this folder keeps
//! - Every owned pointer is held by exactly one Rust value, which gives it back in its `Drop`.
//! - The table is attached before the first safe handle exists, and never replaced ([`attach`]).
//! - Every function that the host may call is a trampoline that catches panics; none unwinds.
//! - A closure or future crosses the boundary only if it is `Send + 'static`.
//! - An image is never unmapped once it has been loaded: texts, functions and [call sites](CallSite) stay where they are.

#![allow(unsafe_code, reason = "the C boundary; each file states what it relies on")]

mod attach;
mod call;
mod calls;
mod channel;
mod child;
mod closure;
mod entry;
mod export;
#[cfg(test)]
pub(crate) mod fake;
mod future;
mod hooks;
pub mod host;
mod irq;
mod module;
mod note;
mod objects;
mod offload;
mod parts;
mod power;
mod site;
mod socket;
mod table;
mod text;
mod token;
mod types;

pub use attach::attach;
pub use calls::*;
pub(crate) use channel::{ArenaObject, Buffer, ChannelObject};
pub use channel::{Handle, HandleKind};
pub(crate) use child::{Accept, ChildObject};
pub(crate) use closure::{Content, FromReady};
pub use entry::{ConfigKey, ConfigKind, DriverEntry};
pub(crate) use irq::{BindingObject, IrqObject, TriggerObject};
pub use module::{MODULE_SYMBOL, ModuleEntry, ModuleHost};
pub(crate) use module::{host_logs, log_to_host};
pub use note::{DriverNote, KeyNote, ModuleNote, NOTE_FORMAT, NOTE_NAME, NOTE_TYPE, Note};
pub use objects::StopToken;
pub(crate) use objects::{
    ContextObject, DispatcherObject, JoinObject, Observer, OffloadObject, TaskObject, WaitObject, blocking,
    current_time,
};
pub use parts::*;
pub(crate) use power::WakeVectorObject;
pub use site::CallSite;
pub(crate) use site::here;
pub(crate) use socket::{SocketObject, begin_wait_fd};
pub use table::Table;
pub(crate) use token::TokenObject;
pub use types::*;
