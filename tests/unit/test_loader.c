/*
 * test_loader.c - the preload library in programs: what they see (tests/loader/probe.c) and what is said.
 *
 * Reports: rtld_next, shell, silent.
 *
 * LOADER_DIR is where the helpers were built; libtool leaves shared libraries in .libs below.
 */
#include "tests/loader/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARIES LOADER_DIR "/.libs"
#define PRELOAD "LD_PRELOAD=" PRELOAD_LIBRARY
#define PATH_TO_FAKES "LD_LIBRARY_PATH=" LIBRARIES
#define HEAP "--xla_multiheap_size_constraint_per_heap"
#define NOTHING_ASKED "asked for none of the functions"

static const struct run_outcome *run_case(const char *program, const char *name, const char *const *variables)
{
    const char *arguments[] = {program, name, NULL};
    const struct run_outcome *outcome = run_program(arguments, variables);
    ck_assert_msg(outcome->status == 0, "%s ended with %d:\n%s%s", name, outcome->status, outcome->out,
                  outcome->err);
    return outcome;
}

static const struct run_outcome *probe(const char *name, const char *const *variables)
{
    return run_case(LOADER_DIR "/probe", name, variables);
}

/* Cases that need no more than the fakes; each is run with the driver's pointers and with distinct ones. */
static const struct {
    const char *name, *variables[4];
} cases[] = {
    {"plain", {NULL}},
    {"plain", {"HBMSPILL=observe"}},
    {"versions", {NULL}},
    {"versions", {"FAKE_CUDA_DISTINCT=1"}},
    {"runtime", {NULL}},
    {"runtime", {"FAKE_CUDA_DISTINCT=1"}},
    {"runtime", {"FAKE_CUDART_DIRECT=1"}},
    {"handles", {NULL}},
    {"dlerror", {NULL}},
    {"foreign", {NULL}},
    {"second_driver", {"PROBE_SECOND=" LOADER_DIR "/forward/libcuda.so.1"}},
    {"fork", {NULL}},
    {"fork_before", {NULL}},
};

START_TEST(test_case)
{
    const char *variables[8] = {PRELOAD, PATH_TO_FAKES};
    memcpy(variables + 2, cases[_i].variables, sizeof cases[_i].variables);
    probe(cases[_i].name, variables);
}
END_TEST

/* Unusual ways to the driver (tests/loader/strange.c). */
static const struct {
    const char *name, *variable;
} ways[] = {
    {"dlvsym", NULL},
    {"deepbind", NULL},
    {"not_deepbind", NULL},
    {"paths", NULL},
    {"namespace", NULL},
    {"static_runtime", NULL},
    {"static_runtime", "FAKE_CUDA_DISTINCT=1"},
};

START_TEST(test_strange)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, ways[_i].variable, NULL};
    run_case(LOADER_DIR "/strange", ways[_i].name, variables);
}
END_TEST

/* Cold, in the driver's version of the question and the runtime's. */
START_TEST(test_threads_versions)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, _i % 2 ? "FAKE_CUDA_DISTINCT=1" : NULL, NULL};
    run_case(LOADER_DIR "/strange", "threads_versions", variables);
}
END_TEST

/* On a driver that has every function and knows every version. */
START_TEST(test_every_version)
{
    const char *variables[] = {PRELOAD, "LD_LIBRARY_PATH=" SYNTHETIC_DIR, NULL};
    run_case(LOADER_DIR "/every_version", NULL, variables);
}
END_TEST

START_TEST(test_forwarding_driver)
{
    const char *variables[] = {PRELOAD, "LD_LIBRARY_PATH=" LOADER_DIR "/forward", NULL};
    probe("forward", variables);
}
END_TEST

/* Hooks that have nothing to do forward, all of them. */
START_TEST(test_every_hook_forwards)
{
    static const char *const modes[] = {"HBMSPILL=on", "HBMSPILL=observe"};
    const char *variables[] = {PRELOAD, "LD_LIBRARY_PATH=" LOADER_DIR "/every", modes[_i], NULL};
    const char *arguments[] = {LOADER_DIR "/every_hook", LOADER_DIR "/typedefs.txt", NULL};
    const struct run_outcome *outcome = run_program(arguments, variables);
    ck_assert_msg(outcome->status == 0, "ended with %d:\n%s%s", outcome->status, outcome->out, outcome->err);
}
END_TEST

/* Cold: each run is a new process. */
START_TEST(test_threads)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, NULL};
    const struct run_outcome *outcome = probe("threads", variables);
    ck_assert_uint_eq(run_count_lines(outcome->err, NOTHING_ASKED), 1);
}
END_TEST

