// SPDX-License-Identifier: Apache-2.0
// A result file as a page (base/page.h), in HTML and in Markdown.
#include "results/page/result_report.h"

#include "base/page.h"
#include "results/page/result_view.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A row for each record of a kind that has a member; `is`: with this text. Columns are members, as paths.
struct table {
    const char *kind, *has, *is, *title, *heads, *columns;
};

static const struct table tables[] = {
    {"finding", "verdict", "INVALID", "Findings: INVALID", "Verdict|About|Finding", "verdict|kind|text"},
    {"finding", "verdict", "INCOMPLETE", "Findings: INCOMPLETE", "Verdict|About|Finding", "verdict|kind|text"},
    {"finding", "verdict", "VALID", "Findings: VALID", "Verdict|About|Finding", "verdict|kind|text"},
    {"bench", "detail.us_with", NULL, "Links between hosts", "Host|us with each rank", "case|detail.us_with"},
    {"bench", "detail.share_of_alone", NULL, "Pairs of hosts together, across a cut of the network",
     "Case|Share of the rate that a pair has alone, by its ranks", "case|detail.share_of_alone"},
    {"bench", "detail.share_of_device_copy", NULL, "Memory of the device",
     "Benchmark|Case|GB/s|Device copy, GB/s|Share of it",
     "name|case|detail.GB_per_s|detail.device_copy_GB_per_s|detail.share_of_device_copy"},
    {"bench", "detail.efficiency", NULL,
     "Efficiency of a step, by ZeRO-Infinity's model of the lanes measured beside it",
     "Step|Tokens/s|Parameters, gradients|Optimizer states|Activations|Predicted|Measured|Difference",
     "case.what|detail.tokens_per_s|detail.efficiency.params_and_gradients.efficiency|"
     "detail.efficiency.optimizer_states.efficiency|detail.efficiency.activations.efficiency|"
     "detail.efficiency.predicted|detail.efficiency.measured|detail.efficiency.difference"},
    {"requirement", "id", NULL, "Arithmetic", "Verdict|Requirement|Title", "verdict|id|title"},
    {"fit", "model", NULL, "Models that fit", "Model|Preset|Ranks|Fits|Device|of|Host|of|NVMe|of|Reason",
     "model|preset|world|fits|device_bytes|device_available_bytes|host_bytes|host_available_bytes|nvme_bytes|"
     "nvme_available_bytes|reason"},
    {"band", "id", NULL, "Accepted ranges", "Id|At least|At most|Of|Unit|Source",
     "id|at_least|at_most|metric|unit|source"},
    {"part", "name", NULL, "Parts", "Part|From, s|To, s|Budget, s|Status|Signal|Reason|Command",
     "name|begin_s|end_s|budget_s|status|signal|reason|command"},
};

// The member at a path such as "detail.efficiency", which ends at | or where the text does.
static const json_t *member(const json_t *record, const char *path)
{
    char name[64];
    size_t length = strcspn(path, ".|");
    snprintf(name, sizeof name, "%.*s", (int)length, path);
    record = json_object_get(record, name);
    return path[length] == '.' ? member(record, path + length + 1) : record;
}

static json_t *taken(char *text)
{
    json_t *string = text ? json_string(text) : NULL;
    free(text);
    return string;
}

static json_t *cell(const json_t *record, const char *path)
{
    static const char bytes[] = "_bytes", verdict[] = "verdict";
    const json_t *value = member(record, path);
    const char *text = json_string_value(value);
    size_t length = strcspn(path, "|"), tail = strlen(bytes);
    char number[NUMBER_TEXT_BYTES];
    if (json_is_boolean(value))
        return json_pack("{s:s}", verdict, json_is_true(value) ? "yes" : "no");
    if (json_is_number(value) && length > tail && strncmp(path + length - tail, bytes, tail) == 0)
        return json_string(bytes_text(json_number_value(value), number));
    if (json_is_number(value))
        return json_string(number_text(json_number_value(value), number));
    if (json_is_object(value))
        return taken(settings_text(value));
    if (json_is_array(value))
        return taken(command_text(value));
    if (text && strncmp(path, verdict, strlen(verdict)) == 0)
        return json_pack("{s:s}", verdict, text);
    return json_string(!text ? "\u2013" : strcmp(text, "band") == 0 ? "accepted range" : text);
}

static void add_table(struct page *page, const struct result_view *view, const struct table *table)
{
    json_t *rows = json_array();
    for (size_t line = 1; line <= view->file->line_count; line++) {
        const json_t *record = view_record(view, line), *has = member(record, table->has);
        if (!view_is(record, table->kind) || !has ||
            (table->is && strcmp(view_text(record, table->has), table->is) != 0))
            continue;
        json_t *row = json_array();
        for (const char *column = table->columns; column; column = strchr(column, '|')) {
            column += *column == '|';
            page_add(page, row, cell(record, column));
        }
        page_add(page, rows, row);
    }
    page_table(page, table->title, table->heads, rows);
}

