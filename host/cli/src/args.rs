//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::durations;

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
  fuchsine ps
      What the host that runs has to say about its drivers

Exit codes:
  0    done; for `run`: stopped in order after a signal
  1    a driver failed: it could not start, or failed for good later
  2    wrong usage
  3    there is no such host, driver or node
  4    the manifest or a --set is invalid, or a module that it names is not used
  5    a module that `drivers` was asked about would not be used
  6    the stop deadline passed; standard error tells who is stuck where. Or what was waited for did not come in time
  130  ended at once by a second SIGINT
  143  ended at once by a second SIGTERM

Environment:
  FUCHSINE_CONTROL
             the control socket of `run`, and of the commands that ask a host; `none` for none
  FUCHSINE_MANIFEST
             the manifest of `run` when none is named; `none` for the built-in one
  FUCHSINE_MODULE_PATH
             folders with loadable modules, separated by colons; the user's and the system's come after them
  RUST_LOG   filter of the log, when --log is not given, such as `info,nbd=debug`
  NO_COLOR   no colours, on a terminal neither";

const AFTER_RUN_HELP: &str = "\
When all drivers have started, one line is written on standard output: `ready:` and the addresses that they published.
SIGINT and SIGTERM stop the drivers in order, children first; a second signal ends the program at once. SIGUSR1 writes
what every dispatcher does and holds on standard error, also while something is stuck; SIGQUIT does so and aborts.

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

const AFTER_OPERATE_HELP: &str = "\
Examples:
  fuchsine stop nbd
      Stop the driver that the manifest calls nbd, wherever it runs; its nodes stay, for nobody else
  fuchsine start nbd
  fuchsine restart /ramdisk/ramdisk
      Whatever is on that node (`fuchsine tree` lists them)";

const AFTER_COMPLETIONS_HELP: &str = "\
Examples:
  fuchsine completions bash > ~/.local/share/bash-completion/completions/fuchsine
  fuchsine completions zsh > ~/.zfunc/_fuchsine
  fuchsine completions fish > ~/.config/fish/completions/fuchsine.fish";

const AFTER_LOAD_HELP: &str = "\
What has a `/` in it or ends in `.so` is the file of a module, anything else the name of a driver.

Examples:
  fuchsine load ./libgreeting.so
  fuchsine load ramdisk --name scratch --set size=1GiB";

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
    /// List the drivers of a host that runs.
    Ps(HostChoice),
    /// Show the nodes of a host that runs, and who is on them.
    Tree(HostChoice),
    /// Write what the dispatchers of a host that runs do and hold.
    Dump(DumpOptions),
    /// Stop a driver, what sits on it first.
    #[command(after_long_help = AFTER_OPERATE_HELP)]
    Stop(OperateOptions),
    /// Start a driver that was stopped, has ended or failed.
    #[command(after_long_help = AFTER_OPERATE_HELP)]
    Start(OperateOptions),
    /// Stop a driver and start it again.
    #[command(after_long_help = AFTER_OPERATE_HELP)]
    Restart(OperateOptions),
    /// Run one more driver, until the manifest is read again.
    #[command(after_long_help = AFTER_LOAD_HELP)]
    Load(LoadOptions),
    /// Run a driver no more, until the manifest is read again.
    Unload(UnloadOptions),
    /// Say why a node has the driver that it has, or offer it anew.
    #[command(subcommand)]
    Bind(BindOptions),
    /// Show the last lines of a host's log, and follow it.
    Logs(LogsOptions),
    /// Wait until a host, or one of its drivers, is in a state.
    Wait(WaitOptions),
    /// Have a host read its manifest again and apply what is different.
    Reload(HostChoice),
    /// What a host starts to have a driver run in a process of its own.
    #[command(hide = true)]
    DriverProcess { setup: String },
    /// Write completions for a shell on standard output.
    #[command(after_long_help = AFTER_COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man page on standard output, or the pages of all commands into a folder.
    Man {
        /// The folder, which is made where it is missing
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
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
    /// The manifest, a TOML file
    /// [default: FUCHSINE_MANIFEST, else fuchsine/host.toml in $XDG_CONFIG_HOME or /etc, else a ramdisk of 64 MiB, served by
    /// nbd on 127.0.0.1:10809]
    pub(crate) manifest: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Where the control socket is to be
    /// [default: FUCHSINE_CONTROL, else the manifest's, else $XDG_RUNTIME_DIR/fuchsine/NAME.sock, /run/fuchsine for root]
    #[arg(long, value_name = "PATH", conflicts_with = "no_control")]
    pub(crate) control: Option<PathBuf>,
    /// Do without a control socket
    #[arg(long)]
    pub(crate) no_control: bool,
    /// How SIGUSR1 has the state of every dispatcher written on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) dump_on_signal: Format,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// The manifest, a TOML file [default: the one that `run` would find]
    pub(crate) manifest: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Settings {
    /// Set one configuration value of one driver, over the manifest; may be given several times. VALUE is a TOML value,
    /// or text without quotes
    #[arg(long = "set", value_name = "DRIVER.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// Which host is asked, and how its answer is written.
#[derive(Debug, Args)]
pub(crate) struct HostChoice {
    /// The control socket of the host [default: FUCHSINE_CONTROL, else that of the only host there is]
    #[arg(long, value_name = "PATH", conflicts_with = "host")]
    pub(crate) control: Option<PathBuf>,
    /// The name of the host: that of its manifest without `.toml`, or `default`
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Write JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long a command waits for what it asks for.
#[derive(Debug, Args)]
pub(crate) struct WaitChoice {
    /// Do not wait until it is done
    #[arg(long, conflicts_with = "timeout")]
    pub(crate) no_wait: bool,
    /// How long to wait until it is done
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct DumpOptions {
    /// Only what belongs to this driver
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Option<String>,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

#[derive(Debug, Args)]
pub(crate) struct OperateOptions {
    /// The name of a driver, or the path of a node, which begins with `/`
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) wait: WaitChoice,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    /// The file of a module, or the name of a driver
    #[arg(value_name = "PATH|NAME")]
    pub(crate) what: String,
    /// What to call it [default: the name of the driver]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Which driver of the module [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Option<String>,
    /// Set one configuration value of it; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) wait: WaitChoice,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

#[derive(Debug, Args)]
pub(crate) struct UnloadOptions {
    /// The name of the driver
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) wait: WaitChoice,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BindOptions {
    /// Say what each driver of the manifest says of a node: whether it matches, and why not.
    Explain {
        /// The path of the node, as `fuchsine tree` has it
        node: String,
        #[command(flatten)]
        host: HostChoice,
    },
    /// Offer a node anew, also one on which a driver failed or was stopped.
    Rematch {
        /// The path of the node
        node: String,
        #[command(flatten)]
        host: HostChoice,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LogsOptions {
    /// Wait for further lines, until the host ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only lines about this driver
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Option<String>,
    /// At most so many of the lines that there are
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) lines: Option<usize>,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Waiting {
    /// Every driver has started; the driver runs
    Running,
    /// The host has ended; nothing of the driver is left
    Stopped,
    /// The driver has failed for good
    Failed,
}

#[derive(Debug, Args)]
pub(crate) struct WaitOptions {
    /// The state to wait for
    #[arg(long = "for", value_name = "STATE", default_value = "running")]
    pub(crate) state: Waiting,
    /// The driver to wait for, instead of the host
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Option<String>,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = durations::parse)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) host: HostChoice,
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
