// SPDX-License-Identifier: Apache-2.0
// The entries of struct isa_kernels for a GPT, made of the operations of gpt_element.cuh. The template parameter
// `where` runs them:
//   run(operation, count, wide, what)      for elements or columns
//   rows(operation, count, what)           for rows
//   tasks(operation, count, what)          for tasks of whole blocks of threads, of type `block` (gpt_tile.cuh)
//   stream(stream_operation, block_count, what)   for blocks of SUM_ROWS rows, and then for their columns
//   long_rows(operation, count, what)      for rows that many threads share
//   with_rows(operation, count, wide, rows' operation, row_count, what)   for both, neither of which needs the other
//   scratch(bytes, which) -> void *        returns memory for the next operations, until the next call for the same one
//                                          of enum scratch; null: an error is noted
//   give(to, from, bytes, what) -> int     copies from the host, whose memory the caller may change immediately
//   fetch(to, from, bytes, what) -> int    waits, and copies results
#pragma once

#include "ref/cuda/array_kernels.cuh"
#include "ref/cuda/block_sums.cuh"
#include "ref/cuda/gpt_attention.cuh"
#include "ref/cuda/gpt_element.cuh"
#include "ref/cuda/gpt_stream.cuh"
#include "ref/cuda/gpt_token_element.cuh"

#include <algorithm>
#include <initializer_list>
#include <stdlib.h>
#include <vector>

