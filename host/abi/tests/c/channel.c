// Arenas, channels, calls, tokens.
#include "check.h"

#include <lib/fdf/arena.h>
#include <lib/fdf/channel.h>
#include <lib/fdf/handle.h>
#include <lib/fdf/token.h>
#include <zircon/syscalls.h>

static fdf_arena_t* arena_new(void) {
  fdf_arena_t* arena = NULL;
  OK(fdf_arena_create(0, 0x54534554, &arena));
  return arena;
}

static void arenas_hand_out_memory_until_their_last_reference(void) {
  fdf_arena_t* arena = NULL;
  EQUAL(fdf_arena_create(1, 0, &arena), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_arena_create(0, 0, NULL), ZX_ERR_INVALID_ARGS);
  arena = arena_new();
  char* one = fdf_arena_allocate(arena, 10);
  char* large = fdf_arena_allocate(arena, 1000000);
  CHECK(one && large && (uintptr_t)one % 8 == 0 && (uintptr_t)large % 8 == 0);
  memset(one, 1, 10);
  memset(large, 2, 1000000);
  CHECK(fdf_arena_allocate(arena, 0) == NULL);
  CHECK(fdf_arena_contains(arena, one, 10));
  CHECK(fdf_arena_contains(arena, large + 999999, 1));
  CHECK(!fdf_arena_contains(arena, large + 1, 1000000 + 4096));
  CHECK(!fdf_arena_contains(arena, &one, 1));
  CHECK(fdf_arena_contains(arena, NULL, 0));
  fdf_arena_free(arena, one);
  fdf_arena_free(arena, NULL);
  fdf_arena_add_ref(arena);
  fdf_arena_drop_ref(arena);
  EQUAL(large[5], 2);
  fdf_arena_drop_ref(arena);
}

static void foreign_memory_is_freed(void) {
  int mine;
  fdf_arena_free(arena_new(), &mine);
}

struct message {
  fdf_arena_t* arena;
  char* data;
  uint32_t num_bytes;
  zx_handle_t* handles;
  uint32_t num_handles;
};

static zx_status_t message_read(fdf_handle_t channel, struct message* message) {
  *message = (struct message){0};
  return fdf_channel_read(channel, 0, &message->arena, (void**)&message->data, &message->num_bytes, &message->handles,
                          &message->num_handles);
}

static zx_status_t text_write(fdf_handle_t channel, const char* text) {
  fdf_arena_t* arena = arena_new();
  size_t len = strlen(text);
  char* data = fdf_arena_allocate(arena, len);
  if (len) {
    memcpy(data, text, len);
  }
  zx_status_t status = fdf_channel_write(channel, 0, arena, data, len, NULL, 0);
  fdf_arena_drop_ref(arena);
  return status;
}

static void text_is_read(fdf_handle_t channel, const char* text) {
  struct message message;
  OK(message_read(channel, &message));
  EQUAL(message.num_bytes, strlen(text));
  CHECK(memcmp(message.data, text, message.num_bytes) == 0);
  fdf_arena_drop_ref(message.arena);
}

