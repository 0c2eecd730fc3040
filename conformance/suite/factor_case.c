// SPDX-License-Identifier: Apache-2.0
#include "conformance/suite/factor_case.h"

#include "conformance/cases/generator.h"
#include "conformance/spec/requirement.h"
#include "conformance/suite/suite_build.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN_COUNT = 6, STEP_COUNT = 6, CHECKPOINT_STEP = 2, WORLD_MOST = 4 };

// The draws of one case, one after the other.
struct dice {
    uint64_t key, count;
};

static int roll(struct dice *dice, int count)
{
    return (int)random_below(random_at(dice->key, dice->count++), (uint64_t)count);
}

static void shuffle(struct dice *dice, int *list, int count)
{
    for (int i = count; i > 1; i--) {
        int k = roll(dice, i), last = list[i - 1];
        list[i - 1] = list[k];
        list[k] = last;
    }
}

// --- tensors ---

// The ranks' share of an even size is whole in every world; a tiny tensor has fewer elements than there can be ranks.
static void add_plain(struct check_case *c, struct dice *dice, int sizes)
{
    static const size_t even[][2] = {{12, 0}, {4, 6}, {36, 0}, {6, 2}, {48, 0}, {2, 18}};
    static const size_t prime[][2] = {{5, 0}, {7, 3}, {13, 0}, {17, 0}, {29, 0}, {5, 7}, {37, 0}, {11, 0}};
    static const size_t tiny[][2] = {{1, 0}, {2, 0}, {3, 0}, {1, 2}, {3, 1}};
    const size_t *size = sizes == SIZES_EVEN    ? even[roll(dice, sizeof even / sizeof *even)]
                         : sizes == SIZES_PRIME ? prime[roll(dice, sizeof prime / sizeof *prime)]
                                                : tiny[roll(dice, sizeof tiny / sizeof *tiny)];
    suite_tensor(c, size[0], size[1]);
}

static void add_empty(struct check_case *c, struct dice *dice)
{
    int i = suite_tensor(c, 0, roll(dice, 2) ? 5 : 0);
    if (roll(dice, 2)) {
        c->params[i].shape_rank = 3;
        c->params[i].shape[0] = c->params[i].shape[1] = 3;
    }
}

static void add_scalar(struct check_case *c)
{
    c->params[suite_tensor(c, 1, 0)].shape_rank = 0;
}

// The owner of the tied use, the frozen and the unused one are different tensors; a plain one ends the model, so that
// no other is always the last.
static void add_tensors(struct check_case *c, struct dice *dice, const struct factor_vector *v)
{
    enum { EMPTY = PLAIN_COUNT, SCALAR };
    int order[PLAIN_COUNT + 2], plain[PLAIN_COUNT], count = PLAIN_COUNT, plain_count = 0;
    for (int i = 0; i < PLAIN_COUNT; i++)
        order[i] = i;
    if (v->values[FACTOR_EMPTY])
        order[count++] = EMPTY;
    if (v->values[FACTOR_SCALAR])
        order[count++] = SCALAR;
    shuffle(dice, order, count);
    for (int i = 0; i < count; i++) {
        if (order[i] == EMPTY)
            add_empty(c, dice);
        else if (order[i] == SCALAR)
            add_scalar(c);
        else
            plain[plain_count++] = (add_plain(c, dice, v->values[FACTOR_SIZES]), c->param_count - 1);
    }
    shuffle(dice, plain, plain_count);
    c->params[plain[1]].frozen = v->values[FACTOR_FROZEN];
    c->params[plain[2]].used = !v->values[FACTOR_UNUSED];
    c->group_count = v->values[FACTOR_GROUPS] ? 3 : 1;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].group = i % c->group_count;
    if (v->values[FACTOR_TIED])
        suite_tie(c, plain[0]);
    add_plain(c, dice, v->values[FACTOR_SIZES]);
}

static void name_tensors(struct check_case *c, struct dice *dice)
{
    static const char *const words[] = {"embedding", "attention.query", "mlp", "norm", "head", "h.out-proj", "bias"};
    for (int i = 0; i < c->param_count; i++)
        snprintf(c->params[i].name, sizeof c->params[i].name, "%s.%d", words[roll(dice, sizeof words / sizeof *words)],
                 i);
}

// --- the optimizer ---

static void set_groups(struct check_case *c, struct dice *dice, const struct factor_vector *v)
{
    static const double beta1[] = {0.9, 0.8, 0.95}, beta2[] = {0.999, 0.99, 0.95}, eps[] = {1e-8, 1e-6, 1e-7};
    static const double decay[] = {0.1, 0.01, 0.3}, lr[] = {0.01, 0.002, 0.05, 0.003, 0.02, 0.007};
    for (int i = 0; i < c->group_count; i++) {
        struct case_group *group = &c->groups[i];
        double by_step[STEP_COUNT];
        group->beta1 = beta1[roll(dice, 3)];
        group->beta2 = beta2[roll(dice, 3)];
        group->eps = eps[roll(dice, 3)];
        group->weight_decay = v->values[FACTOR_DECAY] == WEIGHT_DECAY_NONE ? 0 : decay[roll(dice, 3)];
        group->decoupled = v->values[FACTOR_DECAY] != WEIGHT_DECAY_L2;
        group->bias_correction = !v->values[FACTOR_CORRECTION];
        int turn = roll(dice, 6);
        for (int k = 0; k < STEP_COUNT; k++)
            by_step[k] = lr[v->values[FACTOR_SCHEDULE] ? (turn + k) % 6 : turn];
        suite_lr(c, i, by_step, STEP_COUNT);
        group->lr_by_step = v->values[FACTOR_SCHEDULE];
    }
}

