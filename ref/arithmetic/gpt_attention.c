// SPDX-License-Identifier: Apache-2.0
// Attention where its arrays lie, and the memory that it needs. gpt_attention_kernel.h defines and computes it.
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"

#include <assert.h>

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_max_threads(void)
{
    return 1;
}
static int omp_get_thread_num(void)
{
    return 0;
}
#endif

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
    return shape->head_count > 0 && shape->width % shape->head_count == 0 &&
           shape->head_count % attention_rows_of(shape).group == 0;
}

// The scratch memory of one head of one sequence, on the host.
static size_t head_scratch_count(const struct attention_shape *shape)
{
    return shape->sequence_length + 2 * ATTENTION_BLOCK * (shape->width / shape->head_count);
}

// As many threads as the scratch memory serves, one at least; and one where it is not worth waking others.
enum { SHARED_PRODUCTS = 1 << 22 };
static int thread_count(const struct attention_shape *shape)
{
    size_t length = shape->sequence_length;
    if (shape->sequence_count * length * length * shape->width < SHARED_PRODUCTS)
        return 1;
    size_t served = attention_scratch_count(shape) / head_scratch_count(shape);
    size_t most = (size_t)omp_get_max_threads();
    return (int)(served < most ? served : most);
}

// The heads of one sequence that share keys and values, as attention of its own.
struct head_place {
    struct attention_shape shape;
    struct attention_rows rows;
    size_t qkv, out, stats, scratch;  // where it begins
};

static size_t place_count(const struct attention_shape *shape)
{
    return shape->sequence_count * shape->head_count / attention_rows_of(shape).group;
}

static struct head_place head_place_of(const struct attention_shape *shape, size_t index)
{
    struct attention_rows rows = attention_rows_of(shape);
    size_t places = shape->head_count / rows.group, width = shape->width / places;
    size_t row = index / places * shape->sequence_length, place = index % places;
    // A place's keys begin nearer to its queries than the first place's to theirs.
    size_t nearer = place * (width - shape->width / shape->head_count);
    rows.key_at -= nearer;
    rows.value_at -= nearer;
    return (struct head_place){
        .shape = {1, shape->sequence_length, width, rows.group, shape->dtype, NULL},
        .rows = rows,
        .qkv = row * rows.qkv_stride + place * width,
        .out = row * rows.out_stride + place * width,
        .stats = 2 * index * rows.group * shape->sequence_length,
        .scratch = (size_t)omp_get_thread_num() * head_scratch_count(shape),
    };
}

void attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *stats, float *scratch)
{
    assert(is_whole(shape));
    const struct isa_kernels *kernels = isa_kernels_at(out);
    if (accelerator_of(out)) {
        kernels->attention_forward(shape, qkv, out, stats, scratch);
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads(thread_count(shape))
    for (size_t i = 0; i < place_count(shape); i++) {
        struct head_place at = head_place_of(shape, i);
        at.shape.rows = &at.rows;
        kernels->attention_forward(&at.shape, (const float *)qkv + at.qkv, (float *)out + at.out, stats + at.stats,
                                   scratch + at.scratch);
    }
}

void attention_backward(const struct attention_shape *shape, const void *qkv, const void *out, float *stats,
                        const void *out_gradient, void *qkv_gradient, float *scratch)
{
    assert(is_whole(shape));
    const struct isa_kernels *kernels = isa_kernels_at(qkv_gradient);
    if (accelerator_of(qkv_gradient)) {
        kernels->attention_backward(shape, qkv, out, stats, out_gradient, qkv_gradient, scratch);
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads(thread_count(shape))
    for (size_t i = 0; i < place_count(shape); i++) {
        struct head_place at = head_place_of(shape, i);
        at.shape.rows = &at.rows;
        kernels->attention_backward(&at.shape, (const float *)qkv + at.qkv, (const float *)out + at.out,
                                    stats + at.stats, (const float *)out_gradient + at.out,
                                    (float *)qkv_gradient + at.qkv, scratch + at.scratch);
    }
}
