/*
 * What moving data costs, as the library finds out and reports it: the link's rates, how long streams stood
 * still, which allocations cost most and where they were made.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <unistd.h>

enum { BYTES = 4 << 20, WORDS = BYTES / 4 };

/* Buffers that take turns in too little memory. */
static void cycle(CUdeviceptr *at, unsigned count, unsigned rounds, CUstream stream)
{
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned i = 0; i < count; i++)
            job_fill(at[i], WORDS, round * count + i, stream);
    CU(cuStreamSynchronize(stream));
}

/*
 * Memory gets short, something is given back, and something is asked for: again and again, since what was
 * given back may still be in use and a measurement waits for nothing.
 */
static void short_of_memory(void)
{
    CUdeviceptr at[10];
    CUstream stream;

    cuda_start();
    job_flush();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 10; i++) {
        CU(cuMemAllocAsync(&at[0], BYTES, stream));
        CU(cuMemFreeAsync(at[0], stream));
        CU(cuStreamSynchronize(stream));
        usleep(8000);
    }
    for (unsigned i = 0; i < 10; i++)
        CU(cuMemAllocAsync(&at[i], BYTES, stream));
    cycle(at, 10, 2, stream);
    for (unsigned i = 0; i < 10; i++)
        CHECK_WORDS(at[i], WORDS, 10 + i);
}

static double rate(const struct outcome *of, const char *name)
{
    return (double)outcome_number(of->statistics, name);
}

static void measured(const struct outcome *of)
{
    static const char *const names[] = {"link_in_bytes_per_second", "link_out_bytes_per_second",
                                        "link_in_both_bytes_per_second", "link_out_both_bytes_per_second"};

    ck_assert_msg(strstr(of->statistics, "\"link_measured\": true") != NULL, "%s\n%s", of->statistics,
                  of->err);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_double_ge(rate(of, names[i]), 1e6);
        ck_assert_double_le(rate(of, names[i]), 4e12);
    }
    ck_assert_double_le(rate(of, names[2]), rate(of, names[0]));
    ck_assert_double_le(rate(of, names[3]), rate(of, names[1]));
    ck_assert_uint_gt(outcome_number(of->statistics, "measured_bytes_in"), 0);
    ck_assert_uint_gt(outcome_number(of->statistics, "measured_bytes_out"), 0);
    ck_assert_ptr_nonnull(strstr(of->err, "GB/s in"));
    /* It has waited for copies, and some of the waits were timed. */
    ck_assert_uint_gt(outcome_number(of->statistics, "waits_timed"), 0);
    ck_assert_uint_le(outcome_number(of->statistics, "waits_timed"),
                      outcome_number(of->statistics, "copies_waited_for"));
    ck_assert_uint_le(outcome_number(of->statistics, "stalled_bytes"),
                      outcome_number(of->statistics, "waited_bytes"));
    ck_assert_uint_le(outcome_number(of->statistics, "stalled_seconds"), 20);
    /* Nothing of it is left but pinned memory, in the pool: within its limit. */
    ck_assert_uint_le(outcome_number(of->statistics, "peak_host_bytes"), 192 << 20);
}

/* On a modelled machine the rates are known: 40 GB/s in, 30 out, 20 and 10 at once; a copy has a latency too.
 */
static void as_modelled(const struct outcome *of)
{
    static const struct {
        const char *name;
        double rate;
    } model[] = {{"link_in_bytes_per_second", 40e9},
                 {"link_out_bytes_per_second", 30e9},
                 {"link_in_both_bytes_per_second", 20e9},
                 {"link_out_both_bytes_per_second", 10e9}};

    measured(of);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_double_ge(rate(of, model[i].name), 0.9 * model[i].rate);
        ck_assert_double_le(rate(of, model[i].name), 1.01 * model[i].rate);
    }
    /* Least recently used and without a plan: hardly a copy is there in time. */
    ck_assert_uint_gt(outcome_number(of->statistics, "stalled_nanoseconds"), 100000);
    ck_assert_uint_gt(2 * outcome_number(of->statistics, "late_bytes"),
                      outcome_number(of->statistics, "bytes_in"));
}

