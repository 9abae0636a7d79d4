//! What can be refused as if resources were short.

use std::fmt;

use crate::sync::probe::Scarce;

/// What [`fail_every`](super::fail_every) refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallible {
    /// The creation of a dispatcher: no resources.
    Dispatcher,
    /// A thread, for a dispatcher that allows sync calls or for work on a lane: no resources.
    Thread,
    /// The registration of a wait or an irq: no memory.
    Registration,
    /// The write of a message: the queue is full.
    Write,
}

impl Fallible {
    pub(super) fn as_scarce(self) -> Scarce {
        match self {
            Fallible::Dispatcher => Scarce::Dispatcher,
            Fallible::Thread => Scarce::Thread,
            Fallible::Registration => Scarce::Registration,
            Fallible::Write => Scarce::Write,
        }
    }
}

impl fmt::Display for Fallible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fallible::Dispatcher => "a refused dispatcher",
            Fallible::Thread => "a refused thread",
            Fallible::Registration => "a refused registration",
            Fallible::Write => "a refused write",
        })
    }
}
