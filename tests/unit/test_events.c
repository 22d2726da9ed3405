/*
 * The writer of events: what the lines are, that what is written ends behind one of them at any time, and
 * what becomes of errors and of files that are full.
 */
#include "cache/events.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static struct events_writer writer;
static char path[] = "/tmp/test_events.XXXXXX", text[1 << 22];
static int fd;

static void setup(void)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
}

static void teardown(void)
{
    close(fd);
    unlink(path);
}

/* What is in the file by now. */
static size_t read_all(void)
{
    ssize_t length = pread(fd, text, sizeof text - 1, 0);

    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    return (size_t)length;
}

static bool ends_in(const char *ending)
{
    size_t length = strlen(text), wanted = strlen(ending);

    return length >= wanted && !strcmp(text + length - wanted, ending);
}

START_TEST(lines_are_as_the_format_has_them)
{
    const struct events_arg args[] = {{"bytes", NULL, 4096}, {"time", "a \"b\" \\ \n\xe9", 0}};

    events_begin(&writer, fd, 7, 0);
    events_process(&writer, "job", args, 1);
    events_process(&writer, NULL, args, 1);
    events_lane(&writer, 3, "copies in");
    events_span(&writer, 3, "k\"1", 1500 * SECOND + 1, 1500 * SECOND + 2050, args, 2);
    events_span(&writer, 3, "before it began", 10000, 9000, NULL, 0);
    events_counter(&writer, "memory", 2000, args, 1);
    ck_assert_int_eq(events_end(&writer), 0);
    read_all();
    ck_assert_str_eq(
        text,
        "[\n{\"ph\":\"M\",\"pid\":7,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"job\"}},\n"
        "{\"ph\":\"M\",\"pid\":7,\"tid\":0,\"name\":\"hbmspill\",\"args\":{\"bytes\":4096}},\n"
        "{\"ph\":\"M\",\"pid\":7,\"tid\":0,\"name\":\"hbmspill\",\"args\":{\"bytes\":4096}},\n"
        "{\"ph\":\"M\",\"pid\":7,\"tid\":3,\"name\":\"thread_name\",\"args\":{\"name\":\"copies in\"}},\n"
        "{\"ph\":\"M\",\"pid\":7,\"tid\":3,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":3}},\n"
        "{\"ph\":\"X\",\"pid\":7,\"tid\":3,\"name\":\"k\\\"1\",\"ts\":1500000000.001,\"dur\":2.049,"
        "\"args\":{\"bytes\":4096,\"time\":\"a \\\"b\\\" \\\\ ??\"}},\n"
        "{\"ph\":\"X\",\"pid\":7,\"tid\":3,\"name\":\"before it began\",\"ts\":10,\"dur\":0,\"args\":{}},\n"
        "{\"ph\":\"C\",\"pid\":7,\"tid\":0,\"name\":\"memory\",\"ts\":2,\"args\":{\"bytes\":4096}}\n]\n");
}
END_TEST

/* Names of every length, so that buffers are full anywhere; longer ones than a line has room for are cut. */
START_TEST(it_goes_out_behind_an_event)
{
    static char name[3000];
    size_t written = 0, times = 0;

    events_begin(&writer, fd, 1, 0);
    for (unsigned i = 0; i < 1200; i++) {
        memset(name, '\\', i);
        name[i] = '\0';
        events_span(&writer, 0, name, 5, 6, NULL, 0);
        if (read_all() == written)
            continue;
        written = strlen(text);
        times++;
        ck_assert(ends_in("}"));
    }
    ck_assert_uint_ge(times, 10);
    ck_assert_int_eq(events_end(&writer), 0);
    read_all();
    ck_assert(ends_in("}\n]\n"));
}
END_TEST

/* So that of a process that is killed what is older than a second is there. */
START_TEST(it_goes_out_every_second)
{
    events_begin(&writer, fd, 1, 0);
    events_span(&writer, 0, "first", 2 * SECOND, 2 * SECOND, NULL, 0);
    read_all();
    ck_assert(strstr(text, "first") && ends_in("}"));
    events_span(&writer, 0, "second", 2 * SECOND + 5, 2 * SECOND + 5, NULL, 0);
    read_all();
    ck_assert_ptr_null(strstr(text, "second"));
    events_span(&writer, 0, "third", 3 * SECOND + 6, 3 * SECOND + 6, NULL, 0);
    read_all();
    ck_assert(strstr(text, "second") && strstr(text, "third") && ends_in("}"));
}
END_TEST

START_TEST(a_full_file_says_so)
{
    enum { LIMIT = 100000 };

    events_begin(&writer, fd, 1, LIMIT);
    for (unsigned i = 0; i < 3000; i++)
        events_span(&writer, 0, "again and again", 5, 6, NULL, 0);
    ck_assert(writer.cut);
    ck_assert_int_eq(events_end(&writer), 0);
    ck_assert_uint_ge(read_all(), LIMIT);
    ck_assert_uint_lt(strlen(text), LIMIT + EVENTS_EVENT_MAX);
    ck_assert(strstr(text, "\"ph\":\"i\"") && strstr(text, "the file is full") && ends_in("}\n]\n"));
}
END_TEST

static unsigned pieces;

static int refuse(const char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    pieces++;
    return -EDQUOT;
}

START_TEST(the_first_error_is_the_last)
{
    events_begin(&writer, open("/dev/full", O_WRONLY), 1, 0);
    events_span(&writer, 0, "lost", 2 * SECOND, 2 * SECOND, NULL, 0);
    ck_assert_int_eq(writer.error, -ENOSPC);
    close(writer.fd);
    writer.fd = fd;
    events_span(&writer, 0, "lost, too", 9 * SECOND, 9 * SECOND, NULL, 0);
    ck_assert_int_eq(events_end(&writer), -ENOSPC);
    ck_assert_uint_eq(read_all(), 0);
    events_begin(&writer, fd, 1, 0);
    writer.sink = refuse;
    pieces = 0;
    events_span(&writer, 0, "lost", 2 * SECOND, 2 * SECOND, NULL, 0);
    ck_assert_int_eq(events_end(&writer), -EDQUOT);
    ck_assert_uint_eq(pieces, 1);
    ck_assert_uint_eq(read_all(), 0);
}
END_TEST

START_TEST(nothing_is_an_empty_array)
{
    events_begin(&writer, fd, 1, 0);
    ck_assert_int_eq(events_end(&writer), 0);
    read_all();
    ck_assert_str_eq(text, "[]\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("events");
    TCase *tests = tcase_create("events");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, lines_are_as_the_format_has_them);
    tcase_add_test(tests, it_goes_out_behind_an_event);
    tcase_add_test(tests, it_goes_out_every_second);
    tcase_add_test(tests, a_full_file_says_so);
    tcase_add_test(tests, the_first_error_is_the_last);
    tcase_add_test(tests, nothing_is_an_empty_array);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
