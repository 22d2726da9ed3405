/*
 * The cache on a fake device: contents survive any sequence of allocations, kernels, copies and frees on
 * several streams under random schedules; the limits hold; nothing leaks, whatever call fails.
 */
#include "cache/cache.h"
#include "tests/unit/fake_cache.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

static struct fake_device fake;
static struct cache *cache;

static void start_at(uint64_t hbm, uint64_t host, bool strict, uint64_t seed)
{
    struct cache_config config = {.frame_size = FAKE_GRANULE,
                                  .hbm_limit = hbm,
                                  .host_limit = host,
                                  .policy = (enum cache_policy)(seed % 3),
                                  .prefetch = seed % 5 != 0,
                                  .ahead = seed % 7 ? 0 : 3,
                                  .follow = seed % 2 == 0,
                                  .slot_most = seed / 2 % 5 * FAKE_GRANULE, /* 0: larger than any of theirs */
                                  .strict = strict};

    fake_init(&fake, hbm, host, seed);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
}

static void stop(void)
{
    fake_cache_stop(&fake, cache);
}

struct buffer {
    uint64_t address, size, value; /* value 0: never written */
};

static int launch(uint64_t stream, struct buffer **buffers, unsigned count, const uint64_t *values)
{
    struct cache_touch touches[FAKE_BUFFERS] = {{0}};
    struct fake_op kernel = {.count = count};
    struct cache_op op;
    int error;

    for (unsigned i = 0; i < count; i++) {
        touches[i] =
            (struct cache_touch){buffers[i]->address + buffers[i]->size / 3, CACHE_READ | CACHE_WRITE};
        kernel.buffers[i] = buffers[i]->address;
        kernel.bytes[i] = buffers[i]->size;
        kernel.expect[i] = buffers[i]->value;
        kernel.value[i] = values[i];
    }
    error = cache_op_begin(cache, &op, (struct stream_key){stream, 0}, touches, count);
    if (error)
        return error;
    fake_kernel(&fake, stream, &kernel);
    for (unsigned i = 0; i < count; i++)
        if (values[i])
            buffers[i]->value = values[i];
    cache_op_end(cache, &op, true);
    return 0;
}

static void allocate(struct buffer *buffer, uint64_t size)
{
    struct cache_failure failure;

    ck_assert_int_eq(cache_alloc(cache, size, &buffer->address, &failure), 0);
    buffer->size = size;
    buffer->value = 0;
}

/* *value is that of what is at dst: of what is copied, or, where the copy failed half-way, nobody knows. */
static int copy(uint64_t stream, uint64_t dst, uint64_t src, uint64_t size, uint64_t copied, uint64_t *value)
{
    struct cache_op op;
    bool in_slot, queued;
    int error = cache_copy_begin(cache, &op, (struct stream_key){stream, 0}, dst, src, size, &in_slot);

    if (error)
        return error;
    error = fake_cache_queue(&fake, cache, &op, stream, dst, src, size, &queued);
    cache_op_end(cache, &op, queued);
    if (queued)
        *value = error ? 0 : copied;
    return error;
}

START_TEST(fits_without_moving)
{
    struct buffer a, b, *both[2] = {&a, &b};
    uint64_t stream, base, size;

    start_at(4 * MIB, 4 * MIB, false, 1);
    stream = fake_stream(&fake);
    allocate(&a, 300 * KIB);
    allocate(&b, 1 * MIB);
    ck_assert_uint_eq(fake.hbm_used, 0); /* bound at first touch */
    ck_assert_int_eq(launch(stream, both, 2, (uint64_t[]){11, 12}), 0);
    ck_assert_int_eq(launch(stream, both, 2, (uint64_t[]){13, 0}), 0);
    ck_assert(cache_find(cache, a.address + 1000, &base, &size));
    ck_assert_uint_eq(base, a.address);
    ck_assert_uint_eq(size, 300 * KIB);
    ck_assert(!cache_find(cache, a.address + 301 * KIB, &base, &size));
    ck_assert_uint_eq(cache_statistics(cache)->evictions, 0);
    ck_assert_uint_eq(cache_statistics(cache)->events_recorded, 0);
    ck_assert_uint_eq(cache_statistics(cache)->stream_waits, 0);
    stop();
}
END_TEST

