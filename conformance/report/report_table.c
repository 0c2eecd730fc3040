// SPDX-License-Identifier: Apache-2.0
#include "conformance/report/report.h"
#include "base/file.h"
#include "conformance/report/report_part.h"
#include "base/safe_text.h"
#include "base/terminal.h"

#include <inttypes.h>
#include <string.h>

struct table {
    const struct run_facts *facts;
    const struct findings *findings;
    const struct requirement_verdict *verdicts;
    int count;
    FILE *out;
    bool colours;
};

static const char *colour_of(enum verdict verdict)
{
    static const char *const colours[VERDICT_COUNT] = {
        [VERDICT_UNSUPPORTED] = "\033[2m", [VERDICT_PASS] = "\033[32m",   [VERDICT_EQUIVALENT] = "\033[36m",
        [VERDICT_BOUNDED] = "\033[33m",    [VERDICT_FAIL] = "\033[1;31m", [VERDICT_BROKEN] = "\033[1;35m",
        [VERDICT_PARTLY] = "\033[33m",
    };
    return colours[verdict];
}

// The name of a verdict, padded to a width. The width does not count escapes.
static void print_name(const struct table *t, enum verdict verdict, const char *name, int width)
{
    fprintf(t->out, "%s%s%s%*s", t->colours ? colour_of(verdict) : "", name, t->colours ? "\033[0m" : "",
            width > (int)strlen(name) ? width - (int)strlen(name) : 0, "");
}

static void print_observed(const struct table *t, const char *text)
{
    fprintf(t->out, "  observed: ");
    text_terminal(t->out, text, 4);
    fputc('\n', t->out);
}

static void print_head(const struct table *t)
{
    const struct run_facts *facts = t->facts;
    fprintf(t->out, "zerogauge check: ");
    text_terminal(t->out, facts->implementation, 4);
    fputs(facts->version[0] ? " " : "", t->out);
    text_terminal(t->out, facts->version, 4);
    if (facts->suite_version != ZG_SUITE_VERSION)
        fprintf(t->out, ", suite version %d", facts->suite_version);
    fprintf(t->out, ", level ");
    text_terminal(t->out, facts->level, 4);
    char extent[COUNTS_TEXT_BYTES];
    fprintf(t->out, ", seed %" PRIu64 ": %s\n", facts->seed, extent_text(facts, extent));
    for (const char *const *rule = facts->rules; rule && *rule; rule++) {
        fprintf(t->out, "  ");
        text_terminal(t->out, *rule, 4);
        fputc('\n', t->out);
    }
    char text[OBSERVATION_TEXT_BYTES];
    for (int i = 0; i < facts->observations.count; i++) {
        const struct observation *observation = &facts->observations.list[i];
        print_observed(t, observation_text(observation, text));
        if (!observation->why[0])
            print_observed(t, observation_sent_text(observation, text));
    }
    if (facts->observations.count > 0)
        fprintf(t->out, "  not observed: %s\n", observation_gap_text);
}

static void print_requirement(const struct table *t, const struct requirement_verdict *verdict)
{
    enum { INDENT = 27 };
    const struct requirement *requirement = verdict->requirement;
    char counts[COUNTS_TEXT_BYTES];
    fprintf(t->out, "  ");
    print_name(t, verdict->verdict, verdict_name(verdict->verdict), 13);
    fprintf(t->out, "%-10s  %s%s (", requirement->id, requirement->must ? "" : "SHOULD: ", requirement->title);
    if (verdict->verdict != VERDICT_UNSUPPORTED)
        fputs(counts_text(verdict->counts, counts), t->out);
    if (verdict->verdict == VERDICT_PARTLY)
        fputs(": ", t->out);
    if (verdict->verdict == VERDICT_UNSUPPORTED || verdict->verdict == VERDICT_PARTLY)
        text_terminal(t->out, unsupported_text(verdict), INDENT);
    fprintf(t->out, ")\n");
    const char *rule, *refusal = refusal_text(t->findings, requirement);
    if (refusal) {
        fprintf(t->out, "%*srefused: ", INDENT, "");
        text_terminal(t->out, refusal, INDENT + 9);
        fputc('\n', t->out);
    }
    for (size_t at = 0; (rule = next_rule(t->findings, requirement, &at));) {
        fprintf(t->out, "%*sby ", INDENT, "");
        text_terminal(t->out, rule, INDENT + 3);
        fputc('\n', t->out);
    }
}

static void print_line(const struct table *t, const char *label, const char *text, const char *more)
{
    if (!text[0])
        return;
    fprintf(t->out, "  %-8s", label);
    text_terminal(t->out, text, 10);
    text_terminal(t->out, more, 10);
    fputc('\n', t->out);
}

// The other requirements that are not fulfilled by the cause of this finding.
static void print_others(const struct table *t, const struct requirement_verdict *first)
{
    for (const struct requirement_verdict *v = first + 1; v < t->verdicts + t->count; v++)
        if (v->verdict >= VERDICT_FAIL && verdict_first_of_cause(t->verdicts, v) == first)
            fprintf(t->out, "  also    %s %s: %s\n", v->requirement->id, v->requirement->must ? "MUST" : "SHOULD",
                    v->requirement->title);
}

