/*
 * Copies and memsets of every form, to and from memory that is in device memory, spilled, or beside somebody
 * else's in the same frame. Contents are compared with an image of all buffers on the host, byte for byte.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>

enum { BUFFERS = 18 };

/* 1.1 MiB and 1 MiB + 4 KiB share segments with others of their size. */
static const size_t sizes[] = {1153434, 3 << 20, (1 << 20) + 4096, 4 << 20, 2 << 20, 1153434};

static struct {
    CUdeviceptr at;
    size_t size;
    unsigned char *image;
} buffer[BUFFERS];

static CUstream stream;
static unsigned char *pinned, *pageable;
enum { STAGING = 4 << 20 };

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % limit;
}

static void start(void)
{
    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemHostAlloc((void **)&pinned, STAGING, CU_MEMHOSTALLOC_PORTABLE));
    pageable = malloc(STAGING);
    for (unsigned i = 0; i < BUFFERS; i++) {
        buffer[i].size = sizes[i % 6];
        buffer[i].image = malloc(buffer[i].size);
        REQUIRE(pageable && buffer[i].image, "memory");
        CU(cuMemAlloc(&buffer[i].at, buffer[i].size));
        for (size_t k = 0; k < buffer[i].size; k++)
            buffer[i].image[k] = (unsigned char)random_below(256);
        CU(cuMemcpyHtoD(buffer[i].at, buffer[i].image, buffer[i].size));
    }
    CU(cuCtxSynchronize()); /* such a copy returns when its source has been taken */
}

static void finish(void)
{
    CU(cuCtxSynchronize());
    for (unsigned i = 0; i < BUFFERS; i++) {
        size_t k = 0;

        CU(cuMemcpyDtoH(pageable, buffer[i].at, buffer[i].size));
        while (k < buffer[i].size && pageable[k] == buffer[i].image[k])
            k++;
        REQUIRE(k == buffer[i].size, "buffer %u differs at byte %zu of %zu", i, k, buffer[i].size);
        CU(cuMemFree(buffer[i].at));
    }
}

static void fill_host(unsigned char *memory, size_t size)
{
    unsigned char first = (unsigned char)random_below(256);

    for (size_t k = 0; k < size; k++)
        memory[k] = (unsigned char)(first + k * 7);
}

struct part {
    unsigned i;
    size_t offset, size;
    CUdeviceptr at;
    unsigned char *image;
};

/* A piece of any buffer, at any offset. */
static struct part part(size_t size)
{
    struct part one = {.i = (unsigned)random_below(BUFFERS)};

    one.size = size ? size : 1 + random_below(buffer[one.i].size);
    if (one.size > buffer[one.i].size)
        one.size = buffer[one.i].size;
    one.offset = random_below(buffer[one.i].size - one.size + 1);
    one.at = buffer[one.i].at + one.offset;
    one.image = buffer[one.i].image + one.offset;
    return one;
}

static void upload(bool is_pinned, bool async)
{
    struct part to = part(0);
    unsigned char *from = is_pinned ? pinned : pageable;

    CU(cuStreamSynchronize(stream)); /* the staging memory is used again */
    fill_host(from, to.size);
    memcpy(to.image, from, to.size);
    if (async) {
        CU(cuMemcpyHtoDAsync(to.at, from, to.size, stream));
    } else {
        CU(cuMemcpyHtoD(to.at, from, to.size));
        CU(cuCtxSynchronize());
    }
}

static void download(bool is_pinned, bool async)
{
    struct part from = part(0);
    unsigned char *to = is_pinned ? pinned : pageable;

    if (async) {
        CU(cuMemcpyDtoHAsync(to, from.at, from.size, stream));
        CU(cuStreamSynchronize(stream));
    } else {
        CU(cuStreamSynchronize(stream));
        CU(cuMemcpyDtoH(to, from.at, from.size));
    }
    REQUIRE(!memcmp(to, from.image, from.size), "bytes %zu to %zu of buffer %u", from.offset,
            from.offset + from.size, from.i);
}

static void across(unsigned form)
{
    struct part from = part(0), to = part(from.size);

    if (from.i == to.i)
        return;
    memcpy(to.image, from.image, to.size);
    switch (form) {
    case 0:
        CU(cuMemcpyDtoDAsync(to.at, from.at, to.size, stream));
        break;
    case 1:
        CU(cuMemcpyAsync(to.at, from.at, to.size, stream));
        break;
    case 2:
        CU(cuMemcpyPeerAsync(to.at, job_context(), from.at, job_context(), to.size, stream));
        break;
    case 3: /* the legacy stream does not wait for one that does not block */
        CU(cuStreamSynchronize(stream));
        CU(cuMemcpyDtoD(to.at, from.at, to.size));
        CU(cuCtxSynchronize());
        break;
    default:
        CU(cuStreamSynchronize(stream));
        CU(cuMemcpy(to.at, from.at, to.size));
        CU(cuCtxSynchronize());
    }
}

