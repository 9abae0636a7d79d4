//! Models of the two ends: write against register, cancel and close, and futures that wait.
//!
//! The dispatcher is a stand-in of the same contract: an operation is armed, ready, begun or taken back, under a lock of
//! its own. Each model is explored with handlers that begin under the lock of the pair, as inline calls do, and with ones
//! that begin later, by a lock of their own; they run on the thread that made them ready, after it has released the lock.
//!
//! Run as the other models. Explored with a preemption bound of 3: 4 to 330 schedules a model and way, 1,641 in all for
//! reads that are told once and futures. Those of standing reads are in `loom_standing`.
//!
//! Not covered: dispatchers that run handlers later or shut down (their side of exactly-once is modelled and tested
//! there), more than two threads at an end, and arenas.

use std::sync::atomic::{AtomicUsize as PlainCount, Ordering};
use std::task::{Poll, Wake, Waker};

use super::ends::{Side, Wanted};
use super::limits::Limits;
use super::pair::{Closed, Pair, Queued, ReadError};
use super::wait_op::{Anew, Completion, Next, Schedule, WaitOp};
use crate::status::Status;
use crate::sync::{Arc, Mutex, thread};

impl Queued for u32 {
    fn byte_len(&self) -> usize {
        4
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Armed,
    Ready(Completion),
    Ran(Completion),
    TakenBack,
}

/// A registered read of the stand-in.
#[derive(Clone)]
pub(super) struct Op {
    pub(super) fate: Arc<Mutex<Fate>>,
    pub(super) pair: Arc<Pair<u32, Op>>,
    pub(super) generation: u64,
    /// Whether its handler begins under the lock of the pair.
    pub(super) inline: bool,
    /// Whether its handler takes messages.
    pub(super) takes: bool,
    /// What the handlers of one that stays have seen.
    pub(super) stands: Option<Arc<Mutex<Seen>>>,
}

/// What the handlers of a standing read have been told, and have read: one message each.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) told: Vec<Completion>,
    pub(super) read: Vec<u32>,
}

impl WaitOp for Op {
    type Handler = ();
    /// And the message that it was handed.
    type Begun = (Op, Option<u32>);
    type Message = u32;

    fn ready(self, next: &mut Next<Self>) -> Option<(Self, Schedule)> {
        let mut fate = self.fate.lock();
        let is_armed = *fate == Fate::Armed;
        match self.inline {
            true if is_armed => *fate = Fate::Ran(Completion::Ready),
            _ if is_armed => *fate = Fate::Ready(Completion::Ready),
            _ => {}
        }
        drop(fate);
        match (is_armed, self.inline) {
            (true, true) => {
                *next = Next::Run((self, None));
                None
            }
            (true, false) => Some((self, Schedule::Yes)),
            (false, _) => Some((self, Schedule::No)),
        }
    }

    fn hand(begun: &mut Self::Begun, message: u32) {
        assert!(begun.0.takes, "it takes messages");
        assert_eq!(begun.1.replace(message), None, "it is handed one");
    }

    fn run((op, handed): Self::Begun) {
        op.run_handler(Completion::Ready, handed);
    }

    fn schedule(self) {
        self.run_later();
    }

    fn complete(&self, how: Completion) {
        {
            let mut fate = self.fate.lock();
            *fate = match *fate {
                Fate::Armed => Fate::Ready(how),
                Fate::Ready(Completion::Ready) if how == Completion::Canceled => Fate::Ready(how),
                ended => ended,
            };
        }
        self.run_later();
    }

    fn take_back(&self) -> Option<()> {
        let mut fate = self.fate.lock();
        let is_pending = matches!(*fate, Fate::Armed | Fate::Ready(_));
        is_pending.then(|| *fate = Fate::TakenBack)
    }
}

impl Op {
    pub(super) fn run_later(&self) {
        let how = {
            let mut fate = self.fate.lock();
            let Fate::Ready(how) = *fate else { return };
            *fate = Fate::Ran(how);
            how
        };
        let mut message = None;
        if self.takes && how == Completion::Ready {
            let mut room = Next::Nothing;
            message = self.pair.taker_begins(READER, self.generation, &mut room).1;
            room.carry_out();
        } else {
            drop(self.pair.handler_begins(READER, Wanted::Message, self.generation));
        }
        self.run_handler(how, message);
    }

    fn run_handler(&self, how: Completion, handed: Option<u32>) {
        match &self.stands {
            None => self.pair.handler_ends(READER),
            Some(seen) => {
                let mut begun = Some((self.generation, how, handed));
                while let Some((generation, how, handed)) = begun {
                    begun = self.run_standing(seen, generation, how, handed);
                }
            }
        }
    }

