/*
 * Slots: who gets one, of what size, when it is given up, and what its next owner comes after.
 */
#include "cache/internal.h"
#include "tests/unit/fake_job.h"
#include <check.h>
#include <errno.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

/* slots: granules of one slot at most, 0: a slot for all of a segment. */
static void start_of(uint64_t hbm, uint64_t host, uint64_t slots, uint64_t seed)
{
    struct cache_config config = {
        .frame_size = FAKE_GRANULE, .hbm_limit = hbm, .host_limit = host, .slot_most = slots * FAKE_GRANULE};

    fake_init(&fake, hbm, host, seed);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
}

static void start(uint64_t hbm, uint64_t seed)
{
    start_of(hbm, 4 * MIB, 0, seed);
}

/* What is queued runs, at random. */
static void stop_at_random(void)
{
    fake_run(&fake, 1000);
    ck_assert(fake_drain(&fake));
    ck_assert_uint_eq(fake.mismatches, 0);
    stop();
}

/*
 * Buffers that are written whenever they are used take turns in HBM: no more is pinned than what is out at
 * once, and one to go out before another has come in; but of what is only read the copy is kept.
 */
START_TEST(slots_worth_nothing_are_used_again)
{
    enum { FIT = 8, ALL = 10, ROUNDS = 5 };

    for (unsigned written = 0; written < 2; written++) {
        const struct statistics *statistics;
        uint64_t stream, at[ALL];

        start(FIT * FAKE_GRANULE, 1);
        statistics = cache_statistics(cache);
        stream = fake_stream(&fake);
        for (unsigned i = 0; i < ALL; i++)
            at[i] = allocate(FAKE_GRANULE);
        for (unsigned k = 0; k < ROUNDS * ALL; k++) {
            unsigned i = k % ALL;
            struct cache_touch touch = {at[i], written || k < ALL ? CACHE_READ | CACHE_WRITE : CACHE_READ};
            uint64_t expect = k < ALL ? 0 : written ? k + 1 - ALL : i + 1;
            struct cache_op op;

            ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, &touch, 1), 0);
            forward(&op, stream, at[i], expect, written || k < ALL ? k + 1 : 0);
            ck_assert(fake_drain(&fake));
        }
        ck_assert_uint_eq(fake.mismatches, 0);
        ck_assert_uint_ge(statistics->evictions, (ROUNDS - 1) * ALL);
        if (written) {
            ck_assert_uint_le(statistics->peak_host_bytes, (ALL - FIT + 1) * FAKE_GRANULE);
        } else {
            ck_assert_uint_eq(statistics->bytes_out, ALL * FAKE_GRANULE);
            ck_assert_uint_eq(statistics->peak_host_bytes, ALL * FAKE_GRANULE);
        }
        stop();
    }
}
END_TEST

/*
 * What has a piece of its contents in a slot keeps others from having it: then it gives more pieces of that
 * slot, though it was used last.
 */
START_TEST(who_has_a_slot_gives_more)
{
    struct cache_failure failure;
    struct segment *segment;
    uint64_t stream, a, b, small[3];
    struct need need;

    start(8 * FAKE_GRANULE, 1);
    cache->slots.limit = 4 * FAKE_GRANULE;
    stream = fake_stream(&fake);
    a = allocate(4 * FAKE_GRANULE);
    b = allocate(4 * FAKE_GRANULE);
    for (unsigned i = 0; i < 3; i++)
        small[i] = allocate(FAKE_GRANULE);
    launch(stream, b, 0, 1);
    launch(stream, a, 0, 2);
    ck_assert(fake_drain(&fake));
    segment = segments_find(&cache->segments, a);
    pthread_mutex_lock(&cache->lock);
    policy_order(&cache->policy);
    while (residency_evict(cache, segment, 0, 1, &need, &failure) == -EAGAIN)
        ck_assert_int_eq(cache_satisfy(cache, &need), 0);
    pthread_mutex_unlock(&cache->lock);
    for (unsigned i = 0; i < 3; i++)
        launch(stream, small[i], 0, 3 + i);
    ck_assert_uint_eq(segment->filled_pieces, 1);
    ck_assert_uint_eq(segments_find(&cache->segments, b)->filled_pieces, 4);
    for (unsigned i = 0; i < 3; i++) {
        launch(stream, small[i], 3 + i, 0);
        ck_assert_int_eq(cache_free(cache, small[i], &(struct stream_key){stream, 0}), 0);
    }
    launch(stream, a, 2, 0);
    launch(stream, b, 1, 0);
    ck_assert(fake_drain(&fake));
    ck_assert_uint_eq(fake.mismatches, 0);
    stop();
}
END_TEST