static void fits(void)
{
    CUdeviceptr at[6];
    CUstream stream;

    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 6; i++)
        CU(cuMemAllocAsync(&at[i], BYTES, stream));
    cycle(at, 6, 2, stream);
    for (unsigned i = 0; i < 6; i++) {
        CU(cuMemFreeAsync(at[i], stream));
        CU(cuMemAllocAsync(&at[i], BYTES, stream));
    }
    cycle(at, 6, 1, stream);
}

/* No byte that the job did not ask for, and rates that say they are assumed. */
static void pays_nothing(const struct outcome *of)
{
    ck_assert_uint_eq(outcome_number(of->report, "h2d_bytes"), 0);
    ck_assert_uint_eq(outcome_number(of->report, "d2h_bytes"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuEventElapsedTime"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuMemHostAlloc"), 0);
    ck_assert_uint_eq(outcome_calls(of, "cuMemHostRegister"), 0);
    ck_assert_ptr_nonnull(strstr(of->statistics, "\"link_measured\": false"));
    ck_assert_double_gt(rate(of, "link_in_bytes_per_second"), 0);
    ck_assert_uint_eq(outcome_number(of->statistics, "copies_waited_for"), 0);
    ck_assert_ptr_nonnull(strstr(of->statistics, "\"dearest\": []"));
}

static unsigned occurrences(const char *text, const char *what)
{
    unsigned count = 0;

    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        count++;
    return count;
}

/* The driver refuses the measurement: one line, and the job goes on. */
static void not_measured(const struct outcome *of)
{
    ck_assert_uint_eq(occurrences(of->err, "could not be measured"), 1);
    ck_assert_uint_eq(occurrences(of->err, "hbmspill: warn"), 1);
    ck_assert_ptr_nonnull(strstr(of->statistics, "\"link_measured\": false"));
    ck_assert_double_gt(rate(of, "link_in_bytes_per_second"), 0);
}

/* One place in the program, called from another: neither may vanish into its caller. */
__attribute__((noipa)) static CUdeviceptr makes_it(size_t size, CUstream stream)
{
    CUdeviceptr at;

    CU(cuMemAllocAsync(&at, size, stream));
    return at;
}

__attribute__((noipa)) static void makes_much_of_it(CUdeviceptr *at, unsigned count, CUstream stream)
{
    for (unsigned i = 0; i < count; i++)
        at[i] = makes_it(BYTES, stream);
}

/* Ten buffers take turns and are the dearest by far; a smaller one is used all the time. */
static void call_sites(void)
{
    CUdeviceptr at[10], busy;
    CUstream stream;

    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    makes_much_of_it(at, 10, stream);
    busy = makes_it(MIB, stream);
    for (unsigned round = 0; round < 4; round++)
        for (unsigned i = 0; i < 10; i++) {
            job_fill(busy, MIB / 4, i, stream);
            job_fill(at[i], WORDS, i, stream);
        }
    for (unsigned i = 0; i < 10; i++)
        CHECK_WORDS(at[i], WORDS, i);
}

