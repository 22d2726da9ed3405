/*
 * test_stream.c - order: streams, events, the legacy stream, host functions, values in memory; under every
 * schedule.
 */
#include "test_gpu.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#define WORDS 4096

static CUstream new_stream(unsigned flags)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, flags));
    return stream;
}

static CUdeviceptr new_words(void)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, WORDS * 4));
    OK(cuMemsetD32(p, 0, WORDS));
    OK(cuCtxSynchronize());
    return p;
}

START_TEST(stream_runs_in_order)
{
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words();
    for (unsigned i = 0; i < 100; i++) {
        OK(cuMemsetD32Async(p, i, WORDS, stream));
        OK(launch_increment(p, WORDS / 64, stream));
    }
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(read_word(p), 100);
    ck_assert_uint_eq(read_word(p + (WORDS - 1) * 4), 100);
    OK(cuStreamQuery(stream));
}
END_TEST

START_TEST(event_orders_streams)
{
    gpu_start(schedules[_i], 64);
    CUstream one = new_stream(CU_STREAM_NON_BLOCKING), two = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words(), q = new_words();
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 50; i++) {
        OK(launch_increment(p, WORDS / 64, one));
        OK(cuEventRecord(event, one));
        OK(cuStreamWaitEvent(two, event, 0));
        OK(launch_copy(q, p, WORDS / 64, two));
        OK(cuEventRecord(event, two));
        OK(cuStreamWaitEvent(one, event, 0));
    }
    OK(cuStreamSynchronize(two));
    ck_assert_uint_eq(read_word(q), 50);
    OK(cuStreamSynchronize(one));
    ck_assert_uint_eq(read_word(p), 50);
}
END_TEST

/* A wait means the record that was last when it was asked for, even if the event is recorded again or
 * destroyed. */
START_TEST(wait_means_the_record_before_it)
{
    gpu_start(schedules[_i], 64);
    CUstream one = new_stream(CU_STREAM_NON_BLOCKING), two = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words(), q = new_words(), flag = new_words();
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(launch_increment(p, 1, one));
    OK(cuEventRecord(event, one));
    OK(cuStreamWaitEvent(two, event, 0));
    OK(cuStreamWaitValue32(one, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuEventRecord(event, one));
    OK(launch_copy(q, p, 1, two));
    OK(cuStreamSynchronize(two)); /* would wait for ever for the second record */
    OK(cuStreamWriteValue32(two, flag, 1, 0));
    OK(cuEventDestroy(event));
    OK(cuStreamSynchronize(one));
    ck_assert_uint_eq(read_word(q), 1);
}
END_TEST

START_TEST(unrecorded_event_is_complete)
{
    CUevent event, timed;
    float ms;
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(0);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    OK(cuEventQuery(event));
    OK(cuEventSynchronize(event));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuStreamSynchronize(stream));
    FAILS(cuEventElapsedTime(&ms, timed, timed), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(timed, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamSynchronize(stream));
    FAILS(cuEventElapsedTime(&ms, timed, event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventElapsedTime(&ms, timed, timed));
    ck_assert(ms >= 0.0f && ms < 1.0f);
}
END_TEST

START_TEST(event_time_covers_the_work_between)
{
    CUevent start, end;
    float ms = -1;
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(0);
    CUdeviceptr p = new_words();
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuEventRecord(start, stream));
    for (int i = 0; i < 100; i++)
        OK(launch_increment(p, WORDS / 64, stream));
    OK(cuEventRecord(end, stream));
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&ms, start, end));
    ck_assert(ms > 0.0f && ms < 60000.0f);
}
END_TEST

/* The legacy stream waits for all blocking streams and they for it. */
START_TEST(legacy_stream_orders_blocking_streams)
{
    gpu_start(schedules[_i], 64);
    CUstream one = new_stream(0), two = new_stream(0);
    CUdeviceptr p = new_words(), q = new_words();
    for (unsigned i = 0; i < 50; i++) {
        OK(launch_increment(p, WORDS / 64, one));
        OK(launch_copy(q, p, WORDS / 64, NULL));
        OK(launch_increment(q, WORDS / 64, two));
        OK(launch_copy(p, q, WORDS / 64, CU_STREAM_LEGACY));
    }
    OK(cuStreamSynchronize(NULL));
    ck_assert_uint_eq(read_word(p + 16), 100);
}
END_TEST

