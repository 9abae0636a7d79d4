//! Memory straight from the system, page by page, which goes back when it is given back.
//!
//! # Invariants
//! - What [`map`] gives out is memory that nobody else has, private to the process, until it is unmapped.
#![allow(unsafe_code, reason = "memory is mapped and unmapped; the invariant above is the system's promise")]

use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// `len` zeroes, more than none, at the beginning of a page.
///
/// # Errors
/// What the system says when it has no more.
pub(crate) fn map(len: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: the system picks a place where nothing is, so no memory of anybody changes.
    let memory =
        unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }?;
    NonNull::new(memory.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

/// Gives memory back to the system.
///
/// # Safety
/// It came from [`map`] with this length, or from several that lie side by side and have this length together, and nobody
/// uses it any more.
pub(crate) unsafe fn unmap(memory: NonNull<u8>, len: usize) {
    // SAFETY: the caller says that all of it is mappings of its own.
    let unmapped = unsafe { munmap(memory.as_ptr().cast(), len) };
    debug_assert!(unmapped.is_ok(), "a mapping that exists can be undone");
}
