//! The watchdog: notices that the thread of a test does not move any more, and says so.
//!
//! A callback that blocks for ever out of sight of this crate hangs the test if it runs on the thread that turns the crank,
//! and so does a scenario that waits for what never comes: nobody is left on that thread to fail. A thread of its own looks
//! at all of them:
//!
//! 1. Whoever turns a crank, or runs a scenario, is [`Watched`] meanwhile: its thread, and a number that grows with each
//!    step.
//! 2. Several times a second the watchdog looks. Where the number stands still it adds up for how long the thread slept, and
//!    how much processor time it took.
//! 3. When that is more than the limit, the watchdog writes down who it is and what was done so far, and ends the process: a
//!    thread that blocks cannot be made to fail, and a test that hangs tells nobody anything.
//!
//! Time during which the thread was ready to run and had no processor does not count, nor time during which the process was
//! stopped, by a debugger say. There is no such thread while nothing is watched for a while.

use std::io::Write;
use std::time::Duration;

use crate::runtime::call_stack;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::refused_threads::not_counted;
use crate::sync::{Arc, Condvar, Mutex, Weak, thread};
use crate::sys::thread_id;
use crate::time::Clock;

/// For how long a thread may sleep without a step unless somebody says otherwise.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// How much more time a thread may take that computes.
const COMPUTING: u32 = 6;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// How many looks at nothing end the watchdog.
const IDLE_LOOKS: u32 = 10;

/// Something that may hang.
pub(super) struct Watched {
    /// The thread, as the system calls it; 0 while it is not looked at.
    thread: AtomicU32,
    /// For how long it may, in nanoseconds.
    limit: AtomicU64,
    patience: Arc<Patience>,
    suspect: Box<dyn Suspect>,
}

/// How long a crank waits for one helper, in nanoseconds, if somebody has said so: a thread that is that patient does not
/// hang.
#[derive(Debug, Default)]
pub(super) struct Patience(AtomicU64);

/// So many times a crank may be patient in one step: in a turn, in settling what is outside, and in the end.
const PATIENT: u32 = 5;

impl Patience {
    pub(super) fn set(&self, patience: Duration) {
        self.0.store(as_nanos(patience), Ordering::Relaxed);
    }
}

fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Who is watched.
pub(super) trait Suspect: Send + Sync {
    /// A number that is another one after each step.
    fn beat(&self) -> u64;

    /// Writes down who it is, for somebody who reads that it hangs. Some lines, each at once: a later one may never come.
    fn report(&self, to: &mut dyn Write);
}

/// The thread is looked at until this is dropped.
pub(super) struct Watching<'a>(&'a Watched);

impl Watched {
    /// Something that is not looked at yet.
    pub(super) fn new(patience: &Arc<Patience>, suspect: impl Suspect + 'static) -> Arc<Self> {
        let watched = Arc::new(Self::unknown(patience, suspect));
        DOG.take_in(&watched);
        watched
    }

    /// Something that the watchdog of this process does not know.
    fn unknown(patience: &Arc<Patience>, suspect: impl Suspect + 'static) -> Self {
        let (thread, limit) = (AtomicU32::new(0), AtomicU64::new(as_nanos(LIMIT)));
        Watched { thread, limit, patience: Arc::clone(patience), suspect: Box::new(suspect) }
    }

    /// Changes how long it may stand still; `Duration::MAX` for as long as it likes.
    pub(super) fn set_limit(&self, limit: Duration) {
        self.limit.store(as_nanos(limit), Ordering::Relaxed);
    }

    /// Looks at the calling thread from here on, where the system numbers threads.
    pub(super) fn watch(self: &Arc<Self>) -> Watching<'_> {
        // Whoever reads that it hangs wants to know its name.
        call_stack::make_known();
        self.thread.store(thread_id::current().unwrap_or_default(), Ordering::Relaxed);
        Watching(self)
    }

    fn limit(&self) -> Duration {
        let duration = |nanos| if nanos == u64::MAX { Duration::MAX } else { Duration::from_nanos(nanos) };
        let patience = duration(self.patience.0.load(Ordering::Relaxed));
        duration(self.limit.load(Ordering::Relaxed)).max(patience.saturating_mul(PATIENT))
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.thread.store(0, Ordering::Relaxed);
    }
}

/// The one of this process.
static DOG: Dog = Dog { state: Mutex::new(State { watched: Vec::new(), is_awake: false }), woken: Condvar::new() };

struct Dog {
    state: Mutex<State>,
    /// Nobody notifies; it is a clock to sleep by.
    woken: Condvar,
}

struct State {
    watched: Vec<Entry>,
    /// Whether its thread is there.
    is_awake: bool,
}

/// What was seen of one of them.
struct Entry {
    watched: Weak<Watched>,
    seen: Seen,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    thread: u32,
    beat: u64,
    /// For how long it was seen to sleep since its last step.
    slept: Duration,
    /// The processor time of the thread at its last step, and since.
    processor: Option<Duration>,
    computed: Duration,
}

