//! Turns of several callbacks, in the midst of which something changes: what a thread has taken out to call it next, and what
//! callbacks post to their own dispatcher meanwhile, is told, listed, parked and counted like all else.
//!
//! Method: four callbacks in a row; the second one does something, when two are out that have not begun.

mod common;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use common::{HANG, Log, pool_of};
use fuchsine_dispatcher::{
    Canceled, Channel, DispatcherBuilder, DispatcherHandle, Driver, Message, PanicPolicy, RuntimeBuilder, Status,
    current,
};
use fuchsine_tests::pools::{HANG_LIMIT, World, in_usual_order, on_every_pool, on_every_pool_with};

fn synchronized(driver: &Driver) -> DispatcherHandle {
    driver.new_dispatcher(DispatcherBuilder::new()).expect("there is room").release()
}

fn own() -> DispatcherHandle {
    current().expect("a callback runs")
}

/// A task that writes its name down, with a minus if it is told `Canceled`.
fn named(log: &Log, name: impl Into<String>) -> impl FnOnce(Result<(), Canceled>) + Send + 'static {
    let (log, name) = (log.clone(), name.into());
    move |outcome| log.add(if outcome.is_ok() { name } else { format!("-{name}") })
}

#[track_caller]
fn post(log: &Log, name: impl Into<String>) {
    own().post_task(named(log, name)).expect("it runs");
}

/// Posts four callbacks from one, so that they stand in one turn; the second one does this.
fn second_of_four(on: &DispatcherHandle, log: &Log, does: impl FnOnce() + Send + 'static) {
    let log = log.clone();
    let all = move |_: Result<(), _>| {
        post(&log, "1");
        let writes = log.clone();
        let second = move |outcome: Result<(), Canceled>| {
            writes.add(if outcome.is_ok() { "2" } else { "-2" });
            does();
        };
        own().post_task(second).expect("it runs");
        ["3", "4"].into_iter().for_each(|name| post(&log, name));
    };
    on.post_task(all).expect("it runs");
}

#[track_caller]
fn expect(world: &World, log: &Log, expected: &[&str]) {
    let mut seen = Vec::new();
    world.wait_until("all of it", || {
        seen.extend(log.take());
        seen.len() >= expected.len()
    });
    world.settle();
    seen.extend(log.take());
    assert_eq!(seen, expected);
}

#[test]
fn what_one_posts_to_itself_runs_behind_what_waits_however_much_it_is() {
    on_every_pool(|world| {
        let (on, log) = (synchronized(&world.driver("driver")), Log::new());
        let writes = log.clone();
        second_of_four(&on, &log, move || (5..60).for_each(|number| post(&writes, number.to_string())));
        let expected: Vec<_> = (1..60).map(|number| number.to_string()).collect();
        expect(world, &log, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(on.counters().ran, 60);
    });
}

#[test]
fn a_panic_in_the_midst_of_a_turn_takes_nothing_with_it() {
    let goes_on = || RuntimeBuilder::new().panic_policy(PanicPolicy::Continue);
    on_every_pool_with(goes_on, |world| {
        let (on, log) = (synchronized(&world.driver("driver")), Log::new());
        let writes = log.clone();
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            panic!("on purpose");
        });
        expect(world, &log, &["1", "2", "3", "4", "5"]);
        assert_eq!(on.counters().ran, 6);
    });
}

#[test]
fn a_panic_in_the_midst_of_a_turn_that_ends_the_driver_has_the_rest_told() {
    on_every_pool(|world| {
        let (on, log) = (synchronized(&world.driver("driver")), Log::new());
        let writes = log.clone();
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            panic!("on purpose");
        });
        expect(world, &log, &["1", "2", "-3", "-4", "-5"]);
        let counters = world.counters();
        assert_eq!((counters.ran, counters.canceled), (3, 3), "{counters:?}");
    });
}

#[test]
fn a_shutdown_in_the_midst_of_a_turn_refuses_and_has_the_rest_told() {
    on_every_pool(|world| {
        let (on, log) = (synchronized(&world.driver("driver")), Log::new());
        let writes = log.clone();
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            own().shutdown_async();
            let refused = own().post_task(|_| unreachable!("it is refused"));
            assert_eq!(refused.map_err(|refused| refused.status()), Err(Status::BadState));
            let counters = own().counters();
            assert!(counters.add_up(), "{counters:?}");
            assert_eq!((counters.accepted, counters.ran, counters.pending), (6, 3, 3), "{counters:?}");
        });
        expect(world, &log, &["1", "2", "-3", "-4", "-5"]);
    });
}

