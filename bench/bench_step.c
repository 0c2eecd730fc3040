// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench step`: one training step of a small GPT at world 2, at every stage and with its states on every
// tier, against half the time that one process with one thread needs for both micro-batches: 1.0 would be
// communication, partitioning, offloading and sharing the machine for nothing. Two ranks that never speak to each other
// are measured beside them, for what the machine takes. Then what they compute against matrix products, what each lane
// moves against the lane by itself, and what ZeRO-Infinity's model of efficiency makes of all that.
#include "bench.h"

#include "efficiency.h"
#include "err.h"
#include "step_case.h"
#include "step_links.h"
#include "step_peak.h"

#include <math.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

enum { CASE_MAX = 10, YARDSTICK = 0, ALONE = 1 };

// In quick runs the model is smaller, too.
static const char FULL_MODEL[] = "gpt-3m", QUICK_MODEL[] = "gpt:layers=4,width=128,heads=4,length=128";

static const char *const WHATS[][2] = {
    {"zero0", "DDP"},
    {"zero1", "ZeRO-1"},
    {"zero2", "ZeRO-2"},
    {"zero3", "ZeRO-3"},
    {"zero2_offload", "ZeRO-Offload"},
    {"zero3_offload", "ZeRO-3, states on the host"},
    {"zero_infinity", "ZeRO-Infinity, states on NVMe"},
};
enum { PRESET_COUNT = sizeof WHATS / sizeof WHATS[0] };

struct step_bench {
    struct bench_options options;
    struct step_setting setting;
    struct step_case cases[CASE_MAX];  // the yardstick, two ranks alone, and what was chosen
    int case_count;
    struct step_peak *peak;
    struct bench_samples peak_gflops, square_gflops, flops_gflops[CASE_MAX];
    size_t square_side;
    struct step_links links;
    uint64_t begin_ns;
};

// --- measuring ---

static int open_yardsticks(struct step_bench *bench)
{
    double bytes[LANE_COUNT] = {0}, seconds = bench->options.quick ? 0.02 : 0.2;
    for (int i = ALONE + 1; i < bench->case_count; i++)
        for (int lane = 0; lane < LANE_COUNT; lane++)
            bytes[lane] = fmax(bytes[lane], bench->cases[i].bytes[lane]);
    bench->square_side = bench->options.quick ? 1024 : 2048;
    TRY(step_peak_open(bench->setting.model, bench->setting.sequences, STEP_WORLD, bench->square_side, seconds,
                       &bench->peak));
    return step_links_open(bytes, STEP_WORLD, seconds, &bench->options.storage, &bench->links);
}

static int measure_yardsticks(struct step_bench *bench, bool counted)
{
    double products, squares;
    TRY(step_peak_of_model(bench->peak, &products));
    TRY(step_peak_of_square(bench->peak, &squares));
    if (counted) {
        bench->peak_gflops.values[bench->peak_gflops.count++] = products;
        bench->square_gflops.values[bench->square_gflops.count++] = squares;
    }
    return step_links_measure(&bench->links, counted);
}

// All cases and yardsticks take turns, so each of them lasts as long as all.
static int measure(struct step_bench *bench)
{
    size_t rounds = bench->options.warmup + bench->options.repeat;
    for (int i = 0; i < bench->case_count; i++) {
        bench_progress("verifying %s", bench->cases[i].what);
        TRY(step_case_verify(&bench->setting, &bench->cases[i]));
    }
    TRY(open_yardsticks(bench));
    for (size_t round = 0; round < rounds; round++) {
        bool counted = round >= bench->options.warmup;
        bench_progress("round %zu of %zu: matrix products and lanes", round + 1, rounds);
        TRY(measure_yardsticks(bench, counted));
        for (int i = 0; i < bench->case_count; i++) {
            bench_progress("round %zu of %zu: %s", round + 1, rounds, bench->cases[i].what);
            TRY(step_case_measure(&bench->setting, &bench->cases[i], counted));
        }
    }
    return ERR_NONE;
}

// --- results ---

