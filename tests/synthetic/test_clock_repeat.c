/*
 * test_clock_repeat.c - virtual time: the same times whoever runs the work in which order, and what is
 * written of them: report, record, history.
 */
#include "test_clock.h"

#include <pthread.h>

/* ---- the same times every time ---- */

static double times[64];

/* Three streams with copies both ways, kernels and waits, by a generator of its own. */
static void tangle(unsigned seed)
{
    for (unsigned i = 0; i < 60; i++) {
        seed = seed * 1664525u + 1013904223u;
        CUstream stream = streams[(seed >> 8) % 3];
        size_t bytes = 4096 + (seed >> 12) % 200000;
        CUdeviceptr p = memory + (seed >> 10) % 8 * (MIB / 2);
        switch ((seed >> 24) % 6) {
        case 0:
            OK(cuMemcpyHtoDAsync(p, pinned, bytes, stream));
            break;
        case 1:
            OK(cuMemcpyDtoHAsync(pinned, p, bytes, stream));
            break;
        case 2:
            OK(launch_increment(p, 1 + (seed >> 16) % 50, stream));
            break;
        case 3:
            OK(cuMemcpyDtoDAsync(p, memory, bytes, stream));
            break;
        case 4:
            OK(cuMemsetD8Async(p, 0, bytes, stream));
            break;
        default:
            OK(cuStreamWaitEvent(stream, events[(seed >> 16) % 8], 0));
            break;
        }
        OK(cuEventRecord(events[(seed >> 20) % 8], stream));
        if (i % 16 == 15)
            OK(cuEventSynchronize(events[(seed >> 20) % 8]));
    }
}

struct helper {
    pthread_t thread;
    int number;
    CUdeviceptr p;
};

/* A thread that copies and waits for itself, over and over. */
static void *help(void *argument)
{
    struct helper *helper = argument;
    OK(cuCtxSetCurrent(test_context));
    for (int i = 0; i < 10; i++) {
        OK(cuMemcpyHtoDAsync(helper->p, pinned, 10000u * (unsigned)(helper->number + 1),
                             streams[helper->number]));
        OK(launch_increment(helper->p, 4, streams[helper->number]));
        OK(cuEventRecord(events[8 + helper->number], streams[helper->number]));
        if (i % 3 == 0)
            OK(cuEventSynchronize(events[8 + helper->number]));
    }
    OK(cuStreamSynchronize(streams[helper->number]));
    return NULL;
}

static void measure(const char *schedule, int with_threads)
{
    float ms;
    start(schedule, "20,15,12,9");
    OK(cuEventRecord(events[15], streams[3]));
    for (int i = 0; i < 8; i++)
        OK(cuEventRecord(events[i], streams[0]));
    if (with_threads) {
        struct helper helpers[3];
        for (int i = 0; i < 3; i++) {
            helpers[i] = (struct helper){.number = i, .p = memory + (unsigned)i * 2 * MIB};
            ck_assert_int_eq(pthread_create(&helpers[i].thread, NULL, help, &helpers[i]), 0);
        }
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(pthread_join(helpers[i].thread, NULL), 0);
    } else {
        tangle(7);
    }
    OK(cuCtxSynchronize());
    OK(cuEventRecord(events[14], streams[3]));
    OK(cuEventSynchronize(events[14]));
    for (int i = 0; i < 15; i++) {
        if (cuEventElapsedTime(&ms, events[15], events[i]) == CUDA_SUCCESS)
            times[i] = (double)ms;
    }
}

/* measure() in a process of its own. */
static void measure_apart(const char *schedule, int with_threads, double *out)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        measure(schedule, with_threads);
        _exit(write(ends[1], times, sizeof(times)) == (ssize_t)sizeof(times) ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(read(ends[0], out, sizeof(times)), sizeof(times));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(ends[0]);
    close(ends[1]);
}

START_TEST(every_schedule_gives_the_same_times)
{
    double first[64], now[64];
    measure_apart("eager", _i, first);
    ck_assert(first[14] > 0.1);
    for (unsigned k = 0; k < 2 * SCHEDULES; k++) {
        measure_apart(schedules[k % SCHEDULES], _i, now);
        for (int i = 0; i < 15; i++)
            ck_assert_msg(now[i] == first[i], "event %d: %.9f ms with %s, %.9f before", i, now[i],
                          schedules[k % SCHEDULES], first[i]);
    }
}
END_TEST

/* ---- what is written ---- */

static void three_copies(void)
{
    start("eager", "10,10");
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000000, streams[0]));
    OK(cuMemcpyHtoDAsync(memory, pinned, 1000000, streams[1]));
    OK(cuMemcpyDtoHAsync(pinned, memory, 500000, streams[0]));
    OK(cuCtxSynchronize());
}

static void waits(void)
{
    setenv("SYNTHETIC_GPU_SIZE_SCALE", "1000", 1);
    start("eager", "pcie5");
    gate();
    OK(cuMemsetD8Async(memory, 1, 300000, streams[0])); /* 100 us */
    OK(cuEventRecord(events[1], streams[0]));
    OK(cuMemsetD8Async(memory + MIB, 1, 3000, streams[1]));
    OK(cuStreamWaitEvent(streams[1], events[1], 0));
    OK(cuMemsetD8Async(memory + MIB, 1, 3000, streams[1]));
    OK(cuCtxSynchronize());
}