static void print_finding(const struct table *t, const struct requirement_verdict *verdict)
{
    const struct finding *finding = verdict->worst;
    const struct requirement *requirement = verdict->requirement;
    char location[FINDING_LOCATION_BYTES], text[DIFFERENCE_TEXT_BYTES], repeat[REPEAT_TEXT_BYTES];
    fputc('\n', t->out);
    print_name(t, finding->verdict, verdict_name(finding->verdict), 0);
    fprintf(t->out, " %s %s: %s\n", requirement->id, requirement->must ? "MUST" : "SHOULD", requirement->title);
    print_line(t, "where", finding_location(finding, location), "");
    if (finding->has_difference) {
        print_line(t, "first", difference_location(finding, text), "");
        print_line(t, "bits", difference_values(finding, text), "");
    }
    print_line(t, "why", finding->text, "");
    print_line(t, "hint", hint_text(finding->hint), "");
    print_line(t, "repeat", repeat_text(t->facts, finding, repeat), t->facts->command);
    size_t others = verdict->counts[VERDICT_FAIL] + verdict->counts[VERDICT_BROKEN] - 1;
    if (others > 0)
        fprintf(t->out, "  and %zu more FAIL or BROKEN finding%s of this requirement\n", others,
                others == 1 ? "" : "s");
    print_others(t, verdict);
}

// Counts the verdicts of those that decide, or of those that do not; returns how many there are.
static int count_verdicts(const struct table *t, bool must, size_t counts[VERDICT_COUNT])
{
    int count = 0;
    memset(counts, 0, VERDICT_COUNT * sizeof *counts);
    for (int i = 0; i < t->count; i++)
        if (t->verdicts[i].requirement->must == must) {
            counts[t->verdicts[i].verdict]++;
            count++;
        }
    return count;
}

static void print_end(const struct table *t)
{
    enum run_verdict verdict = run_verdict_of(t->verdicts, t->count, t->facts->command_failed);
    static const enum verdict like[] = {[RUN_CONFORMS] = VERDICT_PASS,
                                        [RUN_CONFORMS_PARTLY] = VERDICT_PARTLY,
                                        [RUN_FAILS] = VERDICT_FAIL,
                                        [RUN_NOTHING] = VERDICT_UNSUPPORTED};
    size_t counts[VERDICT_COUNT];
    char text[COUNTS_TEXT_BYTES], run[RUN_TEXT_BYTES];
    int should_count = count_verdicts(t, false, counts);
    if (should_count > 0 && should_count < t->count)
        fprintf(t->out, "\nSHOULD, no part of the verdict: %s of %d\n", counts_text(counts, text), should_count);
    int count = count_verdicts(t, should_count < t->count, counts);
    if (t->facts->command_failed) {
        fprintf(t->out, "\nThe command failed: ");
        text_terminal(t->out, t->facts->command_text, 4);
        fputc('\n', t->out);
    }
    fputc('\n', t->out);
    print_name(t, like[verdict], run_verdict_name(verdict), 0);
    fprintf(t->out, " (");
    text_terminal(t->out, run_text(t->facts, t->findings, verdict, run), 4);
    fprintf(t->out, "): %s of %d requirement%s\n", counts_text(counts, text), count, count == 1 ? "" : "s");
}

void report_first(const struct run_facts *facts, const struct requirement_verdict verdicts[], int count, FILE *out)
{
    const struct requirement_verdict *first = NULL;
    char location[FINDING_LOCATION_BYTES];
    int most = 0;
    for (int i = 0; i < count; i++) {
        int found = cause_count(verdicts, count, &verdicts[i]);
        bool before = first && first->requirement->must && !verdicts[i].requirement->must;
        bool behind = first && !first->requirement->must && verdicts[i].requirement->must;
        if (found > 0 && !before && (behind || found > most)) {
            first = &verdicts[i];
            most = found;
        }
    }
    if (!first && !facts->command_failed)
        return;
    const char *hint = first ? hint_text(first->worst->hint) : "";
    fprintf(out, "Look first at ");
    if (first)
        fprintf(out, "%s, %s", first->requirement->id, finding_location(first->worst, location));
    if (most > 1)
        fprintf(out, ", the cause by which %d requirements fail", most);
    fputs(first ? ": " : "the command: ", out);
    text_terminal(out, !first ? facts->command_text : hint[0] ? hint : first->worst->text, 4);
    fputc('\n', out);
}

int report_table(const struct run_facts *facts, const struct findings *findings,
                 const struct requirement_verdict verdicts[], int count, FILE *out)
{
    struct table t = {.facts = facts,
                      .findings = findings,
                      .verdicts = verdicts,
                      .count = count,
                      .out = out,
                      .colours = terminal_has_colours(out)};
    const char *group = "";
    print_head(&t);
    for (int i = 0; i < count; i++) {
        if (strcmp(group, verdicts[i].requirement->group) != 0)
            fprintf(out, "\n%s\n", verdicts[i].requirement->group);
        group = verdicts[i].requirement->group;
        print_requirement(&t, &verdicts[i]);
    }
    for (int i = 0; i < count; i++) {
        if (verdicts[i].verdict >= VERDICT_FAIL && verdict_first_of_cause(verdicts, &verdicts[i]) == &verdicts[i])
            print_finding(&t, &verdicts[i]);
    }
    print_end(&t);
    return file_flush(out, "the table");
}
