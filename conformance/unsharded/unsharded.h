// SPDX-License-Identifier: Apache-2.0
// Unsharded mixed-precision Adam, the suite's own: one process, whole tensors, scalar loops. It shares no arithmetic
// with ref/ and knows nothing of shards, buckets or tiers. It makes one step from a given state, so that a judge can
// ask for each step of an implementation from that implementation's own state before it.
#pragma once

#include "conformance/cases/case.h"
#include "conformance/unsharded/rule.h"

// The state of all parameters between two steps. Arrays by parameter, [count]; NULL for tied ones, moments also for
// frozen ones.
struct unsharded_state {
    float *param[CASE_PARAM_MAX], *exp_avg[CASE_PARAM_MAX], *exp_avg_sq[CASE_PARAM_MAX];
    uint64_t t;  // updates applied so far
};

int unsharded_state_open(const struct check_case *c, struct unsharded_state *out);  // zeros
void unsharded_state_close(struct unsharded_state *state);                          // null-safe
void unsharded_state_copy(const struct check_case *c, const struct unsharded_state *from, struct unsharded_state *to);

// The state before step 1: the initial parameters.
void unsharded_begin(const struct check_case *c, const struct case_values *values, struct unsharded_state *out);

// The decisions of a step. They do not depend on the state, and are the same for every rule.
enum scaler_form { SCALER_DEEPSPEED, SCALER_TORCH, SCALER_MEGATRON };
struct unsharded_decision {
    bool skipped;
    double scale;  // of the step's gradients; 1 without loss scale
    double scale_after;
    uint64_t t;   // updates applied after the step, by the definition (the delayed update counted)
    int applies;  // the step whose gradient is applied; 0: none
};

// Fills in out[case_last_step], from step 1 on, also for a case that resumes.
int unsharded_decide(const struct check_case *c, const struct case_values *values, enum scaler_form scaler,
                     struct unsharded_decision *out);

// A choice that a rule leaves by element: the first rank of a cyclic fold and its direction, the ranks in a group (0:
// the fewest possible), and the body or the tail of a recipe that has both.
struct unsharded_choice {
    int first_rank, group;
    bool downwards, tail;
};

// How many choices a rule has at this world; choice i of them. At least one, [0] being the canonical.
int unsharded_choice_count(const struct check_case *c, const struct rule *rule);
struct unsharded_choice unsharded_choice_at(const struct check_case *c, const struct rule *rule, int index);

// The mean gradient of `step`, unscaled, before clipping, in fp32: by parameter, [count]; tied uses are added into
// their owner's. out's arrays are the caller's; NULL entries are left out. Unused parameters get zeros. scale: that of
// the step's decision.
int unsharded_gradient(const struct check_case *c, const struct case_values *values, const struct rule *rule,
                       const struct unsharded_choice *choice, int step, double scale, float *const out[CASE_PARAM_MAX]);

// The norm of such gradients, to nearly all bits of a double, over what is trained (NULL entries are left out); and the
// coefficient they are multiplied by: 1 without clipping.
double unsharded_norm(const struct check_case *c, const float *const gradients[CASE_PARAM_MAX]);
float unsharded_coefficient(const struct check_case *c, const struct rule *rule, double norm);

// Adam's step t of all trained parameters, and of Muon's the momentum alone, from `from` to `to` (which may be the
// same) with these mean gradients and this coefficient, and with the hyper-parameters of the step `lr_step`.
// leaves_unused: parameters without a gradient in that step stay as they are; otherwise they get a gradient of zero.
// missed: by parameter, the updates that its own t does not count; NULL: one t for all. resumed_t: where a recipe has
// running products for the powers of beta (DeepSpeed), they begin with a pow after this t; 0: with 1 at the beginning.
// An implementation that resumed has the checkpoint's t there; one whose groups have different betas uses pow at every
// step, which is t - 1.
struct unsharded_update {
    uint64_t t;
    int lr_step;
    float coefficient;
    bool tail, leaves_unused;
    const uint64_t *missed;
    uint64_t resumed_t;
};
int unsharded_adam(const struct check_case *c, const struct rule *rule, const struct unsharded_update *update,
                   const float *const gradients[CASE_PARAM_MAX], const struct unsharded_state *from,
                   struct unsharded_state *to);

// The updates before the one of `step` in which a parameter had no gradient, since t was last 0.
uint64_t unsharded_missed(const struct check_case *c, const struct unsharded_decision *decisions, int step, int param);

// x rounded to dtype and back, to nearest, ties to even.
float unsharded_round(enum dtype dtype, float x);

// x as it arrives from a gather in E4M3, in fp32: x times the scale 448 / max(amax, 1e-12), to the nearest value of
// E4M3, ties to even, and divided by the scale. amax: of the tensor, or a smaller one, beyond which values saturate.
float unsharded_e4m3(float x, float amax);
float unsharded_amax(const float x[], size_t count);
