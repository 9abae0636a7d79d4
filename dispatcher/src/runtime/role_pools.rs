//! The pools of a runtime by scheduler role, and the settings of the roles.
//!
//! The default role's pool lives as long as the runtime. Any other starts with the first dispatcher of its role and ends
//! with the last one: it is closed then, and its threads end by themselves, since the last one to leave may be one of
//! them; they are joined when a later change finds them ended, or with the runtime. What was set for a role is kept for
//! as long as the runtime lives, whether there is a pool or not.
//!
//! All of it is under the runtime's lock. Starting a thread is done there too, so that a creation is one step: whoever
//! sees a pool sees it with the dispatchers that it was admitted.

use std::collections::BTreeMap;
use std::io;

use crate::pool::{MOST_THREADS, Pool, PoolOptions, SchedulingOutcome, ThreadFigures, ThreadRefused};
use crate::status::Status;
use crate::sync::Arc;
use crate::sys::Scheduling;

/// What was set for a role.
#[derive(Debug, Clone, Default)]
struct RoleSettings {
    /// The limit of the runtime if `None`.
    thread_limit: Option<usize>,
    no_sync_calls: bool,
    scheduling: Option<Scheduling>,
}

/// A role's pool, and how many dispatchers it has.
struct RolePool {
    pool: Arc<Pool>,
    dispatchers: usize,
}

/// Why a role takes no further dispatcher.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The role is one of dispatchers that do not allow sync calls.
    NoSyncCalls,
    /// All its threads are taken.
    Limit(usize),
    /// What the system said.
    System(io::Error),
}

impl From<ThreadRefused> for Refused {
    fn from(refused: ThreadRefused) -> Self {
        match refused {
            ThreadRefused::Limit(limit) => Refused::Limit(limit),
            ThreadRefused::System(error) => Refused::System(error),
        }
    }
}

/// The pools, and the settings.
pub(crate) struct RolePools {
    /// What a pool is made with if nothing else is set; the name is the runtime's.
    template: PoolOptions,
    /// In the order of their creation; the first is the default role's.
    pools: Vec<RolePool>,
    /// Closed; threads of them may be about to end.
    ending: Vec<Arc<Pool>>,
    settings: BTreeMap<String, RoleSettings>,
    /// How whoever made the runtime is scheduled. A thread begins as the one that starts it, so once a role has a
    /// scheduling of its own, the threads of all others have to be told that they have not.
    usual_scheduling: Option<Scheduling>,
}

impl RolePools {
    /// Starts the pool of the default role.
    pub(crate) fn start(template: PoolOptions) -> io::Result<Self> {
        let pool = Pool::start(template.clone())?;
        let default = RolePool { pool, dispatchers: 0 };
        // A runtime without threads asks the system for nothing.
        let usual_scheduling = if template.threads > 0 { Scheduling::current() } else { None };
        Ok(RolePools {
            template,
            pools: vec![default],
            ending: Vec::new(),
            settings: BTreeMap::new(),
            usual_scheduling,
        })
    }

    fn at(&self, role: &str) -> Option<usize> {
        self.pools.iter().position(|pool| pool.pool.role() == role)
    }

    fn pool(&self, role: &str) -> Option<&Arc<Pool>> {
        self.at(role).map(|at| &self.pools[at].pool)
    }

    fn limit_of(&self, role: &str) -> usize {
        self.settings.get(role).and_then(|settings| settings.thread_limit).unwrap_or(self.template.thread_limit)
    }

