//! Faults that were found and mended, one test each. Each of them failed before its mending.

mod common;

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{HANG, Log, add_up, in_a_process_of_its_own, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Dispatcher, DispatcherBuilder, Instant, Lane, PanicPolicy, Runtime, RuntimeBuilder, Status, blocking, current,
};

fn dispatcher(runtime: &Runtime, name: &str, builder: DispatcherBuilder) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(builder.name(name)).expect("created")
}

#[test]
fn timers_run_by_deadline_whichever_threads_take_them() {
    const COUNT: usize = 3000;
    let (mut rounds, mut lead_time) = (0, Duration::from_millis(50));
    while rounds < 12 {
        let runtime = pool_of(4);
        let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = channel();
        let start = runtime.now() + lead_time;
        for nth in 0..COUNT {
            let (seen, sender) = (Arc::clone(&seen), sender.clone());
            let deadline = start + Duration::from_micros(2 * nth as u64);
            let _timer = target
                .post_at(deadline, move |_| {
                    seen.lock().expect("not poisoned").push(deadline);
                    sender.send(()).expect("counted");
                })
                .expect("accepted");
        }
        let all_were_armed_in_time = runtime.now() < start;
        for _ in 0..COUNT {
            within(&receiver, "a timer");
        }
        let seen = seen.lock().expect("not poisoned");
        if all_were_armed_in_time {
            rounds += 1;
            let late: Vec<_> = seen.windows(2).filter(|pair| pair[0] > pair[1]).collect();
            assert!(late.is_empty(), "{} of {COUNT} out of order, such as {:?}", late.len(), late[0]);
        } else {
            lead_time *= 2;
        }
        runtime.shutdown(HANG).expect("the runtime shuts down");
    }
}

/// Its destructor runs when its thread ends.
struct AtThreadEnd(Box<dyn FnMut() + Send>);

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}

thread_local! {
    static AT_THREAD_END: std::cell::RefCell<Option<AtThreadEnd>> = const { std::cell::RefCell::new(None) };
}

fn at_thread_end(what: impl FnMut() + Send + 'static) {
    AT_THREAD_END.with(|slot| *slot.borrow_mut() = Some(AtThreadEnd(Box::new(what))));
}

#[test]
fn each_of_several_shutdowns_returns_after_the_threads_have_ended() {
    let runtime = pool_of(1);
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let log = Log::new();
    let (ending, is_ending) = channel();
    let (second_began, second_begins) = channel::<()>();
    let second_begins = Mutex::new(second_begins);
    let entry = log.clone();
    target
        .post_task(move |_| {
            at_thread_end(move || {
                ending.send(()).expect("awaited");
                let begins = second_begins.lock().expect("not poisoned");
                within(&begins, "the second shutdown");
                // No matter how long: nobody may return before.
                std::thread::sleep(Duration::from_millis(100));
                entry.add("the thread ended");
            });
        })
        .expect("accepted");
    let wait = |name: &'static str| {
        let (runtime, log) = (runtime.clone(), log.clone());
        std::thread::spawn(move || {
            runtime.shutdown(HANG).expect("the runtime shuts down");
            log.add(name);
        })
    };
    let first = wait("returned");
    within(&is_ending, "the end of the thread");
    let second = wait("returned");
    second_began.send(()).expect("awaited");
    first.join().expect("it ends");
    second.join().expect("it ends");
    assert_eq!(log.take(), ["the thread ended", "returned", "returned"]);
}

#[test]
fn a_runtime_cannot_be_waited_for_on_a_thread_of_its_lanes() {
    let runtime = pool_of(1);
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let own = runtime.clone();
    let (sender, receiver) = channel();
    target
        .offload(
            Lane::Fast,
            move |_| own.shutdown(Duration::from_millis(1)).expect_err("it would wait for itself").status(),
            move |outcome| sender.send(outcome.expect("it ran")).expect("awaited"),
        )
        .expect("accepted");
    assert_eq!(within(&receiver, "the answer"), Status::BadState);
    runtime.shutdown(HANG).expect("from outside it works");
}

