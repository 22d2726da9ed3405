/*
 * Replay on tapes small enough to count by hand: what each policy moves, that times repeat to the last bit,
 * and what the simulated machine makes of copies that overlap.
 *
 * A loop over SIX buffers of 4 MiB in rounds. With room for four, LRU misses every time: 24 MiB in a round.
 */
#include "cache/tools/arrivals.h"
#include "cache/tools/replay.h"
#include "model/machine.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

enum { SIX = 6, ROUNDS = 8 };

static struct tape *tape;

/* Each round: every buffer once, in order, with that access, for so many nanoseconds; then a call that
 * submits.
 */
static void make_loop_and(uint64_t asked, uint32_t access, int64_t duration)
{
    static struct tape_writer writer;
    char path[] = "replay.XXXXXX", why[200] = "";
    int fd = mkstemp(path);
    uint64_t line;

    ck_assert_int_ge(fd, 0);
    tape_write_begin(&writer, fd);
    for (uint32_t i = 0; i < SIX; i++) {
        char name[16];

        snprintf(name, sizeof name, "kernel %u", i);
        tape_write_name(&writer, i, name);
        tape_write_alloc(&writer, i, 4 * MIB);
    }
    if (asked) {
        tape_write_alloc(&writer, SIX, asked);
        tape_write_free(&writer, SIX, TAPE_NO_STREAM);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < SIX; i++)
            tape_write_launch(&writer, TAPE_LAUNCH, 0, i, duration, &(struct tape_touch){i, access}, 1);
        tape_write_submit(&writer, 0);
    }
    ck_assert_int_eq(tape_write_end(&writer), 0);
    close(fd);
    ck_assert_msg(tape_read(path, &tape, &line, why, sizeof why) == 0, "%s", why);
    unlink(path);
}

static void make_loop(uint32_t access, int64_t duration)
{
    make_loop_and(0, access, duration);
}

/*
 * Each round: 40 MiB from the host on a stream of their own, behind all that computes where `behind'; a
 * kernel of 2 ms that reads them, once they are there; a kernel of 10 ms that does not.
 */
static void make_input(bool behind)
{
    static struct tape_writer writer;
    char path[] = "replay.XXXXXX", why[200] = "";
    int fd = mkstemp(path);
    uint32_t recordings = 0;
    uint64_t line;

    ck_assert_int_ge(fd, 0);
    tape_write_begin(&writer, fd);
    tape_write_name(&writer, 0, "reads it");
    tape_write_name(&writer, 1, "does not");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const struct tape_touch input = {round, TAPE_READ};

        tape_write_alloc(&writer, round, 40 * MIB);
        if (behind) {
            tape_write_record(&writer, 0, recordings);
            tape_write_after(&writer, 1, recordings++);
        }
        tape_write_copy(&writer, 1, TAPE_TO_DEVICE, false, 40 * MIB, &(struct tape_touch){round, TAPE_WRITE},
                        1);
        tape_write_record(&writer, 1, recordings);
        tape_write_after(&writer, 0, recordings++);
        tape_write_launch(&writer, TAPE_LAUNCH, 0, 0, 2000000, &input, 1);
        tape_write_launch(&writer, TAPE_LAUNCH, 0, 1, 10000000, NULL, 0);
    }
    ck_assert_int_eq(tape_write_end(&writer), 0);
    close(fd);
    ck_assert_msg(tape_read(path, &tape, &line, why, sizeof why) == 0, "%s", why);
    unlink(path);
}

static struct replay_config machine(uint64_t hbm)
{
    return (struct replay_config){.link = {10e9, 10e9, 10e9, 10e9},
                                  .hbm = hbm,
                                  .host = 1024 * MIB,
                                  .prefetch = true,
                                  .rate = 1e12,
                                  .steady = REPLAY_FIRST_STEADY,
                                  .size_scale = 1,
                                  .driver_scale = 1};
}

