/*
 * report.c - what the synthetic GPU saw: counters, calls per function and hazards, as JSON at the end of the
 * process.
 *
 * A hazard is something that CUDA forbids or leaves undefined and that this driver could see; it is counted
 * under a name, with the text of its first occurrence.
 */
#include "memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_HAZARDS 32

static struct hazard {
    const char *name;
    uint64_t count;
    char first[320];
} hazards[MAX_HAZARDS];

void report_hazard_locked(const char *name, const char *format, ...)
{
    struct hazard *h = hazards;
    while (h < hazards + MAX_HAZARDS - 1 && h->name && strcmp(h->name, name) != 0)
        h++;
    if (!h->name) {
        va_list args;
        h->name = name;
        va_start(args, format);
        vsnprintf(h->first, sizeof(h->first), format, args);
        va_end(args);
        driver_log("hazard %s: %s", name, h->first);
    }
    h->count++;
}

static void put_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);
        if ((unsigned char)*s >= ' ')
            fputc(*s, f);
    }
    fputc('"', f);
}

static void write_report(FILE *f)
{
    static const char *const names[COUNTERS] = {"launches",  "graph_launches", "h2d_bytes",   "d2h_bytes",
                                                "d2d_bytes", "h2h_bytes",      "instructions"};
    uint64_t peak = 0, used = 0;
    for (int i = 0; i < device_count; i++) {
        peak += devices[i].frames->peak * PAGE;
        used += devices[i].frames->used * PAGE;
    }
    fprintf(f, "{\n  \"hbm_bytes\": %zu,\n  \"devices\": %d,\n  \"peak_device_bytes\": %llu,\n",
            options.hbm_bytes, device_count, (unsigned long long)peak);
    fprintf(f, "  \"device_bytes_at_exit\": %llu,\n", (unsigned long long)used);
    fprintf(f, "  \"schedule\": ");
    put_string(f, options.schedule_name);
    for (int i = 0; i < COUNTERS; i++)
        fprintf(f, ",\n  \"%s\": %llu", names[i], (unsigned long long)counters[i]);
    fprintf(f, ",\n  \"calls\": {");
    const char *separator = "\n";
    for (const struct api_site *site = api_sites(); site; site = site->next) {
        fprintf(f, "%s    \"%s\": %llu", separator, site->name, (unsigned long long)site->calls);
        separator = ",\n";
    }
    fprintf(f, "\n  },\n  \"hazards\": [");
    separator = "\n";
    for (struct hazard *h = hazards; h < hazards + MAX_HAZARDS && h->name; h++) {
        fprintf(f, "%s    {\"name\": \"%s\", \"count\": %llu, \"first\": ", separator, h->name,
                (unsigned long long)h->count);
        put_string(f, h->first);
        fputc('}', f);
        separator = ",\n";
    }
    fprintf(f, "%s]\n}\n", hazards[0].name ? "\n  " : "");
}

/* Only reads counters: the engine may be in the middle of something, or gone. */
void report_at_exit(void)
{
    char path[4096], *out = path;
    if (!options.report)
        return;
    for (const char *s = options.report; *s && out < path + sizeof(path) - 16; s++) {
        if (s[0] == '%' && s[1] == 'p') {
            out += sprintf(out, "%d", (int)getpid());
            s++;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
    FILE *f = fopen(path, "we");
    if (!f) {
        driver_log("cannot write the report %s: %s", path, strerror(errno));
        return;
    }
    write_report(f);
    fclose(f);
}