START_TEST(frees_are_checked)
{
    struct buffer a;

    start_at(4 * MIB, 4 * MIB, false, 1);
    allocate(&a, 300 * KIB);
    ck_assert_int_eq(cache_free(cache, a.address + 256, NULL), -EINVAL);
    ck_assert_int_eq(cache_free(cache, 4096, NULL), -ENOENT);
    ck_assert_int_eq(cache_free(cache, a.address, NULL), 0);
    ck_assert_int_eq(cache_free(cache, a.address, NULL), -EINVAL);
    stop();
}
END_TEST

START_TEST(freed_memory_is_reused_in_place)
{
    struct buffer a, *one[1] = {&a};
    uint64_t stream, address;

    start_at(4 * MIB, 4 * MIB, false, 1);
    stream = fake_stream(&fake);
    allocate(&a, 640 * KIB);
    launch(stream, one, 1, (uint64_t[]){5});
    address = a.address;
    ck_assert_int_eq(cache_free(cache, a.address, &(struct stream_key){stream, 0}), 0);
    allocate(&a, 640 * KIB);
    ck_assert_uint_eq(a.address, address);
    launch(stream, one, 1, (uint64_t[]){6});
    ck_assert_uint_eq(cache_statistics(cache)->frames_created, 10); /* of 64 KiB */
    ck_assert_uint_eq(cache_statistics(cache)->stream_waits, 0);
    ck_assert_uint_eq(cache_statistics(cache)->unmap_calls, 0);
    stop();
}
END_TEST

START_TEST(reuse_on_another_stream_waits)
{
    struct buffer a, *one[1] = {&a};
    uint64_t first, second;

    start_at(4 * MIB, 4 * MIB, false, 1);
    first = fake_stream(&fake);
    second = fake_stream(&fake);
    allocate(&a, 640 * KIB);
    launch(first, one, 1, (uint64_t[]){5});
    cache_free(cache, a.address, &(struct stream_key){first, 0});
    allocate(&a, 640 * KIB);
    launch(second, one, 1, (uint64_t[]){6});
    ck_assert_uint_eq(cache_statistics(cache)->stream_waits, 1);
    stop();
}
END_TEST

START_TEST(too_big_for_hbm_is_refused)
{
    struct buffer a, b, *both[2] = {&a, &b};
    struct cache_failure failure;
    uint64_t stream, address;

    start_at(2 * MIB, 2 * MIB, false, 1);
    fake.no_handles = true; /* nor can it be reached over the link */
    stream = fake_stream(&fake);
    allocate(&a, 3 * MIB / 2);
    allocate(&b, 1 * MIB);
    ck_assert_int_eq(launch(stream, both, 2, (uint64_t[]){1, 2}), -ENOMEM);
    ck_assert_int_eq(launch(stream, both, 1, (uint64_t[]){1}), 0); /* the job goes on */
    ck_assert_int_eq(cache_alloc(cache, 5 * MIB, &address, &failure), -ENOMEM);
    ck_assert_uint_eq(failure.asked, 5 * MIB);
    stop();
}
END_TEST

START_TEST(both_tiers_full_is_refused)
{
    struct buffer buffers[8], *one[1];
    uint64_t stream;
    int error = 0;
    unsigned i;

    start_at(2 * MIB, 2 * MIB, false, 1);
    stream = fake_stream(&fake);
    for (i = 0; i < 8 && !error; i++) {
        allocate(&buffers[i], 640 * KIB);
        one[0] = &buffers[i];
        error = launch(stream, one, 1, (uint64_t[]){i + 1});
    }
    ck_assert_int_eq(error, -ENOMEM);
    ck_assert_uint_ge(i, 6);
    for (unsigned k = 0; k < 3; k++) /* what was freed makes room again */
        ck_assert_int_eq(cache_free(cache, buffers[k].address, &(struct stream_key){stream, 0}), 0);
    ck_assert_int_eq(launch(stream, one, 1, (uint64_t[]){99}), 0);
    stop();
}
END_TEST

