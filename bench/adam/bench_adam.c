// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench adam`: the optimizer's step by recipe, instruction set, size and thread count, in turn with the
// slower of its two parts: its memory streams without arithmetic, or its divisions and square roots without memory.
#include "bench/adam/adam_case.h"

#include "base/err.h"

#include <popt.h>

#include <string.h>

static int adam_main(int argc, const char **argv);

const struct benchmark bench_adam = {
    .name = "adam",
    .run = adam_main,
    .uses = BENCH_USES_NOTHING,
    .summary = "the optimizer: ns per parameter against a copy of the same streams",
    .examples = {"zerogauge bench adam --quick",
                 "zerogauge bench adam --recipe all --isa all --sizes 1M --json > adam.jsonl"},
};

// The user's choices; null: not given.
struct selection {
    char *recipe, *isa, *step, *device;
    struct bench_options options;
    size_t cases_left;    // counting the running one
    size_t needs_bytes;   // of the smallest case out of cache
    size_t memory_bytes;  // that may be allocated
};

// Settings that the user did not choose vary one at a time from the default recipe, the best instruction set, all
// threads and the plain update. With --quick only the step varies.
static bool case_wanted(const struct selection *selection, const struct adam_case *of)
{
    const struct bench_options *options = &selection->options;
    bool other_recipe = !selection->recipe && of->recipe != recipe_at(0);
    bool other_isa = !selection->isa && of->isa != isa_best();
    bool other_threads = options->thread_count == 0 && of->threads != bench_thread_count();
    bool other_step = !selection->step && of->variant != &adam_variants[0];
    if (options->quick && (other_recipe || other_isa || other_threads))
        return false;
    return other_recipe + other_isa + other_threads + other_step <= 1;
}

// Returns whether the choice includes `name`: no choice and "all" include every name.
static bool chosen(const char *choice, const char *name)
{
    return !choice || strcmp(choice, "all") == 0 || strcmp(choice, name) == 0;
}

// Finds the first case from *index on, in which variants, recipes and instruction sets vary, that was chosen. Moves
// *index behind it. False: there is none.
static bool next_case(const struct selection *selection, size_t count, int threads, int *index, struct adam_case *out)
{
    for (;; (*index)++) {
        enum isa present;
        int isa = *index % ISA_COUNT, variant = *index / ISA_COUNT % ADAM_VARIANT_COUNT;
        const struct recipe *recipe = recipe_at(*index / ISA_COUNT / ADAM_VARIANT_COUNT);
        if (!recipe)
            return false;
        *out = (struct adam_case){&adam_variants[variant], recipe, (enum isa)isa, count, threads};
        if (!chosen(selection->step, out->variant->name) || !chosen(selection->recipe, recipe_name(recipe)) ||
            !chosen(selection->isa, isa_name(out->isa)) || isa_parse(isa_name(out->isa), &present) != ERR_NONE ||
            !case_wanted(selection, out))
            continue;
        (*index)++;
        return true;
    }
}

static size_t case_count(const struct selection *selection, int threads)
{
    struct adam_case of;
    size_t count = 0;
    for (int index = 0; next_case(selection, 1, threads, &index, &of);)
        count++;
    return count;
}

// Runs all cases of one size and thread count, in one set of arrays.
static int cases_run(struct selection *selection, size_t count, int threads)
{
    struct adam_arrays arrays;
    struct adam_case of;
    TRY(adam_arrays_open(count, threads, &arrays));
    int code = ERR_NONE;
    for (int index = 0; code == ERR_NONE && next_case(selection, count, threads, &index, &of);) {
        bench_budget_case(selection->cases_left--);
        code = adam_case_run(&of, &selection->options, &arrays);
    }
    adam_arrays_close(&arrays);
    return code;
}

// Reports the cases out of cache that cannot be measured.
static int skip_large(struct selection *selection, int threads)
{
    struct adam_case of;
    size_t count = selection->needs_bytes / ADAM_CASE_ALLOCATED_BYTES;
    for (int index = 0; next_case(selection, count, threads, &index, &of);)
        TRY(adam_case_skip(&of, &selection->options, selection->needs_bytes, selection->memory_bytes));
    return ERR_NONE;
}

// Sizes that the user did not give: one in cache, and one out of it if the memory permits it. Arrays on a device have
// nothing to do with the caches of the host.
static void choose_sizes(struct selection *selection)
{
    struct bench_options *options = &selection->options;
    bool on_device = selection->device && strcmp(selection->device, "cpu") != 0;
    size_t sizes[] = {64 << 10, options->quick ? 16 << 20 : 64 << 20};
    selection->memory_bytes = bench_memory_bytes();
    if (!on_device)
        sizes[1] = adam_case_large_count(sizes[1], options->quick ? 2 : 4, bench_cache_bytes(), selection->memory_bytes,
                                         &selection->needs_bytes);
    bench_default_sizes(options, sizes, sizes[1] > 0 ? 2 : 1);
    if (sizes[1] > 0)
        selection->needs_bytes = 0;
}

