// SPDX-License-Identifier: Apache-2.0
// PyTorch's forms of Adam. All divide by the bias corrections, and add epsilon after that of v; since 2.1 they
// interpolate m. Their scalars are doubles on the host, each rounded to fp32 once, where it enters the tensors'
// arithmetic.
#include "conformance/unsharded/recipe_row.h"

#include "conformance/unsharded/unsharded.h"

// 1 - beta^t in double. The step is a number in fp32, which stays at 2^24 once it is there.
static double correction(const struct recipe_step *step, double beta)
{
    double t = step->t > 1 << 24 ? 0x1p24 : (double)step->t;
    return step->bias_correction ? 1 - pow(beta, t) : 1;
}

void torch_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    *out = (struct recipe_scalars){
        .l2 = !step->decoupled && step->weight_decay != 0,
        .decoupled = step->decoupled && step->weight_decay != 0,
        .beta1 = (float)step->beta1,
        .beta2 = (float)step->beta2,
        .eps = (float)step->eps,
        .weight_decay = (float)step->weight_decay,
        .take1 = (float)(1 - step->beta1),
        .take2 = (float)(1 - step->beta2),
        .bias2 = (float)sqrt(correction(step, step->beta2)),
        .step_size = (float)-(step->lr / correction(step, step->beta1)),
        .shrink = (float)(1 - step->lr * step->weight_decay),
        .wide = *step,
    };
}

// Before PyTorch 2.1, and in what is copied from it: exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1).
void torch_scaled_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    torch_begin(step, out);
    out->scales_m = true;
}

// lerp: from the nearer end.
static float interpolate(enum recipe_fuse fuse, const struct recipe_scalars *s, float m, float g)
{
    if (fabsf(s->take1) < 0.5f)
        return recipe_fma(fuse, s->take1, g - m, m);
    return recipe_fma(fuse, s->take1 - 1.0f, g - m, g);
}

// m and v, and the gradient and the parameter after decay: what CPU and CUDA have in common but for v's association.
static float cpu_moments(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    if (s->l2)
        g = recipe_fma(fuse, *p, s->weight_decay, g);
    if (s->decoupled)
        *p *= s->shrink;
    *m = s->scales_m ? recipe_blend(fuse, *m, s->beta1, g, s->take1) : interpolate(fuse, s, *m, g);
    *v = recipe_blend(fuse, *v, s->beta2, s->take2 * g, g);
    return *v;
}

void torch_cpu_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    float root = sqrtf(cpu_moments(s, fuse, g, p, m, v));
    *p += s->step_size * *m / (root / s->bias2 + s->eps);
}

// Tensors of 16 bits: every operation computes in fp32 and rounds its result, and a number that is added or that
// multiplies what is added is of the tensors' dtype. Of the vectors' tail only L2's decay is in two operations.
void torch_16bit_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    enum dtype dtype = s->storage;
    float decay = unsharded_round(dtype, s->weight_decay);
    if (s->l2 && fuse == RECIPE_FUSE_NEW)
        g = unsharded_round(dtype, fmaf(*p, decay, g));
    else if (s->l2)
        g = unsharded_round(dtype, unsharded_round(dtype, *p * decay) + g);
    if (s->decoupled)
        *p = unsharded_round(dtype, *p * s->shrink);
    *m = unsharded_round(dtype, interpolate(RECIPE_FUSE_NEW, s, *m, g));
    *v = unsharded_round(dtype, *v * s->beta2);
    *v = unsharded_round(dtype, fmaf(s->take2 * g, g, *v));
    float root = unsharded_round(dtype, unsharded_round(dtype, sqrtf(*v)) / s->bias2);
    float denominator = unsharded_round(dtype, root + unsharded_round(dtype, s->eps));
    *p = unsharded_round(dtype, *p + s->step_size * *m / denominator);
}

void torch_mkl_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    float root = mkl_sqrt(cpu_moments(s, fuse, g, p, m, v));
    *p += s->step_size * *m / (root / s->bias2 + s->eps);
}

void torch_mkl_sse_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    float root = mkl_sse_sqrt(cpu_moments(s, fuse, g, p, m, v));
    *p += s->step_size * *m / (root / s->bias2 + s->eps);
}

// bitsandbytes on a CPU, in PyTorch's operations: epsilon is added before the correction of v, which is in the step.
void bitsandbytes_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    torch_scaled_begin(step, out);
    double root = sqrt(correction(step, step->beta2));
    out->eps_by_step = (float)(step->eps * root);
    out->step_size = (float)(-step->lr * root / correction(step, step->beta1));
}

static void bitsandbytes_move(const struct recipe_scalars *s, enum recipe_fuse fuse, float root, float *p, float m)
{
    *p = recipe_fma(fuse, s->step_size, m / (root + s->eps_by_step), *p);
}

void bitsandbytes_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    float root = sqrtf(cpu_moments(s, fuse, g, p, m, v));
    bitsandbytes_move(s, fuse, root, p, *m);
}

void bitsandbytes_mkl_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m,
                              float *v)
{
    float root = mkl_sqrt(cpu_moments(s, fuse, g, p, m, v));
    bitsandbytes_move(s, fuse, root, p, *m);
}

void bitsandbytes_mkl_sse_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m,
                                  float *v)
{
    float root = mkl_sse_sqrt(cpu_moments(s, fuse, g, p, m, v));
    bitsandbytes_move(s, fuse, root, p, *m);
}

