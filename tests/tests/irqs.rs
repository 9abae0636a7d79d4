//! Irqs: bound handlers, triggers, acknowledgement, the ways in which a binding ends. On every kind of runtime.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use common::Log;
use fuchsine_dispatcher::{
    DispatcherBuilder, DispatcherHandle, Driver, Irq, IrqEvent, IrqHandle, IrqTrigger, PanicPolicy, RuntimeBuilder,
    Status, blocking, current,
};
use fuchsine_tests::pools::{World, in_the_foreground, on_every_pool, on_every_pool_with, on_pools};

fn dispatcher(driver: &Driver, builder: DispatcherBuilder) -> DispatcherHandle {
    driver.new_dispatcher(builder).expect("there is room").release()
}

fn both_kinds() -> [DispatcherBuilder; 2] {
    [DispatcherBuilder::new().name("synchronized"), DispatcherBuilder::new().name("unsynchronized").unsynchronized()]
}

/// Binds a handler that writes down what it is told, and acknowledges.
fn bind_logged(on: &DispatcherHandle, log: &Log, name: &'static str) -> (Irq, IrqTrigger, IrqHandle) {
    let (irq, trigger) = on.new_irq().expect("there is a descriptor");
    let handle = bind_to(on, &irq, log, name);
    (irq, trigger, handle)
}

fn bind_to(on: &DispatcherHandle, irq: &Irq, log: &Log, name: &'static str) -> IrqHandle {
    let log = log.clone();
    let handler = move |outcome: Result<IrqEvent<'_>, Status>| match outcome {
        Ok(event) => {
            log.add(name);
            event.ack();
        }
        Err(status) => log.add(format!("{name}: {status:?}")),
    };
    on.bind_irq(irq, handler).expect("the dispatcher runs")
}

fn wait_for(world: &World, log: &Log, entries: usize) {
    let seen = Mutex::new(Vec::new());
    world.wait_until("the log to fill", || {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(log.take());
        seen.len() >= entries
    });
    for entry in seen.into_inner().unwrap_or_else(PoisonError::into_inner) {
        log.add(entry);
    }
}

/// Shows R92, R93, DT-43.
#[test]
fn an_irq_is_delivered_once_for_each_trigger_until_it_is_unbound_on_both_kinds_of_dispatchers() {
    on_every_pool(|world| {
        for builder in both_kinds() {
            let on = dispatcher(&world.driver("driver"), builder);
            let log = Log::new();
            let (_irq, trigger, handle) = bind_logged(&on, &log, "irq");
            for nth in 1..=3 {
                trigger.trigger();
                wait_for(world, &log, nth);
            }
            assert_eq!(log.take(), ["irq", "irq", "irq"]);
            let unbound = world.run_on(&on, move || handle.unbind().map(|unbound| unbound.is_running()));
            assert_eq!(unbound, Ok(false));
            trigger.trigger();
            world.run_on(&on, || ());
            world.settle();
            on.shutdown_async();
            world.wait_until("the shutdown", || on.counters().pending == 0);
            assert!(log.is_empty());
            let counters = on.counters();
            assert_eq!((counters.canceled, counters.taken_back), (0, 1), "{counters:?}");
        }
    });
}

/// Shows R98.
#[test]
fn triggers_before_the_acknowledgement_are_counted_and_delivered_together_after_it() {
    on_every_pool(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let (irq, trigger) = on.new_irq().expect("there is a descriptor");
        let counts = Arc::new(Mutex::new(Vec::new()));
        let counted = Arc::clone(&counts);
        let handle = on.bind_irq(&irq, move |outcome| {
            if let Ok(event) = outcome {
                counted.lock().unwrap_or_else(PoisonError::into_inner).push(event.count());
            }
        });
        let handle = handle.expect("the dispatcher runs");
        let seen = || counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert_eq!(handle.ack(), Err(Status::BadState), "nothing has been delivered");
        trigger.trigger();
        world.wait_until("the first delivery", || seen().len() == 1);
        (0..5).for_each(|_| trigger.trigger());
        world.run_on(&on, || ());
        world.settle();
        assert_eq!(seen().len(), 1, "the first one is not acknowledged");
        handle.ack().expect("there is something to acknowledge");
        world.wait_until("the second delivery", || seen().len() == 2);
        assert_eq!(seen(), [1, 5]);
    });
}

