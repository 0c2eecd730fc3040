// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench step`: one training step of a small GPT at world 2, at every stage and with states on every tier,
// against half the time that one process with one thread needs for both micro-batches: at 1.0 communication,
// partitioning, offloading and sharing the machine cost nothing. Two ranks that do not communicate show the cost of
// sharing the machine. With --world 1 it is that process alone, for comparisons with other programs, and with --mesh as
// many ranks as the mesh has, against that part of the time of one process that does the work of all. Then the
// operations against matrix products, each lane's bytes against the lane alone, and the efficiency against the one that
// ZeRO-Infinity's model predicts.
#include "bench/step/step_bench.h"

#include "base/err.h"
#include "bench/harness/registers.h"
#include "ref/model/names/model_find.h"

#include <math.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

static int run_step(int argc, const char **argv);

const struct benchmark bench_step = {
    .name = "step",
    .run = run_step,
    .uses = BENCH_USES_STATES,
    .summary = "a training step of every stage and tier against one process",
    .text = "A training step of every stage and tier against one process that does all the work; its operations "
            "against matrix products, each lane against the lane alone, and its efficiency against the one that "
            "ZeRO-Infinity's model predicts. --sizes are sequences of each rank's micro-batch.",
    .examples = {"zerogauge bench step --model gpt-10m --preset zero3 --where",
                 "zerogauge bench step --quick --schedule serial --json",
                 "zerogauge bench step --device cuda --world 1 --model gpt2-124m --sizes 8 --dtype bf16",
                 "zerogauge bench step --mesh pipeline=2,shard=2 --model gpt-3m"},
};

// The default model and micro-batch; quick runs use the second row. On a GPU the products of a small model take less
// time than launching them, so its model has 4 10^7 parameters, and a rank's micro-batch takes 10^12 operations, tens
// of milliseconds.
struct workload {
    const char *model;
    size_t sequences, square_side;
};
static const struct workload SMALL[] = {{"gpt-3m", 4, 2048}, {"gpt:layers=4,width=128,heads=4,length=128", 2, 1024}},
                             WIDE[] = {{"gpt:layers=6,width=768,heads=12,length=256", 16, 8192},
                                       {"gpt:layers=4,width=512,heads=8,length=256", 8, 1024}};

static const struct workload *workload_of(const struct step_bench *bench)
{
    return (bench->setting.device.accelerator ? WIDE : SMALL) + (bench->options.quick ? 1 : 0);
}

static int open_baselines(struct step_bench *bench)
{
    double bytes[LANE_COUNT] = {0}, seconds = bench->options.quick ? 0.02 : 0.2;
    for (int i = bench->alone + 1; i < bench->case_count; i++)
        for (int lane = 0; lane < LANE_COUNT; lane++)
            bytes[lane] = fmax(bytes[lane], bench->cases[i].bytes[lane]);
    const struct step_setting *setting = &bench->setting;
    bench->square_side = workload_of(bench)->square_side;
    const struct step_peak_setting peak = {.device = &setting->device,
                                           .sequences = setting->sequences,
                                           .threads = setting->world,
                                           .side = bench->square_side,
                                           .seconds = seconds};
    TRY(step_peak_open(setting->model, &peak, &bench->peak));
    return step_links_open(bytes, setting->world, seconds, &bench->options.storage, &setting->device, &bench->links);
}

static int measure_baselines(struct step_bench *bench, bool counted)
{
    double products, squares, registers = 0;
    TRY(step_peak_of_model(bench->peak, &products));
    TRY(step_peak_of_square(bench->peak, &squares));
    if (!bench->setting.device.accelerator)
        TRY(registers_measure(bench->setting.world, bench->options.quick ? 0.01 : 0.1, &registers));
    if (counted) {
        bench->peak_gflops.values[bench->peak_gflops.count++] = products;
        bench->square_gflops.values[bench->square_gflops.count++] = squares;
        bench->registers_gflops.values[bench->registers_gflops.count++] = registers;
    }
    return step_links_measure(&bench->links, counted);
}

