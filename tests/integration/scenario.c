/*
 * scenario.c - starts jobs and looks at what they left.
 */
#include "tests/integration/scenario.h"
#include "tests/integration/job.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_MAX = 64 << 10, VARIABLES_MAX = 40, SKIPPED = 77 /* to make check */ };

/* native: without the library, on a GPU that is big enough: the job has to be right there too. */
static const char native[] = "native";
/* One of chance: the fuzzer draws others. */
static const char *const schedules[] = {native, "eager", "lazy", "random:1"};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

static const struct scenario *all;
static unsigned scenario_count, time_limit;
static char program[4096];

static struct outcome outcome;
static char err[OUTPUT_MAX], statistics[OUTPUT_MAX], report[OUTPUT_MAX];

/* NAME=VALUE, split at spaces; the text must outlive the environment. */
struct environment {
    char *list[VARIABLES_MAX + 1];
    unsigned count;
};

static void set(struct environment *environment, char *variable)
{
    size_t name = strcspn(variable, "=") + 1;

    for (unsigned i = 0; i < environment->count; i++) {
        if (!strncmp(environment->list[i], variable, name)) {
            environment->list[i] = variable;
            return;
        }
    }
    ck_assert_uint_lt(environment->count, VARIABLES_MAX);
    environment->list[environment->count++] = variable;
    environment->list[environment->count] = NULL;
}

static void set_all(struct environment *environment, char *variables)
{
    char *rest = NULL;

    for (char *one = strtok_r(variables, " ", &rest); one; one = strtok_r(NULL, " ", &rest))
        set(environment, one);
}

static void read_file(const char *path, char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, OUTPUT_MAX - 1);

    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    if (fd >= 0)
        close(fd);
}

static void remove_in(const char *directory, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    unlink(path);
}

/* The variables of a run that do not depend on where its files are. */
static void compose(char *text, size_t size, const struct scenario *scenario, const char *schedule)
{
    if (schedule == native)
        snprintf(text, size, "LD_LIBRARY_PATH=%s SYNTHETIC_GPU_HBM=1G SYNTHETIC_GPU_SCHEDULE=random:9",
                 SYNTHETIC_DIR);
    else
        snprintf(text, size,
                 "LD_LIBRARY_PATH=%s LD_PRELOAD=%s SYNTHETIC_GPU_HBM=%s SYNTHETIC_GPU_SCHEDULE=%s "
                 "HBMSPILL_STRICT=1 HBMSPILL_CONFIG=none "
                 "HBMSPILL_CLOSED=all HBMSPILL_HOST_LIMIT=192M HBMSPILL_PLAN=greedy",
                 SYNTHETIC_DIR, PRELOAD_LIBRARY, scenario->hbm ? scenario->hbm : "40M", schedule);
}

/* A build with a sanitizer: its settings are the job's, too. */
static void set_sanitizers(struct environment *environment)
{
    static const char *const names[] = {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};
    static char variables[3][1024];

    for (unsigned i = 0; i < 3; i++) {
        if (!getenv(names[i]))
            continue;
        snprintf(variables[i], sizeof variables[i], "%s=%s", names[i], getenv(names[i]));
        set(environment, variables[i]);
    }
}

const struct outcome *scenario_run(const struct scenario *scenario, const char *schedule,
                                   const char *variables)
{
    char directory[] = "/tmp/hbmspill-test-XXXXXX", files[4096], base[2048], own[1024], more[1024], path[256];
    char *arguments[] = {program, (char *)scenario->name, NULL};
    struct environment environment = {.count = 0};
    posix_spawn_file_actions_t actions;
    int error, status;
    pid_t pid;

    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(files, sizeof files,
             "PATH=%s HOME=/ SYNTHETIC_GPU_REPORT=%s/report HBMSPILL_STATS=%s/statistics", getenv("PATH"),
             directory, directory);
    set_all(&environment, files);
    set_sanitizers(&environment);
    compose(base, sizeof base, scenario, schedule);
    set_all(&environment, base);
    snprintf(own, sizeof own, "%s", scenario->variables ? scenario->variables : "");
    set_all(&environment, own);
    snprintf(more, sizeof more, "%s", variables ? variables : "");
    set_all(&environment, more);
    snprintf(path, sizeof path, "%s/err", directory);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, path, O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    error = posix_spawn(&pid, program, &actions, NULL, arguments, environment.list);
    posix_spawn_file_actions_destroy(&actions);
    ck_assert_msg(!error, "%s: %s", program, strerror(error));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_file(path, err);
    snprintf(path, sizeof path, "%s/statistics", directory);
    read_file(path, statistics);
    snprintf(path, sizeof path, "%s/report", directory);
    read_file(path, report);
    outcome.err = err;
    outcome.statistics = statistics;
    outcome.report = report;
    remove_in(directory, "err");
    remove_in(directory, "statistics");
    remove_in(directory, "report");
    rmdir(directory);
    return &outcome;
}

