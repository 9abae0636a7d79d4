//! Goal: a dispatcher that shuts down tells each registered read once, and no message is lost by it.
//! Method: the order of things on the foreground runtime; many writers at once on pools.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use common::{HANG, Log, add_up, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherState, Driver, Interest, Message, ReadError, Status,
};

struct Bench {
    runtime: ForegroundRuntime,
    driver: Driver,
    dispatcher: Dispatcher,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        let runtime = ForegroundRuntime::new();
        let driver = runtime.new_driver("reader");
        let log = Log::new();
        let entry = log.clone();
        let observed = DispatcherBuilder::new().name("reader").shutdown_observer(move || entry.add("observer"));
        let dispatcher = driver.new_dispatcher(observed).expect("created");
        Bench { runtime, driver, dispatcher, log }
    }

    #[track_caller]
    fn read(&self, end: &Channel, name: &str) {
        let (log, name) = (self.log.clone(), name.to_owned());
        end.begin_read(&self.dispatcher, move |outcome| log.add(format!("{name} {outcome:?}"))).expect("registered");
    }

    #[track_caller]
    fn shut_down(&self) {
        self.dispatcher.shutdown_async();
        assert!(self.log.is_empty(), "nothing is called inside of the request");
        self.runtime.run_until_idle();
        assert_eq!(self.dispatcher.state(), DispatcherState::Destroyed);
    }
}

/// R68, R69, R72.
///
/// Shows CH-R67, CH-R68, CH-R69, CH-R72.
#[test]
fn a_registered_read_is_canceled_and_the_messages_stay_readable() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    bench.read(&far, "read");
    bench.shut_down();
    assert_eq!(bench.log.take(), ["read Err(Canceled)", "observer"]);
    near.write(Message::from_bytes(b"late")).expect("the end is open");
    assert_eq!(far.try_read().expect("there is one").bytes(), b"late");
    let refused = far.begin_read(&bench.dispatcher, |_| ()).expect_err("it is gone");
    assert_eq!(refused.status(), Status::Unavailable);

    let other = bench.driver.new_dispatcher(DispatcherBuilder::new().name("other")).expect("created");
    near.write(Message::new()).expect("the end is open");
    let entry = bench.log.clone();
    far.begin_read(&other, move |outcome| entry.add(format!("other {outcome:?}"))).expect("registered");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["other Ok(())"]);
    add_up(&bench.runtime);
}

/// R69: a call that is queued with a message is canceled, one with the peer's close keeps it, and the handler may drain.
///
/// Shows CH-R69.
#[test]
fn a_queued_call_is_canceled_unless_it_tells_that_the_peer_closed() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    let far = Arc::new(far);
    let (end, entry) = (Arc::clone(&far), bench.log.clone());
    far.begin_read(&bench.dispatcher, move |outcome| {
        let drained: Vec<_> = std::iter::from_fn(|| end.try_read().ok()).map(|message| message.len()).collect();
        entry.add(format!("message {outcome:?} {drained:?}"));
    })
    .expect("registered");
    near.write(Message::with_len(3)).expect("written");
    near.write(Message::with_len(4)).expect("written");
    let (closed, told) = Channel::pair();
    bench.read(&told, "closed");
    drop(closed);
    bench.shut_down();
    assert_eq!(bench.log.take(), ["message Err(Canceled) [3, 4]", "closed Err(PeerClosed)", "observer"]);
    let counters = bench.dispatcher.counters();
    assert_eq!((counters.accepted, counters.ran, counters.canceled, counters.pending), (2, 1, 1, 0));
    add_up(&bench.runtime);
}

