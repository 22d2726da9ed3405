/*
 * dlsym_entry.S - the exported dlsym, x86-64.
 *
 * The real dlsym finds its caller by its return address: RTLD_NEXT and RTLD_DEFAULT mean "after the caller's
 * object" and "in the caller's scope". A wrapper that calls it becomes that caller, and RTLD_NEXT then answers
 * with the symbol of whoever asked. So where the answer is not ours, the real dlsym is jumped to, with stack
 * and argument registers as they were: it returns to the caller, and we were never there.
 *
 * shim_dlsym_filter(handle, name, caller) is called first (shim/dlsym_filter.c) and gives a substitute or NULL.
 * At entry %rsp is 8 below a multiple of 16; two pushes and 8 bytes make it one at the call (System V ABI).
 */
#if !defined(__x86_64__)
#error "hbmspill's dlsym entry is written for x86-64"
#endif

#include <cet.h>

    .text
    .globl  dlsym
    .type   dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    _CET_ENDBR
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq    24(%rsp), %rdx
    call    shim_dlsym_filter
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    testq   %rax, %rax
    jz      1f
    ret
1:
    jmpq    *shim_dlsym_real(%rip)
    .cfi_endproc
    .size   dlsym, . - dlsym

    .section .note.GNU-stack, "", @progbits
