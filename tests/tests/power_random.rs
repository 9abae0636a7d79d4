//! Goal: whatever comes together with suspends, resumes and shutdowns, each accepted callback ends once, nothing
//! regular runs between the completer and the resume, and an irq is told nothing after its end.
//! Method: threads that do random things to the dispatchers of one driver, from a seed that is printed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuchsine_dispatcher::{
    DispatcherBuilder, DispatcherHandle, Driver, Interest, Irq, IrqEvent, IrqHandle, IrqTrigger, Lane, Status,
    TaskHandle, WaitHandle, sleep,
};
use fuchsine_tests::pools::{HANG_LIMIT, World, on_pools};
use fuchsine_tests::random::Random;

/// How often the driver is suspended and resumed, while the others act.
const CYCLES: usize = 25;

/// How many descriptors each thread may use.
const SOURCES: usize = 100;

/// How many callbacks each thread may offer in a run.
const CALLBACKS: usize = 2000;

/// What was seen, and what must never be.
#[derive(Default)]
struct Seen {
    /// How often each accepted callback has ended.
    ends: Mutex<Vec<u32>>,
    /// Whether the driver is suspended and its completer has said so.
    is_quiet: AtomicBool,
    ran_while_quiet: AtomicUsize,
    after_the_end: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    /// A callback that is about to be offered.
    fn new_callback(&self) -> usize {
        let mut ends = lock(&self.ends);
        ends.push(0);
        ends.len() - 1
    }

    fn end(&self, callback: usize) {
        lock(&self.ends)[callback] += 1;
    }

