/* redisAsyncContext: connecting, sending, and calling back, as the event loop finds the socket ready. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "async_internal.h"
#include "hiredis/net.h"
#include "read.h"

/* ---- Making and freeing ---- */

void async_copy_error(redisAsyncContext *ac) {
    ac->err = ac->c.err;
    ac->errstr = ac->c.errstr;
}

redisAsyncContext *redisAsyncConnectWithOptions(const redisOptions *options) {
    redisOptions own = *options;
    own.push_cb = NULL;
    own.options |= REDIS_OPT_NO_PUSH_AUTOFREE | REDIS_OPT_NONBLOCK;
    redisContext *c = redisConnectWithOptions(&own);
    if (c == NULL) return NULL;
    struct dict *channels = subscriptions_new(), *patterns = subscriptions_new();
    redisAsyncContext *ac = channels == NULL || patterns == NULL ? NULL : hi_realloc(c, sizeof *ac);
    if (ac == NULL) {
        subscriptions_end(NULL, channels);
        subscriptions_end(NULL, patterns);
        redisFree(c);
        return NULL;
    }
    memset((char *)ac + sizeof ac->c, 0, sizeof *ac - sizeof ac->c);
    /* It is when the first event says so. */
    ac->c.flags &= ~REDIS_CONNECTED;
    ac->sub.channels = channels;
    ac->sub.patterns = patterns;
    ac->push_cb = own.async_push_cb;
    async_copy_error(ac);
    return ac;
}

static redisAsyncContext *connect_tcp(const char *ip, int port, const char *source, int bits) {
    redisOptions options = {0};
    REDIS_OPTIONS_SET_TCP(&options, ip, port);
    options.endpoint.tcp.source_addr = source;
    options.options = bits;
    return redisAsyncConnectWithOptions(&options);
}

redisAsyncContext *redisAsyncConnect(const char *ip, int port) { return connect_tcp(ip, port, NULL, 0); }

redisAsyncContext *redisAsyncConnectBind(const char *ip, int port, const char *source_addr) {
    return connect_tcp(ip, port, source_addr, 0);
}

redisAsyncContext *redisAsyncConnectBindWithReuse(const char *ip, int port, const char *source_addr) {
    return connect_tcp(ip, port, source_addr, REDIS_OPT_REUSEADDR);
}

redisAsyncContext *redisAsyncConnectUnix(const char *path) {
    redisOptions options = {0};
    REDIS_OPTIONS_SET_UNIX(&options, path);
    return redisAsyncConnectWithOptions(&options);
}

/* ---- Callbacks ---- */

/* Mark that a callback runs; the answer is what leave_callback takes. */
static int enter_callback(redisAsyncContext *ac) {
    int before = ac->c.flags & REDIS_IN_CALLBACK;
    ac->c.flags |= REDIS_IN_CALLBACK;
    return before;
}

static void leave_callback(redisAsyncContext *ac, int before) {
    if (!before) ac->c.flags &= ~REDIS_IN_CALLBACK;
}

void async_run(redisAsyncContext *ac, const redisCallback *callback, void *reply) {
    if (callback->fn == NULL) return;
    int before = enter_callback(ac);
    callback->fn(ac, reply, callback->privdata);
    leave_callback(ac, before);
}

static void run_all(redisAsyncContext *ac, redisCallbackList *list) {
    for (redisCallback *callback; (callback = callbacks_take(list)) != NULL;) {
        async_run(ac, callback, NULL);
        hi_free(callback);
    }
}

static void run_connected(redisAsyncContext *ac, int status) {
    int before = enter_callback(ac);
    if (ac->onConnect != NULL) {
        ac->onConnect(ac, status);
    } else if (ac->onConnectNC != NULL) {
        ac->onConnectNC(ac, status);
    }
    leave_callback(ac, before);
}

static int set_connected(redisAsyncContext *ac, redisConnectCallback *fn, redisConnectCallbackNC *fn_nc) {
    if (ac->onConnect != NULL || ac->onConnectNC != NULL) return REDIS_ERR;
    ac->onConnect = fn;
    ac->onConnectNC = fn_nc;
    /* The first event of a new socket is that it can be written. */
    async_want_write(ac, 1);
    return REDIS_OK;
}

int redisAsyncSetConnectCallback(redisAsyncContext *ac, redisConnectCallback *fn) {
    return set_connected(ac, fn, NULL);
}

