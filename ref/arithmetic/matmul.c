// SPDX-License-Identifier: Apache-2.0
// Products in host memory, block by block: rows of c, steps along k. Threads pack a block's rows of a together, and
// then each takes columns of b, packs them for itself and multiplies. The chains continue in c from one block along k
// to the next.
#include "ref/arithmetic/matmul.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/matmul_panel.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

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

// The fewest multiplications for which it is worth waking other threads.
enum { SHARED_PRODUCTS = 1 << 22 };

// Strips of a that a thread packs at a time, so that it reads a line of the memory's pages once; elements of a that it
// multiplies with the same columns of b; tasks for each thread, so that none waits long for the last; and columns with
// which rows of a are multiplied as they lie, since packing them would take longer than it saves.
enum { PACKED_STRIPS = 8, CHUNK_ELEMENTS = 32 << 10, TASKS_OF_THREAD = 4, DIRECT_COLUMNS = 256 };

// Lines of memory that are a multiple of SET_ELEMENTS apart share a set of the first cache, which has room for
// SET_LINES of them on most processors.
enum { SET_ELEMENTS = 1024, SET_LINES = 8 };

// A block's steps along k, elements of a's panel, and columns of b's. All threads share a's panel, which stays in the
// last cache; each has one of b, which stays in its second one.
struct blocks {
    size_t depth, a_count, b_columns;
};
static const struct blocks large = {384, 768 << 10, 128};
// Where there is no memory for these, on the stack.
enum { SMALL_DEPTH = 64, SMALL_COLUMNS = 64, SMALL_COUNT = (SMALL_DEPTH + 1) * SMALL_COLUMNS };
static const struct blocks small = {SMALL_DEPTH, SMALL_COUNT, SMALL_COLUMNS};

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
    size_t threads;
    size_t height;   // of a strip of a
    float *a, *b;    // panels; a is null if its rows are multiplied as they lie
    size_t b_count;  // elements of a thread's panel of b
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

// Rows of c, and steps along k.
struct block {
    size_t row, row_count, step, step_count;
};

static void pack_rows(const struct work *w, const struct block *block)
{
    const size_t strips = divided_up(block->row_count, w->height), strip = matmul_strip(w->height, block->step_count);
    const size_t group = smaller(PACKED_STRIPS, divided_up(strips, w->threads));
    const float alpha = w->product->alpha;
#pragma omp for schedule(static)
    for (size_t s = 0; s < strips; s += group) {
        const size_t i = s * w->height, count = smaller(group * w->height, block->row_count - i);
        const struct matmul_lines from = lines_from(&w->a_lines, block->row + i, block->step);
        float *to = w->a + s * strip;
        w->kernels->matmul_pack(&from, count, w->height, block->step_count, to);
        for (size_t t = 0; alpha != 1 && t < divided_up(count, w->height); t++)
            for (size_t e = 0; e < w->height * block->step_count; e++)
                to[t * strip + e] *= alpha;
    }
}

// A part of a block. Its first row is a strip's.
struct task {
    size_t row, row_end, column, column_count;
};

static void multiply_rows(const struct work *w, const struct block *block, const struct task *task, const float *b)
{
    const struct matmul_product *p = w->product;
    const size_t strip = matmul_strip(w->height, block->step_count), row_count = task->row_end - task->row;
    const struct matmul_lines lines = lines_from(&w->a_lines, block->row + task->row, block->step);
    float *c = (float *)p->c + (block->row + task->row) * p->c_stride + task->column;
    w->kernels->matmul_panels(&(struct matmul_panels){.m = row_count,
                                                      .n = task->column_count,
                                                      .k = block->step_count,
                                                      .height = w->height,
                                                      .a = w->a ? w->a + task->row / w->height * strip : lines.data,
                                                      .a_row = w->a ? 1 : lines.line,
                                                      .a_step = w->a ? w->height : 1,
                                                      .a_strip = w->a ? strip : w->height * lines.line,
                                                      .b = b,
                                                      .c = c,
                                                      .c_stride = p->c_stride,
                                                      .add = p->add || block->step > 0});
    bool is_last = block->step + block->step_count == p->k;
    for (size_t i = 0; is_last && p->c_is_operand && p->dtype != DTYPE_FP32 && i < row_count; i++)
        w->kernels->operand_round(p->dtype, task->column_count, c + i * p->c_stride, c + i * p->c_stride);
}

