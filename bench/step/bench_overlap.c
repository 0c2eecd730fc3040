// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench overlap`: training steps of ZeRO-3 with every state on NVMe, and how much of a step its busiest lane
// works: the union of that lane's recorded intervals, against the step's whole time. 1.0 would be a step in which
// everything else hides behind one lane. Once with lanes as they are, and once with lanes in the proportions of a
// DGX-2, slowed down as much as this machine computes more slowly than a V100. On a GPU (--device) lanes are as they
// are: links and computation are in proportion by themselves.
#include "bench/step/overlap_run.h"

#include "base/err.h"

#include <popt.h>
#include <stdlib.h>
#include <string.h>

static int run_overlap(int argc, const char **argv);

const struct benchmark bench_overlap = {
    .name = "overlap",
    .run = run_overlap,
    .uses = BENCH_USES_STATES,
    .summary = "a step with every state on NVMe against its busiest lane",
    .examples = {"zerogauge bench overlap --emulate dgx-2", "zerogauge bench overlap --world 2 --trace timeline.json"},
};

// A DGX-2's links for each of its 16 GPUs, all at work, in bytes/s, and what a V100 reaches in large matrix products:
// ZeRO-Infinity, figure 2b and section 4.
static const struct emulation DGX2 = {{[LANE_COLLECTIVE] = 70e9,
                                       [LANE_H2D] = 3e9,
                                       [LANE_D2H] = 3e9,
                                       [LANE_NVME_READ] = 1.6e9,
                                       [LANE_NVME_WRITE] = 1.6e9}};
static const double V100_FLOPS = 70e12;

// In the first step the order of layers is recorded, and nothing is prefetched: there always is a warm-up.
enum { SERIAL_STEPS = 2 };

// A model, a rank's micro-batch, and in how many sub-groups a layer is updated. With emulated lanes the model is as
// small as they are slow: a step takes seconds. A GPU multiplies small matrices no faster than it is told to, so its
// model is wide; and its micro-batch is so large that the products, some 10^13 operations, take about as long as
// storage needs for the states, 36 bytes for each of 10^8 parameters: most of a second at 15 Tflop/s and at 5 GB/s.
struct workload {
    const char *model;
    size_t sequences, sub_groups;
};
static const struct workload SMALL = {"gpt:layers=24,width=24,heads=2,length=256", 16, 6},
                             LARGE = {"gpt:layers=8,width=256,heads=4,length=128", 8, 1},
                             WIDE = {"gpt:layers=8,width=1024,heads=16,length=512", 32, 1};

static int write_trace(const struct overlap_bench *bench, const struct overlap_run *run)
{
    char emulated[EMULATION_TEXT_BYTES];
    const char *path = bench->options->trace_path;
    FILE *file = fopen(path, "w");
    if (!file)
        return err_set(ERR_USAGE, "--trace %s: cannot be written", path);
    int code = trace_write(&run->trace, emulation_text(&run->emulation, emulated), file);
    if (fclose(file) != 0 && code == ERR_NONE)
        code = err_set(ERR_IO, "the timeline could not be written");
    return code == ERR_NONE ? ERR_NONE : err_prefix(code, "--trace %s", path);
}

