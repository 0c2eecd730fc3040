// SPDX-License-Identifier: Apache-2.0
// Enumerates the rules that a case can tell apart, the likely ones first.
#include "conformance/unsharded/rule.h"

#include "base/err.h"
#include "conformance/cases/case_tokens.h"

#include <assert.h>
#include <stdlib.h>

struct rule rule_canonical(const struct check_case *c)
{
    return (struct rule){.reduces_each_micro_step = c->stage >= 2};
}

bool rule_clip_is_deepspeed(enum rule_clip clip)
{
    return clip == CLIP_BY_RECIPROCAL || clip == CLIP_BY_RECIPROCAL_IN_DOUBLE;
}

int rule_group_count(int world)
{
    int count = 0;
    for (int size = 2; size < world; size++)
        count += world % size == 0;
    return count;
}

int rule_group_size(int world, int index)
{
    for (int size = 2; size < world; size++)
        if (world % size == 0 && index-- == 0)
            return size;
    return world;
}

static bool is_power_of_two(uint64_t number)
{
    return (number & (number - 1)) == 0;
}

static bool has_fp16(const struct check_case *c)
{
    return c->precision == DTYPE_FP16 || c->communication_dtype == DTYPE_FP16 || c->accumulation_dtype == DTYPE_FP16;
}

// True if the divisions of this rule can round differently from those of all rules before it. A division by a power of
// two does not round, unless it makes a subnormal of fp16.
static bool division_is_distinct(const struct check_case *c, const struct rule *rule)
{
    if (rule->division == DIVIDE_LAST)
        return rule->micro == MICRO_LAST;
    bool narrow = has_fp16(c);
    bool world_rounds = narrow ? c->world > 1 : !is_power_of_two((uint64_t)c->world);
    bool micro_rounds = narrow ? c->accumulation > 1 : !is_power_of_two((uint64_t)c->accumulation);
    if (rule->micro == MICRO_LAST ? !world_rounds : !micro_rounds)
        return false;
    if (rule->micro == MICRO_FIRST_RECIPROCAL && is_power_of_two((uint64_t)c->accumulation))
        return false;
    if (!world_rounds)
        return rule->division == DIVIDE_SUM;
    switch (rule->division) {
    case DIVIDE_SUM:
        return rule->micro != MICRO_LAST || c->accumulation > 1 || c->communication_dtype != DTYPE_FP32 ||
               c->loss_scale.kind != SCALE_NONE;
    case DIVIDE_SUM_RECIPROCAL:
    case DIVIDE_FIRST_RECIPROCAL:
        return !is_power_of_two((uint64_t)c->world);
    case DIVIDE_FIRST_IN_MODEL:
        return c->precision != c->communication_dtype;
    case DIVIDE_SPLIT:  // the first factor is a power of two
        return narrow && c->world > 2;
    default:
        return true;
    }
}

// True if every step's tokens, or with `each` also every rank's, are a power of two, by which nothing rounds.
static bool divides_exactly(const struct check_case *c, bool each)
{
    bool exact = true;
    for (int step = 1; step <= c->steps; step++) {
        exact &= is_power_of_two(case_all_tokens(c, step));
        for (int k = 0; each && k < c->world * case_micro_steps(c, step); k++)
            exact &= is_power_of_two(case_tokens(c, step, k / c->world, k % c->world));
    }
    return exact && !has_fp16(c);
}

// The same for the division by tokens.
static bool tokens_are_distinct(const struct check_case *c, const struct rule *rule)
{
    bool plain = rule->division == DIVIDE_LAST && rule->micro == MICRO_LAST;
    switch (rule->tokens) {
    case TOKENS_LAST:
        return !c->has_tokens || plain;
    case TOKENS_SHARE:
        return plain && !divides_exactly(c, true);
    case TOKENS_MEAN:
        return has_fp16(c) || !is_power_of_two((uint64_t)c->world) || !is_power_of_two((uint64_t)c->accumulation);
    default:
        return plain && !divides_exactly(c, false);
    }
}

// True if the order can differ from those before it. Two terms have one sum in any order, two groups of two are pairs,
// and a prime number of ranks has no groups.
static bool order_is_distinct(int world, enum rule_order order)
{
    switch (order) {
    case ORDER_CYCLIC:
        return world >= 3;
    case ORDER_TREE:
        return world >= 4;
    case ORDER_GROUPS:
        return world > 4 && rule_group_count(world) > 0;
    default:
        return true;
    }
}

// True if this rule's gradient can differ from the gradients of all rules before it.
static bool gradient_is_distinct(const struct check_case *c, const struct rule *rule)
{
    struct rule canonical = rule_canonical(c);
    if (c->exact && c->has_tokens)
        canonical.tokens = rule->tokens == TOKENS_SHARE ? TOKENS_SHARE : TOKENS_LAST;
    if (c->exact)
        return rule_same_gradient(rule, &canonical) && tokens_are_distinct(c, rule);
    if (!order_is_distinct(c->world, rule->order))
        return false;
    if (rule->rounds_each && (c->communication_dtype == DTYPE_FP32 || c->world < 3))
        return false;
    bool one_sum = c->accumulation == 1 || (c->world == 1 && c->communication_dtype == DTYPE_FP32);
    if (one_sum && rule->reduces_each_micro_step != canonical.reduces_each_micro_step)
        return false;
    return division_is_distinct(c, rule) && tokens_are_distinct(c, rule);
}

