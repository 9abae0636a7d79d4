//! Goal: a call gets its own reply, once, or is told why not; whatever comes too late reaches nobody.
//! Method: scenarios on every kind of runtime; where the order of steps is the point, on the foreground runtime with its
//! virtual clock.

mod call_support;
mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use call_support::{bytes, hang, on, reply_to, value};
use common::{HANG, Log};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Handle, Instant, Kind, Limits, Message, ReadError, Status,
};
use fuchsine_tests::pools::{World, in_the_foreground, on_every_pool, on_pools};

fn plain(world: &World, name: &str) -> Dispatcher {
    on(world, name, DispatcherBuilder::new())
}

/// Answers every request with its number plus one, until the client closes.
fn serve(end: Arc<Channel>, home: DispatcherHandle) {
    let (own, again) = (Arc::clone(&end), home.clone());
    // A server that shuts down serves no more.
    let _ = end.begin_read(&home, move |outcome| {
        while let Ok(request) = own.try_read() {
            let answer = value(&request) + 1;
            // A client that has gone needs no reply.
            let _ = own.write(reply_to(request, answer));
        }
        if outcome.is_ok() {
            serve(own, again);
        }
    });
}

/// Lets whatever waits for a time have it: the clock does not move when there is nothing.
#[track_caller]
fn assert_no_timer_is_left(runtime: &ForegroundRuntime) {
    let now = runtime.now();
    assert!(!runtime.run_until_condition(|| false));
    assert_eq!(runtime.now(), now, "a timer was left");
}

/// Writes the outcome of a call down.
fn noting(log: &Log, name: &str) -> impl FnOnce(Result<Message, Status>) + Send + 'static {
    let (log, name) = (log.clone(), name.to_owned());
    move |outcome| log.add(format!("{name} {:?}", outcome.map(|reply| value(&reply))))
}

/// Shows CT-26, CH-R47, CH-R48, CH-R50.
#[test]
fn a_thread_outside_calls_and_gets_its_reply() {
    on_pools(|world| {
        let server = plain(world, "server");
        let (client, far) = Channel::pair();
        serve(Arc::new(far), server.handle());
        for number in 0..100 {
            let reply = client.call(bytes(number), hang(world)).expect("the server answers");
            assert_eq!(value(&reply), number + 1);
            assert_eq!(reply.txid(), None, "a reply is a message like any other");
        }
        drop(client);
    });
}

/// Shows CT-28.
#[test]
fn a_call_carries_handles_both_ways() {
    on_pools(|world| {
        let server = plain(world, "server");
        let (client, far) = Channel::pair();
        let far = Arc::new(far);
        let own = Arc::clone(&far);
        far.begin_read(&server, move |_| {
            let mut request = own.try_read().expect("it says so");
            let mut handles = request.take_handles();
            handles.push(Handle::value("second"));
            let mut reply = reply_to(request, 2);
            handles.into_iter().for_each(|handle| reply.push(handle));
            own.write(reply).expect("the client waits");
        })
        .expect("registered");
        let request = Message::new().with(Handle::value("first"));
        let mut reply = client.call(request, hang(world)).expect("answered");
        let values: Vec<_> =
            reply.take_handles().into_iter().map(|it| it.into_value::<&str>().expect("a text")).collect();
        assert_eq!(values, ["first", "second"]);
    });
}

/// The reader of a request calls back over the same channel before it replies.
///
/// Shows CT-29, CH-R50.
#[test]
fn a_callback_that_may_block_calls_back_over_the_channel_of_the_request() {
    on_pools(|world| {
        let server = on(world, "server", DispatcherBuilder::new().allow_sync_calls());
        let client = plain(world, "client");
        let (near, far) = Channel::pair();
        let (near, far) = (Arc::new(near), Arc::new(far));
        serve(Arc::clone(&near), client.handle());
        let own = Arc::clone(&far);
        far.begin_read(&server, move |_| {
            let request = own.try_read().expect("it says so");
            let inner = own.call(bytes(value(&request) * 10), Instant::INFINITE).expect("the client answers");
            own.write(reply_to(request, value(&inner))).expect("the client waits");
        })
        .expect("registered");
        let reply = near.call(bytes(4), hang(world)).expect("answered");
        assert_eq!(value(&reply), 41);
    });
}

