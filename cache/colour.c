#include "cache/colour.h"
#include "cache/colour_group.h"
#include "cache/colour_items.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is to be avoided besides a binding, as nanoseconds. One who waits, as issued, for who
 * has the frame lets those behind it wait, too; one who cannot goes elsewhere, where others will miss it.
 * [assumed]
 */
#define WAITS (0.1 * COLOUR_REBIND)
#define DISPLACES 1e12

/* Where more pieces than there are colours, and one in so many, find none that is free, HBM is full for too
 * long: the rest go where they can, and no time is lost in looking for something better. */
enum { SEARCHED = 16 };

/* And after so many looks at a group: a second or so. */
#define MOST_LOOKS 2e7

struct colour {
    const struct schedule *schedule;
    struct colouring *out;
    double round;
    struct colour_items items;
    struct colour_groups groups;
    struct candidate {
        double cost, gap;
        uint32_t group;
    } * candidates;
    uint32_t candidate_capacity;
    uint64_t pieces, lost; /* of stays that are settled; those that found no colour that is free */
    double looks;
};

static bool better(const struct candidate *x, const struct candidate *y)
{
    if (x->cost != y->cost)
        return x->cost < y->cost;
    if (x->gap != y->gap)
        return x->gap < y->gap;
    return x->group < y->group;
}

