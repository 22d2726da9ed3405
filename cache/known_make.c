#include "cache/known_make.h"
#include "cache/segment.h"
#include <errno.h>
#include <stdlib.h>

/* How many lives of each buffer are remembered. */
static int make_room(struct making *making)
{
    struct cycle *cycle = making->cycle;
    struct known *known = making->known;
    struct known_life *lives;
    size_t count = 0;

    known->ages = malloc((cycle->buffer_count + 1) * sizeof *known->ages);
    known->lives = calloc(cycle->buffer_count + 1, sizeof *known->lives);
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
                known->lives[known_met(making, touch->life)->buffer][0] =
                    (struct known_life){touch->segment, touch->life};
            for (uint32_t age = 0; buffer != CYCLE_NEVER && age < known->ages[buffer] &&
                                   age * making->period <= making->start + phase;
                 age++) {
                const struct history_op *op =
                    history_at(making->history, making->start + phase - age * making->period);

                if (!op || k >= op->count)
                    break;
                touch = history_touch_at(making->history, op, k);
                if (!touch->since && size_of(making, touch->segment) == making->cycle->buffers[buffer].size)
                    known->lives[buffer][age] = (struct known_life){touch->segment, touch->life};
            }
        }
}

static int by_segment(const void *a, const void *b)
{
    const struct known_life *x = a, *y = b;

    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->life < y->life ? -1 : x->life > y->life;
}

/*
 * Buffers that lie at one address, one after the other, round after round, so that it can keep its bindings:
 * packed sizes, as others have a place each (place.h). Numbers are given in the order of buffers, not of
 * addresses, which differ from run to run. Without memory for it each is on its own.
 */
static void note_addresses(struct making *making)
{
    struct cycle *cycle = making->cycle;
    struct known_life *found = malloc((cycle->buffer_count + 1) * sizeof *found); /* life: the buffer */
    uint32_t count = 0;

    if (!found)
        return;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        const struct known_life *lives = making->known->lives[i];

        if (lives[0].segment && lives[0].segment->items > 1 && making->known->ages[i] > 1 &&
            lives[0].segment == lives[1].segment)
            found[count++] = (struct known_life){lives[0].segment, i};
    }
    if (count)
        qsort(found, count, sizeof *found, by_segment);
    for (uint32_t i = 0; i < count; i++)
        cycle->buffers[found[i].life].address = i && found[i].segment == found[i - 1].segment
                                                    ? cycle->buffers[found[i - 1].life].address
                                                    : (uint32_t)found[i].life + 1;
    free(found);
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
        error = known_name(making);
    if (!error)
        error = note_entries(making);
    if (!error)
        error = note_grams(making);
    if (error)
        return error;
    known_deaths(making);
    error = make_room(making);
    if (error)
        return error;
    for (uint32_t i = 0; i < making->cycle->buffer_count; i++)
        making->known->undying +=
            !cycle_static(&making->cycle->buffers[i]) && making->cycle->buffers[i].death == CYCLE_NEVER;
    note_lives(making);
    note_addresses(making);
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
    making.known->made = history->count;
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

int known_remake(const struct history *history, const struct known *known, struct known **out)
{
    int error = known_make(history, known->cycle->length, known->cycle->frame_size, out);

    if (!error)
        (*out)->remade = known->remade + 1;
    return error;
}
