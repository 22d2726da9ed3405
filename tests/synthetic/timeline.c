/*
 * An operation's way: TIME_QUEUED in its lane; TIME_RUNS, or TIME_COPIES where an engine moves it, once it
 * may start; TIME_ENDED. Only a lane's head is ever under way. `now' goes from event to event: an operation's
 * end, the host's time of a submission, the end of a copy's latency.
 */
#include "timeline.h"
#include "history.h"
#include "model/machine.h"

#include <stdlib.h>

/* How long a host function may take, in real time, before nobody waits for it any more: it may be waiting for
 * the very thread that asks. */
#define FUNCTION_PATIENCE_NS 50000000u

struct lane *timeline_lanes;
struct copy_engine timeline_engines[MAX_DEVICES][COPY_ENGINES];
unsigned timeline_functions;
double timeline_last_end;

static double now;
static bool advancing; /* some thread is, and may have dropped the lock */
static bool news;

/* ---- lanes ---- */

struct lane *timeline_lane_new_locked(struct CUstream_st *stream)
{
    struct lane **link = &timeline_lanes, *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->stream_id = stream->id;
    lane->ctx = stream->ctx;
    lane->device = stream->ctx->device->ordinal;
    lane->blocking = !(stream->flags & CU_STREAM_NON_BLOCKING);
    while (*link)
        link = &(*link)->next;
    *link = lane;
    return lane;
}

/* What has something to report stays. */
static void lane_forget(struct lane *lane)
{
    if (!lane->gone || lane->head || lane->waited > 0 || lane->busy > 0)
        return;
    for (struct lane **link = &timeline_lanes; *link; link = &(*link)->next) {
        if (*link == lane) {
            *link = lane->next;
            free(lane);
            return;
        }
    }
}

void timeline_lane_drop_locked(struct lane *lane)
{
    lane->gone = true;
    lane_forget(lane);
}

void timeline_submit_locked(struct op *op, struct lane *lane, double time)
{
    op_ref(op);
    op->time.lane = lane;
    op->time.submit = time;
    op->time.ns = -1;
    if (lane->tail)
        lane->tail->time.next = op;
    else
        lane->head = op;
    lane->tail = op;
    lane->heavy += work_is_heavy(&op->work);
    timeline_functions += op->work.kind == WORK_HOST || op->work.kind == WORK_CALLBACK;
}

static void op_passed(struct op *op)
{
    struct lane *lane = op->time.lane;
    op->time.state = TIME_ENDED;
    op->time.end = now;
    if (now > timeline_last_end)
        timeline_last_end = now;
    history_add_locked(op, lane->stream_id);
    lane->heavy -= work_is_heavy(&op->work);
    lane->head = op->time.next;
    if (!lane->head)
        lane->tail = NULL;
    op->time.next = NULL;
    news |= op->time.awaited;
    op_unref_locked(op);
}

/* ---- what may start ---- */

/* "Stream synchronization behavior", as engine.c has it for the real execution. */
static bool legacy_rule_holds(const struct lane *lane)
{
    uint64_t seq = lane->head->seq;
    if (!lane->blocking)
        return true;
    for (const struct lane *other = timeline_lanes; other; other = other->next)
        if (other != lane && other->blocking && other->ctx == lane->ctx && (lane->legacy || other->legacy) &&
            other->head && other->head->seq < seq)
            return false;
    return true;
}

/* The first work behind a wait that has ended: from when on there was some, the lane stood still for it. */
static void count_stall(struct lane *lane)
{
    const struct op *behind = lane->head->time.next;
    while (behind && !work_is_heavy(&behind->work))
        behind = behind->time.next;
    if (lane->stalled && behind) {
        double since = behind->time.submit > lane->stalled_since ? behind->time.submit : lane->stalled_since;
        if (since < now)
            lane->waited += now - since;
    }
    lane->stalled = false;
}