/// The request comes back unsent.
///
/// Shows CH-R46.
#[test]
fn a_call_is_refused_on_a_dispatcher_that_may_not_block() {
    on_every_pool(|world| {
        let plain = plain(world, "plain");
        let (client, far) = Channel::pair();
        let (status, request, text) = world.run_on(&plain, move || {
            let error = client.call(bytes(7), Instant::ZERO).expect_err("it may not block");
            let text = error.to_string();
            (error.status(), error.into_request(), text)
        });
        assert_eq!(status, Status::BadState);
        assert_eq!(request.map(|request| value(&request)), Some(7));
        assert!(text.contains("call_async") && text.contains("run_until_stalled"), "{text}");
        assert_eq!(far.queued_messages(), 0);
    });
}

/// Shows CH-R46.
#[test]
fn a_blocked_call_in_the_foreground_lets_the_others_have_their_turns() {
    in_the_foreground(|world| {
        let (server, home) = (plain(world, "server"), on(world, "home", DispatcherBuilder::new().allow_sync_calls()));
        let (client, far) = Channel::pair();
        let far = Arc::new(far);
        serve(Arc::clone(&far), server.handle());
        let client = Arc::new(client);
        let refused = client.call(bytes(1), Instant::INFINITE).expect_err("this thread turns the crank");
        assert_eq!(refused.status(), Status::BadState);
        assert!(refused.to_string().contains("run_until_stalled"), "{refused}");
        let own = Arc::clone(&client);
        let reply = world.run_on(&home, move || value(&own.call(bytes(7), Instant::INFINITE).expect("answered")));
        assert_eq!(reply, 8);
        // The deadline is one of the virtual clock.
        drop(far.cancel_read());
        let soon = world.runtime().now() + Duration::from_millis(7);
        let log = Log::new();
        let (own, entry) = (Arc::clone(&client), log.clone());
        home.post_task(move |_| {
            entry.add(format!("{:?}", own.call(bytes(1), soon).map_err(|it| it.status()).map(drop)))
        })
        .expect("it runs");
        world.wait_until("the deadline", || !log.is_empty());
        assert_eq!(log.take(), ["Err(TimedOut)"]);
        assert_eq!(world.runtime().now(), soon);
        let (own, entry) = (Arc::clone(&client), log.clone());
        home.post_task(move |_| {
            let outcome = own.call(bytes(1), Instant::INFINITE);
            entry.add(format!("{:?}", outcome.map_err(|it| it.status()).map(drop)));
        })
        .expect("it runs");
        world.settle();
        assert!(log.is_empty(), "nothing is left that could move");
        drop(far);
        world.settle();
        assert_eq!(log.take(), ["Err(PeerClosed)"]);
    });
}

/// Shows CT-31, CH-R49.
#[test]
fn a_deadline_in_the_past_sends_the_request_and_times_out() {
    let (client, server) = Channel::pair();
    let error = client.call(bytes(1), Instant::ZERO).expect_err("nobody answers");
    assert_eq!(error.status(), Status::TimedOut);
    assert!(error.into_request().is_none());
    let request = server.try_read().expect("it was sent");
    server.write(reply_to(request, 2)).expect("the client is there");
    assert_eq!(client.try_read().expect_err("a late reply is no message"), ReadError::ShouldWait);
}

/// Nothing is consumed by a call that was not sent.
///
/// Shows CT-52, CT-55, CH-R17, D1.
#[test]
fn a_call_to_a_closed_peer_gives_the_request_back_with_its_handles() {
    let (client, server) = Channel::pair();
    drop(server);
    let (kept, carried) = Channel::pair();
    let error = client.call(Message::new().with(carried), Instant::INFINITE).expect_err("nobody is there");
    assert_eq!(error.status(), Status::PeerClosed);
    assert!(!kept.is_peer_closed());
    let mut request = error.into_request().expect("it was not sent");
    drop(request.take_handles());
    assert!(kept.is_peer_closed());
}

