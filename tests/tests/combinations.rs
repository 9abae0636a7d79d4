//! Features of the runtime together, where each one alone is shown elsewhere: what a drop may do while everything ends,
//! names and deadlines at their edges, a driver that is suspended while somebody waits for it.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::Log;
use fuchsine_dispatcher::{
    Channel, DispatcherBound, DispatcherBuilder, DispatcherHandle, Driver, Instant, Interest, IrqEvent, Lane, Limits,
    Message, PanicPolicy, RuntimeBuilder, Status, TaskScope, Token, blocking, current, sleep, sleep_until, timeout,
};
use fuchsine_tests::pools::{HANG_LIMIT, World, on_every_pool, on_every_pool_with, on_pools, on_pools_with};

fn dispatcher(driver: &Driver, builder: DispatcherBuilder) -> DispatcherHandle {
    driver.new_dispatcher(builder).expect("there is room").release()
}

fn suspend(world: &World, driver: &Driver) {
    let ended = Log::new();
    let told = ended.clone();
    driver.suspend(move |outcome| told.add(format!("{outcome:?}"))).expect("it runs");
    world.wait_until("the suspend", || !ended.is_empty());
    assert_eq!(ended.take(), ["Ok(())"]);
}

/// Does whatever it can when it is dropped.
struct Nosy {
    driver: Driver,
    on: DispatcherHandle,
    channel: Arc<Channel>,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Nosy {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        let _ = self.on.post_task(|_| ());
        let _ = self.on.always_on().post_task(|_| ());
        let _ = self.on.post_after(Duration::from_secs(1), |_| ());
        let _ = self.on.dump().to_json();
        let _ = self.driver.dump().to_string();
        let _ = self.driver.resume();
        let _ = self.driver.suspend(|_| ());
        self.driver.set_resume_requester(|_| ());
        let _ = self.on.spawn(async {});
        let _ = self.on.offload(Lane::Fast, |_| (), |_| ());
        let _ = self.on.wait_until_idle(Duration::ZERO);
        let _ = self.driver.wait_until_destroyed(Duration::ZERO);
        let _ = self.on.seal_allow_sync_calls();
        let _ = self.channel.write(Message::new());
        let _ = self.channel.cancel_read();
        let _ = self.on.new_irq().map(|(irq, _)| self.on.bind_irq(&irq, |_| ()).map(drop));
        let scope = TaskScope::new(&self.on);
        let _ = scope.post(|| ());
        let _ = scope.spawn(async {});
        let _ = DispatcherBound::new(&self.on, || 1).map(drop);
        let _ = self.driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).map(drop);
        self.on.shutdown_async();
        self.driver.clear_resume_requester();
        let _ = self.driver.shutdown(|| ());
    }
}

