/* x86.h - the levels sse2, avx2, avx512 and avx512bf16 of mantissa_kernels.h, which includes this file. */

#define MN__K_AVX2 __attribute__((target("avx2")))
#define MN__K_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vpopcntdq,bmi2")))

/* All places of a vector with an operation. */
#define MN__FOLD(op)                                                                    \
    MN__K_INLINE float mn__fold_##op##_f_sse2(__m128 v) {                               \
        v = _mm_##op##_ps(v, _mm_movehl_ps(v, v));                                      \
        return _mm_cvtss_f32(_mm_##op##_ss(v, _mm_shuffle_ps(v, v, 1)));                \
    }                                                                                   \
    MN__K_INLINE double mn__fold_##op##_d_sse2(__m128d v) {                             \
        return _mm_cvtsd_f64(_mm_##op##_sd(v, _mm_unpackhi_pd(v, v)));                  \
    }                                                                                   \
    MN__K_INLINE MN__K_AVX2 float mn__fold_##op##_f_avx2(__m256 v) {                    \
        return mn__fold_##op##_f_sse2(                                                  \
            _mm_##op##_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));     \
    }                                                                                   \
    MN__K_INLINE MN__K_AVX2 double mn__fold_##op##_d_avx2(__m256d v) {                  \
        return mn__fold_##op##_d_sse2(                                                  \
            _mm_##op##_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1)));     \
    }                                                                                   \
    MN__K_INLINE MN__K_AVX512 float mn__fold_##op##_f_avx512(__m512 v) {                \
        return mn__fold_##op##_f_avx2(                                                  \
            _mm256_##op##_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))); \
    }                                                                                   \
    MN__K_INLINE MN__K_AVX512 double mn__fold_##op##_d_avx512(__m512d v) {              \
        return mn__fold_##op##_d_avx2(                                                  \
            _mm256_##op##_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1))); \
    }
MN__FOLD(add)
MN__FOLD(min)
MN__FOLD(max)
#undef MN__FOLD

/* ---- SSE2 */

MN__K_INLINE __m128 mn__mul_f_sse2(__m128 a, __m128 b) {
    __m128 product = _mm_mul_ps(a, b);
    MN__K_KEEP(product);
    return product;
}

MN__K_INLINE __m128d mn__mul_d_sse2(__m128d a, __m128d b) {
    __m128d product = _mm_mul_pd(a, b);
    MN__K_KEEP(product);
    return product;
}

MN__K_INLINE __m128i mn__part_sse2(const void *in, size_t size) {
    uint64_t words[2];
    mn__load_part(words, in, size);
    return _mm_set_epi64x((long long)words[1], (long long)words[0]);
}

/* `some` in the first n places, `rest` in the others, of 32 bits each. */
MN__K_INLINE __m128i mn__first_sse2(__m128i some, size_t n, __m128i rest) {
    __m128i mask = _mm_loadu_si128((const __m128i *)(const void *)(mn__mask + 8 - n));
    return _mm_or_si128(_mm_and_si128(mask, some), _mm_andnot_si128(mask, rest));
}

MN__K_INLINE __m128 mn__from_b_sse2(__m128i low) {
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), low));
}

MN__K_INLINE __m128 mn__part_f_sse2(const float *in, size_t n, __m128 rest) {
    return _mm_castsi128_ps(mn__first_sse2(mn__part_sse2(in, 4 * n), n, _mm_castps_si128(rest)));
}

MN__K_INLINE __m128d mn__part_d_sse2(const double *in, __m128d rest) {
    return _mm_move_sd(rest, _mm_load_sd(in));
}

MN__K_INLINE __m128 mn__part_b_sse2(const uint16_t *in, size_t n, __m128 rest) {
    __m128 some = mn__from_b_sse2(mn__part_sse2(in, 2 * n));
    return _mm_castsi128_ps(mn__first_sse2(_mm_castps_si128(some), n, _mm_castps_si128(rest)));
}

MN__K_INLINE __m128i mn__low_bytes_sse2(__m128i bytes) { return _mm_srai_epi16(_mm_slli_epi16(bytes, 8), 8); }

MN__K_INLINE __m128i mn__dot_i_sse2(__m128i counters, __m128i a, __m128i b) {
    __m128i low = _mm_madd_epi16(mn__low_bytes_sse2(a), mn__low_bytes_sse2(b));
    __m128i high = _mm_madd_epi16(_mm_srai_epi16(a, 8), _mm_srai_epi16(b, 8));
    return _mm_add_epi32(counters, _mm_add_epi32(low, high));
}

