/*
 * test_options.c - the option table: every form that is accepted, every complaint.
 */
#include "shim/options.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct options options;
static struct option_warnings warnings;

static void parse(const char *variable)
{
    char *environment[] = {"PATH=/bin", (char *)variable, NULL};
    options_parse(environment, &options, &warnings);
}

static const struct {
    const char *text;
    int error;
    uint64_t bytes;
} sizes[] = {
    {"0", 0, 0},
    {"1", 0, 1},
    {"4096", 0, 4096},
    {"7b", 0, 7},
    {"1K", 0, 1024},
    {"1k", 0, 1024},
    {"1KiB", 0, 1024},
    {"1kib", 0, 1024},
    {"1KB", 0, 1000},
    {"3M", 0, 3ull << 20},
    {"3MB", 0, 3000000},
    {"3 MiB", 0, 3ull << 20},
    {"2G", 0, 2ull << 30},
    {"2GB", 0, 2000000000},
    {"1T", 0, 1ull << 40},
    {"1TB", 0, 1000000000000},
    {"1.5G", 0, 3ull << 29},
    {".5K", 0, 512},
    {"1.K", 0, 1024},
    {"0.0000000001T", 0, 0},
    {"18446744073709551615", 0, UINT64_MAX},
    {"16777215T", 0, 16777215ull << 40},
    {"18446744073709551616", -ERANGE, 0},
    {"16777216T", -ERANGE, 0},
    {"99999999999999999999999", -ERANGE, 0},
    {"", -EINVAL, 0},
    {".", -EINVAL, 0},
    {"K", -EINVAL, 0},
    {"-1", -EINVAL, 0},
    {"+1", -EINVAL, 0},
    {" 1", -EINVAL, 0},
    {"1 ", 0, 1},
    {"0x10", -EINVAL, 0},
    {"1e9", -EINVAL, 0},
    {"1P", -EINVAL, 0},
    {"1Kx", -EINVAL, 0},
    {"1KiBx", -EINVAL, 0},
    {"1,5G", -EINVAL, 0},
    {"1G1M", -EINVAL, 0},
    {"50%", -EINVAL, 0},
};

START_TEST(test_size)
{
    uint64_t bytes = 4711;
    ck_assert_msg(options_parse_size(sizes[_i].text, &bytes) == sizes[_i].error, "'%s'", sizes[_i].text);
    ck_assert_msg(bytes == (sizes[_i].error ? 4711 : sizes[_i].bytes), "'%s' gives %llu", sizes[_i].text,
                  (unsigned long long)bytes);
}
END_TEST

/* The levels of three subsystems, the last one standing for those that nothing is said of. */
static bool log_is(int evict, int link, int others)
{
    bool right = options.log.level[LOG_IN_EVICT] == evict && options.log.level[LOG_IN_LINK] == link;

    for (int i = 0; i < LOG_SUBSYSTEMS; i++)
        if (i != LOG_IN_EVICT && i != LOG_IN_LINK)
            right = right && options.log.level[i] == others;
    return right;
}

START_TEST(test_defaults)
{
    options_parse(NULL, &options, &warnings);
    ck_assert_uint_eq(warnings.count, 0);
    ck_assert_int_eq(options.mode, OPTION_MODE_ON);
    ck_assert_int_eq(options.hbm_limit.kind, AMOUNT_UNSET);
    ck_assert_int_eq(options.host_limit.kind, AMOUNT_UNSET);
    ck_assert_int_eq(options.reserve.kind, AMOUNT_UNSET);
    ck_assert_uint_eq(options.min_size, 1 << 20);
    ck_assert_int_eq(options.report.kind, REPORT_VIRTUAL);
    ck_assert_uint_eq(options.slice, 1);
    ck_assert_int_eq(options.strict, 0);
    ck_assert_int_eq(options.policy, OPTION_POLICY_NEXTUSE);
    ck_assert_uint_eq(options.window, WINDOW_AUTO);
    ck_assert_int_eq(options.closed, OPTION_CLOSED_AUTO);
    ck_assert(log_is(LOG_WARN, LOG_WARN, LOG_WARN));
    ck_assert_str_eq(options.log_file.text, "");
    ck_assert_str_eq(options.stats.text, "");
    ck_assert_str_eq(options.test_mutation.text, "");
}
END_TEST

