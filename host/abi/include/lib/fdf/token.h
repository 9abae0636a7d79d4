#ifndef FUCHSINE_LIB_FDF_TOKEN_H_
#define FUCHSINE_LIB_FDF_TOKEN_H_

// Tokens: by the two ends of a zx_channel, two drivers are given an fdf channel, whoever comes first. Every function takes the
// token, whatever the result.

#include <lib/fdf/dispatcher.h>

__BEGIN_CDECLS

typedef struct fdf_token fdf_token_t;

// ZX_OK with a handle, which is yours; or ZX_ERR_CANCELED with FDF_HANDLE_INVALID, when the other end is closed or the
// dispatcher shuts down.
typedef void(fdf_token_transfer_handler_t)(fdf_dispatcher_t* dispatcher, fdf_token_t* token, zx_status_t status,
                                           fdf_handle_t handle);

// Keep it until its handler has run.
struct fdf_token {
  fdf_token_transfer_handler_t* handler;
};

// ZX_ERR_BAD_HANDLE: no end of a zx_channel. ZX_ERR_BAD_STATE: the dispatcher shuts down, the other end is registered too, or the
// handler is registered already and has not run yet.
zx_status_t fdf_token_register(zx_handle_t token, fdf_dispatcher_t* dispatcher, fdf_token_t* handler);

// Takes a handle that was transferred before. ZX_ERR_NOT_FOUND: none was.
zx_status_t fdf_token_receive(zx_handle_t token, fdf_handle_t* handle);

// Gives the handle to whoever has the other end, now or later; takes the handle, too, whatever the result. If the other end is
// closed, so is the handle.
zx_status_t fdf_token_transfer(zx_handle_t token, fdf_handle_t handle);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_TOKEN_H_
