#include "cache/cycle.h"
#include <errno.h>
#include <stdlib.h>

static int compare_positions(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static bool touch_valid(const struct cycle *cycle, uint32_t phase, const struct cycle_touch *touch)
{
    const struct cycle_buffer *buffer;
    uint64_t position;

    if (touch->buffer >= cycle->buffer_count || touch->age > CYCLE_AGES)
        return false;
    buffer = &cycle->buffers[touch->buffer];
    if (cycle_static(buffer))
        return touch->age == 0;
    position = (uint64_t)touch->age * cycle->length + phase;
    return position >= buffer->birth && position < buffer->death;
}

static bool buffer_valid(const struct cycle *cycle, const struct cycle_buffer *buffer)
{
    if (!buffer->size || buffer->size % cycle->frame_size || buffer->size / cycle->frame_size > UINT32_MAX)
        return false;
    if (cycle_static(buffer))
        return buffer->death == CYCLE_NEVER;
    return buffer->birth < cycle->length &&
           (buffer->death == CYCLE_NEVER ||
            (buffer->death > buffer->birth && buffer->death <= (CYCLE_AGES + 1) * cycle->length));
}

int cycle_index(struct cycle *cycle)
{
    uint32_t first = 0;

    if (!cycle->length || !cycle->frame_size || cycle->length > (UINT32_MAX - 1) / (CYCLE_AGES + 1))
        return -EINVAL;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        if (!buffer_valid(cycle, &cycle->buffers[i]))
            return -EINVAL;
        cycle->buffers[i].uses = 0;
    }
    for (uint32_t i = 0; i < cycle->length; i++) {
        const struct cycle_op *op = &cycle->ops[i];

        if (op->first > cycle->touch_count || op->count > cycle->touch_count - op->first ||
            !(op->duration >= 0))
            return -EINVAL;
        for (uint32_t k = op->first; k < op->first + op->count; k++) {
            if (!touch_valid(cycle, i, &cycle->touches[k]))
                return -EINVAL;
            cycle->buffers[cycle->touches[k].buffer].uses++;
        }
    }
    free(cycle->uses);
    cycle->uses = malloc((cycle->touch_count + 1) * sizeof *cycle->uses);
    if (!cycle->uses)
        return -ENOMEM;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        cycle->buffers[i].first_use = first;
        first += cycle->buffers[i].uses;
        cycle->buffers[i].uses = 0;
    }
    for (uint32_t i = 0; i < cycle->length; i++)
        for (uint32_t k = cycle->ops[i].first; k < cycle->ops[i].first + cycle->ops[i].count; k++) {
            struct cycle_buffer *buffer = &cycle->buffers[cycle->touches[k].buffer];

            cycle->uses[buffer->first_use + buffer->uses++] = cycle->touches[k].age * cycle->length + i;
        }
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        qsort(cycle->uses + cycle->buffers[i].first_use, cycle->buffers[i].uses, sizeof *cycle->uses,
              compare_positions);
    return 0;
}

void cycle_free(struct cycle *cycle)
{
    if (!cycle)
        return;
    free(cycle->ops);
    free(cycle->buffers);
    free(cycle->touches);
    free(cycle->uses);
    free(cycle);
}

/* FNV-1a, over the bytes of a number. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        hash = (hash ^ (value >> (8 * i) & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t cycle_hash(const struct cycle *cycle)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    hash = mix(hash, cycle->frame_size);
    hash = mix(hash, cycle->capacity);
    hash = mix(hash, cycle->length);
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        hash = mix(hash, cycle->buffers[i].size);
        hash = mix(hash, cycle->buffers[i].birth);
        hash = mix(hash, cycle->buffers[i].death);
    }
    for (uint32_t i = 0; i < cycle->length; i++) {
        hash = mix(hash, cycle->ops[i].count);
        for (uint32_t k = cycle->ops[i].first; k < cycle->ops[i].first + cycle->ops[i].count; k++)
            hash = mix(mix(hash, cycle->touches[k].buffer), cycle->touches[k].age);
    }
    return hash;
}

int schedule_add(struct schedule *schedule, const struct schedule_action *action)
{
    if (schedule->count == schedule->capacity) {
        uint32_t capacity = schedule->capacity ? 2 * schedule->capacity : 256;
        struct schedule_action *actions = realloc(schedule->actions, capacity * sizeof *actions);

        if (!actions)
            return -ENOMEM;
        schedule->actions = actions;
        schedule->capacity = capacity;
    }
    schedule->actions[schedule->count++] = *action;
    return 0;
}

void schedule_free(struct schedule *schedule)
{
    if (!schedule)
        return;
    free(schedule->actions);
    free(schedule);
}

/* Merge sort, bottom up: qsort is not stable. Without memory for it the order stays, which costs time only.
 */
void schedule_sort(struct schedule *schedule)
{
    uint32_t count = schedule->count;
    struct schedule_action *from = schedule->actions, *to = malloc((count + 1) * sizeof *to), *swap;

    for (uint32_t width = 1; to && width < count; width *= 2) {
        for (uint32_t begin = 0; begin < count; begin += 2 * width) {
            uint32_t middle = begin + width < count ? begin + width : count;
            uint32_t end = begin + 2 * width < count ? begin + 2 * width : count;

            for (uint32_t a = begin, b = middle, i = begin; i < end; i++)
                to[i] = a < middle && (b == end || from[a].at <= from[b].at) ? from[a++] : from[b++];
        }
        swap = from;
        from = to;
        to = swap;
    }
    if (to && from != schedule->actions) {
        schedule->actions = from;
        schedule->capacity = count + 1;
    }
    free(to);
}

void schedule_by_buffer(const struct schedule *schedule, uint32_t buffer_count, uint32_t *by_buffer,
                        uint32_t *first)
{
    for (uint32_t i = 0; i < schedule->count; i++)
        first[schedule->actions[i].buffer + 2]++;
    for (uint32_t i = 2; i < buffer_count + 2; i++)
        first[i] += first[i - 1];
    for (uint32_t i = 0; i < schedule->count; i++)
        by_buffer[first[schedule->actions[i].buffer + 1]++] = i;
}

bool cycle_contends(const struct cycle *cycle)
{
    return cycle->in_both < 0.95 * cycle->in || cycle->out_both < 0.95 * cycle->out;
}

bool schedule_fits(const struct schedule *schedule, const struct cycle *cycle)
{
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct schedule_action *action = &schedule->actions[i];

        if (action->at >= cycle->length || action->buffer >= cycle->buffer_count ||
            action->age > CYCLE_AGES || (cycle_static(&cycle->buffers[action->buffer]) && action->age) ||
            action->first >= cycle_pieces(cycle, action->buffer) || !action->count ||
            action->count > cycle_pieces(cycle, action->buffer) - action->first)
            return false;
    }
    return true;
}
