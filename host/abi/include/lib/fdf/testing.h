#ifndef FUCHSINE_LIB_FDF_TESTING_H_
#define FUCHSINE_LIB_FDF_TESTING_H_

// Dispatchers that a test runs on its own thread. ZX_ERR_NOT_SUPPORTED everywhere in a library that was built without.

#include <lib/fdf/dispatcher.h>

__BEGIN_CDECLS

// Like fdf_env_dispatcher_create_with_owner. Its handlers run in fdf_testing_run and fdf_testing_run_until_idle only.
zx_status_t fdf_testing_create_unmanaged_dispatcher(const void* driver, uint32_t options, const char* name,
                                                    size_t name_len, fdf_dispatcher_shutdown_observer_t* observer,
                                                    fdf_dispatcher_t** out_dispatcher);

// What is current on this thread while it is inside of nothing; NULL takes it away. ZX_ERR_BAD_STATE: inside of a driver.
zx_status_t fdf_testing_set_default_dispatcher(fdf_dispatcher_t* dispatcher);

// Runs unmanaged handlers until the deadline, or one of them. ZX_ERR_TIMED_OUT: the deadline came. ZX_ERR_CANCELED: somebody
// quit. ZX_ERR_BAD_STATE: there is no unmanaged dispatcher that has not shut down, or another run is under way.
zx_status_t fdf_testing_run(zx_time_t deadline, bool once);

// Runs unmanaged handlers until none is ready.
zx_status_t fdf_testing_run_until_idle(void);

// Ends the run that is under way, and later ones, until they are allowed again.
void fdf_testing_quit(void);
zx_status_t fdf_testing_reset_quit(void);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_TESTING_H_
