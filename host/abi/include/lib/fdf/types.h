#ifndef FUCHSINE_LIB_FDF_TYPES_H_
#define FUCHSINE_LIB_FDF_TYPES_H_

// Handles of the driver runtime: numbers of the same type as those of other objects, told apart by their low bits, which
// are 10 here.

#include <zircon/types.h>

__BEGIN_CDECLS

typedef zx_handle_t fdf_handle_t;
typedef uint32_t fdf_txid_t;

#define FDF_HANDLE_INVALID ((fdf_handle_t)ZX_HANDLE_INVALID)
#define FDF_HANDLE_FIXED_BITS_MASK ((fdf_handle_t)ZX_HANDLE_FIXED_BITS_MASK)

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_TYPES_H_
