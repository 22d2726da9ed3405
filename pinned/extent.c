#include "pinned/extent.h"
#include "pinned/numa.h"
#include "pinned/touch.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

size_t extent_page(void)
{
    static _Atomic size_t page;
    size_t known = atomic_load_explicit(&page, memory_order_relaxed);

    if (!known) {
        known = (size_t)sysconf(_SC_PAGESIZE);
        atomic_store_explicit(&page, known, memory_order_relaxed);
    }
    return known;
}

size_t extent_round(size_t size)
{
    size_t page = extent_page();

    return size > SIZE_MAX - page ? 0 : (size + page - 1) / page * page;
}

void *extent_reserve(const struct extent_source *source, size_t size)
{
    size_t align = size >= HUGE_PAGE ? HUGE_PAGE : 0, before;
    char *mapped;

    if (size > SIZE_MAX - align)
        return NULL;
    mapped =
        mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    if (align) {
        before = (align - (uintptr_t)mapped % align) % align;
        if (before)
            munmap(mapped, before);
        munmap(mapped + before + size, align - before);
        mapped += before;
        (void)madvise(mapped, size, MADV_HUGEPAGE); /* a wish */
    }
    (void)madvise(mapped, size, MADV_DONTFORK); /* what a child did to it would be its own copy */
    if (source->node >= 0)
        numa_place(mapped, size, source->node);
    return mapped;
}

void extent_unreserve(void *memory, size_t size)
{
    munmap(memory, size);
}

/* False: it went while it was being pinned. */
static bool note_pinned(struct extent_source *source, size_t size)
{
    bool lost;

    pthread_mutex_lock(&source->lock);
    lost = source->lost;
    if (!lost) {
        source->registrations++;
        source->pinned += size;
    }
    pthread_mutex_unlock(&source->lock);
    return !lost;
}

static bool is_lost(struct extent_source *source)
{
    bool lost;

    pthread_mutex_lock(&source->lock);
    lost = source->lost;
    pthread_mutex_unlock(&source->lock);
    return lost;
}

int extent_pin(struct extent_source *source, void *memory, size_t size)
{
    int error = is_lost(source) ? -EIO : budget_take(source->budget, size);

    if (error)
        return error;
    error = touch_first(memory, size, source->threads ? source->threads : touch_threads(size));
    if (!error)
        error = source->ops->pin(source->ops->ctx, memory, size);
    if (!error && note_pinned(source, size))
        return 0;
    (void)madvise(memory, size, MADV_DONTNEED);
    budget_give(source->budget, size);
    if (error == -ENOMEM) {
        /* That much is more than the system pins; a page less may not be. */
        uint64_t pinned = atomic_load(&source->budget->pinned);

        if (budget_lower(source->budget, pinned + size - extent_page()) && source->ops->refused)
            source->ops->refused(source->ops->ctx, pinned, size);
    }
    return error ? error : -EIO;
}

int extent_unpin(struct extent_source *source, void *memory, size_t size)
{
    int error = is_lost(source) ? 0 : source->ops->unpin(source->ops->ctx, memory);

    if (error)
        return error;
    (void)madvise(memory, size, MADV_DONTNEED);
    pthread_mutex_lock(&source->lock);
    if (!source->lost) {
        source->registrations--;
        source->pinned -= size;
        budget_give(source->budget, size);
    }
    pthread_mutex_unlock(&source->lock);
    return 0;
}

uint64_t extent_forget(struct extent_source *source)
{
    uint64_t gone;

    pthread_mutex_lock(&source->lock);
    gone = source->registrations;
    budget_give(source->budget, source->pinned);
    source->registrations = source->pinned = 0;
    source->lost = true;
    pthread_mutex_unlock(&source->lock);
    return gone;
}

void extent_usage(struct extent_source *source, uint64_t *registrations, uint64_t *pinned)
{
    pthread_mutex_lock(&source->lock);
    *registrations = source->registrations;
    *pinned = source->pinned;
    pthread_mutex_unlock(&source->lock);
}
