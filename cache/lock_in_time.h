/*
 * lock_in_time.h - a lock that is waited for, but not without end: for the way out of the process, where the
 * thread that holds it may stand still.
 */
#ifndef HBMSPILL_CACHE_LOCK_IN_TIME_H
#define HBMSPILL_CACHE_LOCK_IN_TIME_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

enum { EXIT_PATIENCE_MS = 1000 };

/* Whether it is held now. */
static inline bool lock_in_time(pthread_mutex_t *lock, unsigned milliseconds)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_mutex_timedlock(lock, &until) == 0;
}

#endif
