// SPDX-License-Identifier: Apache-2.0
// A Llama through the stages, tiers, schedules and meshes of data parallelism: every bit equals unsharded Adam's, and
// every byte the formulas'.
#include "ref/train/mesh_test.h"

#define SMALL "llama-tiny:layers=2,width=24,heads=4,hidden=29,length=16"

static struct offload_trial trial_of(int number, int stage)
{
    struct offload_trial trial =
        OFFLOAD_TRIAL(.model = SMALL, .stage = stage, .world = 1 + number % 3, .schedule = schedules[number % 4],
                      .accumulation = 1 + (size_t)number % 2, .checkpointing = number % 2 == 1,
                      .activation = (number % 4 == 3 ? TIER_HOST : TIER_DEVICE), .clip = (number % 3 ? 1 : 0));
    set_dtypes(&trial, dtypes[number % 6]);
    return trial;
}

Test(llama_train, every_stage_equals_unsharded_adam)
{
    demand_trials(trial_of, 0, 3, SANITIZED ? 3 : 6);
}

Test(llama_train, states_on_every_tier_equal_unsharded_adam)
{
    for (int number = 0; number < (SANITIZED ? 4 : 8); number++) {
        struct offload_trial trial = offloaded(trial_of(number, offloaded_stage(number)), number);
        trial.speculative = number % 2 == 0;
        offload_demand(&trial);
    }
}

Test(llama_train, replicas_of_shard_groups_and_secondary_copies_equal_unsharded_adam)
{
    offload_demand(&OFFLOAD_TRIAL(.model = SMALL, .world = 4, .stage = 3, .replicas = 2));
    offload_demand(&OFFLOAD_TRIAL(.model = SMALL, .world = 4, .stage = 3, .secondary = 2));
}

Test(llama_train, one_digest_for_all_stages_threads_and_schedules)
{
    static const char *const same[] = {"--preset zero0 --threads 3", "--preset zero2 --schedule chaos:5",
                                       "--preset zero3 --set zerogauge.activation_checkpointing.enabled=true",
                                       "--preset zero2_offload --threads 2 --schedule overlap"};
    char words[512], first[33] = "", digest[33];
    for (int i = 0; i < 4; i++) {
        snprintf(words, sizeof words, "%s --world 2 --steps 2 --verify --model llama-tiny", same[i]);
        train_digest(words, digest);
        cr_expect(!*first || strcmp(digest, first) == 0, "%s: %s, not %s", words, digest, first);
        strcpy(first, digest);
    }
}

Test(llama_train, what_a_llama_has_not_is_refused_by_name)
{
    const struct train_setting setting = {.verify = true};
    offload_expect_refusal(&OFFLOAD_TRIAL(.model = SMALL, .stage = 1, .tensor = 2), setting,
                           SMALL " cannot be cut over tensor");
    offload_expect_refusal(&OFFLOAD_TRIAL(.model = SMALL, .stage = 1, .pipeline = 2), setting,
                           SMALL " cannot be cut over tensor");
    offload_expect_refusal(&OFFLOAD_TRIAL(.model = SMALL, .stage = 1, .experts = 2), setting, "expert");
    offload_expect_refusal(&OFFLOAD_TRIAL(.model = SMALL, .stage = 3, .tiles = 2), setting,
                           SMALL " has no large layers");
}
