/* A context on sd-event, the event loop of libsystemd. */
#ifndef HIREDIS_LIBSDEVENT_H
#define HIREDIS_LIBSDEVENT_H

#include <sys/epoll.h>
#include <systemd/sd-event.h>
#include <time.h>

#include "../async.h"

typedef struct redisLibsdeventEvents {
    redisAsyncContext *context;
    struct sd_event *event;
    struct sd_event_source *io, *timer;
    uint32_t flags; /* what is waited for */
    int handling;   /* a handler below runs: it frees this, not the cleanup */
    int cleaned_up;
} redisLibsdeventEvents;

static inline void redisLibsdeventEnd(redisLibsdeventEvents *e) {
    e->handling = 0;
    if (e->cleaned_up) hi_free(e);
}

static inline int redisLibsdeventHandler(sd_event_source *source, int fd, uint32_t events, void *userdata) {
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)userdata;
    uint32_t wanted = e->flags;
    (void)source, (void)fd;
    /* An error of the socket is found by using it. */
    if (events & (EPOLLERR | EPOLLHUP)) events |= wanted;
    e->handling = 1;
    if (wanted & events & EPOLLIN) redisAsyncHandleRead(e->context);
    if (!e->cleaned_up && (wanted & events & EPOLLOUT)) redisAsyncHandleWrite(e->context);
    redisLibsdeventEnd(e);
    return 0;
}

static inline int redisLibsdeventTimeout(sd_event_source *source, uint64_t usec, void *userdata) {
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)userdata;
    (void)source, (void)usec;
    e->handling = 1;
    redisAsyncHandleTimeout(e->context);
    redisLibsdeventEnd(e);
    return 0;
}

static inline void redisLibsdeventUpdate(redisLibsdeventEvents *e, uint32_t flags) {
    if (e->flags == flags) return;
    e->flags = flags;
    if (e->io == NULL) {
        sd_event_add_io(e->event, &e->io, e->context->c.fd, flags, redisLibsdeventHandler, e);
    } else {
        sd_event_source_set_io_events(e->io, flags);
        sd_event_source_set_enabled(e->io, flags != 0 ? SD_EVENT_ON : SD_EVENT_OFF);
    }
}

static inline void redisLibsdeventAddRead(void *data) {
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)data;
    redisLibsdeventUpdate(e, e->flags | EPOLLIN);
}

static inline void redisLibsdeventDelRead(void *data) {
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)data;
    redisLibsdeventUpdate(e, e->flags & ~(uint32_t)EPOLLIN);
}

static inline void redisLibsdeventAddWrite(void *data) {
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)data;
    redisLibsdeventUpdate(e, e->flags | EPOLLOUT);
}

static inline void redisLibsdeventDelWrite(void *data) {
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)data;
    redisLibsdeventUpdate(e, e->flags & ~(uint32_t)EPOLLOUT);
}

static inline void redisLibsdeventSetTimeout(void *data, struct timeval tv) {
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)data;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t due = (uint64_t)(now.tv_sec + tv.tv_sec) * 1000000 + (uint64_t)(now.tv_nsec / 1000 + tv.tv_usec);
    if (e->timer == NULL) {
        sd_event_add_time(e->event, &e->timer, CLOCK_MONOTONIC, due, 1, redisLibsdeventTimeout, e);
    } else {
        sd_event_source_set_time(e->timer, due);
        sd_event_source_set_enabled(e->timer, SD_EVENT_ONESHOT);
    }
}

static inline void redisLibsdeventCleanup(void *data) {
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)data;
    if (e->io != NULL) sd_event_source_set_enabled(e->io, SD_EVENT_OFF);
    if (e->timer != NULL) sd_event_source_set_enabled(e->timer, SD_EVENT_OFF);
    sd_event_source_unref(e->io);
    sd_event_source_unref(e->timer);
    sd_event_unref(e->event);
    e->cleaned_up = 1;
    if (!e->handling) hi_free(e);
}

static inline int redisLibsdeventAttach(redisAsyncContext *ac, struct sd_event *event) {
    if (ac->ev.data != NULL) return REDIS_ERR;
    redisLibsdeventEvents *e = (redisLibsdeventEvents *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
    e->event = sd_event_ref(event);
    ac->ev.data = e;
    ac->ev.addRead = redisLibsdeventAddRead;
    ac->ev.delRead = redisLibsdeventDelRead;
    ac->ev.addWrite = redisLibsdeventAddWrite;
    ac->ev.delWrite = redisLibsdeventDelWrite;
    ac->ev.cleanup = redisLibsdeventCleanup;
    ac->ev.scheduleTimer = redisLibsdeventSetTimeout;
    return REDIS_OK;
}

#endif
