// SPDX-License-Identifier: Apache-2.0
// Products in host memory, block by block: columns of c, steps along k, rows of c. Threads pack a block's operands
// together and then share its tiles. The chains continue in c from one block along k to the next.
#include "ref/arithmetic/matmul.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/matmul_panel.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_num_threads(void)
{
    return 1;
}
#endif

// The fewest multiplications for which it is worth waking other threads.
enum { SHARED_PRODUCTS = 1 << 22 };

// Strips that a thread packs at a time, so that it reads a line of the memory's pages once; elements of a that it
// multiplies with the same strip of columns, which stay in its own cache; and parts per thread of a block, so that none
// waits long for the last.
enum { PACKED_STRIPS = 8, TASK_ELEMENTS = 48 << 10, TASKS_OF_THREAD = 4 };

// A block's steps along k, and elements of its panels. A strip of b and the strips of a that a task multiplies with it
// stay in a core's second cache, the panels in the last one.
struct blocks {
    size_t depth, a_count, b_count;
};
static const struct blocks large = {768, 384 * 1008, 384 * 2048};
// Where there is no memory for these, on the stack.
enum { SMALL_DEPTH = 64, SMALL_COUNT = SMALL_DEPTH * 64 };
static const struct blocks small = {SMALL_DEPTH, SMALL_COUNT, SMALL_COUNT};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t divided_up(size_t count, size_t by)
{
    return (count + by - 1) / by;
}

// A product by its caller's threads.
struct work {
    const struct matmul_product *product;
    const struct isa_kernels *kernels;
    struct blocks blocks;
    float *a, *b;   // panels
    size_t height;  // of a strip of a
    struct matmul_lines a_lines, b_lines;
};

static struct matmul_lines lines_of(struct matmul_operand operand, bool are_contiguous)
{
    return (struct matmul_lines){operand.data, are_contiguous ? operand.stride : 1,
                                 are_contiguous ? 1 : operand.stride};
}

static struct matmul_lines lines_from(const struct matmul_lines *lines, size_t line, size_t step)
{
    return (struct matmul_lines){lines->data + line * lines->line + step * lines->step, lines->line, lines->step};
}

// A block: part of c, and the steps along k.
struct block {
    size_t row, row_count, column, column_count, step, step_count;
};

static void pack_columns(const struct work *w, const struct block *block)
{
    const size_t group = PACKED_STRIPS * w->kernels->matmul_columns;
#pragma omp for schedule(static) nowait
    for (size_t j = 0; j < block->column_count; j += group) {
        const struct matmul_lines from = lines_from(&w->b_lines, block->column + j, block->step);
        w->kernels->matmul_pack(&from, smaller(group, block->column_count - j), w->kernels->matmul_columns,
                                block->step_count, w->b + j * block->step_count);
    }
}

static void pack_rows(const struct work *w, const struct block *block)
{
    const size_t group = PACKED_STRIPS * w->height;
    const float alpha = w->product->alpha;
#pragma omp for schedule(static)
    for (size_t i = 0; i < block->row_count; i += group) {
        const struct matmul_lines from = lines_from(&w->a_lines, block->row + i, block->step);
        const size_t count = smaller(group, block->row_count - i);
        float *to = w->a + i * block->step_count;
        w->kernels->matmul_pack(&from, count, w->height, block->step_count, to);
        for (size_t e = 0; alpha != 1 && e < divided_up(count, w->height) * w->height * block->step_count; e++)
            to[e] *= alpha;
    }
}

// A part of a block: rows and columns of it, multiples of the strips' widths from its own first ones on.
struct task {
    size_t row, row_count, column, column_count;
};

static void multiply_part(const struct work *w, const struct block *block, const struct task *task)
{
    const struct matmul_product *p = w->product;
    float *c = (float *)p->c + (block->row + task->row) * p->c_stride + block->column + task->column;
    w->kernels->matmul_panels(&(struct matmul_panels){.m = task->row_count,
                                                      .n = task->column_count,
                                                      .k = block->step_count,
                                                      .height = w->height,
                                                      .a = w->a + task->row * block->step_count,
                                                      .b = w->b + task->column * block->step_count,
                                                      .c = c,
                                                      .c_stride = p->c_stride,
                                                      .add = p->add || block->step > 0});
    bool is_last = block->step + block->step_count == p->k;
    for (size_t i = 0; is_last && p->c_is_operand && p->dtype != DTYPE_FP32 && i < task->row_count; i++)
        w->kernels->operand_round(p->dtype, task->column_count, c + i * p->c_stride, c + i * p->c_stride);
}

