// SPDX-License-Identifier: Apache-2.0
// Test support: writes a result file with some of every record; all figures follow from generated samples.
#pragma once

#include "ref/arithmetic/random.h"
#include "results/record/record.h"
#include "results/record/record_test.h"
#include "base/statistics.h"

// Texts that appear in the file besides its figures.
struct rich_texts {
    const char *setting, *text;
};

enum { RICH_SAMPLE_COUNT = 11 };

// Around a centre, seven in ten within 2 %, to six digits as benchmarks write them.
static inline json_t *rich_samples(double centre, uint64_t seed, double values[RICH_SAMPLE_COUNT])
{
    json_t *list = json_array();
    for (size_t i = 0; i < RICH_SAMPLE_COUNT; i++) {
        double unit = (double)(random_at(seed, i) >> 11) * 0x1p-53;
        char text[32];
        snprintf(text, sizeof text, "%.6g", centre * (1 + (unit < 0.7 ? 0.04 : 0.2) * (unit - 0.35)));
        values[i] = strtod(text, NULL);
        json_array_append_new(list, json_real(values[i]));
    }
    return list;
}

// A record of samples around `centre` and a baseline around `limit` (0: none), each of one item.
static inline json_t *rich_bench(const char *name, json_t *settings, const char *unit, double centre, double limit,
                                 uint64_t seed)
{
    double values[RICH_SAMPLE_COUNT], limits[RICH_SAMPLE_COUNT];
    bool lower = strncmp(unit, "ns", 2) == 0 || strncmp(unit, "ms", 2) == 0 || strcmp(unit, "us") == 0;
    json_t *samples = rich_samples(centre, seed, values), *baseline = json_null(), *ratio = json_null();
    double median = statistics_median(values, RICH_SAMPLE_COUNT);
    if (limit > 0) {
        json_t *list = rich_samples(limit, seed + 1, limits);
        double of = statistics_median(limits, RICH_SAMPLE_COUNT);
        baseline = json_pack("{s:s, s:o, s:f, s:f, s:f, s:s, s:i}", "name", "a copy of the same bytes", "samples", list,
                             "median", of, "p10", statistics_quantile(limits, RICH_SAMPLE_COUNT, 0.1), "p90",
                             statistics_quantile(limits, RICH_SAMPLE_COUNT, 0.9), "unit", unit, "items", 1);
        ratio = json_real(lower ? of / median : median / of);
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:f, s:f, s:f, s:s, s:b, s:i, s:f, s:b, s:o, s:o}", "record", "bench",
                     "name", name, "case", settings, "samples", samples, "median", median, "p10",
                     statistics_quantile(values, RICH_SAMPLE_COUNT, 0.1), "p90",
                     statistics_quantile(values, RICH_SAMPLE_COUNT, 0.9), "unit", unit, "lower_is_better", lower,
                     "items", 1, "elapsed_s", 20.0, "verified", 1, "yardstick", baseline, "ratio", ratio);
}

struct rich {
    struct record_writer *writer;
    json_t *findings;
    const char *text;
};

static inline void rich_append(struct rich *rich, json_t *record)
{
    cr_assert_eq(record_append(rich->writer, record), ERR_NONE, "%s", err_message());
}

// Appends a record and the finding of its one accepted range, which requires a ratio of 0.8.
static inline void rich_judge(struct rich *rich, json_t *record)
{
    double ratio = json_number_value(json_object_get(record, "ratio"));
    bool kept = ratio >= 0.8;
    char text[512];
    snprintf(text, sizeof text, "%s reaches %.3g of its limit, 0.8 is asked%s", rich->text, ratio,
             kept ? "" : ": too slow");
    rich_append(rich, record);
    json_t *finding = json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:s}", "record", "finding", "kind", "band", "verdict",
                                kept ? "VALID" : "INVALID", "id", "asked", "line",
                                (json_int_t)record_line_count(rich->writer), "value", ratio, "text", text);
    json_array_append(rich->findings, finding);
    rich_append(rich, finding);
}

static inline json_t *rich_timeline(void)
{
    static const char *const lanes[] = {"nvme_read", "host_to_device", "compute", "nvme_write"};
    json_t *list = json_array();
    for (int layer = 0; layer < 8; layer++)
        for (int lane = 0; lane < 4; lane++)
            json_array_append_new(list,
                                  json_pack("{s:s, s:f, s:f}", "lane", lanes[lane], "begin_ms", 10.0 * layer + 6 * lane,
                                            "end_ms", 10.0 * layer + 6 * lane + (lane == 2 ? 9.5 : 5)));
    return list;
}

