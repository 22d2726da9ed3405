#include "hooks/host_memory.h"
#include "pinned/system.h"
#include "shim/log.h"
#include "shim/options.h"
#include <pthread.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

static uint64_t limit_bytes;
static struct budget budget;

static uint64_t available_bytes(const struct system_memory *memory)
{
    return memory->cgroup < memory->available ? memory->cgroup : memory->available;
}

static void work_out(void)
{
    const struct options *options = options_get();
    struct system_memory memory;
    uint64_t available;

    system_memory_read(options->test_root.text, &memory);
    available = available_bytes(&memory);
    limit_bytes = options_amount(&options->host_limit, available, available / 2);
    if (memory.trouble[0])
        log_warn(LOG_IN_HOST,
                 "%s: what the control group may use is not known, %llu MiB of host memory are taken as "
                 "available (HBMSPILL_HOST_LIMIT)",
                 memory.trouble, MIB(available));
    if (!memory.available) {
        log_warn(LOG_IN_HOST,
                 "/proc/meminfo does not say what memory is available: using %llu MiB (HBMSPILL_HOST_LIMIT)",
                 MIB(limit_bytes));
    } else if (limit_bytes > available) {
        log_warn(LOG_IN_HOST, "HBMSPILL_HOST_LIMIT asks for %llu MiB, %llu MiB are available: using that",
                 MIB(limit_bytes), MIB(available));
        limit_bytes = available;
    }
    budget_init(&budget, limit_bytes);
}

static void know(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, work_out);
}

uint64_t host_memory_limit(void)
{
    know();
    return limit_bytes;
}

struct budget *host_memory_budget(void)
{
    know();
    return &budget;
}