static struct replay_result run(const struct replay_config *config)
{
    struct replay_result result;
    struct replay_tape about;

    ck_assert(replay_examine(tape, config, &about));
    ck_assert_uint_eq(about.period, SIX);
    ck_assert_uint_eq(about.rounds, ROUNDS);
    ck_assert_uint_eq(about.live, SIX * 4 * MIB);
    ck_assert_uint_eq(about.largest, 4 * MIB);
    ck_assert_int_eq(replay_run(tape, &about, config, &result), 0);
    return result;
}

static bool equal(double value, double to)
{
    return value > to - 1e-3 && value < to + 1e-3;
}

START_TEST(test_everything_fits)
{
    struct replay_config config = machine(32 * MIB);
    struct replay_result result;

    make_loop(TAPE_READ | TAPE_WRITE, 100000);
    result = run(&config);
    ck_assert(result.complete);
    ck_assert(equal(result.in, 0) && equal(result.out, 0) && equal(result.stalled, 0));
    ck_assert(equal(result.round, SIX * 100000.0));
    ck_assert_uint_eq(result.statistics.evictions, 0);
    tape_free(tape);
}
END_TEST

/* What the job orders by its own events stays ordered, and is no stall; what it does not order runs side by
 * side. */
START_TEST(test_own_order)
{
    struct replay_config config = machine(512 * MIB);
    double copy = 40.0 * MIB / 10e9 * 1e9 + MACHINE_COPY_LATENCY;
    struct replay_result result;
    struct replay_tape about;

    for (int behind = 0; behind < 2; behind++) {
        make_input(behind);
        ck_assert(replay_examine(tape, &config, &about));
        ck_assert_int_eq(replay_run(tape, &about, &config, &result), 0);
        ck_assert_msg(equal(result.round, 12e6 + (behind ? copy : 0)), "%f", result.round);
        ck_assert(equal(result.stalled, 0));
        tape_free(tape);
    }
}
END_TEST

START_TEST(test_lru_misses_all_of_a_loop)
{
    struct replay_config config = machine(16 * MIB);
    struct replay_result result;

    make_loop(TAPE_READ | TAPE_WRITE, 100000);
    result = run(&config);
    ck_assert(equal(result.in, SIX * 4.0 * MIB));
    ck_assert(equal(result.out, SIX * 4.0 * MIB));
    ck_assert(equal(result.late, result.in)); /* nothing is asked for before it is needed */
    /* Every launch needs 4 MiB over a link of 10 GB/s: the link alone is busy for longer than the kernels. */
    ck_assert(result.round > SIX * (4 * MIB / 10e9 * 1e9));
    ck_assert(result.stalled > 0);
    tape_free(tape);
}
END_TEST

START_TEST(test_clean_data_is_not_written_back)
{
    struct replay_config config = machine(16 * MIB);
    struct replay_result result;

    make_loop(TAPE_READ, 100000);
    result = run(&config);
    ck_assert(equal(result.in, SIX * 4.0 * MIB));
    ck_assert(equal(result.out, 0));
    tape_free(tape);
}
END_TEST

/* A window sees the round: nobody moves less than live - HBM, and it never moves more than LRU. */
START_TEST(test_window_moves_less)
{
    struct replay_config config = machine(16 * MIB);
    struct replay_result lru, windowed;

    make_loop(TAPE_READ | TAPE_WRITE, 100000);
    lru = run(&config);
    config.window = 1024;
    config.policy = CACHE_POLICY_NEXTUSE;
    windowed = run(&config);
    ck_assert(windowed.complete);
    ck_assert(windowed.statistics.evictions > 0);
    ck_assert(windowed.in >= 8.0 * MIB - 1);
    ck_assert(windowed.late >= 0 && windowed.late <= windowed.in);
    ck_assert(windowed.in < lru.in && windowed.out < lru.out && windowed.round < lru.round);
    tape_free(tape);
}
END_TEST

