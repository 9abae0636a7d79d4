//! Promises that need a pool, or a process, of their own; and random operations from several threads at once on a pool,
//! with shutdowns and panics among them.
//!
//! There the seeds choose the operations, the machine chooses the order. Whatever it was, at the end every callback that was
//! accepted has ended exactly once, no synchronized dispatcher was ever entered twice, nothing ran after an observer, what
//! ran was dropped in context, and the numbers of the runtime are those that the callbacks counted themselves.

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{HANG, add_up, in_a_process_of_its_own, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Driver, Interest, Lane, Message, OffloadHandle,
    PanicPolicy, RuntimeBuilder, Status, TaskHandle, WaitHandle, current, sleep,
};
use fuchsine_tests::random::Random;

const DISPATCHERS: usize = 8;
const THREADS: u64 = 3;
const STEPS: usize = 600;

/// What one dispatcher saw.
#[derive(Default)]
struct Place {
    inside: AtomicUsize,
    is_over: AtomicBool,
    synchronized: AtomicBool,
}

#[derive(Default)]
struct Book {
    accepted: AtomicU64,
    told: AtomicU64,
    taken_back: AtomicU64,
    panics: AtomicU64,
    places: [Place; DISPATCHERS],
    /// Broken promises, in words: an assertion inside of a callback would be caught as one of its panics.
    broken: Mutex<Vec<String>>,
}

impl Book {
    fn expect(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.lock().expect("not poisoned").push(what());
        }
    }
}

/// Held by each callback.
struct Token {
    book: Arc<Book>,
    at: usize,
    is_told: bool,
}

impl Token {
    fn tell(&mut self, kind: &str, work: impl FnOnce()) {
        let place = &self.book.places[self.at];
        let before = place.inside.fetch_add(1, Ordering::AcqRel);
        let synchronized = place.synchronized.load(Ordering::Relaxed);
        self.book.expect(before == 0 || !synchronized, || format!("{kind}: two at once on {}", self.at));
        self.book.expect(!place.is_over.load(Ordering::Acquire), || format!("{kind}: after the observer"));
        self.book.expect(!self.is_told, || format!("{kind}: told twice"));
        let here = current().map(|here| here.name().to_owned());
        self.book.expect(here.as_deref() == Some(&*self.at.to_string()), || format!("{kind}: told on {here:?}"));
        self.is_told = true;
        // A future that is dropped before its first poll is never told, so futures are not among those that are counted.
        self.book.told.fetch_add(u64::from(kind != "future"), Ordering::Relaxed);
        work();
        place.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if !self.is_told {
            return;
        }
        let here = current().map(|here| here.name().to_owned());
        self.book.expect(here.as_deref() == Some(&*self.at.to_string()), || format!("dropped on {here:?}"));
        let is_over = self.book.places[self.at].is_over.load(Ordering::Acquire);
        self.book.expect(!is_over, || "dropped after the observer".to_owned());
    }
}

enum Cancel {
    Task(TaskHandle),
    Wait(WaitHandle),
    Offload(OffloadHandle),
}

impl Cancel {
    fn cancel(self) -> bool {
        match self {
            Cancel::Task(handle) => handle.cancel().is_ok(),
            Cancel::Wait(handle) => handle.cancel().is_ok(),
            Cancel::Offload(handle) => handle.cancel().is_ok(),
        }
    }
}

struct World {
    book: Arc<Book>,
    handles: Vec<DispatcherHandle>,
    drivers: Vec<Driver>,
    streams: Vec<(UnixStream, UnixStream)>,
    channels: Vec<(Channel, Channel)>,
}

