//! What drivers get from the table: dispatchers, tasks, futures, offloaded work. Goal: each promise of the driver
//! interface holds over the real runtime. Method: scenarios inside of a driver's `start`, on threads and in the
//! foreground.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::scripted::{Dropped, Notes, jot, lines, role};
use common::{World, failures, worlds};
use fuchsine_driver::{Canceled, DispatcherOptions, Lane, Status, blocking, current, offload, sleep, spawn, timeout};
use fuchsine_host::HostState;

#[test]
fn tasks_run_in_order_on_their_dispatcher_and_delayed_ones_by_deadline() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        world.play_through(vec![role(world.name("order"), move |cx| async move {
            let home = cx.dispatcher();
            // From one moment on, which is not there yet when the last one is posted: on a slow machine, under memcheck above all,
            // the posts themselves take longer than what lies between.
            let soon = Duration::from_millis(500);
            let then = home.now() + soon;
            for (delay, what) in [(30, "third"), (10, "first"), (20, "second")] {
                let seen = Arc::clone(&seen);
                let home_then = home.clone();
                let posted = home.post_at(then + Duration::from_millis(delay), move |outcome| {
                    assert!(outcome.is_ok() && home_then.is_current());
                    jot(&seen, what);
                });
                drop(posted.unwrap());
            }
            let now = Arc::clone(&seen);
            home.post_task(move |_| jot(&now, "at once")).unwrap();
            jot(&seen, "posted");
            sleep(soon + Duration::from_millis(40)).await.unwrap();
        })]);
        assert_eq!(lines(&notes), ["posted", "at once", "first", "second", "third"]);
    }
}

#[test]
fn a_canceled_task_is_dropped_at_once_and_never_runs() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        world.play_through(vec![role(world.name("cancel"), move |cx| async move {
            let guard = Dropped(Arc::clone(&seen), "task");
            let late = cx.dispatcher().post_after(Duration::from_secs(3600), move |_| drop(guard)).unwrap();
            jot(&seen, "posted");
            assert_eq!(late.cancel(), Ok(()));
            jot(&seen, "canceled");
            assert_eq!(late.cancel(), Err(Status::NotFound));
        })]);
        assert_eq!(lines(&notes), ["posted", "task dropped", "canceled"]);
    }
}

#[test]
fn a_dispatcher_of_the_driver_shuts_down_on_request_and_refuses_what_comes_then() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        world.play_through(vec![role(world.name("shutdown"), move |cx| async move {
            let observed = Arc::clone(&seen);
            let options = DispatcherOptions::new("extra").shutdown_observer(move || jot(&observed, "observer"));
            let extra = cx.new_dispatcher(options).unwrap();
            assert_eq!((extra.name(), extra.is_synchronized()), ("extra".to_owned(), true));
            let pending = Arc::clone(&seen);
            let late = extra.post_after(Duration::from_secs(3600), move |outcome| {
                assert_eq!(outcome, Err(Canceled));
                jot(&pending, "canceled");
            });
            drop(late.unwrap());
            extra.shutdown();
            assert!(extra.is_stopping());
            let refused = extra.post_task(|_| unreachable!("it was refused")).unwrap_err();
            assert_eq!(refused.status(), Status::BadState);
            let _unrun = refused.into_inner();
            assert_eq!(extra.spawn(async {}).unwrap_err().status(), Status::BadState);
            while lines(&seen).len() < 2 {
                sleep(Duration::from_millis(1)).await.unwrap();
            }
        })]);
        assert_eq!(lines(&notes), ["canceled", "observer"]);
    }
}

#[test]
fn dispatchers_of_all_kinds_are_made_and_impossible_ones_refused_with_their_observer_unharmed() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        world.play_through(vec![role(world.name("kinds"), move |cx| async move {
            let parallel = cx.new_dispatcher(DispatcherOptions::new("parallel").unsynchronized()).unwrap();
            assert!(!parallel.is_synchronized() && !parallel.allows_sync_calls());
            let blocking = cx.new_dispatcher(DispatcherOptions::new("blocking").allow_sync_calls()).unwrap();
            assert!(blocking.is_synchronized() && blocking.allows_sync_calls());
            let guard = Dropped(Arc::clone(&seen), "observer");
            let both = DispatcherOptions::new("both").unsynchronized().allow_sync_calls();
            let both = both.shutdown_observer(move || drop(guard));
            assert_eq!(cx.new_dispatcher(both).unwrap_err().status(), Status::NotSupported);
            assert_eq!(lines(&seen), ["observer dropped"], "by its owner, which the driver still is");
        })]);
    }
}

#[test]
fn futures_run_where_they_were_spawned_and_can_be_joined_and_canceled() {
    for world in worlds() {
        let notes = Notes::default();
        let seen = Arc::clone(&notes);
        world.play_through(vec![role(world.name("futures"), move |cx| async move {
            let other = cx.new_dispatcher(DispatcherOptions::new("other")).unwrap();
            let there = other.clone();
            let sum = other.spawn(async move {
                assert!(there.is_current());
                sleep(Duration::from_millis(1)).await.unwrap();
                assert!(there.is_current());
                20 + 22
            });
            assert_eq!(sum.unwrap().await, Ok(42));
            let guard = Dropped(Arc::clone(&seen), "future");
            let endless = spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            })
            .unwrap();
            endless.cancel();
            assert!(endless.await.unwrap_err().is_canceled());
            assert_eq!(lines(&seen), ["future dropped"]);
            let broken = timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
            assert_eq!(broken, Err(Status::TimedOut));
        })]);
    }
}