static void messages_arrive_in_order_and_are_not_copied(void) {
  fdf_handle_t near, far;
  EQUAL(fdf_channel_create(1, &near, &far), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_channel_create(0, &near, NULL), ZX_ERR_INVALID_ARGS);
  OK(fdf_channel_create(0, &near, &far));
  EQUAL(near & FDF_HANDLE_FIXED_BITS_MASK, 2);
  struct message message;
  EQUAL(message_read(far, &message), ZX_ERR_SHOULD_WAIT);
  fdf_arena_t* arena = arena_new();
  char* data = fdf_arena_allocate(arena, 6);
  memcpy(data, "first", 6);
  OK(fdf_channel_write(near, 0, arena, data, 6, NULL, 0));
  OK(text_write(near, "second"));
  OK(fdf_channel_write(near, 0, NULL, NULL, 0, NULL, 0));
  // The message stays if it cannot be taken whole.
  void* only_data = NULL;
  EQUAL(fdf_channel_read(far, 0, NULL, &only_data, NULL, NULL, NULL), ZX_ERR_INVALID_ARGS);
  OK(message_read(far, &message));
  CHECK(message.data == data && message.arena != NULL && message.handles == NULL);
  fdf_arena_drop_ref(message.arena);
  fdf_arena_drop_ref(arena);
  fdf_handle_close(near);
  text_is_read(far, "second");
  OK(message_read(far, &message));
  CHECK(message.arena == NULL && message.num_bytes == 0);
  EQUAL(message_read(far, &message), ZX_ERR_PEER_CLOSED);
  EQUAL(text_write(far, "nobody"), ZX_ERR_PEER_CLOSED);
  fdf_handle_close(far);
  EQUAL(text_write(far, "stale"), ZX_ERR_BAD_HANDLE);
  EQUAL(message_read(near, &message), ZX_ERR_BAD_HANDLE);
  fdf_handle_close(FDF_HANDLE_INVALID);
}

