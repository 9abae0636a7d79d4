//! What happens when a callback panics: it is caught, reported, and answered by policy.

use super::ids::{DispatcherId, DriverId};
pub(crate) use crate::sync::message_of;

/// What a runtime does when a callback panics. The panicked callback counts as run in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PanicPolicy {
    /// Shut the driver down: all its pending callbacks are canceled, other drivers do not notice.
    #[default]
    ShutdownDriver,
    /// Abort the process, after the report.
    Abort,
    /// Go on as if the callback had returned.
    Continue,
}

/// Tells of a panic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicReport {
    /// The driver's name.
    pub driver: String,
    /// The driver.
    pub driver_id: DriverId,
    /// The dispatcher's name; empty when it was the shutdown observer of the driver that panicked.
    pub dispatcher: String,
    /// The dispatcher; `None` when it was the shutdown observer of the driver that panicked.
    pub dispatcher_id: Option<DispatcherId>,
    /// What the panic said.
    pub message: String,
}
