#ifndef FUCHSINE_ZIRCON_TYPES_H_
#define FUCHSINE_ZIRCON_TYPES_H_

// The scalar types of the interface, and what signals an object can have.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zircon/compiler.h>
#include <zircon/errors.h>
#include <zircon/time.h>

typedef int32_t zx_status_t;

// A handle is a number of this library's own, never the number of a descriptor. The two low bits of a valid one are set.
typedef uint32_t zx_handle_t;
#define ZX_HANDLE_INVALID ((zx_handle_t)0)
#define ZX_HANDLE_FIXED_BITS_MASK ((zx_handle_t)0x3)

typedef uint32_t zx_signals_t;
typedef uint32_t zx_rights_t;
typedef uint32_t zx_txid_t;
typedef uint64_t zx_koid_t;
typedef uintptr_t zx_vaddr_t;
typedef uintptr_t zx_gpaddr_t;

#define ZX_KOID_INVALID ((zx_koid_t)0)
#define ZX_MAX_NAME_LEN ((size_t)32)

// Signals, by their bits.
#define ZX_SIGNAL_NONE ((zx_signals_t)0)
#define ZX_OBJECT_READABLE ((zx_signals_t)1 << 0)
#define ZX_OBJECT_WRITABLE ((zx_signals_t)1 << 1)
#define ZX_OBJECT_PEER_CLOSED ((zx_signals_t)1 << 2)
#define ZX_OBJECT_SIGNALED ((zx_signals_t)1 << 3)
#define ZX_OBJECT_SIGNAL_4 ((zx_signals_t)1 << 4)
#define ZX_OBJECT_SIGNAL_5 ((zx_signals_t)1 << 5)
#define ZX_SIGNAL_HANDLE_CLOSED ((zx_signals_t)1 << 23)
#define ZX_USER_SIGNAL_0 ((zx_signals_t)1 << 24)
#define ZX_USER_SIGNAL_1 ((zx_signals_t)1 << 25)
#define ZX_USER_SIGNAL_2 ((zx_signals_t)1 << 26)
#define ZX_USER_SIGNAL_3 ((zx_signals_t)1 << 27)
#define ZX_USER_SIGNAL_4 ((zx_signals_t)1 << 28)
#define ZX_USER_SIGNAL_5 ((zx_signals_t)1 << 29)
#define ZX_USER_SIGNAL_6 ((zx_signals_t)1 << 30)
#define ZX_USER_SIGNAL_7 ((zx_signals_t)1 << 31)
#define ZX_USER_SIGNAL_ALL ((zx_signals_t)0xff000000)

#define ZX_CHANNEL_READABLE ZX_OBJECT_READABLE
#define ZX_CHANNEL_WRITABLE ZX_OBJECT_WRITABLE
#define ZX_CHANNEL_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_SOCKET_READABLE ZX_OBJECT_READABLE
#define ZX_SOCKET_WRITABLE ZX_OBJECT_WRITABLE
#define ZX_SOCKET_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_SOCKET_PEER_WRITE_DISABLED ZX_OBJECT_SIGNAL_4
#define ZX_SOCKET_WRITE_DISABLED ZX_OBJECT_SIGNAL_5
#define ZX_FIFO_READABLE ZX_OBJECT_READABLE
#define ZX_FIFO_WRITABLE ZX_OBJECT_WRITABLE
#define ZX_FIFO_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_EVENT_SIGNALED ZX_OBJECT_SIGNALED
#define ZX_EVENTPAIR_SIGNALED ZX_OBJECT_SIGNALED
#define ZX_EVENTPAIR_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_TIMER_SIGNALED ZX_OBJECT_SIGNALED
#define ZX_TASK_TERMINATED ZX_OBJECT_SIGNALED
#define ZX_COUNTER_SIGNALED ZX_OBJECT_SIGNALED
#define ZX_COUNTER_POSITIVE ZX_OBJECT_SIGNAL_4
#define ZX_COUNTER_NON_POSITIVE ZX_OBJECT_SIGNAL_5

// Options of a wait.
#define ZX_WAIT_ASYNC_ONCE ((uint32_t)0)
#define ZX_WAIT_ASYNC_TIMESTAMP ((uint32_t)1)
#define ZX_WAIT_ASYNC_EDGE ((uint32_t)2)
#define ZX_WAIT_ASYNC_BOOT_TIMESTAMP ((uint32_t)4)

#endif  // FUCHSINE_ZIRCON_TYPES_H_
