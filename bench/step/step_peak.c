// SPDX-License-Identifier: Apache-2.0
#include "bench/step/step_peak.h"

#include "bench/harness/bench.h"
#include "ref/arithmetic/dtype.h"
#include "base/err.h"
#include "ref/arithmetic/matmul.h"

#include <stdio.h>
#include <stdlib.h>

// A thread in place of a rank.
struct worker {
    float *memory;  // on the rank's device: two operands of ones, and the results
    double gflops;  // of the last measurement
    int code;
    char message[512];
};

enum { SEEN_COUNT = 1 << 18 };  // results that are verified at a time

struct step_peak {
    struct bench_device device;
    struct step_products of_model, of_square;
    double seconds;
    enum dtype dtype;
    size_t operand_count, result_count;  // elements of each operand, and of all results, of a worker
    int worker_count;
    struct worker *workers;
    float *seen;  // [SEEN_COUNT] in host memory
};

// Grows the workers' memory to fit the program.
static void grow(struct step_peak *peak, const struct step_products *program)
{
    size_t results = 0;
    for (size_t i = 0; i < program->product_count; i++) {
        const struct step_product *p = &program->products[i];
        size_t a = p->m * p->k, b = p->k * p->n, larger = a > b ? a : b;
        peak->operand_count = larger > peak->operand_count ? larger : peak->operand_count;
        results += p->m * p->n;
    }
    peak->result_count = results > peak->result_count ? results : peak->result_count;
}

static size_t worker_bytes(const struct step_peak *peak)
{
    return (2 * peak->operand_count + peak->result_count) * sizeof(float);
}

static float *results_of(const struct step_peak *peak, const struct worker *worker)
{
    return worker->memory + 2 * peak->operand_count;
}

static void multiply_all(const struct step_peak *peak, const struct worker *worker, const struct step_products *program)
{
    const float *a = worker->memory, *b = a + peak->operand_count;
    float *result = results_of(peak, worker);
    for (size_t i = 0; i < program->product_count; i++) {
        const struct step_product *p = &program->products[i];
        const struct matmul_operand left = {a, p->a_transposed ? p->m : p->k, p->a_transposed};
        const struct matmul_operand right = {b, p->b_transposed ? p->k : p->n, p->b_transposed};
        for (size_t k = 0; k < p->count; k++)
            matmul(&(struct matmul_product){.m = p->m,
                                            .n = p->n,
                                            .k = p->k,
                                            .alpha = 1,
                                            .dtype = peak->dtype,
                                            .a = left,
                                            .b = right,
                                            .c = result,
                                            .c_stride = p->n});
        result += p->m * p->n;
    }
}

// Runs `work` on all workers together, each on its rank's device. Returns the first error.
static int work_all(struct step_peak *peak, const struct step_products *program,
                    int (*work)(const struct step_peak *peak, struct worker *worker,
                                const struct step_products *program))
{
#pragma omp parallel for num_threads(peak->worker_count) schedule(static)
    for (int rank = 0; rank < peak->worker_count; rank++) {
        struct worker *worker = &peak->workers[rank];
        worker->code = bench_device_enter(&peak->device, rank);
        if (worker->code == ERR_NONE)
            worker->code = work(peak, worker, program);
        snprintf(worker->message, sizeof worker->message, "%s", err_message());
    }
    for (int rank = 0; rank < peak->worker_count; rank++)
        if (peak->workers[rank].code != ERR_NONE)
            return err_set(peak->workers[rank].code, "matrix products of rank %d: %s", rank,
                           peak->workers[rank].message);
    return ERR_NONE;
}

static int forget_results(const struct step_peak *peak, struct worker *worker, const struct step_products *program)
{
    (void)program;
    TRY(bench_device_fill(&peak->device, results_of(peak, worker), f32_bits(-1), peak->result_count * sizeof(float)));
    return accelerator_wait();
}

// Multiplies once on an accelerator, whose first products load its kernels.
static int prepare(const struct step_peak *peak, struct worker *worker, const struct step_products *program)
{
    void *memory;
    TRY(bench_device_alloc(&peak->device, worker_bytes(peak), &memory));
    worker->memory = memory;
    TRY(bench_device_fill(&peak->device, memory, f32_bits(1), worker_bytes(peak)));
    if (peak->device.accelerator) {
        multiply_all(peak, worker, &peak->of_model);
        multiply_all(peak, worker, &peak->of_square);
    }
    return forget_results(peak, worker, program);
}