START_TEST(test_constructors)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, NULL};
    probe("constructor", variables);
}
END_TEST

/* Around the library under test, other preloads: wrappers that ask for RTLD_NEXT, another owner of dlsym. */
#define UPPER LIBRARIES "/next_upper.so"
#define MIDDLE LIBRARIES "/next_middle.so"
#define LOWER LIBRARIES "/next_lower.so"
#define INTERPOSER LIBRARIES "/interposer.so"

static const char *const preloads[][3] = {
    {"next", "LD_PRELOAD=" PRELOAD_LIBRARY " " UPPER " " LOWER},
    {"next", "LD_PRELOAD=" UPPER " " PRELOAD_LIBRARY " " LOWER},
    {"next", "LD_PRELOAD=" UPPER " " LOWER " " PRELOAD_LIBRARY},
    {"next", "LD_PRELOAD=" PRELOAD_LIBRARY " " UPPER " " MIDDLE " " LOWER},
    {"next", "LD_PRELOAD=" UPPER " " PRELOAD_LIBRARY " " MIDDLE " " LOWER},
    {"next", "LD_PRELOAD=" UPPER " " MIDDLE " " PRELOAD_LIBRARY " " LOWER},
    {"next", "LD_PRELOAD=" PRELOAD_LIBRARY " " INTERPOSER " " UPPER " " MIDDLE " " LOWER},
    {"interposed", "LD_PRELOAD=" INTERPOSER " " PRELOAD_LIBRARY, "PROBE_OBJECT=libcuda.so"},
    {"interposed", "LD_PRELOAD=" PRELOAD_LIBRARY " " INTERPOSER, "PROBE_OBJECT=libhbmspill.so"},
};

START_TEST(test_preloads)
{
    const char *variables[] = {preloads[_i][1], PATH_TO_FAKES, preloads[_i][2], NULL};
    probe(preloads[_i][0], variables);
}
END_TEST

/* Without a successful cuInit nothing is said, whatever the variables are. */
static const char *const silent[][3] = {
    {"uninitialised", "HBMSPILL=maybe", "HBMSPILL_NONSENSE=1"},
    {"init_fails", "HBMSPILL_LOG=trace", "HBMSPILL_SLICE=-1"},
    {"off", "HBMSPILL=off", "HBMSPILL_NONSENSE=1"},
};

START_TEST(test_silent)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, silent[_i][1], silent[_i][2], NULL};
    const struct run_outcome *outcome = probe(silent[_i][0], variables);
    ck_assert_str_eq(outcome->out, "");
    ck_assert_str_eq(outcome->err, "");
}
END_TEST

/* What a job with typing errors is told: each once, by a line of the known form. */
START_TEST(test_complaints)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, "HBMSPILL_HBM_LIMIT=lots", "HBMSPILL_HOSTLIMIT=3G",
                               NULL};
    const struct run_outcome *outcome = probe("threads", variables);
    ck_assert_uint_eq(run_count_lines(outcome->err, "HBMSPILL_HBM_LIMIT=lots ignored: it takes a size"), 1);
    ck_assert_uint_eq(
        run_count_lines(outcome->err, "HBMSPILL_HOSTLIMIT ignored; the nearest is HBMSPILL_HOST_LIMIT"), 1);
    ck_assert_uint_eq(run_count_lines(outcome->err, "hbmspill: warn [") +
                          run_count_lines(outcome->err, "info ["),
                      run_count_lines(outcome->err, ""));
}
END_TEST

START_TEST(test_log_file)
{
    char path[64], variable[96], text[4096] = "";
    snprintf(path, sizeof path, "/tmp/hbmspill-test-%ld.log", (long)getpid());
    snprintf(variable, sizeof variable, "HBMSPILL_LOG_FILE=%s", path);
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, "HBMSPILL_LOG=info", variable, NULL};
    const struct run_outcome *outcome = probe("plain", variables);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    ck_assert_str_eq(outcome->err, "");
    ck_assert_uint_eq(run_count_lines(text, "set XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"), 1);
    ck_assert_uint_eq(run_count_lines(text, "added to XLA_FLAGS: " HEAP "=1"), 1);
    ck_assert_uint_eq(run_count_lines(text, "set TF_CPP_MIN_LOG_LEVEL=2: "), 1);
}
END_TEST

/* What a job uses of the driver that hbmspill knows nothing of, for when a new version of it does something
 * new. */
START_TEST(test_unlisted_is_named)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, "HBMSPILL_LOG=debug", NULL};
    const struct run_outcome *outcome = probe("plain", variables);
    ck_assert_uint_eq(run_count_lines(outcome->err, "cuFakeUnlisted was asked for and is passed through"), 1);
    ck_assert_uint_eq(run_count_lines(outcome->err, "cuInit was asked for"), 0);
}
END_TEST

