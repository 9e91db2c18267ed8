/* Replies read by two libraries with hiredis's interface, by turns in one process: bench OURS.so THEIRS.so
 *
 * Prints a table: nanoseconds of processor time a reply (feeding as a socket does, building, freeing), the
 * medians of the rounds and of the ratios of neighbouring rounds, and the bytes of memory that a reply takes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hiredis/hiredis.h"
#include "mantissa/client.h"

enum { PIECE = 16 * 1024, ROUNDS = 41 };

struct library {
    redisReader *(*create)(void);
    int (*feed)(redisReader *, const char *, size_t);
    int (*get)(redisReader *, void **);
    void (*free_reply)(void *);
    hiredisAllocFuncs (*set_allocators)(hiredisAllocFuncs *);
    redisReader *reader;
    /* Views: of the first library alone. */
    mantissaViews *(*create_views)(void);
    int (*feed_views)(mantissaViews *, const char *, size_t);
    int (*get_view)(mantissaViews *, const mantissaView **);
    mantissaViews *views;
};

struct shape {
    const char *name;
    char *bytes;
    size_t length;
};

static void *symbol(void *handle, const char *name) { return dlsym(handle, name); }

static struct library load(const char *path) {
    struct library library = {0};
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&library.create = symbol(handle, "redisReaderCreate");
    *(void **)&library.feed = symbol(handle, "redisReaderFeed");
    *(void **)&library.get = symbol(handle, "redisReaderGetReply");
    *(void **)&library.free_reply = symbol(handle, "freeReplyObject");
    *(void **)&library.set_allocators = symbol(handle, "hiredisSetAllocators");
    *(void **)&library.create_views = symbol(handle, "mantissaViewsCreate");
    *(void **)&library.feed_views = symbol(handle, "mantissaViewsFeed");
    *(void **)&library.get_view = symbol(handle, "mantissaViewsGet");
    return library;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void *read_reply(struct library *library, const struct shape *shape) {
    void *reply = NULL;
    for (size_t at = 0; at < shape->length; at += PIECE) {
        size_t length = shape->length - at < PIECE ? shape->length - at : PIECE;
        library->feed(library->reader, shape->bytes + at, length);
        library->get(library->reader, &reply);
    }
    if (reply == NULL) exit(2);
    return reply;
}

static double round_of(struct library *library, const struct shape *shape, int times) {
    double begin = now();
    for (int i = 0; i < times; i++) library->free_reply(read_reply(library, shape));
    return (now() - begin) / times;
}

static double round_of_views(struct library *library, const struct shape *shape, int times) {
    double begin = now();
    for (int i = 0; i < times; i++) {
        const mantissaView *view = NULL;
        for (size_t at = 0; at < shape->length; at += PIECE) {
            size_t length = shape->length - at < PIECE ? shape->length - at : PIECE;
            library->feed_views(library->views, shape->bytes + at, length);
            library->get_view(library->views, &view);
        }
        if (view == NULL) exit(2);
    }
    return (now() - begin) / times;
}

static size_t freed;
static void counting_free(void *block) {
    if (block != NULL) freed += malloc_usable_size(block) + sizeof(size_t);
    free(block);
}

static size_t memory_of(struct library *library, const struct shape *shape) {
    hiredisAllocFuncs functions = {malloc, calloc, realloc, strdup, counting_free};
    hiredisAllocFuncs before = library->set_allocators(&functions);
    void *reply = read_reply(library, shape);
    freed = 0;
    library->free_reply(reply);
    library->set_allocators(&before);
    return freed;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static unsigned long long seed = 88172645463325252ull;
static unsigned long long next_random(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static char *add_double(char *out) {
    double value = (double)(next_random() >> 11) / 9007199254740992.0 * 1000;
    return out + sprintf(out, ",%.17g\r\n", value);
}

static char *add_bulk(char *out, int length) {
    out += sprintf(out, "$%d\r\n", length);
    for (int i = 0; i < length; i++) *out++ = (char)('a' + next_random() % 26);
    return out + sprintf(out, "\r\n");
}

static struct shape many(const char *name, int count, int bulk) {
    struct shape shape = {name, malloc((size_t)count * 64 + 64), 0};
    char *out = shape.bytes + sprintf(shape.bytes, "*%d\r\n", count);
    for (int i = 0; i < count; i++) {
        out = bulk > 0 ? add_bulk(out, bulk) : bulk == 0 ? add_double(out) : out + sprintf(out, ":%d\r\n", i);
    }
    shape.length = (size_t)(out - shape.bytes);
    return shape;
}

static struct shape nested(void) {
    struct shape shape = {"1,000 maps of 4 fields", malloc(1 << 18), 0};
    char *out = shape.bytes + sprintf(shape.bytes, "*1000\r\n");
    for (int i = 0; i < 1000; i++) {
        out += sprintf(out, "%%4\r\n+id\r\n:%d\r\n$4\r\nname\r\n", i);
        out = add_bulk(out, 12);
        out += sprintf(out, "$5\r\nscore\r\n");
        out = add_double(out);
        out += sprintf(out, "+tags\r\n*2\r\n$3\r\nred\r\n$4\r\nblue\r\n");
    }
    shape.length = (size_t)(out - shape.bytes);
    return shape;
}

static struct shape small(const char *name, const char *bytes) {
    struct shape shape = {name, strdup(bytes), strlen(bytes)};
    return shape;
}

static void print_row(const char *name, double *ours, double *theirs, double *ratios) {
    double their_time = median(theirs), our_time = median(ours);
    printf("| %s | %.0f | %.0f | %.2f |", name, our_time, their_time, median(ratios));
}

static void compare(struct library *us, struct library *them, const struct shape *shape, int views) {
    double ours[ROUNDS], theirs[ROUNDS], ratios[ROUNDS];
    double once = round_of(them, shape, 3);
    int times = (int)(2e6 / once) + 1;
    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = views ? round_of_views(us, shape, times) : round_of(us, shape, times);
        theirs[i] = round_of(them, shape, times);
        ratios[i] = theirs[i] / ours[i];
    }
    print_row(shape->name, ours, theirs, ratios);
    if (views) {
        printf(" | | |\n");
    } else {
        size_t our_bytes = memory_of(us, shape), their_bytes = memory_of(them, shape);
        printf(" %zu | %zu | %.2f |\n", our_bytes, their_bytes, (double)our_bytes / (double)their_bytes);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "bench OURS.so THEIRS.so\n"), 1;
    struct library us = load(argv[1]), them = load(argv[2]);
    us.reader = us.create();
    them.reader = them.create();
    struct shape shapes[] = {
        many("10,000 doubles", 10000, 0),
        many("10,000 bulks of 16", 10000, 16),
        many("10,000 integers", 10000, -1),
        nested(),
        many("10 bulks of 16", 10, 16),
        small("+OK", "+OK\r\n"),
        small("an integer", ":1234\r\n"),
        small("a bulk of 16", "$16\r\n0123456789abcdef\r\n"),
        small("a bulk of 100",
              "$100\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd"
              "ef0123456789abcdef0123\r\n"),
    };
    printf("| reply | ns | hiredis, ns | times as fast | bytes | hiredis, bytes | ratio |\n");
    printf("| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) compare(&us, &them, &shapes[i], 0);
    if (us.create_views == NULL) return 0;
    us.views = us.create_views();
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s, views", shapes[i].name);
        shapes[i].name = name;
        compare(&us, &them, &shapes[i], 1);
    }
    return 0;
}
