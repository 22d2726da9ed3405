#include "hooks/planner.h"
#include "cache/cycle.h"
#include "cache/lock_in_time.h"
#include "hooks/plan_cache.h"
#include "hooks/spawn.h"
#include "hooks/text.h"
#include "shim/log.h"
#include "shim/memory.h"
#include "shim/options.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "hbmspill-plan"

/* Limits of a process, and how long we go on looking for its plan: it may have to wait for a processor. */
#define PROCESS_SECONDS "60"
#define PROCESS_MEMORY "2G"
enum { REQUESTS_MAX = 16, PATIENCE_SECONDS = 660 };
#define POLL_NANOSECONDS UINT64_C(50000000)

enum request_state {
    REQUEST_FREE,
    REQUEST_WAITING, /* for the process to have time for it */
    REQUEST_RUNNING,
    REQUEST_READY, /* its file is there */
    REQUEST_NONE,  /* there will be no plan */
};

struct request {
    enum request_state state;
    uint64_t hash;
    char path[PATH_MAX]; /* of the plan */
    char *text;          /* the cycle, while it waits */
    size_t size;
    uint64_t number; /* they are served in this order */
};

/* Guards all below. Rank: taken with no lock of the cache held; nothing is taken inside it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct request requests[REQUESTS_MAX];
static uint64_t last_number;
static struct plan_cache plans;
static bool opened, broken; /* the directory; no process is started any more */
static struct spawned process;
static uint64_t started, polled; /* nanoseconds */

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static bool is_program(const char *path)
{
    struct stat status;

    return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

/* Beside the library: where it is installed, in a build tree; else on the PATH. */
static int find_program(char path[PATH_MAX])
{
    static const char *const beside[] = {"/../bin/" PROGRAM, "/../cache/tools/" PROGRAM};
    const char *named = options_get()->planner.text, *search = getenv("PATH");
    char library[PATH_MAX];

    if (named[0])
        return realpath(named, path) && is_program(path) ? 0 : -ENOENT;
    if (!spawn_library(library)) {
        *strrchr(library, '/') = '\0';
        for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
            if (snprintf(path, PATH_MAX, "%s%s", library, beside[i]) < PATH_MAX && is_program(path))
                return 0;
    }
    while (search && *search) {
        size_t length = strcspn(search, ":");

        if (search[0] == '/' && snprintf(path, PATH_MAX, "%.*s/" PROGRAM, (int)length, search) < PATH_MAX &&
            is_program(path))
            return 0;
        search += length + (search[length] == ':');
    }
    return -ENOENT;
}

static void forget_text(struct request *request)
{
    memory_free_foreign(request->text); /* open_memstream's */
    request->text = NULL;
}

/* No process from now on: those that wait for one wait in vain. */
static void give_up(void)
{
    broken = true;
    for (unsigned i = 0; i < REQUESTS_MAX; i++)
        if (requests[i].state == REQUEST_WAITING) {
            requests[i].state = REQUEST_NONE;
            forget_text(&requests[i]);
        }
}

static int start(struct request *request)
{
    char program[PATH_MAX], job[16];
    char *const arguments[] = {(char *)PROGRAM,
                               (char *)"--seconds",
                               (char *)PROCESS_SECONDS,
                               (char *)"--memory",
                               (char *)PROCESS_MEMORY,
                               (char *)"--with",
                               job,
                               (char *)"/dev/stdin",
                               (char *)"-o",
                               request->path,
                               NULL};
    int error = find_program(program);

    snprintf(job, sizeof job, "%ld", (long)getpid());
    if (error) {
        log_info(LOG_IN_PLANS, "no program " PROGRAM " was found: rounds keep their greedy schedules");
        return error;
    }
    plan_cache_trim(&plans);
    error = spawn_aside(program, arguments, request->text, request->size, &process);
    if (error == -ECHILD)
        log_info(LOG_IN_PLANS, "the job adopts orphans (it is process 1, or a subreaper), so " PROGRAM
                               " is not started; rounds keep their greedy schedules");
    else if (error)
        log_info(LOG_IN_PLANS, "%s cannot be started: %s; rounds keep their greedy schedules", program,
                 strerror(-error));
    else
        log_debug(LOG_IN_PLANS, "process %ld makes a plan for round %016" PRIx64, (long)process.pid,
                  request->hash);
    return error;
}

/* The process takes the request that has waited for longest. */
static void start_next(void)
{
    struct request *next = NULL;

    for (unsigned i = 0; i < REQUESTS_MAX; i++) {
        if (requests[i].state == REQUEST_RUNNING)
            return;
        if (requests[i].state == REQUEST_WAITING && (!next || requests[i].number < next->number))
            next = &requests[i];
    }
    if (!next)
        return;
    if (broken || start(next)) {
        give_up();
        return;
    }
    forget_text(next);
    next->state = REQUEST_RUNNING;
    started = now();
}

/* Whether the process has come to an end, one way or another. */
static void poll_process(struct request *request)
{
    bool runs = spawned_runs(&process); /* asked first: it ends after its file is there */

    if (!access(request->path, F_OK)) {
        request->state = REQUEST_READY;
        start_next();
    } else if (!runs) {
        log_info(LOG_IN_PLANS, "no plan for round %016" PRIx64 " that is better came of " PROGRAM,
                 request->hash);
        request->state = REQUEST_NONE;
        start_next();
    } else if (now() - started > PATIENCE_SECONDS * UINT64_C(1000000000)) {
        log_info(LOG_IN_PLANS, PROGRAM " does not come to an end: rounds keep their greedy schedules");
        request->state = REQUEST_NONE;
        give_up();
    }
}

static struct request *find(uint64_t hash)
{
    for (unsigned i = 0; i < REQUESTS_MAX; i++)
        if (requests[i].state != REQUEST_FREE && requests[i].hash == hash)
            return &requests[i];
    return NULL;
}

/* A place for one more: a free one, else that of the oldest that is done with. */
static struct request *place(void)
{
    struct request *found = NULL;

    for (unsigned i = 0; i < REQUESTS_MAX; i++) {
        struct request *request = &requests[i];

        if (request->state == REQUEST_FREE)
            return request;
        if (request->state != REQUEST_WAITING && request->state != REQUEST_RUNNING &&
            (!found || request->number < found->number))
            found = request;
    }
    return found;
}

static int write_text(struct request *request, const struct cycle *cycle)
{
    FILE *file = open_memstream(&request->text, &request->size);
    int error;

    if (!file)
        return -ENOMEM;
    error = cycle_write(cycle, file);
    if (fclose(file) && !error)
        error = -EIO;
    if (error)
        forget_text(request);
    return error;
}

/* The plan in the request's file. One that cannot be used is removed, so that another can take its place. */
static int read_request(const struct request *request, struct schedule **out)
{
    char why[160] = "";
    int error = plan_read(request->path, request->hash, true, out, why, sizeof why);

    if (error && error != -ENOENT) {
        log_warn(LOG_IN_PLANS, "%s ignored: %s", request->path, why);
        unlink(request->path);
    }
    return error;
}

static void ask_process(const struct cycle *cycle, uint64_t hash, bool kept)
{
    struct request *request = find(hash);
    struct schedule *schedule;

    if (request && request->state != REQUEST_NONE)
        return;
    if (!request)
        request = place();
    if (!request || (!opened && plan_cache_open(&plans)))
        return;
    opened = true;
    *request = (struct request){.state = REQUEST_NONE, .hash = hash, .number = ++last_number};
    if (plan_cache_path(&plans, cycle, hash, request->path))
        return;
    if (!read_request(request, &schedule)) {
        log_info(LOG_IN_PLANS, "round %016" PRIx64 " begins with the plan in %s", hash, request->path);
        schedule_free(schedule);
        request->state = REQUEST_READY;
        return;
    }
    if (kept || broken || !access(request->path, F_OK) /* it could not be removed */ ||
        write_text(request, cycle))
        return;
    request->state = REQUEST_WAITING;
    start_next();
}

static void planner_ask(void *ctx, const struct cycle *cycle, uint64_t hash, double predicted, bool kept)
{
    locale_t before;

    (void)ctx;
    if (kept)
        log_info(LOG_IN_PLANS,
                 "found round %016" PRIx64
                 ": %u operations, %u buffers; %.3f ms as planned at once, modelled",
                 hash, cycle->length, cycle->buffer_count, predicted * 1e-6);
    if (options_get()->plan.kind != PLAN_AUTO)
        return;
    pthread_mutex_lock(&lock);
    before = text_plain_begin();
    ask_process(cycle, hash, kept);
    text_plain_end(before);
    pthread_mutex_unlock(&lock);
}

static int answer_request(uint64_t hash, struct schedule **out)
{
    struct request *request = find(hash);
    int error;

    if (!request)
        return -ENOENT;
    if (request->state == REQUEST_WAITING || request->state == REQUEST_RUNNING) {
        uint64_t time = now();

        if (time - polled < POLL_NANOSECONDS)
            return -EAGAIN;
        polled = time;
        for (unsigned i = 0; i < REQUESTS_MAX; i++)
            if (requests[i].state == REQUEST_RUNNING) {
                poll_process(&requests[i]);
                break;
            }
        if (request->state == REQUEST_WAITING || request->state == REQUEST_RUNNING)
            return -EAGAIN;
    }
    if (request->state != REQUEST_READY)
        return -ENOENT;
    error = read_request(request, out);
    if (error)
        request->state = REQUEST_NONE;
    return error;
}

/* HBMSPILL_PLAN=FILE: read for each round, until it is the one it is for. */
static int answer_file(uint64_t hash, struct schedule **out)
{
    const char *path = options_get()->plan.path;
    char why[160] = "it is not there";
    int error = plan_read(path, hash, false, out, why, sizeof why);

    if (error == -ESTALE)
        log_info(LOG_IN_PLANS, "%s is for another round than %016" PRIx64, path, hash);
    else if (error)
        log_once(LOG_WARN, LOG_IN_PLANS, "HBMSPILL_PLAN=%s ignored: %s", path, why);
    return error;
}

static int planner_answer(void *ctx, uint64_t hash, struct schedule **out)
{
    struct schedule *schedule;
    locale_t before;
    int error;

    (void)ctx;
    pthread_mutex_lock(&lock);
    before = text_plain_begin();
    if (options_get()->plan.kind == PLAN_FILE)
        error = answer_file(hash, &schedule);
    else
        error = answer_request(hash, &schedule);
    text_plain_end(before);
    pthread_mutex_unlock(&lock);
    if (error)
        return error;
    log_info(LOG_IN_PLANS,
             "a plan of %u moves for round %016" PRIx64 " is taken up when it begins next; %.3f ms, modelled",
             schedule->count, hash, schedule->predicted * 1e-6);
    *out = schedule;
    return 0;
}

const struct cache_planner *planner_get(void)
{
    static const struct cache_planner planner = {.ask = planner_ask, .answer = planner_answer};

    return options_get()->plan.kind == PLAN_OFF ? NULL : &planner;
}

void planner_exit(void)
{
    if (!lock_in_time(&lock, EXIT_PATIENCE_MS))
        return;
    if (opened)
        plan_cache_close(&plans);
    pthread_mutex_unlock(&lock);
}
