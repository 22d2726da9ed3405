/*
 * engine_beside.c - what runs beside a kernel that runs for long: one that waits for memory to change, say.
 *
 * "Some devices can perform an asynchronous memory copy to or from the GPU concurrently with kernel
 * execution" (CUDA programming guide, "Overlap of Data Transfer and Kernel Execution"; attribute
 * ASYNC_ENGINE_COUNT), and events, waits and values need no multiprocessor. So once the kernel that the
 * engine thread runs has taken BESIDE_AFTER_NS, a second thread goes on with those of other streams. It runs
 * no kernel and no graph: that kernels of different streams run at once is promised by nobody. Shorter
 * kernels are not interrupted, so that a schedule stays the one of its seed; nor is one in virtual time, in
 * which the overlap is that of the timeline.
 */
#include "clock.h"
#include "quiet.h"

#include <errno.h>
#include <time.h>

#define BESIDE_AFTER_NS 300000000u
#define LOOK_NS 1000000u

bool engine_is_beside(const struct engine *engine)
{
    return pthread_equal(pthread_self(), engine->beside_thread) != 0;
}

static bool needs_no_kernel(const struct op *op)
{
    return op->work.kind != WORK_KERNEL && op->work.kind != WORK_GRAPH;
}

static void look_again_in(struct engine *engine, uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(ns % 1000000000u);
    until.tv_sec += (time_t)(ns / 1000000000u) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    engine->beside_looks = true;
    pthread_cond_timedwait(&engine->beside_wake, &driver_lock, &until);
    engine->beside_looks = false;
}

static void *beside_main(void *argument)
{
    struct engine *engine = argument;
    pthread_setname_np(pthread_self(), "gpu-copies");
    quiet_exclude_me();
    driver_acquire();
    for (;;) {
        bool polling = false;
        uint64_t ran = engine->running ? driver_clock() - engine->running_since_ns : 0;
        struct op *op = NULL;
        if (!engine->running || !engine->queued)
            pthread_cond_wait(&engine->beside_wake, &driver_lock);
        else if (ran < BESIDE_AFTER_NS)
            look_again_in(engine, BESIDE_AFTER_NS - ran);
        else if ((op = engine_pick_locked(engine, needs_no_kernel, &polling)) != NULL)
            engine_run_op_locked(engine, op);
        else
            look_again_in(engine, polling ? LOOK_NS : BESIDE_AFTER_NS);
    }
    return NULL;
}

int engine_beside_start_locked(struct engine *engine)
{
    if (clock_runs)
        return 0;
    return pthread_create(&engine->beside_thread, NULL, beside_main, engine) ? -EAGAIN : 0;
}

void engine_beside_wake_locked(struct engine *engine)
{
    /* Before its time there is no hurry; after that, what is ready is to go on. */
    bool due = engine->running && driver_clock() - engine->running_since_ns >= BESIDE_AFTER_NS;
    if (!clock_runs && engine->running && (due || !engine->beside_looks))
        pthread_cond_signal(&engine->beside_wake);
}
