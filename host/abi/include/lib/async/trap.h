#ifndef FUCHSINE_LIB_ASYNC_TRAP_H_
#define FUCHSINE_LIB_ASYNC_TRAP_H_

// Guest bell traps, which have no meaning here.

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

typedef void(async_guest_bell_trap_handler_t)(async_dispatcher_t* dispatcher, async_guest_bell_trap_t* trap,
                                              zx_status_t status, const zx_packet_guest_bell_t* bell);

struct async_guest_bell_trap {
  async_state_t state;
  async_guest_bell_trap_handler_t* handler;
};

// ZX_ERR_NOT_SUPPORTED.
zx_status_t async_set_guest_bell_trap(async_dispatcher_t* dispatcher, async_guest_bell_trap_t* trap, zx_handle_t guest,
                                      zx_vaddr_t addr, size_t length);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_TRAP_H_
