#ifndef FUCHSINE_LIB_FDF_CHANNEL_READ_H_
#define FUCHSINE_LIB_FDF_CHANNEL_READ_H_

// A registered wait for something to read.

#include <lib/async/dispatcher.h>
#include <lib/fdf/types.h>

__BEGIN_CDECLS

struct fdf_dispatcher;
typedef struct fdf_channel_read fdf_channel_read_t;

// ZX_OK: read now. ZX_ERR_PEER_CLOSED: nothing is left to read, and nothing will be. ZX_ERR_CANCELED: by a cancel, or the
// shutdown. The wait has ended, so it may be registered again.
typedef void(fdf_channel_read_handler_t)(struct fdf_dispatcher* dispatcher, fdf_channel_read_t* read,
                                         zx_status_t status);

// Keep it, unchanged, until its handler has started, or a cancel that calls no handler has succeeded; keep the channel open as
// long.
struct fdf_channel_read {
  async_state_t state;
  fdf_channel_read_handler_t* handler;
  fdf_handle_t channel;
  uint32_t options;
};

// A cancel calls the handler, later, with ZX_ERR_CANCELED. So it is on every unsynchronized dispatcher.
static const uint32_t FDF_CHANNEL_WAIT_OPTION_FORCE_ASYNC_CANCEL = 1u << 0;
// Not for callers: a wait through the always-on view of a dispatcher is always on.
static const uint32_t FDF_CHANNEL_WAIT_OPTION_ALWAYS_ON = 1u << 1;

// One wait for each end. ZX_ERR_BAD_STATE: there is one. ZX_ERR_PEER_CLOSED: nothing is left to read. ZX_ERR_UNAVAILABLE:
// the dispatcher shuts down. ZX_ERR_BAD_HANDLE: no such channel. ZX_ERR_INVALID_ARGS: no handler, an unknown option.
zx_status_t fdf_channel_wait_async(struct fdf_dispatcher* dispatcher, struct fdf_channel_read* channel_read,
                                   uint32_t options);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_CHANNEL_READ_H_
