#include "cache/colour_items.h"
#include <errno.h>
#include <stdlib.h>

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

static int item_add(struct colour_items *items, const struct placed *placed, uint32_t count, uint32_t first,
                    uint32_t end)
{
    struct colour_item *item;

    if (items->count == items->capacity) {
        uint32_t capacity = items->capacity ? 2 * items->capacity : 256;
        struct colour_item *grown = realloc(items->items, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        items->items = grown;
        items->capacity = capacity;
    }
    if (items->stay_count + count > items->stay_capacity) {
        uint32_t capacity = 2 * (items->stay_count + count);
        uint32_t *grown = realloc(items->stays, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        items->stays = grown;
        items->stay_capacity = capacity;
    }
    item = &items->items[items->count];
    *item = (struct colour_item){.first = first, .count = end - first, .stays = items->stay_count};
    for (uint32_t i = 0; i < count; i++) {
        const struct stay *stay = &items->of->stays[placed[i].stay];

        if (stay->first > first || stay->first + stay->count < end)
            continue;
        items->stays[items->stay_count++] = placed[i].stay;
        item->stay_count++;
        item->takes += stay->takes;
        item->whole |= stay->whole;
    }
    items->count += item->stay_count > 0;
    return 0;
}

/* Those of one address, from where one of its stays begins or ends to where the next does. */
static int items_of_place(struct colour_items *items, const struct placed *placed, uint32_t count)
{
    const struct stay *stays = items->of->stays;
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
        error = item_add(items, placed, count, first, end);
    }
    return error;
}

static int items_make(const struct cycle *cycle, struct colour_items *items)
{
    const struct stays *stays = items->of;
    struct placed *placed = malloc((stays->count + 1) * sizeof *placed);
    int error = placed ? 0 : -ENOMEM;

    for (uint32_t i = 0; i < stays->count && placed; i++)
        placed[i] = (struct placed){place_of(cycle, stays->stays[i].buffer), i, stays->stays[i].first};
    if (placed && stays->count)
        qsort(placed, stays->count, sizeof *placed, by_place);
    for (uint32_t i = 0, next; i < stays->count && !error; i = next) {
        for (next = i + 1; next < stays->count && placed[next].place == placed[i].place; next++)
            ;
        error = items_of_place(items, placed + i, next - i);
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
static int find_cut(const struct stays *stays, double round, double *cut)
{
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
        if (end >= round) {
            end -= round;
            here += stay->count;
        }
        changes[count++] = (struct change){stay->begins, stay->count};
        changes[count++] = (struct change){end, -(int64_t)stay->count};
    }
    if (count)
        qsort(changes, count, sizeof *changes, by_change);
    least = here;
    *cut = 0;
    for (uint32_t i = 0; i < count; i++) {
        here += changes[i].pieces;
        if (here < least) {
            least = here;
            *cut = changes[i].time;
        }
    }
    free(changes);
    return 0;
}

static double from_cut(double time, double cut, double round)
{
    return time >= cut ? time - cut : time - cut + round;
}

static void place_items(struct colour_items *items, double round, double cut)
{
    for (uint32_t i = 0; i < items->count; i++) {
        struct colour_item *item = &items->items[i];

        item->begins = round;
        for (uint32_t k = 0; k < item->stay_count; k++) {
            const struct stay *stay = colour_item_stay(items, item, k);
            double begins = from_cut(stay->begins, cut, round);

            item->crosses |= begins + stay->takes > round;
            if (begins < item->begins)
                item->begins = begins;
        }
    }
}

static int by_rank(const struct colour_item *x, const struct colour_item *y, bool by_length)
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

int colour_items_make(const struct cycle *cycle, const struct stays *stays, double round,
                      enum colour_order order, struct colour_items *out)
{
    struct colour_items made = {.of = stays};
    double cut;
    int error = items_make(cycle, &made);

    if (!error)
        error = find_cut(stays, round, &cut);
    if (error) {
        colour_items_free(&made);
        return error;
    }
    place_items(&made, round, cut);
    if (made.count)
        qsort(made.items, made.count, sizeof *made.items, order == COLOUR_BY_LENGTH ? by_length : by_time);
    *out = made;
    return 0;
}

void colour_items_free(struct colour_items *items)
{
    free(items->items);
    free(items->stays);
    *items = (struct colour_items){0};
}
