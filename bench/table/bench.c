// SPDX-License-Identifier: Apache-2.0
// The subcommand `zerogauge bench`: lists the benchmarks, runs one by name, or all in turn.
#include "bench/table/benchmarks.h"

#include "bench/harness/bench_file.h"
#include "bench/harness/bench_world.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/help.h"
#include "base/processor.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BENCHMARK_ADDRESS(NAME) &bench_##NAME,
static const struct benchmark *const benchmarks[] = {BENCHMARKS(BENCHMARK_ADDRESS)};
enum { BENCHMARK_COUNT = sizeof benchmarks / sizeof benchmarks[0] };

static const char *const bench_examples[] = {"zerogauge bench all --quick", "zerogauge bench adam --threads 1,all",
                                             NULL};

static int all_main(int argc, const char **argv);

static const struct benchmark bench_all = {
    .name = "all",
    .run = all_main,
    .uses = BENCH_USES_STORAGE,
    .summary = "all of these in turn, with the options that they share",
    .examples = {"zerogauge bench all --quick", "zerogauge bench all --nvme-path /mnt/nvme --json > all.jsonl"},
};

static void benchmarks_print(FILE *out)
{
    fprintf(out, "usage: zerogauge bench NAME [OPTION...]     (--help after a name lists its options)\n");
    for (int i = 0; i < BENCHMARK_COUNT; i++)
        fprintf(out, "  %-8s %s\n", benchmarks[i]->name, benchmarks[i]->summary);
    fprintf(out, "  %-8s %s\n", bench_all.name, bench_all.summary);
}

// Runs a benchmark with the options that all share, and with `budget_s` unless it is 0. Raises *worst to its exit
// status.
static int run_one(const struct benchmark *benchmark, const struct bench_options *options, double budget_s, int *worst)
{
    enum { FIXED = 9, PATHS_MAX = 64 };
    char repeat[32], warmup[32], budget[32];
    const char *argv[FIXED + 2 * PATHS_MAX] = {benchmark->name};
    int argc = 1;
    if (options->quick)
        argv[argc++] = "--quick";
    if (options->json)
        argv[argc++] = "--json";
    if (options->repeat > 0) {
        snprintf(repeat, sizeof repeat, "--repeat=%zu", options->repeat);
        argv[argc++] = repeat;
    }
    if (options->warmup > 0) {
        snprintf(warmup, sizeof warmup, "--warmup=%zu", options->warmup);
        argv[argc++] = warmup;
    }
    if (budget_s > 0) {
        snprintf(budget, sizeof budget, "--budget=%.1f", budget_s);
        argv[argc++] = budget;
    }
    if (benchmark->uses > BENCH_USES_DIRECT && options->storage.buffered)
        argv[argc++] = "--buffered";
    for (int i = 0; benchmark->uses != BENCH_USES_NOTHING && i < options->storage.path_count && i < PATHS_MAX; i++) {
        argv[argc++] = "--nvme-path";
        argv[argc++] = options->storage.paths[i];
    }
    if (!options->json && bench_world_rank() == 0)
        printf("%s%s: %s\n", benchmark == benchmarks[0] ? "" : "\n", benchmark->name, benchmark->summary);
    uint64_t begin_ns = clock_now_ns();
    int status = bench_run(benchmark, argc, argv);
    TRY(bench_file_part(argc, argv, begin_ns, status));
    *worst = status > *worst && status <= 2 ? status : *worst;
    return ERR_NONE;
}

// Continues after a benchmark fails. Returns the worst exit status: 2, then 1; 77 (skipped) counts as 0.
static int all_main(int argc, const char **argv)
{
    struct bench_options options;
    int worst = 0, code = bench_world_join();
    options = (struct bench_options){0};
    if (code == ERR_NONE)
        code = bench_parse(argc, argv, &bench_all, NULL, &options);
    if (code == ERR_NONE && (options.size_count > 0 || options.thread_count > 0 || options.storage.engine))
        code = err_set(ERR_USAGE, "--sizes, --threads and --engine differ between benchmarks: give them to one alone");
    double end_s = clock_now_s() + options.budget_s;
    for (int i = 0; i < BENCHMARK_COUNT && code == ERR_NONE && !options.help && !bench_world_is_broken(); i++) {
        double share_s = fmax(end_s - clock_now_s(), 1) / (BENCHMARK_COUNT - i);
        code = run_one(benchmarks[i], &options, options.budget_s > 0 ? share_s : 0, &worst);
    }
    bench_release(&options, NULL);
    int status = bench_exit("all", code);
    return code == ERR_NONE ? worst : status;
}

const struct benchmark *bench_at(size_t index)
{
    return index < BENCHMARK_COUNT ? benchmarks[index] : index == BENCHMARK_COUNT ? &bench_all : NULL;
}

bool bench_is_together(const char *name)
{
    for (int i = 0; i < BENCHMARK_COUNT; i++)
        if (strcmp(name, benchmarks[i]->name) == 0)
            return benchmarks[i]->together;
    return false;
}

static bool asks_for_help(int argc, const char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int bench_named(int argc, const char **argv)
{
    char emulator[PROCESSOR_NAME_BYTES];
    const struct benchmark *benchmark = NULL;
    for (size_t i = 0; bench_at(i) && !benchmark; i++)
        if (strcmp(argv[0], bench_at(i)->name) == 0)
            benchmark = bench_at(i);
    if (!benchmark) {
        text_say("zerogauge bench: unknown benchmark \"%s\"", argv[0]);
        benchmarks_print(stderr);
        return err_exit_status(ERR_USAGE);
    }
    assert(!benchmark->examples[sizeof benchmark->examples / sizeof benchmark->examples[0] - 1]);  // they end
    if (!asks_for_help(argc, argv) && processor_is_emulated(emulator)) {
        bench_skip("%s: this processor is emulated by %s, and times would be the emulator's", argv[0], emulator);
        return bench_exit(argv[0], ERR_NONE);
    }
    if (benchmark == &bench_all)
        return all_main(argc, argv);
    return bench_run(benchmark, argc, argv);
}

int bench_main(int argc, const char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        benchmarks_print(stdout);
        help_print_examples(bench_examples, stdout);
        return 0;
    }
    int status = bench_named(argc - 1, argv + 1);
    bench_world_leave(bench_world_is_broken() ? ERR_PEER : ERR_NONE);
    return status;
}
