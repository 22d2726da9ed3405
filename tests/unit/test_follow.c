/*
 * Rounds that repeat: they are found, followed by a schedule, and left at the first operation that differs;
 * contents are right whatever the schedule says and wherever the job turns aside.
 *
 * A random round is drawn - static buffers, buffers born and freed in it, others that live on into the next
 * round - and carried out over and over, in windows, on a device that is too small. SEEDS=N changes how many;
 * SEED=N repeats one.
 */
#include "cache/cycle.h"
#include "cache/internal.h"
#include "tests/unit/fake_cache.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

enum { STATICS = 8, BORN = 14, CARRIED = 3, OPS = 60, TOUCHES = 3, PARTS = 3 };

static struct fake_device fake;
static struct cache *cache;

struct buffer {
    uint64_t address, size, value;
};

/* What a round is: buffers by number, statics first, then born ones, then those carried into the next round.
 */
struct round {
    uint64_t sizes[STATICS + BORN + CARRIED];
    struct step {
        unsigned count, buffer[TOUCHES];
        bool write[TOUCHES], before[TOUCHES]; /* before: of a carried one, that of the round before */
    } steps[OPS];
    unsigned born_at[BORN], last[BORN];
    unsigned parts[PARTS + 1]; /* windows begin there */
};

static struct buffer statics[STATICS], born[BORN], carried[2][CARRIED];
static uint64_t value;
static int paced = -1;  /* schedules of chance are, or not; -1: as drawn */
static bool alone;      /* no windows but of one operation each */
static unsigned larger; /* frames become so many times as large, and all is; 0: they stay as they are */
static unsigned larger_seen;
static uint64_t marked; /* launches that had an event recorded right behind them */

static uint64_t draw(uint64_t below)
{
    return fake_random(&fake) % below;
}

static void draw_round(struct round *round)
{
    memset(round, 0, sizeof *round);
    for (unsigned i = 0; i < STATICS + BORN + CARRIED; i++)
        round->sizes[i] = (draw(9) + 1) * 50 * KIB * (larger ? larger : 1);
    for (unsigned i = 0; i < BORN; i++) {
        round->born_at[i] = (unsigned)draw(OPS - 8);
        round->last[i] = round->born_at[i] + 1 + (unsigned)draw(OPS - 1 - round->born_at[i]);
    }
    for (unsigned i = 0; i < OPS; i++) {
        struct step *step = &round->steps[i];

        for (unsigned b = 0; b < BORN && step->count < TOUCHES; b++)
            if (i == round->born_at[b] || i == round->last[b]) {
                step->write[step->count] = i == round->born_at[b];
                step->buffer[step->count++] = STATICS + b;
            }
        while (step->count < 2) {
            unsigned other = (unsigned)draw(STATICS + CARRIED);

            if (other >= STATICS && (i < 3 || i > OPS / 2)) /* the one before is freed half-way */
                continue;
            step->buffer[step->count] = other < STATICS ? other : other + BORN;
            step->before[step->count] = other >= STATICS;
            step->write[step->count] = draw(3) == 0;
            if (step->count == 0 || step->buffer[0] != step->buffer[1])
                step->count++;
        }
    }
    for (unsigned i = 0; i < CARRIED; i++) { /* written at the end, read in the round after */
        struct step *step = &round->steps[OPS - 1 - i];

        step->count = 2;
        step->buffer[1] = STATICS + BORN + i;
        step->write[1] = true;
        step->before[1] = false;
        if (step->buffer[0] >= STATICS + BORN)
            step->buffer[0] = 0;
        for (unsigned b = 0; b < BORN; b++)
            if (round->last[b] >= OPS - 1 - i)
                round->last[b] = OPS - 1 - CARRIED;
    }
    for (unsigned b = 0; b < BORN; b++) /* nothing is touched before its birth or after its end */
        for (unsigned i = 0; i < OPS; i++)
            for (unsigned k = 0; k < round->steps[i].count; k++)
                if (round->steps[i].buffer[k] == STATICS + b && (i < round->born_at[b] || i > round->last[b]))
                    round->steps[i].buffer[k] = (unsigned)draw(STATICS);
    for (unsigned i = 0; i <= PARTS; i++)
        round->parts[i] = i * OPS / PARTS;
}

static void allocate(struct buffer *buffer, uint64_t size)
{
    struct cache_failure failure;

    ck_assert_int_eq(cache_alloc(cache, size, &buffer->address, &failure), 0);
    buffer->size = size;
    buffer->value = 0;
}

