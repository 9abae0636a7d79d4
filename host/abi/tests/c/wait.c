// Handles, signals, waits, interrupts, wake vectors.
#include "check.h"

#include <fuchsine/handle.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <zircon/syscalls.h>

#define BEGIN(options)     \
  OK(fdf_env_start(0));    \
  dispatcher_t dispatcher; \
  dispatcher_make(&dispatcher, kDriver, options)

static void end(dispatcher_t* dispatcher) {
  dispatcher_end(dispatcher);
  fdf_env_reset();
}

typedef struct told {
  async_wait_t wait;
  zx_status_t status;
  zx_packet_signal_t signal;
  event_t told;
} told_t;

static void tells(async_dispatcher_t* async, async_wait_t* wait, zx_status_t status, const zx_packet_signal_t* signal) {
  told_t* told = (told_t*)wait;
  CHECK(fdf_dispatcher_get_async_dispatcher(fdf_dispatcher_get_current_dispatcher()) == async);
  CHECK((status == ZX_OK) == (signal != NULL));
  told->status = status;
  if (signal) {
    told->signal = *signal;
  }
  event_signal(&told->told);
}

static told_t wait_for(zx_handle_t object, zx_signals_t trigger, uint32_t options) {
  return (told_t){{ASYNC_STATE_INIT, tells, object, trigger, options}, 1, {0}, EVENT_INIT};
}

static void handles_are_numbers_of_their_own(void) {
  zx_handle_t event, copy;
  OK(zx_event_create(0, &event));
  EQUAL(event & ZX_HANDLE_FIXED_BITS_MASK, 3);
  OK(zx_handle_duplicate(event, ZX_RIGHT_SAME_RIGHTS, &copy));
  CHECK(copy != event);
  OK(zx_handle_close(event));
  EQUAL(zx_handle_close(event), ZX_ERR_BAD_HANDLE);
  OK(zx_object_signal(copy, 0, ZX_EVENT_SIGNALED | ZX_USER_SIGNAL_3));
  zx_signals_t seen = 0;
  OK(zx_object_wait_one(copy, ZX_USER_SIGNAL_3, 0, &seen));
  EQUAL(seen, ZX_EVENT_SIGNALED | ZX_USER_SIGNAL_3);
  EQUAL(zx_object_signal(copy, 0, ZX_OBJECT_READABLE), ZX_ERR_INVALID_ARGS);
  EQUAL(zx_object_signal(event, 0, 0), ZX_ERR_BAD_HANDLE);
  OK(zx_handle_close(copy));
  OK(zx_handle_close(ZX_HANDLE_INVALID));
  for (zx_handle_t stray = 1; stray < 20; stray++) {
    EQUAL(zx_handle_close(stray), ZX_ERR_BAD_HANDLE);
  }
  EQUAL(zx_event_create(1, &event), ZX_ERR_INVALID_ARGS);
  EQUAL(zx_event_create(0, NULL), ZX_ERR_INVALID_ARGS);
  CHECK(strcmp(zx_status_get_string(ZX_ERR_PEER_CLOSED), "ZX_ERR_PEER_CLOSED") == 0);
  CHECK(strcmp(zx_status_get_string(1), "(UNKNOWN)") == 0);
}

static void there_is_an_end_of_handles(void) {
  zx_handle_t* events = calloc(70000, sizeof(*events));
  int made = 0;
  while (zx_event_create(0, &events[made]) == ZX_OK) {
    made++;
    CHECK(made < 70000);
  }
  EQUAL(made, 65536);
  OK(zx_handle_close(events[7]));
  OK(zx_event_create(0, &events[7]));
  zx_handle_t none;
  EQUAL(zx_event_create(0, &none), ZX_ERR_NO_RESOURCES);
  free(events);
}

