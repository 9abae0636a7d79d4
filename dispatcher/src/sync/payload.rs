//! What a panic leaves behind: its payload, which may be any value, and whose drop may panic in its turn.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How often the payload of a drop's panic is dropped in its turn.
const MOST_DROPS: usize = 16;

/// The text of a panic. The payload is dropped here, and a panic of that drop goes no further.
pub(crate) fn message_of(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is no text".to_owned()
    };
    let mut left = payload;
    for _ in 0..MOST_DROPS {
        match catch_unwind(AssertUnwindSafe(|| drop(left))) {
            Ok(()) => return message,
            Err(next) => left = next,
        }
    }
    // It goes on like this for ever, as it seems.
    std::mem::forget(left);
    message
}

/// The first panic of several pieces of user code that all have to run, such as destructors.
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    /// Nothing has panicked.
    pub(crate) const fn none() -> Self {
        FirstPanic(None)
    }

    /// Runs one of them.
    pub(crate) fn guard(&mut self, user_code: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(user_code)) {
            match self.0 {
                None => self.0 = Some(payload),
                // Its drop may panic in its turn.
                Some(_) => drop(message_of(payload)),
            }
        }
    }

    /// All have run: the panic, if there was one, goes on.
    pub(crate) fn go_on(self) {
        // A second panic while one unwinds would end the process; the hook has reported this one already.
        match self.0 {
            Some(payload) if std::thread::panicking() => drop(message_of(payload)),
            Some(payload) => resume_unwind(payload),
            None => {}
        }
    }
}

/// Runs code of a waker. That is code of whoever waits, and its panic does not concern whoever wakes: it is reported, and
/// goes no further.
pub(crate) fn guard_waker(waker_code: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(waker_code)) {
        let message = message_of(payload);
        tracing::error!(message, "the waker of whoever waits panicked");
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static BOMBS: Cell<u32> = const { Cell::new(0) };
    }

    /// Panics with another of its kind when it is dropped, as long as there are any. Without a field, so that those that
    /// are given up cost no memory.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            let left = BOMBS.get();
            if left > 0 {
                BOMBS.set(left - 1);
                std::panic::panic_any(Bomb);
            }
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
    fn a_payload_whose_drop_panics_goes_no_further_however_deep_it_goes() {
        for depth in [1, 3, 100] {
            BOMBS.set(depth);
            let payload = catch_unwind(|| std::panic::panic_any(Bomb)).expect_err("it panics");
            assert_eq!(message_of(payload), "a panic whose payload is no text");
        }
    }
}
