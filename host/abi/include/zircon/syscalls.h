#ifndef FUCHSINE_ZIRCON_SYSCALLS_H_
#define FUCHSINE_ZIRCON_SYSCALLS_H_

// The calls of the kernel that drivers make all the time, as far as they have a meaning here.

#include <zircon/syscalls/port.h>
#include <zircon/types.h>

__BEGIN_CDECLS

#define ZX_RIGHT_SAME_RIGHTS ((zx_rights_t)1 << 31)

// Ends a handle; the object ends with its last one. ZX_HANDLE_INVALID is ignored. ZX_ERR_BAD_HANDLE: it names nothing, or
// nothing any more.
zx_status_t zx_handle_close(zx_handle_t handle);

// A further handle to the same object, with ZX_RIGHT_SAME_RIGHTS. ZX_ERR_ACCESS_DENIED: a channel.
zx_status_t zx_handle_duplicate(zx_handle_t handle, zx_rights_t rights, zx_handle_t* out);

zx_status_t zx_event_create(uint32_t options, zx_handle_t* out);

// When the last handle of one ends, the other has ZX_EVENTPAIR_PEER_CLOSED.
zx_status_t zx_eventpair_create(uint32_t options, zx_handle_t* out0, zx_handle_t* out1);

// Clears, then sets: user signals, and ZX_EVENT_SIGNALED of events and pairs. ZX_ERR_INVALID_ARGS: others.
zx_status_t zx_object_signal(zx_handle_t handle, uint32_t clear_mask, uint32_t set_mask);

// Blocks until one of the signals is set. `observed`, if it is not NULL, is told all that are set.
zx_status_t zx_object_wait_one(zx_handle_t handle, zx_signals_t signals, zx_time_t deadline, zx_signals_t* observed);

zx_time_t zx_clock_get_monotonic(void);
zx_instant_boot_t zx_clock_get_boot(void);

// The name of a status, such as "ZX_ERR_CANCELED".
const char* zx_status_get_string(zx_status_t status);

// Channels of packets, by a pair of sockets. They carry no handles: ZX_ERR_NOT_SUPPORTED.
zx_status_t zx_channel_create(uint32_t options, zx_handle_t* out0, zx_handle_t* out1);
// ZX_ERR_SHOULD_WAIT: there is no room; wait for ZX_CHANNEL_WRITABLE.
zx_status_t zx_channel_write(zx_handle_t handle, uint32_t options, const void* bytes, uint32_t num_bytes,
                             const zx_handle_t* handles, uint32_t num_handles);
// ZX_ERR_BUFFER_TOO_SMALL: the message stays, and the numbers say what it needs.
zx_status_t zx_channel_read(zx_handle_t handle, uint32_t options, void* bytes, zx_handle_t* handles, uint32_t num_bytes,
                            uint32_t num_handles, uint32_t* actual_bytes, uint32_t* actual_handles);

__END_CDECLS

#endif  // FUCHSINE_ZIRCON_SYSCALLS_H_
