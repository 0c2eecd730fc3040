// SPDX-License-Identifier: Apache-2.0
// The results of `bench step`: the step, its operations against matrix products, each lane against the lane alone, and
// the efficiency against the one that ZeRO-Infinity's model predicts.
#include "bench/step/step_bench.h"

#include "bench/step/efficiency.h"
#include "bench/step/lane_table.h"
#include "bench/step/lane_kinds.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *case_json(const struct step_bench *bench, const struct step_case *c)
{
    static const char *const tiers[TIER_COUNT] = {"device", "host", "nvme"};
    char lanes[EMULATION_TEXT_BYTES];
    json_t *json = json_pack("{s:s,s:s,s:s,s:s,s:i,s:I,s:I,s:s}", "what", c->what, "preset", c->preset, "tier",
                             tiers[c->tier], "model", bench->setting.model->name, "world", bench->setting.world,
                             "sequences_a_rank", (json_int_t)bench->setting.sequences, "sequence_tokens",
                             (json_int_t)bench->setting.model->sequence_length, "schedule",
                             bench->setting.schedule.mode == EXECUTOR_SERIAL ? "serial" : "overlap");
    json_object_set_new(json, "bucket_elements", json_integer((json_int_t)bench->setting.bucket));
    json_object_set_new(json, "prefetched_elements", json_integer((json_int_t)bench->setting.prefetched));
    if (bench->setting.mesh_text)
        json_object_set_new(json, "mesh", json_string(bench->setting.mesh_text));
    if (bench->setting.micro_batches > 1)
        json_object_set_new(json, "micro_batches", json_integer((json_int_t)bench->setting.micro_batches));
    bench_device_describe(&bench->setting.device, json);
    if (bench->setting.dtype)
        json_object_set_new(json, "dtype", json_string(bench->setting.dtype));
    if (c->tier == TIER_NVME) {
        json_object_set_new(json, "buffered", json_boolean(bench->setting.storage->buffered));
        json_object_set_new(json, "checksum", json_boolean(!bench->setting.storage->no_checksum));
        json_object_set_new(json, "optimizer_buffers", json_integer(STEP_NVME_BUFFERS));
    }
    if (emulation_any(&bench->setting.emulation))
        json_object_set_new(json, "lanes",
                            json_sprintf("EMULATED %s", emulation_text(&bench->setting.emulation, lanes)));
    return json;
}

// The operations of one rank in a step, without recomputation, where all have an equal part of the model.
static double rank_flops(const struct step_bench *bench)
{
    const struct step_setting *setting = &bench->setting;
    return model_flops(setting->model, setting->sequences) * (double)setting->micro_batches /
           mesh_parts(&setting->mesh);
}

// The peak is the rate of forward and backward of ranks that do not communicate.
static struct efficiency_step efficiency_of(const struct step_bench *bench, const struct step_case *c)
{
    double flops = rank_flops(bench), micro_batch_flops = model_flops(bench->setting.model, bench->setting.sequences);
    struct efficiency_step step = {
        .flops = c->recomputes ? flops * 4 / 3 : flops,  // one more forward, a third
        .flops_per_s = micro_batch_flops / (bench_median(&bench->cases[bench->alone].passes_ms) * 1e-3),
        .optimizer_bytes = c->optimizer_bytes,
        .activation_bytes = c->activation_bytes,
    };
    memcpy(step.bytes, c->bytes, sizeof step.bytes);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (bench->links.gb_per_s[lane].count > 0)
            step.bytes_per_s[lane] = bench_median(&bench->links.gb_per_s[lane]) * 1e9;
    return step;
}

static double tokens_of(const struct step_bench *bench)
{
    const struct step_setting *setting = &bench->setting;
    double micro_batches = (double)setting->micro_batches * mesh_group_size(&setting->mesh, MESH_DATA);
    return micro_batches * (double)(setting->sequences * setting->model->sequence_length);
}

// The lanes of a case, as in `bench overlap`, in the part of the step that the case reports.
static struct lane_table lanes_of(const struct step_case *c)
{
    struct lane_table table = {.step_ms = c->step_ms};
    memcpy(table.busy_ms, c->busy_ms, sizeof table.busy_ms);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (size_t i = 0; i < table.busy_ms[lane].count; i++)
            table.busy_ms[lane].values[i] /= c->shares;
    memcpy(table.bytes, c->lane_bytes, sizeof table.bytes);
    return table;
}

static int print_step(struct step_bench *bench, struct step_case *c)
{
    double step_ms = bench_median(&c->step_ms);
    struct efficiency_step step = efficiency_of(bench, c);
    struct efficiency efficiency;
    efficiency_predict(&step, &efficiency);
    const struct lane_table lanes = lanes_of(c);
    enum lane busiest = lane_table_busiest(&lanes);
    struct bench_record record = {
        .name = "step",
        .description = case_json(bench, c),
        .detail = json_pack("{s:f, s:I, s:o, s:o}", "tokens_per_s", tokens_of(bench) / (step_ms * 1e-3),
                            "unlocked_bytes", (json_int_t)c->unlocked_bytes, "efficiency",
                            efficiency_json(&step, &efficiency, step_ms), "by_lane", lane_table_json(&lanes)),
        .timeline = json_incref(c->timeline),
        .unit = "ms_per_step",
        .lower_is_better = true,
        .items = 1,
        .begin_ns = bench->begin_ns,
        .samples = &c->step_ms,
        .baseline_name = bench->setting.mesh_text    ? "a rank's share of one process doing all micro-batches"
                         : bench->setting.world == 1 ? "one process, every state there"
                                                     : "half of one process doing both micro-batches",
        .baseline = c == &bench->cases[STEP_BASELINE] ? NULL : &bench->cases[STEP_BASELINE].step_ms,
    };
    if (c->where)
        json_object_set(record.detail, "where", c->where);
    TRY(bench_print(&bench->options, &record));
    if (bench->options.json)
        return ERR_NONE;
    printf("         %.0f tokens/s; ZeRO-Infinity's model predicts an efficiency of %.3f, measured %.3f, difference "
           "%+.3f\n",
           tokens_of(bench) / (step_ms * 1e-3), efficiency.predicted, efficiency_measured(&step, step_ms),
           efficiency_measured(&step, step_ms) - efficiency.predicted);
    double busy_ms = bench_median(&lanes.busy_ms[busiest]);
    printf("         busiest lane: %s, %.4g ms, %.1f %% of the step\n", ledger_lane_name(busiest), busy_ms,
           100 * busy_ms / step_ms);
    if (c->where)
        lane_kinds_print_where(c->where, stdout);
    return ERR_NONE;
}

