//! Goal: futures, timers and readiness on dispatchers, by the cases of the driver runtime's Rust libraries.
//! Method: one scenario a case, on every kind of runtime where it makes sense.

mod conformance_support;

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use conformance_support::{Log, make, noted, on_message, plain, write};
use fuchsine_dispatcher::{Channel, DispatcherBuilder, Interest, Sleep, Status, current, ready, sleep, sleep_until};
use fuchsine_tests::pools::{on_every_pool, on_pools};

/// Shows RX-1, RX-2, DT-17, DT-20.
#[test]
fn a_dispatcher_runs_what_is_posted_and_its_shutdown_tells_what_is_left() {
    on_every_pool(|world| {
        for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
            let log = Log::default();
            let entry = log.clone();
            let dispatcher = make(world, "d", builder.shutdown_observer(move || entry.add("observer")));
            noted(&dispatcher, &log, "task");
            world.wait_until("the task", || log.len() == 1);
            let (_near, far) = Channel::pair();
            let entry = log.clone();
            on_message(&far, &dispatcher, move |outcome| entry.add(format!("read {outcome:?}")));
            dispatcher.shutdown_async();
            world.wait_until("the observer", || log.len() == 3);
            assert_eq!(log.take(), ["task", "read Err(Canceled)", "observer"]);
        }
    });
}

/// Shows RK-1, RX-8.
#[test]
fn the_result_of_a_future_is_joined_on_another_dispatcher_and_on_a_foreign_thread() {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    on_pools(|world| {
        let (one, two) = (plain(world, "one"), plain(world, "two"));
        let first = one.spawn(async { current().map(|here| here.name().to_owned()) }).expect("it runs");
        let mut second = pin!(
            two.spawn(async move { (first.await, current().map(|here| here.name().to_owned())) }).expect("it runs")
        );
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let joined = loop {
            match second.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(joined) => break joined,
                Poll::Pending => std::thread::park_timeout(Duration::from_secs(30)),
            }
        };
        let (first, place) = joined.expect("it ends");
        assert_eq!((first.expect("it ends").as_deref(), place.as_deref()), (Some("one"), Some("two")));
    });
}

/// Shows RK-2.
#[test]
fn two_futures_play_tag() {
    on_every_pool(|world| {
        let (a, b) = (plain(world, "a"), plain(world, "b"));
        let (near, far) = Channel::pair();
        let log = Log::default();
        let entry = log.clone();
        let _it = a.spawn(async move {
            for round in 0..10 {
                write(&near);
                near.read().await.expect("the other answers");
                entry.add(format!("{round}"));
            }
        });
        let _other = b.spawn(async move {
            while far.read().await.is_ok() {
                if far.write(fuchsine_dispatcher::Message::new()).is_err() {
                    break;
                }
            }
        });
        world.wait_until("the game", || log.len() == 10);
        assert_eq!(log.take().concat(), "0123456789");
    });
}

/// Shows RK-3.
#[test]
fn a_future_that_is_canceled_is_dropped_on_its_dispatcher_and_never_polled_again() {
    struct Told(Log);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.add(format!("dropped on {:?}", current().map(|here| here.name().to_owned())));
        }
    }
    on_every_pool(|world| {
        let dispatcher = plain(world, "home");
        let log = Log::default();
        let (told, entry) = (Told(log.clone()), log.clone());
        let join = dispatcher.spawn(async move {
            let _told = told;
            entry.add("polled");
            std::future::pending::<()>().await;
        });
        let join = join.expect("it runs");
        world.wait_until("the first poll", || log.len() == 1);
        join.cancel();
        world.wait_until("its end", || log.len() == 2);
        assert_eq!(log.take(), ["polled", r#"dropped on Some("home")"#]);
    });
}

/// Shows RT-1, RT-2.
#[test]
fn a_deadline_that_has_come_is_ready_at_the_first_poll() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "timers");
        let (tell, told) = channel();
        let own = dispatcher.handle();
        let _task = dispatcher.spawn(async move {
            for deadline in [fuchsine_dispatcher::Instant::ZERO, own.now()] {
                let mut timer = pin!(sleep_until(deadline));
                let first = poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx))).await;
                tell.send(first).expect("it is awaited");
            }
            tell.send(Poll::Ready(sleep(Duration::ZERO).await)).expect("it is awaited");
        });
        let mut polls = Vec::new();
        world.wait_until("the polls", || {
            polls.extend(told.try_iter());
            polls.len() == 3
        });
        assert_eq!(polls, [Poll::Ready(Ok(())); 3]);
    });
}

