// SPDX-License-Identifier: Apache-2.0
// Verifies benchmarks: figures by their samples, times by the clock, and accepted ranges by the figures.
#include "results/record/record_verify.h"
#include "results/record/verify_internal.h"

#include "results/limits/accepted_range.h"
#include "base/err.h"
#include "base/statistics.h"
#include "results/record/unit.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double BOUND_MOST = 1.1;

// Verifies the samples of a bench record or of its baseline (prefix "" or "yardstick."). Returns their duration, s.
static double verify_samples(struct verify *v, size_t line, const json_t *of, const char *prefix)
{
    static const struct {
        const char *key;
        double q;
    } figures[] = {{"median", 0.5}, {"p10", 0.1}, {"p90", 0.9}};
    double values[STATISTICS_COUNT_MAX], seconds = 0, items = verify_number(of, "items");
    const json_t *samples = json_object_get(of, "samples");
    const char *unit = verify_text(of, "unit");
    size_t count = json_array_size(samples);
    char key[64];
    for (size_t i = 0; i < count; i++) {
        values[i] = json_number_value(json_array_get(samples, i));
        seconds += unit_duration_s(unit, values[i], items);
    }
    statistics_sort(values, count);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        double expected = statistics_sorted_quantile(values, count, figures[i].q);
        snprintf(key, sizeof key, "%s%s", prefix, figures[i].key);
        if (!verify_same(verify_number(of, figures[i].key), expected))
            verify_refuse(v, line, key, "is %.9g, expected %.9g from the samples", verify_number(of, figures[i].key),
                          expected);
    }
    return seconds;
}

