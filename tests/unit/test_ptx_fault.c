/*
 * What a kernel must not touch: each fault says kernel, line, address and direction; signals of others pass.
 */
#include "tests/unit/ptx_harness.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

static void check_fault(const char *instruction, uint64_t offset, uint64_t address, bool write,
                        const char *reason)
{
    struct ptx_module *module = parse_format(
        PTX_HEAD ".visible .entry faulty(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %%rd<9>;\n.reg "
                 ".b32 %%r<9>;\n.reg .b16 %%h<5>;\n"
                 ".reg .pred %%p<3>;\n.shared .align 8 .b8 tile[64];\n.local .align 8 .b8 depot[32];\n"
                 "ld.param.u64 %%rd1, [in];\nmov.u32 %%r1, %%tid.x;\nmov.u64 %%rd2, %" PRIu64
                 ";\nadd.u64 %%rd1, %%rd1, %%rd2;\n"
                 "%s\nret;\n}\n",
        offset, instruction);
    struct ptx_fault fault;
    memset(&fault, 0xcc, sizeof fault);
    ck_assert_msg(run_in_out(module, 1, 96, &fault) == -EFAULT, "%s", instruction);
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
        struct ptx_module *module = parse_format(
            PTX_START
            "setp.ne.u32 %%p1, %%i, %d;\nmul.wide.u32 %%rd1, %%i, 4;\nsetp.eq.u32 %%p2, %%i, 50;\n"
            "selp.b64 %%rd2, 1048576, %%rd1, %%p2;\nadd.u64 %%rd3, %%in, %%rd2;\n@%%p1 ld.global.u32 "
            "%%r1, [%%rd3];\nret;\n}\n",
            some ? 7 : 5000);
        struct ptx_fault fault;
        ck_assert_int_eq(run_in_out(module, 1, 128, &fault), -EFAULT);
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
    struct ptx_module *module =
        parse_format(PTX_HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 "
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

static Suite *suite(void)
{
    Suite *s = suite_create("ptx fault");
    TCase *t = tcase_create("fault");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, faults);
    tcase_add_test(t, fault_of_one_lane);
    tcase_add_test(t, addresses_outside_the_window);
    tcase_add_test(t, foreign_signals);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_at_all_levels(suite);
}
