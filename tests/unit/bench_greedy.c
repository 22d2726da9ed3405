/*
 * How long the greedy planner takes: milliseconds of a core a thousand operations, the least of a few runs,
 * for training steps of more and more layers. Prints; judges nothing.
 */
#include "cache/cycle.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FRAME = 1 << 20, RUNS = 7, WEIGHT = 6, ACTIVATION = 4 };

static void touch(struct cycle *cycle, uint32_t phase, uint32_t buffer)
{
    struct cycle_op *op = &cycle->ops[phase];

    if (!op->count++)
        op->first = cycle->touch_count;
    op->duration += 1e5;
    cycle->touches[cycle->touch_count++] = (struct cycle_touch){buffer, 0};
}

/* Forward, backward, update: a weight with its two moments, an activation and a gradient for each layer. */
static struct cycle *training_cycle(uint32_t layers)
{
    struct cycle *cycle = calloc(1, sizeof *cycle);

    if (!cycle)
        return NULL;
    cycle->length = 3 * layers;
    cycle->buffer_count = 5 * layers;
    cycle->frame_size = FRAME;
    cycle->ops = calloc(cycle->length, sizeof *cycle->ops);
    cycle->buffers = calloc(cycle->buffer_count, sizeof *cycle->buffers);
    cycle->touches = calloc(12 * (size_t)layers, sizeof *cycle->touches);
    if (!cycle->ops || !cycle->buffers || !cycle->touches) {
        cycle_free(cycle);
        return NULL;
    }
    for (uint32_t i = 0; i < layers; i++) {
        for (uint32_t k = 0; k < 3; k++)
            cycle->buffers[3 * i + k] =
                (struct cycle_buffer){.size = WEIGHT * FRAME, .birth = CYCLE_NEVER, .death = CYCLE_NEVER};
        cycle->buffers[3 * layers + i] =
            (struct cycle_buffer){.size = ACTIVATION * FRAME, .birth = i, .death = 2 * layers - i};
        cycle->buffers[4 * layers + i] =
            (struct cycle_buffer){.size = WEIGHT * FRAME, .birth = layers + i, .death = 3 * layers - i};
    }
    for (uint32_t i = 0; i < layers; i++) {
        touch(cycle, i, 3 * i);
        touch(cycle, i, 3 * layers + i);
    }
    for (uint32_t i = 0; i < layers; i++) {
        touch(cycle, layers + i, 3 * (layers - 1 - i));
        touch(cycle, layers + i, 4 * layers - 1 - i);
        touch(cycle, layers + i, 4 * layers + i);
    }
    for (uint32_t i = 0; i < layers; i++) {
        for (uint32_t k = 0; k < 3; k++)
            touch(cycle, 2 * layers + i, 3 * i + k);
        touch(cycle, 2 * layers + i, 5 * layers - 1 - i);
    }
    /* A quarter too little, and a link that moves that in half of the round. */
    cycle->capacity = (uint64_t)layers * 4 * WEIGHT * 4 / 5 * FRAME;
    cycle->in = cycle->out = (double)layers * 4 * WEIGHT / 5 * FRAME * 1e9 / (0.5 * 1e5 * cycle->touch_count);
    cycle->in_both = cycle->out_both = cycle->in;
    if (cycle_index(cycle)) {
        cycle_free(cycle);
        return NULL;
    }
    return cycle;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static int measure(uint32_t layers)
{
    struct cycle *cycle = training_cycle(layers);
    double least = 0, predicted = 0;
    uint32_t actions = 0;

    if (!cycle)
        return 1;
    for (unsigned i = 0; i < RUNS; i++) {
        struct schedule *schedule;
        double begin = now(), took;

        if (schedule_greedy(cycle, &schedule)) {
            cycle_free(cycle);
            return 1;
        }
        took = now() - begin;
        least = i && least < took ? least : took;
        actions = schedule->count;
        predicted = schedule->predicted;
        schedule_free(schedule);
    }
    printf("%8u operations %8u actions, a round of %.1f ms: planned in %.2f ms, %.3f for a thousand\n",
           cycle->length, actions, predicted * 1e-6, least, least * 1e3 / cycle->length);
    cycle_free(cycle);
    return 0;
}

int main(void)
{
    static const uint32_t layers[] = {100, 400, 1600, 6400, 25600};

    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        if (measure(layers[i])) {
            fprintf(stderr, "bench_greedy: no memory\n");
            return 1;
        }
    return 0;
}
