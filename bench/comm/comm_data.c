// SPDX-License-Identifier: Apache-2.0
// Fills the ranks' buffers and verifies their results. Data on a device passes through the rank's stage in pieces.
#include "bench/comm/comm_ranks.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <stdlib.h>
#include <string.h>

typedef float value_function(const struct comm_setting *setting, int rank, size_t index);

// All integers up to it are numbers of the 16-bit format.
static uint32_t largest_of(const struct comm_setting *setting)
{
    return setting->dtype == DTYPE_BF16 ? 256 : 2048;
}

static bool is_sum(const struct comm_setting *setting)
{
    return setting->operation == REDUCE_SCATTER || setting->operation == ALL_REDUCE;
}

bool comm_ranks_sums_exactly(const struct comm_setting *setting)
{
    return setting->dtype == DTYPE_FP32 || !is_sum(setting) || (uint32_t)setting->world <= largest_of(setting);
}

// The part of a term in 16 bits that all ranks have: with a bit for each rank, which tells them apart, terms are so
// small that their sum is at most largest_of.
static uint64_t term_at(const struct comm_setting *setting, uint64_t bits)
{
    uint32_t world = (uint32_t)setting->world, most = largest_of(setting) / world;
    return random_below(bits, most > 1 ? most : 1);
}

// Small integers, so that every sum is exact.
static float value_at(const struct comm_setting *setting, int rank, size_t index)
{
    uint32_t value = ((uint32_t)index * 2654435761u >> 24) + 3 * (uint32_t)rank;
    if (setting->dtype == DTYPE_FP32)
        return (float)value;
    if (!is_sum(setting))
        return (float)(value % largest_of(setting));
    uint64_t bits = random_mix(index);
    return (float)(term_at(setting, bits) + (bits >> rank % 64 & 1));
}

static float sum_at(const struct comm_setting *setting, int world, size_t index)
{
    if (setting->dtype == DTYPE_FP32)
        return (float)world * value_at(setting, 0, index) + (float)(3 * world * (world - 1) / 2);
    uint64_t bits = random_mix(index), rest = bits & (((uint64_t)1 << world % 64) - 1);
    int ones = world / 64 * __builtin_popcountll(bits) + __builtin_popcountll(rest);
    return (float)((uint64_t)world * term_at(setting, bits) + (uint64_t)ones);
}

// Division by 3 fills all digits, so that nearly every addition rounds.
static float rough_at(const struct comm_setting *setting, int rank, size_t index)
{
    (void)setting;
    return random_normal(random_at(random_key(1, (uint64_t)rank), index)) / 3;
}

// Returns how many of `left` elements fit into the stage, or all without one.
static size_t piece_count(const struct comm_rank *rank, size_t left)
{
    return rank->stage && left > COMM_STAGE_COUNT ? COMM_STAGE_COUNT : left;
}

static void put(enum dtype dtype, void *to, size_t i, float value)
{
    if (dtype == DTYPE_FP32)
        ((float *)to)[i] = value;
    else
        ((uint16_t *)to)[i] = dtype == DTYPE_BF16 ? f32_to_bf16(value).bits : f32_to_fp16(value).bits;
}

static float get(enum dtype dtype, const void *from, size_t i)
{
    if (dtype == DTYPE_FP32)
        return ((const float *)from)[i];
    return dtype == DTYPE_BF16 ? bf16_to_f32(((const struct bf16 *)from)[i])
                               : fp16_to_f32(((const struct fp16 *)from)[i]);
}

// Sets to[i] = value(number, start + i), rounded, for i < count; `number` is a rank, or the world for sums.
static int fill(const struct comm_rank *rank, char *to, value_function *value, int number, size_t start, size_t count)
{
    const struct comm_setting *setting = &rank->of->setting;
    for (size_t from = 0, piece; from < count; from += piece) {
        piece = piece_count(rank, count - from);
        char *there = to + from * dtype_bytes(setting->dtype), *here = rank->stage ? rank->stage : there;
        for (size_t i = 0; i < piece; i++)
            put(setting->dtype, here, i, value(setting, number, start + from + i));
        if (rank->stage)
            TRY(bytes_copy(there, here, piece * dtype_bytes(setting->dtype)));
    }
    return ERR_NONE;
}

int comm_rank_fill(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->offsets[rank->index] * dtype_bytes(of->setting.dtype);
    TRY(fill(rank, rank->send, value_at, rank->index, 0, of->setting.count));
    if (of->setting.operation == BROADCAST && rank->index == 0)
        return fill(rank, rank->recv, value_at, 0, 0, of->setting.count);
    // An all-gather in place reads the rank's shard from its place in recv.
    if (of->setting.operation == ALL_GATHER && of->setting.in_place)
        return fill(rank, rank->recv + own, value_at, rank->index, 0, of->counts[rank->index]);
    return ERR_NONE;
}

