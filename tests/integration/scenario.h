/*
 * scenario.h - a job in C, run as a process of its own on the synthetic GPU with the library preloaded.
 *
 * A test program is a table of scenarios. Called without arguments it is a Check program: every scenario is
 * run in a process of its own: without the library on a big GPU, then with it on a small one under every
 * schedule; what the process left behind is looked at. Called as `PROGRAM NAME` it is the job of that
 * scenario; the environment is then the caller's, and a failure prints the command that repeats it.
 */
#ifndef HBMSPILL_TESTS_INTEGRATION_SCENARIO_H
#define HBMSPILL_TESTS_INTEGRATION_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

/* What a run left behind. Strings are valid until the next run. */
struct outcome {
    int status; /* exit status, or 128 + the signal */
    const char *err;
    const char *statistics; /* the preloaded library's JSON, "" where it wrote none */
    const char *report;     /* the synthetic GPU's JSON */
};

enum {
    SCENARIO_ONCE = 1,        /* the eager schedule only */
    SCENARIO_SPILLS = 2,      /* at least one eviction must have happened */
    SCENARIO_UNCOUNTED = 4,   /* makes copies that the statistics do not give the bytes of */
    SCENARIO_HAZARDS = 8,     /* the job itself does what the driver calls a hazard */
    SCENARIO_NOT_NATIVE = 16, /* is about what only the library does */
};

struct scenario {
    const char *name;
    void (*job)(void);
    unsigned flags;
    const char *hbm;                         /* SYNTHETIC_GPU_HBM of the small GPU; NULL: 40M */
    const char *variables;                   /* more NAME=VALUE, separated by spaces; they win */
    void (*inspect)(const struct outcome *); /* may be NULL; fails by ck_assert_ */
};

/* main() of a test program. seconds: the limit for one run. */
int scenarios_main(int argc, char **argv, const char *suite, const struct scenario *scenarios, unsigned count,
                   unsigned seconds);

/*
 * The same with one more test, a loop over 0 to loops - 1 that calls scenario_run itself; the scenarios are
 * then not run otherwise.
 */
struct TTest;
int scenarios_main_with(int argc, char **argv, const char *suite, const struct scenario *scenarios,
                        unsigned count, unsigned seconds, const struct TTest *test, int loops);

/* The number behind "name": in a JSON text; fails the test where there is none. */
uint64_t outcome_number(const char *json, const char *name);
/* The calls of a driver function that the synthetic GPU counted, 0 where it was not called. */
uint64_t outcome_calls(const struct outcome *outcome, const char *function);

/*
 * By the library's own account: no operation was left half done, its records agree, and nothing that the
 * driver gave it was lost. all_freed: the job gave everything back, so nothing is in use either.
 */
void outcome_check_held(const struct outcome *outcome, bool all_freed);

/* Runs the job once with more variables on top: for tests that compare runs. */
const struct outcome *scenario_run(const struct scenario *scenario, const char *schedule,
                                   const char *variables);

#endif
