//! What a driver is: the trait, its errors, and what it asks to be bound to.

use std::fmt;
use std::future::Future;
use std::io;

use crate::abi::{ConfigKey, Property, Str};
use crate::block::SubmitError;
use crate::{
    AddChildError, BindError, CallError, ConfigError, CreateError, DriverContext, JoinError, OffloadError, PostError,
    Status, WriteError,
};

/// A driver. One value of the type is one instance, bound to one node.
///
/// # Life cycle
/// 1. `start` runs on the default dispatcher of the instance and returns the value. When it fails, what it had begun is
///    canceled and dropped, and no other hook runs.
/// 2. Before a stop the children of the node are stopped and removed. Then `prepare_stop` runs on the default
///    dispatcher: the place to refuse new work, to finish what is in flight and to tell peers, with everything still
///    working. Dropping its future half way (a deadline of the host) must be harmless.
/// 3. All dispatchers of the driver shut down: whatever is pending is told `Canceled`, futures are dropped.
/// 4. `stop` runs on a dispatcher of the host, consumes the value, and is the end. Timers and `offload` still work in
///    it; the driver's own dispatchers answer `BadState`.
///
/// A panic in a hook is caught. In `start` and in the stop hooks it counts as a failure of the hook.
///
/// # Thread requirements
/// The value is shared between the hooks and whatever threads the driver's dispatchers run on; state that only one
/// synchronized dispatcher touches belongs into the futures and callbacks of that dispatcher.
pub trait Driver: Sized + Send + Sync + 'static {
    /// The name of the driver, as manifests write it.
    const NAME: &'static str;
    /// The version of the driver; usually `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str = "";
    /// What the driver does, in a sentence.
    const DOC: &'static str = "";
    /// The keys of its configuration. A manifest with another key is refused before anything starts.
    const CONFIG: &'static [ConfigKey] = &[];
    /// The properties that a node must all have for the driver to be bound to it. Empty: only a manifest binds it.
    const BIND: &'static [BindProperty] = &[];

    /// Starts the driver.
    ///
    /// # Errors
    /// Why it cannot work here, in a sentence for the person who runs the host.
    fn start(cx: DriverContext) -> impl Future<Output = Result<Self, StartError>> + Send;

    /// Prepares the end, with all dispatchers still running.
    ///
    /// # Errors
    /// What could not be finished. The stop goes on; the driver counts as failed.
    fn prepare_stop(&self) -> impl Future<Output = Result<(), StopError>> + Send {
        async { Ok(()) }
    }

    /// Ends the driver, after all its dispatchers have shut down.
    ///
    /// # Errors
    /// What could not be saved. The driver is gone all the same and counts as failed.
    fn stop(self) -> impl Future<Output = Result<(), StopError>> + Send {
        async { Ok(()) }
    }
}

/// One property that a node must have for a driver to be bound to it.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct BindProperty(Property);

impl BindProperty {
    /// The node's property `key` must be `value`.
    pub const fn new(key: &'static str, value: &'static str) -> BindProperty {
        BindProperty(Property { key: Str::new(key), value: Str::new(value) })
    }
}

/// How a hook ended badly, on its way to the host.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
    pub(crate) panicked: bool,
}

macro_rules! hook_error {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            status: Status,
            message: String,
        }

        impl $name {
            /// With a status for programs and a sentence for people.
            pub fn new(status: Status, message: impl fmt::Display) -> Self {
                $name { status, message: message.to_string() }
            }

            /// The same failure, with what was being done put in front: `context: message`.
            #[must_use]
            pub fn context(self, context: impl fmt::Display) -> Self {
                $name { status: self.status, message: format!("{context}: {}", self.message) }
            }

            /// The status.
            pub fn status(&self) -> Status {
                self.status
            }

            /// The sentence.
            pub fn message(&self) -> &str {
                &self.message
            }

            /// The status alone.
            pub fn into_status(self) -> Status {
                self.status
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.message)
            }
        }

        impl std::error::Error for $name {}

        impl From<Status> for $name {
            fn from(status: Status) -> Self {
                Self::new(status, status)
            }
        }

        impl From<io::Error> for $name {
            fn from(error: io::Error) -> Self {
                Self::new(Status::from(&error), error)
            }
        }

        impl From<$name> for Failure {
            fn from(error: $name) -> Self {
                Failure { status: error.status, message: error.message, panicked: false }
            }
        }
    };
}

hook_error! {
    /// Why a driver could not start.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_driver::{StartError, Status};
    /// let error = StartError::from(Status::NotFound).context("image disk.img");
    /// assert_eq!(error.to_string(), "image disk.img: not found");
    /// assert_eq!(error.status(), Status::NotFound);
    /// ```
    StartError
}
hook_error! {
    /// What went wrong while a driver stopped.
    StopError
}

macro_rules! hook_error_from {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for StartError {
            fn from(error: $error) -> Self {
                Self::new(error.status(), error)
            }
        }

        impl From<$error> for StopError {
            fn from(error: $error) -> Self {
                Self::new(error.status(), error)
            }
        }
    )*};
}

hook_error_from!(
    AddChildError,
    BindError,
    CallError,
    ConfigError,
    CreateError,
    JoinError,
    OffloadError,
    SubmitError,
    WriteError
);

impl<F> From<PostError<F>> for StartError {
    fn from(error: PostError<F>) -> Self {
        Self::new(error.status(), error)
    }
}

impl<F> From<PostError<F>> for StopError {
    fn from(error: PostError<F>) -> Self {
        Self::new(error.status(), error)
    }
}
