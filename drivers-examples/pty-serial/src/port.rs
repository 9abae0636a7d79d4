//! [`Port`]: what comes in and goes out, and who waits for what.
//!
//! Three futures on the driver's default dispatcher share it:
//!
//! - `read` takes what was typed, as long as a client has room for it, echoes, and sends the client its lines;
//! - `write` shows what waits to be shown;
//! - one for the client takes its messages, each only when there is room for what it wants to show.
//!
//! So a client that takes nothing stops what is typed in the terminal's own buffer, and a terminal that takes nothing stops
//! the client. The lock is held for a look or a copy, never while something is waited for.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fuchsine_driver::net::{Interest, ready};
use fuchsine_driver::{Channel, Status, sleep};
use parking_lot::Mutex;

use crate::bell::Bell;
use crate::config::Config;
use crate::discipline::{Discipline, Input};
use crate::protocol::{Frame, MAX_DATA, WINDOW};
use crate::pty::Pty;

/// How much may wait to be shown before a client has to wait.
const ROOM: usize = 16 << 10;

/// How much is read or written at once.
const PIECE: usize = 512;

/// The bits on the line for each byte: eight, one before and one after them.
const BITS: u64 = 10;

/// A serial port.
#[derive(Debug)]
pub(crate) struct Port {
    pty: Pty,
    /// Bits a second; 0: as fast as it goes.
    baud: u32,
    state: Mutex<State>,
    /// There is something to show.
    filled: Bell,
    /// Something was shown.
    drained: Bell,
    /// A client has come, gone, or has room.
    client: Bell,
    /// Everything was shown.
    empty: Bell,
}

#[derive(Debug)]
struct State {
    discipline: Discipline,
    /// What waits to be shown.
    out: VecDeque<u8>,
    /// What the client is to get, when it has room.
    input: VecDeque<Input>,
    client: Option<Arc<Channel>>,
    /// The ids of the messages that the client has not answered, oldest first.
    under_way: VecDeque<u32>,
    next_id: u32,
}

/// Why a conversation with a client ended.
#[derive(Debug)]
pub(crate) enum ClientEnd {
    /// It went away, or this side is being stopped.
    Gone,
    /// It broke a rule of the protocol.
    Rule(String),
}

impl Port {
    pub(crate) fn new(pty: Pty, config: &Config) -> Self {
        let state = State {
            discipline: Discipline::new(config.mode, config.echo),
            out: VecDeque::new(),
            input: VecDeque::new(),
            client: None,
            under_way: VecDeque::new(),
            next_id: 0,
        };
        Self {
            pty,
            baud: config.baud,
            state: Mutex::new(state),
            filled: Bell::default(),
            drained: Bell::default(),
            client: Bell::default(),
            empty: Bell::default(),
        }
    }

