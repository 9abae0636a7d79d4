//! The functions behind the table, over `fuchsine-dispatcher`. One file a header, and what they share:
//!
//! - `env`: the one environment of the process: the runtime, and which drivers C knows by which pointer;
//! - `handles`: the table of handles, and objects as a wait sees them.
//!
//! # Invariants
//! - Everything that C is given a pointer to (dispatchers, arenas) stays where it is until C gives it back.
//! - A handler of C is called with no lock of this package held.

pub(crate) mod env;
pub(crate) mod handles;

/// Ends the process because of a mistake that C has no other way to learn of.
pub(crate) fn die(function: &str, what: &str) -> ! {
    eprintln!("fuchsine: {function}: {what}");
    std::process::abort()
}
