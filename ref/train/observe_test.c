// SPDX-License-Identifier: Apache-2.0
// What a run tells an observer, groups with values of their own, and what traffic is for.
#include "ref/stage/stage_shard.h"
#include "ref/train/offload_test.h"

enum { WORLD = 3, STEPS = 5, MOMENT_MAX = 16 };

struct observed {
    int count[WORLD];
    uint64_t steps[WORLD][MOMENT_MAX];
    bool applied[WORLD][MOMENT_MAX];
    double lr[WORLD][MOMENT_MAX];
    float first_bias[MOMENT_MAX];  // rank 0: the first element of d.bias, collected
    uint64_t sent_bytes[WORLD][PURPOSE_COUNT], sent_count[WORLD][PURPOSE_COUNT], sent_all_bytes[WORLD];
};

static int observe(void *context, const struct train_moment *moment)
{
    struct observed *o = context;
    int i = o->count[moment->rank]++;
    o->steps[moment->rank][i] = moment->step;
    o->applied[moment->rank][i] = moment->applied;
    o->lr[moment->rank][i] = moment->stage->optimizer.lr;
    const struct ledger *ledger = moment->stage->setting.ledger;
    o->sent_all_bytes[moment->rank] = 0;
    for (int p = 0; p < PURPOSE_COUNT; p++) {
        o->sent_bytes[moment->rank][p] = ledger->sent_bytes[p];
        o->sent_count[moment->rank][p] = ledger->sent_count[p];
    }
    for (int operation = 0; operation < OPERATION_COUNT; operation++)
        o->sent_all_bytes[moment->rank] += ledger->moved_bytes[LANE_COLLECTIVE][operation];
    const struct layout *layout = &moment->stage->layout;
    for (int param = 0; param < moment->stage->setting.model->param_count; param++) {
        if (strcmp(moment->stage->setting.model->params[param].name, "d.bias") != 0)
            continue;
        int bucket = layout->bucket_of[param];
        float *full = malloc(layout->buckets[bucket].padded_count * sizeof *full);
        TRY(stage_collect(moment->stage, bucket, STATE_PARAMETER, full));
        if (moment->rank == 0)
            o->first_bias[i] = full[layout->offset_of[param]];
        free(full);
    }
    return ERR_NONE;
}

static struct config config_of(int stage)
{
    const struct offload_trial t =
        OFFLOAD_TRIAL(.world = WORLD, .steps = STEPS, .stage = stage, .accumulation = 2, .sum = DTYPE_FP32,
                      .bucket = 1000, .prefetch = 500, .live = 1000000000);
    struct config config;
    cr_assert_eq(offload_config(&t, &config), ERR_NONE, "%s", err_message());
    return config;
}

// The result of a run that must succeed and, in every bit, be unsharded Adam's.
static struct train_result run(const struct config *config, const char *model, struct observed *observed)
{
    struct train_setting setting = {
        .config = config,
        .world = WORLD,
        .steps = STEPS,
        .seed = 7,
        .threads = 1,
        .verify = true,
        .schedule = {EXECUTOR_OVERLAP, 0},
        .observe = observed ? observe : NULL,
        .observe_context = observed,
    };
    struct train_result result;
    cr_assert_eq(model_find(model, &setting.model), ERR_NONE);
    int rc = train_run(&setting, &result);
    cr_assert_eq(rc, ERR_NONE, "%s", rc ? err_message() : "");
    cr_assert(!result.difference.found, "step %d, %s of %s", (int)result.difference.step, result.difference.state,
              result.difference.tensor);
    cr_assert_eq(result.verified_steps, STEPS);
    cr_assert(result.accounting_equal);
    free(result.step_ns);
    return result;
}

