/* mantissa_number.h - read, print and ship numbers, exactly.
 *
 * One C99 header, usable alone in C and C++. It always declares; in exactly one source file write
 *
 *     #define MANTISSA_NUMBER_IMPLEMENTATION
 *     #include "mantissa_number.h"
 *
 * (or define MANTISSA_NUMBER_STATIC as well, in any number of files, for private copies that can be inlined).
 *
 * Guarantees. Reading is correctly rounded, to nearest with ties to even, for every input, and printing is
 * the shortest text that reads back as the same value, the closest among those. The locale, the rounding mode
 * and errno are neither looked at nor changed. A range [first, last) needs no NUL and nothing outside it is
 * read. Nothing is allocated; the largest stack frame is about 1 KB, in the exact comparison that digits
 * beyond the 19th may need.
 *
 * Sources. Reading: Daniel Lemire, "Number Parsing at a Gigabyte per Second" (2021), with Noble Mushtak and
 * Daniel Lemire, "Fast Number Parsing Without Fallback" (2023), and William Clinger's short way (1990).
 * Printing: Raffaello Giulietti, "The Schubfach way to render doubles" (2020); taking the last digit from the
 * fraction of the tens is Xiang Junbo's improvement (xjb, 2025), as described in Victor Zverovich's zmij.
 * The powers are made by tables/make_powers.py.
 */
#ifndef MANTISSA_NUMBER_H
#define MANTISSA_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#if defined(MANTISSA_NUMBER_STATIC) && defined(__GNUC__)
#define MN_API static __attribute__((unused))
#elif defined(MANTISSA_NUMBER_STATIC)
#define MN_API static
#elif defined(__cplusplus)
#define MN_API extern "C"
#else
#define MN_API extern
#endif

/* What a reader found. Out of range is a number that is too large (the value is an infinity; for an integer
 * it is left alone) or that is not zero but too small (the value is a zero). */
typedef enum { MN_OK = 0, MN_INVALID, MN_OUT_OF_RANGE } mn_status;

/* Where the number ends, and how it went. With MN_INVALID the end is the beginning and the value is left
 * alone. */
typedef struct {
    const char *end;
    mn_status status;
} mn_result;

/* Flags of mn_options. */
enum {
    MN_JSON = 1,            /* the grammar of JSON: no plus, no leading zeros, no bare point, no inf or nan */
    MN_NO_SPECIAL = 2,      /* no inf, infinity or nan */
    MN_FIXED_ONLY = 4,      /* stop before an exponent */
    MN_SCIENTIFIC_ONLY = 8, /* refuse a number without an exponent */
    MN_NO_PLUS = 16         /* refuse a leading plus, as std::from_chars does */
};

typedef struct {
    char point;     /* the decimal point: '.' unless the text is written otherwise */
    unsigned flags; /* of the above */
} mn_options;

/* Read a number from the start of [first, last): the general format of C++17's from_chars, a leading plus as
 * well as a minus, and inf, infinity, nan and nan(text) in any case. A float is rounded once, from the
 * decimal text. */
MN_API mn_result mn_parse_f64(const char *first, const char *last, double *out);
MN_API mn_result mn_parse_f32(const char *first, const char *last, float *out);
MN_API mn_result mn_parse_f64_with(const char *first, const char *last, double *out,
                                   const mn_options *options);
MN_API mn_result mn_parse_f32_with(const char *first, const char *last, float *out,
                                   const mn_options *options);

/* Read a decimal integer: digits, after a minus if the type has a sign. */
MN_API mn_result mn_parse_i64(const char *first, const char *last, int64_t *out);
MN_API mn_result mn_parse_u64(const char *first, const char *last, uint64_t *out);
MN_API mn_result mn_parse_u32(const char *first, const char *last, uint32_t *out);
MN_API mn_result mn_parse_u8(const char *first, const char *last, uint8_t *out);

/* The bytes that a writer's buffer must have. Writers may scribble over all of them; they return where the
 * text ends, and write no NUL. */
enum { MN_F64_MAX = 40, MN_F32_MAX = 40, MN_I64_MAX = 32, MN_U64_MAX = 32, MN_VARINT_MAX = 10 };

/* Print the shortest digits that read back as the same value: in place from 0.00001 up to 1e17 (12.5, 3,
 * 0.00012), with an exponent beyond (1.5e-7, 1e+20); inf, -inf, nan, -0. */
MN_API char *mn_write_f64(char *out, double value);
MN_API char *mn_write_f32(char *out, float value);
MN_API char *mn_write_i64(char *out, int64_t value);
MN_API char *mn_write_u64(char *out, uint64_t value);

/* Print a fraction as Redis 8.2 prints a score, into MN_F64_MAX bytes. Redis takes its digits from the Grisu2
 * algorithm, which now and then misses the shortest; where that cannot be excluded (one value in some thirty,
 * and zero, infinities and NaN) nothing is printed and NULL is returned. Integral values within 2^62 are not
 * this function's to print. */
MN_API char *mn_try_write_score(char *out, double value);

/* Big-endian (be) and little-endian (le) bytes of any alignment. */
MN_API void mn_store_f64_be(void *out, double value);
MN_API void mn_store_f64_le(void *out, double value);
MN_API void mn_store_f32_be(void *out, float value);
MN_API void mn_store_f32_le(void *out, float value);
MN_API double mn_load_f64_be(const void *in);
MN_API double mn_load_f64_le(const void *in);
MN_API float mn_load_f32_be(const void *in);
MN_API float mn_load_f32_le(const void *in);

/* The same for many numbers, at memory bandwidth. Each returns the bytes written (encode) or read (decode).
 * The two places may be the same, but must not otherwise overlap. */
MN_API size_t mn_encode_f64_be(void *out, const double *values, size_t count);
MN_API size_t mn_encode_f64_le(void *out, const double *values, size_t count);
MN_API size_t mn_encode_f32_be(void *out, const float *values, size_t count);
MN_API size_t mn_encode_f32_le(void *out, const float *values, size_t count);
MN_API size_t mn_decode_f64_be(double *out, const void *in, size_t count);
MN_API size_t mn_decode_f64_le(double *out, const void *in, size_t count);
MN_API size_t mn_decode_f32_be(float *out, const void *in, size_t count);
MN_API size_t mn_decode_f32_le(float *out, const void *in, size_t count);

/* LEB128: seven bits a byte, lowest first, the top bit set on all but the last. Reading fails with MN_INVALID
 * if the range ends inside the number, and with MN_OUT_OF_RANGE if it does not fit in 64 bits. */
MN_API char *mn_write_varint(char *out, uint64_t value);
MN_API mn_result mn_read_varint(const char *first, const char *last, uint64_t *out);

/* Signed to unsigned and back so that small magnitudes stay small: 0, -1, 1, -2 become 0, 1, 2, 3. */
MN_API uint64_t mn_zigzag(int64_t value);
MN_API int64_t mn_unzigzag(uint64_t value);

#endif /* MANTISSA_NUMBER_H */

#if defined(MANTISSA_NUMBER_IMPLEMENTATION) && !defined(MANTISSA_NUMBER_IMPLEMENTED)
#define MANTISSA_NUMBER_IMPLEMENTED

#include <float.h>
#include <string.h>

/* ---- The compiler and the machine
 * ---------------------------------------------------------------------------- */

#if defined(__GNUC__)
#define MN__INLINE static inline __attribute__((always_inline, unused))
#define MN__OUTLINE static __attribute__((noinline, unused))
#define MN__COLD static __attribute__((noinline, cold, unused))
#define MN__LIKELY(condition) __builtin_expect(!!(condition), 1)
#define MN__UNLIKELY(condition) __builtin_expect(!!(condition), 0)
/* Keeps the compiler from turning what a value is used for into a branch that would be mispredicted. */
#define MN__NO_BRANCH(value) __asm__("" : "+r"(value))
#else
#define MN__INLINE static inline
#define MN__OUTLINE static
#define MN__COLD static
#define MN__LIKELY(condition) (condition)
#define MN__UNLIKELY(condition) (condition)
#define MN__NO_BRANCH(value) (void)(value)
#endif

/* MN_FORCE_BIG_ENDIAN_PATHS makes a little-endian machine go the byte-by-byte way of a big-endian one, for
 * tests. */
#if defined(MN_FORCE_BIG_ENDIAN_PATHS)
#define MN__LITTLE_ENDIAN 0
#elif defined(__BYTE_ORDER__)
#define MN__LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#elif defined(_WIN32)
#define MN__LITTLE_ENDIAN 1
#else
#define MN__LITTLE_ENDIAN 0
#endif

#if defined(__SSE2__) && defined(__GNUC__) && !defined(MN_ROUNDS_TO_NEAREST)
#include <xmmintrin.h>
#endif

#if defined(__GNUC__) && defined(__x86_64__) && MN__LITTLE_ENDIAN && !defined(MN_NO_SIMD)
#include <cpuid.h>
#include <immintrin.h>
#define MN__AVX2 1
#endif

#if defined(__SIZEOF_INT128__) && !defined(MN_FORCE_64_BIT)
__extension__ typedef unsigned __int128 mn__u128;
#define MN__HAS_U128 1
#endif

typedef struct {
    uint64_t low, high;
} mn__wide;

MN__INLINE mn__wide mn__multiply(uint64_t a, uint64_t b) {
    mn__wide product;
#ifdef MN__HAS_U128
    mn__u128 wide = (mn__u128)a * b;
    product.low = (uint64_t)wide;
    product.high = (uint64_t)(wide >> 64);
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;
    product.low = other << 32 | (uint32_t)low;
    product.high = a1 * b1 + (middle >> 32) + (other >> 32);
#endif
    return product;
}

/* The zero bits above the highest one of a value that is not zero. */
MN__INLINE unsigned mn__leading_zeros(uint64_t value) {
#ifdef __GNUC__
    return (unsigned)__builtin_clzll(value);
#else
    unsigned count = 0;
    while (!(value >> 63)) value <<= 1, count++;
    return count;
#endif
}

/* The zero bits below the lowest one; 64 for zero. */
MN__INLINE unsigned mn__trailing_zeros(uint64_t value) {
#ifdef __GNUC__
    return value ? (unsigned)__builtin_ctzll(value) : 64;
#else
    unsigned count = 0;
    while (count < 64 && !(value >> count & 1)) count++;
    return count;
#endif
}

/* Eight bytes as a number whose lowest byte is the first one. */
MN__INLINE uint64_t mn__load8(const void *in) {
#if MN__LITTLE_ENDIAN
    uint64_t word;
    memcpy(&word, in, 8);
    return word;
#else
    const unsigned char *bytes = (const unsigned char *)in;
    uint64_t word = 0;
    int index;
    for (index = 7; index >= 0; index--) word = word << 8 | bytes[index];
    return word;
#endif
}

MN__INLINE uint32_t mn__load4(const void *in) {
#if MN__LITTLE_ENDIAN
    uint32_t word;
    memcpy(&word, in, 4);
    return word;
#else
    const unsigned char *bytes = (const unsigned char *)in;
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
#endif
}

MN__INLINE void mn__store8(void *out, uint64_t word) {
#if MN__LITTLE_ENDIAN
    memcpy(out, &word, 8);
#else
    unsigned char *bytes = (unsigned char *)out;
    int index;
    for (index = 0; index < 8; index++) bytes[index] = (unsigned char)(word >> 8 * index);
#endif
}

MN__INLINE void mn__store4(void *out, uint32_t word) {
#if MN__LITTLE_ENDIAN
    memcpy(out, &word, 4);
#else
    unsigned char *bytes = (unsigned char *)out;
    int index;
    for (index = 0; index < 4; index++) bytes[index] = (unsigned char)(word >> 8 * index);
#endif
}

MN__INLINE uint64_t mn__f64_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

MN__INLINE uint32_t mn__f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

/* Whether the machine rounds to nearest just now. */
MN__INLINE int mn__rounds_to_nearest(void) {
#if defined(MN_ROUNDS_TO_NEAREST)
    return 1;
#elif defined(__SSE2__) && defined(__GNUC__)
    return (_mm_getcsr() & 0x6000) == 0;
#else
    volatile float tiny = FLT_MIN;
    float above = 1.0f + tiny, below = 1.0f - tiny;
    return above == below;
#endif
}

/* ---- Tables
 * -------------------------------------------------------------------------------------------------- */

enum { MN__POWER_FIRST = -342, MN__POWER_LAST = 324, MN__EXACT_LAST = 55 };

/* The significand of 10^q, high half then low half, from MN__POWER_FIRST on: exact where it fits in 128 bits,
 * cut off for larger q, rounded up for negative q. */
