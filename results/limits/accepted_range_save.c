// SPDX-License-Identifier: Apache-2.0
// New accepted ranges from runs that are known to be good. Results of one case, of all runs, hosts and ranks, make one
// range around the median of their medians.
#include "results/limits/accepted_range.h"

#include "base/array.h"
#include "base/err.h"
#include "base/json.h"
#include "base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// With as many runs, their own spread is known; with fewer, the spread within a run replaces it.
enum { RUNS_ENOUGH = 5 };
static const double TOLERANCE_LEAST = 0.1, TOLERANCE_LEAST_OF_RUNS = 0.05, TOLERANCE_MOST = 0.5;

struct group {
    char *key;
    const json_t *record;  // the first one
    json_t *of_case;
    double medians[STATISTICS_COUNT_MAX], spreads[STATISTICS_COUNT_MAX];  // spreads: of the quantiles / the median
    size_t count, run_count, last_run;                                    // last_run: its number, from 1
};

struct groups {
    struct group *list;
    size_t count, room;
};

// An "EMULATED" rate is a computed text, not a setting.
static bool names_a_case(const json_t *value)
{
    const char *word = json_string_value(value);
    return word ? strncmp(word, "EMULATED", 8) != 0 : json_is_integer(value) || json_is_boolean(value);
}

// A range holds for every rank and host.
static bool is_place(const char *key)
{
    return strcmp(key, "host") == 0 || strcmp(key, "rank") == 0 || strcmp(key, "processor") == 0;
}

static json_t *saved_case(const json_t *record)
{
    const char *key;
    json_t *value, *of_case = json_object(), *all = json_object_get(record, "case");
    json_object_foreach (all, key, value) {
        if (names_a_case(value) && !is_place(key) && json_object_size(of_case) < ACCEPTED_RANGE_CASE_KEY_MAX)
            json_object_set(of_case, key, value);
    }
    return of_case;
}

static double number(const json_t *record, const char *key)
{
    return json_number_value(json_object_get(record, key));
}

static int group_open(struct groups *groups, const json_t *record, json_t *of_case, char *key)
{
    TRY(array_grow(&groups->list, &groups->room, groups->count, sizeof *groups->list, "accepted ranges"));
    struct group *group = &groups->list[groups->count++];
    memset(group, 0, sizeof *group);
    group->key = key;
    group->record = record;
    group->of_case = of_case;
    return ERR_NONE;
}

