// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench overlap`: training steps of ZeRO-3 with every state on NVMe, against the busy time of the busiest
// lane, the union of its recorded intervals. At 1.0 one lane works all the time and hides all others. First with the
// machine's own lanes, then with lanes in the proportions of a DGX-2, slowed down by as much as this machine computes
// more slowly than a V100. On a GPU (--device) lanes are not emulated unless --emulate asks for it.
#include "bench/step/overlap_run.h"

#include "base/err.h"
#include "base/file.h"
#include "ref/model/names/model_find.h"

#include <math.h>
#include <popt.h>
#include <string.h>

static int run_overlap(int argc, const char **argv);

const struct benchmark bench_overlap = {
    .name = "overlap",
    .run = run_overlap,
    .uses = BENCH_USES_STATES,
    .summary = "a training step with every state on NVMe against its busiest lane",
    .examples = {"zerogauge bench overlap --emulate dgx-2", "zerogauge bench overlap --speculative",
                 "zerogauge bench overlap --world 2 --trace timeline.json"},
};

// A DGX-2's links per GPU with all 16 GPUs at work, in bytes/s, and the rate of a V100 in large matrix products:
// ZeRO-Infinity, figure 2b and section 4.
static const struct emulation DGX2 = {{[LANE_COLLECTIVE] = 70e9,
                                       [LANE_H2D] = 3e9,
                                       [LANE_D2H] = 3e9,
                                       [LANE_NVME_READ] = 1.6e9,
                                       [LANE_NVME_WRITE] = 1.6e9}};
static const double V100_FLOPS = 70e12;

// The first step records the order of layers and prefetches nothing, so there always is a warm-up. The last step is
// not measured, as the lane table says. TRIED_STEPS, after the warm-up, show how fast a rank computes: as many as the
// serial schedule has, and the fewest of the other, so that they are in memory what these are compared with.
enum { SERIAL_STEPS = 3, LAST_STEP = 1, TRIED_STEPS = SERIAL_STEPS + LAST_STEP };
_Static_assert((int)SERIAL_STEPS == (int)BENCH_REPEAT_LEAST, "a quick run trains once in memory");

// A model, a rank's micro-batch, and the sub-groups in which a layer is updated. Emulated lanes are slow, so their
// model is small: a step takes seconds. A GPU needs large matrices, so its model is wide, with a micro-batch whose
// products, some 10^13 operations, take about as long as storage needs for the states, 36 bytes for each of 10^8
// parameters: most of a second at 15 Tflop/s and at 5 GB/s.
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
    struct file_output file;
    int code = file_output_open(bench->options->trace_path, FILE_REPLACED, &file);
    if (code != ERR_NONE)
        return err_prefix(code, "--trace");
    code = trace_write(&run->trace, emulation_text(&run->emulation, emulated), file.out);
    code = file_output_close(&file, code);
    return code == ERR_NONE ? ERR_NONE : err_prefix(code, "--trace %s", bench->options->trace_path);
}

