/*
 * Loading PTX: what a module tells about itself, its variables, and how what is not understood is refused.
 */
#include "tests/unit/ptx_harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 9.0\n.target sm_75\n.address_size 64\n"
#define BODY(text)                                                                                           \
    HEAD ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<4>;\n.reg " \
         ".b64 %rd<4>;\n" text "\nret;\n}\n"

static void refused(const char *text, int status, const char *message)
{
    struct ptx_module *module = NULL;
    char error[256] = "";
    int got = ptx_module_parse(text, strlen(text), &module, error, sizeof error);
    ck_assert_msg(got == status, "%d (%s) instead of %d for\n%s", got, error, status, text);
    ck_assert_msg(strstr(error, message), "`%s' does not say `%s'", error, message);
    ck_assert_ptr_null(module);
}

START_TEST(unknown_opcodes)
{
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"foo.b32 %r1, %r2;", "foo.b32"},
        {"add.s32.wrong %r1, %r2, %r3;", "wrong"},
        {"mul.s32 %r1, %r2, %r3;", "mul.s32"},
        {"add.b8 %h1, %h2, %h3;", "add.b8"},
        {"wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%rd1], %r2;", "wmma.load"},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r1}, {%r1}, {%r1};", "mma.sync"},
        {"ld.global.v8.b32 {%r1}, [%rd1];", "v8"},
        {"setp.foo.s32 %p1, %r1, %r2;", "setp.foo.s32"},
        {"cvt.s32.f32 %r1, %r2;", "cvt.s32.f32"},
        {"bar.red.popc.u32 %r1, 0, %p1;", "bar.red"},
        {"bar.sync 0, 64;", "bar.sync"},
        {"atom.global.max.f32 %r1, [%rd1], %r2;", "atom.global.max.f32"},
        {"cp.async.ca.shared.global [%r1], [%rd1], 16;", "cp.async"},
        {"tex.2d.v4.f32.s32 {%r1}, [x, {%r1}];", "tex.2d"},
        {"call (%r1), printf, (%rd1);", "printf"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[512];
        snprintf(
            text, sizeof text, "%s%s\nret;\n}\n",
            HEAD
            ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<4>;\n"
            ".reg .b64 %rd<4>;\n",
            cases[i].text);
        refused(text, -ENOSYS, cases[i].name);
        refused(text, -ENOSYS, "line 10:");
    }
}
END_TEST

START_TEST(what_is_not_ptx)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "not PTX"},
        {"\177ELF", "line 1"},
        {HEAD ".visible .entry k(", "line 4"},
        {HEAD ".visible .entry k()\n{\n", "missing"},
        {BODY("add.s32 %r1, %r2"), "expected"},
        {BODY("add.s32 %r1, %r2;"), "operands"},
        {BODY("add.s32 %r1, %r2, %r9;"), "%r9"},
        {BODY("add.s32 %rd1, %rd2, %rd3;\nadd.u64 %r1, %rd2, %rd3;"), "narrow"},
        {BODY("add.u64 %rd1, %r2, %rd3;"), "bytes"},
        {BODY("add.f32 %p1, %r2, %r3;"), "narrow"},
        {BODY("bra NOWHERE;"), "NOWHERE"},
        {BODY("{ HERE: }\nbra HERE;"), "HERE"},
        {BODY("mov.u64 %rd1, unknown;"), "unknown"},
        {BODY("@%r1 bra END;\nEND:"), "predicate"},
        {BODY("ld.global.v2.b32 {%r1, %r2, %r3}, [%rd1];"), "vector"},
        {BODY("ld.global.b32 %r1, %rd1;"), "address"},
        {BODY("mov.u32 %r1, 12z;"), "12z"},
        {BODY("mov.f32 %r1, 0f12;"), "hexadecimal"},
        {BODY("st.const.u32 [%rd1], %r1;"), "st.const"},
        {HEAD ".global .align 3 .b8 x[4];\n", "power of two"},
        {HEAD ".global .b8 x[4] = {1, 2, 3, 4, 5};\n", "initialisers"},
        {HEAD "/* no end", "comment"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct ptx_module *module = NULL;
        char error[256] = "";
        int status = ptx_module_parse(cases[i].text, strlen(cases[i].text), &module, error, sizeof error);
        ck_assert_msg(status == -EINVAL || status == -ENOSYS, "%d for\n%s", status, cases[i].text);
        ck_assert_msg(strstr(error, cases[i].message), "`%s' does not say `%s'", error, cases[i].message);
    }
}
END_TEST

