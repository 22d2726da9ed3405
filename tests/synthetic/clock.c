/*
 * One thread, the conductor, moves the clock and says whose turn it is. It does nothing while nobody is at a
 * call, waits, or has a host function queued.
 */
#include "clock.h"
#include "clock_costs.h"
#include "model/machine.h"
#include "quiet.h"
#include "record.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FINISH_PATIENCE_NS 2000000000u

bool clock_runs;
double clock_now, clock_waited;

/* A thread at a call. */
struct arrival {
    struct arrival *next;
    struct api_site *site;
    uint64_t key;
    bool admitted;
};

/* A thread that waits for an operation. */
struct waiter {
    struct waiter *next;
    struct op *op;
};

/* A thread whose call takes time that is not the host's. */
struct sleeper {
    struct sleeper *next;
    double until;
};

static struct arrival *arrivals; /* in order of arrival, which is by chance */
static struct waiter *waiters;
static struct sleeper *sleepers;
static unsigned held_up;                                  /* threads that wait for room in a queue */
static uint64_t last_key;                                 /* of whoever was admitted last */
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;    /* for the conductor */
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;    /* somebody was admitted, or need not wait longer */
static pthread_cond_t gone_on = PTHREAD_COND_INITIALIZER; /* that thread has seen it */

static __thread struct api_site *current_call;
static __thread uint64_t own_key;     /* the last address that a call of this thread was about */
static __thread uint64_t full_stream; /* a stream this thread filled to its depth, by id; 0: none */

/* A thread that waits for driver_lock runs on as soon as it has it; it must not look asleep meanwhile. */
void driver_acquire_running(void)
{
    while (pthread_mutex_trylock(&driver_lock) != 0)
        sched_yield();
}

/* ---- the conductor ---- */

static bool somebody_goes_on(void)
{
    for (const struct waiter *w = waiters; w; w = w->next)
        if (w->op->time.state == TIME_ENDED)
            return true;
    for (const struct sleeper *s = sleepers; s; s = s->next)
        if (s->until <= clock_now)
            return true;
    for (const struct arrival *a = arrivals; a; a = a->next)
        if (a->admitted)
            return true;
    return false;
}

/* Threads inside a call that sleep until the device has run something: they are not through with it. */
static unsigned inside;

void clock_inside_locked(int n)
{
    inside += (unsigned)n;
    if (!inside)
        pthread_cond_signal(&gone_on);
}

static void let_go_on(void)
{
    while (inside || somebody_goes_on()) {
        pthread_cond_broadcast(&turn);
        pthread_cond_wait(&gone_on, &driver_lock);
    }
}

/*
 * Whose turn it is: by key; whoever has the key of the last one comes last, so that two who go on and on take
 * turns. Equal keys: by the function's name; where that is the same, nothing tells the two threads apart.
 */
static void admit(void)
{
    struct arrival *best = arrivals;
    for (struct arrival *a = arrivals->next; a; a = a->next) {
        bool again = a->key == last_key, best_again = best->key == last_key;
        if (again != best_again   ? best_again
            : a->key != best->key ? a->key < best->key
                                  : strcmp(a->site->name, best->site->name) < 0)
            best = a;
    }
    best->admitted = true;
    if (best->site->cost > 0) /* a query is no turn */
        last_key = best->key;
    clock_now += best->site->cost;
    best->site->host_ns += best->site->cost;
}

/* Nobody can go on by himself: to the next thing that lets somebody. False: there is none. */
static bool pass_time(void)
{
    timeline_news_locked();
    for (;;) {
        double next = timeline_next_locked();
        for (const struct sleeper *s = sleepers; s; s = s->next)
            next = s->until < next ? s->until : next;
        if (next >= TIME_NEVER)
            return false;
        if (next > clock_now) {
            clock_waited += next - clock_now;
            clock_now = next;
            if (!held_up)
                record_host_waits_locked();
        }
        timeline_advance_locked(clock_now);
        if (timeline_news_locked() || arrivals || somebody_goes_on())
            return true;
    }
}

static void nap(uint64_t ns)
{
    struct timespec time = {.tv_sec = 0, .tv_nsec = (long)ns};
    driver_release();
    nanosleep(&time, NULL);
    driver_acquire();
}

static bool anything_to_do(void)
{
    return arrivals || waiters || sleepers || timeline_functions;
}

/* The device up to the host's time, and everybody on his way who need not wait; true where somebody was. */
static bool settle(void)
{
    timeline_news_locked();
    if (waiters || sleepers || timeline_functions || timeline_due_locked())
        timeline_advance_locked(clock_now);
    bool any = timeline_news_locked() || inside || somebody_goes_on();
    let_go_on();
    return any;
}

static void *conduct(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "gpu-clock");
    quiet_exclude_me();
    driver_acquire();
    for (;;) {
        while (!anything_to_do())
            pthread_cond_wait(&work, &driver_lock);
        settle();
        const struct patience since = patience_begin();
        uint64_t pause = 0;
        while (!quiet_enough(&since)) {
            pause = pause < 500000 ? 2 * pause + 10000 : pause;
            nap(pause);
        }
        if (settle() || !anything_to_do()) /* a call may have cost more than its turn did */
            continue;
        if (arrivals)
            admit();
        else if (!pass_time())
            nap(1000000); /* until something else happens: a value in memory, a call */
    }
    return NULL;
}

