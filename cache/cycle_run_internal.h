/*
 * cycle_run_internal.h - a run of a cycle as its files see it: cycle_run.c (what is issued),
 * cycle_run_frames.c (frames, and copies on the link), cycle_run_colours.c (frames that are not alike),
 * cycle_run_new.c (its memory).
 */
#ifndef HBMSPILL_CACHE_CYCLE_RUN_INTERNAL_H
#define HBMSPILL_CACHE_CYCLE_RUN_INTERNAL_H

#include "cache/colour.h"
#include "cache/cycle_run.h"
#include "model/machine.h"

enum { MOST_ROUNDS = 6, OUT = 0, IN = 1 };

/* A buffer of one round. Its pieces are `state->away' and `state->at' from `first' on. */
struct instance {
    uint32_t buffer, first, pieces;
    uint32_t missing; /* pieces that are not in HBM, nor on their way */
    uint32_t use;     /* of the buffer's uses, the next one */
    bool born;
    int64_t next;   /* operation, counted over all rounds, that uses it next; INT64_MAX: none */
    int64_t pinned; /* operation that is being issued and touches it */
    double ready;   /* when all that is on its way is there */
    double used;    /* when its last use ends */
};

/* Frames that become free at the same time, in a ring, in the order of that time. */
struct free_run {
    double ready;
    uint32_t count;
};

struct free_list {
    struct free_run *ring;
    uint32_t first, count, mask;
};

struct busy {
    double begin, end;
};

/* So many copies of an engine are known of: one that finds none of them did not see the link busy. Large
 * rounds have thousands queued at once. */
enum { BUSY = 8192 };

struct free_colour { /* in the list of free ones, the oldest first */
    uint32_t previous, next;
};

struct elsewhere {
    uint32_t gap, place, colour; /* place: in the list of free ones */
};

struct engine {
    double rate, rate_both; /* bytes a nanosecond */
    double free;            /* from when on */
    double bytes;
    struct busy busy[BUSY]; /* the last copies, a ring */
    uint32_t copies;
};

struct waiting {
    struct instance *instance;
    uint32_t first, count;
    uint32_t action;
    double from; /* it does not begin before */
};

struct cycle_run {
    const struct cycle *cycle;
    struct instance *instances;
    uint32_t instance_count;
    uint32_t *instance_of; /* first one of a buffer; those of its rounds follow, round modulo their number */
    uint32_t *ages;        /* their number */
    bool *away;
    double *at; /* when a piece in HBM has arrived, when one outside has left */
    uint32_t piece_count;
    uint32_t *deaths, *death_first; /* buffers by the phase of their death; death_first[phase] */

    struct free_list by_compute, by_copy;
    uint32_t frames, free_frames;
    struct engine engine[2];
    struct waiting *waiting; /* a ring */
    uint32_t waiting_first, waiting_count, waiting_mask;
    double compute;
    double ended[MACHINE_QUEUE_DEPTH]; /* the last operations, a ring by their numbers */
    double turn;                       /* of the round before: how long it took; 0: there was none */
    int64_t now;                       /* operation, counted over all rounds */
    uint32_t misses, least_free;
    struct cycle_times *times; /* to be filled in, or NULL */

    /* With colours frames are not alike: the lists of free ones are empty. */
    const struct colouring *colouring; /* or NULL */
    const struct schedule *schedule;   /* that is run, or NULL */
    uint32_t *home, *held;             /* by piece: the colour it wants now; the one it has or had last */
    double *unused;                    /* by piece: since when nothing uses its binding to that */
    double host;                       /* nothing is issued before: it waited for a binding, or in a queue */
    uint32_t *holder;                  /* by colour: the piece that has it, COLOUR_NONE: it is free */
    double *ready;                     /* by colour: when it is free */
    struct free_colour *free;          /* by colour; the one behind the last is the list's end */
    struct elsewhere *elsewhere;       /* room to choose in */
    uint32_t displaced, bound;         /* pieces that did not come home; that were bound anew */
};

_Static_assert(BUSY >= MACHINE_QUEUE_DEPTH, "the end of a copy that the host waits for is known");

/* The host issues nothing more before something has ended: the first of a queue that is full, or the last use
 * of an address. */
static inline void run_host_waits(struct cycle_run *run, double end)
{
    run->host = end > run->host ? end : run->host;
}

/* As before the first round. */
void run_reset(struct cycle_run *run);

void list_add(struct free_list *list, double ready, uint32_t count);
/* A piece's frame. */
void run_frame_give(struct cycle_run *run, struct free_list *list, double ready, uint32_t piece);
/*
 * Frames for `missing' of `count' pieces from `first' on, those that are away, and when they can be had:
 * those that are ready first; with colours, whatever colours they want, or any that are free.
 */
double run_frames_take_oldest(struct cycle_run *run, uint32_t first, uint32_t count, uint32_t missing);
/* For newborn ones: those an operation gave up last, as their next user is in the same stream; then those
 * that leave first. */
double run_frames_take_youngest(struct cycle_run *run, uint32_t first, uint32_t count);
/* Whether the frame of a piece that is away is another's, who is where it wants to be: it will be given up.
 */
bool run_frames_awaited(const struct cycle_run *run, uint32_t first, uint32_t count);

/* With colours: none has an owner but those of what never leaves. */
void run_colours_reset(struct cycle_run *run);
/* A piece's is free from `ready' on. */
void run_colour_give(struct cycle_run *run, uint32_t piece, double ready);
/* For those of `count' pieces that are away: their own if they are free, else as home_elsewhere (home.h)
 * does, and when they can be had. */
double run_colours_take(struct cycle_run *run, uint32_t first, uint32_t count);

/* Pieces of those that are in HBM leave. */
void run_copy_out(struct cycle_run *run, struct instance *instance, uint32_t first, uint32_t count);
/* Those that are not come, from a moment on. False where there are not enough free frames. */
bool run_copy_in(struct cycle_run *run, struct instance *instance, uint32_t first, uint32_t count,
                 double from);

static inline uint32_t power_of_two(uint32_t least)
{
    uint32_t power = 1;

    while (power < least)
        power *= 2;
    return power;
}

#endif