static const char *find_number(const char *json, const char *name)
{
    char quoted[128];
    const char *found;

    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    found = strstr(json, quoted);
    return found ? found + strlen(quoted) : NULL;
}

uint64_t outcome_number(const char *json, const char *name)
{
    const char *number = find_number(json, name);

    ck_assert_msg(number != NULL, "no \"%s\" in %s", name, json);
    return strtoull(number, NULL, 10);
}

uint64_t outcome_calls(const struct outcome *of, const char *function)
{
    const char *number = find_number(of->report, function);

    return number ? strtoull(number, NULL, 10) : 0;
}

/*
 * What the GPU copied in each direction is what the job asked for and what was spilled or brought back. A
 * copy that was served in the host tier counts as what it became.
 */
static void check_bytes(const struct outcome *of)
{
    const char *statistics_json = of->statistics, *report_json = of->report;

    ck_assert_uint_eq(outcome_number(report_json, "h2d_bytes"),
                      outcome_number(statistics_json, "h2d_bytes") +
                          outcome_number(statistics_json, "bytes_in") +
                          outcome_number(statistics_json, "measured_bytes_in"));
    ck_assert_uint_eq(outcome_number(report_json, "d2h_bytes"),
                      outcome_number(statistics_json, "d2h_bytes") +
                          outcome_number(statistics_json, "bytes_out") +
                          outcome_number(statistics_json, "measured_bytes_out") +
                          outcome_number(statistics_json, "verified_bytes"));
    ck_assert_uint_eq(outcome_number(report_json, "d2d_bytes"), outcome_number(statistics_json, "d2d_bytes"));
}

void outcome_check_held(const struct outcome *of, bool all_freed)
{
    static const char *const none[] = {"operations_unended", "records_wrong",        "lost_frames",
                                       "lost_host_handles",  "lost_mappings",        "lost_reservations",
                                       "lost_slots",         "lost_streams",         "lost_events",
                                       "lost_registrations", "lost_host_allocations"};
    static const char *const freed[] = {"live_allocations", "frames_in_use", "slots_in_use"};

    for (unsigned i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert_msg(outcome_number(of->statistics, none[i]) == 0, "%s: %s", none[i], of->statistics);
    for (unsigned i = 0; all_freed && i < sizeof freed / sizeof *freed; i++)
        ck_assert_msg(outcome_number(of->statistics, freed[i]) == 0, "%s: %s", freed[i], of->statistics);
}

/* Every pinned byte is in the account, once, before it is pinned and until it is not any more. */
static void check_pinned(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->statistics, "pinned_bytes"),
                      outcome_number(of->report, "pinned_bytes"));
    ck_assert_uint_ge(outcome_number(of->statistics, "peak_pinned_bytes"),
                      outcome_number(of->report, "peak_pinned_bytes"));
}

static void look_at(const struct scenario *scenario, const struct outcome *of, bool without)
{
    ck_assert_msg(of->status == 0, "status %d", of->status);
    ck_assert_uint_le(outcome_number(of->report, "peak_device_bytes"),
                      outcome_number(of->report, "hbm_bytes"));
    if (!(scenario->flags & SCENARIO_HAZARDS))
        ck_assert_msg(strstr(of->report, "\"hazards\": []") != NULL, "%s", of->report);
    if (without)
        return;
    if (!(scenario->flags & SCENARIO_UNCOUNTED))
        check_bytes(of);
    if (scenario->flags & SCENARIO_SPILLS)
        ck_assert_uint_gt(outcome_number(of->statistics, "evictions"), 0);
    if (*of->statistics)
        outcome_check_held(of, false);
    if (*of->statistics)
        check_pinned(of);
    if (scenario->inspect)
        scenario->inspect(of);
}

