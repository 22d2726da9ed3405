#include "hooks/events_timers.h"
#include "hooks/capture.h"
#include "hooks/events.h"
#include <errno.h>

enum { SPARES = 1 << 14 };

/* A float of milliseconds tells a microsecond within four seconds. */
static const double reanchor = 2e9;

/* Where the device's clock is on the host's, by device. */
static struct {
    CUevent event;
    uint64_t time; /* 0: not made */
} anchors[GPUS_MAX];

static CUevent spare[SPARES];
static struct gpu *spare_of; /* whose they are; those of other devices are destroyed instead */
static unsigned spares;

static bool take(struct gpu *gpu, CUevent *event)
{
    CUresult status;
    int mode;

    if (spares && spare_of == gpu) {
        *event = spare[--spares];
        return true;
    }
    mode = capture_relax();
    status = hbmspill_real.cuEventCreate(event, CU_EVENT_DEFAULT);
    capture_restore(mode);
    return status == CUDA_SUCCESS;
}

void timers_give(struct gpu *gpu, CUevent event)
{
    int mode;

    if (!spare_of)
        spare_of = gpu;
    if (spare_of == gpu && spares < SPARES) {
        spare[spares++] = event;
        return;
    }
    mode = capture_relax();
    (void)hbmspill_real.cuEventDestroy_v2(event);
    capture_restore(mode);
}

CUevent timers_record(struct gpu *gpu, CUstream stream)
{
    CUresult status;
    CUevent event;
    int mode;

    if (!take(gpu, &event))
        return NULL;
    mode = capture_relax();
    status = hbmspill_real.cuEventRecord(event, stream);
    capture_restore(mode);
    if (status == CUDA_SUCCESS)
        return event;
    timers_give(gpu, event);
    return NULL;
}

bool timers_anchor(struct gpu *gpu, bool *made)
{
    CUstream stream;
    int mode;

    *made = !anchors[gpu->device].time;
    if (!*made)
        return anchors[gpu->device].event != NULL;
    mode = capture_relax();
    if (hbmspill_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
        anchors[gpu->device].event = timers_record(gpu, stream);
        (void)hbmspill_real.cuStreamDestroy_v2(stream); /* what was recorded stays recorded */
    }
    capture_restore(mode);
    anchors[gpu->device].time = events_now();
    return anchors[gpu->device].event != NULL;
}

static int elapsed(CUevent from, CUevent to, double *nanoseconds)
{
    int mode = capture_relax();
    float milliseconds;
    CUresult status = hbmspill_real.cuEventElapsedTime(&milliseconds, from, to);

    capture_restore(mode);
    *nanoseconds = status == CUDA_SUCCESS ? (double)milliseconds * 1e6 : 0;
    return status == CUDA_SUCCESS ? 0 : status == CUDA_ERROR_NOT_READY ? -EBUSY : -EIO;
}

int timers_read_one(struct gpu *gpu, CUevent event, uint64_t *time)
{
    double since = 0;
    int error = anchors[gpu->device].event ? elapsed(anchors[gpu->device].event, event, &since) : -EIO;

    *time = anchors[gpu->device].time + (uint64_t)(int64_t)since;
    return error;
}

int timers_read(struct gpu *gpu, CUevent *start, CUevent end, uint64_t *begun, uint64_t *ended)
{
    CUevent anchor = anchors[gpu->device].event;
    double took;
    int error = elapsed(*start, end, &took);

    if (!error)
        error = timers_read_one(gpu, *start, begun);
    if (error)
        return error;
    *ended = *begun + (uint64_t)(took > 0 ? took : 0);
    if (*begun >
        anchors[gpu->device].time + (uint64_t)reanchor) { /* what is issued from here on is behind it */
        anchors[gpu->device].event = *start;
        anchors[gpu->device].time = *begun;
        *start = anchor;
    }
    return 0;
}

void timers_gone(struct gpu *gpu)
{
    anchors[gpu->device].event = NULL;
    if (spare_of == gpu)
        spares = 0;
}
