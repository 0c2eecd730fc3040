// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench adam`: the optimizer's step per recipe, instruction set, size and thread count, against the memory
// streams of the same step without its arithmetic, in turn, in the same memory.
#include "bench.h"

#include "adam.h"
#include "adam_arrays.h"
#include "clip.h"
#include "err.h"
#include "norm.h"
#include "streams.h"

#include <popt.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The steps that are measured. update: the optimizer alone. fused: also takes the mean of the gradient's sum, clips,
// and writes a bf16 copy, in one pass. whole: the same with the global norm first, which reads the gradient twice.
static const struct variant {
    const char *name;
    enum dtype grad_dtype;
    bool copy, norm;
    const char *yardstick;  // streams read and written
} variants[] = {
    {"update", DTYPE_FP32, false, false, "copy_4r_3w"},
    {"fused", DTYPE_FP32, true, false, "copy_4r_4w"},
    {"fused", DTYPE_BF16, true, false, "copy_4r_4w"},
    {"whole", DTYPE_FP32, true, true, "read_2_copy_4r_4w"},
    {"whole", DTYPE_BF16, true, true, "read_2_copy_4r_4w"},
};
enum { VARIANT_COUNT = sizeof variants / sizeof variants[0] };

// What the user asked for; null: not said.
struct selection {
    char *recipe, *isa, *step;
    struct bench_options options;
};

struct adam_case {
    const struct variant *variant;
    const struct recipe *recipe;
    enum adam_isa isa;
    size_t count;
    int threads;
};

// Updates that one repetition makes at least, so that the clock and the start of the threads do not count.
enum { REPETITION_UPDATES = 1 << 22, REPETITION_ROUNDS_MAX = 256 };

struct measurement {
    const struct adam_case *of;
    const struct adam_arrays *arrays;
    struct adam_step step;
    struct streams streams;
    uint64_t rounds;      // steps a repetition
    uint64_t step_count;  // made so far
    double norm;          // of the gradients' sum; the last that was computed
    double max_norm;
    uint32_t sink;  // what the reading yardstick found
};

// Zero, which the compiler cannot know: the yardstick moves every bit and changes none.
static const volatile uint32_t yardstick_mask = 0;

static int yardstick_run(void *context)
{
    struct measurement *m = context;
    for (uint64_t round = 0; round < m->rounds; round++) {
        for (int pass = 0; m->of->variant->norm && pass < 2; pass++)
            m->sink |= streams_read(&m->streams, m->of->threads);
        streams_step(&m->streams, yardstick_mask, m->of->threads);
    }
    return ERR_NONE;
}

// The norm of the whole gradient, its parts by one thread each: the same bits for any number of them.
static double whole_norm(const struct adam_step *step, int threads)
{
    size_t bytes = dtype_bytes(step->grad_dtype), part_count = step->count / (size_t)threads;
    uint32_t max_bits = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : max_bits)
    for (int part = 0; part < threads; part++) {
        size_t begin = (size_t)part * part_count, end = part + 1 == threads ? step->count : begin + part_count;
        uint32_t found = norm_max(step->grad_dtype, (const char *)step->grad + begin * bytes, end - begin);
        max_bits = found > max_bits ? found : max_bits;
    }
    struct norm_sum sum = {0};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = (size_t)part * part_count, end = part + 1 == threads ? step->count : begin + part_count;
        struct norm_sum own = {0};
        norm_accumulate(&own, step->grad_dtype, (const char *)step->grad + begin * bytes, end - begin, max_bits);
#pragma omp critical
        norm_add(&sum, own);
    }
    return norm_finish(sum, max_bits);
}

static int step_run(void *context)
{
    struct measurement *m = context;
    for (uint64_t round = 0; round < m->rounds; round++) {
        if (m->of->variant->norm) {
            m->norm = whole_norm(&m->step, m->of->threads);
            double mean_norm = m->norm / (double)m->step.grad_divisor;
            m->step.grad_coefficient = clip_coefficient(CLIP_DEEPSPEED, mean_norm, m->max_norm);
        }
        adam_update_parallel(&m->step, m->of->threads);
    }
    m->step_count += m->rounds;
    return ERR_NONE;
}

