// SPDX-License-Identifier: Apache-2.0
// Tests of the ranks of `bench comm` in host memory and on the shadow accelerator: all results are verified, one wrong
// bit is found, the baseline moves the defined bytes, and nothing stays allocated.
#include "bench/comm/comm_ranks.h"

#include "ref/arithmetic/shadow_test.h"

#include <criterion/criterion.h>

#include <stdatomic.h>

// Forms of an operation: bit 0, uneven; bit 1, in place.
enum { FORMS = 4, DEVICES = 2 };

static struct bench_device device = {&shadow_accelerator, 1};
static bool on_host;  // instead of the device
static enum dtype dtype;

static struct comm_setting setting_of(enum operation operation, int world, int form)
{
    return (struct comm_setting){.device = on_host ? NULL : &device,
                                 .operation = operation,
                                 .dtype = dtype,
                                 .world = world,
                                 .count = 1013,  // odd when rounded to 3 ranks, too
                                 .uneven = form & 1,
                                 .in_place = form & 2};
}

static bool exists(enum operation operation, int form)
{
    return (!(form & 1) || comm_ranks_has_shards(operation)) && (!(form & 2) || comm_ranks_has_in_place(operation));
}

static void open_ranks(const struct comm_setting *setting, struct comm_ranks *ranks)
{
    cr_assert_eq(comm_ranks_open(setting, ranks), ERR_NONE, "%s", err_message());
}

static void repeat(struct comm_ranks *ranks, enum task task, bool poisons)
{
    cr_assert_eq(comm_ranks_prepare(ranks, task, poisons), ERR_NONE, "%s", err_message());
    cr_assert_eq(comm_ranks_repeat(ranks), ERR_NONE, "%s", err_message());
}

static size_t close_ranks(struct comm_ranks *ranks)
{
    size_t wrong_count;
    cr_assert_eq(comm_ranks_close(ranks, &wrong_count), ERR_NONE, "%s", err_message());
    cr_expect_eq(shadow.block_count, 0);
    cr_expect_eq(shadow.lock_count, shadow.unlock_count);
    return wrong_count;
}

static void flip(char *element)
{
    uint32_t bits = 0;
    cr_assert_eq(bytes_copy(&bits, element, dtype_bytes(dtype)), ERR_NONE);
    bits ^= 1;
    cr_assert_eq(bytes_copy(element, &bits, dtype_bytes(dtype)), ERR_NONE);
}

// Returns the wrong elements found after changing a bit of a rank's first or last element; spoiled_rank -1: of none.
static size_t wrong_after_spoiling(const struct comm_setting *setting, int spoiled_rank, bool last)
{
    struct comm_ranks ranks;
    open_ranks(setting, &ranks);
    for (int i = 0; i < 3; i++) {
        ranks.calls = setting->in_place ? 1 : (size_t)i + 1;
        repeat(&ranks, TASK_COLLECTIVE, i % 2);
    }
    if (spoiled_rank >= 0) {
        const struct comm_rank *rank = &ranks.ranks[spoiled_rank];
        cr_assert_eq(accelerator_of(rank->send), on_host ? NULL : device.accelerator);
        flip(comm_rank_result(rank) + (last ? (comm_rank_result_count(rank) - 1) * dtype_bytes(setting->dtype) : 0));
    }
    repeat(&ranks, TASK_COPY, false);
    return close_ranks(&ranks);
}

static void expect_every_element_verified(void)
{
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++)
        for (int form = 0; form < FORMS; form++)
            for (int world = 1; world <= 4 && exists(operation, form); world++) {
                const char *name = comm_ranks_operation_name(operation);
                struct comm_setting setting = setting_of(operation, world, form);
                cr_expect_eq(wrong_after_spoiling(&setting, -1, false), 0, "%s of %s among %d, form %d", name,
                             dtype_name(dtype), world, form);
                cr_expect_eq(wrong_after_spoiling(&setting, world - 1, false), 1, "%s of %s among %d, form %d", name,
                             dtype_name(dtype), world, form);
                cr_expect_eq(wrong_after_spoiling(&setting, 0, true), 1, "%s of %s among %d, form %d", name,
                             dtype_name(dtype), world, form);
            }
}

Test(comm_device, concurrent_every_element_in_host_memory_is_verified)
{
    on_host = true;
    for (dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++)
        expect_every_element_verified();
}

Test(comm_device, concurrent_every_element_on_the_device_is_verified_and_all_memory_is_freed)
{
    for (dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++)
        expect_every_element_verified();
}

