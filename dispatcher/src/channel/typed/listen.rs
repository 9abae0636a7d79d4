//! One handler for whatever comes: it is called for each message, by a read that stands, until the channel ends.
//!
//! The end is told once, by the last call. Where the read ends without being called with it, because the dispatcher began
//! to shut down while the handler ran, the listener tells it when it is dropped, which happens with the dispatcher current. A
//! handler that panics, and one whose read is taken back, are told no end.

use std::ops::ControlFlow;

use crate::channel::receive::Receive;
use crate::channel::{Channel, Message, ReadError, Refused};
use crate::runtime::DispatcherHandle;
use crate::site::Site;
use crate::status::Status;
use crate::sync::{Arc, Weak};

/// How many messages a call takes before it leaves the dispatcher to others.
const AT_ONCE: usize = 16;

/// What is told each message, and at last, once, why there will be no more.
pub(super) trait Hear: Send + 'static {
    /// A message that came to this end.
    fn hear(&mut self, channel: &Arc<Channel>, message: Message);

    /// Why no more will come.
    fn end(&mut self, why: Status);
}

/// How a listener holds its end.
pub(super) enum Hold {
    /// As an owner: it stays open until the listener ends.
    Owner(Arc<Channel>),
    /// As a guest: when the owners are gone, it closes and the listener ends.
    Guest(Weak<Channel>),
}

struct Listener<H: Hear> {
    hold: Hold,
    /// `None` once it has been told the end.
    hearer: Option<H>,
    /// Whether it is not called again because the dispatcher shuts down.
    is_refused: bool,
}

/// Begins to listen to an end. When that is refused, the hearer comes back.
pub(super) fn listen<H: Hear>(
    site: Site,
    channel: &Channel,
    hold: Hold,
    home: &DispatcherHandle,
    hearer: H,
) -> Result<(), Refused<H>> {
    let listener = Listener { hold, hearer: Some(hearer), is_refused: false };
    channel
        .begin_receiving_as(site, home, listener)
        .map_err(|refused| refused.map(|mut listener| listener.hearer.take().expect("nothing has been told to it")))
}

impl<H: Hear> Listener<H> {
    /// Hears a message and what is there behind it, up to a limit. The answer is why nothing more will come.
    fn hear_all(&mut self, first: Message) -> Option<Status> {
        let upgraded;
        let channel = match &self.hold {
            Hold::Owner(channel) => channel,
            Hold::Guest(channel) => {
                upgraded = channel.upgrade();
                // It has closed, of which the read is told when it waits again.
                upgraded.as_ref()?
            }
        };
        let hearer = self.hearer.as_mut()?;
        hearer.hear(channel, first);
        for _ in 1..AT_ONCE {
            match channel.try_read() {
                Ok(message) => hearer.hear(channel, message),
                Err(ReadError::ShouldWait) => break,
                Err(ReadError::PeerClosed) => return Some(Status::PeerClosed),
            }
        }
        None
    }

    fn end(&mut self, why: Status) {
        if let Some(mut hearer) = self.hearer.take() {
            hearer.end(why);
        }
    }
}

impl<H: Hear> Receive for Listener<H> {
    fn receive(&mut self, outcome: Result<Message, Status>) -> ControlFlow<()> {
        let end = match outcome {
            Err(why) => Some(why),
            Ok(message) => self.hear_all(message),
        };
        match end {
            None => ControlFlow::Continue(()),
            Some(why) => {
                self.end(why);
                ControlFlow::Break(())
            }
        }
    }

    fn is_refused(&mut self) {
        self.is_refused = true;
    }
}

impl<H: Hear> Drop for Listener<H> {
    fn drop(&mut self) {
        if self.is_refused {
            self.end(Status::Canceled);
        }
    }
}
