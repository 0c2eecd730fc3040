// SPDX-License-Identifier: Apache-2.0
// Judges the results of a run; adds a finding to the file for each result, range and outlier.
#include "validate/validate_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/slow.h"
#include "bench/harness/bench.h"
#include "results/limits/outlier.h"
#include "validate/health/health_round.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int validation_judge(struct validation *v, const struct bench_finding *finding)
{
    TRY(record_append(v->writer, bench_finding_json(finding)));
    return bench_findings_add(&v->result->findings, finding);
}

static int judge_arithmetic(struct validation *v)
{
    const struct result_line *conformance = &v->result->conformance;
    if (!conformance->record)
        return ERR_NONE;
    const char *verdict = json_string_value(json_object_get(conformance->record, "verdict"));
    bool conforms = strcmp(verdict, "CONFORMS") == 0, fails = strcmp(verdict, "FAILS") == 0;
    struct bench_finding finding = {
        .kind = "arithmetic",
        .verdict = conforms ? FINDING_VALID
                   : fails  ? FINDING_INVALID
                            : FINDING_INCOMPLETE,
        .id = "arithmetic",
        .line = conformance->line,
        .value = NAN,
    };
    snprintf(finding.text, sizeof finding.text, "arithmetic: the conformance suite reports %s%s", verdict,
             conforms ? "" : "; arithmetic.out names the requirements");
    return validation_judge(v, &finding);
}

static int judge_mismatches(struct validation *v, const struct health_round *round)
{
    struct bench_finding finding = {.kind = "arithmetic", .verdict = FINDING_INVALID, .id = "known", .value = NAN};
    for (size_t i = 0; i < round->mismatch_count; i++) {
        char text[HEALTH_TEXT_MAX + 128];
        health_mismatch_text(&round->mismatches[i], text, sizeof text);
        snprintf(finding.text, sizeof finding.text, "known: %s", text);
        TRY(validation_judge(v, &finding));
    }
    return ERR_NONE;
}

// This host's cores compute operations whose results are known of every machine (validate/health/operation.h), a GPT's
// training among them. A finding for each that is another one.
static int judge_known(struct validation *v)
{
    int cores[HEALTH_CORE_MAX];
    struct health_operation all[HEALTH_OPERATION_MAX], operations[HEALTH_OPERATION_MAX];
    struct health_round_setting setting = {cores, pin_cores(cores, HEALTH_CORE_MAX), operations, .round = 1,
                                           .seed = HEALTH_KNOWN_SEED};
    struct health_round round = {0};
    if (!v->result->conformance.record)
        return ERR_NONE;
    for (size_t i = 0, count = health_operations(false, all); i < count; i++)
        if (all[i].lane == HEALTH_COMPUTE)
            operations[setting.operation_count++] = all[i];
    bench_progress("operations whose results are known");
    int code = health_round(&setting, &round);
    if (code == ERR_NONE)
        code = judge_mismatches(v, &round);
    health_round_free(&round);
    return code;
}

// Returns whether the accepted range concerns this run: its level, and devices that this machine has.
static bool range_is_for(const struct validation *v, const struct accepted_range *range)
{
    const struct validate_plan *plan = v->setting->plan;
    if (range->full_only && strcmp(v->setting->level, "quick") == 0)
        return false;
    for (size_t i = 0; i < plan->count; i++)
        if (v->result->states[i] == PART_ABSENT && accepted_range_is_of_part(range, plan->parts[i].name))
            return false;
    return true;
}

static int judge_unmet(struct validation *v, const struct accepted_range *range)
{
    struct bench_finding finding = {.kind = "band", .verdict = FINDING_INCOMPLETE, .value = NAN};
    snprintf(finding.id, sizeof finding.id, "%s", range->id);
    snprintf(finding.text, sizeof finding.text, "%s: no result of %s matches this accepted range", range->id,
             range->bench);
    return validation_judge(v, &finding);
}

// A case that the machine's memory does not permit does not count against it.
static int judge_skip(struct validation *v, const struct accepted_range *range, const struct result_line *skip)
{
    struct bench_finding finding = {.kind = "band", .verdict = FINDING_VALID, .line = skip->line, .value = NAN};
    char label[BENCH_LABEL_BYTES], needs[SIZE_TEXT_BYTES], available[SIZE_TEXT_BYTES];
    snprintf(finding.id, sizeof finding.id, "%s", range->id);
    snprintf(
        finding.text, sizeof finding.text, "%s: not judged here: %s needs %s of memory, a benchmark may take %s",
        range->id, bench_label(skip->record, label),
        size_short_text((uint64_t)json_integer_value(json_object_get(skip->record, "needs_bytes")), needs),
        size_short_text((uint64_t)json_integer_value(json_object_get(skip->record, "available_bytes")), available));
    return validation_judge(v, &finding);
}