/* ---- calls ---- */

/* "cuMemAlloc" is cuMemAlloc_v2 too. */
static bool same_family(const char *name, const char *call)
{
    size_t n = strlen(call);
    return strncmp(name, call, n) == 0 && (name[n] == 0 || name[n] == '_');
}

static double cost_of(const char *name)
{
#define COST(call, ns, own)                                                                                  \
    if (same_family(name, #call))                                                                            \
        return (ns)*options.driver_scale + (own);
    CLOCK_CALLS(COST)
#undef COST
    return -1;
}

static struct op *oldest_work(uint64_t stream_id)
{
    for (struct lane *lane = timeline_lanes; lane; lane = lane->next) {
        if (lane->stream_id != stream_id || lane->heavy < MACHINE_QUEUE_DEPTH)
            continue;
        for (struct op *op = lane->head; op; op = op->time.next)
            if (work_is_heavy(&op->work))
                return op;
    }
    return NULL;
}

void clock_call(struct api_site *site, uint64_t key)
{
    struct op *op;
    driver_acquire();
    if (site->cost == 0 && site->host_ns == 0)
        site->cost = cost_of(site->name);
    current_call = site;
    if (site->cost < 0) {
        driver_release();
        return;
    }
    held_up++;
    while (full_stream && (op = oldest_work(full_stream)) != NULL)
        clock_wait_locked(op);
    held_up--;
    full_stream = 0;
    if (key)
        own_key = key;
    struct arrival me = {.site = site, .key = own_key}, **link = &arrivals;
    while (*link)
        link = &(*link)->next;
    *link = &me;
    pthread_cond_signal(&work);
    while (!me.admitted)
        pthread_cond_wait(&turn, &driver_lock);
    for (link = &arrivals; *link != &me; link = &(*link)->next)
        ;
    *link = me.next;
    pthread_cond_signal(&gone_on);
    driver_release();
}

void clock_charge_locked(double ns)
{
    if (!clock_runs)
        return;
    ns *= options.driver_scale;
    clock_now += ns;
    if (current_call)
        current_call->host_ns += ns;
}

void clock_answer_locked(bool ready, bool costs)
{
    struct sleeper me = {.next = sleepers, .until = clock_now + MACHINE_HOST_QUERY * options.driver_scale};
    if (ready) {
        if (costs)
            clock_charge_locked(MACHINE_HOST_QUERY);
        return;
    }
    if (current_call)
        current_call->host_ns += me.until - clock_now;
    sleepers = &me;
    pthread_cond_signal(&work);
    while (me.until > clock_now)
        pthread_cond_wait(&turn, &driver_lock);
    struct sleeper **link = &sleepers;
    while (*link != &me)
        link = &(*link)->next;
    *link = me.next;
    pthread_cond_signal(&gone_on);
}

void clock_submit_locked(struct op *op, struct CUstream_st *stream)
{
    timeline_submit_locked(op, stream->lane, clock_now);
    if (stream->lane->heavy >= MACHINE_QUEUE_DEPTH)
        full_stream = stream->id;
    if (timeline_functions)
        pthread_cond_signal(&work);
}

/* ---- waiting ---- */

void clock_catch_up_locked(void)
{
    if (!clock_runs)
        return;
    clock_inside_locked(1);
    timeline_advance_locked(clock_now);
    clock_inside_locked(-1);
}

bool clock_done_locked(struct op *op)
{
    bool done = false;
    op_ref(op);
    clock_inside_locked(1);
    timeline_advance_locked(clock_now);
    if (op->time.state == TIME_ENDED)
        done = op_wait_run_locked(op, 0);
    clock_inside_locked(-1);
    op_unref_locked(op);
    return done;
}

void clock_wait_locked(struct op *op)
{
    if (!op->time.lane || op->time.state == TIME_ENDED)
        return;
    struct waiter me = {.next = waiters, .op = op_ref(op)}, **link;
    waiters = &me;
    op->time.awaited = true;
    pthread_cond_signal(&work);
    while (op->time.state != TIME_ENDED)
        pthread_cond_wait(&turn, &driver_lock);
    for (link = &waiters; *link != &me; link = &(*link)->next)
        ;
    *link = me.next;
    pthread_cond_signal(&gone_on);
    op_unref_locked(op);
}

void clock_finish_locked(void)
{
    uint64_t until = driver_clock() + FINISH_PATIENCE_NS;
    timeline_advance_locked(clock_now);
    /* Whom a host function belongs to may be gone: none is called any more. */
    while (!timeline_functions && driver_clock() < until) {
        double next = timeline_next_locked();
        if (next >= TIME_NEVER)
            break;
        if (next > clock_now)
            clock_now = next;
        timeline_advance_locked(clock_now);
    }
}

int clock_start(void)
{
    pthread_t thread;
    if (!options.clock)
        return 0;
    if (pthread_create(&thread, NULL, conduct, NULL) != 0)
        return -EAGAIN;
    pthread_detach(thread);
    clock_runs = true;
    return 0;
}
