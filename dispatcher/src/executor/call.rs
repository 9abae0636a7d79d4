//! A call on a channel as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::sleep::{Sleep, sleep_until};
use crate::channel::{CallError, Channel, Message};
use crate::status::Status;
use crate::time::Instant;

enum State {
    Unsent(Message),
    InFlight(u32),
    Over,
}

/// Becomes ready with the reply. Made by [`Channel::call_async`].
///
/// # Cancel safety
/// Dropping it gives the call up: a reply that comes later is dropped.
#[must_use = "a call sends nothing until it is awaited"]
pub struct Call<'a> {
    channel: &'a Channel,
    state: State,
    deadline: Instant,
    sleep: Option<Sleep>,
}

impl Channel {
    /// Sends a request when it is first polled, and waits for the reply until `deadline`, by the clock of the dispatcher.
    ///
    /// Several calls may be in flight on one end; it registers no callback unless there is a deadline, which is a timer.
    ///
    /// # Errors
    /// [`CallError`]: what [`write`](Channel::write) refuses, with the request; [`Status::TimedOut`];
    /// [`Status::PeerClosed`] when the peer closes first. With a deadline also [`Status::Canceled`] when the dispatcher
    /// shuts down, and [`Status::BadState`] when it is polled outside of one; without one the future is dropped then.
    ///
    /// # Cancel safety
    /// Dropping the future gives the call up.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{Channel, Instant, Message, Status};
    ///
    /// async fn temperature(server: &Channel, deadline: Instant) -> Result<Vec<u8>, Status> {
    ///     let reply = server.call_async(Message::from_bytes(b"how warm?"), deadline).await?;
    ///     Ok(reply.bytes().to_vec())
    /// }
    /// ```
    pub fn call_async(&self, request: Message, deadline: Instant) -> Call<'_> {
        Call { channel: self, state: State::Unsent(request), deadline, sleep: None }
    }
}

impl Call<'_> {
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        if self.deadline.is_infinite() {
            return Poll::Pending;
        }
        let deadline = self.deadline;
        let sleep = self.sleep.get_or_insert_with(|| sleep_until(deadline));
        Pin::new(sleep).poll(cx).map(|slept| slept.err().unwrap_or(Status::TimedOut))
    }
}

impl Future for Call<'_> {
    type Output = Result<Message, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if matches!(this.state, State::Unsent(_)) {
            let State::Unsent(request) = std::mem::replace(&mut this.state, State::Over) else { return Poll::Pending };
            match this.channel.start_call(request, cx.waker().clone()) {
                Ok(number) => this.state = State::InFlight(number),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let State::InFlight(number) = this.state else { panic!("a call is polled after it was over") };
        let outcome = match this.channel.poll_call(number, cx.waker()) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => match this.poll_deadline(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(status) => {
                    this.channel.give_up_call(number);
                    Err(status)
                }
            },
        };
        this.state = State::Over;
        this.sleep = None;
        Poll::Ready(outcome.map_err(CallError::sent))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let State::InFlight(number) = self.state {
            self.channel.give_up_call(number);
        }
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_sent = !matches!(self.state, State::Unsent(_));
        f.debug_struct("Call").field("channel", self.channel).field("is_sent", &is_sent).finish_non_exhaustive()
    }
}
