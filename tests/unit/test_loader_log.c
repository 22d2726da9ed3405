/*
 * test_loader_log.c - the lines that are written: their form, their length, their number, and that they need
 * no memory. (Report: hang.)
 */
#include "shim/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[64];
static char text[1 << 20];

static void configure(enum log_level level, const char *file)
{
    signed char levels[LOG_SUBSYSTEMS];

    memset(levels, level, sizeof levels);
    log_configure(levels, file);
}

/* Each test runs in a process of its own, so each opens a file of its own at the first line. */
static void open_log(void)
{
    snprintf(path, sizeof path, "/tmp/hbmspill-log-%ld", (long)getpid());
    configure(LOG_INFO, "/tmp/hbmspill-log-%p");
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
    log_gpu(LOG_WARN, LOG_IN_EVICT, 0, "%d bytes: %m", 42);
    ck_assert_int_eq(errno, ENOENT);
    snprintf(expected, sizeof expected,
             "hbmspill: warn [%ld gpu0 evict] 42 bytes: No such file or directory\n", (long)getpid());
    ck_assert_uint_eq(read_log(), 1);
    ck_assert_str_eq(text, expected);
}
END_TEST

/* What was to go to a file that cannot be opened goes to standard error, behind a line that says so. */
START_TEST(test_no_file)
{
    char expected[256];
    int before = dup(STDERR_FILENO), other = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    ck_assert(before >= 0 && other >= 0 && dup2(other, STDERR_FILENO) >= 0);
    configure(LOG_INFO, "/nowhere/of.%p");
    log_warn(LOG_IN_EVICT, "one");
    log_warn(LOG_IN_EVICT, "two");
    dup2(before, STDERR_FILENO);
    snprintf(expected, sizeof expected,
             "hbmspill: warn [%1$ld options] HBMSPILL_LOG_FILE=/nowhere/of.%%p ignored: No such file or "
             "directory\nhbmspill: warn [%1$ld evict] one\nhbmspill: warn [%1$ld evict] two\n",
             (long)getpid());
    ck_assert_uint_eq(read_log(), 3);
    ck_assert_str_eq(text, expected);
}
END_TEST

START_TEST(test_levels)
{
    log_error(LOG_IN_HOOKS, "one");
    log_warn(LOG_IN_HOOKS, "two");
    log_info(LOG_IN_HOOKS, "three");
    log_debug(LOG_IN_HOOKS, "four");
    log_trace(LOG_IN_HOOKS, "five");
    ck_assert_uint_eq(read_log(), 3);
    ck_assert(strstr(text, "error") && strstr(text, "warn") && strstr(text, "info"));
    configure(LOG_TRACE, "");
    log_trace(LOG_IN_HOOKS, "six"); /* the file that is open stays */
    ck_assert_uint_eq(read_log(), 4);
    configure(LOG_ERROR, "");
    log_warn(LOG_IN_HOOKS, "seven");
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
        log_info(LOG_IN_HOOKS, "%u %s", count, message);
    }
    ck_assert_uint_eq(read_log(), count);
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
    log_info(LOG_IN_HOOKS, "a\nb\n");
    ck_assert_uint_eq(read_log(), 1);
    ck_assert(strstr(text, "] a b \n"));
}
END_TEST

enum { THREADS = 8, LINES = 500 };

static void *write_lines(void *thread)
{
    for (int i = 0; i < LINES; i++) {
        log_info(LOG_IN_HOOKS, "this line is written whole, %d of %d", i, *(int *)thread);
        log_once(LOG_INFO, LOG_IN_HOOKS, "once only");
    }
    return NULL;
}