int redisAsyncSetConnectCallbackNC(redisAsyncContext *ac, redisConnectCallbackNC *fn) {
    return set_connected(ac, NULL, fn);
}

int redisAsyncSetDisconnectCallback(redisAsyncContext *ac, redisDisconnectCallback *fn) {
    if (ac->onDisconnect != NULL) return REDIS_ERR;
    ac->onDisconnect = fn;
    return REDIS_OK;
}

redisAsyncPushFn *redisAsyncSetPushCallback(redisAsyncContext *ac, redisAsyncPushFn *fn) {
    redisAsyncPushFn *before = ac->push_cb;
    ac->push_cb = fn;
    return before;
}

int redisAsyncSetTimeout(redisAsyncContext *ac, struct timeval timeout) {
    if (redisContextUpdateCommandTimeout(&ac->c, &timeout) == REDIS_OK) return REDIS_OK;
    __redisSetError(&ac->c, REDIS_ERR_OOM, "Out of memory");
    async_copy_error(ac);
    return REDIS_ERR;
}

/* ---- The end ---- */

static void clean_up_events(redisAsyncContext *ac) {
    if (ac->ev.cleanup != NULL) ac->ev.cleanup(ac->ev.data);
    ac->ev.cleanup = NULL;
}

static void free_now(redisAsyncContext *ac) {
    /* Callbacks that run from here on find a context that takes no commands, and is not freed again. */
    int asked = ac->c.flags & REDIS_FREEING;
    ac->c.flags |= REDIS_FREEING | REDIS_IN_CALLBACK;
    run_all(ac, &ac->replies);
    run_all(ac, &ac->sub.replies);
    subscriptions_end(ac, ac->sub.channels);
    subscriptions_end(ac, ac->sub.patterns);
    deadlines_free(ac);
    clean_up_events(ac);
    if ((ac->c.flags & REDIS_CONNECTED) && ac->onDisconnect != NULL) {
        ac->onDisconnect(ac, ac->err == 0 || asked ? REDIS_OK : REDIS_ERR);
    }
    if (ac->dataCleanup != NULL) ac->dataCleanup(ac->data);
    redisFree(&ac->c);
}

void redisAsyncFree(redisAsyncContext *ac) {
    if (ac == NULL) return;
    ac->c.flags |= REDIS_FREEING;
    if (!(ac->c.flags & REDIS_IN_CALLBACK)) free_now(ac);
}

void __redisAsyncDisconnect(redisAsyncContext *ac) {
    async_copy_error(ac);
    if (ac->err != 0) ac->c.flags |= REDIS_DISCONNECTING;
    clean_up_events(ac);
    if (!(ac->c.flags & REDIS_NO_AUTO_FREE)) free_now(ac);
}

void redisAsyncDisconnect(redisAsyncContext *ac) {
    ac->c.flags |= REDIS_DISCONNECTING;
    ac->c.flags &= ~REDIS_NO_AUTO_FREE;
    if (!(ac->c.flags & REDIS_IN_CALLBACK) && ac->replies.head == NULL) __redisAsyncDisconnect(ac);
}

/* ---- Replies ---- */

static void free_reply(redisAsyncContext *ac, void *reply) { ac->c.reader->fn->freeObject(reply); }

/* A reply that no command waits for, on a context without subscriptions: an error with which the server
 * closes the connection, such as that it has too many clients. */
static int is_last_word(redisAsyncContext *ac, redisReply *reply) {
    if (ac->replies.head != NULL || (ac->c.flags & REDIS_SUBSCRIBED) || reply->type != REDIS_REPLY_ERROR)
        return 0;
    __redisSetError(&ac->c, REDIS_ERR_OTHER, reply->str);
    return 1;
}

