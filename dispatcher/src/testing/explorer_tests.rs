//! Goal: an exploration finds what depends on the order of things, says where, and says the same again.
//! Method: scenarios with a planted mistake, and their correct twins.

use std::time::Duration;

use super::director::{Director, Listener};
use super::strategy::Replay;
use super::{Explorer, Failure, ForegroundRuntime, Seeds, Strategy, explore};
use crate::runtime::{Dispatcher, DispatcherBuilder};
use crate::sync::{Arc, Mutex, probe};

fn dispatcher(runtime: &ForegroundRuntime, driver: &str, builder: DispatcherBuilder) -> Dispatcher {
    runtime.new_driver(driver).new_dispatcher(builder.name("main")).expect("it has what it needs")
}

/// Two dispatchers add to a number that each reads before it posts and writes afterwards.
fn lost_update(runtime: &ForegroundRuntime, is_locked: bool) {
    let number = Arc::new(Mutex::new(0));
    let dispatchers =
        [dispatcher(runtime, "left", DispatcherBuilder::new()), dispatcher(runtime, "right", DispatcherBuilder::new())];
    for one in &dispatchers {
        let (number, log) = (Arc::clone(&number), one.handle());
        let added = one.post_task(move |_| {
            if is_locked {
                *number.lock() += 1;
                log.post_task(|_| ()).expect("it is running");
            } else {
                let read = *number.lock();
                log.post_task(|_| ()).expect("it is running");
                *number.lock() = read + 1;
            }
        });
        added.expect("it is running");
    }
    runtime.run_until_idle();
    assert_eq!(*number.lock(), 2, "an update is lost");
}

/// Posts to an unsynchronized dispatcher and expects the callbacks in the order of the posts.
fn order_of_an_unsynchronized_one(runtime: &ForegroundRuntime, builder: DispatcherBuilder) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let dispatcher = dispatcher(runtime, "pair", builder);
    for nth in 0..2 {
        let log = Arc::clone(&log);
        dispatcher.post_task(move |_| log.lock().push(nth)).expect("it is running");
    }
    runtime.run_until_idle();
    assert_eq!(*log.lock(), [0, 1], "the order has changed");
}

fn failure(explorer: Explorer, scenario: impl Fn(&ForegroundRuntime)) -> Box<Failure> {
    explorer.try_explore(scenario).expect_err("it is found")
}

#[test]
fn an_update_that_is_lost_between_two_dispatchers_is_found() {
    let found = failure(Explorer::new().seeds(200), |runtime| lost_update(runtime, false));
    assert!(found.message.contains("an update is lost"), "{found}");
    explore(1000, |runtime| lost_update(runtime, true));
}

/// Each callback posts while it holds a lock that the other one wants: who waits for it waits for one who stands aside.
#[test]
fn a_lock_that_is_held_over_a_point_stops_nobody_for_ever() {
    let dispatchers = [DispatcherBuilder::new, || DispatcherBuilder::new().unsynchronized()];
    Explorer::new().seeds(60).strategy(Strategy::Pct { preemptions: 3 }).explore(|runtime| {
        let number = Arc::new(Mutex::new(0));
        for builder in dispatchers {
            let dispatcher = dispatcher(runtime, "holder", builder()).release();
            for _ in 0..2 {
                let (number, home) = (Arc::clone(&number), dispatcher.clone());
                let added = dispatcher.post_task(move |_| {
                    let mut number = number.lock();
                    home.post_task(|_| ()).expect("it is running");
                    *number += 1;
                });
                added.expect("it is running");
            }
        }
        assert!(runtime.run_until_condition(|| *number.lock() == 4));
    });
}

#[test]
fn the_order_of_an_unsynchronized_dispatcher_is_no_order() {
    let unsynchronized = || DispatcherBuilder::new().unsynchronized();
    let found = failure(Explorer::new().overlap(false), |runtime| {
        order_of_an_unsynchronized_one(runtime, unsynchronized());
    });
    assert!(found.message.contains("the order has changed"), "{found}");
    explore(1000, |runtime| order_of_an_unsynchronized_one(runtime, DispatcherBuilder::new()));
}

#[test]
fn a_schedule_that_failed_fails_again_with_the_same_trace() {
    let scenario = |runtime: &ForegroundRuntime| lost_update(runtime, false);
    let found = failure(Explorer::new(), scenario);
    for schedule in [found.schedule.to_string(), found.shrunk.to_string()] {
        let again = failure(Explorer::new().only(schedule.parse().unwrap()), scenario);
        assert_eq!((again.step, &again.message), (found.step, &found.message), "{again}");
        assert_eq!(again.trace, found.trace);
        assert_eq!(again.pending, found.pending);
    }
}

