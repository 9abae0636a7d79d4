//! The functions of the fake host for dispatchers, futures, work and the clock.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::world::{FakeDispatcher, Op, current};
use super::{lend, share};
use crate::Status;
use crate::abi::host::{HostCallback, HostFuture, HostOffload, raw_status};
use crate::abi::{
    ALLOW_SYNC_CALLS, Callback, FutureObject, LANE_SLOW, OK, OffloadJob, RawDispatcher, RawJoin, RawOffload,
    RawStopToken, RawTask, TextSink,
};

struct Ticket {
    dispatcher: Arc<FakeDispatcher>,
    op: u64,
}

impl Ticket {
    fn give<R>(dispatcher: &Arc<FakeDispatcher>, op: u64, out: *mut *mut R) {
        if !out.is_null() {
            let ticket = Ticket { dispatcher: Arc::clone(dispatcher), op };
            // SAFETY: the caller of the table function passes null or a valid out pointer.
            unsafe { *out = Box::into_raw(Box::new(ticket)).cast() };
        }
    }
}

unsafe fn release<R>(ticket: *mut R) {
    // SAFETY: the caller gives the ticket up.
    drop(unsafe { Box::from_raw(ticket.cast::<Ticket>()) });
}

pub(super) unsafe extern "C" fn dispatcher_current() -> *const RawDispatcher {
    current().map_or(std::ptr::null(), |dispatcher| Arc::into_raw(dispatcher).cast())
}

pub(super) unsafe extern "C" fn dispatcher_retain(dispatcher: *const RawDispatcher) {
    // SAFETY: the caller passes a valid dispatcher.
    unsafe { Arc::increment_strong_count(dispatcher.cast::<FakeDispatcher>()) };
}

pub(super) unsafe extern "C" fn dispatcher_release(dispatcher: *const RawDispatcher) {
    if !dispatcher.is_null() {
        // SAFETY: the caller gives a reference up.
        drop(unsafe { Arc::from_raw(dispatcher.cast::<FakeDispatcher>()) });
    }
}

pub(super) unsafe extern "C" fn dispatcher_shutdown(dispatcher: *const RawDispatcher) {
    // SAFETY: the caller passes a valid dispatcher.
    unsafe { share::<FakeDispatcher, _>(dispatcher) }.shutdown();
}

pub(super) unsafe extern "C" fn dispatcher_post(
    dispatcher: *const RawDispatcher,
    task: *mut Callback,
    deadline: u64,
    out: *mut *mut RawTask,
) -> i32 {
    if deadline == u64::MAX {
        return Status::InvalidArgs.as_raw();
    }
    // SAFETY: the caller passes a valid dispatcher.
    let dispatcher = unsafe { share::<FakeDispatcher, _>(dispatcher) };
    // SAFETY: the callback is moved out of the caller's copy; a refusal gives it back.
    let task = unsafe { HostCallback::take(task) };
    match dispatcher.accept(Op::Task(task)) {
        Ok(op) => {
            Ticket::give(&dispatcher, op, out);
            if deadline == 0 {
                dispatcher.fire(op, super::world::FIRED)
            } else {
                dispatcher.fire_at(op, deadline)
            }
            OK
        }
        Err(Op::Task(task)) => {
            task.give_back();
            Status::BadState.as_raw()
        }
        Err(_) => unreachable!("the operation comes back as it was"),
    }
}

pub(super) unsafe extern "C" fn task_cancel(task: *mut RawTask) -> i32 {
    // SAFETY: the caller passes a valid ticket.
    let ticket: &Ticket = unsafe { lend(task) };
    raw_status(ticket.dispatcher.take_back(ticket.op).map(drop).ok_or(Status::NotFound))
}

pub(super) unsafe extern "C" fn task_release(task: *mut RawTask) {
    // SAFETY: as the caller's.
    unsafe { release(task) };
}

pub(super) unsafe extern "C" fn dispatcher_name(dispatcher: *const RawDispatcher, sink: TextSink) {
    // SAFETY: the caller passes a valid dispatcher and sink.
    unsafe { sink.deliver(&lend::<FakeDispatcher, _>(dispatcher).name) };
}

pub(super) unsafe extern "C" fn dispatcher_is_stopping(dispatcher: *const RawDispatcher) -> u32 {
    // SAFETY: the caller passes a valid dispatcher.
    u32::from(unsafe { lend::<FakeDispatcher, _>(dispatcher) }.is_stopping())
}

pub(super) unsafe extern "C" fn dispatcher_is_current(dispatcher: *const RawDispatcher) -> u32 {
    u32::from(current().is_some_and(|current| std::ptr::eq(Arc::as_ptr(&current).cast(), dispatcher)))
}

pub(super) unsafe extern "C" fn dispatcher_flags(dispatcher: *const RawDispatcher) -> u32 {
    // SAFETY: the caller passes a valid dispatcher.
    unsafe { lend::<FakeDispatcher, _>(dispatcher) }.flags.load(Relaxed)
}

