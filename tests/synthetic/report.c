/*
 * report.c - what the synthetic GPU saw: counters, calls per function and hazards, as JSON at the end of the
 * process.
 *
 * A hazard is something that CUDA forbids or leaves undefined and that this driver could see; it is counted
 * under a name, with the text of its first occurrence.
 */
#include "clock.h"
#include "engine.h"
#include "quiet.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Virtual time: everything here is the model's (timeline.h, model/machine.h), nothing was measured. */
static void write_clock(FILE *f)
{
    const char *separator = "\n";
    fprintf(f, ",\n  \"modelled\": {\n    \"link\": ");
    put_string(f, options.link_name);
    fprintf(f, ",\n    \"compute_scale\": %.9g,\n    \"size_scale\": %.9g,\n    \"driver_scale\": %.9g,\n",
            options.compute_scale, options.size_scale, options.driver_scale);
    fprintf(f, "    \"makespan_ns\": %.0f,\n    \"host_ns\": %.0f,\n    \"host_waited_ns\": %.0f,\n",
            timeline_last_end > clock_now ? timeline_last_end : clock_now, clock_now, clock_waited);
    fprintf(f, "    \"threads_not_waited_for\": %llu,\n    \"engines\": [", (unsigned long long)quiet_hasty);
    for (int i = 0; i < device_count; i++) {
        const struct copy_engine *in = &timeline_engines[i][ENGINE_IN],
                                 *out = &timeline_engines[i][ENGINE_OUT];
        fprintf(f,
                "%s      {\"device\": %d, \"in_busy_ns\": %.0f, \"in_bytes\": %.0f, \"out_busy_ns\": %.0f, "
                "\"out_bytes\": %.0f}",
                separator, i, in->busy, in->bytes, out->busy, out->bytes);
        separator = ",\n";
    }
    fprintf(f, "\n    ],\n    \"streams\": [");
    separator = "\n";
    for (const struct lane *lane = timeline_lanes; lane; lane = lane->next) {
        if (lane->busy <= 0 && lane->waited <= 0)
            continue;
        fprintf(f, "%s      {\"stream\": %llu, \"busy_ns\": %.0f, \"waited_ns\": %.0f}", separator,
                (unsigned long long)lane->stream_id, lane->busy, lane->waited);
        separator = ",\n";
    }
    fprintf(f, "\n    ],\n    \"host_ns_in\": {");
    separator = "\n";
    for (const struct api_site *site = api_sites(); site; site = site->next) {
        if (site->host_ns <= 0)
            continue;
        fprintf(f, "%s      \"%s\": %.0f", separator, site->name, site->host_ns);
        separator = ",\n";
    }
    fprintf(f, "\n    }\n  }");
}

/* What the process never gave back; streams without those that come with a context. */
static void write_held(FILE *f)
{
    size_t handles, reservations, streams = 0;
    driver_acquire();
    vmm_live_locked(&handles, &reservations);
    for (int i = 0; i < device_count; i++)
        for (CUcontext ctx = devices[i].contexts; ctx; ctx = ctx->next)
            for (const struct CUstream_st *s = ctx->streams; s; s = s->next)
                streams += !s->legacy && !s->per_thread && !s->destroyed;
    const struct {
        const char *name;
        size_t count;
    } held[] = {
        {"contexts", objects_live_locked(OBJECT_CONTEXT)},
        {"streams", streams},
        {"events", objects_live_locked(OBJECT_EVENT)},
        {"graphs", objects_live_locked(OBJECT_GRAPH)},
        {"graph_execs", objects_live_locked(OBJECT_GRAPH_EXEC)},
        {"pool_allocations", ranges_live_locked(RANGE_POOL)},
        {"allocations", ranges_live_locked(RANGE_ALLOC)},
        {"mappings", ranges_live_locked(RANGE_MAPPING)},
        {"handles", handles},
        {"reservations", reservations},
        {"host_allocations", ranges_live_locked(RANGE_HOST)},
        {"registrations", ranges_live_locked(RANGE_REGISTERED)},
    };
    uint64_t pinned, peak_pinned;
    size_t on_node[MAX_HOST_NODES];
    vmm_host_nodes_locked(on_node);
    pinned_read_locked(&pinned, &peak_pinned);
    driver_release();
    fprintf(f, ",\n  \"peak_pinned_bytes\": %llu,\n  \"pinned_bytes\": %llu", (unsigned long long)peak_pinned,
            (unsigned long long)pinned);
    fprintf(f, ",\n  \"host_handles_on_nodes\": [");
    for (int i = 0; i < options.host_nodes; i++)
        fprintf(f, "%s%zu", i ? ", " : "", on_node[i]);
    fprintf(f, "]");
    const char *separator = "";
    fprintf(f, ",\n  \"held\": {");
    for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
        fprintf(f, "%s\"held_%s\": %zu", separator, held[i].name, held[i].count);
        separator = ", ";
    }
    fprintf(f, "}");
}

static void write_report(FILE *f)
{
    static const char *const names[COUNTERS] = {"launches",  "graph_launches", "h2d_bytes",   "d2h_bytes",
                                                "d2d_bytes", "h2h_bytes",      "instructions"};
    uint64_t peak = 0, used = 0, driver = 0;
    for (int i = 0; i < device_count; i++) {
        peak += devices[i].frames->peak * PAGE;
        used += devices[i].frames->used * PAGE;
        driver += devices[i].frames->peak_driver_bytes;
    }
    fprintf(f, "{\n  \"hbm_bytes\": %zu,\n  \"devices\": %d,\n  \"peak_device_bytes\": %llu,\n",
            options.hbm_bytes, device_count, (unsigned long long)peak);
    fprintf(f, "  \"peak_driver_bytes\": %llu,\n", (unsigned long long)driver);
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
    fprintf(f, "\n  }");
    write_held(f);
    fprintf(f, ",\n  \"hazards\": [");
    separator = "\n";
    for (struct hazard *h = hazards; h < hazards + MAX_HAZARDS && h->name; h++) {
        fprintf(f, "%s    {\"name\": \"%s\", \"count\": %llu, \"first\": ", separator, h->name,
                (unsigned long long)h->count);
        put_string(f, h->first);
        fputc('}', f);
        separator = ",\n";
    }
    fprintf(f, "%s]", hazards[0].name ? "\n  " : "");
    if (clock_runs)
        write_clock(f);
    fprintf(f, "\n}\n");
}

/* Only counts: the engine may be in the middle of something, or gone. */
void report_at_exit(void)
{
    char path[4096];
    if (!options.report)
        return;
    options_path(options.report, path, sizeof(path));
    FILE *f = fopen(path, "we");
    if (!f) {
        driver_log("cannot write the report %s: %s", path, strerror(errno));
        return;
    }
    write_report(f);
    fclose(f);
}
