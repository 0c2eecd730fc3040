// SPDX-License-Identifier: Apache-2.0
// On a machine without a GPU each rank is a device: its rate is measured while all ranks compute, its memory is an
// equal part of the host's, and a transfer between device and host is a copy in memory.
#include "plan/planner/calibration.h"

#include "results/limits/accepted_range.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct calibration {
    json_t *const *records;
    size_t count;
    json_t *figures;
    int world;
};

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

// True for a bench record of this name whose case has this value at the key.
static bool is(const json_t *record, const char *name, const char *key, const char *value)
{
    return strcmp(word(record, "record"), "bench") == 0 && strcmp(word(record, "name"), name) == 0 &&
           strcmp(word(json_object_get(record, "case"), key), value) == 0;
}

static void add(struct calibration *c, const char *figure, double value, const char *kind, const char *words)
{
    if (value > 0)
        json_object_set_new(c->figures, figure, json_pack("{s:f, s:s}", "value", value, kind, words));
}

// Adds a figure whose source is the record at index `line`.
static void add_from(struct calibration *c, const char *figure, double value, size_t line)
{
    char label[BENCH_LABEL_BYTES], source[BENCH_LABEL_BYTES + 64];
    snprintf(source, sizeof source, "line %zu of result.jsonl: %s", line + 1, bench_label(c->records[line], label));
    add(c, figure, value, "source", source);
}

static void add_work(struct calibration *c)
{
    for (size_t i = 0; i < c->count && c->world == 0; i++) {
        const json_t *record = c->records[i];
        const json_t *efficiency = json_object_get(json_object_get(record, "detail"), "efficiency");
        double reached = number(efficiency, "peak_flops_per_s");
        if (!is(record, "step", "preset", "zero0") || reached <= 0)
            continue;
        c->world = (int)number(json_object_get(record, "case"), "world");
        add_from(c, "device_fp32_flops_per_s", reached, i);
        add_from(c, "device_bf16_flops_per_s", reached, i);
        add_from(c, "device_fp16_flops_per_s", reached, i);
        add(c, "device_flops_share", 1, "source", "the rate includes everything in a step, not only matrix products");
    }
}

// The host's record of this operation with the most threads and default pages; `count` if there is none.
static size_t memory_record(const struct calibration *c, const char *operation)
{
    size_t best = c->count;
    for (size_t i = 0; i < c->count; i++) {
        const json_t *of_case = json_object_get(c->records[i], "case");
        if (is(c->records[i], "memory", "operation", operation) && !json_object_get(of_case, "pages") &&
            !json_object_get(of_case, "device") && !json_is_true(json_object_get(of_case, "in_cache")) &&
            (best == c->count ||
             number(of_case, "threads") >= number(json_object_get(c->records[best], "case"), "threads")))
            best = i;
    }
    return best;
}

static void add_memory(struct calibration *c)
{
    size_t mix = memory_record(c, "adam_mix"), copy = memory_record(c, "copy");
    if (mix < c->count) {
        double rate = number(c->records[mix], "median") * 1e9;
        add_from(c, "node_cpu_bytes_per_s", rate, mix);
        add_from(c, "device_memory_bytes_per_s", rate / c->world, mix);
    }
    if (copy < c->count) {
        // The benchmark counts a copied byte twice, as read and as written.
        double rate = number(c->records[copy], "median") * 1e9 / 2;
        add_from(c, "h2d_bytes_per_s", rate, copy);
        add_from(c, "d2h_bytes_per_s", rate, copy);
        add_from(c, "node_host_link_bytes_per_s", rate, copy);
    }
}