    /// Takes what is typed, for ever.
    ///
    /// # Errors
    /// What a wait ends with, or what the terminal died of.
    pub(crate) async fn read(&self) -> Result<(), Status> {
        let mut bytes = [0; PIECE];
        loop {
            while !self.send_input() {
                self.client.heard().await;
            }
            match self.pty.read(&mut bytes[..self.piece()]) {
                Ok(count) => {
                    self.typed(&bytes[..count]);
                    self.pace(count).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready(&self.pty, Interest::READABLE).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Shows what is to be shown, for ever.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) async fn write(&self) -> Result<(), Status> {
        loop {
            let piece: Vec<u8> = self.state.lock().out.iter().take(self.piece()).copied().collect();
            if piece.is_empty() {
                self.empty.ring();
                self.filled.heard().await;
                continue;
            }
            match self.pty.write(&piece) {
                Ok(count) => {
                    self.state.lock().out.drain(..count);
                    self.drained.ring();
                    self.pace(count).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready(&self.pty, Interest::WRITABLE).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Lets a client use the port; false when there is one already.
    pub(crate) fn attach(&self, channel: &Arc<Channel>) -> bool {
        let mut state = self.state.lock();
        if state.client.is_some() {
            return false;
        }
        state.client = Some(Arc::clone(channel));
        drop(state);
        self.client.ring();
        true
    }

    /// Takes the messages of the client that was attached, until it is gone or breaks a rule.
    pub(crate) async fn serve(&self, channel: &Channel) -> ClientEnd {
        let end = loop {
            let Ok(message) = channel.read().await else { break ClientEnd::Gone };
            if !message.handles().is_empty() {
                break ClientEnd::Rule("a handle beside the bytes".to_owned());
            }
            match Frame::decode(message.bytes()) {
                Ok((Frame::Data(bytes), id)) => {
                    while !self.show(bytes) {
                        self.drained.heard().await;
                    }
                    if send(channel, Frame::Taken, id).is_err() {
                        break ClientEnd::Gone;
                    }
                }
                Ok((Frame::Taken, id)) => {
                    let oldest = self.state.lock().under_way.pop_front();
                    if oldest != Some(id) {
                        break ClientEnd::Rule(format!("`taken` for message {id}, where {oldest:?} is the oldest"));
                    }
                    self.client.ring();
                }
                Ok((frame, _)) => break ClientEnd::Rule(format!("{frame:?}, which only a port sends")),
                Err(error) => break ClientEnd::Rule(error.to_string()),
            }
        };
        self.detach();
        end
    }

    /// Completes when all that was taken has been shown.
    pub(crate) async fn shown(&self) {
        while !self.state.lock().out.is_empty() {
            self.empty.heard().await;
        }
    }

    /// What the client had under way is given up; what it has not been sent waits for the next one.
    fn detach(&self) {
        let mut state = self.state.lock();
        state.client = None;
        state.under_way.clear();
    }

    fn typed(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        let (mut echo, mut input) = (Vec::new(), Vec::new());
        state.discipline.typed(bytes, &mut echo, &mut input);
        state.out.extend(echo);
        state.input.extend(input);
        drop(state);
        self.filled.ring();
    }

    /// Puts what the client wants to show where it waits; false when there is no room.
    fn show(&self, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.out.len() + bytes.len() > ROOM {
            return false;
        }
        let mut shown = Vec::with_capacity(bytes.len());
        state.discipline.shown(bytes, &mut shown);
        state.out.extend(shown);
        drop(state);
        self.filled.ring();
        true
    }

    /// Sends the client what waits for it, as far as it has room. True when more may be read: all of it was sent, and what is
    /// echoed has room.
    fn send_input(&self) -> bool {
        loop {
            let (channel, id, input) = {
                let mut state = self.state.lock();
                let Some(channel) = state.client.clone() else { return false };
                if state.input.is_empty() {
                    return state.under_way.len() < WINDOW && state.out.len() < ROOM;
                }
                if state.under_way.len() >= WINDOW {
                    return false;
                }
                let id = state.next_id;
                state.next_id = id.wrapping_add(1);
                state.under_way.push_back(id);
                (channel, id, state.input.pop_front())
            };
            let sent = match &input {
                Some(Input::Data(bytes)) => send(&channel, Frame::Data(bytes), id),
                Some(Input::Interrupt) => send(&channel, Frame::Interrupt, id),
                Some(Input::End) => send(&channel, Frame::End, id),
                None => Ok(()),
            };
            if sent.is_err() {
                // Its future finds out too, and makes room for the next client, which gets this.
                let mut state = self.state.lock();
                state.input.extend(input);
                state.input.rotate_right(1);
                return false;
            }
        }
    }

    /// How much is moved at once: what takes a fiftieth of a second on a slow line.
    fn piece(&self) -> usize {
        match self.baud {
            0 => PIECE,
            baud => usize::try_from(u64::from(baud) / BITS / 50).unwrap_or(PIECE).clamp(1, PIECE),
        }
    }

    /// Takes the time that so many bytes take on the line.
    async fn pace(&self, count: usize) -> Result<(), Status> {
        if self.baud > 0 && count > 0 {
            sleep(Duration::from_nanos(count as u64 * BITS * 1_000_000_000 / u64::from(self.baud))).await?;
        }
        Ok(())
    }
}

// What is read at once fits into one message, and an echo of it into what is kept for that.
const _: () = assert!(PIECE <= MAX_DATA && crate::discipline::MAX_LINE <= MAX_DATA);

fn send(channel: &Channel, frame: Frame<'_>, id: u32) -> Result<(), Status> {
    channel.write(frame.message(id)?).map_err(Status::from)
}
