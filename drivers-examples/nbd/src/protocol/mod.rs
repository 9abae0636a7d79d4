//! The NBD protocol as pure code: numbers, codecs and state machines, no input or output of their own.
//!
//! Everything that a client sends passes through here, so this module is the line of defence: it takes bytes in pieces
//! of any size, never panics on them, and never holds more than a fixed amount of what it was sent. What it does not
//! accept is either an NBD error, which goes back to the client, or a [`Violation`], after which the connection cannot
//! go on; its text is the reason in the log.
//!
//! Served is the fixed newstyle handshake and simple replies, as the public protocol document has them; not served are
//! TLS, structured replies and metadata contexts, which the handshake answers as unsupported.

pub(crate) mod constants;
pub(crate) mod export;
pub(crate) mod handshake;
pub(crate) mod option;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod violation;

pub(crate) use export::Export;
pub(crate) use violation::Violation;
