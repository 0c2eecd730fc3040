// SPDX-License-Identifier: Apache-2.0
#include "conformance/report/report.h"

#include "base/err.h"
#include "base/file.h"
#include "conformance/report/report_part.h"
#include "base/html_page.h"
#include "base/safe_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    ":root { color-scheme: light dark; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --faint: #a8a8a8;\n"
    "  --line: #3c3c3c; --good: #6bd089; --near: #6cc5e6; --fair: #e3b45a; --bad: #ff8a87; --broken: #ee94e6; } }\n"
    "th:first-child { width: 9rem; } th:nth-child(2) { width: 7rem; }\n"
    "summary { cursor: pointer; } td ul { padding-left: 1.2rem; margin: .25rem 0; }\n"
    "@media print { summary { list-style: none; } }\n";

struct page {
    const struct run_facts *facts;
    const struct findings *findings;
    FILE *out;
};

static void put_fact(FILE *out, const char *label, const char *value)
{
    if (value[0])
        html_fact(out, label, value);
}

static void put_observation(FILE *out, const struct observation *observation)
{
    char text[OBSERVATION_TEXT_BYTES];
    put_fact(out, "Observed", observation_text(observation, text));
    if (!observation->why[0])
        put_fact(out, "Observed", observation_sent_text(observation, text));
}

static void put_facts(const struct page *page)
{
    const struct run_facts *facts = page->facts;
    FILE *out = page->out;
    fprintf(out, "<dl class=\"facts\">\n");
    put_fact(out, "Implementation", facts->implementation);
    put_fact(out, "Version", facts->version);
    put_fact(out, "Level", facts->level);
    fprintf(out, "<dt>Seed</dt><dd>%" PRIu64 "</dd>\n", facts->seed);
    fprintf(out, "<dt>Ran</dt><dd>%zu cases in %zu launches, %.1f s</dd>\n", facts->case_count, facts->launch_count,
            facts->seconds);
    fprintf(out, "<dt>Command</dt><dd><code>zerogauge check --level ");
    text_markup(out, facts->level);
    fputs(" ", out);
    text_markup(out, facts->part);
    fputs(facts->part ? " " : "", out);
    text_markup(out, facts->command);
    fprintf(out, "</code></dd>\n");
    fprintf(out, "<dt>Suite</dt><dd>zerogauge " ZG_VERSION ", suite version %d</dd>\n", facts->suite_version);
    for (const char *const *rule = facts->rules; rule && *rule; rule++)
        put_fact(out, "Rule", *rule);
    for (int i = 0; i < facts->observations.count; i++)
        put_observation(out, &facts->observations.list[i]);
    if (facts->observations.count > 0)
        put_fact(out, "Not observed", observation_gap_text);
    fprintf(out, "</dl>\n");
}

static void put_summary(const struct page *page, const struct requirement_verdict verdicts[], int count)
{
    const struct run_facts *facts = page->facts;
    FILE *out = page->out;
    enum run_verdict verdict = run_verdict_of(verdicts, count, facts->command_failed);
    const char *name = run_verdict_name(verdict);
    size_t counts[VERDICT_COUNT];
    char text[COUNTS_TEXT_BYTES], run[RUN_TEXT_BYTES];
    report_counts(verdicts, count, counts);
    html_begin(out, style, "%s: %s", facts->implementation, name);
    html_format(out, "h1", "%s %s", facts->implementation, facts->version);
    fprintf(out, "\n<p class=\"verdict %s\"><strong>%s</strong> &#8211; ", html_class(name), name);
    text_markup(out, run_text(facts, page->findings, verdict, run));
    fprintf(out, "</p>\n<p>%s of %d requirement%s</p>\n", counts_text(counts, text), count, count == 1 ? "" : "s");
    if (facts->command_failed) {
        fprintf(out, "<p class=\"broken\">The command failed: ");
        text_markup(out, facts->command_text);
        fprintf(out, "</p>\n");
    }
}

