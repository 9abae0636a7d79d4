//! Making a dispatcher: options, their checks, and the errors.

use std::fmt;

use super::core::ShutdownObserver;
use super::dispatcher::{DispatcherInner, Options};
use super::driver_inner::DriverInner;
use super::handle::{Dispatcher, driver_of_this_thread};
use super::ids::DispatcherId;
use super::role_pools::Refused;
use super::shown::Quoted;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe::{self, Scarce};

/// Makes a [`Dispatcher`]. The default is synchronized, allows no sync calls, and has the default scheduler role.
#[must_use = "a builder does nothing until it builds"]
pub struct DispatcherBuilder {
    options: Options,
    scheduler_role: String,
    observer: Option<ShutdownObserver>,
}

impl DispatcherBuilder {
    /// A builder with the defaults.
    pub fn new() -> Self {
        DispatcherBuilder {
            options: Options {
                name: Box::default(),
                synchronized: true,
                allow_sync_calls: false,
                no_thread_migration: false,
            },
            scheduler_role: String::new(),
            observer: None,
        }
    }

    /// The name in dumps and logs. It need not be unique and is kept whole.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into().into_boxed_str();
        self
    }

    /// Callbacks may run in parallel, and no order among them is promised. Not together with
    /// [`allow_sync_calls`](DispatcherBuilder::allow_sync_calls).
    pub fn unsynchronized(mut self) -> Self {
        self.options.synchronized = false;
        self
    }

    /// Callbacks may block. The pool gets one more thread for it.
    pub fn allow_sync_calls(mut self) -> Self {
        self.options.allow_sync_calls = true;
        self
    }

    /// Everything of the dispatcher runs on one thread, for life: callbacks, canceled ones, drops of closures and futures,
    /// and the shutdown observer. So it may use thread-local values, and
    /// [`spawn_local`](crate::DispatcherHandle::spawn_local) futures that are not `Send`.
    ///
    /// The thread is the base thread of its pool that the fewest such dispatchers have. It runs other dispatchers too, but
    /// none that [allows sync calls](DispatcherBuilder::allow_sync_calls), so that nothing blocks it; a long callback of
    /// another dispatcher on that thread does delay this one. Inline calls are made on that thread only; from other threads
    /// they are deferred. Not together with [`unsynchronized`](DispatcherBuilder::unsynchronized) or `allow_sync_calls`.
    ///
    /// In a foreground runtime the thread is the one that first turns the crank for such a dispatcher. (Fuchsia: R27, R41;
    /// there it holds only while the pool has one thread.)
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder, current};
    /// use std::{rc::Rc, time::Duration};
    ///
    /// let runtime = RuntimeBuilder::new().build()?;
    /// let driver = runtime.new_driver("legacy");
    /// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().no_thread_migration())?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// dispatcher.post_task(move |_| {
    ///     let shared = Rc::new("stays on this thread");
    ///     let here = current().expect("a callback has a dispatcher");
    ///     let _task = here.spawn_local(async move { sender.send(*shared).expect("it is awaited") });
    /// })?;
    /// assert_eq!(receiver.recv()?, "stays on this thread");
    /// runtime.shutdown(Duration::from_secs(5))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn no_thread_migration(mut self) -> Self {
        self.options.no_thread_migration = true;
        self
    }

    /// The scheduler role: dispatchers of one role share a pool, different roles never do. `""` is the default role.
    pub fn scheduler_role(mut self, role: impl Into<String>) -> Self {
        self.scheduler_role = role.into();
        self
    }

    /// Called once, last: when every callback has ended and the dispatcher has shut down. It runs on the dispatcher's
    /// pool with the dispatcher current.
    pub fn shutdown_observer(mut self, observer: impl FnOnce() + Send + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Creates the dispatcher, owned by the driver that the calling thread is inside of.
    ///
    /// # Errors
    /// In the order in which they are looked for:
    /// - [`Status::InvalidArgs`]: the thread is inside no driver; use
    ///   [`Driver::new_dispatcher`](crate::Driver::new_dispatcher) there.
    /// - [`Status::AccessDenied`]: allowed roles are enforced, and the owner may not use this one.
    /// - [`Status::NotSupported`]: unsynchronized together with `allow_sync_calls`; `no_thread_migration` together with
    ///   either; or `allow_sync_calls` for a role that has [`no_sync_calls`](crate::Role::set_no_sync_calls).
    /// - [`Status::BadState`]: the driver shuts down or has shut down.
    /// - [`Status::NoResources`]: the thread limit of the role is reached, or the system has no thread or descriptor left.
    ///
    /// What was refused leaves nothing behind: no pool, no thread, no count, and the observer is dropped uncalled.
    pub fn build(self) -> Result<Dispatcher, CreateError> {
        match driver_of_this_thread() {
            Some(owner) => self.build_for(&owner),
            None => Err(CreateError::new(CreateErrorKind::NoDriver)),
        }
    }

    pub(crate) fn build_for(self, owner: &Arc<DriverInner>) -> Result<Dispatcher, CreateError> {
        let DispatcherBuilder { options, scheduler_role, observer } = self;
        let runtime = owner.runtime();
        let allow_sync_calls = options.allow_sync_calls;
        if !owner.may_use_role(&scheduler_role) {
            return Err(CreateError::new(CreateErrorKind::RoleNotAllowed(scheduler_role)));
        }
        if !options.synchronized && allow_sync_calls {
            return Err(CreateError::new(CreateErrorKind::UnsynchronizedSyncCalls));
        }
        if options.no_thread_migration && (!options.synchronized || allow_sync_calls) {
            return Err(CreateError::new(CreateErrorKind::PinnedWithOthers));
        }
        if allow_sync_calls && runtime.role_pools(|pools| pools.refuses_sync_calls(&scheduler_role)) {
            return Err(CreateError::new(CreateErrorKind::RoleWithoutSyncCalls(scheduler_role)));
        }
        if !owner.is_open() {
            return Err(CreateError::new(CreateErrorKind::ShuttingDown));
        }
        if is_out_of_resources(allow_sync_calls) {
            return Err(CreateError::new(CreateErrorKind::System(std::io::ErrorKind::WouldBlock.into())));
        }
        let pool = match runtime.join_pool(&scheduler_role, allow_sync_calls) {
            Ok(Some(pool)) => pool,
            Ok(None) => return Err(CreateError::new(CreateErrorKind::ShuttingDown)),
            Err(refused) => return Err(CreateError::of_role(refused, scheduler_role)),
        };
        let pinned_to = options.no_thread_migration.then(|| pool.pin());
        let made = owner.add_dispatcher(|| {
            let id = DispatcherId::fresh();
            DispatcherInner::new(id, options, Arc::clone(owner), Arc::clone(&pool), pinned_to, observer)
        });
        match made {
            Ok(inner) => Ok(Dispatcher::new(inner)),
            Err(_) => {
                // Its shutdown has begun meanwhile.
                runtime.leave_pool(&pool, allow_sync_calls, pinned_to);
                Err(CreateError::new(CreateErrorKind::ShuttingDown))
            }
        }
    }
}

