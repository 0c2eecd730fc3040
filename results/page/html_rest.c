// SPDX-License-Identifier: Apache-2.0
// The tables below the results: findings, requirements, models that fit, accepted ranges, parts, and the machine.
#include "results/page/html_part.h"

#include "base/html_page.h"
#include "base/safe_text.h"
#include "results/page/result_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Opens the section before its first row. heads: column titles, separated by |.
static void open_table(bool *is_open, const char *title, const char *heads, FILE *out)
{
    if (*is_open)
        return;
    *is_open = true;
    html_element(out, "h2", title);
    fputc('\n', out);
    html_table_begin(out, heads);
}

static void close_table(bool is_open, FILE *out)
{
    if (is_open)
        html_table_end(out);
}

static void put_findings(const struct result_view *view, FILE *out)
{
    static const char *const order[] = {"INVALID", "INCOMPLETE", "VALID"};
    bool is_open = false;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        for (size_t line = 1; line <= view->file->line_count; line++) {
            const json_t *finding = view_record(view, line);
            if (!view_is(finding, "finding") || strcmp(view_text(finding, "verdict"), order[i]) != 0)
                continue;
            open_table(&is_open, "Findings", "Verdict|About|Finding", out);
            fputs("<tr><td>", out);
            html_badge(out, order[i]);
            fputs("</td>", out);
            html_element(out, "td", view_finding_kind(finding));
            html_element(out, "td", view_text(finding, "text"));
            fputs("</tr>\n", out);
        }
    }
    close_table(is_open, out);
}

static void put_requirements(const struct result_view *view, FILE *out)
{
    bool is_open = false;
    for (size_t line = 1; line <= view->file->line_count; line++) {
        const json_t *requirement = view_record(view, line);
        if (!view_is(requirement, "requirement"))
            continue;
        open_table(&is_open, "Arithmetic", "Verdict|Requirement|Title", out);
        fputs("<tr><td>", out);
        html_badge(out, view_text(requirement, "verdict"));
        fputs("</td>", out);
        html_element(out, "td", view_text(requirement, "id"));
        html_element(out, "td", view_text(requirement, "title"));
        fputs("</tr>\n", out);
    }
    close_table(is_open, out);
}

static void put_bytes(FILE *out, const json_t *fit, const char *need, const char *available)
{
    char number[NUMBER_TEXT_BYTES];
    fprintf(out, "<td>%s", bytes_text(view_number(fit, need), number));
    if (!isnan(view_number(fit, available)))
        fprintf(out, " of %s", bytes_text(view_number(fit, available), number));
    fputs("</td>", out);
}

static void put_fits(const struct result_view *view, FILE *out)
{
    bool is_open = false;
    for (size_t line = 1; line <= view->file->line_count; line++) {
        const json_t *fit = view_record(view, line), *fits = json_object_get(fit, "fits");
        if (!view_is(fit, "fit"))
            continue;
        open_table(&is_open, "Models that fit", "Model|Preset|Ranks|Fits|Device|Host|NVMe|Reason", out);
        fputs("<tr>", out);
        html_element(out, "td", view_text(fit, "model"));
        html_element(out, "td", view_text(fit, "preset"));
        fprintf(out, "<td>%.0f</td><td>%s</td>", view_number(fit, "world"),
                json_is_true(fits)    ? "<span class=\"badge good\">&#10003; yes</span>"
                : json_is_false(fits) ? "<span class=\"badge bad\">&#10007; no</span>"
                                      : "<span class=\"badge fair\">? unknown</span>");
        put_bytes(out, fit, "device_bytes", "device_available_bytes");
        put_bytes(out, fit, "host_bytes", "host_available_bytes");
        put_bytes(out, fit, "nvme_bytes", "nvme_available_bytes");
        html_element(out, "td", view_text(fit, "reason"));
        fputs("</tr>\n", out);
    }
    close_table(is_open, out);
}

// For each step the efficiency that ZeRO-Infinity's model predicts for each kind of state and for all, and the
// measured.
static void put_efficiency(const struct result_view *view, FILE *out)
{
    static const char *const states[] = {"params_and_gradients", "optimizer_states", "activations"};
    bool is_open = false;
    for (size_t i = 0; i < view->bench_count; i++) {
        const json_t *detail = json_object_get(view->benches[i].record, "detail");
        const json_t *model = json_object_get(detail, "efficiency");
        if (strcmp(view->benches[i].name, "step") != 0 || !json_is_object(model))
            continue;
        open_table(&is_open, "Efficiency of a step, by ZeRO-Infinity's model of the lanes measured beside it",
                   "Step|Tokens/s|Parameters, gradients|Optimizer states|Activations|Predicted|Measured|Difference",
                   out);
        fputs("<tr>", out);
        html_element(out, "td", view_text(json_object_get(view->benches[i].record, "case"), "what"));
        fprintf(out, "<td class=\"number\">%.0f</td>", view_number(detail, "tokens_per_s"));
        for (size_t s = 0; s < sizeof states / sizeof states[0]; s++) {
            double of_state = view_number(json_object_get(model, states[s]), "efficiency");
            fprintf(out, isnan(of_state) ? "<td class=\"number\">&#8211;</td>" : "<td class=\"number\">%.3f</td>",
                    of_state);
        }
        fprintf(out, "<td class=\"number\">%.3f</td><td class=\"number\">%.3f</td><td class=\"number\">%+.3f</td>",
                view_number(model, "predicted"), view_number(model, "measured"), view_number(model, "difference"));
        fputs("</tr>\n", out);
    }
    close_table(is_open, out);
}

