//! Models of channels on real dispatchers and the real pool: random schedules of writers, registrations, cancels, closes,
//! futures and shutdowns, each with every lock and atomic of the crate as a switching point.
//!
//! What each checks in the end: as many handlers were told as registrations were accepted and not taken back; each
//! message was read or is still there; the counters add up. Where no shutdown is part of the race, the model waits for
//! what must be told, so that a lost notice shows as a deadlock.
//!
//! Run as the other models: `SHUTTLE_ITERATIONS` schedules each (default 2,000), random ones and PCT ones of depth 3.
//!
//! Not covered: weak memory (shuttle has none; the models of the pair run under loom), more than one reader.

use std::time::Duration;

use super::{Channel, Message, ReadError};
use crate::runtime::{Dispatcher, DispatcherBuilder, DispatcherHandle, Runtime, RuntimeBuilder};
use crate::status::Status;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex, thread};

pub(super) fn explore(model: fn()) {
    let iterations = std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    shuttle::check_random(model, iterations);
    shuttle::check_pct(model, iterations, 3);
}

/// What a model saw.
#[derive(Default)]
struct Seen {
    accepted: AtomicUsize,
    told: Mutex<Vec<Result<(), Status>>>,
    /// Signaled when a handler was told, and when a registration was refused.
    news: Condvar,
    is_over: Mutex<bool>,
    read: AtomicUsize,
    inside: AtomicUsize,
}

impl Seen {
    fn add(counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::AcqRel);
    }

    fn tell(&self, outcome: Result<(), Status>) {
        self.told.lock().push(outcome);
        self.news.notify_all();
    }

    fn wait_until_told(&self, times: usize) {
        let mut told = self.told.lock();
        while told.len() < times {
            self.news.wait(&mut told);
        }
    }

    fn over(&self) {
        *self.is_over.lock() = true;
        self.news.notify_all();
    }

    fn wait_until_over(&self) {
        let mut is_over = self.is_over.lock();
        while !*is_over {
            self.news.wait(&mut is_over);
        }
    }

    /// Registers a read that drains the end and, as long as it may, registers again.
    fn listen(self: &Arc<Self>, end: &Arc<Channel>, home: &DispatcherHandle) {
        let (this, own, again) = (Arc::clone(self), Arc::clone(end), home.clone());
        let registered = end.begin_read(home, move |outcome| {
            assert_eq!(this.inside.fetch_add(1, Ordering::AcqRel), 0, "two handlers at once");
            thread::yield_now();
            this.told.lock().push(outcome);
            let last = loop {
                match own.try_read() {
                    Ok(_) => Self::add(&this.read),
                    Err(error) => break error,
                }
            };
            this.inside.fetch_sub(1, Ordering::AcqRel);
            if outcome.is_ok() && last == ReadError::ShouldWait { this.listen(&own, &again) } else { this.over() }
        });
        match registered {
            Ok(()) => Self::add(&self.accepted),
            Err(refused) => {
                assert!(matches!(refused.into_status(), Status::PeerClosed | Status::Unavailable));
                self.over();
            }
        }
    }

    /// Registers a read that does nothing but say that it was told.
    fn register(self: &Arc<Self>, end: &Channel, home: &DispatcherHandle) {
        let this = Arc::clone(self);
        end.begin_read(home, move |outcome| this.tell(outcome)).expect("the end is free and the dispatcher runs");
        Self::add(&self.accepted);
    }
}

struct Bench {
    runtime: Runtime,
    reader: Dispatcher,
    writer: Dispatcher,
    near: Channel,
    far: Arc<Channel>,
    seen: Arc<Seen>,
}

fn set_up(threads: usize) -> Bench {
    let runtime = RuntimeBuilder::new().threads(threads).build().expect("a model has threads");
    let dispatcher = |name: &str| {
        runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("the driver is new")
    };
    let (reader, writer) = (dispatcher("reader"), dispatcher("writer"));
    let (near, far) = Channel::pair();
    Bench { runtime, reader, writer, near, far: Arc::new(far), seen: Arc::default() }
}

/// Shuts down, and checks what must hold however it went.
fn conclude(runtime: &Runtime, seen: &Seen, taken_back: usize) {
    runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    let counters = runtime.counters();
    assert!(counters.add_up(), "{counters:?}");
    assert_eq!(counters.pending, 0);
    assert_eq!(seen.told.lock().len() + taken_back, seen.accepted.load(Ordering::Acquire));
}

/// Two writers, one inline from another driver and one from outside, against a reader that shuts down.
#[test]
fn shuttle_writes_race_with_a_reader_and_its_shutdown() {
    explore(|| {
        let Bench { runtime, reader, writer, near, far, seen } = set_up(2);
        let near = Arc::new(near);
        seen.listen(&far, &reader);
        let inline = Arc::clone(&near);
        writer
            .post_task(move |outcome| {
                if outcome.is_ok() {
                    inline.write(Message::new()).expect("the reader is open");
                }
            })
            .expect("it runs");
        let outside = Arc::clone(&near);
        let thread = thread::spawn("outside", move || outside.write(Message::new()).expect("the reader is open"))
            .expect("a thread");
        reader.shutdown_async();
        thread.join().expect("it ends");
        conclude(&runtime, &seen, 0);
        let written = 1 + writer.counters().ran as usize;
        assert_eq!(seen.read.load(Ordering::Acquire) + far.queued_messages(), written);
    });
}

