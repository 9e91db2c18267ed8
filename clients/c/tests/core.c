/* Without a server: tokens, every split of every token, limits, objects of a program's own, views, memory of
 * replies, formats, sds, and all of it where the decimal point is a comma. */
#include <limits.h>
#include <locale.h>
#include <math.h>

#include "check.h"
#include "mantissa/client.h"
#include "mantissa/resp.h"

/* ---- Good and bad replies ---- */

static const char *const good[] = {
    "+OK\r\n",
    "+\r\n",
    "-ERR no\r\n",
    ":0\r\n",
    ":-1\r\n",
    ":1234567890\r\n",
    ":9223372036854775807\r\n",
    ":-9223372036854775808\r\n",
    "$0\r\n\r\n",
    "$-1\r\n",
    "$5\r\nhello\r\n",
    "$6\r\na\r\nb\r\n\r\n",
    "*0\r\n",
    "*-1\r\n",
    "*1\r\n*1\r\n*0\r\n",
    "*3\r\n:1\r\n$1\r\nx\r\n+y\r\n",
    "_\r\n",
    "#t\r\n",
    "#f\r\n",
    ",0\r\n",
    ",-0\r\n",
    ",3.141592653589793\r\n",
    ",1e308\r\n",
    ",5e-324\r\n",
    ",inf\r\n",
    ",-inf\r\n",
    ",nan\r\n",
    ",-nan\r\n",
    ",1.5e+3\r\n",
    ",+2.5\r\n",
    ",007.25\r\n",
    ",123456789012345678901234567890.5\r\n",
    ",1e-999\r\n",
    "(3492890328409238509324850943850943825024385\r\n",
    "(-1\r\n",
    "=10\r\ntxt:LOLWUT\r\n",
    "=4\r\nmkd:\r\n",
    "%2\r\n+a\r\n:1\r\n$1\r\nb\r\n,2.5\r\n",
    "%0\r\n",
    "~2\r\n#t\r\n#f\r\n",
    ">2\r\n+push\r\n:1\r\n",
    "|1\r\n+ttl\r\n:3600\r\n",
    "*6\r\n$1\r\na\r\n:7\r\n#t\r\n,1.5\r\n=8\r\ntxt:abcd\r\n*2\r\n:1\r\n:2\r\n",
    "*4\r\n:1\r\n:2\r\n$3\r\nabc\r\n:0\r\n",
    "*3\r\n=6\r\ntxt:ab\r\n:5\r\n=5\r\ntxt:c\r\n",
};

static const struct {
    const char *bytes, *error;
} bad[] = {
    {"@foo\r\n", "Protocol error, got \"@\" as reply type byte"},
    {"\r\n", "Protocol error, got \"\\r\" as reply type byte"},
    {"\"x\r\n", "Protocol error, got \"\\\"\" as reply type byte"},
    {"\x01\r\n", "Protocol error, got \"\\x01\" as reply type byte"},
    {":\r\n", "Bad integer value"},
    {":abc\r\n", "Bad integer value"},
    {":01\r\n", "Bad integer value"},
    {":+1\r\n", "Bad integer value"},
    {":-\r\n", "Bad integer value"},
    {":-0\r\n", "Bad integer value"},
    {":1 \r\n", "Bad integer value"},
    {":9223372036854775808\r\n", "Bad integer value"},
    {":-9223372036854775809\r\n", "Bad integer value"},
    {":99999999999999999999\r\n", "Bad integer value"},
    {":1\n\r\n", "Bad integer value"},
    {"$x\r\n", "Bad bulk string length"},
    {"$-2\r\n", "Bulk string length out of range"},
    {"$9223372036854775807\r\n", "Bulk string length out of range"},
    {"$2\r\nabc\r\n", "Bad end of bulk string"},
    {"*-2\r\n", "Multi-bulk length out of range"},
    {"*x\r\n", "Bad multi-bulk length"},
    {"*4294967296\r\n", "Multi-bulk length out of range"},
    {"%4611686018427387904\r\n", "Multi-bulk length out of range"},
    {"_x\r\n", "Bad nil value"},
    {"#x\r\n", "Bad bool value"},
    {"#tt\r\n", "Bad bool value"},
    {",\r\n", "Bad double value"},
    {",1.2.3\r\n", "Bad double value"},
    {",1e\r\n", "Bad double value"},
    {",+\r\n", "Bad double value"},
    {",.\r\n", "Bad double value"},
    {",.5\r\n", "Bad double value"},
    {",5.\r\n", "Bad double value"},
    {",1.e5\r\n", "Bad double value"},
    {",1,5\r\n", "Bad double value"},
    {", 1\r\n", "Bad double value"},
    {",1 \r\n", "Bad double value"},
    {",0x10\r\n", "Bad double value"},
    {",Inf\r\n", "Bad double value"},
    {",infinity\r\n", "Bad double value"},
    {",+inf\r\n", "Bad double value"},
    {",NaN\r\n", "Bad double value"},
    {",1e999\r\n", "Bad double value"},
    {"(12a\r\n", "Bad bignum value"},
    {"+a\rb\r\n", "Bad simple string value"},
    {"-a\nb\r\n", "Bad simple string value"},
    {"=3\r\nabc\r\n", "Verbatim string 4 bytes of content type are missing or incorrectly encoded."},
    {"=5\r\nabcde\r\n", "Verbatim string 4 bytes of content type are missing or incorrectly encoded."},
};

