#include "cache/arena.h"
#include <stdint.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* At the beginning of each; mapped, so its bytes are zero. */
struct arena_chunk {
    struct arena_chunk *next;
    size_t size;
};

/*
 * A job may run under AddressSanitizer, whose leak checker does not look into mappings it knows nothing of:
 * what only records point to would be called leaked, and the job end with an error
 * (sanitizer/lsan_interface.h).
 */
#pragma weak __lsan_register_root_region
#pragma weak __lsan_unregister_root_region
void __lsan_register_root_region(const void *region, size_t size);
void __lsan_unregister_root_region(const void *region, size_t size);

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* An aligned mapping is cut out of a larger one. */
static char *map_aligned(size_t size)
{
    char *mapped = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (mapped == MAP_FAILED)
        return NULL;
    before = round_up((uintptr_t)mapped, HUGE_PAGE) - (uintptr_t)mapped;
    if (before)
        munmap(mapped, before);
    if (before < HUGE_PAGE)
        munmap(mapped + before + size, HUGE_PAGE - before);
    (void)madvise(mapped + before, size, MADV_HUGEPAGE); /* a wish */
    return mapped + before;
}

void *arena_take(struct arena *arena, size_t bytes)
{
    void *taken;

    bytes = round_up(bytes, ARENA_ALIGN);
    if (bytes > arena->left) {
        size_t size = round_up(ARENA_ALIGN + bytes, HUGE_PAGE);
        struct arena_chunk *chunk = (struct arena_chunk *)(void *)map_aligned(size);

        if (!chunk)
            return NULL;
        *chunk = (struct arena_chunk){.next = arena->chunks, .size = size};
        arena->chunks = chunk;
        if (__lsan_register_root_region)
            __lsan_register_root_region(chunk, size);
        arena->at = (char *)chunk + ARENA_ALIGN;
        arena->left = size - ARENA_ALIGN;
    }
    taken = arena->at;
    arena->at += bytes;
    arena->left -= bytes;
    return taken;
}

void arena_free(struct arena *arena)
{
    struct arena_chunk *chunk = arena->chunks;

    while (chunk) {
        struct arena_chunk *next = chunk->next;

        if (__lsan_unregister_root_region)
            __lsan_unregister_root_region(chunk, chunk->size);
        munmap(chunk, chunk->size);
        chunk = next;
    }
    *arena = (struct arena){0};
}
