/* A context on an event_base of libevent 2. */
#ifndef __HIREDIS_LIBEVENT_H__
#define __HIREDIS_LIBEVENT_H__

#include <event2/event.h>

#include "../async.h"

typedef struct redisLibeventEvents {
    redisAsyncContext *context;
    struct event *ev;
    struct event_base *base;
    struct timeval tv;
    short flags;    /* what is waited for */
    short handling; /* the handler below runs: it frees this, not the cleanup */
    short cleaned_up;
} redisLibeventEvents;

static inline void redisLibeventHandler(evutil_socket_t fd, short event, void *arg) {
    redisLibeventEvents *e = (redisLibeventEvents *)arg;
    redisAsyncContext *ac = e->context;
    (void)fd;
    e->handling = 1;
    if (event & EV_TIMEOUT) redisAsyncHandleTimeout(ac);
    if (!e->cleaned_up && (event & EV_READ)) redisAsyncHandleRead(ac);
    if (!e->cleaned_up && (event & EV_WRITE)) redisAsyncHandleWrite(ac);
    e->handling = 0;
    if (e->cleaned_up) hi_free(e);
}

static inline void redisLibeventUpdate(redisLibeventEvents *e, short flags) {
    if (e->flags == flags) return;
    const struct timeval *tv = e->tv.tv_sec != 0 || e->tv.tv_usec != 0 ? &e->tv : NULL;
    e->flags = flags;
    event_del(e->ev);
    if (flags == 0) return;
    event_assign(e->ev, e->base, e->context->c.fd, (short)(flags | EV_PERSIST), redisLibeventHandler, e);
    event_add(e->ev, tv);
}

static inline void redisLibeventAddRead(void *data) {
    redisLibeventEvents *e = (redisLibeventEvents *)data;
    redisLibeventUpdate(e, (short)(e->flags | EV_READ));
}

static inline void redisLibeventDelRead(void *data) {
    redisLibeventEvents *e = (redisLibeventEvents *)data;
    redisLibeventUpdate(e, (short)(e->flags & ~EV_READ));
}

static inline void redisLibeventAddWrite(void *data) {
    redisLibeventEvents *e = (redisLibeventEvents *)data;
    redisLibeventUpdate(e, (short)(e->flags | EV_WRITE));
}

static inline void redisLibeventDelWrite(void *data) {
    redisLibeventEvents *e = (redisLibeventEvents *)data;
    redisLibeventUpdate(e, (short)(e->flags & ~EV_WRITE));
}

static inline void redisLibeventCleanup(void *data) {
    redisLibeventEvents *e = (redisLibeventEvents *)data;
    if (e == NULL) return;
    event_del(e->ev);
    event_free(e->ev);
    e->ev = NULL;
    e->cleaned_up = 1;
    if (!e->handling) hi_free(e);
}

static inline void redisLibeventSetTimeout(void *data, struct timeval tv) {
    redisLibeventEvents *e = (redisLibeventEvents *)data;
    e->tv = tv;
    if (e->flags != 0) event_add(e->ev, &e->tv);
}

static inline int redisLibeventAttach(redisAsyncContext *ac, struct event_base *base) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisLibeventEvents *e = (redisLibeventEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
    e->base = base;
    e->ev = event_new(base, ac->c.fd, EV_READ | EV_WRITE, redisLibeventHandler, e);
    if (e->ev == NULL) {
        hi_free(e);
        return REDIS_ERR;
    }
    ac->ev.data = e;
    ac->ev.addRead = redisLibeventAddRead;
    ac->ev.delRead = redisLibeventDelRead;
    ac->ev.addWrite = redisLibeventAddWrite;
    ac->ev.delWrite = redisLibeventDelWrite;
    ac->ev.cleanup = redisLibeventCleanup;
    ac->ev.scheduleTimer = redisLibeventSetTimeout;
    return REDIS_OK;
}

#endif