START_TEST(kernels_and_parameters)
{
    struct ptx_module *module =
        must_parse(HEAD "// comment\n.visible .entry first(\n\t.param .u64 .ptr .align 16 "
                        "first_param_0,\n\t.param .u32 first_param_1,\n"
                        "\t.param .u64 .ptr .global .align 256 first_param_2,\n\t.param .align 8 .b8 "
                        "first_param_3[20],\n\t.param .u8 last\n)\n"
                        ".reqntid 128, 2, 1\n{\n\t.reg .b32 \t%r<5>;\n\t.reg .pred %p<2>;\n.loc 1 2 "
                        "3\n\t.shared .align 8 .b8 t[100];\n"
                        ".pragma \"nounroll\";\n\tret;\n}\n/* and\nanother */\n.visible .entry "
                        "second()\n.maxntid 256\n{\nret;\n}\n"
                        ".weak .func (.param .b32 r) helper(.param .b32 a);\n");
    const struct ptx_kernel *kernels;
    ck_assert_uint_eq(ptx_module_kernels(module, &kernels), 2);
    ck_assert_str_eq(kernels[0].name, "first");
    ck_assert_str_eq(kernels[1].name, "second");
    ck_assert_ptr_eq(ptx_module_find_kernel(module, "second"), &kernels[1]);
    ck_assert_ptr_null(ptx_module_find_kernel(module, "third"));
    static const struct ptx_param wanted[] = {{0, 8, 8}, {8, 4, 4}, {16, 8, 8}, {24, 20, 8}, {44, 1, 1}};
    ck_assert_uint_eq(kernels[0].param_count, COUNT_OF(wanted));
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        ck_assert_uint_eq(kernels[0].params[i].offset, wanted[i].offset);
        ck_assert_uint_eq(kernels[0].params[i].size, wanted[i].size);
        ck_assert_uint_eq(kernels[0].params[i].align, wanted[i].align);
    }
    ck_assert_uint_eq(kernels[0].param_bytes, 45);
    ck_assert_uint_eq(kernels[0].reqntid[0], 128);
    ck_assert_uint_eq(kernels[0].reqntid[1], 2);
    ck_assert_uint_eq(kernels[0].reqntid[2], 1);
    ck_assert_uint_eq(kernels[0].maxntid[0], 0);
    ck_assert_uint_eq(kernels[1].maxntid[0], 256);
    ck_assert_uint_eq(kernels[0].shared_bytes, 100);
    ck_assert_uint_eq(kernels[0].registers, 7);
    ck_assert(!kernels[0].has_atomics);
    ck_assert_uint_eq(kernels[1].param_count, 0);
    ptx_module_free(module);
}
END_TEST

/* By offset: the parameters' own sizes, a structure by value, negative and small ones. */
START_TEST(parameter_values)
{
    struct ptx_module *module = must_parse(
        HEAD
        ".entry k(.param .u64 out, .param .s8 a, .param .u16 b, .param .f32 c, .param .align 8 .b8 "
        "s[16])\n{\n"
        ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .b16 %h<3>;\n.reg .pred %p<3>;\nld.param.u64 %rd1, "
        "[out];\n"
        "ld.param.s8 %r1, [a];\nld.param.u16 %r2, [b];\nld.param.f32 %r3, [c];\nld.param.v2.u32 {%r4, %r5}, "
        "[s+8];\n"
        "mov.u32 %r6, %tid.x;\nmul.wide.u32 %rd2, %r6, 32;\nadd.u64 %rd1, %rd1, %rd2;\nand.b32 %r7, %r6, 1;\n"
        "setp.eq.u32 %p1, %r7, 1;\nmov.u64 %rd3, 77;\n@%p1 ld.param.u64 %rd3, [s];\n"
        "st.global.v2.u32 [%rd1], {%r1, %r2};\nst.global.v2.u32 [%rd1+8], {%r3, %r4};\nst.global.u32 "
        "[%rd1+16], %r5;\n"
        "st.global.u64 [%rd1+24], %rd3;\nret;\n}\n");
    struct {
        uint64_t out;
        int8_t a;
        uint16_t b;
        float c;
        uint64_t s0;
        uint32_t s8, s12;
    } params = {window_base, -5, 60000, 2.5f, 0x123456789abcdef0, 11, 12};
    ck_assert_int_eq(run_kernel(module, 1, 40, (const uint64_t *)&params, NULL), 0);
    for (uint32_t i = 0; i < 40; i++) {
        const uint32_t *got = (const uint32_t *)(window() + 32 * i);
        uint64_t wide;
        memcpy(&wide, got + 6, 8);
        ck_assert_uint_eq(got[0], (uint32_t)-5);
        ck_assert_uint_eq(got[1], 60000);
        ck_assert_uint_eq(got[2], of_f32(2.5f));
        ck_assert_uint_eq(got[3], 11);
        ck_assert_uint_eq(got[4], 12);
        ck_assert_uint_eq(wide, i % 2 ? params.s0 : 77);
    }
    ptx_module_free(module);
}
END_TEST

