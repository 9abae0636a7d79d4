//! Calls: a request, and the one reply to it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;

use crate::abi::{CallSite, TxidParts, here};
use crate::dispatcher::PostError;
use crate::slot::Slot;
use crate::{Channel, Dispatcher, Instant, Message, Status, TaskHandle, current};

/// Names one call of one end of one channel. A server finds it in a request ([`Message::txid`]) and puts it into the reply
/// ([`Message::in_reply_to`]). It is beside the bytes of a message, not in them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Txid(TxidParts);

impl Txid {
    /// `None` for what belongs to no call.
    pub(crate) fn from_parts(parts: TxidParts) -> Option<Txid> {
        (parts.number != 0).then_some(Txid(parts))
    }

    pub(crate) fn into_parts(txid: Option<Txid>) -> TxidParts {
        txid.map_or(TxidParts::NONE, |Txid(parts)| parts)
    }

    /// The number by which the calls of one channel differ.
    pub fn as_raw(self) -> u32 {
        self.0.number
    }
}

impl fmt::Debug for Txid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Txid({:#x} of channel {})", self.0.number, self.0.channel)
    }
}

impl Channel {
    /// Sends a request and blocks until the reply is there, `deadline` has come, or the dispatcher shuts down. Futures
    /// use [`call_async`](Self::call_async) instead.
    ///
    /// A deadline that has passed already sends the request all the same, and only a reply that comes inside of that is
    /// taken. Several calls may be in flight on one end, and their replies come in any order; a reply to a call that has
    /// ended is dropped.
    ///
    /// # Errors
    /// [`CallError`]: what [`write`](Self::write) refuses; `BadState` on a dispatcher that does not allow sync calls;
    /// `Canceled` when the dispatcher that this thread runs for shuts down. In these the request may be inside. After
    /// it was sent: `PeerClosed`, `Canceled` and `TimedOut`. A reply that is there wins over all three.
    ///
    /// # Thread requirements
    /// A callback of a dispatcher that allows sync calls, offloaded work, or a thread of one's own. Hold no lock that the
    /// peer may want.
    ///
    /// # Examples
    /// ```no_run
    /// use fuchsine_driver::{Channel, Instant, Message, Status};
    /// use std::time::Duration;
    ///
    /// fn temperature(sensor: &Channel) -> Result<u8, Status> {
    ///     let deadline = Instant::now() + Duration::from_millis(100);
    ///     let reply = sensor.call(Message::from_bytes(b"how warm?")?, deadline)?;
    ///     reply.bytes().first().copied().ok_or(Status::IoDataIntegrity)
    /// }
    /// ```
    pub fn call(&self, request: Message, deadline: Instant) -> Result<Message, CallError> {
        // One that is forwarded is a call of its own.
        let (content, _) = request.into_parts();
        match self.object().call(content, deadline.as_nanos()) {
            Ok(reply) => Ok(Message::from_parts(reply, None)),
            Err((request, status)) => {
                Err(CallError { status, request: request.map(|content| Box::new(Message::from_parts(content, None))) })
            }
        }
    }

    /// Sends a request, and has `f` called once on `dispatcher` with the reply. Instead of that it is told `TimedOut` when
    /// `deadline` passes first ([`Instant::INFINITE`] never does), `PeerClosed` when the peer closes, `Canceled` when the
    /// dispatcher shuts down or this end is closed.
    ///
    /// The handle takes the call back: `f` is dropped, and so is the reply when it comes.
    ///
    /// # Errors
    /// What [`write`](Self::write) refuses; `Unavailable`: the dispatcher is shutting down. The request and the closure are
    /// inside the error.
    ///
    /// # Thread requirements
    /// Any thread. The peer's callback may run before this returns; `f` may run inside of the write of the reply, and never
    /// inside of this call.
    ///
    /// # Examples
    /// ```no_run
    /// use fuchsine_driver::{Channel, Dispatcher, Instant, Message, Status};
    ///
    /// fn ask(sensor: &Channel, home: &Dispatcher) -> Result<(), Status> {
    ///     sensor.begin_call(home, Message::from_bytes(b"how warm?")?, Instant::INFINITE, |reply| match reply {
    ///         Ok(reply) => println!("{:?}", reply.bytes()),
    ///         Err(status) => println!("no answer: {status}"),
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn begin_call<F>(
        &self,
        dispatcher: &Dispatcher,
        request: Message,
        deadline: Instant,
        f: F,
    ) -> Result<TaskHandle, PostError<(Message, F)>>
    where
        F: FnOnce(Result<Message, Status>) + Send + 'static,
    {
        self.begin_call_at(here::<F>(), dispatcher, request, deadline, f)
    }

