//! Goal: a standing read is told of everything, each call a callback of its own, and ends in exactly one way; one that is
//! handed messages loses none, and is called for nothing else.
//! Method: on the foreground runtime, where nothing moves unless the test turns the crank; one race under the explorer.

mod common;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use common::{Log, add_up};
use fuchsine_dispatcher::testing::{ForegroundRuntime, explore};
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Limits, Message, PanicPolicy, RuntimeBuilder, Status,
};

/// Notes its own end.
struct Held(Log);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

struct Bench {
    runtime: ForegroundRuntime,
    reader: Dispatcher,
    near: Arc<Channel>,
    far: Arc<Channel>,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        Bench::of(ForegroundRuntime::new())
    }

    fn of(runtime: ForegroundRuntime) -> Self {
        let reader = runtime.new_driver("reader").new_dispatcher(DispatcherBuilder::new().name("reader"));
        let (near, far) = Channel::pair();
        let reader = reader.expect("created");
        Bench { runtime, reader, near: Arc::new(near), far: Arc::new(far), log: Log::new() }
    }

    /// A standing read that notes what it is told and does `then` after it.
    #[track_caller]
    fn stand(&self, mut then: impl FnMut() -> ControlFlow<()> + Send + 'static) {
        let (log, held) = (self.log.clone(), Held(self.log.clone()));
        self.far
            .begin_standing_read(&self.reader, move |outcome| {
                let _held = &held;
                log.add(format!("{outcome:?}"));
                then()
            })
            .expect("registered");
    }

    /// A handler of messages that notes each byte that it is handed, and the end.
    #[track_caller]
    fn receive(&self) {
        let (log, held) = (self.log.clone(), Held(self.log.clone()));
        self.far
            .begin_receiving(&self.reader, move |outcome| {
                let _held = &held;
                log.add(format!("{:?}", outcome.map(|message| message.bytes()[0])));
                ControlFlow::Continue(())
            })
            .expect("registered");
    }

    fn send(&self, byte: u8) {
        self.near.write(Message::from_bytes(&[byte])).expect("the reader is open");
    }

    /// One that takes one message each time.
    #[track_caller]
    fn stand_and_take_one(&self) {
        let end = Arc::clone(&self.far);
        self.stand(move || {
            drop(end.try_read());
            ControlFlow::Continue(())
        });
    }

    fn write(&self) {
        self.near.write(Message::new()).expect("the reader is open");
    }

    /// Turns the crank, and takes what was noted.
    fn run(&self) -> Vec<String> {
        self.runtime.run_until_idle();
        self.log.take()
    }

    #[track_caller]
    fn end(self) {
        drop((self.near, self.far, self.reader));
        self.runtime.shutdown().expect("nothing is stuck");
        add_up(&self.runtime);
        assert_eq!(self.runtime.counters().pending, 0);
    }
}

#[test]
fn it_is_told_of_each_message_and_once_more_of_the_close_and_each_call_counts() {
    let mut bench = Bench::new();
    bench.stand_and_take_one();
    assert_eq!(bench.run(), [""; 0]);
    bench.write();
    assert_eq!(bench.run(), ["Ok(())"]);
    bench.write();
    bench.write();
    assert_eq!(bench.run(), ["Ok(())", "Ok(())"], "what it leaves is told again");
    let counters = bench.reader.counters();
    assert_eq!((counters.accepted, counters.ran, counters.pending), (4, 3, 1), "{counters:?}");
    bench.write();
    bench.near = Arc::new(Channel::pair().0);
    assert_eq!(bench.run(), ["Ok(())", "Err(PeerClosed)", "dropped"], "messages come before the close");
    let counters = bench.reader.counters();
    assert_eq!((counters.accepted, counters.ran, counters.pending), (5, 5, 0), "{counters:?}");
    bench.end();
}

