//! What the drivers of a runtime share: pools by role, policies, the list of drivers, and who waits for the end.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::counters::Counters;
use super::driver::DriverInner;
use super::ids::DriverId;
use super::panic::{PanicPolicy, PanicReport, message_of};
use crate::pool::{Pool, PoolOptions};
use crate::sync::{Arc, Condvar, Mutex, Wakeup, Weak};
use crate::time::{Clock, Instant};

/// Called with each panic, on the thread of the panicked callback.
pub(crate) type PanicObserver = Arc<dyn Fn(&PanicReport) + Send + Sync>;

/// How a runtime is made.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) thread_limit: usize,
    pub(crate) batch: u32,
    pub(crate) inline_depth: u32,
    pub(crate) panic_policy: PanicPolicy,
    pub(crate) panic_observers: Vec<PanicObserver>,
    pub(crate) clock: Clock,
    /// Whether descriptors and timers are simulated.
    pub(crate) simulated: bool,
}

struct Core {
    /// Role pools in the order of their creation; the first is the default role's.
    pools: Vec<(String, Arc<Pool>)>,
    drivers: Vec<Weak<DriverInner>>,
    /// The numbers of drivers that are gone.
    retired: Counters,
    panic_observers: Vec<PanicObserver>,
    closing: bool,
    closed: bool,
    /// How many dispatchers and drivers have gone.
    gone: u64,
}

/// The inside of a runtime.
pub(crate) struct RuntimeInner {
    settings: Settings,
    default_pool: Arc<Pool>,
    core: Mutex<Core>,
    changed: Condvar,
    /// Held by whoever joins the threads, so that nobody else returns before they have ended.
    joining: Mutex<()>,
    /// The simulated network of a runtime without real descriptors.
    #[cfg(feature = "testing")]
    sim_net: Option<crate::sys::sim::Net>,
}

impl RuntimeInner {
    pub(crate) fn start(mut settings: Settings) -> io::Result<Arc<Self>> {
        let default_pool = Pool::start(Self::pool_options(&settings, ""))?;
        #[cfg(feature = "testing")]
        let sim_net = settings.simulated.then(crate::sys::sim::Net::new);
        let core = Core {
            pools: vec![(String::new(), Arc::clone(&default_pool))],
            drivers: Vec::new(),
            retired: Counters::default(),
            panic_observers: std::mem::take(&mut settings.panic_observers),
            closing: false,
            closed: false,
            gone: 0,
        };
        Ok(Arc::new(RuntimeInner {
            settings,
            default_pool,
            core: Mutex::new(core),
            changed: Condvar::new(),
            joining: Mutex::new(()),
            #[cfg(feature = "testing")]
            sim_net,
        }))
    }

    fn pool_options(settings: &Settings, role: &str) -> PoolOptions {
        let name = if role.is_empty() { settings.name.clone() } else { format!("{}:{role}", settings.name) };
        PoolOptions {
            name,
            threads: settings.threads,
            thread_limit: settings.thread_limit,
            clock: settings.clock.clone(),
            simulated: settings.simulated,
        }
    }

    pub(crate) fn batch(&self) -> u32 {
        self.settings.batch
    }

    pub(crate) fn inline_depth(&self) -> u32 {
        self.settings.inline_depth
    }

    pub(crate) fn panic_policy(&self) -> PanicPolicy {
        self.settings.panic_policy
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.settings.clock
    }

    pub(crate) fn default_pool(&self) -> &Arc<Pool> {
        &self.default_pool
    }

    /// The pool of a role, started when it is first asked for. `None` when the runtime shuts down: a pool that started
    /// then would be closed by nobody.
    pub(crate) fn pool_of_role(&self, role: &str) -> io::Result<Option<Arc<Pool>>> {
        let mut core = self.core.lock();
        if core.closing {
            return Ok(None);
        }
        if let Some((_, pool)) = core.pools.iter().find(|(name, _)| name == role) {
            return Ok(Some(Arc::clone(pool)));
        }
        let pool = Pool::start(Self::pool_options(&self.settings, role))?;
        core.pools.push((role.to_owned(), Arc::clone(&pool)));
        Ok(Some(pool))
    }

    /// How many pools there are.
    #[cfg(feature = "testing")]
    pub(crate) fn pool_count(&self) -> usize {
        self.core.lock().pools.len()
    }

    /// One of the pools, in the order of their creation.
    #[cfg(feature = "testing")]
    pub(crate) fn pool(&self, nth: usize) -> Option<Arc<Pool>> {
        self.core.lock().pools.get(nth).map(|(_, pool)| Arc::clone(pool))
    }

    /// Whether every driver has shut down after the shutdown of the runtime began.
    #[cfg(feature = "testing")]
    pub(crate) fn is_closed(&self) -> bool {
        self.core.lock().closed
    }