// Nothing is faster than a bound, but for other programs' noise: else the baseline measured something else.
static void verify_bound(struct verify *v, size_t line, double work, const json_t *baseline)
{
    static const char *const bounds[] = {"matrix products of the model's shapes", "busy time of ", "registers",
                                         "CUDA's bandwidth sample", "PCIe "};
    const char *name = verify_text(baseline, "name");
    bool is_time = unit_is_time(verify_text(baseline, "unit"));
    double best = 0;
    size_t i;
    const json_t *sample;
    json_array_foreach (json_object_get(baseline, "samples"), i, sample) {
        double ratio = is_time ? json_number_value(sample) / work : work / json_number_value(sample);
        best = i == 0 || ratio < best ? ratio : best;
    }
    for (i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (!v->is_busy && best > BOUND_MOST && strncmp(name, bounds[i], strlen(bounds[i])) == 0)
            verify_refuse(v, line, "ratio", "is %.9g to the best sample of \"%s\", a bound: expected at most %g", best,
                          name, BOUND_MOST);
}

static void verify_ratio(struct verify *v, size_t line, const json_t *record, const json_t *baseline)
{
    const json_t *ratio = json_object_get(record, "ratio");
    double work = verify_number(record, "median"), limit = verify_number(baseline, "median");
    if (json_is_null(baseline) || json_is_null(ratio)) {
        if (json_is_null(baseline) != json_is_null(ratio))
            verify_refuse(v, line, "ratio", "is %s, expected %s", json_is_null(ratio) ? "null" : "a number",
                          json_is_null(ratio) ? "a number with a baseline" : "null without a baseline");
        return;
    }
    if (strcmp(verify_text(baseline, "unit"), verify_text(record, "unit")) != 0)
        verify_refuse(v, line, "yardstick.unit", "is %s, expected %s, the unit of the samples",
                      verify_text(baseline, "unit"), verify_text(record, "unit"));
    double expected = unit_is_time(verify_text(record, "unit")) ? limit / work : work / limit;
    if (!verify_same(json_number_value(ratio), expected))
        verify_refuse(v, line, "ratio", "is %.9g, expected %.9g from the medians", json_number_value(ratio), expected);
    verify_bound(v, line, work, baseline);
}

void verify_bench(struct verify *v)
{
    for (size_t i = 0; i < v->bench_count; i++) {
        size_t line = v->benches[i];
        const json_t *record = verify_record(v, line), *baseline = json_object_get(record, "yardstick");
        double elapsed_s = verify_number(record, "elapsed_s");
        bool lower = unit_is_time(verify_text(record, "unit"));
        double seconds = verify_samples(v, line, record, "");
        if (!json_is_null(baseline))
            seconds += verify_samples(v, line, baseline, "yardstick.");
        verify_ratio(v, line, record, baseline);
        verify_timeline(v, line, record);
        if (json_is_true(json_object_get(record, "lower_is_better")) != lower)
            verify_refuse(v, line, "lower_is_better", "is %s, expected %s for %s", lower ? "false" : "true",
                          lower ? "true" : "false", verify_text(record, "unit"));
        if (!verify_within(seconds, elapsed_s))
            verify_refuse(v, line, "elapsed_s", "is %.9g, expected at least the %.9g s of the samples", elapsed_s,
                          seconds);
        if (!verify_within(elapsed_s, v->elapsed_s))
            verify_refuse(v, line, "elapsed_s", "is %.9g, expected at most the %.9g s of the whole run", elapsed_s,
                          v->elapsed_s);
    }
}

static bool range_holds_for(const json_t *range, const json_t *bench)
{
    const char *key, *name = verify_text(bench, "name");
    json_t *value, *asked = json_object_get(range, "case"), *of_case = json_object_get(bench, "case");
    if (!name || strcmp(verify_text(range, "bench"), name) != 0 ||
        (!verify_is(bench, "bench") && !verify_is(bench, "skip")))
        return false;
    if (json_object_get(of_case, "device") && !json_object_get(asked, "device"))
        return false;
    json_object_foreach (asked, key, value)
        if (!json_equal(value, json_object_get(of_case, key)))
            return false;
    return true;
}

// The accepted range of a `band` record; it borrows the record's case.
static struct accepted_range range_of(const json_t *band)
{
    const json_t *low = json_object_get(band, "at_least"), *high = json_object_get(band, "at_most");
    const char *unit = verify_text(band, "unit");
    struct accepted_range range = {.of_case = json_object_get(band, "case"),
                                   .of_ratio = strcmp(verify_text(band, "metric"), "ratio") == 0,
                                   .at_least = json_is_number(low) ? json_number_value(low) : NAN,
                                   .at_most = json_is_number(high) ? json_number_value(high) : NAN};
    snprintf(range.id, sizeof range.id, "%s", verify_text(band, "id"));
    snprintf(range.bench, sizeof range.bench, "%s", verify_text(band, "bench"));
    snprintf(range.unit, sizeof range.unit, "%s", unit ? unit : "null");
    return range;
}

// Verifies the finding of an accepted range about a record: it is the one that the range makes of the record.
static void verify_range_finding(struct verify *v, const json_t *band, size_t line, const json_t *record)
{
    const struct accepted_range range = range_of(band);
    const json_t *finding = verify_finding(v, "band", range.id, line);
    struct bench_finding expected;
    if (!finding)
        return;
    if (!range.of_ratio && strcmp(range.unit, verify_text(record, "unit")) != 0) {
        verify_refuse(v, line, "unit", "is %s, but the accepted range %s is in %s", verify_text(record, "unit"),
                      range.id, range.unit);
        return;
    }
    accepted_range_judge(&range, record, line, &expected);
    const char *metric = verify_text(band, "metric"), *verdict = finding_verdict_name(expected.verdict);
    if (strcmp(verify_text(finding, "verdict"), verdict) != 0)
        verify_refuse(v, line, metric, "is called %s by a finding, expected %s by the accepted range %s",
                      verify_text(finding, "verdict"), verdict, range.id);
    if (!isnan(expected.value) && !verify_same(verify_number(finding, "value"), expected.value))
        verify_refuse(v, line, metric, "is %.9g, but %.9g in the finding of the accepted range %s", expected.value,
                      verify_number(finding, "value"), range.id);
    verify_finding_text(v, line, finding, expected.text);
}

// Returns whether a finding of the range says that a case was skipped, and a `skip` record agrees.
static bool is_skipped(const struct verify *v, const json_t *range)
{
    for (size_t i = 0; i < v->finding_count; i++) {
        const json_t *finding = verify_record(v, v->findings[i]);
        json_int_t of = json_integer_value(json_object_get(finding, "line"));
        if (strcmp(verify_text(finding, "kind"), "band") == 0 &&
            strcmp(verify_text(finding, "id"), verify_text(range, "id")) == 0 && of > 0 &&
            of <= (json_int_t)v->file->line_count && verify_is(verify_record(v, (size_t)of), "skip") &&
            range_holds_for(range, verify_record(v, (size_t)of)))
            return true;
    }
    return false;
}

// An accepted range without results needs a finding that says so.
static void verify_unmeasured(struct verify *v, size_t line, const json_t *range)
{
    if (is_skipped(v, range))
        return;
    for (size_t i = 0; i < v->finding_count; i++) {
        const json_t *finding = verify_record(v, v->findings[i]);
        if (strcmp(verify_text(finding, "kind"), "band") == 0 &&
            strcmp(verify_text(finding, "id"), verify_text(range, "id")) == 0 &&
            strcmp(verify_text(finding, "verdict"), "INCOMPLETE") == 0)
            return;
    }
    verify_refuse(v, line, "id", "%s matches no `bench` record, expected a finding that says INCOMPLETE",
                  verify_text(range, "id"));
}

// A case may be skipped only where it needs more memory than there is.
void verify_skips(struct verify *v)
{
    const json_t *machine = json_object_get(v->file->run, "machine");
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *skip = verify_record(v, line);
        if (!verify_is(skip, "skip"))
            continue;
        double needs = verify_number(skip, "needs_bytes"), available = verify_number(skip, "available_bytes");
        if (needs <= available)
            verify_refuse(v, line, "needs_bytes", "is %.0f, expected more than the %.0f available", needs, available);
        bool of_host = !json_object_get(json_object_get(verify_record(v, line), "case"), "device");
        if (of_host && available > verify_number(machine, "memory_bytes"))
            verify_refuse(v, line, "available_bytes", "is %.0f, expected at most the machine's %.0f", available,
                          verify_number(machine, "memory_bytes"));
    }
}

