// Unmanaged dispatchers, which a test runs by itself.
#include "check.h"

#include <lib/fdf/testing.h>

typedef struct told {
  async_task_t task;
  zx_status_t status;
  pthread_t thread;
  event_t told;
} told_t;

static void tells(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  told_t* told = (told_t*)task;
  told->status = status;
  told->thread = pthread_self();
  event_signal(&told->told);
}

static told_t task_at(zx_time_t deadline) {
  return (told_t){{ASYNC_STATE_INIT, tells, deadline}, 1, 0, EVENT_INIT};
}

static void make(dispatcher_t* dispatcher, const void* driver) {
  memset(dispatcher, 0, sizeof(*dispatcher));
  dispatcher->over = (event_t)EVENT_INIT;
  dispatcher->observer.handler = dispatcher_is_over;
  OK(fdf_testing_create_unmanaged_dispatcher(driver, 0, "unmanaged", 9, &dispatcher->observer, &dispatcher->fdf));
  dispatcher->async = fdf_dispatcher_get_async_dispatcher(dispatcher->fdf);
}

static void nothing_runs_by_itself(void) {
  OK(fdf_env_start(0));
  EQUAL(fdf_testing_run_until_idle(), ZX_ERR_BAD_STATE);
  dispatcher_t dispatcher;
  make(&dispatcher, kDriver);
  told_t first = task_at(0), second = task_at(0);
  OK(async_post_task(dispatcher.async, &first.task));
  OK(async_post_task(dispatcher.async, &second.task));
  EQUAL(event_count(&first.told), 0);
  OK(fdf_testing_run(ZX_TIME_INFINITE, true));
  EQUAL(event_count(&first.told), 1);
  CHECK(pthread_equal(first.thread, pthread_self()));
  OK(fdf_testing_run_until_idle());
  EQUAL(event_count(&second.told), 1);
  OK(fdf_testing_run_until_idle());
  EQUAL(fdf_testing_run(monotonic() + ZX_MSEC(5), false), ZX_ERR_TIMED_OUT);
  // The shutdown is run by the test as well.
  driver_end_t over = {{driver_is_over}, EVENT_INIT};
  told_t canceled = task_at(ZX_TIME_INFINITE);
  OK(async_post_task(dispatcher.async, &canceled.task));
  OK(fdf_env_shutdown_dispatchers_async(kDriver, &over.observer));
  EQUAL(event_count(&dispatcher.over), 0);
  OK(fdf_testing_run_until_idle());
  EQUAL(canceled.status, ZX_ERR_CANCELED);
  EQUAL(event_count(&dispatcher.over), 1);
  event_wait(&over.over, 1);
  EQUAL(fdf_testing_run_until_idle(), ZX_ERR_BAD_STATE);
  EQUAL(fdf_testing_run(ZX_TIME_INFINITE, false), ZX_ERR_BAD_STATE);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

static void timers_keep_to_the_real_clock(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  make(&dispatcher, kDriver);
  // So far away that it is not due when the first run ends, on however slow a machine.
  zx_time_t deadline = monotonic() + ZX_MSEC(500);
  told_t told = task_at(deadline);
  OK(async_post_task(dispatcher.async, &told.task));
  EQUAL(fdf_testing_run(monotonic() + ZX_USEC(10), true), ZX_ERR_TIMED_OUT);
  OK(fdf_testing_run(ZX_TIME_INFINITE, true));
  CHECK(monotonic() >= deadline);
  EQUAL(event_count(&told.told), 1);
  fdf_dispatcher_shutdown_async(dispatcher.fdf);
  OK(fdf_testing_run_until_idle());
  fdf_dispatcher_destroy(dispatcher.fdf);
  fdf_env_reset();
}

static void quits(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  EQUAL(fdf_testing_run(0, false), ZX_ERR_BAD_STATE);
  EQUAL(fdf_testing_reset_quit(), ZX_ERR_BAD_STATE);
  fdf_testing_quit();
}

static void a_quit_ends_runs_until_it_is_taken_back(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  make(&dispatcher, kDriver);
  async_task_t quitting = {ASYNC_STATE_INIT, quits, 0};
  told_t told = task_at(0);
  OK(async_post_task(dispatcher.async, &quitting));
  OK(async_post_task(dispatcher.async, &told.task));
  EQUAL(fdf_testing_run(ZX_TIME_INFINITE, false), ZX_ERR_CANCELED);
  EQUAL(fdf_testing_run_until_idle(), ZX_ERR_CANCELED);
  OK(fdf_testing_reset_quit());
  OK(fdf_testing_run_until_idle());
  EQUAL(event_count(&told.told), 1);
  fdf_dispatcher_shutdown_async(dispatcher.fdf);
  OK(fdf_testing_run_until_idle());
  fdf_dispatcher_destroy(dispatcher.fdf);
  fdf_env_reset();
}

struct poster {
  async_dispatcher_t* async;
  async_task_t* task;
};

static void* posts_later(void* data) {
  struct poster* poster = data;
  usleep(5000);
  OK(async_post_task(poster->async, poster->task));
  return NULL;
}

static void a_run_waits_for_what_other_threads_post(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  make(&dispatcher, kDriver);
  told_t told = task_at(0);
  struct poster poster = {dispatcher.async, &told.task};
  pthread_t thread;
  pthread_create(&thread, NULL, posts_later, &poster);
  OK(fdf_testing_run(ZX_TIME_INFINITE, true));
  pthread_join(thread, NULL);
  EQUAL(event_count(&told.told), 1);
  fdf_dispatcher_shutdown_async(dispatcher.fdf);
  OK(fdf_testing_run_until_idle());
  fdf_dispatcher_destroy(dispatcher.fdf);
  fdf_env_reset();
}

static void set_default(void* data) {
  dispatcher_t* dispatcher = data;
  EQUAL(fdf_testing_set_default_dispatcher(dispatcher->fdf), ZX_ERR_BAD_STATE);
}

static void a_default_is_current_outside_of_everything(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher, managed;
  make(&dispatcher, kDriver);
  dispatcher_make(&managed, kDriver, 0);
  CHECK(fdf_dispatcher_get_current_dispatcher() == NULL);
  OK(fdf_testing_set_default_dispatcher(dispatcher.fdf));
  CHECK(fdf_dispatcher_get_current_dispatcher() == dispatcher.fdf);
  CHECK(fdf_env_get_current_driver() == kDriver);
  run_on(&managed, set_default, &dispatcher);
  // A dispatcher that is made here belongs to its driver, and has threads.
  dispatcher_t made = {{dispatcher_is_over}, NULL, NULL, EVENT_INIT};
  OK(fdf_dispatcher_create(0, "", 0, "", 0, &made.observer, &made.fdf));
  told_t told = task_at(0);
  OK(async_post_task(fdf_dispatcher_get_async_dispatcher(made.fdf), &told.task));
  event_wait(&told.told, 1);
  CHECK(!pthread_equal(told.thread, pthread_self()));
  OK(fdf_testing_set_default_dispatcher(NULL));
  CHECK(fdf_dispatcher_get_current_dispatcher() == NULL);
  // The observer of the driver waits for both kinds.
  driver_end_t over = {{driver_is_over}, EVENT_INIT};
  OK(fdf_env_shutdown_dispatchers_async(kDriver, &over.observer));
  event_wait(&made.over, 1);
  event_wait(&managed.over, 1);
  EQUAL(event_count(&over.over), 0);
  OK(fdf_testing_run_until_idle());
  event_wait(&over.over, 1);
  EQUAL(event_count(&dispatcher.over), 1);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

CLAIMS(CLAIM(nothing_runs_by_itself), CLAIM(timers_keep_to_the_real_clock),
       CLAIM(a_quit_ends_runs_until_it_is_taken_back), CLAIM(a_run_waits_for_what_other_threads_post),
       CLAIM(a_default_is_current_outside_of_everything))