/// Deadlines so far apart that they lie in different parts of the reactor's table, and equal ones.
#[test]
fn timers_of_a_dispatcher_keep_their_order_whatever_the_schedule() {
    explore(300, |runtime| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let dispatcher = dispatcher(runtime, "clock", DispatcherBuilder::new());
        for (nth, delay) in [33, 1, 20, 1, 50].into_iter().enumerate() {
            let log = Arc::clone(&log);
            let at = runtime.now() + Duration::from_millis(delay);
            let _timer = dispatcher.post_at(at, move |_| log.lock().push(nth)).expect("it is running");
        }
        runtime.clock().advance_to(runtime.now() + Duration::from_millis(60));
        runtime.run_until_idle();
        assert_eq!(*log.lock(), [1, 3, 2, 0, 4]);
    });
}

#[test]
fn a_panic_of_a_callback_fails_the_schedule_unless_it_is_allowed() {
    let scenario = |runtime: &ForegroundRuntime| {
        let dispatcher = dispatcher(runtime, "fragile", DispatcherBuilder::new());
        dispatcher.post_task(|_| panic!("it broke")).expect("it is running");
        runtime.run_until_idle();
    };
    let found = failure(Explorer::new(), scenario);
    assert!(found.message.starts_with("a callback panicked: it broke, at "), "{found}");
    assert!(found.trace.to_string().contains("panics on fragile/main"), "{found}");
    Explorer::new().allow_panics().explore(scenario);
}

/// Counts what it is told, shuts the runtime down at one step, and finds fault at the end.
struct Meddler {
    runtime: crate::runtime::Runtime,
    told: Arc<Mutex<(u64, u64)>>,
    at: u64,
    is_over: bool,
}

impl Listener for Meddler {
    fn point(&mut self, step: u64, _point: probe::Point) {
        self.told.lock().0 += 1;
        self.turn(step);
    }

    fn turn(&mut self, step: u64) {
        if step == self.at {
            self.runtime.shutdown_async();
        }
    }

    fn note(&mut self, _step: u64, _note: &probe::Note) {
        self.told.lock().1 += 1;
    }

    fn end(&mut self, _step: u64) {
        self.is_over = true;
    }

    fn broken(&mut self) -> Option<String> {
        self.is_over.then(|| "it came to its end".to_owned())
    }
}

#[test]
fn a_listener_may_do_anything_at_a_point_and_fails_a_run() {
    let told = Arc::new(Mutex::new((0, 0)));
    let explorer = Explorer::new();
    for at in 1..8 {
        let meddle = |runtime: &ForegroundRuntime, director: &Arc<Director>| {
            let meddler = Meddler { runtime: (**runtime).clone(), told: Arc::clone(&told), at, is_over: false };
            director.listen(Box::new(meddler));
        };
        let ran = explorer.run(Box::new(Replay::new(Vec::new())), true, None, &meddle, &|runtime| {
            let dispatcher = dispatcher(runtime, "meddled", DispatcherBuilder::new());
            let home = dispatcher.handle();
            // Refused after the shutdown.
            let _ = dispatcher.post_task(move |_| drop(home.post_task(|_| ())));
            runtime.run_until_idle();
        });
        let broken = ran.broken.expect("it finds fault");
        assert_eq!(broken.message, "it came to its end", "{}", ran.recorder.trace());
    }
    assert!(told.lock().0 > 0);
}

#[test]
fn a_run_without_end_fails() {
    fn again(home: crate::runtime::DispatcherHandle) {
        let next = home.clone();
        // Refused at the end, which is an end too.
        let _ = home.post_task(move |outcome| outcome.into_iter().for_each(|()| again(next.clone())));
    }
    let found = failure(Explorer::new().max_steps(500), |runtime| {
        again(dispatcher(runtime, "mill", DispatcherBuilder::new()).release());
        runtime.run_until_idle();
    });
    assert!(found.message.contains("not at its end after 500 steps"), "{found}");
    // The report is one that can be read.
    let (whole, shown) = (found.trace.lines().len(), found.trace.to_string());
    assert!(whole > 450, "{whole} lines");
    assert_eq!(shown.lines().count(), 401);
    assert!(shown.contains(&format!("… {} lines are left out here", whole - 400)), "{shown}");
    assert!(shown.ends_with(&format!("{}\n", found.trace.lines()[whole - 1])), "{shown}");
}

