/*
 * cycle_greedy.c - a schedule made at once.
 *
 * Where more is in use than fits, pieces of what is not used just then have to be elsewhere. The planner goes
 * once around the circle, from the operation with the least demand on, and wherever too little has left it
 * chooses, of the gaps between two uses that span the place, the one that ends last (Belady's rule), among
 * those whose pieces can have left by then: both links' time is reserved as it goes, copies out as early as
 * the last use allows, because that leaves the most to those that can only start later, copies in as late as
 * the next use allows. Where a link has no time left the machine must pause, and in a pause both links work.
 * With that, no copy is late on a machine that behaves as the cycle says. Copies in are then moved ahead
 * as far as there is room (cycle_greedy_emit.c).
 */
#include "cache/cycle_greedy.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { IN_HAND = 2, NONE = UINT32_MAX };

/* What the way around the circle needs. Positions are absolute, the first one is `length' or more. */
struct sweep {
    struct greedy *greedy;
    int64_t begin, end, at;
    int64_t away;     /* pieces away at `at' */
    int64_t *changes; /* of that, at positions from begin on */
    struct {
        int64_t slot, ticks;
    } * taken; /* of a link, for a piece not complete yet */
    uint32_t taken_count;
};

/* --- The gap that ends last -------------------------------------------------------------------------------
 */

static int64_t gap_end(const struct greedy *greedy, uint32_t gap)
{
    return (int64_t)greedy->gaps[gap].from + greedy->gaps[gap].length;
}

static uint32_t later(const struct greedy *greedy, uint32_t a, uint32_t b)
{
    if (a == NONE || b == NONE)
        return a == NONE ? b : a;
    return gap_end(greedy, b) > gap_end(greedy, a) ? b : a;
}

static int tree_init(struct greedy *greedy)
{
    greedy->leaves = greedy->gap_count ? greedy->gap_count : 1;
    greedy->best = malloc(2 * (size_t)greedy->leaves * sizeof *greedy->best);
    if (!greedy->best)
        return -ENOMEM;
    greedy->best[1] = NONE;
    for (uint32_t i = 0; i < greedy->gap_count; i++)
        greedy->best[greedy->leaves + i] = i;
    for (uint32_t i = greedy->leaves - 1; i; i--)
        greedy->best[i] = later(greedy, greedy->best[2 * i], greedy->best[2 * i + 1]);
    return 0;
}

static void tree_remove(struct greedy *greedy, uint32_t gap)
{
    uint32_t i = greedy->leaves + gap;

    greedy->best[i] = NONE;
    for (i /= 2; i; i /= 2)
        greedy->best[i] = later(greedy, greedy->best[2 * i], greedy->best[2 * i + 1]);
}

/* Of gaps that begin at phases from `first' to `last'. */
static uint32_t tree_find(const struct greedy *greedy, int64_t first, int64_t last)
{
    uint32_t found = NONE, a, b;

    if (first > last)
        return NONE;
    a = greedy->first_gap[first] + greedy->leaves;
    b = greedy->first_gap[last + 1] + greedy->leaves;
    for (; a < b; a /= 2, b /= 2) {
        if (a & 1)
            found = later(greedy, found, greedy->best[a++]);
        if (b & 1)
            found = later(greedy, found, greedy->best[--b]);
    }
    return found;
}

/* The gap that begins at positions first to last, less than a round apart, and ends last: its beginning. */
static int64_t find_gap(const struct greedy *greedy, int64_t first, int64_t last, uint32_t *gap)
{
    int64_t length = greedy->length, turn = last / length * length;
    uint32_t old = NONE, young;

    if (first < turn) {
        old = tree_find(greedy, first - turn + length, length - 1);
        first = turn;
    }
    young = tree_find(greedy, first - turn, last - turn);
    if (old != NONE && (young == NONE || gap_end(greedy, old) - length >= gap_end(greedy, young))) {
        *gap = old;
        return turn - length + greedy->gaps[old].from;
    }
    *gap = young;
    return young == NONE ? 0 : turn + greedy->gaps[young].from;
}

/* --- Reserving --------------------------------------------------------------------------------------------
 */

/* `count' pieces of each instance of a gap are away from begin to end - 1, and a round later, and before. */
static void cover(struct sweep *sweep, int64_t begin, int64_t end, int64_t count)
{
    int64_t length = sweep->greedy->length, span = end - begin;

    if (span <= 0)
        return;
    begin -= ((end - sweep->at) / length + 1) * length;
    for (; begin < sweep->end; begin += length) {
        if (begin + span <= sweep->at)
            continue;
        if (begin <= sweep->at)
            sweep->away += count;
        else
            sweep->changes[begin - sweep->begin] += count;
        if (begin + span < sweep->end)
            sweep->changes[begin + span - sweep->begin] -= count;
    }
}

