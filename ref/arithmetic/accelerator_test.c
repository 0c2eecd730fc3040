// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/accelerator.h"

#include "ref/comm/comm_local.h"
#include "ref/arithmetic/dtype.h"
#include "ref/executor/executor_test.h"
#include "ref/arithmetic/shadow_test.h"
#include "ref/tier/tier.h"

#include <criterion/criterion.h>
#include <sys/wait.h>

static struct tier *open_tier(const struct tier_setting *setting)
{
    struct tier *tier = NULL;
    cr_assert_eq(tier_open(NULL, setting, &tier), ERR_NONE, "%s", err_message());
    return tier;
}

static void *take(struct tier *tier, enum ledger_tier where, size_t bytes)
{
    void *memory = NULL;
    cr_assert_eq(tier_allocate(tier, where, KIND_GRADIENT, "gradients", bytes, 0, &memory), ERR_NONE, "%s",
                 err_message());
    return memory;
}

static const struct tier_setting apart = {.accelerator = &shadow_accelerator, .device = 1};

Test(accelerator, memory_is_whose_it_was_claimed_for_until_it_is_disclaimed)
{
    static char around[65], other[64];
    char *memory = around + 1;
    cr_expect_null(accelerator_of(memory));
    cr_assert_eq(accelerator_claim(&shadow_accelerator, memory, 32), ERR_NONE);
    cr_assert_eq(accelerator_claim(&shadow_accelerator, other, 1), ERR_NONE);
    cr_expect_eq(accelerator_of(memory), &shadow_accelerator);
    cr_expect_eq(accelerator_of(memory + 31), &shadow_accelerator);
    cr_expect_null(accelerator_of(memory + 32));
    cr_expect_null(accelerator_of(memory - 1));
    accelerator_disclaim(memory);
    cr_expect_null(accelerator_of(memory));
    cr_expect_eq(accelerator_of(other), &shadow_accelerator);
    accelerator_disclaim(other);
    cr_expect_null(accelerator_of(other));
}

Test(accelerator, the_device_tier_is_its_memory_and_the_host_tier_is_not)
{
    struct tier *tier = open_tier(&apart);
    cr_expect_eq(shadow_device, 1);
    void *device = take(tier, TIER_DEVICE, 1000), *host = take(tier, TIER_HOST, 1000);
    cr_expect_eq(accelerator_of(device), &shadow_accelerator);
    cr_expect_null(accelerator_of(host));
    cr_expect_str_eq(tier_name_of(tier, (char *)device + 999), "gradients");
    cr_expect_eq(tier_offset_of(tier, (char *)device + 999), 999);
    tier_free(tier, device);
    cr_expect_null(accelerator_of(device));
    cr_expect_null(tier_name_of(tier, device));
    tier_close(tier);
    cr_expect_eq(shadow.block_count, 0);
}

Test(accelerator, its_memory_begins_as_nan_and_is_counted_under_the_budget)
{
    struct tier_setting setting = apart;
    setting.device_bytes = 4096;
    struct tier *tier = open_tier(&setting);
    float values[250];
    void *device = take(tier, TIER_DEVICE, sizeof values), *refused = NULL;
    cr_assert_eq(bytes_copy(values, device, sizeof values), ERR_NONE);
    for (int i = 0; i < 250; i++)
        cr_expect_eq(f32_bits(values[i]), 0x7fc07fc0u, "element %d", i);
    cr_expect_eq(tier_allocate(tier, TIER_DEVICE, KIND_GRADIENT, "more", 3097, 0, &refused), ERR_BUDGET);
    void *rest = take(tier, TIER_DEVICE, 3096), *nothing = take(tier, TIER_DEVICE, 0);
    cr_expect_neq(rest, nothing);
    tier_close(tier);
}

Test(accelerator, planned_memory_asks_nothing_of_it)
{
    struct tier_setting setting = apart;
    setting.planned = true;
    struct tier *tier = open_tier(&setting);
    take(tier, TIER_DEVICE, (size_t)1 << 40);
    cr_expect_eq(shadow.block_count, 0);
    tier_close(tier);
}

