#include "hooks/behind.h"
#include "hooks/capture.h"
#include "hooks/trace.h"
#include "hooks/window.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct behind {
    CUevent event;
    UT_hash_handle hh;
};

/* Protects the table. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct behind *events;
static bool every;               /* one could not be entered: any may be */
static atomic_bool anything_yet; /* until then an event costs nothing */

struct gpu *behind_begin(CUstream stream, bool per_thread)
{
    struct gpu *gpu = shim_active() && !capture_graph(stream, per_thread) ? gpu_current() : NULL;
    bool entered;
    int error;

    if (!gpu)
        return NULL;
    entered = gpu_enter(gpu);
    error = cache_stream_hold(gpu->cache, stream_key_of(stream, per_thread));
    gpu_leave(entered);
    atomic_store_explicit(&anything_yet, true, memory_order_relaxed);
    return error ? NULL : gpu;
}

void behind_end(struct gpu *gpu, CUstream stream, bool per_thread)
{
    bool entered;

    if (!gpu)
        return;
    entered = gpu_enter(gpu);
    cache_stream_held(gpu->cache, stream_key_of(stream, per_thread));
    gpu_leave(entered);
}

/* With nothing held no event stands behind anything, and those that are gone are got rid of. */
static void forget_all(void)
{
    struct behind *one, *next;

    HASH_ITER(hh, events, one, next)
    {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): `next' was read before */
        HASH_DEL(events, one);
        free(one);
    }
    every = false;
}

static void note(CUevent event, bool is_behind)
{
    struct behind *one;

    HASH_FIND_PTR(events, &event, one);
    if (one && !is_behind) {
        HASH_DEL(events, one);
        free(one);
    } else if (!one && is_behind) {
        one = malloc(sizeof *one);
        if (one) {
            one->event = event;
            HASH_ADD_PTR(events, event, one);
        }
        every |= !one;
    }
}

/* With several devices nothing is forgotten by what one of them says. */
void behind_recorded(CUevent event, CUstream stream, bool per_thread)
{
    bool is_behind, any, any_other = false;
    struct gpu *gpu, *other;
    bool entered;

    if (!atomic_load_explicit(&anything_yet, memory_order_relaxed) || capture_graph(stream, per_thread))
        return;
    gpu = gpu_current();
    if (!gpu)
        return;
    for (unsigned i = 0; (other = gpu_at(i)); i++)
        any_other |= other != gpu;
    entered = gpu_enter(gpu);
    is_behind = cache_stream_behind(gpu->cache, stream_key_of(stream, per_thread), &any);
    gpu_leave(entered);
    pthread_mutex_lock(&lock);
    if (!any && !any_other)
        forget_all();
    else
        note(event, is_behind);
    pthread_mutex_unlock(&lock);
}

bool behind_event(CUevent event)
{
    struct behind *one = NULL;
    bool is_behind;

    if (!atomic_load_explicit(&anything_yet, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(events, &event, one);
    is_behind = one || every;
    pthread_mutex_unlock(&lock);
    return is_behind;
}

/* ---- hooks: held behind what is (window.h), or that is submitted, the call made, what it means noted ----
 */

#define NAMED(stream, per_thread) ((per_thread) && !(stream) ? CU_STREAM_PER_THREAD : (stream))

/*
 * trace: what is noted of the call. submit: submits what has to go first. hold: whether the call is taken
 * into the window's tail, which sets `status'. Where `waits', the stream then stands behind it.
 */
#define WAIT_HOOK(symbol, per_thread, trace, hold, submit, waits, parameters, arguments)                     \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        CUresult before, status;                                                                             \
        struct gpu *gpu;                                                                                     \
                                                                                                             \
        TRACE(trace);                                                                                        \
        if (!(per_thread) && shim_active() && (hold))                                                        \
            return status;                                                                                   \
        before = submit;                                                                                     \
        gpu = (waits) ? behind_begin(stream, per_thread) : NULL;                                             \
        status = hbmspill_real.symbol arguments;                                                             \
        behind_end(gpu, stream, per_thread);                                                                 \
        return before != CUDA_SUCCESS ? before : status;                                                     \
    }

#define WAIT_HOOKS(symbol, trace, hold, submit, waits, parameters, arguments)                                \
    WAIT_HOOK(symbol, false, trace(stream, false), hold, submit(stream, false), waits, parameters,           \
              arguments)                                                                                     \
    WAIT_HOOK(symbol##_ptsz, true, trace(stream, true), false, submit(stream, true), waits, parameters,      \
              arguments)

#define SUBMIT(stream, per_thread) window_submit_for(NAMED(stream, per_thread))
#define TRACE_SUBMIT(stream, per_thread) trace_submit(&(stream), per_thread)

WAIT_HOOKS(cuLaunchHostFunc, trace_host_function, window_hold_host_function(stream, function, data, &status),
           SUBMIT, true, (CUstream stream, CUhostFn function, void *data), (stream, function, data))
WAIT_HOOKS(cuStreamAddCallback, trace_host_function, false, SUBMIT, true,
           (CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
           (stream, callback, data, flags))
WAIT_HOOKS(cuWaitExternalSemaphoresAsync, TRACE_SUBMIT, false, SUBMIT, true,
           (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
            unsigned count, CUstream stream),
           (semaphores, params, count, stream))

/* What is held for the stream, and what the event stands for. */
static CUresult submit_both(CUstream stream, bool per_thread, CUevent event)
{
    CUresult status = SUBMIT(stream, per_thread), other = CUDA_SUCCESS;

    if (shim_active())
        other = window_submit_event(event);
    return status != CUDA_SUCCESS ? status : other;
}

#define SUBMIT_BOTH(stream, per_thread) submit_both(stream, per_thread, event)

#define TRACE_AFTER(stream, per_thread) trace_after(event, stream, per_thread)

WAIT_HOOKS(cuStreamWaitEvent, TRACE_AFTER, !flags && window_hold_wait(stream, event, &status), SUBMIT_BOTH,
           behind_event(event), (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))

#define RECORD_HOOK(symbol, per_thread, hold, parameters, arguments)                                         \
    CUresult hook_##symbol parameters                                                                        \
    {                                                                                                        \
        CUresult before, status;                                                                             \
                                                                                                             \
        TRACE(trace_record(event, stream, per_thread));                                                      \
        if (!(per_thread) && shim_active() && (hold) && window_hold_record(event, stream, &status))          \
            return status;                                                                                   \
        before = submit_both(stream, per_thread, event);                                                     \
        status = hbmspill_real.symbol arguments;                                                             \
        if (status == CUDA_SUCCESS && shim_active()) {                                                       \
            behind_recorded(event, stream, per_thread);                                                      \
            window_event_known(event);                                                                       \
        }                                                                                                    \
        return before != CUDA_SUCCESS ? before : status;                                                     \
    }

#define RECORD_HOOKS(symbol, hold, parameters, arguments)                                                    \
    RECORD_HOOK(symbol, false, hold, parameters, arguments)                                                  \
    RECORD_HOOK(symbol##_ptsz, true, false, parameters, arguments)

RECORD_HOOKS(cuEventRecord, true, (CUevent event, CUstream stream), (event, stream))
RECORD_HOOKS(cuEventRecordWithFlags, !flags, (CUevent event, CUstream stream, unsigned flags),
             (event, stream, flags))
