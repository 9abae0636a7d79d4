#ifndef FUCHSINE_LIB_FDF_HANDLE_H_
#define FUCHSINE_LIB_FDF_HANDLE_H_

#include <lib/fdf/types.h>

__BEGIN_CDECLS

// Ends a handle of the driver runtime, or of another object. FDF_HANDLE_INVALID is ignored. The process ends if the handle
// names nothing, or a channel on which a wait is registered.
void fdf_handle_close(fdf_handle_t handle);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_HANDLE_H_
