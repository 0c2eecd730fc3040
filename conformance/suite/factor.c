// SPDX-License-Identifier: Apache-2.0
#include "conformance/suite/factor.h"

#include "conformance/cases/case.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *values[FACTOR_VALUE_MAX + 1];
} factors[FACTOR_COUNT] = {
    [FACTOR_WORLD] = {"world", {"1", "2", "3", "4"}},
    [FACTOR_STAGE] = {"stage", {"0", "1", "2", "3"}},
    [FACTOR_PRECISION] = {"precision", {"fp32", "bf16", "fp16"}},        // as in enum dtype
    [FACTOR_COMMUNICATION] = {"communicate", {"fp32", "bf16", "fp16"}},  // the same
    [FACTOR_ACCUMULATE_IN] = {"accumulate", {"fp32", "bf16", "fp16"}},   // the same
    [FACTOR_OPTIMIZER_TIER] = {"optimizer", {"device", "cpu", "nvme"}},  // as in enum ledger_tier
    [FACTOR_PARAM_TIER] = {"parameters", {"device", "cpu", "nvme"}},     // the same
    [FACTOR_SIZES] = {"sizes", {"even", "prime", "tiny"}},
    [FACTOR_GROUPS] = {"groups", {"1", "3"}},
    [FACTOR_TIED] = {"tied", {"no", "yes"}},
    [FACTOR_FROZEN] = {"frozen", {"no", "yes"}},
    [FACTOR_UNUSED] = {"unused", {"no", "yes"}},
    [FACTOR_EMPTY] = {"empty", {"no", "yes"}},
    [FACTOR_SCALAR] = {"scalar", {"no", "yes"}},
    [FACTOR_CLIPPING] = {"clipping", {"off", "below", "above", "around"}},  // where the norm is from the threshold
    [FACTOR_LOSS_SCALE] = {"scale", {"none", "static", "dynamic"}},         // as in enum case_scale_kind
    [FACTOR_OVERFLOW] = {"overflow", {"unchecked", "none", "inf", "nan"}},
    [FACTOR_ACCUMULATION] = {"micro-steps", {"1", "2", "3"}},
    [FACTOR_DELAYED] = {"delayed", {"no", "yes"}},
    [FACTOR_CHECKPOINT] = {"checkpoint", {"none", "same", "reshard", "weights"}},
    [FACTOR_CORRECTION] = {"correction", {"yes", "no"}},
    [FACTOR_DECAY] = {"decay", {"none", "decoupled", "L2"}},
    [FACTOR_SCHEDULE] = {"schedule", {"no", "yes"}},
    [FACTOR_OVERLAP] = {"overlap", {"off", "on"}},
    [FACTOR_CONTIGUOUS] = {"contiguous_gradients", {"on", "off"}},
    [FACTOR_SCATTER] = {"reduce_scatter", {"on", "off"}},
    [FACTOR_BUCKET] = {"bucket", {"all", "some", "small"}},
    [FACTOR_PREFETCH] = {"prefetch", {"all", "some", "none"}},
    [FACTOR_SUB_GROUP] = {"sub-group", {"all", "small"}},
    [FACTOR_VARYING] = {"varying use", {"no", "by step", "by micro-step"}},
    [FACTOR_GROUP_MODE] = {"Adam by group", {"no", "yes"}},  // one group has what FACTOR_DECAY says the others have not
    [FACTOR_GROUP_CORRECTION] = {"correction by group", {"no", "yes"}},
    [FACTOR_GROUP_BETAS] = {"betas by group", {"no", "yes"}},  // no: drawn, and may be the same
    [FACTOR_GROUP_EPS] = {"eps by group", {"no", "yes"}},      // the same
    [FACTOR_GROUP_DECAY] = {"decay by group", {"no", "yes"}},  // one group has none
    [FACTOR_GROUP_SCHEDULE] = {"schedule by group", {"no", "yes"}},
    [FACTOR_FIRST_MICRO] = {"first micro-step", {"alike", "larger"}},  // so that 16 bits do not hold the sum
    [FACTOR_TOKENS] = {"tokens", {"no", "yes"}},
};

