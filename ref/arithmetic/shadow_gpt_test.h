// SPDX-License-Identifier: Apache-2.0
// For tests, part of shadow_test.h: a GPT's kernels and matrix products on the simulated accelerator. Its operands have
// the format itself; those of isa_scalar.c, which does the work, are floats.
#ifndef ZG_SHADOW_GPT_TEST_H
#define ZG_SHADOW_GPT_TEST_H

#include "ref/arithmetic/gpt_math.h"

struct shadow_operand {
    enum dtype dtype;
    void *there;
    float *floats;
    size_t count;
};

static struct shadow_operand shadow_open(enum dtype dtype, const void *address, size_t count)
{
    struct shadow_operand operand = {dtype, at(address), at(address), count};
    if (dtype != DTYPE_FP32) {
        operand.floats = malloc((count + 1) * sizeof(float));
        isa_scalar.widen(dtype, operand.there, operand.floats, count);
    }
    return operand;
}

static void shadow_close(struct shadow_operand *operand, bool is_written)
{
    if (operand->dtype == DTYPE_FP32)
        return;
    if (is_written)
        isa_scalar.narrow(operand->dtype, operand->floats, operand->there, operand->count);
    free(operand->floats);
}

static size_t shadow_span(struct matmul_operand operand, size_t rows, size_t columns)
{
    return operand.transposed ? (columns - 1) * operand.stride + rows : (rows - 1) * operand.stride + columns;
}

static void shadow_matmul(const struct matmul_product *product)
{
    size_t m = product->m, n = product->n, k = product->k;
    const struct matmul_operand result = {product->c, product->c_stride, false};
    struct shadow_operand a = shadow_open(product->dtype, product->a.data, shadow_span(product->a, m, k));
    struct shadow_operand b = shadow_open(product->dtype, product->b.data, shadow_span(product->b, k, n));
    struct shadow_operand c =
        shadow_open(product->c_is_operand ? product->dtype : DTYPE_FP32, product->c, shadow_span(result, m, n));
    struct matmul_product there = *product;
    there.a.data = a.floats;
    there.b.data = b.floats;
    there.c = c.floats;
    matmul_operands(&there);
    shadow_close(&a, false);
    shadow_close(&b, false);
    shadow_close(&c, true);
}

// Changes the last element of a product's result.
static inline void shadow_spoil(const struct matmul_product *product)
{
    size_t last = (product->m - 1) * product->c_stride + product->n - 1;
    if (product->c_is_operand && product->dtype != DTYPE_FP32)
        ((uint16_t *)at(product->c))[last] ^= 0x4000;
    else
        ((float *)at(product->c))[last] += 1;
}

static void shadow_operand_round(enum dtype dtype, size_t count, const float *in, void *out)
{
    isa_scalar.narrow(dtype, at(in), at(out), count);
}

static void shadow_bias_rows(size_t row_count, size_t width, enum dtype dtype, const void *bias, void *out)
{
    struct shadow_operand from = shadow_open(dtype, bias, width), operand = shadow_open(dtype, out, row_count * width);
    isa_scalar.bias_rows(row_count, width, dtype, from.floats, operand.floats);
    shadow_close(&from, false);
    shadow_close(&operand, true);
}

static void shadow_bias_add(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *bias,
                            float *out)
{
    struct shadow_operand from = shadow_open(dtype, bias, width);
    isa_scalar.bias_add(row_count, width, at(in), dtype, from.floats, at(out));
    shadow_close(&from, false);
}

static void shadow_rows_sum(size_t row_count, size_t width, enum dtype dtype, const void *in, float *out)
{
    struct shadow_operand operand = shadow_open(dtype, in, row_count * width);
    isa_scalar.rows_sum(row_count, width, dtype, operand.floats, at(out));
    shadow_close(&operand, false);
}

static void shadow_layernorm_stats(size_t row_count, size_t width, const float *in, float *stats)
{
    isa_scalar.layernorm_stats(row_count, width, at(in), at(stats));
}

static void shadow_layernorm_apply(size_t row_count, size_t width, const float *in, const float *stats,
                                   enum dtype dtype, const void *weight, const void *bias, void *out)
{
    struct shadow_operand scale = shadow_open(dtype, weight, width), shift = shadow_open(dtype, bias, width);
    struct shadow_operand operand = shadow_open(dtype, out, row_count * width);
    isa_scalar.layernorm_apply(row_count, width, at(in), at(stats), dtype, scale.floats, shift.floats, operand.floats);
    shadow_close(&scale, false);
    shadow_close(&shift, false);
    shadow_close(&operand, true);
}

