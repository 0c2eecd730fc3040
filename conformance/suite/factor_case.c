// SPDX-License-Identifier: Apache-2.0
#include "conformance/suite/factor_case.h"

#include "conformance/cases/case_tokens.h"
#include "conformance/cases/generator.h"
#include "conformance/spec/requirement.h"
#include "conformance/suite/suite_build.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_COUNT = 6, WORLD_MOST = 4, LEAD_PLACES = 8 };

// --- the optimizer ---

static const double beta1[] = {0.9, 0.8, 0.95}, beta2[] = {0.999, 0.99, 0.95}, eps[] = {1e-8, 1e-6, 1e-7};

enum { LR_COUNT = 6 };

static void set_lr(struct check_case *c, int group, int turn, bool by_step)
{
    static const double lr[LR_COUNT] = {0.01, 0.002, 0.05, 0.003, 0.02, 0.007};
    double list[STEP_COUNT];
    for (int k = 0; k < STEP_COUNT; k++)
        list[k] = lr[by_step ? (turn + k) % LR_COUNT : turn];
    suite_lr(c, group, list, STEP_COUNT);
    c->groups[group].lr_by_step = by_step;
}

static void set_groups(struct check_case *c, struct factor_dice *dice, const struct factor_vector *v)
{
    static const double decay[] = {0.1, 0.01, 0.3};
    for (int i = 0; i < c->group_count; i++) {
        struct case_group *group = &c->groups[i];
        group->beta1 = beta1[factor_roll(dice, 3)];
        group->beta2 = beta2[factor_roll(dice, 3)];
        group->eps = eps[factor_roll(dice, 3)];
        group->weight_decay = v->values[FACTOR_DECAY] == WEIGHT_DECAY_NONE ? 0 : decay[factor_roll(dice, 3)];
        group->decoupled = v->values[FACTOR_DECAY] != WEIGHT_DECAY_L2;
        group->bias_correction = !v->values[FACTOR_CORRECTION];
        set_lr(c, i, factor_roll(dice, LR_COUNT), v->values[FACTOR_SCHEDULE]);
    }
}

// A value of three that is none of the others', by the group.
static double turned(const double values[3], int turn, int group)
{
    return values[(turn + group) % 3];
}

// Every group gets parameters that are updated, as a difference does not show in others.
static void spread_groups(struct check_case *c)
{
    int turn = 0;
    for (int i = 0; i < c->param_count; i++)
        if (case_is_trained(c, i) && case_is_used(c, i) && c->params[i].count > 0)
            c->params[i].group = turn++ % c->group_count;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].group = c->params[case_owner(c, i)].group;
}

// Of three groups one differs from the others, in each respect another one by chance; the one without decay is not the
// one of the other Adam, which would be the same without it.
static void set_differences(struct check_case *c, uint64_t seed, const struct factor_vector *v)
{
    struct factor_dice dice = {.key = seed};
    int mode = factor_roll(&dice, 3), plain = (mode + 1 + factor_roll(&dice, 2)) % 3;
    int correction = factor_roll(&dice, 3), schedule = factor_roll(&dice, 3);
    int betas = factor_roll(&dice, 3), eps_turn = factor_roll(&dice, 3);
    bool differs = false;
    for (int i = FACTOR_GROUP_MODE; i <= FACTOR_GROUP_SCHEDULE; i++)
        differs |= v->values[i];
    if (differs)
        spread_groups(c);
    for (int i = 0; i < c->group_count; i++) {
        struct case_group *group = &c->groups[i];
        group->decoupled ^= v->values[FACTOR_GROUP_MODE] && i == mode;
        group->bias_correction ^= v->values[FACTOR_GROUP_CORRECTION] && i == correction;
        if (v->values[FACTOR_GROUP_BETAS]) {
            group->beta1 = turned(beta1, betas, i);
            group->beta2 = turned(beta2, betas, i);
        }
        if (v->values[FACTOR_GROUP_EPS])
            group->eps = turned(eps, eps_turn, i);
        if (v->values[FACTOR_GROUP_DECAY] && i == plain)
            group->weight_decay = 0;
        if (v->values[FACTOR_GROUP_SCHEDULE] && i == schedule)
            set_lr(c, i, factor_roll(&dice, LR_COUNT), !group->lr_by_step);
    }
}

// The delay begins behind a checkpoint, which then has no pending gradient: CONTRACT.md knows no checkpoint of one.
static void set_steps(struct check_case *c, const struct factor_vector *v)
{
    c->steps = STEP_COUNT;
    c->accumulation = v->values[FACTOR_ACCUMULATION] + 1;
    c->checkpoint_step = v->values[FACTOR_CHECKPOINT] ? FACTOR_CHECKPOINT_STEP : 0;
    c->weights_only = v->values[FACTOR_CHECKPOINT] == CHECKPOINT_WEIGHTS;
    c->delayed_update = v->values[FACTOR_DELAYED] ? FACTOR_CHECKPOINT_STEP + 1 : 0;
}

