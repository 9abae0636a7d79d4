#ifndef FUCHSINE_LIB_FDF_ENV_H_
#define FUCHSINE_LIB_FDF_ENV_H_

// The environment: what a program calls that hosts drivers. A driver is a pointer that is never followed.

#include <lib/fdf/dispatcher.h>

__BEGIN_CDECLS

typedef struct fdf_env_driver_shutdown_observer fdf_env_driver_shutdown_observer_t;
typedef struct fdf_env_stall_scanner fdf_env_stall_scanner_t;
typedef struct fdf_env_resume_requester fdf_env_resume_requester_t;
typedef struct fdf_env_suspend_completer fdf_env_suspend_completer_t;

// Runs once, after the observers of all dispatchers of the driver, on any thread of the pool.
typedef void(fdf_env_driver_shutdown_handler_t)(const void* driver, fdf_env_driver_shutdown_observer_t* observer);

// Keep it until its handler has run; yours at once if the call fails.
struct fdf_env_driver_shutdown_observer {
  fdf_env_driver_shutdown_handler_t* handler;
};

typedef void(fdf_env_stall_scan_begin)(fdf_env_stall_scanner_t* scanner, zx_duration_mono_t duration);

struct fdf_env_stall_scanner {
  fdf_env_stall_scan_begin* handler;
};

typedef zx_status_t(fdf_env_resume_request)(fdf_env_resume_requester_t* requester);

// Keep it for as long as it is registered: it may be called many times.
struct fdf_env_resume_requester {
  fdf_env_resume_request* handler;
};

typedef void(fdf_env_suspend_complete)(fdf_env_suspend_completer_t* completer);

// Keep it until its handler has run.
struct fdf_env_suspend_completer {
  fdf_env_suspend_complete* handler;
};

// Drivers may use only the roles that were named to them.
#define FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES ((uint32_t)1u << 0)
// Threads come when all are stuck, instead of one for each dispatcher that allows sync calls.
#define FDF_ENV_DYNAMIC_THREAD_SPAWNING ((uint32_t)1u << 1)

// No dispatcher of the role may allow sync calls.
static const uint32_t FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS = 1u << 0;

// Starts the runtime of this process. ZX_ERR_BAD_STATE: it is started, or a host has one. ZX_ERR_INVALID_ARGS: an unknown
// option.
zx_status_t fdf_env_start(uint32_t options);

// Ends the runtime and joins its threads; it can be started again. The process ends if a dispatcher is left, or in a
// handler. For a module of a host it does nothing.
void fdf_env_reset(void);

// fdf_dispatcher_create for the given driver, from any thread; `observer` may be NULL.
zx_status_t fdf_env_dispatcher_create_with_owner(const void* driver, uint32_t options, const char* name,
                                                 size_t name_len, const char* scheduler_role,
                                                 size_t scheduler_role_len,
                                                 fdf_dispatcher_shutdown_observer_t* observer,
                                                 fdf_dispatcher_t** out_dispatcher);

// Logs what the dispatcher does and holds.
void fdf_env_dispatcher_dump(fdf_dispatcher_t* dispatcher);

// The same as text, to be freed with free().
void fdf_env_dispatcher_get_dump_deprecated(fdf_dispatcher_t* dispatcher, char** out_dump);

// Shuts all dispatchers of the driver down, then calls the observer. From now on the driver gets no dispatcher, until it is
// over: all its dispatchers destroyed. ZX_ERR_INVALID_ARGS: no such driver. ZX_ERR_BAD_STATE: asked before.
zx_status_t fdf_env_shutdown_dispatchers_async(const void* driver, fdf_env_driver_shutdown_observer_t* observer);

// Destroys all dispatchers. The process ends if one has not shut down, or in a handler.
void fdf_env_destroy_all_dispatchers(void);

// Enters the driver on this thread, without a dispatcher, until the exit. Entries nest.
void fdf_env_register_driver_entry(const void* driver);
void fdf_env_register_driver_exit(void);

// The driver that this thread is inside of, or NULL.
const void* fdf_env_get_current_driver(void);

// Whether a task is due to run; delayed ones do not count before their time.
bool fdf_env_dispatcher_has_queued_tasks(fdf_dispatcher_t* dispatcher);

// The most threads of a role: unless it is set, the number of processors (at least 2) and 20 more.
uint32_t fdf_env_get_thread_limit(const char* scheduler_role, size_t scheduler_role_len);
// ZX_ERR_OUT_OF_RANGE: fewer than run now.
zx_status_t fdf_env_set_thread_limit(const char* scheduler_role, size_t scheduler_role_len, uint32_t max_threads);

uint32_t fdf_env_get_scheduler_role_opts(const char* scheduler_role, size_t scheduler_role_len);
// ZX_ERR_INVALID_ARGS: an unknown option. ZX_ERR_NOT_SUPPORTED: a dispatcher of the role allows sync calls.
zx_status_t fdf_env_set_scheduler_role_opts(const char* scheduler_role, size_t scheduler_role_len, uint32_t options);

void fdf_env_add_allowed_scheduler_role_for_driver(const void* driver, const char* role, size_t role_length);

// The driver that a thread is inside of; `tid` is what gettid() says there. ZX_ERR_NOT_FOUND: none.
zx_status_t fdf_env_get_driver_on_tid(zx_koid_t tid, const void** out_driver);

// The runtime watches its threads by itself: these do nothing, and 0 says that no scan needs to follow.
void fdf_env_scan_threads_for_stalls(void);
zx_duration_mono_t fdf_env_scan_threads_for_stalls2(void);
void fdf_env_register_stall_scanner(fdf_env_stall_scanner_t* scanner);

// Whom a wake vector asks for a resume of the driver; NULL is nobody.
void fdf_env_register_resume_requester(const void* driver, fdf_env_resume_requester_t* requester);

// Holds back what the driver's dispatchers would run, and calls the completer when nothing of it runs any more.
void fdf_env_driver_suspend(const void* driver, fdf_env_suspend_completer_t* completer);

// What wake vectors told runs first, then what was held back, in its order.
void fdf_env_driver_resume(const void* driver);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_ENV_H_
