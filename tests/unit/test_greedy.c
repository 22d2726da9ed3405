/*
 * The greedy planner, on cycles small enough to know the answer, and on random ones: what a schedule must be
 * is checked by carrying it out, piece by piece, in the order in which it is issued.
 */
#include "cache/colour.h"
#include "cache/cycle.h"
#include "cache/cycle_run.h"
#include "model/machine.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME = 1 << 20, MOST_BUFFERS = 64, MOST_PIECES = 16, ROUNDS = 8, STEADY = 4, AGES = 4 };

/* --- Cycles -----------------------------------------------------------------------------------------------
 */

static struct cycle *cycle_start(uint32_t length, uint32_t frames, double milliseconds)
{
    struct cycle *cycle = calloc(1, sizeof *cycle);

    ck_assert_ptr_nonnull(cycle);
    cycle->frame_size = FRAME;
    cycle->capacity = (uint64_t)frames * FRAME;
    cycle->in = cycle->out = cycle->in_both = cycle->out_both = FRAME * 1e3; /* a frame a millisecond */
    cycle->length = length;
    cycle->ops = calloc(length, sizeof *cycle->ops);
    cycle->buffers = calloc(MOST_BUFFERS, sizeof *cycle->buffers);
    cycle->touches = calloc((size_t)length * MOST_BUFFERS, sizeof *cycle->touches);
    for (uint32_t i = 0; i < length; i++)
        cycle->ops[i].duration = milliseconds * 1e6;
    return cycle;
}

static uint32_t cycle_add(struct cycle *cycle, uint32_t pieces, uint32_t birth, uint32_t death)
{
    ck_assert_uint_lt(cycle->buffer_count, MOST_BUFFERS);
    cycle->buffers[cycle->buffer_count] =
        (struct cycle_buffer){.size = (uint64_t)pieces * FRAME, .birth = birth, .death = death};
    return cycle->buffer_count++;
}

/* For phases in ascending order. */
static void cycle_use(struct cycle *cycle, uint32_t phase, uint32_t buffer, uint32_t age)
{
    struct cycle_op *op = &cycle->ops[phase];

    for (uint32_t k = op->first; k < op->first + op->count; k++)
        if (cycle->touches[k].buffer == buffer && cycle->touches[k].age == age)
            return;
    if (!op->count)
        op->first = cycle->touch_count;
    ck_assert_uint_eq(op->first + op->count, cycle->touch_count);
    cycle->touches[cycle->touch_count++] = (struct cycle_touch){buffer, age};
    op->count++;
}

static uint64_t state;

static uint32_t random_below(uint32_t end)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % end;
}

static struct cycle *random_cycle(uint64_t seed)
{
    uint32_t length, statics, births[MOST_BUFFERS] = {0}, lives[MOST_BUFFERS] = {0}, largest = 0, live = 0,
                              peak = 0;
    struct cycle *cycle;

    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    length = 5 + random_below(100);
    statics = random_below(20);
    cycle = cycle_start(length, 1, 1);
    for (uint32_t i = 0; i < statics; i++)
        cycle_add(cycle, 1 + random_below(MOST_PIECES), CYCLE_NEVER, CYCLE_NEVER);
    for (uint32_t i = 1 + random_below(40), birth = 0; i && birth < length; i--) {
        uint32_t life = 1 + random_below(random_below(8) ? length / 2 + 1 : 2 * length);
        uint32_t buffer = cycle_add(cycle, 1 + random_below(MOST_PIECES), birth, birth + life);

        births[buffer] = birth;
        lives[buffer] = life;
        birth += random_below(2 * length / 40 + 2);
    }
    for (uint32_t phase = 0; phase < length; phase++) {
        uint32_t touched = 0;

        cycle->ops[phase].duration = random_below(3) ? 1e5 + random_below(2000000) : 0;
        for (uint32_t i = 0; i < cycle->buffer_count; i++) {
            bool fixed = i < statics;

            for (uint32_t age = 0; age < (fixed ? 1 : AGES); age++) {
                uint32_t position = age * length + phase;

                if (!fixed && (position < births[i] || position >= births[i] + lives[i]))
                    continue;
                live += cycle_pieces(cycle, i);
                if (fixed ? !random_below(10) : position == births[i] || !random_below(6)) {
                    cycle_use(cycle, phase, i, age);
                    touched += cycle_pieces(cycle, i);
                }
            }
        }
        largest = touched > largest ? touched : largest;
        peak = live > peak ? live : peak;
        live = 0;
    }
    live = peak * 10 / (10 + random_below(11));
    live = live > largest + 2 ? live : largest + 2;
    cycle->capacity = (uint64_t)live * FRAME;
    cycle->in = FRAME * (200.0 + random_below(20000));
    cycle->out = FRAME * (200.0 + random_below(20000));
    cycle->in_both = cycle->in / (1 + random_below(3));
    cycle->out_both = cycle->out / (1 + random_below(3));
    ck_assert_int_eq(cycle_index(cycle), 0);
    return cycle;
}