// The arrays' initial state, and a step over them: the 1000th of AdamW with the usual settings; where there is a mean
// to take it is over two ranks, and the clipping halves the gradient.
static int measurement_open(const struct adam_case *of, struct adam_arrays *arrays, struct measurement *out)
{
    const struct variant *variant = of->variant;
    const struct adam_hyper hyper = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01,
                                     .decoupled = true, .bias_correction = true};
    adam_arrays_fill(arrays, variant->grad_dtype);
    uint64_t rounds = REPETITION_UPDATES / of->count + 1;
    *out = (struct measurement){
        .of = of,
        .arrays = arrays,
        .step = {.recipe = of->recipe, .grad = arrays->grad, .grad_dtype = variant->grad_dtype,
                 .grad_divisor = variant->copy ? 2 : 1, .grad_coefficient = variant->copy ? 0.5f : 1,
                 .param = arrays->param, .exp_avg = arrays->exp_avg, .exp_avg_sq = arrays->exp_avg_sq,
                 .copy = variant->copy ? arrays->copy : NULL, .copy_dtype = DTYPE_BF16, .count = of->count,
                 .tensor_count = of->count},
        .rounds = rounds < REPETITION_ROUNDS_MAX ? rounds : REPETITION_ROUNDS_MAX,
        .max_norm = adam_arrays_norm(arrays, variant->grad_dtype) / 4,
    };
    out->streams = (struct streams){
        .param = arrays->param, .exp_avg = arrays->exp_avg, .exp_avg_sq = arrays->exp_avg_sq, .grad = arrays->grad,
        .grad_dtype = variant->grad_dtype,
        .copy = variant->copy ? arrays->yardstick_copy : NULL, .count = of->count};
    struct recipe_state state = {0};
    return recipe_begin_step(of->recipe, &hyper, 1000, &state, &out->step.scalars);
}

// Every element against a replay, and the norm against a sum in extended precision.
static int measurement_check(const struct measurement *m)
{
    double norm = adam_arrays_norm(m->arrays, m->of->variant->grad_dtype);
    double bound = norm * ((double)m->of->count * 0x1p-53 + 0x1p-50);
    if (m->of->variant->norm && !(fabs(m->norm - norm) <= bound))
        return err_set(ERR_CHECK, "the norm is %.17g and should be %.17g", m->norm, norm);
    return adam_arrays_check(m->arrays, &m->step, m->step_count);
}

// Bytes that one element of the case must move.
static size_t case_bytes(const struct variant *variant)
{
    size_t state = 2 * 3 * sizeof(float);  // param, exp_avg, exp_avg_sq: read and written
    return state + dtype_bytes(variant->grad_dtype) * (variant->norm ? 3 : 1) + (variant->copy ? 2 : 0);
}

static json_t *case_json(const struct adam_case *of, bool in_cache)
{
    const struct variant *variant = of->variant;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:b, s:i}", "step", variant->name, "recipe",
                     recipe_name(of->recipe), "isa", adam_isa_name(of->isa), "grad", dtype_name(variant->grad_dtype),
                     "copy", variant->copy ? "bf16" : "none", "params", (json_int_t)of->count, "threads", of->threads,
                     "in_cache", in_cache, "bytes_per_param", (int)case_bytes(variant));
}

static int case_run(const struct adam_case *of, const struct bench_options *options, struct adam_arrays *arrays)
{
    bench_progress("adam %s %s %s, %zu parameters, %d threads", of->variant->name, recipe_name(of->recipe),
                   adam_isa_name(of->isa), of->count, of->threads);
    struct measurement m;
    TRY(measurement_open(of, arrays, &m));
    size_t state_bytes = 3 * sizeof(float) + dtype_bytes(of->variant->grad_dtype) + (of->variant->copy ? 2 : 0);
    bool in_cache = of->count * state_bytes < bench_cache_bytes();
    m.streams.past_cache = !in_cache;
    adam_isa_set(of->isa);
    struct bench_work work = {.name = "adam", .run = step_run, .context = &m};
    struct bench_work yardstick = {.name = of->variant->yardstick, .run = yardstick_run, .context = &m};
    struct bench_samples samples, limits;
    TRY(bench_alternate(&work, &yardstick, options->warmup, options->repeat, (double)(of->count * m.rounds), &samples,
                        &limits));
    int checked = measurement_check(&m);
    if (checked != ERR_NONE)
        return err_prefix(checked, "adam %s %s %s, %zu parameters, %d threads", of->variant->name,
                          recipe_name(of->recipe), adam_isa_name(of->isa), of->count, of->threads);
    struct bench_record record = {
        .name = "adam", .description = case_json(of, in_cache), .unit = "ns_per_param", .lower_is_better = true,
        .verified = true, .item_bytes = (double)case_bytes(of->variant), .samples = &samples,
        .yardstick_name = yardstick.name, .yardstick = &limits};
    return options->json ? bench_print_json(&record) : bench_print_text(&record);
}

