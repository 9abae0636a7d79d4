//! Model checks of the tray: a dispatcher whose callbacks post to it themselves, beside threads that post, look, suspend and
//! shut down.
//!
//! What is real and what is modelled is said in `shuttle_dispatcher.rs`. A tray has room for three here, so that it is full
//! in each model. What shuttle does not see, weak memory, is explored by `sync/loom_tray.rs`.

use std::time::Duration;

use super::shuttle_dispatcher::{conclude, explore, set_up};
use super::{DispatcherBuilder, DispatcherHandle, RuntimeBuilder};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, thread};

/// What the callbacks of a chain have in common. Each posts the next one to its own dispatcher.
#[derive(Clone)]
struct Chain {
    own: DispatcherHandle,
    /// What each one knew when it returned, and whether it was told `Canceled`.
    ran: Arc<Mutex<Vec<(usize, bool, bool)>>>,
    /// Set by another thread when it has done something that the chain has to respect.
    done: Arc<AtomicBool>,
}

impl Chain {
    fn new(own: DispatcherHandle) -> Self {
        Chain { own, ran: Arc::default(), done: Arc::default() }
    }

    fn begin(&self, left: usize) -> bool {
        let next = self.clone();
        self.own.post_task(move |outcome| next.go_on(left, outcome.is_err())).is_ok()
    }

    fn go_on(self, left: usize, is_canceled: bool) {
        let knew = self.done.load(Ordering::Acquire);
        let accepted = left > 0 && self.begin(left - 1);
        assert!(!(accepted && (knew || is_canceled)), "accepted after the shutdown");
        self.ran.lock().push((left, self.done.load(Ordering::Acquire), is_canceled));
    }
}

/// A shutdown beside a chain is one moment: nothing is accepted by whoever knows of it, and at most the callback that runs
/// at that moment is told `Ok`. The numbers add up at each look.
#[test]
fn shuttle_a_shutdown_beside_posts_to_oneself_is_one_moment() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(2);
        let chain = Chain::new(dispatcher.handle());
        assert!(chain.begin(4));
        let mut before = 0;
        for _ in 0..2 {
            let counters = dispatcher.counters();
            assert!(counters.add_up() && counters.accepted >= before, "{counters:?}");
            assert!(counters.pending <= 1, "each posts one: {counters:?}");
            before = counters.accepted;
        }
        dispatcher.shutdown_async();
        chain.done.store(true, Ordering::Release);
        conclude(&runtime, &seen, &[]);
        let ran = chain.ran.lock();
        assert!(ran.iter().map(|ran| ran.0).eq((0..5).rev().take(ran.len())), "{ran:?}");
        let told = ran.iter().zip(ran.iter().skip(1)).filter(|(first, _)| first.1);
        assert!(told.into_iter().all(|(_, next)| next.2), "begun after the shutdown: {ran:?}");
        assert_eq!(runtime.counters().accepted as usize, ran.len());
    });
}

/// What a callback posts to its own dispatcher stands behind what it knows to have been posted before.
#[test]
fn shuttle_a_post_to_oneself_overtakes_nothing_that_was_posted_before() {
    #[derive(Clone)]
    struct Link {
        own: DispatcherHandle,
        has_begun: Arc<AtomicBool>,
        posted: Arc<AtomicUsize>,
        ran: Arc<AtomicUsize>,
    }
    impl Link {
        /// Posts the next one, which comes after all that is known here.
        fn go_on(self, left: usize) {
            thread::yield_now();
            let before = self.posted.load(Ordering::Acquire);
            let own = self.own.clone();
            let next = move |_: Result<(), _>| {
                assert!(self.ran.load(Ordering::Acquire) >= before, "it has overtaken what was posted before");
                self.has_begun.store(true, Ordering::Release);
                if left > 0 {
                    self.go_on(left - 1);
                }
            };
            own.post_task(next).expect("it runs");
        }
    }
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
        let dispatcher = runtime.new_driver("driver").new_dispatcher(DispatcherBuilder::new()).expect("created");
        let (has_begun, posted, ran) = Default::default();
        let link = Link { own: dispatcher.handle(), has_begun, posted, ran };
        link.clone().go_on(7);
        while !link.has_begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        for number in 0..2 {
            let ran = Arc::clone(&link.ran);
            let task = move |_: Result<(), _>| drop(ran.fetch_add(1, Ordering::AcqRel));
            match number == 1 {
                true => drop(dispatcher.post_cancelable(task).expect("it runs")),
                false => dispatcher.post_task(task).expect("it runs"),
            }
            link.posted.fetch_add(1, Ordering::AcqRel);
        }
        dispatcher.wait_until_idle(Duration::MAX).expect("it becomes idle");
        assert_eq!((dispatcher.counters().ran, link.ran.load(Ordering::Relaxed)), (10, 2));
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    });
}

