/* Commands from formats and from lists of arguments.
 *
 * Arguments are gathered one behind the other, then written into one block of the exact size. */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hiredis/hiredis.h"
#include "mantissa/resp.h"
#include "scan.h"

enum { TEXT_AT_ONCE = 1024, ARGUMENTS_AT_ONCE = 32, CONVERSION_MAX = 24 };
enum { NO_MEMORY = -1, BAD_FORMAT = -2 };

/* Arguments without what RESP puts around them. Few and short ones need no allocation. */
struct arguments {
    char *text;
    size_t length, capacity;
    size_t *ends; /* of each argument, in text */
    int count, count_max;
    char first_text[TEXT_AT_ONCE];
    size_t first_ends[ARGUMENTS_AT_ONCE];
};

static void begin(struct arguments *a) {
    a->text = a->first_text;
    a->length = 0;
    a->capacity = TEXT_AT_ONCE;
    a->ends = a->first_ends;
    a->count = 0;
    a->count_max = ARGUMENTS_AT_ONCE;
}

static void finish(struct arguments *a) {
    if (a->text != a->first_text) hi_free(a->text);
    if (a->ends != a->first_ends) hi_free(a->ends);
}

/* The block twice as large or more; what it holds is kept. `stack` is where it was at first. */
static void *enlarge(void *block, void *stack, size_t used, size_t size) {
    if (block != stack) return hi_realloc(block, size);
    void *larger = hi_malloc(size);
    if (larger != NULL) memcpy(larger, block, used);
    return larger;
}

/* Where `more` bytes can be put. */
static char *room_for(struct arguments *a, size_t more) {
    if (a->capacity - a->length >= more) return a->text + a->length;
    if (more > SIZE_MAX / 4 - a->length) return NULL;
    size_t capacity = (a->length + more) * 2;
    char *text = enlarge(a->text, a->first_text, a->length, capacity);
    if (text == NULL) return NULL;
    a->text = text;
    a->capacity = capacity;
    return text + a->length;
}

static int add(struct arguments *a, const char *bytes, size_t length) {
    if (length == 0) return 0;
    char *to = room_for(a, length);
    if (to == NULL) return NO_MEMORY;
    memcpy(to, bytes, length);
    a->length += length;
    return 0;
}

static int end_argument(struct arguments *a) {
    if (a->count == a->count_max) {
        size_t used = sizeof *a->ends * (size_t)a->count;
        size_t *ends = enlarge(a->ends, a->first_ends, used, used * 2);
        if (ends == NULL) return NO_MEMORY;
        a->ends = ends;
        a->count_max *= 2;
    }
    a->ends[a->count++] = a->length;
    return 0;
}

/* A conversion of printf: how long it is, and the type of what it takes. */
enum taken { TAKES_NOTHING, TAKES_INT, TAKES_LONG, TAKES_LONG_LONG, TAKES_DOUBLE };

static enum taken read_conversion(const char *format, size_t *length) {
    const char *p = format + 1;
    p += strspn(p, "#0-+ ");
    p += strspn(p, "0123456789");
    if (*p == '.') p += 1 + strspn(p + 1, "0123456789");
    enum taken taken = TAKES_INT;
    if (*p != 0 && strchr("eEfFgGaA", *p) != NULL) {
        taken = TAKES_DOUBLE;
    } else {
        if (*p == 'h') {
            p += p[1] == 'h' ? 2 : 1;
        } else if (*p == 'l') {
            taken = p[1] == 'l' ? TAKES_LONG_LONG : TAKES_LONG;
            p += p[1] == 'l' ? 2 : 1;
        }
        if (*p == 0 || strchr("diouxX", *p) == NULL) return TAKES_NOTHING;
    }
    *length = (size_t)(p + 1 - format);
    return *length < CONVERSION_MAX ? taken : TAKES_NOTHING;
}

/* The variable arguments, by a pointer, so that functions can take from them. */
struct source {
    va_list list;
};

/* In the locale the point may be something else, of one or more bytes: no letter, digit, sign or space. */
static size_t restore_point(char *text, size_t length) {
    size_t from = 0;
    while (from < length) {
        char c = text[from];
        if (!scan_is_digit(c) && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') && c != '+' && c != '-' &&
            c != ' ')
            break;
        from++;
    }
    size_t behind = from;
    while (behind < length && !scan_is_digit(text[behind]) && text[behind] != 'e' && text[behind] != 'E' &&
           text[behind] != 'p' && text[behind] != 'P' && text[behind] != ' ') {
        behind++;
    }
    if (behind == from) return length;
    text[from] = '.';
    memmove(text + from + 1, text + behind, length - behind);
    return length - (behind - from) + 1;
}

