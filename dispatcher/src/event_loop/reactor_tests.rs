//! The reactor: what fires, in which order, and what does not. No test depends on how fast anything is.

use super::*;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::status::Status;
use crate::sync::{Completion, thread};
use crate::sys::sim::{Event, Net};

#[derive(Default)]
struct Log(Mutex<Vec<(u64, Fired, bool)>>);

impl Log {
    fn take(&self) -> Vec<(u64, Fired, bool)> {
        std::mem::take(&mut *self.0.lock())
    }

    fn keys(&self) -> Vec<u64> {
        self.take().into_iter().map(|(key, ..)| key).collect()
    }
}

impl EventTarget for Log {
    fn fire(self: Arc<Self>, key: u64, fired: Fired, last: bool) -> Told {
        self.0.lock().push((key, fired, last));
        Told::All
    }
}

fn real() -> (Arc<Reactor>, Arc<Log>) {
    (Reactor::new(Clock::real()).unwrap(), Arc::new(Log::default()))
}

fn simulated() -> (Arc<Reactor>, Clock, Arc<Log>) {
    let clock = Clock::virtual_at(Instant::ZERO);
    (Reactor::simulated(clock.clone()), clock, Arc::new(Log::default()))
}

fn look(reactor: &Reactor) -> usize {
    let mut lead = reactor.try_lead().expect("nobody else leads");
    let batch = lead.poll(PollMode::NonBlocking);
    let count = batch.len();
    batch.tell(lead).run();
    count
}

/// Blocks until something was delivered.
fn block(reactor: &Reactor) {
    loop {
        let mut lead = reactor.try_lead().expect("nobody else leads");
        let batch = lead.poll(PollMode::Block);
        if !batch.is_empty() {
            return batch.tell(lead).run();
        }
    }
}

fn fd_wait(reactor: &Reactor, fd: &impl AsFd, interest: Interest, log: &Arc<Log>, key: u64) -> WaitId {
    reactor.begin_wait(Source::Fd(fd.as_fd()), interest, log.clone(), key).unwrap()
}

fn registered(reactor: &Reactor) -> usize {
    reactor.kernel.as_ref().unwrap().fd_waits.registered()
}

fn pair() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    (one, other)
}

#[test]
fn timers_fire_by_deadline_then_by_arming_and_only_the_last_may_run_inline() {
    let (reactor, clock, log) = simulated();
    for (key, nanos) in [(1, 30), (2, 10), (3, 30), (4, 20), (5, 31)] {
        reactor.arm_timer(Instant::from_nanos(nanos), log.clone(), key);
    }
    assert_eq!(reactor.next_deadline(), Instant::from_nanos(10));
    assert_eq!(look(&reactor), 0, "nothing is due before its time");
    clock.advance_to(Instant::from_nanos(30));
    assert_eq!(look(&reactor), 4);
    let fired = log.take();
    assert_eq!(fired.iter().map(|(key, ..)| *key).collect::<Vec<_>>(), [2, 4, 1, 3]);
    assert_eq!(fired.iter().map(|(.., last)| *last).collect::<Vec<_>>(), [false, false, false, true]);
    assert_eq!(fired[0].1, Fired::Timer { deadline: Instant::from_nanos(10) });
}

#[test]
fn a_canceled_timer_does_not_fire_and_cancel_says_who_won() {
    let (reactor, clock, log) = simulated();
    let first = reactor.arm_timer(Instant::from_nanos(5), log.clone(), 1);
    let second = reactor.arm_timer(Instant::from_nanos(5), log.clone(), 2);
    assert!(reactor.cancel_timer(first) && !reactor.cancel_timer(first));
    clock.advance_to(Instant::from_nanos(5));
    look(&reactor);
    assert!(!reactor.cancel_timer(second), "it has fired");
    assert_eq!(log.keys(), [2]);
}

#[test]
fn a_blocking_poll_returns_when_the_deadline_has_come_and_not_before() {
    let (reactor, log) = real();
    let deadline = reactor.clock().now() + Duration::from_micros(300);
    reactor.arm_timer(deadline, log.clone(), 1);
    block(&reactor);
    assert!(reactor.clock().now() >= deadline);
    assert_eq!(log.keys(), [1]);
}