static int print(const struct overlap_bench *bench, const struct overlap_run *run, const struct lane_table *table,
                 double serial_ms, double flops)
{
    char emulated[EMULATION_TEXT_BYTES], lanes[EMULATION_TEXT_BYTES + 16] = "as they are", baseline[64];
    emulation_text(&run->emulation, emulated);
    // Scaled rates of another machine depend on this one's speed, so the case names the machine instead.
    if (emulation_any(&run->emulation))
        snprintf(lanes, sizeof lanes, "EMULATED %s", run->machine ? run->machine : emulated);
    enum lane busiest = lane_table_busiest(table);
    snprintf(baseline, sizeof baseline, "busy time of %s", ledger_lane_name(busiest));
    struct overlap_plan plan;
    TRY(overlap_plan_of(bench, run, &plan));
    double measured = bench_median(&table->busy_ms[busiest]) / bench_median(&table->step_ms);
    double gain = serial_ms / bench_median(&table->step_ms);
    const struct bench_storage *storage = &bench->options->shared.storage;
    struct bench_record record = {
        .name = "overlap",
        .description =
            json_pack("{s:s,s:s,s:i,s:I,s:b,s:b,s:b,s:s}", "what", "ZeRO-3, every state on NVMe", "model",
                      bench->model->name, "world", bench->options->world, "tokens_a_rank",
                      (json_int_t)(bench->sequences * bench->model->sequence_length), "eager", bench->options->eager,
                      "checksum", !storage->no_checksum, "buffered", storage->buffered, "lanes", lanes),
        .detail = json_pack("{s:s,s:f,s:f,s:f,s:I,s:o,s:o}", "emulated", emulated, "flops_a_rank", flops, "serial_ms",
                            serial_ms, "gain_over_serial", gain, "unlocked_bytes", (json_int_t)run->unlocked_bytes,
                            "by_lane", lane_table_json(table), "plan", overlap_plan_json(&plan, measured)),
        .timeline = lane_table_timeline(&run->trace, bench->options->shared.warmup),
        .unit = "ms_per_step",
        .lower_is_better = true,
        .items = 1,
        .begin_ns = run->begin_ns,
        .samples = &table->step_ms,
        .baseline_name = baseline,
        .baseline = &table->busy_ms[busiest],
    };
    if (bench->options->speculative) {
        json_object_set_new(record.description, "speculative", json_true());
        json_object_set_new(record.detail, "redone_steps", json_integer((json_int_t)run->redone_steps));
    }
    bench_device_describe(&bench->device, record.description);
    TRY(bench_print(&bench->options->shared, &record));
    if (bench->options->shared.json)
        return ERR_NONE;
    lane_table_print(table, stdout);
    printf("         serial schedule %.4g ms, %.2f times as long; a rank computes %.1f Gflop/s%s%s\n", serial_ms, gain,
           flops * 1e-9, bench->device.accelerator ? " on " : "",
           bench->device.accelerator ? bench_device_name(&bench->device) : "");
    printf("         planned %.4g ms, %.1f %% busy time of %s; measured %.1f %%\n", plan.step_ms,
           100 * plan.busy_ms / plan.step_ms, ledger_lane_name(plan.busiest), 100 * measured);
    if (bench->options->speculative)
        printf("         %llu of %llu steps updated again, because they were clipped\n",
               (unsigned long long)run->redone_steps, (unsigned long long)run->steps);
    if (*emulated)
        printf("         EMULATED %s\n", emulated);
    return ERR_NONE;
}

// Trains and verifies against the same steps in memory. The caller closes the trace.
static int run_verified(struct overlap_bench *bench, struct overlap_run *run)
{
    double flops;
    TRY(overlap_train(bench, run));
    return overlap_compare(bench, run, &flops);
}

static int measure_runs(struct overlap_bench *bench, struct overlap_run *run, struct overlap_run *serial, double flops)
{
    const char *lanes = emulation_any(&run->emulation) ? "EMULATED lanes" : "lanes as they are";
    bench_progress("overlap: %s, %s", lanes, bench->model->name);
    TRY(run_verified(bench, run));
    bench_progress("overlap: %s, serial schedule", lanes);
    TRY(run_verified(bench, serial));
    struct lane_table table, serial_table;
    lane_table_of(&run->trace, bench->options->shared.warmup, &table);
    lane_table_of(&serial->trace, bench->options->shared.warmup, &serial_table);
    TRY(print(bench, run, &table, bench_median(&serial_table.step_ms), flops));
    return bench->options->trace_path ? write_trace(bench, run) : ERR_NONE;
}

