// SPDX-License-Identifier: Apache-2.0
// One table with a row for each case, as CSV.
#include "results/page/result_report.h"

#include "base/file.h"
#include "base/safe_text.h"

#include <math.h>

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
