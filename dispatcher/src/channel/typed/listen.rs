//! One handler for whatever comes: it is called for each message, and registers itself again until the channel ends.
//!
//! The listener lives in a place that it shares with its registered read. The read takes it out, so no lock is held while
//! the handler runs, and puts it back before it registers the next one. A handler that panics takes the listener along.

use crate::channel::{Channel, Message, ReadError, Refused};
use crate::runtime::DispatcherHandle;
use crate::status::Status;
use crate::sync::{Arc, Mutex, Weak};

/// How many messages a call takes before it leaves the dispatcher to others.
const AT_ONCE: usize = 16;

/// What is told each message, and at last, once, why there will be no more.
pub(super) trait Hear: Send + 'static {
    /// A message, or the end.
    fn hear(&mut self, message: Result<Message, Status>);
}

/// How a listener holds its end.
pub(super) enum Hold {
    /// As an owner: it stays open until the listener ends.
    Owner(Arc<Channel>),
    /// As a guest: when the owners are gone, it closes and the listener ends.
    Guest(Weak<Channel>),
}

impl Hold {
    fn channel(&self) -> Option<Arc<Channel>> {
        match self {
            Hold::Owner(channel) => Some(Arc::clone(channel)),
            Hold::Guest(channel) => channel.upgrade(),
        }
    }
}

struct Listener<H> {
    hold: Hold,
    home: DispatcherHandle,
    hearer: H,
}

type Place<H> = Arc<Mutex<Option<Listener<H>>>>;

/// Begins to listen. When that is refused, everything comes back.
pub(super) fn listen<H: Hear>(hold: Hold, home: &DispatcherHandle, hearer: H) -> Result<(), Refused<(Hold, H)>> {
    let place = Arc::new(Mutex::new(Some(Listener { hold, home: home.clone(), hearer })));
    register(&place).map_err(|(status, listener)| Refused::new("listener", status, (listener.hold, listener.hearer)))
}

fn register<H: Hear>(place: &Place<H>) -> Result<(), (Status, Listener<H>)> {
    let take = || place.lock().take().expect("it is in its place while nothing is registered");
    let parts = place.lock().as_ref().map(|listener| (listener.hold.channel(), listener.home.clone()));
    let Some((Some(channel), home)) = parts else { return Err((Status::Canceled, take())) };
    let own = Arc::clone(place);
    channel.begin_read(&home, move |outcome| turn(&own, outcome)).map_err(|refused| (refused.into_status(), take()))
}

fn turn<H: Hear>(place: &Place<H>, outcome: Result<(), Status>) {
    let taken = place.lock().take();
    let Some(mut listener) = taken else { return };
    if let Some(status) = listener.hear_all(outcome) {
        return listener.hearer.hear(Err(status));
    }
    *place.lock() = Some(listener);
    if let Err((status, mut listener)) = register(place) {
        listener.hearer.hear(Err(match status {
            Status::Unavailable => Status::Canceled,
            status => status,
        }));
    }
}

impl<H: Hear> Listener<H> {
    /// Takes what is there, up to a limit. The answer is why nothing more will come.
    fn hear_all(&mut self, outcome: Result<(), Status>) -> Option<Status> {
        let channel = self.hold.channel().filter(|_| outcome != Err(Status::Canceled));
        let Some(channel) = channel else { return Some(Status::Canceled) };
        for _ in 0..AT_ONCE {
            match channel.try_read() {
                Ok(message) => self.hearer.hear(Ok(message)),
                Err(ReadError::ShouldWait) => break,
                Err(ReadError::PeerClosed) => return Some(Status::PeerClosed),
            }
        }
        None
    }
}