enum { GOOD = sizeof good / sizeof *good, BAD = sizeof bad / sizeof *bad };

/* A reply in memory of the exact size, so that a sanitizer sees each access outside. */
static char *copy(const char *bytes, size_t length) {
    char *block = malloc(length ? length : 1);
    if (block == NULL) abort();
    memcpy(block, bytes, length);
    return block;
}

static void feed(redisReader *reader, const char *bytes, size_t length) {
    char *block = copy(bytes, length);
    CHECK(redisReaderFeed(reader, block, length) == REDIS_OK);
    free(block);
}

static char *dump(redisReply *reply) {
    struct text text = {0};
    if (reply != NULL) text_add_reply(&text, reply);
    freeReplyObject(reply);
    return text.at;
}

/* ---- Objects of the program's own, which are text ---- */

struct object {
    struct text text;
    struct object **children;
    size_t count;
    int type;
};

static int objects;

static void *place(const redisReadTask *task, struct object *object) {
    objects++;
    object->type = task->type;
    if (task->parent != NULL) ((struct object *)task->parent->obj)->children[task->idx] = object;
    CHECK(task->privdata == &objects);
    return object;
}

static struct object *new_object(void) { return calloc(1, sizeof(struct object)); }

static void *make_string(const redisReadTask *task, char *bytes, size_t length) {
    struct object *object = new_object();
    char head[8];
    text_add(&object->text, head, (size_t)snprintf(head, sizeof head, "(%d 0 ", task->type));
    if (task->type == REDIS_REPLY_VERB) {
        text_add(&object->text, bytes, 3);
        bytes += 4, length -= 4;
    }
    text_add(&object->text, "'", 1);
    text_add(&object->text, bytes, length);
    return place(task, object);
}

static void *make_array(const redisReadTask *task, size_t elements) {
    struct object *object = new_object();
    char head[8];
    text_add(&object->text, head, (size_t)snprintf(head, sizeof head, "(%d 0 ", task->type));
    object->children = calloc(elements + 1, sizeof *object->children);
    object->count = elements;
    return place(task, object);
}

static void *make_integer(const redisReadTask *task, long long value) {
    struct object *object = new_object();
    char head[40];
    text_add(&object->text, head, (size_t)snprintf(head, sizeof head, "(%d %lld ", task->type, value));
    return place(task, object);
}

static void *make_double(const redisReadTask *task, double value, char *text, size_t length) {
    struct object *object = new_object();
    text_add(&object->text, "(7 0 ", 5);
    text_add_double(&object->text, value);
    text_add(&object->text, "'", 1);
    text_add(&object->text, text, strlen(text));
    CHECK(strlen(text) == length);
    return place(task, object);
}

static void *make_nil(const redisReadTask *task) { return make_integer(task, 0); }
static void *make_bool(const redisReadTask *task, int value) { return make_integer(task, value); }

static void free_object(void *data) {
    struct object *object = data;
    if (object == NULL) return;
    objects--;
    for (size_t i = 0; i < object->count; i++) free_object(object->children[i]);
    free(object->children);
    free(object->text.at);
    free(object);
}

