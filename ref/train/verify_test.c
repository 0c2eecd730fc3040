// SPDX-License-Identifier: Apache-2.0
// A verified run finds a difference in the step and bucket where it begins, and says whether it comes from the
// schedule.
#include "ref/stage/stage_shard.h"
#include "ref/train/offload_test.h"

// Changes one bit of a shard's element after a step, as a lost or early write would.
struct damage {
    uint64_t step;
    int rank, bucket;
    enum state state;
};

static int damage(void *context, const struct train_moment *moment)
{
    const struct damage *d = context;
    if (moment->step != d->step || moment->rank != d->rank)
        return ERR_NONE;
    float shard[1 << 14];
    cr_assert_leq(moment->stage->layout.buckets[d->bucket].shard_elements, sizeof shard / sizeof *shard);
    TRY(stage_read_shard(moment->stage, d->bucket, d->state, shard));
    shard[0] += 1.0f / 1024;
    return stage_write_shard(moment->stage, d->bucket, d->state, shard);
}

static struct train_difference run_damaged(const struct offload_trial *t, const struct damage *d, bool each)
{
    const struct train_setting setting = {
        .verify = each ? TRAIN_VERIFY_EACH : TRAIN_VERIFY,
        .swap_checksum = true,
        .observe = damage,
        .observe_context = (void *)(uintptr_t)d,
    };
    struct train_result result = offload_succeed(t, setting);
    cr_expect_str_neq(result.oracle_digest, result.digest);
    return result.difference;
}

static const struct offload_trial trials[] = {
    OFFLOAD_TRIAL(.model = "gpt-nano", .stage = 1, .steps = 5),
    OFFLOAD_TRIAL(.model = "gpt-nano", .stage = 2, .steps = 5, OFFLOAD_ON_HOST),
    OFFLOAD_TRIAL(.model = "gpt-nano", .steps = 5, OFFLOAD_ON_NVME),
    OFFLOAD_TRIAL(.model = "gpt-nano", .steps = 5, OFFLOAD_ON_HOST, .speculative = true),
};

// The second run is not damaged, so the difference is said to be one of the schedule.
Test(verify, a_difference_is_found_in_the_next_update_of_its_bucket)
{
    static const char *const names[] = {"parameter", "exp_avg", "exp_avg_sq"};
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        for (enum state state = STATE_EXP_AVG; state < STATE_COUNT; state++) {
            const struct damage d = {.step = 3, .rank = 1, .bucket = 1, .state = state};
            struct train_difference found = run_damaged(&trials[i], &d, false);
            cr_expect(found.found && found.digest && found.schedule, "%s", offload_name(&trials[i]));
            cr_expect_eq(found.step, 4u, "step %d: %s", (int)found.step, offload_name(&trials[i]));
            cr_expect_eq(found.rank, 1);
            // Both moments make the parameter, which is compared first.
            cr_expect_str_eq(found.state, names[STATE_PARAMETER]);
        }
}

Test(verify, a_wait_after_each_step_finds_the_same_in_its_element)
{
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        const struct damage d = {.step = 3, .rank = 1, .bucket = 1, .state = STATE_EXP_AVG};
        struct train_difference each = run_damaged(&trials[i], &d, true);
        cr_expect(each.found && !each.digest && !each.schedule && each.bits == 32, "%s", offload_name(&trials[i]));
        cr_expect_eq(each.step, 4u, "step %d: %s", (int)each.step, offload_name(&trials[i]));
    }
}
