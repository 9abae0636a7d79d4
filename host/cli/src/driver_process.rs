//! `fuchsine driver-process`: the child of a host, in which a driver with `process = …` runs. Not for people.

use std::io::Write;
use std::process::Command;

use crate::built_in;
use crate::exit::Exit;

/// The name of the hidden subcommand.
const NAME: &str = "driver-process";

/// The command that starts one: this very program, also after its file was replaced.
pub(crate) fn command() -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("fuchsine").arg(NAME);
    command
}

pub(crate) fn run(setup: &str) -> Exit {
    match fuchsine_host::run_driver_process(&built_in::registry(), setup) {
        Ok(()) => Exit::Done,
        Err(error) => {
            // It goes to the log of the host, if there is one.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            Exit::Failed
        }
    }
}