static void say(const struct scenario *scenario, const char *schedule)
{
    char base[2048];

    compose(base, sizeof base, scenario, schedule);
    fprintf(stderr, "---- %s, %s\nto repeat: %s %s %s %s\n%s", scenario->name, schedule, base,
            scenario->variables ? scenario->variables : "", program, scenario->name, err);
}

/*
 * May a scenario be run so; SCENARIO and SCHEDULE in the environment choose among all. SCHEDULE=one: each
 * scenario once, for who looks at what the code does rather than at what it may do (a sanitizer).
 */
static bool wanted(const struct scenario *scenario, unsigned schedule)
{
    const char *only = getenv("SCHEDULE");

    if ((scenario->flags & SCENARIO_ONCE) && schedule > 1)
        return false;
    if ((scenario->flags & SCENARIO_NOT_NATIVE) && schedule == 0)
        return false;
    if (only && !strcmp(only, "one"))
        return schedule == (scenario->flags & SCENARIO_ONCE ? 1 : SCHEDULES - 1);
    return !only || !strcmp(only, schedules[schedule]);
}

START_TEST(one)
{
    const struct scenario *scenario = &all[_i / SCHEDULES];
    const char *schedule = schedules[_i % SCHEDULES];
    const struct outcome *of;

    if (!wanted(scenario, _i % SCHEDULES))
        return;
    of = scenario_run(scenario, schedule, NULL);
    if (of->status)
        say(scenario, schedule);
    look_at(scenario, of, schedule == native);
}
END_TEST

static int run_job(const char *name)
{
    for (unsigned i = 0; i < scenario_count; i++) {
        if (strcmp(all[i].name, name) != 0)
            continue;
        alarm(time_limit); /* a deadlock ends by SIGALRM */
        all[i].job();
        job_end();
        return 0;
    }
    fprintf(stderr, "no scenario %s\n", name);
    return 2;
}

/* True: some were added. */
static bool add_scenarios(Suite *suite)
{
    const char *only = getenv("SCENARIO");
    bool found = false;

    for (unsigned i = 0; i < scenario_count; i++) {
        TCase *one_case = tcase_create(all[i].name);

        if (only && strcmp(only, all[i].name) != 0)
            continue;
        tcase_set_timeout(one_case, time_limit + 5);
        tcase_add_loop_test(one_case, one, (int)(i * SCHEDULES), (int)((i + 1) * SCHEDULES));
        suite_add_tcase(suite, one_case);
        found = true;
    }
    if (!found)
        fprintf(stderr, "SCENARIO=%s names none of the %u here\n", only ? only : "", scenario_count);
    return found;
}

int scenarios_main_with(int argc, char **argv, const char *suite_name, const struct scenario *scenarios,
                        unsigned count, unsigned seconds, const struct TTest *test, int loops)
{
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    SRunner *runner;
    Suite *suite;
    int failed;

    if (length <= 0) {
        perror("/proc/self/exe");
        return 1;
    }
    program[length] = '\0';
    all = scenarios;
    scenario_count = count;
    time_limit = seconds * JOB_SLOWER;
    if (argc > 1)
        return run_job(argv[1]);
    suite = suite_create(suite_name);
    if (test) {
        TCase *own_case = tcase_create(suite_name);

        tcase_set_timeout(own_case, 300);
        tcase_add_loop_test(own_case, test, 0, loops);
        suite_add_tcase(suite, own_case);
    } else if (!add_scenarios(suite)) {
        return SKIPPED;
    }
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

int scenarios_main(int argc, char **argv, const char *suite_name, const struct scenario *scenarios,
                   unsigned count, unsigned seconds)
{
    return scenarios_main_with(argc, argv, suite_name, scenarios, count, seconds, NULL, 0);
}
