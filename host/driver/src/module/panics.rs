//! Panics of a module, told in the host's log.
//!
//! The trampolines catch them and report them to the host, with what the panic said; the place is known only to the
//! hook, which is the image's own.

use crate::Level;
use crate::abi::log_to_host;

/// Has the panics of this image written to the host's log instead of standard error.
pub(super) fn forward() {
    std::panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("(no text)");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let thread = thread_name();
        let fields = [("thread", thread.as_str()), ("place", place.as_str())];
        log_to_host(Level::Error as u32, "", &format!("panic: {message}"), &fields);
        let backtrace = std::backtrace::Backtrace::capture();
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            log_to_host(Level::Error as u32, "", &format!("backtrace of the panic:\n{backtrace}"), &[]);
        }
    }));
}

/// The name of this thread. Threads of the host are nameless to this image's copy of the standard library, so the
/// system is asked.
fn thread_name() -> String {
    if let Some(name) = std::thread::current().name() {
        return name.to_owned();
    }
    let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    if name.is_empty() { String::from("?") } else { name.trim_end().to_owned() }
}
