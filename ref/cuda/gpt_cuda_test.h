// SPDX-License-Identifier: Apache-2.0
// For tests of a GPT's kernels as nvcc compiles them: arrays in a table's memory and in the scalar build's.
#pragma once

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/dtype.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/random.h"
#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/isa_host.h"
#include "ref/cuda/tier_cuda.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARRAYS = 10, TOKENS = 2200, VOCABULARY = 61 };

// A table of kernels with arrays where it can reach them; and the scalar build's table with its own.
struct bench {
    const struct isa_kernels *kernels;
    bool is_gpu;
    enum dtype dtype;  // of operands
    float *here[ARRAYS], *there[ARRAYS], *back;
    size_t counts[ARRAYS];
    bool is_operand[ARRAYS];  // floats here, the format itself there
    size_t shifts[ARRAYS];    // bytes before those there
    int array_count;
    bool is_odd;  // operands there begin at an odd element
    uint16_t tokens[TOKENS];
};

static inline bool open_bench(struct bench *b, bool is_gpu)
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
static inline int add(struct bench *b, size_t count)
{
    int i = b->array_count++;
    cr_assert_lt(i, ARRAYS);
    b->counts[i] = count;
    b->is_operand[i] = false;
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
    b->shifts[i] = 0;
    return i;
}

// An operand there, of the values here, which are rounded.
static const void *operand_there(struct bench *b, int array)
{
    isa_scalar.operand_round(b->dtype, b->counts[array], b->here[array], b->here[array]);
    b->is_operand[array] = true;
    b->shifts[array] = b->is_odd ? dtype_bytes(b->dtype) : 0;
    b->there[array] = (float *)((char *)b->there[array] + b->shifts[array]);
    char *narrow = malloc((b->counts[array] + 1) * sizeof(float));
    isa_scalar.narrow(b->dtype, b->here[array], narrow, b->counts[array]);
    cr_assert_eq(bytes_copy(b->there[array], narrow, b->counts[array] * dtype_bytes(b->dtype)), ERR_NONE);
    free(narrow);
    return b->there[array];
}

static inline void compare_bytes(const struct bench *b, int i, const void *found, const char *what, size_t rows,
                                 size_t width)
{
    enum dtype dtype = b->is_operand[i] ? b->dtype : DTYPE_FP32;
    size_t bytes = dtype_bytes(dtype);
    char *expected = malloc((b->counts[i] + 1) * sizeof(float));
    isa_scalar.narrow(dtype, b->here[i], expected, b->counts[i]);
    for (size_t j = 0; j < b->counts[i]; j++)
        cr_assert(memcmp((const char *)found + j * bytes, expected + j * bytes, bytes) == 0,
                  "%s of %zu x %zu in %s: array %d, element %zu: not %a, as by the scalar build", what, rows, width,
                  dtype_name(b->dtype), i, j, b->here[i][j]);
    free(expected);
}

// Every array is the same in both places; then they are given back.
static inline void compare(struct bench *b, const char *what, size_t rows, size_t width)
{
    cr_assert_eq(accelerator_wait(), ERR_NONE, "%s", err_message());
    for (int i = 0; i < b->array_count; i++) {
        float *back = malloc((b->counts[i] + 1) * sizeof(float));
        cr_assert_eq(bytes_copy(back, b->there[i], b->counts[i] * sizeof(float)), ERR_NONE, "%s", err_message());
        compare_bytes(b, i, back, what, rows, width);
        free(back);
        free(b->here[i]);
        void *there = (char *)b->there[i] - b->shifts[i];
        if (b->is_gpu) {
            accelerator_disclaim(there);
            cr_assert_eq(cuda_accelerator.release(there), ERR_NONE);
        } else {
            free(there);
        }
    }
    b->array_count = 0;
}

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

static inline void try_on(bool is_gpu, void (*trial)(struct bench *b))
{
    struct bench b;
    if (open_bench(&b, is_gpu))
        trial(&b);
}