// The delay begins behind a checkpoint, which then has no pending gradient: CONTRACT.md knows no checkpoint of one.
static void set_steps(struct check_case *c, const struct factor_vector *v)
{
    c->steps = STEP_COUNT;
    c->accumulation = v->values[FACTOR_ACCUMULATION] + 1;
    c->checkpoint_step = v->values[FACTOR_CHECKPOINT] ? CHECKPOINT_STEP : 0;
    c->weights_only = v->values[FACTOR_CHECKPOINT] == CHECKPOINT_WEIGHTS;
    c->delayed_update = v->values[FACTOR_DELAYED] ? CHECKPOINT_STEP + 1 : 0;
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
static int resume_world(const struct check_case *c, struct dice *dice, const struct factor_vector *v)
{
    if (v->values[FACTOR_CHECKPOINT] != CHECKPOINT_RESHARD)
        return c->world;
    int other = 1 + roll(dice, WORLD_MOST - 1);
    return other < c->world ? other : other + 1;
}

static void set_data(struct check_case *c, int other_world)
{
    enum dtype dtypes[] = {c->precision, c->communication_dtype, c->accumulation_dtype};
    for (int i = 0; i < 3; i++)
        if (dtypes[i] == DTYPE_FP16) {
            c->data.exponent_low = -16;
            c->data.exponent_high = -8;
        }
    int one = suite_odd_part(c->world), other = suite_odd_part(other_world);
    c->data.unit = (one > other ? one : other) * suite_odd_part(c->accumulation);
    suite_fit(c, c->world > other_world ? c->world : other_world);
}

static void set_scale(struct check_case *c, struct dice *dice, const struct factor_vector *v)
{
    enum case_scale_kind kind = (enum case_scale_kind)v->values[FACTOR_LOSS_SCALE];
    c->loss_scale = (struct case_loss_scale){.kind = kind};
    if (kind == SCALE_STATIC)
        c->loss_scale.scale = ldexp(1, 5 + roll(dice, 4));
    if (kind == SCALE_DYNAMIC)
        suite_dynamic(c, 0x1p8, 2, (uint64_t)(1 + roll(dice, 2)), 1);
    c->overflow_check = v->values[FACTOR_OVERFLOW] != OVERFLOW_UNCHECKED;
}

// In one micro-step of one rank, in one element of a gradient; not in the first step, and not in the last.
static void set_overflow(struct check_case *c, struct dice *dice, const struct factor_vector *v, int other_world)
{
    if (v->values[FACTOR_OVERFLOW] != OVERFLOW_INF && v->values[FACTOR_OVERFLOW] != OVERFLOW_NAN)
        return;
    int param, step = 2 + roll(dice, STEP_COUNT - 2), micro = roll(dice, c->accumulation);
    int rank = roll(dice, c->world < other_world ? c->world : other_world);
    do
        param = roll(dice, c->param_count);
    while (!case_is_used(c, param) || c->params[param].count == 0);
    size_t element = (size_t)roll(dice, (int)c->params[param].count);
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
                for (int k = 0; case_owner(c, use) == owner && case_is_used(c, use) && k < c->world * c->accumulation;
                     k++)
                    sum += (double)generator_gradient(c, step, k / c->world, k % c->world, use, e);
            squares += sum * sum;
        }
    return sqrt(squares) / (c->world * c->accumulation);
}

// Three digits, so that the coefficient is no power of two.
static void set_clipping(struct check_case *c, const struct factor_vector *v)
{
    static const double share[] = {[CLIPPING_BELOW] = 50, [CLIPPING_ABOVE] = 0.013, [CLIPPING_AROUND] = 1};
    char text[32];
    if (v->values[FACTOR_CLIPPING] == CLIPPING_OFF)
        return;
    snprintf(text, sizeof text, "%.2e", share[v->values[FACTOR_CLIPPING]] * norm_of(c, CHECKPOINT_STEP));
    c->gradient_clipping = strtod(text, NULL);
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
    struct dice dice = {.key = random_key(seed, 1)};
    suite_begin(c, 1 + v->values[FACTOR_WORLD], v->values[FACTOR_STAGE], (enum dtype)v->values[FACTOR_PRECISION],
                random_key(seed, 2));
    c->communication_dtype = (enum dtype)v->values[FACTOR_COMMUNICATION];
    c->accumulation_dtype = (enum dtype)v->values[FACTOR_ACCUMULATE_IN];
    c->offload_optimizer = (enum ledger_tier)v->values[FACTOR_OPTIMIZER_TIER];
    c->offload_param = (enum ledger_tier)v->values[FACTOR_PARAM_TIER];
    int other_world = resume_world(c, &dice, v);
    add_tensors(c, &dice, v);
    name_tensors(c, &dice);
    set_groups(c, &dice, v);
    set_steps(c, v);
    set_hints(c, v);
    set_scale(c, &dice, v);
    set_data(c, other_world);
    set_clipping(c, v);
    set_overflow(c, &dice, v, other_world);
    factor_text(v, c->note, sizeof c->note);
    return finish(out, topic, other_world);
}
