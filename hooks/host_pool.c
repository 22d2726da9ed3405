#include "hooks/host_pool.h"
#include "hooks/host_account.h"
#include "hooks/host_memory.h"
#include "hooks/host_table.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

enum { GRANULE = 2 << 20 };

/* What was given back of a pool in a stream and may not have been reached. */
struct freed {
    struct stream_key stream;
    CUcontext context; /* that was current */
    struct freed *next;
};

struct host_pool {
    CUmemoryPool handle;
    uint64_t counted;
    uint64_t version; /* another each time that counted is set, and for each pool */
    uint64_t pieces;  /* not given back */
    struct freed *freed;
    uint64_t look;   /* the last of host_pools_ask that came by */
    unsigned asking; /* threads that are in the driver with the handle */
    bool leaves;     /* is being destroyed: nobody begins to ask */
    bool destroyed;
    struct host_pool *next; /* of those that were */
    UT_hash_handle hh;
};

struct host_piece {
    CUdeviceptr address;
    struct host_pool *pool;
    UT_hash_handle hh;
};

atomic_uint host_pools;

/* Protects all of it. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;
static struct host_pool *pools, *destroyed;
static struct host_piece *pieces;
static uint64_t last_version, last_look;

static struct host_pool *find(CUmemoryPool handle)
{
    struct host_pool *pool;

    HASH_FIND_PTR(pools, &handle, pool);
    return pool;
}

void host_pool_made(CUmemoryPool handle)
{
    struct host_pool *pool = calloc(1, sizeof *pool);

    if (!pool)
        return;
    pool->handle = handle;
    pthread_mutex_lock(&lock);
    pool->version = ++last_version;
    if (!find(handle)) {
        HASH_ADD_PTR(pools, handle, pool);
        atomic_fetch_add(&host_pools, 1);
        pool = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(pool);
}

/* Locked. In the account, `expected' bytes have been taken for it already. Returns by how much it has more.
 */
static int64_t count(struct host_pool *pool, uint64_t bytes, uint64_t expected)
{
    int64_t more = (int64_t)(bytes - pool->counted), change = more - (int64_t)expected;

    if (change > 0)
        budget_take_anyway(host_memory_budget(), (uint64_t)change);
    else
        budget_give(host_memory_budget(), (uint64_t)-change);
    pool->counted = bytes;
    pool->version = ++last_version;
    return more;
}

/*
 * Asks the driver and sets what is counted, unless somebody else did meanwhile, whose answer may be newer:
 * then it is asked once more. The lock is dropped around the call; a pool stays as long as it is asked.
 */
static int64_t ask_locked(struct host_pool *pool, uint64_t expected)
{
    while (!pool->leaves) {
        uint64_t version = pool->version;
        cuuint64_t reserved;
        CUresult status;

        pool->asking++;
        pthread_mutex_unlock(&lock);
        status = hbmspill_real.cuMemPoolGetAttribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                                     &reserved);
        pthread_mutex_lock(&lock);
        if (--pool->asking == 0)
            pthread_cond_broadcast(&asked);
        if (status != CUDA_SUCCESS)
            break;
        if (pool->version == version)
            return count(pool, reserved, expected);
    }
    return count(pool, pool->counted, expected);
}

static void ask(CUmemoryPool handle, uint64_t expected)
{
    struct host_pool *pool;
    int64_t more = 0;

    pthread_mutex_lock(&lock);
    pool = find(handle);
    if (pool)
        more = ask_locked(pool, expected);
    else
        budget_give(host_memory_budget(), expected);
    pthread_mutex_unlock(&lock);
    if (more)
        host_note(more);
}

/* Of one that was destroyed: all of it went. Locked; it is out of the list. Returns what it had. */
static uint64_t end(struct host_pool *pool)
{
    uint64_t bytes = pool->counted;

    LL_DELETE(destroyed, pool);
    budget_give(host_memory_budget(), bytes);
    atomic_fetch_sub(&host_pools, 1);
    free(pool);
    return bytes;
}

static bool ended(const struct host_pool *pool)
{
    return !pool->pieces && !pool->freed;
}

void host_pool_leaves(CUmemoryPool handle)
{
    struct host_pool *pool;

    if (!atomic_load(&host_pools))
        return;
    ask(handle, 0); /* for the last time */
    pthread_mutex_lock(&lock);
    pool = find(handle);
    if (pool)
        pool->leaves = true;
    while (pool && pool->asking)
        pthread_cond_wait(&asked, &lock);
    pthread_mutex_unlock(&lock);
}

void host_pool_left(CUmemoryPool handle, bool gone)
{
    struct host_pool *pool;
    uint64_t bytes = 0;

    if (!atomic_load(&host_pools))
        return;
    pthread_mutex_lock(&lock);
    pool = find(handle);
    if (pool && gone) {
        HASH_DEL(pools, pool);
        pool->destroyed = true;
        LL_PREPEND(destroyed, pool);
        bytes = ended(pool) ? end(pool) : 0;
    } else if (pool) {
        pool->leaves = false;
    }
    pthread_mutex_unlock(&lock);
    if (bytes)
        host_note(-(int64_t)bytes);
}

/* The pool has that much which nobody uses, as far as is known. */
static bool has_room(CUmemoryPool handle, uint64_t bytes)
{
    cuuint64_t used;
    struct host_pool *pool;
    bool room;

    if (hbmspill_real.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS)
        return false;
    pthread_mutex_lock(&lock);
    pool = find(handle);
    room = pool && pool->counted >= used && pool->counted - used >= bytes;
    pthread_mutex_unlock(&lock);
    return room;
}

