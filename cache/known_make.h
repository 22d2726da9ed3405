/*
 * known_make.h - a round being made from the history: known_make.c gathers what goes with it, known_names.c
 * says what its buffers are.
 *
 * Called with the cache's lock held; 0, -ENOENT where it does not hang together, -ENOMEM.
 */
#ifndef HBMSPILL_CACHE_KNOWN_MAKE_H
#define HBMSPILL_CACHE_KNOWN_MAKE_H

#include "cache/known.h"
#include "cache/segment.h"
#include <uthash.h>

/* A static buffer, by its life. */
struct met {
    uint64_t life;
    uint32_t buffer;
    UT_hash_handle hh;
};

/* Where the round is, and what is gathered from it. */
struct making {
    const struct history *history;
    uint64_t period, start; /* of this round; the one before starts at start - period */
    struct met *met;
    uint32_t *buffer_at; /* place of a touch: the buffer that is born there, CYCLE_NEVER */
    struct known *known;
    struct cycle *cycle;
    uint32_t capacity; /* of buffers */
};

/* Buffers, and what each touch of the round is called; where the operations' touches are is known. */
int known_name(struct making *making);
/* When buffers die. */
void known_deaths(struct making *making);
/* The static buffer of that life, NULL if there is none. */
struct met *known_met(const struct making *making, uint64_t life);

/* In whole frames. */
static inline uint64_t size_of(const struct making *making, const struct segment *segment)
{
    uint64_t frame = making->cycle->frame_size;

    return (segment->size + frame - 1) / frame * frame;
}

/* An operation of this round (1) or of the one before (0). */
static inline const struct history_op *op_at(const struct making *making, unsigned round, uint64_t phase)
{
    return history_at(making->history, making->start - (1 - round) * making->period + phase);
}

/* A touch of this round, and whether that of the round before was of the same life. */
static inline const struct history_touch *touch_at(const struct making *making, uint64_t phase,
                                                   uint32_t index, bool *same)
{
    const struct history_touch *touch = history_touch_at(making->history, op_at(making, 1, phase), index);

    *same = touch->life == history_touch_at(making->history, op_at(making, 0, phase), index)->life;
    return touch;
}

#endif
