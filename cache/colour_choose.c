#include "cache/colour.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* What the host waits for is in a run's time; of two that take as long the one that binds less is better, as
 * the host has other things to do, too. [assumed] */
#define REBIND (0.05 * COLOUR_REBIND)

/* Homes that make a round longer by so much than frames that are all alike are compared with none. */
#define HOMES_COST 1.01

struct choosing {
    struct cycle_run *run;
    const struct cycle *cycle;
    const struct schedule *schedule;
    struct colouring *best;
    struct cycle_result *result;
    struct cycle_times *times; /* of the best */
    double value;              /* of the best, 0: there is none yet */
};

/* Colours by those times, and runs the schedule with them. */
static int try_order(struct choosing *choosing, const struct cycle_times *times, enum colour_order order)
{
    struct colouring colouring;
    struct cycle_result result;
    struct cycle_times ran;
    double value;
    int error = cycle_times_make(choosing->cycle, choosing->schedule, &ran);

    if (error)
        return error;
    error = colouring_make(choosing->cycle, choosing->schedule, times,
                           (uint32_t)(choosing->cycle->capacity / choosing->cycle->frame_size), order,
                           &colouring);
    if (!error) {
        error = cycle_run_coloured(choosing->run, choosing->schedule, &colouring, &result, &ran);
        value = error ? 0 : result.time + REBIND * result.bound;
        if (!error && (choosing->value <= 0 || value < choosing->value)) {
            struct colouring before = *choosing->best;
            struct cycle_times then = *choosing->times;

            *choosing->best = colouring;
            *choosing->times = ran;
            *choosing->result = result;
            choosing->value = value;
            colouring = before;
            ran = then;
        }
        colouring_free(&colouring);
    }
    cycle_times_free(&ran);
    return error;
}

/* More tries gain a few hundredths at most (replay). */
static bool worth_it(const struct choosing *choosing, double most)
{
    return choosing->value <= 1.05 * most;
}

static int try_colours(struct choosing *choosing, struct cycle_times *alike, double most)
{
    int error = 0;

    for (unsigned order = 0; order < COLOUR_ORDERS && !error && worth_it(choosing, most); order++)
        error = try_order(choosing, alike, order);
    if (!error && worth_it(choosing, most)) { /* once more, by the times that came of the colours */
        cycle_times_free(alike);
        *alike = *choosing->times;
        *choosing->times = (struct cycle_times){0};
        error = try_order(choosing, alike, COLOUR_BY_TIME);
    }
    return error;
}

int colouring_choose(struct cycle_run *run, const struct cycle *cycle, const struct schedule *schedule,
                     double most, bool freely, struct colouring *out, struct cycle_result *result,
                     double *value)
{
    struct colouring best = {0};
    struct cycle_times alike, times = {0};
    struct choosing choosing = {
        .run = run, .cycle = cycle, .schedule = schedule, .best = &best, .result = result, .times = &times};
    int error = cycle_times_make(cycle, schedule, &alike);
    double least;

    if (error)
        return error;
    error = cycle_run_coloured(run, schedule, NULL, result, &alike);
    least = alike.round;
    if (!error && !freely)
        error = try_colours(&choosing, &alike, most);
    for (unsigned order = COLOUR_ORDERS; order < COLOUR_WAYS && !error; order++)
        if (freely || choosing.value > HOMES_COST * least)
            error = try_order(&choosing, &alike, order);
    cycle_times_free(&alike);
    cycle_times_free(&times);
    if (error) {
        colouring_free(&best);
        return error;
    }
    *out = best;
    *value = choosing.value;
    return 0;
}

int colouring_judge(const struct cycle *cycle, const struct schedule *schedule, struct cycle_result *result,
                    double *value)
{
    struct cycle_run *run = cycle_run_new(cycle);
    struct colouring colouring;
    int error =
        run ? colouring_choose(run, cycle, schedule, INFINITY, false, &colouring, result, value) : -ENOMEM;

    if (!error)
        colouring_free(&colouring);
    cycle_run_free(run);
    return error;
}
