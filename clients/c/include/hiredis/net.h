/* How a context reaches the network: for code that replaces parts of it, as TLS does. */
#ifndef __NET_H
#define __NET_H

#include "hiredis.h"

#ifdef __cplusplus
extern "C" {
#endif

void redisNetClose(redisContext *c);
ssize_t redisNetRead(redisContext *c, char *buf, size_t capacity);
ssize_t redisNetWrite(redisContext *c);

/* Put an error into the context; without a text it is that of errno. */
void __redisSetError(redisContext *c, int type, const char *text);
int __redisAppendCommand(redisContext *c, const char *command, size_t length);
int redisCheckSocketError(redisContext *c);
int redisContextSetTimeout(redisContext *c, const struct timeval timeout);
int redisContextUpdateConnectTimeout(redisContext *c, const struct timeval *timeout);
int redisContextUpdateCommandTimeout(redisContext *c, const struct timeval *timeout);
int redisContextConnectTcp(redisContext *c, const char *address, int port, const struct timeval *timeout);
int redisContextConnectBindTcp(redisContext *c, const char *address, int port, const struct timeval *timeout,
                               const char *source_address);
int redisContextConnectUnix(redisContext *c, const char *path, const struct timeval *timeout);
int redisKeepAlive(redisContext *c, int interval);
/* Whether a connection that was begun is there now. REDIS_ERR: errno says why it never will be. */
int redisCheckConnectDone(redisContext *c, int *completed);
int redisSetTcpNoDelay(redisContext *c);
int redisContextSetTcpUserTimeout(redisContext *c, unsigned int timeout);

#ifdef __cplusplus
}
#endif

#endif
