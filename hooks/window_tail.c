/*
 * window_tail.c - events and host functions behind what is held.
 */
#include "hooks/behind.h"
#include "hooks/window_internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct known {
    CUevent event;
    UT_hash_handle hh;
};

/* Protects the table. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *known;
static atomic_bool any_known;

void window_event_known(CUevent event)
{
    struct known *one;

    if (!window_may_hold(NULL))
        return;
    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(known, &event, one);
    if (!one && (one = malloc(sizeof *one))) {
        one->event = event;
        HASH_ADD_PTR(known, event, one);
        atomic_store_explicit(&any_known, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
}

void window_event_gone(CUevent event)
{
    struct known *one;

    if (!atomic_load_explicit(&any_known, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(known, &event, one);
    if (one) {
        HASH_DEL(known, one);
        free(one);
    }
    pthread_mutex_unlock(&lock);
}

static bool is_known(CUevent event)
{
    struct known *one;

    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(known, &event, one);
    pthread_mutex_unlock(&lock);
    return one != NULL;
}

/* Something is held for the stream, or being submitted: what is not behind that need not be held. */
static bool has_held(CUstream stream)
{
    return atomic_load_explicit(&window_streams, memory_order_acquire) & window_bit(stream) &&
           window_may_hold(stream);
}

bool window_hold_record(CUevent event, CUstream stream, CUresult *status)
{
    return has_held(stream) && is_known(event) &&
           window_end(window_begin_tail(HELD_RECORD, stream, event), status);
}

bool window_hold_wait(CUstream stream, CUevent event, CUresult *status)
{
    if ((!has_held(stream) && (window_event(event) < EVENT_HELD || !window_may_hold(stream))) ||
        !is_known(event))
        return false;
    return window_end(window_begin_tail(HELD_WAIT, stream, event), status);
}

bool window_hold_host_function(CUstream stream, CUhostFn function, void *data, CUresult *status)
{
    struct held *held;

    if (!has_held(stream) || !function)
        return false;
    held = window_begin_tail(HELD_HOST_FUNCTION, stream, NULL);
    if (held) {
        held->host.function = function;
        held->host.data = data;
    }
    return window_end(held, status);
}

CUresult window_tail_submit(const struct held *held)
{
    struct gpu *gpu = NULL;
    CUresult status;

    switch (held->kind) {
    case HELD_RECORD:
        status = hbmspill_real.cuEventRecord(held->event, held->stream);
        if (status == CUDA_SUCCESS)
            behind_recorded(held->event, held->stream, false);
        return status;
    case HELD_WAIT:
        gpu = behind_event(held->event) ? behind_begin(held->stream, false) : NULL;
        status = hbmspill_real.cuStreamWaitEvent(held->stream, held->event, 0);
        break;
    default:
        gpu = behind_begin(held->stream, false);
        status = hbmspill_real.cuLaunchHostFunc(held->stream, held->host.function, held->host.data);
        break;
    }
    behind_end(gpu, held->stream, false);
    return status;
}
