//! Clients and servers as futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::call::Call;
use crate::channel::typed::{request_of, sealed_request, take_event, take_reply, take_request};
use crate::channel::{CallError, Client, Incoming, Protocol, Server};
use crate::status::Status;
use crate::time::Instant;

/// Becomes ready with the reply. Made by [`Client::call_async`].
///
/// # Cancel safety
/// As [`Call`].
#[must_use = "a call sends nothing until it is awaited"]
pub struct TypedCall<'a, P: Protocol> {
    call: Call<'a>,
    protocol: std::marker::PhantomData<fn() -> P>,
}

impl<P: Protocol> Client<P> {
    /// Sends a request when it is first polled, and waits for the reply, as [`Channel::call_async`] does.
    ///
    /// # Errors
    /// As [`Client::call`] and [`Channel::call_async`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the call up.
    ///
    /// [`Channel::call_async`]: crate::Channel::call_async
    pub fn call_async(&self, request: P::Request, deadline: Instant) -> TypedCall<'_, P> {
        let call = self.channel().call_async(sealed_request::<P>(request), deadline);
        TypedCall { call, protocol: std::marker::PhantomData }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`Status::WrongType`] when it is none of this protocol or image; it is dropped. Else as
    /// [`Channel::read`](crate::Channel::read).
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next_event(&self) -> Result<P::Event, Status> {
        take_event::<P>(self.channel().read().await?)
    }
}

impl<P: Protocol> Server<P> {
    /// Waits for the next request.
    ///
    /// # Errors
    /// [`Status::WrongType`] when it is none of this protocol or image; it is dropped, and a call is told so. Else as
    /// [`Channel::read`](crate::Channel::read).
    ///
    /// # Cancel safety
    /// Dropping the future loses no request.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{Incoming, Protocol, Server, Status};
    ///
    /// async fn serve<P: Protocol<Request = u64, Reply = u64>>(server: Server<P>) -> Result<(), Status> {
    ///     loop {
    ///         match server.next().await {
    ///             Ok(Incoming::Call(number, responder)) => responder.reply(number * 2).map_err(Status::from)?,
    ///             Ok(Incoming::OneWay(_)) | Err(Status::WrongType) => {}
    ///             Err(Status::PeerClosed) => return Ok(()),
    ///             Err(status) => return Err(status),
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn next(&self) -> Result<Incoming<P>, Status> {
        take_request(self, self.channel().read().await?)
    }
}

impl<P: Protocol> Future for TypedCall<'_, P> {
    type Output = Result<P::Reply, CallError<P::Request>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.call).poll(cx).map(|outcome| match outcome {
            Ok(message) => take_reply::<P>(message).map_err(CallError::sent),
            Err(error) => Err(error.map(request_of::<P>)),
        })
    }
}

impl<P: Protocol> fmt::Debug for TypedCall<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedCall").field(&self.call).finish()
    }
}