/// A call refuses what a write refuses, in the same order.
///
/// Shows CT-53.
#[test]
fn a_call_refuses_the_handles_that_a_write_refuses() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let error = client.call(Message::new().with(server), Instant::ZERO).expect_err("an end of its own channel");
        assert_eq!(error.status(), Status::NotSupported);
        let server = error.into_request().expect("unsent").take_handles().remove(0);
        let server = server.into_channel().expect("the end");

        let (busy, _other) = Channel::pair();
        busy.begin_read(&home, |_| {}).expect("registered");
        let error = client.call(Message::new().with(busy), Instant::ZERO).expect_err("a read is registered on it");
        assert_eq!(error.status(), Status::InvalidArgs);
        assert_eq!(server.queued_messages(), 0);
    });
}

/// Shows CT-56, CH-R52, CH-R54.
#[test]
fn the_peers_close_ends_every_call_in_flight() {
    on_pools(|world| {
        let server = plain(world, "server");
        let (client, far) = Channel::pair();
        let client = Arc::new(client);
        let callers: Vec<_> = (0..3)
            .map(|number| {
                let (client, deadline) = (Arc::clone(&client), hang(world));
                std::thread::spawn(move || client.call(bytes(number), deadline))
            })
            .collect();
        world.wait_until("the requests", || far.queued_messages() == 3);
        server.post_task(move |_| drop(far)).expect("it runs");
        for caller in callers {
            let error = caller.join().expect("no panic").expect_err("nobody answered");
            assert_eq!((error.status(), error.into_request().is_none()), (Status::PeerClosed, true));
        }
    });
}

/// Shows CH-R50, CH-R19.
#[test]
fn replies_in_any_order_reach_their_own_calls() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let log = Log::new();
        for number in 1..=3 {
            let handler = noting(&log, &number.to_string());
            let _call = client.begin_call(&home, bytes(number), hang(world), handler).expect("sent");
        }
        let requests: Vec<_> = (0..3).map(|_| server.try_read().expect("sent")).collect();
        for request in requests.into_iter().rev() {
            let answer = value(&request) * 10;
            server.write(reply_to(request, answer)).expect("the client waits");
        }
        world.settle();
        assert_eq!(log.take(), ["3 Ok(30)", "2 Ok(20)", "1 Ok(10)"]);
        assert_eq!(client.queued_messages(), 0, "replies pass the queue");
        assert_no_timer_is_left(world.foreground().expect("in the foreground"));
    });
}

/// Both ends call at once, and their counters are equal. In the original the one request is taken for the
/// reply to the other.
///
/// Shows D2.
#[test]
fn calls_in_both_directions_at_once_are_never_confused() {
    in_the_foreground(|world| {
        let (left, right) = (plain(world, "left"), plain(world, "right"));
        let (near, far) = Channel::pair();
        let log = Log::new();
        let _call = near.begin_call(&left, bytes(1), Instant::INFINITE, noting(&log, "left")).expect("sent");
        let _call = far.begin_call(&right, bytes(2), Instant::INFINITE, noting(&log, "right")).expect("sent");
        world.settle();
        assert!(log.is_empty(), "a request is no reply");
        let (for_near, for_far) = (near.try_read().expect("a request"), far.try_read().expect("a request"));
        assert_ne!(for_near.txid(), for_far.txid());
        let raw = for_near.txid().zip(for_far.txid()).expect("both are requests");
        assert_ne!(raw.0.as_raw(), raw.1.as_raw());
        assert!(raw.0.as_raw() >= 1 << 31 && raw.1.as_raw() >= 1 << 31);
        near.write(reply_to(for_near, 20)).expect("it waits");
        far.write(reply_to(for_far, 10)).expect("it waits");
        world.settle();
        assert_eq!(log.take(), ["right Ok(20)", "left Ok(10)"]);
    });
}

