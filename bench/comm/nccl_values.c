// SPDX-License-Identifier: Apache-2.0
// What ranks send to NCCL, and what they must receive. Operations that reduce nothing move random bits. Terms of
// reductions are integers and powers of two that are numbers of the type, and so is what any of them reduce to.
#include "bench/comm/nccl_rows.h"

#include "ref/arithmetic/random.h"

// Of a floating-point type: the digits behind its leading one, and what is added to its exponent. limit: all integers
// up to it are numbers of the type.
static const struct type {
    const char *name;
    int bytes, digits, bias;
    bool is_signed;
    uint64_t limit;
} types[NCCL_TYPE_COUNT] = {
    {"int8", 1, 0, 0, true, INT8_MAX},      {"uint8", 1, 0, 0, false, UINT8_MAX},
    {"int32", 4, 0, 0, true, INT32_MAX},    {"uint32", 4, 0, 0, false, UINT32_MAX},
    {"int64", 8, 0, 0, true, INT64_MAX},    {"uint64", 8, 0, 0, false, INT64_MAX},
    {"fp16", 2, 10, 15, true, 1 << 11},     {"fp32", 4, 23, 127, true, 1 << 24},
    {"fp64", 8, 52, 1023, true, 1ll << 53}, {"bf16", 2, 7, 127, true, 1 << 8},
    {"fp8e4m3", 1, 3, 7, true, 1 << 4},     {"fp8e5m2", 1, 2, 15, true, 1 << 3},
};

const char *nccl_operation_name(int operation)
{
    static const char *const names[] = {"reduce", "gather", "scatter", "send-receive"};
    return operation < OPERATION_KINDS ? comm_ranks_operation_name((enum operation)operation)
                                       : names[operation - OPERATION_KINDS];
}

const char *nccl_type_name(int type)
{
    return types[type].name;
}

const char *nccl_reduction_name(int reduction)
{
    static const char *const names[NCCL_REDUCTION_COUNT] = {"sum", "prod", "max", "min", "avg"};
    return names[reduction];
}

size_t nccl_type_bytes(int type)
{
    return (size_t)types[type].bytes;
}

bool nccl_reduces(int operation)
{
    return operation == REDUCE_SCATTER || operation == ALL_REDUCE || operation == NCCL_REDUCE;
}

size_t nccl_send_count(const struct nccl_call *call, int world, int rank)
{
    if (call->operation == ALL_GATHER || call->operation == NCCL_GATHER)
        return call->count / (size_t)world;
    return (call->operation == NCCL_SCATTER || call->operation == BROADCAST) && rank != 0 ? 0 : call->count;
}

size_t nccl_recv_count(const struct nccl_call *call, int world, int rank)
{
    if (call->operation == REDUCE_SCATTER || call->operation == NCCL_SCATTER)
        return call->count / (size_t)world;
    return (call->operation == NCCL_GATHER || call->operation == NCCL_REDUCE) && rank != 0 ? 0 : call->count;
}

double nccl_bus_factor(int operation, int world)
{
    bool whole = operation == BROADCAST || operation == NCCL_REDUCE || operation == NCCL_SEND_RECEIVE;
    return whole ? 1 : (operation == ALL_REDUCE ? 2.0 : 1.0) * (world - 1) / world;
}

static int log2_of(uint64_t value)
{
    return 63 - __builtin_clzll(value);
}

// The largest power of two that products have.
static int most_power(const struct type *type)
{
    return type->digits > 0 && type->bias < 62 ? type->bias : type->digits > 0 ? 62 : log2_of(type->limit);
}

// The largest average: sums of the terms, and before them the terms, which are multiples of the world, have a limit.
static uint64_t most_average(const struct type *type, int world)
{
    uint64_t most = (type->digits > 0 ? (uint64_t)1 << most_power(type) : type->limit) / (uint64_t)world;
    return most < type->limit ? most : type->limit;
}

bool nccl_is_exact(int operation, int type, int reduction, int world)
{
    if (!nccl_reduces(operation) || reduction != NCCL_AVG)
        return true;
    return most_average(&types[type], world) > 0 && (types[type].digits == 0 || (world & (world - 1)) == 0);
}

