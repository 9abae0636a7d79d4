//! What is behind a handle: events, pairs of events, channels between processes, and descriptors.
//!
//! Signals of two kinds make up what an object has. Those in its *word* are set by C, or by the close of a peer; each that
//! somebody waits for has an eventfd of its own, which is readable exactly as long as the signal is set. Those of a descriptor
//! are what the system says of it at the moment of the question.
//!
//! # Invariants
//! - A bit of the word and its eventfd change together, under the lock of the word.
//! - `Word` has no lock held while a peer is told.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use fuchsine_dispatcher::{Interest, Token, WakeSource};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::handles::Observable;
use crate::status::{ZX_ERR_NO_RESOURCES, ZX_ERR_NOT_SUPPORTED};
use crate::types::{
    ZX_OBJECT_PEER_CLOSED, ZX_OBJECT_READABLE, ZX_OBJECT_SIGNAL_4, ZX_OBJECT_SIGNALED, ZX_OBJECT_WRITABLE,
    ZX_USER_SIGNAL_ALL, zx_signals_t, zx_status_t,
};

/// A descriptor that becomes ready when a signal is set.
pub(crate) struct Watched {
    pub(crate) fd: Arc<OwnedFd>,
    source: WakeSource,
    pub(crate) interest: Interest,
}

/// The signals that are set by hand.
#[derive(Default)]
struct Word {
    set: zx_signals_t,
    /// An eventfd for each signal that somebody has waited for.
    bells: Vec<(zx_signals_t, Watched)>,
}

impl Word {
    fn change(&mut self, clear: zx_signals_t, set: zx_signals_t) {
        let before = self.set;
        self.set = self.set & !clear | set;
        for (signal, bell) in &self.bells {
            match (before & signal != 0, self.set & signal != 0) {
                (false, true) => ring(&bell.fd),
                (true, false) => silence(&bell.fd),
                _ => {}
            }
        }
    }

    /// What is ready as long as the signal is set.
    fn bell(&mut self, signal: zx_signals_t) -> Result<Watched, zx_status_t> {
        if let Some((_, Watched { fd, source, interest })) = self.bells.iter().find(|(known, _)| *known == signal) {
            return Ok(Watched { fd: Arc::clone(fd), source: source.clone(), interest: *interest });
        }
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|_| ZX_ERR_NO_RESOURCES)?;
        let fd = Arc::new(fd);
        if self.set & signal != 0 {
            ring(&fd);
        }
        let source = WakeSource::over(Arc::clone(&fd));
        let bell = || Watched { fd: Arc::clone(&fd), source: source.clone(), interest: Interest::READABLE };
        self.bells.push((signal, bell()));
        Ok(bell())
    }
}

/// Neither can fail: the counter goes from 0 to 1 and back.
fn ring(fd: &OwnedFd) {
    let _ = rustix::io::write(fd, &1_u64.to_ne_bytes());
}

fn silence(fd: &OwnedFd) {
    let _ = rustix::io::read(fd, &mut [0_u8; 8]);
}

/// What an object is.
enum Kind {
    Event,
    /// With the other end, while that is there.
    EventPair(Mutex<Weak<Object>>),
    /// A descriptor, of whatever is behind it.
    Descriptor {
        fd: Arc<OwnedFd>,
        source: WakeSource,
    },
    /// An end of a channel, which can be used as a token instead: by it two drivers are given an fdf channel.
    Packets {
        fd: Arc<OwnedFd>,
        source: WakeSource,
        token: Mutex<Option<Token>>,
    },
}

/// An object. Several handles may lead to it; it ends with the last.
pub(crate) struct Object {
    kind: Kind,
    word: Mutex<Word>,
}

impl Object {
    fn new(kind: Kind) -> Arc<Object> {
        Arc::new(Object { kind, word: Mutex::default() })
    }

    pub(crate) fn event() -> Arc<Object> {
        Object::new(Kind::Event)
    }

    pub(crate) fn event_pair() -> (Arc<Object>, Arc<Object>) {
        let one = Object::new(Kind::EventPair(Mutex::default()));
        let other = Object::new(Kind::EventPair(Mutex::new(Arc::downgrade(&one))));
        if let Kind::EventPair(peer) = &one.kind {
            *peer.lock() = Arc::downgrade(&other);
        }
        (one, other)
    }

    pub(crate) fn descriptor(fd: OwnedFd) -> Arc<Object> {
        let (fd, source) = Object::over(fd);
        Object::new(Kind::Descriptor { fd, source })
    }

    /// An end of a channel: packets, each with a byte in front, so that an empty one is not the end.
    pub(crate) fn packets(fd: OwnedFd, token: Token) -> Arc<Object> {
        let (fd, source) = Object::over(fd);
        Object::new(Kind::Packets { fd, source, token: Mutex::new(Some(token)) })
    }

    fn over(fd: OwnedFd) -> (Arc<OwnedFd>, WakeSource) {
        let fd = Arc::new(fd);
        let source = WakeSource::over(Arc::clone(&fd));
        (fd, source)
    }

    /// The token that it is, once.
    pub(crate) fn take_token(&self) -> Option<Token> {
        match &self.kind {
            Kind::Packets { token, .. } => token.lock().take(),
            Kind::Event | Kind::EventPair(_) | Kind::Descriptor { .. } => None,
        }
    }

