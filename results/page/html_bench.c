// SPDX-License-Identifier: Apache-2.0
// Draws every result: a bar for the ratio to its baseline, and its samples beside the baseline's.
#include "results/page/html_part.h"

#include "base/html_page.h"
#include "base/safe_text.h"
#include "results/page/result_text.h"

#include <math.h>
#include <string.h>

// All bars have one scale, from 0 to this ratio, so that they can be compared.
static double scale_of(const struct result_view *view)
{
    double most = 1.1;
    for (size_t i = 0; i < view->bench_count; i++)
        most = fmax(most, fmax(view->benches[i].ratio, view->benches[i].at_most));  // fmax leaves NaN out
    return fmin(most, 2);
}

static void put_mark(FILE *out, double at, double scale, const char *colour, const char *dash)
{
    if (!isnan(at) && at <= scale)
        fprintf(out,
                "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"0\" y2=\"10\" stroke=\"%s\" stroke-width=\"1.5\"%s "
                "vector-effect=\"non-scaling-stroke\"/>",
                100 * at / scale, 100 * at / scale, colour, dash);
}

static void put_bar(const struct bench_view *bench, double scale, FILE *out)
{
    if (isnan(bench->ratio))
        return;
    fprintf(out,
            "<svg class=\"bar %s\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\">"
            "<title>%.1f %% of the baseline</title><rect width=\"100\" height=\"10\" fill=\"#eeeeee\"/>"
            "<rect width=\"%.2f\" y=\"1.5\" height=\"7\" fill=\"currentColor\"/>",
            html_class(bench->verdict), 100 * bench->ratio, 100 * fmin(bench->ratio / scale, 1));
    put_mark(out, 1, scale, "#1c1c1c", "");
    put_mark(out, bench->at_least, scale, "#7a5200", " stroke-dasharray=\"3 2\"");
    put_mark(out, bench->at_most, scale, "#7a5200", " stroke-dasharray=\"3 2\"");
    fputs("</svg>\n", out);
}

enum { DRAWN_MAX = 200 };

struct range {
    double low, high;
};

static void widen(struct range *range, const json_t *samples)
{
    size_t i;
    const json_t *sample;
    json_array_foreach (samples, i, sample) {
        range->low = fmin(range->low, json_number_value(sample));
        range->high = fmax(range->high, json_number_value(sample));
    }
}

static double position(double value, const struct range *range)
{
    return range->high > range->low ? 2 + 96 * (value - range->low) / (range->high - range->low) : 50;
}

// Each sample is a short line; many samples at one position add up to a dark spot.
static void put_samples(const json_t *samples, double median, const struct range *range, double top, const char *colour,
                        FILE *out)
{
    // More lines could not be told apart.
    size_t count = json_array_size(samples), step = 1 + count / DRAWN_MAX;
    for (size_t i = 0; i < count; i += step) {
        double x = position(json_number_value(json_array_get(samples, i)), range);
        fprintf(out, "<path d=\"M%.2f %gv4\"/>", x, top);
    }
    fprintf(out, "<path d=\"M%.2f %gv5\" stroke=\"%s\" stroke-opacity=\"1\" style=\"stroke-width:4\"/>",
            position(median, range), top - 0.5, colour);
}

static void put_spread(const struct bench_view *bench, FILE *out)
{
    const json_t *samples = json_object_get(bench->record, "samples");
    const json_t *limit = json_object_get(json_object_get(bench->record, "yardstick"), "samples");
    struct range range = {INFINITY, -INFINITY};
    widen(&range, samples);
    widen(&range, limit);
    fprintf(out,
            "<svg class=\"spread\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\">"
            "<title>%zu samples</title><g stroke-opacity=\"0.6\">"
            "<g class=\"%s\" stroke=\"currentColor\">",
            json_array_size(samples), html_class(bench->verdict));
    put_samples(samples, bench->median, &range, 0.5, "currentColor", out);
    fputs("</g><g stroke=\"#5c5c5c\">", out);
    if (bench->baseline)
        put_samples(limit, bench->baseline_median, &range, 5.5, "#1c1c1c", out);
    fputs("</g></g></svg>\n", out);
}

static void put_figures(const struct bench_view *bench, FILE *out)
{
    char median[NUMBER_TEXT_BYTES], p10[NUMBER_TEXT_BYTES], p90[NUMBER_TEXT_BYTES];
    fprintf(out, "<div class=\"figures\">%s (%s to %s) ", number_text(bench->median, median),
            number_text(bench->p10, p10), number_text(bench->p90, p90));
    text_markup(out, bench->unit);
    if (bench->baseline) {
        fputs("; baseline: ", out);
        text_markup(out, bench->baseline);
        fprintf(out, " %s", number_text(bench->baseline_median, median));
    }
    fputs("</div>\n", out);
}

static void put_row(const struct bench_view *bench, double scale, FILE *out)
{
    fputs("<div class=\"row\"><div class=\"case\">", out);
    text_markup(out, bench->text);
    fprintf(out, "</div><div class=\"share %s\">", html_class(bench->verdict));
    if (!isnan(bench->ratio))
        fprintf(out, "%.3g %%", 100 * bench->ratio);
    fputs("</div><div class=\"chart\">\n", out);
    put_bar(bench, scale, out);
    put_spread(bench, out);
    put_figures(bench, out);
    fputs("</div><div class=\"judged\">", out);
    if (bench->verdict)
        html_badge(out, bench->verdict);
    fputs("</div></div>\n", out);
}

// Draws the judged results, or the others, by benchmark.
static void put_section(const struct result_view *view, bool judged, double scale, FILE *out)
{
    const char *name = "";
    for (size_t i = 0; i < view->bench_count; i++) {
        const struct bench_view *bench = &view->benches[i];
        if ((bench->verdict != NULL) != judged)
            continue;
        if (!*name)
            fprintf(out,
                    "<h2>%s</h2>\n<p class=\"faint\">A bar shows the ratio to the baseline; the solid line is the "
                    "baseline, dashed lines bound the accepted range. Below the bar every sample: the result's with "
                    "its median on top, the baseline's underneath. Above 100 %% a result is faster than its baseline's "
                    "median: by the noise between two moments of one run, or because the work is less than the "
                    "baseline's, as a reduce-scatter writes less than a copy.</p>\n",
                    judged ? "Results with accepted ranges" : "Results without accepted ranges");
        if (strcmp(name, bench->name) != 0) {
            html_element(out, "h3", bench->name);
            fputc('\n', out);
        }
        name = bench->name;
        put_row(bench, scale, out);
    }
}

void html_limits(const struct result_view *view, FILE *out)
{
    put_section(view, true, scale_of(view), out);
    put_section(view, false, scale_of(view), out);
}
