// SPDX-License-Identifier: Apache-2.0
// The kernels of llama_kernel.h over rows that threads share.
#include "ref/arithmetic/llama_math.h"

#include "ref/arithmetic/dtype.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/share_rows.h"

#include <math.h>

// Elements of a long array that make a row for threads to share.
enum { SHARED_ROW_ELEMENTS = 4096 };
// The columns of a weight's gradient that one thread works on at a time: at most COLUMN_TILE (gpt_kernel.h).
enum { SHARED_COLUMNS = 64 };

void rmsnorm_stats(size_t row_count, size_t width, const float *in, float *stats)
{
    const struct isa_kernels *kernels = isa_kernels();
    SHARE_ROWS(stats, row_count, width, kernels->rmsnorm_stats(count, width, in + row * width, stats + row));
}

void rmsnorm_apply(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                   const void *weight, void *out)
{
    const struct isa_kernels *kernels = isa_kernels();
    SHARE_ROWS(
        out, row_count, width,
        kernels->rmsnorm_apply(count, width, in + row * width, stats + row, dtype, weight, (float *)out + row * width));
}

void rmsnorm_backward(size_t row_count, size_t width, const float *in, const float *stats, const void *weight,
                      const float *out_gradient, float *in_gradient, float *weight_gradient)
{
    const struct isa_kernels *kernels = isa_kernels();
    SHARE_ROWS(in_gradient, row_count, width,
               kernels->rmsnorm_backward(count, width, in + row * width, stats + row, weight,
                                         out_gradient + row * width, in_gradient + row * width));
    if (!weight_gradient)
        return;
#pragma omp parallel for schedule(static) if (row_count * width >= SHARED_ELEMENTS)
    for (size_t first = 0; first < width; first += SHARED_COLUMNS)
        kernels->rmsnorm_columns(row_count, width, first,
                                 width - first < SHARED_COLUMNS ? width - first : SHARED_COLUMNS, in, stats,
                                 out_gradient, weight_gradient);
}

// The rows of an array, and how many of its elements `rows` rows from `first` on have.
static size_t rows_of(size_t element_count)
{
    return (element_count + SHARED_ROW_ELEMENTS - 1) / SHARED_ROW_ELEMENTS;
}

static size_t elements_of(size_t element_count, size_t first, size_t rows)
{
    size_t left = element_count - first * SHARED_ROW_ELEMENTS;
    return left < rows * SHARED_ROW_ELEMENTS ? left : rows * SHARED_ROW_ELEMENTS;
}

void shared_widen(enum dtype dtype, const void *in, float *out, size_t element_count)
{
    const struct isa_kernels *kernels = isa_kernels();
    const size_t row_count = rows_of(element_count), width = SHARED_ROW_ELEMENTS;
    SHARE_ROWS(out, row_count, width,
               kernels->widen(dtype, (const char *)in + row * width * dtype_bytes(dtype), out + row * width,
                              elements_of(element_count, row, count)));
}

void shared_narrow(enum dtype dtype, const float *in, void *out, size_t element_count)
{
    const struct isa_kernels *kernels = isa_kernels();
    const size_t row_count = rows_of(element_count), width = SHARED_ROW_ELEMENTS;
    SHARE_ROWS(out, row_count, width,
               kernels->narrow(dtype, in + row * width, (char *)out + row * width * dtype_bytes(dtype),
                               elements_of(element_count, row, count)));
}

// e^x for |x| below 1, by its series.
static double exp_near_zero(double x)
{
    double sum = 1, term = 1;
    for (int n = 1; n < 20; n++)
        sum += term *= x / n;
    return sum;
}

// The cosine and the sine of an angle by their series, after whole turns are taken off with 2 pi in two parts.
static void turn_of(double angle, float *cosine, float *sine)
{
    double turns = floor(angle * 0x1.45f306dc9c883p-3 + 0.5);
    double x = (angle - turns * 0x1.921fb54000000p+2) - turns * 0x1.10b4611a62633p-28;
    double sums[2] = {1, 0}, term = 1;
    for (int n = 1; n < 30; n++) {
        term *= x / n;
        sums[n % 2] += n % 4 < 2 ? term : -term;
    }
    *cosine = (float)sums[0];
    *sine = (float)sums[1];
}

void rotary_fill(size_t length, size_t width, float *cosines, float *sines)
{
    // theta^(-2/width), with ln 10000 / 16 as an exponent whose power of 16 is taken by squaring.
    double ratio = exp_near_zero(-2.0 / (double)width * (0x1.26bb1bbb55516p+3 / 16)), frequency = 1;
    for (int i = 0; i < 4; i++)
        ratio *= ratio;
    for (size_t j = 0; j < width / 2; j++, frequency *= ratio)
        for (size_t position = 0; position < length; position++)
            turn_of((double)position * frequency, &cosines[position * (width / 2) + j],
                    &sines[position * (width / 2) + j]);
}

void rotary_turn(const struct rotary *rotary, bool back, size_t row_count, float *rows)
{
    const struct isa_kernels *kernels = isa_kernels();
    const size_t width = rotary->heads * rotary->width;
    SHARE_ROWS(rows, row_count, width,
               kernels->rotary_turn(rotary, back ? -1.0f : 1.0f, row, count, rows + row * rotary->stride));
}

void swiglu_forward(size_t row_count, size_t width, const float *gate, const float *up, enum dtype dtype, void *out)
{
    const struct isa_kernels *kernels = isa_kernels();
    SHARE_ROWS(out, row_count, width,
               kernels->swiglu_forward(count * width, gate + row * width, up + row * width, dtype,
                                       (float *)out + row * width));
}

void swiglu_backward(size_t row_count, size_t width, enum dtype dtype, float *gate, float *up, float *out_gradient)
{
    const struct isa_kernels *kernels = isa_kernels();
    SHARE_ROWS(out_gradient, row_count, width,
               kernels->swiglu_backward(count * width, dtype, gate + row * width, up + row * width,
                                        out_gradient + row * width));
}
