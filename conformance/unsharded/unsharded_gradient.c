// SPDX-License-Identifier: Apache-2.0
// The mean gradient under a rule, element by element from the gradients of all ranks and micro-steps.
#include "conformance/unsharded/unsharded.h"

#include "base/err.h"
#include "conformance/unsharded/token_division.h"

#include <assert.h>
#include <stdlib.h>

// The number of ways to add a sum over ranks in this order.
static int order_count(enum rule_order order, int world)
{
    if (order == ORDER_GROUPS && rule_group_count(world) > 0)
        return rule_group_count(world);
    if (order != ORDER_CYCLIC || world < 3)
        return 1;
    return world == 3 ? 3 : 2 * world;  // of three terms, what counts is which is added last: upwards meets them all
}

int unsharded_choice_count(const struct check_case *c, const struct rule *rule)
{
    int tails = adam_recipe_has_tail(adam_recipe_at(rule->recipe)) ? 2 : 1;
    return tails * order_count(rule->order, c->world);
}

struct unsharded_choice unsharded_choice_at(const struct check_case *c, const struct rule *rule, int index)
{
    assert(index >= 0 && index < unsharded_choice_count(c, rule));
    int tails = adam_recipe_has_tail(adam_recipe_at(rule->recipe)) ? 2 : 1;
    int order = index / tails;
    return (struct unsharded_choice){
        .first_rank = order % c->world,
        .downwards = order / c->world % 2,
        .group = rule_group_size(c->world, order),
        .tail = index % tails,
    };
}

// The inputs of the sums of one parameter, and scratch for one element's terms.
struct mean {
    const struct check_case *c;
    const struct rule *rule;
    const struct unsharded_choice *choice;
    struct token_division division;
    float scale;
    int use_count;
    const float **uses;  // [accumulation][world][use_count]
    float *terms;        // [world]
};

static float product(float a, double b)
{
    return a * (float)b;
}

// The gradient that autograd makes on a rank in a micro-step, with its loss scale, all uses of the parameter added.
static float made_gradient(const struct mean *mean, int micro, int rank, size_t k)
{
    const struct check_case *c = mean->c;
    const float *const *uses = &mean->uses[(size_t)(micro * c->world + rank) * (size_t)mean->use_count];
    float sum = 0;
    for (int i = 0; i < mean->use_count; i++) {
        float x = token_divide_each(&mean->division, micro, rank, uses[i][k]);
        if (mean->rule->micro == MICRO_FIRST)
            x = unsharded_round(c->precision, x / (float)c->accumulation);
        if (mean->rule->micro == MICRO_FIRST_RECIPROCAL)
            x = unsharded_round(c->precision, product(x, 1.0 / c->accumulation));
        sum = i == 0 ? x : unsharded_round(c->precision, sum + x);
    }
    return sum;
}

// FSDP's first factor: a power of two that divides the world, at least as large as what is left.
static int split_factor(int world)
{
    int factor = 1;
    while (world % factor == 0 && (double)world / factor > factor)
        factor *= 2;
    return factor;
}

static float divide_term(const struct mean *mean, float x)
{
    const struct check_case *c = mean->c;
    float sent = unsharded_round(c->communication_dtype, x);
    switch (mean->rule->division) {
    case DIVIDE_FIRST:
        return unsharded_round(c->communication_dtype, sent / (float)c->world);
    case DIVIDE_FIRST_RECIPROCAL:
        return unsharded_round(c->communication_dtype, product(sent, 1.0 / c->world));
    case DIVIDE_FIRST_IN_MODEL:
        return unsharded_round(c->communication_dtype, unsharded_round(c->precision, x / (float)c->world));
    case DIVIDE_SPLIT:
        return unsharded_round(c->communication_dtype, sent / (float)split_factor(c->world));
    default:
        return sent;
    }
}

static float divide_sum(const struct mean *mean, float sum)
{
    const struct check_case *c = mean->c;
    switch (mean->rule->division) {
    case DIVIDE_SUM:
        return unsharded_round(c->communication_dtype, sum / (float)c->world);
    case DIVIDE_SUM_RECIPROCAL:
        return unsharded_round(c->communication_dtype, product(sum, 1.0 / c->world));
    case DIVIDE_SPLIT:
        return unsharded_round(c->communication_dtype, sum / ((float)c->world / (float)split_factor(c->world)));
    default:
        return sum;
    }
}

static float add_ranks(const struct mean *mean, float a, float b)
{
    return mean->rule->rounds_each ? unsharded_round(mean->c->communication_dtype, a + b) : a + b;
}

// The fold of `size` terms from `first` on; each next one is `stride` further, around the end.
static float fold_terms(const struct mean *mean, int first, int stride, int size)
{
    float sum = mean->terms[first];
    for (int i = 1; i < size; i++)
        sum = add_ranks(mean, sum, mean->terms[(first + i * stride) % mean->c->world]);
    return sum;
}

