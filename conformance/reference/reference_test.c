// SPDX-License-Identifier: Apache-2.0
// The reference's answers, read as the suite reads every answer, against the suite's own unsharded Adam: every bit of
// every step from the answer's own state before it, every decision, and the parameters of every forward.
#include "conformance/reference/reference_test.h"

#include "conformance/unsharded/unsharded.h"

#include <math.h>

// True if two numbers are equal or both NaN; zeros of either sign are equal.
static bool same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void expect_equal(const struct check_case *c, int step, int rank, const char *what, const float *const *expected,
                         float *const *actual)
{
    for (int i = 0; i < c->param_count; i++) {
        cr_assert_eq(!expected[i], !actual[i], "%s: step %d: %s of %s", c->name, step, what, c->params[i].name);
        for (size_t k = 0; expected[i] && k < c->params[i].count; k++)
            cr_assert(same(expected[i][k], actual[i][k]), "%s: step %d, rank %d: %s of %s[%zu]: expected %a, got %a",
                      c->name, step, rank, what, c->params[i].name, k, (double)expected[i][k], (double)actual[i][k]);
    }
}

// Forward must see the state after the previous step, rounded. The loss has no unused parameters.
static void expect_seen(const struct answer *a, int step, const struct unsharded_state *before)
{
    const struct check_case *c = a->c;
    float *seen[CASE_PARAM_MAX] = {NULL}, *expected[CASE_PARAM_MAX] = {NULL};
    for (int i = 0; i < c->param_count; i++) {
        if (!c->params[i].used)
            continue;
        seen[i] = calloc(c->params[i].count + 1, sizeof(float));
        expected[i] = calloc(c->params[i].count + 1, sizeof(float));
        for (size_t k = 0; k < c->params[i].count; k++)
            expected[i][k] = unsharded_round(c->precision, before->param[case_owner(c, i)][k]);
    }
    for (int rank = 0; rank < c->world; rank++)
        for (int micro = 0; micro < c->accumulation; micro++) {
            for (int i = 0; i < c->param_count; i++)
                if (seen[i])
                    cr_assert_eq(answer_read_seen(a, step, rank, micro, i, seen[i]), ERR_NONE, "%s", err_message());
            expect_equal(c, step, rank, "seen", (const float *const *)expected, seen);
        }
    for (int i = 0; i < c->param_count; i++) {
        free(seen[i]);
        free(expected[i]);
    }
}

// One step by the suite's own Adam, in place; the gradient that the answer tells is compared.
static double advance(const struct check_case *c, const struct case_values *values,
                      const struct unsharded_decision *decisions, int step, const struct answer_step *now,
                      struct unsharded_state *state)
{
    const struct unsharded_decision *d = &decisions[step - 1];
    struct rule rule = rule_canonical(c);
    rule.states = rule_states_of(c, &options.states);
    struct unsharded_choice choice = {0};
    float *gradients[CASE_PARAM_MAX] = {NULL};
    if (d->applies == 0)
        return NAN;
    for (int i = 0; i < c->param_count; i++)
        if (case_is_trained(c, i))
            gradients[i] = calloc(c->params[i].count + 1, sizeof(float));
    double scale = decisions[d->applies - 1].scale;
    cr_assert_eq(unsharded_gradient(c, values, &rule, &choice, d->applies, scale, gradients), ERR_NONE);
    double norm = unsharded_norm(c, (const float *const *)gradients);
    const struct unsharded_update update = {
        .t = d->t, .lr_step = d->applies, .coefficient = unsharded_coefficient(c, &rule, norm)};
    cr_assert_eq(unsharded_adam(c, &rule, &update, (const float *const *)gradients, state, state), ERR_NONE);
    cr_assert_eq(now->has_grad, d->applies == step, "%s: step %d", c->name, step);
    if (now->has_grad)
        expect_equal(c, step, 0, "grad", (const float *const *)gradients, (float *const *)now->grad);
    for (int i = 0; i < c->param_count; i++)
        free(gradients[i]);
    return norm;
}

