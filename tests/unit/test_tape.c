/*
 * Traces: what is written is what is read; what is damaged or cut off is refused, in a line; rounds are
 * found.
 */
#include "cache/tape.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "tape.XXXXXX";
static struct tape_writer writer;
static int fd;

static void start(void)
{
    strcpy(path, "tape.XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    tape_write_begin(&writer, fd);
}

static void finish(void)
{
    ck_assert_int_eq(tape_write_end(&writer), 0);
    close(fd);
}

static void stop(void)
{
    unlink(path);
}

static struct tape *read_whole(void)
{
    struct tape *tape;
    uint64_t line;
    char why[200] = "";

    ck_assert_msg(tape_read(path, &tape, &line, why, sizeof why) == 0, "line %llu: %s",
                  (unsigned long long)line, why);
    return tape;
}

static void write_sample(void)
{
    tape_write_name(&writer, 0, "fusion_1");
    tape_write_name(&writer, 1, "a name with blanks, {braces} and\na new line");
    tape_write_alloc(&writer, 0, 4096);
    tape_write_alloc(&writer, 1, UINT64_C(1) << 40);
    tape_write_launch(&writer, TAPE_LAUNCH, 0, 1, -1,
                      (struct tape_touch[]){{0, TAPE_READ}, {1, TAPE_READ | TAPE_WRITE}, {0, TAPE_WRITE}}, 3);
    tape_write_launch(&writer, TAPE_OPEN, 3, 0, 12345, NULL, 0);
    tape_write_copy(&writer, 1, TAPE_INSIDE, false, 4096,
                    (struct tape_touch[]){{1, TAPE_READ | TAPE_WRITE}, {0, TAPE_READ}}, 2);
    tape_write_copy(&writer, 1, TAPE_TO_HOST, true, 17, (struct tape_touch[]){{0, TAPE_READ}}, 1);
    tape_write_memset(&writer, 2, (struct tape_touch[]){{1, TAPE_WRITE}}, 1);
    tape_write_host_function(&writer, 3);
    tape_write_mark(&writer, 2);
    tape_write_submit(&writer, 2);
    tape_write_submit(&writer, TAPE_NO_STREAM);
    tape_write_wait(&writer, TAPE_NO_STREAM);
    tape_write_free(&writer, 0, 3);
    tape_write_free(&writer, 1, TAPE_NO_STREAM);
    tape_write_record(&writer, 1, 0);
    tape_write_record(&writer, 3, 1);
    tape_write_after(&writer, 2, 0);
}

START_TEST(test_round_trip)
{
    static const enum tape_kind kinds[] = {
        TAPE_ALLOC,  TAPE_ALLOC,         TAPE_LAUNCH, TAPE_OPEN,   TAPE_COPY,   TAPE_COPY,
        TAPE_MEMSET, TAPE_HOST_FUNCTION, TAPE_MARK,   TAPE_SUBMIT, TAPE_SUBMIT, TAPE_WAIT,
        TAPE_FREE,   TAPE_FREE,          TAPE_RECORD, TAPE_RECORD, TAPE_AFTER};
    struct tape *tape;
    const struct tape_event *event;

    start();
    write_sample();
    finish();
    tape = read_whole();
    event = tape->events;
    ck_assert_uint_eq(tape->event_count, sizeof kinds / sizeof kinds[0]);
    for (unsigned i = 0; i < tape->event_count; i++)
        ck_assert_int_eq(event[i].kind, kinds[i]);
    ck_assert_uint_eq(tape->births, 2);
    ck_assert_uint_eq(tape->sizes[1], UINT64_C(1) << 40);
    ck_assert_uint_eq(tape->streams, 4);
    ck_assert_uint_eq(tape->launches, 2);
    ck_assert_str_eq(tape->names[0], "fusion_1");
    ck_assert_str_eq(tape->names[1], "a name with blanks, {braces} and?a new line");
    /* An allocation named twice is one touch, of both kinds. */
    ck_assert_uint_eq(event[2].count, 2);
    ck_assert_uint_eq(tape->touches[event[2].first].id, 0);
    ck_assert_uint_eq(tape->touches[event[2].first].access, TAPE_READ | TAPE_WRITE);
    ck_assert_int_eq(event[2].duration, -1);
    ck_assert_int_eq(event[3].duration, 12345);
    ck_assert_uint_eq(event[3].stream, 3);
    ck_assert(event[4].form == TAPE_INSIDE && !event[4].blocking && event[4].size == 4096);
    ck_assert(event[5].form == TAPE_TO_HOST && event[5].blocking && event[5].size == 17);
    ck_assert_uint_eq(tape->touches[event[5].first].access, TAPE_READ);
    ck_assert_uint_eq(event[7].stream, 3);
    ck_assert_uint_eq(event[8].stream, 2);
    ck_assert_uint_eq(event[9].stream, 2);
    ck_assert_uint_eq(event[10].stream, TAPE_NO_STREAM);
    ck_assert_uint_eq(event[12].stream, 3);
    ck_assert_uint_eq(event[13].stream, TAPE_NO_STREAM);
    ck_assert_uint_eq(tape->recordings, 2);
    ck_assert_uint_eq(event[15].stream, 3);
    ck_assert(event[16].stream == 2 && event[16].back == 2);
    tape_free(tape);
    stop();
}
END_TEST

/* Many times the buffer, so that lines cross its end. */
START_TEST(test_long_tape)
{
    enum { LAUNCHES = 40000 };
    struct tape *tape;

    start();
    tape_write_name(&writer, 0, "k");
    for (unsigned i = 0; i < LAUNCHES; i++) {
        tape_write_alloc(&writer, i, 1 + i);
        tape_write_launch(&writer, TAPE_LAUNCH, 0, 0, i, (struct tape_touch[]){{i, TAPE_READ}}, 1);
    }
    finish();
    tape = read_whole();
    ck_assert_uint_eq(tape->event_count, 2 * LAUNCHES);
    for (unsigned i = 0; i < LAUNCHES; i++) {
        ck_assert_int_eq(tape->events[2 * i + 1].duration, i);
        ck_assert_uint_eq(tape->touches[tape->events[2 * i + 1].first].id, i);
    }
    tape_free(tape);
    stop();
}
END_TEST

static void refused(const char *text, size_t length, const char *reason, uint64_t where)
{
    struct tape *tape = NULL;
    uint64_t line;
    char why[200] = "";

    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_int_eq(pwrite(fd, text, length, 0), (ssize_t)length);
    ck_assert_int_eq(tape_read(path, &tape, &line, why, sizeof why), -EINVAL);
    ck_assert_ptr_null(tape);
    if (reason)
        ck_assert_msg(strstr(why, reason) != NULL, "%s", why);
    if (where)
        ck_assert_uint_eq(line, where);
    ck_assert(why[0] && !strchr(why, '\n'));
}

/* Cut after every byte: only the whole is accepted. */
START_TEST(test_truncated)
{
    char text[4096];
    ssize_t length;

    start();
    write_sample();
    finish();
    fd = open(path, O_RDWR);
    length = pread(fd, text, sizeof text, 0);
    ck_assert_int_gt(length, 100);
    for (ssize_t cut = 0; cut < length; cut++)
        refused(text, (size_t)cut, NULL, 0);
    close(fd);
    stop();
}
END_TEST

static const struct {
    const char *text, *reason;
    uint64_t line;
} damaged[] = {
    {"hbmspill-trace 2\ne 0\n", "no trace of a version", 1},
    {"hbmspill-trace 1\na 0 4096\n", "killed", 3},
    {"hbmspill-trace 1\na 1 4096\ne 1\n", "born out of order", 2},
    {"hbmspill-trace 1\na 0 0\ne 1\n", "out of range", 2},
    {"hbmspill-trace 1\na 0 99999999999999999999999\ne 1\n", "out of range", 2},
    {"hbmspill-trace 1\na 0 16\nf 0 0\nf 0 0\ne 3\n", "after it was freed", 4},
    {"hbmspill-trace 1\nn 0 k\na 0 16\nl 0 0 - 1\ne 2\n", "before it is born", 4},
    {"hbmspill-trace 1\na 0 16\nl 0 0 - 0\ne 2\n", "not told before", 3},
    {"hbmspill-trace 1\nn 0 k\nl 0 0\ne 1\n", "neither a duration", 3},
    {"hbmspill-trace 1\nn 1 k\ne 0\n", "a name out of order", 2},
    {"hbmspill-trace 1\nl\ne 1\n", "stream", 2},
    {"hbmspill-trace 1\nz 0\ne 1\n", "not known", 2},
    {"hbmspill-trace 1\na 0 16\nc 0 q 16 0\ne 2\n", "none of d, x, i, o", 3},
    {"hbmspill-trace 1\na 0 16 7\ne 1\n", "goes on oddly", 2},
    {"hbmspill-trace 1\nr 0 1\ne 1\n", "out of order", 2},
    {"hbmspill-trace 1\nr 0\ne 1\n", "recording's number", 2},
    {"hbmspill-trace 1\nr 0 0\nq 0 1\ne 2\n", "before it is made", 3},
    {"hbmspill-trace 1\na 0 16\ne 2\n", "ends after 1 events", 3},
    {"hbmspill-trace 1\ne 0\na 0 16\n", "more text", 2},
};

START_TEST(test_damaged)
{
    start();
    refused(damaged[_i].text, strlen(damaged[_i].text), damaged[_i].reason, damaged[_i].line);
    close(fd);
    stop();
}
END_TEST

START_TEST(test_unreadable)
{
    struct tape *tape;
    uint64_t line;
    char why[200];

    ck_assert_int_eq(tape_read("no/such/file", &tape, &line, why, sizeof why), -ENOENT);
    ck_assert_uint_eq(line, 0);
    ck_assert_str_eq(why, strerror(ENOENT));
}
END_TEST

/* A writer whose file cannot be written says so once, at the end, and does not crash before. */
START_TEST(test_full_device)
{
    int full = open("/dev/full", O_WRONLY);

    ck_assert_int_ge(full, 0);
    tape_write_begin(&writer, full);
    for (unsigned i = 0; i < 10000; i++)
        tape_write_alloc(&writer, i, 1 << 20);
    ck_assert_int_eq(tape_write_end(&writer), -ENOSPC);
    close(full);
}
END_TEST

/* launches is a string, a letter a launch. */
static bool rounds_of(const char *launches, uint32_t *period, uint32_t *rounds)
{
    struct tape *tape;
    bool found;

    start();
    for (unsigned i = 0; i < 26; i++)
        tape_write_name(&writer, i, "k");
    tape_write_alloc(&writer, 0, 16);
    for (const char *c = launches; *c; c++)
        tape_write_launch(&writer, TAPE_LAUNCH, 0, (uint32_t)(*c - 'a'), -1,
                          (struct tape_touch[]){{0, TAPE_READ}}, 1);
    finish();
    tape = read_whole();
    found = tape_find_rounds(tape, period, rounds);
    tape_free(tape);
    stop();
    return found;
}

START_TEST(test_rounds)
{
    uint32_t period = 0, rounds = 0;

    ck_assert(!rounds_of("", &period, &rounds));
    ck_assert(!rounds_of("a", &period, &rounds));
    ck_assert(!rounds_of("abcabc", &period, &rounds));
    ck_assert(!rounds_of("abcdefg", &period, &rounds));
    ck_assert_uint_eq(period, 0);
    ck_assert(rounds_of("aaa", &period, &rounds));
    ck_assert(period == 1 && rounds == 3);
    ck_assert(rounds_of("xyzabcabcabc", &period, &rounds));
    ck_assert(period == 3 && rounds == 3);
    /* A step that repeats something inside is still one round. */
    ck_assert(rounds_of("qaabaaacaabaaacaabaaacaabaaac", &period, &rounds));
    ck_assert(period == 7 && rounds == 4);
}
END_TEST

/* An array that is freed behind the first launch of a round or behind the second: the last round is repeated.
 */
START_TEST(test_repeat_free_elsewhere)
{
    struct tape *tape;
    uint32_t period, rounds, frees = 0, launches = 0;

    start();
    for (unsigned k = 0; k < 3; k++)
        tape_write_name(&writer, k, (const char *[]){"first", "second", "third"}[k]);
    for (unsigned round = 0; round < 4; round++) {
        tape_write_alloc(&writer, round, 4096);
        for (unsigned k = 0; k < 3; k++) {
            tape_write_launch(&writer, TAPE_LAUNCH, 0, k, 100, (struct tape_touch[]){{round, TAPE_WRITE}}, 1);
            if (round && k == (round == 3))
                tape_write_free(&writer, round - 1, 0);
        }
    }
    finish();
    tape = read_whole();
    ck_assert(tape_find_rounds(tape, &period, &rounds));
    ck_assert(period == 3 && rounds == 4);
    ck_assert_int_eq(tape_repeat(tape, period, 3), 0);
    ck_assert_uint_eq(tape->births, 7);
    for (uint32_t i = 0; i < tape->event_count; i++) {
        launches += tape_is_launch(tape->events[i].kind);
        if (tape->events[i].kind != TAPE_FREE)
            continue;
        ck_assert_uint_eq(tape->events[i].id, frees++);
        ck_assert_uint_eq(launches, 3 * frees + (frees < 3 ? 1 : 2));
    }
    ck_assert_uint_eq(frees, 6);
    tape_free(tape);
    stop();
}
END_TEST

/* What a stream waits for was recorded in this round, or in the one before, or once at the beginning. */
START_TEST(test_repeat_waits)
{
    static const uint32_t waits[3] = {1, 2, UINT32_MAX}; /* recordings back; the first of all */
    struct tape *tape;
    uint32_t period, rounds, recordings = 1, seen = 0;

    start();
    tape_write_name(&writer, 0, "step");
    tape_write_alloc(&writer, 0, 4096);
    tape_write_record(&writer, 1, 0);
    for (unsigned round = 0; round < 4; round++) {
        tape_write_record(&writer, 0, recordings++);
        for (unsigned k = 0; k < 3; k++)
            tape_write_after(&writer, 1, waits[k] == UINT32_MAX ? 0 : recordings - waits[k]);
        tape_write_launch(&writer, TAPE_LAUNCH, 0, 0, 100, (struct tape_touch[]){{0, TAPE_WRITE}}, 1);
    }
    finish();
    tape = read_whole();
    ck_assert(tape_find_rounds(tape, &period, &rounds));
    ck_assert_int_eq(tape_repeat(tape, period, 2), 0);
    ck_assert_uint_eq(tape->recordings, 7);
    for (uint32_t i = tape->event_count - 5; i < tape->event_count; i++) {
        const struct tape_event *event = &tape->events[i];

        if (event->kind == TAPE_AFTER)
            ck_assert_uint_eq(event->back, waits[seen++]);
        ck_assert(event->kind != TAPE_MARK || seen == 2); /* of what has been passed for long */
    }
    ck_assert_uint_eq(seen, 2);
    tape_free(tape);
    stop();
}
END_TEST

/*
 * Rounds of a launch and two arrays from the host, given to the device in one order or the other: the last
 * one is repeated as it was.
 */
START_TEST(test_repeat_in_any_order)
{
    static const uint32_t order[4][2] = {{0, 1}, {0, 1}, {0, 1}, {1, 0}};
    struct tape *tape;
    uint32_t period, rounds, births = 0;

    start();
    tape_write_name(&writer, 0, "step");
    for (unsigned round = 0; round < 4; round++, births += 2) {
        tape_write_alloc(&writer, births, 4096);
        tape_write_alloc(&writer, births + 1, 4096);
        for (unsigned k = 0; k < 2; k++)
            tape_write_copy(&writer, 1, TAPE_TO_DEVICE, false, 4096,
                            (struct tape_touch[]){{births + order[round][k], TAPE_WRITE}}, 1);
        tape_write_launch(&writer, TAPE_LAUNCH, 0, 0, 100,
                          (struct tape_touch[]){{births, TAPE_READ}, {births + 1, TAPE_READ}}, 2);
        tape_write_free(&writer, births, 0);
        tape_write_free(&writer, births + 1, 0);
    }
    finish();
    tape = read_whole();
    ck_assert(tape_find_rounds(tape, &period, &rounds));
    ck_assert(period == 1 && rounds == 4);
    ck_assert_int_eq(tape_repeat(tape, period, 2), 0);
    ck_assert_uint_eq(tape->launches, 6);
    ck_assert_uint_eq(tape->births, 12);
    births = 6;
    for (uint32_t i = 0, copies = 0; i < tape->event_count; i++) {
        const struct tape_event *event = &tape->events[i];

        if (event->kind != TAPE_COPY || copies++ < 6)
            continue;
        ck_assert_uint_eq(tape->touches[event->first].id, births + (copies % 2 ? 1 : 0));
        births += copies % 2 ? 0 : 2;
    }
    ck_assert_uint_eq(births, 12);
    tape_free(tape);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tape");
    TCase *all = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(all, test_round_trip);
    tcase_add_test(all, test_long_tape);
    tcase_add_test(all, test_truncated);
    tcase_add_loop_test(all, test_damaged, 0, sizeof damaged / sizeof damaged[0]);
    tcase_add_test(all, test_unreadable);
    tcase_add_test(all, test_full_device);
    tcase_add_test(all, test_rounds);
    tcase_add_test(all, test_repeat_waits);
    tcase_add_test(all, test_repeat_in_any_order);
    tcase_add_test(all, test_repeat_free_elsewhere);
    suite_add_tcase(suite, all);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
