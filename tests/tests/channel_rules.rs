//! Goal: the rules of channels, one at a time: order, registration, cancel, closing, handles, limits.
//! Method: on the foreground runtime, where nothing moves unless the test turns the crank.

mod common;

use std::sync::{Arc, Mutex};

use common::{Log, add_up};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Arena, Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Driver, Handle, Kind, Limits, Message, ReadError,
    Status,
};

/// A runtime with one driver that reads, and an end of a channel for it and one for the test.
struct Bench {
    runtime: ForegroundRuntime,
    driver: Driver,
    dispatcher: Dispatcher,
    near: Channel,
    far: Channel,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        Bench::on(DispatcherBuilder::new().name("reader"))
    }

    fn on(builder: DispatcherBuilder) -> Self {
        let runtime = ForegroundRuntime::new();
        let driver = runtime.new_driver("reader");
        let dispatcher = driver.new_dispatcher(builder).expect("created");
        let (near, far) = Channel::pair();
        Bench { runtime, driver, dispatcher, near, far, log: Log::new() }
    }

    /// Registers a read on `far` that writes its outcome down.
    #[track_caller]
    fn read_far(&self) {
        self.read(&self.far, "");
    }

    /// Registers a read on `end` that writes its outcome down under a name.
    #[track_caller]
    fn read(&self, end: &Channel, name: &str) {
        let (log, name) = (self.log.clone(), name.to_owned());
        end.begin_read(&self.dispatcher, move |outcome| log.add(format!("{name}{outcome:?}"))).expect("registered");
    }

    /// Ends it all: nothing is left, and the numbers add up.
    #[track_caller]
    fn end(self) {
        drop((self.near, self.far, self.dispatcher));
        self.runtime.shutdown().expect("nothing is stuck");
        add_up(&self.runtime);
        assert_eq!(self.runtime.counters().pending, 0);
    }
}

fn bytes(value: u64) -> Message {
    Message::from_bytes(&value.to_le_bytes())
}

fn value(message: &Message) -> u64 {
    u64::from_le_bytes(message.bytes().try_into().expect("eight bytes"))
}

/// CH-01.
///
/// Shows CH-R1, CT-1.
#[test]
fn creating_and_dropping_a_pair_leaves_nothing() {
    let bench = Bench::new();
    assert!(!bench.near.is_peer_closed());
    bench.end();
}

/// CH-02. R5: a wholly empty message is a message like any other.
///
/// Shows CH-R5, CT-2.
#[test]
fn an_empty_message_is_delivered() {
    let bench = Bench::new();
    bench.near.write(Message::new()).expect("written");
    bench.read_far();
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"]);
    let message = bench.far.try_read().expect("there is one");
    assert!(message.is_empty() && message.bytes().is_empty() && message.handles().is_empty());
    assert_eq!(bench.far.try_read().expect_err("there was one"), ReadError::ShouldWait);
    bench.end();
}

/// R4, R8: both ends write and read, each direction in order.
///
/// Shows CH-R4, CH-R8, CH-R20, RC-1, RM-3.
#[test]
fn messages_arrive_in_the_order_of_their_writes_in_both_directions() {
    let bench = Bench::new();
    for n in 0..100 {
        bench.near.write(bytes(n)).expect("written");
        bench.far.write(bytes(1000 + n)).expect("written");
    }
    for n in 0..100 {
        assert_eq!(value(&bench.far.try_read().expect("there is one")), n);
        assert_eq!(value(&bench.near.try_read().expect("there is one")), 1000 + n);
    }
    bench.end();
}

/// CH-05: ends that were sent are usable, and the arena of the message serves for more.
///
/// Shows CH-R25, CH-R74, CH-R78, CT-5, RC-4, RM-4.
#[test]
fn ends_that_were_sent_are_usable_by_whoever_received_them() {
    let bench = Bench::new();
    let (kept, sent) = Channel::pair();
    let (other_kept, other_sent) = Channel::pair();
    bench.near.write(bytes(1).with(sent).with(other_sent)).expect("written");
    let mut received = bench.far.try_read().expect("there is one");
    let mut handles = received.take_handles().into_iter();
    let mut next = || handles.next().expect("two were sent").into_channel().expect("an end was sent");
    let (_first, second) = (next(), next());
    let mut answer = received.arena().expect("it has bytes").message(4096);
    answer.bytes_mut().fill(5);
    second.write(answer).expect("written");
    assert_eq!(other_kept.try_read().expect("there is one").bytes(), [5; 4096]);
    assert_eq!(kept.try_read().expect_err("nothing was written"), ReadError::ShouldWait);
    bench.end();
}

