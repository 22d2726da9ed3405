#include "cache/known.h"
#include "cache/segment.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

static const struct history_op *op_at(const struct making *making, unsigned round, uint64_t phase)
{
    return history_at(making->history, making->start - (1 - round) * making->period + phase);
}

/* A touch of this round, and whether that of the round before was of the same life. */
static const struct history_touch *touch_at(const struct making *making, uint64_t phase, uint32_t index,
                                            bool *same)
{
    const struct history_touch *touch = history_touch_at(making->history, op_at(making, 1, phase), index);

    *same = touch->life == history_touch_at(making->history, op_at(making, 0, phase), index)->life;
    return touch;
}

static struct met *met_find(const struct making *making, uint64_t life)
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
        (struct cycle_buffer){.size = segment->size, .birth = birth, .death = CYCLE_NEVER};
    return 0;
}

static int add_static(struct making *making, const struct history_touch *touch)
{
    struct met *met;
    int error;

    if (met_find(making, touch->life))
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
            const struct met *met = met_find(making, touch->life);
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
            if (name->buffer == CYCLE_NEVER || cycle->buffers[name->buffer].size != touch->segment->size)
                return -ENOENT; /* not born in every round */
        }
    return 0;
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

/* How many lives of each buffer are remembered. */
static int make_room(struct making *making)
{
    struct cycle *cycle = making->cycle;
    struct known *known = making->known;
    struct known_life *lives;
    size_t count = 0;

    known->ages = malloc((cycle->buffer_count + 1) * sizeof *known->ages);
    known->lives = malloc((cycle->buffer_count + 1) * sizeof *known->lives);
    if (!known->ages || !known->lives)
        return -ENOMEM;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        const struct cycle_buffer *buffer = &cycle->buffers[i];

        known->ages[i] = cycle_static(buffer) ? 1 : 2; /* also of what dies nobody knows when */
        if (!cycle_static(buffer) && buffer->death != CYCLE_NEVER)
            known->ages[i] += buffer->death / cycle->length;
    }
    for (uint32_t i = 0; i < cycle->touch_count; i++)
        if (cycle->touches[i].age + 2 > known->ages[cycle->touches[i].buffer] && cycle->touches[i].age)
            known->ages[cycle->touches[i].buffer] = cycle->touches[i].age + 2;
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        count += known->ages[i];
    known->lives[0] = lives = calloc(count + 1, sizeof *lives);
    if (!lives)
        return -ENOMEM;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        known->lives[i] = lives;
        lives += known->ages[i];
    }
    return 0;
}

/* Who the buffers are: static ones, and those born where a birth is due, in this round and in earlier ones.
 */
static void note_lives(struct making *making)
{
    struct known *known = making->known;

    for (uint64_t phase = 0; phase < making->period; phase++)
        for (uint32_t k = 0; k < making->cycle->ops[phase].count; k++) {
            uint32_t place = making->cycle->ops[phase].first + k, buffer = making->buffer_at[place];
            bool same;
            const struct history_touch *touch = touch_at(making, phase, k, &same);

            if (same)
                known->lives[met_find(making, touch->life)->buffer][0] =
                    (struct known_life){touch->segment, touch->life};
            for (uint32_t age = 0; buffer != CYCLE_NEVER && age < known->ages[buffer] &&
                                   age * making->period <= making->start + phase;
                 age++) {
                const struct history_op *op =
                    history_at(making->history, making->start + phase - age * making->period);

                if (!op || k >= op->count)
                    break;
                touch = history_touch_at(making->history, op, k);
                if (!touch->since && touch->segment->size == making->cycle->buffers[buffer].size)
                    known->lives[buffer][age] = (struct known_life){touch->segment, touch->life};
            }
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

static int compare_grams(const void *a, const void *b)
{
    const struct known_gram *x = a, *y = b;

    if (x->gram != y->gram)
        return x->gram < y->gram ? -1 : 1;
    return x->phase < y->phase ? -1 : x->phase > y->phase;
}

/* Two rounds are there, so each has enough before it. */
static int note_grams(struct making *making)
{
    struct known_gram *grams = malloc(making->period * sizeof *grams);

    if (!grams)
        return -ENOMEM;
    making->known->grams = grams;
    for (uint64_t phase = 0; phase < making->period; phase++)
        grams[phase] =
            (struct known_gram){history_gram(making->history, making->start + phase), (uint32_t)phase};
    qsort(grams, making->period, sizeof *grams, compare_grams);
    return 0;
}

uint32_t known_gram(const struct known *known, uint64_t gram)
{
    uint32_t low = 0, high = known->cycle->length;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (known->grams[middle].gram < gram)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Operations and their places, without names; memory for what is to come. */
static int start(struct making *making)
{
    struct cycle *cycle = making->cycle;
    uint32_t touches = 0;

    cycle->length = (uint32_t)making->period;
    cycle->ops = calloc(cycle->length + 1, sizeof *cycle->ops);
    making->known->signatures = malloc(cycle->length * sizeof *making->known->signatures);
    making->known->head = malloc((cycle->length + 1) * sizeof *making->known->head);
    if (!cycle->ops || !making->known->signatures || !making->known->head)
        return -ENOMEM;
    for (uint32_t phase = 0; phase < cycle->length; phase++) {
        const struct history_op *op = op_at(making, 1, phase);

        cycle->ops[phase] = (struct cycle_op){.first = touches, .count = op->count};
        making->known->signatures[phase] = op->signature;
        touches += op->count;
    }
    cycle->touch_count = touches;
    cycle->touches = calloc(touches + 1, sizeof *cycle->touches);
    making->buffer_at = malloc((touches + 1) * sizeof *making->buffer_at);
    if (!cycle->touches || !making->buffer_at)
        return -ENOMEM;
    for (uint32_t i = 0; i < touches; i++)
        making->buffer_at[i] = CYCLE_NEVER;
    return 0;
}

static int make(struct making *making)
{
    int error = start(making);

    if (!error)
        error = find_buffers(making, false);
    if (!error)
        error = find_buffers(making, true);
    if (!error)
        error = name_touches(making);
    if (!error)
        error = note_entries(making);
    if (!error)
        error = note_grams(making);
    if (error)
        return error;
    find_deaths(making);
    settle_deaths(making->cycle);
    error = make_room(making);
    if (error)
        return error;
    note_lives(making);
    note_durations(making);
    error = cycle_index(making->cycle);
    return error == -EINVAL ? -ENOENT : error;
}

int known_make(const struct history *history, uint64_t period, uint64_t frame_size, struct known **out)
{
    struct making making = {.history = history, .period = period, .start = history->count - period};
    struct met *met, *next;
    int error;

    if (period == 0 || 2 * period > history->count || history_run(history, period) < period ||
        !history_at(history, history->count - 2 * period))
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
    free(known->grams);
    free(known->homes);
    free(known->held);
    free(known->first_home);
    free(known->action_home);
    free(known->signatures);
    if (known->lives)
        free(known->lives[0]);
    free(known->lives);
    free(known->ages);
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
