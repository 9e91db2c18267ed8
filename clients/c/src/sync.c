/* redisContext: connecting, commands that wait for their reply, pipelines. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "async_internal.h"
#include "hiredis/net.h"
#include "read.h"

/* The most that one read takes, and the least room that it asks for. */
enum { READ_MAX = 64 * 1024, READ_MIN = 16 * 1024 };

static const redisContextFuncs socket_functions = {
    redisNetClose, NULL, redisAsyncRead, redisAsyncWrite, redisNetRead, redisNetWrite,
};

static void free_push(void *privdata, void *reply) {
    (void)privdata;
    freeReplyObject(reply);
}

/* ---- Making and freeing ---- */

static redisContext *new_context(void) {
    redisContext *c = hi_calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->funcs = &socket_functions;
    c->fd = REDIS_INVALID_FD;
    c->obuf = sdsempty();
    c->reader = redisReaderCreate();
    if (c->obuf != NULL && c->reader != NULL) return c;
    redisFree(c);
    return NULL;
}

void redisFree(redisContext *c) {
    if (c == NULL) return;
    if (c->funcs != NULL && c->funcs->close != NULL) c->funcs->close(c);
    sdsfree(c->obuf);
    redisReaderFree(c->reader);
    hi_free(c->tcp.host);
    hi_free(c->tcp.source_addr);
    hi_free(c->unix_sock.path);
    hi_free(c->connect_timeout);
    hi_free(c->command_timeout);
    hi_free(c->saddr);
    if (c->privdata != NULL && c->free_privdata != NULL) c->free_privdata(c->privdata);
    if (c->funcs != NULL && c->funcs->free_privctx != NULL) c->funcs->free_privctx(c->privctx);
    hi_free(c);
}

redisFD redisFreeKeepFd(redisContext *c) {
    redisFD fd = c->fd;
    c->fd = REDIS_INVALID_FD;
    redisFree(c);
    return fd;
}

static int context_flags(int options) {
    static const struct {
        int option, flag;
    } pairs[] = {
        {REDIS_OPT_REUSEADDR, REDIS_REUSEADDR},
        {REDIS_OPT_NOAUTOFREE, REDIS_NO_AUTO_FREE},
        {REDIS_OPT_NOAUTOFREEREPLIES, REDIS_NO_AUTO_FREE_REPLIES},
        {REDIS_OPT_PREFER_IPV4, REDIS_PREFER_IPV4},
        {REDIS_OPT_PREFER_IPV6, REDIS_PREFER_IPV6},
        {REDIS_OPT_SET_SOCK_CLOEXEC, CONTEXT_CLOEXEC},
    };
    int flags = options & REDIS_OPT_NONBLOCK ? 0 : REDIS_BLOCK;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (options & pairs[i].option) flags |= pairs[i].flag;
    }
    return flags;
}

redisContext *redisConnectWithOptions(const redisOptions *options) {
    if (options->type < REDIS_CONN_TCP || options->type > REDIS_CONN_USERFD) return NULL;
    redisContext *c = new_context();
    if (c == NULL) return NULL;
    c->flags |= context_flags(options->options);
    c->push_cb = options->push_cb;
    if (c->push_cb == NULL && !(options->options & REDIS_OPT_NO_PUSH_AUTOFREE)) c->push_cb = free_push;
    c->privdata = options->privdata;
    c->free_privdata = options->free_privdata;
    if (redisContextUpdateConnectTimeout(c, options->connect_timeout) != REDIS_OK ||
        redisContextUpdateCommandTimeout(c, options->command_timeout) != REDIS_OK) {
        __redisSetError(c, REDIS_ERR_OOM, "Out of memory");
        return c;
    }
    switch (options->type) {
    case REDIS_CONN_TCP:
        redisContextConnectBindTcp(c, options->endpoint.tcp.ip, options->endpoint.tcp.port,
                                   options->connect_timeout, options->endpoint.tcp.source_addr);
        break;
    case REDIS_CONN_UNIX:
        redisContextConnectUnix(c, options->endpoint.unix_socket, options->connect_timeout);
        break;
    default:
        c->connection_type = REDIS_CONN_USERFD;
        c->fd = options->endpoint.fd;
        c->flags |= REDIS_CONNECTED;
    }
    if (c->err == 0 && c->fd != REDIS_INVALID_FD && options->command_timeout != NULL &&
        (c->flags & REDIS_BLOCK)) {
        redisContextSetTimeout(c, *options->command_timeout);
    }
    return c;
}

static redisContext *connect_tcp(const char *ip, int port, const struct timeval *timeout, const char *source,
                                 int bits) {
    redisOptions options = {0};
    REDIS_OPTIONS_SET_TCP(&options, ip, port);
    options.endpoint.tcp.source_addr = source;
    options.connect_timeout = timeout;
    options.options = bits;
    return redisConnectWithOptions(&options);
}