impl Dog {
    fn take_in(&'static self, watched: &Arc<Watched>) {
        let mut state = self.state.lock();
        state.watched.push(Entry { watched: Arc::downgrade(watched), seen: Seen::default() });
        if !state.is_awake {
            // Where there is no thread for it, tests hang as they would without it.
            let started = not_counted(|| thread::spawn("test-watchdog", || DOG.watch()));
            state.is_awake = started.is_ok();
        }
    }

    fn watch(&self) {
        let mut idle = 0;
        let mut state = self.state.lock();
        while idle < IDLE_LOOKS {
            let until = Clock::real().now() + LOOK;
            while Clock::real().now() < until {
                let _ = self.woken.wait_until(&mut state, until);
            }
            state.watched.retain(|entry| entry.watched.strong_count() > 0);
            idle = if state.watched.is_empty() { idle + 1 } else { 0 };
            let hung = state.watched.iter_mut().find_map(|Entry { watched, seen }| {
                let watched = watched.upgrade()?;
                let how = seen.look(&watched)?;
                Some((watched, how))
            });
            if let Some((watched, how)) = hung {
                bark(&watched, &how);
            }
        }
        state.is_awake = false;
    }
}

impl Seen {
    /// Looks once more; says how it hangs if it does.
    fn look(&mut self, watched: &Watched) -> Option<String> {
        let (thread, beat) = (watched.thread.load(Ordering::Relaxed), watched.suspect.beat());
        let processor = Some(thread).filter(|&thread| thread != 0).and_then(thread_id::processor_time);
        if thread == 0 || (thread, beat) != (self.thread, self.beat) {
            *self = Seen { thread, beat, processor, ..Seen::default() };
            return None;
        }
        let before = self.computed;
        self.computed = processor.unwrap_or_default().saturating_sub(self.processor.unwrap_or_default());
        if self.computed == before && thread_id::is_asleep(thread).unwrap_or(true) {
            self.slept += LOOK;
        }
        let limit = watched.limit();
        if self.slept > limit {
            return Some(format!("it has slept for {limit:?} without a step"));
        }
        (self.computed > limit.saturating_mul(COMPUTING))
            .then(|| format!("it has computed for {:?} without a step", limit.saturating_mul(COMPUTING)))
    }
}

/// The name of a thread that was watched, which is that of the test where the library of tests has made it.
fn name_of(thread: u32) -> Option<String> {
    let known = call_stack::known_threads();
    known.into_iter().find(|known| known.who.os_id == Some(thread)).and_then(|known| known.who.name)
}

/// Says what hangs, and ends the process.
fn bark(watched: &Watched, how: &str) -> ! {
    // Not by the macros: what they write may be kept by a test that does not come to its end.
    let mut to = std::io::stderr();
    let of = match name_of(watched.thread.load(Ordering::Relaxed)) {
        Some(name) => format!(" (thread {name:?})"),
        None => String::new(),
    };
    let _ = writeln!(to, "\nfuchsine: a test hangs: {how}{of}. What it waits for is out of sight of the testing kit:");
    watched.suspect.report(&mut to);
    let _ = writeln!(
        to,
        "a thread that blocks cannot be made to fail, so the process of the test ends here (`hang_limit` of an `Explorer`, \
         `set_hang_limit` of a foreground runtime)"
    );
    let _ = to.flush();
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Still;

    impl Suspect for Still {
        fn beat(&self) -> u64 {
            7
        }

        fn report(&self, _to: &mut dyn Write) {}
    }

    /// The looks are made here: the watchdog of the process makes its own, and has a limit that does not come.
    fn watched(limit: Duration) -> Watched {
        let watched = Watched::unknown(&Arc::default(), Still);
        watched.set_limit(limit);
        watched
    }

    #[test]
    fn a_thread_that_sleeps_is_told_of_after_its_limit_and_not_where_nobody_looks() {
        let (tell, told) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let sleeper = thread::spawn("sleeper", move || {
            tell.send(thread_id::current().unwrap_or_default()).expect("it is awaited");
            let _ = released.recv();
        });
        let watched = watched(LOOK * 3);
        let mut seen = Seen::default();
        assert!((0..20).all(|_| seen.look(&watched).is_none()), "nobody is looked at");
        let os_id = told.recv().expect("it has started");
        watched.thread.store(os_id, Ordering::Relaxed);
        // It may not sleep yet at the first looks.
        let told = (0..1_000_000).find_map(|_| seen.look(&watched));
        assert!(told.is_some_and(|how| how.starts_with("it has slept for 300ms")));
        watched.set_limit(Duration::ZERO);
        watched.patience.set(LOOK * 1000);
        assert!((0..1000).all(|_| seen.look(&watched).is_none()), "it may be patient");
        watched.set_limit(Duration::MAX);
        assert!((0..1000).all(|_| seen.look(&watched).is_none()), "there is no limit");
        drop(release);
        sleeper.expect("a thread").join().expect("it ends");
    }

    #[test]
    fn a_thread_that_computes_is_told_of_much_later() {
        let watched = watched(Duration::from_micros(100));
        watched.thread.store(thread_id::current().unwrap_or_default(), Ordering::Relaxed);
        let mut seen = Seen::default();
        // Each look takes some time of the processor.
        let told = (0..1_000_000).find_map(|_| seen.look(&watched));
        assert!(told.is_some_and(|how| how.starts_with("it has computed for 600")));
    }
}
