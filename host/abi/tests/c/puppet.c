// A driver that does what a test says, by way of a service of its child: the first byte of each message is what to do with the rest.
//
//   'n' and a message: writes it to the channel of the node   'c' and the same: calls, from a dispatcher that may block
//   'h' and a message: writes it to that of the host          'q': closes the channel of the host   'z': closes that of the node
//
// What comes on the channel of the node, and the answers to calls, go back as they are. The configuration says how it starts.

#include <fuchsine/driver.h>
#include <lib/async/task.h>
#include <lib/driver/symbols/symbols.h>
#include <lib/fdf/env.h>
#include <stdio.h>
#include <stdlib.h>

FUCHSINE_DRIVER_NOTE(
    "name = 'puppet'\n"
    "[config]\n"
    "mode = { default = 'answer', doc = 'answer, refuse, close, garble, other, silent, early' }\n"
    "mark = { kind = 'path', doc = 'a file that gets a line for each destroy' }\n"
    "stubborn = { kind = 'boolean', default = 'false', doc = 'never stops' }\n"
    "list = { kind = 'list', doc = 'two items' }\n");

typedef struct puppet {
  fdf_dispatcher_t* dispatcher;
  fdf_channel_read_t host, node, test;
  char* mark;
  bool is_stubborn;
  // Handlers that have not been told their end: none may be left when it is destroyed.
  int waits;
  fdf_dispatcher_t* calls;
  fdf_dispatcher_shutdown_observer_t calls_ended;
} puppet_t;

typedef struct call {
  async_task_t task;
  puppet_t* self;
  fdf_arena_t* arena;
  void* data;
  uint32_t num_bytes;
} call_t;

#define OWNER(pointer, type, field) ((type*)((char*)(pointer) - offsetof(type, field)))

static void await(puppet_t* self, fdf_channel_read_t* read) {
  if (fdf_channel_wait_async(self->dispatcher, read, 0) == ZX_OK) {
    self->waits++;
  }
}

static void cancel(puppet_t* self, fdf_channel_read_t* read) {
  if (fdf_channel_cancel_wait(read->channel) == ZX_OK) {
    self->waits--;
  }
}

static void end(fdf_channel_read_t* read) {
  if (read->channel != FDF_HANDLE_INVALID) {
    fdf_handle_close(read->channel);
    read->channel = FDF_HANDLE_INVALID;
  }
}

static void on_calls_ended(fdf_dispatcher_t* dispatcher, fdf_dispatcher_shutdown_observer_t* observer) {
  OWNER(observer, puppet_t, calls_ended)->calls = NULL;
  fdf_dispatcher_destroy(dispatcher);
}

// Writes bytes of a message that lie in this arena.
static void pass(fdf_handle_t channel, fdf_arena_t* arena, void* data, uint32_t num_bytes, zx_handle_t* handles,
                 uint32_t num_handles) {
  if (channel != FDF_HANDLE_INVALID) {
    fdf_channel_write(channel, 0, arena, data, num_bytes, handles, num_handles);
  }
}

static void run_call(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  call_t* call = OWNER(task, call_t, task);
  fdf_arena_t* arena = NULL;
  void* data = NULL;
  uint32_t num_bytes = 0, num_handles = 0;
  zx_handle_t* handles = NULL;
  fdf_channel_call_args_t args = {.wr_arena = call->arena,
                                  .wr_data = call->data,
                                  .wr_num_bytes = call->num_bytes,
                                  .rd_arena = &arena,
                                  .rd_data = &data,
                                  .rd_num_bytes = &num_bytes,
                                  .rd_handles = &handles,
                                  .rd_num_handles = &num_handles};
  if (status == ZX_OK &&
      fdf_channel_call(call->self->node.channel, 0, ZX_TIME_INFINITE, &args) == ZX_OK) {
    pass(call->self->test.channel, arena, data, num_bytes, handles, num_handles);
    fdf_arena_drop_ref(arena);
  }
  fdf_arena_drop_ref(call->arena);
  free(call);
}

static void do_as_told(puppet_t* self, fdf_arena_t* arena, char* data, uint32_t num_bytes) {
  // A message begins at a multiple of 4.
  switch (num_bytes == 0 ? '\0' : data[0]) {
    case 'n':
      pass(self->node.channel, arena, data + 4, num_bytes - 4, NULL, 0);
      break;
    case 'h':
      pass(self->host.channel, arena, data + 4, num_bytes - 4, NULL, 0);
      break;
    case 'c': {
      call_t* call = calloc(1, sizeof(*call));
      *call = (call_t){.task = {.handler = run_call, .deadline = ZX_TIME_INFINITE_PAST},
                       .self = self,
                       .arena = arena,
                       .data = data + 4,
                       .num_bytes = num_bytes - 4};
      fdf_arena_add_ref(arena);
      async_post_task(fdf_dispatcher_get_async_dispatcher(self->calls), &call->task);
      break;
    }
    case 'q':
      cancel(self, &self->host);
      end(&self->host);
      break;
    case 'z':
      cancel(self, &self->node);
      end(&self->node);
      break;
  }
}

static void on_test(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  puppet_t* self = OWNER(read, puppet_t, test);
  self->waits--;
  while (status == ZX_OK) {
    fdf_arena_t* arena = NULL;
    void* data = NULL;
    uint32_t num_bytes = 0;
    status = fdf_channel_read(read->channel, 0, &arena, &data, &num_bytes, NULL, NULL);
    if (status == ZX_OK) {
      do_as_told(self, arena, data, num_bytes);
    }
    if (arena != NULL) {
      fdf_arena_drop_ref(arena);
    }
  }
  if (status == ZX_ERR_SHOULD_WAIT) {
    await(self, read);
  }
}

