//! The `fuchsine` command: run, check and list drivers; ask and tell a host that runs.
//!
//! Standard output carries what was asked for and nothing else: the ready line of `run`, the result of `check`, the
//! list of `drivers`, the flags of `cflags` and `libs`, the answer of a host, what is generated. Everything that the program has to say besides goes to standard error.

mod args;
mod built_in;
mod c_flags;
mod check;
mod control;
mod discovery;
mod driver_process;
mod drivers;
mod dump_signal;
mod durations;
mod exit;
mod generate;
mod log_layer;
mod log_writer;
mod logging;
mod output;
mod reloading;
mod run;
mod service;
mod signals;

use clap::Parser;

use args::{Arguments, CFlag, Command};
use control::Operation;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let code = match &arguments.command {
        Command::Run(options) => run::run(options, &arguments.log),
        Command::Check(options) => check::check(options, &arguments.log),
        Command::Drivers(options) => drivers::list(options),
        Command::Ps(host) => control::ps(host),
        Command::Tree(host) => control::tree(host),
        Command::Dump(options) => control::dump(options),
        Command::Stop(options) => control::operate(options, Operation::Stop),
        Command::Start(options) => control::operate(options, Operation::Start),
        Command::Restart(options) => control::operate(options, Operation::Restart),
        Command::Load(options) => control::load(options),
        Command::Unload(options) => control::unload(options),
        Command::Bind(options) => control::bind(options),
        Command::Logs(options) => control::logs(options),
        Command::Wait(options) => control::wait(options),
        Command::Reload(host) => control::reload(host),
        Command::DriverProcess { setup } => driver_process::run(setup),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { dir } => generate::man(dir.as_deref()),
        Command::Cflags => c_flags::write(CFlag::Compile),
        Command::Libs => c_flags::write(CFlag::Link),
    };
    code.into()
}