static void sites_named(const struct outcome *of)
{
    const char *list = strstr(of->statistics, "\"dearest\": ["), *first, *end;

    ck_assert_msg(list != NULL, "%s", of->statistics);
    first = strchr(list, '{');
    ck_assert_msg(first != NULL, "%s", list);
    end = strchr(first, '}');
    ck_assert_ptr_nonnull(end);
    ck_assert_uint_eq(outcome_number(first, "size"), BYTES);
    ck_assert_uint_gt(outcome_number(first, "moves_in"), 5);
    ck_assert_uint_gt(outcome_number(first, "returns"), 5);
    ck_assert_uint_le(outcome_number(first, "returns"), outcome_number(first, "moves_in"));
    ck_assert_uint_le(outcome_number(first, "moved_in_bytes"), outcome_number(of->statistics, "bytes_in"));
    ck_assert_uint_gt(2 * outcome_number(first, "moved_in_bytes"),
                      outcome_number(of->statistics, "bytes_in"));
    /* Between two uses of a buffer are those of nine others and as many of the small one. */
    ck_assert_uint_ge(outcome_number(first, "reuse_distance"), 10);
    ck_assert_uint_le(outcome_number(first, "reuse_distance"), 40);
    ck_assert_msg(strstr(first, "!makes_it+0x") && strstr(first, "!makes_it+0x") < end, "%s", first);
    ck_assert_msg(strstr(first, "!makes_much_of_it+0x") && strstr(first, "!makes_much_of_it+0x") < end, "%s",
                  first);
    ck_assert_msg(strstr(first, "\"paid\": null") == NULL || strstr(first, "\"paid\": null") > end, "%s",
                  first);
    ck_assert_ptr_null(strstr(list, "libhbmspill"));
    /* In the log what all rows have in common is left out. */
    ck_assert_msg(strstr(of->err, "allocated in") && strstr(of->err, "!makes_much_of_it+0x"), "%s", of->err);
}

/* The table is for those who asked for it. */
static void silent(const struct outcome *of)
{
    ck_assert_ptr_null(strstr(of->err, "allocated in"));
}

/* Copies one way, of memory that is never spilled, and when each of them ended. */
enum { OWN = 512 << 10, COPIES = 500 };
struct own_copies {
    CUstream stream;
    CUevent ended[COPIES + 1];
};

static void queue_own(struct own_copies *own, CUdeviceptr at, void *host, bool out)
{
    CU(cuStreamCreate(&own->stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i <= COPIES; i++) {
        CU(cuEventCreate(&own->ended[i], CU_EVENT_DEFAULT));
        if (i && out)
            CU(cuMemcpyDtoHAsync(host, at, OWN, own->stream));
        else if (i)
            CU(cuMemcpyHtoDAsync(at, host, OWN, own->stream));
        CU(cuEventRecord(own->ended[i], own->stream));
    }
}

static float between(CUevent begin, CUevent end)
{
    float milliseconds;

    CU(cuEventElapsedTime(&milliseconds, begin, end));
    return milliseconds;
}

/*
 * An engine takes turns between streams, so a copy of the job's own waits for one of the library's, 4 MiB at
 * 10 GB/s, and one of the library's for one of the job's, however many are queued.
 */
static void none_starves(const struct own_copies *own, CUevent swapped)
{
    unsigned meanwhile = 0;

    CU(cuStreamSynchronize(own->stream));
    for (unsigned i = 0; i < COPIES; i++) {
        float took = between(own->ended[i], own->ended[i + 1]);

        REQUIRE(took <= 1.2, "copy %u took %f ms", i, (double)took);
        meanwhile += between(own->ended[i + 1], swapped) > 0;
    }
    REQUIRE(meanwhile >= 15, "%u of the job's copies ended while memory was swapped", meanwhile);
    REQUIRE(meanwhile < COPIES, "all of the job's copies ended first");
}

static void own_copies_beside(void)
{
    static struct own_copies out, in;
    CUdeviceptr at[10], small[2];
    CUstream stream;
    CUevent swapped;
    void *host[2];

    cuda_start();
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&swapped, CU_EVENT_DEFAULT));
    for (unsigned i = 0; i < 2; i++) {
        CU(cuMemAlloc(&small[i], OWN));
        CU(cuMemHostAlloc(&host[i], OWN, 0));
        memset(host[i], 5, OWN);
    }
    CU(cuMemsetD8(small[0], 3, OWN));
    CU(cuCtxSynchronize());
    for (unsigned i = 0; i < 10; i++)
        CU(cuMemAllocAsync(&at[i], BYTES, stream));
    cycle(at, 10, 3, stream); /* from here on no memory is pinned */
    queue_own(&out, small[0], host[0], true);
    queue_own(&in, small[1], host[1], false);
    for (unsigned i = 0; i < 30; i++)
        job_fill(at[i % 10], WORDS, 100 + i, stream);
    CU(cuEventRecord(swapped, stream));
    none_starves(&out, swapped);
    none_starves(&in, swapped);
    REQUIRE(((char *)host[0])[OWN - 1] == 3);
    for (unsigned i = 0; i < 10; i++)
        CHECK_WORDS(at[i], WORDS, 120 + i);
}