/// Whether an exploration plays that the system has nothing left. A function of its own, so that without explorations
/// nothing of the creation is compiled in another way for it.
fn is_out_of_resources(allow_sync_calls: bool) -> bool {
    probe::refuses(Scarce::Dispatcher) || allow_sync_calls && probe::refuses(Scarce::Thread)
}

impl Default for DispatcherBuilder {
    fn default() -> Self {
        DispatcherBuilder::new()
    }
}

impl fmt::Debug for DispatcherBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatcherBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A dispatcher could not be created. Nothing stays behind.
#[derive(Debug)]
pub struct CreateError(Box<CreateErrorKind>);

#[derive(Debug)]
enum CreateErrorKind {
    NoDriver,
    RoleNotAllowed(String),
    UnsynchronizedSyncCalls,
    PinnedWithOthers,
    RoleWithoutSyncCalls(String),
    ShuttingDown,
    ThreadLimit(usize),
    System(std::io::Error),
}

impl CreateError {
    fn new(kind: CreateErrorKind) -> Self {
        CreateError(Box::new(kind))
    }

    fn of_role(refused: Refused, role: String) -> Self {
        CreateError::new(match refused {
            Refused::NoSyncCalls => CreateErrorKind::RoleWithoutSyncCalls(role),
            Refused::Limit(limit) => CreateErrorKind::ThreadLimit(limit),
            Refused::System(error) => CreateErrorKind::System(error),
        })
    }

    /// The condition as a status.
    pub fn status(&self) -> Status {
        match &*self.0 {
            CreateErrorKind::NoDriver => Status::InvalidArgs,
            CreateErrorKind::RoleNotAllowed(_) => Status::AccessDenied,
            CreateErrorKind::UnsynchronizedSyncCalls
            | CreateErrorKind::PinnedWithOthers
            | CreateErrorKind::RoleWithoutSyncCalls(_) => Status::NotSupported,
            CreateErrorKind::ShuttingDown => Status::BadState,
            CreateErrorKind::ThreadLimit(_) => Status::NoResources,
            CreateErrorKind::System(error) => super::status_of_refusal(error),
        }
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot create the dispatcher: ")?;
        match &*self.0 {
            CreateErrorKind::NoDriver => {
                f.write_str("the thread is inside no driver; use `Driver::new_dispatcher` or `Driver::enter`")
            }
            CreateErrorKind::UnsynchronizedSyncCalls => {
                f.write_str("an unsynchronized dispatcher cannot allow sync calls; choose one of the two")
            }
            CreateErrorKind::PinnedWithOthers => f.write_str(
                "a dispatcher without thread migration is synchronized and allows no sync calls; leave those options out",
            ),
            CreateErrorKind::RoleNotAllowed(role) => {
                write!(f, "its driver may not use the scheduler role {}; name it with `allow_scheduler_role`", Quoted(role))
            }
            CreateErrorKind::RoleWithoutSyncCalls(role) => {
                write!(f, "dispatchers of the scheduler role {} must not allow sync calls; choose another role", Quoted(role))
            }
            CreateErrorKind::ShuttingDown => f.write_str("its driver shuts down or has shut down"),
            CreateErrorKind::ThreadLimit(limit) => {
                write!(f, "its role may have {limit} threads and all are taken; raise the thread limit")
            }
            CreateErrorKind::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for CreateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            CreateErrorKind::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<CreateError> for Status {
    fn from(error: CreateError) -> Status {
        error.status()
    }
}
