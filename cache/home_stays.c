#include "cache/home_stays.h"
#include "cache/cycle_run.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t slot_of(const struct homes *homes, uint64_t position)
{
    return (uint32_t)(position * homes->slots / homes->cycle->length);
}

void stays_estimate(struct homes *homes)
{
    const struct schedule *schedule = homes->known->schedule;
    uint32_t length = homes->cycle->length;
    struct cycle_times times;
    double now = 0;

    for (uint32_t i = 0; i < length; i++) { /* as if nothing waited, should there be no memory for more */
        homes->begin[i] = now;
        now += homes->cycle->ops[i].duration;
    }
    homes->begin[length] = now;
    for (uint32_t a = 0; a < schedule->count; a++)
        homes->moved[a] = homes->begin[schedule->actions[a].at];
    if (cycle_run_times(homes->cycle, schedule, &times))
        return;
    memcpy(homes->begin, times.start, length * sizeof *times.start);
    homes->begin[length] = times.start[0] + times.round;
    for (uint32_t a = 0; a < schedule->count; a++)
        homes->moved[a] = schedule->actions[a].kind == SCHEDULE_OUT ? times.end[a] : times.begin[a];
    cycle_times_free(&times);
}

static uint32_t time_slot(const struct homes *homes, double time)
{
    double whole = homes->begin[homes->cycle->length] - homes->begin[0], part;

    if (!(whole > 0))
        return 0;
    part = (time - homes->begin[0]) / whole;
    part -= floor(part);
    return (uint32_t)(part * TIMES) % TIMES;
}

/* From one position to another; out: the action that ends it, CYCLE_NEVER if they die. */
static void stay_add(struct homes *homes, const struct stay *about, uint64_t from, uint64_t until,
                     uint32_t out)
{
    const struct cycle *cycle = homes->cycle;
    uint32_t length = cycle->length, last;
    struct stay *stay;

    if (until <= from)
        return;
    if (homes->stay_count == homes->stay_capacity) {
        uint32_t capacity = homes->stay_capacity ? 2 * homes->stay_capacity : 256;
        struct stay *stays = realloc(homes->stays, capacity * sizeof *stays);

        if (!stays) {
            homes->failed = true;
            return;
        }
        homes->stays = stays;
        homes->stay_capacity = capacity;
    }
    stay = &homes->stays[homes->stay_count++];
    *stay = *about;
    stay->start = slot_of(homes, from % length);
    stay->length = until - from >= length
                       ? homes->slots
                       : slot_of(homes, from % length + (until - from - 1)) + 1 - stay->start;
    stay->settled = from % length + (until - from) > length || stay->length == homes->slots;
    last = (uint32_t)((until - 1) % length);
    stay->begins = time_slot(homes, about->action != CYCLE_NEVER ? homes->moved[about->action]
                                                                 : homes->begin[from % length]);
    stay->takes = 1 + (time_slot(homes, out != CYCLE_NEVER ? homes->moved[out]
                                                           : homes->begin[last] + cycle->ops[last].duration) +
                       TIMES - stay->begins) %
                          TIMES;
    if (until - from >= length)
        stay->takes = TIMES;
}

/*
 * When pieces that move together are in HBM. `mine' lists the buffer's actions, in order of issue. There are
 * no homes for a buffer of which two lives are there at once, or for which nobody knows how long.
 */
static void find_stays(struct homes *homes, struct stay about, const uint32_t *mine, uint32_t count)
{
    const struct cycle_buffer *buffer = &homes->cycle->buffers[about.buffer];
    const struct schedule_action *actions = homes->known->schedule->actions;
    uint64_t length = homes->cycle->length, begin = 0, end = length, since;
    uint32_t moves = 0, first_in = CYCLE_NEVER;
    bool in = true;

    if (!cycle_static(buffer)) {
        begin = buffer->birth;
        end = buffer->death;
        if (end == CYCLE_NEVER || end - begin > length)
            return;
    }
    about.action = CYCLE_NEVER;
    since = begin;
    for (uint32_t round = 0; round < 2; round++) /* positions of the first round, then those beyond its end */
        for (uint32_t k = 0; k < count; k++) {
            const struct schedule_action *action = &actions[mine[k]];
            uint64_t at = schedule_position(homes->cycle, action);

            if (action->age != round || about.first - action->first >= action->count || at < begin ||
                at > end)
                continue;
            if (cycle_static(buffer) && !moves++ && action->kind == SCHEDULE_IN)
                in = false; /* it was away when the round began */
            if (action->kind == SCHEDULE_OUT && in) {
                if (cycle_static(buffer) && first_in == CYCLE_NEVER && about.action == CYCLE_NEVER)
                    first_in = mine[k]; /* it is there since the round before: added with that stay */
                else
                    stay_add(homes, &about, since, at, mine[k]);
                in = false;
            } else if (action->kind == SCHEDULE_IN && !in) {
                about.action = mine[k];
                since = at;
                in = true;
            }
        }
    if (!in)
        return;
    if (first_in != CYCLE_NEVER) /* around the end of the round */
        stay_add(homes, &about, since, length + actions[first_in].at, first_in);
    else
        stay_add(homes, &about, since, end, CYCLE_NEVER);
}

void stays_make(struct homes *homes, uint32_t *by_buffer, uint32_t *first)
{
    const struct schedule *schedule = homes->known->schedule;
    const struct cycle *cycle = homes->cycle;

    schedule_by_buffer(schedule, cycle->buffer_count, by_buffer, first);
    for (uint32_t buffer = 0; buffer < cycle->buffer_count; buffer++) {
        const uint32_t *mine = by_buffer + first[buffer];
        uint32_t actions = first[buffer + 1] - first[buffer], pieces = cycle_pieces(cycle, buffer), end;

        for (uint32_t begin = 0; begin < pieces; begin = end) {
            end = pieces;
            for (uint32_t k = 0; k < actions; k++) {
                const struct schedule_action *action = &schedule->actions[mine[k]];

                if (action->first > begin && action->first < end)
                    end = action->first;
                if (action->first + action->count > begin && action->first + action->count < end)
                    end = action->first + action->count;
            }
            find_stays(homes, (struct stay){.buffer = buffer, .first = begin, .count = end - begin}, mine,
                       actions);
        }
    }
}
