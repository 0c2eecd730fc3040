// SPDX-License-Identifier: Apache-2.0
// The papers' numbers, from Psi alone, against the bytes that runs of the stages held and sent. (Every test of the
// stages demands that the formulas of formula.c equal the ledger.)
#include "ref/train/offload_test.h"

// Bytes of one kind of state on the device.
static uint64_t held(const struct train_result *result, enum ledger_kind kind)
{
    return result->held_bytes[TIER_DEVICE][kind];
}

static uint64_t moved(const struct train_result *result, enum ledger_operation operation)
{
    return result->moved_bytes[LANE_COLLECTIVE][operation];
}

static struct offload_trial trial_of(int stage, int world, enum dtype precision, size_t accumulation)
{
    return OFFLOAD_TRIAL(.model = "linear-exact", .stage = stage, .world = world, .steps = 2, .bucket = 1000000,
                         .accumulation = accumulation, .precision = precision, .communication = precision,
                         .sum = precision, .prefetch = 0, .clip = 0);
}

static struct train_result run(int stage, int world, enum dtype precision, size_t accumulation)
{
    struct offload_trial trial = trial_of(stage, world, precision, accumulation);
    return offload_demand(&trial);
}

// ZeRO++ on stage 3 and 4 ranks, with blocks of 8 elements, and as many ranks in a node, of which hpZ makes use.
static struct train_result run_zeropp(bool weights, bool gradients, int node_ranks, int secondary_ranks)
{
    struct offload_trial trial = trial_of(3, 4, DTYPE_BF16, 1);
    trial.quantized_weights = weights;
    trial.quantized_gradients = gradients;
    trial.block = 8;
    trial.node = node_ranks;
    trial.secondary = secondary_ranks;
    return offload_demand(&trial);
}

// Elements of the model's parameters: trained, and with the frozen ones; those of the parameters that two layers use.
static uint64_t trained, all, tied;

// Blocks of 8 elements of the parameters: of trained ones, and of all that two passes gather.
static uint64_t trained_blocks, gathered_blocks;

// Bytes of the codes of trained parameters, two in a byte.
static uint64_t trained_packed;

static void count(void)
{
    const struct model *model;
    cr_assert_eq(model_find("linear-exact", &model), ERR_NONE);
    trained = all = tied = trained_blocks = gathered_blocks = trained_packed = 0;
    for (int i = 0; i < model->param_count; i++) {
        all += model->params[i].count;
        trained += model->params[i].frozen ? 0 : model->params[i].count;
        tied += model->params[i].layer_count > 1 ? model->params[i].count : 0;
        uint64_t blocks = (model->params[i].count + 7) / 8;
        trained_blocks += model->params[i].frozen ? 0 : blocks;
        trained_packed += model->params[i].frozen ? 0 : (model->params[i].count + 1) / 2;
        gathered_blocks += model->params[i].layer_count > 1 ? 2 * blocks : blocks;
    }
    cr_assert_gt(tied, 0);
    cr_assert_gt(all, trained);
}

// ZeRO, figure 1: the optimizer multiplier K is 12 in mixed precision (fp32 parameters, momentum, variance).
Test(formula, model_states_are_those_of_figure_1, .init = count)
{
    for (int world = 1; world <= 4; world++) {
        uint64_t n = (uint64_t)world;
        struct train_result ddp = run(0, world, DTYPE_BF16, 1), zero1 = run(1, world, DTYPE_BF16, 1),
                            zero2 = run(2, world, DTYPE_BF16, 1), zero3 = run(3, world, DTYPE_BF16, 1);
        cr_assert_eq(held(&ddp, KIND_PARAMETER), 2 * all);
        cr_assert_eq(held(&ddp, KIND_GRADIENT), 2 * trained);
        cr_assert_eq(held(&ddp, KIND_OPTIMIZER) + held(&ddp, KIND_MASTER), 12 * trained);
        cr_assert_eq(held(&ddp, KIND_PADDING), 0);
        cr_assert_eq(held(&zero1, KIND_PARAMETER), 2 * all);
        cr_assert_eq(held(&zero1, KIND_GRADIENT), 2 * trained);
        cr_assert_eq(held(&zero2, KIND_PARAMETER), 2 * all);
        // Rank 0's shards are full: a shard is a part of each bucket, rounded up, and there are fewer than 16 buckets.
        uint64_t partitioned[] = {held(&zero1, KIND_OPTIMIZER) + held(&zero1, KIND_MASTER),
                                  held(&zero2, KIND_OPTIMIZER) + held(&zero2, KIND_MASTER),
                                  held(&zero3, KIND_OPTIMIZER) + held(&zero3, KIND_MASTER)};
        for (int i = 0; i < 3; i++) {
            cr_assert_geq(partitioned[i], 12 * trained / n);
            cr_assert_lt(partitioned[i], 12 * (trained / n + 16));
        }
        cr_assert_geq(held(&zero2, KIND_GRADIENT), 2 * trained / n);
        cr_assert_lt(held(&zero2, KIND_GRADIENT), 2 * (trained / n + 16));
        cr_assert_geq(held(&zero3, KIND_PARAMETER), 2 * all / n);
        cr_assert_lt(held(&zero3, KIND_PARAMETER), 2 * (all / n + 16));
        cr_assert_eq(held(&zero3, KIND_GRADIENT), held(&zero3, KIND_OPTIMIZER) / 4);
    }
}

