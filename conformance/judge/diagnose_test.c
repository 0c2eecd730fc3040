// SPDX-License-Identifier: Apache-2.0
// Hints for kinds of bugs that need more than one factor to describe them.
#include "conformance/judge/judge_test.h"

#include <math.h>

static void counts_the_last_rank_twice(const struct check_case *c, const struct case_values *values, int step,
                                       float *const g[])
{
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            g[i][k] += case_gradient(values, step, 0, c->world - 1, i)[k] / (float)c->world;
}

Test(diagnose, a_rank_that_counts_twice_is_a_weight)
{
    struct check_case c = trial_case(3, 1, DTYPE_FP32, false);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.gradient = counts_the_last_rank_twice}), HINT_WEIGHTS);
}

// Parameters 3 and 4 become second uses of parameters 2 and 1.
static struct check_case tied_case(int accumulation)
{
    struct check_case c = trial_case(2, accumulation, DTYPE_FP32, false);
    for (int use = 3; use <= 4; use++) {
        c.params[use] = c.params[5 - use];
        c.params[use].tied_to = 5 - use;
        snprintf(c.params[use].name, sizeof c.params[use].name, "p%d", use);
    }
    c.param_count = 5;
    return c;
}

// From the second micro-step on.
static void lacks_a_use(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    for (int micro = c->accumulation > 1; micro < c->accumulation; micro++)
        for (int rank = 0; rank < c->world; rank++)
            for (int use = 3; use <= 4; use++)
                for (size_t k = 0; k < c->params[use].count; k++)
                    g[5 - use][k] -=
                        case_gradient(values, step, micro, rank, use)[k] / (float)(c->world * c->accumulation);
}

Test(diagnose, a_tied_gradient_without_a_use_is_recognised)
{
    for (int accumulation = 1; accumulation <= 3; accumulation += 2) {
        struct check_case c = tied_case(accumulation);
        assert_fails(state_finding(&c, NULL, &(struct wrong){.gradient = lacks_a_use}), HINT_ONE_USE);
    }
}

// Both other tensors of its size are further uses of the last but one, of which the last use's gradient alone is left.
static void keeps_the_last_use(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    for (size_t k = 0; k < c->params[2].count; k++) {
        g[2][k] = 0;
        for (int rank = 0; rank < c->world; rank++)
            g[2][k] += case_gradient(values, step, 0, rank, 4)[k] / (float)c->world;
    }
}

Test(diagnose, one_use_of_three_is_recognised)
{
    struct check_case c = tied_case(1);
    c.params[4] = c.params[3];
    snprintf(c.params[4].name, sizeof c.params[4].name, "p4");
    assert_fails(state_finding(&c, NULL, &(struct wrong){.gradient = keeps_the_last_use}), HINT_ONE_USE);
}

static void fp16_moments(const struct check_case *c, int step, const struct unsharded_state *before,
                         struct unsharded_state *after)
{
    (void)step, (void)before;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++) {
            after->exp_avg[i][k] = unsharded_round(DTYPE_FP16, after->exp_avg[i][k]);
            after->exp_avg_sq[i][k] = unsharded_round(DTYPE_FP16, after->exp_avg_sq[i][k]);
        }
}

Test(diagnose, second_moments_that_fp16_does_not_hold_are_short)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = fp16_moments}), HINT_MOMENTS);
}

// In sixteenths of a tensor's largest: no format's, and no recipe's.
static void coarse_moments(const struct check_case *c, int step, const struct unsharded_state *before,
                           struct unsharded_state *after)
{
    (void)step, (void)before;
    for (int i = 0; i < c->param_count; i++)
        for (int k = 0; k < 2; k++) {
            float *moment = k ? after->exp_avg[i] : after->exp_avg_sq[i], largest = 0;
            for (size_t j = 0; j < c->params[i].count; j++)
                largest = fmaxf(largest, fabsf(moment[j]));
            for (size_t j = 0; j < c->params[i].count; j++)
                moment[j] = roundf(moment[j] / largest * 16) / 16 * largest;
        }
}

Test(diagnose, moments_in_few_steps_of_the_largest_are_of_low_precision)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = coarse_moments}), HINT_MOMENTS);
    c.exact = true;
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = coarse_moments}), HINT_MOMENTS);
}

// Beta1 is 0.9: a tenth of the gradient is what is left without the first moment.
static void forgets_first_moments(const struct check_case *c, int step, const struct unsharded_state *before,
                                  struct unsharded_state *after)
{
    for (int i = 0; i < c->param_count && step == 3; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            after->exp_avg[i][k] -= 0.9F * before->exp_avg[i][k];
}

Test(diagnose, first_moments_that_begin_anew_are_lost)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = forgets_first_moments}), HINT_MOMENTS);
}