/// CH-07. R22, R37: one call stands for at least one message.
///
/// Shows CH-R21, CH-R22, CH-R37, CT-7.
#[test]
fn one_call_stands_for_all_messages_that_came_before_it() {
    let bench = Bench::new();
    bench.read_far();
    bench.near.write(Message::with_len(128)).expect("written");
    bench.near.write(Message::with_len(256)).expect("written");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"]);
    assert_eq!(bench.far.try_read().expect("the first").len(), 128);
    bench.read_far();
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"], "what is left makes the next registration ready");
    assert_eq!(bench.far.try_read().expect("the second").len(), 256);
    assert_eq!(bench.far.try_read().expect_err("that was all"), ReadError::ShouldWait);
    bench.end();
}

/// Reads one message a call and registers again.
fn read_one_by_one(end: Arc<Channel>, dispatcher: DispatcherHandle, log: Log) {
    let (again, home) = (Arc::clone(&end), dispatcher.clone());
    let registered = end.begin_read(&dispatcher, move |outcome| {
        if outcome.is_ok() {
            log.add(value(&again.try_read().expect("a call stands for a message")).to_string());
            read_one_by_one(again, home, log);
        }
    });
    assert!(registered.is_ok() || registered.is_err_and(|error| error.status() == Status::PeerClosed));
}

/// CH-08. R35: the handler may register again, at once.
///
/// Shows CH-R35, CT-8, R168.
#[test]
fn a_handler_that_registers_again_sees_every_message_once() {
    let bench = Bench::new();
    let Bench { runtime, near, far, dispatcher, log, .. } = &bench;
    let (ours, theirs) = Channel::pair();
    read_one_by_one(Arc::new(theirs), dispatcher.handle(), log.clone());
    for n in 0..10 {
        ours.write(bytes(n)).expect("written");
        if n % 3 == 0 {
            runtime.run_until_idle();
        }
    }
    runtime.run_until_idle();
    assert_eq!(log.take(), (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(near.queued_messages() == 0 && far.queued_messages() == 0);
    drop(ours);
    runtime.run_until_idle();
    bench.end();
}

/// CH-10. R53: an end may be closed inside of its own handler.
///
/// Shows CH-R35, CH-R53, CT-10.
#[test]
fn an_end_is_closed_in_its_own_handler() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    let slot = Arc::new(Mutex::new(Some(far)));
    let held = Arc::clone(&slot);
    let log = bench.log.clone();
    let guard = slot.lock().expect("no panic");
    let far = guard.as_ref().expect("it is there");
    far.begin_read(&bench.dispatcher, move |outcome| {
        drop(held.lock().expect("no panic").take());
        log.add(format!("{outcome:?}"));
    })
    .expect("registered");
    drop(guard);
    near.write(Message::new()).expect("written");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"]);
    assert!(near.is_peer_closed());
    bench.end();
}

/// CH-11. R41.
///
/// Shows CH-R30, CH-R40, CH-R41, CT-11, R167.
#[test]
fn a_canceled_read_is_never_called_and_leaves_the_end_free() {
    let bench = Bench::new();
    bench.read_far();
    let taken = bench.far.cancel_read().expect("it waits");
    drop(taken);
    bench.near.write(Message::new()).expect("written");
    bench.runtime.run_until_idle();
    assert!(bench.log.is_empty());
    assert_eq!(bench.far.cancel_read().expect_err("none is registered").status(), Status::NotFound);
    let counters = bench.dispatcher.counters();
    assert_eq!((counters.accepted, counters.taken_back, counters.pending), (1, 1, 0));
    bench.end();
}

/// CH-12, CH-16, CH-19 with one way to cancel instead of two: a read whose call is queued is taken back as well, on both
/// kinds of dispatcher, and the next registration follows at once. R45: the message is still there.
///
/// Shows CH-R43, CH-R44, CH-R45, D12, CT-16, CT-19, R167.
#[test]
fn a_read_whose_call_is_queued_is_taken_back_and_its_message_is_told_to_the_next() {
    for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
        let bench = Bench::on(builder);
        bench.read(&bench.far, "first ");
        bench.near.write(bytes(7)).expect("written");
        drop(bench.far.cancel_read().expect("it has not begun"));
        bench.read(&bench.far, "second ");
        bench.runtime.run_until_idle();
        assert_eq!(bench.log.take(), ["second Ok(())"]);
        assert_eq!(value(&bench.far.try_read().expect("it was not lost")), 7);
        bench.end();
    }
}