    /// Runs the handler of one that stays. Its next number, what it is told and what it is handed, if it has begun again.
    fn run_standing(
        &self,
        seen: &Mutex<Seen>,
        generation: u64,
        how: Completion,
        handed: Option<u32>,
    ) -> Option<(u64, Completion, Option<u32>)> {
        let reads = how == Completion::Ready && !self.takes;
        let message = if reads { read(&self.pair).ok() } else { handed };
        // What takes messages is not called for one that is gone.
        if !self.takes || message.is_some() || how != Completion::Ready {
            let mut seen = seen.lock();
            seen.told.push(how);
            seen.read.extend(message);
        }
        if how != Completion::Ready {
            self.pair.handler_ends(READER);
            self.pair.end_reading(READER, generation);
            return None;
        }
        let (mut told, mut begun) = (None, None);
        let accept = |there: Option<Completion>, generation| {
            if self.inline && there == Some(Completion::Ready) {
                begun = Some((generation, Completion::Ready));
                return Some(Anew::HasBegun);
            }
            let fate = Arc::new(Mutex::new(there.map_or(Fate::Armed, Fate::Ready)));
            let op = Op { fate, generation, ..self.clone() };
            told = there.map(|_| op.clone());
            Some(Anew::Waits(op))
        };
        let handed = if self.takes {
            self.pair.register_to_take(READER, generation, accept)
        } else {
            self.pair.register_again(READER, generation, accept);
            None
        };
        if let Some(op) = told {
            op.run_later();
        }
        begun.map(|(generation, how)| (generation, how, handed))
    }
}

pub(super) const READER: Side = Side::A;
pub(super) const WRITER: Side = Side::B;

pub(super) type Model = Arc<Pair<u32, Op>>;

pub(super) fn pair() -> Model {
    Arc::new(Pair::new(Limits::default()))
}

/// Registers a read and runs it at once if it is ready; its fate can be looked at later.
fn register(pair: &Model, inline: bool) -> Result<Arc<Mutex<Fate>>, Status> {
    let fate = Arc::new(Mutex::new(Fate::Armed));
    let mut ready = None;
    pair.register(READER, |is_ready, generation| {
        let op = Op { fate: fate.clone(), pair: pair.clone(), generation, inline, takes: false, stands: None };
        if is_ready {
            *fate.lock() = Fate::Ready(Completion::Ready);
            ready = Some(op.clone());
        }
        Some(op)
    })?;
    if let Some(op) = ready {
        op.run_later();
    }
    Ok(fate)
}

pub(super) fn write(pair: &Model, message: u32) -> Result<(), Status> {
    let mut next = Next::Nothing;
    let written = pair.write(WRITER, message, &mut next);
    next.carry_out();
    written.map_err(|(status, _)| status)
}

pub(super) fn read(pair: &Model) -> Result<u32, ReadError> {
    let mut next = Next::Nothing;
    let mut peer_is_open = true;
    let read = pair.try_read(READER, &mut peer_is_open, &mut next);
    next.carry_out();
    read.ok_or(if peer_is_open { ReadError::ShouldWait } else { ReadError::PeerClosed })
}

fn poll(pair: &Model, awaiting: &mut Option<u64>, waker: &Waker) -> Poll<Result<u32, Status>> {
    let mut next = Next::Nothing;
    let polled = pair.poll_read(READER, awaiting, waker, &mut next);
    next.carry_out();
    polled
}

/// Closes an end; the answer is what it had not read.
pub(super) fn close(pair: &Model, side: Side) -> Vec<u32> {
    let Closed { unread, to_tell } = pair.close(side);
    to_tell.into_iter().for_each(Next::carry_out);
    unread.into()
}

/// Ends a model, so that nothing refers to the pair any more.
pub(super) fn end(pair: Model) {
    close(&pair, READER);
    close(&pair, WRITER);
    assert!(pair.is_idle(READER), "no handler is left running");
}

fn fate_of(fate: &Arc<Mutex<Fate>>) -> Fate {
    *fate.lock()
}

fn explore(model: fn(bool)) {
    loom::model(move || model(true));
    loom::model(move || model(false));
}

#[test]
fn loom_two_writers_wake_a_registered_read_exactly_once() {
    explore(|inline| {
        let pair = pair();
        let writers: Vec<_> = (0..2)
            .map(|message| {
                let pair = pair.clone();
                thread::spawn("writer", move || write(&pair, message).expect("the reader is open")).unwrap()
            })
            .collect();
        let fate = register(&pair, inline).expect("no other read is registered");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(fate_of(&fate), Fate::Ran(Completion::Ready));
        let mut all = [read(&pair).unwrap(), read(&pair).unwrap()];
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
        end(pair);
    });
}

#[test]
fn loom_a_canceled_read_never_runs_and_its_end_is_free_for_the_next_one_at_once() {
    explore(|inline| {
        let pair = pair();
        let other = pair.clone();
        let writer = thread::spawn("writer", move || {
            write(&other, 7).expect("the reader is open");
            write(&other, 8).expect("the reader is open");
        })
        .unwrap();
        let first = register(&pair, inline).expect("no other read is registered");
        let canceled = pair.cancel(READER, Wanted::Message).is_some();
        // An empty queue leaves the next registration waiting for the second message.
        let first_read = read(&pair).ok();
        let second = register(&pair, inline).expect("the end is free after a cancel, whatever it said");
        writer.join().unwrap();
        assert_eq!(fate_of(&first), if canceled { Fate::TakenBack } else { Fate::Ran(Completion::Ready) });
        assert_eq!(fate_of(&second), Fate::Ran(Completion::Ready), "the message was not lost");
        let all: Vec<u32> = first_read.into_iter().chain(std::iter::from_fn(|| read(&pair).ok())).collect();
        assert_eq!(all, [7, 8]);
        end(pair);
    });
}

