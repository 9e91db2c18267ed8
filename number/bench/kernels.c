/* Times of calls of mantissa_kernels.h and of numkong's functions, for kernels.py, which loads this as a
 * library. */
#define _POSIX_C_SOURCE 199309L
#define MANTISSA_KERNELS_IMPLEMENTATION
#include "mantissa_kernels.h"

#include <time.h>

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* What results go to, so that no call is left out. */
volatile double bench_sink;

/* A function of ours by its number in mn_kernels, the name being number 0. */
static void (*function_of(const mn_kernels *kernels, size_t number))(void) {
    void (*function)(void);
    memcpy(&function, (const char *)kernels + number * sizeof function, sizeof function);
    return function;
}

typedef double (*one_double)(const void *, size_t);
typedef float (*one_float)(const void *, size_t);
typedef int64_t (*one_integer)(const void *, size_t);
typedef double (*two_double)(const void *, const void *, size_t);
typedef float (*two_float)(const void *, const void *, size_t);
typedef int64_t (*two_integer)(const void *, const void *, size_t);
typedef void (*to_words)(uint64_t *, const void *, size_t);
typedef void (*nk_two)(const void *, const void *, uint64_t, void *);
typedef void (*nk_moments)(const void *, uint64_t, uint64_t, void *, void *);
typedef void (*nk_extremes)(const void *, uint64_t, uint64_t, void *, uint64_t *, void *, uint64_t *);

#define TIME(call)                                \
    do {                                          \
        for (round = 0; round < calls; round++) { \
            call;                                 \
        }                                         \
    } while (0)

/* Nanoseconds of a call. `kind` says what the function takes and returns; `width` is the size of a number. */
double bench_call(void (*function)(void), int kind, const void *left, const void *right, size_t count,
                  size_t width, size_t calls, uint64_t *out) {
    size_t round;
    double start = now_ns(), sum = 0;
    switch (kind) {
    case 0:
        TIME(sum += ((one_double)function)(left, count));
        break;
    case 1:
        TIME(sum += (double)((one_float)function)(left, count));
        break;
    case 2:
        TIME(sum += (double)((one_integer)function)(left, count));
        break;
    case 3:
        TIME(sum += ((two_double)function)(left, right, count));
        break;
    case 4:
        TIME(sum += (double)((two_float)function)(left, right, count));
        break;
    case 5:
        TIME(sum += (double)((two_integer)function)(left, right, count));
        break;
    case 6:
        TIME(((to_words)function)(out, left, count));
        break;
    case 7:
        TIME(((nk_two)function)(left, right, count, out));
        break;
    case 8:
        TIME(((nk_moments)function)(left, count, width, out, out + 1));
        break;
    default:
        TIME(((nk_extremes)function)(left, count, width, out, out + 1, out + 2, out + 3));
        break;
    }
    bench_sink = sum;
    return (now_ns() - start) / (double)calls;
}

double bench_ours(size_t level, size_t number, int kind, const void *left, const void *right, size_t count,
                  size_t calls, uint64_t *out) {
    const mn_kernels *all[MN_KERNELS_MAX];
    size_t levels = mn_all_kernels(all);
    return bench_call(function_of(all[level < levels ? level : levels - 1], number), kind, left, right, count,
                      0, calls, out);
}

const char *bench_level(size_t level) {
    const mn_kernels *all[MN_KERNELS_MAX];
    return level < mn_all_kernels(all) ? all[level]->name : NULL;
}

typedef uint64_t vector __attribute__((vector_size(64), aligned(8), may_alias));

/* A plain read: the words combined by a bitwise or, as wide as the processor's vectors. */
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
uint64_t
bench_words(const uint64_t *words, size_t count) {
    vector a = {0}, b = {0}, c = {0}, d = {0};
    size_t at;
    for (at = 0; at + 32 <= count; at += 32) {
        const vector *from = (const vector *)(const void *)(words + at);
        a |= from[0], b |= from[1], c |= from[2], d |= from[3];
    }
    a |= b, c |= d, a |= c;
    return a[0] | a[1] | a[2] | a[3] | a[4] | a[5] | a[6] | a[7];
}

double bench_read(const void *words, size_t count, size_t calls) {
    size_t round;
    double start = now_ns();
    for (round = 0; round < calls; round++) bench_sink = (double)bench_words((const uint64_t *)words, count);
    return (now_ns() - start) / (double)calls;
}
