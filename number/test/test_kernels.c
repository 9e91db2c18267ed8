/* Checks every level of mantissa_kernels.h that this processor can run: against plain loops, against the
 * portable level bit for bit, and with vectors that end where the memory does. `test_kernels quick` takes
 * fewer lengths, for emulators. Prints how many comparisons it made. */
#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE
#define MANTISSA_KERNELS_IMPLEMENTATION
#include "mantissa_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* What sums are compared with. The quads of s390x come out wrong of clang 14 or its emulator. */
#ifdef __s390x__
typedef double wide;
#else
typedef long double wide;
#endif

enum { COUNT_MAX = 3 * 8192 + 77 };

#define WIDE_ABS(value) ((value) < 0 ? -(value) : (value))

static unsigned long checks;
static uint64_t state = 20261128;
static const mn_kernels *kernels, *portable;
static size_t count;

static uint64_t random_word(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1du;
}

static double random_number(void) { return (double)(int64_t)random_word() / 9e18; }

#define CHECK(condition, what, value)                                                              \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s %s of %zu: %.17g\n", kernels->name, what, count, (double)(value)); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The end of a mapping that nothing readable follows, and of another like it. */
static char *end_of_memory[2];

static void map_memory(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (COUNT_MAX * sizeof(double) / page + 2) * page;
    int side;
    for (side = 0; side < 2; side++) {
        char *start =
            (char *)mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == (char *)MAP_FAILED || mprotect(start + size, page, PROT_NONE) != 0) {
            perror("test_kernels");
            exit(1);
        }
        end_of_memory[side] = start + size;
    }
}

/* The vectors of `count` numbers, at the memory's end. */
static double *f64[2];
static float *f32[2];
static uint16_t *bf16[2];
static int8_t *i8[2];

static uint16_t to_bf16(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return (uint16_t)(word >> 16);
}

static void place(int side) {
    f64[side] = (double *)(void *)end_of_memory[side] - count;
    f32[side] = (float *)(void *)end_of_memory[side] - count;
    bf16[side] = (uint16_t *)(void *)end_of_memory[side] - count;
    i8[side] = (int8_t *)end_of_memory[side] - count;
}

/* Of one type at a time, because they lie in one place. */
static void fill_f64(void) {
    int side;
    size_t at;
    for (side = 0; side < 2; side++)
        for (at = 0; at < count; at++) f64[side][at] = random_number() * (at % 7 ? 1 : 1e6);
}

static void fill_f32(void) {
    int side;
    size_t at;
    for (side = 0; side < 2; side++)
        for (at = 0; at < count; at++) f32[side][at] = (float)(random_number() * (at % 7 ? 1 : 1e3));
}

static void fill_bf16(void) {
    int side;
    size_t at;
    for (side = 0; side < 2; side++)
        for (at = 0; at < count; at++)
            bf16[side][at] = to_bf16((float)(random_number() * (at % 7 ? 1 : 1e3)));
}

/* Also the largest magnitudes, everywhere at once now and then. */
static void fill_i8(void) {
    int side;
    size_t at;
    uint64_t kind = random_word() % 8;
    for (side = 0; side < 2; side++)
        for (at = 0; at < count; at++)
            i8[side][at] = (int8_t)(kind == 0   ? -128
                                    : kind == 1 ? 127
                                    : kind == 2 ? (side ? 127 : -128)
                                                : (int)(random_word() % 256) - 128);
}

static double u_of(double n, double lanes, double u) {
    double blocks = n / (128 * lanes);
    /* Sums of doubles that are compared have errors of their own. */
    return (128 + log2(lanes) + (blocks > 1 ? ceil(log2(blocks)) : 0)) * u * (sizeof(wide) > 8 ? 1 : 8);
}

#define SAME_BITS(a, b) (memcmp(&(a), &(b), sizeof(a)) == 0)

