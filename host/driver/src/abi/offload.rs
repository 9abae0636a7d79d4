//! Spawned futures and offloaded work over the table.
//!
//! # Invariants
//! - The cell of a job is used by one function at a time: first `work` on a lane, then `done` or `drop`; the host
//!   orders them, as `OffloadJob` says.

use std::ffi::c_void;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use super::calls::OffloadJob;
use super::closure::{caught, message_of};
use super::future::give_future;
use super::objects::{DispatcherObject, JoinObject, OffloadObject, StopToken};
use super::site::CallSite;
use super::types::{Panic, RawStopToken};
use crate::Status;
use crate::offload::OffloadError;
use crate::slot::Slot;
use crate::task::JoinError;

impl DispatcherObject {
    /// Spawns `future`, whose end is told through `join`.
    pub(crate) fn spawn_into<F>(
        &self,
        site: &'static CallSite,
        future: F,
        join: Arc<Slot<Result<F::Output, JoinError>>>,
    ) -> Result<JoinObject, (F, Status)>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut out = ptr::null_mut();
        give_future(site, future, join, |object| self.spawn(object, &mut out))?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok(unsafe { JoinObject::from_owned(out) })
    }

    /// Runs `work` on a lane, then `done` on the dispatcher.
    pub(crate) fn offload_job<T, W, D>(
        &self,
        site: &'static CallSite,
        lane: u32,
        work: W,
        done: D,
    ) -> Result<OffloadObject, ((W, D), Status)>
    where
        T: Send + 'static,
        W: FnOnce(&StopToken) -> T + Send + 'static,
        D: FnOnce(Result<T, OffloadError>) + Send + 'static,
    {
        let cell: Cell<T, W, D> = Cell { work: Some(work), done, result: None };
        let data = Box::into_raw(Box::new(cell)).cast();
        let mut job =
            OffloadJob { data, site, work: run::<T, W, D>, done: finish::<T, W, D>, drop: abandon::<T, W, D> };
        let mut out = ptr::null_mut();
        let status = self.offload(lane, &raw mut job, &mut out);
        Status::result_of(status).map_err(|status| {
            // SAFETY: on refusal the callee has touched nothing, so the box is still ours.
            let cell = unsafe { Box::from_raw(data.cast::<Cell<T, W, D>>()) };
            ((cell.work.expect("nothing has run"), cell.done), status)
        })?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok(unsafe { OffloadObject::from_owned(out) })
    }
}

struct Cell<T, W, D> {
    work: Option<W>,
    done: D,
    result: Option<Result<T, String>>,
}

unsafe extern "C" fn run<T, W: FnOnce(&StopToken) -> T, D>(data: *mut c_void, stop: *const RawStopToken) {
    // SAFETY: `data` is the cell of `offload_job` with these types, and nothing else uses it now.
    let cell = unsafe { &mut *data.cast::<Cell<T, W, D>>() };
    let Some(work) = cell.work.take() else { return };
    // SAFETY: the token is valid while the work runs, and does not leave this function.
    let stop = unsafe { StopToken::new(stop) };
    cell.result = Some(catch_unwind(AssertUnwindSafe(|| work(&stop))).map_err(message_of));
}

unsafe extern "C" fn finish<T, W, D: FnOnce(Result<T, OffloadError>)>(data: *mut c_void, status: i32) -> *mut Panic {
    // SAFETY: as `run`; `done` is called once, last.
    let cell = unsafe { Box::from_raw(data.cast::<Cell<T, W, D>>()) };
    caught(move || {
        let Cell { work, done, result } = *cell;
        let outcome = match (result, Status::result_of(status)) {
            (Some(Ok(value)), _) => Ok(value),
            (Some(Err(message)), _) => Err(OffloadError::Panicked(message)),
            (None, Err(status)) if status != Status::Canceled => Err(OffloadError::Refused(status)),
            (None, _) => Err(OffloadError::Canceled),
        };
        drop(work);
        done(outcome);
    })
}

unsafe extern "C" fn abandon<T, W, D>(data: *mut c_void) -> *mut Panic {
    // SAFETY: as `run`; `drop` is called once, last, instead of `done`.
    let cell = unsafe { Box::from_raw(data.cast::<Cell<T, W, D>>()) };
    caught(|| drop(cell))
}
