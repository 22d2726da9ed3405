/*
 * What the cache knows of the cost of moving: memory lent out for measurements, the dearest allocations, and
 * what has most of HBM.
 */
#include "cache/borrow.h"
#include "cache/dearest.h"
#include "cache/residents.h"
#include "tests/unit/fake_job.h"
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

enum { FRAMES = 8 };

static uint64_t stream;

static void start(uint64_t host)
{
    struct cache_config config = {
        .frame_size = FAKE_GRANULE, .hbm_limit = FRAMES * FAKE_GRANULE, .host_limit = host};

    fake_init(&fake, config.hbm_limit, host, 3);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    stream = fake_stream(&fake);
}

/* As many allocations as there are frames, each with its number and one as contents. */
static void fill_up(uint64_t at[FRAMES])
{
    for (unsigned i = 0; i < FRAMES; i++) {
        at[i] = allocate(FAKE_GRANULE);
        launch(stream, at[i], 0, i + 1);
    }
}

/* The whole of what is lent is written, by copies of the borrower's own. */
static void use(const struct cache_loan *loan)
{
    uint64_t own = fake_stream(&fake);

    ck_assert_uint_eq(loan->size, FAKE_GRANULE);
    ck_assert_int_eq(
        fake.ops.copy(fake.ops.ctx, own, loan->device, (uint64_t)(uintptr_t)loan->host, loan->size), 0);
    ck_assert_int_eq(
        fake.ops.copy(fake.ops.ctx, own, (uint64_t)(uintptr_t)loan->host, loan->device, loan->size), 0);
    ck_assert(fake_drain(&fake));
}

/* Borrows once what is queued has run; whether it has is known only by an event behind it. */
static int borrow(struct cache_loan *loan, unsigned flags)
{
    uint64_t wait;
    int error = -EAGAIN;

    for (unsigned tries = 0; error == -EAGAIN && tries < 5; tries++) {
        ck_assert(fake_drain(&fake));
        error = cache_borrow(cache, loan, flags, &wait);
    }
    return error;
}

START_TEST(lends_what_is_dead)
{
    uint64_t at[FRAMES], wait;
    struct cache_loan loan;

    start(4 * MIB);
    fill_up(at);
    ck_assert(fake_drain(&fake));
    ck_assert_int_eq(cache_borrow(cache, &loan, 0, &wait), -EBUSY); /* it will not come free by itself */
    launch(stream, at[0], 1, 9);
    ck_assert_int_eq(cache_free(cache, at[0], &(struct stream_key){stream, 0}), 0);
    ck_assert_int_eq(cache_borrow(cache, &loan, 0, &wait), -EAGAIN);
    ck_assert_int_eq(fake.ops.event_query(fake.ops.ctx, wait), -EBUSY);
    ck_assert(fake_drain(&fake));
    ck_assert_int_eq(fake.ops.event_query(fake.ops.ctx, wait), 0);
    ck_assert_int_eq(cache_borrow(cache, &loan, 0, &wait), 0);
    use(&loan);
    cache_return(cache, &loan, true);
    ck_assert_uint_eq(cache_statistics(cache)->evictions, 0);
    for (unsigned i = 1; i < FRAMES; i++)
        launch(stream, at[i], i + 1, 0);
    stop();
}
END_TEST

START_TEST(moves_one_out_when_told_to)
{
    struct cache_loan loan;
    uint64_t at[FRAMES];

    start(4 * MIB);
    fill_up(at);
    ck_assert_int_eq(borrow(&loan, 0), -EBUSY);
    ck_assert_uint_eq(cache_statistics(cache)->evictions, 0);
    ck_assert_int_eq(borrow(&loan, LOAN_EVICT), 0);
    use(&loan);
    ck_assert_uint_eq(cache_statistics(cache)->evictions, 1);
    cache_return(cache, &loan, true);
    for (unsigned i = 0; i < FRAMES; i++)
        launch(stream, at[i], i + 1, 0);
    stop();
}
END_TEST

