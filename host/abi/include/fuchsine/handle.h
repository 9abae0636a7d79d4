#ifndef FUCHSINE_HANDLE_H_
#define FUCHSINE_HANDLE_H_

// Descriptors of this system as objects. These functions are not part of fdf.

#include <zircon/types.h>

__BEGIN_CDECLS

// A handle to a descriptor, which belongs to it from then on. What can be read gives ZX_OBJECT_READABLE and
// ZX_OBJECT_SIGNALED; room to write, ZX_OBJECT_WRITABLE; a peer that has gone, ZX_OBJECT_PEER_CLOSED. An eventfd can be
// bound as an interrupt.
// ZX_ERR_INVALID_ARGS: it is no open descriptor.
zx_status_t fuchsine_handle_from_fd(int fd, zx_handle_t* out);

// A copy of the descriptor behind a handle, to be closed by close(); -1 if there is none.
int fuchsine_handle_dup_fd(zx_handle_t handle);

__END_CDECLS

#endif  // FUCHSINE_HANDLE_H_
