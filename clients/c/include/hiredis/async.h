/* Commands whose replies come by callbacks, on the event loop of the program: see adapters/. One thread a
 * context. */
#ifndef __HIREDIS_ASYNC_H
#define __HIREDIS_ASYNC_H

#include "hiredis.h"

#ifdef __cplusplus
extern "C" {
#endif

struct redisAsyncContext;
struct dict;

/* The reply is NULL where the connection ends before it has come. It is freed behind the callback, unless
 * REDIS_OPT_NOAUTOFREEREPLIES is set. */
typedef void(redisCallbackFn)(struct redisAsyncContext *, void *reply, void *privdata);

typedef struct redisCallback {
    struct redisCallback *next;
    redisCallbackFn *fn;
    int pending_subs; /* SUBSCRIBE sent and not answered */
    int unsubscribe_sent;
    void *privdata;
} redisCallback;

typedef struct redisCallbackList {
    redisCallback *head, *tail;
} redisCallbackList;

typedef void(redisDisconnectCallback)(const struct redisAsyncContext *, int status);
typedef void(redisConnectCallback)(const struct redisAsyncContext *, int status);
typedef void(redisConnectCallbackNC)(struct redisAsyncContext *, int status);
typedef void(redisTimerCallback)(void *timer, void *privdata);

typedef struct redisAsyncContext {
    redisContext c;

    int err; /* copies of what c has */
    char *errstr;

    void *data; /* the program's */
    void (*dataCleanup)(void *privdata);

    /* What an adapter sets. The functions may be called again and again. */
    struct {
        void *data;
        void (*addRead)(void *privdata);
        void (*delRead)(void *privdata);
        void (*addWrite)(void *privdata);
        void (*delWrite)(void *privdata);
        void (*cleanup)(void *privdata);
        void (*scheduleTimer)(void *privdata, struct timeval tv);
    } ev;

    redisDisconnectCallback *onDisconnect;
    redisConnectCallback *onConnect;
    redisConnectCallbackNC *onConnectNC;

    redisCallbackList replies;

    struct sockaddr *saddr;
    size_t addrlen;

    struct {
        redisCallbackList replies; /* of other commands while there are subscriptions */
        struct dict *channels;
        struct dict *patterns;
        int pending_unsubs; /* confirmations that belong to no callback */
    } sub;

    redisAsyncPushFn *push_cb;
} redisAsyncContext;

redisAsyncContext *redisAsyncConnectWithOptions(const redisOptions *options);
redisAsyncContext *redisAsyncConnect(const char *ip, int port);
redisAsyncContext *redisAsyncConnectBind(const char *ip, int port, const char *source_addr);
redisAsyncContext *redisAsyncConnectBindWithReuse(const char *ip, int port, const char *source_addr);
redisAsyncContext *redisAsyncConnectUnix(const char *path);
/* REDIS_ERR if there is one already. Set them behind the adapter. */
int redisAsyncSetConnectCallback(redisAsyncContext *ac, redisConnectCallback *fn);
int redisAsyncSetConnectCallbackNC(redisAsyncContext *ac, redisConnectCallbackNC *fn);
int redisAsyncSetDisconnectCallback(redisAsyncContext *ac, redisDisconnectCallback *fn);

redisAsyncPushFn *redisAsyncSetPushCallback(redisAsyncContext *ac, redisAsyncPushFn *fn);
int redisAsyncSetTimeout(redisAsyncContext *ac, struct timeval tv);
/* Close when all replies have come. */
void redisAsyncDisconnect(redisAsyncContext *ac);
/* Close now, or when the callback returns that calls it. All callbacks are called with NULL. */
void redisAsyncFree(redisAsyncContext *ac);

/* For adapters: the socket is ready, the timer has expired. */
void redisAsyncHandleRead(redisAsyncContext *ac);
void redisAsyncHandleWrite(redisAsyncContext *ac);
void redisAsyncHandleTimeout(redisAsyncContext *ac);
void redisAsyncRead(redisAsyncContext *ac);
void redisAsyncWrite(redisAsyncContext *ac);

/* REDIS_ERR where the context is closing, the format is bad, or memory or queue are full. */
int redisvAsyncCommand(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata, const char *format,
                       va_list arguments);
int redisAsyncCommand(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata, const char *format, ...);
int redisAsyncCommandArgv(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata, int argc,
                          const char **argv, const size_t *argvlen);
int redisAsyncFormattedCommand(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata,
                               const char *command, size_t length);

#ifdef __cplusplus
}
#endif

#endif