    fn begin_call_at<F>(
        &self,
        site: &'static CallSite,
        dispatcher: &Dispatcher,
        request: Message,
        deadline: Instant,
        f: F,
    ) -> Result<TaskHandle, PostError<(Message, F)>>
    where
        F: FnOnce(Result<Message, Status>) + Send + 'static,
    {
        let (content, _) = request.into_parts();
        match self.object().begin_call(site, dispatcher.object(), content, deadline.as_nanos(), f) {
            Ok(task) => Ok(TaskHandle::from_object(task)),
            Err(((content, f), status)) => Err(PostError::new(((Message::from_parts(content, None), f), status))),
        }
    }

    /// Sends a request at the first poll, and completes with the reply, or at `deadline` with `TimedOut`.
    ///
    /// # Errors
    /// As [`call`](Self::call), without the part about blocking. `BadState`: polled outside of any dispatcher. `Canceled`: the
    /// dispatcher that awaits shuts down.
    ///
    /// # Cancel safety
    /// Dropping the future gives the call up; its request may have been sent.
    ///
    /// # Examples
    /// ```no_run
    /// use fuchsine_driver::{Channel, Instant, Message, Status};
    /// use std::time::Duration;
    ///
    /// async fn temperature(sensor: &Channel) -> Result<u8, Status> {
    ///     let deadline = Instant::now() + Duration::from_millis(100);
    ///     let reply = sensor.call_async(Message::from_bytes(b"how warm?")?, deadline).await?;
    ///     reply.bytes().first().copied().ok_or(Status::IoDataIntegrity)
    /// }
    /// ```
    #[track_caller]
    pub fn call_async(&self, request: Message, deadline: Instant) -> Call<'_> {
        Call { channel: self, site: here::<Call<'_>>(), deadline, state: CallState::New(request) }
    }
}

/// The future of [`Channel::call_async`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Call<'a> {
    channel: &'a Channel,
    site: &'static CallSite,
    deadline: Instant,
    state: CallState,
}

#[derive(Debug)]
enum CallState {
    New(Message),
    Sent(Arc<Slot<Result<Message, Status>>>, TaskHandle),
    Done,
}

impl Future for Call<'_> {
    type Output = Result<Message, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match std::mem::replace(&mut self.state, CallState::Done) {
                CallState::New(request) => {
                    let Some(dispatcher) = current() else {
                        return Poll::Ready(Err(CallError::unsent(Status::BadState, request)));
                    };
                    let slot = Arc::new(Slot::new());
                    let filled = Arc::clone(&slot);
                    let (channel, site, deadline) = (self.channel, self.site, self.deadline);
                    let begun =
                        channel.begin_call_at(site, &dispatcher, request, deadline, move |reply| filled.fill(reply));
                    match begun {
                        Ok(handle) => self.state = CallState::Sent(slot, handle),
                        Err(error) => {
                            // To whoever awaits, a dispatcher that shuts down is a future that is canceled.
                            let status = match error.status() {
                                Status::Unavailable => Status::Canceled,
                                status => status,
                            };
                            return Poll::Ready(Err(CallError::unsent(status, error.into_inner().0)));
                        }
                    }
                }
                CallState::Sent(slot, handle) => {
                    let reply = slot.poll_take(cx);
                    if reply.is_pending() {
                        self.state = CallState::Sent(slot, handle);
                    }
                    return reply.map_err(|status| CallError { status, request: None });
                }
                CallState::Done => panic!("a call is not polled again after its end"),
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let CallState::Sent(slot, handle) = &self.state
            && !slot.is_filled()
        {
            // Too late is as good: the slot has nobody to wake.
            let _ = handle.cancel();
        }
    }
}

/// A call that brought no reply. The request is inside if it was not sent.
#[derive(Debug, Error)]
#[error("the call brought no reply: {status}")]
pub struct CallError {
    status: Status,
    request: Option<Box<Message>>,
}

impl CallError {
    fn unsent(status: Status, request: Message) -> CallError {
        CallError { status, request: Some(Box::new(request)) }
    }

    /// Why.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why, alone; a request that was not sent is dropped.
    pub fn into_status(self) -> Status {
        self.status
    }

    /// The request, if it was not sent.
    pub fn into_request(self) -> Option<Message> {
        self.request.map(|request| *request)
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        error.status
    }
}
