#include "cache/lock_in_time.h"
#include "hooks/window_internal.h"
#include "shim/options.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

/* Behind a tail only what the job gives back is waited for, and it waits itself perhaps. */
enum { QUIET_NANOSECONDS = 200000, QUIET_IN_TAIL = 50000 };

/* `turn' is held while a window is submitted and makes submissions follow each other in order; `lock'
 * protects the window being filled and the error. Rank: turn, then lock; a cache's lock is taken inside turn,
 * never inside lock. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct window filling, submitting;
static CUresult failure; /* of a submission: what was held behind it was left undone */
static uint64_t pushes;  /* the helper tells by it whether the job was quiet */
static bool helper_runs, stopping;
static uint64_t filling_streams, submitting_streams; /* under lock; window_streams is their union */

_Atomic uint64_t window_streams;
atomic_bool window_has_events;
static atomic_bool has_tail; /* the one being filled */

/* With the lock. */
static void streams_publish(void)
{
    atomic_store_explicit(&window_streams,
                          failure != CUDA_SUCCESS ? UINT64_MAX : filling_streams | submitting_streams,
                          memory_order_release);
    atomic_store_explicit(&window_has_events, filling.event_count || submitting.event_count,
                          memory_order_release);
    atomic_store_explicit(&has_tail, filling.tail, memory_order_release);
}

static bool reserve(void **array, uint32_t *capacity, uint32_t wanted, size_t size)
{
    uint32_t more = *capacity ? *capacity : 256;
    void *grown;

    if (wanted <= *capacity)
        return true;
    while (more < wanted)
        more *= 2;
    grown = realloc(*array, more * size);
    if (!grown)
        return false;
    *array = grown;
    *capacity = more;
    return true;
}

static void *helper(void *unused)
{
    uint64_t seen = 0;

    (void)unused;
    for (;;) {
        struct timespec quiet = {0};
        bool due;

        pthread_mutex_lock(&lock);
        while (!filling.count && !stopping)
            pthread_cond_wait(&filled, &lock);
        due = pushes == seen;
        seen = pushes;
        quiet.tv_nsec = filling.tail ? QUIET_IN_TAIL : QUIET_NANOSECONDS;
        if (stopping) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        pthread_mutex_unlock(&lock);
        if (due)
            window_submit_quietly(CU_STREAM_LEGACY);
        else
            nanosleep(&quiet, NULL);
    }
}

/* With the lock. Without a helper nothing may be held: the job could wait for it for ever. */
static bool helper_start(void)
{
    sigset_t all, before;
    pthread_t thread;

    if (helper_runs)
        return true;
    sigfillset(&all); /* signals are the job's threads' to handle */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, helper, NULL) == 0) {
        pthread_detach(thread);
        helper_runs = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return helper_runs;
}

struct held *window_begin(enum held_kind kind, CUstream stream, const struct cache_touch *touches,
                          uint32_t count)
{
    struct held *held;

    pthread_mutex_lock(&lock);
    /* While another submits, only what must stay behind it is held. */
    if ((filling.tail && kind < HELD_FREE) || stopping || failure != CUDA_SUCCESS ||
        (submitting_streams && !(window_bit(stream) & (submitting_streams | filling_streams))) ||
        !helper_start() ||
        !reserve((void **)&filling.held, &filling.capacity, filling.count + 1, sizeof *filling.held) ||
        !reserve((void **)&filling.touches, &filling.touch_capacity, filling.touch_count + count,
                 sizeof *filling.touches))
        return NULL;
    held = &filling.held[filling.count];
    *held = (struct held){
        .kind = kind, .stream = stream, .touch_first = filling.touch_count, .touch_count = count};
    /* The cache's own calls are made in the context of the held operation. */
    if (hbmspill_real.cuCtxGetCurrent(&held->context) != CUDA_SUCCESS || held->context != gpu_at(0)->context)
        return NULL;
    if (count)
        memcpy(filling.touches + filling.touch_count, touches, count * sizeof *touches);
    return held;
}

