#include "cache/cycle_run_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A link that idles does not catch up where something takes longer than it should: it has to gain so much. */
#define PACED_BETTER 0.998

/* What an engine did for an action, if it did anything: `copies' is how many copies it had before. */
static void note_copy(struct cycle_run *run, unsigned which, uint32_t copies, uint32_t action)
{
    const struct engine *engine = &run->engine[which];

    if (!run->times || engine->copies == copies)
        return;
    run->times->begin[action] = engine->busy[copies % BUSY].begin;
    run->times->end[action] = engine->busy[copies % BUSY].end;
}

static void waiting_try(struct cycle_run *run)
{
    while (run->waiting_count) {
        const struct waiting *head = &run->waiting[run->waiting_first];
        uint32_t copies = run->engine[IN].copies;

        if (run_frames_awaited(run, head->instance->first + head->first, head->count) ||
            !run_copy_in(run, head->instance, head->first, head->count, head->from))
            return;
        note_copy(run, IN, copies, head->action);
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

/* The colours that pieces want from now on, which begin at `at'. */
static void run_come_home(struct cycle_run *run, const struct instance *instance, uint32_t first,
                          uint32_t count, uint32_t at)
{
    for (uint32_t i = 0; i < count && run->colouring; i++)
        if (run->colouring->colour[at + i] != COLOUR_NONE)
            run->home[instance->first + first + i] = run->colouring->colour[at + i];
}

static void act(struct cycle_run *run, uint32_t round, const struct schedule *schedule, uint32_t index)
{
    const struct schedule_action *action = &schedule->actions[index];
    uint32_t copies = run->engine[OUT].copies;
    struct instance *instance;

    if (run->times)
        run->times->begin[index] = run->times->end[index] = run->compute;
    if (action->age >= run->ages[action->buffer])
        return;
    instance = instance_at(run, round, action->buffer, action->age);
    if (!instance->born)
        return;
    if (action->kind == SCHEDULE_OUT) {
        run_copy_out(run, instance, action->first, action->count);
        note_copy(run, OUT, copies, index);
    } else {
        run_come_home(run, instance, action->first, action->count,
                      run->colouring ? run->colouring->of_action[index] : 0);
        run->waiting[(run->waiting_first + run->waiting_count++) & run->waiting_mask] =
            (struct waiting){.instance = instance,
                             .first = action->first,
                             .count = action->count,
                             .action = index,
                             .from = schedule->paced ? run->compute : 0};
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
        run_frame_give(run, &run->by_compute, run->at[i] > instance->used ? run->at[i] : instance->used, i);
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
                run_copy_out(run, victim, i, 1);
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
            run_copy_out(run, instance, 0, instance->pieces);
            instance->born = false;
        }
        if (!instance->born) {
            instance->missing = instance->pieces;
            instance->use = 0;
        }
        instance->pinned = run->now;
        needed += instance->missing;
    }
    if (run->now >= MACHINE_QUEUE_DEPTH)
        run_host_waits(run, run->ended[run->now % MACHINE_QUEUE_DEPTH]);
    missed = needed > run->free_frames;
    error = evict(run, needed);
    if (error)
        return error;
    for (uint32_t k = op->first; needed && k < op->first + op->count; k++) {
        struct instance *instance = instance_at(run, round, cycle->touches[k].buffer, cycle->touches[k].age);

        if (instance->born || !instance->missing)
            continue;
        run_come_home(run, instance, 0, instance->pieces,
                      run->colouring ? run->colouring->of_buffer[instance->buffer] : 0);
        instance->ready = run_frames_take_youngest(run, instance->first, instance->pieces);
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
            (void)run_copy_in(run, instance, 0, instance->pieces, 0);
        start = instance->ready > start ? instance->ready : start;
    }
    start = run->host > start ? run->host : start;
    if (stall)
        stall[phase] = start - run->compute;
    if (run->times)
        run->times->start[phase] = start;
    run->compute = run->ended[run->now % MACHINE_QUEUE_DEPTH] = start + op->duration;
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
            act(run, round, schedule, next++);
        error = operate(run, round, phase, stalls);
        if (error)
            return error;
    }
    return 0;
}

