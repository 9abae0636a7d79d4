#ifndef FUCHSINE_LIB_FDF_ARENA_H_
#define FUCHSINE_LIB_FDF_ARENA_H_

// Arenas: memory for messages, which goes all at once with the last reference.

#include <lib/fdf/types.h>

__BEGIN_CDECLS

typedef struct fdf_arena fdf_arena_t;
// For debugging.
typedef uint32_t fdf_arena_tag_t;

// An arena with one reference. ZX_ERR_INVALID_ARGS: options other than 0.
zx_status_t fdf_arena_create(uint32_t options, fdf_arena_tag_t tag, fdf_arena_t** out_arena);

// Aligned to 8 bytes, not cleared. NULL for 0 bytes, and when there is no memory.
void* fdf_arena_allocate(fdf_arena_t* arena, size_t bytes);

// Says that memory is not needed any more. The process ends if it is not of this arena.
void fdf_arena_free(fdf_arena_t* arena, void* start);

// Whether all of a range was allocated from the arena.
bool fdf_arena_contains(fdf_arena_t* arena, const void* start, size_t num_bytes);

// Whoever made it, added a reference, or read a message drops one.
void fdf_arena_add_ref(fdf_arena_t* arena);
void fdf_arena_drop_ref(fdf_arena_t* arena);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_ARENA_H_
