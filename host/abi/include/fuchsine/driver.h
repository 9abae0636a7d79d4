#ifndef FUCHSINE_DRIVER_H_
#define FUCHSINE_DRIVER_H_

// How a driver in C and its host talk: on the channel that `initialize` is given, and on that of its node, which comes with the
// request to start. It is in place of the FIDL protocols fuchsia.driver.framework/Driver and /Node. None of it is part of fdf.
//
// A message is a fuchsine_message_t, as many fuchsine_text_t as that says, and the texts: UTF-8, each with a zero byte behind it.
// What is longer or has more texts than it needs is fine: that is how this protocol grows. A request with a txid other than 0 is
// answered by a message with the same txid and the same ordinal, whose value is a status; if it is not ZX_OK, its text is a
// sentence. A request with the txid 0 is not answered, and the host logs what goes wrong.
//
// The functions below are helpers, all of this file; a driver may as well read and write the messages by itself.

#include <lib/fdf/channel.h>
#include <string.h>

__BEGIN_CDECLS

// ---- On the channel of the driver, from the host ----

// A request: start. Handle 0 is the driver's end of the channel of its node. The value is the number of configuration entries.
// Texts: the name of the driver in the manifest, the name of the node, for each configuration entry key and value, for each
// property of the node key and value. An entry with a list comes once for each item. Sizes are in bytes, durations in
// milliseconds. A driver that answers with an error closes its channel and is destroyed.
#define FUCHSINE_DRIVER_START 1u
// No request: stop. The driver ends what it does and closes its channel. It is never sent before a start has succeeded, and its
// children are gone when it is.
#define FUCHSINE_DRIVER_STOP 2u
// If the driver closes its channel, or that of its node, without having been asked to stop, it has done its work.

// ---- On the channel of the node, from the driver ----

// Adds a child, to which drivers are matched once the start has succeeded. The value is the number of properties. Texts: the
// name; for each property key and value; the names of services.
#define FUCHSINE_NODE_ADD_CHILD 16u
// Removes a child; the answer comes when it is gone, and what was bound to it has stopped. Text: its name.
#define FUCHSINE_NODE_REMOVE_CHILD 17u
// Connects to a service of the parent. Texts: the service; of a composite, the name of the parent. Handle 0 of the answer is an end
// of an fdf channel.
#define FUCHSINE_NODE_CONNECT 18u
// Publishes an address at which others reach the driver. Text: the address, a URL.
#define FUCHSINE_NODE_PUBLISH_ADDRESS 19u
// A line of the host's log. The value is the level. Text: the line.
#define FUCHSINE_NODE_LOG 20u
// The driver cannot go on. The value is a status. Text: why.
#define FUCHSINE_NODE_FAIL 21u

#define FUCHSINE_LOG_ERROR 1
#define FUCHSINE_LOG_WARN 2
#define FUCHSINE_LOG_INFO 3
#define FUCHSINE_LOG_DEBUG 4
#define FUCHSINE_LOG_TRACE 5

// ---- On the channel of the node, from the host ----

// No request: somebody has connected to a service of a child. Texts: the child, the service. Handle 0 is the server's end.
#define FUCHSINE_NODE_CONNECTED 32u

// Where a text is, in bytes from the beginning of the message, and how long it is, without the zero byte.
typedef struct fuchsine_text {
  uint32_t offset;
  uint32_t length;
} fuchsine_text_t;

typedef struct fuchsine_message {
  fdf_txid_t txid;
  uint32_t ordinal;
  int32_t value;
  uint32_t text_count;
} fuchsine_message_t;

// ---- What a module says about itself ----

