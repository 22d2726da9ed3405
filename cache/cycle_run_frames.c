/*
 * cycle_run_frames.c - which frames are free from when on, and what the link's two engines do when.
 */
#include "cache/cycle_run_internal.h"
#include "model/machine.h"
#include <assert.h>

/* --- Frames -----------------------------------------------------------------------------------------------
 */

static struct free_run *list_at(struct free_list *list, uint32_t index)
{
    return &list->ring[(list->first + index) & list->mask];
}

/* Nearly always at the end: streams give frames up in order. */
void list_add(struct free_list *list, double ready, uint32_t count)
{
    uint32_t at = list->count;

    while (at && list_at(list, at - 1)->ready > ready)
        at--;
    if (at && list_at(list, at - 1)->ready >= ready) {
        list_at(list, at - 1)->count += count;
        return;
    }
    for (uint32_t i = list->count; i > at; i--)
        *list_at(list, i) = *list_at(list, i - 1);
    *list_at(list, at) = (struct free_run){ready, count};
    list->count++;
}

static uint32_t list_take_first(struct free_list *list, uint32_t count)
{
    struct free_run *run = list_at(list, 0);

    if (run->count > count) {
        run->count -= count;
        return count;
    }
    count = run->count;
    list->first = (list->first + 1) & list->mask;
    list->count--;
    return count;
}

static uint32_t list_take_last(struct free_list *list, uint32_t count)
{
    struct free_run *run = list_at(list, list->count - 1);

    if (run->count > count) {
        run->count -= count;
        return count;
    }
    list->count--;
    return run->count;
}

void run_frame_give(struct cycle_run *run, struct free_list *list, double ready, uint32_t piece)
{
    if (run->colouring) {
        run_colour_give(run, piece, ready);
    } else {
        list_add(list, ready, 1);
    }
    run->free_frames++;
    assert(run->free_frames <= run->frames);
}

static void frames_taken(struct cycle_run *run, uint32_t count)
{
    assert(count <= run->free_frames);
    run->free_frames -= count;
    if (run->free_frames < run->least_free)
        run->least_free = run->free_frames;
}

double run_frames_take_oldest(struct cycle_run *run, uint32_t first, uint32_t count, uint32_t missing)
{
    double ready = 0;

    frames_taken(run, missing);
    if (run->colouring)
        return run_colours_take(run, first, count);
    while (missing) {
        struct free_list *list = !run->by_copy.count ? &run->by_compute : &run->by_copy;

        if (run->by_compute.count && run->by_copy.count &&
            list_at(&run->by_compute, 0)->ready <= list_at(&run->by_copy, 0)->ready)
            list = &run->by_compute;
        if (list_at(list, 0)->ready > ready)
            ready = list_at(list, 0)->ready;
        missing -= list_take_first(list, missing);
    }
    return ready;
}

double run_frames_take_youngest(struct cycle_run *run, uint32_t first, uint32_t count)
{
    double ready = 0;

    frames_taken(run, count);
    if (run->colouring)
        return run_colours_take(run, first, count);
    while (count && run->by_compute.count) {
        double at = list_at(&run->by_compute, run->by_compute.count - 1)->ready;

        ready = at > ready ? at : ready;
        count -= list_take_last(&run->by_compute, count);
    }
    while (count) {
        ready = list_at(&run->by_copy, 0)->ready > ready ? list_at(&run->by_copy, 0)->ready : ready;
        count -= list_take_first(&run->by_copy, count);
    }
    return ready;
}

/* --- Copies -----------------------------------------------------------------------------------------------
 */

/* A copy that was given to an engine ends later; so do those behind it. */
static void engine_delay(struct engine *engine, uint32_t index, double lost)
{
    engine->busy[index % BUSY].end += lost;
    for (uint32_t i = index + 1; i < engine->copies; i++) {
        struct busy *busy = &engine->busy[i % BUSY];
        double late = engine->busy[(i - 1) % BUSY].end - busy->begin;

        if (late <= 0)
            return;
        busy->begin += late;
        busy->end += late;
    }
    engine->free = engine->busy[(engine->copies - 1) % BUSY].end;
}

