//! The side that asks.

use std::fmt;
use std::marker::PhantomData;

use super::envelope::{Event, Of, open};
use super::listen::{Hear, Hold, listen};
use super::{Protocol, ReceiveError, Server, request_of, sealed_request, take_event, take_reply};
use crate::channel::call::HearReply;
use crate::channel::{CallError, Channel, Limits, Message, Refused, WriteError};
use crate::runtime::{DispatcherHandle, TaskHandle};
use crate::site::Site;
use crate::status::Status;
use crate::sync::Arc;
use crate::time::Instant;

/// The client's end of a protocol. Clones share the end; it closes when the last is dropped.
pub struct Client<P: Protocol> {
    channel: Arc<Channel>,
    protocol: Of<P>,
}

impl<P: Protocol> Client<P> {
    /// A connected client and server, with no limit on what may wait in between.
    pub fn pair() -> (Client<P>, Server<P>) {
        super::pair(Limits::default())
    }

    /// A connected client and server, and a limit on what may wait in each direction. Replies are not counted.
    pub fn pair_with(limits: Limits) -> (Client<P>, Server<P>) {
        super::pair(limits)
    }

    /// Takes an end as that of a client of this protocol, as it came out of a message or a token. Whether the other side
    /// means the same shows with the first value.
    pub fn from_channel(channel: Channel) -> Self {
        Client { channel: Arc::new(channel), protocol: PhantomData }
    }

    /// The end, to be sent elsewhere.
    ///
    /// # Errors
    /// `self`, when there are clones.
    pub fn into_channel(self) -> Result<Channel, Self> {
        Arc::try_unwrap(self.channel).map_err(|channel| Client { channel, protocol: PhantomData })
    }

    /// The end, for what is not about values: limits, lengths, waiting for room.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Sends a request for which no reply is wanted.
    ///
    /// # Errors
    /// [`WriteError`] with the request, as [`Channel::write`].
    pub fn send(&self, request: P::Request) -> Result<(), WriteError<P::Request>> {
        self.channel.write(sealed_request::<P>(request)).map_err(|error| error.map(request_of::<P>))
    }

    /// Sends a request and waits for the reply, as [`Channel::call`] does.
    ///
    /// # Errors
    /// [`CallError`] as [`Channel::call`]. Besides, the status with which the server refused; [`Status::Canceled`] when it
    /// dropped the request without an answer; [`Status::WrongType`] when the reply is not of this protocol or image.
    ///
    /// # Thread requirements
    /// As [`Channel::call`].
    pub fn call(&self, request: P::Request, deadline: Instant) -> Result<P::Reply, CallError<P::Request>> {
        match self.channel.call(sealed_request::<P>(request), deadline) {
            Ok(message) => take_reply::<P>(message).map_err(CallError::sent),
            Err(error) => Err(error.map(request_of::<P>)),
        }
    }

    /// Sends a request, and has `handler` called once on `dispatcher` with the reply, as [`Channel::begin_call`] does.
    ///
    /// # Errors
    /// [`Refused`] with the request and the handler, as [`Channel::begin_call`]. The handler may be told what
    /// [`call`](Client::call) lists.
    #[track_caller]
    pub fn begin_call<F>(
        &self,
        dispatcher: &DispatcherHandle,
        request: P::Request,
        deadline: Instant,
        handler: F,
    ) -> Result<TaskHandle, Refused<(P::Request, F)>>
    where
        F: FnOnce(Result<P::Reply, Status>) + Send + 'static,
    {
        let replied: Replied<P, F> = Replied { handler, protocol: PhantomData };
        let begun =
            self.channel.begin_call_as(Site::caller(), dispatcher, sealed_request::<P>(request), deadline, replied);
        begun.map_err(|refused| refused.map(|(request, replied)| (request_of::<P>(request), replied.handler)))
    }

    /// Takes the oldest event.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn try_event(&self) -> Result<P::Event, ReceiveError> {
        open::<Event<P>>(self.channel.try_read()?).0.map(|event| event.0)
    }

    /// Has `handler` called on `dispatcher` for each event, one at a time, and at last with why there will be no more:
    /// [`Status::PeerClosed`], or [`Status::Canceled`] when the dispatcher shuts down or the last clone of this client is
    /// dropped. [`Status::WrongType`] stands for something that is no event of this protocol, and more may come.
    ///
    /// # Errors
    /// [`Refused`] with the handler, as [`Channel::begin_read`].
    #[track_caller]
    pub fn on_events<F>(&self, dispatcher: &DispatcherHandle, handler: F) -> Result<(), Refused<F>>
    where
        F: FnMut(Result<P::Event, Status>) + Send + 'static,
    {
        let hold = Hold::Guest(Arc::downgrade(&self.channel));
        let events: Events<P, F> = Events { handler, protocol: PhantomData };
        listen(Site::caller(), &self.channel, hold, dispatcher, events)
            .map_err(|refused| refused.map(|events| events.handler))
    }
}

/// A user's handler of a reply.
struct Replied<P, F> {
    handler: F,
    protocol: Of<P>,
}

impl<P: Protocol, F: FnOnce(Result<P::Reply, Status>) + Send + 'static> HearReply for Replied<P, F> {
    fn hear(self, outcome: Result<Message, Status>) {
        (self.handler)(outcome.and_then(take_reply::<P>));
    }
}

/// A user's handler of events.
struct Events<P, F> {
    handler: F,
    protocol: Of<P>,
}

impl<P: Protocol, F: FnMut(Result<P::Event, Status>) + Send + 'static> Hear for Events<P, F> {
    fn hear(&mut self, _: &Arc<Channel>, message: Message) {
        (self.handler)(take_event::<P>(message));
    }

    fn end(&mut self, why: Status) {
        (self.handler)(Err(why));
    }
}

impl<P: Protocol> Clone for Client<P> {
    fn clone(&self) -> Self {
        Client { channel: Arc::clone(&self.channel), protocol: PhantomData }
    }
}

impl<P: Protocol> fmt::Debug for Client<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("protocol", &std::any::type_name::<P>()).field("channel", &self.channel).finish()
    }
}
