//! What the drivers of a runtime share: pools by role, policies, the list of drivers, and who waits for the end.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::counters::Counters;
use super::driver_inner::DriverInner;
use super::ids::DriverId;
use super::panic::{PanicPolicy, PanicReport, message_of};
use super::role_pools::{Refused, RolePools};
use crate::pool::{Pool, PoolOptions, ThreadIndex};
use crate::sync::{Arc, Condvar, Mutex, Wakeup, Weak};
use crate::time::{Clock, Instant};

/// Called with each panic, on the thread of the panicked callback.
pub(crate) type PanicObserver = Arc<dyn Fn(&PanicReport) + Send + Sync>;

/// How a runtime is made.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) thread_limit: usize,
    /// Whether threads are added when all are stuck, instead of with dispatchers that allow sync calls.
    pub(crate) dynamic: bool,
    /// How long a surplus thread sleeps before it is retired.
    pub(crate) idle_life: Duration,
    /// Whether a driver needs leave for each role but the default one.
    pub(crate) enforce_allowed_roles: bool,
    pub(crate) batch: u32,
    pub(crate) inline_depth: u32,
    pub(crate) panic_policy: PanicPolicy,
    pub(crate) panic_observers: Vec<PanicObserver>,
    pub(crate) clock: Clock,
    /// Whether descriptors and timers are simulated.
    pub(crate) simulated: bool,
}

struct Core {
    pools: RolePools,
    drivers: Vec<Weak<DriverInner>>,
    /// How many drivers have not shut down.
    alive: usize,
    /// The numbers of drivers that are gone.
    retired: Counters,
    panic_observers: Vec<PanicObserver>,
    closing: bool,
    closed: bool,
    /// How often a driver has lost its last dispatcher, or has shut down.
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
        let pools = RolePools::start(Self::pool_options(&settings))?;
        let default_pool = pools.open().next().map(Arc::clone).ok_or(io::ErrorKind::NotFound)?;
        #[cfg(feature = "testing")]
        let sim_net = settings.simulated.then(crate::sys::sim::Net::new);
        let core = Core {
            pools,
            drivers: Vec::new(),
            alive: 0,
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

    fn pool_options(settings: &Settings) -> PoolOptions {
        PoolOptions {
            name: settings.name.clone(),
            role: String::new(),
            threads: settings.threads,
            thread_limit: settings.thread_limit,
            dynamic: settings.dynamic,
            idle_life: settings.idle_life,
            scheduling: None,
            clock: settings.clock.clone(),
            simulated: settings.simulated,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
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

    /// Whether a driver needs leave for each role but the default one.
    pub(crate) fn enforces_allowed_roles(&self) -> bool {
        self.settings.enforce_allowed_roles
    }

    /// Lets a dispatcher join the pool of its role, which is started if it is the first one; if it may block, a thread
    /// is reserved for it. [`leave_pool`](RuntimeInner::leave_pool) undoes it. `None` when the runtime shuts down: a pool
    /// that started then would be closed by nobody.
    pub(crate) fn join_pool(&self, role: &str, allow_sync_calls: bool) -> Result<Option<Arc<Pool>>, Refused> {
        let mut core = self.core.lock();
        if core.closing {
            return Ok(None);
        }
        let joined = core.pools.admit(role, allow_sync_calls).map(Some);
        let ended = core.pools.take_ended();
        drop(core);
        join_all(ended);
        joined
    }

    /// How many pools there are.
    #[cfg(feature = "testing")]
    pub(crate) fn pool_count(&self) -> usize {
        self.core.lock().pools.open().count()
    }

    /// One of the pools, in the order of their creation.
    #[cfg(feature = "testing")]
    pub(crate) fn pool(&self, nth: usize) -> Option<Arc<Pool>> {
        self.core.lock().pools.open().nth(nth).map(Arc::clone)
    }

    /// Whether every driver has shut down after the shutdown of the runtime began.
    #[cfg(feature = "testing")]
    pub(crate) fn is_closed(&self) -> bool {
        self.core.lock().closed
    }

    /// A dispatcher is gone from its pool, which gets the thread back that is still reserved for it, and the place on the
    /// thread that it is pinned to. With the last dispatcher the pool of its role ends.
    pub(crate) fn leave_pool(&self, pool: &Arc<Pool>, has_thread: bool, pinned_to: Option<ThreadIndex>) {
        if has_thread {
            pool.release_thread();
        }
        if let Some(host) = pinned_to {
            pool.unpin(host);
        }
        let mut core = self.core.lock();
        core.pools.leave(pool);
        let ended = core.pools.take_ended();
        drop(core);
        join_all(ended);
    }

    /// Asks or changes something about the pools and the settings of their roles.
    pub(crate) fn role_pools<R>(&self, f: impl FnOnce(&mut RolePools) -> R) -> R {
        f(&mut self.core.lock().pools)
    }

    /// The pools that take dispatchers with their roles, that of the default role first.
    pub(crate) fn pools_by_role(&self) -> Vec<(String, Arc<Pool>)> {
        self.core.lock().pools.by_role()
    }

    /// The pools that take dispatchers, the default role's first.
    #[cfg(feature = "testing")]
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.core.lock().pools.open().map(Arc::clone).collect()
    }

    /// All pools that may have threads, those that are about to end included.
    pub(crate) fn all_pools(&self) -> Vec<Arc<Pool>> {
        self.core.lock().pools.all().map(Arc::clone).collect()
    }

    /// Adds a driver. One that is made while the runtime shuts down is shut down from the start.
    pub(crate) fn new_driver(self: &Arc<Self>, name: String) -> Arc<DriverInner> {
        let mut core = self.core.lock();
        let driver = DriverInner::new(name, Arc::clone(self), !core.closing);
        core.alive += usize::from(!core.closing);
        if core.drivers.len() == core.drivers.capacity() {
            // Now and then is enough: were it each time, many drivers would cost by the square of their number.
            core.drivers.retain(|driver| driver.strong_count() > 0);
            let alive = core.drivers.len();
            core.drivers.reserve(alive + 1);
        }
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
        self.all_pools().iter().any(|pool| pool.is_current() || pool.lanes().is_current())
    }

    /// A driver has lost its last dispatcher.
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

    /// A driver has shut down, or it is gone without that.
    pub(crate) fn driver_is_over(&self) {
        let mut core = self.core.lock();
        core.alive -= 1;
        core.gone += 1;
        drop(core);
        self.changed.notify_all();
        self.close_if_over();
    }

    fn close_if_over(&self) {
        let mut core = self.core.lock();
        if core.closing && core.alive == 0 && !core.closed {
            core.closed = true;
            core.pools.close();
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
        for pool in self.all_pools() {
            pool.join();
        }
    }
}

/// Joins pools whose threads have ended.
fn join_all(ended: Vec<Arc<Pool>>) {
    ended.iter().for_each(|pool| pool.join());
}

impl std::fmt::Debug for RuntimeInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
