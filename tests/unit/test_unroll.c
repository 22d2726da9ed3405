/*
 * Two rounds of a cycle as one (unroll.h): random cycles, in which every operation and every action is about
 * what it is about in the cycle itself, and the evaluator finds them to take as long.
 */
#include "cache/cycle_run.h"
#include "cache/unroll.h"
#include <check.h>
#include <stdlib.h>

enum { MOST = 40, BUFFERS = 12, STATIC = 3, CYCLES = 300, FRAMES = 64 };

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

static bool born_here(const struct cycle *cycle, uint32_t buffer, uint32_t position)
{
    const struct cycle_buffer *about = &cycle->buffers[buffer];

    return !cycle_static(about) && position >= about->birth && position < about->death;
}

/* Lives of up to two rounds; an operation touches each that is born there, and some of the others. */
static struct cycle *make_cycle(void)
{
    struct cycle *cycle = calloc(1, sizeof *cycle);
    uint32_t length = 4 + draw(MOST - 4);

    *cycle = (struct cycle){.frame_size = 1 << 20,
                            .capacity = (uint64_t)FRAMES << 20,
                            .in = 1e10,
                            .out = 1e10,
                            .in_both = 1e10,
                            .out_both = 1e10,
                            .length = length,
                            .buffer_count = BUFFERS};
    cycle->ops = calloc(length, sizeof *cycle->ops);
    cycle->buffers = calloc(BUFFERS, sizeof *cycle->buffers);
    cycle->touches = calloc((size_t)length * BUFFERS * 3, sizeof *cycle->touches);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        struct cycle_buffer *buffer = &cycle->buffers[i];

        buffer->size = (uint64_t)(1 + draw(3)) << 20;
        buffer->birth = i < STATIC ? CYCLE_NEVER : i * length / BUFFERS;
        buffer->death = i < STATIC ? CYCLE_NEVER : buffer->birth + 1 + draw(2 * length);
    }
    for (uint32_t phase = 0; phase < length; phase++) {
        struct cycle_op *op = &cycle->ops[phase];

        *op = (struct cycle_op){.duration = 1000.0 * draw(100), .first = cycle->touch_count};
        for (uint32_t i = 0; i < BUFFERS; i++)
            for (uint32_t age = 0; age < 3; age++) {
                bool there = i < STATIC ? age == 0 : born_here(cycle, i, age * length + phase);

                if (there && ((age == 0 && phase == cycle->buffers[i].birth) || draw(4) == 0))
                    cycle->touches[op->first + op->count++] = (struct cycle_touch){i, age};
            }
        cycle->touch_count += op->count;
    }
    ck_assert_int_eq(cycle_index(cycle), 0);
    return cycle;
}

/* What a name of round `turn' of the two is in the cycle itself. */
static struct cycle_touch named(const struct cycle *cycle, uint32_t turn, uint32_t buffer, uint32_t age)
{
    uint32_t born = unroll_born(cycle), birth = buffer >= cycle->buffer_count;

    if (birth)
        buffer -= born;
    if (cycle_static(&cycle->buffers[buffer]))
        return (struct cycle_touch){buffer, age};
    return (struct cycle_touch){buffer, 2 * age + turn - birth};
}

START_TEST(the_same_twice)
{
    unsigned longer = 0;

    for (state = 1; state <= CYCLES; state++) {
        uint64_t seed = state;
        struct cycle *cycle = make_cycle(), *both;
        struct schedule *schedule, *actions;
        struct cycle_result once, twice;

        longer += unroll_turns(cycle) == 2;
        ck_assert_int_eq(schedule_greedy(cycle, &schedule), 0);
        ck_assert_int_eq(unroll(cycle, schedule, 2, &both, &actions), 0);
        ck_assert_uint_eq(both->length, 2 * cycle->length);
        for (uint32_t at = 0; at < both->length; at++) {
            const struct cycle_op *op = &both->ops[at], *of = &cycle->ops[at % cycle->length];

            ck_assert_double_eq(op->duration, of->duration);
            ck_assert_uint_eq(op->count, of->count);
            for (uint32_t k = 0; k < op->count; k++) {
                const struct cycle_touch *touch = &both->touches[op->first + k];
                struct cycle_touch name = named(cycle, at / cycle->length, touch->buffer, touch->age);

                ck_assert_uint_eq(name.buffer, cycle->touches[of->first + k].buffer);
                ck_assert_uint_eq(name.age, cycle->touches[of->first + k].age);
            }
        }
        ck_assert_uint_eq(actions->count, 2 * schedule->count);
        ck_assert(schedule_fits(actions, both));
        for (uint32_t i = 0; i < actions->count; i++) {
            const struct schedule_action *action = &actions->actions[i];
            const struct schedule_action *of = &schedule->actions[i % schedule->count];
            uint32_t turn = i / schedule->count;
            struct cycle_touch name = named(cycle, turn, action->buffer, action->age);

            ck_assert_uint_eq(name.buffer, of->buffer);
            ck_assert_uint_eq(name.age, of->age);
            ck_assert_uint_eq(action->at, of->at + turn * cycle->length);
        }
        ck_assert_int_eq(cycle_run_once(cycle, schedule, &once), 0);
        ck_assert_int_eq(cycle_run_once(both, actions, &twice), 0);
        ck_assert_msg(twice.time <= 2.001 * once.time && twice.time >= 1.999 * once.time,
                      "cycle %llu: %g, twice %g", (unsigned long long)seed, once.time, twice.time);
        schedule_free(actions);
        schedule_free(schedule);
        cycle_free(both);
        cycle_free(cycle);
        state = seed;
    }
    ck_assert_uint_gt(longer, CYCLES / 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unroll");
    TCase *tests = tcase_create("unroll");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, the_same_twice);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