// The seconds of a case. A step computes, while emulated storage reads and writes 18 bytes of a parameter: master,
// exp_avg, exp_avg_sq and gradient in fp32 and the parameter in bf16. Serially it takes twice as long, and a run of
// more steps than were tried is made again in memory.
static double expected_s(const struct overlap_bench *bench, const struct emulation *emulation, double flops,
                         size_t repeat)
{
    enum { UPDATED_BYTES = 18 };
    const struct bench_options *options = &bench->options->shared;
    double compute_s = model_flops(bench->model, bench->sequences) / flops, step_s = compute_s;
    double bytes = UPDATED_BYTES * (double)model_param_elements(bench->model, true) / bench->options->world;
    for (int lane = LANE_NVME_READ; lane <= LANE_NVME_WRITE; lane++)
        if (emulation->bytes_per_s[lane] > 0)
            step_s = fmax(step_s, bytes / emulation->bytes_per_s[lane]);
    double again_s = repeat == SERIAL_STEPS ? 0 : compute_s;
    return (double)(options->warmup + repeat + LAST_STEP) * (step_s + again_s) +
           (double)(options->warmup + TRIED_STEPS) * 2 * step_s;
}

// Measures with lanes at these rates; scaled: slowed down by as much as this machine computes more slowly than a V100.
static int measure(struct overlap_bench *bench, const struct workload *workload, const struct emulation *emulation,
                   bool scaled, size_t cases_left)
{
    const struct overlap_options *given = bench->options;
    TRY(model_find(given->model ? given->model : workload->model, &bench->model));
    bench->sub_groups = workload->sub_groups;
    bench->plain_steps = 0;
    bench->sequences = given->sequences > 0 ? (size_t)given->sequences : workload->sequences;
    struct overlap_run run = {
        .infinity = true,
        .mode = EXECUTOR_OVERLAP,
        .emulation = *emulation,
        .machine = scaled ? "dgx-2" : NULL,
        .begin_ns = clock_now_ns(),
        .steps = given->shared.warmup + TRIED_STEPS,
    };
    double flops;
    bench_progress("overlap: measuring how fast a rank computes");
    TRY(overlap_compare(bench, &run, &flops));
    for (int lane = 0; lane < LANE_COUNT && scaled; lane++)
        run.emulation.bytes_per_s[lane] *= flops / V100_FLOPS;
    double left_s = bench_budget_left_s(), most_s = left_s + given->shared.budget_s / 10;
    size_t repeat = given->shared.repeat;
    while (repeat > BENCH_REPEAT_LEAST &&
           expected_s(bench, &run.emulation, flops, repeat) > left_s / (double)cases_left)
        repeat--;
    double whole_s = expected_s(bench, &run.emulation, flops, repeat);
    if (whole_s > most_s && scaled && !given->emulate)
        return bench_skip("overlap: a DGX-2's lanes would end after the %g s of --budget", given->shared.budget_s);
    if (whole_s > most_s)
        fprintf(stderr, "overlap: %zu steps with these lanes take some %.0f s, more than --budget\n", repeat, whole_s);
    run.steps = given->shared.warmup + repeat + LAST_STEP;
    struct overlap_run serial = {.infinity = true,
                                 .mode = EXECUTOR_SERIAL,
                                 .emulation = run.emulation,
                                 .steps = given->shared.warmup + TRIED_STEPS};
    int code = measure_runs(bench, &run, &serial, flops);
    trace_close(&run.trace);
    trace_close(&serial.trace);
    return code;
}

// Refuses options out of range. *chosen: the rates that the user gave, zeros if none.
static int check_options(struct overlap_bench *bench, const struct overlap_options *given, struct emulation *chosen)
{
    *chosen = (struct emulation){0};
    if (given->world < 1 || given->world > 64)
        return err_set(ERR_USAGE, "--world %d: expected 1 to 64", given->world);
    if (given->sequences < 0)
        return err_set(ERR_USAGE, "--sequences %d: expected 1 or more", given->sequences);
    if (given->shared.size_count > 0 || given->shared.thread_count > 0)
        return err_set(ERR_USAGE, "--sizes and --threads have no effect here; use --model and --world");
    if (given->shared.storage.inject)
        TRY(inject_parse(given->shared.storage.inject, &bench->inject));
    TRY(inject_check(&bench->inject, given->world, UINT64_MAX, true));
    if (given->emulate && strcmp(given->emulate, "none") != 0 && strcmp(given->emulate, "dgx-2") != 0)
        TRY(emulation_parse(given->emulate, chosen));
    return ERR_NONE;
}

