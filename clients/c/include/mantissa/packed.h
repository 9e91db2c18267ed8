/* Packed numbers (docs/packed.md): the replies of MANTISSA.PACKED as arrays of double and int64_t, and the
 * arguments of MANTISSA.UNPACK. Nothing is allocated, and bytes from anywhere may be given.
 *
 *     redisReply *reply = redisCommand(c, "MANTISSA.PACKED F64 ZRANGE prices 0 -1 WITHSCORES");
 *     mantissaPacked packed;
 *     if (mantissaPackedRead(&packed, reply->str, reply->len) == 0 && packed.count <= prices_max)
 *         mantissaPackedDoubles(&packed, prices);
 */
#ifndef MANTISSA_PACKED_H
#define MANTISSA_PACKED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MANTISSA_F64 = 1, MANTISSA_F32 = 2, MANTISSA_VARINT = 3, MANTISSA_DELTA = 4 };

/* A packed reply: where its sections lie in the bytes that it was read from. */
typedef struct mantissaPacked {
    int type;          /* MANTISSA_F64... */
    int scalar;        /* the reply is one number, not an array of one */
    size_t count;      /* numbers */
    size_t columns;    /* numbers in a row, at least 1 */
    size_t rows;       /* count / columns */
    const char *numbers, *numbers_end;
    const char *nulls; /* NULL: none is missing */
    const char *names; /* of rows; NULL: they have none */
    const char *column_names;
} mantissaPacked;

/* Check the bytes of a packed reply, every number included. 0, or -1 if a rule of the format is broken. The
 * bytes must stay where they are as long as `packed` is used. */
int mantissaPackedRead(mantissaPacked *packed, const void *bytes, size_t length);

/* Whether the number at `index`, below count, is missing. */
int mantissaPackedIsNull(const mantissaPacked *packed, size_t index);

/* Write all numbers to `out`, which has places for packed->count; NaN where one is missing. */
void mantissaPackedDoubles(const mantissaPacked *packed, double *out);

/* The same as integers, 0 where one is missing. -1, and nothing is written, if the type is F64 or F32. */
int mantissaPackedIntegers(const mantissaPacked *packed, int64_t *out);

/* The names of rows (packed->names) or columns (packed->column_names), one after the other:
 *
 *     mantissaPackedNames names = mantissaPackedNamesOf(packed.names, packed.rows);
 *     while (mantissaPackedNextName(&names, &name, &length)) ...
 */
typedef struct mantissaPackedNames {
    const char *lengths, *text;
    size_t left;
} mantissaPackedNames;

mantissaPackedNames mantissaPackedNamesOf(const char *section, size_t entries);
/* 0 behind the last one. A name has no NUL behind it. */
int mantissaPackedNextName(mantissaPackedNames *names, const char **name, size_t *length);

/* Writing. The size is that of the largest result for so many numbers, below 2^32 bytes of numbers. */
#define MANTISSA_PACK_F64_SIZE(count) (16 + 8 * (size_t)(count))
#define MANTISSA_PACK_VARINT_SIZE(count) (16 + 10 * (size_t)(count))

/* Each returns the bytes that it has written at `out`. */
size_t mantissaPackDoubles(void *out, const double *values, size_t count);
size_t mantissaPackIntegers(void *out, const int64_t *values, size_t count);

/* Put names behind the numbers that one of the above has written, `size` bytes at `out`, one for each: the
 * new size, which is 4 bytes and its length more for each name. */
size_t mantissaPackNames(void *out, size_t size, const char *const *names, const size_t *lengths,
                         size_t count);

#ifdef __cplusplus
}
#endif

#endif