#[test]
fn a_suspend_in_the_midst_of_a_turn_parks_the_rest_in_its_order() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (on, log) = (synchronized(&driver), Log::new());
        let (writes, suspended) = (log.clone(), driver.clone());
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            let told = writes.clone();
            suspended.suspend(move |outcome| told.add(format!("{outcome:?}"))).expect("it runs");
            post(&writes, "6");
        });
        expect(world, &log, &["1", "2", "Ok(())"]);
        assert_eq!((on.dump().pending.len(), on.counters().pending), (4, 4));
        assert!(on.has_queued_tasks(), "parked ones count");
        assert!(driver.resume());
        expect(world, &log, &["3", "4", "5", "6"]);
    });
}

#[test]
fn a_suspend_and_a_resume_in_the_midst_of_a_turn_change_no_order() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (on, log) = (synchronized(&driver), Log::new());
        let (writes, suspended) = (log.clone(), driver.clone());
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            suspended.suspend(|outcome| assert_eq!(outcome, Err(Canceled))).expect("it runs");
            post(&writes, "6");
            assert!(suspended.resume());
            post(&writes, "7");
        });
        expect(world, &log, &["1", "2", "3", "4", "5", "6", "7"]);
    });
}

/// A shutdown tells what is ready before what is parked; what the turn has taken out is parked by the suspend, though it is
/// put back only when the callback has returned.
#[test]
fn what_a_suspend_parks_in_the_midst_of_a_turn_is_told_as_parked_by_a_shutdown_in_the_same_callback() {
    for parks_more in [false, true] {
        on_every_pool(|world| {
            let driver = world.driver("driver");
            let (on, log) = (synchronized(&driver), Log::new());
            let (writes, suspended) = (log.clone(), driver.clone());
            second_of_four(&on, &log, move || {
                post(&writes, "5");
                suspended.suspend(|_| ()).expect("it runs");
                if parks_more {
                    post(&writes, "parked");
                }
                own().always_on().post_task(named(&writes, "always on")).expect("it runs");
                own().shutdown_async();
                assert!(own().counters().add_up());
            });
            match parks_more {
                true => expect(world, &log, &["1", "2", "-always on", "-3", "-4", "-5", "-parked"]),
                false => expect(world, &log, &["1", "2", "-always on", "-3", "-4", "-5"]),
            }
        });
    }
}

#[test]
fn a_callback_in_the_midst_of_a_turn_is_listed_with_all_that_waits_behind_it() {
    on_every_pool(|world| {
        let (on, log) = (synchronized(&world.driver("driver")), Log::new());
        let writes = log.clone();
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            let dump = own().dump();
            assert!(dump.counters.add_up(), "{dump}");
            assert_eq!((dump.pending.len(), dump.counters.pending, dump.running.len()), (3, 3, 1), "{dump}");
            assert!(own().has_queued_tasks() && !own().is_idle());
            let done = writes.clone();
            post(&writes, "6");
            let last = move |_: Result<(), _>| done.add(format!("queued: {}", own().has_queued_tasks()));
            own().post_task(last).expect("it runs");
        });
        expect(world, &log, &["1", "2", "3", "4", "5", "6", "queued: false"]);
    });
}

#[test]
fn what_can_be_taken_back_stands_among_what_cannot() {
    on_every_pool(|world| {
        let (on, log) = (synchronized(&world.driver("driver")), Log::new());
        let writes = log.clone();
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            let kept = own().post_cancelable(named(&writes, "6")).expect("it runs");
            post(&writes, "7");
            let taken_back = own().post_cancelable(named(&writes, "8")).expect("it runs");
            post(&writes, "9");
            assert!(taken_back.cancel().is_ok());
            drop(kept);
        });
        expect(world, &log, &["1", "2", "3", "4", "5", "6", "7", "9"]);
        assert_eq!(on.counters().taken_back, 1);
    });
}

#[test]
fn a_future_that_is_woken_in_the_midst_of_a_turn_stands_behind_what_was_posted_before() {
    on_every_pool(|world| {
        let (on, log) = (synchronized(&world.driver("driver")), Log::new());
        let writes = log.clone();
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            let polled = writes.clone();
            drop(own().spawn(async move { polled.add("polled") }).expect("it runs"));
            post(&writes, "6");
        });
        expect(world, &log, &["1", "2", "3", "4", "5", "polled", "6"]);
    });
}

/// What others post while a callback runs comes before what that callback posts afterwards.
#[test]
fn what_another_thread_has_posted_is_overtaken_by_nothing() {
    in_usual_order(|world| {
        if world.is_foreground() {
            return;
        }
        let (on, log) = (synchronized(&world.driver("driver")), Log::new());
        let (entered, has_entered) = channel();
        let (let_go, released): (Sender<()>, Receiver<()>) = channel();
        let (writes, released) = (log.clone(), Mutex::new(released));
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            entered.send(()).expect("it is awaited");
            released.lock().expect("not poisoned").recv_timeout(HANG_LIMIT).expect("it is let go");
            post(&writes, "7");
        });
        has_entered.recv_timeout(HANG_LIMIT).expect("it runs");
        on.post_task(named(&log, "6")).expect("it runs");
        assert_eq!(on.counters().pending, 4, "two that were posted before, 5 and 6");
        let_go.send(()).expect("it is awaited");
        expect(world, &log, &["1", "2", "3", "4", "5", "6", "7"]);
    });
}

