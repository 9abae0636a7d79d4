//! The loop turned by hand, over a simulated reactor: iterations, budgets, and the seams by which a pool makes it its
//! own.

use super::*;
use crate::event_loop::budget;
use crate::event_loop::parker::NoWorkload;
use crate::sync::Mutex;
use crate::sys::Interest;
use crate::sys::sim::Event;
use crate::time::Clock;

/// A sleep that is never slept: it counts who asks for it.
#[derive(Default)]
struct CountingParker {
    parked: Mutex<u32>,
    unparked: Mutex<u32>,
}

impl Parker for CountingParker {
    fn park(&self) {
        *self.parked.lock() += 1;
    }

    fn unpark(&self) {
        *self.unparked.lock() += 1;
    }
}

struct ByHand {
    event_loop: EventLoop,
    parker: Arc<CountingParker>,
    clock: Clock,
    log: Rc<RefCell<Vec<&'static str>>>,
}

impl ByHand {
    fn new() -> Self {
        Self::with(Box::new(NoWorkload))
    }

    fn with(workload: Box<dyn Workload>) -> Self {
        let clock = Clock::virtual_at(Instant::ZERO);
        let parker = Arc::new(CountingParker::default());
        let seed = LoopSeed::new("by-hand", Some(7), Reactor::simulated(clock.clone()), parker.clone());
        ByHand { event_loop: EventLoop::with(seed, workload), parker, clock, log: Rc::default() }
    }

    fn log(&self, entry: &'static str) -> impl FnMut() + use<> {
        let log = self.log.clone();
        move || log.borrow_mut().push(entry)
    }

    fn taken(&self) -> Vec<&'static str> {
        self.log.take()
    }
}

#[test]
fn a_callback_that_is_posted_or_armed_during_an_iteration_waits_for_the_next() {
    let by_hand = ByHand::new();
    let event_loop = &by_hand.event_loop;
    let counter = Arc::new(Mutex::new(0));
    let inner = counter.clone();
    event_loop
        .async_run(move |event_loop| {
            *inner.lock() += 1;
            let again = inner.clone();
            event_loop.async_run(move |_| *again.lock() += 10).unwrap();
        })
        .unwrap();
    assert!(event_loop.iterate(), "there is more");
    assert_eq!(*counter.lock(), 1);
    assert!(!event_loop.iterate(), "nothing is left");
    assert_eq!(*counter.lock(), 11);
}

/// Shows J11, E25.
#[test]
fn an_iteration_serves_each_kind_within_its_budget() {
    let by_hand = ByHand::new();
    let event_loop = &by_hand.event_loop;
    let many = budget::CALLBACKS as usize + 10;
    let posts = Arc::new(Mutex::new(0));
    for _ in 0..many {
        let posts = posts.clone();
        event_loop.async_run(move |_| *posts.lock() += 1).unwrap();
    }
    let runs = Rc::new(Cell::new(0));
    let jobs: Vec<_> = (0..many)
        .map(|_| {
            let runs = runs.clone();
            event_loop.job(move |_| runs.set(runs.get() + 1))
        })
        .collect();
    jobs.iter().for_each(|job| job.arm().unwrap());
    let mut fired = by_hand.log("timer");
    let timer = event_loop.timer(move |_, _| fired());
    timer.once(Duration::ZERO).unwrap();
    assert!(event_loop.iterate());
    assert_eq!((*posts.lock(), runs.get()), (budget::CALLBACKS as usize, budget::CALLBACKS as usize));
    assert_eq!(by_hand.taken(), ["timer"], "the timer did not wait for the rest");
    assert!(!event_loop.iterate());
    assert_eq!((*posts.lock(), runs.get()), (many, many));
}

