/* Replies as arrays of views into the buffer that they were read into.
 *
 * The array is used for every reply, so that nothing is allocated once it is large enough. Texts are kept as
 * offsets while a reply comes in pieces, because the buffer may move, and become pointers when it is
 * complete. */
#include "config.h"

#include <string.h>

#include "hiredis/net.h"
#include "mantissa/client.h"
#include "read.h"
#include "scan.h"

/* An aggregate that is open: where it is, and how many elements it still waits for. */
struct level {
    size_t at;
    int64_t left;
};

struct mantissaViews {
    redisReader *reader; /* its buffer, position, limits and error; it builds no replies */
    mantissaView *items;
    size_t count, capacity;
    struct level *levels;
    int depth, depth_capacity;
    size_t consumed; /* bytes of it that are views already */
};

mantissaViews *mantissaViewsCreate(void) {
    mantissaViews *views = hi_calloc(1, sizeof *views);
    if (views == NULL) return NULL;
    views->reader = redisReaderCreateWithFunctions(NULL);
    if (views->reader != NULL) return views;
    hi_free(views);
    return NULL;
}

void mantissaViewsFree(mantissaViews *views) {
    if (views == NULL) return;
    redisReaderFree(views->reader);
    hi_free(views->items);
    hi_free(views->levels);
    hi_free(views);
}

const char *mantissaViewsError(const mantissaViews *views) { return views->reader->errstr; }

int mantissaViewsFeed(mantissaViews *views, const char *bytes, size_t length) {
    return redisReaderFeed(views->reader, bytes, length);
}

static OUTLINE mantissaView *grow_items(mantissaViews *views) {
    size_t capacity = views->capacity * 2 + 64;
    if (capacity > SIZE_MAX / 2 / sizeof(mantissaView)) return NULL;
    mantissaView *items = hi_realloc(views->items, sizeof *items * capacity);
    if (items == NULL) return NULL;
    views->items = items;
    views->capacity = capacity;
    return items;
}

static OUTLINE int open_level(mantissaViews *views, size_t at, int64_t elements) {
    if (views->depth == views->depth_capacity) {
        int capacity = views->depth_capacity * 2 + 8;
        struct level *levels = hi_realloc(views->levels, sizeof *levels * (size_t)capacity);
        if (levels == NULL) return -1;
        views->levels = levels;
        views->depth_capacity = capacity;
    }
    views->levels[views->depth].at = at;
    views->levels[views->depth++].left = elements;
    return 0;
}

static int fail(redisReader *r, int type, const char *text) {
    reader_fail(r, type, text);
    return REDIS_ERR;
}

static const char *forbidden(const redisReader *r, const mresp_token *token, int depth) {
    if (r->maxdepth > 0 && depth >= r->maxdepth) return "Max nesting depth exceeded";
    if (r->maxelements > 0 && token->integer > r->maxelements) return "Multi-bulk length out of range";
    return NULL;
}

/* Set a view of a token; a text is an offset from `base` as yet. */
ALWAYS_INLINE void set_view(mantissaView *view, const mresp_token *token, const char *base) {
    view->type = token->type;
    view->next = 1;
    view->length = 0;
    switch (token->type) {
    case MRESP_INTEGER:
    case MRESP_BOOLEAN: view->is.integer = token->integer; break;
    case MRESP_DOUBLE: view->is.number = token->number; break;
    case MRESP_NULL: view->is.integer = 0; break;
    case MRESP_VERBATIM:
        view->length = token->length + 4;
        view->is.integer = token->text - 4 - base;
        break;
    default: view->length = token->length; view->is.integer = token->text - base;
    }
}

static void offsets_to_pointers(mantissaViews *views, const char *base) {
    for (mantissaView *view = views->items, *end = view + views->count; view < end; view++) {
        switch (view->type) {
        case REDIS_REPLY_STRING:
        case REDIS_REPLY_STATUS:
        case REDIS_REPLY_ERROR:
        case REDIS_REPLY_BIGNUM:
        case REDIS_REPLY_VERB: view->is.text = base + view->is.integer; break;
        default: break;
        }
    }
}

/* An aggregate's view is at `at`. */
static OUTLINE const char *begin_aggregate(mantissaViews *views, const redisReader *r,
                                           const mresp_token *token, size_t at) {
    const char *error = forbidden(r, token, views->depth);
    if (error != NULL) return error;
    views->items[at].length = (size_t)token->integer;
    views->items[at].is.integer = 0;
    if (token->integer > 0 && open_level(views, at, token->integer) != 0) return "Out of memory";
    return NULL;
}

