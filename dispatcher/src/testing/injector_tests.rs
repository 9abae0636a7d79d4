//! Goal: something goes wrong at every moment of a scenario, and each run is judged: what is right passes, what is not is
//! reported with the moment, the callback and the way to see it again.
//! Method: small scenarios whose moments can be counted by hand, and small mistakes.

use std::time::Duration;

use super::*;
use crate::channel::{Channel, Message};
use crate::runtime::{DispatcherBuilder, DispatcherHandle};
use crate::status::Status;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::probe;
use crate::testing::busy::{busy, busy_and_suspended};
use crate::testing::director::Listener;
use crate::testing::{Explorer, ForegroundRuntime, Target};

/// A dispatcher of its own driver, unless that was refused.
fn dispatcher_of(runtime: &ForegroundRuntime, name: &str) -> Option<DispatcherHandle> {
    let dispatcher = runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name("main"));
    match dispatcher {
        Ok(dispatcher) => Some(dispatcher.release()),
        Err(_) => {
            assert!(runtime.was_injected());
            None
        }
    }
}

/// Two drivers that send each other messages; everything is looked at.
fn ping_pong(runtime: &ForegroundRuntime) {
    let (Some(ping), Some(pong)) = (dispatcher_of(runtime, "ping"), dispatcher_of(runtime, "pong")) else { return };
    let (near, far) = Channel::pair();
    let near = Arc::new(near);
    let answering = far.begin_read(&pong, |_| ());
    let _timer = ping.post_after(Duration::from_secs(1), |_| ());
    let writer = Arc::clone(&near);
    let posted = ping.post_task(move |outcome| {
        if outcome.is_ok() {
            let _ = writer.write(Message::from_bytes(b"ping"));
        }
    });
    drop(ping.spawn(async { crate::sleep(Duration::from_secs(2)).await }));
    runtime.run_until_idle();
    runtime.advance(Duration::from_secs(3));
    if !runtime.was_injected() {
        assert!(posted.is_ok() && answering.is_ok());
        assert_eq!(far.try_read().expect("it was written").bytes(), b"ping");
    }
}

#[test]
fn a_shutdown_at_any_step_of_something_right_passes() {
    for target in [Target::runtime(), Target::driver("ping"), Target::driver("pong"), Target::dispatcher("main")] {
        let injector = Injector::new().explorer(Explorer::new().seeds(5));
        let injected = injector.shutdown(target, ping_pong);
        assert_eq!(injected.schedules, 5);
        assert!(injected.injections > 50, "{injected:?}");
    }
}

/// Callbacks of all kinds on dispatchers of each sort.
fn everything(runtime: &ForegroundRuntime) {
    for (name, make) in [
        ("synchronized", DispatcherBuilder::new as fn() -> DispatcherBuilder),
        ("unsynchronized", || DispatcherBuilder::new().unsynchronized()),
        ("blocking", || DispatcherBuilder::new().allow_sync_calls()),
    ] {
        let driver = runtime.new_driver(name);
        let made = driver.new_dispatcher(make().name("main"));
        assert!(made.is_ok() || runtime.was_injected());
        let Ok(dispatcher) = made else { continue };
        if name == "blocking" {
            busy_and_suspended(runtime, &driver, &dispatcher);
        } else {
            drop(busy(runtime, &dispatcher));
        }
    }
}

#[test]
fn an_end_of_any_kind_at_any_moment_of_everything_keeps_all_promises() {
    let injector = || Injector::new().explorer(Explorer::new().seeds(30)).one_step_a_seed();
    for target in [Target::runtime(), Target::driver("synchronized"), Target::dispatcher("main")] {
        // A driver is gone with its dispatcher, so there is often no such target.
        assert!(injector().shutdown(target, everything).injections > 0);
    }
    assert!(injector().panics(everything).injections > 8);
    for op in [Fallible::Dispatcher, Fallible::Thread, Fallible::Registration, Fallible::Write] {
        assert!(injector().refusals(op, everything).injections > 8, "{op}");
    }
}

#[test]
fn steps_before_there_is_such_a_target_are_counted_apart() {
    let injected = shutdown_at_every_step(ping_pong, Target::driver("ping"));
    assert!(injected.missed <= 2 && injected.injections > 10, "{injected:?}");
}

