#include "hooks/link.h"
#include "cache/borrow.h"
#include "hooks/counters.h"
#include "hooks/gpu.h"
#include "shim/log.h"
#include <errno.h>
#include <string.h>
#include <time.h>

#define MILLISECOND UINT64_C(1000000)
#define PATIENCE_MAX (512 * MILLISECOND)

/* PCIe 4 x16, as published; both ways at once undiminished. */
static const struct link_rates assumed = {25e9, 25e9, 25e9, 25e9};

/* Rates outside these are taken for a clock that does not tell the time of copies. */
static const double slowest = 1e6, fastest = 4e12;

enum {
    TRAINS = 3,
    TRAIN_COPIES_MAX = 16,
    TRIES_MODEST = 2, /* tries before data is moved out for a frame */
    TRIES_QUIET = 8,  /* tries before it is measured beside the cache's own copies */
};
static const double train_nanoseconds = 4e6; /* a train of copies is made about this long */

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 * MILLISECOND + (uint64_t)time.tv_nsec;
}

/* Of one direction: its stream, and the events before and after a train of copies. */
struct lane {
    const struct device_ops *ops;
    uint64_t stream, start, end;
    uint64_t dst, src, size;
    uint64_t moved; /* bytes queued so far */
    bool busy;      /* some of it may not have completed */
    bool has_stream, has_start, has_end;
};

static int lane_open(struct lane *lane, const struct device_ops *ops, uint64_t dst, uint64_t src,
                     uint64_t size)
{
    int error;

    *lane = (struct lane){.ops = ops, .dst = dst, .src = src, .size = size};
    error = ops->stream_create(ops->ctx, &lane->stream);
    if (error)
        return error;
    lane->has_stream = true;
    error = ops->timer_create(ops->ctx, &lane->start);
    if (error)
        return error;
    lane->has_start = true;
    error = ops->timer_create(ops->ctx, &lane->end);
    lane->has_end = !error;
    return error;
}

static void lane_close(struct lane *lane)
{
    const struct device_ops *ops = lane->ops;

    if (lane->has_end)
        ops->event_destroy(ops->ctx, lane->end);
    if (lane->has_start)
        ops->event_destroy(ops->ctx, lane->start);
    if (lane->has_stream)
        ops->stream_destroy(ops->ctx, lane->stream);
}

static int lane_start(struct lane *lane)
{
    return lane->ops->event_record(lane->ops->ctx, lane->start, lane->stream);
}

static int lane_copy(struct lane *lane)
{
    int error = lane->ops->copy(lane->ops->ctx, lane->stream, lane->dst, lane->src, lane->size);

    if (!error) {
        lane->moved += lane->size;
        lane->busy = true;
    }
    return error;
}

/* Waits for all that was queued; the time of it is wanted where nothing has failed. */
static int lane_end(struct lane *lane, double *nanoseconds)
{
    const struct device_ops *ops = lane->ops;
    int error = ops->event_record(ops->ctx, lane->end, lane->stream);

    if (!error)
        error = ops->event_synchronize(ops->ctx, lane->end);
    if (error)
        return error;
    lane->busy = false;
    return ops->elapsed(ops->ctx, lane->start, lane->end, nanoseconds);
}

/* So many copies back to back, in one direction or (second not NULL) in both at once. Waits for them. */
static int train(struct lane *first, struct lane *second, unsigned copies, double nanoseconds[2])
{
    int error = lane_start(first), ended;

    if (!error && second)
        error = lane_start(second);
    for (unsigned i = 0; i < copies && !error; i++) {
        error = lane_copy(first);
        if (!error && second)
            error = lane_copy(second);
    }
    /* Also after an error: the memory is to be given back. */
    ended = lane_end(first, &nanoseconds[0]);
    error = error ? error : ended;
    ended = second ? lane_end(second, &nanoseconds[1]) : 0;
    return error ? error : ended;
}

static bool sane(double rate)
{
    return rate >= slowest && rate <= fastest; /* false for NaN */
}

/* The best of a few trains; *copies is how many make a train of the intended length. */
static int one_way(struct lane *lane, unsigned *copies, double *rate)
{
    double time[2], best = 0;
    int error = train(lane, NULL, 1, time); /* the first one is slower than the rest */

    if (error)
        return error;
    *copies = TRAIN_COPIES_MAX;
    if (time[0] > 0 && train_nanoseconds / time[0] < TRAIN_COPIES_MAX)
        *copies = (unsigned)(train_nanoseconds / time[0]);
    if (*copies < 1)
        *copies = 1;
    for (unsigned i = 0; i < TRAINS; i++) {
        double found;

        error = train(lane, NULL, *copies, time);
        if (error)
            return error;
        found = (double)(*copies * lane->size) / time[0] * 1e9;
        if (time[0] > 0 && found > best)
            best = found;
    }
    if (!sane(best))
        return -ERANGE;
    *rate = best;
    return 0;
}

/*
 * Both directions move the same bytes; the slower goes on alone for a while, at its rate alone. What it moved
 * until then is what it does beside the other.
 */
static void both_rates(double bytes, const double time[2], const double alone[2], double both[2])
{
    unsigned slow = time[1] > time[0], quick = !slow;
    double beside = bytes - (time[slow] - time[quick]) * 1e-9 * alone[slow];

    both[quick] = bytes / time[quick] * 1e9;
    both[slow] = beside / time[quick] * 1e9;
    for (unsigned i = 0; i < 2; i++)
        if (!sane(both[i]) || both[i] > alone[i])
            both[i] = alone[i]; /* cannot be told apart */
}

