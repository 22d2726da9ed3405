/*
 * Random programs: each is run twice, as blocks of many threads and as blocks of one. A block of one has no
 * divergence, and everything in it is uniform, so it is the reference for whatever the interpreter does about
 * both.
 */
#include "tests/unit/ptx_harness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    char text[65536];
    size_t used;
    uint64_t random;
    uint32_t labels, depth, loops;
};

__attribute__((format(printf, 2, 3))) static void add(struct writer *w, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    w->used += (size_t)vsnprintf(w->text + w->used, sizeof w->text - w->used, format, list);
    va_end(list);
    ck_assert_uint_lt(w->used, sizeof w->text);
}

static uint32_t any(struct writer *w, uint32_t below)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % below;
}

/* v0 starts as the thread's index, v1 as the block's and v2 as a parameter, the rest as constants. */
enum { VARIABLES = 9 };

static void assignment(struct writer *w)
{
    static const char *const ops[] = {"add.u32",    "sub.u32", "xor.b32", "and.b32",
                                      "mul.lo.u32", "max.u32", "or.b32"};
    uint32_t d = any(w, VARIABLES), a = any(w, VARIABLES), b = any(w, VARIABLES);
    switch (any(w, 5)) {
    case 0:
        add(w, "setp.lt.u32 %%p1, %%v%u, %%v%u;\n@%sp1 add.u32 %%v%u, %%v%u, %u;\n", a, b,
            any(w, 2) ? "%" : "!%", d, a, any(w, 100));
        break;
    case 1: /* a value that lives for two instructions */
        add(w, "mul.lo.u32 %%t%u, %%v%u, %u;\nadd.u32 %%v%u, %%t%u, %%v%u;\n", w->labels, a, any(w, 9) + 1, d,
            w->labels, b);
        w->labels++;
        break;
    case 2:
        add(w, "mov.u32 %%v%u, %u;\n", d, any(w, 1000));
        break;
    default:
        add(w, "%s %%v%u, %%v%u, %%v%u;\n", ops[any(w, COUNT_OF(ops))], d, a, b);
        break;
    }
}

static void statements(struct writer *w, uint32_t count);

static void condition(struct writer *w, uint32_t label)
{
    /* about half of them are the same in all lanes of a block, unless something varying got into v1 to v8 */
    add(w, "and.b32 %%c%u, %%v%u, %u;\nsetp.ne.u32 %%q%u, %%c%u, 0;\n", label, any(w, VARIABLES),
        1u << any(w, 4), label, label);
}

static void statement(struct writer *w)
{
    uint32_t label = w->labels++, kind = w->depth > 3 ? 9 : any(w, 10);
    if (kind < 2) {
        condition(w, label);
        add(w, "@%%q%u bra ELSE%u;\n", label, label);
        w->depth++;
        statements(w, 1 + any(w, 3));
        add(w, "bra.uni END%u;\nELSE%u:\n", label, label);
        statements(w, any(w, 3));
        w->depth--;
        add(w, "END%u:\n", label);
    } else if (kind < 4 && w->loops < 3) {
        add(w, "and.b32 %%l%u, %%v%u, 3;\nadd.u32 %%l%u, %%l%u, 1;\nLOOP%u:\n", label, any(w, VARIABLES),
            label, label, label);
        w->depth++;
        w->loops++;
        statements(w, 1 + any(w, 3));
        if (any(w, 2)) {
            condition(w, label);
            add(w, "@%%q%u bra OUT%u;\n", label, label);
            statements(w, 1);
        }
        w->loops--;
        w->depth--;
        /* a value that waits, with the lanes that leave, for those that go round again */
        uint32_t kept = any(w, VARIABLES), into = any(w, VARIABLES);
        add(w, "mul.lo.u32 %%t%u, %%v%u, 5;\nsub.u32 %%l%u, %%l%u, 1;\nsetp.ne.u32 %%q%u, %%l%u, 0;\n", label,
            kept, label, label, label, label);
        add(w, "@%%q%u bra LOOP%u;\nadd.u32 %%v%u, %%v%u, %%t%u;\nOUT%u:\n", label, label, into, into, label,
            label);
    } else if (kind == 4 && any(w, 4) == 0) {
        condition(w, label);
        add(w, "@%%q%u bra DONE;\n", label);
    } else {
        assignment(w);
    }
}

static void statements(struct writer *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        statement(w);
}

static void write_random(struct writer *w, uint64_t seed)
{
    *w = (struct writer){.random = seed};
    add(w,
        PTX_HEAD ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n, .param .u32 block)\n{\n"
                 ".reg .b32 %%v<9>, %%c<3000>, %%l<3000>, %%t<3000>, %%x;\n.reg .pred %%p<3>, %%q<3000>;\n"
                 ".reg .b64 %%rd<4>;\n"
                 /* the index is the same however threads are put into blocks; so is v1, the block of 64 */
                 "mov.u32 %%v1, %%ctaid.x;\nmov.u32 %%v2, %%ntid.x;\nmov.u32 %%v0, %%tid.x;\n"
                 "mad.lo.u32 %%v0, %%v1, %%v2, %%v0;\nld.param.u32 %%x, [block];\n"
                 "mul.lo.u32 %%v1, %%v1, %%v2;\ndiv.u32 %%v1, %%v1, %%x;\n"
                 "ld.param.u32 %%v2, [n];\nmul.wide.u32 %%rd1, %%v0, 4;\n"
                 "ld.param.u64 %%rd2, [out];\nadd.u64 %%rd2, %%rd2, %%rd1;\n");
    for (uint32_t i = 3; i < VARIABLES; i++)
        add(w, "mov.u32 %%v%u, %u;\n", i, any(w, 50));
    statements(w, 12);
    add(w, "DONE:\nmov.u32 %%x, 0;\n");
    for (uint32_t i = 0; i < VARIABLES; i++)
        add(w, "mad.lo.u32 %%x, %%x, 31, %%v%u;\n", i);
    add(w, "st.global.u32 [%%rd2], %%x;\nret;\n}\n");
}

enum { RANDOM_THREADS = 384, RANDOM_BLOCK = 192 };

START_TEST(random_programs)
{
    static struct writer w;
    static uint32_t reference[RANDOM_THREADS];
    for (uint64_t seed = 1; seed <= 400; seed++) {
        write_random(&w, seed);
        struct ptx_module *module = must_parse(w.text);
        uint64_t params[3] = {window_base, window_base + OUT_OFFSET, 3 | (uint64_t)RANDOM_BLOCK << 32};
        ck_assert_int_eq(run_kernel(module, RANDOM_THREADS, 1, params, NULL), 0);
        memcpy(reference, thread_words(), sizeof reference);
        memset(thread_words(), 0, sizeof reference);
        ck_assert_int_eq(run_kernel(module, RANDOM_THREADS / RANDOM_BLOCK, RANDOM_BLOCK, params, NULL), 0);
        for (uint32_t i = 0; i < RANDOM_THREADS; i++)
            ck_assert_msg(thread_words()[i] == reference[i],
                          "seed %" PRIu64 ", thread %u: %x instead of %x in\n%s", seed, i, thread_words()[i],
                          reference[i], w.text);
        ptx_module_free(module);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ptx random");
    TCase *t = tcase_create("random");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, random_programs);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
