//! Calls: a request, and the one reply to it.
//!
//! The request carries the [`Txid`](super::Txid) of its call, and so does whatever the server makes its reply of. The pair
//! matches them (`calls`), so several calls may be in flight on one end and their replies come in any order.
//!
//! | form | who waits |
//! |---|---|
//! | [`call`](Channel::call) | the calling thread |
//! | [`begin_call`](Channel::begin_call) | a callback of a dispatcher |
//! | `call_async` | a future (in `executor`) |
//!
//! A call that ends without its reply ends for good: a reply that comes later is dropped where it is written.

use std::task::{Poll, Waker};

use super::calls::{Caller, Left};
use super::channel::{Channel, ChannelPair};
use super::ends::Side;
use super::error::{CallError, Refused};
use super::message::Message;
use super::registration::Registered;
use super::txid::Txid;
use super::wait_op::Next;
use crate::runtime::DispatcherId;
use crate::runtime::active::Whom;
use crate::runtime::blocked::{is_canceled, may_block, wait_blocked};
use crate::runtime::callback_queue::{Callback, Invoke, Kind, Outcome, Stage};
use crate::runtime::{DispatcherHandle, TaskHandle};
use crate::site::Site;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe::{self, Point};
use crate::time::Instant;

/// A call that waits for its reply; dropping it gives the call up.
struct InFlight {
    pair: Arc<ChannelPair>,
    side: Side,
    number: u32,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        drop(self.pair.end_call(self.side, self.number));
    }
}

/// What is told the outcome of a call, once.
pub(super) trait HearReply: Send + 'static {
    /// The reply, or why there is none.
    fn hear(self, outcome: Result<Message, Status>);
}

/// A user's handler, told as it is.
struct AsItIs<F>(F);

impl<F: FnOnce(Result<Message, Status>) + Send + 'static> HearReply for AsItIs<F> {
    fn hear(self, outcome: Result<Message, Status>) {
        (self.0)(outcome);
    }
}

/// A handler as a callback.
struct CallFn<H> {
    call: InFlight,
    handler: H,
}

impl<H: HearReply> Invoke for CallFn<H> {
    fn invoke(self, outcome: Outcome) {
        let CallFn { call, handler } = self;
        let left = call.pair.end_call(call.side, call.number);
        drop(call);
        let result = match (outcome, left) {
            (Outcome::Done(_), Left::Reply(reply)) => Ok(reply),
            // Its timer.
            (Outcome::Done(_), Left::Unanswered(_)) => Err(Status::TimedOut),
            (Outcome::Failed(status), _) => Err(status),
            (Outcome::Canceled, _) => Err(Status::Canceled),
        };
        probe::point(Point::Begin);
        handler.hear(result);
    }
}

impl Channel {
    /// Sends a request and waits for the reply.
    ///
    /// `deadline` is one of the clock of the calling thread's runtime, [`Instant::INFINITE`] for none. If it has passed
    /// already, the request is sent all the same, and only a reply that comes inside of that is taken.
    ///
    /// # Errors
    /// [`CallError`], in this order: what [`write`](Channel::write) refuses because of its handles;
    /// [`Status::BadState`] on a dispatcher that does not allow sync calls, and wherever else
    /// [`blocking`](crate::blocking) is refused; [`Status::Canceled`] when the dispatcher that this thread runs for shuts
    /// down; [`Status::PeerClosed`] and [`Status::ShouldWait`] as `write`. In all of these the request is inside. After
    /// it was sent: [`Status::PeerClosed`] when the peer closes, [`Status::Canceled`] when the shutdown begins,
    /// [`Status::TimedOut`]. A reply that is there wins over all three.
    ///
    /// # Thread requirements
    /// A thread that may block; hold no lock that a handler of another driver may want.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{Channel, Instant, Message, Status};
    ///
    /// let (client, server) = Channel::pair();
    /// let server = std::thread::spawn(move || {
    ///     let request = loop {
    ///         match server.try_read() {
    ///             Ok(request) => break request,
    ///             Err(_) => std::thread::yield_now(),
    ///         }
    ///     };
    ///     let mut reply = request.recycle(4);
    ///     reply.bytes_mut().copy_from_slice(b"pong");
    ///     server.write(reply)
    /// });
    /// let reply = client.call(Message::from_bytes(b"ping"), Instant::INFINITE)?;
    /// assert_eq!(reply.bytes(), b"pong");
    /// # server.join().unwrap()?;
    /// # Ok::<(), Status>(())
    /// ```
    pub fn call(&self, request: Message, deadline: Instant) -> Result<Message, CallError> {
        if let Err(status) = self.check_handles(request.handles()) {
            return Err(CallError::unsent(status, request));
        }
        if may_block().is_err() {
            return Err(CallError::unsent(Status::BadState, request));
        }
        if is_canceled() {
            return Err(CallError::unsent(Status::Canceled, request));
        }
        let number = self.start_call(request, Waker::noop().clone())?;
        let (pair, other) = (&self.pair, self.side.other());
        let whom = || {
            let pair = Arc::clone(pair);
            Some(Arc::new(move || DispatcherId::from_raw(pair.readers.last(other))) as Whom)
        };
        match wait_blocked("a reply", whom, deadline, |context| self.poll_call(number, context.waker())) {
            Ok(outcome) => outcome.map_err(CallError::sent),
            Err(end) => match self.pair.end_call(self.side, number) {
                // What was recorded counts, however the wait ended.
                Left::Reply(reply) => Ok(reply),
                Left::Unanswered(_) => Err(CallError::sent(end.status())),
            },
        }
    }

