// SPDX-License-Identifier: Apache-2.0
// Every collective between threads, over worlds, formats, sizes and alignments, against plain loops.
#include "ref/comm/comm_case_test.h"

TestSuite(comm, .init = make_values, .fini = free_values);

Test(comm, concurrent_reduce_scatter_gives_every_rank_the_plain_fold_of_its_shard)
{
    for (EACH_WORLD(i)) {
        reduce_values(many_worlds[i], many_worlds[i]);
        ranks_run_well(many_worlds[i], reduce_scatter_body, NULL);
    }
}

Test(comm, concurrent_all_gather_gives_every_rank_every_shard_and_leaves_gaps_alone)
{
    for (EACH_WORLD(i))
        ranks_run_well(many_worlds[i], all_gather_body, NULL);
}

Test(comm, concurrent_all_reduce_gives_every_rank_the_plain_fold_or_maximum)
{
    for (EACH_WORLD(i)) {
        reduce_values(many_worlds[i], many_worlds[i]);
        ranks_run_well(many_worlds[i], all_reduce_body, NULL);
    }
}

Test(comm, concurrent_all_to_all_exchanges_uneven_shards_between_gaps)
{
    for (EACH_WORLD(i))
        ranks_run_well(many_worlds[i], all_to_all_body, NULL);
}

Test(comm, concurrent_broadcast_gives_every_rank_the_bytes_of_any_root)
{
    for (EACH_WORLD(i))
        ranks_run_well(many_worlds[i], broadcast_body, NULL);
}

// The same ones that all_reduce_body and reduce_scatter_body make in canonical order.
static void sums_of_groups(struct rank *rank)
{
    if (comm_set_group(rank->comm, *(const int *)rank->context) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    reduce_scatter_body(rank);
    all_reduce_body(rank);
}

Test(comm, concurrent_hierarchical_sums_are_those_of_plain_loops)
{
    // The last three are the canonical order.
    static const int trials[][2] = {{4, 2}, {6, 2}, {6, 3}, {9, 3}, {8, 4}, {5, 0}, {5, 5}, {5, 1}};
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        int world = trials[i][0], group = trials[i][1];
        reduce_values(world, group > 0 ? group : world);
        ranks_run_well(world, sums_of_groups, &group);
    }
    size_t different = 0;
    for (size_t i = 0; i < 1000; i++)
        different += sum_plainly(DTYPE_FP32, 6, 2, i) != sum_plainly(DTYPE_FP32, 6, 6, i);
    cr_expect_gt(different, 100, "the order shows");
}

static void disagree(struct rank *rank)
{
    float number = 1;
    int odd = rank->index == 3 ? 1 : 2;
    if (comm_set_group(rank->comm, 3) != ERR_USAGE || comm_set_group(rank->comm, odd) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    rank_keep(rank, clock_now_s(), comm_all_reduce(rank->comm, &number, &number, 1, DTYPE_FP32, COMM_SUM));
}

Test(comm, concurrent_ranks_with_other_groups_are_told_so)
{
    struct rank ranks[4];
    ranks_run(ranks, 4, disagree, NULL);
    expect_all_failed(ranks, 4, -1, ERR_INTERNAL,
                      "the ranks disagree about collective 1: rank 0 calls all-reduce (sum) of 1 fp32 in groups of 2, "
                      "rank 3 all-reduce (sum) of 1 fp32");
}
