/* Checks every level of mantissa_kernels.h that this processor can run: against plain loops, against the
 * documented order of additions and the portable level bit for bit, and with vectors that end, or begin,
 * where the memory does. `test_kernels quick` takes fewer lengths, for emulators. Prints how many comparisons
 * it made. */
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

/* A mapping that nothing readable precedes or follows, and another like it. */
static char *start_of_memory[2], *end_of_memory[2];
static int is_at_start;

static void map_memory(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (COUNT_MAX * sizeof(double) / page + 2) * page;
    int side;
    for (side = 0; side < 2; side++) {
        char *all = (char *)mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == (char *)MAP_FAILED || mprotect(all + page, size, PROT_READ | PROT_WRITE) != 0) {
            perror("test_kernels");
            exit(1);
        }
        start_of_memory[side] = all + page;
        end_of_memory[side] = all + page + size;
    }
}

/* The vectors of `count` numbers, at the memory's end or start. */
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
    size_t back = is_at_start ? 0 : count;
    char *place = is_at_start ? start_of_memory[side] : end_of_memory[side];
    f64[side] = (double *)(void *)place - back;
    f32[side] = (float *)(void *)place - back;
    bf16[side] = (uint16_t *)(void *)place - back;
    i8[side] = (int8_t *)place - back;
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

/* x87 keeps more digits than the type has. */
#define STRICT (FLT_EVAL_METHOD == 0)
#define SAME(x) (x)
#define FROM_BF16(x) mn__from_bf16(x)

/* The sum in the documented order, from the documentation alone: of numbers, of products, of squares of
 * differences. */
