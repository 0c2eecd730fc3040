// SPDX-License-Identifier: Apache-2.0
// The relations accept every recipe and every rule, far within their limits, and none of the wrong ones.
#include "conformance/judge/links.h"

#include "conformance/unsharded/oracle_test.h"
#include "conformance/unsharded/rule_test.h"

#include <math.h>

// The mistakes of an implementation.
enum mistake {
    RIGHT,
    L2_FOR_DECOUPLED,
    DECOUPLED_FOR_L2,
    NO_BIAS_CORRECTION,
    NO_BIAS_CORRECTION_OF_V,
    EPS_IN_THE_ROOT,
    T_ONE_LATE,
    T_ONE_EARLY,
    BF16_MOMENTS,
    BF16_MASTER,
    BETA2_OF_ANOTHER,
    LR_OF_ANOTHER_STEP,
    ONE_RANK_IS_MISSING,
    DIVIDED_BY_ONE_MORE,
    CLIPS_NOT,
    MISTAKE_COUNT
};

// The relation that is beyond its limit, where the gradient is shown.
static const struct {
    const char *name;
    enum link link;
} mistakes[MISTAKE_COUNT] = {
    [L2_FOR_DECOUPLED] = {"L2 for decoupled", LINK_EXP_AVG},
    [DECOUPLED_FOR_L2] = {"decoupled for L2", LINK_EXP_AVG},
    [NO_BIAS_CORRECTION] = {"no bias correction", LINK_PARAM},
    [NO_BIAS_CORRECTION_OF_V] = {"no bias correction of v", LINK_PARAM},
    [EPS_IN_THE_ROOT] = {"eps in the root", LINK_PARAM},
    [T_ONE_LATE] = {"t one late", LINK_PARAM},
    [T_ONE_EARLY] = {"t one early", LINK_PARAM},
    [BF16_MOMENTS] = {"bf16 moments", LINK_EXP_AVG},
    [BF16_MASTER] = {"bf16 master", LINK_PARAM},
    [BETA2_OF_ANOTHER] = {"beta2 of another", LINK_EXP_AVG_SQ},
    [LR_OF_ANOTHER_STEP] = {"lr of another step", LINK_PARAM},
    [ONE_RANK_IS_MISSING] = {"one rank is missing", LINK_GRADIENT},
    [DIVIDED_BY_ONE_MORE] = {"divided by one more", LINK_GRADIENT},
    [CLIPS_NOT] = {"clips not", LINK_EXP_AVG},
};

// An implementation that is to be judged: it follows a rule, but for its mistake.
struct imitation {
    struct check_case c;
    struct rule rule;
    enum mistake mistake;
    bool tail, shows_gradient;
    uint64_t resumed_t;
    struct case_values *values;
    struct unsharded_state before, after;
    float *gradients[CASE_PARAM_MAX];
    struct unsharded_decision decisions[CASE_STEP_MAX];
};

static void imitation_open(struct imitation *x)
{
    cr_assert_eq(case_values_open(&x->c, &x->values), 0);
    cr_assert_eq(unsharded_state_open(&x->c, &x->before) | unsharded_state_open(&x->c, &x->after), 0);
    cr_assert_eq(unsharded_decide(&x->c, x->values, SCALER_DEEPSPEED, x->decisions), 0);
    trial_arrays_open(&x->c, x->gradients);
    unsharded_begin(&x->c, x->values, &x->after);
}

static void imitation_close(struct imitation *x)
{
    trial_arrays_close(x->gradients);
    unsharded_state_close(&x->before);
    unsharded_state_close(&x->after);
    case_values_close(x->values);
}

// The hyper-parameters and t that it takes.
static void mistake_in_settings(const struct imitation *x, struct check_case *c, struct unsharded_update *update)
{
    for (int i = 0; i < c->group_count; i++) {
        struct case_group *group = &c->groups[i];
        group->decoupled = x->mistake == L2_FOR_DECOUPLED   ? false
                           : x->mistake == DECOUPLED_FOR_L2 ? true
                                                            : group->decoupled;
        group->bias_correction = group->bias_correction && x->mistake != NO_BIAS_CORRECTION;
        group->beta2 = x->mistake == BETA2_OF_ANOTHER ? x->c.groups[1 - i].beta2 : group->beta2;
    }
    update->t += x->mistake == T_ONE_LATE;
    update->t -= x->mistake == T_ONE_EARLY && update->t > 1;
    if (x->mistake == LR_OF_ANOTHER_STEP)
        update->lr_step++;
    if (x->mistake == CLIPS_NOT)
        update->coefficient = 1;
}

