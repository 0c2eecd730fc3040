// SPDX-License-Identifier: Apache-2.0
// Draws when each lane was busy during one sample, one row per lane: rows that are dark at the same time overlap.
#include "results/page/html_part.h"

#include "base/html_page.h"
#include "base/safe_text.h"
#include "results/page/result_text.h"

#include <math.h>
#include <string.h>

enum { LANE_MAX = 16, WIDTH = 1000 };

static const char *const colours[] = {"#2b5d8a", "#146c2e", "#7a5200", "#8b1a85", "#0b7a75", "#b3181c"};

// Lists the lanes in the order of their first interval; returns their number.
static int lanes_of(const json_t *timeline, const char *lanes[LANE_MAX], double *end_ms, double *begin_ms)
{
    int count = 0;
    size_t i;
    const json_t *interval;
    *begin_ms = INFINITY;
    *end_ms = 0;
    json_array_foreach (timeline, i, interval) {
        int lane = 0;
        while (lane < count && strcmp(lanes[lane], view_text(interval, "lane")) != 0)
            lane++;
        if (lane == count && count < LANE_MAX)
            lanes[count++] = view_text(interval, "lane");
        *begin_ms = fmin(*begin_ms, view_number(interval, "begin_ms"));
        *end_ms = fmax(*end_ms, view_number(interval, "end_ms"));
    }
    return count;
}

static double x_of(double ms, double begin_ms, double end_ms)
{
    double share = end_ms > begin_ms ? (ms - begin_ms) / (end_ms - begin_ms) : 0;
    return WIDTH * share;
}

// A name of fixed width, and a bar that fills the rest.
static void put_lane(const json_t *timeline, const char *name, int row, double begin_ms, double end_ms, FILE *out)
{
    size_t i;
    const json_t *interval;
    html_element(out, "span", name);
    fprintf(out, "<svg viewBox=\"0 0 %d 10\" preserveAspectRatio=\"none\"><g fill=\"%s\">", WIDTH,
            colours[(size_t)row % (sizeof colours / sizeof colours[0])]);
    json_array_foreach (timeline, i, interval) {
        if (strcmp(view_text(interval, "lane"), name) != 0)
            continue;
        double from = x_of(view_number(interval, "begin_ms"), begin_ms, end_ms);
        double to = x_of(view_number(interval, "end_ms"), begin_ms, end_ms);
        fprintf(out, "<rect x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"10\"/>", from, fmax(to - from, 1));
    }
    fputs("</g></svg>\n", out);
}

static void put_timeline(const struct bench_view *bench, const json_t *timeline, FILE *out)
{
    const char *lanes[LANE_MAX], *what = view_text(json_object_get(bench->record, "case"), "what");
    double begin_ms, end_ms;
    int count = lanes_of(timeline, lanes, &end_ms, &begin_ms);
    char number[NUMBER_TEXT_BYTES];
    html_format(out, "h3", "%s%s%s", bench->name, *what ? ": " : "", what);
    fputs("\n<p class=\"case faint\">", out);
    text_markup(out, bench->text);
    fputs("</p>\n<div class=\"lanes\">\n", out);
    for (int row = 0; row < count; row++)
        put_lane(timeline, lanes[row], row, begin_ms, end_ms, out);
    fprintf(out, "<span></span><div class=\"axis\"><span>0</span><span>%s ms</span></div>\n</div>\n",
            number_text(end_ms - begin_ms, number));
}

void html_timeline(const struct result_view *view, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < view->bench_count; i++) {
        const json_t *timeline = json_object_get(view->benches[i].record, "timeline");
        if (!timeline)
            continue;
        if (!any)
            fputs("<h2>Overlap</h2>\n", out);
        any = true;
        put_timeline(&view->benches[i], timeline, out);
    }
}