/* Variables that are accepted, and what shows it. */
static bool mode_off(void)
{
    return options.mode == OPTION_MODE_OFF;
}
static bool mode_observe(void)
{
    return options.mode == OPTION_MODE_OBSERVE;
}
static bool mode_on(void)
{
    return options.mode == OPTION_MODE_ON;
}
static bool hbm_512m(void)
{
    return options.hbm_limit.kind == AMOUNT_BYTES && options.hbm_limit.bytes == 512 << 20;
}
static bool hbm_12_5_percent(void)
{
    return options.hbm_limit.kind == AMOUNT_PERCENT && options.hbm_limit.percent > 12.49 &&
           options.hbm_limit.percent < 12.51;
}
static bool host_none(void)
{
    return options.host_limit.kind == AMOUNT_BYTES && options.host_limit.bytes == 0;
}
static bool host_all(void)
{
    return options.host_limit.kind == AMOUNT_PERCENT && options_amount(&options.host_limit, 4711, 1) == 4711;
}
static bool reserve_1g(void)
{
    return options_amount(&options.reserve, 1, 2) == 1ull << 30;
}
static bool min_none(void)
{
    return options.min_size == 0;
}
static bool window_off(void)
{
    return options.window == WINDOW_OFF;
}
static bool window_auto(void)
{
    return options.window == WINDOW_AUTO;
}
static bool window_64(void)
{
    return options.window == 64;
}
static bool report_physical(void)
{
    return options.report.kind == REPORT_PHYSICAL;
}
static bool report_32g(void)
{
    return options.report.kind == REPORT_BYTES && options.report.bytes == 32ull << 30;
}
static bool slice_none(void)
{
    return options.slice == 0;
}
static bool slice_64m(void)
{
    return options.slice == 67108864;
}
static bool strict(void)
{
    return options.strict == 1;
}
static bool closed_none(void)
{
    return options.closed == OPTION_CLOSED_NONE;
}
static bool log_errors(void)
{
    return log_is(LOG_ERROR, LOG_ERROR, LOG_ERROR);
}
static bool log_traces(void)
{
    return log_is(LOG_TRACE, LOG_TRACE, LOG_TRACE);
}
static bool log_of_two(void)
{
    return log_is(LOG_DEBUG, LOG_TRACE, LOG_WARN);
}
static bool log_of_one_and_others(void)
{
    return log_is(LOG_DEBUG, LOG_ERROR, LOG_ERROR);
}
static bool log_without_one(void)
{
    return log_is(LOG_SILENT, LOG_INFO, LOG_INFO);
}
static bool stats_path(void)
{
    return !strcmp(options.stats.text, "/tmp/a=b");
}
static bool plan_greedy(void)
{
    return options.plan.kind == PLAN_GREEDY && !options.plan.path[0];
}
static bool plan_off(void)
{
    return options.plan.kind == PLAN_OFF;
}
static bool plan_file(void)
{
    return options.plan.kind == PLAN_FILE && !strcmp(options.plan.path, "./round");
}
static bool plan_dotted(void)
{
    return options.plan.kind == PLAN_FILE && !strcmp(options.plan.path, "round.plan");
}
static bool policy_bip(void)
{
    return options.policy == OPTION_POLICY_BIP;
}
static bool prefetch_off(void)
{
    return options.prefetch == 0;
}
static bool ahead_12(void)
{
    return options.ahead == 12 && options.prefetch == 1;
}
static bool of_device_1(void)
{
    return options_of_device(&options, 1).hbm_limit.bytes == 2ull << 30 &&
           options_of_device(&options, 0).hbm_limit.kind == AMOUNT_UNSET &&
           options_of_device(&options, 16).hbm_limit.kind == AMOUNT_UNSET &&
           options_of_device(&options, 1).numa == NUMA_AUTO;
}
static bool node_of_device_15(void)
{
    return options_of_device(&options, 15).numa == NUMA_OFF &&
           options_of_device(&options, 14).numa == NUMA_AUTO && options.numa == NUMA_AUTO;
}
static bool reserve_of_device_0(void)
{
    return options_of_device(&options, 0).reserve.percent > 4.9 && options.reserve.kind == AMOUNT_UNSET;
}
static bool of_all(void)
{
    return options_of_device(&options, 7).reserve.bytes == 4096 &&
           options_of_device(&options, -1).reserve.bytes == 4096;
}
static bool mutation(void)
{
    return !strcmp(options.test_mutation.text, "slot_bit");
}

