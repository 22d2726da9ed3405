/*
 * fault.c - faults on demand: calls that fail, errors that stay, copies that go wrong.
 *
 * SYNTHETIC_GPU_FAULT is a comma-separated list of FUNCTION:OCCURRENCE:ERROR. The error is named without
 * CUDA_ERROR_; the occurrence is counted from 1, 0 means every call, N/K the Nth and each Kth after it; a
 * version suffix (_v2 ...) may be left out. The call does nothing and returns the error, as if something had
 * been in the way.
 *
 * Errors of which cuda.h says that they leave the process "in an inconsistent state and any further CUDA work
 * will return the same error" stay with the current context, as those of a kernel do: a call may tell of
 * "error codes from previous, asynchronous launches".
 *
 * The error CORRUPT is for copies: the call succeeds, and what is copied arrives with one bit wrong, as from
 * a link or a memory that fails.
 */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault {
    char name[64];
    uint64_t occurrence, stride, seen; /* stride 0: once */
    CUresult error;                    /* CUDA_SUCCESS: CORRUPT */
};
static struct fault faults[16];
static unsigned fault_count;
static __thread bool corrupt; /* the copy that this call makes */

/* "cuMemAlloc" names cuMemAlloc_v2 too. */
static bool name_matches(const char *wanted, const char *name)
{
    size_t n = strlen(wanted);
    if (strncmp(wanted, name, n) != 0)
        return false;
    return name[n] == 0 || (name[n] == '_' && name[n + 1] == 'v' && strlen(name + n) == 3);
}

static CUresult error_by_name(const char *name)
{
    for (int e = 1; e < 1000; e++) {
        const char *full;
        if (cuGetErrorName((CUresult)e, &full) == CUDA_SUCCESS && strncmp(full, "CUDA_ERROR_", 11) == 0 &&
            strcmp(full + 11, name) == 0)
            return (CUresult)e;
    }
    return CUDA_SUCCESS;
}

static bool parse(const char *item, struct fault *fault)
{
    char error[64];
    unsigned long long occurrence, stride = 0;
    if (sscanf(item, "%63[^:]:%llu:%63s", fault->name, &occurrence, error) == 3)
        stride = occurrence == 0;
    else if (sscanf(item, "%63[^:]:%llu/%llu:%63s", fault->name, &occurrence, &stride, error) != 4 || !stride)
        return false;
    fault->occurrence = occurrence;
    fault->stride = stride;
    if (strcmp(error, "CORRUPT") == 0)
        return strncmp(fault->name, "cuMemcpy", 8) == 0;
    fault->error = error_by_name(error);
    return fault->error != CUDA_SUCCESS;
}

void fault_read(void)
{
    const char *text = getenv("SYNTHETIC_GPU_FAULT");
    char copy[1024], *save = NULL;
    if (!text)
        return;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        struct fault fault = {0};
        if (fault_count == ARRAY_SIZE(faults) || !parse(item, &fault)) {
            driver_log("SYNTHETIC_GPU_FAULT: `%s' is not FUNCTION:OCCURRENCE:ERROR", item);
            abort();
        }
        faults[fault_count++] = fault;
    }
}

/* Those of the enumeration CUresult with that sentence. */
static bool stays(CUresult error)
{
    switch (error) {
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

static bool is_due(const struct fault *fault, uint64_t seen)
{
    if (seen < fault->occurrence)
        return false;
    return fault->stride ? (seen - fault->occurrence) % fault->stride == 0 : seen == fault->occurrence;
}

CUresult fault_inject(const char *name)
{
    corrupt = false;
    for (unsigned i = 0; i < fault_count; i++) {
        if (!name_matches(faults[i].name, name))
            continue;
        uint64_t seen = __atomic_add_fetch(&faults[i].seen, 1, __ATOMIC_RELAXED);
        if (!is_due(&faults[i], seen))
            continue;
        if (faults[i].error == CUDA_SUCCESS) {
            corrupt = true;
            continue;
        }
        if (stays(faults[i].error) && driver_initialized()) {
            driver_acquire();
            CUcontext ctx = context_current();
            if (object_valid(ctx, OBJECT_CONTEXT))
                context_fail_locked(ctx, faults[i].error);
            driver_release();
        }
        return faults[i].error;
    }
    return CUDA_SUCCESS;
}

bool fault_corrupts(void)
{
    bool wanted = corrupt;
    corrupt = false;
    return wanted;
}
