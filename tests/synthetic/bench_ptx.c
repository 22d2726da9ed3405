/*
 * bench_ptx.c - how many lane-instructions a second the PTX interpreter runs on one core.
 *
 * Two kernels as XLA's code generator writes them for a GPU of compute capability 7.5: a fused elementwise
 * update (Adam) and the loop of a matrix product, one thread an element of the result. Results are checked
 * before they are timed.
 */
#include "ptx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

enum { SIZE = 512, ELEMENTS = SIZE * SIZE, WINDOW = 16 << 20 };

/* b' = 0.9 b + 0.1 a; c' = 0.999 c + 0.001 a a; out = b' / (sqrt(c') + eps); four elements a thread */
static void write_elementwise(char *text, size_t size)
{
    int n =
        snprintf(text, size,
                 ".version 8.0\n.target sm_75\n.address_size 64\n"
                 ".visible .entry elementwise(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)\n"
                 ".reqntid 128, 1, 1\n{\n.reg .b32 %%r<200>;\n.reg .b64 %%rd<40>;\n"
                 "ld.param.b64 %%rd11, [a];\ncvta.to.global.u64 %%rd1, %%rd11;\n"
                 "ld.param.b64 %%rd12, [b];\ncvta.to.global.u64 %%rd2, %%rd12;\n"
                 "ld.param.b64 %%rd13, [c];\ncvta.to.global.u64 %%rd3, %%rd13;\n"
                 "ld.param.b64 %%rd14, [out];\ncvta.to.global.u64 %%rd4, %%rd14;\n"
                 "mov.u32 %%r1, %%ctaid.x;\nmov.u32 %%r2, %%tid.x;\nshl.b32 %%r3, %%r2, 2;\n"
                 "shl.b32 %%r4, %%r1, 9;\nor.b32 %%r5, %%r3, %%r4;\nmul.wide.u32 %%rd5, %%r5, 4;\n"
                 "add.s64 %%rd6, %%rd1, %%rd5;\nadd.s64 %%rd7, %%rd2, %%rd5;\n"
                 "add.s64 %%rd8, %%rd3, %%rd5;\nadd.s64 %%rd9, %%rd4, %%rd5;\n"
                 "ld.global.nc.v4.b32 {%%r10, %%r11, %%r12, %%r13}, [%%rd6];\n"
                 "ld.global.v4.b32 {%%r20, %%r21, %%r22, %%r23}, [%%rd7];\n"
                 "ld.global.v4.b32 {%%r30, %%r31, %%r32, %%r33}, [%%rd8];\n");
    for (int i = 0; i < 4; i++)
        n += snprintf(text + n, size - (size_t)n,
                      "mul.rn.f32 %%r%d, %%r%d, 0f3F666666;\nmul.rn.f32 %%r%d, %%r%d, 0f3DCCCCCD;\n"
                      "add.rn.f32 %%r%d, %%r%d, %%r%d;\nmul.rn.f32 %%r%d, %%r%d, 0f3F7FBE77;\n"
                      "mul.rn.f32 %%r%d, %%r%d, %%r%d;\nmul.rn.f32 %%r%d, %%r%d, 0f3A83126F;\n"
                      "add.rn.f32 %%r%d, %%r%d, %%r%d;\nsqrt.approx.f32 %%r%d, %%r%d;\n"
                      "add.rn.f32 %%r%d, %%r%d, 0f322BCC77;\ndiv.full.f32 %%r%d, %%r%d, %%r%d;\n",
                      40 + i, 20 + i, 50 + i, 10 + i, 60 + i, 40 + i, 50 + i, 70 + i, 30 + i, 80 + i, 10 + i,
                      10 + i, 90 + i, 80 + i, 100 + i, 70 + i, 90 + i, 110 + i, 100 + i, 120 + i, 110 + i,
                      130 + i, 60 + i, 120 + i);
    snprintf(text + n, size - (size_t)n,
             "st.global.v4.b32 [%%rd7], {%%r60, %%r61, %%r62, %%r63};\n"
             "st.global.v4.b32 [%%rd8], {%%r100, %%r101, %%r102, %%r103};\n"
             "st.global.v4.b32 [%%rd9], {%%r130, %%r131, %%r132, %%r133};\nret;\n}\n");
}

