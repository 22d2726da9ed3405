/*
 * fake_cache.h - the end of a test of a cache on a fake device: all that was queued runs, the cache is
 * destroyed, nothing is left, and nothing was touched or read that should not have been.
 */
#ifndef HBMSPILL_TESTS_FAKE_CACHE_H
#define HBMSPILL_TESTS_FAKE_CACHE_H

#include "cache/cache.h"
#include "tests/unit/fake_device.h"
#include <check.h>

static inline void fake_cache_stop(struct fake_device *fake, struct cache *cache)
{
    ck_assert(fake_drain(fake));
    cache_destroy(cache);
    ck_assert_uint_eq(fake->frames_live, 0);
    ck_assert_uint_eq(fake->hbm_used, 0);
    ck_assert_uint_eq(fake->host_used, 0);
    ck_assert_uint_eq(fake->events_live, 0);
    ck_assert_uint_eq(fake->reserved, 0);
    ck_assert_uint_eq(fake->mapping_count, 0);
    ck_assert_uint_eq(fake->faults, 0);
    ck_assert_uint_eq(fake->mismatches, 0);
    fake_fini(fake);
}

#endif
