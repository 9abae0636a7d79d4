//! [`Bell`]: how one future tells another that something has changed.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Rung by anyone, waited for by one future at a time. A ring that nobody waits for is remembered, once.
#[derive(Debug, Default)]
pub(crate) struct Bell(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rang: bool,
    waiting: Option<Waker>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let waiting = {
            let mut state = self.0.lock();
            state.rang = true;
            state.waiting.take()
        };
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Waits for a ring since the last time.
    pub(crate) async fn heard(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if std::mem::take(&mut state.rang) {
                return Poll::Ready(());
            }
            state.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
