// SPDX-License-Identifier: Apache-2.0
// The table of recipes, and the scalars of a step, which belong to a recipe because implementations round them at
// different places.
#include "ref/recipe/recipe_begin.h"

#include "base/err.h"
#include "ref/recipe/recipe.h"

#include <assert.h>
#include <string.h>

// "checked": a run of the named code gave the same bits of p, m and v over several steps and at least 100,000 elements.
// "read": the operations follow the source text or the compiler's machine code; no run of the named code has been
// compared.
static const struct recipe recipes[] = {
    {.name = "torch-cpu",
     .source = "PyTorch torch.optim.Adam/AdamW on CPU, single tensor and foreach, fp32",
     .version = "2.6.0",
     .note = "checked; IEEE square root, the same at every position. PyTorch wheels that take their square root from "
             "MKL differ in the last bit of some elements of p",
     .family = RECIPE_TORCH,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "torch-cpu-nofma",
     .source = "PyTorch torch.optim.Adam/AdamW on CPU, single tensor and foreach, fp32, ATEN_CPU_CAPABILITY=default",
     .version = "2.6.0",
     .note = "checked; as torch-cpu on a processor without FMA",
     .family = RECIPE_TORCH,
     .body = FUSE_NONE,
     .tail = FUSE_NONE},
    {.name = "torch-fused-cpu",
     .source = "PyTorch torch.optim.Adam/AdamW(fused=True) on CPU, fp32, built by GCC",
     .version = "2.6.0, 2.15.0",
     .note = "checked; the last count mod 8 elements of a tensor fuse the other product",
     .family = RECIPE_TORCH,
     .body = FUSE_GRADIENT,
     .tail = FUSE_MOMENT,
     .lanes = 8},
    {.name = "deepspeed-cpu-gcc-avx512",
     .source = "DeepSpeed DeepSpeedCPUAdam, AVX-512, built by GCC",
     .version = "0.19.8",
     .note = "checked; the last count mod 16 elements of a tensor fuse the other product",
     .family = RECIPE_DEEPSPEED,
     .body = FUSE_GRADIENT,
     .tail = FUSE_MOMENT,
     .lanes = 16},
    {.name = "deepspeed-cpu-gcc-avx2",
     .source = "DeepSpeed DeepSpeedCPUAdam, AVX2, built by GCC",
     .version = "edaa7221",
     .note = "checked; the last count mod 8 elements of a tensor fuse the other product",
     .family = RECIPE_DEEPSPEED,
     .body = FUSE_GRADIENT,
     .tail = FUSE_MOMENT,
     .lanes = 8},
    {.name = "deepspeed-cpu-clang",
     .source = "DeepSpeed DeepSpeedCPUAdam, AVX2 or AVX-512, built by clang",
     .version = "edaa7221",
     .note = "checked; the same at every position",
     .family = RECIPE_DEEPSPEED,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "deepspeed-cpu-scalar",
     .source = "DeepSpeed DeepSpeedCPUAdam, built for a processor without FMA",
     .version = "edaa7221",
     .note = "checked; the same at every position",
     .family = RECIPE_DEEPSPEED,
     .body = FUSE_NONE,
     .tail = FUSE_NONE},
    {.name = "torch-cuda-foreach",
     .source = "PyTorch torch.optim.Adam/AdamW on CUDA, foreach (the default), fp32",
     .version = "2.6.0, 2.15.0",
     .note = "read",
     .family = RECIPE_TORCH_CUDA_FOREACH,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "torch-cuda-single",
     .source = "PyTorch torch.optim.Adam/AdamW(foreach=False) on CUDA, fp32",
     .version = "2.6.0, 2.15.0",
     .note = "read; the root is multiplied by the reciprocal of its bias correction",
     .family = RECIPE_TORCH_CUDA_SINGLE,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "torch-cuda-fused",
     .source = "PyTorch torch.optim.Adam/AdamW(fused=True) on CUDA, fp32",
     .version = "2.6.0",
     .note = "read; the device's own powers of beta, rounded to fp32, are taken to be the host's",
     .family = RECIPE_TORCH_CUDA_FUSED,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "torch-cuda-fused-fp32",
     .source = "PyTorch torch.optim.Adam/AdamW(fused=True) on CUDA, fp32, where it computes in fp32",
     .version = "2.15.0",
     .note = "read, from its machine code; the device's own fp32 powers of beta are taken to be correctly rounded",
     .family = RECIPE_TORCH_CUDA_FUSED_FP32,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "torch-capturable-foreach",
     .source = "PyTorch torch.optim.Adam/AdamW(capturable=True) on CUDA, foreach, fp32",
     .version = "2.6.0",
     .note = "read; the device's own fp32 powers of beta are taken to be correctly rounded",
     .family = RECIPE_TORCH_CAPTURABLE_FOREACH,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "torch-capturable-single",
     .source = "PyTorch torch.optim.Adam/AdamW(capturable=True, foreach=False) on CUDA, fp32",
     .version = "2.6.0",
     .note = "read; the device's own fp32 powers of beta are taken to be correctly rounded",
     .family = RECIPE_TORCH_CAPTURABLE_SINGLE,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "apex",
     .source = "FusedAdam of DeepSpeed, Apex and Transformer Engine on CUDA, fp32",
     .version = "edaa7221, 004da4ed, c250752a",
     .note = "read; DeepSpeed and Apex build it with fast-math, this is the IEEE form",
     .family = RECIPE_APEX,
     .body = FUSE_MOMENT,
     .tail = FUSE_MOMENT},
    {.name = "apex-other-fusion",
     .source = "FusedAdam of DeepSpeed, Apex and Transformer Engine on CUDA, fp32",
     .version = "edaa7221, 004da4ed, c250752a",
     .note = "read; as apex, where the compiler fuses the gradient's product",
     .family = RECIPE_APEX,
     .body = FUSE_GRADIENT,
     .tail = FUSE_GRADIENT},
    {.name = "apex-nofma",
     .source = "FusedAdam of DeepSpeed, Apex and Transformer Engine on CUDA, fp32",
     .version = "edaa7221, 004da4ed, c250752a",
     .note = "read; as apex, nothing fused",
     .family = RECIPE_APEX,
     .body = FUSE_NONE,
     .tail = FUSE_NONE},
};

