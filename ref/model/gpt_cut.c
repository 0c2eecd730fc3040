// SPDX-License-Identifier: Apache-2.0
// The products with a layer's matrices, whole or over blocks (gpt.h, product_blocks), on one rank or on those of tensor
// parallelism (Megatron-LM, arXiv:1909.08053, section 3). With blocks every product has the shape of one block,
// wherever the block lies.
//
// The sum over blocks is a balanced binary tree: ((b0 + b1) + (b2 + b3)). A rank folds the subtree of its own blocks,
// and the T ranks sum T partial sums: each receives a slice of all of them (all-to-all), folds it as the upper part of
// the tree, and all gather the slices (all-gather). These are the 2 (T-1)/T of a ring all-reduce, with an order that
// does not depend on T.
#include "ref/model/gpt_cut.h"

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/comm/comm.h"

#include <assert.h>

bool pass_is_cut(const struct gpt_pass *pass)
{
    return pass->shape->product_blocks > 1;
}

// A matrix's role in a block; an expert's matrices have the MLP's roles. BLOCK_PARAMS: the router, whose products are
// whole.
static int role_of(const struct gpt_pass *pass, int index)
{
    if (pass->shape->experts.count == 0 || index < ROUTER_WEIGHT)
        return index;
    return index == ROUTER_WEIGHT ? BLOCK_PARAMS : FC_WEIGHT + (index - ROUTER_WEIGHT - 1) % EXPERT_PARAMS;
}

static bool is_over_blocks(const struct gpt_pass *pass, int index)
{
    return pass_is_cut(pass) && role_of(pass, index) < BLOCK_PARAMS;
}

// Matrices of a block whose columns are cut; the others' rows are.
static bool has_columns_cut(const struct gpt_pass *pass, int index)
{
    int role = role_of(pass, index);
    return role == QKV_WEIGHT || role == FC_WEIGHT;
}

// The runs of columns that a block has of a matrix: QKV has three, in the order of its columns.
static size_t runs_of(const struct gpt_pass *pass, int index)
{
    return role_of(pass, index) == QKV_WEIGHT ? 3 : 1;
}

struct matmul_operand pass_operand(const struct gpt_pass *pass, const void *data, size_t element, size_t stride,
                                   bool transposed)
{
    return (struct matmul_operand){(const char *)data + element * pass->operand_bytes, stride, transposed};
}

struct gpt_result pass_columns(const struct gpt_pass *pass, struct gpt_result result, size_t column, size_t width)
{
    size_t bytes = result.is_operand ? pass->operand_bytes : sizeof(float);
    result.data = (char *)result.data + column * bytes;
    result.stride = result.stride ? result.stride : result.width;
    result.width = width;
    return result;
}

static float *partial(const struct gpt_pass *pass, size_t level)
{
    return pass->memory + pass->at.partials + level * pass->at.partial;
}

// A subtree over blocks: its leaves have row_count rows of out_width floats.
struct subtree {
    const struct gpt_blocks *blocks;
    size_t row_count, out_width, first, count;
};

// Leaves the sum in the level's partial sum; higher levels are scratch.
static void sum_subtree(const struct gpt_pass *pass, struct subtree tree, size_t level)
{
    float *sum = partial(pass, level), *other = partial(pass, level + 1);
    if (tree.count == 1) {
        tree.blocks->make(pass, tree.blocks, tree.first, (struct gpt_result){.data = sum, .width = tree.out_width});
        return;
    }
    tree.count /= 2;
    sum_subtree(pass, tree, level);
    tree.first += tree.count;
    sum_subtree(pass, tree, level + 1);
    for (size_t i = 0; i < tree.row_count * tree.out_width; i++)
        sum[i] += other[i];
}

void pass_fold_tree(float *slices, size_t slice_count, size_t stride)
{
    for (size_t apart = 1; apart < slice_count; apart *= 2)
        for (size_t i = 0; i + apart < slice_count; i += 2 * apart)
            for (size_t k = 0; k < stride; k++)
                slices[i * stride + k] += slices[(i + apart) * stride + k];
}

