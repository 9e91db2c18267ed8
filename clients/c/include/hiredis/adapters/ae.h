/* A context on ae, the event loop of redis-server and valkey-server. */
#ifndef __HIREDIS_AE_H__
#define __HIREDIS_AE_H__

#include <sys/types.h>

#include <ae.h>

#include "../async.h"

typedef struct redisAeEvents {
    redisAsyncContext *context;
    aeEventLoop *loop;
    int fd;
    int reading, writing;
    long long timer; /* -1 is none */
} redisAeEvents;

static inline void redisAeReadEvent(aeEventLoop *loop, int fd, void *privdata, int mask) {
    (void)loop, (void)fd, (void)mask;
    redisAsyncHandleRead(((redisAeEvents *)privdata)->context);
}

static inline void redisAeWriteEvent(aeEventLoop *loop, int fd, void *privdata, int mask) {
    (void)loop, (void)fd, (void)mask;
    redisAsyncHandleWrite(((redisAeEvents *)privdata)->context);
}

static inline void redisAeAddRead(void *privdata) {
    redisAeEvents *e = (redisAeEvents *)privdata;
    if (e->reading) return;
    e->reading = 1;
    aeCreateFileEvent(e->loop, e->fd, AE_READABLE, redisAeReadEvent, e);
}

static inline void redisAeDelRead(void *privdata) {
    redisAeEvents *e = (redisAeEvents *)privdata;
    if (!e->reading) return;
    e->reading = 0;
    aeDeleteFileEvent(e->loop, e->fd, AE_READABLE);
}

static inline void redisAeAddWrite(void *privdata) {
    redisAeEvents *e = (redisAeEvents *)privdata;
    if (e->writing) return;
    e->writing = 1;
    aeCreateFileEvent(e->loop, e->fd, AE_WRITABLE, redisAeWriteEvent, e);
}

static inline void redisAeDelWrite(void *privdata) {
    redisAeEvents *e = (redisAeEvents *)privdata;
    if (!e->writing) return;
    e->writing = 0;
    aeDeleteFileEvent(e->loop, e->fd, AE_WRITABLE);
}

static inline int redisAeTimeout(aeEventLoop *loop, long long id, void *privdata) {
    redisAeEvents *e = (redisAeEvents *)privdata;
    (void)loop, (void)id;
    e->timer = -1;
    redisAsyncHandleTimeout(e->context);
    return AE_NOMORE;
}

static inline void redisAeSetTimeout(void *privdata, struct timeval tv) {
    redisAeEvents *e = (redisAeEvents *)privdata;
    if (e->timer != -1) aeDeleteTimeEvent(e->loop, e->timer);
    e->timer = aeCreateTimeEvent(e->loop, (long long)tv.tv_sec * 1000 + (tv.tv_usec + 999) / 1000,
                                 redisAeTimeout, e, NULL);
}

static inline void redisAeCleanup(void *privdata) {
    redisAeEvents *e = (redisAeEvents *)privdata;
    redisAeDelRead(privdata);
    redisAeDelWrite(privdata);
    if (e->timer != -1) aeDeleteTimeEvent(e->loop, e->timer);
    hi_free(e);
}

static inline int redisAeAttach(aeEventLoop *loop, redisAsyncContext *ac) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisAeEvents *e = (redisAeEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
    e->loop = loop;
    e->fd = ac->c.fd;
    e->timer = -1;
    ac->ev.data = e;
    ac->ev.addRead = redisAeAddRead;
    ac->ev.delRead = redisAeDelRead;
    ac->ev.addWrite = redisAeAddWrite;
    ac->ev.delWrite = redisAeDelWrite;
    ac->ev.cleanup = redisAeCleanup;
    ac->ev.scheduleTimer = redisAeSetTimeout;
    return REDIS_OK;
}

#endif
