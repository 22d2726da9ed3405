/*
 * events_timers.h - timing events of a device, read on the clock of the host.
 *
 * The device's clock is laid on the host's at an event (the anchor) that is recorded in a stream that is
 * idle. Later ones take its place, so that what is measured from it is short: CUDA tells times as floats.
 *
 * Called with the lock of events.c, and the gpu's context current. Nothing here waits.
 */
#ifndef HBMSPILL_HOOKS_EVENTS_TIMERS_H
#define HBMSPILL_HOOKS_EVENTS_TIMERS_H

#include "hooks/gpu.h"

/* Makes the anchor, the first time; *made: this was it. False: nothing can be timed on that device. */
bool timers_anchor(struct gpu *gpu, bool *made);
/* A timing event, recorded in the stream; NULL where that failed. */
CUevent timers_record(struct gpu *gpu, CUstream stream);
void timers_give(struct gpu *gpu, CUevent event);
/*
 * When two events happened, the latter behind the former, in nanoseconds since 1970. -EBUSY: not both yet;
 * -EIO. *start may be exchanged for another, which is then the caller's to give back.
 */
int timers_read(struct gpu *gpu, CUevent *start, CUevent end, uint64_t *begun, uint64_t *ended);
/* The same of one that has happened. */
int timers_read_one(struct gpu *gpu, CUevent event, uint64_t *time);
/* The context is gone, and all its events. */
void timers_gone(struct gpu *gpu);

#endif