// Among 64 ranks the bits that tell ranks apart are all used.
Test(comm_device, concurrent_the_values_of_many_ranks_have_exact_sums)
{
    on_host = true;
    for (dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++)
        for (int world = 61; world <= WORLD_MAX; world += 3) {
            struct comm_setting setting = setting_of(ALL_REDUCE, world, 0);
            cr_expect_eq(wrong_after_spoiling(&setting, -1, false), 0, "%s, %d", dtype_name(dtype), world);
            setting.count = 1;
            cr_expect_eq(wrong_after_spoiling(&setting, -1, false), 0, "%s, %d", dtype_name(dtype), world);
        }
}

Test(comm_device, a_result_of_several_stages_is_verified_to_its_last_element)
{
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++) {
        struct comm_setting setting = setting_of(operation, 2, 0);
        setting.count = 4 * COMM_STAGE_COUNT + 6;
        cr_expect_eq(wrong_after_spoiling(&setting, -1, false), 0, "%s", comm_ranks_operation_name(operation));
        cr_expect_eq(wrong_after_spoiling(&setting, 1, true), 1, "%s", comm_ranks_operation_name(operation));
    }
}

// A wrong element in the last of three pieces, after results that were not poisoned and after one that was.
Test(comm_device, of_a_result_that_is_too_large_other_pieces_are_verified_each_time)
{
    struct comm_setting setting = setting_of(ALL_REDUCE, 2, 0);
    struct comm_ranks ranks;
    setting.count = 3 * COMM_STAGE_COUNT;
    open_ranks(&setting, &ranks);
    ranks.whole_bytes = setting.count * sizeof(float) - 1;
    for (int i = 0; i <= COMM_SAMPLED_PIECES; i++) {
        repeat(&ranks, TASK_COLLECTIVE, i == COMM_SAMPLED_PIECES);
        flip(comm_rank_result(&ranks.ranks[1]) + (setting.count - 1) * dtype_bytes(setting.dtype));
    }
    cr_expect_eq(close_ranks(&ranks), 2);
}

static atomic_size_t allocated_bytes;

static int counted_allocate(size_t bytes, void **out)
{
    atomic_fetch_add(&allocated_bytes, bytes);
    return shadow_allocate(bytes, out);
}

Test(comm_device, the_memory_of_a_case_on_a_device_is_known_before_it)
{
    struct accelerator accelerator = shadow_accelerator;
    accelerator.allocate = counted_allocate;
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++)
        for (int form = 0; form < FORMS; form++)
            for (int world = 1; world <= 5 && exists(operation, form); world++) {
                struct comm_ranks ranks;
                device = (struct bench_device){&accelerator, 1};
                allocated_bytes = 0;
                struct comm_setting setting = setting_of(operation, world, form);
                open_ranks(&setting, &ranks);
                size_t needs_bytes = comm_ranks_device_bytes(&setting), few = 2 * (size_t)world * sizeof(float);
                // Remainders of shards, and an element that gives an empty shard an address.
                cr_expect_leq(allocated_bytes, needs_bytes + few, "%d of %d, form %d", operation, world, form);
                cr_expect_geq(allocated_bytes + allocated_bytes / 2 + 2 * few, needs_bytes);
                close_ranks(&ranks);
                device.count = 2;
                cr_expect_eq(comm_ranks_device_bytes(&setting) * (size_t)world,
                             needs_bytes * (size_t)((world + 1) / 2));
            }
    on_host = true;
    struct comm_setting setting = setting_of(ALL_GATHER, 2, 0);
    cr_expect_eq(comm_ranks_device_bytes(&setting), 0);
}

static atomic_int folds_until_wrong;

// In one of all folds, flips a bit of the last element, as if a thread of the device had missed it.
static void wrong_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                       size_t count)
{
    shadow_fold(in_dtype, in, world, out_dtype, out, count);
    uint32_t *last = (uint32_t *)at(out) + count - 1;
    if (atomic_fetch_sub(&folds_until_wrong, 1) == 1)
        *last ^= 1;
}

Test(comm_device, one_wrong_bit_of_a_fold_on_the_device_is_found)
{
    static struct isa_kernels kernels;
    static struct accelerator accelerator;
    kernels = shadow_kernels;
    accelerator = shadow_accelerator;
    kernels.fold = wrong_fold;
    accelerator.kernels = &kernels;
    device.accelerator = &accelerator;
    // One rank in its own place has nothing to fold.
    for (int form = 0; form < FORMS; form++)
        for (int world = form & 2 ? 2 : 1; world <= 4; world++) {
            // Each rank folds once per call, so this is the last fold of the first repetition, which has one call.
            struct comm_setting setting = setting_of(REDUCE_SCATTER, world, form);
            folds_until_wrong = world;
            cr_expect_eq(wrong_after_spoiling(&setting, -1, false), 1, "reduce-scatter among %d, form %d", world, form);
            if (form & 1)
                continue;
            setting.operation = ALL_REDUCE;
            folds_until_wrong = world;
            cr_expect_eq(wrong_after_spoiling(&setting, -1, false), world, "all-reduce among %d: every rank has it",
                         world);
        }
}

