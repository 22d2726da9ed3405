/*
 * test_hazards_memory.c - planted hazards of memory: taken away while it is in use, there too late, or read
 * although nobody has written it.
 */
#include "planted.h"

static CUdeviceptr mapping(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CUmemAllocationProp prop = device_prop();
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemAddressReserve(&at, PAGE, 0, 0, 0));
    OK(cuMemMap(at, PAGE, 0, handle, 0));
    OK(set_access(at, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cuMemRelease(handle));
    return at;
}

/* ---- memory that is taken away, or comes too late ---- */

/* A mapping that is written to; known: the host knows that it has been. */
static CUdeviceptr written_mapping(bool known)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    if (known)
        OK(cuStreamSynchronize(one));
    else
        let_it_run();
    return at;
}

static void unmapped(bool known)
{
    OK(cuMemUnmap(written_mapping(known), PAGE));
}

static void made_inaccessible(bool known)
{
    CUdeviceptr at = written_mapping(known);
    OK(set_access(at, PAGE, CU_MEM_ACCESS_FLAGS_PROT_NONE));
}

static void freed_by_the_host(bool known)
{
    CUdeviceptr at;
    OK(cuMemAllocAsync(&at, BYTES, one));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    if (known)
        OK(cuStreamSynchronize(one));
    else
        let_it_run();
    OK(cuMemFree(at));
}

static void freed_by_another_stream(bool ordered)
{
    CUdeviceptr at;
    OK(cuMemAllocAsync(&at, BYTES, one));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    if (ordered)
        order(one, two);
    OK(cuMemFreeAsync(at, two));
}

/* Memory of a pool goes to another stream when its free has been reached, without anybody waiting for that.
 */
static void used_after_the_free(bool anew)
{
    CUdeviceptr at, again;
    OK(cuMemAllocAsync(&at, BYTES, one));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    OK(cuMemFreeAsync(at, one));
    let_it_run();
    if (anew)
        OK(cuMemAllocAsync(&again, BYTES, two));
    OK(launch_copy(anew ? again : at, p, WORDS / 64, two));
}

static void mapped_late(bool in_time)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at = mapping(), flag = q;
    CUmemAllocationProp prop = device_prop();
    OK(cuMemsetD32(flag, 0, 1));
    OK(cuMemUnmap(at, PAGE));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(one, flag, 1, CU_STREAM_WAIT_VALUE_EQ)); /* so that it goes well this time */
    if (!in_time)
        OK(launch_copy(at, p, 1, one));
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemMap(at, PAGE, 0, handle, 0));
    OK(set_access(at, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    if (in_time)
        OK(launch_copy(at, p, 1, one));
    OK(cuStreamWriteValue32(two, flag, 1, 0));
}

/* ---- memory that nobody has written ---- */

/* All in one stream: launch_increment reads and writes 256 bytes. */

static void new_memory(bool written)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at, 3, written ? 64 : 63, one));
    OK(launch_increment(at, 1, one));
    OK(launch_copy(at + 1024, p, 1, one)); /* a kernel's stores count */
    OK(launch_increment(at + 1024, 1, one));
}

/* Freed memory of a pool is nobody's, whoever gets it. */
static void memory_used_again(bool written)
{
    CUdeviceptr at, again;
    OK(cuMemAllocAsync(&at, BYTES, one));
    OK(cuMemsetD32Async(at, 3, WORDS, one));
    OK(cuMemFreeAsync(at, one));
    OK(cuMemAllocAsync(&again, BYTES, one));
    ck_assert_uint_eq(again, at);
    if (written)
        OK(cuMemcpyDtoDAsync(again, p, 256, one));
    OK(launch_increment(again, 1, one));
}

/* A copy of what is undefined is nothing wrong; to use the copy is. */
static void copied_on_the_device(bool only_what_was_written)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at + 300, 3, 64, one));
    OK(cuMemcpyDtoDAsync(at + PAGE / 2, at, 1000, one));
    OK(launch_increment(at + PAGE / 2 + (only_what_was_written ? 300 : 296), 1, one));
}

static void copied_through_pinned_memory(bool only_what_was_written)
{
    CUdeviceptr at = mapping();
    OK(cuMemsetD32Async(at + 20, 3, 64, one));
    OK(cuMemcpyDtoHAsync(pinned + 1, at + 4, 600, one));
    OK(cuMemcpyHtoDAsync(at + PAGE / 2, pinned + 1, 600, one));
    OK(launch_increment(at + PAGE / 2 + (only_what_was_written ? 16 : 20), 1, one));
}

