//! Panics of runs that are explored: they are reported once, in the report of the run that failed, and not as they happen.

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

use crate::sync::probe;

/// From here on a thread that has a probe tells it of its panics; all others do what they did before.
pub(super) fn tell_probes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| match probe::current() {
            Some(probe) => probe.panicked(text_of(info), info.location()),
            None => before(info),
        }));
    });
}

fn text_of<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    info.payload_as_str().unwrap_or("a panic whose payload is no text")
}
