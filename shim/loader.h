/*
 * loader.h - which pointers the job is given in place of the driver's. Private to shim/.
 *
 * The driver's functions are known by where they are: a pointer is replaced if it lies in the one libcuda (or
 * libcudart) that the table of real functions was filled from, and is the function of a listed name there.
 * Other objects may export names that start with cu as they like.
 *
 * Threads: all functions may be called by any thread at any time, inside constructors too: no lock is held
 * across a call into the dynamic linker, whose own lock a constructor holds.
 */
#ifndef HBMSPILL_SHIM_LOADER_H
#define HBMSPILL_SHIM_LOADER_H

#include <stdbool.h>
#include <stddef.h>

enum function_library { LIBRARY_DRIVER, LIBRARY_RUNTIME };

/* A line of the list. */
struct function {
    const char *name;
    const char *type; /* name of the typedef, which ends in the CUDA version: _v12000, _v7000_ptsz */
    void *hook;       /* NULL where the function is only called */
    void **real;      /* its entry in the table of real functions */
    void *by_version; /* the pointer cuGetProcAddress gives for it, where that is another one (atomic) */
    enum function_library library;
};

/* The line of a listed name that has a wrapper, or NULL. */
struct function *function_find(const char *name);

/*
 * The wrapper to hand out where looking up `function` by name gave `answer`; NULL if the answer is to be left
 * alone. Clears dlerror's state, as a lookup that succeeded has it.
 */
void *function_substitute(struct function *function, void *answer);

/*
 * The pointer to hand out where cuGetProcAddress, asked for `symbol` (without version suffix), gave `answer`:
 * a wrapper, or the answer itself.
 */
void *function_filter(void *answer, const char *symbol);

/* Whether an address lies in a libcuda. */
bool function_in_driver(void *address);

/* How often a pointer was replaced, not counting the functions that only lead to others. */
unsigned long function_substitutions(void);

/* dlsym as the C library has it, without passing through ours. */
void *loader_real_dlsym(void *handle, const char *name);

#endif