// A finding of an accepted range that is not in the file, or not for that record, decides nothing honestly.
static void verify_origin(struct verify *v, size_t line, const json_t *finding)
{
    json_int_t of = json_integer_value(json_object_get(finding, "line"));
    for (size_t i = 0; i < v->range_count; i++) {
        const json_t *range = verify_record(v, v->ranges[i]);
        if (strcmp(verify_text(range, "id"), verify_text(finding, "id")) == 0 &&
            (of == 0 || of > (json_int_t)v->file->line_count || range_holds_for(range, verify_record(v, (size_t)of))))
            return;
    }
    verify_refuse(v, line, "id", "%s is not a `band` record that matches line %lld", verify_text(finding, "id"),
                  (long long)of);
}

void verify_ranges(struct verify *v)
{
    for (size_t i = 0; i < v->finding_count; i++) {
        const json_t *finding = verify_record(v, v->findings[i]);
        if (strcmp(verify_text(finding, "kind"), "band") == 0)
            verify_origin(v, v->findings[i], finding);
    }
    for (size_t b = 0; b < v->range_count; b++) {
        const json_t *range = verify_record(v, v->ranges[b]);
        size_t count = 0;
        for (size_t i = 0; i < v->bench_count; i++) {
            const json_t *bench = verify_record(v, v->benches[i]);
            if (!range_holds_for(range, bench))
                continue;
            verify_range_finding(v, range, v->benches[i], bench);
            count++;
        }
        if (count == 0)
            verify_unmeasured(v, v->ranges[b], range);
    }
}

// True if only the other level measures it, if it is about a device and the machine has none, or if a part found no
// such device.
static bool may_be_missing(const struct result_file *file, const struct accepted_range *range)
{
    enum { UNTESTED_STATUS = 77 };
    const char *level = verify_text(file->run, "level");
    const json_t *gpus = json_object_get(json_object_get(file->run, "machine"), "gpus");
    bool missing = range->full_only && level && strcmp(level, "quick") == 0;
    missing |= strcmp(range->bench, "product") == 0 && !verify_has_products(file);
    missing |= json_object_get(range->of_case, "device") && json_array_size(gpus) == 0;
    for (size_t i = 0; i < file->line_count; i++) {
        const json_t *part = file->lines[i];
        missing |= verify_is(part, "part") && accepted_range_is_of_part(range, verify_text(part, "name")) &&
                   json_integer_value(json_object_get(part, "status")) == UNTESTED_STATUS;
    }
    return missing;
}

// Compares two `band` records.
static bool is_as_strict(const json_t *range, const json_t *by_default)
{
    static const char *const same[] = {"bench", "case", "metric", "unit"};
    bool strict = true;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        strict &= json_equal(json_object_get(range, same[i]), json_object_get(by_default, same[i]));
    if (json_is_number(json_object_get(by_default, "at_least")))
        strict &= verify_within(verify_number(by_default, "at_least"), verify_number(range, "at_least"));
    if (json_is_number(json_object_get(by_default, "at_most")))
        strict &= json_is_number(json_object_get(range, "at_most")) &&
                  verify_within(verify_number(range, "at_most"), verify_number(by_default, "at_most"));
    return strict;
}

int record_own_limits(const struct result_file *file, char out[OWN_LIMITS_TEXT_BYTES])
{
    struct accepted_ranges ranges = {0};
    size_t used = 0;
    *out = '\0';
    int rc = accepted_ranges_add("default", &ranges);
    for (size_t b = 0; rc == ERR_NONE && b < ranges.count && used < OWN_LIMITS_TEXT_BYTES; b++) {
        const struct accepted_range *range = &ranges.list[b];
        json_t *by_default = accepted_range_json(range);
        size_t line = 0;
        while (line < file->line_count &&
               !(verify_is(file->lines[line], "band") && strcmp(verify_text(file->lines[line], "id"), range->id) == 0))
            line++;
        bool found = line < file->line_count;
        if (found ? !is_as_strict(file->lines[line], by_default) : !may_be_missing(file, range))
            used += (size_t)snprintf(out + used, OWN_LIMITS_TEXT_BYTES - used, "%s%s %s", used > 0 ? ", " : "",
                                     range->id, found ? "is looser" : "is missing");
        json_decref(by_default);
    }
    accepted_ranges_free(&ranges);
    return rc;
}