static int exchange(const struct gpt_pass *pass, float *sum, size_t total)
{
    struct comm *comm = pass->run->tensor_comm;
    size_t world = (size_t)comm_world(comm), rank = (size_t)comm_rank(comm);
    size_t counts[world], offsets[world], own_counts[world], own_offsets[world], used = 0;
    for (size_t i = 0; i < world; i++) {
        counts[i] = total / world + (i < total % world);
        offsets[i] = used;
        used += counts[i];
    }
    for (size_t i = 0; i < world; i++) {
        own_counts[i] = counts[rank];
        own_offsets[i] = i * counts[rank];
    }
    float *slices = pass->memory + pass->at.slices;
    TRY(comm_all_to_all(comm, sum, counts, offsets, slices, own_counts, own_offsets, DTYPE_FP32));
    pass_fold_tree(slices, world, counts[rank]);
    return comm_all_gather(comm, slices, sum, counts, offsets, DTYPE_FP32);
}

int pass_alone(const struct gpt_pass *pass)
{
    return err_set(ERR_INTERNAL, "a part of %s runs without the others", pass->run->model->name);
}

float *pass_sum_parts(const struct gpt_pass *pass, size_t count)
{
    struct model_run *run = pass->run;
    float *sum = partial(pass, 0);
    if (pass->parts > 1 && run->code == ERR_NONE)
        run->code = run->tensor_comm ? exchange(pass, sum, count) : pass_alone(pass);
    return sum;
}

void pass_sum_own(const struct gpt_pass *pass, const struct gpt_blocks *blocks, size_t row_count, size_t out_width)
{
    assert(row_count * out_width <= pass->at.partial);
    sum_subtree(pass, (struct subtree){blocks, row_count, out_width, 0, pass->blocks}, 0);
}

float *pass_sum_blocks(const struct gpt_pass *pass, const struct gpt_blocks *blocks, size_t out_width)
{
    pass_sum_own(pass, blocks, pass->rows, out_width);
    return blocks->is_stream ? pass_scatter_parts(pass, out_width) : pass_sum_parts(pass, pass->rows * out_width);
}

void pass_sum_into(const struct gpt_pass *pass, const struct gpt_blocks *blocks, struct gpt_result out)
{
    assert(!out.stride);
    size_t count = (blocks->is_stream ? pass->stream_rows : pass->rows) * out.width;
    const float *sum = pass_sum_blocks(pass, blocks, out.width);
    float *to = out.data;
    for (size_t i = 0; i < count; i++)
        to[i] = out.add ? to[i] + sum[i] : sum[i];
    if (out.is_operand)
        operand_round(pass->dtype, count, to, to);
}

// A block's rows of W: out = in_b W_b.
static void make_rows_product(const struct gpt_pass *pass, const struct gpt_blocks *s, size_t block,
                              struct gpt_result out)
{
    size_t k = s->width / pass->blocks;
    pass_product(pass, pass->rows, k, pass_operand(pass, s->in, block * k, s->width, false),
                 pass_operand(pass, pass->weights[s->index], block * k * pass->width, pass->width, false), out);
}

// A block's columns of W: din = dout_b W_b^T; of QKV query, key and value, one after the other.
static void make_columns_back(const struct gpt_pass *pass, const struct gpt_blocks *s, size_t block,
                              struct gpt_result out)
{
    size_t k = s->width / (s->runs * pass->blocks);
    for (size_t column = block * k; column < s->width; column += k * pass->blocks) {
        pass_product(pass, pass->rows, k, pass_operand(pass, s->in, column, s->width, false),
                     pass_operand(pass, pass->weights[s->index], column, s->width, true), out);
        out.add = true;
    }
}

