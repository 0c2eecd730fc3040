// SPDX-License-Identifier: Apache-2.0
// What a verified result file says about its hosts.
#include "results/page/fleet_part.h"

#include "base/array.h"
#include "base/err.h"
#include "results/page/result_view.h"

#include <stdlib.h>
#include <string.h>

// The host that a line is about; "": of none alone.
static const char *host_on(const json_t *record)
{
    const char *of_case = view_text(json_object_get(record, "case"), "host");
    return *of_case ? of_case : view_text(record, "host");
}

// Under a launcher hosts have names in their cases, and run.other_hosts lists those without rank 0, if it lists any.
static bool is_of_launcher(const json_t *record)
{
    return json_integer_value(json_object_get(json_object_get(record, "case"), "hosts")) > 1;
}

// Rank 0's host is the first. A run of one host has a part of the source's name.
static void name_parts(struct fleet_source *source, const struct result_file *file)
{
    const json_t *others = json_object_get(file->run, "other_hosts"), *other;
    size_t i;
    for (i = 0; i < file->line_count; i++) {
        const json_t *record = file->lines[i], *of_case = json_object_get(record, "case");
        const json_t *rank = json_object_get(of_case ? of_case : record, "rank");
        bool first = json_is_integer(rank) && json_integer_value(rank) == 0;
        if (*host_on(record) && ((first && json_array_size(others) > 0) || is_of_launcher(record)))
            fleet_name_part(source, host_on(record));
    }
    if (source->part_count == 0)
        fleet_name_part(source, source->host);
    json_array_foreach (others, i, other)
        fleet_name_part(source, view_text(other, "host"));
}

// The machine of a run's part; null: the record does not have it.
static const json_t *machine_of(const struct result_file *file, const struct fleet_part *part, bool first)
{
    const json_t *others = json_object_get(file->run, "other_hosts"), *other;
    size_t i;
    json_array_foreach (others, i, other)
        if (strcmp(view_text(other, "host"), part->host) == 0)
            return json_object_get(other, "machine");
    return first ? json_object_get(file->run, "machine") : NULL;
}

static void put_models(FILE *out, const json_t *list)
{
    const json_t *one;
    size_t i;
    json_array_foreach (list, i, one)
        if (*view_text(one, "model"))
            fprintf(out, ", %s", view_text(one, "model"));
}

// Memory is rounded, since a kernel keeps some of it for itself.
static int take_machine(struct fleet *fleet, const json_t *machine, struct fleet_run *run)
{
    char hardware[FLEET_TEXT_BYTES], firmware[FLEET_TEXT_BYTES];
    const json_t *gpus = json_object_get(machine, "gpus"), *gpu;
    size_t i;
    FILE *out = fmemopen(hardware, sizeof hardware, "w");
    FILE *soft = fmemopen(firmware, sizeof firmware, "w");
    if (out && soft) {
        fprintf(out, "%s, %.0f sockets, %.0f cores, %.0f threads, %.0f GiB", view_text(machine, "processor"),
                view_number(machine, "sockets"), view_number(machine, "cores"), view_number(machine, "threads"),
                view_number(machine, "memory_bytes") * 0x1p-30);
        put_models(out, gpus);
        put_models(out, json_object_get(machine, "disks"));
        fprintf(soft, "kernel %s", view_text(machine, "kernel"));
        json_array_foreach (gpus, i, gpu)
            fprintf(soft, ", GPU %zu: driver %s, VBIOS %s", i, view_text(gpu, "driver"), view_text(gpu, "vbios"));
    }
    if (out)
        fclose(out);
    if (soft)
        fclose(soft);
    if (!out || !soft)
        return err_set(ERR_MEMORY, "no memory for a fleet");
    TRY(fleet_number(fleet, hardware, &run->hardware));
    return fleet_number(fleet, firmware, &run->firmware);
}

// The case without its place: the same on all hosts.
static char *key_of(const json_t *record)
{
    json_t *of_case = json_copy(json_object_get(record, "case"));
    json_object_del(of_case, "host");
    json_object_del(of_case, "rank");
    json_object_del(of_case, "processor");
    json_t *placeless = json_pack("{s:O, s:O, s:o}", "name", json_object_get(record, "name"), "unit",
                                  json_object_get(record, "unit"), "case", of_case);
    char *key = placeless ? case_key(placeless) : NULL;
    json_decref(placeless);
    return key;
}