// The whole answer; before: the state before its first step, which becomes that after its last.
static void demand(const struct answer *a, const struct case_values *values, struct unsharded_state *before)
{
    const struct check_case *c = a->c;
    struct unsharded_decision decisions[CASE_STEP_MAX];
    cr_assert_eq(a->kind, ANSWER_STATES, "%s: %s", c->name, a->text);
    cr_assert(a->has_seen && a->has_usage, "%s", c->name);
    cr_assert_eq(unsharded_decide(c, values, SCALER_DEEPSPEED, decisions), ERR_NONE);
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        struct answer_step now;
        const struct unsharded_decision *d = &decisions[step - 1];
        cr_assert_eq(answer_read_step(a, step, &now), ERR_NONE, "%s", err_message());
        expect_seen(a, step, before);
        double norm = advance(c, values, decisions, step, &now, before);
        expect_equal(c, step, 0, "param", (const float *const *)before->param, now.param);
        expect_equal(c, step, 0, "exp_avg", (const float *const *)before->exp_avg, now.exp_avg);
        expect_equal(c, step, 0, "exp_avg_sq", (const float *const *)before->exp_avg_sq, now.exp_avg_sq);
        cr_assert_eq(now.t, d->t, "%s: step %d: t is %d, expected %d", c->name, step, (int)now.t, (int)d->t);
        cr_assert_eq(now.skipped, d->skipped && c->overflow_check, "%s: step %d", c->name, step);
        cr_assert_eq(now.has_loss_scale, c->loss_scale.kind != SCALE_NONE);
        if (now.has_loss_scale)
            cr_assert_eq(now.loss_scale, d->scale_after, "%s: step %d: loss scale %g, expected %g", c->name, step,
                         now.loss_scale, d->scale_after);
        cr_assert_eq(now.has_norm, !now.skipped);
        if (now.has_norm && c->delayed_update == 0)
            cr_assert(same((float)now.norm, (float)norm), "%s: step %d: norm %a, expected %a", c->name, step, now.norm,
                      norm);
        answer_step_close(&now);
    }
}

// Answers a case that is whole, and demands every bit. The usage is the answer's.
static void demand_case(const struct check_case *c, struct answer_usage usage[])
{
    struct case_values *values;
    struct unsharded_state state;
    struct answer a;
    cr_assert_eq(case_values_open(c, &values), ERR_NONE, "%s", err_message());
    cr_assert_eq(unsharded_state_open(c, &state), ERR_NONE);
    unsharded_begin(c, values, &state);
    answer(c, values, &a);
    demand(&a, values, &state);
    if (usage)
        memcpy(usage, a.usage, (size_t)c->world * sizeof *usage);
    answer_close(&a);
    unsharded_state_close(&state);
    case_values_close(values);
}

Test(reference, every_stage_and_world_answers_in_the_bits_of_unsharded_adam)
{
    static const int worlds[] = {1, 2, 3, 4, 8, 11};
    for (int stage = 0; stage < 4; stage++)
        for (int w = 0; w < 6; w++) {
            struct check_case c = case_of_number("whole", 10 * stage + w, stage, worlds[w]);
            set_precision(&c, (enum dtype[]){DTYPE_FP32, DTYPE_BF16, DTYPE_FP16}[(stage + w) % 3]);
            c.overlap = w % 2;
            demand_case(&c, NULL);
        }
}

Test(reference, micro_steps_clipping_and_mixed_dtypes)
{
    for (int stage = 0; stage < 4; stage++) {
        struct check_case c = case_of_number("mixed", stage, stage, 3);
        c.precision = DTYPE_BF16;
        c.communication_dtype = stage % 2 ? DTYPE_FP32 : DTYPE_BF16;
        c.accumulation_dtype = DTYPE_FP32;
        c.accumulation = 4;
        c.gradient_clipping = 0.5;
        demand_case(&c, NULL);
    }
}

Test(reference, states_are_kept_in_the_dtypes_asked_for)
{
    for (int i = 0; i < 4 * 8; i++) {
        struct check_case c = case_of_number("states", i, i % 4, 1 + i % 3);
        set_precision(&c, (enum dtype[]){DTYPE_BF16, DTYPE_FP16, DTYPE_FP32}[i % 3]);
        c.loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 4};
        c.offload_optimizer = i % 2 ? TIER_HOST : TIER_DEVICE;
        options.states =
            (struct claimed_states){(enum claimed_dtype)(i / 4 % 4), i / 16 ? CLAIMED_PRECISION : CLAIMED_FP32};
        demand_case(&c, NULL);
    }
}

