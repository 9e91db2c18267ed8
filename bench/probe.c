/* STREAM's triad, from its definition, and a chain of loads: what `mantissa probe` is compared with. Prints
 * the best bytes a second of `a[i] = b[i] + 3 c[i]`, and the least nanoseconds of a load over a random
 * cycle. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *memory(size_t bytes, int huge) {
    void *found = NULL;
    if (posix_memalign(&found, 2 << 20, bytes) != 0) exit(1);
    madvise(found, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return found;
}

int main(int count, char **words) {
    size_t bytes = (size_t)(count > 1 ? atol(words[1]) : 384) << 20;
    enum { ROUNDS = 15 };
    double most = 0, least = 1e9;
    size_t len = bytes / 3 / sizeof(double);
    double *a = memory(bytes / 3, 1), *b = memory(bytes / 3, 1), *c = memory(bytes / 3, 1);
    for (size_t i = 0; i < len; i++) a[i] = 0, b[i] = 1, c[i] = 2;
    for (int round = 0; round < ROUNDS; round++) {
        double began = now();
        for (size_t i = 0; i < len; i++) a[i] = b[i] + 3.0 * c[i];
        double rate = 3.0 * (double)len * sizeof(double) / (now() - began);
        if (rate > most) most = rate;
        if (a[(size_t)round] != 7.0) return 1;
    }
    printf("%.0f", most);
    free(a), free(b), free(c);

    /* The working set is the largest power of two within half the memory, as in the program. */
    size_t lines = 64;
    while (lines * 2 * 64 <= bytes / 2) lines *= 2;
    uint64_t *cycle = memory(lines * 64, 0);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < lines; i++) cycle[i * 8] = i * 8;
    for (size_t i = lines - 1; i > 0; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t other = (size_t)(state % i);
        uint64_t kept = cycle[i * 8];
        cycle[i * 8] = cycle[other * 8], cycle[other * 8] = kept;
    }
    uint64_t place = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double began = now();
        for (int step = 0; step < 200000; step++) place = cycle[place];
        double taken = (now() - began) * 1e9 / 200000;
        if (taken < least) least = taken;
    }
    printf(" %.3f%s\n", least, place == 1 ? " " : "");
    return 0;
}
