//! What the tests across packages share: the built command, a running host, real clients, a raw NBD client.
//!
//! Purpose: a test in `tests/tests/` should say what it claims and nothing about how processes are found,
//! started, watched and ended. Those parts are here, one noun a file:
//!
//! - [`command`] builds the `fuchsine` command once a test process and tells where Cargo put it;
//! - [`process`] runs a process under a hang limit, and reads what the kernel says about it;
//! - [`host`] is a running host as a guard: started, its ready line read, stopped or killed by its id;
//! - [`c`] compiles programs in C against our headers, and runs what they claim;
//! - [`clients`] finds programs that are not ours (`qemu-io` and the like) and skips loudly without them;
//! - [`nbd`] is a small NBD client of our own, written from the protocol and not from the driver's code, which
//!   can also say what no decent client says;
//! - [`no_cost`] compares the machine code of builds with and without the hooks of the testing kit;
//! - [`pools`] runs a scenario on the foreground runtime and on pools of several sizes;
//! - [`random`] is a seeded generator, so that every failing run can be repeated;
//! - [`rules`] are the rules of Fuchsia's driver runtime, with what became of them and the tests that show it;
//! - [`source`] is the workspace's own text, for the rules in `tidy.rs`;
//! - [`summary`] reads the numbers that a host gives when it has stopped.
//!
//! Invariants: a process that a test started has ended when the guard for it is dropped, whatever the test did.
//! No helper asserts on time; limits such as [`process::HANG_LIMIT`] only turn a hang into a failure.

pub mod c;
pub mod clients;
pub mod command;
pub mod host;
pub mod nbd;
pub mod no_cost;
pub mod pools;
pub mod process;
pub mod random;
pub mod rules;
pub mod source;
pub mod summary;