/* A log that cannot be opened is said on standard error. */
START_TEST(test_log_file_missing)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, "HBMSPILL_LOG_FILE=/nowhere/x", "HBMSPILL=what", NULL};
    const struct run_outcome *outcome = probe("plain", variables);
    ck_assert_uint_eq(run_count_lines(outcome->err, "HBMSPILL=what ignored"), 1);
}
END_TEST

/* What the environment is after the constructor. */
static const struct {
    const char *variables[4];
    const char *flags, *allocator, *level, *inherited;
} environments[] = {
    {{NULL}, HEAP "=1", "cuda_async", "2", "XLA_PYTHON_CLIENT_ALLOCATOR,TF_CPP_MIN_LOG_LEVEL;" HEAP "=1"},
    {{"XLA_FLAGS=--a=1"},
     "--a=1 " HEAP "=1",
     "cuda_async",
     "2",
     "XLA_PYTHON_CLIENT_ALLOCATOR,TF_CPP_MIN_LOG_LEVEL;" HEAP "=1"},
    {{"XLA_FLAGS=--a=1", "HBMSPILL_SLICE=0"},
     "--a=1",
     "cuda_async",
     "(unset)",
     "XLA_PYTHON_CLIENT_ALLOCATOR;"},
    {{"XLA_FLAGS=" HEAP "=64", "XLA_PYTHON_CLIENT_ALLOCATOR=bfc"}, HEAP "=64", "bfc", "(unset)", "(unset)"},
    {{"XLA_FLAGS=" HEAP, "HBMSPILL_SLICE=4"}, HEAP, "cuda_async", "(unset)", "XLA_PYTHON_CLIENT_ALLOCATOR;"},
    {{"HBMSPILL_SLICE=4", "XLA_PYTHON_CLIENT_ALLOCATOR=vmm"},
     HEAP "=4",
     "vmm",
     "2",
     ",TF_CPP_MIN_LOG_LEVEL;" HEAP "=4"},
    /* The user's level counts. */
    {{"TF_CPP_MIN_LOG_LEVEL=1"}, HEAP "=1", "cuda_async", "1", "XLA_PYTHON_CLIENT_ALLOCATOR;" HEAP "=1"},
    {{"TF_CPP_MIN_LOG_LEVEL=2"}, HEAP "=1", "cuda_async", "2", "XLA_PYTHON_CLIENT_ALLOCATOR;" HEAP "=1"},
    /* A name that only begins alike is another flag. */
    {{"XLA_FLAGS=" HEAP "_x=1\t-" HEAP},
     HEAP "_x=1\t-" HEAP " " HEAP "=1",
     "cuda_async",
     "2",
     "XLA_PYTHON_CLIENT_ALLOCATOR,TF_CPP_MIN_LOG_LEVEL;" HEAP "=1"},
    /* A file of flags is XLA's to read. */
    {{"XLA_FLAGS=/etc/flags"}, "/etc/flags", "cuda_async", "(unset)", "XLA_PYTHON_CLIENT_ALLOCATOR;"},
    {{"HBMSPILL=off"}, "(unset)", "(unset)", "(unset)", "(unset)"},
    {{"HBMSPILL=observe", "XLA_FLAGS=--a=1"}, "--a=1", "(unset)", "(unset)", "(unset)"},
    /* What a parent process added is no choice of the user's. */
    {{"XLA_FLAGS=--a=1 " HEAP "=1 --b=1", "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async",
      "HBMSPILL_INHERITED=XLA_PYTHON_CLIENT_ALLOCATOR;" HEAP "=1", "HBMSPILL_SLICE=7"},
     "--a=1 --b=1 " HEAP "=7",
     "cuda_async",
     "2",
     "XLA_PYTHON_CLIENT_ALLOCATOR,TF_CPP_MIN_LOG_LEVEL;" HEAP "=7"},
    {{"XLA_FLAGS=" HEAP "=1", "TF_CPP_MIN_LOG_LEVEL=2",
      "HBMSPILL_INHERITED=XLA_PYTHON_CLIENT_ALLOCATOR,TF_CPP_MIN_LOG_LEVEL;" HEAP "=1", "HBMSPILL=off"},
     "(unset)",
     "(unset)",
     "(unset)",
     "(unset)"},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", "TF_CPP_MIN_LOG_LEVEL=0",
      "HBMSPILL_INHERITED=,TF_CPP_MIN_LOG_LEVEL;" HEAP "=1", "HBMSPILL=off"},
     "(unset)",
     "cuda_async",
     "0",
     "(unset)"},
    {{"XLA_FLAGS=--c=1", "XLA_PYTHON_CLIENT_ALLOCATOR=bfc",
      "HBMSPILL_INHERITED=XLA_PYTHON_CLIENT_ALLOCATOR;" HEAP "=1", "HBMSPILL=off"},
     "--c=1",
     "bfc",
     "(unset)",
     "(unset)"},
    {{"HBMSPILL_INHERITED=rubbish"},
     HEAP "=1",
     "cuda_async",
     "2",
     "XLA_PYTHON_CLIENT_ALLOCATOR,TF_CPP_MIN_LOG_LEVEL;" HEAP "=1"},
};

