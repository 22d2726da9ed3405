/*
 * cycle_run_new.c - the memory of a run: instances of buffers, by round; pieces; who dies when; and how they
 * start.
 */
#include "cache/cycle_run_internal.h"
#include <stdlib.h>
#include <string.h>

void run_reset(struct cycle_run *run)
{
    const struct cycle *cycle = run->cycle;

    run->free_frames = run->least_free = run->frames;
    run->by_compute.first = run->by_compute.count = run->by_copy.first = run->by_copy.count = 0;
    list_add(&run->by_compute, 0, run->frames);
    run->engine[OUT] = (struct engine){.rate = cycle->out * 1e-9, .rate_both = cycle->out_both * 1e-9};
    run->engine[IN] = (struct engine){.rate = cycle->in * 1e-9, .rate_both = cycle->in_both * 1e-9};
    run->waiting_count = run->waiting_first = 0;
    run->displaced = 0;
    run->compute = run->host = run->turn = 0;
    run->now = 0;
    for (uint32_t i = 0; i < run->piece_count; i++) {
        run->away[i] = true;
        run->at[i] = 0;
    }
    for (uint32_t i = 0; i < run->instance_count; i++) {
        struct instance *instance = &run->instances[i];
        const struct cycle_buffer *buffer = &cycle->buffers[instance->buffer];

        instance->missing = instance->pieces;
        instance->use = 0;
        instance->born = cycle_static(buffer);
        instance->next = instance->born && buffer->uses ? cycle->uses[buffer->first_use] : INT64_MAX;
        instance->pinned = -1;
        instance->ready = instance->used = 0;
    }
    if (run->colouring)
        run_colours_reset(run);
}

static void index_instances(struct cycle_run *run)
{
    const struct cycle *cycle = run->cycle;
    uint32_t count = 0, piece = 0;

    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        run->instance_of[i] = count;
        for (uint32_t k = 0; k < run->ages[i]; k++, count++) {
            run->instances[count] =
                (struct instance){.buffer = i, .first = piece, .pieces = cycle_pieces(cycle, i)};
            piece += run->instances[count].pieces;
        }
    }
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        if (cycle->buffers[i].death != CYCLE_NEVER)
            run->death_first[cycle->buffers[i].death % cycle->length + 1]++;
    for (uint32_t i = 0; i < cycle->length; i++)
        run->death_first[i + 1] += run->death_first[i];
    for (uint32_t i = cycle->buffer_count; i--;)
        if (cycle->buffers[i].death != CYCLE_NEVER) {
            uint32_t phase = cycle->buffers[i].death % cycle->length;

            run->deaths[--run->death_first[phase + 1]] = i;
        }
    /* Each entry now is where its phase begins, one place too far. */
    memmove(run->death_first, run->death_first + 1, cycle->length * sizeof *run->death_first);
    run->death_first[cycle->length] = 0;
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        run->death_first[cycle->length] += cycle->buffers[i].death != CYCLE_NEVER;
}

/* How many rounds' instances of a buffer there may be at once. */
static uint32_t ages_of(const struct cycle *cycle, const struct cycle_buffer *buffer)
{
    if (cycle_static(buffer))
        return 1;
    if (buffer->death != CYCLE_NEVER)
        return (buffer->death - 1) / cycle->length + 1;
    return buffer->uses ? cycle->uses[buffer->first_use + buffer->uses - 1] / cycle->length + 1 : 1;
}

struct cycle_run *cycle_run_new(const struct cycle *cycle)
{
    struct cycle_run *run = calloc(1, sizeof *run);
    uint64_t pieces = 0;
    uint32_t lists;

    if (!run)
        return NULL;
    run->cycle = cycle;
    run->instance_of = calloc(cycle->buffer_count + 1, sizeof *run->instance_of);
    run->ages = calloc(cycle->buffer_count + 1, sizeof *run->ages);
    if (!run->instance_of || !run->ages)
        goto no_memory;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        run->ages[i] = ages_of(cycle, &cycle->buffers[i]);
        run->instance_count += run->ages[i];
        pieces += (uint64_t)run->ages[i] * cycle_pieces(cycle, i);
    }
    if (pieces > UINT32_MAX / 2 || cycle->capacity / cycle->frame_size > UINT32_MAX / 4)
        goto no_memory;
    run->piece_count = (uint32_t)pieces;
    run->frames = (uint32_t)(cycle->capacity / cycle->frame_size);
    /* Each run in a list has a frame at least. */
    lists = power_of_two(run->frames + 2);
    run->by_compute.mask = run->by_copy.mask = lists - 1;
    run->waiting_mask = 1023;
    run->instances = calloc(run->instance_count + 1, sizeof *run->instances);
    run->away = calloc(run->piece_count + 1, sizeof *run->away);
    run->at = calloc(run->piece_count + 1, sizeof *run->at);
    run->deaths = calloc(cycle->buffer_count + 1, sizeof *run->deaths);
    run->death_first = calloc(cycle->length + 2, sizeof *run->death_first);
    run->by_compute.ring = calloc(lists, sizeof *run->by_compute.ring);
    run->by_copy.ring = calloc(lists, sizeof *run->by_copy.ring);
    run->waiting = calloc(run->waiting_mask + 1, sizeof *run->waiting);
    run->home = calloc(run->piece_count + 1, sizeof *run->home);
    run->held = calloc(run->piece_count + 1, sizeof *run->held);
    run->unused = calloc(run->piece_count + 1, sizeof *run->unused);
    run->holder = calloc(run->frames + 1, sizeof *run->holder);
    run->ready = calloc(run->frames + 1, sizeof *run->ready);
    run->free = calloc(run->frames + 1, sizeof *run->free);
    run->elsewhere = calloc(run->frames + 1, sizeof *run->elsewhere);
    if (!run->instances || !run->away || !run->at || !run->deaths || !run->death_first ||
        !run->by_compute.ring || !run->by_copy.ring || !run->waiting || !run->home || !run->held ||
        !run->unused || !run->holder || !run->ready || !run->free || !run->elsewhere)
        goto no_memory;
    index_instances(run);
    return run;

no_memory:
    cycle_run_free(run);
    return NULL;
}

void cycle_run_free(struct cycle_run *run)
{
    if (!run)
        return;
    free(run->instances);
    free(run->instance_of);
    free(run->ages);
    free(run->away);
    free(run->at);
    free(run->deaths);
    free(run->death_first);
    free(run->by_compute.ring);
    free(run->by_copy.ring);
    free(run->waiting);
    free(run->home);
    free(run->held);
    free(run->unused);
    free(run->holder);
    free(run->ready);
    free(run->free);
    free(run->elsewhere);
    free(run);
}
