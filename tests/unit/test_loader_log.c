/*
 * test_loader_log.c - the lines that are written: their form, their length, their number, and that they need
 * no memory. (Report: hang.)
 */
#include "shim/log.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static char text[1 << 20];

/* Each test runs in a process of its own, so each opens a file of its own at the first line. */
static void open_log(void)
{
    snprintf(path, sizeof path, "/tmp/hbmspill-log-%ld", (long)getpid());
    log_configure(LOG_INFO, "/tmp/hbmspill-log-%p");
}

static void remove_log(void)
{
    unlink(path);
}

/* All that was written, and how many lines that is. */
static unsigned int read_log(void)
{
    FILE *file = fopen(path, "r");
    unsigned int lines = 0;
    text[0] = '\0';
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    return lines;
}

START_TEST(test_form)
{
    char expected[128];
    errno = ENOENT;
    log_warn("gpu0 evict", "%d bytes: %m", 42);
    ck_assert_int_eq(errno, ENOENT);
    snprintf(expected, sizeof expected,
             "hbmspill: warn [%ld gpu0 evict] 42 bytes: No such file or directory\n", (long)getpid());
    ck_assert_uint_eq(read_log(), 1);
    ck_assert_str_eq(text, expected);
}
END_TEST

START_TEST(test_levels)
{
    log_error("test", "one");
    log_warn("test", "two");
    log_info("test", "three");
    log_debug("test", "four");
    log_trace("test", "five");
    ck_assert_uint_eq(read_log(), 3);
    ck_assert(strstr(text, "error") && strstr(text, "warn") && strstr(text, "info"));
    log_configure(LOG_TRACE, "");
    log_trace("test", "six"); /* the file that is open stays */
    ck_assert_uint_eq(read_log(), 4);
    log_configure(LOG_ERROR, "");
    log_warn("test", "seven");
    ck_assert_uint_eq(read_log(), 4);
}
END_TEST

/* A message of any length is one line of at most LOG_LINE_MAX bytes. */
START_TEST(test_length)
{
    static char message[3 * LOG_LINE_MAX];
    size_t longest = 0;
    unsigned int count = 0;
    for (size_t length = 0; length < sizeof message; length += 61, count++) {
        memset(message, 'x', length);
        message[length] = '\0';
        log_info("test", "%s", message);
    }
    log_info(message, "%s", message); /* a subsystem too long for a line */
    ck_assert_uint_eq(read_log(), count + 1);
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        ck_assert(!strncmp(line, "hbmspill: info [", 16));
        if ((size_t)(end - line) + 1 > longest)
            longest = (size_t)(end - line) + 1;
    }
    ck_assert_uint_eq(longest, LOG_LINE_MAX);
}
END_TEST

START_TEST(test_one_event_is_one_line)
{
    log_info("test", "a\nb\n");
    ck_assert_uint_eq(read_log(), 1);
    ck_assert(strstr(text, "] a b \n"));
}
END_TEST

enum { THREADS = 8, LINES = 500 };

static void *write_lines(void *unused)
{
    (void)unused;
    for (int i = 0; i < LINES; i++) {
        log_info("test", "this line is written whole");
        log_once(LOG_INFO, "test", "once only");
    }
    return NULL;
}

/* Lines of several threads do not mix, and the file is opened once. */
START_TEST(test_threads)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(read_log(), THREADS * LINES + 1);
    char head[64];
    const int length = snprintf(head, sizeof head, "hbmspill: info [%ld test] ", (long)getpid());
    unsigned int once = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        ck_assert(!strncmp(line, head, (size_t)length));
        if (!strcmp(line + length, "once only"))
            once++;
        else
            ck_assert_str_eq(line + length, "this line is written whole");
    }
    ck_assert_uint_eq(once, 1);
}
END_TEST

static _Thread_local unsigned allocations;

/* In place of the C library's. */
extern void *__libc_malloc(size_t size); /* NOLINT(bugprone-reserved-identifier) */
void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

/* An allocator may be what hangs, or call us itself: a line takes a buffer on the stack and write(2). */
START_TEST(test_needs_no_memory)
{
    void *volatile counted = malloc(1);
    unsigned before;

    free(counted);
    ck_assert_uint_gt(allocations, 0);
    before = allocations;
    log_warn("early", "%s of %zu bytes at %p, %.3f s: %m", "a line", sizeof text, (void *)text, 1.5);
    ck_assert_uint_eq(allocations, before);
    ck_assert_uint_eq(read_log(), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tests = tcase_create("log");
    tcase_add_checked_fixture(tests, open_log, remove_log);
    tcase_add_test(tests, test_form);
    tcase_add_test(tests, test_levels);
    tcase_add_test(tests, test_length);
    tcase_add_test(tests, test_one_event_is_one_line);
    tcase_add_test(tests, test_threads);
    tcase_add_test(tests, test_needs_no_memory);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