/// The deadline passes, then the reply comes, also while another call is in flight.
///
/// Shows CH-R51.
#[test]
fn a_late_reply_is_dropped_and_reaches_no_other_call() {
    let runtime = ForegroundRuntime::new();
    let home = runtime.new_driver("home").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (client, server) = Channel::pair();
    let log = Log::new();
    let deadline = runtime.now() + Duration::from_millis(5);
    let _call = client.begin_call(&home, bytes(1), deadline, noting(&log, "first")).expect("sent");
    runtime.advance(Duration::from_millis(5));
    runtime.run_until_idle();
    assert_eq!(log.take(), ["first Err(TimedOut)"]);
    let _call = client.begin_call(&home, bytes(2), Instant::INFINITE, noting(&log, "second")).expect("sent");
    let (late, second) = (server.try_read().expect("sent"), server.try_read().expect("sent"));
    let value = Arc::new(());
    let reply = reply_to(late, 10).with(Handle::value(Arc::clone(&value)));
    server.write(reply).expect("it is taken, and dropped");
    assert_eq!(Arc::strong_count(&value), 1);
    runtime.run_until_idle();
    assert!(log.is_empty());
    assert_eq!(client.queued_messages(), 0);
    server.write(reply_to(second, 20)).expect("it waits");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["second Ok(20)"]);
    assert_no_timer_is_left(&runtime);
    runtime.shutdown().expect("nothing is stuck");
}

/// The reply is recorded before the deadline, and told after it.
///
/// Shows CH-R51.
#[test]
fn a_reply_that_is_there_wins_over_the_deadline() {
    let runtime = ForegroundRuntime::new();
    let home = runtime.new_driver("home").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (client, server) = Channel::pair();
    let log = Log::new();
    let deadline = runtime.now() + Duration::from_millis(5);
    let _call = client.begin_call(&home, bytes(1), deadline, noting(&log, "")).expect("sent");
    server.write(reply_to(server.try_read().expect("sent"), 2)).expect("it waits");
    runtime.advance(Duration::from_millis(10));
    runtime.run_until_idle();
    assert_eq!(log.take(), [" Ok(2)"]);
    runtime.shutdown().expect("nothing is stuck");
}

#[test]
fn a_second_reply_is_dropped() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let log = Log::new();
        let _call = client.begin_call(&home, bytes(1), Instant::INFINITE, noting(&log, "")).expect("sent");
        let txid = server.try_read().expect("sent").txid().expect("a request");
        for answer in [10, 20] {
            server.write(bytes(answer).in_reply_to(txid)).expect("taken");
        }
        world.settle();
        server.write(bytes(30).in_reply_to(txid)).expect("taken");
        world.settle();
        assert_eq!(log.take(), [" Ok(10)"]);
        assert_eq!(client.queued_messages(), 0);
    });
}

/// The driver in the middle writes the request of the one to an end whose peer has a call of the same number in flight.
#[test]
fn a_request_that_is_forwarded_is_an_ordinary_message_there_and_its_reply_finds_the_caller() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, front) = Channel::pair();
        let (server, back) = Channel::pair();
        let log = Log::new();
        let _call = client.begin_call(&home, bytes(1), Instant::INFINITE, noting(&log, "client")).expect("sent");
        let _call = server.begin_call(&home, bytes(2), Instant::INFINITE, noting(&log, "server")).expect("sent");
        let request = front.try_read().expect("sent");
        let (txid, other) = (request.txid().expect("a request"), back.try_read().expect("sent"));
        assert_eq!(Some(txid.as_raw()), other.txid().map(|txid| txid.as_raw()));
        back.write(request).expect("forwarded");
        world.settle();
        assert!(log.is_empty(), "it is no reply to the call of the server");
        let forwarded = server.try_read().expect("an ordinary message");
        assert_eq!(forwarded.txid(), None);
        front.write(forwarded.in_reply_to(txid)).expect("the client waits");
        back.write(other).expect("the server waits");
        world.settle();
        assert_eq!(log.take(), ["client Ok(1)", "server Ok(2)"]);
    });
}

