/*
 * hbmspill-plan - the best schedule for a round of a job, made beside the job.
 *
 * Reads a cycle (cache/cycle.h), writes a schedule. The shim starts it and never waits for it, so it takes
 * care of itself: lowest priority, limits of time and memory that end it, no file left open that it did not
 * open, and an end when the job ends, however that comes about: nothing of a job that was killed goes on. The
 * plan appears under its name only when it is whole.
 *
 * Exit: 0 written; 1 the cycle cannot be read or planned, or the plan not written; 2 usage; 3 nothing was
 * found that is better than what needs no solver, and nothing was written; 4 the process it was to end with
 * has ended.
 */
#include "cache/colour.h"
#include "cache/tools/plan_lp.h"
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char usage[] =
    "usage: hbmspill-plan [--seconds N] [--memory SIZE] [--with PID] [--report] CYCLE -o PLAN\n"
    "  --seconds N     of processor time, at most (default 60)\n"
    "  --memory SIZE   of address space, at most (default 2G)\n"
    "  --with PID      end when this process ends\n"
    "  --report        say what was tried, and how long a round takes (modelled)\n";

/* Fewer of the machine's other jobs are in the way where more time passes than is used. */
enum { PATIENCE = 10, IOPRIO_IDLE = 3 << 13, JOB_ENDED = 4, WATCH_STACK = 64 << 10 };

struct request {
    const char *cycle, *plan;
    double seconds, memory;
    pid_t with; /* 0: no process */
    bool report;
};

/* The file that a plan is being written to. */
static char *_Atomic unfinished;

static int wrong_usage(const char *what, const char *text)
{
    fprintf(stderr, "hbmspill-plan: %s%s%s\n%s", what, text ? ": " : "", text ? text : "", usage);
    return 2;
}

static bool parse_size(const char *text, double *size)
{
    static const char letters[] = "KMGT";
    const char *letter;
    char *end;

    *size = strtod(text, &end);
    if (end == text || !(*size >= 0 && *size < 1e18))
        return false;
    letter = *end ? strchr(letters, *end & ~0x20) : NULL;
    for (long power = letter ? letter - letters : -1; power >= 0; power--)
        *size *= 1024;
    end += letter != NULL;
    return !*end || !strcmp(end, "iB");
}

