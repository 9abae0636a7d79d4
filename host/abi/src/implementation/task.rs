//! Tasks: `lib/async/task.h`, and the dispatcher's clock.
//!
//! While a task is pending, its state holds a key, and behind the key is what can take it back. Whoever takes the value
//! behind the key out has ended the task: the callback that is about to call the handler, or a cancel.

use fuchsine_dispatcher::{Canceled, Instant, TaskHandle};

use super::Foreign;
use super::faces::Face;
use super::keys::{Keys, State};
use crate::status::{ZX_ERR_BAD_STATE, ZX_ERR_CANCELED, ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_FOUND, ZX_OK};
use crate::types::{ZX_TIME_INFINITE_PAST, async_task_t, zx_status_t, zx_time_t};

struct Pending {
    /// The face that it was posted to.
    face: usize,
    /// `None` until the post has returned.
    handle: Option<TaskHandle>,
}

static PENDING: Keys<Pending> = Keys::new();

/// A time as C has it.
pub(crate) fn to_time(instant: Instant) -> zx_time_t {
    zx_time_t::try_from(instant.as_nanos()).unwrap_or(zx_time_t::MAX)
}

/// A deadline of C's; what lies before the beginning of time is over. What is infinite for C comes in 292 years, so that
/// it can be waited for like any other.
pub(crate) fn to_instant(time: zx_time_t) -> Instant {
    Instant::from_nanos(u64::try_from(time).unwrap_or(0))
}

/// # Safety
/// None needed.
pub(crate) unsafe fn now(face: &Face) -> zx_time_t {
    to_time(face.handle().now())
}

/// # Safety
/// `task` is null, or stays where it is, unchanged by C, until its handler has started or a cancel has succeeded.
pub(crate) unsafe fn post(face: &'static Face, task: *mut async_task_t) -> zx_status_t {
    if task.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: valid, by the contract of this function.
    let (handler, deadline) = unsafe { ((*task).handler, (*task).deadline) };
    let Some(handler) = handler else { return ZX_ERR_INVALID_ARGS };
    // SAFETY: as above.
    let state = unsafe { State::of(&raw mut (*task).state) };
    if PENDING.with(state.key(), |_| ()).is_some() {
        // It is posted already.
        return ZX_ERR_BAD_STATE;
    }
    let key = PENDING.insert(task.addr(), Pending { face: face.as_async().addr(), handle: None });
    state.set(key);
    let (dispatcher, task) = (Foreign::new(face.as_async()), Foreign::new(task));
    let run = move |outcome: Result<(), Canceled>| {
        if PENDING.remove(key).is_none() {
            // Canceled at this moment.
            return;
        }
        // SAFETY: C keeps the task until its handler has started.
        unsafe { State::of(&raw mut (*task.get()).state) }.clear();
        let status = if outcome.is_ok() { ZX_OK } else { ZX_ERR_CANCELED };
        // SAFETY: called as the header says; nothing on this side is used afterwards.
        unsafe { handler(dispatcher.get(), task.get(), status) };
    };
    let posted = match deadline {
        ZX_TIME_INFINITE_PAST => face.handle().post_cancelable(run).map_err(|error| error.status()),
        deadline => face.handle().post_at(to_instant(deadline), run).map_err(|error| error.status()),
    };
    match posted {
        Ok(handle) => {
            // If it has not run already.
            PENDING.with(key, |pending| pending.handle = Some(handle));
            ZX_OK
        }
        Err(status) => {
            PENDING.remove(key);
            state.clear();
            status.as_raw()
        }
    }
}

/// # Safety
/// `task` is null, or valid.
pub(crate) unsafe fn cancel(face: &'static Face, task: *mut async_task_t) -> zx_status_t {
    if task.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: valid, by the contract of this function.
    let state = unsafe { State::of(&raw mut (*task).state) };
    let key = state.key();
    let is_of_this = PENDING.with(key, |pending| pending.face == face.as_async().addr()).unwrap_or(false);
    let Some(pending) = is_of_this.then(|| PENDING.remove(key)).flatten() else { return ZX_ERR_NOT_FOUND };
    state.clear();
    if let Some(handle) = pending.handle {
        // If it has begun, it finds that it was canceled, and touches nothing.
        let _ = handle.cancel();
    }
    ZX_OK
}
