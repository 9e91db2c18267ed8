/* Strings that know their length: making, lengthening, cutting. Splitting and quoting are in sds_text.c. */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hiredis/alloc.h"
#include "hiredis/sds.h"

static const unsigned char header_sizes[] = {
    sizeof(struct sdshdr5),
    sizeof(struct sdshdr8),
    sizeof(struct sdshdr16),
    sizeof(struct sdshdr32),
    sizeof(struct sdshdr64),
    0,
    0,
    0,
};

/* The smallest header whose capacity can be this. */
static int type_for(size_t capacity) {
    if (capacity <= UINT8_MAX) return SDS_TYPE_8;
    if (capacity <= UINT16_MAX) return SDS_TYPE_16;
    return (uint64_t)capacity <= UINT32_MAX ? SDS_TYPE_32 : SDS_TYPE_64;
}

static sds begin(char *block, int type, size_t length, size_t capacity) {
    sds s = block + header_sizes[type];
    s[-1] = (char)type;
    sdssetlen(s, length);
    sdssetalloc(s, capacity);
    s[length] = 0;
    return s;
}

/* The string with this capacity, which is at least its length, in a block of just the size for it. */
static sds resize(sds s, size_t capacity) {
    int type = type_for(capacity), before = sdstype(s);
    size_t length = sdslen(s), header = header_sizes[type];
    if (capacity > SIZE_MAX - header - 1) return NULL;
    char *block;
    if (type == before) {
        block = hi_realloc(sdsAllocPtr(s), header + capacity + 1);
        if (block == NULL) return NULL;
    } else {
        block = hi_malloc(header + capacity + 1);
        if (block == NULL) return NULL;
        memcpy(block + header, s, length);
        hi_free(sdsAllocPtr(s));
    }
    return begin(block, type, length, capacity);
}

sds sdsnewlen(const void *init, size_t length) {
    int type = type_for(length);
    if (length > SIZE_MAX - header_sizes[type] - 1) return NULL;
    char *block = hi_malloc(header_sizes[type] + length + 1);
    if (block == NULL) return NULL;
    char *text = block + header_sizes[type];
    if (init != NULL && length > 0) memcpy(text, init, length);
    if (init == NULL) memset(text, 0, length);
    return begin(block, type, length, length);
}

sds sdsnew(const char *init) { return sdsnewlen(init, init == NULL ? 0 : strlen(init)); }
sds sdsempty(void) { return sdsnewlen("", 0); }
sds sdsdup(const sds s) { return sdsnewlen(s, sdslen(s)); }

void sdsfree(sds s) {
    if (s != NULL) hi_free(sdsAllocPtr(s));
}

void *sdsAllocPtr(sds s) { return s - header_sizes[sdstype(s)]; }
size_t sdsAllocSize(sds s) { return header_sizes[sdstype(s)] + sdsalloc(s) + 1; }
sds sdsRemoveFreeSpace(sds s) { return resize(s, sdslen(s)); }

sds sdsMakeRoomFor(sds s, size_t more) {
    if (sdsavail(s) >= more) return s;
    size_t length = sdslen(s);
    if (more > SIZE_MAX / 2 - length) return NULL;
    /* Twice as much as is needed, so that appending byte after byte copies each a few times only. */
    size_t capacity = length + more;
    capacity += capacity < SDS_MAX_PREALLOC ? capacity : SDS_MAX_PREALLOC;
    return resize(s, capacity);
}

void sdsIncrLen(sds s, int more) {
    size_t length = sdslen(s);
    length = more < 0 ? length - (size_t) - (long long)more : length + (size_t)more;
    sdssetlen(s, length);
    s[length] = 0;
}

sds sdsgrowzero(sds s, size_t length) {
    size_t now = sdslen(s);
    if (length <= now) return s;
    if ((s = sdsMakeRoomFor(s, length - now)) == NULL) return NULL;
    memset(s + now, 0, length - now + 1);
    sdssetlen(s, length);
    return s;
}

sds sdscatlen(sds s, const void *bytes, size_t length) {
    size_t now = sdslen(s);
    if ((s = sdsMakeRoomFor(s, length)) == NULL) return NULL;
    if (length > 0) memcpy(s + now, bytes, length);
    sdssetlen(s, now + length);
    s[now + length] = 0;
    return s;
}

sds sdscat(sds s, const char *text) { return sdscatlen(s, text, strlen(text)); }
sds sdscatsds(sds s, const sds other) { return sdscatlen(s, other, sdslen(other)); }