static const uint64_t mn__powers[2 * (MN__POWER_LAST - MN__POWER_FIRST + 1)] = {
    /* clang-format off */
    /* powers: begin */
    0xeef453d6923bd65a, 0x113faa2906a13b40, 0x9558b4661b6565f8, 0x4ac7ca59a424c508, 0xbaaee17fa23ebf76,
    0x5d79bcf00d2df64a, 0xe95a99df8ace6f53, 0xf4d82c2c107973dd, 0x91d8a02bb6c10594, 0x79071b9b8a4be86a,
    0xb64ec836a47146f9, 0x9748e2826cdee285, 0xe3e27a444d8d98b7, 0xfd1b1b2308169b26, 0x8e6d8c6ab0787f72,
    0xfe30f0f5e50e20f8, 0xb208ef855c969f4f, 0xbdbd2d335e51a936, 0xde8b2b66b3bc4723, 0xad2c788035e61383,
    0x8b16fb203055ac76, 0x4c3bcb5021afcc32, 0xaddcb9e83c6b1793, 0xdf4abe242a1bbf3e, 0xd953e8624b85dd78,
    0xd71d6dad34a2af0e, 0x87d4713d6f33aa6b, 0x8672648c40e5ad69, 0xa9c98d8ccb009506, 0x680efdaf511f18c3,
    0xd43bf0effdc0ba48, 0x0212bd1b2566def3, 0x84a57695fe98746d, 0x014bb630f7604b58, 0xa5ced43b7e3e9188,
    0x419ea3bd35385e2e, 0xcf42894a5dce35ea, 0x52064cac828675ba, 0x818995ce7aa0e1b2, 0x7343efebd1940994,
    0xa1ebfb4219491a1f, 0x1014ebe6c5f90bf9, 0xca66fa129f9b60a6, 0xd41a26e077774ef7, 0xfd00b897478238d0,
    0x8920b098955522b5, 0x9e20735e8cb16382, 0x55b46e5f5d5535b1, 0xc5a890362fddbc62, 0xeb2189f734aa831e,
    0xf712b443bbd52b7b, 0xa5e9ec7501d523e5, 0x9a6bb0aa55653b2d, 0x47b233c92125366f, 0xc1069cd4eabe89f8,
    0x999ec0bb696e840b, 0xf148440a256e2c76, 0xc00670ea43ca250e, 0x96cd2a865764dbca, 0x380406926a5e5729,
    0xbc807527ed3e12bc, 0xc605083704f5ecf3, 0xeba09271e88d976b, 0xf7864a44c633682f, 0x93445b8731587ea3,
    0x7ab3ee6afbe0211e, 0xb8157268fdae9e4c, 0x5960ea05bad82965, 0xe61acf033d1a45df, 0x6fb92487298e33be,
    0x8fd0c16206306bab, 0xa5d3b6d479f8e057, 0xb3c4f1ba87bc8696, 0x8f48a4899877186d, 0xe0b62e2929aba83c,
    0x331acdabfe94de88, 0x8c71dcd9ba0b4925, 0x9ff0c08b7f1d0b15, 0xaf8e5410288e1b6f, 0x07ecf0ae5ee44dda,
    0xdb71e91432b1a24a, 0xc9e82cd9f69d6151, 0x892731ac9faf056e, 0xbe311c083a225cd3, 0xab70fe17c79ac6ca,
    0x6dbd630a48aaf407, 0xd64d3d9db981787d, 0x092cbbccdad5b109, 0x85f0468293f0eb4e, 0x25bbf56008c58ea6,
    0xa76c582338ed2621, 0xaf2af2b80af6f24f, 0xd1476e2c07286faa, 0x1af5af660db4aee2, 0x82cca4db847945ca,
    0x50d98d9fc890ed4e, 0xa37fce126597973c, 0xe50ff107bab528a1, 0xcc5fc196fefd7d0c, 0x1e53ed49a96272c9,
    0xff77b1fcbebcdc4f, 0x25e8e89c13bb0f7b, 0x9faacf3df73609b1, 0x77b191618c54e9ad, 0xc795830d75038c1d,
    0xd59df5b9ef6a2418, 0xf97ae3d0d2446f25, 0x4b0573286b44ad1e, 0x9becce62836ac577, 0x4ee367f9430aec33,
    0xc2e801fb244576d5, 0x229c41f793cda740, 0xf3a20279ed56d48a, 0x6b43527578c11110, 0x9845418c345644d6,
    0x830a13896b78aaaa, 0xbe5691ef416bd60c, 0x23cc986bc656d554, 0xedec366b11c6cb8f, 0x2cbfbe86b7ec8aa9,
    0x94b3a202eb1c3f39, 0x7bf7d71432f3d6aa, 0xb9e08a83a5e34f07, 0xdaf5ccd93fb0cc54, 0xe858ad248f5c22c9,
    0xd1b3400f8f9cff69, 0x91376c36d99995be, 0x23100809b9c21fa2, 0xb58547448ffffb2d, 0xabd40a0c2832a78b,
    0xe2e69915b3fff9f9, 0x16c90c8f323f516d, 0x8dd01fad907ffc3b, 0xae3da7d97f6792e4, 0xb1442798f49ffb4a,
    0x99cd11cfdf41779d, 0xdd95317f31c7fa1d, 0x40405643d711d584, 0x8a7d3eef7f1cfc52, 0x482835ea666b2573,
    0xad1c8eab5ee43b66, 0xda3243650005eed0, 0xd863b256369d4a40, 0x90bed43e40076a83, 0x873e4f75e2224e68,
    0x5a7744a6e804a292, 0xa90de3535aaae202, 0x711515d0a205cb37, 0xd3515c2831559a83, 0x0d5a5b44ca873e04,
    0x8412d9991ed58091, 0xe858790afe9486c3, 0xa5178fff668ae0b6, 0x626e974dbe39a873, 0xce5d73ff402d98e3,
    0xfb0a3d212dc81290, 0x80fa687f881c7f8e, 0x7ce66634bc9d0b9a, 0xa139029f6a239f72, 0x1c1fffc1ebc44e81,
    0xc987434744ac874e, 0xa327ffb266b56221, 0xfbe9141915d7a922, 0x4bf1ff9f0062baa9, 0x9d71ac8fada6c9b5,
    0x6f773fc3603db4aa, 0xc4ce17b399107c22, 0xcb550fb4384d21d4, 0xf6019da07f549b2b, 0x7e2a53a146606a49,
    0x99c102844f94e0fb, 0x2eda7444cbfc426e, 0xc0314325637a1939, 0xfa911155fefb5309, 0xf03d93eebc589f88,
    0x793555ab7eba27cb, 0x96267c7535b763b5, 0x4bc1558b2f3458df, 0xbbb01b9283253ca2, 0x9eb1aaedfb016f17,
    0xea9c227723ee8bcb, 0x465e15a979c1cadd, 0x92a1958a7675175f, 0x0bfacd89ec191eca, 0xb749faed14125d36,
    0xcef980ec671f667c, 0xe51c79a85916f484, 0x82b7e12780e7401b, 0x8f31cc0937ae58d2, 0xd1b2ecb8b0908811,
    0xb2fe3f0b8599ef07, 0x861fa7e6dcb4aa16, 0xdfbdcece67006ac9, 0x67a791e093e1d49b, 0x8bd6a141006042bd,
    0xe0c8bb2c5c6d24e1, 0xaecc49914078536d, 0x58fae9f773886e19, 0xda7f5bf590966848, 0xaf39a475506a899f,
    0x888f99797a5e012d, 0x6d8406c952429604, 0xaab37fd7d8f58178, 0xc8e5087ba6d33b84, 0xd5605fcdcf32e1d6,
    0xfb1e4a9a90880a65, 0x855c3be0a17fcd26, 0x5cf2eea09a550680, 0xa6b34ad8c9dfc06f, 0xf42faa48c0ea481f,
    0xd0601d8efc57b08b, 0xf13b94daf124da27, 0x823c12795db6ce57, 0x76c53d08d6b70859, 0xa2cb1717b52481ed,
    0x54768c4b0c64ca6f, 0xcb7ddcdda26da268, 0xa9942f5dcf7dfd0a, 0xfe5d54150b090b02, 0xd3f93b35435d7c4d,
    0x9efa548d26e5a6e1, 0xc47bc5014a1a6db0, 0xc6b8e9b0709f109a, 0x359ab6419ca1091c, 0xf867241c8cc6d4c0,
    0xc30163d203c94b63, 0x9b407691d7fc44f8, 0x79e0de63425dcf1e, 0xc21094364dfb5636, 0x985915fc12f542e5,
    0xf294b943e17a2bc4, 0x3e6f5b7b17b2939e, 0x979cf3ca6cec5b5a, 0xa705992ceecf9c43, 0xbd8430bd08277231,
    0x50c6ff782a838354, 0xece53cec4a314ebd, 0xa4f8bf5635246429, 0x940f4613ae5ed136, 0x871b7795e136be9a,
    0xb913179899f68584, 0x28e2557b59846e40, 0xe757dd7ec07426e5, 0x331aeada2fe589d0, 0x9096ea6f3848984f,
    0x3ff0d2c85def7622, 0xb4bca50b065abe63, 0x0fed077a756b53aa, 0xe1ebce4dc7f16dfb, 0xd3e8495912c62895,
    0x8d3360f09cf6e4bd, 0x64712dd7abbbd95d, 0xb080392cc4349dec, 0xbd8d794d96aacfb4, 0xdca04777f541c567,
    0xecf0d7a0fc5583a1, 0x89e42caaf9491b60, 0xf41686c49db57245, 0xac5d37d5b79b6239, 0x311c2875c522ced6,
    0xd77485cb25823ac7, 0x7d633293366b828c, 0x86a8d39ef77164bc, 0xae5dff9c02033198, 0xa8530886b54dbdeb,
    0xd9f57f830283fdfd, 0xd267caa862a12d66, 0xd072df63c324fd7c, 0x8380dea93da4bc60, 0x4247cb9e59f71e6e,
    0xa46116538d0deb78, 0x52d9be85f074e609, 0xcd795be870516656, 0x67902e276c921f8c, 0x806bd9714632dff6,
    0x00ba1cd8a3db53b7, 0xa086cfcd97bf97f3, 0x80e8a40eccd228a5, 0xc8a883c0fdaf7df0, 0x6122cd128006b2ce,
    0xfad2a4b13d1b5d6c, 0x796b805720085f82, 0x9cc3a6eec6311a63, 0xcbe3303674053bb1, 0xc3f490aa77bd60fc,
    0xbedbfc4411068a9d, 0xf4f1b4d515acb93b, 0xee92fb5515482d45, 0x991711052d8bf3c5, 0x751bdd152d4d1c4b,
    0xbf5cd54678eef0b6, 0xd262d45a78a0635e, 0xef340a98172aace4, 0x86fb897116c87c35, 0x9580869f0e7aac0e,
    0xd45d35e6ae3d4da1, 0xbae0a846d2195712, 0x8974836059cca10a, 0xe998d258869facd7, 0x2bd1a438703fc94c,
    0x91ff83775423cc06, 0x7b6306a34627ddd0, 0xb67f6455292cbf08, 0x1a3bc84c17b1d543, 0xe41f3d6a7377eeca,
    0x20caba5f1d9e4a94, 0x8e938662882af53e, 0x547eb47b7282ee9d, 0xb23867fb2a35b28d, 0xe99e619a4f23aa44,
    0xdec681f9f4c31f31, 0x6405fa00e2ec94d5, 0x8b3c113c38f9f37e, 0xde83bc408dd3dd05, 0xae0b158b4738705e,
    0x9624ab50b148d446, 0xd98ddaee19068c76, 0x3badd624dd9b0958, 0x87f8a8d4cfa417c9, 0xe54ca5d70a80e5d7,
    0xa9f6d30a038d1dbc, 0x5e9fcf4ccd211f4d, 0xd47487cc8470652b, 0x7647c32000696720, 0x84c8d4dfd2c63f3b,
    0x29ecd9f40041e074, 0xa5fb0a17c777cf09, 0xf468107100525891, 0xcf79cc9db955c2cc, 0x7182148d4066eeb5,
    0x81ac1fe293d599bf, 0xc6f14cd848405531, 0xa21727db38cb002f, 0xb8ada00e5a506a7d, 0xca9cf1d206fdc03b,
    0xa6d90811f0e4851d, 0xfd442e4688bd304a, 0x908f4a166d1da664, 0x9e4a9cec15763e2e, 0x9a598e4e043287ff,
    0xc5dd44271ad3cdba, 0x40eff1e1853f29fe, 0xf7549530e188c128, 0xd12bee59e68ef47d, 0x9a94dd3e8cf578b9,
    0x82bb74f8301958cf, 0xc13a148e3032d6e7, 0xe36a52363c1faf02, 0xf18899b1bc3f8ca1, 0xdc44e6c3cb279ac2,
    0x96f5600f15a7b7e5, 0x29ab103a5ef8c0ba, 0xbcb2b812db11a5de, 0x7415d448f6b6f0e8, 0xebdf661791d60f56,
    0x111b495b3464ad22, 0x936b9fcebb25c995, 0xcab10dd900beec35, 0xb84687c269ef3bfb, 0x3d5d514f40eea743,
    0xe65829b3046b0afa, 0x0cb4a5a3112a5113, 0x8ff71a0fe2c2e6dc, 0x47f0e785eaba72ac, 0xb3f4e093db73a093,
    0x59ed216765690f57, 0xe0f218b8d25088b8, 0x306869c13ec3532d, 0x8c974f7383725573, 0x1e414218c73a13fc,
    0xafbd2350644eeacf, 0xe5d1929ef90898fb, 0xdbac6c247d62a583, 0xdf45f746b74abf3a, 0x894bc396ce5da772,
    0x6b8bba8c328eb784, 0xab9eb47c81f5114f, 0x066ea92f3f326565, 0xd686619ba27255a2, 0xc80a537b0efefebe,
    0x8613fd0145877585, 0xbd06742ce95f5f37, 0xa798fc4196e952e7, 0x2c48113823b73705, 0xd17f3b51fca3a7a0,
    0xf75a15862ca504c6, 0x82ef85133de648c4, 0x9a984d73dbe722fc, 0xa3ab66580d5fdaf5, 0xc13e60d0d2e0ebbb,
    0xcc963fee10b7d1b3, 0x318df905079926a9, 0xffbbcfe994e5c61f, 0xfdf17746497f7053, 0x9fd561f1fd0f9bd3,
    0xfeb6ea8bedefa634, 0xc7caba6e7c5382c8, 0xfe64a52ee96b8fc1, 0xf9bd690a1b68637b, 0x3dfdce7aa3c673b1,
    0x9c1661a651213e2d, 0x06bea10ca65c084f, 0xc31bfa0fe5698db8, 0x486e494fcff30a63, 0xf3e2f893dec3f126,
    0x5a89dba3c3efccfb, 0x986ddb5c6b3a76b7, 0xf89629465a75e01d, 0xbe89523386091465, 0xf6bbb397f1135824,
    0xee2ba6c0678b597f, 0x746aa07ded582e2d, 0x94db483840b717ef, 0xa8c2a44eb4571cdd, 0xba121a4650e4ddeb,
    0x92f34d62616ce414, 0xe896a0d7e51e1566, 0x77b020baf9c81d18, 0x915e2486ef32cd60, 0x0ace1474dc1d122f,
    0xb5b5ada8aaff80b8, 0x0d819992132456bb, 0xe3231912d5bf60e6, 0x10e1fff697ed6c6a, 0x8df5efabc5979c8f,
    0xca8d3ffa1ef463c2, 0xb1736b96b6fd83b3, 0xbd308ff8a6b17cb3, 0xddd0467c64bce4a0, 0xac7cb3f6d05ddbdf,
    0x8aa22c0dbef60ee4, 0x6bcdf07a423aa96c, 0xad4ab7112eb3929d, 0x86c16c98d2c953c7, 0xd89d64d57a607744,
    0xe871c7bf077ba8b8, 0x87625f056c7c4a8b, 0x11471cd764ad4973, 0xa93af6c6c79b5d2d, 0xd598e40d3dd89bd0,
    0xd389b47879823479, 0x4aff1d108d4ec2c4, 0x843610cb4bf160cb, 0xcedf722a585139bb, 0xa54394fe1eedb8fe,
    0xc2974eb4ee658829, 0xce947a3da6a9273e, 0x733d226229feea33, 0x811ccc668829b887, 0x0806357d5a3f5260,
    0xa163ff802a3426a8, 0xca07c2dcb0cf26f8, 0xc9bcff6034c13052, 0xfc89b393dd02f0b6, 0xfc2c3f3841f17c67,
    0xbbac2078d443ace3, 0x9d9ba7832936edc0, 0xd54b944b84aa4c0e, 0xc5029163f384a931, 0x0a9e795e65d4df12,
    0xf64335bcf065d37d, 0x4d4617b5ff4a16d6, 0x99ea0196163fa42e, 0x504bced1bf8e4e46, 0xc06481fb9bcf8d39,
    0xe45ec2862f71e1d7, 0xf07da27a82c37088, 0x5d767327bb4e5a4d, 0x964e858c91ba2655, 0x3a6a07f8d510f870,
    0xbbe226efb628afea, 0x890489f70a55368c, 0xeadab0aba3b2dbe5, 0x2b45ac74ccea842f, 0x92c8ae6b464fc96f,
    0x3b0b8bc90012929e, 0xb77ada0617e3bbcb, 0x09ce6ebb40173745, 0xe55990879ddcaabd, 0xcc420a6a101d0516,
    0x8f57fa54c2a9eab6, 0x9fa946824a12232e, 0xb32df8e9f3546564, 0x47939822dc96abfa, 0xdff9772470297ebd,
    0x59787e2b93bc56f8, 0x8bfbea76c619ef36, 0x57eb4edb3c55b65b, 0xaefae51477a06b03, 0xede622920b6b23f2,
    0xdab99e59958885c4, 0xe95fab368e45ecee, 0x88b402f7fd75539b, 0x11dbcb0218ebb415, 0xaae103b5fcd2a881,
    0xd652bdc29f26a11a, 0xd59944a37c0752a2, 0x4be76d3346f04960, 0x857fcae62d8493a5, 0x6f70a4400c562ddc,
    0xa6dfbd9fb8e5b88e, 0xcb4ccd500f6bb953, 0xd097ad07a71f26b2, 0x7e2000a41346a7a8, 0x825ecc24c873782f,
    0x8ed400668c0c28c9, 0xa2f67f2dfa90563b, 0x728900802f0f32fb, 0xcbb41ef979346bca, 0x4f2b40a03ad2ffba,
    0xfea126b7d78186bc, 0xe2f610c84987bfa9, 0x9f24b832e6b0f436, 0x0dd9ca7d2df4d7ca, 0xc6ede63fa05d3143,
    0x91503d1c79720dbc, 0xf8a95fcf88747d94, 0x75a44c6397ce912b, 0x9b69dbe1b548ce7c, 0xc986afbe3ee11abb,
    0xc24452da229b021b, 0xfbe85badce996169, 0xf2d56790ab41c2a2, 0xfae27299423fb9c4, 0x97c560ba6b0919a5,
    0xdccd879fc967d41b, 0xbdb6b8e905cb600f, 0x5400e987bbc1c921, 0xed246723473e3813, 0x290123e9aab23b69,
    0x9436c0760c86e30b, 0xf9a0b6720aaf6522, 0xb94470938fa89bce, 0xf808e40e8d5b3e6a, 0xe7958cb87392c2c2,
    0xb60b1d1230b20e05, 0x90bd77f3483bb9b9, 0xb1c6f22b5e6f48c3, 0xb4ecd5f01a4aa828, 0x1e38aeb6360b1af4,
    0xe2280b6c20dd5232, 0x25c6da63c38de1b1, 0x8d590723948a535f, 0x579c487e5a38ad0f, 0xb0af48ec79ace837,
    0x2d835a9df0c6d852, 0xdcdb1b2798182244, 0xf8e431456cf88e66, 0x8a08f0f8bf0f156b, 0x1b8e9ecb641b5900,
    0xac8b2d36eed2dac5, 0xe272467e3d222f40, 0xd7adf884aa879177, 0x5b0ed81dcc6abb10, 0x86ccbb52ea94baea,
    0x98e947129fc2b4ea, 0xa87fea27a539e9a5, 0x3f2398d747b36225, 0xd29fe4b18e88640e, 0x8eec7f0d19a03aae,
    0x83a3eeeef9153e89, 0x1953cf68300424ad, 0xa48ceaaab75a8e2b, 0x5fa8c3423c052dd8, 0xcdb02555653131b6,
    0x3792f412cb06794e, 0x808e17555f3ebf11, 0xe2bbd88bbee40bd1, 0xa0b19d2ab70e6ed6, 0x5b6aceaeae9d0ec5,
    0xc8de047564d20a8b, 0xf245825a5a445276, 0xfb158592be068d2e, 0xeed6e2f0f0d56713, 0x9ced737bb6c4183d,
    0x55464dd69685606c, 0xc428d05aa4751e4c, 0xaa97e14c3c26b887, 0xf53304714d9265df, 0xd53dd99f4b3066a9,
    0x993fe2c6d07b7fab, 0xe546a8038efe402a, 0xbf8fdb78849a5f96, 0xde98520472bdd034, 0xef73d256a5c0f77c,
    0x963e66858f6d4441, 0x95a8637627989aad, 0xdde7001379a44aa9, 0xbb127c53b17ec159, 0x5560c018580d5d53,
    0xe9d71b689dde71af, 0xaab8f01e6e10b4a7, 0x9226712162ab070d, 0xcab3961304ca70e9, 0xb6b00d69bb55c8d1,
    0x3d607b97c5fd0d23, 0xe45c10c42a2b3b05, 0x8cb89a7db77c506b, 0x8eb98a7a9a5b04e3, 0x77f3608e92adb243,
    0xb267ed1940f1c61c, 0x55f038b237591ed4, 0xdf01e85f912e37a3, 0x6b6c46dec52f6689, 0x8b61313bbabce2c6,
    0x2323ac4b3b3da016, 0xae397d8aa96c1b77, 0xabec975e0a0d081b, 0xd9c7dced53c72255, 0x96e7bd358c904a22,
    0x881cea14545c7575, 0x7e50d64177da2e55, 0xaa242499697392d2, 0xdde50bd1d5d0b9ea, 0xd4ad2dbfc3d07787,
    0x955e4ec64b44e865, 0x84ec3c97da624ab4, 0xbd5af13bef0b113f, 0xa6274bbdd0fadd61, 0xecb1ad8aeacdd58f,
    0xcfb11ead453994ba, 0x67de18eda5814af3, 0x81ceb32c4b43fcf4, 0x80eacf948770ced8, 0xa2425ff75e14fc31,
    0xa1258379a94d028e, 0xcad2f7f5359a3b3e, 0x096ee45813a04331, 0xfd87b5f28300ca0d, 0x8bca9d6e188853fd,
    0x9e74d1b791e07e48, 0x775ea264cf55347e, 0xc612062576589dda, 0x95364afe032a819e, 0xf79687aed3eec551,
    0x3a83ddbd83f52205, 0x9abe14cd44753b52, 0xc4926a9672793543, 0xc16d9a0095928a27, 0x75b7053c0f178294,
    0xf1c90080baf72cb1, 0x5324c68b12dd6339, 0x971da05074da7bee, 0xd3f6fc16ebca5e04, 0xbce5086492111aea,
    0x88f4bb1ca6bcf585, 0xec1e4a7db69561a5, 0x2b31e9e3d06c32e6, 0x9392ee8e921d5d07, 0x3aff322e62439fd0,
    0xb877aa3236a4b449, 0x09befeb9fad487c3, 0xe69594bec44de15b, 0x4c2ebe687989a9b4, 0x901d7cf73ab0acd9,
    0x0f9d37014bf60a11, 0xb424dc35095cd80f, 0x538484c19ef38c95, 0xe12e13424bb40e13, 0x2865a5f206b06fba,
    0x8cbccc096f5088cb, 0xf93f87b7442e45d4, 0xafebff0bcb24aafe, 0xf78f69a51539d749, 0xdbe6fecebdedd5be,
    0xb573440e5a884d1c, 0x89705f4136b4a597, 0x31680a88f8953031, 0xabcc77118461cefc, 0xfdc20d2b36ba7c3e,
    0xd6bf94d5e57a42bc, 0x3d32907604691b4d, 0x8637bd05af6c69b5, 0xa63f9a49c2c1b110, 0xa7c5ac471b478423,
    0x0fcf80dc33721d54, 0xd1b71758e219652b, 0xd3c36113404ea4a9, 0x83126e978d4fdf3b, 0x645a1cac083126ea,
    0xa3d70a3d70a3d70a, 0x3d70a3d70a3d70a4, 0xcccccccccccccccc, 0xcccccccccccccccd, 0x8000000000000000,
    0x0000000000000000, 0xa000000000000000, 0x0000000000000000, 0xc800000000000000, 0x0000000000000000,
    0xfa00000000000000, 0x0000000000000000, 0x9c40000000000000, 0x0000000000000000, 0xc350000000000000,
    0x0000000000000000, 0xf424000000000000, 0x0000000000000000, 0x9896800000000000, 0x0000000000000000,
    0xbebc200000000000, 0x0000000000000000, 0xee6b280000000000, 0x0000000000000000, 0x9502f90000000000,
    0x0000000000000000, 0xba43b74000000000, 0x0000000000000000, 0xe8d4a51000000000, 0x0000000000000000,
    0x9184e72a00000000, 0x0000000000000000, 0xb5e620f480000000, 0x0000000000000000, 0xe35fa931a0000000,
    0x0000000000000000, 0x8e1bc9bf04000000, 0x0000000000000000, 0xb1a2bc2ec5000000, 0x0000000000000000,
    0xde0b6b3a76400000, 0x0000000000000000, 0x8ac7230489e80000, 0x0000000000000000, 0xad78ebc5ac620000,
    0x0000000000000000, 0xd8d726b7177a8000, 0x0000000000000000, 0x878678326eac9000, 0x0000000000000000,
    0xa968163f0a57b400, 0x0000000000000000, 0xd3c21bcecceda100, 0x0000000000000000, 0x84595161401484a0,
    0x0000000000000000, 0xa56fa5b99019a5c8, 0x0000000000000000, 0xcecb8f27f4200f3a, 0x0000000000000000,
    0x813f3978f8940984, 0x4000000000000000, 0xa18f07d736b90be5, 0x5000000000000000, 0xc9f2c9cd04674ede,
    0xa400000000000000, 0xfc6f7c4045812296, 0x4d00000000000000, 0x9dc5ada82b70b59d, 0xf020000000000000,
    0xc5371912364ce305, 0x6c28000000000000, 0xf684df56c3e01bc6, 0xc732000000000000, 0x9a130b963a6c115c,
    0x3c7f400000000000, 0xc097ce7bc90715b3, 0x4b9f100000000000, 0xf0bdc21abb48db20, 0x1e86d40000000000,
    0x96769950b50d88f4, 0x1314448000000000, 0xbc143fa4e250eb31, 0x17d955a000000000, 0xeb194f8e1ae525fd,
    0x5dcfab0800000000, 0x92efd1b8d0cf37be, 0x5aa1cae500000000, 0xb7abc627050305ad, 0xf14a3d9e40000000,
    0xe596b7b0c643c719, 0x6d9ccd05d0000000, 0x8f7e32ce7bea5c6f, 0xe4820023a2000000, 0xb35dbf821ae4f38b,
    0xdda2802c8a800000, 0xe0352f62a19e306e, 0xd50b2037ad200000, 0x8c213d9da502de45, 0x4526f422cc340000,
    0xaf298d050e4395d6, 0x9670b12b7f410000, 0xdaf3f04651d47b4c, 0x3c0cdd765f114000, 0x88d8762bf324cd0f,
    0xa5880a69fb6ac800, 0xab0e93b6efee0053, 0x8eea0d047a457a00, 0xd5d238a4abe98068, 0x72a4904598d6d880,
    0x85a36366eb71f041, 0x47a6da2b7f864750, 0xa70c3c40a64e6c51, 0x999090b65f67d924, 0xd0cf4b50cfe20765,
    0xfff4b4e3f741cf6d, 0x82818f1281ed449f, 0xbff8f10e7a8921a4, 0xa321f2d7226895c7, 0xaff72d52192b6a0d,
    0xcbea6f8ceb02bb39, 0x9bf4f8a69f764490, 0xfee50b7025c36a08, 0x02f236d04753d5b4, 0x9f4f2726179a2245,
    0x01d762422c946590, 0xc722f0ef9d80aad6, 0x424d3ad2b7b97ef5, 0xf8ebad2b84e0d58b, 0xd2e0898765a7deb2,
    0x9b934c3b330c8577, 0x63cc55f49f88eb2f, 0xc2781f49ffcfa6d5, 0x3cbf6b71c76b25fb, 0xf316271c7fc3908a,
    0x8bef464e3945ef7a, 0x97edd871cfda3a56, 0x97758bf0e3cbb5ac, 0xbde94e8e43d0c8ec, 0x3d52eeed1cbea317,
    0xed63a231d4c4fb27, 0x4ca7aaa863ee4bdd, 0x945e455f24fb1cf8, 0x8fe8caa93e74ef6a, 0xb975d6b6ee39e436,
    0xb3e2fd538e122b44, 0xe7d34c64a9c85d44, 0x60dbbca87196b616, 0x90e40fbeea1d3a4a, 0xbc8955e946fe31cd,
    0xb51d13aea4a488dd, 0x6babab6398bdbe41, 0xe264589a4dcdab14, 0xc696963c7eed2dd1, 0x8d7eb76070a08aec,
    0xfc1e1de5cf543ca2, 0xb0de65388cc8ada8, 0x3b25a55f43294bcb, 0xdd15fe86affad912, 0x49ef0eb713f39ebe,
    0x8a2dbf142dfcc7ab, 0x6e3569326c784337, 0xacb92ed9397bf996, 0x49c2c37f07965404, 0xd7e77a8f87daf7fb,
    0xdc33745ec97be906, 0x86f0ac99b4e8dafd, 0x69a028bb3ded71a3, 0xa8acd7c0222311bc, 0xc40832ea0d68ce0c,
    0xd2d80db02aabd62b, 0xf50a3fa490c30190, 0x83c7088e1aab65db, 0x792667c6da79e0fa, 0xa4b8cab1a1563f52,
    0x577001b891185938, 0xcde6fd5e09abcf26, 0xed4c0226b55e6f86, 0x80b05e5ac60b6178, 0x544f8158315b05b4,
    0xa0dc75f1778e39d6, 0x696361ae3db1c721, 0xc913936dd571c84c, 0x03bc3a19cd1e38e9, 0xfb5878494ace3a5f,
    0x04ab48a04065c723, 0x9d174b2dcec0e47b, 0x62eb0d64283f9c76, 0xc45d1df942711d9a, 0x3ba5d0bd324f8394,
    0xf5746577930d6500, 0xca8f44ec7ee36479, 0x9968bf6abbe85f20, 0x7e998b13cf4e1ecb, 0xbfc2ef456ae276e8,
    0x9e3fedd8c321a67e, 0xefb3ab16c59b14a2, 0xc5cfe94ef3ea101e, 0x95d04aee3b80ece5, 0xbba1f1d158724a12,
    0xbb445da9ca61281f, 0x2a8a6e45ae8edc97, 0xea1575143cf97226, 0xf52d09d71a3293bd, 0x924d692ca61be758,
    0x593c2626705f9c56, 0xb6e0c377cfa2e12e, 0x6f8b2fb00c77836c, 0xe498f455c38b997a, 0x0b6dfb9c0f956447,
    0x8edf98b59a373fec, 0x4724bd4189bd5eac, 0xb2977ee300c50fe7, 0x58edec91ec2cb657, 0xdf3d5e9bc0f653e1,
    0x2f2967b66737e3ed, 0x8b865b215899f46c, 0xbd79e0d20082ee74, 0xae67f1e9aec07187, 0xecd8590680a3aa11,
    0xda01ee641a708de9, 0xe80e6f4820cc9495, 0x884134fe908658b2, 0x3109058d147fdcdd, 0xaa51823e34a7eede,
    0xbd4b46f0599fd415, 0xd4e5e2cdc1d1ea96, 0x6c9e18ac7007c91a, 0x850fadc09923329e, 0x03e2cf6bc604ddb0,
    0xa6539930bf6bff45, 0x84db8346b786151c, 0xcfe87f7cef46ff16, 0xe612641865679a63, 0x81f14fae158c5f6e,
    0x4fcb7e8f3f60c07e, 0xa26da3999aef7749, 0xe3be5e330f38f09d, 0xcb090c8001ab551c, 0x5cadf5bfd3072cc5,
    0xfdcb4fa002162a63, 0x73d9732fc7c8f7f6, 0x9e9f11c4014dda7e, 0x2867e7fddcdd9afa, 0xc646d63501a1511d,
    0xb281e1fd541501b8, 0xf7d88bc24209a565, 0x1f225a7ca91a4226, 0x9ae757596946075f, 0x3375788de9b06958,
    0xc1a12d2fc3978937, 0x0052d6b1641c83ae, 0xf209787bb47d6b84, 0xc0678c5dbd23a49a, 0x9745eb4d50ce6332,
    0xf840b7ba963646e0, 0xbd176620a501fbff, 0xb650e5a93bc3d898, 0xec5d3fa8ce427aff, 0xa3e51f138ab4cebe,
    0x93ba47c980e98cdf, 0xc66f336c36b10137, 0xb8a8d9bbe123f017, 0xb80b0047445d4184, 0xe6d3102ad96cec1d,
    0xa60dc059157491e5, 0x9043ea1ac7e41392, 0x87c89837ad68db2f, 0xb454e4a179dd1877, 0x29babe4598c311fb,
    0xe16a1dc9d8545e94, 0xf4296dd6fef3d67a, 0x8ce2529e2734bb1d, 0x1899e4a65f58660c, 0xb01ae745b101e9e4,
    0x5ec05dcff72e7f8f, 0xdc21a1171d42645d, 0x76707543f4fa1f73, 0x899504ae72497eba, 0x6a06494a791c53a8,
    0xabfa45da0edbde69, 0x0487db9d17636892, 0xd6f8d7509292d603, 0x45a9d2845d3c42b6, 0x865b86925b9bc5c2,
    0x0b8a2392ba45a9b2, 0xa7f26836f282b732, 0x8e6cac7768d7141e, 0xd1ef0244af2364ff, 0x3207d795430cd926,
    0x8335616aed761f1f, 0x7f44e6bd49e807b8, 0xa402b9c5a8d3a6e7, 0x5f16206c9c6209a6, 0xcd036837130890a1,
    0x36dba887c37a8c0f, 0x802221226be55a64, 0xc2494954da2c9789, 0xa02aa96b06deb0fd, 0xf2db9baa10b7bd6c,
    0xc83553c5c8965d3d, 0x6f92829494e5acc7, 0xfa42a8b73abbf48c, 0xcb772339ba1f17f9, 0x9c69a97284b578d7,
    0xff2a760414536efb, 0xc38413cf25e2d70d, 0xfef5138519684aba, 0xf46518c2ef5b8cd1, 0x7eb258665fc25d69,
    0x98bf2f79d5993802, 0xef2f773ffbd97a61, 0xbeeefb584aff8603, 0xaafb550ffacfd8fa, 0xeeaaba2e5dbf6784,
    0x95ba2a53f983cf38, 0x952ab45cfa97a0b2, 0xdd945a747bf26183, 0xba756174393d88df, 0x94f971119aeef9e4,
    0xe912b9d1478ceb17, 0x7a37cd5601aab85d, 0x91abb422ccb812ee, 0xac62e055c10ab33a, 0xb616a12b7fe617aa,
    0x577b986b314d6009, 0xe39c49765fdf9d94, 0xed5a7e85fda0b80b, 0x8e41ade9fbebc27d, 0x14588f13be847307,
    0xb1d219647ae6b31c, 0x596eb2d8ae258fc8, 0xde469fbd99a05fe3, 0x6fca5f8ed9aef3bb, 0x8aec23d680043bee,
    0x25de7bb9480d5854, 0xada72ccc20054ae9, 0xaf561aa79a10ae6a, 0xd910f7ff28069da4, 0x1b2ba1518094da04,
    0x87aa9aff79042286, 0x90fb44d2f05d0842, 0xa99541bf57452b28, 0x353a1607ac744a53, 0xd3fa922f2d1675f2,
    0x42889b8997915ce8, 0x847c9b5d7c2e09b7, 0x69956135febada11, 0xa59bc234db398c25, 0x43fab9837e699095,
    0xcf02b2c21207ef2e, 0x94f967e45e03f4bb, 0x8161afb94b44f57d, 0x1d1be0eebac278f5, 0xa1ba1ba79e1632dc,
    0x6462d92a69731732, 0xca28a291859bbf93, 0x7d7b8f7503cfdcfe, 0xfcb2cb35e702af78, 0x5cda735244c3d43e,
    0x9defbf01b061adab, 0x3a0888136afa64a7, 0xc56baec21c7a1916, 0x088aaa1845b8fdd0, 0xf6c69a72a3989f5b,
    0x8aad549e57273d45, 0x9a3c2087a63f6399, 0x36ac54e2f678864b, 0xc0cb28a98fcf3c7f, 0x84576a1bb416a7dd,
    0xf0fdf2d3f3c30b9f, 0x656d44a2a11c51d5, 0x969eb7c47859e743, 0x9f644ae5a4b1b325, 0xbc4665b596706114,
    0x873d5d9f0dde1fee, 0xeb57ff22fc0c7959, 0xa90cb506d155a7ea, 0x9316ff75dd87cbd8, 0x09a7f12442d588f2,
    0xb7dcbf5354e9bece, 0x0c11ed6d538aeb2f, 0xe5d3ef282a242e81, 0x8f1668c8a86da5fa, 0x8fa475791a569d10,
    0xf96e017d694487bc, 0xb38d92d760ec4455, 0x37c981dcc395a9ac, 0xe070f78d3927556a, 0x85bbe253f47b1417,
    0x8c469ab843b89562, 0x93956d7478ccec8e, 0xaf58416654a6babb, 0x387ac8d1970027b2, 0xdb2e51bfe9d0696a,
    0x06997b05fcc0319e, 0x88fcf317f22241e2, 0x441fece3bdf81f03, 0xab3c2fddeeaad25a, 0xd527e81cad7626c3,
    0xd60b3bd56a5586f1, 0x8a71e223d8d3b074, 0x85c7056562757456, 0xf6872d5667844e49, 0xa738c6bebb12d16c,
    0xb428f8ac016561db, 0xd106f86e69d785c7, 0xe13336d701beba52, 0x82a45b450226b39c, 0xecc0024661173473,
    0xa34d721642b06084, 0x27f002d7f95d0190, 0xcc20ce9bd35c78a5, 0x31ec038df7b441f4, 0xff290242c83396ce,
    0x7e67047175a15271, 0x9f79a169bd203e41, 0x0f0062c6e984d386, 0xc75809c42c684dd1, 0x52c07b78a3e60868,
    0xf92e0c3537826145, 0xa7709a56ccdf8a82, 0x9bbcc7a142b17ccb, 0x88a66076400bb691, 0xc2abf989935ddbfe,
    0x6acff893d00ea435, 0xf356f7ebf83552fe, 0x0583f6b8c4124d43, 0x98165af37b2153de, 0xc3727a337a8b704a,
    0xbe1bf1b059e9a8d6, 0x744f18c0592e4c5c, 0xeda2ee1c7064130c, 0x1162def06f79df73, 0x9485d4d1c63e8be7,
    0x8addcb5645ac2ba8, 0xb9a74a0637ce2ee1, 0x6d953e2bd7173692, 0xe8111c87c5c1ba99, 0xc8fa8db6ccdd0437,
    0x910ab1d4db9914a0, 0x1d9c9892400a22a2, 0xb54d5e4a127f59c8, 0x2503beb6d00cab4b, 0xe2a0b5dc971f303a,
    0x2e44ae64840fd61d, 0x8da471a9de737e24, 0x5ceaecfed289e5d2, 0xb10d8e1456105dad, 0x7425a83e872c5f47,
    0xdd50f1996b947518, 0xd12f124e28f77719, 0x8a5296ffe33cc92f, 0x82bd6b70d99aaa6f, 0xace73cbfdc0bfb7b,
    0x636cc64d1001550b, 0xd8210befd30efa5a, 0x3c47f7e05401aa4e, 0x8714a775e3e95c78, 0x65acfaec34810a71,
    0xa8d9d1535ce3b396, 0x7f1839a741a14d0d, 0xd31045a8341ca07c, 0x1ede48111209a050, 0x83ea2b892091e44d,
    0x934aed0aab460432, 0xa4e4b66b68b65d60, 0xf81da84d5617853f, 0xce1de40642e3f4b9, 0x36251260ab9d668e,
    0x80d2ae83e9ce78f3, 0xc1d72b7c6b426019, 0xa1075a24e4421730, 0xb24cf65b8612f81f, 0xc94930ae1d529cfc,
    0xdee033f26797b627, 0xfb9b7cd9a4a7443c, 0x169840ef017da3b1, 0x9d412e0806e88aa5, 0x8e1f289560ee864e,
    0xc491798a08a2ad4e, 0xf1a6f2bab92a27e2, 0xf5b5d7ec8acb58a2, 0xae10af696774b1db, 0x9991a6f3d6bf1765,
    0xacca6da1e0a8ef29, 0xbff610b0cc6edd3f, 0x17fd090a58d32af3, 0xeff394dcff8a948e, 0xddfc4b4cef07f5b0,
    0x95f83d0a1fb69cd9, 0x4abdaf101564f98e, 0xbb764c4ca7a4440f, 0x9d6d1ad41abe37f1, 0xea53df5fd18d5513,
    0x84c86189216dc5ed, 0x92746b9be2f8552c, 0x32fd3cf5b4e49bb4, 0xb7118682dbb66a77, 0x3fbc8c33221dc2a1,
    0xe4d5e82392a40515, 0x0fabaf3feaa5334a, 0x8f05b1163ba6832d, 0x29cb4d87f2a7400e, 0xb2c71d5bca9023f8,
    0x743e20e9ef511012, 0xdf78e4b2bd342cf6, 0x914da9246b255416, 0x8bab8eefb6409c1a, 0x1ad089b6c2f7548e,
    0xae9672aba3d0c320, 0xa184ac2473b529b1, 0xda3c0f568cc4f3e8, 0xc9e5d72d90a2741e, 0x8865899617fb1871,
    0x7e2fa67c7a658892, 0xaa7eebfb9df9de8d, 0xddbb901b98feeab7, 0xd51ea6fa85785631, 0x552a74227f3ea565,
    0x8533285c936b35de, 0xd53a88958f87275f, 0xa67ff273b8460356, 0x8a892abaf368f137, 0xd01fef10a657842c,
    0x2d2b7569b0432d85, 0x8213f56a67f6b29b, 0x9c3b29620e29fc73, 0xa298f2c501f45f42, 0x8349f3ba91b47b8f,
    0xcb3f2f7642717713, 0x241c70a936219a73, 0xfe0efb53d30dd4d7, 0xed238cd383aa0110, 0x9ec95d1463e8a506,
    0xf4363804324a40aa, 0xc67bb4597ce2ce48, 0xb143c6053edcd0d5, 0xf81aa16fdc1b81da, 0xdd94b7868e94050a,
    0x9b10a4e5e9913128, 0xca7cf2b4191c8326, 0xc1d4ce1f63f57d72, 0xfd1c2f611f63a3f0, 0xf24a01a73cf2dccf,
    0xbc633b39673c8cec, 0x976e41088617ca01, 0xd5be0503e085d813, 0xbd49d14aa79dbc82, 0x4b2d8644d8a74e18,
    0xec9c459d51852ba2, 0xddf8e7d60ed1219e, 0x93e1ab8252f33b45, 0xcabb90e5c942b503, 0xb8da1662e7b00a17,
    0x3d6a751f3b936243, 0xe7109bfba19c0c9d, 0x0cc512670a783ad4, 0x906a617d450187e2, 0x27fb2b80668b24c5,
    0xb484f9dc9641e9da, 0xb1f9f660802dedf6, 0xe1a63853bbd26451, 0x5e7873f8a0396973, 0x8d07e33455637eb2,
    0xdb0b487b6423e1e8, 0xb049dc016abc5e5f, 0x91ce1a9a3d2cda62, 0xdc5c5301c56b75f7, 0x7641a140cc7810fb,
    0x89b9b3e11b6329ba, 0xa9e904c87fcb0a9d, 0xac2820d9623bf429, 0x546345fa9fbdcd44, 0xd732290fbacaf133,
    0xa97c177947ad4095, 0x867f59a9d4bed6c0, 0x49ed8eabcccc485d, 0xa81f301449ee8c70, 0x5c68f256bfff5a74,
    0xd226fc195c6a2f8c, 0x73832eec6fff3111, 0x83585d8fd9c25db7, 0xc831fd53c5ff7eab, 0xa42e74f3d032f525,
    0xba3e7ca8b77f5e55, 0xcd3a1230c43fb26f, 0x28ce1bd2e55f35eb, 0x80444b5e7aa7cf85, 0x7980d163cf5b81b3,
    0xa0555e361951c366, 0xd7e105bcc332621f, 0xc86ab5c39fa63440, 0x8dd9472bf3fefaa7, 0xfa856334878fc150,
    0xb14f98f6f0feb951, 0x9c935e00d4b9d8d2, 0x6ed1bf9a569f33d3, 0xc3b8358109e84f07, 0x0a862f80ec4700c8,
    0xf4a642e14c6262c8, 0xcd27bb612758c0fa, 0x98e7e9cccfbd7dbd, 0x8038d51cb897789c, 0xbf21e44003acdd2c,
    0xe0470a63e6bd56c3, 0xeeea5d5004981478, 0x1858ccfce06cac74, 0x95527a5202df0ccb, 0x0f37801e0c43ebc8,
    0xbaa718e68396cffd, 0xd30560258f54e6ba, 0xe950df20247c83fd, 0x47c6b82ef32a2069, 0x91d28b7416cdd27e,
    0x4cdc331d57fa5441, 0xb6472e511c81471d, 0xe0133fe4adf8e952, 0xe3d8f9e563a198e5, 0x58180fddd97723a6,
    0x8e679c2f5e44ff8f, 0x570f09eaa7ea7648, 0xb201833b35d63f73, 0x2cd2cc6551e513da, 0xde81e40a034bcf4f,
    0xf8077f7ea65e58d1, 0x8b112e86420f6191, 0xfb04afaf27faf782, 0xadd57a27d29339f6, 0x79c5db9af1f9b563,
    0xd94ad8b1c7380874, 0x18375281ae7822bc, 0x87cec76f1c830548, 0x8f2293910d0b15b5, 0xa9c2794ae3a3c69a,
    0xb2eb3875504ddb22, 0xd433179d9c8cb841, 0x5fa60692a46151eb, 0x849feec281d7f328, 0xdbc7c41ba6bcd333,
    0xa5c7ea73224deff3, 0x12b9b522906c0800, 0xcf39e50feae16bef, 0xd768226b34870a00, 0x81842f29f2cce375,
    0xe6a1158300d46640, 0xa1e53af46f801c53, 0x60495ae3c1097fd0, 0xca5e89b18b602368, 0x385bb19cb14bdfc4,
    0xfcf62c1dee382c42, 0x46729e03dd9ed7b5, 0x9e19db92b4e31ba9, 0x6c07a2c26a8346d1
    /* powers: end */
    /* clang-format on */
};

