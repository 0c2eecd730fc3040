// SPDX-License-Identifier: Apache-2.0
// The table of recipes, and the host-side scalars of a step: they are part of a recipe, because implementations round
// them at different places.
#include "recipe.h"

#include "err.h"

#include <string.h>

// "Checked" means: these operations, written out, gave no differing bit in p, m and v against the named code over
// several steps and at least 100,000 elements.
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

// Doubles throughout; each scalar is rounded to fp32 once, where it enters the element's arithmetic.
static int begin_torch(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                       struct adam_scalars *out)
{
    if (!hyper->bias_correction)
        return err_set(ERR_USAGE,
                       "recipe %s always corrects the bias, as PyTorch does; for bias_correction false choose a "
                       "deepspeed-cpu recipe",
                       recipe->name);
    // PyTorch counts steps by adding 1 to an fp32 number, which stays at 2^24 when it gets there.
    double step = t < 1u << 24 ? (double)t : 0x1p24;
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

int recipe_begin_step(const struct recipe *recipe, const struct adam_hyper *hyper, uint64_t t,
                      struct recipe_state *state, struct adam_scalars *out)
{
    if (t == 0)
        return err_set(ERR_USAGE, "recipe %s: steps count from 1", recipe->name);
    if (recipe->family == RECIPE_TORCH)
        return begin_torch(recipe, hyper, t, out);
    begin_deepspeed(hyper, t, state, out);
    return ERR_NONE;
}
