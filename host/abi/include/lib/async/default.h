#ifndef FUCHSINE_LIB_ASYNC_DEFAULT_H_
#define FUCHSINE_LIB_ASYNC_DEFAULT_H_

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

// What was set for this thread, else the dispatcher whose handler runs on it, else NULL. Not owned.
async_dispatcher_t* async_get_default_dispatcher(void);

// Sets the default of this thread, or takes it away with NULL. It has to outlive its use.
void async_set_default_dispatcher(async_dispatcher_t* dispatcher);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_DEFAULT_H_