// Finds the record's group, or begins one.
static int group_of(struct groups *groups, const json_t *record, struct group **out)
{
    json_t *of_case = saved_case(record);
    json_t *names = json_pack("[O, O, O]", json_object_get(record, "name"), json_object_get(record, "unit"), of_case);
    char *key = names ? json_dumps(names, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    json_decref(names);
    size_t i = 0;
    while (key && i < groups->count && strcmp(groups->list[i].key, key) != 0)
        i++;
    int rc = key ? ERR_NONE : err_set(ERR_MEMORY, "no memory for accepted ranges");
    bool is_new = rc == ERR_NONE && i == groups->count;
    if (is_new)
        rc = group_open(groups, record, of_case, key);
    if (!is_new || rc != ERR_NONE) {
        json_decref(of_case);
        free(key);
    }
    *out = rc == ERR_NONE ? &groups->list[i] : NULL;
    return rc;
}

static int add_run(struct groups *groups, const struct accepted_range_run *run, size_t number_of_run)
{
    for (size_t i = 0; i < run->count; i++) {
        struct group *group;
        TRY(group_of(groups, run->records[i], &group));
        if (group->count == STATISTICS_COUNT_MAX)
            continue;
        double median = number(run->records[i], "median");
        group->medians[group->count] = median;
        group->spreads[group->count++] = (number(run->records[i], "p90") - number(run->records[i], "p10")) / median;
        group->run_count += group->last_run != number_of_run;
        group->last_run = number_of_run;
    }
    return ERR_NONE;
}

// The tolerance as a share of the median: 3.5 robust standard deviations of the medians of runs; with few runs also
// three times the distance between the 10 % and 90 % quantiles within one.
static double tolerance_of(const struct group *group)
{
    bool enough = group->run_count >= RUNS_ENOUGH;
    double median = statistics_median(group->medians, group->count);
    double between = 3.5 * 1.4826 * statistics_mad(group->medians, group->count) / median;
    double within = enough ? 0 : 3 * statistics_median(group->spreads, group->count);
    double least = enough ? TOLERANCE_LEAST_OF_RUNS : TOLERANCE_LEAST;
    return fmin(fmax(fmax(between, within), least), TOLERANCE_MOST);
}

static void describe_source(const struct group *group, const char *source, size_t run_count, char *out, size_t bytes)
{
    const char *unit = json_string_value(json_object_get(group->record, "unit"));
    if (run_count == 1)
        snprintf(out, bytes, "%s", source);
    else
        snprintf(out, bytes, "%.300s: %zu of %zu runs, medians from %.4g to %.4g %s", source, group->run_count,
                 run_count, statistics_quantile(group->medians, group->count, 0),
                 statistics_quantile(group->medians, group->count, 1), unit);
}

static json_t *range_json(const struct group *group, const char *source, bool full_only, size_t index)
{
    char id[BENCH_FINDING_ID_BYTES];
    double median = statistics_median(group->medians, group->count), tolerance = tolerance_of(group);
    bool lower_is_better = json_is_true(json_object_get(group->record, "lower_is_better"));
    const char *name = json_string_value(json_object_get(group->record, "name"));
    snprintf(id, sizeof id, "%.40s-%zu", name, index + 1);
    json_t *range =
        json_pack("{s:s, s:s, s:O, s:s, s:O, s:f, s:s}", "id", id, "bench", name, "case", group->of_case, "metric",
                  "median", "unit", json_object_get(group->record, "unit"), lower_is_better ? "at_most" : "at_least",
                  lower_is_better ? median * (1 + tolerance) : median * (1 - tolerance), "source", source);
    if (range && full_only)
        json_object_set_new(range, "level", json_string("full"));
    return range;
}

// Cases that less than half of the runs have are left out: another machine will not have them either.
static json_t *ranges_json(const struct groups *groups, const char *source, const struct accepted_range_run runs[],
                           size_t run_count)
{
    bool full = strcmp(runs[0].level, "full") == 0;
    json_t *list = json_array();
    for (size_t i = 0; i < groups->count; i++) {
        char own[ACCEPTED_RANGE_SOURCE_BYTES];
        if (2 * groups->list[i].run_count < run_count)
            continue;
        describe_source(&groups->list[i], source, run_count, own, sizeof own);
        if (json_array_append_new(list, range_json(&groups->list[i], own, full, json_array_size(list))) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return json_pack("{s:i, s:s, s:o}", "schema", 1, "about", source, "bands", list);
}

static int write_new(const char *path, json_t *root)
{
    int rc = json_write(path, FILE_NEW, root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    return rc == ERR_NONE ? ERR_NONE : err_prefix(rc, "--save-ranges");
}

int accepted_ranges_save(const char *path, const char *source, const struct accepted_range_run runs[], size_t run_count)
{
    struct groups groups = {0};
    int rc = ERR_NONE;
    for (size_t i = 0; i < run_count && rc == ERR_NONE; i++) {
        rc = strcmp(runs[i].level, runs[0].level) == 0
                 ? add_run(&groups, &runs[i], i + 1)
                 : err_set(ERR_USAGE, "--save-ranges: runs of the levels %s and %s measure different cases",
                           runs[0].level, runs[i].level);
    }
    if (rc == ERR_NONE) {
        json_t *root = ranges_json(&groups, source, runs, run_count);
        rc = write_new(path, root);
        json_decref(root);
    }
    for (size_t i = 0; i < groups.count; i++) {
        json_decref(groups.list[i].of_case);
        free(groups.list[i].key);
    }
    free(groups.list);
    return rc;
}