#[test]
fn a_target_that_is_never_there_is_a_failure() {
    let never = "never begins: ";
    for target in [Target::driver("nobody"), Target::dispatcher("nothing"), Target::custom("what nobody has told")] {
        let whole = Injector::new().try_shutdown(target.clone(), ping_pong).expect_err("it shows nothing");
        assert!(whole.message.starts_with(&format!("{target} {never}")), "{whole}");
        assert!(whole.to_string().contains("makes driver ping"), "{whole}");
        let explorer = Explorer::new().seeds(20);
        let sparse = Injector::new().explorer(explorer).one_step_a_seed().try_shutdown(target.clone(), ping_pong);
        assert!(sparse.expect_err("it shows nothing").message.contains(never));
        let explorer = Explorer::new().only(Schedule::from(3));
        let one = Injector::new().explorer(explorer).try_shutdown(target, ping_pong);
        assert!(one.expect_err("it shows nothing").message.contains(never));
    }
}

/// Runs that could show nothing do not pass.
#[test]
fn nothing_to_inject_into_is_a_failure_that_says_so() {
    let found = |found: Result<Injected, Box<Failure>>| found.expect_err("it shows nothing").to_string();
    let idle = |_: &ForegroundRuntime| ();
    let no_step = found(Injector::new().try_shutdown(Target::runtime(), |_| ()));
    assert!(no_step.starts_with("the shutdown of the runtime never begins: the scenario has no step"), "{no_step}");
    let no_callback = found(Injector::new().try_panics(idle));
    assert!(no_callback.starts_with("nothing has panicked: no callback begins in the scenario"), "{no_callback}");
    for sparse in [Injector::new(), Injector::new().explorer(Explorer::new().seeds(5)).one_step_a_seed()] {
        let none = found(sparse.try_refusals(Fallible::Thread, ping_pong));
        assert!(none.starts_with("a refused thread was never injected: the scenario asks for nothing of"), "{none}");
    }
    let no_seed = Injector::new().explorer(Explorer::new().seeds(7..7)).try_panics(ping_pong);
    assert!(found(no_seed).starts_with("nothing was explored: there is no seed in 7..7"));
}

#[test]
fn a_moment_after_the_end_is_a_failure_that_says_so() {
    let (injector, mut injected) = (Injector::new(), Injected::default());
    let what = What::Shutdown(Target::runtime());
    let mut at = |moment| injector.one_moment(&what, &Schedule::from(0), moment, &ping_pong, &mut injected);
    let found = at(999_999).expect_err("there are not so many").to_string();
    assert!(found.starts_with("nothing was injected: schedule 0 has "), "{found}");
    assert!(at(1).is_ok());
    assert_eq!(injected.injections, 1);
}

/// A scenario that is another one at each run: what a moment is of one run it is not of the next.
#[test]
fn a_run_that_takes_another_course_before_its_moment_is_no_run_of_it() {
    let runs = AtomicU64::new(0);
    let changing = |runtime: &ForegroundRuntime| {
        let nth = runs.fetch_add(1, Ordering::Relaxed);
        let dispatchers = [dispatcher_of(runtime, "one"), dispatcher_of(runtime, "other")];
        for dispatcher in dispatchers.iter().flatten().take(2 - (nth % 2) as usize) {
            let _ = dispatcher.post_task(|_| ());
        }
        runtime.run_until_idle();
    };
    let injector = || Injector::new().explorer(Explorer::new().seeds(40..41));
    let whole = injector().try_shutdown(Target::runtime(), changing).expect_err("it is another one each time");
    assert!(whole.message.contains("not deterministic"), "{whole}");
    let sparse = injector().one_step_a_seed().try_shutdown(Target::runtime(), changing).expect_err("as above");
    assert!(sparse.message.contains("not deterministic"), "{sparse}");
}

/// A scenario that is the same one in its first schedules, and then another one at each run: each of many seeds is not
/// compared, a sample of them is.
#[test]
fn with_one_step_a_seed_a_sample_of_the_seeds_is_run_twice() {
    let runs = AtomicU64::new(0);
    let changing = |runtime: &ForegroundRuntime| {
        let nth = runs.fetch_add(1, Ordering::Relaxed);
        let Some(dispatcher) = dispatcher_of(runtime, "one") else { return };
        (0..if nth < 8 { 1 } else { nth }).for_each(|_| drop(dispatcher.post_task(|_| ())));
        runtime.run_until_idle();
    };
    let sparse = |explorer: Explorer| {
        runs.store(0, Ordering::Relaxed);
        Injector::new().explorer(explorer).one_step_a_seed().try_shutdown(Target::runtime(), changing)
    };
    let found = sparse(Explorer::new().seeds(20)).expect_err("it is another one each time");
    assert!(found.message.contains("not deterministic"), "{found}");
    sparse(Explorer::new().seeds(20).check_determinism(false)).expect("nobody looks");
}

