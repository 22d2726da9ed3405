#include "hooks/held.h"
#include "hooks/device_host.h"
#include "hooks/gpu.h"
#include "hooks/graph.h"
#include "hooks/operation.h"
#include "shim/log.h"
#include <pthread.h>

struct cache_held held_given;

enum { REFUSED = 32 };

/* Under `lock', a leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUstream streams[REFUSED];
static CUevent events[REFUSED];
static unsigned stream_count, event_count;

/* Without room in the list one is lost, which the audit tells. */
#define DESTROY(list, count, one, call, kind)                                                                \
    do {                                                                                                     \
        pthread_mutex_lock(&lock);                                                                           \
        for (unsigned i = (count); i-- > 0;) {                                                               \
            if (hbmspill_real.call((list)[i]) == CUDA_SUCCESS) {                                             \
                held_add(kind, -1);                                                                          \
                (list)[i] = (list)[--(count)];                                                               \
            }                                                                                                \
        }                                                                                                    \
        if (hbmspill_real.call(one) == CUDA_SUCCESS)                                                         \
            held_add(kind, -1);                                                                              \
        else if ((count) < REFUSED)                                                                          \
            (list)[(count)++] = (one);                                                                       \
        pthread_mutex_unlock(&lock);                                                                         \
    } while (0)

void held_destroy_stream(CUstream stream)
{
    DESTROY(streams, stream_count, stream, cuStreamDestroy_v2, streams);
}

void held_destroy_event(CUevent event)
{
    DESTROY(events, event_count, event, cuEventDestroy_v2, events);
}

/* What can still be used or given back: the caches', and what graphs and calls keep. */
static void find(struct cache_audit *sum)
{
    struct gpu *gpu;

    *sum = (struct cache_audit){.held = {.events = exec_events(),
                                         .streams = operation_streams(),
                                         .registrations = pinned_registrations(),
                                         .host_allocations = pinned_host_allocations()}};
    device_host_refused(&sum->held);
    pthread_mutex_lock(&lock);
    sum->held.streams += stream_count;
    sum->held.events += event_count;
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        struct cache_audit one;

        cache_audit(gpu->cache, &one);
#define HELD_SUM(kind) sum->held.kind += one.held.kind;
        CACHE_HELD(HELD_SUM)
#undef HELD_SUM
        sum->allocations += one.allocations;
        sum->frames_in_use += one.frames_in_use;
        sum->slots_in_use += one.slots_in_use;
        sum->unended += one.unended;
        sum->wrong += one.wrong;
        if (!sum->first_wrong)
            sum->first_wrong = one.first_wrong;
    }
}

static void put(struct text *text, const char *prefix, const char *name, uint64_t value)
{
    text_put(text, ",\n  \"%s%s\": %lld", prefix, name, (long long)value);
}

void held_put_json(struct text *text)
{
    struct cache_audit found;

    find(&found);
    put(text, "", "live_allocations", found.allocations);
    put(text, "", "frames_in_use", found.frames_in_use);
    put(text, "", "slots_in_use", found.slots_in_use);
    put(text, "", "operations_unended", found.unended);
    put(text, "", "records_wrong", found.wrong);
#define HELD_PUT(kind)                                                                                       \
    put(text, "held_", #kind, held_given.kind);                                                              \
    put(text, "lost_", #kind, held_given.kind - found.held.kind);
    CACHE_HELD(HELD_PUT)
#undef HELD_PUT
    if (found.wrong && !found.unended)
        log_error(LOG_IN_AUDIT, "%s: %llu records that do not agree, an error of hbmspill's",
                  found.first_wrong, (unsigned long long)found.wrong);
}
