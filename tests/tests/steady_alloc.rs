//! Goal: what goes on for long asks the allocator for nothing, once it has what it needs: round trips between handlers,
//! calls, timers that are armed and canceled, futures that are woken; and work that is offloaded for one piece of memory.
//! Method: each with few and with many rounds, on a foreground runtime, all on one thread, whose allocations are counted.
//! The run queue is a list of blocks of 63 runnables and a dispatcher goes through it at least every ten callbacks, so that
//! much is allowed where dispatchers make turns. Plain posts are looked at in `conformance_queue.rs`.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Instant, Lane, Message};

const LEN: usize = 64;

#[track_caller]
fn dispatcher(runtime: &ForegroundRuntime, name: &str) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

/// Counts the allocations of what has been begun, until nothing is left to do.
fn allocations(runtime: &ForegroundRuntime) -> u64 {
    allocation_counter::measure(|| while runtime.run_once() {}).count_total
}

/// Checks that `scenario` allocates as often for many rounds as for few, but for the run queue.
#[track_caller]
fn assert_steady(scenario: fn(u64) -> u64) {
    // What is made once a thread.
    scenario(200);
    let (few, many) = (scenario(1_000), scenario(20_000));
    let turns = 20_000 / 10 + 1;
    assert!(many <= few + turns / 63 + 2, "{few} allocations of 1,000 rounds, {many} of 20,000");
}

/// Answers every message in its own memory, and registers the next read.
fn serve(end: Arc<Channel>, home: DispatcherHandle) {
    let (reader, handle) = (Arc::clone(&end), home.clone());
    let registered = end.begin_read(&handle, move |outcome| {
        while let Ok(message) = reader.try_read() {
            // A client that has gone needs no answer.
            let _ = reader.write(message);
        }
        if outcome.is_ok() {
            serve(reader, home);
        }
    });
    // Refused when the client has gone, which ends it.
    drop(registered);
}

fn ask(end: Arc<Channel>, home: DispatcherHandle, left: u64, message: Message) {
    let (reader, again) = (Arc::clone(&end), home.clone());
    end.begin_read(&home, move |outcome| {
        assert_eq!(outcome, Ok(()));
        let reply = reader.try_read().expect("a reply");
        if left > 1 {
            ask(reader, again, left - 1, reply);
        }
    })
    .expect("registered");
    end.write(message).expect("the server is there");
}

fn round_trips(rounds: u64) -> u64 {
    let runtime = ForegroundRuntime::new();
    let (client, server) = (dispatcher(&runtime, "client"), dispatcher(&runtime, "server"));
    let (near, far) = Channel::pair();
    serve(Arc::new(far), server.handle());
    let (near, home) = (Arc::new(near), client.handle());
    client.post_task(move |_| ask(near, home, rounds, Message::with_len(LEN))).expect("accepted");
    let counted = allocations(&runtime);
    assert!(server.dump().inlined >= rounds);
    counted
}

/// The same between two standing reads, in the memory of the first message.
fn standing_reads(rounds: u64) -> u64 {
    let runtime = ForegroundRuntime::new();
    let (client, server) = (dispatcher(&runtime, "client"), dispatcher(&runtime, "server"));
    let (near, far) = Channel::pair();
    let (near, far) = (Arc::new(near), Arc::new(far));
    let end = Arc::clone(&far);
    far.begin_standing_read(&server, move |_| {
        while let Ok(request) = end.try_read() {
            // A client that has gone needs no answer.
            let _ = end.write(request.recycle(LEN));
        }
        ControlFlow::Continue(())
    })
    .expect("registered");
    let (end, mut left) = (Arc::clone(&near), rounds);
    near.begin_standing_read(&client, move |outcome| {
        outcome.expect("the server is there");
        let reply = end.try_read().expect("a reply").recycle(LEN);
        left -= 1;
        if left == 0 {
            return ControlFlow::Break(());
        }
        end.write(reply).expect("the server is there");
        ControlFlow::Continue(())
    })
    .expect("registered");
    client.post_task(move |_| near.write(Message::with_len(LEN)).expect("the server is there")).expect("accepted");
    let counted = allocations(&runtime);
    assert!(server.dump().inlined >= rounds);
    counted
}