#[test]
fn a_refused_reply_keeps_its_txid() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let _call = client.begin_call(&home, bytes(1), Instant::INFINITE, |_| {}).expect("sent");
        let request = server.try_read().expect("sent");
        let txid = request.txid();
        drop(client);
        let refused = server.write(request).expect_err("the caller is gone");
        assert_eq!((refused.status(), refused.message().txid()), (Status::PeerClosed, txid));
        // The same for one that is forwarded.
        let (other, gone) = Channel::pair();
        drop(gone);
        let refused = other.write(refused.into_message()).expect_err("nobody is there");
        assert_eq!((refused.status(), refused.message().txid()), (Status::PeerClosed, txid));
    });
}

#[test]
fn a_refused_call_gives_request_and_handler_back() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair_with(Limits::default().messages(1));
        client.write(bytes(0)).expect("the queue is empty");
        let answers = Arc::new(AtomicUsize::new(0));
        let refuse = |dispatcher: &DispatcherHandle, expected: Status| {
            let answers = Arc::clone(&answers);
            let refused = client
                .begin_call(dispatcher, bytes(7), Instant::INFINITE, move |outcome: Result<Message, Status>| {
                    assert!(outcome.is_err());
                    answers.fetch_add(1, Ordering::Relaxed);
                })
                .expect_err("refused");
            assert_eq!(refused.status(), expected);
            let (request, handler) = refused.into_inner();
            assert_eq!((value(&request), request.txid()), (7, None));
            handler(Err(expected));
        };
        refuse(&home, Status::ShouldWait);
        drop(server.try_read());
        let over = plain(world, "over");
        over.shutdown_async();
        world.settle();
        refuse(&over, Status::Unavailable);
        assert_eq!(server.queued_messages(), 0, "an unaccepted call sends nothing");
        drop(server);
        refuse(&home, Status::PeerClosed);
        assert_eq!(answers.load(Ordering::Relaxed), 3);
        assert_eq!(home.counters().refused, 2);
    });
}

#[test]
fn a_shutdown_cancels_calls_without_a_reply_and_keeps_a_reply_that_is_there() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let log = Log::new();
        let later = world.runtime().now() + Duration::from_secs(3600);
        for (name, deadline) in [("answered", later), ("open", later), ("endless", Instant::INFINITE)] {
            let _call = client.begin_call(&home, bytes(0), deadline, noting(&log, name)).expect("sent");
        }
        server.write(reply_to(server.try_read().expect("sent"), 5)).expect("it waits");
        home.shutdown_async();
        let open = server.try_read().expect("sent");
        server.write(reply_to(open, 6)).expect("late: the shutdown has begun");
        world.settle();
        assert_eq!(log.take(), ["answered Ok(5)", "open Err(Canceled)", "endless Err(Canceled)"]);
        let counters = home.counters();
        assert_eq!((counters.ran, counters.canceled), (1, 2));
    });
}

#[test]
fn a_shutdown_ends_a_blocked_call() {
    on_pools(|world| {
        let home = on(world, "home", DispatcherBuilder::new().allow_sync_calls());
        let (client, server) = Channel::pair();
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let (told, deadline) = (Arc::clone(&outcomes), hang(world));
        home.post_task(move |_| {
            for _ in 0..2 {
                let error = client.call(bytes(1), deadline).expect_err("nobody answers");
                told.lock().expect("no panic").push((error.status(), error.into_request().is_some()));
            }
        })
        .expect("it runs");
        world.wait_until("the request", || server.queued_messages() == 1);
        home.shutdown_async();
        world.wait_until("both outcomes", || outcomes.lock().expect("no panic").len() == 2);
        let outcomes = outcomes.lock().expect("no panic");
        assert_eq!(*outcomes, [(Status::Canceled, false), (Status::Canceled, true)], "the second sent nothing");
    });
}

#[test]
fn a_call_that_is_taken_back_is_not_told_and_its_reply_is_dropped() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let log = Log::new();
        let deadline = world.runtime().now() + Duration::from_secs(1);
        let call = client.begin_call(&home, bytes(1), deadline, noting(&log, "")).expect("sent");
        drop(call.cancel().expect("it has not begun"));
        let held = Arc::new(());
        let reply = reply_to(server.try_read().expect("sent"), 2).with(Handle::value(Arc::clone(&held)));
        server.write(reply).expect("dropped");
        assert_eq!(Arc::strong_count(&held), 1);
        world.settle();
        assert!(log.is_empty());
        assert_eq!(client.queued_messages(), 0);
        assert_no_timer_is_left(world.foreground().expect("in the foreground"));
    });
}

