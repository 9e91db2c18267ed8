/* Runs the shared vectors, the grammar's options and the edges of ranges through the header, under every
 * rounding mode and under a locale whose decimal point is a comma. Plain C99, also valid C++11. */
#include <fenv.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#define MANTISSA_NUMBER_IMPLEMENTATION
#include "mantissa_number.h"

static unsigned long checks = 0, failures = 0;
static const char *circumstance = "";

static void check(int holds, const char *what, const char *detail) {
    checks++;
    if (holds) return;
    if (failures++ < 20) fprintf(stderr, "FAILED (%s): %s: %.200s\n", circumstance, what, detail);
}

/* A range whose bytes lie at the very end of their allocation, so that a sanitizer sees any read beyond; it
 * lives until the next call. */
static char *exact_copy(const char *text, size_t length) {
    static char *copy = NULL;
    free(copy);
    copy = (char *)malloc(length ? length : 1);
    if (copy == NULL) abort();
    memcpy(copy, text, length);
    return copy;
}

/* ---- The vectors: one JSON object a line, in the shape that make_vectors.py writes
 * ------------------------------ */

/* Copies the value of a string or number field, escapes undone; false if there is none. */
static int field(const char *line, const char *name, char *out, size_t *length) {
    char key[40];
    const char *at;
    snprintf(key, sizeof key, "\"%s\": ", name);
    at = strstr(line, key);
    *length = 0;
    if (at == NULL) return 0;
    at += strlen(key);
    if (*at != '"') {
        while (*at != ',' && *at != '}') out[(*length)++] = *at++;
    } else {
        for (at++; *at != '"'; at++) {
            char c = *at;
            if (c == '\\') {
                c = *++at;
                if (c == 't') c = '\t';
                if (c == 'u') {
                    c = (char)strtol(at + 3, NULL, 16);
                    at += 4;
                }
            }
            out[(*length)++] = c;
        }
    }
    out[*length] = 0;
    return 1;
}

static char value[8192];

static uint64_t field_bits(const char *line, const char *name) {
    size_t length;
    return field(line, name, value, &length) ? strtoull(value, NULL, 16) : 0;
}

static int field_is(const char *line, const char *name, const char *expected) {
    size_t length;
    return field(line, name, value, &length) && strcmp(value, expected) == 0;
}

static void reading(const char *line) {
    static char text[8192];
    size_t length, end_length;
    char *copy;
    double f64 = 1;
    float f32 = 1;
    mn_result r64, r32;
    int ok;
    field(line, "text", text, &length);
    copy = exact_copy(text, length);
    r64 = mn_parse_f64(copy, copy + length, &f64);
    r32 = mn_parse_f32(copy, copy + length, &f32);
    ok = r64.status == MN_OK;
    field(line, "end", value, &end_length);
    check(r64.end - copy == atol(value) && r32.end == r64.end, "end", line);
    if (field_is(line, "status", "invalid")) {
        check(r64.status == MN_INVALID && r32.status == MN_INVALID && f64 == 1 && f32 == 1, "invalid", line);
    } else if (field_is(line, "status", "nan")) {
        check(f64 != f64 && f32 != f32 && r64.status == MN_OK && r32.status == MN_OK, "nan", line);
    } else {
        check(mn__f64_bits(f64) == field_bits(line, "f64"), "f64", line);
        check(mn__f32_bits(f32) == (uint32_t)field_bits(line, "f32"), "f32", line);
        check((r64.status == MN_OUT_OF_RANGE) == field_is(line, "status", "range"), "f64 status", line);
        check((r32.status == MN_OUT_OF_RANGE) == field_is(line, "f32_status", "range"), "f32 status", line);
    }
    /* The same inside a longer text. */
    if (length < 40 && ok) {
        double again = 1;
        text[length] = ';';
        memcpy(text + length + 1, "12345678901234567890", 20);
        mn_parse_f64(text, text + length + 21, &again);
        check(mn__f64_bits(again) == mn__f64_bits(f64), "f64 in a longer text", line);
    }
}

static void printing_f64(const char *line) {
    uint64_t bits = field_bits(line, "f64");
    char *out = (char *)malloc(MN_F64_MAX), text[64];
    size_t length;
    double number = mn__f64_of(bits);
    if (out == NULL) abort();
    field(line, "text", text, &length);
    check((size_t)(mn_write_f64(out, number) - out) == length && memcmp(out, text, length) == 0, "print f64",
          line);
    free(out);
}