/* What is moved at once is longer than a copy of the library's may be: 64 MiB, here 6.7 ms at 10 GB/s. */
static void own_copies_beside_large(void)
{
    enum { LARGE = 160 << 20 };
    CUdeviceptr at[2], small;
    CUevent begin, end;
    CUstream own;
    void *host;
    float waited;

    cuda_start();
    CU(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    CU(cuEventCreate(&end, CU_EVENT_DEFAULT));
    CU(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&small, OWN));
    CU(cuMemHostAlloc(&host, OWN, 0));
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemAlloc(&at[i], LARGE));
    for (unsigned i = 0; i < 6; i++)
        CU(cuMemsetD8(at[i % 2], (unsigned char)i, LARGE)); /* the other makes way */
    CU(cuCtxSynchronize());
    CU(cuMemsetD8(at[0], 6, 1));
    CU(cuEventRecord(begin, own));
    CU(cuMemcpyHtoDAsync(small, host, OWN, own));
    CU(cuEventRecord(end, own));
    CU(cuCtxSynchronize());
    waited = between(begin, end);
    REQUIRE(waited > 1 && waited < 7.5F, "%f ms", (double)waited);
}

static const struct scenario scenarios[] = {
    {"link_measured", short_of_memory, SCENARIO_SPILLS, NULL, "HBMSPILL_LOG=info", measured},
    {"link_modelled", short_of_memory, SCENARIO_SPILLS | SCENARIO_ONCE | SCENARIO_NOT_NATIVE, NULL,
     "HBMSPILL_LOG=info HBMSPILL_WINDOW=off SYNTHETIC_GPU_LINK=40,30,20,10", as_modelled},
    {"link_shared", own_copies_beside, SCENARIO_SPILLS | SCENARIO_ONCE | SCENARIO_NOT_NATIVE, NULL,
     "HBMSPILL_WINDOW=off SYNTHETIC_GPU_LINK=40,30,20,10", NULL},
    {"link_shared_large", own_copies_beside_large, SCENARIO_SPILLS | SCENARIO_ONCE | SCENARIO_NOT_NATIVE,
     "200M", "HBMSPILL_WINDOW=off HBMSPILL_HOST_LIMIT=400M SYNTHETIC_GPU_LINK=10,40,10,40", NULL},
    {"link_fits", fits, 0, NULL, NULL, pays_nothing},
    /* one stream in job_flush, two of the cache, one of the job; then the measurement's */
    {"link_refused", short_of_memory, SCENARIO_SPILLS | SCENARIO_NOT_NATIVE, NULL,
     "SYNTHETIC_GPU_FAULT=cuStreamCreate:5:UNKNOWN", not_measured},
    {"link_no_host_memory", short_of_memory, SCENARIO_SPILLS | SCENARIO_NOT_NATIVE, NULL,
     "HBMSPILL_HOST_LIMIT=28M", not_measured},
    {"call_sites", call_sites, SCENARIO_SPILLS, NULL, "HBMSPILL_LOG=info HBMSPILL_WINDOW=off", sites_named},
    {"call_sites_window", call_sites, SCENARIO_SPILLS | SCENARIO_ONCE, NULL, "HBMSPILL_LOG=info",
     sites_named},
    {"no_call_sites", call_sites, SCENARIO_SPILLS | SCENARIO_ONCE, NULL, NULL, silent},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "costs", scenarios, sizeof scenarios / sizeof *scenarios, 20);
}