#[test]
fn what_comes_while_its_handler_runs_is_told_when_it_has_returned() {
    let bench = Bench::new();
    let (writer, mut left) = (Arc::clone(&bench.near), 2);
    let end = Arc::clone(&bench.far);
    bench.stand(move || {
        drop(end.try_read());
        if left > 0 {
            left -= 1;
            writer.write(Message::new()).expect("the reader is open");
        }
        ControlFlow::Continue(())
    });
    bench.write();
    assert_eq!(bench.run(), ["Ok(())"; 3]);
    // The handler holds the other end too, so nobody but a cancel ends it.
    drop(bench.far.cancel_read().expect("it waits"));
    assert_eq!(bench.log.take(), ["dropped"]);
    bench.end();
}

/// What is there already is told in the same turn, but behind what the handler has posted before.
#[test]
fn it_stands_behind_what_was_posted_while_its_handler_ran() {
    let bench = Bench::new();
    let (end, own, log) = (Arc::clone(&bench.far), bench.reader.handle(), bench.log.clone());
    (0..3).for_each(|_| bench.write());
    bench.stand(move || {
        drop(end.try_read());
        let log = log.clone();
        own.post_task(move |_| log.add("task")).expect("it runs");
        ControlFlow::Continue(())
    });
    assert_eq!(bench.run(), ["Ok(())", "task", "Ok(())", "task", "Ok(())", "task"]);
    assert_eq!(bench.reader.counters().ran, 6);
    bench.end();
}

/// Promise 7: however many messages there are, a turn has one batch of them.
#[test]
fn a_flood_leaves_others_their_turns() {
    let bench = Bench::new();
    let other = bench.runtime.new_driver("other").new_dispatcher(DispatcherBuilder::new()).expect("created");
    (0..25).for_each(|_| bench.write());
    bench.stand_and_take_one();
    let log = bench.log.clone();
    other.post_task(move |_| log.add("other")).expect("it runs");
    let lines = bench.run();
    assert_eq!((lines.len(), lines.iter().position(|line| line == "other")), (26, Some(10)));
    bench.end();
}

/// A suspend that begins while the handler runs has it called no more until the resume, whatever is there.
#[test]
fn a_suspend_while_it_runs_parks_what_is_there() {
    let bench = Bench::new();
    let (end, driver) = (Arc::clone(&bench.far), bench.reader.owner());
    (0..3).for_each(|_| bench.write());
    let suspending = driver.clone();
    bench.stand(move || {
        drop(end.try_read());
        if end.queued_messages() == 2 {
            suspending.suspend(|_| ()).expect("it runs");
        }
        ControlFlow::Continue(())
    });
    assert_eq!(bench.run(), ["Ok(())"]);
    assert!(driver.resume());
    assert_eq!(bench.run(), ["Ok(())", "Ok(())"]);
    bench.end();
}

#[test]
fn a_break_ends_it_and_the_end_is_free() {
    let bench = Bench::new();
    bench.stand(|| ControlFlow::Break(()));
    bench.write();
    assert_eq!(bench.run(), ["Ok(())", "dropped"]);
    bench.write();
    assert_eq!(bench.run(), [""; 0], "it is not told again");
    let log = bench.log.clone();
    bench.far.begin_read(&bench.reader, move |_| log.add("next")).expect("the end is free");
    assert_eq!(bench.run(), ["next"]);
    bench.end();
}

#[test]
fn it_keeps_its_place_while_its_handler_runs() {
    let bench = Bench::new();
    let (end, home, log) = (Arc::clone(&bench.far), bench.reader.handle(), bench.log.clone());
    bench.stand(move || {
        drop(end.try_read());
        let refused = end.begin_read(&home, |_| ()).expect_err("it stands there");
        log.add(format!("{:?}", refused.status()));
        ControlFlow::Continue(())
    });
    bench.write();
    assert_eq!(bench.run(), ["Ok(())", "BadState"]);
    bench.write();
    assert_eq!(bench.run(), ["Ok(())", "BadState"]);
    drop(bench.far.cancel_read().expect("it waits"));
    assert_eq!(bench.log.take(), ["dropped"]);
    bench.end();
}

