/* Sockets: connecting within a time, reading, writing, options. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "hiredis/net.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* ---- Errors ---- */

void __redisSetError(redisContext *c, int type, const char *text) {
    c->err = type;
    if (text == NULL) text = strerror(errno);
    /* It may be the context's own text. */
    size_t length = strlen(text);
    if (length >= sizeof c->errstr) length = sizeof c->errstr - 1;
    memmove(c->errstr, text, length);
    c->errstr[length] = 0;
}

static int fail(redisContext *c, int type, const char *what, const char *why) {
    char text[sizeof c->errstr];
    snprintf(text, sizeof text, "%s: %s", what, why);
    __redisSetError(c, type, text);
    return REDIS_ERR;
}

static int fail_errno(redisContext *c, const char *what) {
    if (what != NULL) return fail(c, REDIS_ERR_IO, what, strerror(errno));
    __redisSetError(c, REDIS_ERR_IO, NULL);
    return REDIS_ERR;
}

static int fail_memory(redisContext *c) {
    __redisSetError(c, REDIS_ERR_OOM, "Out of memory");
    return REDIS_ERR;
}

/* An error that leaves no socket. errno stays. */
static int fail_closing(redisContext *c, const char *what) {
    int error = errno;
    fail_errno(c, what);
    redisNetClose(c);
    errno = error;
    return REDIS_ERR;
}

/* ---- Bytes ---- */

void redisNetClose(redisContext *c) {
    if (c == NULL || c->fd == REDIS_INVALID_FD) return;
    close(c->fd);
    c->fd = REDIS_INVALID_FD;
}

/* Of a failed call: 0 to try again later, -1 with the error set. */
static ssize_t again_or_fail(redisContext *c) {
    int waiting = errno == EAGAIN || errno == EWOULDBLOCK;
    if (errno == EINTR || (waiting && !(c->flags & REDIS_BLOCK))) return 0;
    fail_errno(c, NULL);
    return -1;
}

ssize_t redisNetRead(redisContext *c, char *buf, size_t capacity) {
    ssize_t count = recv(c->fd, buf, capacity, 0);
    if (count > 0) return count;
    if (count == 0) {
        __redisSetError(c, REDIS_ERR_EOF, "Server closed the connection");
        return -1;
    }
    if (errno == ETIMEDOUT && (c->flags & REDIS_BLOCK)) {
        __redisSetError(c, REDIS_ERR_TIMEOUT, "recv timeout");
        return -1;
    }
    return again_or_fail(c);
}

ssize_t redisNetWrite(redisContext *c) {
    ssize_t count = send(c->fd, c->obuf, sdslen(c->obuf), MSG_NOSIGNAL);
    return count >= 0 ? count : again_or_fail(c);
}

/* ---- Options ---- */

static int set_blocking(redisContext *c, int blocking) {
    int flags = fcntl(c->fd, F_GETFL);
    if (flags == -1) return fail_closing(c, "fcntl(F_GETFL)");
    flags = blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK;
    if (fcntl(c->fd, F_SETFL, flags) == -1) return fail_closing(c, "fcntl(F_SETFL)");
    return REDIS_OK;
}

int redisKeepAlive(redisContext *c, int interval) {
    if (c->connection_type == REDIS_CONN_UNIX) return REDIS_ERR;
    int probe = interval / 3 > 0 ? interval / 3 : 1;
    const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
#ifdef TCP_KEEPIDLE
        {IPPROTO_TCP, TCP_KEEPIDLE, interval},
        {IPPROTO_TCP, TCP_KEEPINTVL, probe},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
#elif defined(TCP_KEEPALIVE)
        {IPPROTO_TCP, TCP_KEEPALIVE, interval},
#endif
    };
    (void)probe;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        int value = options[i].value;
        if (setsockopt(c->fd, options[i].level, options[i].name, &value, sizeof value) == -1) {
            __redisSetError(c, REDIS_ERR_OTHER, strerror(errno));
            return REDIS_ERR;
        }
    }
    return REDIS_OK;
}

int redisSetTcpNoDelay(redisContext *c) {
    int on = 1;
    if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0) return REDIS_OK;
    return fail_closing(c, "setsockopt(TCP_NODELAY)");
}

