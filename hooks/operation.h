/*
 * operation.h - the way of every hooked operation through the cache.
 *
 *     touches_init, touches_add ...     what it names
 *     operation_begin                   not CUDA_SUCCESS: nothing was enqueued, return it to the job
 *     the real function
 *     operation_end
 *
 * While the stream is being captured nothing runs: what it touches is brought in when the graph is launched.
 * But the driver looks up the addresses of a copy or memset at the call, so they are mapped meanwhile.
 */
#ifndef HBMSPILL_HOOKS_OPERATION_H
#define HBMSPILL_HOOKS_OPERATION_H

#include "hooks/events.h"
#include "hooks/touches.h"

struct operation {
    struct gpu *gpu; /* NULL: nothing of ours is touched */
    bool call;       /* it queues nothing */
    struct cache_op op;
    struct events_work work;
};

/* Nothing was begun: the end does nothing. */
static inline void operation_none(struct operation *operation)
{
    operation->gpu = NULL;
    operation->work.gpu = NULL;
}

/* open: it may touch any allocation. what names it in a message ("kernel fusion_3"), NULL: no message if it
 * does not fit. Frees what touches holds. */
CUresult operation_begin(struct operation *operation, struct touches *touches, CUstream stream,
                         bool per_thread, bool open, const char *what);
/* The same for a launch of a kernel in a stream that is not captured. */
CUresult operation_begin_launch(struct operation *operation, struct touches *touches, CUstream stream,
                                bool per_thread, bool open, const char *kernel);
/* The same around a call that queues nothing and in which the driver looks up what the addresses are. */
CUresult operation_begin_call(struct operation *operation, struct touches *touches, const char *what);
void operation_end(struct operation *operation, CUresult status);
/* How many streams of the driver's are kept for such calls. */
unsigned operation_streams(void);

/* True where an operation should not start before the one ahead of it has ended (programmatic launch). */
static inline bool operation_handed_over(const struct operation *operation)
{
    return operation->gpu && operation->op.handed_over;
}

/* Makes an address of ours stay in HBM for good; foreign addresses are fine. */
CUresult operation_fix(uint64_t address, const char *what);

/* One line for the job's user: what was asked, which tier is full, how full, which variable to change. */
void operation_explain(const struct gpu *gpu, const struct cache_failure *failure, const char *what);

#endif
