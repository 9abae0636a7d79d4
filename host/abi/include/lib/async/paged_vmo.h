#ifndef FUCHSINE_LIB_ASYNC_PAGED_VMO_H_
#define FUCHSINE_LIB_ASYNC_PAGED_VMO_H_

// Memory that a handler pages in, which has no meaning here.

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

typedef void(async_paged_vmo_handler_t)(async_dispatcher_t* dispatcher, async_paged_vmo_t* paged_vmo,
                                        zx_status_t status, const zx_packet_page_request_t* request);

struct async_paged_vmo {
  async_state_t state;
  async_paged_vmo_handler_t* handler;
  zx_handle_t pager;
  zx_handle_t vmo;
};

// ZX_ERR_NOT_SUPPORTED, both.
zx_status_t async_create_paged_vmo(async_dispatcher_t* dispatcher, async_paged_vmo_t* paged_vmo, uint32_t options,
                                   zx_handle_t pager, uint64_t vmo_size, zx_handle_t* vmo_out);
zx_status_t async_detach_paged_vmo(async_dispatcher_t* dispatcher, async_paged_vmo_t* paged_vmo);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_PAGED_VMO_H_
