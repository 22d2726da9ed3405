/*
 * cache/stall.c over timers whose times are the test's to say.
 */
#include "cache/stall.h"

#include <check.h>
#include <errno.h>
#include <string.h>

enum { TIMERS = 4096, TIMER_BASE = 1 };

/* A device on which an event happens when the test says so, at the time it says. */
static struct {
    unsigned made, destroyed, records;
    int record_error, create_error;
    bool happened[TIMERS];
    double at[TIMERS];
    double clock, step; /* of the next record, and what is added by each */
    bool lazy;          /* what is recorded has not happened yet */
} device;

static int make_timer(void *ctx, uint64_t *event)
{
    (void)ctx;
    if (device.create_error)
        return device.create_error;
    ck_assert_uint_lt(device.made, TIMERS - TIMER_BASE);
    *event = TIMER_BASE + device.made++;
    return 0;
}

static int destroy(void *ctx, uint64_t event)
{
    (void)ctx;
    (void)event;
    device.destroyed++;
    return 0;
}

static int record(void *ctx, uint64_t event, uint64_t stream)
{
    (void)ctx;
    (void)stream;
    if (device.record_error)
        return device.record_error;
    device.records++;
    device.at[event] = device.clock += device.step;
    device.happened[event] = !device.lazy;
    return 0;
}

static int elapsed(void *ctx, uint64_t start, uint64_t end, double *nanoseconds)
{
    (void)ctx;
    if (!device.happened[start] || !device.happened[end])
        return -EBUSY;
    *nanoseconds = device.at[end] - device.at[start];
    return 0;
}

static const struct device_ops ops = {
    .event_destroy = destroy, .event_record = record, .timer_create = make_timer, .elapsed = elapsed};

static struct statistics statistics;
static struct stall stall;

static void setup(void)
{
    memset(&device, 0, sizeof device);
    memset(&statistics, 0, sizeof statistics);
    stall_init(&stall, &ops, NULL, &statistics);
}

static void teardown(void)
{
    stall_fini(&stall);
    ck_assert_uint_eq(device.destroyed, device.made);
}

static uint64_t tick;

static void wait_in(uint64_t stream, uint64_t bytes, double time)
{
    device.step = time;
    if (stall_begin(&stall, stream, bytes, ++tick))
        stall_end(&stall, stream);
}

static void wait_for(uint64_t bytes, double time)
{
    wait_in(7, bytes, time);
}

START_TEST(what_is_late_counts)
{
    wait_for(100, 50000);
    wait_for(10, 1000); /* the copy was there */
    wait_for(1, 7000);
    wait_for(1000, 0); /* only this one is not looked at yet */
    ck_assert_uint_eq(statistics.copies_waited_for, 4);
    ck_assert_uint_eq(statistics.waited_bytes, 1111);
    ck_assert_uint_eq(statistics.waits_timed, 3);
    ck_assert_uint_eq(statistics.late_bytes, 101);
    ck_assert_uint_eq(statistics.stalled_nanoseconds, 57000);
    /* The one not looked at is taken to be like the others. */
    ck_assert_double_eq_tol(stall_nanoseconds(&statistics), 57000 * 4 / 3.0, 1);
    ck_assert_double_eq_tol(stall_bytes(&statistics), 1111 * 101 / 111.0, 1);
}
END_TEST

START_TEST(nothing_is_nothing)
{
    ck_assert_double_eq(stall_nanoseconds(&statistics), 0);
    ck_assert_double_eq(stall_bytes(&statistics), 0);
    ck_assert_double_eq(stall_operation(&statistics), 0);
    wait_for(5, 90000);
    ck_assert_double_eq(stall_nanoseconds(&statistics), 0); /* not looked at: unknown */
}
END_TEST

