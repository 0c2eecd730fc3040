// SPDX-License-Identifier: Apache-2.0
// Vectors of factors are legal, and the cases made from them are what CONTRACT.md allows and what the vector says.
#include "base/err.h"
#include "conformance/unsharded/unsharded.h"
#include "conformance/suite/factor_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAW_COUNT = 400 };

static struct check_case cases[2];

Test(factor, drawn_vectors_are_complete_and_legal_and_have_every_value)
{
    bool seen[FACTOR_COUNT][FACTOR_VALUE_MAX] = {0};
    for (uint64_t seed = 0; seed < DRAW_COUNT; seed++) {
        struct factor_vector v;
        factor_draw(&v, seed);
        cr_assert(factor_is_legal(&v), "seed %d", (int)seed);
        for (int i = 0; i < FACTOR_COUNT; i++) {
            cr_assert_lt(v.values[i], factor_value_count((enum factor)i), "seed %d", (int)seed);
            seen[i][v.values[i]] = true;
        }
    }
    for (int i = 0; i < FACTOR_COUNT; i++)
        for (int k = 0; k < factor_value_count((enum factor)i); k++)
            cr_expect(seen[i][k], "%s is never %s", factor_name((enum factor)i), factor_value_name((enum factor)i, k));
}

Test(factor, the_plainest_vector_is_legal)
{
    struct factor_vector v = {0};
    char text[64];
    cr_assert(factor_is_legal(&v));
    cr_assert_str_eq(factor_text(&v, text, sizeof text), "");
    v.values[FACTOR_STAGE] = 2;
    v.values[FACTOR_TIED] = 1;
    cr_assert_str_eq(factor_text(&v, text, sizeof text), "stage 2, tied");
}

Test(factor, what_cannot_be_completed_is_left_as_it_was)
{
    struct factor_vector v;
    memset(v.values, FACTOR_OPEN, sizeof v.values);
    v.values[FACTOR_STAGE] = 0;
    v.values[FACTOR_DELAYED] = 1;
    cr_assert(factor_is_legal(&v), "each pair of its values may occur");
    cr_assert_not(factor_complete(&v, 1), "but a delayed update needs an offloaded optimizer, which stage 0 lacks");
    cr_assert_eq(v.values[FACTOR_OPTIMIZER_TIER], FACTOR_OPEN);
    v.values[FACTOR_STAGE] = 1;
    cr_assert(factor_complete(&v, 1));
    cr_assert_str_eq(factor_value_name(FACTOR_OPTIMIZER_TIER, v.values[FACTOR_OPTIMIZER_TIER]), "cpu");
}

// The norm against the threshold, in the steps without overflow.
static void expect_clipping(const struct check_case *c, const struct factor_vector *v)
{
    struct case_values *values;
    struct unsharded_state state;
    int above = 0, below = 0, clipping = v->values[FACTOR_CLIPPING];
    struct rule rule = rule_canonical(c);
    struct unsharded_choice choice = unsharded_choice_at(c, &rule, 0);
    cr_assert_eq(case_values_open(c, &values), ERR_NONE, "%s", err_message());
    cr_assert_eq(unsharded_state_open(c, &state), ERR_NONE);
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        double scale = c->loss_scale.kind == SCALE_NONE ? 1 : c->loss_scale.scale;
        cr_assert_eq(unsharded_gradient(c, values, &rule, &choice, step, scale, state.exp_avg), ERR_NONE);
        double norm = unsharded_norm(c, (const float *const *)state.exp_avg);
        above += norm > c->gradient_clipping;
        below += norm < c->gradient_clipping;
    }
    if (clipping == CLIPPING_BELOW)
        cr_assert_eq(above, isnan(c->data.pokes[0].value) || isinf(c->data.pokes[0].value) ? above : 0, "%s", c->note);
    if (clipping == CLIPPING_ABOVE)
        cr_assert_eq(below, 0, "%s", c->note);
    unsharded_state_close(&state);
    case_values_close(values);
}

// Some parameter is used and then not, or not and then used; by micro-step, a step uses and leaves out one. An overflow
// is in a step in which one rests.
static void expect_varying(const struct check_case *c, int varying)
{
    bool varies = false, in_step = false, rests[CASE_STEP_MAX + 1] = {0};
    for (int i = 0; i < c->param_count; i++) {
        varies |= case_use_varies(c, i);
        for (int step = 1; step <= c->steps; step++) {
            int used = 0;
            for (int micro = 0; micro < c->accumulation; micro++)
                used += case_is_used_in(c, i, step, micro);
            in_step |= used > 0 && used < c->accumulation;
            rests[step] |= case_is_used(c, i) && used < c->accumulation;
        }
    }
    cr_assert_eq(varies, varying != VARYING_NO, "%s", c->note);
    cr_assert_eq(in_step, varying == VARYING_MICRO_STEPS, "%s", c->note);
    for (int i = 0; i < c->data.poke_count && varies; i++)
        cr_assert(rests[c->data.pokes[i].step], "%s", c->note);
}

static void expect_readable(const struct check_case *c)
{
    static struct check_case again;
    char *text;
    size_t bytes;
    cr_assert_eq(case_text(c, &text, &bytes), ERR_NONE);
    cr_assert_eq(case_parse(c->name, text, bytes, &again), ERR_NONE, "%s: %s", c->note, err_message());
    free(text);
    cr_assert_eq(again.param_count, c->param_count);
    cr_assert_eq(again.delayed_update, c->delayed_update);
    cr_assert_gt(c->data.reach, 0, "%s", c->note);
}

