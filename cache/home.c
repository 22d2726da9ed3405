#include "cache/home.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { MOST_SLOTS = 2048 }; /* the circle is cut into so many parts at most */

/* Pieces of a buffer from when they arrive to when they leave, around the circle. */
struct stay {
    uint32_t buffer, first, count;
    uint32_t start, length; /* slots; as things are issued */
    uint32_t behind;        /* slots until a copy out has probably ended: the next owner would wait */
    uint32_t action;        /* that brings them in, CYCLE_NEVER: they are born, or there all the time */
    bool settled;           /* they are in HBM when the round begins */
};

struct homes {
    struct known *known;
    const struct cycle *cycle;
    uint32_t slots, words;
    struct frame **frames;
    uint32_t frame_count;
    uint64_t *held;   /* by frame: the slots it has an owner in */
    uint64_t *waited; /* and those in which it would be waited for */
    uint32_t *ended;  /* by action: position at which a copy out ends */
    struct stay *stays;
    uint32_t stay_count, stay_capacity;
    struct ranked {
        uint32_t frame, gap;
    } * ranked;
    bool failed;
};

static uint32_t slot_of(const struct homes *homes, uint64_t position)
{
    return (uint32_t)(position * homes->slots / homes->cycle->length);
}

/* Whether any, or sets all, of `length' slots from `start' on. */
static bool any_bit(uint32_t slots, const uint64_t *bits, uint32_t start, uint32_t length)
{
    for (uint32_t i = start % slots, left = length; left > 0;) {
        uint32_t offset = i % 64, run = 64 - offset;
        uint64_t mask = ~UINT64_C(0);

        run = run > left ? left : run;
        run = run > slots - i ? slots - i : run;
        if (run < 64)
            mask = ((UINT64_C(1) << run) - 1) << offset;
        if (bits[i / 64] & mask)
            return true;
        left -= run;
        i = i + run == slots ? 0 : i + run;
    }
    return false;
}

static void set_bits(uint32_t slots, uint64_t *bits, uint32_t start, uint32_t length)
{
    for (uint32_t k = 0, i = start % slots; k < length && k < slots; k++) {
        bits[i / 64] |= UINT64_C(1) << i % 64;
        i = i + 1 == slots ? 0 : i + 1;
    }
}

/* Slots from `start' on until one is taken, at most `most'. */
static uint32_t gap_after(uint32_t slots, const uint64_t *bits, uint32_t start, uint32_t most)
{
    uint32_t gap = 0;

    for (uint32_t i = start % slots; gap < most;) {
        if (i % 64 == 0 && !bits[i / 64] && i + 64 <= slots) {
            gap += 64;
            i += 64;
        } else if (bits[i / 64] >> i % 64 & 1) {
            break;
        } else {
            gap++;
            i++;
        }
        i = i >= slots ? 0 : i;
    }
    return gap < most ? gap : most;
}

/* Positions, from the round's beginning, at which copies out end if the link is that of the cycle and nothing
 * stalls.
 */
static void estimate_outs(struct homes *homes)
{
    const struct cycle *cycle = homes->cycle;
    const struct schedule *schedule = homes->known->schedule;
    double total = 0, link = 0, *begin = malloc(cycle->length * sizeof *begin);

    for (uint32_t a = 0; a < schedule->count; a++)
        homes->ended[a] = schedule->actions[a].at;
    for (uint32_t i = 0; begin && i < cycle->length; i++) {
        begin[i] = total;
        total += cycle->ops[i].duration;
    }
    for (unsigned round = 0; round < 2 && begin && total > 0 && cycle->out > 0; round++) {
        for (uint32_t a = 0; a < schedule->count; a++) {
            const struct schedule_action *action = &schedule->actions[a];
            uint32_t rounds, phase = 0;

            if (action->kind != SCHEDULE_OUT)
                continue;
            if (link < begin[action->at])
                link = begin[action->at];
            link += (double)action->count * (double)cycle->frame_size * 1e9 / cycle->out;
            rounds = (uint32_t)(link / total);
            while (phase < cycle->length && begin[phase] < link - rounds * total)
                phase++;
            homes->ended[a] = rounds * cycle->length + phase;
        }
        link -= total; /* what was not done by the end goes on in the next round */
    }
    free(begin);
}