#[test]
fn running_a_foreground_runtime_for_ever_ends_when_no_timer_is_left() {
    let runtime = ForegroundRuntime::new();
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let log = Log::new();
    let entry = log.clone();
    let _timer = target.post_after(Duration::from_secs(3600), move |_| entry.add("first")).expect("accepted");
    runtime.run_until(Instant::INFINITE);
    assert_eq!(log.take(), ["first"]);
    let entry = log.clone();
    let _timer = target.post_after(Duration::from_secs(1), move |_| entry.add("second")).expect("time goes on");
    runtime.advance(Duration::MAX);
    assert_eq!(log.take(), ["second"]);
    let gone = target.post_after(Duration::from_secs(1), |_| ()).expect("accepted");
    gone.cancel().expect("pending");
    runtime.run_until(Instant::INFINITE);
    add_up(&runtime);
}

fn post_until(dispatcher: &fuchsine_dispatcher::DispatcherHandle, done: Arc<AtomicUsize>) {
    let again = dispatcher.clone();
    // Refused once the runtime shuts down, which ends it as well.
    let _ = dispatcher.post_task(move |outcome| {
        if outcome.is_ok() && done.load(Ordering::Relaxed) == 0 {
            post_until(&again, done);
        }
    });
}

#[test]
fn in_a_foreground_runtime_a_busy_dispatcher_starves_nobody() {
    let runtime = ForegroundRuntime::new();
    let busy = dispatcher(&runtime, "busy", DispatcherBuilder::new());
    let other = dispatcher(&runtime, "other", DispatcherBuilder::new());
    let role = dispatcher(&runtime, "role", DispatcherBuilder::new().scheduler_role("role"));
    let done = Arc::new(AtomicUsize::new(0));
    let set = |done: &Arc<AtomicUsize>| {
        let done = Arc::clone(done);
        move || done.store(1, Ordering::Relaxed)
    };
    // A task of another role.
    post_until(&busy, Arc::clone(&done));
    let tell = set(&done);
    role.post_task(move |_| tell()).expect("accepted");
    for _ in 0..1000 {
        runtime.run_once();
    }
    assert_eq!(done.swap(0, Ordering::Relaxed), 1, "the other role never ran");
    // An event.
    post_until(&busy, Arc::clone(&done));
    let event = fuchsine_dispatcher::testing::sim::Event::new();
    event.signal();
    let tell = set(&done);
    other
        .begin_wait(&event, fuchsine_dispatcher::Interest::READABLE, move |_| tell())
        .map_err(Status::from)
        .expect("accepted");
    for _ in 0..1000 {
        runtime.run_once();
    }
    assert_eq!(done.swap(0, Ordering::Relaxed), 1, "the event was never taken");
    // Work.
    post_until(&busy, Arc::clone(&done));
    let tell = set(&done);
    other.offload(Lane::Slow, |_| (), move |_| tell()).expect("accepted");
    for _ in 0..1000 {
        runtime.run_once();
    }
    assert_eq!(done.swap(0, Ordering::Relaxed), 1, "the work never ran");
}

#[test]
fn the_crank_of_a_foreground_runtime_is_never_turned_inside_of_it() {
    let runtime =
        Arc::new(ForegroundRuntime::with(RuntimeBuilder::new().panic_policy(PanicPolicy::Continue)).expect("made"));
    let role = dispatcher(&runtime, "role", DispatcherBuilder::new().scheduler_role("role"));
    let log = Log::new();
    for in_work in [false, true] {
        let (own, entry) = (Arc::downgrade(&runtime), log.clone());
        let turn = move || {
            let own = own.upgrade().expect("it is there");
            let turned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| own.run_once()));
            entry.add(if turned.is_err() { "refused" } else { "turned" });
        };
        if in_work {
            role.offload(Lane::Fast, move |_| turn(), |_| ()).expect("accepted");
        } else {
            role.post_task(move |_| turn()).expect("accepted");
        }
        runtime.run_until_idle();
    }
    assert_eq!(log.take(), ["refused", "refused"]);
}

#[test]
fn a_foreground_runtime_inside_of_a_callback_of_a_pool_keeps_to_its_thread() {
    let runtime = pool_of(2);
    let outer = dispatcher(&runtime, "outer", DispatcherBuilder::new());
    let (sender, receiver) = channel();
    outer
        .post_task(move |_| {
            let here = std::thread::current().id();
            let inner = ForegroundRuntime::new();
            let targets: Vec<_> = (0..50).map(|_| dispatcher(&inner, "inner", DispatcherBuilder::new())).collect();
            let ran_here = Arc::new(AtomicUsize::new(0));
            for target in &targets {
                let handle = target.handle();
                let ran = Arc::clone(&ran_here);
                let count = move || {
                    let is_here = std::thread::current().id() == here;
                    ran.fetch_add(usize::from(is_here), Ordering::Relaxed);
                };
                let again = count.clone();
                target
                    .post_task(move |_| {
                        count();
                        handle.post_task(move |_| again()).expect("accepted");
                    })
                    .expect("accepted");
            }
            inner.run_until_idle();
            sender.send(ran_here.load(Ordering::Relaxed)).expect("awaited");
        })
        .expect("accepted");
    assert_eq!(within(&receiver, "the count"), 100);
    runtime.shutdown(HANG).expect("the runtime shuts down");
}