#[test]
fn a_scenario_that_is_not_deterministic_is_reported_as_such() {
    let calls = Mutex::new(0);
    let found = failure(Explorer::new().check_determinism(true), |runtime| {
        *calls.lock() += 1;
        let dispatchers = ["one", "other"].map(|name| dispatcher(runtime, name, DispatcherBuilder::new()));
        let posts = if *calls.lock() % 2 == 0 { 1 } else { 2 };
        dispatchers.iter().take(posts).for_each(|one| one.post_task(|_| ()).expect("it is running"));
        runtime.run_until_idle();
    });
    assert!(found.message.contains("not deterministic: at step"), "{found}");
}

/// The first schedule is run twice unless somebody says otherwise.
#[test]
fn a_scenario_that_is_another_one_each_time_is_found_at_once() {
    let calls = Mutex::new(0);
    let changing = |runtime: &ForegroundRuntime| {
        *calls.lock() += 1;
        let dispatcher = dispatcher(runtime, "one", DispatcherBuilder::new());
        (0..*calls.lock() % 2).for_each(|_| dispatcher.post_task(|_| ()).expect("it is running"));
        runtime.run_until_idle();
    };
    let found = failure(Explorer::new(), changing);
    assert!(found.message.contains("not deterministic: at step") && found.passed == 0, "{found}");
    Explorer::new().check_determinism(false).explore(changing);
}

/// Which of several threads is quicker no schedule decides, so that such a run is not compared unless somebody says so.
#[test]
fn a_scenario_in_which_something_blocked_out_of_sight_is_another_one_each_time_and_passes() {
    let calls = Mutex::new(0);
    let changing = |runtime: &ForegroundRuntime| {
        *calls.lock() += 1;
        let [one, other] =
            ["one", "other"].map(|name| dispatcher(runtime, name, DispatcherBuilder::new().allow_sync_calls()));
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        (0..*calls.lock() % 2).for_each(|_| other.post_task(|_| ()).expect("it is running"));
        let posted = one.post_task(move |_| {
            other.post_task(move |_| drop(sender)).expect("it is running");
            assert!(receiver.recv().is_err());
        });
        posted.expect("it is running");
        runtime.run_until_idle();
    };
    assert_eq!(Explorer::new().seeds(0..1).explore(changing).schedules, 1);
    let found = failure(Explorer::new().seeds(0..1).check_determinism(true), changing);
    assert!(found.message.contains("not deterministic: at step"), "{found}");
}

#[test]
fn an_exploration_of_nothing_fails_and_says_so() {
    for seeds in [Seeds::from(0), Seeds::from(9..9)] {
        let found = failure(Explorer::new().seeds(seeds), |_| ());
        assert!(found.to_string().starts_with("nothing was explored: there is no seed in "), "{found}");
    }
    let found = failure(Explorer::new().strategy(Strategy::Exhaustive { limit: 0 }), |_| ());
    assert!(found.to_string().contains("the limit of the exhaustive search is 0"), "{found}");
}

/// Nothing can be said about a dispatcher that threads use which no schedule decides about.
#[test]
fn a_run_that_a_foreign_thread_takes_part_in_fails_unless_that_is_allowed_and_is_counted() {
    for shuts_down in [false, true] {
        let scenario = |runtime: &ForegroundRuntime| {
            let dispatcher = dispatcher(runtime, "shared", DispatcherBuilder::new());
            std::thread::scope(|scope| {
                scope.spawn(|| match shuts_down {
                    true => dispatcher.shutdown_async(),
                    false => dispatcher.post_task(|_| ()).expect("it is running"),
                });
            });
            runtime.run_until_idle();
        };
        let found = failure(Explorer::new().shrink(false), scenario).to_string();
        let what = if shuts_down { "shuts down" } else { "posts to" };
        let who = format!("a thread that is no part of it {what} dispatcher \"main\" of driver \"shared\"");
        assert!(found.contains("can be judged in part only") && found.contains(&who), "{found}");
        let explored = Explorer::new().allow_foreign_threads().seeds(5).explore(scenario);
        assert_eq!((explored.schedules, explored.partial), (5, 5), "{explored}");
    }
}

fn exhaust(explorer: Explorer, scenario: impl Fn(&ForegroundRuntime)) -> u64 {
    let explored = explorer.strategy(Strategy::Exhaustive { limit: 100_000 }).explore(scenario);
    assert!(explored.is_complete);
    explored.schedules
}

/// Shuts drivers down one after the other, so that nothing of that is left to be decided.
fn shut_down_in_turn(runtime: &ForegroundRuntime) {
    for driver in runtime.inner().drivers() {
        runtime.shutdown_driver(&crate::runtime::Driver::from_inner(driver));
    }
}

