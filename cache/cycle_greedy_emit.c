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

enum {
    MARGIN = 64,    /* copies move ahead only where this part of HBM remains free, for what is late */
    MOST_IN = 512,  /* copies that follow each other become one of at most this part of HBM */
    MOST_OUT = 128, /* the same */
};

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

/* Actions so far. A copy costs its latency, so those that follow each other on the link become one. */
struct emission {
    struct greedy *greedy;
    struct schedule *schedule;
    struct greedy_tree room;
    uint32_t *until; /* by action: how many operations later it is needed */
    uint32_t until_capacity;
    const struct greedy_move *last; /* the move the last action is of */
    int64_t end;                    /* slot the link is done with it in */
    int64_t position;               /* it is issued at */
};

/* Whether pieces of a move from `first' on, that the link begins with in `slot', only continue the last
 * action. */
static bool continues(const struct emission *emission, const struct greedy_move *move, uint32_t first,
                      int64_t slot)
{
    const struct greedy_move *last = emission->last;
    const struct schedule_action *action;

    if (!last || last->kind != move->kind || last->gap != move->gap || slot > emission->end + 2)
        return false;
    action = &emission->schedule->actions[emission->schedule->count - 1];
    return action->first + action->count == first;
}

static int add_action(struct emission *emission, const struct greedy_move *move, uint32_t first,
                      int64_t position, const struct greedy_span *span)
{
    const struct greedy_gap *gap = &emission->greedy->gaps[move->gap];
    uint32_t length = emission->greedy->length;
    bool same = continues(emission, move, first, span->first) && position == emission->position;
    struct schedule_action action = {
        .kind = move->kind == GREEDY_OUT ? SCHEDULE_OUT : SCHEDULE_IN,
        .buffer = gap->buffer,
        .age = cycle_static(&emission->greedy->cycle->buffers[gap->buffer])
                   ? 0
                   : gap->age + (uint32_t)(position / length),
        .first = first,
        .count = (uint32_t)span->pieces,
        .at = (uint32_t)(position % length),
    };

    emission->last = move;
    emission->position = position;
    emission->end = span->last;
    if (same) {
        emission->schedule->actions[emission->schedule->count - 1].count += action.count;
        return 0;
    }
    if (emission->schedule->count == emission->until_capacity) {
        uint32_t capacity = 2 * emission->until_capacity + 256;
        uint32_t *until = realloc(emission->until, capacity * sizeof *until);

        if (!until)
            return -ENOMEM;
        emission->until = until;
        emission->until_capacity = capacity;
    }
    emission->until[emission->schedule->count] =
        move->kind == GREEDY_IN ? (uint32_t)(gap->from + gap->length - position) : 0;
    return schedule_add(emission->schedule, &action);
}

/* The frames are free when all of a copy has left, so not too much becomes one. */
static int add_out(struct emission *emission, const struct greedy_move *move)
{
    struct greedy_span span = {.first = move->slot, .last = move->complete, .pieces = move->count};
    int64_t position = move->issue;

    if (continues(emission, move, move->first, move->slot) &&
        emission->schedule->actions[emission->schedule->count - 1].count + move->count <=
            emission->greedy->capacity / MOST_OUT)
        position = emission->position;
    return add_action(emission, move, move->first, position, &span);
}

/* As early as there is room, and time on the link; at the latest when it was planned. */
static int add_in(struct emission *emission, const struct greedy_move *move)
{
    struct greedy *greedy = emission->greedy;
    const struct greedy_gap *gap = &greedy->gaps[move->gap];
    int64_t to = gap->from + gap->length, gone = move->complete / 2 + 1, margin = greedy->capacity / MARGIN;
    uint32_t done = 0;

    greedy_link_give_back(&greedy->link[GREEDY_IN], greedy->taken + move->taken, move->taken_count);
    while (done < move->count) {
        int64_t count = move->count - done, position;
        int64_t since = room_since(&emission->room, gone, move->issue, count + margin);
        struct greedy_span span;
        int error;

        while (count > 1 && since == move->issue) {
            count /= 2;
            since = room_since(&emission->room, gone, move->issue, count + margin);
        }
        if (since == move->issue)
            count = move->count - done;
        if (!greedy_link_take(&greedy->link[GREEDY_IN], 2 * since - (since == move->issue), 2 * to, false,
                              count, &span))
            span = (struct greedy_span){.first = move->slot, .last = move->slot, .pieces = count};
        position = (span.first + 1) / 2;
        if (position > move->issue)
            position = move->issue;
        if (continues(emission, move, move->first + done, span.first) && emission->position < position &&
            gone <= emission->position &&
            emission->schedule->actions[emission->schedule->count - 1].count + span.pieces <=
                greedy->capacity / MOST_IN &&
            room_since(&emission->room, emission->position, position, span.pieces + margin) ==
                emission->position)
            position = emission->position;
        greedy_tree_add(&emission->room, position, move->issue, -span.pieces);
        error = add_action(emission, move, move->first + done, position, &span);
        if (error)
            return error;
        done += (uint32_t)span.pieces;
    }
    return 0;
}

struct ordered {
    struct schedule_action action;
    uint32_t until, index;
};

static int by_issue(const void *first, const void *second)
{
    const struct ordered *a = first, *b = second;

    if (a->action.at != b->action.at)
        return a->action.at < b->action.at ? -1 : 1;
    if (a->action.kind != b->action.kind)
        return a->action.kind == SCHEDULE_OUT ? -1 : 1;
    if (a->until != b->until)
        return a->until < b->until ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

/* At a phase, what leaves goes first, as the link was reserved, then what arrives, as it is needed. */
static int sort_actions(const struct emission *emission)
{
    struct schedule *schedule = emission->schedule;
    struct ordered *order = malloc((schedule->count + 1) * sizeof *order);

    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < schedule->count; i++)
        order[i] = (struct ordered){schedule->actions[i], emission->until[i], i};
    qsort(order, schedule->count, sizeof *order, by_issue);
    for (uint32_t i = 0; i < schedule->count; i++)
        schedule->actions[i] = order[i].action;
    free(order);
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
    struct emission emission = {.greedy = greedy, .schedule = schedule};
    uint32_t count = 0, outs = 0;
    int error;

    for (uint32_t i = 0; i < greedy->move_count; i++) {
        if (!greedy->moves[i].count)
            continue;
        outs += greedy->moves[i].kind == GREEDY_OUT;
        greedy->moves[count++] = greedy->moves[i];
    }
    greedy->move_count = count;
    if (!count)
        return 0;
    qsort(greedy->moves, count, sizeof *greedy->moves, by_gap);
    number_moves(greedy, outs);
    error = room_init(&emission.room, greedy);
    qsort(greedy->moves, count, sizeof *greedy->moves, by_order);
    for (uint32_t i = 0; i < count && !error; i++) {
        const struct greedy_move *move = &greedy->moves[i];

        error = move->kind == GREEDY_OUT ? add_out(&emission, move) : add_in(&emission, move);
    }
    if (!error)
        error = sort_actions(&emission);
    free(emission.room.nodes);
    free(emission.until);
    return error;
}