/* Time of each operation by what it moves, a frame of HBM and its link's rate by how much of it is too
 * little. */
static void like_a_machine(struct cycle *cycle, uint32_t peak, uint32_t largest)
{
    uint32_t frames = peak * 100 / (110 + random_below(60));
    double compute = 0, rate;

    for (uint32_t i = 0; i < cycle->length; i++) {
        double pieces = 0;

        for (uint32_t k = cycle->ops[i].first; k < cycle->ops[i].first + cycle->ops[i].count; k++)
            pieces += cycle_pieces(cycle, cycle->touches[k].buffer);
        cycle->ops[i].duration = 1e4 + pieces * 1e5;
        compute += cycle->ops[i].duration;
    }
    frames = frames > largest + 4 ? frames : largest + 4;
    cycle->capacity = (uint64_t)frames * FRAME;
    rate = (peak > frames ? peak - frames : 1) * (double)FRAME * 1e9 / compute;
    rate *= 1 << random_below(3);
    cycle->in = cycle->out = cycle->in_both = cycle->out_both = rate;
    ck_assert_int_eq(cycle_index(cycle), 0);
}

/* A training step of four layers or more: activations live from the way forward to the way back, then each
 * weight is updated, with two moments of its size, in the order the gradients came in or in the other. */
static struct cycle *training_cycle(uint64_t seed)
{
    uint32_t layers = 4 + (uint32_t)(seed % 7), weight[16], activation[16], gradient[16], peak = 0, live = 0;
    struct cycle *cycle = cycle_start(3 * layers, 1, 1);
    uint32_t largest = 0;
    bool reversed;

    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    reversed = random_below(2);
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t pieces = 2 + random_below(MOST_PIECES - 1);

        weight[i] = cycle_add(cycle, pieces, CYCLE_NEVER, CYCLE_NEVER);
        cycle_add(cycle, pieces, CYCLE_NEVER, CYCLE_NEVER);
        cycle_add(cycle, pieces, CYCLE_NEVER, CYCLE_NEVER);
        live += 3 * pieces;
        largest = 4 * pieces > largest ? 4 * pieces : largest;
    }
    for (uint32_t i = 0; i < layers; i++) {
        activation[i] = cycle_add(cycle, 1 + random_below(MOST_PIECES), i, 2 * layers - i);
        live += cycle_pieces(cycle, activation[i]);
    }
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t layer = layers - 1 - i, last = 2 * layers + (reversed ? i : layer);

        gradient[layer] = cycle_add(cycle, cycle_pieces(cycle, weight[layer]), layers + i, last + 1);
    }
    for (uint32_t i = 0; i < layers; i++) {
        cycle_use(cycle, i, weight[i], 0);
        cycle_use(cycle, i, activation[i], 0);
        if (i)
            cycle_use(cycle, i, activation[i - 1], 0);
    }
    peak = live;
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t layer = layers - 1 - i, touched;

        cycle_use(cycle, layers + i, weight[layer], 0);
        cycle_use(cycle, layers + i, activation[layer], 0);
        cycle_use(cycle, layers + i, gradient[layer], 0);
        live += cycle_pieces(cycle, gradient[layer]);
        peak = live > peak ? live : peak;
        live -= cycle_pieces(cycle, activation[layer]);
        touched = 2 * cycle_pieces(cycle, weight[layer]) + cycle_pieces(cycle, activation[layer]) +
                  (layer ? cycle_pieces(cycle, activation[layer - 1]) : 0);
        largest = touched > largest ? touched : largest;
    }
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t layer = reversed ? layers - 1 - i : i;

        for (uint32_t k = 0; k < 3; k++)
            cycle_use(cycle, 2 * layers + i, weight[layer] + k, 0);
        cycle_use(cycle, 2 * layers + i, gradient[layer], 0);
    }
    like_a_machine(cycle, peak, largest);
    return cycle;
}

/* All of twelve weights or more in turn, round after round: what was used last is needed last. */
static struct cycle *decoding_cycle(uint64_t seed)
{
    uint32_t layers = 12 + (uint32_t)(seed % 40), peak = 0;
    struct cycle *cycle = cycle_start(layers, 1, 1);

    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (uint32_t i = 0; i < layers; i++) {
        cycle_add(cycle, 1 + random_below(MOST_PIECES), CYCLE_NEVER, CYCLE_NEVER);
        peak += cycle_pieces(cycle, i);
        cycle_use(cycle, i, i, 0);
    }
    like_a_machine(cycle, peak, MOST_PIECES);
    return cycle;
}

