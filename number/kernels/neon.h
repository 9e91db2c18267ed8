/* neon.h - the level neon of mantissa_kernels.h, which includes this file. */

MN__K_INLINE float32x4_t mn__mul_f_neon(float32x4_t a, float32x4_t b) {
    float32x4_t product = vmulq_f32(a, b);
    MN__K_KEEP(product);
    return product;
}

MN__K_INLINE float64x2_t mn__mul_d_neon(float64x2_t a, float64x2_t b) {
    float64x2_t product = vmulq_f64(a, b);
    MN__K_KEEP(product);
    return product;
}

MN__K_INLINE uint8x16_t mn__part_neon(const void *in, size_t size) {
    uint64_t words[2];
    mn__load_part(words, in, size);
    return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(words[0]), vcreate_u64(words[1])));
}

MN__K_INLINE float32x4_t mn__first_neon(float32x4_t some, size_t n, float32x4_t rest) {
    return vbslq_f32(vreinterpretq_u32_s32(vld1q_s32(mn__mask + 8 - n)), some, rest);
}

MN__K_INLINE float32x4_t mn__part_f_neon(const float *in, size_t n, float32x4_t rest) {
    return mn__first_neon(vreinterpretq_f32_u8(mn__part_neon(in, 4 * n)), n, rest);
}

MN__K_INLINE float32x4_t mn__from_b_neon(uint16x4_t bits) {
    return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}

MN__K_INLINE float32x4_t mn__part_b_neon(const uint16_t *in, size_t n, float32x4_t rest) {
    uint16x8_t bits = vreinterpretq_u16_u8(mn__part_neon(in, 2 * n));
    return mn__first_neon(mn__from_b_neon(vget_low_u16(bits)), n, rest);
}

/* Not vminq and vmaxq, which let NaNs through. */
MN__K_INLINE float32x4_t mn__min_f_neon(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
MN__K_INLINE float32x4_t mn__max_f_neon(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
MN__K_INLINE float64x2_t mn__min_d_neon(float64x2_t a, float64x2_t b) {
    return vbslq_f64(vcltq_f64(a, b), a, b);
}
MN__K_INLINE float64x2_t mn__max_d_neon(float64x2_t a, float64x2_t b) {
    return vbslq_f64(vcgtq_f64(a, b), a, b);
}

#define MN__ADD(a, b) ((a) + (b))
#define MN__FOLD(name, op)                                                  \
    MN__K_INLINE float mn__fold_##name##_f_neon(float32x4_t v) {            \
        float first = op(vgetq_lane_f32(v, 0), vgetq_lane_f32(v, 2));       \
        float second = op(vgetq_lane_f32(v, 1), vgetq_lane_f32(v, 3));      \
        return op(first, second);                                           \
    }                                                                       \
    MN__K_INLINE double mn__fold_##name##_d_neon(float64x2_t v) {           \
        double first = vgetq_lane_f64(v, 0), second = vgetq_lane_f64(v, 1); \
        return op(first, second);                                           \
    }
MN__FOLD(add, MN__ADD)
MN__FOLD(min, MN__LESS)
MN__FOLD(max, MN__GREATER)
#undef MN__FOLD
#undef MN__ADD

MN__K_INLINE int32x4_t mn__dot_i_neon(int32x4_t counters, uint8x16_t a, uint8x16_t b) {
    int8x16_t l = vreinterpretq_s8_u8(a), r = vreinterpretq_s8_u8(b);
    counters = vpadalq_s16(counters, vmull_s8(vget_low_s8(l), vget_low_s8(r)));
    return vpadalq_s16(counters, vmull_s8(vget_high_s8(l), vget_high_s8(r)));
}

MN__K_INLINE int32x4_t mn__squares_neon(int32x4_t counters, uint8x16_t a, uint8x16_t b) {
    uint8x16_t distance = vreinterpretq_u8_s8(vabdq_s8(vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b)));
    uint32x4_t sums = vreinterpretq_u32_s32(counters);
    sums = vpadalq_u16(sums, vmull_u8(vget_low_u8(distance), vget_low_u8(distance)));
    sums = vpadalq_u16(sums, vmull_u8(vget_high_u8(distance), vget_high_u8(distance)));
    return vreinterpretq_s32_u32(sums);
}

