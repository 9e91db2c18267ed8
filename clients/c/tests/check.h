/* What the tests share: checks that count, and replies as text. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hiredis/hiredis.h"

static int checks, failures;

#define CHECK(condition)                                                  \
    do {                                                                  \
        checks++;                                                         \
        if (!(condition)) {                                               \
            failures++;                                                   \
            printf("%s:%d: false: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                 \
    } while (0)

static inline int check_end(const char *name) {
    printf("%s: %d checks, %d failures\n", name, checks, failures);
    return failures != 0;
}

/* A text that grows. */
struct text {
    char *at;
    size_t length, capacity;
};

static inline void text_add(struct text *text, const char *bytes, size_t length) {
    if (text->length + length + 1 > text->capacity) {
        text->capacity = (text->length + length + 1) * 2;
        text->at = (char *)realloc(text->at, text->capacity);
        if (text->at == NULL) abort();
    }
    memcpy(text->at + text->length, bytes, length);
    text->length += length;
    text->at[text->length] = 0;
}

/* The bits of a number, so that zeros and NaN are told apart. */
static inline void text_add_double(struct text *text, double value) {
    unsigned long long bits;
    char digits[32];
    memcpy(&bits, &value, sizeof bits);
    text_add(text, digits, (size_t)snprintf(digits, sizeof digits, "%016llx", bits));
}

static inline void text_add_reply(struct text *text, const redisReply *reply) {
    char head[96];
    snprintf(head, sizeof head, "(%d %lld %s", reply->type, reply->integer,
             reply->type == REDIS_REPLY_VERB ? reply->vtype : "");
    text_add(text, head, strlen(head));
    if (reply->type == REDIS_REPLY_DOUBLE) text_add_double(text, reply->dval);
    switch (reply->type) {
    case REDIS_REPLY_ARRAY:
    case REDIS_REPLY_MAP:
    case REDIS_REPLY_SET:
    case REDIS_REPLY_ATTR:
    case REDIS_REPLY_PUSH:
        for (size_t i = 0; i < reply->elements; i++) text_add_reply(text, reply->element[i]);
        break;
    default:
        /* What code that does not look at the type may rely on. */
        if (reply->elements != 0) text_add(text, "elements!", 9);
        if (reply->str != NULL) {
            text_add(text, "'", 1);
            text_add(text, reply->str, reply->len);
            if (reply->str[reply->len] != 0) text_add(text, "no NUL!", 7);
        } else if (reply->len != 0) {
            text_add(text, "len!", 4);
        }
    }
    text_add(text, ")", 1);
}

#endif
