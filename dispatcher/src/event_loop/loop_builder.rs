//! [`LoopManagerBuilder`]: what a manager is to be like.

use std::fmt;
use std::time::Duration;

use crate::event_loop::event_loop::{EventLoop, LoopPolicy, LoopSeed};
use crate::event_loop::lane::Lane;
use crate::event_loop::loop_manager::{LoopManager, ManagerError, ManagerShared};
use crate::event_loop::panics::{LoopPanic, LoopPanicPolicy};
use crate::event_loop::parker::ReactorParker;
use crate::event_loop::pause::AtGate;
use crate::event_loop::pause_gate::PauseGate;
use crate::event_loop::reactor::Reactor;
use crate::event_loop::work::WorkPolicy;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::time::Clock;

pub(crate) type Callback = Box<dyn FnOnce(&EventLoop) + Send>;
type SharedCallback = Arc<dyn Fn(&EventLoop) + Send + Sync>;

/// Callbacks for one loop or for all, in the order of registration.
#[derive(Default)]
pub(crate) struct PerLoop {
    entries: Vec<Entry>,
}

enum Entry {
    One(usize, Option<Callback>),
    All(SharedCallback),
}

impl PerLoop {
    /// The callbacks of one loop.
    pub(crate) fn take(&mut self, index: usize) -> Vec<Callback> {
        let take = |entry: &mut Entry| match entry {
            Entry::One(of, callback) if *of == index => callback.take(),
            Entry::One(..) => None,
            Entry::All(callback) => {
                let callback = callback.clone();
                Some(Box::new(move |event_loop: &EventLoop| callback(event_loop)) as Callback)
            }
        };
        self.entries.iter_mut().filter_map(take).collect()
    }

    /// A number for which there is no loop.
    fn out_of_range(&self, loops: usize) -> Option<usize> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::One(of, _) if *of >= loops => Some(*of),
            _ => None,
        })
    }
}

/// Describes a [`LoopManager`].
#[must_use = "a description does nothing until `build`"]
pub struct LoopManagerBuilder {
    loops: Option<usize>,
    name: String,
    setup: PerLoop,
    teardown: PerLoop,
    handles_signals: bool,
    policy: LoopPolicy,
}

impl LoopManagerBuilder {
    pub(crate) fn new() -> Self {
        LoopManagerBuilder {
            loops: None,
            name: "loop".to_owned(),
            setup: PerLoop::default(),
            teardown: PerLoop::default(),
            handles_signals: true,
            policy: LoopPolicy::default(),
        }
    }

    /// How many loops. Default: as many as the machine runs threads at a time.
    pub fn loops(mut self, loops: usize) -> Self {
        self.loops = Some(loops);
        self
    }

    /// What the loops and their threads are called, followed by their number. Default: `loop`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Runs `callback` on the loop with this number when it starts: after what was posted to it before the start, and
    /// after the setup callbacks registered before.
    ///
    /// A setup callback is registered before the start or not at all, and there is no such thing as none:
    /// ```compile_fail,E0599
    /// # // Shows E16, L9.
    /// # use fuchsine_dispatcher::event_loop::RunningLoops;
    /// fn too_late(running: RunningLoops) {
    ///     running.setup(0, |_| {});
    /// }
    /// ```
    pub fn setup(mut self, tid: usize, callback: impl FnOnce(&EventLoop) + Send + 'static) -> Self {
        self.setup.entries.push(Entry::One(tid, Some(Box::new(callback))));
        self
    }

    /// Runs `callback` on each loop when it starts, as [`LoopManagerBuilder::setup`] does on one.
    pub fn setup_all(mut self, callback: impl Fn(&EventLoop) + Send + Sync + 'static) -> Self {
        self.setup.entries.push(Entry::All(Arc::new(callback)));
        self
    }

    /// Runs `callback` on the loop with this number when it shuts down: as an ordinary asynchronous callback, after
    /// the teardown callbacks registered before, on a loop that still accepts everything.
    ///
    /// ```compile_fail,E0277
    /// # // Shows E17, L11.
    /// # use fuchsine_dispatcher::event_loop::LoopManager;
    /// let nothing: Option<fn(&fuchsine_dispatcher::event_loop::EventLoop)> = None;
    /// LoopManager::builder().teardown(0, nothing);
    /// ```
    pub fn teardown(mut self, tid: usize, callback: impl FnOnce(&EventLoop) + Send + 'static) -> Self {
        self.teardown.entries.push(Entry::One(tid, Some(Box::new(callback))));
        self
    }

