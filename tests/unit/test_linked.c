/*
 * Memory that is reached over the link: whatever open operations, operations larger than HBM, closed ones,
 * copies and frees follow each other, each finds what the one before has left; and while an open operation
 * waits, other streams go on.
 */
#include "cache/linked.h"
#include "tests/unit/fake_cache.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 16, BUFFERS = 14, STEPS = 600 };
#define FRAME ((uint64_t)FAKE_GRANULE)

static struct fake_device fake;
static struct cache *cache;
static uint64_t value;

/* Each is one stream's own, so that nothing but the cache has to order anything between streams. */
struct buffer {
    uint64_t address, bytes, value; /* bytes 0: not allocated; value 0: never written */
};
struct side {
    uint64_t stream;
    struct buffer buffer[BUFFERS];
};
static struct side one, two, three, four;

static void start(uint64_t frames, uint64_t host, bool strict, uint64_t seed)
{
    struct cache_config config = {.frame_size = FRAME,
                                  .hbm_limit = frames * FRAME,
                                  .host_limit = host * FRAME,
                                  .policy = (enum cache_policy)(seed % 3),
                                  .slot_most = seed / 2 % 4 * FRAME,
                                  .strict = strict};

    value = 0;
    memset(&one, 0, sizeof one);
    memset(&two, 0, sizeof two);
    memset(&three, 0, sizeof three);
    memset(&four, 0, sizeof four);
    fake_init(&fake, frames * FRAME, host * FRAME, seed);
    ck_assert_int_eq(cache_create(&fake.ops, &config, &cache), 0);
    one.stream = fake_stream(&fake);
    two.stream = fake_stream(&fake);
    three.stream = fake_stream(&fake);
    four.stream = fake_stream(&fake);
}

static unsigned draw(unsigned n)
{
    return (unsigned)(fake_random(&fake) % n);
}

static void make(struct buffer *buffer, uint64_t bytes)
{
    struct cache_failure failure;

    ck_assert_int_eq(cache_alloc(cache, bytes, &buffer->address, &failure), 0);
    buffer->bytes = bytes;
    buffer->value = 0;
}

static void drop(struct side *side, struct buffer *buffer)
{
    ck_assert_int_eq(cache_free(cache, buffer->address, &(struct stream_key){side->stream, 0}), 0);
    buffer->bytes = 0;
}

/* Reads `count' buffers from the first-th on, and writes some of them; open: without saying which. */
static int operate(struct side *side, unsigned first, unsigned count, bool open)
{
    struct cache_touch touches[FAKE_BUFFERS];
    struct fake_op kernel = {.count = 0};
    struct cache_op op;
    int error;

    for (unsigned i = 0; i < count; i++) {
        struct buffer *buffer = &side->buffer[(first + i) % BUFFERS];

        if (!buffer->bytes)
            continue;
        touches[kernel.count] = (struct cache_touch){buffer->address, CACHE_READ | CACHE_WRITE};
        kernel.buffers[kernel.count] = buffer->address;
        kernel.bytes[kernel.count] = buffer->bytes;
        kernel.expect[kernel.count] = buffer->value;
        kernel.value[kernel.count++] = !buffer->value || draw(2) ? value + i + 1 : 0;
    }
    error = open ? cache_op_begin_all(cache, &op, (struct stream_key){side->stream, 0})
                 : cache_op_begin(cache, &op, (struct stream_key){side->stream, 0}, touches, kernel.count);
    if (error)
        return error;
    for (unsigned i = 0, k = 0; i < count; i++)
        if (side->buffer[(first + i) % BUFFERS].bytes && kernel.value[k++])
            side->buffer[(first + i) % BUFFERS].value = value + i + 1;
    value += count;
    fake_kernel(&fake, side->stream, &kernel);
    cache_op_end(cache, &op, true);
    return 0;
}

