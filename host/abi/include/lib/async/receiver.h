#ifndef FUCHSINE_LIB_ASYNC_RECEIVER_H_
#define FUCHSINE_LIB_ASYNC_RECEIVER_H_

// Receivers: a handler that runs for each packet that is queued for it.

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

// ZX_OK with the packet, or ZX_ERR_CANCELED with NULL when the dispatcher shuts down first.
typedef void(async_receiver_handler_t)(async_dispatcher_t* dispatcher, async_receiver_t* receiver, zx_status_t status,
                                       const zx_packet_user_t* data);

// Keep it, unchanged, until all its packets were delivered.
struct async_receiver {
  async_state_t state;
  async_receiver_handler_t* handler;
};

// Copies the packet; NULL is one of zeros. ZX_ERR_BAD_STATE: the dispatcher shuts down.
zx_status_t async_queue_packet(async_dispatcher_t* dispatcher, async_receiver_t* receiver,
                               const zx_packet_user_t* data);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_RECEIVER_H_
