// SPDX-License-Identifier: Apache-2.0
#include "ref/recipe/quantize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

size_t quantize_bytes(size_t count, size_t block, int bits)
{
    size_t per_byte = (size_t)(8 / bits), last = count % block;
    size_t whole = count / block * (sizeof(float) + block / per_byte);
    return last == 0 ? whole : whole + sizeof(float) + (last + per_byte - 1) / per_byte;
}

static float scale_of(const float x[], size_t count, float largest_code)
{
    float largest = 0.0f;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return NAN;
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    }
    return largest / largest_code;
}

static int code_of(float x, float scale, float largest_code)
{
    if (!(scale > 0.0f))
        return 0;
    float code = rintf(x / scale);  // in the default rounding mode
    return (int)(code > largest_code ? largest_code : code < -largest_code ? -largest_code : code);
}

void quantize_block(const float x[], size_t count, int bits, unsigned char packed[])
{
    assert((bits == 8 || bits == 4) && count > 0 && count <= QUANTIZE_BLOCK_MAX);
    const float largest_code = bits == 8 ? 127.0f : 7.0f, scale = scale_of(x, count, largest_code);
    unsigned char *codes = packed + sizeof scale;
    memcpy(packed, &scale, sizeof scale);
    memset(codes, 0, (count * (size_t)bits + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        int code = code_of(x[i], scale, largest_code);
        if (bits == 8)
            codes[i] = (unsigned char)code;
        else
            codes[i / 2] |= (unsigned char)((code & 15) << (i % 2 * 4));
    }
}

void dequantize_block(const unsigned char packed[], size_t count, int bits, float x[])
{
    const unsigned char *codes = packed + sizeof(float);
    float scale;
    memcpy(&scale, packed, sizeof scale);
    for (size_t i = 0; i < count; i++) {
        int code = bits == 8 ? codes[i] : codes[i / 2] >> (i % 2 * 4) & 15, limit = 1 << (bits - 1);
        x[i] = (float)(code < limit ? code : code - 2 * limit) * scale;
    }
}
