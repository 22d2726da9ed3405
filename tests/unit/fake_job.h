/*
 * fake_job.h - a job of one cache on a fake device, for programs that have one at a time: what it allocates
 * and launches. Kernels touch one buffer and look at its first granule.
 */
#ifndef HBMSPILL_TESTS_FAKE_JOB_H
#define HBMSPILL_TESTS_FAKE_JOB_H

#include "tests/unit/fake_cache.h"

static struct fake_device fake;
static struct cache *cache;

static inline void stop(void)
{
    fake_cache_stop(&fake, cache);
}

static inline uint64_t allocate(uint64_t size)
{
    struct cache_failure failure;
    uint64_t address;

    ck_assert_int_eq(cache_alloc(cache, size, &address, &failure), 0);
    return address;
}

static inline int begin(struct cache_op *op, uint64_t stream, uint64_t address)
{
    struct cache_touch touch = {address, CACHE_READ | CACHE_WRITE};

    return cache_op_begin(cache, op, (struct stream_key){stream, 0}, &touch, 1);
}

/* A kernel that finds `expect' (0: does not look) and leaves `value' (0: leaves it). */
static inline void forward(struct cache_op *op, uint64_t stream, uint64_t address, uint64_t expect,
                           uint64_t value)
{
    struct fake_op kernel = {
        .count = 1, .buffers = {address}, .bytes = {FAKE_GRANULE}, .expect = {expect}, .value = {value}};

    fake_kernel(&fake, stream, &kernel);
    cache_op_end(cache, op, true);
}

static inline void launch(uint64_t stream, uint64_t address, uint64_t expect, uint64_t value)
{
    struct cache_op op;

    ck_assert_int_eq(begin(&op, stream, address), 0);
    forward(&op, stream, address, expect, value);
}

#endif