static void an_event_ends_a_wait_for_it(void) {
  BEGIN(0);
  zx_handle_t event;
  OK(zx_event_create(0, &event));
  told_t told = wait_for(event, ZX_EVENT_SIGNALED, ZX_WAIT_ASYNC_TIMESTAMP);
  OK(async_begin_wait(dispatcher.async, &told.wait));
  EQUAL(async_begin_wait(dispatcher.async, &told.wait), ZX_ERR_BAD_STATE);
  OK(zx_object_signal(event, 0, ZX_USER_SIGNAL_0));
  EQUAL(event_count(&told.told), 0);
  zx_time_t before = monotonic();
  OK(zx_object_signal(event, 0, ZX_EVENT_SIGNALED));
  event_wait(&told.told, 1);
  OK(told.status);
  EQUAL(told.signal.trigger, ZX_EVENT_SIGNALED);
  EQUAL(told.signal.observed, ZX_EVENT_SIGNALED | ZX_USER_SIGNAL_0);
  EQUAL(told.signal.count, 1);
  CHECK(told.signal.timestamp >= before);
  EQUAL(async_cancel_wait(dispatcher.async, &told.wait), ZX_ERR_NOT_FOUND);
  // It is still set, so a further wait is told at once.
  told.wait.options = 0;
  OK(async_begin_wait(dispatcher.async, &told.wait));
  event_wait(&told.told, 2);
  EQUAL(told.signal.timestamp, 0);
  OK(zx_object_signal(event, ZX_EVENT_SIGNALED, 0));
  OK(async_begin_wait(dispatcher.async, &told.wait));
  OK(async_cancel_wait(dispatcher.async, &told.wait));
  EQUAL(async_cancel_wait(dispatcher.async, &told.wait), ZX_ERR_NOT_FOUND);
  OK(zx_object_signal(event, 0, ZX_EVENT_SIGNALED));
  told.wait.options = ZX_WAIT_ASYNC_EDGE;
  EQUAL(async_begin_wait(dispatcher.async, &told.wait), ZX_ERR_NOT_SUPPORTED);
  told.wait.options = 64;
  EQUAL(async_begin_wait(dispatcher.async, &told.wait), ZX_ERR_INVALID_ARGS);
  told.wait.options = 0;
  told.wait.object = 5;
  EQUAL(async_begin_wait(dispatcher.async, &told.wait), ZX_ERR_BAD_HANDLE);
  EQUAL(event_count(&told.told), 2);
  OK(zx_handle_close(event));
  end(&dispatcher);
}

static void a_shutdown_cancels_waits(void) {
  BEGIN(0);
  zx_handle_t event;
  OK(zx_event_create(0, &event));
  told_t told = wait_for(event, ZX_EVENT_SIGNALED | ZX_USER_SIGNAL_1, 0);
  OK(async_begin_wait(dispatcher.async, &told.wait));
  dispatcher_end(&dispatcher);
  EQUAL(told.status, ZX_ERR_CANCELED);
  EQUAL(event_count(&told.told), 1);
  OK(zx_handle_close(event));
  fdf_env_reset();
}

static void a_pair_of_events_sees_its_peer_go(void) {
  BEGIN(0);
  zx_handle_t one, other;
  OK(zx_eventpair_create(0, &one, &other));
  told_t told = wait_for(one, ZX_EVENTPAIR_PEER_CLOSED, 0);
  OK(async_begin_wait(dispatcher.async, &told.wait));
  EQUAL(zx_object_wait_one(one, ZX_EVENTPAIR_PEER_CLOSED, monotonic() + ZX_MSEC(2), NULL), ZX_ERR_TIMED_OUT);
  OK(zx_handle_close(other));
  event_wait(&told.told, 1);
  EQUAL(told.signal.observed, ZX_EVENTPAIR_PEER_CLOSED);
  OK(zx_handle_close(one));
  end(&dispatcher);
}

