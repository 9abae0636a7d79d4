//! Interrupts: `lib/async/irq.h`.
//!
//! An interrupt object is one that counts: an eventfd that a device, VFIO or another thread writes to. What it has counted
//! is taken before the handler is called, and the handler is called once for each.

use std::sync::Arc;

use fuchsine_dispatcher::{Irq, IrqEvent, IrqHandle, Status, current};

use super::Foreign;
use super::faces::Face;
use super::handles::{self, Observable};
use super::keys::{Keys, State};
use super::wait::boot_time;
use crate::status::{
    ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_FOUND, ZX_ERR_NOT_SUPPORTED, ZX_ERR_WRONG_TYPE, ZX_OK,
};
use crate::types::{ZX_OBJECT_SIGNALED, async_irq_handler_t, async_irq_t, zx_packet_interrupt_t, zx_status_t};

struct Bound {
    face: &'static Face,
    handle: Option<IrqHandle>,
}

static BOUND: Keys<Bound> = Keys::new();

/// # Safety
/// `irq` is null, or stays where it is, unchanged by C, until it was unbound or told `ZX_ERR_CANCELED`.
pub(crate) unsafe fn bind(face: &'static Face, irq: *mut async_irq_t) -> zx_status_t {
    // SAFETY: null, or valid, by the contract of this function.
    let Some((Some(handler), object)) = (unsafe { irq.as_ref() }).map(|irq| (irq.handler, irq.object)) else {
        return ZX_ERR_INVALID_ARGS;
    };
    if !face.handle().is_synchronized() {
        return ZX_ERR_NOT_SUPPORTED;
    }
    match handles::observe(object) {
        // SAFETY: as this function.
        Ok(object) if object.is_interrupt() => unsafe { bind_to(face, irq, handler, object) },
        Ok(_) => ZX_ERR_WRONG_TYPE,
        Err(status) => status,
    }
}

/// # Safety
/// As [`bind`]; `irq` is not null, and the rest is what it says.
unsafe fn bind_to(
    face: &'static Face,
    irq: *mut async_irq_t,
    handler: async_irq_handler_t,
    object: Arc<dyn Observable>,
) -> zx_status_t {
    let source = match object.sources(ZX_OBJECT_SIGNALED) {
        Ok(sources) => match sources.into_iter().next() {
            Some((source, _)) => source,
            None => return ZX_ERR_WRONG_TYPE,
        },
        Err(status) => return status,
    };
    // SAFETY: as above.
    let state = unsafe { State::of(&raw mut (*irq).state) };
    if BOUND.with(state.key(), |_| ()).is_some() {
        return ZX_ERR_BAD_STATE;
    }
    let key = BOUND.insert(irq.addr(), Bound { face, handle: None });
    state.set(key);
    let irq = Foreign::new(irq);
    let bound = face.handle().bind_irq(&Irq::over(source), move |outcome: Result<IrqEvent<'_>, Status>| {
        let dispatcher = face.as_async();
        let event = match outcome {
            Ok(event) => event,
            Err(status) => {
                if BOUND.remove(key).is_some() {
                    // SAFETY: C keeps it until it is told.
                    unsafe { State::of(&raw mut (*irq.get()).state) }.clear();
                    // SAFETY: called as the header says; nothing of C's is used afterwards.
                    unsafe { handler(dispatcher, irq.get(), status.as_raw(), std::ptr::null()) };
                }
                return;
            }
        };
        let packet = zx_packet_interrupt_t { timestamp: boot_time(), ..Default::default() };
        for _ in 0..object.take_interrupts() {
            // The handler may have unbound it.
            if BOUND.with(key, |_| ()).is_none() {
                return;
            }
            // SAFETY: C keeps it until it is unbound; the packet lives until the handler has returned.
            unsafe { handler(dispatcher, irq.get(), ZX_OK, &raw const packet) };
        }
        event.ack();
    });
    match bound {
        Ok(handle) => {
            BOUND.with(key, |bound| bound.handle = Some(handle));
            ZX_OK
        }
        Err(error) => {
            BOUND.remove(key);
            state.clear();
            error.status().as_raw()
        }
    }
}

/// # Safety
/// `irq` is null, or valid.
pub(crate) unsafe fn unbind(face: &'static Face, irq: *mut async_irq_t) -> zx_status_t {
    if irq.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: valid, by the contract of this function.
    let state = unsafe { State::of(&raw mut (*irq).state) };
    let key = state.key();
    if !BOUND.with(key, |bound| std::ptr::eq(bound.face, face)).unwrap_or(false) {
        return ZX_ERR_NOT_FOUND;
    }
    if current().is_none_or(|current| current != face.handle()) {
        return ZX_ERR_BAD_STATE;
    }
    let Some(bound) = BOUND.remove(key) else { return ZX_ERR_NOT_FOUND };
    state.clear();
    if let Some(handle) = bound.handle {
        let _ = handle.unbind();
    }
    ZX_OK
}

#[cfg(test)]
#[path = "irq_tests.rs"]
mod tests;
