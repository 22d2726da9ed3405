/*
 * bench_hook.c - what the cache costs an operation with nothing to move: begin and end, by the number of
 * allocations it names, with 100,000 of them alive on a fake device.
 *
 * Prints a line for each number: the median in nanoseconds, of real time, the time to read the clock taken
 * off. What an operation names is drawn at random, among all allocations (records as cold as can be) and
 * among as many as a round of a job uses. Sixteen allocations share a frame.
 */
#include "cache/cache.h"
#include "tests/bench_clock.h"
#include "tests/unit/fake_device.h"
#include <stdio.h>
#include <stdlib.h>

enum { ALLOCATIONS = 100000, ROUND = 1000, MOST = 16, SIZE = 4096 };

static uint64_t addresses[ALLOCATIONS];

/* The median over operations that name `count' of the first `among' allocations; negative where one failed.
 */
static double measure(struct fake_device *fake, struct cache *cache, uint64_t stream, unsigned count,
                      unsigned among)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct cache_touch touches[MOST] = {{0}};
        struct cache_op op;
        double begin;

        for (unsigned k = 0; k < count; k++)
            touches[k] =
                (struct cache_touch){addresses[fake_random(fake) % among] + 256, CACHE_READ | CACHE_WRITE};
        begin = now();
        if (cache_op_begin(cache, &op, (struct stream_key){stream, 0}, touches, count))
            return -1;
        cache_op_end(cache, &op, true);
        samples[i] = now() - begin;
    }
    return median();
}

int main(void)
{
    struct fake_device fake;
    struct cache_config config = {.frame_size = FAKE_GRANULE,
                                  .hbm_limit = UINT64_C(1) << 30,
                                  .host_limit = UINT64_C(1) << 30,
                                  .policy = CACHE_POLICY_NEXTUSE,
                                  .prefetch = true};
    struct cache_failure failure;
    struct cache *cache;
    uint64_t stream;
    double clock, took;

    fake_init(&fake, config.hbm_limit, config.host_limit, 1);
    if (cache_create(&fake.ops, &config, &cache))
        return 1;
    stream = fake_stream(&fake);
    for (unsigned i = 0; i < ALLOCATIONS; i++) {
        struct cache_op op;
        struct cache_touch touch = {0, CACHE_WRITE};

        if (cache_alloc(cache, SIZE, &addresses[i], &failure))
            return 1;
        touch.address = addresses[i];
        if (cache_op_begin(cache, &op, (struct stream_key){stream, 0}, &touch, 1))
            return 1;
        cache_op_end(cache, &op, true);
    }
    clock = clock_cost();
    for (unsigned count = 0; count <= MOST; count = count ? 2 * count : 1) {
        for (unsigned i = 0; i < 2; i++) {
            took = measure(&fake, cache, stream, count, i ? ALLOCATIONS : ROUND);
            if (took < 0)
                return 1;
            printf("cache %s %u %.0f\n", i ? "all" : "round", count, took - clock);
        }
    }
    if (cache_statistics(cache)->evictions || cache_statistics(cache)->fills) {
        fprintf(stderr, "bench_hook: something moved, so this is not what was to be measured\n");
        return 1;
    }
    fake_drain(&fake);
    cache_destroy(cache);
    fake_fini(&fake);
    return 0;
}
