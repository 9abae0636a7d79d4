//! Wake vectors: sources that are a reason to resume a suspended driver, and the requester that is told of them.

mod common;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use common::Log;
use fuchsine_dispatcher::testing::sim::Event;
use fuchsine_dispatcher::{
    DispatcherBuilder, DispatcherHandle, Driver, Interest, Irq, Status, Waitable, WakeSource, current, current_driver,
};
use fuchsine_tests::pools::{HANG_LIMIT, World, in_the_foreground, on_every_pool, on_pools};

fn dispatcher(driver: &Driver) -> DispatcherHandle {
    driver.new_dispatcher(DispatcherBuilder::new()).expect("there is room").release()
}

#[track_caller]
fn suspend(world: &World, driver: &Driver) {
    let ended = Log::new();
    let told = ended.clone();
    driver.suspend(move |outcome| told.add(format!("{outcome:?}"))).expect("it runs");
    world.wait_until("the suspend", || !ended.is_empty());
    assert_eq!(ended.take(), ["Ok(())"]);
}

/// A requester that counts its calls.
fn count_requests(driver: &Driver) -> Arc<AtomicUsize> {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    driver.set_resume_requester(move |_| {
        counted.fetch_add(1, Ordering::AcqRel);
    });
    requests
}

fn wait_on(on: &DispatcherHandle, source: &impl Waitable, log: &Log, name: &'static str) {
    let told = log.clone();
    let wait = move |outcome: Result<_, Status>| told.add(format!("{name} {:?}", outcome.map(|_| ())));
    on.begin_wait(source, Interest::READABLE, wait).expect("it is accepted");
}

/// Shows R125, R130, R136.
#[test]
fn a_wake_vector_requests_a_resume_and_its_callback_is_the_first_to_run_after_it() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (event, plain, log) = (Event::new(), Event::new(), Log::new());
        let requests = count_requests(&driver);
        // One wait from before the registration, one from after it.
        wait_on(&on, &event, &log, "before");
        driver.register_wake_vector(&event, Interest::READABLE).expect("it has an identity").keep();
        wait_on(&on, &event, &log, "after");
        wait_on(&on, &plain, &log, "plain");
        suspend(world, &driver);
        plain.signal();
        let told = log.clone();
        on.post_task(move |_| told.add("task")).expect("it is accepted");
        world.settle();
        assert_eq!(requests.load(Ordering::Acquire), 0, "nothing of it is a wake vector");
        event.signal();
        world.settle();
        assert_eq!(requests.load(Ordering::Acquire), 1, "events that come together are told by one call");
        assert!(log.is_empty());
        assert!(driver.resume());
        world.settle();
        let expected = ["before Ok(())", "after Ok(())"];
        let seen = log.take();
        assert_eq!(&seen[..2], &expected);
        assert_eq!(seen.len(), 4);
        // In the order in which they were parked: the event of the plain one was taken after the post.
        assert_eq!(&seen[2..], ["task", "plain Ok(())"]);
    });
}

/// Shows R125.
#[test]
fn a_requester_may_resume_by_itself() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (irq, trigger) = on.new_irq().expect("there is a descriptor");
        let log = Log::new();
        let told = log.clone();
        on.bind_irq(&irq, move |outcome| match outcome {
            Ok(event) => {
                told.add("irq");
                event.ack();
            }
            Err(_) => told.add("end"),
        })
        .expect("it is accepted");
        driver.register_wake_vector(&irq, Interest::READABLE).expect("an irq has an identity").keep();
        let places = Log::new();
        let place = places.clone();
        driver.set_resume_requester(move |driver| {
            place.add(format!("{:?} {}", current_driver().as_ref() == Some(driver), current().is_none()));
            driver.resume();
        });
        for _ in 0..3 {
            suspend(world, &driver);
            trigger.trigger();
            world.wait_until("the irq", || !log.is_empty());
            assert_eq!(log.take(), ["irq"]);
            assert!(!driver.is_suspended());
            // A suspend while the callback still runs would request a resume at once.
            world.settle();
        }
        assert_eq!(places.take(), ["true true", "true true", "true true"]);
    });
}