static int add_converted(struct arguments *a, const char *format, size_t length, enum taken taken,
                         struct source *source) {
    char conversion[CONVERSION_MAX];
    memcpy(conversion, format, length);
    conversion[length] = 0;
    int small = taken == TAKES_INT ? va_arg(source->list, int) : 0;
    long middle = taken == TAKES_LONG ? va_arg(source->list, long) : 0;
    long long large = taken == TAKES_LONG_LONG ? va_arg(source->list, long long) : 0;
    double real = taken == TAKES_DOUBLE ? va_arg(source->list, double) : 0;
    size_t room = 64;
    for (;;) {
        char *to = room_for(a, room);
        if (to == NULL) return NO_MEMORY;
        int written = taken == TAKES_INT         ? snprintf(to, room, conversion, small)
                      : taken == TAKES_LONG      ? snprintf(to, room, conversion, middle)
                      : taken == TAKES_LONG_LONG ? snprintf(to, room, conversion, large)
                                                 : snprintf(to, room, conversion, real);
        if (written < 0) return BAD_FORMAT;
        if ((size_t)written < room) {
            a->length += taken == TAKES_DOUBLE ? restore_point(to, (size_t)written) : (size_t)written;
            return 0;
        }
        room = (size_t)written + 1;
    }
}

/* What stands at a percent sign; *used is the length of it. */
static int add_conversion(struct arguments *a, const char *format, struct source *source, size_t *used) {
    *used = 2;
    switch (format[1]) {
    case 's': {
        const char *text = va_arg(source->list, char *);
        return add(a, text, strlen(text));
    }
    case 'b': {
        const char *bytes = va_arg(source->list, char *);
        size_t length = va_arg(source->list, size_t);
        return add(a, bytes, length);
    }
    case '%': return add(a, "%", 1);
    case 'r': {
        char text[MN_F64_MAX];
        return add(a, text, (size_t)(mn_write_f64(text, va_arg(source->list, double)) - text));
    }
    default: {
        enum taken taken = read_conversion(format, used);
        if (taken == TAKES_NOTHING) return BAD_FORMAT;
        return add_converted(a, format, *used, taken, source);
    }
    }
}

static int gather(struct arguments *a, const char *format, struct source *source) {
    int begun = 0, error = 0;
    for (const char *p = format; *p != 0 && error == 0;) {
        size_t used = 1;
        if (*p == ' ') {
            if (begun) error = end_argument(a);
            begun = 0;
        } else if (*p == '%' && p[1] != 0) {
            error = add_conversion(a, p, source, &used);
            begun = 1;
        } else {
            used = *p == '%' ? 1 : strcspn(p, " %");
            error = add(a, p, used);
            begun = 1;
        }
        p += used;
    }
    return error == 0 && begun ? end_argument(a) : error;
}

int redisvFormatCommand(char **target, const char *format, va_list list) {
    if (target == NULL) return -1;
    struct arguments a;
    struct source source;
    begin(&a);
    va_copy(source.list, list);
    int error = gather(&a, format, &source);
    va_end(source.list);
    size_t size = mresp_array_size((size_t)a.count), from = 0;
    for (int i = 0; i < a.count; from = a.ends[i++]) size += mresp_bulk_size(a.ends[i] - from);
    char *command = error == 0 && size < INT_MAX ? hi_malloc(size + 1) : NULL;
    if (command == NULL) {
        finish(&a);
        return error != 0 ? error : NO_MEMORY;
    }
    char *out = mresp_write_array(command, (size_t)a.count);
    from = 0;
    for (int i = 0; i < a.count; from = a.ends[i++])
        out = mresp_write_bulk(out, a.text + from, a.ends[i] - from);
    *out = 0;
    finish(&a);
    *target = command;
    return (int)size;
}

int redisFormatCommand(char **target, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int length = redisvFormatCommand(target, format, list);
    va_end(list);
    return length < 0 ? -1 : length;
}

static size_t length_of(const char **argv, const size_t *argvlen, int i) {
    return argvlen != NULL ? argvlen[i] : strlen(argv[i]);
}

static size_t size_of_command(int argc, const char **argv, const size_t *argvlen) {
    size_t size = mresp_array_size((size_t)argc);
    for (int i = 0; i < argc; i++) size += mresp_bulk_size(length_of(argv, argvlen, i));
    return size;
}

static char *write_command(char *out, int argc, const char **argv, const size_t *argvlen) {
    out = mresp_write_array(out, (size_t)argc);
    for (int i = 0; i < argc; i++) out = mresp_write_bulk(out, argv[i], length_of(argv, argvlen, i));
    *out = 0;
    return out;
}

long long redisFormatCommandArgv(char **target, int argc, const char **argv, const size_t *argvlen) {
    if (target == NULL || argc < 0) return -1;
    size_t size = size_of_command(argc, argv, argvlen);
    char *command = hi_malloc(size + 1);
    if (command == NULL) return -1;
    write_command(command, argc, argv, argvlen);
    *target = command;
    return (long long)size;
}

long long redisFormatSdsCommandArgv(sds *target, int argc, const char **argv, const size_t *argvlen) {
    if (target == NULL || argc < 0) return -1;
    size_t size = size_of_command(argc, argv, argvlen);
    sds empty = sdsempty(), command = empty == NULL ? NULL : sdsMakeRoomFor(empty, size);
    if (command == NULL) {
        sdsfree(empty);
        return -1;
    }
    write_command(command, argc, argv, argvlen);
    sdssetlen(command, size);
    *target = command;
    return (long long)size;
}

void redisFreeCommand(char *command) { hi_free(command); }
void redisFreeSdsCommand(sds command) { sdsfree(command); }
