// SPDX-License-Identifier: Apache-2.0
// One page that needs nothing else: no script, no picture, no address; the same on paper. It is XML, too, so that a
// test can tell whether a text has left its place.
#include "conformance/report/report.h"

#include "base/err.h"
#include "conformance/report/report_part.h"
#include "base/report_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// The policy keeps a page from loading or running anything, whatever might have slipped into it.
static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<meta name=\"color-scheme\" content=\"light dark\"/>\n<style>\n"
    ":root { --ink: #1c1c1c; --paper: #ffffff; --faint: #5c5c5c; --line: #d5d5d5; --good: #146c2e; --near: #0b5a75;\n"
    "  --fair: #7a5200; --bad: #b3181c; --broken: #8b1a85; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --faint: #a8a8a8;\n"
    "  --line: #3c3c3c; --good: #6bd089; --near: #6cc5e6; --fair: #e3b45a; --bad: #ff8a87; --broken: #ee94e6; } }\n"
    "body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; color: var(--ink); background: var(--paper);\n"
    "  font: 1rem/1.5 system-ui, sans-serif; }\n"
    "h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }\n"
    "h1, h2, td, dd, li, p { overflow-wrap: anywhere; }\n"
    ".verdict { border-left: .4rem solid; padding: .5rem 1rem; font-size: 1.2rem; }\n"
    ".PASS, .CONFORMS, .CONFORMS-PARTLY { color: var(--good); } .EQUIVALENT { color: var(--near); }\n"
    ".BOUNDED { color: var(--fair); } .FAIL, .FAILS { color: var(--bad); } .BROKEN { color: var(--broken); }\n"
    ".UNSUPPORTED, .NOTHING-JUDGED, .faint { color: var(--faint); }\n"
    ".badge { font-weight: 600; white-space: nowrap; }\n"
    "dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { color: var(--faint); }\n"
    "dd { margin: 0; }\n"
    "table { border-collapse: collapse; width: 100%; }\n"
    "th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0;\n"
    "  border-top: 1px solid var(--line); }\n"
    "th { color: var(--faint); font-weight: 400; } th:first-child { width: 9rem; } th:nth-child(2) { width: 7rem; }\n"
    "summary { cursor: pointer; } pre, code { font: .875rem/1.45 ui-monospace, monospace; white-space: pre-wrap; }\n"
    "ul { padding-left: 1.2rem; margin: .25rem 0; }\n"
    "@media print { body { margin: 0; max-width: none; font-size: 10pt; } tr, li { break-inside: avoid; }\n"
    "  summary { list-style: none; } }\n"
    "</style>\n";

// A mark beside the word, for those who cannot tell the colours apart.
static const char *const marks[VERDICT_COUNT] = {
    [VERDICT_UNSUPPORTED] = "&#8211;", [VERDICT_PASS] = "&#10003;", [VERDICT_EQUIVALENT] = "&#8776;",
    [VERDICT_BOUNDED] = "~",           [VERDICT_FAIL] = "&#10007;", [VERDICT_BROKEN] = "!",
};

struct page {
    const struct run_facts *facts;
    const struct findings *findings;
    FILE *out;
};

static void put_badge(FILE *out, enum verdict verdict)
{
    const char *name = verdict_name(verdict);
    fprintf(out, "<span class=\"badge %s\">%s %s</span>", name, marks[verdict], name);
}

static void put_element(FILE *out, const char *element, const char *text)
{
    fprintf(out, "<%s>", element);
    text_markup(out, text);
    fprintf(out, "</%s>", element);
}

static void put_fact(FILE *out, const char *label, const char *value)
{
    if (!value[0])
        return;
    fprintf(out, "<dt>%s</dt>", label);
    put_element(out, "dd", value);
    fputc('\n', out);
}