START_TEST(variables)
{
    struct ptx_module *module =
        must_parse(HEAD ".visible .global .align 256 .b8 bytes[8] = {1, 2, 255, -1};\n.global .align 4 .u32 "
                        "words[3] = {7, 0x10, -2};\n"
                        ".const .align 8 .f64 real = 0d3FF8000000000000;\n.global .f32 singles[2] = {1.5, "
                        "0f40000000};\n.global .align 16 .b8 empty[64];\n"
                        ".global .u64 pointers[3] = {words, bytes+4, 9};\n"
                        ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %rd<20>;\n.reg .b32 "
                        "%r<9>;\nld.param.u64 %rd1, [out];\n"
                        "mov.u64 %rd2, words;\nld.global.u32 %r1, [%rd2+4];\nld.global.u32 %r2, "
                        "[words+8];\nld.const.f64 %rd3, [real];\n"
                        "mov.u64 %rd4, pointers;\nld.global.u64 %rd5, [%rd4];\ncvta.global.u64 %rd6, "
                        "bytes;\nld.u8 %r3, [%rd6+2];\n"
                        "add.u32 %r1, %r1, %r2;\nst.global.v2.u32 [%rd1], {%r1, %r3};\nst.global.v2.u64 "
                        "[%rd1+16], {%rd3, %rd5};\n"
                        "mov.u64 %rd7, words+8;\nst.global.u64 [%rd1+8], %rd7;\nret;\n}\n");
    const struct ptx_global *globals;
    ck_assert_uint_eq(ptx_module_globals(module, &globals), 6);
    static const struct {
        const char *name;
        uint64_t size, align;
        bool constant, has_init;
    } wanted[] = {{"bytes", 8, 256, false, true},  {"words", 12, 4, false, true},
                  {"real", 8, 8, true, true},      {"singles", 8, 4, false, true},
                  {"empty", 64, 16, false, false}, {"pointers", 24, 8, false, true}};
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        ck_assert_str_eq(globals[i].name, wanted[i].name);
        ck_assert_uint_eq(globals[i].size, wanted[i].size);
        ck_assert_uint_eq(globals[i].align, wanted[i].align);
        ck_assert_int_eq(globals[i].constant, wanted[i].constant);
        ck_assert_int_eq(globals[i].init != NULL, wanted[i].has_init);
        ptx_module_set_global_address(module, i, window_base + 1024 * (i + 1));
    }
    ck_assert(!memcmp(globals[0].init, "\1\2\377\377\0\0\0\0", 8));
    ck_assert(!memcmp(globals[3].init, (const uint32_t[2]){0x3fc00000, 0x40000000}, 8));
    ck_assert(
        !memcmp(globals[5].init, (const uint64_t[3]){window_base + 2048, window_base + 1024 + 4, 9}, 24));
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        if (globals[i].init)
            memcpy(window() + 1024 * (i + 1), globals[i].init, globals[i].size);
    uint64_t params[1] = {window_base};
    ck_assert_int_eq(run_kernel(module, 1, 1, params, NULL), 0);
    const uint32_t *got = (const uint32_t *)window();
    const uint64_t *wide = (const uint64_t *)window();
    ck_assert_uint_eq(got[0], 0x10 - 2);
    ck_assert_uint_eq(got[1], 255);
    ck_assert_uint_eq(wide[1], window_base + 2048 + 8);
    ck_assert_uint_eq(wide[2], of_f64(1.5));
    ck_assert_uint_eq(wide[3], window_base + 2048);
    ptx_module_free(module);
    /* some modules hold nothing else */
    module = must_parse(HEAD ".visible .global .align 256 .b8 constant[4] = {0, 0, 192, 127};\n");
    const struct ptx_kernel *kernels;
    ck_assert_uint_eq(ptx_module_kernels(module, &kernels), 0);
    ptx_module_free(module);
}
END_TEST

/* Registers are found by name and by number, inner scopes first; labels of a scope may be repeated in
 * another. */
