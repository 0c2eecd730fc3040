// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench product`: products of matrices of the shapes that a model's layers have, forward and backward, in
// turn with the fused multiply-adds that the same cores make of registers alone, and with OpenBLAS and oneDNN where
// they are installed. The ratio is the share of the registers' rate.
#include "bench/harness/bench.h"
#include "bench/product/product_case.h"
#include "ref/arithmetic/product_library.h"
#include "bench/step/step_peak.h"

#include "base/err.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/matmul.h"
#include "ref/model/names/model_find.h"

#include <popt.h>
#include <stdio.h>
#include <string.h>

static int product_main(int argc, const char **argv);

const struct benchmark bench_product = {
    .name = "product",
    .run = product_main,
    .uses = BENCH_USES_NOTHING,
    .summary = "matrix products: GFLOP/s against registers alone and libraries",
    .examples = {"zerogauge bench product --quick", "zerogauge bench product --model llama-160m --threads 1,all",
                 "zerogauge bench product --shape 1024x768x768 --dtype bf16 --products bf16"},
};

struct selection {
    char *model, *shape, *dtype_name, *products;
    int sequences;
    enum dtype dtype;
    bool of_instructions;
    struct step_products list;
    struct bench_options options;
};

// A shape, as in 1024x768x768, 768x3072x1024,a (a transposed) or 1024x768x3072,b.
static int shape_parse(const char *text, struct step_products *out)
{
    struct step_product *p = &out->products[0];
    char end[8] = "";
    int count = sscanf(text, "%7zux%7zux%7zu,%7s", &p->m, &p->n, &p->k, end);
    p->a_transposed = strcmp(end, "a") == 0 || strcmp(end, "ab") == 0;
    p->b_transposed = strcmp(end, "b") == 0 || strcmp(end, "ab") == 0;
    if (count < 3 || p->m == 0 || p->n == 0 || p->k == 0 || strchr(text, '-') ||
        (count == 4) != (p->a_transposed || p->b_transposed))
        return err_set(ERR_USAGE,
                       "--shape \"%s\": expected MxNxK such as 1024x768x768, and ,a or ,b or ,ab where an "
                       "operand is transposed",
                       text);
    out->product_count = 1;
    return ERR_NONE;
}

// --quick measures a layer's three products, a small and a skinny one.
static const struct step_products quick_list = {.products = {{1024, 3072, 768, 1, false, false},
                                                             {1024, 768, 3072, 1, false, true},
                                                             {768, 3072, 1024, 1, true, false},
                                                             {100, 100, 100, 1, false, false},
                                                             {128, 2304, 768, 1, false, false}},
                                                .product_count = 5};

static int list_make(struct selection *s)
{
    const struct model *model;
    if (s->model && s->shape)
        return err_set(ERR_USAGE, "--model and --shape: give one of them");
    if (s->shape)
        return shape_parse(s->shape, &s->list);
    if (s->options.quick && !s->model) {
        s->list = quick_list;
        return ERR_NONE;
    }
    if (s->sequences < 1)
        return err_set(ERR_USAGE, "--sequences %d: expected at least 1", s->sequences);
    TRY(model_find(s->model ? s->model : "gpt2-124m", &model));
    return step_products_of_model(model, (size_t)s->sequences, &s->list);
}

static int selection_complete(struct selection *s)
{
    struct bench_options *options = &s->options;
    bench_default_repeat(options, 10, 5, 1);
    if (s->dtype_name && !dtype_of_name(s->dtype_name, &s->dtype))
        return err_set(ERR_USAGE, "--dtype \"%s\": expected fp32, bf16 or fp16", s->dtype_name);
    s->of_instructions = s->products && strcmp(s->products, "bf16") == 0;
    if (s->products && !s->of_instructions)
        return err_set(ERR_USAGE, "--products \"%s\": expected bf16", s->products);
    if (s->of_instructions && s->dtype != DTYPE_BF16)
        return err_set(ERR_USAGE, "--products bf16 multiplies operands in bf16: give --dtype bf16");
    if (options->thread_count == 0) {
        options->threads[options->thread_count++] = bench_thread_count();
        if (bench_thread_count() > 1)
            options->threads[options->thread_count++] = 1;
    }
    return list_make(s);
}

static int product_bench_run(struct selection *s)
{
    TRY(selection_complete(s));
    const struct product_library *libraries = product_libraries();
    size_t left = s->list.product_count * s->options.thread_count;
    for (int l = 0; l < PRODUCT_LIBRARY_MAX && !s->options.json; l++)
        printf("%-8s %s\n", libraries[l].key, libraries[l].name);
    if (!s->options.json)
        printf("share of the rate of fused multiply-adds of registers alone; all products verified\n");
    for (size_t t = 0; t < s->options.thread_count; t++)
        for (size_t i = 0; i < s->list.product_count; i++) {
            const struct step_product *p = &s->list.products[i];
            bench_budget_case(left--);
            TRY(product_case_run(&(struct product_case){p->m, p->n, p->k, p->a_transposed, p->b_transposed, s->dtype,
                                                        s->of_instructions, s->options.threads[t]},
                                 &s->options));
        }
    return ERR_NONE;
}

static int product_main(int argc, const char **argv)
{
    struct selection s = {.sequences = 1};
    const struct poptOption own[] = {
        {"model", '\0', POPT_ARG_STRING, &s.model, 0, "products of this model's layers (gpt2-124m)", "NAME"},
        {"sequences", '\0', POPT_ARG_INT | POPT_ARGFLAG_SHOW_DEFAULT, &s.sequences, 0,
         "sequences of a micro-batch of the model", "N"},
        {"shape", '\0', POPT_ARG_STRING, &s.shape, 0,
         "this product alone: MxNxK, and ,a or ,b or ,ab where an operand is transposed", "SHAPE"},
        {"dtype", '\0', POPT_ARG_STRING, &s.dtype_name, 0, "of the operands (fp32)", "fp32|bf16|fp16"},
        {"products", '\0', POPT_ARG_STRING, &s.products, 0, "by the processor's instructions for bf16, through oneDNN",
         "bf16"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_product, own, &s.options);
    if (code == ERR_NONE && !s.options.help) {
        code = product_bench_run(&s);
        // As other benchmarks of the same process expect them.
        math_set_threads(bench_thread_count());
        (void)matmul_set_bf16(false);
    }
    bench_release(&s.options, own);
    return bench_exit("product", code);
}
