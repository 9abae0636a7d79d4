//! The side that answers.

use std::fmt;
use std::marker::PhantomData;

use super::envelope::{Answer, Event, Of, Request, open, seal, unseal};
use super::listen::{Hear, Hold, listen};
use super::{Protocol, ReceiveError};
use crate::channel::{Channel, Message, Refused, Txid, WriteError};
use crate::runtime::DispatcherHandle;
use crate::site::Site;
use crate::status::Status;
use crate::sync::Arc;

/// The server's end of a protocol. It closes when the server and all [`Responder`]s of it are gone.
pub struct Server<P: Protocol> {
    channel: Arc<Channel>,
    protocol: Of<P>,
}

/// What a client sent.
pub enum Incoming<P: Protocol> {
    /// A request for which nobody waits.
    OneWay(P::Request),
    /// A request whose client waits for the reply.
    Call(P::Request, Responder<P>),
}

/// The duty to answer one call.
///
/// Dropping it tells the client [`Status::Canceled`], so that no call waits for a server that has forgotten it.
#[must_use = "dropping it tells the client that its call is canceled"]
pub struct Responder<P: Protocol> {
    /// `None` once it has answered.
    channel: Option<Arc<Channel>>,
    txid: Txid,
    protocol: Of<P>,
}

impl<P: Protocol> Server<P> {
    /// Takes an end as that of a server of this protocol, as it came out of a message or a token.
    pub fn from_channel(channel: Channel) -> Self {
        Server { channel: Arc::new(channel), protocol: PhantomData }
    }

    /// The end, to be sent elsewhere.
    ///
    /// # Errors
    /// `self`, while calls of it are not answered.
    pub fn into_channel(self) -> Result<Channel, Self> {
        Arc::try_unwrap(self.channel).map_err(|channel| Server { channel, protocol: PhantomData })
    }

    /// The end, for what is not about values: limits, lengths, waiting for room.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Takes the oldest request. A call that is not of this protocol or image is answered with [`Status::WrongType`].
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn try_next(&self) -> Result<Incoming<P>, ReceiveError> {
        self.take(self.channel.try_read()?)
    }

    /// The request in a message of this end.
    pub(super) fn take(&self, message: Message) -> Result<Incoming<P>, ReceiveError> {
        Incoming::of(message, &self.channel)
    }

    /// Sends an event.
    ///
    /// # Errors
    /// [`WriteError`] with the event, as [`Channel::write`].
    pub fn send_event(&self, event: P::Event) -> Result<(), WriteError<P::Event>> {
        self.channel.write(seal(Event::<P>(event))).map_err(|error| error.map(|it| unseal::<Event<P>>(it).0))
    }

    /// Serves: has `handler` called on `dispatcher` for each request, one at a time, and at last with why there will be no
    /// more: [`Status::PeerClosed`], or [`Status::Canceled`] when the dispatcher shuts down. [`Status::WrongType`] stands
    /// for something that is no request of this protocol, and more may come.
    ///
    /// It holds the end open until then. A handler that panics ends the service.
    ///
    /// # Errors
    /// [`Refused`] with the server and the handler, as [`Channel::begin_read`].
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{DispatcherHandle, Incoming, Protocol, Server, Status};
    ///
    /// struct Doubling;
    ///
    /// impl Protocol for Doubling {
    ///     type Request = u64;
    ///     type Reply = u64;
    ///     type Event = ();
    /// }
    ///
    /// fn start(server: Server<Doubling>, home: &DispatcherHandle) -> Result<(), Status> {
    ///     server.serve(home, |incoming| {
    ///         if let Ok(Incoming::Call(number, responder)) = incoming {
    ///             // A client that has gone needs no reply.
    ///             let _ = responder.reply(number * 2);
    ///         }
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn serve<F>(self, dispatcher: &DispatcherHandle, handler: F) -> Result<(), Refused<(Self, F)>>
    where
        F: FnMut(Result<Incoming<P>, Status>) + Send + 'static,
    {
        let (requests, hold) = (Requests::<P, F> { handler, protocol: PhantomData }, Arc::clone(&self.channel));
        listen(Site::caller(), &self.channel, Hold::Owner(hold), dispatcher, requests)
            .map_err(|refused| refused.map(|requests| (self, requests.handler)))
    }
}

/// A user's handler of requests.
struct Requests<P, F> {
    handler: F,
    protocol: Of<P>,
}

impl<P: Protocol, F: FnMut(Result<Incoming<P>, Status>) + Send + 'static> Hear for Requests<P, F> {
    fn hear(&mut self, channel: &Arc<Channel>, message: Message) {
        (self.handler)(Incoming::of(message, channel).map_err(Status::from));
    }

    fn end(&mut self, why: Status) {
        (self.handler)(Err(why));
    }
}

impl<P: Protocol> Incoming<P> {
    fn of(message: Message, channel: &Arc<Channel>) -> Result<Self, ReceiveError> {
        let (request, txid) = open::<Request<P>>(message);
        let responder = txid.map(|txid| Responder { channel: Some(Arc::clone(channel)), txid, protocol: PhantomData });
        match (request, responder) {
            (Ok(Request(request)), None) => Ok(Incoming::OneWay(request)),
            (Ok(Request(request)), Some(responder)) => Ok(Incoming::Call(request, responder)),
            (Err(error), None) => Err(error),
            (Err(error), Some(responder)) => {
                // A client that has gone needs no answer.
                let _ = responder.refuse(error.status());
                Err(error)
            }
        }
    }

    /// The request, whether somebody waits or not. The call, if it is one, is canceled.
    pub fn into_request(self) -> P::Request {
        match self {
            Incoming::OneWay(request) | Incoming::Call(request, _) => request,
        }
    }
}

impl<P: Protocol> Responder<P> {
    /// Answers. If the client does not wait any more, the reply is dropped.
    ///
    /// # Errors
    /// [`WriteError`] with the reply and [`Status::PeerClosed`] when the client has closed its end.
    pub fn reply(mut self, reply: P::Reply) -> Result<(), WriteError<P::Reply>> {
        self.answer(Ok(reply)).map_err(|error| {
            error.map(|it| match unseal::<Answer<P>>(it).0 {
                Ok(reply) => reply,
                Err(_) => unreachable!("a reply was sealed"),
            })
        })
    }

    /// Tells the client that there is no reply, and why.
    ///
    /// # Errors
    /// [`Status::PeerClosed`] when the client has closed its end.
    pub fn refuse(mut self, why: Status) -> Result<(), Status> {
        self.answer(Err(why)).map_err(Status::from)
    }

    fn answer(&mut self, answer: Result<P::Reply, Status>) -> Result<(), WriteError> {
        let Some(channel) = self.channel.take() else { return Ok(()) };
        channel.write(seal(Answer::<P>(answer)).in_reply_to(self.txid))
    }
}

impl<P: Protocol> Drop for Responder<P> {
    fn drop(&mut self) {
        // A client that has gone needs no answer; one that was answered gets no second.
        let _ = self.answer(Err(Status::Canceled));
    }
}

impl<P: Protocol> fmt::Debug for Incoming<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incoming::OneWay(_) => f.write_str("OneWay"),
            Incoming::Call(_, responder) => f.debug_tuple("Call").field(responder).finish(),
        }
    }
}

impl<P: Protocol> fmt::Debug for Responder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("txid", &self.txid).finish_non_exhaustive()
    }
}

impl<P: Protocol> fmt::Debug for Server<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("protocol", &std::any::type_name::<P>()).field("channel", &self.channel).finish()
    }
}