/// Panics whenever it is dropped, but not while the thread unwinds already.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a bomb");
        }
    }
}

#[test]
fn a_panic_observer_whose_panic_panics_when_it_is_dropped_harms_nobody() {
    let builder = RuntimeBuilder::new().threads(1).panic_policy(PanicPolicy::Continue);
    let runtime = builder.panic_observer(|_| std::panic::panic_any(Bomb)).build().expect("the system has threads");
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let (sender, receiver) = channel();
    target.post_task(|_| panic!("on purpose")).expect("accepted");
    target.post_task(move |_| sender.send(()).expect("awaited")).expect("accepted");
    within(&receiver, "the next callback on the only thread");
    runtime.shutdown(HANG).expect("the runtime shuts down");
}

#[test]
fn taken_back_work_is_dropped_by_whoever_took_it_back() {
    let runtime = ForegroundRuntime::new();
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let (work, done) = (Arc::new(()), Arc::new(()));
    let (in_work, in_done) = (Arc::clone(&work), Arc::clone(&done));
    let handle = target.offload(Lane::Slow, move |_| drop(in_work), move |_| drop(in_done)).expect("accepted");
    let taken = handle.cancel().expect("no worker has begun");
    assert_eq!((Arc::strong_count(&work), Arc::strong_count(&done)), (2, 2));
    drop(taken);
    assert_eq!((Arc::strong_count(&work), Arc::strong_count(&done)), (1, 1));
    runtime.run_until_idle();
    add_up(&runtime);
}

/// Panics whenever it is dropped, even while the thread unwinds, which would end the process.
struct AlwaysPanics(Log);

impl Drop for AlwaysPanics {
    fn drop(&mut self) {
        self.0.add("dropped");
        panic!("in a drop");
    }
}

#[test]
fn a_canceled_offload_survives_a_panic_of_done_and_one_of_the_drop_of_its_work() {
    let builder = RuntimeBuilder::new().panic_policy(PanicPolicy::Continue);
    let runtime = ForegroundRuntime::with(builder).expect("made");
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let log = Log::new();
    let (held, entry) = (AlwaysPanics(log.clone()), log.clone());
    target
        .offload(
            Lane::Slow,
            move |_| {
                let _held = &held;
            },
            move |outcome| {
                entry.add(format!("{outcome:?}"));
                panic!("in done");
            },
        )
        .expect("accepted");
    target.shutdown_async();
    runtime.run_until_idle();
    assert_eq!(log.take(), ["Err(Canceled)", "dropped"]);
    assert_eq!(target.owner().panics(), 2);
    add_up(&runtime);
}

#[test]
fn the_result_of_a_future_that_nobody_joins_may_panic_when_it_is_dropped() {
    let builder = RuntimeBuilder::new().panic_policy(PanicPolicy::Continue);
    let runtime = ForegroundRuntime::with(builder).expect("made");
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let log = Log::new();
    let result = AlwaysPanics(log.clone());
    drop(target.spawn(async move { result }).expect("accepted"));
    runtime.run_until_idle();
    assert_eq!(log.take(), ["dropped"]);
    assert_eq!(target.owner().panics(), 1);
    add_up(&runtime);
}

#[test]
fn a_dispatcher_kept_in_a_thread_local_value_is_shut_down_at_the_end_of_its_thread() {
    let runtime = pool_of(1);
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let handle = target.handle();
    let (sender, receiver) = channel();
    let other = dispatcher(&runtime, "other", DispatcherBuilder::new());
    std::thread::spawn(move || {
        // First, so that it is destroyed after everything that the runtime keeps for this thread.
        let mut owner = Some((target, sender));
        at_thread_end(move || {
            let (owner, sender) = owner.take().expect("once");
            owner.post_task(move |outcome| sender.send(outcome).expect("awaited")).expect("accepted");
            let (near, far) = fuchsine_dispatcher::Channel::pair();
            near.begin_read(&owner, |_| ()).map_err(Status::from).expect("registered");
            far.write(fuchsine_dispatcher::Message::new()).expect("written");
            assert!(current().is_none());
            drop(owner);
        });
        other.post_task(|_| ()).expect("accepted");
        other.owner().enter(|| ());
        other.shutdown_async();
    })
    .join()
    .expect("the thread ends");
    within(&receiver, "the task").ok();
    runtime.shutdown(HANG).expect("the runtime shuts down");
    assert!(handle.post_task(|_| ()).is_err());
}

