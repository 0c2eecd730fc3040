// SPDX-License-Identifier: Apache-2.0
// Claims as sets of factors' values.
#include "conformance/claims/claims.h"

// Takes the values from `first` to `last` away where a feature is not claimed.
static void need(const struct claims *claims, struct factor_space *space, enum factor factor, int first, int last,
                 enum claims_feature feature)
{
    for (int value = first; value <= last && !(claims->features >> feature & 1); value++)
        space->values[factor] &= (unsigned char)~(1u << value);
}

void claims_narrow(const struct claims *claims, struct factor_space *space)
{
    static const struct {
        enum factor factor;
        int first, last;
        enum claims_feature feature;
    } needs[] = {
        {FACTOR_GROUPS, 1, 1, FEATURE_GROUPS},
        {FACTOR_TIED, 1, 1, FEATURE_TIED},
        {FACTOR_FROZEN, 1, 1, FEATURE_FROZEN},
        {FACTOR_UNUSED, 1, 1, FEATURE_UNUSED},
        {FACTOR_VARYING, VARYING_NO, VARYING_MICRO_STEPS, FEATURE_VARYING_USE},
        {FACTOR_EMPTY, 1, 1, FEATURE_EMPTY},
        {FACTOR_SCALAR, 1, 1, FEATURE_SCALAR},
        {FACTOR_CLIPPING, CLIPPING_BELOW, CLIPPING_AROUND, FEATURE_CLIPPING},
        {FACTOR_LOSS_SCALE, SCALE_STATIC, SCALE_STATIC, FEATURE_STATIC_LOSS_SCALE},
        {FACTOR_LOSS_SCALE, SCALE_DYNAMIC, SCALE_DYNAMIC, FEATURE_DYNAMIC_LOSS_SCALE},
        {FACTOR_OVERFLOW, OVERFLOW_NONE, OVERFLOW_NAN, FEATURE_OVERFLOW_CHECK},
        {FACTOR_ACCUMULATION, 1, 2, FEATURE_ACCUMULATION},
        {FACTOR_DELAYED, 1, 1, FEATURE_DELAYED_UPDATE},
        {FACTOR_CHECKPOINT, CHECKPOINT_SAME, CHECKPOINT_WEIGHTS, FEATURE_RESUME},
        {FACTOR_CHECKPOINT, CHECKPOINT_RESHARD, CHECKPOINT_RESHARD, FEATURE_RESHARD},
        {FACTOR_CHECKPOINT, CHECKPOINT_WEIGHTS, CHECKPOINT_WEIGHTS, FEATURE_WEIGHTS_ONLY},
        {FACTOR_CORRECTION, 1, 1, FEATURE_NO_BIAS_CORRECTION},
        {FACTOR_DECAY, WEIGHT_DECAY_L2, WEIGHT_DECAY_L2, FEATURE_L2},
        {FACTOR_SCHEDULE, 1, 1, FEATURE_LR_SCHEDULE},
        {FACTOR_GROUP_MODE, 1, 1, FEATURE_L2},
        {FACTOR_GROUP_CORRECTION, 1, 1, FEATURE_NO_BIAS_CORRECTION},
        {FACTOR_GROUP_SCHEDULE, 1, 1, FEATURE_LR_SCHEDULE},
    };
    space->values[FACTOR_WORLD] &= (unsigned char)claims->worlds;
    space->values[FACTOR_STAGE] &= (unsigned char)claims->stages;
    space->values[FACTOR_PRECISION] &= (unsigned char)claims->precisions;
    space->values[FACTOR_OPTIMIZER_TIER] &= (unsigned char)claims->offload_optimizer;
    space->values[FACTOR_PARAM_TIER] &= (unsigned char)claims->offload_param;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        need(claims, space, needs[i].factor, needs[i].first, needs[i].last, needs[i].feature);
    for (int precision = 0; precision < CLAIMS_OWN_DTYPE; precision++) {
        space->communicate[precision] =
            (unsigned char)claims_dtypes(claims->communication_dtypes, (enum dtype)precision);
        space->accumulate[precision] = (unsigned char)claims_dtypes(claims->accumulation_dtypes, (enum dtype)precision);
    }
    // A checkpoint for another world needs one.
    if ((space->values[FACTOR_WORLD] & (space->values[FACTOR_WORLD] - 1)) == 0)
        space->values[FACTOR_CHECKPOINT] &= (unsigned char)~(1u << CHECKPOINT_RESHARD);
}
