// SPDX-License-Identifier: Apache-2.0
// The embedding and the head over blocks of the vocabulary (Megatron-LM's vocabulary-parallel embedding and
// cross-entropy). A rank has the token embeddings of its blocks, and their logits. Of each row the ranks exchange the
// largest logit, the sum of exponentials and the target's logit.
#include "ref/model/gpt_cut.h"

#include "base/err.h"
#include "ref/comm/comm.h"

#include <math.h>

// The token's index among this rank's, or their number if another rank has it.
static size_t own_token(const struct gpt_pass *pass, size_t token)
{
    size_t first = pass->part * pass->vocabulary;
    return token >= first && token - first < pass->vocabulary ? token - first : pass->vocabulary;
}

static size_t token_of(const struct token_rows *rows, size_t r)
{
    return rows->tokens[token_index(rows, r)];
}

static size_t target_of(const struct token_rows *rows, size_t r)
{
    return rows->tokens[token_index(rows, r) + 1];
}

// A row is the sum over blocks of the token's embedding, which one block has, and of zeros; then the position's is
// added.
void gpt_cut_embedding_forward(const struct gpt_pass *pass, const struct token_rows *rows)
{
    size_t width = pass->width, bytes = dtype_bytes(pass->dtype);
    float *sum = pass->memory + pass->at.partials, *out = pass->memory + pass->at.input;
    for (size_t r = 0; r < pass->rows; r++) {
        size_t token = own_token(pass, token_of(rows, r));
        memset(sum + r * width, 0, width * sizeof *sum);
        if (token == pass->vocabulary)
            continue;
        dtype_widen(pass->dtype, (const char *)pass->weights[TOKEN_WEIGHT] + token * width * bytes, sum + r * width,
                    width);
        for (size_t i = 0; i < width; i++)
            sum[r * width + i] += 0.0f;
    }
    sum = pass_scatter_parts(pass, width);
    for (size_t r = 0; r < pass->stream_rows; r++) {
        size_t position = pass_token_row(pass, r) % rows->length;
        dtype_widen(pass->dtype, (const char *)pass->weights[POSITION_WEIGHT] + position * width * bytes,
                    out + r * width, width);
        for (size_t i = 0; i < width; i++)
            out[r * width + i] = sum[r * width + i] + out[r * width + i];
    }
}

// NaN wins, so that the order of parts does not matter.
static float larger(float a, float b)
{
    return b > a || isnan(b) ? b : a;
}

static float largest_of(const float *values, size_t count)
{
    float largest = values[0];
    for (size_t i = 1; i < count; i++)
        largest = larger(largest, values[i]);
    return largest;
}

