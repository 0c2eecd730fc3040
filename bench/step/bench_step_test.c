// SPDX-License-Identifier: Apache-2.0
// Tests of `bench step`: each preset has its records, their figures follow from one another, and the baselines have the
// model's own operations.
#include "bench/table/benchmarks.h"
#include "base/err.h"
#include "bench/harness/printed_test.h"
#include "results/record/record_check.h"
#include "bench/step/step_bench.h"
#include "bench/step/lane_kinds.h"
#include "ref/model/names/model_find.h"
#include "ref/tier/storage_test.h"
#include "bench/step/efficiency.h"
#include "bench/harness/json_test.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <string.h>

static const char text_path[] = ZG_SOURCE_DIR "/README.md";
static const char *const first_words[] = {"step",     "--nvme-path", storage_folder, "--model", "gpt-nano", "--quick",
                                          "--repeat", "2",           "--text",       text_path, NULL};

static int run(const char *words, char **text)
{
    return printed_run(bench_step.run, first_words, words, text);
}

static json_t *records_of(const char *text)
{
    json_t *records = json_array();
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        cr_assert_not_null(record, "%s", line);
        cr_expect_eq(record_check("test", record), ERR_NONE, "%s", err_message());
        json_array_append_new(records, record);
    }
    return records;
}

// Lanes as letters, in the order of their records.
static void lanes_text(const json_t *records, const char *preset, char out[8])
{
    size_t i, used = 0;
    const json_t *record;
    json_array_foreach (records, i, record) {
        const char *lane = case_text(record, "lane");
        if (*lane && strcmp(case_text(record, "preset"), preset) == 0 && used < 7)
            out[used++] = strncmp(lane, "nvme_", 5) == 0 ? lane[5] : *lane;
    }
    out[used] = '\0';
}

Test(bench_step, every_preset_has_a_step_its_flops_and_the_lanes_on_which_it_moves_bytes)
{
    static const struct {
        const char *preset, *tier, *lanes;  // collective, h2d, d2h, read, write
        int steps;
    } expected[] = {{"zero0", "device", "c", 2},          {"zero1", "device", "c", 1},
                    {"zero2", "device", "c", 1},          {"zero3", "device", "c", 1},
                    {"zero2_offload", "host", "chd", 1},  {"zero3_offload", "host", "chd", 1},
                    {"zero_infinity", "nvme", "chdrw", 1}};
    char *text, lanes[8];
    cr_assert_eq(run("--json", &text), 0);
    json_t *records = records_of(text), *record;
    for (size_t e = 0; e < sizeof expected / sizeof *expected; e++) {
        size_t i;
        int steps = 0, flops = 0;
        json_array_foreach (records, i, record) {
            const char *name = json_string_value(json_object_get(record, "name"));
            if (strcmp(case_text(record, "preset"), expected[e].preset) != 0)
                continue;
            cr_expect_str_eq(case_text(record, "tier"), expected[e].tier, "%s", expected[e].preset);
            cr_expect_eq(json_array_size(json_object_get(record, "samples")), 2);
            steps += strcmp(name, "step") == 0;
            flops += strcmp(name, "step_flops") == 0;
        }
        lanes_text(records, expected[e].preset, lanes);
        cr_expect_str_eq(lanes, expected[e].lanes, "%s", expected[e].preset);
        cr_expect_eq(steps, expected[e].steps, "%s", expected[e].preset);
        cr_expect_eq(flops, expected[e].steps, "%s", expected[e].preset);
    }
    json_decref(records);
    free(text);
}

Test(bench_step, one_process_alone_has_no_baseline_but_is_that_of_its_other_presets)
{
    char *text, lanes[8];
    double process_ms = 0;
    int steps = 0;
    cr_assert_eq(run("--json --world 1 --dtype fp32 --preset zero0,zero_infinity", &text), 0);
    json_t *records = records_of(text), *record;
    size_t i;
    json_array_foreach (records, i, record) {
        const json_t *of_case = json_object_get(record, "case");
        double median = number(record, "median"), tokens = number(of_case, "sequences_a_rank") * 16;
        cr_expect_eq(number(of_case, "world"), 1);
        cr_expect_str_eq(case_text(record, "dtype"), "fp32");
        if (strcmp(json_string_value(json_object_get(record, "name")), "step") != 0)
            continue;
        cr_expect_float_eq(number(json_object_get(record, "detail"), "tokens_per_s"), tokens / median * 1e3,
                           1e-4 * tokens / median * 1e3);
        cr_expect_eq(json_is_null(json_object_get(record, "ratio")), steps == 0);
        if (steps++ == 0)
            process_ms = median;
        else
            cr_expect_float_eq(number(record, "ratio"), process_ms / median, 1e-4);
    }
    cr_expect_eq(steps, 2, "%s", text);
    lanes_text(records, "zero0", lanes);
    cr_expect_str_empty(lanes);
    json_decref(records);
    free(text);
}

