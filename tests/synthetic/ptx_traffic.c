/*
 * ptx_traffic.c - what a launch touches of memory: the slow part, once for each unit of it.
 */
#include "ptx_run.h"

static void tell(struct ptx_exec *x)
{
    if (x->touched_count)
        x->traffic->touched(x->traffic, x->touched, x->touched_count);
    x->touched_count = 0;
}

/* Threads of a launch come here for the same piece at a time; one of them counts it. */
void ptx_traffic_note(struct ptx_exec *x, uint64_t address, uint32_t size, bool write)
{
    struct ptx_traffic *traffic = x->traffic;
    uint64_t piece = (address - x->memory.window_base) / PTX_PIECE;
    uint64_t *word = &traffic->seen[piece], seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    uint64_t counted = 1ull << (PTX_SEEN_COUNTED + write),
             number = (uint64_t)traffic->number << PTX_SEEN_NUMBER;
    uint64_t units = ptx_units(address, size) << (write ? PTX_SEEN_WRITE : 0), so_far;
    do
        so_far = seen >> PTX_SEEN_NUMBER == traffic->number ? seen : number;
    while (!__atomic_compare_exchange_n(word, &seen, so_far | counted | units | units << PTX_SEEN_SETTLED,
                                        false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (so_far == number) {
        x->touched[x->touched_count++] = piece;
        if (x->touched_count == sizeof(x->touched) / sizeof(x->touched[0]))
            tell(x);
    }
    if (so_far & counted)
        return;
    if (traffic->is_host(x->memory.window_base + piece * PTX_PIECE))
        x->host_pieces[write]++;
    else
        x->device_pieces[write]++;
}

void ptx_traffic_outside(struct ptx_exec *x, uint64_t address, uint32_t size, bool write)
{
    x->host_bytes[write] += size; /* no cache of the device's keeps it */
    if (x->traffic)
        x->traffic->outside(x->traffic, address, size, write);
}

void ptx_traffic_add(struct ptx_exec *x)
{
    struct ptx_traffic *traffic = x->traffic;
    if (!traffic)
        return;
    tell(x);
    __atomic_fetch_add(&traffic->device_read, x->device_pieces[0] * PTX_PIECE, __ATOMIC_RELAXED);
    __atomic_fetch_add(&traffic->device_written, x->device_pieces[1] * PTX_PIECE, __ATOMIC_RELAXED);
    __atomic_fetch_add(&traffic->host_read, x->host_pieces[0] * PTX_PIECE + x->host_bytes[0],
                       __ATOMIC_RELAXED);
    __atomic_fetch_add(&traffic->host_written, x->host_pieces[1] * PTX_PIECE + x->host_bytes[1],
                       __ATOMIC_RELAXED);
}
