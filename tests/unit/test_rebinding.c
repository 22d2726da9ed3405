/*
 * An address whose pieces come back to other frames than they had: each is bound anew when nothing uses it
 * any more, whatever is queued on the other pieces.
 */
#include "cache/internal.h"
#include "cache/room.h"
#include "tests/unit/fake_cache.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>

enum { PIECES = 3 };

static struct fake_device fake;
static struct cache *cache;
static uint64_t stream;

static uint64_t allocate(uint64_t frames)
{
    struct cache_failure failure;
    uint64_t address;

    ck_assert_int_eq(cache_alloc(cache, frames * FAKE_GRANULE, &address, &failure), 0);
    return address;
}

static void launch(uint64_t address, uint64_t frames, uint64_t expect, uint64_t value)
{
    struct fake_op kernel = {.count = 1,
                             .buffers = {address},
                             .bytes = {frames * FAKE_GRANULE},
                             .expect = {expect},
                             .value = {value}};
    struct cache_touch touch = {address, CACHE_READ | CACHE_WRITE};
    struct cache_op op;

    ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, &touch, 1), 0);
    fake_kernel(&fake, stream, &kernel);
    cache_op_end(cache, &op, true);
}

static void evict(struct segment *segment, unsigned first, unsigned count)
{
    struct cache_failure failure;
    struct need need;
    int error;

    pthread_mutex_lock(&cache->lock);
    while ((error = residency_evict(cache, segment, first, count, &need, &failure)) == -EAGAIN)
        ck_assert_int_eq(cache_satisfy(cache, &need), 0);
    pthread_mutex_unlock(&cache->lock);
    ck_assert_int_eq(error, 0);
}

static int fill(struct segment *segment, unsigned piece, struct need *need)
{
    int error;

    pthread_mutex_lock(&cache->lock);
    error = residency_fill_free(cache, segment, piece, 1, need);
    pthread_mutex_unlock(&cache->lock);
    return error;
}

START_TEST(test_pieces_come_back_one_by_one)
{
    struct cache_config config = {.frame_size = FAKE_GRANULE,
                                  .hbm_limit = (2 * PIECES) * (uint64_t)FAKE_GRANULE,
                                  .host_limit = 8 * (uint64_t)FAKE_GRANULE};
    struct segment *segment;
    struct need need;
    uint64_t address, other;

    fake_init(&fake, config.hbm_limit, config.host_limit, (uint64_t)_i);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    stream = fake_stream(&fake);
    address = allocate(PIECES);
    other = allocate(PIECES - 1);
    launch(address, PIECES, 0, 1);
    segment = segments_find(&cache->segments, address);
    evict(segment, 1, PIECES - 1);
    launch(other, PIECES - 1, 0, 2); /* in the frames of those that left */
    ck_assert_ptr_eq(segments_find(&cache->segments, other)->piece[0].frame, segment->piece[1].bound);
    /* The copy out still reads through the address. */
    ck_assert_int_eq(fill(segment, 1, &need), -EAGAIN);
    ck_assert_int_eq(need.kind, NEED_EVENT);
    ck_assert(fake_drain(&fake));
    ck_assert_int_eq(fill(segment, 1, &need), 0);
    /* That copy in is queued on another piece. */
    ck_assert_int_eq(fill(segment, 2, &need), 0);
    launch(address, PIECES, 1, 3);
    launch(other, PIECES - 1, 2, 4);
    launch(address, PIECES, 3, 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rebinding");
    TCase *all = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(all, test_pieces_come_back_one_by_one, 1, 20);
    suite_add_tcase(suite, all);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
