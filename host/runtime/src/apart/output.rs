//! What a child logs, and what it writes on its standard error: lines of the host's log, with the driver and the process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Weak;

use fuchsine_dispatcher::{Interest, ready};
use rustix::io::Errno;
use tracing::Level;

use super::protocol::{LogRecord, decode};
use crate::host::Shared;
use crate::log::{self, Origin};
use crate::process::packet::PACKET;
use crate::process::packets::{Packets, Received};

/// The longest line of a standard error that is not cut.
const LONGEST: usize = 8 << 10;

/// Who says it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) host: Weak<Shared>,
    pub(super) title: String,
    pub(super) pid: String,
}

impl Source {
    fn line(&self, driver: &str, target: &str, level: Level, message: &str, fields: &[(&str, &str)]) {
        let mut all: Vec<(&str, &str)> = fields.iter().copied().filter(|(name, _)| *name != "pid").collect();
        all.push(("pid", &self.pid));
        let origin = Origin { driver, target };
        if let Some(observer) = self.host.upgrade().as_ref().and_then(|host| host.log_observer()) {
            log::tell(observer, origin, level, message, &all);
        }
        log::write(origin, level, message, &all);
    }
}

/// Writes the records that come, until the child has closed the socket.
pub(super) async fn records(source: &Source, socket: OwnedFd) {
    let socket = Packets::new(socket);
    let mut packet = vec![0; PACKET];
    loop {
        let length = match socket.receive(&mut packet) {
            Ok(Received::Packet(length, _)) => length,
            Ok(Received::Nothing) => match ready(&socket, Interest::READABLE).await {
                Ok(_) => continue,
                Err(_) => return,
            },
            Ok(Received::End) | Err(_) => return,
        };
        match decode::<LogRecord>(&packet[..length]) {
            Ok(record) => {
                let fields: Vec<_> =
                    record.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let driver = record.driver.as_deref().unwrap_or(&source.title);
                let level = record.level.parse().unwrap_or(Level::INFO);
                source.line(driver, &record.target, level, &record.message, &fields);
            }
            Err(error) => source.line(&source.title, "", Level::WARN, &error, &[]),
        }
    }
}

/// Writes the lines that come by a pipe, which does not block, until everybody has closed it.
pub(super) async fn lines(source: &Source, pipe: OwnedFd) {
    let (mut line, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match rustix::io::read(&pipe, &mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                for &byte in &buffer[..length] {
                    if byte == b'\n' || line.len() == LONGEST {
                        source.written(&mut line);
                    }
                    if byte != b'\n' {
                        line.push(byte);
                    }
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if ready(&pipe, Interest::READABLE).await.is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    source.written(&mut line);
}

impl Source {
    fn written(&self, line: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if !text.is_empty() {
            self.line(&self.title, "", Level::WARN, text, &[("stream", "stderr")]);
        }
        line.clear();
    }
}

/// Makes a pipe whose reading side does not block.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    let read = OwnedFd::from(read);
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write.into()))
}
