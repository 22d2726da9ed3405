/*
 * ptx_harness.c - see ptx_harness.h.
 */
#include "tests/unit/ptx_harness.h"
#include "tests/synthetic/ptx_run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const uint64_t window_base = UINT64_C(0x7a0000000000);
uint64_t window_size = WINDOW_PAGES;
struct ptx_traffic *window_traffic;

double as_f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

float as_f32(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, 4);
    return value;
}

uint64_t of_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

uint64_t of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

char *window(void)
{
    static char *memory;
    if (!memory) {
        memory = mmap(NULL, WINDOW_PAGES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(memory, MAP_FAILED);
        ck_assert_int_eq(mprotect(memory, WINDOW_PAGES / 2, PROT_READ | PROT_WRITE), 0);
        ptx_install_fault_handler();
    }
    return memory;
}

struct ptx_module *must_parse(const char *text)
{
    struct ptx_module *module = NULL;
    char error[256];
    int status = ptx_module_parse(text, strlen(text), &module, error, sizeof error);
    ck_assert_msg(status == 0, "%d: %s in\n%s", status, error, text);
    return module;
}

int run_kernel(struct ptx_module *module, uint32_t grid, uint32_t block, const uint64_t *params,
               struct ptx_fault *fault)
{
    const struct ptx_kernel *kernel;
    struct ptx_memory memory = {.window_base = window_base,
                                .window_size = window_size,
                                .window_delta = (int64_t)((uint64_t)(uintptr_t)window() - window_base)};
    ck_assert_uint_ge(ptx_module_kernels(module, &kernel), 1);
    struct ptx_launch launch = {.kernel = kernel,
                                .grid = {grid, 1, 1},
                                .block = {block, 1, 1},
                                .params = params,
                                .memory = &memory,
                                .traffic = window_traffic};
    struct ptx_fault ignored;
    return ptx_run(&launch, 0, grid, fault ? fault : &ignored, NULL);
}

uint8_t *in_bytes(void)
{
    return (uint8_t *)window();
}

uint8_t *out_bytes(void)
{
    return (uint8_t *)window() + OUT_OFFSET;
}

uint32_t *thread_words(void)
{
    return (uint32_t *)(window() + OUT_OFFSET);
}

struct ptx_module *parse_format(const char *format, ...)
{
    static char text[16384];
    va_list list;
    va_start(list, format);
    ck_assert_int_lt(vsnprintf(text, sizeof text, format, list), (int)sizeof text);
    va_end(list);
    return must_parse(text);
}

int run_in_out(struct ptx_module *module, uint32_t grid, uint32_t block, struct ptx_fault *fault)
{
    uint64_t params[2] = {window_base, window_base + OUT_OFFSET};
    return run_kernel(module, grid, block, params, fault);
}

void check_threads(const char *text, uint32_t grid, uint32_t block, uint32_t (*expected)(uint32_t i))
{
    struct ptx_module *module = must_parse(text);
    struct ptx_fault fault = {.line = 0};
    memset(thread_words(), 0xee, 4 * (size_t)grid * block);
    int status = run_in_out(module, grid, block, &fault);
    ck_assert_msg(status == 0, "%d: line %u: %s at %" PRIx64, status, fault.line, fault.reason,
                  fault.address);
    for (uint32_t i = 0; i < grid * block; i++)
        ck_assert_msg(thread_words()[i] == expected(i), "thread %u: %u instead of %u", i, thread_words()[i],
                      expected(i));
    ptx_module_free(module);
}

/* Asked in a process of its own: the choice is made once, and the tests' processes are to make theirs. */
static int highest_level(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        unsetenv("SYNTHETIC_PTX_LEVEL");
        _exit(ptx_level());
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int run_at_all_levels(Suite *(*make)(void))
{
    const char *only = getenv("SCHEDULE");
    int failed = 0, highest = highest_level();
    if (highest < 2)
        return EXIT_FAILURE;
    for (int level = only && !strcmp(only, "one") ? highest : 2; level <= highest; level++) {
        char text[] = {(char)('0' + level), '\0'};
        setenv("SYNTHETIC_PTX_LEVEL", text, 1);
        SRunner *runner = srunner_create(make());
        srunner_run_all(runner, CK_NORMAL);
        failed += srunner_ntests_failed(runner);
        srunner_free(runner);
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Values */

static const uint64_t integers[] = {0,
                                    1,
                                    2,
                                    3,
                                    5,
                                    8,
                                    15,
                                    16,
                                    17,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    65,
                                    127,
                                    128,
                                    255,
                                    256,
                                    0x7fff,
                                    0x8000,
                                    0xffff,
                                    0x10000,
                                    0x7fffff,
                                    0x800000,
                                    0x12345678,
                                    0x7fffffff,
                                    0x80000000,
                                    0xfffffffe,
                                    0xffffffff,
                                    0x100000000,
                                    0x123456789abcdef0,
                                    0x7fffffffffffffff,
                                    0x8000000000000000,
                                    0xfffffffffffffff0,
                                    0xffffffffffffffff};

static const double reals[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               0.5,
                               -0.5,
                               1.5,
                               2.5,
                               -2.5,
                               3.0,
                               0.1,
                               -0.3,
                               1.0 / 3.0,
                               7.25,
                               100.5,
                               -127.5,
                               255.4,
                               32767.5,
                               65504.0,
                               65519.9,
                               65520.0,
                               -70000.0,
                               8388607.5,
                               16777217.,
                               2147483647.,
                               -2147483648.,
                               2147483648.,
                               4294967295.,
                               4294967296.,
                               9223372036854775807.,
                               -9223372036854775808.,
                               18446744073709551615.,
                               1e10,
                               -1e20,
                               1e38,
                               3.5e38,
                               1e300,
                               -1e308,
                               1e-5,
                               6.1e-5,
                               5.96e-8,
                               2.9e-8,
                               -3e-8,
                               1.2e-38,
                               1e-40,
                               -1.4e-45,
                               1e-310,
                               4.9e-324,
                               1.0000001,
                               0.9999999,
                               123456.789};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1d;
}

static uint32_t bits_of_type(const char *type)
{
    if (!strcmp(type, "pred"))
        return 1;
    if (strstr(type, "x2"))
        return 32;
    return (uint32_t)strtoul(type + strcspn(type, "0123456789"), NULL, 10);
}

static uint64_t half_bits(double value, bool brain)
{
    /* for operands it does not matter how these are rounded */
    uint32_t single = (uint32_t)of_f32((float)value);
    if (brain)
        return single >> 16;
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, 2);
    return bits;
}

static uint64_t value_of(const char *type, size_t index, uint64_t *random)
{
    uint64_t noise = next_random(random);
    uint32_t bits = bits_of_type(type);
    uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    static const uint64_t odd_f32[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001,
                                       0x00000001, 0x807fffff, 0x7f7fffff, 0x00800000};
    static const uint64_t odd_f64[] = {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
                                       0xfff0000000000001, 0x0000000000000001, 0x000fffffffffffff,
                                       0x7fefffffffffffff};
    static const uint64_t odd_half[] = {0x7c00, 0xfc00, 0x7e00, 0x0001, 0x83ff, 0x7bff,
                                        0x0400, 0x7f80, 0xff80, 0x7fc0, 0x0080};
    bool single = !strcmp(type, "f32"), wide = !strcmp(type, "f64"), half = strstr(type, "f16") != NULL;
    if (!single && !wide && !half)
        return (index < COUNT_OF(integers) ? integers[index] : noise >> (noise & 31)) & mask;
    if (index < COUNT_OF(reals)) {
        if (half && bits == 32)
            return half_bits(reals[index], type[0] == 'b') |
                   half_bits(reals[(index * 7 + 3) % COUNT_OF(reals)], type[0] == 'b') << 16;
        return single ? of_f32((float)reals[index])
               : wide ? of_f64(reals[index])
                      : half_bits(reals[index], type[0] == 'b');
    }
    index -= COUNT_OF(reals);
    if (single)
        return index < COUNT_OF(odd_f32)
                   ? odd_f32[index]
                   : (index & 1 ? noise & mask : of_f32((float)((double)(int32_t)noise * 1e-6)));
    if (wide)
        return index < COUNT_OF(odd_f64) ? odd_f64[index]
                                         : (index & 1 ? noise : of_f64((double)(int64_t)noise * 1e-12));
    if (index < COUNT_OF(odd_half))
        return odd_half[index] | (bits == 32 ? odd_half[(index + 5) % COUNT_OF(odd_half)] << 16 : 0);
    return noise & mask;
}

/* Kernels around one instruction */

enum { TUPLES = 4096, PATTERN = 0x5a };

static const char *register_type(const char *type)
{
    uint32_t bits = bits_of_type(type);
    return !strcmp(type, "pred") ? "pred" : bits <= 16 ? "b16" : bits == 32 ? "b32" : "b64";
}

static void add_load(char *text, size_t size, const char *reg, const char *type, const char *from)
{
    size_t n = strlen(text);
    uint32_t bits = bits_of_type(type);
    if (bits == 1)
        snprintf(text + n, size - n, "ld.%s;\nsetp.ne.b64 %s, %%slot, 0;\n", from, reg);
    else
        snprintf(text + n, size - n, "ld.%s;\n%s.u64 %s, %%slot;\n", from,
                 bits == 64   ? "mov"
                 : bits == 32 ? "cvt.u32"
                              : "cvt.u16",
                 reg);
}

/* mode 0: all lanes; 1: every third keeps the pattern; 2: operands from parameters */
static struct ptx_module *wrap(const struct op_case *op, int mode)
{
    char text[4096] = "";
    size_t n = (size_t)snprintf(text, sizeof text,
                                ".version 8.0\n.target sm_75\n.address_size 64\n"
                                ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 pa, .param "
                                ".u64 pb, .param .u64 pc)\n{\n"
                                ".reg .b64 %%slot, %%in, %%out, %%at, %%result;\n.reg .b32 %%t, %%n, "
                                "%%third;\n.reg .pred %%keep, %%p, %%q;\n");
    const char *types[4] = {op->d, op->a, op->b, op->c};
    static const char *const names[4] = {"%d", "%a", "%b", "%c"};
    for (int i = 0; i < 4; i++)
        if (types[i])
            n += (size_t)snprintf(text + n, sizeof text - n, ".reg .%s %s;\n", register_type(types[i]),
                                  names[i]);
    snprintf(text + n, sizeof text - n,
             "ld.param.u64 %%in, [in];\nld.param.u64 %%out, [out];\nmov.u32 %%t, %%ctaid.x;\n"
             "mov.u32 %%n, %%ntid.x;\nmul.lo.u32 %%t, %%t, %%n;\nmov.u32 %%n, %%tid.x;\n"
             "add.u32 %%t, %%t, %%n;\nmul.wide.u32 %%at, %%t, 24;\nadd.u64 %%in, %%in, %%at;\n"
             "mul.wide.u32 %%at, %%t, 8;\nadd.u64 %%out, %%out, %%at;\nrem.u32 %%third, %%t, 3;\n"
             "setp.eq.u32 %%keep, %%third, 1;\n");
    for (int i = 1; i < 4; i++) {
        char from[64];
        if (!types[i])
            continue;
        if (mode == 2)
            snprintf(from, sizeof from, "param.u64 %%slot, [p%c]", "abc"[i - 1]);
        else
            snprintf(from, sizeof from, "global.u64 %%slot, [%%in+%d]", 8 * (i - 1));
        add_load(text, sizeof text, names[i], types[i], from);
    }
    n = strlen(text);
    uint32_t bits = bits_of_type(op->d);
    snprintf(text + n, sizeof text - n, "mov.%s %%d, %d;\n", register_type(op->d), bits == 1 ? 0 : PATTERN);
    n = strlen(text);
    /* several instructions are in braces: then the guard is a branch, which is divergence as well */
    if (mode == 1)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              op->text[0] == '{' ? "@%%keep bra skip;\n" : "@!%%keep ");
    n += (size_t)snprintf(text + n, sizeof text - n, "%s\nskip:\n", op->text);
    snprintf(text + n, sizeof text - n, "%s\nst.global.u64 [%%out], %%result;\nret;\n}\n",
             bits == 1    ? "selp.b64 %result, 1, 0, %d;"
             : bits == 64 ? "mov.b64 %result, %d;"
             : bits == 32 ? "cvt.u64.u32 %result, %d;"
                          : "cvt.u64.u16 %result, %d;");
    return must_parse(text);
}

static bool same(const char *type, uint64_t got, uint64_t wanted)
{
    if (got == wanted)
        return true;
    if (!strcmp(type, "f64"))
        return as_f64(got) != as_f64(got) && as_f64(wanted) != as_f64(wanted);
    if (!strcmp(type, "f32"))
        return as_f32(got) != as_f32(got) && as_f32(wanted) != as_f32(wanted);
    return false;
}

static void compare(const struct op_case *op, const char *how, const uint64_t tuple[3], uint64_t got,
                    uint64_t wanted)
{
    ck_assert_msg(same(op->d, got, wanted),
                  "%s (%s): a=%" PRIx64 " b=%" PRIx64 " c=%" PRIx64 " gives %" PRIx64 " instead of %" PRIx64,
                  op->text, how, tuple[0], tuple[1], tuple[2], got, wanted);
}

static void check_case(const struct op_case *op)
{
    static uint64_t tuples[TUPLES][3];
    uint64_t random = 88172645463325252ull;
    const char *types[3] = {op->a, op->b, op->c};
    uint32_t used = 0;
    uint64_t *in = (uint64_t *)window(), *out = (uint64_t *)(window() + TUPLES * 24);
    for (size_t i = 0; i < TUPLES; i++) {
        /* pairs of interesting values first, the third operand at random among them */
        size_t pick[3] = {i % 64, i / 64, next_random(&random) % 64};
        if (!op->b)
            pick[0] = i;
        for (int k = 0; k < 3; k++)
            tuples[i][k] = types[k] ? value_of(types[k], pick[k], &random) : 0;
    }
    memcpy(in, tuples, sizeof tuples);
    const uint64_t pattern = bits_of_type(op->d) == 1 ? 0 : PATTERN;
    for (int mode = 0; mode < 2; mode++) {
        struct ptx_module *module = wrap(op, mode);
        uint64_t params[5] = {window_base, window_base + TUPLES * 24, 0, 0, 0};
        memset(out, 0xee, TUPLES * 8);
        ck_assert_msg(run_kernel(module, TUPLES / 256, 256, params, NULL) == 0, "%s faults", op->text);
        for (size_t i = 0; i < TUPLES; i++)
            compare(op, mode ? "some lanes" : "all lanes", tuples[i], out[i],
                    mode == 1 && i % 3 == 1 ? pattern
                                            : op->reference(tuples[i][0], tuples[i][1], tuples[i][2]));
        ptx_module_free(module);
        used++;
    }
    ck_assert_uint_eq(used, 2);
    struct ptx_module *module = wrap(op, 2);
    for (size_t i = 0; i < TUPLES; i += 67) {
        uint64_t params[5] = {window_base, window_base + TUPLES * 24, tuples[i][0], tuples[i][1],
                              tuples[i][2]};
        ck_assert_msg(run_kernel(module, 1, 5, params, NULL) == 0, "%s faults", op->text);
        for (size_t k = 0; k < 5; k++)
            compare(op, "uniform", tuples[i], out[k],
                    op->reference(tuples[i][0], tuples[i][1], tuples[i][2]));
    }
    ptx_module_free(module);
}

void check_cases(const struct op_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_case(&cases[i]);
}
