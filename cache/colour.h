/*
 * colour.h - a frame for each piece of a round's buffers, chosen so that bindings repeat and nobody waits.
 *
 * Frames are numbered here, and such a number is a colour. An address keeps its bindings where every stay of
 * each of its pieces (stays.h) has the same colour; two stays whose arcs overlap must not have one. That is
 * colouring of arcs around a circle. What never leaves gets colours of its own. The circle is cut where
 * fewest others are in HBM; what is there at the cut comes first, then the rest as it arrives, or the longest
 * first: of the colours free for all stays of a piece, those whose next owner comes soonest behind it. Where
 * none is free for all, each stay gets one of its own, which costs driver calls in every round; where none is
 * free even for it alone, the one that its copies have to wait for the least.
 *
 * It decides about speed only: what orders the owners of a frame are its edges.
 *
 * Plain data, no locks. Times are nanoseconds.
 */
#ifndef HBMSPILL_CACHE_COLOUR_H
#define HBMSPILL_CACHE_COLOUR_H

#include "cache/stays.h"
#include "model/machine.h"

enum { COLOUR_NONE = UINT32_MAX };

/* What it costs the host to bind a piece to another frame, nanoseconds. */
#define COLOUR_REBIND (MACHINE_HOST_UNMAP + MACHINE_HOST_MAP + MACHINE_HOST_ACCESS)

/*
 * The last two are no colours at all. Where HBM is full all the time, and what moves comes back to frames
 * that others have, each piece that is not at home displaces the next, and homes only make it wait. Then a
 * piece goes to the frame that has been free for longest, where it waits the least; or, which spares driver
 * calls, to the one it is bound to where that is free.
 */
enum colour_order {
    COLOUR_BY_TIME,
    COLOUR_BY_LENGTH,
    COLOUR_ORDERS,
    COLOUR_OLDEST = COLOUR_ORDERS,
    COLOUR_BOUND,
    COLOUR_WAYS
};

struct colouring {
    struct stays stays;
    uint32_t colours; /* that there are */
    /*
     * Colours by piece: those a buffer's pieces are born with, or have all the time, begin at
     * of_buffer[buffer]; those of pieces that an action brings in at of_action[action]. COLOUR_NONE: none was
     * found.
     */
    uint32_t *colour, *of_buffer, *of_action;
    uint32_t total; /* of colour */
    /* Of each colour the phases at which somebody comes to it, ascending: from comes_first[colour] up to
     * comes_first[colour + 1]. */
    uint32_t *comes, *comes_first;
    enum colour_order order;
    uint32_t homeless; /* pieces without a colour that should have one */
};

/* In so many colours (frames of HBM). -ENOMEM. */
int colouring_make(const struct cycle *cycle, const struct schedule *schedule,
                   const struct cycle_times *times, uint32_t colours, enum colour_order order,
                   struct colouring *out);
void colouring_free(struct colouring *colouring);

/*
 * The best of several, by running the schedule with each (cycle_run.h) in as many frames as the cycle's HBM
 * has. result: of that run; value: its time and what bindings cost, nanoseconds. freely: only without
 * colours, which is quick. `run' is of the cycle. -ENOMEM, or as cycle_run_schedule.
 */
int colouring_choose(struct cycle_run *run, const struct cycle *cycle, const struct schedule *schedule,
                     double most, bool freely, struct colouring *out, struct cycle_result *result,
                     double *value);

/* The same without the colours: how a schedule does. With a run of its own; every order is tried. */
int colouring_judge(const struct cycle *cycle, const struct schedule *schedule, struct cycle_result *result,
                    double *value);

/* There are no colours. */
static inline bool colouring_freely(const struct colouring *colouring)
{
    return colouring->order >= COLOUR_ORDERS;
}

/* Where the colour of a stay's piece is. */
static inline uint32_t *colouring_of(const struct colouring *colouring, const struct schedule *schedule,
                                     const struct stay *stay, uint32_t piece)
{
    if (stay->action != CYCLE_NEVER)
        return &colouring->colour[colouring->of_action[stay->action] + piece -
                                  schedule->actions[stay->action].first];
    return &colouring->colour[colouring->of_buffer[stay->buffer] + piece];
}

#endif
