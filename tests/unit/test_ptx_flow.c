/*
 * Control flow of the PTX interpreter: divergence, loops, barriers, calls.
 */
#include "tests/unit/ptx_harness.h"

#include <stdio.h>
#include <string.h>

static uint32_t collatz(uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t v = i + 1; v != 1; v = v & 1 ? 3 * v + 1 : v / 2)
        n++;
    return n;
}

START_TEST(loops_of_different_length)
{
    check_threads(
        KERNEL("", "add.u32 %r1, %i, 1;\nmov.u32 %x, 0;\nbra.uni CHECK;\n"
                   "LOOP: and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra EVEN;\n"
                   "mad.lo.u32 %r1, %r1, 3, 1;\nbra.uni NEXT;\nEVEN: shr.u32 %r1, %r1, 1;\nNEXT: add.u32 "
                   "%x, %x, 1;\n"
                   "CHECK: setp.ne.u32 %p2, %r1, 1;\n@%p2 bra LOOP;"),
        3, 1000, collatz);
}
END_TEST

static uint32_t nested(uint32_t i)
{
    uint32_t x = 0;
    for (uint32_t a = 0; a < i % 7; a++)
        for (uint32_t b = 0; b <= a + i % 3; b++) {
            if ((a + b) % 3 == 1)
                continue;
            if (x > 200)
                break;
            x += a * 10 + b;
        }
    return x;
}

START_TEST(nested_loops)
{
    check_threads(
        KERNEL("",
               "rem.u32 %r1, %i, 7;\nrem.u32 %r2, %i, 3;\nmov.u32 %x, 0;\nmov.u32 %r3, 0;\n"
               "OUTER: setp.ge.u32 %p1, %r3, %r1;\n@%p1 bra END;\nmov.u32 %r4, 0;\nadd.u32 %r5, %r3, %r2;\n"
               "INNER: setp.gt.u32 %p2, %r4, %r5;\n@%p2 bra AFTER;\nadd.u32 %r6, %r3, %r4;\nrem.u32 %r6, "
               "%r6, 3;\n"
               "setp.eq.u32 %p3, %r6, 1;\n@%p3 bra NEXT;\nsetp.gt.u32 %p4, %x, 200;\n@%p4 bra AFTER;\n"
               "mad.lo.u32 %r7, %r3, 10, %r4;\nadd.u32 %x, %x, %r7;\nNEXT: add.u32 %r4, %r4, 1;\nbra.uni "
               "INNER;\n"
               "AFTER: add.u32 %r3, %r3, 1;\nbra.uni OUTER;\nEND:"),
        2, 384, nested);
}
END_TEST

/* A counter that is the same in all lanes that still run, but not in those that have left. */
static uint32_t left_at(uint32_t i)
{
    return (i % 13) * 100 + i % 13 + 1;
}

START_TEST(counter_of_a_divergent_loop)
{
    check_threads(KERNEL("", "rem.u32 %r1, %i, 13;\nmov.u32 %r2, 0;\n"
                             "LOOP: mul.lo.u32 %x, %r2, 100;\nsetp.eq.u32 %p1, %r2, %r1;\nadd.u32 %r2, %r2, "
                             "1;\n@!%p1 bra LOOP;\n"
                             "add.u32 %x, %x, %r2;"),
                  1, 512, left_at);
}
END_TEST

/* Blocks out of order: the join lies before one of the branches. */
static uint32_t out_of_order(uint32_t i)
{
    uint32_t v = 0;
    for (uint32_t k = 0; k < 4; k++)
        v = (i + k) % 3 == 0 ? v * 5 + 7 + k : v + i;
    return v;
}

START_TEST(join_before_the_branch)
{
    check_threads(
        KERNEL("",
               "mov.u32 %x, 0;\nmov.u32 %r1, 0;\nbra.uni TOP;\n"
               "JOIN: add.u32 %r1, %r1, 1;\nsetp.eq.u32 %p2, %r1, 4;\n@%p2 bra END;\n"
               "TOP: add.u32 %r2, %i, %r1;\nrem.u32 %r2, %r2, 3;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra FAR;\n"
               "add.u32 %x, %x, %i;\nbra.uni JOIN;\n"
               "FAR: mul.lo.u32 %x, %x, 5;\nadd.u32 %r3, %r1, 7;\nadd.u32 %x, %x, %r3;\nbra.uni JOIN;\nEND:"),
        2, 200, out_of_order);
}
END_TEST