// Some first moments are another element's, as if a buffer was written over between the steps.
static void loses_moments(const struct check_case *c, int step, const struct unsharded_state *before,
                          struct unsharded_state *after)
{
    (void)c;
    for (size_t k = 0; step == 2 && k < 100; k += 1 + k % 3) {
        after->exp_avg[0][k] += 0.5F * (before->param[0][k] - before->exp_avg[0][k]);
        after->exp_avg_sq[0][k] += fabsf(before->param[0][k]);
    }
}

Test(diagnose, states_that_are_wrong_here_and_there_are_overwritten)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = loses_moments}), HINT_OVERWRITTEN);
}

static void is_poison_in_parts(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    (void)values, (void)step;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            g[i][k] = k % 3 ? NAN : 2 * g[i][k];
}

Test(diagnose, elements_that_are_mostly_no_numbers_are_unset)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.gradient = is_poison_in_parts}), HINT_UNSET);
}

static float *const *gradients;

static void keeps_them(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    (void)c, (void)values, (void)step;
    gradients = g;
}

static void corrects_all_the_same(const struct check_case *c, int step, const struct unsharded_state *before,
                                  struct unsharded_state *after)
{
    struct check_case corrected = *c;
    struct rule rule = rule_canonical(c);
    struct unsharded_update update = {.t = (uint64_t)step, .lr_step = step, .coefficient = 1, .leaves_unused = true};
    for (int i = 0; i < c->group_count; i++)
        corrected.groups[i].bias_correction = true;
    const float *const *g = (const float *const *)gradients;
    cr_assert(unsharded_adam(&corrected, &rule, &update, g, before, after) == ERR_NONE, "%s", err_message());
}

Test(diagnose, a_correction_of_bias_that_is_turned_off_is_recognised)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    c.groups[0].bias_correction = c.groups[1].bias_correction = false;
    struct wrong wrong = {.gradient = keeps_them, .state = corrects_all_the_same};
    assert_fails(state_finding(&c, NULL, &wrong), HINT_STEP_COUNT);
}

// From element 48 of the first tensor on, t is one more, as where each sub-group counts a step.
static void counts_in_each_sub_group(const struct check_case *c, int step, const struct unsharded_state *before,
                                     struct unsharded_state *after)
{
    struct unsharded_state other;
    struct rule rule = rule_canonical(c);
    struct unsharded_update update = {.t = (uint64_t)step + 1, .lr_step = step, .coefficient = 1};
    cr_assert_eq(unsharded_state_open(c, &other), ERR_NONE);
    cr_assert_eq(unsharded_adam(c, &rule, &update, (const float *const *)gradients, before, &other), ERR_NONE);
    for (size_t k = 48; k < c->params[0].count; k++)
        after->param[0][k] = other.param[0][k];
    unsharded_state_close(&other);
}

Test(diagnose, a_t_that_counts_sub_groups_is_recognised_within_a_tensor)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    struct wrong wrong = {.gradient = keeps_them, .state = counts_in_each_sub_group};
    assert_fails(state_finding(&c, NULL, &wrong), HINT_STEP_COUNT);
}

static void keeps_a_range(const struct check_case *c, int step, const struct unsharded_state *before,
                          struct unsharded_state *after)
{
    (void)c, (void)step;
    memcpy(after->param[0] + 30, before->param[0] + 30, 40 * sizeof(float));
    memcpy(after->exp_avg[0] + 30, before->exp_avg[0] + 30, 40 * sizeof(float));
    memcpy(after->exp_avg_sq[0] + 30, before->exp_avg_sq[0] + 30, 40 * sizeof(float));
}

Test(diagnose, a_range_that_keeps_its_state_is_not_updated)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = keeps_a_range}), HINT_NOT_UPDATED);
}

static void does_not_write_parameters_back(const struct check_case *c, int step, const struct unsharded_state *before,
                                           struct unsharded_state *after)
{
    (void)step;
    for (int i = 0; i < c->param_count; i++)
        memcpy(after->param[i], before->param[i], c->params[i].count * sizeof(float));
}

// Those that a case begins with are numbers of its precision.
Test(diagnose, parameters_in_bf16_that_are_not_kept_are_not_updated)
{
    struct check_case c = trial_case(2, 1, DTYPE_BF16, true);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = does_not_write_parameters_back}), HINT_NOT_UPDATED);
}

