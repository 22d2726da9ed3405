#include "hooks/costs.h"
#include "cache/dearest.h"
#include "cache/stall.h"
#include "hooks/callsite.h"
#include "hooks/symbol.h"
#include "shim/log.h"
#include "shim/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 10,
    FRAMES_JSON = 12,
    FRAMES_LOG = 4,
    /* While nothing is short only allocations of at least this part of HBM are looked at. */
    LARGE_SHARE = 1024,
};

bool costs_wanted(void)
{
    return log_wants(LOG_INFO, LOG_IN_DEAREST) || options_get()->stats.text[0] || options_get()->verify == 1;
}

void costs_note_allocation(struct gpu *gpu, uint64_t address, uint64_t size)
{
    bool is_short;
    uint32_t site;

    if (!costs_wanted())
        return;
    is_short = cache_under_pressure(gpu->cache);
    if (!is_short && size < gpu->hbm_limit / LARGE_SHARE && options_get()->verify != 1)
        return;
    site = callsite_take(size);
    if (site)
        cache_set_site(gpu->cache, address, site);
}

struct cost {
    struct dearest_row row;
    double transfer, away; /* seconds */
    int device;
    bool paid;  /* the transfers took no longer than there was to hide them behind */
    bool known; /* there was a return by which to tell */
};

static void weigh(struct cost *cost, const struct gpu *gpu, double operation)
{
    struct link_rates rates;

    (void)link_known(&gpu->link, &rates);
    cost->device = gpu->device;
    cost->transfer = (double)cost->row.bytes_in / rates.in + (double)cost->row.bytes_out / rates.out;
    cost->away = (double)cost->row.away * operation;
    cost->known = cost->row.returns > 0 && operation > 0;
    cost->paid = cost->known && cost->transfer <= cost->away;
}

/* The dearest of all devices, most bytes first. */
static unsigned dearest(struct cost costs[ROWS])
{
    static struct dearest_row rows[ROWS];
    unsigned count = 0;
    struct gpu *gpu;

    for (unsigned i = 0; (gpu = gpu_at(i)); i++) {
        unsigned found = cache_dearest(gpu->cache, rows, ROWS);
        double operation = stall_operation(cache_statistics(gpu->cache)) * 1e-9;

        for (unsigned j = 0; j < found; j++) {
            struct cost cost = {.row = rows[j]};
            uint64_t bytes = rows[j].bytes_in + rows[j].bytes_out;
            unsigned place = count;

            weigh(&cost, gpu, operation);
            while (place > 0 && costs[place - 1].row.bytes_in + costs[place - 1].row.bytes_out < bytes)
                place--;
            if (place == ROWS)
                break;
            if (count < ROWS)
                count++;
            memmove(&costs[place + 1], &costs[place], (count - 1 - place) * sizeof *costs);
            costs[place] = cost;
        }
    }
    return count;
}

static uint64_t mean(uint64_t sum, uint64_t count)
{
    return count ? sum / count : 0;
}

static void put_site(struct text *text, uint32_t site)
{
    void *addresses[CALLSITE_FRAMES];
    unsigned count = callsite_addresses(site, addresses);
    char name[256];

    text_put(text, "[");
    for (unsigned i = 0; i < count && i < FRAMES_JSON; i++) {
        symbol_text(addresses[i], name, sizeof name);
        text_put(text, "%s", i ? ", " : "");
        text_put_string(text, name);
    }
    text_put(text, "]");
}

void costs_put_json(struct text *text)
{
    struct cost costs[ROWS];
    unsigned count = dearest(costs);

    text_put(text, "[");
    for (unsigned i = 0; i < count; i++) {
        const struct dearest_row *row = &costs[i].row;

        text_put(
            text,
            "%s\n    {\"device\": %d, \"size\": %llu, \"moves_in\": %llu, \"moves_out\": %llu, "
            "\"moved_in_bytes\": %llu, \"moved_out_bytes\": %llu,\n     \"returns\": %llu, "
            "\"reuse_distance\": %llu, \"transfer_seconds\": %.9f, \"away_seconds\": %.9f, \"paid\": %s,\n"
            "     \"site\": ",
            i ? "," : "", costs[i].device, (unsigned long long)row->size, (unsigned long long)row->moves_in,
            (unsigned long long)row->moves_out, (unsigned long long)row->bytes_in,
            (unsigned long long)row->bytes_out, (unsigned long long)row->returns,
            (unsigned long long)mean(row->reuse_distance, row->returns), costs[i].transfer, costs[i].away,
            !costs[i].known ? "null"
            : costs[i].paid ? "true"
                            : "false");
        put_site(text, row->site);
        text_put(text, "}");
    }
    text_put(text, "%s]", count ? "\n  " : "");
    symbols_done();
}