#[test]
fn an_end_with_a_call_in_flight_cannot_be_sent() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let (carrier, _far) = Channel::pair();
        let _call = client.begin_call(&home, bytes(1), Instant::INFINITE, |_| {}).expect("sent");
        let refused = carrier.write(Message::new().with(client)).expect_err("a call is in flight");
        assert_eq!(refused.status(), Status::InvalidArgs);
        server.write(server.try_read().expect("sent")).expect("an echo is a reply");
        world.settle();
        carrier.write(refused.into_message()).expect("the call is over");
    });
}

#[test]
fn closing_the_own_end_cancels_its_calls() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let log = Log::new();
        let later = world.runtime().now() + Duration::from_secs(1);
        let _call = client.begin_call(&home, bytes(1), later, noting(&log, "open")).expect("sent");
        let _call = client.begin_call(&home, bytes(2), later, noting(&log, "answered")).expect("sent");
        drop(server.try_read());
        server.write(server.try_read().expect("sent")).expect("it waits");
        drop(client);
        world.settle();
        assert_eq!(log.take(), ["answered Ok(2)", "open Err(Canceled)"]);
    });
}

#[test]
fn a_reply_passes_a_full_queue() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair_with(Limits::default().messages(1));
        let log = Log::new();
        let _call = client.begin_call(&home, bytes(1), Instant::INFINITE, noting(&log, "")).expect("sent");
        let request = server.try_read().expect("sent");
        server.write(bytes(0)).expect("the first");
        assert_eq!(server.write(bytes(0)).expect_err("full").status(), Status::ShouldWait);
        server.write(request).expect("a reply is waited for, so there is room");
        world.settle();
        assert_eq!(log.take(), [" Ok(1)"]);
    });
}

/// Shows CT-22, CH-R27, CH-R15.
#[test]
fn a_reply_lives_in_the_arena_of_its_request() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let request = Message::with_len(64);
        let address = request.bytes().as_ptr() as usize;
        let seen = Arc::new(Mutex::new(None));
        let told = Arc::clone(&seen);
        let _call = client
            .begin_call(&home, request, Instant::INFINITE, move |reply| {
                let reply = reply.expect("answered");
                *told.lock().expect("no panic") = Some((reply.bytes().as_ptr() as usize, value(&reply)));
            })
            .expect("sent");
        server.write(reply_to(server.try_read().expect("sent"), 9)).expect("it waits");
        world.settle();
        assert_eq!(*seen.lock().expect("no panic"), Some((address, 9)));
    });
}

/// An ordinary message is never a reply, whatever its bytes; an empty one may be both, request and reply.
///
/// Shows D13, CH-R19.
#[test]
fn bytes_make_no_reply_and_a_reply_needs_no_bytes() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let log = Log::new();
        let entry = log.clone();
        let _call = client
            .begin_call(&home, Message::new(), Instant::INFINITE, move |reply| {
                entry.add(format!("{:?}", reply.map(drop)))
            })
            .expect("sent");
        let request = server.try_read().expect("sent");
        let number = request.txid().expect("it is a request").as_raw();
        server.write(Message::from_bytes(&number.to_le_bytes())).expect("written");
        server.write(Message::new()).expect("written");
        world.settle();
        assert!(log.is_empty());
        assert_eq!(client.queued_messages(), 2);
        server.write(request).expect("it waits");
        world.settle();
        assert_eq!(log.take(), ["Ok(())"]);
    });
}