// Their sum is exact in this family alone.
Test(reference, a_parameter_may_be_tied_to_more_than_one)
{
    for (int stage = 0; stage < 4; stage++) {
        struct check_case c = case_of_number("tied", stage, stage, 3);
        set_precision(&c, DTYPE_BF16);
        c.data.family = FAMILY_EXACT;
        c.data.exponent_low = c.data.exponent_high = -4;
        c.params[8].tied_to = 0;
        c.exact = true;
        demand_case(&c, NULL);
    }
}

Test(reference, rates_by_step_count_skipped_steps)
{
    struct check_case c = case_of("rates", 2, 2);
    c.steps = 6;
    set_precision(&c, DTYPE_BF16);
    for (int g = 0; g < 2; g++) {
        c.groups[g].lr_by_step = true;
        for (int i = 0; i < c.steps; i++)
            c.groups[g].lr[i] = ldexp(1 + g, -i);
    }
    c.data.pokes[0] = (struct case_poke){.step = 2, .rank = 1, .param = 3, .element = 100, .value = INFINITY};
    c.data.pokes[1] = (struct case_poke){.step = 4, .rank = 0, .param = 1, .element = 0, .value = NAN};
    c.data.poke_count = 2;
    demand_case(&c, NULL);
}

Test(reference, the_loss_scale_shrinks_and_grows_in_any_precision)
{
    static const enum dtype precisions[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    for (int p = 0; p < 3; p++) {
        struct check_case c = case_of_number("scale", p, 1 + p, 2);
        set_precision(&c, precisions[p]);
        c.steps = 10;
        c.data.exponent_high = -2;
        c.overflow_check = true;
        c.loss_scale = (struct case_loss_scale){SCALE_DYNAMIC, 1024, 2, 2, 1};
        for (int i = 0; i < 3; i++)
            c.data.pokes[i] = (struct case_poke){.step = 1 + i, .rank = i % 2, .param = 3, .value = INFINITY};
        c.data.poke_count = 3;
        demand_case(&c, NULL);
        snprintf(c.name, sizeof c.name, "scale-static-%d", p);
        c.loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 256};
        demand_case(&c, NULL);
    }
}

Test(reference, states_on_the_host_and_on_nvme)
{
    static const enum ledger_tier tiers[][2] = {
        {TIER_HOST, TIER_DEVICE}, {TIER_HOST, TIER_HOST}, {TIER_NVME, TIER_DEVICE}, {TIER_NVME, TIER_NVME}};
    for (int i = 0; i < 4; i++) {
        struct check_case c = case_of_number("off", i, 3, 3);
        set_precision(&c, DTYPE_BF16);
        c.offload_optimizer = tiers[i][0];
        c.offload_param = tiers[i][1];
        c.accumulation = 1 + i % 2;
        c.gradient_clipping = 1;
        demand_case(&c, NULL);
    }
}

Test(reference, the_delayed_update_is_one_step_late)
{
    for (int start = 1; start <= 3; start++)
        for (int stage = 1; stage < 4; stage++) {
            struct check_case c = case_of_number("delay", 10 * start + stage, stage, 2);
            set_precision(&c, DTYPE_BF16);
            c.steps = 6;
            c.offload_optimizer = TIER_HOST;
            c.delayed_update = start;
            c.groups[0].lr_by_step = true;
            for (int i = 0; i < c.steps; i++)
                c.groups[0].lr[i] = ldexp(1, -i);
            c.data.pokes[0] = (struct case_poke){.step = 4, .rank = 1, .param = 3, .value = INFINITY};
            c.data.poke_count = 1;
            demand_case(&c, NULL);
        }
}

