//! Threads that are refused on purpose, as the system refuses them when it has none left: what a test needs to see that
//! nothing stays behind then. It costs a look at a thread-local for each thread that is started, in builds for tests only.

use std::cell::Cell;
use std::io;

use crate::sync::thread_local;

thread_local! {
    /// How many threads the calling thread may start before it is refused one; `None` for as many as the system has.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// While `f` runs, the calling thread is refused every thread after the first `starts`.
pub(crate) fn refuse_after<R>(starts: usize, f: impl FnOnce() -> R) -> R {
    with(Some(starts), f)
}

fn with<R>(starts: Option<usize>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<usize>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.with(|left| left.set(self.0));
        }
    }
    let _restore = Restore(LEFT.with(|left| left.replace(starts)));
    f()
}

/// Threads that are started while `f` runs are neither refused nor counted.
pub(crate) fn not_counted<R>(f: impl FnOnce() -> R) -> R {
    with(None, f)
}

/// Counts one more thread that the calling thread starts.
///
/// # Errors
/// What the system says when it has none left.
pub(crate) fn admit() -> io::Result<()> {
    LEFT.with(|left| match left.get() {
        None => Ok(()),
        Some(0) => Err(io::ErrorKind::WouldBlock.into()),
        Some(some) => {
            left.set(Some(some - 1));
            Ok(())
        }
    })
}
