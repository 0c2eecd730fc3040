// SPDX-License-Identifier: Apache-2.0
#include "conformance/unsharded/unsharded.h"

#include <math.h>
#include <string.h>

static float round_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return x;
    uint32_t lost = bits & 0xffff, kept = bits >> 16;
    if (lost > 0x8000 || (lost == 0x8000 && kept % 2 == 1))
        kept++;
    bits = kept << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Rounds to a multiple of a quantum: 2^-24 below 2^-14, otherwise 2^-10 of the number's own power of two. 65520 is half
// a quantum beyond the largest number.
static float round_fp16(float x)
{
    if (!(fabsf(x) < 65520.0f))
        return isnan(x) ? x : copysignf(INFINITY, x);
    int exponent;
    frexpf(x, &exponent);
    float quantum = fabsf(x) < 0x1p-14f ? 0x1p-24f : ldexpf(1, exponent - 11);
    return copysignf(rintf(x / quantum) * quantum, x);
}

float unsharded_round(enum dtype dtype, float x)
{
    return dtype == DTYPE_BF16 ? round_bf16(x) : dtype == DTYPE_FP16 ? round_fp16(x) : x;
}

float unsharded_e4m3(float x, float amax)
{
    float scale = 448.0f / fmaxf(amax, 1e-12f), scaled = fabsf(x * scale), power = 0x1p-6f;
    while (power * 2 <= scaled && power < 256)
        power *= 2;
    float code = fminf(rintf(scaled / power * 8) * power / 8, 448.0f);
    return copysignf(code / scale, x);
}

float unsharded_amax(const float x[], size_t count)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}
