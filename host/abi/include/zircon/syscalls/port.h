#ifndef FUCHSINE_ZIRCON_SYSCALLS_PORT_H_
#define FUCHSINE_ZIRCON_SYSCALLS_PORT_H_

// What handlers are told.

#include <zircon/types.h>

__BEGIN_CDECLS

// A wait: what was asked for, and what of all signals is set now. `timestamp` is 0 unless the wait asked for one.
typedef struct zx_packet_signal {
  zx_signals_t trigger;
  zx_signals_t observed;
  uint64_t count;
  zx_time_t timestamp;
  uint64_t reserved1;
} zx_packet_signal_t;

// What is queued for a receiver.
typedef union zx_packet_user {
  uint64_t u64[4];
  uint32_t u32[8];
  uint16_t u16[16];
  uint8_t c8[32];
} zx_packet_user_t;

// An interrupt, with the time (CLOCK_BOOTTIME) at which it was noticed.
typedef struct zx_packet_interrupt {
  zx_instant_boot_t timestamp;
  uint64_t reserved0;
  uint64_t reserved1;
  uint64_t reserved2;
} zx_packet_interrupt_t;

// Never delivered here.
typedef struct zx_packet_guest_bell {
  zx_gpaddr_t addr;
  uint64_t reserved0;
  uint64_t reserved1;
  uint64_t reserved2;
} zx_packet_guest_bell_t;

// Never delivered here.
typedef struct zx_packet_page_request {
  uint16_t command;
  uint16_t flags;
  uint32_t reserved0;
  uint64_t offset;
  uint64_t length;
  uint64_t reserved1;
} zx_packet_page_request_t;

__END_CDECLS

#endif  // FUCHSINE_ZIRCON_SYSCALLS_PORT_H_