static void a_channel_tells_messages_and_then_that_its_peer_is_gone(void) {
  BEGIN(0);
  zx_handle_t near, far, copy;
  OK(zx_channel_create(0, &near, &far));
  EQUAL(zx_handle_duplicate(near, ZX_RIGHT_SAME_RIGHTS, &copy), ZX_ERR_ACCESS_DENIED);
  char bytes[16];
  uint32_t count = 9, handles = 9;
  EQUAL(zx_channel_read(near, 0, bytes, NULL, sizeof(bytes), 0, &count, &handles), ZX_ERR_SHOULD_WAIT);
  told_t told = wait_for(near, ZX_CHANNEL_READABLE, 0);
  OK(async_begin_wait(dispatcher.async, &told.wait));
  OK(zx_channel_write(far, 0, "hello", 5, NULL, 0));
  event_wait(&told.told, 1);
  EQUAL(told.signal.observed & (ZX_CHANNEL_READABLE | ZX_CHANNEL_WRITABLE | ZX_CHANNEL_PEER_CLOSED),
        ZX_CHANNEL_READABLE | ZX_CHANNEL_WRITABLE);
  // Data is there all the time, and it is not what is waited for.
  told_t gone = wait_for(near, ZX_CHANNEL_PEER_CLOSED, 0);
  OK(async_begin_wait(dispatcher.async, &gone.wait));
  OK(zx_channel_write(far, 0, NULL, 0, NULL, 0));
  EQUAL(zx_channel_read(near, 0, bytes, NULL, 4, 0, &count, &handles), ZX_ERR_BUFFER_TOO_SMALL);
  EQUAL(count, 5);
  EQUAL(event_count(&gone.told), 0);
  OK(zx_handle_close(far));
  event_wait(&gone.told, 1);
  CHECK(gone.signal.observed & ZX_CHANNEL_READABLE);
  OK(zx_channel_read(near, 0, bytes, NULL, sizeof(bytes), 0, &count, &handles));
  EQUAL(count, 5);
  CHECK(memcmp(bytes, "hello", 5) == 0);
  OK(zx_channel_read(near, 0, bytes, NULL, sizeof(bytes), 0, &count, &handles));
  EQUAL(count, 0);
  EQUAL(zx_channel_read(near, 0, bytes, NULL, sizeof(bytes), 0, &count, &handles), ZX_ERR_PEER_CLOSED);
  EQUAL(zx_channel_write(near, 0, "x", 1, NULL, 0), ZX_ERR_PEER_CLOSED);
  // Nothing is left to read, and nothing will come: that is no reason to say that there is.
  told_t never = wait_for(near, ZX_CHANNEL_READABLE, 0);
  OK(async_begin_wait(dispatcher.async, &never.wait));
  usleep(50000);
  EQUAL(event_count(&never.told), 0);
  OK(async_cancel_wait(dispatcher.async, &never.wait));
  EQUAL(zx_channel_write(near, 0, NULL, 5, NULL, 0), ZX_ERR_INVALID_ARGS);
  OK(zx_handle_close(near));
  end(&dispatcher);
}