static void mistake_in_gradient(struct imitation *x, int step)
{
    for (int i = 0; i < x->c.param_count; i++)
        for (size_t k = 0; k < x->c.params[i].count; k++) {
            float n = (float)x->c.world;
            if (x->mistake == ONE_RANK_IS_MISSING)
                x->gradients[i][k] -= case_gradient(x->values, step, 0, x->c.world - 1, i)[k] / n;
            if (x->mistake == DIVIDED_BY_ONE_MORE)
                x->gradients[i][k] *= n / (n + 1);
        }
}

static void mistake_in_element(const struct imitation *x, const struct case_group *group, int step, float before,
                               float *p, float *m, float *v)
{
    if (x->mistake == BF16_MOMENTS) {
        *m = unsharded_round(DTYPE_BF16, *m);
        *v = unsharded_round(DTYPE_BF16, *v);
    }
    if (x->mistake == BF16_MASTER)
        *p = unsharded_round(DTYPE_BF16, *p);
    if (x->mistake == EPS_IN_THE_ROOT || x->mistake == NO_BIAS_CORRECTION_OF_V) {
        double lr = group->lr[step - 1], bias1 = 1 - pow(group->beta1, step), bias2 = 1 - pow(group->beta2, step);
        bool inside = x->mistake == EPS_IN_THE_ROOT;
        double root = inside ? sqrt((double)*v / bias2 + group->eps) : sqrt((double)*v) + group->eps;
        *p = (float)(before * (1 - lr * group->weight_decay) - lr * ((double)*m / bias1) / root);
    }
}

static void imitation_step(struct imitation *x, int step, struct link_result *out)
{
    const struct unsharded_decision *d = &x->decisions[step - 1];
    struct unsharded_choice choice = {.first_rank = step % x->c.world, .downwards = step % 2, .tail = x->tail};
    unsharded_state_copy(&x->c, &x->after, &x->before);
    if (d->applies) {
        cr_assert_eq(unsharded_gradient(&x->c, x->values, &x->rule, &choice, step, d->scale, x->gradients), 0);
        mistake_in_gradient(x, step);
        const float *const *gradients = (const float *const *)x->gradients;
        struct check_case c = x->c;
        struct unsharded_update update = {.t = d->t, .lr_step = step, .tail = x->tail, .resumed_t = x->resumed_t};
        update.coefficient = unsharded_coefficient(&x->c, &x->rule, unsharded_norm(&x->c, gradients));
        mistake_in_settings(x, &c, &update);
        cr_assert_eq(unsharded_adam(&c, &x->rule, &update, gradients, &x->before, &x->after), 0);
        for (int i = 0; i < c.param_count; i++)
            for (size_t k = 0; k < c.params[i].count; k++)
                mistake_in_element(x, &x->c.groups[c.params[i].group], step, x->before.param[i][k],
                                   &x->after.param[i][k], &x->after.exp_avg[i][k], &x->after.exp_avg_sq[i][k]);
    }
    bool has = x->shows_gradient && d->applies;
    struct link_step in = {
        .step = step,
        .decisions = x->decisions,
        .before = &x->before,
        .after = &x->after,
        .grad = has ? (const float *const *)x->gradients : NULL,
        .may_leave_unused = true,
        .may_decay_unused = true,
    };
    in.applied_grad = in.grad;
    cr_assert_eq(links_check(&x->c, x->values, &in, out), 0);
}

// The worst share of its limit that each relation reaches in all steps.
static enum link_class imitation_run(struct imitation *x, double share[LINK_COUNT])
{
    enum link_class class = LINK_WITHIN;
    imitation_open(x);
    for (int step = 1; step <= x->c.steps; step++) {
        struct link_result result;
        imitation_step(x, step, &result);
        for (enum link link = 0; link < LINK_COUNT; link++)
            if (result.worst[link].was_checked)
                share[link] = fmax(share[link], result.worst[link].roundings / result.worst[link].limit);
        enum link_class one = links_class(&result);
        class = one > class ? one : class;
    }
    imitation_close(x);
    return class;
}

enum { VARIANTS = 9 };

static struct check_case variant_case(int variant)
{
    struct check_case c = trial_case(variant % 2 ? 3 : 4, variant == 2 || variant == 5 ? 3 : 1);
    c.steps = 24;
    c.data.exponent_low = -16;
    if (variant == 1 || variant == 5)
        c.groups[0].decoupled = c.groups[1].decoupled = false;
    if (variant == 2 || variant == 5)
        c.gradient_clipping = 0.5;
    if (variant == 3)
        c.precision = c.communication_dtype = DTYPE_BF16;
    if (variant == 4) {
        c.precision = c.communication_dtype = c.accumulation_dtype = DTYPE_FP16;
        c.loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 1024};
        c.overflow_check = true;
    }
    if (variant == 6)
        c.groups[0].bias_correction = c.groups[1].bias_correction = false;
    if (variant == 8)
        c.data.init_exponent = -20;  // the update is all of the parameter
    if (variant == 7) {
        c.groups[0].beta1 = 0;
        c.groups[1].beta1 = 0.3;
        c.groups[1].beta2 = 0.5;
    }
    return c;
}

