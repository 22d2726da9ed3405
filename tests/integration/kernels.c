/*
 * kernels.c - the kernels of the integration tests, as PTX text.
 *
 * All but `chase' touch only what their parameters point into.
 */
#include "tests/integration/job.h"

/* i = %ctaid.x * 256 + %tid.x in %r1; the thread ends where i >= %r2. */
#define INDEX                                                                                                \
    "mov.u32 %r3, %tid.x;\n"                                                                                 \
    "mov.u32 %r4, %ctaid.x;\n"                                                                               \
    "mad.lo.s32 %r1, %r4, 256, %r3;\n"                                                                       \
    "setp.ge.u32 %p1, %r1, %r2;\n"                                                                           \
    "@%p1 bra END;\n"                                                                                        \
    "mul.wide.u32 %rd9, %r1, 4;\n"

#define REGISTERS                                                                                            \
    ".reg .pred %p<4>;\n"                                                                                    \
    ".reg .b32 %r<16>;\n"                                                                                    \
    ".reg .b64 %rd<16>;\n"

const char job_ptx[] =
    ".version 7.0\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry fill(.param .u64 at, .param .u32 count, .param .u32 seed)\n"
    ".reqntid 256, 1, 1\n"
    "{\n" REGISTERS "ld.param.u64 %rd1, [at];\n"
    "ld.param.u32 %r2, [count];\n"
    "ld.param.u32 %r5, [seed];\n" INDEX "mad.lo.s32 %r6, %r5, 977, %r1;\n"
    "mul.lo.s32 %r7, %r6, -1640531535;\n"
    "shr.u32 %r8, %r7, 15;\n"
    "xor.b32 %r9, %r7, %r8;\n"
    "add.s64 %rd2, %rd1, %rd9;\n"
    "st.global.u32 [%rd2], %r9;\n"
    "END:\n"
    "ret;\n"
    "}\n"
    ".visible .entry add(.param .u64 to, .param .u64 from, .param .u32 count)\n"
    ".reqntid 256, 1, 1\n"
    "{\n" REGISTERS "ld.param.u64 %rd1, [to];\n"
    "ld.param.u64 %rd2, [from];\n"
    "ld.param.u32 %r2, [count];\n" INDEX "add.s64 %rd3, %rd1, %rd9;\n"
    "add.s64 %rd4, %rd2, %rd9;\n"
    "ld.global.u32 %r5, [%rd3];\n"
    "ld.global.u32 %r6, [%rd4];\n"
    "add.s32 %r7, %r5, %r6;\n"
    "st.global.u32 [%rd3], %r7;\n"
    "END:\n"
    "ret;\n"
    "}\n"
    ".visible .entry copy(.param .u64 to, .param .u64 from, .param .u32 count)\n"
    ".reqntid 256, 1, 1\n"
    "{\n" REGISTERS "ld.param.u64 %rd1, [to];\n"
    "ld.param.u64 %rd2, [from];\n"
    "ld.param.u32 %r2, [count];\n" INDEX "add.s64 %rd3, %rd1, %rd9;\n"
    "add.s64 %rd4, %rd2, %rd9;\n"
    "ld.global.u32 %r5, [%rd4];\n"
    "st.global.u32 [%rd3], %r5;\n"
    "END:\n"
    "ret;\n"
    "}\n"
    /* struct { uint64_t to; uint32_t count, pad; uint64_t from; } by value: to[i] += from[i] */
    ".visible .entry add_struct(.param .align 8 .b8 by_value[24])\n"
    ".reqntid 256, 1, 1\n"
    "{\n" REGISTERS "ld.param.u64 %rd1, [by_value];\n"
    "ld.param.u64 %rd2, [by_value+16];\n"
    "ld.param.u32 %r2, [by_value+8];\n" INDEX "add.s64 %rd3, %rd1, %rd9;\n"
    "add.s64 %rd4, %rd2, %rd9;\n"
    "ld.global.u32 %r5, [%rd3];\n"
    "ld.global.u32 %r6, [%rd4];\n"
    "add.s32 %r7, %r5, %r6;\n"
    "st.global.u32 [%rd3], %r7;\n"
    "END:\n"
    "ret;\n"
    "}\n"
    /* sum[0] += the words at `at', by atomics */
    ".visible .entry checksum(.param .u64 sum, .param .u64 at, .param .u32 count)\n"
    ".reqntid 256, 1, 1\n"
    "{\n" REGISTERS "ld.param.u64 %rd1, [sum];\n"
    "ld.param.u64 %rd2, [at];\n"
    "ld.param.u32 %r2, [count];\n" INDEX "add.s64 %rd4, %rd2, %rd9;\n"
    "ld.global.u32 %r5, [%rd4];\n"
    "atom.global.add.u32 %r6, [%rd1], %r5;\n"
    "END:\n"
    "ret;\n"
    "}\n"
    /* table: `tables' addresses in device memory; to[i] += the word i behind each of them */
    ".visible .entry chase(.param .u64 to, .param .u64 table, .param .u32 tables, .param .u32 count)\n"
    ".reqntid 256, 1, 1\n"
    "{\n" REGISTERS "ld.param.u64 %rd1, [to];\n"
    "ld.param.u64 %rd2, [table];\n"
    "ld.param.u32 %r5, [tables];\n"
    "ld.param.u32 %r2, [count];\n" INDEX "add.s64 %rd3, %rd1, %rd9;\n"
    "ld.global.u32 %r6, [%rd3];\n"
    "NEXT:\n"
    "setp.eq.u32 %p2, %r5, 0;\n"
    "@%p2 bra STORE;\n"
    "ld.global.u64 %rd4, [%rd2];\n"
    "add.s64 %rd5, %rd4, %rd9;\n"
    "ld.global.u32 %r7, [%rd5];\n"
    "add.s32 %r6, %r6, %r7;\n"
    "add.s64 %rd2, %rd2, 8;\n"
    "add.s32 %r5, %r5, -1;\n"
    "bra NEXT;\n"
    "STORE:\n"
    "st.global.u32 [%rd3], %r6;\n"
    "END:\n"
    "ret;\n"
    "}\n";