/* --- Carrying a schedule out ------------------------------------------------------------------------------
 */

struct walk {
    const struct cycle *cycle;
    bool born[MOST_BUFFERS][ROUNDS], in[MOST_BUFFERS][ROUNDS][MOST_PIECES];
    int64_t resident, most, wrong, useless;
};

static bool used_at(const struct cycle *cycle, uint32_t phase, uint32_t buffer, uint32_t age)
{
    const struct cycle_op *op = &cycle->ops[phase];

    for (uint32_t k = op->first; k < op->first + op->count; k++)
        if (cycle->touches[k].buffer == buffer && cycle->touches[k].age == age)
            return true;
    return false;
}

static void walk_action(struct walk *walk, uint32_t round, const struct schedule_action *action)
{
    bool fixed = cycle_static(&walk->cycle->buffers[action->buffer]);
    uint32_t of = fixed ? 0 : round - action->age;

    if (action->kind == SCHEDULE_OUT)
        ck_assert(!used_at(walk->cycle, action->at, action->buffer, action->age));
    if (!fixed && (action->age > round || !walk->born[action->buffer][of]))
        return;
    for (uint32_t i = action->first; i < action->first + action->count; i++) {
        bool *in = &walk->in[action->buffer][of][i];

        walk->useless += *in == (action->kind == SCHEDULE_IN);
        if (*in != (action->kind == SCHEDULE_IN))
            walk->resident += *in ? -1 : 1;
        *in = action->kind == SCHEDULE_IN;
    }
}

static void walk_op(struct walk *walk, uint32_t round, uint32_t phase)
{
    const struct cycle *cycle = walk->cycle;
    const struct cycle_op *op = &cycle->ops[phase];

    for (uint32_t k = op->first; k < op->first + op->count; k++) {
        const struct cycle_touch *touch = &cycle->touches[k];
        uint32_t of = cycle_static(&cycle->buffers[touch->buffer]) ? 0 : round - touch->age;
        bool *in;

        if (touch->age > round)
            continue;
        in = walk->in[touch->buffer][of];
        for (uint32_t i = 0; i < cycle_pieces(cycle, touch->buffer); i++) {
            walk->resident += !in[i];
            walk->wrong += walk->born[touch->buffer][of] && !in[i];
            in[i] = true;
        }
        walk->born[touch->buffer][of] = true;
    }
    walk->most = walk->resident > walk->most ? walk->resident : walk->most;
}

static void walk_deaths(struct walk *walk, uint32_t round, uint32_t phase)
{
    for (uint32_t b = 0; b < walk->cycle->buffer_count; b++) {
        const struct cycle_buffer *buffer = &walk->cycle->buffers[b];
        uint32_t age = buffer->death / walk->cycle->length;

        if (buffer->death == CYCLE_NEVER || buffer->death % walk->cycle->length != phase || age > round ||
            !walk->born[b][round - age])
            continue;
        for (uint32_t i = 0; i < cycle_pieces(walk->cycle, b); i++) {
            walk->resident -= walk->in[b][round - age][i];
            walk->in[b][round - age][i] = false;
        }
        walk->born[b][round - age] = false;
    }
}

/*
 * In the order of issue: from the round on that everything is as in any other, nothing an operation touches
 * is away, no move is useless, and what is in HBM fits.
 */
static void walk_schedule(const struct cycle *cycle, const struct schedule *schedule)
{
    struct walk *walk = calloc(1, sizeof *walk);
    uint32_t next = 0;

    ck_assert_ptr_nonnull(walk);
    walk->cycle = cycle;
    for (uint32_t i = 0; i < cycle->buffer_count; i++)
        walk->born[i][0] = cycle_static(&cycle->buffers[i]);
    for (uint32_t round = 0; round < ROUNDS; round++, next = 0) {
        if (round == STEADY)
            walk->most = walk->wrong = walk->useless = 0;
        for (uint32_t phase = 0; phase < cycle->length; phase++) {
            walk_deaths(walk, round, phase);
            while (next < schedule->count && schedule->actions[next].at == phase)
                walk_action(walk, round, &schedule->actions[next++]);
            walk_op(walk, round, phase);
        }
        ck_assert_uint_eq(next, schedule->count);
    }
    ck_assert_int_eq(walk->wrong, 0);
    ck_assert_int_eq(walk->useless, 0);
    ck_assert_int_le(walk->most, cycle->capacity / FRAME);
    free(walk);
}

static struct schedule *plan(const struct cycle *cycle)
{
    struct schedule *schedule, *again;

