//! The destruction of messages that nobody read, without recursion.
//!
//! A message may carry an end of a channel whose unread messages carry ends of channels, and so on, as deep as anybody
//! cares to nest. Closing by plain recursion would overflow the stack, so each thread has a work list:
//!
//! 1. Whoever destroys first on this thread puts the handles on the list and works it off, one at a time.
//! 2. What is closed in doing so finds the list in work, adds its own handles and what its readers are to be told, and
//!    returns.
//! 3. When the list is empty, the readers are told, in order. They may run here, as in a write; what they destroy in turn
//!    is a new list.
//!
//! A value whose destructor panics costs nothing else its end: the rest is worked off, then the panic goes on.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;

use super::message::{Handle, Message};
use super::registration::Registered;
use super::wait_op::Next;
use crate::sync::{FirstPanic, thread_local};

#[derive(Default)]
struct Wreckage {
    handles: VecDeque<Handle>,
    to_tell: VecDeque<Next<Registered>>,
}

thread_local! {
    /// `Some` while the list of this thread is worked off. Not dropped at the thread's end, when it is `None`, so that
    /// it can be used by the destructors of other thread-local values.
    static IN_WORK: ManuallyDrop<RefCell<Option<Wreckage>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Destroys handles.
pub(super) fn destroy(handles: Vec<Handle>) {
    work_off(|wreckage| wreckage.handles.extend(handles));
}

/// Destroys what an end has not read, and tells who waits at both ends.
pub(super) fn close(unread: VecDeque<Message>, to_tell: Vec<Next<Registered>>) {
    work_off(|wreckage| {
        for mut message in unread {
            wreckage.handles.extend(message.take_handles());
        }
        wreckage.to_tell.extend(to_tell);
    });
}

fn work_off(add: impl FnOnce(&mut Wreckage)) {
    let is_first = IN_WORK.with(|in_work| {
        let mut in_work = in_work.borrow_mut();
        let is_first = in_work.is_none();
        add(in_work.get_or_insert_default());
        is_first
    });
    if !is_first {
        return;
    }
    let mut panicked = FirstPanic::none();
    while let Some(handle) = IN_WORK.with(|in_work| in_work.borrow_mut().as_mut()?.handles.pop_front()) {
        panicked.guard(|| drop(handle));
    }
    let to_tell = IN_WORK.with(|in_work| in_work.borrow_mut().take()).map(|wreckage| wreckage.to_tell);
    for next in to_tell.into_iter().flatten() {
        panicked.guard(|| next.carry_out());
    }
    panicked.go_on();
}
