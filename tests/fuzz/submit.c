/*
 * submit.c - kernels, copies, memsets and host functions in a stream.
 */
#include "tests/fuzz/submit.h"
#include "tests/fuzz/objects.h"

/* i = %ctaid.x * 256 + %tid.x in %r1; the thread ends where i >= count. %rd9 = i * stride * 4. */
#define STRIDED(more)                                                                                        \
    "{\n"                                                                                                    \
    ".reg .pred %p<4>;\n"                                                                                    \
    ".reg .b32 %r<16>;\n"                                                                                    \
    ".reg .b64 %rd<16>;\n"                                                                                   \
    "ld.param.u64 %rd1, [to];\n"                                                                             \
    "ld.param.u32 %r2, [count];\n"                                                                           \
    "ld.param.u32 %r10, [stride];\n"                                                                         \
    "ld.param.u32 %r5, [value];\n"                                                                           \
    "mov.u32 %r3, %tid.x;\n"                                                                                 \
    "mov.u32 %r4, %ctaid.x;\n"                                                                               \
    "mad.lo.s32 %r1, %r4, 256, %r3;\n"                                                                       \
    "setp.ge.u32 %p1, %r1, %r2;\n"                                                                           \
    "@%p1 bra END;\n"                                                                                        \
    "mul.lo.s32 %r11, %r1, %r10;\n"                                                                          \
    "mul.wide.u32 %rd9, %r11, 4;\n"                                                                          \
    "add.s64 %rd2, %rd1, %rd9;\n" more "st.global.u32 [%rd2], %r9;\n"                                        \
    "END:\n"                                                                                                 \
    "ret;\n"                                                                                                 \
    "}\n"

static const char ptx[] =
    ".version 7.0\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry fill(.param .u64 to, .param .u32 count, .param .u32 stride, .param .u32 value)\n"
    ".reqntid 256, 1, 1\n" STRIDED(
        "mad.lo.s32 %r6, %r5, 977, %r1;\n"
        "mul.lo.s32 %r7, %r6, -1640531535;\n"
        "shr.u32 %r8, %r7, 15;\n"
        "xor.b32 %r9, %r7, %r8;\n") ".visible .entry scale(.param .u64 to, .param .u32 count, .param .u32 "
                                    "stride, .param .u32 value)\n"
                                    ".reqntid 256, 1, 1\n" STRIDED(
                                        "ld.global.u32 %r6, [%rd2];\n"
                                        "mad.lo.s32 %r9, %r6, 1664525, %r5;\n") ".visible .entry "
                                                                                "blend(.param .u64 to, "
                                                                                ".param .u64 a, .param .u64 "
                                                                                "b, .param .u32 count,\n"
                                                                                ".param .u32 stride, .param "
                                                                                ".u32 value)\n"
                                                                                ".reqntid 256, 1, "
                                                                                "1\n" STRIDED(
                                                                                    "ld.param.u64 %rd3, "
                                                                                    "[a];\n"
                                                                                    "ld.param.u64 %rd4, "
                                                                                    "[b];\n"
                                                                                    "add.s64 %rd5, %rd3, "
                                                                                    "%rd9;\n"
                                                                                    "add.s64 %rd6, %rd4, "
                                                                                    "%rd9;\n"
                                                                                    "ld.global.u32 %r6, "
                                                                                    "[%rd5];\n"
                                                                                    "ld.global.u32 %r7, "
                                                                                    "[%rd6];\n"
                                                                                    "ld.global.u32 %r8, "
                                                                                    "[%rd2];\n"
                                                                                    "xor.b32 %r7, %r7, %r5;\n"
                                                                                    "add.s32 %r6, %r6, %r7;\n"
                                                                                    "mad.lo.s32 %r9, %r8, 3, "
                                                                                    "%r6;\n");

static CUfunction fill, scale, blend, add, sum;

void submit_load(void)
{
    CUmodule module;

    cuda_load();
    CU(cuModuleLoadData(&module, ptx));
    CU(cuModuleGetFunction(&fill, module, "fill"));
    CU(cuModuleGetFunction(&scale, module, "scale"));
    CU(cuModuleGetFunction(&blend, module, "blend"));
    add = job_kernel("add_struct");
    sum = job_kernel("checksum");
}

static CUdeviceptr address(const struct place *place)
{
    return place->object->at + place->at;
}

/* ---- kernels ---- */

static void put(struct launch *launch, unsigned *count, uint64_t value)
{
    launch->values[*count] = value;
    launch->params[*count] = &launch->values[*count];
    ++*count;
}