START_TEST(legacy_stream_leaves_non_blocking_streams_alone)
{
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words(), flag = new_words();
    OK(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(launch_increment(p, 1, NULL));
    OK(cuStreamSynchronize(NULL));
    ck_assert_uint_eq(read_word(p), 1);
    FAILS(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cuMemsetD32(flag, 1, 1));
    OK(cuStreamSynchronize(stream));
}
END_TEST

START_TEST(per_thread_stream_is_a_blocking_stream)
{
    gpu_start(schedules[_i], 64);
    CUdeviceptr p = new_words();
    unsigned long long legacy, own;
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
    OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
    ck_assert_uint_ne(own, legacy);
    for (unsigned i = 0; i < 20; i++) {
        OK(launch_increment(p, 1, CU_STREAM_PER_THREAD));
        OK(cuMemsetD32Async(p, 2 * i, 1, NULL));
    }
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(NULL));
    ck_assert_uint_eq(read_word(p), 38);
}
END_TEST

/* ---- host functions ---- */

static pthread_t caller;
static uint32_t *pinned;
static uint32_t seen[64];
static volatile int calls;

static void CUDA_CB note(void *data)
{
    ck_assert(!pthread_equal(pthread_self(), caller));
    seen[calls++] = pinned[(intptr_t)data];
}

START_TEST(host_function_runs_in_order_on_another_thread)
{
    caller = pthread_self();
    calls = 0;
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words();
    OK(cuMemAllocHost((void **)&pinned, 256));
    for (int i = 0; i < 20; i++) {
        OK(launch_increment(p, 1, stream));
        OK(cuMemcpyDtoHAsync(pinned, p, 256, stream));
        OK(cuLaunchHostFunc(stream, note, (void *)7));
    }
    OK(cuStreamSynchronize(stream));
    ck_assert_int_eq(calls, 20);
    for (unsigned i = 0; i < 20; i++)
        ck_assert_uint_eq(seen[i], i + 1);
}
END_TEST

static void CUDA_CB tell(CUstream stream, CUresult status, void *data)
{
    ck_assert_int_eq(status, CUDA_SUCCESS);
    *(CUstream *)data = stream;
}