static void what_is_refused_leaves_the_handles_where_they_were(void) {
  fdf_handle_t near, far, one, other;
  OK(fdf_channel_create(0, &near, &far));
  OK(fdf_channel_create(0, &one, &other));
  fdf_arena_t* arena = arena_new();
  zx_handle_t outside[1] = {one};
  EQUAL(fdf_channel_write(near, 0, arena, NULL, 0, outside, 1), ZX_ERR_INVALID_ARGS);
  zx_handle_t* handles = fdf_arena_allocate(arena, sizeof(zx_handle_t) * 2);
  char* data = fdf_arena_allocate(arena, 8);
  handles[0] = one;
  handles[1] = one;
  EQUAL(fdf_channel_write(near, 0, arena, data, 8, handles, 2), ZX_ERR_INVALID_ARGS);
  handles[1] = 77;
  EQUAL(fdf_channel_write(near, 0, arena, data, 8, handles, 2), ZX_ERR_INVALID_ARGS);
  handles[1] = near;
  EQUAL(fdf_channel_write(near, 0, arena, data, 8, handles, 2), ZX_ERR_NOT_SUPPORTED);
  handles[1] = far;
  EQUAL(fdf_channel_write(near, 0, arena, data, 8, handles, 2), ZX_ERR_NOT_SUPPORTED);
  EQUAL(fdf_channel_write(near, 0, NULL, data, 8, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_channel_write(near, 0, arena, NULL, 8, NULL, 0), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_channel_write(near, 1, arena, data, 8, NULL, 0), ZX_ERR_INVALID_ARGS);
  // All of them still work.
  OK(text_write(one, "still here"));
  text_is_read(other, "still here");
  // The peer is gone: what was to be sent is closed.
  fdf_handle_close(far);
  EQUAL(fdf_channel_write(near, 0, arena, data, 8, handles, 1), ZX_ERR_PEER_CLOSED);
  EQUAL(text_write(one, "closed"), ZX_ERR_BAD_HANDLE);
  EQUAL(text_write(other, "closed"), ZX_ERR_PEER_CLOSED);
  fdf_handle_close(near);
  fdf_handle_close(other);
  fdf_arena_drop_ref(arena);
}

static void handles_of_both_kinds_travel(void) {
  fdf_handle_t near, far, one, other;
  zx_handle_t event;
  OK(fdf_channel_create(0, &near, &far));
  OK(fdf_channel_create(0, &one, &other));
  OK(zx_event_create(0, &event));
  for (int round = 0; round < 2; round++) {
    fdf_arena_t* arena = arena_new();
    zx_handle_t* handles = fdf_arena_allocate(arena, sizeof(zx_handle_t) * 2);
    handles[0] = one;
    handles[1] = event;
    OK(fdf_channel_write(near, 0, arena, NULL, 0, handles, 2));
    fdf_arena_drop_ref(arena);
    EQUAL(text_write(one, "gone"), ZX_ERR_BAD_HANDLE);
    EQUAL(zx_object_signal(event, 0, 0), ZX_ERR_BAD_HANDLE);
    struct message message;
    OK(message_read(far, &message));
    EQUAL(message.num_handles, 2);
    one = message.handles[0];
    event = message.handles[1];
    fdf_arena_drop_ref(message.arena);
    OK(text_write(one, "moved"));
    text_is_read(other, "moved");
    OK(zx_object_signal(event, 0, ZX_USER_SIGNAL_2));
    OK(zx_object_wait_one(event, ZX_USER_SIGNAL_2, 0, NULL));
  }
  // Nobody reads it, so it ends with the channel.
  fdf_arena_t* arena = arena_new();
  zx_handle_t* handles = fdf_arena_allocate(arena, sizeof(zx_handle_t));
  handles[0] = one;
  OK(fdf_channel_write(near, 0, arena, NULL, 0, handles, 1));
  fdf_arena_drop_ref(arena);
  fdf_handle_close(far);
  EQUAL(text_write(other, "nobody"), ZX_ERR_PEER_CLOSED);
  fdf_handle_close(event);
  EQUAL(zx_handle_close(event), ZX_ERR_BAD_HANDLE);
  fdf_handle_close(near);
  fdf_handle_close(other);
}

static void a_stale_handle_is_closed(void) {
  fdf_handle_t near, far;
  OK(fdf_channel_create(0, &near, &far));
  fdf_handle_close(near);
  fdf_handle_close(near);
}

// A reader that reads all and registers itself again.
typedef struct reader {
  fdf_channel_read_t read;
  zx_status_t last;
  int messages;
  pthread_t thread;
  event_t told;
} reader_t;

static void reads_all(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  reader_t* reader = (reader_t*)read;
  CHECK(fdf_dispatcher_get_current_dispatcher() == dispatcher);
  EQUAL(read->state.reserved[0], 0);
  reader->last = status;
  reader->thread = pthread_self();
  if (status == ZX_OK) {
    struct message message;
    while (message_read(read->channel, &message) == ZX_OK) {
      reader->messages++;
      if (message.arena) {
        fdf_arena_drop_ref(message.arena);
      }
    }
    reader->last = fdf_channel_wait_async(dispatcher, read, 0);
  }
  event_signal(&reader->told);
}

static reader_t reader_of(fdf_handle_t channel) {
  return (reader_t){{ASYNC_STATE_INIT, reads_all, channel, 0}, 1, 0, 0, EVENT_INIT};
}

#define BEGIN(options)     \
  OK(fdf_env_start(0));    \
  dispatcher_t dispatcher; \
  dispatcher_make(&dispatcher, kDriver, options)

static void a_reader_is_told_and_registers_itself_again(void) {
  BEGIN(0);
  fdf_handle_t near, far;
  OK(fdf_channel_create(0, &near, &far));
  reader_t reader = reader_of(far);
  EQUAL(fdf_channel_wait_async(dispatcher.fdf, &reader.read, 8), ZX_ERR_INVALID_ARGS);
  EQUAL(fdf_channel_wait_async(dispatcher.fdf, NULL, 0), ZX_ERR_INVALID_ARGS);
  OK(fdf_channel_wait_async(dispatcher.fdf, &reader.read, 0));
  reader_t second = reader_of(far);
  EQUAL(fdf_channel_wait_async(dispatcher.fdf, &second.read, 0), ZX_ERR_BAD_STATE);
  // Somebody waits on it, so it cannot be given away.
  fdf_arena_t* arena = arena_new();
  zx_handle_t* handles = fdf_arena_allocate(arena, sizeof(zx_handle_t));
  fdf_handle_t one, other;
  OK(fdf_channel_create(0, &one, &other));
  handles[0] = far;
  EQUAL(fdf_channel_write(one, 0, arena, NULL, 0, handles, 1), ZX_ERR_INVALID_ARGS);
  fdf_arena_drop_ref(arena);
  for (int i = 1; i <= 100; i++) {
    OK(text_write(near, "x"));
    event_wait(&reader.told, i);
    OK(reader.last);
    EQUAL(reader.messages, i);
  }
  fdf_handle_close(near);
  event_wait(&reader.told, 101);
  EQUAL(reader.last, ZX_ERR_PEER_CLOSED);
  EQUAL(fdf_channel_wait_async(dispatcher.fdf, &reader.read, 0), ZX_ERR_PEER_CLOSED);
  fdf_handle_close(far);
  dispatcher_end(&dispatcher);
  fdf_handle_close(one);
  fdf_handle_close(other);
  fdf_env_reset();
}

static void a_shutdown_cancels_a_reader(void) {
  BEGIN(0);
  fdf_handle_t near, far;
  OK(fdf_channel_create(0, &near, &far));
  reader_t reader = reader_of(far);
  OK(fdf_channel_wait_async(dispatcher.fdf, &reader.read, 0));
  fdf_dispatcher_shutdown_async(dispatcher.fdf);
  event_wait(&dispatcher.over, 1);
  EQUAL(reader.last, ZX_ERR_CANCELED);
  EQUAL(fdf_channel_wait_async(dispatcher.fdf, &reader.read, 0), ZX_ERR_UNAVAILABLE);
  fdf_dispatcher_destroy(dispatcher.fdf);
  fdf_handle_close(near);
  fdf_handle_close(far);
  fdf_env_reset();
}

static zx_status_t statuses[3];

static void cancels(void* data) {
  fdf_handle_t channel = *(fdf_handle_t*)data;
  statuses[0] = fdf_channel_cancel_wait(channel);
  statuses[1] = fdf_channel_cancel_wait(channel);
}

static void a_wait_is_canceled_at_once_on_its_dispatcher_or_later(void) {
  BEGIN(0);
  fdf_handle_t near, far;
  OK(fdf_channel_create(0, &near, &far));
  reader_t reader = reader_of(far);
  EQUAL(fdf_channel_cancel_wait(far), ZX_ERR_NOT_FOUND);
  OK(fdf_channel_wait_async(dispatcher.fdf, &reader.read, 0));
  EQUAL(fdf_channel_cancel_wait(far), ZX_ERR_BAD_STATE);
  run_on(&dispatcher, cancels, &far);
  OK(statuses[0]);
  EQUAL(statuses[1], ZX_ERR_NOT_FOUND);
  EQUAL(event_count(&reader.told), 0);
  // By force: the handler is told.
  OK(fdf_channel_wait_async(dispatcher.fdf, &reader.read, FDF_CHANNEL_WAIT_OPTION_FORCE_ASYNC_CANCEL));
  OK(fdf_channel_cancel_wait(far));
  event_wait(&reader.told, 1);
  EQUAL(reader.last, ZX_ERR_CANCELED);
  dispatcher_t loose;
  dispatcher_make(&loose, kOther, FDF_DISPATCHER_OPTION_UNSYNCHRONIZED);
  OK(fdf_channel_wait_async(loose.fdf, &reader.read, 0));
  OK(fdf_channel_cancel_wait(far));
  event_wait(&reader.told, 2);
  EQUAL(reader.last, ZX_ERR_CANCELED);
  OK(text_write(near, "kept"));
  text_is_read(far, "kept");
  dispatcher_end(&loose);
  dispatcher_end(&dispatcher);
  fdf_handle_close(near);
  fdf_handle_close(far);
  fdf_env_reset();
}

static void a_channel_with_a_wait_is_closed(void) {
  BEGIN(0);
  fdf_handle_t near, far;
  OK(fdf_channel_create(0, &near, &far));
  reader_t reader = reader_of(far);
  OK(fdf_channel_wait_async(dispatcher.fdf, &reader.read, 0));
  fdf_handle_close(far);
}

struct inline_call {
  fdf_handle_t near;
  reader_t* reader;
  int before, after;
};

static void writes(void* data) {
  struct inline_call* call = data;
  call->before = event_count(&call->reader->told);
  OK(text_write(call->near, "inline"));
  call->after = event_count(&call->reader->told);
}

static void a_message_to_another_driver_that_is_idle_is_handled_before_the_write_returns(void) {
  BEGIN(0);
  dispatcher_t other;
  dispatcher_make(&other, kOther, 0);
  fdf_handle_t near, far;
  OK(fdf_channel_create(0, &near, &far));
  reader_t reader = reader_of(far);
  OK(fdf_channel_wait_async(other.fdf, &reader.read, 0));
  struct inline_call call = {near, &reader, 0, 0};
  run_on(&dispatcher, writes, &call);
  EQUAL(call.after, call.before + 1);
  fdf_handle_close(near);
  event_wait(&reader.told, call.after + 1);
  dispatcher_end(&other);
  dispatcher_end(&dispatcher);
  fdf_handle_close(far);
  fdf_env_reset();
}

// A server that answers each request with its bytes, the first after the id doubled; the last request of a batch comes first.
typedef struct server {
  fdf_channel_read_t read;
  struct message kept[8];
  int count, batch;
  event_t told;
} server_t;

static void serves(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  server_t* server = (server_t*)read;
  if (status != ZX_OK) {
    event_signal(&server->told);
    return;
  }
  struct message message;
  while (message_read(read->channel, &message) == ZX_OK) {
    uint32_t id;
    memcpy(&id, message.data, 4);
    CHECK(id >= 0x80000000u);
    server->kept[server->count++] = message;
  }
  if (server->count == server->batch) {
    while (server->count > 0) {
      struct message* request = &server->kept[--server->count];
      char* reply = fdf_arena_allocate(request->arena, request->num_bytes);
      memcpy(reply, request->data, request->num_bytes);
      reply[4] *= 2;
      OK(fdf_channel_write(read->channel, 0, request->arena, reply, request->num_bytes, request->handles,
                           request->num_handles));
      fdf_arena_drop_ref(request->arena);
    }
  }
  OK(fdf_channel_wait_async(dispatcher, read, 0));
}

static zx_status_t call_with(fdf_handle_t channel, char value, zx_time_t deadline, char* answer) {
  fdf_arena_t* arena = arena_new();
  char* data = fdf_arena_allocate(arena, 5);
  memset(data, 0, 4);
  data[4] = value;
  struct message reply = {0};
  fdf_channel_call_args_t args = {
      .wr_arena = arena,
      .wr_data = data,
      .wr_num_bytes = 5,
      .rd_arena = &reply.arena,
      .rd_data = (void**)&reply.data,
      .rd_num_bytes = &reply.num_bytes,
      .rd_handles = &reply.handles,
      .rd_num_handles = &reply.num_handles,
  };
  zx_status_t status = fdf_channel_call(channel, 0, deadline, &args);
  if (status == ZX_OK) {
    EQUAL(reply.num_bytes, 5);
    *answer = reply.data[4];
    fdf_arena_drop_ref(reply.arena);
  }
  fdf_arena_drop_ref(arena);
  return status;
}

struct caller {
  fdf_handle_t channel;
  char value;
};

static void* calls(void* data) {
  struct caller* caller = data;
  char answer = 0;
  OK(call_with(caller->channel, caller->value, ZX_TIME_INFINITE, &answer));
  EQUAL(answer, caller->value * 2);
  return NULL;
}

static void forbidden(void* data) {
  char answer;
  EQUAL(call_with(*(fdf_handle_t*)data, 1, ZX_TIME_INFINITE, &answer), ZX_ERR_BAD_STATE);
}

static void allowed(void* data) {
  char answer;
  OK(call_with(*(fdf_handle_t*)data, 21, ZX_TIME_INFINITE, &answer));
  EQUAL(answer, 42);
}

static void calls_get_the_reply_with_their_id(void) {
  BEGIN(0);
  fdf_handle_t near, far;
  OK(fdf_channel_create(0, &near, &far));
  server_t server = {{ASYNC_STATE_INIT, serves, far, 0}, {{0}}, 0, 1, EVENT_INIT};
  OK(fdf_channel_wait_async(dispatcher.fdf, &server.read, 0));
  char answer = 0;
  OK(call_with(near, 4, monotonic() + ZX_SEC(60), &answer));
  EQUAL(answer, 8);
  // Several at once, answered the other way round.
  server.batch = 4;
  pthread_t threads[4];
  struct caller callers[4];
  for (int i = 0; i < 4; i++) {
    callers[i] = (struct caller){near, (char)(i + 1)};
    pthread_create(&threads[i], NULL, calls, &callers[i]);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
  }
  server.batch = 1;
  dispatcher_t plain, blocking;
  dispatcher_make(&plain, kOther, 0);
  dispatcher_make(&blocking, kOther, FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS);
  run_on(&plain, forbidden, &near);
  run_on(&blocking, allowed, &near);
  EQUAL(fdf_channel_call(near, 0, 0, NULL), ZX_ERR_INVALID_ARGS);
  fdf_channel_call_args_t too_short = {.wr_num_bytes = 3};
  EQUAL(fdf_channel_call(near, 0, 0, &too_short), ZX_ERR_INVALID_ARGS);
  driver_shut_down(kOther);
  // Nobody answers.
  fdf_handle_t one, other;
  OK(fdf_channel_create(0, &one, &other));
  EQUAL(call_with(one, 1, monotonic() + ZX_MSEC(5), &answer), ZX_ERR_TIMED_OUT);
  EQUAL(call_with(one, 1, ZX_TIME_INFINITE_PAST, &answer), ZX_ERR_TIMED_OUT);
  struct message request;
  OK(message_read(other, &request));
  fdf_arena_drop_ref(request.arena);
  OK(message_read(other, &request));
  fdf_arena_drop_ref(request.arena);
  fdf_handle_close(other);
  EQUAL(call_with(one, 1, ZX_TIME_INFINITE, &answer), ZX_ERR_PEER_CLOSED);
  fdf_handle_close(one);
  fdf_handle_close(near);
  event_wait(&server.told, 1);
  fdf_handle_close(far);
  driver_shut_down(kDriver);
  fdf_env_destroy_all_dispatchers();
  fdf_env_reset();
}

typedef struct rendezvous {
  fdf_token_t token;
  zx_status_t status;
  fdf_handle_t handle;
  event_t told;
} rendezvous_t;

static void is_given(fdf_dispatcher_t* dispatcher, fdf_token_t* token, zx_status_t status, fdf_handle_t handle) {
  rendezvous_t* rendezvous = (rendezvous_t*)token;
  CHECK(fdf_dispatcher_get_current_dispatcher() == dispatcher);
  rendezvous->status = status;
  rendezvous->handle = handle;
  event_signal(&rendezvous->told);
}

static void tokens_bring_drivers_together_whoever_comes_first(void) {
  BEGIN(0);
  zx_handle_t one, other;
  fdf_handle_t near, far, received = 0;
  for (int first = 0; first < 2; first++) {
    rendezvous_t rendezvous = {{is_given}, 1, 0, EVENT_INIT};
    OK(zx_channel_create(0, &one, &other));
    OK(fdf_channel_create(0, &near, &far));
    if (first == 0) {
      OK(fdf_token_register(one, dispatcher.fdf, &rendezvous.token));
      OK(fdf_token_transfer(other, far));
    } else {
      OK(fdf_token_transfer(other, far));
      OK(fdf_token_register(one, dispatcher.fdf, &rendezvous.token));
    }
    event_wait(&rendezvous.told, 1);
    OK(rendezvous.status);
    OK(text_write(near, "hello"));
    text_is_read(rendezvous.handle, "hello");
    EQUAL(zx_handle_close(one), ZX_ERR_BAD_HANDLE);
    EQUAL(zx_handle_close(other), ZX_ERR_BAD_HANDLE);
    fdf_handle_close(rendezvous.handle);
    fdf_handle_close(near);
  }
  OK(zx_channel_create(0, &one, &other));
  OK(fdf_channel_create(0, &near, &far));
  OK(fdf_token_transfer(one, far));
  OK(fdf_token_receive(other, &received));
  OK(text_write(near, "taken"));
  text_is_read(received, "taken");
  fdf_handle_close(received);
  fdf_handle_close(near);
  dispatcher_end(&dispatcher);
  fdf_env_reset();
}

static void tokens_see_the_end_of_their_peers(void) {
  BEGIN(0);
  zx_handle_t one, other, event;
  fdf_handle_t near, far, received;
  rendezvous_t rendezvous = {{is_given}, 1, 9, EVENT_INIT};
  // Closed before.
  OK(zx_channel_create(0, &one, &other));
  OK(zx_handle_close(other));
  OK(fdf_token_register(one, dispatcher.fdf, &rendezvous.token));
  event_wait(&rendezvous.told, 1);
  EQUAL(rendezvous.status, ZX_ERR_CANCELED);
  EQUAL(rendezvous.handle, FDF_HANDLE_INVALID);
  // Closed after.
  OK(zx_channel_create(0, &one, &other));
  OK(fdf_token_register(one, dispatcher.fdf, &rendezvous.token));
  OK(zx_handle_close(other));
  event_wait(&rendezvous.told, 2);
  EQUAL(rendezvous.status, ZX_ERR_CANCELED);
  // The channel is closed with it.
  OK(zx_channel_create(0, &one, &other));
  OK(fdf_channel_create(0, &near, &far));
  OK(zx_handle_close(one));
  OK(fdf_token_transfer(other, far));
  EQUAL(text_write(near, "nobody"), ZX_ERR_PEER_CLOSED);
  fdf_handle_close(near);
  // Mistakes, which take what they are given.
  OK(zx_event_create(0, &event));
  OK(fdf_channel_create(0, &near, &far));
  EQUAL(fdf_token_transfer(event, far), ZX_ERR_BAD_HANDLE);
  EQUAL(zx_handle_close(event), ZX_ERR_BAD_HANDLE);
  EQUAL(text_write(near, "nobody"), ZX_ERR_PEER_CLOSED);
  OK(zx_channel_create(0, &one, &other));
  EQUAL(fdf_token_transfer(one, FDF_HANDLE_INVALID), ZX_ERR_BAD_HANDLE);
  EQUAL(fdf_token_receive(other, NULL), ZX_ERR_INVALID_ARGS);
  OK(zx_channel_create(0, &one, &other));
  EQUAL(fdf_token_receive(one, &received), ZX_ERR_NOT_FOUND);
  EQUAL(fdf_token_register(other, dispatcher.fdf, NULL), ZX_ERR_INVALID_ARGS);
  // The shutdown is told last.
  OK(zx_channel_create(0, &one, &other));
  OK(fdf_token_register(one, dispatcher.fdf, &rendezvous.token));
  dispatcher_end(&dispatcher);
  EQUAL(event_count(&rendezvous.told), 3);
  EQUAL(rendezvous.status, ZX_ERR_CANCELED);
  OK(zx_handle_close(other));
  fdf_handle_close(near);
  fdf_env_reset();
}

typedef struct again {
  fdf_token_t token;
  zx_handle_t next;
  zx_status_t registered;
  event_t told;
} again_t;

static void registers_itself_again(fdf_dispatcher_t* dispatcher, fdf_token_t* token, zx_status_t status,
                                   fdf_handle_t handle) {
  again_t* again = (again_t*)token;
  zx_handle_t next = again->next;
  again->next = ZX_HANDLE_INVALID;
  CHECK(status == (next == ZX_HANDLE_INVALID ? ZX_ERR_CANCELED : ZX_OK));
  if (next != ZX_HANDLE_INVALID) {
    again->registered = fdf_token_register(next, dispatcher, token);
  }
  fdf_handle_close(handle);
  event_signal(&again->told);
}

static void a_handler_is_registered_once_at_a_time(void) {
  BEGIN(0);
  zx_handle_t one, other, second, its_peer, third, of_third;
  fdf_handle_t near, far, kept, sent;
  OK(zx_channel_create(0, &one, &other));
  OK(zx_channel_create(0, &second, &its_peer));
  OK(zx_channel_create(0, &third, &of_third));
  OK(fdf_channel_create(0, &near, &far));
  OK(fdf_channel_create(0, &kept, &sent));
  again_t again = {{registers_itself_again}, third, 1, EVENT_INIT};
  OK(fdf_token_register(one, dispatcher.fdf, &again.token));
  // It waits, so it cannot wait for another one; what it is given is taken all the same.
  EQUAL(fdf_token_register(second, dispatcher.fdf, &again.token), ZX_ERR_BAD_STATE);
  EQUAL(zx_handle_close(second), ZX_ERR_BAD_HANDLE);
  OK(fdf_token_transfer(its_peer, sent));
  EQUAL(text_write(kept, "nobody"), ZX_ERR_PEER_CLOSED);
  fdf_handle_close(kept);
  // The registration that stands is told, and may register itself within its handler.
  OK(fdf_token_transfer(other, far));
  event_wait(&again.told, 1);
  OK(again.registered);
  fdf_handle_close(near);
  OK(zx_handle_close(of_third));
  event_wait(&again.told, 2);
  dispatcher_end(&dispatcher);
  EQUAL(event_count(&again.told), 2);
  fdf_env_reset();
}

static void a_refused_handler_is_free_at_once(void) {
  BEGIN(0);
  zx_handle_t one, other;
  fdf_handle_t near, far;
  rendezvous_t first = {{is_given}, 1, 0, EVENT_INIT}, second = {{is_given}, 1, 0, EVENT_INIT};
  OK(zx_channel_create(0, &one, &other));
  OK(fdf_token_register(one, dispatcher.fdf, &first.token));
  // Both ends wait, which is refused, for the first of them too: its peer is gone.
  EQUAL(fdf_token_register(other, dispatcher.fdf, &second.token), ZX_ERR_BAD_STATE);
  event_wait(&first.told, 1);
  EQUAL(first.status, ZX_ERR_CANCELED);
  OK(zx_channel_create(0, &one, &other));
  OK(fdf_channel_create(0, &near, &far));
  OK(fdf_token_register(one, dispatcher.fdf, &second.token));
  OK(fdf_token_transfer(other, far));
  event_wait(&second.told, 1);
  OK(second.status);
  fdf_handle_close(second.handle);
  fdf_handle_close(near);
  dispatcher_end(&dispatcher);
  fdf_env_reset();
}

CLAIMS(CLAIM(arenas_hand_out_memory_until_their_last_reference), DIES(foreign_memory_is_freed, "not of the arena"),
       CLAIM(messages_arrive_in_order_and_are_not_copied), CLAIM(what_is_refused_leaves_the_handles_where_they_were),
       CLAIM(handles_of_both_kinds_travel), DIES(a_stale_handle_is_closed, "fdf_handle_close"),
       CLAIM(a_reader_is_told_and_registers_itself_again), CLAIM(a_shutdown_cancels_a_reader),
       CLAIM(a_wait_is_canceled_at_once_on_its_dispatcher_or_later),
       DIES(a_channel_with_a_wait_is_closed, "a wait is registered"),
       CLAIM(a_message_to_another_driver_that_is_idle_is_handled_before_the_write_returns),
       CLAIM(calls_get_the_reply_with_their_id), CLAIM(tokens_bring_drivers_together_whoever_comes_first),
       CLAIM(tokens_see_the_end_of_their_peers), CLAIM(a_handler_is_registered_once_at_a_time),
       CLAIM(a_refused_handler_is_free_at_once))
