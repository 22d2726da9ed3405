#include "cache/colour_group.h"
#include "cache/colour.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Times are sums of numbers up to seconds: what overlaps for less than this touches. Nanoseconds. */
#define TOUCHING 1.0

enum {
    PARTS = 64, /* of a round: a bit for each */
    FEW = 4     /* owners that are all looked at */
};

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
    groups->taken = calloc(groups->capacity, sizeof *groups->taken);
    if (!groups->next || !groups->inside || !groups->groups || !groups->taken) {
        colour_groups_free(groups);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < stays->count; i++)
        groups->inside[i] = inside(&stays->stays[i], round);
    for (uint32_t i = first; i < colours; i++)
        groups->next[i] = i + 1 < colours ? i + 1 : COLOUR_NONE;
    groups->count = 1;
    groups->groups[0] = (struct colour_group){.first = first < colours ? first : COLOUR_NONE,
                                              .count = first < colours ? colours - first : 0,
                                              .disjoint = true,
                                              .apart = true};
    return 0;
}

void colour_groups_free(struct colour_groups *groups)
{
    for (uint32_t i = 0; groups->groups && i < groups->count; i++) {
        free(groups->groups[i].owners);
        free(groups->groups[i].by_phase);
    }
    free(groups->groups);
    free(groups->next);
    free(groups->inside);
    free(groups->taken);
    *groups = (struct colour_groups){0};
}

uint64_t colour_groups_inside(const struct colour_groups *groups, const uint32_t *stays, uint32_t count)
{
    uint64_t bits = 0;

    for (uint32_t i = 0; i < count; i++)
        bits |= groups->inside[stays[i]];
    return bits;
}

