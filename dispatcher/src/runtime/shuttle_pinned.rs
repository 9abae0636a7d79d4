//! Model checks of pinned dispatchers on the real pool: posts that race with shutdown, and what may block beside them.
//! What is real and what is not is said in `shuttle_dispatcher.rs`.
//!
//! A wake-up that is lost shows as a deadlock; a turn on another thread as a second name in `threads`.

use std::collections::HashSet;
use std::task::{Poll, Waker};

use super::shuttle_dispatcher::{Seen, conclude, explore};
use super::{Dispatcher, DispatcherBuilder, Driver, Runtime, RuntimeBuilder, current};
use crate::executor::JoinHandle;
use crate::status::Canceled;
use crate::sync::{Arc, Mutex, thread};

/// The threads of the model that something ran on.
#[derive(Clone, Default)]
struct Threads(Arc<Mutex<HashSet<thread::ThreadId>>>);

impl Threads {
    fn note(&self) {
        self.0.lock().insert(thread::current_id());
    }
}

fn set_up(threads: usize) -> (Runtime, Driver, Dispatcher, Arc<Seen>, Threads) {
    let runtime = RuntimeBuilder::new().threads(threads).build().expect("a model has threads");
    let driver = runtime.new_driver("driver");
    let (seen, on) = (Arc::new(Seen::default()), Threads::default());
    let (observed, observed_on) = (Arc::clone(&seen), on.clone());
    let builder = DispatcherBuilder::new().no_thread_migration().shutdown_observer(move || {
        observed_on.note();
        observed.observers.lock().push("dispatcher");
    });
    let dispatcher = driver.new_dispatcher(builder).expect("created");
    (runtime, driver, dispatcher, seen, on)
}

/// A post from outside, one from the dispatcher itself, and a shutdown: refused, run or told, on one thread.
#[test]
fn shuttle_a_post_to_a_pinned_dispatcher_that_races_with_shutdown_ends_on_its_thread() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen, on) = set_up(2);
        let post = |name: &'static str| {
            let (handle, seen, on) = (dispatcher.handle(), Arc::clone(&seen), on.clone());
            move || {
                let task = move |outcome| {
                    on.note();
                    seen.visit(name, outcome);
                };
                handle.post_task(task).is_ok()
            }
        };
        let (from_poster, from_inside) = (post("poster"), post("inside"));
        let poster = thread::spawn("poster", from_poster).expect("a thread");
        dispatcher
            .post_task(move |_| {
                let _ = from_inside();
            })
            .expect("it runs");
        dispatcher.shutdown_async();
        let accepted: &[&str] = if poster.join().expect("it ends") { &["poster"] } else { &[] };
        conclude(&runtime, &seen, accepted);
        assert_eq!(on.0.lock().len(), 1, "one thread");
    });
}

/// The only base thread hosts a pinned dispatcher, so what may block has the extra thread, whoever came upon it first.
#[test]
fn shuttle_what_may_block_is_never_forgotten_by_a_host_that_came_upon_it() {
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
        let driver = runtime.new_driver("driver");
        let builder = DispatcherBuilder::new().allow_sync_calls();
        let blocks = driver.new_dispatcher(builder).expect("created");
        let (hosts, blockers) = (Threads::default(), Threads::default());
        let on = blockers.clone();
        blocks.post_task(move |_| on.note()).expect("it runs");
        // From here on the base thread is a host; the callback above may be on it, or behind its back.
        let pinned = driver.new_dispatcher(DispatcherBuilder::new().no_thread_migration()).expect("created");
        let (on, blocking_on, handle) = (hosts.clone(), Threads::default(), blocks.handle());
        let later = blocking_on.clone();
        let task = move |_| {
            on.note();
            // From a host to who may not run there.
            handle.post_task(move |_| later.note()).expect("it runs");
        };
        pinned.post_task(task).expect("it runs");
        while blocking_on.0.lock().is_empty() {
            thread::yield_now();
        }
        assert!(hosts.0.lock().is_disjoint(&blocking_on.0.lock()), "a host ran what may block");
        assert_eq!(blockers.0.lock().len(), 1);
        runtime.shutdown(std::time::Duration::MAX).expect("the runtime shuts down");
        assert_eq!(runtime.counters().pending, 0);
    });
}

/// A local future is woken from outside, canceled from outside, and shut down: polled and dropped on its thread alone.
#[test]
fn shuttle_a_local_future_that_is_woken_canceled_and_shut_down_stays_on_its_thread() {
    struct Held(Arc<Seen>, Threads, #[expect(dead_code, reason = "it makes the future local")] std::rc::Rc<()>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.1.note();
            self.0.visit("dropped", Err(Canceled));
        }
    }
    explore(|| {
        let (runtime, _driver, dispatcher, seen, on) = set_up(2);
        let (waker, handles) = (Arc::new(Mutex::new(None::<Waker>)), Arc::new(Mutex::new(None)));
        let (shared, handing, spawning, noting) =
            (Arc::clone(&waker), Arc::clone(&handles), Arc::clone(&seen), on.clone());
        let spawn = move |outcome: Result<(), Canceled>| {
            if outcome.is_err() {
                return;
            }
            let held = Held(spawning, noting.clone(), std::rc::Rc::new(()));
            let future = std::future::poll_fn(move |cx| {
                let _held = &held;
                noting.note();
                *shared.lock() = Some(cx.waker().clone());
                Poll::<()>::Pending
            });
            // Refused when the shutdown has begun meanwhile; then it is dropped right here.
            if let Ok(join) = current().expect("on its dispatcher").spawn_local(future) {
                *handing.lock() = Some(join);
            }
        };
        dispatcher.post_task(spawn).expect("it runs");
        let waking = thread::spawn("waking", move || {
            for _ in 0..2 {
                let waker = waker.lock().clone();
                waker.into_iter().for_each(Waker::wake);
                thread::yield_now();
            }
            let join: Option<JoinHandle<()>> = handles.lock().take();
            join.into_iter().for_each(JoinHandle::cancel);
        })
        .expect("a thread");
        dispatcher.shutdown_async();
        waking.join().expect("it ends");
        conclude(&runtime, &seen, &[]);
        assert_eq!(on.0.lock().len(), 1, "one thread");
    });
}
