//! Goal: what was posted in a scope ends with it: what waits is never called, what runs finishes.
//! Method: count what is called and what is dropped, and look at the counters of the dispatcher.

mod common;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use common::Log;
use fuchsine_dispatcher::{
    Dispatcher, DispatcherBuilder, Instant, PanicPolicy, RuntimeBuilder, Status, TaskScope, current, sleep,
};
use fuchsine_tests::pools::{World, in_the_foreground, on_every_pool, on_every_pool_with, on_pools};

const FAR: Duration = Duration::from_secs(3600);

fn home(world: &World) -> Dispatcher {
    world.driver("driver").new_dispatcher(DispatcherBuilder::new().name("home")).expect("created")
}

/// Notes its drop, and where that is.
struct Noted(Log, &'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        let place = current().map_or("the caller".to_owned(), |dispatcher| dispatcher.name().to_owned());
        self.0.add(format!("{} dropped on {place}", self.1));
    }
}

#[test]
fn tasks_of_a_scope_run_like_others_and_leave_its_list() {
    on_every_pool(|world| {
        let home = home(world);
        let log = Log::new();
        let scope = TaskScope::new(&home);
        for name in ["one", "two"] {
            let entry = log.clone();
            scope.post(move || entry.add(name)).expect("accepted");
        }
        let entry = log.clone();
        scope.spawn(async move { entry.add("future") }).expect("accepted");
        let entry = log.clone();
        scope.post_after(Duration::from_millis(1), move || entry.add("later")).expect("accepted");
        world.wait_until("the end of all", || scope.is_empty());
        world.settle();
        assert_eq!(log.take(), ["one", "two", "future", "later"]);
        drop(scope);
        let counters = home.counters();
        assert_eq!((counters.accepted, counters.ran, counters.taken_back), (4, 4, 0));
    });
}

#[test]
fn the_end_of_a_scope_takes_back_what_waits_and_cancels_futures() {
    in_the_foreground(|world| {
        let home = home(world);
        let log = Log::new();
        let scope = TaskScope::new(&home);
        let noted = |name| Noted(log.clone(), name);
        let (task, delayed, fresh, slept) = (noted("task"), noted("delayed"), noted("fresh"), noted("sleeper"));
        scope
            .spawn(async move {
                let _noted = slept;
                let _ = sleep(FAR).await;
                unreachable!("it is canceled");
            })
            .expect("accepted");
        world.settle();
        scope.post(move || drop(task)).expect("accepted");
        scope.post_after(FAR, move || drop(delayed)).expect("accepted");
        scope.spawn(async move { drop(fresh) }).expect("accepted");
        assert_eq!(scope.len(), 4);
        drop(scope);
        assert_eq!(log.take(), ["task dropped on the caller", "delayed dropped on the caller"]);
        world.settle();
        assert_eq!(log.take(), ["fresh dropped on home", "sleeper dropped on home"]);
        let counters = home.counters();
        assert_eq!((counters.ran, counters.canceled), (0, 0), "{counters:?}");
        assert_eq!(counters.pending, 0);
    });
}

#[test]
fn local_futures_of_a_scope_end_with_it_on_their_thread() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let builder = || DispatcherBuilder::new().name("home");
        let pinned = driver.new_dispatcher(builder().no_thread_migration()).expect("created");
        let log = Log::new();
        let scope = Arc::new(TaskScope::new(&pinned));
        let refused = scope.spawn_local(async {}).expect_err("it is not current");
        assert_eq!(refused.status(), Status::BadState);
        assert!(scope.is_empty());
        let (spawning, noted) = (Arc::clone(&scope), Noted(log.clone(), "local"));
        world.run_on(&pinned, move || {
            let local = Rc::new(noted);
            let spawned = spawning.spawn_local(async move {
                let _local = local;
                let _ = sleep(FAR).await;
            });
            assert!(spawned.is_ok());
        });
        assert_eq!(scope.len(), 1);
        // In the foreground this is the dispatcher's own thread; elsewhere it is not.
        drop(scope);
        world.wait_until("the drop", || !log.is_empty());
        assert_eq!(log.take(), ["local dropped on home"]);
    });
}

#[test]
fn a_task_that_runs_when_its_scope_ends_finishes() {
    on_pools(|world| {
        let home = home(world);
        let log = Log::new();
        let scope = TaskScope::new(&home);
        let (entered, is_entered) = channel();
        let (leave, may_leave) = channel::<()>();
        let (entry, never) = (log.clone(), log.clone());
        scope
            .post(move || {
                entered.send(()).expect("it is awaited");
                let _ = may_leave.recv();
                entry.add("finished");
            })
            .expect("accepted");
        scope.post(move || never.add("called")).expect("accepted");
        is_entered.recv().expect("it runs");
        assert_eq!(scope.len(), 1, "what runs is not waiting any more");
        drop(scope);
        drop(leave);
        world.settle();
        assert_eq!(log.take(), ["finished"]);
        assert_eq!(home.counters().taken_back, 1);
    });
}