static void multiply(const struct work *w, const struct block *block)
{
    const size_t task_strips = TASK_ELEMENTS / w->height / w->blocks.depth;
    const size_t rows = task_strips * w->height, down = divided_up(block->row_count, rows);
    const size_t strips = divided_up(block->column_count, w->kernels->matmul_columns);
    const size_t parts = divided_up((size_t)(TASKS_OF_THREAD * omp_get_num_threads()), down);
    const size_t columns = divided_up(strips, parts) * w->kernels->matmul_columns;
    const size_t across = divided_up(block->column_count, columns);
#pragma omp for schedule(dynamic)
    for (size_t t = 0; t < down * across; t++) {
        const size_t i = t % down * rows, j = t / down * columns;
        const struct task task = {i, smaller(rows, block->row_count - i), j, smaller(columns, block->column_count - j)};
        multiply_part(w, block, &task);
    }
}

// Strips of a have equal heights, as far as possible: low tiles use few of the processor's registers.
static size_t height_of(size_t m, size_t most)
{
    return divided_up(m, divided_up(m, most));
}

static void multiply_blocks(const struct work *w)
{
    const struct matmul_product *p = w->product;
    const size_t columns =
        w->blocks.b_count / w->blocks.depth / w->kernels->matmul_columns * w->kernels->matmul_columns;
    const size_t rows = w->blocks.a_count / w->blocks.depth / w->height * w->height;
#pragma omp parallel if (p->m * p->n * p->k >= SHARED_PRODUCTS)
    for (size_t j = 0; j < p->n; j += columns) {
        size_t k = 0;
        do {  // once without a step, too: c is 0 then
            struct block block = {.column = j,
                                  .column_count = smaller(columns, p->n - j),
                                  .step = k,
                                  .step_count = smaller(w->blocks.depth, p->k - k)};
            pack_columns(w, &block);
            for (size_t i = 0; i < p->m; i += rows) {
                block.row = i;
                block.row_count = smaller(rows, p->m - i);
                pack_rows(w, &block);
                multiply(w, &block);
            }
            k += w->blocks.depth;
        } while (k < p->k);
    }
}

static pthread_key_t panels_key;

static void panels_key_make(void)
{
    int failed = pthread_key_create(&panels_key, free);
    assert(!failed);
    (void)failed;
}

// The calling thread's memory for the panels of large blocks, in large pages if the system has some; null: there is
// none. The thread frees it when it ends.
static float *panels_of_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum { PAGE_BYTES = 2 << 20 };
    pthread_once(&once, panels_key_make);
    float *panels = pthread_getspecific(panels_key);
    if (panels)
        return panels;
    size_t bytes = divided_up((large.a_count + large.b_count) * sizeof *panels, PAGE_BYTES) * PAGE_BYTES;
    panels = aligned_alloc(PAGE_BYTES, bytes);
    if (panels)
        (void)madvise(panels, bytes, MADV_HUGEPAGE);
    if (panels && pthread_setspecific(panels_key, panels) != 0) {
        free(panels);
        panels = NULL;
    }
    return panels;
}

void matmul_by(const struct isa_kernels *kernels, const struct matmul_product *p)
{
    if (p->m == 0 || p->n == 0)
        return;
    float own[2 * SMALL_COUNT], *panels = panels_of_thread();
    struct work w = {.product = p,
                     .kernels = kernels,
                     .blocks = panels ? large : small,
                     .height = height_of(p->m, kernels->matmul_rows),
                     .a_lines = lines_of(p->a, !p->a.transposed),
                     .b_lines = lines_of(p->b, p->b.transposed)};
    w.b = panels ? panels : own;
    w.a = w.b + w.blocks.b_count;
    multiply_blocks(&w);
}

// True if the operands have rows as long as the product needs.
static __attribute__((unused)) bool is_product(const struct matmul_product *p)
{
    return p->a.data && p->b.data && p->c && p->a.stride >= (p->a.transposed ? p->m : p->k) &&
           p->b.stride >= (p->b.transposed ? p->k : p->n) && p->c_stride >= p->n;
}

void matmul(const struct matmul_product *product)
{
    assert(is_product(product));
    const struct accelerator *accelerator = accelerator_of(product->c);
    if (accelerator)
        accelerator->matmul(product);
    else if (!matmul_bf16(product))
        matmul_by(isa_kernels(), product);
}

void matmul_floats(size_t m, size_t n, size_t k, struct matmul_operand a, struct matmul_operand b, float *c,
                   size_t c_stride)
{
    matmul(&(struct matmul_product){.m = m, .n = n, .k = k, .alpha = 1, .a = a, .b = b, .c = c, .c_stride = c_stride});
}