Test(bench_step, all_figures_follow_from_the_step)
{
    char *text;
    double seen = 0;
    cr_assert_eq(run("--json --preset zero_infinity --sizes 1,3", &text), 0);
    json_t *records = records_of(text);
    size_t i;
    const json_t *record, *model = NULL;
    json_array_foreach (records, i, record) {
        double sequences = number(json_object_get(record, "case"), "sequences_a_rank");
        if (strcmp(case_text(record, "preset"), "zero_infinity") != 0 ||
            strcmp(json_string_value(json_object_get(record, "name")), "step") != 0)
            continue;
        seen += sequences;
        const json_t *detail = json_object_get(record, "detail");
        model = json_object_get(detail, "efficiency");
        cr_expect_float_eq(number(detail, "tokens_per_s"), 2 * sequences * 16 / (number(record, "median") * 1e-3),
                           1e-3 * number(detail, "tokens_per_s"));
        double product = 1, measured = number(model, "flops_a_rank") / number(model, "peak_flops_per_s") /
                                       (number(record, "median") * 1e-3);
        cr_expect_float_eq(number(model, "measured"), measured, 1e-3 * measured);
        static const char *const states[] = {"params_and_gradients", "optimizer_states", "activations"};
        for (int s = 0; s < 3; s++)
            product += 1 / number(json_object_get(model, states[s]), "efficiency") - 1;
        cr_expect_float_eq(number(model, "predicted"), 1 / product, 1e-3);
        cr_expect_gt(json_array_size(json_object_get(record, "timeline")), 5);
    }
    cr_expect_eq(seen, 1 + 3, "both sizes");
    json_decref(records);
    free(text);
}

// A pipeline has two micro-batches for each of its stages, and a rank of it a part of the model.
Test(bench_step, a_mesh_is_named_and_its_ranks_share_the_work)
{
    static const struct {
        const char *mesh, *presets;
        double world, micro_batches, data_ranks, parts;
    } meshes[] = {{"replicate=2,shard=2", "zero3", 4, 1, 4, 1}, {"pipeline=2,shard=2", "zero1", 4, 4, 2, 2}};
    const struct model *model;
    cr_assert_eq(model_find("gpt-nano", &model), ERR_NONE);
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        char words[99];
        snprintf(words, sizeof words, "--json --mesh %s --preset %s", meshes[m].mesh, meshes[m].presets);
        double flops = model_flops(model, 2) * meshes[m].micro_batches / meshes[m].parts;
        int steps = 0;
        char *text;
        cr_assert_eq(run(words, &text), 0, "%s", meshes[m].mesh);
        json_t *records = records_of(text), *record;
        size_t i;
        json_array_foreach (records, i, record) {
            const json_t *detail = json_object_get(record, "detail");
            cr_expect_str_eq(case_text(record, "mesh"), meshes[m].mesh);
            cr_expect_eq(number(json_object_get(record, "case"), "world"), meshes[m].world);
            if (strcmp(json_string_value(json_object_get(record, "name")), "step") != 0)
                continue;
            double tokens = meshes[m].data_ranks * meshes[m].micro_batches * 2 * 16 / number(record, "median") * 1e3;
            cr_expect_float_eq(number(detail, "tokens_per_s"), tokens, 1e-3 * tokens, "%s", meshes[m].mesh);
            cr_expect_float_eq(number(json_object_get(detail, "efficiency"), "flops_a_rank"), flops, 1e-4 * flops, "%s",
                               meshes[m].mesh);
            steps++;
        }
        cr_expect_eq(steps, 2, "ranks that do not communicate, and the preset: %d", steps);
        json_decref(records);
        free(text);
    }
}

