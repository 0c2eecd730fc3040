// SPDX-License-Identifier: Apache-2.0
// The hint for each kind of bug, by a mistake of that kind.
#include "conformance/judge/judge_test.h"

#include <math.h>

static float has_rank_0_alone(const struct place *at, float g)
{
    (void)g;
    return given(at, 0, 0);
}

static float counts_the_last_rank_twice(const struct place *at, float g)
{
    return g + given(at, 0, at->c->world - 1) / (float)at->c->world;
}

// Another gradient in every element, of no kind that is known: the optimizer's formula is right, and not blamed.
static float is_disturbed(const struct place *at, float g)
{
    return g * (1 + 0.05f * sinf((float)(at->k * at->k + 7 * (size_t)at->param + 1)));
}

static void has_the_step_before(const struct check_case *c, const struct case_values *values, int step,
                                float *const g[])
{
    struct rule rule = rule_canonical(c);
    struct unsharded_choice choice = {0};
    if (step > 1)
        cr_assert_eq(unsharded_gradient(c, values, &rule, &choice, step - 1, 1.0, g), ERR_NONE);
}

// The last elements of one tensor, which no reduction has written.
static float has_an_unset_end(const struct place *at, float g)
{
    return at->param == 0 && at->k + 20 >= at->c->params[0].count ? NAN : g;
}

static float is_poison_in_parts(const struct place *at, float g)
{
    return at->k % 3 ? NAN : 2 * g;
}

static float has_one_poisoned_element(const struct place *at, float g)
{
    return at->param == 0 && at->k == 100 ? NAN : g;
}

// The second tensor takes no space, so that those after it move up and the end is what nothing has written.
static void moves_up(const struct check_case *c, const struct case_values *values, int step, float *const g[])
{
    (void)values, (void)step;
    size_t gap = c->params[1].count;
    for (int i = 1; i < c->param_count; i++)
        for (size_t k = 0; k < c->params[i].count; k++) {
            int from = i;
            size_t element = k + gap;
            while (from < c->param_count && element >= c->params[from].count)
                element -= c->params[from++].count;
            g[i][k] = from < c->param_count ? g[from][element] : NAN;
        }
}

// Parameters 3 and 4 become second uses of parameters 2 and 1.
static void ties(struct check_case *c)
{
    for (int use = 3; use <= 4; use++) {
        c->params[use] = c->params[5 - use];
        c->params[use].tied_to = 5 - use;
        snprintf(c->params[use].name, sizeof c->params[use].name, "p%d", use);
    }
    c->param_count = 5;
}

// Of the tied parameters, from the second micro-step on.
static float lacks_a_use(const struct place *at, float g)
{
    struct place use = *at;
    use.param = 5 - at->param;
    for (int micro = at->c->accumulation > 1; micro < at->c->accumulation; micro++)
        for (int rank = 0; rank < at->c->world && use.param >= 3 && use.param <= 4; rank++)
            g -= given(&use, micro, rank) / (float)(at->c->world * at->c->accumulation);
    return g;
}

// Both other tensors of its size are further uses of the last but one, of which the last use's gradient alone is left.
static void ties_three(struct check_case *c)
{
    ties(c);
    c->params[4] = c->params[3];
    snprintf(c->params[4].name, sizeof c->params[4].name, "p4");
}

static float keeps_the_last_use(const struct place *at, float g)
{
    struct place use = *at;
    use.param = 4;
    for (int rank = 0; at->param == 2 && rank < at->c->world; rank++)
        g = (rank == 0 ? 0 : g) + given(&use, 0, rank) / (float)at->c->world;
    return g;
}

static struct held has_moments_of(enum dtype dtype, struct held after)
{
    after.exp_avg = unsharded_round(dtype, after.exp_avg);
    after.exp_avg_sq = unsharded_round(dtype, after.exp_avg_sq);
    return after;
}

static struct held has_bf16_moments(const struct place *at, struct held before, struct held after)
{
    (void)at, (void)before;
    return has_moments_of(DTYPE_BF16, after);
}

