#include "cache/tools/cycle_run.h"
#include "model/machine.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 6, OUT = 0, IN = 1 };

/* A buffer of one round. Its pieces are `state->away' and `state->at' from `first' on. */
struct instance {
    uint32_t buffer, first, pieces;
    uint32_t missing; /* pieces that are not in HBM, nor on their way */
    uint32_t use;     /* of the buffer's uses, the next one */
    bool born;
    int64_t next;   /* operation, counted over all rounds, that uses it next; INT64_MAX: none */
    int64_t pinned; /* operation that is being issued and touches it */
    double ready;   /* when all that is on its way is there */
    double used;    /* when its last use ends */
};

/* Frames that become free at the same time, in a ring, in the order of that time. */
struct free_run {
    double ready;
    uint32_t count;
};

struct free_list {
    struct free_run *ring;
    uint32_t first, count, mask;
};

struct busy {
    double begin, end;
};

enum { BUSY = 64 };

struct engine {
    double rate, rate_both; /* bytes a nanosecond */
    double free;            /* from when on */
    double bytes;
    struct busy busy[BUSY]; /* the last copies, a ring */
    uint32_t copies;
};

struct waiting {
    struct instance *instance;
    uint32_t first, count;
};

struct cycle_run {
    const struct cycle *cycle;
    struct instance *instances;
    uint32_t instance_count;
    uint32_t *instance_of; /* first one of a buffer; those of its rounds follow, round modulo their number */
    uint32_t *ages;        /* their number */
    bool *away;
    double *at; /* when a piece in HBM has arrived, when one outside has left */
    uint32_t piece_count;
    uint32_t *deaths, *death_first; /* buffers by the phase of their death; death_first[phase] */

    struct free_list by_compute, by_copy;
    uint32_t frames, free_frames;
    struct engine engine[2];
    struct waiting *waiting; /* a ring */
    uint32_t waiting_first, waiting_count, waiting_mask;
    double compute;
    int64_t now; /* operation, counted over all rounds */
    uint32_t misses, least_free;
};

static uint32_t power_of_two(uint32_t least)
{
    uint32_t power = 1;

    while (power < least)
        power *= 2;
    return power;
}

/* --- Frames -----------------------------------------------------------------------------------------------
 */

static struct free_run *list_at(struct free_list *list, uint32_t index)
{
    return &list->ring[(list->first + index) & list->mask];
}

/* Nearly always at the end: streams give frames up in order. */
static void list_add(struct free_list *list, double ready, uint32_t count)
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

static void frames_give(struct cycle_run *run, struct free_list *list, double ready, uint32_t count)
{
    list_add(list, ready, count);
    run->free_frames += count;
    assert(run->free_frames <= run->frames);
}

static void frames_taken(struct cycle_run *run, uint32_t count)
{
    assert(count <= run->free_frames);
    run->free_frames -= count;
    if (run->free_frames < run->least_free)
        run->least_free = run->free_frames;
}

/* Those that are ready first; when all of them are. */
static double frames_take_oldest(struct cycle_run *run, uint32_t count)
{
    double ready = 0;

    frames_taken(run, count);
    while (count) {
        struct free_list *list = !run->by_copy.count ? &run->by_compute : &run->by_copy;

        if (run->by_compute.count && run->by_copy.count &&
            list_at(&run->by_compute, 0)->ready <= list_at(&run->by_copy, 0)->ready)
            list = &run->by_compute;
        if (list_at(list, 0)->ready > ready)
            ready = list_at(list, 0)->ready;
        count -= list_take_first(list, count);
    }
    return ready;
}