static void on_node(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  puppet_t* self = OWNER(read, puppet_t, node);
  self->waits--;
  while (status == ZX_OK) {
    fuchsine_received_t received;
    status = fuchsine_message_read(read->channel, &received);
    if (status != ZX_OK) {
      break;
    }
    const char* service = fuchsine_message_text(received.message, 1);
    if (received.message->ordinal == FUCHSINE_NODE_CONNECTED && strcmp(service, "puppet") == 0) {
      self->test.channel = received.handle;
      self->test.handler = on_test;
      received.handle = ZX_HANDLE_INVALID;
      await(self, &self->test);
    } else {
      uint32_t bytes = sizeof(fuchsine_message_t);
      for (uint32_t n = 0; n < received.message->text_count; n++) {
        bytes += sizeof(fuchsine_text_t) + strlen(fuchsine_message_text(received.message, n)) + 1;
      }
      zx_handle_t* handle = fdf_arena_allocate(received.arena, sizeof(*handle));
      *handle = received.handle;
      pass(self->test.channel, received.arena, (void*)received.message, bytes, handle,
           received.handle != ZX_HANDLE_INVALID);
      received.handle = ZX_HANDLE_INVALID;
    }
    fuchsine_received_end(&received);
  }
  if (status == ZX_ERR_SHOULD_WAIT) {
    await(self, read);
  }
}

static const char* setting(const fuchsine_message_t* start, const char* key) {
  const char* value = fuchsine_start_config(start, key);
  return value != NULL ? value : "";
}

static void start(puppet_t* self, fuchsine_received_t* received) {
  const fuchsine_message_t* request = received->message;
  const char* mode = setting(request, "mode");
  self->is_stubborn = strcmp(setting(request, "stubborn"), "true") == 0;
  self->mark = strdup(setting(request, "mark"));
  self->node.handler = on_node;
  self->node.channel = received->handle;
  received->handle = ZX_HANDLE_INVALID;
  await(self, &self->node);
  if (strcmp(mode, "refuse") == 0) {
    fuchsine_message_answer(self->host.channel, request, ZX_ERR_NOT_FOUND, "there are no strings");
    end(&self->host);
  } else if (strcmp(mode, "close") == 0) {
    end(&self->host);
  } else if (strcmp(mode, "garble") == 0) {
    char* bytes = fdf_arena_allocate(received->arena, 3);
    pass(self->host.channel, received->arena, bytes, 3, NULL, 0);
  } else if (strcmp(mode, "other") == 0) {
    fuchsine_message_write(self->host.channel, 1, 77, 0, NULL, 0, ZX_HANDLE_INVALID);
  } else if (strcmp(mode, "silent") != 0) {
    const char* child[] = {"puppet", "class", "puppet", "puppet", "other"};
    fuchsine_message_write(self->node.channel, 0, FUCHSINE_NODE_ADD_CHILD, 1, child, 5, ZX_HANDLE_INVALID);
    const char* colour = fuchsine_start_property(request, "colour");
    char line[256];
    snprintf(line, sizeof(line), "name %s node %s property %s list %s of %u texts", fuchsine_message_text(request, 0),
             fuchsine_message_text(request, 1), colour != NULL ? colour : "none", setting(request, "list"),
             request->text_count);
    fuchsine_node_log(self->node.channel, FUCHSINE_LOG_INFO, line);
    fuchsine_message_answer(self->host.channel, request, ZX_OK, NULL);
  }
}

static void on_host(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  puppet_t* self = OWNER(read, puppet_t, host);
  self->waits--;
  while (status == ZX_OK) {
    fuchsine_received_t received;
    status = fuchsine_message_read(read->channel, &received);
    if (status != ZX_OK) {
      break;
    }
    if (received.message->ordinal == FUCHSINE_DRIVER_START) {
      start(self, &received);
      status = read->channel == FDF_HANDLE_INVALID ? ZX_ERR_STOP : ZX_OK;
    } else if (received.message->ordinal == FUCHSINE_DRIVER_STOP && !self->is_stubborn) {
      status = ZX_ERR_STOP;
    }
    fuchsine_received_end(&received);
  }
  if (status == ZX_ERR_SHOULD_WAIT) {
    await(self, read);
  } else {
    end(&self->host);
  }
}

static void* initialize(fdf_handle_t server_handle) {
  puppet_t* self = calloc(1, sizeof(*self));
  self->dispatcher = fdf_dispatcher_get_current_dispatcher();
  self->host.handler = on_host;
  self->host.channel = server_handle;
  self->calls_ended.handler = on_calls_ended;
  fdf_dispatcher_create(FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS, "calls", 5, "", 0, &self->calls_ended, &self->calls);
  await(self, &self->host);
  return self;
}

static void destroy(void* token) {
  puppet_t* self = token;
  end(&self->host);
  end(&self->node);
  end(&self->test);
  FILE* mark = self->mark != NULL && self->mark[0] != '\0' ? fopen(self->mark, "a") : NULL;
  if (mark != NULL) {
    bool is_over = self->waits == 0 && self->calls == NULL && fdf_dispatcher_get_current_dispatcher() == NULL;
    fprintf(mark, "destroyed %s\n", is_over ? "when all was over" : "early");
    fclose(mark);
  }
  free(self->mark);
  free(self);
}

EXPORT_FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy);