/* clang-format off */
static const uint64_t mn__tens[20] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000,
    1000000000000, 10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000,
    1000000000000000000, 10000000000000000000u};
/* clang-format on */

/* The powers of ten that a double holds exactly. */
static const double mn__exact_tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* ---- Eight characters at a time
 * ------------------------------------------------------------------------------- */

#define MN__ZEROS 0x3030303030303030u

/* How many of the eight bytes are digits before the first that is not, with '0' taken off each (by exclusive
 * or). */
MN__INLINE unsigned mn__digit_run(uint64_t word) {
    uint64_t other = (((word & 0x7f7f7f7f7f7f7f7fu) + 0x7676767676767676u) | word) & 0x8080808080808080u;
    return mn__trailing_zeros(other) >> 3;
}

/* The number that the first `count` bytes spell, '0' taken off each: pairs, then fours, then eight. */
MN__INLINE uint64_t mn__digits_value(uint64_t word, unsigned count) {
    unsigned half = 4 * (8 - count);
    word = word << half << half;
    word = word * 10 + (word >> 8);
    return (((word & 0x000000ff000000ffu) * (100 + ((uint64_t)1000000 << 32))) +
            ((word >> 16 & 0x000000ff000000ffu) * (1 + ((uint64_t)10000 << 32)))) >>
           32;
}

