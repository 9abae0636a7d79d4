//! Sinks: how strings of the host reach a driver.
//!
//! # Invariant
//! - The sink's data is a local of the function that makes it, and the host calls the sink only during the call that
//!   it was passed to.

use std::ffi::c_void;
use std::ptr;

use super::types::{PropertySink, Str, TextSink};

impl TextSink {
    /// Declines the text.
    pub const IGNORE: TextSink = TextSink { data: ptr::null_mut(), put: None };
}

/// Runs `ask` with a sink and returns what was delivered; empty if nothing was.
pub(super) fn collect_text(ask: impl FnOnce(TextSink)) -> String {
    collect_text_and(ask).0
}

/// As [`collect_text`], with the result of `ask`.
pub(super) fn collect_text_and<R>(ask: impl FnOnce(TextSink) -> R) -> (String, R) {
    unsafe extern "C" fn put(data: *mut c_void, text: Str) {
        // SAFETY: `data` is the local below; the text is valid for the call.
        unsafe { *data.cast::<String>() = text.to_text() };
    }
    let mut text = String::new();
    let result = ask(TextSink { data: (&raw mut text).cast(), put: Some(put) });
    (text, result)
}

/// Runs `ask` with a sink and returns the pairs that were delivered, in their order.
pub(super) fn collect_properties(ask: impl FnOnce(PropertySink)) -> Vec<(String, String)> {
    unsafe extern "C" fn put(data: *mut c_void, key: Str, value: Str) {
        // SAFETY: `data` is the local below; the texts are valid for the call.
        let (list, key, value) =
            unsafe { (&mut *data.cast::<Vec<(String, String)>>(), key.to_text(), value.to_text()) };
        list.push((key, value));
    }
    let mut list: Vec<(String, String)> = Vec::new();
    ask(PropertySink { data: (&raw mut list).cast(), put });
    list
}
