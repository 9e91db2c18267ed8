/* A client for Mantissa, Redis and Valkey with hiredis's interface: the same functions, structs, values. */
#ifndef __HIREDIS_H
#define __HIREDIS_H

#include "read.h"

#include <stdarg.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/types.h>

#include "alloc.h"
#include "sds.h"

/* The version of hiredis whose interface and layout this is. */
#define HIREDIS_MAJOR 1
#define HIREDIS_MINOR 3
#define HIREDIS_PATCH 0
#define HIREDIS_SONAME 1.3.0

/* Bits of a context's flags. */
#define REDIS_BLOCK 0x1 /* functions wait for the server */
#define REDIS_CONNECTED 0x2
#define REDIS_DISCONNECTING 0x4 /* no new commands; closes after the last reply */
#define REDIS_FREEING 0x8
#define REDIS_IN_CALLBACK 0x10
#define REDIS_SUBSCRIBED 0x20
#define REDIS_MONITORING 0x40
#define REDIS_REUSEADDR 0x80      /* SO_REUSEADDR before a bind */
#define REDIS_SUPPORTS_PUSH 0x100 /* the server has sent a push: it speaks RESP3 */
#define REDIS_NO_AUTO_FREE 0x200
#define REDIS_NO_AUTO_FREE_REPLIES 0x400
#define REDIS_PREFER_IPV4 0x800
#define REDIS_PREFER_IPV6 0x1000

#define REDIS_KEEPALIVE_INTERVAL 15 /* seconds */
#define REDIS_CONNECT_RETRIES 10    /* of a bound connection whose address is in use */

struct redisAsyncContext;
struct redisContext;

#define redisIsPushReply(r) (((redisReply *)(r))->type == REDIS_REPLY_PUSH)
typedef void(redisPushFn)(void *privdata, void *reply);
typedef void(redisAsyncPushFn)(struct redisAsyncContext *, void *reply);

