//! Baton threads: how a pool that is driven by hand runs what may block.
//!
//! The thread that turns the crank must not sleep inside of a callback: nobody would be left to do what the callback
//! waits for. So whatever may block runs on a helper thread, and the crank waits meanwhile: of all these threads exactly
//! one *moves* at a time, as if a baton were passed between them. In steps:
//!
//! 1. [`Batons::begin`] gives a job to a helper without one, starting a thread if there is none, and waits.
//! 2. The helper gives the baton back when its job has ended, or when it waits for something ([`Baton::sleep`]).
//! 3. What is waited for makes the helper *runnable*: it is queued like a dispatcher, in the order of the wake-ups, and a
//!    later turn of the crank passes the baton to it. A deadline is a timer of the pool like any other.
//! 4. A helper that is about to call something which blocks in the kernel ([`Baton::let_others_go_first`]) goes on when
//!    nothing else can, so that what it waits for has happened if it is going to.
//! 5. Where a test explores how callbacks overlap, a helper may *step aside* ([`Baton::step_aside`]): it stays runnable,
//!    but somebody else has the next turn.
//!
//! What blocks out of sight, in the kernel or on a channel of the standard library, keeps the baton. When it has had it for
//! longer than [`Batons::patience`], which is measured in real time, the helper counts as *outside*: the crank goes on
//! without it, and takes notice when it gives the baton back. That is the only case in which two threads move at once. Where
//! schedules are explored a helper is outside as soon as it is seen to wait for somebody else, which takes some
//! milliseconds; as long as it computes, or sleeps for a time, the crank is patient.
//!
//! # Invariants
//! - A helper that is idle, asleep or patient does not move.
//! - A helper stands in the run queue at most once, and only while it is asleep.
//! - After [`Batons::close`] every helper ends when its job does.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Wake;
use std::time::Duration;

use super::lanes::LaneItem;
use super::run_queue;
use super::{Pool, Runnable, Task, Turn};
use crate::event_loop::{EventTarget, Fired, Told};
use crate::sync::probe::{self, Actor, Probe};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, Wakeup, Weak, thread, thread_local};
use crate::sys::thread_id;
use crate::time::{Clock, Instant};

/// How long the crank waits for the baton unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a helper is looked at that may wait for somebody who stands aside.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
const LOOKS: u32 = 4;

thread_local! {
    /// What this thread is, if it is a helper.
    static CURRENT: RefCell<Option<Arc<Baton>>> = const { RefCell::new(None) };
}

/// What a helper does.
pub(crate) enum Job {
    /// A turn of something that may block.
    Turn(Task),
    /// Work of a lane.
    Work(Arc<dyn LaneItem>),
    /// Anything else. It catches its own panics.
    Call(Box<dyn FnOnce() + Send>),
}

impl Job {
    fn actor(&self) -> Actor {
        match self {
            Job::Turn(task) => task.actor(),
            Job::Work(_) | Job::Call(_) => Actor::Call,
        }
    }

    /// What it is called, if it is no dispatcher's or driver's.
    fn label(&self) -> Option<&'static str> {
        match self {
            Job::Turn(_) => None,
            Job::Work(_) => Some("work of a lane"),
            Job::Call(_) => Some("a call that the test makes"),
        }
    }

    fn run(self, pool: &Arc<Pool>) {
        match self {
            Job::Turn(task) => run_queue::as_current(pool.id(), || {
                if let Turn::Again(task) = task.run_turn() {
                    pool.queue.push(pool.id(), task);
                }
            }),
            Job::Work(item) => run_queue::as_current(0, || item.run()),
            Job::Call(call) => call(),
        }
    }
}