static void multiply_blocks(const struct gpt_pass *pass, int index, const void *in, size_t in_width,
                            struct gpt_result out)
{
    if (!has_columns_cut(pass, index)) {
        pass_sum_into(pass, &(struct gpt_blocks){make_rows_product, index, in, in_width, 1, true}, out);
        return;
    }
    size_t n = out.width / (runs_of(pass, index) * pass->blocks);
    for (size_t column = 0; column < out.width; column += n)
        pass_product(pass, pass->rows, in_width, pass_operand(pass, in, 0, in_width, false),
                     pass_operand(pass, pass->weights[index], column, out.width, false),
                     pass_columns(pass, out, column, n));
}

static void multiply_back_blocks(const struct gpt_pass *pass, int index, const void *out_gradient, size_t out_width,
                                 struct gpt_result in_gradient)
{
    if (has_columns_cut(pass, index)) {
        const struct gpt_blocks blocks = {make_columns_back,    index, out_gradient, out_width,
                                          runs_of(pass, index), true};
        pass_sum_into(pass, &blocks, in_gradient);
        return;
    }
    size_t n = in_gradient.width / pass->blocks;
    for (size_t column = 0; column < in_gradient.width; column += n)
        pass_product(pass, pass->rows, out_width, pass_operand(pass, out_gradient, 0, out_width, false),
                     pass_operand(pass, pass->weights[index], column * out_width, out_width, true),
                     pass_columns(pass, in_gradient, column, n));
}

void pass_block_gradient(const struct gpt_pass *pass, const void *left, size_t left_width, size_t row_blocks,
                         const void *right, size_t right_width, size_t column_blocks, float *target)
{
    size_t m = left_width / row_blocks, n = right_width / column_blocks;
    for (size_t row = 0; row < left_width; row += m)
        for (size_t column = 0; column < right_width; column += n)
            pass_product(
                pass, m, pass->rows, pass_operand(pass, left, row, left_width, true),
                pass_operand(pass, right, column, right_width, false),
                (struct gpt_result){.data = target + row * right_width + column, .width = n, .stride = right_width});
}

void pass_weight_gradient_into(const struct gpt_pass *pass, int index, const void *in, size_t in_width,
                               const void *out_gradient, size_t out_width, float *target)
{
    bool is_cut = is_over_blocks(pass, index), by_column = is_cut && has_columns_cut(pass, index);
    pass_block_gradient(pass, in, in_width, is_cut && !by_column ? pass->blocks : 1, out_gradient, out_width,
                        by_column ? runs_of(pass, index) * pass->blocks : 1, target);
}

void pass_multiply(const struct gpt_pass *pass, int index, const void *in, size_t in_width, struct gpt_result out)
{
    if (is_over_blocks(pass, index)) {
        multiply_blocks(pass, index, in, in_width, out);
        return;
    }
    pass_product(pass, pass->rows, in_width, (struct matmul_operand){in, in_width, false},
                 (struct matmul_operand){pass->weights[index], out.width, false}, out);
}

void pass_multiply_back(const struct gpt_pass *pass, int index, const void *out_gradient, size_t out_width,
                        struct gpt_result in_gradient)
{
    if (is_over_blocks(pass, index)) {
        multiply_back_blocks(pass, index, out_gradient, out_width, in_gradient);
        return;
    }
    pass_product(pass, pass->rows, out_width, (struct matmul_operand){out_gradient, out_width, false},
                 (struct matmul_operand){pass->weights[index], out_width, true}, in_gradient);
}

void pass_weight_gradient(const struct gpt_pass *pass, int index, const void *in, size_t in_width,
                          const void *out_gradient, size_t out_width)
{
    if (is_over_blocks(pass, index)) {
        if (!pass_wants(pass, index))
            return;
        float *target = pass_gradient(pass, index);
        pass_weight_gradient_into(pass, index, in, in_width, out_gradient, out_width, target);
        pass_hand_over(pass, index, target);
        return;
    }
    pass_weight_product(pass, index, in_width, (struct matmul_operand){in, in_width, true}, out_gradient, out_width);
}