Test(observe, every_rank_is_told_of_every_step_and_of_the_beginning_concurrent)
{
    for (int stage = 0; stage < 4; stage++) {
        struct observed o = {0};
        struct config config = config_of(stage);
        run(&config, "linear-overflow", &o);
        for (int rank = 0; rank < WORLD; rank++) {
            cr_assert_eq(o.count[rank], STEPS + 1);
            for (int i = 0; i <= STEPS; i++) {
                cr_assert_eq(o.steps[rank][i], i);
                cr_assert_eq(o.applied[rank][i], i != 0 && i != 3, "stage %d, step %d", stage, i);
            }
        }
        cr_assert_eq(o.first_bias[2], o.first_bias[3]);
        cr_assert_neq(o.first_bias[0], o.first_bias[1]);
        cr_assert_neq(o.first_bias[3], o.first_bias[4]);
    }
}

// A skipped step reduces, but in stages 1 and 2 gathers nothing.
Test(observe, traffic_is_counted_by_what_it_is_for)
{
    uint64_t elements = 0, all = 0, reduced[4] = {0}, gathered[4] = {0};
    const struct model *model;
    cr_assert_eq(model_find("linear-overflow", &model), ERR_NONE);
    elements = model_param_elements(model, true);
    all = model_param_elements(model, false);
    for (int stage = 0; stage < 4; stage++) {
        struct observed o = {0};
        struct config config = config_of(stage);
        run(&config, "linear-overflow", &o);
        for (int rank = 0; rank < WORLD; rank++) {
            reduced[stage] += o.sent_bytes[rank][PURPOSE_REDUCE];
            gathered[stage] += o.sent_bytes[rank][PURPOSE_GATHER];
            uint64_t sum = o.sent_bytes[rank][PURPOSE_OTHER] + o.sent_bytes[rank][PURPOSE_REDUCE] +
                           o.sent_bytes[rank][PURPOSE_GATHER];
            cr_assert_eq(sum, o.sent_all_bytes[rank]);
            cr_assert_gt(o.sent_count[rank][PURPOSE_REDUCE], 0);
            cr_assert_eq(o.sent_count[rank][PURPOSE_GATHER] > 0, stage > 0);
        }
    }
    // All ranks together send every element to the WORLD - 1 others once to reduce, and once to gather.
    uint64_t once = elements * 2 * (WORLD - 1);
    cr_expect_eq(reduced[0], 2 * once * STEPS);  // an all-reduce is both
    cr_expect_eq(reduced[1], once * STEPS);
    cr_expect_eq(reduced[2], once * STEPS * 2);  // every micro-step
    cr_expect_eq(reduced[3], once * STEPS * 2);
    cr_expect_eq(gathered[0], 0);
    cr_expect_eq(gathered[1], once * (STEPS - 1));
    cr_expect_eq(gathered[2], once * (STEPS - 1));
    cr_expect_gt(gathered[3], once * STEPS * 2);
    // Stage 3 gathers at most what each layer uses, forward and backward; 1000 elements are used by two layers.
    cr_expect_leq(gathered[3], (all + 1000) * 2 * (WORLD - 1) * STEPS * 2 * 2);
}

Test(observe, groups_have_values_of_their_own)
{
    const double rates[STEPS] = {0.5, 0.25, 0.125, 0.0625, 0.75};
    struct config plain = config_of(2), grouped = config_of(2), scheduled = config_of(2);
    struct config_group groups[2] = {{.adam = plain.adam}, {.adam = plain.adam}};
    groups[1].adam.beta1 = 0.5;
    groups[1].adam.decoupled = false;
    grouped.groups = groups;
    struct config_group by_step[2] = {{.adam = plain.adam, .lr_by_step = rates},
                                      {.adam = plain.adam, .lr_by_step = rates}};
    scheduled.groups = by_step;
    struct observed o = {0};
    struct train_result a = run(&plain, "linear-overflow", NULL), b = run(&grouped, "linear-overflow", NULL);
    struct train_result c = run(&scheduled, "linear-overflow", &o);
    cr_assert_str_neq(a.digest, b.digest);
    cr_assert_str_neq(a.digest, c.digest);
    // Step 3 is skipped, and its rate with it.
    cr_assert_eq(o.lr[0][2], 0.25);
    cr_assert_eq(o.lr[0][3], 0.25);
    cr_assert_eq(o.lr[0][4], 0.0625);
    cr_assert_eq(o.lr[0][5], 0.75);
}