/* While data is on its way the link is not measured, unless that is all the same. */
START_TEST(waits_for_the_link)
{
    uint64_t at[FRAMES], more, wait;
    struct cache_loan loan;

    start(4 * MIB);
    fill_up(at);
    ck_assert_int_eq(cache_free(cache, at[1], &(struct stream_key){stream, 0}), 0);
    ck_assert(fake_drain(&fake));
    ck_assert_int_eq(borrow(&loan, 0), 0);
    cache_return(cache, &loan, true);
    at[1] = allocate(FAKE_GRANULE);
    launch(stream, at[1], 0, 2);
    more = allocate(FAKE_GRANULE);
    launch(stream, more, 0, 9); /* at[0] is copied out for it */
    ck_assert_uint_eq(cache_statistics(cache)->evictions, 1);
    ck_assert_int_eq(cache_free(cache, at[1], &(struct stream_key){stream, 0}), 0);
    ck_assert_int_eq(cache_borrow(cache, &loan, 0, &wait), -EAGAIN);
    fake_run(&fake, 1000);
    ck_assert_int_eq(borrow(&loan, 0), 0);
    cache_return(cache, &loan, true);
    launch(stream, at[0], 1, 0); /* comes back */
    ck_assert_int_eq(cache_free(cache, more, &(struct stream_key){stream, 0}), 0);
    stop();
}
END_TEST

static atomic_bool done;

static void *touch_all(void *at)
{
    struct cache_touch touch[FRAMES];
    struct cache_op op;

    for (unsigned i = 0; i < FRAMES; i++)
        touch[i] = (struct cache_touch){((const uint64_t *)at)[i], CACHE_READ};
    ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, touch, FRAMES), 0);
    atomic_store(&done, true);
    cache_op_end(cache, &op, false);
    return NULL;
}

/* An operation that needs all of HBM waits for what is lent; it does not fail. */
START_TEST(who_needs_it_waits)
{
    uint64_t at[FRAMES];
    struct cache_loan loan;
    pthread_t thread;

    start(4 * MIB);
    fill_up(at);
    ck_assert_int_eq(cache_free(cache, at[0], &(struct stream_key){stream, 0}), 0);
    ck_assert_int_eq(borrow(&loan, 0), 0);
    at[0] = allocate(FAKE_GRANULE);
    ck_assert_int_eq(pthread_create(&thread, NULL, touch_all, at), 0);
    usleep(20000);
    ck_assert(!atomic_load(&done));
    cache_return(cache, &loan, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(atomic_load(&done));
    stop();
}
END_TEST

START_TEST(too_little_host_memory)
{
    uint64_t at[FRAMES];
    struct cache_loan loan;

    start(8 * FAKE_GRANULE);
    fill_up(at);
    ck_assert_int_eq(cache_free(cache, at[0], &(struct stream_key){stream, 0}), 0);
    ck_assert_int_eq(borrow(&loan, 0), -ENOMEM);
    at[0] = allocate(FAKE_GRANULE); /* the frame was not lost over it */
    launch(stream, at[0], 0, 1);
    for (unsigned i = 0; i < FRAMES; i++)
        launch(stream, at[i], i + 1, 0);
    stop();
}
END_TEST

/* Not idle: the memory is nobody's any more, but nobody waits for it either. */
START_TEST(what_is_in_doubt_stays_away)
{
    uint64_t at[FRAMES];
    struct cache_loan loan;

    start(4 * MIB);
    fill_up(at);
    ck_assert_int_eq(cache_free(cache, at[0], &(struct stream_key){stream, 0}), 0);
    ck_assert_int_eq(borrow(&loan, 0), 0);
    cache_return(cache, &loan, false);
    at[0] = allocate(FAKE_GRANULE);
    launch(stream, at[0], 0, 1); /* another frame is made free for it */
    ck_assert_uint_eq(cache_statistics(cache)->evictions, 1);
    for (unsigned i = 0; i < FRAMES; i++)
        launch(stream, at[i], i + 1, 0);
    ck_assert(fake_drain(&fake));
}
END_TEST

/* Two sites take turns in too little memory, two allocations of one size each, a third one of another size.
 */
START_TEST(rows_by_site_and_size)
{
    uint64_t at[2 * FRAMES];
    struct dearest_row row[8];
    unsigned count;

    start(4 * MIB);
    for (unsigned i = 0; i < 2 * FRAMES; i++) {
        at[i] = allocate(FAKE_GRANULE);
        cache_set_site(cache, at[i], i % 4 == 3 ? 7 : 5);
    }
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < 2 * FRAMES; i++)
            launch(stream, at[i], round ? i + 1 : 0, i + 1);
    count = cache_dearest(cache, row, 8);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(row[0].site, 5);
    ck_assert_uint_eq(row[1].site, 7);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(row[i].size, FAKE_GRANULE);
        ck_assert_uint_eq(row[i].bytes_in, row[i].moves_in * FAKE_GRANULE);
        ck_assert_uint_eq(row[i].bytes_out, row[i].moves_out * FAKE_GRANULE);
        ck_assert_uint_eq(row[i].returns, row[i].moves_in);
        /* Least recently used in a loop: every use after the first round is one after having been away. */
        ck_assert_uint_eq(row[i].reuse_distance, row[i].returns * 2 * FRAMES);
        ck_assert_uint_gt(row[i].away, 0);
        ck_assert_uint_lt(row[i].away, row[i].reuse_distance);
    }
    ck_assert_uint_eq(row[0].returns, 2 * 12);
    ck_assert_uint_eq(row[1].returns, 2 * 4);
    ck_assert_uint_eq(cache_dearest(cache, row, 1), 1);
    ck_assert_uint_eq(row[0].site, 5);
    stop();
}
END_TEST

