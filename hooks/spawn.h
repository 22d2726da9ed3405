/*
 * spawn.h - a program started beside the job, of which the job notices nothing.
 *
 * It is no child of the job: wait() does not return it, no SIGCHLD is sent for it, and no handler of
 * pthread_atfork runs. It has none of the job's descriptors, signal handlers, blocked signals, terminal or
 * preloaded library, and the lowest priority.
 *
 * Threads: any. Errors: 0 or -errno. Returns within a millisecond or so: nobody waits for the program.
 */
#ifndef HBMSPILL_HOOKS_SPAWN_H
#define HBMSPILL_HOOKS_SPAWN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A process as it can be told from a later one with the same number. */
struct spawned {
    pid_t pid;
    unsigned long long since; /* start time, in the kernel's ticks; 0: not known */
};

/*
 * Runs the program at an absolute path with arguments (NULL-terminated, the first one included) and `size'
 * bytes of text as its standard input, a file without a name that can be opened as /dev/stdin. Its
 * environment is ours without this library and its variables. -ECHILD: the job is init or a subreaper, and
 * would get the program as its child.
 */
int spawn_aside(const char *path, char *const arguments[], const char *text, size_t size,
                struct spawned *out);

/* False once it has ended; true where that cannot be told. */
bool spawned_runs(const struct spawned *spawned);

/* The absolute path of this library. */
int spawn_library(char path[PATH_MAX]);

#endif