MN__K_INLINE __m128i mn__squares_sse2(__m128i counters, __m128i a, __m128i b) {
    const __m128i top = _mm_set1_epi8(-128), zero = _mm_setzero_si128();
    __m128i x = _mm_xor_si128(a, top), y = _mm_xor_si128(b, top);
    __m128i distance = _mm_or_si128(_mm_subs_epu8(x, y), _mm_subs_epu8(y, x));
    __m128i low = _mm_unpacklo_epi8(distance, zero), high = _mm_unpackhi_epi8(distance, zero);
    return _mm_add_epi32(counters, _mm_add_epi32(_mm_madd_epi16(low, low), _mm_madd_epi16(high, high)));
}

MN__K_INLINE __m128i mn__sum_i_sse2(__m128i counters, __m128i a) {
    __m128i pairs = _mm_add_epi16(mn__low_bytes_sse2(a), _mm_srai_epi16(a, 8));
    return _mm_add_epi32(counters, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
}

MN__K_INLINE __m128i mn__ones_sse2(__m128i counters, __m128i a) {
    const __m128i fives = _mm_set1_epi8(0x55), threes = _mm_set1_epi8(0x33), nibbles = _mm_set1_epi8(0x0f);
    a = _mm_sub_epi8(a, _mm_and_si128(_mm_srli_epi64(a, 1), fives));
    a = _mm_add_epi8(_mm_and_si128(a, threes), _mm_and_si128(_mm_srli_epi64(a, 2), threes));
    a = _mm_and_si128(_mm_add_epi8(a, _mm_srli_epi64(a, 4)), nibbles);
    return _mm_add_epi32(counters, _mm_sad_epu8(a, _mm_setzero_si128()));
}

MN__K_INLINE int64_t mn__total_sse2(__m128i counters) {
    counters = _mm_add_epi32(counters, _mm_shuffle_epi32(counters, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(counters, _mm_shuffle_epi32(counters, 0xb1)));
}

/* The least, or the greatest, of signed bytes: those of unsigned ones with the sign turned. */
MN__K_INLINE __m128i mn__min_i_sse2(__m128i a, __m128i b) {
    const __m128i top = _mm_set1_epi8(-128);
    return _mm_xor_si128(_mm_min_epu8(_mm_xor_si128(a, top), _mm_xor_si128(b, top)), top);
}

MN__K_INLINE __m128i mn__max_i_sse2(__m128i a, __m128i b) {
    const __m128i top = _mm_set1_epi8(-128);
    return _mm_xor_si128(_mm_max_epu8(_mm_xor_si128(a, top), _mm_xor_si128(b, top)), top);
}

#define MN__FOLD(op)                                                                  \
    MN__K_INLINE int mn__fold_##op##_i_sse2(__m128i v) {                              \
        v = mn__##op##_i_sse2(v, _mm_srli_si128(v, 8));                               \
        v = mn__##op##_i_sse2(v, _mm_srli_si128(v, 4));                               \
        v = mn__##op##_i_sse2(v, _mm_srli_si128(v, 2));                               \
        return (int8_t)_mm_cvtsi128_si32(mn__##op##_i_sse2(v, _mm_srli_si128(v, 1))); \
    }
MN__FOLD(min)
MN__FOLD(max)
#undef MN__FOLD

/* The signs of 64 numbers, `width` of them by what `signs` says of those from `at` on. */
#define MN__SIGN(width, signs)                                                       \
    int at;                                                                          \
    uint64_t word = 0;                                                               \
    MN__K_UNROLL for (at = 0; at < 64; at += width) word |= (uint64_t)(signs) << at; \
    return word

MN__K_INLINE uint64_t mn__sign_f_sse2(const float *values) {
    MN__SIGN(4, _mm_movemask_ps(_mm_cmpgt_ps(_mm_loadu_ps(values + at), _mm_setzero_ps())));
}

MN__K_INLINE uint64_t mn__sign_d_sse2(const double *values) {
    MN__SIGN(2, _mm_movemask_pd(_mm_cmpgt_pd(_mm_loadu_pd(values + at), _mm_setzero_pd())));
}

#define MN__LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
/* Above zero are the patterns from 1 to that of infinity. */
MN__K_INLINE __m128i mn__above_b_sse2(const uint16_t *values) {
    __m128i bits = MN__LOAD(values);
    return _mm_and_si128(_mm_cmpgt_epi16(bits, _mm_setzero_si128()),
                         _mm_cmplt_epi16(bits, _mm_set1_epi16(0x7f81)));
}

MN__K_INLINE uint64_t mn__sign_b_sse2(const uint16_t *values) {
    MN__SIGN(16, _mm_movemask_epi8(
                     _mm_packs_epi16(mn__above_b_sse2(values + at), mn__above_b_sse2(values + at + 8))));
}

MN__K_INLINE uint64_t mn__sign_i_sse2(const int8_t *values) {
    MN__SIGN(16, (uint32_t)_mm_movemask_epi8(_mm_cmpgt_epi8(MN__LOAD(values + at), _mm_setzero_si128())));
}

#define MN__T static
#define MN__N(name) mn__##name##_sse2
#define MN__UNROLL MN__K_UNROLL
#define MN__F __m128
#define MN__F_LEN 4
#define MN__F_ALL(x) _mm_set1_ps(x)
#define MN__F_LOAD(p) _mm_loadu_ps(p)
#define MN__F_PART mn__part_f_sse2
#define MN__F_ADD(a, b) _mm_add_ps(a, b)
#define MN__F_SUB(a, b) _mm_sub_ps(a, b)
#define MN__F_MUL mn__mul_f_sse2
#define MN__F_MIN(a, b) _mm_min_ps(a, b)
#define MN__F_MAX(a, b) _mm_max_ps(a, b)
#define MN__F_FOLD_ADD mn__fold_add_f_sse2
#define MN__F_FOLD_MIN mn__fold_min_f_sse2
#define MN__F_FOLD_MAX mn__fold_max_f_sse2
#define MN__F_SIGN mn__sign_f_sse2
#define MN__D __m128d
#define MN__D_LEN 2
#define MN__D_ALL(x) _mm_set1_pd(x)
#define MN__D_LOAD(p) _mm_loadu_pd(p)
#define MN__D_PART(p, n, rest) ((void)(n), mn__part_d_sse2(p, rest))
#define MN__D_ADD(a, b) _mm_add_pd(a, b)
#define MN__D_SUB(a, b) _mm_sub_pd(a, b)
#define MN__D_MUL mn__mul_d_sse2
#define MN__D_MIN(a, b) _mm_min_pd(a, b)
#define MN__D_MAX(a, b) _mm_max_pd(a, b)
#define MN__D_FOLD_ADD mn__fold_add_d_sse2
#define MN__D_FOLD_MIN mn__fold_min_d_sse2
#define MN__D_FOLD_MAX mn__fold_max_d_sse2
#define MN__D_SIGN mn__sign_d_sse2
#define MN__B_LOAD(p) mn__from_b_sse2(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define MN__B_PART mn__part_b_sse2
#define MN__B_SIGN mn__sign_b_sse2
#define MN__I __m128i
#define MN__I_LEN 16
#define MN__I_LOAD MN__LOAD
#define MN__I_PART mn__part_sse2
#define MN__I_AND(a, b) _mm_and_si128(a, b)
#define MN__I_XOR(a, b) _mm_xor_si128(a, b)
#define MN__I_MIN mn__min_i_sse2
#define MN__I_MAX mn__max_i_sse2
#define MN__I_FOLD_MIN mn__fold_min_i_sse2
#define MN__I_FOLD_MAX mn__fold_max_i_sse2
#define MN__I_DOT mn__dot_i_sse2
#define MN__I_SQUARES mn__squares_sse2
#define MN__I_SUM mn__sum_i_sse2
#define MN__I_ONES mn__ones_sse2
#define MN__I_SIGN mn__sign_i_sse2
#define MN__W __m128i
#define MN__W_ZERO _mm_setzero_si128()
#define MN__W_ADD(a, b) _mm_add_epi32(a, b)
#define MN__W_TOTAL mn__total_sse2
#include "loops.h"
MN__K_TABLE(sse2, sse2, sse2);
#undef MN__LOAD

/* ---- AVX2 */

MN__K_INLINE MN__K_AVX2 __m256 mn__mul_f_avx2(__m256 a, __m256 b) {
    __m256 product = _mm256_mul_ps(a, b);
    MN__K_KEEP(product);
    return product;
}

MN__K_INLINE MN__K_AVX2 __m256d mn__mul_d_avx2(__m256d a, __m256d b) {
    __m256d product = _mm256_mul_pd(a, b);
    MN__K_KEEP(product);
    return product;
}

MN__K_INLINE MN__K_AVX2 __m256i mn__mask_avx2(size_t n) {
    return _mm256_loadu_si256((const __m256i *)(const void *)(mn__mask + 8 - n));
}

MN__K_INLINE MN__K_AVX2 __m256 mn__part_f_avx2(const float *in, size_t n, __m256 rest) {
    __m256i mask = mn__mask_avx2(n);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(in, mask), _mm256_castsi256_ps(mask));
}

MN__K_INLINE MN__K_AVX2 __m256d mn__part_d_avx2(const double *in, size_t n, __m256d rest) {
    __m256i mask = mn__mask_avx2(2 * n);
    return _mm256_blendv_pd(rest, _mm256_maskload_pd(in, mask), _mm256_castsi256_pd(mask));
}

MN__K_INLINE MN__K_AVX2 __m256 mn__from_b_avx2(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

MN__K_INLINE MN__K_AVX2 __m256 mn__part_b_avx2(const uint16_t *in, size_t n, __m256 rest) {
    __m256 some = mn__from_b_avx2(mn__part_sse2(in, 2 * n));
    return _mm256_blendv_ps(rest, some, _mm256_castsi256_ps(mn__mask_avx2(n)));
}

#define MN__LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
MN__K_INLINE MN__K_AVX2 __m256i mn__part_avx2(const void *in, size_t size) {
    const unsigned char *bytes = (const unsigned char *)in;
    __m128i low, high = _mm_setzero_si128();
    if (size <= 16) {
        low = mn__part_sse2(bytes, size);
    } else {
        low = _mm_loadu_si128((const __m128i *)(const void *)bytes);
        high = mn__part_sse2(bytes + 16, size - 16);
    }
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

MN__K_INLINE MN__K_AVX2 __m256i mn__low_bytes_avx2(__m256i bytes) {
    return _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
}

MN__K_INLINE MN__K_AVX2 __m256i mn__dot_i_avx2(__m256i counters, __m256i a, __m256i b) {
    __m256i low = _mm256_madd_epi16(mn__low_bytes_avx2(a), mn__low_bytes_avx2(b));
    __m256i high = _mm256_madd_epi16(_mm256_srai_epi16(a, 8), _mm256_srai_epi16(b, 8));
    return _mm256_add_epi32(counters, _mm256_add_epi32(low, high));
}

MN__K_INLINE MN__K_AVX2 __m256i mn__squares_avx2(__m256i counters, __m256i a, __m256i b) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i distance = _mm256_sub_epi8(_mm256_max_epi8(a, b), _mm256_min_epi8(a, b));
    __m256i low = _mm256_unpacklo_epi8(distance, zero), high = _mm256_unpackhi_epi8(distance, zero);
    low = _mm256_madd_epi16(low, low);
    return _mm256_add_epi32(counters, _mm256_add_epi32(low, _mm256_madd_epi16(high, high)));
}

MN__K_INLINE MN__K_AVX2 __m256i mn__sum_i_avx2(__m256i counters, __m256i a) {
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), a);
    return _mm256_add_epi32(counters, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* A table of the bits of 16 nibbles (Wojciech Mula, 2008). */
MN__K_INLINE MN__K_AVX2 __m256i mn__ones_avx2(__m256i counters, __m256i a) {
    const __m256i bits =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m256i nibble = _mm256_set1_epi8(0x0f);
    __m256i low = _mm256_shuffle_epi8(bits, _mm256_and_si256(a, nibble));
    __m256i high = _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(a, 4), nibble));
    return _mm256_add_epi32(counters, _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256()));
}