// The bits of an integer, in two's complement, as a number of the type.
static uint64_t bits_of(const struct type *type, uint64_t value)
{
    uint64_t mask = ~(uint64_t)0 >> (64 - 8 * type->bytes), sign = value >> 63, size = sign ? -value : value;
    if (type->digits == 0)
        return value & mask;
    if (size == 0)
        return 0;
    int power = log2_of(size), shift = type->digits - power;
    uint64_t digits = (shift >= 0 ? size << shift : size >> -shift) & (((uint64_t)1 << type->digits) - 1);
    return sign << (8 * type->bytes - 1) | (uint64_t)(power + type->bias) << type->digits | digits;
}

enum { ALL_RANKS = -1 };

// Deals a total to the ranks, so that any of the parts have a sum of at most the total.
static uint64_t part_of(uint64_t total, int world, int rank, size_t index)
{
    uint64_t ranks = (uint64_t)world, place = ((uint64_t)rank + index) % ranks;
    return rank == ALL_RANKS ? total : total / ranks + (place < total % ranks);
}

// The sign of a rank's factor, or of the product of all.
static bool is_negative(const struct type *type, int world, int rank, uint64_t bits)
{
    bool negative = false;
    for (int other = 0; other < world && type->is_signed; other++)
        negative ^= (rank == ALL_RANKS || rank == other) && bits >> (other % 64) & 1;
    return negative;
}

// One of the numbers from the smallest of an element up, which the ranks have in turn.
static uint64_t extreme_of(const struct nccl_call *call, int world, int rank, size_t index)
{
    const struct type *type = &types[call->type];
    uint64_t ranks = (uint64_t)world - 1, span = ranks < type->limit / 2 ? ranks : type->limit / 2,
             bits = random_mix(index);
    uint64_t smallest = type->is_signed ? random_below(bits, 2 * type->limit - span + 1) - type->limit
                                        : random_below(bits, type->limit - span + 1);
    uint64_t place = ((uint64_t)rank + index) % (uint64_t)world;
    if (rank == ALL_RANKS)
        place = call->reduction == NCCL_MIN ? 0 : span;
    return smallest + (place < span ? place : span);
}

// The integer that a rank has of an element, or that all together reduce to.
static uint64_t term_of(const struct nccl_call *call, int world, int rank, size_t index)
{
    const struct type *type = &types[call->type];
    uint64_t bits = random_mix(index), size;
    switch (call->reduction) {
    case NCCL_SUM:
        return part_of(random_below(bits, type->limit + 1), world, rank, index);
    case NCCL_AVG:
        size = part_of(random_below(bits, most_average(type, world) + 1), world, rank, index);
        return rank == ALL_RANKS ? size : (uint64_t)world * size;
    case NCCL_PROD:
        size = (uint64_t)1 << part_of(random_below(bits, (uint64_t)most_power(type) + 1), world, rank, index);
        return is_negative(type, world, rank, bits) ? -size : size;
    default:
        return extreme_of(call, world, rank, index);
    }
}

static uint64_t random_bits(const struct nccl_call *call, int rank, size_t index)
{
    return random_at(random_key(2, (uint64_t)rank), index) >> (64 - 8 * types[call->type].bytes);
}

uint64_t nccl_sent(const struct nccl_call *call, int world, int rank, size_t index)
{
    return nccl_reduces(call->operation) ? bits_of(&types[call->type], term_of(call, world, rank, index))
                                         : random_bits(call, rank, index);
}

uint64_t nccl_expected(const struct nccl_call *call, int world, int rank, size_t index)
{
    size_t shard = call->count / (size_t)world, own = (size_t)rank * shard;
    switch (call->operation) {
    case BROADCAST:
        return random_bits(call, 0, index);
    case ALL_GATHER:
    case NCCL_GATHER:
        return random_bits(call, (int)(index / shard), index % shard);
    case ALL_TO_ALL:
        return random_bits(call, (int)(index / shard), own + index % shard);
    case NCCL_SCATTER:
        return random_bits(call, 0, own + index);
    case NCCL_SEND_RECEIVE:
        return random_bits(call, (rank + world - 1) % world, index);
    case REDUCE_SCATTER:
        index += own;
        break;
    }
    return bits_of(&types[call->type], term_of(call, world, ALL_RANKS, index));
}
