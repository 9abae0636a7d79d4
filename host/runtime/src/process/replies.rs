//! The calls that a bridge makes for the far side: how many are not answered, and the replies that are to be sent.
//!
//! A call counts as open until its outcome is known. A bridge whose own side has closed waits for that, since a reply may
//! have been written just before.

use std::collections::VecDeque;
use std::task::Waker;

use fuchsine_dispatcher::{Message, Status};
use parking_lot::Mutex;

use super::packet::CallId;

#[derive(Debug, Default)]
pub(super) struct Replies(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: usize,
    ready: VecDeque<(CallId, Message)>,
    waker: Option<Waker>,
}

/// What there is to send.
#[derive(Debug)]
pub(super) enum Next {
    Reply(CallId, Message),
    /// None yet, and the waker is noted.
    Later,
    /// No call is open.
    Nothing,
}

impl Replies {
    /// A call is made.
    pub(super) fn begin(&self) {
        self.0.lock().open += 1;
    }

    /// What became of one.
    pub(super) fn end(&self, call: CallId, outcome: Result<Message, Status>) {
        let mut state = self.0.lock();
        state.open -= 1;
        state.ready.extend(outcome.ok().map(|reply| (call, reply)));
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn next(&self, waker: &Waker) -> Next {
        let mut state = self.0.lock();
        if let Some((call, reply)) = state.ready.pop_front() {
            return Next::Reply(call, reply);
        }
        let replaced = state.waker.replace(waker.clone());
        let is_open = state.open > 0;
        drop(state);
        drop(replaced);
        if is_open { Next::Later } else { Next::Nothing }
    }
}
