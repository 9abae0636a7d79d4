//! Fuchsine's event loops alone, without dispatchers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, Job, Lane, LoopHandle, LoopManager, PauseScope, Timer};

use super::Doing;
use super::bulk;
use super::counts::{self, BATCH, IN_FLIGHT, POSTS};
use crate::random::Random;
use crate::sample::{Sample, Stopwatch};

pub(crate) fn measure(doing: Doing) -> Sample {
    match doing {
        Doing::JobChain => on_one_loop(counts::hops(), job_chain),
        Doing::JobBatch => on_one_loop(BATCH * counts::batches(), job_batch),
        Doing::AsyncSelf => {
            on_one_loop(counts::hops(), |event_loop, done| async_self(event_loop, counts::hops(), done))
        }
        Doing::PingPong => ping_pong(),
        Doing::AsyncBurst => burst(),
        Doing::WorkOne => {
            on_one_loop(counts::work_one(), |event_loop, done| work(event_loop, counts::work_one(), 1, done))
        }
        Doing::WorkMany => {
            on_one_loop(counts::work_many(), |event_loop, done| work(event_loop, counts::work_many(), IN_FLIGHT, done))
        }
        Doing::TimerArmCancel => on_one_loop(counts::armings(), arm_and_cancel),
        Doing::TimerMove => on_one_loop(counts::moves(), move_among_many),
        Doing::TimersDue => on_one_loop(counts::timers(), many_due),
        Doing::PauseResume => pauses(),
        Doing::AsyncBatch => on_one_loop(POSTS * counts::post_batches(), bulk::post_batches),
        Doing::PostsFromOutside => bulk::posts_from_outside(),
        Doing::WorkCancel => on_one_loop(counts::canceled_items(), bulk::cancel_work),
        Doing::TimerRemove => on_one_loop(counts::timers(), bulk::remove_timers),
        Doing::Life => bulk::lives(),
    }
}

/// Ends a measurement, from the loop.
#[derive(Clone)]
pub(super) struct Done {
    watch: Rc<Cell<Option<Stopwatch>>>,
    sample: Arc<OnceLock<Sample>>,
}

impl Done {
    /// Time counts from here. Unless this is called, it counts from before the setup.
    pub(super) fn begin(&self) {
        self.watch.set(Some(Stopwatch::start()));
    }

    pub(super) fn end(&self, event_loop: &EventLoop, ops: u64, ok: bool) {
        let watch = self.watch.take().expect("it ends once");
        self.sample.set(watch.stop(ops, ok)).expect("it ends once");
        event_loop.manager().expect("a manager runs it").shutdown();
    }
}

fn on_one_loop(ops: u64, body: impl FnOnce(&EventLoop, Done) + Send + 'static) -> Sample {
    let sample = Arc::new(OnceLock::new());
    let of_loop = Arc::clone(&sample);
    let manager = LoopManager::builder().loops(1).handle_signals(false).setup(0, move |event_loop| {
        let done = Done { watch: Rc::default(), sample: of_loop };
        done.begin();
        body(event_loop, done);
    });
    let summary = manager.build().and_then(LoopManager::run).expect("the loop runs");
    let sample = Arc::into_inner(sample).and_then(OnceLock::into_inner).expect("it has ended");
    Sample { ok: sample.ok && sample.ops == ops && summary.panics() == 0, ..sample }
}

fn job_chain(event_loop: &EventLoop, done: Done) {
    let own: Rc<RefCell<Option<Job>>> = Rc::default();
    let again = Rc::clone(&own);
    let mut seen = 0;
    let job = event_loop.job(move |event_loop| {
        seen += 1;
        if seen == counts::hops() {
            again.borrow_mut().take();
            done.end(event_loop, seen, true);
        } else if let Some(job) = &*again.borrow() {
            job.arm().expect("it has just run");
        }
    });
    job.arm().expect("it is new");
    *own.borrow_mut() = Some(job);
}

fn job_batch(event_loop: &EventLoop, done: Done) {
    let seen = Rc::new(Cell::new(0));
    let batch: Vec<Job> = (0..BATCH)
        .map(|_| {
            let seen = Rc::clone(&seen);
            event_loop.job(move |_| seen.set(seen.get() + 1))
        })
        .collect();
    let own: Rc<RefCell<Option<Job>>> = Rc::default();
    let again = Rc::clone(&own);
    let mut left = counts::batches();
    let arming = event_loop.job(move |event_loop| {
        if left == 0 {
            again.borrow_mut().take();
            return done.end(event_loop, seen.get(), true);
        }
        left -= 1;
        batch.iter().for_each(|job| job.arm().expect("it has run since"));
        if let Some(job) = &*again.borrow() {
            job.arm().expect("it has just run");
        }
    });
    arming.arm().expect("it is new");
    *own.borrow_mut() = Some(arming);
}

