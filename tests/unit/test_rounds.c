/*
 * Jobs whose rounds are not plain: two programs that take turns, an evaluation every so many steps, gradients
 * gathered over some steps, operations that are all alike, arrays that are kept for some steps or take turns.
 * Each is found and followed, with windows (that end where the job waits, or anywhere) and without (then
 * every operation is one by itself), and computes what it should.
 *
 * A program is a chain of layers: forward, backward, update. Sizes are of whole frames; what is alive at once
 * is half again what the device has.
 */
#include "cache/cache.h"
#include "cache/history.h"
#include "cache/internal.h"
#include "cache/known.h"
#include "tests/unit/fake_cache.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 8, ENTRIES = 512, KEPT = 16, LEARNING = 6, MEASURED = 4, ASIDES = 5 };

static struct fake_device fake;
static struct cache *cache;
static uint64_t stream, value, operations, drawn;
static enum cut { WAITS, ANYWHERE, ALONE } cut; /* where windows end */
static const char *const cuts[] = {"windows to a wait", "windows to anywhere", "alone"};

struct array {
    uint64_t address, size, value;
};

/* What is issued and not yet submitted: an operation on up to three arrays, or the end of one. */
static struct entry {
    uint64_t kind;
    struct array on[3];
    uint64_t written[3]; /* 0: only read */
    unsigned count;
    uint64_t freed;
} entries[ENTRIES];
static unsigned entry_count;

static void begin(enum cut cut_at, unsigned frames)
{
    uint64_t hbm = frames * (uint64_t)FAKE_GRANULE;
    struct cache_config config = {.frame_size = FAKE_GRANULE,
                                  .hbm_limit = hbm,
                                  .host_limit = 64 * hbm,
                                  .policy = CACHE_POLICY_NEXTUSE,
                                  .prefetch = true,
                                  .strict = true,
                                  .follow = true};

    fake_init(&fake, hbm, 64 * hbm, 1);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    stream = fake_stream(&fake);
    cut = cut_at;
    operations = 0;
    drawn = 1;
    value = 1;
    entry_count = 0;
}

static struct array make(unsigned frames)
{
    struct array array = {.size = frames * (uint64_t)FAKE_GRANULE};
    struct cache_failure failure;

    ck_assert_int_eq(cache_alloc(cache, array.size, &array.address, &failure), 0);
    return array;
}

static void carry_out(const struct entry *entry)
{
    struct cache_touch touches[3];
    struct fake_op kernel = {.count = entry->count};
    struct cache_planned_op planned = {.touches = touches, .count = entry->count, .kind = entry->kind};
    struct cache_op op;

    if (entry->freed) {
        ck_assert_int_eq(cache_free(cache, entry->freed, &(struct stream_key){stream, 0}), 0);
        return;
    }
    for (unsigned k = 0; k < entry->count; k++) {
        touches[k] = (struct cache_touch){entry->on[k].address, CACHE_READ | CACHE_WRITE};
        kernel.buffers[k] = entry->on[k].address;
        kernel.bytes[k] = entry->on[k].size;
        kernel.expect[k] = entry->on[k].value;
        kernel.value[k] = entry->written[k];
    }
    operations++;
    if (cut == ALONE && cache_under_pressure(cache))
        cache_window_alone(cache, &planned);
    ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, touches, entry->count), 0);
    fake_kernel(&fake, stream, &kernel);
    cache_op_end(cache, &op, true);
    fake_run(&fake, (unsigned)fake_random(&fake) % 20);
    ck_assert_uint_eq(fake.faults, 0);
    ck_assert_uint_eq(fake.mismatches, 0);
}

/* As a job that waits. */
static void submit(void)
{
    struct cache_planned_op ops[ENTRIES];
    struct cache_touch touches[ENTRIES][3];

    for (unsigned i = 0; i < entry_count; i++) {
        const struct entry *entry = &entries[i];

        for (unsigned k = 0; k < entry->count; k++)
            touches[i][k] = (struct cache_touch){entry->on[k].address, CACHE_READ | CACHE_WRITE};
        ops[i] = (struct cache_planned_op){
            .touches = touches[i], .count = entry->count, .free_address = entry->freed, .kind = entry->kind};
    }
    if (cut != ALONE && entry_count)
        cache_window_begin(cache, ops, entry_count);
    for (unsigned i = 0; i < entry_count; i++) {
        if (cut != ALONE)
            cache_window_step(cache, i);
        carry_out(&entries[i]);
    }
    if (cut != ALONE && entry_count)
        cache_window_end(cache);
    entry_count = 0;
}

