/*
 * objects.c - device memory by every way that there is, and pinned host memory.
 */
#include "tests/fuzz/objects.h"
#include "tests/fuzz/graphs.h"

enum { GRANULARITY = 2 << 20, ROW = 4096, SIDE_BY_SIDE = 32 };

static const char *const way_names[] = {"cuMemAlloc", "cuMemAllocPitch", "cuMemAllocAsync",
                                        "a pool",     "cuMemMap",        "cuMemHostAlloc"};

void objects_load(void)
{
    cuda_load();
}

static struct touch all_of(struct object *object)
{
    return (struct touch){object, 0, object->bytes, true};
}

/* ---- asking ---- */

/*
 * Whether allocations of one size, laid side by side where that rounds better, need no more at once than the
 * largest object does: then three of them fit whatever happens.
 */
static bool rounds_well(size_t size, size_t most)
{
    size_t count = 1, whole;

    do
        whole = (count * size + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    while (count * size * 10 < whole * 9 && ++count <= SIDE_BY_SIDE);
    return count <= SIDE_BY_SIDE && whole <= most;
}

static size_t some_size(const struct world *world, struct random *random)
{
    size_t most = world->limits.most_bytes;
    unsigned kind = random_below(random, 100);

    if (kind < 20)
        return random_from(random, 4 << 10, 256 << 10) / 16 * 16;
    if (kind < 35)
        return random_from(random, 256 << 10, 1 << 20) / 16 * 16;
    if (kind < 50)
        return most;
    return random_from(random, 1 << 20, (uint32_t)most) / 16 * 16;
}

static size_t any_size(const struct world *world, struct random *random)
{
    size_t size;

    do
        size = some_size(world, random);
    while (!rounds_well(size, world->limits.most_bytes));
    return size;
}

/* A program has few sizes, so that addresses and slots are used again. */
static size_t choose_size(struct world *world, struct random *random)
{
    size_t *usual = &world->sizes[random_below(random, SIZES)];

    if (random_percent(random, 30))
        return any_size(world, random);
    if (!*usual)
        *usual = any_size(world, random);
    return *usual;
}

/* As a program does it that has its own allocator. */
static bool map(struct world *world, struct object *object)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    if (!world_did(world, cuda.cuMemCreate(&object->handle, object->bytes, &prop, 0), "cuMemCreate"))
        return false;
    CU(cuMemAddressReserve(&object->at, object->bytes, 0, 0, 0));
    CU(cuMemMap(object->at, object->bytes, 0, object->handle, 0));
    CU(cuMemSetAccess(object->at, object->bytes, &access, 1));
    return true;
}

static bool ask(struct world *world, struct object *object, unsigned lane)
{
    CUstream stream = world->stream[lane];
    size_t pitch, rows = (object->bytes + ROW - 1) / ROW;

    switch (object->way) {
    case WAY_PITCH:
        if (!world_did(world, cuda.cuMemAllocPitch(&object->at, &pitch, ROW - 100, rows, 4),
                       "cuMemAllocPitch"))
            return false;
        object->bytes = pitch * rows;
        return true;
    case WAY_ASYNC:
        return world_did(world, cuda.cuMemAllocAsync(&object->at, object->bytes, stream), "cuMemAllocAsync");
    case WAY_POOL:
        return world_did(world, cuda.cuMemAllocFromPoolAsync(&object->at, object->bytes, world->pool, stream),
                         "cuMemAllocFromPoolAsync");
    case WAY_MAPPED:
        return map(world, object);
    default:
        return world_did(world, cuda.cuMemAlloc(&object->at, object->bytes), "cuMemAlloc");
    }
}

struct object *world_allocate(struct world *world, struct random *random)
{
    struct object *object;
    unsigned lane = world_lane(world, random);
    enum way way = random_below(random, DEVICE_WAYS + 4); /* JAX uses pools */
    struct touch touch;
    bool late;