MN__K_INLINE MN__K_AVX2 __m128i mn__halves_avx2(__m256i v, __m128i *high) {
    *high = _mm256_extracti128_si256(v, 1);
    return _mm256_castsi256_si128(v);
}

MN__K_INLINE MN__K_AVX2 int64_t mn__total_avx2(__m256i counters) {
    __m128i high, low = mn__halves_avx2(counters, &high);
    return mn__total_sse2(_mm_add_epi32(low, high));
}

MN__K_INLINE MN__K_AVX2 int mn__fold_min_i_avx2(__m256i v) {
    __m128i high, low = mn__halves_avx2(v, &high);
    return mn__fold_min_i_sse2(_mm_min_epi8(low, high));
}

MN__K_INLINE MN__K_AVX2 int mn__fold_max_i_avx2(__m256i v) {
    __m128i high, low = mn__halves_avx2(v, &high);
    return mn__fold_max_i_sse2(_mm_max_epi8(low, high));
}

MN__K_INLINE MN__K_AVX2 uint64_t mn__sign_f_avx2(const float *values) {
    MN__SIGN(8, (uint32_t)_mm256_movemask_ps(
                    _mm256_cmp_ps(_mm256_loadu_ps(values + at), _mm256_setzero_ps(), _CMP_GT_OQ)));
}