// Sets of values of two factors, none of which may occur with one of the other's.
#define ONLY(value) (1u << (value))
static const struct conflict {
    enum factor a;
    unsigned a_values;
    enum factor b;
    unsigned b_values;
} conflicts[] = {
    {FACTOR_STAGE, ONLY(0), FACTOR_OPTIMIZER_TIER,
     ONLY(TIER_HOST) | ONLY(TIER_NVME)},  // without ZeRO the optimizer stays on the device
    {FACTOR_STAGE, ONLY(1) | ONLY(2), FACTOR_OPTIMIZER_TIER, ONLY(TIER_NVME)},  // ZeRO-Infinity is built on stage 3
    {FACTOR_STAGE, ONLY(0) | ONLY(1) | ONLY(2), FACTOR_PARAM_TIER,
     ONLY(TIER_HOST) | ONLY(TIER_NVME)},                                  // only stage 3 partitions parameters
    {FACTOR_OPTIMIZER_TIER, ONLY(TIER_DEVICE), FACTOR_DELAYED, ONLY(1)},  // only an update on the host can be delayed
    {FACTOR_VARYING, ONLY(VARYING_MICRO_STEPS), FACTOR_ACCUMULATION, ONLY(0)},  // one micro-step is the whole step
    {FACTOR_PRECISION, ONLY(DTYPE_FP32), FACTOR_ACCUMULATE_IN,
     ONLY(DTYPE_BF16) | ONLY(DTYPE_FP16)},  // micro-steps are added no narrower than they are made
    {FACTOR_PRECISION, ONLY(DTYPE_BF16), FACTOR_ACCUMULATE_IN, ONLY(DTYPE_FP16)},  // fp16 lacks the range of bf16
    {FACTOR_PRECISION, ONLY(DTYPE_FP16), FACTOR_ACCUMULATE_IN, ONLY(DTYPE_BF16)},  // bf16 lacks the digits of fp16
    {FACTOR_PRECISION, ONLY(DTYPE_BF16), FACTOR_COMMUNICATION, ONLY(DTYPE_FP16)},  // fp16 lacks the range of bf16
    {FACTOR_PRECISION, ONLY(DTYPE_FP16), FACTOR_COMMUNICATION, ONLY(DTYPE_BF16)},  // bf16 lacks the digits of fp16
    {FACTOR_PRECISION, ONLY(DTYPE_FP32) | ONLY(DTYPE_BF16), FACTOR_LOSS_SCALE,
     ONLY(SCALE_STATIC) | ONLY(SCALE_DYNAMIC)},  // the loss is scaled for the range of fp16
    {FACTOR_PRECISION, ONLY(DTYPE_FP16), FACTOR_LOSS_SCALE, ONLY(SCALE_NONE)},  // fp16 needs a loss scale
    {FACTOR_LOSS_SCALE, ONLY(SCALE_STATIC) | ONLY(SCALE_DYNAMIC), FACTOR_OVERFLOW,
     ONLY(OVERFLOW_UNCHECKED)},                            // a scaled loss is checked for overflow
    {FACTOR_GROUPS, ONLY(0), FACTOR_GROUP_MODE, ONLY(1)},  // one group differs from no other
    {FACTOR_GROUPS, ONLY(0), FACTOR_GROUP_CORRECTION, ONLY(1)},
    {FACTOR_GROUPS, ONLY(0), FACTOR_GROUP_BETAS, ONLY(1)},
    {FACTOR_GROUPS, ONLY(0), FACTOR_GROUP_EPS, ONLY(1)},
    {FACTOR_GROUPS, ONLY(0), FACTOR_GROUP_DECAY, ONLY(1)},
    {FACTOR_GROUPS, ONLY(0), FACTOR_GROUP_SCHEDULE, ONLY(1)},
    {FACTOR_DECAY, ONLY(WEIGHT_DECAY_NONE), FACTOR_GROUP_MODE, ONLY(1)},  // without decay Adam is AdamW
    {FACTOR_DECAY, ONLY(WEIGHT_DECAY_NONE), FACTOR_GROUP_DECAY, ONLY(1)},
    {FACTOR_ACCUMULATION, ONLY(0), FACTOR_FIRST_MICRO, ONLY(1)},  // there is no other
    {FACTOR_PRECISION, ONLY(DTYPE_FP32) | ONLY(DTYPE_FP16), FACTOR_FIRST_MICRO, ONLY(1)},
    {FACTOR_COMMUNICATION, ONLY(DTYPE_BF16) | ONLY(DTYPE_FP16), FACTOR_FIRST_MICRO, ONLY(1)},  // which would round it
    {FACTOR_ACCUMULATE_IN, ONLY(DTYPE_BF16) | ONLY(DTYPE_FP16), FACTOR_FIRST_MICRO, ONLY(1)},
    {FACTOR_WORLD, ONLY(2), FACTOR_FIRST_MICRO, ONLY(1)},  // a rank's sum may be divided in bf16, which rounds by 3
    {FACTOR_CHECKPOINT, ONLY(CHECKPOINT_RESHARD), FACTOR_FIRST_MICRO, ONLY(1)},  // to a world that may be 3
};
enum { CONFLICT_COUNT = sizeof conflicts / sizeof *conflicts };

const char *factor_name(enum factor factor)
{
    return factors[factor].name;
}

int factor_value_count(enum factor factor)
{
    int count = 0;
    while (factors[factor].values[count])
        count++;
    return count;
}

const char *factor_value_name(enum factor factor, int value)
{
    assert(value >= 0 && value <= FACTOR_VALUE_MAX);
    return factors[factor].values[value];
}

