// SPDX-License-Identifier: Apache-2.0
// Verifies the conformance suite's part of a run by the suite's own tables: the requirements that there are, which of
// them are MUSTs, and the cases of the level.
#include "results/record/verify_internal.h"

#include "conformance/spec/requirement.h"
#include "conformance/suite/suite.h"
#include "results/limits/bench_finding.h"

#include <string.h>

// The implementation that `check` judges where it is not given another one.
static const char own_answer[] = "zerogauge answer";

// The line of the only `conformance` record of a run, 0 if there is none.
static size_t find_conformance(const struct verify *v)
{
    for (size_t line = 1; line <= v->file->line_count; line++)
        if (verify_is(verify_record(v, line), "conformance"))
            return line;
    return 0;
}

static int index_of(const char *id)
{
    const struct requirement *requirement;
    for (int i = 0; (requirement = requirement_at(i)); i++)
        if (strcmp(requirement->id, id) == 0)
            return i;
    return -1;
}

// The suite's version in the run's record.
static int version_of(const struct verify *v)
{
    return (int)json_integer_value(json_object_get(json_object_get(v->file->run, "suite"), "edition"));
}

static void verify_requirement(struct verify *v, size_t line, const json_t *record, bool seen[REQUIREMENT_MAX])
{
    const char *id = verify_text(record, "id");
    int index = index_of(id);
    bool must = json_is_true(json_object_get(record, "must"));
    if (index < 0 || !requirement_is_of(requirement_at(index), version_of(v))) {
        verify_refuse(v, line, "id", "is %s, which is no requirement of this suite", id);
        return;
    }
    if (must != requirement_is_must_of(requirement_at(index), version_of(v)))
        verify_refuse(v, line, "must", "is %s, expected %s for %s", must ? "true" : "false", must ? "false" : "true",
                      id);
    if (seen[index])
        verify_refuse(v, line, "id", "is %s, of which there is another record", id);
    seen[index] = true;
}

static void verify_requirements(struct verify *v, size_t conformance)
{
    bool seen[REQUIREMENT_MAX] = {false};
    const struct requirement *requirement;
    for (size_t line = 1; line <= v->file->line_count; line++)
        if (verify_is(verify_record(v, line), "requirement"))
            verify_requirement(v, line, verify_record(v, line), seen);
    for (int i = 0; conformance && (requirement = requirement_at(i)); i++)
        if (!seen[i] && requirement_is_of(requirement, version_of(v)))
            verify_refuse(v, conformance, "requirement_counts", "has no `requirement` record of %s", requirement->id);
}

// The suite also repeats cases, so that a run has more than the level's.
static void verify_level(struct verify *v, size_t line, const json_t *conformance)
{
    const char *level = verify_text(conformance, "level"), *of_run = verify_text(v->file->run, "level");
    json_int_t count = json_integer_value(json_object_get(conformance, "case_count"));
    bool full = of_run && strcmp(of_run, "full") == 0;
    int least = suite_case_count(full ? LEVEL_FULL : LEVEL_QUICK, version_of(v));
    if (!of_run || strcmp(level, of_run) != 0)
        verify_refuse(v, line, "level", "is %s, expected %s, the level of the run", level, of_run ? of_run : "none");
    if (count < least)
        verify_refuse(v, line, "case_count", "is %lld, expected at least the %d cases of the level %s",
                      (long long)count, least, full ? "full" : "quick");
}

static void verify_finding_about(struct verify *v, size_t line, const json_t *conformance)
{
    char text[BENCH_FINDING_TEXT_BYTES];
    const char *said = verify_text(conformance, "verdict");
    const char *expected = strcmp(said, "CONFORMS") == 0 ? "VALID"
                           : strcmp(said, "FAILS") == 0  ? "INVALID"
                                                         : "INCOMPLETE";
    const json_t *finding = verify_finding(v, "arithmetic", NULL, line);
    if (finding && strcmp(verify_text(finding, "verdict"), expected) != 0)
        verify_refuse(v, line, "verdict", "is %s, which a finding calls %s, expected %s", said,
                      verify_text(finding, "verdict"), expected);
    snprintf(text, sizeof text, "arithmetic: the conformance suite reports %s%s", said,
             strcmp(said, "CONFORMS") == 0 ? "" : "; arithmetic.out names the requirements");
    verify_finding_text(v, line, finding, text);
}

// True if the part of the suite printed its report: it succeeded, or found something wrong.
static bool has_report(const struct verify *v)
{
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *part = verify_record(v, line), *status = json_object_get(part, "status");
        if (verify_is(part, "part") && strcmp(verify_text(part, "name"), "arithmetic") == 0 &&
            json_integer_value(json_object_get(part, "rank")) == 0 && json_is_integer(status) &&
            json_integer_value(status) == 0)
            return true;
    }
    return false;
}

void verify_suite(struct verify *v)
{
    size_t line = find_conformance(v);
    const json_t *conformance = line ? verify_record(v, line) : NULL;
    if (version_of(v) < 1 || version_of(v) > ZG_SUITE_VERSION) {
        verify_refuse(v, 1, "suite.edition", "is %d; this program knows the suite's versions 1 to %d", version_of(v),
                      ZG_SUITE_VERSION);
        return;
    }
    verify_requirements(v, line);
    if (!line && has_report(v))
        verify_refuse(v, v->file->line_count, "record",
                      "is without a `conformance` record, expected one of the part "
                      "arithmetic");
    if (!line)
        return;
    verify_level(v, line, conformance);
    const char *implementation = verify_text(conformance, "implementation");
    if (!implementation || strcmp(implementation, own_answer) != 0)
        verify_refuse(v, line, "implementation", "is %s, expected %s, which `validate` judges",
                      implementation ? implementation : "missing", own_answer);
    if (v->file->end && strcmp(verify_text(v->file->end, "status"), "complete") == 0)
        verify_finding_about(v, line, conformance);
}