/// Shows RT-5.
#[test]
fn a_timer_that_has_left_its_dispatcher_yields_canceled_after_the_shutdown() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "timers");
        let moved: Arc<Mutex<Option<Pin<Box<Sleep>>>>> = Arc::default();
        let keeping = Arc::clone(&moved);
        let _task = dispatcher.spawn(async move {
            let mut timer = Box::pin(sleep(Duration::from_secs(1000)));
            let first = poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx))).await;
            if first.is_pending() {
                *keeping.lock().expect("nobody panics") = Some(timer);
            }
        });
        world.wait_until("the timer", || moved.lock().expect("nobody panics").is_some());
        dispatcher.shutdown_async();
        world.settle();
        let mut timer = moved.lock().expect("nobody panics").take().expect("it was kept");
        let mut outcome = Poll::Pending;
        world.wait_until("its end", || {
            outcome = timer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            outcome.is_ready()
        });
        assert_eq!(outcome, Poll::Ready(Err(Status::Canceled)));
    });
}

/// Shows RS-1, RS-2, RS-3.
#[test]
fn readiness_is_awaited_before_and_after_it_comes_and_may_be_given_up() {
    on_pools(|world| {
        let dispatcher = plain(world, "streams");
        let (mut near, mut far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let log = Log::default();
        let entry = log.clone();
        let _task = dispatcher.spawn(async move {
            {
                let mut given_up = pin!(ready(&near, Interest::READABLE));
                let first = poll_fn(|cx| Poll::Ready(given_up.as_mut().poll(cx).is_pending())).await;
                entry.add(format!("pending {first}"));
            }
            let mut bytes = [0; 8];
            for name in ["after the first poll", "at once"] {
                let readiness = ready(&near, Interest::READABLE).await;
                entry.add(format!("{name} {}", readiness.is_ok()));
            }
            let count = near.read(&mut bytes).expect("there is something");
            entry.add(format!("{count}"));
        });
        world.wait_until("the first poll", || log.len() == 1);
        far.write_all(b"!").expect("there is room");
        world.wait_until("the end", || log.len() == 4);
        assert_eq!(log.take(), ["pending true", "after the first poll true", "at once true", "1"]);
        // What was given up holds nothing.
        world.settle();
        assert_eq!(dispatcher.counters().pending, 0);
    });
}

/// Shows W17.
#[test]
fn a_refused_creation_drops_the_observer_and_a_late_waker_leaves_the_future_to_its_dispatcher() {
    on_every_pool(|world| {
        let driver = world.driver("closed");
        driver.shutdown(|| ()).expect("the first time");
        let observer = Arc::new(());
        let held = Arc::clone(&observer);
        let refused = driver.new_dispatcher(DispatcherBuilder::new().shutdown_observer(move || drop(held)));
        assert_eq!(refused.expect_err("it is closed").status(), Status::BadState);
        assert_eq!(Arc::strong_count(&observer), 1);

        struct Told(Arc<AtomicBool>);
        impl Drop for Told {
            fn drop(&mut self) {
                let here = current().map(|here| here.name().to_owned());
                self.0.store(here.as_deref() == Some("home"), Ordering::SeqCst);
            }
        }
        let in_context = Arc::new(AtomicBool::new(false));
        let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
        let polls = Arc::new(AtomicUsize::new(0));
        let (told, keeping, counting) = (Told(Arc::clone(&in_context)), Arc::clone(&waker), Arc::clone(&polls));
        let dispatcher = plain(world, "home");
        let _task = dispatcher.spawn(async move {
            let _told = told;
            poll_fn(|cx| {
                counting.fetch_add(1, Ordering::SeqCst);
                *keeping.lock().expect("nobody panics") = Some(cx.waker().clone());
                Poll::<()>::Pending
            })
            .await;
        });
        world.wait_until("the first poll", || polls.load(Ordering::SeqCst) == 1);
        dispatcher.shutdown_async();
        let waker = waker.lock().expect("nobody panics").take().expect("it was polled");
        waker.wake_by_ref();
        world.shutdown();
        waker.wake();
        assert!(in_context.load(Ordering::SeqCst));
        assert_eq!(polls.load(Ordering::SeqCst), 1);
    });
}
