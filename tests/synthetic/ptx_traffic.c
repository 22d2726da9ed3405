/*
 * ptx_traffic.c - counts what a launch touches of memory: the slow part, once for each piece.
 */
#include "ptx_run.h"

/* Threads of a launch come here for the same piece at a time; one of them counts it. */
void ptx_traffic_count(struct ptx_exec *x, uint64_t piece, bool write)
{
    const struct ptx_traffic *traffic = x->traffic;
    uint32_t *word = &traffic->seen[piece], seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    uint32_t bit = write ? 2 : 1, next;
    do {
        uint32_t so_far = seen >> 2 == traffic->number ? seen & 3 : 0;
        if (so_far & bit)
            return;
        next = traffic->number << 2 | so_far | bit;
    } while (!__atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (traffic->is_host(x->memory.window_base + piece * PTX_PIECE))
        x->host_pieces[write]++;
    else
        x->device_pieces[write]++;
}

void ptx_traffic_add(struct ptx_exec *x)
{
    struct ptx_traffic *traffic = x->traffic;
    if (!traffic)
        return;
    __atomic_fetch_add(&traffic->device_read, x->device_pieces[0] * PTX_PIECE, __ATOMIC_RELAXED);
    __atomic_fetch_add(&traffic->device_written, x->device_pieces[1] * PTX_PIECE, __ATOMIC_RELAXED);
    __atomic_fetch_add(&traffic->host_read, x->host_pieces[0] * PTX_PIECE + x->host_bytes[0],
                       __ATOMIC_RELAXED);
    __atomic_fetch_add(&traffic->host_written, x->host_pieces[1] * PTX_PIECE + x->host_bytes[1],
                       __ATOMIC_RELAXED);
}
