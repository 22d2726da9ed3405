/*
 * HBMSPILL_VERIFY=1: a job is as right as without; and whatever happens to a piece in its slot or on the way,
 * and where a copy in is left out, the process ends before the job could use it, and says which allocation
 * it was.
 */
#include "tests/integration/fault_jobs.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct scenario scenarios[] = {
    {.name = "plain", .job = fault_job_plain, .hbm = "24M"},
    {.name = "rounds", .job = fault_job_rounds, .hbm = "24M"},
    {.name = "graphs", .job = fault_job_graphs, .hbm = "24M"},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios, ABORTED = 128 + SIGABRT, FAULTS = 20 };

static const struct outcome *run(const struct scenario *scenario, const char *schedule, const char *more)
{
    char variables[256];

    snprintf(variables, sizeof variables,
             "HBMSPILL_HBM_LIMIT=10M HBMSPILL_HOST_LIMIT=64M HBMSPILL_VERIFY=1 %s", more);
    return scenario_run(scenario, schedule, variables);
}

static void check_said(const struct outcome *of, const char *what)
{
    ck_assert_msg(of->status == ABORTED, "%s: status %d\n%s", what, of->status, of->err);
    ck_assert_msg(strstr(of->err, "verify] the allocation at 0x") != NULL, "%s: %s", what, of->err);
    /* It is one of the job's, of two MiB, and where it was made is told. */
    ck_assert_msg(strstr(of->err, "(2097152 bytes, made in test_verify!") != NULL, "%s: %s", what, of->err);
}

static void good_jobs(void)
{
    static const char *const schedules[] = {"eager", "lazy", "random:3"};

    for (unsigned i = 0; i < SCENARIOS; i++)
        for (unsigned k = 0; k < 3; k++) {
            const struct outcome *of = run(&scenarios[i], schedules[k], "");

            ck_assert_msg(of->status == 0, "%s, %s: %d\n%s", scenarios[i].name, schedules[k], of->status,
                          of->err);
            ck_assert_msg(strstr(of->report, "\"hazards\": []") != NULL, "%s", of->report);
            outcome_check_held(of, true);
            ck_assert_uint_gt(outcome_number(of->statistics, "bytes_in"), 0);
            ck_assert_uint_eq(outcome_number(of->statistics, "verified_bytes"),
                              outcome_number(of->statistics, "bytes_in") +
                                  outcome_number(of->statistics, "bytes_out"));
        }
}

static void mutations(void)
{
    for (unsigned i = 0; i < SCENARIOS; i++) {
        check_said(run(&scenarios[i], "random:3", "HBMSPILL_TEST_MUTATION=flip-slot-bit"), "flip-slot-bit");
        check_said(run(&scenarios[i], "random:3", "HBMSPILL_TEST_MUTATION=skip-copy-in"), "skip-copy-in");
    }
}

/*
 * Of the library's copies every one that is not of a measurement of the link, which nobody reads. What is
 * wrong is the middle of the copy: of a piece nothing that the job looks at, so what the job finds wrong was
 * a copy of its own. In virtual time as many measurements are made every time.
 */
static void corrupted_copies(void)
{
    unsigned noticed = 0;

    for (unsigned i = 0; i < FAULTS; i++) {
        const struct outcome *of;
        char fault[120];

        snprintf(
            fault, sizeof fault,
            "WHOLE=1 SYNTHETIC_GPU_CLOCK=1 HBMSPILL_WINDOW=off SYNTHETIC_GPU_FAULT=cuMemcpyAsync:%u:CORRUPT",
            1 + 3 * i);
        of = run(&scenarios[0], i % 2 ? "random:5" : "lazy", fault);
        if (of->status == 0 || (of->status == 1 && strstr(of->err, "word 128 of buffer")))
            continue;
        check_said(of, fault);
        noticed++;
    }
    ck_assert_msg(noticed >= FAULTS / 2, "%u of %d corrupted copies were noticed", noticed, (int)FAULTS);
}

START_TEST(verify)
{
    static void (*const parts[])(void) = {good_jobs, mutations, corrupted_copies};

    parts[_i]();
}
END_TEST

int main(int argc, char **argv)
{
    return scenarios_main_with(argc, argv, "verify", scenarios, SCENARIOS, 20, verify, 3);
}