/* How many of the innermost frames all rows have in common: the job's allocator, of no interest. */
static unsigned shared_frames(const struct cost *costs, unsigned rows)
{
    void *first[CALLSITE_FRAMES], *addresses[CALLSITE_FRAMES];
    unsigned shared = CALLSITE_FRAMES, sites = 0;

    for (unsigned i = 0; i < rows; i++) {
        unsigned count = callsite_addresses(costs[i].row.site, sites ? addresses : first), same = 0;

        if (!count)
            continue;
        while (sites && same < count && same < shared && addresses[same] == first[same])
            same++;
        shared = sites++ ? same : count;
    }
    return sites > 1 ? shared : 0;
}

/* Without the first `skip' frames, where there are more. */
static void site_text(uint32_t site, unsigned skip, char *text, size_t size)
{
    void *addresses[CALLSITE_FRAMES];
    unsigned count = callsite_addresses(site, addresses);
    char name[200];

    if (skip >= count)
        skip = 0;
    snprintf(text, size, "%s", count ? skip ? "... < " : "" : "unknown");
    for (unsigned i = skip; i < count && i < skip + FRAMES_LOG; i++) {
        size_t length = strlen(text);

        symbol_text(addresses[i], name, sizeof name);
        snprintf(text + length, size - length, "%s%s", i > skip ? " < " : "", name);
    }
}

static void log_row(const struct cost *cost, unsigned skip)
{
    const struct dearest_row *row = &cost->row;
    char site[900];

    site_text(row->site, skip, site, sizeof site);
    log_line(LOG_INFO, LOG_IN_DEAREST, LOG_NO_DEVICE, "%9.1f %9.1f %9.2f %7llu %9llu %11.3f %9.3f  %-4s  %s",
             (double)row->bytes_in / 1048576, (double)row->bytes_out / 1048576, (double)row->size / 1048576,
             (unsigned long long)row->returns, (unsigned long long)mean(row->reuse_distance, row->returns),
             cost->transfer * 1e3, cost->away * 1e3,
             !cost->known ? "?"
             : cost->paid ? "yes"
                          : "no",
             site);
}

void costs_log(void)
{
    struct cost costs[ROWS];
    unsigned count, skip;

    if (!log_wants(LOG_INFO, LOG_IN_DEAREST))
        return;
    count = dearest(costs);
    skip = shared_frames(costs, count);
    if (count)
        log_line(LOG_INFO, LOG_IN_DEAREST, LOG_NO_DEVICE, "%9s %9s %9s %7s %9s %11s %9s  %-4s  %s", "MiB in",
                 "MiB out", "MiB each", "returns", "reuse in", "transfer ms", "away ms", "paid",
                 "allocated in");
    for (unsigned i = 0; i < count; i++)
        log_row(&costs[i], skip);
    symbols_done();
}

void costs_mismatch(void *unused, const struct cache_mismatch *mismatch)
{
    char site[900];

    (void)unused;
    site_text(mismatch->site, 0, site, sizeof site);
    log_line(
        LOG_ERROR, LOG_IN_VERIFY, LOG_NO_DEVICE,
        "the allocation at 0x%llx (%llu bytes, made in %s) %s: %llu bytes at 0x%llx have another checksum",
        (unsigned long long)mismatch->address, (unsigned long long)mismatch->size, site,
        mismatch->out ? "was not moved out as it is" : "did not come back as it was moved out",
        (unsigned long long)mismatch->piece_size, (unsigned long long)mismatch->piece);
    abort();
}
