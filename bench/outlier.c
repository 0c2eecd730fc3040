// SPDX-License-Identifier: Apache-2.0
#include "outlier.h"

#include "err.h"
#include "statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MAD_TO_DEVIATION = 1.4826;

bool outlier_is(const double *times, size_t count, size_t index, double *centre)
{
    double deviation = 0;
    if (count == 2) {
        *centre = fmin(times[0], times[1]);
    } else {
        *centre = statistics_median(times, count);
        deviation = MAD_TO_DEVIATION * statistics_mad(times, count);
    }
    return times[index] > *centre + OUTLIER_DEVIATIONS * fmax(deviation, OUTLIER_FLOOR * *centre);
}

// A rank's result in a group: of `bench ranks`, or of `bench links`.
struct member {
    const struct validate_line *line;
    const char *name, *lane, *host;
    json_int_t rank, processor;
    bool together;
    double time, waited_share;
};

static bool member_of(const struct validate_line *line, struct member *out)
{
    const json_t *record = line->record, *of_case = json_object_get(record, "case");
    const json_t *detail = json_object_get(record, "detail");
    const char *name = json_string_value(json_object_get(record, "name"));
    bool known = name && (strcmp(name, "ranks") == 0 || strcmp(name, "links") == 0);
    double median = json_number_value(json_object_get(record, "median"));
    *out = (struct member){
        .line = line,
        .name = name,
        .lane = json_string_value(json_object_get(of_case, "lane")),
        .host = json_string_value(json_object_get(of_case, "host")),
        .rank = json_integer_value(json_object_get(of_case, "rank")),
        .processor = json_integer_value(json_object_get(of_case, "processor")),
        .together = json_is_true(json_object_get(of_case, "together")),
        .time = json_is_true(json_object_get(record, "lower_is_better")) ? median : 1 / median,
        .waited_share = json_number_value(json_object_get(detail, "waited_share")),
    };
    return known && out->lane && out->host && median > 0;
}

static bool same_group(const struct member *a, const struct member *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->lane, b->lane) == 0 && a->together == b->together;
}

static bool is_link(const struct member *member)
{
    return strcmp(member->name, "links") == 0;
}

static void begin_judgement(const struct member *member, struct judgement *out)
{
    *out = (struct judgement){.kind = "outlier", .verdict = JUDGED_VALID, .value = NAN};
    if (is_link(member))
        snprintf(out->id, sizeof out->id, "links-%.32s", member->lane);
    else
        snprintf(out->id, sizeof out->id, "ranks-%.32s-%s", member->lane, member->together ? "together" : "alone");
}

static void say_of_link(const struct member *member, struct judgement *judgement)
{
    snprintf(judgement->text, sizeof judgement->text,
             "%s: the link of host %.64s (rank %d) takes %.2f times as long as the links' median in the lane %s",
             judgement->id, member->host, (int)member->rank, judgement->value, member->lane);
}

static int judge_outlier(const struct member *member, size_t count, double centre, struct judgements *out)
{
    struct judgement judgement;
    begin_judgement(member, &judgement);
    judgement.verdict = JUDGED_INVALID;
    judgement.line = member->line->line;
    judgement.value = member->time / centre;
    if (is_link(member)) {
        say_of_link(member, &judgement);
        return judgements_add(out, &judgement);
    }
    const json_t *ratio = json_object_get(member->line->record, "ratio");
    int used = snprintf(judgement.text, sizeof judgement.text,
                        "%s: rank %d (host %.64s, processor %d) takes %.2f times as long as %s in the lane %s%s",
                        judgement.id, (int)member->rank, member->host, (int)member->processor, judgement.value,
                        count == 2 ? "the other rank" : "the ranks' median", member->lane,
                        member->together ? ", all at work" : ", each alone");
    if (member->together && json_is_number(ratio))
        used += snprintf(judgement.text + used, sizeof judgement.text - (size_t)used,
                         "; it reaches %.0f %% of what it does alone", 100 * json_number_value(ratio));
    if (member->waited_share >= 0.05)
        snprintf(judgement.text + used, sizeof judgement.text - (size_t)used,
                 "; for %.0f %% of the time its thread waited for the processor", 100 * member->waited_share);
    return judgements_add(out, &judgement);
}

static int judge_group(const struct member *members, size_t count, struct judgements *out)
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
        if (!outlier_is(times, count, i, &centre))
            continue;
        any = true;
        TRY(judge_outlier(&members[i], count, centre, out));
    }
    if (any)
        return ERR_NONE;
    struct judgement judgement;
    begin_judgement(&members[slowest], &judgement);
    judgement.line = members[slowest].line->line;
    judgement.value = times[slowest] / times[fastest];
    snprintf(judgement.text, sizeof judgement.text,
             "%s: of %zu %s the slowest takes %.2f times as long as the fastest", judgement.id, count,
             is_link(&members[slowest]) ? "links" : "ranks", judgement.value);
    return judgements_add(out, &judgement);
}

int outliers_find(const struct validate_line *lines, size_t count, struct judgements *out)
{
    struct member *group = calloc(count + 1, sizeof *group), first, other;
    bool *taken = calloc(count + 1, sizeof *taken);
    int rc = group && taken ? ERR_NONE : err_set(ERR_MEMORY, "no memory to compare ranks");
    for (size_t i = 0; i < count && rc == ERR_NONE; i++) {
        size_t members = 0;
        if (taken[i] || !member_of(&lines[i], &first))
            continue;
        for (size_t k = i; k < count; k++) {
            if (!member_of(&lines[k], &other) || !same_group(&first, &other))
                continue;
            taken[k] = true;
            group[members++] = other;
        }
        if (members >= 2 && members <= STATISTICS_COUNT_MAX)
            rc = judge_group(group, members, out);
    }
    free(group);
    free(taken);
    return rc;
}