// A write before the first byte or after the last, which cannot fault there, is found when the memory is freed.
Test(accelerator, a_write_beyond_an_end_of_its_memory_is_found)
{
    for (int position = 0; position < 4; position++) {
        struct tier *tier = open_tier(&apart);
        char *device = take(tier, TIER_DEVICE, 1001), *shadow_of = shadow_find(device),
             *at_position[] = {shadow_of - 1, shadow_of - 256, shadow_of + 1001, shadow_of + 1001 + 278};
        char before = *at_position[position];
        cr_expect(!accelerator_of(device + 1001 + 279));
        *at_position[position] ^= 1;
        pid_t child = fork();
        if (child == 0) {
            fclose(stderr);
            tier_free(tier, device);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        cr_expect(WIFSIGNALED(status), "position %d", position);
        *at_position[position] = before;
        tier_close(tier);
    }
}

static int refuse_to_lock(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
    return err_set(ERR_IO, "the device pins no more memory");
}

Test(accelerator, host_memory_for_transfers_is_locked_by_it_and_unlocked)
{
    struct tier_setting setting = apart;
    setting.lock_host = true;
    struct tier *tier = open_tier(&setting);
    take(tier, TIER_HOST, 5000);
    take(tier, TIER_DEVICE, 5000);
    cr_expect_eq(shadow.lock_count, 1);
    cr_expect_geq(shadow.locked_bytes, 5000u);
    cr_expect_eq(tier_unlocked_bytes(tier), 0u);
    cr_expect_eq(shadow.unlock_count, 0);
    tier_close(tier);
    cr_expect_eq(shadow.unlock_count, 1);
}

Test(accelerator, host_memory_that_it_refuses_to_pin_counts_as_unlocked)
{
    struct accelerator refusing = shadow_accelerator;
    refusing.lock = refuse_to_lock;
    struct tier_setting setting = apart;
    setting.lock_host = true;
    setting.accelerator = &refusing;
    struct tier *tier = open_tier(&setting);
    take(tier, TIER_HOST, 5000);
    cr_expect_eq(tier_unlocked_bytes(tier), 8192u);
    tier_close(tier);
    cr_expect_eq(shadow.unlock_count, 0);
}

Test(accelerator, copies_and_zeros_reach_both_sides)
{
    struct tier *tier = open_tier(&apart);
    uint16_t in[101], out[101] = {0};
    uint16_t *a = take(tier, TIER_DEVICE, sizeof in), *b = take(tier, TIER_DEVICE, sizeof in);
    for (uint16_t i = 0; i < 101; i++)
        in[i] = (uint16_t)(i * 257);
    cr_assert_eq(bytes_copy(a, in, sizeof in), ERR_NONE);
    cr_assert_eq(bytes_copy(b, a, sizeof in), ERR_NONE);
    cr_assert_eq(bytes_copy(out, b, sizeof in), ERR_NONE);
    cr_expect_arr_eq(out, in, sizeof in);
    cr_assert_eq(bytes_zero(b, 200), ERR_NONE);
    cr_assert_eq(bytes_copy(out, b, sizeof in), ERR_NONE);
    cr_expect_eq(out[99], 0);
    cr_expect_eq(out[100], in[100]);
    cr_assert_eq(bytes_zero(in, sizeof in), ERR_NONE);
    cr_expect_eq(in[100], 0);
    tier_close(tier);
}

Test(accelerator, arrays_are_worked_on_where_they_lie)
{
    struct tier *tier = open_tier(&apart);
    enum { COUNT = 67 };
    float in[COUNT], out[COUNT];
    struct bf16 expected[COUNT], narrow[COUNT];
    for (int i = 0; i < COUNT; i++)
        in[i] = 1.0f + (float)i * 0.001f;
    float *wide = take(tier, TIER_DEVICE, sizeof in);
    struct bf16 *half = take(tier, TIER_DEVICE, sizeof narrow);
    cr_assert_eq(bytes_copy(wide, in, sizeof in), ERR_NONE);
    dtype_narrow(DTYPE_BF16, in, expected, COUNT);
    dtype_narrow(DTYPE_BF16, wide, half, COUNT);
    cr_assert_eq(bytes_copy(narrow, half, sizeof narrow), ERR_NONE);
    cr_expect_arr_eq(narrow, expected, sizeof narrow);
    dtype_accumulate(DTYPE_FP32, wide, DTYPE_BF16, half, COUNT);
    dtype_accumulate(DTYPE_FP32, in, DTYPE_BF16, expected, COUNT);
    cr_assert_eq(bytes_copy(out, wide, sizeof out), ERR_NONE);
    cr_expect_arr_eq(out, in, sizeof out);
    cr_expect_eq(norm_max(DTYPE_FP32, wide, COUNT), norm_max(DTYPE_FP32, in, COUNT));
    tier_close(tier);
}

static int set_code(void *code)
{
    shadow_code = *(int *)code;
    return ERR_NONE;
}

Test(accelerator, an_operation_fails_with_what_it_left_behind_there)
{
    const struct executor_schedule schedules[] = {SERIAL, OVERLAP, chaos(3)};
    for (int i = 0; i < 3; i++) {
        struct tier *tier = open_tier(&apart);
        struct executor *executor = open_executor(schedules[i], 0, tier);
        int code = ERR_IO;
        char *device = take(tier, TIER_DEVICE, 100);
        const struct executor_span span = {device + 10, 7, EXECUTOR_WRITE};
        int issued = issue(executor, "kernel", LANE_COMPUTE, set_code, &code, sizeof code, &span, 1);
        int waited = executor_wait(executor);
        cr_expect_eq(issued != ERR_NONE ? issued : waited, ERR_IO, "mode %d", i);
        cr_expect_str_eq(err_message(), "the shadow has failed");
        executor_close(executor);
        tier_close(tier);
    }
}

enum { WORLD = 3 };

struct reducer {
    struct comm *comm;
    pthread_t thread;
    size_t count;
    bool in_place;
    float found[1000];
};

static void *reduce(void *argument)
{
    struct reducer *r = argument;
    struct tier *tier = open_tier(&apart);
    float values[1000];
    for (size_t i = 0; i < r->count; i++)
        values[i] = (float)((comm_rank(r->comm) + 1) * 1000 + (int)i) * 1.1f;
    float *send = take(tier, TIER_DEVICE, sizeof values);
    float *recv = r->in_place ? send : take(tier, TIER_DEVICE, sizeof values);
    cr_assert_eq(bytes_copy(send, values, r->count * sizeof *values), ERR_NONE);
    cr_assert_eq(comm_all_reduce(r->comm, send, recv, r->count, DTYPE_FP32, COMM_SUM), ERR_NONE, "%s", err_message());
    cr_assert_eq(bytes_copy(r->found, recv, r->count * sizeof *values), ERR_NONE);
    comm_close(r->comm);
    tier_close(tier);
    return NULL;
}

// Few elements, which ranks otherwise exchange by way of the host, and more.
Test(accelerator, ranks_reduce_there_in_their_order)
{
    const size_t counts[] = {1, 2, 7, 1000};
    for (int i = 0; i < 8; i++) {
        struct comm *comms[WORLD];
        struct reducer reducers[WORLD];
        cr_assert_eq(comm_local_open(WORLD, comms), ERR_NONE);
        for (int rank = 0; rank < WORLD; rank++) {
            reducers[rank] = (struct reducer){.comm = comms[rank], .count = counts[i / 2], .in_place = i % 2};
            cr_assert_eq(pthread_create(&reducers[rank].thread, NULL, reduce, &reducers[rank]), 0);
        }
        for (int rank = 0; rank < WORLD; rank++)
            pthread_join(reducers[rank].thread, NULL);
        for (size_t k = 0; k < counts[i / 2]; k++) {
            float sum = (float)(1000 + (int)k) * 1.1f;
            for (int rank = 1; rank < WORLD; rank++)
                sum += (float)((rank + 1) * 1000 + (int)k) * 1.1f;
            for (int rank = 0; rank < WORLD; rank++)
                cr_expect_eq(reducers[rank].found[k], sum, "rank %d, element %zu of %zu", rank, k, counts[i / 2]);
        }
    }
}
