#include "hooks/events_lanes.h"
#include <stdio.h>
#include <string.h>

/* That have a lane of their own; the last lane is for all that have none. */
enum { STREAMS = 64 };
_Static_assert(LANE_STREAM + STREAMS <= LANES, "a device has as many lanes");

static struct lane {
    struct gpu *gpu;
    struct stream_key key;
} lanes[STREAMS];
static unsigned lane_count;
static uint64_t lane_ends[GPUS_MAX][LANES];

uint32_t lane_id(const struct gpu *gpu, uint32_t lane)
{
    return (uint32_t)gpu->device * LANES + lane;
}

uint64_t *lane_end(const struct gpu *gpu, uint32_t lane)
{
    return &lane_ends[gpu->device][lane];
}

static void name_lane(struct events_writer *writer, const struct gpu *gpu, uint32_t lane, const char *name)
{
    char text[96];

    snprintf(text, sizeof text, "gpu%d %s", gpu->device, name);
    events_lane(writer, lane_id(gpu, lane), text);
}

void lanes_name_own(struct events_writer *writer, const struct gpu *gpu)
{
    name_lane(writer, gpu, LANE_IN, "copies in");
    name_lane(writer, gpu, LANE_OUT, "copies out");
    name_lane(writer, gpu, LANE_WINDOWS, "windows submitted (host)");
}

uint32_t lane_of_stream(struct events_writer *writer, struct gpu *gpu, CUstream stream, bool per_thread)
{
    struct stream_key key = stream_key_of(stream, per_thread);
    char name[64];
    unsigned i = 0;

    while (i < lane_count && (lanes[i].gpu != gpu || memcmp(&lanes[i].key, &key, sizeof key) != 0))
        i++;
    if (i == lane_count && i < STREAMS) {
        lanes[lane_count++] = (struct lane){gpu, key};
        snprintf(name, sizeof name, i + 1 < STREAMS ? "kernels, stream %u" : "kernels, other streams", i);
        name_lane(writer, gpu, LANE_STREAM + i, name);
    }
    return LANE_STREAM + (i < STREAMS ? i : STREAMS - 1);
}

uint32_t lane_of_handle(const struct gpu *gpu, CUstream stream)
{
    unsigned i = 0;

    while (i < lane_count && (lanes[i].gpu != gpu || lanes[i].key.handle != (uint64_t)(uintptr_t)stream))
        i++;
    return LANE_STREAM + (i < lane_count ? i : STREAMS - 1);
}
