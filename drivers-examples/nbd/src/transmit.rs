//! [`Transmission`]: the loop that carries bytes and messages between the socket, the session and the device.
//!
//! One future does everything for a connection, and nothing in it waits for anything but what its poll registers:
//!
//! 1. requests that the session has for the device are written to the channel; an idle device answers within that call;
//! 2. answers that are there are given to the session;
//! 3. replies are written as far as the socket takes them;
//! 4. if the session wants more, one read from the socket is taken.
//!
//! This repeats until none of it gets anywhere, or for [`ROUNDS`] rounds, after which other connections get their turn.
//! Then the future sleeps until the socket, the device, the stop or the timer wakes it. The device is only waited for
//! while it owes an answer: a wait for a device that answers within the write would be in vain.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use fuchsine_driver::block::BlockBuffer;
use fuchsine_driver::net::Stream;
use fuchsine_driver::{Instant, Sleep, Status, sleep};

use crate::device::{Device, nbd_error};
use crate::end::End;
use crate::inbox::Inbox;
use crate::patience::{Look, Patience, Waiting};
use crate::seats::Seat;
use crate::session::{Session, WaitsFor};

/// Rounds of one poll; each moves a few hundred kilobytes at most.
const ROUNDS: u32 = 8;

/// Data that is this long is read straight into its message; what is shorter comes with the requests around it.
const DIRECT: usize = 4 << 10;

/// How long a stop waits for replies under way to be taken.
const GRACE: Duration = Duration::from_millis(500);

/// The transmission phase of one connection.
#[derive(Debug)]
pub(crate) struct Transmission<'a> {
    stream: &'a Stream,
    seat: &'a mut Seat,
    device: Device,
    session: Session<BlockBuffer>,
    inbox: Inbox,
    patience: Patience,
    timer: Sleep,
    timer_set: bool,
    /// False once a read or write found nothing to do; the next readiness makes it true.
    can_read: bool,
    can_write: bool,
    /// Whether bytes have come or gone since patience was told.
    has_read: bool,
    has_written: bool,
    /// Why no more requests are taken, once that is so, and by when it has to be over.
    reason: Option<End>,
    grace_ends: Option<Instant>,
}

impl<'a> Transmission<'a> {
    pub(crate) fn new(
        stream: &'a Stream,
        seat: &'a mut Seat,
        device: Device,
        session: Session<BlockBuffer>,
        patience: Patience,
        first: Vec<u8>,
    ) -> Self {
        Self {
            stream,
            seat,
            device,
            session,
            inbox: Inbox::new(first),
            patience,
            timer: sleep(Duration::ZERO),
            timer_set: false,
            can_read: true,
            can_write: true,
            has_read: false,
            has_written: false,
            reason: None,
            grace_ends: None,
        }
    }