fn everything(
    on: &DispatcherHandle,
    driver: &Driver,
    dropped: &Arc<AtomicUsize>,
) -> (usize, Vec<Box<dyn std::any::Any>>) {
    let channel = Arc::new(Channel::pair_with(Limits::default().messages(1)).0);
    let nosy =
        || Nosy { driver: driver.clone(), on: on.clone(), channel: Arc::clone(&channel), dropped: Arc::clone(dropped) };
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
    let mut made = 0;
    macro_rules! one {
        ($nosy:ident, $accepted:expr) => {{
            let $nosy = nosy();
            made += 1;
            if let Ok(value) = $accepted {
                kept.push(Box::new(value));
            }
        }};
    }
    one!(n, on.post_task(move |_| drop(n)));
    one!(n, on.always_on().post_task(move |_| drop(n)));
    one!(n, on.post_after(Duration::from_secs(100_000), move |_| drop(n)));
    one!(n, on.always_on().post_after(Duration::from_secs(100_000), move |_| drop(n)));
    one!(n, on.offload(Lane::Fast, |_| (), move |_| drop(n)));
    one!(
        n,
        on.spawn(async move {
            let _n = n;
            std::future::pending::<()>().await;
        })
    );
    let (near, far) = Channel::pair_with(Limits::default().messages(1));
    one!(n, near.begin_read(on, move |_| drop(n)));
    far.write(Message::new()).ok();
    let (full, other) = Channel::pair_with(Limits::default().messages(1));
    full.write(Message::new()).expect("there is room");
    one!(n, full.begin_writable(on, 1, move |_| drop(n)));
    let (client, server) = Channel::pair();
    one!(n, client.begin_call(on, Message::new(), Instant::INFINITE, move |_| drop(n)));
    let (one, two) = Token::pair();
    one!(n, one.register(on, move |_| drop(n)));
    let (irq, trigger) = on.new_irq().expect("a descriptor");
    one!(
        n,
        on.bind_irq(&irq, move |_: Result<IrqEvent<'_>, Status>| {
            let _n = &n;
        })
    );
    trigger.trigger();
    one!(n, on.begin_wait(&irq, Interest::READABLE, move |_| drop(n)));
    one!(n, DispatcherBound::new(on, move || n));
    let scope = TaskScope::new(on);
    one!(n, scope.post(move || drop(n)));
    one!(n, scope.post_after(Duration::from_secs(100_000), move || drop(n)));
    one!(
        n,
        scope.spawn(async move {
            let _n = n;
            std::future::pending::<()>().await;
        })
    );
    one!(n, driver.suspend(move |_| drop(n)));
    made += 1;
    let n = nosy();
    driver.set_resume_requester(move |_| {
        let _n = &n;
    });
    kept.push(Box::new((near, far, full, other, client, server, two, irq, trigger, scope)));
    (made, kept)
}

#[test]
fn a_drop_may_do_what_it_likes_whatever_ends_the_callback() {
    for ending in 0..6 {
        let scenario = |world: &World, builder: DispatcherBuilder| {
            let driver = world.driver("driver");
            let log = Log::new();
            let observed = log.clone();
            let on = dispatcher(&driver, builder.shutdown_observer(move || observed.add("observer")));
            let dropped = Arc::new(AtomicUsize::new(0));
            if ending == 5 {
                suspend(world, &driver);
            }
            let (made, kept) = everything(&on, &driver, &dropped);
            match ending {
                0 | 5 => on.shutdown_async(),
                1 => driver.shutdown(|| ()).unwrap_or(()),
                2 => world.shutdown(),
                3 => drop(kept),
                _ => {
                    driver.resume();
                    world.settle();
                }
            }
            on.shutdown_async();
            let _ = driver.shutdown(|| ());
            world.wait_until("the driver to shut down", || driver.is_shut_down());
            assert_eq!(log.take(), ["observer"]);
            world.wait_until("drops", || dropped.load(Ordering::Relaxed) >= made);
            assert_eq!(dropped.load(Ordering::Relaxed), made, "ending {ending}");
        };
        on_every_pool(|world| scenario(world, DispatcherBuilder::new()));
        on_every_pool(|world| scenario(world, DispatcherBuilder::new().unsynchronized()));
        on_every_pool(|world| scenario(world, DispatcherBuilder::new().allow_sync_calls()));
        on_every_pool(|world| scenario(world, DispatcherBuilder::new().no_thread_migration()));
    }
}

