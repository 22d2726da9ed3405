/*
 * engine.c - the thread that runs a device's operations, in an order that the schedule allows.
 *
 * eager: what can run runs at once, oldest submission first. lazy: nothing runs until somebody waits or
 * queries, the job has been silent for IDLE_NS, or something has waited for PATIENCE_NS (a GPU makes progress
 * by itself). random: any stream's first operation, and now and then nothing for a while; decided by the seed
 * and the order of submission.
 *
 * Order is CUDA's and no more: within a stream; event waits; and for the legacy stream "Stream
 * synchronization behavior": it waits for all blocking streams and they for it, by order of submission.
 *
 * Within a stream there is one exception, programmatic stream serialization: "the kernel uses programmatic
 * means to resolve its stream dependency", and its "execution [may] overlap with the previous kernel in the
 * stream". A random schedule runs such a kernel, now and then, when the one ahead could start but has done
 * nothing yet. It still ends behind it: an event "captures" all that is ahead of it.
 */
#include "clock.h"
#include "defined.h"
#include "quiet.h"
#include "record.h"
#include "touches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDLE_NS 20000000u
#define PATIENCE_NS 500000000u
#define POLL_NS 1000000u

struct callback {
    struct callback *next;
    const struct work *work;
    const struct op *op; /* it is of, counted by the caller */
    void (*done)(void *argument);
    void *argument;
};

void op_unref_locked(struct op *op)
{
    if (--op->refs)
        return;
    for (unsigned i = 0; i < op->after_count; i++)
        op_unref_locked(op->after[i]);
    work_clear(&op->work);
    order_free_locked(&op->order);
    free(op);
}

