// A driver that does what drivers must not, one key each: in C what `drivers-examples/misbehaver` is in Rust. That it has been
// clumsy it says in the host's log; that it blocks or closes, on standard error, since a line of the log needs the dispatcher.
// Compiled with CLUMSY_INITIALIZE it blocks in `initialize`, where there is no configuration yet.

#include <fuchsine/driver.h>
#include <lib/async/task.h>
#include <lib/async/time.h>
#include <lib/driver/symbols/symbols.h>
#include <lib/fdf/env.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

FUCHSINE_DRIVER_NOTE(
    "name = 'clumsy'\n"
    "[config]\n"
    "block = { default = 'never', doc = 'blocks its thread in: start, task, canceled, stop or destroy' }\n"
    "leak = { kind = 'boolean', default = 'false', doc = 'never gives back memory and one of each kind of handle' }\n"
    "threads = { kind = 'integer', default = '0', doc = 'threads that it starts and leaves behind' }\n"
    "post = { kind = 'boolean', default = 'false', doc = 'each task posts the next, also when it is canceled' }\n"
    "close = { default = 'nothing', doc = 'closes while it runs: node, or everything' }\n");

typedef struct clumsy {
  fdf_dispatcher_t* dispatcher;
  fdf_channel_read_t host;
  fdf_handle_t node;
  char block[16], close[16];
  bool leaks, posts;
  int threads, rounds;
  async_task_t task, never;
  fdf_dispatcher_shutdown_observer_t leaked;
} clumsy_t;

#define OWNER(pointer, type, field) ((type*)((char*)(pointer) - offsetof(type, field)))

static void end(fdf_handle_t* handle) {
  if (*handle != FDF_HANDLE_INVALID) {
    fdf_handle_close(*handle);
    *handle = FDF_HANDLE_INVALID;
  }
}

static void say(clumsy_t* self, const char* line) {
  if (self->node != FDF_HANDLE_INVALID) {
    fuchsine_node_log(self->node, FUCHSINE_LOG_WARN, line);
  }
}

static void sleep_for_ever(void) {
  for (;;) {
    pause();
  }
}

static void block(void) {
  fprintf(stderr, "blocks its thread\n");
  sleep_for_ever();
}

static void block_in(clumsy_t* self, const char* moment) {
  if (strcmp(self->block, moment) == 0) {
    block();
  }
}

static void* left_behind(void* unused) {
  sleep_for_ever();
  return unused;
}

static void on_leaked(fdf_dispatcher_t* dispatcher, fdf_dispatcher_shutdown_observer_t* observer) {}

static void leak(clumsy_t* self) {
  fdf_handle_t one, other;
  fdf_arena_t* arena;
  fdf_dispatcher_t* dispatcher;
  memset(malloc(1 << 20), 0xa5, 1 << 20);
  fdf_channel_create(0, &one, &other);
  fdf_arena_create(0, 0, &arena);
  fdf_arena_allocate(arena, 10000);
  self->leaked.handler = on_leaked;
  fdf_dispatcher_create(0, "leaked", 6, "", 0, &self->leaked, &dispatcher);
}

static void run_never(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  block_in(OWNER(task, clumsy_t, never), "canceled");
}

static void run_task(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  clumsy_t* self = OWNER(task, clumsy_t, task);
  if (self->posts) {
    // Refused once the dispatcher shuts down, which is its end.
    async_post_task(async, task);
    return;
  }
  if (status != ZX_OK) {
    return;
  }
  // What the end of the start has still to do on this dispatcher comes first.
  if (self->rounds++ < 8) {
    async_post_task(async, task);
    return;
  }
  block_in(self, "task");
  if (self->leaks) {
    leak(self);
  }
  for (int n = 0; n < self->threads; n++) {
    pthread_t thread;
    char name[32];
    snprintf(name, sizeof(name), "left-behind-%d", n);
    if (pthread_create(&thread, NULL, left_behind, NULL) == 0) {
      pthread_setname_np(thread, name);
    }
  }
  if (strcmp(self->close, "nothing") == 0) {
    say(self, "is clumsy");
  } else {
    fprintf(stderr, "closes %s\n", self->close);
  }
  if (strcmp(self->close, "node") == 0 || strcmp(self->close, "everything") == 0) {
    end(&self->node);
  }
  if (strcmp(self->close, "everything") == 0) {
    fdf_channel_cancel_wait(self->host.channel);
    end(&self->host.channel);
    fdf_dispatcher_shutdown_async(self->dispatcher);
  }
}

static const char* setting(const fuchsine_message_t* start, const char* key) {
  const char* value = fuchsine_start_config(start, key);
  return value != NULL ? value : "";
}

static void start(clumsy_t* self, fuchsine_received_t* received) {
  const fuchsine_message_t* request = received->message;
  self->node = received->handle;
  received->handle = ZX_HANDLE_INVALID;
  snprintf(self->block, sizeof(self->block), "%s", setting(request, "block"));
  snprintf(self->close, sizeof(self->close), "%s", setting(request, "close"));
  self->leaks = strcmp(setting(request, "leak"), "true") == 0;
  self->posts = strcmp(setting(request, "post"), "true") == 0;
  self->threads = atoi(setting(request, "threads"));
  block_in(self, "start");
  // Before the tasks, which may keep anybody from hearing it.
  fuchsine_message_answer(self->host.channel, request, ZX_OK, NULL);
  async_dispatcher_t* async = fdf_dispatcher_get_async_dispatcher(self->dispatcher);
  self->task = (async_task_t){.handler = run_task, .deadline = ZX_TIME_INFINITE_PAST};
  self->never = (async_task_t){.handler = run_never, .deadline = ZX_TIME_INFINITE};
  async_post_task(async, &self->never);
  async_post_task(async, &self->task);
  if (self->posts) {
    say(self, "is clumsy");
  }
}

static void on_host(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  clumsy_t* self = OWNER(read, clumsy_t, host);
  while (status == ZX_OK) {
    fuchsine_received_t received;
    status = fuchsine_message_read(read->channel, &received);
    if (status != ZX_OK) {
      break;
    }
    if (received.message->ordinal == FUCHSINE_DRIVER_START) {
      start(self, &received);
    } else if (received.message->ordinal == FUCHSINE_DRIVER_STOP) {
      block_in(self, "stop");
      status = ZX_ERR_STOP;
    }
    fuchsine_received_end(&received);
  }
  if (status == ZX_ERR_SHOULD_WAIT) {
    fdf_channel_wait_async(self->dispatcher, read, 0);
  } else {
    end(&read->channel);
  }
}

static void* initialize(fdf_handle_t server_handle) {
#ifdef CLUMSY_INITIALIZE
  block();
#endif
  clumsy_t* self = calloc(1, sizeof(*self));
  self->dispatcher = fdf_dispatcher_get_current_dispatcher();
  self->host.handler = on_host;
  self->host.channel = server_handle;
  fdf_channel_wait_async(self->dispatcher, &self->host, 0);
  return self;
}

static void destroy(void* token) {
  clumsy_t* self = token;
  block_in(self, "destroy");
  end(&self->host.channel);
  end(&self->node);
  if (!self->leaks) {
    free(self);
  }
}

EXPORT_FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy);
