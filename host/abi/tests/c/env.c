// The environment: its life, drivers, roles, threads.
#include "check.h"

#include <lib/fdf/internal.h>
#include <sys/syscall.h>

static void it_starts_once(void) {
  EQUAL(fdf_env_start(4), ZX_ERR_INVALID_ARGS);
  OK(fdf_env_start(0));
  EQUAL(fdf_env_start(0), ZX_ERR_BAD_STATE);
  fdf_env_reset();
  OK(fdf_env_start(FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES | FDF_ENV_DYNAMIC_THREAD_SPAWNING));
  fdf_env_reset();
}

static int threads(void) {
  char line[256];
  int count = -1;
  FILE* status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof(line), status)) {
    sscanf(line, "Threads: %d", &count);
  }
  fclose(status);
  return count;
}

static void a_reset_joins_all_threads_and_it_starts_again(void) {
  for (int round = 0; round < 20; round++) {
    EQUAL(threads(), 1);
    OK(fdf_env_start(0));
    dispatcher_t one, two;
    dispatcher_make(&one, kDriver, 0);
    dispatcher_make(&two, kOther, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
    CHECK(threads() > 2);
    driver_shut_down(kDriver);
    driver_shut_down(kOther);
    EQUAL(event_count(&one.over), 1);
    EQUAL(event_count(&two.over), 1);
    fdf_env_destroy_all_dispatchers();
    fdf_env_reset();
  }
  EQUAL(threads(), 1);
}

static void without_it_nothing_is_made(void) {
  dispatcher_t dispatcher;
  EQUAL(dispatcher_try(&dispatcher, kDriver, 0), ZX_ERR_BAD_STATE);
  CHECK(fdf_dispatcher_get_current_dispatcher() == NULL);
  CHECK(fdf_env_get_current_driver() == NULL);
  CHECK(async_get_default_dispatcher() == NULL);
  driver_end_t end = {{driver_is_over}, EVENT_INIT};
  EQUAL(fdf_env_shutdown_dispatchers_async(kDriver, &end.observer), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_env_get_thread_limit("", 0), 0);
  fdf_env_reset();
}

static void a_dispatcher_is_left(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, 0);
  fdf_env_reset();
}

static void a_running_dispatcher_is_to_be_destroyed(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, 0);
  fdf_env_destroy_all_dispatchers();
}

static void resets(void* data) { fdf_env_reset(); }

static void a_reset_in_a_handler(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, 0);
  run_on(&dispatcher, resets, NULL);
}