// Columns go to the threads; where there are fewer of them than threads, some take other rows of the same ones.
static void multiply(const struct work *w, const struct block *block)
{
    const size_t width = w->kernels->matmul_columns, strips = divided_up(w->product->n, width);
    const size_t wanted = w->threads > 1 ? w->threads * TASKS_OF_THREAD : 1;
    const size_t columns = smaller(w->blocks.b_columns / width, divided_up(strips, wanted)) * width;
    const size_t groups = divided_up(w->product->n, columns);
    const size_t chunk = divided_up(CHUNK_ELEMENTS, w->height * (block->step_count + 1)) * w->height;
    const size_t chunks = divided_up(block->row_count, chunk);
    const size_t parts = smaller(chunks, divided_up(w->threads, groups)), rows = divided_up(chunks, parts) * chunk;
    float *b = w->b + (size_t)omp_get_thread_num() * w->b_count;
#pragma omp for schedule(dynamic)
    for (size_t t = 0; t < groups * parts; t++) {
        const size_t column = t / parts * columns, column_count = smaller(columns, w->product->n - column);
        const struct matmul_lines from = lines_from(&w->b_lines, column, block->step);
        w->kernels->matmul_pack(&from, column_count, width, block->step_count, b);
        const size_t row = t % parts * rows, end = smaller(row + rows, block->row_count);
        for (size_t i = row; i < end; i += chunk)
            multiply_rows(w, block, &(struct task){i, smaller(i + chunk, end), column, column_count}, b);
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
    const size_t depth = p->k ? divided_up(p->k, divided_up(p->k, w->blocks.depth)) : 1;
    const size_t rows = w->blocks.a_count / matmul_strip(w->height, depth) * w->height;
#pragma omp parallel num_threads((int)w->threads)
    for (size_t i = 0; i < p->m; i += rows) {
        size_t k = 0;
        do {  // once without a step, too: c is 0 then
            const struct block block = {i, smaller(rows, p->m - i), k, smaller(depth, p->k - k)};
            if (w->a)
                pack_rows(w, &block);
            multiply(w, &block);
            k += depth;
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

struct panels {
    size_t count;
    _Alignas(64) float elements[];
};

// The calling thread's memory for `count` elements of panels, in large pages if the system has some; null: there is
// none. The thread frees it when it ends.
static float *panels_of_thread(size_t count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum { PAGE_BYTES = 2 << 20 };
    pthread_once(&once, panels_key_make);
    struct panels *panels = pthread_getspecific(panels_key);
    if (panels && panels->count >= count)
        return panels->elements;
    free(panels);
    size_t bytes = divided_up(sizeof *panels + count * sizeof *panels->elements, PAGE_BYTES) * PAGE_BYTES;
    panels = aligned_alloc(PAGE_BYTES, bytes);
    if (pthread_setspecific(panels_key, panels) != 0) {
        free(panels);
        panels = NULL;
    }
    if (!panels)
        return NULL;
    (void)madvise(panels, bytes, MADV_HUGEPAGE);
    panels->count = count;
    return panels->elements;
}

// A strip's rows are read side by side, so that they must not drive each other from the cache.
static bool multiplies_as_they_lie(const struct matmul_product *p, size_t height, size_t width)
{
    bool fits = height <= SET_LINES || p->a.stride % SET_ELEMENTS != 0 || p->n <= width;
    return !p->a.transposed && p->alpha == 1 && p->n <= DIRECT_COLUMNS && fits;
}

void matmul_by(const struct isa_kernels *kernels, const struct matmul_product *p)
{
    if (p->m == 0 || p->n == 0)
        return;
    struct work w = {.product = p,
                     .kernels = kernels,
                     .blocks = large,
                     .threads = p->m * p->n * p->k < SHARED_PRODUCTS ? 1 : (size_t)omp_get_max_threads(),
                     .height = height_of(p->m, kernels->matmul_rows),
                     .a_lines = lines_of(p->a, !p->a.transposed),
                     .b_lines = lines_of(p->b, p->b.transposed)};
    w.b_count = large.b_columns / kernels->matmul_columns * matmul_strip(kernels->matmul_columns, large.depth);
    float own[2 * SMALL_COUNT];
    w.a = panels_of_thread(large.a_count + w.threads * w.b_count);
    if (w.a) {
        w.b = w.a + large.a_count;
    } else {
        w.blocks = small;
        w.threads = 1;
        w.a = own;
        w.b = own + SMALL_COUNT;
    }
    if (multiplies_as_they_lie(p, w.height, kernels->matmul_columns))
        w.a = NULL;
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