    /// A regular callback begins, with an outcome of its own.
    fn begins(&self) {
        if self.is_quiet.load(Ordering::Acquire) {
            self.ran_while_quiet.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// One of the threads.
struct Actor {
    random: Random,
    seen: Arc<Seen>,
    on: Vec<DispatcherHandle>,
    tasks: Vec<(usize, TaskHandle)>,
    waits: Vec<(usize, WaitHandle)>,
    irqs: Vec<BoundIrq>,
    /// What is waited on has to stay open.
    sources: Vec<(Irq, IrqTrigger)>,
}

struct BoundIrq {
    callback: usize,
    handle: IrqHandle,
    trigger: IrqTrigger,
    is_unbound: Arc<AtomicBool>,
}

impl Actor {
    /// Acts until it is told to stop.
    fn run(mut self, stop: &AtomicBool) -> Self {
        let mut steps = 0;
        while !stop.load(Ordering::Acquire) {
            if steps < CALLBACKS {
                self.act();
            }
            steps += 1;
            std::thread::yield_now();
        }
        self
    }

    fn act(&mut self) {
        let on = self.on[self.random.below(self.on.len())].clone();
        let is_always_on = self.random.below(4) == 0;
        let on = if is_always_on { on.always_on() } else { on };
        match self.random.below(12) {
            0 | 1 => self.post(&on, is_always_on),
            2 => self.delay(&on, is_always_on),
            3 => self.take_a_task_back(),
            4 | 6 if self.sources.len() == SOURCES => self.post(&on, is_always_on),
            4 => self.wait(&on, is_always_on),
            5 => self.take_a_wait_back(),
            6 => self.bind(&on),
            7 | 8 => self.trigger(),
            9 => self.unbind(),
            10 => self.spawn(&on),
            _ => self.offload(&on),
        }
    }

    /// A callback as a task, and what notes its end.
    fn task(
        &self,
        callback: usize,
        is_always_on: bool,
    ) -> impl FnOnce(Result<(), fuchsine_dispatcher::Canceled>) + use<> {
        let seen = Arc::clone(&self.seen);
        move |outcome| {
            if outcome.is_ok() && !is_always_on {
                seen.begins();
            }
            seen.end(callback);
        }
    }

    fn post(&mut self, on: &DispatcherHandle, is_always_on: bool) {
        let callback = self.seen.new_callback();
        match on.post_cancelable(self.task(callback, is_always_on)) {
            Ok(handle) => self.tasks.push((callback, handle)),
            Err(_) => self.seen.end(callback),
        }
    }

    fn delay(&mut self, on: &DispatcherHandle, is_always_on: bool) {
        let callback = self.seen.new_callback();
        let delay = Duration::from_micros(self.random.below(2000) as u64);
        match on.post_after(delay, self.task(callback, is_always_on)) {
            Ok(handle) => self.tasks.push((callback, handle)),
            Err(_) => self.seen.end(callback),
        }
    }

    fn take_a_task_back(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let (callback, handle) = self.tasks.swap_remove(self.random.below(self.tasks.len()));
        if handle.cancel().is_ok() {
            self.seen.end(callback);
        }
    }

    fn source(&mut self, on: &DispatcherHandle) -> (Irq, IrqTrigger) {
        let made = on.new_irq().expect("there are descriptors");
        self.sources.push(made.clone());
        made
    }

    fn wait(&mut self, on: &DispatcherHandle, is_always_on: bool) {
        let callback = self.seen.new_callback();
        let (source, trigger) = self.source(on);
        let seen = Arc::clone(&self.seen);
        let wait = move |outcome: Result<_, Status>| {
            if outcome.is_ok() && !is_always_on {
                seen.begins();
            }
            seen.end(callback);
        };
        match on.begin_wait(&source, Interest::READABLE, wait) {
            Ok(handle) => self.waits.push((callback, handle)),
            Err(_) => self.seen.end(callback),
        }
        if self.random.below(2) == 0 {
            trigger.trigger();
        }
    }

    fn take_a_wait_back(&mut self) {
        if self.waits.is_empty() {
            return;
        }
        let (callback, handle) = self.waits.swap_remove(self.random.below(self.waits.len()));
        if handle.cancel().is_ok() {
            self.seen.end(callback);
        }
    }

    fn bind(&mut self, on: &DispatcherHandle) {
        let callback = self.seen.new_callback();
        let (irq, trigger) = self.source(on);
        if self.random.below(2) == 0 {
            // Refused while the driver is suspended, which is fine.
            let _ =
                on.owner().register_wake_vector(&irq, Interest::READABLE).map(fuchsine_dispatcher::WakeVector::keep);
        }
        let is_unbound = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (Arc::clone(&self.seen), Arc::clone(&is_unbound));
        let handler = move |outcome: Result<IrqEvent<'_>, Status>| {
            if ended.load(Ordering::Acquire) {
                seen.after_the_end.fetch_add(1, Ordering::AcqRel);
            }
            match outcome {
                Ok(event) => {
                    seen.begins();
                    if event.count() % 2 == 1 {
                        event.ack();
                    }
                }
                Err(_) => seen.end(callback),
            }
        };
        match on.bind_irq(&irq, handler) {
            Ok(handle) => self.irqs.push(BoundIrq { callback, handle, trigger, is_unbound }),
            Err(_) => self.seen.end(callback),
        }
    }

    fn trigger(&mut self) {
        if self.irqs.is_empty() {
            return;
        }
        let irq = &self.irqs[self.random.below(self.irqs.len())];
        irq.trigger.trigger();
        if self.random.below(2) == 0 {
            // There is often nothing to acknowledge.
            let _ = irq.handle.ack();
        }
    }

    fn unbind(&mut self) {
        if self.irqs.is_empty() {
            return;
        }
        let irq = self.irqs.swap_remove(self.random.below(self.irqs.len()));
        if let Ok(unbound) = irq.handle.unbind() {
            if !unbound.is_running() {
                irq.is_unbound.store(true, Ordering::Release);
            }
            self.seen.end(irq.callback);
        }
    }

    fn spawn(&mut self, on: &DispatcherHandle) {
        /// Ends a future however it ends.
        struct Ends(Arc<Seen>, usize);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.end(self.1);
            }
        }
        let ends = Ends(Arc::clone(&self.seen), self.seen.new_callback());
        let nap = Duration::from_micros(self.random.below(500) as u64);
        // A refused one is dropped with its error.
        let _ = on.spawn(async move {
            let _ends = ends;
            let _ = sleep(nap).await;
        });
    }

