/*
 * random.h - numbers that follow from a seed (splitmix64), the same on every machine.
 */
#ifndef HBMSPILL_TESTS_FUZZ_RANDOM_H
#define HBMSPILL_TESTS_FUZZ_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
    uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Numbers of a stream of their own: those of one purpose do not move when another takes more. */
static inline struct random random_of(uint64_t seed, uint64_t purpose)
{
    struct random random = {seed * UINT64_C(0xd1342543de82ef95) + purpose};

    random_next(&random);
    return random;
}

/* 0 to n - 1; n must not be 0. */
static inline uint32_t random_below(struct random *random, uint64_t n)
{
    return (uint32_t)(random_next(random) % n);
}

static inline uint32_t random_from(struct random *random, uint32_t least, uint32_t most)
{
    return least + random_below(random, most - least + 1u);
}

static inline bool random_percent(struct random *random, unsigned percent)
{
    return random_below(random, 100) < percent;
}

#endif