/// CH-13: a task that comes before the call cancels it.
///
/// Shows CT-13.
#[test]
fn a_task_cancels_a_call_that_is_queued_behind_it() {
    let bench = Bench::new();
    let far = Arc::new(Channel::pair());
    let canceling = Arc::clone(&far);
    let log = bench.log.clone();
    bench
        .dispatcher
        .post_task(move |_| log.add(format!("cancel {:?}", canceling.1.cancel_read().map(drop))))
        .expect("accepted");
    bench.read(&far.1, "");
    far.0.write(Message::new()).expect("written");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["cancel Ok(())"]);
    bench.read(&far.1, "");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"]);
    bench.end();
}

/// CH-14: a handler cancels a task that is queued behind it.
///
/// Shows CT-14.
#[test]
fn a_handler_cancels_a_task_that_is_queued_behind_it() {
    let bench = Bench::new();
    let task = Arc::new(Mutex::new(None::<fuchsine_dispatcher::TaskHandle>));
    let (canceling, log) = (Arc::clone(&task), bench.log.clone());
    bench.near.write(Message::new()).expect("written");
    let read = move |_| {
        let task = canceling.lock().expect("no panic").take().expect("it was posted");
        log.add(format!("cancel {:?}", task.cancel().map(drop)));
    };
    bench.far.begin_read(&bench.dispatcher, read).expect("registered");
    let log = bench.log.clone();
    let handle = bench.dispatcher.post_cancelable(move |_| log.add("the task")).expect("accepted");
    *task.lock().expect("no panic") = Some(handle);
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["cancel Ok(())"]);
    assert_eq!(bench.dispatcher.counters().pending, 0);
    bench.end();
}

/// CH-17, CH-20, where upstream takes calls in batches: a call that runs cannot be canceled, the one behind it can.
///
/// Shows CH-R40, CH-R42, CT-17, CT-20.
#[test]
fn a_handler_that_runs_cannot_be_canceled_and_the_next_in_the_queue_can() {
    for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
        let bench = Bench::on(builder);
        let first = Arc::new(Channel::pair());
        let second = Arc::new(Channel::pair());
        first.0.write(Message::new()).expect("written");
        second.0.write(Message::new()).expect("written");
        let (own, other, log) = (Arc::clone(&first), Arc::clone(&second), bench.log.clone());
        let read = move |outcome| {
            log.add(format!("first {outcome:?}"));
            log.add(format!("itself: {}", own.1.cancel_read().expect_err("it runs").status()));
            log.add(format!("the other: {:?}", other.1.cancel_read().map(drop)));
        };
        first.1.begin_read(&bench.dispatcher, read).expect("registered");
        bench.read(&second.1, "second ");
        bench.runtime.run_until_idle();
        assert_eq!(bench.log.take(), ["first Ok(())", "itself: not found", "the other: Ok(())"]);
        bench.end();
    }
}

/// CH-18: any thread may cancel.
///
/// Shows CH-R7, CH-R41.
#[test]
fn a_read_is_canceled_from_a_thread_outside() {
    let bench = Bench::new();
    bench.read_far();
    bench.near.write(Message::new()).expect("written");
    std::thread::scope(|threads| {
        threads.spawn(|| drop(bench.far.cancel_read().expect("it has not begun")));
    });
    bench.runtime.run_until_idle();
    assert!(bench.log.is_empty());
    bench.end();
}

