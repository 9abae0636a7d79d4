//! Tokens: how two drivers that cannot reach each other yet are given a channel.
//!
//! A token is made as a pair of ends, which reach the two drivers by somebody whom both know. One of them *registers* its end
//! with a handler, or asks again and again (*receive*); the other *transfers* a channel end through its own. Either may come
//! first, and each end is used up by what is done with it.
//!
//! # States
//! ```text
//!   Open ──register──▶ Registered ──transfer──▶ Delivered ──the handler begins──▶ Over
//!    │ │                    │ the other end is dropped, cancel, shutdown            ▲
//!    │ │                    └──────────────────────────────────────────────────────┤
//!    │ └──transfer──▶ Transferred ──receive, register (Delivered), dropped─────────▶│
//!    └──an end is dropped───────────────────────────────────────────────────────────┘
//! ```
//!
//! # Rules
//! - The lock is held for a few instructions (lock order: as a channel's). A registration is accepted under it and completed
//!   after it was released; a channel end is dropped after that too. So no handler runs and nothing closes under the lock.
//! - The registration is an operation of its dispatcher, which decides who ends it, once. A channel that was transferred to
//!   a registration whose dispatcher shuts down is closed, which its sender sees at the end that it kept.

use std::fmt;

use super::channel::Channel;
use super::ends::Side;
use super::error::Refused;
use super::registration::Registered;
use super::wait_op::{Completion, WaitOp};
use crate::runtime::callback_queue::{Callback, Invoke, Kind, Outcome, Stage};
use crate::runtime::{DispatcherHandle, TaskHandle};
use crate::site::Site;
use crate::status::Status;
use crate::sync::probe::{self, Note, Point};
use crate::sync::{Arc, Mutex};
use crate::time::Instant;

enum Meeting {
    /// Nobody has come.
    Open,
    /// Somebody waits for a channel.
    Registered(Registered),
    /// A channel waits for somebody.
    Transferred(Channel),
    /// A channel waits for the handler that it was given to.
    Delivered(Channel),
    /// It has taken place, or never will.
    Over,
}

/// What the two ends of a token share.
struct Rendezvous {
    meeting: Mutex<Meeting>,
}

impl Rendezvous {
    /// Ends it. What was there comes back, to be dropped with no lock held.
    fn end(&self) -> Meeting {
        std::mem::replace(&mut *self.meeting.lock(), Meeting::Over)
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        probe::note(|| Note::Gone { what: "token", id: (&raw const *self).addr() as u64 });
    }
}

/// One end of a token.
///
/// Dropping it unused ends the rendezvous: a handler that is registered at the other end is told [`Status::Canceled`], and a
/// channel that was transferred there is closed.
///
/// # Thread requirements
/// Any thread.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{Channel, Message, Status, Token};
///
/// let (server, client) = Token::pair();
/// let (near, far) = Channel::pair();
/// client.transfer(far)?;
/// let received = server.receive()?;
/// near.write(Message::from_bytes(b"nice to meet you"))?;
/// assert_eq!(received.try_read()?.bytes(), b"nice to meet you");
/// # Ok::<(), Status>(())
/// ```
pub struct Token {
    /// `None` once it is used up.
    shared: Option<Arc<Rendezvous>>,
    side: Side,
}

/// A user's handler as a callback.
struct TokenFn<F> {
    registration: Registration,
    handler: F,
}

/// A registration that has not ended; dropping it ends the rendezvous.
struct Registration(Arc<Rendezvous>);

impl Drop for Registration {
    fn drop(&mut self) {
        drop(self.0.end());
    }
}

impl<F: FnOnce(Result<Channel, Status>) + Send + 'static> Invoke for TokenFn<F> {
    fn invoke(self, outcome: Outcome) {
        let TokenFn { registration, handler } = self;
        let there = registration.0.end();
        // A channel that was given to a registration that is canceled closes before the handler runs.
        let result = match (outcome, there) {
            (Outcome::Done(_), Meeting::Delivered(channel)) => Ok(channel),
            (Outcome::Failed(status), _) => Err(status),
            (Outcome::Done(_) | Outcome::Canceled, _) => Err(Status::Canceled),
        };
        probe::point(Point::Begin);
        handler(result);
    }
}

impl Token {
    /// The two ends of a new token.
    #[track_caller]
    pub fn pair() -> (Token, Token) {
        Token::pair_from(Site::caller())
    }

    /// As [`pair`](Self::pair), for a caller that says where the token is made.
    pub fn pair_from(site: Site) -> (Token, Token) {
        let (shared, location) = (Arc::new(Rendezvous { meeting: Mutex::new(Meeting::Open) }), site);
        probe::note(|| Note::Made { what: "token", id: Arc::as_ptr(&shared).addr() as u64, location });
        let other = Arc::clone(&shared);
        (Token { shared: Some(shared), side: Side::A }, Token { shared: Some(other), side: Side::B })
    }

    /// Has `handler` called once on `dispatcher` with the channel that the other end transfers, or has transferred. It is
    /// told [`Status::Canceled`] when the other end is dropped first, or the dispatcher shuts down (there last of all that
    /// is pending).
    ///
    /// The handle takes the registration back, which ends the rendezvous.
    ///
    /// # Errors
    /// [`Refused`] with the token and the handler: [`Status::PeerClosed`] when the other end was dropped,
    /// [`Status::BadState`] when the other end is registered too, [`Status::Unavailable`] when the dispatcher shuts down or
    /// has shut down.
    ///
    /// # Thread requirements
    /// Any thread. The handler is never called inside of this call; it may be called inside of
    /// [`transfer`](Token::transfer), by the rules of channel messages.
    #[track_caller]
    pub fn register<F>(self, dispatcher: &DispatcherHandle, handler: F) -> Result<TaskHandle, Refused<(Token, F)>>
    where
        F: FnOnce(Result<Channel, Status>) + Send + 'static,
    {
        self.register_from(Site::caller(), dispatcher, handler)
    }

