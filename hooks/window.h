/*
 * window.h - operations held back, in order, and submitted together, so that the cache sees them coming.
 *
 * Launches of closed kernels, copies and memsets within the device and stream-ordered frees may be held once
 * memory was short (HBMSPILL_WINDOW). Everything by which the job could notice submits them first: any wait,
 * query, event, host function or other operation, a full window, and 200 us without a call, by the one helper
 * thread. Order is that of the calls, over all streams and threads.
 *
 * A held operation has a copy of its parameters. An error of its submission is returned by the next call that
 * submits, as CUDA returns errors of work queued earlier; what was held behind it is not launched (frees are
 * done).
 *
 * Threads: any. While somebody submits, others may go on holding; whoever must submit waits for its turn.
 */
#ifndef HBMSPILL_HOOKS_WINDOW_H
#define HBMSPILL_HOOKS_WINDOW_H

#include "hooks/kernel.h"
#include "hooks/touches.h"

/* Not 0 while something is held or being submitted. */
extern atomic_int window_busy;

/* Submits what is held and waits until others have. An error of an operation submitted since the last call.
 */
CUresult window_submit_held(void);

static inline CUresult window_submit(void)
{
    return shim_active() && atomic_load_explicit(&window_busy, memory_order_acquire) ? window_submit_held()
                                                                                     : CUDA_SUCCESS;
}

/* The same where the caller has no use for the error: the next call that submits returns it. */
void window_submit_quietly(void);

/*
 * Each of these takes the operation if it can be held: true, and *status is what to return to the job. False:
 * it is the caller's, which submits what is held first.
 */
bool window_hold_launch(const struct kernel *kernel, const CUlaunchConfig *config, bool plain, void **params,
                        const struct touches *touches, CUresult *status);
bool window_hold_copy(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream, CUresult *status);
bool window_hold_memset(CUdeviceptr dst, unsigned value, unsigned width, size_t count, CUstream stream,
                        CUresult *status);
/* Also one that is not ours to free, so that it stays behind what uses it. */
bool window_hold_free(CUdeviceptr address, CUstream stream, CUresult *status);

/* At exit: nothing is submitted any more. */
void window_stop(void);

#endif
