/*
 * Which addresses allocations get: small ones lie side by side; in a round that is followed every birth has
 * one of its own, so that little is bound anew; while everything fits the lowest is reused, and nothing is.
 *
 * The round is three programs that take turns, as two models that train each other: each allocates what it
 * needs, of the same sizes, works through it and frees it all.
 */
#include "cache/internal.h"
#include "cache/segment.h"
#include "tests/unit/fake_cache.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

enum { PROGRAMS = 3, BORN = 6, WEIGHTS = 8, ROUNDS = 12 };

static struct fake_device fake;
static struct cache *cache;

struct buffer {
    uint64_t address, size, value;
};

static struct buffer weights[WEIGHTS], born[BORN];
static uint64_t value, stream;

static void start(uint64_t hbm, uint64_t seed)
{
    struct cache_config config = {.frame_size = FAKE_GRANULE,
                                  .hbm_limit = hbm,
                                  .host_limit = 64 * MIB,
                                  .policy = CACHE_POLICY_NEXTUSE,
                                  .prefetch = true,
                                  .follow = true};

    fake_init(&fake, hbm, 64 * MIB, seed);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    stream = fake_stream(&fake);
    memset(born, 0, sizeof born);
    value = 1;
}

static void allocate(struct buffer *buffer, uint64_t size)
{
    struct cache_failure failure;

    *buffer = (struct buffer){.size = size};
    ck_assert_int_eq(cache_alloc(cache, size, &buffer->address, &failure), 0);
}

static void release(struct buffer *buffer)
{
    ck_assert_int_eq(cache_free(cache, buffer->address, &(struct stream_key){stream, 0}), 0);
    buffer->size = 0;
}

/* Reads one and writes another. */
struct step {
    struct buffer *read, *written;
};

static void launch(const struct step *step, const struct cache_touch *touches)
{
    struct fake_op kernel = {.count = 2,
                             .buffers = {step->read->address, step->written->address},
                             .bytes = {step->read->size, step->written->size},
                             .expect = {step->read->value, step->written->value},
                             .value = {0, ++value}};
    struct cache_op op;

    ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, touches, 2), 0);
    fake_kernel(&fake, stream, &kernel);
    step->written->value = value;
    cache_op_end(cache, &op, true);
}

/* A program: each buffer is made from a weight and is then what that weight is changed by. */
static void run_program(unsigned program)
{
    struct step steps[2 * BORN];
    struct cache_planned_op ops[3 * BORN];
    struct cache_touch touches[2 * BORN][2];
    unsigned count = 0;

    for (unsigned i = 0; i < BORN; i++) {
        struct buffer *weight = &weights[(program * 3 + i) % WEIGHTS];

        steps[i] = (struct step){weight, &born[i]};
        steps[2 * BORN - 1 - i] = (struct step){&born[i], weight};
    }
    for (; count < 2 * BORN; count++) {
        touches[count][0] = (struct cache_touch){steps[count].read->address, CACHE_READ};
        touches[count][1] = (struct cache_touch){steps[count].written->address, CACHE_READ | CACHE_WRITE};
        ops[count] = (struct cache_planned_op){.touches = touches[count], .count = 2};
    }
    for (unsigned i = 0; i < BORN; i++)
        ops[count++] = (struct cache_planned_op){.free_address = born[i].address};
    cache_window_begin(cache, ops, count);
    for (unsigned i = 0; i < count; i++) {
        cache_window_step(cache, i);
        if (i < 2 * BORN)
            launch(&steps[i], touches[i]);
        else
            release(&born[i - 2 * BORN]);
        if (fake_random(&fake) % 4 == 0)
            fake_run(&fake, (unsigned)(fake_random(&fake) % 30));
    }
    cache_window_end(cache);
}

/* One round: the addresses of its births. */
static void carry_out(uint64_t addresses[PROGRAMS * BORN])
{
    for (unsigned program = 0; program < PROGRAMS; program++) {
        for (unsigned i = 0; i < BORN; i++) {
            allocate(&born[i], (1 + i) * FAKE_GRANULE);
            addresses[program * BORN + i] = born[i].address;
        }
        run_program(program);
    }
}

