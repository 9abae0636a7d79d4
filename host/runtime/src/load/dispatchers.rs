//! Table functions: dispatchers, tasks, blocking, offloaded work, the clock.
//!
//! # Invariants
//! - See `load`: pointers are raw handles of dispatchers, or boxes of the structs of this file.
//! - `OffloadCell` holds the driver's job until `done` takes it, or whoever cancels it: one of the two.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fuchsine_dispatcher::{
    DispatcherBuilder, DispatcherHandle, DispatcherState, Instant, Lane, OffloadHandle, Site, Status, StopToken,
    TaskHandle,
};
use fuchsine_driver::abi::host::{HostCallback, HostOffload};
use fuchsine_driver::abi::{
    ALLOW_SYNC_CALLS, ALWAYS_ON, Callback, DispatcherOptions, LANE_FAST, LANE_SLOW, NO_THREAD_MIGRATION, OK,
    OffloadJob, RawContext, RawDispatcher, RawOffload, RawStopToken, RawTask, TextSink, UNSYNCHRONIZED,
};
use parking_lot::Mutex;

use super::{Answer, contain, disown, dispatcher, lend, own, own_dispatcher, raw, site, take_dispatcher};
use crate::host::{Instance, driver_status};

/// How often work that was canceled while it waits for its stop token is looked after.
const CANCEL_LOOK: Duration = Duration::from_millis(20);

pub(super) unsafe extern "C" fn current() -> *const RawDispatcher {
    fuchsine_dispatcher::current().map_or(ptr::null(), own_dispatcher)
}

pub(super) unsafe extern "C" fn retain(pointer: *const RawDispatcher) {
    // SAFETY: the caller holds a reference.
    let handle = unsafe { dispatcher(pointer) };
    let _one_more = own_dispatcher((*handle).clone());
}

pub(super) unsafe extern "C" fn release(pointer: *const RawDispatcher) {
    if !pointer.is_null() {
        // SAFETY: the caller gives its reference up.
        drop(unsafe { take_dispatcher(pointer) });
    }
}