static int both_ways(struct lane *in, struct lane *out, unsigned copies, struct link_rates *rates)
{
    const double alone[] = {rates->in, rates->out};
    double best[2] = {0, 0};

    in->size /= 2; /* one half of the memory each */
    out->size /= 2;
    out->dst += out->size;
    out->src += out->size;

    for (unsigned i = 0; i < TRAINS; i++) {
        double time[2], both[2];
        int error = train(in, out, copies, time);

        if (error)
            return error;
        if (!(time[0] > 0 && time[1] > 0))
            continue;
        both_rates((double)(copies * in->size), time, alone, both);
        if (both[0] + both[1] > best[0] + best[1])
            memcpy(best, both, sizeof best);
    }
    rates->in_both = best[0] > 0 ? best[0] : rates->in;
    rates->out_both = best[1] > 0 ? best[1] : rates->out;
    return 0;
}

/* One more time for a lane that a failed call left with work outstanding. */
static void settle(struct lane *lane)
{
    double nanoseconds;

    if (lane->busy)
        (void)lane_end(lane, &nanoseconds);
}

int link_measure(const struct device_ops *ops, const struct cache_loan *loan, struct link_rates *rates,
                 struct link_traffic *traffic)
{
    struct lane in, out = {.ops = ops};
    struct link_rates found;
    unsigned copies_in, copies_out;
    int error = lane_open(&in, ops, loan->device, (uint64_t)(uintptr_t)loan->host, loan->size);

    if (!error)
        error = lane_open(&out, ops, (uint64_t)(uintptr_t)loan->host, loan->device, loan->size);
    if (!error) /* out first: pinned memory that was never written may be read out of nothing */
        error = one_way(&out, &copies_out, &found.out);
    if (!error)
        error = one_way(&in, &copies_in, &found.in);
    if (!error)
        error = both_ways(&in, &out, 2 * (copies_in < copies_out ? copies_in : copies_out), &found);
    settle(&in);
    settle(&out);
    *traffic = (struct link_traffic){in.moved, out.moved, !in.busy && !out.busy};
    lane_close(&out);
    lane_close(&in);
    if (!error)
        *rates = found;
    return error;
}

void link_init(struct link *link)
{
    atomic_init(&link->state, LINK_DUE);
    atomic_init(&link->next_try, 0);
    link->patience = MILLISECOND;
    link->rates = assumed;
}

bool link_known(const struct link *link, struct link_rates *rates)
{
    bool measured = atomic_load_explicit(&link->state, memory_order_acquire) == LINK_MEASURED;

    *rates = measured ? link->rates : assumed;
    return measured;
}

/* Borrows, waiting a while for what is still in use. */
static int borrow(struct gpu *gpu, struct cache_loan *loan)
{
    const struct timespec nap = {.tv_nsec = MILLISECOND / 5};
    uint64_t until = now() + gpu->link.patience, wait;
    unsigned flags =
        (gpu->link.tries >= TRIES_MODEST ? LOAN_EVICT : 0) | (gpu->link.tries >= TRIES_QUIET ? LOAN_BUSY : 0);
    int error;

    while ((error = cache_borrow(gpu->cache, loan, flags, &wait)) == -EAGAIN && now() < until)
        while (now() < until && gpu->ops.event_query(gpu, wait) == -EBUSY)
            nanosleep(&nap, NULL);
    return error == -EAGAIN ? -EBUSY : error;
}

/* By the one thread that has put the state to LINK_BUSY; returns the next state. */
static enum link_state try_now(struct gpu *gpu)
{
    struct link *link = &gpu->link;
    struct link_traffic traffic;
    struct link_rates rates;
    struct cache_loan loan;
    bool entered = gpu_enter(gpu);
    int error = borrow(gpu, &loan);
    uint64_t start = now();

    if (!error) {
        error = link_measure(&gpu->ops, &loan, &rates, &traffic);
        cache_return(gpu->cache, &loan, traffic.idle);
        count_add(measured_bytes_in, traffic.bytes_in);
        count_add(measured_bytes_out, traffic.bytes_out);
    }
    gpu_leave(entered);
    if (error == -EBUSY) {
        atomic_store_explicit(&link->next_try, now() + 8 * link->patience, memory_order_relaxed);
        if (link->patience < PATIENCE_MAX)
            link->patience *= 2;
        link->tries++;
        return LINK_DUE;
    }
    if (error) {
        log_gpu(LOG_WARN, LOG_IN_LINK, gpu->device,
                "the link to the host could not be measured (%s): %.0f GB/s each way are assumed",
                error == -ENOMEM   ? "no pinned memory to spare"
                : error == -ERANGE ? "times make no sense"
                                   : "an error of the driver",
                assumed.in / 1e9);
        return LINK_ASSUMED;
    }
    link->rates = rates;
    cache_set_link(gpu->cache, &(struct cache_link){rates.in, rates.out, rates.in_both, rates.out_both});
    link->seconds = (double)(now() - start) * 1e-9;
    log_gpu(LOG_INFO, LOG_IN_LINK, gpu->device,
            "%.1f GB/s in, %.1f out; both at once %.1f in, %.1f out; measured in %.0f ms", rates.in / 1e9,
            rates.out / 1e9, rates.in_both / 1e9, rates.out_both / 1e9, link->seconds * 1e3);
    return LINK_MEASURED;
}

void link_when_short(struct gpu *gpu)
{
    struct link *link = &gpu->link;
    int state = LINK_DUE;

    if (atomic_load_explicit(&link->state, memory_order_relaxed) != LINK_DUE ||
        !cache_under_pressure(gpu->cache) ||
        now() < atomic_load_explicit(&link->next_try, memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&link->state, &state, LINK_BUSY))
        return;
    atomic_store_explicit(&link->state, try_now(gpu), memory_order_release);
}