    fn offload(&mut self, on: &DispatcherHandle) {
        let callback = self.seen.new_callback();
        let seen = Arc::clone(&self.seen);
        if on.offload(Lane::Fast, |_| (), move |_: Result<(), _>| seen.end(callback)).is_err() {
            self.seen.end(callback);
        }
    }
}

/// Suspends and resumes, and says in between when all is quiet. False if the driver shuts down.
fn cycle(driver: &Driver, seen: &Seen) -> bool {
    let (sender, receiver) = channel();
    let begun = driver.suspend(move |outcome| sender.send(outcome).expect("it is awaited"));
    if begun.is_err() {
        return false;
    }
    if receiver.recv_timeout(HANG_LIMIT).expect("the completer is told").is_ok() {
        seen.is_quiet.store(true, Ordering::Release);
        (0..100).for_each(|_| std::thread::yield_now());
        seen.is_quiet.store(false, Ordering::Release);
    }
    driver.resume();
    (0..20).for_each(|_| std::thread::yield_now());
    true
}

fn run(world: &World, seed: u64) {
    let seen = Arc::new(Seen::default());
    let driver = world.driver("driver");
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    driver.set_resume_requester(move |_| drop(counted.fetch_add(1, Ordering::AcqRel).to_string()));
    let builders = [
        DispatcherBuilder::new(),
        DispatcherBuilder::new().unsynchronized(),
        DispatcherBuilder::new().allow_sync_calls(),
    ];
    let on: Vec<_> = builders.into_iter().map(|one| driver.new_dispatcher(one).expect("room").release()).collect();
    let stop = AtomicBool::new(false);
    let mut random = Random::new(seed);
    // In half of the runs the end comes in the middle of it all.
    let ends_after = random.below(2 * CYCLES);
    // Kept until the end: what is waited on has to stay open.
    let actors: Vec<Actor> = std::thread::scope(|scope| {
        let acting: Vec<_> = (0..3)
            .map(|_| {
                let actor = Actor {
                    random: Random::new(random.next_u64()),
                    seen: Arc::clone(&seen),
                    on: on.clone(),
                    tasks: Vec::new(),
                    waits: Vec::new(),
                    irqs: Vec::new(),
                    sources: Vec::new(),
                };
                scope.spawn(|| actor.run(&stop))
            })
            .collect();
        for nth in 0..CYCLES {
            if nth == ends_after {
                on[random.below(on.len())].shutdown_async();
                driver.shutdown(|| ()).expect("the first");
            }
            if !cycle(&driver, &seen) {
                break;
            }
        }
        stop.store(true, Ordering::Release);
        acting.into_iter().map(|actor| actor.join().expect("it does not panic")).collect()
    });
    world.shutdown();
    drop(actors);
    let wrong: Vec<_> = lock(&seen.ends).iter().copied().enumerate().filter(|(_, ends)| *ends != 1).collect();
    assert!(wrong.is_empty(), "seed {seed}: these did not end once: {wrong:?}");
    assert_eq!(seen.ran_while_quiet.load(Ordering::Acquire), 0, "seed {seed}: something regular ran while suspended");
    assert_eq!(seen.after_the_end.load(Ordering::Acquire), 0, "seed {seed}: an irq was called after its end");
    assert_eq!(driver.panics(), 0, "seed {seed}");
}

#[test]
fn everything_ends_once_whatever_is_suspended_resumed_bound_and_shut_down() {
    let random = Mutex::new(Random::from_environment());
    on_pools(|world| {
        // Let go before the run: one that fails would poison it.
        let seed = lock(&random).next_u64();
        run(world, seed);
    });
}