/*
 * Nobody knows before the call whether the pool will reserve more. Where the limit would be passed by what is
 * asked for and the pool has room, it most likely does not, and nothing has to make way for it.
 */
uint64_t host_pool_expect(CUmemoryPool pool, size_t size)
{
    uint64_t bytes = ((uint64_t)size + GRANULE - 1) / GRANULE * GRANULE;

    if (bytes < size) /* it cannot be had */
        return 0;
    if (!budget_take(host_memory_budget(), bytes))
        return bytes;
    if (has_room(pool, size))
        budget_take_anyway(host_memory_budget(), bytes);
    else
        host_account_take(bytes);
    return bytes;
}

void host_pool_allocated(CUmemoryPool handle, uint64_t expected, CUdeviceptr address)
{
    struct host_piece *piece = address ? malloc(sizeof *piece) : NULL;

    pthread_mutex_lock(&lock);
    if (piece && (piece->pool = find(handle))) {
        piece->address = address;
        piece->pool->pieces++;
        HASH_ADD(hh, pieces, address, sizeof piece->address, piece);
        piece = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(piece);
    ask(handle, expected);
    if (address)
        host_account_check();
}

struct host_piece *host_pool_take(CUdeviceptr address)
{
    struct host_piece *piece;

    if (!atomic_load_explicit(&host_pools, memory_order_acquire))
        return NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, pieces, &address, sizeof address, piece);
    if (piece)
        HASH_DEL(pieces, piece);
    pthread_mutex_unlock(&lock);
    return piece;
}

void host_pool_put_back(struct host_piece *piece)
{
    pthread_mutex_lock(&lock);
    HASH_ADD(hh, pieces, address, sizeof piece->address, piece);
    pthread_mutex_unlock(&lock);
}

static CUcontext current_context(void)
{
    CUcontext context = NULL;

    (void)hbmspill_real.cuCtxGetCurrent(&context);
    return context;
}

static bool same(const struct stream_key *one, const struct stream_key *other)
{
    return one->handle == other->handle && one->thread == other->thread;
}

/* Once for each stream. Locked. Without memory it is taken to have been reached. */
static void note_freed(struct host_pool *pool, const struct stream_key *stream, CUcontext context)
{
    struct freed *freed;

    LL_FOREACH(pool->freed, freed)
    {
        if (same(&freed->stream, stream) && freed->context == context)
            return;
    }
    freed = malloc(sizeof *freed);
    if (!freed)
        return;
    *freed = (struct freed){.stream = *stream, .context = context};
    LL_PREPEND(pool->freed, freed);
}

/* Of its pool there is one piece less; stream NULL: for good. */
static void drop(struct host_piece *piece, const struct stream_key *stream, CUcontext context)
{
    struct host_pool *pool = piece->pool;
    uint64_t bytes = 0;

    free(piece);
    pthread_mutex_lock(&lock);
    pool->pieces--;
    if (stream)
        note_freed(pool, stream, context);
    if (pool->destroyed && ended(pool))
        bytes = end(pool);
    pthread_mutex_unlock(&lock);
    if (bytes)
        host_note(-(int64_t)bytes);
}

void host_pool_freed(struct host_piece *piece)
{
    drop(piece, NULL, NULL);
    host_pools_ask(); /* what is above the threshold may be gone */
}

void host_pool_freed_in(struct host_piece *piece, CUstream stream, bool per_thread)
{
    struct stream_key key = stream_key_of(stream, per_thread);

    drop(piece, &key, current_context());
}

/* Frees that the host has waited for. Locked. */
static void reached(struct host_pool *pool, const struct stream_key *stream, CUcontext context)
{
    for (struct freed **link = &pool->freed, *freed; (freed = *link) != NULL;) {
        if (stream ? !same(&freed->stream, stream) : freed->context != context) {
            link = &freed->next;
            continue;
        }
        *link = freed->next;
        free(freed);
    }
}

static void waited(const struct stream_key *stream, CUcontext context)
{
    struct host_pool *pool, *next;
    int64_t bytes = 0;

    pthread_mutex_lock(&lock);
    HASH_ITER(hh, pools, pool, next)
    {
        reached(pool, stream, context);
    }
    LL_FOREACH_SAFE(destroyed, pool, next)
    {
        reached(pool, stream, context);
        if (ended(pool))
            bytes += (int64_t)end(pool);
    }
    pthread_mutex_unlock(&lock);
    if (bytes)
        host_note(-bytes);
    host_pools_ask();
}

void host_pools_waited(CUcontext context)
{
    if (atomic_load_explicit(&host_pools, memory_order_acquire))
        waited(NULL, context ? context : current_context());
}

void host_pools_waited_for(CUstream stream, bool per_thread)
{
    struct stream_key key;

    if (!atomic_load_explicit(&host_pools, memory_order_acquire))
        return;
    key = stream_key_of(stream, per_thread);
    waited(&key, NULL);
}

/* Pools come and go while one is asked, so each time it is the first that this look has not come by. */
void host_pools_ask(void)
{
    struct host_pool *pool;
    int64_t more = 0;
    uint64_t look;

    if (!atomic_load_explicit(&host_pools, memory_order_acquire))
        return;
    pthread_mutex_lock(&lock);
    look = ++last_look;
    for (;;) {
        for (pool = pools; pool && pool->look >= look; pool = pool->hh.next)
            ;
        if (!pool)
            break;
        pool->look = look;
        more += ask_locked(pool, 0);
    }
    pthread_mutex_unlock(&lock);
    if (more)
        host_note(more);
}
