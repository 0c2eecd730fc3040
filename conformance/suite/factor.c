// SPDX-License-Identifier: Apache-2.0
#include "conformance/suite/factor.h"

#include "ref/arithmetic/random.h"

#include <assert.h>
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
};

// Values of two factors, as text between blanks, none of which may occur with one of the other's.
static const struct conflict {
    enum factor a;
    const char *a_values;
    enum factor b;
    const char *b_values, *why;
} conflicts[] = {
    {FACTOR_STAGE, "0", FACTOR_OPTIMIZER_TIER, "cpu nvme", "without ZeRO the optimizer stays on the device"},
    {FACTOR_STAGE, "1 2", FACTOR_OPTIMIZER_TIER, "nvme", "ZeRO-Infinity is built on stage 3"},
    {FACTOR_STAGE, "0 1 2", FACTOR_PARAM_TIER, "cpu nvme", "only stage 3 partitions parameters"},
    {FACTOR_OPTIMIZER_TIER, "device", FACTOR_DELAYED, "yes", "only an update on the host can be delayed"},
    {FACTOR_PRECISION, "fp32", FACTOR_ACCUMULATE_IN, "bf16 fp16", "micro-steps are added no narrower than they come"},
    {FACTOR_PRECISION, "bf16", FACTOR_ACCUMULATE_IN, "fp16", "fp16 does not hold the range of bf16"},
    {FACTOR_PRECISION, "fp16", FACTOR_ACCUMULATE_IN, "bf16", "bf16 does not hold the digits of fp16"},
    {FACTOR_PRECISION, "bf16", FACTOR_COMMUNICATION, "fp16", "fp16 does not hold the range of bf16"},
    {FACTOR_PRECISION, "fp16", FACTOR_COMMUNICATION, "bf16", "bf16 does not hold the digits of fp16"},
    {FACTOR_PRECISION, "fp32 bf16", FACTOR_LOSS_SCALE, "static dynamic", "the loss is scaled for the range of fp16"},
    {FACTOR_PRECISION, "fp16", FACTOR_LOSS_SCALE, "none", "fp16 needs a loss scale"},
    {FACTOR_LOSS_SCALE, "static dynamic", FACTOR_OVERFLOW, "unchecked", "a scaled loss is checked for overflow"},
};

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

static bool is_one_of(const char *word, const char *words)
{
    size_t length = strlen(word), bytes;
    for (; *words; words += bytes + (words[bytes] != '\0')) {
        bytes = strcspn(words, " ");
        if (bytes == length && memcmp(words, word, length) == 0)
            return true;
    }
    return false;
}

static bool matches(const struct conflict *conflict, enum factor a, int a_value, enum factor b, int b_value)
{
    return conflict->a == a && conflict->b == b && is_one_of(factors[a].values[a_value], conflict->a_values) &&
           is_one_of(factors[b].values[b_value], conflict->b_values);
}

const char *factor_conflict(enum factor a, int a_value, enum factor b, int b_value)
{
    for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++)
        if (matches(&conflicts[i], a, a_value, b, b_value) || matches(&conflicts[i], b, b_value, a, a_value))
            return conflicts[i].why;
    return NULL;
}

// True if a factor's value is in conflict with none of the vector's.
static bool agrees(const struct factor_vector *vector, enum factor factor, int value)
{
    for (int i = 0; i < FACTOR_COUNT; i++)
        if (i != (int)factor && vector->values[i] != FACTOR_OPEN &&
            factor_conflict(factor, value, (enum factor)i, vector->values[i]))
            return false;
    return true;
}

bool factor_is_legal(const struct factor_vector *vector)
{
    for (int i = 0; i < FACTOR_COUNT; i++)
        if (vector->values[i] != FACTOR_OPEN && !agrees(vector, (enum factor)i, vector->values[i]))
            return false;
    return true;
}

// Sets the open factors from `first` on, one after the other, and goes back where none of a factor's values agrees.
static bool complete_from(struct factor_vector *vector, int first, uint64_t seed)
{
    while (first < FACTOR_COUNT && vector->values[first] != FACTOR_OPEN)
        first++;
    if (first == FACTOR_COUNT)
        return true;
    enum factor factor = (enum factor)first;
    int count = factor_value_count(factor);
    int turn = (int)random_below(random_at(seed, (uint64_t)first), (uint64_t)count);
    for (int i = 0; i < count; i++) {
        int value = (turn + i) % count;
        if (!agrees(vector, factor, value))
            continue;
        vector->values[factor] = (unsigned char)value;
        if (complete_from(vector, first + 1, seed))
            return true;
    }
    vector->values[factor] = FACTOR_OPEN;
    return false;
}

bool factor_complete(struct factor_vector *vector, uint64_t seed)
{
    return factor_is_legal(vector) && complete_from(vector, 0, seed);
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