int redisContextSetTcpUserTimeout(redisContext *c, unsigned int timeout) {
#ifdef TCP_USER_TIMEOUT
    if (setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout) == 0) return REDIS_OK;
#else
    (void)timeout;
    errno = ENOTSUP;
#endif
    return fail_closing(c, "setsockopt(TCP_USER_TIMEOUT)");
}

static int keep_timeout(struct timeval **kept, const struct timeval *timeout) {
    if (*kept == timeout) return REDIS_OK;
    if (timeout == NULL) {
        hi_free(*kept);
        *kept = NULL;
        return REDIS_OK;
    }
    if (*kept == NULL && (*kept = hi_malloc(sizeof **kept)) == NULL) return REDIS_ERR;
    **kept = *timeout;
    return REDIS_OK;
}

int redisContextUpdateConnectTimeout(redisContext *c, const struct timeval *timeout) {
    return keep_timeout(&c->connect_timeout, timeout);
}

int redisContextUpdateCommandTimeout(redisContext *c, const struct timeval *timeout) {
    return keep_timeout(&c->command_timeout, timeout);
}

int redisContextSetTimeout(redisContext *c, const struct timeval timeout) {
    if (redisContextUpdateCommandTimeout(c, &timeout) != REDIS_OK) return fail_memory(c);
    if (setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == -1) {
        return fail_errno(c, "setsockopt(SO_RCVTIMEO)");
    }
    if (setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == -1) {
        return fail_errno(c, "setsockopt(SO_SNDTIMEO)");
    }
    return REDIS_OK;
}

/* ---- Connecting ---- */

int redisCheckSocketError(redisContext *c) {
    int before = errno, error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) == -1)
        return fail_errno(c, "getsockopt(SO_ERROR)");
    errno = error != 0 ? error : before;
    return errno == 0 ? REDIS_OK : fail_errno(c, NULL);
}

/* Queued ICMP errors of a connection that went well would wake an event loop again and again. */
static void drain_error_queue(redisContext *c) {
#ifdef MSG_ERRQUEUE
    if (c->connection_type != REDIS_CONN_TCP) return;
    int before = errno;
    char byte;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {0};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    while (recvmsg(c->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0 || errno == EINTR) {
    }
    errno = before;
#else
    (void)c;
#endif
}

int redisCheckConnectDone(redisContext *c, int *completed) {
    *completed = 0;
    int error = connect(c->fd, c->saddr, (socklen_t)c->addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        /* A second connect has begun: the first has failed, or is through on systems that say so here. */
        socklen_t size = sizeof error;
        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) == -1) error = errno;
    }
    if (error == 0 || error == EISCONN) {
        *completed = 1;
        drain_error_queue(c);
        return REDIS_OK;
    }
    if (error == EALREADY || error == EAGAIN || error == EWOULDBLOCK) {
        drain_error_queue(c);
        return REDIS_OK;
    }
    errno = error;
    return REDIS_ERR;
}

/* Milliseconds of the connect timeout, -1 for none. */
static int connect_milliseconds(redisContext *c, long *result) {
    const struct timeval *timeout = c->connect_timeout;
    *result = -1;
    if (timeout == NULL) return REDIS_OK;
    if (timeout->tv_usec > 1000000 || timeout->tv_usec < 0 || timeout->tv_sec > (LONG_MAX - 999) / 1000) {
        __redisSetError(c, REDIS_ERR_IO, "Invalid timeout specified");
        return REDIS_ERR;
    }
    long milliseconds = timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000;
    *result = milliseconds < 0 || milliseconds > INT_MAX ? INT_MAX : milliseconds;
    return REDIS_OK;
}

static long long now_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wait for a connection that has begun. */
static int wait_connected(redisContext *c, long milliseconds) {
    long long end = milliseconds < 0 ? 0 : now_milliseconds() + milliseconds;
    for (;;) {
        struct pollfd waiting = {c->fd, POLLOUT, 0};
        int ready = poll(&waiting, 1, (int)milliseconds), completed = 0;
        if (ready < 0 && errno != EINTR) return fail_closing(c, "poll(2)");
        if (ready > 0) {
            if (redisCheckConnectDone(c, &completed) != REDIS_OK) {
                redisCheckSocketError(c);
                int error = errno;
                redisNetClose(c);
                errno = error;
                return REDIS_ERR;
            }
            if (completed) return REDIS_OK;
        }
        if (milliseconds < 0) continue;
        long long left = end - now_milliseconds();
        if (ready == 0 || left <= 0) {
            errno = ETIMEDOUT;
            return fail_closing(c, NULL);
        }
        milliseconds = (long)left;
    }
}