// Refuses unknown names and sets the defaults.
static int selection_complete(struct selection *selection)
{
    struct bench_options *options = &selection->options;
    enum isa isa;
    if (selection->recipe && strcmp(selection->recipe, "all") != 0 && !recipe_find(selection->recipe))
        return err_set(ERR_USAGE, "unknown recipe '%s'", selection->recipe);
    if (selection->isa && strcmp(selection->isa, "all") != 0)
        TRY(isa_parse(selection->isa, &isa));
    bool known = chosen(selection->step, "all");
    for (int v = 0; v < ADAM_VARIANT_COUNT; v++)
        known |= chosen(selection->step, adam_variants[v].name);
    if (!known)
        return err_set(ERR_USAGE, "unknown step '%s'; known are update, fused, whole and all", selection->step);
    choose_sizes(selection);
    bench_default_repeat(options, 15, 10, 2);
    return ERR_NONE;
}

// On a GPU: every recipe's update, and the default recipe's fused steps.
static int device_bench(const struct selection *selection)
{
    struct bench_options options = selection->options;
    struct bench_gpu device;
    if (bench_gpu_find(&device) != ERR_NONE)
        return bench_skip("adam --device cuda: %s", err_message());
    if (options.quick)
        options.sizes[0] = options.sizes[options.size_count - 1];
    for (size_t s = 0; s < (options.quick ? 1 : options.size_count); s++) {
        struct adam_arrays arrays;
        TRY(adam_arrays_open(options.sizes[s], bench_thread_count(), &arrays));
        int code = ERR_NONE;
        for (int v = 0; v < ADAM_VARIANT_COUNT; v++)
            for (int r = 0; recipe_at(r) && code == ERR_NONE; r++) {
                const struct adam_case of = {&adam_variants[v], recipe_at(r), isa_best(), options.sizes[s],
                                             bench_thread_count()};
                if (!of.variant->norm && chosen(selection->step, of.variant->name) &&
                    chosen(selection->recipe, recipe_name(of.recipe)) && case_wanted(selection, &of))
                    code = adam_device_run(&device, &of, &options, &arrays);
            }
        adam_arrays_close(&arrays);
        TRY(code);
    }
    return ERR_NONE;
}

static int adam_bench(struct selection *selection)
{
    bool sizes_given = selection->options.size_count > 0;
    TRY(selection_complete(selection));
    const struct bench_options *options = &selection->options;
    if (selection->device && strcmp(selection->device, "cuda") == 0)
        return device_bench(selection);
    if (selection->device && strcmp(selection->device, "cpu") != 0)
        return err_set(ERR_USAGE, "--device %s: expected cpu or cuda", selection->device);
    int threads[BENCH_LIST_MAX] = {bench_thread_count(), 1};
    size_t thread_count = threads[0] == 1 ? 1 : 2;
    if (options->thread_count > 0) {
        thread_count = options->thread_count;
        memcpy(threads, options->threads, thread_count * sizeof threads[0]);
    }
    for (size_t t = 0; t < thread_count; t++)
        selection->cases_left += options->size_count * case_count(selection, threads[t]);
    if (selection->needs_bytes > 0 && !sizes_given)
        TRY(skip_large(selection, threads[0]));
    for (size_t t = 0; t < thread_count; t++)
        for (size_t s = 0; s < options->size_count; s++)
            TRY(cases_run(selection, options->sizes[s], threads[t]));
    return ERR_NONE;
}

static int adam_main(int argc, const char **argv)
{
    struct selection selection = {0};
    struct poptOption own[] = {
        {"recipe", '\0', POPT_ARG_STRING, &selection.recipe, 0, "measure this recipe, or all", "RECIPE"},
        {"isa", '\0', POPT_ARG_STRING, &selection.isa, 0, "measure this instruction set, or all",
         "scalar|avx2|avx512|all"},
        {"device", '\0', POPT_ARG_STRING, &selection.device, 0, "where the arrays are (default: cpu)", "cpu|cuda"},
        {"step", '\0', POPT_ARG_STRING, &selection.step, 0, "measure this part of a step, or all",
         "update|fused|whole|all"},
        POPT_TABLEEND,
    };
    enum isa before = isa_now();
    int code = bench_parse(argc, argv, &bench_adam, own, &selection.options);
    if (code == ERR_NONE && !selection.options.help)
        code = adam_bench(&selection);
    isa_set(before);
    bench_release(&selection.options, own);
    return bench_exit("adam", code);
}