    /// Sends a request, and has `handler` called once on `dispatcher` with its reply. Instead of that it is told
    /// [`Status::TimedOut`] when `deadline` passes first (by the clock of the dispatcher; [`Instant::INFINITE`] never does),
    /// [`Status::PeerClosed`] when the peer closes, [`Status::Canceled`] when the dispatcher shuts down or this end is
    /// closed. A deadline that has passed already sends the request all the same.
    ///
    /// The handle takes the call back: the handler is not called, and the reply is dropped when it comes.
    ///
    /// # Errors
    /// [`Refused`] with the request and the handler, in this order: what [`write`](Channel::write) refuses;
    /// [`Status::Unavailable`] when the dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread. The peer's handler may run inside of this call; `handler` may run inside of the write of the reply, and
    /// never inside of this call.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{Channel, DispatcherHandle, Instant, Message, Status};
    ///
    /// fn ask(server: &Channel, home: &DispatcherHandle, deadline: Instant) -> Result<(), Status> {
    ///     let request = Message::from_bytes(b"how warm?");
    ///     let _call = server.begin_call(home, request, deadline, |reply| match reply {
    ///         Ok(reply) => println!("{:?}", reply.bytes()),
    ///         Err(status) => println!("no answer: {status}"),
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn begin_call<F>(
        &self,
        dispatcher: &DispatcherHandle,
        request: Message,
        deadline: Instant,
        handler: F,
    ) -> Result<TaskHandle, Refused<(Message, F)>>
    where
        F: FnOnce(Result<Message, Status>) + Send + 'static,
    {
        self.begin_call_from(Site::caller(), dispatcher, request, deadline, handler)
    }

    /// As [`begin_call`](Self::begin_call), for a caller that says where the call comes from.
    ///
    /// # Errors
    /// As [`begin_call`](Self::begin_call).
    pub fn begin_call_from<F>(
        &self,
        site: Site,
        dispatcher: &DispatcherHandle,
        request: Message,
        deadline: Instant,
        handler: F,
    ) -> Result<TaskHandle, Refused<(Message, F)>>
    where
        F: FnOnce(Result<Message, Status>) + Send + 'static,
    {
        let begun = self.begin_call_as(site, dispatcher, request, deadline, AsItIs(handler));
        begun.map_err(|refused| refused.map(|(request, AsItIs(handler))| (request, handler)))
    }

    /// [`begin_call_from`](Channel::begin_call_from) with whatever hears the reply.
    pub(super) fn begin_call_as<H: HearReply>(
        &self,
        location: Site,
        dispatcher: &DispatcherHandle,
        request: Message,
        deadline: Instant,
        handler: H,
    ) -> Result<TaskHandle, Refused<(Message, H)>> {
        let (inner, flavour) = (dispatcher.inner(), dispatcher.flavour());
        let mut handler = Some(handler);
        let mut accepted_as = None;
        probe::point(Point::Write);
        let mut next = Next::Nothing;
        let begun = match self.check_handles(request.handles()) {
            Err(status) => Err((status, request)),
            Ok(()) => self.pair.begin_call(self.side, request, &mut next, |number, request| {
                let make = || {
                    let call = InFlight { pair: Arc::clone(&self.pair), side: self.side, number };
                    Callback::new(CallFn { call, handler: handler.take().expect("an accepted handler is made once") })
                };
                let id = inner.accept_armed(Stage::Reading, Kind::Call, flavour, deadline, location, make).ok()?;
                *request = std::mem::take(request).in_reply_to(Txid::new(self.id, number));
                accepted_as = Some(id);
                Some(Caller::Callback(Registered { dispatcher: Arc::clone(inner), id }))
            }),
        };
        match (begun, accepted_as) {
            (Ok(_), Some(id)) => {
                if !deadline.is_infinite() {
                    inner.arm_timer(id, deadline);
                }
                next.carry_out();
                Ok(TaskHandle::new(inner, id))
            }
            (Err((status, request)), _) => {
                if status != Status::Unavailable {
                    inner.count_refusal();
                }
                let handler = handler.take().expect("a refused handler was not made");
                Err(Refused::new("call", status, (request, handler)))
            }
            (Ok(_), None) => unreachable!("a call that began was accepted"),
        }
    }

    /// Sends a request for a caller that is no callback; the number of the call. The caller polls, and ends the call.
    pub(crate) fn start_call(&self, request: Message, waker: Waker) -> Result<u32, CallError> {
        if let Err(status) = self.check_handles(request.handles()) {
            return Err(CallError::unsent(status, request));
        }
        probe::point(Point::Write);
        let mut next = Next::Nothing;
        let begun = self.pair.begin_call(self.side, request, &mut next, |number, request| {
            *request = std::mem::take(request).in_reply_to(Txid::new(self.id, number));
            Some(Caller::Task(waker))
        });
        next.carry_out();
        begun.map_err(|(status, request)| CallError::unsent(status, request))
    }

    /// The reply, or why there is none, which ends the call; else the waker is noted.
    pub(crate) fn poll_call(&self, number: u32, waker: &Waker) -> Poll<Result<Message, Status>> {
        self.pair.poll_call(self.side, number, waker)
    }

    /// The caller gives up. A reply that is there already is dropped.
    pub(crate) fn give_up_call(&self, number: u32) {
        drop(self.pair.end_call(self.side, number));
    }
}
