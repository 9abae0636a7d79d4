//! One task makes many, which any thread may run.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::calm;
use crate::gate::leak;
use crate::peers::{Message, Tasks};
use crate::sample::{Sample, Stopwatch, Took, Unit};
use crate::workload::scaled;

const EMPTY: u64 = 1_000_000;
const WITH_WORK: u64 = 200_000;
/// How long the arithmetic of one task is to take.
const WORK: Duration = Duration::from_micros(1);
/// So often it is looked whether all have run.
const LOOK: Duration = Duration::from_millis(1);
/// After so many looks something hangs.
const LOOKS: u32 = 60_000;

/// What one thread has run; on a cache line of its own, so that counting costs nobody else.
#[repr(align(128))]
#[derive(Default)]
struct Counts {
    ran: AtomicU64,
    /// The sum of their numbers, which tells one that ran twice while another did not.
    sum: AtomicU64,
}

static ALL: Mutex<Vec<&'static Counts>> = Mutex::new(Vec::new());
thread_local!(static OWN: Cell<Option<&'static Counts>> = const { Cell::new(None) });

fn count(nth: u64) {
    let own = OWN.get().unwrap_or_else(|| {
        let own: &Counts = leak(Counts::default());
        ALL.lock().expect("nobody panics with it").push(own);
        OWN.set(Some(own));
        own
    });
    own.sum.store(own.sum.load(Ordering::Relaxed) + nth, Ordering::Relaxed);
    own.ran.store(own.ran.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// How many ran, and the sum of their numbers.
fn counted() -> (u64, u64) {
    let all = ALL.lock().expect("nobody panics with it");
    all.iter().fold((0, 0), |(ran, sum), counts| {
        (ran + counts.ran.load(Ordering::Acquire), sum + counts.sum.load(Ordering::Relaxed))
    })
}

enum Task<T: Tasks> {
    Make { pool: &'static T::Pool<Task<T>>, many: u64, steps: u32 },
    One { nth: u64, steps: u32 },
}

impl<T: Tasks> Message for Task<T> {
    fn run(self) {
        match self {
            Task::Make { pool, many, steps } => {
                for nth in 0..many {
                    T::spawn(pool, Task::One { nth, steps });
                }
            }
            Task::One { nth, steps } => {
                black_box(arithmetic(steps));
                count(nth);
            }
        }
    }
}

/// Steps that wait for each other.
#[inline(never)]
fn arithmetic(steps: u32) -> u64 {
    (0..steps)
        .fold(u64::from(steps), |number, _| black_box(number).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
}

/// How many steps take as long as [`WORK`] on this machine, by CPU time.
fn steps() -> u32 {
    let trial = 1_000_000;
    let watch = Stopwatch::start();
    black_box(arithmetic(trial));
    let nanoseconds = watch.took().cpu.as_nanos().max(1);
    (u128::from(trial) * WORK.as_nanos() / nanoseconds) as u32
}

fn run<T: Tasks>(pool: &'static T::Pool<Task<T>>, many: u64, steps: u32) -> (Took, bool) {
    let (ran_before, sum_before) = counted();
    let watch = Stopwatch::start();
    T::spawn(pool, Task::Make { pool, many, steps });
    let mut looks = 0;
    while counted().0 - ran_before < many && looks < LOOKS {
        thread::sleep(LOOK);
        looks += 1;
    }
    let took = watch.took();
    let (ran, sum) = counted();
    (took, ran - ran_before == many && sum - sum_before == many * (many - 1) / 2)
}

fn started<T: Tasks>(threads: usize) -> &'static T::Pool<Task<T>> {
    let pool = leak(T::start(threads));
    calm();
    pool
}

pub(crate) fn empty<T: Tasks>() -> Vec<Sample> {
    let pool = started::<T>(2);
    let many = scaled(EMPTY);
    let (_, warmed) = run::<T>(pool, many / 20 + 1, 0);
    let (took, ok) = run::<T>(pool, many, 0);
    vec![took.each(many, warmed && ok)]
}

pub(crate) fn with_work<T: Tasks>() -> Vec<Sample> {
    let (one, two) = (started::<T>(1), started::<T>(2));
    let (many, steps) = (scaled(WITH_WORK), steps());
    let (_, warmed_one) = run::<T>(one, many / 20 + 1, steps);
    let (_, warmed_two) = run::<T>(two, many / 20 + 1, steps);
    let (alone, alone_ok) = run::<T>(one, many, steps);
    let (both, both_ok) = run::<T>(two, many, steps);
    let ok = warmed_one && warmed_two && alone_ok && both_ok;
    let faster = alone.wall.as_secs_f64() / both.wall.as_secs_f64();
    vec![both.each(many, ok).named("2 threads"), Sample::of("speed-up", Unit::Times, faster, many, ok)]
}
