/* A context as a GSource: attach it to a GMainContext by g_source_attach. */
#ifndef __HIREDIS_GLIB_H__
#define __HIREDIS_GLIB_H__

#include <glib.h>

#include "../async.h"

typedef struct {
    GSource source;
    redisAsyncContext *ac; /* NULL when it is gone */
    GPollFD poll_fd;
    gint64 deadline; /* of g_get_monotonic_time; 0 is none */
} RedisSource;

static inline void redis_source_add_read(gpointer data) { ((RedisSource *)data)->poll_fd.events |= G_IO_IN; }
static inline void redis_source_del_read(gpointer data) {
    ((RedisSource *)data)->poll_fd.events &= (gushort)~G_IO_IN;
}
static inline void redis_source_add_write(gpointer data) {
    ((RedisSource *)data)->poll_fd.events |= G_IO_OUT;
}
static inline void redis_source_del_write(gpointer data) {
    ((RedisSource *)data)->poll_fd.events &= (gushort)~G_IO_OUT;
}

static inline void redis_source_cleanup(gpointer data) {
    RedisSource *source = (RedisSource *)data;
    source->poll_fd.events = 0;
    source->ac = NULL;
    g_source_remove_poll(&source->source, &source->poll_fd);
    g_source_destroy(&source->source);
}

static inline void redis_source_set_timer(gpointer data, struct timeval tv) {
    RedisSource *source = (RedisSource *)data;
    source->deadline = g_get_monotonic_time() + (gint64)tv.tv_sec * G_USEC_PER_SEC + tv.tv_usec;
    g_source_set_ready_time(&source->source, source->deadline);
}

static inline gboolean redis_source_prepare(GSource *source, gint *timeout) {
    RedisSource *redis = (RedisSource *)source;
    *timeout = -1;
    return (redis->poll_fd.events & redis->poll_fd.revents) != 0;
}

static inline gboolean redis_source_check(GSource *source) {
    RedisSource *redis = (RedisSource *)source;
    return (redis->poll_fd.revents & (redis->poll_fd.events | G_IO_ERR | G_IO_HUP)) != 0;
}

static inline gboolean redis_source_dispatch(GSource *source, GSourceFunc callback, gpointer data) {
    RedisSource *redis = (RedisSource *)source;
    gushort ready = redis->poll_fd.revents, failed = ready & (G_IO_ERR | G_IO_HUP);
    gushort wanted = redis->poll_fd.events;
    redis->poll_fd.revents = 0;
    if (redis->ac != NULL && redis->deadline != 0 && g_get_monotonic_time() >= redis->deadline) {
        redis->deadline = 0;
        g_source_set_ready_time(source, -1);
        redisAsyncHandleTimeout(redis->ac);
    }
    if (redis->ac != NULL && (wanted & G_IO_OUT) && (ready & G_IO_OUT || failed))
        redisAsyncHandleWrite(redis->ac);
    if (redis->ac != NULL && (wanted & G_IO_IN) && (ready & G_IO_IN || failed))
        redisAsyncHandleRead(redis->ac);
    if (callback != NULL) return callback(data);
    return redis->ac != NULL ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

static inline void redis_source_finalize(GSource *source) {
    RedisSource *redis = (RedisSource *)source;
    /* The source goes before the context, which can not be used then. */
    if (redis->ac != NULL) redis->ac->ev.data = NULL, redis->ac->ev.cleanup = NULL;
}

static inline GSource *redis_source_new(redisAsyncContext *ac) {
    static GSourceFuncs functions = {
        redis_source_prepare, redis_source_check, redis_source_dispatch, redis_source_finalize, NULL, NULL,
    };
    g_return_val_if_fail(ac != NULL, NULL);
    RedisSource *source = (RedisSource *)g_source_new(&functions, sizeof *source);
    if (source == NULL) return NULL;
    source->ac = ac;
    source->deadline = 0;
    source->poll_fd.fd = ac->c.fd;
    source->poll_fd.events = 0;
    source->poll_fd.revents = 0;
    g_source_add_poll(&source->source, &source->poll_fd);
    ac->ev.data = source;
    ac->ev.addRead = redis_source_add_read;
    ac->ev.delRead = redis_source_del_read;
    ac->ev.addWrite = redis_source_add_write;
    ac->ev.delWrite = redis_source_del_write;
    ac->ev.cleanup = redis_source_cleanup;
    ac->ev.scheduleTimer = redis_source_set_timer;
    return &source->source;
}

#endif
