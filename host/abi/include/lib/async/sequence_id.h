#ifndef FUCHSINE_LIB_ASYNC_SEQUENCE_ID_H_
#define FUCHSINE_LIB_ASYNC_SEQUENCE_ID_H_

// Sequence ids: by which code can ask whether it runs where it belongs.

#include <lib/async/dispatcher.h>

__BEGIN_CDECLS

// The id of this synchronized dispatcher, on its own callbacks.
// ZX_ERR_INVALID_ARGS: not on its callbacks. ZX_ERR_WRONG_TYPE: it is unsynchronized. `out_error` is then set to a text
// that stays.
zx_status_t async_get_sequence_id(async_dispatcher_t* dispatcher, async_sequence_id_t* out_sequence_id,
                                  const char** out_error);

// ZX_OK: this is a callback of the dispatcher, and the id is its own. Else as above, and ZX_ERR_OUT_OF_RANGE: the id is
// another one's.
zx_status_t async_check_sequence_id(async_dispatcher_t* dispatcher, async_sequence_id_t sequence_id,
                                    const char** out_error);

__END_CDECLS

#endif  // FUCHSINE_LIB_ASYNC_SEQUENCE_ID_H_