/// CH-46. R31: one registration at a time; the second is refused and its handler comes back uncalled.
///
/// Shows CH-R31, CH-R32, CT-46, R165.
#[test]
fn a_second_registration_is_refused_with_its_handler() {
    let bench = Bench::new();
    bench.read_far();
    let log = bench.log.clone();
    let refused = bench
        .far
        .begin_read(&bench.dispatcher, move |_| log.add("the refused handler"))
        .expect_err("one is registered");
    assert_eq!(refused.status(), Status::BadState);
    bench.near.write(Message::new()).expect("written");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"]);
    refused.into_inner()(Ok(()));
    assert_eq!(bench.log.take(), ["the refused handler"]);
    bench.read_far();
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"], "the message was not read, so the next registration is ready");
    assert_eq!(bench.dispatcher.counters().refused, 1);
    bench.end();
}

/// R31, in this order: nothing will come; one is registered; the dispatcher shuts down.
///
/// Shows CH-R31, R165.
#[test]
fn refusals_are_told_in_their_order() {
    let bench = Bench::new();
    let gone = bench.driver.new_dispatcher(DispatcherBuilder::new().name("gone")).expect("created");
    gone.shutdown_async();
    bench.runtime.run_until_idle();
    let refusal = |end: &Channel, dispatcher: &DispatcherHandle| {
        end.begin_read(dispatcher, |_| ()).expect_err("refused").status()
    };
    assert_eq!(refusal(&bench.far, &gone), Status::Unavailable);
    bench.read_far();
    assert_eq!(refusal(&bench.far, &gone), Status::BadState);
    drop(bench.far.cancel_read().expect("it waits"));

    let (near, far) = Channel::pair();
    near.write(Message::new()).expect("written");
    drop(near);
    bench.read(&far, "");
    assert_eq!(refusal(&far, &bench.dispatcher), Status::BadState, "a message is left, so the close is not told yet");
    drop(far.try_read().expect("there is one"));
    assert_eq!(refusal(&far, &gone), Status::PeerClosed, "before all else");
    drop(far.cancel_read());
    assert_eq!(refusal(&far, &bench.dispatcher), Status::PeerClosed);
    bench.end();
}

/// CH-43, CH-44. R23: the close is told after the last message.
///
/// Shows CH-R23, CT-43, CT-44.
#[test]
fn the_peers_close_is_told_after_its_messages() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    near.write(bytes(1)).expect("written");
    near.write(bytes(2)).expect("written");
    drop(near);
    assert!(far.is_peer_closed());
    assert_eq!(far.write(bytes(3)).expect_err("nobody reads").status(), Status::PeerClosed);
    bench.read(&far, "");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"]);
    assert_eq!(value(&far.try_read().expect("the first")), 1);
    assert_eq!(value(&far.try_read().expect("the second")), 2);
    assert_eq!(far.try_read().expect_err("that was all"), ReadError::PeerClosed);
    bench.end();
}

/// R39.
///
/// Shows CH-R21, CH-R39, CH-R54.
#[test]
fn a_registered_read_is_told_once_that_the_peer_closed() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    bench.read(&far, "empty ");
    drop(near);
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["empty Err(PeerClosed)"]);

    let (near, far) = Channel::pair();
    bench.read(&far, "filled ");
    near.write(Message::new()).expect("written");
    drop(near);
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["filled Ok(())"], "the message was first");
    let counters = bench.dispatcher.counters();
    assert_eq!((counters.accepted, counters.ran, counters.canceled), (2, 2, 0));
    bench.end();
}

