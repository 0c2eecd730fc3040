// SPDX-License-Identifier: Apache-2.0
#include "bench/product/product_case.h"

#include "bench/harness/registers.h"
#include "ref/arithmetic/product_library.h"

#include "base/err.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Elements of a product that are verified.
enum { CHECKED = 2000 };
static const double REGISTERS_SECONDS = 0.01;

struct measurement {
    const struct product_case *of;
    struct matmul_product product, of_library;  // into results of their own
    float *a, *b, *c, *library_c;
    uint64_t rounds;  // products in a repetition
};

static double flops_of(const struct product_case *of)
{
    return 2 * (double)of->m * (double)of->n * (double)of->k;
}

static int own_run(void *context, double *ms)
{
    const struct measurement *m = context;
    uint64_t begin_ns = clock_now_ns();
    for (uint64_t round = 0; round < m->rounds; round++)
        matmul(&m->product);
    *ms = (double)(clock_now_ns() - begin_ns) * 1e-6;
    return ERR_NONE;
}

static int registers_run(void *context, double *ms)
{
    const struct measurement *m = context;
    double gflops = 0;
    TRY(registers_measure(m->of->threads, REGISTERS_SECONDS, &gflops));
    *ms = flops_of(m->of) * (double)m->rounds / gflops * 1e-6;
    return ERR_NONE;
}

struct library_run {
    struct measurement *measurement;
    const struct product_library *library;
};

static int library_run(void *context, double *ms)
{
    const struct library_run *run = context;
    if (run->library->set_threads)
        run->library->set_threads(run->measurement->of->threads);
    uint64_t begin_ns = clock_now_ns();
    for (uint64_t round = 0; round < run->measurement->rounds; round++)
        run->library->multiply(&run->measurement->of_library);
    *ms = (double)(clock_now_ns() - begin_ns) * 1e-6;
    return ERR_NONE;
}

static struct matmul_operand operand_of(float *values, uint64_t key, size_t rows, size_t columns, bool transposed,
                                        enum dtype dtype)
{
    for (size_t i = 0; i < rows * columns; i++)
        values[i] = random_normal(random_at(key, i));
    operand_round(dtype, rows * columns, values, values);
    return (struct matmul_operand){values, transposed ? rows : columns, transposed};
}

static size_t needs_bytes(const struct product_case *of)
{
    return (of->m * of->k + of->k * of->n + 2 * of->m * of->n) * sizeof(float);
}

static int measurement_open(const struct product_case *of, struct measurement *out)
{
    *out = (struct measurement){.of = of, .rounds = 1};
    float *memory = bench_alloc(needs_bytes(of), of->threads);
    if (!memory)
        return err_set(ERR_MEMORY, "no memory for matrices of %zu bytes", needs_bytes(of));
    out->a = memory;
    out->b = out->a + of->m * of->k;
    out->c = out->b + of->k * of->n;
    out->library_c = out->c + of->m * of->n;
    out->product = (struct matmul_product){.m = of->m,
                                           .n = of->n,
                                           .k = of->k,
                                           .alpha = 1,
                                           .dtype = of->dtype,
                                           .a = operand_of(out->a, 1, of->m, of->k, of->a_transposed, of->dtype),
                                           .b = operand_of(out->b, 2, of->k, of->n, of->b_transposed, of->dtype),
                                           .c = out->c,
                                           .c_stride = of->n};
    out->of_library = out->product;
    out->of_library.c = out->library_c;
    return ERR_NONE;
}

static float element_of(struct matmul_operand operand, size_t row, size_t column)
{
    const float *data = operand.data;
    return operand.transposed ? data[column * operand.stride + row] : data[row * operand.stride + column];
}

// Counts elements that are not their chain, or of sums in another order those that are not near it.
static size_t count_wrong(const struct matmul_product *p, bool is_chain)
{
    size_t wrong = 0, count = p->m * p->n;
    for (size_t e = 0; e < CHECKED && e < count; e++) {
        size_t at = count <= CHECKED ? e : random_at(3, e) % count, i = at / p->n, j = at % p->n;
        float chain = 0, found = ((const float *)p->c)[i * p->c_stride + j];
        double size = 0;
        for (size_t k = 0; k < p->k; k++) {
            chain = fmaf(element_of(p->a, i, k), element_of(p->b, k, j), chain);
            size += fabs((double)element_of(p->a, i, k) * (double)element_of(p->b, k, j));
        }
        wrong += is_chain ? found != chain : !(fabs((double)found - (double)chain) <= size * (double)p->k * 0x1p-23);
    }
    return wrong;
}

static json_t *case_json(const struct product_case *of)
{
    return json_pack("{s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:i}", "m", (json_int_t)of->m, "n", (json_int_t)of->n, "k",
                     (json_int_t)of->k, "transposed",
                     of->a_transposed   ? of->b_transposed ? "both" : "a"
                     : of->b_transposed ? "b"
                                        : "none",
                     "dtype", dtype_name(of->dtype), "by", of->of_instructions ? "instructions" : "chains", "isa",
                     isa_name(isa_now()), "threads", of->threads);
}

