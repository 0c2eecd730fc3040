// SPDX-License-Identifier: Apache-2.0
// Moments and master parameters of 16 bits: trained in the bits of unsharded Adam at every stage and tier and by every
// schedule, in the memory that the formulas say, and continued from a checkpoint.
#include "base/folder_test.h"
#include "ref/train/offload_test.h"

#include <limits.h>

// Every pair of dtypes that a model of this precision may have, by number; false: no more.
static bool choose_states(struct offload_trial *t, int number)
{
    t->moments = (enum dtype)(number % 3);
    t->of_model_dtype = number / 3;
    return number < (t->precision == DTYPE_FP32 ? 3 : 6);
}

static const struct {
    int stage;
    enum ledger_tier parameter, gradient, optimizer;
} places[] = {
    {0, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE}, {1, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
    {2, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE}, {3, TIER_DEVICE, TIER_DEVICE, TIER_DEVICE},
    {1, TIER_DEVICE, TIER_HOST, TIER_HOST},     {2, TIER_DEVICE, TIER_DEVICE, TIER_HOST},
    {3, TIER_HOST, TIER_HOST, TIER_HOST},       {3, TIER_NVME, TIER_NVME, TIER_NVME},
    {3, TIER_DEVICE, TIER_HOST, TIER_NVME},     {3, TIER_NVME, TIER_DEVICE, TIER_DEVICE},
};
enum { PLACE_COUNT = sizeof places / sizeof *places };

Test(states_train, every_dtype_at_every_stage_and_tier_has_the_bits_of_unsharded_adam)
{
    for (int i = 0; i < PLACE_COUNT; i++)
        for (enum dtype precision = DTYPE_FP32; precision <= DTYPE_FP16; precision++) {
            struct offload_trial t =
                OFFLOAD_TRIAL(OFFLOAD_IN(precision), .stage = places[i].stage, .parameter = places[i].parameter,
                              .gradient = places[i].gradient, .optimizer = places[i].optimizer, .clip = 0.192);
            for (int number = 0; choose_states(&t, number); number++)
                offload_demand(&t);
        }
}

Test(states_train, every_schedule_has_them_too)
{
    struct offload_trial base[] = {
        OFFLOAD_TRIAL(.speculative = true, .parameter = TIER_HOST, OFFLOAD_ON_HOST, .clip = 0.192),
        OFFLOAD_TRIAL(.speculative = true, OFFLOAD_ON_NVME, .clip = 0.192, .steps = 4),
        OFFLOAD_TRIAL(.delay = 2, OFFLOAD_ON_HOST, .steps = 4),
        OFFLOAD_TRIAL(.delay = 1, OFFLOAD_ON_NVME, .pipeline_read = false, .pipeline_write = false),
        OFFLOAD_TRIAL(OFFLOAD_ON_NVME, .buffers = 12, .engine = NVME_IO_URING),
        OFFLOAD_TRIAL(.ratio = 0.3, OFFLOAD_ON_HOST),
        OFFLOAD_TRIAL(.world = 4, .replicas = 2, OFFLOAD_ON_HOST, .accumulation = 2),
        OFFLOAD_TRIAL(.model = "linear:rank=3", .world = 3),
        OFFLOAD_TRIAL(.model = "linear-overflow", OFFLOAD_IN(DTYPE_FP16), .overflows = true, OFFLOAD_ON_HOST),
        OFFLOAD_TRIAL(.stage = 1, .quantized_weights = false, .world = 3, .schedule = {EXECUTOR_CHAOS, 5}),
    };
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        for (int number = 1; choose_states(&base[i], number); number++)
            offload_demand(&base[i]);
}

// "K Psi / N_d": 2 ranks, 10,000 elements of the model in stage 1 without padding.
Test(states_train, the_memory_is_what_the_dtypes_say)
{
    static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};
    for (int i = 0; i < 4; i++) {
        const struct offload_trial t = OFFLOAD_TRIAL(.stage = 1, .moments = dtypes[i % 2], .of_model_dtype = i / 2);
        struct train_result whole = offload_demand(&OFFLOAD_TRIAL(.stage = 1)), result = offload_demand(&t);
        uint64_t all = whole.held_bytes[TIER_DEVICE][KIND_MASTER];
        cr_assert_gt(all, 0);
        cr_expect_eq(whole.held_bytes[TIER_DEVICE][KIND_OPTIMIZER], 2 * all);
        cr_expect_eq(result.held_bytes[TIER_DEVICE][KIND_OPTIMIZER], i % 2 ? all : 2 * all);
        // A master in the model's dtype and on its tier is the parameters themselves.
        cr_expect_eq(result.held_bytes[TIER_DEVICE][KIND_MASTER], i / 2 ? 0 : all);
    }
    const struct offload_trial apart = OFFLOAD_TRIAL(.moments = DTYPE_FP16, .of_model_dtype = true, OFFLOAD_ON_HOST);
    struct train_result result = offload_demand(&apart);
    cr_expect_gt(result.held_bytes[TIER_HOST][KIND_MASTER], 0);
    cr_expect_eq(result.held_bytes[TIER_HOST][KIND_OPTIMIZER], 2 * result.held_bytes[TIER_HOST][KIND_MASTER]);
}

// A run of two steps and two more ends in the states of a run of four.
Test(states_train, a_checkpoint_keeps_them_and_refuses_another_dtype)
{
    char folder[PATH_MAX];
    for (int number = 0; number < 6; number++) {
        struct offload_trial t = OFFLOAD_TRIAL(OFFLOAD_ON_HOST, .steps = 4);
        cr_assert(choose_states(&t, number));
        struct train_result all = offload_succeed(&t, (struct train_setting){0}), rest;
        t.steps = 2;
        folder_make(folder);
        cr_assert_eq(offload_run_saving(&t, (struct train_setting){0}, folder, 2, &rest), ERR_NONE, "%s",
                     err_message());
        t.steps = 4;
        for (int other = 0; other < 6; other++) {
            struct offload_trial wrong = t;
            if (other == number || !choose_states(&wrong, other))
                continue;
            cr_expect_eq(offload_run_saving(&wrong, (struct train_setting){0}, folder, 2, &rest), ERR_USAGE);
            cr_expect(strstr(err_message(), "was made with m"), "%s", err_message());
        }
        cr_assert_eq(offload_run_saving(&t, (struct train_setting){.verify = true}, folder, 2, &rest), ERR_NONE, "%s",
                     err_message());
        cr_expect_str_eq(rest.digest, all.digest, "%s", offload_name(&t));
        folder_remove(folder);
    }
}