// For each result in a device's memory its rate, and the share of the driver's copy within the device.
static void put_device_memory(const struct result_view *view, FILE *out)
{
    bool is_open = false;
    for (size_t i = 0; i < view->bench_count; i++) {
        const struct bench_view *bench = &view->benches[i];
        const json_t *detail = json_object_get(bench->record, "detail");
        if (!json_object_get(detail, "share_of_device_copy"))
            continue;
        open_table(&is_open, "Memory of the device", "Benchmark|Case|GB/s|Device copy, GB/s|Share", out);
        fputs("<tr>", out);
        html_element(out, "td", bench->name);
        html_element(out, "td", bench->text);
        fprintf(out, "<td class=\"number\">%.1f</td><td class=\"number\">%.1f</td><td class=\"number\">%.1f %%</td>",
                view_number(detail, "GB_per_s"), view_number(detail, "device_copy_GB_per_s"),
                100 * view_number(detail, "share_of_device_copy"));
        fputs("</tr>\n", out);
    }
    close_table(is_open, out);
}

static void put_parts(const struct result_view *view, FILE *out)
{
    bool is_open = false;
    for (size_t line = 1; line <= view->file->line_count; line++) {
        const json_t *part = view_record(view, line);
        if (!view_is(part, "part"))
            continue;
        char *command = command_text(json_object_get(part, "command")), number[NUMBER_TEXT_BYTES];
        open_table(&is_open, "Parts", "Part|Time|Budget|Exit|Command", out);
        fputs("<tr>", out);
        html_element(out, "td", view_text(part, "name"));
        fprintf(out, "<td class=\"number\">%s s</td><td class=\"number\">",
                number_text(view_number(part, "end_s") - view_number(part, "begin_s"), number));
        if (!isnan(view_number(part, "budget_s")))
            fprintf(out, "%s s", number_text(view_number(part, "budget_s"), number));
        fputs("</td><td>", out);
        if (!isnan(view_number(part, "signal")))
            fprintf(out, "signal %.0f ", view_number(part, "signal"));
        else if (!isnan(view_number(part, "status")))
            fprintf(out, "status %.0f ", view_number(part, "status"));
        text_markup(out, view_text(part, "reason"));
        fputs("</td><td>", out);
        html_element(out, "code", command);
        fputs("</td></tr>\n", out);
        free(command);
    }
    close_table(is_open, out);
}

static void put_ranges(const struct result_view *view, FILE *out)
{
    bool is_open = false;
    for (size_t line = 1; line <= view->file->line_count; line++) {
        const json_t *range = view_record(view, line);
        char low[NUMBER_TEXT_BYTES] = "", high[NUMBER_TEXT_BYTES] = "";
        if (!view_is(range, "band"))
            continue;
        open_table(&is_open, "Accepted ranges", "Id|At least|At most|Of|Source", out);
        if (!isnan(view_number(range, "at_least")))
            number_text(view_number(range, "at_least"), low);
        if (!isnan(view_number(range, "at_most")))
            number_text(view_number(range, "at_most"), high);
        fputs("<tr>", out);
        html_element(out, "td", view_text(range, "id"));
        fprintf(out, "<td>%s</td><td>%s</td>", low, high);
        html_element(out, "td", *view_text(range, "unit") ? view_text(range, "unit") : view_text(range, "metric"));
        html_element(out, "td", view_text(range, "source"));
        fputs("</tr>\n", out);
    }
    close_table(is_open, out);
}

static void put_machine(const struct result_view *view, FILE *out)
{
    static const char *const objects[] = {"machine", "suite"};
    fputs("<h2>Machine and build</h2>\n<dl class=\"facts\">\n", out);
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        const char *key;
        json_t *value;
        json_object_foreach (json_object_get(view->file->run, objects[i]), key, value) {
            char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
            html_fact(out, key,
                      json_is_string(value) ? json_string_value(value)
                      : json_is_null(value) ? "unknown"
                                            : text);
            free(text);
        }
    }
    fputs("</dl>\n", out);
}

void html_rest(const struct result_view *view, FILE *out)
{
    put_device_memory(view, out);
    put_efficiency(view, out);
    put_findings(view, out);
    put_requirements(view, out);
    put_fits(view, out);
    put_ranges(view, out);
    put_parts(view, out);
    put_machine(view, out);
}