static int judge_range(struct validation *v, const struct accepted_range *range)
{
    bool applied = false;
    for (size_t i = 0; i < v->result->line_count; i++) {
        const struct result_line *line = &v->result->lines[i];
        struct bench_finding finding;
        if (!accepted_range_applies(range, line->record))
            continue;
        applied = true;
        accepted_range_judge(range, line->record, line->line, &finding);
        TRY(validation_judge(v, &finding));
    }
    for (size_t i = 0; i < v->result->skip_count; i++) {
        if (!accepted_range_applies(range, v->result->skips[i].record))
            continue;
        applied = true;
        TRY(judge_skip(v, range, &v->result->skips[i]));
    }
    return applied ? ERR_NONE : judge_unmet(v, range);
}

static int judge_ranges(struct validation *v)
{
    const struct accepted_ranges *ranges = v->setting->ranges;
    for (size_t i = 0; i < ranges->count; i++)
        if (range_is_for(v, &ranges->list[i]))
            TRY(record_append(v->writer, accepted_range_json(&ranges->list[i])));
    for (size_t i = 0; i < ranges->count; i++)
        if (range_is_for(v, &ranges->list[i]))
            TRY(judge_range(v, &ranges->list[i]));
    return ERR_NONE;
}

static int judge_outliers(struct validation *v)
{
    struct bench_findings outliers = {0};
    int rc = outliers_find(v->result->lines, v->result->line_count, &outliers);
    for (size_t i = 0; i < outliers.count && rc == ERR_NONE; i++)
        rc = validation_judge(v, &outliers.list[i]);
    bench_findings_free(&outliers);
    return rc;
}

// With emulated lanes the ratios are another machine's.
static int judge_emulation(struct validation *v)
{
    struct bench_finding finding = {.kind = "part", .verdict = FINDING_INCOMPLETE, .id = "emulate", .value = NAN};
    if (!v->setting->emulate)
        return ERR_NONE;
    snprintf(finding.text, sizeof finding.text,
             "emulate: lanes are EMULATED, %.200s: these are not this machine's rates", v->setting->emulate);
    return validation_judge(v, &finding);
}

// Nor are these the machine's own rates.
static int judge_slowness(struct validation *v)
{
    char reasons[SLOW_MAX][SLOW_BYTES];
    size_t count = slow_reasons(reasons);
    for (size_t i = 0; i < count; i++) {
        struct bench_finding finding = {.kind = "part", .verdict = FINDING_INCOMPLETE, .id = "slow", .value = NAN};
        snprintf(finding.text, sizeof finding.text, "slow: %.*s", SLOW_BYTES, reasons[i]);
        TRY(validation_judge(v, &finding));
    }
    return ERR_NONE;
}

// A count of errors that grew meanwhile is a fault of this host, whatever its results are.
static int judge_health(struct validation *v)
{
    char reason[128];
    struct health_counters after;
    health_counters_read(&after);
    TRY(record_append(v->writer, json_pack("{s:s, s:o}", "record", "health", "counters",
                                           health_counters_json(&v->health_before, &after))));
    size_t line = record_line_count(v->writer);
    for (int i = 0; i < COUNTER_COUNT; i++) {
        const enum health_counter counter = (enum health_counter)i;
        struct bench_finding finding = {.kind = "health", .verdict = FINDING_INVALID, .line = line, .value = NAN};
        if (!health_counter_worse(counter, &v->health_before, &after, reason, sizeof reason))
            continue;
        snprintf(finding.id, sizeof finding.id, "%s", health_counter_error_key(counter));
        snprintf(finding.text, sizeof finding.text, "health: %s", reason);
        TRY(validation_judge(v, &finding));
    }
    return ERR_NONE;
}

int validation_judge_all(struct validation *v)
{
    TRY(judge_health(v));
    TRY(judge_emulation(v));
    TRY(judge_slowness(v));
    TRY(judge_arithmetic(v));
    TRY(judge_known(v));
    TRY(judge_ranges(v));
    return judge_outliers(v);
}