START_TEST(mutations_are_noticed)
{
    enum cache_mutation mutation = _i ? CACHE_MUTATION_FLIP_SLOT_BIT : CACHE_MUTATION_SKIP_COPY_IN;
    struct cache_config config = {
        .frame_size = FAKE_GRANULE, .hbm_limit = 2 * MIB, .host_limit = 8 * MIB, .mutation = mutation};
    struct buffer buffers[5], *one[1];
    uint64_t stream;

    fake_init(&fake, 2 * MIB, 8 * MIB, 1);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    stream = fake_stream(&fake);
    for (unsigned i = 0; i < 5; i++)
        allocate(&buffers[i], 1 * MIB);
    for (unsigned i = 0; i < 10; i++) {
        one[0] = &buffers[i % 5];
        ck_assert_int_eq(launch(stream, one, 1, (uint64_t[]){i + 1}), 0);
    }
    ck_assert(fake_drain(&fake));
    ck_assert_uint_gt(fake.mismatches, 0);
    fake.mismatches = 0;
    stop();
}
END_TEST

/* Random sequences; the model is the value each buffer was given last, in the order of submission. */
static void random_run(uint64_t seed, bool strict, uint64_t fail_at, unsigned steps)
{
    enum { BUFFERS = 24, STREAMS = 3 };
    static const uint64_t sizes[] = {70 * KIB,  100 * KIB, 128 * KIB, 200 * KIB,
                                     330 * KIB, 700 * KIB, 1100 * KIB};
    struct buffer buffers[BUFFERS] = {0};
    uint64_t streams[STREAMS], host[2], value = 1, current;
    unsigned char *scratch[2];

    start_at(4 * MIB, (seed % 3 ? 16 : 5) * MIB, strict, seed); /* 5: not always enough */
    for (unsigned i = 0; i < STREAMS; i++)
        streams[i] = fake_stream(&fake);
    for (unsigned i = 0; i < 2; i++) {
        scratch[i] = calloc(1, 2 * MIB);
        host[i] = (uint64_t)(uintptr_t)scratch[i];
    }
    current = streams[0];
    fake.fail_at = fail_at;
    for (unsigned step = 0; step < steps; step++) {
        struct buffer *buffer = &buffers[fake_random(&fake) % BUFFERS];
        uint64_t choice = fake_random(&fake) % 100;

        if (choice < 8) { /* the job changes streams, and orders the new one after the old by itself */
            uint64_t next = streams[fake_random(&fake) % STREAMS], event;
            uint64_t saved = fake.fail_at;

            fake.fail_at = 0;
            fake.ops.event_create(&fake, &event);
            fake.ops.event_record(&fake, event, current);
            fake.ops.stream_wait(&fake, next, event);
            fake.ops.event_destroy(&fake, event);
            fake.fail_at = saved;
            current = next;
        } else if (choice < 30) {
            struct cache_failure failure;

            if (buffer->size) {
                ck_assert_int_eq(cache_free(cache, buffer->address, &(struct stream_key){current, 0}), 0);
                buffer->size = 0;
            } else {
                uint64_t size = sizes[fake_random(&fake) % (sizeof sizes / sizeof sizes[0])];

                if (cache_alloc(cache, size, &buffer->address, &failure) == 0) {
                    buffer->size = size;
                    buffer->value = 0;
                }
            }
        } else if (choice < 75) {
            struct buffer *set[3];
            uint64_t values[3];
            unsigned count = 0;

            for (unsigned i = 0; i < 3; i++) {
                struct buffer *other = &buffers[fake_random(&fake) % BUFFERS];
                bool twice = !other->size;

                for (unsigned k = 0; k < count; k++)
                    twice |= set[k] == other;
                if (twice)
                    continue;
                values[count] = fake_random(&fake) % 2 ? ++value : 0;
                set[count++] = other;
            }
            (void)launch(current, set, count, values);
        } else if (choice < 85 && buffer->size) { /* host to device: all places, as kernels may look there */
            uint64_t *ends = (uint64_t *)(void *)scratch[0];
            uint64_t new_value = ++value;

            ck_assert(fake_drain(&fake)); /* the source is ours to change */
            for (uint64_t i = 0; i < buffer->size / 8; i++)
                ends[i] = fake_value(new_value, 8 * i);
            (void)copy(current, buffer->address, host[0], buffer->size, new_value, &buffer->value);
        } else if (choice < 92 && buffer->size && buffer->value) {
            uint64_t found[2], ignored;

            memset(scratch[1], 0, buffer->size);
            if (copy(current, host[1], buffer->address, buffer->size, 0, &ignored) == 0) {
                ck_assert(fake_drain(&fake));
                memcpy(&found[0], scratch[1], 8);
                memcpy(&found[1], scratch[1] + buffer->size - 8, 8);
                ck_assert_uint_eq(found[0], buffer->value);
                ck_assert_uint_eq(found[1], fake_value(buffer->value, buffer->size - 8));
            }
        } else if (choice < 97 && buffer->size && buffer->value) {
            struct buffer *other = &buffers[fake_random(&fake) % BUFFERS];

            if (other != buffer && other->size == buffer->size)
                (void)copy(current, other->address, buffer->address, buffer->size, buffer->value,
                           &other->value);
        } else if (choice == 98) {
            (void)cache_release(cache, 512 * KIB);
        } else {
            fake_run(&fake, (unsigned)(fake_random(&fake) % 20));
        }
        ck_assert_uint_eq(fake.faults, 0);
        ck_assert_uint_eq(fake.mismatches, 0);
    }
    fake.fail_at = 0;
    ck_assert(fake_drain(&fake));
    free(scratch[0]);
    free(scratch[1]);
    stop();
}

