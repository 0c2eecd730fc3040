// SPDX-License-Identifier: Apache-2.0
#include "step_peak.h"

#include "bench.h"
#include "err.h"
#include "gpt.h"
#include "gpt_find.h"
#include "gpt_math.h"

#include <stdlib.h>

enum { PRODUCT_MAX = 17 };

// c (m x n) = a (m x k) b (k x n), `count` times.
struct product {
    size_t m, n, k, count;
    bool a_transposed, b_transposed;
};

// One after the other.
struct program {
    struct product products[PRODUCT_MAX];
    size_t product_count;
};

struct step_peak {
    struct program of_model, of_square;
    int threads;
    double seconds;
    size_t operand_count, result_count;  // elements of each operand, and of all results, of a thread
    float *memory;                       // of each thread: two operands of ones, and the results
};

static void add(struct program *program, struct product product)
{
    program->products[program->product_count++] = product;
}

// A linear layer's: forward, the gradient of its input, and that of its weights.
static void add_layer(struct program *program, size_t rows, size_t in, size_t out, size_t count)
{
    add(program, (struct product){rows, out, in, count, false, false});
    add(program, (struct product){rows, in, out, count, false, true});
    add(program, (struct product){in, out, rows, count, true, false});
}

static void add_products(struct program *program, const struct gpt_shape *shape, size_t sequence_count)
{
    size_t rows = sequence_count * shape->sequence_length, width = shape->width, layers = shape->layer_count;
    size_t length = shape->sequence_length, head = width / shape->head_count;
    size_t heads = layers * sequence_count * shape->head_count;
    add_layer(program, rows, width, 3 * width, layers);
    add_layer(program, rows, width, width, layers);
    add_layer(program, rows, width, 4 * width, layers);
    add_layer(program, rows, 4 * width, width, layers);
    add_layer(program, rows, width, shape->vocabulary, 1);
    // Attention: scores and their mix of values, each with two gradients.
    add(program, (struct product){length, length, head, 2 * heads, false, true});
    add(program, (struct product){length, head, length, 4 * heads, false, false});
}

// What the program needs of a thread's memory.
static void grow(struct step_peak *peak, const struct program *program)
{
    size_t results = 0;
    for (size_t i = 0; i < program->product_count; i++) {
        const struct product *p = &program->products[i];
        size_t a = p->m * p->k, b = p->k * p->n, larger = a > b ? a : b;
        peak->operand_count = larger > peak->operand_count ? larger : peak->operand_count;
        results += p->m * p->n;
    }
    peak->result_count = results > peak->result_count ? results : peak->result_count;
}

static size_t thread_elements(const struct step_peak *peak)
{
    return 2 * peak->operand_count + peak->result_count;
}

int step_peak_open(const struct model *model, size_t sequence_count, int threads, size_t side, double seconds,
                   struct step_peak **out)
{
    if (!gpt_is_name(model->name))
        return err_set(ERR_USAGE, "the model %s is no GPT, whose matrix products are known", model->name);
    struct step_peak *peak = calloc(1, sizeof *peak);
    if (!peak)
        return err_set(ERR_MEMORY, "no memory for matrix products");
    peak->threads = threads;
    peak->seconds = seconds;
    add_products(&peak->of_model, model->shape, sequence_count);
    add(&peak->of_square, (struct product){side, side, side, 1, false, false});
    grow(peak, &peak->of_model);
    grow(peak, &peak->of_square);
    size_t total = thread_elements(peak) * (size_t)threads;
    peak->memory = bench_alloc(total * sizeof(float), threads);
    if (!peak->memory) {
        free(peak);
        return err_set(ERR_MEMORY, "no memory for %zu elements of matrices", total);
    }
    for (size_t i = 0; i < total; i++)
        peak->memory[i] = 1;
    matmul_prepare();
    *out = peak;
    return ERR_NONE;
}

void step_peak_close(struct step_peak *peak)
{
    if (!peak)
        return;
    bench_free(peak->memory, thread_elements(peak) * (size_t)peak->threads * sizeof(float));
    free(peak);
}

static double flops_of(const struct program *program)
{
    double flops = 0;
    for (size_t i = 0; i < program->product_count; i++) {
        const struct product *p = &program->products[i];
        flops += 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->count;
    }
    return flops;
}

double step_peak_model_flops(const struct step_peak *peak)
{
    return flops_of(&peak->of_model) * peak->threads;
}

static float *results_of(const struct step_peak *peak, int thread)
{
    return peak->memory + (size_t)thread * thread_elements(peak) + 2 * peak->operand_count;
}

static void multiply_all(const struct step_peak *peak, const struct program *program, int thread)
{
    float *result = results_of(peak, thread);
    const float *b = result - peak->operand_count, *a = b - peak->operand_count;
    for (size_t i = 0; i < program->product_count; i++) {
        const struct product *p = &program->products[i];
        const struct matmul_operand left = {a, p->a_transposed ? p->m : p->k, p->a_transposed};
        const struct matmul_operand right = {b, p->b_transposed ? p->k : p->n, p->b_transposed};
        for (size_t k = 0; k < p->count; k++)
            matmul(p->m, p->n, p->k, 1, left, right, 0, result, p->n);
        result += p->m * p->n;
    }
}

// A sum of k ones is exact. The results are gone afterwards.
static size_t take_wrong(const struct step_peak *peak, const struct program *program, int thread)
{
    float *result = results_of(peak, thread);
    size_t wrong = 0;
    for (size_t i = 0; i < program->product_count; i++) {
        const struct product *p = &program->products[i];
        for (size_t k = 0; k < p->m * p->n; k++) {
            wrong += result[k] != (float)p->k;
            result[k] = -1;
        }
        result += p->m * p->n;
    }
    return wrong;
}

static int measure(const struct step_peak *peak, const struct program *program, double *gflops)
{
    double rate = 0;
    size_t wrong = 0;
#pragma omp parallel for num_threads(peak->threads) schedule(static) reduction(+ : rate)
    for (int thread = 0; thread < peak->threads; thread++) {
        uint64_t begin_ns = bench_now_ns(), ns;
        double flops = 0;
        do {
            multiply_all(peak, program, thread);
            flops += flops_of(program);
            ns = bench_now_ns() - begin_ns;
        } while ((double)ns < peak->seconds * 1e9);
        rate += flops / (double)ns;
    }
    for (int thread = 0; thread < peak->threads; thread++)
        wrong += take_wrong(peak, program, thread);
    *gflops = rate;
    return wrong == 0 ? ERR_NONE : err_set(ERR_CHECK, "matrix products have %zu wrong elements", wrong);
}

int step_peak_of_model(struct step_peak *peak, double *gflops)
{
    return measure(peak, &peak->of_model, gflops);
}

int step_peak_of_square(struct step_peak *peak, double *gflops)
{
    return measure(peak, &peak->of_square, gflops);
}