int fleet_take_bench(struct fleet *fleet, const json_t *record, struct fleet_run *run)
{
    bool is_time = json_is_true(json_object_get(record, "lower_is_better"));
    double median = view_number(record, "median"), p10 = view_number(record, "p10"), p90 = view_number(record, "p90");
    struct fleet_figure figure = {.time = (float)(is_time ? median : 1 / median),
                                  .fast = (float)(is_time ? p10 : 1 / p90),
                                  .slow = (float)(is_time ? p90 : 1 / p10)};
    char *key = key_of(record);
    int rc = key ? fleet_number(fleet, key, &figure.key) : err_set(ERR_MEMORY, "no memory for a fleet");
    free(key);
    TRY(rc);
    TRY(array_grow(&run->figures, &run->figure_room, run->figure_count, sizeof figure, "figures"));
    run->figures[run->figure_count++] = figure;
    return ERR_NONE;
}

// Of one case that several ranks measured, the slowest is the first.
static int compare_figures(const void *left, const void *right)
{
    const struct fleet_figure *a = left, *b = right;
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key) : (a->time < b->time) - (a->time > b->time);
}

void fleet_sort_figures(struct fleet_run *run)
{
    size_t kept = 0;
    if (run->figure_count == 0)
        return;
    qsort(run->figures, run->figure_count, sizeof *run->figures, compare_figures);
    for (size_t i = 1; i < run->figure_count; i++)
        if (run->figures[i].key != run->figures[kept].key)
            run->figures[++kept] = run->figures[i];
    run->figure_count = kept + 1;
    struct fleet_figure *fitted = realloc(run->figures, run->figure_count * sizeof *fitted);
    run->figures = fitted ? fitted : run->figures;
    run->figure_room = run->figure_count;
}

static int take_finding(struct fleet_source *source, const struct result_file *file, const json_t *finding)
{
    const char *kind = view_text(finding, "kind"), *verdict = view_text(finding, "verdict");
    json_int_t line = json_integer_value(json_object_get(finding, "line"));
    struct fleet_part *part = line > 0 ? fleet_part_of(source, host_on(file->lines[line - 1])) : NULL;
    enum fleet_what what = strcmp(verdict, "INCOMPLETE") == 0 ? FLEET_INCOMPLETE
                           : strcmp(kind, "arithmetic") == 0  ? FLEET_ARITHMETIC
                                                              : FLEET_INVALID;
    if (strcmp(verdict, "VALID") == 0)
        return ERR_NONE;
    for (size_t i = 0; i < source->part_count; i++)
        if (!part || part == &source->parts[i])
            TRY(fleet_say(source->parts[i].run, what, view_text(finding, "text")));
    return ERR_NONE;
}

static int take_line(struct fleet_source *source, const struct result_file *file, const json_t *record)
{
    struct fleet_part *part = source->part_count == 1 ? &source->parts[0] : fleet_part_of(source, host_on(record));
    if (view_is(record, "finding"))
        return take_finding(source, file, record);
    return view_is(record, "bench") && part ? fleet_take_bench(source->fleet, record, part->run) : ERR_NONE;
}

int fleet_take_result(struct fleet_source *source, const struct result_file *file)
{
    const char *name = view_text(file->run, "program"), *level = view_text(file->run, "level");
    const char *of_bench = json_string_value(json_array_get(json_object_get(file->run, "command"), 2));
    char program[256];
    snprintf(program, sizeof program, "%s %.100s", name, *level || !of_bench ? level : of_bench);
    name_parts(source, file);
    TRY(fleet_add_runs(source, program));
    for (size_t i = 0; i < source->part_count; i++) {
        struct fleet_run *run = source->parts[i].run;
        const json_t *machine = machine_of(file, &source->parts[i], i == 0);
        snprintf(run->started, sizeof run->started, "%s", view_text(file->run, "started"));
        if (machine)
            TRY(take_machine(source->fleet, machine, run));
    }
    for (size_t i = 0; i < file->line_count; i++)
        TRY(take_line(source, file, file->lines[i]));
    for (size_t i = 0; i < source->part_count; i++) {
        fleet_sort_figures(source->parts[i].run);
        if (strcmp(view_text(file->end, "status"), "complete") != 0)
            TRY(fleet_say(source->parts[i].run, FLEET_INCOMPLETE, "the run was interrupted"));
    }
    return ERR_NONE;
}
