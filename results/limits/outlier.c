// SPDX-License-Identifier: Apache-2.0
#include "results/limits/outlier.h"

#include "base/err.h"
#include "base/statistics.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double outlier_limit(const double *times, size_t count, double *centre)
{
    double deviation = 0;
    assert(count >= 2);
    if (count == 2) {
        *centre = fmin(times[0], times[1]);
    } else {
        *centre = statistics_median(times, count);
        deviation = MAD_TO_DEVIATION * statistics_mad(times, count);
    }
    return *centre + OUTLIER_DEVIATIONS * fmax(deviation, OUTLIER_FLOOR * *centre);
}

bool outlier_is(const double *times, size_t count, size_t index, double *centre)
{
    assert(index < count);
    return times[index] > outlier_limit(times, count, centre);
}

// A rank's result in a group: from `bench ranks`, from `bench links`, or for its host from another benchmark.
struct member {
    const struct result_line *line;
    const char *name, *lane, *host;
    json_int_t rank, processor;
    bool of_host, together;
    double time, fast, slow;  // quantiles of the samples as times: 50 %, 10 %, 90 %
    double waited_share;
    char *key;  // of the group, owned; null: no peers
};

// Records of `ranks` and `links` are compared by lane, others by case.
static bool has_lane(const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "name"));
    return name && (strcmp(name, "ranks") == 0 || strcmp(name, "links") == 0);
}

bool outlier_has_peers(const json_t *record)
{
    const json_t *of_case = json_object_get(record, "case");
    bool placed = json_is_integer(json_object_get(of_case, "rank")) && json_is_string(json_object_get(of_case, "host"));
    return placed && (!has_lane(record) || json_is_string(json_object_get(of_case, "lane")));
}

static double time_of(const json_t *record, const char *key, const char *rate_key)
{
    bool is_time = json_is_true(json_object_get(record, "lower_is_better"));
    return is_time ? json_number_value(json_object_get(record, key))
                   : 1 / json_number_value(json_object_get(record, rate_key));
}

// The group of a host's result: the benchmark and its case without rank and host.
static char *key_of_host(const json_t *record)
{
    json_t *others = json_copy(json_object_get(record, "case"));
    json_object_del(others, "rank");
    json_object_del(others, "host");
    char *key = NULL, *text = json_dumps(others, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(others);
    if (text && asprintf(&key, "%s %s", json_string_value(json_object_get(record, "name")), text) < 0)
        key = NULL;
    free(text);
    return key;
}

static int member_open(const struct result_line *line, struct member *out)
{
    const json_t *record = line->record, *of_case = json_object_get(record, "case");
    *out = (struct member){
        .line = line,
        .name = json_string_value(json_object_get(record, "name")),
        .lane = json_string_value(json_object_get(of_case, "lane")),
        .host = json_string_value(json_object_get(of_case, "host")),
        .rank = json_integer_value(json_object_get(of_case, "rank")),
        .processor = json_integer_value(json_object_get(of_case, "processor")),
        .of_host = !has_lane(record),
        .together = json_is_true(json_object_get(of_case, "together")),
        .time = time_of(record, "median", "median"),
        .fast = time_of(record, "p10", "p90"),
        .slow = time_of(record, "p90", "p10"),
        .waited_share = json_number_value(json_object_get(json_object_get(record, "detail"), "waited_share")),
    };
    if (!outlier_has_peers(record) || !(json_number_value(json_object_get(record, "median")) > 0))
        return ERR_NONE;
    if (out->of_host)
        out->key = key_of_host(record);
    else if (asprintf(&out->key, "%s %s %d", out->name, out->lane, out->together) < 0)
        out->key = NULL;
    return out->key ? ERR_NONE : err_set(ERR_MEMORY, "no memory to compare ranks");
}

static bool is_link(const struct member *member)
{
    return strcmp(member->name, "links") == 0;
}

static void begin_finding(const struct member *member, struct bench_finding *out)
{
    *out = (struct bench_finding){.kind = "outlier", .verdict = FINDING_VALID, .value = NAN};
    if (is_link(member))
        snprintf(out->id, sizeof out->id, "links-%.32s", member->lane);
    else
        snprintf(out->id, sizeof out->id, "ranks-%.32s-%s", member->lane, member->together ? "together" : "alone");
}

static void describe_link(const struct member *member, struct bench_finding *finding)
{
    snprintf(finding->text, sizeof finding->text,
             "%s: the link of host %.64s (rank %d) takes %.2f times as long as the links' median in the lane %s",
             finding->id, member->host, (int)member->rank, finding->value, member->lane);
}

static int judge_outlier(const struct member *member, size_t count, double centre, struct bench_findings *out)
{
    struct bench_finding finding;
    begin_finding(member, &finding);
    finding.verdict = FINDING_INVALID;
    finding.line = member->line->line;
    finding.value = member->time / centre;
    if (is_link(member)) {
        describe_link(member, &finding);
        return bench_findings_add(out, &finding);
    }
    const json_t *ratio = json_object_get(member->line->record, "ratio");
    int used = snprintf(finding.text, sizeof finding.text,
                        "%s: rank %d (host %.64s, processor %d) takes %.2f times as long as %s in the lane %s%s",
                        finding.id, (int)member->rank, member->host, (int)member->processor, finding.value,
                        count == 2 ? "the other rank" : "the ranks' median", member->lane,
                        member->together ? ", all together" : ", each alone");
    if (member->together && json_is_number(ratio))
        used += snprintf(finding.text + used, sizeof finding.text - (size_t)used,
                         "; it reaches %.0f %% of what it does alone", 100 * json_number_value(ratio));
    if (member->waited_share >= 0.05)
        snprintf(finding.text + used, sizeof finding.text - (size_t)used,
                 "; for %.0f %% of the time its thread waited for the processor", 100 * member->waited_share);
    return bench_findings_add(out, &finding);
}

static int judge_ranks(const struct member *members, size_t count, struct bench_findings *out)
{
    double times[count], centre;
    size_t slowest = 0, fastest = 0;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        times[i] = members[i].time;
        slowest = times[i] > times[slowest] ? i : slowest;
        fastest = times[i] < times[fastest] ? i : fastest;
    }
    for (size_t i = 0; i < count; i++) {
        // Two results of `links` are the two ends of one link: neither is slower.
        if (!outlier_is(times, count, i, &centre) || (is_link(&members[i]) && count == 2))
            continue;
        any = true;
        TRY(judge_outlier(&members[i], count, centre, out));
    }
    if (any)
        return ERR_NONE;
    struct bench_finding finding;
    begin_finding(&members[slowest], &finding);
    finding.line = members[slowest].line->line;
    finding.value = times[slowest] / times[fastest];
    snprintf(finding.text, sizeof finding.text, "%s: of %zu %s the slowest takes %.2f times as long as the fastest",
             finding.id, count, is_link(&members[slowest]) ? "links" : "ranks", finding.value);
    return bench_findings_add(out, &finding);
}

