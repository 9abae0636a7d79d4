//! Tokens: `lib/fdf/token.h`. Either end of a channel of packets can be used as one: two drivers that have an end each are given
//! an fdf channel, whoever comes first.

use std::collections::BTreeSet;

use fuchsine_dispatcher::{Canceled, Channel, Status};
use parking_lot::Mutex;

use super::faces::Face;
use super::handles::{self, Entry};
use super::{Foreign, channel};
use crate::status::{ZX_ERR_BAD_HANDLE, ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_FOUND, ZX_OK};
use crate::types::{FDF_HANDLE_INVALID, fdf_dispatcher_t, fdf_handle_t, fdf_token_t, zx_handle_t, zx_status_t};

/// The token behind a handle, which ends.
fn take(handle: zx_handle_t) -> Result<fuchsine_dispatcher::Token, zx_status_t> {
    match handles::get(handle).and_then(|_| handles::remove(handle))? {
        Entry::Object(object) => object.take_token().ok_or(ZX_ERR_BAD_HANDLE),
        Entry::Channel(_) => Err(ZX_ERR_BAD_HANDLE),
    }
}

/// The addresses of the handlers that are registered and have not been told yet.
static IN_USE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// A handler that is registered. Dropped before the handler runs, which may register it anew.
struct InUse(usize);

impl InUse {
    /// `None` while it is registered already.
    fn begin(handler: *mut fdf_token_t) -> Option<InUse> {
        let address = handler.addr();
        let is_new = IN_USE.lock().insert(address);
        is_new.then(|| InUse(address))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        IN_USE.lock().remove(&self.0);
    }
}

/// # Safety
/// `dispatcher` is null or one that C was given; `handler` is null, or is kept until its handler has run.
pub(crate) unsafe fn fdf_token_register(
    token: zx_handle_t,
    dispatcher: *mut fdf_dispatcher_t,
    handler: *mut fdf_token_t,
) -> zx_status_t {
    // Whatever the result.
    let token = take(token);
    // SAFETY: null, or valid.
    let function = unsafe { handler.as_ref() }.and_then(|handler| handler.handler);
    let Some(function) = function.filter(|_| !dispatcher.is_null()) else { return ZX_ERR_INVALID_ARGS };
    let token = match token {
        Ok(token) => token,
        Err(status) => return status,
    };
    let Some(in_use) = InUse::begin(handler) else { return ZX_ERR_BAD_STATE };
    // SAFETY: as this function.
    let face = unsafe { Face::of("fdf_token_register", dispatcher) };
    let handler = Foreign::new(handler);
    let tell = move |outcome: Result<Channel, Status>| {
        let (status, handle) = match outcome.map_err(Status::as_raw).and_then(channel::receive) {
            Ok(handle) => (ZX_OK, handle),
            Err(status) => (status, FDF_HANDLE_INVALID),
        };
        drop(in_use);
        // SAFETY: called as the header says; nothing of C's is used afterwards.
        unsafe { function(face.as_fdf(), handler.get(), status, handle) };
    };
    let Err(refused) = token.register(&face.handle(), tell) else { return ZX_OK };
    if refused.status() != Status::PeerClosed {
        return ZX_ERR_BAD_STATE;
    }
    // Nobody will transfer anything, which is told in its turn.
    let (_, tell) = refused.into_inner();
    let posted = face.handle().post_task(move |_: Result<(), Canceled>| tell(Err(Status::Canceled)));
    if posted.is_ok() { ZX_OK } else { ZX_ERR_BAD_STATE }
}

/// # Safety
/// `handle` is null or can be written.
pub(crate) unsafe fn fdf_token_receive(token: zx_handle_t, handle: *mut fdf_handle_t) -> zx_status_t {
    // Whatever the result.
    let token = take(token);
    if handle.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    let channel = match token.map(fuchsine_dispatcher::Token::receive) {
        Ok(Ok(channel)) => channel,
        Ok(Err(_)) => return ZX_ERR_NOT_FOUND,
        Err(status) => return status,
    };
    match channel::receive(channel) {
        Ok(received) => {
            // SAFETY: not null.
            unsafe { *handle = received };
            ZX_OK
        }
        Err(status) => status,
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_token_transfer(token: zx_handle_t, handle: fdf_handle_t) -> zx_status_t {
    // Both go, whatever the result.
    let (token, channel) = (take(token), channel::give_away(handle));
    let (token, channel) = match (token, channel) {
        (Ok(token), Ok(channel)) => (token, channel),
        (Err(status), _) | (_, Err(status)) => return status,
    };
    match token.transfer(channel) {
        Ok(()) => ZX_OK,
        // The channel is closed, and its peer sees that.
        Err(refused) if refused.status() == Status::PeerClosed => ZX_OK,
        Err(_) => ZX_ERR_BAD_STATE,
    }
}
