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

/* Frames kept in hand: at most so many, and one of so many. */
enum { IN_HAND = 2, HAND = 256, PATIENCE = 16, PATIENT = 10, MORE_PATIENT = 15 };

/* The way around the circle. Positions are absolute, the first one is `length' or more. */
struct sweep {
    struct greedy *greedy;
    int64_t at, patience;
};

/* --- Reserving --------------------------------------------------------------------------------------------
 */

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

static void pause_add(struct greedy *greedy, int64_t slot, int64_t ticks)
{
    greedy_links_add(greedy->link, slot, ticks);
    greedy->stalled += ticks;
}

static int note_move(struct greedy *greedy, uint32_t kind, uint32_t gap, int64_t from,
                     const struct greedy_span *span)
{
    int64_t turn = 2 * (from - greedy->gaps[gap].from), to = from + greedy->gaps[gap].length;
    struct greedy_move move = {
        .gap = gap,
        .kind = kind,
        .count = (uint32_t)span->pieces,
        .slot = (uint32_t)(span->first - turn),
        .complete = (uint32_t)(span->last - turn),
    };

    /* It is away from when it has left to when it begins to return. */
    if (kind == GREEDY_OUT)
        greedy_tree_add(&greedy->lack, span->last / 2 + 1, to, -span->pieces);
    else
        greedy_tree_add(&greedy->lack, (span->first + 1) / 2, to, span->pieces);
    return add_move(greedy, &move);
}

/*
 * Link time for up to `count' pieces of a gap that begins at `from' to leave by where the sweep is, as early
 * as possible. How many there was time for, or -ENOMEM.
 */
static int64_t reserve_out(struct sweep *sweep, uint32_t gap, int64_t from, int64_t count)
{
    struct greedy *greedy = sweep->greedy;
    struct greedy_span span;
    int64_t done = 0;

    while (done < count && greedy_link_take(&greedy->link[GREEDY_OUT], 2 * from + 1, 2 * sweep->at, false,
                                            count - done, &span)) {
        if (note_move(greedy, GREEDY_OUT, gap, from, &span))
            return -ENOMEM;
        done += span.pieces;
    }
    return done;
}

/*
 * The same for returning, as late as possible, but not while they are needed elsewhere, because others would
 * have to leave for that: there rather is a pause before they are used.
 */
static int64_t reserve_in(struct sweep *sweep, uint32_t gap, int64_t from, int64_t count)
{
    struct greedy *greedy = sweep->greedy;
    struct greedy_link *link = &greedy->link[GREEDY_IN];
    int64_t to = from + greedy->gaps[gap].length, done = 0;
    struct greedy_span span;

    int64_t room = greedy_tree_first(&greedy->lack, sweep->at + 1, to, 0);

    if (room < 0)
        room = to;
    room -= (room - sweep->at - 1) * (PATIENCE - sweep->patience) / PATIENCE;
    while (done < count) {
        if (!greedy_link_take(link, 2 * room - 1, 2 * to, true, count - done, &span)) {
            pause_add(greedy, 2 * to - 1, (count - done) * link->piece);
            continue;
        }
        if (note_move(greedy, GREEDY_IN, gap, from, &span))
            return -ENOMEM;
        done += span.pieces;
    }
    return done;
}

/* Of `count' pieces of a gap, as many as are not away. */
static int64_t not_away(const struct greedy_gap *gap, int64_t count)
{
    return count < gap->pieces - gap->away ? count : gap->pieces - gap->away;
}