static void evict_pieces(uint64_t address, unsigned first, unsigned count)
{
    struct cache_failure failure;
    struct need need;
    int error;

    pthread_mutex_lock(&cache->lock);
    policy_order(&cache->policy);
    while ((error = residency_evict(cache, segments_find(&cache->segments, address), first, count, &need,
                                    &failure)) == -EAGAIN)
        ck_assert_int_eq(cache_satisfy(cache, &need), 0);
    ck_assert_int_eq(error, 0);
    pthread_mutex_unlock(&cache->lock);
}

/* Of a segment of eight pieces one leaves, then one more next to it, then one elsewhere: two to a slot. */
START_TEST(what_stays_in_hbm_has_no_slot)
{
    static const unsigned leaves[] = {5, 4, 0}, slots[] = {1, 1, 2};
    uint64_t stream, a;

    start_of(8 * FAKE_GRANULE, 4 * MIB, 2, 1);
    stream = fake_stream(&fake);
    a = allocate(8 * FAKE_GRANULE);
    for (unsigned i = 0; i < 8; i++)
        launch(stream, a + i * FAKE_GRANULE, 0, i + 1);
    for (unsigned i = 0; i < 3; i++) {
        evict_pieces(a, leaves[i], 1);
        ck_assert_uint_eq(fake.host_used, slots[i] * 2 * FAKE_GRANULE);
    }
    for (unsigned i = 0; i < 8; i++)
        launch(stream, a + i * FAKE_GRANULE, i + 1, 0);
    ck_assert_uint_eq(cache_statistics(cache)->bytes_in, 3 * FAKE_GRANULE);
    stop();
}
END_TEST

/* Two arrays of 6 in 8 of HBM: 4 of each are out in turns, and 8 are enough for that, which are not for all.
 */
START_TEST(spilled_bytes_are_what_has_to_fit)
{
    uint64_t stream, at[2];

    start_of(8 * FAKE_GRANULE, 8 * FAKE_GRANULE, 2, 1);
    stream = fake_stream(&fake);
    for (unsigned i = 0; i < 2; i++)
        at[i] = allocate(6 * FAKE_GRANULE);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < 6; k++)
            launch(stream, at[i] + k * FAKE_GRANULE, 0, 1 + 6 * i + k);
    for (unsigned i = 0; i < 6; i++)
        for (unsigned k = 0; k < 6; k++)
            launch(stream, at[i % 2] + k * FAKE_GRANULE, 1 + 6 * (i % 2) + k, 0);
    ck_assert_uint_eq(cache_statistics(cache)->peak_host_bytes, 8 * FAKE_GRANULE);
    ck_assert_uint_ge(cache_statistics(cache)->bytes_in, 6 * 4 * FAKE_GRANULE);
    stop();
}
END_TEST

/*
 * A copy into what was never in HBM and does not fit there: no part of it gets a slot where not all do, nor
 * are its own taken for slots that are kept for their mappings (1). Others find the room.
 */
START_TEST(slots_for_a_part_are_no_use)
{
    static unsigned char data[6 * FAKE_GRANULE];
    uint64_t stream, a, b, c;
    bool in_slot;

    start_of(4 * FAKE_GRANULE, 4 * FAKE_GRANULE, 2, 1);
    fake.no_handles = true;
    stream = fake_stream(&fake);
    a = allocate(4 * FAKE_GRANULE);
    b = allocate(6 * FAKE_GRANULE);
    c = allocate(4 * FAKE_GRANULE);
    launch(stream, a, 0, 1);
    cache_statistics(cache)->link_mappings += (unsigned)_i;
    ck_assert_int_eq(
        fake_cache_copy(&fake, cache, stream, b, (uint64_t)(uintptr_t)data, sizeof data, &in_slot), -ENOMEM);
    fake_cache_audit(&fake, cache);
    ck_assert_uint_eq(cache->slots.used, 0);
    launch(stream, c, 0, 2);
    ck_assert(fake_drain(&fake));
    ck_assert_int_eq(cache_free(cache, c, &(struct stream_key){stream, 0}), 0);
    launch(stream, a, 1, 0);
    stop();
}
END_TEST

