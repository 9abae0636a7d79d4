//! Goal: a wait ends once, by a signal of its trigger, a cancel, or the shutdown of its dispatcher.
//! Method: an object whose sources and signals the test sets, each apart from the other.

use std::sync::mpsc::{Receiver, Sender, channel};

use fuchsine_dispatcher::DispatcherBuilder;

use super::*;
use crate::implementation::fake::{Fake, HANG_LIMIT, dispatcher};
use crate::status::ZX_ERR_CANCELED;
use crate::types::async_dispatcher_t;

/// A wait as C has it, which tells what became of it.
#[repr(C)]
struct Told {
    wait: async_wait_t,
    sender: Sender<(zx_status_t, Option<zx_packet_signal_t>)>,
}

unsafe extern "C" fn tells(
    dispatcher: *mut async_dispatcher_t,
    wait: *mut async_wait_t,
    status: zx_status_t,
    signal: *const zx_packet_signal_t,
) {
    assert!(fuchsine_dispatcher::current().is_some() && !dispatcher.is_null());
    // SAFETY: the test keeps it.
    let told = unsafe { &*wait.cast::<Told>() };
    assert_eq!(told.wait.state.reserved[0], 0, "the state is cleared before the handler");
    // SAFETY: null, or alive for the time of the call.
    let signal = unsafe { signal.as_ref() }.copied();
    let _ = told.sender.send((status, signal));
}

type Telling = Receiver<(zx_status_t, Option<zx_packet_signal_t>)>;

fn told() -> (*mut Told, Telling) {
    let (sender, receiver) = channel();
    let wait = async_wait_t { state: Default::default(), handler: Some(tells), object: 0, trigger: 0, options: 0 };
    (Box::into_raw(Box::new(Told { wait, sender })), receiver)
}

fn begin(face: &'static Face, told: *mut Told, object: &Arc<Fake>, trigger: zx_signals_t, options: u32) -> zx_status_t {
    let object: Arc<dyn Observable> = object.clone();
    // SAFETY: the test keeps it.
    unsafe { begin_on(face, told.cast(), tells, object, trigger, options) }
}

fn cancel_of(face: &'static Face, told: *mut Told) -> zx_status_t {
    // SAFETY: the test keeps it.
    unsafe { cancel(face, told.cast()) }
}

#[test]
fn a_signal_of_the_trigger_ends_the_wait_and_others_do_not() {
    let (runtime, face) = dispatcher(DispatcherBuilder::new());
    let object = Fake::new();
    let (wait, telling) = told();
    assert_eq!(begin(face, wait, &object, 4 | 8, ZX_WAIT_ASYNC_TIMESTAMP), ZX_OK);
    assert_eq!(begin(face, wait, &object, 4, 0), ZX_ERR_BAD_STATE, "it is under way");
    // Ready for something that nobody asked for, for a while.
    object.set(16);
    object.wake(1);
    object.drain(1);
    face.handle().wait_until_idle(HANG_LIMIT).expect("it is armed again");
    assert!(telling.try_recv().is_err());
    object.set(16 | 8);
    object.wake(1);
    let (status, signal) = telling.recv_timeout(HANG_LIMIT).expect("it is told");
    let signal = signal.expect("with what was seen");
    assert_eq!((status, signal.trigger, signal.observed, signal.count), (ZX_OK, 4 | 8, 16 | 8, 1));
    assert!(signal.timestamp > 0);
    assert_eq!(cancel_of(face, wait), ZX_ERR_NOT_FOUND);
    // A signal that is set already counts.
    assert_eq!(begin(face, wait, &object, 8, 0), ZX_OK);
    let (status, signal) = telling.recv_timeout(HANG_LIMIT).expect("it is told");
    assert_eq!((status, signal.map(|signal| signal.timestamp)), (ZX_OK, Some(0)));
    assert_eq!(begin(face, wait, &object, 8, ZX_WAIT_ASYNC_EDGE), ZX_ERR_NOT_SUPPORTED);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

#[test]
fn a_wait_with_two_sources_ends_by_either_and_leaves_none_armed() {
    let (runtime, face) = dispatcher(DispatcherBuilder::new().unsynchronized());
    for round in 0..500 {
        let object = Fake::new();
        let (wait, telling) = told();
        assert_eq!(begin(face, wait, &object, 1 | 2, 0), ZX_OK);
        object.set(if round % 3 == 0 { 1 } else { 1 | 2 });
        object.wake(round % 2);
        object.wake((round + 1) % 2);
        assert_eq!(telling.recv_timeout(HANG_LIMIT).map(|(status, _)| status), Ok(ZX_OK));
        face.handle().wait_until_idle(HANG_LIMIT).expect("it becomes idle");
        assert!(telling.try_recv().is_err(), "told twice");
        assert_eq!(face.handle().counters().pending, 0);
        // SAFETY: the wait has ended, and nothing runs.
        drop(unsafe { Box::from_raw(wait) });
    }
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

#[test]
fn a_canceled_wait_is_told_nothing_and_a_shutdown_tells_the_others() {
    let (runtime, face) = dispatcher(DispatcherBuilder::new());
    let object = Fake::new();
    let ((canceled, of_canceled), (pending, of_pending)) = (told(), told());
    assert_eq!(begin(face, canceled, &object, 1 | 2, 0), ZX_OK);
    assert_eq!(begin(face, pending, &object, 1 | 2, 0), ZX_OK);
    assert_eq!(cancel_of(face, canceled), ZX_OK);
    assert_eq!(cancel_of(face, canceled), ZX_ERR_NOT_FOUND);
    assert_eq!(face.handle().counters().pending, 2);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
    assert!(of_canceled.try_recv().is_err());
    let (status, signal) = of_pending.try_recv().expect("it was told");
    assert_eq!((status, signal.is_none()), (ZX_ERR_CANCELED, true));
    assert!(of_pending.try_recv().is_err(), "told twice");
    assert_eq!(begin(face, canceled, &object, 1, 0), ZX_ERR_BAD_STATE);
}

#[test]
fn a_cancel_and_a_signal_never_both_have_a_wait() {
    let (runtime, face) = dispatcher(DispatcherBuilder::new().unsynchronized());
    let (mut ran, mut canceled) = (0, 0);
    for _ in 0..2_000 {
        let object = Fake::new();
        let (wait, telling) = told();
        assert_eq!(begin(face, wait, &object, 1 | 2, 0), ZX_OK);
        object.set(2);
        object.wake(1);
        match cancel_of(face, wait) {
            ZX_OK => {
                canceled += 1;
                face.handle().wait_until_idle(HANG_LIMIT).expect("it becomes idle");
                assert!(telling.try_recv().is_err(), "canceled and told");
            }
            status => {
                assert_eq!(status, ZX_ERR_NOT_FOUND);
                assert!(telling.recv_timeout(HANG_LIMIT).is_ok());
                ran += 1;
            }
        }
    }
    assert_eq!(ran + canceled, 2_000);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
    assert_eq!(face.handle().counters().pending, 0);
}
