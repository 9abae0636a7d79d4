//! `lib/fdf/arena.h`.

use std::ffi::c_void;

use crate::exports::functions;
use crate::types::{fdf_arena_t, fdf_arena_tag_t, zx_status_t};

functions! {
    /// The functions of `lib/fdf/arena.h`.
    ArenaFunctions in arena, arena {
        /// Makes an arena with one reference.
        fn fdf_arena_create(options: u32, tag: fdf_arena_tag_t, out_arena: *mut *mut fdf_arena_t) -> zx_status_t;
        /// Memory that is there until the last reference goes.
        fn fdf_arena_allocate(arena: *mut fdf_arena_t, bytes: usize) -> *mut c_void;
        /// A hint that memory is not needed any more.
        fn fdf_arena_free(arena: *mut fdf_arena_t, start: *mut c_void);
        /// Whether a range lies in the arena.
        fn fdf_arena_contains(arena: *mut fdf_arena_t, start: *const c_void, num_bytes: usize) -> bool;
        /// One more reference.
        fn fdf_arena_add_ref(arena: *mut fdf_arena_t);
        /// One less; the last frees all.
        fn fdf_arena_drop_ref(arena: *mut fdf_arena_t);
    }
}