MN__K_INLINE MN__K_AVX2 uint64_t mn__sign_d_avx2(const double *values) {
    MN__SIGN(4, (uint32_t)_mm256_movemask_pd(
                    _mm256_cmp_pd(_mm256_loadu_pd(values + at), _mm256_setzero_pd(), _CMP_GT_OQ)));
}

MN__K_INLINE MN__K_AVX2 uint64_t mn__sign_i_avx2(const int8_t *values) {
    MN__SIGN(
        32, (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(MN__LOAD(values + at), _mm256_setzero_si256())));
}

#define MN__T static MN__K_AVX2
#define MN__N(name) mn__##name##_avx2
#define MN__UNROLL MN__K_UNROLL
#define MN__F __m256
#define MN__F_LEN 8
#define MN__F_ALL(x) _mm256_set1_ps(x)
#define MN__F_LOAD(p) _mm256_loadu_ps(p)
#define MN__F_PART mn__part_f_avx2
#define MN__F_ADD(a, b) _mm256_add_ps(a, b)
#define MN__F_SUB(a, b) _mm256_sub_ps(a, b)
#define MN__F_MUL mn__mul_f_avx2
#define MN__F_MIN(a, b) _mm256_min_ps(a, b)
#define MN__F_MAX(a, b) _mm256_max_ps(a, b)
#define MN__F_FOLD_ADD mn__fold_add_f_avx2
#define MN__F_FOLD_MIN mn__fold_min_f_avx2
#define MN__F_FOLD_MAX mn__fold_max_f_avx2
#define MN__F_SIGN mn__sign_f_avx2
#define MN__D __m256d
#define MN__D_LEN 4
#define MN__D_ALL(x) _mm256_set1_pd(x)
#define MN__D_LOAD(p) _mm256_loadu_pd(p)
#define MN__D_PART mn__part_d_avx2
#define MN__D_ADD(a, b) _mm256_add_pd(a, b)
#define MN__D_SUB(a, b) _mm256_sub_pd(a, b)
#define MN__D_MUL mn__mul_d_avx2
#define MN__D_MIN(a, b) _mm256_min_pd(a, b)
#define MN__D_MAX(a, b) _mm256_max_pd(a, b)
#define MN__D_FOLD_ADD mn__fold_add_d_avx2
#define MN__D_FOLD_MIN mn__fold_min_d_avx2
#define MN__D_FOLD_MAX mn__fold_max_d_avx2
#define MN__D_SIGN mn__sign_d_avx2
#define MN__B_LOAD(p) mn__from_b_avx2(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define MN__B_PART mn__part_b_avx2
#define MN__B_SIGN mn__sign_b_sse2
#define MN__I __m256i
#define MN__I_LEN 32
#define MN__I_LOAD MN__LOAD
#define MN__I_PART mn__part_avx2
#define MN__I_AND(a, b) _mm256_and_si256(a, b)
#define MN__I_XOR(a, b) _mm256_xor_si256(a, b)
#define MN__I_MIN(a, b) _mm256_min_epi8(a, b)
#define MN__I_MAX(a, b) _mm256_max_epi8(a, b)
#define MN__I_FOLD_MIN mn__fold_min_i_avx2
#define MN__I_FOLD_MAX mn__fold_max_i_avx2
#define MN__I_DOT mn__dot_i_avx2
#define MN__I_SQUARES mn__squares_avx2
#define MN__I_SUM mn__sum_i_avx2
#define MN__I_ONES mn__ones_avx2
#define MN__I_SIGN mn__sign_i_avx2
#define MN__W __m256i
#define MN__W_ZERO _mm256_setzero_si256()
#define MN__W_ADD(a, b) _mm256_add_epi32(a, b)
#define MN__W_TOTAL mn__total_avx2
#include "loops.h"
MN__K_TABLE(avx2, avx2, avx2);
#undef MN__LOAD