static bool awaited_events_passed(struct lane *lane)
{
    const struct op *op = lane->head;
    for (unsigned i = 0; i < op->after_count; i++) {
        if (op->after[i]->time.lane && op->after[i]->time.state != TIME_ENDED) {
            if (!lane->stalled)
                lane->stalled_since = now;
            lane->stalled = true;
            return false;
        }
    }
    count_stall(lane);
    return true;
}

static void start(struct op *op)
{
    op->time.start = now;
    switch (op->work.kind) {
    case WORK_KERNEL:
    case WORK_GRAPH:
        op->time.state = TIME_RUNS;
        op->time.end = now + op->time.ns;
        break;
    case WORK_COPY:
        if (work_engine(&op->work) >= 0) {
            op->time.state = TIME_COPIES;
            break;
        }
        /* fall through */
    case WORK_MEMSET:
    case WORK_HOST:
    case WORK_CALLBACK:
        op->time.state = TIME_RUNS;
        op->time.ns = work_ns(&op->work);
        op->time.end = now + op->time.ns;
        break;
    default:
        op_passed(op);
        break;
    }
}

/* Starts what can start now; true where something did. */
static bool lane_start(struct lane *lane)
{
    bool any = false;
    while (lane->head && lane->head->time.state == TIME_QUEUED) {
        struct op *op = lane->head;
        if (op->time.submit > now || !legacy_rule_holds(lane) || !awaited_events_passed(lane))
            break;
        /* When a value arrives is the program's business: it has when the wait has ended in real life. */
        if (op->work.kind == WORK_WAIT_VALUE && op->state != OP_DONE)
            break;
        start(op);
        any = true;
    }
    return any;
}

static void feed_engine(int device, int which)
{
    struct copy_engine *engine = &timeline_engines[device][which];
    struct op *best = NULL;
    for (const struct lane *lane = timeline_lanes; lane; lane = lane->next) {
        struct op *op = lane->head;
        if (lane->device == device && op && op->time.state == TIME_COPIES &&
            work_engine(&op->work) == which && (!best || op->time.start < best->time.start))
            best = op;
    }
    if (!best)
        return;
    engine->op = best;
    best->time.start = now; /* before, it was when it came to wait for the engine */
    engine->latency_left = MACHINE_COPY_LATENCY;
    engine->bytes_left = work_bytes(&best->work);
    engine->bytes += engine->bytes_left;
}

static void pump(void)
{
    bool any;
    do {
        any = false;
        for (struct lane *lane = timeline_lanes; lane; lane = lane->next)
            any |= lane_start(lane);
    } while (any);
    for (int device = 0; device < device_count; device++)
        for (int which = 0; which < COPY_ENGINES; which++)
            if (!timeline_engines[device][which].op)
                feed_engine(device, which);
}

/* ---- time ---- */

static double engine_rate(int device, int which)
{
    bool both = timeline_engines[device][0].op && timeline_engines[device][1].op;
    if (which == ENGINE_IN)
        return both ? options.link_in_both : options.link_in;
    return both ? options.link_out_both : options.link_out;
}

/* ns until its latency is over or, behind that, its bytes are moved. */
static double phase_left(int device, int which)
{
    const struct copy_engine *engine = &timeline_engines[device][which];
    return engine->latency_left > 0 ? engine->latency_left
                                    : engine->bytes_left * 1e9 / engine_rate(device, which);
}

double timeline_next_locked(void)
{
    double next = TIME_NEVER;
    for (const struct lane *lane = timeline_lanes; lane; lane = lane->next) {
        const struct op *op = lane->head;
        double time = TIME_NEVER;
        if (op && op->time.state == TIME_RUNS && op->time.ns >= 0)
            time = op->time.end;
        else if (op && op->time.state == TIME_QUEUED && op->time.submit > now)
            time = op->time.submit;
        if (time < next)
            next = time;
    }
    for (int device = 0; device < device_count; device++)
        for (int which = 0; which < COPY_ENGINES; which++)
            if (timeline_engines[device][which].op && now + phase_left(device, which) < next)
                next = now + phase_left(device, which);
    return next;
}

