//! Goal: what the types of irqs, suspends and wake vectors promise to whoever moves them between threads.
//! Method: the compiler.

use std::fmt::Debug;

use fuchsine_dispatcher::{Irq, IrqHandle, IrqTrigger, SuspendError, Unbound, WakeSource, WakeVector, WakeVectorError};

#[test]
fn irqs_and_wake_vectors_may_go_to_any_thread() {
    fn are_send_and_sync<T: Send + Sync + Debug + 'static>() {}
    fn are_send<T: Send + Debug + 'static>() {}
    fn are_handles<T: Send + Sync + Clone + Debug + 'static>() {}
    are_handles::<Irq>();
    are_handles::<IrqTrigger>();
    are_handles::<IrqHandle>();
    are_handles::<WakeSource>();
    are_send_and_sync::<WakeVector>();
    are_send_and_sync::<WakeVectorError>();
    // Each holds a closure of the caller's, which need not be shareable.
    are_send::<SuspendError>();
    are_send::<Unbound>();
}