/*
 * The same through windows: a round of kernels and frees is drawn first, then carried out as one window, as
 * the hooks do. Rounds repeat with small changes, so that predictions are sometimes right and sometimes
 * wrong.
 */
struct step {
    unsigned buffer[3], count;
    bool write[3], frees;
};

static void window_run(uint64_t seed, bool strict, uint64_t fail_at)
{
    enum { BUFFERS = 20, STEPS = 40, ROUNDS = 8 };
    struct buffer buffers[BUFFERS] = {0};
    struct step steps[STEPS];
    uint64_t stream, value = 1;

    start_at(4 * MIB, 32 * MIB, strict, seed);
    stream = fake_stream(&fake);
    for (unsigned i = 0; i < STEPS; i++)
        steps[i].count = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct cache_planned_op ops[STEPS];
        struct cache_touch touches[STEPS][3];
        bool dead[BUFFERS] = {false};
        fake.fail_at = 0;
        for (unsigned i = 0; i < BUFFERS; i++)
            if (!buffers[i].size)
                allocate(&buffers[i], (fake_random(&fake) % 10 + 1) * 60 * KIB);
        fake.fail_at = round ? fail_at : 0;
        for (unsigned i = 0; i < STEPS; i++) {
            struct step *step = &steps[i];

            if (round == 0 || fake_random(&fake) % 12 == 0) {
                step->count = (unsigned)(fake_random(&fake) % 3) + 1;
                step->frees = fake_random(&fake) % 6 == 0;
                for (unsigned k = 0; k < step->count; k++) {
                    step->buffer[k] = (unsigned)(fake_random(&fake) % BUFFERS);
                    step->write[k] = fake_random(&fake) % 2;
                }
            }
            ops[i] = (struct cache_planned_op){.touches = touches[i]};
            if (step->frees) {
                if (!dead[step->buffer[0]])
                    ops[i].free_address = buffers[step->buffer[0]].address;
                dead[step->buffer[0]] = true;
                continue;
            }
            for (unsigned k = 0; k < step->count; k++)
                if (!dead[step->buffer[k]])
                    touches[i][ops[i].count++] = (struct cache_touch){
                        buffers[step->buffer[k]].address, CACHE_READ | (step->write[k] ? CACHE_WRITE : 0u)};
        }
        cache_window_begin(cache, ops, STEPS);
        for (unsigned i = 0; i < STEPS; i++) {
            struct buffer *set[3];
            uint64_t values[3];
            unsigned count = 0;

            cache_window_step(cache, i);
            if (ops[i].free_address) {
                struct buffer *freed = &buffers[steps[i].buffer[0]];

                ck_assert_int_eq(cache_free(cache, freed->address, &(struct stream_key){stream, 0}), 0);
                freed->size = 0;
                continue;
            }
            for (unsigned k = 0; k < ops[i].count; k++)
                for (unsigned b = 0; b < BUFFERS; b++) {
                    bool twice = !buffers[b].size || buffers[b].address != touches[i][k].address;

                    for (unsigned j = 0; j < count; j++)
                        twice |= set[j] == &buffers[b];
                    if (twice)
                        continue;
                    values[count] = touches[i][k].access & CACHE_WRITE ? ++value : 0;
                    set[count++] = &buffers[b];
                }
            (void)launch(stream, set, count, values);
            if (fake_random(&fake) % 4 == 0)
                fake_run(&fake, (unsigned)(fake_random(&fake) % 30));
            ck_assert_uint_eq(fake.faults, 0);
            ck_assert_uint_eq(fake.mismatches, 0);
        }
        cache_window_end(cache);
    }
    fake.fail_at = 0;
    stop();
}

