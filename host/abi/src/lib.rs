//! The C interface of Fuchsia's driver runtime, over Fuchsine's dispatchers.
//!
//! The headers are in `include/`; this is the library behind them. From the C side inwards:
//!
//! - [`types`], [`status`]: what the headers declare, with the same layout and the same values.
//! - [`exports`]: the functions that C calls. Each goes through one [`Table`](table::Table) of functions.
//! - [`host`], [`protocol`]: what a host calls, and how it and a driver in C talk.
//! - `implementation`: those functions, over `fuchsine-dispatcher`.
//!
//! Why a table: a C module that is loaded into a host links this library as a shared one, with a copy of the dispatcher
//! code of its own. The host, which has this package linked in, gives the module's copy its own table
//! ([`fuchsine_abi_attach`]) before it calls into the module, so that the module works on the host's runtime. In a program
//! without a host the first call installs the library's own table, and `fdf_env_start` starts a runtime.
//!
//! A panic never crosses the boundary: it becomes `ZX_ERR_INTERNAL`, or ends the process with a message where there is
//! no status to return. A C callback must not throw and must not `longjmp` out of itself.
//!
//! # Invariants
//! - A pointer that C hands in is followed only as far as the documentation of the function says that it may be.
//! - What C keeps for us inside of its own structures (`async_state_t`) is a key that is looked up, never a pointer that is
//!   followed: a structure that was not cleared, or is used twice, is found out.
#![allow(
    unsafe_code,
    reason = "C hands in plain pointers; what may be done with which is said at each function and in the headers"
)]

pub mod exports;
pub mod host;
mod implementation;
pub mod protocol;
pub mod status;
pub mod table;
pub mod types;

pub use table::fuchsine_abi_attach;