static void descriptors_become_objects(void) {
  BEGIN(0);
  int ends[2];
  EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  zx_handle_t socket, file;
  OK(fuchsine_handle_from_fd(ends[0], &socket));
  EQUAL(fuchsine_handle_from_fd(-1, &file), ZX_ERR_INVALID_ARGS);
  EQUAL(fuchsine_handle_from_fd(1000000, &file), ZX_ERR_INVALID_ARGS);
  told_t told = wait_for(socket, ZX_SOCKET_READABLE, 0);
  OK(async_begin_wait(dispatcher.async, &told.wait));
  EQUAL(write(ends[1], "x", 1), 1);
  event_wait(&told.told, 1);
  CHECK(told.signal.observed & ZX_SOCKET_READABLE);
  EQUAL(shutdown(ends[1], SHUT_WR), 0);
  zx_signals_t seen = 0;
  OK(zx_object_wait_one(socket, ZX_SOCKET_PEER_WRITE_DISABLED, monotonic() + ZX_SEC(30), &seen));
  CHECK(seen & ZX_SOCKET_READABLE);
  close(ends[1]);
  OK(zx_object_wait_one(socket, ZX_SOCKET_PEER_CLOSED, monotonic() + ZX_SEC(30), &seen));
  int copy = fuchsine_handle_dup_fd(socket);
  CHECK(copy >= 0);
  close(copy);
  OK(zx_handle_close(socket));
  EQUAL(fuchsine_handle_dup_fd(socket), -1);
  // A regular file cannot be waited for.
  char path[] = "/tmp/fuchsine-test-XXXXXX";
  int fd = mkstemp(path);
  unlink(path);
  OK(fuchsine_handle_from_fd(fd, &file));
  told_t denied = wait_for(file, ZX_OBJECT_READABLE, 0);
  EQUAL(async_begin_wait(dispatcher.async, &denied.wait), ZX_ERR_ACCESS_DENIED);
  EQUAL(denied.wait.state.reserved[0], 0);
  OK(zx_handle_close(file));
  end(&dispatcher);
}

typedef struct counted {
  async_irq_t irq;
  int unbind_at;
  int canceled;
  zx_status_t unbound;
  event_t told;
} counted_t;

static void counts(async_dispatcher_t* async, async_irq_t* irq, zx_status_t status,
                   const zx_packet_interrupt_t* signal) {
  counted_t* counted = (counted_t*)irq;
  CHECK((status == ZX_OK) == (signal != NULL));
  if (status != ZX_OK) {
    EQUAL(status, ZX_ERR_CANCELED);
    counted->canceled++;
    return;
  }
  CHECK(signal->timestamp > 0);
  if (event_count(&counted->told) + 1 == counted->unbind_at) {
    counted->unbound = async_unbind_irq(async, irq);
  }
  event_signal(&counted->told);
}

static void an_interrupt_is_told_each_time_until_it_is_unbound(void) {
  BEGIN(0);
  int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  zx_handle_t object;
  OK(fuchsine_handle_from_fd(dup(fd), &object));
  counted_t counted = {{ASYNC_STATE_INIT, counts, object}, 7, 0, 1, EVENT_INIT};
  OK(async_bind_irq(dispatcher.async, &counted.irq));
  EQUAL(async_bind_irq(dispatcher.async, &counted.irq), ZX_ERR_BAD_STATE);
  eventfd_write(fd, 3);
  event_wait(&counted.told, 3);
  eventfd_write(fd, 1);
  event_wait(&counted.told, 4);
  EQUAL(async_unbind_irq(dispatcher.async, &counted.irq), ZX_ERR_BAD_STATE);
  eventfd_write(fd, 100);
  event_wait(&counted.told, 7);
  dispatcher_end(&dispatcher);
  OK(counted.unbound);
  EQUAL(event_count(&counted.told), 7);
  EQUAL(counted.canceled, 0);
  OK(zx_handle_close(object));
  fdf_env_reset();
}

static void an_event_can_be_an_interrupt_and_the_shutdown_tells_it(void) {
  BEGIN(0);
  zx_handle_t event, one, other;
  OK(zx_event_create(0, &event));
  counted_t counted = {{ASYNC_STATE_INIT, counts, event}, 0, 0, 1, EVENT_INIT};
  OK(async_bind_irq(dispatcher.async, &counted.irq));
  for (int i = 1; i <= 50; i++) {
    OK(zx_object_signal(event, 0, ZX_EVENT_SIGNALED));
    event_wait(&counted.told, i);
  }
  dispatcher_t loose;
  dispatcher_make(&loose, kOther, FDF_DISPATCHER_OPTION_UNSYNCHRONIZED);
  counted_t refused = {{ASYNC_STATE_INIT, counts, event}, 0, 0, 1, EVENT_INIT};
  EQUAL(async_bind_irq(loose.async, &refused.irq), ZX_ERR_NOT_SUPPORTED);
  OK(zx_eventpair_create(0, &one, &other));
  refused.irq.object = one;
  EQUAL(async_bind_irq(dispatcher.async, &refused.irq), ZX_ERR_WRONG_TYPE);
  EQUAL(async_unbind_irq(dispatcher.async, &refused.irq), ZX_ERR_NOT_FOUND);
  dispatcher_end(&loose);
  dispatcher_end(&dispatcher);
  EQUAL(counted.canceled, 1);
  OK(zx_handle_close(event));
  OK(zx_handle_close(one));
  OK(zx_handle_close(other));
  fdf_env_reset();
}

