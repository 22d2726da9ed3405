/*
 * order.h - which operation is before which, by what CUDA guarantees, however this run happens to go.
 *
 * Vector clocks: every stream is a *chain*, its operations numbered as they are submitted (numbers rise over
 * all chains); a clock has for each chain the number of the last operation that it knows has ended. Before an
 * operation are: what is in its stream before it; what the events it waits for were recorded after; by the
 * legacy stream's rule, what the others were given before; and what the host knew when it submitted it. The
 * host learns by waiting, by a query that answers yes, and where a host function is called.
 *
 * The host is one: what one thread has learned all are taken to know, since how threads tell each other
 * cannot be seen. Who has waited for a value in memory is taken to know all that had ended by then. Either
 * may hide an error and never makes one up.
 *
 * A chain is used again when its stream is gone and the host knows its last operation. All functions want
 * driver_lock. Memory that is short ends the bookkeeping, with a message: then everything is ordered.
 */
#ifndef SYNTHETIC_ORDER_H
#define SYNTHETIC_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct op;
struct CUstream_st;
struct CUctx_st;

struct order_clock {
    unsigned count;
    uint64_t *at; /* owned; by chain */
};

struct op_order {
    uint64_t number;
    unsigned chain;
    struct order_clock before; /* itself included */
};

struct stream_order {
    unsigned chain;
    uint64_t last;                /* number of its last operation */
    struct order_clock submitted; /* before whatever comes next */
    struct order_clock ended;
    struct order_clock acquired; /* learned while it ran, which what was submitted meanwhile does not know */
};

void order_stream_new_locked(struct CUstream_st *stream);
void order_stream_free_locked(struct CUstream_st *stream);

/* An operation that is being submitted, its stream and context set; after which others it has to run. */
void order_submit_locked(struct op *op, struct op *const *after, unsigned after_count);
/* It starts later than another one, too: an event that one of its nodes waits for. */
void order_after_locked(struct op *op, const struct op *other);
void order_start_locked(struct op *op);
void order_end_locked(struct op *op);
void order_free_locked(struct op_order *order);

/* The host knows that an operation has ended; all of a stream; all of a context. */
void order_host_saw_locked(const struct op *op);
void order_host_saw_stream_locked(const struct CUstream_st *stream);
void order_host_saw_context_locked(const struct CUctx_st *ctx);

/* The number of the last operation submitted. */
uint64_t order_now_locked(void);
/* Operation number of a chain is before op; has ended as far as the host knows. */
bool order_before_locked(unsigned chain, uint64_t number, const struct op *op);
bool order_before_host_locked(unsigned chain, uint64_t number);

#endif
