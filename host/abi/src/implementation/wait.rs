//! Waits for signals of an object: `lib/async/wait.h`.
//!
//! An object has sources that become ready when its signals may have changed. A wait is armed on those that its trigger
//! needs; when one is ready, it looks at the signals. If none of the trigger is set, it is armed again there; otherwise it
//! ends, and so do its other sources. It ends once: by the first of them, by the shutdown of the dispatcher, or by a cancel;
//! whoever takes the value behind the key out has ended it.

use std::sync::Arc;
use std::time::Duration;

use fuchsine_dispatcher::{Canceled, Interest, Readiness, Status, TaskHandle, WaitHandle, WakeSource};
use parking_lot::Mutex;

use super::Foreign;
use super::faces::Face;
use super::handles::{self, Observable};
use super::keys::{Keys, State};
use crate::status::{ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_FOUND, ZX_ERR_NOT_SUPPORTED, ZX_OK};
use crate::types::{
    ZX_WAIT_ASYNC_BOOT_TIMESTAMP, ZX_WAIT_ASYNC_EDGE, ZX_WAIT_ASYNC_TIMESTAMP, async_wait_handler_t, async_wait_t,
    zx_packet_signal_t, zx_signals_t, zx_status_t, zx_time_t,
};

struct Pending {
    face: &'static Face,
    wait: Foreign<async_wait_t>,
    handler: async_wait_handler_t,
    object: Arc<dyn Observable>,
    trigger: zx_signals_t,
    options: u32,
    key: Mutex<usize>,
    /// Those that are armed, by the place of their source; `None` once the wait has ended.
    armed: Mutex<Option<Vec<Armed>>>,
}

/// What may call on behalf of a source.
#[derive(Default)]
enum Armed {
    #[default]
    Nothing,
    Wait(WaitHandle),
    /// It was ready for nothing that is waited for, more than once, and is armed again later.
    Pause(TaskHandle),
}

impl Armed {
    fn cancel(self) {
        match self {
            Armed::Nothing => {}
            Armed::Wait(handle) => drop(handle.cancel()),
            Armed::Pause(handle) => drop(handle.cancel()),
        }
    }
}

/// The first and the longest pause of a source that is ready again and again for nothing.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

static PENDING: Keys<Arc<Pending>> = Keys::new();

/// # Safety
/// `wait` is null, or stays where it is, unchanged by C, until its handler has started or a cancel has succeeded.
pub(crate) unsafe fn begin(face: &'static Face, wait: *mut async_wait_t) -> zx_status_t {
    const KNOWN: u32 = ZX_WAIT_ASYNC_TIMESTAMP | ZX_WAIT_ASYNC_EDGE | ZX_WAIT_ASYNC_BOOT_TIMESTAMP;
    // SAFETY: null, or valid, by the contract of this function.
    let Some((handler, object, trigger, options)) =
        (unsafe { wait.as_ref() }).map(|wait| (wait.handler, wait.object, wait.trigger, wait.options))
    else {
        return ZX_ERR_INVALID_ARGS;
    };
    let Some(handler) = handler.filter(|_| options & !KNOWN == 0 && trigger != 0) else { return ZX_ERR_INVALID_ARGS };
    match handles::observe(object) {
        // SAFETY: as this function.
        Ok(object) => unsafe { begin_on(face, wait, handler, object, trigger, options) },
        Err(status) => status,
    }
}

/// # Safety
/// As [`begin`]; `wait` is not null, and the rest is what it says.
unsafe fn begin_on(
    face: &'static Face,
    wait: *mut async_wait_t,
    handler: async_wait_handler_t,
    object: Arc<dyn Observable>,
    trigger: zx_signals_t,
    options: u32,
) -> zx_status_t {
    let sources = match object.sources(trigger) {
        Ok(sources) => sources,
        Err(status) => return status,
    };
    if options & ZX_WAIT_ASYNC_EDGE != 0 && object.signals() & trigger != 0 {
        // What is set would have to be seen to go before it comes.
        return ZX_ERR_NOT_SUPPORTED;
    }
    // SAFETY: as above.
    let state = unsafe { State::of(&raw mut (*wait).state) };
    if PENDING.with(state.key(), |_| ()).is_some() {
        return ZX_ERR_BAD_STATE;
    }
    let pending = Arc::new(Pending {
        face,
        wait: Foreign::new(wait),
        handler,
        object,
        trigger,
        options,
        key: Mutex::new(0),
        armed: Mutex::new(Some(sources.iter().map(|_| Armed::Nothing).collect())),
    });
    let key = PENDING.insert(wait.addr(), Arc::clone(&pending));
    *pending.key.lock() = key;
    state.set(key);
    for (place, (source, interest)) in sources.into_iter().enumerate() {
        let Err(status) = arm(&pending, place, source, interest, Duration::ZERO) else { continue };
        // Unless it has ended meanwhile, by another of its sources.
        if pending.end() {
            state.clear();
            return status.as_raw();
        }
        break;
    }
    ZX_OK
}

