// SPDX-License-Identifier: Apache-2.0
// JSON lines. Numbers are numbers, bit patterns are hexadecimal strings; null is a missing value, or NaN.
#include "conformance/report/report.h"

#include "base/err.h"
#include "base/file.h"
#include "cli/info/info.h"
#include "conformance/report/report_part.h"
#include "base/safe_text.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

enum { REPORT_SCHEMA = 1 };

// Writes a record as a line, and frees it. A null record is one that there was no memory for.
static int put(FILE *out, json_t *record)
{
    if (!record)
        return err_set(ERR_MEMORY, "no memory for a record of the report");
    int rc = json_dumpf(record, out, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(record);
    if (rc != 0 || fputc('\n', out) == EOF)
        return err_set(ERR_IO, "the JSON report could not be written completely");
    return ERR_NONE;
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *index_or_null(int index)
{
    return index >= 0 ? json_integer(index) : json_null();
}

static json_t *counts_json(const size_t counts[VERDICT_COUNT])
{
    json_t *object = json_object();
    for (int i = 0; i < VERDICT_COUNT; i++) {
        json_t *count = json_integer((json_int_t)counts[report_order[i]]);
        json_object_set_new(object, verdict_name(report_order[i]), count);
    }
    return object;
}

static json_t *rules_json(const struct run_facts *facts)
{
    json_t *rules = json_array();
    for (const char *const *rule = facts->rules; rule && *rule; rule++)
        json_array_append_new(rules, text_json(*rule));
    return rules;
}

static json_t *bytes_or_null(bool is_known, uint64_t bytes)
{
    return is_known ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *observation_json(const struct observation *o)
{
    char text[OBSERVATION_TEXT_BYTES];
    bool is_measured = !o->why[0], is_counted = is_measured && o->sent_is_known;
    return json_pack("{s:i,s:i,s:o,s:o,s:I,s:b,s:o,s:o,s:I,s:b,s:o}", "stage", o->stage, "world", o->world,
                     "peak_bytes", bytes_or_null(is_measured, o->peak_bytes), "stage_0_peak_bytes",
                     bytes_or_null(is_measured, o->unsharded_peak_bytes), "formula_saved_bytes",
                     (json_int_t)o->formula_saved_bytes, "shows_sharding", observation_shows(o), "sent_bytes",
                     bytes_or_null(is_counted, o->sent_bytes), "stage_0_sent_bytes",
                     bytes_or_null(is_counted, o->unsharded_sent_bytes), "formula_sent_bytes",
                     (json_int_t)o->formula_sent_bytes, "shows_exchange", observation_shows_exchange(o), "text",
                     text_json(observation_text(o, text)));
}

static json_t *observations_json(const struct run_facts *facts)
{
    json_t *list = json_array();
    for (int i = 0; i < facts->observations.count; i++)
        json_array_append_new(list, observation_json(&facts->observations.list[i]));
    return list;
}

static json_t *run_json(const struct run_facts *facts)
{
    // A seed may be larger than what a reader's integers hold, and is nothing to count with.
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, facts->seed);
    json_t *suite = info_collect();
    json_object_del(suite, "record");
    // Of the cases that were run, which may be of an earlier version than the program's newest.
    json_object_set_new(json_object_get(suite, "build"), "edition", json_integer(facts->suite_version));
    return json_pack("{s:s,s:i,s:o,s:o,s:o,s:o,s:o,s:s,s:I,s:I,s:I,s:I,s:f,s:o,s:o,s:o}", "record", "run", "schema",
                     REPORT_SCHEMA, "implementation", text_json(facts->implementation), "version",
                     text_json(facts->version), "level", text_json(facts->level), "part",
                     facts->part ? text_json(facts->part) : json_null(), "command", text_json(facts->command), "seed",
                     seed, "case_count", (json_int_t)facts->case_count, "repeat_count", (json_int_t)facts->repeat_count,
                     "launch_count", (json_int_t)facts->launch_count, "requirement_count",
                     (json_int_t)facts->requirement_count, "duration_s", facts->seconds, "rules", rules_json(facts),
                     "observations", observations_json(facts), "suite", suite ? suite : json_null());
}

static json_t *difference_json(const struct finding *finding)
{
    const struct difference *d = &finding->difference;
    char expected[BITS_TEXT_BYTES], actual[BITS_TEXT_BYTES];
    if (!finding->has_difference)
        return json_null();
    bool of_tensor = d->param >= 0 && finding->c && d->param < finding->c->param_count;
    return json_pack(
        "{s:i,s:o,s:o,s:o,s:o,s:o,s:i,s:s,s:s,s:o,s:o,s:o,s:I,s:I}", "step", d->step, "rank", index_or_null(d->rank),
        "micro_step", index_or_null(d->micro), "quantity", text_json(d->what), "tensor",
        of_tensor ? text_json(finding->c->params[d->param].name) : json_null(), "element",
        of_tensor ? json_integer((json_int_t)d->element) : json_null(), "bits", d->bits, "expected_bits",
        bits_text(d->bits, d->expected_bits, expected), "actual_bits", bits_text(d->bits, d->actual_bits, actual),
        "expected", number_or_null(difference_number(finding, d->expected_bits)), "actual",
        number_or_null(difference_number(finding, d->actual_bits)), "distance_roundings", number_or_null(d->roundings),
        "differing_count", (json_int_t)d->differing_count, "compared_count", (json_int_t)d->compared_count);
}

static json_t *absence_json(enum absence absence)
{
    return absence == ABSENT_NOT ? json_null() : json_string(absence == ABSENT_DECLINED ? "declined" : "unclaimed");
}

static json_t *check_json(const struct finding *finding, const struct requirement_verdict verdicts[], int count)
{
    json_t *requirements = json_array();
    for (int i = 0; i < count; i++) {
        if (finding_serves(finding, verdicts[i].requirement))
            json_array_append_new(requirements, json_string(verdicts[i].requirement->id));
    }
    return json_pack("{s:s,s:o,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "record", "check", "case",
                     finding->c ? text_json(finding->c->name) : json_null(), "aspect", aspect_name(finding->aspect),
                     "verdict", verdict_name(finding->verdict), "absence", absence_json(finding->absence), "twin",
                     finding->twin ? text_json(finding->twin->name) : json_null(), "requirements", requirements, "text",
                     text_json(finding->text), "hint",
                     finding->hint == HINT_NONE ? json_null() : json_string(hint_name(finding->hint)), "difference",
                     difference_json(finding));
}

static json_t *requirement_json(const struct findings *findings, const struct requirement_verdict verdicts[],
                                const struct requirement_verdict *verdict)
{
    const struct requirement *requirement = verdict->requirement;
    json_t *rules = json_array();
    const char *rule;
    for (size_t at = 0; (rule = next_rule(findings, requirement, &at));)
        json_array_append_new(rules, text_json(rule));
    enum hint hint = verdict->worst ? verdict->worst->hint : HINT_NONE;
    bool fails = verdict->verdict >= VERDICT_FAIL;
    const char *cause = fails ? verdict_first_of_cause(verdicts, verdict)->requirement->id : NULL;
    return json_pack("{s:s,s:s,s:b,s:s,s:s,s:s,s:o,s:s?,s:o,s:o}", "record", "requirement", "id", requirement->id,
                     "must", requirement->must, "chapter", requirement->group, "title", requirement->title, "verdict",
                     verdict_name(verdict->verdict), "hint",
                     hint == HINT_NONE ? json_null() : json_string(hint_name(hint)), "cause", cause, "finding_counts",
                     counts_json(verdict->counts), "rules", rules);
}

static json_t *share_json(const struct findings *findings)
{
    struct case_share share = case_share_of(findings);
    return json_pack("{s:I,s:I,s:I,s:I}", "all", (json_int_t)share.all, "answered",
                     (json_int_t)(share.all - share.unclaimed - share.declined), "unclaimed",
                     (json_int_t)share.unclaimed, "declined", (json_int_t)share.declined);
}

static json_t *end_json(const struct run_facts *facts, const struct findings *findings,
                        const struct requirement_verdict verdicts[], int count)
{
    enum run_verdict verdict = run_verdict_of(verdicts, count, facts->command_failed);
    size_t counts[VERDICT_COUNT];
    report_counts(verdicts, count, counts);
    return json_pack("{s:s,s:s,s:i,s:b,s:o,s:o,s:b,s:o}", "record", "end", "verdict", run_verdict_name(verdict),
                     "exit_status", run_verdict_exit_status(verdict, facts->strict), "strict", facts->strict,
                     "requirement_counts", counts_json(counts), "case_counts", share_json(findings), "command_failed",
                     facts->command_failed, "command_text",
                     facts->command_failed ? text_json(facts->command_text) : json_null());
}

int report_json(const struct run_facts *facts, const struct findings *findings,
                const struct requirement_verdict verdicts[], int count, FILE *out)
{
    TRY(put(out, run_json(facts)));
    for (size_t i = 0; i < findings->count; i++)
        TRY(put(out, check_json(&findings->list[i], verdicts, count)));
    for (int i = 0; i < count; i++)
        TRY(put(out, requirement_json(findings, verdicts, &verdicts[i])));
    TRY(put(out, end_json(facts, findings, verdicts, count)));
    return file_flush(out, "the JSON report");
}