/* What is allocated beside memory that a window frees, while the window is carried out, keeps its contents.
 */
START_TEST(allocation_beside_a_window)
{
    enum { ITEMS = 64 };
    struct buffer items[ITEMS] = {0}, late, *one[1];
    struct cache_planned_op ops[2 * ITEMS];
    struct cache_touch touches[ITEMS];
    uint64_t stream, other;
    unsigned count = 0;

    start_at(16 * MIB, 16 * MIB, false, 1);
    stream = fake_stream(&fake);
    other = fake_stream(&fake);
    for (unsigned i = 0; i < ITEMS; i++)
        allocate(&items[i], 20 * KIB); /* several share a segment */
    ck_assert_int_eq(cache_free(cache, items[ITEMS - 1].address, NULL), 0);
    for (unsigned i = 0; i < ITEMS - 1; i++) {
        touches[i] = (struct cache_touch){items[i].address, CACHE_READ | CACHE_WRITE};
        ops[count++] = (struct cache_planned_op){.touches = &touches[i], .count = 1};
    }
    for (unsigned i = 0; i < ITEMS - 1; i++)
        ops[count++] = (struct cache_planned_op){.free_address = items[i].address};
    cache_window_begin(cache, ops, count);
    allocate(&late, 20 * KIB);
    ck_assert_uint_eq(late.address, items[ITEMS - 1].address);
    one[0] = &late;
    ck_assert_int_eq(launch(other, one, 1, (uint64_t[]){77}), 0);
    for (unsigned i = 0; i < count; i++) {
        cache_window_step(cache, i);
        if (ops[i].free_address) {
            ck_assert_int_eq(cache_free(cache, ops[i].free_address, &(struct stream_key){stream, 0}), 0);
            continue;
        }
        one[0] = &items[i];
        ck_assert_int_eq(launch(stream, one, 1, (uint64_t[]){i + 1}), 0);
    }
    cache_window_end(cache);
    (void)cache_release(cache, 16 * MIB); /* out, or dropped */
    one[0] = &late;
    ck_assert_int_eq(launch(other, one, 1, (uint64_t[]){0}), 0);
    stop();
}
END_TEST

static uint64_t first_seed(void)
{
    const char *text = getenv("SEED");

    return text ? strtoull(text, NULL, 10) : 1;
}

static uint64_t seeds(uint64_t normally)
{
    const char *text = getenv("SEEDS");

    return text ? strtoull(text, NULL, 10) : normally;
}

static void say(const char *what, uint64_t seed)
{
    FILE *file = fopen("test_cache.seed", "w");

    if (!file)
        return;
    fprintf(file, "%s: to repeat: SEED=%llu SEEDS=1 CK_FORK=no tests/unit/test_cache\n", what,
            (unsigned long long)seed);
    fclose(file);
}

START_TEST(random_sequences)
{
    for (uint64_t seed = first_seed(), end = seed + seeds(300); seed < end; seed++) {
        say("random_sequences", seed);
        random_run(seed, seed % 2, 0, 400);
    }
}
END_TEST

START_TEST(random_failures)
{
    for (uint64_t seed = first_seed(), end = seed + seeds(600); seed < end; seed++) {
        say("random_failures", seed);
        random_run(seed, seed % 2, 10 + seed * 7 % 1500, 250);
    }
}
END_TEST

/* Threads with streams and buffers of their own, on memory that only holds a part of them. */
static void *thread_body(void *argument)
{
    enum { BUFFERS = 6 };
    uint64_t seed = (uint64_t)(uintptr_t)argument, value = seed << 32, stream = fake_stream(&fake);
    struct buffer buffers[BUFFERS] = {0};
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (unsigned step = 0; step < 600; step++) {
        struct buffer *buffer, *one[1];

        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        buffer = &buffers[(random >> 33) % BUFFERS];
        one[0] = buffer;
        if (!buffer->size) {
            allocate(buffer, ((random >> 40) % 9 + 1) * 70 * KIB);
        } else if ((random >> 50) % 5 == 0) {
            ck_assert_int_eq(cache_free(cache, buffer->address, &(struct stream_key){stream, 0}), 0);
            buffer->size = 0;
        } else {
            ck_assert_int_eq(launch(stream, one, 1, (uint64_t[]){(random >> 55) % 2 ? ++value : 0}), 0);
        }
    }
    return NULL;
}

