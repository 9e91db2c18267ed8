/* mantissa_kernels.h - sums, extremes, products and distances of vectors of numbers, and bits counted.
 *
 * C99, usable alone in C and C++ with the folder kernels beside it. It always declares; in exactly one
 * source file write
 *
 *     #define MANTISSA_KERNELS_IMPLEMENTATION
 *     #include "mantissa_kernels.h"
 *
 * (or define MANTISSA_NUMBER_STATIC as well, in any number of files, for private copies).
 *
 *     const mn_kernels *kernels = mn_best_kernels();
 *     double product = kernels->dot_f64(left, right, count);
 *
 * | level      | needs                                                                     |
 * | ---------- | ------------------------------------------------------------------------- |
 * | portable   | C99                                                                       |
 * | sse2       | 64-bit x86                                                                |
 * | avx2       | AVX2                                                                      |
 * | avx512     | AVX-512 F, BW, DQ, VL, VNNI, VPOPCNTDQ, and BMI2 (Ice Lake, Zen 4, later) |
 * | avx512bf16 | AVX-512 BF16 too (Sapphire Rapids, Zen 4, later)                          |
 * | neon       | aarch64, little-endian                                                    |
 *
 * Levels but the portable one need gcc 9 or clang 9, or later ones.
 *
 * Guarantees. Nothing outside the vectors is read, they need no alignment beyond their type's, nothing is
 * allocated. Results of int8 and of bits are exact. Those of floats have the same bits at every level, but
 * for sums, products, distances and cosines of bf16 at level avx512bf16, and for the bits of a NaN. Products
 * are rounded before they are added (never fused), and additions follow one order. Number i of a block is
 * added to lane i % L; the lanes of a block are added in halves (lane i and lane i + L/2, and so on), the
 * blocks in pairs, as in a tournament. L and the length B of a block are
 *
 * | kernel                | L for f32, bf16 | L for f64 | B       |
 * | --------------------- | --------------- | --------- | ------- |
 * | sum                   | 64              | 32        | 128 L   |
 * | dot, squared_distance | 32              | 16        | 128 L   |
 * | cosine                | 16              | 8         | 128 L   |
 *
 * so the error of a sum of n numbers is at most (128 + log2 L + log2(n / B) rounded up, where n > B) * u
 * times the sum of their magnitudes, u being 2^-24 (f32 and bf16) or 2^-53 (f64), where nothing overflows.
 * Products and squares add one u, differences two. Each product or square below the least normal number adds
 * 2^-150 (f32 and bf16) or 2^-1075 (f64).
 *
 * The processor is expected to round to nearest and to keep subnormal numbers, and the compiler to compute
 * with the precision of the type (FLT_EVAL_METHOD 0), which x87 does not, and without -ffast-math.
 *
 * vdpbf16ps, of level avx512bf16, takes subnormal numbers of both sides and of its results for zero, and adds
 * in pairs. The error of sum, dot and squared_distance is at most (n / 64 + 8) * 2^-23 times the sum of the
 * magnitudes, plus n * 2^-125, plus, for dot, the products with a subnormal factor, which are left out.
 *
 * bf16 is the upper half of a binary32 in a uint16_t. Bits are bytes; `count` counts numbers, `size` bytes.
 */
#ifndef MANTISSA_KERNELS_H
#define MANTISSA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifndef MN_API
#if defined(MANTISSA_NUMBER_STATIC) && defined(__GNUC__)
#define MN_API static __attribute__((unused))
#elif defined(MANTISSA_NUMBER_STATIC)
#define MN_API static
#elif defined(__cplusplus)
#define MN_API extern "C"
#else
#define MN_API extern
#endif
#endif