static void flatten(struct text *text, const struct object *object) {
    text_add(text, object->text.at, object->text.length);
    for (size_t i = 0; i < object->count; i++) flatten(text, object->children[i]);
    text_add(text, ")", 1);
}

static redisReplyObjectFunctions functions = {make_string, make_array, make_integer, make_double,
                                              make_nil,    make_bool,  free_object};

/* ---- Views as the same text ---- */

static const mantissaView *flatten_view(struct text *text, const mantissaView *view) {
    char head[96];
    int type = view->type;
    long long integer = type == REDIS_REPLY_INTEGER || type == REDIS_REPLY_BOOL ? view->is.integer : 0;
    text_add(text, head, (size_t)snprintf(head, sizeof head, "(%d %lld ", type, integer));
    const mantissaView *next = view + 1;
    switch (type) {
    case REDIS_REPLY_ARRAY:
    case REDIS_REPLY_MAP:
    case REDIS_REPLY_SET:
    case REDIS_REPLY_ATTR:
    case REDIS_REPLY_PUSH:
        for (size_t i = 0; i < view->length; i++) next = flatten_view(text, next);
        break;
    case REDIS_REPLY_DOUBLE: text_add_double(text, view->is.number); break;
    case REDIS_REPLY_NIL:
    case REDIS_REPLY_INTEGER:
    case REDIS_REPLY_BOOL: break;
    default: {
        size_t skipped = type == REDIS_REPLY_VERB ? 4 : 0;
        if (skipped) text_add(text, view->is.text, 3);
        text_add(text, "'", 1);
        text_add(text, view->is.text + skipped, view->length - skipped);
    }
    }
    CHECK(next == view + view->next);
    text_add(text, ")", 1);
    return next;
}

/* Views keep no text of doubles: take it out of a reply's. */
static void remove_double_texts(char *text) {
    char *to = text;
    for (const char *from = text; *from != 0;) {
        if (strncmp(from, "(7 0 ", 5) == 0) {
            memmove(to, from, 21);
            to += 21, from += 21;
            while (*from != ')') from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

/* ---- Splits ---- */

static char *whole(const char *bytes, size_t length) {
    redisReader *reader = redisReaderCreate();
    void *reply;
    feed(reader, bytes, length);
    CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL);
    CHECK(reader->pos == reader->len || reader->len == 0);
    redisReaderFree(reader);
    return dump(reply);
}

/* The same reply from two pieces, or from single bytes where `cut` is 0. */
static void split(const char *bytes, size_t length, size_t cut, const char *expected) {
    redisReader *reader = redisReaderCreate(), *own = redisReaderCreateWithFunctions(&functions);
    mantissaViews *views = mantissaViewsCreate();
    void *reply = NULL, *object = NULL;
    const mantissaView *view = NULL;
    own->privdata = &objects;
    for (size_t at = 0; at < length;) {
        size_t piece = cut == 0 ? 1 : at == 0 ? cut : length - cut;
        CHECK(reply == NULL && object == NULL && view == NULL);
        feed(reader, bytes + at, piece);
        feed(own, bytes + at, piece);
        char *block = copy(bytes + at, piece);
        CHECK(mantissaViewsFeed(views, block, piece) == REDIS_OK);
        free(block);
        CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK);
        CHECK(redisReaderGetReply(own, &object) == REDIS_OK);
        CHECK(mantissaViewsGet(views, &view) == REDIS_OK);
        at += piece;
    }
    CHECK(reply != NULL && object != NULL && view != NULL);
    char *text = dump(reply);
    CHECK(strcmp(text, expected) == 0);
    struct text flat = {0}, flat_view = {0};
    flatten(&flat, object);
    CHECK(strcmp(flat.at, expected) == 0);
    flatten_view(&flat_view, view);
    remove_double_texts(text);
    CHECK(strcmp(flat_view.at, text) == 0);
    free(text);
    free(flat.at);
    free(flat_view.at);
    free_object(object);
    redisReaderFree(reader);
    redisReaderFree(own);
    mantissaViewsFree(views);
}

static void test_splits(void) {
    for (int i = 0; i < GOOD; i++) {
        size_t length = strlen(good[i]);
        char *expected = whole(good[i], length);
        for (size_t cut = 0; cut < length; cut++) split(good[i], length, cut, expected);
        free(expected);
    }
    CHECK(objects == 0);
}

/* Replies one behind the other, in pieces of every size. */
static void test_streams(void) {
    struct text all = {0};
    for (int i = 0; i < GOOD; i++) text_add(&all, good[i], strlen(good[i]));
    for (size_t piece = 1; piece < 24; piece++) {
        redisReader *reader = redisReaderCreate();
        int count = 0;
        for (size_t at = 0; at < all.length; at += piece) {
            void *reply;
            feed(reader, all.at + at, all.length - at < piece ? all.length - at : piece);
            while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
                size_t length = strlen(good[count]);
                char *expected = whole(good[count++], length), *text = dump(reply);
                CHECK(strcmp(text, expected) == 0);
                free(expected);
                free(text);
            }
        }
        CHECK(count == GOOD && reader->err == 0);
        redisReaderFree(reader);
    }
    free(all.at);
}