// A task writes the elements of recv that the collective writes, and no others.
static void expect_same_extent(enum task task)
{
    static const uint32_t poison = 0xffffffff;
    size_t bytes = dtype_bytes(dtype);
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++)
        for (int form = 0; form < 2; form++)
            for (int world = 1; world <= 4 && exists(operation, form); world++) {
                struct comm_setting setting = setting_of(operation, world, form);
                struct comm_ranks ranks;
                open_ranks(&setting, &ranks);
                repeat(&ranks, task, true);
                for (int i = 0; i < world; i++) {
                    const struct comm_rank *rank = &ranks.ranks[i];
                    const char *recv = on_host ? rank->recv : at(rank->recv);
                    for (size_t k = 0; k < comm_rank_recv_count(rank); k++)
                        cr_assert_eq(memcmp(recv + k * bytes, &poison, bytes) != 0, k < comm_rank_result_count(rank),
                                     "%s of %s among %d, rank %d, element %zu", comm_ranks_operation_name(operation),
                                     dtype_name(dtype), world, i, k);
                }
                close_ranks(&ranks);
            }
}

Test(comm_device, concurrent_the_baseline_writes_what_the_collective_writes)
{
    static const enum task tasks[] = {TASK_COLLECTIVE, TASK_COPY, TASK_MEET_AND_COPY, TASK_COPY_AROUND_CACHE};
    for (dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        on_host = false;
        for (int i = 0; i < 3; i++)
            expect_same_extent(tasks[i]);
        on_host = true;
        for (int i = 0; i < 4; i++)
            expect_same_extent(tasks[i]);
    }
}

static atomic_size_t copied_bytes;
static atomic_int entered[DEVICES];

static int counted_copy(void *to, const void *from, size_t bytes)
{
    if (shadow_find(to) && shadow_find(from))
        atomic_fetch_add(&copied_bytes, bytes);
    return shadow_copy(to, from, bytes);
}

static int counted_enter(int index)
{
    atomic_fetch_add(&entered[index], 1);
    return shadow_enter(index);
}

// Returns the bytes that the baseline copies among four ranks on this number of devices.
static size_t copied_by_baseline(enum operation operation, int devices)
{
    struct accelerator accelerator = shadow_accelerator;
    accelerator.copy = counted_copy;
    accelerator.enter = counted_enter;
    device = (struct bench_device){&accelerator, devices};
    entered[0] = entered[1] = 0;
    struct comm_setting setting = setting_of(operation, 4, 0);
    setting.count = 4000;
    struct comm_ranks ranks;
    open_ranks(&setting, &ranks);
    copied_bytes = 0;
    repeat(&ranks, TASK_COPY, false);
    size_t bytes = copied_bytes;
    cr_expect_eq(close_ranks(&ranks), 0);
    return bytes;
}

Test(comm_device, the_baseline_moves_no_more_than_the_collective_must)
{
    cr_expect_eq(copied_by_baseline(ALL_GATHER, 1), 4 * 4 * 4000);
    cr_expect_eq(copied_by_baseline(ALL_TO_ALL, 1), 4 * 4 * 4000);
    cr_expect_eq(copied_by_baseline(ALL_REDUCE, 1), 4 * 4 * 4000);
    cr_expect_eq(copied_by_baseline(BROADCAST, 1), 4 * 3 * 4000);
    // Each rank copies its own 1000 and half of 1000 of three others; on two devices, two of the three are on the
    // other.
    cr_expect_eq(copied_by_baseline(REDUCE_SCATTER, 1), 4 * 4 * (1000 + 3 * 500));
    cr_expect_eq(entered[0], 4);
    cr_expect_eq(copied_by_baseline(REDUCE_SCATTER, 2), 4 * 4 * (1000 + 500 + 2 * 1000));
    cr_expect_eq(entered[0], 2);
    cr_expect_eq(entered[1], 2);
}

static int full(size_t bytes, void **out)
{
    return bytes > 4000 ? err_set(ERR_MEMORY, "the shadow is full") : shadow_allocate(bytes, out);
}

Test(comm_device, too_little_device_memory_is_an_error_that_names_the_rank_and_frees_everything)
{
    struct accelerator accelerator = shadow_accelerator;
    accelerator.allocate = full;
    device.accelerator = &accelerator;
    struct comm_setting setting = setting_of(ALL_TO_ALL, 3, 1);
    struct comm_ranks ranks;
    cr_expect_eq(comm_ranks_open(&setting, &ranks), ERR_MEMORY);
    cr_expect(strstr(err_message(), "'s buffers: the shadow is full"), "%s", err_message());
    cr_expect_eq(shadow.block_count, 0);
}