/* Of `count' pieces of a gap, as many as can leave by now do, and their return is made sure of. */
static int64_t evict(struct sweep *sweep, uint32_t gap, int64_t from, int64_t count)
{
    struct greedy_gap *chosen = &sweep->greedy->gaps[gap];

    count = reserve_out(sweep, gap, from, not_away(chosen, count));
    if (count <= 0)
        return count;
    chosen->away += (uint32_t)count;
    if (chosen->away == chosen->pieces)
        greedy_gap_exhausted(sweep->greedy, gap);
    return chosen->tail ? count : reserve_in(sweep, gap, from, count);
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
    int64_t done = 0, more;
    bool is_out = move->kind == GREEDY_OUT;
    uint32_t gap_index;

    if (!move->count || (is_out ? time < 2 * sweep->at : time > 2 * sweep->at))
        return 0;
    count = move->count < count ? move->count : count;
    move->count -= (uint32_t)count;
    if (!is_out) {
        greedy_tree_add(&greedy->lack, (time + 1) / 2, to, -count);
        return reserve_in(sweep, move->gap, from, count);
    }
    greedy_tree_add(&greedy->lack, time / 2 + 1, to, count);
    /* A pause may be too short at first, where the other direction takes part of it. */
    for (gap_index = move->gap; done < count; done += more) {
        pause_add(greedy, 2 * sweep->at - 1, (count - done) * greedy->link[GREEDY_OUT].piece);
        more = reserve_out(sweep, gap_index, from, count - done);
        if (more < 0)
            return more;
    }
    return count;
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

/*
 * The gap that spans the place and begins at positions first to last that is best: one whose pieces need not
 * return, else that which ends last.
 */
static int64_t find_gap(const struct sweep *sweep, int64_t first, int64_t last, uint32_t *gap)
{
    const struct greedy *greedy = sweep->greedy;
    int64_t from = greedy_gap_find(greedy, true, first, last, gap);

    if (*gap == GREEDY_NONE || from + greedy->gaps[*gap].length <= sweep->at)
        from = greedy_gap_find(greedy, false, first, last, gap);
    if (*gap != GREEDY_NONE && from + greedy->gaps[*gap].length <= sweep->at)
        *gap = GREEDY_NONE;
    return from;
}

static int make_room(struct sweep *sweep, int64_t needed)
{
    struct greedy *greedy = sweep->greedy;
    struct greedy_link *link = &greedy->link[GREEDY_OUT];
    int64_t first = sweep->at - greedy->length, bound = 2 * sweep->at;

    while (needed > 0) {
        int64_t slot = greedy_link_before(link, bound, 2 * first), from, count = 0;
        uint32_t gap = GREEDY_NONE;

        if (slot > 0) /* nothing begins before the first slot */
            from = find_gap(sweep, first, (slot - 1) / 2, &gap);
        if (gap == GREEDY_NONE) {
            /* No link time for any of them: the machine pauses, behind the last use of one, not here: what
             * returns in a pause further back would be in HBM beside what has not left yet. */
            bound = 2 * sweep->at;
            from = find_gap(sweep, first, sweep->at - 1, &gap);
            if (gap == GREEDY_NONE) {
                count = shift(sweep, needed);
                return count < 0 ? (int)count : 0;
            }
            pause_add(greedy, 2 * from + 1, not_away(&greedy->gaps[gap], needed) * link->piece);
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

static uint32_t least_demand(const struct greedy *greedy)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < greedy->length; i++)
        if (greedy->demand[i] < greedy->demand[least])
            least = i;
    return least;
}

static int choose(struct greedy *greedy, int64_t patience)
{
    struct sweep sweep = {.greedy = greedy, .patience = patience};
    int error = 0;

    if (greedy_tree_init(&greedy->lack, greedy->length) || greedy_links_init(greedy->link, greedy->cycle))
        return -ENOMEM;
    greedy_links_set(greedy->link, greedy->cycle);
    greedy_tree_set(&greedy->lack, greedy->demand);
    greedy_gaps_reset(greedy);
    sweep.at = (int64_t)greedy->begin + greedy->length;
    for (uint32_t i = 0; i < greedy->length && !error; i++, sweep.at++)
        error = make_room(&sweep, greedy_tree_value(&greedy->lack, sweep.at));
    return error;
}

static double predicted(const struct greedy *greedy)
{
    double time = (double)greedy->stalled / GREEDY_TICKS;

    for (uint32_t i = 0; i < greedy->length; i++)
        time += greedy->cycle->ops[i].duration;
    return time;
}

static int find_gaps(struct greedy *greedy)
{
    int64_t frames = (int64_t)(greedy->cycle->capacity / greedy->cycle->frame_size);
    int error = greedy_find_gaps(greedy);

    if (error)
        return error;
    greedy->capacity = frames - (frames / HAND < IN_HAND ? frames / HAND : IN_HAND);
    greedy->begin = least_demand(greedy);
    for (uint32_t i = 0; i < greedy->length; i++)
        greedy->demand[i] -= greedy->capacity;
    return 0;
}

static void free_choice(struct greedy *greedy)
{
    free(greedy->moves);
    free(greedy->taken);
    free(greedy->lack.nodes);
    for (uint32_t i = 0; i < 2; i++)
        greedy_link_free(&greedy->link[i]);
}

static void free_gaps(struct greedy *greedy)
{
    free(greedy->demand);
    free(greedy->gaps);
    free(greedy->first_gap);
    for (uint32_t i = 0; i < 2; i++)
        free(greedy->last[i]);
}

int schedule_greedy(const struct cycle *cycle, struct schedule **out)
{
    struct greedy gaps = {.cycle = cycle, .length = cycle->length}, first = {0}, second = {0}, *best = &first;
    struct schedule *schedule = calloc(1, sizeof *schedule);
    int error = -ENOMEM;

    if (!schedule)
        return -ENOMEM;
    schedule->cycle_hash = cycle_hash(cycle);
    error = find_gaps(&gaps);
    if (error)
        goto done;
    first = second = gaps;
    error = choose(&first, PATIENT);
    if (!error && first.stalled) {
        /* Which makes the machine pause less. */
        error = choose(&second, MORE_PATIENT);
        if (second.stalled < first.stalled)
            best = &second;
    }
    if (!error)
        error = greedy_emit(best, schedule);
    schedule->predicted = predicted(best);

done:
    free_choice(&first);
    free_choice(&second);
    free_gaps(&gaps);
    if (error)
        schedule_free(schedule);
    else
        *out = schedule;
    return error;
}