static void test_errors(void) {
    for (int i = 0; i < BAD; i++) {
        size_t length = strlen(bad[i].bytes);
        for (size_t cut = 0; cut < length; cut++) {
            redisReader *reader = redisReaderCreate(), *inside = redisReaderCreate();
            void *reply = NULL;
            feed(inside, "*2\r\n$5\r\nhello\r\n", 15);
            CHECK(redisReaderGetReply(inside, &reply) == REDIS_OK && reply == NULL);
            if (cut > 0) {
                feed(reader, bad[i].bytes, cut);
                redisReaderGetReply(reader, &reply);
                CHECK(reply == NULL);
            }
            if (!reader->err) feed(reader, bad[i].bytes + cut, length - cut);
            feed(inside, bad[i].bytes, length);
            CHECK(redisReaderGetReply(reader, &reply) == REDIS_ERR && reply == NULL);
            CHECK(redisReaderGetReply(inside, &reply) == REDIS_ERR && reply == NULL);
            CHECK(reader->err == REDIS_ERR_PROTOCOL && strcmp(reader->errstr, bad[i].error) == 0);
            CHECK(strcmp(inside->errstr, bad[i].error) == 0);
            CHECK(redisReaderFeed(reader, "+OK\r\n", 5) == REDIS_ERR);
            redisReaderFree(reader);
            redisReaderFree(inside);
        }
    }
}

/* ---- Limits and memory ---- */

static void test_limits(void) {
    for (int own = 0; own < 2; own++) {
        for (int depth = 1; depth <= 12; depth++) {
            redisReader *reader = own ? redisReaderCreateWithFunctions(NULL) : redisReaderCreate();
            void *reply;
            reader->maxdepth = 10;
            for (int i = 0; i < depth; i++) feed(reader, "*1\r\n", 4);
            feed(reader, "+OK\r\n", 5);
            CHECK(redisReaderGetReply(reader, &reply) == (depth <= 10 ? REDIS_OK : REDIS_ERR));
            if (!own) freeReplyObject(reply);
            redisReaderFree(reader);
        }
    }
    /* A count that lies takes no memory for what does not come. */
    redisReader *reader;
    void *reply;
#if SIZE_MAX > UINT32_MAX
    reader = redisReaderCreate();
    reader->maxelements = 0;
    feed(reader, "*1000000000000\r\n:1\r\n", 20);
    CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK && reply == NULL);
    redisReaderFree(reader);
    reader = redisReaderCreate();
    reader->maxelements = 0;
    feed(reader, "*4611686018427387904\r\n", 22);
    CHECK(redisReaderGetReply(reader, &reply) == REDIS_ERR && reader->err == REDIS_ERR_OOM);
    redisReaderFree(reader);
#endif
    /* Without a limit to depth, freeing needs no stack. */
    reader = redisReaderCreate();
    reader->maxdepth = 0;
    for (int i = 0; i < 100000; i++) redisReaderFeed(reader, "*1\r\n", 4);
    feed(reader, ":7\r\n", 4);
    CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL);
    freeReplyObject(reply);
    redisReaderFree(reader);
}

