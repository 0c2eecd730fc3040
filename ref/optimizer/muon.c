// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/muon.h"

#include "ref/arithmetic/matmul.h"
#include "ref/arithmetic/norm.h"
#include "ref/optimizer/lr.h"

#include <assert.h>
#include <string.h>

// The hyper-parameters of a group in the run's step `step`, which makes update number t.
static struct muon_hyper muon_group(const struct config *config, int group, uint64_t step, uint64_t t)
{
    struct muon_hyper hyper = config->muon;
    if (config->groups) {
        hyper = config->groups[group].muon;
        if (config->groups[group].lr_by_step)
            hyper.lr = config->groups[group].lr_by_step[step - 1];
    } else if (config->scheduler.type != SCHEDULER_NONE) {
        hyper.lr = lr_at(config, t);
    }
    return hyper;
}

// x, next x, and the two square matrices of a step.
static size_t scratch_floats(const struct model_param *param)
{
    size_t rows = param->shape[0], columns = param->shape[1], side = rows < columns ? rows : columns;
    return 2 * param->count + 2 * side * side;
}

static void transpose(const float *from, size_t rows, size_t columns, float *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            to[k * rows + i] = from[i * columns + k];
}

// c = begin c0 + (alpha a) b, of row-major matrices: m x k and, transposed or not, k x n.
static void multiply(const float *a, const float *b, bool b_transposed, size_t m, size_t n, size_t k, float alpha,
                     bool add, float *c)
{
    matmul(&(struct matmul_product){.m = m,
                                    .n = n,
                                    .k = k,
                                    .alpha = alpha,
                                    .add = add,
                                    .dtype = DTYPE_FP32,
                                    .a = {a, k, false},
                                    .b = {b, b_transposed ? k : n, b_transposed},
                                    .c = c,
                                    .c_stride = n});
}

static void scale(const float *from, float factor, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = factor * from[i];
}

// The direction in x becomes orthogonal, nearly: side x length, side being the smaller. Returns x or `next`, where the
// result is; `squares` has room for two square matrices.
static float *orthogonalise(float *x, float *next, float *squares, size_t side, size_t length, int steps)
{
    size_t count = side * length;
    uint32_t max_bits = norm_max(DTYPE_FP32, x, count);
    struct norm_sum sum = {0};
    norm_accumulate(&sum, DTYPE_FP32, x, count, max_bits);
    float norm = (float)norm_finish(sum, max_bits), divisor = norm > MUON_EPS || norm != norm ? norm : MUON_EPS;
    for (size_t i = 0; i < count; i++)
        x[i] = x[i] / divisor;
    float *gram = squares, *polynomial = squares + side * side;
    for (int step = 0; step < steps; step++) {
        multiply(x, x, true, side, side, length, 1, false, gram);
        scale(gram, MUON_B, side * side, polynomial);
        multiply(gram, gram, false, side, side, side, MUON_C, true, polynomial);
        scale(x, MUON_A, count, next);
        multiply(polynomial, x, false, side, length, side, 1, true, next);
        float *spare = x;
        x = next;
        next = spare;
    }
    return x;
}

static void direct(const struct whole_step *s, float *x)
{
    const struct muon_hyper hyper = muon_group(s->config, s->param->group, s->step, s->t);
    dtype_widen(s->grad_dtype, s->grad, x, s->count);
    for (size_t i = 0; i < s->count; i++) {
        float g = x[i] / s->grad_divisor;
        x[i] = muon_direction(&hyper, s->grad_coefficient == 1.0f ? g : g * s->grad_coefficient, &s->momentum[i]);
    }
}

static float *transform(const struct whole_step *s, float *x)
{
    assert(s->param->shape_rank == 2);
    size_t rows = s->param->shape[0], columns = s->param->shape[1], count = s->param->count;
    const struct muon_hyper hyper = muon_group(s->config, s->param->group, s->step, s->t);
    bool tall = rows > columns;
    float *next = x + count, *squares = next + count;
    if (tall) {
        transpose(x, rows, columns, next);
        memcpy(x, next, count * sizeof *x);
    }
    float *result = orthogonalise(x, next, squares, tall ? columns : rows, tall ? rows : columns, hyper.ns_steps);
    if (tall) {
        float *other = result == x ? next : x;
        transpose(result, columns, rows, other);
        result = other;
    }
    return result;
}

static void move(const struct whole_step *s, const float *by)
{
    const struct muon_hyper hyper = muon_group(s->config, s->param->group, s->step, s->t);
    double adjusted_lr = muon_adjusted_lr(&hyper, s->param->shape[0], s->param->shape[1]);
    for (size_t i = 0; i < s->count; i++)
        s->master[i] = muon_move(&hyper, adjusted_lr, s->master[i], by[i]);
    if (s->model_params)
        dtype_narrow(s->model_dtype, s->master, s->model_params, s->count);
}

const struct whole_update muon_update = {scratch_floats, direct, transform, move};
