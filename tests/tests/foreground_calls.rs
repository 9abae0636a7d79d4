//! Goal: synchronous calls work on the foreground runtime as on threads, in lock step and by the virtual clock; where they
//! could only hang they are refused or seen.
//! Method: callers on dispatchers that allow sync calls, in work, and in blocking calls of the test; logs and dumps.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Log, add_up};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Instant, Lane, Message, Runtime, Status, current,
};
use fuchsine_tests::pools::on_every_pool_calling_inline;

const SECOND: Duration = Duration::from_secs(1);

#[track_caller]
fn on(runtime: &Runtime, name: &str, builder: DispatcherBuilder) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(builder.name(name)).expect("created")
}

#[track_caller]
fn sync(runtime: &Runtime, name: &str) -> Dispatcher {
    on(runtime, name, DispatcherBuilder::new().allow_sync_calls())
}

fn request(value: u8) -> Message {
    Message::from_bytes(&[value])
}

fn reply(request: Message, value: u8) -> Message {
    let mut reply = request.recycle(1);
    reply.bytes_mut()[0] = value;
    reply
}

/// Answers one request with what `answer` makes of it.
fn serve_once(end: Channel, home: &DispatcherHandle, answer: impl FnOnce(u8) -> u8 + Send + 'static) {
    let end = Arc::new(end);
    let own = Arc::clone(&end);
    end.begin_read(home, move |outcome| {
        if outcome.is_err() {
            return;
        }
        let request = own.try_read().expect("it is there");
        let value = answer(request.bytes()[0]);
        // A caller that has gone needs no reply.
        let _ = own.write(reply(request, value));
    })
    .expect("registered");
}

/// Three dispatchers that allow sync calls, each of which calls the next: every call is inline and answered before its
/// caller would have to wait.
///
/// Shows DT-8.
#[test]
fn a_call_between_dispatchers_that_allow_sync_calls_is_inline() {
    on_every_pool_calling_inline(|world| {
        let [a, b, c] = ["a", "b", "c"].map(|name| sync(world.runtime(), name));
        let ((to_b, at_b), (to_c, at_c)) = (Channel::pair(), Channel::pair());
        let log = Log::new();
        let entry = log.clone();
        serve_once(at_c, &c, move |value| {
            entry.add(format!("c is asked {value}"));
            value + 1
        });
        let entry = log.clone();
        serve_once(at_b, &b, move |value| {
            entry.add(format!("b is asked {value}"));
            to_c.call(request(value + 1), Instant::INFINITE).expect("c answers").bytes()[0]
        });
        let entry = log.clone();
        a.post_task(move |_| {
            let answer = to_b.call(request(5), Instant::INFINITE).expect("b answers").bytes()[0];
            entry.add(format!("a is told {answer}"));
        })
        .expect("accepted");
        world.settle();
        assert_eq!(log.take(), ["b is asked 5", "c is asked 6", "a is told 7"]);
        assert_eq!([&b, &c].map(|dispatcher| dispatcher.dump().inlined), [1, 1]);
    });
}