    ck_assert_int_eq(schedule_greedy(cycle, &schedule), 0);
    ck_assert(schedule_fits(schedule, cycle));
    ck_assert_uint_eq(schedule->cycle_hash, cycle_hash(cycle));
    ck_assert_int_eq(schedule_greedy(cycle, &again), 0);
    ck_assert_uint_eq(schedule->count, again->count);
    for (uint32_t i = 0; i < again->count; i++) {
        const struct schedule_action *a = &schedule->actions[i], *b = &again->actions[i];

        ck_assert(a->kind == b->kind && a->buffer == b->buffer && a->age == b->age && a->first == b->first &&
                  a->count == b->count && a->at == b->at);
    }
    schedule_free(again);
    walk_schedule(cycle, schedule);
    return schedule;
}

static uint32_t moved(const struct schedule *schedule, enum schedule_kind kind, uint32_t buffer)
{
    uint32_t pieces = 0;

    for (uint32_t i = 0; i < schedule->count; i++)
        if (schedule->actions[i].kind == kind && schedule->actions[i].buffer == buffer)
            pieces += schedule->actions[i].count;
    return pieces;
}

/* --- Known answers ----------------------------------------------------------------------------------------
 */

START_TEST(test_all_fits)
{
    struct cycle *cycle = cycle_start(4, 6, 1);
    struct schedule *schedule;

    for (uint32_t i = 0; i < 4; i++)
        cycle_add(cycle, 1, CYCLE_NEVER, CYCLE_NEVER);
    for (uint32_t i = 0; i < 4; i++)
        cycle_use(cycle, i, i, 0);
    ck_assert_int_eq(cycle_index(cycle), 0);
    schedule = plan(cycle);
    ck_assert_uint_eq(schedule->count, 0);
    schedule_free(schedule);
    cycle_free(cycle);
}
END_TEST

/* All fits, with nothing to spare. A schedule that leaves some of HBM free takes no longer, as its copies are
 * hidden; but they are for nothing. */
START_TEST(test_all_fits_just)
{
    struct cycle *cycle = cycle_start(50, 50, 10);
    struct schedule *schedule;
    struct schedule_worth worth;

    for (uint32_t i = 0; i < 50; i++)
        cycle_add(cycle, 1, CYCLE_NEVER, CYCLE_NEVER);
    for (uint32_t i = 0; i < 50; i++)
        cycle_use(cycle, i, i, 0);
    ck_assert_int_eq(cycle_index(cycle), 0);
    ck_assert_int_eq(schedule_try(cycle, 0, &worth, &schedule), 0);
    ck_assert_uint_gt(schedule->count, 0);
    ck_assert_double_gt(worth.moved, 0);
    schedule_free(schedule);
    ck_assert_int_eq(schedule_choose(cycle, &schedule), 0);
    ck_assert_uint_eq(schedule->count, 0);
    schedule_free(schedule);
    cycle_free(cycle);
}
END_TEST

/* Two buffers are idle while a large one is there; of the one that is needed later, as much as is needed
 * leaves, right behind its last use. */
START_TEST(test_part_leaves)
{
    struct cycle *cycle = cycle_start(20, 16, 10);
    struct schedule *schedule;
    uint32_t sooner = cycle_add(cycle, 4, CYCLE_NEVER, CYCLE_NEVER);
    uint32_t later = cycle_add(cycle, 4, CYCLE_NEVER, CYCLE_NEVER);
    uint32_t large = cycle_add(cycle, 9, 10, 11);

    cycle_use(cycle, 0, sooner, 0);
    cycle_use(cycle, 0, later, 0);
    cycle_use(cycle, 10, large, 0);
    cycle_use(cycle, 14, sooner, 0);
    ck_assert_int_eq(cycle_index(cycle), 0);
    schedule = plan(cycle);
    ck_assert_uint_eq(moved(schedule, SCHEDULE_OUT, later), 1);
    ck_assert_uint_eq(moved(schedule, SCHEDULE_IN, later), 1);
    ck_assert_uint_eq(moved(schedule, SCHEDULE_OUT, sooner), 0);
    ck_assert_uint_eq(moved(schedule, SCHEDULE_OUT, large), 0);
    ck_assert_uint_eq(schedule->actions[0].at, 1);
    schedule_free(schedule);
    cycle_free(cycle);
}
END_TEST

/*
 * Where the links are the limit, the machine pauses all the time, but what moves is still what does not fit
 * and little more: what has been used leaves before the next comes, and does not wait for others to leave
 * with it, because what comes meanwhile would need frames of more.
 */
