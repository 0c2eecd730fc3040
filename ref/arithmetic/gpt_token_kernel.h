// SPDX-License-Identifier: Apache-2.0
// The loops of a GPT over tokens, embeddings and losses, as gpt_kernel.h, which comes first.
static void kernel_embedding_forward(const struct token_rows *rows, size_t width, enum dtype dtype,
                                     const void *token_weight, const void *position_weight, float *out)
{
    for (size_t r = 0; r < rows->sequence_count * rows->length; r++) {
        size_t token = rows->tokens[token_index(rows, r)], position = r % rows->length, bytes = dtype_bytes(dtype);
        const void *const both[] = {(const char *)token_weight + token * width * bytes,
                                    (const char *)position_weight + position * width * bytes};
        kernel_fold(dtype, both, 2, DTYPE_FP32, out + r * width, width, false);
    }
}

static void kernel_token_backward(const struct token_rows *rows, size_t width, const float *restrict in,
                                  float *restrict gradient)
{
    for (size_t r = 0; r < rows->sequence_count * rows->length; r++) {
        float *to = gradient + rows->tokens[token_index(rows, r)] * width;
        for (size_t j = 0; j < width; j++)
            to[j] += in[r * width + j];
    }
}

static void kernel_position_backward(const struct token_rows *rows, size_t width, const float *restrict in,
                                     float *restrict gradient)
{
    for (size_t s = 0; s < rows->sequence_count; s++, in += rows->length * width) {
        for (size_t i = 0; i < rows->length * width; i++)
            gradient[i] += in[i];
    }
}

static double kernel_crossentropy_forward(const struct token_rows *rows, size_t width, size_t stride,
                                          const float *logits, float *stats)
{
    double total = 0.0;
    for (size_t r = 0; r < rows->sequence_count * rows->length; r++, logits += stride, stats += 2) {
        float largest = largest_of(width, logits), lane[ROW_LANES] = {0};
        LANES_ADD(lane, width, exp_within(logits[j] - largest));
        float sum = lanes_sum(lane);
        stats[0] = largest;
        stats[1] = 1.0f / sum;
        total += log(sum) + largest - logits[rows->tokens[token_index(rows, r) + 1]];
    }
    return total;
}

static void kernel_crossentropy_backward(const struct token_rows *rows, size_t width, size_t stride, const float *stats,
                                         float scale, enum dtype dtype, float *logits)
{
    for (size_t r = 0; r < rows->sequence_count * rows->length; r++, logits += stride, stats += 2) {
        size_t target = rows->tokens[token_index(rows, r) + 1];
        float largest = stats[0], inverse = stats[1], right = exp_within(logits[target] - largest) * inverse;
        for (size_t j = 0; j < width; j++)
            logits[j] = exp_within(logits[j] - largest) * inverse * scale;
        logits[target] = (right - 1.0f) * scale;
        kernel_operand_round(dtype, width, logits, logits);
    }
}
