/*
 * run.h - runs a program under the preload and gives what it wrote and how it ended.
 */
#ifndef HBMSPILL_TESTS_LOADER_RUN_H
#define HBMSPILL_TESTS_LOADER_RUN_H

#include <stddef.h>

enum { RUN_OUTPUT_MAX = 16384, RUN_LIST_MAX = 32 };

struct run_outcome {
    int status; /* exit status, or 128 + the signal */
    char out[RUN_OUTPUT_MAX], err[RUN_OUTPUT_MAX];
};

/*
 * Runs `arguments` (NULL at the end, found on PATH) with an environment of PATH, HOME and `variables`
 * (NAME=VALUE, NULL at the end) alone. The outcome is static: the next run overwrites it. Exits the test on a
 * failure of its own.
 */
const struct run_outcome *run_program(const char *const *arguments, const char *const *variables);

/* How many lines of `text` contain `part`. */
unsigned int run_count_lines(const char *text, const char *part);

#endif