#[test]
fn deadlines_at_their_edges() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        for (name, deadline) in [("zero", Instant::ZERO), ("now", on.now())] {
            let told = log.clone();
            let _ = on.post_at(deadline, move |outcome| told.add(format!("{name} {outcome:?}"))).expect("accepted");
        }
        assert_eq!(on.post_at(Instant::INFINITE, |_| ()).expect_err("never").status(), Status::InvalidArgs);
        assert_eq!(on.post_after(Duration::MAX, |_| ()).expect_err("never").status(), Status::InvalidArgs);
        let scope = TaskScope::new(&on);
        assert_eq!(scope.post_after(Duration::MAX, || ()).expect_err("never").status(), Status::InvalidArgs);
        assert!(scope.is_empty());
        world.wait_until("both", || on.counters().ran == 2);
        let told = log.clone();
        let future = async move {
            sleep_until(Instant::ZERO).await.expect("it runs");
            sleep(Duration::ZERO).await.expect("it runs");
            told.add("slept");
            told.add(format!("{:?}", timeout(Duration::MAX, async { 1 }).await.ok()));
            told.add(format!("{:?}", timeout(Duration::ZERO, std::future::pending::<()>()).await.ok()));
            told.add(format!("{:?}", sleep(Duration::MAX).await));
        };
        let _joined = on.spawn(future).expect("it runs");
        let (client, _server) = Channel::pair();
        let told = log.clone();
        client
            .begin_call(&on, Message::new(), Instant::ZERO, move |outcome| told.add(format!("{:?}", outcome.err())))
            .map(drop)
            .expect("sent");
        let far = Instant::INFINITE;
        let told = log.clone();
        client
            .begin_call(&on, Message::new(), far, move |outcome| told.add(format!("{:?}", outcome.err())))
            .map(drop)
            .expect("sent");
        world.wait_until("the futures", || on.counters().ran >= 3);
        world.settle();
        if let Some(foreground) = world.foreground() {
            foreground.advance(Duration::from_secs(1 << 40));
            foreground.advance(Duration::MAX);
        }
        world.wait_until("the call whose time was up", || on.counters().pending == 1);
        world.settle();
        let mut all = log.take();
        all.sort();
        assert_eq!(
            all,
            ["Err(InvalidArgs)", "None", "Some(1)", "Some(TimedOut)", "now Ok(())", "slept", "zero Ok(())"]
        );
        on.shutdown_async();
        assert!(on.stop_token().wait_timeout(Duration::MAX));
        if !world.is_foreground() {
            driver.shutdown(|| ()).expect("once");
            driver.wait_until_destroyed(Duration::MAX).expect("it goes");
            on.wait_until_idle(Duration::MAX).expect("it goes");
            world.runtime().wait_until_idle(Duration::MAX).expect("it is idle");
            world.runtime().shutdown_drivers(Duration::MAX).expect("they go");
            world.runtime().shutdown(Duration::MAX).expect("it goes");
        }
    });
}

#[test]
fn threads_that_retire_at_once_or_never_do_the_same_work() {
    for life in [Duration::ZERO, Duration::MAX] {
        on_pools_with(
            || RuntimeBuilder::new().retire_threads_after(life).batch(1).inline_depth(0),
            |world| {
                let driver = world.driver("driver");
                for _ in 0..20 {
                    let on = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("room");
                    world.run_on(&on.handle(), || blocking(|| ()).map_err(|_| ()).expect("it may"));
                }
            },
        );
        on_pools_with(
            || {
                RuntimeBuilder::new()
                    .dynamic_threads()
                    .retire_threads_after(life)
                    .batch(u32::MAX)
                    .inline_depth(u32::MAX)
            },
            |world| {
                let driver = world.driver("driver");
                let ons: Vec<_> = (0..6)
                    .map(|_| driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("room"))
                    .collect();
                for on in &ons {
                    on.post_task(|_| std::thread::sleep(Duration::from_millis(20))).expect("it runs");
                }
                for on in &ons {
                    on.wait_until_idle(HANG_LIMIT).expect("they end");
                }
            },
        );
    }
}

