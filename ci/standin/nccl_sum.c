// SPDX-License-Identifier: Apache-2.0
// Sums in a random association, the same on all ranks.
#include "ci/standin/nccl.h"

#include "ref/arithmetic/dtype_element.h"

#include <stdlib.h>
#include <string.h>

static float widen(ncclDataType_t type, const char *from)
{
    float value;
    struct bf16 brain;
    struct fp16 half;
    memcpy(&brain, from, sizeof brain);
    memcpy(&half, from, sizeof half);
    if (type == ncclFloat32)
        memcpy(&value, from, sizeof value);
    else
        value = type == ncclBfloat16 ? bf16_to_f32(brain) : fp16_to_f32(half);
    return value;
}

static float rounded(ncclDataType_t type, float value)
{
    return type == ncclFloat32    ? value
           : type == ncclBfloat16 ? bf16_to_f32(f32_to_bf16(value))
                                  : fp16_to_f32(f32_to_fp16(value));
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t bits = *state += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    return bits ^ (bits >> 31);
}

// Replaces two of the values by their sum until there is one.
static float sum_of(ncclDataType_t type, float values[], int count, uint64_t *state)
{
    for (; count > 1; count--) {
        size_t one = next_random(state) % (size_t)count;
        float value = values[one];
        values[one] = values[count - 1];
        size_t other = next_random(state) % (size_t)(count - 1);
        values[other] = rounded(type, values[other] + value);
    }
    return values[0];
}

void nccl_sum(ncclDataType_t type, int world, uint64_t index, const char *terms, char *out, size_t bytes)
{
    const char *seed = getenv("ZG_STANDIN_SEED");
    uint64_t state = (seed ? strtoull(seed, NULL, 10) : 0) * 1000003 + index;
    size_t unit = nccl_type_bytes(type);
    for (size_t at = 0; at < bytes; at += unit) {
        float values[RANKS_MAX];
        for (int rank = 0; rank < world; rank++)
            values[rank] = widen(type, terms + (size_t)rank * bytes + at);
        float sum = sum_of(type, values, world, &state);
        uint16_t bits = type == ncclBfloat16 ? f32_to_bf16(sum).bits : f32_to_fp16(sum).bits;
        memcpy(out + at, unit == sizeof sum ? (void *)&sum : (void *)&bits, unit);
    }
}
