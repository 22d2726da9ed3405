/*
 * The pinned pool, over pinning that is counted and fails on demand, and over the kernel's own (mlock).
 */
#include "pinned/numa.h"
#include "pinned/pool.h"
#include "pinned/touch.h"
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Pins by mlock; what is pinned is in a list. */
struct pinner {
    pthread_mutex_t lock;
    struct {
        char *memory;
        uint64_t size;
    } range[512];
    unsigned count;
    uint64_t bytes, most; /* pinned now, and what may be at most */
    unsigned pins, unpins, refusals;
    unsigned fail_pin, fail_unpin; /* that many calls fail from now on */
    int error;                     /* with it */
};

static struct pinner pinner;
static struct budget budget;
static uint64_t now;

static uint64_t clock_now(void)
{
    return now;
}

static int pin(void *ctx, void *memory, uint64_t size)
{
    struct pinner *p = ctx;
    int error = 0;

    ck_assert_uint_eq((uintptr_t)memory % 4096, 0);
    ck_assert_uint_eq(size % 4096, 0);
    pthread_mutex_lock(&p->lock);
    p->pins++;
    if (p->fail_pin) {
        p->fail_pin--;
        error = p->error;
    } else if (p->bytes + size > p->most) {
        error = -ENOMEM;
    } else {
        for (unsigned i = 0; i < p->count; i++)
            ck_assert(p->range[i].memory + p->range[i].size <= (char *)memory ||
                      (char *)memory + size <= p->range[i].memory);
        ck_assert_uint_lt(p->count, 512);
        ck_assert_int_eq(mlock(memory, size), 0);
        p->range[p->count].memory = memory;
        p->range[p->count++].size = size;
        p->bytes += size;
    }
    pthread_mutex_unlock(&p->lock);
    return error;
}

static int unpin(void *ctx, void *memory)
{
    struct pinner *p = ctx;
    int error = -EINVAL;

    pthread_mutex_lock(&p->lock);
    p->unpins++;
    if (p->fail_unpin) {
        p->fail_unpin--;
        error = p->error;
    } else {
        for (unsigned i = 0; i < p->count; i++) {
            if (p->range[i].memory == memory) {
                p->bytes -= p->range[i].size;
                munlock(memory, p->range[i].size);
                p->range[i] = p->range[--p->count];
                error = 0;
                break;
            }
        }
        ck_assert_int_eq(error, 0);
    }
    pthread_mutex_unlock(&p->lock);
    return error;
}

static void refused(void *ctx, uint64_t pinned, uint64_t size)
{
    struct pinner *p = ctx;

    ck_assert_uint_gt(pinned + size, p->most);
    p->refusals++;
}

static const struct pin_ops ops = {&pinner, pin, unpin, refused};

static struct pool *make(uint64_t limit)
{
    struct pool_config config = {.ops = &ops, .budget = &budget, .clock = clock_now, .node = -1};
    struct pool *pool;

    pinner = (struct pinner){.lock = PTHREAD_MUTEX_INITIALIZER, .most = UINT64_MAX, .error = -ENOMEM};
    budget_init(&budget, limit);
    ck_assert_int_eq(pool_create(&config, &pool), 0);
    return pool;
}

/* What the account says is what is pinned, to the byte, by everybody's count. */
static void check(struct pool *pool)
{
    struct pool_usage usage;

    pool_usage(pool, &usage);
    ck_assert_uint_eq(usage.pinned, pinner.bytes);
    ck_assert_uint_eq(atomic_load(&budget.pinned), pinner.bytes);
    ck_assert_uint_eq(usage.registrations, pinner.count);
    ck_assert_uint_le(usage.asked, usage.pinned);
}

static uint64_t mapped(void)
{
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return (uint64_t)pages * 4096;
}