/// All messages are read before the close is told, and the close is told once.
#[test]
fn shuttle_a_reader_gets_every_message_and_then_the_close() {
    explore(|| {
        let Bench { runtime, reader, writer, near, far, seen } = set_up(2);
        writer
            .post_task(move |_| {
                near.write(Message::new()).expect("the reader is open");
                near.write(Message::new()).expect("the reader is open");
                drop(near);
            })
            .expect("it runs");
        seen.listen(&far, &reader);
        seen.wait_until_over();
        assert_eq!(seen.read.load(Ordering::Acquire), 2);
        let closes = seen.told.lock().iter().filter(|outcome| outcome.is_err()).count();
        assert!(closes <= 1);
        assert!(far.is_peer_closed());
        conclude(&runtime, &seen, 0);
    });
}

/// A cancel, and a registration right after it, against writes that may be inline.
#[test]
fn shuttle_a_cancel_has_one_winner_and_leaves_the_end_free() {
    explore(|| {
        let Bench { runtime, reader, writer, near, far, seen } = set_up(2);
        seen.register(&far, &reader);
        let near = Arc::new(near);
        let inline = Arc::clone(&near);
        writer
            .post_task(move |_| {
                inline.write(Message::new()).expect("the reader is open");
                inline.write(Message::new()).expect("the reader is open");
            })
            .expect("it runs");
        let taken_back = usize::from(far.cancel_read().is_ok());
        // At most one of the two messages goes, so the next registration is told.
        drop(far.try_read());
        seen.register(&far, &reader);
        seen.wait_until_told(2 - taken_back);
        conclude(&runtime, &seen, taken_back);
        assert_eq!(reader.counters().taken_back as usize, taken_back);
    });
}

/// A read whose end closes is told, whether a message or the peer's close is on its way or not.
#[test]
fn shuttle_a_read_whose_end_closes_is_told_once() {
    explore(|| {
        let Bench { runtime, reader, writer, near, far, seen } = set_up(2);
        seen.register(&far, &reader);
        writer
            .post_task(move |_| {
                // The reader may have closed.
                let _ = near.write(Message::new());
                drop(near);
            })
            .expect("it runs");
        drop(far);
        seen.wait_until_told(1);
        conclude(&runtime, &seen, 0);
    });
}

/// Both ends close, from a callback and from outside, while the dispatcher shuts down.
#[test]
fn shuttle_a_read_is_told_once_when_both_ends_close_and_the_dispatcher_shuts_down() {
    explore(|| {
        let Bench { runtime, reader, writer, near, far, seen } = set_up(2);
        seen.register(&far, &reader);
        writer.post_task(move |_| drop(near)).expect("it runs");
        let closing = thread::spawn("closing", move || drop(far)).expect("a thread");
        reader.shutdown_async();
        closing.join().expect("it ends");
        conclude(&runtime, &seen, 0);
        assert!(matches!(seen.told.lock()[0], Err(Status::PeerClosed | Status::Canceled)));
    });
}

/// A future that waits, a write from outside, and the shutdown: the message is read or still there.
#[test]
fn shuttle_a_message_for_a_future_is_read_or_left_whatever_races() {
    explore(|| {
        let Bench { runtime, reader, near, far, seen, .. } = set_up(1);
        let (end, counting) = (Arc::clone(&far), Arc::clone(&seen));
        let reading = reader
            .spawn(async move {
                while end.read().await.is_ok() {
                    Seen::add(&counting.read);
                }
            })
            .expect("it runs");
        let writing = thread::spawn("writing", move || {
            near.write(Message::new()).expect("the reader is open");
            near.write(Message::new()).expect("the reader is open");
        })
        .expect("a thread");
        reader.shutdown_async();
        writing.join().expect("it ends");
        conclude(&runtime, &seen, 0);
        assert!(reading.is_finished());
        assert_eq!(seen.read.load(Ordering::Acquire) + far.queued_messages(), 2);
        assert_eq!(Arc::strong_count(&far), 1, "the future is gone");
    });
}

/// A future that waits is woken by each write and by the close.
#[test]
fn shuttle_a_future_gets_every_message_and_then_the_close() {
    explore(|| {
        let Bench { runtime, reader, near, far, seen, .. } = set_up(1);
        let counting = Arc::clone(&seen);
        let _reading = reader
            .spawn(async move {
                let last = loop {
                    match far.read().await {
                        Ok(_) => Seen::add(&counting.read),
                        Err(status) => break status,
                    }
                };
                assert_eq!(last, Status::PeerClosed);
                counting.over();
            })
            .expect("it runs");
        let writing = thread::spawn("writing", move || {
            near.write(Message::new()).expect("the reader is open");
            near.write(Message::new()).expect("the reader is open");
        })
        .expect("a thread");
        writing.join().expect("it ends");
        seen.wait_until_over();
        assert_eq!(seen.read.load(Ordering::Acquire), 2);
        conclude(&runtime, &seen, 0);
    });
}
