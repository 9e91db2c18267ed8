/* The memory functions in use. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "hiredis/alloc.h"

#define C_LIBRARY \
    { malloc, calloc, realloc, strdup, free }

hiredisAllocFuncs hiredisAllocFns = C_LIBRARY;

hiredisAllocFuncs hiredisSetAllocators(hiredisAllocFuncs *functions) {
    hiredisAllocFuncs before = hiredisAllocFns;
    hiredisAllocFns = *functions;
    return before;
}

void hiredisResetAllocators(void) {
    static const hiredisAllocFuncs originals = C_LIBRARY;
    hiredisAllocFns = originals;
}