static unsigned distinct(const uint64_t *addresses, unsigned count)
{
    unsigned found = 0;

    for (unsigned i = 0; i < count; i++) {
        bool known = false;

        for (unsigned k = 0; k < i; k++)
            known |= addresses[k] == addresses[i];
        found += !known;
    }
    return found;
}

static uint64_t binding_calls(void)
{
    const struct statistics *statistics = cache_statistics(cache);

    return statistics->map_calls + statistics->unmap_calls + statistics->access_calls;
}

/* Rounds until they are followed, and their addresses and homes are settled. */
static void settle(uint64_t addresses[PROGRAMS * BORN])
{
    for (unsigned i = 0; i < WEIGHTS; i++)
        allocate(&weights[i], (1 + i) * FAKE_GRANULE);
    for (unsigned round = 0; round < ROUNDS; round++)
        carry_out(addresses);
    ck_assert_uint_ge(cache_statistics(cache)->rounds_found, 1);
}

START_TEST(every_birth_of_a_round_has_its_own)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t before[PROGRAMS * BORN], after[PROGRAMS * BORN], calls, moved;

        start(40 * FAKE_GRANULE, seed); /* of 57 in use at once */
        settle(before);
        ck_assert_uint_eq(distinct(before, PROGRAMS * BORN), PROGRAMS * BORN);
        calls = binding_calls();
        moved = cache_statistics(cache)->bytes_in;
        for (unsigned round = 0; round < 4; round++) {
            carry_out(after);
            ck_assert_int_eq(memcmp(before, after, sizeof before), 0);
        }
        moved = (cache_statistics(cache)->bytes_in - moved) / FAKE_GRANULE;
        ck_assert_uint_gt(moved, 0);
        ck_assert_uint_le(binding_calls() - calls, 2 * moved); /* of pieces without a home */
        fake_cache_stop(&fake, cache);
    }
}
END_TEST

START_TEST(fitting_jobs_reuse_addresses)
{
    uint64_t addresses[PROGRAMS * BORN];

    start(64 * FAKE_GRANULE, 1);
    for (unsigned i = 0; i < WEIGHTS; i++)
        allocate(&weights[i], (1 + i) * FAKE_GRANULE);
    for (unsigned round = 0; round < ROUNDS; round++)
        carry_out(addresses);
    ck_assert_uint_eq(distinct(addresses, PROGRAMS * BORN), BORN);
    ck_assert_uint_eq(binding_calls(), 57 + BORN + WEIGHTS); /* pieces, and one access each */
    fake_cache_stop(&fake, cache);
}
END_TEST

/* --- Lives longer than a round -----------------------------------------------------------------------------
 */

enum { KINDS = 4, OPS = 4 * KINDS, ENTRIES = 3 * OPS };

/* A round: weights made from those of the round before; those made two rounds ago go while it begins. */
static void make_anew(struct buffer *old, struct buffer *now, struct buffer *made)
{
    struct step steps[OPS];
    struct cache_planned_op ops[ENTRIES];
    struct cache_touch touches[OPS][2];
    struct buffer *frees[ENTRIES] = {0};
    unsigned count = 0, entry = 0;

    for (unsigned i = 0; i < KINDS; i++) {
        allocate(&born[i], 4 * FAKE_GRANULE);
        allocate(&made[i], 2 * FAKE_GRANULE);
        steps[count++] = (struct step){&now[i], &born[i]};
    }
    for (unsigned i = KINDS; i-- > 0;) {
        steps[count++] = (struct step){&now[i], &born[i]};
        steps[count++] = (struct step){&born[i], &made[i]};
        steps[count++] = (struct step){&now[i], &made[i]};
    }
    for (unsigned k = 0; k < OPS; k++) {
        touches[k][0] = (struct cache_touch){steps[k].read->address, CACHE_READ};
        touches[k][1] = (struct cache_touch){steps[k].written->address, CACHE_READ | CACHE_WRITE};
        ops[entry++] = (struct cache_planned_op){.touches = touches[k], .count = 2};
        if (k < KINDS)
            frees[entry] = &old[k];
        else if ((k - KINDS) % 3 == 2)
            frees[entry] = &born[KINDS - 1 - (k - KINDS) / 3];
        if (frees[entry]) {
            ops[entry] = (struct cache_planned_op){.free_address = frees[entry]->address};
            entry++;
        }
    }
    cache_window_begin(cache, ops, entry);
    for (unsigned i = 0, k = 0; i < entry; i++) {
        cache_window_step(cache, i);
        if (frees[i]) {
            release(frees[i]);
        } else {
            launch(&steps[k], touches[k]);
            k++;
        }
        fake_run(&fake, (unsigned)(fake_random(&fake) % 30));
    }
    cache_window_end(cache);
}

