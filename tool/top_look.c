/*
 * top_look.c - the jobs of this user, by the pages that they keep (shim/live.h).
 */
#include "tool/top.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 1000 };

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/*
 * A copy of the page behind an open descriptor, and word that somebody looks. False: it is none, or of
 * another version, which may be shorter.
 */
static bool copy_page(int fd, struct live_page *to)
{
    struct live_page *page;
    struct stat status;
    uint32_t sequence = 1;

    if (fstat(fd, &status) || status.st_size < (off_t)sizeof *page)
        return false;
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return false;
    if (page->version == LIVE_VERSION)
        atomic_store(&page->watched, now() + LIVE_WATCH_MS * UINT64_C(1000000));
    for (unsigned i = 0; i < TRIES; i++) {
        sequence = atomic_load(&page->sequence);
        memcpy(to, page, sizeof *to);
        atomic_thread_fence(memory_order_acquire);
        if (!(sequence & 1) && sequence == atomic_load(&page->sequence))
            break;
        sequence = 1;
    }
    munmap(page, sizeof *page);
    return !(sequence & 1) && to->version == LIVE_VERSION && to->size == sizeof *to &&
           to->devices <= LIVE_DEVICES;
}

static void read_command(struct job *job)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "/proc/%ld/comm", job->pid);
    file = fopen(path, "re");
    if (!file || !fgets(job->command, sizeof job->command, file))
        snprintf(job->command, sizeof job->command, "?");
    if (file)
        fclose(file);
    job->command[strcspn(job->command, "\n")] = '\0';
}

static void look_at_process(long pid, struct jobs *jobs)
{
    char directory[64], path[PATH_MAX], target[128];
    struct job *job = &jobs->job[jobs->count];
    struct dirent *entry;
    DIR *stream;

    snprintf(directory, sizeof directory, "/proc/%ld/fd", pid);
    stream = opendir(directory);
    while (stream && jobs->count < JOBS_MAX && (entry = readdir(stream))) {
        ssize_t length;
        int fd;

        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        length = readlink(path, target, sizeof target - 1);
        if (length != sizeof LIVE_LINK - 1 || memcmp(target, LIVE_LINK, sizeof LIVE_LINK - 1) != 0)
            continue;
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            continue;
        job->pid = pid;
        if (!copy_page(fd, &job->now))
            jobs->unreadable++;
        else if (job->now.pid == pid) { /* a forked child has its parent's */
            read_command(job);
            jobs->count++;
            close(fd);
            break;
        }
        close(fd);
    }
    if (stream)
        closedir(stream);
}

void top_look(long only, struct jobs *jobs)
{
    struct dirent *entry;
    DIR *stream;

    jobs->count = jobs->unreadable = 0;
    if (only) {
        look_at_process(only, jobs);
        return;
    }
    stream = opendir("/proc");
    while (stream && (entry = readdir(stream)))
        if (isdigit((unsigned char)entry->d_name[0]))
            look_at_process(strtol(entry->d_name, NULL, 10), jobs);
    if (stream)
        closedir(stream);
}

void top_remember(struct jobs *jobs, const struct jobs *before)
{
    for (unsigned i = 0; i < jobs->count; i++) {
        jobs->job[i].before.version = 0;
        for (unsigned k = 0; k < before->count; k++)
            if (before->job[k].pid == jobs->job[i].pid &&
                before->job[k].now.started == jobs->job[i].now.started)
                jobs->job[i].before = before->job[k].now;
    }
}

uint64_t top_age_ms(const struct live_page *page)
{
    uint64_t time = now();

    return time > page->written ? (time - page->written) / 1000000 : 0;
}