/// Five turns, of which two are those of the first dispatcher: C(5, 2) = 10 orders.
#[test]
fn two_dispatchers_with_two_and_three_posts_have_ten_schedules() {
    let orders = Mutex::new(std::collections::BTreeSet::new());
    let count = exhaust(Explorer::new(), |runtime| {
        let log = Arc::new(Mutex::new(Vec::new()));
        for (name, posts) in [("two", 2), ("three", 3)] {
            let dispatcher = dispatcher(runtime, name, DispatcherBuilder::new()).release();
            for _ in 0..posts {
                let log = Arc::clone(&log);
                dispatcher.post_task(move |_| log.lock().push(name)).expect("it is running");
            }
        }
        runtime.run_until_idle();
        orders.lock().insert(log.lock().clone());
        shut_down_in_turn(runtime);
    });
    assert_eq!((count, orders.lock().len()), (10, 10));
}

/// Each of the two callbacks has a part before its point and one after it. Orders of four parts in which the two of each
/// callback keep theirs: C(4, 2) = 6.
#[test]
fn two_unsynchronized_callbacks_with_a_point_each_have_six_schedules() {
    let orders = Mutex::new(std::collections::BTreeSet::new());
    let count = exhaust(Explorer::new(), |runtime| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let dispatcher = dispatcher(runtime, "pair", DispatcherBuilder::new().unsynchronized()).release();
        for name in ["a", "b"] {
            let log = Arc::clone(&log);
            let posted = dispatcher.post_task(move |_| {
                log.lock().push((name, 1));
                probe::point(probe::Point::Post);
                log.lock().push((name, 2));
            });
            posted.expect("it is running");
        }
        runtime.run_until_idle();
        orders.lock().insert(log.lock().clone());
        shut_down_in_turn(runtime);
    });
    assert_eq!((count, orders.lock().len()), (6, 6));
}

/// A writes to B's channel; a timer of C is due. The write may call B inline, the timer may call C inline.
///
/// - A first, 7. Inline: the timer is left, 2. Deferred: B and the timer are left. B first: 2 for the timer. The timer
///   first: inline, then B, 1; deferred, then B and C in either order, 2.
/// - The timer first, 7. Inline: A is left, 2. Deferred: A and C are left. C first: 2 for A. A first: inline, then C, 1;
///   deferred, then B and C in either order, 2.
#[test]
fn an_inline_call_and_a_timer_have_fourteen_schedules() {
    let count = exhaust(Explorer::new().overlap(false), |runtime| {
        let [a, b, c] = ["a", "b", "c"].map(|name| dispatcher(runtime, name, DispatcherBuilder::new()).release());
        let (write, read) = crate::channel::Channel::pair();
        read.begin_read(&b, |_| ()).expect("it is running");
        a.post_task(move |_| write.write(crate::channel::Message::from_bytes(b"x")).expect("it is read"))
            .expect("it is running");
        let _timer = c.post_after(Duration::from_millis(1), |_| ()).expect("it is running");
        runtime.clock().advance_to(runtime.now() + Duration::from_millis(1));
        runtime.run_until_idle();
        shut_down_in_turn(runtime);
    });
    assert_eq!(count, 14);
}

#[test]
fn what_fails_is_shrunk_to_the_picks_that_matter() {
    let scenario = |runtime: &ForegroundRuntime| {
        let noise = dispatcher(runtime, "noise", DispatcherBuilder::new()).release();
        (0..20).for_each(|_| noise.post_task(|_| ()).expect("it is running"));
        order_of_an_unsynchronized_one(runtime, DispatcherBuilder::new().unsynchronized());
    };
    let found = failure(Explorer::new().overlap(false), scenario);
    assert_eq!(found.shrunk.to_string(), "picks:0x2.1", "{found}");
    let long = failure(Explorer::new().overlap(false).shrink(false), scenario);
    assert_eq!((&long.schedule, &long.message), (&found.schedule, &found.message));
    assert!(long.trace.lines().len() >= found.trace.lines().len());
}

#[test]
fn a_call_that_is_relied_on_to_be_inline_is_found() {
    let scenario = |runtime: &ForegroundRuntime| {
        let [writer, reader] = ["writer", "reader"].map(|name| dispatcher(runtime, name, DispatcherBuilder::new()));
        let heard = Arc::new(Mutex::new(false));
        let (write, read) = crate::channel::Channel::pair();
        let hearing = Arc::clone(&heard);
        read.begin_read(&reader, move |_| *hearing.lock() = true).expect("it is running");
        let written = writer.post_task(move |_| {
            write.write(crate::channel::Message::from_bytes(b"x")).expect("it is read");
            assert!(*heard.lock(), "nobody has heard it");
        });
        written.expect("it is running");
        runtime.run_until_idle();
    };
    let found = failure(Explorer::new(), scenario);
    assert!(found.message.contains("nobody has heard it"), "{found}");
    assert!(found.trace.to_string().contains("defers the inline call"), "{found}");
    Explorer::new().seeds(1000).inline_choices(false).overlap(false).explore(scenario);
}