// The time that nine tenths of the median host's samples stay below; of two hosts, the faster one's.
static double slow_of_middle(const struct member *members, size_t count)
{
    double slow[STATISTICS_COUNT_MAX] = {0};
    for (size_t i = 0; i < count; i++)
        slow[i] = members[i].slow;
    return count == 2 ? fmin(slow[0], slow[1]) : statistics_median(slow, count);
}

static int judge_hosts(const struct member *members, size_t count, struct bench_findings *out)
{
    double times[count], centre, middle = slow_of_middle(members, count);
    for (size_t i = 0; i < count; i++)
        times[i] = members[i].time;
    for (size_t i = 0; i < count; i++) {
        const struct member *member = &members[i];
        if (!outlier_is(times, count, i, &centre) || member->fast <= middle)
            continue;
        struct bench_finding finding = {
            .kind = "outlier", .verdict = FINDING_INVALID, .line = member->line->line, .value = member->time / centre};
        snprintf(finding.id, sizeof finding.id, "hosts-%.32s", member->name);
        snprintf(finding.text, sizeof finding.text, "%s: rank %d (host %.64s) takes %.2f times as long as %s in %.280s",
                 finding.id, (int)member->rank, member->host, finding.value,
                 count == 2 ? "the other host" : "the hosts' median", member->key);
        TRY(bench_findings_add(out, &finding));
    }
    return ERR_NONE;
}

// Moves the members of first's group, from `first` on, into `group`; returns their number.
static size_t take_group(struct member *members, size_t first, size_t count, struct member *group)
{
    size_t found = 0;
    for (size_t i = first + 1; i < count; i++) {
        if (!members[i].key || members[i].of_host != members[first].of_host ||
            strcmp(members[i].key, members[first].key) != 0)
            continue;
        group[++found] = members[i];
        free(members[i].key);
        members[i].key = NULL;
    }
    group[0] = members[first];
    for (size_t i = 1; i <= found; i++)
        group[i].key = members[first].key;
    return found + 1;
}

int outliers_find(const struct result_line *lines, size_t count, struct bench_findings *out)
{
    struct member *members = calloc(2 * count + 1, sizeof *members), *group = members ? members + count : NULL;
    int rc = members ? ERR_NONE : err_set(ERR_MEMORY, "no memory to compare ranks");
    for (size_t i = 0; i < count && rc == ERR_NONE; i++)
        rc = member_open(&lines[i], &members[i]);
    for (size_t i = 0; i < count && rc == ERR_NONE; i++) {
        if (!members[i].key)
            continue;
        size_t size = take_group(members, i, count, group);
        if (size >= 2 && size <= STATISTICS_COUNT_MAX)
            rc = members[i].of_host ? judge_hosts(group, size, out) : judge_ranks(group, size, out);
    }
    for (size_t i = 0; i < count && members; i++)
        free(members[i].key);
    free(members);
    return rc;
}