// Every gradient rule has a number: the mixed radix of its choices.
enum { GRADIENT_COUNT = DIVIDE_COUNT * ORDER_COUNT * MICRO_COUNT * 2 * 2 };

static int gradient_numbers(const struct check_case *c)
{
    return GRADIENT_COUNT * (c->has_tokens ? TOKENS_COUNT : 1);
}

static struct rule gradient_number(const struct check_case *c, int number)
{
    struct rule rule = rule_canonical(c);
    rule.division = (enum rule_division)(number % DIVIDE_COUNT);
    number /= DIVIDE_COUNT;
    rule.order = (enum rule_order)(number % ORDER_COUNT);
    number /= ORDER_COUNT;
    rule.micro = (enum rule_micro)(number % MICRO_COUNT);
    number /= MICRO_COUNT;
    rule.reduces_each_micro_step ^= number % 2;
    rule.rounds_each = number / 2 % 2;
    rule.tokens = (enum rule_tokens)(number / 4);
    return rule;
}

static bool case_has_l2(const struct check_case *c)
{
    for (int i = 0; i < c->group_count; i++)
        if (!c->groups[i].decoupled)
            return true;
    return false;
}

static bool betas_differ(const struct check_case *c)
{
    for (int i = 1; i < c->group_count; i++)
        if (!c->groups[i].muon && !c->groups[0].muon &&
            (c->groups[i].beta1 != c->groups[0].beta1 || c->groups[i].beta2 != c->groups[0].beta2))
            return true;
    return false;
}

// True if the case can tell these powers of beta from the canonical ones.
static bool powers_are_distinct(const struct check_case *c, int recipe, enum rule_powers powers)
{
    if (powers == POWERS_RUNNING)
        return true;
    bool tells = powers == POWERS_ANEW ? betas_differ(c) : c->phase == PHASE_RESUME && !c->weights_only;
    return tells && adam_recipe_runs_powers(adam_recipe_at(recipe));
}

enum { UPDATE_MAX = 64 };

// A recipe, and its powers of beta.
struct update_rule {
    int recipe;
    enum rule_powers powers;
};

static int updates_of(const struct check_case *c, struct update_rule list[])
{
    int count = 0;
    bool has_l2 = case_has_l2(c);
    for (int i = 0; adam_recipe_at(i); i++)
        for (int powers = 0; powers < POWERS_COUNT && adam_recipe_does(adam_recipe_at(i), !has_l2); powers++)
            if (powers_are_distinct(c, i, (enum rule_powers)powers))
                list[count++] = (struct update_rule){i, (enum rule_powers)powers};
    return count;
}

static int clip_count(const struct check_case *c)
{
    return c->gradient_clipping > 0 ? CLIP_FORM_COUNT : 1;
}

int rule_per_gradient(const struct check_case *c)
{
    struct update_rule updates[UPDATE_MAX];
    return updates_of(c, updates) * clip_count(c) * muon_momentum_count(c);
}

int rule_count(const struct check_case *c)
{
    int gradients = 0;
    for (int i = 0; i < gradient_numbers(c); i++) {
        struct rule rule = gradient_number(c, i);
        gradients += gradient_is_distinct(c, &rule);
    }
    return gradients * rule_per_gradient(c);
}

// Adds all rules with a gradient.
static int add_rules(const struct check_case *c, const struct update_rule updates[], int update_count, struct rule rule,
                     struct rule list[])
{
    int count = 0;
    for (int momentum = 0; momentum < muon_momentum_count(c); momentum++)
        for (int clip = 0; clip < clip_count(c); clip++)
            for (int i = 0; i < update_count; i++) {
                rule.recipe = updates[i].recipe;
                rule.powers = updates[i].powers;
                rule.clip = (enum rule_clip)clip;
                rule.momentum = (enum muon_momentum)momentum;
                list[count++] = rule;
            }
    return count;
}

int rule_list(const struct check_case *c, struct rule **out, int *count)
{
    struct update_rule updates[UPDATE_MAX];
    int update_count = updates_of(c, updates), all = rule_count(c);
    *out = malloc(((size_t)all + 1) * sizeof **out);
    if (!*out)
        return err_set(ERR_MEMORY, "no memory for %d rules", all);
    *count = 0;
    for (int i = 0; i < gradient_numbers(c); i++) {
        struct rule rule = gradient_number(c, i);
        if (gradient_is_distinct(c, &rule))
            *count += add_rules(c, updates, update_count, rule, *out + *count);
    }
    assert(*count == all);
    return ERR_NONE;
}

bool rule_same_gradient(const struct rule *a, const struct rule *b)
{
    return a->order == b->order && a->rounds_each == b->rounds_each && a->division == b->division &&
           a->micro == b->micro && a->tokens == b->tokens && a->reduces_each_micro_step == b->reduces_each_micro_step;
}

static enum dtype dtype_claimed(const struct check_case *c, enum claimed_dtype claimed)
{
    return claimed == CLAIMED_PRECISION ? c->precision : (enum dtype)claimed;
}

struct rule_states rule_states_of(const struct check_case *c, const struct claimed_states *claimed)
{
    return (struct rule_states){.moments = dtype_claimed(c, claimed->moments),
                                .master = dtype_claimed(c, claimed->master)};
}

bool rule_states_are_short(const struct rule_states *states)
{
    return states->moments != DTYPE_FP32 || states->master != DTYPE_FP32;
}