#[test]
fn work_runs_off_the_dispatcher_and_its_result_comes_back_on_it() {
    for world in worlds() {
        world.play_through(vec![role(world.name("offload"), |cx| async move {
            let home = cx.dispatcher();
            for lane in [Lane::Fast, Lane::Slow] {
                let result = offload(lane, |stop| {
                    assert!(current().is_none() && !stop.is_stopping());
                    6 * 7
                });
                assert_eq!(result.await.unwrap(), 42);
                assert!(home.is_current());
            }
            let panicked = offload(Lane::Fast, |_| -> u32 { panic!("in the work") }).await.unwrap_err();
            assert_eq!(panicked.status(), Status::Internal, "it is a result, and the driver goes on");
        })]);
    }
}

#[test]
fn offloaded_work_that_is_canceled_before_it_begins_never_runs_and_says_so() {
    // In the foreground nothing begins before the crank is turned, so the cancel is in time for certain.
    let [_, world] = worlds();
    let notes = Notes::default();
    let seen = Arc::clone(&notes);
    world.play_through(vec![role("offload-cancel", move |cx| async move {
        let (worked, done) = (Arc::clone(&seen), Arc::clone(&seen));
        let work = move |_: &fuchsine_driver::StopToken| jot(&worked, "worked");
        let ended = move |outcome: Result<(), fuchsine_driver::OffloadError>| {
            jot(&done, format!("done: {}", outcome.unwrap_err().status()));
        };
        let offloaded = cx.dispatcher().offload(Lane::Slow, work, ended).unwrap();
        assert_eq!(offloaded.cancel(), Ok(()));
        assert_eq!(offloaded.cancel(), Err(Status::NotFound));
        sleep(Duration::from_millis(1)).await.unwrap();
    })]);
    assert_eq!(lines(&notes), ["done: canceled"]);
}

#[test]
fn blocking_is_refused_where_it_would_hold_up_others_and_allowed_where_it_is_declared() {
    for world in worlds() {
        world.play_through(vec![role(world.name("blocking"), |cx| async move {
            let refused = blocking(|| unreachable!("it was refused")).unwrap_err();
            assert_eq!(refused.status(), Status::BadState);
            let declared = cx.new_dispatcher(DispatcherOptions::new("declared").allow_sync_calls()).unwrap();
            let ran = declared.spawn(async { blocking(|| 7).map_err(|error| error.status()) });
            assert_eq!(ran.unwrap().await.unwrap(), Ok(7));
        })]);
    }
}

#[test]
fn a_closure_that_panics_when_a_cancel_drops_it_costs_its_driver_and_nobody_else() {
    struct Grenade;
    impl Drop for Grenade {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("the grenade went off");
            }
        }
    }
    for world in worlds() {
        let canceled = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&canceled);
        let host = world.play(vec![
            role(world.name("bystander"), |_| async {}),
            role(world.name("grenade"), move |cx| async move {
                let home = cx.dispatcher();
                let throw = home.clone();
                let later = home.post_after(Duration::from_secs(1), move |_| {
                    let grenade = Grenade;
                    let task = throw.post_cancelable(move |_| drop(grenade)).unwrap();
                    task.cancel().unwrap();
                    done.store(true, Ordering::Relaxed);
                });
                drop(later.unwrap());
            }),
        ]);
        world.started(&host).unwrap();
        world.until("the driver is gone", || host.summary().drivers().len() == 1);
        assert!(canceled.load(Ordering::Relaxed), "the panic did not come through the table");
        assert_eq!(host.state(), HostState::Running);
        assert_eq!(failures(&world.stop(&host)), [(&*world.name("grenade"), "panicked: the grenade went off")]);
    }
}

#[test]
fn a_driver_that_is_gone_gets_bad_state_from_everything_it_kept() {
    for world in worlds() {
        let kept = Arc::new(std::sync::Mutex::new(None));
        let keep = Arc::clone(&kept);
        world.play_through(vec![role(world.name("kept"), move |cx| async move {
            *keep.lock().unwrap() = Some(cx);
        })]);
        let cx = kept.lock().unwrap().take().unwrap();
        assert_eq!(cx.new_dispatcher(DispatcherOptions::new("late")).unwrap_err().status(), Status::BadState);
        assert_eq!(cx.publish_address("x://late"), Err(Status::BadState));
        let child = cx.add_child(fuchsine_driver::ChildNode::new("late"));
        assert_eq!(child.unwrap_err().status(), Status::BadState);
        assert_eq!(cx.dispatcher().post_task(|_| {}).unwrap_err().status(), Status::BadState);
        cx.fail(Status::Internal, "nobody listens");
        assert_eq!(cx.name(), world.name("kept"), "what it is called is known for ever");
    }
}

#[test]
fn addresses_that_the_ready_line_cannot_hold_are_refused() {
    let world = World::Threads;
    world.play_through(vec![role("addresses", |cx| async move {
        for address in ["", "a b", "a\nb"] {
            assert_eq!(cx.publish_address(address), Err(Status::InvalidArgs), "{address:?}");
        }
        assert_eq!(cx.publish_address("x://fine"), Ok(()));
    })]);
}