static void printing_f32(const char *line) {
    uint32_t bits = (uint32_t)field_bits(line, "f32");
    char *out = (char *)malloc(MN_F32_MAX), text[64];
    size_t length;
    if (out == NULL) abort();
    field(line, "text", text, &length);
    check((size_t)(mn_write_f32(out, mn__f32_of(bits)) - out) == length && memcmp(out, text, length) == 0,
          "print f32", line);
    free(out);
}

static void integers(const char *line) {
    char text[128];
    size_t length, unused;
    char *copy;
    uint64_t u64 = 7;
    int64_t i64 = 7;
    uint32_t u32 = 7;
    uint8_t u8 = 7;
    mn_result result;
    long end;
    field(line, "text", text, &length);
    field(line, "end", value, &unused);
    end = atol(value);
    copy = exact_copy(text, length);
    result = mn_parse_i64(copy, copy + length, &i64);
    check(result.end - copy == end, "i64 end", line);
    if (field(line, "i64", value, &unused)) {
        char out[MN_I64_MAX];
        check(result.status == MN_OK && i64 == strtoll(value, NULL, 10), "i64", line);
        check((size_t)(mn_write_i64(out, i64) - out) == unused && memcmp(out, value, unused) == 0,
              "print i64", line);
    } else {
        check(result.status == (end ? MN_OUT_OF_RANGE : MN_INVALID) && i64 == 7, "i64 status", line);
    }
    result = mn_parse_u64(copy, copy + length, &u64);
    if (field(line, "u64", value, &unused)) {
        char out[MN_U64_MAX];
        uint64_t expected = strtoull(value, NULL, 10);
        check(result.status == MN_OK && u64 == expected && result.end - copy == end, "u64", line);
        check((size_t)(mn_write_u64(out, u64) - out) == unused && memcmp(out, value, unused) == 0,
              "print u64", line);
        result = mn_parse_u32(copy, copy + length, &u32);
        check(expected >> 32 ? result.status == MN_OUT_OF_RANGE && u32 == 7 : u32 == expected, "u32", line);
        result = mn_parse_u8(copy, copy + length, &u8);
        check(expected >> 8 ? result.status == MN_OUT_OF_RANGE && u8 == 7 : u8 == expected, "u8", line);
    } else {
        check(result.status != MN_OK && u64 == 7, "u64 status", line);
    }
}

static int hex_equals(const void *bytes, size_t count, const char *hex) {
    const unsigned char *at = (const unsigned char *)bytes;
    char text[64];
    size_t index;
    for (index = 0; index < count; index++) snprintf(text + 2 * index, 3, "%02x", at[index]);
    return strlen(hex) == 2 * count && memcmp(text, hex, 2 * count) == 0;
}

static void bytes(const char *line) {
    char out[16];
    size_t length, count;
    uint64_t u64, back;
    mn_result result;
    double number, loaded;
    field(line, "u64", value, &length);
    u64 = strtoull(value, NULL, 10);
    number = mn__f64_of(u64);
    field(line, "varint", value, &length);
    count = (size_t)(mn_write_varint(out, u64) - out);
    check(hex_equals(out, count, value), "varint", line);
    result = mn_read_varint(out, out + count, &back);
    check(result.status == MN_OK && result.end == out + count && back == u64, "read varint", line);
    check(mn_read_varint(out, out + count - 1, &back).status == MN_INVALID, "cut varint", line);
    field(line, "zigzag", value, &length);
    check(mn_zigzag((int64_t)u64) == strtoull(value, NULL, 10), "zigzag", line);
    check(mn_unzigzag(mn_zigzag((int64_t)u64)) == (int64_t)u64, "unzigzag", line);
#if !defined(__i386__)
    /* The x87 registers that 32-bit functions return doubles in turn signalling NaNs into quiet ones. */
    field(line, "f64_be", value, &length);
    mn_store_f64_be(out, number);
    loaded = mn_load_f64_be(out);
    check(hex_equals(out, 8, value) && mn__f64_bits(loaded) == u64, "big-endian", line);
    field(line, "f64_le", value, &length);
    mn_store_f64_le(out, number);
    loaded = mn_load_f64_le(out);
    check(hex_equals(out, 8, value) && mn__f64_bits(loaded) == u64, "little-endian", line);
#else
    (void)number, (void)loaded;
#endif
}

