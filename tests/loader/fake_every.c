/*
 * fake_every.c - a libcuda.so.1 that exports every function of the list, each a stub that notes its arguments
 * and returns a result of its own: what a hook that only forwards must hand through.
 *
 * Result of the function on line N of the list (from 0): 1000 + N, no error code that means anything.
 * fake_arguments: the six argument registers, then the first twelve stack slots of the last call.
 */
#include "shim/functions.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern unsigned long fake_arguments[18];
unsigned long fake_arguments[18];

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* clang-format off */
#define STUB(symbol, type)                                 \
    __asm__(".text\n"                                      \
            ".globl " #symbol "\n"                         \
            ".type " #symbol ", @function\n"               \
            #symbol ":\n"                                  \
            "endbr64\n"                                    \
            "movl $1000+" TEXT(__COUNTER__) ", %eax\n"     \
            "jmp fake_note\n"                              \
            ".size " #symbol ", . - " #symbol "\n");
/* clang-format on */
HBMSPILL_HOOKED(STUB)

__asm__(".text\n"
        "fake_note:\n"
        "movq fake_arguments@GOTPCREL(%rip), %r10\n"
        "movq %rdi, 0(%r10)\n"
        "movq %rsi, 8(%r10)\n"
        "movq %rdx, 16(%r10)\n"
        "movq %rcx, 24(%r10)\n"
        "movq %r8, 32(%r10)\n"
        "movq %r9, 40(%r10)\n"
        "movq 8(%rsp), %r11\n"
        "movq %r11, 48(%r10)\n"
        "movq 16(%rsp), %r11\n"
        "movq %r11, 56(%r10)\n"
        "movq 24(%rsp), %r11\n"
        "movq %r11, 64(%r10)\n"
        "movq 32(%rsp), %r11\n"
        "movq %r11, 72(%r10)\n"
        "movq 40(%rsp), %r11\n"
        "movq %r11, 80(%r10)\n"
        "movq 48(%rsp), %r11\n"
        "movq %r11, 88(%r10)\n"
        "movq 56(%rsp), %r11\n"
        "movq %r11, 96(%r10)\n"
        "movq 64(%rsp), %r11\n"
        "movq %r11, 104(%r10)\n"
        "movq 72(%rsp), %r11\n"
        "movq %r11, 112(%r10)\n"
        "movq 80(%rsp), %r11\n"
        "movq %r11, 120(%r10)\n"
        "movq 88(%rsp), %r11\n"
        "movq %r11, 128(%r10)\n"
        "movq 96(%rsp), %r11\n"
        "movq %r11, 136(%r10)\n"
        "ret\n");