/* ---- AVX-512 */

MN__K_INLINE MN__K_AVX512 __m512 mn__mul_f_avx512(__m512 a, __m512 b) {
    __m512 product = _mm512_mul_ps(a, b);
    MN__K_KEEP(product);
    return product;
}

MN__K_INLINE MN__K_AVX512 __m512d mn__mul_d_avx512(__m512d a, __m512d b) {
    __m512d product = _mm512_mul_pd(a, b);
    MN__K_KEEP(product);
    return product;
}

MN__K_INLINE MN__K_AVX512 __m512 mn__from_b_avx512(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* The first n places, n up to 16. */
MN__K_INLINE MN__K_AVX512 __mmask16 mn__mask_avx512(size_t n) {
    return (__mmask16)_bzhi_u32(0xffff, (unsigned)n);
}

MN__K_INLINE MN__K_AVX512 __m512 mn__part_f_avx512(const float *in, size_t n, __m512 rest) {
    return _mm512_mask_loadu_ps(rest, mn__mask_avx512(n), in);
}

MN__K_INLINE MN__K_AVX512 __m512d mn__part_d_avx512(const double *in, size_t n, __m512d rest) {
    return _mm512_mask_loadu_pd(rest, (__mmask8)mn__mask_avx512(n), in);
}

MN__K_INLINE MN__K_AVX512 __m512 mn__part_b_avx512(const uint16_t *in, size_t n, __m512 rest) {
    __mmask16 mask = mn__mask_avx512(n);
    return _mm512_mask_mov_ps(rest, mask, mn__from_b_avx512(_mm256_maskz_loadu_epi16(mask, in)));
}

MN__K_INLINE MN__K_AVX512 __m512i mn__part_avx512(const void *in, size_t size) {
    return _mm512_maskz_loadu_epi8(_bzhi_u64(~(uint64_t)0, size), in);
}

MN__K_INLINE MN__K_AVX512 __m512i mn__squares_avx512(__m512i counters, __m512i a, __m512i b) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i distance = _mm512_sub_epi8(_mm512_max_epi8(a, b), _mm512_min_epi8(a, b));
    __m512i low = _mm512_unpacklo_epi8(distance, zero), high = _mm512_unpackhi_epi8(distance, zero);
    return _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(counters, low, low), high, high);
}