/* --- A run ------------------------------------------------------------------------------------------------
 */

static void times_from_start(struct cycle_run *run, const struct schedule *schedule, double round)
{
    struct cycle_times *times = run->times;
    double zero = times->start[0];

    for (uint32_t i = 0; i < run->cycle->length; i++)
        times->start[i] -= zero;
    for (uint32_t i = 0; i < schedule->count; i++) {
        times->begin[i] -= zero;
        times->end[i] -= zero;
    }
    times->round = round;
}

int cycle_run_coloured(struct cycle_run *run, const struct schedule *schedule,
                       const struct colouring *colouring, struct cycle_result *result,
                       struct cycle_times *times)
{
    int error;

    run->colouring = colouring;
    run->times = times;
    error = cycle_run_schedule(run, schedule, result, NULL);
    run->colouring = NULL;
    run->times = NULL;
    return error;
}

int cycle_run_schedule(struct cycle_run *run, const struct schedule *schedule, struct cycle_result *result,
                       double *stalls)
{
    const struct cycle *cycle = run->cycle;
    struct cycle_result found = {0}, before;
    bool repeats = false;

    if (schedule && !schedule_fits(schedule, cycle))
        return -EINVAL;
    run->schedule = schedule;
    if (schedule && schedule->count >= run->waiting_mask / MOST_ROUNDS) {
        uint32_t size = power_of_two(MOST_ROUNDS * schedule->count + MOST_ROUNDS);
        struct waiting *ring = realloc(run->waiting, size * sizeof *ring);

        if (!ring)
            return -ENOMEM;
        run->waiting = ring;
        run->waiting_mask = size - 1;
    }
    run_reset(run);
    for (uint32_t phase = 0; phase < cycle->length; phase++)
        found.compute += cycle->ops[phase].duration;
    for (uint32_t round = 0; round < MOST_ROUNDS; round++) {
        double begin = run->compute, in = run->engine[IN].bytes, out = run->engine[OUT].bytes;
        int error;

        before = found;
        run->misses = run->displaced = run->bound = 0;
        error = run_round(run, round, schedule, stalls);
        if (error)
            return error;
        run->turn = found.time = run->compute - begin;
        found.in = run->engine[IN].bytes - in;
        found.out = run->engine[OUT].bytes - out;
        found.misses = run->misses;
        found.displaced = run->displaced;
        found.bound = run->bound;
        found.rounds = round + 1;
        repeats = round && found.time <= before.time * (1 + 1e-9) && found.time >= before.time * (1 - 1e-9);
        if (repeats)
            break;
    }
    if (!repeats) { /* they may take turns */
        found.time = (found.time + before.time) / 2;
        found.in = (found.in + before.in) / 2;
        found.out = (found.out + before.out) / 2;
    }
    found.stall = found.time - found.compute;
    found.most_used = (uint64_t)(run->frames - run->least_free) * cycle->frame_size;
    if (run->times)
        times_from_start(run, schedule, found.time);
    *result = found;
    return 0;
}

int cycle_run_pace(struct cycle_run *run, struct schedule *schedule, struct cycle_result *result)
{
    struct cycle_result paced;
    int error;

    schedule->paced = false;
    error = cycle_run_schedule(run, schedule, result, NULL);
    if (error || !cycle_contends(run->cycle))
        return error;
    schedule->paced = true;
    error = cycle_run_schedule(run, schedule, &paced, NULL);
    schedule->paced = !error && paced.time < PACED_BETTER * result->time;
    if (schedule->paced)
        *result = paced;
    return error;
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

int cycle_times_make(const struct cycle *cycle, const struct schedule *schedule, struct cycle_times *out)
{
    struct cycle_times made = {.start = malloc((cycle->length + 1) * sizeof *made.start),
                               .begin = malloc((schedule->count + 1) * sizeof *made.begin),
                               .end = malloc((schedule->count + 1) * sizeof *made.end)};

    if (!made.start || !made.begin || !made.end) {
        cycle_times_free(&made);
        return -ENOMEM;
    }
    *out = made;
    return 0;
}

void cycle_times_free(struct cycle_times *times)
{
    free(times->start);
    free(times->begin);
    free(times->end);
    *times = (struct cycle_times){0};
}
