#include "cache/stays.h"
#include <errno.h>
#include <stdlib.h>

struct finding {
    const struct cycle *cycle;
    const struct schedule *schedule;
    const struct cycle_times *times;
    struct stays *out;
    bool failed;
};

static double around(const struct finding *finding, double time)
{
    double round = finding->times->round, rest;

    if (!(round > 0))
        return 0;
    rest = time - round * (double)(int64_t)(time / round);
    return rest < 0 ? rest + round : rest;
}

/* Phases until the buffer's next use at or behind a position, at most `most'. */
static uint32_t patience(const struct cycle *cycle, uint32_t index, uint64_t position, uint32_t most)
{
    const struct cycle_buffer *buffer = &cycle->buffers[index];
    uint64_t found = position + most;

    for (uint32_t i = 0; i < buffer->uses; i++) {
        uint64_t use = cycle->uses[buffer->first_use + i];

        if (use < position && cycle_static(buffer))
            use += cycle->length;
        if (use >= position && use < found)
            found = use;
    }
    return (uint32_t)(found - position);
}

/* From one position to another; out: the action that ends it, CYCLE_NEVER if they die. */
static void stay_add(struct finding *finding, const struct stay *about, uint64_t from, uint64_t until,
                     uint32_t out)
{
    const struct cycle *cycle = finding->cycle;
    const struct cycle_times *times = finding->times;
    uint32_t length = cycle->length, last;
    struct stays *stays = finding->out;
    struct stay *stay;
    double ends;

    if (until <= from ||
        until - from > length) /* longer: its next life begins before it gives up its frames */
        return;
    if (stays->count == stays->capacity) {
        uint32_t capacity = stays->capacity ? 2 * stays->capacity : 256;
        struct stay *grown = realloc(stays->stays, capacity * sizeof *grown);

        if (!grown) {
            finding->failed = true;
            return;
        }
        stays->stays = grown;
        stays->capacity = capacity;
    }
    stay = &stays->stays[stays->count++];
    *stay = *about;
    stay->from = (uint32_t)(from % length);
    stay->whole = until - from >= length;
    stay->length = stay->whole ? length : (uint32_t)(until - from);
    stay->patience = about->action != CYCLE_NEVER ? patience(cycle, about->buffer, from, stay->length) : 0;
    last = (uint32_t)((until - 1) % length);
    stay->begins = around(finding, about->action != CYCLE_NEVER ? times->begin[about->action]
                                                                : times->start[stay->from]);
    ends = around(finding,
                  out != CYCLE_NEVER ? times->end[out] : times->start[last] + cycle->ops[last].duration);
    stay->takes = stay->whole ? times->round : around(finding, ends - stay->begins);
    if (stay->takes <= 0 && stay->length > length / 2) /* it comes back the moment it has left */
        stay->takes = times->round;
}

/* When pieces that move together are in HBM. `mine' lists the buffer's actions, in order of issue. */
static void find_stays(struct finding *finding, struct stay about, const uint32_t *mine, uint32_t count)
{
    const struct cycle_buffer *buffer = &finding->cycle->buffers[about.buffer];
    const struct schedule_action *actions = finding->schedule->actions;
    uint64_t length = finding->cycle->length, begin = 0, end = length, since;
    uint32_t moves = 0, first_in = CYCLE_NEVER, oldest = 0;
    bool in = true;

    if (!cycle_static(buffer)) {
        begin = buffer->birth;
        end = buffer->death == CYCLE_NEVER ? UINT64_MAX : buffer->death;
    }
    for (uint32_t k = 0; k < count; k++)
        oldest = actions[mine[k]].age > oldest ? actions[mine[k]].age : oldest;
    about.action = CYCLE_NEVER;
    since = begin;
    for (uint32_t round = 0; round <= oldest; round++) /* positions: those of the first round come first */
        for (uint32_t k = 0; k < count; k++) {
            const struct schedule_action *action = &actions[mine[k]];
            uint64_t at = schedule_position(finding->cycle, action);

            if (action->age != round || about.first - action->first >= action->count || at < begin ||
                at > end)
                continue;
            if (cycle_static(buffer) && !moves++ && action->kind == SCHEDULE_IN)
                in = false; /* it was away when the round began */
            if (action->kind == SCHEDULE_OUT && in) {
                if (cycle_static(buffer) && first_in == CYCLE_NEVER && about.action == CYCLE_NEVER)
                    first_in = mine[k]; /* it is there since the round before: added with that stay */
                else
                    stay_add(finding, &about, since, at, mine[k]);
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
        stay_add(finding, &about, since, length + actions[first_in].at, first_in);
    else
        stay_add(finding, &about, since, end, CYCLE_NEVER);
}

/* Pieces of a buffer that no action moves apart. */
static void find_ranges(struct finding *finding, uint32_t buffer, const uint32_t *mine, uint32_t actions)
{
    const struct schedule *schedule = finding->schedule;
    uint32_t pieces = cycle_pieces(finding->cycle, buffer), end;

    for (uint32_t begin = 0; begin < pieces; begin = end) {
        end = pieces;
        for (uint32_t k = 0; k < actions; k++) {
            const struct schedule_action *action = &schedule->actions[mine[k]];

            if (action->first > begin && action->first < end)
                end = action->first;
            if (action->first + action->count > begin && action->first + action->count < end)
                end = action->first + action->count;
        }
        find_stays(finding, (struct stay){.buffer = buffer, .first = begin, .count = end - begin}, mine,
                   actions);
    }
}

int stays_make(const struct cycle *cycle, const struct schedule *schedule, const struct cycle_times *times,
               struct stays *out)
{
    struct stays found = {0};
    struct finding finding = {.cycle = cycle, .schedule = schedule, .times = times, .out = &found};
    uint32_t *by_buffer = malloc((schedule->count + 1) * sizeof *by_buffer);
    uint32_t *first = calloc(cycle->buffer_count + 2, sizeof *first);

    if (!by_buffer || !first)
        finding.failed = true;
    if (!finding.failed) {
        schedule_by_buffer(schedule, cycle->buffer_count, by_buffer, first);
        for (uint32_t buffer = 0; buffer < cycle->buffer_count; buffer++)
            find_ranges(&finding, buffer, by_buffer + first[buffer], first[buffer + 1] - first[buffer]);
    }
    free(by_buffer);
    free(first);
    if (finding.failed) {
        stays_free(&found);
        return -ENOMEM;
    }
    *out = found;
    return 0;
}

void stays_free(struct stays *stays)
{
    free(stays->stays);
    *stays = (struct stays){0};
}