/* Give a reply to who waits for it. REDIS_ERR: the context is gone. */
static int deliver(redisAsyncContext *ac, redisReply *reply) {
    redisContext *c = &ac->c;
    if (reply->type == REDIS_REPLY_PUSH) c->flags |= REDIS_SUPPORTS_PUSH;
    redisCallback found = {NULL, NULL, 0, 0, NULL};
    if (reply->type == REDIS_REPLY_PUSH && !is_subscription_reply(reply)) {
        int before = enter_callback(ac);
        if (ac->push_cb != NULL) ac->push_cb(ac, reply);
        leave_callback(ac, before);
        free_reply(ac, reply);
    } else if (is_last_word(ac, reply)) {
        free_reply(ac, reply);
        __redisAsyncDisconnect(ac);
        return REDIS_ERR;
    } else {
        /* Pushes stand between replies, never for one. */
        redisCallback *waiting = reply->type == REDIS_REPLY_PUSH ? NULL : callbacks_take(&ac->replies);
        if (waiting != NULL) {
            found = *waiting;
        } else if (c->flags & REDIS_SUBSCRIBED) {
            subscription_callback(ac, reply, &found);
        }
        async_run(ac, &found, reply);
        /* MONITOR's callback waits for the next line, behind the commands that it has just sent. */
        if (waiting != NULL && (c->flags & REDIS_MONITORING)) {
            callbacks_append(&ac->replies, waiting);
        } else {
            hi_free(waiting);
        }
        if (found.fn == NULL || !(c->flags & REDIS_NO_AUTO_FREE_REPLIES)) free_reply(ac, reply);
    }
    if (!(c->flags & REDIS_FREEING)) return REDIS_OK;
    free_now(ac);
    return REDIS_ERR;
}

void redisProcessCallbacks(redisAsyncContext *ac) {
    redisContext *c = &ac->c;
    void *reply;
    for (;;) {
        if (redisGetReply(c, &reply) != REDIS_OK) {
            __redisAsyncDisconnect(ac);
            return;
        }
        if (reply == NULL) break;
        if (deliver(ac, reply) != REDIS_OK) return;
    }
    if ((c->flags & REDIS_DISCONNECTING) && sdslen(c->obuf) == 0 && ac->replies.head == NULL) {
        __redisAsyncDisconnect(ac);
    }
}

/* ---- Events ---- */

static void connecting_failed(redisAsyncContext *ac) {
    async_copy_error(ac);
    run_connected(ac, REDIS_ERR);
    __redisAsyncDisconnect(ac);
}

/* The first event: is it connected? REDIS_ERR: the context is gone, or there is nothing to do yet. */
static int finish_connecting(redisAsyncContext *ac) {
    redisContext *c = &ac->c;
    int completed = 1;
    if (c->connection_type != REDIS_CONN_USERFD && redisCheckConnectDone(c, &completed) != REDIS_OK) {
        redisCheckSocketError(c);
        connecting_failed(ac);
        return REDIS_ERR;
    }
    if (!completed) return REDIS_ERR;
    if (c->connection_type == REDIS_CONN_TCP && redisSetTcpNoDelay(c) != REDIS_OK) {
        connecting_failed(ac);
        return REDIS_ERR;
    }
    c->flags |= REDIS_CONNECTED;
    run_connected(ac, REDIS_OK);
    if (c->flags & REDIS_FREEING) {
        redisAsyncFree(ac);
        return REDIS_ERR;
    }
    if (c->flags & REDIS_DISCONNECTING) {
        redisAsyncDisconnect(ac);
        return REDIS_ERR;
    }
    return REDIS_OK;
}

void redisAsyncRead(redisAsyncContext *ac) {
    if (redisBufferRead(&ac->c) != REDIS_OK) {
        __redisAsyncDisconnect(ac);
        return;
    }
    async_want_read(ac);
    redisProcessCallbacks(ac);
}

void redisAsyncWrite(redisAsyncContext *ac) {
    int done = 0;
    if (redisBufferWrite(&ac->c, &done) != REDIS_OK) {
        __redisAsyncDisconnect(ac);
        return;
    }
    async_want_write(ac, !done);
    async_want_read(ac);
}

void redisAsyncHandleRead(redisAsyncContext *ac) {
    if (!(ac->c.flags & REDIS_CONNECTED) && finish_connecting(ac) != REDIS_OK) return;
    ac->c.funcs->async_read(ac);
}

void redisAsyncHandleWrite(redisAsyncContext *ac) {
    if (!(ac->c.flags & REDIS_CONNECTED) && finish_connecting(ac) != REDIS_OK) return;
    ac->c.funcs->async_write(ac);
}