/*
 * Weights that are made anew in every round, and given up only when the next but one has begun: two of a kind
 * are there at once, three have addresses. All of it is bound where it was some rounds ago.
 */
START_TEST(lives_longer_than_a_round)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct buffer kinds[3][KINDS];
        uint64_t calls = 0, moved = 0;

        start(22 * FAKE_GRANULE, seed); /* of 26 in use at once */
        for (unsigned i = 0; i < KINDS; i++) {
            allocate(&kinds[0][i], 2 * FAKE_GRANULE);
            allocate(&kinds[1][i], 2 * FAKE_GRANULE);
        }
        for (unsigned round = 0; round < ROUNDS + 8; round++) {
            if (round == ROUNDS) {
                calls = binding_calls();
                moved = cache_statistics(cache)->bytes_in;
            }
            make_anew(kinds[round % 3], kinds[(round + 1) % 3], kinds[(round + 2) % 3]);
        }
        ck_assert_uint_eq(fake.mismatches, 0);
        ck_assert_uint_gt(cache_statistics(cache)->bytes_in, moved);
        ck_assert_uint_eq(binding_calls(), calls);
        fake_cache_stop(&fake, cache);
    }
}
END_TEST

/* --- Small ones --------------------------------------------------------------------------------------------
 */

enum { KEPT = 48 };

/* Two temporaries, and one that is kept: in an order in which who lies beside whom changes. */
static void make_and_keep(struct buffer *kept, uint64_t size)
{
    struct buffer small[2];
    struct step steps[3] = {{&weights[0], &small[0]}, {&small[0], &small[1]}, {&small[1], kept}};
    struct cache_planned_op ops[5];
    struct cache_touch touches[3][2];

    allocate(&small[0], size);
    allocate(kept, size);
    allocate(&small[1], size);
    for (unsigned i = 0; i < 3; i++) {
        touches[i][0] = (struct cache_touch){steps[i].read->address, CACHE_READ};
        touches[i][1] = (struct cache_touch){steps[i].written->address, CACHE_READ | CACHE_WRITE};
        ops[i] = (struct cache_planned_op){.touches = touches[i], .count = 2};
    }
    for (unsigned i = 0; i < 2; i++)
        ops[3 + i] = (struct cache_planned_op){.free_address = small[i].address};
    cache_window_begin(cache, ops, 5);
    for (unsigned i = 0; i < 5; i++) {
        cache_window_step(cache, i);
        if (i < 3)
            launch(&steps[i], touches[i]);
        else
            release(&small[i - 3]);
    }
    cache_window_end(cache);
}

/*
 * A job that keeps a little of every round, as its losses: the segments that small ones lie in become others,
 * and the round is followed all the same; what was kept is right in the end, and what it takes up is not
 * planned for others.
 */