/// Shows R126, DT-100.
#[test]
fn a_wake_callback_that_executes_at_the_suspend_requests_a_resume_and_is_waited_for() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (irq, trigger) = on.new_irq().expect("there is a descriptor");
        driver.register_wake_vector(&irq, Interest::READABLE).expect("an irq has an identity").keep();
        let (entered, has_entered) = channel();
        let (let_go, released) = channel();
        let released = Mutex::new(released);
        on.bind_irq(&irq, move |outcome| {
            if outcome.is_ok() {
                entered.send(()).expect("it is awaited");
                let _ = released.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
        })
        .expect("it is accepted");
        trigger.trigger();
        has_entered.recv_timeout(HANG_LIMIT).expect("it is delivered");
        let log = Log::new();
        let (asked, told) = (log.clone(), log.clone());
        driver.set_resume_requester(move |_| asked.add("requested"));
        driver.suspend(move |outcome| told.add(format!("{outcome:?}"))).expect("it runs");
        if world.threads() > 1 {
            // The only thread of a smaller pool sits in the handler.
            world.wait_until("the request", || !log.is_empty());
            assert_eq!(log.take(), ["requested"]);
        }
        let_go.send(()).expect("it sits");
        let expected: &[&str] = if world.threads() > 1 { &["Ok(())"] } else { &["requested", "Ok(())"] };
        let seen = Mutex::new(Vec::new());
        world.wait_until("the suspend", || {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.extend(log.take());
            seen.len() == expected.len()
        });
        assert_eq!(seen.into_inner().unwrap_or_else(PoisonError::into_inner), expected);
    });
}

/// Shows R126.
#[test]
fn a_wake_vector_that_is_queued_at_the_suspend_requests_a_resume() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (event, log) = (Event::new(), Log::new());
        let requests = count_requests(&driver);
        driver.register_wake_vector(&event, Interest::READABLE).expect("it has an identity").keep();
        // The first callback suspends the driver, after the event of the wake vector has been taken behind it.
        let (first, own, told) = (Event::new(), driver.clone(), log.clone());
        let suspends = move |_| {
            own.suspend(|_| ()).expect("it runs");
            told.add("suspended");
        };
        on.begin_wait(&first, Interest::READABLE, suspends).expect("it is accepted");
        wait_on(&on, &event, &log, "wake");
        world.settle();
        first.signal();
        event.signal();
        world.settle();
        assert_eq!(log.take(), ["suspended"]);
        assert_eq!(requests.load(Ordering::Acquire), 1);
        assert!(driver.resume());
        world.settle();
        assert_eq!(log.take(), ["wake Ok(())"]);
    });
}

/// Shows R127.
#[test]
fn a_requester_that_comes_late_is_called_at_once_and_one_that_is_cleared_is_not() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (event, log) = (Event::new(), Log::new());
        driver.register_wake_vector(&event, Interest::READABLE).expect("it has an identity").keep();
        wait_on(&on, &event, &log, "wake");
        suspend(world, &driver);
        event.signal();
        world.settle();
        let requests = count_requests(&driver);
        assert_eq!(requests.load(Ordering::Acquire), 0, "never before the call returns");
        world.settle();
        assert_eq!(requests.load(Ordering::Acquire), 1);
        assert!(driver.resume());
        world.settle();
        assert_eq!(log.take(), ["wake Ok(())"]);
        // Cleared: nobody is called, and the wake is still the first after the resume.
        driver.clear_resume_requester();
        assert_eq!(Arc::strong_count(&requests), 1, "it was dropped");
        event.take().expect("it was signaled");
        wait_on(&on, &event, &log, "again");
        suspend(world, &driver);
        let told = log.clone();
        on.post_task(move |_| told.add("task")).expect("it is accepted");
        event.signal();
        world.settle();
        assert_eq!(requests.load(Ordering::Acquire), 1);
        assert!(driver.resume());
        world.settle();
        assert_eq!(log.take(), ["again Ok(())", "task"]);
    });
}

