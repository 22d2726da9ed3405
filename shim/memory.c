/*
 * memory.c - where the library's own records are: in an arena of its own, in the jemalloc that it has under a
 * prefix (pinned/). No hook takes memory from the job's heap, waits for its locks, or runs what the job has
 * put in its place.
 *
 * The linker gives us what the library's objects call malloc, free and so on (--wrap, in local.mk); the tools
 * and tests that some of the objects are built into have the C library's. A sanitizer wants to see every
 * allocation, and who holds it: so with one there is no arena, be it in the library or in the job, whose leak
 * checker does not look into ours.
 *
 * Threads: jemalloc keeps some freed memory for each thread, gives it back when the thread ends and goes on
 * without where another destructor of the thread calls after that. Fork: it takes its locks around it
 * (pthread_atfork), so a child finds a heap that is whole. It is set up by the first call, and none is made
 * before CUDA is used.
 */
#include "shim/memory.h"
#include "jemalloc/jemalloc.h"
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t number, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);
char *__wrap_strndup(const char *text, size_t length);

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);

#define __real_malloc_usable_size malloc_usable_size
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN(function) __real_##function
#else
/* The job's: there or not from the start, as both are in before any library of the job's is. */
void __asan_init(void) __attribute__((weak));
void __lsan_ignore_object(const void *memory) __attribute__((weak));
#define OWN(function) (__asan_init || __lsan_ignore_object ? __real_##function : hbmje_##function)
/* One arena beside those of pinned memory: the library is a small part of what the threads do. */
extern const char *hbmje_malloc_conf;
const char *hbmje_malloc_conf = "narenas:1";
#endif

/* Bytes given out, less what is handed back. */
static _Atomic uint64_t own;

static void *count(void *memory)
{
    if (memory)
        atomic_fetch_add_explicit(&own, OWN(malloc_usable_size)(memory), memory_order_relaxed);
    return memory;
}

static void uncount(void *memory)
{
    if (memory)
        atomic_fetch_sub_explicit(&own, OWN(malloc_usable_size)(memory), memory_order_relaxed);
}

uint64_t memory_own_bytes(void)
{
    return atomic_load_explicit(&own, memory_order_relaxed);
}

void *__wrap_malloc(size_t size)
{
    return count(OWN(malloc)(size));
}

void *__wrap_calloc(size_t number, size_t size)
{
    return count(OWN(calloc)(number, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    size_t before = memory ? OWN(malloc_usable_size)(memory) : 0;
    void *moved = OWN(realloc)(memory, size);

    if (moved || !size)
        atomic_fetch_sub_explicit(&own, before, memory_order_relaxed);
    return count(moved);
}

void __wrap_free(void *memory)
{
    uncount(memory);
    OWN(free)(memory);
}

char *__wrap_strndup(const char *text, size_t length)
{
    size_t size = strnlen(text, length);
    char *copy = __wrap_malloc(size + 1);

    if (!copy)
        return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}
/* NOLINTEND(bugprone-reserved-identifier) */