// A resumed case: two halves, of these worlds and stages.
static void demand_resumed(struct check_case *c, const int worlds[2], const int stages[2])
{
    struct unsharded_state state;
    char name[CASE_NAME_BYTES];
    memcpy(name, c->name, sizeof name);
    cr_assert_eq(unsharded_state_open(c, &state), ERR_NONE);
    for (int half = 0; half < 2; half++) {
        struct case_values *values;
        struct answer a;
        c->phase = half == 0 ? PHASE_SAVE : PHASE_RESUME;
        c->world = worlds[half];
        c->stage = stages[half];
        snprintf(c->name, sizeof c->name, "%.80s.%s", name, half == 0 ? "save" : "resume");
        cr_assert_eq(case_values_open(c, &values), ERR_NONE, "%s", err_message());
        if (half == 0)
            unsharded_begin(c, values, &state);
        for (int i = 0; half == 1 && c->weights_only && i < c->param_count; i++)
            if (case_is_trained(c, i)) {
                memset(state.exp_avg[i], 0, c->params[i].count * sizeof(float));
                memset(state.exp_avg_sq[i], 0, c->params[i].count * sizeof(float));
            }
        answer(c, values, &a);
        demand(&a, values, &state);
        answer_close(&a);
        case_values_close(values);
    }
    unsharded_state_close(&state);
}

Test(reference, a_resumed_case_goes_on_at_any_world)
{
    static const int worlds[][2] = {{2, 2}, {1, 3}, {11, 2}, {3, 8}}, stages[][2] = {{1, 1}, {3, 3}, {2, 3}, {3, 0}};
    for (int i = 0; i < 4; i++) {
        struct check_case c = case_of_number("resumed", i, 0, 1);
        set_precision(&c, i % 2 ? DTYPE_FP16 : DTYPE_BF16);
        c.data.exponent_high = -4;
        if (i % 2)
            c.loss_scale = (struct case_loss_scale){SCALE_DYNAMIC, 1024, 2, 2, 1};
        c.data.same_mean = false;
        c.steps = 6;
        c.checkpoint_step = 3;
        c.data.pokes[0] = (struct case_poke){.step = 2, .rank = 0, .param = 3, .value = INFINITY};
        c.data.poke_count = 1;
        // Decisions of the steps before are made from the resuming half's own numbers: the poke is in both.
        demand_resumed(&c, worlds[i], stages[i]);
    }
}

Test(reference, a_late_update_goes_on_after_a_resume)
{
    struct check_case c = case_of("late", 0, 1);
    set_precision(&c, DTYPE_BF16);
    c.steps = 6;
    c.checkpoint_step = 3;
    c.offload_optimizer = TIER_HOST;
    c.delayed_update = 2;
    demand_resumed(&c, (int[2]){3, 3}, (int[2]){2, 2});
}

Test(reference, weights_alone_begin_a_new_run)
{
    struct check_case c = case_of("weights", 0, 1);
    set_precision(&c, DTYPE_BF16);
    c.steps = 5;
    c.checkpoint_step = 2;
    c.weights_only = true;
    c.groups[1].lr_by_step = true;
    for (int i = 0; i < c.steps; i++)
        c.groups[1].lr[i] = ldexp(1, -i);
    demand_resumed(&c, (int[2]){2, 3}, (int[2]){3, 2});
}

// Without prefetch small parameters stay whole on every rank, and what forward sees is the same.
Test(reference, prefetch_and_persistence_change_no_bit)
{
    static const size_t prefetch[] = {0, 1, 64, 100000};
    for (int i = 0; i < 4; i++) {
        struct check_case c = case_of_number("ahead", i, 3, 3);
        struct answer_usage usage[CASE_WORLD_MAX];
        set_precision(&c, DTYPE_BF16);
        c.prefetch_bucket = prefetch[i];
        demand_case(&c, usage);
        // a.scalar, b.unused, c.small and b.frozen, on each rank in addition to replicated shards.
        uint64_t held = 0, all = 91 + 1 + 101 + 19 + 5 + 2 + 91, persistent = 1 + 5 + 2 + 19;
        for (int rank = 0; rank < 3; rank++)
            held += usage[rank].held_bytes[USAGE_PARAM];
        cr_expect_eq(held, (all + (i == 0 ? 3 * persistent : 0)) * 2, "prefetch %zu", prefetch[i]);
    }
}

