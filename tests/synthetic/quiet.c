/*
 * A thread that runs, or is ready to, has another state than S in /proc/self/task/TID/stat (proc(5)). Looking
 * at one thread after the other could miss two that wake each other in turn; so
 * /proc/self/task/TID/schedstat, which counts a thread's time on a CPU, is read before and after: nobody ran
 * between, and everybody slept at some time between, so everybody slept all the time. What a file or another
 * process wakes is not seen coming, which is why a running child counts as a thread that runs: a compiler
 * that the program has started, for one.
 */
#include "quiet.h"
#include "driver.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, MAX_EXCLUDED = 64 };

static struct thread {
    pid_t id;
    int stat, schedstat;
    bool seen;
    char before[64];
} threads[MAX_THREADS];
static unsigned count;
static pid_t excluded[MAX_EXCLUDED];
static unsigned excluded_count; /* atomic */

void quiet_exclude_me(void)
{
    unsigned at = __atomic_fetch_add(&excluded_count, 1, __ATOMIC_RELAXED);
    if (at < MAX_EXCLUDED)
        __atomic_store_n(&excluded[at], gettid(), __ATOMIC_RELEASE);
}

static bool is_excluded(pid_t id)
{
    for (unsigned i = 0; i < MAX_EXCLUDED; i++)
        if (__atomic_load_n(&excluded[i], __ATOMIC_ACQUIRE) == id)
            return true;
    return false;
}

static void forget(struct thread *thread)
{
    close(thread->stat);
    close(thread->schedstat);
    *thread = threads[--count];
}

static bool remember(pid_t id)
{
    char path[64];
    for (unsigned i = 0; i < count; i++) {
        if (threads[i].id == id) {
            threads[i].seen = true;
            return true;
        }
    }
    if (count == MAX_THREADS)
        return false;
    struct thread *thread = &threads[count];
    *thread = (struct thread){.id = id, .seen = true};
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)id);
    thread->stat = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)id);
    thread->schedstat = open(path, O_RDONLY | O_CLOEXEC);
    if (thread->stat >= 0 && thread->schedstat >= 0) {
        count++;
        return true;
    }
    if (thread->stat >= 0)
        close(thread->stat);
    return false; /* gone meanwhile, or the machine does not say: ask again */
}

static bool list_threads(pid_t me)
{
    bool complete = true;
    DIR *directory = opendir("/proc/self/task");
    if (!directory)
        return false;
    for (unsigned i = 0; i < count; i++)
        threads[i].seen = false;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        pid_t id = (pid_t)atoi(entry->d_name);
        if (id && id != me && !is_excluded(id))
            complete &= remember(id);
    }
    closedir(directory);
    for (unsigned i = 0; i < count;) {
        if (threads[i].seen)
            i++;
        else
            forget(&threads[i]);
    }
    return complete;
}

static bool read_schedstat(const struct thread *thread, char *out)
{
    ssize_t n = pread(thread->schedstat, out, sizeof(thread->before) - 1, 0);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* "pid (comm) S ...": comm may hold anything, a parenthesis too. */
static bool sleeps(const struct thread *thread)
{
    char text[512];
    ssize_t n = pread(thread->stat, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return false;
    text[n] = 0;
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && strchr("STtZX", end[2]) != NULL;
}

static bool child_runs(void)
{
    siginfo_t info = {0};
    /* Nothing is reaped: a child that runs, and none that has ended and could be waited for, gives si_pid 0.
     */
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

bool quiet_now(void)
{
    char after[sizeof(threads->before)];
    if (!list_threads(gettid()))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!read_schedstat(&threads[i], threads[i].before))
            return false;
    for (unsigned i = 0; i < count; i++)
        if (!sleeps(&threads[i]))
            return false;
    for (unsigned i = 0; i < count; i++)
        if (!read_schedstat(&threads[i], after) || strcmp(after, threads[i].before) != 0)
            return false;
    return !child_runs();
}
