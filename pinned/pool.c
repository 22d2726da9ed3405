#include "pinned/pool.h"
#include "pinned/numa.h"
#include "pinned/small.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

/* An idle range may be larger than what is asked for by this part: what is pinned stays within 1.05 of it. */
enum { SLACK = 32 };

struct piece {
    void *memory;
    size_t asked;
    size_t size;    /* of the range, 0: of the arena's */
    uint64_t since; /* idle since then */
    bool stuck;     /* the driver did not unpin it: not counted on */
    UT_hash_handle hh;
    struct piece *prev, *next;
};

struct pool {
    struct extent_source source;
    uint64_t (*clock)(void);
    struct small *small;
    pthread_mutex_t lock; /* guards what is below; a leaf */
    struct piece *live;   /* by address */
    struct piece *idle;   /* ranges, the one idle for longest first */
    uint64_t idle_bytes, asked, made, reused;
};

int pool_create(const struct pool_config *config, struct pool **out)
{
    struct pool *pool = calloc(1, sizeof *pool);
    int error;

    if (!pool)
        return -ENOMEM;
    pool->source = (struct extent_source){
        .ops = config->ops, .budget = config->budget, .node = config->node, .threads = config->threads};
    pthread_mutex_init(&pool->source.lock, NULL);
    pool->clock = config->clock;
    pthread_mutex_init(&pool->lock, NULL);
    error = small_create(&pool->source, &pool->small);
    if (error) {
        free(pool);
        return error;
    }
    *out = pool;
    return 0;
}

/* Takes a range out of the idle ones, the smallest that will do. Locked. */
static struct piece *take_idle(struct pool *pool, size_t size)
{
    struct piece *piece, *best = NULL;

    DL_FOREACH(pool->idle, piece)
    {
        if (piece->size >= size && piece->size - size <= size / SLACK && (!best || piece->size <= best->size))
            best = piece;
    }
    if (best) {
        DL_DELETE(pool->idle, best);
        pool->idle_bytes -= best->stuck ? 0 : best->size;
        best->stuck = false;
    }
    return best;
}

/* Unpins an idle range that was taken out of the list; one that cannot be is put back. */
static bool give_back(struct pool *pool, struct piece *piece)
{
    int error = extent_unpin(&pool->source, piece->memory, piece->size);

    if (!error)
        extent_unreserve(piece->memory, piece->size);
    if (!error) {
        free(piece);
        return true;
    }
    pthread_mutex_lock(&pool->lock);
    piece->stuck = true;
    DL_APPEND(pool->idle, piece);
    pthread_mutex_unlock(&pool->lock);
    return false;
}

/*
 * The range idle for longest, if for that long, out of the list. Those that did not go are tried again where
 * all others are gone: `stuck' says how many more times.
 */
static struct piece *next_to_go(struct pool *pool, uint64_t until, unsigned *stuck)
{
    struct piece *piece;

    pthread_mutex_lock(&pool->lock);
    DL_FOREACH(pool->idle, piece)
    {
        if (piece->since > until || (piece->stuck && !*stuck))
            continue;
        *stuck -= piece->stuck;
        DL_DELETE(pool->idle, piece);
        pool->idle_bytes -= piece->stuck ? 0 : piece->size;
        piece->stuck = false;
        break;
    }
    pthread_mutex_unlock(&pool->lock);
    return piece;
}

static unsigned count_stuck(struct pool *pool)
{
    const struct piece *piece;
    unsigned stuck = 0;

    pthread_mutex_lock(&pool->lock);
    DL_FOREACH(pool->idle, piece)
    stuck += piece->stuck;
    pthread_mutex_unlock(&pool->lock);
    return stuck;
}

uint64_t pool_trim(struct pool *pool, uint64_t idle_for, uint64_t bytes)
{
    uint64_t now = pool->clock(), gone = 0, before, after;
    unsigned stuck = count_stuck(pool);
    struct piece *piece;

    if (now < idle_for)
        return 0;
    while (gone < bytes && (piece = next_to_go(pool, now - idle_for, &stuck))) {
        uint64_t size = piece->size;

        gone += give_back(pool, piece) ? size : 0;
    }
    if (gone < bytes) {
        before = small_pinned(pool->small);
        small_trim(pool->small);
        after = small_pinned(pool->small);
        gone += before > after ? before - after : 0;
    }
    return gone;
}

