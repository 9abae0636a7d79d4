//! Something that is told once and may be waited for by several.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Signal<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    wakers: Vec<Waker>,
}

impl<T> Default for Signal<T> {
    fn default() -> Self {
        Signal(Mutex::new(State { value: None, wakers: Vec::new() }))
    }
}

impl<T: Clone> Signal<T> {
    /// Tells it; what comes later than the first is ignored.
    pub(crate) fn tell(&self, value: T) {
        let wakers = {
            let mut state = self.0.lock();
            state.value.get_or_insert(value);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// What was told, once it is.
    pub(crate) async fn told(&self) -> T {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            match &state.value {
                Some(value) => Poll::Ready(value.clone()),
                None => {
                    state.wakers.retain(|waker| !waker.will_wake(cx.waker()));
                    state.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