static int add_move(struct greedy *greedy, struct greedy_move *move)
{
    const struct greedy_link *link = &greedy->link[move->kind];

    if (greedy->move_count == greedy->move_capacity) {
        uint32_t capacity = greedy->move_capacity ? 2 * greedy->move_capacity : 1024;
        struct greedy_move *moves = realloc(greedy->moves, capacity * sizeof *moves);

        if (!moves)
            return -ENOMEM;
        greedy->moves = moves;
        greedy->move_capacity = capacity;
    }
    if (link->taken_count > greedy->taken_capacity - greedy->taken_count) {
        uint32_t capacity = 2 * (greedy->taken_capacity + link->taken_count) + 1024;
        struct greedy_taken *taken = realloc(greedy->taken, capacity * sizeof *taken);

        if (!taken)
            return -ENOMEM;
        greedy->taken = taken;
        greedy->taken_capacity = capacity;
    }
    move->taken = greedy->taken_count;
    move->taken_count = link->taken_count;
    memcpy(greedy->taken + greedy->taken_count, link->taken, link->taken_count * sizeof *link->taken);
    greedy->taken_count += link->taken_count;
    greedy->moves[greedy->move_count++] = *move;
    return 0;
}

/*
 * Link time for up to `count' pieces of a gap that begins at `from': copies out from there on, copies in
 * backwards from the gap's end, in both cases on the other side of where the sweep is. How many there was
 * time for, or -ENOMEM.
 */
static int64_t reserve(struct sweep *sweep, uint32_t kind, uint32_t gap, int64_t from, int64_t count)
{
    struct greedy *greedy = sweep->greedy;
    int64_t to = from + greedy->gaps[gap].length, turn = 2 * (from - greedy->gaps[gap].from), done = 0;
    int64_t begin = kind == GREEDY_OUT ? 2 * from + 1 : 2 * sweep->at + 1;
    int64_t end = kind == GREEDY_OUT ? 2 * sweep->at : 2 * to;
    struct greedy_span span;

    while (done < count &&
           greedy_link_take(&greedy->link[kind], begin, end, kind == GREEDY_IN, count - done, &span)) {
        struct greedy_move move = {
            .gap = gap,
            .kind = kind,
            .count = (uint32_t)span.pieces,
            .slot = (uint32_t)(span.first - turn),
            .complete = (uint32_t)(span.last - turn),
        };

        if (add_move(greedy, &move))
            return -ENOMEM;
        done += span.pieces;
        /* Until it is gone, and from when it returns, a piece takes room. */
        if (kind == GREEDY_OUT)
            cover(sweep, from + 1, span.last / 2 + 1, -span.pieces);
        else
            cover(sweep, (span.first + 1) / 2, to, -span.pieces);
    }
    return done;
}

static void pause_add(struct greedy *greedy, int64_t slot, int64_t ticks)
{
    greedy_link_add(&greedy->link[GREEDY_OUT], slot, ticks);
    greedy_link_add(&greedy->link[GREEDY_IN], slot, ticks);
    greedy->stalled += ticks;
}

/* Of `count' pieces of a gap, as many as can leave by now do, and their return is made sure of. */
static int64_t evict(struct sweep *sweep, uint32_t gap, int64_t from, int64_t count)
{
    struct greedy *greedy = sweep->greedy;
    struct greedy_gap *chosen = &greedy->gaps[gap];
    int64_t to = from + chosen->length, back;

    if (count > chosen->pieces - chosen->away)
        count = chosen->pieces - chosen->away;
    count = reserve(sweep, GREEDY_OUT, gap, from, count);
    if (count <= 0)
        return count;
    cover(sweep, from + 1, to, count);
    chosen->away += (uint32_t)count;
    if (chosen->away == chosen->pieces)
        tree_remove(greedy, gap);
    if (chosen->tail)
        return count;
    back = reserve(sweep, GREEDY_IN, gap, from, count);
    if (back >= 0 && back < count) {
        pause_add(greedy, 2 * to - 1, (count - back) * greedy->link[GREEDY_IN].piece);
        back = reserve(sweep, GREEDY_IN, gap, from, count - back);
    }
    return back < 0 ? back : count;
}

/*
 * Of a move of the gap's instance that begins at `from': if that spans the place, but its pieces leave too
 * late for it, or are back by then, because the link is busy at other times, up to `count' of them leave or
 * return in a pause. How many.
 */
static int64_t shift_move(struct sweep *sweep, uint32_t index, int64_t from, int64_t count)
{
    struct greedy *greedy = sweep->greedy;
    struct greedy_move *move = &greedy->moves[index];
    const struct greedy_gap *gap = &greedy->gaps[move->gap];
    int64_t to = from + gap->length, turn = 2 * (from - (int64_t)gap->from);
    int64_t time = turn + (move->kind == GREEDY_OUT ? move->complete : move->slot);
    bool is_out = move->kind == GREEDY_OUT;

    if (!move->count || (is_out ? time < 2 * sweep->at : time > 2 * sweep->at))
        return 0;
    count = move->count < count ? move->count : count;
    move->count -= (uint32_t)count;
    if (is_out)
        cover(sweep, from + 1, time / 2 + 1, count);
    else
        cover(sweep, (time + 1) / 2, to, count);
    pause_add(greedy, is_out ? 2 * sweep->at - 1 : 2 * to - 1, count * greedy->link[move->kind].piece);
    return reserve(sweep, move->kind, move->gap, from, count);
}

