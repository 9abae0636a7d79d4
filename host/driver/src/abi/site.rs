//! Where in a driver's sources something comes from, for the dumps and reports of its host.
//!
//! A C driver writes its call sites down as statics. Rust has no static for each call of a function, so the sites of this
//! image are made when they are first come by and kept: they are found again by the address of the caller's location and
//! that of the type's name, in chains that only grow.
//!
//! # Invariants
//! - A [`Known`] is leaked before anybody sees it, and nothing of it changes afterwards but the host's word. So a pointer
//!   in a chain is null or a `&'static Known`.

use std::any::type_name;
use std::ffi::c_void;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::types::Str;

/// A place in the sources of a driver: where a callback is posted, a channel made, a read registered.
///
/// Everything here lives and stays as it is for as long as the process: an image that has been loaded is never unmapped.
#[repr(C)]
#[derive(Debug)]
pub struct CallSite {
    /// The file, as the compiler names it.
    pub file: Str,
    /// What is called there: the type of a closure or a future, the name of a function.
    pub type_name: Str,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// The column; 0 if it is not known.
    pub column: u32,
    /// For the host alone, which keeps what it has made of this site here: null at first.
    pub host: AtomicPtr<c_void>,
}

// SAFETY: the texts live for ever and never change, which is part of the contract of a call site.
unsafe impl Send for CallSite {}
// SAFETY: as above; the host's word is atomic.
unsafe impl Sync for CallSite {}

impl CallSite {
    /// A call site for a static.
    pub const fn new(file: &'static str, line: u32, column: u32, type_name: &'static str) -> CallSite {
        CallSite {
            file: Str::new(file),
            type_name: Str::new(type_name),
            line,
            column,
            host: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// A site of this image, with what it is found by.
struct Known {
    site: CallSite,
    location: &'static Location<'static>,
    type_name: &'static str,
    next: *const Known,
}

const CHAINS: usize = 256;

static KNOWN: [AtomicPtr<Known>; CHAINS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHAINS];

/// The site of whoever calls the function that calls this, for something of type `T`.
#[inline]
#[track_caller]
pub(crate) fn here<T: ?Sized>() -> &'static CallSite {
    at(Location::caller(), type_name::<T>())
}

/// The site of a location and a type.
#[inline]
pub(crate) fn at(location: &'static Location<'static>, type_name: &'static str) -> &'static CallSite {
    let address = ptr::from_ref(location).addr() >> 3 ^ type_name.as_ptr().addr();
    let chain = &KNOWN[(address ^ address >> 8) % CHAINS];
    // ORDERING: Acquire, pairs with the Release in `add`; what it points to was written before.
    let first = chain.load(Ordering::Acquire);
    match find(first, location, type_name) {
        Some(site) => site,
        None => add(chain, first, location, type_name),
    }
}

#[inline]
fn find(
    mut next: *const Known,
    location: &'static Location<'static>,
    type_name: &'static str,
) -> Option<&'static CallSite> {
    loop {
        // SAFETY: a pointer of a chain is null or leads to a site that lives for ever (see the invariants).
        let known: &'static Known = unsafe { next.as_ref() }?;
        if ptr::eq(known.location, location) && ptr::eq(known.type_name, type_name) {
            return Some(&known.site);
        }
        next = known.next;
    }
}

#[cold]
fn add(
    chain: &AtomicPtr<Known>,
    first: *mut Known,
    location: &'static Location<'static>,
    type_name: &'static str,
) -> &'static CallSite {
    let site = CallSite::new(location.file(), location.line(), location.column(), type_name);
    let known: &'static mut Known = Box::leak(Box::new(Known { site, location, type_name, next: ptr::null() }));
    let mut first = first;
    loop {
        known.next = first;
        // ORDERING: Release, pairs with the Acquire in `at`; publishes the site. Acquire on failure, for the same reason.
        match chain.compare_exchange(first, known, Ordering::Release, Ordering::Acquire) {
            // SAFETY: nobody changes it from here on, so the exclusive reference may be a shared one.
            Ok(_) => return &known.site,
            // Somebody has added one meanwhile. If it was the same, there are two of it, which does no harm.
            Err(now) => first = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[track_caller]
    fn site_of<T>() -> &'static CallSite {
        here::<T>()
    }

    fn text(text: Str) -> &'static str {
        // SAFETY: the texts of a site live for ever.
        unsafe { text.as_text() }
    }

    #[test]
    fn a_call_has_one_site_for_each_type_and_another_call_has_another() {
        let both: Vec<_> = (0..2).map(|_| (site_of::<u8>(), site_of::<String>())).collect();
        assert!(ptr::eq(both[0].0, both[1].0) && ptr::eq(both[0].1, both[1].1));
        let other = site_of::<u8>();
        assert!(!ptr::eq(both[0].0, other) && !ptr::eq(both[0].0, both[0].1));
        assert_eq!((text(other.file), other.line, text(other.type_name)), (file!(), line!() - 2, "u8"));
        assert!(other.column > 0 && text(both[0].1.type_name).ends_with("String"));
    }

    #[test]
    fn threads_that_come_by_a_site_at_once_agree_on_it_afterwards() {
        fn site<const N: usize>() -> &'static CallSite {
            site_of::<[u8; N]>()
        }
        let barrier = Arc::new(std::sync::Barrier::new(4));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let barrier = Arc::clone(&barrier);
                std::thread::spawn(move || {
                    barrier.wait();
                    [site::<1>(), site::<2>(), site::<3>(), site::<4>()].map(|site| text(site.type_name))
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().expect("it does not panic"), ["[u8; 1]", "[u8; 2]", "[u8; 3]", "[u8; 4]"]);
        }
        assert!(ptr::eq(site::<1>(), site::<1>()));
    }
}