Test(factor, cases_are_what_the_contract_allows_and_the_vector_says)
{
    for (uint64_t seed = 0; seed < DRAW_COUNT; seed++) {
        struct factor_vector v;
        factor_draw(&v, seed);
        int count = factor_case(&v, seed, "drawn", cases);
        cr_assert_eq(count, v.values[FACTOR_CHECKPOINT] ? 2 : 1);
        for (int i = 0; i < count; i++) {
            expect_readable(&cases[i]);
            expect_varying(&cases[i], v.values[FACTOR_VARYING]);
            if (v.values[FACTOR_CLIPPING])
                expect_clipping(&cases[i], &v);
        }
        const struct check_case *last = &cases[count - 1];
        cr_assert_eq(count == 2 && last->world != cases[0].world, v.values[FACTOR_CHECKPOINT] == CHECKPOINT_RESHARD);
        int tied = 0, frozen = 0, unused = 0, empty = 0, scalar = 0;
        for (int i = 0; i < last->param_count; i++) {
            const struct case_param *p = &last->params[i];
            tied += p->tied_to >= 0, frozen += p->frozen, unused += !p->used;
            empty += p->count == 0, scalar += p->shape_rank == 0;
        }
        cr_assert_eq(tied, v.values[FACTOR_TIED]);
        cr_assert_eq(frozen, v.values[FACTOR_FROZEN]);
        cr_assert_eq(unused, v.values[FACTOR_UNUSED]);
        cr_assert_eq(empty, v.values[FACTOR_EMPTY]);
        cr_assert_eq(scalar, v.values[FACTOR_SCALAR]);
    }
}

Test(factor, a_seed_makes_one_case_and_another_seed_another)
{
    struct factor_vector v;
    char *text[3];
    size_t bytes;
    factor_draw(&v, 5);
    for (int i = 0; i < 3; i++) {
        factor_case(&v, i < 2 ? 8 : 9, "drawn", cases);
        cr_assert_eq(case_text(&cases[0], &text[i], &bytes), ERR_NONE);
    }
    cr_assert_str_eq(text[0], text[1]);
    cr_assert_str_neq(text[0], text[2]);
    for (int i = 0; i < 3; i++)
        free(text[i]);
}

// A group's place in the order of its values: how many of the groups differ from the first.
static int differ(const struct check_case *c, bool (*same)(const struct case_group *a, const struct case_group *b))
{
    int count = 0;
    for (int i = 0; i < c->group_count; i++)
        count += !same(&c->groups[0], &c->groups[i]);
    return count;
}

static bool same_mode(const struct case_group *a, const struct case_group *b)
{
    return a->decoupled == b->decoupled;
}

static bool same_correction(const struct case_group *a, const struct case_group *b)
{
    return a->bias_correction == b->bias_correction;
}

static bool same_schedule(const struct case_group *a, const struct case_group *b)
{
    return a->lr_by_step == b->lr_by_step;
}

static bool same_decay(const struct case_group *a, const struct case_group *b)
{
    return (a->weight_decay == 0) == (b->weight_decay == 0);
}

static bool same_betas(const struct case_group *a, const struct case_group *b)
{
    return a->beta1 == b->beta1 || a->beta2 == b->beta2;
}

static bool same_eps(const struct case_group *a, const struct case_group *b)
{
    return a->eps == b->eps;
}

// Some parameter of a group is updated by a gradient.
static bool is_updated(const struct check_case *c, int group)
{
    for (int i = 0; i < c->param_count; i++)
        if (c->params[i].group == group && case_is_trained(c, i) && case_is_used(c, i) && c->params[i].count > 0)
            return true;
    return false;
}

Test(factor, groups_differ_in_what_the_vector_says_and_each_is_updated)
{
    static const struct {
        enum factor factor;
        bool (*same)(const struct case_group *a, const struct case_group *b);
        bool only;  // without the factor, groups do not differ in it
    } respects[] = {
        {FACTOR_GROUP_MODE, same_mode, true},         {FACTOR_GROUP_CORRECTION, same_correction, true},
        {FACTOR_GROUP_SCHEDULE, same_schedule, true}, {FACTOR_GROUP_DECAY, same_decay, true},
        {FACTOR_GROUP_BETAS, same_betas, false},      {FACTOR_GROUP_EPS, same_eps, false},
    };
    int differing = 0;
    for (uint64_t seed = 0; seed < DRAW_COUNT; seed++) {
        struct factor_vector v;
        factor_draw(&v, seed);
        factor_case(&v, seed, "drawn", cases);
        const struct check_case *c = &cases[0];
        bool differs = false;
        for (size_t k = 0; k < sizeof respects / sizeof *respects; k++) {
            bool wanted = v.values[respects[k].factor];
            if (wanted || respects[k].only)
                cr_assert_eq(differ(c, respects[k].same) > 0, wanted, "%s", c->note);
            differs |= wanted;
        }
        for (int i = 0; i < c->group_count && differs; i++) {
            bool other_mode = c->groups[i].decoupled == (v.values[FACTOR_DECAY] == WEIGHT_DECAY_L2);
            cr_assert(is_updated(c, i), "%s: group %d", c->note, i);
            cr_assert(!other_mode || c->groups[i].weight_decay != 0, "%s: without decay Adam is AdamW", c->note);
        }
        for (int i = 0; i < c->param_count; i++)
            cr_assert_eq(c->params[i].group, c->params[case_owner(c, i)].group, "%s", c->note);
        differing += differs;
    }
    cr_assert_gt(differing, DRAW_COUNT / 4);
}
