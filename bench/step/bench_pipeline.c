// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench pipeline`: how much the lanes of training slow each other down. Every lane runs alone, then with
// each other lane, then with all; the baseline is its rate alone, measured in turn. Alone, as operations of the
// executor, it is compared with the same work called directly, so that a throttled lane shows. Records of `bench
// overlap` have the timeline of a full step. The same memory, warm-up and NUMA node serve every run of a lane.
#include "bench/harness/bench.h"

#include "base/err.h"
#include "bench/memory/memory_nodes.h"
#include "bench/step/lane_load.h"

#include <popt.h>
#include <stdio.h>
#include <stdlib.h>

static int pipeline_main(int argc, const char **argv);

const struct benchmark bench_pipeline = {
    .name = "pipeline",
    .run = pipeline_main,
    .uses = BENCH_USES_STORAGE,
    .summary = "lanes of training: how much they slow each other down",
    .text = "The lanes of training one by one, in pairs and all together: how much they slow each other down.",
    .examples = {"zerogauge bench pipeline --nvme-path /mnt/nvme",
                 "zerogauge bench pipeline --quick --seconds 0.1 --json"},
};

enum { ALL = LANE_COUNT, BESIDE_COUNT = LANE_COUNT + 1 };  // with one other lane, or with all

struct pipeline {
    struct bench_options options;
    double seconds;  // of each run
    struct emulation emulation;
    struct memory_nodes nodes;
    int node;  // index of the node whose processors and memory are used
    struct lane_load *loads[LANE_COUNT];
    uint64_t begin_ns;
    struct bench_samples direct[LANE_COUNT];  // rates without an executor
    double least_direct_items[LANE_COUNT];
    // [lane][other lane or ALL]; [lane][lane]: alone.
    struct bench_samples samples[LANE_COUNT][BESIDE_COUNT];  // rates
    double least_items[LANE_COUNT][BESIDE_COUNT];            // of the shortest run
};

// Runs the lanes of `wanted` together and verifies their results.
static int run_together(struct pipeline *pipeline, const bool wanted[LANE_COUNT], enum lane_way way,
                        struct lane_done done[LANE_COUNT])
{
    struct lane_part parts[LANE_COUNT];
    int lanes[LANE_COUNT], count = 0;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (wanted[lane]) {
            lanes[count] = lane;
            parts[count++] =
                (struct lane_part){.load = pipeline->loads[lane], .name = ledger_lane_name((enum lane)lane)};
        }
    TRY(lane_parts_run(parts, count, way, pipeline->seconds));
    for (int i = 0; i < count; i++)
        done[lanes[i]] = parts[i].done;
    return ERR_NONE;
}

static void note(const struct lane_done *done, struct bench_samples *samples, double *least)
{
    samples->values[samples->count++] = done->items / (double)done->ns;
    *least = samples->count == 1 || done->items < *least ? done->items : *least;
}

static void note_beside(struct pipeline *pipeline, int lane, int beside, const struct lane_done *done)
{
    note(done, &pipeline->samples[lane][beside], &pipeline->least_items[lane][beside]);
}

// Runs a lane alone, without the executor.
static int run_direct(struct pipeline *pipeline, int lane, bool counted)
{
    bool wanted[LANE_COUNT] = {false};
    struct lane_done done[LANE_COUNT];
    wanted[lane] = true;
    TRY(run_together(pipeline, wanted, LANE_DIRECT, done));
    if (counted)
        note(&done[lane], &pipeline->direct[lane], &pipeline->least_direct_items[lane]);
    return ERR_NONE;
}

// Runs a lane alone, as operations of the executor.
static int run_alone(struct pipeline *pipeline, int lane, bool counted)
{
    bool wanted[LANE_COUNT] = {false};
    struct lane_done done[LANE_COUNT];
    wanted[lane] = true;
    TRY(run_together(pipeline, wanted, LANE_EXECUTED, done));
    if (counted)
        note_beside(pipeline, lane, lane, &done[lane]);
    return ERR_NONE;
}

// Runs a lane alone in both ways; which is first changes from round to round.
static int run_both_ways(struct pipeline *pipeline, int lane, size_t round, bool counted)
{
    if (round % 2 == 0)
        TRY(run_direct(pipeline, lane, counted));
    TRY(run_alone(pipeline, lane, counted));
    return round % 2 == 0 ? ERR_NONE : run_direct(pipeline, lane, counted);
}