static void run_file(const char *folder, const char *name, void (*run)(const char *line)) {
    static char line[16384];
    char path[1024];
    unsigned long count = 0;
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "r");
    if (file == NULL) {
        check(0, "cannot open", path);
        return;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '{') run(line), count++;
    }
    check(count > 50, "too few cases", path);
    fclose(file);
}

/* ---- What vectors do not say
 * ------------------------------------------------------------------------------------ */

static mn_status with(const char *text, char point, unsigned flags, double *out, long *end) {
    const size_t length = strlen(text);
    char *copy = exact_copy(text, length);
    mn_options options;
    mn_result result;
    options.point = point;
    options.flags = flags;
    result = mn_parse_f64_with(copy, copy + length, out, &options);
    *end = result.end - copy;
    return result.status;
}

typedef struct {
    const char *text;
    char point;
    unsigned flags;
    mn_status status;
    long end;
    double value;
} option_case;

static void options(void) {
    static const option_case cases[] = {
        {"3,14", ',', 0, MN_OK, 4, 3.14},
        {"3,14159265", ',', 0, MN_OK, 10, 3.14159265},
        {"3.14159265", ',', 0, MN_OK, 1, 3},
        {"3,14159265", '.', 0, MN_OK, 1, 3},
        {"01", '.', MN_JSON, MN_INVALID, 0, 0},
        {"-012345678", '.', MN_JSON, MN_INVALID, 0, 0},
        {"0", '.', MN_JSON, MN_OK, 1, 0},
        {"0.5", '.', MN_JSON, MN_OK, 3, 0.5},
        {"-0.123456789", '.', MN_JSON, MN_OK, 12, -0.123456789},
        {"5.", '.', MN_JSON, MN_INVALID, 0, 0},
        {"123456789.", '.', MN_JSON, MN_INVALID, 0, 0},
        {".5", '.', MN_JSON, MN_INVALID, 0, 0},
        {".123456789", '.', MN_JSON, MN_INVALID, 0, 0},
        {"+5", '.', MN_JSON, MN_INVALID, 0, 0},
        {"+5", '.', MN_NO_PLUS, MN_INVALID, 0, 0},
        {"+inf", '.', MN_NO_PLUS, MN_INVALID, 0, 0},
        {"1e5", '.', MN_JSON, MN_OK, 3, 1e5},
        {"1e", '.', MN_JSON, MN_INVALID, 0, 0},
        {"inf", '.', MN_JSON, MN_INVALID, 0, 0},
        {"nan", '.', MN_NO_SPECIAL, MN_INVALID, 0, 0},
        {"-infinity", '.', MN_NO_SPECIAL, MN_INVALID, 0, 0},
        {"1.5e3", '.', MN_FIXED_ONLY, MN_OK, 3, 1.5},
        {"1.23456789e3", '.', MN_FIXED_ONLY, MN_OK, 10, 1.23456789},
        {"1.5", '.', MN_SCIENTIFIC_ONLY, MN_INVALID, 0, 0},
        {"1.5e", '.', MN_SCIENTIFIC_ONLY, MN_INVALID, 0, 0},
        {"1.5e3", '.', MN_SCIENTIFIC_ONLY, MN_OK, 5, 1500},
        {"123456789", '.', MN_SCIENTIFIC_ONLY, MN_INVALID, 0, 0},
    };
    size_t index;
    for (index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const option_case *one = &cases[index];
        double out = -77;
        long end = -1;
        mn_status status = with(one->text, one->point, one->flags, &out, &end);
        check(status == one->status && end == one->end, "option status", one->text);
        check(out == (status == MN_OK ? one->value : -77), "option value", one->text);
    }
}

