//! The functions behind the table, over `fuchsine-dispatcher`. One file a header, and what they share:
//!
//! - `env`, `drivers`, `roles`, `power`: `lib/fdf/env.h`; the one environment of the process, and which drivers C knows by
//!   which pointer;
//! - `dispatcher`, `faces`: `lib/fdf/dispatcher.h`; what a `fdf_dispatcher_t` and an `async_dispatcher_t` are;
//! - `arena`, `channel` (with `end` and `outgoing`), `token`: the headers of these names;
//! - `ops`, `task`, `wait`, `irq`, `receiver`, `sequence`: what a dispatcher does for `lib/async/*.h`;
//! - `testing`: `lib/fdf/testing.h`, over a foreground runtime;
//! - `keys`: what stands in an `async_state_t`;
//! - `handles`, `objects`: the table of handles, and what they lead to;
//! - `zx`: `zircon/syscalls.h`.
//!
//! # Invariants
//! - Everything that C is given a pointer to (dispatchers, arenas) stays where it is until C gives it back.
//! - A handler of C is called with no lock of this package held, and after the last access to the structure that it came
//!   with: it may free it, or hand it in again.

pub(crate) mod arena;
pub(crate) mod channel;
pub(crate) mod dispatcher;
pub(crate) mod drivers;
mod end;
pub(crate) mod env;
pub(crate) mod faces;
#[cfg(test)]
mod fake;
pub(crate) mod handles;
mod irq;
pub(crate) mod keys;
mod objects;
pub(crate) mod ops;
mod outgoing;
pub(crate) mod power;
mod receiver;
pub(crate) mod roles;
mod sequence;
mod task;
#[cfg(feature = "testing")]
pub(crate) mod testing;
#[cfg(not(feature = "testing"))]
#[path = "testing_off.rs"]
pub(crate) mod testing;
pub(crate) mod text;
pub(crate) mod token;
mod wait;
pub(crate) mod zx;

use std::time::Duration;

pub(crate) use faces::Face;

/// How long this side waits for what has to come to an end, before it says so and ends the process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Ends the process because of a mistake that C has no other way to learn of.
pub(crate) fn die(function: &str, what: &str) -> ! {
    eprintln!("fuchsine: {function}: {what}");
    std::process::abort()
}

/// A pointer of C's that goes with a callback to another thread.
#[derive(Debug)]
pub(crate) struct Foreign<T>(*mut T);

impl<T> Foreign<T> {
    pub(crate) fn new(pointer: *mut T) -> Self {
        Foreign(pointer)
    }

    /// The pointer. A method, so that a closure takes the whole value along.
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

impl<T> Clone for Foreign<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Foreign<T> {}

// SAFETY: a pointer is a number; who may use what it points to, and when, is said at each function that takes one.
unsafe impl<T> Send for Foreign<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Foreign<T> {}