#[test]
fn a_call_to_a_suspended_pinned_server_ends_with_its_shutdown_or_the_callers() {
    for ending in 0..4 {
        on_every_pool(|world| {
            let (client_driver, server_driver) = (world.driver("client"), world.driver("server"));
            let server_on = dispatcher(&server_driver, DispatcherBuilder::new().no_thread_migration());
            let client_on = dispatcher(&client_driver, DispatcherBuilder::new().allow_sync_calls());
            let (client, server) = Channel::pair();
            let server = Arc::new(server);
            let kept = Arc::clone(&server);
            let log = Log::new();
            let read = log.clone();
            server
                .begin_read(&server_on, move |outcome| {
                    read.add(format!("read {outcome:?} {}", current().is_some()));
                    drop(kept);
                })
                .expect("nobody reads");
            drop(server);
            suspend(world, &server_driver);
            let told = log.clone();
            client_on
                .post_task(move |_| {
                    let outcome = client.call(Message::new(), Instant::INFINITE);
                    told.add(format!("call {:?}", outcome.map(drop).map_err(|e| e.status())));
                })
                .expect("it runs");
            let waits = || client_on.dump().running.iter().any(|running| running.waits_for == Some("a reply"));
            world.wait_until("the call", waits);
            match ending {
                0 => server_on.shutdown_async(),
                1 => server_driver.shutdown(|| ()).expect("once"),
                2 => client_on.shutdown_async(),
                _ => world.shutdown(),
            }
            let mut all = Vec::new();
            world.wait_until("both", || {
                all.extend(log.take());
                all.len() >= if ending == 2 { 1 } else { 2 }
            });
            all.sort();
            match ending {
                0 | 1 => assert_eq!(all, ["call Err(PeerClosed)", "read Err(Canceled) true"]),
                2 => assert_eq!(all, ["call Err(Canceled)"]),
                _ => assert!(all.contains(&"read Err(Canceled) true".to_owned()), "{all:?}"),
            }
        });
    }
}

#[test]
fn sealing_inside_of_an_inline_call_and_of_a_blocking_stretch_gives_one_thread_back() {
    on_every_pool(|world| {
        let (one, two) = (world.driver("one"), world.driver("two"));
        let caller = dispatcher(&one, DispatcherBuilder::new().allow_sync_calls());
        let callee = dispatcher(&two, DispatcherBuilder::new().allow_sync_calls());
        let role = world.runtime().role("");
        assert_eq!(role.sync_call_dispatchers(), 2);
        let (near, far) = Channel::pair();
        let log = Log::new();
        let (told, sealed) = (log.clone(), callee.clone());
        far.begin_read(&callee, move |_| {
            let outer = blocking(|| {
                told.add(format!("{:?}", sealed.seal_allow_sync_calls()));
                told.add(format!("{:?}", sealed.seal_allow_sync_calls()));
                told.add(format!("{:?}", blocking(|| ()).map_err(|e| e.status())));
            });
            told.add(format!("{:?}", outer.map_err(|e| e.status())));
        })
        .expect("nobody reads");
        world.run_on(&caller, move || drop(near.write(Message::new())));
        world.settle();
        assert_eq!(log.take(), ["Ok(())", "Err(AlreadyExists)", "Err(BadState)", "Ok(())"]);
        assert_eq!(role.sync_call_dispatchers(), 1);
        world.run_on(&callee, || assert!(blocking(|| ()).is_err()));
        callee.shutdown_async();
        caller.shutdown_async();
        world.wait_until("the end", || callee.is_idle() && caller.is_idle() && role.sync_call_dispatchers() == 0);
    });
}

#[test]
fn limits_lowered_while_threads_are_added() {
    for dynamic in [false, true] {
        on_pools_with(
            || {
                let builder = RuntimeBuilder::new().retire_threads_after(Duration::ZERO);
                if dynamic { builder.dynamic_threads() } else { builder }
            },
            |world| {
                let role = world.runtime().role("r");
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            let driver = world.driver("maker");
                            for _ in 0..60 {
                                let made = driver
                                    .new_dispatcher(DispatcherBuilder::new().scheduler_role("r").allow_sync_calls());
                                match made {
                                    Ok(on) => {
                                        on.post_task(|_| drop(blocking(std::thread::yield_now))).expect("it runs")
                                    }
                                    Err(error) => assert_eq!(error.status(), Status::NoResources),
                                }
                            }
                        });
                    }
                    scope.spawn(|| {
                        for limit in (0..200).map(|n| n % 13) {
                            match role.set_thread_limit(limit) {
                                Ok(()) => assert!(limit >= world.threads()),
                                Err(status) => assert_eq!(status, Status::OutOfRange),
                            }
                        }
                    });
                });
                world.wait_until("the role to be empty", || {
                    role.sync_call_dispatchers() == 0 && role.thread_count() == 0
                });
            },
        );
    }
}

