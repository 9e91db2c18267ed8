/* loops.h - the loops of mantissa_kernels.h, which includes this file once for each level.
 *
 * A level defines, in these macros, vectors of its length:
 *
 *     MN__T               what comes before a function: storage and the instructions that it may use
 *     MN__N(name)         a name with the level's ending
 *     MN__UNROLL          comes before a loop over the vectors of a row
 *     MN__F, MN__D        a vector of MN__F_LEN floats, of MN__D_LEN doubles; for each of F and D:
 *       _ALL(x)           x in all places
 *       _LOAD(p)          from numbers at p
 *       _PART(p, n, rest) from n numbers, at least 1 and less than a vector holds, and rest's last places
 *       _ADD _SUB _MUL    a with b; _MUL rounds its products, which nothing fuses
 *       _MIN _MAX         a if it is less (greater) than b, else b
 *       _FOLD_ADD ...     all places with the operation: halves, then their halves
 *     MN__B_LOAD _PART    the same floats from bf16
 *     MN__D_SIGN(p) and for F, B, I: the signs of 64 numbers at p as a word
 *
 * and, where it has MN__I, a vector of MN__I_LEN bytes with counters in 32 bits (MN__W):
 *
 *     MN__I_LOAD(p), _PART(p, n)   bytes, and zeros
 *     MN__I_AND, _XOR, _MIN, _MAX, _ALL
 *     MN__I_DOT(w, a, b), _SQUARES(w, a, b), _SUM(w, a), _ONES(w, a)   w and the products, the squared
 *                                  differences, the numbers, the bits of four bytes a counter
 *     MN__W_ZERO, MN__W_ADD, MN__W_TOTAL(w)   the sum of the counters as int64_t
 *     MN__I_FOLD_MIN(a), _FOLD_MAX(a)
 */

#define MN__HALVE(n, op)                                                                             \
    if (N >= 2 * (n)) {                                                                              \
        MN__UNROLL for (v = 0; v < (n) && v + (n) < N; v++) lanes[v] = op(lanes[v], lanes[v + (n)]); \
    }
#define MN__HALVES(op) \
    MN__HALVE(32, op) MN__HALVE(16, op) MN__HALVE(8, op) MN__HALVE(4, op) MN__HALVE(2, op) MN__HALVE(1, op)

/* ---- Floats: one vector */