/// Promise 8: ready ones as queued, then reads, then waits, then delayed tasks.
///
/// Shows CH-R71.
#[test]
fn reads_are_canceled_after_what_is_ready_and_before_waits_and_timers() {
    let bench = Bench::new();
    let note = |what: &'static str| {
        let log = bench.log.clone();
        move || log.add(what)
    };
    let delayed = note("delayed");
    let _timer = bench.dispatcher.post_after(Duration::from_secs(5), move |_| delayed()).expect("accepted");
    let event = fuchsine_dispatcher::testing::sim::Event::new();
    let wait = note("wait");
    let _wait = bench.dispatcher.begin_wait(&event, Interest::READABLE, move |_| wait()).expect("armed");
    let ends: Vec<_> = (0..3).map(|_| Channel::pair()).collect();
    for (n, (_, far)) in ends.iter().enumerate() {
        bench.read(far, &format!("read {n}"));
    }
    let task = note("task");
    bench.dispatcher.post_task(move |_| task()).expect("accepted");
    bench.shut_down();
    assert_eq!(
        bench.log.take(),
        ["task", "read 0 Err(Canceled)", "read 1 Err(Canceled)", "read 2 Err(Canceled)", "wait", "delayed", "observer"]
    );
    add_up(&bench.runtime);
}

/// R70: a handler that is told `Canceled` takes others back, and cannot register anew.
///
/// Shows CH-R70.
#[test]
fn a_canceled_handler_takes_other_reads_back_and_registers_none() {
    let bench = Bench::new();
    let first = Arc::new(Channel::pair());
    let second = Arc::new(Channel::pair());
    let (own, other) = (Arc::clone(&first), Arc::clone(&second));
    let (home, entry) = (bench.dispatcher.handle(), bench.log.clone());
    first
        .1
        .begin_read(&bench.dispatcher, move |outcome| {
            entry.add(format!("first {outcome:?}"));
            entry.add(format!("the other: {:?}", other.1.cancel_read().map(drop)));
            entry.add(format!("again: {}", own.1.begin_read(&home, |_| ()).expect_err("it shuts down").status()));
        })
        .expect("registered");
    bench.read(&second.1, "second");
    bench.shut_down();
    assert_eq!(bench.log.take(), ["first Err(Canceled)", "the other: Ok(())", "again: unavailable", "observer"]);
    let counters = bench.dispatcher.counters();
    assert_eq!((counters.accepted, counters.canceled, counters.taken_back, counters.pending), (2, 1, 1, 0));
    add_up(&bench.runtime);
}

/// A read that is closed, written to and canceled while the shutdown is under way still ends once.
#[test]
fn an_end_that_closes_during_the_shutdown_is_told_once() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    bench.read(&far, "own close");
    let (other_near, other_far) = Channel::pair();
    bench.read(&other_far, "peer's close");
    let (third_near, third_far) = Channel::pair();
    bench.read(&third_far, "message");
    bench.dispatcher.shutdown_async();
    drop(far);
    drop(other_near);
    third_near.write(Message::new()).expect("the end is open");
    bench.runtime.run_until_idle();
    assert_eq!(
        bench.log.take(),
        ["own close Err(Canceled)", "peer's close Err(Canceled)", "message Err(Canceled)", "observer"]
    );
    assert!(near.is_peer_closed());
    assert_eq!(other_far.try_read().expect_err("nothing was written"), ReadError::PeerClosed);
    assert_eq!(third_far.queued_messages(), 1);
    add_up(&bench.runtime);
}

/// A channel whose two ends read on one dispatcher, whose handlers own the ends: the shutdown takes all of it apart.
#[test]
fn ends_that_only_their_handlers_own_are_closed_by_the_shutdown() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    let ends = [Arc::new(near), Arc::new(far)];
    for end in &ends {
        let (own, entry) = (Arc::clone(end), bench.log.clone());
        end.begin_read(&bench.dispatcher, move |outcome| {
            drop(own);
            entry.add(format!("{outcome:?}"));
        })
        .expect("registered");
    }
    let weak = ends.each_ref().map(Arc::downgrade);
    drop(ends);
    assert!(weak.iter().all(|end| end.upgrade().is_some()));
    bench.shut_down();
    assert_eq!(bench.log.take(), ["Err(Canceled)", "Err(Canceled)", "observer"]);
    assert!(weak.iter().all(|end| end.upgrade().is_none()));
    add_up(&bench.runtime);
}