#[test]
fn an_earlier_timer_armed_by_another_thread_shortens_a_poll_that_blocks() {
    let (reactor, log) = real();
    reactor.arm_timer(reactor.clock().now() + Duration::from_secs(3_600), log.clone(), 1);
    let leader = {
        let reactor = reactor.clone();
        thread::spawn("leader", move || block(&reactor)).unwrap()
    };
    while reactor.try_lead().is_some() && !leader.is_finished() {
        thread::yield_now();
    }
    reactor.arm_timer(reactor.clock().now() + Duration::from_micros(50), log.clone(), 2);
    leader.join().unwrap();
    assert_eq!(log.keys(), [2]);
}

#[test]
fn wake_ends_a_poll_that_blocks_and_keeps_the_next_one_from_blocking() {
    let (reactor, _log) = real();
    reactor.wake();
    assert!(reactor.try_lead().unwrap().poll(PollMode::Block).is_empty());
    let woken = Arc::new(Completion::new());
    let leader = {
        let (reactor, woken) = (reactor.clone(), woken.clone());
        thread::spawn("leader", move || {
            assert!(reactor.try_lead().unwrap().poll(PollMode::Block).is_empty());
            woken.complete(()).unwrap();
        })
        .unwrap()
    };
    reactor.wake();
    woken.wait();
    leader.join().unwrap();
}

#[test]
fn only_one_thread_leads_at_a_time() {
    let (reactor, _log) = real();
    let lead = reactor.try_lead().unwrap();
    let other = reactor.clone();
    assert!(thread::spawn("other", move || other.try_lead().is_none()).unwrap().join().unwrap());
    drop(lead);
    assert!(reactor.try_lead().is_some());
}

#[test]
fn a_wait_armed_on_what_is_ready_already_fires_and_fires_once() {
    let (reactor, log) = real();
    let (mut near, mut far) = pair();
    far.write_all(b"x").unwrap();
    fd_wait(&reactor, &near, Interest::READABLE, &log, 1);
    block(&reactor);
    assert_eq!(log.keys(), [1]);
    far.write_all(b"y").unwrap();
    look(&reactor);
    assert_eq!(log.keys(), [], "a wait is armed for one time");
    fd_wait(&reactor, &near, Interest::READABLE, &log, 2);
    block(&reactor);
    assert_eq!(log.keys(), [2], "the level counts, also when the edge has passed");
    near.read_exact(&mut [0; 2]).unwrap();
    fd_wait(&reactor, &near, Interest::READABLE, &log, 3);
    look(&reactor);
    assert_eq!(log.keys(), [], "nothing is left to read");
}

#[test]
fn an_event_from_before_the_arming_is_not_taken_for_readiness() {
    let (reactor, log) = real();
    let (mut near, mut far) = pair();
    fd_wait(&reactor, &near, Interest::READABLE, &log, 1);
    far.write_all(b"x").unwrap();
    // A second registration makes the pending event stale; what it would say is looked up anew, and is not true any
    // more.
    near.read_exact(&mut [0; 1]).unwrap();
    fd_wait(&reactor, &near, Interest::READABLE, &log, 2);
    look(&reactor);
    assert_eq!(log.keys(), []);
    far.write_all(b"y").unwrap();
    block(&reactor);
    assert_eq!(log.keys(), [1, 2]);
}

#[test]
fn waits_on_one_descriptor_share_a_registration_and_fire_for_their_own_interest() {
    let (reactor, log) = real();
    let (near, mut far) = pair();
    fd_wait(&reactor, &near, Interest::READABLE, &log, 1);
    fd_wait(&reactor, &near, Interest::WRITABLE, &log, 2);
    fd_wait(&reactor, &near, Interest::READABLE, &log, 3);
    assert_eq!(registered(&reactor), 1);
    block(&reactor);
    assert_eq!(log.keys(), [2], "only writability is there yet");
    far.write_all(b"x").unwrap();
    block(&reactor);
    let fired = log.take();
    assert_eq!(fired.iter().map(|(key, ..)| *key).collect::<Vec<_>>(), [1, 3]);
    assert!(matches!(fired[0].1, Fired::Ready(ready) if ready.is_readable()));
}

