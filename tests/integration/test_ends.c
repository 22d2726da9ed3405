/*
 * The ways a job ends in the middle of its swaps: a thread that calls exit, main returning, abort, SIGTERM,
 * SIGKILL, handlers of signals; and what does not end it: Ctrl-C that is handled. Each ends as the program or
 * the signal has it, never in a hang, and nothing stays behind on the machine: no file, no shared memory, no
 * process. (Reports: exit, killed, hang.)
 *
 * When a signal comes is random; the seed is printed, ENDS_SEED repeats it. Called with --seconds first this
 * program is a planner that reads a round nobody writes: hbmspill-plan itself, on an empty pipe.
 */
#include "tests/integration/ends_job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JOB_SECONDS = 40, GONE_MS = 5000 };

/* ---- the planner ---- */

static int planner(char **argv)
{
    for (char **word = argv + 1; *word; word++)
        if (!strcmp(*word, "/dev/stdin"))
            *word = getenv("ENDS_PIPE");
    execv(PLANNER, argv);
    return 1;
}

/* ---- the tests ---- */

static char directory[64], mark[96];
static uint64_t random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

static const char *in_directory(const char *name)
{
    static char path[4][PATH_MAX];
    static unsigned next;

    next = (next + 1) % 4;
    snprintf(path[next], PATH_MAX, "%s/%s", directory, name);
    return path[next];
}

/* A file's bytes, valid until the next call. */
static const char *read_file(const char *path, size_t *length)
{
    static char bytes[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t read_bytes = fd < 0 ? 0 : read(fd, bytes, sizeof bytes - 1);

    if (fd >= 0)
        close(fd);
    *length = read_bytes > 0 ? (size_t)read_bytes : 0;
    bytes[*length] = '\0';
    return bytes;
}

static bool file_has(const char *path, const char *text)
{
    size_t length;
    const char *bytes = read_file(path, &length);

    return memmem(bytes, length, text, strlen(text)) != NULL;
}

/* What the job said. */
static const char *messages(void)
{
    size_t length;

    return read_file(in_directory("err"), &length);
}

/* Processes that have the mark in their environment and, where exe is given, run it; zombies have neither. */
static unsigned marked_processes(const char *exe)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    unsigned found = 0;

    ck_assert_ptr_nonnull(proc);
    while ((entry = readdir(proc))) {
        char path[300], target[PATH_MAX] = "";

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        if (!file_has(path, mark))
            continue;
        snprintf(path, sizeof path, "/proc/%s/exe", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0)
            found += !exe || !strcmp(target, exe);
    }
    closedir(proc);
    return found;
}

static void until_processes(unsigned wanted, const char *exe, const char *what)
{
    unsigned found = 0;

    for (unsigned ms = 0; ms < GONE_MS; ms += 10) {
        found = marked_processes(exe);
        if (found == wanted)
            return;
        usleep(10000);
    }
    ck_abort_msg("%s: %u processes of the job, %u expected: %s", what, found, wanted, messages());
}

/* A name that a killed process would leave behind. The build itself may be anywhere. */
static void check_name(const char *name, const char *where)
{
    size_t build = strlen(SYNTHETIC_DIR) - strlen("synthetic");

    if (!strncmp(name, SYNTHETIC_DIR, build))
        return;
    ck_assert_msg(strncmp(name, "/dev/shm/", 9) != 0 && strncmp(name, "/SYSV", 5) != 0 &&
                      (strncmp(name, "/tmp/", 5) != 0 || !strncmp(name, directory, strlen(directory))),
                  "%s in %s", name, where);
}

/* No file of the running job outlives it but those the test asked for. */
static void check_open_files(pid_t pid)
{
    char path[64], line[2 * PATH_MAX], target[PATH_MAX];
    struct dirent *entry;
    unsigned seen = 0;
    FILE *maps;
    DIR *fds;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    fds = opendir(path);
    ck_assert_ptr_nonnull(fds);
    while ((entry = readdir(fds))) {
        ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);

        target[length > 0 ? length : 0] = '\0';
        check_name(target, path);
        seen++;
    }
    closedir(fds);
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)pid);
    maps = fopen(path, "re");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps)) {
        const char *name = strchr(line, '/');

        if (name)
            check_name(name, path);
        seen++;
    }
    fclose(maps);
    ck_assert_uint_gt(seen, 20);
}