/*
 * The host tier is full of slots of what is in HBM and clean; one of them is given up for another's, and what
 * was in that is copied out again, the rest of its segment not.
 */
START_TEST(parts_are_no_longer_clean)
{
    const struct statistics *statistics;
    uint64_t stream, a, b, out;
    struct cache_op op;

    start_of(6 * FAKE_GRANULE, 4 * FAKE_GRANULE, 2, 1);
    statistics = cache_statistics(cache);
    stream = fake_stream(&fake);
    a = allocate(4 * FAKE_GRANULE);
    b = allocate(2 * FAKE_GRANULE);
    for (unsigned i = 0; i < 4; i++)
        launch(stream, a + i * FAKE_GRANULE, 0, i + 1);
    ck_assert_uint_eq(cache_release(cache, 6 * FAKE_GRANULE), 4 * FAKE_GRANULE);
    for (unsigned i = 0; i < 4; i++) { /* back, and clean from now on */
        struct cache_touch touch = {a + i * FAKE_GRANULE, CACHE_READ};

        ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, &touch, 1), 0);
        forward(&op, stream, a + i * FAKE_GRANULE, i + 1, 0);
    }
    ck_assert_uint_eq(cache->slots.used, 4 * FAKE_GRANULE);
    out = statistics->bytes_out;
    launch(stream, b, 0, 5);
    ck_assert(fake_drain(&fake));
    evict_pieces(b, 0, 2);
    ck_assert_uint_eq(statistics->bytes_out - out, 2 * FAKE_GRANULE);
    ck_assert_int_eq(cache_free(cache, b, &(struct stream_key){stream, 0}), 0);
    evict_pieces(a, 0, 4);
    ck_assert_uint_eq(statistics->bytes_out - out, 4 * FAKE_GRANULE);
    for (unsigned i = 0; i < 4; i++)
        launch(stream, a + i * FAKE_GRANULE, i + 1, 0);
    stop();
}
END_TEST

/*
 * Data that goes to the slot of memory that is freed has still to come there when the slot is used again;
 * with one slot, and with several.
 */
START_TEST(slot_with_a_copy_of_its_last_owner_to_come)
{
    static unsigned char data[640 * KIB];

    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t one, two, a, b, c, dst, src = (uint64_t)(uintptr_t)data;
        bool in_slot;

        start_of(1 * MIB, 4 * MIB, 2 * (uint64_t)_i, seed);
        one = fake_stream(&fake);
        two = fake_stream(&fake);
        a = allocate(640 * KIB);
        b = dst = allocate(640 * KIB);
        launch(one, a, 0, 7);
        ck_assert_int_eq(fake_cache_copy(&fake, cache, two, dst, src, 640 * KIB, &in_slot), 0);
        ck_assert(in_slot);
        ck_assert_int_eq(cache_free(cache, b, &(struct stream_key){two, 0}), 0);
        c = allocate(1 * MIB);
        launch(one, c, 0, 8); /* a leaves for the slot */
        launch(one, a, 7, 0);
        stop_at_random();
    }
}
END_TEST