static const struct {
    const char *variable;
    bool (*holds)(void);
} accepted[] = {
    {"HBMSPILL=off", mode_off},
    {"HBMSPILL=Observe", mode_observe},
    {"HBMSPILL=on", mode_on},
    {"HBMSPILL=", mode_on},
    {"HBMSPILL_HBM_LIMIT=512M", hbm_512m},
    {"HBMSPILL_HBM_LIMIT=512MiB", hbm_512m},
    {"HBMSPILL_HBM_LIMIT=12.5%", hbm_12_5_percent},
    {"HBMSPILL_HOST_LIMIT=0", host_none},
    {"HBMSPILL_HOST_LIMIT=100%", host_all},
    {"HBMSPILL_RESERVE=1G", reserve_1g},
    {"HBMSPILL_MIN_SIZE=0", min_none},
    {"HBMSPILL_REPORT=physical", report_physical},
    {"HBMSPILL_REPORT=32G", report_32g},
    {"HBMSPILL_SLICE=0", slice_none},
    {"HBMSPILL_SLICE=67108864", slice_64m},
    {"HBMSPILL_WINDOW=off", window_off},
    {"HBMSPILL_WINDOW=auto", window_auto},
    {"HBMSPILL_WINDOW=64", window_64},
    {"HBMSPILL_STRICT=1", strict},
    {"HBMSPILL_PLAN=greedy", plan_greedy},
    {"HBMSPILL_PLAN=OFF", plan_off},
    {"HBMSPILL_PLAN=./round", plan_file},
    {"HBMSPILL_PLAN=round.plan", plan_dotted},
    {"HBMSPILL_POLICY=bip", policy_bip},
    {"HBMSPILL_PREFETCH=off", prefetch_off},
    {"HBMSPILL_AHEAD=12", ahead_12},
    {"HBMSPILL_CLOSED=none", closed_none},
    {"HBMSPILL_LOG=error", log_errors},
    {"HBMSPILL_LOG=trace", log_traces},
    {"HBMSPILL_LOG=evict=debug,link=trace", log_of_two},
    {"HBMSPILL_LOG=evict=debug,ERROR", log_of_one_and_others},
    {"HBMSPILL_LOG=Info,^EVICT", log_without_one},
    {"HBMSPILL_STATS=/tmp/a=b", stats_path},
    {"HBMSPILL_HBM_LIMIT_1=2G", of_device_1},
    {"HBMSPILL_NUMA_15=off", node_of_device_15},
    {"HBMSPILL_RESERVE_00=5%", reserve_of_device_0},
    {"HBMSPILL_RESERVE=4K", of_all},
    {"HBMSPILL_TEST_MUTATION=slot_bit", mutation},
};

START_TEST(test_accepted)
{
    parse(accepted[_i].variable);
    ck_assert_msg(warnings.count == 0, "%s: %s", accepted[_i].variable, warnings.text[0]);
    ck_assert_msg(accepted[_i].holds(), "%s", accepted[_i].variable);
}
END_TEST

#define LOG_TAKES                                                                                            \
    " ignored: it takes error|warn|info|debug|trace; with commas, NAME=LEVEL for one subsystem, ^NAME for "  \
    "none of its lines; using warn"