// GFLOP/s from the time of an operation in ns.
static void to_rate(struct bench_samples *samples)
{
    for (size_t i = 0; i < samples->count; i++)
        samples->values[i] = 1 / samples->values[i];
}

struct found {
    struct bench_samples own, registers, libraries[PRODUCT_LIBRARY_MAX];
};

static json_t *detail_of(const struct found *found)
{
    const struct product_library *libraries = product_libraries();
    json_t *detail = json_object();
    for (int l = 0; l < PRODUCT_LIBRARY_MAX; l++)
        if (libraries[l].multiply)
            json_object_set_new(
                detail, libraries[l].key,
                json_pack("{s:s, s:f}", "name", libraries[l].name, "GFLOP_per_s", bench_median(&found->libraries[l])));
    return detail;
}

static int print(const struct product_case *of, const struct bench_options *options, const struct found *found,
                 struct bench_record *record)
{
    const struct product_library *libraries = product_libraries();
    char row[512];
    int used = snprintf(row, sizeof row, "%5zu x %5zu x %5zu %s%s %s%s, %d thread%s: %6.1f GFLOP/s; registers %.1f",
                        of->m, of->n, of->k, of->a_transposed ? "a^T " : "", of->b_transposed ? "b^T " : "",
                        dtype_name(of->dtype), of->of_instructions ? " instructions" : "", of->threads,
                        of->threads == 1 ? "" : "s", bench_median(&found->own), bench_median(&found->registers));
    for (int l = 0; l < PRODUCT_LIBRARY_MAX; l++) {
        if (!libraries[l].multiply)
            continue;
        used += snprintf(row + used, sizeof row - (size_t)used, ", %s %.1f", libraries[l].key,
                         bench_median(&found->libraries[l]));
    }
    record->description = case_json(of);
    record->detail = detail_of(found);
    record->row = row;
    return bench_print(options, record);
}

// All libraries write to the same memory, which is made wrong before.
static int check_library(struct measurement *m, const struct product_library *library)
{
    if (!library->multiply)
        return ERR_NONE;
    memset(m->library_c, 0xff, m->of->m * m->of->n * sizeof *m->library_c);
    library->multiply(&m->of_library);
    return count_wrong(&m->of_library, false) == 0 ? ERR_NONE
                                                   : err_set(ERR_CHECK, "the product of %s is wrong", library->name);
}

static int measure(struct measurement *m, const struct bench_options *options, struct found *found)
{
    const struct product_library *libraries = product_libraries();
    struct library_run runs[PRODUCT_LIBRARY_MAX];
    double items = flops_of(m->of);
    TRY(bench_choose_rounds(own_run, m, &m->rounds));
    items *= (double)m->rounds;
    struct bench_timed works[2 + PRODUCT_LIBRARY_MAX] = {{own_run, m, items, &found->own},
                                                         {registers_run, m, items, &found->registers}};
    size_t count = 2;
    for (int l = 0; l < PRODUCT_LIBRARY_MAX; l++) {
        runs[l] = (struct library_run){m, &libraries[l]};
        if (libraries[l].multiply)
            works[count++] = (struct bench_timed){library_run, &runs[l], items, &found->libraries[l]};
    }
    TRY(bench_take_turns(works, count, options->warmup, options->repeat));
    size_t wrong = m->of->of_instructions ? count_wrong(&m->product, false) : count_wrong(&m->product, true);
    if (wrong > 0)
        return err_set(ERR_CHECK, "%zu of %d elements are wrong", wrong, CHECKED);
    for (int l = 0; l < PRODUCT_LIBRARY_MAX; l++)
        TRY(check_library(m, &libraries[l]));
    for (size_t w = 0; w < count; w++)
        to_rate(works[w].samples);
    return ERR_NONE;
}

int product_case_run(const struct product_case *of, const struct bench_options *options)
{
    struct measurement m;
    struct found found = {0};
    struct bench_record record = {.name = "product",
                                  .unit = "GFLOP/s",
                                  .items = flops_of(of),
                                  .begin_ns = clock_now_ns(),
                                  .samples = &found.own,
                                  .baseline_name = "registers",
                                  .baseline = &found.registers};
    bench_progress("product %zu x %zu x %zu, %d threads", of->m, of->n, of->k, of->threads);
    if (needs_bytes(of) > bench_memory_bytes())
        return bench_skip_memory(options, "product", case_json(of), needs_bytes(of), bench_memory_bytes());
    math_set_threads(of->threads);
    TRY(matmul_set_bf16(of->of_instructions));
    TRY(measurement_open(of, &m));
    int code = measure(&m, options, &found);
    bench_free(m.a, needs_bytes(of));
    if (code != ERR_NONE)
        return err_prefix(code, "product %zu x %zu x %zu, %d threads", of->m, of->n, of->k, of->threads);
    record.items *= (double)m.rounds;
    record.baseline_items = REGISTERS_SECONDS * 1e9 * bench_quantile(&found.registers, 0);
    return print(of, options, &found, &record);
}
