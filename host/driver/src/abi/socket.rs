//! Sockets and waits over the table.
//!
//! # Invariants
//! - As in `objects`: one value, one owned pointer. Buffers are borrowed for the call only.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::attach::table;
use super::closure::{FromReady, give_ready};
use super::objects::{CastMut, DispatcherObject, WaitObject, object};
use super::site::CallSite;
use super::text::{collect_text, collect_text_and};
use super::types::{RawSocket, RawWait, Slice, Str, TextSink};
use crate::Status;

object! {
    /// A listener or a stream.
    SocketObject: RawSocket as *mut RawSocket, socket_close
}

/// How many slices one write passes on; more are left for the next write.
const SLICES: usize = 16;

impl SocketObject {
    /// A listener and its real address.
    pub(crate) fn listen(
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        address: &str,
    ) -> Result<(Self, String), (Status, String)> {
        let mut socket = ptr::null_mut();
        let ((local, status), error) = {
            let (error, inner) = collect_text_and(|error| {
                collect_text_and(|local| {
                    // SAFETY: all pointers are valid for the call.
                    unsafe {
                        (table().socket_listen)(
                            dispatcher.raw(),
                            Str::new(address),
                            site,
                            &raw mut socket,
                            local,
                            error,
                        )
                    }
                })
            });
            (inner, error)
        };
        Status::result_of(status).map_err(|status| (status, error))?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok((unsafe { Self::from_owned(socket) }, local))
    }

    /// A stream whose connection attempt has begun.
    pub(crate) fn connect(
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        address: &str,
    ) -> Result<Self, (Status, String)> {
        let mut socket = ptr::null_mut();
        // SAFETY: all pointers are valid for the call.
        let (error, status) = collect_text_and(|error| unsafe {
            (table().socket_connect)(dispatcher.raw(), Str::new(address), site, &raw mut socket, error)
        });
        Status::result_of(status).map_err(|status| (status, error))?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok(unsafe { Self::from_owned(socket) })
    }

    /// A connection that waits, with the address of its other side.
    pub(crate) fn accept(&self) -> Result<(Self, String), Status> {
        let mut socket = ptr::null_mut();
        // SAFETY: all pointers are valid for the call.
        let (peer, status) =
            collect_text_and(|peer| unsafe { (table().socket_accept)(self.raw(), &raw mut socket, peer) });
        Status::result_of(status)?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok((unsafe { Self::from_owned(socket) }, peer))
    }

    pub(crate) fn take_error(&self) -> Result<(), Status> {
        // SAFETY: the socket is alive.
        Status::result_of(unsafe { (table().socket_take_error)(self.raw()) })
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> Result<usize, Status> {
        let mut count = 0;
        // SAFETY: the buffer and the out pointer are valid for the call.
        let status = unsafe { (table().socket_read)(self.raw(), into.as_mut_ptr(), into.len(), &raw mut count) };
        Status::result_of(status)?;
        Ok(count.min(into.len()))
    }

    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Status> {
        let mut parts = [Slice { ptr: ptr::null(), len: 0 }; SLICES];
        let count = slices.len().min(SLICES);
        for (part, slice) in parts.iter_mut().zip(slices) {
            *part = Slice { ptr: slice.as_ptr(), len: slice.len() };
        }
        let mut written = 0;
        // SAFETY: the first `count` parts describe borrowed buffers; all pointers are valid for the call.
        let status = unsafe { (table().socket_write)(self.raw(), parts.as_ptr(), count, &raw mut written) };
        Status::result_of(status)?;
        Ok(written)
    }

    pub(crate) fn shutdown(&self, how: u32) -> Result<(), Status> {
        // SAFETY: the socket is alive.
        Status::result_of(unsafe { (table().socket_shutdown)(self.raw(), how) })
    }

    pub(crate) fn local_address(&self) -> Result<String, Status> {
        self.address(table().socket_local_address)
    }

    pub(crate) fn peer_address(&self) -> Result<String, Status> {
        self.address(table().socket_peer_address)
    }

    fn address(&self, ask: unsafe extern "C" fn(*mut RawSocket, TextSink) -> i32) -> Result<String, Status> {
        let mut status = 0;
        // SAFETY: the socket is alive, the sink valid for the call, and `ask` a function of the table.
        let text = collect_text(|sink| status = unsafe { ask(self.raw(), sink) });
        Status::result_of(status).map(|()| text)
    }

    /// Calls `f` on `dispatcher` once the socket is ready.
    pub(crate) fn begin_wait<A, F>(
        &self,
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        interest: u32,
        f: F,
    ) -> Result<WaitObject, (F, Status)>
    where
        A: FromReady,
        F: FnOnce(A) + Send + 'static,
    {
        let mut wait: *mut RawWait = ptr::null_mut();
        // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
        give_ready(site, f, |callback| unsafe {
            (table().socket_begin_wait)(self.raw(), dispatcher.raw(), interest, callback, &raw mut wait)
        })?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok(unsafe { WaitObject::from_owned(wait) })
    }
}

/// Calls `f` on `dispatcher` once the descriptor is ready.
pub(crate) fn begin_wait_fd<A, F>(
    site: &'static CallSite,
    fd: BorrowedFd<'_>,
    dispatcher: &DispatcherObject,
    interest: u32,
    f: F,
) -> Result<WaitObject, (F, Status)>
where
    A: FromReady,
    F: FnOnce(A) + Send + 'static,
{
    let mut wait: *mut RawWait = ptr::null_mut();
    // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
    give_ready(site, f, |callback| unsafe {
        (table().fd_begin_wait)(fd.as_raw_fd(), dispatcher.raw(), interest, callback, &raw mut wait)
    })?;
    // SAFETY: on success the host has stored an owned pointer.
    Ok(unsafe { WaitObject::from_owned(wait) })
}
