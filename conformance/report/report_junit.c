// SPDX-License-Identifier: Apache-2.0
// JUnit XML, as continuous integration reads it: what is red there is what fails the run. FAIL is a failure, BROKEN an
// error, UNSUPPORTED and PARTLY are skipped; a SHOULD that is not fulfilled fails no run with a MUST and is skipped,
// with the reason. Under --strict a run that is less than CONFORMS is a failure.
#include "conformance/report/report.h"
#include "base/file.h"
#include "conformance/report/report_part.h"
#include "base/safe_text.h"

#include <string.h>

struct junit {
    const struct run_facts *facts;
    const struct findings *findings;
    const struct requirement_verdict *verdicts;
    int count;
    bool must;  // some of them are MUST, which alone decide then
    FILE *out;
};

enum outcome { OUTCOME_PASSED, OUTCOME_FAILURE, OUTCOME_ERROR, OUTCOME_SKIPPED, OUTCOME_COUNT };

static enum outcome outcome_of(const struct junit *j, const struct requirement_verdict *verdict)
{
    if (verdict->verdict == VERDICT_UNSUPPORTED || verdict->verdict == VERDICT_PARTLY)
        return OUTCOME_SKIPPED;
    if (verdict->verdict < VERDICT_FAIL)
        return OUTCOME_PASSED;
    if (j->must && !verdict->requirement->must)
        return OUTCOME_SKIPPED;
    return verdict->worst->verdict == VERDICT_FAIL ? OUTCOME_FAILURE : OUTCOME_ERROR;
}

static void put_counts(FILE *out, const char *element, const char *name, const int counts[OUTCOME_COUNT])
{
    int tests = 0;
    for (int i = 0; i < OUTCOME_COUNT; i++)
        tests += counts[i];
    fprintf(out, "<%s name=\"", element);
    text_markup(out, name);
    fprintf(out, "\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\"", tests, counts[OUTCOME_FAILURE],
            counts[OUTCOME_ERROR], counts[OUTCOME_SKIPPED]);
}

static void put_text(FILE *out, const char *label, const char *text)
{
    if (!text[0])
        return;
    fprintf(out, "%s: ", label);
    text_markup(out, text);
    fputc('\n', out);
}

// All that the table says of a finding.
static void put_finding(const struct junit *j, const struct requirement_verdict *verdict)
{
    const struct finding *finding = verdict->worst;
    const struct requirement_verdict *first = verdict_first_of_cause(j->verdicts, verdict);
    char location[FINDING_LOCATION_BYTES], text[DIFFERENCE_TEXT_BYTES], repeat[REPEAT_TEXT_BYTES];
    if (first != verdict)
        put_text(j->out, "cause", first->requirement->id);
    put_text(j->out, "where", finding_location(finding, location));
    if (finding->has_difference) {
        put_text(j->out, "first", difference_location(finding, text));
        put_text(j->out, "bits", difference_values(finding, text));
    }
    put_text(j->out, "why", finding->text);
    put_text(j->out, "hint", hint_text(finding->hint));
    fprintf(j->out, "repeat: ");
    text_markup(j->out, repeat_text(j->facts, finding, repeat));
    text_markup(j->out, j->facts->command);
    fputc('\n', j->out);
}

static void put_requirement(const struct junit *j, const struct requirement_verdict *verdict)
{
    static const char *const elements[OUTCOME_COUNT] = {[OUTCOME_FAILURE] = "failure", [OUTCOME_ERROR] = "error"};
    const struct requirement *requirement = verdict->requirement;
    enum outcome outcome = outcome_of(j, verdict);
    FILE *out = j->out;
    fprintf(out, "    <testcase classname=\"");
    text_markup(out, requirement->group);
    fprintf(out, "\" name=\"%s ", requirement->id);
    text_markup(out, requirement->title);
    if (outcome == OUTCOME_PASSED) {
        fprintf(out, "\"/>\n");
        return;
    }
    fprintf(out, "\">");
    if (verdict->verdict == VERDICT_UNSUPPORTED || verdict->verdict == VERDICT_PARTLY) {
        char counts[COUNTS_TEXT_BYTES];
        fprintf(out, "<skipped message=\"");
        if (verdict->verdict == VERDICT_PARTLY)
            fprintf(out, "PARTLY, %s: ", counts_text(verdict->counts, counts));
        text_markup(out, unsupported_text(verdict));
        fprintf(out, "\"/>");
    } else if (outcome == OUTCOME_SKIPPED) {
        fprintf(out, "<skipped message=\"SHOULD, %s\"/><system-out>", verdict_name(verdict->verdict));
        put_finding(j, verdict);
        fprintf(out, "</system-out>");
    } else {
        char location[FINDING_LOCATION_BYTES];
        fprintf(out, "<%s type=\"%s\" message=\"", elements[outcome], hint_name(verdict->worst->hint));
        text_markup(out, finding_location(verdict->worst, location));
        fprintf(out, "\">");
        put_finding(j, verdict);
        fprintf(out, "</%s>", elements[outcome]);
    }
    fprintf(out, "</testcase>\n");
}