static int run_all(struct overlap_bench *bench, const struct overlap_options *given, const struct emulation *chosen)
{
    const struct emulation none = {0};
    const bool apart = bench->device.accelerator != NULL;
    const struct workload *slow = apart ? &WIDE : &SMALL, *fast = apart ? &WIDE : &LARGE;
    // A step with a DGX-2's lanes takes seconds, so quick runs leave it out.
    bool as_is = !given->emulate || strcmp(given->emulate, "none") == 0;
    bool dgx2 = given->emulate ? strcmp(given->emulate, "dgx-2") == 0 : !given->shared.quick && !apart;
    if (emulation_any(chosen))
        return measure(bench, slow, chosen, false, 1);
    if (as_is)
        TRY(measure(bench, fast, &none, false, 1 + dgx2));
    return dgx2 ? measure(bench, slow, &DGX2, true, 1) : ERR_NONE;
}

// device: null is the one that --device names.
static int prepare_and_run(const struct bench_device *device, struct overlap_options *given)
{
    struct overlap_bench bench = {.options = given};
    struct emulation chosen;
    bool absent = false;
    bench_default_budget(&given->shared);
    bench_default_repeat(&given->shared, 7, 3, 1);
    TRY(check_options(&bench, given, &chosen));
    // Each case writes its timeline in place of the one before.
    if (given->trace_path && file_check_output(given->trace_path, FILE_NEW) != ERR_NONE)
        return err_prefix(ERR_USAGE, "--trace");
    if (device)
        bench.device = *device;
    else
        TRY(bench_device_find(given->device, given->world, false, &bench.device, &absent));
    if (absent)
        return bench_skip("overlap: %s", err_message());
    TRY(text_open(given->text_path, &bench.text));
    bench_say_budget(&given->shared);
    int code = run_all(&bench, given, &chosen);
    text_close(bench.text);
    return code;
}

static int overlap_main(const struct bench_device *device, int argc, const char **argv)
{
    struct overlap_options given = {.world = 1};
    enum { TEXT = POPT_ARG_STRING, INT = POPT_ARG_INT, FLAG = POPT_ARG_NONE };
    const struct poptOption own[] = {
        {"emulate", '\0', TEXT, &given.emulate, 0, "throttle lanes: rates as in train, or those of a DGX-2, or none",
         "LANE=GB/S,...|dgx-2|none"},
        {"world", '\0', INT, &given.world, 0, "ranks, one thread each (default: 1)", "N"},
        {"device", '\0', TEXT, &given.device, 0,
         "the device that trains (default: cpu); cuda has a larger model, and throttles lanes only with --emulate",
         "cpu|cuda"},
        {"model", '\0', TEXT, &given.model, 0,
         "model to train (default: a small one for throttled lanes, otherwise a larger one)", "MODEL"},
        {"sequences", '\0', INT, &given.sequences, 0, "sequences of a rank in each micro-step", "N"},
        {"eager", '\0', FLAG, &given.eager, 0, "no clipping, no overflow check: updates do not wait for all gradients",
         NULL},
        {"speculative", '\0', FLAG, &given.speculative, 0, "updates begin before the step is decided", NULL},
        {"text", '\0', TEXT, &given.text_path, 0, "train on this file instead of the King James Bible", "FILE"},
        {"trace", '\0', TEXT, &given.trace_path, 0, "write the last case's timeline for Chrome or Perfetto", "FILE"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_overlap, own, &given.shared);
    if (code == ERR_NONE && !given.shared.help)
        code = prepare_and_run(device, &given);
    bench_release(&given.shared, own);
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
