/* A context on a loop of libhv. */
#ifndef __HIREDIS_LIBHV_H__
#define __HIREDIS_LIBHV_H__

#include <hv/hloop.h>

#include "../async.h"

typedef struct redisLibhvEvents {
    redisAsyncContext *context;
    hio_t *io;       /* the loop's, for the socket; its userdata is NULL when the context is gone */
    htimer_t *timer; /* the loop's, until it has fired */
} redisLibhvEvents;

static inline void redisLibhvHandleEvents(hio_t *io) {
    int ready = hio_revents(io);
    redisLibhvEvents *e = (redisLibhvEvents *)hevent_userdata(io);
    if (e != NULL && (ready & HV_READ)) redisAsyncHandleRead(e->context);
    e = (redisLibhvEvents *)hevent_userdata(io);
    if (e != NULL && (ready & HV_WRITE)) redisAsyncHandleWrite(e->context);
}

static inline void redisLibhvAddRead(void *privdata) {
    hio_add(((redisLibhvEvents *)privdata)->io, redisLibhvHandleEvents, HV_READ);
}

static inline void redisLibhvDelRead(void *privdata) {
    hio_del(((redisLibhvEvents *)privdata)->io, HV_READ);
}

static inline void redisLibhvAddWrite(void *privdata) {
    hio_add(((redisLibhvEvents *)privdata)->io, redisLibhvHandleEvents, HV_WRITE);
}

static inline void redisLibhvDelWrite(void *privdata) {
    hio_del(((redisLibhvEvents *)privdata)->io, HV_WRITE);
}

/* A timer that fires once is freed by the loop afterwards. */
static inline void redisLibhvTimeout(htimer_t *timer) {
    redisLibhvEvents *e = (redisLibhvEvents *)hevent_userdata(timer);
    e->timer = NULL;
    redisAsyncHandleTimeout(e->context);
}

static inline void redisLibhvSetTimeout(void *privdata, struct timeval tv) {
    redisLibhvEvents *e = (redisLibhvEvents *)privdata;
    uint32_t milliseconds = (uint32_t)(tv.tv_sec * 1000 + (tv.tv_usec + 999) / 1000);
    if (e->timer != NULL) htimer_del(e->timer);
    /* A timer of 0 ms is none. */
    e->timer = htimer_add(hevent_loop(e->io), redisLibhvTimeout, milliseconds > 0 ? milliseconds : 1, 1);
    if (e->timer != NULL) hevent_set_userdata(e->timer, e);
}

static inline void redisLibhvCleanup(void *privdata) {
    redisLibhvEvents *e = (redisLibhvEvents *)privdata;
    hio_del(e->io, HV_RDWR);
    hevent_set_userdata(e->io, NULL);
    if (e->timer != NULL) htimer_del(e->timer);
    hi_free(e);
}

static inline int redisLibhvAttach(redisAsyncContext *ac, hloop_t *loop) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisLibhvEvents *e = (redisLibhvEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
    e->io = hio_get(loop, ac->c.fd);
    if (e->io == NULL) {
        hi_free(e);
        return REDIS_ERR;
    }
    hevent_set_userdata(e->io, e);
    ac->ev.data = e;
    ac->ev.addRead = redisLibhvAddRead;
    ac->ev.delRead = redisLibhvDelRead;
    ac->ev.addWrite = redisLibhvAddWrite;
    ac->ev.delWrite = redisLibhvDelWrite;
    ac->ev.cleanup = redisLibhvCleanup;
    ac->ev.scheduleTimer = redisLibhvSetTimeout;
    return REDIS_OK;
}

#endif
