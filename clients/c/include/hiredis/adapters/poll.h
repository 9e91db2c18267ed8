/* An event loop of one context, by poll: for programs and tests that have no other. */
#ifndef HIREDIS_POLL_H
#define HIREDIS_POLL_H

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "../async.h"

/* What redisPollTick has handled. */
#define REDIS_POLL_HANDLED_READ 1
#define REDIS_POLL_HANDLED_WRITE 2
#define REDIS_POLL_HANDLED_TIMEOUT 4

typedef struct redisPollEvents {
    redisAsyncContext *context;
    redisFD fd;
    char reading, writing;
    char in_tick; /* freed by the tick, not before */
    char deleted;
    double deadline; /* seconds; 0 is none */
} redisPollEvents;

static inline double redisPollGetNow(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline int redisPollMilliseconds(const redisPollEvents *e, double timeout) {
    if (e->deadline != 0) {
        double left = e->deadline - redisPollGetNow();
        if (left < 0) left = 0;
        if (timeout < 0 || left < timeout) timeout = left;
    }
    return timeout < 0 ? -1 : timeout > 2e6 ? 2000000000 : (int)ceil(timeout * 1000);
}

/* Wait for events for so many seconds, 0 not at all, below 0 without end, and handle them. */
static inline int redisPollTick(redisAsyncContext *ac, double timeout) {
    redisPollEvents *e = (redisPollEvents *)ac->ev.data;
    if (e == NULL) return 0;
    int reading = e->reading, writing = e->writing;
    if (!reading && !writing && e->deadline == 0) return 0;

    struct pollfd pfd;
    memset(&pfd, 0, sizeof pfd);
    pfd.fd = e->fd;
    pfd.events = (short)((reading ? POLLIN : 0) | (writing ? POLLOUT : 0));
    int ready = poll(&pfd, 1, redisPollMilliseconds(e, timeout)), handled = 0;
    if (ready < 0) return errno == EINTR ? 0 : ready;

    e->in_tick = 1;
    short failed = pfd.revents & (POLLERR | POLLHUP);
    if (reading && (pfd.revents & POLLIN || failed)) {
        redisAsyncHandleRead(ac);
        handled |= REDIS_POLL_HANDLED_READ;
    }
    /* The context may be gone now; the events are not. */
    if (!e->deleted && writing && (pfd.revents & POLLOUT || failed)) {
        redisAsyncHandleWrite(ac);
        handled |= REDIS_POLL_HANDLED_WRITE;
    }
    if (!e->deleted && e->deadline != 0 && redisPollGetNow() >= e->deadline) {
        e->deadline = 0;
        redisAsyncHandleTimeout(ac);
        handled |= REDIS_POLL_HANDLED_TIMEOUT;
    }
    e->in_tick = 0;
    if (e->deleted) hi_free(e);
    return handled;
}

static inline void redisPollAddRead(void *data) { ((redisPollEvents *)data)->reading = 1; }
static inline void redisPollDelRead(void *data) { ((redisPollEvents *)data)->reading = 0; }
static inline void redisPollAddWrite(void *data) { ((redisPollEvents *)data)->writing = 1; }
static inline void redisPollDelWrite(void *data) { ((redisPollEvents *)data)->writing = 0; }

static inline void redisPollCleanup(void *data) {
    redisPollEvents *e = (redisPollEvents *)data;
    if (e->context->ev.data == e) e->context->ev.data = NULL;
    e->deleted = 1;
    if (!e->in_tick) hi_free(e);
}

static inline void redisPollScheduleTimer(void *data, struct timeval tv) {
    redisPollEvents *e = (redisPollEvents *)data;
    e->deadline = redisPollGetNow() + (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

static inline int redisPollAttach(redisAsyncContext *ac) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisPollEvents *e = (redisPollEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
    e->fd = ac->c.fd;
    ac->ev.data = e;
    ac->ev.addRead = redisPollAddRead;
    ac->ev.delRead = redisPollDelRead;
    ac->ev.addWrite = redisPollAddWrite;
    ac->ev.delWrite = redisPollDelWrite;
    ac->ev.cleanup = redisPollCleanup;
    ac->ev.scheduleTimer = redisPollScheduleTimer;
    return REDIS_OK;
}

#endif