static int make_large(struct pool *pool, struct piece *piece)
{
    uint64_t left;
    int error;

    piece->memory = extent_reserve(&pool->source, piece->size);
    if (!piece->memory)
        return -ENOMEM;
    error = extent_pin(&pool->source, piece->memory, piece->size);
    left = budget_left(pool->source.budget);
    if (error == -ENOSPC && (left >= piece->size || pool_trim(pool, 0, piece->size - left)))
        error = extent_pin(&pool->source, piece->memory, piece->size);
    if (error) {
        extent_unreserve(piece->memory, piece->size);
        return error;
    }
    return 0;
}

static int make_small(struct pool *pool, struct piece *piece, bool *pinned)
{
    uint64_t before = small_pinned(pool->small);
    size_t align = piece->asked >= extent_page() ? extent_page() : 512;
    int error;

    error = small_alloc(pool->small, piece->asked, align, &piece->memory);
    if (error == -ENOSPC && pool_trim(pool, 0, POOL_LARGE * 4))
        error = small_alloc(pool->small, piece->asked, align, &piece->memory);
    *pinned = small_pinned(pool->small) > before;
    return error;
}

int pool_alloc(struct pool *pool, size_t size, void **out)
{
    size_t rounded = size >= POOL_LARGE ? extent_round(size) : 0;
    struct piece *piece = NULL;
    bool pinned = false;
    int error = 0;

    if (!size || (size >= POOL_LARGE && !rounded))
        return -EINVAL;
    if (rounded) {
        pthread_mutex_lock(&pool->lock);
        piece = take_idle(pool, rounded);
        pthread_mutex_unlock(&pool->lock);
    }
    if (!piece) {
        piece = calloc(1, sizeof *piece);
        if (!piece)
            return -ENOMEM;
        piece->size = rounded;
        piece->asked = size;
        error = rounded ? make_large(pool, piece) : make_small(pool, piece, &pinned);
        pinned |= rounded != 0;
    }
    if (error) {
        free(piece);
        return error;
    }
    piece->asked = size;
    pthread_mutex_lock(&pool->lock);
    HASH_ADD_PTR(pool->live, memory, piece);
    pool->asked += size;
    pool->made += pinned;
    pool->reused += !pinned;
    pthread_mutex_unlock(&pool->lock);
    *out = piece->memory;
    return 0;
}

int pool_free(struct pool *pool, void *memory)
{
    uint64_t now = pool->clock();
    struct piece *piece;

    pthread_mutex_lock(&pool->lock);
    HASH_FIND_PTR(pool->live, &memory, piece);
    if (!piece) {
        pthread_mutex_unlock(&pool->lock);
        return -ENOENT;
    }
    HASH_DEL(pool->live, piece);
    pool->asked -= piece->asked;
    if (piece->size) {
        piece->since = now;
        DL_APPEND(pool->idle, piece);
        pool->idle_bytes += piece->size;
        piece = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    if (piece) {
        small_free(pool->small, memory);
        free(piece);
    }
    return 0;
}

uint64_t pool_forget(struct pool *pool)
{
    return extent_forget(&pool->source);
}

void pool_usage(struct pool *pool, struct pool_usage *usage)
{
    pthread_mutex_lock(&pool->lock);
    *usage = (struct pool_usage){
        .idle = pool->idle_bytes, .asked = pool->asked, .made = pool->made, .reused = pool->reused};
    pthread_mutex_unlock(&pool->lock);
    extent_usage(&pool->source, &usage->registrations, &usage->pinned);
}

struct where {
    unsigned *pages_on, count;
};

static void look(void *context, const void *memory, size_t size)
{
    const struct where *where = context;

    numa_where(memory, size, 8, where->pages_on, where->count);
}

void pool_where(struct pool *pool, unsigned pages_on[], unsigned count)
{
    struct where where = {pages_on, count};
    const struct piece *piece;

    for (unsigned i = 0; i < count; i++)
        pages_on[i] = 0;
    small_each(pool->small, look, &where);
    pthread_mutex_lock(&pool->lock);
    for (piece = pool->live; piece; piece = piece->hh.next)
        if (piece->size)
            look(&where, piece->memory, piece->size);
    DL_FOREACH(pool->idle, piece)
    look(&where, piece->memory, piece->size);
    pthread_mutex_unlock(&pool->lock);
}
