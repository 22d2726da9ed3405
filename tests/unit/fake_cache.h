/*
 * fake_cache.h - what tests of a cache on a fake device have in common: a copy of the job's, as the hooks do
 * it; and the end, where all that was queued runs, the cache holds what the device has given it and its
 * records agree, it is destroyed, nothing is left, and nothing was touched or read that should not have been.
 */
#ifndef HBMSPILL_TESTS_FAKE_CACHE_H
#define HBMSPILL_TESTS_FAKE_CACHE_H

#include "cache/audit.h"
#include "tests/unit/fake_device.h"
#include <check.h>

/* Between begin and end: queues the copy, in its parts. *queued: one of them was. */
static inline int fake_cache_queue(struct fake_device *fake, struct cache *cache, const struct cache_op *op,
                                   uint64_t stream, uint64_t dst, uint64_t src, uint64_t size, bool *queued)
{
    int error = 0;

    *queued = false;
    for (uint64_t done = 0, part; done < size && !error; done += part) {
        uint64_t to = dst + done, from = src + done;

        part = size - done;
        error = cache_copy_part(cache, op, &to, &from, &part);
        if (!error)
            error = fake->ops.copy(fake, stream, to, from, part);
        *queued |= !error;
    }
    return error;
}

/* A copy of the job's; *in_slot as of cache_copy_begin. */
static inline int fake_cache_copy(struct fake_device *fake, struct cache *cache, uint64_t stream,
                                  uint64_t dst, uint64_t src, uint64_t size, bool *in_slot)
{
    struct cache_op op;
    bool queued;
    int error = cache_copy_begin(cache, &op, (struct stream_key){stream, 0}, dst, src, size, in_slot);

    if (error)
        return error;
    error = fake_cache_queue(fake, cache, &op, stream, dst, src, size, &queued);
    cache_op_end(cache, &op, queued);
    return error;
}

/* Nothing is lost, and the cache knows where everything is. No operation may be under way. */
static inline void fake_cache_audit(struct fake_device *fake, struct cache *cache)
{
    struct cache_audit audit;

    cache_audit(cache, &audit);
    ck_assert_msg(audit.wrong == 0, "%s", audit.first_wrong);
    ck_assert_uint_eq(audit.unended, 0);
    ck_assert_uint_eq(audit.held.frames, fake->frames_live);
    ck_assert_uint_eq(audit.held.host_handles, fake->handles_live);
    ck_assert_uint_eq(audit.held.mappings, fake->mapping_count + fake->handles_live);
    ck_assert_uint_eq(audit.held.reservations, fake->reserved + fake->blocks_live);
    ck_assert_uint_eq(audit.held.slots, fake->slots_live);
    ck_assert_uint_eq(audit.held.streams, fake->streams_live);
    ck_assert_uint_eq(audit.held.events, fake->events_live);
}

static inline void fake_cache_stop(struct fake_device *fake, struct cache *cache)
{
    ck_assert(fake_drain(fake));
    fake_cache_audit(fake, cache);
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