/* Keep a copy of a parameter for redisReconnect, which passes the copy itself. */
static int keep_string(char **kept, const char *text) {
    if (*kept == text) return REDIS_OK;
    hi_free(*kept);
    *kept = NULL;
    if (text != NULL && (*kept = hi_strdup(text)) == NULL) return REDIS_ERR;
    return REDIS_OK;
}

static int keep_address(redisContext *c, const void *address, size_t size) {
    struct sockaddr *kept = hi_malloc(size);
    if (kept == NULL) return fail_memory(c);
    memcpy(kept, address, size);
    hi_free(c->saddr);
    c->saddr = kept;
    c->addrlen = size;
    return REDIS_OK;
}

static int open_socket(redisContext *c, int family, int type, int protocol) {
#ifdef SOCK_CLOEXEC
    if (c->flags & CONTEXT_CLOEXEC) type |= SOCK_CLOEXEC;
#endif
    c->fd = socket(family, type, protocol);
    return c->fd == REDIS_INVALID_FD ? REDIS_ERR : REDIS_OK;
}

static int bind_source(redisContext *c, const struct addrinfo *hints) {
    struct addrinfo *sources, *source;
    int error = getaddrinfo(c->tcp.source_addr, NULL, hints, &sources), on = 1;
    if (error != 0) return fail(c, REDIS_ERR_OTHER, "Can't get addr", gai_strerror(error));
    if (c->flags & REDIS_REUSEADDR) setsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    for (source = sources; source != NULL; source = source->ai_next) {
        if (bind(c->fd, source->ai_addr, source->ai_addrlen) == 0) break;
    }
    error = errno;
    freeaddrinfo(sources);
    return source != NULL ? REDIS_OK : fail(c, REDIS_ERR_OTHER, "Can't bind socket", strerror(error));
}

/* Addresses of a host: of the family that is preferred, or else of the other one. */
static int look_up(redisContext *c, struct addrinfo *hints, struct addrinfo **found) {
    char port[16];
    snprintf(port, sizeof port, "%d", c->tcp.port);
    memset(hints, 0, sizeof *hints);
    hints->ai_socktype = SOCK_STREAM;
    int both = REDIS_PREFER_IPV4 | REDIS_PREFER_IPV6, preferred = c->flags & both;
    hints->ai_family = preferred == both ? AF_UNSPEC : preferred == REDIS_PREFER_IPV6 ? AF_INET6 : AF_INET;
    int error = getaddrinfo(c->tcp.host, port, hints, found);
    if (error != 0 && hints->ai_family != AF_UNSPEC) {
        hints->ai_family = hints->ai_family == AF_INET ? AF_INET6 : AF_INET;
        error = getaddrinfo(c->tcp.host, port, hints, found);
    }
    if (error == 0) return REDIS_OK;
    __redisSetError(c, REDIS_ERR_OTHER, gai_strerror(error));
    return REDIS_ERR;
}

/* What trying an address led to. */
enum attempt { ATTEMPT_DONE, ATTEMPT_NEXT, ATTEMPT_AGAIN, ATTEMPT_FAILED };

static enum attempt try_address(redisContext *c, const struct addrinfo *address, const struct addrinfo *hints,
                                long milliseconds) {
    int blocking = c->flags & REDIS_BLOCK;
    if (open_socket(c, address->ai_family, address->ai_socktype, address->ai_protocol) != REDIS_OK)
        return ATTEMPT_NEXT;
    if (set_blocking(c, 0) != REDIS_OK) return ATTEMPT_FAILED;
    if (c->tcp.source_addr != NULL && bind_source(c, hints) != REDIS_OK) return ATTEMPT_FAILED;
    if (keep_address(c, address->ai_addr, address->ai_addrlen) != REDIS_OK) return ATTEMPT_FAILED;
    if (connect(c->fd, address->ai_addr, address->ai_addrlen) == -1) {
        if (errno == EHOSTUNREACH) {
            redisNetClose(c);
            return ATTEMPT_NEXT;
        }
        if (errno == EADDRNOTAVAIL && (c->flags & REDIS_REUSEADDR)) return ATTEMPT_AGAIN;
        if (errno != EINPROGRESS) {
            fail_closing(c, NULL);
            return ATTEMPT_FAILED;
        }
        if (blocking && wait_connected(c, milliseconds) != REDIS_OK) return ATTEMPT_FAILED;
    }
    if (blocking && (redisSetTcpNoDelay(c) != REDIS_OK || set_blocking(c, 1) != REDIS_OK))
        return ATTEMPT_FAILED;
    c->flags |= REDIS_CONNECTED;
    return ATTEMPT_DONE;
}