    if (world->count == OBJECTS_MAX)
        return NULL;
    object = calloc(1, sizeof *object);
    REQUIRE(object);
    object->bytes = choose_size(world, random);
    object->way = way < DEVICE_WAYS ? way : WAY_POOL;
    if (object->way == WAY_MAPPED) {
        object->bytes = (object->bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
        if (world->mapped + object->bytes > world->limits.mapped_bytes)
            object->way = WAY_ALLOC;
    }
    if (!ask(world, object, lane)) {
        free(object);
        return NULL;
    }
    object->id = world->next_id++;
    object->model = malloc(object->bytes);
    REQUIRE(object->model);
    world->objects[world->count++] = object;
    world->live += object->bytes;
    if (object->way == WAY_MAPPED)
        world->mapped += object->bytes;
    late = object->way == WAY_ASYNC || object->way == WAY_POOL; /* it is there in the stream's order */
    touch = all_of(object);
    /* No order_enter: that an allocation in the legacy stream orders other streams is not relied on. */
    world_touched(world, late ? lane : LANE_HOST, &touch, 1);
    world_say(world, "object %u born by %s, %zu bytes at 0x%llx, stream %u", object->id,
              way_names[object->way], object->bytes, (unsigned long long)object->at, late ? lane : 0);
    return object;
}

/* ---- giving back ---- */

static void forget(struct world *world, struct object *object)
{
    unsigned i = 0;

    while (world->objects[i] != object)
        i++;
    world->count--;
    for (; i < world->count; i++)
        world->objects[i] = world->objects[i + 1];
    world->live -= object->bytes;
    if (object->way == WAY_MAPPED)
        world->mapped -= object->bytes;
    free(object->model);
    free(object);
}

static void unmap(struct world *world, const struct object *object)
{
    world_must(world, cuda.cuMemUnmap(object->at, object->bytes), "cuMemUnmap");
    CU(cuMemRelease(object->handle));
    CU(cuMemAddressFree(object->at, object->bytes));
}

/*
 * cuMemFree of memory of cuMemAlloc waits for what was submitted before; of a pool's memory it does not.
 * cuMemFreeAsync takes memory of either.
 */
void world_free(struct world *world, struct object *object, struct random *random)
{
    bool pooled = object->way == WAY_ASYNC || object->way == WAY_POOL;
    bool later = object->way != WAY_MAPPED && random_percent(random, pooled ? 85 : 30);
    bool waited = pooled || object->way == WAY_MAPPED || random_percent(random, 50);
    unsigned lane = later ? world_lane(world, random) : LANE_HOST;
    struct touch touch = all_of(object);

    graphs_forget(world, object);
    if ((later || waited) && !world_order(world, lane, &touch, 1, random))
        return;
    world_say(world, "object %u freed in stream %u%s", object->id, lane,
              later || waited ? "" : ", not waited for");
    if (object->way == WAY_MAPPED)
        unmap(world, object);
    else if (later ? !world_did(world, cuda.cuMemFreeAsync(object->at, world->stream[lane]), "cuMemFreeAsync")
                   : !world_did(world, cuda.cuMemFree(object->at), "cuMemFree"))
        return;
    forget(world, object);
}

/* ---- looking ---- */

void world_compare(const struct world *world, const struct object *object, size_t at,
                   const unsigned char *bytes, size_t count, const char *how)
{
    const unsigned char *model = object->model + at;
    size_t i = 0, wrong = 0;

    if (!memcmp(bytes, model, count))
        return;
    while (bytes[i] == model[i])
        i++;
    for (size_t k = i; k < count; k++)
        wrong += bytes[k] != model[k];
    job_fail(__FILE__, __LINE__, "contents",
             "action %lu: object %u (%s, %zu bytes), %s from %zu on: byte %zu is 0x%02x instead of 0x%02x, "
             "%zu of %zu are wrong",
             world->step, object->id, way_names[object->way], object->bytes, how, at, at + i, bytes[i],
             model[i], wrong, count);
}

static void check_range(struct world *world, struct object *object, size_t first, size_t end,
                        struct random *random)
{
    bool plain = world->limits.legacy && random_percent(random, 50);
    unsigned lane = plain ? LANE_LEGACY : world_lane(world, random);
    struct touch touch = {object, first, end, false};
    CUstream stream = world->stream[lane];
    unsigned char *bytes;