/// A deadline that is far away comes before what was posted, only where time may pass meanwhile.
#[test]
fn a_timer_overtakes_waiting_work_where_time_is_slow() {
    let orders = |is_slow| {
        let orders = Mutex::new(std::collections::BTreeSet::new());
        Explorer::new().slow_time(is_slow).explore(|runtime| {
            let log = Arc::new(Mutex::new(Vec::new()));
            let [timer, work] = ["timer", "work"].map(|name| dispatcher(runtime, name, DispatcherBuilder::new()));
            let noted = Arc::clone(&log);
            let _armed = timer.post_after(Duration::from_secs(9), move |_| noted.lock().push("timer")).expect("armed");
            let noted = Arc::clone(&log);
            work.post_task(move |_| noted.lock().push("work")).expect("it is running");
            runtime.advance(Duration::from_secs(10));
            orders.lock().insert(log.lock().clone());
        });
        orders.into_inner().len()
    };
    assert_eq!((orders(false), orders(true)), (1, 2));
}

#[test]
fn real_descriptors_are_refused_in_an_exploration() {
    explore(1, |runtime| {
        let refused = ForegroundRuntime::with_real_descriptors(crate::runtime::RuntimeBuilder::new()).map(drop);
        assert_eq!(refused.map_err(|error| error.status()), Err(crate::status::Status::NotSupported));
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("the system has sockets");
        let dispatcher = dispatcher(runtime, "real", DispatcherBuilder::new());
        let waiting = dispatcher.begin_wait(&ours, crate::Interest::READABLE, |_| ()).map(drop);
        assert_eq!(waiting.map_err(|error| error.status()), Err(crate::status::Status::NotSupported));
    });
}

/// What the scenario drops while it unwinds wants a lock that one who stands aside may hold.
#[test]
fn a_run_that_fails_lets_those_go_on_first_who_stand_aside() {
    struct Wants(Arc<Mutex<u32>>);
    impl Drop for Wants {
        fn drop(&mut self) {
            *self.0.lock() += 1;
        }
    }
    for seed in 0..100 {
        let explorer = Explorer::new().seeds(seed..seed + 1).strategy(Strategy::Pct { preemptions: 3 }).shrink(false);
        let found = failure(explorer, |runtime| {
            let wants = Wants(Arc::new(Mutex::new(0)));
            let [holder, fragile] =
                ["holder", "fragile"].map(|name| dispatcher(runtime, name, DispatcherBuilder::new()));
            let (number, home) = (Arc::clone(&wants.0), holder.handle());
            let held = holder.post_task(move |_| {
                let _held = number.lock();
                home.post_task(|_| ()).expect("it is running");
            });
            held.expect("it is running");
            fragile.post_task(|_| panic!("it broke")).expect("it is running");
            runtime.run_until_idle();
        });
        assert!(found.message.contains("it broke"), "{found}");
    }
}

/// Two descriptors are ready at the same time: the one dispatcher that waits for both hears of them in either order, and of
/// a timer that is due in between, before or after.
#[test]
fn what_is_ready_at_the_same_time_comes_in_any_order() {
    let orders = Mutex::new(std::collections::BTreeSet::new());
    Explorer::new().explore(|runtime| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let dispatcher = dispatcher(runtime, "watcher", DispatcherBuilder::new());
        let events = [crate::sys::sim::Event::new(), crate::sys::sim::Event::new()];
        for (nth, event) in events.iter().enumerate() {
            let log = Arc::clone(&log);
            let waiting = dispatcher.begin_wait(event, crate::Interest::READABLE, move |_| log.lock().push(nth));
            let _handle = waiting.expect("it can be waited for");
            event.signal();
        }
        let noted = Arc::clone(&log);
        let _timer = dispatcher.post_after(Duration::from_secs(1), move |_| noted.lock().push(2)).expect("armed");
        runtime.clock().advance_to(runtime.now() + Duration::from_secs(1));
        runtime.run_until_idle();
        orders.lock().insert(log.lock().clone());
    });
    assert_eq!(orders.lock().len(), 6, "{orders:?}");
}
