/* Random and damaged replies read by this library and by another with hiredis's interface: differential
 * OTHER.so [ROUNDS [SEED]]. The trees must be equal, and what one refuses the other must refuse, except where
 * this reader is stricter on purpose. A library before 1.0 gets RESP2 alone. */
#include <dlfcn.h>

#include "check.h"

struct old_reply { /* of hiredis 0.14 */
    int type;
    long long integer;
    size_t len;
    char *str;
    size_t elements;
    struct old_reply **element;
};

static redisReader *(*create)(void);
static int (*feed_other)(redisReader *, const char *, size_t);
static int (*get_other)(redisReader *, void **);
static void (*free_other)(void *);
static void (*free_reader)(redisReader *);
static int is_old;

static unsigned long long seed = 1;
static unsigned below(unsigned limit) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (unsigned)(seed >> 33) % limit;
}

static void flatten_old(struct text *text, const struct old_reply *reply) {
    char head[64];
    text_add(text, head, (size_t)snprintf(head, sizeof head, "(%d %lld ", reply->type, reply->integer));
    if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++) flatten_old(text, reply->element[i]);
    } else if (reply->str != NULL) {
        text_add(text, "'", 1);
        text_add(text, reply->str, reply->len);
    }
    text_add(text, ")", 1);
}

static void add_line(struct text *bytes, char type, const char *line) {
    text_add(bytes, &type, 1);
    text_add(bytes, line, strlen(line));
    text_add(bytes, "\r\n", 2);
}

static void add_reply(struct text *bytes, int depth) {
    char line[64];
    unsigned kind = below(is_old ? 6 : 14);
    if (kind >= 4 && depth == 0) kind = below(4);
    switch (kind) {
    case 0:
        snprintf(line, sizeof line, "%lld", (long long)(seed >> below(64)));
        add_line(bytes, ':', line);
        break;
    case 1: add_line(bytes, "+-"[below(2)], "some text"); break;
    case 2: add_line(bytes, '$', "-1"); break;
    case 3: {
        unsigned length = below(20);
        snprintf(line, sizeof line, "%u", length);
        add_line(bytes, '$', line);
        text_add(bytes, "abcdefghijklmnopqrstuvwxyz", length);
        text_add(bytes, "\r\n", 2);
        break;
    }
    case 6:
    case 7:
        snprintf(line, sizeof line, "%.*g", 1 + (int)below(17), (double)seed / (1 + below(1000000)));
        add_line(bytes, ',', line);
        break;
    case 8: add_line(bytes, "_#"[below(2)], below(3) ? "t" : ""); break;
    case 9: add_line(bytes, '=', "8\r\ntxt:four"); break;
    case 10: add_line(bytes, '(', "123456789012345678901234567890"); break;
    default: {
        unsigned elements = below(5);
        char type = is_old ? '*' : "**%~>|"[below(6)];
        snprintf(line, sizeof line, "%u", elements);
        add_line(bytes, type, line);
        if (type == '%' || type == '|') elements *= 2;
        while (elements-- > 0) add_reply(bytes, depth - 1);
    }
    }
}

static void damage(struct text *bytes) {
    static const char interesting[] = "\r\n0123456789+-.:,$*%~>|_#=(tfeinna \x80";
    for (unsigned times = 1 + below(3); times > 0 && bytes->length > 0; times--) {
        size_t at = below((unsigned)bytes->length);
        switch (below(3)) {
        case 0: bytes->at[at] = interesting[below(sizeof interesting - 1)]; break;
        case 1: memmove(bytes->at + at, bytes->at + at + 1, bytes->length-- - at - 1); break;
        default: bytes->length = at + 1;
        }
    }
}

/* What this reader refuses, and others may not: see scan.h. */
static int is_stricter(const char *error) {
    return strstr(error, "double") != NULL || strstr(error, "end of bulk") != NULL;
}

/* What others refuse and this reader does not: a plus before a double, RESP3, and counts that lie, for which
 * they want memory at once. */
static int is_laxer(const char *other_error) {
    return strstr(other_error, "double") != NULL || strstr(other_error, "Out of memory") != NULL ||
           (is_old && strstr(other_error, "reply type byte") != NULL);
}

static void compare_once(int damaged) {
    struct text bytes = {0}, ours = {0}, theirs = {0};
    add_reply(&bytes, 5);
    add_reply(&bytes, 3);
    if (damaged) damage(&bytes);
    redisReader *us = redisReaderCreate(), *them = create();
    int broken = 0;
    for (size_t at = 0; at < bytes.length && !broken;) {
        size_t piece = 1 + below(40);
        if (piece > bytes.length - at) piece = bytes.length - at;
        redisReaderFeed(us, bytes.at + at, piece);
        feed_other(them, bytes.at + at, piece);
        at += piece;
        for (;;) {
            void *reply, *other;
            int ok = redisReaderGetReply(us, &reply), other_ok = get_other(them, &other);
            /* A line that can not become good is refused here before it ends. */
            if (ok != REDIS_OK) broken = 1;
            if (ok == REDIS_OK && other_ok != REDIS_OK && is_laxer(them->errstr)) {
                freeReplyObject(reply);
                broken = 1;
                break;
            }
            if (ok != other_ok &&
                !(ok == REDIS_ERR && (is_stricter(us->errstr) || at < bytes.length || damaged))) {
                CHECK(ok == other_ok);
                printf("%s / %s: %.*s\n", us->errstr, them->errstr, (int)bytes.length, bytes.at);
                broken = 1;
            }
            if (other != NULL && !broken) {
                CHECK(reply != NULL);
                if (reply != NULL) text_add_reply(&ours, reply);
                if (is_old) {
                    flatten_old(&theirs, other);
                } else {
                    text_add_reply(&theirs, other);
                }
            }
            freeReplyObject(reply);
            if (other != NULL) free_other(other);
            if (broken || reply == NULL || other == NULL) break;
        }
    }
    CHECK((ours.at == NULL) == (theirs.at == NULL) && (ours.at == NULL || strcmp(ours.at, theirs.at) == 0));
    free(ours.at), free(theirs.at), free(bytes.at);
    redisReaderFree(us);
    free_reader(them);
}

int main(int argc, char **argv) {
    void *other = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (other == NULL) return printf("differential: no other library\n"), 1;
    *(void **)&create = dlsym(other, "redisReaderCreate");
    *(void **)&feed_other = dlsym(other, "redisReaderFeed");
    *(void **)&get_other = dlsym(other, "redisReaderGetReply");
    *(void **)&free_other = dlsym(other, "freeReplyObject");
    *(void **)&free_reader = dlsym(other, "redisReaderFree");
    is_old = dlsym(other, "redisConnectWithOptions") == NULL;
    long rounds = argc > 2 ? atol(argv[2]) : 100000;
    seed = (argc > 3 ? strtoull(argv[3], NULL, 10) : 1) * 88172645463325252ull + 1;
    for (long i = 0; i < rounds && failures < 5; i++) compare_once(i % 3 == 0);
    return check_end(is_old ? "differential, RESP2" : "differential");
}
