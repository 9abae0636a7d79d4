#ifndef FUCHSINE_LIB_DRIVER_SYMBOLS_SYMBOLS_H_
#define FUCHSINE_LIB_DRIVER_SYMBOLS_SYMBOLS_H_

// What a driver module exports: one object of data, by which a host starts and ends it.

#include <lib/fdf/types.h>

__BEGIN_CDECLS

#define DRIVER_REGISTRATION_VERSION_1 1
#define DRIVER_REGISTRATION_VERSION_MAX DRIVER_REGISTRATION_VERSION_1

typedef struct DriverRegistration {
  uint64_t version;
  struct driver_registration_v1 {
    // Runs on the driver's default dispatcher. Owns the handle; closing it tells the host that the driver is finished.
    // The result is given to `destroy`.
    void* (*initialize)(fdf_handle_t server_handle);
    // Runs when all dispatchers of the driver have shut down.
    void (*destroy)(void* token);
  } v1;
} DriverRegistration;

#define FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy) \
  { DRIVER_REGISTRATION_VERSION_1, { (initialize), (destroy) } }

#define EXPORT_FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy)                        \
  __EXPORT extern const DriverRegistration __fuchsia_driver_registration__;               \
  const DriverRegistration __fuchsia_driver_registration__ =                              \
      FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy)

extern const DriverRegistration __fuchsia_driver_registration__;

__END_CDECLS

#endif  // FUCHSINE_LIB_DRIVER_SYMBOLS_SYMBOLS_H_
