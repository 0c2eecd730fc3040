// SPDX-License-Identifier: Apache-2.0
#include "bench/step/lane_work.h"

#include "ref/arithmetic/accelerator.h"
#include "bench/harness/bench.h"
#include "base/err.h"
#include "ref/arithmetic/matmul.h"

#include <assert.h>
#include <string.h>

enum { COPY_BYTES = 64 << 20, PIECE_BYTES = 8 << 20 };

static int renew_source(struct lane_copy *copy)
{
    bool apart = copy->twin && !copy->to_device;
    copy->value++;
    copy->copied_bytes = 0;
    memset(apart ? copy->twin : copy->from, copy->value, copy->buffer_bytes);
    return apart ? bytes_copy(copy->from, copy->twin, copy->buffer_bytes) : ERR_NONE;
}

// Rounds the buffer down to full pieces.
static void choose_pieces(size_t bytes, struct lane_copy *copy)
{
    bytes = bytes > 0 ? bytes : COPY_BYTES;
    copy->piece_bytes = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    copy->buffer_bytes = bytes / copy->piece_bytes * copy->piece_bytes;
}

int lane_copy_open(size_t bytes, struct lane_copy *copy)
{
    void *there = NULL, *here = NULL;
    choose_pieces(bytes, copy);
    TRY(bench_device_enter(&copy->device, copy->rank));
    int code = bench_device_alloc(&copy->device, copy->buffer_bytes, &there);
    if (code == ERR_NONE)
        code = bench_device_alloc_host(&copy->device, copy->buffer_bytes, &here);
    copy->from = copy->to_device ? here : there;
    copy->to = copy->to_device ? there : here;
    TRY(code);
    if (copy->device.accelerator) {
        copy->twin = bench_alloc(copy->buffer_bytes, 1);
        if (!copy->twin)
            return err_set(ERR_MEMORY, "no memory for copies");
    }
    return renew_source(copy);
}

void lane_copy_close(struct lane_copy *copy)
{
    bench_device_free(&copy->device, copy->to_device ? copy->to : copy->from, copy->buffer_bytes);
    bench_device_free_host(&copy->device, copy->to_device ? copy->from : copy->to, copy->buffer_bytes);
    bench_free(copy->twin, copy->buffer_bytes);
    *copy = (struct lane_copy){0};
}

// Copies a byte, because a thread's first copy to or from an accelerator takes longer than later ones.
int lane_copy_enter(const struct lane_copy *copy)
{
    TRY(bench_device_enter(&copy->device, copy->rank));
    return copy->twin ? bytes_copy(copy->to, copy->from, 1) : ERR_NONE;
}

int lane_copy_run(struct lane_copy *copy)
{
    size_t at = copy->copied_bytes % copy->buffer_bytes;
    TRY(bytes_copy(copy->to + at, copy->from + at, copy->piece_bytes));
    copy->copied_bytes += copy->piece_bytes;
    return ERR_NONE;
}

int lane_copy_check(struct lane_copy *copy)
{
    size_t bytes = copy->copied_bytes < copy->buffer_bytes ? copy->copied_bytes : copy->buffer_bytes;
    const unsigned char *to = copy->to;
    assert(bytes > 0);
    TRY(bench_device_enter(&copy->device, copy->rank));
    if (copy->twin && copy->to_device) {
        TRY(bytes_copy(copy->twin, to, bytes));
        to = copy->twin;
    }
    // The first byte has the value, and each other byte equals the one before.
    bool right = to[0] == copy->value && memcmp(to, to + 1, bytes - 1) == 0;
    TRY(renew_source(copy));
    return right ? ERR_NONE : err_set(ERR_CHECK, "copied data is wrong");
}

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
    return ERR_NONE;
}

void lane_compute_run(const struct lane_compute *compute)
{
    const struct matmul_operand a = {compute->a, SIDE, false}, b = {compute->b, SIDE, false};
    matmul_floats(SIDE, SIDE, SIDE, a, b, compute->product, SIDE);
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
