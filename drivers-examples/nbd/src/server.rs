//! [`Server`]: what all connections share, and who lets them in.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use fuchsine_driver::net::{Listener, Stream};
use fuchsine_driver::{DispatcherOptions, DriverContext, Instant, Logger, Node, Status, sleep};

use crate::config::Timeouts;
use crate::connection::serve;
use crate::protocol::Export;
use crate::seats::{NoSeat, Seats};
use crate::session::Limits;
use crate::session::budget::Budget;

/// How long a listener rests when the process has no descriptor left. The connections wait in the kernel's queue.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections let in before others get their turn on the dispatcher.
const BATCH: u32 = 16;

/// How often refusals are told at most, and shortages of descriptors that end and begin again.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) context: DriverContext,
    pub(crate) node: Node,
    pub(crate) log: Logger,
    pub(crate) export: Arc<Export>,
    pub(crate) limits: Limits,
    pub(crate) budget: Arc<Budget>,
    pub(crate) timeouts: Timeouts,
    pub(crate) seats: Arc<Seats>,
    pub(crate) max_connections: usize,
    /// Numbers the connections, for names and the log.
    pub(crate) next_number: AtomicU64,
    pub(crate) refusals: Mutex<Refusals>,
}

/// Refusals that the log has not been told of.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    untold: u64,
    told_at: Option<Instant>,
}

impl Refusals {
    /// Counts one; gives the number to be told, if it is time to.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told_at.is_some_and(|told| now.duration_since(told) < LOG_INTERVAL) {
            return None;
        }
        self.told_at = Some(now);
        self.rest()
    }

    /// Those that were not told of yet, if there are any.
    fn rest(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.untold)).filter(|&count| count > 0)
    }
}

/// Whether a listener can accept nobody, and when that was told.
#[derive(Debug, Default)]
struct Shortage {
    lasts: bool,
    told_at: Option<Instant>,
}

impl Shortage {
    /// Notes an accept that failed; whether that is to be told.
    fn note(&mut self, now: Instant) -> bool {
        let begins = !std::mem::replace(&mut self.lasts, true);
        let told_lately = self.told_at.is_some_and(|told| now.duration_since(told) < LOG_INTERVAL);
        let tell = begins && !told_lately;
        if tell {
            self.told_at = Some(now);
        }
        tell
    }

    /// Notes an accept that worked.
    fn ended(&mut self) {
        self.lasts = false;
    }
}

impl Server {
    /// Lets connections in until the task is canceled.
    pub(crate) async fn accept(self: Arc<Self>, listener: Listener) {
        let log = self.log.with("listener", listener.local_address());
        let mut shortage = Shortage::default();
        let mut batch = 0;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    shortage.ended();
                    self.admit(stream, peer);
                }
                Err(Status::Canceled) => return,
                // The client has gone before it was let in.
                Err(Status::ConnectionAborted | Status::ConnectionReset | Status::PeerClosed) => {}
                Err(status) => {
                    // What is wrong now is most likely wrong in the next instant too: rest instead of spinning.
                    if shortage.note(Instant::now()) {
                        log.warn(format_args!("no connection can be accepted, they have to wait: {status}"));
                    }
                    if sleep(PAUSE).await.is_err() {
                        return;
                    }
                }
            }
            batch += 1;
            if batch % BATCH == 0 {
                yield_now().await;
            }
        }
    }

    /// Gives a connection a dispatcher of its own, or closes it.
    fn admit(self: &Arc<Self>, stream: Stream, peer: String) {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let log = self.log.with("connection", number).with("peer", peer);
        let seat = match self.seats.take() {
            Ok(seat) => seat,
            Err(NoSeat::Stopping) => return,
            Err(NoSeat::Full) => return self.note_refusal(&log),
        };
        let options = DispatcherOptions::new(format!("connection {number}"));
        let dispatcher = match self.context.new_dispatcher(options) {
            Ok(dispatcher) => dispatcher,
            Err(error) => return log.warn(format_args!("the connection is closed: {error}")),
        };
        let server = self.clone();
        let own = dispatcher.clone();
        let spawned = dispatcher.spawn(async move {
            serve(server, stream, seat, log).await;
            own.shutdown();
        });
        if spawned.is_err() {
            dispatcher.shutdown();
        }
    }

    fn note_refusal(&self, log: &Logger) {
        self.tell_refusals(log, |refusals| refusals.count(Instant::now()));
    }

    /// Tells of the refusals that were not told of yet.
    pub(crate) fn tell_last_refusals(&self) {
        self.tell_refusals(&self.log, Refusals::rest);
    }

    fn tell_refusals(&self, log: &Logger, take: impl FnOnce(&mut Refusals) -> Option<u64>) {
        let count = take(&mut self.refusals.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(count) = count {
            let (limit, noun) = (self.max_connections, if count == 1 { "connection" } else { "connections" });
            log.warn(format_args!("{count} {noun} refused: `max_connections` is {limit}, and so many are open"));
        }
    }
}

/// Lets the dispatcher's other callbacks run.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_at_once_and_then_in_sums() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut refusals = Refusals::default();
        let told: Vec<_> = [0, 1, 999, 1000, 1001, 2500].map(|ms| refusals.count(at(ms))).to_vec();
        assert_eq!(told, [Some(1), None, None, Some(3), None, Some(2)]);
        assert_eq!(refusals.rest(), None);
        assert_eq!(refusals.count(at(2501)), None);
        assert_eq!((refusals.rest(), refusals.rest()), (Some(1), None), "the end of the server tells the last ones");
    }

    #[test]
    fn a_shortage_that_comes_and_goes_is_told_once_a_second() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut shortage = Shortage::default();
        let told: Vec<_> = [0, 100, 2000].map(|ms| shortage.note(at(ms))).to_vec();
        assert_eq!(told, [true, false, false], "one that lasts is told once");
        let told: Vec<_> = [2100, 2200, 3000]
            .map(|ms| {
                shortage.ended();
                shortage.note(at(ms))
            })
            .to_vec();
        assert_eq!(told, [true, false, false]);
    }
}