/* An action's position, of a static buffer its phase. */
static uint64_t position_of(const struct homes *homes, const struct schedule_action *action)
{
    return (uint64_t)action->age * homes->cycle->length + action->at;
}

/* From one position to another; behind: position at which a copy out ends. */
static void stay_add(struct homes *homes, const struct stay *about, uint64_t from, uint64_t until,
                     uint64_t behind)
{
    uint32_t length = homes->cycle->length;
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
    stay->behind = behind > until
                       ? slot_of(homes, from % length + (behind - from - 1)) + 1 - stay->start - stay->length
                       : 0;
    if (stay->length + stay->behind > homes->slots)
        stay->behind = homes->slots - stay->length;
    stay->settled = from % length + (until - from) > length || stay->length == homes->slots;
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
            uint64_t at = position_of(homes, action);

            if (action->age != round || about.first - action->first >= action->count || at < begin ||
                at > end)
                continue;
            if (cycle_static(buffer) && !moves++ && action->kind == SCHEDULE_IN)
                in = false; /* it was away when the round began */
            if (action->kind == SCHEDULE_OUT && in) {
                if (cycle_static(buffer) && first_in == CYCLE_NEVER && about.action == CYCLE_NEVER)
                    first_in = mine[k]; /* it is there since the round before: added with that stay */
                else
                    stay_add(homes, &about, since, at, at + homes->ended[mine[k]] - action->at);
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
        stay_add(homes, &about, since, length + actions[first_in].at, length + homes->ended[first_in]);
    else
        stay_add(homes, &about, since, end, end);
}

static uint64_t *held_of(const struct homes *homes, uint32_t frame)
{
    return homes->held + (size_t)frame * homes->words;
}

static uint64_t *waited_of(const struct homes *homes, uint32_t frame)
{
    return homes->waited + (size_t)frame * homes->words;
}

/* patient: also where the stay, or who comes next, would have to wait for a copy out. */
static bool has_room(const struct homes *homes, uint32_t frame, const struct stay *stay, bool patient)
{
    if (any_bit(homes->slots, held_of(homes, frame), stay->start, stay->length))
        return false;
    return patient ||
           (!any_bit(homes->slots, waited_of(homes, frame), stay->start, stay->length) &&
            !any_bit(homes->slots, held_of(homes, frame), stay->start + stay->length, stay->behind));
}

static struct frame **wish(const struct homes *homes, const struct stay *stay, uint32_t piece)
{
    const struct known *known = homes->known;

    if (stay->action != CYCLE_NEVER)
        return &known->homes[known->action_home[stay->action] + piece -
                             known->schedule->actions[stay->action].first];
    return &known->homes[known->first_home[stay->buffer] + piece];
}

static void move_in(struct homes *homes, uint32_t frame, const struct stay *stay, uint32_t piece)
{
    set_bits(homes->slots, held_of(homes, frame), stay->start, stay->length);
    set_bits(homes->slots, waited_of(homes, frame), stay->start + stay->length, stay->behind);
    *wish(homes, stay, piece) = homes->frames[frame];
}

static int by_gap(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->gap != y->gap)
        return x->gap < y->gap ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* Pieces without a home get one: those first whose next owner comes soonest after the stay. */
static bool settle(struct homes *homes, const struct stay *stay, bool patient)
{
    uint32_t found = 0, next = 0;

    for (uint32_t i = 0; i < homes->frame_count; i++)
        if (has_room(homes, i, stay, patient))
            homes->ranked[found++] = (struct ranked){
                i, gap_after(homes->slots, held_of(homes, i), stay->start + stay->length, homes->slots)};
    if (found > stay->count)
        qsort(homes->ranked, found, sizeof *homes->ranked, by_gap);
    for (uint32_t piece = stay->first; piece < stay->first + stay->count; piece++) {
        if (*wish(homes, stay, piece))
            continue;
        if (next == found)
            return false;
        move_in(homes, homes->ranked[next++].frame, stay, piece);
    }
    return true;
}

/* Where a piece is, or is mapped, or is at home in another of its stays, it need not be bound again. */
static void keep(struct homes *homes, const struct stay *stay)
{
    const struct segment *segment = homes->known->lives[stay->buffer][0].segment;

    for (uint32_t i = stay->first; i < stay->first + stay->count; i++) {
        const struct frame *frame = homes->known->homes[homes->known->first_home[stay->buffer] + i];

        if (!frame && segment)
            frame = segment->piece[i].frame ? segment->piece[i].frame : segment->piece[i].bound;
        if (frame && has_room(homes, frame->number, stay, stay->settled)) {
            move_in(homes, frame->number, stay, i);
            homes->known->homes[homes->known->first_home[stay->buffer] + i] = homes->frames[frame->number];
        }
    }
}

/* What is there when the round begins, what is there for longest first; then as they come. */
static int by_turn(const void *a, const void *b)
{
    const struct stay *x = a, *y = b;

    if (x->settled != y->settled)
        return x->settled ? -1 : 1;
    if (x->settled && x->length != y->length)
        return x->length > y->length ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->length != y->length)
        return x->length > y->length ? -1 : 1;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* All frames, numbered. */
static bool list_frames(struct cache *cache, struct homes *homes)
{
    uint32_t most = (uint32_t)(cache->frames.held / cache->frames.size), count = 0;
    struct segment *segment;
    struct frame *frame;

    homes->frames = malloc((most + 1) * sizeof(struct frame *));
    if (!homes->frames)
        return false;
    DL_FOREACH(cache->frames.free, frame)
    if (count < most)
        homes->frames[count++] = frame;
    DL_FOREACH2(cache->segments.all, segment, all_next)
    for (unsigned i = 0; i < segment->pieces; i++)
        if (segment->piece[i].frame && count < most)
            homes->frames[count++] = segment->piece[i].frame;
    homes->frame_count = count;
    for (uint32_t i = 0; i < count; i++)
        homes->frames[i]->number = i;
    return true;
}

/* Buffers are cut where actions begin and end; by_buffer lists the actions of each, from first[buffer] on. */
static void make_stays(struct homes *homes, uint32_t *by_buffer, uint32_t *first)
{
    const struct schedule *schedule = homes->known->schedule;
    const struct cycle *cycle = homes->cycle;

    for (uint32_t i = 0; i < schedule->count; i++)
        first[schedule->actions[i].buffer + 2]++;
    for (uint32_t i = 2; i < cycle->buffer_count + 2; i++)
        first[i] += first[i - 1];
    for (uint32_t i = 0; i < schedule->count; i++)
        by_buffer[first[schedule->actions[i].buffer + 1]++] = i;
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

static bool prepare(struct cache *cache, struct homes *homes)
{
    const struct cycle *cycle = homes->cycle;
    struct known *known = homes->known;
    uint32_t wanted = 0;

    homes->slots = cycle->length < MOST_SLOTS ? cycle->length : MOST_SLOTS;
    homes->words = (homes->slots + 63) / 64;
    known->first_home = malloc((cycle->buffer_count + 1) * sizeof *known->first_home);
    known->action_home = malloc((known->schedule->count + 1) * sizeof *known->action_home);
    if (!known->first_home || !known->action_home || !list_frames(cache, homes))
        return false;
    for (uint32_t i = 0; i < cycle->buffer_count; i++) {
        known->first_home[i] = wanted;
        wanted += cycle_pieces(cycle, i);
    }
    for (uint32_t i = 0; i < known->schedule->count; i++) {
        known->action_home[i] = wanted;
        if (known->schedule->actions[i].kind == SCHEDULE_IN)
            wanted += known->schedule->actions[i].count;
    }
    known->homes = calloc(wanted + 1, sizeof(struct frame *));
    homes->held = calloc((size_t)homes->words * (homes->frame_count + 1), sizeof *homes->held);
    homes->waited = calloc((size_t)homes->words * (homes->frame_count + 1), sizeof *homes->waited);
    homes->ranked = malloc((homes->frame_count + 1) * sizeof *homes->ranked);
    homes->ended = malloc((known->schedule->count + 1) * sizeof *homes->ended);
    return known->homes && homes->held && homes->waited && homes->ranked && homes->ended;
}

static void settle_all(struct cache *cache, struct homes *homes)
{
    if (homes->stay_count)
        qsort(homes->stays, homes->stay_count, sizeof *homes->stays, by_turn);
    for (uint32_t i = 0; i < homes->stay_count; i++) {
        const struct stay *stay = &homes->stays[i];

        keep(homes, stay);
        if (!settle(homes, stay, false) && !settle(homes, stay, true))
            cache->statistics.homeless++;
    }
}

void homes_make(struct cache *cache, struct known *known)
{
    struct homes homes = {.known = known, .cycle = known->cycle};
    uint32_t *by_buffer = malloc((known->schedule->count + 1) * sizeof *by_buffer);
    uint32_t *first = calloc(known->cycle->buffer_count + 2, sizeof *first);
    bool made = false;

    homes_forget(cache);
    cache->at_home = known;
    known->at_home = true;
    free(known->homes);
    free(known->first_home);
    free(known->action_home);
    known->homes = NULL;
    known->first_home = known->action_home = NULL;
    if (by_buffer && first && prepare(cache, &homes)) {
        estimate_outs(&homes);
        make_stays(&homes, by_buffer, first);
        made = !homes.failed;
    }
    if (made) {
        settle_all(cache, &homes);
    } else {
        free(known->homes);
        known->homes = NULL;
    }
    for (uint32_t i = 0; i < known->cycle->buffer_count; i++)
        for (unsigned age = 0; age < KNOWN_AGES; age++)
            if (known->lives[i][age].segment)
                home_set(known, known->lives[i][age].segment, i);
    free(by_buffer);
    free(first);
    free(homes.stays);
    free(homes.frames);
    free(known->held);
    known->held = homes.held;
    known->slots = homes.slots;
    free(homes.waited);
    free(homes.ranked);
    free(homes.ended);
}

void home_set(const struct known *known, struct segment *segment, uint32_t buffer)
{
    segment->home = known->homes ? known->homes + known->first_home[buffer] : NULL;
}

void home_move(const struct known *known, const struct segment *segment, uint32_t action)
{
    const struct schedule_action *moved = &known->schedule->actions[action];

    if (!known->homes || !segment->home)
        return;
    for (uint32_t i = 0; i < moved->count; i++)
        if (known->homes[known->action_home[action] + i])
            segment->home[moved->first + i] = known->homes[known->action_home[action] + i];
}

/* Slots until somebody comes home to it; an owner that should be there now and is elsewhere does not count.
 */
static uint32_t unclaimed(const struct known *known, const struct frame *frame, uint32_t slot)
{
    const uint64_t *held;
    uint32_t skipped = 0;

    if (frame->number == FRAME_UNNUMBERED)
        return known->slots;
    held = known->held + (size_t)frame->number * ((known->slots + 63) / 64);
    while (skipped < known->slots && held[slot / 64] >> slot % 64 & 1) {
        skipped++;
        slot = slot + 1 == known->slots ? 0 : slot + 1;
    }
    return skipped + gap_after(known->slots, held, slot, known->slots - skipped);
}

struct frame *home_elsewhere(struct cache *cache, const struct segment *segment, struct frame *bound)
{
    const struct known *known = cache->at_home;
    uint64_t stays = segment->leaves > cache->plan_position ? segment->leaves - cache->plan_position : 1;
    uint32_t length = known->cycle->length, wanted, now, most = 0;
    struct frame *frame, *best = NULL;

    now = (uint32_t)((uint64_t)cache->plan_phase * known->slots / length);
    wanted = stays < length ? (uint32_t)(stays * known->slots / length) + 1 : known->slots;
    if (bound && !bound->owned && unclaimed(known, bound, now) >= wanted)
        return bound;
    DL_FOREACH(cache->frames.free, frame)
    {
        uint32_t gap = unclaimed(known, frame, now);

        if (best && (most >= wanted ? gap < wanted || gap >= most : gap <= most))
            continue;
        best = frame;
        most = gap;
    }
    return best;
}

void homes_forget(struct cache *cache)
{
    struct segment *segment;

    DL_FOREACH2(cache->segments.all, segment, all_next)
    segment->home = NULL;
    cache->at_home = NULL;
}