// A step has as many reduce-scatters as all-gathers; the slower one sets the rate.
static void add_collectives(struct calibration *c)
{
    double slowest = 0, largest_bytes = 0, smallest_bytes = 0;
    size_t slowest_at = 0, smallest_at = 0;
    for (size_t i = 0; i < c->count; i++) {
        const json_t *of_case = json_object_get(c->records[i], "case");
        double world = number(of_case, "world"), bytes = number(of_case, "buffer_bytes");
        double ns = number(c->records[i], "median");
        if ((!is(c->records[i], "comm", "operation", "all-gather") &&
             !is(c->records[i], "comm", "operation", "reduce-scatter")) ||
            strcmp(word(of_case, "shares"), "equal") != 0 || json_is_true(json_object_get(of_case, "in_place")) ||
            world < 2 || bytes <= 0 || ns <= 0)
            continue;
        double rate = bytes * (world - 1) / world / ns * 1e9;
        if (bytes > largest_bytes || (bytes == largest_bytes && rate < slowest)) {
            largest_bytes = bytes;
            slowest = rate;
            slowest_at = i;
        }
        if (smallest_bytes == 0 || bytes < smallest_bytes) {
            smallest_bytes = bytes;
            smallest_at = i;
        }
    }
    if (slowest <= 0)
        return;
    add_from(c, "intra_node_bytes_per_s", slowest, slowest_at);
    add_from(c, "intra_node_latency_s",
             number(c->records[smallest_at], "median") * 1e-9 /
                 (number(json_object_get(c->records[smallest_at], "case"), "world") - 1),
             smallest_at);
}

static void add_storage(struct calibration *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const json_t *record = c->records[i];
        bool reads = is(record, "nvme", "direction", "read"), writes = is(record, "nvme", "direction", "write");
        bool is_rate = strcmp(word(record, "unit"), "GB/s") == 0;
        if ((reads || writes) && is_rate && number(json_object_get(record, "case"), "block_bytes") == 1 << 20)
            add_from(c, reads ? "node_nvme_read_bytes_per_s" : "node_nvme_write_bytes_per_s",
                     number(record, "median") * 1e9, i);
        if (reads && strcmp(word(record, "unit"), "us") == 0)
            add_from(c, "nvme_latency_s", number(record, "median") * 1e-6, i);
    }
}

static void add_capacity(struct calibration *c)
{
    static const char *const what = "available during the validation";
    for (size_t i = 0; i < c->count; i++) {
        const json_t *record = c->records[i];
        double world = number(record, "world");
        if (strcmp(word(record, "record"), "fit") != 0)
            continue;
        add(c, "device_memory_bytes", number(record, "device_available_bytes") * world / c->world, "source", what);
        add(c, "node_host_memory_bytes", number(record, "host_available_bytes") * world, "source", what);
        add(c, "node_nvme_bytes", number(record, "nvme_available_bytes") * world, "source", what);
        return;
    }
}

static const char *find_missing(const struct calibration *c)
{
    static const struct {
        const char *figure, *words;
    } needed[] = {{"device_fp32_flops_per_s", "a training step"},
                  {"node_cpu_bytes_per_s", "the memory bandwidth"},
                  {"node_host_link_bytes_per_s", "copies in memory"},
                  {"device_memory_bytes", "the memory of a device (give it with --device-memory SIZE)"},
                  {"node_host_memory_bytes", "the memory of the host"}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!json_object_get(c->figures, needed[i].figure))
            return needed[i].words;
    return NULL;
}

int calibration_make(json_t *const records[], size_t count, json_t **out, const char **missing)
{
    struct calibration c = {.records = records, .count = count, .figures = json_object()};
    if (!c.figures)
        return err_set(ERR_MEMORY, "no memory for a machine");
    add_work(&c);
    if (c.world > 0) {
        add_memory(&c);
        add_collectives(&c);
        add_storage(&c);
        add_capacity(&c);
        add(&c, "operation_latency_s", 1e-6, "assumption", "a call within a process");
        add(&c, "copy_latency_s", 1e-6, "assumption", "a call within a process");
    }
    *missing = find_missing(&c);
    if (*missing) {
        json_decref(c.figures);
        *out = NULL;
        return ERR_NONE;
    }
    *out = json_pack("{s:i, s:s, s:i, s:o}", "schema", 1, "about", "this machine, as validated", "devices_per_node",
                     c.world, "figures", c.figures);
    return *out ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a machine");
}