/// Where one helper stands.
#[derive(Default)]
struct Place {
    /// It has the baton. Set by the crank, cleared by the helper.
    moves: bool,
    /// It has a job that has not ended.
    busy: bool,
    /// What it does next. Set by the crank while the helper is idle.
    job: Option<Begun>,
    /// Who does it, for whoever decides between several.
    actor: Option<Actor>,
    /// What it is, if nobody has posted it.
    label: Option<&'static str>,
    /// The pool whose job it does.
    pool: Weak<Pool>,
    /// It waits to be woken.
    asleep: bool,
    /// It was woken since it slept last.
    woken: bool,
    /// It stands in the run queue.
    queued: bool,
    /// It has stepped aside, and nobody else has had a turn since.
    aside: bool,
    /// What it waits for is not going to happen.
    given_up: bool,
    /// A panic that is no callback's, on its way to the crank.
    panic: Option<Box<dyn Any + Send>>,
    /// The number that the operating system gives the thread, if it does, once the thread runs.
    started: Option<Option<u32>>,
    /// The thread, until it is joined.
    handle: Option<thread::JoinHandle<()>>,
}

/// A job on its way to a helper.
struct Begun {
    job: Job,
    pool: Arc<Pool>,
    /// The probe of whoever turns the crank, which the job has too.
    probe: Option<Arc<dyn Probe>>,
}

#[derive(Default)]
struct State {
    /// By the number of the helper.
    places: Vec<Place>,
    idle: Vec<Arc<Baton>>,
    /// Those that go on when nothing else can, in their order.
    patient: VecDeque<Arc<Baton>>,
    /// Those that the crank did not wait for any longer.
    outside: Vec<Arc<Baton>>,
    /// How much had been done when the crank last waited for `outside` in vain.
    waited_at: Option<u64>,
    patience: Option<Duration>,
    /// The thread that turned the crank last.
    turner: Option<thread::ThreadId>,
    closed: bool,
}

/// The helpers of one pool.
pub(crate) struct Batons {
    name: String,
    state: Mutex<State>,
    /// A helper gave the baton back.
    returned: Condvar,
}

/// One helper.
pub(crate) struct Baton {
    number: usize,
    batons: Arc<Batons>,
    /// The baton was passed to it, or it is to end.
    passed: Condvar,
}

/// The helper that the calling thread is.
pub(crate) fn current() -> Option<Arc<Baton>> {
    CURRENT.try_with(|current| current.borrow().clone()).unwrap_or_default()
}

impl Batons {
    pub(crate) fn new(pool: &str) -> Arc<Self> {
        let state = Mutex::new(State::default());
        Arc::new(Batons { name: format!("{pool}-baton"), state, returned: Condvar::new() })
    }