/* The job, until it has said that it swaps. */
static pid_t start_job(const char *name, const char *schedule, const char *more)
{
    char text[24][PATH_MAX + 64], self[PATH_MAX], byte;
    char *environment[25], *arguments[] = {self, (char *)name, NULL};
    posix_spawn_file_actions_t actions;
    unsigned n = 0;
    int pipes[2];
    pid_t pid;

#define SET(...) (snprintf(text[n], sizeof text[n], __VA_ARGS__), environment[n] = text[n], n++)
    SET("%s", more ? more : "NO=MORE");
    if (!more || strncmp(more, "HBMSPILL_PLAN=", 14) != 0)
        SET("HBMSPILL_PLAN=greedy");
    SET("PATH=%s", getenv("PATH"));
    if (getenv("ASAN_OPTIONS")) /* of a build with it */
        SET("ASAN_OPTIONS=%s", getenv("ASAN_OPTIONS"));
    SET("%s", mark);
    SET("TMPDIR=%s", directory);
    SET("XDG_CACHE_HOME=%s", in_directory("cache"));
    SET("LD_LIBRARY_PATH=%s", SYNTHETIC_DIR);
    SET("LD_PRELOAD=%s", PRELOAD_LIBRARY);
    SET("SYNTHETIC_GPU_HBM=40M");
    SET("SYNTHETIC_GPU_SCHEDULE=%s", schedule);
    SET("HBMSPILL_STRICT=1");
    SET("HBMSPILL_CLOSED=all");
    SET("HBMSPILL_HOST_LIMIT=192M");
    SET("HBMSPILL_LOG=info");
    SET("HBMSPILL_STATS=%s", in_directory("statistics"));
    SET("ENDS_PIPE=%s", in_directory("pipe"));
    ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    self[readlink("/proc/self/exe", self, sizeof self - 1)] = '\0';
    SET("HBMSPILL_PLANNER=%s", self);
#undef SET
    environment[n] = NULL;
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, in_directory("err"),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    ck_assert_int_eq(posix_spawn(&pid, self, &actions, NULL, arguments, environment), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    if (read(pipes[0], &byte, 1) != 1)
        ck_abort_msg("%s never came to swap: %s", name, messages());
    close(pipes[0]);
    return pid;
}

static void ended(pid_t pid, int expected, const char *what)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ck_assert_msg(status == expected, "%s ended with %d, not %d: %s", what, status, expected, messages());
}

/* What is there but for the files that were asked for. */
static int is_left(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    const char *known[] = {"err", "statistics", "pipe", "cache", "hbmspill"}, *name = path + ftw->base;

    (void)status;
    (void)kind;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i]) || ftw->level == 0)
            return 0;
    ck_abort_msg("%s was left behind", path);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    (void)status;
    (void)kind;
    (void)ftw;
    return remove(path);
}

enum statistics { NONE, WRITTEN, EITHER };

static void nothing_left(enum statistics statistics, const char *what)
{
    until_processes(0, NULL, what);
    ck_assert_int_eq(nftw(directory, is_left, 16, FTW_PHYS), 0);
    if (statistics != EITHER) {
        ck_assert_msg(!strstr(messages(), "hbmspill: warn"), "%s: %s", what, messages());
        ck_assert_msg(file_has(in_directory("statistics"), "\"evictions\": ") == (statistics == WRITTEN),
                      "%s: statistics", what);
    }
    unlink(in_directory("statistics"));
}

static const char *const schedules[] = {"eager", "lazy", "random:3"};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

/* With SCHEDULE=one it is the last alone, as in other tests. */
static unsigned first_schedule(void)
{
    const char *only = getenv("SCHEDULE");

    return only && !strcmp(only, "one") ? SCHEDULES - 1 : 0;
}

