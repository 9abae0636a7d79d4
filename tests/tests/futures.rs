//! Futures on dispatchers: spawning, joining, timers, readiness, cancellation and shutdown.

mod common;

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{HANG, Log, add_up, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Dispatcher, DispatcherBuilder, Interest, PanicPolicy, RuntimeBuilder, Status, current, ready, sleep, sleep_until,
    timeout,
};

fn foreground(name: &str) -> (ForegroundRuntime, Dispatcher) {
    let runtime = ForegroundRuntime::new();
    let dispatcher = runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created");
    (runtime, dispatcher)
}

#[test]
fn a_future_is_polled_on_its_dispatcher_and_its_result_is_joined() {
    let (runtime, dispatcher) = foreground("home");
    let other = runtime.new_driver("other").new_dispatcher(DispatcherBuilder::new().name("other")).expect("created");
    let log = Log::new();
    let join = dispatcher.spawn(async { current().expect("on a dispatcher").name().to_owned() }).expect("accepted");
    let entry = log.clone();
    let waiting = other
        .spawn(async move {
            let place = join.await.expect("it finishes");
            entry.add(format!("{place}, told on {}", current().expect("on a dispatcher").name()));
        })
        .expect("accepted");
    assert!(!waiting.is_finished());
    runtime.run_until_idle();
    assert!(waiting.is_finished());
    assert_eq!(log.take(), ["home, told on other"]);
    add_up(&runtime);
}

#[test]
fn sleeps_end_in_order_and_on_time() {
    let (runtime, dispatcher) = foreground("sleepers");
    let log = Log::new();
    let start = runtime.now();
    for millis in [30u64, 10, 20] {
        let entry = log.clone();
        let _sleeper = dispatcher
            .spawn(async move {
                sleep(Duration::from_millis(millis)).await.expect("nothing shuts down");
                let at = current().expect("on a dispatcher").now();
                entry.add(format!("{}", at.duration_since(start).as_millis()));
                sleep_until(start).await.expect("the past is ready at once");
            })
            .expect("accepted");
    }
    runtime.advance(Duration::from_millis(100));
    assert_eq!(log.take(), ["10", "20", "30"]);
    add_up(&runtime);
}

#[test]
fn a_timeout_gives_a_future_up_and_drops_it() {
    let (runtime, dispatcher) = foreground("timeouts");
    let log = Log::new();
    let entry = log.clone();
    let _task = dispatcher
        .spawn(async move {
            let slow = timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
            entry.add(format!("{:?}", slow.map_err(Status::from)));
            let fast = timeout(Duration::from_secs(1), async { 5 }).await;
            entry.add(format!("{:?}", fast.map_err(Status::from)));
        })
        .expect("accepted");
    runtime.advance(Duration::from_secs(2));
    assert_eq!(log.take(), ["Err(TimedOut)", "Ok(5)"]);
    assert_eq!(dispatcher.counters().pending, 0, "the timer of the second is disarmed");
    add_up(&runtime);
}

#[test]
fn timers_and_readiness_need_a_dispatcher() {
    let mut context = Context::from_waker(Waker::noop());
    let mut sleeping = Box::pin(sleep(Duration::from_secs(1)));
    assert_eq!(sleeping.as_mut().poll(&mut context), Poll::Ready(Err(Status::BadState)));
    let (near, _far) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let mut waiting = Box::pin(ready(&near, Interest::READABLE));
    assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Ready(Err(Status::BadState))));
}

#[test]
fn readiness_can_be_awaited() {
    let runtime = pool_of(2);
    let dispatcher = runtime.new_driver("ready").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (near, mut far) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let (sender, receiver) = channel();
    let _task = dispatcher
        .spawn(async move {
            sender.send("armed soon").expect("awaited");
            ready(&near, Interest::READABLE).await.expect("data comes");
            sender.send("readable").expect("awaited");
            let file = tempfile::tempfile().expect("a file");
            let refused = ready(&file, Interest::READABLE).await.expect_err("not pollable");
            assert_eq!(refused, Status::NotSupported);
            sender.send("done").expect("awaited");
        })
        .expect("accepted");
    assert_eq!(within(&receiver, "the start"), "armed soon");
    far.write_all(b"!").expect("there is room");
    assert_eq!(within(&receiver, "the readiness"), "readable");
    assert_eq!(within(&receiver, "the end"), "done");
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

struct TellsOfItsDrop(Log);

impl Drop for TellsOfItsDrop {
    fn drop(&mut self) {
        let place = current().map_or("nowhere".to_owned(), |dispatcher| dispatcher.name().to_owned());
        self.0.add(format!("dropped on {place}"));
    }
}

#[test]
fn a_canceled_future_is_dropped_on_its_dispatcher_and_counts_as_taken_back() {
    let (runtime, dispatcher) = foreground("home");
    let log = Log::new();
    let held = TellsOfItsDrop(log.clone());
    let join = dispatcher
        .spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        })
        .expect("accepted");
    runtime.run_until_idle();
    join.cancel();
    assert!(log.is_empty(), "it is dropped in context, not here");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["dropped on home"]);
    let counters = dispatcher.counters();
    assert_eq!((counters.accepted, counters.taken_back, counters.pending), (1, 1, 0));
}

#[test]
fn dropping_the_handle_lets_the_future_run_on() {
    let (runtime, dispatcher) = foreground("detached");
    let log = Log::new();
    let entry = log.clone();
    drop(
        dispatcher
            .spawn(async move {
                sleep(Duration::from_secs(1)).await.expect("nothing shuts down");
                entry.add("finished");
            })
            .expect("accepted"),
    );
    runtime.advance(Duration::from_secs(1));
    assert_eq!(log.take(), ["finished"]);
}