static const struct {
    const char *variable, *warning;
} malformed[] = {
    {"HBMSPILL=yes", "HBMSPILL=yes ignored: it takes off|observe|on; using on"},
    {"HBMSPILL=of", "HBMSPILL=of ignored: it takes off|observe|on; using on"},
    {"HBMSPILL=off|observe", "HBMSPILL=off|observe ignored: it takes off|observe|on; using on"},
    {"HBMSPILL_HBM_LIMIT=lots", "HBMSPILL_HBM_LIMIT=lots ignored: it takes a size above 0 (8G, 512MiB) or up "
                                "to 100%; using the default"},
    {"HBMSPILL_HBM_LIMIT=0",
     "HBMSPILL_HBM_LIMIT=0 ignored: it takes a size above 0 (8G, 512MiB) or up to 100%; using the default"},
    {"HBMSPILL_HBM_LIMIT=0%",
     "HBMSPILL_HBM_LIMIT=0% ignored: it takes a size above 0 (8G, 512MiB) or up to 100%; using the default"},
    {"HBMSPILL_HOST_LIMIT=101%",
     "HBMSPILL_HOST_LIMIT=101% ignored: it takes a size (32G, 512MiB) or up to 100%; using the default"},
    {"HBMSPILL_RESERVE=-1",
     "HBMSPILL_RESERVE=-1 ignored: it takes a size (512M) or up to 100%; using the default"},
    {"HBMSPILL_MIN_SIZE=50%", "HBMSPILL_MIN_SIZE=50% ignored: it takes a size (1M, 64KiB, 0); using 1M"},
    {"HBMSPILL_REPORT=0", "HBMSPILL_REPORT=0 ignored: it takes virtual|physical|a size (32G); using virtual"},
    {"HBMSPILL_REPORT=real",
     "HBMSPILL_REPORT=real ignored: it takes virtual|physical|a size (32G); using virtual"},
    {"HBMSPILL_WINDOW=0",
     "HBMSPILL_WINDOW=0 ignored: it takes auto|off|a number of operations up to 16384; using auto"},
    {"HBMSPILL_WINDOW=1K",
     "HBMSPILL_WINDOW=1K ignored: it takes auto|off|a number of operations up to 16384; using auto"},
    {"HBMSPILL_SLICE=-1",
     "HBMSPILL_SLICE=-1 ignored: it takes a number of bytes up to 2147483647; 0 leaves XLA "
     "alone; using 1"},
    {"HBMSPILL_SLICE=32M",
     "HBMSPILL_SLICE=32M ignored: it takes a number of bytes up to 2147483647; 0 leaves XLA "
     "alone; using 1"},
    {"HBMSPILL_SLICE=2147483648",
     "HBMSPILL_SLICE=2147483648 ignored: it takes a number of bytes up to 2147483647; "
     "0 leaves XLA alone; using 1"},
    {"HBMSPILL_STRICT=true", "HBMSPILL_STRICT=true ignored: it takes 0|1; using 0"},
    {"HBMSPILL_POLICY=mru", "HBMSPILL_POLICY=mru ignored: it takes lru|bip|nextuse; using nextuse"},
    {"HBMSPILL_PLAN=gredy",
     "HBMSPILL_PLAN=gredy ignored: it takes auto|greedy|off|a path (./round.plan); using auto"},
    {"HBMSPILL_PREFETCH=1", "HBMSPILL_PREFETCH=1 ignored: it takes off|on; using on"},
    {"HBMSPILL_AHEAD=-1",
     "HBMSPILL_AHEAD=-1 ignored: it takes a number of frames up to 2147483647; 0: no limit; using 0"},
    {"HBMSPILL_CLOSED=some", "HBMSPILL_CLOSED=some ignored: it takes auto|all|none; using auto"},
    {"HBMSPILL_LOG=loud", "HBMSPILL_LOG=loud" LOG_TAKES},
    {"HBMSPILL_LOG=link=loud", "HBMSPILL_LOG=link=loud" LOG_TAKES},
    {"HBMSPILL_LOG=info,lonk=debug", "HBMSPILL_LOG=info,lonk=debug" LOG_TAKES},
    {"HBMSPILL_LOG=debug,^", "HBMSPILL_LOG=debug,^" LOG_TAKES},
    {"HBMSPILL_LOG=^link=debug", "HBMSPILL_LOG=^link=debug" LOG_TAKES},
    {"HBMSPILL_LOG=info,", "HBMSPILL_LOG=info," LOG_TAKES},
    {"HBMSPILL_LOG==", "HBMSPILL_LOG==" LOG_TAKES},
    {"HBMSPILL_HBMLIMIT=8G", "unknown variable HBMSPILL_HBMLIMIT ignored; the nearest is HBMSPILL_HBM_LIMIT"},
    {"HBMSPILL_HOSTLIMIT=8G",
     "unknown variable HBMSPILL_HOSTLIMIT ignored; the nearest is HBMSPILL_HOST_LIMIT"},
    {"HBMSPILL_STAT=x", "unknown variable HBMSPILL_STAT ignored; the nearest is HBMSPILL_STATS"},
    {"HBMSPILL_LOGFILE=x", "unknown variable HBMSPILL_LOGFILE ignored; the nearest is HBMSPILL_LOG_FILE"},
    {"HBMSPILL_HBM_LIMIT_1=0",
     "HBMSPILL_HBM_LIMIT_1=0 ignored: it takes a size above 0 (8G, 512MiB) or up to "
     "100%; using the default"},
    {"HBMSPILL_HBM_LIMIT_16=8G",
     "unknown variable HBMSPILL_HBM_LIMIT_16 ignored; the nearest is HBMSPILL_HBM_LIMIT"},
    {"HBMSPILL_HBM_LIMIT_001=8G",
     "unknown variable HBMSPILL_HBM_LIMIT_001 ignored; the nearest is HBMSPILL_HBM_LIMIT"},
    {"HBMSPILL_HBM_LIMIT_=8G",
     "unknown variable HBMSPILL_HBM_LIMIT_ ignored; the nearest is HBMSPILL_HBM_LIMIT"},
    {"HBMSPILL_HBM_LIMIT0=8G",
     "unknown variable HBMSPILL_HBM_LIMIT0 ignored; the nearest is HBMSPILL_HBM_LIMIT"},
    {"HBMSPILL_SLICE_0=8", "unknown variable HBMSPILL_SLICE_0 ignored; the nearest is HBMSPILL_SLICE"},
    {"HBMSPILL_0=off", "unknown variable HBMSPILL_0 ignored; the nearest is HBMSPILL"},
    {"HBMSPILLS=on", "unknown variable HBMSPILLS ignored; the nearest is HBMSPILL"},
};

