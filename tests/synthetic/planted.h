/*
 * planted.h - what the tests of planted hazards share: two streams, some memory, and the one test. Each
 * hazard is found under every schedule, also where this run happens to go well, and is told with both
 * operations; and each has a twin with the order that was missing, in which nothing is found.
 *
 * The program that includes it has the cases, as plants, and calls planted_main.
 */
#ifndef SYNTHETIC_TESTS_PLANTED_H
#define SYNTHETIC_TESTS_PLANTED_H

#include "test_gpu.h"

#include <stdbool.h>

#define WORDS 256
#define BYTES (WORDS * 4)

static CUstream one, two;
static CUdeviceptr p, q;
static CUevent event;
static uint32_t *pinned;

static void start(void)
{
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&p, BYTES));
    OK(cuMemAlloc(&q, BYTES));
    OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    OK(cuMemsetD32(p, 0, WORDS));
    OK(cuMemsetD32(q, 0, WORDS));
    OK(cuCtxSynchronize());
}

static void order(CUstream first, CUstream second)
{
    OK(cuEventRecord(event, first));
    OK(cuStreamWaitEvent(second, event, 0));
}

/* Most likely it has run by then; but nobody has said so. */
static void let_it_run(void)
{
    usleep(100000);
}

struct plant {
    const char *what;
    void (*body)(bool right);
    const char *hazard;
    const char *first, *second; /* operations that it has to name */
};

static const struct plant *plants, *planted;
static const char *schedule;
static bool right;

static void run(void)
{
    gpu_start(schedule, 64);
    start();
    planted->body(right);
    CUresult result = cuCtxSynchronize();
    ck_assert(result == CUDA_SUCCESS || (!right && result == CUDA_ERROR_ILLEGAL_ADDRESS));
}

/* What the report says about hazards, from the name of the first one on. */
static void hazards(char *out, size_t size)
{
    static char text[65536];
    report_text(run, text, sizeof(text));
    const char *at = strstr(text, "\"hazards\": ["), *end;
    ck_assert_ptr_nonnull(at);
    at += strlen("\"hazards\": [");
    end = strchr(at, ']');
    ck_assert_ptr_nonnull(end);
    snprintf(out, size, "%.*s", (int)(end - at), at);
}

START_TEST(hazard_is_found)
{
    char found[4096];
    planted = &plants[_i / SCHEDULES];
    schedule = schedules[_i % SCHEDULES];
    right = false;
    hazards(found, sizeof(found));
    ck_assert_msg(strstr(found, planted->hazard) && strstr(found, planted->first) &&
                      strstr(found, planted->second),
                  "%s, %s: found %s", planted->what, schedule, found);
    right = true;
    hazards(found, sizeof(found));
    ck_assert_msg(!*found, "%s done right, %s: found %s", planted->what, schedule, found);
}
END_TEST

static int planted_main(const char *name, const struct plant *list, int count)
{
    Suite *suite = suite_create(name);
    TCase *tc = tcase_create("planted");
    plants = list;
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, hazard_is_found, 0, (int)SCHEDULES * count);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}

#endif
