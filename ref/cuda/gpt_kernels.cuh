// SPDX-License-Identifier: Apache-2.0
// The entries of struct isa_kernels for a GPT, made of the operations of gpt_element.cuh. The template parameter
// `where` runs them: run(operation, count, wide, what) for elements or columns, rows(operation, count, what) for rows,
// results(count) allocates losses, and fetch copies them to the host.
#ifndef ZG_GPT_KERNELS_CUH
#define ZG_GPT_KERNELS_CUH

#include "ref/cuda/gpt_element.cuh"

#include <string.h>

template <typename where> struct gpt_kernels {
    static void bias_add(size_t row_count, size_t width, const float *in, const float *bias, float *out)
    {
        where::rows(bias_add_operation{width, in, bias, out}, row_count, "a bias");
    }

    static void rows_sum(size_t row_count, size_t width, const float *in, float *out)
    {
        where::run(rows_sum_operation{row_count, width, in, out}, width, false, "a sum of rows");
    }

    static void layernorm_stats(size_t row_count, size_t width, const float *in, float *stats)
    {
        where::rows(layernorm_stats_operation{width, in, stats}, row_count, "a layer norm");
    }

    static void layernorm_apply(size_t row_count, size_t width, const float *in, const float *stats,
                                const float *weight, const float *bias, float *out)
    {
        where::rows(layernorm_apply_operation{width, in, stats, weight, bias, out}, row_count, "a layer norm");
    }

    static void layernorm_backward(size_t row_count, size_t width, const float *in, const float *stats,
                                   const float *weight, const float *out_gradient, float *in_gradient,
                                   float *weight_gradient, float *bias_gradient)
    {
        where::run(
            layernorm_column_operation{row_count, width, in, stats, out_gradient, weight_gradient, bias_gradient},
            width, false, "a layer norm's gradients");
        where::rows(layernorm_row_operation{width, in, stats, weight, out_gradient, in_gradient}, row_count,
                    "a layer norm's gradients");
    }

    static void gelu_forward(size_t count, const float *in, float *out)
    {
        where::run(gelu_forward_operation{in, out}, count, false, "a GELU");
    }

    static void gelu_backward(size_t count, const float *in, float *out, float *gradient)
    {
        where::run(gelu_backward_operation{in, out, gradient}, count, false, "a GELU's gradients");
    }

    static void softmax_causal(size_t count, size_t length, float *scores)
    {
        where::rows(softmax_causal_operation{length, scores}, count * length, "a softmax");
    }

    static void softmax_causal_backward(size_t count, size_t length, const float *softmax, float *gradient)
    {
        where::rows(softmax_causal_backward_operation{length, softmax, gradient}, count * length,
                    "a softmax' gradients");
    }

    // The host computes the logarithms and the sum over rows.
    static double crossentropy_forward(size_t row_count, size_t width, float *logits, const uint16_t *target)
    {
        double total = 0;
        for (size_t first = 0, count; first < row_count; first += count) {
            count = tokens_now(row_count - first);
            struct row_loss found[ROW_TOKENS], *losses = where::results(count);
            if (!losses)
                return NAN;
            where::rows(
                crossentropy_forward_operation{width, logits + first * width, losses, tokens_of(target + first, count)},
                count, "a cross-entropy");
            if (where::fetch(found, losses, count * sizeof *found, "a cross-entropy"))
                return NAN;
            for (size_t r = 0; r < count; r++)
                total += log((double)found[r].sum) + (double)found[r].largest - (double)found[r].right;
        }
        return total;
    }

    static void crossentropy_backward(size_t row_count, size_t width, float *softmax, const uint16_t *target,
                                      float scale)
    {
        for (size_t first = 0, count; first < row_count; first += count) {
            count = tokens_now(row_count - first);
            where::rows(crossentropy_backward_operation{width, softmax + first * width, scale,
                                                        tokens_of(target + first, count)},
                        count, "a cross-entropy's gradients");
        }
    }

    static void embedding_forward(size_t row_count, size_t width, const uint16_t *tokens, const float *token_weight,
                                  const float *position_weight, float *out)
    {
        for (size_t first = 0, count; first < row_count; first += count) {
            count = tokens_now(row_count - first);
            where::rows(embedding_forward_operation{width, token_weight, position_weight + first * width,
                                                    out + first * width, tokens_of(tokens + first, count)},
                        count, "an embedding");
        }
    }

    static void embedding_backward(size_t row_count, size_t width, const uint16_t *tokens, const float *in,
                                   float *gradient)
    {
        for (size_t first = 0, count; first < row_count; first += count) {
            count = tokens_now(row_count - first);
            // Without tokens, row r adds to row r of the gradient.
            float *from = tokens ? gradient : gradient + first * width;
            where::run(embedding_backward_operation{count, width, tokens != NULL, in + first * width, from,
                                                    tokens_of(tokens ? tokens + first : NULL, count)},
                       width, false, "an embedding's gradients");
        }
    }

  private:
    static size_t tokens_now(size_t left)
    {
        return left < ROW_TOKENS ? left : (size_t)ROW_TOKENS;
    }

    static struct row_tokens tokens_of(const uint16_t *tokens, size_t count)
    {
        struct row_tokens list;
        memset(&list, 0, sizeof list);
        if (tokens)
            memcpy(list.of, tokens, count * sizeof *tokens);
        return list;
    }
};

#endif
