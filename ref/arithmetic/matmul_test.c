// SPDX-License-Identifier: Apache-2.0
// Products against the chains of matmul.h, bit by bit: every build of the kernels, any number of threads, operands and
// results between bytes that nothing may read or write. Products of the processor's own instructions for bf16 against
// sums of whole numbers, which are exact in every order.
#include "ref/arithmetic/matmul.h"

#include "base/err.h"
#include "base/processor.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/onednn.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

// Padding of every row, and what it holds.
enum { PADDING = 3 };
static const float POISON = 0x1p100f;

struct trial {
    size_t m, n, k;
    bool a_transposed, b_transposed, add, c_is_operand;
    float alpha;
    enum dtype dtype;
    bool is_whole;  // values are whole numbers
};

static float value_at(const struct trial *t, uint64_t key, size_t i)
{
    float value = t->is_whole ? (float)(random_at(key, i) >> 60) - 8 : random_normal(random_at(key, i));
    operand_round(t->dtype, 1, &value, &value);
    return value;
}

// rows x columns of op, as its operand lies.
static struct matmul_operand operand_of(const struct trial *t, uint64_t key, size_t rows, size_t columns,
                                        bool transposed)
{
    size_t lines = transposed ? columns : rows, length = transposed ? rows : columns, stride = length + PADDING;
    float *values = malloc((lines * stride + 1) * sizeof *values);
    for (size_t line = 0; line < lines; line++)
        for (size_t j = 0; j < stride; j++) {
            size_t row = transposed ? j : line, column = transposed ? line : j;
            values[line * stride + j] = j < length ? value_at(t, key, row * columns + column) : NAN;
        }
    return (struct matmul_operand){values, stride, transposed};
}

// c holds a value before, with `add`; else one that nothing may read.
static float before(const struct trial *t, size_t i, size_t j)
{
    return j >= t->n ? POISON : t->add ? value_at(t, 3, i * t->n + j) : NAN;
}

// The definition.
static float chain(const struct trial *t, size_t i, size_t j)
{
    float s = t->add ? before(t, i, j) : 0;
    for (size_t k = 0; k < t->k; k++) {
        volatile float a = t->alpha * value_at(t, 1, i * t->k + k);
        s = fmaf(a, value_at(t, 2, k * t->n + j), s);
    }
    if (t->c_is_operand)
        operand_round(t->dtype, 1, &s, &s);
    return s;
}

// Compares each `every`th element.
static void expect_chains(const struct trial *t, size_t every)
{
    struct matmul_operand a = operand_of(t, 1, t->m, t->k, t->a_transposed);
    struct matmul_operand b = operand_of(t, 2, t->k, t->n, t->b_transposed);
    size_t stride = t->n + PADDING, wrong = 0;
    float *c = malloc((t->m * stride + 1) * sizeof *c);
    for (size_t i = 0; i < t->m * stride; i++)
        c[i] = before(t, i / stride, i % stride);
    matmul(&(struct matmul_product){.m = t->m,
                                    .n = t->n,
                                    .k = t->k,
                                    .alpha = t->alpha,
                                    .add = t->add,
                                    .dtype = t->dtype,
                                    .a = a,
                                    .b = b,
                                    .c = c,
                                    .c_is_operand = t->c_is_operand,
                                    .c_stride = stride});
    for (size_t e = 0; e < t->m * stride; e += e % stride < t->n ? every : 1) {
        size_t i = e / stride, j = e % stride;
        float expected = j < t->n ? chain(t, i, j) : POISON;
        wrong += memcmp(&c[e], &expected, sizeof expected) != 0;
    }
    cr_expect_eq(wrong, 0, "%zu elements are wrong: %zu x %zu x %zu in %s by %s, alpha %g%s%s%s%s", wrong, t->m, t->n,
                 t->k, dtype_name(t->dtype), isa_name(isa_now()), (double)t->alpha,
                 t->a_transposed ? ", a transposed" : "", t->b_transposed ? ", b transposed" : "",
                 t->add ? ", added" : "", t->c_is_operand ? ", rounded" : "");
    free((void *)a.data);
    free((void *)b.data);
    free(c);
}

static struct trial trial_of(const size_t shape[3], unsigned way, enum dtype dtype)
{
    return (struct trial){shape[0], shape[1], shape[2], way & 1, way & 2, way & 4, way & 8, 1, dtype, false};
}

// Sizes 0 and 1, around a tile's height and width in every build, and around the borders of blocks on the stack.
static const size_t small_shapes[][3] = {{1, 1, 1},    {0, 5, 3},    {5, 0, 3},    {5, 3, 0},   {2, 17, 5},
                                         {6, 16, 4},   {7, 15, 9},   {13, 32, 3},  {14, 33, 2}, {15, 31, 7},
                                         {29, 64, 63}, {57, 65, 64}, {65, 34, 65}, {1, 3, 129}, {83, 19, 131}};
enum { SMALL_SHAPES = sizeof small_shapes / sizeof *small_shapes };