START_TEST(test_environment)
{
    const char *variables[8] = {PRELOAD};
    char expected[1024];
    memcpy(variables + 1, environments[_i].variables, sizeof environments[_i].variables);
    snprintf(expected, sizeof expected,
             "XLA_FLAGS=%s\nXLA_PYTHON_CLIENT_ALLOCATOR=%s\nTF_CPP_MIN_LOG_LEVEL=%s\nHBMSPILL_INHERITED=%s\n",
             environments[_i].flags, environments[_i].allocator, environments[_i].level,
             environments[_i].inherited);
    const struct run_outcome *outcome = probe("environment", variables);
    ck_assert_str_eq(outcome->out, expected);
    ck_assert_str_eq(outcome->err, "");
}
END_TEST

START_TEST(test_overwritten)
{
    const char *variables[] = {PRELOAD, PATH_TO_FAKES, NULL};
    /* Before cuInit: the user's own per-heap constraint counts as theirs, and so does the allocator. */
    const struct run_outcome *outcome = probe("overwrite", variables);
    ck_assert_uint_eq(run_count_lines(outcome->err, "overwrote"), 0);
    ck_assert_uint_eq(run_count_lines(outcome->err, "set XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async (or"), 1);
    outcome = probe("overwrite_flags", variables);
    ck_assert_uint_eq(run_count_lines(outcome->err, "overwrote"), 1);
    ck_assert_uint_eq(run_count_lines(outcome->err, "missing " HEAP "=1;"), 1);
    /* After it. */
    outcome = probe("overwrite_late", variables);
    ck_assert_uint_eq(run_count_lines(outcome->err, "overwrote"), 1);
    ck_assert_uint_eq(
        run_count_lines(outcome->err, "missing XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async " HEAP "=1;"), 1);
}
END_TEST

/* What is said at exit of the allocator's choice: nothing, or of one that asks for all at once or for
 * regions. */
#define SLAB "asks for all its memory at once"
#define REGIONS "asks for memory in regions"

static const struct {
    const char *variables[3];
    const char *said;
} allocators[] = {
    {{NULL}, NULL},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"}, NULL},
    {{"XLA_PYTHON_CLIENT_PREALLOCATE=false"}, NULL},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=vmm"}, REGIONS},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=VMM"}, REGIONS},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=platform"}, REGIONS},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=default"}, SLAB},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=bfc"}, SLAB},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", "XLA_PYTHON_CLIENT_PREALLOCATE=true"}, SLAB},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", "XLA_PYTHON_CLIENT_PREALLOCATE=False"}, REGIONS},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", "XLA_PYTHON_CLIENT_PREALLOCATE=0"}, REGIONS},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", "XLA_PYTHON_CLIENT_PREALLOCATE=0", "TF_FORCE_UNIFIED_MEMORY=true"},
     SLAB},
    {{"XLA_PYTHON_CLIENT_ALLOCATOR=vmm", "TF_FORCE_UNIFIED_MEMORY=0"}, REGIONS},
    {{"HBMSPILL=observe"}, NULL},
    {{"HBMSPILL=observe", "XLA_PYTHON_CLIENT_ALLOCATOR=bfc"}, SLAB},
};

START_TEST(test_allocator_warning)
{
    const char *variables[8] = {PRELOAD, PATH_TO_FAKES}, *said = allocators[_i].said;
    memcpy(variables + 2, allocators[_i].variables, sizeof allocators[_i].variables);
    const struct run_outcome *outcome = probe("plain", variables);
    ck_assert_uint_eq(run_count_lines(outcome->err, SLAB), said && !strcmp(said, SLAB));
    ck_assert_uint_eq(run_count_lines(outcome->err, REGIONS), said && !strcmp(said, REGIONS));
    ck_assert_uint_eq(run_count_lines(outcome->err, "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async (or"),
                      said != NULL);
    ck_assert_uint_eq(run_count_lines(outcome->err, NOTHING_ASKED), 1); /* nothing but cuInit is used here */
}
END_TEST