/* Elements that a program takes out of a reply stay valid, in whatever order everything is freed. */
static void test_stolen_elements(void) {
    static const char bytes[] = "*4\r\n$5\r\nfirst\r\n*2\r\n:1\r\n$6\r\nnested\r\n:7\r\n,2.5\r\n";
    for (int order = 0; order < 4; order++) {
        redisReader *reader = redisReaderCreate();
        void *got;
        feed(reader, bytes, sizeof bytes - 1);
        CHECK(redisReaderGetReply(reader, &got) == REDIS_OK);
        redisReply *reply = got, *string = reply->element[0], *array = reply->element[1];
        redisReply *nested = array->element[1];
        reply->element[0] = reply->element[1] = NULL;
        array->element[1] = NULL;
        if (order & 1) {
            freeReplyObject(string);
            string = NULL;
        }
        if (order & 2) {
            freeReplyObject(array);
            array = NULL;
        }
        freeReplyObject(reply);
        if (string != NULL) CHECK(strcmp(string->str, "first") == 0);
        if (array != NULL) CHECK(array->elements == 2 && array->element[0]->integer == 1);
        CHECK(strcmp(nested->str, "nested") == 0);
        freeReplyObject(array);
        freeReplyObject(string);
        freeReplyObject(nested);
        redisReaderFree(reader);
    }
    /* A reply that a program has made itself, with one of ours in it. */
    redisReader *reader = redisReaderCreate();
    void *got;
    feed(reader, bytes, sizeof bytes - 1);
    CHECK(redisReaderGetReply(reader, &got) == REDIS_OK);
    redisReply *made = calloc(1, sizeof *made);
    made->type = REDIS_REPLY_ARRAY;
    made->elements = 2;
    made->element = calloc(2, sizeof *made->element);
    made->element[0] = got;
    made->element[1] = calloc(1, sizeof *made);
    made->element[1]->type = REDIS_REPLY_STRING;
    made->element[1]->str = strdup("text");
    freeReplyObject(made);
    redisReaderFree(reader);
}

/* Large replies of everything, compared with what they were made of; memory is counted to be given back. */
static long blocks;
static void *count_malloc(size_t size) { return blocks++, malloc(size); }
static void *count_calloc(size_t count, size_t size) { return blocks++, calloc(count, size); }
static void *count_realloc(void *block, size_t size) {
    if (block == NULL) blocks++;
    return realloc(block, size);
}
static char *count_strdup(const char *text) { return blocks++, strdup(text); }
static void count_free(void *block) {
    if (block != NULL) blocks--;
    free(block);
}

static unsigned long long seed = 88172645463325252ull;
static unsigned below(unsigned limit) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (unsigned)(seed >> 33) % limit;
}

static void add_random(struct text *bytes, int depth) {
    static const char kinds[] = "*%~>|";
    char head[64];
    /* Large ones end in leaves. */
    unsigned kind = below(depth > 0 && bytes->length < 100000 ? 10 : 7);
    if (kind >= 7) {
        unsigned elements = below(50) == 0 ? below(3000) : below(12);
        char type = kinds[below(5)];
        text_add(bytes, head, (size_t)snprintf(head, sizeof head, "%c%u\r\n", type, elements));
        if (type == '%' || type == '|') elements *= 2;
        while (elements-- > 0) add_random(bytes, depth - 1);
    } else if (kind == 0) {
        unsigned length = below(60) == 0 ? below(40000) : below(40);
        text_add(bytes, head, (size_t)snprintf(head, sizeof head, "$%u\r\n", length));
        for (unsigned i = 0; i < length; i++) {
            char c = (char)below(256);
            text_add(bytes, &c, 1);
        }
        text_add(bytes, "\r\n", 2);
    } else {
        const char *simple = good[below(GOOD)];
        if (strchr(kinds, *simple) != NULL) simple = ":42\r\n";
        text_add(bytes, simple, strlen(simple));
    }
}

static void test_random(void) {
    hiredisAllocFuncs counting = {count_malloc, count_calloc, count_realloc, count_strdup, count_free};
    hiredisAllocFuncs before = hiredisSetAllocators(&counting);
    for (int i = 0; i < 100; i++) {
        struct text bytes = {0};
        add_random(&bytes, 4);
        char *expected = whole(bytes.at, bytes.length);
        split(bytes.at, bytes.length, 1 + below((unsigned)bytes.length), expected);
        redisReader *reader = redisReaderCreate();
        void *reply = NULL;
        for (size_t at = 0; at < bytes.length;) {
            size_t piece = 1 + below(below(4) == 0 ? 20 : 5000);
            if (piece > bytes.length - at) piece = bytes.length - at;
            CHECK(reply == NULL);
            redisReaderFeed(reader, bytes.at + at, piece);
            CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK);
            at += piece;
        }
        char *text = dump(reply);
        CHECK(text != NULL && strcmp(text, expected) == 0);
        redisReaderFree(reader);
        /* A reply that ends too early. */
        reader = redisReaderCreate();
        redisReaderFeed(reader, bytes.at, below((unsigned)bytes.length));
        redisReaderGetReply(reader, &reply);
        redisReaderFree(reader);
        free(text);
        free(expected);
        free(bytes.at);
    }
    CHECK(blocks == 0);
    hiredisSetAllocators(&before);
}

