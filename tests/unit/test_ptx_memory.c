/*
 * Memory of the PTX interpreter: widths, vectors and address patterns, spaces.
 */
#include "tests/unit/ptx_harness.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(void)
{
    for (uint32_t i = 0; i < OUT_OFFSET; i++)
        in_bytes()[i] = (uint8_t)(i * 151 + i / 256 * 7 + 0x41);
    memset(out_bytes(), 0xee, OUT_OFFSET);
}

/* Which element a thread takes: side by side, all the same, backwards, in pieces, with gaps, all over, rows
 * of a matrix. */
enum { PATTERNS = 8 };
static const char *const patterns[PATTERNS] = {
    "mov.u32 %e, %i;",       "mov.u32 %e, 5;",
    "sub.u32 %e, 400, %i;",  "and.b32 %e, %i, 63;\nadd.u32 %e, %e, 100;",
    "mul.lo.u32 %e, %i, 3;", "mul.lo.u32 %e, %i, 77;\nrem.u32 %e, %e, 401;",
    "shr.u32 %e, %i, 5;",    "and.b32 %e, %i, 63;\nshr.u32 %x, %i, 6;\nmad.lo.u32 %e, %x, 80, %e;",
};
static uint32_t element(int pattern, uint32_t i)
{
    switch (pattern) {
    case 0:
        return i;
    case 1:
        return 5;
    case 2:
        return 400 - i;
    case 3:
        return (i & 63) + 100;
    case 4:
        return i * 3;
    case 5:
        return i * 77 % 401;
    case 6:
        return i / 32;
    default:
        return (i & 63) + i / 64 * 80;
    }
}

static const struct {
    const char *type, *reg;
    uint32_t size;
    bool is_signed;
} types[] = {{"u8", "b16", 1, false},  {"s8", "b16", 1, true},   {"b8", "b32", 1, false},
             {"s8", "b32", 1, true},   {"s8", "b64", 1, true},   {"u16", "b16", 2, false},
             {"u16", "b32", 2, false}, {"s16", "b32", 2, true},  {"s16", "b64", 2, true},
             {"b32", "b32", 4, false}, {"f32", "b32", 4, false}, {"u32", "b64", 4, false},
             {"s32", "b64", 4, true},  {"b64", "b64", 8, false}, {"f64", "b64", 8, false}};

static uint64_t loaded(const uint8_t *at, uint32_t size, bool is_signed, uint32_t bits)
{
    uint64_t value = 0;
    memcpy(&value, at, size);
    if (is_signed && value >> (8 * size - 1))
        value |= size < 8 ? ~UINT64_C(0) << 8 * size : 0;
    return bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value;
}

/* Loads of every type, width and pattern, by all threads or two of three, from global memory or shared. */
static void check_loads(const char *space, int pattern, size_t type, uint32_t count)
{
    static const char *const lists[5] = {"", "%v0", "{%v0, %v1}", "", "{%v0, %v1, %v2, %v3}"};
    static const char *const vectors[5] = {"", "", ".v2", "", ".v4"};
    uint32_t bits = (uint32_t)strtoul(types[type].reg + 1, NULL, 10), size = types[type].size;
    char stores[512] = "";
    for (uint32_t k = 0; k < count; k++)
        snprintf(stores + strlen(stores), sizeof stores - strlen(stores),
                 "cvt.u64.u%u %%rd9, %%v%u;\nst.global.u64 [%%rd8+%u], %%rd9;\n", bits, k, 8 * k);
    /* the first 16 KiB go to shared memory where that is wanted */
    struct ptx_module *module = parse_format(
        PTX_START
        ".shared .align 16 .b8 tile[16384];\n.reg .%s %%v<4>;\n"
        "mov.u64 %%rd1, tile;\nmov.u32 %%r1, %%tid.x;\nCOPY: mul.wide.u32 %%rd2, %%r1, 8;\nadd.u64 "
        "%%rd3, %%in, %%rd2;\n"
        "ld.global.u64 %%rd4, [%%rd3];\nadd.u64 %%rd3, %%rd1, %%rd2;\nst.shared.u64 [%%rd3], %%rd4;\n"
        "add.u32 %%r1, %%r1, %%y;\nsetp.lt.u32 %%p1, %%r1, 2048;\n@%%p1 bra COPY;\nbar.sync 0;\n"
        "cvta.shared.u64 %%rd5, %%rd1;\n%s\nmul.wide.u32 %%rd6, %%e, %u;\nadd.u64 %%rd7, %s, %%rd6;\n"
        "rem.u32 %%r2, %%i, 3;\nsetp.ne.u32 %%p2, %%r2, 1;\nmul.wide.u32 %%rd8, %%i, 32;\n"
        "add.u64 %%rd8, %%out, %%rd8;\n@!%%p2 bra END;\nld%s%s.%s %s, [%%rd7+16];\n%sEND: ret;\n}\n",
        types[type].reg, patterns[pattern], size * count,
        !strcmp(space, ".shared")      ? "%rd1"
        : !strcmp(space, ".global.nc") ? "%in"
                                       : "%rd5",
        space, vectors[count], types[type].type, lists[count], stores);
    fill();
    struct ptx_fault fault = {.line = 0};
    int status = run_in_out(module, 1, THREADS, &fault);
    ck_assert_msg(status == 0, "ld%s%s.%s: %s at line %u", space, vectors[count], types[type].type,
                  fault.reason, fault.line);
    for (uint32_t i = 0; i < THREADS; i++)
        for (uint32_t k = 0; k < count; k++) {
            uint64_t got, wanted = 0xeeeeeeeeeeeeeeee;
            memcpy(&got, out_bytes() + 32 * i + 8 * k, 8);
            if (i % 3 != 1)
                wanted = loaded(in_bytes() + 16 + (element(pattern, i) * count + k) * size, size,
                                types[type].is_signed, bits);
            ck_assert_msg(got == wanted,
                          "ld%s%s.%s into %s, pattern %d, thread %u.%u: %" PRIx64 " not %" PRIx64, space,
                          vectors[count], types[type].type, types[type].reg, pattern, i, k, got, wanted);
        }
    ptx_module_free(module);
}

