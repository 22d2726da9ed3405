/*
 * cycle_choose.c - which schedule a round begins with: the greedy one, or none.
 *
 * The greedy planner makes sure that no copy is late, at the price of pauses; where nearly all of HBM is
 * needed at once and links are slow, a round may take longer so than with every operation seeing to itself,
 * which evicts what is used furthest ahead just when there is need. The evaluator says which. It knows
 * nothing of what binding costs, which is least with a schedule, so a hundredth does not count.
 */
#include "cache/cycle.h"
#include "cache/cycle_run.h"
#include <stdlib.h>

/*
 * A twenty-fifth of HBM is left free: where all of it is full for long, stays find no lasting frames
 * (colour.h), and those that are displaced wait, or are bound anew in every round.
 */
enum { IN_HAND = 25 };

int schedule_choose(const struct cycle *cycle, struct schedule **out)
{
    struct cycle smaller = *cycle; /* of which only the capacity is its own */
    struct cycle_result with, without;
    struct schedule *schedule, *none;
    int error;

    smaller.capacity -= cycle->capacity / IN_HAND / cycle->frame_size * cycle->frame_size;
    error = schedule_greedy(&smaller, &schedule);
    if (error)
        return error;
    schedule->cycle_hash = cycle_hash(cycle);
    *out = schedule;
    if (cycle_run_once(cycle, schedule, &with) || cycle_run_once(cycle, NULL, &without) ||
        with.time <= 1.01 * without.time)
        return 0;
    none = calloc(1, sizeof *none);
    if (!none)
        return 0;
    none->cycle_hash = schedule->cycle_hash;
    none->predicted = without.time;
    schedule_free(schedule);
    *out = none;
    return 0;
}