START_TEST(test_links_are_the_limit)
{
    enum { BUFFERS = 48, FRAMES = 32 };
    struct cycle *cycle = cycle_start(BUFFERS, FRAMES, 0.05);
    struct schedule *schedule;
    uint32_t in = 0, out = 0;

    cycle->in_both = cycle->out_both = cycle->in / 2;
    for (uint32_t i = 0; i < BUFFERS; i++)
        cycle_use(cycle, i, cycle_add(cycle, 1, CYCLE_NEVER, CYCLE_NEVER), 0);
    ck_assert_int_eq(cycle_index(cycle), 0);
    schedule = plan(cycle);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        in += moved(schedule, SCHEDULE_IN, i);
        out += moved(schedule, SCHEDULE_OUT, i);
    }
    ck_assert_uint_eq(in, out);
    ck_assert_uint_ge(in, BUFFERS - FRAMES);
    ck_assert_uint_le(in, BUFFERS - FRAMES + 2);
    schedule_free(schedule);
    cycle_free(cycle);
}
END_TEST

/*
 * (Report: hang.) Rounds of few operations whose buffers outlive them: more of one buffer are alive at once
 * than fit, and no link has time before the first operation ends. Comes to an end, with a schedule that fits.
 */
START_TEST(test_lives_longer_than_rounds)
{
    for (uint32_t length = 1; length <= 3; length++)
        for (uint32_t life = 1; life <= 12; life++)
            for (uint32_t frames = 3; frames <= 12; frames++) {
                struct cycle *cycle = cycle_start(length, frames, 0.001);
                struct schedule *schedule;

                cycle->in = cycle->out = cycle->out_both = FRAME * 1e4;
                cycle->in_both = FRAME * 2.7e3;
                for (uint32_t i = 0; i < length; i++) {
                    cycle_add(cycle, 1, i, i + life);
                    cycle_use(cycle, i, i, 0);
                }
                ck_assert_int_eq(cycle_index(cycle), 0);
                ck_assert_int_eq(schedule_greedy(cycle, &schedule), 0);
                ck_assert(schedule_fits(schedule, cycle));
                schedule_free(schedule);
                cycle_free(cycle);
            }
}
END_TEST

/* --- Random cycles ----------------------------------------------------------------------------------------
 */

static uint64_t number_from(const char *name, uint64_t normally)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : normally;
}

static void say(const char *what, uint64_t seed)
{
    FILE *file = fopen("test_greedy.seed", "w");

    if (!file)
        return;
    fprintf(file, "%s: to repeat: SEED=%llu SEEDS=1 CK_FORK=no tests/unit/test_greedy\n", what,
            (unsigned long long)seed);
    fclose(file);
}

/* Random in every way: an operation may need nearly all of HBM. Rounds are no longer on the whole. */
START_TEST(test_random_cycles)
{
    uint64_t first = number_from("SEED", 1), count = number_from("SEEDS", 1000), moves = 0;
    double ratios = 0;

    for (uint64_t seed = first; seed < first + count; seed++) {
        struct cycle *cycle = random_cycle(seed);
        struct cycle_result with, without;
        struct schedule *schedule;

        say("random_cycles", seed);
        schedule = plan(cycle);
        ck_assert_int_eq(cycle_run_once(cycle, schedule, &with), 0);
        ck_assert_int_eq(cycle_run_once(cycle, NULL, &without), 0);
        ratios += with.time / without.time;
        moves += schedule->count;
        schedule_free(schedule);
        cycle_free(cycle);
    }
    ck_assert_msg(count < 1000 || ratios < 0.98 * (double)count, "%g of swaps on demand",
                  ratios / (double)count);
    /* That the cycles were worth anything. */
    ck_assert(count < 1000 || moves > 10 * count);
}
END_TEST

/* With the frames it would get, and what bindings cost. */
static double time_of(const struct cycle *cycle, const struct schedule *schedule)
{
    struct cycle_result result;
    double time;

    ck_assert_int_eq(colouring_judge(cycle, schedule, &result, &time), 0);
    return time;
}

static void move(struct schedule *schedule, enum schedule_kind kind, uint32_t buffer, uint32_t first,
                 uint32_t count, uint32_t at)
{
    ck_assert_int_eq(schedule_add(schedule, &(struct schedule_action){kind, buffer, 0, first, count, at}), 0);
}

static void move_all(struct schedule *schedule, enum schedule_kind kind, uint32_t buffer, uint32_t pieces,
                     uint32_t at)
{
    for (uint32_t i = 0; i < pieces; i++)
        move(schedule, kind, buffer, i, 1, at);
}