/* Once in twelve operations; of its own, so that it does not depend on what the device draws. */
static bool cuts_here(void)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (drawn >> 33) % 12 == 0;
}

static void issue(const struct entry *entry)
{
    ck_assert_uint_lt(entry_count, ENTRIES);
    entries[entry_count++] = *entry;
    if (cut == ALONE || (cut == ANYWHERE && cuts_here()))
        submit();
}

/* Reads a and b, writes to, which may be one of them. NULL: there is none. */
static void operate(uint64_t kind, const struct array *a, const struct array *b, struct array *to)
{
    const struct array *reads[] = {a, b};
    struct entry entry = {.kind = kind};

    for (unsigned i = 0; i < 2; i++)
        if (reads[i] && reads[i] != to)
            entry.on[entry.count++] = *reads[i];
    if (to) {
        entry.on[entry.count] = *to;
        entry.written[entry.count++] = to->value = ++value;
    }
    issue(&entry);
}

static void drop(struct array *array)
{
    issue(&(struct entry){.freed = array->address});
    *array = (struct array){0};
}

/* --- A program ---------------------------------------------------------------------------------------------
 */

enum { FORWARD = 1, BACKWARD, UPDATE, GATHER, EVALUATE, METRIC, READ, OTHER };

struct program {
    unsigned
        frames; /* of a weight and what belongs to it; the same for all, or with the layer's number more */
    bool alike;
    struct array weight[LAYERS], gathered[LAYERS];
};

static unsigned frames_of(const struct program *program, unsigned layer)
{
    return program->frames + (program->alike ? 0 : layer % 3);
}

static void load(struct program *program, bool gathers)
{
    for (unsigned i = 0; i < LAYERS; i++) {
        program->weight[i] = make(frames_of(program, i));
        operate(READ, NULL, NULL, &program->weight[i]);
        if (gathers) {
            program->gathered[i] = make(frames_of(program, i));
            operate(READ, NULL, NULL, &program->gathered[i]);
        }
    }
    submit();
}

/*
 * A step: activations are alive from the way forward to the way back, gradients die at once. in_place:
 * weights are updated where they are; else each gets a new array, and the old ones die. gathers: no update,
 * the gradients are added up.
 */
static void step(struct program *program, bool in_place, bool gathers)
{
    struct array activation[LAYERS], gradient, next[LAYERS];

    for (unsigned i = 0; i < LAYERS; i++) {
        activation[i] = make(frames_of(program, i));
        if (!in_place)
            next[i] = make(frames_of(program, i));
    }
    for (unsigned i = 0; i < LAYERS; i++)
        operate(FORWARD, &program->weight[i], i ? &activation[i - 1] : NULL, &activation[i]);
    for (unsigned i = LAYERS; i-- > 0;) {
        gradient = make(frames_of(program, i));
        operate(BACKWARD, &program->weight[i], &activation[i], &gradient);
        if (gathers)
            operate(GATHER, &gradient, NULL, &program->gathered[i]);
        else
            operate(UPDATE, &program->weight[i], &gradient, in_place ? &program->weight[i] : &next[i]);
        drop(&gradient);
    }
    for (unsigned i = 0; i < LAYERS; i++) {
        drop(&activation[i]);
        if (in_place)
            continue;
        drop(&program->weight[i]);
        program->weight[i] = next[i];
    }
    submit();
}

static void update_gathered(struct program *program)
{
    for (unsigned i = 0; i < LAYERS; i++)
        operate(UPDATE, &program->gathered[i], NULL, &program->weight[i]);
    submit();
}

static void evaluate(struct program *program)
{
    struct array activation[LAYERS];

    for (unsigned i = 0; i < LAYERS; i++)
        activation[i] = make(1 + i % 2);
    for (unsigned i = 0; i < LAYERS; i++)
        operate(EVALUATE, &program->weight[i], i ? &activation[i - 1] : NULL, &activation[i]);
    for (unsigned i = 0; i < LAYERS; i++)
        drop(&activation[i]);
    submit();
}

/* --- Jobs --------------------------------------------------------------------------------------------------
 */