static void set(unsigned form)
{
    struct part to = part(0);
    unsigned value = (unsigned)random_below(1u << 31);
    unsigned width = form == 0 ? 1 : form == 1 ? 2 : 4;
    size_t skip = (width - to.at % width) % width;

    if (to.size < skip + width)
        return;
    to.at += skip;
    to.image += skip;
    to.size = (to.size - skip) / width * width;
    CU(cuStreamSynchronize(stream));
    if (form == 0)
        CU(cuMemsetD8(to.at, (unsigned char)value, to.size));
    else if (form == 1)
        CU(cuMemsetD16(to.at, (unsigned short)value, to.size / 2));
    else if (form == 2)
        CU(cuMemsetD32(to.at, value, to.size / 4));
    else
        CU(cuMemsetD32Async(to.at, value, to.size / 4, stream));
    if (form < 3)
        CU(cuCtxSynchronize());
    for (size_t k = 0; k < to.size; k++)
        to.image[k] = (unsigned char)(value >> 8 * (k % width));
}

static void linear(void)
{
    start();
    for (unsigned i = 0; i < 200; i++) {
        unsigned choice = (unsigned)random_below(17);

        if (choice < 4)
            upload(choice & 1, choice & 2);
        else if (choice < 8)
            download(choice & 1, choice & 2);
        else if (choice < 13)
            across(choice - 8);
        else
            set(choice - 13);
    }
    finish();
}

/* Rows of a buffer as a rectangle: 1000 bytes of every 1500. */
enum { WIDTH = 1001, PITCH = 1503, ROWS = 600 };

static CUDA_MEMCPY2D rectangle(CUmemorytype to, void *to_host, CUdeviceptr to_device, CUmemorytype from,
                               void *from_host, CUdeviceptr from_device)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = from,
                           .srcHost = from_host,
                           .srcDevice = from_device,
                           .srcPitch = PITCH,
                           .dstMemoryType = to,
                           .dstHost = to_host,
                           .dstDevice = to_device,
                           .dstPitch = PITCH,
                           .WidthInBytes = WIDTH,
                           .Height = ROWS};
}

static void copy_rows(unsigned char *to, const unsigned char *from)
{
    for (unsigned y = 0; y < ROWS; y++)
        memcpy(to + (size_t)y * PITCH, from + (size_t)y * PITCH, WIDTH);
}

static void two_dimensions(void)
{
    start();
    for (unsigned i = 0; i + 1 < BUFFERS; i++) {
        CUDA_MEMCPY2D copy;

        fill_host(pageable, PITCH * ROWS);
        copy = rectangle(CU_MEMORYTYPE_DEVICE, NULL, buffer[i].at + i, CU_MEMORYTYPE_HOST, pageable, 0);
        CU(cuMemcpy2D(&copy));
        copy_rows(buffer[i].image + i, pageable);
        CU(cuCtxSynchronize());
        copy =
            rectangle(CU_MEMORYTYPE_DEVICE, NULL, buffer[i + 1].at, CU_MEMORYTYPE_DEVICE, NULL, buffer[i].at);
        CU(cuMemcpy2DAsync(&copy, stream));
        copy_rows(buffer[i + 1].image, buffer[i].image);
        memset(pinned, 0, PITCH * ROWS);
        copy = rectangle(CU_MEMORYTYPE_HOST, pinned, 0, CU_MEMORYTYPE_UNIFIED, NULL, buffer[i + 1].at);
        CU(cuMemcpy2DAsync(&copy, stream));
        CU(cuStreamSynchronize(stream));
        for (unsigned y = 0; y < ROWS; y++)
            REQUIRE(!memcmp(pinned + (size_t)y * PITCH, buffer[i + 1].image + (size_t)y * PITCH, WIDTH),
                    "row %u", y);
        CU(cuMemsetD2D8(buffer[i].at, PITCH, (unsigned char)i, WIDTH, ROWS / 2));
        CU(cuCtxSynchronize());
        for (unsigned y = 0; y < ROWS / 2; y++)
            memset(buffer[i].image + (size_t)y * PITCH, (int)i, WIDTH);
    }
    finish();
}

static void three_dimensions(void)
{
    start();
    for (unsigned i = 0; i + 1 < BUFFERS; i++) {
        CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = buffer[i].at,
                              .srcXInBytes = 3,
                              .srcY = 1,
                              .srcPitch = 200,
                              .srcHeight = 60,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = buffer[i + 1].at,
                              .dstZ = 2,
                              .dstPitch = 300,
                              .dstHeight = 50,
                              .WidthInBytes = 111,
                              .Height = 40,
                              .Depth = 20};

        for (unsigned z = 0; z < 20; z++)
            for (unsigned y = 0; y < 40; y++)
                memcpy(buffer[i + 1].image + 300 * (50 * (z + 2) + y),
                       buffer[i].image + 200 * (60 * z + y + 1) + 3, 111);
        if (i % 2) {
            CU(cuMemcpy3DAsync(&copy, stream));
            CU(cuStreamSynchronize(stream));
        } else {
            CU(cuMemcpy3D(&copy));
            CU(cuCtxSynchronize());
        }
    }
    finish();
}

