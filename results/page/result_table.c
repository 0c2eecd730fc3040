// SPDX-License-Identifier: Apache-2.0
// Reports as tables: Markdown and CSV.
#include "results/page/result_report.h"

#include "base/file.h"
#include "base/safe_text.h"
#include "results/page/result_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_head(const struct result_view *view, FILE *out)
{
    const json_t *run = view->file->run, *end = view->file->end, *reason;
    const json_t *machine = json_object_get(run, "machine"), *suite = json_object_get(run, "suite");
    char *command = command_text(json_object_get(run, "command")), number[NUMBER_TEXT_BYTES];
    size_t i;
    fprintf(out, "# %s\n\n", view->verdict);
    if (*view->own_limits)
        fprintf(out, "Not by the default accepted ranges: %s.\n\n", view->own_limits);
    if (*view->unranked)
        fprintf(out, "Not ranked: %s.\n\n", view->unranked);
    json_array_foreach (json_object_get(end, "reasons"), i, reason) {
        fputs("- ", out);
        text_markdown(out, json_string_value(reason));
        fputc('\n', out);
    }
    fputs(i > 0 ? "\n" : "", out);
    fputs("| | |\n| --- | --- |\n| command | ", out);
    text_markdown(out, command);
    fputs(" |\n| processor | ", out);
    text_markdown(out, view_text(machine, "processor"));
    fprintf(out, ", %.0f cores, %.0f threads |\n| memory | %s |\n| kernel | ", view_number(machine, "cores"),
            view_number(machine, "threads"), bytes_text(view_number(machine, "memory_bytes"), number));
    text_markdown(out, view_text(machine, "kernel"));
    fputs(" |\n| suite | zerogauge ", out);
    text_markdown(out, view_text(suite, "version"));
    fputc(' ', out);
    text_markdown(out, view_text(suite, "commit"));
    fprintf(out, "%s |\n| started | ", json_is_true(json_object_get(suite, "dirty")) ? ", changed" : "");
    text_markdown(out, view_text(run, "started"));
    fprintf(out, ", took %s s |\n", number_text(view_number(end, "elapsed_s"), number));
    if (!isnan(view_number(end, "other_load")))
        fprintf(out, "| CPU time of other processes | %.1f %% |\n", 100 * view_number(end, "other_load"));
    fputc('\n', out);
    free(command);
}

static void put_bench(const struct bench_view *bench, FILE *out)
{
    char median[NUMBER_TEXT_BYTES], p10[NUMBER_TEXT_BYTES], p90[NUMBER_TEXT_BYTES], limit[NUMBER_TEXT_BYTES];
    fputs("| ", out);
    text_markdown(out, bench->name);
    fputs(" | ", out);
    text_markdown(out, bench->text);
    if (isnan(bench->ratio))
        fputs(" | ", out);
    else
        fprintf(out, " | %.1f %%", 100 * bench->ratio);
    fprintf(out, " | %s | %s to %s | ", number_text(bench->median, median), number_text(bench->p10, p10),
            number_text(bench->p90, p90));
    text_markdown(out, bench->unit);
    fputs(" | ", out);
    if (bench->baseline) {
        text_markdown(out, bench->baseline);
        fprintf(out, " %s", number_text(bench->baseline_median, limit));
    }
    fprintf(out, " | %s |\n", bench->verdict ? bench->verdict : "");
}

static void put_findings(const struct result_view *view, FILE *out)
{
    bool any = false;
    for (size_t line = 1; line <= view->file->line_count; line++) {
        const json_t *finding = view_record(view, line);
        if (!view_is(finding, "finding"))
            continue;
        if (!any)
            fputs("\n## Findings\n\n| verdict | about | finding |\n| --- | --- | --- |\n", out);
        any = true;
        fprintf(out, "| %s | %s | ", view_text(finding, "verdict"), view_finding_kind(finding));
        text_markdown(out, view_text(finding, "text"));
        fputs(" |\n", out);
    }
}