/// The callbacks are those of any thread, so what they share on the loop is kept by it.
fn async_self(event_loop: &EventLoop, ops: u64, done: Done) {
    thread_local! { static DONE: RefCell<Option<Done>> = const { RefCell::new(None) } }
    fn hop(event_loop: &EventLoop, handle: LoopHandle, left: u64, ops: u64) {
        if left == 0 {
            let done = DONE.take().expect("it was put there");
            return done.end(event_loop, ops, true);
        }
        let next = handle.clone();
        handle.async_run(move |event_loop| hop(event_loop, next, left - 1, ops)).expect("the loop runs");
    }
    DONE.set(Some(done));
    hop(event_loop, event_loop.handle(), ops, ops);
}

struct Ball {
    left: u64,
    here: LoopHandle,
    there: LoopHandle,
    done: std::sync::mpsc::Sender<()>,
}

fn strike(event_loop: &EventLoop, mut ball: Box<Ball>) {
    ball.left -= 1;
    if ball.left == 0 {
        ball.done.send(()).expect("it is awaited");
        return event_loop.manager().expect("a manager runs it").shutdown();
    }
    let Ball { here, there, .. } = &mut *ball;
    std::mem::swap(here, there);
    let next = ball.here.clone();
    next.async_run(move |event_loop| strike(event_loop, ball)).expect("the loop runs");
}

pub(super) fn two_loops() -> (fuchsine_dispatcher::event_loop::RunningLoops, LoopHandle, LoopHandle) {
    let manager = LoopManager::builder().loops(2).handle_signals(false).build();
    let running = manager.and_then(LoopManager::spawn).expect("the loops run");
    let handle = running.handle();
    let (one, other) = (handle.event_loop(0).expect("there are two"), handle.event_loop(1).expect("there are two"));
    (running, one, other)
}

fn ping_pong() -> Sample {
    let (running, here, there) = two_loops();
    let (done, finished) = channel();
    let ball = Box::new(Ball { left: counts::crossings() * 2, here: here.clone(), there, done });
    let watch = Stopwatch::start();
    here.async_run(move |event_loop| strike(event_loop, ball)).expect("the loop runs");
    let ended = finished.recv().is_ok();
    let sample = watch.stop(counts::crossings(), ended);
    let callbacks = running.join().callbacks();
    Sample { ok: sample.ok && callbacks >= counts::crossings() * 2, ..sample }
}

/// What the burst counts. Written by one loop only; a reference count a post would cost more than the post.
static SEEN: AtomicU64 = AtomicU64::new(0);

fn burst() -> Sample {
    let (running, here, there) = two_loops();
    let (done, finished) = channel();
    let watch = Stopwatch::start();
    here.async_run(move |_| {
        for _ in 0..counts::burst() {
            there.async_run(|_| SEEN.store(SEEN.load(Ordering::Relaxed) + 1, Ordering::Relaxed)).expect("it runs");
        }
        there.async_run(move |_| done.send(()).expect("it is awaited")).expect("it runs");
    })
    .expect("the loop runs");
    let ended = finished.recv().is_ok();
    let sample = watch.stop(counts::burst(), ended && SEEN.load(Ordering::Relaxed) == counts::burst());
    running.handle().shutdown();
    running.join();
    sample
}

struct InFlight {
    total: u64,
    left: Cell<u64>,
    seen: Cell<u64>,
    done: Done,
}

fn work(event_loop: &EventLoop, total: u64, flights: u64, done: Done) {
    let shared = Rc::new(InFlight { total, left: Cell::new(total), seen: Cell::new(0), done });
    (0..flights).for_each(|_| fly(event_loop, Rc::clone(&shared)));
}

fn fly(event_loop: &EventLoop, shared: Rc<InFlight>) {
    shared.left.set(shared.left.get() - 1);
    let landed = move |event_loop: &EventLoop, result| {
        shared.seen.set(shared.seen.get() + u64::from(result == Ok(1)));
        if shared.left.get() > 0 {
            fly(event_loop, shared);
        } else if shared.seen.get() == shared.total {
            shared.done.end(event_loop, shared.seen.get(), true);
        }
    };
    event_loop.work(Lane::Fast, || 1, landed).expect("the loop runs");
}