START_TEST(the_report_has_the_model)
{
    ck_assert_int_eq(report_number(three_copies, "in_busy_ns"), 2 * (MACHINE_COPY_LATENCY + 100000));
    ck_assert_int_eq(report_number(three_copies, "in_bytes"), 2000000);
    ck_assert_int_eq(report_number(three_copies, "out_busy_ns"), MACHINE_COPY_LATENCY + 50000);
    ck_assert_int_eq(report_number(three_copies, "threads_not_waited_for"), 0);
    ck_assert_int_gt(report_number(three_copies, "makespan_ns"), 250000);
    ck_assert_int_gt(report_number(three_copies, "host_waited_ns"), 190000);
    /* The first stream of those that waited is the gated one, from the time there was work behind the wait.
     */
    ck_assert_int_gt(report_number(waits, "waited_ns"), 1300000);
    ck_assert_int_lt(report_number(waits, "waited_ns"), 1400000);
}
END_TEST

static void recorded(void)
{
    CUdeviceptr p, q;
    CUmemoryPool pool;
    start("lazy", "pcie5");
    OK(cuMemAlloc(&p, 5000));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocFromPoolAsync(&q, 70000, pool, streams[0]));
    OK(cuMemcpyHtoDAsync(q, pinned, 4096, streams[0]));
    OK(launch_copy(p, q, 8, streams[0]));
    OK(launch_increment(p + 256, 1, streams[1]));
    OK(cuMemsetD8Async(p, 0, 100, streams[1]));
    OK(cuMemFreeAsync(q, streams[0]));
    OK(cuMemcpyDtoH(pinned + MIB, p, 12));
    OK(cuMemFree(p));
}

/* Its lines behind those of start(), in which the module's variable and `memory' were born: 0 and 1. */
START_TEST(the_record_can_be_read)
{
    char path[64], line[256], text[4096] = "";
    snprintf(path, sizeof(path), "/tmp/synthetic-gpu-record-%d", (int)getpid());
    setenv("SYNTHETIC_GPU_RECORD", path, 1);
    report_number(recorded, "launches");
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    ck_assert_str_eq(line, "device-record 1\n");
    while (fgets(line, sizeof(line), f))
        strcat(text, line);
    fclose(f);
    unlink(path);
    char wanted[4096];
    /* Kernels: 2048 bytes read and written; 256 and 256. */
    snprintf(wanted, sizeof(wanted),
             "a 0 16\n"
             "a 1 8388608\n"
             "a 2 5000\n"
             "a 3 70000\n"
             "c 0 i 4096 3w\n"
             "n 0 copy\n"
             "l 0 0 %.0f 2 3\n"
             "n 1 increment\n"
             "l 1 1 %.0f 2\n"
             "m 1 2w\n"
             "f 3 0\n"
             "c 2 O 12 2r\n"
             "s -\n"
             "f 2 -\n"
             "e 12\n",
             MACHINE_KERNEL_GAP + 4096 * 1e9 / MACHINE_HBM_RATE,
             MACHINE_KERNEL_GAP + 512 * 1e9 / MACHINE_HBM_RATE);
    ck_assert_str_eq(text, wanted);
}
END_TEST

START_TEST(the_history_has_starts_and_ends)
{
    char path[64], kind[3];
    unsigned long long stream[3];
    double submit[3], began[3], ended[3], bytes[3];
    snprintf(path, sizeof(path), "/tmp/synthetic-gpu-history-%d", (int)getpid());
    setenv("SYNTHETIC_GPU_HISTORY", path, 1);
    report_number(three_copies, "launches");
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "device-history 1\n"), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(fscanf(f, "%c %llu %lf %lf %lf %lf\n", &kind[i], &stream[i], &submit[i], &began[i],
                                &ended[i], &bytes[i]),
                         6);
    ck_assert_int_eq(fgetc(f), EOF);
    fclose(f);
    unlink(path);
    /* In order of their ends: in, out behind it in the same stream, in of the other stream. */
    ck_assert_uint_eq(stream[0], stream[1]);
    ck_assert_uint_ne(stream[0], stream[2]);
    ck_assert(kind[0] == 'c' && kind[1] == 'c' && kind[2] == 'c');
    ck_assert(bytes[0] == 1e6 && bytes[1] == 5e5 && bytes[2] == 1e6);
    ck_assert(began[0] == submit[0] && began[1] == ended[0] && began[2] == ended[0]);
    ck_assert(submit[2] == submit[0] + MACHINE_HOST_COPY && submit[1] == submit[2] + MACHINE_HOST_COPY);
    ck_assert(ended[0] - began[0] == MACHINE_COPY_LATENCY + 100000);
    ck_assert(ended[1] - began[1] == MACHINE_COPY_LATENCY + 50000);
    ck_assert(ended[2] - began[2] == MACHINE_COPY_LATENCY + 100000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock_repeat");
    TCase *same = tcase_create("same"), *written = tcase_create("written");
    tcase_set_timeout(same, 120);
    tcase_add_loop_test(same, every_schedule_gives_the_same_times, 0, 2);
    suite_add_tcase(suite, same);
    tcase_set_timeout(written, 60);
    tcase_add_test(written, the_report_has_the_model);
    tcase_add_test(written, the_record_can_be_read);
    tcase_add_test(written, the_history_has_starts_and_ends);
    suite_add_tcase(suite, written);
    return run_suite(suite);
}
