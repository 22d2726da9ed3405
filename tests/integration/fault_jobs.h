/*
 * fault_jobs.h - jobs for a driver whose calls fail: careful ones, that look at every status and, whatever
 * happened, give back all that they have.
 *
 * A job that gets an error ends with status FAULT_GAVE_UP after that. With RETRY in the environment a call
 * that fails is made once more first, as a job may that was told of an error. Contents are checked wherever
 * they are read.
 */
#ifndef HBMSPILL_TESTS_INTEGRATION_FAULT_JOBS_H
#define HBMSPILL_TESTS_INTEGRATION_FAULT_JOBS_H

enum { FAULT_GAVE_UP = 3 };

void fault_job_plain(void);  /* allocations, launches, copies, memsets in two streams */
void fault_job_rounds(void); /* a round that repeats, with temporaries */
void fault_job_graphs(void); /* built and captured, as a whole and node by node, changed */
void fault_job_pools(void);  /* small allocations, pools, memory of the job's own making, queries */

#endif