/// Counts what a handler was told.
#[derive(Default)]
struct Told {
    messages: AtomicUsize,
    canceled: AtomicUsize,
    closed: AtomicUsize,
}

impl Told {
    fn tell(&self, outcome: Result<(), Status>) {
        let counter = match outcome {
            Ok(()) => &self.messages,
            Err(Status::Canceled) => &self.canceled,
            Err(Status::PeerClosed) => &self.closed,
            Err(status) => panic!("a read is never told {status}"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn all(&self) -> usize {
        [&self.messages, &self.canceled, &self.closed].iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}

/// A thousand peers write, from the pool and from outside, while the readers' dispatcher shuts down: each read is told
/// once, and each message is read or still there.
///
/// Shows DT-26, R150, CH-R72.
#[test]
fn a_thousand_peers_write_while_the_dispatcher_shuts_down() {
    const PEERS: usize = 1000;
    for round in 0..4 {
        let runtime = pool_of(2);
        let (shut, is_shut) = channel();
        let builder =
            DispatcherBuilder::new().name("readers").shutdown_observer(move || shut.send(()).expect("waited"));
        let builder = if round % 2 == 0 { builder } else { builder.unsynchronized() };
        let readers = runtime.new_driver("readers").new_dispatcher(builder).expect("created");
        let writers =
            runtime.new_driver("writers").new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("created");
        let told = Arc::new(Told::default());
        let mut nears = Vec::new();
        let mut fars = Vec::new();
        for _ in 0..PEERS {
            let (near, far) = Channel::pair();
            let told = Arc::clone(&told);
            far.begin_read(&readers, move |outcome| told.tell(outcome)).expect("registered");
            nears.push(near);
            fars.push(far);
        }
        let from_outside = nears.split_off(PEERS / 2);
        let start = Arc::new(Barrier::new(2));
        let (written, is_written) = channel();
        let left = Arc::new(AtomicUsize::new(nears.len()));
        let kept = Arc::new(Mutex::new(Vec::new()));
        for near in nears {
            let (left, written, kept) = (Arc::clone(&left), written.clone(), Arc::clone(&kept));
            writers
                .post_task(move |_| {
                    near.write(Message::with_len(8)).expect("the end is open");
                    kept.lock().expect("no panic").push(near);
                    if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                        written.send(()).expect("the test waits");
                    }
                })
                .expect("accepted");
        }
        let outside = {
            let start = Arc::clone(&start);
            std::thread::spawn(move || {
                start.wait();
                for near in &from_outside {
                    near.write(Message::with_len(8)).expect("the end is open");
                }
                from_outside
            })
        };
        start.wait();
        readers.shutdown_async();
        within(&is_shut, "the observer");
        let told_by_then = told.all();
        let from_outside = outside.join().expect("it did not panic");
        within(&is_written, "the writes of the pool");
        assert_eq!(told_by_then, PEERS, "every read was told before the observer ran");
        assert_eq!(told.all(), PEERS, "and none was told twice");
        assert_eq!(told.closed.load(Ordering::Relaxed), 0);
        for far in &fars {
            assert_eq!(far.queued_messages(), 1, "nobody has read, so the message is there");
        }
        let counters = readers.counters();
        let expected = (PEERS as u64, told.messages.load(Ordering::Relaxed) as u64);
        assert_eq!((counters.accepted, counters.ran), expected);
        assert_eq!(counters.canceled, told.canceled.load(Ordering::Relaxed) as u64);
        drop((from_outside, kept, fars));
        runtime.shutdown(HANG).expect("in time");
        add_up(&runtime);
        assert_eq!(runtime.counters().pending, 0);
    }
}