#[test]
fn timers_fire_by_deadline_and_before_the_readiness_of_the_same_moment() {
    let by_hand = ByHand::new();
    let event_loop = &by_hand.event_loop;
    let event = Event::new();
    let (mut early, mut late, mut ready) = (by_hand.log("early"), by_hand.log("late"), by_hand.log("ready"));
    let wait = event_loop.wait_once(&event, Interest::READABLE, move |_, _| ready()).unwrap();
    let second = event_loop.timer(move |_, _| late());
    second.once(Duration::from_nanos(20)).unwrap();
    let first = event_loop.timer(move |_, _| early());
    first.once(Duration::from_nanos(10)).unwrap();
    event.signal();
    by_hand.clock.advance_to(Instant::from_nanos(20));
    event_loop.iterate();
    assert_eq!(by_hand.taken(), ["early", "late", "ready"]);
    assert!(!wait.is_armed());
}

/// Shows E22, E23.
#[test]
fn a_ticker_tells_how_many_ticks_it_missed_and_stays_on_its_grid() {
    let by_hand = ByHand::new();
    let ticks = Rc::new(RefCell::new(Vec::new()));
    let seen = ticks.clone();
    let timer =
        by_hand.event_loop.timer(move |_, tick| seen.borrow_mut().push((tick.deadline.as_nanos(), tick.missed)));
    timer.ticker(Duration::from_nanos(10)).unwrap();
    for now in [10, 19, 20, 47, 50] {
        by_hand.clock.advance_to(Instant::from_nanos(now));
        by_hand.event_loop.iterate();
    }
    assert_eq!(ticks.take(), [(10, 0), (20, 0), (30, 1), (50, 0)]);
}

/// Shows A6, L25, E28.
#[test]
fn a_timer_that_others_stop_again_and_again_leaves_nothing_in_the_wheel_and_is_called_for_its_last_arming_only() {
    let by_hand = ByHand::new();
    let mut tick = by_hand.log("tick");
    let timer = by_hand.event_loop.timer(move |_, _| tick());
    for nth in 1..=100 {
        // Twice for the same deadline: the deadline that is left behind must not be taken for the newer arming.
        timer.once_at(Instant::from_nanos(1_000 + nth / 2)).unwrap();
        let stopper = timer.stopper();
        let stop = crate::sync::thread::spawn("stopper", move || stopper.stop()).unwrap();
        assert!(stop.join().unwrap());
        assert_eq!(timer.state(), crate::event_loop::TimerState::Idle);
        if nth % 2 == 0 {
            by_hand.event_loop.iterate();
            assert_eq!(by_hand.event_loop.local().loop_timers.len(), 0);
        }
    }
    timer.once_at(Instant::from_nanos(1_050)).unwrap();
    by_hand.clock.advance_to(Instant::from_nanos(2_000));
    by_hand.event_loop.iterate();
    assert_eq!(by_hand.taken(), ["tick"]);
}

#[test]
fn a_loop_with_timers_sleeps_by_one_alarm_of_its_reactor_and_not_when_one_is_due() {
    let by_hand = ByHand::new();
    let event_loop = &by_hand.event_loop;
    let alarm_at = || event_loop.local().reactor.next_deadline().as_nanos();
    assert!(event_loop.set_alarm(), "no timer, no alarm");
    let timers: Vec<_> = (0..3).map(|_| event_loop.timer(|_, _| {})).collect();
    for (timer, at) in timers.iter().zip([300, 100, 200]) {
        timer.once_at(Instant::from_nanos(at)).unwrap();
    }
    assert!(event_loop.set_alarm());
    assert_eq!(alarm_at(), 100);
    timers[1].stop();
    assert!(event_loop.set_alarm());
    assert_eq!(alarm_at(), 100, "one that rings early does no harm and is left as it is");
    by_hand.clock.advance_to(Instant::from_nanos(150));
    event_loop.iterate();
    assert!(event_loop.set_alarm());
    assert_eq!(alarm_at(), 200);
    by_hand.clock.advance_to(Instant::from_nanos(200));
    assert!(!event_loop.set_alarm(), "one is due: no sleep");
}

