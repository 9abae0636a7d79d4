// What the programs of this folder share. A program is a list of claims:
//
//   CLAIMS(CLAIM(something_is_so), DIES(something_ends_the_process, "what it says before"))
//
// `program --list` names them, `program NAME` runs one. A claim that does not hold says where, and the process fails.
#ifndef CHECK_H_
#define CHECK_H_

#include <lib/async/default.h>
#include <lib/async/irq.h>
#include <lib/async/receiver.h>
#include <lib/async/sequence_id.h>
#include <lib/async/task.h>
#include <lib/async/time.h>
#include <lib/async/wait.h>
#include <lib/fdf/dispatcher.h>
#include <lib/fdf/env.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                                    \
    }                                                                              \
  } while (0)

// Both are evaluated once.
#define EQUAL(left, right)                                                                                   \
  do {                                                                                                       \
    long long left_ = (long long)(left), right_ = (long long)(right);                                        \
    if (left_ != right_) {                                                                                   \
      fprintf(stderr, "%s:%d: %s is %lld, and %s is %lld\n", __FILE__, __LINE__, #left, left_, #right, right_); \
      _exit(1);                                                                                              \
    }                                                                                                        \
  } while (0)

#define OK(call) EQUAL(call, ZX_OK)

struct claim {
  const char* name;
  void (*run)(void);
  const char* dies;
};

#define CLAIM(name) {#name, name, NULL}
#define DIES(name, text) {#name, name, text}

#define CLAIMS(...)                                                     \
  int main(int argc, char** argv) {                                     \
    static const struct claim claims[] = {__VA_ARGS__};                 \
    size_t count = sizeof(claims) / sizeof(claims[0]);                  \
    for (size_t i = 0; i < count; i++) {                                \
      if (argc == 2 && strcmp(argv[1], "--list") == 0) {                \
        printf("%s%s%s\n", claims[i].name, claims[i].dies ? "\t" : "",  \
               claims[i].dies ? claims[i].dies : "");                   \
      } else if (argc == 2 && strcmp(argv[1], claims[i].name) == 0) {   \
        claims[i].run();                                                \
        return 0;                                                       \
      }                                                                 \
    }                                                                   \
    return argc == 2 && strcmp(argv[1], "--list") == 0 ? 0 : 2;         \
  }

// Something that happens once, and can be waited for.
typedef struct event {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int count;
} event_t;

#define EVENT_INIT \
  { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 }

static inline void event_signal(event_t* event) {
  pthread_mutex_lock(&event->lock);
  event->count++;
  pthread_cond_broadcast(&event->changed);
  pthread_mutex_unlock(&event->lock);
}

// Waits until it has happened so often. The test has a limit of its own for what never happens.
static inline void event_wait(event_t* event, int count) {
  pthread_mutex_lock(&event->lock);
  while (event->count < count) {
    pthread_cond_wait(&event->changed, &event->lock);
  }
  pthread_mutex_unlock(&event->lock);
}

static inline int event_count(event_t* event) {
  pthread_mutex_lock(&event->lock);
  int count = event->count;
  pthread_mutex_unlock(&event->lock);
  return count;
}

static inline zx_time_t monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return ZX_SEC(now.tv_sec) + now.tv_nsec;
}

// Names of drivers. They are never followed.
static const void* const kDriver __attribute__((unused)) = (const void*)0x1000;
static const void* const kOther __attribute__((unused)) = (const void*)0x2000;

// A dispatcher with an observer that can be waited for.
typedef struct dispatcher {
  fdf_dispatcher_shutdown_observer_t observer;
  fdf_dispatcher_t* fdf;
  async_dispatcher_t* async;
  event_t over;
} dispatcher_t;

static inline void dispatcher_is_over(fdf_dispatcher_t* fdf, fdf_dispatcher_shutdown_observer_t* observer) {
  dispatcher_t* dispatcher = (dispatcher_t*)observer;
  CHECK(dispatcher->fdf == fdf);
  event_signal(&dispatcher->over);
}

static inline zx_status_t dispatcher_try(dispatcher_t* dispatcher, const void* driver, uint32_t options) {
  memset(dispatcher, 0, sizeof(*dispatcher));
  dispatcher->over = (event_t)EVENT_INIT;
  dispatcher->observer.handler = dispatcher_is_over;
  zx_status_t status = fdf_env_dispatcher_create_with_owner(driver, options, "test", 4, "", 0, &dispatcher->observer,
                                                            &dispatcher->fdf);
  if (status == ZX_OK) {
    dispatcher->async = fdf_dispatcher_get_async_dispatcher(dispatcher->fdf);
  }
  return status;
}

static inline void dispatcher_make(dispatcher_t* dispatcher, const void* driver, uint32_t options) {
  OK(dispatcher_try(dispatcher, driver, options));
}

static inline void dispatcher_end(dispatcher_t* dispatcher) {
  fdf_dispatcher_shutdown_async(dispatcher->fdf);
  event_wait(&dispatcher->over, 1);
  fdf_dispatcher_destroy(dispatcher->fdf);
}

// The end of a driver, that can be waited for.
typedef struct driver_end {
  fdf_env_driver_shutdown_observer_t observer;
  event_t over;
} driver_end_t;

static inline void driver_is_over(const void* driver, fdf_env_driver_shutdown_observer_t* observer) {
  event_signal(&((driver_end_t*)observer)->over);
}

static inline void driver_shut_down(const void* driver) {
  driver_end_t end = {{driver_is_over}, EVENT_INIT};
  OK(fdf_env_shutdown_dispatchers_async(driver, &end.observer));
  event_wait(&end.over, 1);
}

// A function that runs as a task, and can be waited for.
typedef struct run {
  async_task_t task;
  void (*function)(void* data);
  void* data;
  event_t done;
} run_t;

static inline void run_handler(async_dispatcher_t* async, async_task_t* task, zx_status_t status) {
  run_t* run = (run_t*)task;
  OK(status);
  run->function(run->data);
  event_signal(&run->done);
}

// Runs a function on a dispatcher and waits for its end.
static inline void run_on(dispatcher_t* dispatcher, void (*function)(void* data), void* data) {
  run_t run = {{ASYNC_STATE_INIT, run_handler, ZX_TIME_INFINITE_PAST}, function, data, EVENT_INIT};
  OK(async_post_task(dispatcher->async, &run.task));
  event_wait(&run.done, 1);
}

#endif  // CHECK_H_