/// A handler may acknowledge early, from elsewhere and twice; the next delivery comes only after it has returned.
#[test]
fn calls_of_one_handler_never_overlap_on_an_unsynchronized_dispatcher_neither() {
    on_pools(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new().unsynchronized());
        let (irq, trigger) = on.new_irq().expect("there is a descriptor");
        let own: Arc<Mutex<Option<IrqHandle>>> = Arc::default();
        let (inside, overlaps, calls) =
            (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (seen_overlaps, seen_calls) = (Arc::clone(&overlaps), Arc::clone(&calls));
        let (again, handle_of) = (trigger.clone(), Arc::clone(&own));
        let handler = move |outcome: Result<IrqEvent<'_>, Status>| {
            let Ok(event) = outcome else { return };
            seen_overlaps.fetch_add(inside.fetch_add(1, Ordering::AcqRel), Ordering::AcqRel);
            event.ack();
            if let Some(handle) = &*handle_of.lock().unwrap_or_else(PoisonError::into_inner) {
                handle.ack().expect("the handler is running");
            }
            if seen_calls.fetch_add(1, Ordering::AcqRel) < 200 {
                again.trigger();
            }
            std::thread::yield_now();
            inside.fetch_sub(1, Ordering::AcqRel);
        };
        let handle = on.bind_irq(&irq, handler).expect("the dispatcher runs");
        *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        trigger.trigger();
        world.wait_until("200 calls", || calls.load(Ordering::Acquire) > 200);
        assert_eq!(overlaps.load(Ordering::Acquire), 0);
    });
}

/// Shows R93, DT-47.
#[test]
fn deliveries_of_a_synchronized_dispatcher_overlap_with_nothing_of_it() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (on, other) =
            (dispatcher(&driver, DispatcherBuilder::new()), dispatcher(&driver, DispatcherBuilder::new()));
        let inside = Arc::new(AtomicUsize::new(0));
        let overlaps = Arc::new(AtomicUsize::new(0));
        let calls = Arc::new(AtomicUsize::new(0));
        let visit = {
            let (inside, overlaps, calls) = (Arc::clone(&inside), Arc::clone(&overlaps), Arc::clone(&calls));
            move || {
                overlaps.fetch_add(inside.fetch_add(1, Ordering::AcqRel), Ordering::AcqRel);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::AcqRel);
                calls.fetch_add(1, Ordering::AcqRel);
            }
        };
        let lines: Vec<_> = (0..2)
            .map(|_| {
                let (irq, trigger) = on.new_irq().expect("there is a descriptor");
                let visit = visit.clone();
                let handler = move |outcome: Result<IrqEvent<'_>, Status>| {
                    if let Ok(event) = outcome {
                        visit();
                        event.ack();
                    }
                };
                let handle = on.bind_irq(&irq, handler).expect("the dispatcher runs");
                (irq, trigger, handle)
            })
            .collect();
        for round in 1..=20 {
            lines.iter().for_each(|(_, trigger, _)| trigger.trigger());
            let visit = visit.clone();
            on.post_task(move |_| visit()).expect("it runs");
            other.post_task(|_| ()).expect("it runs");
            world.wait_until("the round", || calls.load(Ordering::Acquire) == 3 * round);
        }
        assert_eq!(overlaps.load(Ordering::Acquire), 0);
    });
}

/// Shows R94, DT-49.
#[test]
fn unbinding_takes_a_delivery_along_that_is_queued_already() {
    on_every_pool(|world| {
        for builder in both_kinds() {
            let on = dispatcher(&world.driver("driver"), builder);
            let log = Log::new();
            let (_irq, trigger, handle) = bind_logged(&on, &log, "irq");
            let unbound = world.run_on(&on, move || {
                trigger.trigger();
                // Another thread of the pool, if there is one, may take the event now, and queue it.
                (0..50).for_each(|_| std::thread::yield_now());
                handle.unbind()
            });
            // On the unsynchronized one the handler may have been called beside the task: before, not after.
            assert!(unbound.is_ok());
            drop(unbound);
            let before = log.take();
            assert!(before.is_empty() || !on.is_synchronized(), "{before:?}");
            world.run_on(&on, || ());
            world.settle();
            let is_late = !log.is_empty() && on.is_synchronized();
            assert!(!is_late, "a call after the end of the binding");
        }
    });
}

