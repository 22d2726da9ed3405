#include "cache/home.h"
#include "cache/colour.h"
#include "cache/unroll.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    MOST_SLOTS = 2048, /* the circle of operations is cut into so many parts at most */
    SETTLING = 3       /* rounds */
};

struct homes {
    struct known *known;
    uint32_t phase;      /* the next one to be planned */
    struct cycle *cycle; /* known->turns of the round's own */
    struct schedule *schedule;
    struct colouring colouring;
    struct frame **frames;
    uint32_t frame_count;
    uint32_t *number_of; /* by colour: the frame that has it, COLOUR_NONE */
    bool *taken;         /* by frame */
};

/* How many slots from `start' on, around the circle, until one that is taken, or one that is not; all if
 * there is none. */
static uint32_t until(uint32_t slots, const uint64_t *bits, uint32_t start, bool taken)
{
    for (uint32_t passed = 0, i = start; passed < slots;) {
        uint32_t run = 64 - i % 64 < slots - i ? 64 - i % 64 : slots - i;
        uint64_t word = (taken ? bits[i / 64] : ~bits[i / 64]) >> i % 64;

        if (run < 64)
            word &= (UINT64_C(1) << run) - 1;
        if (word)
            return passed + (uint32_t)__builtin_ctzll(word) < slots ? passed + (uint32_t)__builtin_ctzll(word)
                                                                    : slots;
        passed += run;
        i = i + run == slots ? 0 : i + run;
    }
    return slots;
}