static void release(struct buffer *buffer, uint64_t stream)
{
    ck_assert_int_eq(cache_free(cache, buffer->address, &(struct stream_key){stream, 0}), 0);
    buffer->size = 0;
}

static struct buffer *buffer_of(unsigned index, bool before, unsigned round)
{
    if (index < STATICS)
        return &statics[index];
    if (index < STATICS + BORN)
        return &born[index - STATICS];
    return &carried[(round + before) % 2][index - STATICS - BORN];
}

/* What goes through a window: a step, or a free. */
struct entry {
    const struct step *step;
    struct buffer *freed;
};

static void launch(uint64_t stream, const struct entry *entry, unsigned round)
{
    struct cache_touch touches[TOUCHES];
    struct fake_op kernel = {.count = 0};
    struct cache_op op;

    for (unsigned k = 0; k < entry->step->count; k++) {
        struct buffer *buffer = buffer_of(entry->step->buffer[k], entry->step->before[k], round);
        bool twice = !buffer->size;

        for (unsigned j = 0; j < kernel.count; j++)
            twice |= kernel.buffers[j] == buffer->address;
        if (twice)
            continue;
        touches[kernel.count] = (struct cache_touch){buffer->address, CACHE_READ | CACHE_WRITE};
        kernel.buffers[kernel.count] = buffer->address;
        kernel.bytes[kernel.count] = buffer->size;
        kernel.expect[kernel.count] = buffer->value;
        if (entry->step->write[k])
            kernel.value[kernel.count] = buffer->value = ++value;
        kernel.count++;
    }
    ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, touches, kernel.count), 0);
    fake_kernel(&fake, stream, &kernel);
    marked -= fake.called[FAKE_event_record];
    cache_op_end(cache, &op, true);
    marked += fake.called[FAKE_event_record];
}

static void submit(uint64_t stream, const struct entry *entries, unsigned count, unsigned round)
{
    struct cache_planned_op ops[OPS * 3];
    struct cache_touch touches[OPS * 3][TOUCHES];

    for (unsigned i = 0; i < count; i++) {
        ops[i] = (struct cache_planned_op){.touches = touches[i]};
        if (entries[i].freed) {
            ops[i].free_address = entries[i].freed->address;
            continue;
        }
        for (unsigned k = 0; k < entries[i].step->count; k++) {
            struct buffer *buffer = buffer_of(entries[i].step->buffer[k], entries[i].step->before[k], round);

            if (buffer->size)
                touches[i][ops[i].count++] = (struct cache_touch){buffer->address, CACHE_READ | CACHE_WRITE};
        }
    }
    if (!alone)
        cache_window_begin(cache, ops, count);
    for (unsigned i = 0; i < count; i++) {
        if (!alone)
            cache_window_step(cache, i);
        else if (!entries[i].freed)
            cache_window_alone(cache, &ops[i]);
        if (entries[i].freed)
            release(entries[i].freed, stream);
        else
            launch(stream, &entries[i], round);
        if (draw(4) == 0)
            fake_run(&fake, (unsigned)draw(30));
        ck_assert_uint_eq(fake.faults, 0);
        ck_assert_uint_eq(fake.mismatches, 0);
    }
    if (!alone)
        cache_window_end(cache);
}

/* One round; turn: the step that is another one this time, OPS: none. */
static void carry_out(const struct round *round, uint64_t stream, unsigned number, unsigned turn)
{
    static const struct step other = {.count = 2, .buffer = {1, 3}, .write = {true, false}};
    struct entry entries[OPS * 3];

    for (unsigned i = 0; i < CARRIED; i++)
        allocate(&carried[number % 2][i], round->sizes[STATICS + BORN + i]);
    for (unsigned part = 0; part < PARTS; part++) {
        unsigned count = 0;

        for (unsigned b = 0; b < BORN; b++) /* as XLA does: all at the beginning of a part */
            if (round->born_at[b] >= round->parts[part] && round->born_at[b] < round->parts[part + 1])
                allocate(&born[b], round->sizes[STATICS + b]);
        for (unsigned i = round->parts[part]; i < round->parts[part + 1]; i++)
            entries[count++] = (struct entry){.step = i == turn ? &other : &round->steps[i]};
        for (unsigned b = 0; b < BORN; b++)
            if (born[b].size && round->last[b] < round->parts[part + 1])
                entries[count++] = (struct entry){.freed = &born[b]};
        if (part == PARTS - 1 && carried[(number + 1) % 2][0].size)
            for (unsigned i = 0; i < CARRIED; i++)
                entries[count++] = (struct entry){.freed = &carried[(number + 1) % 2][i]};
        submit(stream, entries, count, number);
    }
}

