// SPDX-License-Identifier: Apache-2.0
// Hierarchical sums: groups of ranks first, then the groups, against plain loops.
#include "ref/comm/comm_test.h"

#include "ref/arithmetic/dtype.h"
#include "ref/arithmetic/random.h"

#include <math.h>
#include <stdlib.h>

enum { COUNT_MAX = 40009 };

struct trial {
    int group;
    enum dtype dtype, recv_dtype;
    size_t count;  // of a rank's shard
    bool add;
    float *expected;  // of the whole
};

// Returns element i that a rank sends. Magnitudes differ so much that the order of a sum shows in its bits.
static float value_at(enum dtype dtype, int rank, size_t i)
{
    float value = ldexpf(random_normal(random_at(random_key(5, (uint64_t)rank), i)), (int)(i * 7 + (size_t)rank) % 20);
    return dtype == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(value)) : value;
}

static void store(enum dtype dtype, void *to, size_t i, float value)
{
    if (dtype == DTYPE_FP32)
        ((float *)to)[i] = value;
    else
        ((struct bf16 *)to)[i] = f32_to_bf16(value);
}

static float load(enum dtype dtype, const void *from, size_t i)
{
    return dtype == DTYPE_FP32 ? ((const float *)from)[i] : bf16_to_f32(((const struct bf16 *)from)[i]);
}

static float rounded(enum dtype dtype, float value)
{
    return dtype == DTYPE_FP32 ? value : bf16_to_f32(f32_to_bf16(value));
}

static float sum_plainly(enum dtype dtype, int world, int group, size_t i)
{
    float sum = 0;
    for (int first = 0; first < world; first += group) {
        float of_group = value_at(dtype, first, i);
        for (int rank = first + 1; rank < first + group; rank++)
            of_group = of_group + value_at(dtype, rank, i);
        sum = first == 0 ? of_group : sum + of_group;
    }
    return sum;
}

static void reduce(struct rank *rank)
{
    const struct trial *t = rank->context;
    size_t whole = t->count * (size_t)rank->world, begin = t->count * (size_t)rank->index, counts[RANKS_MAX];
    void *send = malloc(whole * sizeof(float) + 1), *recv = malloc(whole * sizeof(float) + 1);
    for (size_t i = 0; i < whole; i++)
        store(t->dtype, send, i, value_at(t->dtype, rank->index, i));
    for (size_t i = 0; i < t->count; i++)
        store(t->recv_dtype, recv, i, 3);
    for (int i = 0; i < rank->world; i++)
        counts[i] = t->count;
    if (comm_set_group(rank->comm, t->group) != ERR_NONE ||
        comm_reduce_scatter(rank->comm, send, t->dtype, recv, t->recv_dtype, counts, t->add) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    for (size_t i = 0; i < t->count; i++) {
        float expected = rounded(t->recv_dtype, (t->add ? 3 : 0) + t->expected[begin + i]);
        if (load(t->recv_dtype, recv, i) != expected)
            rank_wrong(rank, "element %zu of %zu is %a, expected %a", i, t->count, load(t->recv_dtype, recv, i),
                       expected);
    }
    if (comm_all_reduce(rank->comm, send, send, whole, t->dtype, COMM_SUM) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    for (size_t i = 0; i < whole; i++)
        if (load(t->dtype, send, i) != rounded(t->dtype, t->expected[i]))
            rank_wrong(rank, "element %zu of an all-reduce of %zu is %a, expected %a", i, whole,
                       load(t->dtype, send, i), rounded(t->dtype, t->expected[i]));
    free(send);
    free(recv);
}

static void expect_plain_sums(int world, int group, enum dtype dtype, enum dtype recv_dtype, bool add)
{
    static const size_t counts[] = {0, 1, 997, COUNT_MAX};
    int effective = group > 0 ? group : world;
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        struct trial trial = {group, dtype, recv_dtype, counts[k], add, NULL};
        size_t whole = counts[k] * (size_t)world;
        trial.expected = malloc((whole + 1) * sizeof(float));
        for (size_t i = 0; i < whole; i++)
            trial.expected[i] = sum_plainly(dtype, world, effective, i);
        ranks_run_well(world, reduce, &trial);
        free(trial.expected);
    }
}

Test(comm_group, concurrent_sums_of_groups_are_those_of_plain_loops)
{
    expect_plain_sums(4, 2, DTYPE_FP32, DTYPE_FP32, false);
    expect_plain_sums(6, 2, DTYPE_BF16, DTYPE_FP32, true);
    expect_plain_sums(6, 3, DTYPE_FP32, DTYPE_BF16, false);
    expect_plain_sums(9, 3, DTYPE_BF16, DTYPE_BF16, false);
    expect_plain_sums(8, 4, DTYPE_FP32, DTYPE_FP32, true);
}

Test(comm_group, concurrent_one_group_and_groups_of_one_are_the_canonical_order)
{
    expect_plain_sums(5, 0, DTYPE_FP32, DTYPE_FP32, false);
    expect_plain_sums(5, 5, DTYPE_FP32, DTYPE_FP32, false);
    expect_plain_sums(5, 1, DTYPE_FP32, DTYPE_FP32, false);
}

Test(comm_group, the_order_shows)
{
    size_t different = 0;
    for (size_t i = 0; i < 1000; i++)
        different += sum_plainly(DTYPE_FP32, 6, 2, i) != sum_plainly(DTYPE_FP32, 6, 6, i);
    cr_expect_gt(different, 100);
}

static void disagree(struct rank *rank)
{
    float number = 1;
    int odd = rank->index == 3 ? 1 : 2;
    if (comm_set_group(rank->comm, 3) != ERR_USAGE || comm_set_group(rank->comm, odd) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    rank_keep(rank, clock_now_s(), comm_all_reduce(rank->comm, &number, &number, 1, DTYPE_FP32, COMM_SUM));
}

Test(comm_group, concurrent_ranks_with_other_groups_are_told_so)
{
    struct rank ranks[4];
    ranks_run(ranks, 4, disagree, NULL);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(ranks[i].rc, ERR_INTERNAL, "%s", ranks[i].message);
        cr_expect_str_eq(ranks[i].message, "the ranks disagree about collective 1: rank 0 calls all-reduce (sum) of 1 "
                                           "fp32 in groups of 2, rank 3 all-reduce (sum) of 1 fp32");
    }
}