fn arm_and_cancel(event_loop: &EventLoop, done: Done) {
    let timer = event_loop.timer(|_, _| unreachable!("it is canceled"));
    let mut stopped = 0;
    done.begin();
    for nth in 0..counts::armings() {
        timer.once(Duration::from_millis(1_000_000 + nth)).expect("the loop runs");
        stopped += u64::from(timer.stop());
    }
    done.end(event_loop, stopped, true);
}

pub(super) fn many_timers(event_loop: &EventLoop, callback: impl FnMut(&EventLoop) + Clone + 'static) -> Vec<Timer> {
    (0..counts::timers())
        .map(|_| {
            let mut callback = callback.clone();
            event_loop.timer(move |event_loop, _| callback(event_loop))
        })
        .collect()
}

fn move_among_many(event_loop: &EventLoop, done: Done) {
    let timers = many_timers(event_loop, |_| unreachable!("it is never due"));
    for (nth, timer) in timers.iter().enumerate() {
        timer.once(Duration::from_millis(1_000_000 + nth as u64)).expect("the loop runs");
    }
    let mut random = Random::new();
    done.begin();
    for _ in 0..counts::moves() {
        let number = random.next();
        let timer = &timers[(number % counts::timers()) as usize];
        timer.once(Duration::from_millis(1_000_000 + number % 1_000_000)).expect("the loop runs");
    }
    done.end(event_loop, counts::moves(), true);
}

fn many_due(event_loop: &EventLoop, done: Done) {
    let (seen, kept) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    let (mut random, timers) = (Random::new(), Rc::clone(&kept));
    *kept.borrow_mut() = many_timers(event_loop, move |event_loop| {
        seen.set(seen.get() + 1);
        if seen.get() == counts::timers() {
            done.end(event_loop, counts::timers(), true);
        }
    });
    // On whole milliseconds, as the peers have them whatever one asks for; else each would be due at a time of its own.
    let start = event_loop.now();
    for timer in &*timers.borrow() {
        timer.once_at(start + Duration::from_millis(random.next() % 1_000)).expect("the loop runs");
    }
    event_loop.teardown(move |_| drop(kept.take())).expect("the loop runs");
}

/// Gives both workers of a loop something to do, so that they exist from then on.
fn start_workers(event_loop: &EventLoop, both_done: std::sync::mpsc::Sender<()>) {
    for lane in [Lane::Fast, Lane::Slow] {
        let both_done = both_done.clone();
        event_loop.work(lane, || (), move |_, _| both_done.send(()).expect("it is awaited")).expect("the loop runs");
    }
}

fn pauses() -> Sample {
    let (running, here, there) = two_loops();
    let (done, finished) = channel();
    for event_loop in [&here, &there] {
        let done = done.clone();
        event_loop.async_run(move |event_loop| start_workers(event_loop, done)).expect("the loop runs");
    }
    let have_workers = (0..4).all(|_| finished.recv().is_ok());
    let watch = Stopwatch::start();
    let ends = here.clone();
    here.async_run(move |event_loop| pause_and_resume(event_loop, ends, there, counts::pauses(), done))
        .expect("the loop runs");
    let ended = finished.recv().is_ok();
    let sample = watch.stop(counts::pauses(), have_workers && ended);
    running.handle().shutdown();
    let callbacks = running.join().callbacks();
    Sample { ok: sample.ok && callbacks >= counts::pauses() * 2, ..sample }
}

/// The other loop has gone on when it answers: else the next pause would find it standing still, and cost nothing.
fn pause_and_resume(
    event_loop: &EventLoop,
    here: LoopHandle,
    there: LoopHandle,
    left: u64,
    done: std::sync::mpsc::Sender<()>,
) {
    if left == 0 {
        return done.send(()).expect("it is awaited");
    }
    drop(event_loop.pause(PauseScope::LoopsAndWorkers).expect("nobody else pauses"));
    let answered = there.clone();
    there
        .async_run(move |_| {
            let to = here.clone();
            to.async_run(move |event_loop| pause_and_resume(event_loop, here, answered, left - 1, done))
                .expect("the loop runs");
        })
        .expect("the loop runs");
}