START_TEST(exact_and_reused)
{
    struct pool *pool = make(256 * MIB);
    size_t sizes[] = {4 * MIB + 1, 5 * MIB, 7 * MIB + 12345, 33 * MIB + 4095, 1 * MIB, 2 * MIB};
    void *memory, *again;

    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct pool_usage usage;
        uint64_t before = pinner.bytes;

        ck_assert_int_eq(pool_alloc(pool, sizes[i], &memory), 0);
        memset(memory, 1, sizes[i]);
        check(pool);
        ck_assert_uint_ge(pinner.bytes - before, sizes[i]);
        ck_assert_uint_lt(pinner.bytes - before, sizes[i] + 4096);
        ck_assert_int_eq(pool_free(pool, memory), 0);
        ck_assert_int_eq(pool_free(pool, memory), -ENOENT);
        ck_assert_int_eq(pool_alloc(pool, sizes[i], &again), 0);
        ck_assert_ptr_eq(again, memory);
        check(pool);
        pool_usage(pool, &usage);
        ck_assert_uint_eq(usage.asked, sizes[i]);
        ck_assert_uint_eq(usage.made, i + 1);
        ck_assert_int_eq(pool_free(pool, again), 0);
    }
    /* One that is a little smaller takes it too, one that would waste more than a 32nd does not. */
    ck_assert_int_eq(pool_alloc(pool, 33 * MIB, &memory), 0);
    ck_assert_uint_eq(pinner.pins, 6);
    ck_assert_int_eq(pool_free(pool, memory), 0);
    ck_assert_int_eq(pool_alloc(pool, 31 * MIB, &memory), 0);
    ck_assert_uint_eq(pinner.pins, 7);
    check(pool);
    ck_assert_int_eq(pool_free(pool, memory), 0);
    ck_assert_uint_gt(pool_trim(pool, 0, UINT64_MAX), 0);
    check(pool);
    ck_assert_uint_eq(pinner.bytes, 0);
    ck_assert_uint_eq(pinner.pins, pinner.unpins);
}
END_TEST

START_TEST(small_ones_share)
{
    struct pool *pool = make(64 * MIB);
    enum { MANY = 2000 };
    void *memory[MANY];
    size_t asked = 0;

    for (unsigned i = 0; i < MANY; i++) {
        size_t size = 1 + (i * 7919u) % 30000;

        ck_assert_int_eq(pool_alloc(pool, size, &memory[i]), 0);
        ck_assert_uint_eq((uintptr_t)memory[i] % 512, 0);
        memset(memory[i], (int)i, size);
        asked += size;
        check(pool);
    }
    ck_assert_uint_lt(pinner.pins, 24);
    ck_assert_uint_lt(pinner.bytes, 2 * asked);
    for (unsigned i = 0; i < MANY; i++) { /* nobody wrote into another's */
        size_t size = 1 + (i * 7919u) % 30000;

        for (size_t at = 0; at < size; at += 97)
            ck_assert_uint_eq(((unsigned char *)memory[i])[at], (unsigned char)i);
    }
    for (unsigned i = 0; i < MANY; i += 2)
        ck_assert_int_eq(pool_free(pool, memory[i]), 0);
    pool_trim(pool, 0, UINT64_MAX);
    check(pool);
    for (unsigned i = 1; i < MANY; i += 2) {
        ck_assert_uint_eq(*(unsigned char *)memory[i], (unsigned char)i);
        ck_assert_int_eq(pool_free(pool, memory[i]), 0);
    }
    pool_trim(pool, 0, UINT64_MAX);
    check(pool);
    ck_assert_uint_eq(pinner.bytes, 0);
    ck_assert_int_eq(pool_alloc(pool, 100, &memory[0]), 0); /* and is pinned again */
    check(pool);
    memset(memory[0], 3, 100);
    ck_assert_int_eq(pool_free(pool, memory[0]), 0);
    pool_trim(pool, 0, UINT64_MAX);
    ck_assert_uint_eq(pinner.bytes, 0);
}
END_TEST

START_TEST(the_limit_is_kept)
{
    struct pool *pool = make(16 * MIB);
    void *a, *b, *c;

    ck_assert_int_eq(pool_alloc(pool, 10 * MIB, &a), 0);
    ck_assert_int_eq(pool_alloc(pool, 7 * MIB, &b), -ENOSPC);
    check(pool);
    ck_assert_int_eq(pool_alloc(pool, 6 * MIB, &b), 0); /* to the last byte */
    ck_assert_int_eq(pool_alloc(pool, 1, &c), -ENOSPC);
    check(pool);
    ck_assert_int_eq(pool_free(pool, a), 0);
    /* What is idle makes way, and no more of it than is needed. */
    ck_assert_int_eq(pool_alloc(pool, 3 * MIB, &c), 0);
    check(pool);
    ck_assert_int_eq(pool_alloc(pool, 7 * MIB, &a), 0);
    check(pool);
    ck_assert_uint_eq(pinner.bytes, 16 * MIB);
    ck_assert_uint_eq(pinner.refusals, 0);
    ck_assert_uint_eq(atomic_load(&budget.peak), 16 * MIB);
    ck_assert_int_eq(pool_alloc(pool, SIZE_MAX, &c), -EINVAL);
    ck_assert_int_eq(pool_alloc(pool, SIZE_MAX / 2, &c), -ENOMEM);
    ck_assert_int_eq(pool_alloc(pool, 0, &c), -EINVAL);
}
END_TEST