/// # Safety
/// `wait` is null, or valid.
pub(crate) unsafe fn cancel(face: &'static Face, wait: *mut async_wait_t) -> zx_status_t {
    if wait.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: valid, by the contract of this function.
    let state = unsafe { State::of(&raw mut (*wait).state) };
    let pending = PENDING.with(state.key(), |pending| Arc::clone(pending));
    match pending.filter(|pending| std::ptr::eq(pending.face, face)) {
        Some(pending) if pending.end() => {
            state.clear();
            ZX_OK
        }
        _ => ZX_ERR_NOT_FOUND,
    }
}

/// Arms a wait on a source. `pause` is how long to leave it alone if it turns out to be ready for nothing.
fn arm(
    pending: &Arc<Pending>,
    place: usize,
    source: WakeSource,
    interest: Interest,
    pause: Duration,
) -> Result<(), Status> {
    let (told, again) = (Arc::clone(pending), source.clone());
    let begun = pending.face.handle().begin_wait(&source, interest, move |outcome: Result<Readiness, Status>| {
        let observed = told.object.signals();
        let status = match outcome {
            Ok(_) if observed & told.trigger != 0 => Ok(()),
            Ok(_) => match arm_later(&told, place, again, interest, pause) {
                Ok(()) => return,
                Err(status) => Err(status),
            },
            Err(status) => Err(status),
        };
        told.tell(ended(status), observed);
    });
    let handle = begun.map_err(|error| match error.status() {
        // What the system does not wait for, such as a regular file.
        Status::NotSupported => Status::AccessDenied,
        status => status,
    })?;
    pending.note(place, Armed::Wait(handle));
    Ok(())
}

/// Arms a source again that was ready for nothing: at once the first time, since whoever is quicker may have taken what was
/// there, then after pauses that grow, since some are ready for long, such as a socket with data that nobody waits for.
fn arm_later(
    pending: &Arc<Pending>,
    place: usize,
    source: WakeSource,
    interest: Interest,
    pause: Duration,
) -> Result<(), Status> {
    let next = (pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    if pause.is_zero() {
        return arm(pending, place, source, interest, next);
    }
    let told = Arc::clone(pending);
    let posted = pending.face.handle().post_after(pause, move |outcome: Result<(), Canceled>| {
        let armed = outcome.map_err(Status::from).and_then(|()| arm(&told, place, source, interest, next));
        if armed.is_err() {
            told.tell(ended(armed), 0);
        }
    });
    let handle = posted.map_err(|error| error.status())?;
    pending.note(place, Armed::Pause(handle));
    Ok(())
}

/// What a handler is told: a dispatcher that takes nothing any more is about to cancel everything.
fn ended(outcome: Result<(), Status>) -> zx_status_t {
    match outcome {
        Ok(()) => ZX_OK,
        Err(Status::BadState) => Status::Canceled.as_raw(),
        Err(status) => status.as_raw(),
    }
}

impl Pending {
    /// Ends the wait; false if it had ended. Its sources are not armed any more, and those that are about to call find out.
    fn end(&self) -> bool {
        let key = *self.key.lock();
        if PENDING.remove(key).is_none() {
            return false;
        }
        let armed = self.armed.lock().take();
        armed.into_iter().flatten().for_each(Armed::cancel);
        true
    }

    /// Notes what is armed for a source in place of what was, which has run; unless the wait has ended.
    fn note(&self, place: usize, armed: Armed) {
        let unwanted = match self.armed.lock().as_mut() {
            Some(places) => std::mem::replace(&mut places[place], armed),
            None => armed,
        };
        unwanted.cancel();
    }

    /// Ends the wait and calls the handler.
    fn tell(&self, status: zx_status_t, observed: zx_signals_t) {
        if !self.end() {
            return;
        }
        let packet = zx_packet_signal_t {
            trigger: self.trigger,
            observed,
            count: 1,
            timestamp: timestamp(self.face, self.options),
            reserved1: 0,
        };
        let signal = if status == ZX_OK { &raw const packet } else { std::ptr::null() };
        // SAFETY: C keeps the wait until its handler has started.
        unsafe { State::of(&raw mut (*self.wait.get()).state) }.clear();
        // SAFETY: called as the header says; nothing of C's is used afterwards, and the packet lives until it returns.
        unsafe { (self.handler)(self.face.as_async(), self.wait.get(), status, signal) };
    }
}

fn timestamp(face: &Face, options: u32) -> zx_time_t {
    if options & ZX_WAIT_ASYNC_BOOT_TIMESTAMP != 0 {
        return boot_time();
    }
    if options & ZX_WAIT_ASYNC_TIMESTAMP != 0 {
        return super::task::to_time(face.handle().now());
    }
    0
}

/// The time by the clock that goes on while the machine sleeps.
pub(crate) fn boot_time() -> zx_time_t {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