static void run_threads(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    int number[THREADS];
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &number[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static unsigned char seen[THREADS * LINES];

static void count_line(const char *line)
{
    int i = -1, thread = -1;
    char whole[64];
    ck_assert_int_eq(sscanf(line, "this line is written whole, %d of %d", &i, &thread), 2);
    snprintf(whole, sizeof whole, "this line is written whole, %d of %d", i, thread);
    ck_assert_str_eq(line, whole);
    ck_assert(i >= 0 && i < LINES && thread >= 0 && thread < THREADS);
    seen[thread * LINES + i]++;
}

/* Lines of several threads do not mix, and the file is opened once. */
START_TEST(test_threads)
{
    run_threads(write_lines);
    ck_assert_uint_eq(read_log(), THREADS * LINES + 1);
    char head[64];
    const int length = snprintf(head, sizeof head, "hbmspill: info [%ld hooks] ", (long)getpid());
    unsigned int once = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        ck_assert(!strncmp(line, head, (size_t)length));
        if (!strcmp(line + length, "once only"))
            once++;
        else
            count_line(line + length);
    }
    ck_assert_uint_eq(once, 1);
    for (unsigned i = 0; i < THREADS * LINES; i++)
        ck_assert_uint_eq(seen[i], 1);
}
END_TEST

/* What comes again is counted, and said ahead of what is different, or at the end. */
START_TEST(test_repeats)
{
    char expected[1024], *end = expected;
    const long pid = (long)getpid();
    for (int i = 0; i < 4; i++)
        log_warn(LOG_IN_HOST, "full");
    ck_assert_uint_eq(read_log(), 1);
    log_gpu(LOG_WARN, LOG_IN_HOST, 1, "full"); /* another device's is another */
    log_error(LOG_IN_HOST, "full");
    log_error(LOG_IN_HOST, "full");
    log_flush();
    log_flush();
    end += sprintf(end, "hbmspill: warn [%ld host] full\n", pid);
    end += sprintf(end, "hbmspill: warn [%ld host] last line 3 times more\n", pid);
    end += sprintf(end, "hbmspill: warn [%ld gpu1 host] full\n", pid);
    end += sprintf(end, "hbmspill: error [%ld host] full\n", pid);
    sprintf(end, "hbmspill: error [%ld host] last line 1 time more\n", pid);
    ck_assert_uint_eq(read_log(), 5);
    ck_assert_str_eq(text, expected);
}
END_TEST

static void *write_the_same(void *unused)
{
    (void)unused;
    for (int i = 0; i < LINES; i++)
        log_info(LOG_IN_HOOKS, i % 50 ? "the same" : "another");
    return NULL;
}

/* However threads take turns, what was written and what was counted is what was said. */
START_TEST(test_no_repeat_is_lost)
{
    unsigned long said[2] = {0, 0}, more;
    int last = 0;
    run_threads(write_the_same);
    log_flush();
    read_log();
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (sscanf(line, "hbmspill: info [%*d hooks] last line %lu", &more) == 1)
            said[last] += more;
        else
            said[last = strstr(line, "another") != NULL]++;
    }
    ck_assert_uint_eq(said[0] + said[1], THREADS * LINES);
}
END_TEST

/* A child of a fork does not count what its parent said. */
START_TEST(test_fork)
{
    int status;
    log_warn(LOG_IN_HOST, "full");
    log_warn(LOG_IN_HOST, "full");
    const pid_t child = fork();
    if (!child) {
        log_fork_child();
        log_warn(LOG_IN_HOST, "of the child");
        log_flush();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_uint_eq(read_log(), 2);
    ck_assert(strstr(text, "of the child\n") && !strstr(text, "more"));
    log_flush();
    ck_assert_uint_eq(read_log(), 3);
}
END_TEST

/* Levels are of subsystems. */
START_TEST(test_subsystems)
{
    signed char levels[LOG_SUBSYSTEMS];
    memset(levels, LOG_WARN, sizeof levels);
    levels[LOG_IN_EVICT] = LOG_DEBUG;
    levels[LOG_IN_PLANS] = LOG_SILENT;
    log_configure(levels, "/tmp/hbmspill-log-%p");
    ck_assert(log_wants(LOG_DEBUG, LOG_IN_EVICT) && !log_wants(LOG_TRACE, LOG_IN_EVICT));
    log_error(LOG_IN_PLANS, "one");
    log_debug(LOG_IN_FILL, "two");
    log_debug(LOG_IN_EVICT, "three");
    log_warn(LOG_IN_FILL, "four");
    ck_assert_uint_eq(read_log(), 2);
    ck_assert(strstr(text, " evict] three\n") && strstr(text, " fill] four\n"));
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
    log_warn(LOG_IN_LOADER, "%s of %zu bytes at %p, %.3f s: %m", "a line", sizeof text, (void *)text, 1.5);
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
    tcase_add_test(tests, test_no_file);
    tcase_add_test(tests, test_levels);
    tcase_add_test(tests, test_length);
    tcase_add_test(tests, test_one_event_is_one_line);
    tcase_add_test(tests, test_threads);
    tcase_add_test(tests, test_repeats);
    tcase_add_test(tests, test_no_repeat_is_lost);
    tcase_add_test(tests, test_fork);
    tcase_add_test(tests, test_subsystems);
    tcase_add_test(tests, test_needs_no_memory);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
