// A driver module: what it sees of the host that loads it. The host reads `seen`.
#include <lib/async/default.h>
#include <lib/async/task.h>
#include <lib/async/time.h>
#include <lib/driver/symbols/symbols.h>
#include <lib/fdf/dispatcher.h>
#include <lib/fdf/env.h>
#include <stdlib.h>

// Each is 0 as long as it has not come about.
struct seen {
  void* current;
  zx_time_t now;
  int32_t start;
  int32_t created;
  uint64_t task_ran;
  uint64_t other_ran;
  uint64_t other_was_over;
  uint64_t destroyed;
};

__EXPORT struct seen seen;

static async_task_t task;
static async_task_t on_other;
static fdf_dispatcher_t* other;
static fdf_dispatcher_shutdown_observer_t observer;

static void other_is_over(fdf_dispatcher_t* dispatcher, fdf_dispatcher_shutdown_observer_t* ended) {
  seen.other_was_over = dispatcher == other && ended == &observer;
  fdf_dispatcher_destroy(dispatcher);
}

static void runs(async_dispatcher_t* async, async_task_t* ran, zx_status_t status) {
  __atomic_store_n(ran == &task ? &seen.task_ran : &seen.other_ran,
                   status == ZX_OK && async == async_get_default_dispatcher() ? 1 : 2, __ATOMIC_SEQ_CST);
}

static void* initialize(fdf_handle_t server_handle) {
  seen.current = fdf_dispatcher_get_current_dispatcher();
  async_dispatcher_t* async = async_get_default_dispatcher();
  seen.now = async_now(async);
  seen.start = fdf_env_start(0);
  // Neither of these may do anything to the host.
  fdf_env_reset();
  fdf_env_destroy_all_dispatchers();
  task = (async_task_t){ASYNC_STATE_INIT, runs, ZX_TIME_INFINITE_PAST};
  async_post_task(async, &task);
  observer.handler = other_is_over;
  seen.created = fdf_dispatcher_create(FDF_DISPATCHER_OPTION_UNSYNCHRONIZED, "other", 5, "", 0, &observer, &other);
  on_other = (async_task_t){ASYNC_STATE_INIT, runs, ZX_TIME_INFINITE_PAST};
  async_post_task(fdf_dispatcher_get_async_dispatcher(other), &on_other);
  return malloc(1);
}

static void destroy(void* token) {
  free(token);
  seen.destroyed = 1;
}

EXPORT_FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy);
