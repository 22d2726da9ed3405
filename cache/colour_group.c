#include "cache/colour_group.h"
#include "cache/colour.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Times are sums of numbers up to seconds: what overlaps for less than this touches. Nanoseconds. */
#define TOUCHING 1.0

enum { PARTS = 64 }; /* of a round: a bit for each */

/* Parts of the round that a stay takes up from their beginning to their end. */
static uint64_t inside(const struct stay *stay, double round)
{
    double part = round / PARTS, end = stay->begins + stay->takes;
    uint64_t bits = 0;

    for (unsigned i = 0; i < 2 * PARTS; i++) /* it may go on beyond the round's end */
        if (i * part >= stay->begins && (i + 1) * part <= end)
            bits |= UINT64_C(1) << i % PARTS;
    return bits;
}

int colour_groups_make(struct colour_groups *groups, const struct stays *stays, double round, uint32_t length,
                       uint32_t first, uint32_t colours)
{
    *groups = (struct colour_groups){.stays = stays->stays, .round = round, .length = length, .capacity = 64};
    groups->next = malloc(((size_t)colours + 1) * sizeof *groups->next);
    groups->inside = malloc(((size_t)stays->count + 1) * sizeof *groups->inside);
    groups->groups = calloc(groups->capacity, sizeof *groups->groups);
    if (!groups->next || !groups->inside || !groups->groups) {
        colour_groups_free(groups);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < stays->count; i++)
        groups->inside[i] = inside(&stays->stays[i], round);
    for (uint32_t i = first; i < colours; i++)
        groups->next[i] = i + 1 < colours ? i + 1 : COLOUR_NONE;
    groups->count = 1;
    groups->groups[0] = (struct colour_group){.first = first < colours ? first : COLOUR_NONE,
                                              .count = first < colours ? colours - first : 0};
    return 0;
}

void colour_groups_free(struct colour_groups *groups)
{
    for (uint32_t i = 0; groups->groups && i < groups->count; i++)
        free(groups->groups[i].owners);
    free(groups->groups);
    free(groups->next);
    free(groups->inside);
    *groups = (struct colour_groups){0};
}

/* From a to b around a circle. */
static double forward(double a, double b, double round)
{
    return b >= a ? b - a : b - a + round;
}

/* How much of an arc that begins so far ahead of one that takes `takes', and takes `other', is in both. */
static double shared(double ahead, double takes, double other)
{
    double most = takes - ahead;

    return most <= 0 ? 0 : most < other ? most : other;
}

static double overlap(const struct stay *a, const struct stay *b, double round)
{
    double ahead = forward(a->begins, b->begins, round);
    double both = shared(ahead, a->takes, b->takes);

    if (ahead > 0) /* else they begin together */
        both += shared(round - ahead, b->takes, a->takes);
    return both;
}

double colour_group_overlap(const struct colour_groups *groups, const struct colour_group *group,
                            const struct stay *stay, double most)
{
    double sum = 0, part = groups->round / PARTS;

    if (part > most && group->inside & groups->inside[stay - groups->stays])
        return part;
    for (uint32_t i = 0; i < group->owner_count && sum <= most; i++) {
        double both = overlap(&groups->stays[group->owners[i]], stay, groups->round);

        if (both > TOUCHING)
            sum += both;
    }
    return sum;
}

/* Whether the second of two comes, after `patience' phases, before the first has left. */
static bool crosses(const struct stay *first, const struct stay *second, uint32_t length, bool patient)
{
    uint32_t ahead = (second->from + length - first->from) % length;

    return ahead + (patient ? second->patience : 0) < first->length;
}

enum colour_crossing colour_group_crossing(const struct colour_groups *groups,
                                           const struct colour_group *group, const struct stay *stay)
{
    enum colour_crossing worst = CROSSED_NOT;

    for (uint32_t i = 0; i < group->owner_count && worst < CROSSED; i++) {
        const struct stay *owner = &groups->stays[group->owners[i]];

        if (crosses(owner, stay, groups->length, true) || crosses(stay, owner, groups->length, true))
            worst = CROSSED;
        else if (crosses(owner, stay, groups->length, false) || crosses(stay, owner, groups->length, false))
            worst = CROSSED_WAITS;
    }
    return worst;
}

double colour_group_gap(const struct colour_groups *groups, const struct colour_group *group,
                        const struct stay *stay)
{
    double least = groups->round, end = stay->begins + stay->takes;

    if (end >= groups->round)
        end -= groups->round;
    for (uint32_t i = 0; i < group->owner_count; i++) {
        const struct stay *owner = &groups->stays[group->owners[i]];
        double gap = forward(end, owner->begins, groups->round);

        if (gap > groups->round - TOUCHING)
            gap = 0; /* it begins where the stay ends, within rounding */
        if (gap < least)
            least = gap;
    }
    return least;
}

int colour_group_split(struct colour_groups *groups, uint32_t index, uint32_t count, uint32_t *out)
{
    struct colour_group made, *from;
    uint32_t last;

    if (groups->count == groups->capacity) {
        uint32_t capacity = 2 * groups->capacity;
        struct colour_group *grown = realloc(groups->groups, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        groups->groups = grown;
        groups->capacity = capacity;
    }
    from = &groups->groups[index];
    made = (struct colour_group){.inside = from->inside,
                                 .first = from->first,
                                 .count = count,
                                 .owner_count = from->owner_count,
                                 .owner_capacity = from->owner_count};
    if (from->owner_count) {
        made.owners = malloc(from->owner_count * sizeof *made.owners);
        if (!made.owners)
            return -ENOMEM;
        memcpy(made.owners, from->owners, from->owner_count * sizeof *made.owners);
    }
    last = from->first;
    for (uint32_t i = 1; i < count; i++)
        last = groups->next[last];
    from->first = groups->next[last];
    from->count -= count;
    groups->next[last] = COLOUR_NONE;
    groups->groups[groups->count] = made;
    *out = groups->count++;
    return 0;
}

int colour_group_own(struct colour_groups *groups, uint32_t index, uint32_t stay)
{
    struct colour_group *group = &groups->groups[index];

    if (group->owner_count == group->owner_capacity) {
        uint32_t capacity = group->owner_capacity ? 2 * group->owner_capacity : 4;
        uint32_t *grown = realloc(group->owners, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        group->owners = grown;
        group->owner_capacity = capacity;
    }
    group->owners[group->owner_count++] = stay;
    group->inside |= groups->inside[stay];
    return 0;
}