Test(bench_step, the_text_output_has_the_chosen_presets)
{
    char *text;
    cr_assert_eq(run("--preset zero3,zero1 --emulate collective=0.5", &text), 0);
    cr_expect(strstr(text, "what=ZeRO-1") && strstr(text, "what=ZeRO-3"), "%s", text);
    cr_expect_null(strstr(text, "ZeRO-2"), "%s", text);
    cr_expect(strstr(text, "lanes=EMULATED collective=0.5"), "%s", text);
    cr_expect(strstr(text, " tokens/s; ZeRO-Infinity's model predicts an efficiency of "), "%s", text);
    cr_expect(strstr(text, " of matrix products of its shapes ("), "%s", text);
    cr_expect(strstr(text, "\n         collective "), "%s", text);
    cr_expect_null(strstr(text, "\n         h2d "), "%s", text);
    free(text);
}

Test(bench_step, the_products_have_the_operations_of_the_model)
{
    const struct step_peak_setting peak_setting = {.sequences = 2, .threads = 2, .side = 7, .seconds = 0.001};
    static const char *const names[] = {"gpt-nano", "gpt-3m", "gpt:layers=3,width=48,heads=3,length=37,vocabulary=300",
                                        "gpt-nano:experts=4,top=2,capacity=1.25", "llama-tiny:kv_heads=1,length=37"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct model *model;
        struct step_peak *peak;
        double gflops;
        cr_assert_eq(model_find(names[i], &model), ERR_NONE, "%s", err_message());
        cr_assert_eq(step_peak_open(model, &peak_setting, &peak), ERR_NONE, "%s", err_message());
        cr_expect_float_eq(step_peak_model_flops(peak), 2 * model_flops(model, 2), 1, "%s", names[i]);
        cr_assert_eq(step_peak_of_model(peak, &gflops), ERR_NONE, "%s", err_message());
        cr_expect_gt(gflops, 0);
        cr_assert_eq(step_peak_of_square(peak, &gflops), ERR_NONE, "%s", err_message());
        cr_expect_gt(gflops, 0);
        step_peak_close(peak);
    }
    const struct model *model;
    struct step_peak *peak;
    cr_assert_eq(model_find("linear", &model), ERR_NONE, "%s", err_message());
    cr_expect_eq(step_peak_open(model, &peak_setting, &peak), ERR_USAGE, "linear is no GPT or Llama");
    step_peak_close(NULL);
    const struct step_peak_setting squares = {.threads = 2, .side = 300, .dtype = DTYPE_BF16, .seconds = 0.001};
    double gflops = 0;
    cr_assert_eq(step_peak_open(NULL, &squares, &peak), ERR_NONE, "%s", err_message());
    cr_assert_eq(step_peak_of_square(peak, &gflops), ERR_NONE, "%s", err_message());
    cr_expect_gt(gflops, 0);
    step_peak_close(peak);
}

Test(bench_step, where_a_steps_time_goes_is_a_mean_over_ranks_and_steps)
{
    enum { MS = 1000000 };
    // Two steps of 10 ms on two ranks; the second step's forward on rank 1 takes 6 ms, and its gather begins before it.
    struct executor_interval passes[] = {{"forward", 2 * MS, 6 * MS, 0, 0, 8e6},
                                         {"forward", 12 * MS, 16 * MS, 0, 0, 8e6}};
    struct executor_interval late[] = {{"forward", 2 * MS, 6 * MS, 0, 0, 8e6},
                                       {"forward", 14 * MS, 20 * MS, 0, 0, 8e6}};
    struct executor_interval gathers[] = {{"gather", 0, 2 * MS, 4000, 0, 0}, {"sum", 5 * MS, 8 * MS, 6000, 0, 0}},
                             early[] = {{"gather", 11 * MS, 15 * MS, 4000, 0, 0}};
    struct trace_step steps[] = {{1, 0, 10 * MS}, {2, 10 * MS, 20 * MS}};
    struct trace_rank ranks[] = {{.intervals = {[LANE_COMPUTE] = passes, [LANE_COLLECTIVE] = gathers},
                                  .interval_count = {[LANE_COMPUTE] = 2, [LANE_COLLECTIVE] = 2},
                                  .steps = steps,
                                  .step_count = 2},
                                 {.intervals = {[LANE_COMPUTE] = late, [LANE_COLLECTIVE] = early},
                                  .interval_count = {[LANE_COMPUTE] = 2, [LANE_COLLECTIVE] = 1},
                                  .steps = steps,
                                  .step_count = 2}};
    const struct trace trace = {2, ranks};
    static const struct {
        const char *key;
        double calls, ms, waiting_ms, rate;  // of four steps
    } expected[] = {{"compute: forward", 1, 4.5, 0, 32e6 / 18e6},
                    {"collective: gather", 0.5, 1.5, 1.25, 8000 / 6e6},
                    {"collective: sum", 0.25, 0.75, 0.5, 6000 / 3e6},
                    {"compute: nothing", 0, 5.5, 5.5, 0}};
    json_t *rows, *row;
    const char *key;
    size_t i = 0;
    cr_assert_eq(lane_kinds_where(&trace, 0, &rows), ERR_NONE);
    cr_assert_eq(json_object_size(rows), 4);
    json_object_foreach (rows, key, row) {
        cr_expect_str_eq(key, expected[i].key);
        cr_expect_float_eq(number(row, "calls"), expected[i].calls, 1e-9, "%s", key);
        cr_expect_float_eq(number(row, "ms"), expected[i].ms, 1e-9, "%s", key);
        cr_expect_float_eq(number(row, "waiting_ms"), expected[i].waiting_ms, 1e-9, "%s", key);
        cr_expect_float_eq(number(row, "rate"), expected[i].rate, 1e-9, "%s", key);
        i++;
    }
    json_decref(rows);
    cr_assert_eq(lane_kinds_where(&trace, 1, &rows), ERR_NONE);
    cr_expect_eq(json_object_size(rows), 3, "nothing was summed in the second step");
    json_decref(rows);
}

