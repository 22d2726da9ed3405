/*
 * statistics.h - the one list of counters: the struct, the JSON file and the tables are made from it.
 *
 * X(name, unit, text). Guarded by the cache's lock, except those the hooks add to (counted atomically through
 * statistics_add). Unit is "bytes", "bytes now", "count", "nanoseconds" or "peak bytes".
 */
#ifndef HBMSPILL_CACHE_STATISTICS_H
#define HBMSPILL_CACHE_STATISTICS_H

#include <stdint.h>

#define HBMSPILL_COUNTERS(X)                                                                                 \
    X(allocations, "count", "allocations the job made")                                                      \
    X(frees, "count", "allocations the job gave back")                                                       \
    X(managed_allocations, "count", "allocations that can be spilled")                                       \
    X(passed_allocations, "count", "allocations left to the driver (small, or not movable)")                 \
    X(launches, "count", "kernel launches")                                                                  \
    X(open_launches, "count", "launches of kernels that may touch anything")                                 \
    X(graph_launches, "count", "graph launches")                                                             \
    X(copies, "count", "copies and memsets the job asked for")                                               \
    X(h2d_bytes, "bytes", "the job's own copies, host to device")                                            \
    X(d2h_bytes, "bytes", "the job's own copies, device to host")                                            \
    X(d2d_bytes, "bytes", "the job's own copies on the device")                                              \
    X(h2h_bytes, "bytes", "the job\'s own copies on the host, spilled data served there included")           \
    X(slot_bytes, "bytes", "the job's copies served in the host tier")                                       \
    X(evictions, "count", "allocations moved out of HBM")                                                    \
    X(clean_evictions, "count", "of these, without a copy (the host had it already)")                        \
    X(dropped, "count", "freed allocations whose frames were reused without a copy")                         \
    X(fills, "count", "allocations moved back into HBM")                                                     \
    X(bytes_out, "bytes", "moved HBM to host by the shim")                                                   \
    X(bytes_in, "bytes", "moved host to HBM by the shim")                                                    \
    X(measured_bytes_in, "bytes", "moved host to HBM to measure the link")                                   \
    X(measured_bytes_out, "bytes", "moved HBM to host to measure the link")                                  \
    X(verified_bytes, "bytes", "read back from HBM to be verified")                                          \
    X(copies_waited_for, "count", "operations that were made to wait for a copy of ours, in or out")         \
    X(waited_bytes, "bytes", "what they touched that was waited for")                                        \
    X(waits_timed, "count", "of these waits, those that were timed")                                         \
    X(timed_bytes, "bytes", "what was waited for in them")                                                   \
    X(late_bytes, "bytes", "of that, what was not there in time")                                            \
    X(stalled_nanoseconds, "nanoseconds", "how long streams stood still in these")                           \
    X(between_nanoseconds, "nanoseconds", "from one timed wait to the next in a stream, on the device")      \
    X(between_operations, "count", "operations in that time")                                                \
    X(stream_waits, "count", "event waits put into streams")                                                 \
    X(host_waits, "count", "times a hook had to wait for the GPU")                                           \
    X(events_recorded, "count", "events recorded")                                                           \
    X(frames_created, "count", "frames of HBM created")                                                      \
    X(frames_released, "count", "frames given back to the driver")                                           \
    X(linked_operations, "count", "operations that reached spilled memory over the link")                    \
    X(link_mappings, "count", "mappings of spilled memory made for them")                                    \
    X(map_calls, "count", "mappings made")                                                                   \
    X(unmap_calls, "count", "mappings removed")                                                              \
    X(access_calls, "count", "set-access calls")                                                             \
    X(job_pinned_bytes, "bytes now", "pinned host memory the job asked for itself, now held")                \
    X(peak_job_pinned_bytes, "peak bytes", "most of it")                                                     \
    X(windows, "count", "groups of operations submitted together")                                           \
    X(held, "count", "operations held for one")                                                              \
    X(rounds_found, "count", "rounds that repeat, found among the operations")                               \
    X(planned_operations, "count", "operations that followed the schedule of a round")                       \
    X(homeless, "count", "stays in HBM that a schedule has no lasting frames for")                           \
    X(plans_taken_up, "count", "better schedules taken up")                                                  \
    X(refused, "count", "requests refused because both tiers are full")                                      \
    X(reframed, "count", "times frames were made larger")                                                    \
    X(retries, "count", "driver calls retried after frames were released")                                   \
    X(peak_hbm_bytes, "peak bytes", "most HBM held: frames and the job's unmovable memory")                  \
    X(peak_frame_bytes, "peak bytes", "most HBM held in frames")                                             \
    X(peak_live_bytes, "peak bytes", "most bytes in live allocations (virtual)")                             \
    X(peak_host_bytes, "peak bytes", "most pinned host memory held")                                         \
    X(peak_spilled_bytes, "peak bytes", "most bytes that lived only in the host tier")

struct statistics {
#define HBMSPILL_COUNTER_FIELD(name, unit, text) uint64_t name;
    HBMSPILL_COUNTERS(HBMSPILL_COUNTER_FIELD)
#undef HBMSPILL_COUNTER_FIELD
};

/* For counters that are touched outside the cache's lock. */
static inline void statistics_add(uint64_t *counter, uint64_t value)
{
    __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

/* What such a counter says at the moment. */
static inline uint64_t statistics_now(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* One at a time; others may look. */
static inline void statistics_peak(uint64_t *counter, uint64_t value)
{
    if (value > statistics_now(counter))
        __atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

#endif
