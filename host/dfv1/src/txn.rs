//! The duties to reply to a hook.

use std::sync::Arc;

use fuchsine_driver::Status;

use crate::signal::Signal;

/// The duty to say how the `init` of a device ended. May be kept, and sent to another thread.
///
/// Dropping it is a reply: that the device cannot work.
#[derive(Debug)]
#[must_use = "a device stays invisible until its `init` is replied to; dropping this says that it failed"]
pub struct InitTxn(Option<Arc<Signal<Result<(), Status>>>>);

impl InitTxn {
    pub(crate) fn new(told: Arc<Signal<Result<(), Status>>>) -> InitTxn {
        InitTxn(Some(told))
    }

    /// Makes the device visible, or has it removed.
    pub fn reply(mut self, outcome: Result<(), Status>) {
        if let Some(told) = self.0.take() {
            told.tell(outcome);
        }
    }
}

impl Drop for InitTxn {
    fn drop(&mut self) {
        if let Some(told) = self.0.take() {
            told.tell(Err(Status::Canceled));
        }
    }
}

/// The duty to say that a device is unbound: that nothing of it is under way any more. May be kept, and sent to another
/// thread.
///
/// Dropping it is the reply.
#[derive(Debug)]
#[must_use = "the removal of a device waits for the reply; dropping this replies"]
pub struct UnbindTxn(Arc<Signal<()>>);

impl UnbindTxn {
    pub(crate) fn new(told: Arc<Signal<()>>) -> UnbindTxn {
        UnbindTxn(told)
    }

    /// The device is unbound.
    pub fn reply(self) {
        drop(self);
    }
}

impl Drop for UnbindTxn {
    fn drop(&mut self) {
        self.0.tell(());
    }
}
