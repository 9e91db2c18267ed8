/* What the files of the asynchronous part share. */
#ifndef MANTISSA_CLIENT_ASYNC_INTERNAL_H
#define MANTISSA_CLIENT_ASYNC_INTERNAL_H

#include "config.h"
#include "hiredis/async.h"
#include "read.h"

/* For libhiredis_ssl as well, so these two are visible. */
/* The connection is at an end: with an error in the context, or because nothing is left to wait for. */
void __redisAsyncDisconnect(redisAsyncContext *ac);
/* The timer where single commands have timeouts. */
void __mantissaStartTimer(redisAsyncContext *ac);
/* Call the callbacks of all replies that are in the buffer. */
void redisProcessCallbacks(redisAsyncContext *ac);

static inline struct deadlines *deadlines_of(redisAsyncContext *ac) {
    return reader_of(ac->c.reader)->deadlines;
}

/* An operation that waits begins its time anew. */
static inline void async_start_timer(redisAsyncContext *ac) {
    if (UNLIKELY(deadlines_of(ac) != NULL)) {
        __mantissaStartTimer(ac);
        return;
    }
    const struct timeval *timeout =
        ac->c.flags & REDIS_CONNECTED ? ac->c.command_timeout : ac->c.connect_timeout;
    if (ac->ev.scheduleTimer != NULL && timeout != NULL && (timeout->tv_sec != 0 || timeout->tv_usec != 0)) {
        ac->ev.scheduleTimer(ac->ev.data, *timeout);
    }
}

static inline void async_want_read(redisAsyncContext *ac) {
    async_start_timer(ac);
    if (ac->ev.addRead != NULL) ac->ev.addRead(ac->ev.data);
}

static inline void async_want_write(redisAsyncContext *ac, int wanted) {
    if (wanted) async_start_timer(ac);
    void (*change)(void *) = wanted ? ac->ev.addWrite : ac->ev.delWrite;
    if (change != NULL) change(ac->ev.data);
}

/* ---- Timeouts of single commands: deadlines.c ---- */

/* A command with a timeout. `unsubscribe_sent` of the callback, which commands do not use otherwise, is
 * CALLBACK_TIMED while it is in the heap. */
struct timed {
    redisCallback callback;
    struct deadlines *deadlines;
    size_t at;
    int64_t due; /* microseconds of the monotonic clock */
};
enum { CALLBACK_TIMED = 2 };

INTERNAL void deadlines_remove(redisCallback *callback);
/* The timer has expired: call back what is late. DEADLINES_CONNECTION: so is the connection as a whole.
 * DEADLINES_DONE: that is all, and the context may be gone. */
enum { DEADLINES_DONE, DEADLINES_CONNECTION };
INTERNAL int deadlines_expire(redisAsyncContext *ac);
INTERNAL void deadlines_free(redisAsyncContext *ac);
/* Queue a command and its callback, which belongs to the context then. REDIS_ERR: it does not. */
INTERNAL int async_send(redisAsyncContext *ac, redisCallback *callback, const char *command, size_t length);

/* ---- Lists of callbacks ---- */

static inline void callbacks_append(redisCallbackList *list, redisCallback *callback) {
    callback->next = NULL;
    if (list->tail != NULL) {
        list->tail->next = callback;
    } else {
        list->head = callback;
    }
    list->tail = callback;
}

/* The first one, which is the caller's now; NULL if there is none. */
static inline redisCallback *callbacks_take(redisCallbackList *list) {
    redisCallback *callback = list->head;
    if (callback == NULL) return NULL;
    list->head = callback->next;
    if (list->head == NULL) list->tail = NULL;
    if (UNLIKELY(callback->unsubscribe_sent == CALLBACK_TIMED)) deadlines_remove(callback);
    return callback;
}

/* Put all of `from` behind `list`. */
static inline void callbacks_join(redisCallbackList *list, redisCallbackList *from) {
    if (from->head == NULL) return;
    if (list->tail != NULL) {
        list->tail->next = from->head;
    } else {
        list->head = from->head;
    }
    list->tail = from->tail;
    from->head = from->tail = NULL;
}

INTERNAL void async_run(redisAsyncContext *ac, const redisCallback *callback, void *reply);
/* The error of the context, where programs look for it. */
INTERNAL void async_copy_error(redisAsyncContext *ac);

/* ---- Subscriptions ---- */

/* What a command is to the bookkeeping. */
enum command_kind { OTHER_COMMAND, SUBSCRIBES, UNSUBSCRIBES, MONITORS };

INTERNAL enum command_kind command_kind(const char *command, size_t length);
/* Note the channels of a command before it is sent. */
INTERNAL int note_subscribe(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata, const char *command,
                            size_t length);
INTERNAL int note_unsubscribe(redisAsyncContext *ac, const char *command, size_t length);
/* A push that subscriptions bring: message, pmessage, subscribe, unsubscribe and so on. */
INTERNAL int is_subscription_reply(const redisReply *reply);
/* Find the callback of a reply on a subscribed context; fn is NULL if nobody waits for it. */
INTERNAL int subscription_callback(redisAsyncContext *ac, redisReply *reply, redisCallback *found);

INTERNAL struct dict *subscriptions_new(void);
/* Call every callback with NULL, and free it all. */
INTERNAL void subscriptions_end(redisAsyncContext *ac, struct dict *dict);

#endif