static uint32_t early(uint32_t i)
{
    return i % 5 == 2 ? 0xeeeeeeee : i % 4 == 1 ? i * 2 : i * 3;
}

START_TEST(threads_that_end_early)
{
    check_threads(
        KERNEL("", "rem.u32 %r1, %i, 5;\nsetp.eq.u32 %p1, %r1, 2;\n@%p1 ret;\nand.b32 %r2, %i, 3;\n"
                   "setp.eq.u32 %p2, %r2, 1;\nmul.lo.u32 %x, %i, 3;\n@!%p2 bra STORE;\nshl.b32 %x, %i, 1;\n"
                   "st.global.u32 [%out], %x;\nexit;\nSTORE:"),
        2, 333, early);
}
END_TEST

static uint32_t by_table(uint32_t i)
{
    static const uint32_t of[] = {11, 22, 33, 99};
    return of[i % 5 < 3 ? i % 5 : 3];
}

START_TEST(indexed_branch)
{
    check_threads(
        KERNEL("",
               "T: .branchtargets A, B, C;\nrem.u32 %r1, %i, 5;\nmov.u32 %x, 99;\nsetp.gt.u32 %p1, %r1, 2;\n"
               "@%p1 bra END;\nbrx.idx %r1, T;\nA: mov.u32 %x, 11;\nbra END;\nB: mov.u32 %x, 22;\nbra END;\n"
               "C: mov.u32 %x, 33;\nEND:"),
        1, 256, by_table);
}
END_TEST

/* Barriers */

static uint32_t block_sum(uint32_t i)
{
    uint32_t first = i / 1024 * 1024, sum = 0;
    for (uint32_t k = 0; k < 1024; k++)
        sum += (first + k) * (first + k);
    return sum;
}

START_TEST(reduction_over_shared_memory)
{
    check_threads(
        KERNEL(".shared .align 4 .b8 tile[4096];\n",
               "mov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, tile;\nadd.u32 %r2, %r2, %r3;\n"
               "mul.lo.u32 %r4, %i, %i;\nst.shared.u32 [%r2], %r4;\nmov.u32 %r5, 512;\n"
               "LOOP: bar.sync 0;\nsetp.ge.u32 %p1, %r1, %r5;\n@%p1 bra SKIP;\nshl.b32 %r6, %r5, 2;\n"
               "add.u32 %r6, %r6, %r2;\nld.shared.u32 %r7, [%r6];\nld.shared.u32 %r8, [%r2];\nadd.u32 %r7, "
               "%r7, %r8;\n"
               "st.shared.u32 [%r2], %r7;\nSKIP: shr.u32 %r5, %r5, 1;\nsetp.ne.u32 %p2, %r5, 0;\n@%p2 bra "
               "LOOP;\n"
               "bar.sync 0;\nld.shared.u32 %x, [tile];"),
        3, 1024, block_sum);
}
END_TEST

/* Lanes of one chunk reach the barrier from two places; what they had in registers is still there behind it.
 */
static uint32_t both_sides(uint32_t i)
{
    uint32_t other = i / 256 * 256 + 255 - i % 256;
    return (other % 2 ? other * 3 : other + 1000) + (i % 2 ? i * 3 : i + 1000) * 7;
}

START_TEST(barrier_behind_divergence)
{
    check_threads(
        KERNEL(".shared .align 4 .b8 tile[1024];\n",
               "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 4;\nmov.u64 %rd2, tile;\nadd.u64 %rd1, %rd1, "
               "%rd2;\n"
               "and.b32 %r2, %i, 1;\nsetp.eq.u32 %p1, %r2, 1;\n@%p1 bra ODD;\nadd.u32 %r3, %i, 1000;\n"
               "st.shared.u32 [%rd1], %r3;\nbarrier.sync 0;\nbra.uni GO;\nODD: mul.lo.u32 %r3, %i, 3;\n"
               "st.shared.u32 [%rd1], %r3;\nbarrier.sync 0;\nGO: sub.u32 %r4, 255, %r1;\nmul.wide.u32 "
               "%rd3, %r4, 4;\n"
               "add.u64 %rd3, %rd3, %rd2;\nld.shared.u32 %x, [%rd3];\nmad.lo.u32 %x, %r3, 7, %x;"),
        2, 256, both_sides);
}
END_TEST

/*
 * Warps of one chunk meet at two different barriers: the even ones are done with the common part before the
 * odd ones begin it. What a warp read there must not change when the others read it.
 */
static uint32_t each_its_own(uint32_t i)
{
    return (i / 32 % 2 ? 1 : 0) * 1000 + i;
}