#[test]
fn a_cancel_while_it_waits_gives_it_back_and_one_while_it_runs_is_its_end() {
    let bench = Bench::new();
    bench.stand_and_take_one();
    bench.write();
    assert_eq!(bench.run(), ["Ok(())"]);
    drop(bench.far.cancel_read().expect("it waits"));
    assert_eq!(bench.log.take(), ["dropped"]);
    let (end, log) = (Arc::clone(&bench.far), bench.log.clone());
    bench.stand(move || {
        log.add(format!("{:?}", end.cancel_read().is_err()));
        ControlFlow::Continue(())
    });
    bench.write();
    assert_eq!(bench.run(), ["Ok(())", "true", "dropped"]);
    bench.write();
    assert_eq!(bench.run(), [""; 0], "it is not called again");
    bench.far.begin_read(&bench.reader, |_| ()).expect("the end is free");
    bench.runtime.run_until_idle();
    bench.end();
}

#[test]
fn a_shutdown_tells_it_once_while_it_waits_and_ends_it_while_it_runs() {
    let bench = Bench::new();
    bench.stand_and_take_one();
    bench.reader.shutdown_async();
    assert_eq!(bench.run(), ["Err(Canceled)", "dropped"]);
    bench.end();

    let bench = Bench::new();
    let home = bench.reader.handle();
    bench.stand(move || {
        home.shutdown_async();
        ControlFlow::Continue(())
    });
    bench.write();
    assert_eq!(bench.run(), ["Ok(())", "dropped"]);
    let counters = bench.reader.counters();
    assert_eq!((counters.accepted, counters.ran, counters.refused), (1, 1, 1), "{counters:?}");
    bench.end();
}

#[test]
fn its_own_end_that_closes_while_it_runs_is_told_as_canceled() {
    let runtime = ForegroundRuntime::new();
    let reader = runtime.new_driver("reader").new_dispatcher(DispatcherBuilder::new().name("reader")).expect("created");
    let (near, far) = Channel::pair();
    let (log, kept) = (Log::new(), Arc::new(Mutex::new(None)));
    let (noting, mine) = (log.clone(), Arc::clone(&kept));
    far.begin_standing_read(&reader, move |outcome| {
        noting.add(format!("{outcome:?}"));
        drop(mine.lock().expect("nobody panics").take());
        ControlFlow::Continue(())
    })
    .expect("registered");
    *kept.lock().expect("nobody panics") = Some(far);
    near.write(Message::new()).expect("the reader is open");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["Ok(())", "Err(Canceled)"]);
    assert!(near.is_peer_closed());
    drop((near, reader));
    runtime.shutdown().expect("nothing is stuck");
    add_up(&runtime);
}

#[test]
fn a_panic_ends_it_and_the_end_is_free() {
    let runtime = RuntimeBuilder::new().panic_policy(PanicPolicy::Continue);
    let bench = Bench::of(ForegroundRuntime::with(runtime).expect("built"));
    bench.stand(|| panic!("on purpose"));
    bench.write();
    assert_eq!(bench.run(), ["Ok(())", "dropped"]);
    bench.far.begin_read(&bench.reader, |_| ()).expect("the end is free");
    bench.runtime.run_until_idle();
    bench.end();
}

#[test]
fn a_handler_of_any_size_stays_in_one_piece() {
    let bench = Bench::new();
    let (end, log, mut words) = (Arc::clone(&bench.far), bench.log.clone(), [0_u64; 64]);
    bench.stand(move || {
        drop(end.try_read());
        words.iter_mut().for_each(|word| *word += 1);
        log.add(format!("{:?}", words.iter().sum::<u64>()));
        ControlFlow::Continue(())
    });
    for round in 1..4 {
        bench.write();
        assert_eq!(bench.run(), ["Ok(())".to_owned(), (64 * round).to_string()]);
    }
    drop(bench.far.cancel_read().expect("it waits"));
    assert_eq!(bench.log.take(), ["dropped"]);
    bench.end();
}

