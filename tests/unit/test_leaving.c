/*
 * Strict: what leaves HBM is unmapped when its copy out is through, so its eviction is waited for in the
 * middle. Who waits looks for room anew afterwards; whatever is found then, evictions that were begun are
 * ended: nothing is copied out again and again, each time to no avail.
 */
#include "cache/internal.h"
#include "cache/segment.h"
#include "tests/unit/fake_cache.h"
#include <check.h>
#include <errno.h>

static struct fake_device fake;
static struct cache *cache;
static uint64_t stream;

static void start(uint64_t frames, uint64_t slots)
{
    struct cache_config config = {.frame_size = FAKE_GRANULE,
                                  .hbm_limit = frames * FAKE_GRANULE,
                                  .host_limit = slots * FAKE_GRANULE,
                                  .strict = true};

    fake_init(&fake, frames * FAKE_GRANULE, slots * FAKE_GRANULE, 1);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    stream = fake_stream(&fake);
}

static uint64_t allocate(uint64_t frames)
{
    struct cache_failure failure;
    uint64_t address;

    ck_assert_int_eq(cache_alloc(cache, frames * FAKE_GRANULE, &address, &failure), 0);
    return address;
}

static int launch(uint64_t address, uint64_t expect, uint64_t value)
{
    struct fake_op kernel = {
        .count = 1, .buffers = {address}, .bytes = {FAKE_GRANULE}, .expect = {expect}, .value = {value}};
    struct cache_touch touch = {address, CACHE_READ | CACHE_WRITE};
    struct cache_op op;
    int error = cache_op_begin(cache, &op, (struct stream_key){stream, 0}, &touch, 1);

    if (error)
        return error;
    fake_kernel(&fake, stream, &kernel);
    cache_op_end(cache, &op, true);
    return 0;
}

static struct segment *segment_of(uint64_t address)
{
    return segments_find(&cache->segments, address);
}

/* What evicting both its pieces comes to, once there is a slot or none is to be had. */
static int evict(uint64_t address, struct need *need)
{
    struct cache_failure failure;
    int error;

    pthread_mutex_lock(&cache->lock);
    while ((error = residency_evict(cache, segment_of(address), 0, 2, need, &failure)) == -EAGAIN &&
           need->kind == NEED_SLOT)
        ck_assert_int_eq(cache_satisfy(cache, need), 0);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

static void evict_half(uint64_t address)
{
    struct need need;

    ck_assert_int_eq(evict(address, &need), -EAGAIN);
    ck_assert_int_eq(need.kind, NEED_EVENT);
}

/*
 * A newcomer's home is taken by one for whom the host tier has no room. Trying must not cost the other his
 * slot, who can leave and is about to.
 */
START_TEST(no_slot_is_given_up_in_vain)
{
    const struct statistics *statistics;
    struct frame *home[1];
    uint64_t small, large, newcomer;

    start(5, 2);
    statistics = cache_statistics(cache);
    small = allocate(2);
    large = allocate(3);
    newcomer = allocate(1);
    ck_assert_int_eq(launch(small, 0, 1), 0);
    ck_assert_int_eq(launch(large, 0, 2), 0);
    home[0] = segment_of(large)->piece[2].frame;
    segment_of(newcomer)->home = home;
    cache->settled_at = UINT64_MAX;
    ck_assert_int_eq(launch(newcomer, 0, 3), 0);
    ck_assert_uint_le(statistics->bytes_out, 2 * FAKE_GRANULE);
    ck_assert_uint_eq(statistics->evictions, 1);
    segment_of(newcomer)->home = NULL;
    fake_cache_stop(&fake, cache);
}
END_TEST

/* Two find room in turns, one at either's. The slot of who is half-way out is not the other's to take, */
START_TEST(what_is_leaving_keeps_its_slot)
{
    struct need need;
    uint64_t one, other;

    start(4, 2);
    one = allocate(2);
    other = allocate(2);
    ck_assert_int_eq(launch(one, 0, 1), 0);
    ck_assert_int_eq(launch(other, 0, 2), 0);
    evict_half(one);
    ck_assert_int_eq(evict(other, &need), -ENOMEM);
    ck_assert_ptr_nonnull(segment_slot(segment_of(one), 0));
    fake_cache_stop(&fake, cache);
}
END_TEST

/* and he is who leaves next, whomever the policy has in mind by now, */
START_TEST(what_is_leaving_leaves_first)
{
    const struct statistics *statistics;
    uint64_t one, other, newcomer;

    start(4, 4);
    statistics = cache_statistics(cache);
    one = allocate(2);
    other = allocate(2);
    newcomer = allocate(1);
    ck_assert_int_eq(launch(one, 0, 1), 0);
    ck_assert_int_eq(launch(other, 0, 2), 0); /* one would be first */
    evict_half(other);
    ck_assert_int_eq(launch(newcomer, 0, 3), 0);
    ck_assert_uint_eq(statistics->evictions, 1);
    ck_assert_uint_eq(statistics->bytes_out, 2 * FAKE_GRANULE);
    ck_assert_int_eq(launch(one, 1, 0), 0);
    ck_assert_uint_eq(statistics->fills, 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

/* unless he was used again meanwhile: then he is like any other. */
START_TEST(what_was_used_again_is_not_leaving)
{
    uint64_t one, other;

    start(4, 2);
    one = allocate(2);
    other = allocate(2);
    ck_assert_int_eq(launch(one, 0, 1), 0);
    ck_assert_int_eq(launch(other, 0, 2), 0);
    evict_half(one);
    ck_assert_int_eq(launch(one, 1, 3), 0);
    evict_half(other);
    ck_assert_ptr_null(segment_slot(segment_of(one), 0));
    ck_assert_int_eq(launch(other, 2, 0), 0);
    ck_assert_int_eq(launch(one, 3, 0), 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("leaving");
    TCase *tests = tcase_create("leaving");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, no_slot_is_given_up_in_vain);
    tcase_add_test(tests, what_is_leaving_keeps_its_slot);
    tcase_add_test(tests, what_is_leaving_leaves_first);
    tcase_add_test(tests, what_was_used_again_is_not_leaving);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
