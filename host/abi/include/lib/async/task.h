#ifndef FUCHSINE_LIB_ASYNC_TASK_H_
#define FUCHSINE_LIB_ASYNC_TASK_H_

// Tasks: handlers that run once, at a time or as soon as their turn comes.

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

// `status` is ZX_OK, or ZX_ERR_CANCELED when the dispatcher shuts down first.
typedef void(async_task_handler_t)(async_dispatcher_t* dispatcher, async_task_t* task, zx_status_t status);

// Keep it, unchanged, until its handler has started or a cancel has succeeded. The handler may free it, or post it again.
// It may be the first member of a larger structure.
struct async_task {
  async_state_t state;
  async_task_handler_t* handler;
  zx_time_t deadline;
};

// The handler runs at `deadline` or later, after those with an earlier one. ZX_TIME_INFINITE_PAST: when its turn comes.
// ZX_TIME_INFINITE: never, but it is told of the shutdown.
// ZX_ERR_BAD_STATE: the dispatcher shuts down, or the task is posted already. ZX_ERR_INVALID_ARGS: no handler.
zx_status_t async_post_task(async_dispatcher_t* dispatcher, async_task_t* task);

// ZX_OK: the handler will not run. ZX_ERR_NOT_FOUND: it runs, has run, or was not posted here.
zx_status_t async_cancel_task(async_dispatcher_t* dispatcher, async_task_t* task);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_TASK_H_
