// Tasks, receivers, sequence ids, defaults.
#include "check.h"

#include <lib/async/paged_vmo.h>
#include <lib/async/trap.h>

typedef struct told {
  async_task_t task;
  zx_status_t status;
  zx_time_t at;
  event_t told;
} told_t;

static void tells(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  told_t* told = (told_t*)task;
  EQUAL(task->state.reserved[0], 0);
  told->status = status;
  told->at = async_now(async);
  event_signal(&told->told);
}

static told_t task_at(zx_time_t deadline) {
  return (told_t){{ASYNC_STATE_INIT, tells, deadline}, 1, 0, EVENT_INIT};
}

static void end(dispatcher_t* dispatcher) {
  dispatcher_end(dispatcher);
  fdf_env_reset();
}

// The observer knows where it is, so the structure must not move.
#define BEGIN(options)   \
  OK(fdf_env_start(0));  \
  dispatcher_t dispatcher; \
  dispatcher_make(&dispatcher, kDriver, options)

static void the_clock_is_the_monotonic_one(void) {
  BEGIN(0);
  zx_time_t before = monotonic();
  zx_time_t now = async_now(dispatcher.async);
  CHECK(before <= now && now <= monotonic());
  end(&dispatcher);
}

static void a_task_runs_once_and_never_before_its_deadline(void) {
  BEGIN(0);
  zx_time_t deadlines[4] = {ZX_TIME_INFINITE_PAST, -5, monotonic() - ZX_SEC(1), monotonic() + ZX_MSEC(30)};
  for (int i = 0; i < 4; i++) {
    told_t told = task_at(deadlines[i]);
    OK(async_post_task(dispatcher.async, &told.task));
    event_wait(&told.told, 1);
    OK(told.status);
    CHECK(told.at >= deadlines[i]);
    EQUAL(async_cancel_task(dispatcher.async, &told.task), ZX_ERR_NOT_FOUND);
  }
  end(&dispatcher);
}

static void a_task_that_is_canceled_does_not_run(void) {
  BEGIN(0);
  told_t told = task_at(monotonic() + ZX_HOUR(1));
  EQUAL(async_cancel_task(dispatcher.async, &told.task), ZX_ERR_NOT_FOUND);
  OK(async_post_task(dispatcher.async, &told.task));
  EQUAL(async_post_task(dispatcher.async, &told.task), ZX_ERR_BAD_STATE);
  OK(async_cancel_task(dispatcher.async, &told.task));
  EQUAL(async_cancel_task(dispatcher.async, &told.task), ZX_ERR_NOT_FOUND);
  EQUAL(told.task.state.reserved[0], 0);
  // Never, unless it is canceled or told of the end.
  told.task.deadline = ZX_TIME_INFINITE;
  OK(async_post_task(dispatcher.async, &told.task));
  dispatcher_t other;
  dispatcher_make(&other, kOther, 0);
  EQUAL(async_cancel_task(other.async, &told.task), ZX_ERR_NOT_FOUND);
  OK(async_cancel_task(dispatcher.async, &told.task));
  OK(async_post_task(dispatcher.async, &told.task));
  dispatcher_end(&other);
  end(&dispatcher);
  EQUAL(event_count(&told.told), 1);
  EQUAL(told.status, ZX_ERR_CANCELED);
}

static void what_was_never_cleared_is_no_task(void) {
  BEGIN(0);
  told_t told = task_at(ZX_TIME_INFINITE_PAST);
  memset(&told.task.state, 0xaa, sizeof(told.task.state));
  EQUAL(async_cancel_task(dispatcher.async, &told.task), ZX_ERR_NOT_FOUND);
  OK(async_post_task(dispatcher.async, &told.task));
  event_wait(&told.told, 1);
  told.task.handler = NULL;
  EQUAL(async_post_task(dispatcher.async, &told.task), ZX_ERR_INVALID_ARGS);
  EQUAL(async_post_task(dispatcher.async, NULL), ZX_ERR_INVALID_ARGS);
  end(&dispatcher);
}

// A task that posts itself until it was called so often, and frees itself then.
typedef struct chain {
  async_task_t task;
  int left;
  event_t* done;
} chain_t;

static void goes_on(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  chain_t* chain = (chain_t*)task;
  OK(status);
  if (--chain->left > 0) {
    task->deadline = chain->left % 2 ? ZX_TIME_INFINITE_PAST : async_now(async) + ZX_USEC(1);
    OK(async_post_task(async, task));
    return;
  }
  event_t* done = chain->done;
  free(chain);
  event_signal(done);
}

