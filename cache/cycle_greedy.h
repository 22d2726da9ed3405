/*
 * cycle_greedy.h - the greedy planner's parts. cycle_greedy.c says how it works.
 *
 * Positions count phases on from the first one of some round, as cycle.h's, but for all buffers alike; most
 * things repeat, so they are looked up modulo the cycle's length. A slot is a stretch of time in which the
 * links may work: slot 2 p lasts as long as the operation at position p, slot 2 p + 1 is a pause behind it,
 * in which the machine stalls; pauses begin with no length. Sizes are pieces (frames), times ticks of 1/16
 * ns, whole numbers, so that sums do not depend on their order.
 */
#ifndef HBMSPILL_CACHE_CYCLE_GREEDY_H
#define HBMSPILL_CACHE_CYCLE_GREEDY_H

#include "cache/cycle.h"

enum { GREEDY_OUT, GREEDY_IN, GREEDY_TICKS = 16, GREEDY_NONE = UINT32_MAX };

/* Between two uses of a buffer that have an operation between them, or behind the last one. */
struct greedy_gap {
    uint32_t buffer;
    uint32_t from;         /* phase of the use it begins with */
    uint32_t age;          /* of the buffer there */
    uint32_t length;       /* positions to the use it ends with, or to the death */
    bool tail;             /* the contents are not used again: they leave and do not return */
    uint32_t pieces, away; /* of them chosen to leave */
};

/* `count' pieces of a gap leave or arrive. Slots are absolute, where the gap begins at its phase. */
struct greedy_move {
    uint32_t gap, count;
    uint32_t slot;     /* in which the link begins with them */
    uint32_t complete; /* out: in which it is done with them; in: as slot */
    uint32_t kind;
    uint32_t taken, taken_count;  /* in greedy.taken: link time */
    uint32_t first, issue, order; /* of cycle_greedy_emit.c: pieces; position; of issue */
};

struct greedy_taken {
    int64_t slot, ticks;
};

/* What is left of the slots of one direction, around the circle. */
struct greedy_link {
    int64_t *left;  /* ticks */
    uint64_t *some; /* bit of a slot: there is something left in it */
    uint32_t slots;
    int64_t piece; /* ticks it takes */
    struct greedy_link *other;
    int64_t share;              /* how much of the ticks taken is lost to the other direction */
    struct greedy_taken *taken; /* by the last call of greedy_link_take */
    uint32_t taken_count;
};

/* Pieces one after the other on a link: the slots with the first and the last of it. */
struct greedy_span {
    int64_t first, last;
    int64_t pieces;
};

/* Numbers by phase: adding to those of a range of positions, finding small ones (a tree, the root at 1). */
struct greedy_tree {
    struct greedy_node {
        int64_t least, added; /* added: to all below, is in least */
    } * nodes;
    uint32_t leaves, length;
};

struct greedy {
    const struct cycle *cycle;
    uint32_t length;
    int64_t capacity;        /* pieces, less those in hand */
    int64_t *demand;         /* by phase: pieces in HBM if nothing ever left */
    struct greedy_gap *gaps; /* ascending by `from' */
    uint32_t *first_gap;     /* by phase; one more at the end */
    uint32_t gap_count;
    uint32_t *
        last[2]; /* trees over gaps, of tails the second: of those with pieces left, the one that ends last */
    struct greedy_link link[2];
    struct greedy_tree lack; /* by phase: pieces too many in HBM; below 0: room */
    struct greedy_move *moves;
    uint32_t move_count, move_capacity;
    struct greedy_taken *taken;
    uint32_t taken_count, taken_capacity;
    uint32_t begin;  /* phase the way around begins at */
    int64_t stalled; /* ticks of pauses */
};

/* cycle_greedy_gaps.c: demand and gaps. -ENOMEM. */
int greedy_find_gaps(struct greedy *greedy);
/* Nothing is away. */
void greedy_gaps_reset(struct greedy *greedy);
void greedy_gap_exhausted(struct greedy *greedy, uint32_t gap);
/*
 * Of the gaps that begin at positions first to last, at most a round, and have pieces left: the one that ends
 * last, GREEDY_NONE where there is none; the position it begins at.
 */
int64_t greedy_gap_find(const struct greedy *greedy, bool tail, int64_t first, int64_t last, uint32_t *gap);

/* cycle_greedy_link.c, on both links. Slots may be beyond the circle. -ENOMEM. */
int greedy_links_init(struct greedy_link *links, const struct cycle *cycle);
/* Nothing is reserved, there are no pauses. */
void greedy_links_set(struct greedy_link *links, const struct cycle *cycle);
void greedy_links_add(struct greedy_link *links, int64_t slot, int64_t ticks);
void greedy_link_free(struct greedy_link *link);
/* Last slot with something left before `slot', from `begin' on; -1: none. */
int64_t greedy_link_before(const struct greedy_link *link, int64_t slot, int64_t begin);
void greedy_link_give_back(struct greedy_link *link, const struct greedy_taken *taken, uint32_t count);
/*
 * Takes time between begin and end, from the one or from the other on: for up to `most' pieces in one slot,
 * or for one over several. False: there is not enough for one.
 */
bool greedy_link_take(struct greedy_link *link, int64_t begin, int64_t end, bool backwards, int64_t most,
                      struct greedy_span *span);

/* cycle_greedy_tree.c. Positions may be beyond the circle, ranges are from begin to end - 1. */
int greedy_tree_init(struct greedy_tree *tree, uint32_t length);
void greedy_tree_set(struct greedy_tree *tree, const int64_t *values);
void greedy_tree_add(struct greedy_tree *tree, int64_t begin, int64_t end, int64_t value);
int64_t greedy_tree_value(const struct greedy_tree *tree, int64_t position);
/* The first or the last position in the range whose number is below the limit; -1: none. */
int64_t greedy_tree_first(const struct greedy_tree *tree, int64_t begin, int64_t end, int64_t limit);
int64_t greedy_tree_last(const struct greedy_tree *tree, int64_t begin, int64_t end, int64_t limit);

/* cycle_greedy_emit.c: moves to actions. -ENOMEM. */
int greedy_emit(struct greedy *greedy, struct schedule *schedule);

#endif
