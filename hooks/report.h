/*
 * report.h - what is said at exit: one line where something was spilled, and the statistics file.
 */
#ifndef HBMSPILL_HOOKS_REPORT_H
#define HBMSPILL_HOOKS_REPORT_H

/* Once, at exit. Calls no driver function. */
void report_exit(void);

#endif
