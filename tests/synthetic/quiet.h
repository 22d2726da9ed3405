/*
 * quiet.h - whether any thread of the program can run.
 */
#ifndef SYNTHETIC_QUIET_H
#define SYNTHETIC_QUIET_H

#include <stdbool.h>
#include <stdint.h>

/* The calling thread is the device's, not the program's. */
void quiet_exclude_me(void);

/* Since when something has waited for quiet: ns of real time, and of the process's CPU time. */
struct patience {
    uint64_t real, cpu;
};
struct patience patience_begin(void);

/*
 * True where every other thread of the process, but for the device's, sleeps, and no child of the process
 * runs; or where those that do have been waited for long enough, which quiet_hasty counts. driver_lock held:
 * so a thread that wants it is seen to run, and none of the device's has another lock, malloc's for one, that
 * a thread of the program could be waiting for.
 */
bool quiet_enough(const struct patience *since);
extern uint64_t quiet_hasty;

#endif
