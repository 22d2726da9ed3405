/*
 * behind.h - what another thread of the job may have to end before a stream goes on: a host function, a wait
 * for a value in memory or for a semaphore, an event that stands behind one of these. The cache is told, so
 * that what the stream touches behind it makes way last: who has to end it may be waiting for room.
 *
 * All functions may be called from any thread; no lock is held across a driver call.
 */
#ifndef HBMSPILL_HOOKS_BEHIND_H
#define HBMSPILL_HOOKS_BEHIND_H

#include "hooks/gpu.h"

/* Around the call that queues it. NULL: nobody is to be told, as during a capture. */
struct gpu *behind_begin(CUstream stream, bool per_thread);
void behind_end(struct gpu *gpu, CUstream stream, bool per_thread);

/* The event stands for what is in the stream now. */
void behind_recorded(CUevent event, CUstream stream, bool per_thread);
/* Whether who waits for the event may wait for another thread. */
bool behind_event(CUevent event);

#endif
