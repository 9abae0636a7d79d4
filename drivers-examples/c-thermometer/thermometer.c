// c-thermometer: a driver in plain C.
//
// It reads a temperature from a file, such as /sys/class/thermal/thermal_zone0/temp, and serves it to other drivers. Two
// dispatchers share the work, as a chip and its driver do:
//
// - "chip" measures at each interval, by a timer. When the temperature crosses the limit, it raises the alert line, an eventfd.
// - The default dispatcher has the channels: that of the driver, that of its node, those of clients. The alert line is bound to it
//   as an interrupt, whose handler tells the clients that watch.
//
// Nothing is ended by hand. To stop, the driver closes the channel by which it was asked to; then the host shuts its dispatchers
// down, and every handler that still waits is told ZX_ERR_CANCELED, which is where what belongs to it is closed and freed. What both
// dispatchers use goes in `destroy`, when neither runs any more.
//
// A structure of the library that an operation is pending on is cleared before its first use; here calloc does it.

#include "thermometer.h"

#include <errno.h>
#include <fcntl.h>
#include <fuchsine/driver.h>
#include <fuchsine/handle.h>
#include <inttypes.h>
#include <lib/async/irq.h>
#include <lib/async/task.h>
#include <lib/async/time.h>
#include <lib/driver/symbols/symbols.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zircon/syscalls.h>

FUCHSINE_DRIVER_NOTE(
    "name = 'c-thermometer'\n"
    "version = '0.1.0'\n"
    "doc = 'serves the temperature that a file has'\n"
    "[config]\n"
    "source = { kind = 'path', required = true, doc = 'a file with thousandths of a degree' }\n"
    "interval = { kind = 'duration', default = '1s', doc = 'how often to measure' }\n"
    "limit = { kind = 'integer', doc = 'above so many thousandths there is an alarm' }\n");

// What was measured last.
typedef struct reading {
  zx_status_t status;
  int32_t millidegrees;
  zx_time_t time;
  bool is_above;
} reading_t;

typedef struct client client_t;

typedef struct thermometer {
  fdf_dispatcher_t* dispatcher;
  fdf_channel_read_t from_host;
  fdf_channel_read_t from_node;

  // From the configuration, not changed after the start.
  char* source;
  zx_duration_t interval;
  bool has_limit;
  int32_t limit;

  // The chip's own.
  fdf_dispatcher_t* chip;
  fdf_dispatcher_shutdown_observer_t chip_ended;
  async_task_t measuring;
  int alert_fd;

  // Both dispatchers'.
  pthread_mutex_t lock;
  reading_t reading;

  // The default dispatcher's.
  async_irq_t alert;
  client_t* clients;
} thermometer_t;

struct client {
  fdf_channel_read_t read;
  thermometer_t* thermometer;
  client_t* next;
  bool watches;
};

#define OWNER(pointer, type, field) ((type*)((char*)(pointer) - offsetof(type, field)))

static void log_line(thermometer_t* self, int32_t level, const char* line) {
  if (self->from_node.channel != FDF_HANDLE_INVALID) {
    fuchsine_node_log(self->from_node.channel, level, line);
  }
}

// ---- The chip ----

static reading_t measure(thermometer_t* self, zx_time_t now) {
  reading_t reading = {.status = ZX_ERR_IO, .time = now};
  char text[32];
  int fd = open(self->source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    reading.status = errno == ENOENT ? ZX_ERR_NOT_FOUND : errno == EACCES ? ZX_ERR_ACCESS_DENIED : ZX_ERR_IO;
    return reading;
  }
  ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) {
    return reading;
  }
  text[length] = '\0';
  char* end;
  errno = 0;
  long value = strtol(text, &end, 10);
  // The cold end of the scale, and more heat than anything survives.
  if (end == text || (*end != '\0' && *end != '\n') || errno != 0 || value < -273150 || value > 10000000) {
    reading.status = ZX_ERR_IO_DATA_INTEGRITY;
    return reading;
  }
  reading.status = ZX_OK;
  reading.millidegrees = (int32_t)value;
  reading.is_above = self->has_limit && reading.millidegrees > self->limit;
  return reading;
}

