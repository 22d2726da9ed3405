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

/* --- Room around the circle: the least in a range, and taking some ----------------------------------------
 */

struct node {
    int64_t least, taken; /* least: without what is taken above */
};

struct room {
    struct node *nodes; /* a tree, the root at 1, leaves from `leaves' on */
    uint32_t leaves, length;
};

static void room_update(struct room *room, uint32_t i)
{
    int64_t a = room->nodes[2 * i].least, b = room->nodes[2 * i + 1].least;

    room->nodes[i].least = (a < b ? a : b) - room->nodes[i].taken;
}

/* From `begin' to `end' - 1, both in the circle. */
static void room_take(struct room *room, uint32_t node, uint32_t low, uint32_t high, uint32_t begin,
                      uint32_t end, int64_t count)
{
    uint32_t middle = (low + high) / 2;

    if (begin >= high || end <= low)
        return;
    if (begin <= low && high <= end) {
        room->nodes[node].taken += count;
        room->nodes[node].least -= count;
        return;
    }
    room_take(room, 2 * node, low, middle, begin, end, count);
    room_take(room, 2 * node + 1, middle, high, begin, end, count);
    room_update(room, node);
}

/* Last phase in begin to end - 1 with less than `count'; -1: none. */
static int64_t room_lack(const struct room *room, uint32_t node, uint32_t low, uint32_t high, uint32_t begin,
                         uint32_t end, int64_t count)
{
    uint32_t middle = (low + high) / 2;
    int64_t found;

    if (begin >= high || end <= low || room->nodes[node].least >= count)
        return -1;
    if (high - low == 1)
        return low;
    count += room->nodes[node].taken;
    found = room_lack(room, 2 * node + 1, middle, high, begin, end, count);
    return found >= 0 ? found : room_lack(room, 2 * node, low, middle, begin, end, count);
}

static int room_init(struct room *room, const struct greedy *greedy)
{
    room->length = greedy->length;
    for (room->leaves = 1; room->leaves < greedy->length;)
        room->leaves *= 2;
    room->nodes = calloc(2 * (size_t)room->leaves, sizeof *room->nodes);
    if (!room->nodes)
        return -ENOMEM;
    for (uint32_t i = 0; i < room->leaves; i++)
        room->nodes[room->leaves + i].least = i < greedy->length ? greedy->room[i] : INT64_MAX / 4;
    for (uint32_t i = room->leaves - 1; i; i--)
        room_update(room, i);
    return 0;
}

/* Earliest position, not before `from', from which on there is room for `count' until `to'. */
static int64_t room_since(const struct room *room, int64_t from, int64_t to, int64_t count)
{
    int64_t length = room->length;

    if (from < to - length)
        from = to - length;
    while (from < to) {
        int64_t base = (to - 1) / length * length, begin = from > base ? from : base;
        int64_t found =
            room_lack(room, 1, 0, room->leaves, (uint32_t)(begin - base), (uint32_t)(to - base), count);

        if (found >= 0)
            return base + found + 1;
        to = begin;
    }
    return from;
}

static void room_take_positions(struct room *room, int64_t from, int64_t to, int64_t count)
{
    int64_t length = room->length;

    while (from < to) {
        int64_t base = from / length * length, end = to < base + length ? to : base + length;

        room_take(room, 1, 0, room->leaves, (uint32_t)(from - base), (uint32_t)(end - base), count);
        from = end;
    }
}

/* --- Moves ------------------------------------------------------------------------------------------------
 */

/* Adds to room, kept as differences, at positions from begin to end - 1. */
static void room_add(struct greedy *greedy, int64_t begin, int64_t end, int64_t count)
{
    int64_t length = greedy->length;

    greedy->room[0] += count * (end / length - begin / length);
    greedy->room[begin % length] += count;
    greedy->room[end % length] -= count;
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
            room_add(greedy, move->complete / 2 + 1, of->from + of->length, move->count);
            continue;
        }
        move->order = (uint32_t)(((int64_t)of->from + of->length - greedy->begin) % length);
        room_add(greedy, move->issue, of->from + of->length, -(int64_t)move->count);
        while (greedy->moves[out].gap != gap || greedy->moves[out].first + greedy->moves[out].count < next)
            out++;
        move->complete = greedy->moves[out].complete;
    }
    for (int64_t i = 0; i < length; i++)
        greedy->room[i] += i ? greedy->room[i - 1] : 0;
    for (int64_t i = 0; i < length; i++)
        greedy->room[i] += greedy->capacity - greedy->demand[i];
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
static int add_in(struct greedy *greedy, struct schedule *schedule, struct room *room,
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
        room_take_positions(room, issue, move->issue, span.pieces);
        error =
            add_action(greedy, schedule, move, move->first + done, (uint32_t)span.pieces, (uint32_t)issue);
        if (error)
            return error;
        done += (uint32_t)span.pieces;
    }
    return 0;
}

int greedy_emit(struct greedy *greedy, struct schedule *schedule)
{
    struct room room = {0};
    uint32_t count = 0, outs = 0;
    int error;

    greedy->room = calloc(greedy->length + 1, sizeof *greedy->room);
    if (!greedy->room)
        return -ENOMEM;
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