START_TEST(loads)
{
    static const char *const spaces[] = {".global.nc", ".shared", ""};
    for (size_t s = 0; s < COUNT_OF(spaces); s++)
        for (int pattern = 0; pattern < PATTERNS; pattern++)
            for (size_t type = 0; type < COUNT_OF(types); type++)
                for (uint32_t count = 1; count <= 4; count *= 2) {
                    /* a vector has 16 bytes; shared memory holds the widest pattern, 958 elements, of 8 */
                    if (types[type].size * count > (s ? 8 : 16))
                        continue;
                    check_loads(spaces[s], pattern, type, count);
                }
}
END_TEST

static bool not_host(uint64_t address)
{
    (void)address;
    return false;
}

static void nothing_of(struct ptx_traffic *traffic, const uint64_t *pieces, uint32_t count)
{
    (void)traffic, (void)pieces, (void)count;
}

/* The units of the window that threads touch, a bit each: size bytes at offset, and so on for each element.
 */
static void note_units(uint8_t *units, uint32_t offset, uint32_t element, uint32_t size)
{
    for (uint32_t at = offset + element * size; at < offset + (element + 1) * size; at++)
        units[at / PTX_PIECE] |= (uint8_t)(1u << at % PTX_PIECE / PTX_UNIT);
}

/* Exactly these were counted as read and as written. */
static void check_traffic(const struct ptx_traffic *traffic, uint8_t units[2][WINDOW_PAGES / PTX_PIECE],
                          const char *what)
{
    for (int write = 0; write < 2; write++)
        for (uint32_t i = 0; i < WINDOW_PAGES / PTX_PIECE; i++) {
            uint8_t seen = ptx_units_touched(traffic->seen[i], traffic->number, write);
            ck_assert_msg(seen == units[write][i], "%s: %s 0x%x of piece %u, not 0x%x", what,
                          write ? "wrote" : "read", seen, i, units[write][i]);
        }
}

/* All lanes load at once: the loops without a mask. */
START_TEST(loads_by_whole_chunks)
{
    static uint64_t seen[WINDOW_PAGES / PTX_PIECE];
    struct ptx_traffic traffic = {.seen = seen, .is_host = not_host, .touched = nothing_of};
    window_traffic = &traffic;
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (uint32_t size = 1; size <= 8; size *= 2)
            for (uint32_t count = 1; count * size <= 16 && count <= 4; count *= 2) {
                static const char *const lists[5] = {"", "%v0", "{%v0, %v1}", "", "{%v0, %v1, %v2, %v3}"};
                static const char *const vectors[5] = {"", "", ".v2", "", ".v4"};
                struct ptx_module *module = parse_format(
                    PTX_START
                    ".reg .b%u %%v<4>;\n%s\nmul.wide.u32 %%rd6, %%e, %u;\nadd.u64 %%rd7, %%in, %%rd6;\n"
                    "mul.wide.u32 %%rd8, %%i, %u;\nadd.u64 %%rd8, %%out, %%rd8;\n"
                    "ld.global%s.b%u %s, [%%rd7+32];\nst.global%s.b%u [%%rd8], %s;\nret;\n}\n",
                    size == 1 ? 16 : size * 8, patterns[pattern], size * count, size * count, vectors[count],
                    size * 8, lists[count], vectors[count], size * 8, lists[count]);
                uint8_t units[2][WINDOW_PAGES / PTX_PIECE] = {{0}};
                char what[64];
                snprintf(what, sizeof what, "v%u.b%u, pattern %d", count, size * 8, pattern);
                for (uint32_t i = 0; i < THREADS; i++) {
                    note_units(units[0], 32, element(pattern, i), size * count);
                    note_units(units[1], OUT_OFFSET, i, size * count);
                }
                fill();
                traffic.number++;
                ck_assert_int_eq(run_in_out(module, 2, 160, NULL), 0);
                check_traffic(&traffic, units, what);
                for (uint32_t i = 0; i < THREADS; i++)
                    ck_assert_msg(!memcmp(out_bytes() + i * size * count,
                                          in_bytes() + 32 + element(pattern, i) * size * count, size * count),
                                  "%s, thread %u", what, i);
                ptx_module_free(module);
            }
    window_traffic = NULL;
}
END_TEST

