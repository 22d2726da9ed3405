/*
 * bench_clock.h - medians of real time: samples in nanoseconds, and what reading the clock costs by itself.
 */
#ifndef HBMSPILL_TESTS_BENCH_CLOCK_H
#define HBMSPILL_TESTS_BENCH_CLOCK_H

#include <stdlib.h>
#include <time.h>

enum { SAMPLES = 40001 };

static double samples[SAMPLES];

static inline double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static inline double median(void)
{
    qsort(samples, SAMPLES, sizeof *samples, by_value);
    return samples[SAMPLES / 2];
}

static inline double clock_cost(void)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        double begin = now();

        samples[i] = now() - begin;
    }
    return median();
}

#endif
