// SPDX-License-Identifier: Apache-2.0
// The table of recipes, and the host-side scalars of a step: they are part of a recipe, because implementations round
// them at different places.
#include "ref/arithmetic/recipe.h"

#include "base/err.h"

#include <string.h>

// "Checked" means: these operations, written out, gave no differing bit in p, m and v against the named code over
// several steps and at least 100,000 elements. "Read": they follow the source's text or the machine code that its
// compiler makes, and were not compared with a run of it.
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

const char *recipe_source(const struct recipe *recipe)
{
    return recipe->source;
}

static enum recipe_decay decay_of(const struct adam_hyper *hyper, bool active)
{
    return !active ? DECAY_NONE : hyper->decoupled ? DECAY_DECOUPLED : DECAY_L2;
}

// PyTorch counts steps by adding 1 to an fp32 number, which stays at 2^24 when it gets there.
static double torch_step(uint64_t t)
{
    return t < 1u << 24 ? (double)t : 0x1p24;
}

// Doubles throughout; each scalar is rounded to fp32 once, where it enters the element's arithmetic.
static int begin_torch(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                       struct adam_scalars *out)
{
    if (!hyper->bias_correction)
        return err_set(ERR_USAGE,
                       "recipe %s always corrects the bias, as PyTorch does; for bias_correction false choose a "
                       "deepspeed-cpu or an apex recipe",
                       recipe->name);
    double step = torch_step(t);
    double bias1 = 1 - pow(hyper->beta1, step);
    double bias2 = 1 - pow(hyper->beta2, step);
    float take = (float)(1 - hyper->beta1);
    *out = (struct adam_scalars){
        .decay = decay_of(hyper, hyper->weight_decay != 0),
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

// Capturable steps keep the corrections in fp32 tensors, and the fused form in fp32 numbers.
static float tensor_correction(double beta, uint64_t t)
{
    return 1.0f - (float)pow((double)(float)beta, torch_step(t));
}

// What a form of PyTorch's on a GPU has in other places than the one on a CPU.
static void begin_torch_cuda(enum recipe_family family, const struct adam_hyper *hyper, uint64_t t,
                             struct adam_scalars *out)
{
    float bias1 = tensor_correction(hyper->beta1, t), root2 = sqrtf(tensor_correction(hyper->beta2, t));
    if (family == RECIPE_TORCH_CUDA_SINGLE) {
        out->bias2 = 1.0f / out->bias2;
    } else if (family == RECIPE_TORCH_CUDA_FUSED) {
        out->step_size = (float)(hyper->lr / (double)(float)(1 - pow(hyper->beta1, torch_step(t))));
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
        // A list of tensors divided by a number is multiplied by the number's reciprocal, rounded from double.
        out->bias2 = root2;
        out->step_size = 1.0f / (-bias1 * (float)(1 / hyper->lr));
    } else if (family == RECIPE_TORCH_CAPTURABLE_SINGLE) {
        // A number divided by a tensor is the tensor's reciprocal times the number.
        float minus_step = -(1.0f / bias1 * (float)hyper->lr);
        out->bias2 = root2 * minus_step;
        out->eps = 1.0f / minus_step * (float)hyper->eps;
        out->step_size = 1;
    }
}

// The powers are running products in fp32; only after a jump (a resumed run, changed betas) are they computed by pow.
static void advance_powers(struct recipe_state *state, float beta1, float beta2, uint64_t t)
{
    if (state->step == 0)
        *state = (struct recipe_state){.beta1_power = 1, .beta2_power = 1, .beta1 = beta1, .beta2 = beta2};
    bool changed = state->beta1 != beta1 || state->beta2 != beta2;
    if (!changed && t == state->step + 1) {
        state->beta1_power *= beta1;
        state->beta2_power *= beta2;
    } else if (changed || t != state->step) {
        state->beta1_power = (float)pow((double)beta1, (double)t);
        state->beta2_power = (float)pow((double)beta2, (double)t);
    }
    state->beta1 = beta1;
    state->beta2 = beta2;
    state->step = t;
}

// Floats throughout: every hyper-parameter is rounded to fp32 first.
static void begin_deepspeed(const struct adam_hyper *hyper, uint64_t t, struct recipe_state *state,
                            struct adam_scalars *out)
{
    float beta1 = (float)hyper->beta1, beta2 = (float)hyper->beta2;
    float minus_lr = -1.0f * (float)hyper->lr, weight_decay = (float)hyper->weight_decay;
    advance_powers(state, beta1, beta2, t);
    float bias1 = hyper->bias_correction ? 1.0f - state->beta1_power : 1.0f;
    float bias2 = hyper->bias_correction ? 1.0f / sqrtf(1.0f - state->beta2_power) : 1.0f;
    *out = (struct adam_scalars){
        .decay = decay_of(hyper, weight_decay > 0),
        .m_keep = beta1,
        .m_take = 1.0f - beta1,
        .v_keep = beta2,
        .v_take = 1.0f - beta2,
        .bias2 = bias2,
        .eps = (float)hyper->eps,
        .step_size = minus_lr / bias1,
        .decay_l2 = weight_decay,
        .decay_decoupled = minus_lr * weight_decay,
    };
}

// Every hyper-parameter is a float; the powers are computed in double and rounded once.
static void begin_apex(const struct adam_hyper *hyper, uint64_t t, struct adam_scalars *out)
{
    float beta1 = (float)hyper->beta1, beta2 = (float)hyper->beta2, weight_decay = (float)hyper->weight_decay;
    *out = (struct adam_scalars){
        .decay = decay_of(hyper, weight_decay != 0),
        .m_keep = beta1,
        .m_take = 1.0f - beta1,
        .v_keep = beta2,
        .v_take = 1.0f - beta2,
        .bias1 = hyper->bias_correction ? (float)(1 - pow((double)beta1, (double)t)) : 1.0f,
        .bias2 = hyper->bias_correction ? (float)(1 - pow((double)beta2, (double)t)) : 1.0f,
        .eps = (float)hyper->eps,
        .step_size = -(float)hyper->lr,
        .decay_l2 = weight_decay,
        .decay_decoupled = weight_decay,
    };
}

int recipe_begin_step(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                      struct recipe_state *state, struct adam_scalars *out)
{
    if (t == 0)
        return err_set(ERR_USAGE, "recipe %s: steps count from 1", recipe->name);
    if (recipe->family == RECIPE_DEEPSPEED) {
        begin_deepspeed(hyper, t, state, out);
    } else if (recipe->family == RECIPE_APEX) {
        begin_apex(hyper, t, out);
    } else {
        TRY(begin_torch(recipe, hyper, t, out));
        begin_torch_cuda(recipe->family, hyper, t, out);
    }
    return ERR_NONE;
}
