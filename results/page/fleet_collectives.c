// SPDX-License-Identifier: Apache-2.0
// What a test of nccl-tests writes by `-J FILE` about the hosts of its devices: wrong elements, which are held against
// all of them, and the bandwidth of the bus at its largest size, where latency counts least. The environment, which it
// writes too, is shown nowhere.
#include "results/page/fleet_part.h"

#include "base/err.h"
#include "results/page/result_view.h"

#include <stdio.h>
#include <string.h>

// Longer texts of a case are left out. Of one size there are some 12 types, 5 operators and 2 places.
enum { NAME_BYTES = 96, CASE_TEXT_MAX = 63, FIGURES_MAX = 256 };

struct nccl {
    struct fleet_source *source;
    const json_t *config, *devices;
    char name[NAME_BYTES];  // "nccl-tests all_reduce_perf on 2 hosts"
    json_int_t size_bytes;  // the largest
};

bool fleet_is_nccl(const json_t *value)
{
    return json_is_integer(json_object_get(value, "nccl_version")) &&
           json_array_size(json_object_get(json_object_get(value, "config"), "devices")) > 0;
}

// A name that is no word, as of a copy of the program, is left out.
static void set_name(struct nccl *nccl, const json_t *value)
{
    const json_t *first = json_array_get(json_object_get(value, "args"), 0);
    const char *path = json_is_string(first) ? json_string_value(first) : "", *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    bool is_word = *name && name[strspn(name, "abcdefghijklmnopqrstuvwxyz_")] == '\0';
    snprintf(nccl->name, sizeof nccl->name, "nccl-tests%s%.40s on %zu host%s", is_word ? " " : "", is_word ? name : "",
             nccl->source->part_count, nccl->source->part_count == 1 ? "" : "s");
}

static int say_to_all(const struct nccl *nccl, enum fleet_what what, const char *text)
{
    for (size_t i = 0; i < nccl->source->part_count; i++)
        TRY(fleet_say(nccl->source->parts[i].run, what, text));
    return ERR_NONE;
}

// A later test, perhaps with other hosts, is no proof that these are sound.
static int say_wrong(const struct nccl *nccl, const char *text)
{
    for (size_t i = 0; i < nccl->source->part_count; i++)
        nccl->source->parts[i].run->lasts = true;
    return say_to_all(nccl, FLEET_ARITHMETIC, text);
}

static const char *case_text(const json_t *object, const char *key)
{
    const char *text = view_text(object, key);
    return strlen(text) <= CASE_TEXT_MAX ? text : "";
}

static int take_figure(const struct nccl *nccl, const json_t *row, bool in_place, double bandwidth)
{
    int rc = ERR_NONE;
    json_t *record =
        json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:{s:I, s:s, s:s, s:b, s:I, s:I, s:I, s:s}}", "name", nccl->name,
                  "unit", "GB/s", "lower_is_better", 0, "median", bandwidth, "p10", bandwidth, "p90", bandwidth, "case",
                  "size_bytes", nccl->size_bytes, "type", case_text(row, "type"), "redop", case_text(row, "redop"),
                  "in_place", in_place, "processes", (json_int_t)json_array_size(nccl->devices), "threads",
                  json_integer_value(json_object_get(nccl->config, "nthreads")), "gpus",
                  json_integer_value(json_object_get(nccl->config, "ngpus")), "gpu",
                  case_text(json_array_get(nccl->devices, 0), "device_info"));
    if (!record)
        return err_set(ERR_MEMORY, "no memory for a fleet");
    for (size_t i = 0; rc == ERR_NONE && i < nccl->source->part_count; i++)
        if (nccl->source->parts[i].run->figure_count < FIGURES_MAX)
            rc = fleet_take_bench(nccl->source->fleet, record, nccl->source->parts[i].run);
    json_decref(record);
    return rc;
}

static int take_row(const struct nccl *nccl, const json_t *row)
{
    static const char *const places[] = {"out_of_place", "in_place"};
    json_int_t size_bytes = json_integer_value(json_object_get(row, "size"));
    for (int in_place = 0; in_place < 2; in_place++) {
        const json_t *of_place = json_object_get(row, places[in_place]);
        double wrong = view_number(of_place, "nwrong"), bandwidth = view_number(of_place, "bus_bw");
        char text[FLEET_TEXT_BYTES], size[NUMBER_TEXT_BYTES];
        snprintf(text, sizeof text, "%s: %.0f wrong elements of %s (%s %s, %s)", nccl->name, wrong,
                 bytes_text((double)size_bytes, size), case_text(row, "type"), case_text(row, "redop"),
                 places[in_place]);
        if (wrong > 0)
            TRY(say_wrong(nccl, text));
        if (size_bytes == nccl->size_bytes && bandwidth > 1e-6 && bandwidth < 1e9)
            TRY(take_figure(nccl, row, in_place, bandwidth));
    }
    return ERR_NONE;
}

// A test that failed leaves out its end, or its results. Booleans are texts.
static int take_summary(const struct nccl *nccl, const json_t *value)
{
    const json_t *bounds = json_object_get(value, "out_of_bounds");
    const json_t *average = json_object_get(value, "average_bus_bandwidth");
    const char *error = json_string_value(json_array_get(json_object_get(value, "errors"), 0));
    char text[FLEET_TEXT_BYTES];
    snprintf(text, sizeof text, "%s: %.0f wrong elements", nccl->name, view_number(bounds, "count"));
    if (view_number(bounds, "count") > 0)
        TRY(say_wrong(nccl, text));
    snprintf(text, sizeof text, "%s: an average of %.4g GB/s is less than NCCL_TESTS_MIN_BW asks", nccl->name,
             view_number(average, "bandwidth"));
    if (strcmp(view_text(average, "okay"), "false") == 0)
        TRY(say_to_all(nccl, FLEET_INVALID, text));
    snprintf(text, sizeof text, "%s: did not finish%s%.1000s", nccl->name, error && *error ? ": " : "",
             error ? error : "");
    bool finished = json_array_size(json_object_get(value, "results")) > 0 && *view_text(value, "end_time");
    return finished ? ERR_NONE : say_to_all(nccl, FLEET_INCOMPLETE, text);
}

int fleet_take_nccl(struct fleet_source *source, const json_t *value)
{
    const json_t *config = json_object_get(value, "config"), *results = json_object_get(value, "results"), *one;
    struct nccl nccl = {.source = source, .config = config, .devices = json_object_get(config, "devices")};
    size_t i;
    json_array_foreach (nccl.devices, i, one)
        fleet_name_part(source, *view_text(one, "hostname") ? view_text(one, "hostname") : source->host);
    if (source->part_count == FLEET_PART_MAX)
        return fleet_say_of_file(source, FLEET_UNVERIFIED, "names more hosts than are read of one file");
    set_name(&nccl, value);
    TRY(fleet_add_runs(source, nccl.name));
    json_array_foreach (results, i, one)
        if (json_integer_value(json_object_get(one, "size")) > nccl.size_bytes)
            nccl.size_bytes = json_integer_value(json_object_get(one, "size"));
    for (i = 0; i < source->part_count; i++)
        snprintf(source->parts[i].run->started, sizeof source->parts[i].run->started, "%.23s",
                 view_text(value, "start_time"));
    json_array_foreach (results, i, one)
        TRY(take_row(&nccl, one));
    for (i = 0; i < source->part_count; i++)
        fleet_sort_figures(source->parts[i].run);
    return take_summary(&nccl, value);
}
