// SPDX-License-Identifier: Apache-2.0
// Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024), with the momentum, the rates
// and the decay of torch.optim.Muon. One step of a matrix of fp32, from its mean gradient g, element by element unless
// said otherwise:
//
//   m = lerp(m, g, 1 - momentum)
//   d = lerp(g, m, momentum)                  with nesterov; otherwise m
//   x = d / max(norm of all d, 1e-7)          transposed, if there are more rows than columns
//   y = x x^T; z = b y + (c y) y; x = a x + z x        ns_steps times: Newton-Schulz
//   p = p (1 - lr weight_decay); p = fma(-adjusted lr, x, p)        x transposed back
//
// lerp(u, v, w) is fma(w, v - u, u), or fma(w - 1, v - u, v) where w is at least 1/2. The norm is made as in
// ref/arithmetic/norm.h, and rounded to fp32. Products of matrices are the chains of ref/arithmetic/matmul.h: c y is
// rounded before its product, and b y and a x are where the chains begin. PyTorch multiplies in bf16.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

// The factor of the learning rate that a matrix's shape gives (torch.optim.Muon, adjust_lr_fn).
enum muon_adjust {
    MUON_ORIGINAL,         // sqrt(max(1, rows / columns))
    MUON_MATCH_RMS_ADAMW,  // 0.2 sqrt(max(rows, columns)): Moonlight (arXiv:2502.16982), section 2.2
};

struct muon_hyper {
    double lr, momentum, weight_decay;
    bool nesterov;
    int ns_steps;
    enum muon_adjust adjust;
};

static const float MUON_A = 3.4445f, MUON_B = -4.7750f, MUON_C = 2.0315f, MUON_EPS = 1e-7f;

static inline double muon_adjusted_lr(const struct muon_hyper *hyper, size_t rows, size_t columns)
{
    double r = (double)rows, c = (double)columns;
    return hyper->lr * (hyper->adjust == MUON_ORIGINAL ? sqrt(fmax(1, r / c)) : 0.2 * sqrt(fmax(r, c)));
}

static inline float muon_lerp(float from, float to, float weight)
{
    return fabsf(weight) < 0.5f ? fmaf(weight, to - from, from) : fmaf(weight - 1.0f, to - from, to);
}

// Updates the momentum, and returns the direction d.
static inline float muon_direction(const struct muon_hyper *hyper, float g, float *momentum)
{
    *momentum = muon_lerp(*momentum, g, (float)(1 - hyper->momentum));
    return hyper->nesterov ? muon_lerp(g, *momentum, (float)hyper->momentum) : *momentum;
}

static inline float muon_move(const struct muon_hyper *hyper, double adjusted_lr, float parameter, float x)
{
    return fmaf((float)-adjusted_lr, x, parameter * (float)(1 - hyper->lr * hyper->weight_decay));
}
