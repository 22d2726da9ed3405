/*
 * ptx_dispatch.c - picks, once, the functions compiled for this machine's vector instructions.
 *
 * SYNTHETIC_PTX_LEVEL=2, 3 or 4 lowers the choice, so that one machine can test them all.
 */
#include "ptx_run.h"

#include <cpuid.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int level;
static const struct ptx_alu **sorted; /* by name */
static size_t count;

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct ptx_alu *const *)a)->name, (*(const struct ptx_alu *const *)b)->name);
}

/* What x86-64-v3 has beside AVX2, FMA and BMI; a hypervisor may hide any of it. */
static bool has_rest_of_v3(void)
{
    unsigned a, b, c, d, extended;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) && (c & bit_MOVBE) &&
           __get_cpuid(0x80000001, &a, &b, &extended, &d) && (extended & bit_LZCNT);
}

static void choose(void)
{
    __builtin_cpu_init();
    level = 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && has_rest_of_v3())
        level = 3;
    if (level == 3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        level = 4;
    const char *wanted = getenv("SYNTHETIC_PTX_LEVEL");
    if (wanted && wanted[0] >= '2' && wanted[0] - '0' < level && !wanted[1])
        level = wanted[0] - '0';
    const struct ptx_alu *tables[] = {level == 4   ? ptx_alu_table_v4
                                      : level == 3 ? ptx_alu_table_v3
                                                   : ptx_alu_table_v2,
                                      ptx_alu_table_round};
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (int t = 0; t < 2; t++)
            for (const struct ptx_alu *a = tables[t]; a->name; a++, n++)
                if (pass)
                    sorted[n] = a;
        if (!pass && !(sorted = calloc(n + 1, sizeof *sorted)))
            return; /* then every opcode is unknown */
        count = pass ? n : 0;
    }
    qsort(sorted, count, sizeof *sorted, by_name);
}

int ptx_level(void)
{
    pthread_once(&once, choose);
    return level;
}

const struct ptx_alu *ptx_alu_find(const char *name)
{
    pthread_once(&once, choose);
    struct ptx_alu key = {.name = name};
    const struct ptx_alu *wanted = &key;
    const struct ptx_alu **found = count ? bsearch(&wanted, sorted, count, sizeof *sorted, by_name) : NULL;
    return found ? *found : NULL;
}