/// D3, CD-01: closing with a registered read cancels it with notice, never inside of the drop, whether it waits or is
/// queued already.
///
/// Shows CH-R53, D3, CX-1, R169.
#[test]
fn closing_an_end_tells_its_registered_read_canceled() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    bench.read(&far, "waiting ");
    drop(far);
    assert!(bench.log.is_empty(), "not inside of the drop");
    let (other_near, other_far) = Channel::pair();
    bench.read(&other_far, "queued ");
    other_near.write(Message::new()).expect("written");
    drop(other_far);
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["waiting Err(Canceled)", "queued Err(Canceled)"]);
    assert!(near.is_peer_closed() && other_near.is_peer_closed());
    let counters = bench.dispatcher.counters();
    assert_eq!((counters.accepted, counters.ran, counters.canceled), (2, 0, 2));
    bench.end();
}

/// CH-37, better: an end of the channel itself is refused, either one, because nobody could ever read it.
///
/// Shows CH-R14, CH-R17, D1, CT-37.
#[test]
fn an_end_of_the_channel_itself_is_refused() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    let refused = near.write(bytes(1).with(far)).expect_err("it is the peer");
    assert_eq!(refused.status(), Status::NotSupported);
    let mut message = refused.into_message();
    assert_eq!(value(&message), 1);
    let far = message.take_handles().remove(0).into_channel().expect("it came back");
    near.write(bytes(2)).expect("the channel is as it was");
    assert_eq!(value(&far.try_read().expect("there is one")), 2);
    bench.end();
}

/// CH-38. R12f, R76: an end with a registered read or a running handler is not sent, and comes back.
///
/// Shows CH-R17, CH-R76, D1, D7, CT-38.
#[test]
fn an_end_with_a_read_is_refused_until_the_handler_has_returned() {
    let bench = Bench::new();
    let (near, far) = Channel::pair();
    bench.read(&far, "");
    let refused = bench.near.write(Message::new().with(far)).expect_err("a read is registered");
    assert_eq!(refused.status(), Status::InvalidArgs);
    assert_eq!(bench.far.queued_messages(), 0);
    let far = refused.into_message().take_handles().remove(0).into_channel().expect("it came back");
    drop(far.cancel_read().expect("it waits"));

    let slot = Arc::new(Mutex::new(Some(far)));
    let (held, log) = (Arc::clone(&slot), bench.log.clone());
    let (carrier, carried) = Channel::pair();
    let read = move |_| {
        let end = held.lock().expect("no panic").take().expect("it is there");
        let refused = carrier.write(Message::new().with(end)).expect_err("its handler runs");
        log.add(refused.status().to_string());
        let end = refused.into_message().take_handles().remove(0).into_channel().expect("it came back");
        *held.lock().expect("no panic") = Some(end);
    };
    slot.lock().expect("no panic").as_ref().expect("there").begin_read(&bench.dispatcher, read).expect("registered");
    near.write(Message::new()).expect("written");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["invalid argument"]);
    assert_eq!(carried.try_read().expect_err("the carrier is gone with its handler"), ReadError::PeerClosed);

    let far = slot.lock().expect("no panic").take().expect("it was put back");
    bench.near.write(Message::new().with(far)).expect("the handler has returned");
    bench.end();
}

/// D4: the writer is told that the queue is full; other directions and readers are not concerned.
///
/// Shows CH-R3.
#[test]
fn a_full_queue_is_told_to_the_writer() {
    let bench = Bench::new();
    let (near, far) = Channel::pair_with(Limits::default().messages(2).bytes(100));
    near.write(Message::with_len(40)).expect("the first");
    near.write(Message::with_len(40)).expect("the second");
    let refused = near.write(Message::new()).expect_err("two wait");
    assert_eq!(refused.status(), Status::ShouldWait);
    assert_eq!((near.peer_queued_messages(), near.peer_queued_bytes()), (2, 80));
    assert_eq!((far.queued_messages(), far.queued_bytes()), (2, 80));
    drop(far.try_read().expect("the first"));
    let refused = near.write(Message::with_len(61)).expect_err("too many bytes");
    near.write(Message::with_len(60)).expect("just enough");
    drop((far.try_read(), far.try_read()));
    near.write(Message::with_len(1000)).expect("an empty queue takes anything");
    assert_eq!(near.write(refused.into_message()).expect_err("behind that one").status(), Status::ShouldWait);
    far.write(Message::with_len(40)).expect("the other direction is empty");
    bench.end();
}