/// In the foreground the queued delivery is certain: the first irq's handler unbinds the second one, whose event was
/// taken in the same poll.
///
/// Shows R94.
#[test]
fn a_handler_may_unbind_another_irq_whose_event_has_been_taken() {
    in_the_foreground(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let log = Log::new();
        let (first, first_trigger) = on.new_irq().expect("there is one");
        let (second, second_trigger) = on.new_irq().expect("there is one");
        let bound = bind_to(&on, &second, &log, "second");
        let told = log.clone();
        let handler = move |outcome: Result<IrqEvent<'_>, Status>| {
            if outcome.is_ok() {
                told.add(format!("unbound while it runs: {:?}", bound.unbind().map(|unbound| unbound.is_running())));
            }
        };
        on.bind_irq(&first, handler).expect("the dispatcher runs");
        world.settle();
        first_trigger.trigger();
        second_trigger.trigger();
        world.settle();
        assert_eq!(log.take(), ["unbound while it runs: Ok(false)"]);
    });
}

/// Shows R94, DT-52.
#[test]
fn unbinding_works_from_anywhere_and_once() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (on, other) =
            (dispatcher(&driver, DispatcherBuilder::new()), dispatcher(&driver, DispatcherBuilder::new()));
        let log = Log::new();
        let (irq, trigger, handle) = bind_logged(&on, &log, "irq");
        let elsewhere = handle.clone();
        assert!(world.run_on(&other, move || elsewhere.unbind().is_ok()));
        assert_eq!(handle.unbind().expect_err("it was unbound").status(), Status::NotFound);
        assert_eq!(handle.ack(), Err(Status::NotFound));
        trigger.trigger();
        world.run_on(&on, || ());
        // The trigger is kept for whoever binds next.
        let again = bind_to(&on, &irq, &log, "again");
        wait_for(world, &log, 1);
        assert_eq!(log.take(), ["again"]);
        assert!(again.unbind().is_ok());
    });
}

/// A handler that unbinds itself is told so, is not called again, and is dropped on its dispatcher.
#[test]
fn a_handler_may_unbind_itself() {
    struct TellsWhere(Arc<Mutex<Vec<Option<DispatcherHandle>>>>);
    impl Drop for TellsWhere {
        fn drop(&mut self) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(current());
        }
    }
    on_every_pool(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let (irq, trigger) = on.new_irq().expect("there is a descriptor");
        let own: Arc<Mutex<Option<IrqHandle>>> = Arc::default();
        let log = Log::new();
        let dropped = Arc::new(Mutex::new(Vec::new()));
        let (handle_of, told, held) = (Arc::clone(&own), log.clone(), TellsWhere(Arc::clone(&dropped)));
        let handler = move |outcome: Result<IrqEvent<'_>, Status>| {
            let _held = &held;
            let Ok(event) = outcome else { return told.add("told of an end") };
            event.ack();
            let own = handle_of.lock().unwrap_or_else(PoisonError::into_inner).take();
            let is_running = own.map(|own| own.unbind().expect("it is bound").is_running());
            told.add(format!("{is_running:?}"));
        };
        // The handler looks for its handle under the lock, so it finds it.
        {
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            *own = Some(on.bind_irq(&irq, handler).expect("the dispatcher runs"));
        }
        trigger.trigger();
        world.wait_until("the drop", || !dropped.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
        trigger.trigger();
        world.run_on(&on, || ());
        world.settle();
        assert_eq!(log.take(), ["Some(true)"]);
        assert_eq!(*dropped.lock().unwrap_or_else(PoisonError::into_inner), [Some(on.clone())]);
    });
}