START_TEST(later_waits_are_sampled)
{
    unsigned first;

    for (unsigned i = 0; i < 256; i++)
        wait_for(10, 20000);
    first = device.records;
    ck_assert_uint_eq(first, 2 * 256);
    for (unsigned i = 0; i < 10000; i++)
        wait_for(10, 20000);
    ck_assert_uint_ge(device.records - first, 2 * 10000 * 2 / 10 - 4);
    ck_assert_uint_le(device.records - first, 2 * 10000 * 2 / 7 + 4);
    ck_assert_double_eq_tol(stall_nanoseconds(&statistics), 10256 * 20000.0, 1);
    ck_assert_double_eq_tol(stall_bytes(&statistics), 10256 * 10.0, 1);
    ck_assert_uint_le(device.made, 2 * STALL_SAMPLES);
    /* Of two timed one after the other there is something between; across what was left out nothing is. */
    ck_assert_double_eq_tol(stall_operation(&statistics), 20000, 1);
    ck_assert_uint_gt(statistics.between_operations, 256 + 10000 / 10 - 2);
    ck_assert_uint_lt(statistics.between_operations, 256 + 10000 / 7 + 2);
}
END_TEST

START_TEST(outstanding_ones_are_bounded)
{
    device.lazy = true;
    for (unsigned i = 0; i < 5000; i++)
        wait_for(10, 20000);
    ck_assert_uint_eq(device.made, 2 * (STALL_SAMPLES - 1));
    ck_assert_uint_eq(device.records, 2 * (STALL_SAMPLES - 1));
    ck_assert_uint_eq(statistics.waits_timed, 0);
    memset(device.happened, true, sizeof device.happened);
    device.lazy = false;
    for (unsigned i = 0; i < 5000; i++)
        wait_for(10, 20000);
    ck_assert_uint_gt(statistics.waits_timed, STALL_SAMPLES);
    ck_assert_double_eq_tol(stall_nanoseconds(&statistics), 10000 * 20000.0, 1);
}
END_TEST

START_TEST(errors_cost_a_sample)
{
    device.create_error = -EIO;
    wait_for(10, 20000);
    device.create_error = 0;
    device.record_error = -EIO;
    wait_for(10, 20000);
    device.record_error = 0;
    ck_assert_uint_eq(device.records, 0);
    wait_for(10, 20000);
    wait_for(10, 20000);
    ck_assert_uint_eq(statistics.copies_waited_for, 4);
    ck_assert_uint_eq(statistics.waits_timed, 1);
    ck_assert_uint_eq(statistics.stalled_nanoseconds, 20000);
}
END_TEST

/* Three ticks and 600 ns from one wait to the next; what lies between waits of two streams says nothing. */
START_TEST(time_of_operations)
{
    for (unsigned i = 0; i < 10; i++) {
        device.clock += 600 - 100; /* the event before is a step of its own */
        tick += 2;
        wait_in(7, 10, 100);
    }
    wait_in(8, 10, 100); /* has nine read of the ten */
    ck_assert_uint_eq(statistics.waits_timed, 10);
    ck_assert_uint_eq(statistics.between_operations, 9 * 3);
    ck_assert_double_eq_tol(stall_operation(&statistics), 200, 1);
    wait_in(8, 10, 100);
    wait_in(7, 10, 100);
    ck_assert_uint_eq(statistics.between_operations, 9 * 3 + 1); /* two in stream 8 */
}
END_TEST

START_TEST(a_clock_that_goes_back_is_no_stall)
{
    wait_for(10, -1e9);
    wait_for(10, 20000);
    wait_for(10, 20000);
    ck_assert_uint_eq(statistics.waits_timed, 2);
    ck_assert_uint_eq(statistics.stalled_nanoseconds, 20000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stall");
    TCase *tests = tcase_create("stall");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_is_late_counts);
    tcase_add_test(tests, nothing_is_nothing);
    tcase_add_test(tests, later_waits_are_sampled);
    tcase_add_test(tests, outstanding_ones_are_bounded);
    tcase_add_test(tests, errors_cost_a_sample);
    tcase_add_test(tests, time_of_operations);
    tcase_add_test(tests, a_clock_that_goes_back_is_no_stall);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