static json_t *case_json(const struct step_bench *bench, const struct step_case *c)
{
    static const char *const tiers[TIER_COUNT] = {"device", "host", "nvme"};
    char lanes[EMULATION_TEXT_BYTES];
    json_t *json = json_pack("{s:s,s:s,s:s,s:s,s:i,s:I,s:I,s:s}", "what", c->what, "preset", c->preset, "tier",
                             tiers[c->tier], "model", bench->setting.model->name, "world", STEP_WORLD,
                             "sequences_a_rank", (json_int_t)bench->setting.sequences, "sequence_tokens",
                             (json_int_t)bench->setting.model->sequence_length, "schedule",
                             bench->setting.schedule.mode == FLOW_SERIAL ? "serial" : "overlap");
    if (c->tier == TIER_NVME) {
        json_object_set_new(json, "buffered", json_boolean(bench->setting.storage->buffered));
        json_object_set_new(json, "checksum", json_boolean(!bench->setting.storage->no_checksum));
    }
    if (emulation_any(&bench->setting.emulation))
        json_object_set_new(json, "lanes", json_sprintf("EMULATED %s", emulation_text(&bench->setting.emulation, lanes)));
    return json;
}

// The peak is what forward and backward compute where ranks never speak to each other.
static struct efficiency_step efficiency_of(const struct step_bench *bench, const struct step_case *c)
{
    double flops = model_flops(bench->setting.model, bench->setting.sequences);
    struct efficiency_step step = {
        .flops = c->recomputes ? flops * 4 / 3 : flops,  // forward once more, a third
        .flops_per_s = flops / (bench_median(&bench->cases[ALONE].passes_ms) * 1e-3),
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
    return (double)(STEP_WORLD * bench->setting.sequences * bench->setting.model->sequence_length);
}

static int print_step(struct step_bench *bench, struct step_case *c)
{
    double step_ms = bench_median(&c->step_ms);
    struct efficiency_step step = efficiency_of(bench, c);
    struct efficiency efficiency;
    efficiency_predict(&step, &efficiency);
    struct bench_record record = {
        .name = "step",
        .description = case_json(bench, c),
        .detail = json_pack("{s:f, s:o}", "tokens_per_s", tokens_of(bench) / (step_ms * 1e-3), "efficiency",
                            efficiency_json(&step, &efficiency, step_ms)),
        .timeline = json_incref(c->timeline),
        .unit = "ms_per_step",
        .lower_is_better = true,
        .verified = true,
        .items = 1,
        .begin_ns = bench->begin_ns,
        .samples = &c->step_ms,
        .yardstick_name = "half of one process doing both micro-batches",
        .yardstick = &bench->cases[YARDSTICK].step_ms,
    };
    TRY(bench_print(&bench->options, &record));
    if (bench->options.json)
        return ERR_NONE;
    printf("         %.0f tokens/s; ZeRO-Infinity's model predicts an efficiency of %.3f, measured %.3f, difference "
           "%+.3f\n", tokens_of(bench) / (step_ms * 1e-3), efficiency.predicted, efficiency_measured(&step, step_ms),
           efficiency_measured(&step, step_ms) - efficiency.predicted);
    return ERR_NONE;
}

// The model's operations, without recomputation, over the step's whole time.
static int print_flops(struct step_bench *bench, int at)
{
    const struct step_case *c = &bench->cases[at];
    struct bench_samples *gflops = &bench->flops_gflops[at];
    double flops = STEP_WORLD * model_flops(bench->setting.model, bench->setting.sequences);
    double square = bench_median(&bench->square_gflops);
    for (gflops->count = 0; gflops->count < c->step_ms.count; gflops->count++)
        gflops->values[gflops->count] = flops / c->step_ms.values[gflops->count] * 1e-6;
    struct bench_record record = {
        .name = "step_flops",
        .description = case_json(bench, c),
        .detail = json_pack("{s:f, s:I, s:f}", "square_gflops", square, "square_side", (json_int_t)bench->square_side,
                            "share_of_square", bench_median(gflops) / square),
        .unit = "GFLOP/s",
        .verified = true,
        .items = flops,
        .yardstick_items = step_peak_model_flops(bench->peak),
        .begin_ns = bench->begin_ns,
        .samples = gflops,
        .yardstick_name = "matrix products of the model's shapes",
        .yardstick = &bench->peak_gflops,
        .tabled = true,
    };
    TRY(bench_print(&bench->options, &record));
    if (!bench->options.json)
        printf("         %.1f Gflop/s of the model: %.1f %% of matrix products of its shapes (%.1f), %.1f %% of "
               "%zu x %zu x %zu (%.1f)\n", bench_median(gflops), 100 * bench_ratio(&record),
               bench_median(&bench->peak_gflops), 100 * bench_median(gflops) / square, bench->square_side,
               bench->square_side, bench->square_side, square);
    return ERR_NONE;
}

// Bytes a second while a lane works, against the lane by itself.
static int print_lane(struct step_bench *bench, const struct step_case *c, int lane)
{
    const struct bench_samples *busy = &c->busy_ms[lane], *link = &bench->links.gb_per_s[lane];
    struct bench_samples *rate = calloc(1, sizeof *rate);
    json_t *description = case_json(bench, c);
    if (!rate || !description || json_object_set_new(description, "lane", json_string(ledger_lane_name((enum lane)lane)))) {
        free(rate);
        json_decref(description);
        return err_set(ERR_MEMORY, "no memory for a result line");
    }
    for (; rate->count < busy->count; rate->count++)
        rate->values[rate->count] = c->bytes[lane] / busy->values[rate->count] * 1e-6;
    struct bench_record record = {
        .name = "step_lane",
        .description = description,
        .unit = "GB/s",
        .verified = true,
        .items = c->bytes[lane],
        .yardstick_items = bench->links.items[lane],
        .begin_ns = bench->begin_ns,
        .samples = rate,
        .yardstick_name = "the lane by itself",
        .yardstick = link,
        .tabled = true,
    };
    int rc = bench_print(&bench->options, &record);
    if (rc == ERR_NONE && !bench->options.json)
        printf("         %-10s %8.3f MB a step in %8.2f ms: %8.3f GB/s, %5.1f %% of the lane by itself (%.3f)\n",
               ledger_lane_name((enum lane)lane), c->bytes[lane] * 1e-6, bench_median(busy), bench_median(rate),
               100 * bench_ratio(&record), bench_median(link));
    free(rate);
    return rc;
}

static int print_all(struct step_bench *bench)
{
    for (int i = ALONE; i < bench->case_count; i++) {
        TRY(print_step(bench, &bench->cases[i]));
        TRY(print_flops(bench, i));
        for (int lane = 0; lane < LANE_COUNT; lane++)
            if (i > ALONE && bench->cases[i].bytes[lane] > 0)
                TRY(print_lane(bench, &bench->cases[i], lane));
    }
    return ERR_NONE;
}

// --- one size after the other ---

static void close_cases(struct step_bench *bench)
{
    for (int i = 0; i < bench->case_count; i++)
        json_decref(bench->cases[i].timeline);
    step_peak_close(bench->peak);
    step_links_close(&bench->links);
    bench->peak = NULL;
    bench->peak_gflops.count = bench->square_gflops.count = 0;
}

static int run_size(struct step_bench *bench, const bool chosen[PRESET_COUNT], size_t sequences)
{
    bench->setting.sequences = sequences;
    bench->begin_ns = bench_now_ns();
    bench->case_count = 0;
    bench->cases[bench->case_count++] = (struct step_case){
        .what = "one process, both micro-batches", .preset = "zero0", .world = 1, .accumulation = STEP_WORLD};
    bench->cases[bench->case_count++] = (struct step_case){
        .what = "two ranks, no communication", .preset = "zero0", .world = 1, .ranks_alone = STEP_WORLD,
        .accumulation = 1};
    for (int i = 0; i < PRESET_COUNT; i++)
        if (chosen[i])
            bench->cases[bench->case_count++] = (struct step_case){
                .what = WHATS[i][1], .preset = WHATS[i][0], .world = STEP_WORLD, .accumulation = 1};
    int rc = measure(bench);
    if (rc == ERR_NONE)
        rc = print_all(bench);
    close_cases(bench);
    return rc;
}

static int run(struct step_bench *bench, const bool chosen[PRESET_COUNT])
{
    struct bench_options *options = &bench->options;
    if (options->thread_count > 0)
        return err_set(ERR_USAGE, "--threads has no meaning here: each rank has one");
    if (options->storage.inject)
        return err_set(ERR_USAGE, "--inject: `bench swap` and `bench overlap` provoke faults");
    const size_t size = options->quick ? 2 : 4;
    bench_default_sizes(options, &size, 1);
    bench_default_repeat(options, 7, 3, options->quick ? 0 : 1);
    for (size_t i = 0; i < options->size_count; i++)
        TRY(run_size(bench, chosen, options->sizes[i]));
    return ERR_NONE;
}

// "zero1,zero_infinity"; null: all.
static int choose(const char *list, bool chosen[PRESET_COUNT])
{
    for (int i = 0; i < PRESET_COUNT; i++)
        chosen[i] = !list;
    char *copy = strdup(list ? list : ""), *rest = copy, *name;
    int rc = copy ? ERR_NONE : err_set(ERR_MEMORY, "no memory for names");
    while (list && rc == ERR_NONE && (name = strsep(&rest, ","))) {
        int at = 0;
        while (at < PRESET_COUNT && strcmp(WHATS[at][0], name) != 0)
            at++;
        if (at == PRESET_COUNT)
            rc = err_set(ERR_USAGE, "--preset %.64s: expected zero0, zero1, zero2, zero3, zero2_offload, "
                                    "zero3_offload or zero_infinity, with commas between", name);
        else
            chosen[at] = true;
    }
    free(copy);
    return rc;
}

struct step_texts {
    char *model, *schedule, *text_path, *presets, *emulate;
};

static int prepare_and_run(struct step_bench *bench, const struct step_texts *texts)
{
    struct step_setting *setting = &bench->setting;
    bool chosen[PRESET_COUNT];
    const char *model = texts->model ? texts->model : bench->options.quick ? QUICK_MODEL : FULL_MODEL;
    setting->steps = bench->options.quick ? 4 : 13;
    setting->storage = &bench->options.storage;
    TRY(choose(texts->presets, chosen));
    TRY(model_find(model, &setting->model));
    TRY(flow_schedule_parse(texts->schedule ? texts->schedule : "serial", &setting->schedule));
    if (setting->schedule.mode == FLOW_CHAOS)
        return err_set(ERR_USAGE, "--schedule %s: expected serial or overlap", texts->schedule);
    if (texts->emulate)
        TRY(emulation_parse(texts->emulate, &setting->emulation));
    if (setting->model->wants_text)
        TRY(text_open(texts->text_path, &setting->text));
    return run(bench, chosen);
}

static int step_main(int argc, const char **argv, struct step_bench *bench)
{
    struct step_texts texts = {0};
    const struct poptOption own[] = {
        {"preset", '\0', POPT_ARG_STRING, &texts.presets, 0, "only these, with commas between (all)", "LIST"},
        {"model", '\0', POPT_ARG_STRING, &texts.model, 0, "a GPT (gpt-3m; quickly a smaller one)", "NAME"},
        {"schedule", '\0', POPT_ARG_STRING, &texts.schedule, 0, "serial or overlap (serial)", "HOW"},
        {"emulate", '\0', POPT_ARG_STRING, &texts.emulate, 0, "throttle lanes, in GB/s, as for train", "LIST"},
        {"text", '\0', POPT_ARG_STRING, &texts.text_path, 0, "train on this file instead of the King James Bible",
         "FILE"},
        POPT_TABLEEND,
    };
    int rc = bench_parse(argc, argv, BENCH_USES_STATES, own, &bench->options);
    if (rc == ERR_NONE && !bench->options.help)
        rc = prepare_and_run(bench, &texts);
    text_close(bench->setting.text);
    bench_release(&bench->options);
    char *const all[] = {texts.model, texts.schedule, texts.text_path, texts.presets, texts.emulate};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    return rc;
}

int bench_step_main(int argc, const char **argv)
{
    struct step_bench *bench = calloc(1, sizeof *bench);
    int rc = bench ? step_main(argc, argv, bench) : err_set(ERR_MEMORY, "no memory for samples");
    free(bench);
    return bench_exit("step", rc);
}
