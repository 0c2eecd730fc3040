// SPDX-License-Identifier: Apache-2.0
// A result file as metrics in Prometheus' text format, for the textfile collector of its node exporter:
// https://prometheus.io/docs/instrumenting/exposition_formats/
#include "results/page/result_report.h"

#include "base/err.h"
#include "base/file.h"
#include "results/page/result_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void put_type(const char *name, const char *help, FILE *out)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

// A label's value between quotes; backslash, quote and line end are escaped.
static void put_label(const char *name, const char *value, const char *end, FILE *out)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++)
        if (*value == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "%s%c", *value == '\\' || *value == '"' ? "\\" : "", *value);
    fprintf(out, "\"%s", end);
}

static void put_value(double value, FILE *out)
{
    fprintf(out, " %.12g\n", value);
}

static void put_plain(const char *name, const char *help, double value, FILE *out)
{
    if (isnan(value))
        return;
    put_type(name, help, out);
    fputs(name, out);
    put_value(value, out);
}

// Seconds since 1970 of a time such as "2026-01-31T12:00:00Z", which a verified file has.
static double timestamp(const char *text)
{
    struct tm utc = {0};
    return strptime(text, "%Y-%m-%dT%H:%M:%SZ", &utc) ? (double)timegm(&utc) : NAN;
}

static void put_verdict(const struct result_view *view, FILE *out)
{
    static const char *const verdicts[] = {"VALID", "INVALID", "INCOMPLETE"};
    const char *verdict = view_text(view->file->end, "verdict");
    put_type("zerogauge_verdict", "1 for the verdict of the run, 0 for the others", out);
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        fputs("zerogauge_verdict{", out);
        put_label("verdict", verdicts[i], "}", out);
        put_value(strcmp(verdict, verdicts[i]) == 0, out);
    }
}

// A case may occur twice in a file, a metric may not.
static bool is_repeated(const struct result_view *view, size_t index)
{
    const struct bench_view *bench = &view->benches[index];
    for (size_t i = 0; i < index; i++)
        if (strcmp(view->benches[i].name, bench->name) == 0 && strcmp(view->benches[i].text, bench->text) == 0)
            return true;
    return false;
}

static void put_results(const struct result_view *view, const char *name, const char *help, bool ratios, FILE *out)
{
    put_type(name, help, out);
    for (size_t i = 0; i < view->bench_count; i++) {
        const struct bench_view *bench = &view->benches[i];
        double value = ratios ? bench->ratio : bench->median;
        if (isnan(value) || is_repeated(view, i))
            continue;
        fprintf(out, "%s{", name);
        put_label("bench", bench->name, ",", out);
        put_label("case", bench->text, ratios ? "}" : ",", out);
        if (!ratios)
            put_label("unit", bench->unit, "}", out);
        put_value(value, out);
    }
}

static void put_counters(const struct result_view *view, FILE *out)
{
    for (size_t line = 1; line <= view->file->line_count; line++) {
        const json_t *record = view_record(view, line);
        const char *key;
        json_t *counter;
        if (!view_is(record, "health"))
            continue;
        put_type("zerogauge_health", "counters of errors and values of the moment, after the run", out);
        json_object_foreach (json_object_get(record, "counters"), key, counter) {
            if (isnan(view_number(counter, "after")))
                continue;
            fputs("zerogauge_health{", out);
            put_label("counter", key, "}", out);
            put_value(view_number(counter, "after"), out);
        }
    }
}

int result_prometheus(const struct result_view *view, const char *path)
{
    struct file_output output;
    const json_t *end = view->file->end;
    TRY(file_output_open(path, &output));
    FILE *out = output.out;
    put_verdict(view, out);
    put_plain("zerogauge_run_start_timestamp_seconds", "when the run began",
              timestamp(view_text(view->file->run, "started")), out);
    put_plain("zerogauge_run_duration_seconds", "how long the run took", view_number(end, "elapsed_s"), out);
    put_plain("zerogauge_other_load_ratio", "share of processor time that other programs took",
              view_number(end, "other_load"), out);
    put_results(view, "zerogauge_result", "median of the samples of a case, in its unit", false, out);
    put_results(view, "zerogauge_result_ratio", "achieved over baseline; 1 at the baseline, higher is better", true,
                out);
    put_counters(view, out);
    return file_output_close(&output, ERR_NONE);
}
