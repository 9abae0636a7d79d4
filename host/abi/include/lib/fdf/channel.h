#ifndef FUCHSINE_LIB_FDF_CHANNEL_H_
#define FUCHSINE_LIB_FDF_CHANNEL_H_

// Channels: pairs of ends in one process, whose messages are not copied. Instead of ending the process, as in fdf, these
// functions answer ZX_ERR_BAD_HANDLE for a handle that names no channel.

#include <lib/fdf/arena.h>
#include <lib/fdf/channel_read.h>
#include <lib/fdf/dispatcher.h>
#include <lib/fdf/handle.h>

__BEGIN_CDECLS

zx_status_t fdf_channel_create(uint32_t options, fdf_handle_t* out0, fdf_handle_t* out1);

// Writes bytes and handles that lie in the arena, which gets a reference more. The writer does not touch them any more. The
// handles leave the writer with the message; on ZX_ERR_INVALID_ARGS and ZX_ERR_NOT_SUPPORTED they stay, on other errors they
// are closed.
// ZX_ERR_INVALID_ARGS: something does not lie in the arena, a handle is bad, or is a channel that somebody waits on.
// ZX_ERR_NOT_SUPPORTED: an end of this very channel. ZX_ERR_PEER_CLOSED.
zx_status_t fdf_channel_write(fdf_handle_t channel, uint32_t options, fdf_arena_t* arena, void* data,
                              uint32_t num_bytes, zx_handle_t* handles, uint32_t num_handles);

// Takes the oldest message, with a reference to its arena. Outs may be NULL; handles that are not asked for are closed. Handles
// have other numbers than where they were written.
// ZX_ERR_INVALID_ARGS: the bytes or the handles are asked for without the arena; the message stays. ZX_ERR_SHOULD_WAIT: there is
// none. ZX_ERR_PEER_CLOSED: and there will be none.
zx_status_t fdf_channel_read(fdf_handle_t channel, uint32_t options, fdf_arena_t** out_arena, void** out_data,
                             uint32_t* out_num_bytes, zx_handle_t** out_handles, uint32_t* out_num_handles);

// Ends the wait on an end. On a synchronized dispatcher without FORCE_ASYNC_CANCEL: in its handlers only (else
// ZX_ERR_BAD_STATE), and the handler will not run. Else the handler is told ZX_ERR_CANCELED later. ZX_ERR_NOT_FOUND: there is no
// wait, or its handler is about to run.
zx_status_t fdf_channel_cancel_wait(fdf_handle_t handle);

typedef struct fdf_channel_call_args {
  struct fdf_arena* wr_arena;
  void* wr_data;
  uint32_t wr_num_bytes;
  zx_handle_t* wr_handles;
  uint32_t wr_num_handles;
  struct fdf_arena** rd_arena;
  void** rd_data;
  uint32_t* rd_num_bytes;
  zx_handle_t** rd_handles;
  uint32_t* rd_num_handles;
} fdf_channel_call_args_t;

// Writes a request of at least four bytes and waits for the reply. The first four bytes of both are the id of the call, which
// this function writes.
// ZX_ERR_BAD_STATE: on a dispatcher that does not allow sync calls. ZX_ERR_TIMED_OUT: a reply that comes later is dropped.
// ZX_ERR_PEER_CLOSED. ZX_ERR_CANCELED: the dispatcher that this thread runs for shuts down.
zx_status_t fdf_channel_call(fdf_handle_t handle, uint32_t options, zx_time_t deadline,
                             const fdf_channel_call_args_t* args);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_CHANNEL_H_