// ZeRO, section 7: over all ranks, data parallelism and P_os+g send 2 Psi (N-1) elements a step, P_os+g+p 3 Psi (N-1);
// a tied parameter is gathered for each of its two uses, and what the norm and the loss need is added.
Test(formula, traffic_is_that_of_section_7, .init = count)
{
    uint64_t steps = 2;
    for (int world = 1; world <= 4; world++) {
        uint64_t n = (uint64_t)world, pairs = n * (n - 1);
        uint64_t turn = steps * 2 * (n - 1);  // bytes that one pass over one element sends
        uint64_t loss = steps * pairs * sizeof(struct train_report_of_rank);
        uint64_t norm = steps * pairs * (sizeof(uint32_t) + sizeof(struct norm_sum));
        struct train_result ddp = run(0, world, DTYPE_BF16, 1), zero1 = run(1, world, DTYPE_BF16, 1),
                            zero2 = run(2, world, DTYPE_BF16, 1), zero3 = run(3, world, DTYPE_BF16, 1);
        cr_assert_eq(moved(&ddp, OPERATION_ALL_REDUCE), 2 * trained * turn);
        cr_assert_eq(moved(&ddp, OPERATION_ALL_GATHER), loss);
        cr_assert_eq(moved(&zero1, OPERATION_REDUCE_SCATTER), trained * turn);
        cr_assert_eq(moved(&zero1, OPERATION_ALL_GATHER), trained * turn + loss + norm);
        cr_assert_eq(moved(&zero2, OPERATION_REDUCE_SCATTER), trained * turn);
        cr_assert_eq(moved(&zero2, OPERATION_ALL_GATHER), trained * turn + loss + norm);
        cr_assert_eq(moved(&zero3, OPERATION_REDUCE_SCATTER), trained * turn);
        cr_assert_eq(moved(&zero3, OPERATION_ALL_GATHER), 2 * (all + tied) * turn + loss + norm);
    }
}

// ZeRO++, section 1, over 4 ranks in 2 nodes and all ranks together. Across nodes, with elements of 16 bits: a gather
// of codes is half as long as ZeRO-3's; backward's stays in the node; and of a gradient every node sends a quarter of
// an element where every rank sent one to each node. Together 0.5 + 0 + 0.25 for 3. And scales, 4 bytes a block.
Test(formula, traffic_is_that_of_zeropp, .init = count)
{
    enum { N = 4, NODES = 2, LOCALS = 2, STEPS = 2, SCALE = 4 };
    uint64_t uses = all + tied;
    uint64_t other =
        STEPS * N * (N - 1) * (sizeof(struct train_report_of_rank) + sizeof(uint32_t) + sizeof(struct norm_sum));
    struct train_result plain = run(3, N, DTYPE_BF16, 1), qwz = run_zeropp(true, false, 0, 0),
                        qgz = run_zeropp(false, true, LOCALS, 0), one = run_zeropp(false, true, 1, 0),
                        both = run_zeropp(true, true, LOCALS, LOCALS);
    uint64_t gather = STEPS * (N - 1) * (uses + SCALE * gathered_blocks);
    cr_expect_eq(moved(&plain, OPERATION_ALL_GATHER), 2 * 2 * STEPS * (N - 1) * uses + other);
    cr_expect_eq(moved(&qwz, OPERATION_ALL_GATHER), 2 * gather + other);
    cr_expect_eq(moved(&qwz, OPERATION_REDUCE_SCATTER), moved(&plain, OPERATION_REDUCE_SCATTER));
    uint64_t within = NODES * (LOCALS - 1) * 2 * STEPS * uses;
    cr_expect_eq(moved(&both, OPERATION_ALL_GATHER), gather + within + other);
    // Every rank of a node sends the other one half of the gradient, and half of that to the other node.
    uint64_t packed = trained_packed + SCALE * trained_blocks;
    cr_expect_eq(moved(&qgz, OPERATION_ALL_TO_ALL), STEPS * (NODES * (LOCALS - 1) + (NODES - 1)) * packed);
    cr_expect_eq(moved(&both, OPERATION_ALL_TO_ALL), moved(&qgz, OPERATION_ALL_TO_ALL));
    cr_expect_eq(moved(&one, OPERATION_ALL_TO_ALL), STEPS * (N - 1) * packed);
    cr_expect_eq(moved(&qgz, OPERATION_REDUCE_SCATTER), 0);
    cr_expect_eq(moved(&qgz, OPERATION_ALL_GATHER), moved(&plain, OPERATION_ALL_GATHER));
}

// Accumulation: stages 0 and 1 reduce once a step, stages 2 and 3 once a micro-step.
Test(formula, accumulation_multiplies_the_right_terms, .init = count)
{
    uint64_t turn = 2 * 2 * (3 - 1);
    static const enum ledger_operation operations[] = {OPERATION_ALL_REDUCE, OPERATION_REDUCE_SCATTER,
                                                       OPERATION_REDUCE_SCATTER, OPERATION_REDUCE_SCATTER};
    static const uint64_t turns[] = {2, 1, 4, 4};
    for (int stage = 0; stage <= 3; stage++) {
        struct train_result result = run(stage, 3, DTYPE_BF16, 4);
        cr_assert_eq(moved(&result, operations[stage]), turns[stage] * trained * turn, "stage %d", stage);
    }
}

// fp32 has no second copy of the parameters: K is 8.
Test(formula, fp32_has_no_master, .init = count)
{
    struct train_result result = run(0, 2, DTYPE_FP32, 1);
    cr_assert_eq(held(&result, KIND_PARAMETER), 4 * all);
    cr_assert_eq(held(&result, KIND_GRADIENT), 4 * trained);
    cr_assert_eq(held(&result, KIND_OPTIMIZER), 8 * trained);
    cr_assert_eq(held(&result, KIND_MASTER), 0);
}
