// SPDX-License-Identifier: Apache-2.0
// The loops of a GPT over rows, written for the compiler to vectorise. Each isa_*.c file compiles this text for its
// instruction set; the functions are private to it.
#pragma once

#include "ref/arithmetic/dtype_kernel.h"
#include "ref/arithmetic/gpt_math.h"

#include <math.h>

// The columns that a sum over rows works on at a time, whose partial sums stay in registers.
enum { COLUMN_TILE = 64 };

// lane[j mod ROW_LANES] += term, an expression in j, for j = 0 .. count - 1.
#define LANES_ADD(lane, count, term)                                                                                   \
    do {                                                                                                               \
        size_t whole_ = (count) / ROW_LANES * ROW_LANES;                                                               \
        for (size_t first_ = 0; first_ < whole_; first_ += ROW_LANES) {                                                \
            for (size_t l_ = 0; l_ < ROW_LANES; l_++) {                                                                \
                size_t j = first_ + l_;                                                                                \
                lane[l_] += (term);                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        for (size_t j = whole_; j < (count); j++)                                                                      \
            lane[j - whole_] += (term);                                                                                \
    } while (0)

static float lanes_sum(float lane[ROW_LANES])
{
    for (int half = ROW_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    }
    return lane[0];
}

static void kernel_bias_rows(size_t row_count, size_t width, enum dtype dtype, const void *bias, void *out)
{
    (void)dtype;  // the operand has been rounded
    for (size_t r = 0; r < row_count; r++)
        memcpy((float *)out + r * width, bias, width * sizeof(float));
}

static void kernel_bias_add(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *operand,
                            float *out)
{
    const float *bias = operand;
    (void)dtype;
    for (size_t r = 0; r < row_count; r++) {
        for (size_t j = 0; j < width; j++)
            out[r * width + j] = in[r * width + j] + bias[j];
    }
}

static size_t at_most(size_t count, size_t most)
{
    return count < most ? count : most;
}

// Moves a finished sum to its place.
static void sum_to_place(size_t width, const float *sum, const struct sum_place *place)
{
    if (place && place->data && place->add)
        kernel_accumulate(place->dtype, place->data, DTYPE_FP32, sum, width);
    else if (place && place->data)
        kernel_narrow(place->dtype, sum, place->data, width);
}

static void kernel_rows_sum(size_t row_count, size_t width, enum dtype dtype, const void *operand, float *restrict out,
                            const struct sum_place *place)
{
    const float *restrict in = operand;
    (void)dtype;
    memset(out, 0, width * sizeof *out);
    for (size_t left = row_count; left > 0; left -= at_most(left, SUM_ROWS), in += SUM_ROWS * width) {
        for (size_t tile = 0; tile < width; tile += COLUMN_TILE) {
            size_t columns = at_most(width - tile, COLUMN_TILE);
            float sum[COLUMN_TILE] = {0};
            for (size_t r = 0; r < at_most(left, SUM_ROWS); r++) {
                for (size_t j = 0; j < columns; j++)
                    sum[j] += in[r * width + tile + j];
            }
            for (size_t j = 0; j < columns; j++)
                out[tile + j] += sum[j];
        }
    }
    sum_to_place(width, out, place);
}

static void layernorm_stats(size_t row_count, size_t width, const float *in, float *stats)
{
    for (size_t r = 0; r < row_count; r++, in += width, stats += 2) {
        float lane[ROW_LANES] = {0};
        LANES_ADD(lane, width, in[j]);
        float mean = lanes_sum(lane) / (float)width;
        float square[ROW_LANES] = {0};
        LANES_ADD(square, width, (in[j] - mean) * (in[j] - mean));
        stats[0] = mean;
        stats[1] = 1.0f / sqrtf(lanes_sum(square) / (float)width + 1e-5f);
    }
}

static void kernel_layernorm_apply(size_t row_count, size_t width, const float *restrict in, const float *stats,
                                   enum dtype dtype, const void *weight_operand, const void *bias_operand,
                                   void *operand)
{
    const float *restrict weight = weight_operand, *restrict bias = bias_operand;
    float *restrict out = operand;
    for (size_t r = 0; r < row_count; r++, in += width, out += width) {
        float mean = stats[2 * r], rstd = stats[2 * r + 1];
        for (size_t j = 0; j < width; j++)
            out[j] = (in[j] - mean) * rstd * weight[j] + bias[j];
        kernel_operand_round(dtype, width, out, out);
    }
}

static void kernel_layernorm_forward(size_t row_count, size_t width, const float *in, float *stats, enum dtype dtype,
                                     const void *weight, const void *bias, void *out)
{
    layernorm_stats(row_count, width, in, stats);
    kernel_layernorm_apply(row_count, width, in, stats, dtype, weight, bias, out);
}

// The gradients of one block of rows, added to the weight's and the bias's.
static void layernorm_columns(size_t row_count, size_t width, const float *restrict in, const float *stats,
                              const float *restrict out_gradient, float *restrict weight_gradient,
                              float *restrict bias_gradient)
{
    for (size_t tile = 0; tile < width; tile += COLUMN_TILE) {
        size_t columns = at_most(width - tile, COLUMN_TILE);
        float weight_sum[COLUMN_TILE] = {0}, bias_sum[COLUMN_TILE] = {0};
        for (size_t r = 0; r < row_count; r++) {
            const float *x = in + r * width + tile, *g = out_gradient + r * width + tile;
            float mean = stats[2 * r], rstd = stats[2 * r + 1];
            for (size_t j = 0; j < columns; j++) {
                weight_sum[j] += g[j] * ((x[j] - mean) * rstd);
                bias_sum[j] += g[j];
            }
        }
        for (size_t j = 0; j < columns; j++) {
            weight_gradient[tile + j] += weight_sum[j];
            bias_gradient[tile + j] += bias_sum[j];
        }
    }
}

static void kernel_layernorm_backward(size_t row_count, size_t width, const float *restrict in, const float *stats,
                                      enum dtype dtype, const void *operand, const void *gradient_operand,
                                      float *restrict in_gradient, float *restrict sums, const struct sum_place *places)
{
    const float *restrict weight = operand, *restrict out_gradient = gradient_operand;
    (void)dtype;
    memset(sums, 0, 2 * width * sizeof *sums);
    for (size_t r = 0; r < row_count; r += SUM_ROWS)
        layernorm_columns(at_most(row_count - r, SUM_ROWS), width, in + r * width, stats + 2 * r,
                          out_gradient + r * width, sums, sums + width);
    for (int i = 0; i < 2 && places; i++)
        sum_to_place(width, sums + (size_t)i * width, &places[i]);
    for (size_t r = 0; r < row_count; r++, in += width, out_gradient += width, in_gradient += width) {
        float mean = stats[2 * r], rstd = stats[2 * r + 1];
        float plain[ROW_LANES] = {0}, along[ROW_LANES] = {0};
        LANES_ADD(plain, width, out_gradient[j] * weight[j]);
        LANES_ADD(along, width, out_gradient[j] * weight[j] * ((in[j] - mean) * rstd));
        float plain_mean = lanes_sum(plain) / (float)width, along_mean = lanes_sum(along) / (float)width;
        for (size_t j = 0; j < width; j++) {
            float normal = (in[j] - mean) * rstd;
            in_gradient[j] += rstd * (out_gradient[j] * weight[j] - plain_mean - normal * along_mean);
        }
    }
}

static void kernel_gelu_forward(size_t row_count, size_t width, const void *in_operand, enum dtype dtype,
                                const void *bias_operand, void *operand)
{
    const float *restrict in = in_operand, *restrict bias = bias_operand;
    float *restrict out = operand;
    for (size_t r = 0; r < row_count; r++, in += width, out += width) {
        for (size_t j = 0; j < width; j++)
            out[j] = gelu_value(in[j] + bias[j]);
        kernel_operand_round(dtype, width, out, out);
    }
}

static void kernel_gelu_backward(size_t row_count, size_t width, const void *in_operand, const void *out_gradient,
                                 enum dtype dtype, const void *bias_operand, void *operand, void *gradient_operand,
                                 float *sum, const struct sum_place *place)
{
    const size_t all = row_count * width;
    const float *restrict in = in_operand, *restrict bias = bias_operand, *gradient = out_gradient;
    float *restrict out = operand, *in_gradient = gradient_operand;
    for (size_t r = 0; r < row_count; r++, in += width, out += width, gradient += width, in_gradient += width) {
        IVDEP
        for (size_t j = 0; j < width; j++) {
            struct gelu gelu = gelu_with_slope(in[j] + bias[j]);
            out[j] = gelu.value;
            in_gradient[j] = gradient[j] * gelu.slope;
        }
        kernel_operand_round(dtype, width, out, out);
        kernel_operand_round(dtype, width, in_gradient, in_gradient);
    }
    if (sum)
        kernel_rows_sum(row_count, width, dtype, in_gradient - all, sum, place);
}

static float largest_of(size_t count, const float *row)
{
    float top[ROW_LANES];
    for (size_t l = 0; l < ROW_LANES; l++)
        top[l] = row[0];
    size_t i = 0;
    for (; i + ROW_LANES <= count; i += ROW_LANES) {
        for (size_t l = 0; l < ROW_LANES; l++)
            top[l] = row[i + l] > top[l] ? row[i + l] : top[l];
    }
    for (size_t l = 0; i + l < count; l++)
        top[l] = row[i + l] > top[l] ? row[i + l] : top[l];
    float most = top[0];
    for (size_t l = 1; l < ROW_LANES; l++)
        most = top[l] > most ? top[l] : most;
    return most;
}

static void kernel_embedding_forward(const struct token_rows *rows, size_t width, enum dtype dtype,
                                     const void *token_weight, const void *position_weight, float *out)
{
    for (size_t r = 0; r < rows->sequence_count * rows->length; r++) {
        size_t token = rows->tokens[token_index(rows, r)], position = r % rows->length, bytes = dtype_bytes(dtype);
        const void *const both[] = {(const char *)token_weight + token * width * bytes,
                                    (const char *)position_weight + position * width * bytes};
        kernel_fold(dtype, both, 2, DTYPE_FP32, out + r * width, width);
    }
}

static void kernel_embedding_backward(const struct token_rows *rows, size_t width, size_t first_token,
                                      size_t token_count, const float *restrict in, float *sums,
                                      const struct sum_place *places)
{
    const size_t counts[] = {token_count, rows->length};
    for (int table = 0; table < 2; table++) {
        const struct sum_place *place = &places[table];
        float *restrict sum = place->dtype == DTYPE_FP32 && !place->add ? place->data : sums;
        if (!place->data)
            continue;
        memset(sum, 0, counts[table] * width * sizeof *sum);
        for (size_t r = 0; r < rows->sequence_count * rows->length; r++) {
            size_t to = table == 0 ? rows->tokens[token_index(rows, r)] - first_token : r % rows->length;
            for (size_t j = 0; to < counts[table] && j < width; j++)
                sum[to * width + j] += in[r * width + j];
        }
        if (sum == sums)
            sum_to_place(counts[table] * width, sum, place);
    }
}

// Replaces a row of logits with its gradient.
static void row_gradient(size_t width, size_t target, const float *stats, float scale, enum dtype dtype, float *logits)
{
    float largest = stats[0], inverse = stats[1], right = exp_within(logits[target] - largest) * inverse;
    for (size_t j = 0; j < width; j++)
        logits[j] = exp_within(logits[j] - largest) * inverse * scale;
    logits[target] = (right - 1.0f) * scale;
    kernel_operand_round(dtype, width, logits, logits);
}

static double kernel_crossentropy_forward(const struct token_rows *rows, size_t width, size_t stride, void *operand,
                                          float *stats, float scale, enum dtype dtype)
{
    float *logits = operand;
    double total = 0.0;
    for (size_t r = 0; r < rows->sequence_count * rows->length; r++, logits += stride, stats += 2) {
        float largest = largest_of(width, logits), lane[ROW_LANES] = {0};
        LANES_ADD(lane, width, exp_within(logits[j] - largest));
        float sum = lanes_sum(lane);
        stats[0] = largest;
        stats[1] = 1.0f / sum;
        total += log(sum) + largest - logits[rows->tokens[token_index(rows, r) + 1]];
        if (scale != 0.0f)
            row_gradient(width, rows->tokens[token_index(rows, r) + 1], stats, scale, dtype, logits);
    }
    return total;
}

static void kernel_crossentropy_backward(const struct token_rows *rows, size_t width, size_t stride, const float *stats,
                                         float scale, enum dtype dtype, void *logits)
{
    for (size_t r = 0; r < rows->sequence_count * rows->length; r++)
        row_gradient(width, rows->tokens[token_index(rows, r) + 1], stats + 2 * r, scale, dtype,
                     (float *)logits + r * stride);
}