/* Those an operation gave up last, as their next user is in the same stream; then those that leave first. */
static double frames_take_youngest(struct cycle_run *run, uint32_t count)
{
    double ready = 0;

    frames_taken(run, count);
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

/*
 * Time is known as far as it has been issued, so a copy is slowed by what the other engine has been given
 * already; what that one loses to it is added to the end of its last copy.
 */
static double engine_copy(struct cycle_run *run, unsigned which, double start, uint32_t pieces)
{
    struct engine *engine = &run->engine[which], *other = &run->engine[!which];
    double bytes = (double)pieces * (double)run->cycle->frame_size;
    double left = MACHINE_COPY_LATENCY + bytes / engine->rate;
    double speed = engine->rate_both / engine->rate, both = 0, now;
    uint32_t i = other->copies > BUSY ? other->copies - BUSY : 0;

    now = start > engine->free ? start : engine->free;
    start = now;
    for (; i < other->copies && left > 0; i++) {
        const struct busy *busy = &other->busy[i % BUSY];
        double span;

        if (busy->end <= now)
            continue;
        if (busy->begin > now) {
            if (busy->begin - now >= left)
                break;
            left -= busy->begin - now;
            now = busy->begin;
        }
        span = busy->end - now;
        if (span * speed > left)
            span = left / speed;
        both += span;
        left -= span * speed;
        now += span;
    }
    now += left > 0 ? left : 0;
    if (both > 0) {
        double lost = both * (1 - other->rate_both / other->rate);

        other->free += lost;
        other->busy[(other->copies - 1) % BUSY].end += lost;
    }
    engine->busy[engine->copies++ % BUSY] = (struct busy){start, now};
    engine->free = now;
    engine->bytes += bytes;
    return now;
}

static void copy_out(struct cycle_run *run, struct instance *instance, uint32_t first, uint32_t count)
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
    }
    instance->missing += pieces;
    frames_give(run, &run->by_copy, end, pieces);
}

