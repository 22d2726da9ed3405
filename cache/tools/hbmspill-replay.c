/*
 * hbmspill-replay - would this job run on such a machine, and how slowly?
 *
 * Reads a trace (doc/TRACE.md), runs the cache over it on a simulated machine, once as asked and once with
 * HBM without end, and prints what that says. Exit: 0 done; 1 the trace cannot be read; 2 wrong usage; 3 the
 * job does not fit (one of the sizes, in a sweep).
 */
#include "cache/cycle.h"
#include "cache/tools/plan_lp.h"
#include "cache/tools/replay.h"
#include "config.h"
#include "model/machine.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1 << 20)

/* Looked at by the planner at most, which is a minute or so: no clock ends it, so that results repeat. */
#define MOST_PIECES 5e7
#define MOST_ITERATIONS 4e5

/* Of a file of events: what viewers still open. */
#define EVENTS_BYTES (UINT64_C(256) << 20)

static const char usage[] =
    "usage: hbmspill-replay TRACE --hbm SIZE [options]        all times are modelled\n"
    "  --hbm SIZE|FROM:TO:STEP|Nx   memory of the device; Nx: live bytes divided by N\n"
    "  --host SIZE                  pinned host memory behind it (default: without end)\n"
    "  --link pcie4|pcie5|c2c       or IN,OUT in GB/s, or ratio:R: (live - HBM) / rate is R times the "
    "compute\n"
    "                               time of a round (default pcie5)\n"
    "  --policy lru|bip|nextuse     (default nextuse)\n"
    "  --prefetch on|off            (default on)\n"
    "  --ahead N                    frames that may come in ahead of their use (default: no limit)\n"
    "  --window auto|off|N          most operations held (default auto)\n"
    "  --plan off|greedy|optimal    schedules for rounds that repeat (default greedy)\n"
    "  --cycle FILE                 write the round that was found, for hbmspill-plan\n"
    "  --events FILE                write what happens when, for Perfetto; not of a sweep\n"
    "  --duration-from bytes:RATE   kernels without a duration move what they touch at RATE GB/s (default "
    "3000)\n"
    "  --frame SIZE                 (default: 2 MiB, more where HBM is large)\n"
    "  --repeat N                   append the last round N times more\n"
    "  --steady N                   rounds that count begin with number N (default 3)\n"
    "  --size-scale N               a byte of the trace stands for N\n"
    "  --driver-scale N             what the cache's driver calls cost, times N\n"
    "  --json                       print JSON\n";

struct request {
    const char *path;
    double hbm_from, hbm_to, hbm_step; /* bytes; step 0: one */
    double oversubscription;           /* of --hbm Nx, else 0 */
    double transfer_ratio;             /* of --link ratio:R, else 0 */
    const char *link_name;
    bool json, optimal;
    const char *cycle_path, *events_path;
    uint32_t repeat;
    struct replay_config config;
};

static void __attribute__((noreturn)) wrong_usage(const char *what, const char *text)
{
    fprintf(stderr, "hbmspill-replay: %s%s%s\n%s", what, text ? ": " : "", text ? text : "", usage);
    exit(2);
}

/* A number, with a unit of powers of 1024 where `units' is set; what follows it in *rest. */
static bool parse(const char *text, bool units, double *value, const char **rest)
{
    static const char letters[] = "KMGT";
    char *end;

    *value = strtod(text, &end);
    if (end == text || !(*value >= 0 && *value < 1e18))
        return false;
    if (units && *end && strchr(letters, *end & ~0x20)) {
        for (long power = strchr(letters, *end & ~0x20) - letters; power >= 0; power--)
            *value *= 1024;
        end++;
        if (end[0] == 'i' && end[1] == 'B')
            end += 2;
    }
    *rest = end;
    return true;
}

static double parse_whole(const char *option, const char *text, bool units)
{
    const char *rest;
    double value;

    if (!parse(text, units, &value, &rest) || *rest || !(value > 0))
        wrong_usage(option, text);
    return value;
}

