/*
 * Lanes that see each other or themselves: shuffles, votes, special registers.
 */
#include "tests/unit/ptx_harness.h"

#include <string.h>

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
        check_threads(cases[k].text, 2, 192, cases[k].expected);
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
    check_threads(KERNEL("", THIRD "vote.sync.ballot.b32 %x, %p1, -1;"), 2, 160, ballot);
    check_threads(KERNEL("", THIRD ODD "vote.sync.ballot.b32 %x, %p1, 0xaaaaaaaa;\nEND:"), 2, 160,
                  ballot_of_odd);
    check_threads(KERNEL("", ODD "activemask.b32 %x;\nEND:"), 2, 160, members);
    check_threads(
        KERNEL(
            "",
            "rem.u32 %r1, %i, 128;\nsetp.lt.u32 %p1, %r1, 80;\nvote.sync.any.pred %p2, %p1, -1;\n"
            "vote.sync.all.pred %p3, %p1, -1;\nvote.sync.uni.pred %p4, %p1, -1;\nselp.u32 %x, 1, 0, %p2;\n"
            "selp.u32 %r2, 2, 0, %p3;\nselp.u32 %r3, 4, 0, %p4;\nor.b32 %x, %x, %r2;\nor.b32 %x, %x, %r3;"),
        2, 128, any_all);
    check_threads(KERNEL("", "rem.u32 %r1, %i, 5;\nmatch.any.sync.b32 %x, %r1, -1;"), 1, 96, matching);
}
END_TEST

/* Special registers of a grid with three dimensions. */
START_TEST(special_registers)
{
    const char *text = PTX_HEAD
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

static Suite *suite(void)
{
    Suite *s = suite_create("ptx warp");
    TCase *t = tcase_create("warp");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, shuffles);
    tcase_add_test(t, votes);
    tcase_add_test(t, special_registers);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