/// Shows R96, R97, DT-44.
#[test]
fn an_irq_that_is_bound_at_shutdown_is_canceled_once_before_the_observer() {
    on_every_pool(|world| {
        for builder in both_kinds() {
            let log = Log::new();
            let observed = log.clone();
            let on = dispatcher(&world.driver("driver"), builder.shutdown_observer(move || observed.add("observer")));
            let (_irq, trigger, handle) = bind_logged(&on, &log, "irq");
            on.shutdown_async();
            trigger.trigger();
            wait_for(world, &log, 2);
            trigger.trigger();
            world.settle();
            assert_eq!(log.take(), ["irq: Canceled", "observer"]);
            assert!(handle.unbind().is_err());
            assert_eq!(on.counters().canceled, 1);
        }
    });
}

/// Shows R96.
#[test]
fn a_delivery_that_is_queued_at_shutdown_becomes_the_one_canceled_call() {
    in_the_foreground(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let log = Log::new();
        let (irq, trigger, _handle) = bind_logged(&on, &log, "irq");
        let (first, first_trigger) = on.new_irq().expect("there is one");
        let (own, told) = (on.clone(), log.clone());
        // Both events are taken in one poll; the first handler shuts the dispatcher down while the second delivery
        // waits.
        assert!(format!("{irq:?}").contains("is_bound: true"));
        let handler = move |outcome: Result<IrqEvent<'_>, Status>| match outcome {
            Ok(_) => own.shutdown_async(),
            Err(status) => told.add(format!("first: {status:?}")),
        };
        on.bind_irq(&first, handler).expect("the dispatcher runs");
        world.settle();
        first_trigger.trigger();
        trigger.trigger();
        world.settle();
        // In the order of their bindings.
        assert_eq!(log.take(), ["irq: Canceled", "first: Canceled"]);
    });
}

/// Shows R95, DT-46.
#[test]
fn an_irq_can_be_unbound_after_shutdown_was_requested_and_is_told_nothing_then() {
    on_every_pool(|world| {
        for builder in both_kinds() {
            let on = dispatcher(&world.driver("driver"), builder);
            let log = Log::new();
            let (_irq, trigger, handle) = bind_logged(&on, &log, "irq");
            let own = on.clone();
            let unbound = world.run_on(&on, move || {
                own.shutdown_async();
                trigger.trigger();
                handle.unbind().map(|unbound| unbound.is_running())
            });
            assert_eq!(unbound, Ok(false));
            world.wait_until("the shutdown", || on.counters().pending == 0);
            assert!(log.is_empty());
        }
    });
}

/// Shows R99, DT-50.
#[test]
fn many_irqs_that_are_unbound_right_after_their_trigger_are_never_called() {
    const DRIVERS: usize = 10;
    const IRQS: usize = 30;
    on_pools(|world| {
        let called = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..DRIVERS)
            .map(|_| {
                let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
                let called = Arc::clone(&called);
                std::thread::spawn(move || unbind_at_once(&on, &called, IRQS))
            })
            .collect();
        for thread in threads {
            thread.join().expect("it ends");
        }
        world.shutdown();
        assert_eq!(called.load(Ordering::Acquire), 0);
    });
}

/// On the dispatcher itself, `count` times: trigger, then unbind.
fn unbind_at_once(on: &DispatcherHandle, called: &Arc<AtomicUsize>, count: usize) {
    let (sender, receiver) = std::sync::mpsc::channel();
    for _ in 0..count {
        let (irq, trigger) = on.new_irq().expect("there is a descriptor");
        let called = Arc::clone(called);
        let counts = move |_: Result<IrqEvent<'_>, Status>| {
            called.fetch_add(1, Ordering::AcqRel);
        };
        let handle = on.bind_irq(&irq, counts).expect("the dispatcher runs");
        let sender = sender.clone();
        let task = move |_| {
            trigger.trigger();
            let is_unbound = handle.unbind().is_ok();
            drop((irq, trigger));
            let _ = sender.send(is_unbound);
        };
        on.post_task(task).expect("it runs");
    }
    drop(sender);
    assert_eq!(receiver.into_iter().filter(|is_unbound| *is_unbound).count(), count);
}

