/*
 * Atomics of the PTX interpreter, by lanes in order and by two threads at once.
 */
#include "tests/unit/ptx_harness.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
            struct ptx_module *module = parse_format(
                PTX_START
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
            memset(out_bytes(), 0xee, OUT_OFFSET);
            memcpy(in_bytes(), &old, 8);
            ck_assert_int_eq(run_in_out(module, 1, THREADS, NULL), 0);
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
                memcpy(&got, out_bytes() + 8 * i, bits / 8);
                ck_assert_msg(got == old, "atom.%s.%s, thread %u: %" PRIx64 " instead of %" PRIx64, op, type,
                              i, got, old);
                old = applied(op, type, old, b);
            }
            uint64_t last = 0;
            memcpy(&last, in_bytes() + 8, bits / 8);
            ck_assert_uint_eq(last, old);
            ptx_module_free(module);
        }
}
END_TEST

/* The loop that compilers write for an atomic the machine does not have: float maximum by compare and swap.
 */
START_TEST(compare_and_swap_loop)
{
    struct ptx_module *module = parse_format(
        PTX_START "mul.lo.u32 %%r1, %%i, 7919;\nrem.u32 %%r1, %%r1, 1009;\ncvt.rn.f32.u32 %%r2, "
                  "%%r1;\nand.b32 %%r9, %%i, 3;\n"
                  "mul.wide.u32 %%rd1, %%r9, 4;\nadd.u64 %%in, %%in, %%rd1;\nld.global.u32 %%r3, [%%in];\n"
                  "LOOP: max.f32 %%r4, %%r3, %%r2;\natom.global.cas.b32 %%r5, [%%in], %%r3, %%r4;\n"
                  "setp.ne.b32 %%p1, %%r5, %%r3;\nmov.b32 %%r3, %%r5;\n@%%p1 bra LOOP;\nred.global.add.u32 "
                  "[%%in+16], 1;\nret;\n}\n");
    memset(in_bytes(), 0, 64);
    ck_assert_int_eq(run_in_out(module, 4, 256, NULL), 0);
    for (uint32_t k = 0; k < 4; k++) {
        float most = 0;
        for (uint32_t i = k; i < 1024; i += 4)
            if ((float)(i * 7919 % 1009) > most)
                most = (float)(i * 7919 % 1009);
        ck_assert(((float *)in_bytes())[k] == most);
        ck_assert_uint_eq(((uint32_t *)in_bytes())[4 + k], 256);
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
    uint64_t params[2] = {window_base, window_base + OUT_OFFSET};
    struct ptx_launch launch = {
        .kernel = kernel, .grid = {400, 1, 1}, .block = {128, 1, 1}, .params = params, .memory = &memory};
    return (void *)(intptr_t)ptx_run(&launch, half->first, half->end, NULL, NULL);
}

START_TEST(atomics_of_two_threads)
{
    struct ptx_module *module = parse_format(
        PTX_START "and.b32 %%r1, %%i, 1;\nmul.wide.u32 %%rd1, %%r1, 4;\nadd.u64 %%in, %%in, %%rd1;\n"
                  "red.global.add.u32 [%%in], 1;\nret;\n}\n");
    const struct ptx_kernel *kernel;
    ptx_module_kernels(module, &kernel);
    ck_assert(!kernel->has_atomics); /* a sum of integers does not tell the order */
    memset(in_bytes(), 0, 64);
    struct half halves[2] = {{module, 0, 200}, {module, 200, 400}};
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, run_half, &halves[0]), 0);
    ck_assert_ptr_null(run_half(&halves[1]));
    void *status;
    pthread_join(other, &status);
    ck_assert_ptr_null(status);
    ck_assert_uint_eq(((uint32_t *)in_bytes())[0], 400 * 64);
    ck_assert_uint_eq(((uint32_t *)in_bytes())[1], 400 * 64);
    ptx_module_free(module);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ptx atomic");
    TCase *t = tcase_create("atomic");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, atomic_operations);
    tcase_add_test(t, compare_and_swap_loop);
    tcase_add_test(t, atomics_of_two_threads);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