static void start(uint64_t seed, bool strict, const struct cache_planner *planner)
{
    unsigned times = larger ? larger : 1;
    struct cache_config config = {.frame_size = FAKE_GRANULE,
                                  .hbm_limit = times * 3 * MIB,
                                  .host_limit = times * 32 * MIB,
                                  .reframe = larger,
                                  .policy = CACHE_POLICY_NEXTUSE,
                                  .prefetch = true,
                                  .strict = strict,
                                  .follow = true,
                                  .planner = planner};

    fake_init(&fake, times * 3 * MIB, times * 32 * MIB, seed);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    memset(statics, 0, sizeof statics);
    memset(born, 0, sizeof born);
    memset(carried, 0, sizeof carried);
    value = 1;
}

static void stop(void)
{
    fake_cache_stop(&fake, cache);
}

/* Schedules of chance: any action that names something that is there. */
static struct schedule *chance;

static void chance_ask(void *ctx, const struct cycle *cycle, uint64_t hash, double predicted, bool kept)
{
    (void)ctx;
    (void)predicted;
    if (kept)
        return;
    chance = calloc(1, sizeof *chance);
    if (!chance)
        return;
    chance->cycle_hash = hash;
    chance->paced = paced < 0 ? draw(2) : (uint64_t)paced;
    for (unsigned i = 0; i < 200; i++) {
        struct schedule_action action = {.kind = draw(2) ? SCHEDULE_IN : SCHEDULE_OUT,
                                         .buffer = (uint32_t)draw(cycle->buffer_count),
                                         .at = (uint32_t)draw(cycle->length)};
        uint32_t pieces = cycle_pieces(cycle, action.buffer);

        action.age = cycle_static(&cycle->buffers[action.buffer]) ? 0 : (uint32_t)draw(3);
        action.first = (uint32_t)draw(pieces);
        action.count = 1 + (uint32_t)draw(pieces - action.first);
        ck_assert_int_eq(schedule_add(chance, &action), 0);
    }
    schedule_sort(chance);
}

static int chance_answer(void *ctx, uint64_t hash, struct schedule **out)
{
    (void)ctx;
    (void)hash;
    *out = chance;
    chance = NULL;
    return *out ? 0 : -ENOENT;
}

/* A cache, a round, and the buffers that are in all rounds. The stream. */
static uint64_t start_rounds(uint64_t seed, bool strict, const struct cache_planner *planner,
                             struct round *round)
{
    uint64_t stream;

    start(seed, strict, planner);
    stream = fake_stream(&fake);
    draw_round(round);
    for (unsigned i = 0; i < STATICS; i++)
        allocate(&statics[i], round->sizes[i]);
    return stream;
}

/* every: the job turns aside at each step once, else at some. Of `alone' operations only those that follow
 * the other one are not planned, until eight have been as in the round. */
static void follow(uint64_t seed, bool strict, bool by_chance, bool every)
{
    const struct cache_planner planner = {NULL, chance_ask, chance_answer};
    struct statistics *statistics;
    struct round round;
    uint64_t stream, planned, unplanned = 0;
    unsigned number = 0;

    stream = start_rounds(seed, strict, by_chance ? &planner : NULL, &round);
    statistics = cache_statistics(cache);
    for (; number < (larger ? 16 : 8); number++)
        carry_out(&round, stream, number, OPS);
    ck_assert_uint_le(statistics->reframed, larger ? 1 : 0);
    larger_seen += statistics->reframed == 1;
    ck_assert_uint_ge(statistics->rounds_found, 1);
    ck_assert_uint_ge(statistics->planned_operations, 2 * OPS);
    ck_assert_uint_gt(statistics->bytes_in, 0);
    for (unsigned turn = 0; turn < OPS;
         turn += every ? 1 : 1 + (unsigned)draw(9)) { /* aside at one step, then back */
        planned = statistics->planned_operations;
        carry_out(&round, stream, number++, turn);
        unplanned += OPS - (statistics->planned_operations - planned);
        carry_out(&round, stream, number++, OPS);
    }
    /* The windows with another step were not followed, or at least that step. */
    ck_assert_uint_ge(unplanned, alone ? 1 : OPS / PARTS);
    /* The round is joined again where it begins: without a word from the history. */
    planned = statistics->planned_operations;
    marked = 0;
    carry_out(&round, stream, number++, OPS);
    carry_out(&round, stream, number++, OPS);
    planned = statistics->planned_operations - planned;
    ck_assert_uint_ge(planned, OPS);
    /* Each last use can be waited for on its own: a copy has its moment behind it, not sixteen launches on.
     */
    ck_assert_uint_ge(marked, planned);
    stop();
}