// A note in the file of the module, which is read before any of it is loaded: TOML with the keys name, version, doc, bind (a table
// of properties) and config (a table, by key, of tables with kind, required, default, doc). A kind is text, integer, boolean, size,
// duration, path or list. At the outermost level, once. A module without it has the name of its file, and no configuration.
#define FUCHSINE_DRIVER_NOTE(toml)                                                        \
  __attribute__((section(".note.fuchsine"), aligned(4), used)) static const struct {      \
    uint32_t name_size, size, type;                                                       \
    char name[12];                                                                        \
    char text[(sizeof(toml) + 3) / 4 * 4];                                                \
  } fuchsine_driver_note = {9, (sizeof(toml) + 3) / 4 * 4, FUCHSINE_NOTE_TYPE_C, "Fuchsine", toml}

#define FUCHSINE_NOTE_TYPE_C 2u

// ---- Helpers ----

// A message that was read. It is the reader's until fuchsine_received_end.
typedef struct fuchsine_received {
  fdf_arena_t* arena;
  const fuchsine_message_t* message;
  // The first handle of the message; whoever keeps it puts ZX_HANDLE_INVALID here.
  zx_handle_t handle;
} fuchsine_received_t;

// One text of a message; NULL if it has not so many.
static inline const char* fuchsine_message_text(const fuchsine_message_t* message, uint32_t n) {
  const fuchsine_text_t* texts = (const fuchsine_text_t*)(message + 1);
  return n < message->text_count ? (const char*)message + texts[n].offset : NULL;
}

// Whether bytes are a message that the function above can be used on.
static inline bool fuchsine_message_check(const void* data, uint32_t num_bytes) {
  const fuchsine_message_t* message = (const fuchsine_message_t*)data;
  if (num_bytes < sizeof(*message) ||
      message->text_count > (num_bytes - sizeof(*message)) / sizeof(fuchsine_text_t)) {
    return false;
  }
  const fuchsine_text_t* texts = (const fuchsine_text_t*)(message + 1);
  for (uint32_t n = 0; n < message->text_count; n++) {
    if ((uint64_t)texts[n].offset + texts[n].length >= num_bytes ||
        ((const char*)data)[texts[n].offset + texts[n].length] != '\0') {
      return false;
    }
  }
  return true;
}

// Ends what was read: the memory, and the handle if there is one.
static inline void fuchsine_received_end(fuchsine_received_t* received) {
  if (received->handle != ZX_HANDLE_INVALID) {
    fdf_handle_close(received->handle);
  }
  if (received->arena != NULL) {
    fdf_arena_drop_ref(received->arena);
  }
  received->handle = ZX_HANDLE_INVALID;
  received->arena = NULL;
  received->message = NULL;
}

// As fdf_channel_read. ZX_ERR_IO_DATA_INTEGRITY: what came is no message of this protocol; it is gone.
static inline zx_status_t fuchsine_message_read(fdf_handle_t channel, fuchsine_received_t* out) {
  void* data = NULL;
  uint32_t num_bytes = 0;
  zx_handle_t* handles = NULL;
  uint32_t num_handles = 0;
  out->arena = NULL;
  out->message = NULL;
  out->handle = ZX_HANDLE_INVALID;
  zx_status_t status = fdf_channel_read(channel, 0, &out->arena, &data, &num_bytes, &handles, &num_handles);
  if (status != ZX_OK) {
    return status;
  }
  for (uint32_t n = 0; n < num_handles; n++) {
    if (n == 0) {
      out->handle = handles[n];
    } else if (handles[n] != ZX_HANDLE_INVALID) {
      fdf_handle_close(handles[n]);
    }
  }
  if (!fuchsine_message_check(data, num_bytes)) {
    fuchsine_received_end(out);
    return ZX_ERR_IO_DATA_INTEGRITY;
  }
  out->message = (const fuchsine_message_t*)data;
  return ZX_OK;
}

