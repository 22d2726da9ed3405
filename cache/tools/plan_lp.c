#include "cache/tools/plan_lp.h"
#include "cache/colour.h"
#include "cache/tools/plan_lp_internal.h"
#include "model/machine.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

/* What a byte's time on the link weighs against the round's. */
#define TRAFFIC_WEIGHT 0.03
/* An action costs the host some calls, and of many short copies a queue is full sooner. Less than the calls
 * take (machine.h), as the host mostly has time. Nanoseconds. [assumed] */
#define ACTION_WEIGHT 1000
/* And an operation that lacks something, of the round. */
#define MISS_WEIGHT 0.0005

/* What twice as many runs have to gain to be doubled again, and what is as good as the bound. */
#define GAIN 0.999
#define CLOSE 1.002

enum { COARSE = 512 }; /* runs, at first */

/* A way to make schedules that was slower than the best by so much is not tried with finer actions. */
#define HOPELESS 1.2

/* How much longer it takes to choose frames than to run a schedule with frames that are all alike. */
#define COLOURED 9

/* Homes take long to choose: where they lost so often in a row, they are not tried any more. */
enum { HOMES_LOST = 4 };

struct search {
    const struct cycle *cycle;
    const struct plan_options *options;
    struct plan_work work;
    struct cycle_run *run;
    struct schedule *best;
    struct cycle_result result;
    double time;     /* of the best, with what its bindings cost */
    bool unsettled;  /* homes were not all tried for the best */
    unsigned freely; /* so many schedules in a row did best without homes for their pieces (colour.h) */
    double score, bound;
    double all_pieces;     /* of all buffers */
    double pieces;         /* the same, times the schedules tried */
    double iterations;     /* that are left */
    double begin, longest; /* processor time: when it began, and what the dearest schedule so far cost */
    uint32_t chunk;        /* pieces that make a copy's latency small */
};

static double processor_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* To begin something in: it may take as long as the longest before it. */
static double seconds_left(const struct search *search)
{
    if (search->options->pieces > 0 && search->pieces >= search->options->pieces)
        return 0;
    return search->options->seconds > 0
               ? search->options->seconds - (processor_seconds() - search->begin) - search->longest
               : 1e9;
}

static double *iterations_left(struct search *search)
{
    return search->options->iterations > 0 ? &search->iterations : NULL;
}

/* Of two that take as long the one that moves less is better: the link may be slower than it was said to be.
 */
static double score(const struct search *search, double time, const struct cycle_result *result,
                    uint32_t actions)
{
    return time * (1 + MISS_WEIGHT * result->misses) + ACTION_WEIGHT * actions +
           TRAFFIC_WEIGHT * 1e9 * (result->in / search->cycle->in + result->out / search->cycle->out);
}

/* With frames that are all alike first, which is quick and hardly ever slower; then with those it would get.
 */
static int run_it(struct search *search, struct schedule *schedule, struct cycle_result *result, double *time,
                  double *value, bool *freely)
{
    struct colouring colouring;
    int error = cycle_run_pace(search->run, schedule, result);

    if (error)
        return error;
    *time = result->time;
    *value = score(search, *time, result, schedule->count);
    if (search->best && *value >= search->score)
        return 0;
    search->pieces += COLOURED * search->all_pieces;
    error = colouring_choose(search->run, search->cycle, schedule, search->best ? search->time : INFINITY,
                             search->freely >= HOMES_LOST, &colouring, result, time);
    if (error)
        return error;
    *value = score(search, *time, result, schedule->count);
    *freely = colouring_freely(&colouring);
    search->freely = *freely ? search->freely + 1 : 0;
    colouring_free(&colouring);
    return 0;
}

/* Keeps it or frees it. *took: a round's time, nanoseconds. */
static int judge(struct search *search, struct schedule *schedule, const char *name, double *took)
{
    struct cycle_result result;
    double value = 0, begin = processor_seconds();
    bool freely = false;
    int error = run_it(search, schedule, &result, took, &value, &freely);

    search->pieces += search->all_pieces;
    search->longest = fmax(search->longest, processor_seconds() - begin);
    if (error) {
        schedule_free(schedule);
        return error;
    }
    if (search->best && value >= search->score) {
        schedule_free(schedule);
        return 0;
    }
    if (search->options->report)
        fprintf(
            search->options->report,
            "  %s: %.4f ms, in %.0f out %.0f frames, %u misses, %u displaced, %u bound anew%s, %u actions\n",
            name, result.time * 1e-6, result.in / (double)search->cycle->frame_size,
            result.out / (double)search->cycle->frame_size, result.misses, result.displaced, result.bound,
            freely ? ", no homes" : "", schedule->count);
    schedule_free(search->best);
    search->best = schedule;
    search->result = result;
    search->score = value;
    search->time = *took;
    search->unsettled = freely;
    schedule->predicted = result.time;
    return 0;
}

/* Those that are made at once, as the cache has them. */
static int try_ready(struct search *search)
{
    int error = 0;

    for (unsigned i = 0; i < SCHEDULE_TRIES && !error; i++) {
        struct schedule *ready;
        double took;
        char name[40];

        snprintf(name, sizeof name, "ready, number %u", i);
        error = schedule_try(search->cycle, i, NULL, &ready);
        if (!error)
            error = judge(search, ready, name, &took);
    }
    return error;
}

static int try_build(struct search *search, const struct plan_flow *flow, const struct plan_build *how,
                     double *took)
{
    struct schedule *schedule;
    char name[100];
    int error = plan_build(&search->work, flow, how, &schedule);

    if (error)
        return error;
    snprintf(name, sizeof name, "out lead %g, in lead %g, chunk %u", how->out_lead, how->in_lead, how->chunk);
    return judge(search, schedule, name, took);
}

