#include "cache/known.h"
#include <stdlib.h>

void known_forget_homes(struct known *known)
{
    free(known->homes);
    free(known->here);
    free(known->held);
    free(known->whole);
    free(known->first_home);
    free(known->action_home);
    known->homes = known->here = NULL;
    known->held = NULL;
    known->whole = NULL;
    known->first_home = known->action_home = NULL;
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
    known_forget_homes(known);
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
