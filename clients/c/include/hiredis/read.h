/* Replies of RESP2 and RESP3 from bytes, by functions of the program's own or as redisReply. No socket. */
#ifndef __HIREDIS_READ_H
#define __HIREDIS_READ_H

#include <stddef.h>
#include <stdio.h> /* programs find size_t and FILE here */

#define REDIS_ERR (-1)
#define REDIS_OK 0

/* What err of a context or a reader says; errstr has the words. */
#define REDIS_ERR_IO 1 /* reading or writing failed, errno says how */
#define REDIS_ERR_OTHER 2
#define REDIS_ERR_EOF 3      /* the server has closed the connection */
#define REDIS_ERR_PROTOCOL 4 /* the bytes are no RESP, or pass a limit */
#define REDIS_ERR_OOM 5
#define REDIS_ERR_TIMEOUT 6

/* The type of a reply. */
#define REDIS_REPLY_STRING 1
#define REDIS_REPLY_ARRAY 2
#define REDIS_REPLY_INTEGER 3
#define REDIS_REPLY_NIL 4
#define REDIS_REPLY_STATUS 5
#define REDIS_REPLY_ERROR 6
#define REDIS_REPLY_DOUBLE 7
#define REDIS_REPLY_BOOL 8
#define REDIS_REPLY_MAP 9
#define REDIS_REPLY_SET 10
#define REDIS_REPLY_ATTR 11
#define REDIS_REPLY_PUSH 12
#define REDIS_REPLY_BIGNUM 13
#define REDIS_REPLY_VERB 14

/* The first values of a reader's limits. */
#define REDIS_READER_MAX_BUF (1024 * 16)
#define REDIS_READER_MAX_ARRAY_ELEMENTS ((1LL << 32) - 1)
#define REDIS_READER_MAX_REPLY_DEPTH 1024

#ifdef __cplusplus
extern "C" {
#endif

/* Where an object that is to be made has its place: element idx of the object that the parent has made. */
typedef struct redisReadTask {
    int type;           /* REDIS_REPLY_... */
    long long elements; /* of an aggregate; pairs count twice */
    int idx;
    void *obj;                    /* what createArray has returned for this aggregate */
    struct redisReadTask *parent; /* NULL at the top */
    void *privdata;               /* the reader's */
} redisReadTask;

/* Each makes an object, puts it in its place, and returns it, or NULL for lack of memory. */
typedef struct redisReplyObjectFunctions {
    void *(*createString)(const redisReadTask *, char *, size_t); /* also status, error, bignum and verb */
    void *(*createArray)(const redisReadTask *, size_t);          /* also map, set, attribute and push */
    void *(*createInteger)(const redisReadTask *, long long);
    void *(*createDouble)(const redisReadTask *, double, char *, size_t); /* the text ends with a NUL */
    void *(*createNil)(const redisReadTask *);
    void *(*createBool)(const redisReadTask *, int);
    void (*freeObject)(void *);
} redisReplyObjectFunctions;

/* Readers come from the functions below only: a reader is larger than what is shown. */
typedef struct redisReader {
    int err; /* 0 or REDIS_ERR_...; it stays */
    char errstr[128];

    char *buf;  /* bytes that have come */
    size_t pos; /* those before it are used */
    size_t len;
    size_t maxbuf;         /* an empty buffer that is larger is given back; 0 keeps it */
    long long maxelements; /* of one aggregate; 0 is no limit */

    redisReadTask **task; /* a stack, used when the objects are the program's own */
    int tasks;

    int ridx;    /* top of that stack, -1 between replies */
    void *reply; /* the reply that is being made */

    redisReplyObjectFunctions *fn; /* NULL makes no objects: a reply is its type, cast to a pointer */
    void *privdata;

    int maxdepth; /* aggregates in aggregates; 0 is no limit */
} redisReader;

redisReader *redisReaderCreateWithFunctions(redisReplyObjectFunctions *fn);
void redisReaderFree(redisReader *r);
int redisReaderFeed(redisReader *r, const char *buf, size_t len);
/* REDIS_OK with the next reply, or with NULL where more bytes are needed. */
int redisReaderGetReply(redisReader *r, void **reply);

#define redisReaderSetPrivdata(_r, _p) (int)(((redisReader *)(_r))->privdata = (_p))
#define redisReaderGetObject(_r) (((redisReader *)(_r))->reply)
#define redisReaderGetError(_r) (((redisReader *)(_r))->errstr)

#ifdef __cplusplus
}
#endif

#endif