/// The first reason counts when several hold, and the message comes back whole each time.
///
/// Shows CH-R12.
#[test]
fn a_write_is_refused_for_the_first_of_several_reasons() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (near, far) = Channel::pair_with(Limits::default().messages(1));
        near.write(Message::new()).expect("the queue is empty");
        let (busy, _peer) = Channel::pair();
        busy.begin_read(&home, |_| {}).expect("registered");
        let refuse = |message: Message, expected: Status| {
            let handles = message.handles().len();
            let refused = near.write(message).expect_err("refused");
            assert_eq!((refused.status(), refused.message().handles().len()), (expected, handles));
            refused.into_message()
        };
        // Its own channel, an end with a read, and a full queue.
        let mut message = refuse(Message::new().with(far).with(busy), Status::NotSupported);
        let mut handles = message.take_handles();
        let busy = handles.pop().expect("the second");
        let far = handles.pop().expect("the first").into_channel().expect("an end");
        let mut message = refuse(Message::new().with(busy), Status::InvalidArgs);
        let busy = message.take_handles().pop().expect("the only one").into_channel().expect("an end");
        drop(busy.cancel_read().expect("it has not begun"));
        let message = refuse(Message::new().with(busy), Status::ShouldWait);
        drop(far);
        drop(refuse(message, Status::PeerClosed));
    });
}

#[test]
fn a_call_is_listed_with_the_line_that_made_it() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, _server) = Channel::pair();
        let line = line!() + 1;
        let _call = client.begin_call(&home, bytes(1), Instant::INFINITE, |_| {}).expect("sent");
        let dump = home.dump();
        let pending = &dump.pending[0];
        assert_eq!((pending.kind, pending.posted_from.line(), pending.is_ready), (Kind::Call, line, false));
    });
}

#[test]
fn futures_call_and_get_their_replies() {
    on_every_pool(|world| {
        let (server, home) = (plain(world, "server"), plain(world, "home"));
        let (client, far) = Channel::pair();
        serve(Arc::new(far), server.handle());
        let sum = Arc::new(AtomicUsize::new(0));
        let adding = Arc::clone(&sum);
        let calling = home
            .spawn(async move {
                for number in 0..20 {
                    let deadline = fuchsine_dispatcher::current().expect("on a dispatcher").now() + HANG;
                    let reply = client.call_async(bytes(number), deadline).await.expect("answered");
                    adding.fetch_add(value(&reply) as usize, Ordering::Relaxed);
                }
            })
            .expect("accepted");
        world.wait_until("the calls", || calling.is_finished());
        assert_eq!(sum.load(Ordering::Relaxed), (1..=20).sum::<usize>());
    });
}

#[test]
fn a_future_gives_up_at_its_deadline_when_it_is_dropped_and_when_the_peer_closes() {
    in_the_foreground(|world| {
        let home = plain(world, "home");
        let (client, server) = Channel::pair();
        let log = Log::new();
        let entry = log.clone();
        let soon = world.runtime().now() + Duration::from_millis(1);
        let calling = home
            .spawn(async move {
                let outcome = client.call_async(bytes(1), soon).await;
                entry.add(format!("{:?}", outcome.map_err(|error| error.status()).map(drop)));
                let outcome = client.call_async(bytes(2), Instant::INFINITE).await;
                entry.add(format!("{:?}", outcome.map_err(|error| error.status()).map(drop)));
                let unsent = client.call_async(bytes(3), Instant::INFINITE).await.expect_err("nobody is there");
                entry.add(format!("{:?} {}", unsent.status(), unsent.into_request().is_some()));
            })
            .expect("accepted");
        world.wait_until("the second request", || server.queued_messages() == 2);
        let late = server.try_read().expect("sent");
        server.write(late).expect("dropped");
        world.settle();
        drop(server);
        world.settle();
        assert_eq!(log.take(), ["Err(TimedOut)", "Err(PeerClosed)", "PeerClosed true"]);
        assert!(calling.is_finished());

        let (client, server) = Channel::pair();
        let client = Arc::new(client);
        let own = Arc::clone(&client);
        let calling =
            home.spawn(async move { drop(own.call_async(bytes(1), Instant::INFINITE).await) }).expect("accepted");
        world.settle();
        calling.cancel();
        world.settle();
        server.write(server.try_read().expect("sent")).expect("dropped");
        assert_eq!(client.queued_messages(), 0);
        let (carrier, _far) = Channel::pair();
        let client = Arc::into_inner(client).expect("the future is gone");
        carrier.write(Message::new().with(client)).expect("no call is in flight");
    });
}