    if (!world_order(world, lane, &touch, 1, random))
        return;
    bytes = malloc(end - first);
    REQUIRE(bytes);
    memset(bytes, 0x5a, end - first);
    /* A copy to pageable memory returns when it is done. */
    if (world_did(world,
                  plain ? cuda.cuMemcpyDtoH(bytes, object->at + first, end - first)
                        : cuda.cuMemcpyDtoHAsync(bytes, object->at + first, end - first, stream),
                  "a copy to pageable memory")) {
        world_touched(world, lane, &touch, 1);
        order_waited(&world->order, lane);
        world_compare(world, object, first, bytes, end - first, "copied back");
    }
    free(bytes);
}

void world_check(struct world *world, struct object *object, struct random *random)
{
    struct touch touch = {object, 0, object->bytes, false};

    world_say(world, "object %u looked at", object->id);
    if (object->way == WAY_PINNED) {
        if (!world_order(world, LANE_HOST, &touch, 1, random))
            return;
        world_touched(world, LANE_HOST, &touch, 1);
        world_compare(world, object, 0, (const unsigned char *)(uintptr_t)object->at, object->bytes, "seen");
        return;
    }
    for (unsigned part = 0, end; part < PARTS; part = end) {
        end = part + 1;
        if (!object->defined[part])
            continue;
        while (end < PARTS && object->defined[end])
            end++;
        check_range(world, object, object_edge(object, part), object_edge(object, end), random);
    }
}

void world_ask(struct world *world, struct random *random)
{
    const struct object *object;
    size_t free_bytes, total, size;
    CUdeviceptr base;

    CU(cuMemGetInfo(&free_bytes, &total));
    REQUIRE(free_bytes <= total, "%zu bytes free of %zu", free_bytes, total);
    if (!world->count)
        return;
    object = world->objects[random_below(random, world->count)];
    CU(cuMemGetAddressRange(&base, &size, object->at + random_below(random, object->bytes)));
    REQUIRE(base == object->at && size >= object->bytes, "object %u is at 0x%llx, %zu bytes", object->id,
            (unsigned long long)base, size);
}

void objects_begin(struct world *world, struct random *random)
{
    for (unsigned i = 0; i < PINNED; i++) {
        struct object *pinned = &world->pinned[i];
        void *at;

        *pinned = (struct object){.id = 1000 + i, .way = WAY_PINNED, .bytes = PINNED_BYTES};
        CU(cuMemHostAlloc(&at, PINNED_BYTES, i ? CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP : 0));
        pinned->at = (CUdeviceptr)(uintptr_t)at;
        pinned->model = malloc(PINNED_BYTES);
        REQUIRE(pinned->model);
        for (size_t k = 0; k < PINNED_BYTES; k += 8) {
            uint64_t word = random_next(random);

            memcpy((char *)at + k, &word, 8);
        }
        memcpy(pinned->model, at, PINNED_BYTES);
        memset(pinned->defined, true, sizeof pinned->defined);
    }
}

void objects_end(struct world *world, struct random *random)
{
    for (unsigned i = 0; i < PINNED; i++) {
        world_check(world, &world->pinned[i], random);
        CU(cuMemFreeHost((void *)(uintptr_t)world->pinned[i].at));
        free(world->pinned[i].model);
    }
    for (unsigned i = 0; i < world->count; i++)
        world_check(world, world->objects[i], random);
    for (unsigned tries = 0; world->count; tries++) {
        REQUIRE(tries < 1000, "memory that cannot be freed");
        world_free(world, world->objects[random_below(random, world->count)], random);
    }
    while (!world_did(world, cuda.cuCtxSynchronize(), "cuCtxSynchronize"))
        ;
}