/* All frames, numbered. */
static bool list_frames(struct cache *cache, struct homes *homes)
{
    uint32_t most = cache->frames.count, count = 0;
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

/* --- From colours to frames -------------------------------------------------------------------------------
 */

/* The round that one of a buffer's lives was born in, when the operation at `phase' is the next one. */
static uint64_t born_in(const struct known *known, uint32_t buffer, uint32_t age, uint32_t phase)
{
    uint32_t birth = known->cycle->buffers[buffer].birth;

    return known->round - age - (birth != CYCLE_NEVER && birth >= phase);
}

/* Who is there for a buffer of the turns' cycle; NULL: nobody yet. */
static const struct segment *segment_now(const struct homes *homes, uint32_t buffer)
{
    const struct known *known = homes->known;
    uint32_t turn = buffer < known->cycle->buffer_count ? 0 : 1;

    buffer -= turn * known->born;
    if (cycle_static(&known->cycle->buffers[buffer]))
        return known->lives[buffer][0].segment;
    for (uint32_t age = 0; age < known->turns && age < known->ages[buffer]; age++)
        if (known_turn(known, born_in(known, buffer, age, homes->phase)) == turn)
            return known->lives[buffer][age].segment;
    return NULL;
}

/* Where the piece is, or is mapped: there it need not be bound again. */
static const struct frame *frame_now(const struct homes *homes, uint32_t buffer, uint32_t piece, bool there)
{
    const struct segment *segment = segment_now(homes, buffer);

    if (!segment || piece >= segment->pieces)
        return NULL;
    return there ? segment->piece[piece].frame : segment->piece[piece].bound;
}

/* Each colour gets a frame: what never leaves keeps the one it is in, then what is in HBM, then who is
 * mapped. Those of small allocations stay theirs. */
static void match(const struct cache *cache, struct homes *homes)
{
    const struct colouring *colouring = &homes->colouring;
    const struct segment *segment;
    uint32_t next = 0;

    DL_FOREACH2(cache->segments.all, segment, all_next)
    for (unsigned i = 0; segment->small && i < segment->pieces; i++)
        if (segment->piece[i].frame && segment->piece[i].frame->number < homes->frame_count)
            homes->taken[segment->piece[i].frame->number] = true;
    for (unsigned turn = 0; turn < 3; turn++)
        for (uint32_t k = 0; k < colouring->stays.count; k++) {
            const struct stay *stay = &colouring->stays.stays[k];

            if (turn == 0 && !stay->whole)
                continue;
            for (uint32_t i = stay->first; i < stay->first + stay->count; i++) {
                const struct frame *frame = frame_now(homes, stay->buffer, i, turn < 2);
                uint32_t colour = *colouring_of(colouring, homes->schedule, stay, i);

                if (!frame || frame->number >= homes->frame_count || colour == COLOUR_NONE ||
                    homes->number_of[colour] != COLOUR_NONE || homes->taken[frame->number])
                    continue;
                homes->number_of[colour] = frame->number;
                homes->taken[frame->number] = true;
            }
        }
    for (uint32_t colour = 0; colour < colouring->colours; colour++) {
        if (homes->number_of[colour] != COLOUR_NONE)
            continue;
        while (next < homes->frame_count && homes->taken[next])
            next++;
        if (next == homes->frame_count)
            return;
        homes->taken[next] = true;
        homes->number_of[colour] = next;
    }
}

static void set_bits(uint32_t slots, uint64_t *bits, uint32_t start, uint32_t length)
{
    for (uint32_t k = 0, i = start % slots; k < length && k < slots; k++) {
        bits[i / 64] |= UINT64_C(1) << i % 64;
        i = i + 1 == slots ? 0 : i + 1;
    }
}

/* When a frame is somebody's home. */
static void note_held(struct homes *homes, const struct stay *stay, uint32_t frame)
{
    struct known *known = homes->known;
    uint32_t length = homes->cycle->length, words = (known->slots + 63) / 64;
    uint32_t start = (uint32_t)((uint64_t)stay->from * known->slots / length);
    uint32_t end = (uint32_t)(((uint64_t)stay->from + stay->length - 1) * known->slots / length);

    set_bits(known->slots, known->held + (size_t)frame * words, start, end - start + 1);
}

/* The frames of a stay's pieces; those a static buffer is brought to first are where it belongs from the
 * start. */
static void move_in(struct cache *cache, struct homes *homes, const struct stay *stay)
{
    struct known *known = homes->known;

    for (uint32_t i = stay->first; i < stay->first + stay->count; i++) {
        uint32_t *colour = colouring_of(&homes->colouring, homes->schedule, stay, i);
        uint32_t at = (uint32_t)(colour - homes->colouring.colour);
        uint32_t number = *colour == COLOUR_NONE ? COLOUR_NONE : homes->number_of[*colour];
        struct frame **here = &known->here[known->first_home[stay->buffer] + i];

        if (number == COLOUR_NONE) {
            cache->statistics.homeless++;
            continue;
        }
        known->homes[at] = homes->frames[number];
        if (!*here && (stay->action == CYCLE_NEVER || cycle_static(&homes->cycle->buffers[stay->buffer])))
            *here = homes->frames[number];
        note_held(homes, stay, number);
        if (stay->whole)
            known->whole[number] = &known->here[at];
    }
}

static bool assign(struct cache *cache, struct homes *homes)
{
    struct known *known = homes->known;
    const struct colouring *colouring = &homes->colouring;
    uint32_t words;

    if (!list_frames(cache, homes))
        return false;
    words = (known->slots + 63) / 64;
    known->homes = calloc(colouring->total + 1, sizeof(struct frame *));
    known->here = calloc(colouring->total + 1, sizeof(struct frame *));
    known->whole = calloc(homes->frame_count + 1, sizeof *known->whole);
    known->frames = homes->frame_count;
    known->held = calloc((size_t)words * (homes->frame_count + 1), sizeof *known->held);
    homes->number_of = malloc((colouring->colours + 1) * sizeof *homes->number_of);
    homes->taken = calloc(homes->frame_count + 1, sizeof *homes->taken);
    if (!known->homes || !known->here || !known->held || !known->whole || !homes->number_of || !homes->taken)
        return false;
    memset(homes->number_of, 0xff, (colouring->colours + 1) * sizeof *homes->number_of); /* COLOUR_NONE */
    match(cache, homes);
    for (uint32_t k = 0; k < colouring->stays.count; k++)
        move_in(cache, homes, &colouring->stays.stays[k]);
    return true;
}

/* Of all whom the round knows; where they are now is for them to find out. */
static void set_all(const struct known *known, uint32_t phase)
{
    for (uint32_t i = 0; i < known->cycle->buffer_count; i++)
        for (unsigned age = 0; age < known->ages[i]; age++)
            if (known->lives[i][age].segment)
                home_set(known, known->lives[i][age].segment, i, born_in(known, i, age, phase), false);
}

static void go_home(struct cache *cache, struct known *known)
{
    cache->at_home = known;
    cache->settled_at = cache->plan_base + SETTLING * (uint64_t)known->cycle->length;
}

/* A round that was left for a while and is followed again: choosing would take long, to the same end. */
static bool come_back(struct cache *cache, struct known *known)
{
    if (cache->left_home != known || !known->at_home ||
        (!known->freely && (!known->homes || known->frames != cache->frames.count)))
        return false;
    cache->left_home = NULL;
    go_home(cache, known);
    set_all(known, cache->phase);
    return true;
}

void homes_make(struct cache *cache, struct known *known)
{
    struct homes homes = {.known = known, .phase = cache->phase};
    struct cycle_run *run = NULL;
    struct cycle_result result;
    double value;

    if (come_back(cache, known))
        return;
    homes_forget(cache);
    go_home(cache, known);
    known->at_home = true;
    known_forget_homes(known);
    known->freely = known->oldest = false;
    known->turns = unroll_turns(known->cycle);
    known->born = unroll_born(known->cycle);
    if (!unroll(known->cycle, known->schedule, known->turns, &homes.cycle, &homes.schedule))
        run = cycle_run_new(homes.cycle);
    if (run && !colouring_choose(run, homes.cycle, homes.schedule, INFINITY, false, &homes.colouring, &result,
                                 &value)) {
        known->worth = (struct schedule_worth){value / known->turns, (result.in + result.out) / known->turns};
        known->bound = result.bound / known->turns;
        /* The places are the colouring's. */
        known->first_home = homes.colouring.of_buffer;
        known->action_home = homes.colouring.of_action;
        known->freely = colouring_freely(&homes.colouring);
        known->oldest = homes.colouring.order == COLOUR_OLDEST;
        known->slots = homes.cycle->length < MOST_SLOTS ? homes.cycle->length : MOST_SLOTS;
        if (known->freely || !assign(cache, &homes)) {
            homes.colouring.of_buffer = homes.colouring.of_action = NULL;
            known_forget_homes(known);
        }
        homes.colouring.of_buffer = homes.colouring.of_action = NULL;
        colouring_free(&homes.colouring);
    }
    cycle_run_free(run);
    cycle_free(homes.cycle);
    schedule_free(homes.schedule);
    set_all(known, cache->phase);
    free(homes.frames);
    free(homes.number_of);
    free(homes.taken);
}

static void be_born(const struct known *known, struct segment *segment)
{
    size_t at = (size_t)(segment->home - known->here);

    for (unsigned i = 0; i < segment->pieces; i++)
        if (known->homes[at + i])
            segment->home[i] = known->homes[at + i];
}

void home_set(const struct known *known, struct segment *segment, uint32_t buffer, uint64_t round, bool born)
{
    if (known->here && !cycle_static(&known->cycle->buffers[buffer]))
        buffer += known_turn(known, round) * known->born;
    segment->home = known->here ? known->here + known->first_home[buffer] : NULL;
    if (segment->home && born)
        be_born(known, segment);
}

void home_reborn(const struct cache *cache, struct segment *segment)
{
    if (!segment->place || !cache->at_home || !cache->at_home->here)
        segment->home = NULL;
    if (segment->home)
        be_born(cache->at_home, segment);
}

void home_move(const struct known *known, const struct segment *segment, uint32_t action)
{
    const struct schedule_action *moved = &known->schedule->actions[action % known->schedule->count];

    if (!known->here || !segment->home)
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
    uint32_t skipped, gap;

    if (frame->number == FRAME_UNNUMBERED || !known->held)
        return known->slots;
    held = known->held + (size_t)frame->number * ((known->slots + 63) / 64);
    skipped = until(known->slots, held, slot, false);
    if (skipped == known->slots)
        return skipped;
    gap = until(known->slots, held, (slot + skipped) % known->slots, true);
    return gap < known->slots - skipped ? skipped + gap : known->slots;
}

/* Where it says that a piece which never leaves belongs to the frame, NULL: none does, or no longer. */
static struct frame **whole_at(const struct known *known, const struct frame *frame)
{
    struct frame **at = frame->number < known->frames ? known->whole[frame->number] : NULL;

    return at && *at == frame ? at : NULL;
}

/* Where pieces that never leave belong: two of them change places. */
static void exchange(struct known *known, struct frame **one, struct frame **other)
{
    struct frame *first = *one, *second = *other;

    *one = known->homes[one - known->here] = second;
    *other = known->homes[other - known->here] = first;
    known->whole[second->number] = one;
    known->whole[first->number] = other;
}

struct frame *home_exchange(struct cache *cache, const struct segment *segment, unsigned piece)
{
    struct known *known = cache->at_home;
    struct frame **mine = &segment->home[piece], *frame;

    if (!known || !known->whole || whole_at(known, *mine) != mine)
        return NULL;
    DL_FOREACH(cache->frames.free, frame)
    if (whole_at(known, frame)) {
        exchange(known, mine, whole_at(known, frame));
        return frame;
    }
    return NULL;
}

struct frame *home_elsewhere(struct cache *cache, const struct segment *segment, struct frame *bound)
{
    const struct known *known = cache->at_home;
    uint64_t stays = segment->leaves > cache->plan_position ? segment->leaves - cache->plan_position : 1;
    uint32_t length = known->turns * known->cycle->length, wanted, now, most = 0;
    unsigned left = 4 * FRAME_CANDIDATES;
    struct frame *best = NULL;

    if (known->oldest)
        return cache->frames.free;
    now = (uint32_t)((uint64_t)cache->plan_phase * known->slots / length);
    wanted = stays < length ? (uint32_t)(stays * known->slots / length) + 1 : known->slots;
    if (bound && !bound->owned && unclaimed(known, bound, now) >= wanted)
        return bound;
    for (struct frame *frame = cache->frames.free; frame && left > 0; frame = frame->next, left--) {
        uint32_t gap = unclaimed(known, frame, now);

        if (best && (most >= wanted ? gap < wanted || gap >= most : gap <= most))
            continue;
        best = frame;
        most = gap;
    }
    return best;
}

void homes_leave(struct cache *cache)
{
    struct known *left = cache->at_home;

    homes_forget(cache);
    cache->left_home = left;
}

void homes_forget(struct cache *cache)
{
    struct segment *segment;

    DL_FOREACH2(cache->segments.all, segment, all_next)
    segment->home = NULL;
    cache->at_home = cache->left_home = NULL;
}
