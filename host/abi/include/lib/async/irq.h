#ifndef FUCHSINE_LIB_ASYNC_IRQ_H_
#define FUCHSINE_LIB_ASYNC_IRQ_H_

// Interrupts: a handler that runs for each, until it is unbound. An interrupt object is an eventfd that something counts
// up: a device by VFIO, another thread, or zx_object_signal.

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

// ZX_OK with the interrupt, or once ZX_ERR_CANCELED with NULL when the dispatcher shuts down.
typedef void(async_irq_handler_t)(async_dispatcher_t* dispatcher, async_irq_t* irq, zx_status_t status,
                                  const zx_packet_interrupt_t* signal);

// Keep it, unchanged, until it was unbound or its handler was told ZX_ERR_CANCELED; keep the object open as long.
struct async_irq {
  async_state_t state;
  async_irq_handler_t* handler;
  zx_handle_t object;
};

// The count is taken before the handler is called.
// ZX_ERR_BAD_STATE: the dispatcher shuts down, or the irq is bound already. ZX_ERR_NOT_SUPPORTED: it is unsynchronized.
// ZX_ERR_BAD_HANDLE: no such object. ZX_ERR_WRONG_TYPE: it is no interrupt. ZX_ERR_ALREADY_BOUND: the object is bound.
zx_status_t async_bind_irq(async_dispatcher_t* dispatcher, async_irq_t* irq);

// On a callback of the dispatcher, elsewhere ZX_ERR_BAD_STATE. ZX_OK: no call of the handler begins any more.
// ZX_ERR_NOT_FOUND: it is not bound here.
zx_status_t async_unbind_irq(async_dispatcher_t* dispatcher, async_irq_t* irq);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_IRQ_H_