/* What can be done for `count' pieces where nothing is left that could leave. */
static int64_t shift(struct sweep *sweep, int64_t count)
{
    struct greedy *greedy = sweep->greedy;
    int64_t length = greedy->length, shifted = 0;
    uint32_t moves = greedy->move_count;

    for (uint32_t i = 0; i < moves; i++) {
        const struct greedy_gap *gap = &greedy->gaps[greedy->moves[i].gap];
        int64_t from = sweep->at - 1 - (sweep->at - 1 + length - gap->from) % length;

        for (; shifted < count && from + gap->length > sweep->at; from -= length) {
            int64_t done = shift_move(sweep, i, from, count - shifted);

            if (done < 0)
                return done;
            shifted += done;
        }
    }
    return shifted;
}

/* --- Around the circle ------------------------------------------------------------------------------------
 */

static int make_room(struct sweep *sweep, int64_t needed)
{
    struct greedy *greedy = sweep->greedy;
    struct greedy_link *link = &greedy->link[GREEDY_OUT];
    int64_t first = sweep->at - greedy->length, bound = 2 * sweep->at;

    while (needed > 0) {
        int64_t slot = greedy_link_before(link, bound, 2 * first), from, count = 0;
        uint32_t gap = NONE;

        if (slot >= 0)
            from = find_gap(greedy, first, (slot - 1) / 2, &gap);
        if (gap == NONE || from + greedy->gaps[gap].length <= sweep->at) {
            /* No link time for any of them: the machine pauses. */
            bound = 2 * sweep->at;
            from = find_gap(greedy, first, sweep->at - 1, &gap);
            if (gap == NONE || from + greedy->gaps[gap].length <= sweep->at) {
                count = shift(sweep, needed);
                return count < 0 ? (int)count : 0;
            }
            pause_add(greedy, bound - 1, needed * link->piece);
            continue;
        }
        count = evict(sweep, gap, from, needed);
        if (count < 0)
            return (int)count;
        needed -= count;
        if (!count)
            bound = 2 * from + 1;
    }
    return 0;
}

static int64_t least_demand(const struct greedy *greedy)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < greedy->length; i++)
        if (greedy->demand[i] < greedy->demand[least])
            least = i;
    return least;
}

static int choose(struct greedy *greedy)
{
    struct sweep sweep = {.greedy = greedy};
    int error = -ENOMEM;

    greedy->begin = least_demand(greedy);
    sweep.begin = greedy->begin + greedy->length;
    sweep.end = sweep.begin + greedy->length;
    sweep.changes = calloc(greedy->length + 1, sizeof *sweep.changes);
    if (!sweep.changes)
        goto done;
    error = 0;
    for (sweep.at = sweep.begin; sweep.at < sweep.end && !error; sweep.at++) {
        sweep.away += sweep.changes[sweep.at - sweep.begin];
        error = make_room(&sweep, greedy->demand[sweep.at % greedy->length] - greedy->capacity - sweep.away);
    }

done:
    free(sweep.changes);
    return error;
}

static void greedy_free(struct greedy *greedy)
{
    free(greedy->demand);
    free(greedy->gaps);
    free(greedy->first_gap);
    free(greedy->best);
    free(greedy->moves);
    free(greedy->room);
    free(greedy->taken);
    for (uint32_t i = 0; i < 2; i++)
        greedy_link_free(&greedy->link[i]);
}

int schedule_greedy(const struct cycle *cycle, struct schedule **out)
{
    struct greedy greedy = {.cycle = cycle, .length = cycle->length};
    struct schedule *schedule = calloc(1, sizeof *schedule);
    int error = -ENOMEM;

    if (!schedule)
        return -ENOMEM;
    schedule->cycle_hash = cycle_hash(cycle);
    greedy.capacity = (int64_t)(cycle->capacity / cycle->frame_size) - IN_HAND;
    if (greedy_find_gaps(&greedy) || tree_init(&greedy) ||
        greedy_link_init(&greedy.link[GREEDY_OUT], cycle, cycle->out) ||
        greedy_link_init(&greedy.link[GREEDY_IN], cycle, cycle->in))
        goto done;
    error = choose(&greedy);
    if (!error)
        error = greedy_emit(&greedy, schedule);

done:
    greedy_free(&greedy);
    if (error)
        schedule_free(schedule);
    else
        *out = schedule;
    return error;
}