static void set_hints(struct check_case *c, const struct factor_vector *v)
{
    static const size_t buckets[] = {[BUCKET_ALL] = 100000, [BUCKET_SOME] = 50, [BUCKET_SMALL] = 10};
    static const size_t prefetch[] = {[PREFETCH_ALL] = 100000, [PREFETCH_SOME] = 30, [PREFETCH_NONE] = 0};
    c->overlap = v->values[FACTOR_OVERLAP];
    c->contiguous_gradients = !v->values[FACTOR_CONTIGUOUS];
    c->reduce_scatter = !v->values[FACTOR_SCATTER];
    c->reduce_bucket = c->allgather_bucket = buckets[v->values[FACTOR_BUCKET]];
    c->prefetch_bucket = prefetch[v->values[FACTOR_PREFETCH]];
    c->sub_group = v->values[FACTOR_SUB_GROUP] ? 7 : 1000000;
}

// --- gradients ---

// The ranks of the half that resumes.
static int resume_world(const struct check_case *c, struct factor_dice *dice, const struct factor_vector *v)
{
    if (v->values[FACTOR_CHECKPOINT] != CHECKPOINT_RESHARD)
        return c->world;
    int other = 1 + factor_roll(dice, WORLD_MOST - 1);
    return other < c->world ? other : other + 1;
}

static void set_data(struct check_case *c, const struct factor_vector *v, int other_world)
{
    enum dtype dtypes[] = {c->precision, c->communication_dtype, c->accumulation_dtype};
    for (int i = 0; i < 3; i++)
        if (dtypes[i] == DTYPE_FP16) {
            c->data.exponent_low = -16;
            c->data.exponent_high = -8;
        }
    c->data.lead = v->values[FACTOR_FIRST_MICRO] ? LEAD_PLACES : 0;
    int one = suite_odd_part(c->world), other = suite_odd_part(other_world);
    c->data.unit = (one > other ? one : other) * suite_odd_part(c->accumulation);
    suite_fit(c, c->world > other_world ? c->world : other_world);
}

static void set_scale(struct check_case *c, struct factor_dice *dice, const struct factor_vector *v)
{
    enum case_scale_kind kind = (enum case_scale_kind)v->values[FACTOR_LOSS_SCALE];
    c->loss_scale = (struct case_loss_scale){.kind = kind};
    if (kind == SCALE_STATIC)
        c->loss_scale.scale = ldexp(1, 5 + factor_roll(dice, 4));
    if (kind == SCALE_DYNAMIC)
        suite_dynamic(c, 0x1p8, 2, (uint64_t)(1 + factor_roll(dice, 2)), 1);
    c->overflow_check = v->values[FACTOR_OVERFLOW] != OVERFLOW_UNCHECKED;
}

// The steps in which some parameter rests that has a gradient in others, bit K - 1 for step K.
static unsigned resting_steps(const struct check_case *c)
{
    unsigned steps = 0;
    for (int i = 0; i < c->param_count; i++)
        for (int k = 1; k < STEP_COUNT; k++)
            steps |= (unsigned)(c->params[i].unused_in[k] != 0) << k;
    return steps;
}

// In one micro-step of one rank, in one element of a gradient; not in the first step, and not in the last. Where the
// use of parameters varies, it is a step in which one rests.
static void set_overflow(struct check_case *c, struct factor_dice *dice, const struct factor_vector *v, int other_world)
{
    if (v->values[FACTOR_OVERFLOW] != OVERFLOW_INF && v->values[FACTOR_OVERFLOW] != OVERFLOW_NAN)
        return;
    int param, step;
    unsigned resting = resting_steps(c);
    do
        step = 2 + factor_roll(dice, STEP_COUNT - 2);
    while (resting && !(resting >> (step - 1) & 1));
    int micro = factor_roll(dice, c->accumulation);
    int rank = factor_roll(dice, c->world < other_world ? c->world : other_world);
    do
        param = factor_roll(dice, c->param_count);
    while (!case_is_used_in(c, param, step, micro) || c->params[param].count == 0);
    size_t element = (size_t)factor_roll(dice, (int)c->params[param].count);
    suite_poke(c, step, micro, rank, param, element, v->values[FACTOR_OVERFLOW] == OVERFLOW_NAN ? NAN : INFINITY);
}