static void does_not_write_moments_back(const struct check_case *c, int step, const struct unsharded_state *before,
                                        struct unsharded_state *after)
{
    (void)step;
    for (int i = 0; i < c->param_count; i++)
        memcpy(after->exp_avg[i], before->exp_avg[i], c->params[i].count * sizeof(float));
}

Test(diagnose, moments_that_are_used_and_not_kept_are_lost)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = does_not_write_moments_back}), HINT_MOMENTS);
}

// Two replicas of two shards. In the micro-steps before `summed_from` the first replica's ranks alone are summed.
static int summed_from;
static void sums_within_a_replica(const struct check_case *c, const struct case_values *values, int step,
                                  float *const g[])
{
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++) {
            float sum = 0;
            for (int micro = 0; micro < c->accumulation; micro++)
                for (int rank = 0; rank < (micro < summed_from ? 2 : 4); rank++)
                    sum += case_gradient(values, step, micro, rank, i)[k];
            g[i][k] = sum / (float)(4 * c->accumulation);
        }
}

Test(diagnose, ranks_of_a_group_are_some_ranks_alone)
{
    struct check_case c = trial_case(4, 3, DTYPE_FP32, false);
    c.mesh = (struct mesh){2, 2, 1, 1, 1};
    summed_from = 3;
    assert_fails(state_finding(&c, NULL, &(struct wrong){.gradient = sums_within_a_replica}), HINT_ONE_RANK);
    summed_from = 2;
    assert_fails(state_finding(&c, NULL, &(struct wrong){.gradient = sums_within_a_replica}), HINT_ONE_MICRO_STEP);
}

static void divides_by_three(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    (void)values, (void)step;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            g[i][k] /= 3;
}

Test(diagnose, the_size_of_a_group_is_a_number_of_ranks)
{
    struct check_case c = trial_case(6, 1, DTYPE_FP32, false);
    struct wrong wrong = {.gradient = divides_by_three};
    assert_fails(state_finding(&c, NULL, &wrong), HINT_FACTOR_OTHER);
    c.mesh = (struct mesh){2, 3, 1, 1, 1};
    assert_fails(state_finding(&c, NULL, &wrong), HINT_FACTOR_WORLD);
}

// From element 48 of the first tensor on, the first moment is read from where that of the tensor's begin lies.
static void reads_the_first_sub_group(const struct check_case *c, int step, const struct unsharded_state *before,
                                      struct unsharded_state *after)
{
    for (size_t k = 48; step > 1 && k < c->params[0].count; k++) {
        float difference = 0.9F * (before->exp_avg[0][k % 48] - before->exp_avg[0][k]);
        after->exp_avg[0][k] += difference;
        after->param[0][k] -= difference;
    }
}

Test(diagnose, moments_of_other_elements_are_overwritten)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = reads_the_first_sub_group}), HINT_OVERWRITTEN);
}

static void says_its_norm(const struct check_case *c, int step, struct answer_step *says)
{
    (void)step;
    says->has_norm = true;
    says->norm = unsharded_norm(c, (const float *const *)gradients);
}

// The first of three micro-steps; what it is clipped by is its own norm.
static void has_one_micro_step(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    gradients = g;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            g[i][k] = (case_gradient(values, step, 0, 0, i)[k] + case_gradient(values, step, 0, 1, i)[k]) / 6;
}

Test(diagnose, a_gradient_that_is_clipped_by_its_own_norm_is_recognised)
{
    struct check_case c = trial_case(2, 3, DTYPE_FP32, false);
    c.gradient_clipping = 0x1p-8;
    struct wrong wrong = {.gradient = has_one_micro_step, .says = says_its_norm};
    assert_fails(state_finding(&c, NULL, &wrong), HINT_ONE_MICRO_STEP);
}

// A tensor without a gradient, of the group that does not decay, decays as the first group does.
static void decays_as_the_first_group(const struct check_case *c, int step, const struct unsharded_state *before,
                                      struct unsharded_state *after)
{
    float factor = 1 - (float)(c->groups[1].lr[step - 1] * c->groups[0].weight_decay);
    for (size_t k = 0; k < c->params[1].count; k++)
        after->param[1][k] = before->param[1][k] * factor;
}

Test(diagnose, what_decay_alone_moves_has_another_decay)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    c.params[1].used = false;
    c.groups[1].weight_decay = 0.01;
    c.groups[0].lr_by_step = c.groups[1].lr_by_step = false;
    for (int step = 0; step < c.steps; step++)
        c.groups[0].lr[step] = 10 * (c.groups[1].lr[step] = 1e-3);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = decays_as_the_first_group}), HINT_DECAY);
}

