//! `LentStack<T, N>`: what the calls that a thread is inside of have lent to it, innermost last.
//!
//! A call *lends* a reference for as long as it lasts, with a note of a few words beside it. Whatever runs inside of it
//! can look at all that is lent, and nothing is counted, copied or allocated for that.
//!
//! Something can also be *given*, by [`LentStack::give`], until it is taken away by [`LentStack::take`]: for code that has
//! a begin and an end but no scope. It is taken away only while it is innermost. What a call is given and does not take away
//! is forgotten, and never freed, when the call returns.
//!
//! Invariant kept by the unsafe code here: `top` is null or points to the [`Level`] of the innermost call of
//! [`LentStack::lend`] that has not returned, which lies on the stack of that call, or to one that was given and not taken
//! away, and so on along `below`. Each `lend` puts back what it found, also when it unwinds, and the stack cannot be reached
//! from another thread. So while code runs that can reach a level, the call that lent it has not returned, and what it
//! borrowed is still borrowed. A level that was given is freed by `take` alone, when nothing lies above it; `given` lists
//! those that are not freed.
#![expect(unsafe_code, reason = "references are lent for the time of a call, which their lifetimes cannot tell")]

use std::cell::Cell;
use std::fmt;
use std::ptr;

/// One call that lends something.
struct Level<T: ?Sized, N> {
    lent: *const T,
    note: N,
    below: *const Level<T, N>,
    depth: u32,
}

/// Something that was given, with its level.
struct Given<T: ?Sized, N> {
    level: Level<T, N>,
    value: Box<T>,
    /// The one that was given before and is not freed.
    before: *mut Given<T, N>,
}

/// What the calls that a thread is inside of have lent.
pub(crate) struct LentStack<T: ?Sized, N> {
    top: Cell<*const Level<T, N>>,
    /// The latest of those that were given and are not freed. A list by hand, as nothing here may need to be dropped: that
    /// would cost every access to the thread's stack.
    given: Cell<*mut Given<T, N>>,
}

impl<T: ?Sized, N: Copy> LentStack<T, N> {
    pub(crate) const fn new() -> Self {
        LentStack { top: Cell::new(ptr::null()), given: Cell::new(ptr::null_mut()) }
    }

    /// Gives `value`, until it is taken away.
    pub(crate) fn give(&self, value: Box<T>, note: N) {
        let level = Level { lent: &raw const *value, note, below: self.top.get(), depth: self.depth() + 1 };
        let given = Box::into_raw(Box::new(Given { level, value, before: self.given.get() }));
        self.given.set(given);
        // SAFETY: made a moment ago, and freed by `take` only.
        self.top.set(unsafe { &raw const (*given).level });
    }

    /// Takes away what was given last, if it is innermost.
    pub(crate) fn take(&self) -> Option<Box<T>> {
        let given = self.given.get();
        if given.is_null() {
            return None;
        }
        // SAFETY: the list holds what is not freed.
        if self.top.get() != unsafe { &raw const (*given).level } {
            return None;
        }
        // SAFETY: it was made by `give` from a box, leaves the list here, and nothing lies above it, so no level refers to it.
        let given = unsafe { Box::from_raw(given) };
        self.given.set(given.before);
        self.top.set(given.level.below);
        Some(given.value)
    }

    /// Lends `value` while `f` runs.
    #[inline]
    pub(crate) fn lend<R>(&self, value: &T, note: N, f: impl FnOnce() -> R) -> R {
        let below = self.top.get();
        let level = Level { lent: value, note, below, depth: self.depth() + 1 };
        let _restore = Restore { top: &self.top, to: below };
        self.top.set(&raw const level);
        f()
    }