/* False where there are not enough free frames. */
static bool copy_in(struct cycle_run *run, struct instance *instance, uint32_t first, uint32_t count)
{
    double start = 0, ready, end;
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
    ready = frames_take_oldest(run, pieces);
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

static void waiting_try(struct cycle_run *run)
{
    while (run->waiting_count) {
        const struct waiting *head = &run->waiting[run->waiting_first];

        if (!copy_in(run, head->instance, head->first, head->count))
            return;
        run->waiting_first = (run->waiting_first + 1) & run->waiting_mask;
        run->waiting_count--;
    }
}

/* --- Issuing ----------------------------------------------------------------------------------------------
 */

static struct instance *instance_at(struct cycle_run *run, uint32_t round, uint32_t buffer, uint32_t age)
{
    uint32_t ages = run->ages[buffer];

    return &run->instances[run->instance_of[buffer] + (round + MOST_ROUNDS * ages - age) % ages];
}

static void act(struct cycle_run *run, uint32_t round, const struct schedule_action *action)
{
    struct instance *instance;

    if (action->age >= run->ages[action->buffer])
        return;
    instance = instance_at(run, round, action->buffer, action->age);
    if (!instance->born)
        return;
    if (action->kind == SCHEDULE_OUT) {
        copy_out(run, instance, action->first, action->count);
    } else {
        run->waiting[(run->waiting_first + run->waiting_count++) & run->waiting_mask] =
            (struct waiting){instance, action->first, action->count};
    }
    waiting_try(run);
}

static void die(struct cycle_run *run, struct instance *instance)
{
    if (!instance->born)
        return;
    for (uint32_t i = instance->first; i < instance->first + instance->pieces; i++) {
        if (run->away[i])
            continue;
        frames_give(run, &run->by_compute, run->at[i] > instance->used ? run->at[i] : instance->used, 1);
        run->away[i] = true;
    }
    instance->missing = instance->pieces;
    instance->born = false;
    instance->next = INT64_MAX;
}

/* What is used furthest ahead leaves, until so many frames are free. */
static int evict(struct cycle_run *run, uint32_t needed)
{
    while (run->free_frames < needed) {
        struct instance *victim = NULL;
        uint32_t wanted = needed - run->free_frames, first;

        for (uint32_t i = 0; i < run->instance_count; i++) {
            struct instance *instance = &run->instances[i];

            if (instance->born && instance->missing < instance->pieces && instance->pinned != run->now &&
                (!victim || instance->next > victim->next))
                victim = instance;
        }
        if (!victim)
            return -ENOSPC;
        for (first = 0; run->away[victim->first + first];)
            first++;
        for (uint32_t i = first; i < victim->pieces && wanted; i++)
            if (!run->away[victim->first + i]) {
                copy_out(run, victim, i, 1);
                wanted--;
            }
    }
    return 0;
}

static void note_use(struct cycle_run *run, uint32_t round, uint32_t age, struct instance *instance,
                     double end)
{
    const struct cycle *cycle = run->cycle;
    const struct cycle_buffer *buffer = &cycle->buffers[instance->buffer];
    int64_t base = ((int64_t)round - age) * cycle->length;

    instance->used = end;
    if (cycle_static(buffer)) {
        instance->use++;
        if (instance->use == buffer->uses) {
            instance->use = 0;
            base += cycle->length;
        }
        instance->next = base + cycle->uses[buffer->first_use + instance->use];
    } else {
        /* By position and not by counting: the first rounds begin in the middle of what was born before. */
        while (instance->use < buffer->uses &&
               base + cycle->uses[buffer->first_use + instance->use] <= run->now)
            instance->use++;
        instance->next =
            instance->use < buffer->uses ? base + cycle->uses[buffer->first_use + instance->use] : INT64_MAX;
    }
}

static int operate(struct cycle_run *run, uint32_t round, uint32_t phase, double *stall)
{
    const struct cycle *cycle = run->cycle;
    const struct cycle_op *op = &cycle->ops[phase];
    uint32_t needed = 0;
    double start = run->compute;
    bool missed;
    int error;

    for (uint32_t k = op->first; k < op->first + op->count; k++) {
        const struct cycle_touch *touch = &cycle->touches[k];
        struct instance *instance = instance_at(run, round, touch->buffer, touch->age);
        const struct cycle_buffer *buffer = &cycle->buffers[touch->buffer];

        /* One that never dies, and of which no more than so many are kept: its contents remain outside. */
        if (instance->born && !cycle_static(buffer) &&
            touch->age * cycle->length + phase == cycle->uses[buffer->first_use]) {
            copy_out(run, instance, 0, instance->pieces);
            instance->born = false;
        }
        if (!instance->born) {
            instance->missing = instance->pieces;
            instance->use = 0;
        }
        instance->pinned = run->now;
        needed += instance->missing;
    }
    missed = needed > run->free_frames;
    error = evict(run, needed);
    if (error)
        return error;
    for (uint32_t k = op->first; needed && k < op->first + op->count; k++) {
        struct instance *instance = instance_at(run, round, cycle->touches[k].buffer, cycle->touches[k].age);

        if (instance->born || !instance->missing)
            continue;
        instance->ready = frames_take_youngest(run, instance->pieces);
        memset(run->away + instance->first, 0, instance->pieces * sizeof *run->away);
        for (uint32_t i = instance->first; i < instance->first + instance->pieces; i++)
            run->at[i] = instance->ready;
        needed -= instance->missing;
        instance->missing = 0;
        instance->born = true;
    }
    missed |= needed > 0;
    run->misses += missed;
    for (uint32_t k = op->first; k < op->first + op->count; k++) {
        struct instance *instance = instance_at(run, round, cycle->touches[k].buffer, cycle->touches[k].age);

        if (instance->missing)
            (void)copy_in(run, instance, 0, instance->pieces);
        start = instance->ready > start ? instance->ready : start;
    }
    if (stall)
        stall[phase] = start - run->compute;
    run->compute = start + op->duration;
    for (uint32_t k = op->first; k < op->first + op->count; k++)
        note_use(run, round, cycle->touches[k].age,
                 instance_at(run, round, cycle->touches[k].buffer, cycle->touches[k].age), run->compute);
    return 0;
}

static int run_round(struct cycle_run *run, uint32_t round, const struct schedule *schedule, double *stalls)
{
    const struct cycle *cycle = run->cycle;
    uint32_t next = 0;

    for (uint32_t phase = 0; phase < cycle->length; phase++, run->now++) {
        int error;

        for (uint32_t k = run->death_first[phase]; k < run->death_first[phase + 1]; k++) {
            uint32_t buffer = run->deaths[k];

            die(run, instance_at(run, round, buffer, cycle->buffers[buffer].death / cycle->length));
        }
        waiting_try(run);
        while (schedule && next < schedule->count && schedule->actions[next].at == phase)
            act(run, round, &schedule->actions[next++]);
        error = operate(run, round, phase, stalls);
        if (error)
            return error;
    }
    return 0;
}

/* --- A run ------------------------------------------------------------------------------------------------
 */

static void reset(struct cycle_run *run)
{
    const struct cycle *cycle = run->cycle;

    run->free_frames = run->least_free = run->frames;
    run->by_compute.first = run->by_compute.count = run->by_copy.first = run->by_copy.count = 0;
    list_add(&run->by_compute, 0, run->frames);
    run->engine[OUT] = (struct engine){.rate = cycle->out * 1e-9, .rate_both = cycle->out_both * 1e-9};
    run->engine[IN] = (struct engine){.rate = cycle->in * 1e-9, .rate_both = cycle->in_both * 1e-9};
    run->waiting_count = run->waiting_first = 0;
    run->compute = 0;
    run->now = 0;
    for (uint32_t i = 0; i < run->piece_count; i++) {
        run->away[i] = true;
        run->at[i] = 0;
    }
    for (uint32_t i = 0; i < run->instance_count; i++) {
        struct instance *instance = &run->instances[i];
        const struct cycle_buffer *buffer = &cycle->buffers[instance->buffer];

        instance->missing = instance->pieces;
        instance->use = 0;
        instance->born = cycle_static(buffer);
        instance->next = instance->born && buffer->uses ? cycle->uses[buffer->first_use] : INT64_MAX;
        instance->pinned = -1;
        instance->ready = instance->used = 0;
    }
}

int cycle_run_schedule(struct cycle_run *run, const struct schedule *schedule, struct cycle_result *result,
                       double *stalls)
{
    const struct cycle *cycle = run->cycle;
    struct cycle_result found = {0};

    if (schedule && !schedule_fits(schedule, cycle))
        return -EINVAL;
    if (schedule && schedule->count >= run->waiting_mask / MOST_ROUNDS) {
        uint32_t size = power_of_two(MOST_ROUNDS * schedule->count + MOST_ROUNDS);
        struct waiting *ring = realloc(run->waiting, size * sizeof *ring);

        if (!ring)
            return -ENOMEM;
        run->waiting = ring;
        run->waiting_mask = size - 1;
    }
    reset(run);
    for (uint32_t phase = 0; phase < cycle->length; phase++)
        found.compute += cycle->ops[phase].duration;
    for (uint32_t round = 0; round < MOST_ROUNDS; round++) {
        double begin = run->compute, in = run->engine[IN].bytes, out = run->engine[OUT].bytes, before;
        int error;

        run->misses = 0;
        error = run_round(run, round, schedule, stalls);
        if (error)
            return error;
        before = found.time;
        found.time = run->compute - begin;
        found.in = run->engine[IN].bytes - in;
        found.out = run->engine[OUT].bytes - out;
        found.misses = run->misses;
        found.rounds = round + 1;
        if (round && found.time <= before * (1 + 1e-9) && found.time >= before * (1 - 1e-9))
            break;
    }
    found.stall = found.time - found.compute;
    found.most_used = (uint64_t)(run->frames - run->least_free) * cycle->frame_size;
    *result = found;
    return 0;
}

static void index_instances(struct cycle_run *run)
{
    const struct cycle *cycle = run->cycle;
    uint32_t count = 0, piece = 0;

    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        run->instance_of[i] = count;
        for (uint32_t k = 0; k < run->ages[i]; k++, count++) {
            run->instances[count] =
                (struct instance){.buffer = i, .first = piece, .pieces = cycle_pieces(cycle, i)};
            piece += run->instances[count].pieces;
        }
    }
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        if (cycle->buffers[i].death != CYCLE_NEVER)
            run->death_first[cycle->buffers[i].death % cycle->length + 1]++;
    for (uint32_t i = 0; i < cycle->length; i++)
        run->death_first[i + 1] += run->death_first[i];
    for (uint32_t i = cycle->buffer_count; i--;)
        if (cycle->buffers[i].death != CYCLE_NEVER) {
            uint32_t phase = cycle->buffers[i].death % cycle->length;

            run->deaths[--run->death_first[phase + 1]] = i;
        }
    /* Each entry now is where its phase begins, one place too far. */
    memmove(run->death_first, run->death_first + 1, cycle->length * sizeof *run->death_first);
    run->death_first[cycle->length] = 0;
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        run->death_first[cycle->length] += cycle->buffers[i].death != CYCLE_NEVER;
}

