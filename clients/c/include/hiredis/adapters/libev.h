/* A context on a loop of libev. */
#ifndef __HIREDIS_LIBEV_H__
#define __HIREDIS_LIBEV_H__

#include <ev.h>
#include <stdlib.h>
#include <sys/types.h>

#include "../async.h"

typedef struct redisLibevEvents {
    redisAsyncContext *context;
    struct ev_loop *loop;
    int reading, writing;
    ev_io rev, wev;
    ev_timer timer;
} redisLibevEvents;

/* libev may be built without a loop argument; the context knows its loop. */
static inline void redisLibevReadEvent(EV_P_ ev_io *watcher, int revents) {
#if EV_MULTIPLICITY
    (void)loop;
#endif
    (void)revents;
    redisAsyncHandleRead(((redisLibevEvents *)watcher->data)->context);
}

static inline void redisLibevWriteEvent(EV_P_ ev_io *watcher, int revents) {
#if EV_MULTIPLICITY
    (void)loop;
#endif
    (void)revents;
    redisAsyncHandleWrite(((redisLibevEvents *)watcher->data)->context);
}

static inline void redisLibevStart(redisLibevEvents *e, int *on, ev_io *watcher, int wanted) {
#if EV_MULTIPLICITY
    struct ev_loop *loop = e->loop;
#endif
    (void)e;
    if (*on == wanted) return;
    *on = wanted;
    if (wanted) {
        ev_io_start(EV_A_ watcher);
    } else {
        ev_io_stop(EV_A_ watcher);
    }
}

static inline void redisLibevAddRead(void *privdata) {
    redisLibevEvents *e = (redisLibevEvents *)privdata;
    redisLibevStart(e, &e->reading, &e->rev, 1);
}

static inline void redisLibevDelRead(void *privdata) {
    redisLibevEvents *e = (redisLibevEvents *)privdata;
    redisLibevStart(e, &e->reading, &e->rev, 0);
}

static inline void redisLibevAddWrite(void *privdata) {
    redisLibevEvents *e = (redisLibevEvents *)privdata;
    redisLibevStart(e, &e->writing, &e->wev, 1);
}

static inline void redisLibevDelWrite(void *privdata) {
    redisLibevEvents *e = (redisLibevEvents *)privdata;
    redisLibevStart(e, &e->writing, &e->wev, 0);
}

static inline void redisLibevStopTimer(void *privdata) {
    redisLibevEvents *e = (redisLibevEvents *)privdata;
#if EV_MULTIPLICITY
    struct ev_loop *loop = e->loop;
#endif
    ev_timer_stop(EV_A_ & e->timer);
}

static inline void redisLibevCleanup(void *privdata) {
    redisLibevDelRead(privdata);
    redisLibevDelWrite(privdata);
    redisLibevStopTimer(privdata);
    hi_free(privdata);
}

static inline void redisLibevTimeout(EV_P_ ev_timer *timer, int revents) {
#if EV_MULTIPLICITY
    (void)loop;
#endif
    (void)revents;
    redisAsyncHandleTimeout(((redisLibevEvents *)timer->data)->context);
}

static inline void redisLibevSetTimeout(void *privdata, struct timeval tv) {
    redisLibevEvents *e = (redisLibevEvents *)privdata;
#if EV_MULTIPLICITY
    struct ev_loop *loop = e->loop;
#endif
    /* Once, not again and again: the timer is set anew by what waits. */
    ev_timer_stop(EV_A_ & e->timer);
    ev_timer_set(&e->timer, (double)tv.tv_sec + (double)tv.tv_usec / 1e6, 0.);
    ev_timer_start(EV_A_ & e->timer);
}

static inline int redisLibevAttach(EV_P_ redisAsyncContext *ac) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisLibevEvents *e = (redisLibevEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
#if EV_MULTIPLICITY
    e->loop = EV_A;
#endif
    e->rev.data = e->wev.data = e->timer.data = e;
    ev_io_init(&e->rev, redisLibevReadEvent, ac->c.fd, EV_READ);
    ev_io_init(&e->wev, redisLibevWriteEvent, ac->c.fd, EV_WRITE);
    ev_init(&e->timer, redisLibevTimeout);
    e->rev.data = e->wev.data = e->timer.data = e;
    ac->ev.data = e;
    ac->ev.addRead = redisLibevAddRead;
    ac->ev.delRead = redisLibevDelRead;
    ac->ev.addWrite = redisLibevAddWrite;
    ac->ev.delWrite = redisLibevDelWrite;
    ac->ev.cleanup = redisLibevCleanup;
    ac->ev.scheduleTimer = redisLibevSetTimeout;
    return REDIS_OK;
}

#endif