int comm_rank_fill_roughly(struct comm_rank *rank)
{
    return fill(rank, rank->send, rough_at, rank->index, 0, rank->of->setting.count);
}

size_t comm_rank_recv_count(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t all = (size_t)of->setting.world * of->counts[rank->index];
    return of->setting.operation == ALL_TO_ALL && all > of->setting.count ? all : of->setting.count;
}

int comm_rank_poison(struct comm_rank *rank)
{
    static const uint16_t last = 0xffff;
    size_t bytes = comm_rank_recv_count(rank) * dtype_bytes(rank->of->setting.dtype), rest = bytes % sizeof(uint32_t);
    if (!rank->stage) {
        memset(rank->recv, 0xff, bytes);
        return ERR_NONE;
    }
    TRY(rank->of->setting.device->accelerator->fill(rank->recv, 0xffffffff, bytes - rest));
    return rest > 0 ? bytes_copy(rank->recv + bytes - rest, &last, sizeof last) : ERR_NONE;
}

size_t comm_rank_result_count(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->counts[rank->index];
    return of->setting.operation == REDUCE_SCATTER ? own
           : of->setting.operation == ALL_TO_ALL   ? own * (size_t)of->setting.world
                                                   : of->setting.count;
}

char *comm_rank_result(const struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    if (rank->has_native_result || !of->setting.in_place || of->setting.operation == ALL_GATHER)
        return rank->recv;
    return rank->send +
           (of->setting.operation == REDUCE_SCATTER ? of->offsets[rank->index] * dtype_bytes(of->setting.dtype) : 0);
}

// Counts the elements with result[at + i] != value(number, start + i), rounded.
static int compare(struct comm_rank *rank, size_t at, value_function *value, int number, size_t start, size_t count)
{
    const struct comm_setting *setting = &rank->of->setting;
    const char *result = comm_rank_result(rank) + at * dtype_bytes(setting->dtype);
    size_t result_bytes = comm_rank_result_count(rank) * dtype_bytes(setting->dtype), of = 0;
    bool whole = !rank->stage || rank->was_poisoned || result_bytes <= rank->of->whole_bytes;
    for (size_t from = 0, piece; from < count; from += piece) {
        piece = piece_count(rank, count - from);
        if (!whole && of++ % COMM_SAMPLED_PIECES != rank->sample % COMM_SAMPLED_PIECES)
            continue;
        const char *there = result + from * dtype_bytes(setting->dtype), *here = rank->stage ? rank->stage : there;
        if (rank->stage)
            TRY(bytes_copy(rank->stage, there, piece * dtype_bytes(setting->dtype)));
        for (size_t i = 0; i < piece; i++)
            rank->wrong_count +=
                get(setting->dtype, here, i) != dtype_kept(setting->dtype, value(setting, number, start + from + i));
    }
    return ERR_NONE;
}

int comm_rank_count_wrong(struct comm_rank *rank)
{
    const struct comm_ranks *of = rank->of;
    size_t own = of->offsets[rank->index];
    int world = of->setting.world;
    rank->sample++;
    switch (of->setting.operation) {
    case REDUCE_SCATTER:
        return compare(rank, 0, sum_at, world, own, of->counts[rank->index]);
    case ALL_REDUCE:
        return compare(rank, 0, sum_at, world, 0, of->setting.count);
    case BROADCAST:
        return compare(rank, 0, value_at, 0, 0, of->setting.count);
    case ALL_GATHER:
        for (int peer = 0; peer < world; peer++)
            TRY(compare(rank, of->offsets[peer], value_at, peer, 0, of->counts[peer]));
        return ERR_NONE;
    default:
        for (int peer = 0; peer < world; peer++)
            TRY(compare(rank, rank->recv_offsets[peer], value_at, peer, own, rank->recv_counts[peer]));
        return ERR_NONE;
    }
}

int comm_ranks_sum(const struct comm_ranks *ranks, uint64_t own, uint64_t *sum)
{
    struct comm *comm = ranks->setting.comm;
    *sum = own;
    if (!comm)
        return ERR_NONE;
    size_t world = (size_t)comm_world(comm);
    uint64_t *all = calloc(world, sizeof *all);
    int code = all ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the counts of %zu ranks", world);
    if (code == ERR_NONE)
        code = comm_all_gather_equal(comm, &own, all, sizeof own);
    *sum = 0;
    for (size_t rank = 0; rank < world && code == ERR_NONE; rank++)
        *sum += all[rank];
    free(all);
    return code;
}
