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
    greedy->gaps = calloc(cycle->touch_count + cycle->buffer_count + 1, sizeof *greedy->gaps);
    if (!greedy->demand || !greedy->first_gap || !greedy->gaps)
        return -ENOMEM;
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        add_buffer(greedy, i);
    for (uint32_t i = 1; i < greedy->length; i++)
        greedy->demand[i] += greedy->demand[i - 1];
    for (uint32_t i = 0; i < 2; i++) {
        greedy->last[i] = malloc(2 * (size_t)(greedy->gap_count + 1) * sizeof *greedy->last[i]);
        if (!greedy->last[i])
            return -ENOMEM;
    }
    return sort_gaps(greedy);
}

/* --- The gap that ends last --- */

static int64_t gap_end(const struct greedy *greedy, uint32_t gap)
{
    return (int64_t)greedy->gaps[gap].from + greedy->gaps[gap].length;
}

static uint32_t later(const struct greedy *greedy, uint32_t a, uint32_t b)
{
    if (a == GREEDY_NONE || b == GREEDY_NONE)
        return a == GREEDY_NONE ? b : a;
    return gap_end(greedy, b) > gap_end(greedy, a) ? b : a;
}

static void update(const struct greedy *greedy, uint32_t *last, uint32_t node)
{
    last[node] = later(greedy, last[2 * node], last[2 * node + 1]);
}

void greedy_gaps_reset(struct greedy *greedy)
{
    uint32_t leaves = greedy->gap_count;

    for (uint32_t i = 0; i < leaves; i++) {
        struct greedy_gap *gap = &greedy->gaps[i];

        gap->away = 0;
        greedy->last[gap->tail][leaves + i] = i;
        greedy->last[!gap->tail][leaves + i] = GREEDY_NONE;
    }
    for (uint32_t tail = 0; tail < 2; tail++)
        for (uint32_t i = leaves; i-- > 1;)
            update(greedy, greedy->last[tail], i);
}

void greedy_gap_exhausted(struct greedy *greedy, uint32_t gap)
{
    uint32_t *last = greedy->last[greedy->gaps[gap].tail], i = greedy->gap_count + gap;

    last[i] = GREEDY_NONE;
    for (i /= 2; i && last[i] == gap; i /= 2)
        update(greedy, last, i);
}

/* Of gaps that begin at phases from `first' to `last'. */
static uint32_t find(const struct greedy *greedy, bool tail, int64_t first, int64_t last)
{
    uint32_t found = GREEDY_NONE, a, b;

    if (first > last)
        return GREEDY_NONE;
    a = greedy->first_gap[first] + greedy->gap_count;
    b = greedy->first_gap[last + 1] + greedy->gap_count;
    for (; a < b; a /= 2, b /= 2) {
        if (a & 1)
            found = later(greedy, found, greedy->last[tail][a++]);
        if (b & 1)
            found = later(greedy, found, greedy->last[tail][--b]);
    }
    return found;
}

int64_t greedy_gap_find(const struct greedy *greedy, bool tail, int64_t first, int64_t last, uint32_t *gap)
{
    int64_t length = greedy->length, turn = last / length * length;
    uint32_t old = GREEDY_NONE, young;

    if (first < turn) {
        old = find(greedy, tail, first - turn + length, length - 1);
        first = turn;
    }
    young = find(greedy, tail, first - turn, last - turn);
    if (old != GREEDY_NONE &&
        (young == GREEDY_NONE || gap_end(greedy, old) - length >= gap_end(greedy, young))) {
        *gap = old;
        return turn - length + greedy->gaps[old].from;
    }
    *gap = young;
    return young == GREEDY_NONE ? 0 : turn + greedy->gaps[young].from;
}
