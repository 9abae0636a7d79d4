//! Sealing: a dispatcher gives up a right that it was made with.

use super::dispatcher::DispatcherInner;
use super::handle::DispatcherHandle;
use crate::status::Status;
use crate::sync::Arc;

impl DispatcherHandle {
    /// From here on callbacks of this dispatcher do not block any more: [`blocking`](crate::blocking) and synchronous
    /// calls are refused, messages of other drivers run inline as on any dispatcher, and the thread that was reserved for
    /// it is given back. For a driver that blocks while it sets itself up, and never again. It cannot be undone.
    ///
    /// # Errors
    /// In the order in which they are looked for:
    /// - [`Status::BadState`]: it is not the current dispatcher, or its shutdown has begun.
    /// - [`Status::AlreadyExists`]: it does not allow sync calls, because it was sealed before or never did.
    ///
    /// # Thread requirements
    /// A callback of this dispatcher, so that none is blocking meanwhile. (Fuchsia: R107 to R109; there the option to be
    /// sealed is an argument.)
    pub fn seal_allow_sync_calls(&self) -> Result<(), Status> {
        self.inner().seal_sync_calls()
    }
}

impl DispatcherInner {
    fn seal_sync_calls(self: &Arc<Self>) -> Result<(), Status> {
        let is_current = super::call_stack::is_current(self);
        let mut core = self.lock();
        if !is_current || !core.state.accepts() {
            return Err(Status::BadState);
        }
        if !self.end_sync_calls(&mut core) {
            return Err(Status::AlreadyExists);
        }
        drop(core);
        self.pool().release_thread();
        Ok(())
    }

    /// Gives back what was reserved for this dispatcher: its thread, if it still had one, its host, and its place in the
    /// pool.
    pub(super) fn give_back(self: &Arc<Self>) {
        let had_thread = self.end_sync_calls(&mut self.lock());
        self.owner().runtime().leave_pool(self.pool(), had_thread, self.pinned_to());
    }
}
