/*
 * Memory of the PTX interpreter: widths, vectors and address patterns, spaces, atomics, and what must fault.
 */
#include "tests/unit/ptx_harness.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

enum { THREADS = 320, OUT = 256 * 1024 };

static uint8_t *in(void)
{
    return (uint8_t *)window();
}

static uint8_t *out(void)
{
    return (uint8_t *)window() + OUT;
}

static void fill(void)
{
    for (uint32_t i = 0; i < OUT; i++)
        in()[i] = (uint8_t)(i * 151 + i / 256 * 7 + 0x41);
    memset(out(), 0xee, OUT);
}

/* Which element a thread takes: side by side, all the same, backwards, in pieces, with gaps, all over. */
enum { PATTERNS = 7 };
static const char *const patterns[PATTERNS] = {
    "mov.u32 %e, %i;",       "mov.u32 %e, 5;",
    "sub.u32 %e, 400, %i;",  "and.b32 %e, %i, 63;\nadd.u32 %e, %e, 100;",
    "mul.lo.u32 %e, %i, 3;", "mul.lo.u32 %e, %i, 77;\nrem.u32 %e, %e, 401;",
    "shr.u32 %e, %i, 5;",
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
    default:
        return i / 32;
    }
}

static struct ptx_module *parse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static struct ptx_module *parse(const char *format, ...)
{
    static char text[16384];
    va_list list;
    va_start(list, format);
    ck_assert_int_lt(vsnprintf(text, sizeof text, format, list), (int)sizeof text);
    va_end(list);
    return must_parse(text);
}

static int run(struct ptx_module *module, uint32_t grid, uint32_t block, struct ptx_fault *fault)
{
    uint64_t params[2] = {window_base, window_base + OUT};
    return run_kernel(module, grid, block, params, fault);
}

