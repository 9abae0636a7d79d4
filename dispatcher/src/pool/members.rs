//! The threads that belong to a pool at this moment, for dumps: a thread enters itself when it starts and leaves when it
//! ends. Nothing but a dump looks at the list.

use crate::sync::{Mutex, thread};
use crate::sys::thread_id;

use super::idle::ThreadIndex;

/// One thread of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its number in the pool.
    pub(crate) index: ThreadIndex,
    /// Whether it lives as long as the pool.
    pub(crate) is_base: bool,
    pub(crate) id: thread::ThreadId,
    /// What the operating system calls it, where it does.
    pub(crate) os_id: Option<u32>,
    /// `None` for a thread that was given no name.
    pub(crate) name: Option<String>,
}

/// The threads of one pool.
#[derive(Debug, Default)]
pub(crate) struct Members(Mutex<Vec<Member>>);

impl Members {
    /// Enters the calling thread, until the guard is dropped.
    pub(super) fn enter(&self, index: ThreadIndex, is_base: bool) -> MemberGuard<'_> {
        let name = std::thread::current().name().map(str::to_owned);
        let id = thread::current_id();
        self.0.lock().push(Member { index, is_base, id, os_id: thread_id::current(), name });
        MemberGuard { members: self, id }
    }

    /// All of them, by their numbers.
    pub(crate) fn all(&self) -> Vec<Member> {
        let mut all = self.0.lock().clone();
        all.sort_by_key(|member| member.index);
        all
    }
}

/// Takes a thread off the list when it is dropped.
#[must_use = "the thread leaves when this is dropped"]
pub(super) struct MemberGuard<'a> {
    members: &'a Members,
    id: thread::ThreadId,
}

impl Drop for MemberGuard<'_> {
    fn drop(&mut self) {
        // By who it is: its number may have gone to another thread already.
        self.members.0.lock().retain(|member| member.id != self.id);
    }
}