static void entries_nest_and_are_seen(void) {
  OK(fdf_env_start(0));
  const void* found = NULL;
  zx_koid_t here = (zx_koid_t)syscall(SYS_gettid);
  EQUAL(fdf_env_get_driver_on_tid(here, NULL), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_env_get_driver_on_tid(here, &found), ZX_ERR_NOT_FOUND);
  fdf_env_register_driver_entry(kDriver);
  CHECK(fdf_env_get_current_driver() == kDriver);
  CHECK(fdf_dispatcher_get_current_dispatcher() == NULL);
  fdf_env_register_driver_entry(kOther);
  CHECK(fdf_env_get_current_driver() == kOther);
  OK(fdf_env_get_driver_on_tid(here, &found));
  CHECK(found == kOther);
  fdf_env_register_driver_exit();
  CHECK(fdf_env_get_current_driver() == kDriver);
  // A dispatcher is made for the driver that was entered.
  dispatcher_t made = {{dispatcher_is_over}, NULL, NULL, EVENT_INIT};
  OK(fdf_dispatcher_create(0, "made", 4, "", 0, &made.observer, &made.fdf));
  fdf_env_register_driver_exit();
  CHECK(fdf_env_get_current_driver() == NULL);
  EQUAL(fdf_env_get_driver_on_tid(here, &found), ZX_ERR_NOT_FOUND);
  driver_shut_down(kDriver);
  EQUAL(event_count(&made.over), 1);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

static void an_exit_without_an_entry(void) {
  OK(fdf_env_start(0));
  fdf_env_register_driver_exit();
}

static void the_driver_ends_once_after_all_its_dispatchers(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatchers[5];
  for (int i = 0; i < 5; i++) {
    dispatcher_make(&dispatchers[i], kDriver, i % 2 ? FDF_DISPATCHER_OPTION_UNSYNCHRONIZED : 0);
  }
  dispatcher_t of_other;
  dispatcher_make(&of_other, kOther, 0);
  driver_end_t end = {{driver_is_over}, EVENT_INIT};
  OK(fdf_env_shutdown_dispatchers_async(kDriver, &end.observer));
  EQUAL(fdf_env_shutdown_dispatchers_async(kDriver, &end.observer), ZX_ERR_BAD_STATE);
  dispatcher_t late;
  EQUAL(dispatcher_try(&late, kDriver, 0), ZX_ERR_BAD_STATE);
  event_wait(&end.over, 1);
  for (int i = 0; i < 5; i++) {
    EQUAL(event_count(&dispatchers[i].over), 1);
  }
  EQUAL(event_count(&of_other.over), 0);
  EQUAL(dispatcher_try(&late, kDriver, 0), ZX_ERR_BAD_STATE);
  for (int i = 0; i < 5; i++) {
    fdf_dispatcher_destroy(dispatchers[i].fdf);
  }
  EQUAL(event_count(&end.over), 1);
  // It is over, so the name can be used again.
  dispatcher_make(&late, kDriver, 0);
  driver_shut_down(kDriver);
  driver_shut_down(kOther);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

static void an_unknown_driver_cannot_be_shut_down(void) {
  OK(fdf_env_start(0));
  driver_end_t end = {{driver_is_over}, EVENT_INIT};
  EQUAL(fdf_env_shutdown_dispatchers_async(kDriver, &end.observer), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_env_shutdown_dispatchers_async(NULL, &end.observer), ZX_ERR_INVALID_ARGS);
  EQUAL(event_count(&end.over), 0);
  fdf_env_reset();
}

static void roles_have_limits_and_options(void) {
  OK(fdf_env_start(0));
  uint32_t limit = fdf_env_get_thread_limit("", 0);
  CHECK(limit >= 20);
  EQUAL(fdf_env_get_thread_limit("role", 4), limit);
  OK(fdf_env_set_thread_limit("role", 4, limit + 5));
  EQUAL(fdf_env_get_thread_limit("role", 4), limit + 5);
  EQUAL(fdf_env_get_thread_limit("", 0), limit);
  EQUAL(fdf_env_set_thread_limit("", 0, 0), ZX_ERR_OUT_OF_RANGE);
  EQUAL(fdf_env_get_scheduler_role_opts("role", 4), 0);
  EQUAL(fdf_env_set_scheduler_role_opts("role", 4, 2), ZX_ERR_INVALID_ARGS);
  OK(fdf_env_set_scheduler_role_opts("role", 4, FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS));
  EQUAL(fdf_env_get_scheduler_role_opts("role", 4), FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS);
  fdf_dispatcher_t* out = NULL;
  EQUAL(fdf_env_dispatcher_create_with_owner(kDriver, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS, "", 0, "role", 4, NULL,
                                             &out),
        ZX_ERR_NOT_SUPPORTED);
  // Without thread migration only there.
  EQUAL(fdf_env_dispatcher_create_with_owner(kDriver, FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION, "", 0, "", 0, NULL,
                                             &out),
        ZX_ERR_NOT_SUPPORTED);
  OK(fdf_env_dispatcher_create_with_owner(kDriver, FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION, "", 0, "role", 4, NULL,
                                          &out));
  OK(fdf_env_set_scheduler_role_opts("role", 4, 0));
  fdf_dispatcher_t* blocking = NULL;
  OK(fdf_env_dispatcher_create_with_owner(kDriver, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS, "", 0, "role", 4, NULL,
                                          &blocking));
  EQUAL(fdf_env_set_scheduler_role_opts("role", 4, FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS), ZX_ERR_NOT_SUPPORTED);
  driver_shut_down(kDriver);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

static void roles_are_enforced_if_that_is_wanted(void) {
  OK(fdf_env_start(FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES));
  fdf_dispatcher_t* out = NULL;
  EQUAL(fdf_env_dispatcher_create_with_owner(kDriver, 0, "", 0, "role", 4, NULL, &out), ZX_ERR_ACCESS_DENIED);
  fdf_env_add_allowed_scheduler_role_for_driver(kDriver, "role", 4);
  OK(fdf_env_dispatcher_create_with_owner(kDriver, 0, "", 0, "role", 4, NULL, &out));
  EQUAL(fdf_env_dispatcher_create_with_owner(kOther, 0, "", 0, "role", 4, NULL, &out), ZX_ERR_ACCESS_DENIED);
  driver_shut_down(kDriver);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

static void the_threads_of_a_role_come_to_their_limit(void) {
  OK(fdf_env_start(0));
  uint32_t made = 0;
  dispatcher_t* dispatchers = calloc(200, sizeof(*dispatchers));
  zx_status_t status = ZX_OK;
  while (status == ZX_OK) {
    CHECK(made < 200);
    status = dispatcher_try(&dispatchers[made++], kDriver, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
  }
  EQUAL(status, ZX_ERR_NO_RESOURCES);
  CHECK(made > 10);
  driver_shut_down(kDriver);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
  free(dispatchers);
}

zx_status_t fuchsine_abi_attach(const void* table);

static void no_table_of_a_host_is_taken_that_does_not_fit(void) {
  static const uint32_t other_version[100] = {77, sizeof(other_version)};
  static const uint32_t too_small[2] = {1, sizeof(too_small)};
  EQUAL(fuchsine_abi_attach(NULL), ZX_ERR_INVALID_ARGS);
  EQUAL(fuchsine_abi_attach(other_version), ZX_ERR_NOT_SUPPORTED);
  EQUAL(fuchsine_abi_attach(too_small), ZX_ERR_NOT_SUPPORTED);
  // It has its own from here on.
  OK(fdf_env_start(0));
  static const uint32_t large[1000] = {1, sizeof(large)};
  EQUAL(fuchsine_abi_attach(large), ZX_ERR_BAD_STATE);
  fdf_env_reset();
}

static void stalls_need_no_scan(void) {
  OK(fdf_env_start(0));
  fdf_env_scan_threads_for_stalls();
  EQUAL(fdf_env_scan_threads_for_stalls2(), 0);
  fdf_env_register_stall_scanner(NULL);
  fdf_env_reset();
}

static event_t suspended = EVENT_INIT;

static void is_suspended(fdf_env_suspend_completer_t* completer) { event_signal(&suspended); }

static void nothing(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  event_signal((event_t*)(task + 1));
}

typedef struct told {
  async_task_t task;
  event_t told;
} told_t;

static void a_suspended_driver_holds_back_what_is_not_always_on(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, 0);
  fdf_dispatcher_t* always_on = fdf_dispatcher_get_always_on_dispatcher(dispatcher.fdf);
  CHECK(always_on != dispatcher.fdf);
  CHECK(fdf_dispatcher_get_always_on_dispatcher(always_on) == always_on);
  async_dispatcher_t* always_on_async = fdf_dispatcher_get_async_dispatcher(always_on);
  CHECK(fdf_dispatcher_downcast_async_dispatcher(always_on_async) == always_on);
  EQUAL(fdf_dispatcher_get_options(always_on), 0);
  fdf_env_suspend_completer_t completer = {is_suspended};
  fdf_env_driver_suspend(kDriver, &completer);
  event_wait(&suspended, 1);
  told_t held = {{ASYNC_STATE_INIT, nothing, ZX_TIME_INFINITE_PAST}, EVENT_INIT};
  told_t runs = held;
  OK(async_post_task(dispatcher.async, &held.task));
  OK(async_post_task(always_on_async, &runs.task));
  event_wait(&runs.told, 1);
  EQUAL(event_count(&held.told), 0);
  CHECK(fdf_env_dispatcher_has_queued_tasks(dispatcher.fdf));
  fdf_env_driver_resume(kDriver);
  event_wait(&held.told, 1);
  // What is not there stands still already.
  fdf_env_driver_suspend(kOther, &completer);
  event_wait(&suspended, 2);
  fdf_env_driver_resume(kOther);
  dispatcher_end(&dispatcher);
  fdf_env_reset();
}

static void tasks_that_are_due_are_told_of(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, 0);
  CHECK(!fdf_env_dispatcher_has_queued_tasks(dispatcher.fdf));
  told_t later = {{ASYNC_STATE_INIT, nothing, ZX_TIME_INFINITE}, EVENT_INIT};
  OK(async_post_task(dispatcher.async, &later.task));
  CHECK(!fdf_env_dispatcher_has_queued_tasks(dispatcher.fdf));
  fdf_internal_wait_until_all_dispatchers_idle();
  char* dump = NULL;
  fdf_env_dispatcher_get_dump_deprecated(dispatcher.fdf, &dump);
  CHECK(dump != NULL && strstr(dump, "test") != NULL);
  free(dump);
  fdf_env_dispatcher_dump(dispatcher.fdf);
  driver_shut_down(kDriver);
  EQUAL(event_count(&later.told), 1);
  fdf_internal_wait_until_all_dispatchers_destroyed();
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

CLAIMS(CLAIM(it_starts_once), CLAIM(a_reset_joins_all_threads_and_it_starts_again), CLAIM(without_it_nothing_is_made),
       DIES(a_dispatcher_is_left, "there are dispatchers left"),
       DIES(a_running_dispatcher_is_to_be_destroyed, "has not been shut down"),
       DIES(a_reset_in_a_handler, "inside of a driver"), CLAIM(entries_nest_and_are_seen),
       DIES(an_exit_without_an_entry, "fdf_env_register_driver_exit"),
       CLAIM(the_driver_ends_once_after_all_its_dispatchers), CLAIM(an_unknown_driver_cannot_be_shut_down),
       CLAIM(roles_have_limits_and_options), CLAIM(roles_are_enforced_if_that_is_wanted),
       CLAIM(the_threads_of_a_role_come_to_their_limit), CLAIM(stalls_need_no_scan),
       CLAIM(no_table_of_a_host_is_taken_that_does_not_fit),
       CLAIM(a_suspended_driver_holds_back_what_is_not_always_on), CLAIM(tasks_that_are_due_are_told_of))
