/* redisReader: bytes in, replies out.
 *
 * Replies of redisReaderCreate's functions are built in an arena straight from the tokens; for other
 * functions a stack of tasks tells each object's place. Both cost the time of the reply's bytes, in pieces of
 * any size, and memory for what has come, whatever a length promises. */
#include "config.h"

#include <string.h>

#include "read.h"
#include "scan.h"

redisReader *redisReaderCreateWithFunctions(redisReplyObjectFunctions *fn) {
    struct reader *reader = hi_calloc(1, sizeof *reader);
    if (reader == NULL) return NULL;
    redisReader *r = &reader->shown;
    r->fn = fn;
    r->maxbuf = REDIS_READER_MAX_BUF;
    r->maxelements = REDIS_READER_MAX_ARRAY_ELEMENTS;
    r->maxdepth = REDIS_READER_MAX_REPLY_DEPTH;
    r->ridx = -1;
    return r;
}

redisReader *redisReaderCreate(void) { return redisReaderCreateWithFunctions(&reply_functions); }

/* Free what has been made of a reply that is not complete. */
static void drop_reply(struct reader *reader) {
    redisReader *r = &reader->shown;
    builder_end(&reader->builder);
    if (reader->open != NULL) {
        for (redisReply *at = reader->open, *parent; at != NULL; at = parent) {
            parent = (redisReply *)(void *)at->str;
            at->elements = (size_t)at->integer;
        }
        reader->open = NULL;
        reader->depth = 0;
        freeReplyObject(r->reply);
    } else if (r->reply != NULL && r->fn != NULL && r->fn->freeObject != NULL) {
        r->fn->freeObject(r->reply);
    }
    r->reply = NULL;
    r->ridx = -1;
}

void redisReaderFree(redisReader *r) {
    if (r == NULL) return;
    drop_reply(reader_of(r));
    for (int i = 0; i < r->tasks; i++) hi_free(r->task[i]);
    hi_free(r->task);
    hi_free(r->buf);
    hi_free(r);
}

void reader_fail(redisReader *r, int type, const char *text) {
    drop_reply(reader_of(r));
    hi_free(r->buf);
    r->buf = NULL;
    r->pos = r->len = reader_of(r)->capacity = reader_of(r)->examined = 0;
    r->err = type;
    size_t length = strlen(text);
    if (length >= sizeof r->errstr) length = sizeof r->errstr - 1;
    memcpy(r->errstr, text, length);
    r->errstr[length] = 0;
}

/* ---- The buffer ---- */

/* What has been used goes when it is this much, and no less than what is left: programs watch len. */
enum { USED_MAX = 1024 };

static void discard_used(redisReader *r) {
    if (r->pos < USED_MAX || r->pos < r->len - r->pos) return;
    if (r->len > r->pos) memmove(r->buf, r->buf + r->pos, r->len - r->pos);
    r->len -= r->pos;
    r->pos = 0;
}

char *reader_room(redisReader *r, size_t least, size_t *room) {
    struct reader *reader = reader_of(r);
    if (r->pos == r->len) r->pos = r->len = 0;
    if (r->len == 0 && r->maxbuf != 0 && reader->capacity > r->maxbuf && least <= r->maxbuf) {
        hi_free(r->buf);
        r->buf = NULL;
        reader->capacity = 0;
    }
    if (reader->capacity - r->len < least) discard_used(r);
    if (reader->capacity - r->len < least) {
        if (least > SIZE_MAX / 4 - r->len) return NULL;
        size_t capacity = r->len + least, twice = reader->capacity * 2;
        if (capacity < twice) capacity = twice;
        char *buffer = hi_realloc(r->buf, capacity);
        if (buffer == NULL) return NULL;
        r->buf = buffer;
        reader->capacity = capacity;
    }
    *room = reader->capacity - r->len;
    return r->buf + r->len;
}

void reader_filled(redisReader *r, size_t count) { r->len += count; }