// Runs each lane alone, each pair, and all together.
static int run_round(struct pipeline *pipeline, size_t round, bool counted)
{
    size_t rounds = pipeline->options.warmup + pipeline->options.repeat;
    for (int a = 0; a < LANE_COUNT; a++) {
        bench_progress("pipeline: %s alone, round %zu of %zu", ledger_lane_name((enum lane)a), round + 1, rounds);
        TRY(run_both_ways(pipeline, a, round, counted));
        for (int b = a + 1; b < LANE_COUNT; b++) {
            bool wanted[LANE_COUNT] = {false};
            struct lane_done done[LANE_COUNT];
            wanted[a] = wanted[b] = true;
            bench_progress("pipeline: %s and %s, round %zu of %zu", ledger_lane_name((enum lane)a),
                           ledger_lane_name((enum lane)b), round + 1, rounds);
            TRY(run_together(pipeline, wanted, LANE_EXECUTED, done));
            if (counted)
                note_beside(pipeline, a, b, &done[a]);
            if (counted)
                note_beside(pipeline, b, a, &done[b]);
        }
    }
    bool all[LANE_COUNT];
    struct lane_done done[LANE_COUNT];
    for (int lane = 0; lane < LANE_COUNT; lane++)
        all[lane] = true;
    TRY(run_together(pipeline, all, LANE_EXECUTED, done));
    for (int lane = 0; lane < LANE_COUNT && counted; lane++)
        note_beside(pipeline, lane, ALL, &done[lane]);
    return ERR_NONE;
}

// Returns the emulated rates that affect a case: alone the lane's own, else all. Null: none.
static json_t *emulated_json(const struct pipeline *pipeline, int lane, bool alone)
{
    char text[EMULATION_TEXT_BYTES];
    struct emulation own = pipeline->emulation;
    for (int i = 0; i < LANE_COUNT && alone; i++)
        own.bytes_per_s[i] = i == lane ? own.bytes_per_s[i] : 0;
    return emulation_any(&own) ? json_sprintf("EMULATED %s", emulation_text(&own, text)) : NULL;
}

static json_t *case_json(const struct pipeline *pipeline, int lane, int beside)
{
    bool alone = beside == lane;
    char how[32] = "alone";
    if (!alone)
        snprintf(how, sizeof how, "beside %s", beside == ALL ? "all" : ledger_lane_name((enum lane)beside));
    json_t *of_case = json_pack("{s:s, s:s, s:f, s:b}", "lane", ledger_lane_name((enum lane)lane), "works", how,
                                "seconds", pipeline->seconds, "buffered", pipeline->options.storage.buffered);
    json_t *emulated = emulated_json(pipeline, lane, alone);
    if (emulated)
        json_object_set_new(of_case, "lanes", emulated);
    return of_case;
}

// Records a lane that runs with another one, with all (ALL), or alone (itself).
static int print_case(const struct pipeline *pipeline, int lane, int beside)
{
    bool alone = beside == lane;
    struct bench_record record = {.name = "pipeline",
                                  .description = case_json(pipeline, lane, beside),
                                  .unit = lane_load_unit((enum lane)lane),
                                  .items = pipeline->least_items[lane][beside],
                                  .baseline_items =
                                      alone ? pipeline->least_direct_items[lane] : pipeline->least_items[lane][lane],
                                  .begin_ns = pipeline->begin_ns,
                                  .samples = &pipeline->samples[lane][beside],
                                  .baseline_name = alone ? "the same work called directly" : "the lane alone",
                                  .baseline = alone ? &pipeline->direct[lane] : &pipeline->samples[lane][lane],
                                  .tabled = true};
    return bench_print(&pipeline->options, &record);
}

