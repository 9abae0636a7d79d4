// Dispatchers: creation, what is current, shutdown, destruction.
#include "check.h"

static void creation_refuses_what_makes_no_sense(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  EQUAL(dispatcher_try(&dispatcher, kDriver,
                       FDF_DISPATCHER_OPTION_UNSYNCHRONIZED | FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS),
        ZX_ERR_NOT_SUPPORTED);
  EQUAL(dispatcher_try(&dispatcher, kDriver, 1u << 7), ZX_ERR_INVALID_ARGS);
  EQUAL(dispatcher_try(&dispatcher, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQUAL(event_count(&dispatcher.over), 0);
  fdf_dispatcher_t* out = NULL;
  fdf_dispatcher_shutdown_observer_t without_handler = {NULL};
  EQUAL(fdf_env_dispatcher_create_with_owner(kDriver, 0, "", 0, "", 0, &without_handler, &out), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_env_dispatcher_create_with_owner(kDriver, 0, "", 0, "", 0, NULL, NULL), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_env_dispatcher_create_with_owner(kDriver, 0, NULL, 3, "", 0, NULL, &out), ZX_ERR_INVALID_ARGS);
  // Outside of any driver.
  EQUAL(fdf_dispatcher_create(0, "", 0, "", 0, &dispatcher.observer, &out), ZX_ERR_INVALID_ARGS);
  CHECK(out == NULL);
  OK(fdf_env_dispatcher_create_with_owner(kDriver, 0, NULL, 0, NULL, 0, NULL, &out));
  driver_shut_down(kDriver);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

struct made {
  dispatcher_t* outer;
  dispatcher_t inner;
  zx_status_t without_observer;
};

static void makes_another(void* data) {
  struct made* made = data;
  CHECK(fdf_dispatcher_get_current_dispatcher() == made->outer->fdf);
  CHECK(async_get_default_dispatcher() == made->outer->async);
  CHECK(fdf_env_get_current_driver() == kDriver);
  fdf_dispatcher_t* out = NULL;
  made->without_observer = fdf_dispatcher_create(0, "", 0, "", 0, NULL, &out);
  made->inner = (dispatcher_t){{dispatcher_is_over}, NULL, NULL, EVENT_INIT};
  OK(fdf_dispatcher_create(FDF_DISPATCHER_OPTION_UNSYNCHRONIZED, "inner", 5, "", 0, &made->inner.observer,
                           &made->inner.fdf));
  made->inner.async = fdf_dispatcher_get_async_dispatcher(made->inner.fdf);
}

static void is_inner(void* data) {
  struct made* made = data;
  CHECK(fdf_dispatcher_get_current_dispatcher() == made->inner.fdf);
  CHECK(fdf_env_get_current_driver() == kDriver);
}

static void a_handler_has_its_dispatcher_current_and_makes_others(void) {
  OK(fdf_env_start(0));
  dispatcher_t outer;
  dispatcher_make(&outer, kDriver, 0);
  struct made made = {.outer = &outer};
  run_on(&outer, makes_another, &made);
  EQUAL(made.without_observer, ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_dispatcher_get_options(made.inner.fdf), FDF_DISPATCHER_OPTION_UNSYNCHRONIZED);
  run_on(&made.inner, is_inner, &made);
  CHECK(fdf_dispatcher_get_current_dispatcher() == NULL);
  driver_shut_down(kDriver);
  EQUAL(event_count(&made.inner.over), 1);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

static void both_interfaces_lead_to_each_other(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
  CHECK(fdf_dispatcher_downcast_async_dispatcher(dispatcher.async) == dispatcher.fdf);
  EQUAL(fdf_dispatcher_get_options(dispatcher.fdf), FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
  EQUAL(dispatcher.async->ops->version, ASYNC_OPS_V3);
  dispatcher_end(&dispatcher);
  fdf_env_reset();
}

static zx_time_t some_time(async_dispatcher_t* dispatcher) { return 5; }

static void a_foreign_async_dispatcher(void) {
  static const async_ops_t ops = {.version = 1, .v1 = {.now = some_time}};
  async_dispatcher_t foreign = {&ops};
  EQUAL(async_now(&foreign), 5);
  fdf_dispatcher_downcast_async_dispatcher(&foreign);
}

static void destroyed_too_early(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, 0);
  fdf_dispatcher_destroy(dispatcher.fdf);
}

struct order {
  async_task_t task;
  dispatcher_t* dispatcher;
  int* place;
  int was;
  zx_status_t status;
  zx_status_t repost;
};

static void in_order(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  struct order* order = (struct order*)task;
  CHECK(async == order->dispatcher->async);
  CHECK(fdf_dispatcher_get_current_dispatcher() == order->dispatcher->fdf);
  order->was = ++*order->place;
  order->status = status;
  EQUAL(event_count(&order->dispatcher->over), 0);
  order->repost = async_post_task(async, task);
}

static event_t hold = EVENT_INIT;
static event_t holds = EVENT_INIT;

static void holds_up(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  event_signal(&holds);
  event_wait(&hold, 1);
}

static void a_shutdown_tells_everything_that_is_pending_and_the_observer_last(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, 0);
  async_task_t holding = {ASYNC_STATE_INIT, holds_up, ZX_TIME_INFINITE_PAST};
  OK(async_post_task(dispatcher.async, &holding));
  event_wait(&holds, 1);
  int place = 0;
  struct order orders[6];
  zx_time_t deadlines[6] = {ZX_TIME_INFINITE_PAST, 0, ZX_TIME_INFINITE, monotonic() + ZX_HOUR(2),
                            monotonic() + ZX_HOUR(1), ZX_TIME_INFINITE_PAST};
  for (int i = 0; i < 6; i++) {
    orders[i] = (struct order){{ASYNC_STATE_INIT, in_order, deadlines[i]}, &dispatcher, &place, 0, 1, 1};
    OK(async_post_task(dispatcher.async, &orders[i].task));
  }
  fdf_dispatcher_shutdown_async(dispatcher.fdf);
  fdf_dispatcher_shutdown_async(dispatcher.fdf);
  async_task_t late = {ASYNC_STATE_INIT, holds_up, 0};
  EQUAL(async_post_task(dispatcher.async, &late), ZX_ERR_BAD_STATE);
  EQUAL(late.state.reserved[0], 0);
  event_signal(&hold);
  event_wait(&dispatcher.over, 1);
  // Ready ones as they were queued, then by deadline.
  static const int expected[6] = {1, 2, 6, 5, 4, 3};
  for (int i = 0; i < 6; i++) {
    EQUAL(orders[i].status, ZX_ERR_CANCELED);
    EQUAL(orders[i].repost, ZX_ERR_BAD_STATE);
    EQUAL(orders[i].was, expected[i]);
  }
  fdf_dispatcher_destroy(dispatcher.fdf);
  fdf_env_reset();
}

typedef struct destroys {
  fdf_dispatcher_shutdown_observer_t observer;
  event_t over;
} destroys_t;

static void destroys_it(fdf_dispatcher_t* fdf, fdf_dispatcher_shutdown_observer_t* observer) {
  CHECK(fdf_dispatcher_get_current_dispatcher() == fdf);
  fdf_dispatcher_destroy(fdf);
  CHECK(fdf_dispatcher_get_current_dispatcher() == NULL);
  event_signal(&((destroys_t*)observer)->over);
}

static void it_may_be_destroyed_in_its_observer(void) {
  OK(fdf_env_start(0));
  for (int round = 0; round < 200; round++) {
    destroys_t destroys = {{destroys_it}, EVENT_INIT};
    fdf_dispatcher_t* fdf = NULL;
    OK(fdf_env_dispatcher_create_with_owner(kDriver, 0, "", 0, "", 0, &destroys.observer, &fdf));
    fdf_dispatcher_shutdown_async(fdf);
    event_wait(&destroys.over, 1);
  }
  driver_shut_down(kDriver);
  fdf_env_reset();
}

static void is_used_after_it_was_destroyed(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, 0);
  dispatcher_end(&dispatcher);
  // A table of functions that is not there any more, in memory that is still C's.
  static uint64_t remains[32];
  fdf_dispatcher_shutdown_async((fdf_dispatcher_t*)remains);
}

static void is_null(void) { fdf_dispatcher_get_options(NULL); }

static zx_status_t seals[4];

static void seals_it(void* data) {
  fdf_dispatcher_t* fdf = fdf_dispatcher_get_current_dispatcher();
  seals[0] = fdf_dispatcher_seal(fdf, FDF_DISPATCHER_OPTION_UNSYNCHRONIZED);
  seals[1] = fdf_dispatcher_seal(fdf, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
  seals[2] = fdf_dispatcher_seal(fdf, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
}

static void a_seal_is_for_good_and_made_inside(void) {
  OK(fdf_env_start(0));
  dispatcher_t dispatcher;
  dispatcher_make(&dispatcher, kDriver, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
  EQUAL(fdf_dispatcher_seal(dispatcher.fdf, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS), ZX_ERR_BAD_STATE);
  run_on(&dispatcher, seals_it, NULL);
  EQUAL(seals[0], ZX_ERR_INVALID_ARGS);
  OK(seals[1]);
  EQUAL(seals[2], ZX_ERR_ALREADY_EXISTS);
  EQUAL(fdf_dispatcher_get_options(dispatcher.fdf), FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
  dispatcher_end(&dispatcher);
  fdf_env_reset();
}

CLAIMS(CLAIM(creation_refuses_what_makes_no_sense), CLAIM(a_handler_has_its_dispatcher_current_and_makes_others),
       CLAIM(both_interfaces_lead_to_each_other), DIES(a_foreign_async_dispatcher, "no dispatcher of this runtime"),
       DIES(destroyed_too_early, "has not shut down"),
       CLAIM(a_shutdown_tells_everything_that_is_pending_and_the_observer_last),
       CLAIM(it_may_be_destroyed_in_its_observer), DIES(is_used_after_it_was_destroyed, "no dispatcher of this runtime"),
       DIES(is_null, "the dispatcher is NULL"), CLAIM(a_seal_is_for_good_and_made_inside))
