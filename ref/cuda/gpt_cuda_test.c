// SPDX-License-Identifier: Apache-2.0
// A GPT's kernels as nvcc compiles them, against the scalar build, bit by bit: for the host anywhere, and the GPU's own
// where there is one; and matrix products by cuBLAS, within the rounding of theirs.
#include "ref/arithmetic/accelerator.h"
#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/cuda_matmul.h"
#include "base/err.h"
#include "ref/cuda/isa_host.h"
#include "ref/arithmetic/random.h"
#include "ref/cuda/tier_cuda.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARRAYS = 8, TOKENS = 2200, VOCABULARY = 61 };

// A table of kernels with arrays where it can reach them; the scalar build's beside them.
struct bench {
    const struct isa_kernels *kernels;
    bool is_gpu;
    float *here[ARRAYS], *there[ARRAYS], *back;
    size_t counts[ARRAYS];
    int array_count;
    uint16_t tokens[TOKENS];
};

static bool open_bench(struct bench *b, bool is_gpu)
{
    const char *absent = is_gpu ? cuda_lane_absent() : NULL;
    if (absent) {
        printf("TEST SKIPPED: %s\n", absent);
        return false;
    }
    *b = (struct bench){.kernels = is_gpu ? &isa_cuda : &isa_host, .is_gpu = is_gpu};
    if (is_gpu)
        cr_assert_eq(cuda_accelerator.enter(0), ERR_NONE, "%s", err_message());
    for (int i = 0; i < TOKENS; i++)
        b->tokens[i] = (uint16_t)(random_at(99, (uint64_t)i) % VOCABULARY);
    return true;
}

// Normal values of some octaves, in both places. Returns the array's number.
static int add(struct bench *b, size_t count)
{
    int i = b->array_count++;
    cr_assert_lt(i, ARRAYS);
    b->counts[i] = count;
    b->here[i] = malloc((count + 1) * sizeof(float));
    for (size_t j = 0; j < count; j++)
        b->here[i][j] = ldexpf(random_normal(random_at((uint64_t)i, j)), (int)(random_at(7, j) % 5) - 3);
    void *there = NULL;
    if (b->is_gpu) {
        cr_assert_eq(cuda_accelerator.allocate((count + 1) * sizeof(float), &there), ERR_NONE, "%s", err_message());
        cr_assert_eq(accelerator_claim(&cuda_accelerator, there, (count + 1) * sizeof(float)), ERR_NONE);
    } else {
        there = malloc((count + 1) * sizeof(float));
    }
    b->there[i] = there;
    cr_assert_eq(bytes_copy(there, b->here[i], count * sizeof(float)), ERR_NONE, "%s", err_message());
    return i;
}

// Every array is the same in both places; then they are given back.
static void compare(struct bench *b, const char *what, size_t rows, size_t width)
{
    cr_assert_eq(accelerator_wait(), ERR_NONE, "%s", err_message());
    for (int i = 0; i < b->array_count; i++) {
        float *back = malloc((b->counts[i] + 1) * sizeof(float));
        cr_assert_eq(bytes_copy(back, b->there[i], b->counts[i] * sizeof(float)), ERR_NONE, "%s", err_message());
        for (size_t j = 0; j < b->counts[i]; j++)
            cr_assert(memcmp(&back[j], &b->here[i][j], sizeof(float)) == 0,
                      "%s of %zu x %zu: array %d, element %zu: "
                      "%a, and %a by the scalar build",
                      what, rows, width, i, j, back[j], b->here[i][j]);
        free(back);
        free(b->here[i]);
        if (b->is_gpu) {
            accelerator_disclaim(b->there[i]);
            cr_assert_eq(cuda_accelerator.release(b->there[i]), ERR_NONE);
        } else {
            free(b->there[i]);
        }
    }
    b->array_count = 0;
}