// Second moments that fp16 does not hold.
static struct held has_fp16_moments(const struct place *at, struct held before, struct held after)
{
    (void)at, (void)before;
    return has_moments_of(DTYPE_FP16, after);
}

// In sixteenths of a tensor's largest: no format's, and no recipe's.
static void has_coarse_moments(const struct check_case *c, int step, const struct unsharded_state *before,
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

static struct held swaps_moments(const struct place *at, struct held before, struct held after)
{
    (void)before;
    return at->step == 2 ? (struct held){after.param, after.exp_avg_sq, after.exp_avg} : after;
}

// Beta1 is 0.9: a tenth of the gradient is what is left without the first moment.
static struct held forgets_first_moments(const struct place *at, struct held before, struct held after)
{
    if (at->step == 3)
        after.exp_avg -= 0.9F * before.exp_avg;
    return after;
}

// Some first moments are another element's, as if a buffer was written over between the steps.
static struct held loses_moments(const struct place *at, struct held before, struct held after)
{
    if (at->step == 2 && at->param == 0 && at->k < 100 && at->k % 3 < 2) {
        after.exp_avg += 0.5F * (before.param - before.exp_avg);
        after.exp_avg_sq += fabsf(before.param);
    }
    return after;
}

static void corrects_no_bias(struct check_case *c)
{
    c->groups[0].bias_correction = c->groups[1].bias_correction = false;
}

static void corrects_all_the_same(const struct check_case *c, int step, const struct unsharded_state *before,
                                  struct unsharded_state *after)
{
    struct check_case corrected = *c;
    struct rule rule = rule_canonical(c);
    struct unsharded_update update = {.t = (uint64_t)step, .lr_step = step, .coefficient = 1, .leaves_unused = true};
    for (int i = 0; i < c->group_count; i++)
        corrected.groups[i].bias_correction = true;
    const float *const *g = (const float *const *)trial_gradients;
    cr_assert(unsharded_adam(&corrected, &rule, &update, g, before, after) == ERR_NONE, "%s", err_message());
}

// From element 48 of the first tensor on, t is one more, as where each sub-group counts a step.
static void counts_in_each_sub_group(const struct check_case *c, int step, const struct unsharded_state *before,
                                     struct unsharded_state *after)
{
    struct unsharded_state other;
    struct rule rule = rule_canonical(c);
    struct unsharded_update update = {.t = (uint64_t)step + 1, .lr_step = step, .coefficient = 1};
    cr_assert_eq(unsharded_state_open(c, &other), ERR_NONE);
    cr_assert_eq(unsharded_adam(c, &rule, &update, (const float *const *)trial_gradients, before, &other), ERR_NONE);
    for (size_t k = 48; k < c->params[0].count; k++)
        after->param[0][k] = other.param[0][k];
    unsharded_state_close(&other);
}

static void has_the_learning_rate_of_step_1(const struct check_case *c, int step, struct unsharded_update *update,
                                            struct rule *rule)
{
    (void)c, (void)step, (void)rule;
    update->lr_step = 1;
}

static struct held copies_the_start(const struct place *at, struct held before, struct held after)
{
    (void)at, (void)after;
    return before;
}

static struct held keeps_a_range(const struct place *at, struct held before, struct held after)
{
    return at->param == 0 && at->k >= 30 && at->k < 70 ? before : after;
}

// Those that a case begins with are numbers of its precision.
static struct held does_not_write_parameters_back(const struct place *at, struct held before, struct held after)
{
    (void)at;
    after.param = before.param;
    return after;
}

static struct held does_not_write_moments_back(const struct place *at, struct held before, struct held after)
{
    (void)at;
    after.exp_avg = before.exp_avg;
    return after;
}

static void has_replicas(struct check_case *c)
{
    c->mesh = (struct mesh){2, c->world / 2, 1, 1, 1};
}

// Two replicas of two shards. In the micro-steps before `end` the first replica's ranks alone are summed.
static float sum_within_a_replica(const struct place *at, int end)
{
    float sum = 0;
    for (int micro = 0; micro < at->c->accumulation; micro++)
        for (int rank = 0; rank < (micro < end ? 2 : 4); rank++)
            sum += given(at, micro, rank);
    return sum / (float)(4 * at->c->accumulation);
}

static float sums_within_a_replica(const struct place *at, float g)
{
    (void)g;
    return sum_within_a_replica(at, 3);
}

static float sums_within_a_replica_twice(const struct place *at, float g)
{
    (void)g;
    return sum_within_a_replica(at, 2);
}

static float is_divided_by_three(const struct place *at, float g)
{
    (void)at;
    return g / 3;
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

static void clips(struct check_case *c)
{
    c->gradient_clipping = 0x1p-8;
}

static void says_its_norm(const struct check_case *c, int step, struct answer_step *says)
{
    (void)step;
    says->has_norm = true;
    says->norm = unsharded_norm(c, (const float *const *)trial_gradients);
}

// The first of three micro-steps; what it is clipped by is its own norm.
static float has_one_micro_step(const struct place *at, float g)
{
    (void)g;
    return (given(at, 0, 0) + given(at, 0, 1)) / 6;
}

// A tensor without a gradient, of the group that does not decay, decays as the first group does.
static void has_a_tensor_that_rests(struct check_case *c)
{
    c->params[1].used = false;
    c->groups[1].weight_decay = 0.01;
    c->groups[0].lr_by_step = c->groups[1].lr_by_step = false;
    for (int step = 0; step < c->steps; step++)
        c->groups[0].lr[step] = 10 * (c->groups[1].lr[step] = 1e-3);
}

static struct held decays_as_the_first_group(const struct place *at, struct held before, struct held after)
{
    if (at->param == 1)
        after.param = before.param * (1 - (float)(at->c->groups[1].lr[at->step - 1] * at->c->groups[0].weight_decay));
    return after;
}

// From element 30 to 49 of the first tensor, parameters of the element before: some updated, some not.
static void writes_beside(const struct check_case *c, int step, const struct unsharded_state *before,
                          struct unsharded_state *after)
{
    (void)c, (void)step;
    for (size_t k = 49; k >= 30; k--)
        after->param[0][k] = k % 2 ? before->param[0][k - 1] : after->param[0][k - 1];
}

// Nothing follows from anything: as where buffers of several states are shared.
static struct held mixes_all_states(const struct place *at, struct held before, struct held after)
{
    (void)before;
    return (struct held){after.param + (float)(1 + at->k % 7), after.exp_avg - (float)(2 + at->k % 5),
                         after.exp_avg_sq + (float)(3 + at->k % 11)};
}

// The plain case: two ranks, a micro-step, fp32, gradients that round.
static const struct {
    const char *what;
    struct wrong wrong;
    enum hint hint;
    int step;  // of the first difference; 0: any
    bool exact;
    void (*change)(struct check_case *c);
    int world, accumulation;
    enum dtype precision;
} mistakes[] = {
    {"one rank alone", {.element = has_rank_0_alone}, .hint = HINT_ONE_RANK, .world = 3},
    {"a rank that counts twice", {.element = counts_the_last_rank_twice}, .hint = HINT_WEIGHTS, .world = 3},
    {"no kind that is known", {.element = is_disturbed}, .hint = HINT_GRADIENT},
    {"the step before", {.gradient = has_the_step_before}, .hint = HINT_STALE_GRADIENT, .step = 2},
    {"another step's rate", {.update = has_the_learning_rate_of_step_1}, .hint = HINT_LR, .step = 2, .exact = true},
    {"what nothing has written", {.element = has_an_unset_end}, .hint = HINT_UNSET, .exact = true},
    {"mostly no numbers", {.element = is_poison_in_parts}, .hint = HINT_UNSET, .exact = true},
    // A norm that is no number makes the coefficient of all elements none.
    {"no norm", {.element = has_one_poisoned_element, .says = says_its_norm}, .hint = HINT_UNSET, .change = clips},
    {"values of other elements", {.gradient = pieces_in_another_order}, .hint = HINT_SHIFTED},
    {"an end that is no number", {.gradient = moves_up}, .hint = HINT_SHIFTED},
    {"a tied gradient without a use", {.element = lacks_a_use}, .hint = HINT_ONE_USE, .change = ties},
    {"in a micro-step", {.element = lacks_a_use}, .hint = HINT_ONE_USE, .change = ties, .accumulation = 3},
    {"one use of three", {.element = keeps_the_last_use}, .hint = HINT_ONE_USE, .change = ties_three},
    {"moments of bf16", {.held = has_bf16_moments}, .hint = HINT_MOMENTS},
    {"moments of fp16", {.held = has_fp16_moments}, .hint = HINT_MOMENTS},
    {"few steps of the largest", {.state = has_coarse_moments}, .hint = HINT_MOMENTS},
    {"few steps, exactly", {.state = has_coarse_moments}, .hint = HINT_MOMENTS, .exact = true},
    {"moments in each other's place", {.held = swaps_moments}, .hint = HINT_MOMENTS, .step = 2, .exact = true},
    {"first moments that begin anew", {.held = forgets_first_moments}, .hint = HINT_MOMENTS, .exact = true},
    {"used and not kept", {.held = does_not_write_moments_back}, .hint = HINT_MOMENTS, .exact = true},
    {"wrong here and there", {.held = loses_moments}, .hint = HINT_OVERWRITTEN, .exact = true},
    {"moments of other elements", {.state = reads_the_first_sub_group}, .hint = HINT_OVERWRITTEN},
    {"nothing follows from anything", {.held = mixes_all_states}, .hint = HINT_OVERWRITTEN},
    {"a correction that is off", {.state = corrects_all_the_same}, .hint = HINT_CORRECTION, .change = corrects_no_bias},
    {"t within a tensor", {.state = counts_in_each_sub_group}, .hint = HINT_STEP_COUNT, .exact = true},
    {"the start in every step", {.held = copies_the_start}, .hint = HINT_NOT_UPDATED, .exact = true},
    {"a range keeps its state", {.held = keeps_a_range}, .hint = HINT_NOT_UPDATED, .exact = true},
    {"not kept",
     {.held = does_not_write_parameters_back},
     .hint = HINT_NOT_UPDATED,
     .exact = true,
     .precision = DTYPE_BF16},
    {"some ranks of a group",
     {.element = sums_within_a_replica},
     .hint = HINT_ONE_RANK,
     .change = has_replicas,
     .world = 4,
     .accumulation = 3},
    {"in two micro-steps",
     {.element = sums_within_a_replica_twice},
     .hint = HINT_ONE_MICRO_STEP,
     .change = has_replicas,
     .world = 4,
     .accumulation = 3},
    {"no number of ranks", {.element = is_divided_by_three}, .hint = HINT_FACTOR_OTHER, .world = 6},
    {"a group's size", {.element = is_divided_by_three}, .hint = HINT_FACTOR_WORLD, .change = has_replicas, .world = 6},
    {"clipped by its own norm",
     {.element = has_one_micro_step, .says = says_its_norm},
     .hint = HINT_ONE_MICRO_STEP,
     .change = clips,
     .accumulation = 3},
    {"another decay", {.held = decays_as_the_first_group}, .hint = HINT_DECAY, .change = has_a_tensor_that_rests},
    {"parameters of the element before", {.state = writes_beside}, .hint = HINT_SHIFTED},
};

Test(diagnose, each_mistake_has_its_hint)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        int world = mistakes[i].world ? mistakes[i].world : 2;
        int accumulation = mistakes[i].accumulation ? mistakes[i].accumulation : 1;
        struct check_case c = trial_case(world, accumulation, mistakes[i].precision, mistakes[i].exact);
        if (mistakes[i].change)
            mistakes[i].change(&c);
        struct finding finding = state_finding(&c, NULL, &mistakes[i].wrong);
        cr_expect(finding.verdict == VERDICT_FAIL && finding.hint == mistakes[i].hint, "%s: %s, %s: %s",
                  mistakes[i].what, verdict_name(finding.verdict), hint_name(finding.hint), finding.text);
        cr_expect(mistakes[i].step == 0 || finding.difference.step == mistakes[i].step, "%s: step %d", mistakes[i].what,
                  finding.difference.step);
    }
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