// Writes a message with these texts, and with `handle` unless it is ZX_HANDLE_INVALID. The handle goes with it or is closed.
static inline zx_status_t fuchsine_message_write(fdf_handle_t channel, fdf_txid_t txid, uint32_t ordinal, int32_t value,
                                                 const char* const* texts, uint32_t text_count, zx_handle_t handle) {
  size_t size = sizeof(fuchsine_message_t) + text_count * sizeof(fuchsine_text_t);
  for (uint32_t n = 0; n < text_count; n++) {
    size += strlen(texts[n]) + 1;
  }
  fdf_arena_t* arena = NULL;
  zx_status_t status = size > UINT32_MAX ? ZX_ERR_OUT_OF_RANGE : fdf_arena_create(0, 0, &arena);
  char* data = status == ZX_OK ? (char*)fdf_arena_allocate(arena, size) : NULL;
  zx_handle_t* handles = status == ZX_OK ? (zx_handle_t*)fdf_arena_allocate(arena, sizeof(*handles)) : NULL;
  if (status == ZX_OK && (data == NULL || handles == NULL)) {
    status = ZX_ERR_NO_MEMORY;
  }
  if (status == ZX_OK) {
    fuchsine_message_t* message = (fuchsine_message_t*)data;
    message->txid = txid;
    message->ordinal = ordinal;
    message->value = value;
    message->text_count = text_count;
    fuchsine_text_t* places = (fuchsine_text_t*)(message + 1);
    uint32_t at = (uint32_t)(sizeof(*message) + text_count * sizeof(*places));
    for (uint32_t n = 0; n < text_count; n++) {
      places[n].offset = at;
      places[n].length = (uint32_t)strlen(texts[n]);
      memcpy(data + at, texts[n], places[n].length + 1);
      at += places[n].length + 1;
    }
    handles[0] = handle;
    status = fdf_channel_write(channel, 0, arena, data, (uint32_t)size, handles, handle != ZX_HANDLE_INVALID);
    // These are the errors that leave the handle to the writer.
    if (status == ZX_OK || (status != ZX_ERR_INVALID_ARGS && status != ZX_ERR_NOT_SUPPORTED)) {
      handle = ZX_HANDLE_INVALID;
    }
  }
  if (handle != ZX_HANDLE_INVALID) {
    fdf_handle_close(handle);
  }
  if (arena != NULL) {
    fdf_arena_drop_ref(arena);
  }
  return status;
}

// Answers a request: with a status, and a sentence if it is an error. NULL: no sentence.
static inline zx_status_t fuchsine_message_answer(fdf_handle_t channel, const fuchsine_message_t* request,
                                                  zx_status_t status, const char* sentence) {
  return fuchsine_message_write(channel, request->txid, request->ordinal, status, &sentence, sentence != NULL,
                                ZX_HANDLE_INVALID);
}

// A value of the configuration in a FUCHSINE_DRIVER_START; NULL if there is none.
static inline const char* fuchsine_start_config(const fuchsine_message_t* start, const char* key) {
  for (uint32_t n = 0; n < (uint32_t)start->value && 2 * n + 3 < start->text_count; n++) {
    if (strcmp(fuchsine_message_text(start, 2 * n + 2), key) == 0) {
      return fuchsine_message_text(start, 2 * n + 3);
    }
  }
  return NULL;
}

// A property of the node in a FUCHSINE_DRIVER_START; NULL if there is none.
static inline const char* fuchsine_start_property(const fuchsine_message_t* start, const char* key) {
  for (uint32_t n = 2 + 2 * (uint32_t)start->value; n + 1 < start->text_count; n += 2) {
    if (strcmp(fuchsine_message_text(start, n), key) == 0) {
      return fuchsine_message_text(start, n + 1);
    }
  }
  return NULL;
}

// A line of the host's log.
static inline void fuchsine_node_log(fdf_handle_t node, int32_t level, const char* line) {
  fuchsine_message_write(node, 0, FUCHSINE_NODE_LOG, level, &line, 1, ZX_HANDLE_INVALID);
}

__END_CDECLS

#endif  // FUCHSINE_DRIVER_H_
