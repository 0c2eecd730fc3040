// SPDX-License-Identifier: Apache-2.0
// The passes of a GPT whose products are over blocks (gpt.h, product_blocks): gpt_cut.c has the products of its layers
// (gpt_pass.h) and their sums, gpt_cut_ends.c the embedding and the head over blocks of the vocabulary, gpt_sequence.c
// the stream's rows over blocks of positions.
#pragma once

#include "ref/model/gpt_pass.h"

// True if the model has blocks.
bool pass_is_cut(const struct gpt_pass *pass);

// A sum over blocks of rows of out_width floats: make overwrites out with this rank's block-th term. The other fields
// are make's.
struct gpt_blocks {
    void (*make)(const struct gpt_pass *pass, const struct gpt_blocks *blocks, size_t block, struct gpt_result out);
    int index;
    const void *in;
    size_t width;    // of in, all blocks of this rank
    size_t runs;     // of columns that a block has of in, as far apart as its columns in all blocks; 3 for QKV
    bool is_stream;  // the sum is of the stream's rows, of which this rank may have some (gpt_pass.h)
};

// Returns the sum over all blocks of all ranks, of the pass's rows or of the stream's. It lies in scratch memory, valid
// until the next sum.
float *pass_sum_blocks(const struct gpt_pass *pass, const struct gpt_blocks *blocks, size_t out_width);

// The same, written to out or added to it.
void pass_sum_into(const struct gpt_pass *pass, const struct gpt_blocks *blocks, struct gpt_result out);

// Leaves the sum over this rank's blocks, of row_count rows, at at.partials.
void pass_sum_own(const struct gpt_pass *pass, const struct gpt_blocks *blocks, size_t row_count, size_t out_width);

// Returns the sum over ranks of these partial sums of `count` floats at at.partials.
float *pass_sum_parts(const struct gpt_pass *pass, size_t count);

// As pass_sum_parts, of all rows of `width` floats; returns the stream's rows of the sum.
float *pass_scatter_parts(const struct gpt_pass *pass, size_t width);

// Fails the run: this part of a model needs peers of tensor parallelism, and has none.
int pass_alone(const struct gpt_pass *pass);

// This rank's rows of the stream of all rows: to at.partials, or `all` itself where it has them all (pass_all_rows).
const void *pass_own_rows(const struct gpt_pass *pass, const void *all, size_t width);

// Maps row r of the stream to its row of the micro-batch.
size_t pass_token_row(const struct gpt_pass *pass, size_t r);

// target = left^T right, both with the pass's rows, block by block: left's columns in row_blocks, right's in
// column_blocks.
void pass_block_gradient(const struct gpt_pass *pass, const void *left, size_t left_width, size_t row_blocks,
                         const void *right, size_t right_width, size_t column_blocks, float *target);

// `width` columns of a result from `column` on.
struct gpt_result pass_columns(const struct gpt_pass *pass, struct gpt_result result, size_t column, size_t width);

// slices[0] = the sum of slice_count slices, a power of two, of `stride` floats, as a balanced tree. Overwrites them.
void pass_fold_tree(float *slices, size_t slice_count, size_t stride);

// An operand that begins at an element.
struct matmul_operand pass_operand(const struct gpt_pass *pass, const void *data, size_t element, size_t stride,
                                   bool transposed);

void gpt_cut_embedding_forward(const struct gpt_pass *pass, const struct token_rows *rows);
// The products of the head and its loss; the layer norm around them is every GPT's.
void gpt_cut_head_forward(const struct gpt_pass *pass, const struct token_rows *rows, const void *normed);
void gpt_cut_head_backward(const struct gpt_pass *pass, const struct token_rows *rows, float scale, const void *normed,
                           float *normed_gradient);