// Keeps a reading. Whether the temperature has crossed the limit.
static bool keep(thermometer_t* self, reading_t reading) {
  pthread_mutex_lock(&self->lock);
  reading_t before = self->reading;
  if (reading.status != ZX_OK) {
    // Nobody knows, so it stays as it was.
    reading.is_above = before.is_above;
  }
  self->reading = reading;
  pthread_mutex_unlock(&self->lock);
  if (reading.status != before.status) {
    char line[128];
    snprintf(line, sizeof(line), "the source has %s", zx_status_get_string(reading.status));
    log_line(self, reading.status == ZX_OK ? FUCHSINE_LOG_INFO : FUCHSINE_LOG_WARN, line);
  }
  return reading.is_above != before.is_above;
}

static void on_interval(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  thermometer_t* self = OWNER(task, thermometer_t, measuring);
  if (status != ZX_OK) {
    return;  // The dispatcher shuts down.
  }
  if (keep(self, measure(self, async_now(async)))) {
    uint64_t one = 1;
    // It fails only at a count of 2^64 - 1, when the line has been raised all the same.
    ssize_t written = write(self->alert_fd, &one, sizeof(one));
    (void)written;
  }
  // From the last deadline, so that it does not drift, but not all at once what was missed.
  zx_time_t now = async_now(async);
  task->deadline += self->interval;
  if (task->deadline < now) {
    task->deadline = now;
  }
  async_post_task(async, task);
}

static void on_chip_ended(fdf_dispatcher_t* dispatcher, fdf_dispatcher_shutdown_observer_t* observer) {
  fdf_dispatcher_destroy(dispatcher);
}

// ---- Clients ----

static zx_status_t tell(client_t* client, uint32_t txid, uint32_t ordinal, const reading_t* reading) {
  fdf_arena_t* arena;
  zx_status_t status = fdf_arena_create(0, 0, &arena);
  if (status != ZX_OK) {
    return status;
  }
  thermometer_message_t* message = fdf_arena_allocate(arena, sizeof(*message));
  if (message == NULL) {
    status = ZX_ERR_NO_MEMORY;
  } else {
    *message = (thermometer_message_t){
        .txid = txid,
        .ordinal = ordinal,
        .status = reading->status,
        .millidegrees = reading->millidegrees,
        .time = reading->time,
        .is_above = reading->is_above,
    };
    status = fdf_channel_write(client->read.channel, 0, arena, message, sizeof(*message), NULL, 0);
  }
  fdf_arena_drop_ref(arena);
  return status;
}

static reading_t last_reading(thermometer_t* self) {
  pthread_mutex_lock(&self->lock);
  reading_t reading = self->reading;
  pthread_mutex_unlock(&self->lock);
  return reading;
}

// Answers one message. Whether the client may stay.
static bool serve(client_t* client, const void* data, uint32_t num_bytes) {
  const thermometer_message_t* request = data;
  if (num_bytes < sizeof(*request)) {
    return false;
  }
  reading_t reading = last_reading(client->thermometer);
  if (request->ordinal == THERMOMETER_WATCH) {
    client->watches = true;
  } else if (request->ordinal != THERMOMETER_READ) {
    reading = (reading_t){.status = ZX_ERR_NOT_SUPPORTED};
  }
  return tell(client, request->txid, request->ordinal, &reading) == ZX_OK;
}

static void end_client(client_t* client) {
  client_t** place = &client->thermometer->clients;
  while (*place != client) {
    place = &(*place)->next;
  }
  *place = client->next;
  fdf_handle_close(client->read.channel);
  free(client);
}

static void on_client(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  client_t* client = OWNER(read, client_t, read);
  // All that is there, up to a limit, so that one client does not keep the others waiting.
  for (int n = 0; status == ZX_OK && n < 16; n++) {
    fdf_arena_t* arena = NULL;
    void* data = NULL;
    uint32_t num_bytes = 0;
    status = fdf_channel_read(read->channel, 0, &arena, &data, &num_bytes, NULL, NULL);
    if (status == ZX_OK && !serve(client, data, num_bytes)) {
      status = ZX_ERR_INVALID_ARGS;
    }
    if (arena != NULL) {
      fdf_arena_drop_ref(arena);
    }
  }
  if (status == ZX_OK || status == ZX_ERR_SHOULD_WAIT) {
    status = fdf_channel_wait_async(dispatcher, read, 0);
  }
  if (status != ZX_OK) {
    end_client(client);
  }
}