    /// Changes how long the crank waits for a helper that does not give the baton back.
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.state.lock().patience = Some(patience);
    }

    /// The calling thread turns the crank from here on.
    pub(crate) fn note_turner(&self) {
        self.state.lock().turner = Some(thread::current_id());
    }

    /// Whether the calling thread turned the crank last.
    pub(crate) fn is_turner(&self) -> bool {
        self.state.lock().turner == Some(thread::current_id())
    }

    /// Runs a job until it ends or waits; the answer is the helper that does it.
    pub(crate) fn begin(self: &Arc<Self>, pool: &Arc<Pool>, job: Job) -> Option<Arc<Baton>> {
        let mut state = self.state.lock();
        let baton = match state.idle.pop() {
            Some(baton) => baton,
            None => match self.start_helper(&mut state) {
                Ok(baton) => baton,
                Err(error) => {
                    drop(state);
                    tracing::warn!(%error, "no thread for what may block; it runs on the thread that turns the crank");
                    job.run(pool);
                    return None;
                }
            },
        };
        let place = &mut state.places[baton.number];
        (place.busy, place.woken, place.given_up) = (true, false, false);
        place.pool = Arc::downgrade(pool);
        (place.actor, place.label) = (Some(job.actor()), job.label());
        place.job = Some(Begun { job, pool: Arc::clone(pool), probe: probe::current() });
        self.pass(state, &baton);
        Some(baton)
    }

    fn start_helper(self: &Arc<Self>, state: &mut State) -> std::io::Result<Arc<Baton>> {
        let number = state.places.len();
        let baton = Arc::new(Baton { number, batons: Arc::clone(self), passed: Condvar::new() });
        let helper = Arc::clone(&baton);
        let handle = thread::spawn(&format!("{}-{number}", self.name), move || helper.live())?;
        state.places.push(Place { handle: Some(handle), ..Place::default() });
        Ok(baton)
    }

    /// Passes the baton and waits until it comes back.
    fn pass<'a>(&'a self, mut state: MutexGuard<'a, State>, baton: &Arc<Baton>) {
        state.outside.retain(|outside| !Arc::ptr_eq(outside, baton));
        state.places[baton.number].moves = true;
        baton.passed.notify_one();
        let until = Clock::real().now() + state.patience.unwrap_or(PATIENCE);
        // Somebody else may have what it waits for: who stands aside, or whose turn is next.
        let watching = probe::current();
        while state.places[baton.number].moves {
            let is_late = match &watching {
                Some(_) => {
                    let waits;
                    (state, waits) = self.wait_or_see_waiting(state, baton.number);
                    waits || Clock::real().now() >= until
                }
                None => self.returned.wait_until(&mut state, until) == Wakeup::TimedOut,
            };
            if is_late && state.places[baton.number].moves {
                state.outside.push(Arc::clone(baton));
                match watching {
                    Some(probe) => probe.went_outside(),
                    None => tracing::warn!(
                        helper = %format_args!("{}-{}", self.name, baton.number),
                        "a callback blocks out of sight of the foreground runtime; the crank goes on without it"
                    ),
                }
                return;
            }
        }
        Self::rethrow(state, baton.number);
    }

    /// Waits a moment for a helper; true when it is seen to wait all the time for somebody else, and not for the baton.
    fn wait_or_see_waiting<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        number: usize,
    ) -> (MutexGuard<'a, State>, bool) {
        let mut waits = true;
        let mut seen = None;
        for _ in 0..LOOKS {
            let until = Clock::real().now() + BETWEEN_LOOKS;
            if !state.places[number].moves || self.returned.wait_until(&mut state, until) == Wakeup::Notified {
                return (state, false);
            }
            let started = state.places[number].started;
            // The helper may want the lock, and would be seen to wait for it.
            drop(state);
            waits &= match started {
                // Where nothing can be seen it counts as waiting. What has run since the last look does not wait.
                Some(Some(os_id)) => {
                    let runs = thread_id::runs(os_id);
                    thread_id::waits_for_others(os_id).unwrap_or(true) && *seen.get_or_insert(runs) == runs
                }
                Some(None) => true,
                // What has not started does not wait.
                None => false,
            };
            state = self.state.lock();
        }
        let waits = waits && state.places[number].moves;
        (state, waits)
    }

    /// Waits until each of those outside has given the baton back or is seen to sleep. Does nothing if there is none.
    pub(crate) fn settle_outside(&self) {
        let mut state = self.state.lock();
        let until = Clock::real().now() + state.patience.unwrap_or(PATIENCE);
        for at in 0..state.outside.len() {
            let Some(number) = state.outside.get(at).map(|baton| baton.number) else { return };
            while state.places[number].moves && Clock::real().now() < until {
                let waits;
                (state, waits) = self.wait_or_see_waiting(state, number);
                if waits {
                    break;
                }
            }
        }
    }

    /// Those that have not given the baton back although the crank went on without them: who it is, and what it is called if
    /// nobody has posted it.
    #[cfg_attr(shuttle, allow(dead_code, reason = "no model asks who blocks"))]
    pub(crate) fn outside(&self) -> Vec<(Option<Actor>, Option<&'static str>)> {
        let state = self.state.lock();
        let moving = state.outside.iter().map(|baton| &state.places[baton.number]).filter(|place| place.moves);
        moving.map(|place| (place.actor, place.label)).collect()
    }

    fn rethrow(mut state: MutexGuard<'_, State>, number: usize) {
        let panic = state.places[number].panic.take();
        drop(state);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Lets one of those go on that let others go first; false when there is none.
    pub(crate) fn resume_patient(&self) -> bool {
        let mut state = self.state.lock();
        let Some(baton) = state.patient.pop_front() else { return false };
        self.pass(state, &baton);
        true
    }

    /// Waits until one of those outside gives the baton back; false when there is none, or when none does for as long as
    /// the crank is patient. `progress` grows with everything that is done: without progress nobody waits twice.
    pub(crate) fn collect_outside(&self, progress: u64) -> bool {
        let mut state = self.state.lock();
        if state.outside.is_empty() {
            return false;
        }
        let until = Clock::real().now() + state.patience.unwrap_or(PATIENCE);
        loop {
            let back = state.outside.iter().position(|baton| !state.places[baton.number].moves);
            if let Some(at) = back {
                let baton = state.outside.remove(at);
                Self::rethrow(state, baton.number);
                return true;
            }
            if state.waited_at == Some(progress) {
                return false;
            }
            if self.returned.wait_until(&mut state, until) == Wakeup::TimedOut {
                state.waited_at = Some(progress);
            }
        }
    }

    /// Ends the waits of the helper that does [`Job::Call`]s: nothing of what they wait for is going to happen.
    pub(crate) fn give_up(&self, baton: &Arc<Baton>) {
        self.state.lock().places[baton.number].given_up = true;
        baton.wake_by_ref();
    }

    /// Lets the helpers end as soon as they have nothing to do.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.closed = true;
            let mut waiting = std::mem::take(&mut state.idle);
            waiting.extend(state.patient.drain(..));
            waiting.append(&mut state.outside);
            waiting
        };
        for baton in waiting {
            baton.passed.notify_one();
        }
    }

    /// Whether the helpers of a closed set have ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.state.lock().places.iter().filter_map(|place| place.handle.as_ref()).all(thread::JoinHandle::is_finished)
    }

    /// Waits for the helpers of a closed set, except the calling one. One whose job does not end while the crank would be
    /// patient is left to itself: it blocks out of sight.
    pub(crate) fn join(&self) {
        let own = current().map(|baton| baton.number);
        let mut state = self.state.lock();
        let until = Clock::real().now() + state.patience.unwrap_or(PATIENCE);
        let is_busy = |(number, place): (usize, &Place)| place.busy && Some(number) != own;
        while state.places.iter().enumerate().any(is_busy) {
            if self.returned.wait_until(&mut state, until) == Wakeup::TimedOut {
                break;
            }
        }
        let ending = state.places.iter_mut().filter(|place| !place.busy);
        let handles: Vec<_> = ending.filter_map(|place| place.handle.take()).collect();
        drop(state);
        for handle in handles {
            if handle.id() != thread::current_id() {
                // What a job panics with goes to the crank.
                let _ = handle.join();
            }
        }
    }
}

