/*
 * ptx_harness.h - running single PTX instructions and small kernels in tests.
 *
 * An instruction is run on every combination of interesting operand values (and random ones) in three ways:
 * on all lanes at once, on every third lane (the others must keep what they had), and with operands that are
 * the same in all lanes. Each result is compared with a reference function of the test's own. Values travel
 * in 64-bit slots, zero extended.
 */
#ifndef TESTS_PTX_HARNESS_H
#define TESTS_PTX_HARNESS_H

#include "tests/synthetic/ptx.h"

#include <check.h>

/* a, b, c and the result by their bits */
typedef uint64_t reference_fn(uint64_t a, uint64_t b, uint64_t c);

struct op_case {
    /* with %d, %a, %b, %c (registers of the types below) and %p, %q (predicates, scratch) */
    const char *text;
    const char *d, *a, *b,
        *c; /* types: b8 ... f64, pred; NULL where not used. d is what is stored and compared */
    reference_fn *reference;
};

/* Names the case and the operands where a result differs. A NaN of d's type, f32 or f64, equals any other. */
void check_cases(const struct op_case *cases, size_t count);

#define PTX_HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

/* A device of its own: 1 MiB window whose second half is not there. */
enum { WINDOW_PAGES = 1 << 20 };
extern const uint64_t window_base;
extern uint64_t window_size;               /* WINDOW_PAGES; less: the kernel may not touch what is behind */
extern struct ptx_traffic *window_traffic; /* where run_kernel has what is touched counted, or NULL */
char *window(void);                        /* where the CPU reaches window_base */

struct ptx_module *must_parse(const char *text);
/* Runs the first kernel on grid x block threads; params as 64 bit values. */
int run_kernel(struct ptx_module *module, uint32_t grid, uint32_t block, const uint64_t *params,
               struct ptx_fault *fault);

/* Where kernels of tests find their input, and put their output: in the window's first half. */
enum { OUT_OFFSET = 256 * 1024, THREADS = 320 };
uint8_t *in_bytes(void);
uint8_t *out_bytes(void);
uint32_t *thread_words(void); /* out_bytes by threads */

__attribute__((format(printf, 1, 2))) struct ptx_module *parse_format(const char *format, ...);
/* The kernel gets the addresses of both. */
int run_in_out(struct ptx_module *module, uint32_t grid, uint32_t block, struct ptx_fault *fault);
/* Parses, runs and compares every thread's word. */
void check_threads(const char *text, uint32_t grid, uint32_t block, uint32_t (*expected)(uint32_t i));

/* The beginning of a kernel for parse_format; %i is the thread's index in the grid. */
#define PTX_START                                                                                            \
    PTX_HEAD                                                                                                 \
    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .pred %%p<9>;\n.reg .b16 %%h<9>;\n"         \
    ".reg .b32 %%r<20>, %%i, %%e, %%x, %%y;\n.reg .b64 %%rd<20>, %%in, %%out;\nld.param.u64 %%in, "          \
    "[in];\n"                                                                                                \
    "ld.param.u64 %%out, [out];\nmov.u32 %%x, %%ctaid.x;\nmov.u32 %%y, %%ntid.x;\nmov.u32 %%i, "             \
    "%%tid.x;\n"                                                                                             \
    "mad.lo.u32 %%i, %%x, %%y, %%i;\n"

/* A whole kernel for check_threads: %x is what each thread puts out. */
#define KERNEL(registers, body)                                                                              \
    PTX_HEAD                                                                                                 \
    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .pred %p<20>;\n.reg .b32 %r<40>, %i, "      \
    "%x, %y;\n"                                                                                              \
    ".reg .b64 %rd<20>, %in, %out;\n" registers                                                              \
    "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %x, %ctaid.x;\nmov.u32 %y, %ntid.x;\n"      \
    "mov.u32 %i, %tid.x;\nmad.lo.u32 %i, %x, %y, %i;\nmul.wide.u32 %rd0, %i, 4;\nadd.u64 %out, %out, "       \
    "%rd0;\n"                                                                                                \
    "add.u64 %in, %in, %rd0;\n" body "\nst.global.u32 [%out], %x;\nret;\n}\n"

/* Runs the suites once for each set of vector instructions that the machine has, with SCHEDULE=one for the
 * last of them; the process's exit status. */
int run_at_all_levels(Suite *(*make)(void));

double as_f64(uint64_t bits);
float as_f32(uint64_t bits);
uint64_t of_f64(double value);
uint64_t of_f32(float value);

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#endif
