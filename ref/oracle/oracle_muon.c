// SPDX-License-Identifier: Apache-2.0
#include "ref/oracle/oracle_muon.h"

#include "base/err.h"

#include <stdlib.h>

// Squares are whole multiples of 2^(k-52), with 2^(k-1) <= max^2 < 2^k.
static float norm(const float x[], size_t count)
{
    float max = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return isnan(x[i]) || isnan(max) ? NAN : INFINITY;
        max = fmaxf(max, fabsf(x[i]));
    }
    if (max == 0)
        return 0;
    int k;
    frexp((double)max * (double)max, &k);
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (unsigned __int128)llrint(ldexp((double)x[i] * (double)x[i], 52 - k));
    return (float)sqrt(ldexp((double)sum, k - 52));
}

// A matrix whose element (i, j) is at i * down + j * across.
struct view {
    float *at;
    size_t down, across;
};

static float *element(struct view v, size_t i, size_t j)
{
    return &v.at[i * v.down + j * v.across];
}

// s + the sum over k of (alpha a_ik) b_kj, one chain.
static float chain(float s, float alpha, struct view a, struct view b, size_t i, size_t j, size_t count)
{
    for (size_t k = 0; k < count; k++)
        s = fmaf(alpha * *element(a, i, k), *element(b, k, j), s);
    return s;
}

// One step of Newton-Schulz from x to `out`; x has `rows` of `columns`, and y and z have rows of `rows`.
static void step(struct view x, size_t rows, size_t columns, struct view y, struct view z, struct view out)
{
    struct view transposed = {x.at, x.across, x.down};
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            *element(y, i, j) = chain(0, 1, x, transposed, i, j, columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            *element(z, i, j) = chain(MUON_B * *element(y, i, j), MUON_C, y, y, i, j, rows);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            *element(out, i, j) = chain(MUON_A * *element(x, i, j), 1, z, x, i, j, rows);
}

int oracle_muon(const struct muon_hyper *hyper, size_t rows, size_t columns, const float *gradient, float *parameter,
                float *momentum)
{
    size_t count = rows * columns, side = rows < columns ? rows : columns;
    float *memory = calloc(2 * count + 2 * side * side + 1, sizeof *memory);
    if (!memory)
        return err_set(ERR_MEMORY, "no memory for an update of %zu x %zu", rows, columns);
    // Of a matrix with more rows than columns the views are transposed, and the values stay where they are.
    size_t down = rows > columns ? 1 : columns, across = rows > columns ? columns : 1;
    struct view x = {memory, down, across}, next = {memory + count, down, across};
    struct view y = {memory + 2 * count, side, 1}, z = {y.at + side * side, side, 1};
    for (size_t i = 0; i < count; i++)
        x.at[i] = muon_direction(hyper, gradient[i], &momentum[i]);
    float length = norm(x.at, count);
    for (size_t i = 0; i < count; i++)
        x.at[i] /= length < MUON_EPS ? MUON_EPS : length;
    for (int k = 0; k < hyper->ns_steps; k++) {
        step(x, side, count / (side ? side : 1), y, z, next);
        struct view spare = x;
        x = next;
        next = spare;
    }
    double adjusted_lr = muon_adjusted_lr(hyper, rows, columns);
    for (size_t i = 0; i < count; i++)
        parameter[i] = muon_move(hyper, adjusted_lr, parameter[i], x.at[i]);
    free(memory);
    return ERR_NONE;
}