#[test]
fn idle_waits_against_irqs_suspends_and_wake_vectors() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let (irq, trigger) = on.new_irq().expect("a descriptor");
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let bound = on
            .bind_irq(&irq, move |outcome: Result<IrqEvent<'_>, Status>| {
                if let Ok(event) = outcome {
                    counted.fetch_add(event.count() as usize, Ordering::Relaxed);
                    event.ack();
                }
            })
            .expect("free");
        driver.register_wake_vector(&irq, Interest::READABLE).expect("it has an identity").keep();
        driver.set_resume_requester(|driver| _ = driver.resume());
        let again = driver.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200 {
                    trigger.trigger();
                    std::thread::yield_now();
                }
            });
            scope.spawn(|| {
                for _ in 0..200 {
                    let _ = again.suspend(|_| ());
                    std::thread::yield_now();
                }
            });
            for _ in 0..100 {
                on.wait_until_idle(HANG_LIMIT).expect("it becomes idle");
                world.runtime().wait_until_idle(HANG_LIMIT).expect("it becomes idle");
            }
        });
        driver.resume();
        world.wait_until("all triggers", || count.load(Ordering::Relaxed) == 200);
        assert!(bound.unbind().is_ok());
    });
}

#[test]
fn calls_from_both_ends_with_limits_and_a_peer_that_closes() {
    on_pools(|world| {
        for round in 0..20 {
            let (one, two) = (world.driver("one"), world.driver("two"));
            let ons = [
                dispatcher(&one, DispatcherBuilder::new()),
                dispatcher(&two, DispatcherBuilder::new().unsynchronized()),
            ];
            let (a, b) = Channel::pair_with(Limits::default().messages(1 + round % 3));
            let ends = [Arc::new(Mutex::new(Some(Arc::new(a)))), Arc::new(Mutex::new(Some(Arc::new(b))))];
            let ended = Arc::new(AtomicUsize::new(0));
            let begun = Arc::new(AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for side in 0..2 {
                    let (ends, ons, ended, begun) = (&ends, &ons, &ended, &begun);
                    scope.spawn(move || {
                        for n in 0..200 {
                            let Some(end) = ends[side].lock().expect("nobody panics here").clone() else { break };
                            let counted = Arc::clone(ended);
                            match end.begin_call(&ons[side], Message::new(), Instant::INFINITE, move |_| {
                                _ = counted.fetch_add(1, Ordering::Relaxed)
                            }) {
                                Ok(handle) => {
                                    begun.fetch_add(1, Ordering::Relaxed);
                                    if n % 7 == 0 && handle.cancel().is_ok() {
                                        ended.fetch_add(1, Ordering::Relaxed);
                                    }
                                }
                                Err(refused) => {
                                    let (status, (_message, handler)) = (refused.status(), refused.into_inner());
                                    drop(handler);
                                    assert!(
                                        matches!(status, Status::ShouldWait | Status::PeerClosed | Status::Unavailable),
                                        "{status}"
                                    );
                                }
                            }
                            while let Ok(message) = end.try_read() {
                                let _ = end.write(message.recycle(0));
                            }
                            if side == 1 && n == 100 + round {
                                *ends[1].lock().expect("nobody panics here") = None;
                            }
                            if side == 0 && n == 150 && round % 2 == 0 {
                                ons[0].shutdown_async();
                            }
                        }
                    });
                }
            });
            ends.iter().for_each(|end| *end.lock().expect("nobody panics here") = None);
            world.wait_until("all calls to end", || ended.load(Ordering::Relaxed) == begun.load(Ordering::Relaxed));
        }
    });
}