/* The same, and nothing at all is allowed. */
static double parse_factor(const char *option, const char *text, bool units)
{
    const char *rest;
    double value;

    if (!parse(text, units, &value, &rest) || *rest)
        wrong_usage(option, text);
    return value;
}

static void parse_hbm(struct request *request, const char *text)
{
    const char *rest;

    if (!parse(text, true, &request->hbm_from, &rest) || !(request->hbm_from > 0))
        wrong_usage("--hbm", text);
    request->hbm_to = request->hbm_from;
    if (!strcmp(rest, "x")) {
        request->oversubscription = request->hbm_from;
        return;
    }
    if (*rest == ':' && (!parse(rest + 1, true, &request->hbm_to, &rest) || *rest != ':' ||
                         !parse(rest + 1, true, &request->hbm_step, &rest) || !(request->hbm_step > 0)))
        wrong_usage("--hbm", text);
    if (*rest || request->hbm_to < request->hbm_from)
        wrong_usage("--hbm", text);
}

static void parse_link(struct request *request, const char *text)
{
    struct simulation_link *link = &request->config.link;
    const char *rest;

    request->link_name = text;
    request->transfer_ratio = 0;
#define PRESET(name, in_rate, out_rate, in_both_rate, out_both_rate)                                         \
    if (!strcmp(text, #name)) {                                                                              \
        *link = (struct simulation_link){in_rate, out_rate, in_both_rate, out_both_rate};                    \
        return;                                                                                              \
    }
    MACHINE_LINKS(PRESET)
#undef PRESET
    if (!strncmp(text, "ratio:", 6)) {
        request->transfer_ratio = parse_whole("--link", text + 6, false);
        return;
    }
    if (!parse(text, false, &link->in, &rest) || *rest != ',' || !parse(rest + 1, false, &link->out, &rest) ||
        *rest || !(link->in > 0) || !(link->out > 0))
        wrong_usage("--link", text);
    link->in *= 1e9;
    link->out *= 1e9;
    link->in_both = link->in;
    link->out_both = link->out;
}

static const char *const policies[] = {"lru", "bip", "nextuse"}; /* by enum cache_policy */

static void parse_policy(struct request *request, const char *text)
{
    unsigned i = 0;

    while (i < sizeof policies / sizeof *policies && strcmp(text, policies[i]) != 0)
        i++;
    if (i == sizeof policies / sizeof *policies)
        wrong_usage("--policy", text);
    request->config.policy = (enum cache_policy)i;
}

static void parse_window(struct request *request, const char *text)
{
    if (!strcmp(text, "auto"))
        request->config.window = 16384; /* as HBMSPILL_WINDOW=auto */
    else if (!strcmp(text, "off"))
        request->config.window = 0;
    else
        request->config.window = (unsigned)parse_whole("--window", text, false);
}

static void parse_plan(struct request *request, const char *text)
{
    if (strcmp(text, "off") != 0 && strcmp(text, "greedy") != 0 && strcmp(text, "optimal") != 0)
        wrong_usage("--plan", text);
    request->config.follow = strcmp(text, "off") != 0;
    request->optimal = !strcmp(text, "optimal");
}

static void parse_rate(struct request *request, const char *text)
{
    if (strncmp(text, "bytes:", 6) != 0)
        wrong_usage("--duration-from", text);
    request->config.rate = 1e9 * parse_whole("--duration-from", text + 6, false);
}

static void parse_arguments(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {{"hbm", required_argument, NULL, 'm'},
                                            {"host", required_argument, NULL, 'h'},
                                            {"link", required_argument, NULL, 'l'},
                                            {"policy", required_argument, NULL, 'p'},
                                            {"prefetch", required_argument, NULL, 'b'},
                                            {"ahead", required_argument, NULL, 'a'},
                                            {"window", required_argument, NULL, 'w'},
                                            {"plan", required_argument, NULL, 'n'},
                                            {"cycle", required_argument, NULL, 'y'},
                                            {"events", required_argument, NULL, 'e'},
                                            {"duration-from", required_argument, NULL, 'd'},
                                            {"frame", required_argument, NULL, 'f'},
                                            {"repeat", required_argument, NULL, 'r'},
                                            {"steady", required_argument, NULL, 't'},
                                            {"size-scale", required_argument, NULL, 's'},
                                            {"driver-scale", required_argument, NULL, 'c'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'H'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    int option;

    parse_link(request, "pcie5");
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'm':
            parse_hbm(request, optarg);
            break;
        case 'h':
            request->config.host = (uint64_t)parse_factor("--host", optarg, true);
            break;
        case 'l':
            parse_link(request, optarg);
            break;
        case 'p':
            parse_policy(request, optarg);
            break;
        case 'b':
            if (strcmp(optarg, "on") != 0 && strcmp(optarg, "off") != 0)
                wrong_usage("--prefetch", optarg);
            request->config.prefetch = !strcmp(optarg, "on");
            break;
        case 'a':
            request->config.ahead = (unsigned)parse_whole("--ahead", optarg, false);
            break;
        case 'w':
            parse_window(request, optarg);
            break;
        case 'n':
            parse_plan(request, optarg);
            break;
        case 'y':
            request->cycle_path = optarg;
            break;
        case 'e':
            request->events_path = optarg;
            break;
        case 'd':
            parse_rate(request, optarg);
            break;
        case 'f':
            request->config.frame_size = (uint64_t)parse_whole("--frame", optarg, true);
            if (request->config.frame_size < 4096 ||
                request->config.frame_size & (request->config.frame_size - 1))
                wrong_usage("--frame is no power of two from 4096 on", optarg);
            break;
        case 'r':
            request->repeat = (uint32_t)parse_whole("--repeat", optarg, false);
            break;
        case 't':
            request->config.steady = (uint32_t)parse_whole("--steady", optarg, false) - 1;
            break;
        case 's':
            request->config.size_scale = parse_whole("--size-scale", optarg, false);
            break;
        case 'c':
            request->config.driver_scale = parse_factor("--driver-scale", optarg, false);
            break;
        case 'j':
            request->json = true;
            break;
        case 'H':
            fputs(usage, stdout);
            exit(0);
        case 'V':
            puts("hbmspill-replay " PACKAGE_VERSION);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (optind != argc - 1)
        wrong_usage("one trace is wanted", NULL);
    if (!(request->hbm_from > 0))
        wrong_usage("--hbm is missing", NULL);
    if (request->events_path && request->hbm_step > 0)
        wrong_usage("--events is of one size, not of a sweep", NULL);
    request->path = argv[optind];
}

static void print_head(const struct request *request, const struct tape *tape,
                       const struct replay_tape *about)
{
    if (request->json) {
        printf("{\n  \"modelled\": true,\n  \"launches\": %u, \"period\": %u, \"rounds\": %u,\n"
               "  \"live_bytes\": %llu, \"largest_operation_bytes\": %llu, \"compute_seconds\": %.9f,\n"
               "  \"policy\": \"%s\", \"window\": %u,\n  \"rows\": [",
               tape->launches, about->period, about->rounds, (unsigned long long)about->live,
               (unsigned long long)about->largest, about->compute * 1e-9, policies[request->config.policy],
               request->config.window);
        return;
    }
    printf("%s: %u launches, ", request->path, tape->launches);
    if (about->rounds)
        printf("%u rounds of %u; a round from the third on (modelled): ", about->rounds, about->period);
    else
        printf("no rounds found; all of it (modelled): ");
    printf("live %.1f MiB, largest operation %.1f MiB, compute %.3f ms\n", (double)about->live / MIB,
           (double)about->largest / MIB, about->compute * 1e-6);
    printf("%10s %9s %12s %10s %10s %12s %12s %12s %12s\n", "HBM MiB", "slowdown", "round ms", "in MiB",
           "out MiB", "stalled ms", "host wait ms", "driver ms", "makespan ms");
}

static void print_row(const struct request *request, const struct replay_config *config,
                      const struct replay_result *result, const struct replay_result *unlimited, bool first)
{
    double slowdown = result->complete ? result->round / unlimited->round : 0;

    if (!request->json && result->complete)
        printf("%10.1f %9.3f %12.3f %10.1f %10.1f %12.3f %12.3f %12.3f %12.3f\n", (double)config->hbm / MIB,
               slowdown, result->round * 1e-6, result->in / MIB, result->out / MIB, result->stalled * 1e-6,
               result->host_waited * 1e-6, result->driver * 1e-6, result->makespan * 1e-6);
    else if (!request->json)
        printf("%10.1f does not fit: %s\n", (double)config->hbm / MIB, result->why);
    if (!request->json && result->left_out > 0)
        printf("%10s left out: %.1f MiB that the job asks for and never touches, more than there is\n", "",
               result->left_out / MIB);
    if (!request->json)
        return;
    printf("%s\n    {\"hbm_bytes\": %llu, \"host_bytes\": %llu, \"link_in\": %.0f, \"link_out\": %.0f, "
           "\"fits\": %s",
           first ? "" : ",", (unsigned long long)config->hbm, (unsigned long long)config->host,
           config->link.in, config->link.out, result->complete ? "true" : "false");
    if (result->left_out > 0)
        printf(", \"left_out_bytes\": %.0f", result->left_out);
    if (result->complete) {
        printf(",\n     \"slowdown\": %.6f, \"round_seconds\": %.9f, \"unlimited_round_seconds\": %.9f, "
               "\"makespan_seconds\": %.9f,\n     \"in_bytes\": %.0f, \"out_bytes\": %.0f, "
               "\"stalled_seconds\": %.9f, \"host_waited_seconds\": %.9f, \"driver_seconds\": %.9f, "
               "\"binding_calls\": %.1f, \"moved_frames\": %.1f",
               slowdown, result->round * 1e-9, unlimited->round * 1e-9, result->makespan * 1e-9, result->in,
               result->out, result->stalled * 1e-9, result->host_waited * 1e-9, result->driver * 1e-9,
               result->binding_calls, result->in / (double)config->frame_size);
        printf(",\n     \"round_late_bytes\": %.0f, \"each_round_seconds\": [", result->late);
        for (uint32_t i = 0; i < result->told; i++)
            printf("%s%.9f", i ? ", " : "", result->each[i] * 1e-9);
        printf("]");
#define COUNTER(name, unit, text)                                                                            \
    if (result->statistics.name)                                                                             \
        printf(",\n     \"%s\": %llu", #name, (unsigned long long)result->statistics.name);
        HBMSPILL_COUNTERS(COUNTER)
#undef COUNTER
    }
    printf("}");
}

/* The planner of a replay: asked by the cache, it plans at once. */
struct planning {
    const struct request *request;
    struct schedule *schedule;
};

static void planner_ask(void *ctx, const struct cycle *cycle, uint64_t hash, double predicted, bool kept)
{
    struct planning *planning = ctx;
    const char *path = planning->request->cycle_path;
    FILE *file;

    (void)hash;
    (void)predicted;
    if (kept)
        return;
    file = path ? fopen(path, "w") : NULL;
    if (path && (!file || cycle_write(cycle, file) || fclose(file)))
        fprintf(stderr, "hbmspill-replay: %s: %s\n", path, strerror(errno));
    schedule_free(planning->schedule);
    planning->schedule = NULL;
    if (planning->request->optimal) {
        struct plan_options options = {.pieces = MOST_PIECES, .iterations = MOST_ITERATIONS};
        char why[160];

        if (plan_optimal(cycle, &options, &planning->schedule, why, sizeof why))
            fprintf(stderr, "hbmspill-replay: no optimal plan: %s\n", why);
    }
}

static int planner_answer(void *ctx, uint64_t hash, struct schedule **out)
{
    struct planning *planning = ctx;

    (void)hash;
    if (!planning->schedule)
        return -ENOENT;
    *out = planning->schedule;
    planning->schedule = NULL;
    return 0;
}

static int replay_row(const struct request *request, const struct tape *tape, const struct replay_tape *about,
                      double hbm, bool first)
{
    struct replay_config config = request->config, wide;
    struct replay_result result, unlimited;
    struct planning planning = {.request = request};
    struct cache_planner planner = {&planning, planner_ask, planner_answer};
    int error;

    config.hbm =
        (uint64_t)(request->oversubscription > 0 ? (double)about->live / request->oversubscription : hbm);
    if (!config.frame_size)
        config.frame_size = replay_frame_size(config.hbm);
    if (request->transfer_ratio > 0) {
        double moved = (double)about->live - (double)config.hbm;
        double rate =
            (moved > 0 ? moved : (double)about->live) * 1e9 / (request->transfer_ratio * about->compute);

        config.link = (struct simulation_link){rate, rate, rate, rate};
    }
    wide = config;
    wide.events = NULL;
    wide.follow = false;
    config.planner = &planner;
    wide.hbm = UINT64_C(1) << 60;
    wide.window = 0;
    error = replay_run(tape, about, &config, &result);
    if (!error)
        error = replay_run(tape, about, &wide, &unlimited);
    if (error) {
        fprintf(stderr, "hbmspill-replay: %s\n", strerror(-error));
        return -1;
    }
    print_row(request, &config, &result, &unlimited, first);
    return result.complete ? 0 : 3;
}

int main(int argc, char **argv)
{
    static struct events_writer events;
    struct request request = {.config = {.host = UINT64_C(1) << 50,
                                         .policy = CACHE_POLICY_NEXTUSE,
                                         .prefetch = true,
                                         .follow = true,
                                         .window = 16384,
                                         .rate = MACHINE_HBM_RATE,
                                         .steady = REPLAY_FIRST_STEADY,
                                         .size_scale = 1,
                                         .driver_scale = 1}};
    struct replay_tape about;
    struct tape *tape;
    uint64_t line;
    char why[200];
    unsigned rows;
    int status = 0, row;

    parse_arguments(argc, argv, &request);
    if (tape_read(request.path, &tape, &line, why, sizeof why)) {
        if (line)
            fprintf(stderr, "hbmspill-replay: %s:%llu: %s\n", request.path, (unsigned long long)line, why);
        else
            fprintf(stderr, "hbmspill-replay: %s: %s\n", request.path, why);
        return 1;
    }
    if (!replay_examine(tape, &request.config, &about)) {
        fprintf(stderr, "hbmspill-replay: out of memory\n");
        return 2;
    }
    if (request.repeat) {
        int error = about.rounds ? tape_repeat(tape, about.period, request.repeat) : -EINVAL;

        if (error) {
            fprintf(stderr, "hbmspill-replay: --repeat: %s\n",
                    error == -EINVAL ? "the last two rounds are not alike" : strerror(-error));
            return 1;
        }
        if (!replay_examine(tape, &request.config, &about))
            return 2;
    }
    if (request.events_path) {
        int fd = open(request.events_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

        if (fd < 0) {
            fprintf(stderr, "hbmspill-replay: %s: %s\n", request.events_path, strerror(errno));
            return 1;
        }
        events_begin(&events, fd, (uint32_t)getpid(), EVENTS_BYTES);
        request.config.events = &events;
    }
    print_head(&request, tape, &about);
    rows = request.hbm_step > 0
               ? 1 + (unsigned)((request.hbm_to - request.hbm_from) / request.hbm_step + 1e-9)
               : 1;
    for (unsigned i = 0; i < rows; i++) {
        row = replay_row(&request, tape, &about, request.hbm_from + i * request.hbm_step, i == 0);
        if (row < 0)
            return 2;
        status = row ? row : status;
    }
    if (request.json)
        printf("\n  ]\n}\n");
    if (request.config.events) {
        int error = events_end(&events);

        if (close(events.fd) && !error)
            error = -errno;
        if (error) {
            fprintf(stderr, "hbmspill-replay: %s: %s\n", request.events_path, strerror(-error));
            status = 1;
        }
    }
    tape_free(tape);
    return status;
}