#[test]
fn a_registration_without_a_wait_goes_at_its_first_event() {
    let (reactor, log) = real();
    let (near, mut far) = pair();
    let wait = fd_wait(&reactor, &near, Interest::READABLE, &log, 1);
    assert!(reactor.cancel_wait(wait) && !reactor.cancel_wait(wait));
    assert_eq!(registered(&reactor), 1, "it is kept, as it will most likely be armed again");
    far.write_all(b"x").unwrap();
    assert_eq!(look(&reactor), 0);
    assert_eq!(registered(&reactor), 0);
    fd_wait(&reactor, &near, Interest::READABLE, &log, 2);
    block(&reactor);
    assert_eq!(log.keys(), [2]);
}

#[test]
fn a_canceled_interest_leaves_the_other_waits_their_events() {
    let (reactor, log) = real();
    let (near, mut far) = pair();
    let reader = fd_wait(&reactor, &near, Interest::READABLE, &log, 1);
    look(&reactor);
    fd_wait(&reactor, &near, Interest::WRITABLE, &log, 2);
    assert!(reactor.cancel_wait(reader));
    far.write_all(b"x").unwrap();
    block(&reactor);
    assert_eq!(log.keys(), [2]);
}

#[test]
fn hangup_reaches_readers_as_readable() {
    let (reactor, log) = real();
    let (near, far) = pair();
    fd_wait(&reactor, &near, Interest::READABLE, &log, 1);
    drop(far);
    block(&reactor);
    assert!(matches!(log.take()[0].1, Fired::Ready(ready) if ready.is_readable() && ready.is_hangup()));
}

#[test]
fn a_descriptor_number_that_is_used_again_means_the_new_file_and_tells_the_old_waits() {
    let (reactor, log) = real();
    let (near, _far) = pair();
    let number = near.as_raw_fd();
    fd_wait(&reactor, &near, Interest::READABLE, &log, 1);
    let (fresh, mut fresh_far) = pair();
    // Closes the old file and puts the fresh one under its number in one step.
    let mut reused = OwnedFd::from(near);
    rustix::io::dup2(&fresh, &mut reused).unwrap();
    assert_eq!(reused.as_raw_fd(), number);
    fd_wait(&reactor, &reused, Interest::READABLE, &log, 2);
    block(&reactor);
    let fired = log.take();
    assert_eq!(fired.len(), 1, "only the wait on the closed file is over");
    assert!(matches!(fired[0], (1, Fired::Ready(ready), _) if ready.is_error() && ready.is_hangup()));
    fresh_far.write_all(b"x").unwrap();
    block(&reactor);
    assert_eq!(log.keys(), [2]);
}

#[test]
fn a_file_that_lives_on_under_another_number_does_not_answer_for_the_new_one() {
    let (reactor, log) = real();
    let (near, mut far) = pair();
    let _kept = near.try_clone().unwrap();
    fd_wait(&reactor, &near, Interest::READABLE, &log, 1);
    let (fresh, mut fresh_far) = pair();
    let mut reused = OwnedFd::from(near);
    rustix::io::dup2(&fresh, &mut reused).unwrap();
    fd_wait(&reactor, &reused, Interest::READABLE, &log, 2);
    block(&reactor);
    assert_eq!(log.keys(), [1]);
    far.write_all(b"to the old file").unwrap();
    look(&reactor);
    assert_eq!(log.keys(), []);
    fresh_far.write_all(b"x").unwrap();
    block(&reactor);
    assert_eq!(log.keys(), [2]);
}

#[test]
fn what_cannot_be_polled_is_a_clear_error_that_names_offload() {
    let (reactor, log) = real();
    let file = tempfile::tempfile().unwrap();
    let error = reactor.begin_wait(Source::Fd(file.as_fd()), Interest::READABLE, log.clone(), 1).unwrap_err();
    assert_eq!(error.status(), Status::NotSupported);
    assert!(error.to_string().contains("`offload`"), "{error}");
    let (near, _far) = pair();
    let nothing = reactor.begin_wait(Source::Fd(near.as_fd()), Interest::NONE, log, 1).unwrap_err();
    assert_eq!(nothing.status(), Status::InvalidArgs);
}

#[test]
fn a_simulated_reactor_refuses_descriptors() {
    let (reactor, _clock, log) = simulated();
    let (near, _far) = pair();
    let error = reactor.begin_wait(Source::Fd(near.as_fd()), Interest::READABLE, log, 1).unwrap_err();
    assert_eq!(error.status(), Status::NotSupported);
}