// What the user did not choose varies one thing at a time from the default recipe, the best instruction set, all
// threads and the plain update; quickly, only the step.
static bool case_wanted(const struct selection *selection, const struct adam_case *of)
{
    const struct bench_options *options = &selection->options;
    bool other_recipe = !selection->recipe && of->recipe != recipe_at(0);
    bool other_isa = !selection->isa && of->isa != adam_isa_best();
    bool other_threads = options->thread_count == 0 && of->threads != bench_thread_count();
    bool other_step = !selection->step && of->variant != &variants[0];
    if (options->quick && (other_recipe || other_isa || other_threads))
        return false;
    return other_recipe + other_isa + other_threads + other_step <= 1;
}

// Whether `name` is what was chosen: nothing, "all", or itself.
static bool chosen(const char *choice, const char *name)
{
    return !choice || strcmp(choice, "all") == 0 || strcmp(choice, name) == 0;
}

// All cases of one size and thread count, in one set of arrays.
static int cases_run(const struct selection *selection, size_t count, int threads)
{
    struct adam_arrays arrays;
    TRY(adam_arrays_open(count, threads, &arrays));
    int code = ERR_NONE;
    for (int v = 0; v < VARIANT_COUNT; v++) {
        for (int r = 0; recipe_at(r); r++) {
            for (int isa = 0; isa < ADAM_ISA_COUNT && code == ERR_NONE; isa++) {
                const struct adam_case of = {&variants[v], recipe_at(r), (enum adam_isa)isa, count, threads};
                enum adam_isa present;
                if (chosen(selection->step, of.variant->name) && chosen(selection->recipe, recipe_name(of.recipe)) &&
                    chosen(selection->isa, adam_isa_name(of.isa)) &&
                    adam_isa_parse(adam_isa_name(of.isa), &present) == ERR_NONE && case_wanted(selection, &of))
                    code = case_run(&of, &selection->options, &arrays);
            }
        }
    }
    adam_arrays_close(&arrays);
    return code;
}

// Refuses names that are in no table, and fills in what was not said.
static int selection_complete(struct selection *selection)
{
    struct bench_options *options = &selection->options;
    enum adam_isa isa;
    if (selection->recipe && strcmp(selection->recipe, "all") != 0 && !recipe_find(selection->recipe))
        return err_set(ERR_USAGE, "unknown recipe '%s'", selection->recipe);
    if (selection->isa && strcmp(selection->isa, "all") != 0)
        TRY(adam_isa_parse(selection->isa, &isa));
    bool known = chosen(selection->step, "all");
    for (int v = 0; v < VARIANT_COUNT; v++)
        known |= chosen(selection->step, variants[v].name);
    if (!known)
        return err_set(ERR_USAGE, "unknown step '%s'; known are update, fused, whole and all", selection->step);
    if (options->size_count == 0) {
        options->sizes[options->size_count++] = 64u << 10;
        options->sizes[options->size_count++] = options->quick ? 16u << 20 : 64u << 20;
    }
    if (options->repeat == 0)
        options->repeat = options->quick ? 10 : 15;
    if (options->warmup == 0)
        options->warmup = 2;
    return ERR_NONE;
}

static int adam_bench(struct selection *selection)
{
    TRY(selection_complete(selection));
    const struct bench_options *options = &selection->options;
    int threads[BENCH_LIST_MAX] = {bench_thread_count(), 1};
    size_t thread_count = threads[0] == 1 ? 1 : 2;
    if (options->thread_count > 0) {
        thread_count = options->thread_count;
        memcpy(threads, options->threads, thread_count * sizeof threads[0]);
    }
    for (size_t t = 0; t < thread_count; t++)
        for (size_t s = 0; s < options->size_count; s++)
            TRY(cases_run(selection, options->sizes[s], threads[t]));
    return ERR_NONE;
}

int bench_adam_main(int argc, const char **argv)
{
    struct selection selection = {0};
    struct poptOption own[] = {
        {"recipe", '\0', POPT_ARG_STRING, &selection.recipe, 0, "one recipe, or all", "NAME"},
        {"isa", '\0', POPT_ARG_STRING, &selection.isa, 0, "scalar, avx2, avx512 or all", "NAME"},
        {"step", '\0', POPT_ARG_STRING, &selection.step, 0, "update, fused, whole or all", "NAME"},
        POPT_TABLEEND,
    };
    enum adam_isa before = adam_isa_now();
    int code = bench_parse(argc, argv, own, &selection.options);
    if (code == ERR_NONE && !selection.options.help)
        code = adam_bench(&selection);
    adam_isa_set(before);
    free(selection.recipe);
    free(selection.isa);
    free(selection.step);
    return bench_exit("adam", code);
}
