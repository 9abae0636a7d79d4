#ifndef FUCHSINE_LIB_ASYNC_WAIT_H_
#define FUCHSINE_LIB_ASYNC_WAIT_H_

// Waits: handlers that run once, when an object has one of some signals.

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

// ZX_OK with what was seen, or ZX_ERR_CANCELED with NULL when the dispatcher shuts down first.
typedef void(async_wait_handler_t)(async_dispatcher_t* dispatcher, async_wait_t* wait, zx_status_t status,
                                   const zx_packet_signal_t* signal);

// Keep it, unchanged, until its handler has started or a cancel has succeeded; keep the object open as long.
struct async_wait {
  async_state_t state;
  async_wait_handler_t* handler;
  zx_handle_t object;
  zx_signals_t trigger;
  uint32_t options;
};

// A signal that is set already counts. With ZX_WAIT_ASYNC_EDGE it would not; that is not supported while one is set
// (ZX_ERR_NOT_SUPPORTED).
// ZX_ERR_BAD_STATE: the dispatcher shuts down, or the wait has begun already. ZX_ERR_BAD_HANDLE: no such object.
// ZX_ERR_ACCESS_DENIED: it cannot be waited for, such as a regular file. ZX_ERR_INVALID_ARGS: no handler, no trigger, an
// unknown option.
zx_status_t async_begin_wait(async_dispatcher_t* dispatcher, async_wait_t* wait);

// ZX_OK: the handler will not run. On the callbacks of a synchronized dispatcher that is certain until it has started.
// ZX_ERR_NOT_FOUND: it runs, has run, or was not begun here.
zx_status_t async_cancel_wait(async_dispatcher_t* dispatcher, async_wait_t* wait);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_WAIT_H_
