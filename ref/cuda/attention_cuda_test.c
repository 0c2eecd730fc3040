// SPDX-License-Identifier: Apache-2.0
// Attention as nvcc compiles it, against the scalar build, bit by bit: for the host anywhere, and the GPU's own where
// there is one. A tensor core's sums have an order of its own, and are within their rounding; the stand-in's are
// chains.
#include "ref/cuda/attention_bound_test.h"
#include "ref/cuda/cuda_info.h"
#include "ref/cuda/gpt_cuda_test.h"

enum { QKV, OUT_GRADIENT, OUT, QKV_GRADIENT, STATS, SCRATCH };

static struct attention_bounds bounds_of(const struct bench *b, const struct attention_shape *shape)
{
    float *const *a = b->here;
    return attention_bounds(shape, &(struct attention_vectors){a[QKV], a[OUT_GRADIENT], a[OUT], a[STATS]});
}

static void fetch(const struct bench *b, int array, void *to)
{
    cr_assert_eq(accelerator_wait(), ERR_NONE, "%s", err_message());
    cr_assert_eq(bytes_copy(to, b->there[array], b->counts[array] * sizeof(float)), ERR_NONE, "%s", err_message());
}

static bool stands_in(void)
{
    json_t *models = cuda_info_models();
    const char *name = json_string_value(json_object_get(json_array_get(models, 0), "model"));
    const bool found = name && strstr(name, "stand-in");
    json_decref(models);
    return found;
}

// Then the array here is as it is there, but on the stand-in.
static void expect_within(struct bench *b, int array, const struct attention_bounds *bounds, const double *bound)
{
    const size_t count = b->counts[array];
    float *found = malloc((count + 1) * sizeof *found), *back = malloc((count + 1) * sizeof *back);
    const double ulp = b->is_operand[array] ? 2 * bounds->unit : 0;
    fetch(b, array, back);
    isa_scalar.widen(b->is_operand[array] ? b->dtype : DTYPE_FP32, back, found, count);
    for (size_t i = 0; i < count; i++) {
        double expected = (double)b->here[array][i], within = bound[i] + ulp * fabs(expected) + bounds->least;
        cr_assert_float_eq((double)found[i], expected, within,
                           "array %d of %zu x %zu in %s, element %zu: %g, not %g, within %g", array, bounds->length,
                           bounds->head_width, dtype_name(b->dtype), i, (double)found[i], expected, within);
    }
    if (!stands_in())
        memcpy(b->here[array], found, count * sizeof *found);
    free(found);
    free(back);
}

static void free_bounds(struct attention_bounds *bounds)
{
    free(bounds->out);
    free(bounds->gradient);
    free(bounds->stats);
}

#define ATTENTION_FORWARD attention_forward(shape, a[QKV], a[OUT], a[STATS], a[SCRATCH])
#define ATTENTION_BACKWARD                                                                                             \
    attention_backward(shape, a[QKV], a[OUT], a[STATS], a[OUT_GRADIENT], a[QKV_GRADIENT], a[SCRATCH])

// Once more on a GPU, and the bits are the same.
static void try_attention_of(struct bench *b, const struct attention_shape *shape)
{
    const size_t count = shape->sequence_count * shape->sequence_length * shape->width;
    const size_t counts[] = {
        3 * count, count, count, 3 * count, attention_stats_count(shape), attention_scratch_count(shape)};
    const bool is_near = b->is_gpu && b->dtype != DTYPE_FP32;
    for (int array = QKV; array <= SCRATCH; array++) {
        add(b, counts[array]);
        if (array < STATS)
            operand_there(b, array);
    }
    IN_BOTH(b, ATTENTION_FORWARD);
    if (is_near) {
        struct attention_bounds bounds = bounds_of(b, shape);
        expect_within(b, OUT, &bounds, bounds.out);
        expect_within(b, STATS, &bounds, bounds.stats);
        free_bounds(&bounds);
    }
    IN_BOTH(b, ATTENTION_BACKWARD);
    if (is_near) {
        struct attention_bounds bounds = bounds_of(b, shape);
        expect_within(b, QKV_GRADIENT, &bounds, bounds.gradient);
        free_bounds(&bounds);
    }
    float *const *a = b->there;
    if (b->is_gpu) {
        b->kernels->ATTENTION_FORWARD;
        b->kernels->ATTENTION_BACKWARD;
    }
    fetch(b, SCRATCH, b->here[SCRATCH]);
    compare(b, "attention", shape->sequence_length, shape->width);
}

// At lengths and head widths within a tile, of one and of several, with some heads; on a GPU, 16 bits go to the tensor
// cores, and loads are wide where 8 divides the head width and operands begin at 16 bytes.
static void try_attention(struct bench *b)
{
    const size_t shapes[][4] = {{1, 64, 2, 0}, {31, 40, 2, 1}, {64, 24, 1, 0},  {67, 80, 1, 0}, {33, 80, 1, 1},
                                {67, 3, 2, 0}, {97, 64, 1, 1}, {65, 128, 1, 0}, {161, 17, 1, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes * 3; i++) {
        const size_t *of = shapes[i / 3];
        b->dtype = (enum dtype)(i % 3);
        b->is_odd = of[3] == 1;
        try_attention_of(b, &(struct attention_shape){3, of[0], of[1] * of[2], of[2], b->dtype, 0});
    }
    b->is_odd = false;
}

Test(attention_cuda, attention_has_the_scalar_builds_bits)
{
    try_on(false, try_attention);
}

Test(attention_cuda, attention_on_the_device_has_the_scalar_builds_bits_or_values_and_repeats_gpu)
{
    try_on(true, try_attention);
}

// In fp16 at odd addresses. On the stand-in two heads, where it is asked for (ci/standin/run).
Test(attention_cuda, attention_of_a_models_size_on_the_device_has_the_scalar_builds_values_and_repeats_gpu)
{
    struct bench b;
    const bool is_small = stands_in();
    const size_t heads = is_small ? 2 : 12;
    if (is_small && !getenv("ZG_STANDIN_WHOLE"))
        printf("TEST SKIPPED: attention of 1024 x 64 takes minutes on the stand-in\n");
    else if (open_bench(&b, true))
        for (b.dtype = is_small ? DTYPE_BF16 : DTYPE_FP32; b.dtype <= DTYPE_FP16; b.dtype++) {
            b.is_odd = b.dtype == DTYPE_FP16;
            try_attention_of(&b, &(struct attention_shape){b.dtype == DTYPE_BF16 && !is_small ? 3 : 1, 1024, heads * 64,
                                                           heads, b.dtype, 0});
        }
}