static int print(const struct overlap_bench *bench, const struct overlap_run *run, const struct lane_table *table,
                 double serial_ms, double flops)
{
    char emulated[EMULATION_TEXT_BYTES], lanes[EMULATION_TEXT_BYTES + 16] = "as they are", baseline[64];
    emulation_text(&run->emulation, emulated);
    // Another machine's rates are scaled by what was measured here: they are no setting.
    if (emulation_any(&run->emulation))
        snprintf(lanes, sizeof lanes, "EMULATED %s", run->machine ? run->machine : emulated);
    enum lane busiest = lane_table_busiest(table);
    snprintf(baseline, sizeof baseline, "busy time of %s", ledger_lane_name(busiest));
    double gain = serial_ms / bench_median(&table->step_ms);
    const struct bench_storage *storage = &bench->options->shared.storage;
    struct bench_record record = {
        .name = "overlap",
        .description =
            json_pack("{s:s,s:s,s:i,s:I,s:b,s:b,s:b,s:s}", "what", "ZeRO-3, every state on NVMe", "model",
                      bench->model->name, "world", bench->options->world, "tokens_a_rank",
                      (json_int_t)(bench->sequences * bench->model->sequence_length), "eager", bench->options->eager,
                      "checksum", !storage->no_checksum, "buffered", storage->buffered, "lanes", lanes),
        .detail = json_pack("{s:s,s:f,s:f,s:f,s:o}", "emulated", emulated, "flops_a_rank", flops, "serial_ms",
                            serial_ms, "gain_over_serial", gain, "by_lane", lane_table_json(table)),
        .timeline = lane_table_timeline(&run->trace),
        .unit = "ms_per_step",
        .lower_is_better = true,
        .verified = true,
        .items = 1,
        .begin_ns = run->begin_ns,
        .samples = &table->step_ms,
        .baseline_name = baseline,
        .baseline = &table->busy_ms[busiest],
    };
    bench_device_describe(&bench->device, record.description);
    TRY(bench_print(&bench->options->shared, &record));
    if (bench->options->shared.json)
        return ERR_NONE;
    lane_table_print(table, stdout);
    printf("         one operation after the other %.4g ms, %.2f times as long; a rank computes %.1f Gflop/s%s%s\n",
           serial_ms, gain, flops * 1e-9, bench->device.accelerator ? " on " : "",
           bench->device.accelerator ? bench_device_name(&bench->device) : "");
    if (*emulated)
        printf("         EMULATED %s\n", emulated);
    return ERR_NONE;
}

// Runs a schedule, compared with memory; what it was given is not closed.
static int run_verified(const struct overlap_bench *bench, struct overlap_run *run)
{
    double flops;
    TRY(overlap_train(bench, run));
    return overlap_compare(bench, run, &flops);
}

static int measure_runs(const struct overlap_bench *bench, struct overlap_run *run, struct overlap_run *serial,
                        double flops)
{
    const char *what = emulation_any(&run->emulation) ? "EMULATED lanes" : "lanes as they are";
    bench_progress("overlap: %s, %s", what, bench->model->name);
    TRY(run_verified(bench, run));
    bench_progress("overlap: %s, one operation after the other", what);
    TRY(run_verified(bench, serial));
    struct lane_table table, serial_table;
    lane_table_of(&run->trace, bench->options->shared.warmup, &table);
    lane_table_of(&serial->trace, bench->options->shared.warmup, &serial_table);
    TRY(print(bench, run, &table, bench_median(&serial_table.step_ms), flops));
    return bench->options->trace_path ? write_trace(bench, run) : ERR_NONE;
}

// Lanes at the rates given or, where they are another machine's, slowed down as much as this one computes more slowly.
static int measure(struct overlap_bench *bench, const struct workload *workload, const struct emulation *emulation,
                   bool scaled)
{
    const struct overlap_options *given = bench->options;
    TRY(model_find(given->model ? given->model : workload->model, &bench->model));
    bench->sub_groups = workload->sub_groups;
    bench->sequences = given->sequences > 0 ? (size_t)given->sequences : workload->sequences;
    struct overlap_run run = {
        .infinity = true,
        .mode = EXECUTOR_OVERLAP,
        .emulation = *emulation,
        .machine = scaled ? "dgx-2" : NULL,
        .begin_ns = bench_now_ns(),
        .steps = given->shared.warmup + given->shared.repeat,
    };
    double flops;
    bench_progress("overlap: how fast a rank computes");
    TRY(overlap_compare(bench, &run, &flops));
    for (int lane = 0; lane < LANE_COUNT && scaled; lane++)
        run.emulation.bytes_per_s[lane] *= flops / V100_FLOPS;
    struct overlap_run serial = {.infinity = true,
                                 .mode = EXECUTOR_SERIAL,
                                 .emulation = run.emulation,
                                 .steps = given->shared.warmup + SERIAL_STEPS};
    int code = measure_runs(bench, &run, &serial, flops);
    trace_close(&run.trace);
    trace_close(&serial.trace);
    return code;
}

