//! Prefetches: asking the processor for memory before it is needed.
//!
//! A locked instruction waits for its own cache line, and what stands behind it is not begun meanwhile. Where a lock guards
//! several lines that are in no cache, they would be fetched one after the other; asked for beforehand they come together.
//!
//! Invariant kept by the unsafe code here: a prefetch is a hint. It reads and writes nothing that a program could tell, and an
//! address at which there is no memory makes no fault, so any pointer will do.
#![cfg_attr(
    all(any(target_arch = "x86_64", target_arch = "aarch64"), not(any(loom, shuttle))),
    expect(unsafe_code, reason = "no stable function asks for a cache line to be written")
)]

/// What one fetch brings, in bytes.
const LINE: usize = 64;

/// Asks for the cache line at `place`, to be written soon. `place` may dangle. A hint: the models have none.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
    // SAFETY: a hint that takes any address, see the invariant above. Processors without it do nothing there.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, shuttle))))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(loom, shuttle, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = place;
}

/// Asks for each cache line of the `T` at `place`, to be written soon.
#[inline(always)]
pub(crate) fn prefetch_all_for_write<T>(place: *const T) {
    let mut offset = 0;
    while offset < size_of::<T>() {
        prefetch_for_write(place.wrapping_byte_add(offset));
        offset += LINE;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn any_address_will_do_and_nothing_changes() {
        let words = [7_u64; 40];
        prefetch_all_for_write(&raw const words);
        prefetch_for_write::<u64>(std::ptr::null());
        prefetch_for_write(std::ptr::without_provenance::<u64>(usize::MAX));
        assert_eq!(words, [7; 40]);
    }
}