// For each step the efficiency that ZeRO-Infinity's model predicts, and the measured one.
static void put_efficiency(const struct result_view *view, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < view->bench_count; i++) {
        const json_t *detail = json_object_get(view->benches[i].record, "detail");
        const json_t *model = json_object_get(detail, "efficiency");
        if (strcmp(view->benches[i].name, "step") != 0 || !json_is_object(model))
            continue;
        if (!any)
            fputs("\n## Efficiency of a step, by ZeRO-Infinity's model of the lanes measured beside it\n\n"
                  "| step | tokens/s | predicted | measured | difference |\n| --- | ---: | ---: | ---: | ---: |\n",
                  out);
        any = true;
        fputs("| ", out);
        text_markdown(out, view_text(json_object_get(view->benches[i].record, "case"), "what"));
        fprintf(out, " | %.0f | %.3f | %.3f | %+.3f |\n", view_number(detail, "tokens_per_s"),
                view_number(model, "predicted"), view_number(model, "measured"), view_number(model, "difference"));
    }
}

// For each result in a device's memory its rate, and the share of the driver's copy within the device.
static void put_device_memory(const struct result_view *view, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < view->bench_count; i++) {
        const struct bench_view *bench = &view->benches[i];
        const json_t *detail = json_object_get(bench->record, "detail");
        if (!json_object_get(detail, "share_of_device_copy"))
            continue;
        if (!any)
            fputs("\n## Memory of the device\n\n| benchmark | case | GB/s | device copy, GB/s | share |\n"
                  "| --- | --- | ---: | ---: | ---: |\n",
                  out);
        any = true;
        fputs("| ", out);
        text_markdown(out, bench->name);
        fputs(" | ", out);
        text_markdown(out, bench->text);
        fprintf(out, " | %.1f | %.1f | %.1f %% |\n", view_number(detail, "GB_per_s"),
                view_number(detail, "device_copy_GB_per_s"), 100 * view_number(detail, "share_of_device_copy"));
    }
}

int result_markdown(const struct result_view *view, FILE *out)
{
    put_head(view, out);
    if (view->bench_count > 0)
        fputs("## Results\n\n| benchmark | case | ratio | median | 10 % to 90 % | unit | baseline | verdict |\n"
              "| --- | --- | ---: | ---: | --- | --- | --- | --- |\n",
              out);
    for (size_t i = 0; i < view->bench_count; i++)
        put_bench(&view->benches[i], out);
    put_device_memory(view, out);
    put_efficiency(view, out);
    put_findings(view, out);
    return file_flush(out, "the tables");
}

static void put_number(double value, FILE *out)
{
    if (isnan(value))
        fputc(',', out);
    else
        fprintf(out, ",%.9g", value);
}

static void put_field(const char *text, FILE *out)
{
    fputc(',', out);
    text_csv(out, text);
}

int result_csv(const struct result_view *view, bool with_head, FILE *out)
{
    const json_t *run = view->file->run, *machine = json_object_get(run, "machine");
    if (with_head)
        fputs("file,started,processor,run_verdict,benchmark,case,unit,samples,median,p10,p90,yardstick,"
              "yardstick_median,ratio,at_least,at_most,verdict\r\n",
              out);
    for (size_t i = 0; i < view->bench_count; i++) {
        const struct bench_view *bench = &view->benches[i];
        text_csv(out, view->file->path);
        put_field(view_text(run, "started"), out);
        put_field(view_text(machine, "processor"), out);
        put_field(view->verdict, out);
        put_field(bench->name, out);
        put_field(bench->text, out);
        put_field(bench->unit, out);
        put_number((double)json_array_size(json_object_get(bench->record, "samples")), out);
        put_number(bench->median, out);
        put_number(bench->p10, out);
        put_number(bench->p90, out);
        put_field(bench->baseline, out);
        put_number(bench->baseline_median, out);
        put_number(bench->ratio, out);
        put_number(bench->at_least, out);
        put_number(bench->at_most, out);
        put_field(bench->verdict, out);
        fputs("\r\n", out);
    }
    return file_flush(out, "the table");
}
