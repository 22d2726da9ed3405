/*
 * capture.h - whether anybody is capturing, and staying out of it.
 *
 * The cache inserts nothing into a capture. What a captured operation touches is read from the graph that it
 * becomes part of when that is instantiated, and brought in when it is launched.
 */
#ifndef HBMSPILL_HOOKS_CAPTURE_H
#define HBMSPILL_HOOKS_CAPTURE_H

#include "hooks/gpu.h"

/* Captures now under way in the process. */
extern atomic_int captures_active;

/* The graph the stream is being captured into, NULL where it is not. One load while nobody captures. */
CUgraph capture_graph(CUstream stream, bool per_thread);

/* A gpu was made, perhaps while somebody captures. */
void capture_gpu_made(struct gpu *gpu);

/* Puts the calling thread's capture mode to relaxed while somebody captures; capture_restore takes the
 * result. */
int capture_relax(void);
void capture_restore(int mode);

#endif
