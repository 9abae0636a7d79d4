//! `Completion<T>`: one thread waits, another hands it a value, once.

use std::fmt;

use crate::sync::{Condvar, Mutex, Wakeup};
use crate::time::Instant;

/// A place for one value and for those who wait for it. Shared by reference counting; the first waiter takes the value.
pub(crate) struct Completion<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Pending,
    Ready(T),
    /// The value was there and has been taken.
    Taken,
}

impl<T> State<T> {
    fn take(&mut self) -> Option<T> {
        if !matches!(self, State::Ready(_)) {
            return None;
        }
        match std::mem::replace(self, State::Taken) {
            State::Ready(value) => Some(value),
            State::Pending | State::Taken => None,
        }
    }
}

impl<T> Completion<T> {
    pub(crate) fn new() -> Self {
        Completion { state: Mutex::new(State::Pending), changed: Condvar::new() }
    }

    /// Hands over the value and wakes who waits.
    ///
    /// # Errors
    /// The value, when one was handed over before.
    pub(crate) fn complete(&self, value: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Pending) {
            return Err(value);
        }
        *state = State::Ready(value);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The value, if it is there.
    pub(crate) fn try_take(&self) -> Option<T> {
        self.state.lock().take()
    }

    /// Waits for the value.
    ///
    /// # Panics
    /// When another waiter took it: it is not going to come a second time.
    pub(crate) fn wait(&self) -> T {
        self.wait_until(Instant::INFINITE).expect("an infinite deadline does not pass")
    }

    /// Waits for the value, at most until `deadline` on the real clock.
    ///
    /// # Panics
    /// As [`Completion::wait`].
    pub(crate) fn wait_until(&self, deadline: Instant) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(value) = state.take() {
                return Some(value);
            }
            assert!(!matches!(*state, State::Taken), "another waiter has taken the value of this completion");
            if self.changed.wait_until(&mut state, deadline) == Wakeup::TimedOut {
                return state.take();
            }
        }
    }
}

impl<T> Default for Completion<T> {
    fn default() -> Self {
        Completion::new()
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{Arc, thread};
    use crate::time::Clock;
    use std::time::Duration;

    #[test]
    fn the_value_reaches_a_waiter_on_another_thread() {
        let completion = Arc::new(Completion::new());
        let giver = completion.clone();
        let thread = thread::spawn("giver", move || giver.complete(7)).unwrap();
        assert_eq!(completion.wait(), 7);
        assert_eq!(thread.join().unwrap(), Ok(()));
    }

    #[test]
    fn a_second_value_is_refused_even_after_the_first_was_taken() {
        let completion = Completion::new();
        assert_eq!(completion.complete(1), Ok(()));
        assert_eq!(completion.complete(2), Err(2));
        assert_eq!(completion.try_take(), Some(1));
        assert_eq!(completion.complete(3), Err(3));
        assert_eq!(completion.try_take(), None);
    }

    #[test]
    fn a_wait_with_a_deadline_ends_without_a_value() {
        let completion = Completion::<()>::new();
        assert_eq!(completion.wait_until(Clock::real().now() + Duration::from_millis(1)), None);
    }
}
