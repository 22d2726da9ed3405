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

static uint32_t line_of(const struct ptx_exec *x)
{
    return x->op ? x->op->line : 0;
}

/* Of units of PTX_UNIT bytes, those whose bytes have all been written: nothing more is to be looked at. */
static uint64_t settled(uint64_t defined)
{
    uint64_t result = 0;
    if (defined == UINT64_MAX)
        return 0xff;
    for (unsigned i = 0; i < 8; i++)
        if ((defined >> 8 * i & 0xff) == 0xff)
            result |= 1ull << i;
    return result;
}

/* What was ever written of the piece, after this access. */
static uint64_t note_defined(struct ptx_exec *x, uint64_t address, uint32_t size, bool write)
{
    struct ptx_traffic *traffic = x->traffic;
    uint64_t *word = traffic->defined ? traffic->defined(address) : NULL;
    uint64_t first = address % PTX_PIECE / 4, last = (address + size - 1) % PTX_PIECE / 4;
    uint64_t units = (~0ull >> (63 - last)) & (~0ull << first);
    if (!word)
        return UINT64_MAX;
    uint64_t defined = __atomic_load_n(word, __ATOMIC_RELAXED);
    if (!(units & ~defined))
        return defined;
    if (write)
        return __atomic_fetch_or(word, units, __ATOMIC_RELAXED) | units;
    traffic->undefined(traffic, address, units & ~defined, line_of(x));
    return defined;
}

/* Threads of a launch come here for the same piece at a time; one of them counts it. */
void ptx_traffic_note(struct ptx_exec *x, uint64_t address, uint32_t size, bool write)
{
    struct ptx_traffic *traffic = x->traffic;
    uint64_t piece = (address - x->memory.window_base) / PTX_PIECE;
    uint64_t *word = &traffic->seen[piece], seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    uint64_t counted = 1ull << (PTX_SEEN_COUNTED + write),
             number = (uint64_t)traffic->number << PTX_SEEN_NUMBER;
    uint64_t units = ptx_units(address, size), so_far;
    uint64_t bits = units | (units & settled(note_defined(x, address, size, write))) << PTX_SEEN_SETTLED;
    bits = bits << (write ? PTX_SEEN_WRITE : 0) | counted;
    if (seen >> PTX_SEEN_NUMBER == traffic->number && !(bits & ~seen))
        return;
    do
        so_far = seen >> PTX_SEEN_NUMBER == traffic->number ? seen : number;
    while (
        !__atomic_compare_exchange_n(word, &seen, so_far | bits, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
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
        x->traffic->outside(x->traffic, address, size, write, line_of(x));
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
