#ifndef FUCHSINE_ZIRCON_COMPILER_H_
#define FUCHSINE_ZIRCON_COMPILER_H_

// Declarations that are the same in C and in C++.
#ifdef __cplusplus
#define __BEGIN_CDECLS extern "C" {
#define __END_CDECLS }
#else
#define __BEGIN_CDECLS
#define __END_CDECLS
#endif

#define __EXPORT __attribute__((visibility("default")))
#define __WEAK __attribute__((weak))
#define __NONNULL(x) __attribute__((nonnull x))

#endif  // FUCHSINE_ZIRCON_COMPILER_H_