static bool has_one_of(const struct factor_vector *vector, enum factor factor, unsigned values)
{
    int value = vector->values[factor];
    return value != FACTOR_OPEN && (values >> value & 1);
}

// By factor the conflicts that name it, bit I for conflicts[I]; most have one or none.
static uint32_t conflicts_of[FACTOR_COUNT];
static_assert(CONFLICT_COUNT <= 32, "a bit for each conflict");
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void list_conflicts(void)
{
    for (int i = 0; i < CONFLICT_COUNT; i++) {
        conflicts_of[conflicts[i].a] |= UINT32_C(1) << i;
        conflicts_of[conflicts[i].b] |= UINT32_C(1) << i;
    }
}

bool factor_agrees(const struct factor_vector *vector, enum factor factor, int value)
{
    pthread_once(&once, list_conflicts);
    for (uint32_t left = conflicts_of[factor]; left; left &= left - 1) {
        const struct conflict *x = &conflicts[__builtin_ctz(left)];
        if ((x->a == factor && (x->a_values >> value & 1) && has_one_of(vector, x->b, x->b_values)) ||
            (x->b == factor && (x->b_values >> value & 1) && has_one_of(vector, x->a, x->a_values)))
            return false;
    }
    return true;
}

struct factor_space factor_space_whole(void)
{
    struct factor_space space;
    for (int i = 0; i < FACTOR_COUNT; i++)
        space.values[i] = (unsigned char)((1 << factor_value_count((enum factor)i)) - 1);
    memset(space.communicate, 0xff, sizeof space.communicate);
    memset(space.accumulate, 0xff, sizeof space.accumulate);
    return space;
}

struct factor_space factor_space_of(int suite_version)
{
    struct factor_space space = factor_space_whole();
    for (int i = FACTOR_FIRST_OF_VERSION_3; suite_version < 3 && i < FACTOR_COUNT; i++)
        space.values[i] = 0;
    return space;
}

bool factor_is_legal(const struct factor_vector *vector)
{
    for (int i = 0; i < FACTOR_COUNT; i++)
        if (vector->values[i] != FACTOR_OPEN && !factor_agrees(vector, (enum factor)i, vector->values[i]))
            return false;
    return true;
}

// True if the dtypes of the sums may be used with the precision, as far as they are set.
static bool dtypes_fit(const struct factor_vector *vector, const struct factor_space *space)
{
    int precision = vector->values[FACTOR_PRECISION], communicate = vector->values[FACTOR_COMMUNICATION],
        accumulate = vector->values[FACTOR_ACCUMULATE_IN];
    return precision == FACTOR_OPEN ||
           ((communicate == FACTOR_OPEN || space->communicate[precision] >> communicate & 1) &&
            (accumulate == FACTOR_OPEN || space->accumulate[precision] >> accumulate & 1));
}

// Sets the open factors from `first` on, one after the other, and goes back where none of a factor's values agrees.
static bool complete_from(struct factor_vector *vector, const struct factor_space *space, int first, uint64_t seed)
{
    if (!dtypes_fit(vector, space))
        return false;
    while (first < FACTOR_COUNT && vector->values[first] != FACTOR_OPEN)
        first++;
    if (first == FACTOR_COUNT)
        return true;
    enum factor factor = (enum factor)first;
    int count = factor_value_count(factor);
    unsigned values = space->values[factor] ? space->values[factor] : ONLY(0);
    int turn = (int)random_below(random_at(seed, (uint64_t)first), (uint64_t)count);
    for (int i = 0; i < count; i++) {
        int value = (turn + i) % count;
        if (!(values >> value & 1) || !factor_agrees(vector, factor, value))
            continue;
        vector->values[factor] = (unsigned char)value;
        if (complete_from(vector, space, first + 1, seed))
            return true;
    }
    vector->values[factor] = FACTOR_OPEN;
    return false;
}

bool factor_complete_within(struct factor_vector *vector, const struct factor_space *space, uint64_t seed)
{
    return factor_is_legal(vector) && complete_from(vector, space, 0, seed);
}

bool factor_complete(struct factor_vector *vector, uint64_t seed)
{
    struct factor_space whole = factor_space_whole();
    return factor_complete_within(vector, &whole, seed);
}

void factor_draw(struct factor_vector *out, uint64_t seed)
{
    memset(out->values, FACTOR_OPEN, sizeof out->values);
    bool complete = factor_complete(out, seed);
    assert(complete);
    (void)complete;
}

const char *factor_text(const struct factor_vector *vector, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < FACTOR_COUNT && used < bytes; i++) {
        int value = vector->values[i];
        if (value == 0 || value == FACTOR_OPEN)
            continue;
        const char *word = factors[i].values[value];
        bool plain = strcmp(word, "yes") == 0;
        used += (size_t)snprintf(out + used, bytes - used, "%s%s%s%s", used ? ", " : "", factors[i].name,
                                 plain ? "" : " ", plain ? "" : word);
    }
    return out;
}
