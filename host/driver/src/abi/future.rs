//! Rust futures as C futures, and the host's wakers as Rust wakers.
//!
//! # Invariants
//! - A spawned future lives in a box from before its first poll until its drop and is never moved in between, so it may
//!   be pinned; it is moved only when the spawn was refused, before any poll.
//! - The waker that a poll borrows is wrapped without taking its reference, and never dropped as a Rust waker.

use std::ffi::c_void;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use super::calls::{FutureObject, POLL_PANICKED, POLL_PENDING, POLL_READY, Polled, WakerObject};
use super::closure::{caught, message_of, quietly, report};
use super::site::CallSite;
use super::types::Panic;
use crate::Status;
use crate::slot::Slot;
use crate::task::JoinError;

struct Spawned<F: Future> {
    /// Present until it is complete, has panicked, or was refused. Pinned from the first poll on.
    future: Option<F>,
    join: Arc<Slot<Result<F::Output, JoinError>>>,
}

/// Packs `future`, lets `give` pass it on, and unpacks it again if it was refused.
pub(crate) fn give_future<F>(
    site: &'static CallSite,
    future: F,
    join: Arc<Slot<Result<F::Output, JoinError>>>,
    give: impl FnOnce(*mut FutureObject) -> i32,
) -> Result<(), (F, Status)>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let data = Box::into_raw(Box::new(Spawned { future: Some(future), join })).cast();
    let mut object = FutureObject { data, site, poll: poll::<F>, drop: drop_future::<F> };
    Status::result_of(give(&raw mut object)).map_err(|status| {
        // SAFETY: on refusal the callee has touched nothing, so the box is still ours, and was never polled.
        let mut spawned = unsafe { Box::from_raw(data.cast::<Spawned<F>>()) };
        (spawned.future.take().expect("it was put in above"), status)
    })
}

unsafe extern "C" fn poll<F: Future>(data: *mut c_void, waker: *const WakerObject) -> Polled {
    // SAFETY: `data` is the box of `give_future::<F>`, and the host polls on one thread at a time, before `drop`.
    let spawned = unsafe { &mut *data.cast::<Spawned<F>>() };
    // SAFETY: the waker is valid for the call; the wrapper never gives the borrowed reference back.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(waker.cast(), &VTABLE)) });
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let Some(future) = &mut spawned.future else { return Poll::Ready(()) };
        // SAFETY: the box is not moved before the future is dropped in place.
        let future = unsafe { Pin::new_unchecked(future) };
        let Poll::Ready(output) = future.poll(&mut Context::from_waker(&waker)) else { return Poll::Pending };
        // The future goes before its end is told: whoever waits for it may rely on what it held being free.
        spawned.future = None;
        spawned.join.fill(Ok(output));
        Poll::Ready(())
    }));
    match outcome {
        Ok(Poll::Pending) => Polled { state: POLL_PENDING, panic: ptr::null_mut() },
        Ok(Poll::Ready(())) => Polled { state: POLL_READY, panic: ptr::null_mut() },
        Err(payload) => {
            let message = message_of(payload);
            quietly(|| spawned.join.fill(Err(JoinError::panicked(message.clone()))));
            Polled { state: POLL_PANICKED, panic: report(message) }
        }
    }
}

unsafe extern "C" fn drop_future<F: Future>(data: *mut c_void) -> *mut Panic {
    // SAFETY: `data` is the box of `give_future::<F>`, and `drop` is called once, after the last poll.
    let mut spawned = unsafe { Box::from_raw(data.cast::<Spawned<F>>()) };
    caught(move || {
        let told = Told(Arc::clone(&spawned.join));
        // Dropped in place, inside the box: it may be pinned.
        spawned.future = None;
        drop(told);
        drop(spawned);
    })
}

/// Tells that the future is gone, also when its destructor panics. No effect if its end was told already.
struct Told<T>(Arc<Slot<Result<T, JoinError>>>);

impl<T> Drop for Told<T> {
    fn drop(&mut self) {
        self.0.fill(Err(JoinError::canceled()));
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake_by_ref, drop_waker);

unsafe fn clone_waker(object: *const ()) -> RawWaker {
    let object = object.cast::<WakerObject>();
    // SAFETY: whoever clones holds or borrows a reference to the object.
    let clone = unsafe { ((*object).ops.clone)(object) };
    RawWaker::new(clone.cast(), &VTABLE)
}

unsafe fn wake(object: *const ()) {
    let object = object.cast::<WakerObject>();
    // SAFETY: whoever wakes by value gives its reference up.
    unsafe { ((*object).ops.wake)(object) };
}

unsafe fn wake_by_ref(object: *const ()) {
    let object = object.cast::<WakerObject>();
    // SAFETY: whoever wakes holds or borrows a reference to the object.
    unsafe { ((*object).ops.wake_by_ref)(object) };
}

unsafe fn drop_waker(object: *const ()) {
    let object = object.cast::<WakerObject>();
    // SAFETY: whoever drops gives its reference up.
    unsafe { ((*object).ops.drop)(object) };
}