/// While a driver is suspended nothing of it runs but what ran when that began, and afterwards all of it does, in its order,
/// with what others posted.
#[test]
fn shuttle_a_suspend_beside_posts_to_oneself_parks_all_of_them_in_their_order() {
    #[derive(Default)]
    struct Seen {
        is_suspended: AtomicBool,
        is_resumed: AtomicBool,
        /// What ran, and whether the driver was known to be suspended when it returned.
        ran: Mutex<Vec<(usize, bool)>>,
    }
    impl Seen {
        fn visit(&self, number: usize) {
            let stood_still = self.ran.lock().last().is_some_and(|&(_, knew)| knew);
            let is_resumed = self.is_resumed.load(Ordering::Acquire);
            assert!(is_resumed || !stood_still, "{number} has begun while all stood still");
            thread::yield_now();
            self.ran.lock().push((number, self.is_suspended.load(Ordering::Acquire)));
        }
    }
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
        let driver = runtime.new_driver("driver");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
        let seen = Arc::new(Seen::default());
        let (own, by_own) = (dispatcher.handle(), Arc::clone(&seen));
        let begin = move |_: Result<(), _>| {
            for number in 0..4 {
                let seen = Arc::clone(&by_own);
                own.post_task(move |_| seen.visit(number)).expect("it runs");
            }
        };
        dispatcher.post_task(begin).expect("it runs");
        driver.suspend(|_| ()).expect("it runs");
        seen.is_suspended.store(true, Ordering::Release);
        let late = Arc::clone(&seen);
        dispatcher.post_task(move |_| late.visit(9)).expect("it is parked");
        thread::yield_now();
        seen.is_resumed.store(true, Ordering::Release);
        assert!(driver.resume());
        dispatcher.wait_until_idle(Duration::MAX).expect("it becomes idle");
        let ran: Vec<_> = seen.ran.lock().iter().map(|&(number, _)| number).collect();
        assert_eq!(ran.iter().copied().filter(|&number| number != 9).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(ran.len(), 5);
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    });
}

/// A dump lists all that is on a tray, at each moment what is there at that moment, and what runs.
#[test]
fn shuttle_a_dump_beside_posts_to_oneself_lists_what_is_there() {
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
        let dispatcher = runtime.new_driver("driver").new_dispatcher(DispatcherBuilder::new()).expect("created");
        let chain = Chain::new(dispatcher.handle());
        for _ in 0..2 {
            assert!(chain.begin(1));
        }
        for _ in 0..3 {
            let dump = dispatcher.dump();
            assert!(dump.counters.add_up(), "{dump}");
            assert_eq!(dump.pending.len() as u64, dump.counters.pending, "{dump}");
            assert!(dump.running.len() <= 1 && dump.counters.pending <= 2, "{dump}");
            thread::yield_now();
        }
        dispatcher.wait_until_idle(Duration::MAX).expect("it becomes idle");
        assert_eq!(dispatcher.counters().ran, 4);
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    });
}

/// A cancellation beside those who look: each task is told once, in the order of the posts, and at each look what was told is
/// counted and what was not is listed.
#[test]
fn shuttle_a_look_beside_a_cancellation_finds_what_is_not_told_yet() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let told = Arc::new(Mutex::new(Vec::new()));
        for number in 0..5 {
            let told = Arc::clone(&told);
            let task = move |outcome: Result<(), _>| {
                thread::yield_now();
                told.lock().push((number, outcome.is_err()));
            };
            dispatcher.post_task(task).expect("it runs");
        }
        dispatcher.shutdown_async();
        let mut ended = 0;
        for _ in 0..3 {
            let dump = dispatcher.dump();
            let counters = dump.counters;
            assert!(counters.add_up(), "{dump}");
            assert_eq!(dump.pending.len() as u64, counters.pending, "{dump}");
            assert!(counters.ran + counters.canceled >= ended && dump.running.len() <= 1, "{dump}");
            ended = counters.ran + counters.canceled;
            thread::yield_now();
        }
        conclude(&runtime, &seen, &[]);
        let told = told.lock();
        assert!(told.iter().map(|told| told.0).eq(0..5), "{told:?}");
        let canceled = told.iter().filter(|told| told.1).count() as u64;
        assert_eq!((runtime.counters().canceled, runtime.counters().ran), (canceled, 5 - canceled));
    });
}