// Refuses what cannot be measured. *chosen: rates that the user gave; none is zeros.
static int check_options(struct overlap_bench *bench, const struct overlap_options *given, struct emulation *chosen)
{
    *chosen = (struct emulation){0};
    if (given->world < 1 || given->world > 64)
        return err_set(ERR_USAGE, "--world %d: expected 1 to 64", given->world);
    if (given->sequences < 0)
        return err_set(ERR_USAGE, "--sequences %d: expected 1 or more", given->sequences);
    if (given->shared.size_count > 0 || given->shared.thread_count > 0)
        return err_set(ERR_USAGE, "--sizes and --threads have no meaning here; --model and --world have");
    if (given->shared.storage.inject)
        TRY(inject_parse(given->shared.storage.inject, &bench->inject));
    if (given->emulate && strcmp(given->emulate, "none") != 0 && strcmp(given->emulate, "dgx-2") != 0)
        TRY(emulation_parse(given->emulate, chosen));
    return ERR_NONE;
}

static int run_all(struct overlap_bench *bench, const struct overlap_options *given, const struct emulation *chosen)
{
    const struct emulation none = {0};
    const bool apart = bench->device.accelerator != NULL;
    const struct workload *slow = apart ? &WIDE : &SMALL, *fast = apart ? &WIDE : &LARGE;
    if (emulation_any(chosen))
        return measure(bench, slow, chosen, false);
    if (!given->emulate || strcmp(given->emulate, "none") == 0)
        TRY(measure(bench, fast, &none, false));
    // Emulated lanes are as slow as this machine computes: seconds a step.
    bool dgx2 = given->emulate ? strcmp(given->emulate, "dgx-2") == 0 : !given->shared.quick && !apart;
    return dgx2 ? measure(bench, slow, &DGX2, true) : ERR_NONE;
}

// device: null is the one that the user named.
static int prepare_and_run(const struct bench_device *device, struct overlap_options *given)
{
    struct overlap_bench bench = {.options = given};
    struct emulation chosen;
    bool absent = false;
    bench_default_repeat(&given->shared, 7, 3, 1);
    TRY(check_options(&bench, given, &chosen));
    if (device)
        bench.device = *device;
    else
        TRY(bench_device_find(given->device, given->world, false, &bench.device, &absent));
    if (absent)
        return bench_skip("overlap: %s", err_message());
    TRY(text_open(given->text_path, &bench.text));
    int code = run_all(&bench, given, &chosen);
    text_close(bench.text);
    return code;
}

static int overlap_main(const struct bench_device *device, int argc, const char **argv)
{
    struct overlap_options given = {.world = 1};
    enum { TEXT = POPT_ARG_STRING, INT = POPT_ARG_INT, FLAG = POPT_ARG_NONE };
    const struct poptOption own[] = {
        {"emulate", '\0', TEXT, &given.emulate, 0, "dgx-2 or none (quickly), or lanes' GB/s as for train", "LIST"},
        {"world", '\0', INT, &given.world, 0, "ranks, as threads (1); each computes with one", "N"},
        {"device", '\0', TEXT, &given.device, 0, "that trains: cpu, unless given; cuda", "WHICH"},
        {"model", '\0', TEXT, &given.model, 0, "instead of a small one for emulated lanes, a larger one else", "NAME"},
        {"sequences", '\0', INT, &given.sequences, 0, "of a rank's micro-batch", "N"},
        {"eager", '\0', FLAG, &given.eager, 0, "no clipping, no check for overflow: no update waits for all", NULL},
        {"text", '\0', TEXT, &given.text_path, 0, "train on this file instead of the King James Bible", "FILE"},
        {"trace", '\0', TEXT, &given.trace_path, 0, "write the last case's timeline for Chrome or Perfetto", "FILE"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_overlap, own, &given.shared);
    if (code == ERR_NONE && !given.shared.help)
        code = prepare_and_run(device, &given);
    bench_release(&given.shared);
    char *const texts[] = {given.model, given.emulate, given.text_path, given.trace_path, given.device};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    return code;
}

int bench_overlap_on(const struct bench_device *device, int argc, const char **argv)
{
    return bench_exit("overlap", overlap_main(device, argc, argv));
}

static int run_overlap(int argc, const char **argv)
{
    return bench_overlap_on(NULL, argc, argv);
}