    /// Runs `callback` on each loop when it shuts down, as [`LoopManagerBuilder::teardown`] does on one.
    pub fn teardown_all(mut self, callback: impl Fn(&EventLoop) + Send + Sync + 'static) -> Self {
        self.teardown.entries.push(Entry::All(Arc::new(callback)));
        self
    }

    /// Whether SIGINT and SIGTERM shut the loops down while they run. Default: yes. Once the shutdown has begun they
    /// do again what they do by default.
    pub fn handle_signals(mut self, handle: bool) -> Self {
        self.handles_signals = handle;
        self
    }

    /// How long a loop goes on at shutdown, counted from its last teardown callback, while there is still something
    /// to do: callbacks that lead to further ones, timers and waits that were armed since the shutdown began. Then it
    /// accepts nothing more, runs what it has accepted, and reports what timers and waits were dropped. Default: 5
    /// seconds; with [`Duration::MAX`] it goes on for as long as it takes. Work is waited for however long it takes. What was armed before the shutdown keeps no loop from
    /// ending.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.policy.linger = linger;
        self
    }

    /// What becomes at shutdown of work that has not been started, in all lanes. Default: it is run.
    pub fn work_at_shutdown(mut self, policy: WorkPolicy) -> Self {
        Lane::ALL.into_iter().for_each(|lane| self.policy.work.set(lane, policy));
        self
    }

    /// What becomes at shutdown of work in this lane that has not been started.
    pub fn lane_at_shutdown(mut self, lane: Lane, policy: WorkPolicy) -> Self {
        self.policy.work.set(lane, policy);
        self
    }

    /// What becomes of the loops when a callback panics. Default: they go on.
    pub fn panic_policy(mut self, policy: LoopPanicPolicy) -> Self {
        self.policy.on_panic = policy;
        self
    }

    /// Tells `observer` of each panic of a callback, on the loop's thread, besides the log.
    pub fn panic_observer(mut self, observer: impl Fn(&LoopPanic) + Send + Sync + 'static) -> Self {
        self.policy.observer = Some(Arc::new(observer));
        self
    }

    /// Makes the loops, which accept posts from now on, and are to be started.
    ///
    /// # Errors
    /// See [`ManagerError`].
    pub fn build(self) -> Result<LoopManager, ManagerError> {
        let default = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = self.loops.unwrap_or_else(default);
        if count == 0 {
            return Err(ManagerError::NoLoops);
        }
        if let Some(wanted) = self.setup.out_of_range(count).or(self.teardown.out_of_range(count)) {
            return Err(ManagerError::NoSuchLoop { wanted, last: count - 1 });
        }
        let mut seeds = Vec::with_capacity(count);
        for tid in 0..count {
            let reactor = Reactor::of_one_loop(Clock::real())?;
            let parker = Arc::new(ReactorParker::new(reactor.clone()));
            let mut seed = LoopSeed::new(&format!("{}-{tid}", self.name), Some(tid as u32), reactor, parker);
            seed.policy = self.policy.clone();
            seeds.push(seed);
        }
        let loops = seeds.iter().map(LoopSeed::handle).collect();
        let gate = Arc::new(PauseGate::new(count));
        let shared = Arc::new(ManagerShared { loops, shutdown: AtomicBool::new(false), gate });
        for (tid, seed) in (0..).zip(&mut seeds) {
            seed.manager = Arc::downgrade(&shared);
            seed.at_gate = Some(AtGate { gate: shared.gate.clone(), tid });
        }
        let LoopManagerBuilder { setup, teardown, handles_signals, name, .. } = self;
        Ok(LoopManager { seeds, shared, setup, teardown, handles_signals, name })
    }
}

impl fmt::Debug for LoopManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopManagerBuilder").field("name", &self.name).field("loops", &self.loops).finish()
    }
}