// A suite of its own says whether there was a run to speak of: no other place would show it.
static enum outcome run_outcome(const struct junit *j)
{
    if (j->facts->command_failed)
        return OUTCOME_ERROR;
    enum run_verdict verdict = run_verdict_of(j->verdicts, j->count, false);
    bool less = verdict == RUN_NOTHING || verdict == RUN_CONFORMS_PARTLY;
    return !less ? OUTCOME_PASSED : j->facts->strict ? OUTCOME_FAILURE : OUTCOME_SKIPPED;
}

static void put_run(const struct junit *j)
{
    int counts[OUTCOME_COUNT] = {0};
    enum outcome outcome = run_outcome(j);
    counts[outcome] = 1;
    fprintf(j->out, "  ");
    put_counts(j->out, "testsuite", "The run", counts);
    fprintf(j->out,
            " time=\"%.3f\">\n    <testcase classname=\"The run\" name=\"The command ends well, and something "
            "is judged\">",
            j->facts->seconds);
    if (outcome == OUTCOME_ERROR) {
        fprintf(j->out, "<error type=\"command\" message=\"");
        text_markup(j->out, j->facts->command_text);
        fprintf(j->out, "\"/>");
    } else if (outcome != OUTCOME_PASSED) {
        char text[RUN_TEXT_BYTES];
        enum run_verdict verdict = run_verdict_of(j->verdicts, j->count, false);
        fprintf(j->out, "<%s message=\"%s: ", outcome == OUTCOME_FAILURE ? "failure type=\"strict\"" : "skipped",
                run_verdict_name(verdict));
        text_markup(j->out, run_text(j->facts, j->findings, verdict, text));
        fprintf(j->out, "\"/>");
    }
    fprintf(j->out, "</testcase>\n  </testsuite>\n");
}

// The chapter that begins at index; returns where the next one does.
static int put_chapter(const struct junit *j, int index)
{
    const char *group = j->verdicts[index].requirement->group;
    int counts[OUTCOME_COUNT] = {0}, end = index;
    for (; end < j->count && strcmp(j->verdicts[end].requirement->group, group) == 0; end++)
        counts[outcome_of(j, &j->verdicts[end])]++;
    fprintf(j->out, "  ");
    put_counts(j->out, "testsuite", group, counts);
    fprintf(j->out, " time=\"0\">\n");
    for (int i = index; i < end; i++)
        put_requirement(j, &j->verdicts[i]);
    fprintf(j->out, "  </testsuite>\n");
    return end;
}

int report_junit(const struct run_facts *facts, const struct findings *findings,
                 const struct requirement_verdict verdicts[], int count, FILE *out)
{
    struct junit j = {.facts = facts, .findings = findings, .verdicts = verdicts, .count = count, .out = out};
    int counts[OUTCOME_COUNT] = {0};
    for (int i = 0; i < count; i++)
        j.must |= verdicts[i].requirement->must;
    counts[run_outcome(&j)]++;
    for (int i = 0; i < count; i++)
        counts[outcome_of(&j, &verdicts[i])]++;
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    char name[RUN_TEXT_BYTES];
    snprintf(name, sizeof name, "zerogauge check%s%s", facts->part ? " " : "", facts->part ? facts->part : "");
    put_counts(out, "testsuites", name, counts);
    fprintf(out, " time=\"%.3f\">\n", facts->seconds);
    put_run(&j);
    for (int i = 0; i < count;)
        i = put_chapter(&j, i);
    fprintf(out, "</testsuites>\n");
    return file_flush(out, "the JUnit report");
}
