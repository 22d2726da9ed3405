/*
 * A thread that runs, or is ready to, has another state than S in /proc/self/task/TID/stat (proc(5)). Looking
 * at one thread after the other could miss two that wake each other in turn; so
 * /proc/self/task/TID/schedstat, which counts a thread's time on a CPU, is read before and after: nobody ran
 * between, and everybody slept at some time between, so everybody slept all the time. That none had been
 * started before is seen at the end. What a file or another process wakes is not seen coming, which is why a
 * running child counts as a thread that runs: a compiler that the program has started, for one.
 */
#include "quiet.h"
#include "driver.h"

#include <dirent.h>
#include <errno.h>
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

/* False where it is new and cannot be looked at. *news: it is new. */
static bool remember(pid_t id, bool *news)
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
    *news = true;
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

static bool list_threads(pid_t me, bool *news)
{
    bool complete = true;
    *news = false;
    DIR *directory = opendir("/proc/self/task");
    if (!directory)
        return false;
    for (unsigned i = 0; i < count; i++)
        threads[i].seen = false;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        pid_t id = (pid_t)atoi(entry->d_name);
        if (id && id != me && !is_excluded(id))
            complete &= remember(id, news);
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

/* The state, from "pid (comm) S ...": comm may hold anything, a parenthesis too. 0: there is none. */
static char state_of(const char *text)
{
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : 0;
}

static bool sleeps(const struct thread *thread)
{
    char text[512];
    ssize_t n = pread(thread->stat, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return state_of(text) && strchr("STtZX", state_of(text));
}

/* /proc/self/task/TID/children: those that this thread has started. Ended ones stay until they are waited
 * for. */
static bool children_of_run(pid_t thread)
{
    char path[64], text[512];
    bool any = false;
    int pid;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)thread);
    FILE *list = fopen(path, "re");
    if (!list)
        return errno == ENOENT &&
               access("/proc/thread-self/children", R_OK) != 0; /* not known: one may run */
    while (!any && fscanf(list, "%d", &pid) == 1) {
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
        text[n > 0 ? n : 0] = 0;
        if (fd >= 0)
            close(fd);
        any = state_of(text) && !strchr("ZX", state_of(text));
    }
    fclose(list);
    return any;
}

static bool child_runs(void)
{
    siginfo_t info;
    /* Nothing is reaped by this. */
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return false; /* ECHILD: it has none */
    DIR *directory = opendir("/proc/self/task");
    bool any = !directory;
    for (const struct dirent *entry; !any && (entry = readdir(directory)) != NULL;)
        any = entry->d_name[0] != '.' && children_of_run((pid_t)atoi(entry->d_name));
    if (directory)
        closedir(directory);
    return any;
}

bool quiet_now(void)
{
    char after[sizeof(threads->before)];
    bool news;
    if (!list_threads(gettid(), &news))
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
    return list_threads(gettid(), &news) && !news && !child_runs();
}