pub(super) unsafe extern "C" fn create(
    context: *const RawContext,
    options: *const DispatcherOptions,
    out: *mut *const RawDispatcher,
) -> i32 {
    // SAFETY: the caller holds the context.
    let instance = unsafe { lend::<Instance, _>(context) };
    // SAFETY: the options are valid for the call.
    let options = unsafe { &*options };
    // SAFETY: so are their strings.
    let (name, role) = unsafe { (options.name.to_text(), options.scheduler_role.to_text()) };
    let mut builder = DispatcherBuilder::new().name(name).scheduler_role(role);
    if options.flags & UNSYNCHRONIZED != 0 {
        builder = builder.unsynchronized();
    }
    if options.flags & ALLOW_SYNC_CALLS != 0 {
        builder = builder.allow_sync_calls();
    }
    if options.flags & NO_THREAD_MIGRATION != 0 {
        builder = builder.no_thread_migration();
    }
    // The observer is in a cell, so that it can be given back untouched if the dispatcher is refused.
    let cell = Arc::new(Mutex::new(None));
    if !options.observer.is_null() {
        // SAFETY: the caller owns the observer; it is given back below unless this succeeds.
        *cell.lock() = Some(unsafe { HostCallback::take(options.observer) });
        let observer = Arc::clone(&cell);
        builder = builder.shutdown_observer(move || {
            let observer = observer.lock().take();
            if let Some(observer) = observer {
                observer.call(Ok(()));
            }
        });
    }
    match instance.driver.new_dispatcher(builder) {
        Ok(made) => {
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = own_dispatcher(made.release()) };
            OK
        }
        Err(error) => {
            // SAFETY: a call site lives as long as the process.
            let at = unsafe { site(options.site) };
            tracing::debug!(driver = instance.name, %error, %at, "a dispatcher was refused");
            let observer = cell.lock().take();
            observer.into_iter().for_each(HostCallback::give_back);
            error.status().as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn shutdown(pointer: *const RawDispatcher) {
    // SAFETY: the caller holds the handle.
    unsafe { dispatcher(pointer) }.shutdown_async();
}

/// A posted task, with the dispatcher on whose behalf its closure is dropped.
struct PostedTask {
    dispatcher: DispatcherHandle,
    task: TaskHandle,
}

pub(super) unsafe extern "C" fn post(
    pointer: *const RawDispatcher,
    task: *mut Callback,
    deadline: u64,
    out: *mut *mut RawTask,
) -> i32 {
    if deadline == u64::MAX {
        return Status::InvalidArgs.as_raw();
    }
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(pointer) };
    // SAFETY: the caller owns the task; on a refusal it is forgotten below.
    let callback = unsafe { HostCallback::take(task) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(callback.site()) };
    let task = move |outcome: Result<(), fuchsine_dispatcher::Canceled>| {
        callback.call(outcome.map_err(|_| fuchsine_driver::Status::Canceled));
    };
    let posted = if deadline != 0 {
        handle.post_at_from(site, Instant::from_nanos(deadline), task).map(Some)
    } else if out.is_null() {
        handle.post_task_from(site, task).map(|()| None)
    } else {
        handle.post_cancelable_from(site, task).map(Some)
    };
    match posted {
        Ok(task) => {
            // SAFETY: the out parameter is null, or valid for the call.
            task.map_or(OK, |task| unsafe { hand_out_task(out, &handle, task) })
        }
        Err(refused) => {
            let status = refused.status();
            // The closure holds nothing but the driver's callback, which stays the driver's.
            std::mem::forget(refused.into_inner());
            status.as_raw()
        }
    }
}

/// Gives the caller the right to take something back, if it wants it.
///
/// # Safety
/// `out` is null or valid for the call.
pub(super) unsafe fn hand_out_task(out: *mut *mut RawTask, dispatcher: &DispatcherHandle, task: TaskHandle) -> i32 {
    if !out.is_null() {
        // SAFETY: the caller vouches for the pointer.
        unsafe { *out = own(PostedTask { dispatcher: dispatcher.clone(), task }) };
    }
    OK
}

pub(super) unsafe extern "C" fn task_cancel(task: *mut RawTask) -> i32 {
    // SAFETY: the caller holds the task.
    let PostedTask { dispatcher, task } = unsafe { lend::<PostedTask, _>(task) };
    match task.cancel() {
        Ok(taken_back) => {
            contain(dispatcher, || drop(taken_back));
            OK
        }
        Err(error) => error.status().as_raw(),
    }
}

pub(super) unsafe extern "C" fn task_release(task: *mut RawTask) {
    // SAFETY: the caller gives the box up.
    unsafe { disown::<PostedTask, _>(task) };
}

pub(super) unsafe extern "C" fn name(pointer: *const RawDispatcher, sink: TextSink) {
    // SAFETY: the caller holds the handle; the sink is delivered to once.
    unsafe { sink.deliver(dispatcher(pointer).name()) };
}

pub(super) unsafe extern "C" fn is_stopping(pointer: *const RawDispatcher) -> u32 {
    // SAFETY: the caller holds the handle.
    u32::from(unsafe { dispatcher(pointer) }.state() != DispatcherState::Running)
}

pub(super) unsafe extern "C" fn is_current(pointer: *const RawDispatcher) -> u32 {
    // SAFETY: the caller holds the handle.
    u32::from(unsafe { dispatcher(pointer) }.is_current())
}

pub(super) unsafe extern "C" fn flags(pointer: *const RawDispatcher) -> u32 {
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(pointer) };
    let pick = |is: bool, flag: u32| if is { flag } else { 0 };
    pick(!handle.is_synchronized(), UNSYNCHRONIZED)
        | pick(handle.allows_sync_calls(), ALLOW_SYNC_CALLS)
        | pick(!handle.allows_thread_migration(), NO_THREAD_MIGRATION)
        | pick(handle.is_always_on(), ALWAYS_ON)
}

pub(super) unsafe extern "C" fn always_on(pointer: *const RawDispatcher) -> *const RawDispatcher {
    // SAFETY: the caller holds the handle.
    own_dispatcher(unsafe { dispatcher(pointer) }.always_on())
}

pub(super) unsafe extern "C" fn seal(pointer: *const RawDispatcher, flag: u32) -> i32 {
    if flag != ALLOW_SYNC_CALLS {
        return Status::InvalidArgs.as_raw();
    }
    // SAFETY: the caller holds the handle.
    raw(unsafe { dispatcher(pointer) }.seal_allow_sync_calls())
}

pub(super) unsafe extern "C" fn clock_now(pointer: *const RawDispatcher) -> u64 {
    if !pointer.is_null() {
        // SAFETY: the caller holds the handle.
        return unsafe { dispatcher(pointer) }.now().as_nanos();
    }
    match fuchsine_dispatcher::current() {
        Some(current) => current.now().as_nanos(),
        None => machine_now(),
    }
}

/// The monotonic clock of the machine, which is the one that runtimes with threads have.
fn machine_now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