static void expect_small(void)
{
    for (int i = 0; i < SMALL_SHAPES; i++)
        for (unsigned way = 0; way < 16; way++) {
            struct trial t = trial_of(small_shapes[i], way, (enum dtype)(way % 3));
            expect_chains(&t, 1);
            t.alpha = 1.7f;
            expect_chains(&t, 1);
        }
}

static void in_every_build(void (*expect)(void))
{
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (isa_kernels_of((enum isa)isa)) {
            isa_set((enum isa)isa);
            expect();
        }
}

Test(matmul, elements_are_chains_in_every_build)
{
    in_every_build(expect_small);
}

// Around the borders of blocks of rows, columns and steps along k, and of the largest tiles; rows of a 8 KiB apart.
static void expect_large(void)
{
    static const size_t shapes[][3] = {{2031, 2, 384}, {2027, 3, 3},   {3, 257, 769}, {5, 255, 385},
                                       {13, 33, 2000}, {28, 35, 2045}, {28, 66, 135}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (unsigned way = 0; way < 16; way += 1 + i % 3) {
            struct trial t = trial_of(shapes[i], way, (enum dtype)(way % 3));
            t.alpha = way & 8 ? 1.7f : 1;
            expect_chains(&t, 17);
        }
}

Test(matmul, chains_go_on_over_the_borders_of_blocks)
{
    in_every_build(expect_large);
}

Test(matmul, any_number_of_threads_gives_the_chains)
{
    static const size_t shapes[][3] = {{300, 200, 100}, {7, 2100, 400}, {1030, 40, 130}, {4, 3, 400000}};
    for (int threads = 1; threads <= 5; threads++) {
        math_set_threads(threads);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const struct trial t = trial_of(shapes[i], (unsigned)threads * 3 + 12, DTYPE_BF16);
            expect_chains(&t, 101);
        }
    }
}

static void *expect_small_there(void *unused)
{
    expect_small();
    return unused;
}

Test(matmul, threads_of_their_own_multiply_at_the_same_time)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, expect_small_there, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITS = false };  // a sanitizer maps terabytes
#else
enum { LIMITS = true };
#endif

// Nothing more can be mapped: what the trials need is in the heap, which has room.
Test(matmul, without_memory_for_panels_elements_are_the_same)
{
    char emulator[PROCESSOR_NAME_BYTES];
    if (!LIMITS || processor_is_emulated(emulator)) {
        printf("TEST SKIPPED: a sanitizer or an emulator maps memory of its own, which a limit would end\n");
        return;
    }
    void *room = malloc(100 << 10);
    free(room);
    cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){1 << 20, 1 << 20}), 0);
    cr_assert_null(aligned_alloc(1 << 21, 1 << 21));
    math_set_threads(1);
    expect_small();
}

static bool bf16_is_here(void)
{
    if (onednn_load() != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", err_message());
        return false;
    }
    cr_assert_eq(matmul_set_bf16(true), ERR_NONE);
    return true;
}

// Around the borders of blocks of rows, of columns, and of k.
Test(matmul, products_of_bf16_are_the_sums)
{
    static const size_t shapes[][3] = {{1, 1, 1},     {255, 3, 5},  {256, 8, 31},   {257, 9, 40},   {700, 13, 7},
                                       {3, 1023, 17}, {5, 1024, 2}, {2, 2049, 33},  {7, 11, 2047},  {4, 6, 2048},
                                       {3, 5, 2049},  {1, 2, 4099}, {257, 1025, 3}, {5, 1025, 2050}};
    if (!bf16_is_here())
        return;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (unsigned way = 0; way < 16; way++) {
            struct trial t = trial_of(shapes[i], way, DTYPE_BF16);
            t.is_whole = true;
            expect_chains(&t, 1);
        }
}

Test(matmul, products_of_bf16_have_the_bits_of_any_number_of_threads)
{
    enum { M = 700, N = 1300, K = 333 };
    const struct trial t = {M, N, K, .alpha = 1, .dtype = DTYPE_BF16};
    if (!bf16_is_here())
        return;
    struct matmul_operand a = operand_of(&t, 1, M, K, false), b = operand_of(&t, 2, K, N, false);
    float *first = malloc(M * N * sizeof *first), *c = malloc(M * N * sizeof *c);
    for (int threads = 1; threads <= 5; threads++) {
        math_set_threads(threads);
        matmul(&(struct matmul_product){.m = M,
                                        .n = N,
                                        .k = K,
                                        .alpha = 1,
                                        .dtype = DTYPE_BF16,
                                        .a = a,
                                        .b = b,
                                        .c = threads == 1 ? first : c,
                                        .c_is_operand = true,
                                        .c_stride = N});
        if (threads > 1)
            cr_expect_arr_eq(c, first, M * N * sizeof *c, "%d threads", threads);
    }
    free((void *)a.data);
    free((void *)b.data);
    free(first);
    free(c);
}