MN__K_INLINE int32x4_t mn__ones_neon(int32x4_t counters, uint8x16_t a) {
    return vpadalq_s16(counters, vreinterpretq_s16_u16(vpaddlq_u8(vcntq_u8(a))));
}

MN__K_INLINE uint8x16_t mn__min_i_neon(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_s8(vminq_s8(vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b)));
}

MN__K_INLINE uint8x16_t mn__max_i_neon(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_s8(vmaxq_s8(vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b)));
}

#define MN__T static
#define MN__N(name) mn__##name##_neon
#define MN__UNROLL MN__K_UNROLL
#define MN__F float32x4_t
#define MN__F_LEN 4
#define MN__F_ALL(x) vdupq_n_f32(x)
#define MN__F_LOAD(p) vld1q_f32(p)
#define MN__F_PART mn__part_f_neon
#define MN__F_ADD(a, b) vaddq_f32(a, b)
#define MN__F_SUB(a, b) vsubq_f32(a, b)
#define MN__F_MUL mn__mul_f_neon
#define MN__F_MIN mn__min_f_neon
#define MN__F_MAX mn__max_f_neon
#define MN__F_FOLD_ADD mn__fold_add_f_neon
#define MN__F_FOLD_MIN mn__fold_min_f_neon
#define MN__F_FOLD_MAX mn__fold_max_f_neon
#define MN__F_SIGN mn__sign_f
#define MN__D float64x2_t
#define MN__D_LEN 2
#define MN__D_ALL(x) vdupq_n_f64(x)
#define MN__D_LOAD(p) vld1q_f64(p)
#define MN__D_PART(p, n, rest) ((void)(n), vsetq_lane_f64(*(p), rest, 0))
#define MN__D_ADD(a, b) vaddq_f64(a, b)
#define MN__D_SUB(a, b) vsubq_f64(a, b)
#define MN__D_MUL mn__mul_d_neon
#define MN__D_MIN mn__min_d_neon
#define MN__D_MAX mn__max_d_neon
#define MN__D_FOLD_ADD mn__fold_add_d_neon
#define MN__D_FOLD_MIN mn__fold_min_d_neon
#define MN__D_FOLD_MAX mn__fold_max_d_neon
#define MN__D_SIGN mn__sign_d
#define MN__B_LOAD(p) mn__from_b_neon(vld1_u16(p))
#define MN__B_PART mn__part_b_neon
#define MN__B_SIGN mn__sign_b
#define MN__I uint8x16_t
#define MN__I_LEN 16
#define MN__I_LOAD(p) vld1q_u8((const uint8_t *)(p))
#define MN__I_PART mn__part_neon
#define MN__I_AND(a, b) vandq_u8(a, b)
#define MN__I_XOR(a, b) veorq_u8(a, b)
#define MN__I_MIN mn__min_i_neon
#define MN__I_MAX mn__max_i_neon
#define MN__I_FOLD_MIN(v) vminvq_s8(vreinterpretq_s8_u8(v))
#define MN__I_FOLD_MAX(v) vmaxvq_s8(vreinterpretq_s8_u8(v))
#define MN__I_DOT mn__dot_i_neon
#define MN__I_SQUARES mn__squares_neon
#define MN__I_SUM(w, a) vpadalq_s16(w, vpaddlq_s8(vreinterpretq_s8_u8(a)))
#define MN__I_ONES mn__ones_neon
#define MN__I_SIGN mn__sign_i
#define MN__W int32x4_t
#define MN__W_ZERO vdupq_n_s32(0)
#define MN__W_ADD(a, b) vaddq_s32(a, b)
#define MN__W_TOTAL(w) vaddlvq_s32(w)
#include "loops.h"
MN__K_TABLE(neon, neon, neon);
