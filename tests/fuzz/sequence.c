/*
 * sequence.c - runs generated sequences, each in a process of its own, and judges what they left.
 *
 *     sequence SEED [--ops N] [--loud] [--native]
 *     sequence --seeds N [--first SEED] [--stop]
 *
 * The first form runs one seed; --ops stops after N actions of each thread, --loud says what is done,
 * --native runs without the library on a GPU that is big enough. The second runs N seeds, with --stop none
 * behind the first that fails, and ends with a line `N passed, N failed'; a failure is said with the one
 * command that repeats it. Exit status 0: all passed.
 */
#include "tests/fuzz/actions.h"
#include "tests/fuzz/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANG_SECONDS = 60 * JOB_SLOWER, TEXT_MAX = 64 << 10, NATIVE_EVERY = 16 };

static char program[4096];
static unsigned long most_actions = ULONG_MAX;
static bool loud;

/* ---- the job ---- */

static uint64_t job_seed;
static struct settings job_settings;

static void *work(void *number)
{
    struct world *world = calloc(1, sizeof *world);
    struct random random = random_of(job_seed, 10 + (uintptr_t)number);
    unsigned long actions = job_settings.actions;

    REQUIRE(world);
    CU(cuCtxSetCurrent(job_context()));
    world->loud = loud;
    world->next_id = (unsigned)(uintptr_t)number * 10000;
    world_begin(world, &job_settings.limits, &random);
    actions_run(world, actions < most_actions ? actions : most_actions, &random);
    world_end(world, &random);
    free(world);
    return NULL;
}

static int run_job(uint64_t seed, bool native)
{
    pthread_t thread[THREADS_MAX] = {0};

    alarm(HANG_SECONDS); /* a deadlock ends by SIGALRM */
    /* Models and sources of megabytes come and go: what was given back is used again, not cleared by the
     * kernel. */
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    job_seed = seed;
    settings_of(seed, native, &job_settings);
    cuda_load();
    world_load();
    for (uintptr_t i = 1; i < job_settings.threads; i++)
        REQUIRE(!pthread_create(&thread[i], NULL, work, (void *)i));
    work(NULL);
    for (unsigned i = 1; i < job_settings.threads; i++)
        pthread_join(thread[i], NULL);
    job_end();
    return 0;
}

/* ---- one run ---- */

struct result {
    int status; /* exit status, or 128 + the signal */
    char err[TEXT_MAX], statistics[TEXT_MAX], report[TEXT_MAX];
};

static void read_file(const char *directory, const char *name, char *text)
{
    char path[256];
    ssize_t length;
    int fd;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    length = fd < 0 ? 0 : read(fd, text, TEXT_MAX - 1);
    text[length > 0 ? length : 0] = '\0';
    if (fd >= 0)
        close(fd);
    unlink(path);
}

/* A build with a sanitizer: its settings are the job's, too. */
static unsigned add_sanitizers(char **environment, unsigned count)
{
    static const char *const names[] = {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};
    static char variables[3][4200];

    for (unsigned i = 0; i < 3; i++) {
        if (!getenv(names[i]))
            continue;
        snprintf(variables[i], sizeof variables[i], "%s=%s", names[i], getenv(names[i]));
        environment[count++] = variables[i];
    }
    return count;
}

static void run(uint64_t seed, bool native, struct result *result)
{
    char directory[] = "/tmp/fuzz-XXXXXX", files[5][4200], number[32], ops[32], path[64];
    char *arguments[] = {
        program, "--job", number, "--ops", ops, native ? "--native" : "--shim", loud ? "--loud" : NULL, NULL};
    char *environment[VARIABLES_MAX + 12];
    unsigned count = 0;
    struct settings settings;
    posix_spawn_file_actions_t actions;
    int status;
    pid_t pid;

    REQUIRE(mkdtemp(directory));
    settings_of(seed, native, &settings);
    for (; count < settings.variable_count; count++)
        environment[count] = settings.variables[count];
    snprintf(files[0], sizeof *files, "LD_LIBRARY_PATH=%s", SYNTHETIC_DIR);
    snprintf(files[1], sizeof *files, "SYNTHETIC_GPU_REPORT=%s/report", directory);
    snprintf(files[2], sizeof *files, "HOME=/");
    snprintf(files[3], sizeof *files, "LD_PRELOAD=%s", PRELOAD_LIBRARY);
    snprintf(files[4], sizeof *files, "HBMSPILL_STATS=%s/statistics", directory);
    for (unsigned i = 0; i < (native ? 3 : 5); i++)
        environment[count++] = files[i];
    count = add_sanitizers(environment, count);
    environment[count] = NULL;
    snprintf(number, sizeof number, "%llu", (unsigned long long)seed);
    snprintf(ops, sizeof ops, "%lu", most_actions);
    snprintf(path, sizeof path, "%s/err", directory);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!loud)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, path, O_WRONLY | O_CREAT, 0600);
    status = posix_spawn(&pid, program, &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    REQUIRE(!status, "%s: %s", program, strerror(status));
    while (waitpid(pid, &status, 0) < 0)
        REQUIRE(errno == EINTR);
    result->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_file(directory, "err", result->err);
    read_file(directory, "statistics", result->statistics);
    read_file(directory, "report", result->report);
    rmdir(directory);
}

/* The number behind "name": in a JSON text; all ones where there is none. */
static uint64_t number_of(const char *json, const char *name)
{
    char quoted[64];
    const char *found;

    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    found = strstr(json, quoted);
    return found ? strtoull(found + strlen(quoted), NULL, 10) : UINT64_MAX;
}