#define START                                                                                                \
    HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .pred %%p<9>;\n.reg .b16 %%h<9>;\n"    \
         ".reg .b32 %%r<20>, %%i, %%e, %%x, %%y;\n.reg .b64 %%rd<20>, %%in, %%out;\nld.param.u64 %%in, "     \
         "[in];\n"                                                                                           \
         "ld.param.u64 %%out, [out];\nmov.u32 %%x, %%ctaid.x;\nmov.u32 %%y, %%ntid.x;\nmov.u32 %%i, "        \
         "%%tid.x;\n"                                                                                        \
         "mad.lo.u32 %%i, %%x, %%y, %%i;\n"

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
    struct ptx_module *module = parse(
        START ".shared .align 16 .b8 tile[16384];\n.reg .%s %%v<4>;\n"
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
    int status = run(module, 1, THREADS, &fault);
    ck_assert_msg(status == 0, "ld%s%s.%s: %s at line %u", space, vectors[count], types[type].type,
                  fault.reason, fault.line);
    for (uint32_t i = 0; i < THREADS; i++)
        for (uint32_t k = 0; k < count; k++) {
            uint64_t got, wanted = 0xeeeeeeeeeeeeeeee;
            memcpy(&got, out() + 32 * i + 8 * k, 8);
            if (i % 3 != 1)
                wanted = loaded(in() + 16 + (element(pattern, i) * count + k) * size, size,
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

/* All lanes load at once: the loops without a mask. */
START_TEST(loads_by_whole_chunks)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (uint32_t size = 1; size <= 8; size *= 2)
            for (uint32_t count = 1; count * size <= 16 && count <= 4; count *= 2) {
                static const char *const lists[5] = {"", "%v0", "{%v0, %v1}", "", "{%v0, %v1, %v2, %v3}"};
                static const char *const vectors[5] = {"", "", ".v2", "", ".v4"};
                struct ptx_module *module = parse(
                    START ".reg .b%u %%v<4>;\n%s\nmul.wide.u32 %%rd6, %%e, %u;\nadd.u64 %%rd7, %%in, %%rd6;\n"
                          "mul.wide.u32 %%rd8, %%i, %u;\nadd.u64 %%rd8, %%out, %%rd8;\n"
                          "ld.global%s.b%u %s, [%%rd7+32];\nst.global%s.b%u [%%rd8], %s;\nret;\n}\n",
                    size == 1 ? 16 : size * 8, patterns[pattern], size * count, size * count, vectors[count],
                    size * 8, lists[count], vectors[count], size * 8, lists[count]);
                fill();
                ck_assert_int_eq(run(module, 2, 160, NULL), 0);
                for (uint32_t i = 0; i < THREADS; i++)
                    ck_assert_msg(!memcmp(out() + i * size * count,
                                          in() + 32 + element(pattern, i) * size * count, size * count),
                                  "v%u.b%u, pattern %d, thread %u", count, size * 8, pattern, i);
                ptx_module_free(module);
            }
}
END_TEST

/* Stores in every pattern; where lanes write the same place the highest thread wins. */
START_TEST(stores)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (uint32_t size = 1; size <= 8; size *= 2)
            for (int some = 0; some < 2; some++) {
                struct ptx_module *module =
                    parse(START "%s\nmul.wide.u32 %%rd6, %%e, %u;\nadd.u64 %%rd7, %%out, %%rd6;\nmul.lo.u32 "
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
                ck_assert_int_eq(run(module, 1, THREADS, NULL), 0);
                ck_assert_msg(!memcmp(out(), wanted, sizeof wanted), "b%u, pattern %d, some %d", size * 8,
                              pattern, some);
                ptx_module_free(module);
            }
}
END_TEST

/* Each thread has its own local memory, by its own address and through generic ones. */
START_TEST(local_memory)
{
    struct ptx_module *module = parse(
        START
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
    ck_assert_int_eq(run(module, 2, 160, NULL), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        ck_assert_uint_eq(((uint32_t *)out())[i], (i * 10 + 2) * 3 + (i * 10 + (i & 15)) + (i * 10 + 2) * 5);
    ptx_module_free(module);
}
END_TEST

START_TEST(dynamic_shared_memory)
{
    struct ptx_module *module = parse(
        HEAD
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
    uint64_t params[2] = {window_base, window_base + OUT};
    struct ptx_launch launch = {.kernel = kernel,
                                .grid = {1, 1, 1},
                                .block = {32, 1, 1},
                                .dynamic_shared_bytes = 128,
                                .params = params,
                                .memory = &memory};
    struct ptx_fault fault;
    ck_assert_int_eq(ptx_run(&launch, 0, 1, &fault, NULL), 0);
    for (uint32_t i = 0; i < 32; i++)
        ck_assert_uint_eq(((uint32_t *)out())[i], 128 * 100000 + 31 * 1000 + 31);
    launch.dynamic_shared_bytes = 124;
    ck_assert_int_eq(ptx_run(&launch, 0, 1, &fault, NULL), -EFAULT);
    ck_assert_uint_eq(fault.line, 15);
    ptx_module_free(module);
}
END_TEST

/* Atomics: one word, every thread; the result of each is what the lanes before it left. */
static const struct {
    const char *op, *type;
    uint64_t start;
} atomics[] = {
    {"add", "u32", 5},
    {"add", "s32", 5},
    {"add", "u64", 1ull << 40},
    {"min", "u32", 3000000000},
    {"min", "s32", 77},
    {"max", "u32", 1},
    {"max", "s32", 0x80000000},
    {"min", "u64", 1ull << 63},
    {"max", "s64", 1ull << 63},
    {"and", "b32", ~0u},
    {"or", "b32", 0},
    {"xor", "b32", 0x55},
    {"and", "b64", ~0ull},
    {"exch", "b32", 9},
    {"exch", "b64", 9},
    {"inc", "u32", 0},
    {"dec", "u32", 3},
    {"add", "f32", 0x3f800000},
    {"add", "f64", 0x3ff0000000000000},
    {"add.noftz", "f16", 0x3c00},
};

static uint64_t applied(const char *op, const char *type, uint64_t old, uint64_t b)
{
    bool is_signed = type[0] == 's';
    uint32_t bits = (uint32_t)strtoul(type + 1, NULL, 10);
    int64_t so = bits == 32 ? (int32_t)old : (int64_t)old, sb = bits == 32 ? (int32_t)b : (int64_t)b;
    if (!strncmp(op, "add", 3)) {
        if (!strcmp(type, "f32"))
            return of_f32(as_f32(old) + as_f32(b));
        if (!strcmp(type, "f64"))
            return of_f64(as_f64(old) + as_f64(b));
        if (!strcmp(type, "f16")) {
            _Float16 x, y;
            memcpy(&x, &old, 2);
            memcpy(&y, &b, 2);
            x = (_Float16)((float)x + (float)y);
            uint64_t r = 0;
            memcpy(&r, &x, 2);
            return r;
        }
        return bits == 32 ? (uint32_t)(old + b) : old + b;
    }
    if (!strcmp(op, "min"))
        return is_signed ? (so < sb ? old : b) : old < b ? old : b;
    if (!strcmp(op, "max"))
        return is_signed ? (so > sb ? old : b) : old > b ? old : b;
    if (!strcmp(op, "and"))
        return old & b;
    if (!strcmp(op, "or"))
        return old | b;
    if (!strcmp(op, "xor"))
        return old ^ b;
    if (!strcmp(op, "exch"))
        return b;
    if (!strcmp(op, "inc"))
        return old >= b ? 0 : old + 1;
    return old == 0 || old > b ? b : old - 1;
}

START_TEST(atomic_operations)
{
    for (size_t k = 0; k < COUNT_OF(atomics); k++)
        for (int space = 0; space < 2; space++) {
            const char *type = atomics[k].type, *op = atomics[k].op;
            uint32_t bits = (uint32_t)strtoul(type + 1, NULL, 10);
            bool real = type[0] == 'f';
            uint64_t old = atomics[k].start;
            /* operand: a hash of the index, or a float of it; threads with i % 3 == 1 stay out */
            struct ptx_module *module = parse(
                START
                ".shared .align 8 .b8 word[8];\n.reg .b%u %%b, %%o;\nmul.lo.u32 %%r1, %%i, 747796405;\n"
                "shr.u32 %%r2, %%r1, 28;\nxor.b32 %%r1, %%r1, %%r2;\n%s\nmov.u64 %%rd1, %s;\nmov.u32 %%r3, "
                "%%tid.x;\n"
                "ld.global.b%u %%o, [%%in];\nsetp.eq.u32 %%p2, %%r3, 0;\n@%%p2 st.shared.b%u [word], %%o;\n"
                "bar.sync 0;\nrem.u32 %%r4, %%i, 3;\nsetp.ne.u32 %%p1, %%r4, 1;\nmul.wide.u32 %%rd2, %%i, "
                "8;\n"
                "add.u64 %%out, %%out, %%rd2;\n@%%p1 atom.%s.%s.%s %%o, [%%rd1], %%b;\n@%%p1 st.global.b%u "
                "[%%out], %%o;\n"
                "bar.sync 0;\nld.%s.b%u %%o, [%%rd1];\n@%%p2 st.global.b%u [%%in+8], %%o;\nret;\n}\n",
                bits,
                real         ? (bits == 64   ? "cvt.rn.f64.s32 %b, %r1;"
                                : bits == 32 ? "cvt.rn.f32.s32 %b, %r1;"
                                             : "and.b32 %r1, %r1, 7;\ncvt.rn.f16.u32 %b, %r1;")
                : bits == 64 ? "mul.wide.u32 %b, %r1, 3333333333;"
                             : "mov.b32 %b, %r1;",
                space ? "word" : "%in", bits, bits, space ? "shared" : "relaxed.sys.global", op, type, bits,
                space ? "shared" : "global", bits, bits);
            const struct ptx_kernel *kernel;
            ptx_module_kernels(module, &kernel);
            ck_assert_int_eq(kernel->has_atomics, !space);
            memset(out(), 0xee, OUT);
            memcpy(in(), &old, 8);
            ck_assert_int_eq(run(module, 1, THREADS, NULL), 0);
            for (uint32_t i = 0; i < THREADS; i++) {
                uint32_t hash = i * 747796405;
                hash ^= hash >> 28;
                uint64_t got = 0, b = bits == 64 ? hash * 3333333333ull : hash;
                if (i % 3 == 1)
                    continue;
                if (real) {
                    _Float16 half = (_Float16)(hash & 7);
                    b = bits == 64 ? of_f64((int32_t)hash) : of_f32((float)(int32_t)hash);
                    if (bits == 16) {
                        b = 0;
                        memcpy(&b, &half, 2);
                    }
                }
                memcpy(&got, out() + 8 * i, bits / 8);
                ck_assert_msg(got == old, "atom.%s.%s, thread %u: %" PRIx64 " instead of %" PRIx64, op, type,
                              i, got, old);
                old = applied(op, type, old, b);
            }
            uint64_t last = 0;
            memcpy(&last, in() + 8, bits / 8);
            ck_assert_uint_eq(last, old);
            ptx_module_free(module);
        }
}
END_TEST

/* The loop that compilers write for an atomic the machine does not have: float maximum by compare and swap.
 */
START_TEST(compare_and_swap_loop)
{
    struct ptx_module *module =
        parse(START "mul.lo.u32 %%r1, %%i, 7919;\nrem.u32 %%r1, %%r1, 1009;\ncvt.rn.f32.u32 %%r2, "
                    "%%r1;\nand.b32 %%r9, %%i, 3;\n"
                    "mul.wide.u32 %%rd1, %%r9, 4;\nadd.u64 %%in, %%in, %%rd1;\nld.global.u32 %%r3, [%%in];\n"
                    "LOOP: max.f32 %%r4, %%r3, %%r2;\natom.global.cas.b32 %%r5, [%%in], %%r3, %%r4;\n"
                    "setp.ne.b32 %%p1, %%r5, %%r3;\nmov.b32 %%r3, %%r5;\n@%%p1 bra LOOP;\nred.global.add.u32 "
                    "[%%in+16], 1;\nret;\n}\n");
    memset(in(), 0, 64);
    ck_assert_int_eq(run(module, 4, 256, NULL), 0);
    for (uint32_t k = 0; k < 4; k++) {
        float most = 0;
        for (uint32_t i = k; i < 1024; i += 4)
            if ((float)(i * 7919 % 1009) > most)
                most = (float)(i * 7919 % 1009);
        ck_assert(((float *)in())[k] == most);
        ck_assert_uint_eq(((uint32_t *)in())[4 + k], 256);
    }
    ptx_module_free(module);
}
END_TEST

struct half {
    struct ptx_module *module;
    uint64_t first, end;
};

static void *run_half(void *argument)
{
    struct half *half = argument;
    const struct ptx_kernel *kernel;
    ptx_module_kernels(half->module, &kernel);
    struct ptx_memory memory = {.window_base = window_base,
                                .window_size = WINDOW_PAGES,
                                .window_delta = (int64_t)((uint64_t)(uintptr_t)window() - window_base)};
    uint64_t params[2] = {window_base, window_base + OUT};
    struct ptx_launch launch = {
        .kernel = kernel, .grid = {400, 1, 1}, .block = {128, 1, 1}, .params = params, .memory = &memory};
    return (void *)(intptr_t)ptx_run(&launch, half->first, half->end, NULL, NULL);
}

START_TEST(atomics_of_two_threads)
{
    struct ptx_module *module =
        parse(START "and.b32 %%r1, %%i, 1;\nmul.wide.u32 %%rd1, %%r1, 4;\nadd.u64 %%in, %%in, %%rd1;\n"
                    "red.global.add.u32 [%%in], 1;\nret;\n}\n");
    const struct ptx_kernel *kernel;
    ptx_module_kernels(module, &kernel);
    ck_assert(!kernel->has_atomics); /* a sum of integers does not tell the order */
    memset(in(), 0, 64);
    struct half halves[2] = {{module, 0, 200}, {module, 200, 400}};
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, run_half, &halves[0]), 0);
    ck_assert_ptr_null(run_half(&halves[1]));
    void *status;
    pthread_join(other, &status);
    ck_assert_ptr_null(status);
    ck_assert_uint_eq(((uint32_t *)in())[0], 400 * 64);
    ck_assert_uint_eq(((uint32_t *)in())[1], 400 * 64);
    ptx_module_free(module);
}
END_TEST

/* Faults: kernel, line, address, direction */

static void check_fault(const char *instruction, uint64_t offset, uint64_t address, bool write,
                        const char *reason)
{
    struct ptx_module *module =
        parse(HEAD ".visible .entry faulty(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %%rd<9>;\n.reg "
                   ".b32 %%r<9>;\n.reg .b16 %%h<5>;\n"
                   ".reg .pred %%p<3>;\n.shared .align 8 .b8 tile[64];\n.local .align 8 .b8 depot[32];\n"
                   "ld.param.u64 %%rd1, [in];\nmov.u32 %%r1, %%tid.x;\nmov.u64 %%rd2, %" PRIu64
                   ";\nadd.u64 %%rd1, %%rd1, %%rd2;\n"
                   "%s\nret;\n}\n",
              offset, instruction);
    struct ptx_fault fault;
    memset(&fault, 0xcc, sizeof fault);
    ck_assert_msg(run(module, 1, 96, &fault) == -EFAULT, "%s", instruction);
    ck_assert_str_eq(fault.kernel, "faulty");
    ck_assert_msg(fault.line == 16, "%s: line %u", instruction, fault.line);
    ck_assert_msg(fault.address == address, "%s: %" PRIx64, instruction, fault.address);
    ck_assert_int_eq(fault.write, write);
    ck_assert_msg(strstr(fault.reason, reason), "%s: %s", instruction, fault.reason);
    ptx_module_free(module);
}

START_TEST(faults)
{
    const uint64_t hole = WINDOW_PAGES / 2, at = window_base + hole;
    /* in the window but not mapped: seen by the machine, with the address to the byte that was touched first
     */
    check_fault("ld.global.u32 %r2, [%rd1];", hole, at, false, "read");
    check_fault("st.global.u32 [%rd1+16], %r1;", hole, at + 16, true, "write");
    check_fault("atom.global.add.u32 %r2, [%rd1], 1;", hole + 8, at + 8, true, "write");
    /* outside of it: nobody knows the address */
    check_fault("ld.global.u32 %r2, [%rd1];", WINDOW_PAGES, window_base + WINDOW_PAGES, false, "read");
    check_fault("ld.global.u32 %r2, [%rd1+-4];", 0, window_base - 4, false, "read");
    check_fault("ld.global.u64 %rd3, [1024];", 0, 1024, false, "read");
    check_fault("st.u32 [%rd1+4], %r1;", WINDOW_PAGES - 4, window_base + WINDOW_PAGES, true, "write");
    /* not a multiple of the access's size */
    check_fault("ld.global.u32 %r2, [%rd1];", 2, window_base + 2, false, "misaligned");
    check_fault("st.global.b64 [%rd1+4], %rd1;", 0, window_base + 4, true, "misaligned");
    check_fault("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];", 8, window_base + 8, false, "misaligned");
    check_fault("atom.global.add.u32 %r2, [%rd1], 1;", 1, window_base + 1, true, "misaligned");
    check_fault("ld.shared.u16 %h1, [tile+1];", 0, 1, false, "misaligned");
    /* shared and local memory end somewhere */
    check_fault("ld.shared.u32 %r2, [tile+64];", 0, 64, false, "shared");
    check_fault("st.shared.v2.u32 [tile+64], {%r1, %r1};", 0, 64, true, "shared");
    check_fault("st.local.u32 [depot+32], %r1;", 0, 32, true, "local");
    check_fault("ld.local.u64 %rd3, [depot+-8];", 0, (uint64_t)-8, false, "local");
    check_fault("trap;", 0, 0, false, "trap");
}
END_TEST

/* The lane that faults is found in a whole chunk's access, and under a mask. */
START_TEST(fault_of_one_lane)
{
    for (int some = 0; some < 2; some++) {
        struct ptx_module *module = parse(
            START "setp.ne.u32 %%p1, %%i, %d;\nmul.wide.u32 %%rd1, %%i, 4;\nsetp.eq.u32 %%p2, %%i, 50;\n"
                  "selp.b64 %%rd2, 1048576, %%rd1, %%p2;\nadd.u64 %%rd3, %%in, %%rd2;\n@%%p1 ld.global.u32 "
                  "%%r1, [%%rd3];\nret;\n}\n",
            some ? 7 : 5000);
        struct ptx_fault fault;
        ck_assert_int_eq(run(module, 1, 128, &fault), -EFAULT);
        ck_assert_uint_eq(fault.address, window_base + 1048576);
        ptx_module_free(module);
    }
}
END_TEST

static uint32_t elsewhere[64];
static uint32_t asked;

/* 64 words at 0x10000 of which the device may only read the first half. */
static void *translate(void *ctx, uint64_t address, size_t size, bool write)
{
    ck_assert_ptr_eq(ctx, elsewhere);
    asked++;
    uint64_t end = write ? sizeof elsewhere : sizeof elsewhere / 2;
    return address >= 0x10000 && address - 0x10000 + size <= end ? (char *)elsewhere + (address - 0x10000)
                                                                 : NULL;
}

START_TEST(addresses_outside_the_window)
{
    struct ptx_module *module = parse(HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 "
                                           "%%rd<9>;\n.reg .b32 %%r<9>;\nld.param.u64 %%rd1, [in];\n"
                                           "mov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%rd2, %%r1, 4;\nadd.u64 "
                                           "%%rd1, %%rd1, %%rd2;\nld.global.u32 %%r2, [%%rd1];\n"
                                           "st.global.u32 [%%rd1+128], %%r2;\nret;\n}\n");
    const struct ptx_kernel *kernel;
    ptx_module_kernels(module, &kernel);
    struct ptx_memory memory = {.window_base = window_base,
                                .window_size = WINDOW_PAGES,
                                .window_delta = (int64_t)((uint64_t)(uintptr_t)window() - window_base),
                                .translate = translate,
                                .ctx = elsewhere};
    uint64_t params[2] = {0x10000, 0};
    struct ptx_launch launch = {
        .kernel = kernel, .grid = {1, 1, 1}, .block = {32, 1, 1}, .params = params, .memory = &memory};
    struct ptx_fault fault;
    for (uint32_t i = 0; i < 32; i++)
        elsewhere[i] = i * i;
    ck_assert_int_eq(ptx_run(&launch, 0, 1, &fault, NULL), 0);
    ck_assert_uint_gt(asked, 0);
    for (uint32_t i = 0; i < 32; i++)
        ck_assert_uint_eq(elsewhere[32 + i], i * i);
    params[0] = 0x10004;
    ck_assert_int_eq(ptx_run(&launch, 0, 1, &fault, NULL), -EFAULT);
    ck_assert_uint_eq(fault.address, 0x10080);
    ck_assert(!fault.write);
    ptx_module_free(module);
}
END_TEST

static volatile sig_atomic_t others;

static void open_page(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    others++;
    mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
}

/* A fault that is none of ours goes to the handler that was there before; one of ours still does not. */
START_TEST(foreign_signals)
{
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, NULL);
    ptx_install_fault_handler();
    ptx_install_fault_handler();
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    *(volatile char *)page = 7;
    ck_assert_int_eq(others, 1);
    check_fault("ld.global.u32 %r2, [%rd1];", WINDOW_PAGES / 2, window_base + WINDOW_PAGES / 2, false,
                "read");
    ck_assert_int_eq(others, 1);
    /* again: the handler was left by a jump, and the signal must not stay blocked */
    check_fault("ld.global.u32 %r2, [%rd1];", WINDOW_PAGES / 2, window_base + WINDOW_PAGES / 2, false,
                "read");
    munmap(page, 4096);
}
END_TEST

/* Threads of a pool that flush subnormals call as well. */
START_TEST(arithmetic_of_the_caller)
{
    struct ptx_module *module =
        parse(START "mov.f32 %%r1, 0f00000003;\nmul.f32 %%x, %%r1, 0f4B000000;\nmul.wide.u32 %%rd1, %%i, 4;\n"
                    "add.u64 %%out, %%out, %%rd1;\nst.global.u32 [%%out], %%x;\nret;\n}\n");
    uint32_t before = __builtin_ia32_stmxcsr(), flush = before | 0x8040;
    __builtin_ia32_ldmxcsr(flush);
    int status = run(module, 1, 32, NULL);
    uint32_t after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(after & 0xffc0, flush & 0xffc0);
    ck_assert_uint_eq(((uint32_t *)out())[0], of_f32(as_f32(3) * 8388608.0f));
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
    tcase_add_test(t, stores);
    tcase_add_test(t, local_memory);
    tcase_add_test(t, dynamic_shared_memory);
    tcase_add_test(t, atomic_operations);
    tcase_add_test(t, compare_and_swap_loop);
    tcase_add_test(t, atomics_of_two_threads);
    tcase_add_test(t, faults);
    tcase_add_test(t, fault_of_one_lane);
    tcase_add_test(t, addresses_outside_the_window);
    tcase_add_test(t, foreign_signals);
    tcase_add_test(t, arithmetic_of_the_caller);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