#[test]
fn a_token_on_a_suspended_dispatcher() {
    for ending in 0..5 {
        for first in [false, true] {
            on_every_pool(|world| {
                let driver = world.driver("driver");
                let on = dispatcher(&driver, DispatcherBuilder::new());
                let (one, two) = Token::pair();
                let (near, far) = Channel::pair();
                let log = Log::new();
                let told = log.clone();
                suspend(world, &driver);
                let mut two = Some(two);
                let mut far = Some(far);
                if first {
                    two.take().expect("it is there").transfer(far.take().expect("it is there")).expect("it waits");
                }
                let handle =
                    one.register(&on, move |outcome| told.add(format!("{:?}", outcome.map(drop)))).expect("it runs");
                world.settle();
                assert!(log.is_empty());
                let mut transferred = first;
                match ending {
                    0 => {
                        if let (Some(two), Some(far)) = (two.take(), far.take()) {
                            two.transfer(far).expect("it waits");
                            transferred = true
                        }
                    }
                    1 => {
                        if let (Some(two), Some(far)) = (two.take(), far.take()) {
                            two.transfer(far).expect("it waits");
                            transferred = true
                        }
                        on.shutdown_async();
                    }
                    2 => drop(two.take()),
                    3 => assert!(handle.cancel().is_ok()),
                    _ => driver.shutdown(|| ()).expect("once"),
                }
                world.settle();
                driver.resume();
                world.settle();
                world.wait_until("the end", || ending == 3 || !log.is_empty());
                let expected = match ending {
                    0 => vec!["Ok(())"],
                    1 => vec!["Ok(())"],
                    4 if transferred => vec!["Ok(())"],
                    4 => vec!["Err(Canceled)"],
                    2 if transferred => vec!["Ok(())"],
                    2 => vec!["Err(Canceled)"],
                    _ => vec![],
                };
                assert_eq!(log.take(), expected, "{ending} {first}");
                drop(far);
                assert!(near.is_peer_closed());
            });
        }
    }
}

#[test]
fn a_runtime_dropped_on_its_own_thread_while_suspended() {
    for threads in [1, 2, 8] {
        for pinned in [false, true] {
            let runtime = RuntimeBuilder::new().threads(threads).build().expect("threads");
            let driver = runtime.new_driver("driver");
            let (sender, receiver) = channel();
            let observed = sender.clone();
            let mut builder =
                DispatcherBuilder::new().shutdown_observer(move || observed.send("observer").expect("awaited"));
            if pinned {
                builder = builder.no_thread_migration();
            }
            let on = dispatcher(&driver, builder);
            let asked = sender.clone();
            driver
                .suspend(move |outcome| asked.send(if outcome.is_ok() { "suspended" } else { "no" }).expect("awaited"))
                .expect("once");
            assert_eq!(common::within(&receiver, "suspend"), "suspended");
            let parked = sender.clone();
            on.post_task(move |outcome| {
                parked.send(if outcome.is_ok() { "ran" } else { "canceled" }).expect("awaited")
            })
            .expect("accepted");
            drop(driver);
            let gone = sender.clone();
            let own = on.clone();
            on.always_on()
                .post_task(move |_| {
                    drop(runtime);
                    gone.send(if own.always_on().post_task(|_| ()).is_err() { "refused" } else { "accepted" })
                        .expect("awaited");
                })
                .expect("accepted");
            assert_eq!(common::within(&receiver, "x"), "refused");
            assert_eq!(common::within(&receiver, "x"), "canceled");
            assert_eq!(common::within(&receiver, "x"), "observer");
            drop(on);
        }
    }
}

#[test]
fn many_roles() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("threads");
    let driver = runtime.new_driver("driver");
    for n in 0..10_000 {
        runtime.role(format!("setting {n}")).set_no_sync_calls(true).expect("nobody uses it");
    }
    let mut kept = Vec::new();
    for n in 0..300 {
        let on =
            driver.new_dispatcher(DispatcherBuilder::new().scheduler_role(format!("r{n}"))).expect("there are threads");
        on.post_task(|_| ()).expect("it runs");
        if n % 3 == 0 {
            kept.push(on);
        }
    }
    runtime.shutdown(HANG_LIMIT).expect("it ends");
    assert!(runtime.counters().add_up());
}