sds sdscpylen(sds s, const char *text, size_t length) {
    size_t now = sdslen(s);
    if (length > sdsalloc(s) && (s = sdsMakeRoomFor(s, length - now)) == NULL) return NULL;
    if (length > 0) memcpy(s, text, length);
    s[length] = 0;
    sdssetlen(s, length);
    return s;
}

sds sdscpy(sds s, const char *text) { return sdscpylen(s, text, strlen(text)); }

void sdsclear(sds s) {
    sdssetlen(s, 0);
    s[0] = 0;
}

void sdsupdatelen(sds s) { sdssetlen(s, strlen(s)); }

sds sdscatvprintf(sds s, const char *format, va_list arguments) {
    char stack[256];
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(stack, sizeof stack, format, again);
    va_end(again);
    if (length < 0) return NULL;
    if ((size_t)length < sizeof stack) return sdscatlen(s, stack, (size_t)length);
    if ((s = sdsMakeRoomFor(s, (size_t)length)) == NULL) return NULL;
    va_copy(again, arguments);
    vsnprintf(s + sdslen(s), (size_t)length + 1, format, again);
    va_end(again);
    sdsinclen(s, (size_t)length);
    return s;
}

sds sdscatprintf(sds s, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    sds longer = sdscatvprintf(s, format, arguments);
    va_end(arguments);
    return longer;
}

static sds append_unsigned(sds s, uint64_t value, int negative) {
    char digits[24], *end = digits + sizeof digits, *p = end;
    do *--p = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    if (negative) *--p = '-';
    return sdscatlen(s, p, (size_t)(end - p));
}

static sds append_signed(sds s, int64_t value) {
    return append_unsigned(s, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

sds sdsfromlonglong(long long value) {
    sds s = sdsempty();
    return s == NULL ? NULL : append_signed(s, value);
}

sds sdscatfmt(sds s, char const *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    while (*format != 0 && s != NULL) {
        size_t plain = strcspn(format, "%");
        if (plain > 0) {
            s = sdscatlen(s, format, plain);
            format += plain;
            continue;
        }
        char letter = format[1];
        switch (letter) {
        case 's': s = sdscat(s, va_arg(arguments, char *)); break;
        case 'S': s = sdscatsds(s, va_arg(arguments, char *)); break;
        case 'i': s = append_signed(s, va_arg(arguments, int)); break;
        case 'I': s = append_signed(s, va_arg(arguments, int64_t)); break;
        case 'u': s = append_unsigned(s, va_arg(arguments, unsigned), 0); break;
        case 'U': s = append_unsigned(s, va_arg(arguments, uint64_t), 0); break;
        case 0: break;
        default: s = sdscatlen(s, &letter, 1);
        }
        format += letter == 0 ? 1 : 2;
    }
    va_end(arguments);
    return s;
}

sds sdstrim(sds s, const char *characters) {
    size_t length = sdslen(s), first = 0;
    while (first < length && s[first] != 0 && strchr(characters, s[first]) != NULL) first++;
    while (length > first && s[length - 1] != 0 && strchr(characters, s[length - 1]) != NULL) length--;
    memmove(s, s + first, length - first);
    sdssetlen(s, length - first);
    s[length - first] = 0;
    return s;
}

int sdsrange(sds s, ssize_t start, ssize_t end) {
    size_t size = sdslen(s);
    if (size > SSIZE_MAX) return -1;
    ssize_t length = (ssize_t)size;
    if (length == 0) return 0;
    if (start < 0) start = start + length < 0 ? 0 : start + length;
    if (end < 0) end = end + length < 0 ? 0 : end + length;
    if (end >= length) end = length - 1;
    ssize_t kept = start > end || start >= length ? 0 : end - start + 1;
    if (kept > 0 && start > 0) memmove(s, s + start, (size_t)kept);
    sdssetlen(s, (size_t)kept);
    s[kept] = 0;
    return 0;
}

int sdscmp(const sds a, const sds b) {
    size_t length_a = sdslen(a), length_b = sdslen(b);
    int order = memcmp(a, b, length_a < length_b ? length_a : length_b);
    return order != 0 ? order : (length_a > length_b) - (length_a < length_b);
}

void *sds_malloc(size_t size) { return hi_malloc(size); }
void *sds_realloc(void *block, size_t size) { return hi_realloc(block, size); }
void sds_free(void *block) { hi_free(block); }
