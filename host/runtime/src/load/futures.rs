//! Table functions: futures; and callbacks that wait for something of the host.
//!
//! # Invariants
//! - See `load`. A `RawJoin` is a box of [`Join`].

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fuchsine_dispatcher::{DispatcherHandle, JoinHandle, Status};
use fuchsine_driver::abi::host::{HostCallback, HostFuture};
use fuchsine_driver::abi::{FutureObject, OK, RawDispatcher, RawJoin};
use parking_lot::Mutex;

use super::{disown, dispatcher, lend, own, site};

/// The right to cancel a future; used up by the first cancel.
struct Join(Mutex<Option<JoinHandle<()>>>);

pub(super) unsafe extern "C" fn spawn(
    pointer: *const RawDispatcher,
    future: *mut FutureObject,
    out: *mut *mut RawJoin,
) -> i32 {
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(pointer) };
    // SAFETY: the caller owns the future; on a refusal it is forgotten below.
    let future = unsafe { HostFuture::take(future) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(future.site()) };
    match handle.spawn_from(site, future.into_task()) {
        Ok(join) => {
            if !out.is_null() {
                // SAFETY: the out parameter is valid for the call.
                unsafe { *out = own(Join(Mutex::new(Some(join)))) };
            }
            OK
        }
        Err(refused) => {
            // It was never polled, so it holds nothing but the driver's future, which stays the driver's.
            std::mem::forget(refused.into_inner());
            Status::BadState.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn join_cancel(join: *mut RawJoin) {
    // SAFETY: the caller holds the join.
    let join = unsafe { lend::<Join, _>(join) }.0.lock().take();
    if let Some(join) = join {
        join.cancel();
    }
}

pub(super) unsafe extern "C" fn join_release(join: *mut RawJoin) {
    // SAFETY: the caller gives the box up. Dropping a join handle lets the future run on.
    unsafe { disown::<Join, _>(join) };
}

/// A callback that a dispatcher has accepted and that waits for somebody to keep the promise.
pub(super) struct Promise(Sender);

/// Accepts `callback` on `dispatcher`: it is called there once, with success when the promise is kept, or with
/// `Canceled` when the dispatcher shuts down first.
///
/// # Errors
/// The status, with the callback.
pub(super) fn promise(
    dispatcher: &DispatcherHandle,
    callback: HostCallback,
) -> Result<Promise, (Status, HostCallback)> {
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(callback.site()) };
    let slot = Arc::new(Mutex::new(Slot::Open(None)));
    let waiting = Arc::clone(&slot);
    // In a cell, so that of a refused future the callback alone can be given back.
    let cell = Arc::new(Mutex::new(Some(callback)));
    let owed = Owed(Arc::clone(&cell));
    let future = async move {
        let owed = owed;
        poll_fn(|cx| waiting.lock().poll(cx)).await;
        owed.tell(Ok(()));
    };
    match dispatcher.spawn_from(site, future) {
        // Dropping the join handle lets the future run on.
        Ok(_join) => Ok(Promise(slot)),
        Err(refused) => {
            let callback = cell.lock().take().expect("a refused future was not polled");
            drop(refused);
            Err((Status::BadState, callback))
        }
    }
}

impl Promise {
    /// Has the callback called with success.
    pub(super) fn keep(self) {
        let before = std::mem::replace(&mut *self.0.lock(), Slot::Kept);
        if let Slot::Open(Some(waker)) = before {
            waker.wake();
        }
    }
}

type Sender = Arc<Mutex<Slot>>;

enum Slot {
    Open(Option<Waker>),
    Kept,
}

impl Slot {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        match self {
            Slot::Kept => Poll::Ready(()),
            Slot::Open(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A callback that is owed. Dropped with the future, in context, it is told `Canceled`.
struct Owed(Arc<Mutex<Option<HostCallback>>>);

impl Owed {
    fn tell(&self, outcome: Result<(), fuchsine_driver::Status>) {
        let callback = self.0.lock().take();
        if let Some(callback) = callback {
            callback.call(outcome);
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.tell(Err(fuchsine_driver::Status::Canceled));
    }
}
