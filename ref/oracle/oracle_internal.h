// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ref/arithmetic/accelerator.h"
#include "ref/oracle/oracle.h"
#include "ref/oracle/oracle_rules.h"
#include "ref/recipe/recipe.h"
#include "ref/tier/tier.h"

// The accelerator of the unsharded run, where there is one: the model computes there, and all else is done here.

// An array of the oracle, and the same array where the model reads or writes it.
struct oracle_array {
    void *here;
    void *there;  // on the accelerator; without one, `here`
    size_t bytes;
};

// *out is null without an accelerator.
int oracle_device_open(const struct accelerator *accelerator, int device, struct tier **out);

// Zeros. name: of the tensor, for messages. The memory on the accelerator is the tier's.
int oracle_array_open(struct tier *tier, size_t bytes, const char *name, struct oracle_array *out);
void oracle_array_close(struct oracle_array *array);

// Copy the array to the model, or from it. The model must be idle, and the copy is complete on return.
int oracle_array_push(const struct oracle_array *array);
int oracle_array_pull(const struct oracle_array *array);

struct oracle_tensor {
    size_t count;
    bool trainable;
    bool expert;
    int high_layer;  // the layer whose backward makes its gradient first
    float *parameter, *exp_avg, *exp_avg_sq;
    struct oracle_array model_params;  // the parameter in the model's dtype
    struct oracle_array gradient;      // of one micro-batch, in the model's dtype
    bool quantized;                    // qwZ: the model computes with quantized parameters,
    struct oracle_array seen;          // these, in its dtype
    float *partial;                    // a rank's sum over micro-steps, or a micro-step's sum over ranks
    float *sum;                        // over both
    float *group;                      // over the ranks of one group, where sums are hierarchical
    float *sources;                    // over the ranks of an expert group, of one micro-step; or qgZ's one gradient
};

struct oracle {
    struct oracle_setting setting;
    struct oracle_tensor *tensors;
    const void **params;
    struct model_gradient *gradients;
    struct model_run *run;
    struct tier *tier;  // of the accelerator; null: the model runs here
    const struct recipe *recipe;
    struct recipe_state *states;  // by group
    struct oracle_loss_scale loss_scale;
    uint64_t t;  // updates so far
};

// qwZ: true if the parameter is gathered in 8 bits, so that every rank computes with its quantized values. All are but
// the persistent ones, which stay gathered.
bool oracle_quantizes(const struct oracle_setting *setting, int param);

// Makes `seen` of the quantized tensors from their parameters in the model's dtype.
void oracle_quantize_parameters(struct oracle *o);

// qgZ: x[count], which is a whole tensor, as it arrives from its way in 4 bits.
void oracle_quantize_gradient(const struct oracle *o, float x[], size_t count);

static inline float oracle_element(enum dtype dtype, const void *array, size_t i)
{
    switch (dtype) {
    case DTYPE_BF16:
        return bf16_to_f32(((const struct bf16 *)array)[i]);
    case DTYPE_FP16:
        return fp16_to_f32(((const struct fp16 *)array)[i]);
    default:
        return ((const float *)array)[i];
    }
}

static inline void oracle_set_element(enum dtype dtype, void *array, size_t i, float x)
{
    if (dtype == DTYPE_BF16)
        ((struct bf16 *)array)[i] = f32_to_bf16(x);
    else if (dtype == DTYPE_FP16)
        ((struct fp16 *)array)[i] = f32_to_fp16(x);
    else
        ((float *)array)[i] = x;
}