void launch_of(const struct operation *op, struct launch *launch)
{
    unsigned count = 0;

    launch->blocks = (op->count + 255) / 256;
    if (op->kind == OP_ADD) { /* struct { to, count, pad, from } */
        launch->function = add;
        put(launch, &count, address(&op->to));
        launch->values[1] = op->count;
        launch->values[2] = address(&op->from[0]);
        return;
    }
    launch->function = op->kind == OP_FILL    ? fill
                       : op->kind == OP_SCALE ? scale
                       : op->kind == OP_BLEND ? blend
                                              : sum;
    put(launch, &count, address(&op->to));
    if (op->kind == OP_BLEND || op->kind == OP_SUM)
        put(launch, &count, address(&op->from[0]));
    if (op->kind == OP_BLEND)
        put(launch, &count, address(&op->from[1]));
    put(launch, &count, op->count);
    if (op->kind == OP_SUM)
        return;
    put(launch, &count, op->stride);
    put(launch, &count, op->value);
}

static CUresult launch_kernel(const struct operation *op, CUstream stream, struct random *random)
{
    struct launch launch;
    CUlaunchConfig config = {
        .gridDimY = 1, .gridDimZ = 1, .blockDimX = 256, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};

    launch_of(op, &launch);
    if (random_percent(random, 75))
        return cuda.cuLaunchKernel(launch.function, launch.blocks, 1, 1, 256, 1, 1, 0, stream, launch.params,
                                   NULL);
    config.gridDimX = launch.blocks;
    return cuda.cuLaunchKernelEx(&config, launch.function, launch.params, NULL);
}

/* ---- copies ---- */

/* Whether the host waits for it is told by `late'. */
static CUresult copy(const struct operation *op, CUstream stream, bool legacy, struct random *random,
                     bool *late)
{
    CUdeviceptr to = address(&op->to), from = address(&op->from[0]);
    bool to_host = op->to.object->way == WAY_PINNED, from_host = op->from[0].object->way == WAY_PINNED;
    bool plain = random_percent(random, 50);

    *late = false;
    if (legacy && random_percent(random, 40)) {
        *late = to_host || from_host;
        if (plain)
            return cuda.cuMemcpy(to, from, op->bytes);
        return to_host     ? cuda.cuMemcpyDtoH((void *)(uintptr_t)to, from, op->bytes)
               : from_host ? cuda.cuMemcpyHtoD(to, (void *)(uintptr_t)from, op->bytes)
                           : cuda.cuMemcpyDtoD(to, from, op->bytes);
    }
    if (plain)
        return cuda.cuMemcpyAsync(to, from, op->bytes, stream);
    return to_host     ? cuda.cuMemcpyDtoHAsync((void *)(uintptr_t)to, from, op->bytes, stream)
           : from_host ? cuda.cuMemcpyHtoDAsync(to, (void *)(uintptr_t)from, op->bytes, stream)
                       : cuda.cuMemcpyDtoDAsync(to, from, op->bytes, stream);
}

CUDA_MEMCPY3D box_of(const struct operation *op)
{
    bool to_host = op->to.object->way == WAY_PINNED, from_host = op->from[0].object->way == WAY_PINNED;
    bool rows = op->kind == OP_BOX;

    return (CUDA_MEMCPY3D){.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                           .srcHost = from_host ? (void *)(uintptr_t)address(&op->from[0]) : NULL,
                           .srcDevice = from_host ? 0 : address(&op->from[0]),
                           .srcPitch = op->from_pitch,
                           .srcHeight = rows ? op->count : 0,
                           .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                           .dstHost = to_host ? (void *)(uintptr_t)address(&op->to) : NULL,
                           .dstDevice = to_host ? 0 : address(&op->to),
                           .dstPitch = op->to_pitch,
                           .dstHeight = rows ? op->count : 0,
                           .WidthInBytes = op->bytes,
                           .Height = rows ? op->count : 1,
                           .Depth = 1};
}

static CUresult copy_box(const struct operation *op, CUstream stream, struct random *random)
{
    CUDA_MEMCPY3D box = box_of(op);
    CUDA_MEMCPY2D flat = {.srcMemoryType = box.srcMemoryType,
                          .srcHost = box.srcHost,
                          .srcDevice = box.srcDevice,
                          .srcPitch = box.srcPitch,
                          .dstMemoryType = box.dstMemoryType,
                          .dstHost = box.dstHost,
                          .dstDevice = box.dstDevice,
                          .dstPitch = box.dstPitch,
                          .WidthInBytes = box.WidthInBytes,
                          .Height = box.Height};

    return random_percent(random, 60) ? cuda.cuMemcpy2DAsync(&flat, stream)
                                      : cuda.cuMemcpy3DAsync(&box, stream);
}

