/*
 * order.c - the clocks of streams, operations and the host.
 */
#include "order.h"
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static struct order_clock host;          /* what the host knows */
static struct order_clock ended;         /* all that has ended */
static struct order_clock gone;          /* of streams that are no more */
static struct order_clock gone_blocking; /* of them, those that the legacy stream waits for */
static uint64_t last_number;
static bool acquired_any; /* somebody has waited for a value */
static bool lost;         /* memory was short */

/* Chains whose stream is gone, with the number of its last operation. */
static struct chain {
    unsigned chain;
    uint64_t last;
} * unused;
static unsigned unused_count, unused_capacity, chain_count;

static void lose(void)
{
    if (!lost)
        driver_log("out of memory: the order of operations is no longer checked");
    lost = true;
}

/* ---- clocks ---- */

static bool clock_has(const struct order_clock *clock, unsigned chain, uint64_t number)
{
    return chain < clock->count && clock->at[chain] >= number;
}

static bool clock_extend(struct order_clock *clock, unsigned count)
{
    if (clock->count >= count)
        return true;
    uint64_t *grown = realloc(clock->at, count * sizeof(*grown));
    if (!grown) {
        lose();
        return false;
    }
    memset(grown + clock->count, 0, (count - clock->count) * sizeof(*grown));
    clock->at = grown;
    clock->count = count;
    return true;
}

static void clock_join(struct order_clock *clock, const struct order_clock *other)
{
    if (!clock_extend(clock, other->count))
        return;
    for (unsigned i = 0; i < other->count; i++)
        if (other->at[i] > clock->at[i])
            clock->at[i] = other->at[i];
}

static void clock_clear(struct order_clock *clock)
{
    free(clock->at);
    *clock = (struct order_clock){0};
}

/* ---- streams ---- */

void order_stream_new_locked(struct CUstream_st *stream)
{
    struct stream_order *order = &stream->order;
    order->chain = chain_count;
    for (unsigned i = 0; i < unused_count; i++) {
        if (!clock_has(&host, unused[i].chain, unused[i].last))
            continue;
        order->chain = unused[i].chain;
        order->last = unused[i].last;
        unused[i] = unused[--unused_count];
        return;
    }
    chain_count++;
}

void order_stream_free_locked(struct CUstream_st *stream)
{
    struct stream_order *order = &stream->order;
    if (!(stream->flags & CU_STREAM_NON_BLOCKING))
        clock_join(&gone_blocking, &order->ended);
    clock_join(&gone, &order->ended);
    if (unused_count == unused_capacity) {
        unsigned more = unused_capacity ? unused_capacity * 2 : 64;
        struct chain *grown = realloc(unused, more * sizeof(*grown));
        if (grown) {
            unused = grown;
            unused_capacity = more;
        }
    }
    if (unused_count < unused_capacity)
        unused[unused_count++] = (struct chain){order->chain, order->last};
    clock_clear(&order->submitted);
    clock_clear(&order->ended);
    clock_clear(&order->acquired);
}

static bool is_blocking(const struct CUstream_st *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* ---- operations ---- */

/* "Stream synchronization behavior": what the legacy stream's rule puts before an operation of stream. */
static void join_legacy_rule(struct order_clock *clock, const struct CUstream_st *stream)
{
    const struct CUstream_st *legacy = stream->ctx->legacy;
    if (!is_blocking(stream))
        return;
    if (stream != legacy) {
        clock_join(clock, &legacy->order.submitted);
        return;
    }
    clock_join(clock, &gone_blocking);
    for (const struct CUstream_st *s = stream->ctx->streams; s; s = s->next)
        if (s != legacy && is_blocking(s))
            clock_join(clock, &s->order.submitted);
}

void order_submit_locked(struct op *op, struct op *const *after, unsigned after_count)
{
    struct stream_order *stream = &op->stream->order;
    struct op_order *order = &op->order;
    order->number = stream->last = ++last_number;
    order->chain = stream->chain;
    clock_join(&order->before, &stream->submitted);
    clock_join(&order->before, &host);
    for (unsigned i = 0; i < after_count; i++)
        clock_join(&order->before, &after[i]->order.before);
    join_legacy_rule(&order->before, op->stream);
    if (clock_extend(&order->before, order->chain + 1))
        order->before.at[order->chain] = order->number;
    clock_join(&stream->submitted, &order->before);
}

void order_after_locked(struct op *op, const struct op *other)
{
    clock_join(&op->order.before, &other->order.before);
    clock_join(&op->stream->order.submitted, &op->order.before);
}

void order_start_locked(struct op *op)
{
    struct order_clock *before = &op->order.before;
    const struct CUstream_st *legacy = op->ctx->legacy;
    if (op->work.kind == WORK_WAIT_VALUE) {
        acquired_any = true;
        clock_join(before, &ended);
        clock_join(before, &host);
    }
    if (!acquired_any)
        return;
    /* What those before it have learned since it was submitted. */
    clock_join(before, &op->stream->order.acquired);
    for (unsigned i = 0; i < op->after_count; i++)
        clock_join(before, &op->after[i]->order.before);
    if (is_blocking(op->stream) && op->stream != legacy)
        clock_join(before, &legacy->order.acquired);
    for (const struct CUstream_st *s = op->stream == legacy ? op->ctx->streams : NULL; s; s = s->next)
        if (is_blocking(s))
            clock_join(before, &s->order.acquired);
}

void order_end_locked(struct op *op)
{
    struct stream_order *stream = &op->stream->order;
    clock_join(&stream->ended, &op->order.before);
    clock_join(&ended, &op->order.before);
    if (acquired_any) {
        clock_join(&stream->acquired, &op->order.before);
        clock_join(&stream->submitted, &op->order.before);
    }
}

void order_free_locked(struct op_order *order)
{
    clock_clear(&order->before);
}

/* ---- the host ---- */

void order_host_saw_locked(const struct op *op)
{
    clock_join(&host, &op->order.before);
}

void order_host_saw_stream_locked(const struct CUstream_st *stream)
{
    clock_join(&host, &stream->order.ended);
}

void order_host_saw_context_locked(const struct CUctx_st *ctx)
{
    clock_join(&host, &gone);
    for (const struct CUstream_st *s = ctx->streams; s; s = s->next)
        clock_join(&host, &s->order.ended);
}

/* ---- questions ---- */

uint64_t order_now_locked(void)
{
    return last_number;
}

bool order_before_locked(unsigned chain, uint64_t number, const struct op *op)
{
    return lost || clock_has(&op->order.before, chain, number);
}

bool order_before_host_locked(unsigned chain, uint64_t number)
{
    return lost || clock_has(&host, chain, number);
}