/* What came in last leaves first: most of a loop stays where it is. */
START_TEST(test_bip_keeps_most_of_a_loop)
{
    struct replay_config config = machine(16 * MIB);
    struct replay_result result;

    make_loop(TAPE_READ | TAPE_WRITE, 100000);
    config.policy = CACHE_POLICY_BIP;
    result = run(&config);
    ck_assert(result.complete);
    /* Of six, four fit: three stay, and the others take turns in the room of one, but for a newcomer in 32.
     */
    ck_assert(result.in >= 3 * 4.0 * MIB - 1 && result.in <= 4 * 4.0 * MIB);
    tape_free(tape);
}
END_TEST

START_TEST(test_times_repeat)
{
    struct replay_config config = machine(16 * MIB);
    struct replay_result first, second;

    make_loop(TAPE_READ | TAPE_WRITE, 12345);
    config.window = _i ? 1024 : 0;
    config.policy = _i ? CACHE_POLICY_NEXTUSE : CACHE_POLICY_LRU;
    first = run(&config);
    second = run(&config);
    ck_assert_mem_eq(&first.makespan, &second.makespan, sizeof first.makespan);
    ck_assert_mem_eq(&first.round, &second.round, sizeof first.round);
    ck_assert_mem_eq(&first.stalled, &second.stalled, sizeof first.stalled);
    ck_assert_mem_eq(&first.statistics, &second.statistics, sizeof first.statistics);
    tape_free(tape);
}
END_TEST

START_TEST(test_what_does_not_fit_is_said)
{
    struct replay_config config = machine(2 * MIB);
    struct replay_result result;

    make_loop(TAPE_READ, 1000);
    result = run(&config);
    ck_assert(!result.complete);
    ck_assert_ptr_nonnull(strstr(result.why, "kernel 0 needs 4 MiB of HBM at once, there are 2"));
    config = machine(16 * MIB);
    config.host = 4 * MIB;
    tape_free(tape);
    make_loop(TAPE_READ | TAPE_WRITE, 1000);
    result = run(&config);
    ck_assert(!result.complete);
    ck_assert_ptr_nonnull(strstr(result.why, "no room for 4 MiB more on the host"));
    config.host = 0;
    result = run(&config);
    ck_assert(!result.complete);
    ck_assert_ptr_nonnull(strstr(result.why, "no room for 4 MiB more, and no host memory"));
    tape_free(tape);
}
END_TEST

/* A job that asks for all there was where it was recorded; what it is given less of it does not miss. */
START_TEST(test_what_is_only_asked_for)
{
    struct replay_config config = machine(16 * MIB);
    struct replay_result result, without;

    config.host = 64 * MIB;
    make_loop(TAPE_READ | TAPE_WRITE, 1000);
    without = run(&config);
    tape_free(tape);
    make_loop_and(81 * MIB, TAPE_READ | TAPE_WRITE, 1000);
    result = run(&config);
    ck_assert(result.complete && equal(result.left_out, (double)(81 * MIB)));
    ck_assert(equal(result.round, without.round) && equal(result.in, without.in));
    tape_free(tape);
    make_loop_and(80 * MIB, TAPE_READ | TAPE_WRITE, 1000);
    result = run(&config);
    ck_assert(result.complete && equal(result.left_out, 0));
    tape_free(tape);
}
END_TEST

static struct simulation *device(struct simulation_link link, uint64_t streams[], unsigned count)
{
    struct simulation_config config = {.link = link, .hbm = MIB, .host = MIB};
    struct simulation *simulation;

    ck_assert_int_eq(simulation_create(&config, &simulation), 0);
    for (unsigned i = 0; i < count; i++)
        ck_assert_int_eq(simulation_stream(simulation, &streams[i]), 0);
    return simulation;
}

/* Driver calls cost nothing here (driver_scale 0). One byte a nanosecond each way, half of that both at once.
 */