START_TEST(callback_is_told_stream_and_status)
{
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(0), told = NULL;
    OK(cuStreamAddCallback(stream, tell, &told, 0));
    OK(cuStreamSynchronize(stream));
    ck_assert_ptr_eq(told, stream);
    FAILS(cuStreamAddCallback(stream, tell, &told, 1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static volatile int released;

static void CUDA_CB wait_for_release(void *data)
{
    (void)data;
    while (!released)
        usleep(1000);
}

/* A host function that waits for another thread does not stop the device. */
START_TEST(waiting_host_function_stops_only_its_stream)
{
    released = 0;
    gpu_start(schedules[_i], 64);
    CUstream one = new_stream(CU_STREAM_NON_BLOCKING), two = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words();
    OK(cuLaunchHostFunc(one, wait_for_release, NULL));
    OK(launch_increment(p, 1, one));
    OK(cuMemsetD32Async(p + 256, 8, 64, two));
    OK(launch_increment(p + 256, 1, two));
    OK(cuStreamSynchronize(two));
    FAILS(cuStreamQuery(one), CUDA_ERROR_NOT_READY);
    released = 1;
    OK(cuStreamSynchronize(one));
    ck_assert_uint_eq(read_word(p), 1);
    ck_assert_uint_eq(read_word(p + 256), 9);
}
END_TEST

static void CUDA_CB raise_flag(void *data)
{
    *(volatile int *)data = 1;
}

/* A GPU makes progress without being waited for. */
START_TEST(silent_job_makes_progress)
{
    volatile int flag = 0;
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(0);
    OK(launch_increment(new_words(), 1, stream));
    OK(cuLaunchHostFunc(stream, raise_flag, (void *)&flag));
    for (int i = 0; i < 2000 && !flag; i++)
        usleep(1000);
    ck_assert_int_eq(flag, 1);
}
END_TEST

START_TEST(query_loop_ends)
{
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(0);
    CUdeviceptr p = new_words();
    CUevent event;
    CUresult result;
    OK(cuEventCreate(&event, 0));
    OK(launch_increment(p, WORDS / 64, stream));
    OK(cuEventRecord(event, stream));
    while ((result = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        ;
    OK(result);
    while ((result = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
        ;
    OK(result);
}
END_TEST

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000L;
}

/* Calls the driver all the time for 40 ms, never waiting; the longest silence in between, which a busy
 * machine adds. */
static long call_without_waiting(CUdeviceptr p, CUstream stream)
{
    long start = milliseconds(), last = start, longest = 0, now;
    do {
        OK(launch_increment(p, 1, stream));
        now = milliseconds();
        longest = now - last > longest ? now - last : longest;
        last = now;
    } while (now - start < 40);
    return longest;
}

START_TEST(lazy_schedule_runs_nothing_unasked)
{
    gpu_start("lazy", 64);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words();
    volatile uint32_t *host;
    int silent;
    OK(cuMemAllocHost((void **)&host, 256));
    usleep(600000); /* what was held back before does not count */
    for (int attempt = 0;; attempt++) {
        ck_assert_int_lt(attempt, 100);
        host[0] = 99;
        OK(cuMemsetD32Async(p, 1, 64, stream));
        OK(cuMemcpyDtoHAsync((void *)host, p, 256, stream));
        silent = call_without_waiting(p + 4096, stream) > 10;
        if (silent)
            OK(cuStreamSynchronize(stream)); /* a job that falls silent is allowed progress: once more */
        else
            break;
    }
    ck_assert_uint_eq(host[0], 99);
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(host[0], 1);
}
END_TEST

/* Not even a job that calls the driver without end, never waiting, holds a GPU up for ever. */
START_TEST(busy_job_makes_progress)
{
    volatile int flag = 0;
    unsigned version;
    gpu_start("lazy", 64);
    CUstream stream = new_stream(0);
    OK(cuLaunchHostFunc(stream, raise_flag, (void *)&flag));
    long start = milliseconds();
    while (!flag && milliseconds() - start < 20000)
        OK(cuCtxGetApiVersion(test_context, &version));
    ck_assert_int_eq(flag, 1);
}
END_TEST

START_TEST(values_in_memory_order_streams)
{
    gpu_start(schedules[_i], 64);
    CUstream one = new_stream(CU_STREAM_NON_BLOCKING), two = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words(), flag = new_words();
    OK(cuStreamWaitValue64(one, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(launch_increment(p, 1, one));
    OK(cuMemsetD32Async(p, 10, 64, two));
    OK(cuStreamWriteValue64(two, flag, 6, 0));
    OK(cuStreamSynchronize(one));
    ck_assert_uint_eq(read_word(p), 11);
    FAILS(cuStreamWaitValue64(one, flag + 4, 5, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamWriteValue32(one, 64, 5, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(memory_operations_come_in_batches)
{
    gpu_start(schedules[_i], 64);
    CUstream one = new_stream(CU_STREAM_NON_BLOCKING), two = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words();
    CUstreamBatchMemOpParams wait[2] = {
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = p, .value = 3, .flags = 0}},
        {.writeValue = {
             .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = p + 8, .value64 = 1ull << 40}}};
    OK(cuStreamBatchMemOp(one, 2, wait, 0));
    OK(cuStreamWriteValue32(two, p, 4, 0));
    OK(cuStreamSynchronize(one));
    ck_assert_uint_eq(read_word(p + 12), 256);
    FAILS(cuStreamBatchMemOp(one, 0, wait, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(destroyed_stream_finishes_its_work)
{
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words();
    for (int i = 0; i < 10; i++)
        OK(launch_increment(p, 1, stream));
    OK(cuStreamDestroy(stream));
    FAILS(launch_increment(p, 1, stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxSynchronize());
    ck_assert_uint_eq(read_word(p), 10);
}
END_TEST

START_TEST(streams_tell_what_they_are)
{
    CUstream stream;
    unsigned flags;
    int priority, least, greatest;
    CUcontext ctx;
    gpu_start("eager", 64);
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    ck_assert_int_le(greatest, least);
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 10));
    OK(cuStreamGetPriority(stream, &priority));
    ck_assert_int_eq(priority, greatest);
    OK(cuStreamGetFlags(stream, &flags));
    ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetCtx(stream, &ctx));
    ck_assert_ptr_eq(ctx, test_context);
    OK(cuStreamDestroy(stream));
    FAILS(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuStreamCreate(&stream, 8), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(event_and_stream_share_a_context)
{
    CUcontext other;
    CUevent event;
    gpu_start("eager", 64);
    CUstream stream = new_stream(0);
    OK(cuCtxCreate_v4(&other, NULL, 0, 0));
    OK(cuEventCreate(&event, 0));
    FAILS(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(event, NULL));
    OK(cuEventDestroy(event));
    FAILS(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxDestroy(other));
    FAILS(cuCtxPushCurrent(other), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

START_TEST(random_schedule_reorders)
{
    /* Independent streams must not always finish in the order of submission. */
    int reordered = 0;
    gpu_start("random:4", 64);
    CUdeviceptr p = new_words();
    CUstream stream[8];
    for (int i = 0; i < 8; i++)
        stream[i] = new_stream(CU_STREAM_NON_BLOCKING);
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 8; i++)
            OK(cuMemsetD32Async(p, i, 64, stream[i]));
        OK(cuCtxSynchronize());
        reordered += read_word(p) != 7;
    }
    ck_assert_int_gt(reordered, 5);
}
END_TEST

/*
 * A stream is held at a gate, gets a copy of a word and then a kernel that adds one to it. Whether the copy
 * has the sum tells what ran first.
 */
enum between { NOTHING, A_MEMSET, A_WAIT, AN_EVENT };

static bool adds_first(CUstream stream, CUdeviceptr p, const CUlaunchAttribute *attribute,
                       enum between between)
{
    CUlaunchAttribute attributes[1];
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 64,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = attributes,
                             .numAttrs = attribute != NULL};
    CUdeviceptr gate = p + 1024, copied = p + 2048, other = p + 3072;
    void *params[] = {&p};
    CUevent event;
    bool first;
    if (attribute)
        attributes[0] = *attribute;
    OK(cuMemsetD32(p, 0, WORDS));
    OK(cuCtxSynchronize());
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, NULL));
    OK(cuStreamWaitValue32(stream, gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(launch_copy(copied, p, 1, stream));
    if (between == A_MEMSET)
        OK(cuMemsetD32Async(other, 3, 64, stream));
    else if (between == A_WAIT)
        OK(cuStreamWaitEvent(stream, event, 0));
    else if (between == AN_EVENT)
        OK(cuEventRecord(event, stream));
    OK(cuLaunchKernelEx(&config, test_increment, params, NULL));
    OK(cuEventRecord(event, stream));
    OK(cuMemsetD32(gate, 1, 1));
    OK(cuEventSynchronize(event)); /* behind both, whichever ran first */
    first = read_word(copied) == 1;
    ck_assert_uint_eq(read_word(p), 1);
    OK(cuEventDestroy(event));
    return first;
}

static const CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                        .value.programmaticStreamSerializationAllowed = 1};
static const CUlaunchAttribute not_early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                            .value.programmaticStreamSerializationAllowed = 0};

/* "Programmatic stream serialization" allows an overlap with a kernel, and demands none. */
START_TEST(kernel_that_may_start_early)
{
    enum { TRIES = 64 };
    unsigned first = 0;
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words();
    for (unsigned i = 0; i < TRIES; i++)
        first += adds_first(stream, p, &early, NOTHING);
    if (strncmp(schedules[_i], "random", 6) != 0) {
        ck_assert_uint_eq(first, 0);
    } else {
        ck_assert_uint_gt(first, 0);
        ck_assert_uint_lt(first, TRIES);
    }
}
END_TEST

START_TEST(kernel_that_may_not_start_early)
{
    gpu_start(schedules[_i], 64);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_words();
    for (unsigned i = 0; i < 16; i++) {
        ck_assert(!adds_first(stream, p, NULL, NOTHING));
        ck_assert(!adds_first(stream, p, &not_early, NOTHING));
        ck_assert(!adds_first(stream, p, &early, A_MEMSET));
        ck_assert(!adds_first(stream, p, &early, A_WAIT));
        ck_assert(!adds_first(stream, p, &early, AN_EVENT));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");
    TCase *tc = tcase_create("order");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, stream_runs_in_order, 0, SCHEDULES);
    tcase_add_loop_test(tc, event_orders_streams, 0, SCHEDULES);
    tcase_add_loop_test(tc, wait_means_the_record_before_it, 0, SCHEDULES);
    tcase_add_loop_test(tc, unrecorded_event_is_complete, 0, SCHEDULES);
    tcase_add_loop_test(tc, event_time_covers_the_work_between, 0, SCHEDULES);
    tcase_add_loop_test(tc, legacy_stream_orders_blocking_streams, 0, SCHEDULES);
    tcase_add_loop_test(tc, legacy_stream_leaves_non_blocking_streams_alone, 0, SCHEDULES);
    tcase_add_loop_test(tc, per_thread_stream_is_a_blocking_stream, 0, SCHEDULES);
    tcase_add_loop_test(tc, host_function_runs_in_order_on_another_thread, 0, SCHEDULES);
    tcase_add_loop_test(tc, callback_is_told_stream_and_status, 0, SCHEDULES);
    tcase_add_loop_test(tc, waiting_host_function_stops_only_its_stream, 0, SCHEDULES);
    tcase_add_loop_test(tc, silent_job_makes_progress, 0, SCHEDULES);
    tcase_add_loop_test(tc, query_loop_ends, 0, SCHEDULES);
    tcase_add_test(tc, lazy_schedule_runs_nothing_unasked);
    tcase_add_test(tc, busy_job_makes_progress);
    tcase_add_loop_test(tc, values_in_memory_order_streams, 0, SCHEDULES);
    tcase_add_loop_test(tc, memory_operations_come_in_batches, 0, SCHEDULES);
    tcase_add_loop_test(tc, destroyed_stream_finishes_its_work, 0, SCHEDULES);
    tcase_add_test(tc, streams_tell_what_they_are);
    tcase_add_test(tc, event_and_stream_share_a_context);
    tcase_add_test(tc, random_schedule_reorders);
    tcase_add_loop_test(tc, kernel_that_may_start_early, 0, SCHEDULES);
    tcase_add_loop_test(tc, kernel_that_may_not_start_early, 0, SCHEDULES);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
