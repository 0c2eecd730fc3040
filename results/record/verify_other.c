// SPDX-License-Identifier: Apache-2.0
// Verifies the machine, parts, conformance and fits, and the findings that they require.
#include "results/record/verify_internal.h"

#include "base/gpu.h"
#include "cli/info/health_counters.h"
#include "results/limits/accepted_range.h"
#include "base/err.h"
#include "results/limits/outlier.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void verify_machine(struct verify *v)
{
    static const char stand_in[] = "CUDA stand-in";  // ci/standin/standin.h
    size_t i;
    json_t *gpu;
    json_array_foreach (json_object_get(json_object_get(v->file->run, "machine"), "gpus"), i, gpu)
        if (strncmp(verify_text(gpu, "model"), stand_in, strlen(stand_in)) == 0)
            verify_refuse(v, 1, "machine.gpus", "is \"%s\": a processor that plays a GPU in tests has no results",
                          verify_text(gpu, "model"));
    const char *verdict = v->file->end ? verify_text(v->file->end, "verdict") : NULL;
    json_array_foreach (json_object_get(json_object_get(v->file->run, "machine"), "gpus"), i, gpu) {
        struct gpu facts;
        char reason[GPU_REASON_BYTES];
        gpu_from_json(gpu, &facts);
        facts.values[GPU_SLOWED] = 0;  // before the run; during it a counter says so
        gpu_reason(&facts, reason);
        if (*reason && verdict && strcmp(verdict, "VALID") == 0)
            verify_refuse(v, 1, "machine.gpus", "says that %s, expected the verdict INCOMPLETE", reason);
    }
}

// Requires one finding of a kind about this line whose verdict is not `never`; null: any verdict.
static const json_t *expect_finding(struct verify *v, const char *kind, size_t line, const char *never, const char *why)
{
    const json_t *finding = verify_finding(v, kind, NULL, line);
    if (finding && never && strcmp(verify_text(finding, "verdict"), never) == 0)
        verify_refuse(v, line, "record", "is called %s by a finding, though %s", never, why);
    return finding;
}

// The text is the part's name, where it ran, and its reason, which may be cut off.
static void verify_part_text(struct verify *v, size_t line, const json_t *part, const json_t *finding)
{
    enum { LEAST = 300 };
    char text[BENCH_FINDING_TEXT_BYTES];
    const char *said = finding ? verify_text(finding, "text") : "", *host = verify_text(part, "host");
    const char *reason = verify_text(part, "reason");
    json_int_t rank = json_integer_value(json_object_get(part, "rank"));
    int used = snprintf(text, sizeof text, "%s: ", verify_text(part, "name"));
    if (rank > 0 && used < LEAST)
        used += snprintf(text + used, sizeof text - (size_t)used, "rank %lld on host %s: ", (long long)rank,
                         host ? host : "");
    if (used < LEAST)
        snprintf(text + used, sizeof text - (size_t)used, "%s", reason ? reason : "");
    if (strncmp(said, text, LEAST) != 0)
        verify_finding_text(v, line, finding, text);
}

// A part about a device that the machine lacks (RULES.md) may have a VALID finding.
static bool is_absent(const struct verify *v, const json_t *part)
{
    enum { UNTESTED_STATUS = 77 };
    const json_t *gpus = json_object_get(json_object_get(v->file->run, "machine"), "gpus");
    return part_is_of_device(verify_text(part, "name")) && json_array_size(gpus) == 0 &&
           json_integer_value(json_object_get(part, "status")) == UNTESTED_STATUS;
}

void verify_parts(struct verify *v)
{
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *part = verify_record(v, line);
        if (!verify_is(part, "part"))
            continue;
        const json_t *status = json_object_get(part, "status"), *signal = json_object_get(part, "signal");
        double begin_s = verify_number(part, "begin_s"), end_s = verify_number(part, "end_s");
        bool ended_well = json_integer_value(status) == 0 && json_is_integer(status);
        if (end_s < begin_s)
            verify_refuse(v, line, "end_s", "is %.9g, expected no less than begin_s, %.9g", end_s, begin_s);
        if (!verify_within(end_s, v->elapsed_s))
            verify_refuse(v, line, "end_s", "is %.9g, expected at most the %.9g s of the whole run", end_s,
                          v->elapsed_s);
        if (!json_is_null(status) && !json_is_null(signal))
            verify_refuse(v, line, "signal", "is a number, expected null with a status");
        if (!ended_well && json_is_null(json_object_get(part, "reason")))
            verify_refuse(v, line, "reason", "is null, expected why the part did not succeed");
        if (!ended_well && verify_judges(v))
            verify_part_text(
                v, line, part,
                expect_finding(v, "part", line, is_absent(v, part) ? NULL : "VALID", "the part did not succeed"));
    }
}