int redisContextConnectBindTcp(redisContext *c, const char *address, int port, const struct timeval *timeout,
                               const char *source_address) {
    struct addrinfo hints, *found;
    long milliseconds;
    c->connection_type = REDIS_CONN_TCP;
    c->tcp.port = port;
    if (keep_string(&c->tcp.host, address) != REDIS_OK ||
        keep_string(&c->tcp.source_addr, source_address) != REDIS_OK ||
        redisContextUpdateConnectTimeout(c, timeout) != REDIS_OK) {
        return fail_memory(c);
    }
    if (connect_milliseconds(c, &milliseconds) != REDIS_OK || look_up(c, &hints, &found) != REDIS_OK)
        return REDIS_ERR;
    enum attempt attempt = ATTEMPT_NEXT;
    int tries = 0;
    for (const struct addrinfo *at = found; at != NULL && attempt == ATTEMPT_NEXT; at = at->ai_next) {
        while ((attempt = try_address(c, at, &hints, milliseconds)) == ATTEMPT_AGAIN) {
            if (++tries >= REDIS_CONNECT_RETRIES) {
                fail_closing(c, NULL);
                attempt = ATTEMPT_FAILED;
                break;
            }
            redisNetClose(c);
        }
    }
    if (attempt == ATTEMPT_NEXT) fail(c, REDIS_ERR_OTHER, "Can't create socket", strerror(errno));
    freeaddrinfo(found);
    return attempt == ATTEMPT_DONE ? REDIS_OK : REDIS_ERR;
}

int redisContextConnectTcp(redisContext *c, const char *address, int port, const struct timeval *timeout) {
    return redisContextConnectBindTcp(c, address, port, timeout, NULL);
}

int redisContextConnectUnix(redisContext *c, const char *path, const struct timeval *timeout) {
    struct sockaddr_un address = {0};
    long milliseconds;
    int blocking = c->flags & REDIS_BLOCK;
    c->connection_type = REDIS_CONN_UNIX;
    if (keep_string(&c->unix_sock.path, path) != REDIS_OK ||
        redisContextUpdateConnectTimeout(c, timeout) != REDIS_OK) {
        return fail_memory(c);
    }
    if (connect_milliseconds(c, &milliseconds) != REDIS_OK) return REDIS_ERR;
    address.sun_family = AF_UNIX;
    size_t length = strlen(path);
    if (length >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return fail_errno(c, NULL);
    }
    memcpy(address.sun_path, path, length);
    if (open_socket(c, AF_UNIX, SOCK_STREAM, 0) != REDIS_OK) return fail_errno(c, NULL);
    if (set_blocking(c, 0) != REDIS_OK || keep_address(c, &address, sizeof address) != REDIS_OK)
        return REDIS_ERR;
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) == -1) {
        if (errno == EAGAIN && blocking) {
            /* The server's queue is full: wait in connect, as sockets of this kind do. */
            if (set_blocking(c, 1) != REDIS_OK) return REDIS_ERR;
            if (connect(c->fd, (struct sockaddr *)&address, sizeof address) == -1)
                return fail_closing(c, NULL);
        } else if (errno != EINPROGRESS && !(errno == EAGAIN && !blocking)) {
            return fail_closing(c, NULL);
        } else if (blocking && wait_connected(c, milliseconds) != REDIS_OK) {
            return REDIS_ERR;
        }
    }
    if (blocking && set_blocking(c, 1) != REDIS_OK) return REDIS_ERR;
    c->flags |= REDIS_CONNECTED;
    return REDIS_OK;
}