/* Up to eight bytes, of the `left` before `last`; zeros where there are fewer. Eight bytes before `last` are
 * readable. */
MN__INLINE uint64_t mn__load_tail(const char *last, size_t left) {
    size_t distance = left < 8 ? 8 : left;
    unsigned half = 4 * (unsigned)(distance - left);
    return mn__load8(last - distance) >> half >> half;
}

/* ---- Reading: the characters
 * ---------------------------------------------------------------------------------- */

typedef struct {
    uint64_t digits;  /* the first 19 significant digits */
    int64_t exponent; /* the value is digits * 10^exponent, and a little more if truncated */
    const char *end;
    const char *integer, *fraction; /* the digits before and after the point, for a second look */
    size_t integer_count, fraction_count;
    int64_t written_exponent;
    int negative, truncated, has_point, has_exponent;
} mn__number;

/* At most eight characters, all of the range: digits with at most one point among them. */
MN__INLINE int mn__scan_short(const char *first, size_t length, char point, mn__number *number) {
    uint64_t word, other, word_low;
    unsigned count, whole, used;
    if (length >= 4) {
        word = mn__load4(first) | (uint64_t)mn__load4(first + length - 4) << 8 * (length - 4);
    } else if (length > 0) {
        word = (unsigned char)first[0] | (uint64_t)(unsigned char)first[length >> 1] << 8 * (length >> 1) |
               (uint64_t)(unsigned char)first[length - 1] << 8 * (length - 1);
    } else {
        return 0;
    }
    number->negative = (word & 0xff) == '-';
    word >>= 8 * number->negative;
    count = (unsigned)length - (unsigned)number->negative;
    word ^= MN__ZEROS;
    other = (((word & 0x7f7f7f7f7f7f7f7fu) + 0x7676767676767676u) | word) & 0x8080808080808080u;
    whole = mn__trailing_zeros(other) >> 3;
    number->end = first + length;
    number->integer_count = whole;
    number->has_exponent = 0;
    number->has_point = whole != count;
    if (!number->has_point) {
        number->fraction_count = 0;
        number->digits = mn__digits_value(word, whole);
        number->exponent = 0;
        return whole != 0;
    }
    used = mn__trailing_zeros(other & (other - 1)) >> 3;
    if (used != count || count == 1 || (char)((word >> 8 * whole & 0xff) ^ '0') != point) return 0;
    word_low = word & (((uint64_t)1 << 8 * whole) - 1);
    word = word_low | word >> 8 * whole >> 8 << 8 * whole;
    number->digits = mn__digits_value(word, used - 1);
    number->fraction_count = used - 1 - whole;
    number->exponent = -(int64_t)number->fraction_count;
    return 1;
}

/* An exponent after its letter; false if there are no digits, or too many to bother. */
MN__INLINE int mn__scan_exponent(const char *text, const char *last, mn__number *number) {
    uint64_t word = mn__load_tail(last, (size_t)(last - text));
    int minus = (word & 0xff) == '-';
    unsigned sign = (unsigned)(minus | ((word & 0xff) == '+')), count;
    int64_t value;
    word = (word >> 8 * sign) ^ MN__ZEROS;
    count = mn__digit_run(word);
    if (MN__UNLIKELY(count == 0 || count + sign >= 8)) return 0;
    value = (int64_t)mn__digits_value(word, count);
    number->exponent += minus ? -value : value;
    number->end = text + sign + count;
    return 1;
}

/* More than eight characters: at most 19 significant digits, and whatever follows the number. False sends the
 * text to the general reader. Loads never depend on where the digits end, so branches are few and
 * predictable. */
MN__INLINE int mn__scan_long(const char *first, const char *last, char point, mn__number *number) {
    int negative = *first == '-';
    const char *text = first + negative;
    uint64_t word = mn__load8(text) ^ MN__ZEROS;
    unsigned count = mn__digit_run(word), fraction = 0, total;
    uint64_t value = mn__digits_value(word, count);
    number->negative = negative;
    text += count;
    total = count;
    if (count == 8) {
        word = mn__load_tail(last, (size_t)(last - text)) ^ MN__ZEROS;
        count = mn__digit_run(word);
        value = value * mn__tens[count] + mn__digits_value(word, count);
        text += count;
        total += count;
        if (MN__UNLIKELY(count == 8)) return 0;
    }
    number->integer_count = total;
    number->has_point = text != last && *text == point;
    total -= total != 0 && value == 0; /* one leading zero */
    if (number->has_point) {
        size_t left = (size_t)(last - ++text);
        unsigned second;
        word = mn__load_tail(last, left) ^ MN__ZEROS;
        count = mn__digit_run(word);
        value = value * mn__tens[count] + mn__digits_value(word, count);
        fraction = count;
        word = mn__load_tail(last, left < 8 ? 0 : left - 8) ^ MN__ZEROS;
        second = mn__digit_run(word);
        second = count == 8 ? second : 0;
        value = value * mn__tens[second] + mn__digits_value(word, second);
        fraction += second;
        if (left >= 16 && second == 8) {
            word = mn__load_tail(last, left - 16) ^ MN__ZEROS;
            count = mn__digit_run(word);
            value = value * mn__tens[count] + mn__digits_value(word, count);
            fraction += count;
            if (MN__UNLIKELY(count == 8)) return 0;
        }
        text += fraction;
    }
    total += fraction;
    number->fraction_count = fraction;
    number->digits = value;
    number->exponent = -(int64_t)fraction;
    number->end = text;
    number->has_exponent = text != last && (*text | 0x20) == 'e';
    if (MN__UNLIKELY(total > 19 || number->integer_count + fraction == 0)) return 0;
    return !number->has_exponent || mn__scan_exponent(text + 1, last, number);
}

#ifdef MN__AVX2
#define MN__TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define MN__TARGET_INLINE MN__TARGET static inline __attribute__((always_inline))

/* Sixteen bytes from here + count have the last `count` (0 to 32) set. */
static const unsigned char mn__last_bytes[48] = {
    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

MN__TARGET_INLINE __m128i mn__load16(const void *in) { return _mm_loadu_si128((const __m128i *)in); }

/* A bit for every byte that is a digit. */
MN__TARGET_INLINE uint64_t mn__digit_mask(__m128i text) {
    __m128i digits = _mm_sub_epi8(text, _mm_set1_epi8('0'));
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(digits, _mm_set1_epi8(9)), digits));
}

/* Sixteen characters as digits, of which the last `fraction` stand after the point, which is squeezed out:
 * what stands before it comes from `before`, the sixteen characters one earlier. */
MN__TARGET_INLINE __m128i mn__without_point(__m128i text, __m128i before, unsigned fraction) {
    return _mm_sub_epi8(_mm_blendv_epi8(before, text, mn__load16(mn__last_bytes + fraction)),
                        _mm_set1_epi8('0'));
}

/* The number that sixteen digits spell. */
MN__TARGET_INLINE uint64_t mn__sixteen_value(__m128i digits) {
    __m128i fours;
    uint64_t eights;
    digits = _mm_maddubs_epi16(digits, _mm_set1_epi16(0x010a)); /* pairs: 10, 1 */
    fours = _mm_madd_epi16(digits, _mm_set1_epi32(0x00010064)); /* 100, 1 */
    fours = _mm_packus_epi32(fours, fours);
    eights = (uint64_t)_mm_cvtsi128_si64(_mm_madd_epi16(fours, _mm_set1_epi32(0x00012710))); /* 10000, 1 */
    return (uint32_t)eights * (uint64_t)100000000 + (eights >> 32);
}

/* Nine to sixteen characters that are all of the range: digits with at most one point, after an optional
 * minus. */
MN__TARGET_INLINE int mn__scan_medium(const char *first, size_t length, char point, mn__number *number) {
    const char *last = first + length;
    const unsigned empty = 16 - (unsigned)length, negative = *first == '-';
    const uint64_t high = mn__load8(last - 8),
                   low = empty == 0 ? mn__load8(first) : mn__load8(first) << 8 * empty;
    const __m128i text = _mm_set_epi64x((int64_t)high, (int64_t)low);
    /* The bits of characters that are not digits; the sign and what lies in front are let pass. */
    const uint64_t other = (~mn__digit_mask(text) & 0xffff) >> (empty + negative) << (empty + negative);
    const unsigned at = mn__trailing_zeros(other), fraction = 15 - at,
                   digits = (unsigned)length - negative - (other != 0);
    __m128i spelled;
    if ((other & (other - 1)) != 0) return 0;
    number->negative = (int)negative;
    number->end = last;
    number->has_exponent = 0;
    number->has_point = other != 0;
    if (other != 0) {
        if (first[at - empty] != point) return 0;
        number->fraction_count = fraction;
        number->integer_count = digits - fraction;
        number->exponent = -(int64_t)fraction;
        spelled = mn__without_point(text, _mm_slli_si128(text, 1), fraction);
    } else {
        number->fraction_count = 0;
        number->integer_count = digits;
        number->exponent = 0;
        spelled = _mm_sub_epi8(text, _mm_set1_epi8('0'));
    }
    number->digits = mn__sixteen_value(_mm_and_si128(spelled, mn__load16(mn__last_bytes + digits)));
    return 1;
}

/* Seventeen characters or more, of which only the first 32 are looked at, with a point and 16 to 20 digits.
 */
MN__TARGET_INLINE int mn__scan_wide(const char *first, const char *last, char point, mn__number *number) {
    const size_t rest = (size_t)(last - first), length = rest < 32 ? rest : 32;
    const uint64_t digit_mask =
        mn__digit_mask(mn__load16(first)) | mn__digit_mask(mn__load16(first + length - 16)) << (length - 16);
    const unsigned negative = *first == '-';
    /* The first two characters that are not digits: the point, and the end or the exponent's letter. */
    const uint64_t other = ~digit_mask & ~(uint64_t)negative, beyond = other & (other - 1);
    const unsigned at = mn__trailing_zeros(other), end = mn__trailing_zeros(beyond);
    const unsigned integer = at - negative, fraction = end - at - 1, count = integer + fraction,
                   more = count - 16;
    uint64_t word, top;
    unsigned shift;
    if (end > length || end < 17 || integer == 0 || first[at] != point) return 0;
    word = mn__load8(first + negative) ^ MN__ZEROS;
    /* A zero before the point may come on top of 19 digits. */
    if (more > 3 + (unsigned)((word & 0xff) == 0)) return 0;
    /* The digits before the last sixteen, four at most, with the point squeezed out. */
    shift = 8 * (integer < 7 ? integer : 7);
    word = _bzhi_u64(word, shift) | word >> 8 >> shift << shift;
    word = (uint32_t)(word << (32 - 8 * more));
    word = word * 10 + (word >> 8);
    top = (word & 0xff) * 100 + (word >> 16 & 0xff);
    number->negative = (int)negative;
    number->has_point = 1;
    number->integer_count = integer;
    number->fraction_count = fraction;
    number->exponent = -(int64_t)fraction;
    number->end = first + end;
    number->digits =
        top * mn__tens[16] + mn__sixteen_value(mn__without_point(mn__load16(first + end - 16),
                                                                 mn__load16(first + end - 17), fraction));
    number->has_exponent = number->end != last && (*number->end | 0x20) == 'e';
    if (end == 32 && rest > 32) return 0;
    return !number->has_exponent || mn__scan_exponent(number->end + 1, last, number);
}

/* The same for texts of any length that are of the usual kind. */
MN__TARGET_INLINE int mn__scan_avx2(const char *first, const char *last, char point, mn__number *number) {
    const size_t length = (size_t)(last - first);
    number->truncated = 0;
    if (length > 16) return mn__scan_wide(first, last, point, number);
    return length > 8 ? mn__scan_medium(first, length, point, number)
                      : mn__scan_short(first, length, point, number);
}

