/*
 * Control flow of the PTX interpreter: divergence, loops, barriers, calls, and lanes that see each other.
 *
 * The random programs are run twice, as blocks of many threads and as blocks of one: a block of one has no
 * divergence, and everything in it is uniform, so it is the reference for whatever the interpreter does about
 * both.
 */
#include "tests/unit/ptx_harness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"
/* %i is the thread's index in the grid, %out where its result goes */
#define KERNEL(registers, body)                                                                              \
    HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .pred %p<20>;\n.reg .b32 %r<40>, %i, " \
         "%x, %y;\n"                                                                                         \
         ".reg .b64 %rd<20>, %in, %out;\n" registers                                                         \
         "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %x, %ctaid.x;\nmov.u32 %y, %ntid.x;\n" \
         "mov.u32 %i, %tid.x;\nmad.lo.u32 %i, %x, %y, %i;\nmul.wide.u32 %rd0, %i, 4;\nadd.u64 %out, %out, "  \
         "%rd0;\n"                                                                                           \
         "add.u64 %in, %in, %rd0;\n" body "\nst.global.u32 [%out], %x;\nret;\n}\n"

enum { OUT = 128 * 1024 };

static uint32_t *out(void)
{
    return (uint32_t *)(window() + OUT);
}

static void run(const char *text, uint32_t grid, uint32_t block)
{
    struct ptx_module *module = must_parse(text);
    uint64_t params[2] = {window_base, window_base + OUT};
    struct ptx_fault fault = {.line = 0};
    memset(out(), 0xee, 4 * (size_t)grid * block);
    int status = run_kernel(module, grid, block, params, &fault);
    ck_assert_msg(status == 0, "%d: line %u: %s at %" PRIx64, status, fault.line, fault.reason,
                  fault.address);
    ptx_module_free(module);
}

/* Runs a kernel and compares every thread's word. */
static void check(const char *text, uint32_t grid, uint32_t block, uint32_t (*expected)(uint32_t i))
{
    run(text, grid, block);
    for (uint32_t i = 0; i < grid * block; i++)
        ck_assert_msg(out()[i] == expected(i), "thread %u: %u instead of %u", i, out()[i], expected(i));
}

static uint32_t collatz(uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t v = i + 1; v != 1; v = v & 1 ? 3 * v + 1 : v / 2)
        n++;
    return n;
}