MN__K_INLINE MN__K_AVX512 int mn__fold_min_i_avx512(__m512i v) {
    return mn__fold_min_i_avx2(_mm256_min_epi8(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1)));
}

MN__K_INLINE MN__K_AVX512 int mn__fold_max_i_avx512(__m512i v) {
    return mn__fold_max_i_avx2(_mm256_max_epi8(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1)));
}

MN__K_INLINE MN__K_AVX512 uint64_t mn__sign_f_avx512(const float *values) {
    MN__SIGN(16, _mm512_cmp_ps_mask(_mm512_loadu_ps(values + at), _mm512_setzero_ps(), _CMP_GT_OQ));
}

MN__K_INLINE MN__K_AVX512 uint64_t mn__sign_d_avx512(const double *values) {
    MN__SIGN(8, _mm512_cmp_pd_mask(_mm512_loadu_pd(values + at), _mm512_setzero_pd(), _CMP_GT_OQ));
}

#define MN__LOAD(p) _mm512_loadu_si512((const void *)(p))
MN__K_INLINE MN__K_AVX512 uint64_t mn__sign_b_avx512(const uint16_t *values) {
    const __m512i one = _mm512_set1_epi16(1), count = _mm512_set1_epi16(0x7f80);
    MN__SIGN(32, _mm512_cmplt_epu16_mask(_mm512_sub_epi16(MN__LOAD(values + at), one), count));
}

MN__K_INLINE MN__K_AVX512 uint64_t mn__sign_i_avx512(const int8_t *values) {
    return _mm512_cmpgt_epi8_mask(MN__LOAD(values), _mm512_setzero_si512());
}

#define MN__T static MN__K_AVX512
#define MN__N(name) mn__##name##_avx512
#define MN__UNROLL MN__K_UNROLL
#define MN__F __m512
#define MN__F_LEN 16
#define MN__F_ALL(x) _mm512_set1_ps(x)
#define MN__F_LOAD(p) _mm512_loadu_ps(p)
#define MN__F_PART mn__part_f_avx512
#define MN__F_ADD(a, b) _mm512_add_ps(a, b)
#define MN__F_SUB(a, b) _mm512_sub_ps(a, b)
#define MN__F_MUL mn__mul_f_avx512
#define MN__F_MIN(a, b) _mm512_min_ps(a, b)
#define MN__F_MAX(a, b) _mm512_max_ps(a, b)
#define MN__F_FOLD_ADD mn__fold_add_f_avx512
#define MN__F_FOLD_MIN mn__fold_min_f_avx512
#define MN__F_FOLD_MAX mn__fold_max_f_avx512
#define MN__F_SIGN mn__sign_f_avx512
#define MN__D __m512d
#define MN__D_LEN 8
#define MN__D_ALL(x) _mm512_set1_pd(x)
#define MN__D_LOAD(p) _mm512_loadu_pd(p)
#define MN__D_PART mn__part_d_avx512
#define MN__D_ADD(a, b) _mm512_add_pd(a, b)
#define MN__D_SUB(a, b) _mm512_sub_pd(a, b)
#define MN__D_MUL mn__mul_d_avx512
#define MN__D_MIN(a, b) _mm512_min_pd(a, b)
#define MN__D_MAX(a, b) _mm512_max_pd(a, b)
#define MN__D_FOLD_ADD mn__fold_add_d_avx512
#define MN__D_FOLD_MIN mn__fold_min_d_avx512
#define MN__D_FOLD_MAX mn__fold_max_d_avx512
#define MN__D_SIGN mn__sign_d_avx512
#define MN__B_LOAD(p) mn__from_b_avx512(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define MN__B_PART mn__part_b_avx512
#define MN__B_SIGN mn__sign_b_avx512
#define MN__I __m512i
#define MN__I_LEN 64
#define MN__I_LOAD MN__LOAD
#define MN__I_PART mn__part_avx512
#define MN__I_AND(a, b) _mm512_and_si512(a, b)
#define MN__I_XOR(a, b) _mm512_xor_si512(a, b)
#define MN__I_MIN(a, b) _mm512_min_epi8(a, b)
#define MN__I_MAX(a, b) _mm512_max_epi8(a, b)
#define MN__I_FOLD_MIN mn__fold_min_i_avx512
#define MN__I_FOLD_MAX mn__fold_max_i_avx512
#define MN__I_SQUARES mn__squares_avx512
#define MN__I_SUM(w, a) _mm512_dpbusd_epi32(w, _mm512_set1_epi8(1), a)
#define MN__I_ONES(w, a) _mm512_add_epi32(w, _mm512_popcnt_epi32(a))
#define MN__I_SIGN mn__sign_i_avx512
#define MN__W __m512i
#define MN__W_ZERO _mm512_setzero_si512()
#define MN__W_ADD(a, b) _mm512_add_epi32(a, b)
#define MN__W_TOTAL(w) ((int64_t)_mm512_reduce_add_epi32(w))
#include "loops.h"

