/*
 * What pinned memory costs, on this machine's kernel; mlock stands for the driver's registration. Figures are
 * ratios of two measurements of one run: a reused allocation to the first, several threads' first touch to
 * one's, bytes pinned to bytes asked for. Ends with 1 where one that has a bound is outside.
 *
 *   bench_pinned           the measurements
 *   bench_pinned --limit   what the process may pin by default: bytes available, bytes its control group
 * leaves
 */
#include "pinned/pool.h"
#include "pinned/system.h"
#include "pinned/touch.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static uint64_t locked; /* bytes, counted here */
static struct {
    void *memory;
    uint64_t size;
} range[256];
static unsigned ranges;

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int pin(void *ctx, void *memory, uint64_t size)
{
    (void)ctx;
    if (ranges == sizeof range / sizeof *range || mlock(memory, size))
        return -12;
    range[ranges].memory = memory;
    range[ranges++].size = size;
    locked += size;
    return 0;
}

static int unpin(void *ctx, void *memory)
{
    (void)ctx;
    for (unsigned i = 0; i < ranges; i++) {
        if (range[i].memory != memory)
            continue;
        munlock(memory, range[i].size);
        locked -= range[i].size;
        range[i] = range[--ranges];
        return 0;
    }
    return -22;
}

static const struct pin_ops ops = {.pin = pin, .unpin = unpin};
static struct budget budget;
static struct pool *pool;
static unsigned wrong;

static void bound(const char *what, double value, double most)
{
    if (value <= most)
        return;
    printf("  %s: %.4f is more than %.4f\n", what, value, most);
    wrong++;
}

static void check_account(void)
{
    struct pool_usage usage;

    pool_usage(pool, &usage);
    if (usage.pinned != locked || atomic_load(&budget.pinned) != locked) {
        printf("  %" PRIu64 " bytes are pinned, the account has %" PRIu64 "\n", locked, usage.pinned);
        wrong++;
    }
}

static void *take(size_t size)
{
    void *memory = NULL;

    if (pool_alloc(pool, size, &memory)) {
        printf("  %zu MiB cannot be pinned here (ulimit -l?)\n", size / MIB);
        exit(1);
    }
    check_account();
    return memory;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* Nanoseconds; sorts them. */
static double median(uint64_t *took, unsigned count)
{
    unsigned middle = count / 2;

    qsort(took, count, sizeof *took, by_size);
    return (double)took[middle];
}

static void first_and_reused(size_t size)
{
    enum { TIMES = 101 };
    uint64_t took[TIMES], first, begin = now();
    double again;
    void *memory = take(size);

    first = now() - begin;
    for (unsigned i = 0; i < TIMES; i++) {
        pool_free(pool, memory);
        begin = now();
        if (pool_alloc(pool, size, &memory))
            exit(1);
        took[i] = now() - begin;
        check_account();
    }
    again = median(took, TIMES);
    printf("reused/first      %8.5f   %4zu MiB: first %.3f ms, again %.4f ms (median of %d)\n",
           again / (double)first, size / MIB, (double)first * 1e-6, again * 1e-6, TIMES);
    bound("reused/first", again / (double)first, 0.01);
    pool_free(pool, memory);
    pool_trim(pool, 0, UINT64_MAX);
    check_account();
}

static uint64_t touch(size_t size, unsigned threads)
{
    struct extent_source source = {
        .budget = &budget, .ops = &ops, .node = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
    char *memory = extent_reserve(&source, size);
    uint64_t begin, took;

    if (!memory)
        exit(1);
    begin = now();
    if (touch_first(memory, size, threads))
        exit(1);
    took = now() - begin;
    extent_unreserve(memory, size);
    return took;
}

/* By turns, so that both meet the same machine. */
static void touched_by(size_t size)
{
    enum { TIMES = 5 };
    uint64_t one[TIMES], several[TIMES];
    unsigned threads = touch_threads(size);
    double alone, together;

    for (unsigned i = 0; i < TIMES; i++) {
        one[i] = touch(size, 1);
        several[i] = touch(size, threads);
    }
    alone = median(one, TIMES);
    together = median(several, TIMES);
    printf("several/one       %8.5f   %4zu MiB first touched: one thread %.1f ms, %u threads %.1f ms "
           "(medians of %d)\n",
           together / alone, size / MIB, alone * 1e-6, threads, together * 1e-6, TIMES);
}

/* Sizes over 4 MiB come and go; what is pinned for those that are there is looked at with each. */
static void pinned_for_asked(void)
{
    enum { MANY = 24, STEPS = 400 };
    void *memory[MANY] = {NULL};
    size_t size[MANY] = {0}, asked = 0;
    unsigned seed = 1;
    double worst = 0, sum = 0;

    for (unsigned step = 0; step < STEPS; step++) {
        struct pool_usage usage;
        unsigned i = (unsigned)rand_r(&seed) % MANY;
        double ratio;

        if (memory[i]) {
            pool_free(pool, memory[i]);
            asked -= size[i];
            memory[i] = NULL;
        } else {
            size[i] = 4 * MIB + 1 + (size_t)rand_r(&seed) % (12 * MIB);
            memory[i] = take(size[i]);
            asked += size[i];
        }
        pool_usage(pool, &usage);
        if (!asked)
            continue;
        ratio = (double)(usage.pinned - usage.idle) / (double)asked;
        sum += ratio;
        worst = ratio > worst ? ratio : worst;
    }
    printf("pinned/asked      %8.5f   over 4 MiB, %d steps: the worst; %.5f in the mean\n", worst, STEPS,
           sum / STEPS);
    bound("pinned/asked", worst, 1.05);
    for (unsigned i = 0; i < MANY; i++)
        if (memory[i])
            pool_free(pool, memory[i]);
    pool_trim(pool, 0, UINT64_MAX);
    check_account();
}

int main(int argc, char **argv)
{
    struct pool_config config = {.ops = &ops, .budget = &budget, .clock = now, .node = -1};
    struct system_memory memory;

    if (argc > 1 && !strcmp(argv[1], "--limit")) {
        system_memory_read(argc > 2 ? argv[2] : "", &memory);
        printf("%" PRIu64 " %" PRIu64 " %s\n", memory.available, memory.cgroup, memory.trouble);
        return 0;
    }
    budget_init(&budget, 2048 * MIB);
    if (pool_create(&config, &pool))
        return 1;
    first_and_reused(8 * MIB);
    first_and_reused(64 * MIB);
    first_and_reused(512 * MIB);
    touched_by(64 * MIB);
    touched_by(512 * MIB);
    pinned_for_asked();
    printf("%s\n", wrong ? "outside of its bounds" : "the account was exact at every moment");
    return wrong != 0;
}