#[test]
fn a_scope_may_be_dropped_by_its_own_task_or_future() {
    on_every_pool(|world| {
        let home = home(world);
        for in_future in [false, true] {
            let log = Log::new();
            let slot = Arc::new(std::sync::Mutex::new(None));
            let (own, entry, never) = (Arc::clone(&slot), log.clone(), log.clone());
            let end_it = move || {
                drop(own.lock().unwrap().take());
                entry.add("ended");
            };
            let scope = TaskScope::new(&home);
            let mut held = slot.lock().unwrap();
            match in_future {
                true => scope.spawn(async move { end_it() }).expect("accepted"),
                false => scope.post(end_it).expect("accepted"),
            }
            scope.post(move || never.add("called")).expect("accepted");
            *held = Some(scope);
            drop(held);
            world.wait_until("the end", || home.counters().pending == 0);
            world.settle();
            assert_eq!(log.take(), ["ended"], "in a future: {in_future}");
        }
    });
}

#[test]
fn a_shutdown_drops_what_waits_on_the_dispatcher_uncalled() {
    in_the_foreground(|world| {
        let home = home(world);
        let log = Log::new();
        let scope = TaskScope::new(&home);
        let noted = |name| Noted(log.clone(), name);
        let (task, delayed, future) = (noted("task"), noted("delayed"), noted("future"));
        let never = log.clone();
        scope
            .post(move || {
                never.add("called");
                drop(task);
            })
            .expect("accepted");
        scope.post_after(FAR, move || drop(delayed)).expect("accepted");
        scope.spawn(async move { drop(future) }).expect("accepted");
        home.shutdown_async();
        world.settle();
        assert_eq!(log.take(), ["task dropped on home", "future dropped on home", "delayed dropped on home"]);
        assert!(scope.is_empty());
        assert_eq!(home.counters().canceled, 3);

        let refused = scope.post(|| ()).expect_err("it has shut down");
        assert_eq!(refused.status(), Status::BadState);
        refused.into_inner()();
        let refused = scope.spawn(async {}).expect_err("it has shut down");
        drop(refused.into_inner());
        assert!(scope.is_empty(), "what was refused leaves no entry");
    });
}

#[test]
fn a_deadline_that_never_comes_is_refused() {
    on_every_pool(|world| {
        let scope = TaskScope::new(&home(world).release());
        let refused = scope.post_at(Instant::INFINITE, || ()).expect_err("it never comes");
        assert_eq!(refused.status(), Status::InvalidArgs);
        assert!(scope.is_empty());
    });
}

#[test]
fn a_task_that_panics_leaves_its_scope_in_order() {
    on_every_pool_with(
        || RuntimeBuilder::new().panic_policy(PanicPolicy::Continue),
        |world| {
            let home = home(world);
            let scope = TaskScope::new(&home);
            scope.post(|| panic!("on purpose")).expect("accepted");
            scope.spawn(async { panic!("on purpose, too") }).expect("accepted");
            let ran = Arc::new(AtomicU32::new(0));
            let counting = Arc::clone(&ran);
            scope.post(move || _ = counting.fetch_add(1, Ordering::Relaxed)).expect("accepted");
            world.wait_until("the end of all", || scope.is_empty());
            world.settle();
            assert_eq!((ran.load(Ordering::Relaxed), home.owner().panics()), (1, 2));
        },
    );
}

/// Posts race with the end of the scope: each is called or dropped, once, and nothing is left.
#[test]
fn posts_from_many_threads_end_once_whenever_the_scope_ends() {
    on_pools(|world| {
        let home = home(world);
        let (called, dropped) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        struct Counted(Arc<AtomicU32>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let scope = TaskScope::new(&home);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..250 {
                        let (called, counted) = (Arc::clone(&called), Counted(Arc::clone(&dropped)));
                        let task = move || {
                            let _counted = counted;
                            called.fetch_add(1, Ordering::Relaxed);
                        };
                        scope.post(task).expect("accepted");
                    }
                });
            }
        });
        drop(scope);
        world.settle();
        assert_eq!(dropped.load(Ordering::Relaxed), 1000);
        let counters = home.counters();
        assert_eq!(u64::from(called.load(Ordering::Relaxed)), counters.ran);
        assert_eq!(counters.ran + counters.taken_back, 1000);
    });
}

/// What waits ends with its scope also when the drop of something else of it panics. A suspended driver holds it up.
#[test]
fn a_drop_that_panics_leaves_nothing_of_its_scope_to_run() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    on_every_pool(|world| {
        let home = home(world);
        assert!(home.owner().suspend(|_| ()).is_ok());
        let ran = Arc::new(AtomicU32::new(0));
        let scope = TaskScope::new(&home);
        for _ in 0..2 {
            let held = Panics;
            scope.post(move || drop(held)).expect("accepted");
            let counted = Arc::clone(&ran);
            scope.post(move || _ = counted.fetch_add(1, Ordering::Relaxed)).expect("accepted");
        }
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(scope)));
        assert!(dropped.is_err(), "the closures were the caller's");
        assert!(home.owner().resume());
        world.settle();
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        assert_eq!(home.counters().taken_back, 4);
    });
}
