//! The other end: asks a host, and reads its answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::PROTOCOL;
use super::request::Request;
use super::socket::peer;

/// Bytes of an answer. A dump of everything is the longest.
const MAX_ANSWER: u64 = 64 << 20;

/// A connection to a host.
#[derive(Debug)]
pub struct ControlClient {
    stream: BufReader<UnixStream>,
}

/// Why there is no answer, or which.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Nobody is there.
    #[error("no host serves the control socket `{}`", .0.display())]
    NoHost(PathBuf),
    /// The socket belongs to another user.
    #[error("the control socket `{}` belongs to another user", .0.display())]
    OtherUser(PathBuf),
    /// The connection does not work.
    #[error("the host cannot be asked: {0}")]
    Io(#[from] io::Error),
    /// The host went away without an answer.
    #[error("the host went away without an answer")]
    Closed,
    /// What came is no answer.
    #[error("the answer is not understood: {0}")]
    NoAnswer(String),
    /// The host has refused it.
    #[error("{message}")]
    Refused {
        /// Why, for programs.
        kind: String,
        /// Why, for people.
        message: String,
    },
}

impl ControlClient {
    /// Connects to the host at this socket.
    ///
    /// # Errors
    /// [`ControlError`]: nobody is there, or it is not a host of this user or root.
    pub fn connect(path: &Path) -> Result<ControlClient, ControlError> {
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ControlError::NoHost(path.to_owned()),
            io::ErrorKind::PermissionDenied => ControlError::OtherUser(path.to_owned()),
            _ => ControlError::Io(error),
        })?;
        // Root may ask the hosts of everybody; nobody else should tell its secrets to whoever made a socket first.
        let owner = peer(&stream)?;
        if !owner.is_allowed() && !rustix::process::geteuid().is_root() {
            return Err(ControlError::OtherUser(path.to_owned()));
        }
        Ok(ControlClient { stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`ControlError::Refused`] when the host does not do it, others when there is no answer.
    pub fn ask(&mut self, request: &Request) -> Result<Value, ControlError> {
        self.ask_with(request, |_, _| Ok(()))
    }

    /// As [`ask`](Self::ask), for a request with answers before the last one: each is given to `each`, with the word that
    /// says what it is (`log`, `lost`).
    ///
    /// # Errors
    /// As `ask`, and what `each` returns.
    pub fn ask_with(
        &mut self,
        request: &Request,
        mut each: impl FnMut(&str, &Value) -> Result<(), ControlError>,
    ) -> Result<Value, ControlError> {
        let mut line = serde_json::to_value(request).map_err(|error| ControlError::NoAnswer(error.to_string()))?;
        line["version"] = PROTOCOL.into();
        // Who is turned away finds out by the answer, which is there to be read although nothing can be written.
        let written = self.stream.get_mut().write_all(format!("{line}\n").as_bytes());
        loop {
            let mut answer = match (self.next(), &written) {
                (Ok(answer), _) => answer,
                (Err(ControlError::Closed), Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                    return Err(io::Error::from(error.kind()).into());
                }
                (Err(error), _) => return Err(error),
            };
            if let Some(error) = answer.get("error") {
                let text = |name: &str| error[name].as_str().unwrap_or("(nothing)").to_owned();
                return Err(ControlError::Refused { kind: text("kind"), message: text("message") });
            }
            if let Some(ok) = answer.get_mut("ok") {
                return Ok(ok.take());
            }
            for word in ["log", "lost"] {
                if let Some(content) = answer.get(word) {
                    each(word, content)?;
                }
            }
        }
    }

    fn next(&mut self) -> Result<Value, ControlError> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(MAX_ANSWER).read_until(b'\n', &mut line);
        match read {
            Ok(0) => Err(ControlError::Closed),
            Ok(_) if !line.ends_with(b"\n") => match line.len() as u64 {
                MAX_ANSWER => Err(ControlError::NoAnswer("it is too long".to_owned())),
                _ => Err(ControlError::Closed),
            },
            Ok(_) => serde_json::from_slice(&line).map_err(|error| ControlError::NoAnswer(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(ControlError::Closed),
            Err(error) => Err(error.into()),
        }
    }
}