/* Nothing is read or written beyond an allocation, wherever its contents are. */
static void beyond_the_end(void)
{
    start();
    for (unsigned i = 0; i < BUFFERS; i++) {
        size_t size = buffer[i].size + (4 << 20);
        unsigned char *large = calloc(1, size);
        CUresult up, down;

        REQUIRE(large, "memory");
        up = cuda.cuMemcpyHtoD(buffer[i].at, large, size);
        down = cuda.cuMemcpyDtoH(large, buffer[i].at, size);
        REQUIRE(up == CUDA_ERROR_INVALID_VALUE, "%s", job_error_name(up));
        REQUIRE(down == CUDA_ERROR_INVALID_VALUE, "%s", job_error_name(down));
        free(large);
    }
    finish();
}

/* A source that is used again as soon as the call has returned. */
static void pageable_is_taken(void)
{
    start();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < BUFFERS; i++) {
            fill_host(pageable, buffer[i].size);
            memcpy(buffer[i].image, pageable, buffer[i].size);
            CU(cuMemcpyHtoDAsync(buffer[i].at, pageable, buffer[i].size, stream));
            memset(pageable, 0xee, buffer[i].size);
        }
    }
    finish();
}

static unsigned synchronizes(CUdeviceptr address)
{
    unsigned value;

    CU(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    return value;
}

#define DONE(call)                                                                                           \
    do {                                                                                                     \
        CU(call);                                                                                            \
        REQUIRE(cuda.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_SUCCESS, "%s", #call);                          \
    } while (0)

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: synchronous forms are done when they return, whichever end has it. */
static void always_waited_for(void)
{
    enum { SET = 1 };
    unsigned on = 1;

    start();
    CU(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffer[SET].at + 77));
    for (unsigned i = 0; i < BUFFERS; i++)
        REQUIRE(synchronizes(buffer[i].at) == (i == SET));
    fill_host(pageable, buffer[SET].size);
    memcpy(buffer[SET].image, pageable, buffer[SET].size);
    DONE(cuMemcpyHtoD(buffer[SET].at, pageable, buffer[SET].size));
    DONE(cuMemcpyDtoD(buffer[7].at, buffer[SET].at, MIB));
    DONE(cuMemcpy(buffer[SET].at + MIB, buffer[0].at, MIB));
    DONE(cuMemsetD8(buffer[SET].at, 5, 100));
    DONE(cuMemsetD32(buffer[SET].at + 100, 0x06060606, 25));
    DONE(cuMemsetD2D8(buffer[SET].at + 200, 100, 7, 100, 3));
    memcpy(buffer[7].image, buffer[SET].image, MIB);
    memcpy(buffer[SET].image + MIB, buffer[0].image, MIB);
    memset(buffer[SET].image, 5, 100);
    memset(buffer[SET].image + 100, 6, 100);
    memset(buffer[SET].image + 200, 7, 300);
    on = 0;
    CU(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffer[SET].at));
    REQUIRE(synchronizes(buffer[SET].at) == 0);
    on = 1;
    CU(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffer[SET].at));
    CU(cuMemFree(buffer[SET].at)); /* goes with the allocation */
    CU(cuMemAlloc(&buffer[SET].at, buffer[SET].size));
    REQUIRE(synchronizes(buffer[SET].at) == 0);
    CU(cuMemcpyHtoD(buffer[SET].at, buffer[SET].image, buffer[SET].size));
    finish();
}

/* No bytes: nothing happens and nothing is wrong. */
static void nothing(void)
{
    start();
    for (unsigned i = 0; i < BUFFERS; i++) {
        CU(cuMemcpyHtoD(buffer[i].at, pageable, 0));
        CU(cuMemcpyDtoHAsync(pageable, buffer[i].at, 0, stream));
        CU(cuMemcpyDtoD(buffer[i].at, buffer[BUFFERS - 1 - i].at, 0));
        CU(cuMemsetD8(buffer[i].at, 1, 0));
    }
    finish();
}

static const struct scenario scenarios[] = {
    {.name = "linear", .job = linear, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "linear_in_parts", /* what is larger is in several slots */
     .job = linear,
     .variables = "HBMSPILL_TEST_SLOT=2M",
     .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "two_dimensions", .job = two_dimensions, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "three_dimensions", .job = three_dimensions, .flags = SCENARIO_SPILLS | SCENARIO_UNCOUNTED},
    {.name = "beyond_the_end", .job = beyond_the_end},
    {.name = "pageable_is_taken", .job = pageable_is_taken},
    {.name = "always_waited_for", .job = always_waited_for, .flags = SCENARIO_UNCOUNTED, .hbm = "32M"},
    {.name = "nothing", .job = nothing},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "copies", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
