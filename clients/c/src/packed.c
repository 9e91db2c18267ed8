/* Packed numbers: what mantissa/packed.h says. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "mantissa/packed.h"
#define MANTISSA_NUMBER_STATIC
#define MANTISSA_NUMBER_IMPLEMENTATION
#include "mantissa_number.h"

enum { HEADER = 16, SCALAR = 1, NULLS = 2, NAMES = 4, COLUMN_NAMES = 8 };

static uint32_t load32(const char *at) {
    const unsigned char *bytes = (const unsigned char *)at;
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store32(char *at, size_t value) {
    for (int i = 0; i < 4; i++) at[i] = (char)(value >> (24 - 8 * i));
}

/* ---- Reading ---- */

/* The section of names at `at`, or NULL if it is not whole. */
static const char *names_end(const char *at, const char *last, size_t entries) {
    if ((size_t)(last - at) / 4 < entries) return NULL;
    const char *text = at + 4 * entries;
    for (size_t i = 0; i < entries; i++) {
        size_t length = load32(at + 4 * i);
        if ((size_t)(last - text) < length) return NULL;
        text += length;
    }
    return text;
}

static int numbers_are_good(const mantissaPacked *packed) {
    size_t size = (size_t)(packed->numbers_end - packed->numbers);
    if (packed->type == MANTISSA_F64) return size == 8 * (uint64_t)packed->count;
    if (packed->type == MANTISSA_F32) return size == 4 * (uint64_t)packed->count;
    /* A varint has at least a byte. */
    if (packed->count > size) return 0;
    const char *at = packed->numbers;
    for (size_t i = 0; i < packed->count; i++) {
        uint64_t value;
        mn_result result = mn_read_varint(at, packed->numbers_end, &value);
        if (result.status != MN_OK) return 0;
        at = result.end;
    }
    return at == packed->numbers_end;
}

int mantissaPackedRead(mantissaPacked *packed, const void *bytes, size_t length) {
    const char *at = bytes, *last = at + length;
    if (length < HEADER || memcmp(at, "MP\1", 3) != 0 || at[5] != 0) return -1;
    unsigned flags = (unsigned char)at[4];
    packed->type = at[3];
    packed->scalar = flags & SCALAR;
    packed->columns = load32(at + 4) & 0xffff;
    packed->count = load32(at + 8);
    size_t size = load32(at + 12);
    if (packed->type < MANTISSA_F64 || packed->type > MANTISSA_DELTA || flags > 15) return -1;
    if (packed->columns == 0 || packed->count % packed->columns != 0) return -1;
    if (packed->scalar && (packed->count != 1 || packed->columns != 1)) return -1;
    packed->rows = packed->count / packed->columns;
    packed->nulls = packed->names = packed->column_names = NULL;

    at += HEADER;
    if ((size_t)(last - at) < size) return -1;
    packed->numbers = at;
    packed->numbers_end = at += size;
    if (flags & NULLS) {
        size_t bits = packed->count / 8 + (packed->count % 8 != 0);
        if ((size_t)(last - at) < bits) return -1;
        packed->nulls = at;
        at += bits;
        if (packed->count % 8 != 0 && (unsigned char)at[-1] >> packed->count % 8 != 0) return -1;
    }
    if (flags & NAMES) {
        packed->names = at;
        if ((at = names_end(at, last, packed->rows)) == NULL) return -1;
    }
    if (flags & COLUMN_NAMES) {
        packed->column_names = at;
        if ((at = names_end(at, last, packed->columns)) == NULL) return -1;
    }
    return at == last && numbers_are_good(packed) ? 0 : -1;
}

int mantissaPackedIsNull(const mantissaPacked *packed, size_t index) {
    return packed->nulls != NULL && ((unsigned char)packed->nulls[index / 8] >> index % 8 & 1);
}

/* The next varint; they have been checked. */
static const char *next_varint(const mantissaPacked *packed, const char *at, uint64_t *value) {
    return mn_read_varint(at, packed->numbers_end, value).end;
}

/* Integers one after the other. */
struct cursor {
    const char *at;
    uint64_t before;
};

static int64_t next_integer(const mantissaPacked *packed, struct cursor *cursor) {
    uint64_t value = 0;
    cursor->at = next_varint(packed, cursor->at, &value);
    if (packed->type == MANTISSA_VARINT) return mn_unzigzag(value);
    cursor->before += value;
    /* Two's complement: the same bits. */
    int64_t result;
    memcpy(&result, &cursor->before, sizeof result);
    return result;
}

void mantissaPackedDoubles(const mantissaPacked *packed, double *out) {
    if (packed->type == MANTISSA_F64) {
        mn_decode_f64_be(out, packed->numbers, packed->count);
    } else if (packed->type == MANTISSA_F32) {
        for (size_t i = 0; i < packed->count; i++) out[i] = mn_load_f32_be(packed->numbers + 4 * i);
    } else {
        struct cursor cursor = {packed->numbers, 0};
        for (size_t i = 0; i < packed->count; i++) out[i] = (double)next_integer(packed, &cursor);
    }
    for (size_t i = 0; packed->nulls != NULL && i < packed->count; i++) {
        if (mantissaPackedIsNull(packed, i)) out[i] = NAN;
    }
}

int mantissaPackedIntegers(const mantissaPacked *packed, int64_t *out) {
    if (packed->type != MANTISSA_VARINT && packed->type != MANTISSA_DELTA) return -1;
    struct cursor cursor = {packed->numbers, 0};
    for (size_t i = 0; i < packed->count; i++) {
        int64_t value = next_integer(packed, &cursor);
        out[i] = mantissaPackedIsNull(packed, i) ? 0 : value;
    }
    return 0;
}

mantissaPackedNames mantissaPackedNamesOf(const char *section, size_t entries) {
    mantissaPackedNames names = {section, NULL, 0};
    if (section == NULL) return names;
    names.text = section + 4 * entries;
    names.left = entries;
    return names;
}

int mantissaPackedNextName(mantissaPackedNames *names, const char **name, size_t *length) {
    if (names->left == 0) return 0;
    *name = names->text;
    *length = load32(names->lengths);
    names->text += *length;
    names->lengths += 4;
    names->left--;
    return 1;
}

/* ---- Writing ---- */

static void write_header(char *out, int type, size_t count, size_t size) {
    memcpy(out, "MP\1\0\0\0\0\1", 8);
    out[3] = (char)type;
    store32(out + 8, count);
    store32(out + 12, size);
}

size_t mantissaPackDoubles(void *out, const double *values, size_t count) {
    write_header(out, MANTISSA_F64, count, 8 * count);
    return HEADER + mn_encode_f64_be((char *)out + HEADER, values, count);
}

size_t mantissaPackIntegers(void *out, const int64_t *values, size_t count) {
    char *at = (char *)out + HEADER;
    for (size_t i = 0; i < count; i++) at = mn_write_varint(at, mn_zigzag(values[i]));
    size_t size = (size_t)(at - (char *)out);
    write_header(out, MANTISSA_VARINT, count, size - HEADER);
    return size;
}

size_t mantissaPackNames(void *out, size_t size, const char *const *names, const size_t *lengths,
                         size_t count) {
    char *lengths_at = (char *)out + size, *text = lengths_at + 4 * count;
    ((char *)out)[4] |= NAMES;
    for (size_t i = 0; i < count; i++) {
        store32(lengths_at + 4 * i, lengths[i]);
        memcpy(text, names[i], lengths[i]);
        text += lengths[i];
    }
    return (size_t)(text - (char *)out);
}
