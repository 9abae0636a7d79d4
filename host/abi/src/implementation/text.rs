//! Names as C hands them in: an address and a length, without a terminator.

use std::borrow::Cow;
use std::ffi::c_char;

use crate::status::ZX_ERR_INVALID_ARGS;
use crate::types::zx_status_t;

/// The bytes as text; what is no UTF-8 is replaced.
///
/// # Errors
/// `ZX_ERR_INVALID_ARGS` for a null pointer with a length.
///
/// # Safety
/// `start` is null, or `len` bytes can be read there for as long as the text is used.
pub(crate) unsafe fn text<'a>(start: *const c_char, len: usize) -> Result<Cow<'a, str>, zx_status_t> {
    if len == 0 {
        return Ok(Cow::Borrowed(""));
    }
    if start.is_null() {
        return Err(ZX_ERR_INVALID_ARGS);
    }
    // SAFETY: readable, by the contract of this function.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) };
    Ok(String::from_utf8_lossy(bytes))
}
