//! What it costs a driver to be loaded: the same two drivers linked in and from a module, beside each other.
//!
//! 1. Each measurement is a process of its own with a host of one thread, all in turn, round after round.
//! 2. The driver `load` posts to itself, or calls the driver `echo` inline, and says what that took and how much of it it has
//!    seen happen.
//! 3. The medians of the rounds are told, and the ratios of loaded to linked; more than [`LIMIT`] fails. With
//!    `--instructions` valgrind counts instead, which comes out the same on a busy machine.

mod command;
mod measure;
mod module;
mod report;

use std::process::ExitCode;

/// So many times as much as linked in may a loaded driver take.
const LIMIT: f64 = 1.3;

fn main() -> ExitCode {
    match command::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("fuchsine-boundary: {message}");
            ExitCode::FAILURE
        }
    }
}
