/*
 * Every call of the driver that the library makes - the job's calls that it forwards among them - fails: at
 * every occurrence, and again and again with a stride, with every error that cuda.h documents for the
 * function, and with those of earlier asynchronous work where it may tell of them. Afterwards the job has an
 * error or goes on; what it reads is right; nothing is lost, and once it has given everything back nothing is
 * in use.
 *
 * The functions are those of shim/functions.h, the only way to the driver there is; the errors are read from
 * cuda.h when the test is built (documented_errors.awk). A function that no job here reaches has to be in
 * `unreached', and one that is there must not be reached.
 *
 * Normally a part, which is said at the end of each job: all functions, the first occurrences and one or two
 * of the others, one stride, and with each the next of the function's errors. FAULT_EVERY=1: all occurrences
 * and strides, with all errors that the library's code names and one of those that are all the same to it; an
 * hour or so. FAULT_EVERY=2: with every error, three hours. FAULT_PART=K/N: of all these, from K (0 to N - 1)
 * on each N-th, so that N of them are the whole. FAULT_JOB chooses a job, and with
 * FAULT=FUNCTION:OCCURRENCE:ERROR one run; the OCCURRENCE of a stride is K/K.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include "shim/functions.h"
#include "tests/integration/fault_jobs.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(symbol, type) #symbol,
static const char *const functions[] = {HBMSPILL_HOOKED(NAME) HBMSPILL_REAL(NAME)};
#undef NAME
enum { FUNCTIONS = sizeof functions / sizeof *functions, FIRST = 2, SPREAD = 2, ERRORS_MAX = 40 };

/* Each so many'th call fails: what is tried again at once, after another call of the kind, late. */
static const unsigned strides[] = {2, 3, 7, 23};
enum { STRIDES = sizeof strides / sizeof *strides };

static const struct documented {
    const char *name;
    bool asynchronous; /* "may also return error codes from previous, asynchronous launches" */
    const char *errors;
} documented[] = {
#define X(name, asynchronous, errors) {name, asynchronous, errors},
#include "tests/integration/documented_errors.h"
#undef X
};
enum { DOCUMENTED = sizeof documented / sizeof *documented };

/* What earlier work may have ended with: all of these leave the context unusable. */
static const char *const fatal[] = {"LAUNCH_FAILED",      "ILLEGAL_ADDRESS",      "LAUNCH_TIMEOUT",
                                    "MISALIGNED_ADDRESS", "HARDWARE_STACK_ERROR", "ILLEGAL_INSTRUCTION",
                                    "INVALID_PC",         "INVALID_ADDRESS_SPACE"};
enum { FATAL = sizeof fatal / sizeof *fatal };