#[test]
fn blocking_is_refused_on_every_thread_of_a_pool_however_it_is_entered() {
    let runtime = pool_of(1);
    let driver = runtime.new_driver("driver");
    let other = runtime.new_driver("other");
    let target = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (sender, receiver) = channel();
    let told = sender.clone();
    target
        .post_task(move |_| {
            let inside = other.enter(|| blocking(|| ()).is_ok());
            told.send(inside).expect("awaited");
        })
        .expect("accepted");
    assert!(!within(&receiver, "the answer"), "inside of a driver that was entered by hand");
    driver.shutdown(move || sender.send(blocking(|| ()).is_ok()).expect("awaited")).expect("the first");
    assert!(!within(&receiver, "the answer"), "in the observer of a driver");
    runtime.shutdown(HANG).expect("the runtime shuts down");
}

#[test]
fn a_panic_of_a_driver_observer_is_counted_and_reported() {
    let log = Log::new();
    let entry = log.clone();
    let builder = RuntimeBuilder::new().panic_observer(move |report| {
        entry.add(format!("{}: {}", report.driver, report.message));
    });
    let runtime = ForegroundRuntime::with(builder).expect("made");
    let driver = runtime.new_driver("driver");
    let _target = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    driver.shutdown(|| panic!("in the observer")).expect("the first");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["driver: in the observer"]);
    assert_eq!(driver.panics(), 1);
    assert!(driver.is_shut_down());
}

#[test]
fn a_panic_observer_that_holds_its_runtime_is_let_go_at_the_end() {
    let runtime = pool_of(1);
    let held = Arc::new(());
    let (in_observer, own) = (Arc::clone(&held), runtime.clone());
    runtime.observe_panics(move |_| {
        let _ = (&in_observer, own.now());
    });
    runtime.shutdown(HANG).expect("the runtime shuts down");
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn options_beyond_every_measure_are_refused_and_strange_names_are_not() {
    let error = RuntimeBuilder::new().threads(1).thread_limit(usize::MAX).build().expect_err("too many");
    assert_eq!(error.status(), Status::InvalidArgs);
    let error = RuntimeBuilder::new().threads(usize::MAX).build().expect_err("too many");
    assert_eq!(error.status(), Status::InvalidArgs);
    let runtime = RuntimeBuilder::new().threads(1).name("a\0b").build().expect("a name is a name");
    let role = dispatcher(&runtime, "role", DispatcherBuilder::new().scheduler_role("r\0le"));
    let (sender, receiver) = channel();
    role.offload(Lane::Fast, |_| (), move |_| sender.send(()).expect("awaited")).expect("accepted");
    within(&receiver, "the work");
    runtime.shutdown(HANG).expect("the runtime shuts down");
}

/// A waker that does something when its last clone is dropped.
struct OnDrop(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::task::Wake for OnDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        let what = self.0.lock().expect("not poisoned").take();
        if let Some(what) = what {
            what();
        }
    }
}

#[test]
fn a_waker_that_a_sleep_replaces_is_dropped_without_a_lock() {
    let runtime = Arc::new(ForegroundRuntime::new());
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let sleeping = Arc::new(Mutex::new(Box::pin(fuchsine_dispatcher::sleep(Duration::from_secs(1)))));
    let poll = |waker: &std::task::Waker, sleeping: &Mutex<std::pin::Pin<Box<fuchsine_dispatcher::Sleep>>>| {
        let mut sleeping = sleeping.lock().expect("not poisoned");
        sleeping.as_mut().poll(&mut std::task::Context::from_waker(waker))
    };
    let on_dispatcher = Arc::clone(&sleeping);
    target.post_task(move |_| assert!(poll(std::task::Waker::noop(), &on_dispatcher).is_pending())).expect("accepted");
    runtime.run_until_idle();
    let (cranked, log) = (Arc::clone(&runtime), Log::new());
    let entry = log.clone();
    let turn_the_crank = move || {
        cranked.advance(Duration::from_secs(2));
        entry.add("the timer has told the sleep");
    };
    let first = std::task::Waker::from(Arc::new(OnDrop(Mutex::new(Some(Box::new(turn_the_crank))))));
    assert!(poll(&first, &sleeping).is_pending());
    drop(first);
    // Replaces the first, whose last clone is dropped with it; and that makes the timer come to pass.
    assert!(poll(std::task::Waker::noop(), &sleeping).is_pending());
    assert_eq!(log.take(), ["the timer has told the sleep"]);
    assert!(poll(std::task::Waker::noop(), &sleeping).is_ready());
}

