//! One client, on a thread of its own: a line in, an answer out.
//!
//! 1. A request has to come in whole within the idle time, and may have so many bytes. What is no request ends the session,
//!    after an answer that says why; so does silence. A request that cannot be done is answered, and the session goes on.
//! 2. Answers are written whole. A client that has not taken one to its end within the idle time is left, however it reads
//!    meanwhile. One that follows the log may take its time: what it does not read is lost to it and counted, and nobody waits
//!    for it. It is left once it has not read for the idle time and another one asks for its place.
//! 3. The session ends with its client, or with the server.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::PROTOCOL;
use super::answer::Asked;
use super::clients::Place;
use super::log_ring::{LogRecord, LogRing, Next};
use super::request::{Refusal, Request, parse};
use super::server::Serving;

/// How often a follower without lines is looked at: it may have gone.
const LOOK: Duration = Duration::from_millis(100);

/// A client. Dropping it ends the connection.
pub(super) struct Session {
    serving: Arc<Serving>,
    stream: UnixStream,
    id: u64,
    /// What was read behind the last request.
    read: Vec<u8>,
}

/// What came instead of a request.
enum Silence {
    /// The client has gone, or the server ends.
    End,
    Refused(Refusal),
}

impl Session {
    pub(super) fn new(serving: Arc<Serving>, stream: UnixStream, id: u64) -> Session {
        Session { serving, stream, id, read: Vec::new() }
    }

    pub(super) fn serve(mut self) {
        while !self.serving.is_ending() {
            match self.next_line() {
                Ok(line) => {
                    let (id, request) = parse(&line);
                    let is_last = request.as_ref().is_err_and(|refusal| refusal.is_last);
                    let written = match request {
                        Ok(Request::Logs { follow, driver, lines }) => self.tell_log(&id, follow, driver, lines),
                        Ok(request) => {
                            let has_gone = || has_gone(&self.stream);
                            let answer = Asked { serving: &self.serving, has_gone: &has_gone }.answer(request);
                            self.write(&answer.map_or_else(|refusal| refused(&id, &refusal), |ok| answered(&id, ok)))
                        }
                        Err(refusal) => self.write(&refused(&id, &refusal)),
                    };
                    if is_last || written.is_err() {
                        return;
                    }
                }
                Err(Silence::End) => return,
                Err(Silence::Refused(refusal)) => {
                    let _ = self.write(&refused(&Value::Null, &refusal));
                    return;
                }
            }
        }
    }

    /// The next request, without the end of its line.
    fn next_line(&mut self) -> Result<Vec<u8>, Silence> {
        let limits = self.serving.limits;
        let until = Instant::now() + limits.idle;
        let mut looked = 0;
        loop {
            if let Some(at) = self.read[looked..].iter().position(|&byte| byte == b'\n') {
                let rest = self.read.split_off(looked + at + 1);
                let mut line = std::mem::replace(&mut self.read, rest);
                line.pop();
                return Ok(line);
            }
            looked = self.read.len();
            if looked > limits.request {
                let message = format!("a request may have {} bytes, and this one has more", limits.request);
                return Err(Silence::Refused(Refusal::last("too-long", message)));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = match looked {
                    0 => format!("nothing was asked for {:?}", limits.idle),
                    _ => format!("the line has not come to its end in {:?}", limits.idle),
                };
                return Err(Silence::Refused(Refusal::last("idle", message)));
            }
            let mut bytes = [0; 4096];
            let got = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut bytes));
            match got {
                Ok(0) => return Err(Silence::End),
                Ok(count) => self.read.extend(&bytes[..count]),
                Err(error) if is_timeout(&error) => {}
                Err(_) => return Err(Silence::End),
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.write_until(line, Instant::now() + self.serving.limits.idle)
    }