// Storage by block size and depth.
static inline void rich_storage(struct rich *rich, const char *setting)
{
    for (int block = 0; block < 4; block++)
        for (int depth = 1; depth <= 32; depth *= 4)
            rich_append(rich, rich_bench("nvme",
                                         json_pack("{s:s, s:s, s:i, s:i}", "direction", "read", "engine", setting,
                                                   "block_bytes", 4096 << (4 * block), "depth", depth),
                                         "GB/s", 3.0 / (1 + 8.0 / (depth * (1 << (2 * block)))), 3.1,
                                         (uint64_t)(100 * block + depth)));
}

static inline void rich_adam(struct rich *rich, const char *setting, double speed)
{
    static const char *const steps[] = {"update", "update and copy", "norm", "clip"};
    for (uint64_t step = 0; step < 4; step++)
        for (int threads = 1; threads <= 2; threads++)
            rich_judge(rich, rich_bench("adam",
                                        json_pack("{s:s, s:s, s:i, s:b}", "step", steps[step], "recipe", setting,
                                                  "threads", threads, "in_cache", step % 2),
                                        "ns_per_param", (step == 2 ? 0.8 : 0.5) / threads / speed,
                                        0.48 / threads / speed, 1000 + 10 * step + (uint64_t)threads));
}

static inline void rich_rest(struct rich *rich)
{
    rich_append(rich, json_loads(SAMPLE_FIT, 0, NULL));
    rich_append(rich, json_pack("{s:s, s:s, s:I, s:i, s:s, s:b, s:I, s:I, s:i, s:I, s:I, s:n, s:s}", "record", "fit",
                                "model", "llama-8b", "params", (json_int_t)8030261248, "world", 2, "preset", "ddp",
                                "fits", 0, "device_bytes", (json_int_t)128 << 30, "host_bytes", (json_int_t)0,
                                "nvme_bytes", 0, "device_available_bytes", (json_int_t)12 << 30, "host_available_bytes",
                                (json_int_t)12 << 30, "nvme_available_bytes", "reason", rich->text));
    rich_append(rich, json_pack("{s:s, s:s, s:[s, s, s], s:f, s:f, s:i, s:n, s:n, s:f}", "record", "part", "name",
                                "adam", "command", "zerogauge", "bench", "adam", "begin_s", 1.0, "end_s", 21.5,
                                "status", 0, "signal", "reason", "budget_s", 14.5));
}

// A complete file, INVALID by two of its figures. `speed`: how many times as fast the optimizer is as usual.
static inline void rich_write(const char *path, const struct rich_texts *texts, double speed)
{
    static const char *const argv[] = {"zerogauge", "validate", "--quick"}, *const folders[] = {"/", NULL};
    const char *setting = texts ? texts->setting : "torch";
    struct rich rich = {.findings = json_array(), .text = texts ? texts->text : "adam update"};
    cr_assert_eq(record_create(path, &rich.writer), ERR_NONE, "%s", err_message());
    rich_append(&rich, record_run("trial", "quick", 3, argv, folders));
    rich_append(&rich, json_loads(SAMPLE_CONFORMANCE, 0, NULL));
    rich_append(&rich, json_loads(SAMPLE_REQUIREMENT, 0, NULL));
    rich_append(&rich,
                json_pack("{s:s, s:s, s:s, s:{}, s:s, s:n, s:f, s:n, s:s}", "record", "band", "id", "asked", "bench",
                          "adam", "case", "metric", "ratio", "unit", "at_least", 0.8, "at_most", "source", rich.text));
    rich_adam(&rich, setting, speed);
    rich_storage(&rich, setting);
    json_t *overlap =
        rich_bench("overlap", json_pack("{s:s, s:i}", "model", setting, "world", 2), "ms_per_step", 90, 84, 7);
    json_object_set_new(overlap, "timeline", rich_timeline());
    rich_append(&rich, overlap);
    json_t *memory =
        rich_bench("memory", json_pack("{s:s, s:s}", "operation", setting, "device", "cuda"), "GB/s", 2900, 0, 11);
    json_object_set_new(memory, "detail",
                        json_pack("{s:f, s:f, s:f}", "GB_per_s", 2910.25, "device_copy_GB_per_s", 3000.0,
                                  "share_of_device_copy", 0.97));
    rich_append(&rich, memory);
    json_t *latency = rich_bench("latency", json_pack("{s:s}", "engine", setting), "us", 81, 0, 9);
    json_object_set_new(latency, "detail",
                        json_pack("{s:{s:f, s:f}, s:{s:{s:f}, s:{s:f}}}", "us_with", "0", 10.5, "4", 80.0,
                                  "GB_per_s_from", "0", "1", 21.5, "1", "0", 19.25));
    rich_append(&rich, latency);
    rich_rest(&rich);
    cr_assert_eq(record_end(rich.writer, conclusion_end(rich.findings, false, 160, 0.031)), ERR_NONE, "%s",
                 err_message());
    record_close(rich.writer);
    json_decref(rich.findings);
}
