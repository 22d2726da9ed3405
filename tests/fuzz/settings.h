/*
 * settings.h - what a seed's sequence runs in and how large it is: the GPU, the library's variables, sizes.
 */
#ifndef HBMSPILL_TESTS_FUZZ_SETTINGS_H
#define HBMSPILL_TESTS_FUZZ_SETTINGS_H

#include "tests/fuzz/world.h"

enum { VARIABLES_MAX = 24, THREADS_MAX = 3, FRAME = 2 << 20 };

struct settings {
    unsigned threads, actions; /* actions of each thread */
    struct limits limits;      /* of each thread */
    unsigned variable_count;
    char variables[VARIABLES_MAX][512]; /* NAME=VALUE */
};

/* native: without the library, on a GPU that is big enough. */
void settings_of(uint64_t seed, bool native, struct settings *settings);

#endif