/// Shows R92.
#[test]
fn a_refused_binding_gives_the_handler_back() {
    on_every_pool(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let log = Log::new();
        let (irq, _trigger, handle) = bind_logged(&on, &log, "irq");
        let token = Arc::new(());
        let held = Arc::clone(&token);
        let refused = on.bind_irq(&irq, move |_| drop(held.clone())).expect_err("it is bound");
        assert_eq!(refused.status(), Status::AlreadyExists);
        let handler = refused.into_inner();
        assert_eq!(Arc::strong_count(&token), 2);
        assert!(handle.unbind().is_ok());
        on.shutdown_async();
        let refused = on.bind_irq(&irq, handler).expect_err("the dispatcher shuts down");
        assert_eq!(refused.status(), Status::BadState);
        drop(refused);
        assert_eq!(Arc::strong_count(&token), 1);
        // One that comes when the dispatcher is gone already counts with its driver.
        assert_eq!(on.owner().counters().refused, 2);
        // Nothing is left of it: another dispatcher may have the irq.
        let next = dispatcher(&world.driver("next"), DispatcherBuilder::new());
        assert!(next.bind_irq(&irq, |_| ()).is_ok());
    });
}

/// Shows W10.
#[test]
fn an_irq_over_something_that_cannot_be_polled_is_refused_and_leaves_nothing_behind() {
    on_pools(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let file = std::fs::File::open(std::env::current_exe().expect("a test has a file")).expect("it can be read");
        let irq = Irq::over(file);
        let refused = on.bind_irq(&irq, |_| ()).expect_err("a file is always ready");
        assert_eq!(refused.status(), Status::NotSupported);
        let counters = on.counters();
        assert_eq!((counters.accepted, counters.refused, counters.pending), (0, 1, 0), "{counters:?}");
        assert!(format!("{irq:?}").contains("is_bound: false"));
    });
    in_the_foreground(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let (irq, _trigger) = Irq::new().expect("there is a descriptor");
        assert_eq!(on.bind_irq(&irq, |_| ()).expect_err("it is real").status(), Status::NotSupported);
    });
}

/// An irq over a socket of one's own: its level counts, so what was not read is delivered again.
#[test]
fn an_irq_over_a_descriptor_is_delivered_as_long_as_it_is_readable() {
    use std::io::{Read, Write};
    on_pools(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let (mut near, far) = std::os::unix::net::UnixStream::pair().expect("there are descriptors");
        near.write_all(b"abc").expect("there is room");
        let mut reading = far.try_clone().expect("there is a descriptor");
        let bytes = Log::new();
        let read = bytes.clone();
        let bound = on.bind_irq(&Irq::over(far), move |outcome| {
            let Ok(event) = outcome else { return };
            let mut byte = [0];
            reading.read_exact(&mut byte).expect("it is readable");
            read.add(format!("{} {}", event.count(), char::from(byte[0])));
            event.ack();
        });
        let bound = bound.expect("the dispatcher runs");
        wait_for(world, &bytes, 3);
        assert_eq!(bytes.take(), ["1 a", "1 b", "1 c"]);
        assert!(bound.unbind().is_ok());
    });
}

