/*
 * operation.h - the way of every hooked operation through the cache.
 *
 *     touches_init, touches_add ...     what it names
 *     operation_begin                   not CUDA_SUCCESS: nothing was enqueued, return it to the job
 *     the real function
 *     operation_end
 *
 * While the stream is being captured nothing is begun: what becomes part of a graph is read from that.
 */
#ifndef HBMSPILL_HOOKS_OPERATION_H
#define HBMSPILL_HOOKS_OPERATION_H

#include "hooks/touches.h"

struct operation {
    struct gpu *gpu; /* NULL: nothing of ours is touched */
    struct cache_op op;
};

/* open: it may touch any allocation. what names it in a message ("kernel fusion_3"), NULL: no message if it
 * does not fit. Frees what touches holds. */
CUresult operation_begin(struct operation *operation, struct touches *touches, CUstream stream,
                         bool per_thread, bool open, const char *what);
void operation_end(struct operation *operation, CUresult status);

/* True where an operation should not start before the one ahead of it has ended (programmatic launch). */
static inline bool operation_handed_over(const struct operation *operation)
{
    return operation->gpu && operation->op.handed_over;
}

/* Makes an address of ours stay in HBM for good; foreign addresses are fine. */
CUresult operation_fix(uint64_t address, const char *what);

/* One line for the job's user: what was asked, which tier is full, how full, which variable to change. */
void operation_explain(const struct cache_failure *failure, const char *what);

#endif