static void put_facts(const struct page *page)
{
    const struct run_facts *facts = page->facts;
    FILE *out = page->out;
    fprintf(out, "<dl>\n");
    put_fact(out, "Implementation", facts->implementation);
    put_fact(out, "Version", facts->version);
    put_fact(out, "Level", facts->level);
    fprintf(out, "<dt>Seed</dt><dd>%" PRIu64 "</dd>\n", facts->seed);
    fprintf(out, "<dt>Ran</dt><dd>%zu cases in %zu launches, %.1f s</dd>\n", facts->case_count, facts->launch_count,
            facts->seconds);
    fprintf(out, "<dt>Command</dt><dd><code>zerogauge check --level ");
    text_markup(out, facts->level);
    fprintf(out, " --seed %" PRIu64 " ", facts->seed);
    text_markup(out, facts->part);
    fputs(facts->part ? " " : "", out);
    text_markup(out, facts->command);
    fprintf(out, "</code></dd>\n");
    put_fact(out, "Suite", "zerogauge " ZG_VERSION);
    for (const char *const *rule = facts->rules; rule && *rule; rule++)
        put_fact(out, "Rule", *rule);
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
    fprintf(out, "<title>");
    text_markup(out, facts->implementation);
    fprintf(out, ": %s</title>\n</head>\n<body>\n<h1>", name);
    text_markup(out, facts->implementation);
    fputc(' ', out);
    text_markup(out, facts->version);
    fprintf(out, "</h1>\n<p class=\"verdict %s\"><strong>%s</strong>: ", name, name);
    text_markup(out, run_text(facts, verdict, run));
    fprintf(out, "</p>\n<p>%s of %d requirement%s</p>\n", counts_text(counts, text), count, count == 1 ? "" : "s");
    if (facts->command_failed) {
        fprintf(out, "<p class=\"BROKEN\">The command ended badly: ");
        text_markup(out, facts->command_text);
        fprintf(out, "</p>\n");
    }
}

static void put_finding(const struct page *page, const struct finding *finding)
{
    char location[FINDING_LOCATION_BYTES], text[DIFFERENCE_TEXT_BYTES], repeat[REPEAT_TEXT_BYTES];
    FILE *out = page->out;
    fprintf(out, "<li>");
    put_badge(out, finding->verdict);
    fputc(' ', out);
    text_markup(out, finding_location(finding, location));
    if (finding->text[0])
        fprintf(out, ": ");
    text_markup(out, finding->text);
    if (finding->has_difference) {
        fprintf(out, "<br/>First: ");
        text_markup(out, difference_location(finding, text));
        fprintf(out, "<br/><code>");
        text_markup(out, difference_values(finding, text));
        fprintf(out, "</code>");
    }
    if (finding->hint != HINT_NONE)
        fprintf(out, "<br/>%s", hint_text(finding->hint));
    if (finding->verdict >= VERDICT_FAIL) {
        fprintf(out, "<br/><code>");
        text_markup(out, repeat_text(page->facts, finding, repeat));
        text_markup(out, page->facts->command);
        fprintf(out, "</code>");
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
    put_badge(out, verdict->verdict);
    fprintf(out, "</td><td>%s<br/><span class=\"faint\">%s</span></td><td><details%s><summary>", requirement->id,
            requirement->must ? "MUST" : "SHOULD", verdict->verdict >= VERDICT_FAIL ? " open=\"\"" : "");
    text_markup(out, requirement->title);
    fprintf(out, "</summary>\n<ul>\n");
    put_findings(page, requirement, true);
    put_findings(page, requirement, false);
    fprintf(out, "</ul>\n<pre class=\"faint\">");
    text_markup(out, text);
    fprintf(out, "</pre></details></td><td>");
    text_markup(out, verdict->verdict == VERDICT_UNSUPPORTED ? unsupported_text(verdict)
                                                             : counts_text(verdict->counts, counts));
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
    fputs(head, out);
    put_summary(&page, verdicts, count);
    put_facts(&page);
    for (int i = 0; i < count; i++) {
        const struct requirement *requirement = verdicts[i].requirement;
        if (strcmp(group, requirement->group) != 0) {
            fprintf(out, "%s", i > 0 ? "</tbody>\n</table>\n" : "");
            put_element(out, "h2", requirement->group);
            fprintf(out, "\n<table>\n<thead><tr><th>Verdict</th><th>Requirement</th><th>What it demands</th>"
                         "<th>Findings</th></tr></thead>\n<tbody>\n");
        }
        group = requirement->group;
        char *text = strndup(requirement->text, requirement->text_bytes);
        if (!text)
            return err_set(ERR_MEMORY, "no memory for the page");
        put_requirement(&page, &verdicts[i], text);
        free(text);
    }
    fprintf(out, "%s</body>\n</html>\n", count > 0 ? "</tbody>\n</table>\n" : "");
    return report_end(out, "the page");
}
