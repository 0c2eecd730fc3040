// SPDX-License-Identifier: Apache-2.0
#include "conformance/report/report.h"

#include "base/page.h"
#include "conformance/report/report_part.h"

#include <inttypes.h>
#include <string.h>

static void put_fact(struct page *page, const char *label, const char *value)
{
    if (value[0])
        page_fact(page, label, page_text("%s", value));
}

static void put_facts(struct page *page, const struct run_facts *facts, const char *counts, int count)
{
    char text[OBSERVATION_TEXT_BYTES];
    if (facts->command_failed)
        page_fact(page, "The command failed", page_text("%s", facts->command_text));
    page_fact(page, "Verdicts", page_text("%s of %d requirement%s", counts, count, count == 1 ? "" : "s"));
    put_fact(page, "Implementation", facts->implementation);
    put_fact(page, "Version", facts->version);
    put_fact(page, "Level", facts->level);
    page_fact(page, "Seed", page_text("%" PRIu64, facts->seed));
    char extent[COUNTS_TEXT_BYTES];
    page_fact(page, "Ran", page_text("%s", extent_text(facts, extent)));
    page_fact(page, "Command",
              page_text("zerogauge check --level %s %s%s%s", facts->level, facts->part ? facts->part : "",
                        facts->part ? " " : "", facts->command));
    page_fact(page, "Suite", page_text("zerogauge " ZG_VERSION ", suite version %d", facts->suite_version));
    for (const char *const *rule = facts->rules; rule && *rule; rule++)
        put_fact(page, "Rule", *rule);
    for (int i = 0; i < facts->observations.count; i++) {
        const struct observation *observation = &facts->observations.list[i];
        put_fact(page, "Observed", observation_text(observation, text));
        if (!observation->why[0])
            put_fact(page, "Observed", observation_sent_text(observation, text));
    }
    if (facts->observations.count > 0)
        put_fact(page, "Not observed", observation_gap_text);
}

// A line for each cause: the requirement that shows it, how many others fail by it, and the hint or the reason.
static void put_causes(struct page *page, const struct requirement_verdict verdicts[], int count)
{
    for (int i = 0; i < count; i++) {
        const struct requirement_verdict *first = &verdicts[i];
        int others = cause_count(verdicts, count, first) - 1;
        if (others < 0)
            continue;
        const char *hint = hint_text(first->worst->hint);
        page_fact(page, "Cause",
                  page_text("%s and %d more requirement%s: %s", first->requirement->id, others, others == 1 ? "" : "s",
                            hint[0] ? hint : first->worst->text));
    }
}

static json_t *finding_of(struct page *page, const struct run_facts *facts, const struct finding *finding)
{
    char location[FINDING_LOCATION_BYTES], text[DIFFERENCE_TEXT_BYTES], repeat[REPEAT_TEXT_BYTES];
    json_t *lines = json_array();
    if (finding->has_difference) {
        page_add(page, lines, page_text("First: %s", difference_location(finding, text)));
        page_add(page, lines, json_pack("{s:o}", "code", page_text("%s", difference_values(finding, text))));
    }
    if (finding->hint != HINT_NONE)
        page_add(page, lines, page_text("%s", hint_text(finding->hint)));
    if (finding->verdict >= VERDICT_FAIL)
        page_add(page, lines,
                 json_pack("{s:o}", "code", page_text("%s%s", repeat_text(facts, finding, repeat), facts->command)));
    return json_pack(
        "{s:s, s:o, s:o}", "verdict", verdict_name(finding->verdict), "where",
        page_text("%s%s%s", finding_location(finding, location), finding->text[0] ? ": " : "", finding->text), "lines",
        lines);
}

// The findings about a requirement, bad ones first.
static json_t *findings_of(struct page *page, const struct run_facts *facts, const struct findings *findings,
                           const struct requirement *requirement)
{
    json_t *list = json_array();
    for (int good = 0; good < 2; good++)
        for (size_t i = 0; i < findings->count; i++) {
            const struct finding *finding = &findings->list[i];
            if ((finding->verdict < VERDICT_FAIL) == good && finding_serves(finding, requirement))
                page_add(page, list, finding_of(page, facts, finding));
        }
    return list;
}

static json_t *row_of(struct page *page, const struct run_facts *facts, const struct findings *findings,
                      const struct requirement_verdict verdicts[], const struct requirement_verdict *verdict)
{
    const struct requirement *requirement = verdict->requirement;
    char counts[COUNTS_TEXT_BYTES] = "";
    const char *rule, *why = "", *between = verdict->verdict == VERDICT_PARTLY ? ": " : "";
    const struct requirement_verdict *first =
        verdict->verdict >= VERDICT_FAIL ? verdict_first_of_cause(verdicts, verdict) : verdict;
    json_t *rules = json_array();
    for (size_t at = 0; (rule = next_rule(findings, requirement, &at));)
        page_add(page, rules, page_text("%s", rule));
    if (verdict->verdict != VERDICT_UNSUPPORTED)
        counts_text(verdict->counts, counts);
    if (verdict->verdict == VERDICT_UNSUPPORTED || verdict->verdict == VERDICT_PARTLY)
        why = unsupported_text(verdict);
    if (first != verdict) {
        between = "; as ";
        why = first->requirement->id;
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "id", requirement->id, "verdict",
                     verdict_name(verdict->verdict), "level", requirement->must ? "MUST" : "SHOULD", "open",
                     verdict->verdict >= VERDICT_FAIL, "title", page_text("%s", requirement->title), "text",
                     page_text("%.*s", (int)requirement->text_bytes, requirement->text), "findings",
                     findings_of(page, facts, findings, requirement), "counts",
                     page_text("%s%s%s", counts, between, why), "rules", rules);
}

int report_html(const struct run_facts *facts, const struct findings *findings,
                const struct requirement_verdict verdicts[], int count, FILE *out)
{
    enum run_verdict verdict = run_verdict_of(verdicts, count, facts->command_failed);
    const char *name = run_verdict_name(verdict);
    size_t counts[VERDICT_COUNT];
    char text[COUNTS_TEXT_BYTES], run[RUN_TEXT_BYTES];
    struct page page =
        page_open(json_pack("{s:o, s:o, s:s, s:o}", "title", page_text("%s: %s", facts->implementation, name),
                            "heading", page_text("%s %s", facts->implementation, facts->version), "verdict", name,
                            "meaning", page_text("%s", run_text(facts, findings, verdict, run))));
    report_counts(verdicts, count, counts);
    put_facts(&page, facts, counts_text(counts, text), count);
    put_causes(&page, verdicts, count);
    for (int begin = 0, i = 0; begin < count; begin = i) {
        const char *group = verdicts[begin].requirement->group;
        json_t *rows = json_array();
        for (; i < count && strcmp(verdicts[i].requirement->group, group) == 0; i++)
            page_add(&page, rows, row_of(&page, facts, findings, verdicts, &verdicts[i]));
        page_section(&page, "requirements", group, rows);
    }
    return page_html(&page, out);
}
