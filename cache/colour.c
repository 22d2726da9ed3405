#include "cache/colour.h"
#include "cache/colour_group.h"
#include "model/machine.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is to be avoided, as nanoseconds. A binding: what it costs the host. One who waits, as issued, for who
 * has the frame lets those behind it wait, too; one who cannot goes elsewhere, where others will miss it.
 * [the last two assumed]
 */
#define REBIND (MACHINE_HOST_UNMAP + MACHINE_HOST_MAP + MACHINE_HOST_ACCESS)
#define WAITS (0.1 * REBIND)
#define DISPLACES 1e12

/* Pieces of an address that always move together: all their stays, of all buffers that lie there. */
struct item {
    uint32_t first, count;
    uint32_t stays, stay_count; /* in colour.item_stays */
    double begins, takes;       /* after the cut, of the first; all together */
    bool crosses, whole;
};

struct colour {
    const struct cycle *cycle;
    const struct schedule *schedule;
    struct colouring *out;
    double round, cut;
    enum colour_order order;
    struct item *items;
    uint32_t item_count, item_capacity;
    uint32_t *item_stays, item_stay_count, item_stay_capacity;
    struct colour_groups groups;
    struct candidate {
        double cost, gap;
        uint32_t group;
    } * candidates;
    uint32_t candidate_capacity;
};

static const struct stay *stay_of(const struct colour *colour, const struct item *item, uint32_t index)
{
    return &colour->out->stays.stays[colour->item_stays[item->stays + index]];
}

/* --- Items ------------------------------------------------------------------------------------------------
 */

struct placed {
    uint64_t place;
    uint32_t stay, first;
};

static int by_place(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->stay < y->stay ? -1 : x->stay > y->stay;
}

static uint64_t place_of(const struct cycle *cycle, uint32_t buffer)
{
    uint32_t address = cycle->buffers[buffer].address;

    return address ? address : (UINT64_C(1) << 32) + buffer;
}