static void put_finding(const struct page *page, const struct finding *finding)
{
    char location[FINDING_LOCATION_BYTES], text[DIFFERENCE_TEXT_BYTES], repeat[REPEAT_TEXT_BYTES];
    FILE *out = page->out;
    fprintf(out, "<li>");
    html_badge(out, verdict_name(finding->verdict));
    fputc(' ', out);
    text_markup(out, finding_location(finding, location));
    if (finding->text[0])
        fprintf(out, ": ");
    text_markup(out, finding->text);
    if (finding->has_difference) {
        fprintf(out, "<br/>First: ");
        text_markup(out, difference_location(finding, text));
        fprintf(out, "<br/>");
        html_element(out, "code", difference_values(finding, text));
    }
    if (finding->hint != HINT_NONE)
        fprintf(out, "<br/>%s", hint_text(finding->hint));
    if (finding->verdict >= VERDICT_FAIL) {
        fprintf(out, "<br/>");
        html_format(out, "code", "%s%s", repeat_text(page->facts, finding, repeat), page->facts->command);
    }
    fprintf(out, "</li>\n");
}

// The findings that are bad, or the others.
static void put_findings(const struct page *page, const struct requirement *requirement, bool bad)
{
    for (size_t i = 0; i < page->findings->count; i++) {
        const struct finding *finding = &page->findings->list[i];
        if ((finding->verdict >= VERDICT_FAIL) == bad && finding_serves(finding, requirement))
            put_finding(page, finding);
    }
}

// text: the requirement's own.
static void put_requirement(const struct page *page, const struct requirement_verdict *verdict, const char *text)
{
    const struct requirement *requirement = verdict->requirement;
    char counts[COUNTS_TEXT_BYTES];
    FILE *out = page->out;
    fprintf(out, "<tr id=\"%s\"><td>", requirement->id);
    html_badge(out, verdict_name(verdict->verdict));
    fprintf(out, "</td><td>%s<br/><span class=\"faint\">%s</span></td><td><details%s>", requirement->id,
            requirement->must ? "MUST" : "SHOULD", verdict->verdict >= VERDICT_FAIL ? " open=\"\"" : "");
    html_element(out, "summary", requirement->title);
    fprintf(out, "\n<ul>\n");
    put_findings(page, requirement, true);
    put_findings(page, requirement, false);
    fprintf(out, "</ul>\n<pre class=\"faint\">");
    text_markup(out, text);
    fprintf(out, "</pre></details></td><td>");
    text_markup(out, verdict->verdict == VERDICT_UNSUPPORTED ? unsupported_text(verdict)
                                                             : counts_text(verdict->counts, counts));
    if (verdict->verdict == VERDICT_PARTLY) {
        fputs(": ", out);
        text_markup(out, unsupported_text(verdict));
    }
    const char *rule;
    for (size_t at = 0; (rule = next_rule(page->findings, requirement, &at));) {
        fprintf(out, "<br/>by ");
        text_markup(out, rule);
    }
    fprintf(out, "</td></tr>\n");
}

int report_html(const struct run_facts *facts, const struct findings *findings,
                const struct requirement_verdict verdicts[], int count, FILE *out)
{
    struct page page = {.facts = facts, .findings = findings, .out = out};
    const char *group = "";
    put_summary(&page, verdicts, count);
    put_facts(&page);
    for (int i = 0; i < count; i++) {
        const struct requirement *requirement = verdicts[i].requirement;
        if (strcmp(group, requirement->group) != 0) {
            if (i > 0)
                html_table_end(out);
            html_element(out, "h2", requirement->group);
            fputc('\n', out);
            html_table_begin(out, "Verdict|Requirement|What it demands|Findings");
        }
        group = requirement->group;
        char *text = strndup(requirement->text, requirement->text_bytes);
        if (!text)
            return err_set(ERR_MEMORY, "no memory for the page");
        put_requirement(&page, &verdicts[i], text);
        free(text);
    }
    if (count > 0)
        html_table_end(out);
    html_end(out);
    return file_flush(out, "the page");
}
