//! A running host as a guard.
//!
//! Purpose: `fuchsine run` is started, its ready line is read under a hang limit, and whatever the test does, the
//! process has ended when the guard is dropped. What it wrote is shown when something goes wrong.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal};

use crate::{
    command::fuchsine,
    nbd::Address,
    process::{Finished, HANG_LIMIT, Process},
};

/// A host that printed its ready line and runs.
#[derive(Debug)]
pub struct Host {
    process: Process,
    addresses: Vec<String>,
}

impl Host {
    /// Starts `fuchsine run` with `arguments` and waits for its ready line.
    ///
    /// # Panics
    /// When it ends or stays silent instead.
    #[track_caller]
    pub fn start<A: AsRef<OsStr>>(arguments: &[A]) -> Self {
        Self::start_command(command().args(arguments))
    }

    /// Starts the embedded default on a free TCP port, with `settings` (each `DRIVER.KEY=VALUE`) besides.
    #[track_caller]
    pub fn on_free_port(settings: &[&str]) -> Self {
        let mut command = command();
        command.args(["--set", "nbd.listen=127.0.0.1:0"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        Self::start_command(&mut command)
    }

    /// Starts a host by a command of the caller's, which ends in running `fuchsine run` under the same process id.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn start_command(command: &mut Command) -> Self {
        let mut process = Process::start(command.stdin(Stdio::null()));
        let Some(line) = process.next_line(HANG_LIMIT) else {
            let finished = process.wait(HANG_LIMIT);
            panic!("the host ended without a ready line, {}:\n{}", finished.status, finished.stderr);
        };
        let addresses =
            line.strip_prefix("ready:").unwrap_or_else(|| panic!("the first line is no ready line: {line}"));
        Self { addresses: addresses.split_whitespace().map(str::to_owned).collect(), process }
    }

    /// The process id of the host.
    pub fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// The addresses of the ready line.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The one address of the ready line, as clients take it: `nbd://HOST:PORT/EXPORT` or `nbd+unix://…`.
    ///
    /// # Panics
    /// When there is not exactly one.
    #[track_caller]
    pub fn uri(&self) -> &str {
        match self.addresses.as_slice() {
            [address] => address,
            other => panic!("one address expected, got {other:?}"),
        }
    }

    /// The one address of the ready line, taken apart.
    #[track_caller]
    pub fn address(&self) -> Address {
        Address::parse(self.uri())
    }

    /// Whether the host is still running.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// What it has written on standard error so far.
    pub fn stderr_so_far(&self) -> String {
        self.process.stderr_so_far()
    }

    /// Sends the host a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits until the host has ended.
    ///
    /// # Panics
    /// When it runs longer than `limit`.
    #[track_caller]
    pub fn wait(self, limit: Duration) -> Finished {
        self.process.wait(limit)
    }

    /// Asks the host to stop with SIGTERM and expects that it ends with 0 and wrote nothing but its ready line on
    /// standard output.
    #[track_caller]
    pub fn stop(self) -> Finished {
        self.signal(Signal::TERM);
        let finished = self.wait(HANG_LIMIT).expect_success();
        assert_eq!(finished.stdout.len(), 1, "more than the ready line on stdout: {:?}", finished.stdout);
        finished
    }
}

/// `fuchsine run`, ready for further arguments, with an environment that changes nothing.
pub fn command() -> Command {
    let mut command = bare_command();
    command.arg("run");
    command
}

/// `fuchsine` without a subcommand, with an environment that changes nothing.
pub fn bare_command() -> Command {
    let mut command = Command::new(fuchsine());
    // What tests run at once would have the same name.
    command.env_remove("RUST_LOG").env("FUCHSINE_CONTROL", "none").env("FUCHSINE_MANIFEST", "none");
    command
}
