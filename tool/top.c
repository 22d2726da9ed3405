/*
 * top.c - hbmspill top: the jobs of this user, by the pages that they keep (shim/live.h).
 *
 * Rates are between two looks, half a second apart. A job that makes no CUDA call says nothing new: how old
 * it is is said then.
 */
#include "shim/live.h"
#include "tool/tool.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GIB(bytes) ((double)(bytes) / (1 << 30))
enum { JOBS_MAX = 64, LOOK_NS = 500000000, OLD_MS = 2000, BAR_MAX = 40, TRIES = 1000 };

struct job {
    long pid;
    char command[64];
    struct live_page now, before; /* before.version 0: it was not there */
};
struct jobs {
    unsigned count, unreadable; /* the latter: pages of another version */
    struct job job[JOBS_MAX];
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

/* A copy of the page behind an open descriptor. False: it is none, or of another version. */
static bool copy_page(int fd, struct live_page *to)
{
    struct live_page *page = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
    uint32_t sequence = 1;

    if (page == MAP_FAILED)
        return false;
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
        fd = open(path, O_RDONLY | O_CLOEXEC);
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

static void look(long only, struct jobs *jobs)
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

/* What was there half a second ago. */
static void remember(struct jobs *jobs, const struct jobs *before)
{
    for (unsigned i = 0; i < jobs->count; i++) {
        jobs->job[i].before.version = 0;
        for (unsigned k = 0; k < before->count; k++)
            if (before->job[k].pid == jobs->job[i].pid &&
                before->job[k].now.started == jobs->job[i].now.started)
                jobs->job[i].before = before->job[k].now;
    }
}

static double seconds_between(const struct job *job)
{
    return job->before.version && job->now.written > job->before.written
               ? (double)(job->now.written - job->before.written) * 1e-9
               : 0;
}

static double rate(const struct job *job, unsigned device, size_t member)
{
    double seconds = seconds_between(job);
    uint64_t now, before;

    memcpy(&now, (const char *)&job->now.device[device] + member, sizeof now);
    memcpy(&before, (const char *)&job->before.device[device] + member, sizeof before);
    return seconds > 0 ? (double)(now - before) / seconds : 0;
}
#define RATE(job, i, member) rate(job, i, offsetof(struct live_device, member))

/* Of the time between two looks, how much a stream stood still: of several together it may be more than all.
 */
static double stalled_share(const struct job *job, unsigned i)
{
    double seconds = seconds_between(job);

    return seconds > 0 ? (job->now.device[i].stalled - job->before.device[i].stalled) * 1e-9 / seconds : 0;
}

static uint64_t age_ms(const struct live_page *page)
{
    struct timespec time;
    uint64_t now;

    clock_gettime(CLOCK_MONOTONIC, &time);
    now = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
    return now > page->written ? (now - page->written) / 1000000 : 0;
}

static const char *phase_of(const struct job *job)
{
    uint64_t operations = job->now.operations - job->before.operations,
             planned = job->now.planned - job->before.planned;

    if (age_ms(&job->now) > OLD_MS)
        return "idle";
    if (!job->before.version || !operations)
        return "running";
    return planned * 2 > operations ? "planned" : "recording";
}

static void print_bar(const char *name, uint64_t used, uint64_t whole, unsigned width)
{
    unsigned full = whole ? (unsigned)((double)used / (double)whole * width + 0.5) : 0;

    printf("  %-5s[", name);
    for (unsigned i = 0; i < width; i++)
        putchar(i < full ? '#' : '.');
    printf("] %.2f of %.2f GiB", GIB(used), GIB(whole));
}

static unsigned terminal_width(void)
{
    struct winsize size;

    return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

static void print_text(const struct jobs *jobs)
{
    unsigned width = terminal_width(), bar = width > 90 ? BAR_MAX : width > 60 ? width - 50 : 10;

    if (!jobs->count)
        puts("no job of yours runs under hbmspill");
    if (jobs->unreadable)
        printf("%u of another version of hbmspill cannot be read\n", jobs->unreadable);
    for (unsigned k = 0; k < jobs->count; k++) {
        const struct job *job = &jobs->job[k];
        const struct live_page *page = &job->now;

        printf("%ld %s: %s, %llu operations, %llu waited for a copy; pinned %.2f of %.2f GiB, %.2f the job's "
               "own\n",
               job->pid, job->command, phase_of(job), (unsigned long long)page->operations,
               (unsigned long long)page->waited, GIB(page->pinned), GIB(page->pinned_limit),
               GIB(page->job_pinned));
        for (unsigned i = 0; i < page->devices; i++) {
            const struct live_device *device = &page->device[i];

            printf(" gpu%lld  live %.2f GiB, spilled %.2f GiB; in %.2f GB/s, out %.2f GB/s, %.0f "
                   "evictions/s, stalled %.0f %%\n",
                   (long long)device->device, GIB(device->live), GIB(device->spilled),
                   RATE(job, i, bytes_in) / 1e9, RATE(job, i, bytes_out) / 1e9, RATE(job, i, evictions),
                   100 * stalled_share(job, i));
            print_bar("HBM", device->frames + device->outside, device->hbm_limit, bar);
            putchar('\n');
            print_bar("host", device->host, device->host_limit, bar);
            putchar('\n');
        }
    }
}

/* A name may have anything in it but what would end the string. */
static void put_name(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            putchar('?');
        else
            putchar(*text);
    putchar('"');
}

static void print_json(const struct jobs *jobs)
{
    putchar('[');
    for (unsigned k = 0; k < jobs->count; k++) {
        const struct job *job = &jobs->job[k];
        const struct live_page *page = &job->now;

        printf("%s\n  {\"pid\": %ld, \"command\": ", k ? "," : "", job->pid);
        put_name(job->command);
        printf(", \"phase\": \"%s\", \"age_ms\": %llu, \"operations\": %llu, \"planned\": %llu, \"waited\": "
               "%llu, \"pinned_bytes\": %llu, "
               "\"job_pinned_bytes\": %llu, \"pinned_limit\": %llu,\n   \"devices\": [",
               phase_of(job), (unsigned long long)age_ms(page), (unsigned long long)page->operations,
               (unsigned long long)page->planned, (unsigned long long)page->waited,
               (unsigned long long)page->pinned, (unsigned long long)page->job_pinned,
               (unsigned long long)page->pinned_limit);
        for (unsigned i = 0; i < page->devices; i++) {
            const struct live_device *device = &page->device[i];
            const uint64_t used = device->frames + device->outside;

            printf("%s\n    {\"device\": %lld, \"hbm_bytes\": %llu, \"hbm_limit\": %llu, \"host_bytes\": "
                   "%llu, \"host_limit\": %llu, "
                   "\"live_bytes\": %llu, \"spilled_bytes\": %llu,\n     \"bytes_in\": %llu, \"bytes_out\": "
                   "%llu, \"evictions\": %llu, "
                   "\"fills\": %llu, \"in_bytes_per_second\": %.0f, \"out_bytes_per_second\": %.0f, "
                   "\"stalled_share\": %.3f}",
                   i ? "," : "", (long long)device->device, (unsigned long long)used,
                   (unsigned long long)device->hbm_limit, (unsigned long long)device->host,
                   (unsigned long long)device->host_limit, (unsigned long long)device->live,
                   (unsigned long long)device->spilled, (unsigned long long)device->bytes_in,
                   (unsigned long long)device->bytes_out, (unsigned long long)device->evictions,
                   (unsigned long long)device->fills, RATE(job, i, bytes_in), RATE(job, i, bytes_out),
                   stalled_share(job, i));
        }
        fputs("]}", stdout);
    }
    puts("\n]");
}

static void help(void)
{
    puts("usage: hbmspill top [--once] [--json] [PID]\n\n"
         "Shows the jobs that run under hbmspill, twice a second, until it is interrupted: what is in HBM "
         "and in host "
         "memory,\nwhat moves, how long streams stand still. Only your own jobs, or all as root.\n\n"
         "  --once   once, after half a second; the same where the output is no terminal\n"
         "  --json   once, as JSON\n"
         "The exit status is 1 where there is no such job.");
}

int tool_top(int argc, char **argv)
{
    static struct jobs now, before;
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    bool once = !isatty(STDOUT_FILENO), json = false;
    struct sigaction action = {.sa_handler = on_signal};
    long only = 0;
    char *end;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) {
            help();
            return 0;
        }
        if (!strcmp(argv[i], "--once"))
            once = true;
        else if (!strcmp(argv[i], "--json"))
            json = once = true;
        else if ((only = strtol(argv[i], &end, 10)) <= 0 || *end) {
            tool_say("top takes --once, --json and a process's number, not `%s'", argv[i]);
            return EXIT_WRONG_USAGE;
        }
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    look(only, &before);
    while (!stopped) {
        if (nanosleep(&pause, NULL) && stopped)
            break;
        look(only, &now);
        remember(&now, &before);
        if (!once)
            fputs("\033[H\033[J", stdout);
        (json ? print_json : print_text)(&now);
        fflush(stdout);
        if (once)
            break;
        before = now;
    }
    return once && !now.count ? 1 : 0;
}
