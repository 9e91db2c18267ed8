/* What contexts have beyond hiredis: mantissa/client.h. */
#include "config.h"

#include "mantissa/client.h"
#include "read.h"

void mantissaSetOutputLimit(redisContext *c, size_t bytes) { reader_of(c->reader)->output_max = bytes; }