#[test]
fn a_bound_value_on_a_suspended_driver_at_shutdown() {
    for ending in 0..3 {
        on_every_pool_with(
            || RuntimeBuilder::new().panic_policy(PanicPolicy::Continue),
            |world| {
                let driver = world.driver("driver");
                let log = Log::new();
                let observed = log.clone();
                let on =
                    dispatcher(&driver, DispatcherBuilder::new().shutdown_observer(move || observed.add("observer")));
                struct Value(Log);
                impl Drop for Value {
                    fn drop(&mut self) {
                        self.0.add(format!("dropped {}", current().is_some()));
                        panic!("on purpose");
                    }
                }
                let told = log.clone();
                let bound = DispatcherBound::new(&on, move || Value(told)).expect("it runs");
                world.settle();
                suspend(world, &driver);
                let mut call = bound.call_for(|_| 1).expect("accepted");
                bound.async_call(|_| unreachable!()).expect("accepted");
                world.settle();
                assert!(call.try_take().is_none());
                match ending {
                    0 => on.shutdown_async(),
                    1 => {
                        drop(bound);
                        world.settle();
                        assert!(log.is_empty());
                        driver.shutdown(|| ()).expect("once");
                    }
                    _ => world.shutdown(),
                }
                let mut all = Vec::new();
                world.wait_until("the end", || {
                    all.extend(log.take());
                    all.len() >= 2
                });
                assert_eq!(all, ["dropped true", "observer"]);
                assert!(call.try_take().expect("told").expect_err("canceled").is_canceled());
            },
        );
    }
}

#[test]
fn a_driver_shut_down_inside_of_an_irq_handler() {
    for unbind in [false, true] {
        for unsynchronized in [false, true] {
            on_every_pool(|world| {
                let driver = world.driver("driver");
                let log = Log::new();
                let observed = log.clone();
                let mut builder = DispatcherBuilder::new().shutdown_observer(move || observed.add("observer"));
                if unsynchronized {
                    builder = builder.unsynchronized();
                }
                let on = dispatcher(&driver, builder);
                let (irq, trigger) = on.new_irq().expect("a descriptor");
                let (told, own, end) =
                    (log.clone(), Arc::new(Mutex::new(None::<fuchsine_dispatcher::IrqHandle>)), driver.clone());
                let kept = Arc::clone(&own);
                let again = trigger.clone();
                let handle = on
                    .bind_irq(&irq, move |outcome: Result<IrqEvent<'_>, Status>| {
                        told.add(format!("{:?}", outcome.as_ref().map(|event| event.count()).map_err(|e| *e)));
                        if let Ok(event) = outcome {
                            again.trigger();
                            let observed = told.clone();
                            end.shutdown(move || observed.add("driver")).expect("once");
                            event.ack();
                            if unbind {
                                told.add(format!(
                                    "{:?}",
                                    kept.lock()
                                        .expect("nobody panics here")
                                        .take()
                                        .expect("it is there")
                                        .unbind()
                                        .map(|u| u.is_running())
                                ));
                            }
                        }
                    })
                    .expect("free");
                *own.lock().expect("nobody panics here") = Some(handle);
                trigger.trigger();
                world.wait_until("the end", || driver.is_shut_down());
                let expected = if unbind {
                    vec!["Ok(1)", "Ok(true)", "observer", "driver"]
                } else {
                    vec!["Ok(1)", "Err(Canceled)", "observer", "driver"]
                };
                assert_eq!(log.take(), expected);
                assert!(dispatcher(&world.driver("next"), DispatcherBuilder::new()).bind_irq(&irq, |_| ()).is_ok());
            });
        }
    }
}