static void copy(struct side *side, const struct buffer *from, struct buffer *to)
{
    bool in_slot;

    if (!from->bytes || from->bytes != to->bytes || from == to || !from->value)
        return;
    ck_assert_int_eq(
        fake_cache_copy(&fake, cache, side->stream, to->address, from->address, to->bytes, &in_slot), 0);
    to->value = from->value;
}

/* Two of 14 times 5 frames do not fit into 16; the operations of `two' are closed and small. */
static void step(void)
{
    struct side *side = draw(3) ? &one : &two;
    struct buffer *buffer = &side->buffer[draw(side == &one ? BUFFERS : 4)];
    unsigned first = draw(BUFFERS);

    switch (draw(8)) {
    case 0:
        if (buffer->bytes)
            drop(side, buffer);
        break;
    case 1:
    case 2:
        if (!buffer->bytes)
            make(buffer, (1 + draw(5)) * FRAME);
        break;
    case 3:
        copy(side, &side->buffer[first], buffer);
        break;
    case 4:
        ck_assert_int_eq(operate(&one, first, 1 + draw(4), true), 0);
        break;
    case 5:
        ck_assert_int_eq(operate(side, first, 1 + draw(FAKE_BUFFERS), false), 0);
        break;
    default:
        ck_assert_int_eq(operate(side, first, 1 + draw(3), false), 0);
        break;
    }
    fake_run(&fake, draw(6));
}