static struct program first, second;
static struct array kept[KEPT], inputs[2];
static uint64_t steps;

static void two_in_turn(unsigned unused)
{
    (void)unused;
    step(&first, true, false);
    step(&second, false, false);
}

static void evaluation(unsigned every)
{
    for (unsigned i = 0; i < every; i++)
        step(&first, false, false);
    evaluate(&first);
}

static void accumulation(unsigned steps_each)
{
    for (unsigned i = 0; i < steps_each; i++)
        step(&first, true, true);
    update_gathered(&first);
}

/* All operations alike, but for which array it is. */
static void loop(unsigned count)
{
    for (unsigned i = 0; i < LAYERS; i++)
        operate(FORWARD, NULL, NULL, &first.weight[i]);
    for (unsigned i = 1; i < count; i++)
        operate(FORWARD, NULL, NULL, &first.weight[i]);
    submit();
}

/* The same, each with its neighbour, and all of it `times' times with another one in between. */
static void chain(unsigned times)
{
    for (unsigned k = 0; k < times; k++) {
        for (unsigned i = 0; i < LAYERS; i++)
            operate(FORWARD, &first.weight[(i + 1) % LAYERS], NULL, &first.weight[i]);
        operate(FORWARD, &first.weight[k], NULL, &first.weight[k + 3]);
    }
    submit();
}

/* What a step makes is used again `age' steps later, for the last time. */
static void delayed(unsigned age)
{
    struct array *oldest = &kept[steps % (age + 1)];

    step(&first, true, false);
    if (oldest->address) {
        operate(READ, oldest, NULL, &first.weight[0]);
        drop(oldest);
    }
    *oldest = make(1);
    operate(METRIC, &first.weight[1], NULL, oldest);
    submit();
    steps++;
}

/* What a step makes is used by the next one, and freed when that is over: nobody sees an end before the
 * second step after it was made. */
static void late(unsigned unused)
{
    struct array made = make(2);

    (void)unused;
    if (kept[1].address)
        drop(&kept[1]);
    kept[1] = kept[0];
    operate(METRIC, &first.weight[1], kept[1].address ? &kept[1] : NULL, &made);
    kept[0] = made;
    step(&first, true, false);
}

/* Metrics are read and freed all at once, every so many steps. */
static void metrics(unsigned every)
{
    for (unsigned i = 0; i < every; i++) {
        step(&first, true, false);
        kept[i] = make(1);
        operate(METRIC, &first.weight[0], NULL, &kept[i]);
        submit();
    }
    for (unsigned i = 0; i < every; i++) {
        operate(READ, &kept[i], NULL, NULL);
        drop(&kept[i]);
    }
    submit();
}

/* One of two inputs is filled while the other is used. */
static void double_buffer(unsigned unused)
{
    (void)unused;
    operate(READ, NULL, NULL, &inputs[(steps + 1) % 2]);
    operate(FORWARD, &inputs[steps % 2], NULL, &first.weight[0]);
    step(&first, true, false);
    steps++;
}

/* Two inputs of one size, which threads give to the device in one order or, now and then in the first steps,
 * the other: for some rounds three steps look like one round. */
static void shuffled(unsigned until)
{
    bool swapped = steps < until && steps % 3 == 1;
    struct array given[] = {make(2), make(2)};

    operate(READ, NULL, NULL, &given[swapped]);
    operate(READ, NULL, NULL, &given[!swapped]);
    operate(FORWARD, &given[0], NULL, &first.weight[0]);
    step(&first, true, false);
    operate(METRIC, &given[1], NULL, &first.weight[1]);
    drop(&given[0]);
    drop(&given[1]);
    submit();
    steps++;
}