#[test]
fn loom_a_message_before_the_close_is_told_as_a_message() {
    explore(|inline| {
        let pair = pair();
        let other = pair.clone();
        let writer = thread::spawn("writer", move || {
            write(&other, 7).expect("the reader is open");
            assert!(close(&other, WRITER).is_empty());
        })
        .unwrap();
        let fate = register(&pair, inline).expect("a message is queued or the peer is open");
        writer.join().unwrap();
        assert_eq!(fate_of(&fate), Fate::Ran(Completion::Ready));
        assert_eq!(read(&pair), Ok(7));
        assert_eq!(read(&pair), Err(ReadError::PeerClosed));
        assert_eq!(register(&pair, inline).map(drop), Err(Status::PeerClosed));
        end(pair);
    });
}

#[test]
fn loom_the_peers_close_is_told_once_or_refuses_the_registration() {
    explore(|inline| {
        let pair = pair();
        let other = pair.clone();
        let writer = thread::spawn("writer", move || drop(close(&other, WRITER))).unwrap();
        let registered = register(&pair, inline);
        writer.join().unwrap();
        match registered {
            Ok(fate) => assert_eq!(fate_of(&fate), Fate::Ran(Completion::PeerClosed)),
            Err(status) => assert_eq!(status, Status::PeerClosed),
        }
        end(pair);
    });
}

#[test]
fn loom_closing_against_a_write_tells_the_read_once_and_loses_no_message() {
    explore(|inline| {
        let pair = pair();
        let fate = register(&pair, inline).expect("no other read is registered");
        let other = pair.clone();
        let writer = thread::spawn("writer", move || write(&other, 7)).unwrap();
        let unread = close(&pair, READER);
        match writer.join().unwrap() {
            Ok(()) => assert_eq!(unread, [7]),
            Err(status) => assert_eq!((status, unread.len()), (Status::PeerClosed, 0)),
        }
        let fate = fate_of(&fate);
        assert!(matches!(fate, Fate::Ran(Completion::Ready | Completion::Canceled)), "{fate:?}");
        end(pair);
    });
}

#[test]
fn loom_a_cancel_against_both_ends_closing_ends_the_read_once() {
    explore(|inline| {
        let pair = pair();
        let fate = register(&pair, inline).expect("no other read is registered");
        let (own, other) = (pair.clone(), pair.clone());
        let peer = thread::spawn("peer", move || drop(close(&other, WRITER))).unwrap();
        let owner = thread::spawn("owner", move || drop(close(&own, READER))).unwrap();
        let canceled = pair.cancel(READER, Wanted::Message).is_some();
        peer.join().unwrap();
        owner.join().unwrap();
        let fate = fate_of(&fate);
        assert_eq!(fate == Fate::TakenBack, canceled, "{fate:?}");
        assert!(canceled || matches!(fate, Fate::Ran(Completion::PeerClosed | Completion::Canceled)), "{fate:?}");
        end(pair);
    });
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(PlainCount);

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn loom_a_future_that_waits_is_woken_by_the_message_that_it_missed() {
    loom::model(|| {
        let pair = pair();
        let woken = std::sync::Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let other = pair.clone();
        let writer = thread::spawn("writer", move || write(&other, 7).expect("the reader is open")).unwrap();
        let mut awaiting = None;
        let first = poll(&pair, &mut awaiting, &waker);
        writer.join().unwrap();
        match first {
            Poll::Ready(message) => assert_eq!(message, Ok(7)),
            Poll::Pending => {
                assert_eq!(woken.0.load(Ordering::Relaxed), 1);
                assert_eq!(poll(&pair, &mut awaiting, &waker), Poll::Ready(Ok(7)));
            }
        }
        end(pair);
    });
}

#[test]
fn loom_a_future_that_is_dropped_leaves_the_message_and_the_end_to_the_next_reader() {
    explore(|inline| {
        let pair = pair();
        let other = pair.clone();
        let writer = thread::spawn("writer", move || write(&other, 7).expect("the reader is open")).unwrap();
        let mut awaiting = None;
        let first = poll(&pair, &mut awaiting, Waker::noop());
        if let Some(awaiting) = awaiting {
            drop(pair.stop_awaiting(READER, Wanted::Message, awaiting));
        }
        if first.is_pending() {
            let fate = register(&pair, inline).expect("the end is free");
            writer.join().unwrap();
            assert_eq!(fate_of(&fate), Fate::Ran(Completion::Ready));
            assert_eq!(read(&pair), Ok(7));
        } else {
            writer.join().unwrap();
            assert_eq!(first, Poll::Ready(Ok(7)));
        }
        end(pair);
    });
}