/* The functions of one float type: sums within their bounds, the same bits as the portable level's. */
#define FLOATS(suffix, element, result, AS_DOUBLE, LANES, U, is_free)                                      \
    static void check_##suffix(void) {                                                                     \
        const element *l = suffix[0], *r = suffix[1];                                                      \
        wide sum = 0, dot = 0, distance = 0, lefts = 0, rights = 0;                                        \
        wide all = 0, dots = 0;                                                                            \
        double least = INFINITY, greatest = -INFINITY, cosine, expected, bound;                            \
        result a, b;                                                                                       \
        uint64_t words[COUNT_MAX / 64 + 2], others[COUNT_MAX / 64 + 2];                                    \
        size_t at;                                                                                         \
        for (at = 0; at < count; at++) {                                                                   \
            double x = AS_DOUBLE(l[at]), y = AS_DOUBLE(r[at]);                                             \
            sum += x, all += fabs(x), dot += (wide)x * y, dots += WIDE_ABS((wide)x * y);                   \
            distance += ((wide)x - y) * ((wide)x - y);                                                     \
            lefts += (wide)x * x, rights += (wide)y * y;                                                   \
            if (x < least) least = x;                                                                      \
            if (x > greatest) greatest = x;                                                                \
        }                                                                                                  \
        a = kernels->sum_##suffix(l, count), b = portable->sum_##suffix(l, count);                         \
        bound = is_free ? ((double)count / 64 + 8) * 2 * U : u_of((double)count, 2 * LANES, U);            \
        CHECK(WIDE_ABS(a - sum) <= all * bound, "sum_" #suffix, a);                                        \
        CHECK(!STRICT || is_free || SAME_BITS(a, b), "bits of sum_" #suffix, a);                           \
        a = kernels->min_##suffix(l, count);                                                               \
        CHECK((double)a == least, "min_" #suffix, a);                                                      \
        a = kernels->max_##suffix(l, count);                                                               \
        CHECK((double)a == greatest, "max_" #suffix, a);                                                   \
        a = kernels->dot_##suffix(l, r, count), b = portable->dot_##suffix(l, r, count);                   \
        bound = is_free ? ((double)count / 64 + 8) * 2 * U : u_of((double)count, LANES, U) + U;            \
        CHECK(WIDE_ABS(a - dot) <= dots * bound, "dot_" #suffix, a);                                       \
        CHECK(!STRICT || is_free || SAME_BITS(a, b), "bits of dot_" #suffix, a);                           \
        a = kernels->squared_distance_##suffix(l, r, count);                                               \
        b = portable->squared_distance_##suffix(l, r, count);                                              \
        CHECK(WIDE_ABS(a - distance) <= distance * (bound + 4 * U), "squared_distance_" #suffix, a);       \
        CHECK(!STRICT || is_free || SAME_BITS(a, b), "bits of squared_distance_" #suffix, a);              \
        cosine = kernels->cosine_##suffix(l, r, count), expected = portable->cosine_##suffix(l, r, count); \
        CHECK(!STRICT || is_free || SAME_BITS(cosine, expected), "bits of cosine_" #suffix, cosine);       \
        expected = count ? (double)dot / (sqrt((double)lefts) * sqrt((double)rights)) : 0;                 \
        CHECK(fabs(cosine - expected) <=                                                                   \
                  3 * (double)dots / sqrt((double)(lefts * rights) + !count) * 140 * U,                    \
              "cosine_" #suffix, cosine);                                                                  \
        memset(words, 0xff, sizeof words);                                                                 \
        memset(others, 0, sizeof others);                                                                  \
        for (at = 0; at < count; at++) others[at / 64] |= (uint64_t)(AS_DOUBLE(l[at]) > 0) << at % 64;     \
        kernels->sign_##suffix(words, l, count);                                                           \
        CHECK(memcmp(words, others, (count + 63) / 64 * 8) == 0, "sign_" #suffix, count);                  \
        CHECK(words[(count + 63) / 64] == ~(uint64_t)0, "end of sign_" #suffix, count);                    \
    }

/* x87 keeps more digits than the type has. */
#define STRICT (FLT_EVAL_METHOD == 0)
#define SAME(x) (x)
#define FROM_BF16(x) ((double)mn__from_bf16(x))
static int is_pairwise(void) { return strcmp(kernels->name, "avx512bf16") == 0; }
FLOATS(f64, double, double, SAME, 16, 1 / 9007199254740992.0, 0)
FLOATS(f32, float, float, SAME, 32, 1 / 16777216.0, 0)
FLOATS(bf16, uint16_t, float, FROM_BF16, 32, 1 / 16777216.0, is_pairwise())

static unsigned bits_of(unsigned byte) {
    unsigned bits = 0;
    for (; byte; byte >>= 1) bits += byte & 1;
    return bits;
}

static void check_i8(void) {
    const int8_t *l = i8[0], *r = i8[1];
    int64_t sum = 0, dot = 0, distance = 0, lefts = 0, rights = 0;
    uint64_t ones = 0, others = 0, both = 0, differing = 0, words[COUNT_MAX / 64 + 2],
             signs[COUNT_MAX / 64 + 2];
    int least = 127, greatest = -128;
    double expected;
    size_t at;
    memset(words, 0xff, sizeof words);
    memset(signs, 0, sizeof signs);
    for (at = 0; at < count; at++) {
        int x = l[at], y = r[at];
        sum += x, dot += x * y, distance += (x - y) * (x - y), lefts += x * x, rights += y * y;
        ones += bits_of((uint8_t)x), others += bits_of((uint8_t)y);
        both += bits_of((uint8_t)(x & y)), differing += bits_of((uint8_t)(x ^ y));
        least = x < least ? x : least, greatest = x > greatest ? x : greatest;
        signs[at / 64] |= (uint64_t)(x > 0) << at % 64;
    }
    CHECK(kernels->sum_i8(l, count) == sum, "sum_i8", sum);
    CHECK(kernels->min_i8(l, count) == least, "min_i8", least);
    CHECK(kernels->max_i8(l, count) == greatest, "max_i8", greatest);
    CHECK(kernels->dot_i8(l, r, count) == dot, "dot_i8", dot);
    CHECK(kernels->squared_distance_i8(l, r, count) == distance, "squared_distance_i8", distance);
    expected = mn__cosine((double)dot, (double)lefts, (double)rights);
    CHECK(kernels->cosine_i8(l, r, count) == expected, "cosine_i8", expected);
    kernels->sign_i8(words, l, count);
    CHECK(memcmp(words, signs, (count + 63) / 64 * 8) == 0, "sign_i8", count);
    CHECK(kernels->popcount(l, count) == ones, "popcount", ones);
    CHECK(kernels->dot_bits(l, r, count) == both, "dot_bits", both);
    CHECK(kernels->hamming(l, r, count) == differing, "hamming", differing);
    expected = mn__cosine((double)both, (double)ones, (double)others);
    CHECK(kernels->cosine_bits(l, r, count) == expected, "cosine_bits", expected);
}

/* NaN, infinities, zeros of both signs and subnormal numbers in every place of some vectors. */
#define SPECIAL(suffix, element, result, FROM, is_free)                                                    \
    static void check_special_##suffix(void) {                                                             \
        static const double specials[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-40, -1e-40, 3e38};       \
        size_t at;                                                                                         \
        for (at = 0; at < count; at++) {                                                                   \
            uint64_t special = random_word() % (count / 2 + 8);                                            \
            suffix[0][at] = FROM(special < 8 ? specials[special] : random_number());                       \
            suffix[1][at] = FROM(random_word() % 16 ? random_number() : specials[random_word() % 8]);      \
        }                                                                                                  \
        {                                                                                                  \
            const element *l = suffix[0], *r = suffix[1];                                                  \
            result pairs[8];                                                                               \
            uint64_t words[COUNT_MAX / 64 + 2], others[COUNT_MAX / 64 + 2];                                \
            int pair;                                                                                      \
            pairs[0] = kernels->sum_##suffix(l, count), pairs[1] = portable->sum_##suffix(l, count);       \
            pairs[2] = kernels->min_##suffix(l, count), pairs[3] = portable->min_##suffix(l, count);       \
            pairs[4] = kernels->max_##suffix(l, count), pairs[5] = portable->max_##suffix(l, count);       \
            pairs[6] = kernels->squared_distance_##suffix(l, r, count);                                    \
            pairs[7] = portable->squared_distance_##suffix(l, r, count);                                   \
            for (pair = 0; pair < 8; pair += 2)                                                            \
                CHECK(!STRICT || (is_free && (pair < 2 || pair > 5)) ||                                    \
                          (pairs[pair] != pairs[pair] && pairs[pair + 1] != pairs[pair + 1]) ||            \
                          SAME_BITS(pairs[pair], pairs[pair + 1]),                                         \
                      "special " #suffix, pairs[pair]);                                                    \
            CHECK(pairs[2] == pairs[2] && pairs[4] == pairs[4], "NaN of " #suffix, count);                 \
            pairs[0] = kernels->dot_##suffix(l, r, count), pairs[1] = portable->dot_##suffix(l, r, count); \
            CHECK(!STRICT || is_free || (pairs[0] != pairs[0] && pairs[1] != pairs[1]) ||                  \
                      SAME_BITS(pairs[0], pairs[1]),                                                       \
                  "special dot_" #suffix, pairs[0]);                                                       \
            kernels->sign_##suffix(words, l, count), portable->sign_##suffix(others, l, count);            \
            CHECK(memcmp(words, others, (count + 63) / 64 * 8) == 0, "special sign_" #suffix, count);      \
        }                                                                                                  \
    }
#define TO_FLOAT(x) ((float)(x))
#define TO_BF16(x) to_bf16((float)(x))
SPECIAL(f64, double, double, SAME, 0)
SPECIAL(f32, float, float, TO_FLOAT, 0)
SPECIAL(bf16, uint16_t, float, TO_BF16, is_pairwise())

/* Lengths that only a walk over several blocks reaches, of which the sums leave 32 bits. */
static void check_long(void) {
    size_t size = ((size_t)5 << 16) + 77, at;
    int8_t *l = (int8_t *)malloc(size), *r = (int8_t *)malloc(size);
    if (!l || !r) exit(1);
    memset(l, -128, size), memset(r, -128, size);
    count = size;
    CHECK(kernels->dot_i8(l, r, size) == (int64_t)size * 16384, "long dot_i8", size);
    CHECK(kernels->sum_i8(l, size) == (int64_t)size * -128, "long sum_i8", size);
    CHECK(kernels->cosine_i8(l, r, size) == 1, "long cosine_i8", size);
    for (at = 0; at < size; at++) r[at] = 127;
    CHECK(kernels->squared_distance_i8(l, r, size) == (int64_t)size * 65025, "long squared_distance_i8",
          size);
    memset(l, 0xff, size);
    CHECK(kernels->popcount(l, size) == size * 8, "long popcount", size);
    CHECK(kernels->dot_bits(l, l, size) == size * 8, "long dot_bits", size);
    CHECK(kernels->hamming(l, r, size) == size, "long hamming", size);
    free(l), free(r);
}

static void check_all(void) {
    place(0), place(1);
    fill_f64(), check_f64();
    fill_f32(), check_f32();
    fill_bf16(), check_bf16();
    fill_i8(), check_i8();
    check_special_f64(), check_special_f32(), check_special_bf16();
}

int main(int argc, char **argv) {
    static const size_t large[] = {511,  512,  513,  1000, 1023,  1024,  1536,  2047,  2048,  2049,     4095,
                                   4096, 4097, 8191, 8192, 12287, 12288, 12289, 16384, 20000, COUNT_MAX};
    const mn_kernels *all[MN_KERNELS_MAX];
    size_t levels = mn_all_kernels(all), level, at,
           dense = argc > 1 && strcmp(argv[1], "quick") == 0 ? 140 : 400;
    map_memory();
    portable = all[0];
    for (level = 0; level < levels; level++) {
        kernels = all[level];
        for (count = 0; count < dense; count++) check_all();
        for (at = 0; at < sizeof large / sizeof *large; at++) count = large[at], check_all();
        check_long();
    }
    if (mn_best_kernels() != all[levels - 1]) return 1;
    printf("%lu comparisons of kernels, levels up to %s\n", checks, all[levels - 1]->name);
    return 0;
}
