//! Registrations as the state machine of a channel sees them, and what it leaves to be done when its lock is released.

use std::fmt;
use std::task::Waker;

use crate::sync::guard_waker;

/// A registration that was accepted by a dispatcher.
pub(crate) trait WaitOp: Clone {
    /// The handler, as it comes back from a cancel.
    type Handler;

    /// A handler that has begun and is still to be called.
    type Begun;

    /// What is handed to a handler that takes messages.
    type Message;

    /// A message, room for one, or the reply is there. Called under the lock of the pair: it runs nothing, and takes no
    /// lock but that of its dispatcher. `None`: the handler has begun, and is what is done next. Otherwise its dispatcher
    /// calls it later, or the operation has ended.
    fn ready(self, next: &mut Next<Self>) -> Option<(Self, Schedule)>;

    /// Gives a handler that has begun the message that it was registered for. Called under the lock of the pair: it runs
    /// nothing, and takes no lock.
    fn hand(begun: &mut Self::Begun, message: Self::Message);

    /// Calls a handler that has begun. No lock is held.
    fn run(begun: Self::Begun);

    /// Schedules the dispatcher. No lock is held.
    fn schedule(self);

    /// What was waited for has come about, or will not. It may run the handler before it returns; nothing happens if the
    /// operation has ended or has been completed before, except that `Canceled` replaces what is not yet told.
    fn complete(&self, how: Completion);

    /// Ends the operation and gives its handler back; `None` when the handler has begun or the operation has ended.
    /// Runs no user code.
    fn take_back(&self) -> Option<Self::Handler>;
}

/// Whether a dispatcher has to be scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a dispatcher that is not scheduled makes no turn"]
pub(crate) enum Schedule {
    Yes,
    No,
}

/// What became of a registration that waits again.
#[derive(Debug)]
pub(crate) enum Anew<R> {
    /// It waits, or is going to be told what is there.
    Waits(R),
    /// What it waits for is there, and its handler has begun again.
    HasBegun,
}

/// How a registration is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// A message is queued, there is room for one, or the reply is there.
    Ready,
    /// The peer closed.
    PeerClosed,
    /// The end itself was closed.
    Canceled,
}

/// What is done once the lock is released. Who locks hands in a place for it, because most often there is nothing, and a
/// handler that has begun is some words to be moved.
#[must_use = "who is not told waits for ever"]
pub(crate) enum Next<R: WaitOp> {
    /// Nothing.
    Nothing,
    /// A handler that has begun is called.
    Run(R::Begun),
    /// A dispatcher is scheduled for a registration.
    Schedule(R),
    /// A registration is completed.
    Complete(R, Completion),
    /// A registration that is not needed any more is dropped.
    Drop(R),
    /// A future is woken.
    Wake(Waker),
}

impl<R: WaitOp> Next<R> {
    /// Does it. The caller holds no lock.
    #[inline(always)]
    pub(crate) fn carry_out(self) {
        match self {
            Next::Nothing => {}
            Next::Run(begun) => R::run(begun),
            Next::Schedule(op) => op.schedule(),
            Next::Complete(op, how) => op.complete(how),
            Next::Drop(op) => drop(op),
            Next::Wake(waker) => guard_waker(|| waker.wake()),
        }
    }
}

impl<R: WaitOp> fmt::Debug for Next<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Next::Nothing => "Nothing",
            Next::Run(_) => "Run",
            Next::Schedule(_) => "Schedule",
            Next::Complete(..) => "Complete",
            Next::Drop(_) => "Drop",
            Next::Wake(_) => "Wake",
        })
    }
}
