//! Call sites of drivers as sites of the runtime, so that dumps, traces and reports name the driver's own source.
//!
//! # Invariants
//! - The host's word of a call site is null or leads to a [`CallSite`] of the runtime that was leaked here; it is set
//!   once. The driver's site lives as long as the process, which its contract says, and so does that.

use std::ptr;
use std::sync::atomic::Ordering;

use fuchsine_dispatcher::{CallSite, Site};
use fuchsine_driver::abi;

/// For drivers that do not say where they call from.
static UNKNOWN: CallSite = CallSite::new("a driver that does not say where", 0, 0, "unknown");

/// The site that a driver has passed.
///
/// # Safety
/// `pointer` is null or leads to a call site that lives as long as the process.
#[inline]
pub(super) unsafe fn site(pointer: *const abi::CallSite) -> Site {
    // SAFETY: the caller vouches for the pointer.
    let Some(site) = (unsafe { pointer.as_ref::<'static>() }) else { return Site::of(&UNKNOWN) };
    // ORDERING: Acquire, pairs with the Release in `keep`; what it leads to was written before.
    let kept = site.host.load(Ordering::Acquire).cast::<CallSite>();
    // SAFETY: by the invariant it is null or was leaked by `keep`.
    match unsafe { kept.as_ref::<'static>() } {
        Some(kept) => Site::of(kept),
        None => keep(site),
    }
}

/// Makes what the runtime is told from now on when something comes from this site.
#[cold]
fn keep(site: &'static abi::CallSite) -> Site {
    // SAFETY: the texts of a call site live as long as the site.
    let text = |text: abi::Str| -> &'static str { Box::leak(unsafe { text.to_text() }.into_boxed_str()) };
    let made = CallSite::new(text(site.file), site.line, site.column, text(site.type_name));
    let kept: &'static CallSite = Box::leak(Box::new(made));
    // If another thread was first, there are two of it, of which one is used from now on.
    let word = ptr::from_ref(kept).cast_mut().cast();
    // ORDERING: Release, pairs with the Acquire in `site`; publishes what was made.
    let _ = site.host.compare_exchange(ptr::null_mut(), word, Ordering::Release, Ordering::Relaxed);
    Site::of(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_copied_once_and_a_missing_or_garbled_one_is_told_as_such() {
        static HERE: abi::CallSite = abi::CallSite::new("thermometer.c", 41, 0, "on_sample");
        // SAFETY: it is a static.
        let (first, again) = unsafe { (site(&HERE), site(&HERE)) };
        assert_eq!((first.to_string(), first.type_name()), ("thermometer.c:41".to_owned(), Some("on_sample")));
        assert!(ptr::eq(first.file(), again.file()), "the text was copied a second time");
        // SAFETY: null is allowed.
        let unknown = unsafe { site(ptr::null()) };
        assert_eq!(unknown.to_string(), "a driver that does not say where");
        let garbled = abi::Str { ptr: [0xff, b'a'].as_ptr(), len: 2 };
        let garbled = Box::leak(Box::new(abi::CallSite { file: garbled, ..abi::CallSite::new("", 1, 2, "") }));
        // SAFETY: it was leaked.
        assert_eq!(unsafe { site(garbled) }.to_string(), "\u{fffd}a:1:2");
    }
}
