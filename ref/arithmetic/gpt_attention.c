// SPDX-License-Identifier: Apache-2.0
// Attention where its arrays lie, and the memory that it needs. gpt_attention_kernel.h defines and computes it.
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/isa.h"

#include <assert.h>

size_t attention_stats_count(const struct attention_shape *shape)
{
    return 2 * shape->sequence_count * shape->sequence_length * shape->head_count;
}

// The sums of each row's gradient and output, and, on the host, one block of keys and values as columns.
size_t attention_scratch_count(const struct attention_shape *shape)
{
    return attention_stats_count(shape) / 2 + 2 * ATTENTION_BLOCK * (shape->width / shape->head_count);
}

static __attribute__((unused)) bool is_whole(const struct attention_shape *shape)
{
    return shape->head_count > 0 && shape->width % shape->head_count == 0;
}

void attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *stats, float *scratch)
{
    assert(is_whole(shape));
    isa_kernels_at(out)->attention_forward(shape, qkv, out, stats, scratch);
}

void attention_backward(const struct attention_shape *shape, const void *qkv, const void *out, float *stats,
                        const void *out_gradient, void *qkv_gradient, float *scratch)
{
    assert(is_whole(shape));
    isa_kernels_at(qkv_gradient)->attention_backward(shape, qkv, out, stats, out_gradient, qkv_gradient, scratch);
}
