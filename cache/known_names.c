/*
 * known_names.c - what the buffers of a round are: static ones, by their life, and those born in every round,
 * by the touch they are born with.
 */
#include "cache/known_make.h"
#include "cache/segment.h"
#include <errno.h>
#include <stdlib.h>

struct met *known_met(const struct making *making, uint64_t life)
{
    struct met *met;

    HASH_FIND(hh, making->met, &life, sizeof life, met);
    return met;
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
        (struct cycle_buffer){.size = size_of(making, segment), .birth = birth, .death = CYCLE_NEVER};
    return 0;
}

static int add_static(struct making *making, const struct history_touch *touch)
{
    struct met *met;
    int error;

    if (known_met(making, touch->life))
        return 0;
    met = malloc(sizeof *met);
    if (!met)
        return -ENOMEM;
    met->life = touch->life;
    error = buffer_add(making, touch->segment, CYCLE_NEVER, &met->buffer);
    if (error) {
        free(met);
        return error;
    }
    HASH_ADD(hh, making->met, life, sizeof met->life, met);
    return 0;
}

/* Buffers, by this round's touches: static ones first, then those born in it, each in the order of first
 * touch. */
static int find_buffers(struct making *making, bool born)
{
    uint32_t place = 0;
    int error = 0;

    for (uint64_t phase = 0; phase < making->period && !error; phase++)
        for (uint32_t k = 0, count = op_at(making, 1, phase)->count; k < count && !error; k++, place++) {
            bool same;
            const struct history_touch *touch = touch_at(making, phase, k, &same);

            if (!born && same)
                error = add_static(making, touch);
            else if (born && !same && !touch->since && !history_old(making->history, touch))
                error = buffer_add(making, touch->segment, (uint32_t)phase, &making->buffer_at[place]);
        }
    return error;
}

/*
 * The place of the touch a life began with, and how many rounds earlier: it was touched first at place
 * `index' of an operation `since' before `phase'. CYCLE_NEVER: not in a round like this one.
 */
static uint32_t birth_of(const struct making *making, uint64_t phase, uint64_t since, uint32_t index,
                         uint32_t *age)
{
    uint64_t rounds = since > phase ? (since - phase + making->period - 1) / making->period : 0;
    const struct cycle_op *op;

    if (rounds > CYCLE_AGES)
        return CYCLE_NEVER;
    *age = (uint32_t)rounds;
    op = &making->cycle->ops[phase + rounds * making->period - since];
    return index < op->count ? making->buffer_at[op->first + index] : CYCLE_NEVER;
}

/* What each touch of this round is called. */
static int name_touches(struct making *making)
{
    struct cycle *cycle = making->cycle;

    for (uint64_t phase = 0; phase < making->period; phase++)
        for (uint32_t k = 0; k < cycle->ops[phase].count; k++) {
            bool same;
            const struct history_touch *touch = touch_at(making, phase, k, &same);
            const struct met *met = known_met(making, touch->life);
            struct cycle_touch *name = &cycle->touches[cycle->ops[phase].first + k];

            if ((met != NULL) != same)
                return -ENOENT; /* the same here, and another there */
            *name = (struct cycle_touch){.age = 0};
            if (met)
                name->buffer = met->buffer;
            else if (history_old(making->history, touch))
                return -ENOENT;
            else
                name->buffer = birth_of(making, phase, touch->since, touch->place, &name->age);
            if (name->buffer == CYCLE_NEVER ||
                cycle->buffers[name->buffer].size != size_of(making, touch->segment))
                return -ENOENT; /* not born in every round */
        }
    return 0;
}

int known_name(struct making *making)
{
    int error = find_buffers(making, false);

    if (!error)
        error = find_buffers(making, true);
    return error ? error : name_touches(making);
}

/*
 * Deaths, from the frees seen in the last two rounds, the last one of each. Known is a death only if the free
 * was submitted together with the last use.
 */
static void find_deaths(struct making *making)
{
    const struct history *history = making->history;
    uint64_t oldest = history->freed > HISTORY_FREES ? history->freed - HISTORY_FREES : 0;

    for (uint64_t i = history->freed; i-- > oldest;) {
        const struct history_free *of = &history->frees[i % HISTORY_FREES];
        const struct history_op *first = history_at(history, of->first),
                                *last = history_at(history, of->last);
        uint64_t end = history->count - 1, death = of->position;
        uint32_t buffer, age;

        if (of->position < making->start - making->period)
            break;
        if (!first || !last)
            continue;
        buffer = birth_of(making, making->period - 1, end - of->first, of->place, &age);
        /* Of another round, before they were alike, nothing is to be learnt. */
        if (buffer == CYCLE_NEVER || making->cycle->buffers[buffer].death != CYCLE_NEVER ||
            first->signature != making->known->signatures[making->cycle->buffers[buffer].birth])
            continue;
        if (death <= of->last || of->window == last->window)
            death = of->last + 1;
        death -= of->first - making->cycle->buffers[buffer].birth;
        if (death / making->period < CYCLE_AGES)
            making->cycle->buffers[buffer].death = (uint32_t)death;
    }
}

/* One that is used after another of the same name has died would contradict itself. */
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

void known_deaths(struct making *making)
{
    find_deaths(making);
    settle_deaths(making->cycle);
}
