/*
 * world.c - streams, events, waits, and what a call may answer.
 */
#include "tests/fuzz/world.h"
#include "tests/fuzz/graphs.h"
#include "tests/fuzz/objects.h"
#include "tests/fuzz/submit.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

void world_load(void)
{
    cuda_start();
    objects_load();
    submit_load();
    graphs_load();
}

void world_say(const struct world *world, const char *format, ...)
{
    va_list arguments;

    if (!world->loud)
        return;
    fprintf(stderr, "%4lu: ", world->step);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/*
 * What was held back could not be submitted: nothing goes on from here. Two threads may find out at once, and
 * whatever call another thread makes from now on, here or in a plain CU(), it meets a driver that has ended.
 */
static void end_refused(void)
{
    if (!atomic_exchange(&job_ends, true))
        exit(REFUSED);
    for (;;)
        pause();
}

bool world_did(struct world *world, CUresult status, const char *what)
{
    if (status == CUDA_SUCCESS)
        return true;
    if (status == CUDA_ERROR_DEINITIALIZED && atomic_load(&job_ends)) /* another thread ends the process */
        end_refused();
    if (status != CUDA_ERROR_OUT_OF_MEMORY || !world->limits.may_run_out)
        job_fail(__FILE__, __LINE__, what, "%s in action %lu", job_error_name(status), world->step);
    world_say(world, "%s: refused", what);
    status = cuda.cuCtxSynchronize();
    if (status == CUDA_SUCCESS)
        return false;
    if (status == CUDA_ERROR_DEINITIALIZED && atomic_load(&job_ends))
        end_refused();
    if (status != CUDA_ERROR_OUT_OF_MEMORY)
        job_fail(__FILE__, __LINE__, what, "%s once memory had run out, in action %lu",
                 job_error_name(status), world->step);
    end_refused();
    return false;
}

void world_must(struct world *world, CUresult status, const char *what)
{
    if (!world_did(world, status, what))
        job_fail(__FILE__, __LINE__, what, "refused by itself, in action %lu", world->step);
}

/* ---- streams ---- */

static void make_stream(struct world *world, struct random *random)
{
    unsigned lane = LANE_CREATED + world->created++;
    bool blocking = random_percent(random, 35);

    CU(cuStreamCreate(&world->stream[lane], blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    world->order.blocking[lane] = blocking;
    world->alive[lane] = true;
    world_say(world, "stream %u made, %s", lane, blocking ? "blocking" : "non-blocking");
}

unsigned world_lane(struct world *world, struct random *random)
{
    unsigned lanes[LANES], count = 0;

    for (unsigned i = LANE_LEGACY; i < LANES; i++)
        if (world->alive[i] && (i >= LANE_CREATED || random_percent(random, 50)))
            lanes[count++] = i;
    REQUIRE(count, "no stream"); /* one was created at least */
    return lanes[random_below(random, count)];
}

void world_replace_stream(struct world *world, struct random *random)
{
    unsigned lane;

    if (LANE_CREATED + world->created == LANES)
        return;
    do
        lane = world_lane(world, random);
    while (lane < LANE_CREATED);
    world_say(world, "stream %u destroyed", lane);
    world_did(world, cuda.cuStreamDestroy(world->stream[lane]), "cuStreamDestroy");
    world->alive[lane] = false;
    make_stream(world, random);
}

void world_begin(struct world *world, const struct limits *limits, struct random *random)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

    world->limits = *limits;
    world->order.blocking[LANE_LEGACY] = world->order.blocking[LANE_THREAD] = true;
    world->stream[LANE_LEGACY] = random_percent(random, 50) ? NULL : CU_STREAM_LEGACY;
    world->stream[LANE_THREAD] = CU_STREAM_PER_THREAD;
    world->alive[LANE_LEGACY] = limits->legacy;
    world->alive[LANE_THREAD] = limits->thread;
    for (unsigned i = 0; i < limits->streams; i++)
        make_stream(world, random);
    for (unsigned i = 0; i < EVENTS; i++)
        CU(cuEventCreate(&world->events[i].event, i % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
    CU(cuMemPoolCreate(&world->pool, &props));
    objects_begin(world, random);
}

void world_end(struct world *world, struct random *random)
{
    world_say(world, "the end");
    while (!world_did(world, cuda.cuCtxSynchronize(), "cuCtxSynchronize"))
        ;
    for (unsigned i = 0; i < GRAPHS_MAX; i++)
        graph_drop(world, i);
    objects_end(world, random);
    for (unsigned i = LANE_CREATED; i < LANES; i++)
        if (world->alive[i])
            world_must(world, cuda.cuStreamDestroy(world->stream[i]), "cuStreamDestroy");
    for (unsigned i = 0; i < EVENTS; i++)
        world_must(world, cuda.cuEventDestroy(world->events[i].event), "cuEventDestroy");
    CU(cuMemPoolDestroy(world->pool));
}

/* ---- waits ---- */

static bool record(struct world *world, unsigned lane, unsigned event)
{
    order_enter(&world->order, lane);
    if (!world_did(world, cuda.cuEventRecord(world->events[event].event, world->stream[lane]),
                   "cuEventRecord"))
        return false;
    world->events[event].recorded = true;
    world->events[event].clock = world->order.seen[lane];
    return true;
}

void world_record(struct world *world, struct random *random)
{
    unsigned lane = world_lane(world, random), event = random_below(random, EVENTS);

    world_say(world, "event %u recorded in stream %u", event, lane);
    record(world, lane, event);
}

/* Asks until it is so. */
static bool ask(struct world *world, CUevent event, CUstream stream)
{
    CUresult status;

    while ((status = event ? cuda.cuEventQuery(event) : cuda.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
        usleep(20);
    return world_did(world, status, event ? "cuEventQuery" : "cuStreamQuery");
}

static bool wait_for_event(struct world *world, unsigned event, bool asking)
{
    struct clock clock = world->events[event].clock;

    if (asking ? !ask(world, world->events[event].event, NULL)
               : !world_did(world, cuda.cuEventSynchronize(world->events[event].event), "cuEventSynchronize"))
        return false;
    clock_join(&world->order.seen[LANE_HOST], &clock);
    return true;
}

static bool wait_for_all(struct world *world)
{
    if (!world_did(world, cuda.cuCtxSynchronize(), "cuCtxSynchronize"))
        return false;
    for (unsigned i = LANE_LEGACY; i < LANES; i++)
        order_waited(&world->order, i);
    return true;
}

bool world_wait(struct world *world, unsigned lane, struct random *random)
{
    unsigned way = world->alive[lane] ? random_below(random, 8) : 0, event = random_below(random, EVENTS);

    world_say(world, "the host waits for stream %u, way %u", lane, way);
    switch (way) {
    case 0:
        return wait_for_all(world);
    case 1:
    case 2:
        return record(world, lane, event) && wait_for_event(world, event, way == 2);
    case 3:
        if (!ask(world, NULL, world->stream[lane]))
            return false;
        break;
    default:
        if (!world_did(world, cuda.cuStreamSynchronize(world->stream[lane]), "cuStreamSynchronize"))
            return false;
    }
    order_waited(&world->order, lane);
    return true;
}

/* An event that was recorded before and tells enough; EVENTS: none. */
static unsigned old_event(const struct world *world, unsigned of, uint32_t number)
{
    unsigned i = 0;

    while (i < EVENTS && !(world->events[i].recorded && world->events[i].clock.of[of] >= number))
        i++;
    return i;
}

/* The lane comes after the first `number' operations of the other. */
static bool come_after(struct world *world, unsigned lane, unsigned other, uint32_t number,
                       struct random *random)
{
    unsigned event = random_percent(random, 50) ? old_event(world, other, number) : EVENTS;

    if (event == EVENTS) {
        if (lane == LANE_HOST || !world->alive[other] || random_percent(random, 12))
            return world_wait(world, other, random);
        event = random_below(random, EVENTS);
        if (!record(world, other, event))
            return false;
    } else if (lane == LANE_HOST) {
        return wait_for_event(world, event, random_percent(random, 20));
    }
    world_say(world, "stream %u waits for stream %u, event %u", lane, other, event);
    if (!world_did(world, cuda.cuStreamWaitEvent(world->stream[lane], world->events[event].event, 0),
                   "cuStreamWaitEvent"))
        return false;
    order_enter(&world->order, lane);
    clock_join(&world->order.seen[lane], &world->events[event].clock);
    return true;
}

/* The parts of an object that a range lies in: [first, *end). */
static unsigned parts(const struct touch *touch, unsigned *end)
{
    unsigned first = 0;

    while (first + 1 < PARTS && object_edge(touch->object, first + 1) <= touch->first)
        first++;
    *end = first + 1;
    while (*end < PARTS && object_edge(touch->object, *end) < touch->end)
        (*end)++;
    return first;
}

bool world_order(struct world *world, unsigned lane, const struct touch *touches, unsigned count,
                 struct random *random)
{
    for (;;) {
        struct clock needs = {{0}};
        unsigned other = 0, end;

        order_enter(&world->order, lane);
        for (unsigned i = 0; i < count; i++)
            for (unsigned part = parts(&touches[i], &end); part < end; part++)
                order_needs(&world->order, lane, &touches[i].object->uses[part], touches[i].write, &needs);
        while (other < LANES && !needs.of[other])
            other++;
        if (other == LANES)
            return true;
        if (!come_after(world, lane, other, needs.of[other], random))
            return false;
    }
}

void world_touched(struct world *world, unsigned lane, const struct touch *touches, unsigned count)
{
    uint32_t number = order_did(&world->order, lane);
    unsigned end;

    for (unsigned writes = 0; writes < 2; writes++) /* a write takes the place of reads */
        for (unsigned i = 0; i < count; i++)
            for (unsigned part = parts(&touches[i], &end); touches[i].write == !writes && part < end; part++)
                order_used(lane, number, &touches[i].object->uses[part], touches[i].write);
}

bool world_defined(const struct touch *touches, unsigned count)
{
    unsigned end;

    for (unsigned i = 0; i < count; i++)
        for (unsigned part = parts(&touches[i], &end); part < end; part++)
            if (!touches[i].object->defined[part])
                return false;
    return true;
}

void world_define(const struct touch *touch, bool whole)
{
    for (unsigned part = 0; whole && part < PARTS; part++)
        if (touch->first <= object_edge(touch->object, part) &&
            touch->end >= object_edge(touch->object, part + 1))
            touch->object->defined[part] = true;
}