// The norm of the mean gradient of a step without overflow.
static double norm_of(const struct check_case *c, int step)
{
    double squares = 0;
    for (int owner = 0; owner < c->param_count; owner++)
        for (size_t e = 0; case_is_trained(c, owner) && e < c->params[owner].count; e++) {
            double sum = 0;
            for (int use = 0; use < c->param_count; use++)
                for (int k = 0; case_owner(c, use) == owner && k < c->world * c->accumulation; k++)
                    if (case_is_used_in(c, use, step, k / c->world) &&
                        (!c->has_tokens || case_tokens(c, step, k / c->world, k % c->world)))
                        sum += (double)generator_gradient(c, step, k / c->world, k % c->world, use, e);
            squares += sum * sum;
        }
    return sqrt(squares) / case_mean_count(c, step);
}

// Three digits, so that the coefficient is no power of two.
static void set_clipping(struct check_case *c, const struct factor_vector *v)
{
    static const double share[] = {[CLIPPING_BELOW] = 50, [CLIPPING_ABOVE] = 0.013, [CLIPPING_AROUND] = 1};
    char text[32];
    int step = resting_steps(c) >> (FACTOR_CHECKPOINT_STEP - 1) & 1 ? STEP_COUNT : FACTOR_CHECKPOINT_STEP;
    if (v->values[FACTOR_CLIPPING] == CLIPPING_OFF)
        return;
    snprintf(text, sizeof text, "%.2e", share[v->values[FACTOR_CLIPPING]] * norm_of(c, step));
    c->gradient_clipping = strtod(text, NULL);
}

// A power of two in each step. A fifth of the ranks have none in a micro-step, but in the first of several, whose
// gradients may be larger, and where a rank must have an overflow.
static void set_tokens(struct check_case *c, uint64_t key, const struct factor_vector *v)
{
    struct factor_dice dice = {.key = key};
    bool has_overflow = v->values[FACTOR_OVERFLOW] >= OVERFLOW_INF;
    c->has_tokens = v->values[FACTOR_TOKENS];
    for (int step = 1; c->has_tokens && step <= c->steps; step++) {
        uint32_t sum = 0, all = 1;
        for (int slot = 0; slot < c->world * c->accumulation; slot++) {
            bool is_last = slot == c->world * c->accumulation - 1;
            bool may_rest = !has_overflow && (slot >= c->world || c->accumulation == 1);
            bool is_none = factor_roll(&dice, 5) == 0 && may_rest;
            uint32_t count = is_none ? 0 : 1 + (uint32_t)factor_roll(&dice, 20);
            while (all <= sum)
                all *= 2;
            count = is_last ? all - sum : count;
            case_set_tokens(c, step, slot / c->world, slot % c->world, count);
            sum += count;
        }
    }
}

// --- the case ---

static int finish(struct check_case out[2], const char *topic, int other_world)
{
    struct check_case *c = &out[0];
    snprintf(c->name, sizeof c->name, "%.40s.w%d.s%d.%s%s", topic, c->world, c->stage, dtype_name(c->precision),
             c->checkpoint_step ? ".save" : "");
    requirement_list(c);
    if (!c->checkpoint_step)
        return 1;
    c->phase = PHASE_SAVE;
    out[1] = *c;
    strcpy(strrchr(out[1].name, '.'), ".resume");
    out[1].phase = PHASE_RESUME;
    out[1].world = other_world;
    return 2;
}

int factor_case(const struct factor_vector *v, uint64_t seed, const char *topic, struct check_case out[2])
{
    assert(factor_is_legal(v));
    struct check_case *c = &out[0];
    struct factor_dice dice = {.key = random_key(seed, 1)};
    suite_begin(c, 1 + v->values[FACTOR_WORLD], v->values[FACTOR_STAGE], (enum dtype)v->values[FACTOR_PRECISION],
                random_key(seed, 2));
    c->communication_dtype = (enum dtype)v->values[FACTOR_COMMUNICATION];
    c->accumulation_dtype = (enum dtype)v->values[FACTOR_ACCUMULATE_IN];
    c->offload_optimizer = (enum ledger_tier)v->values[FACTOR_OPTIMIZER_TIER];
    c->offload_param = (enum ledger_tier)v->values[FACTOR_PARAM_TIER];
    int other_world = resume_world(c, &dice, v);
    set_steps(c, v);
    factor_tensors(c, &dice, v);
    set_groups(c, &dice, v);
    set_differences(c, random_key(seed, 3), v);
    set_hints(c, v);
    set_scale(c, &dice, v);
    set_data(c, v, other_world);
    set_tokens(c, random_key(seed, 4), v);
    set_clipping(c, v);
    set_overflow(c, &dice, v, other_world);
    factor_text(v, c->note, sizeof c->note);
    int count = finish(out, topic, other_world);
    if (count > 1)
        set_tokens(&out[1], random_key(seed, 4), v);
    return count;
}
