/*
 * fake_cuda.c - a libcuda.so.1 with a handful of functions, for the tests of the loader.
 *
 * cuGetProcAddress answers by version and flags as the driver documents: the newest version of a function
 * that is not newer than the one asked for; the per-thread variant where that flag is given; NOT_FOUND with a
 * status otherwise. With FAKE_CUDA_DISTINCT set it gives other pointers than the exported symbols, as a
 * driver may.
 *
 * fake_calls counts what reached this library.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT extern unsigned int fake_calls;
EXPORT extern CUresult fake_init_result;
unsigned int fake_calls;
CUresult fake_init_result;

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status);
EXPORT int cuFakeUnlisted(void);
EXPORT void *cuFakeExported(const char *symbol);

EXPORT CUresult cuInit(unsigned int flags)
{
    fake_calls++;
    return flags ? CUDA_ERROR_INVALID_VALUE : fake_init_result;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    fake_calls++;
    *version = 13000;
    return CUDA_SUCCESS;
}

EXPORT int cuFakeUnlisted(void)
{
    return 4711;
}

/* What cuGetProcAddress gives instead of the exported functions. */
static CUresult distinct_init(unsigned int flags)
{
    return cuInit(flags);
}

static CUresult distinct_get(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    return cuGetProcAddress(symbol, pfn, version, flags);
}

static CUresult distinct_get_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                CUdriverProcAddressQueryResult *status)
{
    return cuGetProcAddress_v2(symbol, pfn, version, flags, status);
}

static CUresult distinct_get_v2_ptsz(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
    return cuGetProcAddress_v2_ptsz(symbol, pfn, version, flags, status);
}

/* Newest first. */
static const struct entry {
    const char *symbol;
    int since;
    int per_thread;
    void *exported, *distinct;
} entries[] = {
    {"cuInit", 2000, 0, (void *)cuInit, (void *)distinct_init},
    {"cuDriverGetVersion", 2020, 0, (void *)cuDriverGetVersion, (void *)cuDriverGetVersion},
    {"cuFakeUnlisted", 9000, 0, (void *)cuFakeUnlisted, (void *)cuFakeUnlisted},
    {"cuGetProcAddress", 12000, 1, (void *)cuGetProcAddress_v2_ptsz, (void *)distinct_get_v2_ptsz},
    {"cuGetProcAddress", 12000, 0, (void *)cuGetProcAddress_v2, (void *)distinct_get_v2},
    {"cuGetProcAddress", 11030, 0, (void *)cuGetProcAddress, (void *)distinct_get},
};

/* The exported function of an entry's name, past every dlsym. */
EXPORT void *cuFakeExported(const char *symbol)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (!strcmp(entries[i].symbol, symbol))
            return entries[i].exported;
    return NULL;
}

static CUresult find(const char *symbol, void **pfn, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status)
{
    const int distinct = getenv("FAKE_CUDA_DISTINCT") != NULL;
    const int per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

    fake_calls++;
    if (!symbol)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(entries[i].symbol, symbol) != 0 || (entries[i].per_thread && !per_thread))
            continue;
        if (entries[i].since > version) {
            found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
            continue;
        }
        if (pfn)
            *pfn = distinct ? entries[i].distinct : entries[i].exported;
        if (status)
            *status = CU_GET_PROC_ADDRESS_SUCCESS;
        return CUDA_SUCCESS;
    }
    if (pfn)
        *pfn = NULL;
    if (status)
        *status = found;
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    return find(symbol, pfn, version, flags, NULL);
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    return find(symbol, pfn, version, flags, status);
}

EXPORT CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                         CUdriverProcAddressQueryResult *status)
{
    if (!(flags & (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
        flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return find(symbol, pfn, version, flags, status);
}