bool window_end(const struct held *held, CUresult *status)
{
    bool full;

    if (!held) {
        pthread_mutex_unlock(&lock);
        return false;
    }
    filling.touch_count += held->touch_count;
    full = ++filling.count >= options_get()->window;
    filling.tail |= held->kind >= HELD_RECORD;
    if (held->kind == HELD_RECORD || held->kind == HELD_WAIT) {
        filling.events[filling.event_count].event = held->event;
        filling.events[filling.event_count++].recorded = held->kind == HELD_RECORD;
    }
    pushes++;
    filling_streams |= window_bit(held->stream);
    streams_publish();
    if (filling.count == 1)
        pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    *status = full ? window_submit_held() : CUDA_SUCCESS;
    return true;
}

struct held *window_begin_tail(enum held_kind kind, CUstream stream, CUevent event)
{
    struct held *held = window_begin(kind, stream, NULL, 0);

    if (held && event) {
        held->event = event;
        if (filling.event_count == WINDOW_EVENTS)
            return NULL;
    }
    return held;
}

void window_end_tail(CUstream stream)
{
    bool behind;

    if (!atomic_load_explicit(&has_tail, memory_order_acquire))
        return;
    pthread_mutex_lock(&lock);
    behind = filling.tail && window_bit(stream) & filling_streams;
    pthread_mutex_unlock(&lock);
    if (behind)
        (void)window_submit_held(); /* an error is the next call's: nothing is held any more */
}

static enum window_event find_in(const struct window *window, CUevent event, enum window_event recorded)
{
    enum window_event found = EVENT_NOT_HELD;

    for (uint32_t i = 0; i < window->event_count; i++)
        if (window->events[i].event == event && found != recorded)
            found = window->events[i].recorded ? recorded : EVENT_WAITED_FOR;
    return found;
}

enum window_event window_find_event(CUevent event)
{
    enum window_event filled_in, submitted;

    pthread_mutex_lock(&lock);
    filled_in = find_in(&filling, event, EVENT_HELD);
    submitted = find_in(&submitting, event, EVENT_SUBMITTING);
    pthread_mutex_unlock(&lock);
    return filled_in == EVENT_HELD || submitted == EVENT_NOT_HELD ? filled_in : submitted;
}

bool window_take(size_t size, size_t *offset)
{
    size_t start = (filling.byte_count + 15) / 16 * 16;

    if (start + size > filling.byte_capacity) {
        size_t capacity = filling.byte_capacity ? 2 * filling.byte_capacity : 65536;
        unsigned char *grown;

        while (capacity < start + size)
            capacity *= 2;
        grown = realloc(filling.bytes, capacity);
        if (!grown)
            return false;
        filling.bytes = grown;
        filling.byte_capacity = capacity;
    }
    *offset = start;
    filling.byte_count = start + size;
    return true;
}

unsigned char *window_bytes(size_t offset)
{
    return filling.bytes + offset;
}

CUresult window_submit_held(void)
{
    CUresult status;
    struct window empty;

    pthread_mutex_lock(&turn);
    pthread_mutex_lock(&lock);
    empty = submitting;
    submitting = filling;
    filling = empty;
    filling.count = filling.touch_count = filling.event_count = 0;
    filling.byte_count = 0;
    filling.tail = false;
    submitting_streams = filling_streams;
    filling_streams = 0;
    streams_publish();
    pthread_mutex_unlock(&lock);
    status = submitting.count ? window_carry_out(gpu_at(0), &submitting) : CUDA_SUCCESS;
    submitting.count = 0;
    pthread_mutex_lock(&lock);
    submitting_streams = 0;
    submitting.event_count = 0;
    if (failure == CUDA_SUCCESS)
        failure = status;
    status = failure;
    streams_publish();
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&turn);
    return status;
}

void window_fail(CUresult status)
{
    pthread_mutex_lock(&lock);
    if (failure == CUDA_SUCCESS)
        failure = status;
    streams_publish();
    pthread_mutex_unlock(&lock);
}

void window_submit_quietly(CUstream stream)
{
    (void)window_submit_for(stream);
}

void window_stop(void)
{
    if (!lock_in_time(&lock, EXIT_PATIENCE_MS))
        return;
    stopping = true;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    /* A submission under way by the helper is let end, but not waited for without end. */
    if (lock_in_time(&turn, EXIT_PATIENCE_MS))
        pthread_mutex_unlock(&turn);
}
