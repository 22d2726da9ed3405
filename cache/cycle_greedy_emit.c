/*
 * cycle_greedy_emit.c - from time on the links to actions: which pieces a move is of, and where it is issued.
 *
 * Copies out are issued in the order in which the link was reserved for them, behind the last use. Copies in
 * were reserved as late as possible; they are issued as early as there is room for them until then, those
 * that are needed first before the others, so that a copy that takes longer than it should makes nothing
 * wait.
 */
#include "cache/cycle_greedy.h"
#include <errno.h>
#include <stdlib.h>

/* Copies move ahead only where this part of HBM remains free: what is late then still finds room. */
enum { MARGIN = 64 };

/* Earliest position, not before `from', from which on there is room for `count' until `to'. */
static int64_t room_since(const struct greedy_tree *room, int64_t from, int64_t to, int64_t count)
{
    int64_t found;

    if (from < to - room->length)
        from = to - room->length;
    found = greedy_tree_last(room, from, to, count);
    return found < 0 ? from : found + 1;
}

static int by_gap(const void *first, const void *second)
{
    const struct greedy_move *a = first, *b = second;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->gap != b->gap)
        return a->gap < b->gap ? -1 : 1;
    if (a->slot != b->slot)
        return a->slot < b->slot ? -1 : 1;
    return a->complete < b->complete ? -1 : a->complete > b->complete;
}

static int by_order(const void *first, const void *second)
{
    const struct greedy_move *a = first, *b = second;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    if (a->gap != b->gap)
        return a->gap < b->gap ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Which pieces, what leaves first returns first; and the room there is. */
static void number_moves(struct greedy *greedy, uint32_t outs)
{
    uint32_t gap = UINT32_MAX, next = 0, out = 0;
    int64_t length = greedy->length;

    for (uint32_t i = 0; i < greedy->move_count; i++) {
        struct greedy_move *move = &greedy->moves[i];
        const struct greedy_gap *of = &greedy->gaps[move->gap];

        if (i == outs || move->gap != gap)
            next = 0;
        gap = move->gap;
        move->first = next;
        next += move->count;
        move->issue = (move->slot + 1) / 2;
        if (move->kind == GREEDY_OUT) {
            move->order = (move->slot + 1) % (2 * greedy->length);
            continue;
        }
        move->order = (uint32_t)(((int64_t)of->from + of->length - greedy->begin) % length);
        while (greedy->moves[out].gap != gap || greedy->moves[out].first + greedy->moves[out].count < next)
            out++;
        move->complete = greedy->moves[out].complete;
    }
}

static int add_action(struct greedy *greedy, struct schedule *schedule, const struct greedy_move *move,
                      uint32_t first, uint32_t count, uint32_t position)
{
    const struct greedy_gap *gap = &greedy->gaps[move->gap];
    uint32_t length = greedy->length;
    struct schedule_action *last = schedule->count ? &schedule->actions[schedule->count - 1] : NULL;
    struct schedule_action action = {
        .kind = move->kind == GREEDY_OUT ? SCHEDULE_OUT : SCHEDULE_IN,
        .buffer = gap->buffer,
        .age = cycle_static(&greedy->cycle->buffers[gap->buffer]) ? 0 : gap->age + position / length,
        .first = first,
        .count = count,
        .at = position % length,
    };

    if (last && last->kind == action.kind && last->buffer == action.buffer && last->age == action.age &&
        last->at == action.at && last->first + last->count == action.first) {
        last->count += count;
        return 0;
    }
    return schedule_add(schedule, &action);
}

/* As early as there is room, and time on the link; at the latest when it was planned. */
static int add_in(struct greedy *greedy, struct schedule *schedule, struct greedy_tree *room,
                  const struct greedy_move *move)
{
    const struct greedy_gap *gap = &greedy->gaps[move->gap];
    int64_t to = gap->from + gap->length, margin = greedy->capacity / MARGIN;
    uint32_t done = 0;

    for (uint32_t i = move->taken; i < move->taken + move->taken_count; i++)
        greedy_link_add(&greedy->link[GREEDY_IN], greedy->taken[i].slot, greedy->taken[i].ticks);
    while (done < move->count) {
        int64_t count = move->count - done, issue;
        int64_t since = room_since(room, move->complete / 2 + 1, move->issue, count + margin);
        struct greedy_span span;
        int error;

        while (count > 1 && since == move->issue) {
            count /= 2;
            since = room_since(room, move->complete / 2 + 1, move->issue, count + margin);
        }
        if (since == move->issue)
            count = move->count - done;
        if (!greedy_link_take(&greedy->link[GREEDY_IN], 2 * since - (since == move->issue), 2 * to, false,
                              count, &span))
            span = (struct greedy_span){.first = move->slot, .pieces = count};
        issue = (span.first + 1) / 2;
        if (issue > move->issue)
            issue = move->issue;
        greedy_tree_add(room, issue, move->issue, -span.pieces);
        error =
            add_action(greedy, schedule, move, move->first + done, (uint32_t)span.pieces, (uint32_t)issue);
        if (error)
            return error;
        done += (uint32_t)span.pieces;
    }
    return 0;
}

/* What is to spare, by phase. */
static int room_init(struct greedy_tree *room, struct greedy *greedy)
{
    for (uint32_t i = 0; i < greedy->length; i++)
        greedy->demand[i] = -greedy_tree_value(&greedy->lack, i);
    if (greedy_tree_init(room, greedy->length))
        return -ENOMEM;
    greedy_tree_set(room, greedy->demand);
    return 0;
}

int greedy_emit(struct greedy *greedy, struct schedule *schedule)
{
    struct greedy_tree room = {0};
    uint32_t count = 0, outs = 0;
    int error;

    for (uint32_t i = 0; i < greedy->move_count; i++) {
        if (!greedy->moves[i].count)
            continue;
        outs += greedy->moves[i].kind == GREEDY_OUT;
        greedy->moves[count++] = greedy->moves[i];
    }
    greedy->move_count = count;
    qsort(greedy->moves, count, sizeof *greedy->moves, by_gap);
    number_moves(greedy, outs);
    error = room_init(&room, greedy);
    qsort(greedy->moves, count, sizeof *greedy->moves, by_order);
    for (uint32_t i = 0; i < count && !error; i++) {
        const struct greedy_move *move = &greedy->moves[i];

        if (move->kind == GREEDY_OUT)
            error = add_action(greedy, schedule, move, move->first, move->count, move->issue);
        else
            error = add_in(greedy, schedule, &room, move);
    }
    free(room.nodes);
    if (!error)
        schedule_sort(schedule);
    return error;
}
