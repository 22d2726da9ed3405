#include "hooks/ranges.h"
#include <pthread.h>
#include <stdlib.h>

#define NVTX_SUPPORT_STATIC_INJECTION_LIBRARY 0 /* it would be a symbol that others could have, too */
#include <nvtx3/nvToolsExt.h>

atomic_bool ranges_on;

/* Made before ranges are on. */
static nvtxDomainHandle_t domain;
static nvtxStringHandle_t names[RANGE_KINDS];

static const uint32_t colours[RANGE_KINDS] = {0xffe8893a, 0xff35a88a, 0xff9b7bea}; /* as the report's */

static void attach(void)
{
    static const char *const texts[RANGE_KINDS] = {"evict", "bring back", "window"};
    const char *profiler = getenv("NVTX_INJECTION64_PATH");

    if (!profiler || !profiler[0])
        return;
    domain = nvtxDomainCreateA("hbmspill");
    if (!domain) /* its library could not be loaded */
        return;
    for (unsigned i = 0; i < RANGE_KINDS; i++)
        names[i] = nvtxDomainRegisterStringA(domain, texts[i]);
    atomic_store(&ranges_on, true);
}

void ranges_attach(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, attach);
}

void ranges_push(enum range range, uint64_t amount)
{
    nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                        .colorType = NVTX_COLOR_ARGB,
                                        .color = colours[range],
                                        .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                        .payload.ullValue = amount,
                                        .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                                        .message.registered = names[range]};

    (void)nvtxDomainRangePushEx(domain, &attributes);
}

void ranges_pop(void)
{
    (void)nvtxDomainRangePop(domain);
}