Test(reference, usage_is_what_the_stage_says)
{
    struct answer_usage usage[4][CASE_WORLD_MAX];
    for (int stage = 0; stage < 4; stage++) {
        struct check_case c = case_of_number("usage", stage, stage, 3);
        set_precision(&c, DTYPE_BF16);
        demand_case(&c, usage[stage]);
        uint64_t held[USAGE_KIND_COUNT] = {0}, sent[USAGE_PURPOSE_COUNT] = {0};
        for (int rank = 0; rank < 3; rank++) {
            for (int kind = 0; kind < USAGE_KIND_COUNT; kind++)
                held[kind] += usage[stage][rank].held_bytes[kind];
            for (int i = 0; i < USAGE_PURPOSE_COUNT; i++)
                sent[i] += usage[stage][rank].sent_bytes[i];
        }
        uint64_t trained = 91 + 1 + 101 + 5 + 2 + 91, all = trained + 19;
        cr_expect_eq(held[USAGE_OPTIMIZER], (stage ? 1 : 3) * trained * 8, "stage %d", stage);
        cr_expect_eq(held[USAGE_MASTER], (stage ? 1 : 3) * trained * 4, "stage %d", stage);
        cr_expect_eq(held[USAGE_GRAD], (stage > 1 ? 1 : 3) * trained * 2, "stage %d", stage);
        cr_expect_eq(held[USAGE_PARAM], (stage > 2 ? 1 : 3) * all * 2, "stage %d", stage);
        // Every element goes to the two others once, or, in an all-reduce, twice, in each of 3 steps.
        cr_expect_eq(sent[USAGE_REDUCE], (stage ? 1 : 2) * trained * 2 * 2 * 3, "stage %d", stage);
        if (stage < 3)
            cr_expect_eq(sent[USAGE_GATHER], (stage ? 1 : 0) * trained * 2 * 2 * 3, "stage %d", stage);
    }
}

static void expect_text(const struct check_case *c, enum answer_kind kind, const char *words)
{
    struct answer a;
    struct case_values *values;
    cr_assert_eq(case_values_open(c, &values), ERR_NONE, "%s", err_message());
    answer(c, values, &a);
    cr_assert_eq(a.kind, kind, "%s: %s", c->name, a.text);
    cr_assert(strstr(a.text, words), "%s: %s", c->name, a.text);
    answer_close(&a);
    case_values_close(values);
}

// The reference refuses invalid cases before any step, and declines valid ones that it does not support.
Test(reference, what_makes_no_sense_is_refused)
{
    static const char *const keys[] = {"gradient_clipping", "loss scale", "loss scale",
                                       "loss_scale_window", "betas",      "betas"};
    for (int i = 0; i < 6; i++) {
        struct check_case c = case_of_number("refused", i, 2, 2);
        set_precision(&c, DTYPE_FP16);
        c.expects_refusal = true;
        c.gradient_clipping = i == 0 ? -1 : 0;
        if (i == 1 || i == 2)
            c.loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = i == 1 ? -2 : 0};
        if (i == 3)
            c.loss_scale = (struct case_loss_scale){SCALE_DYNAMIC, 1024, 0, 2, 1};
        c.groups[1].beta2 = i == 4 ? 1 : c.groups[1].beta2;
        c.groups[0].beta1 = i == 5 ? -0.5 : c.groups[0].beta1;
        expect_text(&c, ANSWER_REFUSED, keys[i]);
    }
}

Test(reference, what_it_has_not_is_declined)
{
    static const char *const words[] = {"power of 2", "stage 3", "delayed_update", "bias"};
    options.recipe = "torch-cpu";
    for (int i = 0; i < 4; i++) {
        struct check_case c = case_of_number("declined", i, 2, 2);
        set_precision(&c, DTYPE_FP16);
        if (i == 0)
            c.loss_scale = (struct case_loss_scale){SCALE_DYNAMIC, 1000, 2, 2, 1};
        c.offload_optimizer = i == 1 ? TIER_NVME : TIER_DEVICE;
        c.delayed_update = i == 2;
        c.groups[0].bias_correction = i != 3;
        expect_text(&c, ANSWER_UNSUPPORTED, words[i]);
    }
}