int redisReaderFeed(redisReader *r, const char *buf, size_t len) {
    if (r->err) return REDIS_ERR;
    if (buf == NULL || len == 0) return REDIS_OK;
    size_t room;
    char *to = reader_room(r, len, &room);
    if (to == NULL) {
        reader_fail(r, REDIS_ERR_OOM, "Out of memory");
        return REDIS_ERR;
    }
    memcpy(to, buf, len);
    r->len += len;
    return REDIS_OK;
}

/* ---- Replies ---- */

/* What became of an attempt. */
enum outcome { COMPLETE, INCOMPLETE, FAILED };

static enum outcome fail(redisReader *r, int type, const char *text) {
    reader_fail(r, type, text);
    return FAILED;
}

static OUTLINE enum outcome fail_token(redisReader *r, const char *at, const mresp_token *token) {
    if (token->error != NULL) return fail(r, REDIS_ERR_PROTOCOL, token->error);
    static const char before[] = "Protocol error, got \"", behind[] = "\" as reply type byte";
    static const char values[] = "\n\r\t\a\b\\\"", letters[] = "nrtab\\\"", hex[] = "0123456789abcdef";
    unsigned char byte = (unsigned char)*at;
    const char *escaped = byte == 0 ? NULL : strchr(values, byte);
    char text[80], *out = text + sizeof before - 1;
    memcpy(text, before, sizeof before - 1);
    if (escaped != NULL) {
        *out++ = '\\';
        *out++ = letters[escaped - values];
    } else if (byte >= ' ' && byte < 127) {
        *out++ = (char)byte;
    } else {
        *out++ = '\\';
        *out++ = 'x';
        *out++ = hex[byte >> 4];
        *out++ = hex[byte & 15];
    }
    memcpy(out, behind, sizeof behind);
    return fail(r, REDIS_ERR_PROTOCOL, text);
}

/* The error of an aggregate that may not be, or NULL. */
static const char *forbidden(const redisReader *r, const mresp_token *token, int depth) {
    if (r->maxdepth > 0 && depth >= r->maxdepth) return "Max nesting depth exceeded";
    if (r->maxelements > 0 && token->integer > r->maxelements) return "Multi-bulk length out of range";
    /* On 32 bits not every length fits. */
    if ((uint64_t)token->integer > SIZE_MAX) return "Multi-bulk length out of range";
    return NULL;
}

/* A vector of so many elements can be in memory at all. */
static int fits_memory(const mresp_token *token) {
    return (uint64_t)token->integer <= SIZE_MAX / sizeof(void *);
}

/* How many bytes the elements of an array probably take in the arena: those of the first one times all. */
static size_t guess_size(const char *p, const char *last, size_t elements) {
    size_t each = offsetof(redisReply, vtype) + 16;
    mresp_token token;
    if (p < last && *p == ':') {
        each = offsetof(redisReply, element);
    } else if (p < last && *p == '$') {
        token.type = MRESP_STRING;
        mresp_status status = scan_integer(p, last, &token, "");
        if (status == MRESP_OK && token.integer >= 0 && token.integer < LARGE_STRING) {
            each = offsetof(redisReply, vtype) + (size_t)token.integer + 1;
        }
    } else if (p < last && (*p == '*' || *p == '%')) {
        each = 2 * sizeof(redisReply);
    }
    return (elements < 1024 ? elements : 1024) * each + 32;
}

/* An aggregate begins. NULL for lack of memory. */
static OUTLINE redisReply *open_aggregate(struct reader *reader, const mresp_token *token, const char *last) {
    size_t elements = (size_t)token->integer;
    redisReply *parent = reader->open, *made;
    if (parent != NULL) {
        made = builder_aggregate(&reader->builder, token->type, elements);
    } else {
        size_t hint = elements == 0 ? 0 : guess_size(token->end, last, elements);
        made = builder_begin(&reader->builder, token->type, elements, hint);
    }
    if (made != NULL && elements > 0) {
        made->str = (char *)(void *)parent;
        reader->depth++;
    }
    return made;
}

