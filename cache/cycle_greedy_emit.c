#include "cache/cycle_greedy.h"
#include <errno.h>
#include <stdlib.h>

int greedy_emit(struct greedy *greedy, struct schedule *schedule)
{
    uint32_t length = greedy->length;
    uint32_t *done = calloc(2 * (size_t)greedy->gap_count + 2, sizeof *done);
    int error = 0;

    if (!done)
        return -ENOMEM;
    for (uint32_t i = 0; i < greedy->move_count && !error; i++) {
        const struct greedy_move *move = &greedy->moves[i];
        const struct greedy_gap *gap = &greedy->gaps[move->gap];
        uint32_t position = (move->slot + 1) / 2;
        struct schedule_action action = {
            .kind = move->kind == GREEDY_OUT ? SCHEDULE_OUT : SCHEDULE_IN,
            .buffer = gap->buffer,
            .age = cycle_static(&greedy->cycle->buffers[gap->buffer]) ? 0 : gap->age + position / length,
            .first = done[2 * move->gap + move->kind],
            .count = move->count,
            .at = position % length,
        };

        if (!move->count)
            continue;
        done[2 * move->gap + move->kind] += move->count;
        error = schedule_add(schedule, &action);
    }
    free(done);
    if (!error)
        schedule_sort(schedule);
    return error;
}