START_TEST(small_ones_that_are_kept)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        static struct buffer kept[ROUNDS + KEPT];
        uint64_t addresses[PROGRAMS * BORN], planned = 0;
        struct buffer sum;

        start(40 * FAKE_GRANULE, seed);
        for (unsigned i = 0; i < WEIGHTS; i++)
            allocate(&weights[i], (1 + i) * FAKE_GRANULE);
        for (unsigned round = 0; round < ROUNDS + KEPT; round++) {
            if (round == ROUNDS)
                planned = cache_statistics(cache)->planned_operations;
            make_and_keep(&kept[round], 8 * KIB);
            carry_out(addresses);
        }
        ck_assert_uint_eq(cache_statistics(cache)->planned_operations - planned,
                          KEPT * (3 + PROGRAMS * 2 * BORN));
        allocate(&sum, FAKE_GRANULE);
        for (unsigned round = 0; round < ROUNDS + KEPT; round++) {
            struct step add = {&kept[round], &sum};
            struct cache_touch touches[2] = {{kept[round].address, CACHE_READ},
                                             {sum.address, CACHE_READ | CACHE_WRITE}};

            launch(&add, touches);
        }
        fake_run(&fake, UINT32_MAX);
        ck_assert_uint_eq(fake.mismatches, 0);
        fake_cache_stop(&fake, cache);
    }
}
END_TEST

/*
 * What is kept is given up some rounds later, the one or the other, and of a size of which two would share a
 * segment: they do not while memory is short, and the round is followed.
 */
START_TEST(none_share_while_memory_is_short)
{
    enum { LASTING = 4 };

    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct buffer kept[LASTING] = {0};
        uint64_t addresses[PROGRAMS * BORN], planned = 0;

        start(40 * FAKE_GRANULE, seed);
        for (unsigned i = 0; i < WEIGHTS; i++)
            allocate(&weights[i], (1 + i) * FAKE_GRANULE);
        for (unsigned round = 0; round < ROUNDS + KEPT; round++) {
            struct buffer *one = &kept[fake_random(&fake) % LASTING];

            if (one->size)
                release(one);
            if (round == ROUNDS)
                planned = cache_statistics(cache)->planned_operations;
            make_and_keep(one, 3 * FAKE_GRANULE / 2);
            carry_out(addresses);
        }
        ck_assert_uint_eq(cache_statistics(cache)->planned_operations - planned,
                          KEPT * (3 + PROGRAMS * 2 * BORN));
        fake_run(&fake, UINT32_MAX);
        ck_assert_uint_eq(fake.mismatches, 0);
        fake_cache_stop(&fake, cache);
    }
}
END_TEST

/* Another job of the same sizes comes in between: it gets addresses, and the round its own again. */
START_TEST(others_may_have_them_meanwhile)
{
    uint64_t addresses[PROGRAMS * BORN];
    struct buffer others[2 * PROGRAMS * BORN];

    start(40 * FAKE_GRANULE, 3);
    settle(addresses);
    for (unsigned i = 0; i < 2 * PROGRAMS * BORN; i++)
        allocate(&others[i], (1 + i % BORN) * FAKE_GRANULE);
    carry_out(addresses);
    for (unsigned i = 0; i < 2 * PROGRAMS * BORN; i++)
        release(&others[i]);
    for (unsigned round = 0; round < ROUNDS; round++)
        carry_out(addresses);
    ck_assert_uint_eq(distinct(addresses, PROGRAMS * BORN), PROGRAMS * BORN);
    fake_cache_stop(&fake, cache);
}
END_TEST

static bool is_frame(const struct frame *wanted)
{
    const struct segment *segment;
    const struct frame *frame;

    DL_FOREACH(cache->frames.free, frame)
    if (frame == wanted)
        return true;
    DL_FOREACH2(cache->segments.all, segment, all_next)
    for (unsigned i = 0; i < segment->pieces; i++)
        if (segment->piece[i].frame == wanted)
            return true;
    return false;
}

static int (*synchronize)(void *ctx, uint64_t event);
static unsigned meanwhile;

/* What another thread does while one waits: a round, for which homes are made. */
static int synchronize_meanwhile(void *ctx, uint64_t event)
{
    uint64_t addresses[PROGRAMS * BORN];

    fake.ops.event_synchronize = synchronize;
    carry_out(addresses);
    meanwhile++;
    return synchronize(ctx, event);
}

