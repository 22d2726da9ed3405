/*
 * runtime_functions.h - the functions of libcudart that hand out driver functions.
 *
 * libcudart finds them through cuGetProcAddress, which is filtered already where libcudart looked it up after
 * us; these wrappers filter again, by the pointer, and change nothing then. As functions.h otherwise.
 */
#ifndef HBMSPILL_SHIM_RUNTIME_FUNCTIONS_H
#define HBMSPILL_SHIM_RUNTIME_FUNCTIONS_H

#include <driver_types.h>

/*
 * CUDA 11's cudaGetDriverEntryPoint has no `status`; passing one more register argument is harmless in the
 * System V ABI. ByVersion came with 12.5.
 */
typedef cudaError_t (*PFN_cudaGetDriverEntryPoint_v11030)(const char *symbol, void **function,
                                                          unsigned long long flags,
                                                          enum cudaDriverEntryPointQueryResult *status);
typedef cudaError_t (*PFN_cudaGetDriverEntryPointByVersion_v12050)(
    const char *symbol, void **function, unsigned int version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *status);

/* clang-format off */
#define HBMSPILL_HOOKED_RUNTIME(X) \
    X(cudaGetDriverEntryPoint, PFN_cudaGetDriverEntryPoint_v11030) \
    X(cudaGetDriverEntryPoint_ptsz, PFN_cudaGetDriverEntryPoint_v11030) \
    X(cudaGetDriverEntryPointByVersion, PFN_cudaGetDriverEntryPointByVersion_v12050) \
    X(cudaGetDriverEntryPointByVersion_ptsz, PFN_cudaGetDriverEntryPointByVersion_v12050)
/* clang-format on */

struct hbmspill_real_runtime {
#define FUNCTION_MEMBER(symbol, type) type symbol;
    HBMSPILL_HOOKED_RUNTIME(FUNCTION_MEMBER)
#undef FUNCTION_MEMBER
};

extern struct hbmspill_real_runtime hbmspill_real_runtime;

#define FUNCTION_PROTOTYPE(symbol, type) __typeof__(*(type)0) hook_##symbol;
HBMSPILL_HOOKED_RUNTIME(FUNCTION_PROTOTYPE)
#undef FUNCTION_PROTOTYPE

#endif
