// SPDX-License-Identifier: Apache-2.0
// Updates before the step is decided (ref/optimizer/speculation.c), in training.
#include "base/folder_test.h"
#include "ref/train/offload_test.h"

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
                        if (number++ % stride != from)
                            continue;
                        struct train_result decided = offload_demand(&t);
                        t.speculative = true;
                        struct train_result speculative = offload_demand(&t);
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

// An update of the first step begins before its last backward has ended, if it does not wait for the decision. In
// serial order an operation runs where it is issued, however loaded the machine is.
Test(speculation, an_update_begins_during_backward)
{
    struct offload_trial t =
        OFFLOAD_TRIAL(.model = "gpt:layers=4,width=64,heads=2,length=64", .world = 1, .clip = 100, .steps = 1,
                      OFFLOAD_ON_HOST, .bucket = 5000, .schedule = {EXECUTOR_SERIAL, 0});
    for (int speculative = 0; speculative < 2; speculative++) {
        struct trace trace;
        uint64_t first_adam_ns = UINT64_MAX, last_backward_ns = 0;
        t.speculative = speculative;
        struct train_result result = offload_trace(&t, (struct train_setting){.verify = true}, &trace);
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

// A run without verification, in which no step waits for the end of an update.
static struct train_result run_on(const struct offload_trial *t, struct train_setting setting)
{
    struct train_result result = offload_succeed(t, setting);
    cr_assert(result.accounting_equal, "%s", offload_name(t));
    return result;
}

// The first trial of each stage is verified step by step, in series; all others end in its bits.
Test(speculation, steps_that_run_on_end_in_the_bits_of_steps_that_wait_concurrent)
{
    static const struct executor_schedule schedules[] = {
        {EXECUTOR_OVERLAP, 0}, {EXECUTOR_CHAOS, 1}, {EXECUTOR_CHAOS, 2}};
    for (int stage = 1; stage <= 3; stage++) {
        enum ledger_tier tier = stage == 3 ? TIER_NVME : TIER_HOST;
        struct offload_trial t =
            OFFLOAD_TRIAL(.model = "gpt-nano", .stage = stage, .steps = 6, .clip = 1.3, .optimizer = tier,
                          .gradient = tier, .parameter = stage == 3 ? TIER_NVME : TIER_DEVICE,
                          .schedule = {EXECUTOR_SERIAL, 0});
        struct train_result verified = offload_demand(&t);
        for (int i = 0; i < 2 * COUNT(schedules); i++) {
            t.schedule = schedules[i / 2];
            t.speculative = i % 2;
            struct train_result result = run_on(&t, (struct train_setting){0});
            cr_assert_str_eq(result.digest, verified.digest, "%s", offload_name(&t));
        }
    }
}

// Copies of updated parameters to the device take five seconds, one bucket after the other. The next step's forward
// begins when those of its first layer are there.
Test(speculation, the_next_forward_begins_when_its_first_layers_are_updated)
{
    struct offload_trial t = OFFLOAD_TRIAL(.model = "gpt:layers=4,width=64,heads=2,length=64", .world = 1, .steps = 2,
                                           .stage = 2, OFFLOAD_ON_HOST, .bucket = 5000);
    struct trace trace;
    const struct train_setting slow = {.emulation = {{[LANE_H2D] = 80e3}}};
    cr_assert(offload_trace(&t, slow, &trace).accounting_equal);
    const struct trace_rank *rank = &trace.ranks[0];
    size_t forwards = 0, copies = rank->interval_count[LANE_H2D];
    uint64_t second_forward_ns = 0;
    for (size_t i = 0; i < rank->interval_count[LANE_COMPUTE]; i++)
        if (strcmp(rank->intervals[LANE_COMPUTE][i].name, "forward") == 0 && forwards++ == 6)
            second_forward_ns = rank->intervals[LANE_COMPUTE][i].begin_ns;
    cr_assert_eq(forwards, 12);
    cr_assert_geq(copies, 4);
    cr_expect_gt(second_forward_ns, rank->intervals[LANE_H2D][0].end_ns);
    cr_expect_lt(second_forward_ns, rank->intervals[LANE_H2D][copies / 2 - 1].end_ns);
    trace_close(&trace);
}

// A checkpoint between steps that run on has the states after its step.
Test(speculation, a_checkpoint_waits_for_the_update_that_runs_beside_it)
{
    struct offload_trial t =
        OFFLOAD_TRIAL(.model = "gpt-nano", .steps = 3, .stage = 2, OFFLOAD_ON_HOST, .bucket = 5000);
    char path[PATH_MAX];
    struct train_result result;
    struct train_setting setting = {.emulation = {{[LANE_H2D] = 1e5}}};
    struct train_result whole = run_on(&t, setting);
    folder_make(path);
    // The first run dies in step 3; the second continues from the checkpoint of step 2.
    cr_assert_eq(inject_parse("rank:0:die@3", &setting.inject), ERR_NONE, "%s", err_message());
    cr_assert_neq(offload_run_saving(&t, setting, path, 1, &result), ERR_NONE);
    setting.inject = (struct inject_plan){0};
    cr_assert_eq(offload_run_saving(&t, setting, path, 1, &result), ERR_NONE, "%s", err_message());
    cr_expect(result.accounting_equal);
    cr_expect_eq(result.resumed_step, 2);
    cr_expect_str_eq(result.digest, whole.digest);
    folder_remove(path);
}