/* Lanes side by side of which the last are behind the window, where the CPU would find memory. */
START_TEST(loads_across_the_end)
{
    struct ptx_module *module = parse_format(
        PTX_START "and.b32 %%e, %%i, 63;\nmul.wide.u32 %%rd6, %%e, 4;\nadd.u64 %%rd7, %%in, %%rd6;\n"
                  "ld.global.b32 %%x, [%%rd7];\nmul.wide.u32 %%rd8, %%i, 4;\nadd.u64 %%rd8, %%out, %%rd8;\n"
                  "st.global.b32 [%%rd8], %%x;\nret;\n}\n");
    for (uint32_t last = 1; last < 64; last++) {
        uint64_t params[2] = {window_base + WINDOW_PAGES / 4 + PTX_PIECE - 4 * last, window_base};
        struct ptx_fault fault = {.line = 0};
        window_size = WINDOW_PAGES / 4 + PTX_PIECE;
        int status = run_kernel(module, 1, 128, params, &fault);
        window_size = WINDOW_PAGES;
        ck_assert_int_eq(status, -EFAULT);
        ck_assert_uint_eq(fault.address, window_base + WINDOW_PAGES / 4 + PTX_PIECE);
    }
    ptx_module_free(module);
}
END_TEST

/* Stores in every pattern; where lanes write the same place the highest thread wins. */
START_TEST(stores)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (uint32_t size = 1; size <= 8; size *= 2)
            for (int some = 0; some < 2; some++) {
                struct ptx_module *module = parse_format(
                    PTX_START "%s\nmul.wide.u32 %%rd6, %%e, %u;\nadd.u64 %%rd7, %%out, %%rd6;\nmul.lo.u32 "
                              "%%x, %%i, 40503;\n"
                              "cvt.u64.u32 %%rd1, %%x;\ncvt.u16.u32 %%h1, %%x;\nrem.u32 %%r2, %%i, 3;\n"
                              "setp.ne.u32 %%p2, %%r2, %d;\n@%%p2 st.global.b%u [%%rd7], %s;\nret;\n}\n",
                    patterns[pattern], size, some ? 1 : 7, size * 8,
                    size == 1   ? "%h1"
                    : size == 2 ? "%h1"
                    : size == 4 ? "%x"
                                : "%rd1");
                static uint8_t wanted[16384];
                memset(wanted, 0xee, sizeof wanted);
                for (uint32_t i = 0; i < THREADS; i++) {
                    uint64_t value = (uint32_t)(i * 40503);
                    if (!some || i % 3 != 1)
                        memcpy(wanted + element(pattern, i) * size, &value, size);
                }
                fill();
                ck_assert_int_eq(run_in_out(module, 1, THREADS, NULL), 0);
                ck_assert_msg(!memcmp(out_bytes(), wanted, sizeof wanted), "b%u, pattern %d, some %d",
                              size * 8, pattern, some);
                ptx_module_free(module);
            }
}
END_TEST

