//! Handles: numbers that C knows objects by.

use std::sync::Arc;

use fuchsine_dispatcher::{Interest, WakeSource};

use crate::status::ZX_ERR_BAD_HANDLE;
use crate::types::{zx_handle_t, zx_signals_t, zx_status_t};

/// An object as a wait sees it.
pub(crate) trait Observable: Send + Sync {
    /// The signals that are set at this moment.
    fn signals(&self) -> zx_signals_t;

    /// What becomes ready when one of `wanted` may have been set, each source the same whenever it is asked for (wake vectors
    /// are known by it); it keeps what is behind it open. Spurious readiness is
    /// allowed, if it does not last: the wait looks at [`signals`](Observable::signals) and is armed again.
    ///
    /// # Errors
    /// `ZX_ERR_ACCESS_DENIED` for what cannot be waited for, `ZX_ERR_NOT_SUPPORTED` for signals that the object never has.
    fn sources(&self, wanted: zx_signals_t) -> Result<Vec<(WakeSource, Interest)>, zx_status_t>;

    /// Whether it counts, so that it can be bound as an interrupt; then `ZX_OBJECT_SIGNALED` has one source.
    fn is_interrupt(&self) -> bool {
        false
    }

    /// Takes what it has counted since the last time, as an interrupt.
    fn take_interrupts(&self) -> u64 {
        0
    }
}

/// The object behind a handle, to be waited for.
///
/// # Errors
/// `ZX_ERR_BAD_HANDLE`: the value names no object. `ZX_ERR_ACCESS_DENIED`: the object cannot be waited for.
pub(crate) fn observe(_handle: zx_handle_t) -> Result<Arc<dyn Observable>, zx_status_t> {
    Err(ZX_ERR_BAD_HANDLE)
}