static void begin_client(thermometer_t* self, fdf_handle_t channel) {
  client_t* client = calloc(1, sizeof(*client));
  if (client == NULL) {
    fdf_handle_close(channel);
    return;
  }
  client->thermometer = self;
  client->read.handler = on_client;
  client->read.channel = channel;
  client->next = self->clients;
  self->clients = client;
  if (fdf_channel_wait_async(self->dispatcher, &client->read, 0) != ZX_OK) {
    end_client(client);
  }
}

static void on_alert(async_dispatcher_t* async, async_irq_t* irq, zx_status_t status,
                     const zx_packet_interrupt_t* signal) {
  thermometer_t* self = OWNER(irq, thermometer_t, alert);
  if (status != ZX_OK) {
    // The end of the interrupt, which is also that of the dispatcher.
    zx_handle_close(irq->object);
    irq->object = ZX_HANDLE_INVALID;
    return;
  }
  reading_t reading = last_reading(self);
  char line[128];
  snprintf(line, sizeof(line), "%" PRId32 " thousandths of a degree: %s the limit", reading.millidegrees,
           reading.is_above ? "above" : "no longer above");
  log_line(self, FUCHSINE_LOG_WARN, line);
  client_t* next;
  for (client_t* client = self->clients; client != NULL; client = next) {
    next = client->next;
    if (client->watches) {
      // One that has gone is noticed by its read.
      tell(client, 0, THERMOMETER_ALARM, &reading);
    }
  }
}

// ---- The node and the host ----

static void on_node(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  thermometer_t* self = OWNER(read, thermometer_t, from_node);
  while (status == ZX_OK) {
    fuchsine_received_t received;
    status = fuchsine_message_read(read->channel, &received);
    if (status == ZX_OK) {
      if (received.message->ordinal == FUCHSINE_NODE_CONNECTED && received.handle != ZX_HANDLE_INVALID) {
        begin_client(self, received.handle);
        received.handle = ZX_HANDLE_INVALID;
      }
      fuchsine_received_end(&received);
    }
  }
  if (status == ZX_ERR_SHOULD_WAIT) {
    status = fdf_channel_wait_async(dispatcher, read, 0);
  }
  // If there is nothing to read any more, the handle stays all the same: the chip may be writing to it. `destroy` closes it.
  (void)status;
}

// Whether a text is a whole number of a range, which comes out of it.
static bool number(const char* text, long least, long most, long* out) {
  char* end;
  errno = 0;
  *out = strtol(text, &end, 10);
  return end != text && *end == '\0' && errno == 0 && *out >= least && *out <= most;
}

// Starts. On an error `why`, which has room for 256 bytes, says what is wrong.
static zx_status_t start(thermometer_t* self, const fuchsine_message_t* request, char* why) {
  const char* source = fuchsine_start_config(request, "source");
  const char* interval = fuchsine_start_config(request, "interval");
  const char* limit = fuchsine_start_config(request, "limit");
  long value;
  if (source == NULL || (self->source = strdup(source)) == NULL) {
    snprintf(why, 256, "there is no source");
    return ZX_ERR_INVALID_ARGS;
  }
  if (interval == NULL || !number(interval, 1, 86400000, &value)) {
    snprintf(why, 256, "the interval has to be between 1 ms and a day");
    return ZX_ERR_INVALID_ARGS;
  }
  self->interval = ZX_MSEC(value);
  if (limit != NULL) {
    if (!number(limit, INT32_MIN, INT32_MAX, &value)) {
      snprintf(why, 256, "the limit is out of range: %s", limit);
      return ZX_ERR_INVALID_ARGS;
    }
    self->has_limit = true;
    self->limit = (int32_t)value;
  }

  async_dispatcher_t* async = fdf_dispatcher_get_async_dispatcher(self->dispatcher);
  self->reading = measure(self, async_now(async));
  if (self->reading.status != ZX_OK) {
    snprintf(why, 256, "%s: %s", self->source, zx_status_get_string(self->reading.status));
    return self->reading.status;
  }

  zx_handle_t line;
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  zx_status_t status = fd < 0 ? ZX_ERR_NO_RESOURCES : fuchsine_handle_from_fd(fd, &line);
  if (status != ZX_OK) {
    snprintf(why, 256, "there is no alert line: %s", zx_status_get_string(status));
    return status;
  }
  self->alert_fd = fuchsine_handle_dup_fd(line);
  self->alert.handler = on_alert;
  self->alert.object = line;
  status = self->alert_fd < 0 ? ZX_ERR_NO_RESOURCES : async_bind_irq(async, &self->alert);
  if (status != ZX_OK) {
    zx_handle_close(line);
    self->alert.object = ZX_HANDLE_INVALID;
    snprintf(why, 256, "the alert line cannot be bound: %s", zx_status_get_string(status));
    return status;
  }

  self->chip_ended.handler = on_chip_ended;
  status = fdf_dispatcher_create(FDF_DISPATCHER_OPTION_SYNCHRONIZED, "chip", 4, "", 0, &self->chip_ended, &self->chip);
  if (status == ZX_OK) {
    async_dispatcher_t* chip = fdf_dispatcher_get_async_dispatcher(self->chip);
    self->measuring.handler = on_interval;
    self->measuring.deadline = async_now(chip) + (self->reading.is_above ? 0 : self->interval);
    // What is above from the beginning is told as well.
    self->reading.is_above = false;
    status = async_post_task(chip, &self->measuring);
  }
  if (status != ZX_OK) {
    snprintf(why, 256, "the chip has no dispatcher: %s", zx_status_get_string(status));
    return status;
  }

  const char* child[] = {"thermometer", "class", "thermometer", "thermometer"};
  fuchsine_message_write(self->from_node.channel, 0, FUCHSINE_NODE_ADD_CHILD, 1, child, 4, ZX_HANDLE_INVALID);
  char text[128];
  snprintf(text, sizeof(text), "measures %" PRId32 " thousandths of a degree", self->reading.millidegrees);
  log_line(self, FUCHSINE_LOG_INFO, text);
  return ZX_OK;
}

