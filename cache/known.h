/*
 * known.h - a round that was found in the history, and how its buffers are found again when it comes round.
 *
 * A cycle (cycle.h) names buffers by what they are in the round. In a later round, a static buffer is the
 * same segment; one that is born in every round is whatever segment is touched where it is touched first. So
 * an operation is the one expected if every segment it touches is the one its touch stands for, or could be
 * the birth that is due there. Of what is born in every round there are as many lives at once as rounds go by
 * until it is touched for the last time or dies: its ages.
 *
 * Called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_KNOWN_H
#define HBMSPILL_CACHE_KNOWN_H

#include "cache/cycle.h"
#include "cache/history.h"

struct frame;

/* So often deaths are looked for: 1, 2, 4 ... rounds after they were last. */
enum { KNOWN_REMADE = 4 };

struct known_life {
    struct segment *segment;
    uint64_t life; /* 0: there is none */
};

struct known {
    struct cycle *cycle;
    uint64_t hash;
    struct schedule *schedule; /* in use, NULL: none yet */
    struct schedule *next;     /* to be taken up when a round begins */
    uint32_t *head;            /* length + 1: an operation's first action in the schedule */
    uint32_t *action_use; /* of each action: operations until the next use; of one out, or the way back in */
    uint32_t *action_until;             /* until it leaves, or dies */
    uint32_t *touch_next, *touch_until; /* the same of each touch; CYCLE_NEVER: there is none */
    uint32_t *entries, entry_count;     /* phases at which a window began */
    struct known_gram {
        uint64_t gram; /* of the operations up to and with that phase (history_gram) */
        uint32_t phase;
    } * grams;                 /* length, ascending: where operations that are no windows join */
    uint64_t *signatures;      /* length */
    struct known_life **lives; /* by buffer, then by age: the one born last in [0]; static ones in [0] */
    uint32_t *ages;            /* by buffer: how many are remembered, one for static ones */
    struct frame **homes; /* frames for pieces (home.h), NULL for some or all: as buffers are born, as actions
                             bring them in */
    struct frame **here;  /* the same of each buffer now */
    uint32_t *first_home,
        *action_home; /* where a buffer's begin, and those of pieces that an action brings in; by turns */
    struct frame **
        *whole;      /* by frame: where it stands in homes as that of a piece that never leaves; or NULL */
    uint32_t frames; /* numbered */
    uint64_t *held;  /* by frame: the slots of the round in which it is a home, bits */
    uint32_t slots;
    bool at_home;      /* they are those of the schedule */
    bool freely;       /* none were wanted (colour.h) */
    bool oldest;       /* and pieces go to the frames that have been free for longest */
    uint32_t turns;    /* rounds that homes are chosen for together (unroll.h) */
    uint32_t born;     /* buffers born in a round */
    uint64_t round;    /* number of the one that is being planned: modulo turns it says which homes */
    uint64_t followed; /* when it was followed last, for replacing the one that was not for longest */
    unsigned tried;    /* schedules made without a planner, of SCHEDULE_TRIES */
    struct schedule_worth worth; /* of the one in use; time 0 until its homes were chosen */
    uint32_t bound;              /* pieces bound anew in a round, with those homes */
    enum { REFRAME_UNKNOWN, REFRAME_GAINS, REFRAME_NOT } larger; /* frames, for this round (reframe.h) */
    enum {
        ASKED_NOTHING,
        ASKED_KEPT,
        ASKED_ALL
    } asked;          /* of the planner: its plan if it has one, or makes one */
    bool answered;    /* it came, or will not */
    uint64_t made;    /* operations there had been */
    uint32_t undying; /* buffers born in every round whose deaths have not been seen */
    unsigned remade;  /* times their deaths were looked for since */
};

/*
 * The round of `period' operations that ends before position history->count, which have repeated those before
 * them. 0; -ENOENT: it does not hang together (something is touched that is born in no round and does not
 * stay the same, say); -ENOMEM.
 */
int known_make(const struct history *history, uint64_t period, uint64_t frame_size, struct known **out);
void known_free(struct known *known);
/* Its round as the history shows it by now. As known_make; known->remade goes on. */
int known_remake(const struct history *history, const struct known *known, struct known **out);
/* Whether deaths may be seen yet, when more rounds have gone by. */
static inline bool known_waits(const struct known *known)
{
    return known->undying && known->remade < KNOWN_REMADE;
}
/* No segment may have them any more. */
void known_forget_homes(struct known *known);
/* Which of its turns a round is; 0 where homes have not been chosen yet. */
static inline uint32_t known_turn(const struct known *known, uint64_t round)
{
    return known->turns > 1 ? (uint32_t)(round % known->turns) : 0;
}
/* The first of known->grams that is not less. */
uint32_t known_gram(const struct known *known, uint64_t gram);

/* Takes up a schedule, which belongs to known from then on; one that does not fit the cycle is freed. */
void known_schedule(struct known *known, struct schedule *schedule);
/* known_distance.c: fills in what is ahead of actions and touches. -ENOMEM: nothing is changed. */
int known_distances(struct known *known);

#endif