// A table for each matrix of what each device writes to each.
static void add_matrices(struct page *page, const struct result_view *view)
{
    for (size_t line = 1; line <= view->file->line_count; line++) {
        json_t *matrix = (json_t *)(uintptr_t)member(view_record(view, line), "detail.GB_per_s_from"), *of, *unused;
        const char *from, *to;
        char heads[1024];
        size_t used = (size_t)snprintf(heads, sizeof heads, "From, to:");
        json_t *rows = json_array();
        json_object_foreach (matrix, from, of) {
            json_t *row = json_pack("[s]", from);
            if (used < sizeof heads)
                used += (size_t)snprintf(heads + used, sizeof heads - used, "|%s", from);
            json_object_foreach (matrix, to, unused)
                page_add(page, row, cell(of, to));
            page_add(page, rows, row);
        }
        page_table(page, "Writes from each GPU's memory to each, GB/s", heads, rows);
    }
}

static void add_machine(struct page *page, const struct result_view *view)
{
    static const char *const objects[] = {"machine", "suite"};
    json_t *rows = json_array();
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        const char *key;
        json_t *value;
        json_object_foreach (json_object_get(view->file->run, objects[i]), key, value) {
            char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
            page_add(page, rows, json_pack("[s, s]", key, json_is_string(value) ? json_string_value(value) : text));
            free(text);
        }
    }
    page_table(page, "Machine and build", "What|Value", rows);
}

static const char *meaning(const char *verdict, bool interrupted)
{
    return interrupted                     ? "the run was interrupted"
           : strcmp(verdict, "VALID") == 0 ? "every result is within its accepted range"
           : strcmp(verdict, OWN_VERDICT) == 0
               ? "every result is within its accepted range, but the ranges are not the default ones: "
           : strcmp(verdict, "INVALID") == 0    ? "these checks failed"
           : strcmp(verdict, "INCOMPLETE") == 0 ? "these checks could not run"
                                                : "measurements only; nothing was judged";
}

static void add_facts(struct page *page, const struct result_view *view, const char *command)
{
    const json_t *run = view->file->run, *end = view->file->end, *suite = json_object_get(run, "suite");
    const json_t *machine = json_object_get(run, "machine");
    char number[NUMBER_TEXT_BYTES];
    page_fact(page, "Command", json_string(command));
    page_fact(page, "Machine",
              page_text("%s, %.0f cores, %.0f threads, %s", view_text(machine, "processor"),
                        view_number(machine, "cores"), view_number(machine, "threads"),
                        bytes_text(view_number(machine, "memory_bytes"), number)));
    page_fact(page, "Suite",
              page_text("zerogauge %s %s%s", view_text(suite, "version"), view_text(suite, "commit"),
                        json_is_true(json_object_get(suite, "dirty")) ? ", with changes" : ""));
    page_fact(page, "Started", json_string(view_text(run, "started")));
    page_fact(page, "Took", page_text("%s s", number_text(view_number(end, "elapsed_s"), number)));
    if (!isnan(view_number(end, "other_load")))
        page_fact(page, "CPU time of other processes", page_text("%.1f %%", 100 * view_number(end, "other_load")));
    if (*view->unranked)
        page_fact(page, "Not ranked", page_text("%s", view->unranked));
    page_fact(page, "Digest", json_string(view_text(end, "digest")));
}

struct page result_page(const struct result_view *view)
{
    char *command = command_text(json_object_get(view->file->run, "command"));
    const json_t *end = view->file->end, *reasons = json_object_get(end, "reasons");
    bool interrupted = strcmp(view_text(end, "status"), "interrupted") == 0;
    struct page page = page_open(json_pack(
        "{s:o, s:o, s:s, s:o}", "title", page_text("%s: %s", view->verdict, command ? command : ""), "heading",
        page_text("%s %s", view_text(view->file->run, "program"), view_text(view->file->run, "level")), "verdict",
        view->verdict, "meaning", page_text("%s%s", meaning(view->verdict, interrupted), view->own_limits)));
    if (reasons)
        page_set(&page, page.data, "reasons", json_copy((json_t *)(uintptr_t)reasons));
    add_facts(&page, view, command);
    free(command);
    page_figures(&page, view);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        add_table(&page, view, &tables[i]);
    add_matrices(&page, view);
    add_machine(&page, view);
    return page;
}

int result_html(const struct result_view *view, FILE *out)
{
    struct page page = result_page(view);
    return page_html(&page, out);
}

int result_markdown(const struct result_view *view, FILE *out)
{
    struct page page = result_page(view);
    return page_markdown(&page, out);
}
