/* A context on ivykis, in the thread that has called iv_init. */
#ifndef __HIREDIS_IVYKIS_H__
#define __HIREDIS_IVYKIS_H__

#include <iv.h>

#include "../async.h"

typedef struct redisIvykisEvents {
    redisAsyncContext *context;
    struct iv_fd fd;
    struct iv_timer timer;
} redisIvykisEvents;

static inline void redisIvykisReadEvent(void *arg) {
    redisAsyncHandleRead(((redisIvykisEvents *)arg)->context);
}

static inline void redisIvykisWriteEvent(void *arg) {
    redisAsyncHandleWrite(((redisIvykisEvents *)arg)->context);
}

static inline void redisIvykisTimeout(void *arg) {
    redisAsyncHandleTimeout(((redisIvykisEvents *)arg)->context);
}

static inline void redisIvykisAddRead(void *privdata) {
    iv_fd_set_handler_in(&((redisIvykisEvents *)privdata)->fd, redisIvykisReadEvent);
}

static inline void redisIvykisDelRead(void *privdata) {
    iv_fd_set_handler_in(&((redisIvykisEvents *)privdata)->fd, NULL);
}

static inline void redisIvykisAddWrite(void *privdata) {
    iv_fd_set_handler_out(&((redisIvykisEvents *)privdata)->fd, redisIvykisWriteEvent);
}

static inline void redisIvykisDelWrite(void *privdata) {
    iv_fd_set_handler_out(&((redisIvykisEvents *)privdata)->fd, NULL);
}

static inline void redisIvykisSetTimeout(void *privdata, struct timeval tv) {
    redisIvykisEvents *e = (redisIvykisEvents *)privdata;
    if (iv_timer_registered(&e->timer)) iv_timer_unregister(&e->timer);
    iv_validate_now();
    e->timer.expires = iv_now;
    e->timer.expires.tv_sec += tv.tv_sec;
    e->timer.expires.tv_nsec += tv.tv_usec * 1000;
    if (e->timer.expires.tv_nsec >= 1000000000) {
        e->timer.expires.tv_sec++;
        e->timer.expires.tv_nsec -= 1000000000;
    }
    iv_timer_register(&e->timer);
}

static inline void redisIvykisCleanup(void *privdata) {
    redisIvykisEvents *e = (redisIvykisEvents *)privdata;
    if (iv_timer_registered(&e->timer)) iv_timer_unregister(&e->timer);
    iv_fd_unregister(&e->fd);
    hi_free(e);
}

static inline int redisIvykisAttach(redisAsyncContext *ac) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisIvykisEvents *e = (redisIvykisEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
    IV_FD_INIT(&e->fd);
    e->fd.fd = ac->c.fd;
    e->fd.cookie = e;
    iv_fd_register(&e->fd);
    IV_TIMER_INIT(&e->timer);
    e->timer.cookie = e;
    e->timer.handler = redisIvykisTimeout;
    ac->ev.data = e;
    ac->ev.addRead = redisIvykisAddRead;
    ac->ev.delRead = redisIvykisDelRead;
    ac->ev.addWrite = redisIvykisAddWrite;
    ac->ev.delWrite = redisIvykisDelWrite;
    ac->ev.cleanup = redisIvykisCleanup;
    ac->ev.scheduleTimer = redisIvykisSetTimeout;
    return REDIS_OK;
}

#endif
