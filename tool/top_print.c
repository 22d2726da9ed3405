/*
 * top_print.c - hbmspill top: what was seen, for people and as JSON.
 */
#include "tool/top.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MIB(bytes) ((double)(bytes) / (1 << 20))
#define MILLISECOND UINT64_C(1000000)
enum { OLD_MS = 2000, RESIDENTS_OLD_MS = 5000, BAR_MAX = 40 };

static const char *amount(char text[16], uint64_t bytes)
{
    if (bytes >> 30)
        snprintf(text, 16, "%.2f GiB", MIB(bytes) / 1024);
    else
        snprintf(text, 16, "%.0f MiB", MIB(bytes));
    return text;
}
#define AMOUNT(bytes) amount((char[16]){0}, bytes)

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

/*
 * Of the time between two looks, how much a stream stood still: of several together it may be more than all.
 * It is what a sample of the waits comes to for all of them, so it may also come down.
 */
static double stalled_share(const struct job *job, unsigned i)
{
    double seconds = seconds_between(job),
           stalled = job->now.device[i].stalled - job->before.device[i].stalled;

    return seconds > 0 && stalled > 0 ? stalled * 1e-9 / seconds : 0;
}

/* Of the operations between two looks, those that waited for no copy of ours; negative: there were none. */
static double hit_rate(const struct job *job, unsigned i)
{
    const struct live_device *now = &job->now.device[i], *before = &job->before.device[i];

    if (!job->before.version || now->operations <= before->operations)
        return -1;
    return 1 - (double)(now->waited - before->waited) / (double)(now->operations - before->operations);
}

/* Rows of what has most of HBM; none where they are of an earlier watch. */
static unsigned residents(const struct live_page *page, unsigned i)
{
    const struct live_residents *residents = &page->residents[i];
    unsigned count = 0;

    if (!residents->at || residents->at + RESIDENTS_OLD_MS * MILLISECOND < page->written)
        return 0;
    while (count < LIVE_RESIDENTS && residents->row[count].count)
        count++;
    return count;
}

static const char *phase_of(const struct job *job)
{
    uint64_t operations = 0, planned = job->now.planned - job->before.planned;

    for (unsigned i = 0; i < job->now.devices; i++)
        operations += job->now.device[i].operations - job->before.device[i].operations;

    if (top_age_ms(&job->now) > OLD_MS)
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
    printf("] %s of %s\n", AMOUNT(used), AMOUNT(whole));
}

static unsigned terminal_width(void)
{
    struct winsize size;

    return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

static void print_device(const struct job *job, unsigned i, unsigned bar)
{
    const struct live_device *device = &job->now.device[i];
    const double hits = hit_rate(job, i);
    const unsigned rows = residents(&job->now, i);

    printf(" gpu%lld  live %s, spilled %s; in %.2f GB/s, out %.2f GB/s, %.0f evictions/s, "
           "stalled %.0f %%",
           (long long)device->device, AMOUNT(device->live), AMOUNT(device->spilled),
           RATE(job, i, bytes_in) / 1e9, RATE(job, i, bytes_out) / 1e9, RATE(job, i, evictions),
           100 * stalled_share(job, i));
    if (hits >= 0)
        printf(", hits %.1f %%", 100 * hits);
    putchar('\n');
    print_bar("HBM", device->frames + device->outside, device->hbm_limit, bar);
    print_bar("host", device->host, device->host_limit, bar);
    if (rows)
        printf("  largest %11s %11s %9s %11s\n", "MiB in HBM", "MiB on host", "number", "MiB each");
    for (unsigned k = 0; k < rows; k++) {
        const struct live_resident *row = &job->now.residents[i].row[k];

        printf("          %11.1f %11.1f %9llu", MIB(row->hbm), MIB(row->host),
               (unsigned long long)row->count);
        if (row->size)
            printf(" %11.2f\n", MIB(row->size));
        else
            printf(" %11s\n", "others");
    }
}

void top_print_text(const struct jobs *jobs)
{
    unsigned width = terminal_width(), bar = width > 90 ? BAR_MAX : width > 60 ? width - 50 : 10;

    if (!jobs->count)
        puts("no job of yours runs under hbmspill");
    if (jobs->unreadable)
        printf("%u of another version of hbmspill cannot be read\n", jobs->unreadable);
    for (unsigned k = 0; k < jobs->count; k++) {
        const struct job *job = &jobs->job[k];
        const struct live_page *page = &job->now;

        printf("%ld %s: %s, %llu operations; pinned %s of %s, %s the job's own\n", job->pid, job->command,
               phase_of(job), (unsigned long long)page->operations, AMOUNT(page->pinned),
               AMOUNT(page->pinned_limit), AMOUNT(page->job_pinned));
        for (unsigned i = 0; i < page->devices; i++)
            print_device(job, i, bar);
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

static void put_number(const char *name, uint64_t value)
{
    printf(", \"%s\": %llu", name, (unsigned long long)value);
}

static void put_device(const struct job *job, unsigned i)
{
    const struct live_device *device = &job->now.device[i];
    const double hits = hit_rate(job, i);
    const unsigned rows = residents(&job->now, i);

    printf("%s\n    {\"device\": %lld", i ? "," : "", (long long)device->device);
    put_number("hbm_bytes", device->frames + device->outside);
    put_number("hbm_limit", device->hbm_limit);
    put_number("host_bytes", device->host);
    put_number("host_limit", device->host_limit);
    put_number("live_bytes", device->live);
    put_number("spilled_bytes", device->spilled);
    put_number("bytes_in", device->bytes_in);
    put_number("bytes_out", device->bytes_out);
    put_number("evictions", device->evictions);
    put_number("fills", device->fills);
    put_number("operations", device->operations);
    put_number("waited", device->waited);
    printf(",\n     \"in_bytes_per_second\": %.0f, \"out_bytes_per_second\": %.0f, \"stalled_share\": %.3f",
           RATE(job, i, bytes_in), RATE(job, i, bytes_out), stalled_share(job, i));
    if (hits >= 0)
        printf(", \"hit_rate\": %.4f", hits);
    if (rows)
        fputs(",\n     \"residents\": [", stdout);
    for (unsigned k = 0; k < rows; k++) {
        const struct live_resident *row = &job->now.residents[i].row[k];

        printf("%s{\"count\": %llu", k ? ", " : "", (unsigned long long)row->count);
        if (row->size)
            put_number("size", row->size);
        put_number("hbm_bytes", row->hbm);
        put_number("host_bytes", row->host);
        putchar('}');
    }
    fputs(rows ? "]}" : "}", stdout);
}

void top_print_json(const struct jobs *jobs)
{
    putchar('[');
    for (unsigned k = 0; k < jobs->count; k++) {
        const struct job *job = &jobs->job[k];
        const struct live_page *page = &job->now;

        printf("%s\n  {\"pid\": %ld, \"command\": ", k ? "," : "", job->pid);
        put_name(job->command);
        printf(", \"phase\": \"%s\"", phase_of(job));
        put_number("age_ms", top_age_ms(page));
        put_number("operations", page->operations);
        put_number("planned", page->planned);
        put_number("pinned_bytes", page->pinned);
        put_number("job_pinned_bytes", page->job_pinned);
        put_number("pinned_limit", page->pinned_limit);
        fputs(",\n   \"devices\": [", stdout);
        for (unsigned i = 0; i < page->devices; i++)
            put_device(job, i);
        fputs("]}", stdout);
    }
    puts("\n]");
}
