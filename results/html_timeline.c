// SPDX-License-Identifier: Apache-2.0
// What the lanes did in one sample, one row a lane: where rows are dark at the same time, work overlaps.
#include "html_part.h"

#include "report_text.h"
#include "result_text.h"

#include <math.h>
#include <string.h>

enum { LANE_MAX = 16, ROW_HEIGHT = 30, LABEL_WIDTH = 170, WIDTH = 1000 };

static const char *const colours[] = {"#2b5d8a", "#146c2e", "#7a5200", "#8b1a85", "#0b7a75", "#b3181c"};

// The rows in the order in which they first appear; returns how many.
static int lanes_of(const json_t *timeline, const char *lanes[LANE_MAX], double *end_ms, double *begin_ms)
{
    int count = 0;
    size_t i;
    const json_t *interval;
    *begin_ms = INFINITY;
    *end_ms = 0;
    json_array_foreach(timeline, i, interval) {
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
    return LABEL_WIDTH + (WIDTH - LABEL_WIDTH) * share;
}

static void put_lane(const json_t *timeline, const char *name, int row, double begin_ms, double end_ms, FILE *out)
{
    size_t i;
    const json_t *interval;
    const char *colour = colours[(size_t)row % (sizeof colours / sizeof colours[0])];
    fprintf(out, "<text x=\"0\" y=\"%d\">", row * ROW_HEIGHT + 20);
    text_markup(out, name);
    fprintf(out, "</text><g fill=\"%s\">", colour);
    json_array_foreach(timeline, i, interval) {
        if (strcmp(view_text(interval, "lane"), name) != 0)
            continue;
        double from = x_of(view_number(interval, "begin_ms"), begin_ms, end_ms);
        double to = x_of(view_number(interval, "end_ms"), begin_ms, end_ms);
        fprintf(out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"/>", from, row * ROW_HEIGHT + 4,
                fmax(to - from, 0.5), ROW_HEIGHT - 8);
    }
    fputs("</g>\n", out);
}

static void put_timeline(const struct bench_view *bench, const json_t *timeline, FILE *out)
{
    const char *lanes[LANE_MAX];
    double begin_ms, end_ms;
    int count = lanes_of(timeline, lanes, &end_ms, &begin_ms);
    char number[NUMBER_TEXT_BYTES];
    fputs("<h3>", out);
    text_markup(out, bench->name);
    fputs(": ", out);
    text_markup(out, bench->text);
    fprintf(out, "</h3>\n<div class=\"scroll\"><svg class=\"timeline\" viewBox=\"0 0 %d %d\" role=\"img\" "
                 "style=\"min-width:34rem\" font-size=\"15\">\n<title>What the lanes did</title>\n",
            WIDTH, count * ROW_HEIGHT + 24);
    for (int row = 0; row < count; row++)
        put_lane(timeline, lanes[row], row, begin_ms, end_ms, out);
    fprintf(out, "<text x=\"%d\" y=\"%d\">0</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s ms</text>\n",
            LABEL_WIDTH, count * ROW_HEIGHT + 18, WIDTH, count * ROW_HEIGHT + 18,
            number_text(end_ms - begin_ms, number));
    fputs("</svg></div>\n", out);
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
