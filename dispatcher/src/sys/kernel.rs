//! The poll of the operating system (`mio`), split by who may use what:
//!
//! - [`Poller`]: whoever leads, one thread at a time;
//! - [`Registrar`]: any thread, at any time, also while another one sits in the poll;
//! - [`Waker`]: any thread; ends a poll that blocks;
//! - [`Alarm`]: any thread; ends a poll at an absolute time, to the nanosecond. On Linux it is a timerfd; elsewhere
//!   there is none, and the poll takes a timeout, which `mio` rounds up to a millisecond.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Poll, Registry, Token};

use crate::sys::{Interest, Readiness};
use crate::time::Instant;

/// How many events one poll takes in at most; the rest stays in the kernel for the next.
const EVENTS_PER_POLL: usize = 256;

const WAKE: Token = Token(usize::MAX);
#[cfg(target_os = "linux")]
const ALARM: Token = Token(usize::MAX - 1);

/// The right to wait for events.
#[derive(Debug)]
pub(crate) struct Poller {
    poll: Poll,
    events: Events,
}

/// What a registration was made under; comes back with each of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) fd: RawFd,
    /// Grows with every change of the registration, so that events from before the change can be told apart.
    pub(crate) generation: u32,
}

impl Ticket {
    fn token(self) -> Token {
        // The number of a descriptor has 31 bits, so no ticket is ever one of the two reserved tokens.
        Token((self.generation as usize) << 32 | self.fd as usize)
    }

    fn of(token: Token) -> Self {
        Ticket { fd: (token.0 & 0xffff_ffff) as RawFd, generation: (token.0 >> 32) as u32 }
    }
}

const _: () = assert!(usize::BITS == 64, "a ticket needs a token of 64 bits");

impl Poller {
    /// A new poll, with what other threads need of it.
    ///
    /// # Errors
    /// What the kernel says when it gives no further descriptor.
    pub(crate) fn new() -> io::Result<(Poller, Registrar, Waker, Alarm)> {
        let poll = Poll::new()?;
        let waker = Waker { waker: mio::Waker::new(poll.registry(), WAKE)? };
        let alarm = Alarm::new(poll.registry())?;
        let registrar = Registrar { registry: poll.registry().try_clone()? };
        Ok((Poller { poll, events: Events::with_capacity(EVENTS_PER_POLL) }, registrar, waker, alarm))
    }

    /// Waits for events, at most `timeout` (`None`: until one comes), and gives each to `each`. Wake-ups and alarms are
    /// not given to anybody: ending the wait is all that they are for.
    pub(crate) fn poll(&mut self, timeout: Option<Duration>, mut each: impl FnMut(Ticket, Readiness)) {
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {}
            // A signal: whoever polls looks at its reasons to go on, and polls again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(error) => panic!("the operating system refuses to poll for events: {error}"),
        }
        for event in &self.events {
            if event.token() == WAKE {
                continue;
            }
            #[cfg(target_os = "linux")]
            if event.token() == ALARM {
                continue;
            }
            each(Ticket::of(event.token()), readiness_of(event));
        }
    }
}

fn readiness_of(event: &mio::event::Event) -> Readiness {
    let mut ready = Readiness::EMPTY;
    if event.is_readable() || event.is_read_closed() {
        ready |= Readiness::READABLE;
    }
    if event.is_writable() || event.is_write_closed() {
        ready |= Readiness::WRITABLE;
    }
    if event.is_read_closed() || event.is_write_closed() {
        ready |= Readiness::HANGUP;
    }
    if event.is_error() {
        ready |= Readiness::ERROR;
    }
    ready
}

/// Registers descriptors for edge-triggered events. Every call looks at the level first: what is ready already is
/// an event too.
#[derive(Debug)]
pub(crate) struct Registrar {
    registry: Registry,
}

