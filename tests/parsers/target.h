/*
 * target.h - what the targets of the fuzzer share: the name libFuzzer calls, an assertion that does not
 * depend on NDEBUG, an input as a file.
 *
 * Each is called with any bytes, and returns; what it must not find ends the process, and libFuzzer keeps the
 * input.
 */
#ifndef TESTS_PARSERS_TARGET_H
#define TESTS_PARSERS_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition) ((condition) ? (void)0 : unexpected(#condition, __FILE__, __LINE__))

__attribute__((noreturn)) static inline void unexpected(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
    abort();
}

/* Whether the input was taken, for tests/parsers/run: a seed that is refused would lead nowhere. */
static inline void judged(bool accepted)
{
    if (getenv("PARSERS_SAY"))
        printf("%s\n", accepted ? "accepted" : "refused");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