/* vpdpbusd takes unsigned bytes on one side: they are made so by adding 128, and 128 times the sum of the
 * other side is taken away in the end. */
static MN__K_AVX512 int64_t mn__dot_i8_avx512(const int8_t *left, const int8_t *right, size_t count) {
    const __m512i top = _mm512_set1_epi8(-128), one = _mm512_set1_epi8(1);
    int64_t total = 0;
    while (count) {
        size_t here = count < (size_t)MN__BYTES ? count : (size_t)MN__BYTES, at = 0;
        __m512i products[4], sums[4];
        int v;
        MN__K_UNROLL for (v = 0; v < 4; v++) products[v] = sums[v] = _mm512_setzero_si512();
        for (; at + 256 <= here; at += 256) {
            MN__K_UNROLL for (v = 0; v < 4; v++) {
                __m512i l = MN__LOAD(left + at + 64 * v), r = MN__LOAD(right + at + 64 * v);
                MN__K_KEEP(r); /* One load, not one for each use. */
                products[v] = _mm512_dpbusd_epi32(products[v], _mm512_xor_si512(l, top), r);
                sums[v] = _mm512_dpbusd_epi32(sums[v], one, r);
            }
        }
        for (; at < here; at += 64) {
            size_t rest = here - at < 64 ? here - at : 64;
            __m512i l = mn__part_avx512(left + at, rest), r = mn__part_avx512(right + at, rest);
            products[0] = _mm512_dpbusd_epi32(products[0], _mm512_xor_si512(l, top), r);
            sums[0] = _mm512_dpbusd_epi32(sums[0], one, r);
        }
        products[0] = _mm512_add_epi32(_mm512_add_epi32(products[0], products[1]),
                                       _mm512_add_epi32(products[2], products[3]));
        sums[0] = _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3]));
        total += _mm512_reduce_add_epi32(_mm512_sub_epi32(products[0], _mm512_slli_epi32(sums[0], 7)));
        left += here, right += here;
        count -= here;
    }
    return total;
}

static MN__K_AVX512 double mn__cosine_i8_avx512(const int8_t *left, const int8_t *right, size_t count) {
    const __m512i top = _mm512_set1_epi8(-128), one = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
    int64_t product = 0, lefts = 0, rights = 0;
    while (count) {
        size_t here = count < (size_t)MN__BYTES ? count : (size_t)MN__BYTES, at;
        __m512i p = zero, l = zero, r = zero, left_sums = zero, right_sums = zero;
        for (at = 0; at < here; at += 64) {
            size_t rest = here - at < 64 ? here - at : 64;
            __m512i a = mn__part_avx512(left + at, rest), b = mn__part_avx512(right + at, rest);
            __m512i a_above = _mm512_xor_si512(a, top), b_above = _mm512_xor_si512(b, top);
            p = _mm512_dpbusd_epi32(p, a_above, b);
            l = _mm512_dpbusd_epi32(l, a_above, a);
            r = _mm512_dpbusd_epi32(r, b_above, b);
            left_sums = _mm512_dpbusd_epi32(left_sums, one, a);
            right_sums = _mm512_dpbusd_epi32(right_sums, one, b);
        }
        left_sums = _mm512_slli_epi32(left_sums, 7);
        right_sums = _mm512_slli_epi32(right_sums, 7);
        product += _mm512_reduce_add_epi32(_mm512_sub_epi32(p, right_sums));
        lefts += _mm512_reduce_add_epi32(_mm512_sub_epi32(l, left_sums));
        rights += _mm512_reduce_add_epi32(_mm512_sub_epi32(r, right_sums));
        left += here, right += here;
        count -= here;
    }
    return mn__cosine((double)product, (double)lefts, (double)rights);
}
MN__K_TABLE(avx512, avx512, avx512);

/* ---- AVX-512 BF16 */

#if defined(__clang__) || __GNUC__ >= 10
#define MN__K_BF16 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vpopcntdq,avx512bf16,bmi2")))
#define MN__PAIRS(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))

/* 1 to 32 numbers, and zeros. */
MN__K_INLINE MN__K_BF16 __m512i mn__part_bf16(const uint16_t *in, size_t n) {
    return _mm512_maskz_loadu_epi16(_bzhi_u32(~(uint32_t)0, (unsigned)n), in);
}

/* A body with four sums for rows of 128 numbers: STEP is sum v with the 32 numbers at `from`, REST the first
 * sum with the n numbers at `at`. */
