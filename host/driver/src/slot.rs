//! One value on its way from a callback to a future.

use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Filled at most once, awaited by at most one task at a time.
pub(crate) struct Slot<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    /// Nothing has come; the waker of whoever waits.
    Empty(Option<Waker>),
    Full(T),
    /// The value has come and gone, or nobody wants it.
    Done,
}

impl<T> Slot<T> {
    pub(crate) const fn new() -> Self {
        Slot { state: Mutex::new(State::Empty(None)) }
    }

    /// Puts the value in and wakes whoever waits. Later values are dropped: the first one counts.
    pub(crate) fn fill(&self, value: T) {
        let mut state = self.lock();
        if !matches!(*state, State::Empty(_)) {
            drop(state);
            return;
        }
        let before = mem::replace(&mut *state, State::Full(value));
        drop(state);
        if let State::Empty(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Takes the value, or leaves the waker of `cx`. Pending for ever once the value was taken.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Done) {
            State::Full(value) => Poll::Ready(value),
            State::Done => Poll::Pending,
            State::Empty(waker) => {
                let waker = match waker {
                    Some(waker) if waker.will_wake(cx.waker()) => waker,
                    _ => cx.waker().clone(),
                };
                *state = State::Empty(Some(waker));
                Poll::Pending
            }
        }
    }

    /// Whether a value is there, or was.
    pub(crate) fn is_filled(&self) -> bool {
        !matches!(*self.lock(), State::Empty(_))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No code that can panic runs under the lock, except a waker's clone; the state is whole at every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("filled", &self.is_filled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_counts_and_is_taken_once() {
        let slot = Slot::new();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(slot.poll_take(&mut cx).is_pending());
        slot.fill(1);
        slot.fill(2);
        assert_eq!(slot.poll_take(&mut cx), Poll::Ready(1));
        assert!(slot.poll_take(&mut cx).is_pending());
        assert!(slot.is_filled());
    }
}