/// What nobody else holds goes with the binding, on the dispatcher, before the observer.
#[test]
fn the_source_of_an_irq_is_let_go_with_its_binding() {
    struct Source(std::os::unix::net::UnixStream, Log);
    impl std::os::fd::AsFd for Source {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
    impl Drop for Source {
        fn drop(&mut self) {
            self.1.add(format!("source let go on a dispatcher: {}", current().is_some()));
        }
    }
    on_pools(|world| {
        let log = Log::new();
        let observed = log.clone();
        let builder = DispatcherBuilder::new().shutdown_observer(move || observed.add("observer"));
        let on = dispatcher(&world.driver("driver"), builder);
        let (near, _far) = std::os::unix::net::UnixStream::pair().expect("there are descriptors");
        let told = log.clone();
        let handler = move |outcome: Result<IrqEvent<'_>, Status>| told.add(format!("{:?}", outcome.err()));
        on.bind_irq(&Irq::over(Source(near, log.clone())), handler).expect("the dispatcher runs");
        assert!(log.is_empty(), "the binding holds it");
        on.shutdown_async();
        wait_for(world, &log, 3);
        assert_eq!(log.take(), ["Some(Canceled)", "source let go on a dispatcher: true", "observer"]);
    });
}

/// Goal: the descriptor of an irq is asked for once, when the irq is made, in the frame of whoever makes it; so code of
/// others that panics there never meets a binding that is half armed.
#[test]
fn a_source_that_panics_when_it_is_asked_leaves_no_irq_half_armed() {
    use std::io::{Read, Write};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    struct Source(std::os::unix::net::UnixStream, Arc<AtomicBool>);
    impl std::os::fd::AsFd for Source {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            assert!(!self.1.load(Ordering::Acquire), "on purpose");
            self.0.as_fd()
        }
    }
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let (mut near, far) = std::os::unix::net::UnixStream::pair().expect("there are descriptors");
        let mut reading = far.try_clone().expect("there is a descriptor");
        let is_broken = Arc::new(AtomicBool::new(false));
        let source = |far| Source(far, Arc::clone(&is_broken));
        let irq = Irq::over(source(far.try_clone().expect("there is a descriptor")));
        is_broken.store(true, Ordering::Release);
        assert!(catch_unwind(AssertUnwindSafe(|| Irq::over(source(far)))).is_err());
        let (log, told) = (Log::new(), Log::new());
        let delivered = log.clone();
        let bound = on.bind_irq(&irq, move |outcome| {
            let mut byte = [0];
            match outcome {
                Ok(_) => reading.read_exact(&mut byte).map_or((), |()| delivered.add(char::from(byte[0]).to_string())),
                Err(status) => delivered.add(status.to_string()),
            }
        });
        let bound = bound.expect("it is not asked again");
        for letter in ["a", "b", "c"] {
            near.write_all(letter.as_bytes()).expect("there is room");
            wait_for(world, &log, 1);
            assert_eq!(log.take(), [letter]);
            // Armed again on this thread.
            world.wait_until("the acknowledgement", || bound.ack().is_ok());
        }
        assert!(bound.unbind().is_ok());
        let before = on.counters();
        let wait = |_: Result<fuchsine_dispatcher::Readiness, Status>| ();
        let asked =
            catch_unwind(AssertUnwindSafe(|| on.begin_wait(&irq, fuchsine_dispatcher::Interest::READABLE, wait)));
        assert!(asked.is_err(), "a wait asks it, in the frame of the caller");
        assert_eq!(on.counters(), before, "and nothing was accepted");
        let ran = told.clone();
        on.post_task(move |_| ran.add("task")).expect("it runs");
        wait_for(world, &told, 1);
        assert_eq!(driver.panics(), 0);
    });
}

/// A panic is reported; with a policy that goes on, the irq stays bound, and is silent until somebody acknowledges.
#[test]
fn a_handler_that_panics_stays_bound() {
    let builder = || RuntimeBuilder::new().panic_policy(PanicPolicy::Continue);
    on_every_pool_with(builder, |world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let (irq, trigger) = on.new_irq().expect("there is a descriptor");
        let (log, panics) = (Log::new(), AtomicBool::new(true));
        let told = log.clone();
        let handler = move |outcome: Result<IrqEvent<'_>, Status>| {
            if outcome.is_ok() {
                assert!(!panics.swap(false, Ordering::AcqRel), "on purpose");
                told.add("delivered");
            }
        };
        let handle = on.bind_irq(&irq, handler).expect("the dispatcher runs");
        trigger.trigger();
        world.wait_until("the panic", || driver.panics() == 1);
        trigger.trigger();
        // The handler has not quite returned when the panic is counted.
        world.wait_until("the acknowledgement", || handle.ack().is_ok());
        wait_for(world, &log, 1);
        assert_eq!(log.take(), ["delivered"]);
    });
}

/// A handler of a dispatcher that allows sync calls may block.
#[test]
fn an_irq_may_be_bound_where_sync_calls_are_allowed() {
    on_every_pool(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new().allow_sync_calls());
        let (irq, trigger) = on.new_irq().expect("there is a descriptor");
        let log = Log::new();
        let told = log.clone();
        let handler = move |outcome: Result<IrqEvent<'_>, Status>| {
            if outcome.is_ok() {
                told.add(format!("{:?}", blocking(|| 7).ok()));
            }
        };
        on.bind_irq(&irq, handler).expect("the dispatcher runs");
        trigger.trigger();
        wait_for(world, &log, 1);
        assert_eq!(log.take(), ["Some(7)"]);
    });
}