/* What the CPU has written in between counts, though nobody sees it. */
static void written_by_the_cpu(bool written)
{
    CUdeviceptr at = mapping();
    OK(cuMemcpyDtoHAsync(pinned, at, 256, one));
    OK(cuStreamSynchronize(one));
    memset(pinned, 0, written ? 256 : 252);
    OK(cuMemcpyHtoDAsync(at + PAGE / 2, pinned, 256, one));
    OK(launch_increment(at + PAGE / 2, 1, one));
}

/* As much as is looked at in one go, and nobody has written any of it. */
static void written_by_the_cpu_in_part(bool all_of_it)
{
    CUdeviceptr at = mapping();
    ck_assert_uint_eq((uintptr_t)pinned % 256, 0);
    OK(cuMemcpyDtoHAsync(pinned, at, 768, one));
    OK(cuStreamSynchronize(one));
    memset(pinned, 0, all_of_it ? 768 : 512);
    OK(cuMemcpyHtoDAsync(at + PAGE / 2, pinned, 768, one));
    OK(launch_increment(at + PAGE / 2 + 512, 1, one));
}

static void read_where_it_is_pinned(bool written)
{
    CUdeviceptr at = mapping();
    OK(cuMemcpyDtoHAsync(pinned, written ? p : at, 256, one));
    OK(launch_increment((CUdeviceptr)(uintptr_t)pinned, 1, one));
}

/* Frames of the host that the CPU may write. */
static void memory_of_the_host(bool written)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
    CUmemAccessDesc desc[2] = {
        {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    OK(cuMemCreate(&handle, PAGE, &prop, 0));
    OK(cuMemAddressReserve(&at, PAGE, 0, 0, 0));
    OK(cuMemMap(at, PAGE, 0, handle, 0));
    OK(cuMemSetAccess(at, PAGE, desc, 2));
    memset((void *)(uintptr_t)at, 0, written ? 256 : 252);
    OK(launch_increment(at, 1, one));
}

static void handed_to_the_host(bool written)
{
    char pageable[100];
    CUdeviceptr at = mapping();
    OK(cuMemsetD8Async(at, 3, written ? 109 : 108, one)); /* a unit written in part counts as written */
    OK(cuMemcpyDtoHAsync(pageable, at + 12, 100, one));
}

/* ---- the cases ---- */

static const struct plant cases[] = {
    {"unmapped", unmapped, "memory-in-use", "cuMemUnmap", "a memset"},
    {"made inaccessible", made_inaccessible, "memory-in-use", "cuMemSetAccess", "a memset"},
    {"freed by the host", freed_by_the_host, "memory-in-use", "cuMemFree", "a memset"},
    {"freed by another stream", freed_by_another_stream, "freed-in-use", "free", "a memset"},
    {"used after the free", used_after_the_free, "freed-in-use", "free", "kernel copy"},
    {"new memory", new_memory, "undefined-read", "kernel increment", "PTX line 17"},
    {"memory used again", memory_used_again, "undefined-read", "kernel increment", "PTX line 17"},
    {"copied on the device", copied_on_the_device, "undefined-read", "kernel increment", "PTX line 17"},
    {"copied through pinned memory", copied_through_pinned_memory, "undefined-read", "kernel increment",
     "PTX line 17"},
    {"written by the CPU", written_by_the_cpu, "undefined-read", "kernel increment", "PTX line 17"},
    {"written by the CPU in part", written_by_the_cpu_in_part, "undefined-read", "kernel increment",
     "PTX line 17"},
    {"read where it is pinned", read_where_it_is_pinned, "undefined-read", "kernel increment", "PTX line 17"},
    {"memory of the host", memory_of_the_host, "undefined-read", "kernel increment", "PTX line 17"},
    {"handed to the host", handed_to_the_host, "undefined-read", "a copy of 100 bytes", "hands the host"},
    {"mapped late", mapped_late, "mapped-late", "kernel copy", "no access when it was submitted"},
};

int main(void)
{
    return planted_main("hazards of memory", cases, sizeof(cases) / sizeof(cases[0]));
}