static redisContext *connect_unix(const char *path, const struct timeval *timeout, int bits) {
    redisOptions options = {0};
    REDIS_OPTIONS_SET_UNIX(&options, path);
    options.connect_timeout = timeout;
    options.options = bits;
    return redisConnectWithOptions(&options);
}

redisContext *redisConnect(const char *ip, int port) { return connect_tcp(ip, port, NULL, NULL, 0); }

redisContext *redisConnectWithTimeout(const char *ip, int port, const struct timeval timeout) {
    return connect_tcp(ip, port, &timeout, NULL, 0);
}

redisContext *redisConnectNonBlock(const char *ip, int port) {
    return connect_tcp(ip, port, NULL, NULL, REDIS_OPT_NONBLOCK);
}

redisContext *redisConnectBindNonBlock(const char *ip, int port, const char *source_addr) {
    return connect_tcp(ip, port, NULL, source_addr, REDIS_OPT_NONBLOCK);
}

redisContext *redisConnectBindNonBlockWithReuse(const char *ip, int port, const char *source_addr) {
    return connect_tcp(ip, port, NULL, source_addr, REDIS_OPT_NONBLOCK | REDIS_OPT_REUSEADDR);
}

redisContext *redisConnectUnix(const char *path) { return connect_unix(path, NULL, 0); }

redisContext *redisConnectUnixWithTimeout(const char *path, const struct timeval timeout) {
    return connect_unix(path, &timeout, 0);
}

redisContext *redisConnectUnixNonBlock(const char *path) {
    return connect_unix(path, NULL, REDIS_OPT_NONBLOCK);
}

redisContext *redisConnectFd(redisFD fd) {
    redisOptions options = {0};
    options.type = REDIS_CONN_USERFD;
    options.endpoint.fd = fd;
    return redisConnectWithOptions(&options);
}

int redisReconnect(redisContext *c) {
    c->err = 0;
    memset(c->errstr, 0, sizeof c->errstr);
    if (c->privctx != NULL && c->funcs->free_privctx != NULL) c->funcs->free_privctx(c->privctx);
    c->privctx = NULL;
    if (c->funcs->close != NULL) c->funcs->close(c);
    size_t output_max = c->reader == NULL ? 0 : reader_of(c->reader)->output_max;
    sdsfree(c->obuf);
    redisReaderFree(c->reader);
    c->obuf = sdsempty();
    c->reader = redisReaderCreate();
    if (c->obuf == NULL || c->reader == NULL) {
        __redisSetError(c, REDIS_ERR_OOM, "Out of memory");
        return REDIS_ERR;
    }
    reader_of(c->reader)->output_max = output_max;
    int result;
    if (c->connection_type == REDIS_CONN_TCP) {
        result =
            redisContextConnectBindTcp(c, c->tcp.host, c->tcp.port, c->connect_timeout, c->tcp.source_addr);
    } else if (c->connection_type == REDIS_CONN_UNIX) {
        result = redisContextConnectUnix(c, c->unix_sock.path, c->connect_timeout);
    } else {
        __redisSetError(c, REDIS_ERR_OTHER, "Not enough information to reconnect");
        result = REDIS_ERR;
    }
    if (c->command_timeout != NULL && (c->flags & REDIS_BLOCK) && c->fd != REDIS_INVALID_FD) {
        redisContextSetTimeout(c, *c->command_timeout);
    }
    return result;
}

/* ---- Settings ---- */

int redisSetTimeout(redisContext *c, const struct timeval timeout) {
    return c->flags & REDIS_BLOCK ? redisContextSetTimeout(c, timeout) : REDIS_ERR;
}

int redisEnableKeepAlive(redisContext *c) { return redisKeepAlive(c, REDIS_KEEPALIVE_INTERVAL); }
int redisEnableKeepAliveWithInterval(redisContext *c, int seconds) { return redisKeepAlive(c, seconds); }

int redisSetTcpUserTimeout(redisContext *c, unsigned int milliseconds) {
    return redisContextSetTcpUserTimeout(c, milliseconds);
}

redisPushFn *redisSetPushCallback(redisContext *c, redisPushFn *fn) {
    redisPushFn *before = c->push_cb;
    c->push_cb = fn;
    return before;
}

/* ---- Bytes in and out ---- */

int redisBufferRead(redisContext *c) {
    if (c->err) return REDIS_ERR;
    if (c->reader->err) {
        __redisSetError(c, c->reader->err, c->reader->errstr);
        return REDIS_ERR;
    }
    size_t room;
    char *to = reader_room(c->reader, READ_MIN, &room);
    if (to == NULL) {
        __redisSetError(c, REDIS_ERR_OOM, "Out of memory");
        return REDIS_ERR;
    }
    ssize_t count = c->funcs->read(c, to, room < READ_MAX ? room : READ_MAX);
    if (count < 0) return REDIS_ERR;
    reader_filled(c->reader, (size_t)count);
    return REDIS_OK;
}

