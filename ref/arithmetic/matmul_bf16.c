// SPDX-License-Identifier: Apache-2.0
// Products of bf16 operands in host memory by the processor's instructions for them, through oneDNN, in blocks of rows
// that threads share; as the shape alone decides the blocks, the bits do not depend on the number of threads.
#include "ref/arithmetic/matmul.h"

#include "base/err.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/onednn.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// A block has BLOCK_ROWS rows of c, takes DEPTH of k at a time, and COLUMNS of c, whose part of b stays in the
// processor's caches.
enum { BLOCK_ROWS = 256, COLUMNS = 1024, DEPTH = 2048 };

// The fewest multiplications for which it is worth waking other threads.
enum { SHARED_PRODUCTS = 1 << 25 };

static bool is_on;

int matmul_set_bf16(bool on)
{
    if (on)
        TRY(onednn_load());
    is_on = on;
    return ERR_NONE;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

// The operand from this row and column on, of op(operand).
static struct matmul_operand part_of(struct matmul_operand operand, size_t row, size_t column)
{
    size_t at = operand.transposed ? column * operand.stride + row : row * operand.stride + column;
    return (struct matmul_operand){(const float *)operand.data + at, operand.stride, operand.transposed};
}

// Parts of operands in bf16, of one thread, which frees them when it ends. b is shared by the threads of a product.
struct narrow_parts {
    uint16_t a[BLOCK_ROWS * DEPTH], b[DEPTH * COLUMNS];
};
static pthread_key_t parts_key;

static void parts_key_make(void)
{
    int failed = pthread_key_create(&parts_key, free);
    assert(!failed);
    (void)failed;
}

static struct narrow_parts *parts_of_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, parts_key_make);
    struct narrow_parts *parts = pthread_getspecific(parts_key);
    if (parts)
        return parts;
    parts = aligned_alloc(4096, sizeof *parts);
    if (!parts || pthread_setspecific(parts_key, parts) != 0) {
        fprintf(stderr, "zerogauge: no memory for the %zu bytes of a thread's operands in bf16\n", sizeof *parts);
        abort();
    }
    return parts;
}

// A part of an operand, and as it lies in bf16: lines of `length`, one after the other.
struct narrowed {
    struct matmul_operand from;
    size_t lines, length;
    uint16_t *to;
};

static struct narrowed narrowed_of(struct matmul_operand from, size_t row_count, size_t column_count, uint16_t *to)
{
    return (struct narrowed){from, from.transposed ? column_count : row_count,
                             from.transposed ? row_count : column_count, to};
}

// Every value is one of bf16 already.
static void narrow_line(const struct narrowed *part, size_t line)
{
    const float *from = (const float *)part->from.data + line * part->from.stride;
    dtype_narrow(DTYPE_BF16, from, part->to + line * part->length, part->length);
}

static struct onednn_operand operand_of(const struct narrowed *part)
{
    return (struct onednn_operand){part->to, part->length, part->from.transposed};
}

// One block of rows: c (+)= a times b's part, from this column and k on.
static void bf16_block(const struct matmul_product *p, size_t row, size_t column, size_t k, const struct narrowed *b)
{
    size_t row_count = smaller(p->m - row, BLOCK_ROWS), depth = smaller(p->k - k, DEPTH);
    struct narrowed a = narrowed_of(part_of(p->a, row, k), row_count, depth, parts_of_thread()->a);
    for (size_t line = 0; line < a.lines; line++)
        narrow_line(&a, line);
    onednn_bf16_product(row_count, smaller(p->n - column, COLUMNS), depth, operand_of(&a), operand_of(b),
                        k > 0 || p->add, (float *)p->c + row * p->c_stride + column, p->c_stride);
}

static void bf16_panel(const struct matmul_product *p, size_t column, size_t k)
{
    const struct narrowed b = narrowed_of(part_of(p->b, k, column), smaller(p->k - k, DEPTH),
                                          smaller(p->n - column, COLUMNS), parts_of_thread()->b);
#pragma omp parallel if (p->m * b.lines * b.length >= SHARED_PRODUCTS)
    {
#pragma omp for schedule(static)
        for (size_t line = 0; line < b.lines; line++)
            narrow_line(&b, line);
#pragma omp for schedule(dynamic)
        for (size_t row = 0; row < p->m; row += BLOCK_ROWS)
            bf16_block(p, row, column, k, &b);
    }
}

bool matmul_bf16(const struct matmul_product *p)
{
    // Adapters scale their products, and a product without terms is 0.
    if (!is_on || p->dtype != DTYPE_BF16 || p->alpha != 1 || p->k == 0 || p->m == 0 || p->n == 0)
        return false;
    for (size_t column = 0; column < p->n; column += COLUMNS)
        for (size_t k = 0; k < p->k; k += DEPTH)
            bf16_panel(p, column, k);
    for (size_t row = 0; p->c_is_operand && row < p->m; row++) {
        float *c = (float *)p->c + row * p->c_stride;
        isa_kernels()->operand_round(p->dtype, p->n, c, c);
    }
    return true;
}
