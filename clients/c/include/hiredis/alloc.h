/* The memory functions that everything in the library goes through, and that a program may replace. */
#ifndef HIREDIS_ALLOC_H
#define HIREDIS_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hiredisAllocFuncs {
    void *(*mallocFn)(size_t);
    void *(*callocFn)(size_t, size_t);
    void *(*reallocFn)(void *, size_t);
    char *(*strdupFn)(const char *);
    void (*freeFn)(void *);
} hiredisAllocFuncs;

/* Use these functions from now on; the answer is those before. Call it before anything is allocated. */
hiredisAllocFuncs hiredisSetAllocators(hiredisAllocFuncs *functions);
/* Use those of the C library again. */
void hiredisResetAllocators(void);

extern hiredisAllocFuncs hiredisAllocFns;

static inline void *hi_malloc(size_t size) { return hiredisAllocFns.mallocFn(size); }

/* NULL also where count * size does not fit in a size_t. */
static inline void *hi_calloc(size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size) return NULL;
    return hiredisAllocFns.callocFn(count, size);
}

static inline void *hi_realloc(void *block, size_t size) { return hiredisAllocFns.reallocFn(block, size); }
static inline char *hi_strdup(const char *text) { return hiredisAllocFns.strdupFn(text); }
static inline void hi_free(void *block) { hiredisAllocFns.freeFn(block); }

#ifdef __cplusplus
}
#endif

#endif
