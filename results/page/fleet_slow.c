// SPDX-License-Identifier: Apache-2.0
// Compares the figures of a fleet's hosts with those of their kind, by the limit of results/limits/outlier.h.
#include "results/page/fleet.h"

#include "base/err.h"
#include "base/statistics.h"
#include "results/limits/outlier.h"
#include "results/page/result_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The latest runs of one program on hosts of one kind.
struct group {
    struct fleet_host **hosts;  // [count]
    const struct fleet_run **runs;
    double *values, *scratch;
    size_t count;
};

struct centre {
    double time, deviation, slow;  // medians; deviation: robust, at least the floor
};

static int compare_key(const void *key, const void *figure)
{
    uint32_t a = *(const uint32_t *)key, b = ((const struct fleet_figure *)figure)->key;
    return (a > b) - (a < b);
}

static const struct fleet_figure *figure_of(const struct fleet_run *run, uint32_t key)
{
    return run->figure_count == 0 ? NULL
                                  : bsearch(&key, run->figures, run->figure_count, sizeof *run->figures, compare_key);
}

// "adam step=update, threads=2 (ns_per_param)", and the command that measures it.
static char *key_text(const struct fleet *fleet, uint32_t key, char command[FLEET_COMMAND_BYTES])
{
    json_t *parts = json_loads(fleet->names[key], 0, NULL), *of_case = json_array_get(parts, 2);
    const char *name = json_string_value(json_array_get(parts, 0)), *unit = json_string_value(json_array_get(parts, 1));
    char *settings = settings_text(of_case), *text = NULL;
    // A name from a file is no word of a command unless it is of letters; `step_flops` is measured by `bench step`.
    size_t letters = strspn(name ? name : "", "abcdefghijklmnopqrstuvwxyz");
    bool is_word = letters > 0 && (name[letters] == '\0' || name[letters] == '_');
    snprintf(command, FLEET_COMMAND_BYTES, "zerogauge bench %.*s%s --out again.jsonl", is_word ? (int)letters : 0,
             is_word ? name : "", strcmp(view_text(of_case, "device"), "cuda") == 0 ? " --device cuda" : "");
    if (name && strncmp(name, "nccl-tests", strlen("nccl-tests")) == 0)
        fleet_command_of(name, command);
    if (!settings || asprintf(&text, "%s %s (%s)", name, settings, unit) < 0)
        text = NULL;
    free(settings);
    json_decref(parts);
    return text;
}

// Sorts the values.
static double median_of(double *values, size_t count)
{
    statistics_sort(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

// As outlier_limit has it, for any number of hosts. values: [count] times, scratch: slow quantiles; both are spoiled.
static struct centre centre_of(double *values, double *scratch, size_t count)
{
    struct centre centre = {.slow = median_of(scratch, count)};
    double median = median_of(values, count), floor, spread = 0;
    centre.time = count == 2 ? values[0] : median;
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(values[i] - median);
    if (count > 2)
        spread = MAD_TO_DEVIATION * median_of(values, count);
    floor = OUTLIER_FLOOR * centre.time;
    centre.deviation = fmax(spread, floor);
    return centre;
}

static bool is_slow(const struct fleet_figure *figure, const struct centre *centre)
{
    return figure && figure->time > centre->time + OUTLIER_DEVIATIONS * centre->deviation &&
           figure->fast > centre->slow;
}

// Replaces what was said of another case that is not so far off.
static int judge_slow(const struct fleet *fleet, struct fleet_host *host, const struct fleet_run *run, uint32_t key,
                      const struct centre *centre, size_t peers)
{
    const struct fleet_figure *figure = figure_of(run, key);
    double deviations = (figure->time - centre->time) / centre->deviation;
    struct fleet_reason *said = &host->reasons[FLEET_SLOW];
    size_t times = 0, runs = 0;
    if (said->text && said->deviations >= deviations)
        return ERR_NONE;
    for (size_t i = 0; i < host->run_count; i++)
        if (host->runs[i].program == run->program && figure_of(&host->runs[i], key)) {
            runs++;
            times += is_slow(figure_of(&host->runs[i], key), centre);
        }
    char *text = key_text(fleet, key, host->command);
    free(said->text);
    said->text = NULL;
    int rc = fleet_blame(host, FLEET_SLOW, deviations, times, runs,
                         "%s: takes %.2f times as long as the median of %zu hosts", text ? text : "",
                         figure->time / centre->time, peers);
    free(text);
    return rc;
}

static int judge_key(const struct fleet *fleet, struct group *group, uint32_t key)
{
    size_t found = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct fleet_figure *figure = figure_of(group->runs[i], key);
        group->values[found] = figure ? figure->time : 0;
        group->scratch[found] = figure ? figure->slow : 0;
        found += figure != NULL;
    }
    if (found < 2)
        return ERR_NONE;
    struct centre centre = centre_of(group->values, group->scratch, found);
    for (size_t i = 0; i < group->count; i++) {
        if (is_slow(figure_of(group->runs[i], key), &centre))
            TRY(judge_slow(fleet, group->hosts[i], group->runs[i], key, &centre, found));
        if (figure_of(group->runs[i], key) || 2 * found <= group->count || group->hosts[i]->reasons[FLEET_MISSING].text)
            continue;
        char command[FLEET_COMMAND_BYTES], *text = key_text(fleet, key, command);
        if (!group->hosts[i]->reasons[FLEET_SLOW].text && !group->hosts[i]->reasons[FLEET_INCOMPLETE].text)
            strcpy(group->hosts[i]->command, command);
        int rc = fleet_blame(group->hosts[i], FLEET_MISSING, NAN, 0, 0,
                             "%s: not measured, as %zu hosts of its kind did", text ? text : "", found);
        free(text);
        TRY(rc);
    }
    return ERR_NONE;
}

// Takes the hosts of the first one's kind that have a run of the program and are not done.
static int judge_group(struct fleet *fleet, struct group *group, uint32_t program, size_t first, bool *done)
{
    const struct fleet_host *one = &fleet->hosts[first];
    group->count = 0;
    for (size_t h = first; h < fleet->host_count; h++) {
        struct fleet_host *host = &fleet->hosts[h];
        const struct fleet_run *run = fleet_latest(host, program);
        if (!run || done[h] || host->hardware != one->hardware || host->firmware != one->firmware)
            continue;
        done[h] = true;
        group->hosts[group->count] = host;
        group->runs[group->count++] = run;
    }
    for (uint32_t key = 1; key < fleet->text_count && group->count > 1; key++)
        TRY(judge_key(fleet, group, key));
    return ERR_NONE;
}

int fleet_judge_figures(struct fleet *fleet)
{
    size_t count = fleet->host_count;
    struct group group = {calloc(count, sizeof *group.hosts), calloc(count, sizeof *group.runs),
                          calloc(count, sizeof *group.values), calloc(count, sizeof *group.scratch), 0};
    bool *done = calloc(count, sizeof *done);
    int rc = group.hosts && group.runs && group.values && group.scratch && done
                 ? ERR_NONE
                 : err_set(ERR_MEMORY, "no memory to compare %zu hosts", count);
    for (uint32_t program = 1; rc == ERR_NONE && program < fleet->text_count; program++) {
        memset(done, 0, count * sizeof *done);
        for (size_t h = 0; rc == ERR_NONE && h < count; h++)
            if (!done[h] && fleet_latest(&fleet->hosts[h], program))
                rc = judge_group(fleet, &group, program, h, done);
    }
    free(group.hosts);
    free(group.runs);
    free(group.values);
    free(group.scratch);
    free(done);
    return rc;
}
