/*
 * A program of the CUDA runtime's, linked with a shared one: cudaMalloc, copies, kernels that it registers,
 * and a pool of its own on top, as CuPy has one. It calls no driver function by itself.
 */
#include "tests/integration/job.h"
#include "tests/integration/runtime_find.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <cuda_runtime_api.h>

enum { BUFFERS = 14, WORDS = 1 << 20, BLOCK = 256 };

#define BYTES ((size_t)WORDS * 4)

#define RT(call)                                                                                             \
    do {                                                                                                     \
        cudaError_t rt_status = call;                                                                        \
        REQUIRE(rt_status == cudaSuccess, "%s: %d", #call, (int)rt_status);                                  \
    } while (0)

/* What nvcc writes for __global__ functions: a stub each, and a constructor. */
static struct {
    int magic, version;
    const void *data;
    void *filename;
} code = {.magic = 0x466243b1, .version = 1, .data = job_ptx};

static void launch(const void *stub, size_t words, cudaStream_t stream, void **arguments)
{
    RT(cudaLaunchKernel(stub, (dim3){(unsigned)((words + BLOCK - 1) / BLOCK), 1, 1}, (dim3){BLOCK, 1, 1},
                        arguments, 0, stream));
}

static void fill(uint32_t *at, uint32_t words, uint32_t seed, cudaStream_t stream)
{
    void *arguments[] = {&at, &words, &seed};

    launch((const void *)fill, words, stream, arguments);
}

static void add(uint32_t *to, uint32_t *from, uint32_t words, cudaStream_t stream)
{
    void *arguments[] = {&to, &from, &words};

    launch((const void *)add, words, stream, arguments);
}

__attribute__((constructor)) static void register_code(void)
{
    void **handle = __cudaRegisterFatBinary(&code);

    __cudaRegisterFunction(handle, (const char *)fill, NULL, "fill", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, (const char *)add, NULL, "add", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
}

/* Twice the seed's words where it was added to itself. */
static void check(const uint32_t *at, uint32_t seed, uint32_t times)
{
    static uint32_t host[WORDS];

    memset(host, 0, sizeof host);
    RT(cudaMemcpy(host, at, BYTES, cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < WORDS; i++)
        REQUIRE(host[i] == times * job_word(seed, i), "word %u of %u", i, seed);
}

static void plain(void)
{
    uint32_t *at[BUFFERS], *more;
    static uint32_t host[WORDS];
    size_t free_bytes, total;
    cudaStream_t stream;

    RT(cudaStreamCreate(&stream));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        RT(cudaMalloc((void **)&at[i], BYTES));
        fill(at[i], WORDS, i, 0);
    }
    RT(cudaMemGetInfo(&free_bytes, &total));
    REQUIRE(free_bytes < total);
    for (unsigned round = 0; round < 3; round++)
        for (uint32_t i = 0; i < BUFFERS; i++) {
            RT(cudaMallocAsync((void **)&more, BYTES, stream));
            RT(cudaMemcpyAsync(more, at[i], BYTES, cudaMemcpyDeviceToDevice, stream));
            add(at[i], more, WORDS, stream);
            RT(cudaFreeAsync(more, stream));
        }
    RT(cudaStreamSynchronize(stream));
    for (uint32_t i = 0; i < BUFFERS; i++)
        check(at[i], i, 8);
    for (uint32_t i = 0; i < WORDS; i++)
        host[i] = 3 * job_word(70, i);
    RT(cudaMemcpy(at[1], host, BYTES, cudaMemcpyHostToDevice));
    RT(cudaMemset(at[2], 0, BYTES));
    RT(cudaMemcpy(at[3], at[1], BYTES, cudaMemcpyDeviceToDevice));
    RT(cudaMemcpy(at[4], at[1], BYTES, cudaMemcpyDefault));
    check(at[1], 70, 3);
    check(at[2], 1, 0);
    check(at[3], 70, 3);
    check(at[4], 70, 3);
    for (unsigned i = 0; i < BUFFERS; i++)
        RT(cudaFree(at[i]));
    RT(cudaFree(NULL));
    REQUIRE(cudaMalloc((void **)&more, 0) == cudaErrorInvalidValue);
    REQUIRE(cudaLaunchKernel((const void *)check, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, 0) ==
            cudaErrorInvalidDeviceFunction);
}

/*
 * Blocks are cut from chunks, each a cudaMalloc, the rest of which others get; what is freed is kept for the
 * next who asks (cupy.cuda.MemoryPool). So one chunk has several arrays in it, and moves as one.
 */
enum { CHUNKS = 12, CHUNK_BLOCKS = 2 };

static struct chunk {
    uint32_t *at;
    unsigned used; /* a bit for each block */
} chunks[CHUNKS];

static uint32_t *pool_take(void)
{
    for (unsigned i = 0; i < CHUNKS; i++) {
        if (!chunks[i].at)
            RT(cudaMalloc((void **)&chunks[i].at, CHUNK_BLOCKS * BYTES));
        for (unsigned b = 0; b < CHUNK_BLOCKS; b++)
            if (!(chunks[i].used & 1U << b)) {
                chunks[i].used |= 1U << b;
                return chunks[i].at + (size_t)b * WORDS;
            }
    }
    return NULL;
}

static void pool_give(const uint32_t *at)
{
    for (unsigned i = 0; i < CHUNKS; i++)
        for (unsigned b = 0; b < CHUNK_BLOCKS; b++)
            if (chunks[i].at && chunks[i].at + (size_t)b * WORDS == at)
                chunks[i].used &= ~(1U << b);
}

static void pooled(void)
{
    uint32_t *kept[BUFFERS];

    for (uint32_t i = 0; i < BUFFERS; i++) {
        kept[i] = pool_take();
        fill(kept[i], WORDS, i, 0);
    }
    for (unsigned round = 0; round < 3; round++)
        for (uint32_t i = 0; i < BUFFERS; i++) {
            uint32_t *sum = pool_take();

            fill(sum, WORDS, i, 0);
            for (unsigned times = 0; times < round + 1; times++)
                add(sum, kept[i], WORDS, 0);
            pool_give(kept[i]); /* the old one, as an array that a name was given to anew */
            kept[i] = sum;
        }
    RT(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < BUFFERS; i++)
        check(kept[i], i, 16); /* 1 -> 2 -> 5 -> 16 */
    for (unsigned i = 0; i < CHUNKS; i++)
        RT(cudaFree(chunks[i].at));
}

/* What does not fit is reached where it is, in host memory. */
static void over_the_link(const struct outcome *of)
{
    ck_assert_uint_gt(outcome_number(of->statistics, "link_mappings"), 0);
}

static const struct scenario scenarios[] = {
    {.name = "plain", .job = plain, .flags = SCENARIO_SPILLS},
    {.name = "pooled", .job = pooled, .flags = SCENARIO_SPILLS},
    /* As without HBMSPILL_ADMITTED: the program's kernels are no library's that is known, and may touch
       anything. */
    {.name = "plain_open",
     .job = plain,
     .flags = SCENARIO_ONCE | SCENARIO_UNCOUNTED,
     .variables = "HBMSPILL_CLOSED=auto",
     .inspect = over_the_link},
    {.name = "pooled_open",
     .job = pooled,
     .flags = SCENARIO_ONCE | SCENARIO_UNCOUNTED,
     .variables = "HBMSPILL_CLOSED=auto",
     .inspect = over_the_link},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "runtime", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