START_TEST(barrier_in_one_arm)
{
    *(uint32_t *)window() = 0;
    check_threads(
        KERNEL(
            "",
            "ld.param.u64 %rd1, [in];\nshr.u32 %r1, %i, 5;\nand.b32 %r1, %r1, 1;\nsetp.eq.u32 %p1, %r1, 0;\n"
            "@%p1 bra JOIN;\nbar.sync 0;\nJOIN: ld.global.u32 %r2, [%rd1];\nadd.u32 %r3, %r2, 1;\n"
            "st.global.u32 [%rd1], %r3;\n@%p1 bar.sync 0;\nmad.lo.u32 %x, %r2, 1000, %i;"),
        1, 128, each_its_own);
}
END_TEST

static uint32_t with_the_dead(uint32_t i)
{
    return i % 300 >= 100 ? 0xeeeeeeee : i / 300 * 300 + (i % 300 + 1) % 100;
}

START_TEST(barrier_without_those_that_ended)
{
    check_threads(
        KERNEL(".shared .align 4 .b8 tile[2048];\n",
               "mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 100;\n@%p1 ret;\nmul.wide.u32 %rd1, %r1, 4;\n"
               "mov.u64 %rd2, tile;\nadd.u64 %rd1, %rd1, %rd2;\nst.shared.u32 [%rd1], %i;\nbar.sync 0;\n"
               "add.u32 %r2, %r1, 1;\nrem.u32 %r2, %r2, 100;\nmul.wide.u32 %rd3, %r2, 4;\nadd.u64 %rd3, "
               "%rd3, %rd2;\n"
               "ld.shared.u32 %x, [%rd3];"),
        2, 300, with_the_dead);
}
END_TEST

/* Calls */

#define TRIANGLE                                                                                             \
    ".func (.param .b32 result) triangle(.param .b32 n)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<5>;\n"           \
    "ld.param.b32 %r1, [n];\nmov.b32 %r2, 0;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra DONE;\n"                    \
    "LOOP: add.u32 %r2, %r2, %r1;\nsub.u32 %r1, %r1, 1;\nsetp.gt.u32 %p2, %r2, 100;\n@%p2 bra BIG;\n"        \
    "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra LOOP;\nDONE: st.param.b32 [result], %r2;\nret;\n"                    \
    "BIG: st.param.b32 [result], 777;\nret;\n}\n"

static uint32_t triangle(uint32_t n)
{
    uint32_t sum = 0;
    for (; n; n--)
        if ((sum += n) > 100)
            return 777;
    return sum;
}
static uint32_t two_calls(uint32_t i)
{
    return triangle(i % 17) + (i % 3 == 0 ? 5 : triangle(i % 4) * 1000);
}

START_TEST(calls)
{
    char text[8192], *kernel = text;
    size_t room = sizeof text;
    /* the function goes between the header and the kernel */
    const char *whole = KERNEL(
        "",
        "rem.u32 %r1, %i, 17;\n{ .param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\n"
        "call.uni (b), triangle, (a);\nld.param.b32 %x, [b];\n}\nand.b32 %r2, %i, 3;\nrem.u32 %r3, %i, 3;\n"
        "setp.eq.u32 %p1, %r3, 0;\nmov.u32 %r4, 5;\n{ .param .b32 a;\n.param .b32 b;\nst.param.b32 [a], "
        "%r2;\n"
        "@!%p1 call (b), triangle, (a);\n@!%p1 ld.param.b32 %r4, [b];\n@!%p1 mul.lo.u32 %r4, %r4, 1000;\n}\n"
        "add.u32 %x, %x, %r4;");
    snprintf(kernel, room, "%s%s%s", PTX_HEAD, TRIANGLE, whole + strlen(PTX_HEAD));
    check_threads(text, 2, 300, two_calls);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ptx flow");
    TCase *t = tcase_create("flow");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, loops_of_different_length);
    tcase_add_test(t, nested_loops);
    tcase_add_test(t, counter_of_a_divergent_loop);
    tcase_add_test(t, join_before_the_branch);
    tcase_add_test(t, threads_that_end_early);
    tcase_add_test(t, indexed_branch);
    tcase_add_test(t, reduction_over_shared_memory);
    tcase_add_test(t, barrier_behind_divergence);
    tcase_add_test(t, barrier_in_one_arm);
    tcase_add_test(t, barrier_without_those_that_ended);
    tcase_add_test(t, calls);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
