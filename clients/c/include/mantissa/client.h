/* Beyond hiredis's interface: replies that are not copied, and bounded queues. */
#ifndef MANTISSA_CLIENT_H
#define MANTISSA_CLIENT_H

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of commands that may wait to be sent; 0, as at first, is no limit. A command that does not fit is not
 * added: the function returns REDIS_ERR, and the connection has no error. For an asynchronous context pass
 * &ac->c. */
void mantissaSetOutputLimit(redisContext *c, size_t bytes);

/* Asynchronous commands with a time of their own. One without a reply in time is called back with NULL, with
 * ac->err and ac->errstr of a timeout during that call; the connection goes on, and the reply is dropped if
 * it comes. The command may have run. Both kinds of timeouts, these and redisAsyncSetTimeout's, may be used
 * together. REDIS_ERR as with redisAsyncCommand, and for SUBSCRIBE, MONITOR and their kin, which have many
 * replies, and where the event loop's adapter has no timer. A timeout of zero is none. */
int mantissaAsyncCommandWithin(redisAsyncContext *ac, struct timeval timeout, redisCallbackFn *fn,
                               void *privdata, const char *format, ...);
int mantissaAsyncCommandArgvWithin(redisAsyncContext *ac, struct timeval timeout, redisCallbackFn *fn,
                                   void *privdata, int argc, const char **argv, const size_t *argvlen);
int mantissaAsyncFormattedCommandWithin(redisAsyncContext *ac, struct timeval timeout, redisCallbackFn *fn,
                                        void *privdata, const char *command, size_t length);

/* A reply, or an element of one, whose text lies in the buffer that it was read into. A reply is an array of
 * these: the elements of an aggregate follow it, each with its own behind it; `next` views further is its
 * neighbour. */
typedef struct mantissaView {
    int type;      /* REDIS_REPLY_... */
    unsigned next; /* 1 for what has no elements */
    size_t length; /* of text; of an aggregate the number of elements, keys and values counted alone */
    union {
        const char *text; /* STRING, STATUS, ERROR, VERB, BIGNUM: no NUL behind it. Text of VERB: "txt:..." */
        long long integer; /* INTEGER, BOOL */
        double number;     /* DOUBLE */
    } is;
} mantissaView;

/* Replies as views. Memory for them is used again and again. */
typedef struct mantissaViews mantissaViews;

mantissaViews *mantissaViewsCreate(void);
void mantissaViewsFree(mantissaViews *views);
/* Add bytes. What mantissaViewsGet has returned is not valid any more. */
int mantissaViewsFeed(mantissaViews *views, const char *bytes, size_t length);
/* The next reply: valid until the next call with the same `views`. REDIS_OK with NULL where bytes are
 * missing. */
int mantissaViewsGet(mantissaViews *views, const mantissaView **view);
/* What is wrong, behind a REDIS_ERR. */
const char *mantissaViewsError(const mantissaViews *views);

/* Send what the context has to send and wait for a reply, as redisGetReply does, but as views of the
 * context's own buffer: valid until the next call with the context. The context blocks. Pushes come as
 * replies. */
int mantissaGetViews(redisContext *c, mantissaViews *views, const mantissaView **view);

/* The numbers of an array of doubles, integers or texts of numbers, into `out`: how many there are, or -1
 * where one is no number. At most `out_max` are written. */
long long mantissaViewNumbers(const mantissaView *view, double *out, size_t out_max);

#ifdef __cplusplus
}
#endif

#endif
