//! What happens when a callback panics: it is caught, reported, and answered by policy.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::ids::{DispatcherId, DriverId};

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

/// The text of a panic. The payload is dropped here, and a panic of that drop goes no further.
pub(crate) fn message_of(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is no text".to_owned()
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // Dropping this one could panic again, and so on; two are enough, so it is leaked.
        std::mem::forget(second);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("second");
        }
    }

    #[test]
    fn the_message_of_a_panic_is_its_text() {
        let caught = |code: fn()| message_of(catch_unwind(code).expect_err("it panics"));
        assert_eq!(caught(|| panic!("plain")), "plain");
        assert_eq!(caught(|| panic!("with {}", 5)), "with 5");
        assert_eq!(caught(|| std::panic::panic_any(5)), "a panic whose payload is no text");
    }

    #[test]
    fn a_payload_whose_drop_panics_goes_no_further() {
        let payload = catch_unwind(|| std::panic::panic_any(PanicsInDrop)).expect_err("it panics");
        assert_eq!(message_of(payload), "a panic whose payload is no text");
    }
}