static void engines_move(double time)
{
    for (int device = 0; device < device_count; device++) {
        double left[COPY_ENGINES], rate[COPY_ENGINES];
        for (int which = 0; which < COPY_ENGINES; which++) {
            rate[which] = engine_rate(device, which);
            left[which] = timeline_engines[device][which].op ? phase_left(device, which) : TIME_NEVER;
        }
        for (int which = 0; which < COPY_ENGINES; which++) {
            struct copy_engine *engine = &timeline_engines[device][which];
            if (!engine->op)
                continue;
            engine->busy += time - now;
            if (engine->latency_left > 0)
                engine->latency_left = now + left[which] <= time ? 0 : engine->latency_left - (time - now);
            else if (now + left[which] <= time)
                engine->bytes_left = -1; /* it has arrived */
            else
                engine->bytes_left -= (time - now) * rate[which] / 1e9;
        }
    }
}

static void due(struct op *op)
{
    op->time.state = TIME_DUE;
    op->time.released = true;
    timeline_functions--;
    news = true;
    pthread_cond_signal(&op->ctx->device->engine->wake);
}

/* To a time before which nothing else happens. */
static void move_to(double time)
{
    engines_move(time);
    now = time;
    for (int device = 0; device < device_count; device++) {
        for (int which = 0; which < COPY_ENGINES; which++) {
            struct copy_engine *engine = &timeline_engines[device][which];
            if (engine->op && engine->bytes_left < 0) {
                op_passed(engine->op);
                engine->op = NULL;
            }
        }
    }
    for (struct lane *lane = timeline_lanes, *next; lane; lane = next) {
        struct op *op = lane->head;
        next = lane->next;
        if (op && op->time.state == TIME_RUNS && op->time.ns >= 0 && op->time.end <= now) {
            if (op->work.kind == WORK_HOST || op->work.kind == WORK_CALLBACK) {
                due(op);
            } else {
                lane->busy += op->work.kind == WORK_COPY ? 0 : op->time.ns;
                op_passed(op);
            }
        }
        lane_forget(lane);
    }
}

/* A kernel or graph that is under way and has not run yet, or NULL. */
static struct op *unknown(void)
{
    for (struct lane *lane = timeline_lanes; lane; lane = lane->next)
        if (lane->head && lane->head->time.state == TIME_RUNS && lane->head->time.ns < 0)
            return lane->head;
    return NULL;
}

void timeline_ran_locked(struct op *op, double ns)
{
    op->time.ns = ns;
    if (op->time.state == TIME_RUNS)
        op->time.end = op->time.start + ns;
}

struct op *timeline_due_locked(void)
{
    for (struct lane *lane = timeline_lanes; lane; lane = lane->next)
        if (lane->head && lane->head->time.state == TIME_DUE && !lane->head->time.blocked)
            return lane->head;
    return NULL;
}

/* Host functions that have returned have ended; true where one had. */
static bool pass_functions(void)
{
    bool any = false;
    for (struct lane *lane = timeline_lanes; lane; lane = lane->next) {
        if (lane->head && lane->head->time.state == TIME_DUE && lane->head->state == OP_DONE) {
            op_passed(lane->head);
            any = true;
        }
    }
    return any;
}

void timeline_advance_locked(double time)
{
    while (advancing)
        pthread_cond_wait(&driver_done, &driver_lock);
    advancing = true;
    for (;;) {
        struct op *op;
        pass_functions();
        pump();
        if ((op = unknown()) != NULL) {
            op_wait_run_locked(op, 0);
            continue;
        }
        if ((op = timeline_due_locked()) != NULL) {
            op_ref(op);
            if (!op_wait_run_locked(op, FUNCTION_PATIENCE_NS))
                op->time.blocked = true;
            op_unref_locked(op);
            continue;
        }
        double next = timeline_next_locked();
        if (next > time)
            break;
        move_to(next);
    }
    if (time > now && time < TIME_NEVER)
        move_to(time);
    advancing = false;
    pthread_cond_broadcast(&driver_done);
}

bool timeline_news_locked(void)
{
    bool any = news;
    news = false;
    return any;
}