/* However many copies are queued each way: both at once take longer. */
START_TEST(test_duplex)
{
    enum { PIECES = 300 }; /* a millisecond each, two while the other way is busy */
    struct cycle *cycle = cycle_start(4, 2 * PIECES, 1e-3);
    uint32_t one = cycle_add(cycle, PIECES, CYCLE_NEVER, CYCLE_NEVER);
    uint32_t other = cycle_add(cycle, PIECES, CYCLE_NEVER, CYCLE_NEVER);
    struct schedule schedule = {0};
    struct cycle_result result;

    cycle->in_both = cycle->out_both = cycle->in / 2;
    cycle->ops[1].duration = cycle->ops[3].duration = 1.5 * PIECES * 1e6;
    cycle_use(cycle, 0, one, 0);
    cycle_use(cycle, 2, other, 0);
    ck_assert_int_eq(cycle_index(cycle), 0);
    move_all(&schedule, SCHEDULE_OUT, one, PIECES, 1);
    move_all(&schedule, SCHEDULE_IN, other, PIECES, 1);
    move_all(&schedule, SCHEDULE_OUT, other, PIECES, 3);
    move_all(&schedule, SCHEDULE_IN, one, PIECES, 3);
    ck_assert_int_eq(cycle_run_once(cycle, &schedule, &result), 0);
    ck_assert_double_ge(result.time, 3.96 * PIECES * 1e6);
    ck_assert_double_le(result.time, 4.04 * PIECES * 1e6);
    free(schedule.actions);
    cycle_free(cycle);
}
END_TEST

/*
 * The newborn at 1 waits for what leaves there. What comes in for 3 is issued at 2, when somebody has died
 * whose frames nothing used since 0: if it begins at once it takes half of the link from what has to leave,
 * paced it takes nothing from anybody.
 */
START_TEST(test_paced)
{
    enum { PIECES = 100 };
    struct cycle *cycle = cycle_start(4, 2 * PIECES, 1e-3);
    uint32_t leaves = cycle_add(cycle, PIECES, CYCLE_NEVER, CYCLE_NEVER);
    uint32_t comes = cycle_add(cycle, PIECES, CYCLE_NEVER, CYCLE_NEVER);
    uint32_t dies = cycle_add(cycle, PIECES, 0, 2), born = cycle_add(cycle, PIECES, 1, 2);
    struct schedule schedule = {0};
    struct cycle_result freely, paced;
    struct cycle_run *run;

    cycle->in_both = cycle->out_both = cycle->in / 2;
    cycle->ops[2].duration = cycle->ops[3].duration = 1.5 * PIECES * 1e6;
    cycle_use(cycle, 0, leaves, 0);
    cycle_use(cycle, 0, dies, 0);
    cycle_use(cycle, 1, born, 0);
    cycle_use(cycle, 3, comes, 0);
    ck_assert_int_eq(cycle_index(cycle), 0);
    run = cycle_run_new(cycle);
    ck_assert_ptr_nonnull(run);
    move_all(&schedule, SCHEDULE_OUT, comes, PIECES, 0);
    move_all(&schedule, SCHEDULE_OUT, leaves, PIECES, 1);
    move_all(&schedule, SCHEDULE_IN, comes, PIECES, 2);
    move_all(&schedule, SCHEDULE_IN, leaves, PIECES, 3);
    ck_assert_int_eq(cycle_run_schedule(run, &schedule, &freely, NULL), 0);
    ck_assert_int_eq(cycle_run_pace(run, &schedule, &paced), 0);
    ck_assert(schedule.paced);
    /* What is waited for at 0 and at 1, and what is computed at 2 and 3. */
    ck_assert_double_ge(freely.time, (1 + 2 + 3) * 0.99 * PIECES * 1e6);
    ck_assert_double_le(freely.time, (1 + 2 + 3) * 1.01 * PIECES * 1e6);
    ck_assert_double_ge(paced.time, (1 + 1 + 3) * 0.99 * PIECES * 1e6);
    ck_assert_double_le(paced.time, (1 + 1 + 3) * 1.01 * PIECES * 1e6);
    cycle->in_both = cycle->out_both = cycle->in;
    ck_assert_int_eq(cycle_run_pace(run, &schedule, &paced), 0);
    ck_assert(!schedule.paced);
    free(schedule.actions);
    cycle_run_free(run);
    cycle_free(cycle);
}
END_TEST

/* Copies of a piece each fill a queue twice: the operation behind them is issued when half of them have been
 * made. As many pieces in one copy fill nothing. */
