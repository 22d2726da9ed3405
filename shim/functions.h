/*
 * functions.h - the driver functions hbmspill has to do with.
 *
 * HBMSPILL_HOOKED lists those that have a wrapper, HBMSPILL_REAL those that are only called. A line is the
 * exact symbol that libcuda exports and the typedef of cudaTypedefs.h for that version (the compiler checks
 * that the two belong together, in functions.c, and that the wrapper has that type, here). To wrap another
 * function add a line and write hook_<symbol> in hooks/; nothing else. Symbols that end in _ptsz or _ptds are
 * like any other.
 *
 * Real functions are hbmspill_real.<symbol>, NULL where the driver has no such symbol: check those that are
 * not in every driver. The table is filled before the first substituted pointer is handed out, so a hook
 * always finds its own entry set.
 *
 * cuda.h maps some old names to new ones by macro; a listed symbol that is such a name is undefined below, so
 * that a name in this tree is the symbol it says.
 */
#ifndef HBMSPILL_SHIM_FUNCTIONS_H
#define HBMSPILL_SHIM_FUNCTIONS_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdbool.h>

#undef cuGetProcAddress

/* clang-format off */
#define HBMSPILL_HOOKED(X) \
    X(cuInit, PFN_cuInit_v2000) \
    X(cuGetProcAddress, PFN_cuGetProcAddress_v11030) \
    X(cuGetProcAddress_v2, PFN_cuGetProcAddress_v12000) \
    X(cuGetProcAddress_v2_ptsz, PFN_cuGetProcAddress_v12000)

#define HBMSPILL_REAL(X) \
    X(cuDriverGetVersion, PFN_cuDriverGetVersion_v2020) \
    X(cuGetErrorName, PFN_cuGetErrorName_v6000)
/* clang-format on */

struct hbmspill_real {
#define FUNCTION_MEMBER(symbol, type) type symbol;
    HBMSPILL_HOOKED(FUNCTION_MEMBER)
    HBMSPILL_REAL(FUNCTION_MEMBER)
#undef FUNCTION_MEMBER
};

/* Written by functions_substitute alone; constant once it has handed out a pointer. */
extern struct hbmspill_real hbmspill_real;

#define FUNCTION_PROTOTYPE(symbol, type) __typeof__(*(type)0) hook_##symbol;
HBMSPILL_HOOKED(FUNCTION_PROTOTYPE)
#undef FUNCTION_PROTOTYPE

#endif