static const struct scenario scenarios[] = {
    {.name = "plain",
     .hbm = "24M",
     .job = fault_job_plain,
     .variables = "RETRY=1 HBMSPILL_WINDOW=off HBMSPILL_PLAN=off HBMSPILL_TEST_SLOT=2M"},
    {.name = "window", .hbm = "24M", .job = fault_job_plain},
    {.name = "alone", .hbm = "24M", .job = fault_job_rounds, .variables = "RETRY=1 HBMSPILL_WINDOW=off"},
    {.name = "rounds", .hbm = "24M", .job = fault_job_rounds},
    {.name = "graphs", .hbm = "24M", .job = fault_job_graphs, .variables = "RETRY=1"},
    {.name = "pools", .hbm = "24M", .job = fault_job_pools, .variables = "RETRY=1 HBMSPILL_STRICT=0"},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* Both names without version and default stream. */
static size_t base_length(const char *symbol)
{
    size_t length = strlen(symbol);

    if (length > 5 && (!strcmp(symbol + length - 5, "_ptsz") || !strcmp(symbol + length - 5, "_ptds")))
        length -= 5;
    if (length > 3 && !strncmp(symbol + length - 3, "_v", 2))
        length -= 3;
    return length;
}

/* How often any version of a function was called, from the driver's report; faults count in the same way. */
static uint64_t calls_of(const struct outcome *of, const char *symbol)
{
    static const char *const versions[] = {"", "_v2", "_v3", "_v4"};
    uint64_t calls = 0;

    for (unsigned i = 0; i < sizeof versions / sizeof *versions; i++) {
        char name[96];

        snprintf(name, sizeof name, "%.*s%s", (int)base_length(symbol), symbol, versions[i]);
        calls += outcome_calls(of, name);
    }
    return calls;
}

static bool same_base(const char *one, const char *other)
{
    return base_length(one) == base_length(other) && !strncmp(one, other, base_length(one));
}

/* Of the symbols of one function only the first counts. */
static bool is_first(unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (same_base(functions[k], functions[i]))
            return false;
    return true;
}

static const struct documented *documentation(const char *symbol)
{
    if (!strcmp(symbol, "cuGraphInstantiateWithFlags")) /* which is what cuGraphInstantiate is a macro for */
        return documentation("cuGraphInstantiate");
    if (!strncmp(symbol, "cuMemDiscard", strlen("cuMemDiscard"))) /* which cuda.h lists no errors of */
        return documentation("cuMemPrefetchAsync");
    for (unsigned i = 0; i < DOCUMENTED; i++)
        if (same_base(documented[i].name, symbol))
            return &documented[i];
    return NULL;
}

/* The errors of a function. Strings are good until the next call. */
static unsigned errors_of(const char *symbol, const char *errors[ERRORS_MAX])
{
    static char text[1024];
    const struct documented *found = documentation(symbol);
    unsigned count = 0;
    char *rest = NULL;

    ck_assert_msg(found != NULL, "cuda.h documents no errors of %s", symbol);
    snprintf(text, sizeof text, "%s", found->errors);
    for (char *one = strtok_r(text, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        ck_assert_uint_lt(count, ERRORS_MAX - FATAL);
        errors[count++] = one;
    }
    for (unsigned i = 0; found->asynchronous && i < FATAL; i++)
        errors[count++] = fatal[i];
    ck_assert_uint_gt(count, 0);
    return count;
}

static const char *const named[] = {
#include "tests/integration/named_errors.h"
};

static bool is_named(const char *error)
{
    for (unsigned i = 0; i < sizeof named / sizeof *named; i++)
        if (!strcmp(error, named[i]))
            return true;
    return false;
}

static bool is_fatal(const char *error)
{
    for (unsigned i = 0; i < FATAL; i++)
        if (!strcmp(error, fatal[i]))
            return true;
    return false;
}

/* What the driver says is held is what the library says it holds: the job gave all of its own back. */
static void check_driver(const struct outcome *of)
{
    static const char *const same[][2] = {{"held_mappings", "held_mappings"},
                                          {"held_reservations", "held_reservations"},
                                          {"held_host_allocations", "held_host_allocations"},
                                          {"held_registrations", "held_registrations"},
                                          {"held_streams", "held_streams"},
                                          {"held_events", "held_events"}};

    for (unsigned i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_msg(outcome_number(of->report, same[i][0]) == outcome_number(of->statistics, same[i][1]),
                      "%s: %s %s", same[i][0], of->report, of->statistics);
    ck_assert_msg(outcome_number(of->report, "held_handles") ==
                      outcome_number(of->statistics, "held_frames") +
                          outcome_number(of->statistics, "held_host_handles"),
                  "held_handles: %s %s", of->report, of->statistics);
}

static const struct outcome *run(const struct scenario *scenario, const char *schedule, const char *fault)
{
    char variables[256];

    snprintf(variables, sizeof variables, "HBMSPILL_HBM_LIMIT=10M HBMSPILL_HOST_LIMIT=64M %s%s",
             *fault ? "SYNTHETIC_GPU_FAULT=" : "", fault);
    return scenario_run(scenario, schedule, variables);
}

static void judge(const struct scenario *scenario, const char *schedule, const char *fault, bool fatal_error,
                  const struct outcome *of)
{
    bool good = of->status == 0 || of->status == FAULT_GAVE_UP;

    if (!good)
        fprintf(stderr, "to repeat: FAULT_JOB=%s FAULT=%s tests/integration/test_faults\n%s", scenario->name,
                fault, of->err);
    ck_assert_msg(good, "%s, %s, %s: status %d", scenario->name, schedule, fault, of->status);
    if (!*of->report) /* there was no driver */
        return;
    ck_assert_msg(strstr(of->report, "\"hazards\": []") != NULL, "%s, %s: %s", scenario->name, fault,
                  of->report);
    ck_assert_uint_le(outcome_number(of->report, "peak_device_bytes"),
                      outcome_number(of->report, "hbm_bytes"));
    if (!*of->statistics) /* before CUDA was initialised */
        return;
    outcome_check_held(of, true);
    if (!fatal_error)
        check_driver(of);
}

/* With the fault in mind, so that the message names it. */
static char doing[256];

static void mark(void)
{
    FILE *file = fopen("test_faults.fault", "w");

    if (!file)
        return;
    fprintf(file, "%s\n", doing);
    fclose(file);
}

/* The runs of each job are counted. */
static bool in_part(unsigned run)
{
    const char *part = getenv("FAULT_PART"), *slash = part ? strchr(part, '/') : NULL;
    unsigned of = slash ? (unsigned)atoi(slash + 1) : 1;

    ck_assert_msg(of > 0, "FAULT_PART=%s is not K/N", part ? part : "");
    return run % of == (slash ? (unsigned)atoi(part) % of : 0);
}

static bool wanted(const char *fault)
{
    const char *only = getenv("FAULT");
    static unsigned run;

    return only ? !strcmp(only, fault) : in_part(run++);
}

static bool job_wanted(const struct scenario *scenario)
{
    const char *only = getenv("FAULT_JOB");

    return !only || !strcmp(only, scenario->name);
}

/* What was done for a job: for the line at its end. */
static struct {
    unsigned functions, errors; /* that were called; errors of these */
    unsigned long long calls;
    unsigned runs, completed, with_stride[STRIDES], errors_used;
} sampled;

/* stride: its index, or -1 for the one occurrence. */
static bool inject(const struct scenario *scenario, const char *symbol, unsigned long long occurrence,
                   int stride, const char *error)
{
    const char *schedule = occurrence % 3 == 1 ? "random:7" : occurrence % 3 ? "lazy" : "eager";
    const struct outcome *of;
    char fault[128], calls[64];

    snprintf(calls, sizeof calls, stride < 0 ? "%llu" : "%llu/%u", occurrence,
             stride < 0 ? 0 : strides[stride]);
    snprintf(fault, sizeof fault, "%.*s:%s:%s", (int)base_length(symbol), symbol, calls, error);
    if (!wanted(fault))
        return false;
    snprintf(doing, sizeof doing, "FAULT_JOB=%s FAULT=%s", scenario->name, fault);
    mark();
    of = run(scenario, schedule, fault);
    judge(scenario, schedule, fault, is_fatal(error), of);
    sampled.runs++;
    sampled.completed += of->status == 0;
    if (stride >= 0)
        sampled.with_stride[stride]++;
    return true;
}

/* Which of its errors a function has had, and which is next; how much of everything is to be done. */
struct turn {
    const char *errors[ERRORS_MAX];
    bool used[ERRORS_MAX];
    unsigned count, next, every;
};

static void inject_errors(const struct scenario *scenario, const char *symbol, unsigned long long occurrence,
                          int stride, struct turn *turn)
{
    unsigned chosen = turn->next++ % turn->count;

    for (unsigned i = 0; i < turn->count; i++)
        if (i == chosen || turn->every > 1 || (turn->every && is_named(turn->errors[i])))
            turn->used[i] |= inject(scenario, symbol, occurrence, stride, turn->errors[i]);
}

/* One stride by which it fails at least twice, another for each function and job; or all. */
static void inject_strides(const struct scenario *scenario, const char *symbol, unsigned long long calls,
                           struct turn *turn)
{
    int chosen = (int)(turn->next % STRIDES);

    while (chosen > 0 && 2 * strides[chosen] > calls)
        chosen--;
    for (int i = 0; i < STRIDES; i++)
        if (2 * strides[i] <= calls && (i == chosen || turn->every))
            inject_errors(scenario, symbol, strides[i], i, turn);
}

static void inject_all(const struct scenario *scenario, const char *symbol, unsigned long long calls)
{
    const char *text = getenv("FAULT") ? "2" : getenv("FAULT_EVERY");
    struct turn turn = {.every = text ? (unsigned)atoi(text) : 0};
    unsigned long long step = turn.every || calls <= SPREAD ? 1 : calls / SPREAD;

    if (!calls)
        return;
    turn.count = errors_of(symbol, turn.errors);
    turn.next = (unsigned)(base_length(symbol) + (size_t)(scenario - scenarios));
    for (unsigned long long n = 1; n <= calls; n += n < FIRST ? 1 : step)
        inject_errors(scenario, symbol, n, -1, &turn);
    inject_strides(scenario, symbol, calls, &turn);
    sampled.functions++;
    sampled.calls += calls;
    sampled.errors += turn.count;
    for (unsigned i = 0; i < turn.count; i++)
        sampled.errors_used += turn.used[i];
}

static void say_sampled(const struct scenario *scenario)
{
    unsigned repeated = 0;

    fprintf(stderr, "%s: %u functions, %llu calls, %u errors documented for these; of that %u faults:",
            scenario->name, sampled.functions, sampled.calls, sampled.errors, sampled.runs);
    for (unsigned i = 0; i < STRIDES; i++) {
        fprintf(stderr, " %u with stride %u,", sampled.with_stride[i], strides[i]);
        repeated += sampled.with_stride[i];
    }
    fprintf(stderr, " %u single, with %u of the errors; %u jobs completed\n", sampled.runs - repeated,
            sampled.errors_used, sampled.completed);
}

static void calls_fail(const struct scenario *scenario)
{
    static char report[64 << 10];
    const struct outcome *of;
    struct outcome without;

    if (!job_wanted(scenario))
        return;
    of = run(scenario, "random:7", "");
    ck_assert_msg(of->status == 0, "%s: status %d\n%s", scenario->name, of->status, of->err);
    judge(scenario, "random:7", "", false, of);
    ck_assert_uint_gt(outcome_number(of->statistics, "evictions"), 0);
    snprintf(report, sizeof report, "%s", of->report);
    without = (struct outcome){.report = report};
    for (unsigned i = 0; i < FUNCTIONS; i++)
        if (is_first(i))
            inject_all(scenario, functions[i], calls_of(&without, functions[i]));
    if (!getenv("FAULT") && !getenv("FAULT_PART"))
        ck_assert_uint_gt(sampled.completed, 0);
    say_sampled(scenario);
}

/* Functions of which no job here calls any version, and that do nothing of their own but be forwarded. */
static const char *const unreached[] = {
#include "tests/integration/faults_unreached.h"
};

static bool among_unreached(const char *symbol)
{
    for (unsigned i = 0; i < sizeof unreached / sizeof *unreached; i++)
        if (same_base(unreached[i], symbol))
            return true;
    return false;
}

static void every_function_is_reached(void)
{
    static bool reached[FUNCTIONS];
    unsigned wrong = 0;

    for (unsigned i = 0; i < SCENARIOS; i++) {
        const struct outcome *of = run(&scenarios[i], "eager", "");

        for (unsigned k = 0; k < FUNCTIONS; k++)
            reached[k] |= calls_of(of, functions[k]) > 0;
    }
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        ck_assert_msg(documentation(functions[i]) || among_unreached(functions[i]),
                      "cuda.h documents no errors of %s", functions[i]);
        if (!is_first(i) || reached[i] != among_unreached(functions[i]))
            continue;
        wrong++;
        fprintf(stderr,
                reached[i] ? "%s is reached: take it off the list\n" : "%s is called by no job here\n",
                functions[i]);
    }
    ck_assert_uint_eq(wrong, 0);
}

START_TEST(faults)
{
    const char *job = getenv("FAULT_JOB");

    if (_i < SCENARIOS)
        calls_fail(&scenarios[_i]);
    else if (!getenv("FAULT") && (!job || !strcmp(job, "none")))
        every_function_is_reached();
}
END_TEST

int main(int argc, char **argv)
{
    return scenarios_main_with(argc, argv, "faults", scenarios, SCENARIOS, 20, faults, SCENARIOS + 1);
}
