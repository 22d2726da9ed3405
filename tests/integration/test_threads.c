/*
 * Many threads on one device, each with a stream of its own: right contents, and an end.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 12 };

/* Pages of work of one thread: allocate, launch, copy, look, free. */
static void work(unsigned self, CUstream stream)
{
    uint32_t random = 17 + self;

    for (unsigned round = 0; round < ROUNDS; round++) {
        CUdeviceptr a, b, c;
        uint32_t seed = self * 1000 + round;
        size_t words;

        random = random * 1664525 + 1013904223;
        words = ((1 << 20) + random % (2 << 20)) / 4;
        CU(cuMemAllocAsync(&a, words * 4, stream));
        CU(cuMemAllocAsync(&b, words * 4, stream));
        job_fill(a, words, seed, stream);
        job_fill(b, words, seed + 500, stream);
        CU(cuMemAllocAsync(&c, words * 4, stream));
        CU(cuMemcpyDtoDAsync(c, a, words * 4, stream));
        job_add(c, b, words, stream);
        CU(cuMemFreeAsync(b, stream));
        CU(cuStreamSynchronize(stream));
        CHECK_SUM(c, words, seed, seed + 500);
        if (round % 3)
            CHECK_WORDS(a, words, seed);
        CU(cuMemFreeAsync(a, stream));
        if (round % 2)
            CU(cuMemFreeAsync(c, stream));
        else
            CU(cuMemFree(c));
    }
}

static void *own_stream(void *self)
{
    CUstream stream;

    CU(cuCtxSetCurrent(job_context()));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    work((unsigned)(uintptr_t)self, stream);
    CU(cuStreamDestroy(stream));
    return NULL;
}

static void *default_stream(void *self)
{
    CU(cuCtxSetCurrent(job_context()));
    work((unsigned)(uintptr_t)self, CU_STREAM_PER_THREAD);
    return NULL;
}

static void run(void *(*body)(void *))
{
    pthread_t thread[THREADS];

    cuda_start();
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, body, (void *)i) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void streams(void)
{
    run(own_stream);
}

static void default_streams(void)
{
    run(default_stream);
}

static const struct scenario scenarios[] = {
    {.name = "streams", .job = streams, .flags = SCENARIO_SPILLS},
    {.name = "default_streams", .job = default_streams, .flags = SCENARIO_SPILLS},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "threads", scenarios, sizeof scenarios / sizeof *scenarios, 40);
}
