#include "hooks/held.h"
#include "hooks/gpu.h"
#include "hooks/graph.h"
#include "hooks/operation.h"
#include "shim/log.h"

struct cache_held held_given;

/* What can still be used or given back: the caches', and what graphs and calls keep. */
static void find(struct cache_audit *sum)
{
    struct gpu *gpu;

    *sum = (struct cache_audit){.held = {.events = exec_events(), .streams = operation_streams()}};
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
        log_error("audit", "%s: %llu records that do not agree, an error of hbmspill's", found.first_wrong,
                  (unsigned long long)found.wrong);
}
