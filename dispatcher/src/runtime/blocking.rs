//! Stretches of code that may block.

use std::fmt;

use super::blocked::{MayNotBlock, let_others_go_first, may_block};
use crate::status::{Status, gives_back};

/// Runs `f`, which may block, where blocking is allowed: on a dispatcher that allows sync calls, and on threads that
/// belong to no pool.
///
/// # Errors
/// [`BlockingError`] with `f`, not called, on a dispatcher that does not allow sync calls, also inside of
/// [`Driver::enter`](crate::Driver::enter) there, and in the shutdown observer of a driver. There
/// [`offload`](crate::DispatcherHandle::offload) is the way. Also outside of any callback on a thread that turns the crank
/// of a foreground runtime (feature `testing`): nothing could happen meanwhile.
///
/// # Examples
/// ```
/// let line = fuchsine_dispatcher::blocking(|| "read from a terminal")?;
/// assert_eq!(line, "read from a terminal");
/// # Ok::<(), fuchsine_dispatcher::Status>(())
/// ```
pub fn blocking<R, F: FnOnce() -> R>(f: F) -> Result<R, BlockingError<F>> {
    match may_block() {
        Ok(()) => {
            let_others_go_first();
            Ok(f())
        }
        Err(why) => Err(BlockingError { given: f, why }),
    }
}

/// Blocking is not allowed here. It carries what was to be run.
pub struct BlockingError<F> {
    given: F,
    why: MayNotBlock,
}

impl<F> BlockingError<F> {
    /// [`Status::BadState`].
    pub fn status(&self) -> Status {
        Status::BadState
    }
}

gives_back!(BlockingError);

impl<F> fmt::Display for BlockingError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why.as_str())
    }
}
