// SPDX-License-Identifier: Apache-2.0
#include "conformance/unsharded/rule_test.h"

#include "conformance/cases/case.h"

#include <criterion/criterion.h>

#include <string.h>

static struct check_case shape(int world, int accumulation, enum dtype communication, bool exact)
{
    return (struct check_case){
        .world = world,
        .accumulation = accumulation,
        .stage = 2,
        .precision = DTYPE_FP32,
        .communication_dtype = communication,
        .group_count = 1,
        .groups = {{.decoupled = true}},
        .exact = exact,
    };
}

static int gradient_count(const struct check_case *c)
{
    int count = 1;
    for (int i = 1; i < rule_count(c); i++) {
        struct rule a = rule_at(c, i - 1), b = rule_at(c, i);
        count += !rule_same_gradient(&a, &b);
    }
    return count;
}

static int recipe_count(bool decoupled)
{
    int count = 0;
    for (int i = 0; adam_recipe_at(i); i++)
        count += adam_recipe_does(adam_recipe_at(i), decoupled);
    return count;
}

Test(rule, an_exact_case_leaves_the_recipe_alone_free)
{
    struct check_case c = shape(7, 5, DTYPE_BF16, true);
    cr_expect_eq(rule_count(&c), recipe_count(true));
    for (int i = 0; i < rule_count(&c); i++) {
        struct rule rule = rule_at(&c, i), canonical = rule_canonical(&c);
        cr_expect(rule_same_gradient(&rule, &canonical));
        cr_expect_eq(rule.clip, CLIP_BY_QUOTIENT);
    }
    c.groups[0].decoupled = false;
    cr_expect_eq(rule_count(&c), recipe_count(false));
    cr_expect_lt(recipe_count(false), recipe_count(true));
    c.gradient_clipping = 1;
    cr_expect_eq(rule_count(&c), recipe_count(false) * CLIP_FORM_COUNT);
}

// Counted by hand: what of order, division and place can differ at all.
Test(rule, a_rounding_case_has_the_rules_that_it_can_tell_apart)
{
    static const struct {
        int world, accumulation;
        enum dtype communication;
        int gradients;
    } rows[] = {
        {1, 1, DTYPE_FP32, 1},
        {1, 2, DTYPE_FP32, 1},
        {1, 2, DTYPE_BF16, 2},  // rounded to bf16 before or after the sum over micro-steps
        {2, 1, DTYPE_FP32, 1},
        {4, 1, DTYPE_FP32, 3},      // fold, ring, tree
        {4, 1, DTYPE_BF16, 6},      // each also rounded at every addition
        {5, 1, DTYPE_FP32, 3 * 4},  // last, reciprocal, first, first reciprocal
        {6, 1, DTYPE_FP32, 4 * 4},  // and groups
        {8, 1, DTYPE_FP32, 4},
        {3, 1, DTYPE_FP32, 2 * 4},  // fold, ring; last, reciprocal, first, first reciprocal
        {3, 1, DTYPE_FP16, 4 * 7},  // and rounded at each addition; all divisions, as the model's dtype is another
        {2, 4, DTYPE_FP32, 2},      // which sum first
        {2, 3, DTYPE_FP32, 2 * (1 + 2)},  // last, or each micro-step's by 3 or times 1/3
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct check_case c = shape(rows[i].world, rows[i].accumulation, rows[i].communication, false);
        cr_expect_eq(gradient_count(&c), rows[i].gradients, "world %d, accumulation %d: %d", rows[i].world,
                     rows[i].accumulation, gradient_count(&c));
        cr_expect_eq(rule_count(&c), rows[i].gradients * recipe_count(true));
    }
}

Test(rule, every_rule_of_a_case_is_another_and_has_another_name)
{
    struct check_case c = shape(3, 3, DTYPE_BF16, false);
    enum { MANY = 4096 };
    static char names[MANY][256];
    int count = 0;
    for (int i = 0; i < rule_count(&c); i += recipe_count(true)) {
        struct rule rule = rule_at(&c, i);
        rule_text(&rule, names[count], sizeof names[count]);
        for (int k = 0; k < count; k++)
            cr_expect_str_neq(names[k], names[count]);
        count++;
    }
    cr_expect_gt(count, 20);
    struct rule first = rule_at(&c, 0);
    char text[256];
    cr_expect_str_eq(rule_text(&first, text, sizeof text),
                     "torch-cpu, ranks folded in order, ranks before micro-steps, sum divided once");
    struct rule canonical = rule_canonical(&c);
    cr_expect(rule_same_gradient(&first, &canonical) && first.recipe == 0 && first.clip == canonical.clip);
    cr_expect_eq(strlen(rule_text(&first, text, 10)), 9);
}

Test(rule, powers_of_beta_are_told_apart_where_betas_differ_and_after_a_checkpoint)
{
    int running = 0;
    for (int i = 0; adam_recipe_at(i); i++)
        running += adam_recipe_runs_powers(adam_recipe_at(i));
    cr_expect_eq(running, 3);
    struct check_case c = shape(2, 1, DTYPE_FP32, true);
    c.group_count = 2;
    c.groups[1] = c.groups[0];
    cr_expect_eq(rule_count(&c), recipe_count(true));
    c.groups[1].beta2 = 0.5;
    cr_expect_eq(rule_count(&c), recipe_count(true) + running);
    c.phase = PHASE_RESUME;
    cr_expect_eq(rule_count(&c), recipe_count(true) + 2 * running);
    c.weights_only = true;
    cr_expect_eq(rule_count(&c), recipe_count(true) + running);
    int anew = 0;
    for (int i = 0; i < rule_count(&c); i++) {
        struct rule rule = rule_at(&c, i);
        char text[256];
        anew += rule.powers == POWERS_ANEW && strstr(rule_text(&rule, text, sizeof text), "recomputed");
    }
    cr_expect_eq(anew, running);
}

Test(rule, stages_2_and_3_add_ranks_before_micro_steps)
{
    for (int stage = 0; stage < 4; stage++) {
        struct check_case c = shape(2, 2, DTYPE_FP32, false);
        c.stage = stage;
        cr_expect_eq(rule_canonical(&c).reduces_each_micro_step, stage >= 2);
        cr_expect_eq(rule_at(&c, 0).reduces_each_micro_step, stage >= 2);
    }
}