impl World {
    /// One operation; `true` if a dispatcher accepted a callback.
    fn step(self: &Arc<Self>, random: &mut Random, cancels: &mut Vec<Cancel>, depth: usize) {
        let at = random.below(DISPATCHERS);
        let target = &self.handles[at];
        let mut token = Token { book: Arc::clone(&self.book), at, is_told: false };
        let accepted = match random.below(24) {
            0..6 => {
                let (world, mut inner) = (Arc::clone(self), Random::new(random.next_u64()));
                let panics = random.below(60) == 0;
                let posted = target.post_task(move |outcome| {
                    token.tell("task", || {
                        if depth > 0 && outcome.is_ok() {
                            let mut cancels = Vec::new();
                            world.step(&mut inner, &mut cancels, depth - 1);
                            world.step(&mut inner, &mut cancels, depth - 1);
                        }
                    });
                    if panics {
                        token.book.panics.fetch_add(1, Ordering::Relaxed);
                        panic!("on purpose");
                    }
                });
                posted.is_ok()
            }
            6..10 => {
                let posted = target.post_cancelable(move |_| token.tell("cancelable", || ()));
                posted.map(|handle| cancels.push(Cancel::Task(handle))).is_ok()
            }
            10..13 => {
                let delay = Duration::from_micros(random.below(1500) as u64);
                let posted = target.post_after(delay, move |_| token.tell("delayed", || ()));
                posted.map(|handle| cancels.push(Cancel::Task(handle))).is_ok()
            }
            13..15 => {
                let (near, _) = &self.streams[random.below(4)];
                let begun = target.begin_wait(near, Interest::READABLE, move |_| token.tell("wait", || ()));
                begun.map(|handle| cancels.push(Cancel::Wait(handle))).is_ok()
            }
            15..17 => {
                let lane = if random.below(2) == 0 { Lane::Fast } else { Lane::Slow };
                let begun = target.offload(lane, |_| std::thread::yield_now(), move |_| token.tell("work", || ()));
                begun.map(|handle| cancels.push(Cancel::Offload(handle))).is_ok()
            }
            17..19 => {
                let delay = Duration::from_micros(random.below(500) as u64);
                let spawned = target.spawn(async move {
                    let mut token = token;
                    token.tell("future", || ());
                    // Canceled at shutdown, and then the future is dropped.
                    let _ = sleep(delay).await;
                });
                return drop(spawned.map(drop));
            }
            19..21 => {
                let (near, _) = &self.channels[random.below(4)];
                let begun = near.begin_read(target, move |_| token.tell("read", || ()));
                begun.map_err(Status::from).is_ok()
            }
            21 => {
                let (near, far) = &self.channels[random.below(4)];
                let _ = near.try_read();
                return far.write(Message::new()).expect("the peer is there");
            }
            22 => {
                let (_, far) = &self.streams[random.below(4)];
                // A full socket is readable already.
                let _ = (&*far).write(b"!");
                return;
            }
            _ if random.below(150) == 0 => return target.shutdown_async(),
            _ if random.below(600) == 0 => return drop(self.drivers[random.below(2)].shutdown(|| ())),
            _ => {
                while cancels.len() > 5 {
                    let nth = random.below(cancels.len());
                    if cancels.swap_remove(nth).cancel() {
                        self.book.taken_back.fetch_add(1, Ordering::Relaxed);
                    }
                }
                return;
            }
        };
        self.book.accepted.fetch_add(u64::from(accepted), Ordering::Relaxed);
    }
}

fn run(seed: u64) {
    let builder = RuntimeBuilder::new().threads(3).panic_policy(PanicPolicy::Continue).inline_depth(4);
    let runtime = builder.build().expect("the system has threads");
    let book = Arc::new(Book::default());
    let drivers: Vec<_> = (0..3).map(|nth| runtime.new_driver(format!("driver {nth}"))).collect();
    let mut random = Random::new(seed);
    let dispatchers: Vec<Dispatcher> = (0..DISPATCHERS)
        .map(|at| {
            let seen = Arc::clone(&book);
            let builder = DispatcherBuilder::new().name(at.to_string()).shutdown_observer(move || {
                let place = &seen.places[at];
                seen.expect(place.inside.load(Ordering::Acquire) == 0, || "an observer beside a callback".to_owned());
                seen.expect(!place.is_over.swap(true, Ordering::AcqRel), || "an observer ran twice".to_owned());
            });
            let builder = match random.below(4) {
                0 => builder.unsynchronized(),
                1 => builder.allow_sync_calls(),
                2 => builder.scheduler_role("other"),
                _ => builder,
            };
            let made = drivers[at % 3].new_dispatcher(builder).expect("created");
            book.places[at].synchronized.store(made.is_synchronized(), Ordering::Relaxed);
            made
        })
        .collect();
    let pair = |_| {
        let (near, far) = UnixStream::pair().expect("a socket pair");
        far.set_nonblocking(true).expect("a socket can be set");
        (near, far)
    };
    let world = Arc::new(World {
        book: Arc::clone(&book),
        handles: dispatchers.iter().map(Dispatcher::handle).collect(),
        drivers,
        streams: (0..4).map(pair).collect(),
        channels: (0..4).map(|_| Channel::pair()).collect(),
    });
    let threads: Vec<_> = (0..THREADS)
        .map(|nth| {
            let (world, mut random) = (Arc::clone(&world), Random::new(seed * THREADS + nth));
            std::thread::spawn(move || {
                let mut cancels = Vec::new();
                for _ in 0..STEPS {
                    world.step(&mut random, &mut cancels, 2);
                }
            })
        })
        .collect();
    for nth in 0..20 {
        let counters = runtime.counters();
        assert!(counters.add_up(), "look {nth}: {counters:?}");
        std::thread::yield_now();
    }
    for thread in threads {
        thread.join().expect("it ends");
    }
    runtime.shutdown(HANG).expect("the runtime shuts down");
    let broken = book.broken.lock().expect("not poisoned");
    assert!(broken.is_empty(), "{} promises broken: {:#?}", broken.len(), &broken[..broken.len().min(5)]);
    let counters = runtime.counters();
    assert!(counters.add_up() && counters.pending == 0, "{counters:?}");
    let (told, taken_back) = (book.told.load(Ordering::Relaxed), book.taken_back.load(Ordering::Relaxed));
    assert_eq!(told + taken_back, book.accepted.load(Ordering::Relaxed), "{told} told, {taken_back} taken back");
    let panics: u64 = world.drivers.iter().map(Driver::panics).sum();
    assert_eq!(panics, book.panics.load(Ordering::Relaxed));
    assert!(book.places.iter().all(|place| place.is_over.load(Ordering::Acquire)), "an observer is missing");
    let last = Arc::downgrade(&book);
    drop((broken, dispatchers, runtime));
    drop((world, book));
    assert_eq!(last.strong_count(), 0, "something is left that holds a callback");
}

