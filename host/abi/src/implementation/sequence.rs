//! Sequence ids: `lib/async/sequence_id.h`.

use std::ffi::{CStr, c_char};

use fuchsine_dispatcher::{SequenceError, Status};

use super::faces::Face;
use crate::status::{ZX_ERR_INVALID_ARGS, ZX_ERR_OUT_OF_RANGE, ZX_OK};
use crate::types::{async_sequence_id_t, zx_status_t};

const FOREIGN: &CStr = c"the sequence id belongs to another dispatcher";

fn explain(error: &SequenceError) -> &'static CStr {
    match error.status() {
        Status::WrongType => c"an unsynchronized dispatcher has no sequence: its callbacks may overlap",
        _ => c"this thread does not run a callback of this dispatcher",
    }
}

/// # Safety
/// `out_error` is null or can be written.
unsafe fn fail(status: zx_status_t, text: &'static CStr, out_error: *mut *const c_char) -> zx_status_t {
    if !out_error.is_null() {
        // SAFETY: not null.
        unsafe { *out_error = text.as_ptr() };
    }
    status
}

/// # Safety
/// The out pointers are null or can be written.
pub(crate) unsafe fn get(
    face: &'static Face,
    out: *mut async_sequence_id_t,
    out_error: *mut *const c_char,
) -> zx_status_t {
    if out.is_null() {
        // SAFETY: as this function.
        return unsafe { fail(ZX_ERR_INVALID_ARGS, c"there is no place for the id", out_error) };
    }
    match face.handle().sequence_id() {
        Ok(_) => {
            // SAFETY: not null.
            unsafe { *out = async_sequence_id_t { value: face.handle().id().as_raw() } };
            ZX_OK
        }
        // SAFETY: as this function.
        Err(error) => unsafe { fail(error.status().as_raw(), explain(&error), out_error) },
    }
}

/// # Safety
/// `out_error` is null or can be written.
pub(crate) unsafe fn check(face: &'static Face, id: async_sequence_id_t, out_error: *mut *const c_char) -> zx_status_t {
    match face.handle().sequence_id() {
        Ok(_) if face.handle().id().as_raw() == id.value => ZX_OK,
        // SAFETY: as this function.
        Ok(_) => unsafe { fail(ZX_ERR_OUT_OF_RANGE, FOREIGN, out_error) },
        // SAFETY: as this function.
        Err(error) => unsafe { fail(error.status().as_raw(), explain(&error), out_error) },
    }
}
