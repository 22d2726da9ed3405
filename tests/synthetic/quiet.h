/*
 * quiet.h - whether any thread of the program can run.
 */
#ifndef SYNTHETIC_QUIET_H
#define SYNTHETIC_QUIET_H

#include <stdbool.h>

/* The calling thread is the device's, not the program's. */
void quiet_exclude_me(void);
/*
 * True where every other thread of the process, but for the device's, sleeps, and no child of the process
 * runs. No lock is held; one thread at a time. Where /proc does not say: false.
 */
bool quiet_now(void);

#endif
