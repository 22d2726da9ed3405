/*
 * colour_group.h - colours that have the same owners, and when. Private to colour.c and colour_group.c.
 *
 * Pieces that move together take colours together, so there are far fewer groups than colours.
 */
#ifndef HBMSPILL_CACHE_COLOUR_GROUP_H
#define HBMSPILL_CACHE_COLOUR_GROUP_H

#include "cache/stays.h"

struct colour_group {
    uint32_t first, count; /* colours, a list through colour_groups.next */
    uint32_t *owners;      /* indices of stays, ascending by when they begin */
    uint32_t *by_phase;    /* the same, ascending by where they begin as issued */
    uint32_t owner_count, owner_capacity;
    bool disjoint,
        apart; /* no two of them are there at once; none leaves, as issued, behind the next one's beginning */
};

struct colour_groups {
    const struct stay *stays;
    double round;
    uint32_t length;  /* phases */
    uint32_t *next;   /* by colour: another one of its group */
    uint64_t *inside; /* by stay: parts of the round that it takes up wholly */
    struct colour_group *groups;
    uint64_t *taken; /* by group: parts of the round that its owners take up wholly, a bit each */
    uint32_t count, capacity;
};

/* One group of all colours from `first' on. -ENOMEM. */
int colour_groups_make(struct colour_groups *groups, const struct stays *stays, double round, uint32_t length,
                       uint32_t first, uint32_t colours);
void colour_groups_free(struct colour_groups *groups);

/* The same of all of some stays; and how long, at least, something is there twice where a part is taken
 * twice. */
uint64_t colour_groups_inside(const struct colour_groups *groups, const uint32_t *stays, uint32_t count);
double colour_groups_part(const struct colour_groups *groups);

/* How long the stay and the group's owners are there at once, where it is no more than `most', else more than
 * that; 0: it is free for it. */
double colour_group_overlap(const struct colour_groups *groups, const struct colour_group *group,
                            const struct stay *stay, double most);
/*
 * Whether an owner leaves, as issued, only after the stay has begun, or the other way round: CROSSED_WAITS
 * where who comes can wait for that, as nobody needs it yet, CROSSED where not.
 */
enum colour_crossing { CROSSED_NOT, CROSSED_WAITS, CROSSED };
enum colour_crossing colour_group_crossing(const struct colour_groups *groups,
                                           const struct colour_group *group, const struct stay *stay);
/* How long after the stay the next owner comes; the round where there is none. */
double colour_group_gap(const struct colour_groups *groups, const struct colour_group *group,
                        const struct stay *stay);
/* Takes `count' of a group's colours out into a new one with the same owners: its index. -ENOMEM. */
int colour_group_split(struct colour_groups *groups, uint32_t index, uint32_t count, uint32_t *out);
/* -ENOMEM. */
int colour_group_own(struct colour_groups *groups, uint32_t index, uint32_t stay);

#endif
