/*
 * quiet.h - whether any thread of the program can run.
 */
#ifndef SYNTHETIC_QUIET_H
#define SYNTHETIC_QUIET_H

/* The calling thread is the device's, not the program's. */
void quiet_exclude_me(void);
enum quiet {
    QUIET, /* every other thread of the process, but for the device's, sleeps, and no child runs */
    QUIET_THREAD_RUNS, /* one does not, or could not be looked at */
    QUIET_CHILD_RUNS,
};
/*
 * driver_lock held: so a thread that wants it is seen to run, and none of the device's has another lock,
 * malloc's for one, that a thread of the program could be waiting for.
 */
enum quiet quiet_now(void);

#endif