pub(super) unsafe extern "C" fn dispatcher_seal(dispatcher: *const RawDispatcher, flag: u32) -> i32 {
    if flag != ALLOW_SYNC_CALLS {
        return Status::InvalidArgs.as_raw();
    }
    // SAFETY: the caller passes a valid dispatcher.
    let fake: &FakeDispatcher = unsafe { lend(dispatcher) };
    // SAFETY: as above.
    if fake.is_stopping() || unsafe { dispatcher_is_current(dispatcher) } == 0 {
        return Status::BadState.as_raw();
    }
    match fake.flags.fetch_and(!ALLOW_SYNC_CALLS, Relaxed) & ALLOW_SYNC_CALLS {
        0 => Status::AlreadyExists.as_raw(),
        _ => OK,
    }
}

pub(super) unsafe extern "C" fn spawn(
    dispatcher: *const RawDispatcher,
    future: *mut FutureObject,
    out: *mut *mut RawJoin,
) -> i32 {
    // SAFETY: the caller passes a valid dispatcher.
    let dispatcher = unsafe { share::<FakeDispatcher, _>(dispatcher) };
    if dispatcher.is_stopping() {
        return Status::BadState.as_raw();
    }
    // SAFETY: the future is moved out of the caller's copy. Nothing else runs that could stop the dispatcher meanwhile.
    let future = unsafe { HostFuture::take(future) };
    let Ok(id) = dispatcher.spawn(future.into_task()) else { unreachable!("it was running a line above") };
    Ticket::give(&dispatcher, id, out);
    OK
}

pub(super) unsafe extern "C" fn join_cancel(join: *mut RawJoin) {
    // SAFETY: the caller passes a valid ticket.
    let ticket: &Ticket = unsafe { lend(join) };
    ticket.dispatcher.cancel_future(ticket.op);
}

pub(super) unsafe extern "C" fn join_release(join: *mut RawJoin) {
    // SAFETY: as the caller's.
    unsafe { release(join) };
}

pub(super) unsafe extern "C" fn blocking(call: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> i32 {
    if current().is_some_and(|dispatcher| dispatcher.flags.load(Relaxed) & ALLOW_SYNC_CALLS == 0) {
        return Status::BadState.as_raw();
    }
    // SAFETY: the caller vouches for the pair.
    unsafe { call(data) };
    OK
}

pub(super) unsafe extern "C" fn offload(
    dispatcher: *const RawDispatcher,
    lane: u32,
    job: *mut OffloadJob,
    out: *mut *mut RawOffload,
) -> i32 {
    if lane > LANE_SLOW {
        return Status::InvalidArgs.as_raw();
    }
    // SAFETY: the caller passes a valid dispatcher.
    let dispatcher = unsafe { share::<FakeDispatcher, _>(dispatcher) };
    // SAFETY: the job is moved out of the caller's copy; a refusal gives it back.
    let job = unsafe { HostOffload::take(job) };
    match dispatcher.accept(Op::Work(job, false)) {
        Ok(op) => {
            Ticket::give(&dispatcher, op, out);
            dispatcher.queue_work(op);
            OK
        }
        Err(Op::Work(job, _)) => {
            job.give_back();
            Status::BadState.as_raw()
        }
        Err(_) => unreachable!("the operation comes back as it was"),
    }
}

pub(super) unsafe extern "C" fn offload_cancel(offload: *mut RawOffload) -> i32 {
    // SAFETY: the caller passes a valid ticket.
    let ticket: &Ticket = unsafe { lend(offload) };
    raw_status(if ticket.dispatcher.cancel_work(ticket.op) { Ok(()) } else { Err(Status::NotFound) })
}

pub(super) unsafe extern "C" fn offload_release(offload: *mut RawOffload) {
    // SAFETY: as the caller's.
    unsafe { release(offload) };
}

pub(super) unsafe extern "C" fn stop_token_is_stopping(token: *const RawStopToken) -> u32 {
    // SAFETY: the token is the address of the dispatcher, which lives while the work runs.
    u32::from(unsafe { lend::<FakeDispatcher, _>(token) }.is_stopping())
}

pub(super) unsafe extern "C" fn stop_token_wait(token: *const RawStopToken, _timeout_ns: u64) -> u32 {
    // SAFETY: as above. Nobody else runs in this world, so that waiting changes nothing.
    unsafe { stop_token_is_stopping(token) }
}

pub(super) unsafe extern "C" fn clock_now(dispatcher: *const RawDispatcher) -> u64 {
    if dispatcher.is_null() {
        return current().map_or(0, |dispatcher| dispatcher.world.now());
    }
    // SAFETY: the caller passes null or a valid dispatcher.
    unsafe { lend::<FakeDispatcher, _>(dispatcher) }.world.now()
}