/* Frames are given back to the device; a round that is carried out in the midst of it has no home in them. */
START_TEST(homes_are_frames_there_are)
{
    uint64_t addresses[PROGRAMS * BORN];
    unsigned homes = 0;

    meanwhile = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const struct segment *segment;

        start(40 * FAKE_GRANULE, seed);
        settle(addresses);
        synchronize = fake.ops.event_synchronize;
        fake.ops.event_synchronize = synchronize_meanwhile;
        ck_assert_uint_ge(cache_release(cache, 30 * FAKE_GRANULE), 30 * FAKE_GRANULE);
        fake.ops.event_synchronize = synchronize;
        DL_FOREACH2(cache->segments.all, segment, all_next)
        for (unsigned i = 0; segment->home && i < segment->pieces; i++)
            ck_assert(!segment->home[i] || is_frame(segment->home[i]));
        for (unsigned round = 0; round < 3; round++)
            carry_out(addresses);
        DL_FOREACH2(cache->segments.all, segment, all_next)
        homes += segment->home != NULL;
        fake_cache_stop(&fake, cache);
    }
    ck_assert_uint_gt(meanwhile, 0);
    ck_assert_uint_gt(homes, 0);
}
END_TEST

static void touch_once(struct buffer *buffer)
{
    struct cache_touch touch = {buffer->address, CACHE_WRITE};
    struct fake_op kernel = {
        .count = 1, .buffers = {buffer->address}, .bytes = {buffer->size}, .value = {++value}};
    struct cache_op op;

    ck_assert_int_eq(cache_op_begin(cache, &op, (struct stream_key){stream, 0}, &touch, 1), 0);
    fake_kernel(&fake, stream, &kernel);
    cache_op_end(cache, &op, true);
}

/*
 * Allocations smaller than a frame lie side by side. Some live long, most for a step, all are of one size and
 * in any order: frames hold little more than is live, since the lowest hole is filled first.
 */
START_TEST(long_and_short_lives_side_by_side)
{
    enum { STEPS = 300, LONG = 10, SHORT = 70, LIVE = 96 };
    static struct buffer lasting[STEPS][LONG], passing[SHORT];
    static unsigned until[STEPS][LONG];
    struct cache_usage usage;

    for (uint64_t seed = 1; seed <= 3; seed++) {
        uint64_t most = 0;

        start(64 * MIB, seed);
        for (unsigned step = 0; step < STEPS; step++) {
            unsigned lasts = 0;

            for (unsigned i = 0; i < SHORT; i++) {
                if (lasts < LONG && fake_random(&fake) % 7 == 0) {
                    until[step][lasts] = step + 1 + (unsigned)(fake_random(&fake) % LIVE);
                    allocate(&lasting[step][lasts], 8 * KIB);
                    touch_once(&lasting[step][lasts++]);
                }
                allocate(&passing[i], 8 * KIB);
                touch_once(&passing[i]);
            }
            cache_usage(cache, &usage);
            most = usage.live > most ? usage.live : most;
            for (unsigned i = 0; i < SHORT; i++)
                release(&passing[i]);
            for (unsigned born_at = 0; born_at <= step; born_at++)
                for (unsigned i = 0; i < LONG; i++)
                    if (lasting[born_at][i].size && until[born_at][i] == step)
                        release(&lasting[born_at][i]);
            fake_run(&fake, 1000);
        }
        cache_usage(cache, &usage);
        ck_assert_uint_le(usage.frames, most + most / 10);
        memset(lasting, 0, sizeof lasting);
        fake_cache_stop(&fake, cache);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("places");
    TCase *tests = tcase_create("places");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, every_birth_of_a_round_has_its_own);
    tcase_add_test(tests, lives_longer_than_a_round);
    tcase_add_test(tests, fitting_jobs_reuse_addresses);
    tcase_add_test(tests, others_may_have_them_meanwhile);
    tcase_add_test(tests, homes_are_frames_there_are);
    tcase_add_test(tests, long_and_short_lives_side_by_side);
    tcase_add_test(tests, small_ones_that_are_kept);
    tcase_add_test(tests, none_share_while_memory_is_short);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