// Measures all cases and baselines in turn, so that a drift of the machine affects all alike.
static int measure(struct step_bench *bench)
{
    size_t rounds = bench->options.warmup + bench->options.repeat;
    for (int i = 0; i < bench->case_count; i++) {
        bench_progress("verifying %s", bench->cases[i].what);
        TRY(step_case_verify(&bench->setting, &bench->cases[i]));
    }
    TRY(open_baselines(bench));
    for (size_t round = 0; bench_repeats(bench->options.warmup, bench->options.repeat, round); round++) {
        bool counted = round >= bench->options.warmup;
        bench_progress("round %zu of %zu: matrix products and lanes", round + 1, rounds);
        TRY(measure_baselines(bench, counted));
        for (int i = 0; i < bench->case_count; i++) {
            bench_progress("round %zu of %zu: %s", round + 1, rounds, bench->cases[i].what);
            TRY(step_case_measure(&bench->setting, &bench->cases[i], counted));
        }
    }
    return ERR_NONE;
}

static void close_cases(struct step_bench *bench)
{
    for (int i = 0; i < bench->case_count; i++)
        step_case_release(&bench->cases[i]);
    step_peak_close(bench->peak);
    step_links_close(&bench->links);
    bench->peak = NULL;
    bench->peak_gflops.count = bench->square_gflops.count = bench->registers_gflops.count = 0;
}

static int run_size(struct step_bench *bench, const bool chosen[STEP_PRESET_COUNT], size_t sequences)
{
    bench->setting.sequences = sequences;
    bench->begin_ns = clock_now_ns();
    step_choose_cases(bench, chosen);
    int rc = measure(bench);
    if (rc == ERR_NONE)
        rc = step_bench_print(bench);
    close_cases(bench);
    return rc;
}

static int run(struct step_bench *bench, const bool chosen[STEP_PRESET_COUNT])
{
    struct bench_options *options = &bench->options;
    bench_default_sizes(options, &workload_of(bench)->sequences, 1);
    bench_default_repeat(options, 7, 3, options->quick ? 0 : 1);
    for (size_t i = 0; i < options->size_count; i++)
        TRY(run_size(bench, chosen, options->sizes[i]));
    return ERR_NONE;
}

struct step_texts {
    char *model, *schedule, *text_path, *presets, *emulate, *device, *dtype, *mesh;
};

// Parses the texts and refuses options that cannot be measured.
static int parse_texts(struct step_bench *bench, const struct step_texts *texts, bool chosen[STEP_PRESET_COUNT])
{
    struct step_setting *setting = &bench->setting;
    if (bench->options.thread_count > 0)
        return err_set(ERR_USAGE, "--threads has no effect here: each rank has one");
    if (bench->options.storage.inject)
        return err_set(ERR_USAGE, "--inject: only `bench swap` and `bench overlap` inject faults");
    TRY(step_place_ranks(setting, texts->mesh));
    if (texts->dtype && strcmp(texts->dtype, "fp32") != 0 && strcmp(texts->dtype, "bf16") != 0)
        return err_set(ERR_USAGE, "--dtype %.32s: expected fp32 or bf16", texts->dtype);
    setting->dtype = texts->dtype;
    TRY(step_choose_presets(texts->presets, setting, chosen));
    setting->schedule.mode = EXECUTOR_OVERLAP;
    if (texts->schedule)
        TRY(executor_schedule_parse(texts->schedule, &setting->schedule));
    if (setting->schedule.mode == EXECUTOR_CHAOS)
        return err_set(ERR_USAGE, "--schedule %s: expected serial or overlap", texts->schedule);
    return texts->emulate ? emulation_parse(texts->emulate, &setting->emulation) : ERR_NONE;
}