/* Each allocation fails once. */
static long until_failure;
static void *fail_malloc(size_t size) { return until_failure-- == 0 ? NULL : count_malloc(size); }
static void *fail_calloc(size_t count, size_t size) {
    return until_failure-- == 0 ? NULL : count_calloc(count, size);
}
static void *fail_realloc(void *block, size_t size) {
    return until_failure-- == 0 ? NULL : count_realloc(block, size);
}
static char *fail_strdup(const char *text) { return until_failure-- == 0 ? NULL : count_strdup(text); }

static void test_failing_memory(void) {
    hiredisAllocFuncs failing = {fail_malloc, fail_calloc, fail_realloc, fail_strdup, count_free};
    hiredisAllocFuncs before = hiredisSetAllocators(&failing);
    struct text bytes = {0};
    text_add(&bytes, "*1200\r\n", 7);
    for (int i = 0; i < 600; i++) text_add(&bytes, "*2\r\n:1\r\n$20\r\naaaaaaaaaaaaaaaaaaaa\r\n:9\r\n", 39);
    for (long fails = 0, done = 0; !done && fails < 1000; fails++) {
        until_failure = fails;
        void *reply = NULL;
        redisReader *reader = redisReaderCreate();
        if (reader != NULL && redisReaderFeed(reader, bytes.at, bytes.length) == REDIS_OK) {
            done = redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL;
        }
        if (reader != NULL && !done) CHECK(reader->err == REDIS_ERR_OOM);
        freeReplyObject(reply);
        redisReaderFree(reader);
        char *command = NULL;
        until_failure = fails;
        if (redisFormatCommand(&command, "SET %s %b %d", "k", bytes.at, bytes.length, 7) >= 0)
            hi_free(command);
        CHECK(blocks == 0);
    }
    hiredisSetAllocators(&before);
    free(bytes.at);
}

/* ---- Writing ---- */

#define FORMATS(expected, ...)                                                  \
    do {                                                                        \
        char *command_ = NULL;                                                  \
        int length_ = redisFormatCommand(&command_, __VA_ARGS__);               \
        CHECK(length_ == (int)sizeof expected - 1);                             \
        CHECK(length_ > 0 && memcmp(command_, expected, sizeof expected) == 0); \
        redisFreeCommand(command_);                                             \
    } while (0)