/* Aggregates that have all their elements get the fields that readers of them expect. */
static redisReply *close_aggregates(struct reader *reader, redisReply *open) {
    while (open != NULL && (size_t)open->integer == open->elements) {
        redisReply *parent = (redisReply *)(void *)open->str;
        open->str = NULL;
        open->len = 0;
        open->integer = 0;
        reader->depth--;
        open = parent;
    }
    return open;
}

ALWAYS_INLINE struct leaf leaf_of(const mresp_token *token) {
    struct leaf leaf = {token->type, 0, 0, NULL, 0, NULL};
    switch (token->type) {
    case MRESP_INTEGER:
    case MRESP_BOOLEAN: leaf.integer = token->integer; break;
    case MRESP_NULL: break;
    case MRESP_DOUBLE: leaf.number = token->number; /* fall through */
    default:
        leaf.text = token->text;
        leaf.length = token->length;
        if (token->type == MRESP_VERBATIM) leaf.format = token->format;
    }
    return leaf;
}

/* Go on with a reply in an arena. */
static enum outcome build(struct reader *reader) {
    redisReader *r = &reader->shown;
    const char *p = r->buf + r->pos, *last = r->buf + r->len;
    redisReply *open = reader->open;
    for (;;) {
        mresp_token token;
        mresp_status status = scan_token(p, last, &token, reader->examined);
        if (UNLIKELY(status != MRESP_OK)) {
            reader->open = open;
            r->pos = (size_t)(p - r->buf);
            if (status == MRESP_BAD) return fail_token(r, p, &token);
            reader->examined = scan_examined(p, last);
            return INCOMPLETE;
        }
        reader->examined = 0;
        p = token.end;
        int aggregate = scan_is_aggregate(token.type);
        redisReply *made;
        if (UNLIKELY(open != NULL && (size_t)open->integer == open->len && reply_grow_elements(open) != 0)) {
            made = NULL;
        } else if (aggregate) {
            reader->open = open;
            const char *error = forbidden(r, &token, reader->depth);
            if (error != NULL) return fail(r, REDIS_ERR_PROTOCOL, error);
            made = fits_memory(&token) ? open_aggregate(reader, &token, last) : NULL;
        } else {
            struct leaf leaf = leaf_of(&token);
            made = open == NULL
                       ? reply_alone(&leaf)
                       : builder_leaf(&reader->builder, &leaf, open->elements - (size_t)open->integer - 1);
        }
        if (UNLIKELY(made == NULL)) {
            reader->open = open;
            return fail(r, REDIS_ERR_OOM, "Out of memory");
        }
        if (open == NULL) {
            r->reply = made;
        } else {
            open->element[open->integer++] = made;
        }
        if (aggregate && token.integer > 0) {
            open = made;
            continue;
        }
        if (open == NULL || (size_t)open->integer == open->elements) {
            open = close_aggregates(reader, open);
            if (open == NULL) break;
        }
    }
    reader->open = NULL;
    if (reader->builder.spare != NULL) builder_end(&reader->builder);
    r->pos = (size_t)(p - r->buf);
    return COMPLETE;
}

/* ---- Objects of the program's own ---- */

static int grow_tasks(redisReader *r) {
    int tasks = r->tasks + 8;
    redisReadTask **task = hi_realloc(r->task, sizeof *task * (size_t)tasks);
    if (task == NULL) return -1;
    r->task = task;
    for (; r->tasks < tasks; r->tasks++) {
        if ((task[r->tasks] = hi_calloc(1, sizeof **task)) == NULL) return -1;
    }
    return 0;
}

/* The next task on the stack. */
static redisReadTask *push_task(redisReader *r, int idx, redisReadTask *parent) {
    if (r->ridx + 1 >= r->tasks && grow_tasks(r) != 0) return NULL;
    redisReadTask *task = r->task[++r->ridx];
    task->type = -1;
    task->elements = -1;
    task->idx = idx;
    task->obj = NULL;
    task->parent = parent;
    task->privdata = r->privdata;
    return task;
}