static event_t suspended = EVENT_INIT;
static event_t requested = EVENT_INIT;

static void is_suspended(fdf_env_suspend_completer_t* completer) { event_signal(&suspended); }

static zx_status_t requests(fdf_env_resume_requester_t* requester) {
  event_signal(&requested);
  return ZX_OK;
}

static void a_wake_vector_asks_for_the_resume(void) {
  BEGIN(0);
  zx_handle_t event, other;
  OK(zx_event_create(0, &event));
  OK(zx_event_create(0, &other));
  fdf_env_resume_requester_t requester = {requests};
  fdf_env_register_resume_requester(kDriver, &requester);
  EQUAL(fdf_dispatcher_unregister_wake_vector(dispatcher.fdf, event, 0), ZX_ERR_NOT_FOUND);
  OK(fdf_dispatcher_register_wake_vector(dispatcher.fdf, event, ZX_EVENT_SIGNALED));
  EQUAL(fdf_dispatcher_register_wake_vector(dispatcher.fdf, 1, ZX_EVENT_SIGNALED), ZX_ERR_BAD_HANDLE);
  told_t wakes = wait_for(event, ZX_EVENT_SIGNALED, 0), sleeps = wait_for(other, ZX_EVENT_SIGNALED, 0);
  OK(async_begin_wait(dispatcher.async, &wakes.wait));
  OK(async_begin_wait(dispatcher.async, &sleeps.wait));
  fdf_env_suspend_completer_t completer = {is_suspended};
  fdf_env_driver_suspend(kDriver, &completer);
  event_wait(&suspended, 1);
  EQUAL(fdf_dispatcher_register_wake_vector(dispatcher.fdf, other, ZX_EVENT_SIGNALED), ZX_ERR_BAD_STATE);
  OK(zx_object_signal(other, 0, ZX_EVENT_SIGNALED));
  usleep(20000);
  EQUAL(event_count(&requested), 0);
  OK(zx_object_signal(event, 0, ZX_EVENT_SIGNALED));
  event_wait(&requested, 1);
  EQUAL(event_count(&wakes.told) + event_count(&sleeps.told), 0);
  fdf_env_driver_resume(kDriver);
  event_wait(&wakes.told, 1);
  event_wait(&sleeps.told, 1);
  OK(fdf_dispatcher_unregister_wake_vector(dispatcher.fdf, event, 0));
  EQUAL(fdf_dispatcher_unregister_wake_vector(dispatcher.fdf, event, 0), ZX_ERR_NOT_FOUND);
  OK(zx_handle_close(event));
  OK(zx_handle_close(other));
  end(&dispatcher);
}

CLAIMS(CLAIM(handles_are_numbers_of_their_own), CLAIM(there_is_an_end_of_handles), CLAIM(an_event_ends_a_wait_for_it),
       CLAIM(a_shutdown_cancels_waits), CLAIM(a_pair_of_events_sees_its_peer_go),
       CLAIM(a_channel_tells_messages_and_then_that_its_peer_is_gone), CLAIM(descriptors_become_objects),
       CLAIM(an_interrupt_is_told_each_time_until_it_is_unbound),
       CLAIM(an_event_can_be_an_interrupt_and_the_shutdown_tells_it), CLAIM(a_wake_vector_asks_for_the_resume))