static float add_pairs(const struct mean *mean)
{
    float *terms = mean->terms;
    for (int left = mean->c->world; left > 1; left = (left + 1) / 2)
        for (int i = 0; i < left; i += 2)
            terms[i / 2] = i + 1 < left ? add_ranks(mean, terms[i], terms[i + 1]) : terms[i];
    return terms[0];
}

static float add_groups(const struct mean *mean, int size)
{
    int groups = mean->c->world / size;
    for (int group = 0; group < groups; group++)
        mean->terms[group] = fold_terms(mean, group * size, 1, size);
    return fold_terms(mean, 0, 1, groups);
}

static float add_terms(const struct mean *mean)
{
    const struct unsharded_choice *choice = mean->choice;
    int world = mean->c->world;
    switch (mean->rule->order) {
    case ORDER_CYCLIC:
        return fold_terms(mean, choice->first_rank, choice->downwards ? world - 1 : 1, world);
    case ORDER_TREE:
        return add_pairs(mean);
    case ORDER_GROUPS:
        return add_groups(mean, choice->group > 0 ? choice->group : rule_group_size(world, 0));
    default:
        return fold_terms(mean, 0, 1, world);
    }
}

// The sum over ranks of mean->terms, which it overwrites, in the communication dtype.
static float reduce(const struct mean *mean)
{
    for (int rank = 0; rank < mean->c->world; rank++)
        mean->terms[rank] = divide_term(mean, mean->terms[rank]);
    return divide_sum(mean, unsharded_round(mean->c->communication_dtype, add_terms(mean)));
}

static float mean_element(const struct mean *mean, size_t k)
{
    const struct check_case *c = mean->c;
    float total = 0;
    if (mean->rule->reduces_each_micro_step) {
        for (int micro = 0; micro < c->accumulation; micro++) {
            for (int rank = 0; rank < c->world; rank++)
                mean->terms[rank] = made_gradient(mean, micro, rank, k);
            float sum = reduce(mean);
            total = unsharded_round(c->accumulation_dtype, micro == 0 ? sum : total + sum);
        }
    } else {
        for (int rank = 0; rank < c->world; rank++) {
            float sum = 0;
            for (int micro = 0; micro < c->accumulation; micro++) {
                float x = made_gradient(mean, micro, rank, k);
                sum = unsharded_round(c->accumulation_dtype, micro == 0 ? x : sum + x);
            }
            mean->terms[rank] = sum;
        }
        total = unsharded_round(c->accumulation_dtype, reduce(mean));
    }
    if (c->has_tokens && mean->rule->tokens != TOKENS_MEAN)
        return token_divide_sum(&mean->division, total);
    int ranks = mean->rule->division == DIVIDE_LAST ? c->world : 1;
    int micro_steps = mean->rule->micro == MICRO_LAST ? c->accumulation : 1;
    return total / (float)((double)ranks * micro_steps * (double)mean->scale);
}

// The indices of the uses of a parameter that have gradients.
static int uses_of(const struct check_case *c, int param, int uses[CASE_PARAM_MAX])
{
    int count = 0;
    for (int i = 0; i < c->param_count; i++)
        if (case_owner(c, i) == param && case_is_used(c, i))
            uses[count++] = i;
    return count;
}

static void gradient_of_param(struct mean *mean, const struct case_values *values, int step, int param, float *out)
{
    const struct check_case *c = mean->c;
    int uses[CASE_PARAM_MAX];
    mean->use_count = uses_of(c, param, uses);
    size_t next = 0;
    for (int micro = 0; micro < c->accumulation; micro++)
        for (int rank = 0; rank < c->world; rank++)
            for (int i = 0; i < mean->use_count; i++)
                mean->uses[next++] = case_gradient(values, step, micro, rank, uses[i]);
    for (size_t k = 0; k < c->params[param].count; k++)
        out[k] = mean->use_count ? mean_element(mean, k) : 0.0f;
}

int unsharded_gradient(const struct check_case *c, const struct case_values *values, const struct rule *rule,
                       const struct unsharded_choice *choice, int step, double scale, float *const out[CASE_PARAM_MAX])
{
    assert(step >= 1 && step <= c->steps && scale > 0);
    size_t room = (size_t)c->accumulation * (size_t)c->world * (size_t)c->param_count;
    struct mean mean = {.c = c, .rule = rule, .choice = choice, .scale = (float)scale};
    mean.division = token_division_of(c, rule, step, (float)scale);
    mean.uses = malloc(room * sizeof *mean.uses);
    mean.terms = malloc((size_t)c->world * sizeof *mean.terms);
    int rc = ERR_NONE;
    if (!mean.uses || !mean.terms)
        rc = err_set(ERR_MEMORY, "no memory for the sums of case %s", c->name);
    for (int i = 0; !rc && i < c->param_count; i++)
        if (out[i] && case_is_trained(c, i))
            gradient_of_param(&mean, values, step, i, out[i]);
    free(mean.uses);
    free(mean.terms);
    return rc;
}