uint64_t engine_random(uint64_t n)
{
    uint64_t x = options.seed * 0x9e3779b97f4a7c15u + n * 0xbf58476d1ce4e5b9u + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* ---- which operation may run ---- */

static bool legacy_rule(const struct op *op)
{
    const struct CUstream_st *stream = op->stream, *legacy = op->ctx->legacy;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return true;
    if (stream != legacy)
        return !legacy->head || legacy->head->seq > op->seq;
    for (const struct CUstream_st *s = op->ctx->streams; s; s = s->next)
        if (s != legacy && !(s->flags & CU_STREAM_NON_BLOCKING) && s->head && s->head->seq < op->seq)
            return false;
    return true;
}

/* "CU_STREAM_WAIT_VALUE_*": compared as the flags say. */
static bool value_arrived_locked(const struct value_work *value, CUcontext ctx)
{
    size_t size = value->wide ? 8 : 4;
    uint64_t current = 0;
    if (window_has(value->address)) {
        if (!window_accessible_locked(value->address, size, false)) {
            context_fail_locked(ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
            return true;
        }
        memcpy(&current, window_alias(value->address), size);
    } else {
        memcpy(&current, (void *)(uintptr_t)value->address, size);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint64_t mask = value->wide ? UINT64_MAX : UINT32_MAX;
    switch (value->flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return current == value->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (current & value->value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(current | value->value) & mask) != 0;
    default: /* GEQ is cyclic: (int32_t)(*addr - value) >= 0 */
        return value->wide ? (int64_t)(current - value->value) >= 0
                           : (int32_t)((uint32_t)current - (uint32_t)value->value) >= 0;
    }
}

static bool may_run(struct op *op, bool *polling)
{
    if (op->state == OP_RUNNING)
        return op->work.kind == WORK_GRAPH && graph_run_ready_locked(op->work.graph);
    for (unsigned i = 0; i < op->after_count; i++)
        if (op->after[i]->state != OP_DONE)
            return false;
    if (!legacy_rule(op))
        return false;
    if (op->time.lane && (op->work.kind == WORK_HOST || op->work.kind == WORK_CALLBACK) && !op->time.released)
        return false; /* its time has not come */
    if (op->work.kind == WORK_WAIT_VALUE && op->ctx->error == CUDA_SUCCESS &&
        !value_arrived_locked(&op->work.value, op->ctx)) {
        *polling = true;
        return false;
    }
    return true;
}

/* Behind the head, which may run: a kernel that may overlap with the kernels ahead of it, or NULL. */
static struct op *early_op(struct op *head, bool *polling)
{
    struct op *op = head;
    if (options.schedule != SCHEDULE_RANDOM || head->time.lane)
        return NULL;
    while (op && op->work.kind == WORK_KERNEL && (op == head || op->ran_early))
        op = op->next;
    return op && op->work.kind == WORK_KERNEL && op->work.kernel.early && may_run(op, polling) ? op : NULL;
}

static bool before(const struct op *a, const struct op *b)
{
    if (a->stream->priority != b->stream->priority && options.schedule == SCHEDULE_EAGER)
        return a->stream->priority < b->stream->priority;
    return a->seq < b->seq;
}

struct op *engine_pick_locked(struct engine *engine, bool (*wanted)(const struct op *op), bool *polling)
{
    struct op *ready[64], *best = NULL, *early;
    unsigned n = 0;
    for (CUcontext ctx = engine->device->contexts; ctx; ctx = ctx->next) {
        for (struct CUstream_st *s = ctx->streams; s; s = s->next) {
            if (!s->head || (wanted && !wanted(s->head)) || !may_run(s->head, polling))
                continue;
            if (n < ARRAY_SIZE(ready))
                ready[n++] = s->head;
            if (!wanted && n < ARRAY_SIZE(ready) && (early = early_op(s->head, polling)) != NULL)
                ready[n++] = early;
            if (!best || before(s->head, best))
                best = s->head;
        }
    }
    if (options.schedule == SCHEDULE_RANDOM && n > 1)
        return ready[engine_random(++engine->picks) % n];
    return best;
}

/* 0: go on; else how long to hold back, ns. */
static uint64_t held_back(struct engine *engine)
{
    if (engine->waiters)
        return 0;
    uint64_t now, until;
    switch (options.schedule) {
    case SCHEDULE_LAZY:
        if (engine->released_seq >= engine->next_seq)
            return 0;
        now = driver_clock();
        until = __atomic_load_n(&driver_last_call, __ATOMIC_RELAXED) + IDLE_NS;
        if (until > engine->held_since_ns + PATIENCE_NS)
            until = engine->held_since_ns + PATIENCE_NS;
        if (now < until)
            return until - now;
        engine->released_seq = engine->next_seq;
        return 0;
    case SCHEDULE_RANDOM:
        now = driver_clock();
        return now >= engine->hold_until_ns ? 0 : engine->hold_until_ns - now;
    default:
        return 0;
    }
}

/* ---- running ---- */

static void stream_pop_locked(struct CUstream_st *stream)
{
    struct op *op = stream->head;
    stream->head = op->next;
    if (!stream->head)
        stream->tail = NULL;
    stream->ctx->device->engine->queued--;
    op_unref_locked(op);
    if (stream->destroyed && !stream->head)
        stream_free_locked(stream);
}

static void op_end_locked(struct op *op)
{
    if (op->time.lane && op->work.kind == WORK_GRAPH)
        timeline_ran_locked(op, graph_run_ns(op->work.graph));
    op->state = OP_DONE;
    order_end_locked(op);
    op->finished_ns = driver_clock();
    stream_pop_locked(op->stream);
    pthread_cond_broadcast(&driver_done);
    for (int i = 0; i < device_count; i++) { /* a stream of another device may wait for it */
        if (!devices[i].engine)
            continue;
        pthread_cond_signal(&devices[i].engine->wake);
        engine_beside_wake_locked(devices[i].engine);
    }
}

static void host_op_done(void *op)
{
    op_end_locked(op);
}

double engine_run_work_locked(struct engine *engine, const struct work *work, const struct op *op,
                              const struct node_place *place)
{
    struct work_count count = {0};
    CUcontext ctx = op->ctx;
    if (ctx->error != CUDA_SUCCESS)
        return 0;
    const struct work **running = engine_is_beside(engine) ? &engine->beside : &engine->running;
    *running = work;
    engine->running_since_ns = running == &engine->running ? driver_clock() : engine->running_since_ns;
    driver_release();
    CUresult result = work_run(work, &count, engine->touched); /* only kernels touch what has to be noted */
    driver_acquire();
    touches_note_locked(op, place, work, engine->touched);
    if (result == CUDA_SUCCESS)
        defined_note_locked(op, work);
    *running = NULL;
    if (result != CUDA_SUCCESS)
        context_fail_locked(ctx, result);
    pthread_cond_broadcast(&driver_done);
    return !clock_runs ? 0 : work->kind == WORK_KERNEL ? kernel_ns(&count) : work_ns(work);
}

void engine_run_op_locked(struct engine *engine, struct op *op)
{
    bool first = op->state == OP_QUEUED;
    double ns;
    op->state = OP_RUNNING;
    if (first)
        order_start_locked(op);
    switch (op->work.kind) {
    case WORK_HOST:
    case WORK_CALLBACK:
        /* "cuLaunchHostFunc: the function will not be called in case of an error in the context"; a callback
         * is. */
        if (op->ctx->error != CUDA_SUCCESS && op->work.kind == WORK_HOST)
            break;
        if (engine_call_host_locked(engine, &op->work, op, host_op_done, op) == 0)
            return;
        context_fail_locked(op->ctx, CUDA_ERROR_OUT_OF_MEMORY);
        break;
    case WORK_GRAPH:
        if (first)
            count_add(COUNT_GRAPH_LAUNCHES, 1);
        if (!graph_run_step_locked(op->work.graph, op))
            return;
        break;
    case WORK_FREE:
        memory_freed_locked(op);
        touches_note_locked(op, NULL, &op->work, NULL);
        defined_note_locked(op, &op->work);
        break;
    case WORK_EMPTY:
    case WORK_WAIT_VALUE:
        break;
    default:
        if (op->ran_early)
            break;
        ns = engine_run_work_locked(engine, &op->work, op, NULL);
        if (op != op->stream->head) {
            op->ran_early = true;
            op->state = OP_QUEUED;
            return;
        }
        if (op->time.lane && op->work.kind == WORK_KERNEL)
            timeline_ran_locked(op, ns);
        record_done_locked(op->time.record, ns);
        op->time.record = NULL;
        break;
    }
    op_end_locked(op);
}

static void wait_for_work(struct engine *engine, uint64_t ns)
{
    struct timespec until;
    if (!ns) {
        pthread_cond_wait(&engine->wake, &driver_lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(ns % 1000000000u);
    until.tv_sec += (time_t)(ns / 1000000000u) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&engine->wake, &driver_lock, &until);
}

static void *engine_main(void *argument)
{
    struct engine *engine = argument;
    pthread_setname_np(pthread_self(), "gpu-engine");
    quiet_exclude_me();
    driver_acquire();
    for (;;) {
        uint64_t hold = engine->queued ? held_back(engine) : 0;
        bool polling = false;
        struct op *op = engine->queued && !hold ? engine_pick_locked(engine, NULL, &polling) : NULL;
        if (op)
            engine_run_op_locked(engine, op);
        else
            wait_for_work(engine, hold ? hold : polling ? POLL_NS : 0);
    }
    return NULL;
}

/* ---- host functions ---- */

int engine_call_host_locked(struct engine *engine, const struct work *work, const struct op *op,
                            void (*done)(void *argument), void *argument)
{
    struct callback *callback = malloc(sizeof(*callback));
    if (!callback)
        return -ENOMEM;
    *callback = (struct callback){.work = work, .op = op, .done = done, .argument = argument};
    *engine->callbacks_end = callback;
    engine->callbacks_end = &callback->next;
    pthread_cond_signal(&engine->callback_wake);
    return 0;
}

static void *callback_main(void *argument)
{
    struct engine *engine = argument;
    pthread_setname_np(pthread_self(), "gpu-callback");
    driver_acquire();
    for (;;) {
        struct callback *callback = engine->callbacks;
        if (!callback) {
            pthread_cond_wait(&engine->callback_wake, &driver_lock);
            continue;
        }
        engine->callbacks = callback->next;
        if (!engine->callbacks)
            engine->callbacks_end = &engine->callbacks;
        const struct host_work *host = &callback->work->host;
        CUresult status = callback->op->ctx->error;
        order_host_saw_locked(callback->op); /* it is the host that is called */
        driver_release();
        if (callback->work->kind == WORK_HOST)
            host->function(host->data);
        else
            host->callback(host->stream, status, host->data);
        driver_acquire();
        callback->done(callback->argument);
        free(callback);
    }
    return NULL;
}

int engine_start_locked(struct device *device)
{
    if (device->engine)
        return 0;
    struct engine *engine = calloc(1, sizeof(*engine));
    struct touched *touched = calloc(1, sizeof(*touched));
    pthread_condattr_t attr;
    if (!engine || !touched) {
        free(engine);
        free(touched);
        return -ENOMEM;
    }
    engine->touched = touched;
    engine->device = device;
    engine->callbacks_end = &engine->callbacks;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->wake, &attr);
    pthread_cond_init(&engine->callback_wake, &attr);
    pthread_cond_init(&engine->beside_wake, &attr);
    pthread_condattr_destroy(&attr);
    if (engine_beside_start_locked(engine) != 0 ||
        pthread_create(&engine->thread, NULL, engine_main, engine) != 0 ||
        pthread_create(&engine->callback_thread, NULL, callback_main, engine) != 0)
        return -EAGAIN;
    device->engine = engine;
    return 0;
}

/* ---- submission and waiting ---- */

CUresult stream_submit_locked(struct CUstream_st *stream, struct work *work, struct op *const *after,
                              unsigned after_count, struct op **out)
{
    CUresult result = stream->ctx->error;
    struct op *op = NULL;
    if (stream->capture)
        return capture_add_locked(stream, work);
    if (result == CUDA_SUCCESS && stream->legacy && capture_blocks_legacy_locked(stream->ctx))
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (result == CUDA_SUCCESS && !(op = calloc(1, sizeof(*op))))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        work_clear(work);
        return result;
    }
    struct engine *engine = stream->ctx->device->engine;
    op->stream = stream;
    op->ctx = stream->ctx;
    if (!engine->queued)
        engine->released_seq = engine->next_seq;
    if (options.schedule == SCHEDULE_LAZY && engine->released_seq == engine->next_seq)
        engine->held_since_ns = driver_clock();
    op->seq = ++engine->next_seq;
    op->refs = 1;
    op->work = *work;
    order_submit_locked(op, after, after_count);
    if (op->work.kind == WORK_GRAPH)
        graph_run_order_locked(op->work.graph, op);
    for (unsigned i = 0; i < after_count; i++)
        if (!op_passed_locked(after[i]))
            op->after[op->after_count++] = op_ref(after[i]);
    /*
     * In virtual time a graph is one operation: it starts when all that its nodes wait for has ended.
     * Otherwise it could be under way, and hold up the clock, until something has run that the clock has
     * still to come to.
     */
    if (stream->lane && op->work.kind == WORK_GRAPH) {
        unsigned n = graph_run_awaits_locked(op->work.graph, op->after + op->after_count,
                                             ARRAY_SIZE(op->after) - op->after_count);
        while (n--)
            op_ref(op->after[op->after_count++]);
    }
    if (stream->tail)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    engine->queued++;
    if (stream->lane)
        clock_submit_locked(op, stream);
    if (op->work.kind == WORK_GRAPH)
        graph_run_record_locked(op->work.graph, stream->id);
    else
        op->time.record = record_work_locked(&op->work, stream->id);
    if (options.schedule == SCHEDULE_RANDOM && engine_random(~op->seq) % 8 == 0)
        engine->hold_until_ns = driver_clock() + engine_random(op->seq) % 2000000;
    if (out)
        *out = op_ref(op);
    pthread_cond_signal(&engine->wake);
    engine_beside_wake_locked(engine);
    return CUDA_SUCCESS;
}

void engine_poke_locked(struct engine *engine)
{
    engine->released_seq = engine->next_seq;
    pthread_cond_signal(&engine->wake);
}

bool op_passed_locked(const struct op *op)
{
    return op->state == OP_DONE && (!op->time.lane || op->time.state == TIME_ENDED);
}

bool op_wait_run_locked(struct op *op, uint64_t ns)
{
    struct engine *engine = op->ctx->device->engine;
    struct timespec until;
    int expired = 0;
    if (op->state == OP_DONE)
        return true;
    clock_gettime(CLOCK_REALTIME, &until); /* which driver_done goes by */
    until.tv_nsec += (long)(ns % 1000000000u);
    until.tv_sec += (time_t)(ns / 1000000000u) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    op_ref(op);
    engine->waiters++;
    pthread_cond_signal(&engine->wake);
    engine_beside_wake_locked(engine);
    while (op->state != OP_DONE && !expired)
        expired = ns ? pthread_cond_timedwait(&driver_done, &driver_lock, &until)
                     : pthread_cond_wait(&driver_done, &driver_lock);
    engine->waiters--;
    bool done = op->state == OP_DONE;
    op_unref_locked(op);
    return done;
}

void op_await_locked(struct op *op)
{
    op_ref(op);
    if (op->time.lane)
        clock_wait_locked(op);
    clock_inside_locked(1);
    op_wait_run_locked(op, 0);
    clock_inside_locked(-1);
    op_unref_locked(op); /* NOLINT(clang-analyzer-unix.Malloc): it was counted above */
}

void op_wait_locked(struct op *op)
{
    op_ref(op);
    op_await_locked(op);
    order_host_saw_locked(op); /* NOLINT(clang-analyzer-unix.Malloc): it was counted above */
    op_unref_locked(op);       /* NOLINT(clang-analyzer-unix.Malloc): it was counted above */
}

void stream_drain_locked(struct CUstream_st *stream)
{
    order_host_saw_stream_locked(stream);
    if (stream->lane && stream->lane->tail)
        op_wait_locked(stream->lane->tail);
    else if (stream->tail)
        op_wait_locked(stream->tail);
}

/* The last operation of a lane that was submitted up to then, in any stream of the context, or NULL. */
static struct op *last_of_lanes(CUcontext ctx, uint64_t last)
{
    struct op *found = NULL;
    for (const struct lane *lane = timeline_lanes; lane; lane = lane->next)
        for (struct op *op = lane->ctx == ctx ? lane->head : NULL; op && op->seq <= last; op = op->time.next)
            found = op;
    return found;
}

void context_drain_locked(CUcontext ctx)
{
    uint64_t last = ctx->device->engine ? ctx->device->engine->next_seq : 0;
    struct op *timed;
    while ((timed = last_of_lanes(ctx, last)) != NULL)
        op_wait_locked(timed);
again:
    for (struct CUstream_st *s = ctx->streams; s; s = s->next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a stream's operations are counted for it */
        if (s->head && s->head->seq <= last) {
            struct op *op = s->head;
            for (struct op *o = op; o && o->seq <= last; o = o->next)
                op = o;
            op_wait_locked(op); /* drops the lock: streams may have come and gone */
            goto again;
        }
    }
    order_host_saw_context_locked(ctx);
}
