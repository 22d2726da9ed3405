/*
 * report.h - what is said at exit: one line where something was spilled, and the statistics file, which may
 * be written before, too.
 */
#ifndef HBMSPILL_HOOKS_REPORT_H
#define HBMSPILL_HOOKS_REPORT_H

/* Once, when CUDA has been started. */
void report_start(void);

/* Once, at exit. Calls no driver function. */
void report_exit(void);

/*
 * From hooks that are called often enough, with no lock held: writes the file where HBMSPILL_STATS_EVERY says
 * that it is time. What takes a search of all records is in the last one only. Two loads where that is not
 * set.
 */
void report_tick(void);

#endif