START_TEST(threads_share_a_cache)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];

    start_at(4 * MIB, 64 * MIB, _i % 2, 1 + (uint64_t)_i);
    for (uint64_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, thread_body, (void *)(uintptr_t)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_gt(cache_statistics(cache)->evictions, 0);
    stop();
}
END_TEST

START_TEST(random_windows)
{
    for (uint64_t seed = first_seed(), end = seed + seeds(300); seed < end; seed++) {
        say("random_windows", seed);
        window_run(seed, seed % 4 == 0, seed % 3 ? 0 : 40 + seed * 11 % 2000);
    }
}
END_TEST

/*
 * A loop over more than fits, the same every round, in windows: what MIN must move is moved, and little more.
 * Temporaries that are freed in the window they were written in are never copied out.
 */
START_TEST(windows_move_what_they_must)
{
    enum { KEPT = 6, ROUNDS = 6 };
    struct buffer kept[KEPT] = {0}, temporary, *set[2];
    uint64_t stream, before_out = 0, before_in = 0;

    start_at(4 * MIB, 32 * MIB, false, 1);
    stream = fake_stream(&fake);
    for (unsigned i = 0; i < KEPT; i++)
        allocate(&kept[i], 768 * KIB); /* 4.5 MiB, and a temporary of 768 KiB: 1.25 MiB too much */
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct cache_planned_op ops[KEPT + 1];
        struct cache_touch touches[KEPT][2];

        if (round == 2) {
            before_out = cache_statistics(cache)->bytes_out;
            before_in = cache_statistics(cache)->bytes_in;
        }
        allocate(&temporary, 768 * KIB);
        for (unsigned i = 0; i < KEPT; i++) {
            touches[i][0] = (struct cache_touch){kept[i].address, CACHE_READ | CACHE_WRITE};
            touches[i][1] = (struct cache_touch){temporary.address, CACHE_READ | CACHE_WRITE};
            ops[i] = (struct cache_planned_op){.touches = touches[i], .count = 2};
        }
        ops[KEPT] = (struct cache_planned_op){.free_address = temporary.address};
        cache_window_begin(cache, ops, KEPT + 1);
        for (unsigned i = 0; i < KEPT; i++) {
            cache_window_step(cache, i);
            set[0] = &kept[i];
            set[1] = &temporary;
            ck_assert_int_eq(
                launch(stream, set, 2, (uint64_t[]){round * KEPT + i + 1, round * KEPT + i + 100}), 0);
        }
        cache_window_step(cache, KEPT);
        ck_assert_int_eq(cache_free(cache, temporary.address, &(struct stream_key){stream, 0}), 0);
        cache_window_end(cache);
    }
    /* At least two of the six cannot stay from one round to the next (MIN); one more for the planner's slack.
     */
    ck_assert_uint_le(cache_statistics(cache)->bytes_in - before_in, (ROUNDS - 2) * 3 * 768 * KIB);
    ck_assert_uint_le(cache_statistics(cache)->bytes_out - before_out, (ROUNDS - 2) * 3 * 768 * KIB);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache");
    TCase *basic = tcase_create("basic"), *random = tcase_create("random");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(basic, fits_without_moving);
    tcase_add_test(basic, frees_are_checked);
    tcase_add_test(basic, freed_memory_is_reused_in_place);
    tcase_add_test(basic, reuse_on_another_stream_waits);
    tcase_add_test(basic, too_big_for_hbm_is_refused);
    tcase_add_test(basic, both_tiers_full_is_refused);
    tcase_add_loop_test(basic, mutations_are_noticed, 0, 2);
    tcase_add_loop_test(random, threads_share_a_cache, 0, 6);
    tcase_add_test(basic, windows_move_what_they_must);
    tcase_add_test(basic, allocation_beside_a_window);
    tcase_add_test(random, random_windows);
    tcase_add_test(random, random_sequences);
    tcase_add_test(random, random_failures);
    tcase_set_timeout(random, 300);
    suite_add_tcase(suite, basic);
    suite_add_tcase(suite, random);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
