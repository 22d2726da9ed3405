#include "pinned/touch.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { THREADS_MAX = 16 };

/*
 * A share takes about as long to clear (some ms, at some GB/s) as a hundred thread starts; below two of them
 * there is nothing to win.
 */
#define SHARE ((size_t)16 << 20)
#define PIECE ((size_t)2 << 20) /* shares are cut between huge pages */

struct share {
    char *memory;
    size_t size;
    int error;
};

static void *touch_share(void *of)
{
    struct share *share = of;
    volatile char *page = share->memory;
    size_t unit;

    if (!share->size || !madvise(share->memory, share->size, MADV_POPULATE_WRITE))
        return NULL;
    if (errno != EINVAL) {
        share->error = -ENOMEM;
        return NULL;
    }
    /* An older kernel. The memory is new, so this changes nothing. */
    unit = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < share->size; at += unit)
        page[at] = 0;
    return NULL;
}

unsigned touch_threads(size_t size)
{
    cpu_set_t set;
    size_t threads = size / SHARE;
    int cpus = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);

    if (threads > (size_t)cpus)
        threads = (size_t)cpus;
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    return threads ? (unsigned)threads : 1;
}

int touch_first(void *memory, size_t size, unsigned threads)
{
    struct share share[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    bool made[THREADS_MAX] = {false};
    size_t each, begin = 0;
    sigset_t all, before;
    int error = 0;

    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    each = threads > 1 ? (size / threads + PIECE - 1) / PIECE * PIECE : size;
    /* A new thread has its maker's mask: the job's handlers are not run on threads of ours. */
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    for (unsigned i = 0; i < threads; i++) {
        size_t left = size - begin, mine = i + 1 == threads || each > left ? left : each;

        share[i] = (struct share){(char *)memory + begin, mine, 0};
        begin += mine;
        if (i)
            made[i] = mine && !pthread_create(&thread[i], NULL, touch_share, &share[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (unsigned i = 0; i < threads; i++)
        if (!made[i])
            touch_share(&share[i]);
    for (unsigned i = 0; i < threads; i++) {
        if (made[i])
            pthread_join(thread[i], NULL);
        if (share[i].error)
            error = share[i].error;
    }
    return error;
}
