//! The threads of each pool: how many, who they are, and what they are inside of.

use super::names::{Names, PlaceDump, ThreadName};
use super::{DumpLimits, RuntimeDump};
use crate::event_loop::Lane;
use crate::pool::Pool;

/// A thread of a pool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ThreadDump {
    /// Who it is.
    pub thread: ThreadName,
    /// Whether it lives as long as the pool; else it was added.
    pub is_base: bool,
    /// What it runs at this moment; `None` when it runs no callback.
    pub runs: Option<PlaceDump>,
}

/// The workers of one lane of a pool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LaneDump {
    /// The lane's name.
    pub lane: &'static str,
    /// Workers that run.
    pub workers: usize,
    /// Those of them that have nothing to do.
    pub idle: usize,
    /// The most workers.
    pub limit: usize,
    /// Work that no worker has started.
    pub waiting: usize,
    /// Workers that were ever started.
    pub started: u64,
}

/// The pool of one scheduler role.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolDump {
    /// The role; empty for the default role.
    pub role: String,
    /// Threads that live as long as the pool.
    pub base: usize,
    /// Threads that were added and are there.
    pub extra: usize,
    /// Dispatchers that allow sync calls.
    pub reserved: usize,
    /// The most threads.
    pub limit: usize,
    /// Threads that were ever added.
    pub added: u64,
    /// Added threads that were retired.
    pub retired: u64,
    /// Its threads, by their numbers.
    pub threads: Vec<ThreadDump>,
    /// How many more it has.
    pub threads_not_listed: usize,
    /// Its lanes.
    pub lanes: Vec<LaneDump>,
}

impl PoolDump {
    pub(super) fn of(role: &str, pool: &Pool, names: &Names, limits: DumpLimits) -> Self {
        let members = pool.members().all();
        let (figures, listed) = (pool.threads().figures(), members.len().min(limits.threads));
        let threads = members.iter().take(listed).map(|member| ThreadDump {
            thread: ThreadName { id: member.id, os_id: member.os_id, name: member.name.clone() },
            is_base: member.is_base,
            runs: names.place_of_thread(member.id),
        });
        PoolDump {
            role: role.to_owned(),
            base: figures.base,
            extra: figures.extra,
            reserved: figures.reserved,
            limit: figures.limit,
            added: figures.added,
            retired: figures.retired,
            threads: threads.collect(),
            threads_not_listed: members.len() - listed,
            lanes: Lane::ALL.into_iter().map(|lane| LaneDump::of(lane, pool)).collect(),
        }
    }
}

impl LaneDump {
    fn of(lane: Lane, pool: &Pool) -> Self {
        let figures = pool.lanes().figures(lane);
        LaneDump {
            lane: lane.name(),
            workers: figures.workers,
            idle: figures.idle,
            limit: figures.limit,
            waiting: figures.waiting,
            started: figures.started,
        }
    }
}

impl RuntimeDump {
    /// The threads that run a callback at this moment, with the roles of their pools.
    pub(super) fn busy_threads(&self) -> impl Iterator<Item = (&str, &ThreadDump, &PlaceDump)> {
        self.pools.iter().flat_map(|pool| {
            pool.threads.iter().filter_map(|thread| Some((pool.role.as_str(), thread, thread.runs.as_ref()?)))
        })
    }
}