/* All fields as text, to compare. */
static void print_options(char *buffer, size_t size)
{
    char levels[4 * LOG_SUBSYSTEMS + 1] = "";

    for (unsigned i = 0; i < LOG_SUBSYSTEMS; i++)
        snprintf(levels + strlen(levels), sizeof levels - strlen(levels), "%d ", options.log.level[i]);
    snprintf(buffer, size, "%d %d %llu %g %d %llu %g %d %llu %g %llu %d %llu %u %d %d %d %s'%s' '%s' '%s'",
             options.mode, options.hbm_limit.kind, (unsigned long long)options.hbm_limit.bytes,
             options.hbm_limit.percent, options.host_limit.kind, (unsigned long long)options.host_limit.bytes,
             options.host_limit.percent, options.reserve.kind, (unsigned long long)options.reserve.bytes,
             options.reserve.percent, (unsigned long long)options.min_size, options.report.kind,
             (unsigned long long)options.report.bytes, options.slice, options.strict, options.policy,
             options.closed, levels, options.log_file.text, options.stats.text, options.test_mutation.text);
}

START_TEST(test_malformed)
{
    char defaults[4096], parsed[4096];
    options_parse(NULL, &options, &warnings);
    print_options(defaults, sizeof defaults);
    parse(malformed[_i].variable);
    ck_assert_msg(warnings.count == 1, "%s: %u warnings", malformed[_i].variable, warnings.count);
    ck_assert_str_eq(warnings.text[0], malformed[_i].warning);
    print_options(parsed, sizeof parsed);
    ck_assert_str_eq(parsed, defaults);
}
END_TEST

START_TEST(test_other_names_are_left_alone)
{
    static const char *const others[] = {"HBMSPIL=1", "hbmspill=1", "MY_HBMSPILL=1", "HBMSPILL_NO_EQUALS"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        parse(others[i]);
        ck_assert_uint_eq(warnings.count, 0);
    }
}
END_TEST

START_TEST(test_many_complaints_are_counted)
{
    char *environment[OPTION_WARNINGS_MAX + 4];
    for (size_t i = 0; i < OPTION_WARNINGS_MAX + 3; i++)
        environment[i] = "HBMSPILL_STRICT=maybe";
    environment[OPTION_WARNINGS_MAX + 3] = NULL;
    options_parse(environment, &options, &warnings);
    ck_assert_uint_eq(warnings.count, OPTION_WARNINGS_MAX);
    ck_assert_uint_eq(warnings.dropped, 3);
}
END_TEST