    /// The descriptor, if it is one.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Descriptor { fd, .. } | Kind::Packets { fd, .. } => Some(fd.as_fd()),
            Kind::Event | Kind::EventPair(_) => None,
        }
    }

    /// Whether it is an end of a channel.
    pub(crate) fn is_packets(&self) -> bool {
        matches!(self.kind, Kind::Packets { .. })
    }

    /// Sets and clears signals by hand; `false` for those that the object has of itself.
    pub(crate) fn signal(&self, clear: zx_signals_t, set: zx_signals_t) -> bool {
        let own = match self.kind {
            Kind::Event | Kind::EventPair(_) => ZX_OBJECT_SIGNALED,
            Kind::Descriptor { .. } | Kind::Packets { .. } => 0,
        };
        if (clear | set) & !(ZX_USER_SIGNAL_ALL | own) != 0 {
            return false;
        }
        self.word.lock().change(clear, set);
        true
    }

    /// What to watch in order to see that one of `wanted` is set.
    ///
    /// # Errors
    /// As [`Observable::sources`].
    pub(crate) fn watched(&self, wanted: zx_signals_t) -> Result<Vec<Watched>, zx_status_t> {
        let by_hand = ZX_USER_SIGNAL_ALL
            | match self.kind {
                Kind::Event => ZX_OBJECT_SIGNALED,
                Kind::EventPair(_) => ZX_OBJECT_SIGNALED | ZX_OBJECT_PEER_CLOSED,
                Kind::Descriptor { .. } | Kind::Packets { .. } => 0,
            };
        let mut watched = Vec::new();
        let mut word = self.word.lock();
        for signal in (0..32).map(|bit| 1 << bit).filter(|signal| wanted & by_hand & signal != 0) {
            watched.push(word.bell(signal)?);
        }
        if let Kind::Descriptor { fd, source } | Kind::Packets { fd, source, .. } = &self.kind {
            const READING: zx_signals_t =
                ZX_OBJECT_READABLE | ZX_OBJECT_SIGNALED | ZX_OBJECT_PEER_CLOSED | ZX_OBJECT_SIGNAL_4;
            let interest = match (wanted & READING != 0, wanted & ZX_OBJECT_WRITABLE != 0) {
                (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
                (true, false) => Some(Interest::READABLE),
                (false, true) => Some(Interest::WRITABLE),
                (false, false) => None,
            };
            let of_fd = |interest| Watched { fd: Arc::clone(fd), source: source.clone(), interest };
            watched.extend(interest.map(of_fd));
        }
        if watched.is_empty() { Err(ZX_ERR_NOT_SUPPORTED) } else { Ok(watched) }
    }

    /// What the system says of the descriptor.
    fn of_descriptor(fd: &OwnedFd) -> zx_signals_t {
        let asked = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
        let mut polled = [PollFd::new(fd, asked)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut polled, Some(&now)).is_err() {
            return 0;
        }
        let found = polled[0].revents();
        let (has_hung_up, has_half) = (found.contains(PollFlags::HUP), found.contains(PollFlags::RDHUP));
        let mut signals = 0;
        // The end can be read, too, but is nothing to read.
        let is_end = (has_hung_up || has_half) && rustix::io::ioctl_fionread(fd).is_ok_and(|left| left == 0);
        if found.contains(PollFlags::IN) && !is_end {
            signals |= ZX_OBJECT_READABLE | ZX_OBJECT_SIGNALED;
        }
        if found.contains(PollFlags::OUT) && !has_hung_up {
            signals |= ZX_OBJECT_WRITABLE;
        }
        if has_hung_up || found.contains(PollFlags::ERR) {
            signals |= ZX_OBJECT_PEER_CLOSED;
        } else if has_half {
            signals |= ZX_OBJECT_SIGNAL_4;
        }
        signals
    }
}

impl Observable for Object {
    fn signals(&self) -> zx_signals_t {
        let by_hand = self.word.lock().set;
        match &self.kind {
            Kind::Descriptor { fd, .. } | Kind::Packets { fd, .. } => by_hand | Object::of_descriptor(fd),
            Kind::Event | Kind::EventPair(_) => by_hand,
        }
    }

    fn sources(&self, wanted: zx_signals_t) -> Result<Vec<(WakeSource, Interest)>, zx_status_t> {
        Ok(self.watched(wanted)?.into_iter().map(|watched| (watched.source, watched.interest)).collect())
    }

    fn is_interrupt(&self) -> bool {
        matches!(self.kind, Kind::Event | Kind::Descriptor { .. })
    }

    fn take_interrupts(&self) -> u64 {
        match &self.kind {
            Kind::Event => {
                let mut word = self.word.lock();
                let was_set = word.set & ZX_OBJECT_SIGNALED != 0;
                word.change(ZX_OBJECT_SIGNALED, 0);
                u64::from(was_set)
            }
            Kind::EventPair(_) | Kind::Packets { .. } => 0,
            Kind::Descriptor { fd, .. } => count_of(fd).unwrap_or(0),
        }
    }
}

/// Takes the count of an eventfd, which is ready; whatever blocks all the same is no eventfd.
fn count_of(fd: &OwnedFd) -> io::Result<u64> {
    let mut count = [0; 8];
    let read = rustix::io::read(fd, &mut count)?;
    Ok(if read == count.len() { u64::from_ne_bytes(count) } else { 0 })
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Kind::EventPair(peer) = &self.kind
            && let Some(peer) = peer.lock().upgrade()
        {
            peer.word.lock().change(0, ZX_OBJECT_PEER_CLOSED);
        }
    }
}
