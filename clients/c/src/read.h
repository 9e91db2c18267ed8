/* A reader's inside: the public struct comes first. */
#ifndef MANTISSA_CLIENT_READ_H
#define MANTISSA_CLIENT_READ_H

#include "reply.h"

struct reader {
    redisReader shown;
    size_t capacity; /* of shown.buf */
    size_t examined; /* of the token at pos: bytes that have no end of a line */

    /* A reply that lies in an arena and is not complete. */
    struct builder builder;
    redisReply *open; /* its innermost aggregate that waits for elements; NULL between replies */
    int depth;        /* aggregates that are open */

    /* Of the context whose reader this is: bytes that may wait in obuf; 0 is no limit. */
    size_t output_max;
    /* Of the asynchronous context whose reader this is; NULL until a command has a timeout. */
    struct deadlines *deadlines;
};

ALWAYS_INLINE struct reader *reader_of(redisReader *shown) { return (struct reader *)shown; }

/* Room for at least `least` bytes behind shown.len; *room is how much there is. NULL for lack of memory. */
INTERNAL char *reader_room(redisReader *shown, size_t least, size_t *room);
/* So many bytes have been put there. */
INTERNAL void reader_filled(redisReader *shown, size_t count);
/* The reader is at an end: err and errstr are set, what was begun is freed. */
INTERNAL void reader_fail(redisReader *shown, int type, const char *text);

#endif