static void cuda_moments(const struct recipe_scalars *s, float g, float *p, float *m, float *v)
{
    if (s->l2)
        g = fmaf(s->weight_decay, *p, g);
    if (s->decoupled)
        *p *= s->shrink;
    *m = interpolate(RECIPE_FUSE_NEW, s, *m, g);
    float kept = *v * s->beta2, square = g * g;
    *v = fmaf(s->take2, square, kept);
}

// A CUDA tensor divided by a number of the host is multiplied by the number's reciprocal.
void torch_cuda_single_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m,
                               float *v)
{
    (void)fuse;
    cuda_moments(s, g, p, m, v);
    float root = sqrtf(*v) * (1.0f / s->bias2);
    *p = fmaf(s->step_size, *m / (root + s->eps), *p);
}

void torch_cuda_foreach_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m,
                                float *v)
{
    (void)fuse;
    cuda_moments(s, g, p, m, v);
    float root = sqrtf(*v) / s->bias2;
    *p = fmaf(s->step_size, *m / (root + s->eps), *p);
}

// The capturable forms keep the powers of beta in fp32 tensors, and have the learning rate in the denominator.
static float tensor_correction(const struct recipe_step *step, double beta)
{
    return step->bias_correction ? 1.0f - (float)pow((double)(float)beta, (double)step->t) : 1.0f;
}

// A number divided by a tensor is the tensor's reciprocal times the number.
void torch_capturable_single_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    torch_begin(step, out);
    float minus_step = -(1.0f / tensor_correction(step, step->beta1) * (float)step->lr);
    out->bias2 = sqrtf(tensor_correction(step, step->beta2)) * minus_step;
    out->eps_by_step = 1.0f / minus_step * (float)step->eps;
}

void torch_capturable_single_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m,
                                     float *v)
{
    (void)fuse;
    cuda_moments(s, g, p, m, v);
    *p += *m / (sqrtf(*v) / s->bias2 + s->eps_by_step);
}

// A list of tensors divided by one number is multiplied by the number's reciprocal, rounded from double.
void torch_capturable_foreach_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    torch_begin(step, out);
    out->bias2 = sqrtf(tensor_correction(step, step->beta2));
    out->step_size = 1.0f / (-tensor_correction(step, step->beta1) * (float)(1 / step->lr));
}

void torch_capturable_foreach_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p,
                                      float *m, float *v)
{
    (void)fuse;
    cuda_moments(s, g, p, m, v);
    *p += *m / ((sqrtf(*v) / s->bias2 + s->eps) / s->step_size);
}

void torch_fused_cuda_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    torch_begin(step, out);
    out->bias1 = (float)correction(step, step->beta1);
    out->step_size = (float)(step->lr / (double)out->bias1);
}

// Hyper-parameters are doubles here, so that products with them are, too; every assignment rounds to fp32.
void torch_fused_cuda_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m,
                              float *v)
{
    (void)fuse;
    const struct recipe_step *wide = &s->wide;
    if (s->l2)
        g = (float)fma((double)*p, wide->weight_decay, (double)g);
    if (s->decoupled)
        *p = (float)fma(-(wide->lr * wide->weight_decay), (double)*p, (double)*p);
    *m = (float)fma((double)*m, wide->beta1, (1 - wide->beta1) * (double)g);
    *v = (float)fma((double)*v, wide->beta2, (1 - wide->beta2) * (double)g * (double)g);
    float root = sqrtf(*v) / s->bias2;
    float denominator = (float)((double)root + wide->eps);
    *p -= s->step_size * *m / denominator;
}

void torch_fused_cuda_fp32_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    torch_begin(step, out);
    out->beta1 = (float)step->beta1;
    out->lr = (float)step->lr;
    out->step_size = out->lr / tensor_correction(step, step->beta1);
    out->bias2 = sqrtf(tensor_correction(step, step->beta2));
    out->shrink = out->lr * out->weight_decay;
}

// a x (1 - weight) + b x weight.
static float blend_down(float a, float b, float weight)
{
    float rest = fmaf(-weight, a, a);
    return fmaf(weight, b, rest);
}

void torch_fused_cuda_fp32_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m,
                                   float *v)
{
    (void)fuse;
    if (s->l2)
        g = fmaf(s->weight_decay, *p, g);
    if (s->decoupled)
        *p = fmaf(-s->shrink, *p, *p);
    *m = blend_down(g, *m, s->beta1);
    *v = blend_down(g * g, *v, s->beta2);
    float quotient = s->step_size * *m / (sqrtf(*v) / s->bias2 + s->eps);
    *p -= quotient;
}

// torchao's update, compiled by Inductor, which fuses no multiply-add: the learning rate is a tensor in fp32.
void torchao_begin(const struct recipe_step *step, struct recipe_scalars *out)
{
    torch_begin(step, out);
    out->lr = (float)step->lr;
    out->shrink = out->lr * out->weight_decay;
    out->bias1 = tensor_correction(step, step->beta1);
    out->bias2 = sqrtf(tensor_correction(step, step->beta2));
}

// lerp with a weight that the compiler knows: from the nearer end.
static float interpolate_known(float beta, float take, float old, float new)
{
    return take < 0.5f ? take * (new - old) + old : new - beta *(new - old);
}

void torchao_element(const struct recipe_scalars *s, enum recipe_fuse fuse, float g, float *p, float *m, float *v)
{
    (void)fuse;
    if (s->l2)
        g += s->weight_decay * *p;
    if (s->decoupled)
        *p -= s->shrink * *p;
    *m = interpolate_known(s->beta1, s->take1, *m, g);
    *v = interpolate_known(s->beta2, s->take2, *v, g * g);
    *p -= s->lr * (*m / s->bias1) / (sqrtf(*v) / s->bias2 + s->eps);
}
