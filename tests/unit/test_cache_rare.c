/*
 * The cache where few jobs get it: at its limits and when driver calls fail.
 */
#include "cache/internal.h"
#include "tests/unit/fake_job.h"
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

static void start(uint64_t hbm, uint64_t seed)
{
    struct cache_config config = {.frame_size = FAKE_GRANULE, .hbm_limit = hbm, .host_limit = 4 * MIB};

    fake_init(&fake, hbm, 4 * MIB, seed);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
}

/* The first to leave are those used least recently, though nobody was told so while all fitted. */
START_TEST(order_of_use_is_known_when_memory_becomes_short)
{
    enum { FIT = 4 };
    static const unsigned used[] = {2, 0, 3, 1, 0, 3}; /* last uses: 2, 1, 0, 3 */
    const struct statistics *statistics;
    uint64_t stream, at[FIT + 2];

    start(FIT * FAKE_GRANULE, 1);
    statistics = cache_statistics(cache);
    stream = fake_stream(&fake);
    for (unsigned i = 0; i < FIT + 2; i++)
        at[i] = allocate(FAKE_GRANULE);
    for (unsigned i = 0; i < FIT; i++)
        launch(stream, at[i], 0, i + 1);
    for (unsigned i = 0; i < sizeof used / sizeof *used; i++)
        launch(stream, at[used[i]], used[i] + 1, 0);
    ck_assert_uint_eq(statistics->evictions, 0);
    launch(stream, at[FIT], 0, FIT + 1);
    launch(stream, at[FIT + 1], 0, FIT + 2);
    ck_assert_uint_eq(statistics->evictions, 2);
    launch(stream, at[0], 1, 0); /* neither of these left */
    launch(stream, at[3], 4, 0);
    ck_assert_uint_eq(statistics->fills, 0);
    launch(stream, at[2], 3, 0);
    launch(stream, at[1], 2, 0);
    ck_assert_uint_eq(statistics->fills, 2);
    stop();
}
END_TEST

/* What was used in one stream, then in another, is used in both. */
START_TEST(uses_in_several_streams_all_count)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        uint64_t stream[3], a, b;

        start(FAKE_GRANULE, seed);
        for (unsigned i = 0; i < 3; i++)
            stream[i] = fake_stream(&fake);
        a = allocate(FAKE_GRANULE);
        b = allocate(FAKE_GRANULE);
        launch(stream[0], a, 0, 7);
        ck_assert(fake_drain(&fake));
        for (unsigned i = 0; i < 2 * 3; i++)
            launch(stream[i % 3], a, 7, 0);
        launch(stream[0], b, 0, 8); /* has the frame after all six */
        launch(stream[1], a, 7, 0);
        fake_run(&fake, UINT_MAX); /* in an order of chance */
        stop();
    }
}
END_TEST

/* While an operation is being submitted in one stream, others come and go. */
START_TEST(streams_change_during_an_operation)
{
    enum { OTHERS = EDGES_STREAMS - 2 }; /* one more than there is room for beside `late' */
    uint64_t late, stream[OTHERS], at, other;
    struct cache_op op;

    start(4 * MIB, 1);
    for (unsigned i = 0; i < OTHERS; i++)
        stream[i] = fake_stream(&fake);
    late = fake_stream(&fake); /* the last to run where nothing orders it */
    at = allocate(FAKE_GRANULE);
    other = allocate(FAKE_GRANULE);
    ck_assert_int_eq(begin(&op, late, at), 0);
    for (unsigned i = 0; i < OTHERS; i++) {
        launch(stream[i], other, 0, i + 1);
        ck_assert(fake_drain(&fake));
    }
    forward(&op, late, at, 0, 5);
    /* The next owner of the memory comes after it. */
    ck_assert_int_eq(cache_free(cache, at, NULL), 0);
    ck_assert_uint_eq(allocate(FAKE_GRANULE), at);
    launch(stream[OTHERS - 1], at, 5, 6);
    launch(stream[OTHERS - 1], at, 6, 0);
    stop();
}
END_TEST

enum { HOLDERS = EDGES_STREAMS - 2 };

static atomic_bool done;

static void *launch_in_one_more(void *stream)
{
    launch(*(uint64_t *)stream, allocate(FAKE_GRANULE), 0, 1);
    atomic_store(&done, true);
    return NULL;
}

