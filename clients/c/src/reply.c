/* redisReply: how it is made and freed. Read reply.h first. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "reply.h"
#include "scan.h"

enum { SPARE_MAX = 64 };

static size_t round_up(size_t size) { return (size + 7) & ~(size_t)7; }

redisReply *reply_alone(const struct leaf *leaf) {
    size_t bytes = leaf->text != NULL ? leaf->length + 1 : 0;
    if (!REPLY_HAS_TAG) {
        redisReply *reply = hi_calloc(1, sizeof *reply);
        char *text = bytes > 0 ? hi_malloc(bytes) : NULL;
        if (reply == NULL || (bytes > 0 && text == NULL)) {
            hi_free(reply);
            hi_free(text);
            return NULL;
        }
        leaf_fill(reply, leaf, text);
        if (leaf->format != NULL) memcpy(reply->vtype, leaf->format, 4);
        return reply;
    }
    redisReply *reply = hi_malloc(sizeof *reply + bytes);
    if (reply == NULL) return NULL;
    memset(reply, 0, sizeof *reply);
    leaf_fill(reply, leaf, (char *)(reply + 1));
    if (leaf->format != NULL) memcpy(reply->vtype, leaf->format, 4);
    reply_set_tag(reply, TAG_ALONE);
    return reply;
}

/* ---- Spare blocks ---- */

static void free_blocks(struct block *block) {
    for (struct block *next; block != NULL; block = next) {
        next = block->next;
        hi_free(block);
    }
}

/* A sanitizer is to see every use of memory that has been freed. */
#if defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
static struct block *spare_blocks;

/* All of them: what is not used is given back by give_spare. */
static struct block *take_spare(void) {
    if (hiredisAllocFns.freeFn != free || __atomic_load_n(&spare_blocks, __ATOMIC_RELAXED) == NULL)
        return NULL;
    return __atomic_exchange_n(&spare_blocks, NULL, __ATOMIC_ACQUIRE);
}

/* Keep the first of these blocks, in place of those that another thread may have given back. */
static void give_spare(struct block *blocks) {
    if (blocks == NULL) return;
    if (hiredisAllocFns.freeFn != free) {
        free_blocks(blocks);
        return;
    }
    struct block *last = blocks;
    for (int count = 1; count < SPARE_MAX && last->next != NULL; count++) last = last->next;
    free_blocks(last->next);
    last->next = NULL;
    free_blocks(__atomic_exchange_n(&spare_blocks, blocks, __ATOMIC_ACQ_REL));
}
#else
static struct block *take_spare(void) { return NULL; }
static void give_spare(struct block *blocks) { free_blocks(blocks); }
#endif

/* ---- Arenas ---- */

/* Strings are placed from this block from now on. `begin` are the bytes of its header. */
static void use_block(struct builder *b, struct block *block, size_t begin, size_t size) {
    b->block = block;
    b->low = b->low_integer = (char *)block + begin;
    b->high = (char *)block + size;
    b->total += size;
}

static struct block *add_block(struct builder *b, size_t size) {
    struct block **list = size == BLOCK_SIZE ? &b->arena->standard : &b->arena->first.next, *block = NULL;
    if (size == BLOCK_SIZE) {
        if (b->spare == NULL) b->spare = take_spare();
        block = b->spare;
        if (block != NULL) b->spare = block->next;
    }
    if (block == NULL && (block = hi_malloc(size)) == NULL) return NULL;
    block->arena = b->arena;
    block->next = *list;
    *list = block;
    return block;
}

void builder_end(struct builder *b) {
    give_spare(b->spare);
    b->spare = NULL;
}

int builder_extend(struct builder *b, size_t bytes, size_t siblings) {
    size_t one = sizeof(redisReply) + bytes, size = sizeof(struct block) + one;
    size_t each = offsetof(redisReply, vtype) + bytes;
    size_t more = siblings > BLOCK_SIZE / each ? BLOCK_SIZE : siblings * each;
    size_t share = b->total / 4 < BLOCK_SIZE ? b->total / 4 : BLOCK_SIZE;
    size += more > share ? more : share;
    size_t size_max = BLOCK_SIZE > sizeof(struct block) + one ? BLOCK_SIZE : sizeof(struct block) + one;
    if (size > size_max) size = size_max;
    size = round_up(size);
    struct block *block = add_block(b, size);
    if (block == NULL) return -1;
    use_block(b, block, sizeof *block, size);
    return 0;
}