/// The custom action has to wait while somebody stands aside. Here somebody does to the end.
#[test]
fn what_is_put_off_to_the_end_does_not_count_as_injected() {
    let scene = Arc::<Mutex<Scene>>::default();
    let runtime = ForegroundRuntime::new();
    let mut trigger = Trigger {
        what: What::Shutdown(Target::custom("it")),
        moment: 1,
        scene: Arc::clone(&scene),
        runtime: (*runtime).clone(),
        injection: Arc::clone(runtime.injection()),
        is_pending: false,
    };
    runtime.on_injection(|| ());
    /// Somebody always stands aside.
    struct Interrupted;
    impl probe::Probe for Interrupted {
        fn choose(&self, _: probe::Choice, _: usize) -> usize {
            0
        }
        fn turn(&self, _: crate::sync::Weak<dyn probe::Others>) {}
        fn next(&self, _: &[probe::Actor]) -> usize {
            0
        }
        fn point(&self, _: probe::Point) {}
        fn note(&self, _: probe::Note) {}
        fn panicked(&self, _: &str, _: Option<&std::panic::Location<'_>>) {}
        fn is_interrupted(&self) -> bool {
            true
        }
    }
    let attached = probe::attach(Some(Arc::new(Interrupted) as Arc<dyn probe::Probe>));
    trigger.turn(1);
    trigger.turn(2);
    let (due, injected) = {
        let scene = scene.lock();
        (scene.due, scene.injected.clone())
    };
    assert_eq!((due, injected), (Some(1), None));
    drop(attached);
    trigger.turn(3);
    assert_eq!(scene.lock().injected, Some((3, "\"it\" begins between two turns".to_owned())));
}

#[test]
fn one_step_of_each_seed_is_another_one_each_time() {
    let injector = Injector::new().explorer(Explorer::new().seeds(200)).one_step_a_seed();
    let injected = injector.shutdown(Target::runtime(), ping_pong);
    assert_eq!(injected.schedules, 200);
    assert!(injected.injections > 150, "{injected:?}");
}

#[test]
fn a_custom_target_is_what_the_scenario_says() {
    let asked = AtomicU64::new(0);
    let injected = shutdown_at_every_step(
        |runtime| {
            let Some(dispatcher) = dispatcher_of(runtime, "lamp") else { return };
            let (handle, driver) = (dispatcher.clone(), runtime.new_driver("helper"));
            runtime.on_injection(move || {
                let _ = driver.shutdown(move || drop(handle));
            });
            let _ = dispatcher.post_task(|_| ());
            runtime.run_until_idle();
            asked.fetch_add(u64::from(runtime.was_injected()), Ordering::Relaxed);
        },
        Target::custom("stop the helper"),
    );
    assert_eq!(asked.load(Ordering::Relaxed), injected.injections);
    assert!(injected.injections >= 4, "{injected:?}");
}

#[test]
fn a_panic_is_injected_into_each_callback_once() {
    let injected = panic_at_every_callback(|runtime| {
        let Some(dispatcher) = dispatcher_of(runtime, "lamp") else { return };
        for _ in 0..3 {
            let _ = dispatcher.post_task(|_| ());
        }
        let _ = dispatcher.post_after(Duration::from_secs(1), |_| ());
        runtime.advance(Duration::from_secs(1));
    });
    assert_eq!((injected.schedules, injected.injections, injected.missed), (1, 4, 0));
    panic_at_every_callback(ping_pong);
}

#[test]
fn everything_that_can_be_refused_is_refused_once() {
    let count = |op: Fallible| fail_every(op, ping_pong).injections;
    assert_eq!(count(Fallible::Dispatcher), 2);
    assert_eq!(count(Fallible::Write), 1);
    let injected = fail_every(Fallible::Registration, |runtime| {
        let Some(dispatcher) = dispatcher_of(runtime, "lamp") else { return };
        let event = crate::sys::sim::Event::new();
        let waiting = dispatcher.begin_wait(&event, crate::sys::Interest::READABLE, |_| ());
        assert_eq!(waiting.is_err(), runtime.was_injected());
    });
    assert_eq!(injected.injections, 1);
    let injected = fail_every(Fallible::Thread, |runtime| {
        let Some(dispatcher) = dispatcher_of(runtime, "lamp") else { return };
        let refused = dispatcher.offload(crate::event_loop::Lane::Fast, |_| (), |_| ());
        assert_eq!(refused.err().map(|error| error.status()), runtime.was_injected().then_some(Status::NoResources));
    });
    assert_eq!(injected.injections, 1);
}

/// A driver that answers a request in a later callback, and forgets the request when that is canceled.
fn forgetful(runtime: &ForegroundRuntime) {
    let Some(dispatcher) = dispatcher_of(runtime, "forgetful") else { return };
    let answered = Arc::new(AtomicU64::new(0));
    let answer = Arc::clone(&answered);
    let posted = dispatcher.post_task(move |outcome| {
        // If it is canceled, it should say that there is no answer.
        if outcome.is_ok() {
            answer.fetch_add(1, Ordering::Relaxed);
        }
    });
    runtime.run_until_idle();
    if posted.is_ok() {
        let _ = runtime.shutdown();
        assert_eq!(answered.load(Ordering::Relaxed), 1, "the request was answered");
    }
}

#[test]
fn a_request_that_is_forgotten_in_a_shutdown_is_found_and_the_report_says_where_and_how_to_see_it_again() {
    let failure = Injector::new().try_shutdown(Target::driver("forgetful"), forgetful).expect_err("it is forgotten");
    let text = failure.to_string();
    assert!(failure.message.contains("the request was answered"), "{text}");
    let injected = failure.injected.as_deref().expect("something was injected");
    assert!(injected.starts_with("the shutdown of driver \"forgetful\" begins "), "{text}");
    let moment = failure.moment.expect("it had a moment");
    assert!(text.contains(&format!("FUCHSINE_SEED=0@{moment}\n")), "{text}");
}

#[test]
fn a_callback_that_relies_on_its_posts_is_found_with_the_callback_in_which_it_was() {
    let failure = Injector::new()
        .try_shutdown(Target::runtime(), |runtime| {
            let Some(dispatcher) = dispatcher_of(runtime, "chain") else { return };
            let next = dispatcher.clone();
            let _ = dispatcher.post_task(move |outcome| {
                if outcome.is_ok() {
                    next.post_task(|_| ()).expect("a post is never refused");
                }
            });
            runtime.run_until_idle();
        })
        .expect_err("a shutdown begins before the second post");
    let text = failure.to_string();
    assert!(failure.message.contains("a post is never refused"), "{text}");
    let injected = failure.injected.as_deref().expect("something was injected");
    assert!(injected.contains(", in task of ") && injected.contains("injector_tests.rs"), "{text}");
    assert!(injected.contains("dispatcher \"main\" of driver \"chain\""), "{text}");
}

#[test]
fn what_leaks_is_listed_with_the_line_where_it_was_made() {
    let failure = Injector::new()
        .try_panics(|_| {
            std::mem::forget(Channel::pair());
        })
        .expect_err("two ends are left");
    let text = failure.to_string();
    assert!(failure.message.starts_with("2 things are left at the end of the run:\n  channel end made at "), "{text}");
    assert!(failure.message.contains("injector_tests.rs"), "{text}");
}

#[test]
fn a_shutdown_that_takes_too_long_is_found() {
    let scenario = |runtime: &ForegroundRuntime| {
        let Some(dispatcher) = dispatcher_of(runtime, "slow") else { return };
        let other = dispatcher_of(runtime, "other");
        for _ in 0..20 {
            let _ = dispatcher.post_task(|_| ());
            let _ = other.as_ref().map(|other| other.post_task(|_| ()));
        }
        runtime.run_until_idle();
    };
    let bound = |steps| Injector::new().bound(steps).try_shutdown(Target::driver("slow"), scenario);
    assert!(bound(100).is_ok());
    let failure = bound(5).expect_err("twenty callbacks are canceled, and others run meanwhile");
    assert!(failure.message.contains("the shutdown of driver \"slow\" is not over after 5 steps"), "{failure}");
}
