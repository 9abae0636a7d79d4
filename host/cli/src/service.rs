//! What a service manager is told: `READY=1` and its kin, as `sd_notify(3)` has them.
//!
//! A datagram to the socket that `NOTIFY_SOCKET` names; without that variable nobody wants to know. A manager that does not
//! read is not waited for. Written here, since the crates for it block, or know no abstract sockets, which containers use.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use fuchsine_host::{Heartbeat, Host};
use rustix::time::{ClockId, clock_gettime};

/// The service manager, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Service {
    socket: Option<SocketAddr>,
    watchdog: Option<Duration>,
}

impl Service {
    /// What the environment says.
    pub(crate) fn of_environment() -> Service {
        let socket = std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty());
        let socket = socket.and_then(|name| match address(&name) {
            Ok(address) => Some(address),
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET is ignored");
                None
            }
        });
        let variable = |name: &str| std::env::var(name).ok();
        let watchdog = watchdog(variable("WATCHDOG_USEC").as_deref(), variable("WATCHDOG_PID").as_deref());
        Service { watchdog: watchdog.filter(|_| socket.is_some()), socket }
    }

    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// That the manifest is being read again; `ready` follows.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let us = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={us}\nSTATUS=reading the manifest again"));
    }

    /// That the end has begun, and how long it may take.
    pub(crate) fn stopping(&self, timeout: Duration) {
        let us = (timeout + Duration::from_secs(5)).as_micros();
        self.tell(&format!("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC={us}"));
    }

    /// Feeds the watchdog, if it is to be fed, for as long as the threads of drivers get anywhere.
    pub(crate) fn feed(&self, host: &Host) -> Option<Heartbeat> {
        let every = self.watchdog? / 2;
        let service = self.clone();
        match host.heartbeat(every, move || service.tell("WATCHDOG=1")) {
            Ok(heartbeat) => Some(heartbeat),
            Err(error) => {
                tracing::error!(%error, "the watchdog of the service manager cannot be fed");
                None
            }
        }
    }

    fn tell(&self, state: &str) {
        let Some(address) = &self.socket else { return };
        let told = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to_addr(state.as_bytes(), address)
        });
        if let Err(error) = told {
            tracing::debug!(%error, state, "the service manager is not told");
        }
    }
}

/// A path, or `@` and an abstract name.
fn address(name: &str) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix('@') {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    match name.starts_with('/') {
        true => SocketAddr::from_pathname(name),
        false => Err(io::Error::new(io::ErrorKind::Unsupported, format!("`{name}` is no path of a socket"))),
    }
}

/// How often the watchdog is to be fed, if it is this process that is to feed it.
fn watchdog(every: Option<&str>, process: Option<&str>) -> Option<Duration> {
    let is_ours = process.is_none_or(|id| id.trim().parse() == Ok(std::process::id()));
    let us = every?.trim().parse().ok().filter(|&us| is_ours && us > 0)?;
    Some(Duration::from_micros(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_fed_by_whom_it_is_meant_for() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog(Some("1000000"), None), second);
        assert_eq!(watchdog(Some("1000000"), Some(&std::process::id().to_string())), second);
        for (every, process) in [(None, None), (Some("0"), None), (Some("x"), None), (Some("1000000"), Some("1"))] {
            assert_eq!(watchdog(every, process), None, "{every:?}, {process:?}");
        }
    }

    #[test]
    fn sockets_are_paths_or_abstract_and_a_manager_that_is_not_there_matters_to_nobody() {
        assert!(address("relative").is_err());
        let folder = std::env::temp_dir().join(format!("fuchsine-nobody-{}", std::process::id()));
        let nobody = Service { socket: Some(address(folder.to_str().unwrap()).unwrap()), watchdog: None };
        nobody.ready("x");
        if cfg!(target_os = "linux") {
            assert!(address("@name").unwrap().as_pathname().is_none());
        }
    }

    #[test]
    fn a_manager_that_does_not_read_is_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("fuchsine-deaf-{}", std::process::id()));
        let _socket = UnixDatagram::bind(&folder).unwrap();
        let deaf = Service { socket: Some(address(folder.to_str().unwrap()).unwrap()), watchdog: None };
        // More than a queue takes: it must not block.
        (0..10_000).for_each(|_| deaf.tell("WATCHDOG=1"));
        std::fs::remove_file(&folder).unwrap();
    }
}