#[test]
fn posts_from_the_loop_itself_wake_nobody_and_a_burst_from_outside_wakes_once() {
    let by_hand = ByHand::new();
    let handle = by_hand.event_loop.handle();
    for _ in 0..3 {
        let own = handle.clone();
        handle.async_run(move |_| own.async_run(|_| {}).unwrap()).unwrap();
    }
    assert_eq!(*by_hand.parker.unparked.lock(), 1);
    while by_hand.event_loop.iterate() {}
    assert_eq!(*by_hand.parker.unparked.lock(), 1, "its own posts need no wake-up");
}

/// A workload of so many pieces, which asks for a shutdown when it is through.
struct Pieces {
    left: u32,
    most_at_once: u32,
    handle: Rc<RefCell<Option<LoopHandle>>>,
    asked_before_park: Rc<Cell<u32>>,
}

impl Workload for Pieces {
    fn run(&mut self, budget: u32) -> bool {
        self.left -= self.left.min(budget).min(self.most_at_once);
        self.left > 0
    }

    fn before_park(&mut self) -> bool {
        self.asked_before_park.set(self.asked_before_park.get() + 1);
        if let Some(handle) = self.handle.take() {
            handle.begin_shutdown();
            return true;
        }
        false
    }
}

#[test]
fn a_workload_is_served_beside_the_callbacks_and_asked_before_the_loop_sleeps() {
    let (handle, asked) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(0)));
    let pieces = Pieces { left: 10, most_at_once: 3, handle: handle.clone(), asked_before_park: asked.clone() };
    let by_hand = ByHand::with(Box::new(pieces));
    *handle.borrow_mut() = Some(by_hand.event_loop.handle());
    let mut torn_down = by_hand.log("teardown");
    by_hand.event_loop.teardown(move |_| torn_down()).unwrap();
    assert!(by_hand.event_loop.iterate(), "seven pieces are left");
    assert_eq!(asked.get(), 0, "there was no thought of sleeping yet");
    let summary = by_hand.event_loop.run();
    assert_eq!(by_hand.taken(), ["teardown"]);
    assert!(asked.get() >= 1 && handle.borrow().is_none());
    assert_eq!(*by_hand.parker.parked.lock(), 0, "there was something to do all the time");
    assert_eq!((summary.panics, by_hand.event_loop.tid()), (0, Some(7)));
    assert!(by_hand.event_loop.async_run(|_| {}).is_err());
}

#[test]
fn what_users_leave_in_a_loop_that_never_ran_goes_with_it() {
    let value = Arc::new(());
    let by_hand = ByHand::new();
    let (in_post, handle) = (value.clone(), by_hand.event_loop.handle());
    handle.async_run(move |_| drop(in_post)).unwrap();
    drop(by_hand);
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(handle.async_run(|_| {}).is_err());
}

/// Shows L24.
#[test]
fn within_an_iteration_events_come_first_then_posts_then_jobs() {
    let by_hand = ByHand::new();
    let event_loop = &by_hand.event_loop;
    let order = Arc::new(Mutex::new(Vec::new()));
    let (in_job, in_post, in_timer) = (order.clone(), order.clone(), order.clone());
    // In the opposite order, so that it cannot come from the order of asking.
    let job = event_loop.job(move |_| in_job.lock().push("job"));
    job.arm().unwrap();
    event_loop.async_run(move |_| in_post.lock().push("post")).unwrap();
    let timer = event_loop.timer(move |_, _| in_timer.lock().push("timer"));
    timer.once(Duration::ZERO).unwrap();
    event_loop.iterate();
    assert_eq!(*order.lock(), ["timer", "post", "job"]);
}

/// Shows L17, E30.
#[test]
fn a_loop_with_nothing_to_wait_for_ends_without_sleeping_or_polling_for_a_helper() {
    let by_hand = ByHand::new();
    by_hand.event_loop.async_run(|_| {}).unwrap();
    by_hand.event_loop.handle().begin_shutdown();
    by_hand.event_loop.run();
    assert_eq!(*by_hand.parker.parked.lock(), 0);
    assert!(by_hand.event_loop.handle().is_closed());
}