/* More sites than rows: what finds none is counted all the same. */
START_TEST(rows_are_bounded)
{
    struct dearest_row *row = calloc(DEAREST_ROWS, sizeof *row);
    uint64_t at[FRAMES + 1], in = 0, out = 0;
    unsigned count;

    start(4 * MIB);
    for (unsigned i = 0; i <= FRAMES; i++)
        at[i] = allocate(FAKE_GRANULE);
    for (unsigned i = 0; i < 2 * DEAREST_ROWS; i++) {
        cache_set_site(cache, at[i % (FRAMES + 1)], i + 1);
        launch(stream, at[i % (FRAMES + 1)], 0, i + 1);
        fake_run(&fake, 20);
    }
    count = cache_dearest(cache, row, DEAREST_ROWS);
    ck_assert_uint_gt(count, DEAREST_ROWS / 2);
    ck_assert_uint_lt(count, DEAREST_ROWS);
    for (unsigned i = 0; i < count; i++) {
        in += row[i].bytes_in;
        out += row[i].bytes_out;
    }
    ck_assert_uint_eq(in, cache_statistics(cache)->bytes_in);
    ck_assert_uint_eq(out, cache_statistics(cache)->bytes_out);
    ck_assert_uint_gt(in, DEAREST_ROWS * FAKE_GRANULE);
    free(row);
    stop();
}
END_TEST

/* An address that another allocation gets does not inherit the site. */
START_TEST(sites_end_with_the_allocation)
{
    uint64_t at[FRAMES], again;
    struct dearest_row row[4];

    start(4 * MIB);
    fill_up(at);
    cache_set_site(cache, at[0], 5);
    ck_assert_int_eq(cache_free(cache, at[0], &(struct stream_key){stream, 0}), 0);
    again = allocate(FAKE_GRANULE);
    ck_assert_uint_eq(again, at[0]);
    launch(stream, again, 0, 1);
    for (unsigned i = 1; i < FRAMES; i++)
        launch(stream, at[i], i + 1, i + 1);
    launch(stream, allocate(FAKE_GRANULE), 0, 1); /* at[0] leaves */
    ck_assert_uint_eq(cache_dearest(cache, row, 4), 1);
    ck_assert_uint_eq(row[0].site, 0);
    stop();
}
END_TEST

/* Of two sizes, the larger comes while HBM is full of the smaller: by its first use three of these are out.
 */