int redisBufferWrite(redisContext *c, int *done) {
    if (c->err) return REDIS_ERR;
    size_t length = sdslen(c->obuf);
    if (length > 0) {
        ssize_t count = c->funcs->write(c);
        if (count < 0) return REDIS_ERR;
        if ((size_t)count == length && sdsalloc(c->obuf) > READ_MIN) {
            sds empty = sdsempty();
            if (empty != NULL) {
                sdsfree(c->obuf);
                c->obuf = empty;
            } else {
                sdsclear(c->obuf);
            }
        } else if ((size_t)count == length) {
            sdsclear(c->obuf);
        } else if (count > 0) {
            sdsrange(c->obuf, count, -1);
        }
    }
    if (done != NULL) *done = sdslen(c->obuf) == 0;
    return REDIS_OK;
}

int redisGetReplyFromReader(redisContext *c, void **reply) {
    if (redisReaderGetReply(c->reader, reply) == REDIS_OK) return REDIS_OK;
    __redisSetError(c, c->reader->err, c->reader->errstr);
    return REDIS_ERR;
}

/* The next reply that is no push, or NULL. Pushes go to their function. */
static int next_reply(redisContext *c, void **reply) {
    for (;;) {
        if (redisGetReplyFromReader(c, reply) != REDIS_OK) return REDIS_ERR;
        if (*reply == NULL || c->push_cb == NULL || c->reader->fn == NULL || !redisIsPushReply(*reply))
            return REDIS_OK;
        c->push_cb(c->privdata, *reply);
    }
}

int redisGetReply(redisContext *c, void **reply) {
    void *found = NULL;
    if (next_reply(c, &found) != REDIS_OK) return REDIS_ERR;
    if (found == NULL && (c->flags & REDIS_BLOCK)) {
        for (int done = 0; !done;) {
            if (redisBufferWrite(c, &done) != REDIS_OK) return REDIS_ERR;
        }
        while (found == NULL) {
            if (redisBufferRead(c) != REDIS_OK || next_reply(c, &found) != REDIS_OK) return REDIS_ERR;
        }
    }
    if (reply != NULL) {
        *reply = found;
    } else if (found != NULL && c->reader->fn != NULL && c->reader->fn->freeObject != NULL) {
        c->reader->fn->freeObject(found);
    }
    return REDIS_OK;
}

/* ---- Commands ---- */

int redisAppendFormattedCommand(redisContext *c, const char *command, size_t length) {
    size_t queued = sdslen(c->obuf), queued_max = reader_of(c->reader)->output_max;
    /* No error of the connection: the command may be added when others have been sent. */
    if (queued_max != 0 && (length > queued_max || queued > queued_max - length)) return REDIS_ERR;
    sds longer = sdscatlen(c->obuf, command, length);
    if (longer == NULL) {
        __redisSetError(c, REDIS_ERR_OOM, "Out of memory");
        return REDIS_ERR;
    }
    c->obuf = longer;
    return REDIS_OK;
}

int __redisAppendCommand(redisContext *c, const char *command, size_t length) {
    return redisAppendFormattedCommand(c, command, length);
}

int redisvAppendCommand(redisContext *c, const char *format, va_list arguments) {
    char *command;
    int length = redisvFormatCommand(&command, format, arguments);
    if (length < 0) {
        int memory = length == -1;
        __redisSetError(c, memory ? REDIS_ERR_OOM : REDIS_ERR_OTHER,
                        memory ? "Out of memory" : "Invalid format string");
        return REDIS_ERR;
    }
    int result = redisAppendFormattedCommand(c, command, (size_t)length);
    hi_free(command);
    return result;
}

int redisAppendCommand(redisContext *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int result = redisvAppendCommand(c, format, arguments);
    va_end(arguments);
    return result;
}

int redisAppendCommandArgv(redisContext *c, int argc, const char **argv, const size_t *argvlen) {
    sds command;
    long long length = redisFormatSdsCommandArgv(&command, argc, argv, argvlen);
    if (length < 0) {
        __redisSetError(c, REDIS_ERR_OOM, "Out of memory");
        return REDIS_ERR;
    }
    int result = redisAppendFormattedCommand(c, command, (size_t)length);
    sdsfree(command);
    return result;
}

static void *wait_for_reply(redisContext *c) {
    void *reply;
    return c->flags & REDIS_BLOCK && redisGetReply(c, &reply) == REDIS_OK ? reply : NULL;
}

void *redisvCommand(redisContext *c, const char *format, va_list arguments) {
    return redisvAppendCommand(c, format, arguments) == REDIS_OK ? wait_for_reply(c) : NULL;
}

void *redisCommand(redisContext *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    void *reply = redisvCommand(c, format, arguments);
    va_end(arguments);
    return reply;
}

void *redisCommandArgv(redisContext *c, int argc, const char **argv, const size_t *argvlen) {
    return redisAppendCommandArgv(c, argc, argv, argvlen) == REDIS_OK ? wait_for_reply(c) : NULL;
}