/// At shutdown whoever joins is told, on whichever dispatcher it lives.
#[test]
fn join_handles_yield_canceled_when_the_dispatcher_shuts_down_first() {
    let (runtime, dispatcher) = foreground("first");
    let other = runtime.new_driver("other").new_dispatcher(DispatcherBuilder::new().name("other")).expect("created");
    let log = Log::new();
    let held = TellsOfItsDrop(log.clone());
    let join = dispatcher
        .spawn(async move {
            let _held = held;
            sleep(Duration::from_secs(1000)).await.map(|()| "not reached")
        })
        .expect("accepted");
    let entry = log.clone();
    let _waiting = other
        .spawn(async move {
            let error = join.await.expect_err("it is canceled");
            assert!(error.is_canceled());
            entry.add(format!("joined: {}", error.status()));
        })
        .expect("accepted");
    runtime.run_until_idle();
    dispatcher.shutdown_async();
    runtime.run_until_idle();
    assert_eq!(log.take(), ["dropped on first", "joined: canceled"]);
    add_up(&runtime);
    let refused = dispatcher.spawn(async {}).expect_err("too late");
    assert_eq!(refused.status(), Status::BadState);
}

#[test]
fn a_panic_in_a_future_reaches_its_joiner_and_its_driver_shuts_down() {
    let runtime = ForegroundRuntime::with(RuntimeBuilder::new().panic_policy(PanicPolicy::ShutdownDriver))
        .expect("a foreground runtime");
    let driver = runtime.new_driver("panics");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let other = runtime.new_driver("other").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let log = Log::new();
    let join = dispatcher.spawn(async { panic!("in a future") }).expect("accepted");
    let entry = log.clone();
    let _waiting = other
        .spawn(async move {
            let error: fuchsine_dispatcher::JoinError = match join.await {
                Ok(()) => return,
                Err(error) => error,
            };
            entry.add(error.panic_message().unwrap_or("no message").to_owned());
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["in a future"]);
    assert!(driver.is_shut_down());
    add_up(&runtime);
}

/// A future that hands its waker to foreign threads.
struct WokenByOthers {
    wakers: Arc<Mutex<Vec<Waker>>>,
    polls: usize,
}

impl Future for WokenByOthers {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        self.polls += 1;
        if self.polls > 100 {
            return Poll::Ready(self.polls);
        }
        self.wakers.lock().expect("not poisoned").push(cx.waker().clone());
        Poll::Pending
    }
}

/// Wakes from foreign threads are never lost, and wakes after the end do nothing.
#[test]
fn wakes_from_foreign_threads_reach_the_future() {
    let runtime = pool_of(2);
    let dispatcher = runtime.new_driver("woken").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let wakers = Arc::new(Mutex::new(Vec::<Waker>::new()));
    let (sender, receiver) = channel();
    let future = WokenByOthers { wakers: Arc::clone(&wakers), polls: 0 };
    let _task = dispatcher.spawn(async move { sender.send(future.await).expect("awaited") }).expect("accepted");
    let polls = loop {
        let taken: Vec<_> = wakers.lock().expect("not poisoned").drain(..).collect();
        for waker in taken {
            std::thread::spawn(move || waker.wake()).join().expect("it wakes");
        }
        match receiver.try_recv() {
            Ok(polls) => break polls,
            Err(std::sync::mpsc::TryRecvError::Empty) => std::thread::yield_now(),
            Err(error) => panic!("the future is gone: {error}"),
        }
    };
    assert_eq!(polls, 101);
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

/// Many futures on one dispatcher take turns with tasks, and none is polled twice at once on an unsynchronized one.
#[test]
fn futures_and_tasks_share_a_dispatcher_fairly() {
    let (runtime, dispatcher) = foreground("fair");
    let log = Log::new();
    let entry = log.clone();
    let _yields = dispatcher
        .spawn(async move {
            for nth in 0..3 {
                entry.add(format!("future {nth}"));
                yield_once().await;
            }
        })
        .expect("accepted");
    for nth in 0..2 {
        let entry = log.clone();
        dispatcher.post_task(move |_| entry.add(format!("task {nth}"))).expect("accepted");
    }
    runtime.run_until_idle();
    assert_eq!(log.take(), ["future 0", "task 0", "task 1", "future 1", "future 2"]);
}

/// Whoever awaits a future brings a waker, which is code like any other. A process of its own, as this one is to go on.
#[test]
fn a_waker_that_panics_when_its_future_ends_or_when_it_is_dropped_harms_nobody() {
    const NAME: &str = "a_waker_that_panics_when_its_future_ends_or_when_it_is_dropped_harms_nobody";
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("in a waker");
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in the drop of a waker");
        }
    }
    let child = common::in_a_process_of_its_own(NAME, || {
        let (runtime, dispatcher) = foreground("home");
        let mut joined = dispatcher.spawn(yield_once()).expect("accepted");
        let waker = Waker::from(Arc::new(Panics));
        assert!(Pin::new(&mut joined).poll(&mut Context::from_waker(&waker)).is_pending());
        runtime.run_until_idle();
        assert_eq!(Pin::new(&mut joined).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())));
        // The last two of it.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(waker))));
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(joined))));
        dispatcher.post_task(|_| ()).expect("it runs");
        runtime.run_until_idle();
        assert_eq!(dispatcher.counters().ran, 2);
    });
    if let Some(child) = child {
        assert!(child.succeeded, "{}", child.text);
    }
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