static int parse_arguments(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
                                            {"memory", required_argument, NULL, 'm'},
                                            {"with", required_argument, NULL, 'w'},
                                            {"report", no_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'H'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    char *end;
    int option;
    long with;

    while ((option = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
        switch (option) {
        case 's':
            request->seconds = strtod(optarg, &end);
            if (end == optarg || *end || !(request->seconds > 0 && request->seconds <= 86400))
                return wrong_usage("no number of seconds", optarg);
            break;
        case 'm':
            if (!parse_size(optarg, &request->memory) || request->memory < 1)
                return wrong_usage("no size", optarg);
            break;
        case 'w':
            with = strtol(optarg, &end, 10);
            if (end == optarg || *end || with <= 0 || with > INT_MAX)
                return wrong_usage("no process", optarg);
            request->with = (pid_t)with;
            break;
        case 'r':
            request->report = true;
            break;
        case 'o':
            request->plan = optarg;
            break;
        case 'H':
            fputs(usage, stdout);
            exit(0);
        case 'V':
            puts("hbmspill-plan " PACKAGE_VERSION);
            exit(0);
        default:
            fputs(usage, stderr);
            return 2;
        }
    }
    if (!request->plan || argc - optind != 1)
        return wrong_usage("it takes one cycle, and -o", NULL);
    request->cycle = argv[optind];
    return 0;
}

/* What cannot be had is done without: none of it changes the result. */
static void be_modest(const struct request *request)
{
    struct rlimit memory = {(rlim_t)request->memory, (rlim_t)request->memory};
    /* It keeps to the seconds itself; this is for when it does not notice. */
    rlim_t seconds = (rlim_t)(1.25 * request->seconds) + 2;
    struct rlimit processor = {seconds, seconds};

#ifdef __SANITIZE_ADDRESS__ /* which reserves addresses for all memory that there might be */
    memory.rlim_cur = memory.rlim_max = RLIM_INFINITY;
#endif
    (void)close_range(3, ~0U, 0);
    (void)setpriority(PRIO_PROCESS, 0, 19);
    (void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    (void)syscall(SYS_ioprio_set, 1, 0, IOPRIO_IDLE);
    (void)setrlimit(RLIMIT_AS, &memory);
    (void)setrlimit(RLIMIT_CPU, &processor);
    (void)alarm((unsigned)request->seconds * PATIENCE + PATIENCE);
}

static void *watch(void *job)
{
    struct pollfd ended = {.fd = (int)(intptr_t)job, .events = POLLIN};
    const char *file;

    while (poll(&ended, 1, -1) < 0 && errno == EINTR)
        ;
    file = atomic_load(&unfinished);
    if (file)
        unlink(file);
    _exit(JOB_ENDED);
}

/*
 * By a descriptor of the process (pidfd_open(2), Linux 5.3), since its number is given out again; where there
 * are none the limits have to do. False where it has ended already.
 */
static bool end_with(pid_t pid)
{
    long job = syscall(SYS_pidfd_open, pid, 0);
    pthread_attr_t attributes;
    pthread_t thread;

    if (job < 0)
        return errno != ESRCH;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, WATCH_STACK);
    if (pthread_create(&thread, &attributes, watch, (void *)job))
        close((int)job);
    pthread_attr_destroy(&attributes);
    return true;
}

static int read_cycle(const char *path, struct cycle **out)
{
    FILE *file = fopen(path, "re");
    char why[160] = "";
    int error;

    if (!file) {
        fprintf(stderr, "hbmspill-plan: %s: %s\n", path, strerror(errno));
        return -errno;
    }
    error = cycle_read(file, out, why, sizeof why);
    if (error)
        fprintf(stderr, "hbmspill-plan: %s: %s\n", path, error == -EINVAL ? why : strerror(-error));
    fclose(file);
    return error;
}

/* A device, a pipe or a link, /dev/stdout say: a rename would put a file in its place. */
static bool is_special(const char *path)
{
    struct stat status;

    return !lstat(path, &status) && !S_ISREG(status.st_mode);
}

static int write_in_place(const char *path, const struct schedule *schedule)
{
    FILE *file = fopen(path, "ae");
    int error;

    if (!file)
        return -errno;
    error = schedule_write(schedule, file);
    return fclose(file) && !error ? -errno : error;
}

static int write_plan(const char *path, const struct schedule *schedule)
{
    char *temporary = NULL;
    FILE *file = NULL;
    int fd, error;

    if (is_special(path))
        return write_in_place(path, schedule);
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        return -ENOMEM;
    atomic_store(&unfinished, temporary);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        error = -errno;
        goto out;
    }
    file = fdopen(fd, "w");
    if (!file) {
        error = -errno;
        close(fd);
        goto out_remove;
    }
    error = schedule_write(schedule, file);
    if (fclose(file) && !error)
        error = -errno;
    if (!error && rename(temporary, path))
        error = -errno;
out_remove:
    if (error)
        unlink(temporary);
out:
    atomic_store(&unfinished, NULL);
    free(temporary);
    return error;
}

static void say(const struct request *request, const char *what, const struct cycle_result *result)
{
    if (request->report)
        fprintf(stderr,
                "%s: a round of %.4f ms (modelled), %.4f of it waiting; in %.1f MiB, out %.1f MiB; %u "
                "operations that lacked something\n",
                what, result->time * 1e-6, result->stall * 1e-6, result->in / (1 << 20),
                result->out / (1 << 20), result->misses);
}

/* With the frames it would get in the cache, what bindings cost added to its time. */
static int run(const struct cycle *cycle, const struct schedule *schedule, struct cycle_result *result)
{
    double value;
    int error = colouring_judge(cycle, schedule, result, &value);

    if (!error)
        result->time = value;
    return error;
}

/* What the schedule does that the shim made itself; or -errno. */
static int run_greedy(const struct request *request, const struct cycle *cycle, struct cycle_result *result)
{
    struct schedule *greedy;
    int error = schedule_choose(cycle, &greedy);

    if (error)
        return error;
    error = run(cycle, greedy, result);
    schedule_free(greedy);
    if (!error)
        say(request, "greedy", result);
    return error;
}

/* About as fast is better where less is moved: the link may be slower than it was measured. */
static bool better(const struct cycle_result *planned, const struct cycle_result *greedy)
{
    return planned->time < greedy->time ||
           (planned->time <= 1.01 * greedy->time && planned->in + planned->out < greedy->in + greedy->out);
}

static int plan(const struct request *request, const struct cycle *cycle)
{
    struct plan_options options = {.seconds = 0.9 * request->seconds,
                                   .report = request->report ? stderr : NULL};
    struct cycle_result result, greedy;
    struct schedule *schedule = NULL;
    char why[160] = "";
    int error = run_greedy(request, cycle, &greedy);

    if (error) {
        fprintf(stderr, "hbmspill-plan: %s: %s\n", request->cycle,
                error == -ENOSPC ? "an operation touches more than fits into HBM" : strerror(-error));
        return 1;
    }
    error = plan_optimal(cycle, &options, &schedule, why, sizeof why);
    if (!error)
        error = run(cycle, schedule, &result);
    if (error) {
        fprintf(stderr, "hbmspill-plan: %s: %s\n", request->cycle, *why ? why : strerror(-error));
        schedule_free(schedule);
        return 1;
    }
    say(request, "planned", &result);
    if (!better(&result, &greedy)) {
        schedule_free(schedule);
        return 3;
    }
    error = write_plan(request->plan, schedule);
    if (error)
        fprintf(stderr, "hbmspill-plan: %s: %s\n", request->plan, strerror(-error));
    schedule_free(schedule);
    return error ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct request request = {.seconds = 60, .memory = 2147483648.0};
    struct cycle *cycle = NULL;
    int status = parse_arguments(argc, argv, &request);

    if (status)
        return status;
    be_modest(&request);
    if (request.with && !end_with(request.with))
        return JOB_ENDED;
    if (read_cycle(request.cycle, &cycle))
        return 1;
    status = plan(&request, cycle);
    cycle_free(cycle);
    return status;
}