pub(super) unsafe extern "C" fn blocking(call: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> i32 {
    // SAFETY: the caller promises that `call` may be called with `data` once, here.
    let run = || unsafe { call(data) };
    match fuchsine_dispatcher::blocking(run) {
        Ok(()) => OK,
        Err(refused) => refused.status().as_raw(),
    }
}

/// Work under way.
struct OffloadCell {
    site: Site,
    /// Until `done` or a cancel takes it.
    job: Mutex<Option<HostOffload>>,
    began: AtomicBool,
    canceled: AtomicBool,
}

/// What work that runs is told by.
struct WorkToken<'a> {
    dispatcher: &'a StopToken,
    canceled: &'a AtomicBool,
}

struct Offloaded {
    dispatcher: DispatcherHandle,
    handle: OffloadHandle,
    cell: Arc<OffloadCell>,
}

pub(super) unsafe extern "C" fn offload(
    pointer: *const RawDispatcher,
    lane: u32,
    job: *mut OffloadJob,
    out: *mut *mut RawOffload,
) -> i32 {
    let lane = match lane {
        LANE_FAST => Lane::Fast,
        LANE_SLOW => Lane::Slow,
        _ => return Status::InvalidArgs.as_raw(),
    };
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(pointer) };
    // SAFETY: the caller owns the job; on a refusal it is given back below.
    let job = unsafe { HostOffload::take(job) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(job.site()) };
    let cell = Arc::new(OffloadCell {
        site,
        job: Mutex::new(Some(job)),
        began: AtomicBool::new(false),
        canceled: AtomicBool::new(false),
    });
    let (working, ending) = (Arc::clone(&cell), Arc::clone(&cell));
    let work = move |stop: &StopToken| {
        working.began.store(true, Ordering::Relaxed);
        let token = WorkToken { dispatcher: stop, canceled: &working.canceled };
        // Taken out while it runs, so that a cancel meanwhile does not wait for it.
        let job = working.job.lock().take();
        if let Some(mut job) = job {
            // SAFETY: the token outlives the call.
            unsafe { job.work(ptr::from_ref(&token).cast()) };
            *working.job.lock() = Some(job);
        }
    };
    let done = move |outcome: Result<(), fuchsine_dispatcher::OffloadError>| {
        let job = ending.job.lock().take();
        if let Some(job) = job {
            job.done(outcome.map_err(|error| driver_status(error.into())));
        }
    };
    match handle.offload_from(site, lane, work, done) {
        Ok(offloaded) => {
            if !out.is_null() {
                let offloaded = Offloaded { dispatcher: handle.clone(), handle: offloaded, cell };
                // SAFETY: the out parameter is valid for the call.
                unsafe { *out = own(offloaded) };
            }
            OK
        }
        Err(refused) => {
            let job = cell.job.lock().take();
            job.into_iter().for_each(HostOffload::give_back);
            refused.status().as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn offload_cancel(offload: *mut RawOffload) -> i32 {
    // SAFETY: the caller holds the offload.
    let Offloaded { dispatcher, handle, cell } = unsafe { lend::<Offloaded, _>(offload) };
    cell.canceled.store(true, Ordering::Relaxed);
    if handle.cancel().is_err() {
        return Status::NotFound.as_raw();
    }
    // Taken back before it began, or after it ended and before `done`, which is owed in both cases.
    let Some(job) = cell.job.lock().take() else { return Status::NotFound.as_raw() };
    let began = cell.began.load(Ordering::Relaxed);
    let outcome = if began { Ok(()) } else { Err(fuchsine_driver::Status::Canceled) };
    let posted = dispatcher.post_task_from(cell.site, move |_| job.done(outcome));
    contain(dispatcher, || drop(posted));
    raw(if began { Err(Status::NotFound) } else { Answer::Ok(()) })
}

pub(super) unsafe extern "C" fn offload_release(offload: *mut RawOffload) {
    // SAFETY: the caller gives the box up.
    unsafe { disown::<Offloaded, _>(offload) };
}

pub(super) unsafe extern "C" fn stop_token_is_stopping(token: *const RawStopToken) -> u32 {
    // SAFETY: the token is lent to the work that calls this.
    let token = unsafe { lend::<WorkToken<'_>, _>(token) };
    u32::from(token.canceled.load(Ordering::Relaxed) || token.dispatcher.is_stopping())
}

pub(super) unsafe extern "C" fn stop_token_wait(token: *const RawStopToken, timeout_ns: u64) -> u32 {
    // SAFETY: the token is lent to the work that calls this.
    let token = unsafe { lend::<WorkToken<'_>, _>(token) };
    let mut left = Duration::from_nanos(timeout_ns);
    loop {
        if token.canceled.load(Ordering::Relaxed) {
            return 1;
        }
        let slice = left.min(CANCEL_LOOK);
        if token.dispatcher.wait_timeout(slice) {
            return 1;
        }
        left -= slice;
        if left.is_zero() {
            return u32::from(token.canceled.load(Ordering::Relaxed));
        }
    }
}