/* The functions of one level. */
typedef struct {
    const char *name; /* the level */

    /* The sum; 0 for no numbers. */
    double (*sum_f64)(const double *values, size_t count);
    float (*sum_f32)(const float *values, size_t count);
    float (*sum_bf16)(const uint16_t *values, size_t count);
    int64_t (*sum_i8)(const int8_t *values, size_t count);

    /* The least and the greatest. NaNs are left out; without a number the result is that of an empty
     * comparison, inf for the least and -inf for the greatest (127 and -128 for int8). Which of zeros of both
     * signs it is depends on their places, not on the level. */
    double (*min_f64)(const double *values, size_t count);
    float (*min_f32)(const float *values, size_t count);
    float (*min_bf16)(const uint16_t *values, size_t count);
    int8_t (*min_i8)(const int8_t *values, size_t count);
    double (*max_f64)(const double *values, size_t count);
    float (*max_f32)(const float *values, size_t count);
    float (*max_bf16)(const uint16_t *values, size_t count);
    int8_t (*max_i8)(const int8_t *values, size_t count);

    /* The sum of the products; of bits, how many are set on both sides. */
    double (*dot_f64)(const double *left, const double *right, size_t count);
    float (*dot_f32)(const float *left, const float *right, size_t count);
    float (*dot_bf16)(const uint16_t *left, const uint16_t *right, size_t count);
    int64_t (*dot_i8)(const int8_t *left, const int8_t *right, size_t count);
    uint64_t (*dot_bits)(const void *left, const void *right, size_t size);

    /* The sum of the squares of the differences; of bits, how many differ. */
    double (*squared_distance_f64)(const double *left, const double *right, size_t count);
    float (*squared_distance_f32)(const float *left, const float *right, size_t count);
    float (*squared_distance_bf16)(const uint16_t *left, const uint16_t *right, size_t count);
    int64_t (*squared_distance_i8)(const int8_t *left, const int8_t *right, size_t count);
    uint64_t (*hamming)(const void *left, const void *right, size_t size);

    /* The cosine of the angle between both, from -1 to 1: the product over the roots of the sums of squares;
     * 0 if either side's sum is 0. */
    double (*cosine_f64)(const double *left, const double *right, size_t count);
    double (*cosine_f32)(const float *left, const float *right, size_t count);
    double (*cosine_bf16)(const uint16_t *left, const uint16_t *right, size_t count);
    double (*cosine_i8)(const int8_t *left, const int8_t *right, size_t count);
    double (*cosine_bits)(const void *left, const void *right, size_t size);

    /* One bit a number, set where it is above zero: number i in bit i % 64 of word i / 64. The bits left over
     * in the last word are 0. */
    void (*sign_f64)(uint64_t *words, const double *values, size_t count);
    void (*sign_f32)(uint64_t *words, const float *values, size_t count);
    void (*sign_bf16)(uint64_t *words, const uint16_t *values, size_t count);
    void (*sign_i8)(uint64_t *words, const int8_t *values, size_t count);

    /* How many bits are set. */
    uint64_t (*popcount)(const void *bits, size_t size);
} mn_kernels;

/* The fastest level that this processor can run. */
MN_API const mn_kernels *mn_best_kernels(void);

/* All levels that this processor can run, the fastest last; returns how many. */
enum { MN_KERNELS_MAX = 5 };
MN_API size_t mn_all_kernels(const mn_kernels *out[MN_KERNELS_MAX]);

#endif /* MANTISSA_KERNELS_H */

#if defined(MANTISSA_KERNELS_IMPLEMENTATION) && !defined(MANTISSA_KERNELS_IMPLEMENTED)
#define MANTISSA_KERNELS_IMPLEMENTED

#include <float.h>
#include <math.h>
#include <string.h>

#ifdef __GNUC__
#define MN__K_INLINE static inline __attribute__((always_inline, unused))
#else
#define MN__K_INLINE static inline
#endif

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(_M_FP_FAST) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "mantissa_kernels.h relies on the order of additions, NaNs and infinities: compile without -ffast-math"
#endif

#if defined(__clang__)
#define MN__K_COMPILER (__clang_major__ >= 9)
#elif defined(__GNUC__)
#define MN__K_COMPILER (__GNUC__ >= 9)
#else
#define MN__K_COMPILER 0
#endif
#if MN__K_COMPILER && !defined(MN_NO_SIMD)
#if defined(__x86_64__)
/* The compiler's own headers say a value is used that is not set where it does not matter (GCC 12 as C++). */
#ifndef __clang__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <cpuid.h>
#include <immintrin.h>
#define MN__K_X86 1
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>
#define MN__K_NEON 1
#endif
#endif

