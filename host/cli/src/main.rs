//! The `fuchsine` command: run, check and list drivers.
//!
//! Standard output carries what was asked for and nothing else: the ready line of `run`, the result of `check`, the
//! list of `drivers`, the flags of `cflags` and `libs`. Everything that the program has to say besides goes to standard error.

mod args;
mod built_in;
mod c_flags;
mod check;
mod drivers;
mod dump_signal;
mod exit;
mod log_writer;
mod logging;
mod output;
mod run;
mod signals;

use clap::Parser;

use args::{Arguments, CFlag, Command};

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let code = match &arguments.command {
        Command::Run(options) => run::run(options, &arguments.log),
        Command::Check(options) => check::check(options, &arguments.log),
        Command::Drivers(options) => drivers::list(options),
        Command::Cflags => c_flags::write(CFlag::Compile),
        Command::Libs => c_flags::write(CFlag::Link),
    };
    code.into()
}