/// A caller waits while the one it calls takes its time, and everybody else has theirs.
#[test]
fn a_caller_waits_in_lock_step_with_a_server_that_takes_its_time() {
    let runtime = ForegroundRuntime::new();
    let (caller, server) = (sync(&runtime, "caller"), on(&runtime, "server", DispatcherBuilder::new()));
    let (near, far) = Channel::pair();
    let far = Arc::new(far);
    let (own, home) = (Arc::clone(&far), server.handle());
    far.begin_read(&server, move |_| {
        let message = own.try_read().expect("it is there");
        let late = move |_| own.write(reply(message, 9)).expect("the caller waits");
        let _timer = home.post_after(SECOND * 3, late).expect("armed");
    })
    .expect("registered");
    let log = Log::new();
    let entry = log.clone();
    caller
        .post_task(move |_| {
            let home = current().expect("a callback");
            let answer = near.call(request(1), home.now() + SECOND * 5).map(|reply| reply.bytes()[0]);
            entry.add(format!("{answer:?} at {}", home.now().as_nanos() / 1_000_000_000));
            let late = near.call(request(2), home.now() + SECOND * 2).map_err(|error| error.status());
            entry.add(format!("{:?} at {}", late.map(|_| ()), home.now().as_nanos() / 1_000_000_000));
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert!(log.is_empty());
    let dump = caller.dump();
    assert_eq!(dump.running[0].waits_for, Some("a reply"), "{dump}");
    runtime.run_until(Instant::INFINITE);
    assert_eq!(log.take(), ["Ok(9) at 3", "Err(TimedOut) at 5"]);
    runtime.shutdown().expect("it shuts down");
    add_up(&runtime);
}

/// Two that call each other wait for ever: the run ends, the dump says so of both, and a shutdown frees them.
#[test]
fn two_that_call_each_other_are_seen_and_freed_by_a_shutdown() {
    let runtime = ForegroundRuntime::new();
    let [one, other] = ["one", "other"].map(|name| sync(&runtime, name));
    let ((to_other, at_other), (to_one, at_one)) = (Channel::pair(), Channel::pair());
    serve_once(at_other, &other, |value| value);
    serve_once(at_one, &one, |value| value);
    let log = Log::new();
    // Both begin their call before either is free to answer: the first step of each is to let the other begin.
    for (caller, end) in [(&one, to_other), (&other, to_one)] {
        let entry = log.clone();
        caller
            .post_task(move |_| {
                fuchsine_dispatcher::blocking(|| ()).expect("it may");
                let end = end.call(request(1), Instant::INFINITE).map_err(|error| error.status());
                entry.add(format!("{:?}", end.map(|_| ())));
            })
            .expect("accepted");
    }
    runtime.run_until(Instant::INFINITE);
    assert!(log.is_empty());
    let waits = runtime.waits();
    let text = waits.to_string();
    assert!(waits.is_deadlock() && text.ends_with("deadlock: one/one -> other/other -> one/one\n"), "{text}");
    assert!(text.contains("one/one waits for a reply from other/other, in the task of tests/tests/"), "{text}");
    assert!(one.dump().to_string().contains("waits for a reply from dispatcher "), "{}", one.dump());
    for dispatcher in [&one, &other] {
        let dump = dispatcher.dump();
        assert_eq!(
            dump.running.iter().map(|running| running.waits_for).collect::<Vec<_>>(),
            [Some("a reply")],
            "{dump}"
        );
    }
    runtime.shutdown().expect("it shuts down");
    assert_eq!(log.take(), ["Err(Canceled)", "Err(Canceled)"]);
    add_up(&runtime);
}

#[test]
fn a_call_on_the_thread_that_turns_the_crank_is_refused_with_its_request_and_run_blocking_makes_it() {
    let runtime = ForegroundRuntime::new();
    let server = on(&runtime, "server", DispatcherBuilder::new());
    let (near, far) = Channel::pair();
    serve_once(far, &server, |value| value + 1);
    let refused = near.call(request(1), Instant::INFINITE).expect_err("nobody would answer");
    assert_eq!(refused.status(), Status::BadState);
    assert!(refused.to_string().contains("run_until_stalled"), "{refused}");
    assert_eq!(refused.into_request().expect("it was not sent").bytes(), [1]);
    assert!(!runtime.run_once(), "nothing was sent");
    let answer = runtime.run_blocking(move || near.call(request(1), Instant::INFINITE).expect("an answer").bytes()[0]);
    assert_eq!(answer.expect("it ends"), 2);
}

/// The deadline of a call by the test is one of the virtual clock, and a call that nobody answers is ended.
#[test]
fn a_call_by_a_test_has_its_deadline_by_the_virtual_clock_and_never_hangs() {
    let runtime = ForegroundRuntime::new();
    let (near, _far) = Channel::pair();
    let near = Arc::new(near);
    let (calling, deadline) = (Arc::clone(&near), runtime.now() + SECOND * 60);
    let end = runtime.run_blocking(move || calling.call(request(1), deadline).expect_err("no answer").status());
    assert_eq!(end.expect("it ends"), Status::TimedOut);
    assert_eq!(runtime.now(), deadline);
    let stalled = runtime.run_blocking(move || near.call(request(1), Instant::INFINITE).is_ok());
    assert_eq!(stalled.expect_err("nothing ends it").status(), Status::TimedOut);
}

/// Work of any dispatcher may call, and its dispatcher goes on meanwhile.
#[test]
fn a_call_of_offloaded_work_holds_up_nobody() {
    let runtime = ForegroundRuntime::new();
    let (home, server) =
        (on(&runtime, "home", DispatcherBuilder::new()), on(&runtime, "server", DispatcherBuilder::new()));
    let (near, far) = Channel::pair();
    let log = Log::new();
    let entry = log.clone();
    serve_once(far, &server, move |value| {
        entry.add("served");
        value + 1
    });
    let (entry, done) = (log.clone(), log.clone());
    home.offload(
        Lane::Slow,
        move |_| {
            entry.add("calls");
            near.call(request(1), Instant::INFINITE).expect("an answer").bytes()[0]
        },
        move |answer| done.add(format!("{answer:?}")),
    )
    .expect("accepted");
    let entry = log.clone();
    home.post_task(move |_| entry.add("task")).expect("accepted");
    runtime.run_until_idle();
    let order = log.take();
    assert_eq!(order.last().map(String::as_str), Some("Ok(2)"), "{order:?}");
    assert!(order.contains(&"task".to_owned()) && order.contains(&"served".to_owned()), "{order:?}");
}