static int item_add(struct colour *colour, const struct placed *placed, uint32_t count, uint32_t first,
                    uint32_t end)
{
    struct item *item;

    if (colour->item_count == colour->item_capacity) {
        uint32_t capacity = colour->item_capacity ? 2 * colour->item_capacity : 256;
        struct item *grown = realloc(colour->items, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        colour->items = grown;
        colour->item_capacity = capacity;
    }
    if (colour->item_stay_count + count > colour->item_stay_capacity) {
        uint32_t capacity = 2 * (colour->item_stay_count + count);
        uint32_t *grown = realloc(colour->item_stays, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        colour->item_stays = grown;
        colour->item_stay_capacity = capacity;
    }
    item = &colour->items[colour->item_count];
    *item = (struct item){.first = first, .count = end - first, .stays = colour->item_stay_count};
    for (uint32_t i = 0; i < count; i++) {
        const struct stay *stay = &colour->out->stays.stays[placed[i].stay];

        if (stay->first > first || stay->first + stay->count < end)
            continue;
        colour->item_stays[colour->item_stay_count++] = placed[i].stay;
        item->stay_count++;
        item->takes += stay->takes;
        item->whole |= stay->whole;
    }
    colour->item_count += item->stay_count > 0;
    return 0;
}

/* Those of one address, from where one of its stays begins or ends to where the next does. */
static int items_of_place(struct colour *colour, const struct placed *placed, uint32_t count)
{
    const struct stay *stays = colour->out->stays.stays;
    uint32_t first = placed[0].first, last = 0, end;
    int error = 0;

    for (uint32_t i = 0; i < count; i++)
        if (stays[placed[i].stay].first + stays[placed[i].stay].count > last)
            last = stays[placed[i].stay].first + stays[placed[i].stay].count;
    for (; first < last && !error; first = end) {
        end = last;
        for (uint32_t i = 0; i < count; i++) {
            const struct stay *stay = &stays[placed[i].stay];

            if (stay->first > first && stay->first < end)
                end = stay->first;
            if (stay->first + stay->count > first && stay->first + stay->count < end)
                end = stay->first + stay->count;
        }
        error = item_add(colour, placed, count, first, end);
    }
    return error;
}

static int items_make(struct colour *colour)
{
    const struct stays *stays = &colour->out->stays;
    struct placed *placed = malloc((stays->count + 1) * sizeof *placed);
    int error = placed ? 0 : -ENOMEM;

    for (uint32_t i = 0; i < stays->count && placed; i++)
        placed[i] =
            (struct placed){place_of(colour->cycle, stays->stays[i].buffer), i, stays->stays[i].first};
    if (placed && stays->count)
        qsort(placed, stays->count, sizeof *placed, by_place);
    for (uint32_t i = 0, next; i < stays->count && !error; i = next) {
        for (next = i + 1; next < stays->count && placed[next].place == placed[i].place; next++)
            ;
        error = items_of_place(colour, placed + i, next - i);
    }
    free(placed);
    return error;
}

/* --- The cut ----------------------------------------------------------------------------------------------
 */

struct change {
    double time;
    int64_t pieces;
};

static int by_change(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->pieces < y->pieces ? -1 : x->pieces > y->pieces;
}

/* Where fewest pieces of those that come and go are in HBM. */
static int find_cut(struct colour *colour)
{
    const struct stays *stays = &colour->out->stays;
    struct change *changes = malloc((2 * (size_t)stays->count + 1) * sizeof *changes);
    int64_t here = 0, least;
    uint32_t count = 0;

    if (!changes)
        return -ENOMEM;
    for (uint32_t i = 0; i < stays->count; i++) {
        const struct stay *stay = &stays->stays[i];
        double end = stay->begins + stay->takes;

        if (stay->whole)
            continue;
        if (end >= colour->round) {
            end -= colour->round;
            here += stay->count;
        }
        changes[count++] = (struct change){stay->begins, stay->count};
        changes[count++] = (struct change){end, -(int64_t)stay->count};
    }
    if (count)
        qsort(changes, count, sizeof *changes, by_change);
    least = here;
    colour->cut = 0;
    for (uint32_t i = 0; i < count; i++) {
        here += changes[i].pieces;
        if (here < least) {
            least = here;
            colour->cut = changes[i].time;
        }
    }
    free(changes);
    return 0;
}

static double after_cut(const struct colour *colour, double time)
{
    return time >= colour->cut ? time - colour->cut : time - colour->cut + colour->round;
}

static void place_items(struct colour *colour)
{
    for (uint32_t i = 0; i < colour->item_count; i++) {
        struct item *item = &colour->items[i];

        item->begins = colour->round;
        for (uint32_t k = 0; k < item->stay_count; k++) {
            const struct stay *stay = stay_of(colour, item, k);
            double begins = after_cut(colour, stay->begins);

            item->crosses |= begins + stay->takes > colour->round;
            if (begins < item->begins)
                item->begins = begins;
        }
    }
}

static int by_rank(const struct item *x, const struct item *y, bool by_length)
{
    if (x->whole != y->whole)
        return x->whole ? -1 : 1;
    if (!by_length && x->crosses != y->crosses)
        return x->crosses ? -1 : 1;
    if ((by_length || x->crosses) && x->takes != y->takes)
        return x->takes > y->takes ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins < y->begins ? -1 : 1;
    return x->stays < y->stays ? -1 : x->stays > y->stays;
}

static int by_time(const void *a, const void *b)
{
    return by_rank(a, b, false);
}

static int by_length(const void *a, const void *b)
{
    return by_rank(a, b, true);
}

/* --- Choosing ---------------------------------------------------------------------------------------------
 */

static bool better(const struct candidate *x, const struct candidate *y)
{
    if (x->cost != y->cost)
        return x->cost < y->cost;
    if (x->gap != y->gap)
        return x->gap < y->gap;
    return x->group < y->group;
}

/* Takes the best out of the list: of hundreds a few are wanted. */
static uint32_t pick(struct candidate *candidates, uint32_t *count)
{
    uint32_t best = 0, group;

    for (uint32_t i = 1; i < *count; i++)
        if (better(&candidates[i], &candidates[best]))
            best = i;
    group = candidates[best].group;
    candidates[best] = candidates[--*count];
    return group;
}

/* Groups for some stays at once that cost `most' at most. */
static int find_candidates(struct colour *colour, const uint32_t *stays, uint32_t count, double most,
                           uint32_t *found)
{
    const struct colour_groups *groups = &colour->groups;

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

        if (!group->count)
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

/* The pieces of an item. */
static int settle(struct colour *colour, const struct item *item)
{
    const uint32_t *stays = colour->item_stays + item->stays;
    uint32_t first = item->first, end = item->first + item->count, left;
    int error = take(colour, stays, item->stay_count, &first, end, WAITS * item->stay_count);

    if (!error && first < end && item->stay_count > 1)
        error = take(colour, stays, item->stay_count, &first, end, REBIND * item->stay_count);
    left = first;
    for (uint32_t k = 0; k < item->stay_count && left < end && !error; k++) {
        first = left;
        error = take(colour, stays + k, 1, &first, end, WAITS);
        if (!error && first < end)
            error = take(colour, stays + k, 1, &first, end, INFINITY);
        colour->out->homeless += end - first;
    }
    for (uint32_t piece = left; piece < end && !error; piece++)
        for (uint32_t k = 0; k < item->stay_count; k++) {
            const struct stay *stay = stay_of(colour, item, k);
            const struct stay *next = stay_of(colour, item, (k + 1) % item->stay_count);

            colour->out->rebound += *colouring_of(colour->out, colour->schedule, stay, piece) !=
                                    *colouring_of(colour->out, colour->schedule, next, piece);
        }
    return error;
}

/* What never leaves: a colour each, from 0 on. */
static void settle_whole(struct colour *colour, const struct item *item, uint32_t *colours)
{
    for (uint32_t piece = item->first; piece < item->first + item->count; piece++) {
        uint32_t chosen = *colours < colour->out->colours ? (*colours)++ : COLOUR_NONE;

        colour->out->homeless += chosen == COLOUR_NONE;
        for (uint32_t k = 0; k < item->stay_count; k++)
            *colouring_of(colour->out, colour->schedule, stay_of(colour, item, k), piece) = chosen;
    }
}

static int settle_all(struct colour *colour)
{
    uint32_t whole = 0, next = 0;
    int error;

    if (colour->item_count)
        qsort(colour->items, colour->item_count, sizeof *colour->items,
              colour->order == COLOUR_BY_LENGTH ? by_length : by_time);
    for (; next < colour->item_count && colour->items[next].whole; next++)
        settle_whole(colour, &colour->items[next], &whole);
    error = colour_groups_make(&colour->groups, &colour->out->stays, colour->round, colour->cycle->length,
                               whole, colour->out->colours);
    for (; next < colour->item_count && !error; next++)
        error = settle(colour, &colour->items[next]);
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

int colouring_make(const struct cycle *cycle, const struct schedule *schedule,
                   const struct cycle_times *times, uint32_t colours, enum colour_order order,
                   struct colouring *out)
{
    struct colouring made = {.colours = colours};
    struct colour colour = {
        .cycle = cycle, .schedule = schedule, .out = &made, .round = times->round, .order = order};
    int error = stays_make(cycle, schedule, times, &made.stays);

    if (!error)
        error = index_colours(&made, cycle, schedule);
    if (!error)
        error = items_make(&colour);
    if (!error)
        error = find_cut(&colour);
    if (!error) {
        place_items(&colour);
        error = settle_all(&colour);
    }
    free(colour.items);
    free(colour.item_stays);
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
    *colouring = (struct colouring){0};
}
