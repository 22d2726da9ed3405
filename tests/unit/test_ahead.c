/*
 * What comes in ahead of the operation that needs it: as much as there is room for, so many frames, nothing.
 * A loop over six buffers of four frames each (the first has five, by which rounds are told), in room for
 * four of them, in windows that hold a round.
 */
#include "cache/cache.h"
#include "tests/unit/fake_device.h"
#include <check.h>
#include <stdlib.h>

enum { BUFFERS = 6, FRAMES = 4, ROUNDS = 12 };

/* Frames that came in, over all rounds. */
struct arrived {
    uint64_t ahead, at_use;
    uint64_t most; /* ahead, at one place */
};

static struct fake_device fake;

static uint64_t bytes_of(unsigned buffer)
{
    return (uint64_t)(FRAMES + (buffer == 0)) * FAKE_GRANULE;
}

static uint64_t frames_in(struct cache *cache)
{
    return cache_statistics(cache)->bytes_in / FAKE_GRANULE;
}

static struct arrived loop(bool follow, bool prefetch, unsigned ahead)
{
    uint64_t hbm = UINT64_C(4) * FRAMES * FAKE_GRANULE;
    struct cache_config config = {.frame_size = FAKE_GRANULE,
                                  .hbm_limit = hbm,
                                  .host_limit = 64 * hbm,
                                  .policy = CACHE_POLICY_NEXTUSE,
                                  .follow = follow,
                                  .prefetch = prefetch,
                                  .ahead = ahead};
    struct cache_touch touches[BUFFERS];
    struct cache_planned_op ops[BUFFERS];
    struct arrived arrived = {0, 0, 0};
    struct cache_failure failure;
    struct cache *cache;
    uint64_t stream;

    fake_init(&fake, hbm, 64 * hbm, 1);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    stream = fake_stream(&fake);
    for (unsigned i = 0; i < BUFFERS; i++) {
        touches[i].access = CACHE_READ | CACHE_WRITE;
        ck_assert_int_eq(cache_alloc(cache, bytes_of(i), &touches[i].address, &failure), 0);
        ops[i] = (struct cache_planned_op){.touches = &touches[i], .count = 1};
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        cache_window_begin(cache, ops, BUFFERS);
        for (unsigned i = 0; i < BUFFERS; i++) {
            struct fake_op kernel = {.buffers = {touches[i].address},
                                     .bytes = {bytes_of(i)},
                                     .expect = {round},
                                     .value = {round + 1},
                                     .count = 1};
            uint64_t before = frames_in(cache), between;
            struct cache_op op;

            cache_window_step(cache, i);
            between = frames_in(cache);
            ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, &touches[i], 1), 0);
            fake_kernel(&fake, stream, &kernel);
            cache_op_end(cache, &op, true);
            arrived.ahead += between - before;
            arrived.at_use += frames_in(cache) - between;
            if (between - before > arrived.most)
                arrived.most = between - before;
            fake_run(&fake, 100);
        }
        cache_window_end(cache);
    }
    ck_assert(fake_drain(&fake));
    ck_assert_uint_eq(cache_statistics(cache)->rounds_found, follow);
    ck_assert_uint_eq(fake.mismatches, 0);
    ck_assert_uint_eq(fake.faults, 0);
    cache_destroy(cache);
    fake_fini(&fake);
    return arrived;
}

START_TEST(as_much_as_there_is_room_for)
{
    struct arrived arrived = loop(_i, true, 0);

    ck_assert_uint_gt(arrived.ahead, 0);
    ck_assert_msg(arrived.most > 2, "%u", (unsigned)arrived.most);
}
END_TEST

/* Two before the operation, and two that are brought in for it when its turn has come: some are left to
 * itself. */
START_TEST(so_many_frames)
{
    struct arrived arrived = loop(_i, true, 2), all_of_them = loop(_i, true, 0);

    ck_assert_uint_gt(arrived.ahead, 0);
    ck_assert_uint_gt(arrived.at_use, all_of_them.at_use);
    ck_assert_uint_le(arrived.most, 2);
}
END_TEST

START_TEST(nothing)
{
    struct arrived arrived = loop(_i, false, 0);

    ck_assert_uint_eq(arrived.ahead, 0);
    ck_assert_uint_gt(arrived.at_use, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ahead");
    TCase *all = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(all, as_much_as_there_is_room_for, 0, 2);
    tcase_add_loop_test(all, so_many_frames, 0, 2);
    tcase_add_loop_test(all, nothing, 0, 2);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