static const struct job {
    const char *name;
    void (*round)(unsigned number);
    unsigned number; /* the round's */
    unsigned frames; /* of HBM */
    bool alike;      /* all layers are of one size */
} jobs[] = {
    {"two programs in turn", two_in_turn, 0, 36, false},
    {"an evaluation every 3rd step", evaluation, 3, 32, false},
    {"an evaluation every 7th step", evaluation, 7, 32, false},
    {"gradients of 4 steps", accumulation, 4, 32, false},
    {"layers of one size", evaluation, 1, 24, true},
    {"a loop over 8 alike", loop, 0, 8, true},
    {"a loop over 8 alike, and 5 again", loop, 6, 8, true},
    {"a chain of 8 alike", chain, 1, 10, true},
    {"two chains, not quite alike", chain, 2, 10, true},
    {"kept for 1 step", delayed, 1, 24, false},
    {"kept for 2 steps", delayed, 2, 24, false},
    {"kept for 5 steps", delayed, 5, 24, false},
    {"kept for 12 steps", delayed, 12, 28, false},
    {"freed a step late", late, 0, 26, false},
    {"metrics every 10 steps", metrics, 10, 24, false},
    {"two inputs in turn", double_buffer, 0, 24, true},
    {"inputs in any order at first", shuffled, 6, 26, false},
};

enum { JOBS = sizeof jobs / sizeof *jobs };

/* Followed by the end: rounds of one step, with what operations were measured to take: on the fake device
 * each lies two ticks of 1,000 ns, or more, between its events; unmeasured ones are taken to last 1,000 ns.
 */
static void check_shuffled(uint64_t operations_each)
{
    const struct cycle *cycle = cache->following ? cache->following->cycle : NULL;

    ck_assert_ptr_nonnull(cycle);
    ck_assert_uint_eq(cycle->length, operations_each);
    for (uint32_t i = 0; i < cycle->length; i++)
        ck_assert_double_ge(cycle->ops[i].duration, 2000);
}

static void run(const struct job *job, enum cut cut_at)
{
    const struct statistics *statistics;
    uint64_t planned, before;

    begin(cut_at, job->frames);
    statistics = cache_statistics(cache);
    memset(kept, 0, sizeof kept);
    steps = 0;
    first = (struct program){.frames = 2, .alike = job->alike};
    second = (struct program){.frames = 1, .alike = job->alike};
    load(&first, job->round == accumulation);
    if (job->round == two_in_turn)
        load(&second, false);
    for (unsigned i = 0; i < 2 && job->round == double_buffer; i++) {
        inputs[i] = make(3);
        operate(READ, NULL, NULL, &inputs[i]);
    }
    submit();
    for (unsigned i = 0; i < LEARNING + (job->round == delayed ? 2 * job->number : 0); i++)
        job->round(job->number);
    planned = statistics->planned_operations;
    before = operations;
    for (unsigned i = 0; i < MEASURED; i++)
        job->round(job->number);
    planned = statistics->planned_operations - planned;
    ck_assert_msg(10 * planned >= 8 * (operations - before), "%s, %s: %u of %u operations planned", job->name,
                  cuts[cut], (unsigned)planned, (unsigned)(operations - before));
    ck_assert_uint_gt(statistics->bytes_in, 0);
    ck_assert_msg(!cache->following || cache->following->undying == 0,
                  "%s, %s: %u arrays are believed never to die", job->name, cuts[cut],
                  cache->following->undying);
    if (job->round == shuffled)
        check_shuffled((operations - before) / MEASURED);
    /* Something else for once, over and over, and the round is joined again before most of the next two is
     * over: by an operation alone only behind others of the round, by a window only where it begins. */
    planned = statistics->planned_operations;
    before = operations;
    for (unsigned i = 0; i < ASIDES; i++) {
        operate(OTHER, NULL, NULL, &first.weight[LAYERS - 1]);
        if (cut != ANYWHERE) /* else in a window with the first of them */
            submit();
        job->round(job->number);
        job->round(job->number);
        if (cut == ALONE)
            before += HISTORY_GRAM;
    }
    planned = statistics->planned_operations - planned;
    ck_assert_msg(10 * planned >= 7 * (operations - before),
                  "%s, %s: %u of %u operations planned in rounds after", job->name, cuts[cut],
                  (unsigned)planned, (unsigned)(operations - before));
    fake_cache_stop(&fake, cache);
}

START_TEST(windows_to_a_wait)
{
    run(&jobs[_i], WAITS);
}
END_TEST

START_TEST(windows_to_anywhere)
{
    run(&jobs[_i], ANYWHERE);
}
END_TEST

START_TEST(alone)
{
    run(&jobs[_i], ALONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rounds");
    TCase *tests = tcase_create("jobs");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, windows_to_a_wait, 0, JOBS);
    tcase_add_loop_test(tests, windows_to_anywhere, 0, JOBS);
    tcase_add_loop_test(tests, alone, 0, JOBS);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