static void test_formats(void) {
    char *command;
    FORMATS("*1\r\n$4\r\nPING\r\n", "PING");
    FORMATS("*1\r\n$4\r\nPING\r\n", "  PING  ");
    FORMATS("*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$0\r\n\r\n", "SET %s %s", "foo", "");
    FORMATS("*3\r\n$3\r\nSET\r\n$5\r\nk:a:e\r\n$3\r\na\0b\r\n", "SET k:%s:e %b", "a", "a\0b", (size_t)3);
    FORMATS("*2\r\n$1\r\n%\r\n$2\r\n1%\r\n", "%% %d%%", 1);
    FORMATS("*2\r\n$1\r\na\r\n$1\r\n%\r\n", "a %");
    FORMATS("*7\r\n$2\r\n-7\r\n$3\r\n "
            "12\r\n$2\r\nff\r\n$3\r\n+42\r\n$1\r\n9\r\n$20\r\n-9223372036854775808\r\n$2\r\n10\r\n",
            "%d %3d %x %+ld %hhu %lld %hd", -7, 12, 255, 42L, 9, LLONG_MIN, 10);
    FORMATS("*4\r\n$8\r\n3.140000\r\n$5\r\n02.50\r\n$5\r\n1e+20\r\n$6\r\n1.5e-7\r\n", "%f %05.2f %g %r", 3.14,
            2.5, 1e20, 1.5e-7);
    FORMATS("*3\r\n$3\r\ninf\r\n$3\r\n0.1\r\n$4\r\n-2.5\r\n", "%f %r %-g", (double)INFINITY, 0.1, -2.5);
    char digits[400];
    int length = snprintf(digits, sizeof digits, "%.300f", 0.5);
    for (char *p = digits; *p; p++) *p = *p == ',' ? '.' : *p;
    CHECK(redisFormatCommand(&command, "%.300f", 0.5) == length + 12 && strstr(command, digits) != NULL);
    redisFreeCommand(command);
    CHECK(redisFormatCommand(&command, "key:%08p %b", (void *)1234, "foo", (size_t)3) == -1);
    CHECK(redisFormatCommand(&command, "%-") == -1 && redisFormatCommand(&command, "%lf", 1.0) == -1);
    CHECK(redisFormatCommand(NULL, "PING") == -1);

    const char *argv[] = {"SET", "foo\0x", "bar"};
    const size_t lengths[] = {3, 5, 3};
    CHECK(redisFormatCommandArgv(&command, 3, argv, lengths) == 33);
    CHECK(memcmp(command, "*3\r\n$3\r\nSET\r\n$5\r\nfoo\0x\r\n$3\r\nbar\r\n", 34) == 0);
    redisFreeCommand(command);
    sds text;
    CHECK(redisFormatSdsCommandArgv(&text, 3, argv, NULL) == 31 && sdslen(text) == 31);
    CHECK(strcmp(text, "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$3\r\nbar\r\n") == 0);
    redisFreeSdsCommand(text);
    /* Many arguments, long ones. */
    struct text format = {0};
    for (int i = 0; i < 200; i++) text_add(&format, "0123456789 ", 11);
    CHECK(redisFormatCommand(&command, format.at) == 6 + 200 * 17);
    redisFreeCommand(command);
    free(format.at);
}

static void test_core_writer(void) {
    char out[256], *end = mresp_write_array(out, 4);
    end = mresp_write_bulk(end, "ZADD", 4);
    end = mresp_write_bulk(end, NULL, 0);
    end = mresp_write_bulk_f64(end, 0.1);
    end = mresp_write_bulk_i64(end, INT64_MIN);
    static const char expected[] =
        "*4\r\n$4\r\nZADD\r\n$0\r\n\r\n$3\r\n0.1\r\n$20\r\n-9223372036854775808\r\n";
    CHECK((size_t)(end - out) == sizeof expected - 1 && memcmp(out, expected, sizeof expected - 1) == 0);
    CHECK(mresp_bulk_size(0) == 6 && mresp_bulk_size(10) == 17 && mresp_array_size(10) == 5);
}

/* The core alone, with frames of the caller. */
static void test_core_reader(void) {
    static const char bytes[] = "*2\r\n*1\r\n:1\r\n%1\r\n+a\r\n,0.5\r\n";
    int64_t frames[2];
    mresp_reader reader;
    mresp_reader_init(&reader, frames, 2, 10);
    mresp_token token;
    const char *at = bytes, *last = bytes + sizeof bytes - 1;
    int tokens = 0, depths = 0;
    do {
        for (const char *less = at; less < last; less++) {
            mresp_reader again = reader;
            int64_t kept[2] = {frames[0], frames[1]};
            mresp_status status = mresp_next(&again, at, less, &token);
            if (status == MRESP_MORE) CHECK(token.needed > (size_t)(less - at));
            frames[0] = kept[0], frames[1] = kept[1];
        }
        CHECK(mresp_next(&reader, at, last, &token) == MRESP_OK);
        at = token.end;
        tokens++;
        depths = depths * 10 + reader.depth;
    } while (reader.depth > 0);
    CHECK(tokens == 6 && depths == 121220 && at == last && token.number == 0.5);
    static const char eleven[] = "*11\r\n";
    CHECK(mresp_next(&reader, eleven, eleven + 5, &token) == MRESP_BAD);
    const char *deep = "*1\r\n*1\r\n*1\r\n";
    mresp_reader_init(&reader, frames, 2, 0);
    CHECK(mresp_next(&reader, deep, deep + 12, &token) == MRESP_OK &&
          mresp_next(&reader, deep, deep + 12, &token) == MRESP_OK);
    CHECK(mresp_next(&reader, deep, deep + 12, &token) == MRESP_BAD &&
          strcmp(token.error, "Max nesting depth exceeded") == 0);
}

