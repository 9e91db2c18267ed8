/* The memory of redisReply.
 *
 * A reply with elements lies in an arena: blocks that hold the structs from the front and the strings from
 * the back.
 *
 *     block   [ header | reply | reply | reply ->      free      <- string | string ]
 *
 * A leaf's last 24 bytes (vtype, elements, element) overlap with the first 24 of the struct behind it (type,
 * integer, dval): what is placed there has 0 as integer, so that elements of a leaf reads as 0. A struct
 * whose integer is not 0 begins 16 bytes later. Structs of aggregates and verbatim strings overlap with
 * nothing.
 *
 * The four bytes between type and integer are padding to the public struct. Here they say where the reply
 * lies: the offset from its block's beginning, in units of 8 bytes; TAG_ALONE for a leaf with a block of its
 * own; 0 for structs whose strings and vectors are blocks of their own, as programs make them for
 * freeReplyObject.
 *
 * Blocks of BLOCK_SIZE are kept for the next replies: one chain of at most SPARE_MAX for the whole process,
 * because the C library would give the pages back to the system and take them again for each large reply.
 * Programs that set their own memory functions get every block back at once.
 *
 * An arena counts its replies. freeReplyObject subtracts those that it reaches, so that elements which a
 * program has taken out of the tree stay valid, and the blocks go with the last of them. */
#ifndef MANTISSA_CLIENT_REPLY_H
#define MANTISSA_CLIENT_REPLY_H

#include <string.h>

#include "config.h"
#include "hiredis/hiredis.h"

#define TAG_ALONE UINT32_MAX
/* False where the struct has no padding (32-bit x86): then replies are made of separate blocks. */
#define REPLY_HAS_TAG (offsetof(redisReply, integer) == 8)

struct arena;

struct block {
    struct arena *arena;
    struct block *next;
};

struct arena {
    struct block first;
    struct block *standard; /* blocks of BLOCK_SIZE, which are used again */
    size_t live;            /* replies that have not been freed */
};

/* An arena that is being filled. */
struct builder {
    struct arena *arena;
    struct block *block;
    char *low;           /* where the next struct begins if its integer is 0 */
    char *low_integer;   /* and if it is not */
    char *high;          /* strings begin here */
    size_t total;        /* bytes of all blocks */
    struct block *spare; /* blocks of BLOCK_SIZE that are used next */
};

/* What a leaf is made of. */
struct leaf {
    int type;
    long long integer;
    double number;
    const char *text; /* NULL for types without */
    size_t length;
    const char *format; /* of a verbatim string */
};

/* A leaf that is a whole reply. NULL for lack of memory, as with all of these. */
INTERNAL redisReply *reply_alone(const struct leaf *leaf);

/* Begin an arena with an aggregate at its top. `hint` are bytes that its elements probably take. */
INTERNAL redisReply *builder_begin(struct builder *builder, int type, size_t elements, size_t hint);
INTERNAL redisReply *builder_aggregate(struct builder *builder, int type, size_t elements);
/* Space for a leaf whose string takes `bytes`, where the current block has none. `siblings` are still to
 * come. */
INTERNAL int builder_extend(struct builder *builder, size_t bytes, size_t siblings);
INTERNAL redisReply *builder_large_leaf(struct builder *builder, const struct leaf *leaf);

/* The reply is complete, or given up. */
INTERNAL void builder_end(struct builder *builder);

/* Room for one more element in an aggregate that is being filled: integer of them, len slots. */
INTERNAL int reply_grow_elements(redisReply *aggregate);
/* Elements up to this number get their vector at once; beyond, it grows with them, so a count that lies costs
 * nothing. */
enum { ELEMENTS_AT_ONCE = 1024, LARGE_STRING = 4096, BLOCK_SIZE = 16 * 1024 - 64 };

/* The functions behind redisReaderCreate. */
INTERNAL extern redisReplyObjectFunctions reply_functions;

ALWAYS_INLINE uint32_t reply_tag(const redisReply *reply) {
    uint32_t tag = 0;
    if (REPLY_HAS_TAG) memcpy(&tag, (const char *)reply + sizeof(int), sizeof tag);
    return tag;
}

ALWAYS_INLINE void reply_set_tag(redisReply *reply, uint32_t tag) {
    if (REPLY_HAS_TAG) memcpy((char *)reply + sizeof(int), &tag, sizeof tag);
}

/* Set a leaf's fields in zeroed memory; its string goes to `text`. */
ALWAYS_INLINE void leaf_fill(redisReply *reply, const struct leaf *leaf, char *text) {
    reply->type = leaf->type;
    reply->integer = leaf->integer;
    reply->dval = leaf->number;
    if (leaf->text != NULL) {
        memcpy(text, leaf->text, leaf->length);
        text[leaf->length] = 0;
        reply->str = text;
        reply->len = leaf->length;
    }
}

/* A leaf in the arena. */
ALWAYS_INLINE redisReply *builder_leaf(struct builder *b, const struct leaf *leaf, size_t siblings) {
    size_t bytes = leaf->text != NULL ? leaf->length + 1 : 0;
    if (UNLIKELY(bytes > LARGE_STRING)) return builder_large_leaf(b, leaf);
    char *at = leaf->integer != 0 ? b->low_integer : b->low;
    if (UNLIKELY(b->high - at < (ptrdiff_t)(sizeof(redisReply) + bytes))) {
        if (builder_extend(b, bytes, siblings) != 0) return NULL;
        at = b->low;
    }
    redisReply *reply = (redisReply *)at;
    memset(reply, 0, sizeof *reply);
    b->high -= bytes;
    leaf_fill(reply, leaf, b->high);
    reply_set_tag(reply, (uint32_t)((size_t)(at - (char *)b->block) / 8));
    size_t used = offsetof(redisReply, vtype);
    if (UNLIKELY(leaf->format != NULL)) {
        memcpy(reply->vtype, leaf->format, 4);
        used = sizeof *reply;
    }
    b->low = at + used;
    b->low_integer = at + (used == sizeof *reply ? used : offsetof(redisReply, element));
    b->arena->live++;
    return reply;
}

#endif
