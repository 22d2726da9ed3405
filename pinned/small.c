#include "pinned/small.h"
#include "jemalloc/jemalloc.h"
#include "pinned/ranges.h"
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A slab is at most what one of jemalloc's own first growths comes to: the first small allocation of a job
 * pins 2 MiB, and no more than half of the memory of many is in slabs that are not full.
 */
#define SLAB_MIN ((size_t)2 << 20)
#define SLAB_MAX ((size_t)4 << 20)

struct slab {
    struct range range;
    size_t used;       /* bytes committed */
    bool pinned, busy; /* busy: being pinned or unpinned, without the lock */
};

struct small {
    extent_hooks_t hooks;
    struct extent_source *source;
    unsigned arena;
    pthread_mutex_t lock; /* guards what is below. Taken inside jemalloc's locks; a leaf */
    pthread_cond_t changed;
    struct ranges slabs;
    unsigned unpinned;
    uint64_t pinned;
    int error; /* of the last pinning that failed */
};

static struct small *small_of(extent_hooks_t *hooks)
{
    return (struct small *)(void *)((char *)hooks - offsetof(struct small, hooks));
}

static struct slab *find(const struct small *small, const void *address)
{
    return (struct slab *)ranges_find(&small->slabs, (uintptr_t)address);
}

/*
 * Pinned, or unpinned; the lock is let go meanwhile. A slab that the driver does not unpin stays as it is:
 * the next trim tries again.
 */
static int slab_change(struct small *small, struct slab *slab, bool pin)
{
    char *base = slab->range.base;
    size_t size = slab->range.size;
    int error;

    slab->busy = true;
    pthread_mutex_unlock(&small->lock);
    error = pin ? extent_pin(small->source, base, size) : extent_unpin(small->source, base, size);
    pthread_mutex_lock(&small->lock);
    slab->busy = false;
    if (!error) {
        slab->pinned = pin;
        small->pinned += pin ? size : -size;
        small->unpinned += pin ? -1 : 1;
    } else if (pin) {
        small->error = error;
    }
    pthread_cond_broadcast(&small->changed);
    return error;
}

/*
 * Address space for a slab. *commit: jemalloc wants that much and no more, having failed to get a whole slab,
 * and wants it pinned. Otherwise it will say what it uses; it is given no further slab while one that nothing
 * is in could not be pinned, or address space would be taken with each try.
 */
static void *hook_alloc(extent_hooks_t *hooks, void *at, size_t size, size_t align, bool *zero, bool *commit,
                        unsigned arena)
{
    struct small *small = small_of(hooks);
    struct slab *slab;
    void *base = NULL;

    (void)arena;
    if (at || align > SLAB_MIN)
        return NULL;
    pthread_mutex_lock(&small->lock);
    if (!ranges_reserve(&small->slabs) || (!*commit && small->unpinned))
        goto out;
    slab = calloc(1, sizeof *slab);
    if (!slab)
        goto out;
    base = extent_reserve(small->source, size);
    if (!base) {
        free(slab);
        goto out;
    }
    slab->range = (struct range){base, size};
    ranges_insert(&small->slabs, &slab->range);
    small->unpinned++;
    if (*commit) {
        if (slab_change(small, slab, true)) {
            ranges_remove(&small->slabs, &slab->range);
            small->unpinned--;
            extent_unreserve(base, size);
            free(slab);
            base = NULL;
            goto out;
        }
        slab->used = size;
    }
    *zero = true;
out:
    pthread_mutex_unlock(&small->lock);
    return base;
}

/* True: refused. An extent lies in one slab, since none are merged over the end of one. */
static bool hook_commit(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t length,
                        unsigned arena)
{
    struct small *small = small_of(hooks);
    struct slab *slab;
    int error = 0;

    (void)size;
    (void)arena;
    pthread_mutex_lock(&small->lock);
    slab = find(small, (char *)at + offset);
    while (slab->busy)
        pthread_cond_wait(&small->changed, &small->lock);
    slab->used += length;
    if (!slab->pinned)
        error = slab_change(small, slab, true);
    if (error)
        slab->used -= length;
    pthread_mutex_unlock(&small->lock);
    return error != 0;
}