static void by_itself(void)
{
    static const struct {
        const char *job;
        int status;
        enum statistics statistics;
    } ways[] = {{"thread_exits", 9, WRITTEN},  {"main_exits", 8, WRITTEN},
                {"frees_at_exit", 5, WRITTEN}, {"main_thread_ends", 7, WRITTEN},
                {"quick_exits", 6, NONE},      {"aborts", 128 + SIGABRT, NONE}};

    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        for (unsigned s = first_schedule(); s < SCHEDULES; s++) {
            ended(start_job(ways[i].job, schedules[s], NULL), ways[i].status, ways[i].job);
            nothing_left(ways[i].statistics, ways[i].job);
        }
}

static void by_signal(void)
{
    static const int signals[] = {SIGTERM, SIGKILL, SIGINT, SIGKILL};

    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        for (unsigned s = first_schedule(); s < SCHEDULES; s++) {
            pid_t pid = start_job("swap_beside", schedules[s], NULL);

            check_open_files(pid);
            usleep(draw(30000));
            ck_assert_int_eq(kill(pid, signals[i]), 0);
            ended(pid, 128 + signals[i], strsignal(signals[i]));
            nothing_left(NONE, strsignal(signals[i]));
        }
}

/* A handler that calls exit does so wherever the job is: whether it can be said what was done is chance. */
static void by_its_handler(void)
{
    for (unsigned i = 2 * first_schedule(); i < 2 * SCHEDULES; i++) {
        pid_t pid = start_job("handler_exits", schedules[i / 2], NULL);

        usleep(draw(30000));
        ck_assert_int_eq(kill(pid, SIGTERM), 0);
        ended(pid, SIGTERM, "a handler");
        nothing_left(EITHER, "a handler");
    }
}

static void interrupts_are_no_end(void)
{
    for (unsigned s = first_schedule(); s < SCHEDULES; s++) {
        pid_t pid = start_job("interrupted", schedules[s], NULL);
        int status;

        while (waitpid(pid, &status, WNOHANG) == 0) {
            kill(pid, draw(2) ? SIGINT : SIGTERM);
            usleep(draw(3000));
        }
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 4, "0x%x: %s", (unsigned)status,
                      messages());
        nothing_left(WRITTEN, "interrupted");
    }
}

/* The planner beside the job is at work, and will be for ever, when the job is killed. */
static void with_its_planner(void)
{
    static const int signals[] = {SIGKILL, SIGTERM};

    ck_assert_int_eq(mkfifo(in_directory("pipe"), 0600), 0);
    for (unsigned i = 0; i < 2; i++) {
        pid_t pid = start_job("swap_on", "eager", "HBMSPILL_PLAN=auto");

        until_processes(1, PLANNER, "while it runs");
        ck_assert_int_eq(kill(pid, signals[i]), 0);
        ended(pid, 128 + signals[i], strsignal(signals[i]));
        nothing_left(NONE, "killed beside its planner");
    }
}

/* It ends all the same. */
static void with_a_lock_held(void)
{
    char variable[PATH_MAX + 32];
    int reader;

    ck_assert_int_eq(mkfifo(in_directory("pipe"), 0600), 0);
    reader = open(in_directory("pipe"), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(reader, 0);
    ck_assert_int_gt(fcntl(reader, F_SETPIPE_SZ, 4096), 0);
    snprintf(variable, sizeof variable, "HBMSPILL_TRACE=%s", in_directory("pipe"));
    ended(start_job("stuck", "eager", variable), 3, "stuck");
    ck_assert_msg(strstr(messages(), "is not whole: whoever writes it has stopped") != NULL, "%s",
                  messages());
    close(reader);
}

static void (*const tests[])(void) = {with_a_lock_held,      by_itself,       by_its_handler, by_signal,
                                      interrupts_are_no_end, with_its_planner};

START_TEST(ending)
{
    const char *seed = getenv("ENDS_SEED");
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    random_state = seed ? strtoull(seed, NULL, 10) : (uint64_t)now.tv_nsec;
    fprintf(stderr, "to repeat: ENDS_SEED=%llu\n", (unsigned long long)random_state);
    snprintf(directory, sizeof directory, "/tmp/hbmspill-ends-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(mark, sizeof mark, "ENDS_MARK=%s", directory);
    tests[_i]();
    ck_assert_int_eq(nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--seconds"))
        return planner(argv);
    return scenarios_main_with(argc, argv, "ends", ends_jobs, ends_job_count, JOB_SECONDS, ending,
                               (int)(sizeof tests / sizeof *tests));
}