#if defined(__AVX2__) && defined(__BMI2__) && defined(__LZCNT__)
#define mn__has_avx2() 1
#else
/* Whether processor and system have AVX2 and BMI2: 0 as long as nobody has asked, then 1 or -1. */
static int mn__avx2;

/* Not __builtin_cpu_supports, which needs a part of libgcc that static programs with musl are linked without.
 */
MN__COLD int mn__find_avx2(void) {
    unsigned a, b, c, d, low, high;
    int found = -1;
    /* The system saves the registers (OSXSAVE, and what XGETBV says), and the processor has AVX. */
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & 0x18000000) == 0x18000000) {
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        if ((low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 0x120) == 0x120) found = 1;
    }
    __atomic_store_n(&mn__avx2, found, __ATOMIC_RELAXED);
    return found;
}

MN__INLINE int mn__has_avx2(void) {
    int found = __atomic_load_n(&mn__avx2, __ATOMIC_RELAXED);
    return MN__LIKELY(found > 0) || (found == 0 && mn__find_avx2() > 0);
}
#endif
#endif

MN__INLINE int mn__scan_fast(const char *first, const char *last, char point, mn__number *number) {
    size_t length = (size_t)(last - first);
    number->truncated = 0;
    return length > 8 ? mn__scan_long(first, last, point, number)
                      : mn__scan_short(first, length, point, number);
}

MN__INLINE int mn__is_digit(char c) { return (unsigned char)(c - '0') < 10; }

/* Takes one more digit into the first 19 significant ones. */
MN__INLINE void mn__take_digit(mn__number *number, unsigned *significant, char c) {
    if (*significant < 19) {
        number->digits = number->digits * 10 + (uint64_t)(c - '0');
        *significant += number->digits != 0;
    } else {
        number->truncated |= c != '0';
        number->exponent++;
    }
}

/* An optional exponent at `text`; false where the grammar forbids what it finds. */
static int mn__scan_any_exponent(const char *text, const char *last, unsigned flags, mn__number *number) {
    const char *start = text;
    int64_t value = 0;
    int minus;
    number->written_exponent = 0;
    number->has_exponent = 0;
    number->end = text;
    if (text == last || (*text | 0x20) != 'e' || (flags & MN_FIXED_ONLY))
        return !(flags & MN_SCIENTIFIC_ONLY);
    text++;
    minus = text != last && *text == '-';
    if (text != last && (*text == '-' || *text == '+')) text++;
    if (text == last || !mn__is_digit(*text)) {
        number->end = start;
        return !(flags & (MN_SCIENTIFIC_ONLY | MN_JSON));
    }
    for (; text != last && mn__is_digit(*text); text++) {
        if (value < (int64_t)1 << 50) value = value * 10 + (*text - '0');
    }
    number->written_exponent = minus ? -value : value;
    number->exponent += number->written_exponent;
    number->has_exponent = 1;
    number->end = text;
    return 1;
}

/* Any number but inf and nan, one character at a time. */
MN__COLD int mn__scan_any(const char *first, const char *last, const mn_options *options,
                          mn__number *number) {
    const char *text = first;
    unsigned significant = 0, flags = options->flags;
    memset(number, 0, sizeof *number);
    if (text != last && (*text == '-' || *text == '+')) {
        if (*text == '+' && (flags & (MN_JSON | MN_NO_PLUS))) return 0;
        number->negative = *text++ == '-';
    }
    number->integer = text;
    for (; text != last && mn__is_digit(*text); text++) mn__take_digit(number, &significant, *text);
    number->integer_count = (size_t)(text - number->integer);
    if ((flags & MN_JSON) &&
        (number->integer_count == 0 || (number->integer_count > 1 && *number->integer == '0')))
        return 0;
    number->fraction = text;
    if (text != last && *text == options->point) {
        number->has_point = 1;
        number->fraction = ++text;
        for (; text != last && mn__is_digit(*text); text++) mn__take_digit(number, &significant, *text);
        number->fraction_count = (size_t)(text - number->fraction);
        number->exponent -= (int64_t)number->fraction_count;
        if ((flags & MN_JSON) && number->fraction_count == 0) return 0;
    }
    if (number->integer_count + number->fraction_count == 0) return 0;
    return mn__scan_any_exponent(text, last, flags, number);
}

/* Whether the range goes on with `word` (lower case), in any case. */
static int mn__has_word(const char *text, const char *last, const char *word) {
    for (; *word; word++, text++) {
        if (text == last || (*text | 0x20) != *word) return 0;
    }
    return 1;
}

enum { MN__NOTHING, MN__INFINITY, MN__NAN };

/* inf, infinity, nan or nan(letters, digits and underscores). */
static int mn__scan_special(const char *first, const char *last, unsigned flags, int *negative,
                            const char **end) {
    const char *text = first;
    if (flags & (MN_JSON | MN_NO_SPECIAL)) return MN__NOTHING;
    *negative = text != last && *text == '-';
    if (*negative || (text != last && *text == '+' && !(flags & MN_NO_PLUS))) text++;
    if (mn__has_word(text, last, "inf")) {
        *end = text + (mn__has_word(text + 3, last, "inity") ? 8 : 3);
        return MN__INFINITY;
    }
    if (!mn__has_word(text, last, "nan")) return MN__NOTHING;
    *end = text += 3;
    if (text != last && *text == '(') {
        for (text++; text != last; text++) {
            char c = *text;
            if (c == ')') {
                *end = text + 1;
                break;
            }
            if (!mn__is_digit(c) && c != '_' && ((c | 0x20) < 'a' || (c | 0x20) > 'z')) break;
        }
    }
    return MN__NAN;
}

/* ---- Reading: from digits to binary
 * ---------------------------------------------------------------------------- */

/* What differs between double and float. */
typedef struct {
    int mantissa_bits;       /* without the hidden one */
    int exponent_bias;       /* of the field, as a positive number */
    int exponent_full;       /* the field of an infinity */
    int smallest_ten;        /* below this power of ten everything is zero */
    int largest_ten;         /* above this everything is infinite */
    int tie_first, tie_last; /* the powers of ten between which 19 digits can lie halfway */
} mn__format;

#define MN__F64_FORMAT \
    { 52, 1023, 0x7ff, -342, 308, -4, 23 }
#define MN__F32_FORMAT \
    { 23, 127, 0xff, -64, 38, -17, 10 }

/* digits * 10^ten as the bits of a format, without the sign: Lemire's algorithm. One product with the high
 * half of the power settles all but one in some hundred inputs; with the low half it settles all. */
MN__INLINE uint64_t mn__round(uint64_t digits, int64_t ten, const mn__format format) {
    const uint64_t infinity = (uint64_t)format.exponent_full << format.mantissa_bits;
    const uint64_t doubtful = ~(uint64_t)0 >> (format.mantissa_bits + 3);
    const uint64_t *power;
    mn__wide product;
    unsigned zeros, upper, drop;
    uint64_t mantissa;
    int exponent;
    if (MN__UNLIKELY(digits == 0 || ten < format.smallest_ten)) return 0;
    if (MN__UNLIKELY(ten > format.largest_ten)) return infinity;
    power = mn__powers + 2 * (ten - MN__POWER_FIRST);
    zeros = mn__leading_zeros(digits);
    digits <<= zeros;
    product = mn__multiply(digits, power[0]);
    if (MN__UNLIKELY((product.high & doubtful) == doubtful)) {
        uint64_t more = mn__multiply(digits, power[1]).high;
        product.low += more;
        product.high += product.low < more;
    }
    upper = (unsigned)(product.high >> 63);
    drop = upper + 64 - (unsigned)format.mantissa_bits - 3;
    mantissa = product.high >> drop;
    /* 217706 / 2^16 is log2(10). */
    exponent = (int)((217706 * ten) >> 16) + 63 + (int)upper - (int)zeros + format.exponent_bias;
    if (MN__UNLIKELY(exponent <= 0)) {
        if (exponent <= -63) return 0;
        mantissa >>= 1 - exponent;
        return (mantissa + (mantissa & 1)) >> 1;
    }
    if (MN__UNLIKELY(product.low <= 1 && ten >= format.tie_first && ten <= format.tie_last &&
                     (mantissa & 3) == 1 && mantissa << drop == product.high))
        mantissa &= ~(uint64_t)1;
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    /* The hidden bit adds one to the exponent, and so does a carry out of the mantissa. */
    mantissa += (uint64_t)(exponent - 1) << format.mantissa_bits;
    return mantissa < infinity ? mantissa : infinity;
}

/* A non-negative integer for the exact comparison: at most 768 digits, or a midpoint times 5^1110. */
enum { MN__BIG_LIMBS = 96, MN__DIGITS_MAX = 768 };
typedef struct {
    uint32_t limbs[MN__BIG_LIMBS];
    unsigned count;
} mn__big;

static void mn__big_multiply_add(mn__big *big, uint32_t factor, uint32_t addend) {
    uint64_t carry = addend;
    unsigned index;
    for (index = 0; index < big->count; index++) {
        carry += (uint64_t)big->limbs[index] * factor;
        big->limbs[index] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && big->count < MN__BIG_LIMBS) big->limbs[big->count++] = (uint32_t)carry;
}

static void mn__big_multiply_five(mn__big *big, unsigned exponent) {
    for (; exponent >= 13; exponent -= 13) mn__big_multiply_add(big, 1220703125, 0);
    for (; exponent > 0; exponent--) mn__big_multiply_add(big, 5, 0);
}

static void mn__big_shift(mn__big *big, unsigned bits) {
    unsigned limbs = bits / 32, index;
    mn__big_multiply_add(big, (uint32_t)1 << bits % 32, 0);
    if (big->count + limbs > MN__BIG_LIMBS) return;
    for (index = big->count; index > 0; index--) big->limbs[index - 1 + limbs] = big->limbs[index - 1];
    memset(big->limbs, 0, limbs * sizeof big->limbs[0]);
    big->count += limbs;
}

static int mn__big_compare(const mn__big *a, const mn__big *b) {
    unsigned index;
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    for (index = a->count; index > 0; index--) {
        if (a->limbs[index - 1] != b->limbs[index - 1])
            return a->limbs[index - 1] < b->limbs[index - 1] ? -1 : 1;
    }
    return 0;
}

/* All the digits of a number as an integer, and the power of ten that it is to be multiplied by. Of more
 * digits than can matter, the rest become a single one unless they are all zeros. */
static int64_t mn__big_digits(mn__big *big, const mn__number *number) {
    size_t total = number->integer_count + number->fraction_count, index = 0, taken;
    uint32_t chunk = 0, scale = 1;
    int64_t exponent;
    big->count = 0;
#define MN__DIGIT(at) \
    ((at) < number->integer_count ? number->integer[at] : number->fraction[(at)-number->integer_count])
    while (index < total && MN__DIGIT(index) == '0') index++;
    for (taken = 0; taken < MN__DIGITS_MAX && index < total; taken++, index++) {
        chunk = chunk * 10 + (uint32_t)(MN__DIGIT(index) - '0');
        scale *= 10;
        if (scale == 1000000000) {
            mn__big_multiply_add(big, scale, chunk);
            chunk = 0, scale = 1;
        }
    }
    mn__big_multiply_add(big, scale, chunk);
    exponent = (int64_t)(total - index);
    while (index < total && MN__DIGIT(index) == '0') index++;
    if (index < total) {
        mn__big_multiply_add(big, 10, 1);
        exponent--;
    }
#undef MN__DIGIT
    return exponent - (int64_t)number->fraction_count + number->written_exponent;
}

/* Chooses between two neighbouring results, given as bits without the sign, by comparing the number with the
 * middle between them. The lower one is below or equal to the number, the upper one above or equal. */
MN__COLD uint64_t mn__round_exactly(const mn__number *number, uint64_t lower, const mn__format format) {
    const uint64_t hidden = (uint64_t)1 << format.mantissa_bits;
    const int field = (int)(lower >> format.mantissa_bits);
    const uint64_t mantissa = (lower & (hidden - 1)) | (field ? hidden : 0);
    /* The middle is (2 * mantissa + 1) * 2^two. */
    const uint64_t middle = 2 * mantissa + 1;
    int64_t two = (field ? field : 1) - format.exponent_bias - format.mantissa_bits - 1, ten;
    mn__big left, right;
    int order;
    ten = mn__big_digits(&left, number);
    right.limbs[0] = (uint32_t)middle;
    right.limbs[1] = (uint32_t)(middle >> 32);
    right.count = middle >> 32 ? 2 : 1;
    if (ten >= 0) {
        mn__big_multiply_five(&left, (unsigned)ten);
    } else {
        mn__big_multiply_five(&right, (unsigned)-ten);
    }
    two -= ten;
    if (two >= 0) {
        mn__big_shift(&right, (unsigned)two);
    } else {
        mn__big_shift(&left, (unsigned)-two);
    }
    order = mn__big_compare(&left, &right);
    return lower + (order > 0 || (order == 0 && (mantissa & 1)));
}

/* The bits of a scanned number, with its sign left out. More than 19 digits rarely matter: if the first 19
 * and the next number of 19 digits round alike, so does everything between. */
MN__INLINE uint64_t mn__magnitude(const mn__number *number, const mn__format format) {
    uint64_t lower = mn__round(number->digits, number->exponent, format);
    if (MN__UNLIKELY(number->truncated) && lower != mn__round(number->digits + 1, number->exponent, format))
        return mn__round_exactly(number, lower, format);
    return lower;
}

MN__INLINE mn_result mn__answer(const char *end, mn_status status) {
    mn_result result;
    result.end = end;
    result.status = status;
    return result;
}

MN__INLINE mn_result mn__finish_f64(const mn__number *number, double *out) {
    const mn__format format = MN__F64_FORMAT;
    uint64_t bits;
    if (number->digits <= (uint64_t)1 << 53 && number->exponent == 0 && !number->truncated) {
        /* An exact double, whatever the rounding mode. */
        double value = (double)(int64_t)number->digits;
        *out = number->negative ? -value : value;
        return mn__answer(number->end, MN_OK);
    }
    /* Clinger: both parts are exact doubles, so one operation rounds correctly, if the machine rounds to
     * nearest. */
    if (FLT_EVAL_METHOD == 0 && number->digits <= (uint64_t)1 << 53 && number->exponent >= -22 &&
        number->exponent <= 22 && !number->truncated && MN__LIKELY(mn__rounds_to_nearest())) {
        double value = (double)(int64_t)number->digits;
        value = number->exponent < 0 ? value / mn__exact_tens[-number->exponent]
                                     : value * mn__exact_tens[number->exponent];
        *out = number->negative ? -value : value;
        return mn__answer(number->end, MN_OK);
    }
    bits = mn__magnitude(number, format);
    {
        const int out_of_range = bits == (uint64_t)0x7ff << 52 || (bits == 0 && number->digits != 0);
        bits |= (uint64_t)number->negative << 63;
        memcpy(out, &bits, 8);
        return mn__answer(number->end, out_of_range ? MN_OUT_OF_RANGE : MN_OK);
    }
}

MN__INLINE mn_result mn__finish_f32(const mn__number *number, float *out) {
    const mn__format format = MN__F32_FORMAT;
    uint32_t bits = (uint32_t)mn__magnitude(number, format);
    const int out_of_range = bits == (uint32_t)0xff << 23 || (bits == 0 && number->digits != 0);
    bits |= (uint32_t)number->negative << 31;
    memcpy(out, &bits, 4);
    return mn__answer(number->end, out_of_range ? MN_OUT_OF_RANGE : MN_OK);
}

/* Whether a number that the fast reader took is one that the options allow; if not, the general reader
 * decides. */
MN__INLINE int mn__allowed(const mn__number *number, const char *first, unsigned flags) {
    const char *digits = first + number->negative;
    if (flags & MN_SCIENTIFIC_ONLY) return 0;
    if ((flags & MN_FIXED_ONLY) && number->has_exponent) return 0;
    if (!(flags & MN_JSON)) return 1;
    return number->integer_count != 0 && (number->integer_count == 1 || *digits != '0') &&
           (!number->has_point || number->fraction_count != 0);
}

MN__COLD mn_result mn__parse_any_f64(const char *first, const char *last, double *out,
                                     const mn_options *options) {
    mn__number number;
    const char *end = first;
    int negative = 0, special;
    if (mn__scan_any(first, last, options, &number)) return mn__finish_f64(&number, out);
    special = mn__scan_special(first, last, options->flags, &negative, &end);
    if (special != MN__NOTHING) {
        uint64_t bits = (special == MN__INFINITY ? (uint64_t)0x7ff << 52 : (uint64_t)0xfff << 51) |
                        (uint64_t)negative << 63;
        memcpy(out, &bits, 8);
        return mn__answer(end, MN_OK);
    }
    return mn__answer(first, MN_INVALID);
}

MN__COLD mn_result mn__parse_any_f32(const char *first, const char *last, float *out,
                                     const mn_options *options) {
    mn__number number;
    const char *end = first;
    int negative = 0, special;
    if (mn__scan_any(first, last, options, &number)) return mn__finish_f32(&number, out);
    special = mn__scan_special(first, last, options->flags, &negative, &end);
    if (special != MN__NOTHING) {
        uint32_t bits = (special == MN__INFINITY ? (uint32_t)0xff << 23 : (uint32_t)0x1ff << 22) |
                        (uint32_t)negative << 31;
        memcpy(out, &bits, 4);
        return mn__answer(end, MN_OK);
    }
    return mn__answer(first, MN_INVALID);
}

static const mn_options mn__defaults = {'.', 0};

MN__OUTLINE mn_result mn__parse_f64_swar(const char *first, const char *last, double *out) {
    mn__number number;
    if (MN__LIKELY(mn__scan_fast(first, last, '.', &number))) return mn__finish_f64(&number, out);
    return mn__parse_any_f64(first, last, out, &mn__defaults);
}

MN__OUTLINE mn_result mn__parse_f32_swar(const char *first, const char *last, float *out) {
    mn__number number;
    if (MN__LIKELY(mn__scan_fast(first, last, '.', &number))) return mn__finish_f32(&number, out);
    return mn__parse_any_f32(first, last, out, &mn__defaults);
}

