#include "cache/home_stays.h"
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Whether any, or sets all, of `length' slots from `start' on. */
static inline bool any_bit(uint32_t slots, const uint64_t *bits, uint32_t start, uint32_t length)
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

/* The same backwards, from the slot before `start' on. */
static uint32_t gap_before(uint32_t slots, const uint64_t *bits, uint32_t start, uint32_t most)
{
    uint32_t gap = 0, i = start % slots;

    while (gap < most) {
        i = i == 0 ? slots - 1 : i - 1;
        if (bits[i / 64] >> i % 64 & 1)
            break;
        gap++;
    }
    return gap;
}

/* Slots from `start' on until one is taken, at most `most'. */
static uint32_t gap_after(uint32_t slots, const uint64_t *bits, uint32_t start, uint32_t most)
{
    uint32_t gap = 0;

    for (uint32_t i = slots ? start % slots : 0; gap < most;) {
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

static uint64_t *held_of(const struct homes *homes, uint32_t frame)
{
    return homes->held + (size_t)frame * homes->words;
}

static uint64_t *times_of(const struct homes *homes, uint32_t frame)
{
    return homes->times + (size_t)frame * TIME_WORDS;
}

/* patient: also where the stay, or who comes next, would have to wait for a copy. */
static bool has_room(const struct homes *homes, uint32_t frame, const struct stay *stay, bool patient)
{
    return !any_bit(homes->slots, held_of(homes, frame), stay->start, stay->length) &&
           (patient || !any_bit(TIMES, times_of(homes, frame), stay->begins, stay->takes));
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
    set_bits(TIMES, times_of(homes, frame), stay->begins, stay->takes);
    *wish(homes, stay, piece) = homes->frames[frame];
}

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/*
 * Which frame is better, the lower. A copy in takes the one that has been free for longest, so that nothing
 * stands in front of the copies behind it; a newborn the one whose next owner comes soonest, since long gaps
 * are what others will look for.
 */
static uint32_t rank(const struct homes *homes, uint32_t frame, const struct stay *stay)
{
    if (stay->action != CYCLE_NEVER)
        return TIMES - gap_before(TIMES, times_of(homes, frame), stay->begins, TIMES);
    return gap_after(homes->slots, held_of(homes, frame), stay->start + stay->length, homes->slots);
}

/* Pieces without a home get one. */
static bool settle(struct homes *homes, const struct stay *stay, bool patient)
{
    uint32_t found = 0, next = 0;

    for (uint32_t i = 0; i < homes->frame_count; i++)
        if (has_room(homes, i, stay, patient))
            homes->ranked[found++] = (struct ranked){i, rank(homes, i, stay)};
    if (found > stay->count)
        qsort(homes->ranked, found, sizeof *homes->ranked, by_rank);
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
    homes->times = calloc((size_t)TIME_WORDS * (homes->frame_count + 1), sizeof *homes->times);
    homes->ranked = malloc((homes->frame_count + 1) * sizeof *homes->ranked);
    homes->moved = calloc(known->schedule->count + 1, sizeof *homes->moved);
    homes->begin = calloc(cycle->length + 1, sizeof *homes->begin);
    return known->homes && homes->held && homes->times && homes->ranked && homes->moved && homes->begin;
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
        stays_estimate(&homes);
        stays_make(&homes, by_buffer, first);
        made = !homes.failed;
    }
    if (made) {
        settle_all(cache, &homes);
    } else {
        free(known->homes);
        known->homes = NULL;
    }
    for (uint32_t i = 0; i < known->cycle->buffer_count; i++)
        for (unsigned age = 0; age < known->ages[i]; age++)
            if (known->lives[i][age].segment)
                home_set(known, known->lives[i][age].segment, i);
    free(by_buffer);
    free(first);
    free(homes.stays);
    free(homes.frames);
    free(known->held);
    known->held = homes.held;
    known->slots = homes.slots;
    free(homes.times);
    free(homes.begin);
    free(homes.ranked);
    free(homes.moved);
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

    if (frame->number == FRAME_UNNUMBERED || !known->held)
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
