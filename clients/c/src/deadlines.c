/* Timeouts of single asynchronous commands: a heap of deadlines beside the context's timer. A command that is
 * late is called back with NULL, and its callback forgotten; its reply, if it still comes, finds none. Adding
 * and removing take log n; commands without a timeout cost nothing. */
#include "config.h"

#include <string.h>
#include <time.h>

#include "async_internal.h"
#include "mantissa/client.h"

struct deadlines {
    struct timed **heap; /* the earliest first */
    size_t count, capacity;
    int64_t connection_due; /* the timeout of the whole connection, INT64_MAX if it has none */
};

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t microseconds(const struct timeval *time) {
    if (time == NULL || (time->tv_sec == 0 && time->tv_usec == 0)) return INT64_MAX;
    /* Beyond a century it is the same. */
    return (int64_t)time->tv_sec > 3000000000 ? INT64_MAX : (int64_t)time->tv_sec * 1000000 + time->tv_usec;
}

static int64_t after(int64_t start, int64_t time) {
    return time > INT64_MAX - start ? INT64_MAX : start + time;
}

/* ---- The heap ---- */

static void place(struct deadlines *d, size_t at, struct timed *timed) {
    d->heap[at] = timed;
    timed->at = at;
}

static void move_up(struct deadlines *d, size_t at, struct timed *timed) {
    for (; at > 0 && d->heap[(at - 1) / 2]->due > timed->due; at = (at - 1) / 2) {
        place(d, at, d->heap[(at - 1) / 2]);
    }
    place(d, at, timed);
}

static void move_down(struct deadlines *d, size_t at, struct timed *timed) {
    for (size_t child; (child = 2 * at + 1) < d->count; at = child) {
        if (child + 1 < d->count && d->heap[child + 1]->due < d->heap[child]->due) child++;
        if (d->heap[child]->due >= timed->due) break;
        place(d, at, d->heap[child]);
    }
    place(d, at, timed);
}

void deadlines_remove(redisCallback *callback) {
    struct timed *timed = (struct timed *)callback;
    struct deadlines *d = timed->deadlines;
    size_t at = timed->at;
    struct timed *last = d->heap[--d->count];
    callback->unsubscribe_sent = 0;
    if (last == timed) return;
    if (at > 0 && d->heap[(at - 1) / 2]->due > last->due) {
        move_up(d, at, last);
    } else {
        move_down(d, at, last);
    }
}

/* ---- The context's timer ---- */

static void arm(redisAsyncContext *ac) {
    struct deadlines *d = deadlines_of(ac);
    int64_t due = d->connection_due;
    if (d->count > 0 && d->heap[0]->due < due) due = d->heap[0]->due;
    if (due == INT64_MAX || ac->ev.scheduleTimer == NULL) return;
    int64_t left = due - now_us();
    /* A timer of zero is none for some loops. */
    if (left < 1000) left = 1000;
    struct timeval wait = {(time_t)(left / 1000000), (suseconds_t)(left % 1000000)};
    ac->ev.scheduleTimer(ac->ev.data, wait);
}

static void connection_begins(redisAsyncContext *ac) {
    const struct timeval *time =
        ac->c.flags & REDIS_CONNECTED ? ac->c.command_timeout : ac->c.connect_timeout;
    deadlines_of(ac)->connection_due = after(now_us(), microseconds(time));
}

void __mantissaStartTimer(redisAsyncContext *ac) {
    connection_begins(ac);
    arm(ac);
}

int deadlines_expire(redisAsyncContext *ac) {
    struct deadlines *d = deadlines_of(ac);
    if (d == NULL) return DEADLINES_CONNECTION;
    int64_t now = now_us();
    while (d->count > 0 && d->heap[0]->due <= now) {
        redisCallback *late = &d->heap[0]->callback, call = *late;
        deadlines_remove(late);
        late->fn = NULL;
        ac->err = REDIS_ERR_TIMEOUT;
        ac->errstr = (char *)"Timeout";
        async_run(ac, &call, NULL);
        async_copy_error(ac);
        if (ac->c.flags & REDIS_FREEING) {
            if (!(ac->c.flags & REDIS_IN_CALLBACK)) redisAsyncFree(ac);
            return DEADLINES_DONE;
        }
    }
    if (d->connection_due <= now) return DEADLINES_CONNECTION;
    arm(ac);
    return DEADLINES_DONE;
}

void deadlines_free(redisAsyncContext *ac) {
    struct deadlines *d = deadlines_of(ac);
    if (d == NULL) return;
    reader_of(ac->c.reader)->deadlines = NULL;
    hi_free(d->heap);
    hi_free(d);
}

/* ---- Commands ---- */

static struct deadlines *make_room(redisAsyncContext *ac) {
    struct deadlines *d = deadlines_of(ac);
    if (d == NULL) {
        if ((d = hi_calloc(1, sizeof *d)) == NULL) return NULL;
        reader_of(ac->c.reader)->deadlines = d;
        connection_begins(ac);
    }
    if (d->count == d->capacity) {
        size_t capacity = d->capacity == 0 ? 16 : 2 * d->capacity;
        struct timed **heap = hi_realloc(d->heap, capacity * sizeof(struct timed *));
        if (heap == NULL) return NULL;
        d->heap = heap;
        d->capacity = capacity;
    }
    return d;
}

int mantissaAsyncFormattedCommandWithin(redisAsyncContext *ac, struct timeval timeout, redisCallbackFn *fn,
                                        void *privdata, const char *command, size_t length) {
    int64_t time = microseconds(&timeout);
    if (time == INT64_MAX) return redisAsyncFormattedCommand(ac, fn, privdata, command, length);
    struct deadlines *d;
    if (ac->ev.scheduleTimer == NULL || timeout.tv_sec < 0 || timeout.tv_usec < 0) return REDIS_ERR;
    if (command_kind(command, length) != OTHER_COMMAND || (d = make_room(ac)) == NULL) return REDIS_ERR;
    struct timed *timed = hi_calloc(1, sizeof *timed);
    if (timed == NULL) return REDIS_ERR;
    timed->callback.fn = fn;
    timed->callback.privdata = privdata;
    timed->callback.unsubscribe_sent = CALLBACK_TIMED;
    timed->deadlines = d;
    timed->due = after(now_us(), time);
    /* It is in the heap before the command's own timer is set. */
    move_up(d, d->count++, timed);
    if (async_send(ac, &timed->callback, command, length) == REDIS_OK) return REDIS_OK;
    deadlines_remove(&timed->callback);
    hi_free(timed);
    return REDIS_ERR;
}

int mantissaAsyncCommandWithin(redisAsyncContext *ac, struct timeval timeout, redisCallbackFn *fn,
                               void *privdata, const char *format, ...) {
    char *command;
    va_list arguments;
    va_start(arguments, format);
    int length = redisvFormatCommand(&command, format, arguments);
    va_end(arguments);
    if (length < 0) return REDIS_ERR;
    int result = mantissaAsyncFormattedCommandWithin(ac, timeout, fn, privdata, command, (size_t)length);
    hi_free(command);
    return result;
}

int mantissaAsyncCommandArgvWithin(redisAsyncContext *ac, struct timeval timeout, redisCallbackFn *fn,
                                   void *privdata, int argc, const char **argv, const size_t *argvlen) {
    char *command;
    long long length = redisFormatCommandArgv(&command, argc, argv, argvlen);
    if (length < 0) return REDIS_ERR;
    int result = mantissaAsyncFormattedCommandWithin(ac, timeout, fn, privdata, command, (size_t)length);
    hi_free(command);
    return result;
}
