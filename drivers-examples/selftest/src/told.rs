//! What callbacks tell the future that waits for them, and what a check says that does not hold.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::{self, Debug};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Something that a host promises and does not keep.
#[derive(Debug)]
pub(crate) struct Broken(String);

pub(crate) type Checked = Result<(), Broken>;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Error> From<E> for Broken {
    fn from(error: E) -> Self {
        Broken(error.to_string())
    }
}

/// `found` is what was expected.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Checked {
    if found == expected { Ok(()) } else { Err(Broken(format!("{what}: {found:?} instead of {expected:?}"))) }
}

/// The error of something that has to be refused.
pub(crate) fn refused<T, E>(what: &str, result: Result<T, E>) -> Result<E, Broken> {
    result.err().ok_or_else(|| Broken(format!("{what}: it was not refused")))
}

struct State<T> {
    values: VecDeque<T>,
    tellers: usize,
    waker: Option<Waker>,
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells values. Clones tell the same.
pub(crate) struct Teller<T>(Arc<Mutex<State<T>>>);

/// Is told them.
pub(crate) struct Told<T>(Arc<Mutex<State<T>>>);

/// A pair.
pub(crate) fn telling<T>() -> (Teller<T>, Told<T>) {
    let state = Arc::new(Mutex::new(State { values: VecDeque::new(), tellers: 1, waker: None }));
    (Teller(Arc::clone(&state)), Told(state))
}

impl<T> Teller<T> {
    pub(crate) fn tell(&self, value: T) {
        self.change(|state| state.values.push_back(value));
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let waker = {
            let mut state = lock(&self.0);
            change(&mut state);
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Clone for Teller<T> {
    fn clone(&self) -> Self {
        lock(&self.0).tellers += 1;
        Teller(Arc::clone(&self.0))
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        self.change(|state| state.tellers -= 1);
    }
}

impl<T> Told<T> {
    /// The next value; `None` when nobody is left who could tell one.
    pub(crate) async fn next(&self) -> Option<T> {
        poll_fn(|cx| {
            let mut state = lock(&self.0);
            match state.values.pop_front() {
                Some(value) => Poll::Ready(Some(value)),
                None if state.tellers == 0 => Poll::Ready(None),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
