//! [`Gate`]: how futures wait until something is so.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Any number of futures wait here; each looks again when somebody says that something has changed.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    waiting: Mutex<Vec<Waker>>,
}

impl Gate {
    /// Has everybody look again.
    pub(crate) fn changed(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until `look` finds something.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| {
            // Registered before the look: a change in between is not missed.
            self.waiting.lock().push(cx.waker().clone());
            look().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
