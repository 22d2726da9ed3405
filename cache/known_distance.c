/*
 * known_distance.c - how far ahead, in operations, things of a round are: for each touch and each action of
 * the schedule the next use of the buffer, and when it leaves HBM again or comes back.
 */
#include "cache/known.h"
#include <errno.h>
#include <stdlib.h>

static bool is_static(const struct known *known, uint32_t buffer)
{
    return cycle_static(&known->cycle->buffers[buffer]);
}

/* From `from' to `to' in a buffer's positions; of a static one around the circle. `same': to itself is no
 * way. */
static uint32_t distance(const struct known *known, uint32_t buffer, uint64_t from, uint64_t to, bool same)
{
    uint32_t length = known->cycle->length;

    if (is_static(known, buffer)) {
        uint32_t way = (uint32_t)((to + length - from) % length);

        return way == 0 && !same ? length : way;
    }
    return to > from || (same && to == from) ? (uint32_t)(to - from) : CYCLE_NEVER;
}

/* To the first use at `from' (with same) or behind it. */
static uint32_t next_use(const struct known *known, uint32_t buffer, uint64_t from, bool same)
{
    const struct cycle_buffer *about = &known->cycle->buffers[buffer];
    uint32_t best = CYCLE_NEVER;

    for (uint32_t i = 0; i < about->uses; i++) {
        uint32_t way = distance(known, buffer, from, known->cycle->uses[about->first_use + i], same);

        best = way < best ? way : best;
    }
    return best;
}

/* To the next action of a kind that concerns any of the pieces; by_buffer lists actions, from first[buffer]
 * on. */
static uint32_t next_action(const struct known *known, const uint32_t *by_buffer, const uint32_t *first,
                            const struct schedule_action *from, uint64_t position, enum schedule_kind kind)
{
    uint32_t best = CYCLE_NEVER;

    for (uint32_t i = first[from->buffer]; i < first[from->buffer + 1]; i++) {
        const struct schedule_action *other = &known->schedule->actions[by_buffer[i]];
        uint32_t way;

        if (other->kind != kind || other->first >= from->first + from->count ||
            from->first >= other->first + other->count)
            continue;
        way = distance(known, from->buffer, position, schedule_position(known->cycle, other), false);
        best = way < best ? way : best;
    }
    return best;
}

static uint32_t death_after(const struct known *known, uint32_t buffer, uint64_t position)
{
    uint32_t death = known->cycle->buffers[buffer].death;

    return death == CYCLE_NEVER || death <= position ? CYCLE_NEVER : (uint32_t)(death - position);
}

static uint32_t sooner(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void touch_distances(struct known *known, const uint32_t *by_buffer, const uint32_t *first)
{
    const struct cycle *cycle = known->cycle;

    for (uint32_t phase = 0; phase < cycle->length; phase++)
        for (uint32_t k = cycle->ops[phase].first; k < cycle->ops[phase].first + cycle->ops[phase].count;
             k++) {
            uint32_t buffer = cycle->touches[k].buffer;
            struct schedule_action all = {.buffer = buffer, .count = UINT32_MAX};
            uint64_t position = (uint64_t)cycle->touches[k].age * cycle->length + phase;

            known->touch_next[k] = next_use(known, buffer, position, false);
            known->touch_until[k] = sooner(next_action(known, by_buffer, first, &all, position, SCHEDULE_OUT),
                                           death_after(known, buffer, position));
        }
}

int known_distances(struct known *known)
{
    const struct schedule *schedule = known->schedule;
    uint32_t buffers = known->cycle->buffer_count;
    uint32_t *by_buffer = malloc((schedule->count + 1) * sizeof *by_buffer);
    uint32_t *first = calloc(buffers + 2, sizeof *first);
    uint32_t *uses = malloc((schedule->count + 1) * sizeof *uses);
    uint32_t *until = malloc((schedule->count + 1) * sizeof *until);
    uint32_t *next = malloc((known->cycle->touch_count + 1) * sizeof *next);
    uint32_t *leaves = malloc((known->cycle->touch_count + 1) * sizeof *leaves);

    if (!by_buffer || !first || !uses || !until || !next || !leaves) {
        free(by_buffer);
        free(first);
        free(uses);
        free(until);
        free(next);
        free(leaves);
        return -ENOMEM;
    }
    free(known->action_use);
    free(known->action_until);
    free(known->touch_next);
    free(known->touch_until);
    known->action_use = uses;
    known->action_until = until;
    known->touch_next = next;
    known->touch_until = leaves;
    schedule_by_buffer(schedule, buffers, by_buffer, first);
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct schedule_action *action = &schedule->actions[i];
        uint64_t position = schedule_position(known->cycle, action);

        uses[i] = next_use(known, action->buffer, position, true);
        if (action->kind == SCHEDULE_OUT)
            uses[i] = sooner(uses[i], next_action(known, by_buffer, first, action, position, SCHEDULE_IN));
        until[i] = sooner(next_action(known, by_buffer, first, action, position, SCHEDULE_OUT),
                          death_after(known, action->buffer, position));
    }
    touch_distances(known, by_buffer, first);
    free(by_buffer);
    free(first);
    return 0;
}
