//! What a module does with its own copies of the standard library and of `tracing` once it has a host.
//!
//! A module is a `cdylib` and has its own copy of every crate. Two of them have something that is one for the whole
//! image, and that would lead nowhere without a host: the subscriber of `tracing`, and the hook that is told of panics.
//! Both are pointed at the host's log when the host introduces itself. A driver that is linked in shares the copies of
//! the host, so nothing is done for it.

mod panics;
mod tracing;

/// Points this image's events and panics at the host's log.
pub(crate) fn introduce() {
    tracing::forward();
    panics::forward();
}