#ifdef __cplusplus
extern "C" {
#endif

/* A reply. Only the fields of its type mean something. Its memory is one with that of its elements: free the
 * strings and elements by freeReplyObject alone. */
typedef struct redisReply {
    int type;          /* REDIS_REPLY_... */
    long long integer; /* INTEGER, BOOL */
    double dval;       /* DOUBLE */
    size_t len;        /* of str */
    char *str;         /* STRING, STATUS, ERROR, VERB, BIGNUM, DOUBLE: ends with a NUL */
    char vtype[4];     /* VERB: three characters and a NUL */
    size_t elements;   /* ARRAY, MAP (keys and values), SET, ATTR, PUSH */
    struct redisReply **element;
} redisReply;

redisReader *redisReaderCreate(void);
void freeReplyObject(void *reply);

/* A command's bytes from a format: words are separated by spaces; %s takes a string with a NUL, %b bytes and
 * their number as size_t, %% is a percent sign, and the conversions of printf for integers and doubles work
 * as there, but with a point in every locale. One more: %r takes a double and writes the shortest text that
 * reads back as the same value. The result is the length; -1 for a bad format or lack of memory
 * (redisvFormatCommand: -2 and -1). */
int redisvFormatCommand(char **target, const char *format, va_list arguments);
int redisFormatCommand(char **target, const char *format, ...);
long long redisFormatCommandArgv(char **target, int argc, const char **argv, const size_t *argvlen);
long long redisFormatSdsCommandArgv(sds *target, int argc, const char **argv, const size_t *argvlen);
void redisFreeCommand(char *command);
void redisFreeSdsCommand(sds command);

enum redisConnectionType { REDIS_CONN_TCP, REDIS_CONN_UNIX, REDIS_CONN_USERFD };

struct redisSsl;

/* Bits of redisOptions.options. */
#define REDIS_OPT_NONBLOCK 0x01
#define REDIS_OPT_REUSEADDR 0x02
#define REDIS_OPT_NOAUTOFREE 0x04        /* a context goes only by redisAsyncFree and redisAsyncDisconnect */
#define REDIS_OPT_NO_PUSH_AUTOFREE 0x08  /* pushes come as replies, unless push_cb takes them */
#define REDIS_OPT_NOAUTOFREEREPLIES 0x10 /* callbacks free their replies */
#define REDIS_OPT_PREFER_IPV4 0x20
#define REDIS_OPT_PREFER_IPV6 0x40
#define REDIS_OPT_PREFER_IP_UNSPEC (REDIS_OPT_PREFER_IPV4 | REDIS_OPT_PREFER_IPV6)
#define REDIS_OPT_SET_SOCK_CLOEXEC 0x80

typedef int redisFD;
#define REDIS_INVALID_FD -1

typedef struct {
    int type;                              /* REDIS_CONN_... */
    int options;                           /* REDIS_OPT_... */
    const struct timeval *connect_timeout; /* NULL waits forever */
    const struct timeval *command_timeout;
    union {
        struct {
            const char *source_addr;
            const char *ip;
            int port;
        } tcp;
        const char *unix_socket;
        redisFD fd; /* connected already */
    } endpoint;

    void *privdata;
    void (*free_privdata)(void *);

    redisPushFn *push_cb;
    redisAsyncPushFn *async_push_cb;
} redisOptions;

#define REDIS_OPTIONS_SET_TCP(opts, ip_, port_) \
    do {                                        \
        (opts)->type = REDIS_CONN_TCP;          \
        (opts)->endpoint.tcp.ip = ip_;          \
        (opts)->endpoint.tcp.port = port_;      \
    } while (0)

#define REDIS_OPTIONS_SET_UNIX(opts, path)   \
    do {                                     \
        (opts)->type = REDIS_CONN_UNIX;      \
        (opts)->endpoint.unix_socket = path; \
    } while (0)

#define REDIS_OPTIONS_SET_PRIVDATA(opts, data, dtor) \
    do {                                             \
        (opts)->privdata = data;                     \
        (opts)->free_privdata = dtor;                \
    } while (0)

/* How a context reads and writes: TLS and the like replace it. */
typedef struct redisContextFuncs {
    void (*close)(struct redisContext *);
    void (*free_privctx)(void *);
    void (*async_read)(struct redisAsyncContext *);
    void (*async_write)(struct redisAsyncContext *);
    /* The number of bytes; 0 to try again later; below 0 for an error that is set in the context. */
    ssize_t (*read)(struct redisContext *, char *, size_t);
    ssize_t (*write)(struct redisContext *);
} redisContextFuncs;

typedef struct redisContext {
    const redisContextFuncs *funcs;

    int err; /* 0 or REDIS_ERR_...; then the context can only be freed or connected anew */
    char errstr[128];
    redisFD fd;
    int flags;
    char *obuf; /* an sds: what has not been sent */
    redisReader *reader;

    enum redisConnectionType connection_type;
    struct timeval *connect_timeout;
    struct timeval *command_timeout;

    struct {
        char *host;
        char *source_addr;
        int port;
    } tcp;

    struct {
        char *path;
    } unix_sock;

    struct sockaddr *saddr; /* where it connects to */
    size_t addrlen;

    void *privdata; /* the program's */
    void (*free_privdata)(void *);

    void *privctx; /* of funcs */

    redisPushFn *push_cb;
} redisContext;

/* A context, whose err says whether it is connected; NULL for lack of memory. */
redisContext *redisConnectWithOptions(const redisOptions *options);
redisContext *redisConnect(const char *ip, int port);
redisContext *redisConnectWithTimeout(const char *ip, int port, const struct timeval timeout);
redisContext *redisConnectNonBlock(const char *ip, int port);
redisContext *redisConnectBindNonBlock(const char *ip, int port, const char *source_addr);
redisContext *redisConnectBindNonBlockWithReuse(const char *ip, int port, const char *source_addr);
redisContext *redisConnectUnix(const char *path);
redisContext *redisConnectUnixWithTimeout(const char *path, const struct timeval timeout);
redisContext *redisConnectUnixNonBlock(const char *path);
redisContext *redisConnectFd(redisFD fd);

/* Connect again, to the same place with the same options. */
int redisReconnect(redisContext *c);

/* The one before. NULL lets pushes come as replies. */
redisPushFn *redisSetPushCallback(redisContext *c, redisPushFn *fn);
int redisSetTimeout(redisContext *c, const struct timeval timeout);
int redisEnableKeepAlive(redisContext *c);
int redisEnableKeepAliveWithInterval(redisContext *c, int seconds);
int redisSetTcpUserTimeout(redisContext *c, unsigned int milliseconds);
void redisFree(redisContext *c);
redisFD redisFreeKeepFd(redisContext *c);
int redisBufferRead(redisContext *c);
int redisBufferWrite(redisContext *c, int *done);

/* The next reply. A blocking context first sends what is in obuf, and waits. */
int redisGetReply(redisContext *c, void **reply);
int redisGetReplyFromReader(redisContext *c, void **reply);

/* Add a command to obuf. */
int redisAppendFormattedCommand(redisContext *c, const char *command, size_t length);
int redisvAppendCommand(redisContext *c, const char *format, va_list arguments);
int redisAppendCommand(redisContext *c, const char *format, ...);
int redisAppendCommandArgv(redisContext *c, int argc, const char **argv, const size_t *argvlen);

/* Send a command and wait for its reply: a redisReply, or NULL for an error of the connection. A context that
 * does not block only adds the command, and returns NULL. */
void *redisvCommand(redisContext *c, const char *format, va_list arguments);
void *redisCommand(redisContext *c, const char *format, ...);
void *redisCommandArgv(redisContext *c, int argc, const char **argv, const size_t *argvlen);

#ifdef __cplusplus
}
#endif

#endif