/* ---- For all levels */

enum {
    MN__ROWS = 128, /* rows of lanes in a block: the additions of a lane weigh with 128 u, the bound's largest
                       part */
    MN__BYTES = 1 << 15, /* int8 numbers of which the sum of squared differences fits in 32 bits */
    MN__PAIRS_MAX = 64   /* sums that wait for their pair: one for each bit of a count of blocks */
};

/* A block's sum joins those before it: index is the number of blocks before this one. `width` sums each. */
#define MN__PAIR_UP(type)                                                                           \
    MN__K_INLINE size_t mn__pair_up_##type(type *stack, size_t depth, size_t width, size_t index) { \
        size_t at;                                                                                  \
        for (; index & 1; index >>= 1, depth--)                                                     \
            for (at = 0; at < width; at++)                                                          \
                stack[(depth - 2) * width + at] += stack[(depth - 1) * width + at];                 \
        return depth;                                                                               \
    }                                                                                               \
    MN__K_INLINE void mn__end_pairs_##type(type *stack, size_t depth, size_t width) {               \
        size_t at;                                                                                  \
        for (; depth > 1; depth--)                                                                  \
            for (at = 0; at < width; at++)                                                          \
                stack[(depth - 2) * width + at] += stack[(depth - 1) * width + at];                 \
    }
MN__PAIR_UP(double)
MN__PAIR_UP(float)
#undef MN__PAIR_UP

MN__K_INLINE double mn__cosine(double product, double left, double right) {
    /* The roots, because the product of the squares may leave the range. */
    double cosine, lengths = sqrt(left) * sqrt(right);
    if (left == 0 || right == 0) return 0;
    cosine = product / lengths;
    return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}

