/*
 * ptx.h - the PTX interpreter of the synthetic GPU.
 *
 * Decodes PTX text once (an opcode it does not know fails here, by name) and runs grids of thread blocks.
 * It knows nothing of streams, contexts or allocation: the driver (cuda_*.c) gives it addresses and a way to
 * reach the memory behind them.
 *
 * Threads: a module may be run by several threads at once once its globals have addresses; parsing and
 * ptx_module_set_global_address are the caller's to serialise.
 * Errors: 0 or -errno. Addresses are device virtual addresses, sizes are bytes.
 */
#ifndef SYNTHETIC_PTX_H
#define SYNTHETIC_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_module;

struct ptx_param {
    uint32_t offset, size, align;
};

/* A kernel of a module; owned by the module. */
struct ptx_kernel {
    const char *name;
    const struct ptx_module *module;
    uint32_t param_count, param_bytes;
    const struct ptx_param *params;
    uint32_t reqntid[3], maxntid[3]; /* 0 where the PTX does not say */
    uint32_t shared_bytes;           /* static .shared */
    uint32_t local_bytes;            /* .local per thread */
    uint32_t registers;              /* of all types, as declared */
    bool has_atomics;                /* its blocks must run on one thread, in order, to be reproducible */
};

/* A module-scope .global or .const variable. */
struct ptx_global {
    const char *name;
    uint64_t size, align;
    const void
        *init; /* size bytes, or NULL: zero. References to other globals are patched on address setting */
    bool constant;
};

/*
 * Memory as a kernel sees it. A device address inside [window_base, window_base + window_size) is reached by
 * the CPU at address + window_delta; what is not mapped there faults and the launch ends with -EFAULT. Any
 * other address (pinned host memory) goes through translate, which returns NULL where the device has no such
 * access.
 */
struct ptx_memory {
    uint64_t window_base, window_size;
    int64_t window_delta;
    void *(*translate)(void *ctx, uint64_t address, size_t size, bool write);
    void *ctx;
};

/*
 * What a launch reads and writes of memory: of the window in pieces of PTX_PIECE bytes, of which it keeps
 * which units of PTX_UNIT bytes were read and which written. seen has a word for each piece of the window,
 * that of the launch that touched it last; it is shared by all launches, which have numbers of their own. The
 * functions may be called by several threads at once; counts are added to when threads of the launch end.
 */
enum { PTX_PIECE = 256, PTX_UNIT = 32 };
struct ptx_traffic {
    uint64_t *seen;
    uint32_t number;                   /* of the launch, 1 to 2^30 - 1 */
    bool (*is_host)(uint64_t address); /* this piece of the window is memory of the host */
    /* Pieces, each once, in any order: (address - window_base) / PTX_PIECE. */
    void (*touched)(struct ptx_traffic *traffic, const uint64_t *pieces, uint32_t count);
    /* The word of a piece that has a bit for each unit of 4 bytes that was ever written; NULL: not known. */
    uint64_t *(*defined)(uint64_t address);
    /* Units of it are read that were not, by that line of the kernel's PTX. */
    void (*undefined)(struct ptx_traffic *traffic, uint64_t address, uint64_t units, uint32_t line);
    /* An access outside of the window, by that line. */
    void (*outside)(struct ptx_traffic *traffic, uint64_t address, uint32_t size, bool write, uint32_t line);
    uint64_t device_read, device_written, host_read,
        host_written; /* bytes, each piece counted once, atomic */
};
/* The units of a piece that a launch with that number has read or written, a bit each. */
static inline uint8_t ptx_units_touched(uint64_t word, uint32_t number, bool write)
{
    return word >> 34 == number ? (uint8_t)(word >> (write ? 8 : 0)) : 0;
}

struct ptx_launch {
    const struct ptx_kernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared_bytes;
    const void *params; /* kernel->param_bytes, laid out by params[].offset */
    const struct ptx_memory *memory;
    struct ptx_traffic *traffic; /* NULL: not counted */
};

struct ptx_fault {
    const char *kernel;
    uint32_t line; /* of the PTX text, 1-based */
    uint64_t address;
    bool write;
    char reason[96];
};

/*
 * text need not end in NUL and need not stay. error gets one line ("line 12: unknown opcode `foo.b32'").
 * -ENOSYS: an opcode or form that is not implemented. -EINVAL: not PTX.
 */
int ptx_module_parse(const char *text, size_t length, struct ptx_module **out, char *error,
                     size_t error_size);
void ptx_module_free(struct ptx_module *module);

size_t ptx_module_kernels(const struct ptx_module *module, const struct ptx_kernel **out);
const struct ptx_kernel *ptx_module_find_kernel(const struct ptx_module *module, const char *name);

size_t ptx_module_globals(const struct ptx_module *module, const struct ptx_global **out);
/* Every global must have an address before the first run. */
void ptx_module_set_global_address(struct ptx_module *module, size_t index, uint64_t address);

/*
 * Runs thread blocks [first, end) of the grid (block index x fastest). -EFAULT fills *fault. *instructions,
 * where not NULL, is increased by the lane-instructions run. Needs ptx_install_fault_handler to have been
 * called.
 */
int ptx_run(const struct ptx_launch *launch, uint64_t first, uint64_t end, struct ptx_fault *fault,
            uint64_t *instructions);

/*
 * Catches SIGSEGV and SIGBUS raised inside ptx_run by the window's unmapped pages; everything else goes to
 * the handler that was there before. May be called more than once (it puts itself back in front).
 */
void ptx_install_fault_handler(void);

#endif
