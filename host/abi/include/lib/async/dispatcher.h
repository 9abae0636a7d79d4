#ifndef FUCHSINE_LIB_ASYNC_DISPATCHER_H_
#define FUCHSINE_LIB_ASYNC_DISPATCHER_H_

// The interface of anything that runs handlers: a pointer to a table of functions. Use the functions of the other headers;
// they look at the version and call through the table.

#include <zircon/syscalls/port.h>
#include <zircon/types.h>

__BEGIN_CDECLS

typedef struct async_dispatcher async_dispatcher_t;
typedef struct async_guest_bell_trap async_guest_bell_trap_t;
typedef struct async_irq async_irq_t;
typedef struct async_paged_vmo async_paged_vmo_t;
typedef struct async_receiver async_receiver_t;
typedef struct async_task async_task_t;
typedef struct async_wait async_wait_t;

// Belongs to the library while an operation is pending. Clear it with ASYNC_STATE_INIT before the first use.
typedef struct async_state {
  uintptr_t reserved[2];
} async_state_t;

#define ASYNC_STATE_INIT \
  { 0u, 0u }

// Names a sequence: handlers that never overlap.
typedef struct async_sequence_id {
  uint64_t value;
} async_sequence_id_t;

typedef uint32_t async_ops_version_t;
static const async_ops_version_t ASYNC_OPS_V1 = 1;
static const async_ops_version_t ASYNC_OPS_V2 = 2;
static const async_ops_version_t ASYNC_OPS_V3 = 3;
static const async_ops_version_t ASYNC_OPS_V4 = 4;

// A dispatcher fills in every function up to its version. Those of this library say version 3.
typedef struct async_ops {
  async_ops_version_t version;
  uint32_t reserved;
  struct v1 {
    zx_time_t (*now)(async_dispatcher_t* dispatcher);
    zx_status_t (*begin_wait)(async_dispatcher_t* dispatcher, async_wait_t* wait);
    zx_status_t (*cancel_wait)(async_dispatcher_t* dispatcher, async_wait_t* wait);
    zx_status_t (*post_task)(async_dispatcher_t* dispatcher, async_task_t* task);
    zx_status_t (*cancel_task)(async_dispatcher_t* dispatcher, async_task_t* task);
    zx_status_t (*queue_packet)(async_dispatcher_t* dispatcher, async_receiver_t* receiver,
                                const zx_packet_user_t* data);
    zx_status_t (*set_guest_bell_trap)(async_dispatcher_t* dispatcher, async_guest_bell_trap_t* trap,
                                       zx_handle_t guest, zx_vaddr_t addr, size_t length);
  } v1;
  struct v2 {
    zx_status_t (*bind_irq)(async_dispatcher_t* dispatcher, async_irq_t* irq);
    zx_status_t (*unbind_irq)(async_dispatcher_t* dispatcher, async_irq_t* irq);
    zx_status_t (*create_paged_vmo)(async_dispatcher_t* dispatcher, async_paged_vmo_t* paged_vmo, uint32_t options,
                                    zx_handle_t pager, uint64_t vmo_size, zx_handle_t* vmo_out);
    zx_status_t (*detach_paged_vmo)(async_dispatcher_t* dispatcher, async_paged_vmo_t* paged_vmo);
  } v2;
  struct v3 {
    zx_status_t (*get_sequence_id)(async_dispatcher_t* dispatcher, async_sequence_id_t* out_sequence_id,
                                   const char** out_error);
    zx_status_t (*check_sequence_id)(async_dispatcher_t* dispatcher, async_sequence_id_t sequence_id,
                                     const char** out_error);
  } v3;
  struct v4 {
    zx_status_t (*acquire_shared_ref)(async_dispatcher_t* dispatcher);
    zx_status_t (*release_shared_ref)(async_dispatcher_t* dispatcher);
  } v4;
} async_ops_t;

struct async_dispatcher {
  const async_ops_t* ops;
};

// ZX_ERR_NOT_SUPPORTED for the dispatchers of this library, both.
zx_status_t async_acquire_shared_ref(async_dispatcher_t* dispatcher);
zx_status_t async_release_shared_ref(async_dispatcher_t* dispatcher);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_DISPATCHER_H_