#define MN__BF16_ROWS(STEP, REST)                                       \
    __m512 sums[4];                                                     \
    size_t at = 0;                                                      \
    int v;                                                              \
    MN__K_UNROLL for (v = 0; v < 4; v++) sums[v] = _mm512_setzero_ps(); \
    for (; at + 128 <= count; at += 128) {                              \
        MN__K_UNROLL for (v = 0; v < 4; v++) {                          \
            size_t from = at + 32 * (size_t)v;                          \
            sums[v] = STEP;                                             \
        }                                                               \
    }                                                                   \
    for (; at < count; at += 32) {                                      \
        size_t n = count - at < 32 ? count - at : 32;                   \
        sums[0] = REST;                                                 \
    }                                                                   \
    return mn__fold_add_f_avx512(                                       \
        _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])))

static MN__K_BF16 float mn__dot_bf16_bf16(const uint16_t *left, const uint16_t *right, size_t count) {
    MN__BF16_ROWS(MN__PAIRS(sums[v], MN__LOAD(left + from), MN__LOAD(right + from)),
                  MN__PAIRS(sums[0], mn__part_bf16(left + at, n), mn__part_bf16(right + at, n)));
}

static MN__K_BF16 float mn__sum_bf16_bf16(const uint16_t *values, size_t count) {
    const __m512i ones = _mm512_set1_epi16(0x3f80);
    MN__BF16_ROWS(MN__PAIRS(sums[v], MN__LOAD(values + from), ones),
                  MN__PAIRS(sums[0], mn__part_bf16(values + at, n), ones));
}

/* The numbers at odd places and at even ones of both sides: the squares of the differences join the sums. */
MN__K_INLINE MN__K_BF16 void mn__squares_bf16(__m512 *odds, __m512 *evens, __m512i l, __m512i r) {
    const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    __m512 odd = _mm512_sub_ps(_mm512_castsi512_ps(_mm512_and_si512(l, high)),
                               _mm512_castsi512_ps(_mm512_and_si512(r, high)));
    __m512 even = _mm512_sub_ps(_mm512_castsi512_ps(_mm512_slli_epi32(l, 16)),
                                _mm512_castsi512_ps(_mm512_slli_epi32(r, 16)));
    *odds = _mm512_fmadd_ps(odd, odd, *odds);
    *evens = _mm512_fmadd_ps(even, even, *evens);
}

static MN__K_BF16 float mn__squared_distance_bf16_bf16(const uint16_t *left, const uint16_t *right,
                                                       size_t count) {
    __m512 odds[4], evens[4];
    size_t at = 0;
    int v;
    MN__K_UNROLL for (v = 0; v < 4; v++) odds[v] = evens[v] = _mm512_setzero_ps();
    for (; at + 128 <= count; at += 128) {
        MN__K_UNROLL for (v = 0; v < 4; v++) {
            __m512i l = MN__LOAD(left + at + 32 * v), r = MN__LOAD(right + at + 32 * v);
            MN__K_KEEP(l); /* One load, not one for each use. */
            MN__K_KEEP(r);
            mn__squares_bf16(odds + v, evens + v, l, r);
        }
    }
    for (; at < count; at += 32) {
        size_t n = count - at < 32 ? count - at : 32;
        mn__squares_bf16(odds, evens, mn__part_bf16(left + at, n), mn__part_bf16(right + at, n));
    }
    MN__K_UNROLL for (v = 0; v < 4; v++) odds[v] = _mm512_add_ps(odds[v], evens[v]);
    return mn__fold_add_f_avx512(
        _mm512_add_ps(_mm512_add_ps(odds[0], odds[1]), _mm512_add_ps(odds[2], odds[3])));
}

static MN__K_BF16 double mn__cosine_bf16_bf16(const uint16_t *left, const uint16_t *right, size_t count) {
    __m512 products[2], lefts[2], rights[2];
    size_t at = 0;
    int v;
    MN__K_UNROLL for (v = 0; v < 2; v++) products[v] = lefts[v] = rights[v] = _mm512_setzero_ps();
    while (at < count) {
        MN__K_UNROLL for (v = 0; v < 2; v++, at += 32) {
            size_t n = count > at ? count - at : 0;
            __m512i l = mn__part_bf16(left + (n ? at : 0), n < 32 ? n : 32);
            __m512i r = mn__part_bf16(right + (n ? at : 0), n < 32 ? n : 32);
            products[v] = MN__PAIRS(products[v], l, r);
            lefts[v] = MN__PAIRS(lefts[v], l, l);
            rights[v] = MN__PAIRS(rights[v], r, r);
        }
    }
    return mn__cosine(mn__fold_add_f_avx512(_mm512_add_ps(products[0], products[1])),
                      mn__fold_add_f_avx512(_mm512_add_ps(lefts[0], lefts[1])),
                      mn__fold_add_f_avx512(_mm512_add_ps(rights[0], rights[1])));
}
MN__K_TABLE(avx512bf16, avx512, bf16);
#undef MN__PAIRS
#undef MN__BF16_ROWS
#define MN__K_HAS_BF16 1
#endif
#undef MN__LOAD
#undef MN__SIGN
