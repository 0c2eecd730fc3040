// SPDX-License-Identifier: Apache-2.0
// The forms of Adam that round every hyper-parameter to fp32 first: DeepSpeed on a CPU; DeepSpeed, Apex and
// Transformer Engine on CUDA; llm.c; PaddlePaddle; and optax.
#include "conformance/unsharded/recipe_row.h"

static void round_hyper(const struct recipe_step *step, struct recipe_scalars *out)
{
    *out = (struct recipe_scalars){
        .l2 = !step->decoupled && step->weight_decay > 0,
        .decoupled = step->decoupled && step->weight_decay > 0,
        .beta1 = (float)step->beta1,
        .beta2 = (float)step->beta2,
        .lr = (float)step->lr,
        .eps = (float)step->eps,
        .weight_decay = (float)step->weight_decay,
        .bias1 = 1,
        .bias2 = 1,
    };
    out->take1 = 1.0f - out->beta1;
    out->take2 = 1.0f - out->beta2;
}

// DeepSpeed's power of beta: pow on the first step after a resume, and from there on a running product in fp32.
static float running_power(float beta, uint64_t t, uint64_t resumed_t)
{
    float power = 1;
    uint64_t k = 0;
    if (resumed_t > 0 && t > resumed_t) {
        k = resumed_t + 1;
        power = (float)pow((double)beta, (double)k);
    }
    for (; k < t; k++)
        power *= beta;
    return power;
}

void deepspeed_cpu_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    round_hyper(step, out);
    if (step->bias_correction) {
        out->bias1 = 1.0f - running_power(out->beta1, step->t, step->resumed_t);
        out->bias2 = 1.0f / sqrtf(1.0f - running_power(out->beta2, step->t, step->resumed_t));
    }
    out->step_size = -out->lr / out->bias1;
    out->shrink = -out->lr * out->weight_decay;
}

void deepspeed_cpu_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    if (s->l2)
        g = recipe_fma(fuse, *p, s->weight_decay, g);
    *m = recipe_blend(fuse, *m, s->beta1, g, s->take1);
    *v = recipe_blend(fuse, *v, s->beta2, g * g, s->take2);
    float denominator = recipe_fma(fuse, sqrtf(*v), s->bias2, s->eps);
    float quotient = *m / denominator;
    if (s->decoupled)
        *p = recipe_fma(fuse, *p, s->shrink, *p);
    *p = recipe_fma(fuse, quotient, s->step_size, *p);
}

// bias1, bias2: divisors of m and v themselves.
void apex_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    round_hyper(step, out);
    if (step->bias_correction) {
        out->bias1 = (float)(1 - pow((double)out->beta1, (double)step->t));
        out->bias2 = (float)(1 - pow((double)out->beta2, (double)step->t));
    }
}

void apex_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    if (s->l2)
        g = recipe_fma(fuse, s->weight_decay, *p, g);
    *m = recipe_blend(fuse, *m, s->beta1, s->take1, g);
    *v = recipe_blend(fuse, *v, s->beta2, s->take2 * g, g);
    float update = *m / s->bias1 / (sqrtf(*v / s->bias2) + s->eps);
    if (s->decoupled)
        update = recipe_fma(fuse, s->weight_decay, *p, update);
    *p = recipe_fma(fuse, -s->lr, update, *p);
}

void llmc_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    round_hyper(step, out);
    if (step->bias_correction) {
        out->bias1 = 1.0f - powf(out->beta1, (float)step->t);
        out->bias2 = 1.0f - powf(out->beta2, (float)step->t);
    }
}

static float llmc_lerp(float start, float end, float weight)
{
    return fmaf(weight, end, fmaf(-weight, start, start));
}

void llmc_cuda_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    (void)fuse;
    *m = llmc_lerp(g, *m, s->beta1);
    *v = llmc_lerp(g * g, *v, s->beta2);
    float quotient = *m / s->bias1 / (sqrtf(*v / s->bias2) + s->eps);
    *p = fmaf(-s->lr, fmaf(s->weight_decay, *p, quotient), *p);
}

void llmc_cpu_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    (void)fuse;
    *m = s->beta1 * *m + s->take1 * g;
    *v = s->beta2 * *v + s->take2 * g * g;
    float quotient = *m / s->bias1 / (sqrtf(*v / s->bias2) + s->eps);
    *p -= s->lr * (quotient + s->weight_decay * *p);
}

// The powers of beta are running products, which checkpoints contain. `eps_by_step`: times the root of v's bias
// correction, which is in the step size, too.
void paddle_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    round_hyper(step, out);
    if (step->bias_correction) {
        out->bias1 = 1.0f - running_power(out->beta1, step->t, 0);
        out->bias2 = sqrtf(1.0f - running_power(out->beta2, step->t, 0));
    }
    out->step_size = -(out->lr * (out->bias2 / out->bias1));
    out->eps_by_step = out->eps * out->bias2;
    out->shrink = -(out->lr * out->weight_decay);
}

void paddle_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    if (s->l2)
        g += s->weight_decay * *p;
    if (s->decoupled)
        *p = fmaf(s->shrink, *p, *p);
    *m = recipe_blend(fuse, *m, s->beta1, g, s->take1);
    *v = recipe_blend(fuse, *v, s->beta2, g * g, s->take2);
    *p = fmaf(*m / (sqrtf(*v) + s->eps_by_step), s->step_size, *p);
}

// bias1, bias2: the reciprocals of the bias corrections. With L2 the compiler fuses the other product of v.
void optax_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    round_hyper(step, out);
    out->take1 = (float)(1 - step->beta1);
    out->take2 = (float)(1 - step->beta2);
    if (step->bias_correction) {
        out->bias1 = 1.0f / (1.0f - (float)pow((double)out->beta1, (double)step->t));
        out->bias2 = 1.0f / (1.0f - (float)pow((double)out->beta2, (double)step->t));
    }
}

void optax_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    if (s->l2)
        g = recipe_fma(fuse, s->weight_decay, *p, g);
    *m = recipe_blend(fuse, *m, s->beta1, g, s->take1);
    *v = recipe_blend(s->l2 ? RECIPE_FUSE_OLD : fuse, *v, s->beta2, g * g, s->take2);
    float update = *m * s->bias1 / (sqrtf(*v * s->bias2) + s->eps);
    if (s->decoupled)
        update = recipe_fma(fuse, s->weight_decay, *p, update);
    *p = recipe_fma(fuse, -s->lr, update, *p);
}