/// Shows DT-97, R136, R137.
#[test]
fn vectors_are_registered_while_running_and_unregistered_at_any_time() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let event = Event::new();
        let both = Interest::READABLE | Interest::WRITABLE;
        let status =
            |result: Result<(), fuchsine_dispatcher::WakeVectorError>| result.err().map(|error| error.status());
        assert_eq!(status(driver.unregister_wake_vector(&event, both)), Some(Status::NotFound));
        suspend(world, &driver);
        let refused = driver.register_wake_vector(&event, Interest::READABLE).expect_err("it is suspended");
        assert_eq!(refused.status(), Status::BadState);
        assert!(driver.resume());
        driver.register_wake_vector(&event, Interest::READABLE).expect("it runs").keep();
        driver.register_wake_vector(&event, Interest::WRITABLE).expect("it runs").keep();
        suspend(world, &driver);
        assert_eq!(status(driver.unregister_wake_vector(&event, Interest::WRITABLE)), None);
        assert_eq!(status(driver.unregister_wake_vector(&event, both)), None, "the other one was left");
        assert_eq!(status(driver.unregister_wake_vector(&event, both)), Some(Status::NotFound));
    });
}

/// Nothing would ever come of it, and nobody would take it back.
#[test]
fn a_driver_that_shuts_down_takes_no_wake_vector() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let event = Event::new();
        let guard = driver.register_wake_vector(&event, Interest::READABLE).expect("it runs");
        let (here, source) = (driver.clone(), event.clone());
        let (sender, receiver) = channel();
        on.post_task(move |_| {
            here.shutdown(|| ()).expect("the first");
            let refused = here.register_wake_vector(&source, Interest::READABLE).expect_err("it shuts down");
            sender.send(refused.to_string()).expect("it is awaited");
        })
        .expect("it runs");
        world.wait_until("the shutdown", || driver.is_shut_down());
        let said = receiver.recv_timeout(HANG_LIMIT).expect("the callback has ended");
        assert!(said.contains("once it shuts down"), "{said}");
        let refused = driver.register_wake_vector(&event, Interest::READABLE).expect_err("it has shut down");
        assert_eq!(refused.status(), Status::BadState);
        drop(guard);
    });
}

/// Shows DT-101.
#[test]
fn a_registration_ends_with_its_guard() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let event = Event::new();
        let vector = driver.register_wake_vector(&event, Interest::READABLE).expect("it runs");
        drop(vector);
        let gone = driver.unregister_wake_vector(&event, Interest::READABLE).expect_err("it went with its guard");
        assert_eq!(gone.status(), Status::NotFound);
    });
}

/// Shows R137.
#[test]
fn what_a_vector_has_told_keeps_its_place_when_the_vector_goes() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (event, log) = (Event::new(), Log::new());
        let vector = driver.register_wake_vector(&event, Interest::READABLE).expect("it runs");
        wait_on(&on, &event, &log, "wake");
        suspend(world, &driver);
        let told = log.clone();
        on.post_task(move |_| told.add("task")).expect("it is accepted");
        event.signal();
        world.settle();
        drop(vector);
        assert!(driver.resume());
        world.settle();
        assert_eq!(log.take(), ["wake Ok(())", "task"]);
    });
}

/// Only the interests that were registered wake: a wait for something else on the same source is parked like others.
///
/// Shows R136.
#[test]
fn a_vector_is_about_its_interests() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (event, log) = (Event::new(), Log::new());
        let requests = count_requests(&driver);
        driver.register_wake_vector(&event, Interest::READABLE).expect("it runs").keep();
        suspend(world, &driver);
        let told = log.clone();
        // It is writable from the start, and not readable.
        on.begin_wait(&event, Interest::WRITABLE, move |_| told.add("writable")).expect("it is accepted");
        world.settle();
        assert_eq!(requests.load(Ordering::Acquire), 0);
        assert!(driver.resume());
        world.settle();
        assert_eq!(log.take(), ["writable"]);
    });
}