/// The same between two handlers that are handed each message.
fn handed_messages(rounds: u64) -> u64 {
    let runtime = ForegroundRuntime::new();
    let (client, server) = (dispatcher(&runtime, "client"), dispatcher(&runtime, "server"));
    let (near, far) = Channel::pair();
    let (near, far) = (Arc::new(near), Arc::new(far));
    let end = Arc::clone(&far);
    far.begin_receiving(&server, move |request| {
        let Ok(request) = request else { return ControlFlow::Break(()) };
        // A client that has gone needs no answer.
        let _ = end.write(request.recycle(LEN));
        ControlFlow::Continue(())
    })
    .expect("registered");
    let (end, mut left) = (Arc::clone(&near), rounds);
    near.begin_receiving(&client, move |reply| {
        let reply = reply.expect("the server is there").recycle(LEN);
        left -= 1;
        if left == 0 {
            return ControlFlow::Break(());
        }
        end.write(reply).expect("the server is there");
        ControlFlow::Continue(())
    })
    .expect("registered");
    client.post_task(move |_| near.write(Message::with_len(LEN)).expect("the server is there")).expect("accepted");
    let counted = allocations(&runtime);
    assert!(server.dump().inlined >= rounds);
    counted
}

fn call(end: Arc<Channel>, home: DispatcherHandle, left: u64, request: Message) {
    let (again, handle) = (Arc::clone(&end), home.clone());
    let call = end.begin_call(&handle, request, Instant::INFINITE, move |reply| {
        let reply = reply.expect("the server answers");
        if left > 1 {
            call_again(again, home, left - 1, reply);
        }
    });
    drop(call.expect("sent"));
}

fn call_again(end: Arc<Channel>, home: DispatcherHandle, left: u64, reply: Message) {
    call(end, home, left, reply.in_reply_to(None));
}

fn calls(rounds: u64) -> u64 {
    let runtime = ForegroundRuntime::new();
    let (client, server) = (dispatcher(&runtime, "client"), dispatcher(&runtime, "server"));
    let (near, far) = Channel::pair();
    serve(Arc::new(far), server.handle());
    let (near, home) = (Arc::new(near), client.handle());
    client.post_task(move |_| call(near, home, rounds, Message::with_len(LEN))).expect("accepted");
    allocations(&runtime)
}

fn timers(rounds: u64) -> u64 {
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "timers");
    let own = home.handle();
    let arming = move |_| {
        for round in 0..rounds {
            let far = Duration::from_millis(1_000 + round % 50);
            let timer = own.post_after(far, |_| unreachable!("it is canceled")).expect("armed");
            assert!(timer.cancel().is_ok());
        }
    };
    home.post_task(arming).expect("accepted");
    allocations(&runtime)
}

fn wakes(rounds: u64) -> u64 {
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "futures");
    let mut left = rounds;
    let waking = poll_fn(move |cx| {
        left -= 1;
        if left == 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    let joining = home.spawn(waking).expect("spawned");
    let counted = allocations(&runtime);
    assert!(joining.is_finished());
    counted
}

/// Each item's result has the next one offloaded. Work and callback are too large to be stored in place. What is counted is
/// the offloading alone: whoever turns the crank of a foreground runtime lists for it what there is to do.
fn offloads(rounds: u64) -> u64 {
    fn next(own: DispatcherHandle, left: u64, counted: Arc<AtomicU64>) {
        if left == 0 {
            return;
        }
        let (here, again, counting, large) = (own.clone(), own, Arc::clone(&counted), [left; 9]);
        let done = move |sum| {
            assert_eq!(sum, Ok(left * 9));
            next(again, left - 1, counting);
        };
        let offload = || here.offload(Lane::Fast, move |_: &_| large.iter().sum::<u64>(), done).map_err(|_| "refused");
        let took = allocation_counter::measure(|| drop(offload().expect("accepted")));
        counted.fetch_add(took.count_total, Ordering::Relaxed);
    }
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "offloads");
    let (own, counted) = (home.handle(), Arc::default());
    let counting = Arc::clone(&counted);
    home.post_task(move |_| next(own, rounds, counting)).expect("accepted");
    runtime.run_until_idle();
    assert_eq!(home.counters().ran, rounds + 1);
    counted.load(Ordering::Relaxed)
}

/// Shows D5.
#[test]
fn round_trips_between_handlers_allocate_nothing() {
    assert_steady(round_trips);
}

/// Shows D5.
#[test]
fn round_trips_between_standing_reads_allocate_nothing() {
    assert_steady(standing_reads);
}

/// Shows D5.
#[test]
fn round_trips_of_messages_that_are_handed_allocate_nothing() {
    assert_steady(handed_messages);
}

#[test]
fn calls_allocate_nothing() {
    assert_steady(calls);
}

#[test]
fn timers_that_are_armed_and_canceled_allocate_nothing() {
    assert_steady(timers);
}

#[test]
fn offloading_allocates_once() {
    let (few, many) = (offloads(1_000), offloads(20_000));
    assert_eq!(many - few, 19_000, "{few} allocations of 1,000 rounds, {many} of 20,000");
}

#[test]
fn wakes_of_a_future_allocate_nothing() {
    assert_steady(wakes);
}