/* ---- the verdict ---- */

/* What all runs together made happen. */
static struct {
    uint64_t evictions, fills, planned_operations, reframed, held, graph_launches, refused, launches;
} totals;

/* What is wrong, or NULL. */
static const char *judge(const struct settings *settings, bool native, const struct result *result)
{
    bool refused = result->status == REFUSED && settings->limits.may_run_out;

    if (result->status == 128 + SIGALRM)
        return "it does not end";
    if (result->status && !refused)
        return "the job failed";
    if (!strstr(result->report, "\"hazards\": []"))
        return "a hazard, or no report of the GPU";
    if (number_of(result->report, "peak_device_bytes") > number_of(result->report, "hbm_bytes"))
        return "more device memory than there is";
    if (native)
        return NULL;
    if (!strchr(result->statistics, '}'))
        return "no statistics";
    if (!refused && number_of(result->statistics, "live_bytes"))
        return "memory is left that nobody has";
    if (number_of(result->statistics, "host_bytes") > number_of(result->statistics, "host_limit"))
        return "more host memory than allowed";
    /* An eviction copies out a segment at most; now and then one is begun in vain, as what leaves is used. */
    if (number_of(result->statistics, "bytes_out") >
        (2 * number_of(result->statistics, "evictions") + 20) * (settings->limits.most_bytes + FRAME))
        return "much more was copied out than left";
    totals.evictions += number_of(result->statistics, "evictions");
    totals.fills += number_of(result->statistics, "fills");
    totals.planned_operations += number_of(result->statistics, "planned_operations");
    totals.reframed += number_of(result->statistics, "reframed");
    totals.held += number_of(result->statistics, "held");
    totals.graph_launches += number_of(result->statistics, "graph_launches");
    totals.launches += number_of(result->statistics, "launches");
    totals.refused += refused || number_of(result->statistics, "refused");
    return NULL;
}

/* Runs a seed; says what is wrong. */
static bool passes(uint64_t seed, bool native)
{
    static struct result result;
    struct settings settings;
    const char *wrong;

    settings_of(seed, native, &settings);
    run(seed, native, &result);
    wrong = judge(&settings, native, &result);
    if (!wrong)
        return true;
    printf("FAIL  seed %llu%s: %s (status %d)\n", (unsigned long long)seed, native ? ", native" : "", wrong,
           result.status);
    for (unsigned i = 0; i < settings.variable_count; i++)
        printf("%s%s", i ? " " : "      ", settings.variables[i]);
    printf("\n%s", result.err);
    if (strstr(result.report, "\"hazards\": [") && !strstr(result.report, "\"hazards\": []"))
        printf("      %s", strstr(result.report, "\"hazards\": ["));
    return false;
}

/* The fewest actions with which it still fails, as far as halving finds them. */
static unsigned long shrink(uint64_t seed)
{
    static struct result result;
    struct settings settings;
    unsigned long passing = 0, failing;

    settings_of(seed, false, &settings);
    failing = settings.actions;
    while (passing + 1 < failing) {
        most_actions = (passing + failing) / 2;
        run(seed, false, &result);
        if (judge(&settings, false, &result))
            failing = most_actions;
        else
            passing = most_actions;
    }
    most_actions = ULONG_MAX;
    return failing;
}

static int run_many(uint64_t first, uint64_t seeds, bool stop)
{
    unsigned long passed = 0, failed = 0;

    for (uint64_t seed = first; seed - first < seeds && !(stop && failed); seed++) {
        bool native = seed % NATIVE_EVERY == 0;

        /* A sequence must be right without the library too, or it says nothing about it. */
        if ((!native || passes(seed, true)) && passes(seed, false)) {
            passed++;
            continue;
        }
        failed++;
        printf("      to repeat: %s %llu --ops %lu --loud\n", program, (unsigned long long)seed,
               shrink(seed));
        fflush(stdout);
    }
    printf("in all: %llu evictions, %llu fills, %llu planned operations, %llu with larger frames, %llu held "
           "operations, %llu launches, "
           "%llu launches of graphs, %llu refusals\n",
           (unsigned long long)totals.evictions, (unsigned long long)totals.fills,
           (unsigned long long)totals.planned_operations, (unsigned long long)totals.reframed,
           (unsigned long long)totals.held, (unsigned long long)totals.launches,
           (unsigned long long)totals.graph_launches, (unsigned long long)totals.refused);
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = 0, first = 1, seeds = 0;
    bool job = false, native = false, given = false, stop = false;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

    if (length <= 0)
        return 2;
    program[length] = '\0';
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (!strcmp(argv[i], "--job"))
            job = true;
        else if (!strcmp(argv[i], "--native") || !strcmp(argv[i], "--shim"))
            native = argv[i][2] == 'n';
        else if (!strcmp(argv[i], "--loud"))
            loud = true;
        else if (!strcmp(argv[i], "--ops") && ++i)
            most_actions = strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--seeds") && ++i)
            seeds = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--first") && ++i)
            first = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--stop"))
            stop = true;
        else if (argv[i][0] >= '0' && argv[i][0] <= '9' && (given = true))
            seed = strtoull(argv[i], NULL, 10);
        else
            return fprintf(stderr, "%s is not understood\n", argv[i]), 2;
    }
    if (job)
        return run_job(seed, native);
    if (!given && !seeds)
        return fprintf(stderr, "a seed, or --seeds N\n"), 2;
    if (seeds)
        return run_many(first, seeds, stop);
    if (passes(seed, native))
        return printf("seed %llu passes\n", (unsigned long long)seed), 0;
    return 1;
}
