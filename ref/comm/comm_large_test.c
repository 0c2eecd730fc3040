// SPDX-License-Identifier: Apache-2.0
// Collectives on buffers that no cache holds, for which a transport may take other ways: every element against a plain
// loop, at every alignment that elements can have, with nothing written outside the result.
#include "ref/comm/comm_case_test.h"

// A value with a full mantissa and either sign, so that the order of a sum shows.
static float value_at(enum dtype dtype, int rank, size_t index)
{
    uint32_t bits = ((uint32_t)index + (uint32_t)rank * 0x9e3779b9u) * 2654435761u;
    float value = (float)(int32_t)(bits ^ bits >> 15);
    return dtype == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(value)) : value;
}

static float expected_at(enum dtype dtype, int world, size_t index)
{
    float sum = value_at(dtype, 0, index);
    for (int rank = 1; rank < world; rank++)
        sum = sum + value_at(dtype, rank, index);
    return dtype == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(sum)) : sum;
}

enum large_call { REDUCE_SCATTER, ALL_REDUCE, ALL_GATHER };

struct large_case {
    enum large_call call;
    enum dtype dtype;
    bool in_place;
    size_t shift_count;  // elements by which rank 0's result is off a cache line; rank r's is off by r more
};

static void check(struct rank *rank, const struct large_case *c, const char *got, size_t start, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float expected = expected_at(c->dtype, rank->world, start + i);
        if (load(c->dtype, got, i) != expected) {
            rank_wrong(rank, "case %d of %s, shift %zu: element %zu is %a, not %a", c->call, dtype_name(c->dtype),
                       c->shift_count, start + i, (double)load(c->dtype, got, i), (double)expected);
            return;
        }
    }
}

// A reduce-scatter with an all-gather of its shards after it is an all-reduce: the result is the same.
static void large_body(struct rank *rank)
{
    const struct large_case *c = rank->context;
    size_t element_bytes = dtype_bytes(c->dtype), world = (size_t)rank->world;
    size_t count = (33u << 20) / element_bytes / world + 1, counts[RANKS_MAX], offsets[RANKS_MAX], end = 0;
    for (size_t peer = 0; peer < world; peer++) {
        counts[peer] = count / world + (peer < count % world);
        offsets[peer] = end;
        end += counts[peer];
    }
    size_t own = counts[rank->index], offset = offsets[rank->index];
    size_t shift = c->shift_count + (size_t)rank->index;
    struct area send = area_open(count * element_bytes, c->in_place ? shift * element_bytes : 0);
    struct area recv = area_open((c->call == REDUCE_SCATTER ? own : count) * element_bytes, shift * element_bytes);
    char *own_send = send.data + offset * element_bytes;
    for (size_t i = 0; i < count; i++)
        store(c->dtype, send.data, i, value_at(c->dtype, rank->index, i));
    int rc;
    if (c->call == REDUCE_SCATTER) {
        char *to = c->in_place ? own_send : recv.data;
        rc = comm_reduce_scatter(rank->comm, send.data, to, counts, offsets, c->dtype);
        check(rank, c, to, offset, own);
        for (size_t i = 0; i < count && c->in_place; i += 97)
            if ((i < offset || i >= offset + own) && load(c->dtype, send.data, i) != value_at(c->dtype, rank->index, i))
                rank_wrong(rank, "another rank's shard of send is changed at %zu", i);
    } else if (c->call == ALL_REDUCE) {
        char *to = c->in_place ? send.data : recv.data;
        rc = comm_all_reduce(rank->comm, send.data, to, count, c->dtype, COMM_SUM);
        check(rank, c, to, 0, count);
    } else {
        for (size_t i = 0; i < own; i++)
            store(c->dtype, own_send, i, expected_at(c->dtype, rank->world, offset + i));
        char *to = c->in_place ? send.data : recv.data;
        rc = comm_all_gather(rank->comm, own_send, to, counts, offsets, c->dtype);
        check(rank, c, to, 0, count);
    }
    if (rc != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    area_close(rank, &send);
    area_close(rank, &recv);
}

Test(comm_large, concurrent_large_sums_and_gathers_are_those_of_a_plain_loop)
{
    static const struct large_case cases[] = {
        {REDUCE_SCATTER, DTYPE_FP32, false, 0}, {REDUCE_SCATTER, DTYPE_FP32, false, 3},
        {REDUCE_SCATTER, DTYPE_FP32, true, 4},  {REDUCE_SCATTER, DTYPE_BF16, false, 1},
        {ALL_REDUCE, DTYPE_FP32, true, 0},      {ALL_REDUCE, DTYPE_FP32, false, 1},
        {ALL_REDUCE, DTYPE_BF16, true, 5},      {ALL_GATHER, DTYPE_FP32, true, 0},
        {ALL_GATHER, DTYPE_BF16, false, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int world = 2; world <= 3; world++)
            ranks_run_well(world, large_body, (void *)&cases[i]);
}