START_TEST(test_queue)
{
    enum { PIECES = 2 * MACHINE_QUEUE_DEPTH };
    struct schedule schedule = {0};
    struct cycle_result result[2];

    for (unsigned whole = 0; whole < 2; whole++) {
        struct cycle *cycle = cycle_start(2, 2 * PIECES, 1e-3);
        uint32_t moves = cycle_add(cycle, PIECES, CYCLE_NEVER, CYCLE_NEVER);

        cycle->ops[1].duration = 4.0 * PIECES * 1e6;
        cycle_use(cycle, 0, moves, 0);
        ck_assert_int_eq(cycle_index(cycle), 0);
        for (uint32_t i = 0; i < PIECES; i += whole ? PIECES : 1)
            move(&schedule, SCHEDULE_OUT, moves, i, whole ? PIECES : 1, 1);
        move(&schedule, SCHEDULE_IN, moves, 0, PIECES, 1);
        ck_assert_int_eq(cycle_run_once(cycle, &schedule, &result[whole]), 0);
        free(schedule.actions);
        schedule = (struct schedule){0};
        cycle_free(cycle);
    }
    ck_assert_double_ge(result[0].time, 4.49 * PIECES * 1e6);
    ck_assert_double_le(result[0].time, 4.51 * PIECES * 1e6);
    ck_assert_double_ge(result[1].time, 3.99 * PIECES * 1e6);
    ck_assert_double_le(result[1].time, 4.01 * PIECES * 1e6);
}
END_TEST

/* Who has no frame of its own takes the one that is wanted latest, and displaces nobody. */
START_TEST(test_elsewhere)
{
    struct cycle *cycle = cycle_start(4, 3, 1);
    struct schedule nothing = {.count = 0};
    struct colouring colouring;
    struct cycle_result result;
    struct cycle_times times;
    struct cycle_run *run;
    uint32_t guest, second, third;

    guest = cycle_add(cycle, 1, 0, 3);
    second = cycle_add(cycle, 1, 1, 2);
    third = cycle_add(cycle, 1, 2, 4);
    for (uint32_t phase = 0; phase < 4; phase++) {
        if (phase < 3)
            cycle_use(cycle, phase, guest, 0);
        if (phase == 1)
            cycle_use(cycle, phase, second, 0);
        if (phase > 1)
            cycle_use(cycle, phase, third, 0);
    }
    ck_assert_int_eq(cycle_index(cycle), 0);
    run = cycle_run_new(cycle);
    ck_assert_ptr_nonnull(run);
    ck_assert_int_eq(cycle_times_make(cycle, &nothing, &times), 0);
    ck_assert_int_eq(cycle_run_coloured(run, &nothing, NULL, &result, &times), 0);
    ck_assert_int_eq(colouring_make(cycle, &nothing, &times, 3, COLOUR_BY_TIME, &colouring), 0);
    ck_assert_int_eq(cycle_run_coloured(run, &nothing, &colouring, &result, NULL), 0);
    ck_assert_uint_eq(result.displaced, 0);
    /* One after the other they come to each of two frames; nobody to the last one. */
    colouring.colour[colouring.of_buffer[guest]] = COLOUR_NONE;
    colouring.colour[colouring.of_buffer[second]] = 1;
    colouring.colour[colouring.of_buffer[third]] = 0;
    memcpy(colouring.comes, (uint32_t[]){2, 1}, 2 * sizeof *colouring.comes);
    memcpy(colouring.comes_first, (uint32_t[]){0, 1, 2, 2}, 4 * sizeof *colouring.comes_first);
    ck_assert_int_eq(cycle_run_coloured(run, &nothing, &colouring, &result, NULL), 0);
    ck_assert_uint_eq(result.displaced, 0);
    ck_assert_uint_eq(result.bound, 0);
    colouring_free(&colouring);
    cycle_times_free(&times);
    cycle_run_free(run);
    cycle_free(cycle);
}
END_TEST

/*
 * Three of which any two fill HBM take turns: each comes back to where another is, so that homes have
 * somebody wait or be displaced all the time. Without homes each goes where room is, bound anew.
 */
