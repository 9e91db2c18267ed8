/* Beyond hiredis's interface. */
#ifndef MANTISSA_CLIENT_H
#define MANTISSA_CLIENT_H

#include <hiredis/hiredis.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of commands that may wait to be sent; 0, as at first, is no limit. A command that does not fit is not added:
 * the function returns REDIS_ERR, and the connection has no error. For an asynchronous context pass &ac->c. */
void mantissaSetOutputLimit(redisContext *c, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
