#ifndef FUCHSINE_ZIRCON_TIME_H_
#define FUCHSINE_ZIRCON_TIME_H_

// Times and durations, in nanoseconds. A deadline is a time of the monotonic clock (CLOCK_MONOTONIC).

#include <stdint.h>
#include <zircon/compiler.h>

typedef int64_t zx_time_t;
typedef int64_t zx_duration_t;
typedef int64_t zx_instant_mono_t;
typedef int64_t zx_duration_mono_t;
typedef int64_t zx_instant_boot_t;
typedef int64_t zx_duration_boot_t;

typedef uint32_t zx_clock_t;
#define ZX_CLOCK_MONOTONIC ((zx_clock_t)0)
#define ZX_CLOCK_BOOT ((zx_clock_t)1)

// The time that never comes, and the one that is always past.
#define ZX_TIME_INFINITE INT64_MAX
#define ZX_TIME_INFINITE_PAST INT64_MIN

#define ZX_NSEC(n) ((zx_duration_t)(1LL * (n)))
#define ZX_USEC(n) ((zx_duration_t)(1000LL * (n)))
#define ZX_MSEC(n) ((zx_duration_t)(1000000LL * (n)))
#define ZX_SEC(n) ((zx_duration_t)(1000000000LL * (n)))
#define ZX_MIN(n) ((zx_duration_t)(60000000000LL * (n)))
#define ZX_HOUR(n) ((zx_duration_t)(3600000000000LL * (n)))

__BEGIN_CDECLS

// Sums and differences end at the two infinite times instead of going round.

static inline int64_t fuchsine_clamped_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) {
    return b < 0 ? INT64_MIN : INT64_MAX;
  }
  return sum;
}

static inline int64_t fuchsine_clamped_sub(int64_t a, int64_t b) {
  int64_t difference;
  if (__builtin_sub_overflow(a, b, &difference)) {
    return b < 0 ? INT64_MAX : INT64_MIN;
  }
  return difference;
}

static inline int64_t fuchsine_clamped_mul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) {
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
  }
  return product;
}

static inline zx_time_t zx_time_add_duration(zx_time_t time, zx_duration_t duration) {
  return fuchsine_clamped_add(time, duration);
}

static inline zx_time_t zx_time_sub_duration(zx_time_t time, zx_duration_t duration) {
  return fuchsine_clamped_sub(time, duration);
}

static inline zx_duration_t zx_time_sub_time(zx_time_t time1, zx_time_t time2) {
  return fuchsine_clamped_sub(time1, time2);
}

static inline zx_duration_t zx_duration_add_duration(zx_duration_t duration1, zx_duration_t duration2) {
  return fuchsine_clamped_add(duration1, duration2);
}

static inline zx_duration_t zx_duration_sub_duration(zx_duration_t duration1, zx_duration_t duration2) {
  return fuchsine_clamped_sub(duration1, duration2);
}

static inline zx_duration_t zx_duration_mul_int64(zx_duration_t duration, int64_t multiplier) {
  return fuchsine_clamped_mul(duration, multiplier);
}

__END_CDECLS

#endif  // FUCHSINE_ZIRCON_TIME_H_
