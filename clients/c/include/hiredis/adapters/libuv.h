/* A context on a loop of libuv. */
#ifndef __HIREDIS_LIBUV_H__
#define __HIREDIS_LIBUV_H__

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "../async.h"

typedef struct redisLibuvEvents {
    redisAsyncContext *context; /* NULL when it is gone */
    uv_poll_t handle;
    uv_timer_t timer;
    int events;
    int has_timer;
} redisLibuvEvents;

static inline void redisLibuvPoll(uv_poll_t *handle, int status, int events) {
    redisLibuvEvents *e = (redisLibuvEvents *)handle->data;
    /* An error of the socket is found by using it. */
    int ready = status != 0 ? e->events : events;
    if (e->context != NULL && (ready & UV_READABLE)) redisAsyncHandleRead(e->context);
    if (e->context != NULL && (ready & UV_WRITABLE)) redisAsyncHandleWrite(e->context);
}

static inline void redisLibuvUpdate(void *privdata, int events) {
    redisLibuvEvents *e = (redisLibuvEvents *)privdata;
    if (e->events == events) return;
    e->events = events;
    if (events == 0) {
        uv_poll_stop(&e->handle);
    } else {
        uv_poll_start(&e->handle, events, redisLibuvPoll);
    }
}

static inline void redisLibuvAddRead(void *privdata) {
    redisLibuvUpdate(privdata, ((redisLibuvEvents *)privdata)->events | UV_READABLE);
}

static inline void redisLibuvDelRead(void *privdata) {
    redisLibuvUpdate(privdata, ((redisLibuvEvents *)privdata)->events & ~UV_READABLE);
}

static inline void redisLibuvAddWrite(void *privdata) {
    redisLibuvUpdate(privdata, ((redisLibuvEvents *)privdata)->events | UV_WRITABLE);
}

static inline void redisLibuvDelWrite(void *privdata) {
    redisLibuvUpdate(privdata, ((redisLibuvEvents *)privdata)->events & ~UV_WRITABLE);
}

static inline void redisLibuvClosed(uv_handle_t *handle) { hi_free(handle->data); }

static inline void redisLibuvTimerClosed(uv_handle_t *timer) {
    redisLibuvEvents *e = (redisLibuvEvents *)timer->data;
    uv_close((uv_handle_t *)&e->handle, redisLibuvClosed);
}

static inline void redisLibuvTimeout(uv_timer_t *timer) {
    redisLibuvEvents *e = (redisLibuvEvents *)timer->data;
    if (e->context != NULL) redisAsyncHandleTimeout(e->context);
}

static inline void redisLibuvSetTimeout(void *privdata, struct timeval tv) {
    redisLibuvEvents *e = (redisLibuvEvents *)privdata;
    uint64_t milliseconds = (uint64_t)tv.tv_sec * 1000 + ((uint64_t)tv.tv_usec + 999) / 1000;
    if (!e->has_timer) {
        if (uv_timer_init(e->handle.loop, &e->timer) != 0) return;
        e->has_timer = 1;
        e->timer.data = e;
    }
    uv_timer_start(&e->timer, redisLibuvTimeout, milliseconds, 0);
}

/* Handles of libuv are freed when it has closed them. */
static inline void redisLibuvCleanup(void *privdata) {
    redisLibuvEvents *e = (redisLibuvEvents *)privdata;
    e->context = NULL;
    uv_poll_stop(&e->handle);
    if (e->has_timer) {
        uv_timer_stop(&e->timer);
        uv_close((uv_handle_t *)&e->timer, redisLibuvTimerClosed);
    } else {
        uv_close((uv_handle_t *)&e->handle, redisLibuvClosed);
    }
}

static inline int redisLibuvAttach(redisAsyncContext *ac, uv_loop_t *loop) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisLibuvEvents *e = (redisLibuvEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    if (uv_poll_init_socket(loop, &e->handle, ac->c.fd) != 0) {
        hi_free(e);
        return REDIS_ERR;
    }
    e->context = ac;
    e->handle.data = e;
    ac->ev.data = e;
    ac->ev.addRead = redisLibuvAddRead;
    ac->ev.delRead = redisLibuvDelRead;
    ac->ev.addWrite = redisLibuvAddWrite;
    ac->ev.delWrite = redisLibuvDelWrite;
    ac->ev.cleanup = redisLibuvCleanup;
    ac->ev.scheduleTimer = redisLibuvSetTimeout;
    return REDIS_OK;
}

#endif
