// SPDX-License-Identifier: Apache-2.0
// Moments that are kept in 8 bits (Dettmers et al., "8-bit Optimizers via Block-wise Quantization", sections 1.2 and
// 2): a tensor's elements in a row, 256 to a block from the first on, each block its largest magnitude and for each
// element a code: the number of one of 256 fractions of that magnitude. The grid is the tensor's, so that where an
// optimizer is given a shard as a tensor, bits depend on the cut.
#include "conformance/unsharded/recipe_row.h"

#include <stddef.h>

enum { BLOCK = 256, CODES = 256, DECADES = 7 };

// count + 1 numbers from 0.1 to 1, from the nearer end, as PyTorch's linspace on a CPU with FMA.
static float boundary(int count, int i)
{
    float step = (1.0f - 0.1f) / (float)count;
    return i < (count + 1) / 2 ? fmaf(step, (float)i, 0.1f) : fmaf(-step, (float)(count - i), 1.0f);
}

// The fractions that codes stand for, ascending: 0, 1, and in each decade from 1e-6 on twice as many as in the one
// below, the middles of equal parts. Those of both signs are half as many, and have no -1.
static void make_fractions(bool is_signed, float out[CODES])
{
    static const float decades[DECADES] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
    int zero = is_signed ? CODES / 2 - 1 : 0, at = zero;
    out[at++] = 0;
    for (int decade = 0; decade < DECADES; decade++)
        for (int i = 0, count = is_signed ? 1 << decade : 2 << decade; i < count; i++)
            out[at++] = decades[decade] * ((boundary(count, i) + boundary(count, i + 1)) / 2);
    out[at] = 1;
    for (int i = 0; i < zero; i++)
        out[i] = -out[2 * zero - i];
}

// The largest magnitude of a block; numbers that are none are passed over.
static float largest_of(const float *block, size_t count)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(block[i]));
    return largest;
}

// The code of the fraction nearest to a point, which is the nearest of 65536 from -1 to 1. So zero has the code of
// 1/65535, and what is no number has the code of -1.
static int code_by_points(const float fractions[CODES], float x)
{
    float within = x >= -1 ? fminf(x, 1) : -1;
    int point = (int)fmaf((within + 1) * 0.5f, 65535, 0.5f);
    float value = -1.0f + 2.0f * (float)point / 65535;
    int low = 0, high = CODES - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (0.5f * (fractions[middle] + fractions[middle + 1]) < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void bitsandbytes_keep(float *moment, size_t count, bool is_signed)
{
    float fractions[CODES];
    make_fractions(is_signed, fractions);
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = count - begin < BLOCK ? count : begin + BLOCK;
        float largest = largest_of(moment + begin, end - begin), inverse = 1 / largest;
        for (size_t i = begin; i < end; i++)
            moment[i] = fractions[largest == 0 ? 0 : code_by_points(fractions, moment[i] * inverse)] * largest;
    }
}

// The code of the nearest fraction; of two that are as near, the larger.
static int code_by_halving(const float fractions[CODES], float x)
{
    int code = 0;
    for (int half = CODES / 2; half > 0; half /= 2)
        code += x >= fractions[code + half] ? half : 0;
    if (code == CODES - 1)
        return code;
    return x - fractions[code] >= (fractions[code + 1] - fractions[code]) * 0.5f ? code + 1 : code;
}

void torchao_keep(float *moment, size_t count, bool is_signed)
{
    float fractions[CODES];
    make_fractions(is_signed, fractions);
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = count - begin < BLOCK ? count : begin + BLOCK;
        float largest = fmaxf(largest_of(moment + begin, end - begin), 1e-12f);
        for (size_t i = begin; i < end; i++)
            moment[i] = fractions[code_by_halving(fractions, moment[i] / largest)] * largest;
    }
}
