/*
 * timeline_cost.c - how long the modelled device takes for an operation.
 *
 * A kernel: its lane-instructions at the machine's rate, the bytes it touched at the rate of its memory, or
 * what of that is the host's memory at the link's, whichever is longest, and a launch's gap. Bytes are
 * counted by the interpreter, in pieces of 256, each once where it is read and once where it is written, as
 * if the caches were perfect; so they do not depend on which allocator laid the memory out. With a size scale
 * bytes and instructions are so many times as many.
 */
#include "model/machine.h"
#include "timeline.h"

static bool on_host(enum place place)
{
    return place != PLACE_DEVICE;
}

bool work_is_heavy(const struct work *work)
{
    switch (work->kind) {
    case WORK_KERNEL:
    case WORK_COPY:
    case WORK_MEMSET:
    case WORK_GRAPH:
    case WORK_HOST:
    case WORK_CALLBACK:
        return true;
    default:
        return false;
    }
}

int work_engine(const struct work *work)
{
    if (work->kind != WORK_COPY || on_host(work->copy.dst_place) == on_host(work->copy.src_place))
        return -1;
    return on_host(work->copy.dst_place) ? ENGINE_OUT : ENGINE_IN;
}

double work_bytes(const struct work *work)
{
    const struct copy_work *c = &work->copy;
    const struct memset_work *m = &work->memset;
    double bytes = 0;
    if (work->kind == WORK_COPY)
        bytes = (double)c->width * (double)c->height * (double)c->depth;
    else if (work->kind == WORK_MEMSET)
        bytes = (double)m->width * (double)m->height * m->element;
    return bytes * options.size_scale;
}

double kernel_ns(const struct work_count *count)
{
    double compute = (double)count->instructions / MACHINE_INSTRUCTION_RATE;
    double memory = (double)count->bytes / MACHINE_HBM_RATE;
    double in = (double)count->host_read / options.link_in,
           out = (double)count->host_written / options.link_out;
    double own = (compute > memory ? compute : memory) * options.compute_scale, link = in > out ? in : out;
    return MACHINE_KERNEL_GAP + (own > link ? own : link) * 1e9 * options.size_scale;
}

double work_ns(const struct work *work)
{
    double bytes = work_bytes(work);
    int engine = work_engine(work);
    switch (work->kind) {
    case WORK_COPY:
        if (engine >= 0)
            return MACHINE_COPY_LATENCY +
                   bytes * 1e9 / (engine == ENGINE_IN ? options.link_in : options.link_out);
        if (on_host(work->copy.dst_place))
            return MACHINE_COPY_LATENCY + bytes * 1e9 / MACHINE_HOST_RATE;
        return MACHINE_KERNEL_GAP + 2 * bytes * 1e9 / MACHINE_HBM_RATE; /* read and written */
    case WORK_MEMSET:
        return MACHINE_KERNEL_GAP + bytes * 1e9 / MACHINE_HBM_RATE;
    case WORK_HOST:
    case WORK_CALLBACK:
        return MACHINE_HOST_FUNCTION;
    default:
        return 0;
    }
}