START_TEST(test_freely)
{
    enum { PIECES = 64 };
    struct cycle *cycle = cycle_start(3, 2 * PIECES, 1);
    struct schedule schedule = {0};
    struct colouring colouring;
    struct cycle_result result, alike;
    struct cycle_run *run;
    double value, freely;

    cycle->in = cycle->out = cycle->in_both = cycle->out_both = FRAME * 1e4; /* bindings take part of it */
    for (uint32_t i = 0; i < 3; i++) {
        cycle_add(cycle, PIECES, CYCLE_NEVER, CYCLE_NEVER);
        cycle->ops[i].duration = PIECES * 1e5;
    }
    for (uint32_t phase = 0; phase < 3; phase++) {
        cycle_use(cycle, phase, phase, 0);
        cycle_use(cycle, phase, (phase + 1) % 3, 0);
    }
    ck_assert_int_eq(cycle_index(cycle), 0);
    for (uint32_t phase = 0; phase < 3; phase++) {
        move_all(&schedule, SCHEDULE_OUT, (phase + 2) % 3, PIECES, phase);
        move_all(&schedule, SCHEDULE_IN, (phase + 1) % 3, PIECES, phase);
    }
    run = cycle_run_new(cycle);
    ck_assert_ptr_nonnull(run);
    ck_assert_int_eq(cycle_run_schedule(run, &schedule, &alike, NULL), 0);
    ck_assert_int_eq(colouring_choose(run, cycle, &schedule, INFINITY, false, &colouring, &result, &value),
                     0);
    ck_assert(colouring_freely(&colouring));
    ck_assert_uint_ge(result.bound, 3 * PIECES);
    ck_assert_double_lt(result.time, 1.3 * alike.time);
    colouring_free(&colouring);
    ck_assert_int_eq(colouring_choose(run, cycle, &schedule, INFINITY, true, &colouring, &result, &freely),
                     0);
    ck_assert(colouring_freely(&colouring));
    ck_assert_double_eq(freely, value);
    colouring_free(&colouring);
    cycle_run_free(run);
    free(schedule.actions);
    cycle_free(cycle);
}
END_TEST

static double compute_of(const struct cycle *cycle)
{
    double compute = 0;

    for (uint32_t i = 0; i < cycle->length; i++)
        compute += cycle->ops[i].duration;
    return compute;
}

/* What is chosen is no slower than swaps on demand. */
START_TEST(test_the_better_one)
{
    uint64_t first = number_from("SEED", 1), count = number_from("SEEDS", 1000), none = 0;

    for (uint64_t seed = first; seed < first + count; seed++) {
        struct cycle *cycle = random_cycle(seed);
        struct schedule *schedule, nothing = {.count = 0};
        uint64_t hash = cycle_hash(cycle);
        double with, without;

        say("the_better_one", seed);
        ck_assert_int_eq(schedule_choose(cycle, &schedule), 0);
        ck_assert_uint_eq(cycle_hash(cycle), hash);
        ck_assert_uint_eq(schedule->cycle_hash, hash);
        with = time_of(cycle, schedule);
        without = time_of(cycle, &nothing);
        ck_assert_double_eq(with, schedule->predicted);
        ck_assert_msg(with <= 1.01 * without, "seed %llu: %.0f ns, %.0f on demand", (unsigned long long)seed,
                      with, without);
        none += !schedule->count && without > compute_of(cycle);
        if (schedule->count)
            walk_schedule(cycle, schedule);
        schedule_free(schedule);
        cycle_free(cycle);
    }
    /* Both come about. */
    ck_assert_msg(count < 1000 || (none > count / 100 && none < count / 2), "%u without actions",
                  (unsigned)none);
}
END_TEST

/* On steps like those of jobs no round takes longer than with swaps on demand. */
START_TEST(test_time_of_jobs)
{
    uint64_t first = number_from("SEED", 1), count = number_from("SEEDS", 500);
    double planned = 0, demand = 0;

    for (uint64_t seed = first; seed < first + count; seed++) {
        struct cycle *cycle = seed % 3 ? training_cycle(seed) : decoding_cycle(seed);
        struct cycle_result with, without;
        struct schedule *schedule;

        say("time_of_jobs", seed);
        schedule = plan(cycle);
        ck_assert_int_eq(cycle_run_once(cycle, schedule, &with), 0);
        ck_assert_int_eq(cycle_run_once(cycle, NULL, &without), 0);
        ck_assert_msg(with.time <= 1.01 * without.time, "seed %llu: %.0f ns, %.0f on demand",
                      (unsigned long long)seed, with.time, without.time);
        planned += with.time - with.compute;
        demand += without.time - without.compute;
        schedule_free(schedule);
        cycle_free(cycle);
    }
    ck_assert_msg(count < 500 || planned < 0.5 * demand, "waits %g of those on demand", planned / demand);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("greedy");
    TCase *all = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(all, 60);
    tcase_add_test(all, test_all_fits);
    tcase_add_test(all, test_all_fits_just);
    tcase_add_test(all, test_part_leaves);
    tcase_add_test(all, test_links_are_the_limit);
    tcase_add_test(all, test_lives_longer_than_rounds);
    tcase_add_test(all, test_random_cycles);
    tcase_add_test(all, test_duplex);
    tcase_add_test(all, test_paced);
    tcase_add_test(all, test_queue);
    tcase_add_test(all, test_elsewhere);
    tcase_add_test(all, test_freely);
    tcase_add_test(all, test_the_better_one);
    tcase_add_test(all, test_time_of_jobs);
    suite_add_tcase(suite, all);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (failed)
        fprintf(stderr, "test_greedy.seed says how to repeat the last of them\n");
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