#ifdef MN__AVX2
MN__TARGET static mn_result mn__parse_f64_avx2(const char *first, const char *last, double *out) {
    mn__number number;
    if (MN__LIKELY(mn__scan_avx2(first, last, '.', &number))) return mn__finish_f64(&number, out);
    return mn__parse_f64_swar(first, last, out);
}

MN__TARGET static mn_result mn__parse_f32_avx2(const char *first, const char *last, float *out) {
    mn__number number;
    if (MN__LIKELY(mn__scan_avx2(first, last, '.', &number))) return mn__finish_f32(&number, out);
    return mn__parse_f32_swar(first, last, out);
}
#endif

MN_API mn_result mn_parse_f64(const char *first, const char *last, double *out) {
#ifdef MN__AVX2
    if (MN__LIKELY(mn__has_avx2())) return mn__parse_f64_avx2(first, last, out);
#endif
    return mn__parse_f64_swar(first, last, out);
}

MN_API mn_result mn_parse_f32(const char *first, const char *last, float *out) {
#ifdef MN__AVX2
    if (MN__LIKELY(mn__has_avx2())) return mn__parse_f32_avx2(first, last, out);
#endif
    return mn__parse_f32_swar(first, last, out);
}

MN_API mn_result mn_parse_f64_with(const char *first, const char *last, double *out,
                                   const mn_options *options) {
    mn__number number;
    if (MN__LIKELY(mn__scan_fast(first, last, options->point, &number) &&
                   mn__allowed(&number, first, options->flags)))
        return mn__finish_f64(&number, out);
    return mn__parse_any_f64(first, last, out, options);
}

MN_API mn_result mn_parse_f32_with(const char *first, const char *last, float *out,
                                   const mn_options *options) {
    mn__number number;
    if (MN__LIKELY(mn__scan_fast(first, last, options->point, &number) &&
                   mn__allowed(&number, first, options->flags)))
        return mn__finish_f32(&number, out);
    return mn__parse_any_f32(first, last, out, options);
}

/* ---- Reading integers
 * ------------------------------------------------------------------------------------------ */

/* Digits of a value up to `limit`, which is constant wherever this is inlined. */
MN__INLINE mn_result mn__parse_magnitude(const char *first, const char *last, uint64_t limit, uint64_t *out) {
    const char *text = first, *start;
    uint64_t value = 0;
    int over;
    while (text != last && *text == '0') text++;
    start = text;
    while (last - text >= 8) {
        uint64_t word = mn__load8(text) ^ MN__ZEROS;
        if (mn__digit_run(word) != 8) break;
        value = value * 100000000 + mn__digits_value(word, 8);
        text += 8;
    }
    for (; text != last && mn__is_digit(*text); text++) value = value * 10 + (uint64_t)(*text - '0');
    if (text == first) return mn__answer(first, MN_INVALID);
    /* Of 20 digits, those above 2^64 start with a 2 or more, or have come round to fewer than 20 digits. */
    over = text - start > 20 || (text - start == 20 && (*start != '1' || value < mn__tens[19]));
    if (over || value > limit) return mn__answer(text, MN_OUT_OF_RANGE);
    *out = value;
    return mn__answer(text, MN_OK);
}

MN_API mn_result mn_parse_u64(const char *first, const char *last, uint64_t *out) {
    return mn__parse_magnitude(first, last, UINT64_MAX, out);
}

MN_API mn_result mn_parse_u32(const char *first, const char *last, uint32_t *out) {
    uint64_t value;
    mn_result result = mn__parse_magnitude(first, last, UINT32_MAX, &value);
    if (result.status == MN_OK) *out = (uint32_t)value;
    return result;
}

MN_API mn_result mn_parse_u8(const char *first, const char *last, uint8_t *out) {
    uint64_t value;
    mn_result result = mn__parse_magnitude(first, last, UINT8_MAX, &value);
    if (result.status == MN_OK) *out = (uint8_t)value;
    return result;
}

MN_API mn_result mn_parse_i64(const char *first, const char *last, int64_t *out) {
    const int negative = first != last && *first == '-';
    uint64_t value;
    mn_result result =
        mn__parse_magnitude(first + negative, last, (uint64_t)INT64_MAX + (unsigned)negative, &value);
    if (result.status == MN_INVALID) result.end = first;
    if (result.status == MN_OK) *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return result;
}

/* ---- Printing: digits
 * ------------------------------------------------------------------------------------------ */

/* Eight digits of a number below 10^8, one a byte, the first in the lowest byte: halves, then pairs, then
 * digits. */
MN__INLINE uint64_t mn__eight_digits(uint32_t value) {
    uint64_t high = (uint64_t)value * 109951163 >> 40; /* value / 10000 */
    uint64_t fours = high | ((uint64_t)value - high * 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007fu; /* fours / 100 */
    uint64_t pairs = hundreds | (fours - hundreds * 100) << 16;
    uint64_t tens = (pairs * 103 >> 10) & 0x000f000f000f000fu; /* pairs / 10 */
    return tens | (pairs - tens * 10) << 8;
}

/* The same for two numbers at once. */
MN__INLINE void mn__sixteen_digits(uint32_t first, uint32_t second, uint64_t *high, uint64_t *low) {
#ifdef MN__AVX2
    /* SSE2, which every 64-bit x86 has: two lanes, then four, eight and sixteen. The compiler is kept from
     * seeing the factors, or it would replace each product by six shifts and additions. */
    static const uint16_t factors[6][8] = {
        {0xb8bb, 0x068d, 0, 0, 0xb8bb, 0x068d, 0, 0}, /* 109951163, 2^40 / 10000 */
        {10000, 0, 0, 0, 10000, 0, 0, 0},
        {5243, 5243, 5243, 5243, 5243, 5243, 5243, 5243}, /* 2^19 / 100 */
        {100, 100, 100, 100, 100, 100, 100, 100},
        {6554, 6554, 6554, 6554, 6554, 6554, 6554, 6554}, /* 2^16 / 10 */
        {10, 10, 10, 10, 10, 10, 10, 10}};
    const char *by = (const char *)factors;
    __m128i eights, upper, lower, fours, hundreds, rest, pairs, tens, ones, digits;
    __asm__("" : "+r"(by));
#define MN__FACTOR(index) _mm_loadu_si128((const __m128i *)(const void *)(by + 16 * (index)))
    eights = _mm_set_epi64x(second, first);
    upper = _mm_srli_epi64(_mm_mul_epu32(eights, MN__FACTOR(0)), 40);
    lower = _mm_sub_epi64(eights, _mm_mul_epu32(upper, MN__FACTOR(1)));
    fours = _mm_or_si128(upper, _mm_slli_epi64(lower, 32));
    hundreds = _mm_srli_epi16(_mm_mulhi_epu16(fours, MN__FACTOR(2)), 3);
    rest = _mm_sub_epi16(fours, _mm_mullo_epi16(hundreds, MN__FACTOR(3)));
    pairs = _mm_or_si128(hundreds, _mm_slli_epi32(rest, 16));
    tens = _mm_mulhi_epu16(pairs, MN__FACTOR(4));
    ones = _mm_sub_epi16(pairs, _mm_mullo_epi16(tens, MN__FACTOR(5)));
    digits = _mm_or_si128(tens, _mm_slli_epi16(ones, 8));
#undef MN__FACTOR
    *high = (uint64_t)_mm_cvtsi128_si64(digits);
    *low = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(digits, digits));
#else
    *high = mn__eight_digits(first);
    *low = mn__eight_digits(second);
#endif
}

/* Prints a number below 10^8 without leading zeros, scribbling over eight bytes. */
MN__INLINE char *mn__write_head(char *out, uint32_t value) {
    uint64_t digits = mn__eight_digits(value);
    /* The bit set in the last byte keeps one digit of a zero. */
    unsigned zeros = mn__trailing_zeros(digits | (uint64_t)1 << 56) >> 3;
    mn__store8(out, (digits | MN__ZEROS) >> 8 * zeros);
    return out + 8 - zeros;
}

MN__INLINE char *mn__write_integer(char *out, uint64_t value) {
    uint64_t high, top;
    if (value < 100000000) return mn__write_head(out, (uint32_t)value);
    high = value / 100000000;
    if (high < 100000000) {
        out = mn__write_head(out, (uint32_t)high);
    } else {
        top = high / 100000000;
        out = mn__write_head(out, (uint32_t)top);
        mn__store8(out, mn__eight_digits((uint32_t)(high - top * 100000000)) | MN__ZEROS);
        out += 8;
    }
    mn__store8(out, mn__eight_digits((uint32_t)(value - high * 100000000)) | MN__ZEROS);
    return out + 8;
}

MN_API char *mn_write_u64(char *out, uint64_t value) { return mn__write_integer(out, value); }