const struct recipe *recipe_at(int index)
{
    return index >= 0 && (size_t)index < sizeof recipes / sizeof recipes[0] ? &recipes[index] : NULL;
}

const struct recipe *recipe_find(const char *name)
{
    for (int i = 0; recipe_at(i); i++)
        if (!strcmp(recipe_at(i)->name, name))
            return recipe_at(i);
    return NULL;
}

const char *recipe_name(const struct recipe *recipe)
{
    return recipe->name;
}

// Computes in double and rounds each scalar to fp32 once, where it enters the element's arithmetic.
static int begin_torch(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                       struct adam_scalars *out)
{
    if (!hyper->bias_correction)
        return err_set(ERR_USAGE,
                       "recipe %s always corrects the bias, as PyTorch does; for bias_correction false choose a "
                       "deepspeed-cpu or an apex recipe",
                       recipe->name);
    double step = recipe_torch_step(t);
    double bias1 = 1 - pow(hyper->beta1, step);
    double bias2 = 1 - pow(hyper->beta2, step);
    float take = (float)(1 - hyper->beta1);
    *out = (struct adam_scalars){
        .decay = recipe_decay_of(hyper, hyper->weight_decay != 0),
        .from_gradient = !(fabsf(take) < 0.5f),
        .m_take = fabsf(take) < 0.5f ? take : take - 1.0f,
        .v_keep = (float)hyper->beta2,
        .v_take = (float)(1 - hyper->beta2),
        .bias2 = (float)sqrt(bias2),
        .eps = (float)hyper->eps,
        .step_size = (float)-(hyper->lr / bias1),
        .decay_l2 = (float)hyper->weight_decay,
        .decay_decoupled = (float)(1 - hyper->lr * hyper->weight_decay),
    };
    return ERR_NONE;
}

int recipe_begin_step(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                      struct recipe_state *state, struct adam_scalars *out)
{
    assert(recipe && hyper && state && out && recipe->family < RECIPE_FAMILY_COUNT);
    if (t == 0)
        return err_set(ERR_USAGE, "recipe %s: steps count from 1", recipe->name);
    if (recipe->family == RECIPE_DEEPSPEED) {
        recipe_begin_deepspeed(hyper, t, state, out);
    } else if (recipe->family == RECIPE_APEX) {
        recipe_begin_apex(hyper, t, out);
    } else {
        TRY(begin_torch(recipe, hyper, t, out));
        recipe_begin_torch_cuda(recipe->family, hyper, t, out);
    }
    return ERR_NONE;
}
