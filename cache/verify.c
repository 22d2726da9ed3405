#include "cache/verify.h"
#include "cache/segment.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* What a host function needs. */
struct check {
    const struct verify *verify;
    const void *scratch, *slot;
    struct slot_sum *sum;
    bool known;
    struct cache_mismatch piece;
};

int verify_init(struct verify *verify, const struct device_ops *ops, struct statistics *statistics,
                uint64_t piece_size, void *ctx, void (*mismatch)(void *, const struct cache_mismatch *))
{
    int error;

    *verify = (struct verify){.ops = ops, .statistics = statistics, .ctx = ctx, .mismatch = mismatch};
    error = ops->host_alloc(ops->ctx, piece_size, &verify->scratch[0]);
    if (!error)
        error = ops->host_alloc(ops->ctx, piece_size, &verify->scratch[1]);
    if (error)
        verify_fini(verify);
    return error;
}

void verify_fini(struct verify *verify)
{
    for (unsigned i = 0; i < 2; i++)
        if (verify->scratch[i])
            (void)verify->ops->host_free(verify->ops->ctx, verify->scratch[i]);
    verify->scratch[0] = verify->scratch[1] = NULL;
}

/* The host function: on a thread of the driver's, in the order of the stream. */
static void look(void *data)
{
    struct check *check = data;
    uint64_t size = check->piece.piece_size, sum = XXH3_64bits(check->scratch, size);
    bool same;

    if (check->piece.out)
        same = XXH3_64bits(check->slot, size) == sum;
    else if (check->known)
        same = check->sum->sum == sum;
    else
        same = memcmp(check->slot, check->scratch, size) == 0;
    if (!same)
        check->verify->mismatch(check->verify->ctx, &check->piece);
    if (check->piece.out)
        check->sum->sum = sum;
    free(check);
}

static struct slot_sum *sum_of(struct slot *slot, uint64_t unit, unsigned piece)
{
    if (!slot->sums) {
        slot->sum_count = (unsigned)((slot->size + unit - 1) / unit);
        slot->sums = calloc(slot->sum_count, sizeof *slot->sums);
    }
    return slot->sums ? &slot->sums[piece] : NULL;
}

static void name_piece(struct cache_mismatch *named, const struct segment *segment, unsigned piece)
{
    uint64_t begin = segment->piece[piece].offset, end = begin + named->piece_size;

    named->piece = named->address = segment->address + begin;
    named->site = segment->cost.site;
    for (unsigned i = 0; i < segment->items && !named->size; i++) {
        uint64_t item = i * segment->item_size;

        if (segment->live_mask & UINT32_C(1) << i && item < end && item + segment->item_size > begin) {
            named->address = segment->address + item;
            named->size = segment->asked[i];
        }
    }
}

int verify_piece(struct verify *verify, uint64_t stream, const struct segment *segment, unsigned piece,
                 bool out)
{
    const struct device_ops *ops = verify->ops;
    uint64_t size = segment_bytes(segment, piece, 1);
    struct slot_sum *sum;
    struct check *check;
    int error;

    if (!verify->scratch[out])
        return 0;
    sum = sum_of(segment_slot(segment, piece), segment->unit, piece % segment->run);
    check = sum ? malloc(sizeof *check) : NULL;
    if (!check)
        return -ENOMEM;
    *check = (struct check){.verify = verify,
                            .scratch = verify->scratch[out],
                            .slot = segment_host(segment, piece),
                            .sum = sum,
                            .known = sum->known,
                            .piece = {.piece_size = size, .out = out}};
    name_piece(&check->piece, segment, piece);
    error = ops->copy(ops->ctx, stream, (uint64_t)(uintptr_t)check->scratch, check->piece.piece, size);
    if (!error) {
        verify->statistics->verified_bytes += size;
        error = ops->host_function(ops->ctx, stream, look, check);
    }
    if (error)
        free(check);
    if (out)
        sum->known = !error;
    return error;
}

void verify_forget(struct slot *slot)
{
    for (unsigned i = 0; i < slot->sum_count; i++)
        slot->sums[i].known = false;
}