void redisAsyncHandleTimeout(redisAsyncContext *ac) {
    redisContext *c = &ac->c;
    const struct timeval *timeout = c->command_timeout;
    if (deadlines_expire(ac) == DEADLINES_DONE) return;
    if (c->flags & REDIS_CONNECTED) {
        if (ac->replies.head == NULL && ac->sub.replies.head == NULL) return;
        /* The timer of connecting, late. */
        if (timeout == NULL || (timeout->tv_sec == 0 && timeout->tv_usec == 0)) return;
    }
    if (c->err == 0) __redisSetError(c, REDIS_ERR_TIMEOUT, "Timeout");
    async_copy_error(ac);
    /* Callbacks can send nothing more. */
    c->flags |= REDIS_DISCONNECTING;
    if (!(c->flags & REDIS_CONNECTED)) run_connected(ac, REDIS_ERR);
    run_all(ac, &ac->replies);
    __redisAsyncDisconnect(ac);
}

/* ---- Commands ---- */

static int out_of_memory(redisAsyncContext *ac) {
    __redisSetError(&ac->c, REDIS_ERR_OOM, "Out of memory");
    async_copy_error(ac);
    return REDIS_ERR;
}

static redisCallback *new_callback(redisCallbackFn *fn, void *privdata) {
    redisCallback *callback = hi_calloc(1, sizeof *callback);
    if (callback == NULL) return NULL;
    callback->fn = fn;
    callback->privdata = privdata;
    callback->pending_subs = 1;
    return callback;
}

/* Room for a command in the output. */
static int reserve_output(redisAsyncContext *ac, size_t length) {
    redisContext *c = &ac->c;
    if (c->flags & (REDIS_DISCONNECTING | REDIS_FREEING)) return REDIS_ERR;
    size_t queued = sdslen(c->obuf), queued_max = reader_of(c->reader)->output_max;
    if (queued_max != 0 && (length > queued_max || queued > queued_max - length)) return REDIS_ERR;
    sds longer = sdsMakeRoomFor(c->obuf, length);
    if (longer == NULL) return out_of_memory(ac);
    c->obuf = longer;
    return REDIS_OK;
}

static void add_output(redisAsyncContext *ac, const char *command, size_t length) {
    ac->c.obuf = sdscatlen(ac->c.obuf, command, length);
    async_want_write(ac, 1);
}

int async_send(redisAsyncContext *ac, redisCallback *callback, const char *command, size_t length) {
    if (reserve_output(ac, length) != REDIS_OK) return REDIS_ERR;
    callbacks_append(ac->c.flags & REDIS_SUBSCRIBED ? &ac->sub.replies : &ac->replies, callback);
    add_output(ac, command, length);
    return REDIS_OK;
}

int redisAsyncFormattedCommand(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata,
                               const char *command, size_t length) {
    if (reserve_output(ac, length) != REDIS_OK) return REDIS_ERR;
    enum command_kind kind = command_kind(command, length);
    if (kind == SUBSCRIBES) {
        if (note_subscribe(ac, fn, privdata, command, length) != REDIS_OK) return out_of_memory(ac);
    } else if (kind == UNSUBSCRIBES) {
        /* Its confirmations go to the callbacks of the channels. */
        if (note_unsubscribe(ac, command, length) != REDIS_OK) return REDIS_ERR;
    } else {
        redisCallback *callback = new_callback(fn, privdata);
        if (callback == NULL) return out_of_memory(ac);
        if (kind == MONITORS) ac->c.flags |= REDIS_MONITORING;
        int beside = kind != MONITORS && (ac->c.flags & REDIS_SUBSCRIBED);
        callbacks_append(beside ? &ac->sub.replies : &ac->replies, callback);
    }
    add_output(ac, command, length);
    return REDIS_OK;
}

int redisvAsyncCommand(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata, const char *format,
                       va_list arguments) {
    char *command;
    int length = redisvFormatCommand(&command, format, arguments);
    if (length < 0) return REDIS_ERR;
    int result = redisAsyncFormattedCommand(ac, fn, privdata, command, (size_t)length);
    hi_free(command);
    return result;
}

int redisAsyncCommand(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int result = redisvAsyncCommand(ac, fn, privdata, format, arguments);
    va_end(arguments);
    return result;
}

int redisAsyncCommandArgv(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata, int argc,
                          const char **argv, const size_t *argvlen) {
    sds command;
    long long length = redisFormatSdsCommandArgv(&command, argc, argv, argvlen);
    if (length < 0) return REDIS_ERR;
    int result = redisAsyncFormattedCommand(ac, fn, privdata, command, (size_t)length);
    sdsfree(command);
    return result;
}
