#include "cache/known.h"
#include "cache/segment.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* A life met in one of the two rounds. */
struct met {
    uint64_t life;
    uint64_t round;  /* 0: touched first in the round before, 1: in this one */
    uint32_t place;  /* of its first touch in that round */
    uint32_t buffer; /* of a static one, or one born in this round; else CYCLE_NEVER */
    uint64_t last;   /* position of its last touch */
    UT_hash_handle hh;
};

/* Where the rounds are, and what is gathered from them. */
struct making {
    const struct history *history;
    uint64_t period, start; /* of this round; the one before starts at start - period */
    struct met *met;
    uint32_t *buffer_at; /* place of a touch: the buffer that is born there, CYCLE_NEVER */
    struct known *known;
    struct cycle *cycle;
    uint32_t capacity; /* of buffers */
};

static const struct history_op *op_at(const struct making *making, unsigned round, uint64_t phase)
{
    return history_at(making->history, making->start - (1 - round) * making->period + phase);
}

static struct met *met_find(const struct making *making, uint64_t life)
{
    struct met *met;

    HASH_FIND(hh, making->met, &life, sizeof life, met);
    return met;
}

/* Notes all touches of a round, in order. */
static int meet(struct making *making, unsigned round)
{
    uint32_t place = 0;

    for (uint64_t phase = 0; phase < making->period; phase++) {
        const struct history_op *op = op_at(making, round, phase);

        for (uint32_t k = 0; k < op->count; k++, place++) {
            const struct history_touch *touch = history_touch_at(making->history, op, k);
            struct met *met = met_find(making, touch->life);

            if (!met) {
                met = malloc(sizeof *met);
                if (!met)
                    return -ENOMEM;
                *met =
                    (struct met){.life = touch->life, .round = round, .place = place, .buffer = CYCLE_NEVER};
                HASH_ADD(hh, making->met, life, sizeof met->life, met);
            }
            met->last = making->start - (1 - round) * making->period + phase;
        }
    }
    return 0;
}

static int buffer_add(struct making *making, const struct segment *segment, uint32_t birth, uint32_t *index)
{
    struct cycle *cycle = making->cycle;

    if (cycle->buffer_count == making->capacity) {
        uint32_t capacity = making->capacity ? 2 * making->capacity : 256;
        struct cycle_buffer *buffers = realloc(cycle->buffers, capacity * sizeof *buffers);

        if (!buffers)
            return -ENOMEM;
        cycle->buffers = buffers;
        making->capacity = capacity;
    }
    *index = cycle->buffer_count++;
    cycle->buffers[*index] =
        (struct cycle_buffer){.size = segment->size, .birth = birth, .death = CYCLE_NEVER};
    return 0;
}

/* Buffers, by this round's touches: static ones first, then those born in it, each in the order of first
 * touch. */
static int find_buffers(struct making *making, bool born)
{
    uint32_t place = 0;

    for (uint64_t phase = 0; phase < making->period; phase++) {
        const struct history_op *op = op_at(making, 1, phase), *before = op_at(making, 0, phase);

        if (op->count != before->count)
            return -ENOENT;
        for (uint32_t k = 0; k < op->count; k++, place++) {
            const struct history_touch *touch = history_touch_at(making->history, op, k);
            const struct history_touch *then = history_touch_at(making->history, before, k);
            struct met *met = met_find(making, touch->life);
            bool same = touch->life == then->life;
            int error;

            if (touch->segment->size != then->segment->size)
                return -ENOENT;
            if (met->buffer != CYCLE_NEVER || same == born || (born && met->round != 1))
                continue;
            if (born && met->life <= op_at(making, 0, 0)->lives)
                return -ENOENT; /* it was there before: other buffers of the same sizes took turns */
            error = buffer_add(making, touch->segment, born ? (uint32_t)phase : CYCLE_NEVER, &met->buffer);
            if (error)
                return error;
            if (born)
                making->buffer_at[place] = met->buffer;
        }
    }
    return 0;
}