// Moments that are kept in less than fp32 are beyond.
Test(links, every_recipe_is_within_every_limit)
{
    double share[LINK_COUNT] = {0};
    int count = 0;
    for (int variant = 0; variant < VARIANTS; variant++) {
        struct check_case c = variant_case(variant);
        for (int recipe = 0; adam_recipe_at(recipe); recipe++) {
            if (!adam_recipe_does(adam_recipe_at(recipe), c.groups[0].decoupled))
                continue;
            for (int way = 0; way < 4; way++) {
                struct imitation x = {.c = c,
                                      .rule = rule_canonical(&c),
                                      .tail = way % 2,
                                      .shows_gradient = way / 2,
                                      .resumed_t = way == 3 ? 5 : 0};
                x.rule.recipe = recipe;
                double own[LINK_COUNT] = {0};
                enum link_class class = imitation_run(&x, own);
                bool keeps = adam_recipe_keeps_fp32(adam_recipe_at(recipe));
                cr_expect_eq(class, keeps ? LINK_WITHIN : LINK_BROKEN, "variant %d, %s", variant,
                             adam_recipe_name(adam_recipe_at(recipe)));
                for (enum link link = 0; link < LINK_COUNT && keeps; link++)
                    share[link] = fmax(share[link], own[link]);
                count++;
            }
        }
    }
    cr_expect_gt(count, 300);
    for (enum link link = 0; link < LINK_COUNT; link++)
        cr_log_info("%s: at most %.3f of its limit", link_name(link), share[link]);
    cr_expect(share[LINK_EXP_AVG] > 0.1 && share[LINK_EXP_AVG_SQ] > 0.1 && share[LINK_PARAM] > 0.01);
}

Test(links, every_rule_is_within_every_limit)
{
    double share[LINK_COUNT] = {0};
    int gradients = 0;
    for (int variant = 0; variant < VARIANTS; variant++) {
        struct check_case c = variant_case(variant);
        c.steps = 4;
        struct rule last = {.division = DIVIDE_COUNT};
        for (int i = 0; i < rule_count(&c); i++) {
            struct imitation x = {.c = c, .rule = rule_at(&c, i), .shows_gradient = true};
            if (rule_same_gradient(&x.rule, &last) && x.rule.clip == last.clip)
                continue;
            last = x.rule;
            char text[256];
            cr_expect_eq(imitation_run(&x, share), LINK_WITHIN, "%s", rule_text(&x.rule, text, sizeof text));
            gradients++;
        }
    }
    cr_log_info("gradient: at most %.3f of its limit", share[LINK_GRADIENT]);
    cr_expect(gradients > 100 && share[LINK_GRADIENT] > 0.1, "%d", gradients);
}

Test(links, every_mistake_is_beyond_a_limit)
{
    for (enum mistake mistake = 1; mistake < MISTAKE_COUNT; mistake++)
        for (int way = 0; way < 2; way++) {
            struct check_case c = variant_case(mistake == DECOUPLED_FOR_L2 ? 1 : mistake == CLIPS_NOT ? 2 : 0);
            struct imitation x = {.c = c, .rule = rule_canonical(&c), .mistake = mistake, .shows_gradient = way};
            double share[LINK_COUNT] = {0};
            cr_expect_eq(imitation_run(&x, share), LINK_BROKEN, "%s", mistakes[mistake].name);
            // Without the gradient of its own, the moments show that.
            enum link link = mistakes[mistake].link == LINK_GRADIENT && !way ? LINK_EXP_AVG : mistakes[mistake].link;
            cr_expect_gt(share[link], 20, "%s: %g of %s", mistakes[mistake].name, share[link], link_name(link));
            cr_log_info("%s, gradient %s: %s %.3g times its limit", mistakes[mistake].name, way ? "shown" : "hidden",
                        link_name(link), share[link]);
        }
}

