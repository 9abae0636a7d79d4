//! Arenas: `lib/fdf/arena.h`. What C has a pointer to is a reference of an [`Arena`], as an address.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use fuchsine_dispatcher::Arena;

use super::die;
use crate::status::{ZX_ERR_INVALID_ARGS, ZX_OK};
use crate::types::{fdf_arena_t, fdf_arena_tag_t, zx_status_t};

/// What an allocation is aligned to.
const ALIGN: usize = 8;

/// An arena as C has it, with a reference of its own.
pub(crate) fn to_c(arena: Arena) -> *mut fdf_arena_t {
    arena.into_raw().as_ptr().cast()
}

/// The arena behind a pointer of C's, without touching the count.
///
/// # Safety
/// C holds a reference for as long as the result is used.
pub(crate) unsafe fn of(function: &str, arena: *mut fdf_arena_t) -> ManuallyDrop<Arena> {
    let Some(raw) = NonNull::new(arena) else { die(function, "the arena is NULL") };
    // SAFETY: it came from `to_c`, and the reference stays C's: the value is not dropped.
    ManuallyDrop::new(unsafe { Arena::from_raw(raw.cast()) })
}

/// # Safety
/// `out_arena` is null or can be written.
pub(crate) unsafe fn fdf_arena_create(
    options: u32,
    tag: fdf_arena_tag_t,
    out_arena: *mut *mut fdf_arena_t,
) -> zx_status_t {
    if options != 0 || out_arena.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: not null.
    unsafe { *out_arena = to_c(Arena::with_tag(tag.to_ne_bytes())) };
    ZX_OK
}

/// # Safety
/// C holds a reference to the arena.
pub(crate) unsafe fn fdf_arena_allocate(arena: *mut fdf_arena_t, bytes: usize) -> *mut c_void {
    // SAFETY: as this function.
    let arena = unsafe { of("fdf_arena_allocate", arena) };
    if bytes == 0 {
        return ptr::null_mut();
    }
    arena.allocate_raw(bytes, ALIGN).map_or(ptr::null_mut(), |start| start.as_ptr().cast())
}

/// # Safety
/// C holds a reference to the arena.
pub(crate) unsafe fn fdf_arena_free(arena: *mut fdf_arena_t, start: *mut c_void) {
    const NAME: &str = "fdf_arena_free";
    // SAFETY: as this function.
    let arena = unsafe { of(NAME, arena) };
    if !start.is_null() && !arena.contains_raw(start.cast(), 1) {
        die(NAME, "this memory is not of the arena");
    }
}

/// # Safety
/// C holds a reference to the arena.
pub(crate) unsafe fn fdf_arena_contains(arena: *mut fdf_arena_t, start: *const c_void, num_bytes: usize) -> bool {
    // SAFETY: as this function.
    unsafe { of("fdf_arena_contains", arena) }.contains_raw(start.cast(), num_bytes)
}

/// # Safety
/// C holds a reference to the arena.
pub(crate) unsafe fn fdf_arena_add_ref(arena: *mut fdf_arena_t) {
    // SAFETY: as this function.
    let arena = unsafe { of("fdf_arena_add_ref", arena) };
    // The further reference is C's.
    let _ = Arena::clone(&arena).into_raw();
}

/// # Safety
/// C holds a reference to the arena and gives it up.
pub(crate) unsafe fn fdf_arena_drop_ref(arena: *mut fdf_arena_t) {
    // SAFETY: as this function.
    drop(ManuallyDrop::into_inner(unsafe { of("fdf_arena_drop_ref", arena) }));
}