// From element 30 to 49 of the first tensor, parameters of the element before: some updated, some not.
static void writes_beside(const struct check_case *c, int step, const struct unsharded_state *before,
                          struct unsharded_state *after)
{
    (void)c, (void)step;
    for (size_t k = 49; k >= 30; k--)
        after->param[0][k] = k % 2 ? before->param[0][k - 1] : after->param[0][k - 1];
}

Test(diagnose, parameters_of_the_element_before_are_shifted)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = writes_beside}), HINT_SHIFTED);
}

static void has_one_poisoned_element(const struct check_case *c, const struct case_values *values, int step,
                                     float *const g[])
{
    (void)c, (void)values, (void)step;
    g[0][100] = NAN;
    gradients = g;
}

// A norm that is no number makes the coefficient of all elements none.
Test(diagnose, a_gradient_whose_norm_is_no_number_is_unset)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    c.gradient_clipping = 0x1p-8;
    assert_fails(state_finding(&c, NULL, &(struct wrong){.gradient = has_one_poisoned_element, .says = says_its_norm}),
                 HINT_UNSET);
}

// Nothing follows from anything: as where buffers of several states are shared.
static void mixes_all_states(const struct check_case *c, int step, const struct unsharded_state *before,
                             struct unsharded_state *after)
{
    (void)step, (void)before;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++) {
            after->param[i][k] += (float)(1 + k % 7);
            after->exp_avg[i][k] -= (float)(2 + k % 5);
            after->exp_avg_sq[i][k] += (float)(3 + k % 11);
        }
}

Test(diagnose, states_that_follow_from_nothing_are_overwritten)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, false);
    assert_fails(state_finding(&c, NULL, &(struct wrong){.state = mixes_all_states}), HINT_OVERWRITTEN);
}

// Of a first run without clipping and a second one with it: the norms of what is applied, by step.
static double norms[CASE_STEP_MAX + 1];
static struct unsharded_decision decisions[CASE_STEP_MAX];

static void decide(const struct check_case *c)
{
    struct case_values *values;
    cr_assert_eq(case_values_open(c, &values), ERR_NONE);
    cr_assert_eq(unsharded_decide(c, values, SCALER_DEEPSPEED, decisions), ERR_NONE);
    case_values_close(values);
}

static void unscales_by_the_next(const struct check_case *c, const struct case_values *values, int step,
                                 float *const g[])
{
    (void)values;
    norms[step] = unsharded_norm(c, (const float *const *)g);
    float factor = (float)(decisions[step - 1].scale / decisions[step - 1].scale_after);
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++)
            g[i][k] *= factor;
}

// The threshold lies between both norms, so that the factor is neither the scales' nor the coefficient's.
Test(diagnose, another_scale_is_recognised_where_it_decides_about_clipping)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP16, true);
    c.loss_scale =
        (struct case_loss_scale){.kind = SCALE_DYNAMIC, .scale = 8, .window = 2, .hysteresis = 1, .min_scale = 1};
    decide(&c);
    struct wrong wrong = {.gradient = unscales_by_the_next};
    assert_fails(state_finding(&c, NULL, &wrong), HINT_FACTOR_SCALE);
    int grows = 1;
    while (decisions[grows - 1].scale == decisions[grows - 1].scale_after)
        cr_assert_leq(++grows, c.steps);
    c.gradient_clipping = 0.75 * norms[grows];
    assert_fails(state_finding(&c, NULL, &wrong), HINT_FACTOR_SCALE);
}

static void adds_the_step_before(const struct check_case *c, const struct case_values *values, int step,
                                 float *const g[])
{
    static float kept[4][101];
    int applied = decisions[step - 1].applies;
    (void)values;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++) {
            float own = g[i][k];
            g[i][k] += applied > 1 ? kept[i][k] : 0;
            kept[i][k] = own;
        }
    norms[applied] = unsharded_norm(c, (const float *const *)g);
}

static void says_the_norm_of_its_gradient(const struct check_case *c, int step, struct answer_step *says)
{
    says->has_norm = step < c->steps;
    says->norm = norms[step];
}

// The step that applies a gradient reports the norm of the next.
Test(diagnose, clipping_is_seen_through_under_the_delayed_update)
{
    struct check_case c = trial_case(2, 1, DTYPE_FP32, true);
    c.delayed_update = 1;
    decide(&c);
    struct wrong wrong = {.gradient = adds_the_step_before, .says = says_the_norm_of_its_gradient};
    assert_fails(state_finding(&c, NULL, &wrong), HINT_LEFT_OVER);
    c.gradient_clipping = 0x1p-8;
    assert_fails(state_finding(&c, NULL, &wrong), HINT_LEFT_OVER);
}
