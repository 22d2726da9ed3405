#include "pinned/numa.h"
#include "pinned/system.h"
#include "shim/options.h"
#include "tool/doctor.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#define GIB(bytes) ((double)(bytes) / (1 << 30))

static void look_at_memory(const struct system_memory *memory)
{
    uint64_t spare = memory->cgroup < memory->available ? memory->cgroup : memory->available;
    const struct option_amount *limit = &options_get()->host_limit;
    uint64_t used = options_amount(limit, spare, spare / 2);

    if (!memory->available)
        doctor_find(FINDING_FAULT, "memory", "set HBMSPILL_HOST_LIMIT",
                    "/proc/meminfo does not say what is available");
    else if (used > spare)
        doctor_find(FINDING_WARNING, "memory", "lower it",
                    "HBMSPILL_HOST_LIMIT asks for %.1f GiB, %.1f GiB are there", GIB(used), GIB(spare));
    else
        doctor_find(FINDING_GOOD, "memory", NULL,
                    "%.1f GiB available, of which %.1f GiB may be pinned for what is spilled%s", GIB(spare),
                    GIB(used),
                    limit->kind == AMOUNT_UNSET ? " (HBMSPILL_HOST_LIMIT: half)" : " (HBMSPILL_HOST_LIMIT)");
    if (memory->trouble[0])
        doctor_find(FINDING_WARNING, "cgroup", "set HBMSPILL_HOST_LIMIT", "%s: what it may use is not known",
                    memory->trouble);
    else if (memory->cgroup == UINT64_MAX)
        doctor_find(FINDING_GOOD, "cgroup", NULL, "no limit");
    else if (memory->cgroup < memory->available)
        doctor_find(FINDING_WARNING, "cgroup",
                    "give the container more memory where the job has to spill more",
                    "the control group leaves %.1f of the machine's %.1f GiB", GIB(memory->cgroup),
                    GIB(memory->available));
    else
        doctor_find(FINDING_GOOD, "cgroup", NULL, "a limit of more than is available");
    if (memory->memlock == UINT64_MAX)
        doctor_find(FINDING_GOOD, "memlock", NULL, "no limit");
    else /* whether it binds the driver, only pinning tells: doctor_gpu.c does */
        doctor_find(FINDING_GOOD, "memlock", NULL,
                    "%" PRIu64
                    " KiB (ulimit -l); where that keeps the driver from pinning, the GPU's lines say so",
                    memory->memlock >> 10);
}

static void look_at_nodes(const char *root)
{
    const int wanted = options_get()->numa;
    unsigned count = 0;

    for (int node = 0; node < NUMA_NODES; node++)
        count += system_node_listed(root, "online", node);
    if (wanted >= 0 && !system_node_listed(root, "online", wanted))
        doctor_find(FINDING_WARNING, "numa", "hbmspill uses no node then: auto is the one next to the GPU",
                    "HBMSPILL_NUMA=%d: there is no such node", wanted);
    else if (count > 1 && !numa_usable())
        doctor_find(FINDING_WARNING, "numa",
                    "install libnuma1; a container needs the right to bind memory, --cap-add SYS_NICE",
                    "%u nodes, and memory cannot be put on one", count);
    else
        doctor_find(FINDING_GOOD, "numa", NULL, count > 1 ? "%u nodes" : "one node", count);
}

void doctor_host(const char *root)
{
    struct system_memory memory;

    system_memory_read(root, &memory);
    look_at_memory(&memory);
    look_at_nodes(root);
}
