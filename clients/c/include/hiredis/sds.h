/* Strings that know their length, as hiredis hands them out: the pointer is to the text, which ends with a
 * NUL; length, capacity and the size of the two lie in front of it. */
#ifndef __SDS_H
#define __SDS_H

#define SDS_MAX_PREALLOC (1024 * 1024)

#include <stdarg.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef char *sds;

/* In front of the text: the lower three bits of flags say which of these it is. Type 5 has its length in the
 * upper five bits, and no room to grow; the capacity of the others leaves out header and NUL. */
#define SDS_TYPE_5 0
#define SDS_TYPE_8 1
#define SDS_TYPE_16 2
#define SDS_TYPE_32 3
#define SDS_TYPE_64 4
#define SDS_TYPE_MASK 7
#define SDS_TYPE_BITS 3

struct __attribute__((__packed__)) sdshdr5 {
    unsigned char flags;
    char buf[];
};
struct __attribute__((__packed__)) sdshdr8 {
    uint8_t len;
    uint8_t alloc;
    unsigned char flags;
    char buf[];
};
struct __attribute__((__packed__)) sdshdr16 {
    uint16_t len;
    uint16_t alloc;
    unsigned char flags;
    char buf[];
};
struct __attribute__((__packed__)) sdshdr32 {
    uint32_t len;
    uint32_t alloc;
    unsigned char flags;
    char buf[];
};
struct __attribute__((__packed__)) sdshdr64 {
    uint64_t len;
    uint64_t alloc;
    unsigned char flags;
    char buf[];
};

#define SDS_HDR(T, s) ((struct sdshdr##T *)((s) - sizeof(struct sdshdr##T)))
#define SDS_HDR_VAR(T, s) struct sdshdr##T *sh = SDS_HDR(T, s)
#define SDS_TYPE_5_LEN(f) ((f) >> SDS_TYPE_BITS)

static inline int sdstype(const sds s) { return (unsigned char)s[-1] & SDS_TYPE_MASK; }

static inline size_t sdslen(const sds s) {
    switch (sdstype(s)) {
    case SDS_TYPE_5: return (size_t)SDS_TYPE_5_LEN((unsigned char)s[-1]);
    case SDS_TYPE_8: return SDS_HDR(8, s)->len;
    case SDS_TYPE_16: return SDS_HDR(16, s)->len;
    case SDS_TYPE_32: return SDS_HDR(32, s)->len;
    case SDS_TYPE_64: return (size_t)SDS_HDR(64, s)->len;
    default: return 0;
    }
}

static inline size_t sdsalloc(const sds s) {
    switch (sdstype(s)) {
    case SDS_TYPE_5: return (size_t)SDS_TYPE_5_LEN((unsigned char)s[-1]);
    case SDS_TYPE_8: return SDS_HDR(8, s)->alloc;
    case SDS_TYPE_16: return SDS_HDR(16, s)->alloc;
    case SDS_TYPE_32: return SDS_HDR(32, s)->alloc;
    case SDS_TYPE_64: return (size_t)SDS_HDR(64, s)->alloc;
    default: return 0;
    }
}

static inline size_t sdsavail(const sds s) { return sdsalloc(s) - sdslen(s); }

static inline void sdssetlen(sds s, size_t length) {
    switch (sdstype(s)) {
    case SDS_TYPE_5: s[-1] = (char)(SDS_TYPE_5 | (length << SDS_TYPE_BITS)); break;
    case SDS_TYPE_8: SDS_HDR(8, s)->len = (uint8_t)length; break;
    case SDS_TYPE_16: SDS_HDR(16, s)->len = (uint16_t)length; break;
    case SDS_TYPE_32: SDS_HDR(32, s)->len = (uint32_t)length; break;
    case SDS_TYPE_64: SDS_HDR(64, s)->len = (uint64_t)length; break;
    default: break;
    }
}

static inline void sdsinclen(sds s, size_t more) { sdssetlen(s, sdslen(s) + more); }

static inline void sdssetalloc(sds s, size_t capacity) {
    switch (sdstype(s)) {
    case SDS_TYPE_8: SDS_HDR(8, s)->alloc = (uint8_t)capacity; break;
    case SDS_TYPE_16: SDS_HDR(16, s)->alloc = (uint16_t)capacity; break;
    case SDS_TYPE_32: SDS_HDR(32, s)->alloc = (uint32_t)capacity; break;
    case SDS_TYPE_64: SDS_HDR(64, s)->alloc = (uint64_t)capacity; break;
    default: break;
    }
}

/* Functions that lengthen a string return where it is now, or NULL for lack of memory, and then stay. */
sds sdsnewlen(const void *init, size_t length);
sds sdsnew(const char *init);
sds sdsempty(void);
sds sdsdup(const sds s);
void sdsfree(sds s);
sds sdsgrowzero(sds s, size_t length);
sds sdscatlen(sds s, const void *bytes, size_t length);
sds sdscat(sds s, const char *text);
sds sdscatsds(sds s, const sds other);
sds sdscpylen(sds s, const char *text, size_t length);
sds sdscpy(sds s, const char *text);
sds sdscatvprintf(sds s, const char *format, va_list arguments);
sds sdscatprintf(sds s, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* %s text, %S sds, %i int, %I int64_t, %u unsigned, %U uint64_t, %% */
sds sdscatfmt(sds s, char const *format, ...);
sds sdstrim(sds s, const char *characters);
/* Keeps the bytes from start to end, the last one included; negative ones count from the end. -1 beyond
 * INT_MAX. */
int sdsrange(sds s, ssize_t start, ssize_t end);
void sdsupdatelen(sds s);
void sdsclear(sds s);
int sdscmp(const sds a, const sds b);
sds *sdssplitlen(const char *s, int length, const char *separator, int separator_length, int *count);
void sdsfreesplitres(sds *tokens, int count);
void sdstolower(sds s);
void sdstoupper(sds s);
sds sdsfromlonglong(long long value);
sds sdscatrepr(sds s, const char *bytes, size_t length);
sds *sdssplitargs(const char *line, int *argc);
sds sdsmapchars(sds s, const char *from, const char *to, size_t count);
sds sdsjoin(char **argv, int argc, char *separator);
sds sdsjoinsds(sds *argv, int argc, const char *separator, size_t separator_length);

sds sdsMakeRoomFor(sds s, size_t more);
void sdsIncrLen(sds s, int more);
sds sdsRemoveFreeSpace(sds s);
size_t sdsAllocSize(sds s);
void *sdsAllocPtr(sds s);

void *sds_malloc(size_t size);
void *sds_realloc(void *block, size_t size);
void sds_free(void *block);

#ifdef __cplusplus
}
#endif

#endif