redisReply *builder_large_leaf(struct builder *b, const struct leaf *leaf) {
    struct block *block = add_block(b, sizeof *block + sizeof(redisReply) + leaf->length + 1);
    if (block == NULL) return NULL;
    redisReply *reply = (redisReply *)(block + 1);
    memset(reply, 0, sizeof *reply);
    leaf_fill(reply, leaf, (char *)(reply + 1));
    if (leaf->format != NULL) memcpy(reply->vtype, leaf->format, 4);
    reply_set_tag(reply, sizeof *block / 8);
    b->arena->live++;
    return reply;
}

/* vtype[3] of an aggregate says that its vector is a block of its own. */
static int place_elements(struct builder *b, redisReply *reply, size_t elements) {
    reply->len = elements;
    if (elements > ELEMENTS_AT_ONCE) {
        reply->len = ELEMENTS_AT_ONCE;
        reply->vtype[3] = 1;
        reply->element = hi_malloc(sizeof(redisReply *) * reply->len);
        return reply->element == NULL ? -1 : 0;
    }
    if (elements == 0) return 0;
    size_t offset = (size_t)(b->high - (char *)b->block) - sizeof(redisReply *) * elements;
    b->high = (char *)b->block + (offset & ~(size_t)7);
    reply->element = (redisReply **)(void *)b->high;
    return 0;
}

static redisReply *place_aggregate(struct builder *b, int type, size_t elements) {
    redisReply *reply = (redisReply *)b->low;
    memset(reply, 0, sizeof *reply);
    reply->type = type;
    reply->elements = elements;
    reply_set_tag(reply, (uint32_t)((size_t)(b->low - (char *)b->block) / 8));
    b->low = b->low_integer = b->low + sizeof *reply;
    b->arena->live++;
    if (place_elements(b, reply, elements) != 0) {
        b->arena->live--;
        return NULL;
    }
    return reply;
}

redisReply *builder_begin(struct builder *b, int type, size_t elements, size_t hint) {
    size_t vector = elements > ELEMENTS_AT_ONCE ? 0 : elements * sizeof(redisReply *);
    size_t least = sizeof(struct arena) + sizeof(redisReply) + vector + 8;
    size_t size = least + hint;
    if (size > BLOCK_SIZE) size = least > BLOCK_SIZE ? least : BLOCK_SIZE;
    size = round_up(size);
    struct arena *arena = hi_malloc(size);
    if (arena == NULL) return NULL;
    arena->first.arena = arena;
    arena->first.next = arena->standard = NULL;
    arena->live = 0;
    b->arena = arena;
    b->total = 0;
    use_block(b, &arena->first, round_up(sizeof *arena), size);
    redisReply *reply = place_aggregate(b, type, elements);
    if (reply == NULL) hi_free(arena);
    return reply;
}

redisReply *builder_aggregate(struct builder *b, int type, size_t elements) {
    size_t vector = elements > ELEMENTS_AT_ONCE ? 0 : elements * sizeof(redisReply *);
    if (b->high - b->low < (ptrdiff_t)(sizeof(redisReply) + vector + 8)) {
        if (builder_extend(b, vector + 8, elements < 64 ? elements : 64) != 0) return NULL;
    }
    return place_aggregate(b, type, elements);
}

int reply_grow_elements(redisReply *aggregate) {
    size_t slots = aggregate->len * 2;
    if (slots > aggregate->elements) slots = aggregate->elements;
    redisReply **vector = hi_realloc(aggregate->element, sizeof *vector * slots);
    if (vector == NULL) return -1;
    aggregate->element = vector;
    aggregate->len = slots;
    return 0;
}

/* ---- Freeing ---- */

static void arena_release(struct arena *arena, size_t count) {
#if defined(__GNUC__)
    if (__atomic_sub_fetch(&arena->live, count, __ATOMIC_ACQ_REL) != 0) return;
#else
    if ((arena->live -= count) != 0) return;
#endif
    free_blocks(arena->first.next);
    give_spare(arena->standard);
    hi_free(arena);
}

