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
#include <time.h>
#include <unistd.h>

/*
 * How long a running thread is waited for: so much of the process's own CPU time, so that a busy machine
 * makes no difference, but not longer than so much of real time; a running child, in real time; and both
 * after it was too long HASTY_AFTER times in a row.
 */
#define PATIENCE_CPU_NS 10000000000u
#define PATIENCE_NS 60000000000u
#define PATIENCE_CHILD_NS 20000000000u
#define IMPATIENCE_NS 20000000u
#define HASTY_AFTER 3

/* KEPT_OPEN: threads whose files stay open, which is quicker; the program wants descriptors, too. */
enum { MAX_THREADS = 4096, KEPT_OPEN = 96, MAX_EXCLUDED = 64 };

enum quiet {
    QUIET, /* every other thread of the process, but for the device's, sleeps, and no child runs */
    QUIET_THREAD_RUNS, /* one does not, or could not be looked at */
    QUIET_CHILD_RUNS,
};

static struct thread {
    pid_t id;
    int stat, schedstat; /* open, or -1 */
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

static int open_of(pid_t id, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)id, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Reads a thread's file through fd, or, where that is negative, by its name. False: the thread is gone. */
static bool read_of(pid_t id, const char *name, int fd, char *out, size_t size)
{
    int own = fd < 0 ? open_of(id, name) : -1;
    ssize_t n = fd >= 0 || own >= 0 ? pread(fd >= 0 ? fd : own, out, size - 1, 0) : -1;
    if (own >= 0)
        close(own);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

static void forget(struct thread *thread)
{
    if (thread->stat >= 0)
        close(thread->stat);
    if (thread->schedstat >= 0)
        close(thread->schedstat);
    *thread = threads[--count];
}

/* False where there are too many. *news: it is new. */
static bool remember(pid_t id, bool *news)
{
    for (unsigned i = 0; i < count; i++) {
        if (threads[i].id == id) {
            threads[i].seen = true;
            return true;
        }
    }
    if (count == MAX_THREADS)
        return false;
    *news = true;
    threads[count] = (struct thread){.id = id, .seen = true, .stat = -1, .schedstat = -1};
    if (count < KEPT_OPEN) {
        threads[count].stat = open_of(id, "stat");
        threads[count].schedstat = open_of(id, "schedstat");
    }
    count++;
    return true;
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

/* The state, from "pid (comm) S ...": comm may hold anything, a parenthesis too. 0: there is none. */
static char state_of(const char *text)
{
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : 0;
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

static enum quiet quiet_now(void)
{
    char text[512];
    bool news;
    if (!list_threads(gettid(), &news))
        return QUIET_THREAD_RUNS;
    for (unsigned i = 0; i < count; i++) {
        struct thread *thread = &threads[i];
        if (!read_of(thread->id, "schedstat", thread->schedstat, thread->before, sizeof(thread->before))) {
            forget(thread); /* perhaps another has its number by now */
            return QUIET_THREAD_RUNS;
        }
    }
    for (unsigned i = 0; i < count; i++)
        if (!read_of(threads[i].id, "stat", threads[i].stat, text, sizeof(text)) || !state_of(text) ||
            !strchr("STtZX", state_of(text)))
            return QUIET_THREAD_RUNS;
    for (unsigned i = 0; i < count; i++)
        if (!read_of(threads[i].id, "schedstat", threads[i].schedstat, text, sizeof(text)) ||
            strcmp(text, threads[i].before) != 0)
            return QUIET_THREAD_RUNS;
    if (!list_threads(gettid(), &news) || news)
        return QUIET_THREAD_RUNS;
    return child_runs() ? QUIET_CHILD_RUNS : QUIET;
}

/* ---- patience ---- */

uint64_t quiet_hasty;

static uint64_t cpu_time(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct patience patience_begin(void)
{
    return (struct patience){.real = driver_clock(), .cpu = cpu_time()};
}

static bool patience_ends(const struct patience *since, enum quiet quiet, unsigned hasty_in_a_row)
{
    uint64_t real = driver_clock() - since->real;
    if (hasty_in_a_row >= HASTY_AFTER)
        return real >= IMPATIENCE_NS;
    if (quiet == QUIET_CHILD_RUNS)
        return real >= PATIENCE_CHILD_NS;
    return real >= PATIENCE_NS || cpu_time() - since->cpu >= PATIENCE_CPU_NS;
}

bool quiet_enough(const struct patience *since)
{
    static unsigned hasty_in_a_row;
    enum quiet quiet = quiet_now();
    if (quiet == QUIET) {
        hasty_in_a_row = 0;
        return true;
    }
    if (!patience_ends(since, quiet, hasty_in_a_row))
        return false;
    hasty_in_a_row++;
    quiet_hasty++;
    return true;
}
