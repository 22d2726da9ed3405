/*
 * kernel.h - what is known of a kernel: where its parameters are, and whether it is closed.
 *
 * Closed: it touches only allocations its parameters point into. Taken to be so (HBMSPILL_CLOSED=auto):
 * kernels of modules that the XLA plugin itself loads, which are XLA's own (FACTS: no hidden touch in
 * thousands of launches), and those that a table has for closed, by the hash of their module
 * (kernels_table.h). Every other kernel is open, and so is one whose parameters the driver cannot list, or
 * that the table has for open.
 *
 * Threads: any; one lock, held for look-ups and, the first time a kernel is seen, while the driver is asked.
 */
#ifndef HBMSPILL_HOOKS_KERNEL_H
#define HBMSPILL_HOOKS_KERNEL_H

#include "hooks/image.h"
#include "hooks/touches.h"
#include "shim/shim.h"

struct kernel {
    CUfunction function; /* or a CUkernel: a launch accepts either */
    bool closed;
    bool listed;      /* its parameters are known */
    bool known_open;  /* the table says so */
    const char *hash; /* of its module's image, "" where it was not taken; as long as the module is loaded */
    unsigned most_threads; /* in a block; UINT_MAX where the driver does not say */
    unsigned count;
    struct kernel_param {
        size_t offset, size;
    } * params;
    const char *name; /* the driver's string, "?" where it has none */
};

/* A copy of what is known; params belongs to the record, which lives until its module is unloaded. */
struct kernel kernel_find(CUfunction function);

/* Adds every pointer among the parameters of a launch. False: they cannot be read, treat the launch as open.
 */
bool kernel_touches(const struct kernel *kernel, void **params, void **extra, struct touches *touches);

/* Called by the module hooks: `caller' is the return address of the load. The image it is of, or its file. */
void kernel_module_loaded(const void *module, const void *caller, const void *image, const char *path);
void kernel_module_unloaded(const void *module);

#endif