// The sum of exponentials over one block, with the partial sums of a sum along a row (gpt_math.h).
static float sum_block(const float *logits, size_t count, float largest)
{
    float lane[ROW_LANES] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % ROW_LANES] += exp_within(logits[i] - largest);
    for (int half = ROW_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static float sum_blocks(const struct gpt_pass *pass, const float *logits, float largest)
{
    float sums[pass->blocks];
    size_t count = pass->vocabulary / pass->blocks;
    for (size_t block = 0; block < pass->blocks; block++)
        sums[block] = sum_block(logits + block * count, count, largest);
    pass_fold_tree(sums, pass->blocks, 1);
    return sums[0];
}

// all[part][...] receives `count` floats of every part, this one's being `own`.
static void gather(const struct gpt_pass *pass, const float *own, float *all, size_t count)
{
    struct model_run *run = pass->run;
    if (pass->parts == 1)
        memcpy(all, own, count * sizeof *own);
    else if (run->code == ERR_NONE)
        run->code = run->tensor_comm ? comm_all_gather_equal(run->tensor_comm, own, all, count * sizeof *own)
                                     : pass_alone(pass);
}

static void gather_largest(const struct gpt_pass *pass, float *stats)
{
    const float *logits = pass->memory + pass->at.logits;
    float *own = pass->memory + pass->at.vocabulary_rows, *all = own + 2 * pass->rows;
    for (size_t r = 0; r < pass->rows; r++)
        own[r] = largest_of(logits + r * pass->at.logits_stride, pass->vocabulary);
    gather(pass, own, all, pass->rows);
    for (size_t r = 0; r < pass->rows; r++) {
        stats[2 * r] = all[r];
        for (size_t part = 1; part < pass->parts; part++)
            stats[2 * r] = larger(stats[2 * r], all[part * pass->rows + r]);
    }
}

// Returns the sum over rows of the loss.
static double gather_sums(const struct gpt_pass *pass, const struct token_rows *rows, float *stats)
{
    const float *logits = pass->memory + pass->at.logits;
    float *own = pass->memory + pass->at.vocabulary_rows, *all = own + 2 * pass->rows;
    double total = 0.0;
    for (size_t r = 0; r < pass->rows; r++) {
        const float *row = logits + r * pass->at.logits_stride;
        size_t target = own_token(pass, target_of(rows, r));
        own[2 * r] = sum_blocks(pass, row, stats[2 * r]);
        own[2 * r + 1] = target < pass->vocabulary ? row[target] : 0.0f;
    }
    gather(pass, own, all, 2 * pass->rows);
    for (size_t r = 0; r < pass->rows; r++) {
        float sums[pass->parts];
        for (size_t part = 0; part < pass->parts; part++)
            sums[part] = all[2 * (part * pass->rows + r)];
        pass_fold_tree(sums, pass->parts, 1);
        size_t owner = target_of(rows, r) / pass->vocabulary;
        stats[2 * r + 1] = 1.0f / sums[0];
        total += log(sums[0]) + stats[2 * r] - all[2 * (owner * pass->rows + r) + 1];
    }
    return total;
}

void gpt_cut_head_forward(const struct gpt_pass *pass, const struct token_rows *rows, const void *normed)
{
    size_t n = pass->vocabulary / pass->blocks, width = pass->width;
    float *logits = pass->memory + pass->at.logits, *stats = pass->memory + pass->at.wide_2;
    for (size_t column = 0; column < pass->vocabulary; column += n)
        pass_product(pass, pass->rows, width, pass_operand(pass, normed, 0, width, false),
                     pass_operand(pass, pass->weights[HEAD_TOKEN_WEIGHT], column * width, width, true),
                     (struct gpt_result){
                         .data = logits + column, .width = n, .stride = pass->at.logits_stride, .is_operand = true});
    gather_largest(pass, stats);
    pass->run->loss = gather_sums(pass, rows, stats) / (double)pass->rows;
}

// Each row becomes scale x (softmax - target), an operand.
static void logits_gradient(const struct gpt_pass *pass, const struct token_rows *rows, float scale)
{
    const float *stats = pass->memory + pass->at.wide_2;
    for (size_t r = 0; r < pass->rows; r++) {
        float *row = pass->memory + pass->at.logits + r * pass->at.logits_stride;
        float largest = stats[2 * r], inverse = stats[2 * r + 1], right = 0.0f;
        size_t target = own_token(pass, target_of(rows, r));
        if (target < pass->vocabulary)
            right = exp_within(row[target] - largest) * inverse;
        for (size_t i = 0; i < pass->vocabulary; i++)
            row[i] = exp_within(row[i] - largest) * inverse * scale;
        if (target < pass->vocabulary)
            row[target] = (right - 1.0f) * scale;
        operand_round(pass->dtype, pass->vocabulary, row, row);
    }
}

static void make_normed_gradient(const struct gpt_pass *pass, const struct gpt_blocks *s, size_t block,
                                 struct gpt_result out)
{
    size_t k = s->width / pass->blocks;
    pass_product(pass, pass->rows, k, pass_operand(pass, s->in, block * k, pass->at.logits_stride, false),
                 pass_operand(pass, pass->weights[s->index], block * k * pass->width, pass->width, false), out);
}

void gpt_cut_head_backward(const struct gpt_pass *pass, const struct token_rows *rows, float scale, const void *normed,
                           float *normed_gradient)
{
    size_t m = pass->vocabulary / pass->blocks, width = pass->width;
    const float *logits = pass->memory + pass->at.logits;
    logits_gradient(pass, rows, scale);
    if (pass_wants(pass, HEAD_TOKEN_WEIGHT)) {
        float *target = pass_gradient(pass, HEAD_TOKEN_WEIGHT);
        for (size_t row = 0; row < pass->vocabulary; row += m)
            pass_product(pass, m, pass->rows, pass_operand(pass, logits, row, pass->at.logits_stride, true),
                         pass_operand(pass, normed, 0, width, false),
                         (struct gpt_result){.data = target + row * width, .width = width});
        pass_hand_over(pass, HEAD_TOKEN_WEIGHT, target);
    }
    const struct gpt_blocks blocks = {make_normed_gradient, HEAD_TOKEN_WEIGHT, logits, pass->vocabulary, 1, true};
    const float *sum = pass_sum_blocks(pass, &blocks, width);
    operand_round(pass->dtype, pass->stream_rows * width, sum, normed_gradient);
}