Test(bench_step, where_is_in_the_records_and_in_the_text_on_request)
{
    char *text;
    cr_assert_eq(run("--json --preset zero3 --where", &text), 0);
    json_t *records = records_of(text), *record;
    size_t i, tables = 0;
    json_array_foreach (records, i, record) {
        const json_t *where = json_object_get(json_object_get(record, "detail"), "where");
        if (!where)
            continue;
        tables++;
        cr_expect_gt(number(json_object_get(where, "compute: backward"), "ms"), 0);
        cr_expect_not_null(json_object_get(where, "compute: nothing"));
    }
    cr_expect_eq(tables, 2, "of the ranks alone and of ZeRO-3");
    json_decref(records);
    free(text);
    cr_assert_eq(run("--preset zero3 --where", &text), 0);
    cr_expect(strstr(text, "compute: backward ") && strstr(text, "compute: nothing "), "%s", text);
    free(text);
    cr_assert_eq(run("--preset zero3", &text), 0);
    cr_expect_null(strstr(text, ": nothing "), "%s", text);
    free(text);
}

Test(bench_step, links_without_bytes_are_not_measured)
{
    static const char *const folder[] = {storage_folder};
    const struct bench_storage storage = {.paths = folder, .path_count = 1};
    const double bytes[LANE_COUNT] = {[LANE_COLLECTIVE] = 1, [LANE_H2D] = 7919, [LANE_NVME_WRITE] = 5};
    struct step_links links;
    cr_assert_eq(step_links_open(bytes, 2, 0.002, &storage, NULL, &links), ERR_NONE, "%s", err_message());
    for (int round = 0; round < 3; round++)
        cr_assert_eq(step_links_measure(&links, round > 0), ERR_NONE, "%s", err_message());
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        cr_expect_eq(links.gb_per_s[lane].count, bytes[lane] > 0 ? 2 : 0, "%d", lane);
        cr_expect_eq(links.items[lane] > 0, bytes[lane] > 0, "%d", lane);
    }
    step_links_close(&links);
}

Test(bench_step, bad_input_is_refused)
{
    static const char *const bad[] = {"--threads 2",
                                      "--preset zero4",
                                      "--preset=",
                                      "--sizes 0",
                                      "--schedule chaos:1",
                                      "--emulate cpu=1",
                                      "--inject nvme:eio@1",
                                      "--world 3",
                                      "--mesh shard=1",
                                      "--mesh shards=2",
                                      NULL};
    printed_expect_refused(bench_step.run, first_words, bad);
}

static const double PEAK = 70e12;  // of a V100, in the paper

// A model of 1000 parameters, one sequence of 1024 tokens: 8 operations a token and parameter.
static struct efficiency_step paper_step(double sequences)
{
    return (struct efficiency_step){.flops = 8.0 * sequences * 1024 * 1000, .flops_per_s = PEAK};
}

