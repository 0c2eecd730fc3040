// SPDX-License-Identifier: Apache-2.0
// Updates before the step is decided (ref/optimizer/speculation.c), in training.
#include "ref/train/offload_trial.h"

#include "ref/executor/trace.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const enum ledger_tier tiers[] = {TIER_DEVICE, TIER_HOST, TIER_NVME};

// Some steps are clipped, and some of linear-overflow are skipped: what was updated before the decision is dropped then
// and shows in no bit, on any tier.
static void everywhere(int from, int stride)
{
    static const struct {
        const char *model;
        double clip;
        int skipped;  // with two ranks or more
    } cases[] = {{"linear", 0.192, 0}, {"gpt-nano", 1.3, 0}, {"linear-overflow", 0.192, 2}};
    static const enum dtype precisions[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};
    uint64_t redone[COUNT(cases)] = {0}, applied[COUNT(cases)] = {0};
    int number = 0;
    for (int c = 0; c < COUNT(cases); c++)
        for (int p = 0; p < 3; p++)
            for (int g = 1; g < 3; g++)
                for (int o = 1; o < 3; o++)
                    for (size_t accumulation = 1; accumulation <= 2; accumulation++) {
                        enum dtype precision = precisions[c == 2 ? number % 2 : number % 3];
                        struct offload_trial t =
                            OFFLOAD_TRIAL(.model = cases[c].model, .parameter = tiers[p], .gradient = tiers[g],
                                          .optimizer = tiers[o], .precision = precision, .communication = precision,
                                          .sum = DTYPE_FP32, .steps = 8, .world = 2 + number % 2,
                                          .accumulation = accumulation, .clip = cases[c].clip,
                                          .schedule = {number % 3, (uint64_t)number});
                        struct train_result decided, speculative;
                        if (number++ % stride != from)
                            continue;
                        offload_demand(&t, &decided);
                        t.speculative = true;
                        offload_demand(&t, &speculative);
                        cr_assert_str_eq(speculative.digest, decided.digest, "%s", offload_name(&t));
                        cr_assert_eq((int)speculative.skipped_steps, cases[c].skipped, "%s", offload_name(&t));
                        cr_assert_eq(decided.redone_steps, 0);
                        redone[c] += speculative.redone_steps;
                        applied[c] += t.steps - speculative.skipped_steps;
                    }
    // Fewer ranks and micro-steps have larger norms, so that the threshold lies between those of the steps.
    for (int c = 0; c < COUNT(cases); c++)
        cr_assert(0 < redone[c] && redone[c] < applied[c], "%s: %d of %d", cases[c].model, (int)redone[c],
                  (int)applied[c]);
}

Test(speculation, an_update_shows_in_no_bit_concurrent)
{
    everywhere(0, 5);
}
Test(speculation, an_update_everywhere_long)
{
    everywhere(0, 1);
}

// An update of the first step begins before its last backward has ended, if it does not wait for the decision.
Test(speculation, an_update_begins_during_backward)
{
    struct offload_trial t = OFFLOAD_TRIAL(.model = "gpt:layers=4,width=64,heads=2,length=64", .world = 1, .clip = 100,
                                           .steps = 1, .optimizer = TIER_HOST, .gradient = TIER_HOST, .bucket = 5000);
    for (int speculative = 0; speculative < 2; speculative++) {
        struct trace trace;
        struct train_result result;
        uint64_t first_adam_ns = UINT64_MAX, last_backward_ns = 0;
        t.speculative = speculative;
        cr_assert_eq(trace_open(t.world, &trace), ERR_NONE);
        cr_assert_eq(offload_run_with(&t, (struct train_setting){.verify = true, .trace = &trace}, &result), ERR_NONE);
        const struct trace_rank *rank = &trace.ranks[0];
        for (size_t i = 0; i < rank->interval_count[LANE_COMPUTE]; i++)
            if (strcmp(rank->intervals[LANE_COMPUTE][i].name, "backward") == 0)
                last_backward_ns = rank->intervals[LANE_COMPUTE][i].end_ns;
        for (size_t i = rank->interval_count[LANE_CPU]; i-- > 0;)
            if (strcmp(rank->intervals[LANE_CPU][i].name, "Adam") == 0)
                first_adam_ns = rank->intervals[LANE_CPU][i].begin_ns;
        cr_expect_eq(first_adam_ns < last_backward_ns, speculative, "%s", offload_name(&t));
        cr_expect_eq(result.redone_steps, 0);
        trace_close(&trace);
    }
}