// On the heap, because samples are large.
static struct bench_samples *new_samples(void)
{
    struct bench_samples *samples = calloc(1, sizeof *samples);
    if (!samples)
        err_set(ERR_MEMORY, "no memory for samples");
    return samples;
}

// Prints the model's operations, without recomputation, over the step's time.
static int print_flops_of(struct step_bench *bench, const struct step_case *c, struct bench_samples *gflops)
{
    double flops = bench->setting.world * rank_flops(bench);
    double square = bench_median(&bench->square_gflops), registers = bench_median(&bench->registers_gflops);
    for (; gflops->count < c->step_ms.count; gflops->count++)
        gflops->values[gflops->count] = flops / c->step_ms.values[gflops->count] * 1e-6;
    struct bench_record record = {
        .name = "step_flops",
        .description = case_json(bench, c),
        .detail = json_pack("{s:f, s:I, s:f}", "square_gflops", square, "square_side", (json_int_t)bench->square_side,
                            "share_of_square", bench_median(gflops) / square),
        .unit = "GFLOP/s",
        .items = flops,
        .baseline_items = step_peak_model_flops(bench->peak),
        .begin_ns = bench->begin_ns,
        .samples = gflops,
        .baseline_name = "matrix products of the model's shapes",
        .baseline = &bench->peak_gflops,
        .tabled = true,
    };
    if (registers > 0)
        json_object_update_new(record.detail, json_pack("{s:f, s:f}", "registers_gflops", registers,
                                                        "share_of_registers", bench_median(gflops) / registers));
    TRY(bench_print(&bench->options, &record));
    if (bench->options.json)
        return ERR_NONE;
    printf("         %.1f Gflop/s of the model: %.1f %% of matrix products of its shapes (%.1f), %.1f %% of "
           "%zu x %zu x %zu (%.1f)",
           bench_median(gflops), 100 * bench_ratio(&record), bench_median(&bench->peak_gflops),
           100 * bench_median(gflops) / square, bench->square_side, bench->square_side, bench->square_side, square);
    if (registers > 0)
        printf(", %.1f %% of registers alone (%.1f)", 100 * bench_median(gflops) / registers, registers);
    printf("\n");
    return ERR_NONE;
}

static int print_flops(struct step_bench *bench, const struct step_case *c)
{
    struct bench_samples *gflops = new_samples();
    int rc = gflops ? print_flops_of(bench, c, gflops) : ERR_MEMORY;
    free(gflops);
    return rc;
}

// Prints a lane's rate while it is busy, against the lane alone.
static int print_lane_of(struct step_bench *bench, const struct step_case *c, enum lane lane,
                         struct bench_samples *rate)
{
    const struct bench_samples *busy = &c->busy_ms[lane], *link = &bench->links.gb_per_s[lane];
    json_t *description = case_json(bench, c);
    json_object_set_new(description, "lane", json_string(ledger_lane_name(lane)));
    for (; rate->count < busy->count; rate->count++)
        rate->values[rate->count] = c->lane_bytes[lane] / busy->values[rate->count] * 1e-6;
    struct bench_record record = {
        .name = "step_lane",
        .description = description,
        .unit = "GB/s",
        .items = c->lane_bytes[lane],
        .baseline_items = bench->links.items[lane],
        .begin_ns = bench->begin_ns,
        .samples = rate,
        .baseline_name = "the lane by itself",
        .baseline = link,
        .tabled = true,
    };
    TRY(bench_print(&bench->options, &record));
    if (!bench->options.json)
        printf("         %-10s %8.3f MB per step in %8.2f ms: %8.3f GB/s, %5.1f %% of the lane alone (%.3f)\n",
               ledger_lane_name(lane), c->lane_bytes[lane] * 1e-6, bench_median(busy), bench_median(rate),
               100 * bench_ratio(&record), bench_median(link));
    return ERR_NONE;
}

static int print_lane(struct step_bench *bench, const struct step_case *c, enum lane lane)
{
    struct bench_samples *rate = new_samples();
    int rc = rate ? print_lane_of(bench, c, lane, rate) : ERR_MEMORY;
    free(rate);
    return rc;
}

int step_bench_print(struct step_bench *bench)
{
    for (int i = bench->alone; i < bench->case_count; i++) {
        TRY(print_step(bench, &bench->cases[i]));
        TRY(print_flops(bench, &bench->cases[i]));
        for (int lane = 0; lane < LANE_COUNT; lane++)
            if (i > bench->alone && bench->cases[i].lane_bytes[lane] > 0 && lane != LANE_COMPUTE && lane != LANE_CPU)
                TRY(print_lane(bench, &bench->cases[i], (enum lane)lane));
    }
    return ERR_NONE;
}
