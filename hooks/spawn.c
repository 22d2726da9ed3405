/*
 * spawn.c - a process beside the job.
 *
 * A child of ours would be found by the job's wait(-1), and its end announced by SIGCHLD. clone(2) makes
 * children that wait() ignores, by an exit signal of 0, but execve(2) sets the signal back to SIGCHLD. So the
 * program is a grandchild: in between is a child with exit signal 0 that never calls execve, starts the
 * program and ends at once; the program then belongs to init, or to the nearest subreaper. Both steps share
 * our memory and hold this thread up until they are done (CLONE_VM and CLONE_VFORK), so nothing is copied,
 * however large the job is, and fork handlers do not run.
 *
 * Between clone and execve only system calls are made: what is written is seen by the job's other threads,
 * and functions of libc may have been replaced by others.
 */
#include "hooks/spawn.h"
#include "cache/write_all.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 64 << 10, SIGNALS = 64, FIRST_FREE = 3, MOST_DESCRIPTORS = 1 << 16 };

struct start {
    const char *path;
    char *const *arguments, *const *environment;
    int input; /* above the standard descriptors */
    char *stack;
    pid_t pid;
    int error;
};

static void close_from(unsigned first)
{
    if (!syscall(SYS_close_range, first, ~0U, 0))
        return;
    for (unsigned fd = first; fd < MOST_DESCRIPTORS; fd++) /* Linux before 5.9 */
        syscall(SYS_close, fd);
}

/* What the kernel takes for struct sigaction: all zero is the default action. */
static void default_signals(void)
{
    static const uint64_t action[4], none;

    for (int signal = 1; signal <= SIGNALS; signal++)
        syscall(SYS_rt_sigaction, signal, action, NULL, sizeof none); /* KILL and STOP refuse */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
}

static int become_program(void *argument)
{
    struct start *start = argument;
    long nowhere = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);

    syscall(SYS_setsid);
    syscall(SYS_setpriority, PRIO_PROCESS, 0, 19);
    syscall(SYS_chdir, "/");
    if (nowhere < 0 || syscall(SYS_dup2, nowhere, STDOUT_FILENO) < 0 ||
        syscall(SYS_dup2, nowhere, STDERR_FILENO) < 0 || syscall(SYS_dup2, start->input, STDIN_FILENO) < 0)
        goto fail;
    close_from(FIRST_FREE);
    default_signals();
    syscall(SYS_execve, start->path, start->arguments, start->environment);
fail:
    start->error = -errno;
    syscall(SYS_exit_group, 127);
    return 127;
}

static int become_parent(void *argument)
{
    struct start *start = argument;

    start->pid = clone(become_program, start->stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, start);
    if (start->pid < 0)
        start->error = -errno;
    return 0;
}