static unsigned seeds(void)
{
    const char *text = getenv("SEEDS");

    return text ? (unsigned)strtoul(text, NULL, 0) : 15;
}

static void each_seed(void (*run)(uint64_t seed))
{
    const char *text = getenv("SEED");
    uint64_t first = text ? strtoull(text, NULL, 0) : 1;
    unsigned count = text ? 1 : seeds();

    for (uint64_t seed = first; seed < first + count; seed++) {
        FILE *file = fopen("test_follow.seed", "w"); /* of the one that is under way, should it end here */

        if (file) {
            fprintf(file, "SEED=%llu CK_FORK=no tests/unit/test_follow\n", (unsigned long long)seed);
            fclose(file);
        }
        run(seed);
    }
}

static void run_greedy(uint64_t seed)
{
    follow(seed, false, false, false);
}

static void run_strict(uint64_t seed)
{
    follow(seed, true, false, false);
}

static void run_chance(uint64_t seed)
{
    follow(seed, seed % 2, true, false);
}

START_TEST(aside_at_every_operation)
{
    alone = _i;
    follow(1, false, false, true);
    follow(2, true, false, true);
}
END_TEST

START_TEST(greedy_schedules)
{
    alone = _i;
    each_seed(run_greedy);
}
END_TEST

START_TEST(strictly)
{
    alone = _i;
    each_seed(run_strict);
}
END_TEST

/* Waits that copies are given in the rounds from the eighth on, with schedules of chance that are paced or
 * not. held: the stream is about to have a host function by then. */
static uint64_t waits_given(bool held)
{
    const struct cache_planner planner = {NULL, chance_ask, chance_answer};
    uint64_t waits = 0;

    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct round round;
        uint64_t stream = start_rounds(seed, false, &planner, &round);

        for (unsigned number = 0; number < 12; number++) {
            if (number == 8 && held)
                ck_assert_int_eq(cache_stream_hold(cache, (struct stream_key){stream, 0}), 0);
            waits -= number == 8 ? fake.called[FAKE_stream_wait] : 0;
            carry_out(&round, stream, number, OPS);
        }
        waits += fake.called[FAKE_stream_wait];
        if (held)
            cache_stream_held(cache, (struct stream_key){stream, 0});
        stop();
    }
    return waits;
}

/* In a schedule that is paced copies in wait for the operation ahead of where they are issued; not for one
 * that may stand behind what another thread is still going to do. */
START_TEST(schedules_that_are_paced)
{
    uint64_t waits[2];

    alone = _i % 2;
    for (paced = 0; paced < 2; paced++)
        waits[paced] = waits_given(_i / 2);
    if (_i / 2)
        ck_assert_double_lt((double)waits[1], 1.05 * (double)waits[0]);
    else
        ck_assert_double_gt((double)waits[1], 1.1 * (double)waits[0]);
}
END_TEST

START_TEST(schedules_of_chance)
{
    alone = _i;
    each_seed(run_chance);
}
END_TEST

/* The same where frames have become larger: for all that is large enough for them, and what is not keeps its
 * own. */
START_TEST(larger_frames)
{
    alone = _i % 2;
    larger = _i / 2 ? 4 : 2;
    larger_seen = 0;
    each_seed(_i % 4 == 3 ? run_strict : run_greedy);
    each_seed(run_chance);
    ck_assert_msg(getenv("SEED") || larger_seen > seeds(), "only %u of %u", larger_seen, 2 * seeds());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("follow");
    TCase *tests = tcase_create("rounds");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, aside_at_every_operation, 0, 2);
    tcase_add_loop_test(tests, greedy_schedules, 0, 2);
    tcase_add_loop_test(tests, strictly, 0, 2);
    tcase_add_loop_test(tests, schedules_of_chance, 0, 2);
    tcase_add_loop_test(tests, schedules_that_are_paced, 0, 4);
    tcase_add_loop_test(tests, larger_frames, 0, 4);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    if (failed)
        printf("test_follow.seed has the command that repeats the seed that failed\n");
    srunner_free(runner);
    return failed != 0;
}