static const char shell_script[] = "echo hi; (exit 3); echo $?; x=$(echo sub | cat); echo $x; exit 7";
static const char nested_script[] = "bash -c 'exit 9'; echo $?; export A=1; unset HOME; env | grep -c '^A=';"
                                    "no-such-command";
static const char python_script[] =
    "import ctypes, os, subprocess, sys; subprocess.run(['true'], check=True); os.environ['A'] = '1';"
    "print(os.popen('echo $A').read()); ctypes.CDLL(None).getpid(); pid = os.fork();"
    "(os._exit(0) if not pid else os.waitpid(pid, 0)); sys.exit(5)";

/* Programs that have nothing to do with CUDA: the same output and exit status as without the preload. */
static const char *const programs[][5] = {
    {"bash", "-c", shell_script, NULL},
    {"bash", "-c", nested_script, NULL},
    {"sh", "-c", "kill -9 $$", NULL},
    {"git", "--version", NULL},
    {"git", "rev-parse", "--no-such-thing", NULL},
    {"ls", "/", NULL},
    {"python3", "-c", python_script, NULL},
};

static const char preload_variable[] = PRELOAD;

START_TEST(test_other_programs)
{
    static struct run_outcome plain;
    plain = *run_program(programs[_i], NULL);
    static const char *const settings[][6] = {
        {preload_variable, NULL},
        {preload_variable, "HBMSPILL=%n%s", "HBMSPILL_HBM_LIMIT=-1e99999", "HBMSPILL_LOG=trace",
         "HBMSPILL_=\x80\xff", NULL},
        {preload_variable, "HBMSPILL=off", NULL},
        {preload_variable, "XLA_FLAGS=   ", "HBMSPILL_LOG_FILE=/nowhere/%p%p%", "HBMSPILL_STATS=/nowhere/x",
         NULL},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct run_outcome *outcome = run_program(programs[_i], settings[i]);
        ck_assert_int_eq(outcome->status, plain.status);
        ck_assert_str_eq(outcome->out, plain.out);
        ck_assert_str_eq(outcome->err, plain.err);
    }
}
END_TEST

/* Directories with other drivers in them: one of stubs, one that forwards to libcuda.so.1.1 beside it. */
static void make_directories(void)
{
    mkdir(LOADER_DIR "/every", 0777);
    unlink(LOADER_DIR "/every/libcuda.so.1");
    ck_assert_int_eq(symlink("../.libs/fake_every.so", LOADER_DIR "/every/libcuda.so.1"), 0);
    mkdir(LOADER_DIR "/forward", 0777);
    unlink(LOADER_DIR "/forward/libcuda.so.1");
    unlink(LOADER_DIR "/forward/libcuda.so.1.1");
    ck_assert_int_eq(symlink("../.libs/fake_forward.so", LOADER_DIR "/forward/libcuda.so.1"), 0);
    ck_assert_int_eq(symlink("../.libs/libcuda.so.1", LOADER_DIR "/forward/libcuda.so.1.1"), 0);
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

int main(void)
{
    Suite *suite = suite_create("loader");
    TCase *tests = tcase_create("loader");
    tcase_set_timeout(tests, 90);
    tcase_add_unchecked_fixture(tests, make_directories, NULL);
    tcase_add_loop_test(tests, test_case, 0, COUNT(cases));
    tcase_add_loop_test(tests, test_strange, 0, COUNT(ways));
    tcase_add_loop_test(tests, test_threads_versions, 0, 20);
    tcase_add_test(tests, test_every_version);
    tcase_add_test(tests, test_forwarding_driver);
    tcase_add_loop_test(tests, test_every_hook_forwards, 0, 2);
    tcase_add_loop_test(tests, test_threads, 0, 20);
    tcase_add_loop_test(tests, test_constructors, 0, 10);
    tcase_add_loop_test(tests, test_preloads, 0, COUNT(preloads));
    tcase_add_loop_test(tests, test_silent, 0, COUNT(silent));
    tcase_add_test(tests, test_complaints);
    tcase_add_test(tests, test_log_file);
    tcase_add_test(tests, test_log_file_missing);
    tcase_add_test(tests, test_unlisted_is_named);
    tcase_add_loop_test(tests, test_environment, 0, COUNT(environments));
    tcase_add_test(tests, test_overwritten);
    tcase_add_loop_test(tests, test_allocator_warning, 0, COUNT(allocators));
    tcase_add_loop_test(tests, test_other_programs, 0, COUNT(programs));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