/* A heap, the best first: of hundreds a few are wanted, or all. */
static void sift(struct candidate *heap, uint32_t count, uint32_t at)
{
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        struct candidate moved = heap[at];

        if (child + 1 < count && better(&heap[child + 1], &heap[child]))
            child++;
        if (!better(&heap[child], &moved))
            return;
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static uint32_t pick(struct candidate *heap, uint32_t *count)
{
    uint32_t group = heap[0].group;

    heap[0] = heap[--*count];
    sift(heap, *count, 0);
    return group;
}

/* Groups for some stays at once that cost `most' at most, as a heap. */
static int find_candidates(struct colour *colour, const uint32_t *stays, uint32_t count, double most,
                           uint32_t *found)
{
    const struct colour_groups *groups = &colour->groups;
    /* Most groups are ruled out by that, without a look at them. */
    uint64_t inside = colour_groups_part(groups) > most ? colour_groups_inside(groups, stays, count) : 0;

    colour->looks += groups->count;
    *found = 0;
    if (colour->candidate_capacity < groups->count) {
        struct candidate *grown = realloc(colour->candidates, 2 * groups->count * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        colour->candidates = grown;
        colour->candidate_capacity = 2 * groups->count;
    }
    for (uint32_t i = 0; i < groups->count; i++) {
        const struct colour_group *group = &groups->groups[i];
        struct candidate candidate = {.group = i};

        if (groups->taken[i] & inside || !group->count)
            continue;
        for (uint32_t k = 0; k < count && candidate.cost <= most; k++) {
            const struct stay *stay = &colour->out->stays.stays[stays[k]];
            enum colour_crossing crossing;

            candidate.cost += colour_group_overlap(groups, group, stay, most - candidate.cost);
            if (candidate.cost > most)
                break;
            crossing = colour_group_crossing(groups, group, stay);
            candidate.cost += crossing == CROSSED ? DISPLACES : crossing == CROSSED_WAITS ? WAITS : 0;
            candidate.gap += colour_group_gap(groups, group, stay);
        }
        if (candidate.cost > most)
            continue;
        colour->candidates[(*found)++] = candidate;
    }
    for (uint32_t i = *found / 2; i-- > 0;)
        sift(colour->candidates, *found, i);
    return 0;
}

/* Colours for so many pieces of an item from `*first' on, for some of its stays. */
static int take(struct colour *colour, const uint32_t *stays, uint32_t count, uint32_t *first, uint32_t end,
                double most)
{
    uint32_t found = 0;
    int error = find_candidates(colour, stays, count, most, &found);

    while (found && *first < end && !error) {
        uint32_t index = pick(colour->candidates, &found), wanted = end - *first, entry;

        if (colour->groups.groups[index].count > wanted)
            error = colour_group_split(&colour->groups, index, wanted, &index);
        for (uint32_t k = 0; k < count && !error; k++)
            error = colour_group_own(&colour->groups, index, stays[k]);
        if (error)
            break;
        entry = colour->groups.groups[index].first;
        for (uint32_t n = colour->groups.groups[index].count; n--;
             entry = colour->groups.next[entry], ++*first)
            for (uint32_t k = 0; k < count; k++)
                *colouring_of(colour->out, colour->schedule, &colour->out->stays.stays[stays[k]], *first) =
                    entry;
    }
    return error;
}

static bool given_up(const struct colour *colour)
{
    return (colour->lost > colour->out->colours && colour->lost * SEARCHED > colour->pieces) ||
           colour->looks > MOST_LOOKS;
}

/* The pieces of an item. */
static int settle(struct colour *colour, const struct colour_item *item)
{
    const uint32_t *stays = colour->items.stays + item->stays;
    uint32_t first = item->first, end = item->first + item->count, left;
    int error;

    if (given_up(colour)) {
        colour->out->homeless += item->count * item->stay_count;
        return 0;
    }
    error = take(colour, stays, item->stay_count, &first, end, WAITS * item->stay_count);

    if (!error && first < end && item->stay_count > 1)
        error = take(colour, stays, item->stay_count, &first, end, COLOUR_REBIND * item->stay_count);
    left = first;
    colour->pieces += item->count * (uint64_t)item->stay_count;
    for (uint32_t k = 0; k < item->stay_count && left < end && !error; k++) {
        first = left;
        error = take(colour, stays + k, 1, &first, end, WAITS);
        colour->lost += end - first;
        if (!error && first < end)
            error = take(colour, stays + k, 1, &first, end, INFINITY);
        colour->out->homeless += end - first;
    }
    return error;
}

/* What never leaves: a colour each, from 0 on. */
static void settle_whole(struct colour *colour, const struct colour_item *item, uint32_t *colours)
{
    for (uint32_t piece = item->first; piece < item->first + item->count; piece++) {
        uint32_t chosen = *colours < colour->out->colours ? (*colours)++ : COLOUR_NONE;

        colour->out->homeless += chosen == COLOUR_NONE;
        for (uint32_t k = 0; k < item->stay_count; k++)
            *colouring_of(colour->out, colour->schedule, colour_item_stay(&colour->items, item, k), piece) =
                chosen;
    }
}

static int settle_all(struct colour *colour, uint32_t length)
{
    uint32_t whole = 0, next = 0;
    int error;

    for (; next < colour->items.count && colour->items.items[next].whole; next++)
        settle_whole(colour, &colour->items.items[next], &whole);
    error = colour_groups_make(&colour->groups, &colour->out->stays, colour->round, length, whole,
                               colour->out->colours);
    for (; next < colour->items.count && !error; next++)
        error = settle(colour, &colour->items.items[next]);
    colour_groups_free(&colour->groups);
    return error;
}

/* Where the colours of buffers and actions are; all of them none. */
static int index_colours(struct colouring *out, const struct cycle *cycle, const struct schedule *schedule)
{
    uint64_t wanted = 0;

    out->of_buffer = malloc((cycle->buffer_count + 1) * sizeof *out->of_buffer);
    out->of_action = malloc((schedule->count + 1) * sizeof *out->of_action);
    if (!out->of_buffer || !out->of_action)
        return -ENOMEM;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        out->of_buffer[i] = (uint32_t)wanted;
        wanted += cycle_pieces(cycle, i);
    }
    for (uint32_t i = 0; i < schedule->count; i++) {
        out->of_action[i] = (uint32_t)wanted;
        if (schedule->actions[i].kind == SCHEDULE_IN)
            wanted += schedule->actions[i].count;
    }
    if (wanted > UINT32_MAX / 2)
        return -ENOMEM;
    out->total = (uint32_t)wanted;
    out->colour = malloc((wanted + 1) * sizeof *out->colour);
    if (!out->colour)
        return -ENOMEM;
    memset(out->colour, 0xff, (wanted + 1) * sizeof *out->colour); /* COLOUR_NONE */
    return 0;
}

static int by_phase(const void *a, const void *b)
{
    const struct stay *const *x = a, *const *y = b;

    return (*x)->from < (*y)->from ? -1 : (*x)->from > (*y)->from;
}

/* Who comes when, by colour. */
static int index_comes(struct colouring *out, const struct schedule *schedule)
{
    const struct stay **stays = malloc((out->stays.count + 1) * sizeof(struct stay *));
    uint64_t pieces = 0;

    out->comes_first = calloc((size_t)out->colours + 2, sizeof *out->comes_first);
    for (uint32_t k = 0; k < out->stays.count; k++)
        pieces += out->stays.stays[k].count;
    out->comes = malloc((pieces + 1) * sizeof *out->comes);
    if (!stays || !out->comes_first || !out->comes) {
        free(stays);
        return -ENOMEM;
    }
    for (uint32_t k = 0; k < out->stays.count; k++)
        stays[k] = &out->stays.stays[k];
    if (out->stays.count)
        qsort(stays, out->stays.count, sizeof(struct stay *), by_phase);
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < out->stays.count; k++)
            for (uint32_t i = stays[k]->first; i < stays[k]->first + stays[k]->count; i++) {
                uint32_t colour = *colouring_of(out, schedule, stays[k], i);

                if (colour == COLOUR_NONE)
                    continue;
                if (pass)
                    out->comes[out->comes_first[colour + 1]++] = stays[k]->from;
                else
                    out->comes_first[colour + 2]++;
            }
        if (!pass)
            for (uint32_t colour = 2; colour <= out->colours + 1; colour++)
                out->comes_first[colour] += out->comes_first[colour - 1];
    }
    free(stays);
    return 0;
}

int colouring_make(const struct cycle *cycle, const struct schedule *schedule,
                   const struct cycle_times *times, uint32_t colours, enum colour_order order,
                   struct colouring *out)
{
    struct colouring made = {.colours = colours, .order = order};
    struct colour colour = {.schedule = schedule, .out = &made, .round = times->round};
    int error = stays_make(cycle, schedule, times, &made.stays);

    if (!error)
        error = index_colours(&made, cycle, schedule);
    if (!error && order < COLOUR_ORDERS)
        error = colour_items_make(cycle, &made.stays, times->round, order, &colour.items);
    if (!error && order < COLOUR_ORDERS)
        error = settle_all(&colour, cycle->length);
    if (!error)
        error = index_comes(&made, schedule);
    colour_items_free(&colour.items);
    free(colour.candidates);
    if (error)
        colouring_free(&made);
    else
        *out = made;
    return error;
}

void colouring_free(struct colouring *colouring)
{
    stays_free(&colouring->stays);
    free(colouring->colour);
    free(colouring->of_buffer);
    free(colouring->of_action);
    free(colouring->comes);
    free(colouring->comes_first);
    *colouring = (struct colouring){0};
}
