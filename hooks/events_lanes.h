/*
 * events_lanes.h - where in a file of events things are drawn: a lane for each stream of the job, and three
 * of ours, on each device.
 *
 * Called with the lock of events.c.
 */
#ifndef HBMSPILL_HOOKS_EVENTS_LANES_H
#define HBMSPILL_HOOKS_EVENTS_LANES_H

#include "cache/events.h"
#include "hooks/gpu.h"

/* Of a device. */
enum { LANE_IN = 1, LANE_OUT, LANE_WINDOWS, LANE_STREAM, LANES = 100 };

/* Writes the names of ours: once for a device, ahead of what is in them. */
void lanes_name_own(struct events_writer *writer, const struct gpu *gpu);

/* The lane of a stream; of the first 64, on all devices, each has its own, which is named here at first. */
uint32_t lane_of_stream(struct events_writer *writer, struct gpu *gpu, CUstream stream, bool per_thread);
/* The same of one that has had work; each thread's default stream is the first thread's. */
uint32_t lane_of_handle(const struct gpu *gpu, CUstream stream);

/* Its number in the file, in which those of all devices are. */
uint32_t lane_id(const struct gpu *gpu, uint32_t lane);
/* Where the last work in it ended, nanoseconds since 1970: for the caller to keep. */
uint64_t *lane_end(const struct gpu *gpu, uint32_t lane);

#endif