template <typename where> struct gpt_kernels {
    static void operand_round(enum dtype dtype, size_t count, const float *in, void *out)
    {
        array_kernels<where>::narrow(dtype, in, out, count);
    }

    static void bias_add(size_t row_count, size_t width, const float *from, enum dtype dtype, const void *bias,
                         float *out)
    {
        where::rows(bias_add_operation{width, from, in(dtype, bias), out}, row_count, "a bias");
    }

    static void sums_finish()
    {
        block_sums<where>::finish();
    }

    static void layernorm_biases(size_t row_count, size_t width, const float *from, float *stats, enum dtype dtype,
                                 const void *weight, const void *bias, void *out, const struct norm_biases *b)
    {
        assert(!b->rows || b->row_count == row_count);
        const struct operand rows = {dtype, b->rows}, normed = {dtype, out};
        where::rows(layernorm_forward_operation{width, from, stats, in(dtype, weight), in(dtype, bias), normed,
                                                b->rows ? b->width : 0, in(dtype, b->bias_of_rows), rows,
                                                in(dtype, b->bias_of_in), b->sum},
                    row_count, "a layer norm");
    }

    static void layernorm_apply(size_t row_count, size_t width, const float *from, const float *stats, enum dtype dtype,
                                const void *weight, const void *bias, void *out)
    {
        where::rows(layernorm_apply_operation{width, from, stats, in(dtype, weight), in(dtype, bias), {dtype, out}},
                    row_count, "a layer norm");
    }

    static void gelu_forward(size_t row_count, size_t width, const void *from, enum dtype dtype, const void *bias,
                             void *out)
    {
        where::rows(gelu_forward_operation{width, in(dtype, from), in(dtype, bias), {dtype, out}}, row_count, "a GELU");
    }

    static void gelu_backward(size_t row_count, size_t width, const void *from, const void *gradient, enum dtype dtype,
                              const void *bias, void *out, void *in_gradient, float *sum, const struct sum_place *place)
    {
        const char what[] = "a GELU's gradients";
        const struct operand x = in(dtype, from), g = in(dtype, gradient), shift = in(dtype, bias);
        const struct operand value = {dtype, out}, slope = {dtype, in_gradient};
        size_t blocks = sum_block_count(row_count);
        bool wide = are_wide(dtype, width, {from, gradient, bias, out, in_gradient});
        if (!sum) {
            where::rows(gelu_backward_operation{width, x, g, shift, value, slope}, row_count, what);
            return;
        }
        float *sums = block_sums<where>::room(1, blocks, width);
        if (!sums)
            return;
        where::run(gelu_block_operation{row_count, width, x, g, shift, value, slope, sums}, blocks * width, wide, what);
        if (!block_sums<where>::add(blocks, width, sum, place ? *place : sum_place{}))
            block_sums<where>::finish();
    }

    static void attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *stats,
                                  float *scratch)
    {
        if (shape->dtype == DTYPE_FP32)
            attention_output<DTYPE_FP32>(shape, qkv, out, stats, scratch);
        else if (shape->dtype == DTYPE_BF16)
            attention_output<DTYPE_BF16>(shape, qkv, out, stats, scratch);
        else
            attention_output<DTYPE_FP16>(shape, qkv, out, stats, scratch);
    }

    static void attention_backward(const struct attention_shape *shape, const void *qkv, const void *out, float *stats,
                                   const void *out_gradient, void *qkv_gradient, float *scratch)
    {
        if (shape->dtype == DTYPE_FP32)
            attention_gradients<DTYPE_FP32>(shape, qkv, out, stats, out_gradient, qkv_gradient, scratch);
        else if (shape->dtype == DTYPE_BF16)
            attention_gradients<DTYPE_BF16>(shape, qkv, out, stats, out_gradient, qkv_gradient, scratch);
        else
            attention_gradients<DTYPE_FP16>(shape, qkv, out, stats, out_gradient, qkv_gradient, scratch);
    }

    // The host computes the logarithms and the sum over rows.
    static double crossentropy_forward(const struct token_rows *rows, size_t width, size_t stride, void *logits,
                                       float *stats, float scale, enum dtype dtype)
    {
        const char what[] = "a cross-entropy";
        size_t count = rows->sequence_count * rows->length;
        struct token_list list;
        struct row_loss *losses = (struct row_loss *)where::scratch(count * sizeof *losses, SCRATCH_RESULTS);
        struct row_loss *found = (struct row_loss *)malloc((count + 1) * sizeof *found);
        double total = NAN;
        if (losses && found && give_tokens(rows, &list)) {
            total = 0;
            rows_of_logits(width, count,
                           crossentropy_forward_operation{width, stride, {dtype, logits}, stats, losses, list, scale});
            if (count > 0 && where::fetch(found, losses, count * sizeof *found, what))
                total = NAN;
            for (size_t r = 0; r < count; r++)
                total += log((double)found[r].sum) + (double)found[r].largest - (double)found[r].right;
        }
        free(found);
        return total;
    }

    static void crossentropy_backward(const struct token_rows *rows, size_t width, size_t stride, const float *stats,
                                      float scale, enum dtype dtype, void *logits)
    {
        struct token_list list;
        if (give_tokens(rows, &list))
            rows_of_logits(width, list.row_count(),
                           crossentropy_backward_operation{width, stride, {dtype, logits}, stats, scale, list});
    }

    static void embedding_forward(const struct token_rows *rows, size_t width, enum dtype dtype,
                                  const void *token_weight, const void *position_weight, float *out)
    {
        struct token_list list;
        if (give_tokens(rows, &list))
            where::rows(
                embedding_forward_operation{width, in(dtype, token_weight), in(dtype, position_weight), out, list},
                list.row_count(), "an embedding");
    }

    static void embedding_backward(const struct token_rows *rows, size_t width, size_t first_token, size_t token_count,
                                   const float *in, float *, const struct sum_place *places)
    {
        struct token_list list;
        const size_t elements = rows->length * width;
        if (!give_tokens(rows, &list))
            return;
        where::with_rows(position_sums_operation{rows->sequence_count, elements, in, places[1]},
                         places[1].data ? elements : 0,
                         are_wide(DTYPE_FP32, elements, {in}) && is_wide(places[1].dtype, places[1].data),
                         token_sums_operation{width, first_token, in, list, places[0]},
                         places[0].data ? token_count : 0, "an embedding's gradients");
    }

  private:
    template <typename operation> static void rows_of_logits(size_t width, size_t row_count, const operation &o)
    {
        if (width < LONG_ROW)
            where::rows(o, row_count, "a cross-entropy");
        else
            where::long_rows(o, row_count, "a cross-entropy");
    }

    template <enum dtype D>
    static attention_arrays<D> attention_of(const struct attention_shape *shape, const void *qkv,
                                            const void *out_gradient, float *stats, float *sums)
    {
        typedef typename attention_arrays<D>::element element;
        size_t head_width = shape->width / shape->head_count, length = shape->sequence_length;
        size_t rows = where::block::template sum<D>::ROWS;
        bool wide = head_width % tile<D, TILE_OTHER>::WIDE_COLUMNS == 0 &&
                    ((uintptr_t)qkv | (uintptr_t)out_gradient) % sizeof(uint4) == 0;
        return {(unsigned)length,
                (unsigned)shape->head_count,
                (unsigned)shape->width,
                (unsigned)head_width,
                (unsigned)(length / rows + (length % rows > 0)),
                (unsigned)(head_width / TILE_COLUMNS + (head_width % TILE_COLUMNS > 0)),
                (const element *)qkv,
                (const element *)out_gradient,
                NULL,
                NULL,
                stats,
                sums,
                1.0f / sqrtf((float)head_width),
                wide};
    }

    template <enum dtype D>
    static void attention_output(const struct attention_shape *shape, const void *qkv, void *out, float *stats,
                                 float *scratch)
    {
        attention_arrays<D> arrays = attention_of<D>(shape, qkv, NULL, stats, scratch);
        arrays.out = (typename tile_element<D>::type *)out;
        where::tasks(attention_forward_operation<D, typename where::block>{arrays},
                     shape->sequence_count * shape->head_count * arrays.tiles * arrays.panels, "attention");
    }

    template <enum dtype D>
    static void attention_gradients(const struct attention_shape *shape, const void *qkv, const void *out, float *stats,
                                    const void *out_gradient, void *qkv_gradient, float *sums)
    {
        attention_arrays<D> arrays = attention_of<D>(shape, qkv, out_gradient, stats, sums);
        size_t count = shape->sequence_count * shape->head_count * arrays.tiles * arrays.panels;
        arrays.out = (typename tile_element<D>::type *)(uintptr_t)out;
        arrays.qkv_gradient = (typename tile_element<D>::type *)qkv_gradient;
        where::tasks(attention_queries_operation<D, typename where::block>{arrays}, count, "attention's gradients");
        where::tasks(attention_keys_operation<D, typename where::block>{arrays}, count, "attention's gradients");
    }

    // An operand that is only read.
    static struct operand in(enum dtype dtype, const void *data)
    {
        return {dtype, (void *)data};
    }

    // Returns whether arrays, whose rows have `width` elements each, allow loads of WIDE elements.
    static bool are_wide(enum dtype dtype, size_t width, std::initializer_list<const void *> arrays)
    {
        bool wide = width % WIDE == 0;
        for (const void *array : arrays)
            wide = wide && is_wide(dtype, array);
        return wide;
    }

    // The tokens in the threads' memory, where those of the last call may be already; false: an error is noted.
    static bool give_tokens(const struct token_rows *rows, struct token_list *list)
    {
        static thread_local std::vector<uint16_t> given;
        static thread_local void *before;
        const size_t count = rows->sequence_count * (rows->length + 1), bytes = count * sizeof *rows->tokens;
        void *there = where::scratch(bytes, SCRATCH_TOKENS);
        *list = {(const uint16_t *)there, (uint32_t)rows->sequence_count, (uint32_t)rows->length};
        const bool is_there =
            there == before && std::equal(given.begin(), given.end(), rows->tokens, rows->tokens + count);
        before = there;
        if (!there || is_there)
            return there;
        given.assign(rows->tokens, rows->tokens + count);
        return where::give(there, rows->tokens, bytes, "tokens") == 0;
    }
};
