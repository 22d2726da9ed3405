/*
 * window.h - operations held back, in order, and submitted together, so that the cache sees them coming.
 *
 * Launches of closed kernels, copies and memsets within the device and stream-ordered frees may be held once
 * memory was short (HBMSPILL_WINDOW). Everything by which the job could notice submits them first: any wait,
 * query or other operation, a full window, and a while without a call, by the one helper thread. Order is
 * that of the calls, over all streams and threads.
 *
 * Events and host functions end a run of operations. They may be held as well, as the window's tail, in which
 * only they and frees are: a program tends to give back what it needs no longer when it has just asked to be
 * told of its end (XLA's arguments that are not donated), and what is freed in the window is known dead.
 *
 * A held operation has a copy of its parameters. What the driver or the cache would refuse at once is not
 * held, so that the job is told at the call. If a submission fails all the same (the host tier is full, the
 * driver fails), what was held behind it is left undone, and as after a kernel's fault in CUDA every later
 * call but those that give something back returns the error: the job was told that the operation was
 * accepted, and must not go on with what it did not do.
 *
 * Threads: any. While somebody submits, what others do in the same streams is held behind it; in other
 * streams it is done at once, so that a thread that something already submitted waits for (a host function, a
 * value) can go on.
 */
#ifndef HBMSPILL_HOOKS_WINDOW_H
#define HBMSPILL_HOOKS_WINDOW_H

#include "hooks/kernel.h"
#include "hooks/touches.h"
#include <stdatomic.h>

/* Streams that have something held or being submitted, as bits of window_bit; all once a submission failed.
 */
extern _Atomic uint64_t window_streams;

/* The legacy stream is ordered with every blocking one, so it stands for all. */
static inline uint64_t window_bit(CUstream stream)
{
    if (!stream || stream == CU_STREAM_LEGACY)
        return UINT64_MAX;
    return UINT64_C(2) << ((uint64_t)(uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15) >> 58) % 63;
}

/* Submits what is held and waits until others have. The error of a submission, this one's or an earlier
 * one's. */
CUresult window_submit_held(void);

/* Before a call that may concern any stream. */
static inline CUresult window_submit(void)
{
    return shim_active() && atomic_load_explicit(&window_streams, memory_order_acquire) ? window_submit_held()
                                                                                        : CUDA_SUCCESS;
}

/*
 * Before a call in a stream: only what is held for that stream has to go first. Between streams CUDA knows no
 * order but by events, and an event is recorded by such a call.
 */
static inline CUresult window_submit_for(CUstream stream)
{
    return shim_active() && atomic_load_explicit(&window_streams, memory_order_acquire) & window_bit(stream)
               ? window_submit_held()
               : CUDA_SUCCESS;
}

/* The same where the caller has no use for the error. */
void window_submit_quietly(CUstream stream);

/*
 * Each of these takes the operation if it can be held: true, and *status is what to return to the job. False:
 * it is the caller's, which submits what is held first. That of a launch notes its kind in touches either
 * way.
 */
bool window_hold_launch(const struct kernel *kernel, const CUlaunchConfig *config, bool plain, void **params,
                        struct touches *touches, CUresult *status);
bool window_hold_copy(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream, CUresult *status);
bool window_hold_memset(CUdeviceptr dst, unsigned value, unsigned width, size_t count, CUstream stream,
                        CUresult *status);
/* Also one that is not ours to free, so that it stays behind what uses it. */
bool window_hold_free(CUdeviceptr address, CUstream stream, CUresult *status);

/*
 * An event is recorded or waited for in the stream, a host function put into it, behind what is held for it.
 * Events only that were recorded in this context before: of any other the driver may say that it is wrong.
 */
bool window_hold_record(CUevent event, CUstream stream, CUresult *status);
bool window_hold_wait(CUstream stream, CUevent event, CUresult *status);
bool window_hold_host_function(CUstream stream, CUhostFn function, void *data, CUresult *status);

/* One was recorded by a call that the driver took. It is gone. */
void window_event_known(CUevent event);
void window_event_gone(CUevent event);

/* Nothing of it is held; waits are; its record is; that is being submitted. */
enum window_event { EVENT_NOT_HELD, EVENT_WAITED_FOR, EVENT_HELD, EVENT_SUBMITTING };

extern atomic_bool window_has_events;
enum window_event window_find_event(CUevent event);

/* What is held of the event. */
static inline enum window_event window_event(CUevent event)
{
    return atomic_load_explicit(&window_has_events, memory_order_acquire) ? window_find_event(event)
                                                                          : EVENT_NOT_HELD;
}

/* Before a call for which it matters what the event stands for. */
static inline CUresult window_submit_record(CUevent event)
{
    return window_event(event) >= EVENT_HELD ? window_submit_held() : CUDA_SUCCESS;
}

/* Before a call that makes another of it. */
static inline CUresult window_submit_event(CUevent event)
{
    return window_event(event) != EVENT_NOT_HELD ? window_submit_held() : CUDA_SUCCESS;
}

/*
 * An operation that is not held is about to begin, in its gpu's context: where none ever are
 * (HBMSPILL_WINDOW, several devices), the cache takes it for a window by itself.
 */
void window_alone(struct gpu *gpu, const struct touches *touches);
/* The same for one that goes alone also where others are held (cache_copy_is_birth). */
void window_alone_always(struct gpu *gpu, const struct touches *touches);

/* Something that the job takes for one operation was done in part: as when a submission fails. */
void window_fail(CUresult status);

/* At exit: nothing is submitted any more. */
void window_stop(void);

#endif