#[test]
fn every_promise_holds_under_random_operations_of_several_threads() {
    std::panic::set_hook(Box::new(|info| {
        if !info.to_string().contains("on purpose") {
            let _ = writeln!(std::io::stderr(), "{info}");
        }
    }));
    for seed in 1..=40 {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            let _ = std::panic::take_hook();
            panic!("seed {seed} failed; see above");
        }
    }
    let _ = std::panic::take_hook();
}

/// Promise 3: timers that are taken all at once, because the only thread was busy, run by deadline too.
#[test]
fn promise_3_timers_that_are_due_at_once_run_by_deadline() {
    const COUNT: u64 = 64;
    let runtime = pool_of(1);
    let dispatcher = runtime.new_driver("due").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (entered, is_inside) = channel();
    let (release, released) = channel();
    let blocking = runtime.new_driver("blocks").new_dispatcher(DispatcherBuilder::new()).expect("created");
    blocking
        .post_task(move |_| {
            entered.send(()).expect("awaited");
            within(&released, "the release");
        })
        .expect("accepted");
    within(&is_inside, "the blocked callback");
    let (sender, receiver) = channel();
    let start = runtime.now() + Duration::from_millis(20);
    for nth in 0..COUNT {
        // Neither in their order nor against it.
        let deadline = start + Duration::from_micros(nth * 37 % COUNT * 100);
        let sender = sender.clone();
        let _timer = dispatcher.post_at(deadline, move |_| sender.send(deadline).expect("awaited")).expect("accepted");
    }
    while runtime.now() < start + Duration::from_micros(COUNT * 100) {
        std::thread::yield_now();
    }
    release.send(()).expect("it still blocks");
    let ran: Vec<_> = (0..COUNT).map(|_| within(&receiver, "a timer")).collect();
    assert!(ran.is_sorted(), "{ran:?}");
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

/// Promise 9: the policy `Abort` ends the process, after the report and before anything else runs.
#[test]
fn promise_9_the_policy_abort_ends_the_process_after_the_report() {
    let output = in_a_process_of_its_own("promise_9_the_policy_abort_ends_the_process_after_the_report", || {
        let builder = RuntimeBuilder::new()
            .panic_policy(PanicPolicy::Abort)
            .panic_observer(|report| println!("reported: {}", report.message));
        let runtime = ForegroundRuntime::with(builder).expect("a foreground runtime");
        let dispatcher = runtime.new_driver("ends").new_dispatcher(DispatcherBuilder::new()).expect("created");
        dispatcher.post_task(|_| panic!("on purpose")).expect("accepted");
        dispatcher.post_task(|_| println!("went on")).expect("accepted");
        runtime.run_until_idle();
    });
    let Some(output) = output else { return };
    assert_eq!(output.signal, Some(rustix::process::Signal::ABORT.as_raw()), "{}", output.text);
    assert!(output.text.contains("reported: on purpose"), "{}", output.text);
    assert!(!output.text.contains("went on"), "{}", output.text);
}