impl Registrar {
    pub(crate) fn add(&self, ticket: Ticket, interest: Interest) -> io::Result<()> {
        self.registry.register(&mut SourceFd(&ticket.fd), ticket.token(), to_mio(interest))
    }

    pub(crate) fn modify(&self, ticket: Ticket, interest: Interest) -> io::Result<()> {
        self.registry.reregister(&mut SourceFd(&ticket.fd), ticket.token(), to_mio(interest))
    }

    pub(crate) fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.registry.deregister(&mut SourceFd(&fd))
    }
}

/// # Panics
/// On an empty interest, which callers refuse before they come here.
fn to_mio(interest: Interest) -> mio::Interest {
    match (interest.is_readable(), interest.is_writable()) {
        (true, true) => mio::Interest::READABLE | mio::Interest::WRITABLE,
        (true, false) => mio::Interest::READABLE,
        (false, true) => mio::Interest::WRITABLE,
        (false, false) => panic!("a registration needs something to wait for"),
    }
}

/// Ends a poll from another thread.
#[derive(Debug)]
pub(crate) struct Waker {
    waker: mio::Waker,
}

impl Waker {
    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            // The descriptor is ours and lives as long as this value: only memory pressure in the kernel is left.
            tracing::error!(%error, "could not wake the thread that polls");
        }
    }
}

/// Ends a poll at an absolute time of the monotonic clock.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: rustix::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Alarm {
    fn new(registry: &Registry) -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        use std::os::fd::AsRawFd;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), ALARM, mio::Interest::READABLE)?;
        Ok(Alarm { timer })
    }

    /// Rings at `deadline` in place of when it was set to ring before; never, if infinite.
    pub(crate) fn set(&self, deadline: Instant) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let nanos = match deadline {
            Instant::INFINITE => 0,
            // Zero would disarm it.
            deadline => deadline.as_nanos().max(1),
        };
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ },
        };
        if let Err(error) = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec) {
            panic!("the operating system refuses to set a timer to {deadline:?}: {error}");
        }
    }

    /// How long the poll itself has to wait, given that the alarm is set: without limit.
    pub(crate) fn timeout(_deadline: Instant, _now: Instant) -> Option<Duration> {
        None
    }

    /// Whether setting the alarm reaches a poll that blocks already.
    pub(crate) const REACHES_A_BLOCKED_POLL: bool = true;
}

/// Where there is no timerfd the poll takes a timeout, and whoever shortens it has to wake the poll.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Alarm;

#[cfg(not(target_os = "linux"))]
impl Alarm {
    fn new(_registry: &Registry) -> io::Result<Self> {
        Ok(Alarm)
    }

    pub(crate) fn set(&self, _deadline: Instant) {}

    pub(crate) fn timeout(deadline: Instant, now: Instant) -> Option<Duration> {
        (!deadline.is_infinite()).then(|| deadline.duration_since(now))
    }

    pub(crate) const REACHES_A_BLOCKED_POLL: bool = false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Clock;

    #[test]
    fn an_alarm_in_the_past_ends_the_poll_and_none_is_no_event() {
        let (mut poller, _registrar, _waker, alarm) = Poller::new().unwrap();
        alarm.set(Instant::from_nanos(1));
        poller.poll(Some(Duration::from_secs(20)), |_, _| panic!("an alarm is nobody's event"));
    }

    #[test]
    fn an_alarm_never_rings_early() {
        let (mut poller, _registrar, _waker, alarm) = Poller::new().unwrap();
        let clock = Clock::real();
        let deadline = clock.now() + Duration::from_micros(1_700);
        alarm.set(deadline);
        poller.poll(Alarm::timeout(deadline, clock.now()), |_, _| {});
        assert!(clock.now() >= deadline);
    }

    #[test]
    fn a_wake_before_the_poll_ends_it_too() {
        let (mut poller, _registrar, waker, _alarm) = Poller::new().unwrap();
        waker.wake();
        poller.poll(None, |_, _| panic!("a wake-up is nobody's event"));
    }
}