static zx_status_t on_start(thermometer_t* self, fuchsine_received_t* received) {
  if (received->handle == ZX_HANDLE_INVALID || self->from_node.channel != FDF_HANDLE_INVALID) {
    return ZX_ERR_INVALID_ARGS;
  }
  self->from_node.handler = on_node;
  self->from_node.channel = received->handle;
  received->handle = ZX_HANDLE_INVALID;
  zx_status_t status = fdf_channel_wait_async(self->dispatcher, &self->from_node, 0);
  if (status != ZX_OK) {
    return status;
  }
  char why[256] = "";
  status = start(self, received->message, why);
  fuchsine_message_answer(self->from_host.channel, received->message, status, status == ZX_OK ? NULL : why);
  return status;
}

static void on_host(fdf_dispatcher_t* dispatcher, fdf_channel_read_t* read, zx_status_t status) {
  thermometer_t* self = OWNER(read, thermometer_t, from_host);
  while (status == ZX_OK) {
    fuchsine_received_t received;
    status = fuchsine_message_read(read->channel, &received);
    if (status == ZX_OK) {
      switch (received.message->ordinal) {
        case FUCHSINE_DRIVER_START:
          status = on_start(self, &received);
          break;
        case FUCHSINE_DRIVER_STOP:
          status = ZX_ERR_STOP;
          break;
        default:
          break;  // Of a later host.
      }
      fuchsine_received_end(&received);
    }
  }
  if (status == ZX_ERR_SHOULD_WAIT) {
    status = fdf_channel_wait_async(dispatcher, read, 0);
  }
  if (status != ZX_OK) {
    // From here on the host shuts the dispatchers down.
    fdf_handle_close(read->channel);
    read->channel = FDF_HANDLE_INVALID;
  }
}

static void* initialize(fdf_handle_t server_handle) {
  thermometer_t* self = calloc(1, sizeof(*self));
  if (self == NULL) {
    fdf_handle_close(server_handle);
    return NULL;
  }
  pthread_mutex_init(&self->lock, NULL);
  self->alert_fd = -1;
  self->dispatcher = fdf_dispatcher_get_current_dispatcher();
  self->from_host.handler = on_host;
  self->from_host.channel = server_handle;
  if (fdf_channel_wait_async(self->dispatcher, &self->from_host, 0) != ZX_OK) {
    fdf_handle_close(server_handle);
    self->from_host.channel = FDF_HANDLE_INVALID;
  }
  return self;
}

static void destroy(void* token) {
  thermometer_t* self = token;
  if (self == NULL) {
    return;
  }
  if (self->from_node.channel != FDF_HANDLE_INVALID) {
    fdf_handle_close(self->from_node.channel);
  }
  if (self->alert_fd >= 0) {
    close(self->alert_fd);
  }
  pthread_mutex_destroy(&self->lock);
  free(self->source);
  free(self);
}

EXPORT_FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy);
