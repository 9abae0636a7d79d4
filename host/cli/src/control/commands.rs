//! What each command asks, and what becomes of the answer.

use std::path::Path;
use std::time::{Duration, Instant};

use fuchsine_host::FoundModule;
use fuchsine_host::control::{ControlError, DumpFormat, Load, Request, WaitFor};
use serde_json::{Value, json};

use super::target::connect;
use super::{Failure, finish, tell, text};
use crate::args::{BindOptions, DumpOptions, HostChoice, LoadOptions, LogsOptions, OperateOptions, UnloadOptions};
use crate::args::{WaitOptions, Waiting};
use crate::exit::Exit;
use crate::output;

/// How often a host that is not there yet is looked for.
const LOOK: Duration = Duration::from_millis(50);

fn ask(choice: &HostChoice, request: &Request) -> Result<Value, Failure> {
    Ok(connect(choice)?.ask(request)?)
}

pub(crate) fn ps(choice: &HostChoice) -> Exit {
    finish(ask(choice, &Request::Ps {}), choice.json, text::drivers)
}

pub(crate) fn tree(choice: &HostChoice) -> Exit {
    finish(ask(choice, &Request::Tree {}), choice.json, text::nodes)
}

pub(crate) fn dump(options: &DumpOptions) -> Exit {
    let format = if options.host.json { DumpFormat::Json } else { DumpFormat::Text };
    let answer = ask(&options.host, &Request::Dump { driver: options.driver.clone(), format });
    // The object itself, as SIGUSR1 has it written.
    let answer = answer.map(|mut answer| if options.host.json { answer["dump"].take() } else { answer });
    finish(answer, options.host.json, |answer| answer["text"].as_str().unwrap_or_default().to_owned())
}

/// What is done to a driver by its name, or on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Stop,
    Start,
    Restart,
}

pub(crate) fn operate(options: &OperateOptions, operation: Operation) -> Exit {
    let (target, wait_ms) = (options.target.clone(), Some(wait_ms(&options.wait)));
    let request = match operation {
        Operation::Stop => Request::Stop { target, wait_ms },
        Operation::Start => Request::Start { target, wait_ms },
        Operation::Restart => Request::Restart { target, wait_ms },
    };
    finish(ask(&options.host, &request), options.host.json, text::outcome)
}

pub(crate) fn load(options: &LoadOptions) -> Exit {
    let load = match named(options) {
        Ok(load) => load,
        Err(exit) => return exit,
    };
    finish(ask(&options.host, &Request::Load(load)), options.host.json, text::outcome)
}

/// A module by its path has a `/` in it or ends in `.so`; else it is a driver by its name.
fn named(options: &LoadOptions) -> Result<Load, Exit> {
    let what = options.what.as_str();
    let load = Load {
        name: options.name.clone(),
        driver: options.driver.clone(),
        set: options.set.clone(),
        wait_ms: Some(wait_ms(&options.wait)),
        module: None,
    };
    if !what.contains('/') && !what.ends_with(".so") {
        return Ok(Load { driver: Some(what.to_owned()), name: load.name.or_else(|| Some(what.to_owned())), ..load });
    }
    let refused = |message: String| {
        let kind = "module-refused".to_owned();
        tell(&Failure::Control(ControlError::Refused { kind, message }), options.host.json);
        Exit::ModuleRefused
    };
    let path = std::path::absolute(what).map_err(|error| refused(format!("`{what}`: {error}")))?;
    // Looked at here too, for the exit code and for the name of the only driver; the host looks for itself.
    let note = FoundModule::inspect(Path::new(&path)).note;
    let note = note.map_err(|error| refused(format!("{error}\n  = help: {}", error.help())))?;
    let only = match note.drivers.as_slice() {
        [only] => Some(only.name.clone()),
        _ => None,
    };
    let driver = load.driver.clone().or(only);
    let name = load.name.clone().or_else(|| driver.clone());
    Ok(Load { module: Some(path.to_string_lossy().into_owned()), driver, name, ..load })
}

pub(crate) fn unload(options: &UnloadOptions) -> Exit {
    let request = Request::Unload { name: options.name.clone(), wait_ms: Some(wait_ms(&options.wait)) };
    finish(ask(&options.host, &request), options.host.json, text::outcome)
}

pub(crate) fn bind(options: &BindOptions) -> Exit {
    let (host, answer) = match options {
        BindOptions::Explain { node, host } => (host, ask(host, &Request::Explain { node: node.clone() })),
        BindOptions::Rematch { node, host } => (host, ask(host, &Request::Rematch { node: node.clone() })),
    };
    finish(answer, host.json, |answer| match answer["text"].as_str() {
        Some(text) => format!("{text}\n"),
        None => "offered anew\n".to_owned(),
    })
}

pub(crate) fn reload(choice: &HostChoice) -> Exit {
    finish(ask(choice, &Request::Reload {}), choice.json, text::changes)
}

pub(crate) fn logs(options: &LogsOptions) -> Exit {
    let is_json = options.host.json;
    let request = Request::Logs { follow: options.follow, driver: options.driver.clone(), lines: options.lines };
    let each = |word: &str, content: &Value| {
        let line = match (is_json, word) {
            (true, "lost") => format!("{}\n", json!({ "lost": content })),
            (true, _) => format!("{content}\n"),
            (false, _) => text::log_line(word, content),
        };
        output::write_or_end(&line).map_err(ControlError::Io)
    };
    let told = connect(&options.host).and_then(|mut client| Ok(client.ask_with(&request, each)?));
    match told {
        Ok(_) => Exit::Done,
        // Whoever read it has had enough.
        Err(Failure::Control(ControlError::Io(error))) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Done,
        // The host has ended, and with it its log.
        Err(Failure::Control(ControlError::Closed)) if options.follow => Exit::Done,
        Err(failure) => tell(&failure, is_json),
    }
}

pub(crate) fn wait(options: &WaitOptions) -> Exit {
    let until = Instant::now() + options.timeout;
    let state = match options.state {
        Waiting::Running => WaitFor::Running,
        Waiting::Stopped => WaitFor::Stopped,
        Waiting::Failed => WaitFor::Failed,
    };
    let answer = loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout_ms = Some(left.as_millis().try_into().unwrap_or(u64::MAX));
        let answer = ask(&options.host, &Request::Wait { state, driver: options.driver.clone(), timeout_ms });
        match (&answer, state) {
            // Nothing runs in a host that is not there.
            (
                Err(Failure::NoHost(_) | Failure::Control(ControlError::NoHost(_) | ControlError::Closed)),
                WaitFor::Stopped,
            ) => {
                break Ok(json!({ "state": "stopped" }));
            }
            // It may be about to start.
            (Err(Failure::NoHost(_) | Failure::Control(ControlError::NoHost(_))), WaitFor::Running)
                if !left.is_zero() =>
            {
                std::thread::sleep(LOOK.min(left));
            }
            (Err(Failure::Control(ControlError::Refused { kind, .. })), WaitFor::Running)
                if kind == "not-running" && !left.is_zero() =>
            {
                std::thread::sleep(LOOK.min(left));
            }
            _ => break answer,
        }
    };
    finish(answer, options.host.json, |answer| format!("{}\n", answer["state"].as_str().unwrap_or_default()))
}

fn wait_ms(options: &crate::args::WaitChoice) -> u64 {
    if options.no_wait { 0 } else { options.timeout.as_millis().try_into().unwrap_or(u64::MAX) }
}