START_TEST(residents_by_size)
{
    uint64_t at[FRAMES], large;
    struct resident_row row[4];

    start(8 * MIB);
    ck_assert_uint_eq(cache_residents(cache, row, 4), 0);
    fill_up(at);
    ck_assert_uint_eq(cache_residents(cache, row, 4), 1);
    ck_assert_uint_eq(row[0].size, FAKE_GRANULE);
    ck_assert_uint_eq(row[0].count, FRAMES);
    ck_assert_uint_eq(row[0].hbm, FRAMES * FAKE_GRANULE);
    ck_assert_uint_eq(row[0].host, 0);
    large = allocate(3 * FAKE_GRANULE);
    ck_assert_uint_eq(cache_residents(cache, row, 4), 1); /* nothing is in it */
    launch(stream, large, 0, 1);
    ck_assert_uint_eq(cache_residents(cache, row, 4), 2);
    ck_assert_uint_eq(row[0].size, FAKE_GRANULE);
    ck_assert_uint_eq(row[0].hbm, (FRAMES - 3) * FAKE_GRANULE);
    ck_assert_uint_eq(row[0].host, 3 * FAKE_GRANULE);
    ck_assert_uint_eq(row[1].size, 3 * FAKE_GRANULE);
    ck_assert_uint_eq(row[1].count, 1);
    ck_assert_uint_eq(row[1].hbm, 3 * FAKE_GRANULE);
    ck_assert_uint_eq(row[1].host, 0);
    for (unsigned i = 0; i < 6; i++)
        ck_assert_int_eq(cache_free(cache, at[i], &(struct stream_key){stream, 0}), 0);
    ck_assert_uint_eq(cache_residents(cache, row, 1), 1);
    ck_assert_uint_eq(row[0].size, 3 * FAKE_GRANULE);
    stop();
}
END_TEST

/* More sizes than rows: what has none is counted in one for the rest. */
START_TEST(residents_are_bounded)
{
    enum { SIZES = 300 };
    static struct resident_row row[SIZES];
    struct cache_config config = {
        .frame_size = FAKE_GRANULE, .hbm_limit = 40 * FAKE_GRANULE, .host_limit = 256 * MIB};
    uint64_t count = 0;
    unsigned rows, rest = 0;

    fake_init(&fake, config.hbm_limit, config.host_limit, 3);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    stream = fake_stream(&fake);
    for (unsigned i = 0; i < SIZES; i++)
        launch(stream, allocate(FAKE_GRANULE + 4096 * i), 0, 1);
    rows = cache_residents(cache, row, SIZES);
    ck_assert_uint_gt(rows, 100);
    ck_assert_uint_lt(rows, SIZES);
    for (unsigned i = 0; i < rows; i++) {
        count += row[i].count;
        rest += row[i].size == 0;
    }
    ck_assert_uint_eq(count, SIZES);
    ck_assert_uint_eq(rest, 1);
    stop();
}
END_TEST

/* Operations are counted when they are begun, not when it is asked whether they fit. */
START_TEST(asking_is_no_operation)
{
    struct cache_usage before, after;
    uint64_t at[FRAMES];

    start(4 * MIB);
    fill_up(at);
    cache_usage(cache, &before);
    for (unsigned i = 0; i < FRAMES; i++)
        ck_assert(cache_op_fits(cache, &(struct cache_touch){at[i], CACHE_READ}, 1));
    launch(stream, at[0], 1, 2);
    cache_usage(cache, &after);
    ck_assert_uint_eq(after.operations, before.operations + 1);
    ck_assert_uint_ge(before.operations, FRAMES);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache, costs");
    TCase *loans = tcase_create("loans"), *rows = tcase_create("dearest"),
          *residents = tcase_create("residents");
    SRunner *runner;
    int failed;

    tcase_add_test(loans, lends_what_is_dead);
    tcase_add_test(loans, moves_one_out_when_told_to);
    tcase_add_test(loans, waits_for_the_link);
    tcase_add_test(loans, who_needs_it_waits);
    tcase_add_test(loans, too_little_host_memory);
    tcase_add_test(loans, what_is_in_doubt_stays_away);
    tcase_add_test(rows, rows_by_site_and_size);
    tcase_add_test(rows, rows_are_bounded);
    tcase_add_test(rows, sites_end_with_the_allocation);
    suite_add_tcase(suite, loans);
    tcase_add_test(residents, residents_by_size);
    tcase_add_test(residents, residents_are_bounded);
    tcase_add_test(residents, asking_is_no_operation);
    suite_add_tcase(suite, rows);
    suite_add_tcase(suite, residents);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
