//! Goal: an irq's handler is called once for each interrupt, until it is unbound or told of the shutdown.
//! Method: an object that the test triggers.

use std::sync::mpsc::{Sender, channel};

use fuchsine_dispatcher::DispatcherBuilder;

use super::*;
use crate::implementation::fake::{Fake, HANG_LIMIT, dispatcher};
use crate::status::ZX_ERR_CANCELED;
use crate::types::async_dispatcher_t;

#[repr(C)]
struct Told {
    irq: async_irq_t,
    face: &'static Face,
    /// After how many calls the handler unbinds it.
    unbinds_after: usize,
    sender: Sender<zx_status_t>,
}

unsafe extern "C" fn tells(
    _: *mut async_dispatcher_t,
    irq: *mut async_irq_t,
    status: zx_status_t,
    signal: *const zx_packet_interrupt_t,
) {
    // SAFETY: the test keeps it, and one handler runs at a time.
    let told = unsafe { &mut *irq.cast::<Told>() };
    // SAFETY: null, or alive for the time of the call.
    let signal = unsafe { signal.as_ref() };
    assert_eq!(signal.is_some_and(|signal| signal.timestamp > 0), status == ZX_OK);
    told.unbinds_after = told.unbinds_after.wrapping_sub(1);
    if told.unbinds_after == 0 {
        // SAFETY: the test keeps it.
        assert_eq!(unsafe { unbind(told.face, irq) }, ZX_OK);
    }
    let _ = told.sender.send(status);
}

fn bind_to_fake(face: &'static Face, told: *mut Told, object: &Arc<Fake>) -> zx_status_t {
    let object: Arc<dyn Observable> = object.clone();
    // SAFETY: the test keeps it.
    unsafe { bind_to(face, told.cast(), tells, object) }
}

#[test]
fn each_interrupt_is_told_until_it_is_unbound_inside() {
    let (runtime, face) = dispatcher(DispatcherBuilder::new());
    let object = Fake::new();
    let (sender, telling) = channel();
    let irq = async_irq_t { state: Default::default(), handler: Some(tells), object: 0 };
    let told = Box::into_raw(Box::new(Told { irq, face, unbinds_after: 5, sender }));
    assert_eq!(bind_to_fake(face, told, &object), ZX_OK);
    assert_eq!(bind_to_fake(face, told, &object), ZX_ERR_BAD_STATE, "it is bound");
    for _ in 0..3 {
        object.wake(1);
    }
    for _ in 0..3 {
        assert_eq!(telling.recv_timeout(HANG_LIMIT), Ok(ZX_OK));
    }
    // SAFETY: the test keeps it.
    assert_eq!(unsafe { unbind(face, told.cast()) }, ZX_ERR_BAD_STATE, "not on the dispatcher");
    for _ in 0..7 {
        object.wake(1);
    }
    for _ in 0..2 {
        assert_eq!(telling.recv_timeout(HANG_LIMIT), Ok(ZX_OK));
    }
    face.handle().wait_until_idle(HANG_LIMIT).expect("it becomes idle");
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
    assert!(telling.try_recv().is_err(), "it was unbound by its handler, and is told nothing more");
    // SAFETY: the test keeps it.
    assert_eq!(unsafe { unbind(face, told.cast()) }, ZX_ERR_NOT_FOUND);
}

#[test]
fn a_shutdown_tells_a_bound_irq_once() {
    let (runtime, face) = dispatcher(DispatcherBuilder::new());
    let object = Fake::new();
    let (sender, telling) = channel();
    let irq = async_irq_t { state: Default::default(), handler: Some(tells), object: 0 };
    let told = Box::into_raw(Box::new(Told { irq, face, unbinds_after: 0, sender }));
    assert_eq!(bind_to_fake(face, told, &object), ZX_OK);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
    assert_eq!(telling.try_iter().collect::<Vec<_>>(), [ZX_ERR_CANCELED]);
}