/* The first of the copies that are known of which ends behind a moment: they end in order. */
static uint32_t first_after(const struct engine *engine, double now)
{
    uint32_t low = engine->copies > BUSY ? engine->copies - BUSY : 0, high = engine->copies;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (engine->busy[middle % BUSY].end <= now)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A copy that is being timed. */
struct timed {
    double now;  /* it has come so far */
    double left; /* time that the rest of it takes alone */
};

/* How long it takes beside what the other engine does from begin to end; false: it ends before that. */
static bool beside(struct timed *timed, double speed, double other_speed, double begin, double end,
                   double *span)
{
    *span = 0;
    if (end <= timed->now)
        return true;
    if (begin > timed->now) {
        if (begin - timed->now >= timed->left)
            return false;
        timed->left -= begin - timed->now;
        timed->now = begin;
    }
    *span = (end - timed->now) / other_speed;
    if (*span * speed > timed->left)
        *span = timed->left / speed;
    timed->left -= *span * speed;
    timed->now += *span;
    return timed->left > 0;
}

/*
 * Copies are timed in the order in which they are issued, so that what the other engine is going to do
 * meanwhile is not all known. It is taken to be what it did a round ago; in the first round, which has none
 * before it, a copy that finds the other engine busy slows it down, and who waits for the end of a copy that
 * was issued before does not learn of that.
 */
static double engine_copy(struct cycle_run *run, unsigned which, double start, uint32_t pieces)
{
    struct engine *engine = &run->engine[which], *other = &run->engine[!which];
    double bytes = (double)pieces * (double)run->cycle->frame_size;
    double speed = engine->rate_both / engine->rate, other_speed = other->rate_both / other->rate, span;
    struct timed timed = {start > engine->free ? start : engine->free,
                          MACHINE_COPY_LATENCY + bytes / engine->rate};
    bool foreseen = run->turn > 0 && (speed < 1 || other_speed < 1);

    if (engine->copies >= MACHINE_QUEUE_DEPTH)
        run_host_waits(run, engine->busy[(engine->copies - MACHINE_QUEUE_DEPTH) % BUSY].end);
    timed.now = run->host > timed.now ? run->host : timed.now;
    start = timed.now;
    for (uint32_t i = first_after(other, timed.now); i < other->copies; i++) {
        const struct busy *busy = &other->busy[i % BUSY];
        bool more = beside(&timed, speed, foreseen ? 1 : other_speed, busy->begin, busy->end, &span);

        if (!foreseen)
            engine_delay(other, i, span * (1 - other_speed));
        if (!more)
            break;
    }
    for (uint32_t i = first_after(other, (timed.now > other->free ? timed.now : other->free) - run->turn);
         foreseen && timed.left > 0 && i < other->copies; i++) {
        double begin = other->busy[i % BUSY].begin + run->turn, end = other->busy[i % BUSY].end + run->turn;

        if (!beside(&timed, speed, 1, begin > other->free ? begin : other->free, end, &span))
            break;
    }
    timed.now += timed.left > 0 ? timed.left : 0;
    engine->busy[engine->copies++ % BUSY] = (struct busy){start, timed.now};
    engine->free = timed.now;
    engine->bytes += bytes;
    return timed.now;
}

void run_copy_out(struct cycle_run *run, struct instance *instance, uint32_t first, uint32_t count)
{
    double start = instance->used, end;
    uint32_t pieces = 0;

    for (uint32_t i = instance->first + first; i < instance->first + first + count; i++) {
        if (run->away[i])
            continue;
        pieces++;
        start = run->at[i] > start ? run->at[i] : start;
    }
    if (!pieces)
        return;
    end = engine_copy(run, OUT, start, pieces);
    for (uint32_t i = instance->first + first; i < instance->first + first + count; i++) {
        if (run->away[i])
            continue;
        run->away[i] = true;
        run->at[i] = end;
        run_frame_give(run, &run->by_copy, end, i);
    }
    instance->missing += pieces;
}

bool run_copy_in(struct cycle_run *run, struct instance *instance, uint32_t first, uint32_t count,
                 double from)
{
    double start = from, ready, end;
    uint32_t pieces = 0;

    if (!instance->born)
        return true;
    for (uint32_t i = instance->first + first; i < instance->first + first + count; i++) {
        if (!run->away[i])
            continue;
        pieces++;
        start = run->at[i] > start ? run->at[i] : start;
    }
    if (!pieces)
        return true;
    if (pieces > run->free_frames)
        return false;
    ready = run_frames_take_oldest(run, instance->first + first, count, pieces);
    end = engine_copy(run, IN, ready > start ? ready : start, pieces);
    for (uint32_t i = instance->first + first; i < instance->first + first + count; i++) {
        if (!run->away[i])
            continue;
        run->away[i] = false;
        run->at[i] = end;
    }
    instance->missing -= pieces;
    instance->ready = end > instance->ready ? end : instance->ready;
    return true;
}
