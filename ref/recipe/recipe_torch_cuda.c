// SPDX-License-Identifier: Apache-2.0
#include "ref/recipe/recipe_begin.h"

// Returns 1 - beta^t in fp32: capturable forms keep it in a tensor, the fused form in an fp32 scalar.
static float tensor_correction(double beta, uint64_t t)
{
    return 1.0f - (float)pow((double)(float)beta, recipe_torch_step(t));
}

void recipe_begin_torch_cuda(enum recipe_family family, const struct adam_hyper *hyper, uint64_t t,
                             struct adam_scalars *out)
{
    float bias1 = tensor_correction(hyper->beta1, t), root2 = sqrtf(tensor_correction(hyper->beta2, t));
    if (family == RECIPE_TORCH_CUDA_SINGLE) {
        out->bias2 = 1.0f / out->bias2;
    } else if (family == RECIPE_TORCH_CUDA_FUSED) {
        out->step_size = (float)(hyper->lr / (double)(float)(1 - pow(hyper->beta1, recipe_torch_step(t))));
        out->wide = (struct adam_wide){
            .m_keep = hyper->beta1,
            .m_take = 1 - hyper->beta1,
            .v_keep = hyper->beta2,
            .v_take = 1 - hyper->beta2,
            .eps = hyper->eps,
            .decay_l2 = hyper->weight_decay,
            .decay_decoupled = -(hyper->lr * hyper->weight_decay),
        };
    } else if (family == RECIPE_TORCH_CUDA_FUSED_FP32) {
        out->m_keep = (float)hyper->beta1;
        out->bias2 = root2;
        out->step_size = (float)hyper->lr / bias1;
        out->decay_decoupled = -((float)hyper->lr * (float)hyper->weight_decay);
    } else if (family == RECIPE_TORCH_CAPTURABLE_FOREACH) {
        // PyTorch divides a list of tensors by a number by multiplying with the reciprocal, rounded from double.
        out->bias2 = root2;
        out->step_size = 1.0f / (-bias1 * (float)(1 / hyper->lr));
    } else if (family == RECIPE_TORCH_CAPTURABLE_SINGLE) {
        // PyTorch divides a number by a tensor by multiplying the tensor's reciprocal with the number.
        float minus_step = -(1.0f / bias1 * (float)hyper->lr);
        out->bias2 = root2 * minus_step;
        out->eps = 1.0f / minus_step * (float)hyper->eps;
        out->step_size = 1;
    }
}