    /// As [`register`](Self::register), for a caller that says where the registration comes from.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_from<F>(
        self,
        location: Site,
        dispatcher: &DispatcherHandle,
        handler: F,
    ) -> Result<TaskHandle, Refused<(Token, F)>>
    where
        F: FnOnce(Result<Channel, Status>) + Send + 'static,
    {
        let (inner, flavour) = (dispatcher.inner(), dispatcher.flavour());
        let mut handler = Some(handler);
        probe::point(Point::Read);
        let (shared, side) = self.take();
        let mut meeting = shared.meeting.lock();
        let make = || {
            let registration = Registration(Arc::clone(&shared));
            Callback::new(TokenFn { registration, handler: handler.take().expect("an accepted handler is made once") })
        };
        let accepted = match &*meeting {
            Meeting::Open => inner.accept_armed(Stage::Token, Kind::Token, flavour, Instant::INFINITE, location, make),
            Meeting::Transferred(_) => inner.accept_ready(Kind::Token, flavour, location, make),
            taken => {
                let status = taken.refuses();
                drop(meeting);
                inner.count_refusal();
                let handler = handler.take().expect("a refused handler was not made");
                return Err(Refused::new("registration of the token", status, (Token::new(shared, side), handler)));
            }
        };
        let Ok(id) = accepted else {
            drop(meeting);
            let handler = handler.take().expect("a refused handler was not made");
            let refused = (Token::new(shared, side), handler);
            return Err(Refused::new("registration of the token", Status::Unavailable, refused));
        };
        *meeting = match std::mem::replace(&mut *meeting, Meeting::Over) {
            Meeting::Transferred(channel) => Meeting::Delivered(channel),
            _ => Meeting::Registered(Registered { dispatcher: Arc::clone(inner), id }),
        };
        drop(meeting);
        Ok(TaskHandle::new(inner, id))
    }

    /// Gives a channel end to whoever has the other end of the token, now or later.
    ///
    /// The handler that is registered there may run inside of this call, as that of a read may inside of a write.
    ///
    /// # Errors
    /// [`Refused`] with the token and the channel: [`Status::InvalidArgs`] when something is registered on the end or a
    /// call is in flight; [`Status::PeerClosed`] when the other end is dropped, or its registration has ended;
    /// [`Status::BadState`] when the other end has transferred too.
    ///
    /// # Thread requirements
    /// Any thread. Hold no lock that a handler of another driver may want.
    pub fn transfer(self, channel: Channel) -> Result<(), Refused<(Token, Channel)>> {
        if !channel.is_idle() {
            return Err(Refused::new("transfer", Status::InvalidArgs, (self, channel)));
        }
        probe::point(Point::Write);
        let (shared, side) = self.take();
        let mut meeting = shared.meeting.lock();
        match std::mem::replace(&mut *meeting, Meeting::Over) {
            Meeting::Open => {
                *meeting = Meeting::Transferred(channel);
                Ok(())
            }
            Meeting::Registered(op) => {
                *meeting = Meeting::Delivered(channel);
                drop(meeting);
                op.complete(Completion::Ready);
                Ok(())
            }
            taken => {
                let status = taken.refuses();
                *meeting = taken;
                drop(meeting);
                Err(Refused::new("transfer", status, (Token::new(shared, side), channel)))
            }
        }
    }

    /// Takes the channel that the other end has transferred.
    ///
    /// # Errors
    /// [`Refused`] with the token: [`Status::NotFound`] when nothing is transferred yet, [`Status::PeerClosed`] when
    /// nothing will be, [`Status::BadState`] when the other end waits for a channel too.
    pub fn receive(self) -> Result<Channel, Refused<Token>> {
        probe::point(Point::Read);
        let (shared, side) = self.take();
        let mut meeting = shared.meeting.lock();
        match std::mem::replace(&mut *meeting, Meeting::Over) {
            Meeting::Transferred(channel) => Ok(channel),
            other => {
                let status = if matches!(other, Meeting::Open) { Status::NotFound } else { other.refuses() };
                *meeting = other;
                drop(meeting);
                Err(Refused::new("reception", status, Token::new(shared, side)))
            }
        }
    }

    fn new(shared: Arc<Rendezvous>, side: Side) -> Self {
        Token { shared: Some(shared), side }
    }

    fn take(mut self) -> (Arc<Rendezvous>, Side) {
        (self.shared.take().expect("a token that is used up is gone"), self.side)
    }
}

impl Meeting {
    /// Why nothing can be done with the end that is left.
    fn refuses(&self) -> Status {
        match self {
            Meeting::Over => Status::PeerClosed,
            Meeting::Open | Meeting::Registered(_) | Meeting::Transferred(_) | Meeting::Delivered(_) => {
                Status::BadState
            }
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        if let Meeting::Registered(op) = shared.end() {
            op.complete(Completion::Canceled);
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("side", &self.side).finish_non_exhaustive()
    }
}