START_TEST(test_engines_share_the_link)
{
    uint64_t streams[3];
    struct simulation *simulation = device((struct simulation_link){1e9, 1e9, 5e8, 5e8}, streams, 3);
    const double latency = MACHINE_COPY_LATENCY;

    /* Alone: latency and bytes. */
    ck_assert_int_eq(simulation_transfer(simulation, streams[0], true, 10000), 0);
    ck_assert(simulation_drain_all(simulation));
    ck_assert(equal(simulation_now(simulation), latency + 10000));
    /* Two the same way, in different streams, follow each other. */
    ck_assert_int_eq(simulation_transfer(simulation, streams[0], true, 10000), 0);
    ck_assert_int_eq(simulation_transfer(simulation, streams[1], true, 5000), 0);
    ck_assert(simulation_drain_all(simulation));
    ck_assert(equal(simulation_now(simulation), 3 * latency + 25000));
    /* One each way: both at half the rate while both are there. */
    ck_assert_int_eq(simulation_transfer(simulation, streams[0], true, 10000), 0);
    ck_assert_int_eq(simulation_transfer(simulation, streams[1], false, 30000), 0);
    ck_assert(simulation_drain_all(simulation));
    ck_assert(equal(simulation_now(simulation), 3 * latency + 25000 + 2 * (latency + 10000) + 20000));
    simulation_destroy(simulation);
}
END_TEST

/* What is pinned is a part of what there is until it is given back. */
START_TEST(test_host_memory_has_an_end)
{
    struct simulation *simulation = device((struct simulation_link){1e9, 1e9, 1e9, 1e9}, NULL, 0);
    const struct device_ops *ops = simulation_ops(simulation);
    void *large, *small, *third;

    ck_assert_int_eq(ops->host_alloc(ops->ctx, MIB / 2, &large), 0);
    ck_assert_int_eq(ops->host_alloc(ops->ctx, MIB / 4, &small), 0);
    ck_assert_int_eq(ops->host_alloc(ops->ctx, MIB / 2, &third), -ENOMEM);
    ck_assert_int_eq(ops->host_free(ops->ctx, small), 0);
    ck_assert_int_eq(ops->host_alloc(ops->ctx, MIB / 2, &third), 0);
    ck_assert_int_eq(ops->host_alloc(ops->ctx, 1, &small), -ENOMEM);
    ck_assert_int_eq(ops->host_free(ops->ctx, large), 0);
    ck_assert_int_eq(ops->host_free(ops->ctx, large), -EINVAL);
    simulation_destroy(simulation);
}
END_TEST

/* An event waited for before it is recorded again is the earlier one. */
START_TEST(test_waits_are_for_the_record_before)
{
    uint64_t streams[2], event;
    struct simulation *simulation = device((struct simulation_link){1e9, 1e9, 1e9, 1e9}, streams, 2);
    const struct device_ops *ops = simulation_ops(simulation);

    ck_assert_int_eq(ops->event_create(ops->ctx, &event), 0);
    ck_assert_int_eq(ops->event_query(ops->ctx, event), 0); /* never recorded: completed */
    ck_assert_int_eq(simulation_kernel(simulation, streams[0], 1000), 0);
    ck_assert_int_eq(ops->event_record(ops->ctx, event, streams[0]), 0);
    ck_assert_int_eq(ops->stream_wait(ops->ctx, streams[1], event), 0);
    ck_assert_int_eq(simulation_kernel(simulation, streams[1], 10), 0);
    ck_assert_int_eq(simulation_kernel(simulation, streams[0], 5000), 0);
    ck_assert_int_eq(ops->event_record(ops->ctx, event, streams[0]), 0);
    ck_assert_int_eq(ops->event_query(ops->ctx, event), -EBUSY);
    ck_assert(simulation_drain(simulation, streams[1]));
    ck_assert(equal(simulation_now(simulation), 1010));
    ck_assert_int_eq(ops->event_synchronize(ops->ctx, event), 0);
    ck_assert(equal(simulation_now(simulation), 6000));
    ck_assert_int_eq(ops->event_query(ops->ctx, event), 0);
    simulation_destroy(simulation);
}
END_TEST