// device: null is the one that --device names.
static int prepare_and_run(struct step_bench *bench, const struct step_texts *texts, const struct bench_device *device)
{
    struct step_setting *setting = &bench->setting;
    bool chosen[STEP_PRESET_COUNT], absent = false;
    TRY(parse_texts(bench, texts, chosen));
    if (device)
        setting->device = *device;
    else
        TRY(bench_device_find(texts->device, setting->world, false, &setting->device, &absent));
    if (absent)
        return bench_skip("step: %s", err_message());
    // On GPUs, the accepted ranges belong to operations one after the other.
    if (setting->device.accelerator && !texts->schedule)
        setting->schedule.mode = EXECUTOR_SERIAL;
    setting->steps = bench->options.quick ? 5 : 10;
    setting->storage = &bench->options.storage;
    TRY(model_find(texts->model ? texts->model : workload_of(bench)->model, &setting->model));
    // The presets are for smaller layers. Here the next layer arrives during the passes of one, and a collective moves
    // half of a layer, so that ranks that share a processor wait for each other less often.
    size_t layer = step_largest_layer(setting->model);
    setting->prefetched = setting->device.accelerator ? STEP_DEVICE_BUCKET : 2 * layer;
    setting->bucket = setting->device.accelerator ? STEP_DEVICE_BUCKET : 2 * (layer / 4 + 1);
    if (setting->model->wants_text)
        TRY(text_open(texts->text_path, &setting->text));
    return run(bench, chosen);
}

static int step_main(const struct bench_device *device, int argc, const char **argv, struct step_bench *bench)
{
    struct step_texts texts = {0};
    int where = 0;
    const struct poptOption own[] = {
        {"preset", '\0', POPT_ARG_STRING, &texts.presets, 0, "presets to measure (default: all)", "PRESET,..."},
        {"model", '\0', POPT_ARG_STRING, &texts.model, 0, "a GPT (default: gpt-3m; another with --quick or on a GPU)",
         "MODEL"},
        {"device", '\0', POPT_ARG_STRING, &texts.device, 0,
         "the device that trains (default: cpu); cuda has a larger model", "cpu|cuda"},
        {"world", '\0', POPT_ARG_INT, &bench->setting.world, 0,
         "ranks (default: 2); 1: one process, with no communication", "1|2"},
        {"mesh", '\0', POPT_ARG_STRING, &texts.mesh, 0,
         "ranks on a mesh, as in train; a pipeline has twice as many micro-batches as stages", "DEGREE=N,..."},
        {"dtype", '\0', POPT_ARG_STRING, &texts.dtype, 0, "the model's parameters and gradients (default: bf16)",
         "fp32|bf16"},
        {"schedule", '\0', POPT_ARG_STRING, &texts.schedule, 0,
         "schedule of operations (default: overlap; on a GPU serial)", "serial|overlap"},
        {"emulate", '\0', POPT_ARG_STRING, &texts.emulate, 0, "throttle lanes to rates in GB/s, as in train",
         "LANE=GB/S,..."},
        {"where", '\0', POPT_ARG_NONE, &where, 0, "where the time of a step goes, by lane and kind of operation", NULL},
        {"text", '\0', POPT_ARG_STRING, &texts.text_path, 0, "train on this file instead of the King James Bible",
         "FILE"},
        POPT_TABLEEND,
    };
    int rc = bench_parse(argc, argv, &bench_step, own, &bench->options);
    bench->setting.where = where;
    if (rc == ERR_NONE && !bench->options.help)
        rc = prepare_and_run(bench, &texts, device);
    text_close(bench->setting.text);
    bench_release(&bench->options, own);
    return rc;
}

int bench_step_on(const struct bench_device *device, int argc, const char **argv)
{
    struct step_bench *bench = calloc(1, sizeof *bench);
    int rc = bench ? step_main(device, argc, argv, bench) : err_set(ERR_MEMORY, "no memory for samples");
    free(bench);
    return bench_exit("step", rc);
}

static int run_step(int argc, const char **argv)
{
    return bench_step_on(NULL, argc, argv);
}
