/*
 * cycle_run_colours.c - frames that are not alike: who has which, and what it costs to be bound to another
 * one.
 */
#include "cache/cycle_run_internal.h"
#include "model/machine.h"
#include <stdlib.h>

/* As the cache looks at the oldest of its free frames (home_elsewhere). */
enum { LOOKED_AT = 256 };

static void list_remove(struct cycle_run *run, uint32_t colour)
{
    struct free_colour *entry = &run->free[colour];

    run->free[entry->previous].next = entry->next;
    run->free[entry->next].previous = entry->previous;
}

static void list_append(struct cycle_run *run, uint32_t colour)
{
    struct free_colour *end = &run->free[run->frames];

    run->free[colour] = (struct free_colour){end->previous, run->frames};
    run->free[end->previous].next = colour;
    end->previous = colour;
}

/* What never leaves is at home from the start; what comes and goes wants to where it will be brought. */
void run_colours_reset(struct cycle_run *run)
{
    const struct colouring *colouring = run->colouring;

    for (uint32_t i = 0; i < run->piece_count; i++)
        run->home[i] = run->held[i] = COLOUR_NONE;
    run->free[run->frames] = (struct free_colour){run->frames, run->frames};
    for (uint32_t i = 0; i < run->frames; i++) {
        run->holder[i] = COLOUR_NONE;
        run->ready[i] = 0;
        list_append(run, i);
    }
    for (uint32_t k = 0; k < colouring->stays.count; k++) {
        const struct stay *stay = &colouring->stays.stays[k];
        struct instance *instance = &run->instances[run->instance_of[stay->buffer]];

        if (!cycle_static(&run->cycle->buffers[stay->buffer]))
            continue;
        for (uint32_t i = stay->first; i < stay->first + stay->count; i++) {
            uint32_t piece = instance->first + i, colour = *colouring_of(colouring, run->schedule, stay, i);

            if (colour == COLOUR_NONE || run->home[piece] != COLOUR_NONE)
                continue;
            run->home[piece] = colour;
            if (!stay->whole || run->holder[colour] != COLOUR_NONE)
                continue;
            run->holder[colour] = piece;
            list_remove(run, colour);
            run->held[piece] = colour;
            run->away[piece] = false;
            run->free_frames--;
            instance->missing--;
        }
    }
}

void run_colour_give(struct cycle_run *run, uint32_t piece, double ready)
{
    uint32_t colour = run->held[piece];

    run->holder[colour] = COLOUR_NONE;
    run->ready[colour] = ready;
    run->unused[piece] = ready;
    list_append(run, colour);
}

bool run_frames_awaited(const struct cycle_run *run, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count && run->colouring; i++) {
        uint32_t holder =
            run->away[i] && run->home[i] != COLOUR_NONE ? run->holder[run->home[i]] : COLOUR_NONE;

        if (holder != COLOUR_NONE && run->home[holder] == run->home[i])
            return true;
    }
    return false;
}

/* Phases until somebody comes home to it. */
static uint32_t unclaimed(const struct cycle_run *run, uint32_t colour)
{
    const uint32_t *comes = run->colouring->comes, length = run->cycle->length;
    uint32_t first = run->colouring->comes_first[colour], end = run->colouring->comes_first[colour + 1];
    uint32_t low = first, high = end, phase = (uint32_t)(run->now % length);

    if (first == end)
        return length;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (comes[middle] < phase)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end ? comes[low] - phase : comes[first] + length - phase;
}

static int by_gap(const void *a, const void *b)
{
    const struct elsewhere *x = a, *y = b;

    if (x->gap != y->gap)
        return x->gap > y->gap ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Free ones for so many pieces that do not find their own, the one that is wanted latest first, of those the
 * one that has been free for longest. */
static void find_elsewhere(struct cycle_run *run, uint32_t count)
{
    uint32_t most = count > LOOKED_AT || colouring_freely(run->colouring) ? count : LOOKED_AT, found = 0;

    for (uint32_t colour = run->free[run->frames].next; colour != run->frames && found < most;
         colour = run->free[colour].next)
        run->elsewhere[found] = (struct elsewhere){unclaimed(run, colour), found, colour}, found++;
    if (!colouring_freely(run->colouring)) /* else nobody comes home to any of them */
        qsort(run->elsewhere, found, sizeof *run->elsewhere, by_gap);
}

static double take(struct cycle_run *run, uint32_t piece, uint32_t colour)
{
    if (run->held[piece] != COLOUR_NONE && run->held[piece] != colour) {
        run_host_waits(run, run->unused[piece]);
        run->host += MACHINE_HOST_UNMAP + MACHINE_HOST_MAP;
        run->bound++;
    }
    run->holder[colour] = piece;
    run->held[piece] = colour;
    list_remove(run, colour);
    return run->ready[colour];
}

static bool at_home(const struct cycle_run *run, uint32_t piece)
{
    return run->held[piece] != COLOUR_NONE && run->holder[run->held[piece]] == piece;
}

/* Its own if that is free, else the one it is bound to, if that is and nobody comes home to it. */
static uint32_t wanted(const struct cycle_run *run, uint32_t piece)
{
    uint32_t home = run->home[piece], held = run->held[piece];

    if (home != COLOUR_NONE && run->holder[home] == COLOUR_NONE)
        return home;
    if (run->colouring->order != COLOUR_OLDEST && held != COLOUR_NONE && run->holder[held] == COLOUR_NONE &&
        unclaimed(run, held) == run->cycle->length)
        return held;
    return COLOUR_NONE;
}

double run_colours_take(struct cycle_run *run, uint32_t first, uint32_t count)
{
    uint32_t displaced = 0, next = 0, bound = run->bound;
    double ready = 0, at;

    for (uint32_t i = first; i < first + count; i++) {
        uint32_t colour = run->away[i] ? wanted(run, i) : COLOUR_NONE;

        if (!run->away[i])
            continue;
        if (colour == COLOUR_NONE) {
            displaced++;
            continue;
        }
        at = take(run, i, colour);
        ready = at > ready ? at : ready;
    }
    if (displaced)
        find_elsewhere(run, displaced);
    for (uint32_t i = first; next < displaced; i++) {
        if (!run->away[i] || at_home(run, i))
            continue;
        at = take(run, i, run->elsewhere[next++].colour);
        ready = at > ready ? at : ready;
    }
    run->displaced += displaced;
    run->host += run->bound > bound ? MACHINE_HOST_ACCESS : 0; /* one call for all of them */
    return ready;
}