    /// Hides all that is lent while `f` runs.
    pub(crate) fn hide<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = Restore { top: &self.top, to: self.top.replace(ptr::null()) };
        f()
    }

    /// How many have lent something.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.level(self.top.get()).map_or(0, |top| top.depth)
    }

    /// The note beside what was lent last.
    #[inline]
    pub(crate) fn note(&self) -> Option<N> {
        self.level(self.top.get()).map(|top| top.note)
    }

    /// All notes, the one beside what was lent last first.
    #[inline]
    pub(crate) fn notes(&self) -> impl Iterator<Item = N> + '_ {
        std::iter::successors(self.level(self.top.get()), |level| self.level(level.below)).map(|level| level.note)
    }

    /// Looks at what was lent last.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: the call that lent it has not returned, and does not while `look` runs.
        self.level(self.top.get()).map(|top| look(unsafe { &*top.lent }))
    }

    /// Looks at what was lent, last first, until `look` answers.
    pub(crate) fn find<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let mut next = self.level(self.top.get());
        while let Some(level) = next {
            // SAFETY: the call that lent it has not returned, and does not while `look` runs.
            let found = look(unsafe { &*level.lent });
            if found.is_some() {
                return found;
            }
            next = self.level(level.below);
        }
        None
    }

    /// The level at a place of the chain. Private: no reference to one leaves this file.
    #[inline]
    fn level(&self, at: *const Level<T, N>) -> Option<&Level<T, N>> {
        // SAFETY: by the invariant it is null or the level of a call that has not returned.
        unsafe { at.as_ref() }
    }
}

/// Puts back what was there before.
struct Restore<'a, T: ?Sized, N> {
    top: &'a Cell<*const Level<T, N>>,
    to: *const Level<T, N>,
}

impl<T: ?Sized, N> Drop for Restore<'_, T, N> {
    #[inline]
    fn drop(&mut self) {
        self.top.set(self.to);
    }
}

impl<T: ?Sized, N: Copy> fmt::Debug for LentStack<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentStack").field("depth", &self.depth()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Names = LentStack<str, u32>;

    fn all(names: &Names) -> (Vec<String>, Vec<u32>) {
        let mut seen = Vec::new();
        assert!(
            names
                .find(|name| -> Option<()> {
                    seen.push(name.to_owned());
                    None
                })
                .is_none()
        );
        (seen, names.notes().collect())
    }

    #[test]
    fn what_is_lent_is_seen_inside_of_the_call_and_gone_after_it() {
        let names = Names::new();
        assert_eq!(names.note(), None);
        names.lend(&String::from("outer"), 1, || {
            names.lend(&String::from("inner"), 2, || {
                assert_eq!(all(&names), (vec!["inner".to_owned(), "outer".to_owned()], vec![2, 1]));
                assert_eq!((names.depth(), names.note(), names.look(str::len)), (2, Some(2), Some(5)));
                names.hide(|| {
                    assert_eq!((names.depth(), names.look(str::len)), (0, None));
                    names.lend("hidden", 3, || assert_eq!(all(&names), (vec!["hidden".to_owned()], vec![3])));
                });
                assert_eq!(names.find(|name| name.strip_prefix("out").map(str::to_owned)).as_deref(), Some("er"));
            });
            assert_eq!(all(&names), (vec!["outer".to_owned()], vec![1]));
        });
        assert_eq!((names.depth(), names.look(str::len)), (0, None));
    }

    #[test]
    fn what_is_given_stays_until_it_is_taken_away_and_only_from_the_top() {
        let names = Names::new();
        assert!(names.take().is_none());
        names.give("given".into(), 1);
        names.lend("lent", 2, || {
            assert!(names.take().is_none(), "something lies above it");
            names.give("inside".into(), 3);
            assert_eq!(all(&names), (vec!["inside".to_owned(), "lent".to_owned(), "given".to_owned()], vec![3, 2, 1]));
            names.hide(|| assert!(names.take().is_none(), "it is hidden"));
            assert_eq!(names.take().as_deref(), Some("inside"));
            assert_eq!((names.depth(), names.note()), (2, Some(2)));
        });
        assert_eq!(names.take().as_deref(), Some("given"));
        assert_eq!((names.depth(), names.note()), (0, None));
    }

    #[test]
    fn what_a_call_is_given_and_leaves_behind_is_forgotten() {
        let names = Names::new();
        names.lend("lent", 1, || names.give("left behind".into(), 2));
        assert_eq!(names.depth(), 0);
        assert!(names.take().is_none());
        names.give("another".into(), 3);
        assert_eq!(names.take().as_deref(), Some("another"));
        assert!(names.take().is_none());
    }

    #[test]
    fn a_call_that_unwinds_takes_back_what_it_has_lent() {
        let names = Names::new();
        names.lend("outer", 1, || {
            let call = || names.lend(&String::from("inner"), 2, || names.hide(|| panic!("on purpose")));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
            assert_eq!(all(&names), (vec!["outer".to_owned()], vec![1]));
        });
        assert_eq!(names.depth(), 0);
    }
}