static void shadow_layernorm_backward(size_t row_count, size_t width, const float *in, const float *stats,
                                      enum dtype dtype, const void *weight, const float *out_gradient,
                                      float *in_gradient, float *weight_gradient, float *bias_gradient)
{
    struct shadow_operand scale = shadow_open(dtype, weight, width);
    isa_scalar.layernorm_backward(row_count, width, at(in), at(stats), dtype, scale.floats, at(out_gradient),
                                  at(in_gradient), at(weight_gradient), at(bias_gradient));
    shadow_close(&scale, false);
}

static void shadow_gelu_forward(size_t row_count, size_t width, const float *in, enum dtype dtype, const void *bias,
                                void *out)
{
    struct shadow_operand shift = shadow_open(dtype, bias, width), value = shadow_open(dtype, out, row_count * width);
    isa_scalar.gelu_forward(row_count, width, at(in), dtype, shift.floats, value.floats);
    shadow_close(&shift, false);
    shadow_close(&value, true);
}

static void shadow_gelu_backward(size_t row_count, size_t width, const float *in, const float *gradient,
                                 enum dtype dtype, const void *bias, void *out, void *in_gradient)
{
    struct shadow_operand shift = shadow_open(dtype, bias, width), value = shadow_open(dtype, out, row_count * width);
    struct shadow_operand product = shadow_open(dtype, in_gradient, row_count * width);
    isa_scalar.gelu_backward(row_count, width, at(in), at(gradient), dtype, shift.floats, value.floats, product.floats);
    shadow_close(&shift, false);
    shadow_close(&value, true);
    shadow_close(&product, true);
}

static size_t shadow_attention_rows(const struct attention_shape *shape)
{
    return shape->sequence_count * shape->sequence_length * shape->width;
}

static void shadow_attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *stats,
                                     float *scratch)
{
    size_t count = shadow_attention_rows(shape);
    struct shadow_operand in = shadow_open(shape->dtype, qkv, 3 * count), to = shadow_open(shape->dtype, out, count);
    isa_scalar.attention_forward(shape, in.floats, to.floats, at(stats), at(scratch));
    shadow_close(&in, false);
    shadow_close(&to, true);
}

static void shadow_attention_backward(const struct attention_shape *shape, const void *qkv, const void *out,
                                      float *stats, const void *out_gradient, void *qkv_gradient, float *scratch)
{
    size_t count = shadow_attention_rows(shape);
    struct shadow_operand in = shadow_open(shape->dtype, qkv, 3 * count), of = shadow_open(shape->dtype, out, count);
    struct shadow_operand g = shadow_open(shape->dtype, out_gradient, count);
    struct shadow_operand to = shadow_open(shape->dtype, qkv_gradient, 3 * count);
    isa_scalar.attention_backward(shape, in.floats, of.floats, at(stats), g.floats, to.floats, at(scratch));
    shadow_close(&in, false);
    shadow_close(&of, false);
    shadow_close(&g, false);
    shadow_close(&to, true);
}

static void shadow_embedding_forward(const struct token_rows *rows, size_t width, enum dtype dtype,
                                     const void *token_weight, const void *position_weight, float *out)
{
    isa_scalar.embedding_forward(rows, width, dtype, at(token_weight), at(position_weight), at(out));
}

static void shadow_token_backward(const struct token_rows *rows, size_t width, const float *in, float *gradient)
{
    isa_scalar.token_backward(rows, width, at(in), at(gradient));
}

static void shadow_position_backward(const struct token_rows *rows, size_t width, const float *in, float *gradient)
{
    isa_scalar.position_backward(rows, width, at(in), at(gradient));
}

static double shadow_crossentropy_forward(const struct token_rows *rows, size_t width, size_t stride,
                                          const float *logits, float *stats)
{
    return isa_scalar.crossentropy_forward(rows, width, stride, at(logits), at(stats));
}

static void shadow_crossentropy_backward(const struct token_rows *rows, size_t width, size_t stride, const float *stats,
                                         float scale, enum dtype dtype, float *logits)
{
    float *row = at(logits);
    isa_scalar.crossentropy_backward(rows, width, stride, at(stats), scale, dtype, row);
    for (size_t r = 0; dtype != DTYPE_FP32 && r < rows->sequence_count * rows->length; r++, row += stride) {
        char rounded[width * dtype_bytes(dtype)];
        isa_scalar.narrow(dtype, row, rounded, width);
        memcpy(row, rounded, sizeof rounded);
    }
}

#endif