/* And what is brought in for the last operation of freed memory has still to be read when the slot is. */
START_TEST(slot_that_is_still_to_be_read_for_its_last_owner)
{
    static unsigned char data[640 * KIB];

    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t one, two, a, c, dst, src = (uint64_t)(uintptr_t)data;
        bool in_slot;

        start_of(1 * MIB, 4 * MIB, 2 * (uint64_t)_i, seed);
        one = fake_stream(&fake);
        two = fake_stream(&fake);
        a = allocate(640 * KIB);
        dst = allocate(640 * KIB);
        c = allocate(1 * MIB);
        launch(one, a, 0, 7);
        launch(one, c, 0, 8);
        launch(one, a, 7, 0);
        ck_assert_int_eq(cache_free(cache, a, &(struct stream_key){one, 0}), 0);
        launch(one, c, 8, 0);
        ck_assert_int_eq(fake_cache_copy(&fake, cache, two, dst, src, 640 * KIB, &in_slot), 0);
        ck_assert(in_slot);
        stop_at_random();
    }
}
END_TEST

/* The same of two last owners, whose data comes in one after the other; a copy over both slots comes after
 * both. */
START_TEST(slots_that_are_still_to_be_read_for_several_owners)
{
    static unsigned char data[4 * FAKE_GRANULE];

    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t one, two, a, b, c, dst;
        bool in_slot;

        start_of(8 * FAKE_GRANULE, 4 * MIB, 2, seed);
        one = fake_stream(&fake);
        two = fake_stream(&fake);
        a = allocate(2 * FAKE_GRANULE);
        b = allocate(2 * FAKE_GRANULE);
        c = allocate(8 * FAKE_GRANULE);
        dst = allocate(4 * FAKE_GRANULE);
        launch(one, a, 0, 7);
        launch(one, b, 0, 9);
        launch(one, c, 0, 8);
        launch(one, a, 7, 0);
        launch(one, b, 9, 0);
        ck_assert_int_eq(cache_free(cache, _i ? a : b, &(struct stream_key){one, 0}), 0);
        ck_assert_int_eq(cache_free(cache, _i ? b : a, &(struct stream_key){one, 0}), 0);
        launch(one, c, 8, 0);
        ck_assert_int_eq(
            fake_cache_copy(&fake, cache, two, dst, (uint64_t)(uintptr_t)data, sizeof data, &in_slot), 0);
        ck_assert(in_slot);
        stop_at_random();
    }
}
END_TEST

/* Where the host tier has room for a part of what is to leave, that leaves, and the rest stays and is right.
 */
START_TEST(what_has_room_leaves)
{
    struct cache_failure failure;
    struct segment *segment;
    struct need need;
    uint64_t stream, a;

    start_of(8 * FAKE_GRANULE, 3 * FAKE_GRANULE, 2, 1);
    stream = fake_stream(&fake);
    a = allocate(6 * FAKE_GRANULE);
    for (unsigned i = 0; i < 6; i++)
        launch(stream, a + i * FAKE_GRANULE, 0, i + 1);
    evict_pieces(a, 1, 5);
    segment = segments_find(&cache->segments, a);
    ck_assert_uint_eq(segment->filled_pieces, 5); /* of the first slot the second piece */
    ck_assert_uint_eq(cache_statistics(cache)->evictions, 1);
    pthread_mutex_lock(&cache->lock);
    ck_assert_int_eq(residency_evict(cache, segment, 2, 4, &need, &failure), -ENOMEM);
    pthread_mutex_unlock(&cache->lock);
    ck_assert_int_eq(failure.tier, CACHE_TIER_HOST);
    for (unsigned i = 0; i < 6; i++)
        launch(stream, a + i * FAKE_GRANULE, i + 1, 0);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slots");
    TCase *tests = tcase_create("slots");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, slots_worth_nothing_are_used_again);
    tcase_add_test(tests, who_has_a_slot_gives_more);
    tcase_add_test(tests, what_stays_in_hbm_has_no_slot);
    tcase_add_test(tests, spilled_bytes_are_what_has_to_fit);
    tcase_add_loop_test(tests, slots_for_a_part_are_no_use, 0, 2);
    tcase_add_test(tests, parts_are_no_longer_clean);
    tcase_add_loop_test(tests, slot_with_a_copy_of_its_last_owner_to_come, 0, 3);
    tcase_add_loop_test(tests, slot_that_is_still_to_be_read_for_its_last_owner, 0, 3);
    tcase_add_loop_test(tests, slots_that_are_still_to_be_read_for_several_owners, 0, 2);
    tcase_add_test(tests, what_has_room_leaves);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
