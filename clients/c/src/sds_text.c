/* Strings that know their length: letters, splitting, joining, quoting. Letters are those of ASCII in every
 * locale. */
#include "config.h"

#include <string.h>

#include "hiredis/alloc.h"
#include "hiredis/sds.h"

static int is_letter(char c, char first) { return c >= first && c < first + 26; }
static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void sdstolower(sds s) {
    for (size_t i = 0, length = sdslen(s); i < length; i++) {
        if (is_letter(s[i], 'A')) s[i] = (char)(s[i] + 32);
    }
}

void sdstoupper(sds s) {
    for (size_t i = 0, length = sdslen(s); i < length; i++) {
        if (is_letter(s[i], 'a')) s[i] = (char)(s[i] - 32);
    }
}

sds sdsmapchars(sds s, const char *from, const char *to, size_t count) {
    for (size_t i = 0, length = sdslen(s); i < length; i++) {
        const char *found = memchr(from, s[i], count);
        if (found != NULL) s[i] = to[found - from];
    }
    return s;
}

/* A list of strings that grows. On failure everything is freed, and items is NULL. */
struct list {
    sds *items;
    int count, capacity;
};

static void list_free(struct list *list) {
    sdsfreesplitres(list->items, list->count);
    list->items = NULL;
}

static int list_add(struct list *list, sds item) {
    if (item != NULL && list->count == list->capacity) {
        int capacity = list->capacity * 2 + 4;
        sds *items = hi_realloc(list->items, sizeof(sds) * (size_t)capacity);
        if (items != NULL) {
            list->items = items;
            list->capacity = capacity;
        } else {
            sdsfree(item);
            item = NULL;
        }
    }
    if (item == NULL) {
        list_free(list);
        return -1;
    }
    list->items[list->count++] = item;
    return 0;
}

void sdsfreesplitres(sds *tokens, int count) {
    if (tokens == NULL) return;
    while (count-- > 0) sdsfree(tokens[count]);
    hi_free(tokens);
}

sds *sdssplitlen(const char *s, int length, const char *separator, int separator_length, int *count) {
    struct list list = {NULL, 0, 0};
    *count = 0;
    if (length < 0 || separator_length < 1) return NULL;
    if (length == 0) return hi_malloc(sizeof(sds));
    int start = 0;
    for (int i = 0; i + separator_length <= length;) {
        if (memcmp(s + i, separator, (size_t)separator_length) != 0) {
            i++;
            continue;
        }
        if (list_add(&list, sdsnewlen(s + start, (size_t)(i - start))) != 0) return NULL;
        start = i += separator_length;
    }
    if (list_add(&list, sdsnewlen(s + start, (size_t)(length - start))) != 0) return NULL;
    *count = list.count;
    return list.items;
}

sds sdsjoin(char **argv, int argc, char *separator) {
    sds joined = sdsempty();
    for (int i = 0; i < argc && joined != NULL; i++) {
        if (i > 0) joined = sdscat(joined, separator);
        if (joined != NULL) joined = sdscat(joined, argv[i]);
    }
    return joined;
}

sds sdsjoinsds(sds *argv, int argc, const char *separator, size_t separator_length) {
    sds joined = sdsempty();
    for (int i = 0; i < argc && joined != NULL; i++) {
        if (i > 0) joined = sdscatlen(joined, separator, separator_length);
        if (joined != NULL) joined = sdscatsds(joined, argv[i]);
    }
    return joined;
}

/* Letters behind a backslash and what they stand for, in the same order. */
static const char escape_letters[] = "nrtab";
static const char escape_values[] = "\n\r\t\a\b";

sds sdscatrepr(sds s, const char *bytes, size_t length) {
    static const char hex[] = "0123456789abcdef";
    s = sdscatlen(s, "\"", 1);
    for (size_t i = 0; i < length && s != NULL; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        const char *escape = byte == 0 ? NULL : strchr(escape_values, byte);
        char text[4] = {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
        if (byte == '\\' || byte == '"') {
            text[1] = (char)byte;
            s = sdscatlen(s, text, 2);
        } else if (escape != NULL) {
            text[1] = escape_letters[escape - escape_values];
            s = sdscatlen(s, text, 2);
        } else if (byte >= ' ' && byte < 127) {
            s = sdscatlen(s, bytes + i, 1);
        } else {
            s = sdscatlen(s, text, 4);
        }
    }
    return s == NULL ? NULL : sdscatlen(s, "\"", 1);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character between double quotes: how many bytes of p it takes. */
static int unescape(const char *p, char *out) {
    *out = p[0];
    if (p[0] != '\\' || p[1] == 0) return 1;
    if (p[1] == 'x' && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
        *out = (char)(hex_digit(p[2]) << 4 | hex_digit(p[3]));
        return 4;
    }
    const char *letter = strchr(escape_letters, p[1]);
    *out = letter == NULL ? p[1] : escape_values[letter - escape_letters];
    return 2;
}

/* The word at *line, which moves behind it. NULL for quotes that do not end well, or lack of memory. */
static sds read_word(const char **line) {
    const char *p = *line;
    char quote = 0;
    sds word = sdsempty();
    while (word != NULL) {
        char c = *p;
        if (quote != 0 && c == quote) {
            if (p[1] != 0 && !is_space(p[1])) break;
            *line = p + 1;
            return word;
        }
        if (quote == 0 && (c == 0 || is_space(c))) {
            *line = p;
            return word;
        }
        if (c == 0) break;
        if (quote == 0 && (c == '"' || c == '\'')) {
            quote = c;
            p++;
            continue;
        }
        int used = 1;
        if (quote == '"') used = unescape(p, &c);
        if (quote == '\'' && p[0] == '\\' && p[1] == '\'') used = 2, c = '\'';
        p += used;
        sds longer = sdscatlen(word, &c, 1);
        if (longer == NULL) break;
        word = longer;
    }
    sdsfree(word);
    return NULL;
}

sds *sdssplitargs(const char *line, int *argc) {
    struct list list = {NULL, 0, 0};
    *argc = 0;
    for (;;) {
        while (is_space(*line)) line++;
        if (*line == 0) break;
        if (list_add(&list, read_word(&line)) != 0) return NULL;
    }
    *argc = list.count;
    /* No words are a list as well: NULL is for mistakes. */
    return list.items != NULL ? list.items : hi_malloc(sizeof(sds));
}