/* As many operations at once as streams can be known: one more waits for the first that ends. */
START_TEST(all_streams_in_use)
{
    uint64_t stream[HOLDERS], more, at[HOLDERS];
    struct cache_op op[HOLDERS];
    pthread_t thread;

    start(4 * MIB, 1);
    for (unsigned i = 0; i < HOLDERS; i++) {
        stream[i] = fake_stream(&fake);
        at[i] = allocate(FAKE_GRANULE);
        ck_assert_int_eq(begin(&op[i], stream[i], at[i]), 0);
    }
    more = fake_stream(&fake);
    ck_assert_int_eq(pthread_create(&thread, NULL, launch_in_one_more, &more), 0);
    usleep(20000);
    ck_assert(!atomic_load(&done));
    for (unsigned i = 0; i < HOLDERS; i++)
        forward(&op[i], stream[i], at[i], 0, i + 1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (unsigned i = 0; i < HOLDERS; i++)
        launch(stream[i], at[i], i + 1, 0);
    stop();
}
END_TEST

/* Fixed for life, and no longer. */
START_TEST(freed_memory_is_not_fixed)
{
    struct cache_failure failure;
    uint64_t stream, fixed, after;

    start(1 * MIB, 1);
    stream = fake_stream(&fake);
    fixed = allocate(640 * KIB);
    launch(stream, fixed, 0, 3);
    ck_assert_int_eq(cache_fix(cache, fixed, &failure), 0);
    ck_assert_int_eq(cache_free(cache, fixed, &(struct stream_key){stream, 0}), 0);
    after = allocate(900 * KIB);
    launch(stream, after, 0, 4);
    launch(stream, after, 4, 0);
    stop();
}
END_TEST

static int (*real_map)(void *, uint64_t, uint64_t, uint64_t);
static unsigned maps_left;

static int map_so_often(void *ctx, uint64_t address, uint64_t size, uint64_t handle)
{
    if (!maps_left)
        return -ENOMEM;
    maps_left--;
    return real_map(ctx, address, size, handle);
}

/* Whatever ran out of memory, the failure has the tiers as they are. */
START_TEST(failures_are_explained)
{
    struct cache_failure failure;
    uint64_t stream, at;
    struct cache_op op;

    start(1 * MIB, 1);
    fake.no_handles = true;
    stream = fake_stream(&fake);
    at = allocate(640 * KIB);
    launch(stream, allocate(FAKE_GRANULE), 0, 1);
    memset(&op, 0xaa, sizeof op);
    memset(&failure, 0xaa, sizeof failure);
    real_map = fake.ops.map;
    maps_left = 1; /* one piece */
    fake.ops.map = map_so_often;
    ck_assert_int_eq(_i ? cache_fix(cache, at, &failure) : begin(&op, stream, at), -ENOMEM);
    fake.ops.map = real_map;
    if (!_i)
        failure = op.failure;
    ck_assert_int_eq(failure.tier, CACHE_TIER_HBM);
    ck_assert_uint_eq(failure.hbm_limit, 1 * MIB);
    ck_assert_uint_eq(failure.host_limit, 4 * MIB);
    launch(stream, at, 0, 2);
    stop();
}
END_TEST

static bool answered_inside;

static int map_and_ask(void *ctx, uint64_t address, uint64_t size, uint64_t handle)
{
    answered_inside |= cache_answers(cache, 1);
    return real_map(ctx, address, size, handle);
}

/* In the middle of an operation its lock is held, and after it no longer. */
START_TEST(a_lock_that_is_held_is_noticed)
{
    uint64_t stream;

    start(1 * MIB, 1);
    stream = fake_stream(&fake);
    ck_assert(cache_answers(cache, 1));
    real_map = fake.ops.map;
    fake.ops.map = map_and_ask;
    launch(stream, allocate(640 * KIB), 0, 1);
    fake.ops.map = real_map;
    ck_assert(!answered_inside);
    ck_assert(cache_answers(cache, 1));
    stop();
}
END_TEST

/* A new owner comes after the uses of the old one, and after its free where the job ordered that itself. */
START_TEST(reuse_comes_after_uses_and_free)
{
    uint64_t used, freed, reused, a;

    start(4 * MIB, 1);
    used = fake_stream(&fake);
    freed = fake_stream(&fake);
    reused = fake_stream(&fake);
    a = allocate(640 * KIB);
    launch(freed, allocate(FAKE_GRANULE), 0, 1);
    launch(used, a, 0, 7);
    ck_assert_int_eq(cache_free(cache, a, &(struct stream_key){freed, 0}), 0);
    ck_assert_uint_eq(allocate(640 * KIB), a);
    launch(reused, a, 0, 8);
    ck_assert_uint_eq(cache_statistics(cache)->stream_waits, 2);
    ck_assert_int_eq(cache_free(cache, a, NULL), 0);
    ck_assert_uint_eq(allocate(640 * KIB), a);
    launch(used, a, 0, 9);
    ck_assert_uint_eq(cache_statistics(cache)->stream_waits, 4); /* for `freed' and `reused' */
    stop();
}
END_TEST

/* A kernel of the stream; whether it may start before the one ahead of it has ended. */
static bool may_start_early(uint64_t stream, uint64_t address)
{
    struct cache_op op;
    bool early;

    ck_assert_int_eq(begin(&op, stream, address), 0);
    early = !op.handed_over;
    cache_op_end(cache, &op, true);
    return early;
}

START_TEST(early_start_behind_a_wait)
{
    uint64_t one, two, a;

    start(4 * MIB, 1);
    one = fake_stream(&fake);
    two = fake_stream(&fake);
    a = allocate(640 * KIB);
    ck_assert(may_start_early(one, a));
    ck_assert_int_eq(cache_free(cache, a, &(struct stream_key){one, 0}), 0);
    ck_assert_uint_eq(allocate(640 * KIB), a);
    ck_assert(!may_start_early(two, a));
    ck_assert(may_start_early(two, a));
    stop();
}
END_TEST

START_TEST(early_start_in_memory_that_had_another_owner)
{
    uint64_t stream, a, b;

    start(4 * MIB, 1);
    stream = fake_stream(&fake);
    a = allocate(640 * KIB);
    b = allocate(640 * KIB);
    ck_assert(may_start_early(stream, a));
    ck_assert(may_start_early(stream, b));
    ck_assert_int_eq(cache_free(cache, a, &(struct stream_key){stream, 0}), 0);
    ck_assert_int_eq(cache_free(cache, b, &(struct stream_key){stream, 0}), 0);
    a = allocate(640 * KIB);
    b = allocate(640 * KIB);
    ck_assert(!may_start_early(stream, a));
    ck_assert(may_start_early(stream, b)); /* the one before came after all of that */
    ck_assert(may_start_early(stream, a));
    stop();
}
END_TEST

/* Frames that change hands without a copy, within one stream. */
START_TEST(early_start_in_frames_that_had_another_owner)
{
    uint64_t stream, a, b;

    start(1 * MIB, 1);
    stream = fake_stream(&fake);
    a = allocate(640 * KIB);
    ck_assert(may_start_early(stream, a));
    ck_assert_int_eq(cache_free(cache, a, &(struct stream_key){stream, 0}), 0);
    b = allocate(900 * KIB);
    ck_assert(!may_start_early(stream, b));
    ck_assert(may_start_early(stream, b));
    stop();
}
END_TEST

/* Of two that lie in one segment one is used in another stream first: that says nothing of this stream. */
START_TEST(early_start_beside_another_allocation)
{
    enum { ITEMS = 8 };
    uint64_t one, two, item[ITEMS], a, b;

    start(4 * MIB, 1);
    one = fake_stream(&fake);
    two = fake_stream(&fake);
    for (unsigned i = 0; i < ITEMS; i++)
        item[i] = allocate(20 * KIB);
    a = item[ITEMS - 2];
    b = item[ITEMS - 1];
    ck_assert_uint_eq(b - a, 20 * KIB);
    ck_assert(may_start_early(one, b));
    ck_assert_int_eq(cache_free(cache, b, &(struct stream_key){one, 0}), 0);
    ck_assert_uint_eq(allocate(20 * KIB), b);
    ck_assert(!may_start_early(two, a));
    ck_assert(!may_start_early(one, b));
    ck_assert(may_start_early(one, b));
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache, rarely");
    TCase *rare = tcase_create("rare");
    SRunner *runner;
    int failed;

    tcase_add_test(rare, order_of_use_is_known_when_memory_becomes_short);
    tcase_add_test(rare, uses_in_several_streams_all_count);
    tcase_add_test(rare, streams_change_during_an_operation);
    tcase_add_test(rare, all_streams_in_use);
    tcase_add_test(rare, freed_memory_is_not_fixed);
    tcase_add_test(rare, a_lock_that_is_held_is_noticed);
    tcase_add_loop_test(rare, failures_are_explained, 0, 2);
    tcase_add_test(rare, reuse_comes_after_uses_and_free);
    tcase_add_test(rare, early_start_behind_a_wait);
    tcase_add_test(rare, early_start_in_memory_that_had_another_owner);
    tcase_add_test(rare, early_start_in_frames_that_had_another_owner);
    tcase_add_test(rare, early_start_beside_another_allocation);
    suite_add_tcase(suite, rare);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