#[test]
fn refused_it_comes_back() {
    let bench = Bench::new();
    bench.stand_and_take_one();
    let again = bench.far.begin_standing_read(&bench.reader, |_| ControlFlow::Continue(()));
    assert_eq!(again.expect_err("one stands there").status(), Status::BadState);
    assert_eq!(bench.reader.counters().refused, 1);
    drop(bench.far.cancel_read().expect("it waits"));
    bench.end();
}

/// Whatever the order of writes, cancel, close and shutdown: nothing is told twice, and nothing is lost.
#[test]
fn in_every_order_each_message_is_read_or_left_and_the_last_word_is_an_error() {
    explore(0..300, |runtime| {
        let new =
            |name: &str| runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created");
        let (reader, writer, closer) = (new("reader"), new("writer"), new("closer"));
        let (near, far) = Channel::pair();
        let far = Arc::new(far);
        let read = Arc::new(Mutex::new((0, 0)));
        let (end, counting) = (Arc::clone(&far), Arc::clone(&read));
        far.begin_standing_read(&reader, move |outcome| {
            let mut read = counting.lock().expect("nobody panics");
            assert_eq!(read.1, 0, "an error is the last word");
            match outcome {
                Ok(()) => read.0 += usize::from(end.try_read().is_ok()),
                Err(_) => read.1 += 1,
            }
            ControlFlow::Continue(())
        })
        .expect("registered");
        writer
            .post_task(move |_| {
                for _ in 0..3 {
                    near.write(Message::new()).expect("the reader is open");
                }
            })
            .expect("accepted");
        let stopped = reader.handle();
        closer.post_task(move |_| stopped.shutdown_async()).expect("accepted");
        runtime.run_until_idle();
        let (messages, errors) = *read.lock().expect("nobody panics");
        assert!(errors <= 1);
        assert_eq!(messages + far.queued_messages(), 3);
    });
}

#[test]
fn each_message_is_handed_in_order_and_at_last_the_close() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.send(2);
    bench.receive();
    assert_eq!(bench.run(), ["Ok(1)", "Ok(2)"], "what was there, by one turn");
    bench.send(3);
    assert_eq!((bench.run(), bench.far.queued_messages()), (vec!["Ok(3)".to_owned()], 0));
    // From a callback of another driver it is called inline, and the message never waits.
    let writer = bench.runtime.new_driver("writer").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (near, log) = (Arc::clone(&bench.near), bench.log.clone());
    writer
        .post_task(move |_| {
            (4..6).for_each(|byte| near.write(Message::from_bytes(&[byte])).expect("the reader is open"));
            log.add("written");
        })
        .expect("accepted");
    assert_eq!((bench.run(), bench.reader.dump().inlined), (["Ok(4)", "Ok(5)", "written"].map(String::from).into(), 2));
    bench.send(6);
    bench.near = Arc::new(Channel::pair().0);
    assert_eq!(bench.run(), ["Ok(6)", "Err(PeerClosed)", "dropped"]);
    let counters = bench.reader.counters();
    assert_eq!((counters.accepted, counters.ran, counters.pending), (7, 7, 0), "{counters:?}");
    bench.end();
}

#[test]
fn for_what_another_has_read_it_is_not_called_and_more_may_come() {
    let bench = Bench::new();
    bench.receive();
    bench.send(1);
    assert_eq!(bench.far.try_read().expect("it waits for the handler's turn").bytes(), [1]);
    assert_eq!(bench.run(), [""; 0]);
    bench.send(2);
    assert_eq!(bench.run(), ["Ok(2)"]);
    drop(bench.far.cancel_read().expect("it waits"));
    assert_eq!(bench.log.take(), ["dropped"]);
    bench.end();
}

