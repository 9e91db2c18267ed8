/* What the sources want of the C library: POSIX beyond C99. First include of every source file. */
#ifndef MANTISSA_CLIENT_CONFIG_H
#define MANTISSA_CLIENT_CONFIG_H

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#elif !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif

#if defined(__GNUC__)
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define ALWAYS_INLINE static inline __attribute__((always_inline, unused))
#define OUTLINE __attribute__((noinline))
#define INTERNAL __attribute__((visibility("hidden")))
#else
#define LIKELY(condition) (condition)
#define UNLIKELY(condition) (condition)
#define ALWAYS_INLINE static inline
#define OUTLINE
#define INTERNAL
#endif

/* A bit of a context's flags that has no public name: sockets close on exec. */
#define CONTEXT_CLOEXEC (1 << 24)

#endif
