/*
 * Machines with several NUMA nodes: files in place of sysfs, a library in place of libnuma, and a driver that
 * knows of the nodes. Where the job's pinned memory is, and what is spilled.
 */
#include "tests/integration/job.h"
#include "tests/integration/scenario.h"

#include <check.h>
#include <dlfcn.h>

enum { BYTES = 4 << 20, WORDS = BYTES / 4 };

/* Pins some memory, small and large, and spills. The libnuma is found by its name from here on. */
static void use_memory(const char *node_of_device, const char *online)
{
    const char *root = getenv("HBMSPILL_TEST_ROOT");
    CUdeviceptr at[14];
    void *host[2];

    REQUIRE(dlopen(FAKE_NUMA, RTLD_NOW | RTLD_LOCAL) != NULL, "%s", dlerror());
    job_put_file(root, "/proc/meminfo", "MemAvailable:  400000 kB\n");
    job_put_file(root, "/sys/bus/pci/devices/0000:01:00.0/numa_node", node_of_device);
    job_put_file(root, "/sys/devices/system/node/online", online);
    cuda_start();
    CU(cuMemHostAlloc(&host[0], 100, 0));
    CU(cuMemHostAlloc(&host[1], 3 * MIB, 0));
    for (unsigned i = 0; i < 14; i++) {
        CU(cuMemAlloc(&at[i], BYTES));
        job_fill(at[i], WORDS, i, 0);
    }
    for (unsigned i = 0; i < 14; i++)
        CHECK_WORDS(at[i], WORDS, i);
    for (unsigned i = 0; i < 2; i++)
        CU(cuMemFreeHost(host[i]));
}

static void next_to_node_1(void)
{
    use_memory("1\n", "0-1\n");
}

static void node_1_offline(void)
{
    use_memory("1\n", "0\n");
}

static void no_numa(void)
{
    use_memory("-1\n", "0\n");
}

/* Two GPUs on two nodes: what each spills, and what is pinned in its context. */
static void two_devices(void)
{
    const char *root = getenv("HBMSPILL_TEST_ROOT");

    job_put_file(root, "/sys/bus/pci/devices/0000:02:00.0/numa_node", "0\n");
    use_memory("1\n", "0-1\n");
    for (int i = 0; i < 2; i++) {
        CUcontext context;
        CUdevice device;
        void *host;

        CU(cuDeviceGet(&device, i));
        CU(cuDevicePrimaryCtxRetain(&context, device));
        CU(cuCtxSetCurrent(context));
        CU(cuMemHostAlloc(&host, 3 * MIB, 0));
        CU(cuMemFreeHost(host));
    }
}

/* node: where the memory was wanted, -1 for nowhere; the node its pages are on; that of the handles. */
static void placed(const struct outcome *of, int node, int pages, int handles)
{
    char text[64];
    const char *on;

    snprintf(text, sizeof text, "\"numa_node\": %d, \"numa_pages\": {\"%d\": ", node, pages);
    on = strstr(of->statistics, text);
    ck_assert_msg(on && !memchr(on + strlen(text), ',', (size_t)(strchr(on, '}') - on) - strlen(text)),
                  "not %s: %s", text, of->statistics);
    ck_assert_int_eq((int)outcome_number(of->statistics, "numa_handle_node"), handles);
    on = strstr(of->report, "\"host_handles_on_nodes\": [");
    ck_assert_ptr_nonnull(on);
    on = strchr(on, '[') + 1;
    for (int i = 0; i < 2; i++) {
        unsigned long count = strtoul(on, (char **)(uintptr_t)&on, 10);

        ck_assert_msg((count > 0) == (i == handles), "%lu handles on node %d", count, i);
        on += 2;
    }
}

static bool warned(const struct outcome *of)
{
    return strstr(of->err, "HBMSPILL_NUMA") != NULL;
}

static void all_on_1(const struct outcome *of)
{
    placed(of, 1, 1, 1);
    ck_assert(!warned(of));
}

static void all_on_0(const struct outcome *of)
{
    placed(of, 0, 0, 0);
    ck_assert(!warned(of));
}

/* Handles have to be on a node: the driver's choice. */
static void anywhere(const struct outcome *of)
{
    placed(of, -1, 0, 1);
    ck_assert(!warned(of));
}

static void anywhere_nearest_0(const struct outcome *of)
{
    placed(of, -1, 0, 0);
    ck_assert(!warned(of));
}

static void anywhere_said(const struct outcome *of)
{
    const char *line = strstr(of->err, "HBMSPILL_NUMA=1: there is no such node with memory to use");

    placed(of, -1, 0, 1);
    ck_assert_msg(line && !strstr(line + 1, "HBMSPILL_NUMA=1"), "%s", of->err);
}

/* The driver knows of one node only: what it registers is placed, its handles are where it makes them. */
static void handles_elsewhere(const struct outcome *of)
{
    placed(of, 1, 1, 0);
}

/* The first one's statistics come first. */
static void each_on_its_own(const struct outcome *of)
{
    const char *first = strstr(of->statistics, "\"numa_node\": 1, \"numa_pages\": {\"1\": ");
    const char *second = strstr(of->statistics, "\"numa_node\": 0, \"numa_pages\": {\"0\": ");

    ck_assert_msg(first && second && first < second, "%s", of->statistics);
    ck_assert(!warned(of));
}

#define FLAGS SCENARIO_NOT_NATIVE | SCENARIO_SPILLS | SCENARIO_ONCE
#define MACHINE(name) "HBMSPILL_TEST_ROOT=numa-machine-" name " SYNTHETIC_GPU_HOST_NODES=2,1 HBMSPILL_NUMA="

static const struct scenario scenarios[] = {
    {"next_to_it", next_to_node_1, FLAGS, NULL, MACHINE("next") "auto", all_on_1},
    {"each_its_own", two_devices, FLAGS, NULL, MACHINE("two") "auto SYNTHETIC_GPU_DEVICES=2",
     each_on_its_own},
    {"chosen", next_to_node_1, FLAGS, NULL, MACHINE("chosen") "0", all_on_0},
    {"off", next_to_node_1, FLAGS, NULL, MACHINE("off") "off", anywhere},
    {"offline", node_1_offline, FLAGS, NULL, MACHINE("offline") "auto", anywhere},
    {"chosen_offline", node_1_offline, FLAGS, NULL, MACHINE("chosen-offline") "1", anywhere_said},
    {"without_memory", next_to_node_1, FLAGS, NULL, MACHINE("empty") "auto FAKE_NUMA_MEMORY=1", anywhere},
    {"chosen_without_memory", next_to_node_1, FLAGS, NULL, MACHINE("chosen-empty") "1 FAKE_NUMA_MEMORY=1",
     anywhere_said},
    {"interleaved", next_to_node_1, FLAGS, NULL, MACHINE("interleaved") "auto FAKE_NUMA_POLICY=3", anywhere},
    {"interleaved_chosen", next_to_node_1, FLAGS, NULL, MACHINE("interleaved-chosen") "1 FAKE_NUMA_POLICY=3",
     all_on_1},
    {"no_numa", no_numa, FLAGS, NULL, MACHINE("none") "auto SYNTHETIC_GPU_HOST_NODES=1,0",
     anywhere_nearest_0},
    {"driver_of_one_node", next_to_node_1, FLAGS, NULL, MACHINE("one") "auto SYNTHETIC_GPU_HOST_NODES=1,0",
     handles_elsewhere},
};

int main(int argc, char **argv)
{
    return scenarios_main(argc, argv, "numa", scenarios, sizeof scenarios / sizeof *scenarios, 60);
}