/* Whatever fails, and when: nothing is left behind. */
START_TEST(pinning_that_fails)
{
    struct pool *pool = make(256 * MIB);
    uint64_t before;
    void *memory, *other;

    ck_assert_int_eq(pool_alloc(pool, 3 * MIB, &other), 0);
    ck_assert_int_eq(pool_alloc(pool, 3000, &memory), 0);
    ck_assert_int_eq(pool_free(pool, memory), 0);
    pool_trim(pool, 0, UINT64_MAX);
    before = mapped();
    for (unsigned i = 0; i < 50; i++) {
        pinner.fail_pin = 1;
        pinner.error = -EIO;
        ck_assert_int_eq(pool_alloc(pool, 20 * MIB, &memory), -EIO);
        check(pool);
    }
    for (unsigned i = 0; i < 50; i++) {
        pinner.fail_pin = 2; /* a whole slab, and what is asked for alone */
        ck_assert_int_eq(pool_alloc(pool, 3000, &memory), -EIO);
        check(pool);
    }
    ck_assert_uint_eq(pinner.refusals, 0);
    ck_assert_uint_le(mapped(), before + 8 * MIB);
    pinner.fail_pin = 0;
    ck_assert_int_eq(pool_alloc(pool, 3000, &memory), 0);
    check(pool);
}
END_TEST

/* The system pins less than the limit: the limit comes down, and smaller ones are tried. */
START_TEST(the_system_pins_less)
{
    struct pool *pool = make(256 * MIB);
    void *a, *b, *c;

    pinner.most = 10 * MIB;
    ck_assert_int_eq(pool_alloc(pool, 8 * MIB, &a), 0);
    ck_assert_int_eq(pool_alloc(pool, 4 * MIB, &b), -ENOMEM);
    ck_assert_uint_eq(pinner.refusals, 1);
    ck_assert_uint_eq(atomic_load(&budget.limit), 12 * MIB - 4096);
    check(pool);
    /* From now on it is the limit that says so. */
    ck_assert_int_eq(pool_alloc(pool, 4 * MIB, &b), -ENOSPC);
    ck_assert_uint_eq(pinner.refusals, 1);
    ck_assert_int_eq(pool_free(pool, a), 0);
    ck_assert_int_eq(pool_alloc(pool, 4 * MIB, &b), 0);
    check(pool);
    /* A slab of 2 MiB is refused, a page or two for what is asked are not. */
    pinner.most = pinner.bytes + 64 * 1024;
    atomic_store(&budget.limit, 256 * MIB);
    ck_assert_int_eq(pool_alloc(pool, 5000, &c), 0);
    ck_assert_uint_eq(pinner.refusals, 2);
    ck_assert_uint_lt(pinner.bytes, 4 * MIB + 64 * 1024);
    check(pool);
}
END_TEST

START_TEST(a_smaller_slab_is_tried)
{
    struct pool *pool = make(1 * MIB);
    void *memory[8];

    for (unsigned i = 0; i < 8; i++) { /* less than a slab of 2 MiB in all */
        ck_assert_int_eq(pool_alloc(pool, 100 * 1024, &memory[i]), 0);
        memset(memory[i], 1, 100 * 1024);
        check(pool);
    }
    ck_assert_uint_le(pinner.bytes, 1 * MIB);
    for (unsigned i = 0; i < 8; i++)
        ck_assert_int_eq(pool_free(pool, memory[i]), 0);
    pool_trim(pool, 0, UINT64_MAX);
    check(pool);
    ck_assert_uint_eq(pinner.bytes, 0);
}
END_TEST

START_TEST(unpinning_that_fails)
{
    struct pool *pool = make(64 * MIB);
    void *a, *b;

    ck_assert_int_eq(pool_alloc(pool, 40 * MIB, &a), 0);
    ck_assert_int_eq(pool_alloc(pool, 4000, &b), 0);
    ck_assert_int_eq(pool_free(pool, a), 0);
    ck_assert_int_eq(pool_free(pool, b), 0);
    pinner.fail_unpin = 2;
    pinner.error = -EIO;
    ck_assert_uint_eq(pool_trim(pool, 0, UINT64_MAX), 2 * MIB); /* the slab goes at the second try */
    check(pool);
    pinner.fail_unpin = 1;
    ck_assert_int_eq(pool_alloc(pool, 41 * MIB, &a), -ENOSPC); /* it is still pinned, so it counts */
    check(pool);
    ck_assert_int_eq(pool_alloc(pool, 40 * MIB, &a), 0); /* and can be used */
    check(pool);
    ck_assert_int_eq(pool_free(pool, a), 0);
    ck_assert_uint_eq(pool_trim(pool, 0, UINT64_MAX), 40 * MIB);
    check(pool);
    ck_assert_uint_eq(pinner.bytes, 0);
}
END_TEST

