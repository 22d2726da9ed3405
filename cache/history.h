/*
 * history.h - the operations that were submitted, and the period at which they repeat.
 *
 * Kept while memory is short: of each operation what it is and what it touches, as (segment, life), and how
 * long it took; of each life's end where it was. A life is a segment's time from an allocation to the end of
 * all contents; the same address may have many. Operations are numbered over the whole run (a position); the
 * last HISTORY_OPS are there.
 *
 * An operation repeats the one `lag' earlier where both are of one kind (function, grid), touch as many
 * things of the same sizes, and each of these is either the same life as then, or began as many operations
 * ago, at the same place of the operation that touched it first. So rounds that use other addresses for the
 * same purpose are alike, and rounds that take turns among buffers of one size are not.
 *
 * A period P is found where the last P operations repeat the P before them. Candidates are distances to where
 * the last few kinds and sizes occurred before, small multiples of these, and to where what an operation
 * touches was touched by another of its kind, the last time and the time before; each is followed operation
 * by operation until it fails. The one that has held for longest is the period once it has held for a whole
 * round: an inner loop holds for less long than the step that contains it. Two rounds have to be in the
 * history, so the longest that is found has half of HISTORY_OPS operations, or of HISTORY_TOUCHES touches.
 *
 * Called with the cache's lock held. Times are nanoseconds.
 */
#ifndef HBMSPILL_CACHE_HISTORY_H
#define HBMSPILL_CACHE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

struct segment;

enum {
    HISTORY_OPS = 1 << 16,
    HISTORY_TOUCHES = 1 << 19,
    HISTORY_FREES = 1 << 17,
    HISTORY_GRAM = 8,
    HISTORY_LAGS = 16,
    HISTORY_LONG = UINT32_MAX /* of a touch: so long ago or longer */
};

/* Of a segment: where the history knows its life from. */
struct history_mark {
    uint64_t life;        /* of which the rest is, 0: none */
    uint64_t first, last; /* positions of its touches */
    uint32_t place;       /* of the first one among the operation's touches */
};

struct history_touch {
    struct segment *segment;
    uint64_t life;
    uint32_t since, place; /* operations since the life was touched first, and its place there */
};

struct history_op {
    uint64_t signature;
    uint64_t first; /* touch number, over the whole run */
    uint32_t count;
    uint32_t window; /* submitted together with those of the same number */
    float duration;  /* negative: not measured */
};

struct history_free {
    uint64_t position;    /* the free came before the operation at this position */
    uint64_t first, last; /* as of history_mark */
    uint32_t place;
    uint32_t window; /* it was submitted with this window */
};

struct history_lag {
    uint64_t lag, run; /* the last `run' operations repeat those `lag' earlier */
};

struct history {
    struct history_op *ops;
    struct history_touch *touches;
    struct history_free *frees;
    uint64_t *grams; /* hash of the last HISTORY_GRAM signatures: position after them, 0: none */
    struct history_twice {
        uint64_t last, before; /* positions + 1, 0: none */
    } * twice;                 /* hash of a life, the kind of operation that touched it, the place there */
    uint64_t count, touched, freed; /* over the whole run */
    uint64_t old; /* lives up to this number may have been touched before the history began */
    struct history_lag lags[HISTORY_LAGS];
    unsigned lag_count;
};

/* False where there is no memory for it: then nothing is ever found. lives: that had begun by now. */
bool history_start(struct history *history, uint64_t lives);
void history_end(struct history *history);

/* One more operation; touches are added to it before the next. kind: a hash of what it does, the same in
 * every round; 0 will do. */
void history_op(struct history *history, uint32_t window, uint64_t kind);
void history_touch(struct history *history, struct segment *segment);
/* The operation is whole: periods are looked for. */
void history_op_end(struct history *history);
/* The segment's life ends. */
void history_freed(struct history *history, const struct segment *segment, uint64_t position,
                   uint32_t window);

/* 0: there is none. Else the operations before `count' - period are those before `count', a whole round of
 * them. */
uint64_t history_period(const struct history *history);
/* Hash of the kinds and sizes of the HISTORY_GRAM operations up to `position'; 0 where there are not so many.
 */
uint64_t history_gram(const struct history *history, uint64_t position);
/* How many operations at the end the period `lag' has held for; 0 where it does not. */
uint64_t history_run(const struct history *history, uint64_t lag);

/* NULL where it is no longer there. */
struct history_op *history_at(const struct history *history, uint64_t position);
const struct history_touch *history_touch_at(const struct history *history, const struct history_op *op,
                                             uint32_t index);

/* What is older than the history: where it was touched first is not known. */
static inline bool history_old(const struct history *history, const struct history_touch *touch)
{
    return touch->life <= history->old;
}

#endif
