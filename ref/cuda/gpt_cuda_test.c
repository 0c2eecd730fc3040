// SPDX-License-Identifier: Apache-2.0
// A GPT's kernels but attention as nvcc compiles them, against the scalar build, bit by bit: for the host anywhere, and
// the GPU's own where there is one; and products of 16 bits on tensor cores, within the rounding of theirs.
#include "ref/cuda/gpt_cuda_test.h"

#include "ref/cuda/cuda_matmul.h"

static int add_operand(struct bench *b, size_t count)
{
    int i = add(b, count);
    b->is_operand[i] = true;
    return i;
}

static const size_t SHAPES[][2] = {{1, 1}, {1, 15}, {2, 16}, {3, 17}, {7, 31}, {16, 64}, {5, 257}, {64, 33}, {131, 36}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

static void try_rows(struct bench *b)
{
    for (int s = 0; s < 3 * SHAPE_COUNT; s++) {
        size_t rows = SHAPES[s / 3][0], width = SHAPES[s / 3][1], all = rows * width;
        enum dtype dtype = b->dtype = (enum dtype)(s % 3);
        for (int array = 0; array < 3; array++)
            add(b, all);
        int stats = add(b, 2 * rows), sums = add(b, 2 * width), out = add_operand(b, all), gradient = add(b, all);
        int weight = add(b, width), bias = add(b, width);
        operand_there(b, weight);
        operand_there(b, bias);
        operand_there(b, gradient);
        IN_BOTH(b, bias_add(rows, width, a[0], dtype, a[bias], a[1]));
        isa_scalar.layernorm_forward(rows, width, b->here[1], b->here[stats], dtype, b->here[weight], b->here[bias],
                                     b->here[out]);
        b->kernels->layernorm_biases(rows, width, b->there[1], b->there[stats], dtype, b->there[weight], b->there[bias],
                                     b->there[out], &(struct norm_biases){0});
        IN_BOTH(b, layernorm_backward(rows, width, a[1], a[stats], dtype, a[weight], a[gradient], a[0], a[sums], NULL));
        IN_BOTH(b, layernorm_apply(rows, width, a[2], a[stats], dtype, a[weight], a[bias], a[out]));
        compare(b, "a layer norm", rows, width);
        for (int array = 0; array < 7; array++) {
            add(b, all);
            if (array > 2)
                operand_there(b, array);
        }
        int plain = add(b, width);
        sums = add(b, width);
        bias = add(b, width);
        operand_there(b, bias);
        IN_BOTH(b, gelu_forward(rows, width, a[3], dtype, a[bias], a[4]));
        IN_BOTH(b, gelu_backward(rows, width, a[3], a[5], dtype, a[bias], a[6], a[5], NULL, NULL));
        IN_BOTH(b, gelu_backward(rows, width, a[0], a[1], DTYPE_FP32, a[plain], a[2], a[1], a[sums], NULL));
        compare(b, "a GELU", rows, width);
        add(b, all);
        add_operand(b, all);
        IN_BOTH(b, operand_round(dtype, all, a[0], a[1]));
        compare(b, "an operand", rows, width);
    }
}

// Rows of logits that are not next to each other.
static void try_logits(struct bench *b, const struct token_rows *list)
{
    enum { STRIDE = VOCABULARY + 3 };
    size_t rows = list->sequence_count * list->length;
    int logits = add(b, rows * STRIDE), stats = add(b, 2 * rows);
    operand_there(b, logits);
    double here =
        isa_scalar.crossentropy_forward(list, VOCABULARY, STRIDE, b->here[logits], b->here[stats], 0, b->dtype);
    double there =
        b->kernels->crossentropy_forward(list, VOCABULARY, STRIDE, b->there[logits], b->there[stats], 0, b->dtype);
    cr_expect_eq(here, there, "%zu rows: %a and %a", rows, here, there);
    IN_BOTH(b, crossentropy_backward(list, VOCABULARY, STRIDE, a[stats], 0.37f, b->dtype, a[logits]));
    compare(b, "a cross-entropy", rows, VOCABULARY);
}

// A table of parameters, which has the format itself in both places.
static int add_table(struct bench *b, size_t count)
{
    int i = add(b, count);
    char table[(count + 1) * sizeof(float)];
    isa_scalar.narrow(b->dtype, b->here[i], table, count);
    memcpy(b->here[i], table, count * dtype_bytes(b->dtype));
    cr_assert_eq(bytes_copy(b->there[i], table, count * dtype_bytes(b->dtype)), ERR_NONE);
    return i;
}

// No rows, one, and more than a sum over rows has in a block.
static void try_tokens(struct bench *b)
{
    const size_t shapes[][2] = {{0, 3}, {1, 1}, {1, 31}, {5, 64}, {3, 700}}, widths[] = {19, 20};
    for (int i = 0; i < 30; i++) {
        const struct token_rows list = {b->tokens, shapes[i / 6][0], shapes[i / 6][1]};
        size_t rows = list.sequence_count * list.length, width = widths[i / 3 % 2];
        b->dtype = (enum dtype)(i % 3);
        try_logits(b, &list);
        int token = add_table(b, VOCABULARY * width), position = add_table(b, list.length * width);
        int out = add(b, rows * width);
        IN_BOTH(b, embedding_forward(&list, width, b->dtype, a[token], a[position], a[out]));
        compare(b, "an embedding", rows, width);
    }
}

Test(gpt_cuda, rows_and_tokens_have_the_scalar_builds_bits)
{
    try_on(false, try_rows);
    try_on(false, try_tokens);
}

Test(gpt_cuda, rows_and_tokens_on_the_device_have_the_scalar_builds_bits_gpu)
{
    try_on(true, try_rows);
    try_on(true, try_tokens);
}

Test(gpt_cuda, cublas_is_found_with_all_that_is_asked_of_it)
{
    cr_assert_eq(cuda_matmul_load(), ERR_NONE, "%s", err_message());
    int major = 0, minor = -1;
    cr_expect_eq(sscanf(cuda_matmul_version(), "%d.%d.", &major, &minor), 2);
    cr_expect_geq(major, 12);
    cr_expect_geq(minor, 0);
}

// The result of a product there is the host's within rounding, and afterwards both are the same.
static void expect_near(struct bench *b, int array)
{
    float found[b->counts[array]];
    char back[b->counts[array] * sizeof(float)];
    cr_assert_eq(cuda_lane_wait(), ERR_NONE, "%s", err_message());
    cr_assert_eq(bytes_copy(back, b->there[array], sizeof back), ERR_NONE);
    isa_scalar.widen(b->is_operand[array] ? b->dtype : DTYPE_FP32, back, found, b->counts[array]);
    const double ulp = !b->is_operand[array] || b->dtype == DTYPE_FP32 ? 0 : b->dtype == DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
    for (size_t i = 0; i < b->counts[array]; i++)
        cr_expect_float_eq(found[i], b->here[array][i], 1e-4 + 2 * ulp * fabs((double)b->here[array][i]),
                           "element %zu in %s: %g, and %g by the host", i, dtype_name(b->dtype), (double)found[i],
                           (double)b->here[array][i]);
    memcpy(b->here[array], found, sizeof found);
}

// The elements of one form of products have the host's bits.
static void expect_chains(struct bench *b, unsigned form, size_t m, size_t n, size_t k)
{
    bool a_turned = form & 1, b_turned = form & 2;
    int left = add(b, m * k), right = add(b, k * n), out = add(b, m * (n + 3));
    struct matmul_product here = {.m = m,
                                  .n = n,
                                  .k = k,
                                  .alpha = form & 8 ? 1.7f : 1,
                                  .add = form & 4,
                                  .a = {b->here[left], a_turned ? m : k, a_turned},
                                  .b = {b->here[right], b_turned ? k : n, b_turned},
                                  .c = b->here[out],
                                  .c_stride = n + 3};
    struct matmul_product there = here;
    there.a.data = b->there[left];
    there.b.data = b->there[right];
    there.c = b->there[out];
    matmul(&here);
    if (b->is_gpu)
        cuda_matmul(&there);
    else
        isa_host_matmul(&there);
    compare(b, "a product", m, n);
}

static void try_products(bool is_gpu)
{
    static const size_t shapes[][3] = {{1, 1, 1},     {5, 3, 0},     {127, 65, 17},
                                       {129, 64, 16}, {128, 63, 33}, {300, 130, 50}};
    struct bench b;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (unsigned form = 0; form < 16 && open_bench(&b, is_gpu); form++)
            expect_chains(&b, form, shapes[i][0], shapes[i][1], shapes[i][2]);
}

Test(gpt_cuda, products_of_floats_are_the_hosts_chains)
{
    try_products(false);
}

Test(gpt_cuda, products_of_floats_on_the_device_are_the_hosts_chains_gpu)
{
    try_products(true);
}

// Both in every form and format, with floats and an operand as the result; and again, at an address at which no wide
// load fits: the bits are a function of the operands.
Test(gpt_cuda, products_on_the_device_are_right_and_repeat_gpu)
{
    struct bench b;
    if (!open_bench(&b, true))
        return;
    enum { M = 13, N = 7, K = 33 };
    for (int form = 0; form < 24; form++) {
        bool a_turned = form & 1, b_turned = form & 2, to_operand = form & 4;
        b.dtype = (enum dtype)(form / 8);
        size_t bytes = dtype_bytes(b.dtype), out_bytes = to_operand ? bytes : sizeof(float);
        int left = add(&b, M * K), right = add(&b, K * N), out = add(&b, M * (N + 2));
        int shifted = add(&b, K * N + 1), target = add(&b, M * (N + 2) + 1);
        struct matmul_product here = {.m = M,
                                      .n = N,
                                      .k = K,
                                      .alpha = 0.5f,
                                      .add = true,
                                      .dtype = b.dtype,
                                      .a = {b.here[left], a_turned ? M : K, a_turned},
                                      .b = {b.here[right], b_turned ? K : N, b_turned},
                                      .c = b.here[out],
                                      .c_is_operand = to_operand,
                                      .c_stride = N + 2};
        struct matmul_product there = here;
        there.a.data = operand_there(&b, left);
        there.b.data = operand_there(&b, right);
        there.c = b.there[out];
        if (to_operand)
            operand_there(&b, out);
        char *far_right = (char *)b.there[shifted] + bytes, *far_out = (char *)b.there[target] + out_bytes;
        cr_assert_eq(bytes_copy(far_right, b.there[right], K * N * bytes), ERR_NONE);
        cr_assert_eq(bytes_copy(far_out, b.there[out], M * (N + 2) * out_bytes), ERR_NONE);
        cuda_matmul(&there);
        there.b.data = far_right;
        there.c = far_out;
        cuda_matmul(&there);
        matmul(&here);
        expect_near(&b, out);
        char found[M * (N + 2) * sizeof(float)], repeated[M * (N + 2) * sizeof(float)];
        cr_assert_eq(bytes_copy(found, b.there[out], M * (N + 2) * out_bytes), ERR_NONE);
        cr_assert_eq(bytes_copy(repeated, far_out, M * (N + 2) * out_bytes), ERR_NONE);
        cr_expect_arr_eq(found, repeated, M * (N + 2) * out_bytes, "form %d", form);
        b.is_operand[shifted] = b.is_operand[target] = false;
        cr_assert_eq(bytes_copy(b.here[shifted], b.there[shifted], b.counts[shifted] * sizeof(float)), ERR_NONE);
        cr_assert_eq(bytes_copy(b.here[target], b.there[target], b.counts[target] * sizeof(float)), ERR_NONE);
        compare(&b, "a product", M, N);
    }
}
