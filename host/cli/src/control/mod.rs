//! The commands that talk to a host that runs, over its control socket.
//!
//! `target` finds the host, `commands` asks it, `text` writes the answers for people. With `--json` the answer is written as
//! the host gave it, in one line; the book's page "Control socket" has the fields.

mod commands;
mod target;
mod text;

use std::io::Write;

use fuchsine_host::control::{ControlError, PROTOCOL};
use serde_json::{Value, json};

pub(crate) use commands::{Operation, bind, dump, load, logs, operate, ps, reload, tree, unload, wait};

use crate::exit::Exit;
use crate::output;

/// Why a command has no answer.
#[derive(Debug)]
enum Failure {
    Control(ControlError),
    /// There is no host, or no such one.
    NoHost(String),
    /// It is not said which.
    Unclear(String),
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Failure {
        Failure::Control(error)
    }
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Failure::NoHost(_) | Failure::Control(ControlError::NoHost(_)) => Exit::NotFound,
            Failure::Unclear(_) => Exit::Usage,
            Failure::Control(ControlError::Refused { kind, .. }) => match kind.as_str() {
                "not-found" => Exit::NotFound,
                "config-invalid" => Exit::ConfigInvalid,
                "timed-out" => Exit::StopDeadlinePassed,
                _ => Exit::Failed,
            },
            Failure::Control(_) => Exit::Failed,
        }
    }

    fn kind(&self) -> &str {
        match self {
            Failure::NoHost(_) | Failure::Control(ControlError::NoHost(_)) => "no-host",
            Failure::Unclear(_) => "unclear",
            Failure::Control(ControlError::Refused { kind, .. }) => kind,
            Failure::Control(_) => "failed",
        }
    }

    fn message(&self) -> String {
        match self {
            Failure::NoHost(message) | Failure::Unclear(message) => message.clone(),
            Failure::Control(error) => error.to_string(),
        }
    }
}

/// Writes the answer, or why there is none.
fn finish(answer: Result<Value, Failure>, is_json: bool, text: impl FnOnce(&Value) -> String) -> Exit {
    match answer {
        Ok(mut answer) if is_json => {
            // A dump has a version of its own.
            if let Some(fields) = answer.as_object_mut() {
                fields.entry("version").or_insert_with(|| PROTOCOL.into());
            }
            output::finish(&format!("{answer}\n"))
        }
        Ok(answer) => output::finish(&text(&answer)),
        Err(failure) => tell(&failure, is_json),
    }
}

fn tell(failure: &Failure, is_json: bool) -> Exit {
    let message = failure.message();
    // A closed standard error leaves nobody to tell.
    let _ = match is_json {
        true => writeln!(std::io::stderr(), "{}", json!({ "error": { "kind": failure.kind(), "message": message } })),
        false => {
            writeln!(std::io::stderr(), "error: {}", output::plain(message.strip_prefix("error: ").unwrap_or(&message)))
        }
    };
    failure.exit()
}