static CUresult set(const struct operation *op, CUstream stream, bool legacy, struct random *random)
{
    CUdeviceptr to = address(&op->to);
    bool plain = legacy && random_percent(random, 40);

    switch (op->element) {
    case 1:
        return plain ? cuda.cuMemsetD8(to, (unsigned char)op->value, op->count)
                     : cuda.cuMemsetD8Async(to, (unsigned char)op->value, op->count, stream);
    case 2:
        return plain ? cuda.cuMemsetD16(to, (unsigned short)op->value, op->count)
                     : cuda.cuMemsetD16Async(to, (unsigned short)op->value, op->count, stream);
    default:
        return plain ? cuda.cuMemsetD32(to, op->value, op->count)
                     : cuda.cuMemsetD32Async(to, op->value, op->count, stream);
    }
}

/* ---- host functions ---- */

void CUDA_CB host_function(void *argument)
{
    const struct host_data *data = argument;

    for (uint32_t i = 0; i < data->count; i++) {
        uint32_t word;

        memcpy(&word, data->at + (size_t)i * 4, 4);
        word = word * 1664525 + data->value;
        memcpy(data->at + (size_t)i * 4, &word, 4);
    }
}

struct host_data *host_data_of(const struct operation *op)
{
    struct host_data *data = malloc(sizeof *data);

    REQUIRE(data);
    *data = (struct host_data){
        .at = (unsigned char *)(uintptr_t)address(&op->to), .count = op->count, .value = op->value};
    return data;
}

/* ---- a stream ---- */

bool submit(struct world *world, unsigned lane, const struct operation *op, struct random *random)
{
    CUstream stream = world->stream[lane];
    struct touch touches[TOUCHES_MAX];
    unsigned count = operation_touches(op, touches);
    bool late = false;
    CUresult status;

    if (!world_order(world, lane, touches, count, random))
        return false;
    world_say(world, "stream %u: %s", lane, operation_text(op));
    switch (op->kind) {
    case OP_COPY:
        status = copy(op, stream, lane == LANE_LEGACY, random, &late);
        break;
    case OP_BOX:
        status = copy_box(op, stream, random);
        break;
    case OP_SET:
        status = set(op, stream, lane == LANE_LEGACY, random);
        break;
    case OP_HOST:
        status = cuda.cuLaunchHostFunc(stream, host_function, host_data_of(op));
        break;
    default:
        status = launch_kernel(op, stream, random);
    }
    if (!world_did(world, status, operation_text(op)))
        return false;
    world_touched(world, lane, touches, count);
    if (late)
        order_waited(&world->order, lane);
    operation_apply(op);
    return true;
}

bool submit_upload(struct world *world, struct object *object, struct random *random)
{
    bool plain = world->limits.legacy && random_percent(random, 30);
    unsigned lane = plain ? LANE_LEGACY : world_lane(world, random), part = random_below(random, PARTS);
    size_t first = object_edge(object, part), bytes, at = 0;
    struct touch touch;
    unsigned char *source;
    bool did;

    bytes = object_edge(object, random_percent(random, 50) ? PARTS : part + 1) - first;
    touch = (struct touch){object, first, first + bytes, true};
    if (!world_order(world, lane, &touch, 1, random))
        return false;
    source = malloc(bytes);
    REQUIRE(source);
    for (; at + 8 <= bytes; at += 8) {
        uint64_t word = random_next(random);

        memcpy(source + at, &word, 8);
    }
    memset(source + at, 0x3c, bytes - at);
    world_say(world, "stream %u: upload to %u+%zu, %zu bytes%s", lane, object->id, first, bytes,
              plain ? ", synchronous" : "");
    did = world_did(world,
                    plain ? cuda.cuMemcpyHtoD(object->at + first, source, bytes)
                          : cuda.cuMemcpyHtoDAsync(object->at + first, source, bytes, world->stream[lane]),
                    "a copy from pageable memory");
    if (did) {
        world_touched(world, lane, &touch, 1);
        memcpy(object->model + first, source, bytes);
        world_define(&touch, true);
    }
    memset(source, 0x99, bytes);
    free(source);
    return did;
}