/* A copy is late where its operation could have started before it ended, and that is for its own stream to
 * say. */
START_TEST(test_late_copies)
{
    uint64_t streams[1], events[2], ours;
    struct simulation *simulation = device((struct simulation_link){1e9, 1e9, 1e9, 1e9}, streams, 1);
    const struct device_ops *ops = simulation_ops(simulation);
    const double copied = MACHINE_COPY_LATENCY + 4096;
    struct arrivals arrivals = {0};
    uint32_t number;
    uint64_t device_address;

    ck_assert_int_eq(ops->reserve(ops->ctx, 65536, &device_address), 0);
    ck_assert_int_eq(ops->stream_create(ops->ctx, &ours), 0);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(ops->event_create(ops->ctx, &events[i]), 0);
        ck_assert_int_eq(ops->copy(ops->ctx, ours, device_address + i * 8192, 0, 4096), 0);
        ck_assert_int_eq(ops->event_record(ops->ctx, events[i], ours), 0);
    }
    ck_assert_int_eq(arrivals_note(&arrivals, simulation), 0);
    /* The first is needed at once; the second while the kernel before it runs for longer than the copy takes.
     */
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(ops->stream_wait(ops->ctx, streams[0], events[i]), 0);
        arrivals_claim(&arrivals, simulation, device_address + i * 8192 + 4095, 1);
        ck_assert(arrivals_operation(&arrivals, &number));
        ck_assert_uint_eq(number, i);
        ck_assert_int_eq(simulation_watch(simulation, streams[0], number), 0);
        ck_assert_int_eq(simulation_kernel(simulation, streams[0], 2 * copied), 0);
        arrivals_claim(&arrivals, simulation, device_address + i * 8192, 4096);
        ck_assert(!arrivals_operation(&arrivals, &number)); /* it was for the one before */
    }
    ck_assert(simulation_drain_all(simulation));
    ck_assert(equal(simulation_now(simulation), 5 * copied));
    ck_assert(equal(simulation_watched(simulation, 0), 0));
    ck_assert(equal(simulation_watched(simulation, 1), 3 * copied));
    ck_assert(equal(arrivals_late(&arrivals, simulation, 0, 2), 4096));
    ck_assert(equal(arrivals_late(&arrivals, simulation, 1, 2), 0));
    /* What came in for memory that was given back is for nobody. */
    ck_assert_int_eq(ops->copy(ops->ctx, ours, device_address, 0, 4096), 0);
    ck_assert_int_eq(arrivals_note(&arrivals, simulation), 0);
    arrivals_drop(&arrivals, simulation, device_address, 4096);
    arrivals_claim(&arrivals, simulation, device_address, 4096);
    ck_assert(!arrivals_operation(&arrivals, &number));
    arrivals_free(&arrivals);
    simulation_destroy(simulation);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replay");
    TCase *all = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(all, test_everything_fits);
    tcase_add_test(all, test_own_order);
    tcase_add_test(all, test_lru_misses_all_of_a_loop);
    tcase_add_test(all, test_clean_data_is_not_written_back);
    tcase_add_test(all, test_window_moves_less);
    tcase_add_test(all, test_bip_keeps_most_of_a_loop);
    tcase_add_loop_test(all, test_times_repeat, 0, 2);
    tcase_add_test(all, test_what_does_not_fit_is_said);
    tcase_add_test(all, test_what_is_only_asked_for);
    tcase_add_test(all, test_engines_share_the_link);
    tcase_add_test(all, test_host_memory_has_an_end);
    tcase_add_test(all, test_waits_are_for_the_record_before);
    tcase_add_test(all, test_late_copies);
    suite_add_tcase(suite, all);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
