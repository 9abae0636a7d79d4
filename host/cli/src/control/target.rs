//! Which host is meant.

use std::path::PathBuf;

use fuchsine_host::control::{ControlClient, ControlPlace, HostSocket};

use super::Failure;
use crate::args::HostChoice;

/// Connects to the host that is meant: that of `--control`, of `--host`, of the environment, or the only one there is.
pub(super) fn connect(choice: &HostChoice) -> Result<ControlClient, Failure> {
    Ok(ControlClient::connect(&path(choice)?)?)
}

fn path(choice: &HostChoice) -> Result<PathBuf, Failure> {
    if let Some(path) = &choice.control {
        return Ok(path.clone());
    }
    if let Some(name) = &choice.host {
        let place = ControlPlace::usual(name).ok_or_else(|| {
            Failure::NoHost(
                "without XDG_RUNTIME_DIR there is no folder of hosts; name the socket by --control".to_owned(),
            )
        })?;
        return match place.path().exists() {
            true => Ok(place.path().to_owned()),
            false => Err(Failure::NoHost(format!("there is no host `{name}`; {}", there_are(&ControlPlace::hosts())))),
        };
    }
    if let Some(place) = ControlPlace::of_environment().filter(|place| !place.is_none()) {
        return Ok(place.path().to_owned());
    }
    let mut hosts = ControlPlace::hosts();
    match (hosts.pop(), hosts.is_empty()) {
        (Some(only), true) => Ok(only.path),
        (Some(last), false) => {
            hosts.push(last);
            Err(Failure::Unclear(format!("say which host by --host; {}", there_are(&hosts))))
        }
        (None, _) => Err(Failure::NoHost(there_are(&[]))),
    }
}

fn there_are(hosts: &[HostSocket]) -> String {
    let names: Vec<_> = hosts.iter().map(|host| format!("`{}`", host.name)).collect();
    match (names.as_slice(), ControlPlace::folder()) {
        ([], Some(folder)) => {
            format!(
                "no host has a control socket in `{}`; one that is elsewhere is named by --control",
                folder.display()
            )
        }
        ([], None) => "XDG_RUNTIME_DIR is not set, so name the control socket of the host by --control".to_owned(),
        (names, _) => format!("there are {}", names.join(", ")),
    }
}