static const size_t SHAPES[][2] = {{1, 1}, {1, 15}, {2, 16}, {3, 17}, {7, 31}, {16, 64}, {5, 257}, {64, 33}, {131, 36}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

// Runs a kernel of both tables on the arrays, `a` being those of the place.
#define IN_BOTH(b, call)                                                                                               \
    do {                                                                                                               \
        float *const *a = (b)->here;                                                                                   \
        const struct isa_kernels *k = &isa_scalar;                                                                     \
        k->call;                                                                                                       \
        a = (b)->there;                                                                                                \
        k = (b)->kernels;                                                                                              \
        k->call;                                                                                                       \
    } while (0)

static void try_rows(bool is_gpu)
{
    struct bench b;
    if (!open_bench(&b, is_gpu))
        return;
    for (int s = 0; s < SHAPE_COUNT; s++) {
        size_t rows = SHAPES[s][0], width = SHAPES[s][1], all = rows * width;
        for (int array = 0; array < 5; array++)
            add(&b, all);
        int stats = add(&b, 2 * rows), sum = add(&b, width), other = add(&b, width);
        IN_BOTH(&b, bias_add(rows, width, NULL, a[0], a[1]));
        IN_BOTH(&b, bias_add(rows, width, a[0], a[2], a[1]));
        IN_BOTH(&b, layernorm_stats(rows, width, a[1], a[stats]));
        IN_BOTH(&b, layernorm_apply(rows, width, a[1], a[stats], a[0], a[2], a[3]));
        IN_BOTH(&b, layernorm_backward(rows, width, a[1], a[stats], a[0], a[2], a[4], a[sum], a[other]));
        IN_BOTH(&b, rows_sum(rows, width, a[4], a[sum]));
        compare(&b, "a layer norm", rows, width);
        for (int array = 0; array < 3; array++)
            add(&b, all);
        IN_BOTH(&b, gelu_forward(all, a[0], a[1]));
        IN_BOTH(&b, gelu_backward(all, a[0], a[1], a[2]));
        compare(&b, "a GELU", rows, width);
    }
}

Test(gpt_cuda, rows_have_the_scalar_builds_bits)
{
    try_rows(false);
}

Test(gpt_cuda, rows_on_the_device_have_the_scalar_builds_bits_gpu)
{
    try_rows(true);
}

static void try_softmax(bool is_gpu)
{
    struct bench b;
    if (!open_bench(&b, is_gpu))
        return;
    for (size_t length = 1; length <= 67; length = 2 * length + 1) {
        add(&b, 3 * length * length);
        add(&b, 3 * length * length);
        IN_BOTH(&b, softmax_causal(3, length, a[0]));
        IN_BOTH(&b, softmax_causal_backward(3, length, a[0], a[1]));
        compare(&b, "a softmax", length, length);
    }
    // An overflow stays visible at every position.
    for (size_t at = 0; at < 20; at += 19) {
        add(&b, 400);
        for (size_t row = 0; row < 20; row++)
            b.here[0][row * 20 + at] = row % 2 ? NAN : INFINITY;
        cr_assert_eq(bytes_copy(b.there[0], b.here[0], 400 * sizeof(float)), ERR_NONE);
        IN_BOTH(&b, softmax_causal(1, 20, a[0]));
        float back[400];
        cr_assert_eq(bytes_copy(back, b.there[0], sizeof back), ERR_NONE);
        for (int i = 0; i < 400; i++)
            cr_expect_eq(isnan(back[i]) != 0, isnan(b.here[0][i]) != 0, "element %d, odd one at %zu", i, at);
        cr_assert_eq(bytes_copy(b.there[0], b.here[0], sizeof back), ERR_NONE);
        compare(&b, "a softmax of NaN", 20, 20);
    }
}

Test(gpt_cuda, softmaxes_have_the_scalar_builds_bits)
{
    try_softmax(false);
}

Test(gpt_cuda, softmaxes_on_the_device_have_the_scalar_builds_bits_gpu)
{
    try_softmax(true);
}

// No rows, one, and more than a sum over rows has in a block.
static void try_tokens(bool is_gpu)
{
    struct bench b;
    if (!open_bench(&b, is_gpu))
        return;
    const size_t shapes[][2] = {{0, 3}, {1, 1}, {1, 31}, {5, 64}, {3, 700}}, widths[] = {19, 20};
    for (int i = 0; i < 10; i++) {
        const struct token_rows list = {b.tokens, shapes[i / 2][0], shapes[i / 2][1]};
        size_t rows = list.sequence_count * list.length, width = widths[i % 2];
        add(&b, rows * VOCABULARY);
        double here = isa_scalar.crossentropy_forward(&list, VOCABULARY, b.here[0]);
        double there = b.kernels->crossentropy_forward(&list, VOCABULARY, b.there[0]);
        cr_expect_eq(here, there, "%zu rows: %a and %a", rows, here, there);
        IN_BOTH(&b, crossentropy_backward(&list, VOCABULARY, a[0], 0.37f));
        compare(&b, "a cross-entropy", rows, VOCABULARY);
        int token = add(&b, VOCABULARY * width), position = add(&b, list.length * width), out = add(&b, rows * width);
        IN_BOTH(&b, embedding_forward(&list, width, a[token], a[position], a[out]));
        IN_BOTH(&b, token_backward(&list, width, a[out], a[token]));
        IN_BOTH(&b, position_backward(&list, width, a[out], a[position]));
        compare(&b, "an embedding", rows, width);
    }
}

Test(gpt_cuda, tokens_have_the_scalar_builds_bits)
{
    try_tokens(false);
}

Test(gpt_cuda, tokens_on_the_device_have_the_scalar_builds_bits_gpu)
{
    try_tokens(true);
}

Test(gpt_cuda, cublas_is_found_with_all_that_is_asked_of_it)
{
    cr_assert_eq(cuda_matmul_load(), ERR_NONE, "%s", err_message());
    int major = 0, minor = -1;
    cr_expect_eq(sscanf(cuda_matmul_version(), "%d.%d.", &major, &minor), 2);
    cr_expect_geq(major, 12);
    cr_expect_geq(minor, 0);
}

// Against products in double precision, and against themselves: the bits are a function of the operands.
Test(gpt_cuda, products_on_the_device_are_right_and_repeat_gpu)
{
    struct bench b;
    if (!open_bench(&b, true))
        return;
    enum { M = 13, N = 7, K = 33 };
    for (int form = 0; form < 4; form++) {
        bool a_turned = form & 1, b_turned = form & 2;
        int left = add(&b, M * K), right = add(&b, K * N), out = add(&b, M * (N + 2)), again = add(&b, M * (N + 2));
        cr_assert_eq(bytes_copy(b.there[again], b.there[out], M * (N + 2) * sizeof(float)), ERR_NONE);
        const struct matmul_operand x = {b.there[left], a_turned ? M : K, a_turned};
        const struct matmul_operand y = {b.there[right], b_turned ? K : N, b_turned};
        struct matmul_batch product = {.count = 1, .m = M, .n = N, .k = K, .alpha = 0.5f, .beta = 1.0f, .a = x, .b = y};
        product.c_stride = N + 2;
        product.c = b.there[out];
        cuda_matmul(&product);
        product.c = b.there[again];
        cuda_matmul(&product);
        cr_assert_eq(cuda_lane_wait(), ERR_NONE, "%s", err_message());
        float found[M * (N + 2)], repeated[M * (N + 2)];
        cr_assert_eq(bytes_copy(found, b.there[out], sizeof found), ERR_NONE);
        cr_assert_eq(bytes_copy(repeated, b.there[again], sizeof repeated), ERR_NONE);
        cr_expect_arr_eq(found, repeated, sizeof found);
        // One element further on, where no load of four fits.
        int shifted = add(&b, K * N + 1), target = add(&b, M * (N + 2) + 1);
        cr_assert_eq(bytes_copy(b.there[shifted] + 1, b.there[right], K * N * sizeof(float)), ERR_NONE);
        cr_assert_eq(bytes_copy(b.there[target] + 1, b.here[out], M * (N + 2) * sizeof(float)), ERR_NONE);
        product.b.data = b.there[shifted] + 1;
        product.c = b.there[target] + 1;
        cuda_matmul(&product);
        cr_assert_eq(cuda_lane_wait(), ERR_NONE, "%s", err_message());
        cr_assert_eq(bytes_copy(repeated, b.there[target] + 1, sizeof repeated), ERR_NONE);
        cr_expect_arr_eq(found, repeated, sizeof found);
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < N + 2; j++) {
                double exact = b.here[out][i * (N + 2) + j];
                for (size_t k = 0; k < K && j < N; k++)
                    exact += 0.5 * (double)b.here[left][a_turned ? k * M + i : i * K + k] *
                             (double)b.here[right][b_turned ? j * K + k : k * N + j];
                cr_expect_float_eq(found[i * (N + 2) + j], exact, j < N ? 1e-4 : 0, "form %d, %zu, %zu", form, i, j);
            }
        for (int i = 0; i < b.array_count; i++)
            cr_assert_eq(bytes_copy(b.here[i], b.there[i], b.counts[i] * sizeof(float)), ERR_NONE);
        compare(&b, "a product", M, N);
    }
}

