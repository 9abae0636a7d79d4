#ifndef FUCHSINE_LIB_ASYNC_TIME_H_
#define FUCHSINE_LIB_ASYNC_TIME_H_

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

// The time by the dispatcher's clock, which its deadlines count by.
zx_time_t async_now(async_dispatcher_t* dispatcher);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_TIME_H_
