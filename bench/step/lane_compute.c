// SPDX-License-Identifier: Apache-2.0
#include "bench/step/lane_compute.h"

#include "base/err.h"
#include "bench/harness/bench.h"
#include "ref/arithmetic/gpt_math.h"

#include <string.h>

enum { SIDE = LANE_COMPUTE_SIDE };

static const size_t MATRIX_BYTES = (size_t)SIDE * SIDE * sizeof(float);

// Small integers, so that the product is exact in any order.
int lane_compute_open(struct lane_compute *compute)
{
    compute->a = bench_alloc(MATRIX_BYTES, 1);
    compute->b = bench_alloc(MATRIX_BYTES, 1);
    compute->product = bench_alloc(MATRIX_BYTES, 1);
    compute->expected = bench_alloc(MATRIX_BYTES, 1);
    if (!compute->a || !compute->b || !compute->product || !compute->expected)
        return err_set(ERR_MEMORY, "no memory for matrices");
    for (size_t i = 0; i < MATRIX_BYTES / sizeof(float); i++) {
        compute->a[i] = (float)(i * 7 % 13) - 6;
        compute->b[i] = (float)(i * 5 % 11) - 5;
    }
    for (size_t row = 0; row < SIDE; row++)
        for (size_t k = 0; k < SIDE; k++)
            for (size_t column = 0; column < SIDE; column++)
                compute->expected[row * SIDE + column] += compute->a[row * SIDE + k] * compute->b[k * SIDE + column];
    return matmul_prepare();
}

void lane_compute_run(const struct lane_compute *compute)
{
    const struct matmul_operand a = {compute->a, SIDE, false}, b = {compute->b, SIDE, false};
    matmul(SIDE, SIDE, SIDE, 1, a, b, 0, compute->product, SIDE);
}

int lane_compute_check(struct lane_compute *compute)
{
    bool right = memcmp(compute->product, compute->expected, MATRIX_BYTES) == 0;
    memset(compute->product, 0xff, MATRIX_BYTES);
    return right ? ERR_NONE : err_set(ERR_CHECK, "a matrix product is wrong");
}

void lane_compute_close(struct lane_compute *compute)
{
    float *const matrices[] = {compute->a, compute->b, compute->product, compute->expected};
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++)
        bench_free(matrices[i], MATRIX_BYTES);
    *compute = (struct lane_compute){0};
}
