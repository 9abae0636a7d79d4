//! Tokens: a pair of ends by which two drivers are given a channel, whoever comes first.

use crate::abi::{TokenObject, here};
use crate::dispatcher::PostError;
use crate::{Channel, Dispatcher, Status, TaskHandle};

/// One end of a token. Two drivers that cannot know which of them is ready first each get one, as a
/// [handle](crate::Handle) in a message, say: one [transfers](Self::transfer) a channel end, the other one
/// [registers](Self::register) for it.
///
/// Dropping an end unused ends the rendezvous: a callback that is registered at the other end is told `Canceled`, and a
/// channel end that was transferred there is closed.
///
/// # Examples
/// ```no_run
/// use fuchsine_driver::{Channel, Dispatcher, Message, Status, Token};
///
/// fn meet(home: &Dispatcher) -> Result<(), Status> {
///     let (server, client) = Token::pair()?;
///     server.register(home, |channel: Result<Channel, Status>| {
///         let _ = channel.and_then(|channel| Ok(channel.write(Message::from_bytes(b"nice to meet you")?)?));
///     })?;
///     let (near, far) = Channel::pair()?;
///     client.transfer(far)?;
///     drop(near);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Token {
    object: TokenObject,
}

impl Token {
    /// The two ends of a new token.
    ///
    /// # Errors
    /// `BadState` in an image that no host has attached.
    #[track_caller]
    pub fn pair() -> Result<(Token, Token), Status> {
        let (a, b) = TokenObject::pair(here::<Token>())?;
        Ok((Token::from_object(a), Token::from_object(b)))
    }

    pub(crate) fn from_object(object: TokenObject) -> Self {
        Token { object }
    }

    pub(crate) fn into_object(self) -> TokenObject {
        self.object
    }

    /// Has `f` called once on `dispatcher` with the channel end that the other end transfers, or has transferred. It is
    /// told `Canceled` when the other end is dropped first, or the dispatcher shuts down. The handle takes the registration
    /// back, which ends the rendezvous.
    ///
    /// # Errors
    /// `PeerClosed`: the other end was dropped. `BadState`: it is registered too. `Unavailable`: the dispatcher is shutting
    /// down. The token and the closure are inside the error.
    ///
    /// # Thread requirements
    /// Any thread. `f` may run inside of the transfer, and never inside of this call.
    #[track_caller]
    pub fn register<F>(self, dispatcher: &Dispatcher, f: F) -> Result<TaskHandle, PostError<(Token, F)>>
    where
        F: FnOnce(Result<Channel, Status>) + Send + 'static,
    {
        match self.object.register(here::<F>(), dispatcher.object(), f) {
            Ok(task) => Ok(TaskHandle::from_object(task)),
            Err(((token, f), status)) => Err(PostError::new(((Token::from_object(token), f), status))),
        }
    }

    /// Gives a channel end to whoever has the other end, now or later. The callback that is registered there may run before
    /// this returns.
    ///
    /// # Errors
    /// `InvalidArgs`: something is registered on the end, or a call is in flight. `PeerClosed`: the other end was dropped.
    /// `BadState`: it has transferred too. Token and channel are inside the error.
    ///
    /// # Thread requirements
    /// Any thread. Hold no lock that a callback of the other driver may want.
    pub fn transfer(self, channel: Channel) -> Result<(), PostError<(Token, Channel)>> {
        self.object.transfer(channel.into_object()).map_err(|((token, channel), status)| {
            PostError::new(((Token::from_object(token), Channel::from_object(channel)), status))
        })
    }

    /// Takes the channel end that the other end has transferred.
    ///
    /// # Errors
    /// `NotFound`: nothing is transferred yet. `PeerClosed`: nothing will be. `BadState`: the other end waits for a channel
    /// too. The token is inside the error.
    pub fn receive(self) -> Result<Channel, PostError<Token>> {
        match self.object.receive() {
            Ok(channel) => Ok(Channel::from_object(channel)),
            Err((token, status)) => Err(PostError::new((Token::from_object(token), status))),
        }
    }
}