// Section 4: "with a bandwidth of over 70 GB/s for parameters and gradients ... over 50 % efficiency even for the
// smallest batch size". 8 bytes a parameter: 2 x 4 passes.
Test(efficiency, params_and_gradients_at_70_gb_per_s_allow_half_of_the_peak)
{
    struct efficiency_step step = paper_step(1);
    struct efficiency out;
    step.bytes[LANE_COLLECTIVE] = 8000;
    step.bytes_per_s[LANE_COLLECTIVE] = 70e9;
    efficiency_predict(&step, &out);
    cr_expect_float_eq(out.states[PARAMS_AND_GRADIENTS].efficiency, 0.5059, 1e-4);
    cr_expect_float_eq(out.predicted, 0.5059, 1e-4);
    cr_expect_eq(out.states[OPTIMIZER_STATES].efficiency, 1);
    cr_expect_eq(out.states[ACTIVATIONS].bytes, 0);
}

// "optimizer states require nearly 4x higher bandwidth": 32 bytes a parameter; at 1.5 TB/s and two sequences 92 %.
Test(efficiency, optimizer_states_at_one_and_a_half_tb_per_s_allow_nine_tenths)
{
    struct efficiency_step step = paper_step(2);
    struct efficiency out;
    step.bytes[LANE_NVME_READ] = step.bytes[LANE_NVME_WRITE] = 16000;
    step.optimizer_bytes = 32000;
    step.bytes_per_s[LANE_NVME_READ] = step.bytes_per_s[LANE_NVME_WRITE] = 1.5e12;
    efficiency_predict(&step, &out);
    cr_expect_float_eq(out.states[OPTIMIZER_STATES].efficiency, 0.9165, 1e-4);
    cr_expect_eq(out.states[PARAMS_AND_GRADIENTS].bytes, 0);
    // A slower direction weighs as much as its bytes do.
    step.bytes_per_s[LANE_NVME_WRITE] = 0.5e12;
    efficiency_predict(&step, &out);
    cr_expect_float_eq(out.states[OPTIMIZER_STATES].bytes_per_s, 32000 / (16000 / 1.5e12 + 16000 / 0.5e12), 1e3);
}

Test(efficiency, the_slowest_link_on_its_way_counts_and_kinds_add_up)
{
    struct efficiency_step step = {
        .flops = 1000,
        .flops_per_s = 1000,
        .bytes =
            {[LANE_COLLECTIVE] = 10, [LANE_H2D] = 30, [LANE_D2H] = 20, [LANE_NVME_READ] = 50, [LANE_NVME_WRITE] = 50},
        .optimizer_bytes = 80,
        .activation_bytes = 10,
        .bytes_per_s =
            {[LANE_COLLECTIVE] = 100, [LANE_H2D] = 10, [LANE_D2H] = 20, [LANE_NVME_READ] = 40, [LANE_NVME_WRITE] = 80},
    };
    struct efficiency out;
    efficiency_predict(&step, &out);
    // Parameters and gradients: 0.1 s, 20 / 10 + 10 / 20 = 2.5 s, 10 / 40 + 10 / 80 s; a step computes for 1 s.
    cr_expect_float_eq(out.states[PARAMS_AND_GRADIENTS].bytes, 30, 1e-9);
    cr_expect_float_eq(out.states[PARAMS_AND_GRADIENTS].efficiency, 1 / 3.5, 1e-9);
    cr_expect_float_eq(out.states[OPTIMIZER_STATES].efficiency, 1 / (1 + 1 + 0.5), 1e-9);
    cr_expect_float_eq(out.states[ACTIVATIONS].efficiency, 1 / (1 + 1 + 0.5), 1e-9);
    cr_expect_float_eq(out.predicted, 1 / (1 + 2.5 + 1.5 + 1.5), 1e-9);
    cr_expect_float_eq(efficiency_measured(&step, 4000), 0.25, 1e-9);
    json_t *json = efficiency_json(&step, &out, 4000);
    cr_expect_float_eq(json_real_value(json_object_get(json, "difference")), 0.25 - 1 / 6.5, 1e-9);
    cr_expect_float_eq(json_real_value(json_object_get(json_object_get(json, "activations"), "flops_per_byte")), 50,
                       1e-9);
    json_decref(json);
}

Test(efficiency, a_step_that_moves_nothing_loses_nothing)
{
    const struct efficiency_step step = {.flops = 1, .flops_per_s = 2};
    struct efficiency out;
    efficiency_predict(&step, &out);
    cr_expect_eq(out.predicted, 1);
    json_t *json = efficiency_json(&step, &out, 1000);
    cr_expect_null(json_object_get(json, "activations"));
    json_decref(json);
}
