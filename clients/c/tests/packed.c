/* Packed numbers. Lines of hexadecimal come in, one of text for each goes out: type, numbers and names as
 * number/vectors/packed.json has them, or "refused". First what is written is read again, and damaged bytes
 * are read by thousands. */
#include <math.h>

#include "check.h"
#include "mantissa/packed.h"

static void print_names(const char *what, const char *section, size_t entries) {
    mantissaPackedNames names = mantissaPackedNamesOf(section, entries);
    const char *name;
    size_t length;
    if (section != NULL) printf(" %s", what);
    while (mantissaPackedNextName(&names, &name, &length)) {
        printf(" ");
        for (size_t i = 0; i < length; i++) printf("%02x", (unsigned char)name[i]);
    }
}

static void print_packed(const void *bytes, size_t length) {
    static const char *const types[] = {"", "F64", "F32", "VARINT", "DELTA"};
    mantissaPacked packed;
    if (mantissaPackedRead(&packed, bytes, length) != 0) {
        printf("refused\n");
        return;
    }
    printf("%s%s %zu", types[packed.type], packed.scalar ? " scalar" : "", packed.columns);
    double *doubles = malloc(packed.count * sizeof *doubles + 1);
    int64_t *integers = malloc(packed.count * sizeof *integers + 1);
    mantissaPackedDoubles(&packed, doubles);
    int fractions = mantissaPackedIntegers(&packed, integers);
    CHECK((fractions != 0) == (packed.type == MANTISSA_F64 || packed.type == MANTISSA_F32));
    for (size_t i = 0; i < packed.count; i++) {
        if (mantissaPackedIsNull(&packed, i)) {
            CHECK(isnan(doubles[i]) && (fractions || integers[i] == 0));
            printf(" null");
        } else if (fractions) {
            struct text text = {0};
            text_add_double(&text, doubles[i]);
            printf(" %s", text.at);
            free(text.at);
        } else {
            double wanted = (double)integers[i];
            CHECK(memcmp(&doubles[i], &wanted, sizeof wanted) == 0);
            printf(" %lld", (long long)integers[i]);
        }
    }
    print_names("rows", packed.names, packed.rows);
    print_names("columns", packed.column_names, packed.columns);
    printf("\n");
    free(doubles), free(integers);
}

static void write_and_read(void) {
    static const double doubles[] = {0.1, -2.5, INFINITY, 1e300};
    static const int64_t integers[] = {0, -1, INT64_MAX, INT64_MIN};
    static const char *const names[] = {"a", "", "four", "b"};
    static const size_t lengths[] = {1, 0, 4, 1};
    char bytes[256];
    double read[4];
    int64_t read_integers[4];
    mantissaPacked packed;
    size_t size = mantissaPackDoubles(bytes, doubles, 4);
    CHECK(size == MANTISSA_PACK_F64_SIZE(4));
    size = mantissaPackNames(bytes, size, names, lengths, 4);
    CHECK(mantissaPackedRead(&packed, bytes, size) == 0 && packed.count == 4 && packed.rows == 4);
    mantissaPackedDoubles(&packed, read);
    CHECK(memcmp(read, doubles, sizeof read) == 0);
    mantissaPackedNames iterator = mantissaPackedNamesOf(packed.names, packed.rows);
    const char *name;
    size_t length;
    for (int i = 0; i < 4; i++) {
        CHECK(mantissaPackedNextName(&iterator, &name, &length) && length == lengths[i]);
        CHECK(memcmp(name, names[i], length) == 0);
    }
    CHECK(!mantissaPackedNextName(&iterator, &name, &length));
    size = mantissaPackIntegers(bytes, integers, 4);
    CHECK(size <= MANTISSA_PACK_VARINT_SIZE(4) && mantissaPackedRead(&packed, bytes, size) == 0);
    CHECK(mantissaPackedIntegers(&packed, read_integers) == 0);
    CHECK(memcmp(read_integers, integers, sizeof integers) == 0);
}

/* Bytes in a block of their own, so that the sanitizer sees a read behind them. */
static void read_damaged(const unsigned char *bytes, size_t length) {
    static unsigned long long seed = 88172645463325252ull;
    for (int round = 0; round < 2000 && length > 0; round++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        size_t cut = (seed >> 8) % 4 == 0 ? (seed >> 10) % length : length;
        char *copy = malloc(cut + 1);
        memcpy(copy, bytes, cut);
        copy = realloc(copy, cut > 0 ? cut : 1);
        if (cut > 0) copy[(seed >> 24) % (cut < 20 ? cut : 20)] = (char)(seed >> 40);
        if (cut > 0) copy[(seed >> 32) % cut] ^= (char)(1 << (seed >> 48) % 8);
        mantissaPacked packed;
        if (mantissaPackedRead(&packed, copy, cut) == 0) {
            CHECK(packed.count <= 8 * cut);
            double *doubles = malloc(packed.count * sizeof *doubles + 1);
            mantissaPackedDoubles(&packed, doubles);
            mantissaPackedNames names = mantissaPackedNamesOf(packed.names, packed.rows);
            const char *name;
            size_t size, total = 0;
            while (mantissaPackedNextName(&names, &name, &size)) total += size;
            CHECK(total <= cut);
            free(doubles);
        }
        free(copy);
    }
}

int main(void) {
    static char line[1 << 16];
    static unsigned char bytes[1 << 15];
    write_and_read();
    while (fgets(line, sizeof line, stdin) != NULL) {
        size_t length = strcspn(line, "\n") / 2;
        for (size_t i = 0; i < length; i++) {
            char digits[3] = {line[2 * i], line[2 * i + 1], 0};
            bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
        }
        unsigned char *exact = malloc(length > 0 ? length : 1);
        memcpy(exact, bytes, length);
        print_packed(exact, length);
        read_damaged(exact, length);
        free(exact);
    }
    return check_end("packed");
}