/* Long names and values stay inside every buffer. */
START_TEST(test_absurd_lengths)
{
    enum { LENGTH = 100000 };
    static char long_name[LENGTH], long_value[LENGTH];
    const int head = snprintf(long_name, LENGTH, "HBMSPILL_");
    memset(long_name + head, 'X', LENGTH - 1 - (size_t)head);
    long_name[LENGTH - 2] = '=';
    const int name = snprintf(long_value, LENGTH, "HBMSPILL_STATS=");
    memset(long_value + name, '9', LENGTH - 1 - (size_t)name);
    char *environment[] = {long_name, long_value, NULL};
    options_parse(environment, &options, &warnings);
    ck_assert_uint_eq(warnings.count, 2);
    ck_assert_str_eq(options.stats.text, "");
}
END_TEST

START_TEST(test_amount)
{
    parse("HBMSPILL_RESERVE=25%");
    ck_assert_uint_eq(options_amount(&options.reserve, 1000, 7), 250);
    parse("HBMSPILL_RESERVE=3K");
    ck_assert_uint_eq(options_amount(&options.reserve, 1000, 7), 3072);
    parse("HBMSPILL_RESERVE=");
    ck_assert_uint_eq(options_amount(&options.reserve, 1000, 7), 7);
}
END_TEST

START_TEST(test_expand_path)
{
    char expected[64], buffer[64];
    snprintf(expected, sizeof expected, "/a/%ld.%%d%%.json", (long)getpid());
    ck_assert_int_eq(options_expand_path("/a/%p.%d%%.json", buffer, sizeof buffer), 0);
    ck_assert_str_eq(buffer, expected);
    char host[64];
    ck_assert_int_eq(gethostname(host, sizeof host), 0);
    snprintf(expected, sizeof expected, "%.20s", host);
    ck_assert_int_eq(options_expand_path("%h", buffer, sizeof buffer), 0);
    ck_assert_msg(!strncmp(buffer, expected, strlen(expected)), "%s", buffer);
    ck_assert_int_eq(options_expand_path("", buffer, sizeof buffer), 0);
    ck_assert_str_eq(buffer, "");
    ck_assert_int_eq(options_expand_path("abcd", buffer, 5), 0);
    ck_assert_int_eq(options_expand_path("abcd", buffer, 4), -ENAMETOOLONG);
    ck_assert_int_eq(options_expand_path("%p", buffer, 1), -ENAMETOOLONG);
}
END_TEST

struct listing {
    unsigned int count;
    bool hidden_seen;
};

static void visit(void *context, const char *name, const char *fallback, const char *form, const char *text)
{
    struct listing *listing = context;
    listing->count++;
    listing->hidden_seen |= strstr(name, "TEST_") || strstr(name, "INHERITED");
    ck_assert_ptr_nonnull(form);
    ck_assert(text[0] != '\0');
    /* Every default is one of the accepted values. */
    if (fallback[0]) {
        char variable[128];
        snprintf(variable, sizeof variable, "%s=%s", name, fallback);
        parse(variable);
        ck_assert_uint_eq(warnings.count, 0);
    }
}

START_TEST(test_describe)
{
    struct listing listing = {0};
    options_describe(visit, &listing);
    ck_assert_uint_ge(listing.count, 13);
    ck_assert(!listing.hidden_seen);
}
END_TEST

START_TEST(test_process_options)
{
    setenv("HBMSPILL_SLICE", "4711", 1);
    setenv("HBMSPILL_SLOCE", "1", 1);
    const struct options *mine = options_get();
    ck_assert_uint_eq(mine->slice, 4711);
    ck_assert_uint_eq(options_warnings()->count, 1);
    setenv("HBMSPILL_SLICE", "4712", 1);
    ck_assert_ptr_eq(options_get(), mine);
    ck_assert_uint_eq(options_get()->slice, 4711);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tests = tcase_create("options");
    tcase_add_loop_test(tests, test_size, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(tests, test_defaults);
    tcase_add_loop_test(tests, test_accepted, 0, sizeof accepted / sizeof *accepted);
    tcase_add_loop_test(tests, test_malformed, 0, sizeof malformed / sizeof *malformed);
    tcase_add_test(tests, test_other_names_are_left_alone);
    tcase_add_test(tests, test_many_complaints_are_counted);
    tcase_add_test(tests, test_absurd_lengths);
    tcase_add_test(tests, test_amount);
    tcase_add_test(tests, test_expand_path);
    tcase_add_test(tests, test_describe);
    tcase_add_test(tests, test_process_options);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
