//! How the operating system schedules a thread: the policy, and the nice value or the priority.
//!
//! On Linux each thread has its own. Elsewhere nothing can be set.
//!
//! # Invariants
//! - `unsafe` here calls `sched_setscheduler` and its like with the number 0, which names the calling thread, and with a
//!   pointer to a parameter that lives on the stack for the call; neither keeps it.

use std::fmt;
use std::io;

/// How the operating system schedules the threads of a scheduler role.
///
/// Nice values are those of `nice(1)`, from -20 (served first) to 19; priorities those of `sched(7)`, from 1 to 99 (served
/// first). What a process may ask for without privileges is little more than a greater nice value, `Batch` and `Idle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheduling {
    /// Time-sharing, the usual policy.
    Normal {
        /// The nice value.
        nice: i32,
    },
    /// Time-sharing for what computes a lot and may be delayed.
    Batch {
        /// The nice value.
        nice: i32,
    },
    /// Only when nothing else wants the processor.
    Idle,
    /// In real time, until it sleeps or something of a higher priority is runnable.
    Fifo {
        /// The priority.
        priority: i32,
    },
    /// In real time, in turns with others of the same priority.
    RoundRobin {
        /// The priority.
        priority: i32,
    },
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::Normal { nice } => write!(f, "normal, nice {nice}"),
            Scheduling::Batch { nice } => write!(f, "batch, nice {nice}"),
            Scheduling::Idle => f.write_str("idle"),
            Scheduling::Fifo { priority } => write!(f, "fifo, priority {priority}"),
            Scheduling::RoundRobin { priority } => write!(f, "round robin, priority {priority}"),
        }
    }
}

impl Scheduling {
    /// Has the calling thread scheduled so.
    ///
    /// # Errors
    /// What the system says when it does not permit that, or knows no such thing. The thread goes on as before.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle))))]
    #[allow(unsafe_code, reason = "no crate of ours wraps sched_setscheduler")]
    pub(crate) fn apply(self) -> io::Result<()> {
        let (policy, priority, nice) = match self {
            Scheduling::Normal { nice } => (libc::SCHED_OTHER, 0, Some(nice)),
            Scheduling::Batch { nice } => (libc::SCHED_BATCH, 0, Some(nice)),
            Scheduling::Idle => (libc::SCHED_IDLE, 0, None),
            Scheduling::Fifo { priority } => (libc::SCHED_FIFO, priority, None),
            Scheduling::RoundRobin { priority } => (libc::SCHED_RR, priority, None),
        };
        let parameter = libc::sched_param { sched_priority: priority };
        // SAFETY: 0 is the calling thread, and `parameter` outlives the call, which only reads it.
        if unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } != 0 {
            return Err(io::Error::last_os_error());
        }
        match nice {
            // For Linux the process of a thread's own number is that thread.
            Some(nice) => Ok(rustix::process::setpriority_process(None, nice)?),
            None => Ok(()),
        }
    }

    /// How the calling thread is scheduled, if it is a way that can be named here.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle))))]
    #[allow(unsafe_code, reason = "no crate of ours wraps sched_getscheduler")]
    pub(crate) fn current() -> Option<Scheduling> {
        // SAFETY: 0 is the calling thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        let mut parameter = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and `parameter` outlives the call, which only writes it.
        if unsafe { libc::sched_getparam(0, &raw mut parameter) } != 0 {
            return None;
        }
        let priority = parameter.sched_priority;
        let nice = rustix::process::getpriority_process(None).ok()?;
        match policy {
            libc::SCHED_OTHER => Some(Scheduling::Normal { nice }),
            libc::SCHED_BATCH => Some(Scheduling::Batch { nice }),
            libc::SCHED_IDLE => Some(Scheduling::Idle),
            libc::SCHED_FIFO => Some(Scheduling::Fifo { priority }),
            libc::SCHED_RR => Some(Scheduling::RoundRobin { priority }),
            _ => None,
        }
    }

    /// Nothing can be set here.
    ///
    /// # Errors
    /// Always.
    #[cfg(any(not(target_os = "linux"), loom, shuttle))]
    pub(crate) fn apply(self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing is known here.
    #[cfg(any(not(target_os = "linux"), loom, shuttle))]
    pub(crate) fn current() -> Option<Scheduling> {
        None
    }
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::thread;

    /// On a thread of its own: what is set stays with the thread.
    fn apart<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn("apart", body).expect("the system has threads").join().expect("it does not panic")
    }

    #[test]
    fn what_is_applied_is_what_the_thread_has_and_no_other() {
        let before = Scheduling::current();
        // Everybody may ask for a greater nice value than that of the thread that asks.
        let usual = rustix::process::getpriority_process(None).expect("the system knows");
        let more = |by: i32| (usual + by).min(19);
        for wanted in [Scheduling::Normal { nice: more(7) }, Scheduling::Batch { nice: more(3) }, Scheduling::Idle] {
            let got = apart(move || wanted.apply().map(|()| Scheduling::current()));
            assert_eq!(got.expect("everybody may"), Some(wanted));
        }
        assert_eq!(Scheduling::current(), before);
    }

    #[test]
    fn what_does_not_exist_is_refused_and_changes_nothing() {
        for wanted in [Scheduling::Fifo { priority: 1_000 }, Scheduling::RoundRobin { priority: -1 }] {
            let (refusal, unchanged) = apart(move || {
                let before = Scheduling::current();
                (wanted.apply(), Scheduling::current() == before)
            });
            assert_eq!(refusal.expect_err("there is no such priority").kind(), io::ErrorKind::InvalidInput);
            assert!(unchanged);
        }
    }
}