    /// All pools.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.core.lock().pools.iter().map(|(_, pool)| Arc::clone(pool)).collect()
    }

    /// Adds a driver. One that is made while the runtime shuts down is shut down from the start.
    pub(crate) fn new_driver(self: &Arc<Self>, name: String) -> Arc<DriverInner> {
        let mut core = self.core.lock();
        let driver = DriverInner::new(name, Arc::clone(self), !core.closing);
        core.drivers.retain(|driver| driver.strong_count() > 0);
        core.drivers.push(Arc::downgrade(&driver));
        driver
    }

    /// The drivers that are not gone.
    pub(crate) fn drivers(&self) -> Vec<Arc<DriverInner>> {
        self.core.lock().drivers.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn counters(&self) -> Counters {
        let (drivers, retired) = {
            let core = self.core.lock();
            let drivers: Vec<_> = core.drivers.iter().filter_map(Weak::upgrade).collect();
            (drivers, core.retired)
        };
        // Without the lock: the last reference to a driver may be dropped here, and then it takes the lock.
        retired + drivers.iter().map(|driver| driver.counters()).sum()
    }

    /// A driver is gone; its numbers stay.
    pub(crate) fn retire(&self, _driver: DriverId, counters: Counters) {
        self.core.lock().retired += counters;
    }

    pub(crate) fn tell_panic(&self, report: &PanicReport) {
        let observers = self.core.lock().panic_observers.clone();
        for observer in observers {
            // This runs where a panic was just caught; one of the observer's own must not unwind from here.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| observer(report))) {
                let message = message_of(payload);
                tracing::error!(driver = report.driver, message, "a panic observer panicked itself");
            }
        }
    }

    pub(crate) fn observe_panics(&self, observer: PanicObserver) {
        let mut core = self.core.lock();
        if core.closed {
            drop(core);
            drop(observer);
            return;
        }
        core.panic_observers.push(observer);
    }

    /// Whether descriptors and timers are simulated.
    pub(crate) fn is_simulated(&self) -> bool {
        self.settings.simulated
    }

    #[cfg(feature = "testing")]
    pub(crate) fn sim_net(&self) -> Option<&crate::sys::sim::Net> {
        self.sim_net.as_ref()
    }

    /// Begins the shutdown of every driver. Idempotent; never blocks.
    pub(crate) fn begin_shutdown(&self) {
        self.core.lock().closing = true;
        for driver in self.drivers() {
            driver.begin_shutdown();
        }
        self.close_if_over();
    }

    /// Whether the calling thread belongs to one of the pools, workers of lanes included, or runs a callback there.
    pub(crate) fn is_own_thread(&self) -> bool {
        self.pools().iter().any(|pool| pool.is_current() || pool.lanes().is_current())
    }

    /// A dispatcher is gone, or the observers of a driver have returned.
    pub(crate) fn something_is_gone(&self) {
        self.core.lock().gone += 1;
        self.changed.notify_all();
    }

    /// Sleeps until `is_there`, which is asked again whenever something is gone; false at the deadline, which is one of
    /// the real clock. It is asked without a lock.
    pub(crate) fn wait_until_gone(&self, deadline: Instant, is_there: impl Fn() -> bool) -> bool {
        loop {
            let seen = self.core.lock().gone;
            if is_there() {
                return true;
            }
            let mut core = self.core.lock();
            while core.gone == seen {
                if self.changed.wait_until(&mut core, deadline) == Wakeup::TimedOut {
                    drop(core);
                    return is_there();
                }
            }
        }
    }

    /// A driver has shut down.
    pub(crate) fn driver_is_over(&self) {
        self.close_if_over();
    }

    fn close_if_over(&self) {
        if !self.core.lock().closing || !self.drivers().iter().all(|driver| driver.is_over()) {
            return;
        }
        let mut core = self.core.lock();
        if !core.closed {
            core.closed = true;
            for (_, pool) in &core.pools {
                pool.close();
            }
            self.changed.notify_all();
            // Nothing is left that could panic. Observers often hold the runtime, which would hold itself by them.
            let observers = std::mem::take(&mut core.panic_observers);
            drop(core);
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(observers))) {
                let message = message_of(payload);
                tracing::error!(message, "a panic observer panicked when it was dropped");
            }
        }
    }

    /// Waits until every driver has shut down; false at the deadline, which is one of the real clock.
    pub(crate) fn wait_until_closed(&self, deadline: Instant) -> bool {
        let mut core = self.core.lock();
        while !core.closed {
            if self.changed.wait_until(&mut core, deadline) == Wakeup::TimedOut {
                return core.closed;
            }
        }
        true
    }

    /// Waits for the threads of a runtime whose drivers have shut down.
    pub(crate) fn join(&self) {
        let _joining = self.joining.lock();
        for pool in self.pools() {
            pool.join();
        }
    }
}

impl std::fmt::Debug for RuntimeInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