// Eight ranks in bf16: what may be lost is a small part of what a rank adds.
Test(links, a_rank_that_is_missing_shows_in_bf16_too)
{
    struct check_case c = trial_case_of(8, 2, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 2);
    for (int way = 0; way < 2; way++) {
        struct imitation x = {.c = c, .rule = rule_canonical(&c), .shows_gradient = way};
        double share[LINK_COUNT] = {0};
        cr_expect_eq(imitation_run(&x, share), LINK_WITHIN);
        x.mistake = ONE_RANK_IS_MISSING;
        cr_expect_eq(imitation_run(&x, share), LINK_BROKEN);
        cr_expect_gt(way ? share[LINK_GRADIENT] : share[LINK_EXP_AVG], 1.5);
    }
}

// Between the states that x has, at step 2.
static struct link_result kept_result(struct imitation *x, bool may_leave, bool may_decay)
{
    struct link_result out;
    struct link_step in = {.step = 2,
                           .decisions = x->decisions,
                           .before = &x->before,
                           .after = &x->after,
                           .may_leave_unused = may_leave,
                           .may_decay_unused = may_decay};
    cr_assert_eq(links_check(&x->c, x->values, &in, &out), 0);
    return out;
}

Test(links, what_must_not_move_is_compared_bit_by_bit_but_for_the_sign_of_zero)
{
    struct imitation x = {.c = trial_case(2, 1)};
    x.c.overflow_check = true;
    x.c.params[1].frozen = true;
    x.c.data.pokes[0] = (struct case_poke){.step = 2, .value = NAN};
    x.c.data.poke_count = 1;
    imitation_open(&x);
    x.after.param[0][5] = 0;
    unsharded_state_copy(&x.c, &x.after, &x.before);
    x.after.param[0][5] = -0.0f;
    struct link_result result = kept_result(&x, true, true);
    cr_expect_eq(links_class(&result), LINK_WITHIN);
    x.after.exp_avg_sq[0][7] = 0x1p-149f;
    result = kept_result(&x, true, true);
    cr_expect_eq(links_class(&result), LINK_BROKEN);
    const struct link_worst *worst = &result.worst[LINK_EXP_AVG_SQ];
    cr_expect(isinf(worst->roundings) && worst->param == 0 && worst->element == 7);
    cr_expect_eq(result.worst[LINK_PARAM].roundings, 0);
    x.after.exp_avg_sq[0][7] = 0;
    x.after.param[1][52] = NAN;  // frozen
    result = kept_result(&x, true, true);
    cr_expect(isinf(result.worst[LINK_PARAM].roundings) && result.worst[LINK_PARAM].param == 1);
    imitation_close(&x);
}

Test(links, an_unused_parameter_is_kept_or_decays_as_claimed)
{
    struct imitation x = {.c = trial_case(2, 1), .shows_gradient = true};
    x.c.params[1].used = false;
    x.c.steps = 2;
    double share[LINK_COUNT] = {0};
    cr_expect_eq(imitation_run(&x, share), LINK_WITHIN);  // the oracle decays it
    imitation_open(&x);
    struct link_result result;
    imitation_step(&x, 1, &result);
    imitation_step(&x, 2, &result);
    result = kept_result(&x, false, true);
    cr_expect_eq(links_class(&result), LINK_WITHIN);
    result = kept_result(&x, true, false);
    cr_expect(isinf(result.worst[LINK_PARAM].roundings) && result.worst[LINK_PARAM].param == 1);
    memcpy(x.after.param[1], x.before.param[1], x.c.params[1].count * sizeof(float));
    result = kept_result(&x, true, true);
    cr_expect_eq(links_class(&result), LINK_WITHIN);
    result = kept_result(&x, true, false);
    cr_expect_eq(links_class(&result), LINK_WITHIN);
    result = kept_result(&x, false, true);
    cr_expect_eq(links_class(&result), LINK_BROKEN);
    imitation_close(&x);
}

Test(links, limits_are_as_derived)
{
    struct check_case c = trial_case(4, 2);
    cr_expect_eq(links_gradient_limit(&c), 4 + 2 + 2 + 4);
    c.world = 3;
    cr_expect_eq(links_gradient_limit(&c), 3 + 2 + 2 + 4 + 2);
    c.communication_dtype = DTYPE_BF16;
    cr_expect_eq(links_gradient_limit(&c), 5 * 0x1p16 + 2 + 4 + 2);
    struct link_worst worst = {.was_checked = true, .roundings = 4.5, .limit = 4};
    cr_expect_eq(link_class_of(LINK_EXP_AVG, &worst), LINK_MARGINAL);
    cr_expect_eq(link_class_of(LINK_GRADIENT, &worst), LINK_BROKEN);
    worst.roundings = 16.5;
    cr_expect_eq(link_class_of(LINK_EXP_AVG, &worst), LINK_BROKEN);
    worst.roundings = 4;
    cr_expect_eq(link_class_of(LINK_EXP_AVG, &worst), LINK_WITHIN);
}