MN_API char *mn_write_i64(char *out, int64_t value) {
    *out = '-';
    return mn__write_integer(out + (value < 0), value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* A decimal exponent of at most three digits: e-7, e+20, e+300. */
MN__INLINE char *mn__write_exponent(char *out, int exponent) {
    const uint32_t magnitude = (uint32_t)(exponent < 0 ? -exponent : exponent);
    const uint32_t hundreds = magnitude * 41 >> 12, tens = magnitude * 6554 >> 16;
    /* The three digits, the first lowest: hundreds, tens - 10 * hundreds, magnitude - 10 * tens. */
    const uint32_t digits = (magnitude << 16) - tens * 0x9ff00 - hundreds * 0x9ff;
    const unsigned zeros = mn__trailing_zeros(digits | 0x10000) >> 3;
    out[0] = 'e';
    out[1] = exponent < 0 ? '-' : '+';
    mn__store4(out + 2, (digits | 0x303030) >> 8 * zeros);
    return out + 5 - zeros;
}

/* Lays out 17 digits (from 10^16 up to 10^17) of a number whose first digit counts 10^leading: in place from
 * 0.00001 up to 1e17, with an exponent beyond; or as Redis does. Trailing zeros are dropped. Scribbles over
 * 36 bytes. */
MN__INLINE char *mn__lay_out(char *out, uint64_t digits, int leading, int as_redis) {
    uint64_t top = digits / 100000000, first = top / 100000000;
    uint64_t high, low;
    unsigned count;
    int in_place;
    mn__sixteen_digits((uint32_t)(top - first * 100000000), (uint32_t)(digits - top * 100000000), &high,
                       &low);
    /* How many of the digits are left without the zeros at the end. */
    if (MN__LIKELY(low != 0)) {
        count = 17 - (mn__leading_zeros(low) >> 3);
    } else {
        count = high != 0 ? 9 - (mn__leading_zeros(high) >> 3) : 1;
    }
    high |= MN__ZEROS;
    low |= MN__ZEROS;
    in_place = leading >= -5 && leading < 17;
    if (as_redis) {
        /* By the exponent of the last digit. */
        const int last = leading + 1 - (int)count;
        in_place = last >= 0 ? last < 8 : last > -7 || (leading > -4 && leading < 4);
    }
    if (in_place && leading >= 0) {
        unsigned whole = (unsigned)leading + 1;
        out[0] = (char)('0' + first);
        mn__store8(out + 1, high);
        mn__store8(out + 9, low);
        if (as_redis) mn__store8(out + 17, MN__ZEROS);
        if (count <= whole) return out + whole;
        /* The digits after the point, from registers: reading back what was just stored would stall. */
        {
            unsigned bits = 8 * (whole - 1);
            uint64_t a = bits >= 64 ? low : high, b = bits >= 64 ? 0 : low;
            bits &= 63;
            out[whole] = '.';
            mn__store8(out + whole + 1, bits ? a >> bits | b << (64 - bits) : a);
            mn__store8(out + whole + 9, b >> bits);
        }
        return out + count + 1;
    }
    if (in_place) {
        mn__store8(out, 0x3030303030302e30u); /* 0.000000 */
        out += 1 - leading;
        out[0] = (char)('0' + first);
        mn__store8(out + 1, high);
        mn__store8(out + 9, low);
        return out + count;
    }
    out[0] = (char)('0' + first);
    out[1] = '.';
    mn__store8(out + 2, high);
    mn__store8(out + 10, low);
    return mn__write_exponent(out + count + (count > 1), leading);
}

/* ---- Printing: from binary to digits
 * ---------------------------------------------------------------------------- */

/* The power 10^k as a 128-bit significand rounded up. */
MN__INLINE mn__wide mn__power_above(int k) {
    const uint64_t *entry = mn__powers + 2 * (k - MN__POWER_FIRST);
    mn__wide power;
    power.low = entry[1] + (k > MN__EXACT_LAST);
    power.high = entry[0] + (power.low < entry[1]);
    return power;
}

/* A choice without a branch. */
#define MN__SELECT(condition, yes, no) ((no) ^ (((yes) ^ (no)) & (0 - (uint64_t)(condition))))

/* The Schubfach choice: the shortest decimal in the rounding interval and the closest of those. The value and
 * the ends of the interval come scaled by four and rounded to odd; the answer counts units of the scale, and
 * is a multiple of ten where one fits. */
MN__INLINE uint64_t mn__choose(uint64_t value, uint64_t lower, uint64_t upper) {
    const uint64_t units = value >> 2, tens = units / 10;
    const uint64_t tens_below = lower <= 40 * tens, tens_above = 40 * tens + 40 <= upper;
    const uint64_t below = lower <= 4 * units, above = 4 * units + 4 <= upper;
    const uint64_t up = (value & 3) + (units & 1) > 2;
    const uint64_t by_tens = 10 * (tens + tens_above),
                   by_units = units + MN__SELECT(below != above, above, up);
    /* At most one multiple of ten lies inside. Random numbers take either way, so a branch would often be
     * mispredicted. */
    return MN__SELECT(tens_below != tens_above, by_tens, by_units);
}

/* The digits of a finite double above zero, and the exponent of the last of them: Schubfach, exact in every
 * case. */
MN__COLD uint64_t mn__shortest_f64_exactly(uint64_t bits, int *exponent) {
    const uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    const int field = (int)(bits >> 52), irregular = fraction == 0 && field > 1,
              two = (field ? field : 1) - 1075;
    const uint64_t significand = fraction | (uint64_t)(field != 0) << 52, odd = significand & 1;
    /* 1262611 / 2^22 is log10(2), 524031 / 2^22 is log10(4/3), 1741647 / 2^19 is log2(10). */
    const int ten = (two * 1262611 - (irregular ? 524031 : 0)) >> 22;
    const unsigned shift = (unsigned)(two + ((-ten * 1741647) >> 19) + 1);
    const mn__wide power = mn__power_above(-ten);
    /* The value times the power in 192 bits, and the half unit that lies on either side. */
    const uint64_t scaled = significand << (shift + 2);
    const mn__wide low = mn__multiply(scaled, power.low), high = mn__multiply(scaled, power.high);
    const uint64_t w0 = low.low, w1 = low.high + high.low, w2 = high.high + (w1 < low.high);
    const uint64_t h0 = power.low << (shift + 1), h1 = power.high << (shift + 1) | power.low >> (63 - shift);
    const uint64_t h2 = power.high >> (63 - shift);
    const unsigned half = (unsigned)irregular;
    const uint64_t g0 = h0 >> half | (half ? h1 << 63 : 0), g1 = h1 >> half | (half ? h2 << 63 : 0),
                   g2 = h2 >> half;
    uint64_t u0 = w0 + h0, u1 = w1 + h1, u2 = w2 + h2, l0 = w0 - g0, l1 = w1 - g1, l2 = w2 - g2, carry,
             borrow;
    carry = u0 < w0;
    u2 += (u1 < w1) + (u1 + carry < u1);
    u1 += carry;
    borrow = l0 > w0;
    l2 -= (uint64_t)(l1 > w1) + (l1 < borrow);
    l1 -= borrow;
    *exponent = ten;
    return mn__choose(w2 | (w1 > 1), (l2 | (l1 > 1)) + odd, (u2 | (u1 > 1)) - odd);
}

/* The digits that the shortest answer and Grisu2's share, settled by fewer bits. The value is scaled to
 * between 2^52 and 2^57 units, of which the rounding interval spans one to ten; the fraction of a unit is
 * known to within 2^-60. The answer is 0 wherever an algorithm that works in 62 bits or more might see it
 * otherwise, and at powers of two. */
MN__INLINE uint64_t mn__shortest_with_margin(uint64_t bits, int *exponent) {
    const uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    const int field = (int)(bits >> 52), two = field - 1075;
    const int ten = (two * 1262611) >> 22;
    const unsigned shift = (unsigned)(two + ((-ten * 1741647) >> 19) + 1);
    const uint64_t *power = mn__powers + 2 * (-ten - MN__POWER_FIRST);
    const uint64_t scaled = (fraction | (uint64_t)1 << 52) << shift;
    const uint64_t more = mn__multiply(scaled, power[1]).high;
    const mn__wide product = mn__multiply(scaled, power[0]);
    const uint64_t below = product.low + more, units = product.high + (below < more);
    const uint64_t tens = units / 10, last = units - 10 * tens;
    /* In units of 2^-60: how far the value lies above the multiple of ten, and how far the interval reaches.
     */
    const uint64_t above_tens = last << 60 | below >> 4, reach = power[0] >> (5 - shift);
    const uint64_t below_tens = ((uint64_t)10 << 60) - above_tens, middle = (uint64_t)1 << 63;
    const uint64_t down = above_tens < reach, up = below_tens < reach;
    const uint64_t margin = units;
    if (MN__UNLIKELY(above_tens - reach + margin <= 2 * margin || below_tens - reach + margin <= 2 * margin ||
                     fraction == 0 || field == 0))
        return 0;
    if (MN__UNLIKELY(!(down | up) &&
                     ((below >> 4) - (middle >> 4) + margin <= 2 * margin || reach < (middle >> 4) + margin)))
        return 0;
    *exponent = ten;
    return MN__SELECT(down | up, 10 * (tens + up), units + (below > middle));
}

/* The shortest decimal of a normal double that is no power of two: `tens` of up to sixteen digits, one more
 * digit, which is 0 where the tens alone are in the rounding interval, and the exponent of the tens. */
typedef struct {
    uint64_t tens;
    unsigned last;
    unsigned has_last; /* all bits or none */
    int exponent;
} mn__decimal;

/* The value is scaled to tens of the unit of the last digit, of which the rounding interval spans 0.1 to 1:
 * there is a multiple in it below the value, or above, or none, and then the fraction gives the digit. The
 * fraction and half the interval are known to within 2^-64; tables/prove_printing.py shows that this settles
 * every value. */
MN__INLINE mn__decimal mn__shortest_f64(uint64_t fraction_bits, unsigned field) {
    const int two = (int)field - 1075, ten = (two * 1262611) >> 22;
    const unsigned shift = (unsigned)(two + (((-ten - 1) * 1741647) >> 19) + 12); /* 8 to 11 */
    const uint64_t *power = mn__powers + 2 * (size_t)(unsigned)(-MN__POWER_FIRST - 1 - ten);
    const uint64_t scaled = (fraction_bits | (uint64_t)1 << 52) << shift;
    const uint64_t more = mn__multiply(scaled, power[1]).high;
    const mn__wide product = mn__multiply(scaled, power[0]);
    const uint64_t low = product.low + more, high = product.high + (low < more);
    const uint64_t fraction = high << 53 | low >> 11,
                   half = (power[0] >> (12 - shift)) + (~fraction_bits & 1);
    const mn__wide ten_times = mn__multiply(fraction, 10);
    const uint64_t middle = ((uint64_t)1 << 63) + 6;
    const unsigned up = fraction + half < half, down = fraction < half;
    mn__decimal decimal;
    unsigned mask = (up | down) - 1;
    uint64_t tie = fraction ^ (uint64_t)1 << 62;
    MN__NO_BRANCH(mask);
    MN__NO_BRANCH(tie);
    decimal.tens = (high >> 11) + up;
    /* Rounded to nearest; ties to even, of which only 2.5 would go wrong. The fraction is rounded down, for
     * which the six makes up; without it two doubles would end in 3 and not in 4. */
    decimal.last = (unsigned)ten_times.high + (ten_times.low + middle < ten_times.low);
    decimal.last = (decimal.last - (tie == 0)) & mask;
    decimal.has_last = mask;
    decimal.exponent = ten + 1;
    return decimal;
}

/* The same for a float, whose product with the high half of the power is precise enough. */
MN__INLINE uint64_t mn__shortest_f32(uint32_t bits, int *exponent) {
    const uint32_t fraction = bits & (((uint32_t)1 << 23) - 1);
    const int field = (int)(bits >> 23), irregular = fraction == 0 && field > 1,
              two = (field ? field : 1) - 150;
    const uint64_t significand = fraction | (uint32_t)(field != 0) << 23, odd = significand & 1;
    const int ten = (two * 1262611 - (irregular ? 524031 : 0)) >> 22;
    const unsigned shift = (unsigned)(two + ((-ten * 1741647) >> 19) + 1);
    const mn__wide power = mn__power_above(-ten);
    const uint64_t above = power.high + (power.low != 0);
    uint64_t ends[3];
    int index;
    ends[0] = 4 * significand;
    ends[1] = 4 * significand - (irregular ? 1 : 2);
    ends[2] = 4 * significand + 2;
    for (index = 0; index < 3; index++) {
        mn__wide product = mn__multiply(above, ends[index] << shift);
        ends[index] = product.high | ((product.low >> 32) > 1);
    }
    *exponent = ten;
    return mn__choose(ends[0], ends[1] + odd, ends[2] - odd);
}

/* Brings digits up to 17 of them and lays them out. */
MN__INLINE char *mn__write_digits(char *out, uint64_t digits, int exponent, int as_redis) {
    const uint64_t sixteen = digits < mn__tens[16];
    digits = MN__SELECT(sixteen, digits * 10, digits);
    exponent -= (int)sixteen;
    while (MN__UNLIKELY(digits < mn__tens[16])) digits *= 10, exponent--;
    return mn__lay_out(out, digits, exponent + 16, as_redis);
}

/* Zero, infinity and NaN, whose sign is not shown. */
MN__COLD char *mn__write_special(char *out, int negative, int is_zero, int is_nan) {
    out += negative && !is_nan;
    *out = '0';
    if (is_zero) return out + 1;
    memcpy(out, is_nan ? "nan" : "inf", 3);
    return out + 3;
}

/* Powers of two, whose rounding interval is lopsided, and what is no normal number. */
MN__COLD char *mn__print_rare_f64(char *out, uint64_t signed_bits) {
    const uint64_t bits = signed_bits & ~((uint64_t)1 << 63), infinity = (uint64_t)0x7ff << 52;
    int exponent;
    uint64_t digits;
    *out = '-';
    if (bits == 0 || bits >= infinity)
        return mn__write_special(out, (int)(signed_bits >> 63), bits == 0, bits > infinity);
    digits = mn__shortest_f64_exactly(bits, &exponent);
    return mn__write_digits(out + (signed_bits >> 63), digits, exponent, 0);
}

/* Prints a number with a unit in the first place at most, or up to three decimals, and is done; otherwise
 * answers NULL. `below` is how many bits of the significand count less than one. */
MN__INLINE char *mn__print_short(char *out, uint64_t significand, unsigned below) {
    const uint64_t mask = ((uint64_t)1 << below) - 1;
    uint64_t thousands;
    uint32_t decimals, hundreds, rest, tens, ones;
    if (below <= 52 && (significand & mask) == 0) return mn__write_integer(out, significand >> below);
    /* Up to three decimals: n / 1000 is closer than half a unit, and no other number of at most 15 digits
     * is. */
    thousands = significand * 1000 + 499;
    if ((thousands & mask) > 998 || thousands >> below >= mn__tens[15] || significand == (uint64_t)1 << 52)
        return NULL;
    thousands >>= below;
    decimals = (uint32_t)(thousands % 1000);
    out = mn__write_integer(out, thousands / 1000);
    hundreds = decimals * 41 >> 12;
    rest = decimals - hundreds * 100;
    tens = rest * 103 >> 10;
    ones = rest - tens * 10;
    mn__store4(out, '.' | (hundreds << 8 | tens << 16 | ones << 24) | 0x30303000u);
    return out + 4 - (ones == 0) - (rest == 0);
}

/* Prints whatever has a short way and returns its end, or finds the digits and returns NULL. */
MN__INLINE char *mn__begin_f64(char **at, double value, mn__decimal *decimal) {
    const uint64_t bits = mn__f64_bits(value), fraction = bits & (((uint64_t)1 << 52) - 1);
    const unsigned field = (unsigned)(bits >> 52) & 0x7ff;
    /* The bits of the significand that count less than one; the same for numbers without any. */
    const unsigned below = 1075 - field;
    char *out = *at, *end;
    if (MN__UNLIKELY(field - 1 >= 0x7fe)) return mn__print_rare_f64(out, bits);
    *out = '-';
    out += bits >> 63;
    if (below - 1 < 63 && (end = mn__print_short(out, fraction | (uint64_t)1 << 52, below)) != NULL)
        return end;
    if (MN__UNLIKELY(fraction == 0)) return mn__print_rare_f64(*at, bits);
    *at = out;
    *decimal = mn__shortest_f64(fraction, field);
    return NULL;
}

#ifdef MN__AVX2
/* Sixteen bytes from here + n turn two reversed eights round and drop the first n. */
static const unsigned char mn__turn[32] = {7,    6,    5,    4,    3,    2,    1,    0,    15,   14,   13,
                                           12,   11,   10,   9,    8,    0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                           0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};

/* The text of an exponent from -324 on, the first character lowest, and above it the length; made by
 * tables/make_exponents.py. */
static const uint64_t mn__exponents[324 + 309] = {
    /* clang-format off */
    /* exponents: begin */
    0x0500003432332d65, 0x0500003332332d65, 0x0500003232332d65, 0x0500003132332d65, 0x0500003032332d65,
    0x0500003931332d65, 0x0500003831332d65, 0x0500003731332d65, 0x0500003631332d65, 0x0500003531332d65,
    0x0500003431332d65, 0x0500003331332d65, 0x0500003231332d65, 0x0500003131332d65, 0x0500003031332d65,
    0x0500003930332d65, 0x0500003830332d65, 0x0500003730332d65, 0x0500003630332d65, 0x0500003530332d65,
    0x0500003430332d65, 0x0500003330332d65, 0x0500003230332d65, 0x0500003130332d65, 0x0500003030332d65,
    0x0500003939322d65, 0x0500003839322d65, 0x0500003739322d65, 0x0500003639322d65, 0x0500003539322d65,
    0x0500003439322d65, 0x0500003339322d65, 0x0500003239322d65, 0x0500003139322d65, 0x0500003039322d65,
    0x0500003938322d65, 0x0500003838322d65, 0x0500003738322d65, 0x0500003638322d65, 0x0500003538322d65,
    0x0500003438322d65, 0x0500003338322d65, 0x0500003238322d65, 0x0500003138322d65, 0x0500003038322d65,
    0x0500003937322d65, 0x0500003837322d65, 0x0500003737322d65, 0x0500003637322d65, 0x0500003537322d65,
    0x0500003437322d65, 0x0500003337322d65, 0x0500003237322d65, 0x0500003137322d65, 0x0500003037322d65,
    0x0500003936322d65, 0x0500003836322d65, 0x0500003736322d65, 0x0500003636322d65, 0x0500003536322d65,
    0x0500003436322d65, 0x0500003336322d65, 0x0500003236322d65, 0x0500003136322d65, 0x0500003036322d65,
    0x0500003935322d65, 0x0500003835322d65, 0x0500003735322d65, 0x0500003635322d65, 0x0500003535322d65,
    0x0500003435322d65, 0x0500003335322d65, 0x0500003235322d65, 0x0500003135322d65, 0x0500003035322d65,
    0x0500003934322d65, 0x0500003834322d65, 0x0500003734322d65, 0x0500003634322d65, 0x0500003534322d65,
    0x0500003434322d65, 0x0500003334322d65, 0x0500003234322d65, 0x0500003134322d65, 0x0500003034322d65,
    0x0500003933322d65, 0x0500003833322d65, 0x0500003733322d65, 0x0500003633322d65, 0x0500003533322d65,
    0x0500003433322d65, 0x0500003333322d65, 0x0500003233322d65, 0x0500003133322d65, 0x0500003033322d65,
    0x0500003932322d65, 0x0500003832322d65, 0x0500003732322d65, 0x0500003632322d65, 0x0500003532322d65,
    0x0500003432322d65, 0x0500003332322d65, 0x0500003232322d65, 0x0500003132322d65, 0x0500003032322d65,
    0x0500003931322d65, 0x0500003831322d65, 0x0500003731322d65, 0x0500003631322d65, 0x0500003531322d65,
    0x0500003431322d65, 0x0500003331322d65, 0x0500003231322d65, 0x0500003131322d65, 0x0500003031322d65,
    0x0500003930322d65, 0x0500003830322d65, 0x0500003730322d65, 0x0500003630322d65, 0x0500003530322d65,
    0x0500003430322d65, 0x0500003330322d65, 0x0500003230322d65, 0x0500003130322d65, 0x0500003030322d65,
    0x0500003939312d65, 0x0500003839312d65, 0x0500003739312d65, 0x0500003639312d65, 0x0500003539312d65,
    0x0500003439312d65, 0x0500003339312d65, 0x0500003239312d65, 0x0500003139312d65, 0x0500003039312d65,
    0x0500003938312d65, 0x0500003838312d65, 0x0500003738312d65, 0x0500003638312d65, 0x0500003538312d65,
    0x0500003438312d65, 0x0500003338312d65, 0x0500003238312d65, 0x0500003138312d65, 0x0500003038312d65,
    0x0500003937312d65, 0x0500003837312d65, 0x0500003737312d65, 0x0500003637312d65, 0x0500003537312d65,
    0x0500003437312d65, 0x0500003337312d65, 0x0500003237312d65, 0x0500003137312d65, 0x0500003037312d65,
    0x0500003936312d65, 0x0500003836312d65, 0x0500003736312d65, 0x0500003636312d65, 0x0500003536312d65,
    0x0500003436312d65, 0x0500003336312d65, 0x0500003236312d65, 0x0500003136312d65, 0x0500003036312d65,
    0x0500003935312d65, 0x0500003835312d65, 0x0500003735312d65, 0x0500003635312d65, 0x0500003535312d65,
    0x0500003435312d65, 0x0500003335312d65, 0x0500003235312d65, 0x0500003135312d65, 0x0500003035312d65,
    0x0500003934312d65, 0x0500003834312d65, 0x0500003734312d65, 0x0500003634312d65, 0x0500003534312d65,
    0x0500003434312d65, 0x0500003334312d65, 0x0500003234312d65, 0x0500003134312d65, 0x0500003034312d65,
    0x0500003933312d65, 0x0500003833312d65, 0x0500003733312d65, 0x0500003633312d65, 0x0500003533312d65,
    0x0500003433312d65, 0x0500003333312d65, 0x0500003233312d65, 0x0500003133312d65, 0x0500003033312d65,
    0x0500003932312d65, 0x0500003832312d65, 0x0500003732312d65, 0x0500003632312d65, 0x0500003532312d65,
    0x0500003432312d65, 0x0500003332312d65, 0x0500003232312d65, 0x0500003132312d65, 0x0500003032312d65,
    0x0500003931312d65, 0x0500003831312d65, 0x0500003731312d65, 0x0500003631312d65, 0x0500003531312d65,
    0x0500003431312d65, 0x0500003331312d65, 0x0500003231312d65, 0x0500003131312d65, 0x0500003031312d65,
    0x0500003930312d65, 0x0500003830312d65, 0x0500003730312d65, 0x0500003630312d65, 0x0500003530312d65,
    0x0500003430312d65, 0x0500003330312d65, 0x0500003230312d65, 0x0500003130312d65, 0x0500003030312d65,
    0x0400000039392d65, 0x0400000038392d65, 0x0400000037392d65, 0x0400000036392d65, 0x0400000035392d65,
    0x0400000034392d65, 0x0400000033392d65, 0x0400000032392d65, 0x0400000031392d65, 0x0400000030392d65,
    0x0400000039382d65, 0x0400000038382d65, 0x0400000037382d65, 0x0400000036382d65, 0x0400000035382d65,
    0x0400000034382d65, 0x0400000033382d65, 0x0400000032382d65, 0x0400000031382d65, 0x0400000030382d65,
    0x0400000039372d65, 0x0400000038372d65, 0x0400000037372d65, 0x0400000036372d65, 0x0400000035372d65,
    0x0400000034372d65, 0x0400000033372d65, 0x0400000032372d65, 0x0400000031372d65, 0x0400000030372d65,
    0x0400000039362d65, 0x0400000038362d65, 0x0400000037362d65, 0x0400000036362d65, 0x0400000035362d65,
    0x0400000034362d65, 0x0400000033362d65, 0x0400000032362d65, 0x0400000031362d65, 0x0400000030362d65,
    0x0400000039352d65, 0x0400000038352d65, 0x0400000037352d65, 0x0400000036352d65, 0x0400000035352d65,
    0x0400000034352d65, 0x0400000033352d65, 0x0400000032352d65, 0x0400000031352d65, 0x0400000030352d65,
    0x0400000039342d65, 0x0400000038342d65, 0x0400000037342d65, 0x0400000036342d65, 0x0400000035342d65,
    0x0400000034342d65, 0x0400000033342d65, 0x0400000032342d65, 0x0400000031342d65, 0x0400000030342d65,
    0x0400000039332d65, 0x0400000038332d65, 0x0400000037332d65, 0x0400000036332d65, 0x0400000035332d65,
    0x0400000034332d65, 0x0400000033332d65, 0x0400000032332d65, 0x0400000031332d65, 0x0400000030332d65,
    0x0400000039322d65, 0x0400000038322d65, 0x0400000037322d65, 0x0400000036322d65, 0x0400000035322d65,
    0x0400000034322d65, 0x0400000033322d65, 0x0400000032322d65, 0x0400000031322d65, 0x0400000030322d65,
    0x0400000039312d65, 0x0400000038312d65, 0x0400000037312d65, 0x0400000036312d65, 0x0400000035312d65,
    0x0400000034312d65, 0x0400000033312d65, 0x0400000032312d65, 0x0400000031312d65, 0x0400000030312d65,
    0x0300000000392d65, 0x0300000000382d65, 0x0300000000372d65, 0x0300000000362d65, 0x0300000000352d65,
    0x0300000000342d65, 0x0300000000332d65, 0x0300000000322d65, 0x0300000000312d65, 0x0300000000302b65,
    0x0300000000312b65, 0x0300000000322b65, 0x0300000000332b65, 0x0300000000342b65, 0x0300000000352b65,
    0x0300000000362b65, 0x0300000000372b65, 0x0300000000382b65, 0x0300000000392b65, 0x0400000030312b65,
    0x0400000031312b65, 0x0400000032312b65, 0x0400000033312b65, 0x0400000034312b65, 0x0400000035312b65,
    0x0400000036312b65, 0x0400000037312b65, 0x0400000038312b65, 0x0400000039312b65, 0x0400000030322b65,
    0x0400000031322b65, 0x0400000032322b65, 0x0400000033322b65, 0x0400000034322b65, 0x0400000035322b65,
    0x0400000036322b65, 0x0400000037322b65, 0x0400000038322b65, 0x0400000039322b65, 0x0400000030332b65,
    0x0400000031332b65, 0x0400000032332b65, 0x0400000033332b65, 0x0400000034332b65, 0x0400000035332b65,
    0x0400000036332b65, 0x0400000037332b65, 0x0400000038332b65, 0x0400000039332b65, 0x0400000030342b65,
    0x0400000031342b65, 0x0400000032342b65, 0x0400000033342b65, 0x0400000034342b65, 0x0400000035342b65,
    0x0400000036342b65, 0x0400000037342b65, 0x0400000038342b65, 0x0400000039342b65, 0x0400000030352b65,
    0x0400000031352b65, 0x0400000032352b65, 0x0400000033352b65, 0x0400000034352b65, 0x0400000035352b65,
    0x0400000036352b65, 0x0400000037352b65, 0x0400000038352b65, 0x0400000039352b65, 0x0400000030362b65,
    0x0400000031362b65, 0x0400000032362b65, 0x0400000033362b65, 0x0400000034362b65, 0x0400000035362b65,
    0x0400000036362b65, 0x0400000037362b65, 0x0400000038362b65, 0x0400000039362b65, 0x0400000030372b65,
    0x0400000031372b65, 0x0400000032372b65, 0x0400000033372b65, 0x0400000034372b65, 0x0400000035372b65,
    0x0400000036372b65, 0x0400000037372b65, 0x0400000038372b65, 0x0400000039372b65, 0x0400000030382b65,
    0x0400000031382b65, 0x0400000032382b65, 0x0400000033382b65, 0x0400000034382b65, 0x0400000035382b65,
    0x0400000036382b65, 0x0400000037382b65, 0x0400000038382b65, 0x0400000039382b65, 0x0400000030392b65,
    0x0400000031392b65, 0x0400000032392b65, 0x0400000033392b65, 0x0400000034392b65, 0x0400000035392b65,
    0x0400000036392b65, 0x0400000037392b65, 0x0400000038392b65, 0x0400000039392b65, 0x0500003030312b65,
    0x0500003130312b65, 0x0500003230312b65, 0x0500003330312b65, 0x0500003430312b65, 0x0500003530312b65,
    0x0500003630312b65, 0x0500003730312b65, 0x0500003830312b65, 0x0500003930312b65, 0x0500003031312b65,
    0x0500003131312b65, 0x0500003231312b65, 0x0500003331312b65, 0x0500003431312b65, 0x0500003531312b65,
    0x0500003631312b65, 0x0500003731312b65, 0x0500003831312b65, 0x0500003931312b65, 0x0500003032312b65,
    0x0500003132312b65, 0x0500003232312b65, 0x0500003332312b65, 0x0500003432312b65, 0x0500003532312b65,
    0x0500003632312b65, 0x0500003732312b65, 0x0500003832312b65, 0x0500003932312b65, 0x0500003033312b65,
    0x0500003133312b65, 0x0500003233312b65, 0x0500003333312b65, 0x0500003433312b65, 0x0500003533312b65,
    0x0500003633312b65, 0x0500003733312b65, 0x0500003833312b65, 0x0500003933312b65, 0x0500003034312b65,
    0x0500003134312b65, 0x0500003234312b65, 0x0500003334312b65, 0x0500003434312b65, 0x0500003534312b65,
    0x0500003634312b65, 0x0500003734312b65, 0x0500003834312b65, 0x0500003934312b65, 0x0500003035312b65,
    0x0500003135312b65, 0x0500003235312b65, 0x0500003335312b65, 0x0500003435312b65, 0x0500003535312b65,
    0x0500003635312b65, 0x0500003735312b65, 0x0500003835312b65, 0x0500003935312b65, 0x0500003036312b65,
    0x0500003136312b65, 0x0500003236312b65, 0x0500003336312b65, 0x0500003436312b65, 0x0500003536312b65,
    0x0500003636312b65, 0x0500003736312b65, 0x0500003836312b65, 0x0500003936312b65, 0x0500003037312b65,
    0x0500003137312b65, 0x0500003237312b65, 0x0500003337312b65, 0x0500003437312b65, 0x0500003537312b65,
    0x0500003637312b65, 0x0500003737312b65, 0x0500003837312b65, 0x0500003937312b65, 0x0500003038312b65,
    0x0500003138312b65, 0x0500003238312b65, 0x0500003338312b65, 0x0500003438312b65, 0x0500003538312b65,
    0x0500003638312b65, 0x0500003738312b65, 0x0500003838312b65, 0x0500003938312b65, 0x0500003039312b65,
    0x0500003139312b65, 0x0500003239312b65, 0x0500003339312b65, 0x0500003439312b65, 0x0500003539312b65,
    0x0500003639312b65, 0x0500003739312b65, 0x0500003839312b65, 0x0500003939312b65, 0x0500003030322b65,
    0x0500003130322b65, 0x0500003230322b65, 0x0500003330322b65, 0x0500003430322b65, 0x0500003530322b65,
    0x0500003630322b65, 0x0500003730322b65, 0x0500003830322b65, 0x0500003930322b65, 0x0500003031322b65,
    0x0500003131322b65, 0x0500003231322b65, 0x0500003331322b65, 0x0500003431322b65, 0x0500003531322b65,
    0x0500003631322b65, 0x0500003731322b65, 0x0500003831322b65, 0x0500003931322b65, 0x0500003032322b65,
    0x0500003132322b65, 0x0500003232322b65, 0x0500003332322b65, 0x0500003432322b65, 0x0500003532322b65,
    0x0500003632322b65, 0x0500003732322b65, 0x0500003832322b65, 0x0500003932322b65, 0x0500003033322b65,
    0x0500003133322b65, 0x0500003233322b65, 0x0500003333322b65, 0x0500003433322b65, 0x0500003533322b65,
    0x0500003633322b65, 0x0500003733322b65, 0x0500003833322b65, 0x0500003933322b65, 0x0500003034322b65,
    0x0500003134322b65, 0x0500003234322b65, 0x0500003334322b65, 0x0500003434322b65, 0x0500003534322b65,
    0x0500003634322b65, 0x0500003734322b65, 0x0500003834322b65, 0x0500003934322b65, 0x0500003035322b65,
    0x0500003135322b65, 0x0500003235322b65, 0x0500003335322b65, 0x0500003435322b65, 0x0500003535322b65,
    0x0500003635322b65, 0x0500003735322b65, 0x0500003835322b65, 0x0500003935322b65, 0x0500003036322b65,
    0x0500003136322b65, 0x0500003236322b65, 0x0500003336322b65, 0x0500003436322b65, 0x0500003536322b65,
    0x0500003636322b65, 0x0500003736322b65, 0x0500003836322b65, 0x0500003936322b65, 0x0500003037322b65,
    0x0500003137322b65, 0x0500003237322b65, 0x0500003337322b65, 0x0500003437322b65, 0x0500003537322b65,
    0x0500003637322b65, 0x0500003737322b65, 0x0500003837322b65, 0x0500003937322b65, 0x0500003038322b65,
    0x0500003138322b65, 0x0500003238322b65, 0x0500003338322b65, 0x0500003438322b65, 0x0500003538322b65,
    0x0500003638322b65, 0x0500003738322b65, 0x0500003838322b65, 0x0500003938322b65, 0x0500003039322b65,
    0x0500003139322b65, 0x0500003239322b65, 0x0500003339322b65, 0x0500003439322b65, 0x0500003539322b65,
    0x0500003639322b65, 0x0500003739322b65, 0x0500003839322b65, 0x0500003939322b65, 0x0500003030332b65,
    0x0500003130332b65, 0x0500003230332b65, 0x0500003330332b65, 0x0500003430332b65, 0x0500003530332b65,
    0x0500003630332b65, 0x0500003730332b65, 0x0500003830332b65
    /* exponents: end */
    /* clang-format on */
};

MN__TARGET_INLINE void mn__store16(void *out, __m128i bytes) { _mm_storeu_si128((__m128i *)out, bytes); }

/* The same layout as mn__lay_out, with the digits moved by shuffles. */
MN__TARGET_INLINE char *mn__lay_out_avx2(char *out, mn__decimal decimal) {
    /* The compiler is kept from seeing the factors, or it would replace each product by shifts and additions.
     */
    static const uint16_t factors[7][8] = {
        {0xb8bb, 0x068d, 0, 0, 0xb8bb, 0x068d, 0, 0},     /* 109951163, 2^40 / 10000 */
        {0xd8f0, 0xffff, 0, 0, 0xd8f0, 0xffff, 0, 0},     /* 2^32 - 10000 */
        {5243, 5243, 5243, 5243, 5243, 5243, 5243, 5243}, /* 2^19 / 100 */
        {100, 100, 100, 100, 100, 100, 100, 100},
        {6554, 6554, 6554, 6554, 6554, 6554, 6554, 6554}, /* 2^16 / 10 */
        {246, 246, 246, 246, 246, 246, 246, 246},         /* 2^8 - 10 */
        {0x3030, 0x3030, 0x3030, 0x3030, 0x3030, 0x3030, 0x3030, 0x3030}};
    const char *by = (const char *)factors;
    const uint64_t top = decimal.tens / 100000000;
    size_t lead = (decimal.tens - mn__tens[15]) >> 63; /* one if there are fifteen digits */
    unsigned leading;
    const char last = (char)('0' + decimal.last);
    __m128i eights, fours, pairs, hundreds, digits, first, rest;
    size_t count;
    uint64_t exponent;
    char *tail;
    __asm__("" : "+r"(by));
    MN__NO_BRANCH(lead);
    leading = (unsigned)decimal.exponent + 15 - (unsigned)lead;
    tail = out + 16 - lead;
#define MN__FACTOR(index) mn__load16(by + 16 * (index))
    /* Each step leaves the remainder in the lower half of a lane and puts the quotient into the upper. */
    eights = _mm_set_epi64x((int64_t)(decimal.tens - top * 100000000), (int64_t)top);
    fours = _mm_srli_epi64(_mm_mul_epu32(eights, MN__FACTOR(0)), 40);
    fours = _mm_add_epi64(eights, _mm_mul_epu32(fours, MN__FACTOR(1)));
    hundreds = _mm_srli_epi16(_mm_mulhi_epu16(fours, MN__FACTOR(2)), 3);
    pairs = _mm_sub_epi16(_mm_or_si128(fours, _mm_slli_epi32(hundreds, 16)),
                          _mm_mullo_epi16(hundreds, MN__FACTOR(3)));
    digits = _mm_add_epi16(pairs, _mm_mullo_epi16(_mm_mulhi_epu16(pairs, MN__FACTOR(4)), MN__FACTOR(5)));
    first = _mm_shuffle_epi8(digits, mn__load16(mn__turn + lead));
    count = (unsigned)_mm_movemask_epi8(_mm_cmpgt_epi8(first, _mm_setzero_si128()));
    count = 32 - (unsigned)__builtin_clz((unsigned)count | (decimal.has_last & 0x10000) >> lead);
    first = _mm_or_si128(first, MN__FACTOR(6));
    if (leading < 17) {
        const size_t whole = leading + 1;
        mn__store16(out, first);
        if (MN__UNLIKELY(count <= whole)) {
            mn__store8(tail, MN__ZEROS);
            *tail = last;
            return out + whole;
        }
        out[whole] = '.';
        rest = _mm_shuffle_epi8(digits, mn__load16(mn__turn + lead + whole));
        mn__store16(out + whole + 1, _mm_or_si128(rest, MN__FACTOR(6)));
        tail[1] = last;
        return out + count + 1;
    }
#undef MN__FACTOR
    if (leading + 5 < 5) {
        const size_t zeros = 0 - leading;
        mn__store8(out, 0x3030303030302e30u); /* 0.000000 */
        out += zeros + 1;
        mn__store16(out, first);
        tail[zeros + 1] = last;
        return out + count;
    }
    mn__store16(out + 1, first);
    out[0] = (char)_mm_cvtsi128_si32(first);
    out[1] = '.';
    tail[1] = last;
    out += count + (count > 1);
    exponent = mn__exponents[leading + 324];
    mn__store8(out, exponent);
    return out + (exponent >> 56);
}

MN__TARGET static char *mn__print_f64_avx2(char *out, double value) {
    mn__decimal decimal = {0, 0, 0, 0};
    char *end = mn__begin_f64(&out, value, &decimal);
    return end != NULL ? end : mn__lay_out_avx2(out, decimal);
}
#endif

MN__OUTLINE char *mn__print_f64(char *out, double value) {
    mn__decimal decimal = {0, 0, 0, 0};
    char *end = mn__begin_f64(&out, value, &decimal);
    if (end != NULL) return end;
    return mn__write_digits(out, decimal.tens * 10 + decimal.last, decimal.exponent - 1, 0);
}

MN_API char *mn_write_f64(char *out, double value) {
#ifdef MN__AVX2
    if (MN__LIKELY(mn__has_avx2())) return mn__print_f64_avx2(out, value);
#endif
    return mn__print_f64(out, value);
}

MN_API char *mn_write_f32(char *out, float value) {
    const uint32_t signed_bits = mn__f32_bits(value), bits = signed_bits & 0x7fffffff;
    uint64_t digits;
    int exponent;
    *out = '-';
    if (MN__UNLIKELY(bits - 1 >= ((uint32_t)0xff << 23) - 1))
        return mn__write_special(out, (int)(signed_bits >> 31), bits == 0, bits > (uint32_t)0xff << 23);
    out += signed_bits >> 31;
    digits = mn__shortest_f32(bits, &exponent);
    return mn__write_digits(out, digits * 100000000, exponent - 8, 0);
}

MN__INLINE char *mn__print_score(char *out, double value) {
    const uint64_t signed_bits = mn__f64_bits(value), bits = signed_bits & ~((uint64_t)1 << 63);
    uint64_t digits;
    int exponent;
    if (MN__UNLIKELY(bits - 1 >= ((uint64_t)0x7ff << 52) - 1)) return NULL;
    digits = mn__shortest_with_margin(bits, &exponent);
    if (MN__UNLIKELY(digits == 0)) return NULL;
    *out = '-';
    return mn__write_digits(out + (signed_bits >> 63), digits, exponent, 1);
}

#ifdef MN__AVX2
MN__TARGET static char *mn__print_score_avx2(char *out, double value) { return mn__print_score(out, value); }
#endif

MN_API char *mn_try_write_score(char *out, double value) {
#ifdef MN__AVX2
    if (MN__LIKELY(mn__has_avx2())) return mn__print_score_avx2(out, value);
#endif
    return mn__print_score(out, value);
}

/* ---- Bytes
 * ------------------------------------------------------------------------------------------------------ */

MN__INLINE uint64_t mn__swap8(uint64_t word) {
#ifdef __GNUC__
    return __builtin_bswap64(word);
#else
    word = (word & 0x00ff00ff00ff00ffu) << 8 | (word >> 8 & 0x00ff00ff00ff00ffu);
    word = (word & 0x0000ffff0000ffffu) << 16 | (word >> 16 & 0x0000ffff0000ffffu);
    return word << 32 | word >> 32;
#endif
}

MN__INLINE uint32_t mn__swap4(uint32_t word) { return (uint32_t)(mn__swap8(word) >> 32); }

MN_API void mn_store_f64_le(void *out, double value) { mn__store8(out, mn__f64_bits(value)); }
MN_API void mn_store_f64_be(void *out, double value) { mn__store8(out, mn__swap8(mn__f64_bits(value))); }
MN_API void mn_store_f32_le(void *out, float value) { mn__store4(out, mn__f32_bits(value)); }
MN_API void mn_store_f32_be(void *out, float value) { mn__store4(out, mn__swap4(mn__f32_bits(value))); }

MN__INLINE double mn__f64_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

MN__INLINE float mn__f32_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

MN_API double mn_load_f64_le(const void *in) { return mn__f64_of(mn__load8(in)); }
MN_API double mn_load_f64_be(const void *in) { return mn__f64_of(mn__swap8(mn__load8(in))); }
MN_API float mn_load_f32_le(const void *in) { return mn__f32_of(mn__load4(in)); }
MN_API float mn_load_f32_be(const void *in) { return mn__f32_of(mn__swap4(mn__load4(in))); }

#ifdef MN__AVX2
/* Swaps the bytes within each word of a multiple of 64 bytes. */
__attribute__((target("avx2"), unused)) static void mn__swap_avx2(char *out, const char *in, size_t size,
                                                                  int word_size) {
    const __m256i order = word_size == 8
                              ? _mm256_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6,
                                                 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8)
                              : _mm256_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 3, 2,
                                                 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    size_t at;
    for (at = 0; at < size; at += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(in + at));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(in + at + 32));
        _mm256_storeu_si256((__m256i *)(void *)(out + at), _mm256_shuffle_epi8(a, order));
        _mm256_storeu_si256((__m256i *)(void *)(out + at + 32), _mm256_shuffle_epi8(b, order));
    }
}
#endif

