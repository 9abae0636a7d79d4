//! [`SynchronizationChecker`]: a value that says where something may be used, and panics elsewhere.

use std::fmt;

use super::call_stack;
use super::dispatcher::DispatcherInner;
use super::handle::{DispatcherHandle, current};
use super::ids::DispatcherId;
use super::sequence_id::SequenceError;

/// Guards something that may be used on one synchronized dispatcher only: [`check`](SynchronizationChecker::check) panics
/// anywhere else, with a sentence that names what it is, where it belongs, and where it was used.
///
/// It is for what the type system cannot see, such as a handle into a C library. Where it can, prefer
/// [`DispatcherBound`](crate::DispatcherBound), which makes the mistake impossible.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{DispatcherHandle, SequenceError, SynchronizationChecker};
///
/// struct Registers {
///     checker: SynchronizationChecker,
/// }
///
/// impl Registers {
///     fn new(home: &DispatcherHandle) -> Result<Self, SequenceError> {
///         Ok(Registers { checker: SynchronizationChecker::new("the register file", home)? })
///     }
///
///     fn reset(&self) {
///         self.checker.check();
///         // Nothing else runs on the registers at this moment.
///     }
/// }
/// ```
#[derive(Clone)]
pub struct SynchronizationChecker {
    what: String,
    expected: DispatcherId,
    /// The names of the dispatcher and of its driver.
    home: Place,
}

#[derive(Clone, PartialEq, Eq)]
struct Place {
    dispatcher: String,
    driver: String,
}

impl Place {
    fn of(dispatcher: &DispatcherInner) -> Self {
        Place { dispatcher: dispatcher.options().name.to_string(), driver: dispatcher.owner().name().to_owned() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dispatcher `{}` of driver `{}`", self.dispatcher, self.driver)
    }
}

impl SynchronizationChecker {
    /// Guards `what`, which belongs to `dispatcher`.
    ///
    /// # Errors
    /// [`SequenceError`] with [`Status::WrongType`](crate::Status::WrongType) for an unsynchronized dispatcher.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn new(what: impl Into<String>, dispatcher: &DispatcherHandle) -> Result<Self, SequenceError> {
        if !dispatcher.is_synchronized() {
            return Err(SequenceError::unsynchronized());
        }
        Ok(SynchronizationChecker { what: what.into(), expected: dispatcher.id(), home: Place::of(dispatcher.inner()) })
    }

    /// Guards `what`, which belongs to the dispatcher that is current.
    ///
    /// # Errors
    /// [`SequenceError`] with [`Status::InvalidArgs`](crate::Status::InvalidArgs) when none is, and as
    /// [`new`](SynchronizationChecker::new).
    pub fn of_current(what: impl Into<String>) -> Result<Self, SequenceError> {
        let dispatcher = current().ok_or_else(SequenceError::no_dispatcher)?;
        Self::new(what, &dispatcher)
    }

    /// Whether this thread is where the guarded thing may be used: in a callback of its dispatcher, or in what counts as
    /// one for [`sequence_id`](DispatcherHandle::sequence_id).
    pub fn is_in_place(&self) -> bool {
        call_stack::current_sequence() == Some(self.expected)
    }

    /// Does nothing where the guarded thing may be used.
    ///
    /// # Panics
    /// Anywhere else, with a sentence that says what was expected and what is.
    #[track_caller]
    pub fn check(&self) {
        if self.is_in_place() {
            return;
        }
        let SynchronizationChecker { what, home, .. } = self;
        match call_stack::current_dispatcher() {
            Some(current) => panic!("{what} belongs to {home} and was used on {}", Place::of(&current)),
            None => panic!("{what} belongs to {home} and was used on a thread without a current dispatcher"),
        }
    }
}

impl fmt::Debug for SynchronizationChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SynchronizationChecker({} on {})", self.what, self.home)
    }
}
