/*
 * planner.h - the best schedules for rounds that repeat, made by hbmspill-plan beside the job.
 *
 * A round is asked for once. A plan kept from an earlier start is read at once (plan_cache.h); else the
 * round is handed to a process (spawn.h), one at a time, and its plan is read when the file is there. What
 * goes wrong is said once, and the job goes on with the schedule it has.
 *
 * HBMSPILL_PLAN=FILE: the plan is in that file, and no process is started.
 *
 * Threads: any. Nothing here waits for the process.
 */
#ifndef HBMSPILL_HOOKS_PLANNER_H
#define HBMSPILL_HOOKS_PLANNER_H

#include "cache/cache.h"

/* The one planner of this process, for struct cache_config; NULL where there is to be none. */
const struct cache_planner *planner_get(void);

/* At exit: removes what is temporary. A process that runs ends with the job. */
void planner_exit(void);

#endif