static void *create(redisReader *r, const redisReadTask *task, const mresp_token *token) {
    const redisReplyObjectFunctions *fn = r->fn;
    void *type = (void *)(intptr_t)token->type;
    if (fn == NULL) return type;
    if (scan_is_aggregate(token->type)) {
        return fn->createArray == NULL ? type : fn->createArray(task, (size_t)token->integer);
    }
    switch (token->type) {
    case MRESP_INTEGER: return fn->createInteger == NULL ? type : fn->createInteger(task, token->integer);
    case MRESP_NULL: return fn->createNil == NULL ? type : fn->createNil(task);
    case MRESP_BOOLEAN: return fn->createBool == NULL ? type : fn->createBool(task, (int)token->integer);
    case MRESP_DOUBLE: {
        char text[MRESP_DOUBLE_MAX + 1];
        memcpy(text, token->text, token->length);
        text[token->length] = 0;
        return fn->createDouble == NULL ? type : fn->createDouble(task, token->number, text, token->length);
    }
    default: {
        /* A verbatim string comes with its format. */
        size_t before = token->type == MRESP_VERBATIM ? 4 : 0;
        char *text = r->buf + (token->text - before - r->buf);
        return fn->createString == NULL ? type : fn->createString(task, text, token->length + before);
    }
    }
}

/* The task behind the one that is done, or none. */
static void next_task(redisReader *r) {
    while (r->ridx > 0) {
        redisReadTask *task = r->task[r->ridx];
        if (task->idx + 1 < task->parent->elements) {
            task->idx++;
            task->type = -1;
            task->elements = -1;
            return;
        }
        r->ridx--;
    }
    r->ridx = -1;
}

/* Go on with a reply of the program's objects. */
static enum outcome create_objects(struct reader *reader) {
    redisReader *r = &reader->shown;
    if (r->ridx < 0 && push_task(r, -1, NULL) == NULL) return fail(r, REDIS_ERR_OOM, "Out of memory");
    while (r->ridx >= 0) {
        const char *p = r->buf + r->pos, *last = r->buf + r->len;
        mresp_token token;
        mresp_status status = scan_token(p, last, &token, reader->examined);
        if (status == MRESP_BAD) return fail_token(r, p, &token);
        if (status == MRESP_MORE) {
            reader->examined = scan_examined(p, last);
            return INCOMPLETE;
        }
        reader->examined = 0;
        redisReadTask *task = r->task[r->ridx];
        task->type = token.type;
        int aggregate = scan_is_aggregate(token.type);
        const char *error = aggregate ? forbidden(r, &token, r->ridx) : NULL;
        if (error != NULL) return fail(r, REDIS_ERR_PROTOCOL, error);
        if (aggregate && r->fn != NULL && !fits_memory(&token))
            return fail(r, REDIS_ERR_OOM, "Out of memory");
        void *made = create(r, task, &token);
        if (made == NULL) return fail(r, REDIS_ERR_OOM, "Out of memory");
        r->pos = (size_t)(token.end - r->buf);
        if (r->ridx == 0) r->reply = made;
        if (aggregate && token.integer > 0) {
            task->elements = token.integer;
            task->obj = made;
            if (push_task(r, 0, task) == NULL) return fail(r, REDIS_ERR_OOM, "Out of memory");
        } else {
            next_task(r);
        }
    }
    return COMPLETE;
}

int redisReaderGetReply(redisReader *r, void **reply) {
    struct reader *reader = reader_of(r);
    if (reply != NULL) *reply = NULL;
    if (r->err) return REDIS_ERR;
    if (r->pos == r->len) return REDIS_OK;
    int in_arena = REPLY_HAS_TAG && r->fn == &reply_functions && r->ridx < 0;
    enum outcome outcome = in_arena || reader->open != NULL ? build(reader) : create_objects(reader);
    if (outcome == FAILED) return REDIS_ERR;
    discard_used(r);
    if (outcome == INCOMPLETE) return REDIS_OK;
    if (reply != NULL) {
        *reply = r->reply;
    } else if (r->reply != NULL && r->fn != NULL && r->fn->freeObject != NULL) {
        r->fn->freeObject(r->reply);
    }
    r->reply = NULL;
    return REDIS_OK;
}