/// What a shutdown, a cancel or a break comes before is not taken.
#[test]
fn what_it_is_not_handed_stays_queued() {
    let bench = Bench::new();
    bench.receive();
    bench.send(1);
    bench.reader.shutdown_async();
    assert_eq!(bench.run(), ["Err(Canceled)", "dropped"]);
    assert_eq!(bench.far.try_read().expect("nobody took it").bytes(), [1]);
    bench.end();

    let bench = Bench::new();
    bench.receive();
    bench.send(1);
    drop(bench.far.cancel_read().expect("it has not begun"));
    assert_eq!((bench.run(), bench.far.queued_messages()), (vec!["dropped".to_owned()], 1));
    bench.end();
}

/// Each time that a message leaves a full queue, whoever waits for the room is told, also when the handler begins again at once.
#[test]
fn who_waits_for_the_room_of_what_is_handed_is_told() {
    fn keep_full(near: &Arc<Channel>, writer: &DispatcherHandle, byte: u8) {
        let (end, home) = (Arc::clone(near), writer.clone());
        let told = move |_| {
            end.write(Message::from_bytes(&[byte])).expect("there is room");
            if byte < 4 {
                keep_full(&end, &home, byte + 1);
            }
        };
        near.begin_writable(writer, 1, told).expect("registered");
    }
    let mut bench = Bench::new();
    let (near, far) = Channel::pair_with(Limits::default().messages(2));
    (bench.near, bench.far) = (Arc::new(near), Arc::new(far));
    let writer = bench.runtime.new_driver("writer").new_dispatcher(DispatcherBuilder::new()).expect("created");
    bench.send(1);
    bench.send(2);
    keep_full(&bench.near, &writer.handle(), 3);
    bench.receive();
    assert_eq!(bench.run(), ["Ok(1)", "Ok(2)", "Ok(3)", "Ok(4)"]);
    drop(bench.far.cancel_read().expect("it waits"));
    assert_eq!(bench.log.take(), ["dropped"]);
    bench.end();
}

/// Whatever the order of writes, another reader, and shutdown: each message is handed, read or left, in order.
#[test]
fn in_every_order_each_message_is_handed_once_or_left() {
    explore(0..300, |runtime| {
        let new =
            |name: &str| runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created");
        let (reader, writer, other) = (new("reader"), new("writer"), new("other"));
        let (near, far) = Channel::pair();
        let far = Arc::new(far);
        let handed = Arc::new(Mutex::new((Vec::new(), 0)));
        let noting = Arc::clone(&handed);
        far.begin_receiving(&reader, move |outcome| {
            let mut handed = noting.lock().expect("nobody panics");
            assert_eq!(handed.1, 0, "an error is the last word");
            match outcome {
                Ok(message) => handed.0.push(message.bytes()[0]),
                Err(_) => handed.1 += 1,
            }
            ControlFlow::Continue(())
        })
        .expect("registered");
        let write = move |_| (0..3).for_each(|byte| near.write(Message::from_bytes(&[byte])).expect("it is open"));
        writer.post_task(write).expect("accepted");
        let (end, stopped, noting) = (Arc::clone(&far), reader.handle(), Arc::clone(&handed));
        other
            .post_task(move |_| {
                if let Ok(message) = end.try_read() {
                    noting.lock().expect("nobody panics").0.push(message.bytes()[0]);
                }
                stopped.shutdown_async();
            })
            .expect("accepted");
        runtime.run_until_idle();
        let (mut messages, errors) = std::mem::take(&mut *handed.lock().expect("nobody panics"));
        assert!(errors <= 1);
        messages.sort_unstable();
        messages.extend(std::iter::from_fn(|| far.try_read().ok()).map(|message| message.bytes()[0]));
        assert_eq!(messages, [0, 1, 2]);
    });
}
