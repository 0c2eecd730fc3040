// SPDX-License-Identifier: Apache-2.0
#include "ref/recipe/e4m3.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    MANTISSA_BITS = 3,
    BIAS = 7,
    LARGEST_CODE = 0x7e,
    NAN_CODE = 0x7f,
    SIGN_CODE = 0x80,
    DROPPED_BITS = 23 - MANTISSA_BITS,  // of fp32's mantissa
};

static const float LEAST_AMAX = 1e-12f;

float e4m3_larger(float a, float b)
{
    return isnan(a) || a > b ? a : b;
}

float e4m3_amax(const float x[], size_t count)
{
    float largest = 0.0f;
    for (size_t i = 0; i < count; i++)
        largest = e4m3_larger(isfinite(x[i]) ? fabsf(x[i]) : NAN, largest);
    return largest;
}

float e4m3_scale(float amax)
{
    return E4M3_LARGEST / (amax < LEAST_AMAX ? LEAST_AMAX : amax);
}

static unsigned char code_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t sign = bits >> 24 & SIGN_CODE, magnitude = bits & 0x7fffffff;
    if (isnan(x))
        return (unsigned char)(sign | NAN_CODE);
    if (fabsf(x) >= E4M3_LARGEST)
        return (unsigned char)(sign | LARGEST_CODE);
    // Below the least normal value, 2^-6, codes are multiples of 2^-9; in the default rounding mode.
    if (fabsf(x) < 0x1p-6f)
        return (unsigned char)(sign | (uint32_t)rintf(fabsf(x) * 0x1p9f));
    // A carry out of the mantissa goes on to the exponent.
    uint32_t odd = magnitude >> DROPPED_BITS & 1, half = (1u << (DROPPED_BITS - 1)) - 1;
    uint32_t rounded = (magnitude + half + odd) >> DROPPED_BITS;
    return (unsigned char)(sign | (rounded - ((127 - BIAS) << MANTISSA_BITS)));
}

static float value_of(unsigned char code)
{
    int exponent = code >> MANTISSA_BITS & 15, mantissa = code & 7;
    float magnitude = (code & NAN_CODE) == NAN_CODE ? NAN
                      : exponent == 0               ? (float)mantissa * 0x1p-9f
                                                    : ldexpf((float)(8 + mantissa), exponent - BIAS - MANTISSA_BITS);
    return code & SIGN_CODE ? -magnitude : magnitude;
}

void e4m3_pack(const float x[], size_t count, float scale, unsigned char codes[])
{
    for (size_t i = 0; i < count; i++)
        codes[i] = code_of(x[i] * scale);
}

void e4m3_unpack(const unsigned char codes[], size_t count, float scale, float x[])
{
    for (size_t i = 0; i < count; i++)
        x[i] = value_of(codes[i]) / scale;
}
