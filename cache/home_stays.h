/*
 * home_stays.h - what home.c works on: when pieces of a round's buffers are in HBM. Private to home.c and
 * home_stays.c.
 */
#ifndef HBMSPILL_CACHE_HOME_STAYS_H
#define HBMSPILL_CACHE_HOME_STAYS_H

#include "cache/home.h"

enum {
    MOST_SLOTS = 2048, /* the circle of operations is cut into so many parts at most */
    TIMES = 4096,      /* and the time of a round into so many */
    TIME_WORDS = TIMES / 64
};

/* Pieces of a buffer from when they arrive to when they leave, around the circle. */
struct stay {
    uint32_t buffer, first, count;
    uint32_t start, length; /* slots; as things are issued */
    uint32_t begins,
        takes;       /* of TIMES: when it probably needs a frame, until what follows need not wait for it */
    uint32_t action; /* that brings them in, CYCLE_NEVER: they are born, or there all the time */
    bool settled;    /* they are in HBM when the round begins */
};

struct homes {
    struct known *known;
    const struct cycle *cycle;
    uint32_t slots, words;
    struct frame **frames;
    uint32_t frame_count;
    uint64_t *held;  /* by frame: the slots it has an owner in */
    uint64_t *times; /* by frame: when it is in use, of TIMES */
    double *begin;   /* length + 1: when operations probably begin */
    double *moved;   /* by action: when a copy out has probably ended, a copy in begins */
    struct stay *stays;
    uint32_t stay_count, stay_capacity;
    struct ranked {
        uint32_t frame, rank;
    } * ranked;
    bool failed;
};

/* When operations and copies probably begin and end (cycle_run.h). */
void stays_estimate(struct homes *homes);
/*
 * All stays. by_buffer and first are filled in: the actions of each buffer in order of issue, from
 * first[buffer] on; room for all actions, and for two more than there are buffers. homes->failed: there is no
 * memory.
 */
void stays_make(struct homes *homes, uint32_t *by_buffer, uint32_t *first);

#endif