    /// Serves the client until the connection has to be closed.
    pub(crate) async fn run(mut self) -> End {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.grace_ends.is_none() && self.seat.poll_stop(cx).is_ready() {
            self.begin_to_leave();
        }
        for _ in 0..ROUNDS {
            match self.turn() {
                Err(end) => return Poll::Ready(end),
                Ok(_) if self.session.is_finished() => return Poll::Ready(self.last_word()),
                Ok(true) => {}
                Ok(false) => match self.wait(cx) {
                    Ok(true) => {}
                    Ok(false) => return self.poll_patience(cx),
                    Err(end) => return Poll::Ready(end),
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One round; true if anything got on.
    fn turn(&mut self) -> Result<bool, End> {
        let asked = self.ask_device()?;
        let answered = self.take_answers()?;
        let wrote = self.write_replies()?;
        let read = self.take_input()?;
        Ok(asked || answered || wrote || read)
    }

    fn ask_device(&mut self) -> Result<bool, End> {
        let mut any = false;
        while let Some(request) = self.session.next_request() {
            any = true;
            let id = request.id;
            match self.device.ask(request) {
                Ok(()) => {}
                Err(Status::PeerClosed) => self.device_gone(Status::PeerClosed)?,
                Err(status) => self.session.complete(id, Err(nbd_error(status)), None)?,
            }
        }
        Ok(any)
    }

    fn take_answers(&mut self) -> Result<bool, End> {
        let mut any = false;
        while self.session.waits_for_device() {
            match self.device.try_answer() {
                Ok(answer) => self.session.complete(answer.id, answer.outcome, Some(answer.data))?,
                Err(Status::ShouldWait) => break,
                Err(status) => self.device_gone(status)?,
            }
            any = true;
        }
        Ok(any)
    }

    fn write_replies(&mut self) -> Result<bool, End> {
        let mut any = false;
        while self.can_write && self.session.has_output() {
            match self.session.with_slices(|slices| self.stream.try_write_vectored(slices)) {
                Ok(count) => {
                    self.session.advance(count);
                    any = true;
                }
                Err(Status::ShouldWait) => self.can_write = false,
                Err(status) => return Err(End::Socket(status)),
            }
        }
        self.has_written |= any;
        Ok(any)
    }

    fn take_input(&mut self) -> Result<bool, End> {
        if !self.inbox.is_empty() {
            let before = self.inbox.unread().len();
            self.feed_inbox()?;
            if self.inbox.unread().len() < before {
                return Ok(true);
            }
        }
        // Asking for `direct` also tries again to get room for the data of a write, on which `wants_input` depends.
        let room = self.session.direct().map_or(0, |room| room.len());
        if !self.can_read || !self.inbox.is_empty() || !self.session.wants_input() {
            return Ok(false);
        }
        let is_direct = room >= DIRECT;
        let read = match self.session.direct() {
            Some(room) if is_direct => self.stream.try_read(room).map(|count| (count, count == room.len())),
            _ => self.inbox.fill(self.stream),
        };
        match read {
            Ok((0, _)) => {
                let within_request = self.session.end_input();
                self.reason.get_or_insert(End::Left { within_request });
            }
            Ok((count, is_full)) => {
                self.has_read = true;
                if is_direct {
                    self.inbox.is_passed_by(room);
                    self.session.received(count);
                } else {
                    self.feed_inbox()?;
                }
                // A short read has emptied the socket, so that asking again is in vain until it is readable; but many
                // clients send the head of a write and its data one after the other, and the data is just about to come.
                self.can_read = is_full || self.session.is_within_request();
            }
            Err(Status::ShouldWait) => {
                self.can_read = false;
                return Ok(false);
            }
            Err(status) => return Err(End::Socket(status)),
        }
        Ok(true)
    }

    fn feed_inbox(&mut self) -> Result<(), End> {
        let mut unread = self.inbox.unread();
        self.session.feed(&mut unread)?;
        let left = unread.len();
        self.inbox.keep(left);
        Ok(())
    }

    /// Registers with everything that can move the connection on; true if something can already.
    fn wait(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let mut ready = false;
        if self.session.waits_for_device() {
            match self.device.poll_answer(cx) {
                Poll::Ready(Ok(answer)) => {
                    self.session.complete(answer.id, answer.outcome, Some(answer.data))?;
                    ready = true;
                }
                Poll::Ready(Err(status)) => {
                    self.device_gone(status)?;
                    ready = true;
                }
                Poll::Pending => {}
            }
        }
        if self.session.has_output()
            && !self.can_write
            && let Poll::Ready(told) = self.stream.poll_writable(cx)
        {
            told.map_err(End::Socket)?;
            self.can_write = true;
            ready = true;
        }
        if self.session.wants_input()
            && !self.can_read
            && let Poll::Ready(told) = self.stream.poll_readable(cx)
        {
            told.map_err(End::Socket)?;
            self.can_read = true;
            ready = true;
        }
        Ok(ready)
    }

    /// Tells patience what has happened, and asks it whether to go on.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let waiting = Waiting::Session(self.session.waits_for());
        let now = Instant::now();
        self.patience.note(waiting, self.has_read, self.has_written, now);
        (self.has_read, self.has_written) = (false, false);
        loop {
            if self.timer_set {
                match Pin::new(&mut self.timer).poll(cx) {
                    Poll::Ready(Ok(())) => self.shrink_if_idle(),
                    // Without a timer the dispatcher is at its end, and drops this future next.
                    Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
                }
            }
            if self.grace_ends.is_some_and(|end| now >= end) {
                return Poll::Ready(End::Stopped { unfinished: self.session.request_count() });
            }
            let next = match self.patience.look(now) {
                Look::Close(reason) => return Poll::Ready(End::Exhausted(reason)),
                Look::At(next) => next.into_iter().chain(self.grace_ends).min(),
            };
            self.timer_set = next.is_some();
            match next {
                Some(next) => self.timer.reset_at(next),
                None => return Poll::Pending,
            }
        }
    }

    /// Gives memory back. Done when the timer fires, not whenever there is nothing to do: a client that sends one request
    /// after the other would have it taken and given each time.
    fn shrink_if_idle(&mut self) {
        if self.session.waits_for() == WaitsFor::NextRequest {
            self.session.shrink_if_idle();
            self.inbox.shrink_if_empty();
        }
    }

    /// The server stops: nothing more is taken, and what is under way has a little time.
    fn begin_to_leave(&mut self) {
        self.session.end_input();
        self.session.cut_short();
        self.reason = Some(End::Stopped { unfinished: 0 });
        self.grace_ends = Some(Instant::now() + GRACE);
        self.timer_set = false;
    }

    fn device_gone(&mut self, status: Status) -> Result<(), End> {
        self.reason = Some(End::DeviceGone(status));
        self.session.device_gone()?;
        Ok(())
    }

    fn last_word(&mut self) -> End {
        self.reason.take().unwrap_or(End::Disconnected)
    }
}