double colour_groups_part(const struct colour_groups *groups)
{
    return groups->round / PARTS;
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

/* Of owners in the order of their beginnings the first that begins behind the stay, or together with it. */
static uint32_t first_behind(const struct colour_groups *groups, const struct colour_group *group,
                             const struct stay *stay, bool by_phase)
{
    uint32_t low = 0, high = group->owner_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (by_phase ? groups->stays[group->by_phase[middle]].from < stay->from
                     : groups->stays[group->owners[middle]].begins < stay->begins)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * Who can be there at the same time as the stay: where no two of the owners are, the one that begins before
 * it, and then from that on until one begins behind its end. Of all others, all.
 */
struct near {
    uint32_t first, count; /* of the owners in their order, around the circle */
};

static struct near near_of(const struct colour_groups *groups, const struct colour_group *group,
                           const struct stay *stay, bool by_phase)
{
    struct near near = {.count = group->owner_count};

    if (near.count > FEW && (by_phase ? group->apart : group->disjoint))
        near.first = (first_behind(groups, group, stay, by_phase) + near.count - 1) % near.count;
    return near;
}

static const struct stay *owner_at(const struct colour_groups *groups, const struct colour_group *group,
                                   const uint32_t *owners, uint32_t index)
{
    return &groups->stays[owners[index < group->owner_count ? index : index - group->owner_count]];
}

double colour_group_overlap(const struct colour_groups *groups, const struct colour_group *group,
                            const struct stay *stay, double most)
{
    double sum = 0;
    bool some = group->owner_count > FEW && group->disjoint;
    struct near near;

    near = near_of(groups, group, stay, false);
    for (uint32_t i = 0; i < near.count && sum <= most; i++) {
        const struct stay *owner = owner_at(groups, group, group->owners, near.first + i);
        double both;

        if (some && i && forward(stay->begins, owner->begins, groups->round) >= stay->takes)
            break;
        both = overlap(owner, stay, groups->round);
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
    bool some = group->owner_count > FEW && group->apart;
    struct near near = near_of(groups, group, stay, true);

    for (uint32_t i = 0; i < near.count && worst < CROSSED; i++) {
        const struct stay *owner = owner_at(groups, group, group->by_phase, near.first + i);

        if (crosses(owner, stay, groups->length, true) || crosses(stay, owner, groups->length, true))
            worst = CROSSED;
        else if (crosses(owner, stay, groups->length, false) || crosses(stay, owner, groups->length, false))
            worst = CROSSED_WAITS;
        else if (some && i)
            break;
    }
    return worst;
}

double colour_group_gap(const struct colour_groups *groups, const struct colour_group *group,
                        const struct stay *stay)
{
    struct stay end = {.begins =
                           stay->begins + stay->takes - TOUCHING}; /* within rounding it may begin there */
    double gap;

    if (!group->owner_count)
        return groups->round;
    if (end.begins >= groups->round)
        end.begins -= groups->round;
    if (end.begins < 0)
        end.begins += groups->round;
    gap = forward(end.begins,
                  owner_at(groups, group, group->owners, first_behind(groups, group, &end, false))->begins,
                  groups->round) -
          TOUCHING;
    return gap > 0 ? gap : 0;
}

/* NULL: no memory. */
static uint32_t *copy_of(const uint32_t *owners, uint32_t count)
{
    uint32_t *copy = malloc((count + 1) * sizeof *copy);

    if (copy && count)
        memcpy(copy, owners, count * sizeof *copy);
    return copy;
}

int colour_group_split(struct colour_groups *groups, uint32_t index, uint32_t count, uint32_t *out)
{
    struct colour_group made, *from;
    uint64_t *taken;
    uint32_t last;

    if (groups->count == groups->capacity) {
        uint32_t capacity = 2 * groups->capacity;
        struct colour_group *grown = realloc(groups->groups, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        groups->groups = grown;
        taken = realloc(groups->taken, capacity * sizeof *taken);
        if (!taken)
            return -ENOMEM;
        groups->taken = taken;
        groups->capacity = capacity;
    }
    from = &groups->groups[index];
    made = *from;
    made.count = count;
    made.owner_capacity = from->owner_count;
    made.owners = copy_of(from->owners, from->owner_count);
    made.by_phase = copy_of(from->by_phase, from->owner_count);
    if (!made.owners || !made.by_phase) {
        free(made.owners);
        free(made.by_phase);
        return -ENOMEM;
    }
    last = from->first;
    for (uint32_t i = 1; i < count; i++)
        last = groups->next[last];
    from->first = groups->next[last];
    from->count -= count;
    groups->next[last] = COLOUR_NONE;
    groups->groups[groups->count] = made;
    groups->taken[groups->count] = groups->taken[index];
    *out = groups->count++;
    return 0;
}

static void insert(uint32_t *owners, uint32_t count, uint32_t at, uint32_t stay)
{
    memmove(owners + at + 1, owners + at, (count - at) * sizeof *owners);
    owners[at] = stay;
}

int colour_group_own(struct colour_groups *groups, uint32_t index, uint32_t stay)
{
    struct colour_group *group = &groups->groups[index];
    const struct stay *owner = &groups->stays[stay];

    if (group->owner_count == group->owner_capacity) {
        uint32_t capacity = group->owner_capacity ? 2 * group->owner_capacity : 4;
        uint32_t *owners = realloc(group->owners, capacity * sizeof *owners), *by_phase = NULL;

        if (owners) {
            group->owners = owners;
            by_phase = realloc(group->by_phase, capacity * sizeof *by_phase);
        }
        if (!by_phase)
            return -ENOMEM;
        group->by_phase = by_phase;
        group->owner_capacity = capacity;
    }
    /* One that takes no time would hide who is there around it. */
    if (owner->takes <= TOUCHING || colour_group_overlap(groups, group, owner, TOUCHING) > TOUCHING)
        group->disjoint = false;
    if (colour_group_crossing(groups, group, owner) != CROSSED_NOT)
        group->apart = false;
    insert(group->owners, group->owner_count, first_behind(groups, group, owner, false), stay);
    insert(group->by_phase, group->owner_count, first_behind(groups, group, owner, true), stay);
    group->owner_count++;
    groups->taken[index] |= groups->inside[stay];
    return 0;
}