static void a_handler_may_post_its_task_again_and_free_it(void) {
  BEGIN(FDF_DISPATCHER_OPTION_UNSYNCHRONIZED);
  event_t done = EVENT_INIT;
  for (int i = 0; i < 50; i++) {
    chain_t* chain = malloc(sizeof(*chain));
    *chain = (chain_t){{ASYNC_STATE_INIT, goes_on, 0}, 100, &done};
    OK(async_post_task(dispatcher.async, &chain->task));
  }
  event_wait(&done, 50);
  end(&dispatcher);
}

struct canceler {
  async_dispatcher_t* async;
  told_t* tasks;
  int count;
  int canceled;
};

static void* cancels_all(void* data) {
  struct canceler* canceler = data;
  for (int i = 0; i < canceler->count; i++) {
    zx_status_t status = async_cancel_task(canceler->async, &canceler->tasks[i].task);
    CHECK(status == ZX_OK || status == ZX_ERR_NOT_FOUND);
    canceler->canceled += status == ZX_OK;
  }
  return NULL;
}

static void a_cancel_and_a_run_never_both_have_a_task(void) {
  BEGIN(0);
  enum { kTasks = 20000 };
  told_t* tasks = calloc(kTasks, sizeof(*tasks));
  struct canceler cancelers[2] = {{dispatcher.async, tasks, kTasks, 0}, {dispatcher.async, tasks, kTasks, 0}};
  pthread_t threads[2];
  for (int i = 0; i < kTasks; i++) {
    tasks[i] = task_at(i % 3 ? ZX_TIME_INFINITE_PAST : monotonic() + ZX_USEC(i));
    OK(async_post_task(dispatcher.async, &tasks[i].task));
  }
  for (int i = 0; i < 2; i++) {
    pthread_create(&threads[i], NULL, cancels_all, &cancelers[i]);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
  }
  dispatcher_end(&dispatcher);
  int ran = 0;
  for (int i = 0; i < kTasks; i++) {
    ran += event_count(&tasks[i].told);
  }
  EQUAL(ran + cancelers[0].canceled + cancelers[1].canceled, kTasks);
  free(tasks);
  fdf_env_reset();
}

static void order_of_deadlines(void) {
  BEGIN(0);
  // Not due before all three are posted.
  zx_time_t soon = monotonic() + ZX_MSEC(500);
  told_t late = task_at(soon + 2000), early = task_at(soon), between = task_at(soon + 1000);
  OK(async_post_task(dispatcher.async, &late.task));
  OK(async_post_task(dispatcher.async, &early.task));
  OK(async_post_task(dispatcher.async, &between.task));
  event_wait(&late.told, 1);
  EQUAL(event_count(&early.told) + event_count(&between.told), 2);
  CHECK(early.at <= between.at && between.at <= late.at);
  end(&dispatcher);
}

typedef struct received {
  async_receiver_t receiver;
  uint64_t sum;
  zx_status_t status;
  event_t told;
} received_t;

static void receives(async_dispatcher_t* async, async_receiver_t* receiver, zx_status_t status,
                     const zx_packet_user_t* data) {
  received_t* received = (received_t*)receiver;
  CHECK(async == fdf_dispatcher_get_async_dispatcher(fdf_dispatcher_get_current_dispatcher()));
  CHECK((status == ZX_OK) == (data != NULL));
  received->status = status;
  received->sum += data ? data->u64[0] + data->u64[3] : 0;
  event_signal(&received->told);
}

static void packets_are_copied_and_delivered(void) {
  BEGIN(0);
  received_t received = {{ASYNC_STATE_INIT, receives}, 0, 1, EVENT_INIT};
  zx_packet_user_t packet = {.u64 = {3, 0, 0, 4}};
  OK(async_queue_packet(dispatcher.async, &received.receiver, &packet));
  packet.u64[0] = 10;
  OK(async_queue_packet(dispatcher.async, &received.receiver, &packet));
  OK(async_queue_packet(dispatcher.async, &received.receiver, NULL));
  event_wait(&received.told, 3);
  EQUAL(received.sum, 21);
  EQUAL(async_queue_packet(dispatcher.async, NULL, NULL), ZX_ERR_INVALID_ARGS);
  dispatcher_end(&dispatcher);
  fdf_env_reset();
}

static async_sequence_id_t id;
static zx_status_t statuses[4];
static const char* texts[4];

static void asks_for_ids(void* data) {
  async_dispatcher_t* other = data;
  async_dispatcher_t* here = async_get_default_dispatcher();
  statuses[0] = async_get_sequence_id(here, &id, &texts[0]);
  statuses[1] = async_check_sequence_id(here, id, &texts[1]);
  statuses[2] = async_check_sequence_id(other, id, &texts[2]);
  async_sequence_id_t wrong = {id.value + 1000};
  statuses[3] = async_check_sequence_id(here, wrong, &texts[3]);
}