/* The function `name`: LANES lanes that begin with `start` and take the numbers one row after another. */
#define MN__ONE(name, result, element, LANES, V, LOAD, PART, op, start)                          \
    MN__T result MN__N(name)(const element *values, size_t count) {                              \
        enum { N = LANES / MN__##V##_LEN, LEN = MN__##V##_LEN };                                 \
        const MN__##V nothing = MN__##V##_ALL(start);                                            \
        MN__##V lanes[N];                                                                        \
        size_t at = 0;                                                                           \
        int v;                                                                                   \
        MN__UNROLL for (v = 0; v < N; v++) lanes[v] = nothing;                                   \
        for (; at + LANES <= count; at += LANES) {                                               \
            MN__UNROLL for (v = 0; v < N; v++) lanes[v] =                                        \
                MN__##V##_##op(LOAD(values + at + v * LEN), lanes[v]);                           \
        }                                                                                        \
        MN__UNROLL for (v = 0; v < N; v++) {                                                     \
            size_t from = at + (size_t)v * LEN;                                                  \
            if (count >= from + LEN)                                                             \
                lanes[v] = MN__##V##_##op(LOAD(values + from), lanes[v]);                        \
            else if (count > from)                                                               \
                lanes[v] = MN__##V##_##op(PART(values + from, count - from, nothing), lanes[v]); \
        }                                                                                        \
        MN__HALVES(MN__##V##_##op)                                                               \
        return MN__##V##_FOLD_##op(lanes[0]);                                                    \
    }

/* The function `name`: what `name`_block says of blocks of `size` numbers, added in pairs. */
#define MN__ONE_IN_BLOCKS(name, result, element, size)                                                       \
    MN__T result MN__N(name)(const element *values, size_t count) {                                          \
        result sums[MN__PAIRS_MAX];                                                                          \
        size_t depth = 0, index = 0, at = 0;                                                                 \
        if (count <= (size_t)(size)) return MN__N(name##_block)(values, count);                              \
        for (; at < count; at += (size_t)(size), index++) {                                                  \
            sums[depth] =                                                                                    \
                MN__N(name##_block)(values + at, count - at < (size_t)(size) ? count - at : (size_t)(size)); \
            depth = mn__pair_up_##result(sums, depth + 1, 1, index);                                         \
        }                                                                                                    \
        mn__end_pairs_##result(sums, depth, 1);                                                              \
        return sums[0];                                                                                      \
    }

MN__ONE(sum_f64_block, double, double, 32, D, MN__D_LOAD, MN__D_PART, ADD, 0.0)
MN__ONE(sum_f32_block, float, float, 64, F, MN__F_LOAD, MN__F_PART, ADD, 0.0f)
MN__ONE(sum_bf16_block, float, uint16_t, 64, F, MN__B_LOAD, MN__B_PART, ADD, 0.0f)
MN__ONE_IN_BLOCKS(sum_f64, double, double, 32 * MN__ROWS)
MN__ONE_IN_BLOCKS(sum_f32, float, float, 64 * MN__ROWS)
MN__ONE_IN_BLOCKS(sum_bf16, float, uint16_t, 64 * MN__ROWS)
MN__ONE(min_f64, double, double, 32, D, MN__D_LOAD, MN__D_PART, MIN, (double)INFINITY)
MN__ONE(min_f32, float, float, 64, F, MN__F_LOAD, MN__F_PART, MIN, (float)INFINITY)
MN__ONE(min_bf16, float, uint16_t, 64, F, MN__B_LOAD, MN__B_PART, MIN, (float)INFINITY)
MN__ONE(max_f64, double, double, 32, D, MN__D_LOAD, MN__D_PART, MAX, (double)-INFINITY)
MN__ONE(max_f32, float, float, 64, F, MN__F_LOAD, MN__F_PART, MAX, (float)-INFINITY)
MN__ONE(max_bf16, float, uint16_t, 64, F, MN__B_LOAD, MN__B_PART, MAX, (float)-INFINITY)

/* ---- Floats: two vectors */

/* What a row adds to a lane. */
#define MN__PRODUCT(V, l, r, lane) lane = MN__##V##_ADD(lane, MN__##V##_MUL(l, r))
#define MN__SQUARE(V, l, r, lane) (l = MN__##V##_SUB(l, r), lane = MN__##V##_ADD(lane, MN__##V##_MUL(l, l)))

#define MN__TWO(name, result, element, LANES, V, LOAD, PART, STEP)                              \
    MN__T result MN__N(name##_block)(const element *left, const element *right, size_t count) { \
        enum { N = LANES / MN__##V##_LEN, LEN = MN__##V##_LEN };                                \
        const MN__##V nothing = MN__##V##_ALL(0);                                               \
        MN__##V lanes[N];                                                                       \
        size_t at = 0;                                                                          \
        int v;                                                                                  \
        MN__UNROLL for (v = 0; v < N; v++) lanes[v] = nothing;                                  \
        for (; at + LANES <= count; at += LANES) {                                              \
            MN__UNROLL for (v = 0; v < N; v++) {                                                \
                MN__##V l = LOAD(left + at + v * LEN), r = LOAD(right + at + v * LEN);          \
                STEP(V, l, r, lanes[v]);                                                        \
            }                                                                                   \
        }                                                                                       \
        MN__UNROLL for (v = 0; v < N; v++) {                                                    \
            size_t from = at + (size_t)v * LEN;                                                 \
            if (count >= from + LEN) {                                                          \
                MN__##V l = LOAD(left + from), r = LOAD(right + from);                          \
                STEP(V, l, r, lanes[v]);                                                        \
            } else if (count > from) {                                                          \
                MN__##V l = PART(left + from, count - from, nothing),                           \
                        r = PART(right + from, count - from, nothing);                          \
                STEP(V, l, r, lanes[v]);                                                        \
            }                                                                                   \
        }                                                                                       \
        MN__HALVES(MN__##V##_ADD)                                                               \
        return MN__##V##_FOLD_ADD(lanes[0]);                                                    \
    }                                                                                           \
    MN__T result MN__N(name)(const element *left, const element *right, size_t count) {         \
        enum { SIZE = LANES * MN__ROWS };                                                       \
        result sums[MN__PAIRS_MAX];                                                             \
        size_t depth = 0, index = 0, at = 0;                                                    \
        if (count <= SIZE) return MN__N(name##_block)(left, right, count);                      \
        for (; at < count; at += SIZE, index++) {                                               \
            size_t here = count - at < (size_t)SIZE ? count - at : (size_t)SIZE;                \
            sums[depth] = MN__N(name##_block)(left + at, right + at, here);                     \
            depth = mn__pair_up_##result(sums, depth + 1, 1, index);                            \
        }                                                                                       \
        mn__end_pairs_##result(sums, depth, 1);                                                 \
        return sums[0];                                                                         \
    }

MN__TWO(dot_f64, double, double, 16, D, MN__D_LOAD, MN__D_PART, MN__PRODUCT)
MN__TWO(dot_f32, float, float, 32, F, MN__F_LOAD, MN__F_PART, MN__PRODUCT)
MN__TWO(dot_bf16, float, uint16_t, 32, F, MN__B_LOAD, MN__B_PART, MN__PRODUCT)
MN__TWO(squared_distance_f64, double, double, 16, D, MN__D_LOAD, MN__D_PART, MN__SQUARE)
MN__TWO(squared_distance_f32, float, float, 32, F, MN__F_LOAD, MN__F_PART, MN__SQUARE)
MN__TWO(squared_distance_bf16, float, uint16_t, 32, F, MN__B_LOAD, MN__B_PART, MN__SQUARE)

#define MN__ADD_LANES(V, n)                                              \
    if (N >= 2 * (n)) {                                                  \
        MN__UNROLL for (v = 0; v < (n) && v + (n) < N; v++) {            \
            products[v] = MN__##V##_ADD(products[v], products[v + (n)]); \
            lefts[v] = MN__##V##_ADD(lefts[v], lefts[v + (n)]);          \
            rights[v] = MN__##V##_ADD(rights[v], rights[v + (n)]);       \
        }                                                                \
    }
#define MN__ANGLE(V, l, r, v)                                       \
    (products[v] = MN__##V##_ADD(products[v], MN__##V##_MUL(l, r)), \
     lefts[v] = MN__##V##_ADD(lefts[v], MN__##V##_MUL(l, l)),       \
     rights[v] = MN__##V##_ADD(rights[v], MN__##V##_MUL(r, r)))

#define MN__COSINE(name, result, element, LANES, V, LOAD, PART)                                             \
    MN__T void MN__N(name##_block)(const element *left, const element *right, size_t count, result *sums) { \
        enum { N = LANES / MN__##V##_LEN, LEN = MN__##V##_LEN };                                            \
        const MN__##V nothing = MN__##V##_ALL(0);                                                           \
        MN__##V products[N], lefts[N], rights[N];                                                           \
        size_t at = 0;                                                                                      \
        int v;                                                                                              \
        MN__UNROLL for (v = 0; v < N; v++) products[v] = lefts[v] = rights[v] = nothing;                    \
        for (; at + LANES <= count; at += LANES) {                                                          \
            MN__UNROLL for (v = 0; v < N; v++) {                                                            \
                MN__##V l = LOAD(left + at + v * LEN), r = LOAD(right + at + v * LEN);                      \
                MN__ANGLE(V, l, r, v);                                                                      \
            }                                                                                               \
        }                                                                                                   \
        MN__UNROLL for (v = 0; v < N; v++) {                                                                \
            size_t from = at + (size_t)v * LEN;                                                             \
            if (count >= from + LEN) {                                                                      \
                MN__##V l = LOAD(left + from), r = LOAD(right + from);                                      \
                MN__ANGLE(V, l, r, v);                                                                      \
            } else if (count > from) {                                                                      \
                MN__##V l = PART(left + from, count - from, nothing),                                       \
                        r = PART(right + from, count - from, nothing);                                      \
                MN__ANGLE(V, l, r, v);                                                                      \
            }                                                                                               \
        }                                                                                                   \
        MN__ADD_LANES(V, 8)                                                                                 \
        MN__ADD_LANES(V, 4)                                                                                 \
        MN__ADD_LANES(V, 2) MN__ADD_LANES(V, 1) sums[0] = MN__##V##_FOLD_ADD(products[0]);                  \
        sums[1] = MN__##V##_FOLD_ADD(lefts[0]);                                                             \
        sums[2] = MN__##V##_FOLD_ADD(rights[0]);                                                            \
    }                                                                                                       \
    MN__T double MN__N(name)(const element *left, const element *right, size_t count) {                     \
        enum { SIZE = LANES * MN__ROWS };                                                                   \
        result sums[3 * MN__PAIRS_MAX];                                                                     \
        size_t depth = 0, index = 0, at = 0;                                                                \
        if (!count) return 0;                                                                               \
        do {                                                                                                \
            size_t here = count - at < (size_t)SIZE ? count - at : (size_t)SIZE;                            \
            MN__N(name##_block)(left + at, right + at, here, sums + 3 * depth);                             \
            depth = mn__pair_up_##result(sums, depth + 1, 3, index++);                                      \
            at += here;                                                                                     \
        } while (at < count);                                                                               \
        mn__end_pairs_##result(sums, depth, 3);                                                             \
        return mn__cosine(sums[0], sums[1], sums[2]);                                                       \
    }

MN__COSINE(cosine_f64, double, double, 8, D, MN__D_LOAD, MN__D_PART)
MN__COSINE(cosine_f32, float, float, 16, F, MN__F_LOAD, MN__F_PART)
MN__COSINE(cosine_bf16, float, uint16_t, 16, F, MN__B_LOAD, MN__B_PART)

/* ---- Signs */

#define MN__SIGNS(name, element, SIGN)                                              \
    MN__T void MN__N(name)(uint64_t * words, const element *values, size_t count) { \
        element rest[64];                                                           \
        const element *from = rest;                                                 \
        for (; count >= 64; count -= 64, values += 64) *words++ = SIGN(values);     \
        if (!count) return;                                                         \
        memset(rest, 0, sizeof rest);                                               \
        memcpy(rest, values, count * sizeof *rest);                                 \
        MN__K_HIDE(from);                                                           \
        *words = SIGN(from);                                                        \
    }

MN__SIGNS(sign_f64, double, MN__D_SIGN)
MN__SIGNS(sign_f32, float, MN__F_SIGN)
MN__SIGNS(sign_bf16, uint16_t, MN__B_SIGN)
MN__SIGNS(sign_i8, int8_t, MN__I_SIGN)

/* ---- Bytes and bits */

#ifdef MN__I

/* How often a loop over bytes is unrolled: the instructions that add products take four cycles or five. */
#define MN__TIMES 4

#define MN__BYTES_ONE(name, result, element, STEP)                                                     \
    MN__T result MN__N(name)(const element *values, size_t count) {                                    \
        const unsigned char *bytes = (const unsigned char *)values;                                    \
        result total = 0;                                                                              \
        while (count) {                                                                                \
            size_t here = count < (size_t)MN__BYTES ? count : (size_t)MN__BYTES, at = 0;               \
            MN__W w[MN__TIMES];                                                                        \
            int v;                                                                                     \
            MN__UNROLL for (v = 0; v < MN__TIMES; v++) w[v] = MN__W_ZERO;                              \
            for (; at + MN__TIMES * MN__I_LEN <= here; at += MN__TIMES * MN__I_LEN) {                  \
                MN__UNROLL for (v = 0; v < MN__TIMES; v++) w[v] =                                      \
                    STEP(w[v], MN__I_LOAD(bytes + at + v * MN__I_LEN));                                \
            }                                                                                          \
            for (; at + MN__I_LEN <= here; at += MN__I_LEN) w[0] = STEP(w[0], MN__I_LOAD(bytes + at)); \
            if (at < here) w[1] = STEP(w[1], MN__I_PART(bytes + at, here - at));                       \
            total += (result)MN__W_TOTAL(MN__W_ADD(MN__W_ADD(w[0], w[1]), MN__W_ADD(w[2], w[3])));     \
            bytes += here;                                                                             \
            count -= here;                                                                             \
        }                                                                                              \
        return total;                                                                                  \
    }

#define MN__BYTES_TWO(name, result, element, STEP)                                                          \
    MN__T result MN__N(name)(const element *left, const element *right, size_t count) {                     \
        const unsigned char *l = (const unsigned char *)left, *r = (const unsigned char *)right;            \
        result total = 0;                                                                                   \
        while (count) {                                                                                     \
            size_t here = count < (size_t)MN__BYTES ? count : (size_t)MN__BYTES, at = 0;                    \
            MN__W w[MN__TIMES];                                                                             \
            int v;                                                                                          \
            MN__UNROLL for (v = 0; v < MN__TIMES; v++) w[v] = MN__W_ZERO;                                   \
            for (; at + MN__TIMES * MN__I_LEN <= here; at += MN__TIMES * MN__I_LEN) {                       \
                MN__UNROLL for (v = 0; v < MN__TIMES; v++) w[v] =                                           \
                    STEP(w[v], MN__I_LOAD(l + at + v * MN__I_LEN), MN__I_LOAD(r + at + v * MN__I_LEN));     \
            }                                                                                               \
            for (; at + MN__I_LEN <= here; at += MN__I_LEN)                                                 \
                w[0] = STEP(w[0], MN__I_LOAD(l + at), MN__I_LOAD(r + at));                                  \
            if (at < here) w[1] = STEP(w[1], MN__I_PART(l + at, here - at), MN__I_PART(r + at, here - at)); \
            total += (result)MN__W_TOTAL(MN__W_ADD(MN__W_ADD(w[0], w[1]), MN__W_ADD(w[2], w[3])));          \
            l += here, r += here;                                                                           \
            count -= here;                                                                                  \
        }                                                                                                   \
        return total;                                                                                       \
    }

/* STEP adds the products of two vectors to the counters. */
#define MN__BYTES_COSINE(name, element, STEP)                                                    \
    MN__T double MN__N(name)(const element *left, const element *right, size_t count) {          \
        const unsigned char *l = (const unsigned char *)left, *r = (const unsigned char *)right; \
        int64_t product = 0, lefts = 0, rights = 0;                                              \
        while (count) {                                                                          \
            size_t here = count < (size_t)MN__BYTES ? count : (size_t)MN__BYTES, at = 0;         \
            MN__W w = MN__W_ZERO, w_left = MN__W_ZERO, w_right = MN__W_ZERO;                     \
            for (; at < here; at += MN__I_LEN) {                                                 \
                size_t rest = here - at;                                                         \
                MN__I a = rest < MN__I_LEN ? MN__I_PART(l + at, rest) : MN__I_LOAD(l + at);      \
                MN__I b = rest < MN__I_LEN ? MN__I_PART(r + at, rest) : MN__I_LOAD(r + at);      \
                w = STEP(w, a, b);                                                               \
                w_left = STEP(w_left, a, a);                                                     \
                w_right = STEP(w_right, b, b);                                                   \
            }                                                                                    \
            product += MN__W_TOTAL(w);                                                           \
            lefts += MN__W_TOTAL(w_left);                                                        \
            rights += MN__W_TOTAL(w_right);                                                      \
            l += here, r += here;                                                                \
            count -= here;                                                                       \
        }                                                                                        \
        return mn__cosine((double)product, (double)lefts, (double)rights);                       \
    }

#define MN__COMMON_BITS(w, a, b) MN__I_ONES(w, MN__I_AND(a, b))
#define MN__OTHER_BITS(w, a, b) MN__I_ONES(w, MN__I_XOR(a, b))

MN__BYTES_ONE(sum_i8, int64_t, int8_t, MN__I_SUM)
MN__BYTES_ONE(popcount, uint64_t, void, MN__I_ONES)
MN__BYTES_TWO(squared_distance_i8, int64_t, int8_t, MN__I_SQUARES)
MN__BYTES_TWO(dot_bits, uint64_t, void, MN__COMMON_BITS)
MN__BYTES_TWO(hamming, uint64_t, void, MN__OTHER_BITS)
#ifdef MN__I_DOT
MN__BYTES_TWO(dot_i8, int64_t, int8_t, MN__I_DOT)

MN__BYTES_COSINE(cosine_i8, int8_t, MN__I_DOT)
#endif
MN__BYTES_COSINE(cosine_bits, void, MN__COMMON_BITS)

/* The last vector begins where it still fits: no byte is read that is not there, some are compared twice. */
#define MN__IS_LESS(a, b) ((a) < (b))
#define MN__IS_GREATER(a, b) ((a) > (b))
#define MN__BYTES_EXTREME(name, op, IS, start)                                           \
    MN__T int8_t MN__N(name)(const int8_t *values, size_t count) {                       \
        MN__I v[2];                                                                      \
        size_t at = 0;                                                                   \
        if (count < MN__I_LEN) {                                                         \
            int8_t found = start;                                                        \
            for (; at < count; at++) found = IS(values[at], found) ? values[at] : found; \
            return found;                                                                \
        }                                                                                \
        v[0] = v[1] = MN__I_LOAD(values + count - MN__I_LEN);                            \
        for (; at + 2 * MN__I_LEN <= count; at += 2 * MN__I_LEN) {                       \
            v[0] = MN__I_##op(v[0], MN__I_LOAD(values + at));                            \
            v[1] = MN__I_##op(v[1], MN__I_LOAD(values + at + MN__I_LEN));                \
        }                                                                                \
        if (at + MN__I_LEN <= count) v[0] = MN__I_##op(v[0], MN__I_LOAD(values + at));   \
        return (int8_t)MN__I_FOLD_##op(MN__I_##op(v[0], v[1]));                          \
    }
MN__BYTES_EXTREME(min_i8, MIN, MN__IS_LESS, 127)
MN__BYTES_EXTREME(max_i8, MAX, MN__IS_GREATER, -128)

#undef MN__TIMES
#undef MN__BYTES_ONE
#undef MN__BYTES_TWO
#undef MN__BYTES_COSINE
#undef MN__COMMON_BITS
#undef MN__OTHER_BITS
#undef MN__IS_LESS
#undef MN__IS_GREATER
#undef MN__BYTES_EXTREME

#else /* Without vectors of bytes. */

#define MN__BYTES_ONE(name, result, start, step)                   \
    MN__T result MN__N(name)(const int8_t *values, size_t count) { \
        result found = start;                                      \
        size_t at;                                                 \
        for (at = 0; at < count; at++) found = (result)(step);     \
        return found;                                              \
    }
MN__BYTES_ONE(sum_i8, int64_t, 0, found + values[at])
MN__BYTES_ONE(min_i8, int8_t, 127, values[at] < found ? values[at] : found)
MN__BYTES_ONE(max_i8, int8_t, -128, values[at] > found ? values[at] : found)

/* Sums of a block fit in 32 bits. */
#define MN__BYTES_TWO(name, step)                                                      \
    MN__T int64_t MN__N(name)(const int8_t *left, const int8_t *right, size_t count) { \
        int64_t total = 0;                                                             \
        size_t at = 0, end;                                                            \
        while (at < count) {                                                           \
            uint32_t sum = 0;                                                          \
            end = count - at < (size_t)MN__BYTES ? count : at + MN__BYTES;             \
            for (; at < end; at++) sum += (uint32_t)(step);                            \
            total += (int32_t)sum;                                                     \
        }                                                                              \
        return total;                                                                  \
    }
MN__BYTES_TWO(dot_i8, left[at] * right[at])
MN__BYTES_TWO(squared_distance_i8, (left[at] - right[at]) * (left[at] - right[at]))

MN__T double MN__N(cosine_i8)(const int8_t *left, const int8_t *right, size_t count) {
    return mn__cosine((double)MN__N(dot_i8)(left, right, count), (double)MN__N(dot_i8)(left, left, count),
                      (double)MN__N(dot_i8)(right, right, count));
}

#define MN__BITS_TWO(name, op)                                                                          \
    MN__T uint64_t MN__N(name)(const void *left, const void *right, size_t size) {                      \
        const unsigned char *l = (const unsigned char *)left, *r = (const unsigned char *)right;        \
        uint64_t total = 0;                                                                             \
        for (; size >= 8; size -= 8, l += 8, r += 8)                                                    \
            total += mn__count_bits(mn__load_word(l, 8) op mn__load_word(r, 8));                        \
        return size ? total + mn__count_bits(mn__load_word(l, size) op mn__load_word(r, size)) : total; \
    }
MN__BITS_TWO(dot_bits, &)
MN__BITS_TWO(hamming, ^)

MN__T uint64_t MN__N(popcount)(const void *bits, size_t size) { return MN__N(dot_bits)(bits, bits, size); }

MN__T double MN__N(cosine_bits)(const void *left, const void *right, size_t size) {
    return mn__cosine((double)MN__N(dot_bits)(left, right, size), (double)MN__N(popcount)(left, size),
                      (double)MN__N(popcount)(right, size));
}

#undef MN__BYTES_ONE
#undef MN__BYTES_TWO
#undef MN__BITS_TWO
#endif

#undef MN__HALVE
#undef MN__HALVES
#undef MN__ONE
#undef MN__ONE_IN_BLOCKS
#undef MN__TWO
#undef MN__PRODUCT
#undef MN__SQUARE
#undef MN__ADD_LANES
#undef MN__ANGLE
#undef MN__COSINE
#undef MN__SIGNS

/* The level's macros end with its loops. */
#undef MN__T
#undef MN__N
#undef MN__UNROLL
#undef MN__F
#undef MN__F_LEN
#undef MN__F_ALL
#undef MN__F_LOAD
#undef MN__F_PART
#undef MN__F_ADD
#undef MN__F_SUB
#undef MN__F_MUL
#undef MN__F_MIN
#undef MN__F_MAX
#undef MN__F_FOLD_ADD
#undef MN__F_FOLD_MIN
#undef MN__F_FOLD_MAX
#undef MN__F_SIGN
#undef MN__D
#undef MN__D_LEN
#undef MN__D_ALL
#undef MN__D_LOAD
#undef MN__D_PART
#undef MN__D_ADD
#undef MN__D_SUB
#undef MN__D_MUL
#undef MN__D_MIN
#undef MN__D_MAX
#undef MN__D_FOLD_ADD
#undef MN__D_FOLD_MIN
#undef MN__D_FOLD_MAX
#undef MN__D_SIGN
#undef MN__B_LOAD
#undef MN__B_PART
#undef MN__B_SIGN
#undef MN__I_SIGN
#undef MN__I
#undef MN__I_LEN
#undef MN__I_LOAD
#undef MN__I_PART
#undef MN__I_AND
#undef MN__I_XOR
#undef MN__I_MIN
#undef MN__I_MAX
#undef MN__I_DOT
#undef MN__I_SQUARES
#undef MN__I_SUM
#undef MN__I_ONES
#undef MN__I_FOLD_MIN
#undef MN__I_FOLD_MAX
#undef MN__W
#undef MN__W_ZERO
#undef MN__W_ADD
#undef MN__W_TOTAL
