
/// Hooks that do something, as a control: `.ci/no-cost` puts them at the place of the empty ones.
mod counting {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::{Choice, Note, Point, Scarce};

    static COUNT: AtomicUsize = AtomicUsize::new(0);

    #[inline(always)]
    pub(crate) fn choose(_: Choice, _: usize) -> usize {
        COUNT.fetch_add(1, Relaxed);
        0
    }

    #[inline(always)]
    pub(crate) fn point(_: Point) {
        COUNT.fetch_add(1, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn note(_: impl FnOnce() -> Note) {
        COUNT.fetch_add(1, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn note_some(_: impl FnOnce() -> Option<Note>) {
        COUNT.fetch_add(1, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn refuses(_: Scarce) -> bool {
        COUNT.fetch_add(1, Relaxed);
        false
    }

    pub(crate) fn intern(_: &str) -> &'static str {
        ""
    }
}

pub(crate) use counting::*;