// Heads of one matrix side by side, as attention has them: each product against the same product alone, within
// rounding.
Test(gpt_cuda, products_of_a_batch_on_the_device_are_those_of_each_gpu)
{
    struct bench b;
    if (!open_bench(&b, true))
        return;
    enum { HEADS = 5, LENGTH = 9, HEAD_WIDTH = 6, WIDTH = HEADS * HEAD_WIDTH };
    int q = add(&b, LENGTH * WIDTH), k = add(&b, LENGTH * WIDTH), scores = add(&b, HEADS * LENGTH * LENGTH);
    struct matmul_batch batch = {.count = HEADS,
                                 .m = LENGTH,
                                 .n = LENGTH,
                                 .k = HEAD_WIDTH,
                                 .alpha = 0.25f,
                                 .a = {b.there[q], WIDTH, false},
                                 .b = {b.there[k], WIDTH, true},
                                 .a_step = HEAD_WIDTH,
                                 .b_step = HEAD_WIDTH,
                                 .c = b.there[scores],
                                 .c_stride = LENGTH,
                                 .c_step = LENGTH * LENGTH};
    cuda_matmul(&batch);
    cr_assert_eq(cuda_lane_wait(), ERR_NONE, "%s", err_message());
    float found[HEADS * LENGTH * LENGTH];
    cr_assert_eq(bytes_copy(found, b.there[scores], sizeof found), ERR_NONE);
    batch.a.data = b.here[q];
    batch.b.data = b.here[k];
    batch.c = b.here[scores];
    matmul_many(&batch);
    for (int i = 0; i < HEADS * LENGTH * LENGTH; i++)
        cr_expect_float_eq(found[i], b.here[scores][i], 1e-4, "element %d", i);
    memcpy(b.here[scores], found, sizeof found);
    compare(&b, "a batch", HEADS, LENGTH);
}