    /// The pools that take dispatchers, the default role's first.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.pools.iter().map(|pool| &pool.pool)
    }

    /// The pools that take dispatchers, with their roles.
    pub(crate) fn by_role(&self) -> Vec<(String, Arc<Pool>)> {
        self.pools.iter().map(|pool| (pool.pool.role().to_owned(), Arc::clone(&pool.pool))).collect()
    }

    /// All pools that may have threads.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.open().chain(&self.ending)
    }

    /// Counts one more dispatcher of a role, and reserves a thread for it if it may block. The pool is started if it is
    /// the first one. A refusal leaves everything as it was.
    pub(crate) fn admit(&mut self, role: &str, allow_sync_calls: bool) -> Result<Arc<Pool>, Refused> {
        if allow_sync_calls && self.refuses_sync_calls(role) {
            return Err(Refused::NoSyncCalls);
        }
        let at = match self.at(role) {
            Some(at) => at,
            None => self.start_pool(role, allow_sync_calls)?,
        };
        if allow_sync_calls && let Err(refused) = self.pools[at].pool.reserve_thread() {
            self.end_if_unused(at);
            return Err(refused.into());
        }
        self.pools[at].dispatchers += 1;
        Ok(Arc::clone(&self.pools[at].pool))
    }

    fn start_pool(&mut self, role: &str, allow_sync_calls: bool) -> Result<usize, Refused> {
        let thread_limit = self.limit_of(role);
        // Looked at before, so that no pool starts in vain.
        if allow_sync_calls && self.template.threads >= thread_limit {
            return Err(Refused::Limit(thread_limit));
        }
        let name = format!("{}:{role}", self.template.name);
        let scheduling = self.scheduling(role).or(self.template.scheduling);
        let role = role.to_owned();
        let options = PoolOptions { name, role, thread_limit, scheduling, ..self.template.clone() };
        let pool = Pool::start(options).map_err(Refused::System)?;
        self.pools.push(RolePool { pool, dispatchers: 0 });
        Ok(self.pools.len() - 1)
    }

    /// A dispatcher of this pool is gone; its thread, if it had one, was given back before.
    pub(crate) fn leave(&mut self, pool: &Arc<Pool>) {
        let Some(at) = self.pools.iter().position(|one| Arc::ptr_eq(&one.pool, pool)) else { return };
        self.pools[at].dispatchers -= 1;
        self.end_if_unused(at);
    }

    fn end_if_unused(&mut self, at: usize) {
        let is_default = at == 0;
        if is_default || self.pools[at].dispatchers > 0 {
            return;
        }
        let pool = self.pools.remove(at).pool;
        pool.close();
        self.ending.push(pool);
    }

    /// Takes out the pools whose threads have ended. Whoever gets them joins and drops them without the lock.
    pub(crate) fn take_ended(&mut self) -> Vec<Arc<Pool>> {
        if self.ending.is_empty() {
            return Vec::new();
        }
        self.ending.extract_if(.., |pool| pool.has_ended()).collect()
    }

    /// Closes all pools.
    pub(crate) fn close(&self) {
        self.open().for_each(|pool| pool.close());
    }

    /// The numbers of a role's threads; all zero but the limit if it has no pool.
    pub(crate) fn figures(&self, role: &str) -> ThreadFigures {
        match self.pool(role) {
            Some(pool) => pool.threads().figures(),
            None => ThreadFigures { limit: self.limit_of(role), ..ThreadFigures::default() },
        }
    }

    /// Sets the most threads of a role.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] below the threads that run or that the role's pool starts with, and above what a pool can
    /// have.
    pub(crate) fn set_thread_limit(&mut self, role: &str, limit: usize) -> Result<(), Status> {
        if !(self.template.threads..=MOST_THREADS).contains(&limit) {
            return Err(Status::OutOfRange);
        }
        if self.pool(role).is_some_and(|pool| !pool.threads().set_limit(limit)) {
            return Err(Status::OutOfRange);
        }
        self.settings.entry(role.to_owned()).or_default().thread_limit = Some(limit);
        Ok(())
    }

    /// Whether dispatchers of this role never allow sync calls.
    pub(crate) fn refuses_sync_calls(&self, role: &str) -> bool {
        self.settings.get(role).is_some_and(|settings| settings.no_sync_calls)
    }

    /// Says whether dispatchers of a role may allow sync calls.
    ///
    /// # Errors
    /// [`Status::NotSupported`] when none may any more, and there are some.
    pub(crate) fn set_no_sync_calls(&mut self, role: &str, no_sync_calls: bool) -> Result<(), Status> {
        if no_sync_calls && self.figures(role).reserved > 0 {
            return Err(Status::NotSupported);
        }
        self.settings.entry(role.to_owned()).or_default().no_sync_calls = no_sync_calls;
        Ok(())
    }

    /// How the threads of a role are to be scheduled, if that was set.
    pub(crate) fn scheduling(&self, role: &str) -> Option<Scheduling> {
        self.settings.get(role).and_then(|settings| settings.scheduling)
    }

    /// Sets how the threads of a role are to be scheduled.
    pub(crate) fn set_scheduling(&mut self, role: &str, scheduling: Scheduling) {
        self.settings.entry(role.to_owned()).or_default().scheduling = Some(scheduling);
        if let Some(pool) = self.pool(role) {
            pool.scheduling().set(scheduling);
        }
        if self.template.scheduling.is_some() {
            return;
        }
        self.template.scheduling = self.usual_scheduling;
        let Some(usual) = self.usual_scheduling else { return };
        for pool in self.pools.iter().filter(|pool| pool.pool.role() != role) {
            pool.pool.scheduling().set(usual);
        }
    }

    /// What became of the scheduling that was set for a role.
    pub(crate) fn scheduling_outcome(&self, role: &str) -> SchedulingOutcome {
        match self.pool(role) {
            Some(pool) if self.scheduling(role).is_some() => pool.scheduling().outcome(),
            _ => SchedulingOutcome::default(),
        }
    }
}