START_TEST(idle_ones_go_with_time)
{
    struct pool *pool = make(64 * MIB);
    void *a, *b;

    now = 1000;
    ck_assert_int_eq(pool_alloc(pool, 4 * MIB, &a), 0);
    ck_assert_int_eq(pool_alloc(pool, 8 * MIB, &b), 0);
    ck_assert_int_eq(pool_free(pool, a), 0);
    now = 2000;
    ck_assert_int_eq(pool_free(pool, b), 0);
    ck_assert_uint_eq(pool_trim(pool, 1001, UINT64_MAX), 0);
    ck_assert_uint_eq(pool_trim(pool, 1000, UINT64_MAX), 4 * MIB);
    check(pool);
    now = 3000;
    ck_assert_uint_eq(pool_trim(pool, 1000, UINT64_MAX), 8 * MIB);
    check(pool);
    now = 0;
}
END_TEST

static void *worker(void *of)
{
    struct pool *pool = of;
    unsigned seed = (unsigned)(uintptr_t)&seed;

    for (unsigned i = 0; i < 300; i++) {
        size_t size =
            rand_r(&seed) % 3 ? (size_t)rand_r(&seed) % 200000 + 1 : MIB + (size_t)rand_r(&seed) % (3 * MIB);
        unsigned char *memory;
        int error = pool_alloc(pool, size, (void **)&memory);

        if (error == -ENOSPC)
            continue;
        ck_assert_int_eq(error, 0);
        memory[0] = memory[size - 1] = (unsigned char)i;
        sched_yield();
        ck_assert_uint_eq(memory[0], (unsigned char)i);
        ck_assert_uint_eq(memory[size - 1], (unsigned char)i);
        ck_assert_int_eq(pool_free(pool, memory), 0);
        if (i % 64 == 0)
            pool_trim(pool, 0, 4 * MIB);
    }
    return NULL;
}

START_TEST(threads)
{
    struct pool *pool = make(24 * MIB);
    pthread_t thread[6];

    for (unsigned i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, worker, pool), 0);
    for (unsigned i = 0; i < 6; i++)
        pthread_join(thread[i], NULL);
    check(pool);
    ck_assert_uint_le(atomic_load(&budget.peak), 24 * MIB);
    pool_trim(pool, 0, UINT64_MAX);
    check(pool);
    ck_assert_uint_eq(pinner.bytes, 0);
}
END_TEST

/* Every page has memory, whatever the number of threads. */
START_TEST(first_touch)
{
    size_t size = 37 * MIB + 4096;
    unsigned char resident[38 * 256 + 1];
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(memory, MAP_FAILED);
    ck_assert_int_eq(touch_first(memory, size, (unsigned)_i), 0);
    ck_assert_int_eq(mincore(memory, size, resident), 0);
    for (size_t i = 0; i < size / 4096; i++)
        ck_assert(resident[i] & 1);
    munmap(memory, size);
}
END_TEST

START_TEST(near_the_device)
{
    struct pool_config config = {.ops = &ops, .budget = &budget, .clock = clock_now, .node = 0};
    unsigned pages_on[4];
    struct pool *pool;
    void *memory;

    make(64 * MIB);
    ck_assert_int_eq(pool_create(&config, &pool), 0);
    ck_assert_int_eq(pool_alloc(pool, 8 * MIB, &memory), 0);
    pool_where(pool, pages_on, 4);
    if (numa_usable()) { /* node 0 is all of a machine without NUMA */
        ck_assert(numa_has(0));
        ck_assert_uint_eq(pages_on[0], 8);
    } else {
        ck_assert_uint_eq(pages_on[0], 0);
    }
    ck_assert_uint_eq(pages_on[1] + pages_on[2] + pages_on[3], 0);
    ck_assert(!numa_has(NUMA_NODES - 1));
    ck_assert(!numa_has(-1));
    ck_assert_int_ne(numa_place(memory, 4096, NUMA_NODES), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pinned");
    TCase *tests = tcase_create("pool");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, exact_and_reused);
    tcase_add_test(tests, small_ones_share);
    tcase_add_test(tests, the_limit_is_kept);
    tcase_add_test(tests, pinning_that_fails);
    tcase_add_test(tests, the_system_pins_less);
    tcase_add_test(tests, a_smaller_slab_is_tried);
    tcase_add_test(tests, unpinning_that_fails);
    tcase_add_test(tests, idle_ones_go_with_time);
    tcase_add_test(tests, threads);
    tcase_add_loop_test(tests, first_touch, 1, 5);
    tcase_add_test(tests, near_the_device);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