impl fmt::Debug for Batons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batons").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Baton {
    fn place<'a>(&self, state: &'a mut State) -> &'a mut Place {
        &mut state.places[self.number]
    }

    /// The body of the thread.
    fn live(self: Arc<Self>) {
        CURRENT.with(|current| current.replace(Some(Arc::clone(&self))));
        self.place(&mut self.batons.state.lock()).started = Some(thread_id::current());
        while let Some(Begun { job, pool, probe }) = self.next_job() {
            let attached = probe::attach(probe);
            let ended = catch_unwind(AssertUnwindSafe(|| job.run(&pool)));
            drop(pool);
            drop(attached);
            let mut state = self.batons.state.lock();
            let place = self.place(&mut state);
            place.panic = ended.err();
            place.pool = Weak::new();
            (place.busy, place.moves) = (false, false);
            if !state.closed {
                state.idle.push(Arc::clone(&self));
            }
            drop(state);
            self.batons.returned.notify_all();
        }
        CURRENT.with(RefCell::take);
    }

    fn next_job(&self) -> Option<Begun> {
        let mut state = self.batons.state.lock();
        loop {
            if let Some(job) = self.place(&mut state).job.take() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.passed.wait(&mut state);
        }
    }

    /// Gives the baton back and waits until it is passed to this thread again.
    fn give_back(&self, state: &mut MutexGuard<'_, State>) {
        self.place(state).moves = false;
        self.batons.returned.notify_all();
        while !self.place(state).moves && !state.closed {
            self.passed.wait(state);
        }
        // Nobody turns the crank of a closed set any more: one that was outside until then goes on by itself.
        self.place(state).moves = true;
    }

    /// Sleeps until it is woken, or until `deadline` by the clock of the pool. Only for the helper itself.
    pub(crate) fn sleep(self: &Arc<Self>, deadline: Instant) {
        let pool = self.pool();
        let timer = pool.as_ref().filter(|_| !deadline.is_infinite()).map(|pool| {
            let target: Arc<dyn EventTarget> = Arc::clone(self) as Arc<dyn EventTarget>;
            pool.reactor.arm_timer(deadline, target, 0)
        });
        let mut state = self.batons.state.lock();
        if !self.place(&mut state).woken {
            self.place(&mut state).asleep = true;
            self.give_back(&mut state);
            self.place(&mut state).asleep = false;
        }
        self.place(&mut state).woken = false;
        drop(state);
        if let (Some(pool), Some(timer)) = (pool, timer) {
            pool.reactor.cancel_timer(timer);
        }
    }

    /// Waits until nothing else can go on. Only for the helper itself.
    pub(crate) fn let_others_go_first(self: &Arc<Self>) {
        let mut state = self.batons.state.lock();
        state.patient.push_back(Arc::clone(self));
        self.give_back(&mut state);
    }

    /// Lets somebody else have the next turn. It stays runnable meanwhile. Only for the helper itself.
    #[cfg_attr(shuttle, allow(dead_code, reason = "nothing is explored in a model"))]
    pub(crate) fn step_aside(self: &Arc<Self>) {
        let Some(pool) = self.pool() else { return };
        let mut state = self.batons.state.lock();
        let place = self.place(&mut state);
        (place.asleep, place.queued, place.aside) = (true, true, true);
        pool.queue.push(pool.id(), Arc::clone(self) as Task);
        drop(pool);
        self.give_back(&mut state);
        self.place(&mut state).asleep = false;
    }

    /// Whether the crank went on without it, so that it has no baton to give back.
    #[cfg_attr(shuttle, allow(dead_code, reason = "nothing is explored in a model"))]
    pub(crate) fn is_outside(&self) -> bool {
        self.batons.state.lock().outside.iter().any(|outside| outside.number == self.number)
    }

    /// Whether it has stepped aside; told once.
    #[cfg_attr(shuttle, allow(dead_code, reason = "nothing is explored in a model"))]
    pub(crate) fn take_aside(&self) -> bool {
        std::mem::take(&mut self.place(&mut self.batons.state.lock()).aside)
    }

    /// The time by the clock of the pool.
    pub(crate) fn now(&self) -> Instant {
        self.pool().map_or(Instant::ZERO, |pool| pool.reactor.clock().now())
    }

    /// Whether what it waits for is not going to happen.
    pub(crate) fn is_given_up(&self) -> bool {
        let mut state = self.batons.state.lock();
        state.closed || self.place(&mut state).given_up
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        self.place(&mut self.batons.state.lock()).pool.upgrade()
    }
}

impl Wake for Baton {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.batons.state.lock();
        let place = self.place(&mut state);
        place.woken = true;
        if !place.asleep || place.queued {
            return;
        }
        place.queued = true;
        let pool = place.pool.upgrade();
        drop(state);
        if let Some(pool) = pool {
            pool.schedule(Arc::clone(self) as Task);
        }
    }
}

impl Runnable for Baton {
    fn helper(&self) -> Option<&Baton> {
        Some(self)
    }

    fn actor(&self) -> Actor {
        self.place(&mut self.batons.state.lock()).actor.unwrap_or(Actor::Call)
    }

    /// On the thread that turns the crank: the helper goes on until its job ends or waits again.
    fn run_turn(self: Arc<Self>) -> Turn {
        let mut state = self.batons.state.lock();
        self.place(&mut state).queued = false;
        if self.place(&mut state).asleep {
            self.batons.pass(state, &self);
        }
        Turn::Done
    }
}

impl EventTarget for Baton {
    fn fire(self: Arc<Self>, _key: u64, _fired: Fired, _last: bool) -> Told {
        self.wake();
        Told::All
    }
}

impl fmt::Debug for Baton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baton").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "batons_tests.rs"]
mod tests;
