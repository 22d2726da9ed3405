#include "cache/unroll.h"
#include <errno.h>
#include <stdlib.h>

/* Of a round: choosing frames takes more than twice as long for two. */
enum { MOST_OPERATIONS = 8192 };

uint32_t unroll_turns(const struct cycle *cycle)
{
    if (cycle->length > MOST_OPERATIONS)
        return 1;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        const struct cycle_buffer *buffer = &cycle->buffers[i];

        if (!cycle_static(buffer) && buffer->death != CYCLE_NEVER &&
            buffer->death - buffer->birth > cycle->length &&
            buffer->death - buffer->birth <= 2 * cycle->length)
            return 2;
    }
    return 1;
}

uint32_t unroll_born(const struct cycle *cycle)
{
    uint32_t born = 0;

    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        born += !cycle_static(&cycle->buffers[i]);
    return born;
}

/* What is named (buffer, age) in a turn. */
static struct cycle_touch renamed(const struct cycle *cycle, uint32_t born, uint32_t turns, uint32_t turn,
                                  uint32_t buffer, uint32_t age)
{
    uint32_t birth = (turn + turns * (age + 1) - age) % turns; /* the turn it was born in */

    if (cycle_static(&cycle->buffers[buffer]))
        return (struct cycle_touch){buffer, age};
    return (struct cycle_touch){buffer + birth * born, (birth + age - turn) / turns};
}

static int unroll_cycle(const struct cycle *cycle, uint32_t turns, struct cycle *made)
{
    uint32_t born = unroll_born(cycle), first = cycle->buffer_count - born;

    made->length = turns * cycle->length;
    made->buffer_count = first + turns * born;
    made->touch_count = turns * cycle->touch_count;
    made->ops = malloc((made->length + 1) * sizeof *made->ops);
    made->buffers = malloc((made->buffer_count + 1) * sizeof *made->buffers);
    made->touches = malloc((made->touch_count + 1) * sizeof *made->touches);
    if (!made->ops || !made->buffers || !made->touches)
        return -ENOMEM;
    for (uint32_t turn = 0; turn < turns; turn++) {
        for (uint32_t i = turn ? first : 0; i < cycle->buffer_count; i++) {
            struct cycle_buffer *buffer = &made->buffers[i + turn * born];

            *buffer = cycle->buffers[i];
            if (cycle_static(buffer))
                continue;
            buffer->birth += turn * cycle->length;
            if (buffer->death != CYCLE_NEVER)
                buffer->death += turn * cycle->length;
        }
        for (uint32_t phase = 0; phase < cycle->length; phase++) {
            struct cycle_op *op = &made->ops[turn * cycle->length + phase];

            *op = cycle->ops[phase];
            op->first += turn * cycle->touch_count;
            for (uint32_t k = 0; k < op->count; k++) {
                const struct cycle_touch *touch = &cycle->touches[cycle->ops[phase].first + k];

                made->touches[op->first + k] = renamed(cycle, born, turns, turn, touch->buffer, touch->age);
            }
        }
    }
    return cycle_index(made) ? -ENOMEM : 0;
}

static int unroll_schedule(const struct cycle *cycle, const struct schedule *schedule, uint32_t turns,
                           struct schedule *made)
{
    uint32_t born = unroll_born(cycle);

    made->paced = schedule->paced;
    for (uint32_t turn = 0; turn < turns; turn++)
        for (uint32_t i = 0; i < schedule->count; i++) {
            struct schedule_action action = schedule->actions[i];
            struct cycle_touch touch = renamed(cycle, born, turns, turn, action.buffer, action.age);

            action.buffer = touch.buffer;
            action.age = touch.age;
            action.at += turn * cycle->length;
            if (schedule_add(made, &action))
                return -ENOMEM;
        }
    return 0;
}

int unroll(const struct cycle *cycle, const struct schedule *schedule, uint32_t turns, struct cycle **out,
           struct schedule **schedule_out)
{
    struct cycle *made = malloc(sizeof *made);
    struct schedule *actions = calloc(1, sizeof *actions);

    if (made) {
        *made = *cycle;
        made->ops = NULL;
        made->buffers = NULL;
        made->touches = NULL;
        made->uses = NULL;
    }
    if (!made || !actions || unroll_cycle(cycle, turns, made) ||
        unroll_schedule(cycle, schedule, turns, actions)) {
        cycle_free(made);
        schedule_free(actions);
        return -ENOMEM;
    }
    *out = made;
    *schedule_out = actions;
    return 0;
}
