//! Packets for receivers: `lib/async/receiver.h`.

use fuchsine_dispatcher::Canceled;

use super::Foreign;
use super::faces::Face;
use crate::status::{ZX_ERR_CANCELED, ZX_ERR_INVALID_ARGS, ZX_OK, code};
use crate::types::{async_receiver_t, zx_packet_user_t, zx_status_t};

/// # Safety
/// `receiver` is null, or is kept until all its packets were delivered; `data` is null or can be read.
pub(crate) unsafe fn queue(
    face: &'static Face,
    receiver: *mut async_receiver_t,
    data: *const zx_packet_user_t,
) -> zx_status_t {
    // SAFETY: null, or valid, by the contract of this function.
    let handler = unsafe { receiver.as_ref() }.and_then(|receiver| receiver.handler);
    let Some(handler) = handler else { return ZX_ERR_INVALID_ARGS };
    // SAFETY: as above.
    let packet = unsafe { data.as_ref() }.copied().unwrap_or(zx_packet_user_t { u64: [0; 4] });
    let (dispatcher, receiver) = (Foreign::new(face.as_async()), Foreign::new(receiver));
    let posted = face.handle().post_task(move |outcome: Result<(), Canceled>| {
        let (status, data) = match outcome {
            Ok(()) => (ZX_OK, &raw const packet),
            Err(Canceled) => (ZX_ERR_CANCELED, std::ptr::null()),
        };
        // SAFETY: called as the header says; the packet lives until the handler has returned.
        unsafe { handler(dispatcher.get(), receiver.get(), status, data) };
    });
    code(posted)
}
