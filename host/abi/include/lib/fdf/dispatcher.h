#ifndef FUCHSINE_LIB_FDF_DISPATCHER_H_
#define FUCHSINE_LIB_FDF_DISPATCHER_H_

// Dispatchers: where the handlers of a driver run.

#include <lib/async/dispatcher.h>
#include <lib/fdf/types.h>

__BEGIN_CDECLS

typedef struct fdf_dispatcher fdf_dispatcher_t;
typedef struct fdf_dispatcher_shutdown_observer fdf_dispatcher_shutdown_observer_t;

// Runs last, when every handler has ended. The dispatcher may be destroyed in it.
typedef void(fdf_dispatcher_shutdown_handler_t)(fdf_dispatcher_t* dispatcher,
                                                fdf_dispatcher_shutdown_observer_t* observer);

// Keep it from the creation until its handler has run; yours at once if the creation fails.
struct fdf_dispatcher_shutdown_observer {
  fdf_dispatcher_shutdown_handler_t* handler;
};

// One handler at a time; the default.
static const uint32_t FDF_DISPATCHER_OPTION_SYNCHRONIZED = 0u << 0;
// Handlers may run in parallel.
static const uint32_t FDF_DISPATCHER_OPTION_UNSYNCHRONIZED = 1u << 0;
// Handlers may block. Not with UNSYNCHRONIZED.
static const uint32_t FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS = 1u << 1;
// All handlers run on one thread. Only for a role with FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS.
static const uint32_t FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION = 1u << 2;
static const uint32_t FDF_DISPATCHER_OPTION_SYNCHRONIZATION_MASK = 1u << 0;

// Makes a dispatcher owned by the driver that this thread is inside of. The lengths do not count a terminator; names are
// copied. An empty role is the default pool.
// ZX_ERR_INVALID_ARGS: no current driver, no observer, an unknown option. ZX_ERR_NOT_SUPPORTED: options that exclude each
// other, or that the role forbids. ZX_ERR_ACCESS_DENIED: the driver may not use the role. ZX_ERR_NO_RESOURCES: the role
// has no thread left. ZX_ERR_BAD_STATE: the driver shuts down.
zx_status_t fdf_dispatcher_create(uint32_t options, const char* name, size_t name_len, const char* scheduler_role,
                                  size_t scheduler_role_len, fdf_dispatcher_shutdown_observer_t* observer,
                                  fdf_dispatcher_t** out_dispatcher);

// Its async interface, which lives as long as it does.
async_dispatcher_t* fdf_dispatcher_get_async_dispatcher(fdf_dispatcher_t* dispatcher);

// The way back. The process ends if the argument belongs to something else.
fdf_dispatcher_t* fdf_dispatcher_downcast_async_dispatcher(async_dispatcher_t* async_dispatcher);

// The dispatcher whose handler runs on this thread, or NULL. Not owned.
fdf_dispatcher_t* fdf_dispatcher_get_current_dispatcher(void);

// As it was made; a seal changes nothing here.
uint32_t fdf_dispatcher_get_options(const fdf_dispatcher_t* dispatcher);

// Begins the shutdown: new work is refused, handlers that run finish, everything pending is told ZX_ERR_CANCELED, then the
// observer runs. From any thread, any number of times.
void fdf_dispatcher_shutdown_async(fdf_dispatcher_t* dispatcher);

// Frees it. The process ends if its observer has not been called.
void fdf_dispatcher_destroy(fdf_dispatcher_t* dispatcher);

// Takes FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS away, for good, in a handler of the dispatcher.
// ZX_ERR_INVALID_ARGS: another option. ZX_ERR_BAD_STATE: elsewhere. ZX_ERR_ALREADY_EXISTS: it does not have it.
zx_status_t fdf_dispatcher_seal(fdf_dispatcher_t* dispatcher, uint32_t option);

// The same dispatcher; what is posted through this pointer runs also while its driver is suspended. Not owned, dies with
// the dispatcher.
fdf_dispatcher_t* fdf_dispatcher_get_always_on_dispatcher(fdf_dispatcher_t* dispatcher);

// When one of the signals comes while the driver is suspended, its resume requester is called; waits and irqs on the
// object run first after the resume. The handle is borrowed.
// ZX_ERR_BAD_STATE: the driver is suspended, or shuts down. ZX_ERR_BAD_HANDLE: no such object.
zx_status_t fdf_dispatcher_register_wake_vector(fdf_dispatcher_t* dispatcher, zx_handle_t handle,
                                                zx_signals_t signals);

// Takes signals away again; 0 is all of them. ZX_ERR_NOT_FOUND: they are no wake vector.
zx_status_t fdf_dispatcher_unregister_wake_vector(fdf_dispatcher_t* dispatcher, zx_handle_t handle,
                                                  zx_signals_t signals);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_DISPATCHER_H_
