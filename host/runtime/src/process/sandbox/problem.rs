//! Why a fence cannot be put on, and what to do: [`SandboxError`].

use std::fmt;
use std::io;
use std::path::Path;

/// Why a process cannot be fenced in as it was asked for.
#[derive(Debug)]
pub struct SandboxError {
    message: String,
    help: Option<String>,
    source: Option<io::Error>,
}

impl SandboxError {
    pub(super) fn said(message: impl Into<String>) -> SandboxError {
        SandboxError { message: message.into(), help: None, source: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> SandboxError {
        self.help = Some(help.into());
        self
    }

    /// What the system said to one of the steps.
    pub(super) fn system(what: impl fmt::Display, error: impl Into<io::Error>) -> SandboxError {
        let error = error.into();
        SandboxError { message: format!("{what}: {error}"), help: None, source: Some(error) }
    }

    pub(super) fn threads(count: usize) -> SandboxError {
        SandboxError::said(format!("this process has {count} threads, and a sandbox is put on by a process with one"))
            .help("apply it first in `main`")
    }

    pub(super) fn relative(path: &Path) -> SandboxError {
        SandboxError::said(format!("the path `{}` is not absolute", path.display()))
    }

    pub(super) fn missing(lacks: &[String]) -> SandboxError {
        SandboxError::said(lacks.join("; "))
            .help("say `enforce = \"best-effort\"` to go without, if that is enough here")
    }

    /// What is wrong, without what to do about it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it, where there is something.
    pub fn what_to_do(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SandboxError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
