/*
 * What can be said of a tape before it is run: how long its operations take, its rounds, what is live.
 */
#include "cache/cache.h"
#include "cache/tools/replay.h"
#include "model/machine.h"
#include <stdlib.h>

uint64_t replay_frame_size(uint64_t hbm)
{
    return cache_frame_size(UINT64_C(2) << 20, hbm);
}

double replay_duration(const struct tape *tape, const struct tape_event *event,
                       const struct replay_config *config)
{
    double bytes = 0;

    switch (event->kind) {
    case TAPE_LAUNCH:
    case TAPE_OPEN:
    case TAPE_OTHER:
        if (event->duration >= 0)
            return (double)event->duration;
        break;
    case TAPE_COPY:
        if (event->form == TAPE_TO_DEVICE || event->form == TAPE_TO_HOST)
            return 0; /* an engine's time, not a kernel's */
        return MACHINE_KERNEL_GAP + 2 * (double)event->size * config->size_scale * 1e9 / config->rate;
    case TAPE_MEMSET:
        break;
    default:
        return 0;
    }
    for (uint32_t i = event->first; i < event->first + event->count; i++)
        bytes += (double)tape->sizes[tape->touches[i].id];
    return MACHINE_KERNEL_GAP + bytes * config->size_scale * 1e9 / config->rate;
}

bool replay_examine(const struct tape *tape, const struct replay_config *config, struct replay_tape *out)
{
    uint32_t *first = malloc((tape->births + 1) * sizeof *first);
    uint32_t *last = malloc((tape->births + 1) * sizeof *last);
    uint32_t launches = 0, from, until;
    uint64_t live = 0;
    double compute = 0;

    if (!first || !last) {
        free(first);
        free(last);
        return false;
    }
    *out = (struct replay_tape){0};
    (void)tape_find_rounds(tape, &out->period, &out->rounds);
    /* Launches that count: from the third round on, or all. */
    from = out->rounds ? tape->launches - (out->rounds - REPLAY_FIRST_STEADY) * out->period : 0;
    until = tape->launches;
    for (uint32_t id = 0; id < tape->births; id++)
        first[id] = last[id] = UINT32_MAX;
    for (uint32_t i = 0; i < tape->event_count; i++) {
        const struct tape_event *event = &tape->events[i];
        uint64_t bytes = 0;

        for (uint32_t k = event->first; k < event->first + event->count; k++) {
            uint32_t id = tape->touches[k].id;

            if (first[id] == UINT32_MAX)
                first[id] = i;
            last[id] = i;
            bytes += replay_scaled(config, tape->sizes[id]);
        }
        if (bytes > out->largest)
            out->largest = bytes;
    }
    for (uint32_t i = 0; i < tape->event_count; i++) {
        const struct tape_event *event = &tape->events[i];

        for (uint32_t k = event->first; k < event->first + event->count; k++)
            if (first[tape->touches[k].id] == i)
                live += replay_scaled(config, tape->sizes[tape->touches[k].id]);
        launches += tape_is_launch(event->kind);
        if (launches > from || !out->rounds) {
            if (live > out->live)
                out->live = live;
            compute += replay_duration(tape, event, config);
        }
        if (launches == until && out->rounds)
            break; /* what follows the last round is not in it */
        for (uint32_t k = event->first; k < event->first + event->count; k++)
            if (last[tape->touches[k].id] == i)
                live -= replay_scaled(config, tape->sizes[tape->touches[k].id]);
    }
    out->compute = out->rounds ? compute / (out->rounds - REPLAY_FIRST_STEADY) : compute;
    free(first);
    free(last);
    return true;
}