enum { NUMBERS, PRODUCTS, SQUARES };
#define IN_ORDER(suffix, element, result, AS_FLOAT)                                                         \
    static result in_order_##suffix(int what, const element *l, const element *r, size_t n, size_t width) { \
        volatile result term; /* Rounded. */                                                                \
        result lanes[64];                                                                                   \
        size_t at, block = 128 * width;                                                                     \
        if (n > block) {                                                                                    \
            size_t half = block;                                                                            \
            while (2 * half < n) half *= 2;                                                                 \
            return in_order_##suffix(what, l, r, half, width) +                                             \
                   in_order_##suffix(what, l + half, r + half, n - half, width);                            \
        }                                                                                                   \
        for (at = 0; at < width; at++) lanes[at] = 0;                                                       \
        for (at = 0; at < n; at++) {                                                                        \
            term = AS_FLOAT(l[at]);                                                                         \
            if (what == PRODUCTS) term = term * AS_FLOAT(r[at]);                                            \
            if (what == SQUARES) term = term - AS_FLOAT(r[at]);                                             \
            if (what == SQUARES) term = term * term;                                                        \
            lanes[at % width] += term;                                                                      \
        }                                                                                                   \
        for (width /= 2; width; width /= 2)                                                                 \
            for (at = 0; at < width; at++) lanes[at] += lanes[at + width];                                  \
        return lanes[0];                                                                                    \
    }                                                                                                       \
    /* `width` is that of products. */                                                                      \
    static void check_order_##suffix(size_t width) {                                                        \
        const element *l = suffix[0], *r = suffix[1];                                                       \
        result a, b;                                                                                        \
        double cosine, expected;                                                                            \
        a = kernels->sum_##suffix(l, count), b = in_order_##suffix(NUMBERS, l, r, count, 2 * width);        \
        CHECK(SAME_BITS(a, b), "order of sum_" #suffix, a);                                                 \
        a = kernels->dot_##suffix(l, r, count), b = in_order_##suffix(PRODUCTS, l, r, count, width);        \
        CHECK(SAME_BITS(a, b), "order of dot_" #suffix, a);                                                 \
        a = kernels->squared_distance_##suffix(l, r, count);                                                \
        b = in_order_##suffix(SQUARES, l, r, count, width);                                                 \
        CHECK(SAME_BITS(a, b), "order of squared_distance_" #suffix, a);                                    \
        width /= 2;                                                                                         \
        cosine = kernels->cosine_##suffix(l, r, count);                                                     \
        expected = mn__cosine(in_order_##suffix(PRODUCTS, l, r, count, width),                              \
                              in_order_##suffix(PRODUCTS, l, l, count, width),                              \
                              in_order_##suffix(PRODUCTS, r, r, count, width));                             \
        CHECK(SAME_BITS(cosine, expected), "order of cosine_" #suffix, cosine);                             \
    }
IN_ORDER(f64, double, double, SAME)
IN_ORDER(f32, float, float, SAME)
IN_ORDER(bf16, uint16_t, float, FROM_BF16)

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
        if (STRICT && !(is_free)) check_order_##suffix(LANES);                                             \
    }

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

/* Zeros of both signs: which the least and the greatest are is the same at all levels. No sum is -0. Signs of
 * the numbers next to zero and infinity. */
#define ZEROS(suffix, element, result, FROM)                                                              \
    static void check_zeros_##suffix(void) {                                                              \
        static const double edges[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, -1e-40, 1};            \
        element *l = suffix[0], *r = suffix[1];                                                           \
        uint64_t words[COUNT_MAX / 64 + 2];                                                               \
        result a, b;                                                                                      \
        size_t at;                                                                                        \
        for (at = 0; at < count; at++) l[at] = FROM(edges[random_word() >> 63]), r[at] = FROM(-0.0);      \
        a = kernels->min_##suffix(l, count), b = portable->min_##suffix(l, count);                        \
        CHECK(SAME_BITS(a, b), "zero of min_" #suffix, a);                                                \
        a = kernels->max_##suffix(l, count), b = portable->max_##suffix(l, count);                        \
        CHECK(SAME_BITS(a, b), "zero of max_" #suffix, a);                                                \
        a = kernels->sum_##suffix(r, count), b = 0;                                                       \
        CHECK(SAME_BITS(a, b), "sum of -0, " #suffix, a);                                                 \
        CHECK(kernels->cosine_##suffix(l, r, count) == 0, "zero of cosine_" #suffix, 0);                  \
        for (at = 0; at < count; at++) l[at] = FROM(edges[at % 8]), r[at] = FROM(1.0);                    \
        kernels->sign_##suffix(words, l, count);                                                          \
        for (at = 0; at < count; at++)                                                                    \
            CHECK((words[at / 64] >> at % 64 & 1) == (0xa4 >> at % 8 & 1), "edges of sign_" #suffix, at); \
        for (at = 0; at < count; at++) l[at] = FROM(0.0);                                                 \
        CHECK(kernels->cosine_##suffix(l, r, count) == 0, "left zero of cosine_" #suffix, 0);             \
        CHECK(kernels->cosine_##suffix(r, l, count) == 0, "right zero of cosine_" #suffix, 0);            \
        for (at = 0; at < count; at++) l[at] = FROM(INFINITY), r[at] = FROM(-INFINITY);                   \
        a = kernels->min_##suffix(l, count);                                                              \
        CHECK(a == (result)INFINITY, "inf of min_" #suffix, a);                                           \
        a = kernels->max_##suffix(r, count);                                                              \
        CHECK(a == -(result)INFINITY, "-inf of max_" #suffix, a);                                         \
    }
#define TO_FLOAT(x) ((float)(x))
#define TO_BF16(x) to_bf16((float)(x))
ZEROS(f64, double, double, SAME)
ZEROS(f32, float, float, TO_FLOAT)
ZEROS(bf16, uint16_t, float, TO_BF16)

/* NaN, infinities, zeros of both signs and subnormal numbers in every place of some vectors. */
#define SPECIAL(suffix, element, result, FROM, AS_FLOAT, is_free)                                          \
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
            int pair, has_nan;                                                                             \
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
            for (at = 0, has_nan = 0; at < count; at++) has_nan |= AS_FLOAT(l[at]) != AS_FLOAT(l[at]);     \
            pairs[0] = kernels->sum_##suffix(l, count);                                                    \
            CHECK(!has_nan || pairs[0] != pairs[0], "NaN of sum_" #suffix, pairs[0]);                      \
            kernels->sign_##suffix(words, l, count), portable->sign_##suffix(others, l, count);            \
            CHECK(memcmp(words, others, (count + 63) / 64 * 8) == 0, "special sign_" #suffix, count);      \
        }                                                                                                  \
        check_zeros_##suffix();                                                                            \
    }
SPECIAL(f64, double, double, SAME, SAME, 0)
SPECIAL(f32, float, float, TO_FLOAT, SAME, 0)
SPECIAL(bf16, uint16_t, float, TO_BF16, FROM_BF16, is_pairwise())

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

/* A vector of no numbers may be NULL. */
static void check_none(void) {
    count = 0;
    CHECK(kernels->sum_f64(NULL, 0) == 0 && kernels->sum_f32(NULL, 0) == 0, "none: sum", 0);
    CHECK(kernels->sum_bf16(NULL, 0) == 0 && kernels->sum_i8(NULL, 0) == 0, "none: sum", 0);
    CHECK(kernels->min_f64(NULL, 0) > 0 && kernels->min_f32(NULL, 0) > 0, "none: min", 0);
    CHECK(kernels->min_bf16(NULL, 0) > 0 && kernels->min_i8(NULL, 0) == 127, "none: min", 0);
    CHECK(kernels->max_f64(NULL, 0) < 0 && kernels->max_f32(NULL, 0) < 0, "none: max", 0);
    CHECK(kernels->max_bf16(NULL, 0) < 0 && kernels->max_i8(NULL, 0) == -128, "none: max", 0);
    CHECK(kernels->dot_f64(NULL, NULL, 0) == 0 && kernels->dot_f32(NULL, NULL, 0) == 0, "none: dot", 0);
    CHECK(kernels->dot_bf16(NULL, NULL, 0) == 0 && kernels->dot_i8(NULL, NULL, 0) == 0, "none: dot", 0);
    CHECK(kernels->dot_bits(NULL, NULL, 0) == 0 && kernels->popcount(NULL, 0) == 0, "none: bits", 0);
    CHECK(kernels->squared_distance_f64(NULL, NULL, 0) == 0, "none: distance", 0);
    CHECK(kernels->squared_distance_f32(NULL, NULL, 0) == 0, "none: distance", 0);
    CHECK(kernels->squared_distance_bf16(NULL, NULL, 0) == 0, "none: distance", 0);
    CHECK(kernels->squared_distance_i8(NULL, NULL, 0) == 0, "none: distance", 0);
    CHECK(kernels->hamming(NULL, NULL, 0) == 0, "none: distance", 0);
    CHECK(kernels->cosine_f64(NULL, NULL, 0) == 0 && kernels->cosine_f32(NULL, NULL, 0) == 0, "none: cosine",
          0);
    CHECK(kernels->cosine_bf16(NULL, NULL, 0) == 0 && kernels->cosine_i8(NULL, NULL, 0) == 0, "none: cosine",
          0);
    CHECK(kernels->cosine_bits(NULL, NULL, 0) == 0, "none: cosine", 0);
    kernels->sign_f64(NULL, NULL, 0), kernels->sign_f32(NULL, NULL, 0);
    kernels->sign_bf16(NULL, NULL, 0), kernels->sign_i8(NULL, NULL, 0);
}

/* Cosines of vectors whose product of squares leaves the range, and of one direction. */
static void check_cosine(void) {
    double large[3] = {1e120, -3e120, 2e120}, small[3] = {1e-120, -3e-120, 2e-120};
    float numbers[3] = {1e12f, -3e12f, 2e12f};
    count = 3;
    CHECK(fabs(kernels->cosine_f64(large, large, 3) - 1) < 1e-15, "large cosine_f64", 0);
    CHECK(fabs(kernels->cosine_f64(small, small, 3) - 1) < 1e-15, "small cosine_f64", 0);
    CHECK(fabs(kernels->cosine_f64(small, large, 3) - 1) < 1e-15, "cosine_f64", 0);
    CHECK(fabs(kernels->cosine_f32(numbers, numbers, 3) - 1) < 1e-6, "large cosine_f32", 0);
    for (count = 1; count < 500; count++) {
        size_t at;
        double same;
        place(0), place(1);
        for (at = 0; at < count; at++) f64[1][at] = -(f64[0][at] = random_number());
        same = kernels->cosine_f64(f64[0], f64[0], count);
        CHECK(same <= 1 && same > 1 - 1e-14, "cosine_f64 of the same", same);
        same = kernels->cosine_f64(f64[0], f64[1], count);
        CHECK(same >= -1 && same < -1 + 1e-14, "cosine_f64 of the opposite", same);
    }
}

/* The signs of all patterns of bf16. */
static void check_signs(void) {
    static uint16_t all[1 << 16];
    uint64_t words[(1 << 16) / 64];
    for (count = 0; count < 1 << 16; count++) all[count] = (uint16_t)count;
    kernels->sign_bf16(words, all, count);
    for (count = 0; count < 1 << 16; count++)
        CHECK((words[count / 64] >> count % 64 & 1) == (FROM_BF16(all[count]) > 0), "pattern of sign_bf16",
              0);
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
        is_at_start = 1;
        for (count = 0; count < 140; count++) check_all();
        is_at_start = 0;
        for (at = 0; at < sizeof large / sizeof *large; at++) count = large[at], check_all();
        check_long();
        check_none();
        check_cosine();
        check_signs();
    }
    if (mn_best_kernels() != all[levels - 1]) return 1;
    printf("%lu comparisons of kernels, levels up to %s\n", checks, all[levels - 1]->name);
    return 0;
}