#[test]
fn messages_whose_panics_panic_when_they_are_dropped_cost_the_thread_nothing() {
    struct BombInBomb;
    impl Drop for BombInBomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::panic_any(Bomb);
            }
        }
    }
    for _ in 0..2 {
        let (near, far) = fuchsine_dispatcher::Channel::pair();
        let released = Arc::new(());
        for _ in 0..3 {
            let mut message = fuchsine_dispatcher::Message::new();
            message.push(fuchsine_dispatcher::Handle::value(BombInBomb));
            message.push(fuchsine_dispatcher::Handle::value(Arc::clone(&released)));
            near.write(message).expect("written");
        }
        let payload =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(far))).expect_err("the first panic");
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
        assert!(dropped.is_err(), "the payload is the first bomb");
        assert_eq!(Arc::strong_count(&released), 1, "the rest is destroyed all the same");
    }
}

/// Leaves the process no room for the stack of a further thread. `false`: a sanitizer has reserved more than any machine
/// has, and would need room itself.
fn refuse_threads() -> bool {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').next().and_then(|pages| pages.parse().ok()))
        .expect("a number of pages");
    let limit = Some(pages * rustix::param::page_size() as u64 + (1 << 20));
    let rlimit = rustix::process::Rlimit { current: limit, maximum: limit };
    if pages > 1 << 32 {
        println!("skipped: address space cannot be limited under a sanitizer");
        return false;
    }
    rustix::process::setrlimit(rustix::process::Resource::As, rlimit).expect("a limit may be lowered");
    true
}

#[test]
fn when_the_system_gives_no_thread_the_status_says_no_resources_and_everything_comes_back() {
    let name = "when_the_system_gives_no_thread_the_status_says_no_resources_and_everything_comes_back";
    let output = in_a_process_of_its_own(name, || {
        let runtime = pool_of(1);
        let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
        let (sender, receiver) = channel();
        let told = sender.clone();
        target.post_task(move |_| told.send(()).expect("awaited")).expect("accepted");
        within(&receiver, "a task");
        if !refuse_threads() {
            return;
        }
        let held = Arc::new(());
        let (in_work, in_done) = (Arc::clone(&held), Arc::clone(&held));
        let refused =
            target.offload(Lane::Slow, move |_| drop(in_work), move |_| drop(in_done)).expect_err("no worker");
        assert_eq!(refused.status(), Status::NoResources);
        assert_eq!(Arc::strong_count(&held), 3, "both closures come back");
        drop(refused);
        assert_eq!(Arc::strong_count(&held), 1);
        let sync_calls = DispatcherBuilder::new().allow_sync_calls();
        let error = target.owner().new_dispatcher(sync_calls).expect_err("no thread");
        assert_eq!(error.status(), Status::NoResources);
        let role = DispatcherBuilder::new().scheduler_role("role");
        assert_eq!(target.owner().new_dispatcher(role).expect_err("no thread").status(), Status::NoResources);
        assert_eq!(RuntimeBuilder::new().threads(2).build().expect_err("no thread").status(), Status::NoResources);
        // What is there goes on.
        target.post_task(move |_| sender.send(()).expect("awaited")).expect("accepted");
        within(&receiver, "a task");
        add_up(&runtime);
        runtime.shutdown(HANG).expect("the runtime shuts down");
    });
    if let Some(output) = output {
        assert!(output.succeeded, "{}", output.text);
    }
}

#[test]
fn a_timeout_beyond_the_end_of_the_clock_is_no_limit() {
    let runtime = ForegroundRuntime::new();
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let log = Log::new();
    let entry = log.clone();
    let _task = target
        .spawn(async move {
            let slept = fuchsine_dispatcher::timeout(Duration::MAX, fuchsine_dispatcher::sleep(Duration::from_secs(1)));
            entry.add(format!("{:?}", slept.await));
        })
        .expect("accepted");
    runtime.advance(Duration::from_secs(2));
    assert_eq!(log.take(), ["Ok(Ok(()))"]);
    add_up(&runtime);
}