// A count of errors that grew has a finding, and makes the run INVALID.
void verify_health(struct verify *v)
{
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *record = verify_record(v, line), *counters = json_object_get(record, "counters");
        for (int i = 0; i < COUNTER_COUNT && verify_is(record, "health"); i++) {
            const char *key = health_counter_error_key((enum health_counter)i);
            const json_t *counter = key ? json_object_get(counters, key) : NULL;
            const json_t *before = json_object_get(counter, "before"), *after = json_object_get(counter, "after");
            struct health_counters first = {0}, last = {0};
            char reason[128], text[sizeof reason + 16];
            first.values[i] = json_number_value(before);
            last.values[i] = json_number_value(after);
            if (!json_is_number(before) ||
                !health_counter_worse((enum health_counter)i, &first, &last, reason, sizeof reason))
                continue;
            snprintf(text, sizeof text, "health: %s", reason);
            const json_t *finding = verify_finding(v, "health", key, line);
            if (finding && strcmp(verify_text(finding, "verdict"), "INVALID") != 0)
                verify_refuse(v, line, key, "grew, but a finding calls it %s", verify_text(finding, "verdict"));
            verify_finding_text(v, line, finding, text);
        }
    }
}

static json_int_t count_of(const json_t *counts, const char *verdict)
{
    return json_integer_value(json_object_get(counts, verdict));
}

static void verify_requirement(struct verify *v, size_t line, const json_t *requirement)
{
    static const char *const best_first[] = {"PASS", "EQUIVALENT", "BOUNDED", "FAIL", "BROKEN"};
    const json_t *counts = json_object_get(requirement, "finding_counts");
    const char *expected = "UNSUPPORTED", *said = verify_text(requirement, "verdict");
    for (size_t i = 0; i < sizeof best_first / sizeof best_first[0]; i++)
        if (count_of(counts, best_first[i]) > 0)
            expected = best_first[i];
    // PARTLY is a better verdict of which some cases were not claimed or declined.
    bool good = strcmp(expected, "FAIL") != 0 && strcmp(expected, "BROKEN") != 0;
    if (strcmp(said, "PARTLY") == 0 && good && count_of(counts, "UNSUPPORTED") > 0)
        return;
    if (strcmp(said, expected) != 0)
        verify_refuse(v, line, "verdict", "is %s, expected %s from the findings' counts", said, expected);
}

// The rule of the conformance suite: MUSTs decide; without any MUST, all requirements do.
static const char *conformance_expected(const struct verify *v)
{
    bool failed = false, finding_verdict = false, unsupported = false, must = false;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t line = 1; line <= v->file->line_count; line++) {
            const json_t *requirement = verify_record(v, line);
            if (!verify_is(requirement, "requirement"))
                continue;
            const char *verdict = verify_text(requirement, "verdict");
            bool is_must = json_is_true(json_object_get(requirement, "must"));
            must |= is_must;
            if (pass == 0 || (must && !is_must))
                continue;
            failed |= strcmp(verdict, "FAIL") == 0 || strcmp(verdict, "BROKEN") == 0;
            unsupported |= strcmp(verdict, "UNSUPPORTED") == 0 || strcmp(verdict, "PARTLY") == 0;
            finding_verdict |= strcmp(verdict, "UNSUPPORTED") != 0;
        }
    }
    return failed ? "FAILS" : !finding_verdict ? "NOTHING-JUDGED" : unsupported ? "CONFORMS-PARTLY" : "CONFORMS";
}

static void verify_counts(struct verify *v, size_t line, const json_t *counts)
{
    const char *verdict;
    json_t *count;
    json_object_foreach ((json_t *)(uintptr_t)counts, verdict, count) {
        json_int_t expected = 0;
        for (size_t i = 1; i <= v->file->line_count; i++)
            if (verify_is(verify_record(v, i), "requirement"))
                expected += strcmp(verify_text(verify_record(v, i), "verdict"), verdict) == 0;
        if (json_integer_value(count) != expected)
            verify_refuse(v, line, "requirement_counts", "has %lld %s, expected the %lld of the `requirement` records",
                          (long long)json_integer_value(count), verdict, (long long)expected);
    }
}