START_TEST(contents_survive)
{
    start(FRAMES, 100, _i % 2, (uint64_t)_i + 1);
    for (unsigned i = 0; i < STEPS; i++) {
        step();
        ck_assert_uint_eq(fake.faults + fake.mismatches, 0);
    }
    ck_assert_uint_gt(cache_statistics(cache)->linked_operations, 0);
    ck_assert_uint_gt(cache_statistics(cache)->fills, 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

/* What stands in the stream from now on waits until the gate is opened. */
static uint64_t gate_shut(uint64_t stream)
{
    uint64_t event;

    ck_assert_int_eq(fake.ops.event_create(&fake, &event), 0);
    fake.recorded[event]++;
    ck_assert_int_eq(fake.ops.stream_wait(&fake, stream, event), 0);
    return event;
}

/*
 * An open operation waits. Other streams' operations, on what is spilled, on what is in HBM and on what was
 * never touched, end before it does.
 */
START_TEST(others_go_on)
{
    uint64_t gate, operations;
    struct fake_op kernel = {.count = 0};
    struct cache_op op;

    start(FRAMES, 100, _i % 2, 7);
    for (unsigned i = 0; i < 6; i++)
        make(&two.buffer[i], 4 * FRAME);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(operate(&two, i, 1, false), 0);
    ck_assert(fake_drain(&fake));
    gate = gate_shut(one.stream);
    ck_assert_int_eq(cache_op_begin_all(cache, &op, (struct stream_key){one.stream, 0}), 0);
    fake_kernel(&fake, one.stream, &kernel);
    cache_op_end(cache, &op, true);
    for (unsigned i = 0; i < 6; i++)
        ck_assert_int_eq(operate(&two, i, 1, false), 0);
    make(&two.buffer[6], 4 * FRAME);
    ck_assert_int_eq(operate(&two, 6, 1, false), 0);
    copy(&two, &two.buffer[0], &two.buffer[1]);
    operations = fake.operations_run;
    ck_assert(!fake_drain(&fake)); /* the gate is shut */
    ck_assert_uint_ge(fake.operations_run - operations, 8);
    ck_assert_ptr_null(fake.head[two.stream]);
    fake.done[gate] = fake.recorded[gate];
    ck_assert(fake_drain(&fake));
    for (unsigned i = 0; i < 7; i++) /* all closed: back in HBM */
        ck_assert_int_eq(operate(&two, i, 1, false), 0);
    ck_assert_int_eq(fake.ops.event_destroy(&fake, gate), 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

/* Slots that are kept for their mappings alone are given up where one of another size is needed. */
START_TEST(kept_slots_are_found)
{
    start(4, 8, false, 3);
    for (unsigned i = 0; i < 4; i++)
        make(&one.buffer[i], 2 * FRAME);
    ck_assert_int_eq(operate(&one, 0, 4, true), 0);
    for (unsigned i = 0; i < 4; i++)
        drop(&one, &one.buffer[i]);
    for (unsigned i = 0; i < 3; i++) {
        make(&one.buffer[i], 3 * FRAME);
        ck_assert_int_eq(operate(&one, i, 1, false), 0);
    }
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(operate(&one, i, 1, false), 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

/*
 * A slot changes hands while a copy of the job's into it is still queued. Who gets it linked in another
 * stream comes after that.
 */
START_TEST(a_slot_has_had_an_owner)
{
    uint64_t gate;

    start(4, 8, _i, 3); /* by LRU */
    for (unsigned i = 0; i < 3; i++) {
        make(&one.buffer[i], 2 * FRAME);
        ck_assert_int_eq(operate(&one, i, 1, false), 0);
    }
    ck_assert(fake_drain(&fake)); /* 0 is spilled */
    gate = gate_shut(one.stream);
    copy(&one, &one.buffer[1], &one.buffer[0]);
    ck_assert_uint_gt(cache_statistics(cache)->slot_bytes, 0);
    drop(&one, &one.buffer[0]);
    make(&two.buffer[0], 2 * FRAME - 4096); /* at another address */
    ck_assert_int_eq(operate(&two, 0, 1, true), 0);
    (void)fake_drain(&fake);
    fake.done[gate] = fake.recorded[gate];
    ck_assert(fake_drain(&fake));
    ck_assert_int_eq(operate(&two, 0, 1, false), 0);
    ck_assert_int_eq(fake.ops.event_destroy(&fake, gate), 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

/* The same where the job's copy reads it. */
START_TEST(a_slot_is_still_read)
{
    uint64_t gate;

    start(4, 8, _i, 3);
    for (unsigned i = 0; i < 3; i++) {
        make(&one.buffer[i], 2 * FRAME);
        ck_assert_int_eq(operate(&one, i, 1, false), 0);
    }
    ck_assert(fake_drain(&fake)); /* 0 is spilled */
    gate = gate_shut(one.stream);
    copy(&one, &one.buffer[0], &one.buffer[1]);
    drop(&one, &one.buffer[0]);
    make(&two.buffer[0], 2 * FRAME - 4096);
    ck_assert_int_eq(operate(&two, 0, 1, true), 0);
    (void)fake_drain(&fake);
    fake.done[gate] = fake.recorded[gate];
    ck_assert(fake_drain(&fake));
    ck_assert_int_eq(operate(&one, 1, 1, false), 0);
    ck_assert_int_eq(fake.ops.event_destroy(&fake, gate), 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

/*
 * While an open operation waits, an operation of a fourth stream is linked and moves nothing: it comes after
 * nothing but what its slot's last owner has queued. The gate is then opened, and both are right.
 */
static void linked_beside(uint64_t gate)
{
    uint64_t linked = cache_statistics(cache)->linked_operations, slots = fake.slots_live;

    ck_assert_int_eq(operate(&three, 0, 0, true), 0);
    make(&four.buffer[0], 2 * FRAME - 4096);
    ck_assert_int_eq(operate(&four, 0, 1, false), 0);
    ck_assert_uint_gt(cache_statistics(cache)->linked_operations, linked);
    ck_assert_uint_eq(fake.slots_live, slots); /* it is the one that was given back */
    (void)fake_drain(&fake);
    fake.done[gate] = fake.recorded[gate];
    ck_assert(fake_drain(&fake));
    ck_assert_int_eq(operate(&four, 0, 1, false), 0);
    ck_assert_int_eq(fake.ops.event_destroy(&fake, gate), 0);
    fake_cache_stop(&fake, cache);
}

START_TEST(a_slot_is_still_copied_into)
{
    uint64_t gate;

    start(4, 8, false, 3);
    make(&one.buffer[0], 2 * FRAME);
    gate = gate_shut(one.stream);
    ck_assert_int_eq(operate(&one, 0, 1, false), 0);
    for (unsigned i = 0; i < 2; i++) {
        make(&two.buffer[i], 2 * FRAME);
        ck_assert_int_eq(operate(&two, i, 1, false), 0);
    }
    ck_assert_uint_gt(cache_statistics(cache)->evictions, 0); /* the copy out stands behind the gate */
    drop(&one, &one.buffer[0]);
    linked_beside(gate);
}
END_TEST

/* The same where it takes two, each with a last owner of its own: only what the second has is still to come.
 */
START_TEST(one_slot_of_two_is_still_copied_into)
{
    uint64_t gate;

    start(4, 8, false, 3); /* slots of a frame */
    for (unsigned i = 0; i < 2; i++)
        make(&one.buffer[i], FRAME);
    ck_assert_int_eq(operate(&one, 0, 1, false), 0);
    ck_assert_int_eq(cache_record_always(cache, true), 0); /* that can be waited for without the other */
    gate = gate_shut(one.stream);
    ck_assert_int_eq(operate(&one, 1, 1, false), 0);
    ck_assert_int_eq(cache_record_always(cache, false), 0);
    for (unsigned i = 0; i < 2; i++) {
        make(&two.buffer[i], 2 * FRAME);
        ck_assert_int_eq(operate(&two, i, 1, false), 0);
    }
    ck_assert_uint_eq(cache_statistics(cache)->evictions, 2);
    drop(&one, &one.buffer[1 - _i]); /* the next owner gets them in one order or the other */
    drop(&one, &one.buffer[_i]);
    linked_beside(gate);
}
END_TEST

START_TEST(a_slot_is_still_copied_from)
{
    uint64_t gate;

    start(4, 12, false, 3);
    make(&one.buffer[0], 2 * FRAME);
    ck_assert_int_eq(operate(&one, 0, 1, false), 0);
    for (unsigned i = 0; i < 2; i++) {
        make(&two.buffer[i], 2 * FRAME);
        ck_assert_int_eq(operate(&two, i, 1, false), 0);
    }
    ck_assert(fake_drain(&fake)); /* it is spilled */
    gate = gate_shut(two.stream);
    ck_assert_int_eq(operate(&two, 0, 2, false), 0);
    ck_assert_int_eq(operate(&one, 0, 1, false), 0); /* the copy in stands behind one of those */
    drop(&one, &one.buffer[0]);
    linked_beside(gate);
}
END_TEST

/* Without handles, out of memory as before, and nothing was begun. */
START_TEST(unlinked_is_refused)
{
    start(4, 12, false, 3);
    fake.no_handles = true;
    for (unsigned i = 0; i < 4; i++)
        make(&one.buffer[i], 2 * FRAME);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(operate(&one, i, 1, false), 0);
    ck_assert_int_eq(operate(&one, 0, 4, true), -ENOMEM);
    ck_assert_int_eq(operate(&one, 0, 4, false), -ENOMEM);
    ck_assert_uint_eq(cache_statistics(cache)->linked_operations, 0);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(operate(&one, i, 1, false), 0);
    fake_cache_stop(&fake, cache);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linked");
    TCase *one_case = tcase_create("linked");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(one_case, 60);
    tcase_add_loop_test(one_case, contents_survive, 0, 60);
    tcase_add_loop_test(one_case, others_go_on, 0, 2);
    tcase_add_test(one_case, kept_slots_are_found);
    tcase_add_loop_test(one_case, a_slot_has_had_an_owner, 0, 2);
    tcase_add_loop_test(one_case, a_slot_is_still_read, 0, 2);
    tcase_add_test(one_case, a_slot_is_still_copied_into);
    tcase_add_loop_test(one_case, one_slot_of_two_is_still_copied_into, 0, 2);
    tcase_add_test(one_case, a_slot_is_still_copied_from);
    tcase_add_test(one_case, unlinked_is_refused);
    suite_add_tcase(suite, one_case);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