MN__K_INLINE float mn__from_bf16(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

MN__K_INLINE unsigned mn__count_bits(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return (unsigned)(((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}

/* Up to eight bytes, in the machine's order, and zeros. */
MN__K_INLINE uint64_t mn__load_word(const void *in, size_t size) {
    uint64_t word = 0;
    memcpy(&word, in, size);
    return word;
}

#if defined(MN__K_X86) || defined(MN__K_NEON)
/* 1 to 16 bytes and zeros, as two words of a little-endian machine, by loads that overlap. */
MN__K_INLINE void mn__load_part(uint64_t words[2], const void *in, size_t size) {
    const unsigned char *bytes = (const unsigned char *)in;
    uint64_t first, last;
    words[1] = 0;
    if (size > 8) {
        memcpy(&first, bytes, 8);
        memcpy(&last, bytes + size - 8, 8);
        words[1] = last >> (8 * (16 - size));
    } else if (size == 8) {
        memcpy(&first, bytes, 8);
    } else if (size >= 4) {
        uint32_t low, high;
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + size - 4, 4);
        first = low | (uint64_t)high << (8 * (size - 4));
    } else {
        first = bytes[0] | (uint64_t)bytes[size / 2] << (8 * (size / 2)) |
                (uint64_t)bytes[size - 1] << (8 * (size - 1));
    }
    words[0] = first;
}

/* From place 8 - n on: n words of ones and the rest zeros. */
static const int32_t mn__mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
#endif

/* Loads from a pointer are not taken to be aligned: AddressSanitizer of gcc 12 puts arrays on its own stack,
 * of which it aligns none to 64 bytes. */
#ifdef __GNUC__
#define MN__K_HIDE(pointer) __asm__("" : "+r"(pointer))
#else
#define MN__K_HIDE(pointer) (void)(pointer)
#endif

/* The rounded product is kept from being fused with an addition. */
#if defined(MN__K_X86)
#define MN__K_KEEP(vector) __asm__("" : "+v"(vector))
#elif defined(MN__K_NEON)
#define MN__K_KEEP(vector) __asm__("" : "+w"(vector))
#endif

/* The table of a level: every function in the order of mn_kernels; sums of bf16 may be another level's. */
#define MN__K_TABLE(name, level, of_bf16)          \
    static const mn_kernels mn__kernels_##name = { \
        #name,                                     \
        mn__sum_f64_##level,                       \
        mn__sum_f32_##level,                       \
        mn__sum_bf16_##of_bf16,                    \
        mn__sum_i8_##level,                        \
        mn__min_f64_##level,                       \
        mn__min_f32_##level,                       \
        mn__min_bf16_##level,                      \
        mn__min_i8_##level,                        \
        mn__max_f64_##level,                       \
        mn__max_f32_##level,                       \
        mn__max_bf16_##level,                      \
        mn__max_i8_##level,                        \
        mn__dot_f64_##level,                       \
        mn__dot_f32_##level,                       \
        mn__dot_bf16_##of_bf16,                    \
        mn__dot_i8_##level,                        \
        mn__dot_bits_##level,                      \
        mn__squared_distance_f64_##level,          \
        mn__squared_distance_f32_##level,          \
        mn__squared_distance_bf16_##of_bf16,       \
        mn__squared_distance_i8_##level,           \
        mn__hamming_##level,                       \
        mn__cosine_f64_##level,                    \
        mn__cosine_f32_##level,                    \
        mn__cosine_bf16_##of_bf16,                 \
        mn__cosine_i8_##level,                     \
        mn__cosine_bits_##level,                   \
        mn__sign_f64_##level,                      \
        mn__sign_f32_##level,                      \
        mn__sign_bf16_##level,                     \
        mn__sign_i8_##level,                       \
        mn__popcount_##level,                      \
    }

#define MN__LESS(a, b) ((a) < (b) ? (a) : (b))
#define MN__GREATER(a, b) ((a) > (b) ? (a) : (b))

/* ---- Portable */

/* Where a compiler may fuse a product with an addition, the product takes a way through memory. clang does
 * not say: its option -ffp-contract=fast fuses across statements. */
#if defined(__FP_FAST_FMA) || defined(__FP_FAST_FMAF) || FLT_EVAL_METHOD != 0
#define MN__K_ROUNDED volatile
#elif defined(__clang__) && (defined(__FMA__) || defined(__FMA4__))
#define MN__K_ROUNDED volatile
#elif defined(__clang__) && !defined(__x86_64__) && !defined(__i386__) && !defined(__wasm__)
#define MN__K_ROUNDED volatile
#else
#define MN__K_ROUNDED
#endif
MN__K_INLINE float mn__multiply_f(float a, float b) {
    MN__K_ROUNDED float product = a * b;
    return product;
}
MN__K_INLINE double mn__multiply_d(double a, double b) {
    MN__K_ROUNDED double product = a * b;
    return product;
}

#define MN__SIGN(values, is_above)                                  \
    int at;                                                         \
    uint64_t word = 0;                                              \
    for (at = 0; at < 64; at++) word |= (uint64_t)(is_above) << at; \
    return word
MN__K_INLINE uint64_t mn__sign_d(const double *values) { MN__SIGN(values, values[at] > 0); }
MN__K_INLINE uint64_t mn__sign_f(const float *values) { MN__SIGN(values, values[at] > 0); }
MN__K_INLINE uint64_t mn__sign_b(const uint16_t *values) { MN__SIGN(values, values[at] - 1u < 0x7f80); }
MN__K_INLINE uint64_t mn__sign_i(const int8_t *values) { MN__SIGN(values, values[at] > 0); }
#undef MN__SIGN

#define MN__T static
#define MN__N(name) mn__##name##_portable
#define MN__UNROLL
#define MN__F float
#define MN__F_LEN 1
#define MN__F_ALL(x) (x)
#define MN__F_LOAD(p) (*(p))
#define MN__F_PART(p, n, rest) ((void)(n), (void)(rest), *(p))
#define MN__F_ADD(a, b) ((a) + (b))
#define MN__F_SUB(a, b) ((a) - (b))
#define MN__F_MUL(a, b) mn__multiply_f(a, b)
#define MN__F_MIN MN__LESS
#define MN__F_MAX MN__GREATER
#define MN__F_FOLD_ADD(v) (v)
#define MN__F_FOLD_MIN(v) (v)
#define MN__F_FOLD_MAX(v) (v)
#define MN__F_SIGN mn__sign_f
#define MN__D double
#define MN__D_LEN 1
#define MN__D_ALL MN__F_ALL
#define MN__D_LOAD MN__F_LOAD
#define MN__D_PART MN__F_PART
#define MN__D_ADD MN__F_ADD
#define MN__D_SUB MN__F_SUB
#define MN__D_MUL(a, b) mn__multiply_d(a, b)
#define MN__D_MIN MN__LESS
#define MN__D_MAX MN__GREATER
#define MN__D_FOLD_ADD(v) (v)
#define MN__D_FOLD_MIN(v) (v)
#define MN__D_FOLD_MAX(v) (v)
#define MN__D_SIGN mn__sign_d
#define MN__B_LOAD(p) mn__from_bf16(*(p))
#define MN__B_PART(p, n, rest) ((void)(n), (void)(rest), mn__from_bf16(*(p)))
#define MN__B_SIGN mn__sign_b
#define MN__I_SIGN mn__sign_i
#include "kernels/loops.h"
MN__K_TABLE(portable, portable, portable);

#ifndef __OPTIMIZE__
#define MN__K_UNROLL
#elif defined(__clang__)
#define MN__K_UNROLL _Pragma("unroll")
#else
#define MN__K_UNROLL _Pragma("GCC unroll 32")
#endif

#ifdef MN__K_X86
#include "kernels/x86.h"
#ifndef __clang__
#pragma GCC diagnostic pop
#endif
#endif
#ifdef MN__K_NEON
#include "kernels/neon.h"
#endif

#undef MN__LESS
#undef MN__GREATER
#undef MN__K_TABLE

/* ---- The choice */

#ifdef MN__K_X86
/* How many levels beyond portable processor and system have: 0 as long as nobody has asked. */
static int mn__x86_levels;

/* Not __builtin_cpu_supports, which needs a part of libgcc that static programs with musl are linked without.
 */
static int mn__find_x86_levels(void) {
    unsigned a, b, c, d, saved, high, features, bits;
    /* The system saves the registers (OSXSAVE, and what XGETBV says), and the processor has AVX. */
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & 0x18000000) != 0x18000000) return 1;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if ((saved & 6) != 6 || !__get_cpuid_count(7, 0, &a, &features, &bits, &d) || !(features >> 5 & 1))
        return 1;
    /* BMI2, AVX-512 F, DQ, BW and VL; VNNI and VPOPCNTDQ. */
    if ((saved & 0xe6) != 0xe6 || (features & 0xc0030100) != 0xc0030100 || (bits & 0x4800) != 0x4800)
        return 2;
#ifdef MN__K_HAS_BF16
    if (a && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1)) return 4;
#endif
    return 3;
}
#endif

MN_API size_t mn_all_kernels(const mn_kernels *out[MN_KERNELS_MAX]) {
    size_t count = 0;
    out[count++] = &mn__kernels_portable;
#ifdef MN__K_X86
    int levels = __atomic_load_n(&mn__x86_levels, __ATOMIC_RELAXED);
    if (!levels) __atomic_store_n(&mn__x86_levels, levels = mn__find_x86_levels(), __ATOMIC_RELAXED);
    out[count++] = &mn__kernels_sse2;
    if (levels >= 2) out[count++] = &mn__kernels_avx2;
    if (levels >= 3) out[count++] = &mn__kernels_avx512;
#ifdef MN__K_HAS_BF16
    if (levels >= 4) out[count++] = &mn__kernels_avx512bf16;
#endif
#endif
#ifdef MN__K_NEON
    out[count++] = &mn__kernels_neon;
#endif
    return count;
}

MN_API const mn_kernels *mn_best_kernels(void) {
    const mn_kernels *all[MN_KERNELS_MAX];
    return all[mn_all_kernels(all) - 1];
}

#endif /* MANTISSA_KERNELS_IMPLEMENTATION */