void verify_conformance(struct verify *v)
{
    size_t conformance_count = 0;
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *record = verify_record(v, line);
        if (verify_is(record, "requirement"))
            verify_requirement(v, line, record);
        if (!verify_is(record, "conformance"))
            continue;
        if (++conformance_count > 1) {
            verify_refuse(v, line, "record", "is a second `conformance`, expected one");
            continue;
        }
        const char *expected = conformance_expected(v), *said = verify_text(record, "verdict");
        verify_counts(v, line, json_object_get(record, "requirement_counts"));
        // A suite that did not complete FAILS regardless of its requirements.
        if (strcmp(said, expected) != 0 && strcmp(said, "FAILS") != 0)
            verify_refuse(v, line, "verdict", "is %s, expected %s from the requirements", said, expected);
        if (strcmp(said, "FAILS") == 0 || strcmp(said, "NOTHING-JUDGED") == 0)
            expect_finding(v, "arithmetic", line, "VALID", "the arithmetic was not found to conform");
    }
}

static const char *const tiers[][2] = {{"device_bytes", "device_available_bytes"},
                                       {"host_bytes", "host_available_bytes"},
                                       {"nvme_bytes", "nvme_available_bytes"}};

void verify_fits(struct verify *v)
{
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *fit = verify_record(v, line);
        if (!verify_is(fit, "fit"))
            continue;
        bool exceeds = false, unknown = false;
        for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
            json_int_t bytes = json_integer_value(json_object_get(fit, tiers[i][0]));
            const json_t *available = json_object_get(fit, tiers[i][1]);
            unknown |= json_is_null(available) && bytes > 0;
            exceeds |= json_is_integer(available) && bytes > json_integer_value(available);
        }
        bool fits = json_is_true(json_object_get(fit, "fits"));
        bool refused = json_is_false(json_object_get(fit, "fits"));
        if (fits && (exceeds || unknown))
            verify_refuse(v, line, "fits", "is true, expected false: a tier needs more than is available");
        if (refused && !exceeds && !unknown)
            verify_refuse(v, line, "fits", "is false, expected true: every tier has what is needed");
        if (!fits && json_is_null(json_object_get(fit, "reason")))
            verify_refuse(v, line, "reason", "is null, expected what does not fit");
    }
}

static void verify_finding_of(struct verify *v, const struct bench_finding *finding)
{
    const json_t *recorded = verify_finding(v, "outlier", finding->id, finding->line);
    if (!recorded)
        return;
    const char *said = verify_text(recorded, "verdict"), *expected = finding_verdict_name(finding->verdict);
    if (strcmp(said, expected) != 0)
        verify_refuse(v, finding->line, "median", "is called %s by the finding %s, expected %s among its peers", said,
                      finding->id, expected);
    verify_finding_text(v, finding->line, recorded, finding->text);
    if (!verify_same(verify_number(recorded, "value"), finding->value))
        verify_refuse(v, finding->line, "median", "is %.9g times that of its peers, but %.9g in the finding %s",
                      finding->value, verify_number(recorded, "value"), finding->id);
}

static size_t outlier_finding_count(const struct verify *v)
{
    size_t count = 0;
    for (size_t i = 0; i < v->finding_count; i++)
        count += strcmp(verify_text(verify_record(v, v->findings[i]), "kind"), "outlier") == 0;
    return count;
}

static void compare(struct verify *v, const struct bench_findings *findings)
{
    size_t said = outlier_finding_count(v);
    // A run that judges nothing, or was interrupted, may have none.
    bool finding_verdict =
        v->file->end && strcmp(verify_text(v->file->end, "status"), "complete") == 0 && verify_judges(v);
    if (said == 0 && !finding_verdict)
        return;
    for (size_t i = 0; i < findings->count; i++)
        verify_finding_of(v, &findings->list[i]);
    if (said != findings->count)
        verify_refuse(v, v->file->line_count, "kind", "%zu findings are about outliers, expected %zu from the ranks",
                      said, findings->count);
}

int verify_outliers(struct verify *v)
{
    struct result_line *lines = calloc(v->bench_count + 1, sizeof *lines);
    struct bench_findings findings = {0};
    size_t count = 0;
    if (!lines)
        return err_set(ERR_MEMORY, "no memory to verify %s", v->file->path);
    for (size_t i = 0; i < v->bench_count; i++)
        if (outlier_has_peers(verify_record(v, v->benches[i])))
            lines[count++] = (struct result_line){v->benches[i], v->file->lines[v->benches[i] - 1]};
    int rc = ERR_NONE;
    if (count > VERIFY_RANK_MAX)
        verify_refuse(v, lines[VERIFY_RANK_MAX].line, "name", "exceeds the limit of %d results of ranks or hosts",
                      VERIFY_RANK_MAX);
    else if ((rc = outliers_find(lines, count, &findings)) == ERR_NONE)
        compare(v, &findings);
    bench_findings_free(&findings);
    free(lines);
    return rc;
}