static void bulk(void) {
    enum { COUNT = 1003 };
    static double values[COUNT], back[COUNT];
    static float floats[COUNT], floats_back[COUNT];
    static char out[8 * COUNT + 1];
    size_t index, count;
    for (index = 0; index < COUNT; index++) {
        values[index] = (double)index * 1.37 - 300;
        floats[index] = (float)index * 0.11f - 20;
    }
    for (count = 0; count < COUNT; count += count < 40 ? 1 : 97) {
        int place;
        for (place = 0; place < 2; place++) {
            int wrong = 0;
            check(mn_encode_f64_be(out + place, values, count) == 8 * count, "bulk size", "f64 be");
            for (index = 0; index < count; index++)
                wrong |= mn_load_f64_be(out + place + 8 * index) != values[index];
            mn_decode_f64_be(back, out + place, count);
            wrong |= memcmp(back, values, 8 * count) != 0;
            mn_encode_f64_le(out + place, values, count);
            for (index = 0; index < count; index++)
                wrong |= mn_load_f64_le(out + place + 8 * index) != values[index];
            mn_decode_f64_le(back, out + place, count);
            wrong |= memcmp(back, values, 8 * count) != 0;
            mn_encode_f32_be(out + place, floats, count);
            for (index = 0; index < count; index++)
                wrong |= mn_load_f32_be(out + place + 4 * index) != floats[index];
            mn_decode_f32_be(floats_back, out + place, count);
            wrong |= memcmp(floats_back, floats, 4 * count) != 0;
            mn_encode_f32_le(out + place, floats, count);
            for (index = 0; index < count; index++)
                wrong |= mn_load_f32_le(out + place + 4 * index) != floats[index];
            mn_decode_f32_le(floats_back, out + place, count);
            wrong |= memcmp(floats_back, floats, 4 * count) != 0;
            check(!wrong, "bulk bytes", "");
        }
    }
    {
        uint64_t number = 7;
        static const char over[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
        check(mn_read_varint(over, over + 10, &number).status == MN_OUT_OF_RANGE && number == 7,
              "varint range", "");
        check(mn_read_varint(over, over, &number).status == MN_INVALID, "varint empty", "");
    }
}

/* Every text of up to five characters from an alphabet of those that matter, against strtod. */
static void short_texts(void) {
    static const char alphabet[] = "019.e-+x,";
    const unsigned letters = sizeof alphabet - 1;
    unsigned length, index, total = 1;
    for (length = 1; length <= 5; length++) {
        total *= letters;
        for (index = 0; index < total; index++) {
            char text[8], *end, *copy;
            unsigned rest = index, at;
            double expected, number = -77;
            mn_result result;
            for (at = 0; at < length; at++, rest /= letters) text[at] = alphabet[rest % letters];
            text[length] = 0;
            if (strchr(text, 'x') != NULL) text[strchr(text, 'x') - text] = 'y';
            expected = strtod(text, &end);
            copy = exact_copy(text, length);
            result = mn_parse_f64(copy, copy + length, &number);
            check(result.end - copy == end - text, "short text end", text);
            check(result.end == copy ? number == -77 : mn__f64_bits(number) == mn__f64_bits(expected),
                  "short text", text);
        }
    }
}

static void everything(const char *folder, const char *name) {
    circumstance = name;
    run_file(folder, "reading.json", reading);
    run_file(folder, "printing_f64.json", printing_f64);
    run_file(folder, "printing_f32.json", printing_f32);
    run_file(folder, "integers.json", integers);
    run_file(folder, "bytes.json", bytes);
    options();
    bulk();
}

int main(int count, char **arguments) {
    const char *folder = count > 1 ? arguments[1] : "vectors";
    everything(folder, "as started");
    short_texts();
#ifndef MN_ROUNDS_TO_NEAREST
    {
        static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
        static const char *const names[] = {"rounding up", "rounding down", "rounding to zero",
                                            "rounding to nearest"};
        int index;
        for (index = 0; index < 4; index++) {
            fesetround(modes[index]);
            everything(folder, names[index]);
        }
        fesetround(FE_TONEAREST);
    }
#endif
    if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL && localeconv()->decimal_point[0] == ',') {
        everything(folder, "de_DE.UTF-8");
    } else {
        const char *needed = getenv("MN_TEST_NEEDS_LOCALE");
        fprintf(stderr, "there is no locale de_DE.UTF-8: that part was left out\n");
        if (needed != NULL && *needed) failures++;
    }
    printf("%lu checks, %lu failures\n", checks, failures);
    return failures != 0;
}