/* An element is complete, and so may be those around it. */
ALWAYS_INLINE void end_element(mantissaViews *views) {
    while (views->depth > 0 && --views->levels[views->depth - 1].left == 0) {
        size_t at = views->levels[--views->depth].at;
        views->items[at].next = (unsigned)(views->count - at);
    }
}

/* Read on: 1 when the reply is complete, 0 when bytes are missing, -1 for an error, which is set in the
 * reader. */
static int read_views(mantissaViews *views, redisReader *r) {
    const char *base = r->buf + r->pos, *p = base + views->consumed, *last = r->buf + r->len;
    size_t examined = reader_of(r)->examined;
    for (;;) {
        mresp_token token;
        mresp_status status = scan_token(p, last, &token, examined);
        if (UNLIKELY(status != MRESP_OK)) {
            views->consumed = (size_t)(p - base);
            reader_of(r)->examined = status == MRESP_MORE ? scan_examined(p, last) : 0;
            if (status == MRESP_MORE) return 0;
            return fail(r, REDIS_ERR_PROTOCOL,
                        token.error != NULL ? token.error : "Protocol error, no type of reply");
        }
        examined = 0;
        /* A view's `next` is 32 bits. */
        if (UNLIKELY(views->count == views->capacity &&
                     (views->count >= UINT32_MAX / 2 || grow_items(views) == NULL))) {
            return fail(r, REDIS_ERR_OOM, "Out of memory");
        }
        size_t at = views->count++;
        set_view(&views->items[at], &token, base);
        p = token.end;
        if (scan_is_aggregate(token.type)) {
            const char *error = begin_aggregate(views, r, &token, at);
            if (error != NULL) {
                return fail(r, error[0] == 'O' ? REDIS_ERR_OOM : REDIS_ERR_PROTOCOL, error);
            }
            if (token.integer > 0) continue;
        }
        end_element(views);
        if (views->depth == 0) break;
    }
    reader_of(r)->examined = 0;
    views->consumed = (size_t)(p - base);
    return 1;
}

/* The next reply in a reader's buffer. */
static int next_views(mantissaViews *views, redisReader *r, const mantissaView **view) {
    *view = NULL;
    if (r->err) return REDIS_ERR;
    if (views->depth == 0 && views->consumed == 0) views->count = 0;
    if (r->pos + views->consumed == r->len) return REDIS_OK;
    int outcome = read_views(views, r);
    if (outcome <= 0) return outcome == 0 ? REDIS_OK : REDIS_ERR;
    offsets_to_pointers(views, r->buf + r->pos);
    r->pos += views->consumed;
    views->consumed = 0;
    *view = views->items;
    return REDIS_OK;
}

int mantissaViewsGet(mantissaViews *views, const mantissaView **view) {
    return next_views(views, views->reader, view);
}

int mantissaGetViews(redisContext *c, mantissaViews *views, const mantissaView **view) {
    *view = NULL;
    if (c->err) return REDIS_ERR;
    if (!(c->flags & REDIS_BLOCK) || reader_of(c->reader)->open != NULL || c->reader->ridx >= 0) {
        /* Half of a reply has been read as objects. */
        __redisSetError(c, REDIS_ERR_OTHER, "The context does not block, or has begun another reply");
        return REDIS_ERR;
    }
    for (int done = 0; !done;) {
        if (redisBufferWrite(c, &done) != REDIS_OK) return REDIS_ERR;
    }
    for (;;) {
        if (next_views(views, c->reader, view) != REDIS_OK) {
            __redisSetError(c, c->reader->err, c->reader->errstr);
            return REDIS_ERR;
        }
        if (*view != NULL) return REDIS_OK;
        if (redisBufferRead(c) != REDIS_OK) return REDIS_ERR;
    }
}

/* ---- Numbers ---- */

static int number_of(const mantissaView *view, double *out) {
    switch (view->type) {
    case REDIS_REPLY_DOUBLE: *out = view->is.number; return 1;
    case REDIS_REPLY_INTEGER: *out = (double)view->is.integer; return 1;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS: {
        const char *end = view->is.text + view->length;
        mn_result result = mn_parse_f64(view->is.text, end, out);
        return view->length > 0 && result.status == MN_OK && result.end == end;
    }
    default: return 0;
    }
}

long long mantissaViewNumbers(const mantissaView *view, double *out, size_t out_max) {
    double value;
    if (!scan_is_aggregate(view->type)) {
        if (!number_of(view, &value)) return -1;
        if (out_max > 0) *out = value;
        return 1;
    }
    const mantissaView *element = view + 1;
    for (size_t i = 0; i < view->length; i++, element += element->next) {
        if (!number_of(element, &value)) return -1;
        if (i < out_max) out[i] = value;
    }
    return (long long)view->length;
}
