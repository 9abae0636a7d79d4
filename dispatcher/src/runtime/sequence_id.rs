//! Sequence ids: what tells code that two of its callbacks cannot overlap.
//!
//! A synchronized dispatcher is a *sequence*: its callbacks run one after another, on whichever threads. Its id can be had
//! only while it is current, so whoever gets it knows in which sequence it runs. While the observers of a driver run, no
//! dispatcher of it is left; they count as part of the sequence of its first dispatcher, so that what was made there can
//! still be checked and dropped. A first dispatcher that is pinned is an exception: the observers may run on another
//! thread than its own.

use std::fmt;

use super::call_stack;
use super::dispatcher::DispatcherInner;
use super::handle::DispatcherHandle;
use super::ids::DispatcherId;
use crate::status::Status;

/// The id of a synchronized dispatcher as a sequence: the same for its whole life, and never that of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceId(DispatcherId);

impl DispatcherHandle {
    /// The id of this dispatcher's sequence, to be remembered and compared later.
    ///
    /// # Errors
    /// [`SequenceError`], the first that applies of
    /// - [`Status::WrongType`]: the dispatcher is unsynchronized, so its callbacks are no sequence;
    /// - [`Status::InvalidArgs`]: no dispatcher is current, or another one is.
    ///
    /// # Thread requirements
    /// Its own callbacks. The observer of a driver's shutdown counts as one of the first dispatcher that the driver ever
    /// had, unless that one was pinned to a thread. (Fuchsia: R104, R106.) In a test, the thread that turns the crank of a
    /// foreground runtime is in the sequence of its default dispatcher while it is inside of nothing.
    ///
    /// # Examples
    /// ```
    /// # use fuchsine_dispatcher::*;
    /// struct Table {
    ///     home: DispatcherHandle,
    ///     id: SequenceId,
    /// }
    ///
    /// impl Table {
    ///     /// Fails where the table must not be touched.
    ///     fn look_up(&self) -> Result<(), SequenceError> {
    ///         self.home.check_sequence_id(self.id)
    ///     }
    /// }
    /// ```
    pub fn sequence_id(&self) -> Result<SequenceId, SequenceError> {
        let inner = self.inner();
        if !inner.options().synchronized {
            return Err(SequenceError(Cause::Unsynchronized));
        }
        if call_stack::current_sequence() == Some(inner.id()) {
            return Ok(SequenceId(inner.id()));
        }
        Err(SequenceError::not_in(inner))
    }

    /// Checks that this thread runs in this dispatcher's sequence, and that `id` is its id.
    ///
    /// # Errors
    /// Those of [`sequence_id`](DispatcherHandle::sequence_id), then [`Status::OutOfRange`]: the id is another sequence's.
    /// (Fuchsia: R105.)
    pub fn check_sequence_id(&self, id: SequenceId) -> Result<(), SequenceError> {
        if self.sequence_id()? == id { Ok(()) } else { Err(SequenceError(Cause::Foreign)) }
    }
}

/// This thread is not in the sequence that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceError(Cause);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    Unsynchronized,
    NoDispatcher { expected: Option<String> },
    OtherDispatcher { expected: String, current: String },
    Foreign,
}

impl SequenceError {
    fn not_in(expected: &DispatcherInner) -> Self {
        let name_of = |dispatcher: &DispatcherInner| dispatcher.options().name.to_string();
        let expected = name_of(expected);
        SequenceError(match call_stack::current_dispatcher() {
            Some(current) => Cause::OtherDispatcher { expected, current: name_of(&current) },
            None => Cause::NoDispatcher { expected: Some(expected) },
        })
    }

    pub(super) fn no_dispatcher() -> Self {
        SequenceError(Cause::NoDispatcher { expected: None })
    }

    pub(super) fn unsynchronized() -> Self {
        SequenceError(Cause::Unsynchronized)
    }

    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self.0 {
            Cause::Unsynchronized => Status::WrongType,
            Cause::NoDispatcher { .. } | Cause::OtherDispatcher { .. } => Status::InvalidArgs,
            Cause::Foreign => Status::OutOfRange,
        }
    }
}

impl fmt::Display for SequenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Unsynchronized => {
                f.write_str("an unsynchronized dispatcher has no sequence: its callbacks may overlap")
            }
            Cause::NoDispatcher { expected: None } => f.write_str("no dispatcher is current on this thread"),
            Cause::NoDispatcher { expected: Some(expected) } => {
                write!(f, "no dispatcher is current on this thread; dispatcher `{expected}` was expected")
            }
            Cause::OtherDispatcher { expected, current } => {
                write!(f, "dispatcher `{current}` is current on this thread; dispatcher `{expected}` was expected")
            }
            Cause::Foreign => f.write_str("the sequence id belongs to another dispatcher"),
        }
    }
}

impl std::error::Error for SequenceError {}

impl From<SequenceError> for Status {
    fn from(error: SequenceError) -> Status {
        error.status()
    }
}
