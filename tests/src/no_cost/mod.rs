//! Whether the hooks of the testing kit cost anything in production: three builds of one program and what they differ in.
//!
//! 1. [`build`] copies the dispatcher package and the program `tests/no-cost/main.rs` into a workspace of their own and
//!    builds them with the release profile as it is shipped: plain, with the calls of the hooks deleted from the text,
//!    and as a control with hooks that count.
//! 2. [`hooks`] finds and deletes those calls.
//! 3. [`listing`] takes the machine code apart into functions, without the addresses.

pub mod build;
pub mod hooks;
pub mod listing;
