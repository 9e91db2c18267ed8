/* A context on the event loop of the server that a module is in. Only on the server's main thread. */
#ifndef __HIREDIS_REDISMODULEAPI_H__
#define __HIREDIS_REDISMODULEAPI_H__

#include <redismodule.h>

#include "../async.h"

typedef struct redisModuleEvents {
    redisAsyncContext *context;
    RedisModuleCtx *module_ctx;
    int fd;
    int reading, writing;
    int timer_active;
    RedisModuleTimerID timer_id;
} redisModuleEvents;

static inline void redisModuleReadEvent(int fd, void *privdata, int mask) {
    (void)fd, (void)mask;
    redisAsyncHandleRead(((redisModuleEvents *)privdata)->context);
}

static inline void redisModuleWriteEvent(int fd, void *privdata, int mask) {
    (void)fd, (void)mask;
    redisAsyncHandleWrite(((redisModuleEvents *)privdata)->context);
}

static inline void redisModuleAddRead(void *privdata) {
    redisModuleEvents *e = (redisModuleEvents *)privdata;
    if (e->reading) return;
    e->reading = 1;
    RedisModule_EventLoopAdd(e->fd, REDISMODULE_EVENTLOOP_READABLE, redisModuleReadEvent, e);
}

static inline void redisModuleDelRead(void *privdata) {
    redisModuleEvents *e = (redisModuleEvents *)privdata;
    if (!e->reading) return;
    e->reading = 0;
    RedisModule_EventLoopDel(e->fd, REDISMODULE_EVENTLOOP_READABLE);
}

static inline void redisModuleAddWrite(void *privdata) {
    redisModuleEvents *e = (redisModuleEvents *)privdata;
    if (e->writing) return;
    e->writing = 1;
    RedisModule_EventLoopAdd(e->fd, REDISMODULE_EVENTLOOP_WRITABLE, redisModuleWriteEvent, e);
}

static inline void redisModuleDelWrite(void *privdata) {
    redisModuleEvents *e = (redisModuleEvents *)privdata;
    if (!e->writing) return;
    e->writing = 0;
    RedisModule_EventLoopDel(e->fd, REDISMODULE_EVENTLOOP_WRITABLE);
}

static inline void redisModuleTimeout(RedisModuleCtx *module_ctx, void *privdata) {
    redisModuleEvents *e = (redisModuleEvents *)privdata;
    (void)module_ctx;
    e->timer_active = 0;
    redisAsyncHandleTimeout(e->context);
}

static inline void redisModuleStopTimer(redisModuleEvents *e) {
    if (e->timer_active) RedisModule_StopTimer(e->module_ctx, e->timer_id, NULL);
    e->timer_active = 0;
}

static inline void redisModuleSetTimeout(void *privdata, struct timeval tv) {
    redisModuleEvents *e = (redisModuleEvents *)privdata;
    redisModuleStopTimer(e);
    mstime_t milliseconds = (mstime_t)tv.tv_sec * 1000 + (tv.tv_usec + 999) / 1000;
    e->timer_id = RedisModule_CreateTimer(e->module_ctx, milliseconds, redisModuleTimeout, e);
    e->timer_active = 1;
}

static inline void redisModuleCleanup(void *privdata) {
    redisModuleEvents *e = (redisModuleEvents *)privdata;
    redisModuleDelRead(privdata);
    redisModuleDelWrite(privdata);
    redisModuleStopTimer(e);
    hi_free(e);
}

/* Whether the server is new enough for what is used here: Redis 7.0. */
static inline int redisModuleCompatibilityCheck(void) {
    return RedisModule_EventLoopAdd != NULL && RedisModule_CreateTimer != NULL ? REDIS_OK : REDIS_ERR;
}

static inline int redisModuleAttach(redisAsyncContext *ac, RedisModuleCtx *module_ctx) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisModuleEvents *e = (redisModuleEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
    e->module_ctx = module_ctx;
    e->fd = ac->c.fd;
    ac->ev.data = e;
    ac->ev.addRead = redisModuleAddRead;
    ac->ev.delRead = redisModuleDelRead;
    ac->ev.addWrite = redisModuleAddWrite;
    ac->ev.delWrite = redisModuleDelWrite;
    ac->ev.cleanup = redisModuleCleanup;
    ac->ev.scheduleTimer = redisModuleSetTimeout;
    return REDIS_OK;
}

#endif
