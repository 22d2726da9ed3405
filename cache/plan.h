/*
 * plan.h - what leaves and what arrives before each operation of a window.
 *
 * A window is a run of operations that the job has already issued and the hooks still hold back
 * (hooks/window.h): within it every use and every free is known. The plan made from it (plan.c, greedy):
 *
 *   - at each operation whose memory does not fit, what is used furthest ahead gives way (Belady's MIN), but
 * its copy-out is issued right after its last use before, not at the need;
 *   - what comes back is issued as early as there is room for it at every moment until it is used, in the
 * order of use;
 *   - what is freed inside the window is dropped after its last use in it: known dead, not written back.
 *
 * Beyond the window the next round is predicted: an allocation is used next where it was used first in this
 * window, or, if it was born in this one, where the one born at the same place of the round before was. A
 * prediction decides about speed only: the plan moves copies, each with all its edges, and an operation
 * brings in whatever is missing itself.
 *
 * Called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_PLAN_H
#define HBMSPILL_CACHE_PLAN_H

#include "cache/internal.h"

enum { PLAN_NEVER = UINT32_MAX };

/* A segment's part in the window. */
struct plan_segment {
    struct segment *segment;
    uint32_t first_use, uses; /* in plan.position, ascending */
    uint32_t cursor;          /* uses already passed */
    uint32_t last;            /* position of the last use passed, PLAN_NEVER before the first */
    uint32_t dies;            /* position of the free that leaves nothing of it, PLAN_NEVER if it survives */
    uint32_t stamp;           /* operation that touches it now */
    uint32_t out_since;       /* position at which it was evicted */
    uint32_t entered;         /* the fetch it is in HBM by, PLAN_NEVER: it was there, or was born */
    uint32_t leaves;          /* and where it leaves in that case, PLAN_NEVER if it stays */
    uint32_t frees, freed;    /* of its items in the window; those already carried out */
    uint64_t reborn;          /* predicted position at which its address has an owner again after it died */
    uint64_t beyond;          /* predicted position of its first use after the window */
    bool in, out;             /* contents in HBM; contents in the slot */
};

enum plan_kind { PLAN_DROP, PLAN_EVICT, PLAN_FETCH };

struct plan_action {
    enum plan_kind kind;
    uint32_t segment;      /* index */
    uint32_t first, count; /* pieces */
    uint32_t scheduled;    /* the schedule's action, by turns (unroll.h), if it is one */
    uint32_t at;           /* issued before the operation at this position */
    uint32_t use;          /* fetch: position that needs it, the window's length if beyond */
    uint32_t leaves;       /* fetch: position at which it goes again, PLAN_NEVER if it stays */
    uint32_t next;         /* of those at the same position */
};

struct plan {
    uint32_t entries;      /* of the window: operations and frees */
    bool alone;            /* it is no run of operations, but each of them (cache_window_alone) */
    uint32_t length;       /* operations; a position is one among these */
    uint32_t *position_of; /* entries: the position, of a free that of the operation after it */
    uint64_t capacity;     /* bytes of HBM planned with */
    struct plan_segment *segments;
    uint32_t segment_count, segment_capacity;
    uint32_t *touch;       /* segment indices, operation by operation */
    uint32_t *touch_first; /* length + 1: where an operation's begin */
    uint32_t *position;    /* uses, segment by segment */
    bool *is_free;         /* entries */
    uint32_t *frees;       /* entries: the segment an operation frees an item of, PLAN_NEVER if none */
    struct plan_action *actions;
    uint32_t action_count, action_capacity;
    uint32_t replaced;   /* so many of them are of a schedule that was replaced within the window */
    uint32_t *head;      /* length + 1: first action at a position, PLAN_NEVER if none */
    struct known *known; /* the round it is part of, NULL: none is known */
    uint32_t phase;      /* of the first operation in it */
    uint64_t round;      /* its number when that is issued (known->round) */
    int64_t *occupied;   /* length: bytes in HBM during an operation */
};

/* -ENOMEM: no plan, which is no error for the job. alone: count is 1; -ENOENT where the operation is part of
 * no round that is known. */
int plan_make(struct cache *cache, const struct cache_planned_op *ops, unsigned count, bool alone,
              struct plan **out);
/* Issues what is due before an entry of the window. May release and take the lock. */
void plan_step(struct cache *cache, struct plan *plan, unsigned entry);
void plan_free(struct plan *plan);

/* The actions, two ways: for a window alone, and from the schedule of a round (-ENOENT: it belongs to none
 * that is known). */
int plan_window(struct cache *cache, struct plan *plan);
int plan_known(struct cache *cache, struct plan *plan);
/* Of such a plan: what is ahead of a segment touched (plan.touch's index) by the operation that is next. */
void plan_touch(const struct cache *cache, const struct plan *plan, uint32_t position, uint32_t touch);
/* At the window's end: rounds that the history shows from now on. */
void plan_learn(struct cache *cache);
void plan_forget(struct cache *cache);

/* The segment's part, entered at first sight; NULL: -ENOMEM. */
struct plan_segment *plan_enter(struct plan *plan, struct segment *segment);
/* One more action, of all pieces; -ENOMEM. */
int plan_add(struct plan *plan, enum plan_kind kind, uint32_t segment, uint32_t at, uint32_t use);

/* A position of the window among all. */
static inline uint64_t plan_absolute(const struct cache *cache, uint32_t position)
{
    return position == PLAN_NEVER ? UINT64_MAX : cache->plan_base + position;
}

/* Position of the first use not yet passed, in the window or beyond. */
static inline uint64_t plan_next_use(const struct plan *plan, const struct plan_segment *entry)
{
    return entry->cursor < entry->uses ? plan->position[entry->first_use + entry->cursor] : entry->beyond;
}

#endif
