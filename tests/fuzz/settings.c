/*
 * settings.c - random machines and variables.
 *
 * Sizes are such that all that one operation touches fits into HBM, or else, now and then, so that nothing
 * is sure to fit: then an out-of-memory error is a right answer.
 */
#include "tests/fuzz/settings.h"

#include <stdarg.h>

/* UNMOVABLE: frames that small allocations and mapped memory may take, at most. */
enum { HOST_ROOM = 64 << 20, UNMOVABLE = 4 };

__attribute__((format(printf, 2, 3))) static void set(struct settings *settings, const char *format, ...)
{
    va_list arguments;

    REQUIRE(settings->variable_count < VARIABLES_MAX);
    va_start(arguments, format);
    vsnprintf(settings->variables[settings->variable_count++], sizeof settings->variables[0], format,
              arguments);
    va_end(arguments);
}

static const char *one_of(struct random *random, const char *const *texts)
{
    unsigned count = 0;

    while (texts[count])
        count++;
    return texts[random_below(random, count)];
}

#define ONE_OF(random, ...) one_of(random, (const char *const[]){__VA_ARGS__, NULL})

static void set_library(struct settings *settings, struct random *random)
{
    set(settings, "HBMSPILL_CLOSED=all");
    set(settings, "HBMSPILL_STRICT=%s", ONE_OF(random, "0", "1", "1"));
    set(settings, "HBMSPILL_PLAN=%s", ONE_OF(random, "greedy", "greedy", "greedy", "off"));
    set(settings, "HBMSPILL_POLICY=%s", ONE_OF(random, "nextuse", "nextuse", "lru", "bip"));
    set(settings, "HBMSPILL_PREFETCH=%s", ONE_OF(random, "on", "on", "on", "off"));
    set(settings, "HBMSPILL_MIN_SIZE=%s", ONE_OF(random, "1M", "16K", "256K", "100000", "0"));
    if (random_percent(random, 30))
        set(settings, "HBMSPILL_AHEAD=%u", random_from(random, 1, 8));
    if (random_percent(random, 55))
        set(settings, "HBMSPILL_WINDOW=%s", ONE_OF(random, "off", "off", "1", "2", "5", "16", "50"));
    if (random_percent(random, 15))
        set(settings, "HBMSPILL_REPORT=%s", ONE_OF(random, "physical", "1G"));
    /* Kernels that are not known to be closed find everything at its address; without handles of host memory
     * that is sure only where all of it fits, and it takes more of the host tier. */
    if (random_percent(random, 25))
        set(settings, "SYNTHETIC_GPU_HOST_VMM=%s", ONE_OF(random, "off", "off", "refused"));
    else if (!settings->limits.may_run_out && random_percent(random, 20))
        set(settings, "HBMSPILL_ADMITTED=%s", FUZZ_TABLE);
    if (random_percent(random, 15))
        set(settings, "HBMSPILL_TRACE_EVENTS=/dev/null");
    if (!settings->limits.may_run_out && random_percent(random, 20))
        set(settings, "HBMSPILL_TEST_REFRAME=2"); /* what is rounded up to them needs not fit any more */
    if (random_percent(random, 60)) /* of what is larger, parts of a slot's size leave and come back */
        set(settings, "HBMSPILL_TEST_SLOT=%s", ONE_OF(random, "2M", "2M", "4M", "6M"));
}

void settings_of(uint64_t seed, bool native, struct settings *settings)
{
    struct random random = random_of(seed, 1);
    struct limits *limits = &settings->limits;
    unsigned frames, percent, schedule;
    size_t usable, reserve, host;

    *settings = (struct settings){.threads = random_percent(&random, 8) ? random_from(&random, 2, 3) : 1};
    frames = random_from(&random, settings->threads > 1 ? 14 : 8, 20);
    usable = frames * (size_t)FRAME;
    percent = random_from(&random, 30, 120);
    limits->live_bytes = usable * 100 / percent;
    if (limits->live_bytes > (size_t)40 << 20)
        limits->live_bytes = (size_t)40 << 20;
    limits->most_bytes = settings->threads > 1 ? FRAME : (frames - UNMOVABLE) / 4 * (size_t)FRAME;
    limits->mapped_bytes =
        settings->threads == 1 && frames >= 12 && random_percent(&random, 50) ? 2 * FRAME : 0;
    limits->streams = random_percent(&random, 35) ? 1 : random_from(&random, 1, 4);
    limits->alone = settings->threads == 1;
    limits->legacy = limits->alone && random_percent(&random, 60);
    limits->thread = random_percent(&random, 50);
    limits->may_run_out = random_percent(&random, 8);
    settings->actions = random_from(&random, 60, 420) / settings->threads;
    reserve = random_from(&random, 2, 4) * (size_t)FRAME;
    host = limits->may_run_out ? limits->live_bytes * random_from(&random, 5, 60) / 100
                               : 4 * limits->live_bytes + HOST_ROOM;
    limits->live_bytes /= settings->threads;

    schedule = random_below(&random, 100);
    if (schedule < 70)
        set(settings, "SYNTHETIC_GPU_SCHEDULE=random:%llu", (unsigned long long)seed);
    else
        set(settings, "SYNTHETIC_GPU_SCHEDULE=%s", schedule < 85 ? "lazy" : "eager");
    if (native) {
        set(settings, "SYNTHETIC_GPU_HBM=1G");
        limits->may_run_out = false;
        return;
    }
    if (random_percent(&random, 30)) {
        set(settings, "SYNTHETIC_GPU_HBM=%zuM", (usable + 4 * reserve) >> 20);
        set(settings, "HBMSPILL_HBM_LIMIT=%zuM", usable >> 20);
    } else {
        set(settings, "SYNTHETIC_GPU_HBM=%zuM", (usable + reserve) >> 20);
        set(settings, "HBMSPILL_RESERVE=%zuM", reserve >> 20);
    }
    set(settings, "HBMSPILL_HOST_LIMIT=%zuM", (host >> 20) + 1);
    set_library(settings, &random);
}
