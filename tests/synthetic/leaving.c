/*
 * leaving.c - memory that is taken away: is somebody still going to touch it?
 *
 * Two questions. What waits in a queue, of which only the pointers are known, a kernel's being its
 * parameters; and what has run (touches.h), which the host or the freeing stream has to know of.
 */
#include "clock.h"
#include "touches.h"

#include <stdio.h>

static const char *work_text(const struct work *work, uint64_t stream_id)
{
    static char text[160];
    snprintf(text, sizeof(text), "%s%.100s in stream %llu", work->kind == WORK_KERNEL ? "kernel " : "",
             work_name(work), (unsigned long long)stream_id);
    return text;
}

static bool note_users(const char *function, const struct engine *engine, uint64_t address, uint64_t size)
{
    for (CUcontext ctx = engine->device->contexts; ctx; ctx = ctx->next) {
        for (const struct CUstream_st *s = ctx->streams; s; s = s->next) {
            for (const struct op *op = s->head; op; op = op->next) {
                if (!work_touches(&op->work, address, size))
                    continue;
                report_hazard_locked("memory-in-use", "%s of 0x%llx, %llu bytes, before %s has ended",
                                     function, (unsigned long long)address, (unsigned long long)size,
                                     work_text(&op->work, s->id));
                return true;
            }
        }
    }
    return false;
}

void memory_leaves_locked(const char *function, uint64_t address, uint64_t size, bool pages)
{
    bool said = false;
    for (int i = 0; i < device_count; i++) {
        struct engine *engine = devices[i].engine;
        if (!engine)
            continue;
        if (engine->queued && !said)
            said = note_users(function, engine, address, size);
        /* The hardware would let it run into the missing page; here nothing is torn from under a running
         * copy. */
        clock_inside_locked(1);
        while ((engine->running && work_touches(engine->running, address, size)) ||
               (engine->beside && work_touches(engine->beside, address, size)))
            pthread_cond_wait(&driver_done, &driver_lock);
        clock_inside_locked(-1);
    }
    if (!said)
        touches_leave_locked(function, address, size, pages);
}

/*
 * Memory is freed here in its stream's order. What was submitted before and still touches it in another
 * stream was not ordered before the free, or it would have ended: "use after free" of the stream ordered
 * allocator.
 */
void memory_freed_locked(const struct op *op)
{
    for (const struct CUstream_st *s = op->ctx->streams; s; s = s->next) {
        for (const struct op *other = s->head; other && s != op->stream && other->seq < op->seq;
             other = other->next) {
            if (!work_touches(&other->work, op->work.free.address, op->work.free.size))
                continue;
            report_hazard_locked("freed-in-use", "memory at 0x%llx freed in stream %llu before %s has ended",
                                 (unsigned long long)op->work.free.address,
                                 (unsigned long long)op->stream->id, work_text(&other->work, s->id));
            return;
        }
    }
}
