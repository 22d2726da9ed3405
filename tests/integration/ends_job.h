/*
 * ends_job.h - the jobs of test_ends.c. The comment of each says how it ends, the table of the tests with
 * what status.
 */
#ifndef HBMSPILL_TESTS_INTEGRATION_ENDS_JOB_H
#define HBMSPILL_TESTS_INTEGRATION_ENDS_JOB_H

#include "tests/integration/scenario.h"

extern const struct scenario ends_jobs[];
extern const unsigned ends_job_count;

#endif