START_TEST(loops_of_different_length)
{
    check(KERNEL("", "add.u32 %r1, %i, 1;\nmov.u32 %x, 0;\nbra.uni CHECK;\n"
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
    check(KERNEL("",
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
    check(KERNEL("", "rem.u32 %r1, %i, 13;\nmov.u32 %r2, 0;\n"
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
    check(
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
    check(KERNEL("", "rem.u32 %r1, %i, 5;\nsetp.eq.u32 %p1, %r1, 2;\n@%p1 ret;\nand.b32 %r2, %i, 3;\n"
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
    check(
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
    check(KERNEL(".shared .align 4 .b8 tile[4096];\n",
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
    check(KERNEL(".shared .align 4 .b8 tile[1024];\n",
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
    check(
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
    check(KERNEL(".shared .align 4 .b8 tile[2048];\n",
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
    snprintf(kernel, room, "%s%s%s", HEAD, TRIANGLE, whole + strlen(HEAD));
    check(text, 2, 300, two_calls);
}
END_TEST

/* Lanes that see each other */

static uint32_t value(uint32_t i)
{
    return i * i + 17;
}
static uint32_t shuffled(uint32_t i, uint32_t lane_of, bool inside)
{
    uint32_t from = inside ? i / 32 * 32 + lane_of : i;
    return value(from) * 2 + inside;
}
static uint32_t down4(uint32_t i)
{
    return shuffled(i, i % 32 + 4, i % 32 + 4 <= 31);
}
static uint32_t up3(uint32_t i)
{
    return shuffled(i, i % 32 - 3, i % 32 >= 3);
}
static uint32_t butterfly9(uint32_t i)
{
    return shuffled(i, i % 32 ^ 9, true);
}
static uint32_t indexed(uint32_t i)
{
    return shuffled(i, i * 5 % 32, true);
}
/* segments of eight: c is clamp 7 with the segment mask 0x18 */
static uint32_t down_in_eight(uint32_t i)
{
    return shuffled(i, i % 32 + 3, i % 8 + 3 <= 7);
}
static uint32_t up_in_eight(uint32_t i)
{
    return shuffled(i, i % 32 - 2, i % 8 >= 2);
}
static uint32_t index_in_eight(uint32_t i)
{
    return shuffled(i, i % 32 / 8 * 8 + 5, true);
}

#define SHUFFLE(what)                                                                                        \
    KERNEL("", "mad.lo.u32 %r1, %i, %i, 17;\n" what "\nselp.u32 %r3, 1, 0, %p1;\nmad.lo.u32 %x, %r2, 2, "    \
               "%r3;")

START_TEST(shuffles)
{
    static const struct {
        const char *text;
        uint32_t (*expected)(uint32_t);
    } cases[] = {
        {SHUFFLE("shfl.sync.down.b32 %r2|%p1, %r1, 4, 31, -1;"), down4},
        {SHUFFLE("shfl.sync.up.b32 %r2|%p1, %r1, 3, 0, -1;"), up3},
        {SHUFFLE("shfl.sync.bfly.b32 %r2|%p1, %r1, 9, 31, -1;"), butterfly9},
        {SHUFFLE(
             "mul.lo.u32 %r4, %i, 5;\nand.b32 %r4, %r4, 31;\nshfl.sync.idx.b32 %r2|%p1, %r1, %r4, 31, -1;"),
         indexed},
        {SHUFFLE("shfl.sync.down.b32 %r2|%p1, %r1, 3, 0x1807, -1;"), down_in_eight},
        {SHUFFLE("shfl.sync.up.b32 %r2|%p1, %r1, 2, 0x1800, -1;"), up_in_eight},
        {SHUFFLE("shfl.sync.idx.b32 %r2|%p1, %r1, 5, 0x181f, -1;"), index_in_eight},
        /* the destination may be the source: all read first */
        {SHUFFLE("shfl.sync.down.b32 %r1|%p1, %r1, 4, 31, -1;\nmov.u32 %r2, %r1;"), down4},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        check(cases[k].text, 2, 192, cases[k].expected);
}
END_TEST

static bool odd_third(uint32_t i)
{
    return i % 3 == 1;
}
static uint32_t ballot(uint32_t i)
{
    uint32_t bits = 0;
    for (uint32_t k = 0; k < 32; k++)
        bits |= (uint32_t)odd_third(i / 32 * 32 + k) << k;
    return bits;
}
static uint32_t ballot_of_odd(uint32_t i)
{
    return i & 1 ? ballot(i) & 0xaaaaaaaa : 5;
}
static uint32_t members(uint32_t i)
{
    return i & 1 ? 0xaaaaaaaa : 5;
}
static uint32_t any_all(uint32_t i)
{
    /* all threads of the first warps are below 64, some of the third, none of the fourth */
    uint32_t warp = i % 128 / 32;
    return warp < 2 ? 7 : warp == 2 ? 1 : 4;
}
static uint32_t matching(uint32_t i)
{
    uint32_t bits = 0;
    for (uint32_t k = 0; k < 32; k++)
        bits |= (uint32_t)((i / 32 * 32 + k) % 5 == i % 5) << k;
    return bits;
}
#define THIRD "rem.u32 %r1, %i, 3;\nsetp.eq.u32 %p1, %r1, 1;\n"
#define ODD "and.b32 %r2, %i, 1;\nsetp.eq.u32 %p2, %r2, 0;\nmov.u32 %x, 5;\n@%p2 bra END;\n"

START_TEST(votes)
{
    check(KERNEL("", THIRD "vote.sync.ballot.b32 %x, %p1, -1;"), 2, 160, ballot);
    check(KERNEL("", THIRD ODD "vote.sync.ballot.b32 %x, %p1, 0xaaaaaaaa;\nEND:"), 2, 160, ballot_of_odd);
    check(KERNEL("", ODD "activemask.b32 %x;\nEND:"), 2, 160, members);
    check(KERNEL(
              "",
              "rem.u32 %r1, %i, 128;\nsetp.lt.u32 %p1, %r1, 80;\nvote.sync.any.pred %p2, %p1, -1;\n"
              "vote.sync.all.pred %p3, %p1, -1;\nvote.sync.uni.pred %p4, %p1, -1;\nselp.u32 %x, 1, 0, %p2;\n"
              "selp.u32 %r2, 2, 0, %p3;\nselp.u32 %r3, 4, 0, %p4;\nor.b32 %x, %x, %r2;\nor.b32 %x, %x, %r3;"),
          2, 128, any_all);
    check(KERNEL("", "rem.u32 %r1, %i, 5;\nmatch.any.sync.b32 %x, %r1, -1;"), 1, 96, matching);
}
END_TEST

/* Special registers of a grid with three dimensions. */
START_TEST(special_registers)
{
    const char *text = HEAD
        ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<30>;\n.reg .b64 %rd<5>;\nld.param.u64 %rd1, "
        "[out];\n"
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmov.u32 %r3, %tid.z;\nmov.u32 %r4, %ctaid.x;\n"
        "mov.u32 %r5, %ctaid.y;\nmov.u32 %r6, %ctaid.z;\nmov.u32 %r7, %ntid.x;\nmov.u32 %r8, %ntid.y;\n"
        "mov.u32 %r9, %nctaid.x;\nmov.u32 %r10, %nctaid.y;\nmov.u32 %r11, %laneid;\nmov.u32 %r12, %warpid;\n"
        "mov.u32 %r20, %ntid.z;\nmad.lo.u32 %r13, %r6, %r10, %r5;\nmad.lo.u32 %r13, %r13, %r9, %r4;\n"
        "mad.lo.u32 %r13, %r13, %r20, %r3;\nmad.lo.u32 %r13, %r13, %r8, %r2;\nmad.lo.u32 %r13, %r13, %r7, "
        "%r1;\n"
        "mul.wide.u32 %rd2, %r13, 8;\nadd.u64 %rd1, %rd1, %rd2;\nshl.b32 %r14, %r12, 8;\nor.b32 %r14, %r14, "
        "%r11;\n"
        "mov.u32 %r15, %lanemask_lt;\nst.global.v2.u32 [%rd1], {%r14, %r15};\nret;\n}\n";
    struct ptx_module *module = must_parse(text);
    const struct ptx_kernel *kernel;
    ptx_module_kernels(module, &kernel);
    uint64_t param = window_base;
    struct ptx_memory memory = {.window_base = window_base,
                                .window_size = WINDOW_PAGES,
                                .window_delta = (int64_t)((uint64_t)(uintptr_t)window() - window_base)};
    struct ptx_launch launch = {
        .kernel = kernel, .grid = {2, 3, 2}, .block = {6, 5, 7}, .params = &param, .memory = &memory};
    uint64_t instructions = 0;
    /* in two parts, as a driver with two threads would */
    ck_assert_int_eq(ptx_run(&launch, 5, 12, NULL, &instructions), 0);
    ck_assert_int_eq(ptx_run(&launch, 0, 5, NULL, &instructions), 0);
    ck_assert_uint_eq(instructions % (12 * 210), 0);
    const uint32_t *got = (const uint32_t *)window();
    for (uint32_t i = 0; i < 12 * 210; i++) {
        uint32_t thread = i % 210, lane = thread % 32;
        ck_assert_uint_eq(got[2 * i], thread / 32 << 8 | lane);
        ck_assert_uint_eq(got[2 * i + 1], (1u << lane) - 1);
    }
    ptx_module_free(module);
}
END_TEST

/* Random programs */

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
    add(w, HEAD ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n, .param .u32 block)\n{\n"
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
        uint64_t params[3] = {window_base, window_base + OUT, 3 | (uint64_t)RANDOM_BLOCK << 32};
        ck_assert_int_eq(run_kernel(module, RANDOM_THREADS, 1, params, NULL), 0);
        memcpy(reference, out(), sizeof reference);
        memset(out(), 0, sizeof reference);
        ck_assert_int_eq(run_kernel(module, RANDOM_THREADS / RANDOM_BLOCK, RANDOM_BLOCK, params, NULL), 0);
        for (uint32_t i = 0; i < RANDOM_THREADS; i++)
            ck_assert_msg(out()[i] == reference[i], "seed %" PRIu64 ", thread %u: %x instead of %x in\n%s",
                          seed, i, out()[i], reference[i], w.text);
        ptx_module_free(module);
    }
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
    tcase_add_test(t, shuffles);
    tcase_add_test(t, votes);
    tcase_add_test(t, special_registers);
    tcase_add_test(t, random_programs);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