/* What each touch of this round is called, which has to be right for the round before, too. */
static int name_touches(struct making *making)
{
    struct cycle *cycle = making->cycle;
    uint32_t place = 0;

    for (uint64_t phase = 0; phase < making->period; phase++) {
        const struct history_op *op = op_at(making, 1, phase), *before = op_at(making, 0, phase);

        cycle->ops[phase] = (struct cycle_op){.first = place, .count = op->count};
        making->known->signatures[phase] = op->signature;
        for (uint32_t k = 0; k < op->count; k++, place++) {
            const struct history_touch *touch = history_touch_at(making->history, op, k);
            const struct met *met = met_find(making, touch->life);
            const struct met *then = met_find(making, history_touch_at(making->history, before, k)->life);
            struct cycle_touch *name = &cycle->touches[place];

            if (met->buffer != CYCLE_NEVER && cycle_static(&cycle->buffers[met->buffer])) {
                if (met != then)
                    return -ENOENT;
                *name = (struct cycle_touch){met->buffer, 0};
            } else if (met->round == 1) {
                if (met->buffer == CYCLE_NEVER || then->round != 0 || then->place != met->place)
                    return -ENOENT;
                *name = (struct cycle_touch){met->buffer, 0};
            } else {
                *name = (struct cycle_touch){making->buffer_at[met->place], 1};
                if (name->buffer == CYCLE_NEVER)
                    return -ENOENT; /* not born in every round */
            }
        }
    }
    return 0;
}

/* Whose contents of a buffer end where, in the rounds before; a segment for each name. */
static void note_life(struct making *making, const struct met *met)
{
    uint32_t buffer =
        met->round == 1 || met->buffer != CYCLE_NEVER ? met->buffer : making->buffer_at[met->place];
    const struct history_op *op = history_at(making->history, met->last);
    struct known_life *life;

    if (buffer == CYCLE_NEVER)
        return;
    life = &making->known->lives[buffer][cycle_static(&making->cycle->buffers[buffer]) ? 0 : 1 - met->round];
    for (uint32_t k = 0; k < op->count; k++) {
        const struct history_touch *touch = history_touch_at(making->history, op, k);

        if (touch->life == met->life)
            *life = (struct known_life){touch->segment, touch->life};
    }
}

/*
 * Deaths, from the frees seen in the two rounds: of the round before where it is there, else of this one.
 * Known is a death only if the free was submitted together with the last use.
 */
static void find_deaths(struct making *making)
{
    const struct history *history = making->history;
    uint64_t oldest = history->freed > HISTORY_FREES ? history->freed - HISTORY_FREES : 0;

    for (uint64_t i = history->freed; i-- > oldest;) {
        const struct history_free *free_of = &history->frees[i % HISTORY_FREES];
        const struct met *met = met_find(making, free_of->life);
        struct cycle_buffer *buffer;
        uint64_t born, death;
        uint32_t index;

        if (free_of->position < making->start - making->period)
            break;
        if (!met)
            continue;
        index = met->round == 1 ? met->buffer : making->buffer_at[met->place];
        if (index == CYCLE_NEVER || cycle_static(&making->cycle->buffers[index]))
            continue;
        buffer = &making->cycle->buffers[index];
        born = making->start - (1 - met->round) * making->period;
        death = free_of->window == history_at(history, met->last)->window ? met->last + 1 : free_of->position;
        if (death <= met->last)
            death = met->last + 1;
        if (met->round == 0 || buffer->death == CYCLE_NEVER)
            buffer->death = (uint32_t)(death - born);
    }
}

/* One of the round before that is used in this one after its counterpart here has died would contradict
 * itself. */
static void settle_deaths(struct cycle *cycle)
{
    for (uint32_t phase = 0; phase < cycle->length; phase++)
        for (uint32_t k = cycle->ops[phase].first; k < cycle->ops[phase].first + cycle->ops[phase].count;
             k++) {
            struct cycle_buffer *buffer = &cycle->buffers[cycle->touches[k].buffer];
            uint32_t position = cycle->touches[k].age * cycle->length + phase;

            if (!cycle_static(buffer) && buffer->death != CYCLE_NEVER && buffer->death <= position)
                buffer->death = position + 1;
        }
}

/* Mean of the two rounds; what was not measured takes as long as the mean of what was. */
static void note_durations(struct making *making)
{
    double sum = 0;
    uint32_t measured = 0;

    for (uint64_t phase = 0; phase < making->period; phase++) {
        double duration = 0;
        unsigned rounds = 0;

        for (unsigned round = 0; round < 2; round++) {
            const struct history_op *op = op_at(making, round, phase);

            if (op->duration < 0)
                continue;
            duration += (double)op->duration;
            rounds++;
        }
        making->cycle->ops[phase].duration = rounds ? duration / rounds : -1;
        if (rounds) {
            sum += duration / rounds;
            measured++;
        }
    }
    for (uint64_t phase = 0; phase < making->period; phase++)
        if (making->cycle->ops[phase].duration < 0)
            making->cycle->ops[phase].duration = measured ? sum / measured : 1000;
}