static void sequence_ids_tell_whose_handler_runs(void) {
  BEGIN(0);
  dispatcher_t other, loose;
  dispatcher_make(&other, kOther, 0);
  dispatcher_make(&loose, kOther, FDF_DISPATCHER_OPTION_UNSYNCHRONIZED);
  const char* text = NULL;
  EQUAL(async_get_sequence_id(dispatcher.async, &id, &text), ZX_ERR_INVALID_ARGS);
  CHECK(text != NULL);
  run_on(&dispatcher, asks_for_ids, other.async);
  OK(statuses[0]);
  OK(statuses[1]);
  EQUAL(statuses[2], ZX_ERR_INVALID_ARGS);
  EQUAL(statuses[3], ZX_ERR_OUT_OF_RANGE);
  CHECK(texts[0] == NULL && texts[1] == NULL && texts[2] != NULL && texts[3] != NULL);
  async_sequence_id_t first = id;
  run_on(&other, asks_for_ids, dispatcher.async);
  OK(statuses[0]);
  CHECK(first.value != id.value);
  run_on(&loose, asks_for_ids, dispatcher.async);
  EQUAL(statuses[0], ZX_ERR_WRONG_TYPE);
  dispatcher_end(&loose);
  dispatcher_end(&other);
  end(&dispatcher);
}

static void defaults_can_be_set(void) {
  BEGIN(0);
  CHECK(async_get_default_dispatcher() == NULL);
  async_set_default_dispatcher(dispatcher.async);
  CHECK(async_get_default_dispatcher() == dispatcher.async);
  async_set_default_dispatcher(NULL);
  CHECK(async_get_default_dispatcher() == NULL);
  end(&dispatcher);
}

static void what_has_no_meaning_here_is_not_supported(void) {
  BEGIN(0);
  async_guest_bell_trap_t trap = {ASYNC_STATE_INIT, NULL};
  EQUAL(async_set_guest_bell_trap(dispatcher.async, &trap, 0, 0, 0), ZX_ERR_NOT_SUPPORTED);
  async_paged_vmo_t paged = {ASYNC_STATE_INIT, NULL, 0, 0};
  zx_handle_t vmo;
  EQUAL(async_create_paged_vmo(dispatcher.async, &paged, 0, 0, 0, &vmo), ZX_ERR_NOT_SUPPORTED);
  EQUAL(async_detach_paged_vmo(dispatcher.async, &paged), ZX_ERR_NOT_SUPPORTED);
  EQUAL(async_acquire_shared_ref(dispatcher.async), ZX_ERR_NOT_SUPPORTED);
  EQUAL(async_release_shared_ref(dispatcher.async), ZX_ERR_NOT_SUPPORTED);
  // A dispatcher of somebody else, of an older version.
  static const async_ops_t ops = {.version = 1};
  async_dispatcher_t old = {&ops};
  async_irq_t irq = {ASYNC_STATE_INIT, NULL, 0};
  EQUAL(async_bind_irq(&old, &irq), ZX_ERR_NOT_SUPPORTED);
  EQUAL(async_get_sequence_id(&old, &id, NULL), ZX_ERR_NOT_SUPPORTED);
  end(&dispatcher);
}

static void times_add_up_without_going_round(void) {
  EQUAL(zx_time_add_duration(ZX_TIME_INFINITE, ZX_SEC(1)), ZX_TIME_INFINITE);
  EQUAL(zx_time_add_duration(ZX_TIME_INFINITE_PAST, -1), ZX_TIME_INFINITE_PAST);
  EQUAL(zx_time_sub_duration(-2, ZX_TIME_INFINITE), ZX_TIME_INFINITE_PAST);
  EQUAL(zx_time_sub_time(ZX_TIME_INFINITE, -1), ZX_TIME_INFINITE);
  EQUAL(zx_duration_mul_int64(ZX_HOUR(1000000), -1000000), ZX_TIME_INFINITE_PAST);
  EQUAL(zx_duration_add_duration(ZX_MSEC(2), ZX_USEC(3)), 2003000);
}

CLAIMS(CLAIM(the_clock_is_the_monotonic_one), CLAIM(a_task_runs_once_and_never_before_its_deadline),
       CLAIM(a_task_that_is_canceled_does_not_run), CLAIM(what_was_never_cleared_is_no_task),
       CLAIM(a_handler_may_post_its_task_again_and_free_it), CLAIM(a_cancel_and_a_run_never_both_have_a_task),
       CLAIM(order_of_deadlines), CLAIM(packets_are_copied_and_delivered), CLAIM(sequence_ids_tell_whose_handler_runs),
       CLAIM(defaults_can_be_set), CLAIM(what_has_no_meaning_here_is_not_supported),
       CLAIM(times_add_up_without_going_round))
