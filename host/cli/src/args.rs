//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

const AFTER_HELP: &str = "\
Examples:
  fuchsine run
      Serve a ramdisk of 64 MiB at nbd://127.0.0.1:10809/ramdisk
  fuchsine run --set nbd.listen=127.0.0.1:0 --set ramdisk.size=1GiB
      The same with any free port (the ready line tells which) and another size
  fuchsine run host.toml --log debug
      Run the drivers of a manifest, and say more about it
  fuchsine check host.toml
      Find every mistake in a manifest without running it

Exit codes:
  0    done; for `run`: stopped in order after a signal
  1    a driver failed: it could not start, or failed for good later
  2    wrong usage
  4    the manifest or a --set is invalid, or a module that it names is not used
  5    a module that `drivers` was asked about would not be used
  6    the stop deadline passed; standard error tells who is stuck where
  130  ended at once by a second SIGINT
  143  ended at once by a second SIGTERM

Environment:
  FUCHSINE_MODULE_PATH
             folders with loadable modules, separated by colons; the user's and the system's come after them
  RUST_LOG   filter of the log, when --log is not given, such as `info,nbd=debug`
  NO_COLOR   no colours, on a terminal neither";

const AFTER_RUN_HELP: &str = "\
When all drivers have started, one line is written on standard output: `ready:` and the addresses that they published.
SIGINT and SIGTERM stop the drivers in order, children first; a second signal ends the program at once. SIGUSR1 writes
what every dispatcher does and holds on standard error, also while something is stuck.

Examples:
  fuchsine run
  fuchsine run --set nbd.listen=unix:/run/disk.sock
  fuchsine run host.toml --set disk.image=/srv/disk.img";

const AFTER_DRIVERS_HELP: &str = "\
Modules are looked for in the folders of FUCHSINE_MODULE_PATH, then in $XDG_DATA_HOME/fuchsine/modules
(~/.local/share/fuchsine/modules), /usr/local/lib/fuchsine/modules and /usr/lib/fuchsine/modules. What a module is, is
read from its file; nothing of it is loaded or run.

Examples:
  fuchsine drivers
  fuchsine drivers target/release/libramdisk.so
      What this module is, or why no host would load it";

/// Runs driver-like modules on event-loop dispatchers, in one process.
#[derive(Debug, Parser)]
#[command(name = "fuchsine", version, after_long_help = AFTER_HELP, arg_required_else_help = true)]
#[command(after_help = "`--help` has examples and the exit codes.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) log: LogOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the drivers of a manifest until a signal comes.
    #[command(after_long_help = AFTER_RUN_HELP)]
    Run(RunOptions),
    /// Check a manifest without running anything.
    Check(CheckOptions),
    /// List the drivers that are built in or in modules, with their configuration.
    #[command(after_long_help = AFTER_DRIVERS_HELP)]
    Drivers(DriversOptions),
    /// Write what a C compiler has to be told to compile a driver in C.
    Cflags,
    /// Write what a C compiler has to be told to link a driver in C.
    Libs,
}

/// Which flags of a C compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CFlag {
    Compile,
    Link,
}

/// What is logged on standard error, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log options")]
pub(crate) struct LogOptions {
    /// off, error, warn, info, debug, trace, or a filter such as `info,nbd=debug`
    /// [default: RUST_LOG, else the manifest's, else info]
    #[arg(long, global = true, value_name = "LEVEL", value_parser = filter)]
    pub(crate) log: Option<String>,
    /// How log lines are written [default: the manifest's, else text]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines for people
    Text,
    /// JSON objects, one a line
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The manifest, a TOML file; without one: a ramdisk of 64 MiB, served by nbd on 127.0.0.1:10809
    pub(crate) manifest: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// How SIGUSR1 has the state of every dispatcher written on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) dump_on_signal: Format,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// The manifest, a TOML file
    pub(crate) manifest: PathBuf,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Set one configuration value of one driver, over the manifest; may be given several times. VALUE is a TOML value,
    /// or text without quotes
    #[arg(long = "set", value_name = "DRIVER.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DriversOptions {
    /// Modules to tell about, instead of what is built in and found
    #[arg(value_name = "MODULE")]
    pub(crate) modules: Vec<PathBuf>,
    /// Write JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

fn filter(text: &str) -> Result<String, String> {
    // Filters take a word alone for the name of a target, with everything else silent: nobody asks for that by a typo.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let mut words = text.split(',').map(str::trim).filter(|item| !item.contains(['=', '[']));
    if let Some(word) = words.find(|word| !is_level(word)) {
        return Err(format!(
            "`{word}` is no level; for a part of the program write `nbd=debug`, after a level for the rest"
        ));
    }
    EnvFilter::builder().parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn settings_keep_their_order_and_may_hold_anything() {
        let arguments =
            Arguments::try_parse_from(["fuchsine", "run", "--set", "a.b=c", "m.toml", "--set", "d.e=-1,f=\"g\""]);
        let Ok(Arguments { command: Command::Run(run), .. }) = arguments else { panic!("{arguments:?}") };
        assert_eq!(run.settings.set, ["a.b=c", "d.e=-1,f=\"g\""]);
        assert_eq!(run.manifest, Some(PathBuf::from("m.toml")));
    }

    #[test]
    fn a_filter_that_means_nothing_is_wrong_usage() {
        for level in ["info", "debug,nbd=trace", "off", "INFO", "nbd=debug", "info,[request]=trace"] {
            assert!(Arguments::try_parse_from(["fuchsine", "--log", level, "drivers"]).is_ok(), "{level}");
        }
        for level in ["nbd=loud", "verbose", "nbd", "info,verbose", ""] {
            let error = Arguments::try_parse_from(["fuchsine", "drivers", "--log", level]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{level}");
        }
    }
}
