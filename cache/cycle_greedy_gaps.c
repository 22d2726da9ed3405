#include "cache/cycle_greedy.h"
#include <errno.h>
#include <stdlib.h>

/* Adds to demand, kept as differences, that of positions begin to end - 1. */
static void demand_add(struct greedy *greedy, uint64_t begin, uint64_t end, int64_t pieces)
{
    uint32_t length = greedy->length;

    greedy->demand[0] += pieces * (int64_t)(end / length - begin / length);
    greedy->demand[begin % length] += pieces;
    greedy->demand[end % length] -= pieces;
}

static void add_gap(struct greedy *greedy, uint32_t buffer, uint64_t from, uint64_t to, bool tail)
{
    if (to - from < 2 || to - from > UINT32_MAX / 8)
        return;
    greedy->gaps[greedy->gap_count++] = (struct greedy_gap){
        .buffer = buffer,
        .from = (uint32_t)(from % greedy->length),
        .age = (uint32_t)(from / greedy->length),
        .length = (uint32_t)(to - from),
        .tail = tail,
        .pieces = cycle_pieces(greedy->cycle, buffer),
    };
}

static void add_buffer(struct greedy *greedy, uint32_t index)
{
    const struct cycle_buffer *buffer = &greedy->cycle->buffers[index];
    const uint32_t *uses = greedy->cycle->uses + buffer->first_use;
    int64_t pieces = cycle_pieces(greedy->cycle, index);
    uint64_t last, end;

    if (!buffer->uses)
        return;
    last = uses[buffer->uses - 1];
    for (uint32_t i = 1; i < buffer->uses; i++)
        add_gap(greedy, index, uses[i - 1], uses[i], false);
    if (cycle_static(buffer)) {
        add_gap(greedy, index, last, (uint64_t)uses[0] + greedy->length, false);
        demand_add(greedy, 0, greedy->length, pieces);
        return;
    }
    /* What never dies stays for a round, so that it may leave at any time of it. */
    end = buffer->death == CYCLE_NEVER ? last + 1 + greedy->length : buffer->death;
    add_gap(greedy, index, last, end, true);
    demand_add(greedy, uses[0], end, pieces);
}

/* By phase, stable, so that the order does not depend on the sort. */
static int sort_gaps(struct greedy *greedy)
{
    struct greedy_gap *sorted = malloc((greedy->gap_count + 1) * sizeof *sorted);

    if (!sorted)
        return -ENOMEM;
    for (uint32_t i = 0; i < greedy->gap_count; i++)
        greedy->first_gap[greedy->gaps[i].from + 1]++;
    for (uint32_t i = 0; i < greedy->length; i++)
        greedy->first_gap[i + 1] += greedy->first_gap[i];
    for (uint32_t i = greedy->gap_count; i--;)
        sorted[--greedy->first_gap[greedy->gaps[i].from + 1]] = greedy->gaps[i];
    for (uint32_t i = 0; i < greedy->length; i++)
        greedy->first_gap[i] = greedy->first_gap[i + 1];
    greedy->first_gap[greedy->length] = greedy->gap_count;
    free(greedy->gaps);
    greedy->gaps = sorted;
    return 0;
}

int greedy_find_gaps(struct greedy *greedy)
{
    const struct cycle *cycle = greedy->cycle;

    greedy->demand = calloc(greedy->length + 1, sizeof *greedy->demand);
    greedy->first_gap = calloc(greedy->length + 1, sizeof *greedy->first_gap);
    greedy->gaps = malloc((cycle->touch_count + cycle->buffer_count + 1) * sizeof *greedy->gaps);
    if (!greedy->demand || !greedy->first_gap || !greedy->gaps)
        return -ENOMEM;
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        add_buffer(greedy, i);
    for (uint32_t i = 1; i < greedy->length; i++)
        greedy->demand[i] += greedy->demand[i - 1];
    return sort_gaps(greedy);
}