#[test]
fn simulated_objects_are_level_checked_one_shot_and_told_in_the_order_of_their_changes() {
    let (reactor, _clock, log) = simulated();
    let (early, late) = (Event::new(), Event::new());
    early.signal();
    let wait = |event: &Event, key| {
        reactor.begin_wait(Source::Sim(event.object().clone()), Interest::READABLE, log.clone(), key).unwrap()
    };
    wait(&late, 1);
    wait(&early, 2);
    assert_eq!(look(&reactor), 1);
    assert_eq!(log.keys(), [2], "signaled before it was armed");
    early.take().unwrap();
    wait(&early, 3);
    look(&reactor);
    late.signal();
    early.signal();
    look(&reactor);
    assert_eq!(log.keys(), [1, 3]);
    late.signal();
    assert_eq!(look(&reactor), 0, "a wait is armed for one time");
    let canceled = wait(&late, 4);
    assert!(reactor.cancel_wait(canceled));
    assert_eq!(look(&reactor), 0);
}

#[test]
fn a_simulated_listener_and_streams_become_ready_as_real_ones_do() {
    let (reactor, _clock, log) = simulated();
    let net = Net::new();
    net.set_stream_capacity(4);
    let listener = net.listen("127.0.0.1:0").unwrap();
    let wait = |object: &Arc<crate::sys::sim::Object>, interest, key| {
        reactor.begin_wait(Source::Sim(object.clone()), interest, log.clone(), key).unwrap();
    };
    wait(listener.object(), Interest::READABLE, 1);
    look(&reactor);
    let client = net.connect(listener.local_addr()).unwrap();
    look(&reactor);
    assert_eq!(log.keys(), [1]);
    let server = listener.accept().unwrap();
    client.write(b"full").unwrap();
    wait(client.object(), Interest::WRITABLE, 2);
    wait(server.object(), Interest::READABLE, 3);
    look(&reactor);
    assert_eq!(log.keys(), [3]);
    server.read(&mut [0; 4]).unwrap();
    look(&reactor);
    assert_eq!(log.keys(), [2]);
    wait(server.object(), Interest::READABLE, 4);
    drop(client);
    look(&reactor);
    assert!(matches!(log.take()[..], [(4, Fired::Ready(ready), true)] if ready.is_hangup()));
}

#[test]
fn a_simulated_object_that_changes_on_another_thread_wakes_a_real_reactor() {
    let (reactor, log) = real();
    let event = Event::new();
    reactor.begin_wait(Source::Sim(event.object().clone()), Interest::READABLE, log.clone(), 1).unwrap();
    let signal = thread::spawn("signal", move || event.signal()).unwrap();
    block(&reactor);
    signal.join().unwrap();
    assert_eq!(log.keys(), [1]);
}

/// Goal: many timers within a short time do not wake a pool one by one. Method: however slow this thread is, between two
/// polls that told of some lies a lull, and no timer is told early.
#[test]
fn timers_that_follow_each_other_closely_are_told_together() {
    let (reactor, log) = real();
    let start = reactor.clock().now() + Duration::from_millis(1);
    for nth in 0..500u64 {
        reactor.arm_timer(start + Duration::from_micros(nth * 10), log.clone(), nth);
    }
    let (mut told, mut last) = (Vec::new(), None::<Instant>);
    while told.len() < 500 {
        block(&reactor);
        // By the coarse clock it is still the moment at which the poll looked for what is due.
        let now = reactor.clock().coarse();
        let batch = log.take();
        assert!(batch.iter().all(|(_, fired, _)| matches!(fired, Fired::Timer { deadline } if *deadline <= now)));
        let lull = last.map_or(Duration::MAX, |last| now - last);
        assert!(lull >= LULL, "the alarm rang again after {lull:?}");
        told.extend(batch.into_iter().map(|(key, ..)| key));
        last = Some(now);
    }
    assert_eq!(told, Vec::from_iter(0..500), "in the order of their deadlines");
}

#[test]
fn a_timer_that_is_alone_rings_when_it_is_due_although_another_has_just_rung() {
    let (reactor, log) = real();
    let start = reactor.clock().now();
    reactor.arm_timer(start, log.clone(), 1);
    assert_eq!(look(&reactor), 1);
    let due = reactor.clock().now() + LULL * 20;
    reactor.arm_timer(due, log.clone(), 2);
    let kernel = reactor.kernel.as_ref().expect("it is real");
    assert_eq!(kernel.set_alarm_to_next(&reactor.timers), due, "to the nanosecond");
}
