#ifndef FUCHSINE_LIB_FDF_INTERNAL_H_
#define FUCHSINE_LIB_FDF_INTERNAL_H_

// For test libraries, on threads that are inside of no driver.

#include <lib/fdf/types.h>

__BEGIN_CDECLS

void fdf_internal_wait_until_all_dispatchers_idle(void);
void fdf_internal_wait_until_all_dispatchers_destroyed(void);

__END_CDECLS

#endif  // FUCHSINE_LIB_FDF_INTERNAL_H_