/* out = a b, SIZE x SIZE, the loop over k unrolled by 32 */
static void write_matmul(char *text, size_t size)
{
    int n =
        snprintf(text, size,
                 ".version 8.0\n.target sm_75\n.address_size 64\n"
                 ".visible .entry matmul(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)\n"
                 ".reqntid 128, 1, 1\n{\n.reg .pred %%p<4>;\n.reg .b32 %%r<300>;\n.reg .b64 %%rd<200>;\n"
                 "ld.param.b64 %%rd4, [a];\ncvta.to.global.u64 %%rd1, %%rd4;\n"
                 "ld.param.b64 %%rd5, [b];\ncvta.to.global.u64 %%rd2, %%rd5;\n"
                 "ld.param.b64 %%rd6, [out];\ncvta.to.global.u64 %%rd3, %%rd6;\n"
                 "mov.u32 %%r5, %%ctaid.x;\nmov.u32 %%r1, %%tid.x;\nshl.b32 %%r2, %%r5, 7;\n"
                 "and.b32 %%r3, %%r2, 384;\nor.b32 %%r4, %%r3, %%r1;\nshr.u32 %%r6, %%r5, 2;\n"
                 "shl.b32 %%r7, %%r6, 9;\nmov.b32 %%r8, 0;\nmov.b32 %%r9, 0f00000000;\n$L__BB0_1:\n"
                 "or.b32 %%r10, %%r8, %%r7;\nmul.wide.u32 %%rd7, %%r10, 4;\nadd.s64 %%rd8, %%rd1, %%rd7;\n"
                 "shl.b32 %%r11, %%r8, 9;\nor.b32 %%r12, %%r11, %%r4;\n");
    for (int k = 0; k < 32; k++) {
        int r = 20 + 8 * k, rd = 10 + 2 * k;
        if (k % 4 == 0)
            n += snprintf(text + n, size - (size_t)n,
                          "ld.global.nc.v4.b32 {%%r%d, %%r%d, %%r%d, %%r%d}, [%%rd8+%d];\n", r, r + 8, r + 16,
                          r + 24, 4 * k);
        n += snprintf(
            text + n, size - (size_t)n,
            "or.b32 %%r%d, %%r12, %d;\nmul.wide.u32 %%rd%d, %%r%d, 4;\nadd.s64 %%rd%d, %%rd2, %%rd%d;\n"
            "ld.global.nc.b32 %%r%d, [%%rd%d];\nmul.rn.f32 %%r%d, %%r%d, %%r%d;\n"
            "add.rn.f32 %%r9, %%r9, %%r%d;\n",
            r + 1, k * SIZE, rd, r + 1, rd + 1, rd, r + 2, rd + 1, r + 3, r, r + 2, r + 3);
    }
    snprintf(text + n, size - (size_t)n,
             "add.s32 %%r8, %%r8, 32;\nsetp.lt.u32 %%p1, %%r8, %d;\n@%%p1 bra $L__BB0_1;\n"
             "or.b32 %%r13, %%r2, %%r1;\nmul.wide.u32 %%rd100, %%r13, 4;\nadd.s64 %%rd101, %%rd3, %%rd100;\n"
             "st.global.b32 [%%rd101], %%r9;\nret;\n}\n",
             SIZE);
}

/* CPU time: other jobs on the machine do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct arrays {
    float *a, *b, *c, *out;
};

static bool elementwise_right(const struct arrays *after, const struct arrays *before)
{
    for (int i = 0; i < ELEMENTS; i++) {
        float b = 0.9f * before->b[i] + 0.1f * before->a[i];
        float c = 0.999f * before->c[i] + (before->a[i] * before->a[i]) * 0.001f;
        float out = b / (sqrtf(c) + 1e-8f);
        if (after->b[i] != b || after->c[i] != c || after->out[i] != out)
            return false;
    }
    return true;
}

static bool matmul_right(const struct arrays *after, const struct arrays *before)
{
    for (int i = 0; i < ELEMENTS; i += 1237) {
        float sum = 0;
        for (int k = 0; k < SIZE; k++)
            sum += before->a[i / SIZE * SIZE + k] * before->b[k * SIZE + i % SIZE];
        if (after->out[i] != sum)
            return false;
    }
    return true;
}

static struct arrays arrays_in(float *memory)
{
    return (struct arrays){memory, memory + ELEMENTS, memory + 2 * ELEMENTS, memory + 3 * ELEMENTS};
}

struct bench {
    const char *name;
    void (*write)(char *, size_t);
    bool (*right)(const struct arrays *, const struct arrays *);
    uint32_t grid;
    double seconds;
};

static _Alignas(4096) float memory[WINDOW / sizeof(float)];
static float saved[4 * ELEMENTS];

/* False, with a message, where the kernel does not load, run or compute what it should. */
static bool measure(const struct bench *bench, struct ptx_module *module)
{
    const uint64_t base = 0x700000000000;
    struct arrays after = arrays_in(memory), before = arrays_in(saved);
    for (int i = 0; i < 4 * ELEMENTS; i++)
        saved[i] = (float)(i % 1009 * 7919 % 1009) / 1009.0f;
    memcpy(memory, saved, sizeof saved);
    uint64_t params[4], instructions = 0;
    for (int i = 0; i < 4; i++)
        params[i] = base + (uint64_t)i * ELEMENTS * sizeof(float);
    struct ptx_memory window = {.window_base = base,
                                .window_size = WINDOW,
                                .window_delta = (int64_t)((uint64_t)(uintptr_t)memory - base)};
    struct ptx_launch launch = {.kernel = ptx_module_find_kernel(module, bench->name),
                                .grid = {bench->grid, 1, 1},
                                .block = {128, 1, 1},
                                .params = params,
                                .memory = &window};
    struct ptx_fault fault;
    int status = ptx_run(&launch, 0, bench->grid, &fault, NULL);
    if (status || !bench->right(&after, &before)) {
        fprintf(stderr, "%s: wrong result (%d)\n", bench->name, status);
        return false;
    }
    double start = now(), elapsed;
    do {
        if (ptx_run(&launch, 0, bench->grid, &fault, &instructions))
            return false;
        elapsed = now() - start;
    } while (elapsed < bench->seconds);
    printf("%-12s %6.2f G lane-instructions/s on one core\n", bench->name,
           (double)instructions / elapsed * 1e-9);
    return true;
}

int main(void)
{
    static const struct bench benches[] = {
        {"elementwise", write_elementwise, elementwise_right, ELEMENTS / 512, 1.0},
        {"matmul", write_matmul, matmul_right, ELEMENTS / 128, 2.0},
    };
    static char text[65536];
    bool good = true;
    ptx_install_fault_handler();
    for (size_t k = 0; k < COUNT_OF(benches) && good; k++) {
        struct ptx_module *module;
        char error[200];
        benches[k].write(text, sizeof text);
        if (ptx_module_parse(text, strlen(text), &module, error, sizeof error)) {
            fprintf(stderr, "%s: %s\n", benches[k].name, error);
            return EXIT_FAILURE;
        }
        good = measure(&benches[k], module);
        ptx_module_free(module);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