/* Each thread has its own local memory, by its own address and through generic ones. */
START_TEST(local_memory)
{
    struct ptx_module *module = parse_format(
        PTX_START
        ".local .align 16 .b8 depot[64];\n.reg .b64 %%SP, %%SPL;\nmov.u64 %%SPL, depot;\ncvta.local.u64 "
        "%%SP, %%SPL;\n"
        "mov.u32 %%r1, 0;\nadd.u64 %%rd1, %%SPL, 0;\n"
        "FILL: mul.lo.u32 %%r2, %%i, 10;\nadd.u32 %%r2, %%r2, %%r1;\nst.local.u32 [%%rd1], %%r2;\n"
        "add.u64 %%rd1, %%rd1, 4;\nadd.u32 %%r1, %%r1, 1;\nsetp.lt.u32 %%p1, %%r1, 16;\n@%%p1 bra FILL;\n"
        "and.b32 %%r3, %%i, 15;\nmul.wide.u32 %%rd2, %%r3, 4;\nadd.u64 %%rd3, %%SP, %%rd2;\nld.u32 %%r4, "
        "[%%rd3];\n"
        "ld.local.u32 %%r5, [depot+8];\nst.u32 [%%SP+12], %%r5;\nld.local.v2.u32 {%%r6, %%r7}, [%%SPL+8];\n"
        "mad.lo.u32 %%x, %%r6, 3, %%r4;\nmad.lo.u32 %%x, %%r7, 5, %%x;\nmul.wide.u32 %%rd4, %%i, 4;\n"
        "add.u64 %%out, %%out, %%rd4;\nst.global.u32 [%%out], %%x;\nret;\n}\n");
    const struct ptx_kernel *kernel;
    ptx_module_kernels(module, &kernel);
    ck_assert_uint_eq(kernel->local_bytes, 64);
    ck_assert_int_eq(run_in_out(module, 2, 160, NULL), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        ck_assert_uint_eq(((uint32_t *)out_bytes())[i],
                          (i * 10 + 2) * 3 + (i * 10 + (i & 15)) + (i * 10 + 2) * 5);
    ptx_module_free(module);
}
END_TEST

START_TEST(dynamic_shared_memory)
{
    struct ptx_module *module = parse_format(
        PTX_HEAD
        ".extern .shared .align 16 .b8 dynamic[];\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".shared .align 4 .b8 fixed[20];\n.reg .b32 %%r<9>;\n.reg .b64 %%rd<9>;\nld.param.u64 %%rd1, [out];\n"
        "mov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%rd2, %%r1, 4;\nmov.u64 %%rd3, dynamic;\nadd.u64 %%rd4, "
        "%%rd3, %%rd2;\n"
        "st.shared.u32 [%%rd4], %%r1;\nst.shared.u32 [fixed+16], %%r1;\nbar.sync 0;\n"
        "ld.shared.u32 %%r2, [dynamic+124];\nld.shared.u32 %%r3, [fixed+16];\nmov.u32 %%r4, "
        "%%dynamic_smem_size;\n"
        "add.u64 %%rd1, %%rd1, %%rd2;\nmad.lo.u32 %%r2, %%r3, 1000, %%r2;\nmad.lo.u32 %%r2, %%r4, 100000, "
        "%%r2;\n"
        "st.global.u32 [%%rd1], %%r2;\nret;\n}\n");
    const struct ptx_kernel *kernel;
    ptx_module_kernels(module, &kernel);
    ck_assert_uint_eq(kernel->shared_bytes, 20);
    struct ptx_memory memory = {.window_base = window_base,
                                .window_size = WINDOW_PAGES,
                                .window_delta = (int64_t)((uint64_t)(uintptr_t)window() - window_base)};
    uint64_t params[2] = {window_base, window_base + OUT_OFFSET};
    struct ptx_launch launch = {.kernel = kernel,
                                .grid = {1, 1, 1},
                                .block = {32, 1, 1},
                                .dynamic_shared_bytes = 128,
                                .params = params,
                                .memory = &memory};
    struct ptx_fault fault;
    ck_assert_int_eq(ptx_run(&launch, 0, 1, &fault, NULL), 0);
    for (uint32_t i = 0; i < 32; i++)
        ck_assert_uint_eq(((uint32_t *)out_bytes())[i], 128 * 100000 + 31 * 1000 + 31);
    launch.dynamic_shared_bytes = 124;
    ck_assert_int_eq(ptx_run(&launch, 0, 1, &fault, NULL), -EFAULT);
    ck_assert_uint_eq(fault.line, 15);
    ptx_module_free(module);
}
END_TEST

/* Threads of a pool that flush subnormals call as well. */
START_TEST(arithmetic_of_the_caller)
{
    struct ptx_module *module = parse_format(
        PTX_START "mov.f32 %%r1, 0f00000003;\nmul.f32 %%x, %%r1, 0f4B000000;\nmul.wide.u32 %%rd1, %%i, 4;\n"
                  "add.u64 %%out, %%out, %%rd1;\nst.global.u32 [%%out], %%x;\nret;\n}\n");
    uint32_t before = __builtin_ia32_stmxcsr(), flush = before | 0x8040;
    __builtin_ia32_ldmxcsr(flush);
    int status = run_in_out(module, 1, 32, NULL);
    uint32_t after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(after & 0xffc0, flush & 0xffc0);
    ck_assert_uint_eq(((uint32_t *)out_bytes())[0], of_f32(as_f32(3) * 8388608.0f));
    ptx_module_free(module);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ptx memory");
    TCase *t = tcase_create("memory");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, loads);
    tcase_add_test(t, loads_by_whole_chunks);
    tcase_add_test(t, loads_across_the_end);
    tcase_add_test(t, stores);
    tcase_add_test(t, local_memory);
    tcase_add_test(t, dynamic_shared_memory);
    tcase_add_test(t, arithmetic_of_the_caller);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