static void test_view_numbers(void) {
    static const char bytes[] = "*4\r\n,1.5\r\n:2\r\n$4\r\n-2.5\r\n+1e3\r\n";
    mantissaViews *views = mantissaViewsCreate();
    const mantissaView *view;
    double numbers[4] = {0};
    CHECK(mantissaViewsFeed(views, bytes, sizeof bytes - 1) == REDIS_OK &&
          mantissaViewsGet(views, &view) == REDIS_OK);
    CHECK(mantissaViewNumbers(view, numbers, 4) == 4);
    CHECK(numbers[0] == 1.5 && numbers[1] == 2 && numbers[2] == -2.5 && numbers[3] == 1000);
    CHECK(mantissaViewsFeed(views, "*1\r\n+x\r\n", 8) == REDIS_OK &&
          mantissaViewsGet(views, &view) == REDIS_OK);
    CHECK(mantissaViewNumbers(view, numbers, 4) == -1);
    CHECK(mantissaViewsFeed(views, "?", 1) == REDIS_OK && mantissaViewsGet(views, &view) == REDIS_ERR);
    CHECK(mantissaViewsError(views)[0] == 'P');
    mantissaViewsFree(views);
}

static void test_sds(void) {
    sds s = sdsnew("  Hello ");
    s = sdstrim(s, " ");
    s = sdscatprintf(s, "-%d-%s", 7, "abc");
    sds other = sdsnew("end");
    s = sdscatfmt(s, ":%i:%U:%S%%", -5, (uint64_t)UINT64_MAX, other);
    sdsfree(other);
    CHECK(strcmp(s, "Hello-7-abc:-5:18446744073709551615:end%") == 0);
    CHECK(sdsrange(s, 0, 4) == 0 && strcmp(s, "Hello") == 0);
    sdsrange(s, -3, -2);
    CHECK(strcmp(s, "ll") == 0 && sdslen(s) == 2);
    for (int i = 0; i < 70000; i++) s = sdscatlen(s, "x", 1);
    CHECK(sdslen(s) == 70002 && sdstype(s) == SDS_TYPE_32 && sdsavail(s) + 70002 == sdsalloc(s));
    s = sdsRemoveFreeSpace(s);
    CHECK(sdsavail(s) == 0);
    s = sdscpy(s, "ab");
    s = sdsgrowzero(s, 5);
    CHECK(sdslen(s) == 5 && memcmp(s, "ab\0\0\0", 6) == 0);
    sdsclear(s);
    s = sdscatrepr(s, "a\n\"\x01", 4);
    CHECK(strcmp(s, "\"a\\n\\\"\\x01\"") == 0);
    sds t = sdsfromlonglong(-12);
    CHECK(strcmp(t, "-12") == 0 && sdscmp(t, s) > 0);
    sdsfree(t);
    sdsfree(s);
    int count;
    sds *words = sdssplitargs("set \"a b\\x41\" 'c\\'d' e", &count);
    CHECK(words != NULL && count == 4 && strcmp(words[1], "a bA") == 0 && strcmp(words[2], "c'd") == 0);
    t = sdsjoinsds(words, count, "|", 1);
    sdstoupper(t);
    CHECK(strcmp(t, "SET|A BA|C'D|E") == 0);
    sdsfreesplitres(words, count);
    CHECK(sdssplitargs("\"open", &count) == NULL);
    words = sdssplitlen(t, (int)sdslen(t), "|", 1, &count);
    CHECK(count == 4 && strcmp(words[3], "E") == 0);
    sdsfreesplitres(words, count);
    sdsfree(t);
}

int main(void) {
    for (int round = 0; round < 2; round++) {
        if (round == 1) {
            if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) {
                printf("core: no locale de_DE.UTF-8 here\n");
                const char *required = getenv("CLIENT_REQUIRED");
                if (required != NULL && *required != 0) return 1;
                break;
            }
            char text[8];
            snprintf(text, sizeof text, "%.1f", 0.5);
            CHECK(strcmp(text, "0,5") == 0);
        }
        test_splits();
        test_streams();
        test_errors();
        test_limits();
        test_stolen_elements();
        test_random();
        test_failing_memory();
        test_formats();
        test_core_writer();
        test_core_reader();
        test_view_numbers();
        test_sds();
    }
    return check_end("core");
}