    /// Writes all of it by then. A limit for each write would be none for a client that reads a byte now and then.
    fn write_until(&mut self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_write_timeout(Some(left))?;
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of it, whenever that is, unless the place is given to another one.
    fn write_to_follower(&mut self, bytes: &[u8]) -> io::Result<()> {
        let busy = |since| self.serving.clients.lock().busy(self.id, since);
        busy(Some(Instant::now()));
        let written = (&self.stream).write_all(bytes);
        busy(None);
        written
    }

    /// The log, line by line, and an answer when that is all.
    fn tell_log(&mut self, id: &Value, follow: bool, driver: Option<String>, lines: Option<usize>) -> io::Result<()> {
        let Some(ring) = self.serving.logs.clone() else {
            return self.write(&refused(id, &Refusal::new("unsupported", "this host keeps no log lines")));
        };
        if follow && !self.may_follow() {
            let message = format!("{} clients follow the log already", self.serving.limits.followers);
            return self.write(&refused(id, &Refusal::new("busy", message)));
        }
        let told = self.tell_lines(&ring, id, follow, driver.as_deref(), lines);
        if follow {
            self.serving.clients.lock().unfollow(self.id);
        }
        told?;
        self.write(&answered(id, json!({})))
    }

    fn may_follow(&self) -> bool {
        let limits = &self.serving.limits;
        let place = self.serving.clients.lock().follow(self.id, limits.followers, limits.idle);
        if place == Place::Taken {
            tracing::warn!("a client that follows the log without reading it has lost its place to another one");
        }
        place != Place::None
    }

    fn tell_lines(
        &mut self,
        ring: &LogRing,
        id: &Value,
        follow: bool,
        driver: Option<&str>,
        lines: Option<usize>,
    ) -> io::Result<()> {
        let is_meant = |record: &LogRecord| driver.is_none() || record.driver.as_deref() == driver;
        let (mut place, end) = ring.places();
        let mut old = Vec::new();
        while place < end {
            match ring.next(&mut place, Duration::ZERO) {
                Next::Line(line) if is_meant(&line) => old.push(line),
                Next::Line(_) => {}
                Next::Lost(_) | Next::Nothing => break,
            }
        }
        let skipped = lines.map_or(0, |lines| old.len().saturating_sub(lines));
        let until = Instant::now() + self.serving.limits.idle;
        if follow {
            // It may be a pager that somebody reads, slowly.
            self.stream.set_write_timeout(None)?;
        }
        for line in old.drain(skipped..) {
            let line = logged(id, &line);
            if follow { self.write_to_follower(&line)? } else { self.write_until(&line, until)? }
        }
        while follow && !self.serving.is_ending() {
            match ring.next(&mut place, LOOK) {
                Next::Line(line) if is_meant(&line) => self.write_to_follower(&logged(id, &line))?,
                Next::Line(_) => {}
                Next::Lost(lost) => self.write_to_follower(&line_of(id, "lost", json!(lost)))?,
                Next::Nothing if has_gone(&self.stream) => return Err(io::ErrorKind::BrokenPipe.into()),
                Next::Nothing => {}
            }
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.serving.left(self.id);
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Whether nobody is at the other end any more.
fn has_gone(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

fn line_of(id: &Value, what: &str, content: Value) -> Vec<u8> {
    let mut line = json!({ "version": PROTOCOL, "id": id, what: content }).to_string().into_bytes();
    line.push(b'\n');
    line
}

fn answered(id: &Value, content: Value) -> Vec<u8> {
    line_of(id, "ok", content)
}

pub(super) fn refused(id: &Value, refusal: &Refusal) -> Vec<u8> {
    line_of(id, "error", json!({ "kind": refusal.kind, "message": refusal.message }))
}

fn logged(id: &Value, record: &LogRecord) -> Vec<u8> {
    let fields: serde_json::Map<_, _> =
        record.fields.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    let content = json!({
        "time": record.time(),
        "level": record.level.as_str(),
        "target": record.target,
        "driver": record.driver,
        "message": record.message,
        "fields": fields,
    });
    line_of(id, "log", content)
}