/// A driver that is called inline posts to the dispatcher in whose turn it is called, from further up on the same stack.
#[test]
fn what_an_inline_call_posts_to_its_caller_stands_behind_the_rest_of_the_turn() {
    on_every_pool(|world| {
        let (on, log) = (synchronized(&world.driver("caller")), Log::new());
        let callee = synchronized(&world.driver("callee"));
        let (near, far) = Channel::pair();
        let (caller, replies) = (on.clone(), log.clone());
        far.begin_read(&callee, move |outcome| {
            assert_eq!(outcome, Ok(()));
            caller.post_task(named(&replies, "the callee's")).expect("it runs");
            replies.add("called");
        })
        .expect("registered");
        second_of_four(&on, &log, move || near.write(Message::from_bytes(b"x")).expect("the callee listens"));
        let mut seen = Vec::new();
        world.wait_until("all of it", || {
            seen.extend(log.take());
            seen.len() == 6
        });
        let posted: Vec<_> = seen.iter().filter(|entry| *entry != "called").collect();
        assert_eq!(posted, ["1", "2", "3", "4", "the callee's"], "{seen:?}");
    });
}

#[test]
fn the_right_to_block_can_be_given_up_in_the_midst_of_a_turn() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("there is room").release();
        let log = Log::new();
        let writes = log.clone();
        second_of_four(&on, &log, move || {
            post(&writes, "5");
            assert_eq!(own().seal_allow_sync_calls(), Ok(()));
            post(&writes, "6");
        });
        expect(world, &log, &["1", "2", "3", "4", "5", "6"]);
        assert!(!on.allows_sync_calls());
    });
}

#[test]
fn a_turn_ends_while_its_dispatcher_still_posts_to_itself() {
    fn go_on(log: &Log, left: u32) {
        let next = log.clone();
        let task = move |_: Result<(), _>| {
            next.add("own");
            if left > 1 {
                go_on(&next, left - 1);
            }
        };
        own().post_task(task).expect("it runs");
    }
    let one = || RuntimeBuilder::new().batch(4);
    on_every_pool_with(one, |world| {
        let log = Log::new();
        let (greedy, other) = (synchronized(&world.driver("greedy")), synchronized(&world.driver("other")));
        let (writes, others) = (log.clone(), log.clone());
        let both = move |_: Result<(), _>| {
            other.post_task(named(&others, "other")).expect("it runs");
            go_on(&writes, 20);
        };
        greedy.post_task(both).expect("it runs");
        let mut seen = Vec::new();
        world.wait_until("all of it", || {
            seen.extend(log.take());
            seen.len() == 21
        });
        let before = seen.iter().position(|entry| entry == "other").expect("it has run");
        if world.threads() == 1 && !world.is_foreground() {
            assert!(before <= 4, "it has waited for more than a batch: {seen:?}");
        }
    });
}

/// The last event of a poll runs at once on the thread that has polled, all others when it is their turn. What it posts to
/// its own dispatcher does not wait for them.
#[test]
fn what_the_last_timer_of_a_poll_posts_to_itself_runs_next() {
    let runtime = pool_of(1);
    let blocking = synchronized(&runtime.new_driver("blocks"));
    let (entered, is_inside) = channel();
    let (release, released) = channel::<()>();
    let hold = move |_| {
        entered.send(()).expect("it is awaited");
        // It says nothing; its end is what is waited for.
        let _ = released.recv();
    };
    blocking.post_task(hold).expect("it runs");
    is_inside.recv_timeout(HANG).expect("it runs");
    let (log, start) = (Log::new(), runtime.now() + Duration::from_millis(5));
    let (done, all) = channel();
    let deadlines = (1..=8).map(|nth| start + Duration::from_micros(10 * nth));
    for (nth, deadline) in deadlines.clone().enumerate() {
        let on = synchronized(&runtime.new_driver(format!("light {nth}")));
        let (writes, done) = (log.clone(), done.clone());
        let rings = move |_| {
            writes.add(nth.to_string());
            let again = writes.clone();
            let posted = own().post_task(move |_| {
                again.add(nth.to_string());
                done.send(()).expect("it is awaited");
            });
            posted.expect("it runs");
        };
        let _timer = on.post_at(deadline, rings).expect("accepted");
    }
    // So that one poll takes them all.
    while deadlines.clone().any(|deadline| runtime.now() <= deadline) {
        std::thread::yield_now();
    }
    drop(release);
    (0..8).for_each(|_| all.recv_timeout(HANG).expect("each runs"));
    let ran = log.take();
    assert!(ran.chunks(2).all(|two| two[0] == two[1]), "something has come in between: {ran:?}");
    runtime.shutdown(HANG).expect("the runtime shuts down");
}