/// W18: a registered read is visible from outside, with its place in the source.
#[test]
fn a_registered_read_is_listed_with_the_line_that_registered_it() {
    let bench = Bench::new();
    let line = line!() + 1;
    bench.far.begin_read(&bench.dispatcher, |_| ()).expect("registered");
    let dump = bench.dispatcher.dump();
    let pending = dump.pending.first().expect("it is pending");
    assert_eq!(pending.kind, Kind::Read);
    assert!(pending.posted_from.file().ends_with("channel_rules.rs"));
    assert_eq!(pending.posted_from.line(), line);
    assert_eq!(bench.dispatcher.counters().pending, 1);
    bench.end();
}

/// R32: one dispatcher at a time, another the next time.
///
/// Shows CH-R32.
#[test]
fn the_next_read_may_be_registered_on_another_dispatcher() {
    let bench = Bench::new();
    let second = bench.driver.new_dispatcher(DispatcherBuilder::new().name("second")).expect("created");
    bench.read(&bench.far, "");
    bench.near.write(Message::new()).expect("written");
    bench.runtime.run_until_idle();
    let log = bench.log.clone();
    let read = move |_| log.add(fuchsine_dispatcher::current().expect("one is current").name());
    bench.far.begin_read(&second, read).expect("registered");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())", "second"]);
    bench.end();
}

/// A handler is dropped with its dispatcher current, run or canceled; one that is taken back is the caller's.
///
/// Shows CH-R38.
#[test]
fn a_handler_ends_on_its_dispatcher_unless_it_was_taken_back() {
    struct SaysWhere(Log);
    impl Drop for SaysWhere {
        fn drop(&mut self) {
            let place = fuchsine_dispatcher::current();
            self.0.add(place.map_or("nowhere".to_owned(), |dispatcher| dispatcher.name().to_owned()));
        }
    }
    let bench = Bench::new();
    let register = || {
        let inside = SaysWhere(bench.log.clone());
        bench.far.begin_read(&bench.dispatcher, move |_| drop(inside)).expect("registered");
    };
    register();
    bench.near.write(Message::new()).expect("written");
    bench.runtime.run_until_idle();
    drop(bench.far.try_read());
    register();
    drop(bench.far.cancel_read().expect("it waits"));
    register();
    bench.dispatcher.shutdown_async();
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["reader", "nowhere", "reader"]);
    bench.end();
}

/// A handler that panics has had its call, and the end is free.
#[test]
fn a_handler_that_panics_leaves_the_end_usable() {
    let runtime = ForegroundRuntime::with(
        fuchsine_dispatcher::RuntimeBuilder::new().panic_policy(fuchsine_dispatcher::PanicPolicy::Continue),
    )
    .expect("created");
    let dispatcher =
        runtime.new_driver("reader").new_dispatcher(DispatcherBuilder::new().name("reader")).expect("created");
    let (near, far) = Channel::pair();
    far.begin_read(&dispatcher, |_| panic!("on purpose")).expect("registered");
    near.write(bytes(1)).expect("written");
    runtime.run_until_idle();
    let (carrier, _carried) = Channel::pair();
    carrier.write(Message::new().with(far)).expect("no handler counts as running any more");
    let counters = dispatcher.counters();
    assert_eq!((counters.ran, counters.pending), (1, 0));
}

/// RA-07 and R27: a message can be made in an arena that holds others.
///
/// Shows CH-R27.
#[test]
fn messages_of_one_arena_travel_apart() {
    let bench = Bench::new();
    let arena = Arena::with_tag(*b"test");
    for n in 0..50u64 {
        let mut message = arena.message(1000);
        message.bytes_mut()[..8].copy_from_slice(&n.to_le_bytes());
        message.truncate(8);
        bench.near.write(message.with(Handle::value(n))).expect("written");
    }
    drop(arena);
    for n in 0..50u64 {
        let mut message = bench.far.try_read().expect("there is one");
        assert_eq!(value(&message), n);
        assert_eq!(message.arena().expect("it has bytes").tag(), *b"test");
        assert_eq!(message.take_handles().remove(0).into_value::<u64>().expect("that was sent"), n);
    }
    bench.end();
}
