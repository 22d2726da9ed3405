/*
 * work.c - what an operation or a graph node does: copies, fills, values; kernels are in launch.c.
 *
 * Ranges are checked when the work runs: a window address that is not mapped with the needed access ends the
 * operation with CUDA_ERROR_ILLEGAL_ADDRESS, as the copy engine of a GPU would.
 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

bool work_copy(struct work *to, const struct work *from)
{
    *to = *from;
    if (from->kind == WORK_KERNEL && !kernel_copy_params(&to->kernel, &from->kernel))
        return false;
    if (from->kind == WORK_COPY && from->copy.staged) {
        size_t bytes = from->copy.width * from->copy.height * from->copy.depth;
        to->copy.staged = malloc(bytes);
        if (!to->copy.staged)
            return false;
        memcpy(to->copy.staged, from->copy.staged, bytes);
        to->copy.src = (uint64_t)(uintptr_t)to->copy.staged;
    }
    return true;
}

void work_clear(struct work *work)
{
    switch (work->kind) {
    case WORK_KERNEL:
        free(work->kernel.params);
        break;
    case WORK_COPY:
        free(work->copy.staged);
        break;
    case WORK_GRAPH:
        graph_run_free_locked(work->graph);
        break;
    default:
        break;
    }
    work->kind = WORK_EMPTY;
}

const char *work_name(const struct work *work)
{
    switch (work->kind) {
    case WORK_KERNEL:
        return kernel_name(&work->kernel);
    case WORK_COPY:
        return "a copy";
    case WORK_MEMSET:
        return "a memset";
    case WORK_GRAPH:
        return "a graph";
    case WORK_WRITE_VALUE:
    case WORK_WAIT_VALUE:
        return "a memory operation";
    case WORK_HOST:
    case WORK_CALLBACK:
        return "a host function";
    default:
        return "nothing";
    }
}

static bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
    return a_size && b_size && a < b + b_size && b < a + a_size;
}

static uint64_t box_extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
    if (!width || !height || !depth)
        return 0;
    return (depth - 1) * slice + (height - 1) * pitch + width;
}

bool work_touches(const struct work *work, uint64_t address, uint64_t size)
{
    const struct copy_work *c = &work->copy;
    const struct memset_work *m = &work->memset;
    switch (work->kind) {
    case WORK_COPY:
        return overlap(c->dst, box_extent(c->width, c->height, c->depth, c->dst_pitch, c->dst_slice), address,
                       size) ||
               overlap(c->src, box_extent(c->width, c->height, c->depth, c->src_pitch, c->src_slice), address,
                       size);
    case WORK_MEMSET:
        return overlap(m->dst, box_extent(m->width * m->element, m->height, 1, m->pitch, 0), address, size);
    case WORK_WRITE_VALUE:
    case WORK_WAIT_VALUE:
        return overlap(work->value.address, work->value.wide ? 8 : 4, address, size);
    case WORK_KERNEL:
        return kernel_touches(&work->kernel, address, size);
    case WORK_GRAPH:
        return graph_run_touches(work->graph, address, size);
    default:
        return false;
    }
}

/* The CPU's address of [address, address + size), or NULL after saying what is wrong. */
static void *reach(uint64_t address, uint64_t size, bool write, const char *what)
{
    if (!window_has(address))
        return (void *)(uintptr_t)address;
    driver_acquire();
    bool ok = window_accessible_locked(address, size, write);
    if (!ok)
        report_hazard_locked("illegal-address", "%s %s 0x%llx, %llu bytes: not mapped with that access", what,
                             write ? "writes" : "reads", (unsigned long long)address,
                             (unsigned long long)size);
    driver_release();
    return ok ? window_alias(address) : NULL;
}

static void count_copy(const struct copy_work *copy)
{
    bool from = copy->src_place == PLACE_DEVICE, to = copy->dst_place == PLACE_DEVICE;
    count_add(from ? (to ? COUNT_D2D : COUNT_D2H) : (to ? COUNT_H2D : COUNT_H2H),
              copy->width * copy->height * copy->depth);
}

static CUresult run_copy(const struct copy_work *copy)
{
    size_t dst_bytes = box_extent(copy->width, copy->height, copy->depth, copy->dst_pitch, copy->dst_slice);
    size_t src_bytes = box_extent(copy->width, copy->height, copy->depth, copy->src_pitch, copy->src_slice);
    if (!dst_bytes)
        return CUDA_SUCCESS;
    const char *src = reach(copy->src, src_bytes, false, "a copy");
    char *dst = reach(copy->dst, dst_bytes, true, "a copy");
    if (!src || !dst)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++)
            memmove(dst + z * copy->dst_slice + y * copy->dst_pitch,
                    src + z * copy->src_slice + y * copy->src_pitch, copy->width);
    if (copy->corrupt)
        dst[copy->width / 2] ^= 4;
    count_copy(copy);
    return CUDA_SUCCESS;
}

/* Blocks of what is there already: a loop over elements would be one store each. */
static void fill(char *to, const uint32_t *value, size_t element, size_t bytes)
{
    enum { BLOCK = 4096 };
    size_t done = element < bytes ? element : bytes, more;
    memcpy(to, value, done); /* x86: the low bytes come first */
    for (; done < bytes; done += more) {
        more = done < BLOCK ? done : BLOCK;
        if (more > bytes - done)
            more = bytes - done;
        memcpy(to + done, to, more);
    }
}

static CUresult run_memset(const struct memset_work *m)
{
    char *row = reach(m->dst, box_extent(m->width * m->element, m->height, 1, m->pitch, 0), true, "a memset");
    if (!row)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t y = 0; y < m->height; y++, row += m->pitch) {
        if (m->element == 1)
            memset(row, (int)m->value, m->width);
        else
            fill(row, &m->value, m->element, m->width * m->element);
    }
    return CUDA_SUCCESS;
}

static CUresult run_write_value(const struct value_work *value)
{
    void *p = reach(value->address, value->wide ? 8 : 4, true, "a write value");
    if (!p)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (value->wide)
        __atomic_store_n((uint64_t *)p, value->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)p, (uint32_t)value->value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

CUresult work_run(const struct work *work, struct work_count *count, struct touched *touched)
{
    switch (work->kind) {
    case WORK_COPY:
        return run_copy(&work->copy);
    case WORK_MEMSET:
        return run_memset(&work->memset);
    case WORK_WRITE_VALUE:
        return run_write_value(&work->value);
    case WORK_KERNEL:
        return kernel_run(&work->kernel, count, touched);
    default:
        return CUDA_SUCCESS;
    }
}