static struct block *block_of(redisReply *reply, uint32_t tag) {
    return (struct block *)((char *)reply - (size_t)tag * 8);
}

/* Free a tree whose top lies in an arena. Needs no stack: the way back up is kept in the aggregates. */
static void free_tree(redisReply *top) {
    struct arena *arena = block_of(top, reply_tag(top))->arena;
    size_t count = 1;
    redisReply *at = top;
    if (!scan_is_aggregate(top->type)) {
        arena_release(arena, 1);
        return;
    }
    top->str = NULL;
    top->integer = 0;
    while (at != NULL) {
        if ((size_t)at->integer == at->elements) {
            redisReply *parent = (redisReply *)(void *)at->str;
            if (at->vtype[3] != 0) hi_free(at->element);
            at = parent;
            continue;
        }
        redisReply *child = at->element[at->integer++];
        if (child == NULL) continue;
        uint32_t tag = reply_tag(child);
        if (UNLIKELY(tag == 0 || tag == TAG_ALONE)) {
            freeReplyObject(child);
            continue;
        }
        struct arena *home = block_of(child, tag)->arena;
        if (UNLIKELY(home != arena)) {
            freeReplyObject(child);
            continue;
        }
        count++;
        if (scan_is_aggregate(child->type)) {
            child->str = (char *)(void *)at;
            child->integer = 0;
            at = child;
        }
    }
    arena_release(arena, count);
}

void freeReplyObject(void *object) {
    redisReply *reply = object;
    if (reply == NULL) return;
    uint32_t tag = reply_tag(reply);
    if (tag == TAG_ALONE) {
        hi_free(reply);
    } else if (tag != 0) {
        free_tree(reply);
    } else {
        if (scan_is_aggregate(reply->type)) {
            for (size_t i = 0; reply->element != NULL && i < reply->elements; i++)
                freeReplyObject(reply->element[i]);
            hi_free(reply->element);
        } else if (reply->str != NULL) {
            hi_free(reply->str);
        }
        hi_free(reply);
    }
}

/* ---- The functions that programs find in a reader, and may call from their own ---- */

/* Put it in its place. */
static void *attach(const redisReadTask *task, redisReply *reply) {
    if (reply != NULL && task->parent != NULL) {
        ((redisReply *)task->parent->obj)->element[task->idx] = reply;
    }
    return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t length) {
    struct leaf leaf = {task->type, 0, 0, text, length, NULL};
    char format[4] = {0};
    if (task->type == REDIS_REPLY_VERB) {
        memcpy(format, text, 3);
        leaf.format = format;
        leaf.text += 4;
        leaf.length -= 4;
    }
    return attach(task, reply_alone(&leaf));
}

static void *create_array(const redisReadTask *task, size_t elements) {
    redisReply *reply = hi_calloc(1, sizeof *reply);
    if (reply == NULL) return NULL;
    reply->type = task->type;
    if (elements > 0) {
        reply->element = hi_calloc(elements, sizeof *reply->element);
        if (reply->element == NULL) {
            hi_free(reply);
            return NULL;
        }
    }
    reply->elements = elements;
    return attach(task, reply);
}

static void *create_integer(const redisReadTask *task, long long value) {
    struct leaf leaf = {REDIS_REPLY_INTEGER, value, 0, NULL, 0, NULL};
    return attach(task, reply_alone(&leaf));
}

static void *create_double(const redisReadTask *task, double value, char *text, size_t length) {
    struct leaf leaf = {REDIS_REPLY_DOUBLE, 0, value, text, length, NULL};
    return attach(task, reply_alone(&leaf));
}

static void *create_nil(const redisReadTask *task) {
    struct leaf leaf = {REDIS_REPLY_NIL, 0, 0, NULL, 0, NULL};
    return attach(task, reply_alone(&leaf));
}

static void *create_bool(const redisReadTask *task, int value) {
    struct leaf leaf = {REDIS_REPLY_BOOL, value != 0, 0, NULL, 0, NULL};
    return attach(task, reply_alone(&leaf));
}

redisReplyObjectFunctions reply_functions = {
    create_string, create_array, create_integer, create_double, create_nil, create_bool, freeReplyObject,
};