/// The number of a closed descriptor is given to the next one, which is no wake vector by that.
///
/// Shows W11, R136.
#[test]
fn a_vector_names_the_object_and_not_its_number() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let requests = count_requests(&driver);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
        let refused = driver.register_wake_vector(&socket, Interest::READABLE).expect_err("a number is no identity");
        assert_eq!(refused.status(), Status::InvalidArgs);
        let source = WakeSource::over(socket);
        driver.register_wake_vector(&source, Interest::READABLE).expect("it has an identity").keep();
        let old = format!("{source:?}");
        drop(source);
        let reused = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
        let address = reused.local_addr().expect("it is bound");
        let source = WakeSource::over(reused);
        // Tests beside this one open and close descriptors too, so the number is not certain; the rule is.
        let _is_same_number = format!("{source:?}") == old;
        let log = Log::new();
        wait_on(&on, &source, &log, "reused");
        suspend(world, &driver);
        UdpSocket::bind("127.0.0.1:0").and_then(|sender| sender.send_to(b"!", address)).expect("it is local");
        world.wait_until("the event", || on.dump().deferred.iter().map(|(_, count)| count).sum::<u64>() == 1);
        world.settle();
        assert_eq!(requests.load(Ordering::Acquire), 0);
        assert!(driver.resume());
        world.wait_until("the wait", || !log.is_empty());
        assert_eq!(log.take(), ["reused Ok(())"]);
    });
}

/// Shows R136.
#[test]
fn a_source_of_ones_own_and_irqs_over_it_wake() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let requests = count_requests(&driver);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
        let address = socket.local_addr().expect("it is bound");
        let source = WakeSource::over(socket);
        driver.register_wake_vector(&source, Interest::READABLE).expect("it has an identity").keep();
        let log = Log::new();
        let told = log.clone();
        // An irq over the source has the identity of the source.
        let irq = Irq::over(source.clone());
        on.bind_irq(&irq, move |outcome| told.add(format!("irq {}", outcome.is_ok()))).expect("it is accepted");
        suspend(world, &driver);
        UdpSocket::bind("127.0.0.1:0").and_then(|sender| sender.send_to(b"!", address)).expect("it is local");
        world.wait_until("the request", || requests.load(Ordering::Acquire) == 1);
        assert!(driver.resume());
        world.wait_until("the irq", || !log.is_empty());
        assert_eq!(log.take(), ["irq true"]);
    });
}

/// Shows R138.
#[test]
fn an_always_on_wait_on_a_wake_vector_runs_at_once() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (event, log) = (Event::new(), Log::new());
        let requests = count_requests(&driver);
        driver.register_wake_vector(&event, Interest::READABLE).expect("it runs").keep();
        wait_on(&on.always_on(), &event, &log, "always on");
        suspend(world, &driver);
        event.signal();
        world.settle();
        assert_eq!(log.take(), ["always on Ok(())"]);
        assert_eq!(requests.load(Ordering::Acquire), 0);
    });
}

/// Irqs that are bound through the view are parked like others.
///
/// Shows R134.
#[test]
fn an_irq_that_is_bound_through_the_view_is_parked_all_the_same() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver);
        let (irq, trigger) = on.new_irq().expect("it is simulated");
        let log = Log::new();
        let told = log.clone();
        on.always_on().bind_irq(&irq, move |outcome| told.add(format!("{}", outcome.is_ok()))).expect("accepted");
        suspend(world, &driver);
        trigger.trigger();
        world.settle();
        assert!(log.is_empty());
        assert!(driver.resume());
        world.settle();
        assert_eq!(log.take(), ["true"]);
    });
}

/// A requester is kept until its driver has shut down, and dropped inside of it.
#[test]
fn a_requester_goes_with_its_driver() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let _on = dispatcher(&driver);
        let requests = count_requests(&driver);
        assert_eq!(Arc::strong_count(&requests), 2);
        driver.shutdown(|| ()).expect("the first");
        world.wait_until("the shutdown", || driver.is_shut_down());
        assert_eq!(Arc::strong_count(&requests), 1);
        let late = count_requests(&driver);
        assert_eq!(Arc::strong_count(&late), 1, "nobody would ever drop it");
    });
}