static int open_workers(struct step_peak *peak)
{
    peak->workers = calloc((size_t)peak->worker_count, sizeof *peak->workers);
    peak->seen = malloc(SEEN_COUNT * sizeof *peak->seen);
    if (!peak->workers || !peak->seen)
        return err_set(ERR_MEMORY, "no memory for matrix products");
    return work_all(peak, NULL, prepare);
}

int step_peak_open(const struct model *model, const struct step_peak_setting *setting, struct step_peak **out)
{
    struct step_peak *peak = calloc(1, sizeof *peak);
    if (!peak)
        return err_set(ERR_MEMORY, "no memory for matrix products");
    size_t side = setting->side;
    if (setting->device)
        peak->device = *setting->device;
    peak->worker_count = setting->threads;
    peak->seconds = setting->seconds;
    peak->dtype = setting->dtype;
    if (model) {
        int code = step_products_of_model(model, setting->sequences, &peak->of_model);
        if (code != ERR_NONE) {
            free(peak);
            return code;
        }
    }
    peak->of_square = (struct step_products){.products = {{side, side, side, 1, false, false}}, .product_count = 1};
    grow(peak, &peak->of_model);
    grow(peak, &peak->of_square);
    int code = open_workers(peak);
    if (code == ERR_NONE)
        *out = peak;
    else
        step_peak_close(peak);
    return code;
}

void step_peak_close(struct step_peak *peak)
{
    if (!peak)
        return;
    for (int rank = 0; peak->workers && rank < peak->worker_count; rank++)
        bench_device_free(&peak->device, peak->workers[rank].memory, worker_bytes(peak));
    free(peak->workers);
    free(peak->seen);
    free(peak);
}

static double flops_of(const struct step_products *program)
{
    double flops = 0;
    for (size_t i = 0; i < program->product_count; i++) {
        const struct step_product *p = &program->products[i];
        flops += 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->count;
    }
    return flops;
}

double step_peak_model_flops(const struct step_peak *peak)
{
    return flops_of(&peak->of_model) * peak->worker_count;
}

// Waits for products once per round of some milliseconds, so that the cost of waiting is small.
static int multiply_for_a_time(const struct step_peak *peak, struct worker *worker, const struct step_products *program)
{
    uint64_t begin_ns = clock_now_ns(), before_ns, now_ns = begin_ns;
    size_t rounds = 1, done = 0;
    do {
        before_ns = now_ns;
        for (size_t i = 0; i < rounds; i++)
            multiply_all(peak, worker, program);
        TRY(accelerator_wait());
        done += rounds;
        now_ns = clock_now_ns();
        rounds *= now_ns - before_ns < BENCH_SAMPLE_NS ? 2 : 1;
    } while ((double)(now_ns - begin_ns) < peak->seconds * 1e9);
    worker->gflops = flops_of(program) * (double)done / (double)(now_ns - begin_ns);
    return ERR_NONE;
}

// Counts results that are not k: operands are ones, and their sum is exact.
static int count_wrong(const struct step_peak *peak, const struct worker *worker, const struct step_products *program,
                       size_t *wrong)
{
    const float *result = results_of(peak, worker);
    for (size_t i = 0; i < program->product_count; i++) {
        const struct step_product *p = &program->products[i];
        size_t count = p->m * p->n;
        for (size_t from = 0; from < count; from += SEEN_COUNT) {
            size_t seen = count - from < SEEN_COUNT ? count - from : SEEN_COUNT;
            TRY(bytes_copy(peak->seen, result + from, seen * sizeof *peak->seen));
            for (size_t k = 0; k < seen; k++)
                *wrong += peak->seen[k] != (float)p->k;
        }
        result += count;
    }
    return ERR_NONE;
}

static int measure(struct step_peak *peak, const struct step_products *program, double *gflops)
{
    size_t wrong = 0;
    TRY(work_all(peak, program, multiply_for_a_time));
    *gflops = 0;
    for (int rank = 0; rank < peak->worker_count; rank++) {
        TRY(bench_device_enter(&peak->device, rank));
        TRY(count_wrong(peak, &peak->workers[rank], program, &wrong));
        *gflops += peak->workers[rank].gflops;
    }
    TRY(work_all(peak, program, forget_results));
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