/* Copies words, with the bytes of each in the other order if `swap`; `out` may be `in`. */
static size_t mn__copy_words(void *out, const void *in, size_t count, size_t word_size, int swap) {
    char *to = (char *)out;
    const char *from = (const char *)in;
    const size_t size = count * word_size;
    size_t at = 0;
    if (!swap) {
        if (size != 0) memmove(out, in, size);
        return size;
    }
#ifdef MN__AVX2
    if (size >= 64 && mn__has_avx2()) {
        at = size & ~(size_t)63;
        mn__swap_avx2(to, from, at, (int)word_size);
    }
#endif
    for (; at < size; at += word_size) {
        if (word_size == 8) {
            mn__store8(to + at, mn__swap8(mn__load8(from + at)));
        } else {
            mn__store4(to + at, mn__swap4(mn__load4(from + at)));
        }
    }
    return size;
}

/* Whether the machine itself keeps the highest byte first. */
MN__INLINE int mn__is_big_endian(void) {
    const uint16_t one = 1;
    unsigned char byte;
    memcpy(&byte, &one, 1);
    return byte == 0;
}

#define MN__BULK(type, name, size)                                                     \
    MN_API size_t mn_encode_##name##_be(void *out, const type *values, size_t count) { \
        return mn__copy_words(out, values, count, size, !mn__is_big_endian());         \
    }                                                                                  \
    MN_API size_t mn_encode_##name##_le(void *out, const type *values, size_t count) { \
        return mn__copy_words(out, values, count, size, mn__is_big_endian());          \
    }                                                                                  \
    MN_API size_t mn_decode_##name##_be(type *out, const void *in, size_t count) {     \
        return mn__copy_words(out, in, count, size, !mn__is_big_endian());             \
    }                                                                                  \
    MN_API size_t mn_decode_##name##_le(type *out, const void *in, size_t count) {     \
        return mn__copy_words(out, in, count, size, mn__is_big_endian());              \
    }

MN__BULK(double, f64, 8)
MN__BULK(float, f32, 4)

MN_API char *mn_write_varint(char *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *out++ = (char)(value | 0x80);
    *out++ = (char)value;
    return out;
}

MN_API mn_result mn_read_varint(const char *first, const char *last, uint64_t *out) {
    const char *text = first;
    uint64_t value = 0;
    unsigned shift;
    for (shift = 0; shift < 70; shift += 7) {
        uint64_t byte;
        if (text == last) return mn__answer(first, MN_INVALID);
        byte = (unsigned char)*text++;
        if (shift == 63 && byte > 1) return mn__answer(text, MN_OUT_OF_RANGE);
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) break;
    }
    *out = value;
    return mn__answer(text, MN_OK);
}

MN_API uint64_t mn_zigzag(int64_t value) { return (uint64_t)value << 1 ^ (0 - ((uint64_t)value >> 63)); }

MN_API int64_t mn_unzigzag(uint64_t value) { return (int64_t)(value >> 1 ^ (0 - (value & 1))); }

#endif /* MANTISSA_NUMBER_IMPLEMENTATION */