// Prints a row per lane: its rate alone, and the percentage that remains with each other lane and with all.
static void print_matrix(const struct pipeline *pipeline)
{
    char emulated[EMULATION_TEXT_BYTES];
    if (emulation_any(&pipeline->emulation))
        printf("EMULATED %s\n", emulation_text(&pipeline->emulation, emulated));
    printf("%-11s %17s %9s  %% of the rate alone that remains with\n%-11s %17s %9s", "lane", "alone", "% of", "", "",
           "direct");
    for (int beside = 0; beside < LANE_COUNT; beside++)
        printf(" %10s", ledger_lane_name((enum lane)beside));
    printf(" %10s\n", "all");
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        const struct bench_samples *alone = &pipeline->samples[lane][lane];
        printf("%-11s %9.2f %-7s %9.1f", ledger_lane_name((enum lane)lane), bench_median(alone),
               lane_load_unit((enum lane)lane), 100 * bench_median(alone) / bench_median(&pipeline->direct[lane]));
        for (int beside = 0; beside < BESIDE_COUNT; beside++) {
            double left = 100 * bench_median(&pipeline->samples[lane][beside]) / bench_median(alone);
            if (beside == lane)
                printf(" %10s", "-");
            else
                printf(" %10.1f", left);
        }
        printf("\n");
    }
}

static int measure(struct pipeline *pipeline)
{
    const struct bench_options *options = &pipeline->options;
    const struct lane_load_setting setting = {.storage = &options->storage, .emulation = &pipeline->emulation};
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        bench_progress("pipeline: preparing %s", ledger_lane_name((enum lane)lane));
        TRY(lane_load_open((enum lane)lane, &setting, &pipeline->loads[lane]));
    }
    pipeline->begin_ns = clock_now_ns();
    for (size_t round = 0; bench_repeats(options->warmup, options->repeat, round); round++)
        TRY(run_round(pipeline, round, round >= options->warmup));
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int beside = 0; beside < BESIDE_COUNT; beside++)
            TRY(print_case(pipeline, lane, beside));
    bench_progress("%s", "");
    if (!options->json)
        print_matrix(pipeline);
    return ERR_NONE;
}

// As a rank of training, the benchmark stays on one node, the one with most of its processors: otherwise a lane's
// thread and its memory are on the same node in one run and not in the next.
static int bind_to_a_node(struct pipeline *pipeline)
{
    struct memory_nodes *nodes = &pipeline->nodes;
    TRY(memory_nodes_open(nodes));
    for (int node = 1; node < nodes->count; node++)
        if (memory_nodes_threads(nodes, node) > memory_nodes_threads(nodes, pipeline->node))
            pipeline->node = node;
    return nodes->count > 1 ? memory_nodes_bind(nodes, pipeline->node, 1) : ERR_NONE;
}

static int pipeline_run(struct pipeline *pipeline)
{
    struct bench_options *options = &pipeline->options;
    if (options->size_count > 0 || options->thread_count > 0)
        return err_set(ERR_USAGE, "--sizes and --threads have no effect here: each lane has the work of training");
    if (!(pipeline->seconds >= 0 && pipeline->seconds <= 60))
        return err_set(ERR_USAGE, "--seconds %g: expected 0 to 60", pipeline->seconds);
    if (options->storage.engine)
        return err_set(ERR_USAGE, "--engine: this benchmark always uses libaio");
    if (pipeline->seconds == 0)
        pipeline->seconds = options->quick ? 0.05 : 0.3;
    bench_default_repeat(options, 7, 3, options->quick ? 0 : 1);
    TRY(bind_to_a_node(pipeline));
    int code = measure(pipeline);
    int back = memory_nodes_bind(&pipeline->nodes, -1, 1);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        lane_load_close(pipeline->loads[lane]);
    return code != ERR_NONE ? code : back;
}

static int pipeline_main(int argc, const char **argv)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline)
        return bench_exit("pipeline", err_set(ERR_MEMORY, "no memory for samples"));
    char *emulate = NULL;
    const struct poptOption own[] = {
        {"seconds", '\0', POPT_ARG_DOUBLE, &pipeline->seconds, 0,
         "length of each run in seconds (default: 0.3, with --quick 0.05)", "S"},
        {"emulate", '\0', POPT_ARG_STRING, &emulate, 0,
         "throttle lanes to rates in GB/s, compute in GFLOP/s, such as h2d=0.5,cpu=1,compute=2", "LANE=RATE,..."},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_pipeline, own, &pipeline->options);
    if (code == ERR_NONE && emulate)
        code = emulation_parse_all(emulate, &pipeline->emulation);
    if (code == ERR_NONE && !pipeline->options.help)
        code = pipeline_run(pipeline);
    bench_release(&pipeline->options, own);
    memory_nodes_close(&pipeline->nodes);
    free(pipeline);
    return bench_exit("pipeline", code);
}