START_TEST(scopes)
{
    struct ptx_module *module = must_parse(
        HEAD
        ".entry k(.param .u64 out)\n{\n.reg .b64 %rd<3>;\n.reg .b32 %r<12>, r1, x;\n.reg .pred "
        "p;\nld.param.u64 %rd1, [out];\n"
        "mov.u32 x, 0;\nmov.u32 %r11, 5;\nmov.u32 r1, 100;\n"
        "{ .reg .b32 x; mov.u32 x, 50; add.u32 r1, r1, x; setp.eq.u32 p, x, 50; @p bra L; mov.u32 r1, 0; L: "
        "}\n"
        "{ .reg .b32 r1; mov.u32 r1, 7; add.u32 x, x, r1; bra.uni L; mov.u32 x, 1; L: add.u32 x, x, %r11; }\n"
        "add.u32 x, x, r1;\nst.global.u32 [%rd1], x;\nret;\n}\n");
    uint64_t params[1] = {window_base};
    ck_assert_int_eq(run_kernel(module, 1, 1, params, NULL), 0);
    ck_assert_uint_eq(*(uint32_t *)window(), 150 + 7 + 5);
    ptx_module_free(module);
}
END_TEST

/* No prefix of a module and no change of a character may do harm; what still is PTX has to load. */
START_TEST(damaged_text)
{
    static const char whole[] = HEAD
        ".global .align 8 .u64 g[2] = {g, 3};\n.func (.param .b32 r) f(.param .b32 a)\n{\n.reg .b32 %r<3>;\n"
        "ld.param.b32 %r1, [a];\nadd.u32 %r2, %r1, 1;\nst.param.b32 [r], %r2;\nret;\n}\n"
        ".visible .entry k(.param .u64 p, .param .align 4 .b8 q[8])\n.reqntid 64, 1, 1\n{\n.reg .pred "
        "%p<4>;\n.reg .b32 %r<9>;\n"
        ".reg .b64 %rd<5>;\n.shared .align 4 .b8 t[64];\n.local .b32 d[4];\nld.param.u64 %rd1, "
        "[p];\nld.param.v2.b32 {%r1, %r2}, [q];\n"
        "T: .branchtargets A, B;\n{ .param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\ncall (b), f, "
        "(a);\nld.param.b32 %r3, [b];\n}\n"
        "setp.lt.or.s32 %p1|%p2, %r1, %r2, !%p3;\n@%p1 bra A;\nbrx.idx %r3, T;\nA: mov.b64 {%r4, _}, %rd1;\n"
        "fma.rn.f32 %r5, %r4, 0f3F800000, 1.5e3;\nB: shfl.sync.down.b32 %r6|%p2, %r5, 1, 31, -1;\nbar.sync "
        "0;\n"
        "atom.global.add.u32 %r7, [%rd1+4], 0x10;\n@!%p2 st.global.v2.b32 [%rd1], {%r6, %r7};\nmov.u64 %rd2, "
        "g+8;\n"
        "cvt.rzi.s16.f32 %r8, %r5;\nret;\n}\n";
    char text[sizeof whole], error[128];
    static char deep[200000] = HEAD ".entry k()\n{\nmov.b32 ";
    memset(deep + strlen(deep), '{', 150000);
    refused(deep, -ENOSYS, "lists");
    struct ptx_module *module;
    ptx_module_free(must_parse(whole));
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        /* exactly as long as said: a tool that watches memory sees a read past it */
        char *part = malloc(n + 1);
        memcpy(part, whole, n);
        module = NULL;
        int status = ptx_module_parse(part, n, &module, error, sizeof error);
        ck_assert((status == 0) == (module != NULL));
        ptx_module_free(module);
        free(part);
    }
    uint32_t random = 12345, loaded = 0;
    static const char alphabet[] = "0123456789.%,;[]{}()<>@!|+-_ \nabdfrsuvxlt";
    for (uint32_t i = 0; i < 20000; i++) {
        memcpy(text, whole, sizeof whole);
        for (uint32_t k = 0; k <= i % 3; k++) {
            random = random * 1664525 + 1013904223;
            text[random / 64 % (sizeof whole - 1)] = alphabet[(random >> 5) % (sizeof alphabet - 1)];
        }
        module = NULL;
        int status = ptx_module_parse(text, sizeof whole - 1, &module, error, sizeof error);
        ck_assert((status == 0) == (module != NULL));
        ck_assert(status == 0 || status == -EINVAL || status == -ENOSYS);
        ck_assert(status == 0 || error[0]);
        loaded += status == 0;
        ptx_module_free(module);
    }
    ck_assert_uint_gt(loaded, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ptx module");
    TCase *t = tcase_create("module");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, unknown_opcodes);
    tcase_add_test(t, what_is_not_ptx);
    tcase_add_test(t, kernels_and_parameters);
    tcase_add_test(t, parameter_values);
    tcase_add_test(t, variables);
    tcase_add_test(t, scopes);
    tcase_add_test(t, damaged_text);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
