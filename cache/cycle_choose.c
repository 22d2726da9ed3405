/*
 * cycle_choose.c - the better one of a few schedules: greedy ones that leave more or less of HBM free, or
 * none.
 *
 * Where all of HBM is full for long, stays find no lasting frames (colour.h), and those that are displaced
 * wait, or are bound anew in every round; how much it takes to be free for that depends on the round. And the
 * greedy planner makes sure that no copy is late, at the price of pauses: where nearly all of HBM is needed
 * at once and links are slow, it may be better to have every operation see to itself, which evicts what is
 * used furthest ahead just when there is need. Each is run with the frames it would get, and what its
 * bindings cost.
 */
#include "cache/colour.h"
#include "cache/cycle_run.h"
#include <errno.h>
#include <stdlib.h>

/* What is left free, as a part of HBM, in the order of what is best for most rounds; 0: nothing. */
static const uint32_t parts[SCHEDULE_TRIES - 1] = {25, 50, 12, 0};

/* Another schedule has to be better by so much, as the evaluator is no more exact than that; or it moves less
 * and takes about as long. */
#define BETTER 0.99
#define AS_LONG 1.0005

static int greedy(const struct cycle *cycle, uint32_t part, struct schedule **out)
{
    struct cycle smaller = *cycle; /* of which only the capacity is its own */

    if (part)
        smaller.capacity -= cycle->capacity / part / cycle->frame_size * cycle->frame_size;
    return schedule_greedy(&smaller, out);
}

static bool better(const struct schedule_worth *worth, const struct schedule_worth *than)
{
    return worth->time < BETTER * than->time ||
           (worth->time <= AS_LONG * than->time && worth->moved < than->moved);
}

static int pace(const struct cycle *cycle, struct schedule *schedule)
{
    struct cycle_run *run = cycle_run_new(cycle);
    struct cycle_result result;
    int error = run ? cycle_run_pace(run, schedule, &result) : -ENOMEM;

    cycle_run_free(run);
    return error;
}

int schedule_try(const struct cycle *cycle, unsigned number, struct schedule_worth *best,
                 struct schedule **out)
{
    struct schedule *schedule = NULL;
    struct schedule_worth worth = {0};
    struct cycle_result result;
    int error = 0;

    if (number == SCHEDULE_TRIES - 1)
        schedule = calloc(1, sizeof *schedule);
    else
        error = greedy(cycle, parts[number], &schedule);
    if (!schedule)
        return error ? error : -ENOMEM;
    schedule->cycle_hash = cycle_hash(cycle);
    *out = schedule;
    if (!best)
        return 0;
    error = cycle_contends(cycle) ? pace(cycle, schedule) : 0;
    if (!error)
        error = colouring_judge(cycle, schedule, &result, &worth.time);
    if (error) /* number 0 has to do */
        worth.time = schedule->predicted;
    else
        worth.moved = result.in + result.out;
    if (number && (error || !better(&worth, best))) {
        schedule_free(schedule);
        *out = NULL;
    } else {
        *best = worth;
        schedule->predicted = worth.time;
    }
    return 0;
}

int schedule_choose(const struct cycle *cycle, struct schedule **out)
{
    struct schedule *best, *other;
    struct schedule_worth worth;
    int error = schedule_try(cycle, 0, &worth, &best);

    if (error)
        return error;
    for (unsigned i = 1; i < SCHEDULE_TRIES; i++)
        if (!schedule_try(cycle, i, &worth, &other) && other) {
            schedule_free(best);
            best = other;
        }
    *out = best;
    return 0;
}
