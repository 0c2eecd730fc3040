// SPDX-License-Identifier: Apache-2.0
// Reductions in a random association, the same on all ranks. In 8-bit floating point, which nothing here rounds, a
// result that is no number of the type ends the process.
#include "ci/standin/nccl.h"

#include "ref/arithmetic/dtype_element.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// An integer is in `whole`, of as many bits as its type has behind its sign; a floating-point number in `real`.
union number {
    uint64_t whole;
    double real;
};

static bool is_real(ncclDataType_t type)
{
    return type >= ncclFloat16;
}

static bool is_signed(ncclDataType_t type)
{
    return type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

// Of 4 bits of exponent and 3 digits, or of 5 and 2.
static double eight_bits(ncclDataType_t type, unsigned bits)
{
    int digits = (int)type == NCCL_E4M3 ? 3 : 2, bias = (int)type == NCCL_E4M3 ? 7 : 15;
    int power = (int)(bits & 0x7f) >> digits, rest = (int)bits & ((1 << digits) - 1);
    double size = power > 0 ? ldexp((1 << digits) + rest, power - bias - digits) : ldexp(rest, 1 - bias - digits);
    bool is_none = (int)type == NCCL_E4M3 ? (bits & 0x7f) == 0x7f : power == 0x1f;
    return is_none ? (double)NAN : bits & 0x80 ? -size : size;
}

static union number load(ncclDataType_t type, const char *from)
{
    union number n = {.whole = 0};
    float single;
    struct bf16 brain;
    struct fp16 half;
    size_t bytes = nccl_type_bytes(type);
    if (!is_real(type)) {
        memcpy(&n.whole, from, bytes);
        if (is_signed(type) && n.whole >> (8 * bytes - 1) & 1)
            n.whole |= -((uint64_t)1 << (8 * bytes - 1));
        return n;
    }
    memcpy(&n.real, from, bytes == sizeof n.real ? bytes : 0);
    memcpy(&single, from, bytes == sizeof single ? bytes : 0);
    memcpy(&brain, from, bytes == sizeof brain ? bytes : 0);
    memcpy(&half, from, bytes == sizeof half ? bytes : 0);
    return bytes == 1             ? (union number){.real = eight_bits(type, (unsigned char)*from)}
           : type == ncclFloat32  ? (union number){.real = (double)single}
           : type == ncclBfloat16 ? (union number){.real = (double)bf16_to_f32(brain)}
           : type == ncclFloat16  ? (union number){.real = (double)fp16_to_f32(half)}
                                  : n;
}

static void store(ncclDataType_t type, union number n, char *to)
{
    size_t bytes = nccl_type_bytes(type);
    float single = is_real(type) ? (float)n.real : 0;
    uint16_t half = type == ncclBfloat16 ? f32_to_bf16(single).bits : f32_to_fp16(single).bits;
    unsigned bits = 0;
    while (is_real(type) && bytes == 1 && bits < 256 && eight_bits(type, bits) != n.real)
        bits++;
    if (bits == 256)
        standin_die("NCCL: %g is no number of type %d, and the stand-in rounds none to it", n.real, (int)type);
    unsigned char byte = (unsigned char)bits;
    const void *from = !is_real(type) || bytes == sizeof n.real ? (void *)&n
                       : bytes == sizeof single                 ? (void *)&single
                       : bytes == sizeof half                   ? (void *)&half
                                                                : (void *)&byte;
    memcpy(to, from, bytes);
}

static union number rounded(ncclDataType_t type, union number n)
{
    char bytes[sizeof n] = {0};
    store(type, n, bytes);
    return load(type, bytes);
}

static union number of_two(ncclDataType_t type, ncclRedOp_t operation, union number one, union number other)
{
    bool less = is_real(type)     ? one.real < other.real
                : is_signed(type) ? (int64_t)one.whole < (int64_t)other.whole
                                  : one.whole < other.whole;
    if (operation == ncclMin || operation == ncclMax)
        return less == (operation == ncclMin) ? one : other;
    if (is_real(type))
        one.real = operation == ncclProd ? one.real * other.real : one.real + other.real;
    else
        one.whole = operation == ncclProd ? one.whole * other.whole : one.whole + other.whole;
    return rounded(type, one);
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t bits = *state += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    return bits ^ (bits >> 31);
}

// Replaces two of the values by their sum, or what else the operation makes of two, until there is one.
static union number of_all(ncclDataType_t type, ncclRedOp_t operation, union number values[], int count,
                           uint64_t *state)
{
    for (; count > 1; count--) {
        size_t one = next_random(state) % (size_t)count;
        union number value = values[one];
        values[one] = values[count - 1];
        size_t other = next_random(state) % (size_t)(count - 1);
        values[other] = of_two(type, operation, values[other], value);
    }
    return values[0];
}

// NCCL's averages are sums of products with 1 / world, and quotients of sums of integers.
static union number scaled(ncclDataType_t type, union number value, int world)
{
    const union number share = rounded(type, (union number){.real = 1.0 / world});
    return rounded(type, (union number){.real = value.real * share.real});
}

void nccl_reduce(const struct call *call, int world, uint64_t index, const char *terms, char *out, size_t bytes)
{
    const char *seed = getenv("ZG_STANDIN_SEED");
    uint64_t state = (seed ? strtoull(seed, NULL, 10) : 0) * 1000003 + index;
    ncclDataType_t type = call->type;
    size_t unit = nccl_type_bytes(type);
    bool averages = call->by == ncclAvg;
    for (size_t at = 0; at < bytes; at += unit) {
        union number values[RANKS_MAX];
        for (int rank = 0; rank < world; rank++) {
            values[rank] = load(type, terms + (size_t)rank * bytes + at);
            if (averages && is_real(type))
                values[rank] = scaled(type, values[rank], world);
        }
        union number value = of_all(type, call->by, values, world, &state);
        if (averages && is_signed(type))
            value.whole = (uint64_t)((int64_t)value.whole / world);
        else if (averages && !is_real(type))
            value.whole /= (uint64_t)world;
        store(type, value, out + at);
    }
}
