//! The exit codes, which `--help` explains.

use std::process::ExitCode;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    ConfigInvalid = 4,
    ModuleRefused = 5,
    StopDeadlinePassed = 6,
}

/// What a second SIGINT ends the process with.
pub(crate) const INTERRUPTED: i32 = 130;
/// What a second SIGTERM ends the process with.
pub(crate) const TERMINATED: i32 = 143;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