static int run(struct start *start)
{
    const uint64_t all = ~UINT64_C(0); /* libc's own signals as well, as its posix_spawn does */
    uint64_t before;
    pid_t between;

    start->stack = mmap(NULL, 2 * (size_t)STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (start->stack == MAP_FAILED)
        return -errno;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    between = clone(become_parent, start->stack + 2 * (size_t)STACK, CLONE_VM | CLONE_VFORK, start);
    if (between < 0)
        start->error = -errno;
    else /* it has nothing left to do but to end; the job may have reaped it by __WALL */
        syscall(SYS_wait4, between, NULL, __WCLONE, NULL);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    munmap(start->stack, 2 * (size_t)STACK);
    return start->error;
}

/* Orphans become children of these. */
static bool adopts(void)
{
    int subreaper = 0;

    return getpid() == 1 || (!prctl(PR_GET_CHILD_SUBREAPER, &subreaper) && subreaper);
}

int spawn_library(char path[PATH_MAX])
{
    Dl_info info;

    if (!dladdr((void *)(uintptr_t)spawn_library, &info) || !info.dli_fname)
        return -ENOENT;
    return realpath(info.dli_fname, path) ? 0 : -errno;
}

/* Whether a word of LD_PRELOAD is this library. */
static bool is_library(const char *word, size_t length, const char *library)
{
    char path[PATH_MAX];
    struct stat one, other;

    if (length >= sizeof path)
        return false;
    memcpy(path, word, length);
    path[length] = '\0';
    if (!strchr(path, '/')) /* found on the library path: by its name */
        return !strcmp(path, strrchr(library, '/') + 1);
    return !stat(path, &one) && !stat(library, &other) && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* The words of LD_PRELOAD that are somebody else's, as a variable; its length. */
static size_t write_preload(char *to, const char *value, const char *library)
{
    static const char name[] = "LD_PRELOAD=";
    char *end = to + sizeof name - 1;

    memcpy(to, name, sizeof name);
    while (*value) {
        size_t gap = strspn(value, " :"), length = strcspn(value + gap, " :");

        if (length && !is_library(value + gap, length, library)) {
            if (end[-1] != '=')
                *end++ = ':';
            memcpy(end, value + gap, length);
            end += length;
        }
        value += gap + length;
    }
    *end = '\0';
    return (size_t)(end - to);
}

/* One block: the list, and LD_PRELOAD behind it. */
static char **make_environment(void)
{
    static const char preload[] = "LD_PRELOAD=", ours[] = "HBMSPILL";
    char library[PATH_MAX], **list, *text;
    size_t count = 0, bytes = 0, used = 0;

    if (spawn_library(library))
        return NULL;
    for (char **variable = environ; variable && *variable; variable++, count++)
        if (!strncmp(*variable, preload, sizeof preload - 1))
            bytes += strlen(*variable) + 1;
    list = malloc((count + 1) * sizeof *list + bytes + 1);
    if (!list)
        return NULL;
    text = (char *)(list + count + 1);
    for (char **variable = environ; variable && *variable && used < count; variable++) {
        if (!strncmp(*variable, ours, sizeof ours - 1))
            continue;
        if (strncmp(*variable, preload, sizeof preload - 1) != 0) {
            list[used++] = *variable;
            continue;
        }
        bytes = write_preload(text, *variable + sizeof preload - 1, library);
        if (text[bytes - 1] == '=')
            continue;
        list[used++] = text;
        text += bytes + 1;
    }
    list[used] = NULL;
    return list;
}

/* A file without a name, above the standard descriptors: the job may have closed those. */
static int make_input(const char *text, size_t size)
{
    int low = memfd_create("round", MFD_CLOEXEC), fd = low;

    if (low < 0)
        return -errno;
    if (low < FIRST_FREE) {
        fd = fcntl(low, F_DUPFD_CLOEXEC, FIRST_FREE);
        close(low);
        if (fd < 0)
            return -errno;
    }
    if (write_all(fd, text, size)) {
        close(fd);
        return -EIO;
    }
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* State and start time of a process (proc(5)); false where it cannot be read. */
static bool process_stat(pid_t pid, char *state, unsigned long long *since)
{
    char path[64], text[1024], *at;
    ssize_t length;
    int fd;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    at = strrchr(text, ')'); /* the name before may contain anything */
    if (!at || !at[1] || !at[2])
        return false;
    *state = at[2];
    at += 2;
    for (int field = 3; field < 22; field++) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
    }
    *since = strtoull(at, NULL, 10);
    return true;
}

bool spawned_runs(const struct spawned *spawned)
{
    unsigned long long since;
    char state;

    if (!spawned->since)
        return true;
    return process_stat(spawned->pid, &state, &since) && since == spawned->since && state != 'Z' &&
           state != 'X';
}

int spawn_aside(const char *path, char *const arguments[], const char *text, size_t size, struct spawned *out)
{
    struct start start = {.path = path, .arguments = arguments};
    struct spawned spawned = {.pid = 0};
    char state, **list;
    int error = errno, result;

    if (adopts())
        return -ECHILD;
    list = make_environment();
    if (!list)
        return -ENOMEM;
    start.environment = list;
    start.input = make_input(text, size);
    if (start.input < 0) {
        free(list);
        return start.input;
    }
    result = run(&start);
    close(start.input);
    free(list);
    if (!result) {
        spawned.pid = start.pid;
        if (!process_stat(start.pid, &state, &spawned.since) && !access("/proc/self/stat", R_OK))
            spawned.since = ULLONG_MAX; /* it has ended already */
        *out = spawned;
    }
    errno = error;
    return result;
}