/* Where windows began: the round may be joined there. */
static int note_entries(struct making *making)
{
    struct known *known = making->known;

    known->entries = malloc(making->period * sizeof *known->entries);
    if (!known->entries)
        return -ENOMEM;
    for (uint64_t phase = 0; phase < making->period; phase++)
        if (phase == 0 || op_at(making, 1, phase)->window != op_at(making, 1, phase - 1)->window)
            known->entries[known->entry_count++] = (uint32_t)phase;
    return 0;
}

static int make(struct making *making)
{
    struct cycle *cycle = making->cycle;
    struct met *met, *next;
    uint32_t touches = 0;
    int error;

    for (uint64_t phase = 0; phase < making->period; phase++)
        touches += op_at(making, 1, phase)->count;
    cycle->length = (uint32_t)making->period;
    cycle->touch_count = touches;
    cycle->ops = calloc(cycle->length + 1, sizeof *cycle->ops);
    cycle->touches = calloc(touches + 1, sizeof *cycle->touches);
    making->buffer_at = malloc((touches + 1) * sizeof *making->buffer_at);
    making->known->signatures = malloc(cycle->length * sizeof *making->known->signatures);
    making->known->head = malloc((cycle->length + 1) * sizeof *making->known->head);
    if (!cycle->ops || !cycle->touches || !making->buffer_at || !making->known->signatures ||
        !making->known->head)
        return -ENOMEM;
    for (uint32_t i = 0; i < touches; i++)
        making->buffer_at[i] = CYCLE_NEVER;
    error = meet(making, 0);
    if (!error)
        error = meet(making, 1);
    if (!error)
        error = find_buffers(making, false);
    if (!error)
        error = find_buffers(making, true);
    if (!error)
        error = name_touches(making);
    if (!error)
        error = note_entries(making);
    if (error)
        return error;
    making->known->lives = calloc(cycle->buffer_count + 1, sizeof *making->known->lives);
    if (!making->known->lives)
        return -ENOMEM;
    HASH_ITER(hh, making->met, met, next)
    note_life(making, met);
    find_deaths(making);
    settle_deaths(cycle);
    note_durations(making);
    error = cycle_index(cycle);
    return error == -EINVAL ? -ENOENT : error;
}

int known_make(const struct history *history, uint64_t period, uint64_t frame_size, struct known **out)
{
    struct making making = {.history = history, .period = period, .start = history->count - period};
    struct met *met, *next;
    int error;

    if (period == 0 || 2 * period > history->count || !history_at(history, history->count - 2 * period))
        return -ENOENT;
    making.known = calloc(1, sizeof *making.known);
    making.cycle = calloc(1, sizeof *making.cycle);
    if (!making.known || !making.cycle) {
        free(making.known);
        free(making.cycle);
        return -ENOMEM;
    }
    making.known->cycle = making.cycle;
    making.cycle->frame_size = frame_size;
    error = make(&making);
    HASH_ITER(hh, making.met, met, next)
    {
        HASH_DEL(making.met, met); /* NOLINT(clang-analyzer-unix.Malloc): next is another one */
        free(met);
    }
    free(making.buffer_at);
    if (error)
        known_free(making.known);
    else
        *out = making.known;
    return error;
}

void known_free(struct known *known)
{
    cycle_free(known->cycle);
    schedule_free(known->schedule);
    schedule_free(known->next);
    free(known->head);
    free(known->action_use);
    free(known->action_until);
    free(known->touch_next);
    free(known->touch_until);
    free(known->entries);
    free(known->homes);
    free(known->held);
    free(known->first_home);
    free(known->action_home);
    free(known->signatures);
    free(known->lives);
    free(known);
}

void known_schedule(struct known *known, struct schedule *schedule)
{
    struct schedule *before;
    uint32_t action = 0;

    if (!schedule_fits(schedule, known->cycle)) {
        schedule_free(schedule);
        return;
    }
    before = known->schedule;
    known->schedule = schedule;
    if (known_distances(known)) {
        known->schedule = before;
        schedule_free(schedule);
        return;
    }
    schedule_free(before);
    for (uint32_t phase = 0; phase <= known->cycle->length; phase++) {
        known->head[phase] = action;
        while (action < schedule->count && schedule->actions[action].at == phase)
            action++;
    }
}