static bool hook_decommit(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t length,
                          unsigned arena)
{
    struct small *small = small_of(hooks);
    struct slab *slab;

    (void)size;
    (void)arena;
    pthread_mutex_lock(&small->lock);
    slab = find(small, (char *)at + offset);
    while (slab->busy)
        pthread_cond_wait(&small->changed, &small->lock);
    slab->used -= length;
    if (!slab->used && slab->pinned)
        (void)slab_change(small, slab, false);
    pthread_mutex_unlock(&small->lock);
    return false;
}

static bool hook_split(extent_hooks_t *hooks, void *at, size_t size, size_t a, size_t b, bool committed,
                       unsigned arena)
{
    (void)hooks, (void)at, (void)size, (void)a, (void)b, (void)committed, (void)arena;
    return false;
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b, bool committed,
                       unsigned arena)
{
    struct small *small = small_of(hooks);
    bool apart;

    (void)size_a, (void)size_b, (void)committed, (void)arena;
    pthread_mutex_lock(&small->lock);
    apart = find(small, a) != find(small, b);
    pthread_mutex_unlock(&small->lock);
    return apart;
}

static int control(const char *what, unsigned arena, void *new_value, size_t size)
{
    char name[64];

    snprintf(name, sizeof name, "arena.%u.%s", arena, what);
    return hbmje_mallctl(name, NULL, NULL, new_value, size);
}

int small_create(struct extent_source *source, struct small **out)
{
    struct small *small = calloc(1, sizeof *small);
    size_t size = sizeof small->arena, grow = SLAB_MAX;
    extent_hooks_t *hooks;

    if (!small)
        return -ENOMEM;
    small->source = source;
    small->hooks = (extent_hooks_t){.alloc = hook_alloc,
                                    .commit = hook_commit,
                                    .decommit = hook_decommit,
                                    .split = hook_split,
                                    .merge = hook_merge};
    hooks = &small->hooks;
    pthread_mutex_init(&small->lock, NULL);
    pthread_cond_init(&small->changed, NULL);
    /* The hooks are set afterwards, so that jemalloc's own records are in memory of its own. */
    if (hbmje_mallctl("arenas.create", &small->arena, &size, NULL, 0) ||
        control("retain_grow_limit", small->arena, &grow, sizeof grow) ||
        control("extent_hooks", small->arena, &hooks, sizeof hooks)) {
        free(small);
        return -ENOMEM;
    }
    *out = small;
    return 0;
}

int small_alloc(struct small *small, size_t size, size_t align, void **out)
{
    int error;
    void *memory =
        hbmje_mallocx(size, MALLOCX_ARENA(small->arena) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(align));

    if (memory) {
        *out = memory;
        return 0;
    }
    pthread_mutex_lock(&small->lock);
    error = small->error ? small->error : -ENOMEM;
    small->error = 0;
    pthread_mutex_unlock(&small->lock);
    return error;
}

void small_free(struct small *small, void *memory)
{
    (void)small;
    hbmje_dallocx(memory, MALLOCX_TCACHE_NONE);
}

void small_trim(struct small *small)
{
    (void)control("purge", small->arena, NULL, 0);
    pthread_mutex_lock(&small->lock);
    for (size_t i = 0; i < small->slabs.count; i++) { /* what could not be unpinned before */
        struct slab *slab = (struct slab *)small->slabs.at[i];

        if (slab->pinned && !slab->used && !slab->busy)
            (void)slab_change(small, slab, false);
    }
    pthread_mutex_unlock(&small->lock);
}

uint64_t small_pinned(struct small *small)
{
    uint64_t pinned;

    pthread_mutex_lock(&small->lock);
    pinned = small->pinned;
    pthread_mutex_unlock(&small->lock);
    return pinned;
}

void small_each(struct small *small, void (*visit)(void *context, const void *memory, size_t size),
                void *context)
{
    pthread_mutex_lock(&small->lock);
    for (size_t i = 0; i < small->slabs.count; i++)
        if (((struct slab *)small->slabs.at[i])->pinned)
            visit(context, small->slabs.at[i]->base, small->slabs.at[i]->size);
    pthread_mutex_unlock(&small->lock);
}