/* How many rounds' instances of a buffer there may be at once. */
static uint32_t ages_of(const struct cycle *cycle, const struct cycle_buffer *buffer)
{
    if (cycle_static(buffer))
        return 1;
    if (buffer->death != CYCLE_NEVER)
        return (buffer->death - 1) / cycle->length + 1;
    return buffer->uses ? cycle->uses[buffer->first_use + buffer->uses - 1] / cycle->length + 1 : 1;
}

struct cycle_run *cycle_run_new(const struct cycle *cycle)
{
    struct cycle_run *run = calloc(1, sizeof *run);
    uint64_t pieces = 0;
    uint32_t lists;

    if (!run)
        return NULL;
    run->cycle = cycle;
    run->instance_of = calloc(cycle->buffer_count + 1, sizeof *run->instance_of);
    run->ages = calloc(cycle->buffer_count + 1, sizeof *run->ages);
    if (!run->instance_of || !run->ages)
        goto no_memory;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        run->ages[i] = ages_of(cycle, &cycle->buffers[i]);
        run->instance_count += run->ages[i];
        pieces += (uint64_t)run->ages[i] * cycle_pieces(cycle, i);
    }
    if (pieces > UINT32_MAX / 2 || cycle->capacity / cycle->frame_size > UINT32_MAX / 4)
        goto no_memory;
    run->piece_count = (uint32_t)pieces;
    run->frames = (uint32_t)(cycle->capacity / cycle->frame_size);
    /* Each run in a list has a frame at least. */
    lists = power_of_two(run->frames + 2);
    run->by_compute.mask = run->by_copy.mask = lists - 1;
    run->waiting_mask = 1023;
    run->instances = calloc(run->instance_count + 1, sizeof *run->instances);
    run->away = calloc(run->piece_count + 1, sizeof *run->away);
    run->at = calloc(run->piece_count + 1, sizeof *run->at);
    run->deaths = calloc(cycle->buffer_count + 1, sizeof *run->deaths);
    run->death_first = calloc(cycle->length + 2, sizeof *run->death_first);
    run->by_compute.ring = calloc(lists, sizeof *run->by_compute.ring);
    run->by_copy.ring = calloc(lists, sizeof *run->by_copy.ring);
    run->waiting = calloc(run->waiting_mask + 1, sizeof *run->waiting);
    if (!run->instances || !run->away || !run->at || !run->deaths || !run->death_first ||
        !run->by_compute.ring || !run->by_copy.ring || !run->waiting)
        goto no_memory;
    index_instances(run);
    return run;

no_memory:
    cycle_run_free(run);
    return NULL;
}

void cycle_run_free(struct cycle_run *run)
{
    if (!run)
        return;
    free(run->instances);
    free(run->instance_of);
    free(run->ages);
    free(run->away);
    free(run->at);
    free(run->deaths);
    free(run->death_first);
    free(run->by_compute.ring);
    free(run->by_copy.ring);
    free(run->waiting);
    free(run);
}

int cycle_run_once(const struct cycle *cycle, const struct schedule *schedule, struct cycle_result *result)
{
    struct cycle_run *run = cycle_run_new(cycle);
    int error;

    if (!run)
        return -ENOMEM;
    error = cycle_run_schedule(run, schedule, result, NULL);
    cycle_run_free(run);
    return error;
}