/*
 * As soon as a buffer may leave it does, or not before the program needs it to, so that what is needed sooner
 * can leave first. Copies in as the program has them, or sooner.
 */
static int try_flow(struct search *search, const struct plan_flow *flow)
{
    static const double out_leads[] = {INFINITY, 0, 4}, in_leads[] = {0, 1, 3, 8};
    double took[sizeof out_leads / sizeof *out_leads][sizeof in_leads / sizeof *in_leads] = {{0}};
    int error = 0;

    /* Large actions first: they cost the host less. */
    for (uint32_t chunk = 16 * search->chunk;
         chunk >= search->chunk && (chunk == 16 * search->chunk || search->time > CLOSE * flow->time);
         chunk /= 4)
        for (unsigned o = 0; o < sizeof out_leads / sizeof *out_leads; o++)
            for (unsigned i = 0; i < sizeof in_leads / sizeof *in_leads; i++) {
                if (!error && seconds_left(search) > 0 && took[o][i] <= HOPELESS * search->time)
                    error = try_build(search, flow,
                                      &(struct plan_build){.out_lead = out_leads[o],
                                                           .in_lead = in_leads[i],
                                                           .chunk = chunk,
                                                           .out_by_need = isfinite(out_leads[o])},
                                      &took[o][i]);
            }
    return error;
}

static int try_program(struct search *search, uint32_t runs, uint32_t slack, bool apart, double *time)
{
    struct plan_program program = {.runs = runs,
                                   .slack = slack,
                                   .apart = apart,
                                   .latency = MACHINE_COPY_LATENCY / (4.0 * search->chunk),
                                   .seconds = seconds_left(search),
                                   .iterations = iterations_left(search)};
    struct plan_flow flow;
    int error = plan_model_solve(&search->work, &program, &flow);

    if (error) {
        if (search->options->report)
            fprintf(search->options->report, "slack %u, apart %d: %d, after %.3f s\n", slack, apart, error,
                    processor_seconds() - search->begin);
        return error;
    }
    if (search->options->report)
        fprintf(search->options->report,
                "%u runs, slack %u, apart %d: %.4f ms in the program, after %.3f s\n", flow.runs, slack,
                apart, flow.time * 1e-6, processor_seconds() - search->begin);
    *time = flow.time;
    error = try_flow(search, &flow);
    plan_flow_free(&flow);
    return error;
}

/* With more slack the program only gets slower, but what it says can be done with less luck. */
static int try_slacks(struct search *search, uint32_t runs, bool apart)
{
    int error = 0;

    for (uint32_t slack = 0; slack <= search->work.frames / 4 && seconds_left(search) > 0;
         slack = slack ? 4 * slack : 1) {
        double time = 0;

        error = try_program(search, runs, slack, apart, &time);
        if (error == -ETIME)
            break;
        if (slack && (error || time >= search->time)) /* without slack it is rounded differently */
            break;
        if (search->time <= CLOSE * search->bound)
            break;
    }
    return error == -ENOSPC || error == -ETIME ? 0 : error;
}

/* Runs of operations first; then finer ones, while that helps and there is time. */
static int search_all(struct search *search)
{
    const struct cycle *cycle = search->cycle;
    double piece = (double)cycle->frame_size * 1e9 / fmax(cycle->in, cycle->out), before;
    uint32_t runs = COARSE;
    int error = try_ready(search);

    search->chunk = 1 + (uint32_t)fmin(1e6, MACHINE_COPY_LATENCY / (0.1 * piece));
    do {
        before = search->score;
        search->bound = 0;
        if (!error && seconds_left(search) > 0 &&
            plan_model_bound(&search->work,
                             &(struct plan_program){.runs = runs,
                                                    .seconds = seconds_left(search),
                                                    .iterations = iterations_left(search)},
                             &search->bound) == 0 &&
            search->options->report)
            fprintf(search->options->report, "bound: %.4f ms, after %.3f s\n", search->bound * 1e-6,
                    processor_seconds() - search->begin);
        for (unsigned apart = 0; apart < 2 && !error; apart++)
            error = try_slacks(search, runs, apart);
        runs *= 2;
    } while (!error && runs / 2 < cycle->length && seconds_left(search) > 0 &&
             search->score < GAIN * before && search->time > CLOSE * search->bound);
    return error;
}

static void explain(int error, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s",
             error == -ENOSPC   ? "an operation touches more than fits into HBM"
             : error == -ENOMEM ? "out of memory"
                                : "it could not be planned");
}

int plan_optimal(const struct cycle *cycle, const struct plan_options *options, struct schedule **out,
                 char *why, size_t why_size)
{
    struct search search = {
        .cycle = cycle, .options = options, .iterations = options->iterations, .begin = processor_seconds()};
    int error = plan_work_make(cycle, &search.work);

    if (error) {
        explain(error, why, why_size);
        return error;
    }
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        search.all_pieces += cycle_pieces(cycle, i);
    search.run = cycle_run_new(cycle);
    error = search.run ? search_all(&search) : -ENOMEM;
    if (search.best && search.unsettled && !colouring_judge(cycle, search.best, &search.result, &search.time))
        search.best->predicted = search.result.time;
    cycle_run_free(search.run);
    plan_work_free(&search.work);
    if (error) {
        schedule_free(search.best);
        explain(error, why, why_size);
        return error;
    }
    *out = search.best;
    return 0;
}
